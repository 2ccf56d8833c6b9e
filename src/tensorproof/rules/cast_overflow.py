"""Cast to a narrower floating format overflows.

## What it does
The operand of Cast can exceed the largest number of the target format: the result is infinite (or NaN in formats
without infinity).

## Why it matters
-1e9, the usual mask constant, is -inf in float16.

## Example
    mask = ((1 - m) * -1e9).half()

## Use instead
    mask = (1 - m).half() * torch.finfo(torch.float16).min
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorproof.rules.rule import Rule

if TYPE_CHECKING:
    from tensorproof.confirm.place import Place
    from tensorproof.execute.meaning import Tensor

CAST_OVERFLOW = Rule("NUM204", "cast-overflow", __doc__ or "", severity="error")


@CAST_OVERFLOW.objective
def _(place: Place) -> Tensor:
    return place.beyond(place.operand, place.limit)
