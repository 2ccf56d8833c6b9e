"""Constant that rounds to zero in its format.

## What it does
A constant or attribute that is not zero (an epsilon) is zero after it is rounded to the format in which it is used.

## Why it matters
The guard that it was meant to be is gone: 1e-12 is 0 in float16, whose smallest number is 6e-8.

## Example
    y = x / (norm + 1e-12)  # in float16

## Use instead
    y = x / (norm + 1e-4)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

VANISHED_CONSTANT = Rule("NUM301", "vanished-constant", __doc__ or "", severity="warning")
