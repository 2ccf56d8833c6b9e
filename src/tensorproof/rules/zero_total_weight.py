"""Mean of a loss over a total weight that can be zero.

## What it does
NegativeLogLikelihoodLoss or SoftmaxCrossEntropyLoss with reduction 'mean' divides by the sum of the weights of the
targets. It is zero when all targets are ignored or have weight zero: 0/0 is NaN.

## Why it matters
One batch whose labels are all padding is enough.

## Example
    loss = F.nll_loss(logp, target, weight=w)

## Use instead
    loss = F.nll_loss(logp, target, weight=w, reduction='sum') / w[target].sum().clamp(min=1e-6)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorproof.rules.rule import Rule

if TYPE_CHECKING:
    from tensorproof.confirm.place import Place
    from tensorproof.execute.meaning import Tensor

ZERO_TOTAL_WEIGHT = Rule("NUM112", "zero-total-weight", __doc__ or "", severity="error")


@ZERO_TOTAL_WEIGHT.objective
def _(place: Place) -> Tensor:
    return place.zero(place.operand.sum())
