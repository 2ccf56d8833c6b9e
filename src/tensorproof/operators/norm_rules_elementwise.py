"""How Euclidean norms pass element-wise operators: sums, products, activations, choices and conversions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tensorproof.formats import Array
from tensorproof.operators.activations import clip, leaky_relu, least, prelu, relu, rounded, shrink, softsign, thresholded_relu
from tensorproof.operators.arithmetic import abs_, add, div, max_, min_, mul, neg, sub, sum_
from tensorproof.operators.casts import cast, cast_like
from tensorproof.operators.comparison import where
from tensorproof.operators.exponential import erf
from tensorproof.operators.gated_activations import gelu, hard_swish, mish, swish
from tensorproof.operators.losses import dropout
from tensorproof.operators.normalisation import EPSILON, batch_normalization
from tensorproof.operators.rotary import rotary_embedding
from tensorproof.operators.table import Call, Operator
from tensorproof.operators.trigonometric import asinh, atan, sin, tanh
from tensorproof.ranges.grid import largest
from tensorproof.ranges.norms import PAD, Norm, Parts, along, broadcast_norm, largest_magnitude, smallest_magnitude, times
from tensorproof.ranges.range import Range

#: Gates are computed in [0, 1] within a few roundings of the tensor's format, or with a target's own approximation of the
#: sigmoid or the tangent: far more than any of `tensorproof.targets` errs.
_GATE_ROUNDINGS, _GATE_ERROR = 32.0, 2.0**-18


def attached_axis(y: Range, operands: Sequence[Range]) -> int | None:
    """The axis of the result along which most operands carry a norm."""
    rank = y.rank
    axes = [x.norm.axis + rank - len(x.shape) for x in operands if x.norm is not None and x.shape is not None]
    return max(axes, key=axes.count, default=None)


def _norms(y: Range, operands: Sequence[Range]) -> tuple[int, list[tuple[float, float]]] | None:
    """The axis of the result's norm, and the norm and the total of each operand, broadcast along it."""
    axis = attached_axis(y, operands)
    if axis is None or any(x.shape is None or x.has_special for x in operands):
        return None
    assert y.shape is not None
    return axis, [broadcast_norm(x, y.shape, axis) for x in operands]


@add.norm
@sub.norm
@sum_.norm
def _(op: Call, y: Range, *operands: Range) -> Norm | None:
    """The triangle inequality; all but the last of several additions are rounded on the way."""
    found = _norms(y, operands)
    if found is None:
        return None
    axis, parts = found
    growth = 1.0 + (0.0 if len(operands) <= 2 else 1.01 * len(operands) * y.format.unit_roundoff)
    whole = Norm(axis, sum(bound for bound, _ in parts) * PAD * growth, sum(total for _, total in parts) * PAD * growth)
    return replace(whole, parts=_parts_of_sum(y, axis, operands, [bound for bound, _ in parts], growth))


def _parts_of_sum(y: Range, axis: int, operands: Sequence[Range], norms: Sequence[float], growth: float) -> Parts | None:
    """What one operand knows about parts of its vectors, the other ones added."""
    for index, x in enumerate(operands):
        parts = _own_parts(y, axis, x)
        if parts is not None:
            others = sum(norm for other, norm in enumerate(norms) if other != index)
            return parts.plus(others).scaled(growth)
    return None


def _own_parts(y: Range, axis: int, x: Range) -> Parts | None:
    """What an operand knows about parts of vectors along the axis of the result's norm, if they are not repeated there."""
    if x.norm is None or x.norm.parts is None or x.shape is None or y.shape is None:
        return None
    same = x.norm.axis + y.rank - x.rank == axis and x.shape[x.norm.axis] == y.shape[axis]
    return x.norm.parts if same else None


@mul.norm
def _(op: Call, y: Range, a: Range, b: Range) -> Norm | None:
    """One factor's norm times the largest of the other; sums of products by Cauchy and Schwarz."""
    found = _norms(y, (a, b))
    if found is None:
        return None
    axis, ((norm_a, total_a), (norm_b, total_b)) = found
    reach_a, reach_b = largest_magnitude(a), largest_magnitude(b)
    bound = min(times(norm_a, reach_b), times(reach_a, norm_b))
    total = min(times(total_a, reach_b), times(reach_a, total_b), times(norm_a, norm_b))
    parts = _own_parts(y, axis, a)
    if parts is not None:
        return Norm(axis, bound, total, parts.scaled(reach_b))
    parts = _own_parts(y, axis, b)
    return Norm(axis, bound, total, None if parts is None else parts.scaled(reach_a))


