"""Fields: intervals that vary over the cells of a tensor, the coefficients of affine forms.

A field is one interval for all elements, as two numbers, or a float64 `Range` whose shape broadcasts to the tensor's. All
arithmetic rounds outward, and not at all where float64 is exact, so that what cancels in exact arithmetic cancels here.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Iterable
from itertools import zip_longest
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tensorproof.formats import FLOAT64, Array
from tensorproof.ranges.grid import Grid, Shape
from tensorproof.ranges.range import CELL_BUDGET, Range, align
from tensorproof.ranges.regrouping import tidy

Ends: TypeAlias = tuple[float, float]
Field: TypeAlias = Ends | Range

#: Fields whose grids would have more cells together are one interval each.
_MOST_CELLS = 4 * CELL_BUDGET

ZERO: Ends = (0.0, 0.0)
ONE: Ends = (1.0, 1.0)
MINUS_ONE: Ends = (-1.0, -1.0)


def field(shape: Shape, grid: Grid, low: Array, high: Array) -> Field:
    """The field of two arrays over a grid."""
    if low.size == 1:
        return float(low.reshape(())), float(high.reshape(()))
    return Range(FLOAT64, shape, grid, low, high)


def bounds_of(x: Range) -> Field:
    """The bounds of a tensor as a field."""
    return field(x.shape or (), x.grid, x.low, x.high)


def condensed(x: Range) -> Range:
    """The same bounds where neighbouring cells with the same ends along an axis are one cell: offsets often come in long runs."""
    grid, low, high = list(x.grid), x.low, x.high
    for axis, cuts in enumerate(grid):
        if cuts is None:
            continue
        starts = np.flatnonzero(np.append(True, _changes(low, axis) | _changes(high, axis)))
        if len(starts) < len(cuts) - 1:
            low, high = np.take(low, starts, axis), np.take(high, starts, axis)
            grid[axis] = tidy(np.append(cuts[starts], cuts[-1]))
    return Range(FLOAT64, x.shape, tuple(grid), low, high)


def _changes(array: Array, axis: int) -> npt.NDArray[np.bool_]:
    """For each entry along an axis but the first, whether any number differs from the one before."""
    entries = np.moveaxis(array, axis, 0)
    return (entries[1:] != entries[:-1]).reshape(len(entries) - 1, -1).any(axis=1)


def are_affordable(a: Range, b: Range) -> bool:
    """Whether two grids together have few enough cells."""
    cells = zip_longest(reversed(a.cells), reversed(b.cells), fillvalue=1)
    return math.prod(max(pair) for pair in cells) <= _MOST_CELLS


def digest(x: Field) -> Hashable:
    """What equal fields share, and different ones do not."""
    if isinstance(x, tuple):
        return x
    cuts = tuple(None if part is None else part.tobytes() for part in x.grid)
    return x.shape, cuts, x.low.tobytes(), x.high.tobytes()


def is_zero(x: Field) -> bool:
    """Whether every interval is the number 0."""
    if isinstance(x, tuple):
        return x[0] == 0.0 == x[1]
    return not x.low.any() and not x.high.any()


def is_point(x: Field) -> bool:
    """Whether every interval is one number."""
    if isinstance(x, tuple):
        return x[0] == x[1]
    return x.low is x.high or bool((x.low == x.high).all())


def added(a: Field, b: Field) -> Field:
    """The sum of two fields."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return _number_sum(a[0], b[0], -math.inf), _number_sum(a[1], b[1], math.inf)
    if a == ZERO or b == ZERO:
        return b if a == ZERO else a
    shape, grid, (la, ha), (lb, hb) = _aligned(a, b)
    return field(shape, grid, _sum(la, lb, -np.inf), _sum(ha, hb, np.inf))


def sum_of(parts: Iterable[Field]) -> Field:
    """The sum of fields, those of few cells first: large grids are gone through as rarely as can be."""
    by_size = sorted(parts, key=lambda part: 1 if isinstance(part, tuple) else part.low.size)
    return functools.reduce(added, by_size, ZERO)


