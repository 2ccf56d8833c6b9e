"""Derivatives of the own operators: where eager PyTorch's formulas are infinite or NaN although the value is finite."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tensorproof.operators.arithmetic import nearest_to_zero
from tensorproof.operators.own_activations import binary_cross_entropy
from tensorproof.operators.own_exponential import entr, hypot, log1p, log2, log10, xlog1py, xlogy
from tensorproof.operators.own_special import digamma, lgamma, logit, trigamma
from tensorproof.operators.table import Call, Mask
from tensorproof.ranges.range import Range, align
from tensorproof.rules.derivative_overflow import DERIVATIVE_OVERFLOW
from tensorproof.rules.infinite_derivative_at_edge import INFINITE_AT_EDGE
from tensorproof.rules.infinite_derivative_at_zero import INFINITE_AT_ZERO


@hypot.backward(INFINITE_AT_ZERO, by=0)
@hypot.backward(INFINITE_AT_ZERO, by=1)
def _(op: Call, result: Range, a: Range, b: Range) -> Mask:
    """g a / y, of the result y: 0 / 0 where both operands are zero."""
    return result.contains(0.0)


@entr.backward(INFINITE_AT_ZERO)
def _(op: Call, result: Range, x: Range) -> Mask:
    """-g (1 + log x)."""
    return x.contains(0.0)


@binary_cross_entropy.backward(INFINITE_AT_EDGE, by=1)
def _(op: Call, result: Range, x: Range, target: Range) -> Mask:
    """g (log(1 - x) - log(x)): the derivative by the target has the logarithms that the loss itself cuts off at -100."""
    return x.contains(0.0) | x.contains(1.0)


def _may_vanish(x: Range, y: Range, zero: float) -> npt.NDArray[np.bool_]:
    """Cells in which the operand of the logarithm is zero: the value is 0 for a factor of zero, its derivative 0 / 0."""
    aligned = align(x, y)
    (lx, ly), (hx, hy) = aligned.lows, aligned.highs
    return (lx <= 0) & (hx >= 0) & (ly <= zero) & (hy >= zero)


def _overflows(x: Range, y: Range, zero: float) -> npt.NDArray[np.bool_]:
    """Cells in which x over the operand of the logarithm leaves the format."""
    aligned = align(x, y)
    (lx, ly), (hx, _) = aligned.lows, aligned.highs
    return (ly > zero) & (np.maximum(np.abs(lx), np.abs(hx)) / (ly - zero) > x.format.high)


@xlogy.backward(INFINITE_AT_ZERO, operand=1)
def _(op: Call, result: Range, x: Range, y: Range) -> Mask:
    """g x / y."""
    return _may_vanish(x, y, 0.0)


@xlogy.backward(DERIVATIVE_OVERFLOW, operand=1)
def _(op: Call, result: Range, x: Range, y: Range) -> Mask:
    return _overflows(x, y, 0.0)


@xlog1py.backward(INFINITE_AT_ZERO, operand=1)
def _(op: Call, result: Range, x: Range, y: Range) -> Mask:
    """g x / (1 + y)."""
    return _may_vanish(x, y, -1.0)


@xlog1py.backward(DERIVATIVE_OVERFLOW, operand=1)
def _(op: Call, result: Range, x: Range, y: Range) -> Mask:
    return _overflows(x, y, -1.0)


@log2.backward(DERIVATIVE_OVERFLOW)
@log10.backward(DERIVATIVE_OVERFLOW)
@logit.backward(DERIVATIVE_OVERFLOW)
def _(op: Call, result: Range, x: Range) -> Mask:
    """g / (c x), and g / (x (1 - x)): infinite for subnormal numbers. With c = log 2 and log 10, within a factor of 3."""
    return (x.low > 0) & (1.5 / x.low > x.format.high)


@lgamma.backward(DERIVATIVE_OVERFLOW)
def _(op: Call, result: Range, x: Range) -> Mask:
    """g digamma(x), about -1 / x beside zero."""
    return ~x.contains(0.0) & (1.0 / nearest_to_zero(x) > x.format.high)


@digamma.backward(DERIVATIVE_OVERFLOW)
def _(op: Call, result: Range, x: Range) -> Mask:
    """g trigamma(x), about 1 / x^2 beside zero."""
    return ~x.contains(0.0) & (nearest_to_zero(x) ** -2.0 > x.format.high)


@trigamma.backward(DERIVATIVE_OVERFLOW)
def _(op: Call, result: Range, x: Range) -> Mask:
    """g polygamma(2, x), about -2 / x^3 beside zero."""
    return ~x.contains(0.0) & (2.0 * nearest_to_zero(x) ** -3.0 > x.format.high)


@log2.spoils_zero
@log10.spoils_zero
def _(op: Call, x: Range) -> Mask:
    """0 / x is a number wherever x is not zero."""
    return x.contains(0.0)


@log1p.spoils_zero
def _(op: Call, x: Range) -> Mask:
    return x.contains(-1.0)
