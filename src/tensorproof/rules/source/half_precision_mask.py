"""Mask value that half precision cannot hold.

## What it does
A constant such as -1e9 masks scores in float16, whose largest number is 65504.

## Why it matters
PyTorch refuses to fill with it ("value cannot be converted ... without overflow"); added to scores it becomes
-infinity, and a row that is masked everywhere gives NaN in the softmax.

## Example
    scores = torch.zeros(2, 4, dtype=torch.float16)
    scores = scores.masked_fill(torch.ones(2, 4, dtype=torch.bool), -1e9)

## Use instead
    scores = torch.zeros(2, 4, dtype=torch.float16)
    scores = scores.masked_fill(torch.ones(2, 4, dtype=torch.bool), torch.finfo(scores.dtype).min)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

HALF_PRECISION_MASK = Rule("NUM509", "half-precision-mask", __doc__ or "", severity="warning")
