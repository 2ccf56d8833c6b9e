"""Large TensorFlow files without a copy of their weights: the protobuf is read without them, and they stay in the file.

The wire format is walked down to the tensors of attributes (`onnx_wire` says how). The bytes of each large one are left out
of what is parsed; a token that no file can know stands in their place, and says where in the file they are.
"""

from __future__ import annotations

import secrets
from mmap import ACCESS_READ, mmap
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tensorproof.frontends.onnx_wire import LENGTH_DELIMITED, Field, length_delimited, walked_fields
from tensorproof.ranges.weight_cache import Numbers, Origin, placed

#: Tensors of fewer bytes stay in the protobuf.
SMALLEST_TENSOR = 1 << 16

_TOKEN = 16
_CONTENT = "content"

#: The way from a message to the bytes of tensors: the messages that fields hold, by their numbers.
_WAYS: dict[str, dict[int, str]] = {
    "SavedModel": {2: "MetaGraphDef"},
    "MetaGraphDef": {2: "GraphDef"},
    "GraphDef": {1: "NodeDef", 2: "FunctionDefLibrary"},
    "FunctionDefLibrary": {1: "FunctionDef"},
    "FunctionDef": {3: "NodeDef"},
    "NodeDef": {5: "NodeDef.AttrEntry"},
    "NodeDef.AttrEntry": {2: "AttrValue"},
    "AttrValue": {8: "TensorProto"},
    "TensorProto": {4: _CONTENT},
}


class MappedTensors:
    """The bytes of the large tensors of a file, which stay where they are."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._token = secrets.token_bytes(_TOKEN)
        self._places: list[tuple[int, int]] = []
        self._content: npt.NDArray[np.uint8] | None = None
        self._origin: Origin | None = None

    def without_tensors(self, kind: str) -> bytes:
        """The file, a message of that kind, with tokens for its large tensors; raises NotWalkable for what is none."""
        self._origin = Origin.of(self._path)
        with self._path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as mapped, memoryview(mapped) as data:
            whole = Field(0, LENGTH_DELIMITED, 0, 0, len(data))
            return b"".join(self._rest(data, whole, kind))

    def _rest(self, data: memoryview, message: Field, kind: str) -> list[bytes | memoryview]:
        """The content of a message; runs of fields that stay as they are are one piece."""
        ways = _WAYS[kind]
        pieces: list[bytes | memoryview] = []
        kept_from = message.content
        for field in walked_fields(data, message.content, message.end):
            inner = ways.get(field.number)
            if inner is None or field.kind != LENGTH_DELIMITED or field.end - field.content < SMALLEST_TENSOR:
                continue
            pieces.append(data[kept_from : field.start])
            if inner == _CONTENT:
                pieces += length_delimited(field.number, [self._token + len(self._places).to_bytes(8, "little")])
                self._places.append((field.content, field.end))
            else:
                pieces += length_delimited(field.number, self._rest(data, field, inner))
            kept_from = field.end
        pieces.append(data[kept_from : message.end])
        return pieces

    def length(self, content: bytes) -> int:
        """How many bytes a tensor has: those given, or those that a token stands for."""
        place = self._place(content)
        return len(content) if place is None else place[1] - place[0]

    def array(self, content: bytes, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> Numbers:
        """The elements, without a copy."""
        place = self._place(content)
        if place is None:
            return np.frombuffer(content, dtype).reshape(shape)
        if self._content is None:
            self._content = np.memmap(self._path, np.uint8, "r")
        return placed(self._content[place[0] : place[1]].view(dtype).reshape(shape), self._origin, place[0])

    def _place(self, content: bytes) -> tuple[int, int] | None:
        if len(content) != _TOKEN + 8 or not content.startswith(self._token):
            return None
        return self._places[int.from_bytes(content[_TOKEN:], "little")]
