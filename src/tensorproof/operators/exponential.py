"""Exponentials, logarithms, roots and powers."""

from __future__ import annotations

import numpy as np

from tensorproof.operators.table import CORRECT, FAITHFUL, Call, Mask, operator
from tensorproof.ranges.elementwise import monotone
from tensorproof.ranges.range import NAN, NEGATIVE_INFINITY, SPECIALS, Range
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW
from tensorproof.rules.division_by_zero import DIVISION_BY_ZERO
from tensorproof.rules.exponential_overflow import EXPONENTIAL_OVERFLOW
from tensorproof.rules.log_of_nonpositive import LOG_OF_NONPOSITIVE
from tensorproof.rules.sqrt_of_negative import SQRT_OF_NEGATIVE


@operator("Exp", error=FAITHFUL, overflow=EXPONENTIAL_OVERFLOW, codomain=(0.0, np.inf))
def exp(op: Call, x: Range) -> Range:
    """Increasing."""
    return monotone(x, np.exp)


@operator("Log", error=FAITHFUL)
def log(op: Call, x: Range) -> Range:
    """Increasing on (0, inf); -inf at zero and NaN below."""
    return monotone(x.clamp(low=x.format.smallest_subnormal), np.log)


@log.hazard(LOG_OF_NONPOSITIVE, gives=NEGATIVE_INFINITY | NAN)
def _(op: Call, x: Range) -> Mask:
    return x.low <= 0


@operator("Sqrt", error=CORRECT, codomain=(0.0, np.inf))
def sqrt(op: Call, x: Range) -> Range:
    """Increasing on [0, inf); NaN below zero."""
    return monotone(x.clamp(low=0.0), np.sqrt)


@sqrt.hazard(SQRT_OF_NEGATIVE, gives=NAN)
def _(op: Call, x: Range) -> Mask:
    return x.low < 0


@operator("Reciprocal", error=CORRECT, overflow=ARITHMETIC_OVERFLOW)
def reciprocal(op: Call, x: Range) -> Range:
    """Decreasing on either side of zero."""
    from tensorproof.operators.arithmetic import div

    return op.apply(div, Range.constant(np.ones(()), x.format), x)


@reciprocal.hazard(DIVISION_BY_ZERO, gives=SPECIALS)
def _(op: Call, x: Range) -> Mask:
    return x.contains(0.0)
