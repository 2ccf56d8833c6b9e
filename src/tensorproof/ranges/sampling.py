"""Values of an image between its elements: bounds of interpolation at positions that are intervals themselves.

Along each axis, linear interpolation is linear between neighbouring elements. So for positions in a box it is extreme where
each coordinate stands at an end of its interval or at an element inside, whatever the elements are.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.formats import Array, Format
from tensorproof.operators.table import Call
from tensorproof.ranges.range import INFINITIES, SPECIALS, Range
from tensorproof.ranges.sums import keep_sign, summation_error
from tensorproof.ranges.windows import NOTHING, Integers

#: Position intervals that hold more elements than this take the hull of the whole plane.
MOST_BREAKS = 6
#: Images with more elements than this are taken as one cell per channel.
IMAGE_BUDGET = 1 << 18
#: Cubic convolution of GridSample (ONNX GridSample-22: as in PyTorch).
CUBIC_A = -0.75
#: Elements that one evaluation over all positions may read.
SAMPLE_BUDGET = 1 << 21


class Planes(NamedTuple):
    """Bounds of images (batch, channels, space), and how indices beyond the ends are mapped: zeros, border, reflection."""

    low: Array
    high: Array
    padding: str
    aligned: bool = False

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.low.shape[2:]


def _inside(index: Integers, size: int, padding: str, aligned: bool) -> Integers:
    """The element that an index beyond the ends stands for; NOTHING where it is zero."""
    if padding == "zeros":
        return np.where((index >= 0) & (index < size), index, NOTHING)
    if padding == "border" or size == 1:
        return np.clip(index, 0, size - 1)
    # Reflection at the elements of both ends (align_corners), or half a step beyond them (ONNX GridSample-22).
    period = 2 * (size - 1) if aligned else 2 * size
    folded = np.mod(index, period)
    return np.where(folded < size, folded, period - folded - (0 if aligned else 1))


def _read(planes: Planes, indices: Sequence[Integers]) -> tuple[Array, Array]:
    """Bounds of the elements at indices (batch, points) per axis, as (batch, channels, points)."""
    sizes = planes.sizes
    points = indices[0].shape[1]
    flat = np.zeros((len(indices[0]), points), np.int64)
    outside = np.zeros((len(indices[0]), points), bool)
    for index, size in zip(indices, sizes):
        element = _inside(index, size, planes.padding, planes.aligned)
        outside |= element == NOTHING
        flat = flat * size + np.where(element == NOTHING, 0, element)
    batch, channels = planes.low.shape[:2]
    where = np.broadcast_to(flat[:, None], (batch, channels, points))
    count = int(np.prod(sizes, dtype=np.int64))
    low = np.take_along_axis(planes.low.reshape(batch, channels, count), where, 2)
    high = np.take_along_axis(planes.high.reshape(batch, channels, count), where, 2)
    zero = outside[:, None]
    return np.where(zero, 0.0, low), np.where(zero, 0.0, high)


def _breaks(low: Array, high: Array, *, whole: bool) -> list[Array]:
    """Points that decide the extremes over [low, high]: the ends and the integers between; only integers if `whole`."""
    first = low if whole else np.ceil(low)
    count = int(np.max(np.floor(high) - first, initial=0.0)) + 1
    points = [np.minimum(first + step, high) for step in range(max(count, 1))]
    return points if whole else [low, *(np.maximum(p, low) for p in points), high]


def linear_at(planes: Planes, lows: Sequence[Array], highs: Sequence[Array]) -> tuple[Array, Array]:
    """Bounds of multilinear interpolation at positions (batch, points) in boxes, as (batch, channels, points)."""
    result: tuple[Array, Array] | None = None
    for vertex in product(*(_distinct(_breaks(low, high, whole=False)) for low, high in zip(lows, highs))):
        low, high = _interpolated(planes, vertex)
        result = (low, high) if result is None else (np.minimum(result[0], low), np.maximum(result[1], high))
    assert result is not None
    return result


def _distinct(points: Sequence[Array]) -> list[Array]:
    kept: list[Array] = []
    for point in points:
        if not any(point is other or bool((point == other).all()) for other in kept):
            kept.append(point)
    return kept


def _interpolated(planes: Planes, position: Sequence[Array]) -> tuple[Array, Array]:
    floors = [np.floor(p) for p in position]
    parts = [p - f for p, f in zip(position, floors)]
    low: Array | None = None
    high: Array | None = None
    for corner in product((0, 1), repeat=len(position)):
        weight = np.ones(position[0].shape)
        for bit, part in zip(corner, parts):
            weight = weight * (part if bit else 1.0 - part)
        part_low, part_high = _read(planes, [f.astype(np.int64) + bit for f, bit in zip(floors, corner)])
        part_low, part_high = part_low * weight[:, None], part_high * weight[:, None]
        low = part_low if low is None else low + part_low
        high = part_high if high is None else high + part_high
    assert low is not None and high is not None
    return low, high


def largest_neighbour_at(planes: Planes, lows: Sequence[Array], highs: Sequence[Array]) -> tuple[Array, Array]:
    """Bounds of the largest of the weighted neighbours, in place of their sum: what mode max of RoiAlign takes.

    Weights are linear between elements, so that a product is extreme at the same vertices as the sum. The largest product
    is as large as any of them can be, and at least as large as each one always is.
    """
    axes = [_distinct(_breaks(low, high, whole=False)) for low, high in zip(lows, highs)]
    most: Array | None = None
    least: Array | None = None
    pieces = [list(pairwise(points)) or [(points[0], points[0])] for points in axes]
    for box in product(*pieces):
        # Inside one piece the neighbours stay the same: those of its middle.
        floors = [np.floor((a + b) / 2) for a, b in box]
        piece_low: Array | None = None
        for corner in product((0, 1), repeat=len(box)):
            part_low, part_high = _read(planes, [f.astype(np.int64) + bit for f, bit in zip(floors, corner)])
            weights: list[Array] = []
            for vertex in product(*box):
                weight = np.ones(lows[0].shape)
                for bit, p, f in zip(corner, vertex, floors):
                    weight = weight * np.clip(p - f if bit else 1.0 - (p - f), 0.0, 1.0)
                weights.append(weight[:, None])
            lowest = np.minimum.reduce([w * part_low for w in weights])
            highest = np.maximum.reduce([w * part_high for w in weights])
            piece_low = lowest if piece_low is None else np.maximum(piece_low, lowest)
            most = highest if most is None else np.maximum(most, highest)
        assert piece_low is not None
        least = piece_low if least is None else np.minimum(least, piece_low)
    assert least is not None and most is not None
    return least, most


def nearest_at(planes: Planes, lows: Sequence[Array], highs: Sequence[Array]) -> tuple[Array, Array]:
    """Bounds of the nearest elements, ties to even (ONNX GridSample-22)."""
    result: tuple[Array, Array] | None = None
    for vertex in product(*(_breaks(np.rint(low), np.rint(high), whole=True) for low, high in zip(lows, highs))):
        low, high = _read(planes, [v.astype(np.int64) for v in vertex])
        result = (low, high) if result is None else (np.minimum(result[0], low), np.maximum(result[1], high))
    assert result is not None
    return result


def cubic_at(planes: Planes, position: Sequence[Array], a: float) -> tuple[Array, Array]:
    """Bounds of cubic convolution at exact positions (Keys 1981, equation 4)."""
    floors = [np.floor(p).astype(np.int64) for p in position]
    low = np.zeros((*planes.low.shape[:2], position[0].shape[1]))
    high = np.zeros(low.shape)
    for taps in product(range(-1, 3), repeat=len(position)):
        weight = np.ones(position[0].shape)
        for tap, floor, p in zip(taps, floors, position):
            weight = weight * cubic_weight(p - floor - tap, a)
        part_low, part_high = _read(planes, [floor + tap for floor, tap in zip(floors, taps)])
        positive, negative = np.maximum(weight, 0.0)[:, None], np.minimum(weight, 0.0)[:, None]
        low += part_low * positive + part_high * negative
        high += part_high * positive + part_low * negative
    return low, high


def cubic_weight(t: Array, a: float) -> Array:
    """The kernel of cubic convolution at distance t (Keys 1981, equation 4)."""
    t = np.abs(t)
    inner = ((a + 2) * t - (a + 3)) * t * t + 1
    outer = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return np.where(t <= 1, inner, np.where(t < 2, outer, 0.0))


def within_reach(planes: Planes, position: Array, axis: int) -> Array:
    """A position of linear interpolation moved to the nearest one with the same value, where there is padding only."""
    size = planes.sizes[axis]
    if planes.padding == "zeros":
        return np.clip(position, -1.0, size)
    return np.clip(position, 0.0, size - 1.0) if planes.padding == "border" else position


def is_narrow(lows: Sequence[Array], highs: Sequence[Array]) -> npt.NDArray[np.bool_]:
    """Positions whose box holds few elements, and is finite."""
    narrow = np.ones(lows[0].shape, bool)
    for low, high in zip(lows, highs):
        narrow &= np.isfinite(low) & np.isfinite(high) & (np.floor(high) - np.ceil(low) + 1 <= MOST_BREAKS)
    return narrow


def sampled(planes: Planes, lows: Sequence[Array], highs: Sequence[Array], mode: str) -> tuple[Array, Array]:
    """Bounds at positions in boxes, (batch, channels, points); wide boxes take the whole plane."""
    if mode != "cubic":
        lows = [within_reach(planes, a, axis) for axis, a in enumerate(lows)]
        highs = [within_reach(planes, a, axis) for axis, a in enumerate(highs)]
    narrow = is_narrow(lows, highs)
    if mode == "cubic":
        narrow &= np.all([high - low <= 2.0**-6 for low, high in zip(lows, highs)], axis=0)
    at_low, at_high = [np.where(narrow, a, 0.0) for a in lows], [np.where(narrow, a, 0.0) for a in highs]
    if mode == "nearest":
        low, high = nearest_at(planes, at_low, at_high)
    elif mode == "linear":
        low, high = linear_at(planes, at_low, at_high)
    elif mode == "cubic":
        low, high = _cubic_in_boxes(planes, at_low, at_high)
    else:
        raise NotAnalysed(f"mode {mode} is not known")
    if narrow.all():
        return low, high
    axes = tuple(range(2, planes.low.ndim))
    least, most = planes.low.min(axis=axes), planes.high.max(axis=axes)
    if planes.padding == "zeros":
        least, most = np.minimum(least, 0.0), np.maximum(most, 0.0)
    least, most = overshot(least, most, mode, len(axes))
    wide = ~narrow[:, None]
    return np.where(wide, least[..., None], low), np.where(wide, most[..., None], high)


def overshot(low: Array, high: Array, mode: str, rank: int) -> tuple[Array, Array]:
    """The hull of interpolated values: cubic weights sum to one and their negative part to a/4 at most, per axis."""
    for _ in range(rank if mode == "cubic" else 0):
        reach = abs(CUBIC_A) / 4 * (high - low)
        low, high = low - reach, high + reach
    return low, high


def _cubic_in_boxes(planes: Planes, lows: Sequence[Array], highs: Sequence[Array]) -> tuple[Array, Array]:
    """Cubic convolution at the middle of narrow boxes, plus how far it can change towards their ends."""
    middles: list[Array] = []
    reach = np.zeros(lows[0].shape)
    for low, high, size in zip(lows, highs, planes.sizes):
        middle = (low + high) / 2
        if planes.padding == "border":
            # Positions beyond the border are moved to the element there, at once (ONNX GridSample-22).
            first, last = (0.0, size - 1.0) if planes.aligned else (-0.5, size - 0.5)
            outside = (middle < first) | (middle > last)
            middle = np.where(outside, np.clip(middle, 0.0, size - 1.0), middle)
        middles.append(middle)
        reach = reach + (high - low) / 2
    low, high = cubic_at(planes, middles, CUBIC_A)
    # |W'| <= 3|a + 2| + 2|a + 3| on two taps and |a| on two; the other axes' weights sum to at most 1 + |a|/2 in size.
    slope = 2 * (3 * abs(CUBIC_A + 2) + 2 * abs(CUBIC_A + 3)) + 2 * abs(CUBIC_A)
    axes = tuple(range(2, planes.low.ndim))
    size = np.maximum(np.abs(planes.low.min(axis=axes)), np.abs(planes.high.max(axis=axes)))
    error = slope * (1 + abs(CUBIC_A) / 2) ** (len(axes) - 1) * reach[:, None] * size[..., None]
    return low - error, high + error


def rounded_samples(op: Call, x: Range, result: Range, size: Array, mode: str, taps: int, *, precise: bool = False) -> Range:
    """The rounding error of the weighted sums added, or integers rounded, and special values.

    `precise` says that the weights are as exact as the tensor's format.
    """
    if mode == "nearest":
        return result.with_special(x.any_special) if x.any_special else result
    if not x.format.is_float:
        low, high = np.floor(result.low), np.ceil(result.high)
        return result.replace(np.clip(low, x.format.low, x.format.high), np.clip(high, x.format.low, x.format.high), None)
    # Weights are rounded like numbers up to one: the error counts every element that takes part in full.
    error = summation_error(op, 4 * size, taps + 8, x.format)
    if not precise:
        # Positions, and with them the weights, are those of float32.
        error = error + 2.0**-20 * size
    low, high = result.low - error, result.high + error
    if mode == "linear":
        # Weights are not negative, and no rounding crosses zero.
        low, high = keep_sign(low, high, result.low >= 0, result.high <= 0)
    result = result.replace(low, high, None)
    return result.with_special(special_of_sums(x)) if x.any_special else result


# -- what ranges give to them ------------------------------------------------------------------------------------------


def finite_bounds(x: Range) -> tuple[Array, Array]:
    """Bounds of the finite values of every element, zero where there are none."""
    low, high, _ = x.expanded()
    if x.has_special:
        empty = low > high
        low, high = np.where(empty, 0.0, low), np.where(empty, 0.0, high)
    return low, high


def position_unit(format: Format) -> float:
    """The unit roundoff of positions: the tensor's own, float32's at best."""
    return max(format.unit_roundoff, 2.0**-24)


def special_of_sums(x: Range) -> int:
    """Special values of weighted sums that may read any element: an infinity becomes anything."""
    return SPECIALS if x.any_special & INFINITIES else x.any_special


def channel_hull(x: Range, *, with_zero: bool) -> tuple[Array, Array]:
    """Bounds of the finite values per batch cell and channel cell, (batch, channels)."""
    axes = tuple(range(2, x.rank))
    hull = x.smash(axes)
    low, high = (a.reshape(a.shape[:2]) for a in (hull.low, hull.high))
    empty = low > high
    low, high = np.where(empty, 0.0, low), np.where(empty, 0.0, high)
    return (np.minimum(low, 0.0), np.maximum(high, 0.0)) if with_zero else (low, high)
