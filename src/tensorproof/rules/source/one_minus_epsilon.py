"""Epsilon that is lost beside one.

## What it does
A bound such as 1 - 1e-8 is used on tensors of a format in which it rounds to 1.

## Why it matters
The nearest float32 below 1 is 1 - 6e-8, the nearest float16 is 0.9995: a clamp to at most 1 - 1e-8 does nothing, and
log(1 - p) is -infinity at p = 1.

## Example
    p = torch.ones(4).clamp(1e-8, 1 - 1e-8)
    loss = -torch.log(1 - p)  # inf

## Use instead
    p = torch.ones(4).clamp(1e-6, 1 - 1e-6)
    loss = -torch.log(1 - p)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

ONE_MINUS_EPSILON = Rule("NUM508", "one-minus-epsilon", __doc__ or "", severity="warning")
