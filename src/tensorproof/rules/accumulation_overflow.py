"""Overflow of a sum, product or convolution.

## What it does
The result of MatMul, Gemm, Conv, a reduction, CumSum or another accumulating operator can exceed the largest number of
the format.

## Why it matters
Sums grow with the size of the tensor; in float16 a dot product of 1024 terms of size 8 can already overflow.

## Example
    scores = q.half() @ k.half().T

## Use instead
    scores = (q / q.shape[-1] ** 0.5).half() @ k.half().T
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorproof.rules.rule import Rule

if TYPE_CHECKING:
    from tensorproof.confirm.place import Place
    from tensorproof.execute.meaning import Tensor

ACCUMULATION_OVERFLOW = Rule("NUM203", "accumulation-overflow", __doc__ or "", severity="error", linear=True)


@ACCUMULATION_OVERFLOW.objective
def _(place: Place) -> Tensor:
    """The result, or the operand where it is a sum inside of the operator that overflows."""
    return place.beyond(place.operand, place.limit)
