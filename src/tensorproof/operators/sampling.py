"""Sampling of images at positions that are data: GridSample, AffineGrid, DeformConv."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.execute.meaning import NotExecutable
from tensorproof.formats import Array, Format
from tensorproof.operators.table import CORRECT, NEWEST, Attributed, Call, operator
from tensorproof.ranges.partial_sums import Sums, report_sum
from tensorproof.ranges.range import Range
from tensorproof.ranges.sampling import (
    IMAGE_BUDGET,
    SAMPLE_BUDGET,
    Planes,
    channel_hull,
    finite_bounds,
    overshot,
    position_unit,
    rounded_samples,
    sampled,
    special_of_sums,
)
from tensorproof.ranges.sums import dot_product, interval_product, keep_sign, summation_error
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall


@operator("GridSample", error=CORRECT, coarse="cubic interpolation at a position that is not exact takes the whole plane")
def grid_sample(op: Call, x: Range, grid: Range) -> Range:
    """Linear inside the hull of neighbours and padding, nearest moves data, cubic overshoots."""
    mode = str(op.attribute("mode", "linear")).removeprefix("bi")
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
        low, high = overshot(*channel_hull(x, with_zero=padding == "zeros"), mode, len(space))
        cells = (*low.shape, *(1,) * (len(shape) - 2))
        whole = Range(x.format, shape, (*x.grid[:2], *(None,) * (len(shape) - 2)), low.reshape(cells), high.reshape(cells))
        return rounded_samples(op, x, whole, np.maximum(np.abs(whole.low), np.abs(whole.high)), mode, taps)
    lows, highs = _positions(grid, space, aligned)
    low, high = finite_bounds(x)
    planes = Planes(low, high, padding, aligned)
    low, high = sampled(planes, lows, highs, mode)
    result = Range.elements(x.format, low.reshape(shape), high.reshape(shape))
    largest = max(abs(float(v)) for v in (planes.low.min(), planes.high.max()))
    return rounded_samples(op, x, result, np.full(shape, largest), mode, taps)


@grid_sample.meaning
def _(run: Run, x: Tensor, grid: Tensor) -> Tensor:
    mode = str(run.attribute("mode", "linear")).removeprefix("bi")
    if x.ndim not in (4, 5) or (x.ndim == 5 and mode == "cubic"):
        raise NotExecutable(f"torch has no {mode} sampling of {x.ndim - 2} spatial axes")
    padding, aligned = run.attribute("padding_mode", "zeros"), bool(run.attribute("align_corners", 0))
    wide = run.torch.promote_types(x.dtype, grid.dtype)
    wide = run.torch.promote_types(wide, run.torch.float32)

    def sampled(mode: str) -> Tensor:
        name = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
        return run.torch.nn.functional.grid_sample(x.to(wide), grid.to(wide), name, padding, aligned)

    result = sampled(mode)
    if mode == "nearest" and run.search:
        result = run.passing(result, sampled("linear"))
    return result if run.search else result.to(x.dtype)


@grid_sample.aten("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def _(call: AtenCall) -> int:
    """PyTorch numbers modes and paddings."""
    mode = ("linear", "nearest", "cubic")[call["interpolation_mode"]]
    padding = ("zeros", "border", "reflection")[call["padding_mode"]]
    operands, aligned = (call.tensor("input"), call.tensor("grid")), int(bool(call["align_corners"]))
    return call.emit("GridSample", *operands, mode=mode, padding_mode=padding, align_corners=aligned, formats=(call.result.format,))


def _positions(grid: Range, space: Sequence[int], aligned: bool) -> tuple[list[Array], list[Array]]:
    """Bounds of the positions along each spatial axis, (batch, points); the grid's last axis counts them backwards."""
    low, high = finite_bounds(grid)
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


@operator("GridSample", domain="com.microsoft", composed_of=(grid_sample,), coarse=grid_sample.coarse)
def contrib_grid_sample(op: Call, x: Range, grid: Range) -> Range:
    """The standard's GridSample under an older name."""
    return op.apply(grid_sample, x, grid, **op.attributes)


@contrib_grid_sample.meaning
def _(run: Run, x: Tensor, grid: Tensor) -> Tensor:
    return run.apply("GridSample", x, grid, version=NEWEST, **run.attributes)


