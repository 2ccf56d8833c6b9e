"""Blocks in plain numbers, for operands that are one interval each: most nodes of most networks, at a fraction of the cost.

The same bounds as those of the operator's block, before they are rounded into their format. A rule gives None where the
block has to be asked: several cells, special values, shapes that are not known, and wherever a hazard may fire. Rules are
used where an analysis keeps nothing but intervals.
"""

from __future__ import annotations

import math

import numpy as np

from tensorproof.formats import Format
from tensorproof.operators.activations import least, relu
from tensorproof.operators.arithmetic import add, div, mul, sub
from tensorproof.operators.gated_activations import GELU_MINIMUM, TANH_GELU_MINIMUM, gelu, gelu_errors
from tensorproof.operators.linear import matmul
from tensorproof.operators.normalisation import EPSILON, layer_normalization
from tensorproof.operators.softmax import FUNCTION_ERROR, exponential_sum_error, softmax, softmax_axes
from tensorproof.operators.statistics import stash
from tensorproof.operators.table import Call
from tensorproof.ranges.grid import broadcast_shapes
from tensorproof.ranges.interval_product import product_of_intervals
from tensorproof.ranges.range import NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY, Range
from tensorproof.ranges.sums import summation_error_of
from tensorproof.targets import TORCH_CPU

Ends = tuple[float, float]

#: Rows of a normalised tensor that differ, each of which is looked at by itself.
_MOST_ROWS = 8

# -- arithmetic -------------------------------------------------------------------------------------------------------


def _ends(op: Call, x: Range) -> Ends | None:
    """The ends of an interval, or of a constant whose cells would be merged in the result."""
    found = x.interval()
    if found is not None or x.array is None:
        return found
    size = x.array.size
    return x.hull() if size == 1 or (size > op.cells and size == max(x.array.shape)) else None


def _pair(op: Call, a: Range, b: Range) -> tuple[Ends, Ends] | None:
    if a.shape is None or b.shape is None or not a.format.is_float or (a.array is not None and b.array is not None):
        return None
    first = _ends(op, a)
    second = None if first is None else _ends(op, b)
    return None if first is None or second is None else (first, second)


def _absorbs(ends: Ends, x: Range, other: Ends) -> bool:
    """Whether an operand swallows the other one, x: a constant below its last place (`arithmetic._absorbed`)."""
    if ends[0] <= 0.0 <= ends[1] or (x.array is None and other[0] != other[1]):
        return False
    smallest, reach = min(abs(ends[0]), abs(ends[1])), max(abs(other[0]), abs(other[1]))
    return 0.0 < reach < x.format.quantum_at(smallest) / 4


def _result(a: Range, b: Range, low: float, high: float) -> Range | None:
    # A sum that is a number has no NaN and no infinity among its terms.
    total = low + high
    return Range.uniform(broadcast_shapes(a.shape or (), b.shape or ()), a.format, low, high) if total - total == 0.0 else None


@add.interval
def _(op: Call, a: Range, b: Range) -> Range | None:
    found = _pair(op, a, b)
    if found is None:
        return _special_sum(op, a, b) if a.has_special or b.has_special else None
    first, second = found
    if _absorbs(first, b, second) or _absorbs(second, a, first):
        return None
    return _result(a, b, first[0] + second[0], first[1] + second[1])


def _special_sum(op: Call, a: Range, b: Range) -> Range | None:
    """A sum of two cells that may hold special values: opposite infinities are no number."""
    first, second = a.single(), b.single()
    if first is None or second is None or a.shape is None or b.shape is None or not a.format.is_float:
        return None
    (la, ha, special_a), (lb, hb, special_b) = first, second
    # Constants are a concern of the block.
    if la == ha or lb == hb:
        return None
    special = (special_a | special_b) & NAN
    for sign, opposite in ((POSITIVE_INFINITY, NEGATIVE_INFINITY), (NEGATIVE_INFINITY, POSITIVE_INFINITY)):
        for own, other, nonempty in ((special_a, special_b, lb < hb), (special_b, special_a, la < ha)):
            if own & sign:
                special |= (NAN if other & opposite else 0) | (sign if nonempty or other & sign else 0)
    empty = la > ha or lb > hb
    low, high = (math.inf, -math.inf) if empty else (la + lb, ha + hb)
    if not empty and not math.isfinite(low + high):
        return None
    return Range.uniform(broadcast_shapes(a.shape, b.shape), a.format, low, high, special)


