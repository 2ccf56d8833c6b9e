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

from tensorproof.rules.rule import Rule

DEGENERATE_NORMALISATION = Rule("NUM110", "degenerate-normalisation", __doc__ or "", severity="error")
