"""Column and row that broadcast to a square.

## What it does
Operands of different ranks, such as (N, 1) and (N,), both grow to (N, N), and nothing in the expression says that this was
meant (None, unsqueeze, keepdim).

## Why it matters
Nothing fails. A difference of predictions and labels becomes a table of all pairs, its mean is a plausible number, and the
model learns the average.

## Example
    predicted = nn.Linear(20, 1)(torch.randn(64, 20))  # (64, 1)
    error = (predicted - torch.randn(64)).pow(2).mean()  # mean of (64, 64)

## Use instead
    predicted = nn.Linear(20, 1)(torch.randn(64, 20))
    error = (predicted.squeeze(1) - torch.randn(64)).pow(2).mean()
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

OUTER_BROADCAST = Rule("SHP201", "outer-broadcast", __doc__ or "", severity="warning")
