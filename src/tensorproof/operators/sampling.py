"""Sampling of images at positions that are data: GridSample, AffineGrid, RoiAlign, CropAndResize, DeformConv."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import Array, Format
from tensorproof.operators.table import CORRECT, Call, operator
from tensorproof.ranges.partial_sums import with_partial_sums
from tensorproof.ranges.range import INFINITIES, SPECIALS, Range
from tensorproof.ranges.sampling import (
    SAMPLE_BUDGET,
    Planes,
    cubic_at,
    is_narrow,
    largest_neighbour_at,
    linear_at,
    nearest_at,
    within_reach,
)
from tensorproof.ranges.sums import interval_product, summation_error
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW

#: Images with more elements than this are taken as one cell per channel.
IMAGE_BUDGET = 1 << 18
#: Cubic convolution of GridSample (ONNX GridSample-22: as in PyTorch).
CUBIC_A = -0.75


def _finite_bounds(x: Range) -> tuple[Array, Array]:
    low, high, _ = x.expanded()
    if x.has_special:
        empty = low > high
        low, high = np.where(empty, 0.0, low), np.where(empty, 0.0, high)
    return low, high


def _unit(format: Format) -> float:
    """The unit roundoff of positions: the tensor's own, float32's at best."""
    return max(format.unit_roundoff, 2.0**-24)


def _any_special(x: Range) -> int:
    """Special values of weighted sums that may read any element: an infinity becomes anything."""
    return SPECIALS if x.any_special & INFINITIES else x.any_special


def _channel_hull(x: Range, *, with_zero: bool) -> tuple[Array, Array]:
    """Bounds of the finite values per batch cell and channel cell, (batch, channels)."""
    axes = tuple(range(2, x.rank))
    hull = x.smash(axes)
    low, high = (a.reshape(a.shape[:2]) for a in (hull.low, hull.high))
    empty = low > high
    low, high = np.where(empty, 0.0, low), np.where(empty, 0.0, high)
    return (np.minimum(low, 0.0), np.maximum(high, 0.0)) if with_zero else (low, high)


@operator("GridSample", error=CORRECT, coarse="cubic interpolation at a position that is not exact takes the whole plane")
def grid_sample(op: Call, x: Range, grid: Range) -> Range:
    """Linear inside the hull of neighbours and padding, nearest moves data, cubic overshoots."""
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(op.attribute("mode", "linear"), op.attribute("mode", "linear"))
    padding = op.attribute("padding_mode", "zeros")
    aligned = bool(op.attribute("align_corners", 0))
    if x.format.kind in ("string", "complex"):
        raise NotAnalysed(f"{x.format} cannot be interpolated")
    batch, channels, *space = x.sizes
    shape = (batch, channels, *grid.sizes[1:-1])
    if 0 in shape or 0 in space:
        return Range.uniform(shape, x.format, 0.0, 0.0)
    points = int(np.prod(shape[2:], dtype=np.int64))
    taps = 4 ** len(space) if mode == "cubic" else 2 ** len(space)
    if x.size > IMAGE_BUDGET or grid.size > IMAGE_BUDGET or batch * channels * points * taps > SAMPLE_BUDGET:
        low, high = _overshot(*_channel_hull(x, with_zero=padding == "zeros"), mode, len(space))
        cells = (*low.shape, *(1,) * (len(shape) - 2))
        whole = Range(x.format, shape, (*x.grid[:2], *(None,) * (len(shape) - 2)), low.reshape(cells), high.reshape(cells))
        return _finished(op, x, whole, np.maximum(np.abs(whole.low), np.abs(whole.high)), mode, taps)
    lows, highs = _positions(grid, space, aligned)
    low, high = _finite_bounds(x)
    planes = Planes(low, high, padding, aligned)
    low, high = _sampled(planes, lows, highs, mode)
    result = Range.elements(x.format, low.reshape(shape), high.reshape(shape))
    largest = max(abs(float(v)) for v in (planes.low.min(), planes.high.max()))
    return _finished(op, x, result, np.full(shape, largest), mode, taps)


def _positions(grid: Range, space: Sequence[int], aligned: bool) -> tuple[list[Array], list[Array]]:
    """Bounds of the positions along each spatial axis, (batch, points); the grid's last axis counts them backwards."""
    low, high = _finite_bounds(grid)
    if grid.has_special:
        raise NotAnalysed("a position may not be finite")
    lows: list[Array] = []
    highs: list[Array] = []
    for axis, size in enumerate(space):
        ends = [a[..., len(space) - 1 - axis].reshape(len(a), -1) for a in (low, high)]
        # Every step rounds monotonically, so that the ends give the ends, in whatever format they are taken.
        lows.append(np.minimum.reduce(_scaled(ends[0], size, aligned, grid.format)))
        highs.append(np.maximum.reduce(_scaled(ends[1], size, aligned, grid.format)))
    return lows, highs


