"""Logarithm of one plus a small number.

## What it does
The source computes log(1 + x) instead of log1p(x).

## Why it matters
1 + x rounds before the logarithm sees it: in float32 log(1 + 1e-8) is 0, while log1p(1e-8) is 1e-8.

## Example
    x = torch.tensor(1e-8)
    y = torch.log(1 + x)

## Use instead
    x = torch.tensor(1e-8)
    y = torch.log1p(x)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

LOG_OF_ONE_PLUS = Rule("NUM501", "log-of-one-plus", __doc__ or "", severity="warning")
