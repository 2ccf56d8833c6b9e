"""Epsilon that is absorbed by the number it is added to.

## What it does
A constant is added to (or subtracted from) values so much larger that the sum rounds back to them everywhere: the
addition does nothing.

## Why it matters
1e-10 + 1 - p is 1 - p in float32, and log of it fails at p = 1; the order of the additions decides.

## Example
    loss = -torch.log(1e-10 + 1 - p)

## Use instead
    loss = -torch.log1p(-p.clamp(max=1 - 1e-6))
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

ABSORBED_CONSTANT = Rule("NUM302", "absorbed-constant", __doc__ or "", severity="warning")
