"""Variance as a difference of two means.

## What it does
The source computes E[x^2] - E[x]^2 instead of the mean of squared deviations.

## Why it matters
Two large numbers that are nearly equal cancel: for values near 10000 with a variance of 1 no digit is left in float32, and the
result can be negative; a square root of it is NaN.

## Example
    x = torch.full((1000,), 10000.0) + torch.randn(1000)
    variance = (x * x).mean() - x.mean() ** 2

## Use instead
    x = torch.full((1000,), 10000.0) + torch.randn(1000)
    variance = x.var(unbiased=False)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

VARIANCE_BY_DIFFERENCE = Rule("NUM506", "variance-by-difference", __doc__ or "", severity="warning")
