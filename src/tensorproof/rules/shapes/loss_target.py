"""Target that does not fit the input of a loss.

## What it does
The shapes of input and target of a loss contradict each other: class labels with another batch size or with an axis too
many, or values whose shapes differ where the loss wants them equal.

## Why it matters
Every run that reaches the line stops there. `cross_entropy` takes one label per row, not a column of labels.

## Example
    logits = torch.randn(32, 10)
    labels = torch.randint(0, 10, (32, 1))
    loss = F.cross_entropy(logits, labels)

## Use instead
    logits = torch.randn(32, 10)
    labels = torch.randint(0, 10, (32, 1))
    loss = F.cross_entropy(logits, labels.squeeze(1))
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

LOSS_TARGET = Rule("SHP114", "loss-target", __doc__ or "", severity="error")
