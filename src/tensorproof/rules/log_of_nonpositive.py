"""Logarithm of zero or of a negative number.

## What it does
The operand of a logarithm (Log, or the logarithm inside ReduceLogSum) can be zero, which gives -inf, or negative, which
gives NaN. The logarithm of 1 + x fails from -1 down, and x log(y) where y is not positive and x not zero. A binary cross
entropy of torch replaces the logarithm of zero by -100, and refuses what is no probability.

## Why it matters
The loss becomes NaN as soon as -inf meets 0 (0 * -inf), and every weight with it. Softmax and sigmoid round to exactly 0
long before their argument is extreme: in float32 a softmax component is 0 at a gap of 104, a sigmoid rounds to 1 (so that
log(1 - p) fails) above 16.7.

## Example
    p = torch.softmax(z, -1)
    loss = -(y * torch.log(p)).sum()

## Use instead
    loss = -(y * torch.log_softmax(z, -1)).sum()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorproof.rules.rule import Rule

if TYPE_CHECKING:
    from tensorproof.confirm.place import Place
    from tensorproof.execute.meaning import Tensor

LOG_OF_NONPOSITIVE = Rule("NUM101", "log-of-nonpositive", __doc__ or "", severity="error")


@LOG_OF_NONPOSITIVE.objective
def _(place: Place) -> Tensor:
    """What is inside of the logarithm: the operand; the sum of ReduceLogSum, by the exponential of its logarithm."""
    if place.op.startswith("ReduceLog"):
        return place.below(place.result.exp())
    x = place.operand
    if place.op == "BinaryCrossEntropy":
        return place.below(place.torch.minimum(x, 1.0 - x))
    return place.below(1.0 + x if place.op in ("Log1p", "Xlog1py") else x)
