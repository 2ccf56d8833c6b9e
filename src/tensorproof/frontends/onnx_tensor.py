"""Tensors of ONNX files as arrays: data of the protobuf, data in files beside it, sparse tensors.

Sizes that a tensor claims are checked against the bytes that are there before memory is taken, and external data may only
lie beside the model file, where it stays: it is mapped into memory, and nothing is read before it is used.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tensorproof.errors import ModelError
from tensorproof.formats import BY_ONNX_CODE, STRING, Format
from tensorproof.ranges.weight_cache import Origin, placed

if TYPE_CHECKING:
    import onnx

#: Tensors that a few bytes of the file could claim (sparse ones, for example) may not be larger than this.
MAX_CLAIMED_ELEMENTS = 1 << 28


class Place(NamedTuple):
    """Where external data stands: the content of its file, and the first and the number of its bytes there."""

    content: npt.NDArray[np.uint8]
    origin: Origin | None
    offset: int
    length: int

    def data(self) -> npt.NDArray[np.uint8]:
        """The bytes, mapped."""
        return self.content[self.offset : self.offset + self.length]


class Tensors:
    """Reads the tensors of one model; `name` is what errors call it, `path` where its external data is looked for."""

    def __init__(self, name: str, path: str | None) -> None:
        self.name = name
        self.file = None if path is None else Path(path).resolve()
        self._files: dict[Path, tuple[npt.NDArray[np.uint8], Origin | None]] = {}

    def array(self, proto: onnx.TensorProto) -> npt.NDArray[Any]:
        """The elements of a tensor."""
        import onnx.numpy_helper

        format = self._format(proto)
        if proto.data_location == type(proto).EXTERNAL:
            return self._external(proto, format)
        try:
            array = onnx.numpy_helper.to_array(proto)
        except Exception as error:  # to_array raises ValueError, TypeError and others for data that does not fit
            raise ModelError(f"{self.name}: tensor {proto.name!r} is corrupt ({first_line(error)})") from None
        return array if format is not STRING else array.astype(object)

    def embed(self, proto: onnx.TensorProto) -> None:
        """Make external data part of its tensor."""
        if proto.data_location == type(proto).EXTERNAL:
            place = self.place(proto)
            del proto.external_data[:]
            proto.ClearField("data_location")
            proto.raw_data = place.data().tobytes()

    def _format(self, proto: onnx.TensorProto) -> Format:
        format = BY_ONNX_CODE.get(proto.data_type)
        if format is None:
            raise ModelError(f"{self.name}: tensor {proto.name!r} has an unknown element type {proto.data_type}")
        if any(d < 0 for d in proto.dims):
            raise ModelError(f"{self.name}: tensor {proto.name!r} has a negative dimension")
        return format

    def place(self, proto: onnx.TensorProto) -> Place:
        """Where the data of an external tensor stands; everything that the file says about it is checked."""
        format = self._format(proto)
        entries = {entry.key: entry.value for entry in proto.external_data}
        location = entries.get("location", "")
        if self.file is None:
            raise ModelError(f"{self.name}: tensor {proto.name!r} is external, but the model has no path")
        relative = Path(location)
        target = (self.file.parent / relative).resolve()
        if not location or relative.is_absolute() or ".." in relative.parts or not target.is_relative_to(self.file.parent):
            raise ModelError(f"{self.name}: tensor {proto.name!r} points outside the model's folder ({location!r})")
        if not target.is_file():
            raise ModelError(f"{self.name}: external data file {location!r} of tensor {proto.name!r} is missing")
        try:
            offset = int(entries.get("offset", "0") or 0)
        except ValueError:
            raise ModelError(f"{self.name}: tensor {proto.name!r} has a broken offset") from None
        count = _count(proto.dims)
        length = (count * format.bits + 7) // 8 if _is_packed(format) else count * format.dtype.itemsize
        if format is STRING or offset < 0 or offset + length > target.stat().st_size:
            raise ModelError(f"{self.name}: external data of tensor {proto.name!r} exceeds the file {location!r}")
        if target == self.file and entries.get("length") != str(length):
            raise ModelError(f"{self.name}: tensor {proto.name!r} is corrupt (its data does not have the size of its shape)")
        if length == 0:
            return Place(np.zeros(0, np.uint8), None, 0, 0)
        if target not in self._files:
            self._files[target] = np.memmap(target, np.uint8, "r"), Origin.of(target)
        return Place(*self._files[target], offset, length)

    def _external(self, proto: onnx.TensorProto, format: Format) -> npt.NDArray[Any]:
        """A view into a file beside the model (or into the model file itself)."""
        place = self.place(proto)
        shape = tuple(proto.dims)
        if _is_packed(format):
            return _unpack(np.array(place.data()), format, shape)
        return placed(place.data().view(format.dtype).reshape(shape), place.origin, place.offset)

    def dense(self, proto: onnx.SparseTensorProto) -> npt.NDArray[Any]:
        """A sparse tensor made dense (ONNX SparseTensorProto: linear indices, or one row of coordinates per value)."""
        name = proto.values.name
        if any(d < 0 for d in proto.dims) or _count(proto.dims) > MAX_CLAIMED_ELEMENTS:
            raise ModelError(f"{self.name}: sparse tensor {name!r} is too large to be made dense")
        values, indices = self.array(proto.values), self.array(proto.indices)
        dense = np.zeros(tuple(proto.dims), values.dtype)
        try:
            if indices.ndim == 2:
                dense[tuple(indices.T)] = values
            else:
                dense.reshape(-1)[indices] = values
        except (IndexError, ValueError):
            raise ModelError(f"{self.name}: sparse tensor {name!r} has indices outside its shape") from None
        return dense


def first_line(error: Exception) -> str:
    """What an exception says, short enough for one line."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def _is_packed(format: Format) -> bool:
    """Whether several elements share a byte."""
    return format.bits < 8 and format.kind in ("int", "float")


def _count(dims: Iterable[int]) -> int:
    count = 1
    for d in dims:
        count *= d
    return count


def _unpack(raw: npt.NDArray[np.uint8], format: Format, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Packed 2- and 4-bit elements, the first in the low bits (ONNX TensorProto)."""
    per_byte = 8 // format.bits
    shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(format.bits)
    codes = ((raw[:, None] >> shifts) & np.uint8(2**format.bits - 1)).reshape(-1)[: _count(shape)]
    return codes.astype(np.uint8).view(format.dtype).reshape(shape)
