"""Exact bounds of (x - mean) / sqrt(variance + epsilon) over boxes, in O(n log n).

All functions take rows of cells, `low` and `high` of shape (rows, cells), and `counts`, the number of elements of each cell.
The variance is the population variance. The results hold in exact arithmetic; the float64 errors of the sums made here
are bounded and added outwards.

Write t for the element itself, which is at its upper end in the extreme case, a = t - x for the differences to the others and
c = n * epsilon. With g = sum(a) / sqrt(sum(a^2) + c) the normalised element is g / sqrt(n - g^2), increasing in g. Where sum(a) can
be positive, g is quasi-concave, and its maximum over the box has all others at clip(s, low, high) for one common s < t. For any s
with sum((t - x)(s - x)) + c >= 0 at that point (Lagrangian duality)

    g <= sqrt(sum(a^2) + c) / (t - s),

with equality at the maximum. Where sum(a) is negative everywhere, the largest g stands at a corner; for any k > 0

    g^2 >= 2 k sum(min over both ends of (b - k b^2 / 2)) - k^2 c   with b = -a,

because sqrt(q) <= (v + q / v) / 2 for every v > 0; the ends are chosen by the midpoints of the cells.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tensorproof.formats import Array

#: Relative error of the sums made here, per cell: far above that of float64.
_ROUNDING = 2.0**-49
#: In rows of few cells this many elements are tried at both ends where bounds would be loose by one element.
_BRANCHES, _FEW_CELLS = 3, 64


class _Sums(NamedTuple):
    """Prefix sums over sorted places, entry m for what holds between place m - 1 and place m."""

    places: Array
    number: Array
    first: Array
    second: Array


def standardised(low: Array, high: Array, counts: Array, epsilon: float) -> tuple[Array, Array]:
    """Bounds of the normalised element of each cell (epsilon >= 0)."""
    if len(counts) == 1:
        most = _largest_of_one_cell(high - low, float(counts[0]), epsilon)
        return -most, most
    with np.errstate(all="ignore"):
        # Nothing changes when all elements move together; small numbers keep the sums exact.
        centre = ((low / 2 + high / 2) @ counts / counts.sum())[:, None]
        blur = 2.0**-52 * (np.abs(centre) + np.maximum(np.abs(low), np.abs(high)))
        low, high = low - centre - blur, high - centre + blur
        return -_largest(-high, -low, counts, epsilon), _largest(low, high, counts, epsilon)


def variance_bounds(low: Array, high: Array, counts: Array) -> tuple[Array, Array]:
    """Bounds of the population variance of each row."""
    total = counts.sum()
    if total <= 1:
        return np.zeros(len(low)), np.zeros(len(low))
    if len(counts) == 1:
        # All elements may be equal; at most half of them stand at either end.
        with np.errstate(all="ignore"):
            bound = ((high - low)[:, 0] / 2) ** 2 * (1 + 2.0**-40)
        return np.zeros(len(low)), np.where(np.isnan(bound), np.inf, bound)
    with np.errstate(all="ignore"):
        centre = ((low / 2 + high / 2) @ counts / total)[:, None]
        scale = np.maximum(np.abs(low), np.abs(high)).max(axis=-1)
        low, high = low - centre, high - centre
        blur = 2.0**-50 * len(counts) * np.maximum(scale, np.abs(centre[:, 0]))
        far = np.zeros((len(low), 1))
        # The variance is the least mean square distance to one value; the nearest elements' is least at their own mean.
        below, above = low.min(axis=-1, keepdims=True), high.max(axis=-1, keepdims=True)
        near = below
        for _ in range(60):
            near = below / 2 + above / 2
            falls = (np.clip(near, low, high) @ counts)[:, None] < total * near
            below, above = np.where(falls, below, near), np.where(falls, near, above)
        for _ in range(12):
            far = (far + (np.where(low + high > 2 * far, high, low) @ counts / total)[:, None]) / 2
        residual = np.clip(near, low, high) - near
        spread = np.maximum((high - low).max(axis=-1), np.abs(near[:, 0]))
        # Convexity: the minimum lies at most |slope| * |distance| below the value here.
        slope = 2 * np.abs(residual @ counts) / total
        reach = np.maximum(high.max(axis=-1) - near[:, 0], near[:, 0] - low.min(axis=-1))
        least = (residual**2) @ counts / total - slope * reach - blur * (2 * spread + blur)
        most = np.maximum((low - far) ** 2, (high - far) ** 2) @ counts / total
        bound = (np.sqrt(most) + blur) ** 2 * (1 + 2.0**-40)
    return np.maximum(least, 0.0), np.where(np.isnan(bound), np.inf, bound)


def _largest_of_one_cell(width: Array, total: float, epsilon: float) -> Array:
    """The largest normalised element where all lie in one interval: it stands at the upper end, all others at the lower.

    With d the distance to the others, which are equal in the extreme case, it is (n - 1) d / sqrt((n - 1) d^2 + n^2 epsilon):
    increasing in d.
    """
    if total <= 1:
        return np.zeros_like(width)
    with np.errstate(all="ignore"):
        bound = (total - 1) * width / np.hypot(np.sqrt(total - 1) * width, total * np.sqrt(epsilon)) * (1 + 2.0**-45)
        bound = np.where(width == 0.0, 0.0, np.minimum(bound, np.sqrt(total - 1.0)))
    return np.where(np.isnan(bound) | (width < 0.0), np.sqrt(total - 1.0), bound)


def _largest(low: Array, high: Array, counts: Array, epsilon: float) -> Array:
    total = float(counts.sum())
    if total <= 1:
        return np.zeros_like(high)
    offset = total * epsilon
    size = np.maximum(np.abs(low), np.abs(high)).max(axis=-1, keepdims=True)
    reach = total * high - (low @ counts)[:, None] - (high - low)
    certainly_below = reach <= _ROUNDING * total * len(counts) * size
    above = _quasiconcave(low, high, counts, offset, size)
    result = np.minimum(_from_ratio(above, total), np.sqrt(total - 1.0))
    if certainly_below.any():
        below = _branched(low, high, counts, high, offset, size, _BRANCHES if len(counts) <= _FEW_CELLS else 0)
        result = np.where(certainly_below, -_from_ratio(below, total), result)
    return np.where(np.isnan(result), np.sqrt(total - 1.0), result)


def _from_ratio(square: Array, total: float) -> Array:
    """g / sqrt(n - g^2) from g^2, which is below n."""
    return np.where(square < total, np.sqrt(square / (total - square)), np.inf)


def _take(array: Array, index: npt.NDArray[np.intp]) -> Array:
    return np.take_along_axis(array, index, axis=-1)


def _clamped_sums(low: Array, high: Array, counts: Array) -> _Sums:
    """Number, sum and sum of squares of the elements that stand at an end of their cell when all follow a common s."""
    places = np.concatenate([low, high], axis=-1)
    weights = np.broadcast_to(np.concatenate([-counts, counts]), places.shape)
    order = np.argsort(places, axis=-1, kind="stable")
    places, weights = _take(places, order), _take(weights, order)
    start = np.zeros((len(low), 1))

    def running(first: Array, steps: Array) -> Array:
        return np.cumsum(np.concatenate([start + first, steps], axis=-1), axis=-1)

    return _Sums(
        places,
        running(np.array(counts.sum()), weights),
        running((low @ counts)[:, None], weights * places),
        running((low**2 @ counts)[:, None], weights * places**2),
    )


def _quasiconcave(low: Array, high: Array, counts: Array, offset: float, size: Array) -> Array:
    """A bound on the largest g^2 where g can be positive."""
    sums = _clamped_sums(low, high, counts)
    t, cells = high, low.shape[-1]
    rounding = _ROUNDING * cells * float(counts.sum())
    error = rounding * size**2 + _ROUNDING * offset

    def without_own(place: npt.NDArray[np.intp]) -> tuple[Array, Array, Array]:
        """The sums in the segment below sorted place number `place`, the own element left out."""
        upper = np.where(place < 2 * cells, _take(sums.places, np.minimum(place, 2 * cells - 1)), np.inf)
        own = low >= upper
        return (
            _take(sums.number, place) - own,
            _take(sums.first, place) - np.where(own, low, 0.0),
            _take(sums.second, place) - np.where(own, low**2, 0.0),
        )

    def slack(place: npt.NDArray[np.intp]) -> Array:
        """sum((t - x)(s - x)) + c at sorted place number `place`."""
        s = _take(sums.places, place)
        count, first, second = without_own(place)
        return np.where(s >= t, np.inf, count * t * s - (t + s) * first + second + offset)

    # The slack is positive above the maximum's s and changes its sign once: the number of places where it is not.
    left = np.zeros(low.shape, np.intp)
    right = np.full(low.shape, 2 * cells, np.intp)
    for _ in range(int(2 * cells).bit_length() + 1):
        middle = (left + right) // 2
        beyond = slack(np.minimum(middle, 2 * cells - 1)) > 4 * error
        active = left < right
        right = np.where(active & beyond, middle, right)
        left = np.where(active & ~beyond, middle + 1, left)
    count, first, second = without_own(left)
    floor = np.where(left > 0, _take(sums.places, np.maximum(left - 1, 0)), -np.inf)
    ceiling = np.where(left < 2 * cells, _take(sums.places, np.minimum(left, 2 * cells - 1)), np.inf)
    # The slack is linear in s inside the segment, with an error that grows with |s|.
    constant, slope = second - t * first + offset, count * t - first
    s = -constant / slope
    s = np.clip(s + 2 * (error + rounding * size * np.abs(s)) / slope, floor, ceiling)
    certified = slope * s + constant >= error + rounding * size * np.abs(s)
    s = np.where(certified, s, ceiling)
    free = counts.sum() - 1.0 - count
    squares = count * t**2 - 2 * t * first + second + free * (t - s) ** 2
    bound = (np.maximum(squares, 0.0) + offset + error) / (t - s) ** 2
    return np.where((s < t) & np.isfinite(s), bound, np.inf)


def _branched(low: Array, high: Array, counts: Array, t: Array, offset: float, size: Array, depth: int) -> Array:
    """`_corner` with the widest cells of one element tried at both ends: the bound is loose by one element at most."""
    width = np.where(counts == 1.0, high - low, 0.0)
    if not depth or not width.any():
        return _corner(low, high, counts, t, offset, size)
    chosen = np.arange(low.shape[-1]) == width.argmax(axis=-1)[:, None]
    at_low, at_high = np.where(chosen, low, high), np.where(chosen, high, low)
    return np.minimum(
        _branched(low, at_low, counts, t, offset, size, depth - 1),
        _branched(at_high, high, counts, t, offset, size, depth - 1),
    )


def _corner(low: Array, high: Array, counts: Array, t: Array, offset: float, size: Array) -> Array:
    """A bound on the smallest g^2 where g is negative over the whole box."""
    total, cells = float(counts.sum()), low.shape[-1]
    middles = low / 2 + high / 2
    order = np.argsort(middles, axis=-1, kind="stable")
    places = _take(middles, order)
    gain = _take(counts * (low - high), order), _take(counts * (low**2 - high**2), order)
    start = (high @ counts)[:, None], (high**2 @ counts)[:, None]
    first_sums = np.cumsum(np.concatenate([start[0], gain[0]], axis=-1), axis=-1)
    second_sums = np.cumsum(np.concatenate([start[1], gain[1]], axis=-1), axis=-1)

    def moments(place: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        """sum(b) and sum(b^2) when the cells before sorted place number `place` are at their low end, the others high."""
        lower = np.where(place > 0, _take(places, np.maximum(place - 1, 0)), -np.inf)
        own = np.where(middles <= lower, low, high)
        first = _take(first_sums, place) - own
        second = _take(second_sums, place) - own**2
        return first - (total - 1) * t, second - 2 * t * first + (total - 1) * t**2

    left = np.zeros(low.shape, np.intp)
    right = np.full(low.shape, cells, np.intp)
    for _ in range(int(cells).bit_length() + 1):
        middle = (left + right) // 2
        s = _take(places, np.minimum(middle, cells - 1))
        first, second = moments(middle)
        # The bound is concave in k = 1 / (s - t): its slope at this place says on which side the best k lies.
        beyond = (s - t) * first > second + offset
        active = left < right
        right = np.where(active & beyond, middle, right)
        left = np.where(active & ~beyond, middle + 1, left)
    first, second = moments(left)
    floor = np.where(left > 0, _take(places, np.maximum(left - 1, 0)), -np.inf)
    ceiling = np.where(left < cells, _take(places, np.minimum(left, cells - 1)), np.inf)
    s = np.clip(t + (np.maximum(second, 0.0) + offset) / first, floor, ceiling)
    k = 1.0 / (s - t)
    error = _ROUNDING * cells * total * size
    blurred = 2 * k * (first - error) - k**2 * (second + offset * (1.0 + _ROUNDING) + error * size)
    return np.where((k > 0) & (blurred > 0), blurred, 0.0)
