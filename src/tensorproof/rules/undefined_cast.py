"""Cast of NaN, infinity or an out-of-range number to an integer.

## What it does
A floating value that the integer type cannot hold is cast to it. The result is undefined: it differs between processors
and runtimes.

## Why it matters
The garbage is then used as an index.

## Example
    index = (x * n).long()

## Use instead
    index = (x * n).clamp(0, n - 1).long()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorproof.rules.rule import Rule

if TYPE_CHECKING:
    from tensorproof.confirm.place import Place
    from tensorproof.execute.meaning import Tensor

UNDEFINED_CAST = Rule("NUM116", "undefined-cast", __doc__ or "", severity="warning")


@UNDEFINED_CAST.objective
def _(place: Place) -> Tensor:
    return place.beyond(place.operand, 2.0**63)
