"""Unpacking into the wrong number of names.

## What it does
A shape is unpacked into more or fewer names than the tensor has axes, or a call into another number of names than it returns
tensors.

## Why it matters
Every run that reaches the line stops there. Code written for images fails on a batch of images, which has one axis more.

## Example
    images = torch.randn(8, 3, 32, 32)
    channels, height, width = images.shape  # four sizes, three names

## Use instead
    images = torch.randn(8, 3, 32, 32)
    batch, channels, height, width = images.shape
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

SHAPE_UNPACKING = Rule("SHP123", "shape-unpacking", __doc__ or "", severity="error")
