"""Convolution or pooling window larger than what it slides over.

## What it does
The output of a convolution or of pooling would have a size of zero or less: the window, with its dilation, is larger than the
padded input.

## Why it matters
Every run that reaches the line stops there. A network made for images of 224 pixels halves images of 28 pixels until nothing
is left.

## Example
    maps = torch.randn(8, 64, 2, 2)
    maps = nn.Conv2d(64, 128, 3)(maps)  # 2 - 3 + 1 = 0

## Use instead
    maps = torch.randn(8, 64, 2, 2)
    maps = nn.Conv2d(64, 128, 3, padding=1)(maps)  # (8, 128, 2, 2)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

WINDOW_TOO_LARGE = Rule("SHP107", "window-too-large", __doc__ or "", severity="error")