@sub.interval
def _(op: Call, a: Range, b: Range) -> Range | None:
    found = _pair(op, a, b)
    if found is None or _absorbs(found[0], b, found[1]):
        return None
    (la, ha), (lb, hb) = found
    return _result(a, b, la - hb, ha - lb)


@mul.interval
def _(op: Call, a: Range, b: Range) -> Range | None:
    found = _pair(op, a, b)
    if found is None:
        return None
    (la, ha), (lb, hb) = found
    ends = la * lb, la * hb, ha * lb, ha * hb
    return _result(a, b, min(ends), max(ends)) if math.isfinite(sum(ends)) else None


@div.interval
def _(op: Call, a: Range, b: Range) -> Range | None:
    found = _pair(op, a, b)
    if found is None or not (found[1][0] >= b.format.smallest_normal or found[1][1] <= -b.format.smallest_normal):
        return None
    (la, ha), (lb, hb) = found
    ends = la / lb, la / hb, ha / lb, ha / hb
    return _result(a, b, min(ends), max(ends)) if math.isfinite(sum(ends)) else None


# -- functions --------------------------------------------------------------------------------------------------------


@relu.interval
def _(op: Call, x: Range) -> Range | None:
    ends = x.single()
    if ends is None:
        return None
    low, high, special = ends
    if not special:
        return x.with_ends(max(low, 0.0), max(high, 0.0)) if low <= high else None
    points = [max(low, 0.0), max(high, 0.0)] if low <= high else []
    # Minus infinity becomes zero, and so may NaN: a comparison with it is false.
    if special & (NAN | NEGATIVE_INFINITY):
        points.append(0.0)
    ends = (min(points), max(points)) if points else (math.inf, -math.inf)
    return Range.uniform(x.shape, x.format, *ends, special & (NAN | POSITIVE_INFINITY))


def _normal_gate(x: float) -> float:
    return 0.5 * x * (1.0 + math.erf(x / math.sqrt(2.0)))


def _tanh_gate(x: float) -> float:
    return 0.5 * x * (1.0 + math.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * (x * x * x))))


@gelu.interval
def _(op: Call, x: Range) -> Range | None:
    ends = x.interval()
    # In float64 the errors of the functions here would count; some targets overflow on the way.
    if ends is None or x.format.bits > 32 or ends[1] > x.format.high / 8.0:
        return None
    approximate = op.attribute("approximate", "none") == "tanh"
    absolute, relative = gelu_errors(op, x.format, approximate=approximate)
    gate, minimum = (_tanh_gate, TANH_GELU_MINIMUM) if approximate else (_normal_gate, GELU_MINIMUM)
    low, high = ends
    at_low, at_high = gate(low), gate(high)
    if low >= 0.0:
        least_value = at_low * (1.0 - relative)
    elif low <= minimum <= high:
        least_value = gate(minimum) - absolute
    else:
        least_value = min(at_low, at_high, 0.0) - absolute
    most_value = at_high * (1.0 + relative) if high > 0.0 else min(max(at_low, at_high) + absolute, 0.0)
    return x.with_ends(least_value, most_value)


@softmax.interval
def _(op: Call, x: Range) -> Range | None:
    ends = x.interval()
    if ends is None or not x.has_known_shape or not x.rank or x.format.bits > 32:
        return None
    terms = math.prod(x.sizes[axis] for axis in softmax_axes(op, x.rank))
    width = (ends[1] - ends[0]) * (1.0 + 2.0**-50)
    if not width < 700.0:
        return x.with_ends(0.0, 1.0)
    u, tiny = x.format.unit_roundoff, FUNCTION_ERROR * least(op, x.format)
    # The own logit at one end, all others at the other.
    lower, upper = -math.log1p((terms - 1) * math.exp(width)), -math.log1p((terms - 1) * math.exp(-width))
    error = float(exponential_sum_error(op, x.format, terms)) + FUNCTION_ERROR * u + 2.0**-44
    low = math.exp(lower * (1.0 + 1.01 * u) - error) - tiny
    high = math.exp(upper * (1.0 - 1.01 * u) + error) + tiny
    return x.with_ends(max(low, 0.0), min(high, 1.0))


