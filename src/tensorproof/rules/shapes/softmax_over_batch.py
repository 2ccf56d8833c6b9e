"""Softmax over the batch axis.

## What it does
A softmax normalises over the axis of the samples instead of that of the classes.

## Why it matters
Nothing fails: the numbers lie between 0 and 1, but each column sums to 1 instead of each row, and a prediction depends on the
other samples of the batch.

## Example
    logits = nn.Linear(20, 10)(torch.randn(64, 20))
    probabilities = F.softmax(logits, dim=0)

## Use instead
    logits = nn.Linear(20, 10)(torch.randn(64, 20))
    probabilities = F.softmax(logits, dim=1)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

SOFTMAX_OVER_BATCH = Rule("SHP205", "softmax-over-batch", __doc__ or "", severity="warning")
