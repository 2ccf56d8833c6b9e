"""ONNX files read so that their large weights stay on the disk, and what is known about the values of a model."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.compare.backends.backend import ModelFacts
from tensorproof.compare.drawing import Array, Arrays
from tensorproof.errors import ModelError
from tensorproof.execute.instrument import reads
from tensorproof.formats import BY_ONNX_CODE, Format

if TYPE_CHECKING:
    import onnx

#: Formats that NumPy has no type of its own for: they cross the border of a session as float32, which holds all their numbers.
CARRIED = {"bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"}
#: Initializers of more bytes than this are kept outside the graph.
_LARGE = 1024
#: From coarse to fine; the first one that a model computes in is its precision.
_COARSE_FIRST = ("float8_e5m2", "float8_e4m3fn", "bfloat16", "float16", "float32", "float64")
_QUANTISED = re.compile(r"Quantize|Integer$|^QLinear|^QGemm|^QAttention|MatMulNBits")
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_ORIGIN = re.compile(r"%(\w+)")


@dataclass(frozen=True)
class WeightlessModel:
    """A model whose large weights are elsewhere: in the file (`folder` is where that lies), or in memory if they were converted."""

    proto: onnx.ModelProto
    #: All large weights; those of a file are mapped, and in memory only while somebody reads them.
    weights: dict[str, Array]
    folder: str
    facts: ModelFacts
    #: Element types of values, by name, as far as they can be inferred.
    types: dict[str, str]


def read_weightless(path: str, precision: str | None) -> WeightlessModel:
    """Read a file, and convert it to another precision if one is named."""
    import onnx

    from tensorproof.frontends.onnx_precision import converted, find_precision
    from tensorproof.frontends.reading import read_onnx

    proto = read_onnx(path)
    folder = Path(path).resolve().parent
    try:
        if proto.functions:
            import onnx.inliner

            onnx.load_external_data_for_model(proto, str(folder))
            proto = onnx.inliner.inline_local_functions(proto)
        if precision is not None:
            onnx.load_external_data_for_model(proto, str(folder))
            proto, _ = converted(proto, find_precision(precision), path=path)
            weights = _taken_out(proto)
        else:
            weights = _left_in_file(proto, Path(path).resolve())
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise ModelError(f"{path}: its weights cannot be read ({_first_line(error)})") from None
    # What protobuf has once allocated it keeps as long as the message lives.
    slim = onnx.ModelProto.FromString(proto.SerializeToString())
    del proto
    give_back()
    types = _types(slim)
    return WeightlessModel(slim, weights, "" if precision is not None else str(folder), _facts(slim, types, weights), types)


def _can_be_outside(tensor: onnx.TensorProto) -> Format | None:
    """The format of a weight that need not stand in the graph."""
    form = BY_ONNX_CODE.get(tensor.data_type)
    if form is None or form.name in CARRIED or form.kind not in ("float", "int", "bool") or form.bits < 8:
        return None
    return form if int(np.prod(tensor.dims)) * form.dtype.itemsize > _LARGE else None


def _large(proto: onnx.ModelProto) -> Iterator[tuple[onnx.TensorProto, Format]]:
    for tensor in proto.graph.initializer:
        form = _can_be_outside(tensor)
        if form is not None:
            yield tensor, form


def _left_in_file(proto: onnx.ModelProto, path: Path) -> dict[str, Array]:
    """Point to large weights where they lie on the disk, byte by byte as they are: nothing of them stays in memory."""
    from onnx.external_data_helper import load_external_data_for_tensor, uses_external_data

    mapped: dict[Path, mmap.mmap] = {}
    found: dict[str, Array] = {}
    start = 0
    for tensor in proto.graph.initializer:
        form = _can_be_outside(tensor)
        if form is None:
            if uses_external_data(tensor):
                load_external_data_for_tensor(tensor, str(path.parent))
            continue
        size = int(np.prod(tensor.dims)) * form.dtype.itemsize
        entries = {entry.key: entry.value for entry in tensor.external_data} if uses_external_data(tensor) else {}
        file = (path.parent / entries.get("location", path.name)).resolve()
        if not file.is_relative_to(path.parent):
            raise ModelError(f"{path}: the weight {tensor.name!r} lies outside the folder of the model")
        if not entries and not tensor.raw_data:
            continue
        if file not in mapped:
            with file.open("rb") as stream:
                mapped[file] = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        offset = int(entries.get("offset", 0))
        if not entries:
            # Weights mostly follow one another.
            offset = mapped[file].find(tensor.raw_data, start)
            offset = offset if offset >= 0 else mapped[file].find(tensor.raw_data)
            if offset < 0 or len(tensor.raw_data) != size:
                continue
            start = offset
        found[tensor.name] = np.frombuffer(mapped[file], form.dtype, size // form.dtype.itemsize, offset).reshape(tensor.dims)
        _point(tensor, file.relative_to(path.parent).as_posix(), offset, size)
    return found


def _taken_out(proto: onnx.ModelProto) -> dict[str, Array]:
    """Large weights as arrays; what is left in the graph says that they are elsewhere."""
    from onnx import numpy_helper

    found: dict[str, Array] = {}
    for tensor, _ in _large(proto):
        found[tensor.name] = np.ascontiguousarray(numpy_helper.to_array(tensor))
        _point(tensor, "weights", 0, found[tensor.name].nbytes)
    return found


def _point(tensor: onnx.TensorProto, location: str, offset: int, size: int) -> None:
    import onnx

    for name in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
        tensor.ClearField(name)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    del tensor.external_data[:]
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(size))):
        tensor.external_data.add(key=key, value=value)


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


def give_back() -> None:
    """Return freed memory to the system, where the C library has a function for that (glibc's `malloc_trim`)."""
    import ctypes
    import gc

    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:200]
