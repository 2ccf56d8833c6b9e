"""Exponential minus one.

## What it does
The source computes exp(x) - 1 instead of expm1(x).

## Why it matters
Near zero exp(x) is 1 up to rounding, and the difference cancels: in float32 exp(1e-8) - 1 is 0, while expm1(1e-8) is 1e-8.

## Example
    x = torch.tensor(1e-8)
    y = torch.exp(x) - 1

## Use instead
    x = torch.tensor(1e-8)
    y = torch.expm1(x)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

EXPONENTIAL_MINUS_ONE = Rule("NUM502", "exponential-minus-one", __doc__ or "", severity="warning")
