"""Tensor with the wrong number of axes.

## What it does
A layer or function gets a tensor of a rank that it does not take: a convolution over images without channels, a norm over
flat features, a loss over a scalar.

## Why it matters
Every run that reaches the line stops there. A single image has no batch axis; a batch of grey images has no channel axis.

## Example
    image = torch.randn(28, 28)
    maps = nn.Conv2d(1, 16, 3)(image)  # rank 2, rank 3 or 4 expected

## Use instead
    image = torch.randn(28, 28)
    maps = nn.Conv2d(1, 16, 3)(image[None, None])  # (1, 16, 26, 26)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

WRONG_RANK = Rule("SHP125", "wrong-rank", __doc__ or "", severity="error")
