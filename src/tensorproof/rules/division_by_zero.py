"""Floating-point division by zero.

## What it does
The divisor of Div, Reciprocal, or of the division inside a normalisation can be zero: x/0 is infinite, 0/0 is NaN.

## Why it matters
Standard deviations, norms, sums of masks and counts are zero on constant, zero or empty data.

## Example
    y = (x - x.mean()) / x.std()

## Use instead
    y = (x - x.mean()) / (x.std() + 1e-5)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorproof.rules.rule import Rule

if TYPE_CHECKING:
    from tensorproof.confirm.place import Place
    from tensorproof.execute.meaning import Tensor

DIVISION_BY_ZERO = Rule("NUM103", "division-by-zero", __doc__ or "", severity="error")


@DIVISION_BY_ZERO.objective
def _(place: Place) -> Tensor:
    return place.zero(place.operand)
