"""Large ONNX files without a copy of their weights: the protobuf is read without them, and they stay in the file.

The wire format is walked only as far as the initialisers of the graph (encoding of Protocol Buffers; field numbers of
onnx.proto). Each large `raw_data` is left out of what is parsed; its tensor says instead that its data is external, in the
file itself, at the offset where the bytes stand. To every reader this is an ordinary model with external data.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import onnx

#: Data of fewer bytes stays in the protobuf.
SMALLEST_TENSOR = 1 << 16

_MODEL_GRAPH = 7
_GRAPH_INITIALIZER = 5
_TENSOR_RAW_DATA = 9
LENGTH_DELIMITED = 2


class NotWalkable(Exception):
    """The bytes are no message that is walked here; the protobuf library has the last word on them."""


class Field(NamedTuple):
    """One field of a message: its number and wire type, where it starts, and where its content starts and ends."""

    number: int
    kind: int
    start: int
    content: int
    end: int


def without_weights(data: memoryview, file_name: str) -> bytes:
    """A serialised model in which large tensors refer to `file_name`, whose content is `data`."""
    pieces: list[bytes | memoryview] = []
    for field in walked_fields(data, 0, len(data)):
        if field.number == _MODEL_GRAPH and field.kind == LENGTH_DELIMITED:
            pieces += length_delimited(_MODEL_GRAPH, _graph(data, field, file_name))
        else:
            pieces.append(data[field.start : field.end])
    return b"".join(pieces)


def _graph(data: memoryview, graph: Field, file_name: str) -> list[bytes | memoryview]:
    """The content of a graph; runs of fields that stay as they are are one piece."""
    pieces: list[bytes | memoryview] = []
    kept_from = graph.content
    for field in walked_fields(data, graph.content, graph.end):
        if field.number != _GRAPH_INITIALIZER or field.kind != LENGTH_DELIMITED or field.end - field.content < SMALLEST_TENSOR:
            continue
        tensor = _reference(data, field, file_name)
        if tensor is not None:
            pieces.append(data[kept_from : field.start])
            pieces += length_delimited(_GRAPH_INITIALIZER, [tensor])
            kept_from = field.end
    pieces.append(data[kept_from : graph.end])
    return pieces


def _reference(data: memoryview, tensor: Field, file_name: str) -> bytes | None:
    """A tensor that says where its data stands; None if its data is small or not plain."""
    import onnx

    raw = [f for f in walked_fields(data, tensor.content, tensor.end) if f.number == _TENSOR_RAW_DATA]
    if len(raw) != 1 or raw[0].kind != LENGTH_DELIMITED or raw[0].end - raw[0].content < SMALLEST_TENSOR:
        return None
    rest = b"".join((data[tensor.content : raw[0].start], data[raw[0].end : tensor.end]))
    proto: onnx.TensorProto = onnx.TensorProto.FromString(rest)
    if proto.data_location == onnx.TensorProto.EXTERNAL or proto.external_data or proto.segment.ByteSize():
        return None
    proto.data_location = onnx.TensorProto.EXTERNAL
    numbers = {"offset": raw[0].content, "length": raw[0].end - raw[0].content}
    for key, value in {"location": file_name, **numbers}.items():
        proto.external_data.add(key=key, value=str(value))
    return proto.SerializeToString()


def length_delimited(number: int, pieces: list[bytes | memoryview]) -> list[bytes | memoryview]:
    """A length-delimited field."""
    return [_varint(number << 3 | LENGTH_DELIMITED), _varint(sum(map(len, pieces))), *pieces]


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def walked_fields(data: memoryview, position: int, end: int) -> Iterator[Field]:
    """The fields of a message, in order."""
    while position < end:
        start = position
        tag, position = _read_varint(data, position, end)
        kind = tag & 7
        if kind == LENGTH_DELIMITED:
            length, position = _read_varint(data, position, end)
        elif kind == 0:
            _, after = _read_varint(data, position, end)
            length = after - position
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise NotWalkable("groups are not walked")
        content, position = position, position + length
        if position > end or tag >> 3 == 0:
            raise NotWalkable("a field leaves its message")
        yield Field(tag >> 3, kind, start, content, position)


def _read_varint(data: memoryview, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while position < end and shift < 64:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise NotWalkable("a number does not end")
