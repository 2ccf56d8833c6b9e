"""Power outside its domain.

## What it does
Pow has a negative base with an exponent that is not an integer (NaN), or a zero base with a negative exponent (infinite).

## Why it matters
The base is often a difference or a network's output, whose sign nothing guarantees.

## Example
    y = x ** 0.5

## Use instead
    y = x.clamp(min=0) ** 0.5
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

POWER_OUTSIDE_DOMAIN = Rule("NUM104", "power-outside-domain", __doc__ or "", severity="error")
