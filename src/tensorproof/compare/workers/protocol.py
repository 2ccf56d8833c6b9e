"""Messages between a campaign and its workers: JSON and raw arrays, no pickles. The two ends may be of different Python versions.

A message is 16 bytes (the length of the JSON text and of all arrays together), the text, and the arrays' bytes one after another;
the text lists their names, types and shapes under `arrays`.
"""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO, cast

import numpy as np

from tensorproof.compare.drawing import Array, Arrays, dtype_of

_HEADER = struct.Struct("<QQ")


def send(stream: BinaryIO, message: dict[str, Any], arrays: Arrays | None = None) -> None:
    """Write one message."""
    listed: list[dict[str, Any]] = []
    blobs: list[bytes] = []
    for name, array in (arrays or {}).items():
        blob = np.ascontiguousarray(array).tobytes()
        listed.append({"name": name, "dtype": array.dtype.name, "shape": list(array.shape), "bytes": len(blob)})
        blobs.append(blob)
    text = json.dumps({**message, "arrays": listed}).encode()
    stream.write(_HEADER.pack(len(text), sum(map(len, blobs))))
    stream.write(text)
    for blob in blobs:
        stream.write(blob)
    stream.flush()


def receive(stream: BinaryIO) -> tuple[dict[str, Any], dict[str, Array]]:
    """Read one message; `EOFError` when the other end is gone."""
    size, total = _HEADER.unpack(_exactly(stream, _HEADER.size))
    message = cast("dict[str, Any]", json.loads(_exactly(stream, size)))
    data = _exactly(stream, total)
    arrays: dict[str, Array] = {}
    offset = 0
    for entry in message.pop("arrays"):
        part = data[offset : offset + entry["bytes"]]
        arrays[entry["name"]] = np.frombuffer(part, dtype_of(entry["dtype"])).reshape(entry["shape"])
        offset += entry["bytes"]
    return message, arrays


def _exactly(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size) if size else b""
    if len(data) < size:
        raise EOFError
    return data
