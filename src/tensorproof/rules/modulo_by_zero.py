"""Floating-point remainder of a division by zero.

## What it does
The second operand of Mod with fmod=1 can be zero (or the first one infinite): the result is NaN.

## Why it matters
The period is often an input or a learned value.

## Example
    phase = torch.fmod(t, period)

## Use instead
    phase = torch.fmod(t, period.clamp(min=1e-3))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorproof.rules.rule import Rule

if TYPE_CHECKING:
    from tensorproof.confirm.place import Place
    from tensorproof.execute.meaning import Tensor

MODULO_BY_ZERO = Rule("NUM106", "modulo-by-zero", __doc__ or "", severity="error")


@MODULO_BY_ZERO.objective
def _(place: Place) -> Tensor:
    return place.zero(place.operand)