@operator("AffineGrid", error=CORRECT, overflow=ACCUMULATION_OVERFLOW, steered_by=(1,))
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
    low_t, high_t = finite_bounds(theta)
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
    # Positions are made in a few roundings of numbers up to one, in the tensor's own format whatever sums accumulate in.
    error = summation_error(op, magnitude, rank + 1, theta.format) + 12 * theta.format.unit_roundoff * magnitude
    low, high, magnitude = (np.swapaxes(a, 1, 2).reshape(cells) for a in (low - error, high + error, magnitude + error))
    special = np.full(cells, special_of_sums(theta), np.uint8) if theta.any_special else None
    if grid is None:
        result = Range.elements(theta.format, low, high, special)
    else:
        result = Range(theta.format, shape, grid, low, high, special)
    report_sum(op, result, magnitude)
    return result


@affine_grid.aten("affine_grid_generator")
def _(call: AtenCall) -> int:
    theta, aligned = call.tensor("theta"), int(bool(call["align_corners"]))
    return call.emit("AffineGrid", theta, call.sizes("size"), align_corners=aligned, formats=(call.result.format,))


@affine_grid.meaning
def _(run: Run, theta: Tensor, size: Tensor) -> Tensor:
    sizes = run.integers("size", size)
    assert sizes is not None
    return run.torch.nn.functional.affine_grid(theta, sizes, align_corners=bool(run.attribute("align_corners", 0)))


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


