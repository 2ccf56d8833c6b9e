"""Overflow of an exponential.

## What it does
The result of Exp, Sinh, Cosh or of an exponential inside another operator can exceed the largest number of the format
(the operand exceeds 88.72 in float32, 11.09 in float16).

## Why it matters
Infinity divided by infinity, or minus infinity, is NaN one operator later.

## Example
    p = torch.exp(z) / torch.exp(z).sum()

## Use instead
    p = torch.softmax(z, -1)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorproof.rules.rule import Rule

if TYPE_CHECKING:
    from tensorproof.confirm.place import Place
    from tensorproof.execute.meaning import Tensor

EXPONENTIAL_OVERFLOW = Rule("NUM201", "exponential-overflow", __doc__ or "", severity="error")


@EXPONENTIAL_OVERFLOW.objective
def _(place: Place) -> Tensor:
    """The exponent, where the operator is an exponential; its result may leave float64 long before the search ends."""
    if place.op in ("Exp", "Exp2", "Expm1", "Softplus"):
        return -place.operand
    return -place.operand.abs() if place.op in ("Sinh", "Cosh") else place.beyond(place.result, place.limit)
