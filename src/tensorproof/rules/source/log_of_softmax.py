"""Logarithm of a softmax.

## What it does
The source computes log(softmax(x)) instead of log_softmax(x).

## Why it matters
A softmax underflows to 0 where a score lies about 104 below the largest (float32), and its logarithm is -infinity; one step
later gradients are NaN.

## Example
    scores = torch.tensor([0.0, 200.0])
    loss = -torch.log(F.softmax(scores, dim=0))[0]  # inf

## Use instead
    scores = torch.tensor([0.0, 200.0])
    loss = -F.log_softmax(scores, dim=0)[0]  # 200
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

LOG_OF_SOFTMAX = Rule("NUM504", "log-of-softmax", __doc__ or "", severity="warning")
