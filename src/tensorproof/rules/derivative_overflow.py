"""Derivative that overflows.

## What it does
The value is finite, but its derivative leaves the format: the derivative of 1 / x is -1 / x^2, which is infinite in float32 for
x below 5e-20. The same holds for quotients, logarithms of subnormal numbers, reciprocal square roots and negative powers.
Reported when a model is checked for training, and only where the operand is known to stay away from zero: otherwise the value
itself can fail, and is reported for that.

## Why it matters
An epsilon chosen to keep a value finite is squared or cubed in the derivative. In 16-bit formats this happens early: in float16
the derivative of 1 / x overflows below 0.004.

## Example
    y = 1 / (x.abs() + 1e-20)

## Use instead
    y = 1 / (x.abs() + 1e-8)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorproof.rules.rule import Rule

if TYPE_CHECKING:
    from tensorproof.confirm.place import Place
    from tensorproof.execute.meaning import Tensor

DERIVATIVE_OVERFLOW = Rule("NUM403", "derivative-overflow", __doc__ or "", severity="error", phase="backward")


@DERIVATIVE_OVERFLOW.objective
def _(place: Place) -> Tensor:
    """The operand near zero; for a tangent, a result as large as can be."""
    return place.beyond(place.result, place.limit) if place.op == "Tan" else place.zero(place.operand)
