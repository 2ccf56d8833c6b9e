"""Logarithm of a sum of exponentials.

## What it does
The source computes log(sum(exp(x))) step by step instead of with logsumexp.

## Why it matters
exp overflows above 88.7 in float32 and above 11.0 in float16: scores of 100 give infinity, where the result is near 100.

## Example
    scores = torch.full((8, 10), 100.0)
    total = torch.log(torch.exp(scores).sum(dim=1))  # inf

## Use instead
    scores = torch.full((8, 10), 100.0)
    total = torch.logsumexp(scores, dim=1)  # 102.3
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

LOG_OF_SUM_OF_EXPONENTIALS = Rule("NUM503", "log-of-sum-of-exponentials", __doc__ or "", severity="warning")
