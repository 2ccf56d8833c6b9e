"""ONNX files in ONNX Runtime, OpenVINO and the ONNX reference evaluator: any value of the model, from any others.

Only what leads to the wanted values is run, so that fusions before them happen as in the whole model. The weights of a file stay on
the disk, and at most one session is open per file: a model is inspected in about twice its own size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tensorproof.compare.backends.backend import ModelFacts, Unavailable, given_or_computed
from tensorproof.compare.backends.onnx_reading import CARRIED, WeightlessModel, give_back, read_weightless
from tensorproof.compare.drawing import Array, Arrays
from tensorproof.compare.workers.backend_id import BackendId
from tensorproof.errors import ModelError
from tensorproof.execute.instrument import prefix, rounded
from tensorproof.formats import BY_NAME

if TYPE_CHECKING:
    import onnx

Session: TypeAlias = Callable[[Arrays], "list[Array]"]

_OPTIMISATIONS = {"off": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC", "all": "ORT_ENABLE_ALL"}

_open: dict[str, _OnnxFile] = {}


def open_model(backend_id: BackendId, path: str, options: Mapping[str, Any]) -> ModelFacts:
    """Read a file. `options` may ask for another `precision`, and under which `key` the model stays open (its path, if none)."""
    file = _OnnxFile(read_weightless(path, options.get("precision")))
    _open[str(options.get("key", path))] = file
    return file.model.facts


def run_model(backend_id: BackendId, path: str, feeds: Arrays, keep: Sequence[str]) -> dict[str, Array]:
    """Values of an open model, from its inputs or from other values of it."""
    file = _open[path]
    return given_or_computed(feeds, keep, lambda wanted: file.run(backend_id, feeds, wanted))


@dataclass
class _OnnxFile:
    """A model, and the last session of it."""

    model: WeightlessModel
    #: The last session, with what it computes from what.
    session: tuple[object, Session, list[str]] | None = field(default=None, repr=False)

    def run(self, backend: BackendId, feeds: Arrays, wanted: tuple[str, ...]) -> dict[str, Array]:
        key = (backend, frozenset((name, array.shape) for name, array in feeds.items()), wanted)
        if self.session is None or self.session[0] != key:
            # The old one is given up first: two at a time would be twice the memory.
            self.session = None
            give_back()
            self.session = (key, *self._opened(backend, feeds, wanted))
        _, session, names = self.session
        given = {name: self._carried(name, feeds[name]) for name in names}
        results = session(given)
        return {name: self._restored(name, result) for name, result in zip(wanted, results, strict=True)}

    def _carried(self, name: str, array: Array) -> Array:
        wanted = self.model.types.get(name, array.dtype.name)
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(array.astype(np.float32 if wanted in CARRIED else BY_NAME[wanted].dtype))

    def _restored(self, name: str, array: Array) -> Array:
        wanted = self.model.types.get(name)
        return array.astype(BY_NAME[wanted].dtype) if wanted in CARRIED else np.asarray(array)

    def _opened(self, backend: BackendId, feeds: Arrays, wanted: tuple[str, ...]) -> tuple[Session, list[str]]:
        part = self._part(feeds, wanted)
        names = [entry.name for entry in part.graph.input]
        missing = [name for name in names if name not in feeds]
        if missing:
            raise ModelError(f"no value is given for the input {missing[0]!r}")
        if backend.name == "onnxruntime" and _rounds(backend):
            low = {name for name, kind in self.model.types.items() if kind in ("float16", "bfloat16")}
            if low:
                part = rounded(part, low)
        _carry(part, self.model.types)
        session = {"onnxruntime": _in_onnx_runtime, "openvino": _in_openvino, "onnx-reference": _in_reference}.get(backend.name)
        if session is None:
            raise Unavailable(f"{backend}: does not run ONNX files")
        needed = {name: self.model.weights[name] for name in (t.name for t in part.graph.initializer) if name in self.model.weights}
        return session(backend, part, needed, self.model.folder), names

    def _part(self, feeds: Arrays, wanted: tuple[str, ...]) -> onnx.ModelProto:
        """The nodes that compute the wanted values from what is given."""
        import onnx

        cut = onnx.ModelProto()
        cut.CopyFrom(self.model.proto)
        kept = [node for node in cut.graph.node if not any(name in feeds for name in node.output)]
        copies = [type(node).FromString(node.SerializeToString()) for node in kept]
        del cut.graph.node[:]
        cut.graph.node.extend(copies)
        declared = {entry.name for entry in cut.graph.input}
        for name, array in feeds.items():
            if name not in declared:
                kind = BY_NAME[self.model.types.get(name, array.dtype.name)].onnx_code
                cut.graph.input.append(onnx.helper.make_tensor_value_info(name, kind, array.shape))
        return prefix(cut, wanted)


def _rounds(backend: BackendId) -> bool:
    """Whether every 16-bit value is rounded, as the model says, where ONNX Runtime on a CPU would keep some in float32."""
    return backend.toggle("rounding", "on") == "on"


def _carry(proto: onnx.ModelProto, types: Mapping[str, str]) -> None:
    """Let formats without a type of NumPy cross the border as float32."""
    import onnx

    nodes: list[onnx.NodeProto] = []
    for entry in proto.graph.input:
        if types.get(entry.name) in CARRIED:
            entry.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
            inner = f"{entry.name}.uncarried"
            for node in proto.graph.node:
                node.input[:] = [inner if name == entry.name else name for name in node.input]
            nodes.append(onnx.helper.make_node("Cast", [entry.name], [inner], to=BY_NAME[types[entry.name]].onnx_code))
    nodes.extend(type(node).FromString(node.SerializeToString()) for node in proto.graph.node)
    for entry in proto.graph.output:
        if types.get(entry.name) in CARRIED:
            carried = f"{entry.name}.carried"
            nodes.append(onnx.helper.make_node("Cast", [entry.name], [carried], to=onnx.TensorProto.FLOAT))
            entry.CopyFrom(onnx.helper.make_tensor_value_info(carried, onnx.TensorProto.FLOAT, None))
    if len(nodes) > len(proto.graph.node):
        del proto.graph.node[:]
        proto.graph.node.extend(nodes)


# -- runtimes ---------------------------------------------------------------------------------------------------------


def _in_onnx_runtime(backend: BackendId, proto: onnx.ModelProto, weights: Arrays, folder: str) -> Session:
    try:
        import onnxruntime as ort
    except ImportError as error:
        raise Unavailable(f"{backend}: {error}") from None
    options = ort.SessionOptions()
    level = backend.toggle("optimisation", "all")
    if level not in _OPTIMISATIONS:
        raise Unavailable(f"{backend}: optimisation is {', '.join(_OPTIMISATIONS)}")
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, _OPTIMISATIONS[level])
    options.intra_op_num_threads = int(backend.toggle("threads", "1"))
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.enable_cpu_mem_arena = False
    held: dict[str, Any] = {}
    if folder:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
    else:
        held = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in weights.items()}
    if held:
        options.add_external_initializers(list(held), list(held.values()))
    # Identities are what rounds 16-bit values (`rounded`); the optimiser would take them out.
    kept = ["EliminateIdentity"] if _rounds(backend) else None
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"], disabled_optimizers=kept)

    def run(feeds: Arrays) -> list[Array]:
        assert held is not None  # the session may read the arrays where they are
        return [np.asarray(result) for result in session.run(None, dict(feeds))]

    return run


def _in_openvino(backend: BackendId, proto: onnx.ModelProto, weights: Arrays, folder: str) -> Session:
    try:
        import openvino
    except ImportError as error:
        raise Unavailable(f"{backend}: {error}") from None
    import io

    # bf16 is the default where the processor has it: rounding of its own, that nobody asked for.
    settings = {"INFERENCE_PRECISION_HINT": backend.toggle("precision", "f32"), "INFERENCE_NUM_THREADS": 1}
    core: Any = openvino.Core()
    _fill(proto, weights)
    compiled: Any = core.compile_model(core.read_model(io.BytesIO(proto.SerializeToString())), "CPU", settings)

    def run(feeds: Arrays) -> list[Array]:
        results = compiled([feeds[entry.name] for entry in proto.graph.input])
        return [np.array(results[index]) for index in range(len(proto.graph.output))]

    return run


def _in_reference(backend: BackendId, proto: onnx.ModelProto, weights: Arrays, folder: str) -> Session:
    try:
        from onnx.reference import ReferenceEvaluator
    except ImportError as error:
        raise Unavailable(f"{backend}: {error}") from None
    _fill(proto, weights)
    evaluator = ReferenceEvaluator(proto)

    def run(feeds: Arrays) -> list[Array]:
        with np.errstate(all="ignore"):
            results: Any = evaluator.run(None, dict(feeds))
        return [np.asarray(result) for result in results]

    return run


def _fill(proto: onnx.ModelProto, weights: Arrays) -> None:
    """Put the weights back into the graph, for runtimes that cannot share them."""
    from onnx import numpy_helper

    for tensor in proto.graph.initializer:
        if tensor.name in weights:
            tensor.CopyFrom(numpy_helper.from_array(weights[tensor.name], tensor.name))
