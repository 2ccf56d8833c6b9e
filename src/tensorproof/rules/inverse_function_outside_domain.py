"""Inverse function outside its domain.

## What it does
Acos and Asin are defined on [-1, 1], Acosh from 1 on, Atanh and Erfinv inside (-1, 1), Logit inside (0, 1); elsewhere the
result is NaN, and Atanh, Erfinv and Logit are infinite at the ends.

## Why it matters
A cosine similarity leaves [-1, 1] by one rounding error.

## Example
    angle = torch.acos((a * b).sum(-1) / (a.norm(dim=-1) * b.norm(dim=-1)))

## Use instead
    angle = torch.acos(cosine.clamp(-1 + 1e-6, 1 - 1e-6))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorproof.rules.rule import Rule

if TYPE_CHECKING:
    from tensorproof.confirm.place import Place
    from tensorproof.execute.meaning import Tensor

INVERSE_OUTSIDE_DOMAIN = Rule("NUM105", "inverse-function-outside-domain", __doc__ or "", severity="error")


@INVERSE_OUTSIDE_DOMAIN.objective
def _(place: Place) -> Tensor:
    x = place.operand
    if place.op == "Logit":
        return place.below(place.torch.minimum(x, 1.0 - x))
    return place.below(x - 1.0 if place.op == "Acosh" else 1.0 - x.abs())