def _scaled(normal: Array, size: int, aligned: bool, format: Format) -> list[Array]:
    """Normalised coordinates as positions, as runtimes may compute them (ONNX GridSample-22)."""
    found: list[Array] = []
    for dtype in {np.dtype(np.float32), np.dtype(np.float64), format.dtype}:
        one, two, count = (np.asarray(v, dtype) for v in (1, 2, size))
        n = normal.astype(dtype)
        position = (n + one) / two * (count - one) if aligned else ((n + one) * count - one) / two
        found.extend((position.astype(np.float64), position.astype(np.float32).astype(np.float64)))
    return found


def _sampled(planes: Planes, lows: Sequence[Array], highs: Sequence[Array], mode: str) -> tuple[Array, Array]:
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
    least, most = _overshot(least, most, mode, len(axes))
    wide = ~narrow[:, None]
    return np.where(wide, least[..., None], low), np.where(wide, most[..., None], high)


def _overshot(low: Array, high: Array, mode: str, rank: int) -> tuple[Array, Array]:
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


def _finished(op: Call, x: Range, result: Range, size: Array, mode: str, taps: int) -> Range:
    """The rounding error of the weighted sums added, or integers rounded, and special values."""
    if mode == "nearest":
        return result.with_special(x.any_special) if x.any_special else result
    if not x.format.is_float:
        low, high = np.floor(result.low), np.ceil(result.high)
        return result.replace(
            np.clip(low, x.format.low, x.format.high), np.clip(high, x.format.low, x.format.high), None
        )
    # Weights are rounded like numbers up to one: the error counts every element that takes part in full.
    error = summation_error(op, size * min(taps, 16), taps + 8, x.format) / min(taps, 16) * 4
    result = result.replace(result.low - error, result.high + error, None)
    return result.with_special(_any_special(x)) if x.any_special else result


@operator("GridSample", domain="com.microsoft", composed_of=(grid_sample,), coarse=grid_sample.coarse)
def contrib_grid_sample(op: Call, x: Range, grid: Range) -> Range:
    """The standard's GridSample under an older name."""
    return op.apply(grid_sample, x, grid, **op.attributes)


@operator("AffineGrid", error=CORRECT, overflow=ACCUMULATION_OVERFLOW)
def affine_grid(op: Call, theta: Range, size: Range) -> Range:
    """Linear in theta: its product with evenly spaced positions in [-1, 1]."""
    sizes = op.integers("size", size)
    assert sizes is not None
    batch, space = sizes[0], sizes[2:]
    rank = len(space)
    shape = (batch, *space, rank)
    if 0 in shape:
        return Range.uniform(shape, theta.format, 0.0, 0.0)
    aligned = bool(op.attribute("align_corners", 0))
    points = int(np.prod(space, dtype=np.int64))
    low_t, high_t = _finite_bounds(theta)
    if batch * points * rank > SAMPLE_BUDGET:
        low_b, high_b = np.full((rank + 1, 1), -1.0), np.ones((rank + 1, 1))
        low_b[rank] = 1.0
        grid: Any = (theta.expand().grid[0], *(None,) * rank, np.arange(rank + 1, dtype=np.int64))
        cells = (batch, *(1,) * rank, rank)
    else:
        low_b, high_b = _base_grid(space, aligned)
        grid = None
        cells = shape
    low, high, magnitude = interval_product(low_t, high_t, low_b, high_b)
    # Positions are made in a few roundings of numbers up to one.
    error = summation_error(op, magnitude, rank + 12, theta.format)
    low, high, magnitude = (np.swapaxes(a, 1, 2).reshape(cells) for a in (low - error, high + error, magnitude + error))
    special = np.full(cells, _any_special(theta), np.uint8) if theta.any_special else None
    if grid is None:
        result = Range.elements(theta.format, low, high, special)
    else:
        result = Range(theta.format, shape, grid, low, high, special)
    return with_partial_sums(op, result, magnitude)


