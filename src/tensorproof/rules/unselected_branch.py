"""Failing value that is not selected but spoils the gradient.

## What it does
A NaN or an infinity is computed and then dropped: `where` selects the other branch, a clamp cuts it off, or it ends in a divisor.
The result is finite. The gradient is not: the branch that was not selected gets the gradient 0, and its derivative there is
infinite or NaN, so that 0 * inf = NaN flows back. Reported when a model is checked for training, in place of the finding about the
value, where the analysis proves that no output sees the value.

## Why it matters
`where` looks like a guard and is one on the way forward. After the first step with such an element all weights are NaN.

## Example
    y = torch.where(x > 0, torch.sqrt(x), x)

## Use instead
    safe = torch.where(x > 0, x, 1.0)
    y = torch.where(x > 0, torch.sqrt(safe), x)

For an exponential that is cut off afterwards, clamp its operand instead of its result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorproof.rules.rule import Rule

if TYPE_CHECKING:
    from tensorproof.confirm.place import Place
    from tensorproof.execute.meaning import Tensor

UNSELECTED_BRANCH = Rule("NUM404", "unselected-branch", __doc__ or "", severity="error", phase="backward")

#: Operators that fail where their operand is zero, and where it leaves [-1, 1]; those that are left fail by growing.
_AT_ZERO = frozenset({"Log", "Reciprocal", "Div"})
_BEYOND_ONE = frozenset({"Acos", "Asin", "Atanh"})
_BELOW_ZERO = frozenset({"Sqrt", "Rsqrt", "Pow"})


@UNSELECTED_BRANCH.objective
def _(place: Place) -> Tensor:
    """What makes the value fail, in the first place."""
    if place.op in _AT_ZERO:
        return place.zero(place.operand)
    if place.op in _BELOW_ZERO:
        return place.below(place.operand)
    if place.op in _BEYOND_ONE:
        return place.below(1.0 - place.operand.abs())
    return place.beyond(place.result, place.limit)
