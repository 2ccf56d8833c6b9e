"""Gradient that vanishes in low precision.

## What it does
A training step was run in a 16-bit format and in float64, on points of the declared ranges. Elements of a gradient that are not
zero in float32 are zero in the 16-bit format, more than one in a hundred of them. The report gives their share, and the smallest
power of two that the loss has to be multiplied with so that 99.9 % of all gradients survive without an overflow, or says that there
is none.
Reported for PyTorch programs that are checked for training and compute in float16 or bfloat16.

## Why it matters
What has a gradient of zero does not learn. The loss stops falling, and nothing says why.

## Example
    loss.backward()  # float16: gradients below 3e-8 are zero

## Use instead
    scaler = torch.amp.GradScaler(init_scale=2.0**12)
    scaler.scale(loss).backward()
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

GRADIENT_VANISHES = Rule("NUM407", "gradient-vanishes", __doc__ or "", severity="warning", phase="backward")
