"""Squeeze that can remove the batch axis, too.

## What it does
`squeeze()` without an axis removes all axes of size 1, and the batch axis is one of them when a batch has one sample.

## Why it matters
Nothing fails until a batch has one sample, the last one of an epoch or the first one in production: then the axes after it
move up.

## Example
    pooled = torch.randn(1, 512, 1, 1)
    features = pooled.squeeze()  # (512,) instead of (1, 512)

## Use instead
    pooled = torch.randn(1, 512, 1, 1)
    features = pooled.flatten(1)  # (1, 512)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

BARE_SQUEEZE = Rule("SHP208", "bare-squeeze", __doc__ or "", severity="warning")
