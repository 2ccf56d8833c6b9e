"""What was found out about constants, remembered: in memory as long as the constant lives, and on disk.

A constant is known by the memory that it lies in, together with its place, shape, strides and format, so that a view of it
shares what was found. On disk it is known by the file that it was read from: its path, size, times of change and inode, and
the offset of its first byte. A file that changed within the last seconds before it was read is not trusted to show another
change by its times; nothing about it is kept on disk. Files of the cache that are broken are ignored.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import sys
import time
import weakref
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tensorproof.files import write_bytes
from tensorproof.formats import Array

Numbers = npt.NDArray[Any]
Found = tuple[Array, ...]
_Object = TypeVar("_Object")

#: Written into every file: another number after any change to what is computed or how it is kept.
VERSION = 2
#: Smaller constants are looked at anew each time: that is cheaper than to remember them.
SMALLEST = 1 << 12
#: The folder of the cache keeps at most this many bytes; the files that were used longest ago are deleted first.
FOLDER_LIMIT = 256 << 20
#: What was found out about one model may take this many bytes on disk.
FILE_LIMIT = 64 << 20
#: A file whose last change is this recent may change again without another time of change.
SETTLED_SECONDS = 2.0

_MAGIC = b"tensorproof weights\n"


@dataclass(frozen=True, slots=True)
class Origin:
    """The file that constants were read from, as it was then."""

    path: str
    identity: tuple[int, ...]

    @classmethod
    def of(cls, path: str | Path) -> Origin | None:
        """The file as it is now; None if it changed so recently that a change to come might not show."""
        path = Path(path).resolve()
        try:
            stat = path.stat()
        except OSError:
            return None
        if time.time() - max(stat.st_mtime, stat.st_ctime) < SETTLED_SECONDS:
            return None
        return cls(str(path), (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, stat.st_dev))

    def is_current(self) -> bool:
        """Whether the file is still what it was."""
        try:
            stat = Path(self.path).stat()
        except OSError:
            return False
        return self.identity == (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, stat.st_dev)


@dataclass(slots=True)
class _Memory:
    """What is known of the arrays that lie in one piece of memory."""

    owner: weakref.ref[Numbers]
    found: dict[Any, Found] = field(default_factory=dict[Any, Found])
    objects: dict[Any, Any] = field(default_factory=dict[Any, Any])
    origin: Origin | None = None
    offset: int = 0


@dataclass(slots=True)
class _Place:
    """Where an array lies: a piece of memory, the bytes from its begin, and all that tells it from others there."""

    array: weakref.ref[Numbers]
    memory: _Memory
    start: int
    key: Any


_memories: dict[int, _Memory] = {}
_places: dict[int, _Place] = {}


def cached(array: Numbers, what: str, compute: Callable[[], Found]) -> Found:
    """What `compute` finds out about an array, computed once.

    The arrays that it gives are kept as they are and must not be changed. `what` names the computation; its result may
    depend on the array alone.
    """
    if array.size < SMALLEST:
        return compute()
    place = _place_of(array)
    memory = place.memory
    key = what, place.key
    found = memory.found.get(key)
    if found is not None:
        return found
    if memory.origin is None or _folder is None:
        found = memory.found[key] = compute()
        return found
    shelf = _shelf_of(memory.origin)
    name = f"{what} {memory.offset + place.start} {array.shape} {array.strides} {array.dtype.name}"
    found = shelf.get(name)
    if found is None:
        found = compute()
        shelf.put(name, found)
    memory.found[key] = found
    return found


def remembered(array: Numbers, what: Any, compute: Callable[[], _Object]) -> _Object:
    """An object that depends on an array alone, computed once and kept in memory as long as the array lives."""
    if array.size < SMALLEST:
        return compute()
    place = _place_of(array)
    objects, key = place.memory.objects, (what, place.key)
    known = objects.get(key)
    if known is None:
        known = objects[key] = compute()
    return known


def placed(array: Numbers, origin: Origin | None, offset: int) -> Numbers:
    """The same array, of which is known that its bytes stand at this offset of a file."""
    if origin is not None and array.size >= SMALLEST:
        place = _place_of(array)
        place.memory.origin, place.memory.offset = origin, offset - place.start
    return array


def _owner(array: Numbers) -> Numbers:
    base = array.base
    while isinstance(base, np.ndarray):
        array, base = base, base.base
    return array


def _place_of(array: Numbers) -> _Place:
    number = id(array)
    place = _places.get(number)
    if place is None or place.array() is not array:
        owner = _owner(array)
        start = _address(array) - _address(owner)
        key = start, array.shape, array.strides, array.dtype
        # As with memories, the entry goes with the array.
        reference = weakref.ref(array, lambda _: _places.pop(number, None))
        place = _places[number] = _Place(reference, _memory_of(owner), start, key)
    return place


def _address(array: Numbers) -> int:
    return array.__array_interface__["data"][0]


def _memory_of(owner: Numbers) -> _Memory:
    number = id(owner)
    memory = _memories.get(number)
    if memory is None or memory.owner() is not owner:
        # The entry goes with the array: another one may get its number and its address.
        memory = _memories[number] = _Memory(weakref.ref(owner, lambda _: _memories.pop(number, None)))
    return memory


# -- on disk ----------------------------------------------------------------------------------------------------------


def default_folder() -> Path | None:
    """Where the platform keeps caches, or what TENSORPROOF_CACHE says (empty: nowhere)."""
    named = os.environ.get("TENSORPROOF_CACHE")
    if named is not None:
        return Path(named) if named else None
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return None if not base else Path(base) / "tensorproof" / "cache"
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "tensorproof"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "tensorproof"


_folder: Path | None = None
_shelves: dict[Origin, _Shelf] = {}


def use_cache(folder: str | Path | None) -> None:
    """Keep what is found out about weights in this folder as well (None: in memory alone, as at the start)."""
    global _folder
    _folder = None if folder is None else Path(folder)
    _shelves.clear()


def save() -> None:
    """Write what is new to the folder of the cache. A folder that cannot be written costs time, nothing else."""
    changed = [shelf for shelf in _shelves.values() if shelf.changed]
    for shelf in changed:
        shelf.save()
    if changed and _folder is not None:
        _tidy(_folder)


class _Shelf:
    """What is known of the constants of one file."""

    def __init__(self, origin: Origin, path: Path) -> None:
        self.origin = origin
        self.path = path
        self.changed = False
        self._entries: dict[str, Found] = {}
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            self._entries = _decoded(path.read_bytes(), origin)

    def get(self, name: str) -> Found | None:
        return self._entries.get(name)

    def put(self, name: str, found: Found) -> None:
        self._entries[name] = found
        self.changed = True

    def save(self) -> None:
        self.changed = False
        if not self.origin.is_current():
            return
        data = _encoded(self._entries, self.origin)
        if len(data) <= FILE_LIMIT:
            with contextlib.suppress(OSError):
                write_bytes(self.path, data)


def _shelf_of(origin: Origin) -> _Shelf:
    shelf = _shelves.get(origin)
    if shelf is None:
        assert _folder is not None
        name = hashlib.sha256(origin.path.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        shelf = _shelves[origin] = _Shelf(origin, _folder / f"{name}.weights")
    return shelf


def _encoded(entries: dict[str, Found], origin: Origin) -> bytes:
    """A line that says what this is, the length and checksum of the rest, a table in JSON, and the numbers."""
    table = {name: [list(part.shape) for part in found] for name, found in entries.items()}
    header = {"version": VERSION, "path": origin.path, "identity": origin.identity, "entries": table}
    text = json.dumps(header).encode()
    # The numbers begin at a multiple of eight bytes.
    text += b" " * (-(len(_MAGIC) + 16 + len(text)) % 8)
    numbers = b"".join(np.ascontiguousarray(part, "<f8").tobytes() for found in entries.values() for part in found)
    rest = len(text).to_bytes(8, "little") + text + numbers
    return _MAGIC + zlib.crc32(rest).to_bytes(8, "little") + rest


def _decoded(data: bytes, origin: Origin) -> dict[str, Found]:
    """The entries of a file of the cache; none if it is about another state of the file. Raises ValueError if it is broken."""
    start = len(_MAGIC) + 8
    if data[: len(_MAGIC)] != _MAGIC or zlib.crc32(memoryview(data)[start:]).to_bytes(8, "little") != data[len(_MAGIC) : start]:
        raise ValueError("not a file of the cache")
    length = int.from_bytes(data[start : start + 8], "little")
    header = json.loads(data[start + 8 : start + 8 + length])
    if header["version"] != VERSION or header["path"] != origin.path or tuple(header["identity"]) != origin.identity:
        return {}
    numbers = np.frombuffer(data, "<f8", offset=start + 8 + length) if len(data) > start + 8 + length else np.zeros(0)
    position = 0
    entries: dict[str, Found] = {}
    for name, shapes in header["entries"].items():
        parts: list[Array] = []
        for shape in shapes:
            count = math.prod(shape)
            parts.append(_slice(numbers, position, count, shape))
            position += count
        entries[name] = tuple(parts)
    return entries


def _slice(numbers: Array, position: int, count: int, shape: Sequence[int]) -> Array:
    return numbers[position : position + count].reshape(tuple(shape))


def _tidy(folder: Path) -> None:
    """Delete the files that were written longest ago, until the folder keeps its limit."""
    with contextlib.suppress(OSError):
        files = sorted((file.stat().st_mtime, file.stat().st_size, file) for file in folder.glob("*.weights"))
        total = sum(size for _, size, _ in files)
        for _, size, file in files:
            if total <= FOLDER_LIMIT:
                break
            file.unlink(missing_ok=True)
            total -= size
