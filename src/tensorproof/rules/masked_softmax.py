"""Softmax of a row that is -inf everywhere, or that holds +inf.

## What it does
Softmax, LogSoftmax or attention subtracts the maximum of each row. If all entries can be -inf (a row that is masked
entirely), or one can be +inf, that is inf - inf = NaN.

## Why it matters
Padding rows of a batch are masked entirely, and their NaN reaches every weight through the gradient.

## Example
    scores = scores.masked_fill(~mask, float("-inf"))
    p = scores.softmax(-1)

## Use instead
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    p = scores.softmax(-1)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorproof.rules.rule import Rule

if TYPE_CHECKING:
    from tensorproof.confirm.place import Place
    from tensorproof.execute.meaning import Tensor

MASKED_SOFTMAX = Rule("NUM108", "masked-softmax", __doc__ or "", severity="error")


@MASKED_SOFTMAX.objective
def _(place: Place) -> Tensor:
    """The largest entry of each row: it has to be -inf."""
    return place.operand.amax(dim=place.attributes.get("axis", -1)) if place.operand.ndim else place.operand
