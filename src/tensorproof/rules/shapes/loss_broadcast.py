"""Loss whose input and target broadcast.

## What it does
Input and target of an element-wise loss have different shapes that broadcast, or a softmax loss has a class axis of size 1.

## Why it matters
Nothing fails, and the loss compares every prediction with every label, or is 0 whatever the network says.

## Example
    predicted = nn.Linear(20, 1)(torch.randn(64, 20))  # (64, 1)
    loss = F.l1_loss(predicted, torch.randn(64))  # over (64, 64)

## Use instead
    predicted = nn.Linear(20, 1)(torch.randn(64, 20))
    loss = F.l1_loss(predicted.squeeze(1), torch.randn(64))
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

LOSS_BROADCAST = Rule("SHP202", "loss-broadcast", __doc__ or "", severity="warning")
