"""Tensors and attributes of TensorFlow's messages as Python values.

Sizes that a tensor claims are checked against the bytes that are there before memory is taken. Attributes are converted
when they are asked for: most of a graph's are never read, and its tensors are the largest part of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tensorproof.errors import ModelError
from tensorproof.frontends.tensorflow_protos import DATA_TYPES
from tensorproof.frontends.tensorflow_records import DataType, FunctionName, TensorShape
from tensorproof.frontends.tensorflow_wire import MappedTensors

#: Elements that a tensor may have beyond those that the file writes out (the last one counts for all that follow): if it is
#: one element over and over, which takes no memory, and otherwise.
MAX_CLAIMED_ELEMENTS = 1 << 28
_MAX_WRITTEN_ELEMENTS = 1 << 24

#: Tensors of one repeated element are one element in memory from this size on.
_LARGE_FILL = 1 << 16

_STRING = DATA_TYPES["STRING"]
_OPAQUE = (DATA_TYPES["RESOURCE"], DATA_TYPES["VARIANT"])
_REFERENCE = 100

_NAMES: dict[str, Any] = {
    "FLOAT": np.float32,
    "DOUBLE": np.float64,
    "HALF": np.float16,
    "BFLOAT16": ml_dtypes.bfloat16,
    "FLOAT8_E5M2": ml_dtypes.float8_e5m2,
    "FLOAT8_E4M3FN": ml_dtypes.float8_e4m3fn,
    "FLOAT8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "FLOAT8_E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
    "FLOAT8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "FLOAT4_E2M1FN": ml_dtypes.float4_e2m1fn,
    "INT2": ml_dtypes.int2,
    "UINT2": ml_dtypes.uint2,
    "INT4": ml_dtypes.int4,
    "UINT4": ml_dtypes.uint4,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "QINT8": np.int8,
    "QINT16": np.int16,
    "QINT32": np.int32,
    "QUINT8": np.uint8,
    "QUINT16": np.uint16,
    "BOOL": np.bool_,
    "COMPLEX64": np.complex64,
    "COMPLEX128": np.complex128,
    "STRING": object,
    "RESOURCE": object,
    "VARIANT": object,
}

#: The elements of tensors by the number of their type; those that are no numbers are objects.
DTYPES: dict[int, np.dtype[Any]] = {DATA_TYPES[name]: np.dtype(element) for name, element in _NAMES.items()}

#: The field of TensorProto that holds elements of a type, where the name does not say it (tensor.proto).
_FIELDS = {
    "FLOAT": "float_val",
    "DOUBLE": "double_val",
    "HALF": "half_val",
    "BFLOAT16": "half_val",
    "STRING": "string_val",
    "COMPLEX64": "scomplex_val",
    "COMPLEX128": "dcomplex_val",
    "INT64": "int64_val",
    "BOOL": "bool_val",
    "UINT32": "uint32_val",
    "UINT64": "uint64_val",
    "RESOURCE": "resource_handle_val",
    "VARIANT": "variant_val",
}
_FIELD_OF_TYPE = {
    code: _FIELDS.get(name, "float8_val" if name.startswith("FLOAT8") else "int_val") for name, code in DATA_TYPES.items()
}


def data_type(code: int) -> DataType:
    """A type of tensors; a reference to one is the type itself."""
    return DataType(code - _REFERENCE if code > _REFERENCE else code)


def tensor_shape(proto: Any) -> TensorShape:
    """A shape, with -1 for unknown sizes."""
    return TensorShape(None if proto.unknown_rank else tuple([max(dimension.size, -1) for dimension in proto.dim]))


def tensor_array(proto: Any, where: str, mapped: MappedTensors | None = None) -> npt.NDArray[Any]:
    """The elements of a TensorProto; `where` is what errors call it, `mapped` has the bytes that stay in the file."""
    code = data_type(proto.dtype).code
    dtype = DTYPES.get(code)
    if dtype is None:
        raise ModelError(f"{where}: a tensor has an unknown type ({proto.dtype})")
    shape = sizes_of(proto.tensor_shape, where)
    count = math.prod(shape)
    content = proto.tensor_content
    if content and code == _STRING:
        if mapped is not None and mapped.length(content) != len(content):
            raise ModelError(f"{where}: a tensor of strings in one piece is too large")
        return split_strings(content, shape, where)
    if content:
        length = len(content) if mapped is None else mapped.length(content)
        if code in _OPAQUE or length != count * dtype.itemsize:
            raise ModelError(f"{where}: a tensor does not have the size of its shape {list(shape)}")
        return np.frombuffer(content, dtype).reshape(shape) if mapped is None else mapped.array(content, dtype, shape)
    values = _elements(getattr(proto, _FIELD_OF_TYPE[code]), code, dtype)
    if len(values) >= count:
        return values[:count].reshape(shape)
    return _filled(values, shape, count, where)


def sizes_of(proto: Any, where: str) -> tuple[int, ...]:
    """The shape of a tensor that is there: all sizes known."""
    shape = tuple([dimension.size for dimension in proto.dim])
    if proto.unknown_rank or any(size < 0 for size in shape):
        raise ModelError(f"{where}: a tensor has an unknown or negative size")
    if len(shape) > 64:
        raise ModelError(f"{where}: a tensor has {len(shape)} dimensions")
    return shape


def _elements(field: Any, code: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The elements that are written out one by one."""
    if code in _OPAQUE:
        return np.empty(len(field), object)
    if code == _STRING:
        strings = np.empty(len(field), object)
        strings[:] = list(field)
        return strings
    if isinstance(field, bytes):
        return np.frombuffer(field, dtype)
    name = _FIELD_OF_TYPE[code]
    if name == "half_val":
        return (np.fromiter(field, np.int64, len(field)) & 0xFFFF).astype(np.uint16).view(dtype)
    if name in ("scomplex_val", "dcomplex_val"):
        parts = np.fromiter(field, np.float32 if name == "scomplex_val" else np.float64, len(field))
        return parts[: len(parts) // 2 * 2].view(dtype)
    if name == "int_val":
        return np.fromiter(field, np.int32, len(field)).astype(dtype)
    return np.fromiter(field, dtype, len(field))


def _filled(values: npt.NDArray[Any], shape: tuple[int, ...], count: int, where: str) -> npt.NDArray[Any]:
    """Fewer elements than the shape has: the last one counts for all that follow; none at all are zeros."""
    single = len(values) <= 1 and values.dtype != np.object_
    if count > (MAX_CLAIMED_ELEMENTS if single else _MAX_WRITTEN_ELEMENTS):
        raise ModelError(f"{where}: a tensor of shape {list(shape)} is claimed by {len(values)} elements")
    if single and count >= _LARGE_FILL:
        return np.broadcast_to(values[0] if len(values) else np.zeros((), values.dtype), shape)
    made = np.zeros(count, values.dtype) if values.dtype != np.object_ else np.full(count, b"", object)
    if len(values):
        made[: len(values)] = values
        made[len(values) :] = values[-1]
    return made.reshape(shape)


def split_strings(content: bytes, shape: tuple[int, ...], where: str, *, gap: int = 0) -> npt.NDArray[Any]:
    """Strings one after the other behind their lengths (variable-length numbers); `gap` bytes stand between the two."""
    count = math.prod(shape)
    if count > len(content):
        raise ModelError(f"{where}: a tensor of strings is shorter than its shape {list(shape)}")
    lengths: list[int] = []
    position = 0
    for _ in range(count):
        length, position = read_varint(content, position, where)
        lengths.append(length)
    position += gap
    if position + sum(lengths) != len(content):
        raise ModelError(f"{where}: a tensor of strings does not have the size of its shape {list(shape)}")
    strings = np.empty(count, object)
    for index, length in enumerate(lengths):
        strings[index] = bytes(content[position : position + length])
        position += length
    return strings.reshape(shape)


def read_varint(data: bytes | memoryview, position: int, where: str) -> tuple[int, int]:
    """A number in protobuf's variable-length form, and the position behind it."""
    value = shift = 0
    while position < len(data) and shift < 64:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise ModelError(f"{where}: a number does not end")


_LISTS: dict[str, Callable[[Any, str], list[Any]]] = {
    "s": lambda field, where: list(field),
    "i": lambda field, where: list(field),
    "f": lambda field, where: list(field),
    "b": lambda field, where: list(field),
    "type": lambda field, where: [data_type(code) for code in field],
    "shape": lambda field, where: [tensor_shape(shape) for shape in field],
    "tensor": lambda field, where: [tensor_array(tensor, where) for tensor in field],
    "func": lambda field, where: [FunctionName(function.name) for function in field],
}


def attribute_value(proto: Any, where: str, mapped: MappedTensors | None = None) -> Any:
    """An AttrValue as a Python value; a placeholder of a generic function is its text in bytes."""
    kind = proto.WhichOneof("value")
    if kind == "type":
        return data_type(proto.type)
    if kind == "shape":
        return tensor_shape(proto.shape)
    if kind == "tensor":
        return tensor_array(proto.tensor, where, mapped)
    if kind == "func":
        return FunctionName(proto.func.name)
    if kind == "placeholder":
        return proto.placeholder.encode()
    if kind == "list" or kind is None:
        given = [(name, field) for name in _LISTS if len(field := getattr(proto.list, name))]
        return [] if not given else _LISTS[given[0][0]](given[0][1], where)
    return getattr(proto, kind)


class Attributes(Mapping[str, Any]):
    """Attributes of a message, converted when they are first asked for."""

    __slots__ = ("_file", "_known", "_mapped", "_owner", "_source")

    def __init__(self, source: Any, owner: str, file: str, mapped: MappedTensors | None = None) -> None:
        self._source = source
        self._mapped = mapped
        self._owner = owner
        self._file = file
        self._known: dict[str, Any] | None = None

    def __getitem__(self, name: str) -> Any:
        known = self._known
        if known is None:
            known = self._known = {}
        elif name in known:
            return known[name]
        # Asking a map of messages for a missing key would add it.
        if name not in self._source:
            raise KeyError(name)
        value = known[name] = attribute_value(self._source[name], f"{self._file}: node {self._owner!r}", self._mapped)
        return value

    def __contains__(self, name: object) -> bool:
        return name in self._source

    def __iter__(self) -> Iterator[str]:
        return iter(self._source)

    def __len__(self) -> int:
        return len(self._source)
