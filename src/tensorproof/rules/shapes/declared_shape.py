"""Shape that contradicts what is declared for it.

## What it does
A jaxtyping annotation says another rank or size than the tensor that a caller passes.

## Why it matters
One of the two is wrong: readers trust the declaration, and a run-time checker stops at the annotation.

## Example
    def pool(maps: Float[Tensor, "batch 64 7 7"]):
        return maps.mean(dim=(2, 3))

    pooled = pool(torch.randn(8, 64, 14, 14))

## Use instead
    def pool(maps: Float[Tensor, "batch 64 height width"]):
        return maps.mean(dim=(2, 3))

    pooled = pool(torch.randn(8, 64, 14, 14))
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

DECLARED_SHAPE = Rule("SHP124", "declared-shape", __doc__ or "", severity="error")
