"""How Euclidean norms pass operators that move, select, repeat or pool elements.

Reshapes, permutations and slices of known sizes carry them themselves (`tensorproof.ranges.moving`).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from tensorproof.operators.cropping import contrib_pad, pad, slice_, trilu
from tensorproof.operators.extremes import reduce_max, reduce_min
from tensorproof.operators.indexing import gather
from tensorproof.operators.joining import concat, expand, split, tile
from tensorproof.operators.movement import expand_dims, squeeze, unsqueeze
from tensorproof.operators.pooling import average_pool, global_average_pool, global_max_pool, max_pool
from tensorproof.operators.reductions import reduce_mean, reduce_sum
from tensorproof.operators.table import Call
from tensorproof.ranges.folds import reduced_axes
from tensorproof.ranges.grid import Shape, largest
from tensorproof.ranges.norms import PAD, Norm, along, broadcast_norm, largest_magnitude, reshaped_norm, times
from tensorproof.ranges.range import Range


@squeeze.norm
@unsqueeze.norm
@expand_dims.norm
def _(op: Call, y: Range, x: Range, *_: Any) -> Norm | None:
    if x.norm is None or x.shape is None or y.shape is None:
        return None
    return reshaped_norm(x.norm, x.shape, y.shape)


@slice_.norm
@split.norm
@trilu.norm
def _(op: Call, y: Range, x: Range, *_: Any) -> Norm | None:
    """Vectors that are among the operand's, or parts of them."""
    return None if x.norm is None else replace(x.norm, parts=None)


@gather.norm
def _(op: Call, y: Range, x: Range, indices: Range) -> Norm | None:
    """Other vectors of the operand, if the axis of the norm is not the one that is indexed."""
    if x.norm is None or indices.shape is None or x.shape is None:
        return None
    axis = int(op.attribute("axis", 0)) % x.rank
    if axis == x.norm.axis:
        return None
    return x.norm.on(x.norm.axis if x.norm.axis < axis else x.norm.axis + indices.rank - 1)


@concat.norm
def _(op: Call, y: Range, *parts: Range) -> Norm | None:
    """The largest norm, or along the axis that is joined, the root of the sum of squares."""
    axes = {x.norm.axis for x in parts if x.norm is not None}
    if len(axes) != 1 or any(x.shape is None or x.has_special for x in parts):
        return None
    axis = axes.pop()
    norms = [along(x, axis) for x in parts]
    totals = [x.norm.total if x.norm is not None else math.inf for x in parts]
    if int(op.attribute("axis", 1)) % y.rank == axis:
        return Norm(axis, math.hypot(*norms) * PAD, sum(totals) * PAD)
    return Norm(axis, max(norms), max(totals))


@expand.norm
def _(op: Call, y: Range, x: Range, shape: Range) -> Norm | None:
    if x.norm is None or x.shape is None or y.shape is None:
        return None
    axis = x.norm.axis + y.rank - x.rank
    return Norm(axis, *broadcast_norm(x, y.shape, axis))


@tile.norm
def _(op: Call, y: Range, x: Range, repeats: Range) -> Norm | None:
    counts = repeats.integers()
    if x.norm is None or counts is None or counts.size != x.rank:
        return None
    times_over = int(counts.reshape(-1)[x.norm.axis])
    return Norm(x.norm.axis, times(x.norm.bound, math.sqrt(times_over)), times(x.norm.total, times_over))


@pad.norm
@contrib_pad.norm
def _(
    op: Call, y: Range, x: Range, pads: Range | None = None, value: Range | None = None, axes: Range | None = None
) -> Norm | None:
    """Zeros add nothing; borders of the operand's own elements only repeat vectors if the axis of the norm keeps its size."""
    if x.norm is None or x.shape is None or y.shape is None:
        return None
    if op.attribute("mode", "constant") != "constant":
        return x.norm if isinstance(x.shape[x.norm.axis], int) and x.shape[x.norm.axis] == y.shape[x.norm.axis] else None
    filled = largest_magnitude(value) if value is not None else abs(op.attribute("value", 0.0))
    return x.norm if filled == 0.0 else None


# -- pooling and reductions over other axes ---------------------------------------------------------------------------


def _averaged(op: Call, norm: Norm, terms: int, format: Any) -> Norm:
    """A mean of vectors is no longer than the longest of them; the sum and the division are rounded."""
    return norm.scaled(1.0 + (terms + 4) * op.accumulation(format).unit_roundoff * 1.01)


def _number(sizes: Shape) -> int | None:
    highs = [largest(size) for size in sizes]
    return None if None in highs else math.prod(high for high in highs if high is not None)


@average_pool.norm
@global_average_pool.norm
def _(op: Call, y: Range, x: Range) -> Norm | None:
    if x.norm is None or x.norm.axis > 1 or x.shape is None:
        return None
    kernel = op.attribute("kernel_shape")
    terms = _number(x.shape[2:]) if kernel is None else math.prod(int(size) for size in kernel)
    return None if terms is None else _with_underflow(op, y, _averaged(op, x.norm, terms, x.format), terms)


def _with_underflow(op: Call, y: Range, norm: Norm, terms: int) -> Norm | None:
    """What products with a rounded reciprocal may lose."""
    assert y.shape is not None
    length = largest(y.shape[norm.axis])
    return None if length is None else norm.plus((terms + 2) * y.format.smallest_normal, length)


@max_pool.norm
@global_max_pool.norm
def _(op: Call, y: Range, x: Range) -> Norm | None:
    """Each element is one of those of its window: no longer than all vectors of the window together."""
    if x.norm is None or x.norm.axis > 1 or x.shape is None:
        return None
    kernel = op.attribute("kernel_shape")
    terms = _number(x.shape[2:]) if kernel is None else math.prod(int(size) for size in kernel)
    return None if terms is None else Norm(x.norm.axis, times(x.norm.bound, math.sqrt(terms)), times(x.norm.total, terms))


def _reduced(op: Call, y: Range, x: Range, axes: Range | None) -> tuple[int, int] | None:
    """The axis of the norm in the result of a reduction over other axes, and how many vectors each result is made of."""
    if x.norm is None or x.shape is None:
        return None
    reduced = reduced_axes(op, x, axes)
    terms = _number(tuple(x.shape[axis] for axis in reduced))
    if x.norm.axis in reduced or terms is None:
        return None
    keeps = bool(op.attribute("keepdims", 1))
    return x.norm.axis - (0 if keeps else sum(axis < x.norm.axis for axis in reduced)), terms


@reduce_mean.norm
def _(op: Call, y: Range, x: Range, axes: Range | None = None) -> Norm | None:
    found = _reduced(op, y, x, axes)
    if found is None or x.norm is None:
        return None
    return _with_underflow(op, y, _averaged(op, x.norm.on(found[0]), found[1], x.format), found[1])


@reduce_sum.norm
def _(op: Call, y: Range, x: Range, axes: Range | None = None) -> Norm | None:
    found = _reduced(op, y, x, axes)
    if found is None or x.norm is None:
        return None
    return _averaged(op, x.norm.on(found[0]), found[1], x.format).scaled(float(found[1]))


@reduce_max.norm
@reduce_min.norm
def _(op: Call, y: Range, x: Range, axes: Range | None = None) -> Norm | None:
    found = _reduced(op, y, x, axes)
    if found is None or x.norm is None or found[1] == 0:
        return None
    return Norm(found[0], times(x.norm.bound, math.sqrt(found[1])), times(x.norm.total, found[1]))
