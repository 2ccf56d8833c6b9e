"""Axis that the tensor does not have.

## What it does
A dim or axis argument lies outside the rank of the tensor, or permute and transpose name another number of axes than there
are.

## Why it matters
Every run that reaches the line stops there. An axis was lost before (by a reduction without keepdim, by an index), or a tensor
without a batch axis is used where one with it was meant.

## Example
    sentence = torch.randn(20, 300)
    mean = sentence.mean(dim=2)  # axes are 0 and 1

## Use instead
    sentence = torch.randn(20, 300)
    mean = sentence.mean(dim=1)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

AXIS_OUT_OF_RANGE = Rule("SHP109", "axis-out-of-range", __doc__ or "", severity="error")
