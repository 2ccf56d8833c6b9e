"""Invalid operation on infinities: inf - inf, 0 * inf or inf / inf.

## What it does
An operand may legally be infinite (a mask constant, a declared input) and meets one that makes the result NaN.

## Why it matters
Masking by multiplication does not mask: 0 * -inf is NaN.

## Example
    y = mask * torch.where(valid, x, float("-inf"))

## Use instead
    y = torch.where(mask, x, 0.0)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

INVALID_ON_INFINITY = Rule("NUM109", "invalid-operation-on-infinity", __doc__ or "", severity="error")
