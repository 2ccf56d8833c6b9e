"""Softmax or argmax over an axis of size 1.

## What it does
A softmax, log_softmax or argmax runs over an axis that has one element.

## Why it matters
Nothing fails: a softmax over one number is 1, its gradient is 0, and an argmax is always 0. A single output for two classes
needs a sigmoid and a threshold.

## Example
    logit = nn.Linear(20, 1)(torch.randn(64, 20))
    label = logit.argmax(dim=1)  # always 0

## Use instead
    logit = nn.Linear(20, 1)(torch.randn(64, 20))
    label = (logit > 0).long().squeeze(1)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

SINGLE_CLASS = Rule("SHP204", "single-class", __doc__ or "", severity="warning")
