"""Sums with what their rounding depends on, and overflow on the way.

A sum whose terms cancel can leave its format before the last term is added. Sums may be evaluated in any order, so that
the worst partial sum is that of all terms of one sign. With P the sum of the positive terms and N that of the negative ones'
sizes, P - N is the result and P + N the sum of absolute terms: hence P = (sum|terms| + result) / 2, and N alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tensorproof.formats import Array
from tensorproof.operators.table import Call
from tensorproof.ranges.range import Range
from tensorproof.ranges.sums import report_partial_overflow


class Sums(NamedTuple):
    """Bounds of sums, the sums of absolute terms, and where all terms are of one sign."""

    low: Array
    high: Array
    magnitude: Array
    nonnegative: npt.NDArray[np.bool_]
    nonpositive: npt.NDArray[np.bool_]

    def mapped(self, function: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Sums:
        """All parts rearranged by one function of an array."""
        return Sums(
            function(self.low),
            function(self.high),
            function(self.magnitude),
            function(self.nonnegative),
            function(self.nonpositive),
        )

    @classmethod
    def stacked(cls, parts: Sequence[Sums], axis: int) -> Sums:
        """Sums joined along an axis."""
        return cls(
            np.concatenate([p.low for p in parts], axis),
            np.concatenate([p.high for p in parts], axis),
            np.concatenate([p.magnitude for p in parts], axis),
            np.concatenate([p.nonnegative for p in parts], axis),
            np.concatenate([p.nonpositive for p in parts], axis),
        )

    def plus(self, low: Array, high: Array) -> Sums:
        """The same sums with one more term each."""
        return Sums(
            self.low + low,
            self.high + high,
            self.magnitude + np.maximum(np.abs(low), np.abs(high)),
            self.nonnegative & (low >= 0.0),
            self.nonpositive & (high <= 0.0),
        )

    def joined(self, axis: int) -> Sums:
        """The hull along one axis."""
        low, high, magnitude, nonnegative, nonpositive = self
        return Sums(
            low.min(axis, keepdims=True),
            high.max(axis, keepdims=True),
            magnitude.max(axis, keepdims=True),
            np.all(nonnegative, axis=axis, keepdims=True),
            np.all(nonpositive, axis=axis, keepdims=True),
        )


def report_sum(op: Call, sums: Range, magnitude: Array) -> None:
    """Report sums whose partial sums can overflow; `sums` and the sums of absolute terms include their rounding error."""
    if not sums.format.is_float or not magnitude.size or float(magnitude.max()) <= op.accumulation(sums.format).high / 2:
        return
    above, below = (magnitude + sums.high) / 2, (sums.low - magnitude) / 2
    # Sums beyond float64 are NaN here: nothing is known, so they count as overflow.
    report_partial_overflow(op, sums, np.where(np.isnan(below), -np.inf, below), np.where(np.isnan(above), np.inf, above))
