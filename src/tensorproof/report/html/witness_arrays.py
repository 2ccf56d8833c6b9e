"""The arrays of a witness for people: shape, type, extremes, the first numbers, and a picture of what looks like one."""

from __future__ import annotations

import base64
import json
import struct
import zipfile
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.report.plain_text import name, number

#: Numbers of an array that are shown, arrays of a file, pictures of a batch, and pixels along a side.
FIRST = 8
ARRAYS = 24
PICTURES = 4
SIDE = 192
#: The array that holds the names of the others (`tensorproof.confirm.witness`).
NAMES = "names"
#: Arrays beyond this are told of by their names alone.
LARGEST_FILE = 256 << 20
SMALLEST_SIDE = 8


def witness_arrays(path: str) -> list[dict[str, Any]]:
    """The arrays of an .npz file; nothing for one that cannot be read without running code."""
    try:
        with zipfile.ZipFile(path) as file:
            if sum(entry.file_size for entry in file.infolist()) > LARGEST_FILE:
                return []
        with np.load(path, allow_pickle=False) as arrays:
            listed = _names(arrays[NAMES]) if NAMES in arrays.files else None
            keys = [str(key) for key in arrays.files if listed is None or key != NAMES]
            labels: dict[str, str] = listed or {}
            return [_described(labels.get(key, key), arrays[key]) for key in keys[:ARRAYS]]
    except (OSError, ValueError, zipfile.BadZipFile, zlib.error, EOFError, TypeError):
        return []


def _names(encoded: npt.NDArray[Any]) -> dict[str, str] | None:
    """The names of inputs by those of their arrays; witnesses keep them as JSON, because a name may be anything."""
    if encoded.dtype != np.uint8:
        return None
    names = json.loads(encoded.tobytes())
    return {f"array_{index}": str(text) for index, text in enumerate(names)} if isinstance(names, list) else None


def _described(key: str, array: npt.NDArray[Any]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "name": name(key),
        "shape": " x ".join(map(str, array.shape)) or "scalar",
        "dtype": str(array.dtype),
        "low": "",
        "high": "",
        "first": [],
        "pictures": [],
    }
    if array.dtype.kind not in "fiub" or array.size == 0:
        return told
    numbers = array.astype(np.float64)
    told["low"], told["high"] = number(float(np.min(numbers))), number(float(np.max(numbers)))
    told["first"] = [number(float(value)) for value in numbers.reshape(-1)[:FIRST]]
    told["more"] = max(array.size - FIRST, 0)
    told["pictures"] = [picture_uri(picture) for picture in pictures(numbers)[:PICTURES]]
    return told


def pictures(array: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """The pictures that an array holds, each of height, width and one or three colours; none if it does not look like pictures."""
    if array.ndim == 2:
        array = array[np.newaxis, :, :, np.newaxis]
    elif array.ndim == 4 and array.shape[1] in (1, 3) and array.shape[-1] not in (1, 3):
        array = array.transpose(0, 2, 3, 1)
    if array.ndim != 4 or array.shape[3] not in (1, 3) or min(array.shape[1:3]) < SMALLEST_SIDE:
        return []
    return list(array)


def picture_uri(picture: npt.NDArray[Any]) -> str:
    """A picture as a data URI: its numbers from the smallest to the largest; what is not finite is drawn as the smallest."""
    step = max(1, -(-max(picture.shape[:2]) // SIDE))
    picture = picture[::step, ::step]
    finite = np.isfinite(picture)
    low, high = (float(picture[finite].min()), float(picture[finite].max())) if finite.any() else (0.0, 0.0)
    # Halved first: the width of a range of float64 may not be a float64.
    width = high / 2 - low / 2
    shades = (np.where(finite, picture, low) / 2 - low / 2) / width if width > 0 else np.zeros(picture.shape)
    return f"data:image/png;base64,{base64.b64encode(png(np.rint(shades * 255).astype(np.uint8))).decode()}"


def png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """A PNG file of 8-bit pixels, grey or red, green and blue (PNG specification, third edition: IHDR, IDAT, IEND)."""
    height, width, colours = pixels.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2 if colours == 3 else 0, 0, 0, 0)
    # Each row begins with its filter: none.
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, width * colours)], axis=1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)) + chunk(b"IEND", b"")