def multiplied(a: Field, b: Field) -> Field:
    """The product of two fields; where an interval is unbounded, 0 times it is 0."""
    for factor, other in ((a, b), (b, a)):
        if factor == ONE:
            return other
        if factor == ZERO:
            return ZERO
        if factor == MINUS_ONE:
            return negated(other)
    if isinstance(a, tuple) and isinstance(b, tuple):
        pairs = [(x, y) for x in set(a) for y in set(b)]
        return min(_number_product(x, y, -math.inf) for x, y in pairs), max(_number_product(x, y, math.inf) for x, y in pairs)
    shape, grid, (la, ha), (lb, hb) = _aligned(a, b)
    if is_point(a):
        corners = [(la, lb), (la, hb)]
    elif is_point(b):
        corners = [(la, lb), (ha, lb)]
    else:
        corners = [(la, lb), (la, hb), (ha, lb), (ha, hb)]
    low = np.minimum.reduce([_product(x, y, -np.inf) for x, y in corners])
    high = np.maximum.reduce([_product(x, y, np.inf) for x, y in corners])
    return field(shape, grid, low, high)


def negated(a: Field) -> Field:
    """The field of opposite numbers."""
    if isinstance(a, tuple):
        return -a[1], -a[0]
    return a.replace(-a.high, -a.low, None)


def reciprocal(a: Field) -> Field | None:
    """1 / a for numbers that are not zero; None where one is."""
    low, high = (np.float64(a[0]), np.float64(a[1])) if isinstance(a, tuple) else (a.low, a.high)
    if not bool(((low > 0) | (high < 0)).all()):
        return None
    ends = 1.0 / high, 1.0 / low
    # Only the reciprocals of powers of two are exact.
    exact = (np.abs(np.frexp(low)[0]) == 0.5) & (low == high)
    new_low = np.where(exact, ends[0], np.nextafter(ends[0], -np.inf))
    new_high = np.where(exact, ends[1], np.nextafter(ends[1], np.inf))
    if isinstance(a, tuple):
        return float(new_low), float(new_high)
    return a.replace(new_low, new_high, None)


def around_zero(radius: Field) -> Field:
    """[-r, r] for the upper end r of each interval."""
    if isinstance(radius, tuple):
        return -radius[1], radius[1]
    return radius.replace(-radius.high, radius.high, None)


def midpoint(a: Field) -> Field:
    """Some number of each interval."""
    if isinstance(a, tuple):
        return a[0], a[0]
    return a if is_point(a) else a.replace(a.low, a.low, None)


def magnitude(a: Field) -> Field:
    """The largest absolute value of each interval."""
    if isinstance(a, tuple):
        most = max(abs(a[0]), abs(a[1]))
        return most, most
    most = np.maximum(np.abs(a.low), np.abs(a.high))
    return a.replace(most, most, None)


def _aligned(a: Field, b: Field) -> tuple[Shape, Grid, tuple[Array, Array], tuple[Array, Array]]:
    """Arrays of both fields on one grid."""
    if isinstance(a, tuple):
        if isinstance(b, tuple):
            return (), (), (np.asarray(a[0]), np.asarray(a[1])), (np.asarray(b[0]), np.asarray(b[1]))
        return b.shape or (), b.grid, (np.asarray(a[0]), np.asarray(a[1])), (b.low, b.high)
    if isinstance(b, tuple):
        return a.shape or (), a.grid, (a.low, a.high), (np.asarray(b[0]), np.asarray(b[1]))
    if not are_affordable(a, b):
        return _aligned(a.hull(), b.hull())
    aligned = align(a, b)
    (la, lb), (ha, hb) = aligned.lows, aligned.highs
    return aligned.shape or (), aligned.grid, (la, ha), (lb, hb)


