"""TensorFlow's checkpoints without TensorFlow: the values of variables, mapped into memory.

A checkpoint is an index, a table of keys in the format of LevelDB (blocks of prefix-compressed keys, footer with a magic
number), and files of data. The key "" holds the header, each other key the place of a tensor (tensor_bundle.proto). Nothing
outside of the folder of the model is opened, whatever links lie in it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import ModelError
from tensorproof.frontends.tensorflow_protos import DATA_TYPES, message_class
from tensorproof.frontends.tensorflow_tensors import DTYPES, data_type, read_varint, sizes_of, split_strings
from tensorproof.ranges.weight_cache import Origin, placed

#: The last bytes of a table (LevelDB, table_format.md).
_MAGIC = 0xDB4775248B80FB57
_FOOTER = 48
_TRAILER = 5

#: Blocks and tensors of up to this many bytes are checked against their checksum; Python would take too long over more.
_CHECKED = 1 << 13
_LARGEST_INDEX = 1 << 28


class Checkpoint:
    """The tensors of a checkpoint by their keys. `prefix` is its path without `.index`, `folder` what it may not leave."""

    def __init__(self, prefix: Path, folder: Path) -> None:
        self.prefix = prefix
        self._folder = folder.resolve()
        self._shards: dict[int, tuple[npt.NDArray[np.uint8], Origin | None]] = {}
        self._name = str(prefix)
        self._entries: dict[str, bytes] = {}
        for key, value in self._table():
            self._entries[key] = value
        header = self._parsed("BundleHeaderProto", self._entries.pop("", b""))
        if header.endianness != 0:
            raise ModelError(f"{self._name}.index: numbers in big-endian order are not read")
        self._shard_count: int = max(header.num_shards, 1)

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def keys(self) -> list[str]:
        """The names of the tensors."""
        return list(self._entries)

    def is_sliced(self, key: str) -> bool:
        """Whether a tensor is kept in pieces, which are not put together here."""
        return len(self._parsed("BundleEntryProto", self._entries[key]).slices) > 0

    def value(self, key: str) -> npt.NDArray[Any]:
        """A tensor, mapped into memory; strings are copied."""
        entry = self._parsed("BundleEntryProto", self._entries[key])
        where = f"{self._name}: tensor {key!r}"
        code = data_type(entry.dtype).code
        dtype = DTYPES.get(code)
        shape = sizes_of(entry.shape, where)
        if entry.slices:
            raise ModelError(f"{where}: it is kept in slices, which are not read")
        if dtype is None or (dtype.kind == "O" and code != DATA_TYPES["STRING"]):
            raise ModelError(f"{where}: tensors of type {entry.dtype} are not read")
        if code != DATA_TYPES["STRING"] and math.prod(shape) * dtype.itemsize != entry.size:
            raise ModelError(f"{where}: it does not have the size of its shape {list(shape)}")
        if entry.size == 0:
            return np.zeros(shape, dtype)
        content, origin = self._shard(entry.shard_id)
        if entry.offset < 0 or entry.size < 0 or entry.offset + entry.size > len(content):
            raise ModelError(f"{where}: it lies beyond the end of its file")
        data = content[entry.offset : entry.offset + entry.size]
        if code == DATA_TYPES["STRING"]:
            # Four bytes of checksum stand between the lengths and the strings.
            return split_strings(data.tobytes(), shape, where, gap=4)
        if entry.size <= _CHECKED and _masked_checksum(data.tobytes()) != entry.crc32c:
            raise ModelError(f"{where}: it is corrupt (its checksum is wrong)")
        return placed(data.view(dtype).reshape(shape), origin, entry.offset)

    def _shard(self, number: int) -> tuple[npt.NDArray[np.uint8], Origin | None]:
        if number not in self._shards:
            if not 0 <= number < self._shard_count:
                raise ModelError(f"{self._name}.index: a tensor is in part {number} of {self._shard_count}")
            path = self._inside(Path(f"{self._name}.data-{number:05d}-of-{self._shard_count:05d}"))
            if not path.is_file():
                raise ModelError(f"{path}: this part of the checkpoint is missing")
            try:
                content = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.zeros(0, np.uint8)
            except OSError as error:
                raise ModelError(f"{path}: cannot be read ({error.strerror or error})") from None
            self._shards[number] = content, Origin.of(path)
        return self._shards[number]

    def _inside(self, path: Path) -> Path:
        if not path.resolve().is_relative_to(self._folder):
            raise ModelError(f"{path}: points outside the model's folder")
        return path

    def _parsed(self, name: str, data: bytes) -> Any:
        from google.protobuf.message import DecodeError

        try:
            return message_class(name).FromString(data)
        except DecodeError:
            raise ModelError(f"{self._name}.index: not a checkpoint, or damaged (an entry does not parse)") from None

    def _table(self) -> Iterator[tuple[str, bytes]]:
        """The keys and values of the index."""
        path = self._inside(Path(f"{self._name}.index"))
        try:
            if path.stat().st_size > _LARGEST_INDEX:
                raise ModelError(f"{path}: too large for the index of a checkpoint")
            data = path.read_bytes()
        except OSError as error:
            raise ModelError(f"{path}: cannot be read ({error.strerror or error})") from None
        if len(data) < _FOOTER or struct.unpack_from("<Q", data, len(data) - 8)[0] != _MAGIC:
            raise ModelError(f"{path}: not the index of a checkpoint, or cut off")
        footer = data[-_FOOTER:]
        position = 0
        for _ in range(2):  # where the table's metadata is, which nothing is needed of
            _, position = read_varint(footer, position, str(path))
        seen = 0
        for _, place in _block(data, *_handle(footer, position, path), path):
            offset, size = _handle(place, 0, path)
            seen += size
            if seen > len(data):
                raise ModelError(f"{path}: damaged (its blocks overlap)")
            for key, value in _block(data, offset, size, path):
                try:
                    yield key.decode(), value
                except UnicodeDecodeError:
                    # Slices of partitioned tensors have keys in a binary code; the tensor's own entry lists them.
                    continue


def _handle(data: bytes, position: int, path: Path) -> tuple[int, int]:
    """Where a block is: offset and size."""
    offset, position = read_varint(data, position, str(path))
    size, _ = read_varint(data, position, str(path))
    return offset, size


def _block(data: bytes, offset: int, size: int, path: Path) -> Iterator[tuple[bytes, bytes]]:
    """The entries of a block; each key repeats a number of bytes of the one before it."""
    end = offset + size
    if size < 4 or end + _TRAILER > len(data):
        raise ModelError(f"{path}: damaged (a block lies beyond the end of the file)")
    if data[end] != 0:
        raise ModelError(f"{path}: its index is compressed, which is not read")
    if size <= _CHECKED and _masked_checksum(data[offset : end + 1]) != struct.unpack_from("<I", data, end + 1)[0]:
        raise ModelError(f"{path}: damaged (a checksum is wrong)")
    restarts = struct.unpack_from("<I", data, end - 4)[0]
    limit = end - 4 - 4 * restarts
    if limit < offset:
        raise ModelError(f"{path}: damaged (a block has more restarts than bytes)")
    block = data[offset:limit]
    key, position = b"", 0
    while position < len(block):
        shared, position = read_varint(block, position, str(path))
        own, position = read_varint(block, position, str(path))
        length, position = read_varint(block, position, str(path))
        if shared > len(key) or position + own + length > len(block):
            raise ModelError(f"{path}: damaged (an entry leaves its block)")
        key = key[:shared] + block[position : position + own]
        position += own + length
        yield key, block[position - length : position]


@cache
def _checksums() -> tuple[int, ...]:
    """The table of CRC-32C (Castagnoli; RFC 3720, appendix B.4), reflected polynomial 0x82F63B78."""
    table: list[int] = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return tuple(table)


def _masked_checksum(data: bytes) -> int:
    """CRC-32C of the bytes, rotated and shifted as LevelDB stores it."""
    table, register = _checksums(), 0xFFFFFFFF
    for byte in data:
        register = register >> 8 ^ table[(register ^ byte) & 0xFF]
    register ^= 0xFFFFFFFF
    return ((register >> 15 | register << 17) + 0xA282EAD8) & 0xFFFFFFFF
