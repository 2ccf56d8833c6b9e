"""Cells folded along axes: what every reduction shares.

A cell that spans n elements counts n times, so a reduction costs one pass over the cells, never over the elements. An
axis whose size is known only to lie between two numbers has one cell, which counts between `fewest` and `most` times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorproof.errors import NotAnalysed, UnknownShape
from tensorproof.formats import Array, Format
from tensorproof.operators.table import Call
from tensorproof.ranges.grid import Cuts, Grid, Size, cell_sizes, largest, regrid, smallest
from tensorproof.ranges.range import INFINITIES, NAN, SPECIALS, Flags, Range


def reduced_axes(op: Call, x: Range, operand: Range | None) -> tuple[int, ...]:
    """The axes of a reduction, attribute or input: none given means all, unless noop_with_empty_axes is set."""
    rank = x.rank
    axes = op.integers("axes", operand)
    if not axes:
        return () if op.attribute("noop_with_empty_axes", 0) else tuple(range(rank))
    return tuple(sorted({normalised_axis(axis, rank) for axis in axes})) if rank else ()


def normalised_axis(axis: int, rank: int) -> int:
    """An axis counted from the front."""
    if not -rank <= axis < rank:
        raise NotAnalysed(f"axis {axis} does not exist in a tensor of rank {rank}")
    return axis % rank


class Fold:
    """The cells of a range, folded along some axes."""

    __slots__ = ("_fewest", "_most", "_weights", "axes", "keepdims", "x")

    def __init__(self, x: Range, axes: Sequence[int], *, keepdims: bool = True) -> None:
        self.x = x
        self.axes = tuple(axes)
        self.keepdims = keepdims
        self._weights: Array | None = None
        self._fewest = 1
        self._most: int | None = 1
        shape = x.shape
        assert shape is not None
        for axis in self.axes:
            size = shape[axis]
            if not isinstance(size, int):
                self._fewest *= smallest(size)
                high = largest(size)
                self._most = None if self._most is None or high is None else self._most * high
                continue
            if x.cells[axis] != size:
                sizes = cell_sizes(x.grid, shape, axis).astype(np.float64)
                sizes = sizes.reshape([-1 if i == axis else 1 for i in range(len(shape))])
                self._weights = sizes if self._weights is None else self._weights * sizes

    def _concrete(self) -> int:
        assert self.x.shape is not None
        return int(np.prod([s for s in (self.x.shape[a] for a in self.axes) if isinstance(s, int)], dtype=np.int64))

    @property
    def may_be_empty(self) -> bool:
        """Whether a result may be made of no element at all (results that do not exist excepted)."""
        shape = self.x.shape
        assert shape is not None
        kept_empty = any(shape[axis] == 0 for axis in range(len(shape)) if axis not in self.axes)
        return not kept_empty and any(smallest(shape[axis]) == 0 for axis in self.axes)

    @property
    def terms(self) -> int:
        """The largest number of elements that one result is made of."""
        if self._most is None:
            raise UnknownShape("the number of elements that are reduced depends on the data")
        return self._concrete() * self._most

    @property
    def fewest(self) -> int:
        """How often the elements along axes of unknown size occur at least."""
        return self._fewest

    @property
    def fixed_terms(self) -> int | None:
        """The number of elements of one result if it is the same always."""
        return self.terms if self._most == self._fewest else None

    def weighted(self, values: Array) -> Array:
        """The sum over the axes of known size, each cell counted with its elements."""
        values = values if self._weights is None else values * self._weights
        return values.sum(axis=self.axes, keepdims=True)

    def low_sum(self, low: Array) -> Array:
        """The smallest sum, given the smallest elements."""
        total, fewest, most = self.weighted(low), self._fewest, self.repeats
        return total if most == fewest == 1 else np.minimum(total * fewest, total * most)

    def high_sum(self, high: Array) -> Array:
        """The largest sum, given the largest elements."""
        total, fewest, most = self.weighted(high), self._fewest, self.repeats
        return total if most == fewest == 1 else np.maximum(total * fewest, total * most)

    @property
    def repeats(self) -> int:
        """How often the elements along axes of unknown size occur at most."""
        if self._most is None:
            raise UnknownShape("the number of elements that are reduced depends on the data")
        return self._most

    def mean(self, values: Array) -> Array:
        """The mean, each cell weighted with its elements; 0 of nothing."""
        return self.weighted(values) / max(self._concrete(), 1)

    def maximum(self, values: Array) -> Array:
        return values.max(axis=self.axes, keepdims=True, initial=-np.inf)

    def minimum(self, values: Array) -> Array:
        return values.min(axis=self.axes, keepdims=True, initial=np.inf)

    def union(self, flags: Flags) -> Flags:
        """The special values that one of the elements may be."""
        return np.bitwise_or.reduce(flags, axis=self.axes, keepdims=True)

    def any(self, mask: np.ndarray) -> np.ndarray:
        return np.asarray(mask.any(axis=self.axes, keepdims=True))

    def counts(self) -> Array:
        """How many elements each cell stands for (1 along axes of unknown size)."""
        return np.broadcast_to(1.0 if self._weights is None else self._weights, self.x.cells)

    def finite(self) -> tuple[Array, Array]:
        """The bounds of the finite values, 0 where a cell has none."""
        if not self.x.has_special:
            return self.x.low, self.x.high
        empty = self.x.low > self.x.high
        return np.where(empty, 0.0, self.x.low), np.where(empty, 0.0, self.x.high)

    def result(self, low: Array, high: Array, special: Flags | None = None, format: Format | None = None) -> Range:
        """The range of the results, from arrays that still have the folded axes."""
        assert self.x.shape is not None
        shape: list[Size] = []
        grid: list[Cuts] = []
        for axis, (size, cuts) in enumerate(zip(self.x.shape, self.x.grid)):
            if axis not in self.axes:
                shape.append(size)
                grid.append(cuts)
            elif self.keepdims:
                shape.append(1)
                grid.append(None)
        if not self.keepdims:
            low, high = low.squeeze(self.axes), high.squeeze(self.axes)
            special = None if special is None else special.squeeze(self.axes)
        return Range(format or self.x.format, tuple(shape), tuple(grid), low, high, special)

    def sum_result(self, low: Array, high: Array, special: Flags | None = None) -> Range:
        """The range of results that are sums: special elements make them special (inf - inf is NaN)."""
        if not self.x.has_special:
            return self.result(low, high)
        flags = sum_flags(self.union(self.x.special if special is None else special))
        never_finite = self.any(self.x.low > self.x.high) & (self._fewest > 0)
        return self.result(np.where(never_finite, np.inf, low), np.where(never_finite, -np.inf, high), flags)


def sum_flags(flags: Flags) -> Flags:
    """What a sum can be whose terms may be these special values."""
    return flags | np.where((flags & INFINITIES) == INFINITIES, np.uint8(NAN), np.uint8(0))


def product_flags(flags: Flags) -> Flags:
    """What a sum of products can be whose factors may be these special values: infinities meet zeros and each other."""
    return np.where((flags & INFINITIES) != 0, np.uint8(SPECIALS), flags & np.uint8(NAN))


def onto_grid(array: Any, old: Grid, new: Grid) -> Any:
    """An array over a grid (or one that broadcasts to it) on finer cells."""
    for axis, (before, after) in enumerate(zip(old, new)):
        if after is None or before is after or array.shape[axis] == len(after) - 1:
            continue
        if before is None or array.shape[axis] == 1:
            array = np.repeat(array, len(after) - 1, axis=axis)
        else:
            array = regrid(array, axis, before, after)
    return array
