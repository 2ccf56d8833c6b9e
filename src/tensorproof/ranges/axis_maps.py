"""Linear maps along one axis: every output is a weighted sum of a few elements (averages, interpolation).

Bounds come from the positive and the negative weights separately. On an axis of one cell, only the sums of positive and of
negative weights matter, and the outputs are alternatives of one cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tensorproof.formats import Array
from tensorproof.ranges.grid import Cuts, Grid, regrid, union
from tensorproof.ranges.range import CELL_BUDGET, Flags, Range
from tensorproof.ranges.windows import NOTHING, Integers

#: Alternatives of one cell beyond this number are replaced by the corners of their weights.
ALTERNATIVES = 1 << 10
#: Maps with more taps than this are applied as a matrix.
MANY_TAPS = 16


class Mix(NamedTuple):
    """A linear map on the cells of an axis: output row r is the sum over taps of weights[r] times the cells cells[r].

    A tap of weight zero may read NOTHING.
    Rows are the cells of the result along `cuts`, or, where `joined`, the alternatives of its one cell.
    """

    cells: Integers
    weights: Array
    cuts: Cuts
    joined: bool


def mix_of(elements: Integers, weights: Array, size: int, cuts: Cuts) -> Mix:
    """The map given by elements and weights (outputs x taps; NOTHING reads zero) on an axis with these cells.

    What taps of weight zero read is kept: 0 * inf is NaN.
    """
    weights = np.where(elements == NOTHING, 0.0, weights)
    if not len(elements):
        return Mix(elements, weights, np.zeros(1, np.int64), False)
    if cuts is None and size > 1:
        return _alternatives(weights)
    cells = elements if cuts is None else np.searchsorted(cuts, elements, side="right") - 1
    changed = (cells[1:] != cells[:-1]).any(axis=1) | (weights[1:] != weights[:-1]).any(axis=1)
    starts = np.flatnonzero(np.concatenate(([True], changed)))
    merged = None if len(starts) == 1 else np.append(starts, len(elements)).astype(np.int64)
    return Mix(cells[starts], weights[starts], merged, False)


def _alternatives(weights: Array) -> Mix:
    """The distinct sums of positive and of negative weights, as two taps on the one cell."""
    sums = np.stack((np.maximum(weights, 0.0).sum(axis=1), np.minimum(weights, 0.0).sum(axis=1)), axis=1)
    sums = np.unique(sums, axis=0)
    if len(sums) > ALTERNATIVES:
        # Corners of (positive sum, whole sum): weights of an interpolation sum to one, so the second hardly varies.
        positive, whole = sums[:, 0], sums.sum(axis=1)
        ends = [(p, s - p) for p in (positive.min(), positive.max()) for s in (whole.min(), whole.max())]
        sums = np.array(ends)
    return Mix(np.zeros(sums.shape, np.int64), sums, None, True)


def mix_bounds(low: Array, high: Array, axis: int, mix: Mix) -> tuple[Array, Array]:
    """Bounds of the mixed cells; `low` and `high` may be one array."""
    positive, negative = np.maximum(mix.weights, 0.0), np.minimum(mix.weights, 0.0)
    if not negative.any():
        result_low = _weighted(low, axis, mix.cells, positive)
        result_high = result_low if low is high else _weighted(high, axis, mix.cells, positive)
    else:
        result_low = _weighted(low, axis, mix.cells, positive) + _weighted(high, axis, mix.cells, negative)
        result_high = _weighted(high, axis, mix.cells, positive) + _weighted(low, axis, mix.cells, negative)
    if mix.joined:
        return result_low.min(axis, keepdims=True), result_high.max(axis, keepdims=True)
    return result_low, result_high


def mix_magnitudes(magnitude: Array, axis: int, mix: Mix) -> Array:
    """Sums of absolute terms of the mixed cells."""
    result = _weighted(magnitude, axis, mix.cells, np.abs(mix.weights))
    return result.max(axis, keepdims=True) if mix.joined else result


def mix_hull(array: Array, axis: int, mix: Mix, function: np.ufunc, absent: float) -> Array:
    """The smallest or largest of all cells that are read, `absent` where nothing is."""
    shape = tuple(len(mix.cells) if i == axis else 1 for i in range(array.ndim))
    result: Array | None = None
    for tap in range(mix.cells.shape[1]):
        here = (mix.cells[:, tap] != NOTHING).reshape(shape)
        part = np.where(here, np.take(array, mix.cells[:, tap], axis), absent)
        result = part if result is None else function(result, part)
    assert result is not None
    return function.reduce(result, axis=axis, keepdims=True) if mix.joined else result


def mix_flags(flags: Flags, axis: int, mix: Mix) -> Flags:
    """The special values of all cells that are read."""
    shape = tuple(len(mix.cells) if i == axis else 1 for i in range(flags.ndim))
    result: Flags | None = None
    for tap in range(mix.cells.shape[1]):
        here = (mix.cells[:, tap] != NOTHING).reshape(shape)
        part = np.where(here, np.take(flags, mix.cells[:, tap], axis), np.uint8(0))
        result = part if result is None else result | part
    assert result is not None
    return np.bitwise_or.reduce(result, axis=axis, keepdims=True) if mix.joined else result


def _weighted(array: Array, axis: int, cells: Integers, weights: Array) -> Array:
    rows, taps = cells.shape
    if taps > MANY_TAPS and rows * array.shape[axis] <= CELL_BUDGET * 16:
        matrix = np.zeros((rows, array.shape[axis]))
        np.add.at(matrix, (np.arange(rows)[:, None], cells), weights)
        return np.moveaxis(np.moveaxis(array, axis, -1) @ matrix.T, -1, axis)
    shape = tuple(rows if i == axis else 1 for i in range(array.ndim))
    result = np.zeros((*array.shape[:axis], rows, *array.shape[axis + 1 :]))
    for tap in range(taps):
        result += np.take(array, cells[:, tap], axis) * weights[:, tap].reshape(shape)
    return result


class Mixture:
    """Bounds, sums of absolute terms and special values of a tensor while maps are applied axis by axis.

    `least` and `most` are the hull of what is read, weights aside; zero where nothing is.
    """

    __slots__ = ("flags", "grid", "high", "least", "low", "magnitude", "most", "shape")

    def __init__(self, x: Range) -> None:
        low, high = x.low, x.high
        self.flags = x.special if x.has_special else None
        if self.flags is not None:
            empty = low > high
            low, high = np.where(empty, 0.0, low), np.where(empty, 0.0, high)
        self.low, self.high = low, high
        self.magnitude = np.maximum(np.abs(low), np.abs(high))
        self.least, self.most = low, high
        self.grid: Grid = x.grid
        self.shape = x.sizes

    def apply(self, axis: int, elements: Integers, weights: Array, outputs: int | None = None) -> None:
        """Mix along one axis. On an axis of one cell, `elements` may show some of the `outputs` that stand for all."""
        outputs = len(elements) if outputs is None else outputs
        others = self.low.size // max(1, self.low.shape[axis])
        if self.grid[axis] is not None and others * len(elements) > 16 * CELL_BUDGET:
            self._smash(axis)
        mix = mix_of(elements, weights, self.shape[axis], self.grid[axis])
        self.low, self.high = mix_bounds(self.low, self.high, axis, mix)
        self.magnitude = mix_magnitudes(self.magnitude, axis, mix)
        self.least = mix_hull(self.least, axis, mix, np.minimum, np.inf)
        self.most = mix_hull(self.most, axis, mix, np.maximum, -np.inf)
        nothing = self.least > self.most
        self.least, self.most = np.where(nothing, 0.0, self.least), np.where(nothing, 0.0, self.most)
        if self.flags is not None:
            self.flags = mix_flags(self.flags, axis, mix)
        self.grid = (*self.grid[:axis], mix.cuts, *self.grid[axis + 1 :])
        self.shape = (*self.shape[:axis], outputs, *self.shape[axis + 1 :])

    def apply_any(
        self,
        axis: int,
        maps: Sequence[tuple[Integers, Array, npt.NDArray[np.bool_]]],
        constant: float | None,
    ) -> None:
        """Mix along one axis by one of several maps (elements, weights, outputs that take `constant` instead)."""
        joined: Mixture | None = None
        for elements, weights, takes_constant in maps:
            part = self._copy()
            if constant is not None and takes_constant.any():
                part._apply_with_constant(axis, elements, weights, takes_constant, constant)
            else:
                part.apply(axis, elements, weights)
            joined = part if joined is None else joined._joined(part, axis)
        assert joined is not None
        self._take(joined)

    def _apply_with_constant(
        self, axis: int, elements: Integers, weights: Array, takes: npt.NDArray[np.bool_], constant: float
    ) -> None:
        outputs = len(elements)
        if takes.all():
            shape = (*self.low.shape[:axis], 1, *self.low.shape[axis + 1 :])
            self.low = self.high = self.least = self.most = np.full(shape, constant)
            self.magnitude = np.full(shape, abs(constant))
            self.flags = None
            self.grid = (*self.grid[:axis], None, *self.grid[axis + 1 :])
            self.shape = (*self.shape[:axis], outputs, *self.shape[axis + 1 :])
            return
        if self.is_uniform(axis):
            self.apply(axis, elements[~takes], weights[~takes], outputs)
            here: npt.NDArray[np.bool_] = np.ones((), bool)
            self.low, self.high = np.minimum(self.low, constant), np.maximum(self.high, constant)
            self.least, self.most = np.minimum(self.least, constant), np.maximum(self.most, constant)
        else:
            self.apply(axis, elements, weights)
            cuts = self.grid[axis]
            starts = np.zeros(1, np.int64) if cuts is None else cuts[:-1]
            here = takes[starts].reshape(-1, *(1,) * (self.low.ndim - 1 - axis))
            self.low, self.high = np.where(here, constant, self.low), np.where(here, constant, self.high)
            self.least, self.most = np.where(here, constant, self.least), np.where(here, constant, self.most)
            if self.flags is not None:
                self.flags = np.where(here, np.uint8(0), self.flags)
        self.magnitude = np.where(here, np.maximum(self.magnitude, abs(constant)), self.magnitude)

    def _copy(self) -> Mixture:
        copy = Mixture.__new__(Mixture)
        copy._take(self)
        return copy

    def _take(self, other: Mixture) -> None:
        self.low, self.high, self.magnitude, self.flags = other.low, other.high, other.magnitude, other.flags
        self.least, self.most = other.least, other.most
        self.grid, self.shape = other.grid, other.shape

    def _joined(self, other: Mixture, axis: int) -> Mixture:
        """The hull of two results that differ along one axis at most."""
        cuts = union(self.grid[axis], other.grid[axis])
        result = self._copy()

        def on_cuts(array: npt.NDArray[Any], old: Cuts) -> npt.NDArray[Any]:
            return array if old is None else regrid(array, axis, old, cuts)

        result.low = np.minimum(on_cuts(self.low, self.grid[axis]), on_cuts(other.low, other.grid[axis]))
        result.high = np.maximum(on_cuts(self.high, self.grid[axis]), on_cuts(other.high, other.grid[axis]))
        result.least = np.minimum(on_cuts(self.least, self.grid[axis]), on_cuts(other.least, other.grid[axis]))
        result.most = np.maximum(on_cuts(self.most, self.grid[axis]), on_cuts(other.most, other.grid[axis]))
        result.magnitude = np.maximum(on_cuts(self.magnitude, self.grid[axis]), on_cuts(other.magnitude, other.grid[axis]))
        if self.flags is not None or other.flags is not None:
            zero = np.zeros((1,) * self.low.ndim, np.uint8)
            mine = zero if self.flags is None else on_cuts(self.flags, self.grid[axis])
            theirs = zero if other.flags is None else on_cuts(other.flags, other.grid[axis])
            result.flags = np.broadcast_to(mine | theirs, result.low.shape)
        result.grid = (*self.grid[:axis], cuts, *self.grid[axis + 1 :])
        return result

    def is_uniform(self, axis: int) -> bool:
        """Whether an axis of several elements is one cell."""
        return self.grid[axis] is None and self.shape[axis] > 1

    def _smash(self, axis: int) -> None:
        self.low, self.high = self.low.min(axis, keepdims=True), self.high.max(axis, keepdims=True)
        self.least, self.most = self.least.min(axis, keepdims=True), self.most.max(axis, keepdims=True)
        self.magnitude = self.magnitude.max(axis, keepdims=True)
        if self.flags is not None:
            self.flags = np.bitwise_or.reduce(self.flags, axis=axis, keepdims=True)
        self.grid = (*self.grid[:axis], None, *self.grid[axis + 1 :])

    def range(self, x: Range, low: Array, high: Array, special: Flags | None) -> Range:
        """A range in the format of `x` on the mixed grid."""
        grid = tuple(np.zeros(1, np.int64) if size == 0 else cuts for size, cuts in zip(self.shape, self.grid))
        return Range(x.format, self.shape, grid, low, high, special)