# -- normalisation ----------------------------------------------------------------------------------------------------


@layer_normalization.interval
def _(op: Call, x: Range, scale: Range, bias: Range | None = None) -> Range | None:
    """`statistics.moments`, `normalise` and `affine` for rows of one interval, whose variance may be zero."""
    if x.array is not None or x.has_special or not x.has_known_shape or not x.rank or op.outputs != 1:
        return None
    if op.target is TORCH_CPU:
        # Statistics by updates are left to the block.
        return None
    n = x.sizes[-1]
    if int(op.attribute("axis", -1)) not in (-1, x.rank - 1) or x.low.size > _MOST_ROWS or x.low.shape[-1] != 1:
        return None
    # Few channels stay apart.
    if not op.cells < n < 2**40 or not _is_vector(scale, n) or not (bias is None or _is_vector(bias, n)):
        return None
    factor, eta = np.maximum(np.abs(scale.low), np.abs(scale.high)), 2.0 * least(op, x.format)
    least_bias, most_bias = (0.0, 0.0) if bias is None else (bias.low, bias.high)
    lows: list[float] = []
    highs: list[float] = []
    for low, high in zip(x.low.flat, x.high.flat):
        reach = _standardised(op, float(low), float(high), n, stash(x.format))
        if reach is None:
            return None
        radius = factor * (reach * (1.0 + 2.02 * x.format.unit_roundoff)) + eta
        if not float(radius.max()) < x.format.high:
            return None
        lows.append(float((least_bias - radius).min()))
        highs.append(float((most_bias + radius).max()))
    if len(lows) == 1:
        return x.with_ends(lows[0], highs[0])
    return x.replace(np.array(lows).reshape(x.low.shape), np.array(highs).reshape(x.low.shape), None)


def _standardised(op: Call, low: float, high: float, n: int, format: Format) -> float | None:
    """How far the elements of a row of n, all of one interval, are from zero once mean and deviation are taken out."""
    epsilon = op.attribute("epsilon", EPSILON)
    u, eta, accumulator = format.unit_roundoff, least(op, format), op.accumulation(format)
    held = format.nearest(epsilon)
    floor = min(epsilon, held)
    if floor <= 0.0 or not low <= high:
        return None
    size, width = max(abs(low), abs(high)), high - low
    error = summation_error_of(op, size * n, n, format, products=False) / n
    error += 2.01 * u * (size + error) + eta
    variance = (width / 2) ** 2 * (1.0 + 2.0**-40)
    limit = accumulator.high * (1.0 - 4 * accumulator.unit_roundoff)
    growth = 1.0 + (n + 4) * accumulator.unit_roundoff
    if not size * n * growth <= limit or not n * (variance + error**2) * growth <= limit:
        return None
    # The largest element of a row stands at one end, all others at the other (`standardise`).
    reach = (n - 1) * width / math.hypot(math.sqrt(n - 1) * width, n * math.sqrt(epsilon)) * (1.0 + 2.0**-45)
    reach = min(min(reach, math.sqrt(n - 1)) + error / math.sqrt(floor + error**2), math.sqrt(n))
    logarithm = n * -math.log1p(-accumulator.unit_roundoff) / 2 + 8 * u + n * 2.0**-52
    lost = (2 * eta + abs(held - epsilon)) / floor
    return reach * (1.0 + min(math.expm1(logarithm) + lost, 1.0 + n * accumulator.unit_roundoff))


def _is_vector(x: Range, size: int) -> bool:
    """Whether a range is that of a vector of finite numbers, with one cell or one for each."""
    return x.shape == (size,) and x.low.size in (1, size) and not x.has_special


# -- products ---------------------------------------------------------------------------------------------------------


@matmul.interval
def _(op: Call, a: Range, b: Range) -> Range | None:
    return product_of_intervals(op, a, b)
