"""Split into sizes that do not add up.

## What it does
The sizes given to a split or unflatten do not add up (or multiply) to the size of the axis, or the axis cannot be divided into
equal parts where the function wants them equal.

## Why it matters
Every run that reaches the line stops there. A projection for queries, keys and values has to be three times as wide as each.

## Example
    projected = nn.Linear(256, 512)(torch.randn(2, 20, 256))
    queries, keys, values = projected.split([256, 256, 256], dim=-1)  # 768 of 512

## Use instead
    projected = nn.Linear(256, 768)(torch.randn(2, 20, 256))
    queries, keys, values = projected.split([256, 256, 256], dim=-1)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

SPLIT_SIZES = Rule("SHP122", "split-sizes", __doc__ or "", severity="error")
