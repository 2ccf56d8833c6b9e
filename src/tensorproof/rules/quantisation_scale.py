"""Quantisation scale that can be zero, negative or not finite.

## What it does
QuantizeLinear divides by its scale. A scale of zero gives NaN before the cast to integers, and the cast of NaN is
undefined.

## Why it matters
Dynamic scales are max - min of the data, which is zero for a constant tensor.

## Example
    scale = (x.max() - x.min()) / 255

## Use instead
    scale = ((x.max() - x.min()) / 255).clamp(min=1e-8)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorproof.rules.rule import Rule

if TYPE_CHECKING:
    from tensorproof.confirm.place import Place
    from tensorproof.execute.meaning import Tensor

QUANTISATION_SCALE = Rule("NUM113", "quantisation-scale", __doc__ or "", severity="error")


@QUANTISATION_SCALE.objective
def _(place: Place) -> Tensor:
    return place.zero(place.operand)