@div.norm
def _(op: Call, y: Range, a: Range, b: Range) -> Norm | None:
    found = _norms(y, (a,)) if a.norm is not None else None
    nearest = smallest_magnitude(b)
    if found is None or b.has_special or not nearest > 0.0:
        return None
    axis, ((norm, total),) = found
    parts = _own_parts(y, axis, a)
    factor = 1.0 / nearest
    return Norm(axis, times(norm, factor), times(total, factor), None if parts is None else parts.scaled(factor))


@where.norm
def _(op: Call, y: Range, condition: Range, a: Range, b: Range) -> Norm | None:
    """Elements of either; whole vectors of either where the condition is the same along the axis."""
    found = _norms(y, (a, b))
    if found is None or condition.shape is None:
        return None
    axis, ((norm_a, total_a), (norm_b, total_b)) = found
    own = axis - y.rank + condition.rank
    if own < 0 or condition.shape[own] == 1:
        return Norm(axis, max(norm_a, norm_b), max(total_a, total_b))
    return Norm(axis, math.hypot(norm_a, norm_b) * PAD, (total_a + total_b) * PAD)


@max_.norm
@min_.norm
def _(op: Call, y: Range, *operands: Range) -> Norm | None:
    """Every element is one of the operands'."""
    found = _norms(y, operands)
    if found is None:
        return None
    return Norm(found[0], math.hypot(*(bound for bound, _ in found[1])) * PAD, sum(total for _, total in found[1]) * PAD)


# -- functions with |f(x)| <= c |x| ------------------------------------------------------------------------------------


def _contracts(operator: Operator, factor: float = 1.0) -> None:
    """|f(x)| <= factor |x| in exact arithmetic; the engine adds the operator's error."""

    def rule(op: Call, y: Range, x: Range, *_: Any) -> Norm | None:
        return None if x.norm is None else x.norm.scaled(factor)

    operator.norm(rule)


for _operator in (relu, thresholded_relu, abs_, neg, tanh, softsign, sin, atan, asinh):
    _contracts(_operator)
_contracts(erf, 2.0 / math.sqrt(math.pi))


@gelu.norm
@swish.norm
@mish.norm
@hard_swish.norm
def _(op: Call, y: Range, x: Range) -> Norm | None:
    """x times a gate between 0 and 1, whatever the gate's own argument is."""
    if x.norm is None or x.shape is None:
        return None
    length = largest(x.shape[x.norm.axis])
    if length is None:
        return None
    grown = x.norm.scaled(1.0 + _GATE_ROUNDINGS * x.format.unit_roundoff + _GATE_ERROR)
    return grown.plus(4.0 * least(op, x.format), length)


@leaky_relu.norm
def _(op: Call, y: Range, x: Range) -> Norm | None:
    alpha = op.attribute("alpha", float(np.float32(0.01)))
    return None if x.norm is None else x.norm.scaled(max(1.0, abs(alpha), abs(rounded(alpha, x.format))))


@prelu.norm
def _(op: Call, y: Range, x: Range, slope: Range) -> Norm | None:
    if x.norm is None or slope.has_special or y.shape != x.shape:
        return None
    return x.norm.scaled(max(1.0, largest_magnitude(slope)))


@shrink.norm
def _(op: Call, y: Range, x: Range) -> Norm | None:
    """Moved towards zero, if the bias is not negative and at most the threshold."""
    bias, threshold = op.attribute("bias", 0.0), op.attribute("lambd", 0.5)
    return x.norm if 0.0 <= bias <= threshold else None


@clip.norm
def _(op: Call, y: Range, x: Range, low: Range | None = None, high: Range | None = None) -> Norm | None:
    """Nearer to zero, if zero lies between the ends."""
    if op.version < 11:
        holds_zero = op.attribute("min", -1.0) <= 0.0 <= op.attribute("max", 1.0)
    else:
        holds_zero = (low is None or (not low.has_special and low.hull()[1] <= 0.0)) and (
            high is None or (not high.has_special and high.hull()[0] >= 0.0)
        )
    return x.norm if holds_zero else None


