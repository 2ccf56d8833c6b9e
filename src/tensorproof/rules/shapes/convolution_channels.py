"""Convolution that gets another number of channels than it was made for.

## What it does
The channel axis of what reaches a convolution is not its number of input channels, or the channels cannot be divided among
its groups.

## Why it matters
Every run that reaches the line stops there. Images stored as height, width, channels have to be permuted for PyTorch, whose
convolutions expect the channels first.

## Example
    images = torch.randn(8, 32, 32, 3)
    maps = nn.Conv2d(3, 16, 3)(images)  # 32 channels, 3 expected

## Use instead
    images = torch.randn(8, 32, 32, 3)
    maps = nn.Conv2d(3, 16, 3)(images.permute(0, 3, 1, 2))
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

CONVOLUTION_CHANNELS = Rule("SHP106", "convolution-channels", __doc__ or "", severity="error")
