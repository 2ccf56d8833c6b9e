"""Power outside its domain.

## What it does
Pow has a negative base with an exponent that is not an integer (NaN), or a zero base with a negative exponent (infinite).

## Why it matters
The base is often a difference or a network's output, whose sign nothing guarantees.

## Example
    y = x ** 0.5

## Use instead
    y = x.clamp(min=0) ** 0.5
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorproof.rules.rule import Rule

if TYPE_CHECKING:
    from tensorproof.confirm.place import Place
    from tensorproof.execute.meaning import Tensor

POWER_OUTSIDE_DOMAIN = Rule("NUM104", "power-outside-domain", __doc__ or "", severity="error")


@POWER_OUTSIDE_DOMAIN.objective
def _(place: Place) -> Tensor:
    """A base below zero where the exponent has a fraction, a base of zero where it is negative."""
    base, exponent = place.torch.broadcast_tensors(place.operands[0], place.operands[1])
    whole = exponent == exponent.round()
    return place.torch.where(whole, place.torch.where(exponent < 0, place.zero(base), place.far(base)), place.below(base))
