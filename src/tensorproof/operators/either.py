"""A value that a runtime computes in one of several ways: as it is written, or with its constants gathered first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tensorproof.frontends.calls import OWN
from tensorproof.operators.arithmetic import add, div, mul, sub
from tensorproof.operators.table import RESULT, Call, operator
from tensorproof.ranges.containers import join
from tensorproof.ranges.range import Range

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.ranges.containers import Abstract

_STEPS = {"Add": add, "Sub": sub, "Mul": mul, "Div": div}


@operator("EitherOf", domain=OWN, composed_of=(add, sub, mul, div), elementwise=True)
def either_of(op: Call, written: Range, *leaves: Range) -> Abstract:
    """What is written, or what other ways of computing it give: the hull of all.

    `steps` are operators on the leaves and on the results of earlier steps, by number; `results` are the steps that give the value.
    Overflow of the other ways is reported only where what is written has none: it is one defect.
    """
    values: list[Range] = list(leaves)
    for name, left, right in op.attribute("steps"):
        values.append(op.apply(_STEPS[name], values[left], values[right]))
    # Overflow is the only thing that counts here: what is absorbed is seen where the value is used.
    other = [replace(hazard, operand=RESULT) for hazard in op.hazards if hazard.gives and not written.has_special]
    op.hazards[:] = other
    found: Abstract = written
    for index in op.attribute("results"):
        found = join(found, values[index])
    return found


@either_of.meaning
def _(run: Run, written: Tensor, *leaves: Tensor) -> Tensor:
    return written
