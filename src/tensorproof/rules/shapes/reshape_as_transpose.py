"""Reshape where a transpose was meant.

## What it does
The target of a reshape is a permutation of the sizes of the tensor.

## Why it matters
Nothing fails: a reshape keeps the order of the elements in memory, so that pixels, channels and time steps are scrambled
instead of exchanged.

## Example
    images = torch.randn(8, 28, 30, 3)
    images = images.reshape(8, 3, 28, 30)

## Use instead
    images = torch.randn(8, 28, 30, 3)
    images = images.permute(0, 3, 1, 2)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

RESHAPE_AS_TRANSPOSE = Rule("SHP206", "reshape-as-transpose", __doc__ or "", severity="warning")
