"""Gradient that overflows in low precision.

## What it does
A training step was run in a 16-bit format and in float64, on points of the declared ranges. All outputs were finite in both, the
gradients were finite in float64, and in the 16-bit format one of them was not. Reported for PyTorch programs that are checked for
training and compute in float16 or bfloat16.

## Why it matters
One infinite gradient makes the step useless: a loss scaler skips it, and without one the weights become infinite or NaN.

## Example
    loss = (1000 * (prediction - target)).square().sum()  # float16: derivatives reach 2e6 times the error

## Use instead
    loss = (prediction - target).float().square().mean()
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

GRADIENT_OVERFLOW = Rule("NUM406", "gradient-overflow", __doc__ or "", severity="error", phase="backward")
