"""Range with a step that can be zero.

## What it does
The number of elements of Range is (limit - start) / step: a step of zero is undefined.

## Why it matters
Runtimes raise, or try to allocate without end.

## Example
    t = torch.arange(0, 1, step)

## Use instead
    t = torch.linspace(0, 1, count)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorproof.rules.rule import Rule

if TYPE_CHECKING:
    from tensorproof.confirm.place import Place
    from tensorproof.execute.meaning import Tensor

RANGE_STEP_OF_ZERO = Rule("NUM111", "range-step-of-zero", __doc__ or "", severity="error")


@RANGE_STEP_OF_ZERO.objective
def _(place: Place) -> Tensor:
    return place.zero(place.operand)