def _base_grid(space: Sequence[int], aligned: bool) -> tuple[Array, Array]:
    """Homogeneous positions (x, y, ..., 1) of all points, the last spatial axis first; (rank + 1, points)."""
    ends: list[tuple[Array, Array]] = []
    for size in space:
        if aligned and size == 1:
            # 0/0 in the standard's formula: runtimes differ.
            ends.append((np.full(1, -1.0), np.ones(1)))
            continue
        steps = np.arange(size, dtype=np.float64)
        line = steps * 2 / (size - 1) - 1 if aligned else (2 * steps + 1) / size - 1
        ends.append((line, line))
    parts: list[Array] = []
    for side in (0, 1):
        lines = np.meshgrid(*(pair[side] for pair in ends), indexing="ij")
        rows = [line.reshape(-1) for line in reversed(lines)]
        parts.append(np.stack([*rows, np.ones(rows[0].shape)]))
    return parts[0], parts[1]


# -- regions of interest ----------------------------------------------------------------------------------------------


@operator("RoiAlign", error=CORRECT, coarse="regions that are not exact take the hull of a whole channel and zero")
def roi_align(op: Call, x: Range, rois: Range, batch_indices: Range) -> Range:
    """Increasing in the image: averages or maxima of bilinear samples, inside the hull of a channel and zero."""
    height, width = int(op.attribute("output_height", 1)), int(op.attribute("output_width", 1))
    regions = rois.sizes[0]
    shape = (regions, x.sizes[1], height, width)
    if 0 in shape:
        return Range.uniform(shape, x.format, 0.0, 0.0)
    batch = batch_indices.integers() if batch_indices.size <= IMAGE_BUDGET else None
    taken: tuple[Array, Array] | None = None
    if batch is not None and max(rois.size, x.size) <= IMAGE_BUDGET and not (x.has_special or rois.has_special):
        taken = _aligned_regions(op, x, rois, batch, height, width)
    if taken is None:
        low, high = _channel_hull(x, with_zero=True)
        low, high = low.min(axis=0, keepdims=True), high.max(axis=0, keepdims=True)
        cells = (1, low.shape[1], 1, 1)
        result = Range(x.format, shape, (None, x.grid[1], None, None), low.reshape(cells), high.reshape(cells))
        return _finished(op, x, result, np.maximum(np.abs(result.low), np.abs(result.high)), "linear", 16)
    result = Range.elements(x.format, *taken)
    ends = x.hull()
    return _finished(op, x, result, np.full(shape, max(abs(ends[0]), abs(ends[1]))), "linear", 16)


class Line:
    """Samples of regions along one axis, (region, bin, sample): bounds of their positions, and which of them count.

    Positions increase with both ends of a region. Samples beyond [-1, size] are zero, others are moved to the nearest
    element at the ends (ONNX RoiAlign-16).
    """

    __slots__ = ("certain", "gone", "high", "low", "may_go", "used")

    def __init__(self, op: Call, low: Array, high: Array, bins: int, size: int, unit: float) -> None:
        scale = float(op.attribute("spatial_scale", 1.0))
        ratio = int(op.attribute("sampling_ratio", 0))
        # ONNX RoiAlign-16 added half a pixel; before, there was no offset.
        half = op.version >= 16 and op.attribute("coordinate_transformation_mode", "half_pixel") == "half_pixel"
        starts = [ends[:, 0] * scale - (0.5 if half else 0.0) for ends in (low, high)]
        stops = [ends[:, 1] * scale - (0.5 if half else 0.0) for ends in (low, high)]
        shortest, longest = stops[0] - starts[1], stops[1] - starts[0]
        lengths = [stop - start for start, stop in zip(starts, stops)]
        if not half:
            shortest, longest, *lengths = (np.maximum(a, 1.0) for a in (shortest, longest, *lengths))
        slack = 2.0**-18 + 16 * unit
        steps = shortest / bins, longest / bins
        counts = [np.ceil(step + sign * slack * (np.abs(step) + 1)) for step, sign in zip(steps, (-1.0, 1.0))]
        exact = (steps[0] == steps[1]) & (steps[0] == np.rint(steps[0]))
        counts = [np.where(exact, steps[0], count) for count in counts]
        if ratio > 0:
            counts = [np.full(len(low), float(ratio))] * 2
        self.certain = bool((counts[0] == counts[1]).all()) and float(counts[1].max(initial=0.0)) <= 64
        most = int(min(max(counts[1].max(initial=0.0), 1.0), 64))
        inner = (np.arange(most) + 0.5) / np.maximum(counts[0], 1.0)[:, None]
        share = (np.arange(bins)[None, :, None] + inner[:, None, :]) / bins
        ends = [start[:, None, None] + share * length[:, None, None] for start, length in zip(starts, lengths)]
        error = 16 * unit * (np.maximum(np.abs(ends[0]), np.abs(ends[1])) + size + 1)
        low_at, high_at = np.minimum(*ends) - error, np.maximum(*ends) + error
        self.gone = (high_at < -1.0) | (low_at > size)
        self.may_go = (low_at <= -1.0) | (high_at >= size)
        self.low, self.high = np.clip(low_at, 0.0, size - 1.0), np.clip(high_at, 0.0, size - 1.0)
        used = np.arange(most)[None, None, :] < counts[0][:, None, None]
        self.used = np.broadcast_to(used, self.low.shape)

    def along(self, axis: int) -> Line:
        """The same samples as (region, 1, bins of both axes, samples of both axes)."""
        for name in ("gone", "high", "low", "may_go", "used"):
            array = getattr(self, name)
            regions, bins, samples = array.shape
            shape = (regions, 1, bins, 1, samples, 1) if axis == 0 else (regions, 1, 1, bins, 1, samples)
            setattr(self, name, array.reshape(shape))
        return self


