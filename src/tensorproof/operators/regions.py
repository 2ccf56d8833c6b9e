"""Regions of interest: maxima over bins, averages of bilinear samples, and crops at a fixed size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.formats import Array
from tensorproof.operators.sampling import weighted_neighbours
from tensorproof.operators.table import CORRECT, Attributed, Call, operator
from tensorproof.ranges.partial_sums import report_sum
from tensorproof.ranges.range import NAN, NEGATIVE_INFINITY, Range
from tensorproof.ranges.sampling import (
    IMAGE_BUDGET,
    SAMPLE_BUDGET,
    Planes,
    channel_hull,
    finite_bounds,
    is_narrow,
    largest_neighbour_at,
    position_unit,
    rounded_samples,
    sampled,
)
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor

_Mask = npt.NDArray[np.bool_]


@operator("MaxRoiPool")
def max_roi_pool(op: Call, x: Range, rois: Range) -> Range:
    """Increasing and exact in the image: the maximum of each bin of a region, zero for an empty bin."""
    height, width = (int(v) for v in op.attribute("pooled_shape"))
    scale = float(op.attribute("spatial_scale", 1.0))
    regions = rois.sizes[0]
    shape = (regions, x.sizes[1], height, width)
    boxes = rois.values() if rois.size <= IMAGE_BUDGET else None
    cells = regions * x.sizes[1] * height * x.sizes[2] * max(width, x.sizes[3])
    if boxes is None or x.has_special or x.size > IMAGE_BUDGET or cells > SAMPLE_BUDGET or 0 in shape:
        hull = x.smash((0, 2, 3))
        low, high = np.minimum(hull.low, 0.0), np.maximum(hull.high, 0.0)
        # The search for a maximum begins at the lowest number, which -inf and NaN do not exceed.
        low = np.where(hull.special & np.uint8(NAN | NEGATIVE_INFINITY), x.format.low, low)
        if 0 in shape:
            return Range.uniform(shape, x.format, 0.0, 0.0)
        return Range(x.format, shape, (None, x.grid[1], None, None), low, high, hull.special)
    batch = np.clip(boxes[:, 0].astype(np.int64), 0, x.sizes[0] - 1)
    rows = _bins(boxes[:, 2], boxes[:, 4], scale, height, x.sizes[2])
    columns = _bins(boxes[:, 1], boxes[:, 3], scale, width, x.sizes[3])
    low, high, _ = x.expanded()
    # An element that may be in the bin can only raise the maximum; a bin that may be empty can be zero.
    sure, possible = _bin_maximum(low[batch], rows[0], columns[0]), _bin_maximum(high[batch], rows[1], columns[1])
    least = -_bin_maximum(-low[batch], rows[1], columns[1])
    low = np.where(sure > -np.inf, sure, np.minimum(least, 0.0))
    return Range.elements(x.format, low, np.where(sure > -np.inf, possible, np.maximum(possible, 0.0)))


@max_roi_pool.meaning
def _(run: Run, x: Tensor, rois: Tensor) -> Tensor:
    height, width = (int(v) for v in run.attribute("pooled_shape"))
    scale = float(run.attribute("spatial_scale", 1.0))
    boxes = rois.detach().double().numpy()
    rows = _bin_masks(boxes[:, 2], boxes[:, 4], scale, height, x.shape[2], np.float32)
    columns = _bin_masks(boxes[:, 1], boxes[:, 3], scale, width, x.shape[3], np.float32)
    largest = x[run.whole(rois[:, 0])]
    for mask, axis in ((rows, 2), (columns, 3)):
        # (R, bins, size) beside the channels and the other spatial axis.
        chosen = run.torch.from_numpy(mask)[:, None].unsqueeze(4 if axis == 2 else 2)
        largest = run.torch.where(chosen, largest.unsqueeze(axis), -np.inf).amax(dim=axis + 1)
    return run.torch.where(largest == -np.inf, 0.0, largest)


def _bins(start: Array, end: Array, scale: float, count: int, size: int) -> tuple[_Mask, _Mask]:
    """Per region and bin, the positions of an axis that are certainly in the bin, and those that may be.

    Runtimes cut bins in float32 or in float64; near an integer the two may disagree.
    """
    narrow, wide = (_bin_masks(start, end, scale, count, size, kind) for kind in (np.float32, np.float64))
    return narrow & wide, narrow | wide


def _bin_masks(start: Array, end: Array, scale: float, count: int, size: int, kind: Any) -> _Mask:
    """The same for one way to compute, of numbers of this kind: (region, bin, position)."""
    first, last = (_round_half_away(ends.astype(kind) * kind(scale)) for ends in (start, end))
    length = np.maximum(last - first + 1, 1) / kind(count)
    steps = np.arange(count).astype(kind)
    begin = np.floor(steps * length[:, None]) + first[:, None]
    stop = np.ceil((steps + 1) * length[:, None]) + first[:, None]
    position = np.arange(size)
    return (position >= begin[..., None]) & (position < stop[..., None])


def _round_half_away(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """std::round of C++."""
    return np.where(values < 0, -np.floor(0.5 - values), np.floor(values + 0.5))


def _bin_maximum(image: Array, rows: _Mask, columns: _Mask) -> Array:
    """(R, C, H, W) with masks (R, h, H) and (R, w, W) to (R, C, h, w)."""
    over_rows = np.where(rows[:, None, :, :, None], image[:, :, None], -np.inf).max(axis=3)
    return np.where(columns[:, None, None], over_rows[:, :, :, None, :], -np.inf).max(axis=4)


@operator(
    "RoiAlign",
    error=CORRECT,
    overflow=ACCUMULATION_OVERFLOW,
    coarse="the samples of a region that is not exact move together, their bounds do not",
)
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
        low, high = channel_hull(x, with_zero=True)
        low, high = low.min(axis=0, keepdims=True), high.max(axis=0, keepdims=True)
        cells = (1, low.shape[1], 1, 1)
        result = Range(x.format, shape, (None, x.grid[1], None, None), low.reshape(cells), high.reshape(cells))
        _report_sums(op, result, rois, height, width)
        return rounded_samples(op, x, result, np.maximum(np.abs(result.low), np.abs(result.high)), "linear", 16, precise=True)
    result = Range.elements(x.format, *taken)
    _report_sums(op, result, rois, height, width)
    ends = x.hull()
    return rounded_samples(op, x, result, np.full(shape, max(abs(ends[0]), abs(ends[1]))), "linear", 16, precise=True)


@roi_align.meaning
def _(run: Run, x: Tensor, rois: Tensor, batch_indices: Tensor) -> Tensor:
    height, width = int(run.attribute("output_height", 1)), int(run.attribute("output_width", 1))
    rows, rows_used = _sample_line(run, rois[:, 1], rois[:, 3], height)
    columns, columns_used = _sample_line(run, rois[:, 0], rois[:, 2], width)
    # (region, bins of both axes, samples of both axes)
    positions = run.torch.broadcast_tensors(rows[:, :, None, :, None], columns[:, None, :, None, :])
    used = (rows_used[:, :, None] & columns_used[:, None, :])[:, None, None, None]
    inside = run.torch.ones_like(positions[0], dtype=run.torch.bool)
    for position, size in zip(positions, x.shape[2:]):
        inside = inside & (position >= -1.0) & (position <= size)
    terms = _clamped_neighbours(run, x[run.whole(batch_indices)], [position.flatten(1) for position in positions])
    averages = run.attribute("mode", "avg") == "avg"
    # The largest of the four weighted neighbours, not of their sums (ONNX RoiAlign-16).
    samples = terms.sum(dim=0) if averages else terms.amax(dim=0)
    samples = run.torch.where(inside.unsqueeze(1), samples.unflatten(2, positions[0].shape[1:]), 0.0)
    if averages:
        return run.torch.where(used, samples, 0.0).sum(dim=(4, 5)) / used.sum(dim=(4, 5)).clamp(min=1)
    largest = run.torch.where(used, samples, -np.inf).amax(dim=(4, 5))
    return run.torch.where(largest == -np.inf, 0.0, largest)


def _sample_line(run: Run, starts: Tensor, stops: Tensor, bins: int) -> tuple[Tensor, Tensor]:
    """Samples of regions along one axis: their positions (region, bin, sample), and which of them count (region, sample)."""
    scale, ratio = float(run.attribute("spatial_scale", 1.0)), int(run.attribute("sampling_ratio", 0))
    half = _is_half_pixel(run, run.version)
    offset = 0.5 if half else 0.0
    start = starts * scale - offset
    length = stops * scale - offset - start
    length = length if half else run.passing(length.clamp(min=1.0), length)
    step = length / bins
    counts = run.torch.full_like(step, float(ratio)) if ratio > 0 else step.detach().ceil()
    sample = run.torch.arange(max(int(counts.max()), 1) if counts.numel() else 1)
    share = (sample + 0.5) / counts.clamp(min=1.0)[:, None]
    bin_shares = run.torch.arange(bins)[:, None] + share[:, None]
    return start[:, None, None] + bin_shares * step[:, None, None], sample < counts[:, None]


def _is_half_pixel(op: Attributed, version: int) -> bool:
    """ONNX RoiAlign-16 added half a pixel; before, there was no offset."""
    return version >= 16 and op.attribute("coordinate_transformation_mode", "half_pixel") == "half_pixel"


def _clamped_neighbours(run: Run, planes: Tensor, positions: Sequence[Tensor]) -> Tensor:
    """The terms of bilinear interpolation where positions beyond the ends are moved to the nearest element."""
    moved = [run.passing(y.clamp(0.0, size - 1.0), y) for y, size in zip(positions, planes.shape[2:])]
    return weighted_neighbours(run, planes, moved)


def _report_sums(op: Call, averages: Range, rois: Range, height: int, width: int) -> None:
    """The samples of a bin are summed before they are divided: report where that sum overflows."""
    if op.attribute("mode", "avg") != "avg":
        return
    count = float(int(op.attribute("sampling_ratio", 0)) ** 2)
    if count <= 0:
        low, high = rois.hull()
        longest = max((high - low) * abs(float(op.attribute("spatial_scale", 1.0))), 1.0)
        count = np.ceil(longest / height) * np.ceil(longest / width)
    size = np.maximum(np.abs(averages.low), np.abs(averages.high)) * count
    report_sum(op, averages.replace(averages.low * count, averages.high * count, None), size)


class Line:
    """Samples of regions along one axis, (region, bin, sample): bounds of their positions, and which of them count.

    Positions increase with both ends of a region. Samples beyond [-1, size] are zero, others are moved to the nearest
    element at the ends (ONNX RoiAlign-16).
    """

    __slots__ = ("certain", "gone", "high", "low", "may_go", "used")

    def __init__(self, op: Call, low: Array, high: Array, bins: int, size: int, unit: float) -> None:
        scale = float(op.attribute("spatial_scale", 1.0))
        ratio = int(op.attribute("sampling_ratio", 0))
        half = _is_half_pixel(op, op.version)
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


def _aligned_regions(op: Call, x: Range, rois: Range, batch: Any, height: int, width: int) -> tuple[Array, Array] | None:
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

    low_x, high_x, _ = x.expanded()
    planes = Planes(low_x[batch], high_x[batch], "border")
    lows, highs = points(rows.low, columns.low), points(rows.high, columns.high)
    averages = op.attribute("mode", "avg") == "avg"
    if averages:
        ends = sampled(planes, lows, highs, "linear")
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


@operator(
    "CropAndResize",
    domain="com.microsoft",
    error=CORRECT,
    coarse="all neighbours that an inexact position may choose are joined",
)
def crop_and_resize(op: Call, x: Range, boxes: Range, batch_indices: Range, crop_size: Range) -> Range:
    """Samples of boxes at a fixed size, inside the hull of their neighbours; a constant beyond the image."""
    size = op.integers("crop_size", crop_size)
    assert size is not None
    mode = str(op.attribute("mode", "bilinear")).replace("bilinear", "linear")
    constant = float(op.attribute("extrapolation_value", 0.0))
    regions, channels = boxes.sizes[0], x.sizes[1]
    shape = (regions, channels, *size)
    if 0 in shape:
        return Range.uniform(shape, x.format, 0.0, 0.0)
    batch = batch_indices.integers() if batch_indices.size <= IMAGE_BUDGET else None
    fits = max(x.size, boxes.size) <= IMAGE_BUDGET and regions * channels * size[0] * size[1] * 4 <= SAMPLE_BUDGET
    if batch is None or not fits or boxes.has_special or x.has_special:
        low, high = channel_hull(x, with_zero=False)
        low = np.minimum(low.min(axis=0), constant).reshape(1, -1, 1, 1)
        high = np.maximum(high.max(axis=0), constant).reshape(1, -1, 1, 1)
        result = Range(x.format, shape, (None, x.grid[1], None, None), low, high)
        return rounded_samples(op, x, result, np.maximum(np.abs(low), np.abs(high)), mode, 4)
    ends = finite_bounds(boxes)
    lows: list[Array] = []
    highs: list[Array] = []
    gone, may_go = np.zeros((1, 1), bool), np.zeros((1, 1), bool)
    for axis, (count, length) in enumerate(zip(size, x.sizes[2:])):
        # Positions increase with both ends.
        share = _shares(count)
        low, high = ((a[:, axis, None] * (1 - share) + a[:, axis + 2, None] * share) * (length - 1) for a in ends)
        error = 8 * position_unit(boxes.format) * (np.maximum(np.abs(low), np.abs(high)) + length)
        low, high = (np.repeat(a, size[1], 1) if axis == 0 else np.tile(a, (1, size[0])) for a in (low - error, high + error))
        gone = gone | (high < 0) | (low > length - 1)
        may_go = may_go | (low < 0) | (high > length - 1)
        lows.append(low)
        highs.append(high)
    low_x, high_x, _ = x.expanded()
    low, high = sampled(Planes(low_x[batch], high_x[batch], "border"), lows, highs, mode)
    gone, may_go = gone[:, None], may_go[:, None]
    low = np.where(gone, constant, np.where(may_go, np.minimum(low, constant), low)).reshape(shape)
    high = np.where(gone, constant, np.where(may_go, np.maximum(high, constant), high)).reshape(shape)
    largest = max(abs(v) for v in (*x.hull(), constant))
    return rounded_samples(op, x, Range.elements(x.format, low, high), np.full(shape, largest), mode, 4)


@crop_and_resize.meaning
def _(run: Run, x: Tensor, boxes: Tensor, batch_indices: Tensor, crop_size: Tensor) -> Tensor:
    size = run.integers("crop_size", crop_size)
    assert size is not None
    lines: list[Tensor] = []
    for axis, (count, length) in enumerate(zip(size, x.shape[2:])):
        share = run.torch.from_numpy(_shares(count)).to(boxes.dtype)
        lines.append((boxes[:, axis, None] * (1.0 - share) + boxes[:, axis + 2, None] * share) * (length - 1))
    positions = run.torch.broadcast_tensors(lines[0][:, :, None], lines[1][:, None, :])
    inside = run.torch.ones_like(positions[0], dtype=run.torch.bool)
    for position, length in zip(positions, x.shape[2:]):
        inside = inside & (position >= 0) & (position <= length - 1)
    points = [position.flatten(1) for position in positions]
    planes = x[run.whole(batch_indices)]
    samples = _clamped_neighbours(run, planes, points).sum(dim=0)
    if run.attribute("mode", "bilinear") == "nearest":
        nearest = [(position.detach() + 0.5).floor() for position in points]
        samples = run.passing(_clamped_neighbours(run, planes, nearest).sum(dim=0), samples)
    outside = float(run.attribute("extrapolation_value", 0.0))
    return run.torch.where(inside.unsqueeze(1), samples.unflatten(2, tuple(size)), outside)


def _shares(count: int) -> Array:
    """Evenly spaced parts of the way from the first end of a box to the second, or its middle."""
    return np.full(1, 0.5) if count == 1 else np.arange(count) / (count - 1)
