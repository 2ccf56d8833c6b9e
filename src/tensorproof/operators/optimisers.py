"""Steps of optimisers (ai.onnx.preview.training): gradients divided by a root of their own squares.

The quotient g / (sqrt(h + g^2) + epsilon) is bounded as one function, so that a gradient and its own square do not drift
apart. Everything else is composed of the element-wise operators, whose hazards count as the step's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import FLOAT32, Array
from tensorproof.operators.arithmetic import add, mul, sub
from tensorproof.operators.exponential import sqrt
from tensorproof.operators.table import CORRECT, Call, Error, Operator, operator
from tensorproof.ranges.elementwise import piecewise
from tensorproof.ranges.range import SPECIALS, Range, align
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW
from tensorproof.rules.division_by_zero import DIVISION_BY_ZERO

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor

_Operand = TypeVar("_Operand")

#: The domain of the steps.
DOMAIN = "ai.onnx.preview.training"

# Defaults of attributes, which are float32 numbers (ONNX Adam-1, Adagrad-1).
_EPSILON, _ALPHA, _BETA = float(np.float32(1e-6)), float(np.float32(0.9)), float(np.float32(0.999))


def _step(name: str, block: Callable[..., Range], error: Error = CORRECT) -> Operator:
    """A step inside an optimiser: evaluated and rounded like an operator, but not in the table."""
    return Operator(name, DOMAIN, block, error, ARITHMETIC_OVERFLOW, None, None, None, (), False, ())


def _square(op: Call, x: Range) -> Range:
    return piecewise(x, np.square, (0.0,))


_SQUARE = _step("Square", _square)


def _weighted(op: Call, x: Range, *factors: float) -> Range:
    """x times one of the factors; exact where that is 0 or 1."""
    if set(factors) == {1.0}:
        return x
    if set(factors) == {0.0}:
        return Range.uniform(x.shape, x.format, 0.0, 0.0, x.any_special)
    ends = x.format.round_nearest(np.array([min(factors), max(factors)]))
    return op.apply(mul, Range.uniform((), x.format, float(ends[0]), float(ends[1])), x)


def _complement(value: float) -> tuple[float, float]:
    """1 - value for an attribute, exactly and, since attributes are float32 numbers, as float32 computes it."""
    return 1.0 - value, float(np.float32(1.0) - np.float32(value))


def _regularised(op: Call, x: Range, gradient: Range) -> Range:
    """norm_coefficient * x + gradient."""
    coefficient = float(op.attribute("norm_coefficient", 0.0))
    return gradient if coefficient == 0.0 else op.apply(add, _weighted(op, x, coefficient), gradient)


def _regularised_tensor(run: Run, x: Tensor, gradient: Tensor) -> Tensor:
    return run.attribute("norm_coefficient", 0.0) * x + gradient


def _groups(tensors: tuple[_Operand, ...], kinds: int) -> list[tuple[_Operand, ...]]:
    """Inputs x1, x2, g1, g2, ... as (x1, g1, ...), (x2, g2, ...)."""
    count = len(tensors) // kinds
    return [tensors[number::count] for number in range(count)] if count else []


def _by_kind(results: list[tuple[_Operand, ...]]) -> tuple[_Operand, ...]:
    """The results of several tensors, those of one kind together."""
    return tuple(part for kind in zip(*results) for part in kind)


# -- Adagrad -----------------------------------------------------------------------------------------------------------


@operator("Adagrad", domain=DOMAIN, composed_of=(add, mul, sub, sqrt), hazards=(DIVISION_BY_ZERO,))
def adagrad(op: Call, rate: Range, count: Range, *tensors: Range) -> tuple[Range, ...]:
    """x - r g / (sqrt(h + g^2) + epsilon): the quotient increases in g and lies in [-1, 1]."""
    slowed = _decayed(op, rate, count)
    return _by_kind([_adagrad(op, slowed, *tensors) for tensors in _groups(tensors, 3)])


def _adagrad(op: Call, rate: Range, x: Range, gradient: Range, squares: Range) -> tuple[Range, Range]:
    gradient = _regularised(op, x, gradient)
    total = op.apply(add, squares, op.apply(_SQUARE, gradient))
    epsilon = float(op.attribute("epsilon", _EPSILON))
    op.apply(sqrt, total)
    ratio = _quotient(op, gradient, gradient.replace(*_zero(gradient), None), squares, (0.0, 1.0, 1.0, 1.0), epsilon, rate)
    return op.apply(sub, x, ratio), total


@adagrad.meaning
def _(run: Run, rate: Tensor, count: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
    slowed = rate / (1 + count * run.attribute("decay_factor", 0.0))

    def step(x: Tensor, gradient: Tensor, squares: Tensor) -> tuple[Tensor, Tensor]:
        gradient = _regularised_tensor(run, x, gradient)
        total = squares + gradient * gradient
        return x - slowed * gradient / (total.sqrt() + run.attribute("epsilon", _EPSILON)), total

    return _by_kind([step(*group) for group in _groups(tensors, 3)])


def _zero(x: Range) -> tuple[Array, Array]:
    return np.zeros_like(x.low), np.zeros_like(x.low)


def _decayed(op: Call, rate: Range, count: Range) -> Range:
    """R / (1 + T * decay_factor)."""
    factor = float(op.attribute("decay_factor", 0.0))
    if factor == 0.0:
        return rate
    aligned = align(rate, count)
    (lr, lt), (hr, ht) = aligned.lows, aligned.highs
    divisors = 1.0 + lt * factor, 1.0 + ht * factor
    low, high = np.minimum(*divisors), np.maximum(*divisors)
    op.report(DIVISION_BY_ZERO, 1, count, bool(((low <= 0) & (high >= 0)).any()), gives=SPECIALS)
    quotients = [end / divisor for end in (lr, hr) for divisor in (low, high)]
    exact = aligned.result(rate.format, np.minimum.reduce(quotients), np.maximum.reduce(quotients))
    return op.apply(_FEW_ROUNDINGS, exact)


def _same(op: Call, x: Range) -> Range:
    return x


#: A value that was computed exactly here and with up to eight roundings by a runtime, none of which cancels another.
_FEW_ROUNDINGS = _step("Quotient", _same, Error(8.0))


# -- the quotient of a momentum and a root of squares ------------------------------------------------------------------


def _quotient(
    op: Call,
    gradient: Range,
    momentum: Range,
    squares: Range,
    factors: tuple[float, float, float, float],
    epsilon: float,
    rate: Range,
) -> Range:
    """rate * (a v + b g) / (sqrt(c h + d g^2) + epsilon) for factors a, b, c, d that are not negative."""
    a, b, c, d = factors
    aligned = align(gradient, momentum, squares)
    (lg, lv, lh), (hg, hv, hh) = aligned.lows, aligned.highs
    low_h, high_h = np.maximum(c * lh, 0.0), np.maximum(c * hh, 0.0)
    low_v, high_v = a * lv, a * hv
    smallest = np.where((lg <= 0) & (hg >= 0), 0.0, np.minimum(np.abs(lg), np.abs(hg)))
    largest = np.maximum(np.abs(lg), np.abs(hg))
    tiny = gradient.format.smallest_subnormal
    least = np.sqrt(np.maximum(c * lh + d * smallest**2, 0.0)) + epsilon
    most = np.sqrt(high_h + d * largest**2) + epsilon
    if np.any(least <= 0):
        op.report(DIVISION_BY_ZERO, 2, aligned.result(gradient.format, least, most), least <= 0, gives=SPECIALS)

    def value(v: Array, h: Array, g: Array) -> Array:
        return (v + b * g) / np.maximum(np.sqrt(h + d * g * g) + epsilon, tiny)

    # Increasing in v; in h by the sign of the numerator; in g up to one extremum on the side of v's sign.
    low = np.minimum.reduce([value(low_v, h, g) for h in (low_h, high_h) for g in _candidates(low_v, h, lg, hg, b, d, epsilon)])
    high = np.maximum.reduce([value(high_v, h, g) for h in (low_h, high_h) for g in _candidates(high_v, h, lg, hg, b, d, epsilon)])
    # Squares that are negative are no sums of squares: numerator and divisor are then bounded one by one.
    ends = [(v + b * g) / np.maximum(end, tiny) for v, g in ((low_v, lg), (high_v, hg)) for end in (least, most)]
    low = np.where(lh < 0, np.minimum.reduce(ends), low)
    high = np.where(lh < 0, np.maximum.reduce(ends), high)
    special = None
    if gradient.has_special or momentum.has_special or squares.has_special:
        flags = aligned.specials[0] | aligned.specials[1] | aligned.specials[2]
        special = np.where(flags != 0, np.uint8(SPECIALS), np.uint8(0))
    ratio = op.apply(_FEW_ROUNDINGS, aligned.result(gradient.format, low, high, special))
    return op.apply(mul, rate, ratio)


def _candidates(v: Array, h: Array, low: Array, high: Array, b: float, d: float, epsilon: float) -> list[Array]:
    """Both ends of the gradient, zero, and the extremum of (v + b g) / (sqrt(h + d g^2) + epsilon) inside.

    Its derivative vanishes where b h + b epsilon s = v d g with s = sqrt(h + d g^2); squared, a quadratic in g.
    """
    points = [low, high, np.clip(0.0, low, high)]
    if b == 0.0 or d == 0.0:
        return points
    # (v^2 d^2 - b^2 e^2 d) g^2 - 2 v d b h g + b^2 h (h - e^2) = 0
    first = v * v * d * d - b * b * epsilon * epsilon * d
    half = v * d * b * h
    constant = b * b * h * (h - epsilon * epsilon)
    root = np.sqrt(np.maximum(half * half - first * constant, 0.0))
    for numerator in (half + root, half - root):
        point = np.nan_to_num(numerator / np.where(first == 0, np.nan, first), nan=0.0)
        points.append(np.clip(point, low, high))
    return points


# -- Adam --------------------------------------------------------------------------------------------------------------


@operator("Adam", domain=DOMAIN, composed_of=(add, mul, sub, sqrt), hazards=(DIVISION_BY_ZERO,))
def adam(op: Call, rate: Range, count: Range, *tensors: Range) -> tuple[Range, ...]:
    """x - r v / (sqrt(h) + epsilon) with running means v of g and h of g^2, bounded as one function of g, v and h."""
    adjusted = _bias_corrected(op, rate, count)
    return _by_kind([_adam(op, adjusted, *tensors) for tensors in _groups(tensors, 4)])


def _adam(op: Call, rate: Range, x: Range, gradient: Range, mean: Range, squares: Range) -> tuple[Range, Range, Range]:
    alpha, beta = float(op.attribute("alpha", _ALPHA)), float(op.attribute("beta", _BETA))
    if not (0.0 <= alpha <= 1.0 and 0.0 <= beta <= 1.0):
        raise NotAnalysed("alpha or beta is no weight of a running mean")
    gradient = _regularised(op, x, gradient)
    rest, new = _complement(alpha), _complement(beta)
    new_mean = op.apply(add, _weighted(op, mean, alpha), _weighted(op, gradient, *rest))
    new_squares = op.apply(add, _weighted(op, squares, beta), _weighted(op, op.apply(_SQUARE, gradient), *new))
    op.apply(sqrt, new_squares)
    epsilon = float(op.attribute("epsilon", _EPSILON))
    ratios = [_quotient(op, gradient, mean, squares, (alpha, b, beta, d), epsilon, rate) for b, d in zip(rest, new)]
    moved = op.apply(sub, x, ratios[0].join(ratios[1]))
    return _weighted(op, moved, *_complement(float(op.attribute("norm_coefficient_post", 0.0)))), new_mean, new_squares


@adam.meaning
def _(run: Run, rate: Tensor, count: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
    alpha, beta = run.attribute("alpha", _ALPHA), run.attribute("beta", _BETA)
    # Before the first step the quotient is not used, and must not be 0 / 0: derivatives would be no numbers.
    steps = count.to(rate.dtype).clamp(min=1)
    corrected = rate * (1 - beta**steps).sqrt() / (1 - alpha**steps)
    adjusted = run.torch.where(count > 0, corrected, rate)
    kept = 1 - run.attribute("norm_coefficient_post", 0.0)

    def step(x: Tensor, gradient: Tensor, mean: Tensor, squares: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        gradient = _regularised_tensor(run, x, gradient)
        mean = alpha * mean + (1 - alpha) * gradient
        squares = beta * squares + (1 - beta) * gradient * gradient
        return kept * (x - adjusted * mean / (squares.sqrt() + run.attribute("epsilon", _EPSILON))), mean, squares

    return _by_kind([step(*group) for group in _groups(tensors, 4)])


def _bias_corrected(op: Call, rate: Range, count: Range) -> Range:
    """R * sqrt(1 - beta^T) / (1 - alpha^T) from the first step on, R before; powers of attributes are float32 numbers."""
    alpha, beta = float(op.attribute("alpha", _ALPHA)), float(op.attribute("beta", _BETA))
    first, last = np.maximum(count.low, 1.0), np.maximum(count.high, 1.0)
    above = np.sqrt(np.maximum(1.0 - beta**first, 0.0)), np.sqrt(np.maximum(1.0 - beta**last, 0.0))
    below = 1.0 - alpha**first, 1.0 - alpha**last
    op.report(DIVISION_BY_ZERO, 1, count, bool((count.high > 0).any() and (np.minimum(*below) <= 0).any()), gives=SPECIALS)
    tiny = rate.format.smallest_subnormal
    if bool((first == last).all()):
        low = high = above[0] / np.maximum(below[0], tiny)
    else:
        low = np.minimum(*above) / np.maximum(np.maximum(*below), tiny)
        high = np.maximum(*above) / np.maximum(np.minimum(*below), tiny)
    never, always = count.high <= 0, count.low > 0
    low = np.where(never, 1.0, np.where(always, low, np.minimum(low, 1.0)))
    high = np.where(never, 1.0, np.where(always, high, np.maximum(high, 1.0)))
    # 1 - beta^T cancels: a relative error u of the power becomes u / (1 - beta^T) of the difference.
    amplified = 8.0 * FLOAT32.unit_roundoff * (1.0 + 1.0 / max(1.0 - alpha, tiny) + 1.0 / max(1.0 - beta, tiny))
    factor = count.replace(low * (1.0 - amplified), high * (1.0 + amplified), None, rate.format)
    exact = bool(never.all())
    return rate if exact else op.apply(mul, rate, factor)


# -- Momentum ----------------------------------------------------------------------------------------------------------


@operator(
    "Momentum",
    domain=DOMAIN,
    composed_of=(add, mul, sub),
    coarse="with a norm_coefficient, or Nesterov's rule, a tensor and its gradient appear twice",
)
def momentum(op: Call, rate: Range, count: Range, *tensors: Range) -> tuple[Range, ...]:
    """x - r v with the running sum v of gradients, or Nesterov's form of it: linear in everything but r."""
    return _by_kind([_momentum(op, rate, count, *tensors) for tensors in _groups(tensors, 3)])