def _aligned_regions(
    op: Call, x: Range, rois: Range, batch: Any, height: int, width: int
) -> tuple[Array, Array] | None:
    """Bounds of all bins of all regions, or None where their samples are too many or their number is not certain."""
    low, high, _ = rois.expanded()
    unit = rois.format.unit_roundoff
    rows = Line(op, low[:, [1, 3]], high[:, [1, 3]], height, x.sizes[2], unit)
    columns = Line(op, low[:, [0, 2]], high[:, [0, 2]], width, x.sizes[3], unit)
    samples = rows.low.shape[2] * columns.low.shape[2] * height * width
    if not (rows.certain and columns.certain) or len(low) * x.sizes[1] * samples * 4 > SAMPLE_BUDGET:
        return None
    rows, columns = rows.along(0), columns.along(1)
    shape = np.broadcast_shapes(rows.low.shape, columns.low.shape)

    def points(row: Array, column: Array) -> list[Array]:
        return [np.broadcast_to(a, shape).reshape(len(low), -1) for a in (row, column)]

    planes = Planes(*(a[batch] for a in x.expanded()[:2]), "border")
    lows, highs = points(rows.low, columns.low), points(rows.high, columns.high)
    averages = op.attribute("mode", "avg") == "avg"
    if averages:
        ends = _sampled(planes, lows, highs, "linear")
    elif is_narrow(lows, highs).all():
        ends = largest_neighbour_at(planes, lows, highs)
    else:
        return None
    shape = (shape[0], x.sizes[1], *shape[2:])
    return _pooled(rows, columns, [a.reshape(shape) for a in ends], averages)


def _pooled(rows: Line, columns: Line, ends: Sequence[Array], averages: bool) -> tuple[Array, Array]:
    """Bounds of samples averaged over their bin, or of their maximum."""
    used = rows.used & columns.used
    gone, may_go = rows.gone | columns.gone, rows.may_go | columns.may_go
    low, high = ends
    low = np.where(gone, 0.0, np.where(may_go, np.minimum(low, 0.0), low))
    high = np.where(gone, 0.0, np.where(may_go, np.maximum(high, 0.0), high))
    if averages:
        count = np.maximum(used.sum(axis=(4, 5)), 1)
        return tuple(np.where(used, a, 0.0).sum(axis=(4, 5)) / count for a in (low, high))  # type: ignore[return-value]
    nothing = ~used.any(axis=(4, 5))
    return tuple(  # type: ignore[return-value]
        np.where(nothing, 0.0, np.where(used, a, -np.inf).max(axis=(4, 5))) for a in (low, high)
    )


# -- deformable convolution -------------------------------------------------------------------------------------------