def _number_sum(a: float, b: float, towards: float) -> float:
    """`_sum` of single numbers, for which NumPy is slow."""
    total = a + b
    part = total - a
    error = (a - (total - part)) + (b - part)
    if not (error >= 0 if towards < 0 else error <= 0):
        total = math.nextafter(total, towards)
    return towards if math.isnan(total) or total == -towards else total


def _number_product(a: float, b: float, towards: float) -> float:
    """`_product` of single numbers."""
    if a == 0.0 or b == 0.0:
        return 0.0
    result = a * b
    digits = math.frexp(a)[0] * 2.0**26, math.frexp(b)[0] * 2.0**26
    exact = all(d.is_integer() for d in digits) or any(abs(d) == 2.0**25 for d in digits)
    if not (exact and abs(result) > 2.0**-1000):
        result = math.nextafter(result, towards)
    return towards if math.isnan(result) or result == -towards else result


def _sum(a: Array, b: Array, towards: float) -> Array:
    """a + b rounded in one direction: the error of the nearest sum is a float64 number (Knuth, TAOCP 2, section 4.2.2)."""
    total = np.asarray(a + b)
    part = np.subtract(total, a, out=np.empty_like(total))
    error = np.subtract(total, part, out=np.empty_like(total))
    np.subtract(a, error, out=error)
    np.subtract(b, part, out=part)
    np.add(error, part, out=error)
    # NaN stands for an error that overflowed on the way: the neighbour is taken then, too.
    exact = np.greater_equal(error, 0.0) if towards < 0 else np.less_equal(error, 0.0)
    if not exact.all():
        np.nextafter(total, towards, out=total, where=~exact)
    return _bounding(total, towards)


def _bounding(ends: Array, towards: float) -> Array:
    """Ends where one that left float64 in the wrong direction, or met its opposite, bounds nothing."""
    if np.isfinite(ends).all():
        return ends
    return np.where(np.isnan(ends) | (ends == -towards), towards, ends)


def _product(a: Array, b: Array, towards: float) -> Array:
    """a * b rounded in one direction; exact where one is a power of two, or neither has more than 26 digits."""
    result = a * b
    if a.ndim == 0 or b.ndim == 0:
        scale, numbers = (float(a), b) if a.ndim == 0 else (float(b), a)
        if abs(math.frexp(scale)[0]) != 0.5 or bool((np.abs(result) < 2.0**-1000).any()):
            result = np.nextafter(result, towards)
        result = np.where(numbers == 0, 0.0, result) if scale else np.zeros_like(result)
        return _bounding(result, towards)
    digits_a, digits_b = np.frexp(a)[0] * 2.0**26, np.frexp(b)[0] * 2.0**26
    exact = (np.rint(digits_a) == digits_a) & (np.rint(digits_b) == digits_b)
    exact = (exact | (np.abs(digits_a) == 2.0**25) | (np.abs(digits_b) == 2.0**25)) & (np.abs(result) > 2.0**-1000)
    result = np.where(exact, result, np.nextafter(result, towards))
    # An unbounded interval stands for arbitrarily large numbers, never for infinity itself.
    result = np.where((a == 0) | (b == 0), 0.0, result)
    return _bounding(result, towards)


def larger(a: Field, b: Field) -> Field:
    """The larger of two numbers."""
    shape, grid, (la, ha), (lb, hb) = _aligned(a, b)
    return field(shape, grid, np.maximum(la, lb), np.maximum(ha, hb))


def smaller(a: Field, b: Field) -> Field:
    """The smaller of two numbers."""
    return negated(larger(negated(a), negated(b)))


def hull(a: Field, b: Field) -> Field:
    """All numbers that lie in one of two fields, or between them."""
    shape, grid, (la, ha), (lb, hb) = _aligned(a, b)
    return field(shape, grid, np.minimum(la, lb), np.maximum(ha, hb))


def meet(a: Field, b: Field) -> Field:
    """Ends that hold for numbers that lie in both fields."""
    shape, grid, (la, ha), (lb, hb) = _aligned(a, b)
    return field(shape, grid, np.maximum(la, lb), np.minimum(ha, hb))
