"""`Rows`: the cells of a tensor with some of its axes flattened into one, for operators that normalise along them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.formats import Array, Format
from tensorproof.ranges.grid import cell_sizes, largest, smallest
from tensorproof.ranges.range import Flags, Range


class Rows:
    """One row per combination of cells of the other axes; a row's cells are those of the normalised axes.

    `low` and `high` bound the finite values, of shape (rows, cells); both are `empty` where a cell has none. `fewest` and
    `most` count the elements of each cell of a row; `most` is infinite where the size of an axis has no bound.
    """

    __slots__ = ("_back", "_kept", "_order", "_shape", "axes", "fewest", "high", "low", "most", "x")

    def __init__(self, x: Range, axes: Sequence[int], empty: float = 0.0) -> None:
        self.x = x
        self.axes = tuple(axes)
        self._kept = tuple(axis for axis in range(x.rank) if axis not in axes)
        self._order = (*self._kept, *axes)
        self._shape = tuple(x.cells[axis] for axis in self._order)
        self._back = tuple(sorted(range(x.rank), key=self._order.__getitem__))
        low, high = x.low, x.high
        if x.has_special:
            nothing = low > high
            low, high = np.where(nothing, empty, low), np.where(nothing, empty, high)
        self.low, self.high = self.flatten(low), self.flatten(high)
        self.fewest, self.most = np.ones(1), np.ones(1)
        for axis in axes:
            fewest, most = _elements_per_cell(x, axis)
            self.fewest = np.outer(self.fewest, fewest).ravel()
            self.most = np.outer(self.most, most).ravel()

    @property
    def length(self) -> float:
        """The largest number of elements of one row."""
        return float(self.most.sum())

    def flatten(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """An array over the tensor's grid as one over the rows."""
        rows = math.prod(self._shape[: len(self._kept)])
        return array.transpose(self._order).reshape(rows, -1)

    def restore(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """An array over the rows as one over the tensor's grid; one of one column spans the normalised axes."""
        kept = len(self._kept)
        shape = self._shape
        if array.shape[-1] == 1 and self.low.shape[-1] != 1:
            shape = (*shape[:kept], *([1] * (len(shape) - kept)))
        return array.reshape(shape).transpose(self._back)

    def mark(self, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """A mask of rows, of shape (rows, 1), as one over the tensor's cells."""
        return np.broadcast_to(self.restore(np.broadcast_to(mask, self.low.shape)), self.x.cells)

    def any(self, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Whether a cell of the row is marked, for every cell of the tensor's grid."""
        return self.mark(np.logical_or.reduce(self.flatten(mask), axis=-1, keepdims=True))

    def per_row(self, low: Array, high: Array, special: Flags | None = None, format: Format | None = None) -> Range:
        """The range of a tensor with one element per row: the normalised axes have size 1."""
        assert self.x.shape is not None
        kept = self._kept
        shape = tuple(size if axis in kept else 1 for axis, size in enumerate(self.x.shape))
        grid = tuple(cuts if axis in kept else None for axis, cuts in enumerate(self.x.grid))
        cells = tuple(n if axis in kept else 1 for axis, n in enumerate(self.x.cells))
        parts = [part.reshape([cells[axis] for axis in self._order]) for part in (low, high)]
        low, high = (part.transpose(self._back) for part in parts)
        return Range(format or self.x.format, shape, grid, low, high, special)


def _elements_per_cell(x: Range, axis: int) -> tuple[Array, Array]:
    assert x.shape is not None
    size = x.shape[axis]
    if isinstance(size, int):
        sizes = cell_sizes(x.grid, x.shape, axis).astype(np.float64)
        return sizes, sizes
    most = largest(size)
    return np.array([float(max(smallest(size), 1))]), np.array([np.inf if most is None else float(most)])
