"""View of a tensor whose memory is not in order.

## What it does
`view` merges axes of a tensor that was transposed, permuted or expanded before, so that its elements do not lie in that order
in memory.

## Why it matters
`view` never copies and refuses; every run that reaches the line stops there. `reshape` copies where it has to.

## Example
    heads = torch.randn(2, 8, 20, 64).transpose(1, 2)
    joined = heads.view(2, 20, 512)

## Use instead
    heads = torch.randn(2, 8, 20, 64).transpose(1, 2)
    joined = heads.reshape(2, 20, 512)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

VIEW_NOT_CONTIGUOUS = Rule("SHP117", "view-not-contiguous", __doc__ or "", severity="error")
