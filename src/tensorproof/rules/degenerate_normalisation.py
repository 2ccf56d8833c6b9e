"""Normalisation by a variance or norm that can be zero or negative.

## What it does
The value under the root of a fused normalisation (BatchNormalization, LayerNormalization, InstanceNormalization,
GroupNormalization, RMSNormalization, LpNormalization, ...), epsilon included, can be zero or negative.

## Why it matters
An epsilon that rounds to zero in the tensor's format, or a variance from a broken checkpoint, makes every output NaN.

## Example
    layer = nn.LayerNorm(n, eps=0.0)

## Use instead
    layer = nn.LayerNorm(n, eps=1e-5)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorproof.rules.rule import Rule

if TYPE_CHECKING:
    from tensorproof.confirm.place import Place
    from tensorproof.execute.meaning import Tensor

DEGENERATE_NORMALISATION = Rule("NUM110", "degenerate-normalisation", __doc__ or "", severity="error")


@DEGENERATE_NORMALISATION.objective
def _(place: Place) -> Tensor:
    """A variance that is given, below zero; one that is computed, lost against the square of the mean."""
    if place.index == 4:
        return place.below(place.operand + place.attributes.get("epsilon", 1e-5))
    x = place.operand
    rows = x.reshape(x.shape[0], -1) if x.ndim > 1 else x.reshape(1, -1)
    return place.zero(rows.var(dim=-1, correction=0)) - place.zero(rows.mean(dim=-1) ** 2)
