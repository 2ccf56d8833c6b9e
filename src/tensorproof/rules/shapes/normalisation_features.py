"""Normalisation over another number of features than it was made for.

## What it does
The channels that reach a BatchNorm, GroupNorm or InstanceNorm, or the last axes that reach a LayerNorm, are not those that
the layer was built with.

## Why it matters
Every run that reaches the line stops there. It happens when the width of a layer is changed and the normalisation after it
is not.

## Example
    hidden = nn.Linear(100, 256)(torch.randn(32, 100))
    hidden = nn.BatchNorm1d(128)(hidden)  # 256 features, 128 expected

## Use instead
    hidden = nn.Linear(100, 256)(torch.randn(32, 100))
    hidden = nn.BatchNorm1d(256)(hidden)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

NORMALISATION_FEATURES = Rule("SHP108", "normalisation-features", __doc__ or "", severity="error")
