"""Gather or scatter with an index of the wrong shape.

## What it does
The index of a gather, scatter or take_along_axis has another rank than the tensor, or is larger than it on an axis that is not
gathered along.

## Why it matters
Every run that reaches the line stops there. One label per row has to become a column before it can pick one entry of each row.

## Example
    log_probabilities = torch.randn(32, 10)
    labels = torch.randint(0, 10, (32,))
    picked = log_probabilities.gather(1, labels)  # rank 1 against rank 2

## Use instead
    log_probabilities = torch.randn(32, 10)
    labels = torch.randint(0, 10, (32,))
    picked = log_probabilities.gather(1, labels.unsqueeze(1)).squeeze(1)  # (32,)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

GATHER_SHAPE = Rule("SHP111", "gather-shape", __doc__ or "", severity="error")
