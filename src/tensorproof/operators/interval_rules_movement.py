"""Data movement and pooling of one interval: shapes change, the interval stays. See `tensorproof.operators.interval_rules`."""

from __future__ import annotations

import math

import numpy as np

from tensorproof.operators.joining import concat
from tensorproof.operators.movement import flatten, reshape_, squeeze, transpose_, unsqueeze
from tensorproof.operators.pooling import average_pool, pooling_windows
from tensorproof.operators.table import Call
from tensorproof.ranges.moving import known_axis
from tensorproof.ranges.range import Range
from tensorproof.ranges.sums import keep_sign, summation_error
from tensorproof.ranges.windows import taps_inside


def _as(x: Range, shape: tuple[int, ...]) -> Range | None:
    """One interval under another shape, or None if x is something else, or of another size."""
    ends = x.interval()
    if ends is None or not x.has_known_shape or math.prod(x.sizes) != math.prod(shape):
        return None
    return Range.uniform(shape, x.format, *ends)


@reshape_.interval
def _(op: Call, x: Range, shape: Range) -> Range | None:
    wanted = shape.array
    if wanted is None or wanted.ndim != 1 or not x.has_known_shape or x.interval() is None:
        return None
    sizes: list[int] = wanted.tolist()
    if 0 in sizes:
        if op.attribute("allowzero", 0) or any(size == 0 for size in sizes[x.rank :]):
            return None
        sizes = [x.sizes[axis] if size == 0 else size for axis, size in enumerate(sizes)]
    if -1 in sizes:
        # The open size makes up for the -1; a second one leaves a negative number, which is no size.
        sizes[sizes.index(-1)] = math.prod(x.sizes) // max(1, -math.prod(sizes))
    return _as(x, tuple(sizes)) if min(sizes, default=0) >= 0 else None


@flatten.interval
def _(op: Call, x: Range) -> Range | None:
    axis = op.attribute("axis", 1)
    if not x.has_known_shape or not -x.rank <= axis <= x.rank:
        return None
    axis = axis + x.rank if axis < 0 else axis
    return _as(x, (math.prod(x.sizes[:axis]), math.prod(x.sizes[axis:])))


@transpose_.interval
def _(op: Call, x: Range) -> Range | None:
    if not x.has_known_shape:
        return None
    sizes = x.sizes
    order = op.attribute("perm") or range(len(sizes))[::-1]
    return _as(x, tuple([sizes[axis] for axis in order])) if sorted(order) == list(range(len(sizes))) else None


@unsqueeze.interval
def _(op: Call, x: Range, axes: Range | None = None) -> Range | None:
    if not x.has_known_shape or x.interval() is None:
        return None
    given = op.integers("axes", axes) or []
    sizes, rank = list(x.sizes), x.rank + len(given)
    for axis in sorted(known_axis(axis, rank) for axis in given):
        sizes.insert(axis, 1)
    return _as(x, tuple(sizes))


@squeeze.interval
def _(op: Call, x: Range, axes: Range | None = None) -> Range | None:
    if not x.has_known_shape or x.interval() is None:
        return None
    sizes, given = x.sizes, op.integers("axes", axes)
    dropped = range(x.rank) if given is None else {known_axis(axis, x.rank) for axis in given}
    if given is not None and any(sizes[axis] != 1 for axis in dropped):
        return None
    return _as(x, tuple([size for axis, size in enumerate(sizes) if size != 1 or axis not in dropped]))


@concat.interval
def _(op: Call, *parts: Range) -> Range | None:
    """Parts that are cut into cells along the axis alone, if at all."""
    first = parts[0]
    if not first.has_known_shape or not first.rank or not -first.rank <= op.attribute("axis", 1) < first.rank:
        return None
    axis = op.attribute("axis", 1) % first.rank
    others = first.sizes[:axis], first.sizes[axis + 1 :]
    cuts = [0]
    for part in parts:
        if part.array is not None or part.has_special or not part.has_known_shape or part.format is not first.format:
            return None
        sizes, own = part.sizes, part.grid[axis]
        if 0 in sizes or (sizes[:axis], sizes[axis + 1 :]) != others or part.low.size != part.low.shape[axis]:
            return None
        cuts += [cuts[-1] + sizes[axis]] if own is None else (own[1:] + cuts[-1]).tolist()
    shape = (*others[0], cuts[-1], *others[1])
    ends = [part.hull() for part in parts]
    low, high = min(pair[0] for pair in ends), max(pair[1] for pair in ends)
    if len(cuts) - 1 > op.cells or len(cuts) == 2:
        return Range.uniform(shape, first.format, low, high)
    lows, highs = np.concatenate([part.low for part in parts], axis), np.concatenate([part.high for part in parts], axis)
    grid = (*(None,) * axis, np.array(cuts, np.int64), *(None,) * len(others[1]))
    return Range(first.format, shape, grid, lows, highs)


@average_pool.interval
def _(op: Call, x: Range) -> Range | None:
    """The mean of elements of one interval lies in it; zeros of padding that count are a concern of the block."""
    if x.array is not None or x.has_special or not x.has_known_shape or x.rank < 3 or not x.format.is_float:
        return None
    windows = pooling_windows(op, x.sizes[2:])
    inside = [taps_inside(window) for window in windows]
    shape = (*x.sizes[:2], *[window.output for window in windows])
    if 0 in x.sizes or 0 in shape or any(fewest == 0 for fewest, _ in inside) or x.low.size != math.prod(x.low.shape[:2]):
        return None
    if op.attribute("count_include_pad", 0) and any(fewest != window.kernel for (fewest, _), window in zip(inside, windows)):
        return None
    count, magnitude = math.prod(window.kernel for window in windows), np.maximum(np.abs(x.low), np.abs(x.high))
    error = summation_error(op, magnitude, count + 2, x.format, products=False)
    if not float((magnitude + error).max()) * count <= op.accumulation(x.format).high / 2:
        return None
    low, high = keep_sign(x.low - error, x.high + error, x.low >= 0.0, x.high <= 0.0)
    if low.size == 1:
        return Range.uniform(shape, x.format, low.item(), high.item())
    return Range(x.format, shape, x.grid, low, high)
