"""Overflow of element-wise arithmetic.

## What it does
The result of Add, Sub, Mul, Div, Pow or another element-wise operator can exceed the largest number of the format.

## Why it matters
float16 ends at 65504: squares of 256 do not fit.

## Example
    energy = x.half() ** 2

## Use instead
    energy = x.float() ** 2
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorproof.rules.rule import Rule

if TYPE_CHECKING:
    from tensorproof.confirm.place import Place
    from tensorproof.execute.meaning import Tensor

ARITHMETIC_OVERFLOW = Rule("NUM202", "arithmetic-overflow", __doc__ or "", severity="error", linear=True)


@ARITHMETIC_OVERFLOW.objective
def _(place: Place) -> Tensor:
    """The result, or the operand where it is a sum inside of the operator that overflows."""
    return place.beyond(place.operand, place.limit)
