"""The weights in a file of Keras, looked at before Keras reads them: they stand in the file itself, and are as many as it holds.

HDF5 can say that data stand in other files, or declare arrays of which nothing is stored; a description can ask for layers of any
size. None of that belongs to a model.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tensorproof.errors import ConfigurationError, ModelError

#: An array that is larger than this and much larger than what is stored of it holds nothing.
_SMALLEST_BOMB = 64 << 20
_LARGEST_EXPANSION = 1000

#: Groups in a file of weights are as deep as models in models are.
_DEEPEST = 100

#: Weights that layers may make beyond those that a file holds: states of random numbers, packed formats.
_SPARE = 1 << 20
_LARGEST_PACKING = 4

#: What HDF5 raises on damaged files.
DAMAGED = (OSError, KeyError, RuntimeError, ValueError, TypeError, AttributeError, UnicodeError, NotImplementedError, MemoryError)


def opened(path: Path, file: str | IO[bytes]) -> Any:
    """A file of HDF5."""
    try:
        import h5py
    except ImportError:
        raise ConfigurationError(f"{path}: reading weights of Keras needs the package h5py") from None
    try:
        return h5py.File(file, "r")
    except DAMAGED as error:
        raise ModelError(f"{path}: is no file of Keras, or a damaged one ({first_line(error)})") from None


def stored_in_hdf5(path: Path, file: Any) -> int:
    """The number of elements of all arrays in a file of HDF5; raises `ModelError` if they do not stand in it."""
    try:
        return sum(_elements(path, array) for array in _arrays(path, file, 0))
    except DAMAGED as error:
        raise ModelError(f"{path}: its weights cannot be read ({first_line(error)})") from None


def _arrays(path: Path, group: Any, depth: int) -> Iterator[Any]:
    import h5py

    if depth > _DEEPEST:
        raise ModelError(f"{path}: its weights are nested deeper than those of a model are")
    for name in group:
        if group.get(name, getlink=True, getclass=True) is not h5py.HardLink:
            raise ModelError(f"{path}: its weights {name[:60]!r} stand elsewhere")
        item = group[name]
        if isinstance(item, h5py.Group):
            yield from _arrays(path, item, depth + 1)
        elif isinstance(item, h5py.Dataset):
            yield item


def _elements(path: Path, array: Any) -> int:
    if array.external or array.is_virtual:
        raise ModelError(f"{path}: its weights {str(array.name)[:60]!r} stand in another file")
    size, stored = int(array.nbytes), int(array.id.get_storage_size())
    if size > max(_SMALLEST_BOMB, _LARGEST_EXPANSION * stored):
        raise ModelError(f"{path}: its weights {str(array.name)[:60]!r} would grow from {stored} to {size} bytes")
    return int(array.size or 0)


@contextmanager
def weights_within(path: Path, stored: int) -> Generator[None]:
    """Stop layers from making more weights than a file holds: what is made is filled before it is read."""
    import keras

    base: Any = keras.Layer
    original = base.add_weight
    most = _LARGEST_PACKING * stored + _SPARE
    made = 0

    @functools.wraps(original)
    def add_weight(layer: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal made
        shape: Any = kwargs.get("shape", args[0] if args else ())
        sizes: tuple[Any, ...] = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
        made += math.prod(size for size in sizes if isinstance(size, int))
        if made > most:
            raise ModelError(f"{path}: its layers have more weights than the {stored} that it holds ({layer.name})")
        return original(layer, *args, **kwargs)

    base.add_weight = add_weight
    try:
        yield
    finally:
        base.add_weight = original


def first_line(error: BaseException) -> str:
    """What an exception says, in one line."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:160]
