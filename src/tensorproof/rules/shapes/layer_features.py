"""Layer that gets another number of features than it was made for.

## What it does
The last axis of what reaches a Linear (Dense) layer is not the number of features that the layer was built with.

## Why it matters
Every run that reaches the line stops there. The first Linear after the convolutions is where it happens: its number of
features follows from the image size, the kernels and the pooling before it.

## Example
    convolution = nn.Conv2d(1, 32, 3, padding=1)
    head = nn.Linear(32 * 28 * 28, 10)
    pooled = F.max_pool2d(convolution(torch.randn(8, 1, 28, 28)), 2)
    logits = head(pooled.flatten(1))  # 6272 features, 25088 expected

## Use instead
    convolution = nn.Conv2d(1, 32, 3, padding=1)
    head = nn.Linear(32 * 14 * 14, 10)
    pooled = F.max_pool2d(convolution(torch.randn(8, 1, 28, 28)), 2)
    logits = head(pooled.flatten(1))
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

LAYER_FEATURES = Rule("SHP105", "layer-features", __doc__ or "", severity="error")
