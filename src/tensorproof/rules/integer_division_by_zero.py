"""Integer division or remainder by zero.

## What it does
The divisor of an integer Div or Mod can be zero. The result is undefined: runtimes stop the process (SIGFPE), raise, or
return any number.

## Why it matters
A server that dies on one request is worse than one that returns NaN.

## Example
    stride = length // count

## Use instead
    stride = length // count.clamp(min=1)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorproof.rules.rule import Rule

if TYPE_CHECKING:
    from tensorproof.confirm.place import Place
    from tensorproof.execute.meaning import Tensor

INTEGER_DIVISION_BY_ZERO = Rule("NUM107", "integer-division-by-zero", __doc__ or "", severity="error")


@INTEGER_DIVISION_BY_ZERO.objective
def _(place: Place) -> Tensor:
    return place.zero(place.operand)
