"""Places of a tensor that updates hit, once or several times, and the error of combining them.

Where it is not known which place an update hits, every place within a box of positions keeps its value or takes any of the
updates, as often as there are any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import UnknownShape
from tensorproof.formats import Array, Format
from tensorproof.operators.table import RESULT, Call
from tensorproof.ranges.elementwise import binary, corners, increasing, product
from tensorproof.ranges.grid import Cuts, cell_sizes, largest, smallest
from tensorproof.ranges.moving import affordable, moved, one_cell, shape_of, slice_axis, tidy
from tensorproof.ranges.range import INFINITIES, NAN, Range
from tensorproof.ranges.sums import product_growth, report_partial_overflow
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW


def combined(a: Range, b: Range, reduction: str) -> Range:
    """One update of every element."""
    if reduction == "add":
        return binary(a, b, increasing(np.add), np.add)
    if reduction == "mul":
        return binary(a, b, corners(product), np.multiply)
    function = np.maximum if reduction == "max" else np.minimum
    return binary(a, b, increasing(function), function)


def sum_error(op: Call, format: Format, additions: Array | int, magnitude: Array) -> Array:
    """The error of additions one after the other, in any order, each rounded into the tensor's own format.

    n u sum|terms| to first order (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2); sums do not
    underflow unless the target flushes.
    """
    roundoff = format.unit_roundoff if format.is_float else 0.0
    flushed = format.smallest_normal if format.is_float and op.target.flushes_results else 0.0
    error = product_growth(additions, roundoff) * magnitude + np.asarray(additions) * flushed
    return error + _own_error(additions, magnitude, format)


def product_error(op: Call, format: Format, factors: Array | int, magnitude: Array, growth: Array) -> Array:
    """The error of products one after the other; what underflow loses is multiplied by the factors that follow."""
    if not format.is_float:
        return _own_error(factors, magnitude, format)
    lost = format.smallest_normal if op.target.flushes_results else format.smallest_subnormal
    error = product_growth(factors, format.unit_roundoff) * magnitude
    return error + np.asarray(factors) * lost * growth + _own_error(factors, magnitude, format)


def _own_error(steps: Array | int, magnitude: Array, format: Format) -> Array:
    """The error of the analysis itself, which computes in float64; integers up to 2^53 are exact."""
    error = (np.asarray(steps) + 1.0) * 2.0**-52 * magnitude
    return error if format.is_float else np.where(magnitude > 2.0**53, np.ceil(error), 0.0)


def report_growth(op: Call, result: Range, largest_partial: Array) -> None:
    """Report products whose partial products can leave the format, even where the products themselves come back."""
    if result.format.is_float:
        over = largest_partial > result.format.high
        op.report(ACCUMULATION_OVERFLOW, RESULT, result, over, gives=INFINITIES | NAN)


@dataclass
class Updates:
    """The updates that can reach a place: their hull, and the sums of their negative, positive and absolute values."""

    hull: Range
    negative: Array
    positive: Array
    absolute: Array
    count: int

    @classmethod
    def of(cls, updates: Range, axes: Sequence[int]) -> Updates:
        """Updates whose places along `axes` are not known."""
        updates = affordable(updates)
        weights = np.ones(())
        count = 1
        for axis in axes:
            size = largest(shape_of(updates)[axis])
            if size is None:
                raise UnknownShape("the number of updates is not known")
            count *= size
            known = isinstance(shape_of(updates)[axis], int)
            widths = cell_sizes(updates.grid, shape_of(updates), axis) if known else np.array([size])
            weights = weights * widths.reshape([-1 if i == axis else 1 for i in range(updates.rank)])
        along = tuple(axes)
        parts = np.minimum(updates.low, 0.0), np.maximum(updates.high, 0.0), updates.magnitude()
        sums = [(part * weights).sum(axis=along, keepdims=True) for part in parts]
        return cls(one_cell(updates, along), sums[0], sums[1], sums[2], count)

    def with_leading_axes(self, old: int, new: int) -> Updates:
        """The same with the first `old` axes, all of one cell, replaced by `new` ones."""

        def swapped(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
            return array.reshape((1,) * new + array.shape[old:])

        shape, grid = shape_of(self.hull), self.hull.grid
        hull = moved(self.hull, (*([1] * new), *shape[old:]), (*([None] * new), *grid[old:]), swapped)
        return Updates(hull, swapped(self.negative), swapped(self.positive), swapped(self.absolute), self.count)

    def over(self, x: Range) -> Updates:
        """The same, said of the shape of `x`: their cells along unknown places stand for all places there."""
        hull = moved(self.hull, x.shape, self.hull.grid, lambda a: a)
        return Updates(hull, self.negative, self.positive, self.absolute, self.count)


def within_box(op: Call, x: Range, box: Sequence[tuple[int, int] | None], updates: Updates, reduction: str) -> Range:
    """`x` where every place inside a box of positions may be hit by any of the updates, or by none."""
    inside = x
    for axis, ends in enumerate(box):
        if ends is not None:
            inside = slice_axis(inside, axis, *ends)
    if 0 in shape_of(inside):
        return x
    inside = _perhaps_hit(op, inside, updates.over(inside), reduction)
    where: list[slice] = []
    for axis, ends in enumerate(box):
        start, stop = ends or (0, smallest(shape_of(x)[axis]))
        cuts: Cuts = inside.grid[axis]
        if ends is None:
            x = x.refine(axis, cuts)
            where.append(slice(None))
            continue
        within = np.array([start, stop]) if cuts is None else cuts + start
        x = x.refine(axis, tidy(np.unique([0, *within, smallest(shape_of(x)[axis])])))
        boundaries = x.grid[axis]
        if boundaries is None:
            where.append(slice(None))
        else:
            where.append(slice(int(np.searchsorted(boundaries, start)), int(np.searchsorted(boundaries, stop))))
    low, high, special = x.low.copy(), x.high.copy(), x.special.copy()
    place = tuple(where)
    low[place], high[place], special[place] = inside.low, inside.high, inside.special
    return x.replace(low, high, special)


def _perhaps_hit(op: Call, x: Range, updates: Updates, reduction: str) -> Range:
    """Every element of `x`, hit by any of the updates or by none."""
    hull, count = updates.hull, updates.count
    if reduction == "none":
        return x.join(hull)
    if reduction in ("max", "min"):
        return x.join(combined(x, hull, reduction))
    size = x.replace(np.zeros_like(x.low), x.magnitude(), None)
    if reduction == "add":
        result = combined(x, hull.replace(updates.negative, updates.positive, hull.special), "add")
        total = combined(size, hull.replace(updates.absolute, updates.absolute, None), "add").high
        error = sum_error(op, x.format, count, total)
        start = x.replace(np.minimum(x.low, 0.0), np.maximum(x.high, 0.0), None)
        partial = combined(start, hull.replace(updates.negative, updates.positive, None), "add")
        if count > 1:
            report_partial_overflow(op, result, partial.low, partial.high, x.format)
    else:
        most = np.maximum(hull.magnitude(), 1.0) ** count
        result = combined(x, hull.replace(*_powers(hull, most, count), hull.special), "mul")
        growth = hull.replace(most, most, None)
        one = x.replace(np.ones_like(x.low), np.ones_like(x.low), None)
        error = product_error(op, x.format, count, result.magnitude(), combined(one, growth, "mul").high)
        if count > 1:
            report_growth(op, result, combined(size, growth, "mul").high)
    if count <= 1 and x.format.is_float:
        return result
    empty = result.low > result.high
    low, high = np.where(empty, np.inf, result.low - error), np.where(empty, -np.inf, result.high + error)
    return result.replace(low, high, result.special)


def _powers(factor: Range, most: Array, count: int) -> tuple[Array, Array]:
    """Bounds of the product of up to `count` factors; none at all is 1."""
    low, high = np.minimum(factor.low, 1.0), np.maximum(factor.high, 1.0)
    if count <= 1:
        return low, high
    return np.where(low >= 0, low**count, -most), np.where(low >= 0, high**count, most)