@operator(
    "DeformConv",
    error=CORRECT,
    overflow=ACCUMULATION_OVERFLOW,
    coarse="an offset that spans many elements takes the hull of the whole plane and zero",
)
def deform_conv(op: Call, x: Range, w: Range, offset: Range, bias: Range | None = None, mask: Range | None = None) -> Range:
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
        low, high = channel_hull(x.refine_fully(1), with_zero=True)
        low, high = (np.broadcast_to(a[:, :, None, None], (*a.shape, taps, 1)) for a in (low, high))
    if mask is not None:
        low_m, high_m = _mask_bounds(mask, batch, parts, channels, taps, points, fits)
        corners = [a * b for a in (low, high) for b in (low_m, high_m)]
        low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
    count, width = low.shape[0], low.shape[3]
    columns = (count, groups, channels // groups * taps, width)
    low_w, high_w = (a.reshape(1, groups, filters // groups, -1) for a in finite_bounds(w))
    dot = dot_product(op, low_w, high_w, low.reshape(columns), high.reshape(columns), x.format)
    nonnegative, nonpositive = (np.broadcast_to(a, dot.low.shape) for a in (dot.nonnegative, dot.nonpositive))
    sums = Sums(dot.low, dot.high, dot.magnitude, nonnegative, nonpositive).mapped(lambda a: a.reshape(count, filters, width))
    low, high, total, nonnegative, nonpositive = sums
    if bias is not None:
        low_b, high_b = (a[None, :, None] for a in finite_bounds(bias))
        low, high, total = low + low_b, high + high_b, total + np.maximum(np.abs(low_b), np.abs(high_b))
        nonnegative, nonpositive = nonnegative & (low_b >= 0), nonpositive & (high_b <= 0)
    error = summation_error(op, total, channels // groups * taps + 6, x.format)
    low, high = keep_sign(low - error, high + error, nonnegative, nonpositive)
    cells = (count, filters, *(output if fits else (1, 1)))
    low, high, total = (a.reshape(cells) for a in (low, high, total + error))
    grid = (x.grid[0], np.arange(filters + 1, dtype=np.int64) if filters > 1 else None, None, None)
    result = Range.elements(x.format, low, high) if fits else Range(x.format, shape, grid, low, high)
    special = 0
    for operand in (x, w, offset, bias, mask):
        special |= 0 if operand is None else special_of_sums(operand)
    report_sum(op, result, total)
    return result.with_special(special)


@deform_conv.meaning
def _(run: Run, x: Tensor, w: Tensor, offset: Tensor, bias: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
    if x.ndim != 4:
        raise NotExecutable("deformable convolution is known in two dimensions only")
    batch, channels = x.shape[:2]
    filters, _, *kernel = w.shape
    output, taps = offset.shape[2:], kernel[0] * kernel[1]
    groups, parts = int(run.attribute("group", 1)), int(run.attribute("offset_group", 1))
    offsets = offset.reshape(batch * parts, taps, 2, -1)
    bases = (run.torch.from_numpy(base).to(offset.dtype) for base in _tap_positions(run, kernel, output))
    positions = [(base + offsets[:, :, axis]).flatten(1) for axis, base in enumerate(bases)]
    planes = x.reshape(batch * parts, channels // parts, *x.shape[2:])
    samples = weighted_neighbours(run, planes, positions).sum(dim=0)
    if mask is not None:
        samples = samples * mask.reshape(batch * parts, 1, -1)
    columns = samples.reshape(batch, groups, channels // groups * taps, -1)
    result = (w.reshape(groups, filters // groups, -1) @ columns).reshape(batch, filters, *output)
    return result if bias is None else result + bias.reshape(-1, 1, 1)


def weighted_neighbours(run: Run, planes: Tensor, positions: Sequence[Tensor]) -> Tensor:
    """The terms of multilinear interpolation: (corners, batch, channels, points) from planes (batch, channels, space).

    Positions are (batch, points) along each spatial axis; elements beyond the ends are zero.
    """
    sizes = planes.shape[2:]
    flat = planes.flatten(2)
    floors = [position.detach().floor() for position in positions]
    terms: list[Tensor] = []
    for corner in product((0, 1), repeat=len(sizes)):
        weight = run.torch.ones_like(positions[0])
        place = run.torch.zeros_like(positions[0], dtype=run.torch.int64)
        for bit, position, floor, size in zip(corner, positions, floors, sizes):
            index, part = floor + bit, position - floor
            inside = (index >= 0) & (index < size)
            weight = run.torch.where(inside, weight * (part if bit else 1.0 - part), 0.0)
            place = place * size + run.torch.where(inside, index, 0.0).to(run.torch.int64)
        taken = flat.gather(2, place[:, None].expand(-1, flat.shape[1], -1))
        terms.append(run.torch.where(weight[:, None] == 0.0, 0.0, taken * weight[:, None]))
    return run.torch.stack(terms)


def _tap_positions(op: Attributed, kernel: Sequence[int], output: Sequence[int]) -> list[Array]:
    """Where the taps of a kernel stand without an offset, along each axis: (taps, points)."""
    strides, dilations = op.attribute("strides") or [1, 1], op.attribute("dilations") or [1, 1]
    pads = op.attribute("pads") or [0, 0, 0, 0]
    tap, place = np.indices(kernel).reshape(2, -1), np.indices(output).reshape(2, -1)
    return [
        ((tap[axis] * dilations[axis])[:, None] + place[axis] * strides[axis] - pads[axis]).astype(np.float64) for axis in range(2)
    ]


def _deformed_samples(
    op: Call, x: Range, offset: Range, kernel: Sequence[int], output: Sequence[int], parts: int
) -> tuple[Array, Array]:
    """Bounds of what every tap reads at every output, (batch, channels, taps, points)."""
    if offset.has_special:
        raise NotAnalysed("an offset may not be finite")
    batch, channels, *space = x.sizes
    taps = kernel[0] * kernel[1]
    ends = [a.reshape(batch, parts, taps, 2, -1) for a in finite_bounds(offset)]
    lows: list[Array] = []
    highs: list[Array] = []
    for axis, base in enumerate(_tap_positions(op, kernel, output)):
        for found, end, sign in ((lows, ends[0], -1.0), (highs, ends[1], 1.0)):
            position = base + end[:, :, :, axis]
            slack = 8 * position_unit(offset.format) * (np.abs(position) + space[axis] + 1)
            found.append((position + sign * slack).reshape(batch * parts, -1))
    low, high = (a.reshape(batch * parts, channels // parts, *space) for a in finite_bounds(x))
    low, high = sampled(Planes(low, high, "zeros"), lows, highs, "linear")
    size = np.maximum(np.abs(low), np.abs(high))
    error = summation_error(op, 4 * size, 12, x.format)
    return tuple(a.reshape(batch, channels, taps, -1) for a in (low - error, high + error))  # type: ignore[return-value]


def _mask_bounds(mask: Range, batch: int, parts: int, channels: int, taps: int, points: int, fits: bool) -> tuple[Array, Array]:
    """Bounds of the mask, one per channel, tap and point (or their hull)."""
    if not fits:
        low, high = mask.hull()
        return np.full((1, 1, 1, 1), low), np.full((1, 1, 1, 1), high)
    split = (batch, parts, 1, taps, points)
    return tuple(  # type: ignore[return-value]
        np.broadcast_to(a.reshape(split), (batch, parts, channels // parts, taps, points)).reshape(batch, channels, taps, points)
        for a in finite_bounds(mask)
    )
