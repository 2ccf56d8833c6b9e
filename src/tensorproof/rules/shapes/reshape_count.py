"""Reshape to a shape that cannot hold the elements.

## What it does
The target of a view or reshape holds another number of elements than the tensor has, or the size left to -1 is not a whole
number.

## Why it matters
Every run that reaches the line stops there. Most often the number was worked out by hand for another image size.

## Example
    features = torch.randn(64, 32, 7, 7)
    flat = features.view(64, 32 * 5 * 5)  # 800 wanted, 1568 there

## Use instead
    features = torch.randn(64, 32, 7, 7)
    flat = features.flatten(1)  # (64, 1568)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

RESHAPE_COUNT = Rule("SHP103", "reshape-count", __doc__ or "", severity="error")
