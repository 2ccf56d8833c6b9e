"""Infinite derivative at zero.

## What it does
The operand of a square root, or the base of a power with an exponent between 0 and 1, can be exactly 0. The value there is 0,
but its derivative is infinite. Reported when a model is checked for training.

## Why it matters
The loss looks healthy, and after one step every weight behind the root is NaN: the infinite derivative meets a factor 0 (the
derivative of a square at 0, a masked element), and 0 * inf is NaN. Distances between equal points, norms of zero vectors and
standard deviations of constant rows do this.

## Example
    distance = ((a - b) ** 2).sum(-1).sqrt()

## Use instead
    distance = (((a - b) ** 2).sum(-1) + 1e-12).sqrt()

`torch.linalg.norm`, `torch.cdist` and `torch.std` are not affected: PyTorch defines their derivatives at 0 as 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorproof.rules.rule import Rule

if TYPE_CHECKING:
    from tensorproof.confirm.place import Place
    from tensorproof.execute.meaning import Tensor

INFINITE_AT_ZERO = Rule("NUM401", "infinite-derivative-at-zero", __doc__ or "", severity="error", phase="backward")


@INFINITE_AT_ZERO.objective
def _(place: Place) -> Tensor:
    return place.zero(place.operand)
