"""Regular grids of cells: how a tensor is cut into blocks that share one interval.

Per axis a grid holds either None (one cell over the whole axis) or the sorted boundaries 0 = c0 < c1 < ... < ck = n. An
array over a grid has one entry per cell along each axis, so an axis with one cell broadcasts against any other grid by
NumPy's own rules. Axes whose size is not known exactly have one cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from tensorproof.errors import UnknownShape

Cuts = npt.NDArray[np.int64] | None
Grid = tuple[Cuts, ...]
_Scalar = TypeVar("_Scalar", bound=np.generic)

#: Axes of up to so many elements share their cuts.
_COMMON_SIZE = 1 << 12


class Span(NamedTuple):
    """The size of an axis that is known to lie between two numbers only (`high` None: unbounded)."""

    low: int
    high: int | None

    def __str__(self) -> str:
        return f"{self.low}..{'' if self.high is None else self.high}"


Size = int | Span
Shape = tuple[Size, ...]


def smallest(size: Size) -> int:
    """The smallest possible size."""
    return size if isinstance(size, int) else size.low


def largest(size: Size) -> int | None:
    """The largest possible size; None if there is no bound."""
    return size if isinstance(size, int) else size.high


def joined_size(a: Size, b: Size) -> Size:
    """The size of an axis that has one of two sizes."""
    if a == b:
        return a
    highs = (largest(a), largest(b))
    return Span(min(smallest(a), smallest(b)), None if None in highs else max(h for h in highs if h is not None))


def concrete(shape: Shape | None) -> tuple[int, ...]:
    """The shape as numbers; raises UnknownShape if it is not fully known."""
    if shape is None:
        raise UnknownShape("the rank is not known")
    if Span in map(type, shape):
        raise UnknownShape("the size of an axis depends on the data")
    return shape  # type: ignore[return-value]


def coarse(shape: Shape) -> Grid:
    """One cell for the whole tensor (no cell along an axis of size 0)."""
    return tuple(np.zeros(1, np.int64) if size == 0 else None for size in shape)


def fine(shape: Sequence[int]) -> Grid:
    """One cell per element."""
    return tuple([every(size) for size in shape])


def every(size: int) -> Cuts:
    """The cuts of an axis that has one cell per element; the same array for the same size, so that grids are compared at once."""
    if size == 1:
        return None
    return _every(size) if size <= _COMMON_SIZE else np.arange(size + 1, dtype=np.int64)


@lru_cache(maxsize=256)
def _every(size: int) -> npt.NDArray[np.int64]:
    cuts = np.arange(size + 1, dtype=np.int64)
    cuts.flags.writeable = False
    return cuts


def counts(grid: Grid) -> tuple[int, ...]:
    """Cells per axis: the shape of an array over the grid."""
    return tuple([1 if cuts is None else len(cuts) - 1 for cuts in grid])


def cell_sizes(grid: Grid, shape: Shape, axis: int) -> npt.NDArray[np.int64]:
    """How many elements each cell spans along an axis (of known size)."""
    cuts = grid[axis]
    if cuts is None:
        return np.array([concrete((shape[axis],))[0]], np.int64)
    return np.diff(cuts)


def union(a: Cuts, b: Cuts) -> Cuts:
    """The coarsest cuts that refine both."""
    if a is None:
        return b
    if b is None or a is b or (len(a) == len(b) and bool((a == b).all())):
        return a
    for cuts in (a, b):
        if len(cuts) == cuts[-1] + 1:
            # One cell per element is as fine as it gets.
            return cuts
    # NumPy's union1d hashes whole numbers before it sorts them: hundreds of times slower on cuts, which are sorted already.
    both = np.sort(np.concatenate((a, b)), kind="stable")
    return both[np.append(True, both[1:] != both[:-1])]


def regrid(array: npt.NDArray[_Scalar], axis: int, old: Cuts, new: Cuts) -> npt.NDArray[_Scalar]:
    """The same cells along one axis on finer cuts."""
    if old is None or new is None or old is new:
        return array
    if len(old) == len(new):
        return array
    # The few old cuts are looked up among the new ones, not the many new ones among the old.
    return np.repeat(array, np.diff(np.searchsorted(new, old)), axis=axis)


def broadcast_size(a: Size, b: Size) -> Size:
    """The size of an axis after broadcasting (NumPy's rules)."""
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    if isinstance(a, int) and isinstance(b, int):
        raise UnknownShape(f"sizes {a} and {b} do not broadcast")
    if isinstance(a, int):
        return a
    if isinstance(b, int):
        return b
    return joined_size(a, b)


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape that all shapes broadcast to."""
    if len(shapes) == 2 and shapes[0] == shapes[1]:
        return shapes[0]
    rank = max(map(len, shapes), default=0)
    result: list[Size] = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, start=rank - len(shape)):
            result[axis] = broadcast_size(result[axis], size)
    return tuple(result)


def expand_array(array: npt.NDArray[Any], grid: Grid, shape: Sequence[int]) -> npt.NDArray[Any]:
    """An array over a grid as one entry per element (a read-only view where nothing has to be copied)."""
    for axis, cuts in enumerate(grid):
        if cuts is not None and len(cuts) - 1 != shape[axis]:
            array = np.repeat(array, np.diff(cuts), axis=axis)
    sizes = tuple(shape)
    return array if array.shape == sizes else np.broadcast_to(array, sizes)
