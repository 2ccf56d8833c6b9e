"""Square root of a negative number.

## What it does
The operand of a square root (Sqrt, or the root inside a normalisation) can be negative, which gives NaN.

## Why it matters
A variance computed as E[x^2] - E[x]^2 cancels and comes out slightly negative on nearly constant data.

## Example
    std = torch.sqrt((x * x).mean() - x.mean() ** 2)

## Use instead
    std = torch.sqrt(((x - x.mean()) ** 2).mean())
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

SQRT_OF_NEGATIVE = Rule("NUM102", "sqrt-of-negative", __doc__ or "", severity="error")
