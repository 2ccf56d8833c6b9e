"""Messages between a campaign and its workers: JSON and raw arrays, no pickles. The two ends may be of different Python versions.

A message is 24 bytes (a mark, the length of the JSON text and of all arrays together), the text, and the arrays' bytes one after
another; the text lists their names, types and shapes under `arrays`.
"""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO, cast

import numpy as np

from tensorproof.compare.drawing import Array, Arrays, dtype_of

_HEADER = struct.Struct("<8sQQ")
_MARK = b"tensor01"
HEADER_SIZE = _HEADER.size


class Garbled(Exception):
    """What was read is no message."""


def pack(message: dict[str, Any], arrays: Arrays | None = None) -> bytes:
    """A message as bytes."""
    listed: list[dict[str, Any]] = []
    blobs: list[bytes] = []
    for name, array in (arrays or {}).items():
        blob = np.ascontiguousarray(array).tobytes()
        listed.append({"name": name, "dtype": array.dtype.name, "shape": list(array.shape), "bytes": len(blob)})
        blobs.append(blob)
    text = json.dumps({**message, "arrays": listed}).encode()
    return b"".join([_HEADER.pack(_MARK, len(text), sum(map(len, blobs))), text, *blobs])


def body_size(header: bytes) -> int:
    """How many bytes follow a header; `Garbled` if it is none."""
    mark, size, total = _HEADER.unpack(header)
    if mark != _MARK:
        raise Garbled("an answer does not start with its mark")
    return size + total


def unpack(header: bytes, body: bytes | bytearray | memoryview) -> tuple[dict[str, Any], dict[str, Array]]:
    """The message of a header and what follows it."""
    _, size, _ = _HEADER.unpack(header)
    message = cast("dict[str, Any]", json.loads(bytes(body[:size])))
    arrays: dict[str, Array] = {}
    offset = size
    for entry in message.pop("arrays"):
        part = bytes(body[offset : offset + entry["bytes"]])
        arrays[entry["name"]] = np.frombuffer(part, dtype_of(entry["dtype"])).reshape(entry["shape"])
        offset += entry["bytes"]
    return message, arrays


def send(stream: BinaryIO, message: dict[str, Any], arrays: Arrays | None = None) -> None:
    """Write one message."""
    stream.write(pack(message, arrays))
    stream.flush()


def receive(stream: BinaryIO) -> tuple[dict[str, Any], dict[str, Array]]:
    """Read one message; `EOFError` when the other end is gone."""
    header = _exactly(stream, _HEADER.size)
    return unpack(header, _exactly(stream, body_size(header)))


def _exactly(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size) if size else b""
    if len(data) < size:
        raise EOFError
    return data
