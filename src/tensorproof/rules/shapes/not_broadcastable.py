"""Element-wise operation on shapes that cannot be broadcast.

## What it does
Two operands of an element-wise operation have different sizes on the same axis, counted from the right, and neither size is 1.

## Why it matters
The operation is not defined, and every run that reaches the line stops there. Axes meet from the right: a weight per channel
has to keep axes of size 1 for height and width.

## Example
    images = torch.randn(8, 3, 32, 32)
    scaled = images * torch.rand(3)  # 32 against 3

## Use instead
    images = torch.randn(8, 3, 32, 32)
    scaled = images * torch.rand(3)[:, None, None]
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

NOT_BROADCASTABLE = Rule("SHP102", "not-broadcastable", __doc__ or "", severity="error")