@momentum.meaning
def _(run: Run, rate: Tensor, count: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
    alpha = run.attribute("alpha", 0.0)
    # In the first iteration the gradient counts fully (ONNX Momentum-1).
    beta = run.torch.where(count > 0, run.attribute("beta", 1.0), 1.0).to(rate.dtype)
    is_nesterov = run.attribute("mode", "standard") == "nesterov"

    def step(x: Tensor, gradient: Tensor, speed: Tensor) -> tuple[Tensor, Tensor]:
        gradient = _regularised_tensor(run, x, gradient)
        speed = alpha * speed + beta * gradient
        return x - rate * (gradient + alpha * speed if is_nesterov else speed), speed

    return _by_kind([step(*group) for group in _groups(tensors, 3)])


def _momentum(op: Call, rate: Range, count: Range, x: Range, gradient: Range, speed: Range) -> tuple[Range, Range]:
    alpha, beta = float(op.attribute("alpha", 0.0)), float(op.attribute("beta", 1.0))
    gradient = _regularised(op, x, gradient)
    slowed = _weighted(op, speed, alpha)
    # In the first iteration the gradient counts fully (ONNX Momentum-1).
    terms = [_weighted(op, gradient, beta)] if bool((count.high > 0).any()) else []
    if bool((count.low <= 0).any()):
        terms.append(gradient)
    added = terms[0] if len(terms) == 1 else terms[0].join(terms[1])
    new_speed = op.apply(add, slowed, added)
    direction = new_speed
    if op.attribute("mode", "standard") == "nesterov":
        direction = op.apply(add, gradient, _weighted(op, new_speed, alpha))
    return op.apply(sub, x, op.apply(mul, rate, direction)), new_speed
