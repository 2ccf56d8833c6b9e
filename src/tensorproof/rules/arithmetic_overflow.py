"""Overflow of element-wise arithmetic.

## What it does
The result of Add, Sub, Mul, Div, Pow or another element-wise operator can exceed the largest number of the format.

## Why it matters
float16 ends at 65504: squares of 256 do not fit.

## Example
    energy = x.half() ** 2

## Use instead
    energy = x.float() ** 2
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

ARITHMETIC_OVERFLOW = Rule("NUM202", "arithmetic-overflow", __doc__ or "", severity="error", linear=True)
