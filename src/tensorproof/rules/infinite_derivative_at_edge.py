"""Infinite derivative at the edge of a domain.

## What it does
The operand of an inverse function reaches the edge of its domain: 1 or -1 for the arc sine and cosine, 1 for the inverse
hyperbolic cosine. The value there is finite, its derivative is infinite. The derivative of a power by its exponent holds the
logarithm of the base: it is NaN for a negative base, even where the power itself is defined. The derivative of
`binary_cross_entropy` by its target is infinite for probabilities of exactly 0 and 1. Reported when a model is checked for
training.

## Why it matters
A cosine similarity of parallel vectors is 1 up to rounding; clamping it to [-1, 1] keeps the angle finite and leaves its
derivative infinite.

## Example
    angle = torch.acos(cosine.clamp(-1, 1))

## Use instead
    angle = torch.acos(cosine.clamp(-1 + 1e-6, 1 - 1e-6))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorproof.rules.rule import Rule

if TYPE_CHECKING:
    from tensorproof.confirm.place import Place
    from tensorproof.execute.meaning import Tensor

INFINITE_AT_EDGE = Rule("NUM402", "infinite-derivative-at-edge", __doc__ or "", severity="error", phase="backward")


@INFINITE_AT_EDGE.objective
def _(place: Place) -> Tensor:
    """A base below zero for powers; else an operand whose size is exactly 1 (the inverse hyperbolic cosine has one edge)."""
    if place.op == "Pow":
        return place.below(place.operand)
    return place.zero(1.0 - (place.operand if place.op == "Acosh" else place.operand.abs()))