@operator(
    "DeformConv",
    error=CORRECT,
    overflow=ACCUMULATION_OVERFLOW,
    coarse="an offset that spans many elements takes the hull of the whole plane and zero",
)
def deform_conv(
    op: Call, x: Range, w: Range, offset: Range, bias: Range | None = None, mask: Range | None = None
) -> Range:
    """Weights and mask times bilinear samples, each inside the hull of its neighbours and zero."""
    if x.rank != 4:
        raise NotAnalysed("deformable convolution is known in two dimensions only")
    batch, channels = x.sizes[:2]
    filters, _, *kernel = w.sizes
    output = offset.sizes[2:]
    shape = (batch, filters, *output)
    if 0 in shape:
        return Range.uniform(shape, x.format, 0.0, 0.0)
    taps, points = kernel[0] * kernel[1], output[0] * output[1]
    groups, parts = int(op.attribute("group", 1)), int(op.attribute("offset_group", 1))
    fits = max(x.size, offset.size) <= IMAGE_BUDGET and batch * channels * taps * points * 4 <= SAMPLE_BUDGET
    if fits:
        low, high = _deformed_samples(op, x, offset, kernel, output, parts)
    else:
        low, high = _channel_hull(x.refine_fully(1), with_zero=True)
        low, high = (np.broadcast_to(a[:, :, None, None], (*a.shape, taps, 1)) for a in (low, high))
    if mask is not None:
        low_m, high_m = _mask_bounds(mask, batch, parts, channels, taps, points, fits)
        corners = [a * b for a in (low, high) for b in (low_m, high_m)]
        low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
    count, width = low.shape[0], low.shape[3]
    columns = (count, groups, channels // groups * taps, width)
    low_w, high_w = (
        a.reshape(1, groups, filters // groups, -1) for a in _finite_bounds(w)
    )
    low, high, total = interval_product(low_w, high_w, low.reshape(columns), high.reshape(columns))
    low, high, total = (a.reshape(count, filters, width) for a in (low, high, total))
    if bias is not None:
        low_b, high_b = (a[None, :, None] for a in _finite_bounds(bias))
        low, high, total = low + low_b, high + high_b, total + np.maximum(np.abs(low_b), np.abs(high_b))
    error = summation_error(op, total, channels // groups * taps + 6, x.format)
    cells = (count, filters, *(output if fits else (1, 1)))
    low, high, total = (a.reshape(cells) for a in (low - error, high + error, total + error))
    grid = (x.grid[0], np.arange(filters + 1, dtype=np.int64) if filters > 1 else None, None, None)
    result = Range.elements(x.format, low, high) if fits else Range(x.format, shape, grid, low, high)
    special = 0
    for operand in (x, w, offset, bias, mask):
        special |= 0 if operand is None else _any_special(operand)
    return with_partial_sums(op, result.with_special(special), total)


def _deformed_samples(
    op: Call, x: Range, offset: Range, kernel: Sequence[int], output: Sequence[int], parts: int
) -> tuple[Array, Array]:
    """Bounds of what every tap reads at every output, (batch, channels, taps, points)."""
    if offset.has_special:
        raise NotAnalysed("an offset may not be finite")
    batch, channels, *space = x.sizes
    strides, dilations = op.attribute("strides") or [1, 1], op.attribute("dilations") or [1, 1]
    pads = op.attribute("pads") or [0, 0, 0, 0]
    taps = kernel[0] * kernel[1]
    tap = np.indices(kernel).reshape(2, taps)
    place = np.indices(output).reshape(2, -1)
    ends = [a.reshape(batch, parts, taps, 2, -1) for a in _finite_bounds(offset)]
    lows: list[Array] = []
    highs: list[Array] = []
    for axis in range(2):
        base = (tap[axis] * dilations[axis])[:, None] + place[axis] * strides[axis] - pads[axis]
        for found, end, sign in ((lows, ends[0], -1.0), (highs, ends[1], 1.0)):
            position = base + end[:, :, :, axis]
            slack = 8 * _unit(offset.format) * (np.abs(position) + space[axis] + 1)
            found.append((position + sign * slack).reshape(batch * parts, -1))
    low, high = (a.reshape(batch * parts, channels // parts, *space) for a in _finite_bounds(x))
    low, high = _sampled(Planes(low, high, "zeros"), lows, highs, "linear")
    size = np.maximum(np.abs(low), np.abs(high))
    error = summation_error(op, 4 * size, 12, x.format)
    return tuple(a.reshape(batch, channels, taps, -1) for a in (low - error, high + error))  # type: ignore[return-value]


def _mask_bounds(
    mask: Range, batch: int, parts: int, channels: int, taps: int, points: int, fits: bool
) -> tuple[Array, Array]:
    """Bounds of the mask, one per channel, tap and point (or their hull)."""
    if not fits:
        low, high = mask.hull()
        return np.full((1, 1, 1, 1), low), np.full((1, 1, 1, 1), high)
    split = (batch, parts, 1, taps, points)
    return tuple(  # type: ignore[return-value]
        np.broadcast_to(a.reshape(split), (batch, parts, channels // parts, taps, points)).reshape(
            batch, channels, taps, points
        )
        for a in _finite_bounds(mask)
    )
