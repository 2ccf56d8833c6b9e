"""Joining tensors whose other sizes differ.

## What it does
The parts of a cat, concat, stack or hstack differ in rank, or in the size of an axis along which they are not joined.

## Why it matters
The parts do not form one block, and every run that reaches the line stops there. In networks with skip connections the reason
is often an odd size that pooling rounded down.

## Example
    skip = torch.randn(4, 64, 29, 29)
    up = torch.randn(4, 64, 28, 28)
    joined = torch.cat([up, skip], dim=1)  # 28 against 29

## Use instead
    skip = torch.randn(4, 64, 29, 29)
    up = torch.randn(4, 64, 28, 28)
    joined = torch.cat([F.pad(up, (0, 1, 0, 1)), skip], dim=1)  # (4, 128, 29, 29)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

JOIN_MISMATCH = Rule("SHP104", "join-mismatch", __doc__ or "", severity="error")
