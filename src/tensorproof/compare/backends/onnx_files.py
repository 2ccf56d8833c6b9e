"""ONNX files in ONNX Runtime, OpenVINO and the ONNX reference evaluator: any value of the model, from any others.

Only what leads to the wanted values is run, so that fusions before them happen as in the whole model. The weights of a file are in
memory once, and at most one session is open per file: a model is inspected in about twice its own size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tensorproof.compare.backends.backend import ModelFacts, Unavailable
from tensorproof.compare.drawing import Array, Arrays
from tensorproof.compare.workers.backend_id import BackendId
from tensorproof.errors import ModelError
from tensorproof.execute.instrument import prefix, reads, rounded
from tensorproof.formats import BY_NAME, BY_ONNX_CODE

if TYPE_CHECKING:
    import onnx

Session: TypeAlias = Callable[[Arrays], "list[Array]"]

#: Initializers of more bytes than this are kept outside the graph.
_LARGE = 1024
#: Formats that NumPy has no type of its own for: they cross the border of a session as float32, which holds all their numbers.
_CARRIED = {"bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"}
#: From coarse to fine; the first one that a model computes in is its precision.
_COARSE_FIRST = ("float8_e5m2", "float8_e4m3fn", "bfloat16", "float16", "float32", "float64")
_QUANTISED = re.compile(r"Quantize|Integer$|^QLinear|^QGemm|^QAttention|MatMulNBits")
_OPTIMISATIONS = {"off": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC", "all": "ORT_ENABLE_ALL"}
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_ORIGIN = re.compile(r"%(\w+)")

_open: dict[str, _OnnxFile] = {}


def open_model(backend_id: BackendId, path: str, options: Mapping[str, Any]) -> ModelFacts:
    """Read a file. `options` may ask for another `precision`, and under which `key` the model stays open (its path, if none)."""
    file = _read(path, options.get("precision"))
    _open[str(options.get("key", path))] = file
    return file.facts


def run_model(backend_id: BackendId, path: str, feeds: Arrays, keep: Sequence[str]) -> dict[str, Array]:
    """Values of an open model, from its inputs or from other values of it."""
    file = _open[path]
    found = {name: feeds[name] for name in keep if name in feeds}
    wanted = tuple(name for name in keep if name not in found)
    if wanted:
        found |= file.run(backend_id, feeds, wanted)
    return found


@dataclass
class _OnnxFile:
    """A graph whose large weights are arrays beside it."""

    graph: onnx.ModelProto
    weights: dict[str, Array]
    facts: ModelFacts
    #: Element types of values, by name, as far as they can be inferred.
    types: dict[str, str]
    #: The last session, with what it computes from what.
    session: tuple[object, Session, list[str]] | None = field(default=None, repr=False)

    def run(self, backend: BackendId, feeds: Arrays, wanted: tuple[str, ...]) -> dict[str, Array]:
        key = (backend, frozenset((name, array.shape) for name, array in feeds.items()), wanted)
        if self.session is None or self.session[0] != key:
            # The old one is given up first: two at a time would be twice the memory.
            self.session = None
            self.session = (key, *self._opened(backend, feeds, wanted))
        _, session, names = self.session
        given = {name: self._carried(name, feeds[name]) for name in names}
        results = session(given)
        return {name: self._restored(name, result) for name, result in zip(wanted, results, strict=True)}

    def _carried(self, name: str, array: Array) -> Array:
        wanted = self.types.get(name, array.dtype.name)
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(array.astype(np.float32 if wanted in _CARRIED else BY_NAME[wanted].dtype))

    def _restored(self, name: str, array: Array) -> Array:
        wanted = self.types.get(name)
        return array.astype(BY_NAME[wanted].dtype) if wanted in _CARRIED else np.asarray(array)

    def _opened(self, backend: BackendId, feeds: Arrays, wanted: tuple[str, ...]) -> tuple[Session, list[str]]:
        part = self._part(feeds, wanted)
        names = [entry.name for entry in part.graph.input]
        missing = [name for name in names if name not in feeds]
        if missing:
            raise ModelError(f"no value is given for the input {missing[0]!r}")
        if backend.name == "onnxruntime" and backend.toggle("rounding", "on") == "on":
            low = {name for name, kind in self.types.items() if kind in ("float16", "bfloat16")}
            if low:
                part = rounded(part, low)
        _carry(part, self.types)
        session = {"onnxruntime": _in_onnx_runtime, "openvino": _in_openvino, "onnx-reference": _in_reference}.get(backend.name)
        if session is None:
            raise Unavailable(f"{backend}: does not run ONNX files")
        needed = {name: self.weights[name] for name in (t.name for t in part.graph.initializer) if name in self.weights}
        return session(backend, part, needed), names

    def _part(self, feeds: Arrays, wanted: tuple[str, ...]) -> onnx.ModelProto:
        """The nodes that compute the wanted values from what is given."""
        import onnx

        cut = onnx.ModelProto()
        cut.CopyFrom(self.graph)
        kept = [node for node in cut.graph.node if not any(name in feeds for name in node.output)]
        copies = [type(node).FromString(node.SerializeToString()) for node in kept]
        del cut.graph.node[:]
        cut.graph.node.extend(copies)
        declared = {entry.name for entry in cut.graph.input}
        for name, array in feeds.items():
            if name not in declared:
                kind = BY_NAME[self.types.get(name, array.dtype.name)].onnx_code
                cut.graph.input.append(onnx.helper.make_tensor_value_info(name, kind, array.shape))
        return prefix(cut, wanted)


# -- reading ----------------------------------------------------------------------------------------------------------


def _read(path: str, precision: str | None) -> _OnnxFile:
    import onnx

    from tensorproof.frontends.onnx_precision import converted, find_precision
    from tensorproof.frontends.reading import read_onnx

    proto = read_onnx(path)
    try:
        onnx.load_external_data_for_model(proto, str(Path(path).resolve().parent))
        if proto.functions:
            import onnx.inliner

            proto = onnx.inliner.inline_local_functions(proto)
    except Exception as error:
        raise ModelError(f"{path}: cannot be read ({_first_line(error)})") from None
    if precision is not None:
        proto, _ = converted(proto, find_precision(precision), path=path)
    weights = _taken_out(proto)
    # What protobuf has once allocated it keeps as long as the message lives.
    slim = onnx.ModelProto.FromString(proto.SerializeToString())
    del proto
    types = _types(slim)
    return _OnnxFile(slim, weights, _facts(slim, types, weights), types)


def _taken_out(proto: onnx.ModelProto) -> dict[str, Array]:
    """Move large weights out of the graph; what is left says that they are elsewhere."""
    import onnx
    from onnx import numpy_helper

    found: dict[str, Array] = {}
    for tensor in proto.graph.initializer:
        form = BY_ONNX_CODE.get(tensor.data_type)
        if form is None or form.name in _CARRIED or form.kind not in ("float", "int", "bool") or form.bits < 8:
            continue
        if max(len(tensor.raw_data), tensor.ByteSize()) <= _LARGE:
            continue
        found[tensor.name] = np.ascontiguousarray(numpy_helper.to_array(tensor))
        for name in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
            tensor.ClearField(name)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        del tensor.external_data[:]
        tensor.external_data.add(key="location", value="weights")
        # The runtime looks at sizes before it asks for the arrays.
        tensor.external_data.add(key="offset", value="0")
        tensor.external_data.add(key="length", value=str(found[tensor.name].nbytes))
    return found


def _types(proto: onnx.ModelProto) -> dict[str, str]:
    import onnx

    try:
        inferred = onnx.shape_inference.infer_shapes(proto)
    except Exception:  # inference refuses models that runtimes accept
        inferred = proto
    found: dict[str, str] = {}
    for entry in (*inferred.graph.value_info, *inferred.graph.output, *inferred.graph.input):
        form = BY_ONNX_CODE.get(entry.type.tensor_type.elem_type)
        if form is not None:
            found[entry.name] = form.name
    return found


def _facts(proto: onnx.ModelProto, types: Mapping[str, str], weights: Arrays) -> ModelFacts:
    graph = proto.graph
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [entry for entry in graph.input if entry.name not in constants]
    moving = {entry.name for entry in inputs}
    values: list[str] = []
    operators: dict[str, str] = {}
    read_by: dict[str, tuple[str, ...]] = {}
    places: dict[str, dict[str, Any]] = {}
    for node in graph.node:
        operands = tuple(dict.fromkeys(name for name in reads(node) if name in moving))
        if not operands:
            continue
        place = _place(node)
        for name in filter(None, node.output):
            moving.add(name)
            values.append(name)
            operators[name] = f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
            read_by[name] = operands
            places[name] = place
    listed = tuple(
        (entry.name, types.get(entry.name, "float32"), tuple(d.dim_value or None for d in entry.type.tensor_type.shape.dim))
        for entry in inputs
    )
    outputs = tuple(entry.name for entry in graph.output)
    return ModelFacts(listed, outputs, tuple(values), operators, read_by, places, _precision(proto, types, weights))


def _place(node: onnx.NodeProto) -> dict[str, Any]:
    """The user's line and module that PyTorch's exporter leaves at a node, and the node of its program."""
    found: dict[str, Any] = {"node": node.name}
    metadata = {entry.key: entry.value for entry in node.metadata_props}
    for match in _FRAME.finditer(metadata.get("pkg.torch.onnx.stack_trace", "")):
        # Inner frames come last; those of torch itself are not the user's.
        if "/torch/" not in match["file"] or "line" not in found:
            found |= {"file": match["file"], "line": int(match["line"])}
    scopes = re.findall(r"'([^']*)'", metadata.get("pkg.torch.onnx.name_scopes", ""))
    if len(scopes) >= 2:
        found["module"] = scopes[-2]
    origin = _ORIGIN.match(metadata.get("pkg.torch.onnx.fx_node", ""))
    if origin is not None:
        found["origin"] = origin[1]
    return found


def _precision(proto: onnx.ModelProto, types: Mapping[str, str], weights: Arrays) -> str:
    """The coarsest format that something is computed in."""
    if any(_QUANTISED.search(node.op_type) for node in proto.graph.node):
        return "int8"
    computed = {*types.values(), *(array.dtype.name for array in weights.values())}
    return next((name for name in _COARSE_FIRST if name in computed), "float32")


def _carry(proto: onnx.ModelProto, types: Mapping[str, str]) -> None:
    """Let formats without a type of NumPy cross the border as float32."""
    import onnx

    nodes: list[onnx.NodeProto] = []
    for entry in proto.graph.input:
        if types.get(entry.name) in _CARRIED:
            entry.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
            inner = f"{entry.name}.uncarried"
            for node in proto.graph.node:
                node.input[:] = [inner if name == entry.name else name for name in node.input]
            nodes.append(onnx.helper.make_node("Cast", [entry.name], [inner], to=BY_NAME[types[entry.name]].onnx_code))
    nodes.extend(type(node).FromString(node.SerializeToString()) for node in proto.graph.node)
    for entry in proto.graph.output:
        if types.get(entry.name) in _CARRIED:
            carried = f"{entry.name}.carried"
            nodes.append(onnx.helper.make_node("Cast", [entry.name], [carried], to=onnx.TensorProto.FLOAT))
            entry.CopyFrom(onnx.helper.make_tensor_value_info(carried, onnx.TensorProto.FLOAT, None))
    if len(nodes) > len(proto.graph.node):
        del proto.graph.node[:]
        proto.graph.node.extend(nodes)


# -- runtimes ---------------------------------------------------------------------------------------------------------


def _in_onnx_runtime(backend: BackendId, proto: onnx.ModelProto, weights: Arrays) -> Session:
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
    held = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in weights.items()}
    if held:
        options.add_external_initializers(list(held), list(held.values()))
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def run(feeds: Arrays) -> list[Array]:
        assert held is not None  # the session reads the arrays where they are
        return [np.asarray(result) for result in session.run(None, dict(feeds))]

    return run


def _in_openvino(backend: BackendId, proto: onnx.ModelProto, weights: Arrays) -> Session:
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


def _in_reference(backend: BackendId, proto: onnx.ModelProto, weights: Arrays) -> Session:
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


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:200]
