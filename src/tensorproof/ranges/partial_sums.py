"""Overflow on the way: a sum whose terms cancel can leave its format before the last term is added.

Sums may be evaluated in any order, so the worst partial sum is that of all terms of one sign. With P the sum of the positive
terms and N that of the negative ones' sizes, P - N is the result and P + N the sum of absolute terms: hence
P = (sum|terms| + result) / 2, and N alike. If both can overflow, inf - inf makes the result NaN.
"""

from __future__ import annotations

import numpy as np

from tensorproof.formats import Array
from tensorproof.operators.table import RESULT, Call
from tensorproof.ranges.range import INFINITIES, NEGATIVE_INFINITY, POSITIVE_INFINITY, SPECIALS, Range
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW


def with_partial_sums(op: Call, x: Range, magnitude: Array) -> Range:
    """The bounds `x` of a sum (rounding error included), widened where its partial sums overflow.

    `magnitude` bounds the sum of absolute terms on the grid of `x`. The engine reports what leaves the format; a result that
    may become NaN is reported here, so the operator declares ACCUMULATION_OVERFLOW as its overflow.
    """
    if not x.format.is_float or not magnitude.size:
        return x
    limit = op.accumulation(x.format).high
    if float(magnitude.max()) <= limit / 2:
        return x
    rising, falling = (magnitude + x.high) / 2, (magnitude - x.low) / 2
    # Sums beyond float64 are infinite or NaN here: nothing is known, so they count as overflow.
    above, below = ~(rising <= limit), ~(falling <= limit)
    wide = x.replace(np.where(below, np.fmin(x.low, -falling), x.low), np.where(above, np.fmax(x.high, rising), x.high), x.special)
    op.report(ACCUMULATION_OVERFLOW, RESULT, wide, above & below, gives=SPECIALS)
    return wide


def report_partial_sums(op: Call, sums: Range, magnitude: Array) -> None:
    """Report a sum that overflows on the way to a result that does not (the numerator of an average)."""
    if not sums.format.is_float or not magnitude.size:
        return
    limit = op.accumulation(sums.format).high
    if float(magnitude.max()) <= limit / 2:
        return
    above, below = ~((magnitude + sums.high) / 2 <= limit), ~((magnitude - sums.low) / 2 <= limit)
    gives = (POSITIVE_INFINITY if above.any() else 0) | (NEGATIVE_INFINITY if below.any() else 0)
    op.report(ACCUMULATION_OVERFLOW, RESULT, sums, above | below, gives=SPECIALS if gives == INFINITIES else gives)