@dropout.norm
def _(op: Call, y: Range, x: Range, ratio: Range | None = None, training: Range | None = None) -> Norm | None:
    """The operand at inference; results in training are not followed. A mask of an old version is not the operand."""
    if training is not None and training.hull()[1] > 0.0:
        return None
    return x.norm if op.version >= 12 or op.outputs == 1 else None


@cast.norm
@cast_like.norm
def _(op: Call, y: Range, x: Range, *_: Range) -> Norm | None:
    """Between floating formats: rounded once, or twice by way of float32. Saturation only makes numbers smaller."""
    if x.norm is None or not x.format.is_float or y.format.bits < 16:
        return None
    lossless = y.format.digits >= x.format.digits and y.format.smallest_subnormal <= x.format.smallest_subnormal
    if lossless:
        return x.norm
    return x.norm.rounded(x, 3.0 * y.format.unit_roundoff, 2.0 * y.format.smallest_subnormal)


@rotary_embedding.norm
def _(op: Call, y: Range, x: Range, cosines: Range, sines: Range, positions: Range | None = None) -> Norm | None:
    """Pairs of features turned within each head: (a c - b s)^2 + (a s + b c)^2 = (a^2 + b^2) (c^2 + s^2).

    That cosine and sine belong to one angle is not known of tables. The products, at most 2 |x| max(|c|, |s|) together, are
    rounded before their sums.
    """
    if x.norm is None or x.shape is None or x.norm.axis != x.rank - 1:
        return None
    length, largest_factor = largest(x.shape[-1]), max(largest_magnitude(cosines), largest_magnitude(sines))
    if length is None or not largest_factor < math.inf:
        return None
    grown = x.norm.scaled(max(1.0, largest_factor * (math.sqrt(2.0) + 8.0 * x.format.unit_roundoff)))
    return Norm(grown.axis, grown.bound).plus(4.0 * least(op, x.format), length)


@batch_normalization.norm
def _(op: Call, y: Range, x: Range, scale: Range, bias: Range, mean: Range, variance: Range) -> Norm | None:
    """|a (x - mean) + bias| with a = scale / sqrt(variance + epsilon), along the channels, at inference."""
    if x.norm is None or x.norm.axis != 1:
        return None
    slopes = slopes_of_channels(op, x, scale, bias, mean, variance)
    if slopes is None:
        return None
    return normalised_norm(op, x, times(x.norm.bound, float(slopes.max(initial=0.0))), slopes, bias, mean, variance)


def slopes_of_channels(op: Call, x: Range, scale: Range, bias: Range, mean: Range, variance: Range) -> Array | None:
    """The largest |scale| / sqrt(variance + epsilon) of each channel, as computed; None in training, or where it is not known."""
    training = op.attribute("training_mode", 0) if op.version >= 14 else op.outputs > 1
    parts = (scale, bias, mean, variance)
    if training or not op.attribute("spatial", 1) or x.shape is None or not isinstance(x.shape[1], int):
        return None
    if any(part.has_special or not part.has_known_shape or part.sizes != (x.shape[1],) for part in parts):
        return None
    epsilon = op.attribute("epsilon", EPSILON)
    floors = variance.expanded()[0] + min(epsilon, rounded(epsilon, x.format))
    if not (floors > 0.0).all():
        return None
    low, high, _ = scale.expanded()
    return np.maximum(np.abs(low), np.abs(high)) / np.sqrt(floors) * (1.0 + 8.0 * x.format.unit_roundoff)


def normalised_norm(op: Call, x: Range, length: float, slopes: Array, bias: Range, mean: Range, variance: Range) -> Norm:
    """The norm along the channels of x normalised by such slopes, where x with them has a norm of at most `length`."""
    u, eta, epsilon = x.format.unit_roundoff, least(op, x.format), op.attribute("epsilon", EPSILON)
    floor = variance.hull()[0] + min(epsilon, rounded(epsilon, x.format))
    low, high, _ = mean.expanded()
    moved = slopes * np.maximum(np.abs(low), np.abs(high))
    bound = length + math.sqrt(float(np.square(moved).sum())) * PAD + along(bias, 0)
    lost = 4.0 * eta * (largest_magnitude(x) + largest_magnitude(mean) + 1.0 / math.sqrt(floor) + 2.0)
    return Norm(1, bound * (1.0 + 8.0 * u) * PAD + math.sqrt(len(slopes)) * lost)
