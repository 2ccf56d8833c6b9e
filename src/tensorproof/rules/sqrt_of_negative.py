"""Square root of a negative number.

## What it does
The operand of a square root (Sqrt, or the root inside a normalisation) can be negative, which gives NaN.

## Why it matters
A variance computed as E[x^2] - E[x]^2 cancels and comes out slightly negative on nearly constant data.

## Example
    std = torch.sqrt((x * x).mean() - x.mean() ** 2)

## Use instead
    std = torch.sqrt(((x - x.mean()) ** 2).mean())
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorproof.rules.rule import Rule

if TYPE_CHECKING:
    from tensorproof.confirm.place import Place
    from tensorproof.execute.meaning import Tensor

SQRT_OF_NEGATIVE = Rule("NUM102", "sqrt-of-negative", __doc__ or "", severity="error")


@SQRT_OF_NEGATIVE.objective
def _(place: Place) -> Tensor:
    return place.below(place.operand)
