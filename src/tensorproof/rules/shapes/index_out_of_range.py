"""Index outside a tensor, or more indices than axes.

## What it does
A constant index is not below the size of its axis, or a tensor is indexed with more indices than it has axes.

## Why it matters
Every run that reaches the line stops there. A tensor of size 10 has the indices 0 to 9.

## Example
    logits = torch.randn(32, 10)
    last = logits[:, 10]

## Use instead
    logits = torch.randn(32, 10)
    last = logits[:, -1]
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

INDEX_OUT_OF_RANGE = Rule("SHP110", "index-out-of-range", __doc__ or "", severity="error")
