"""Constants at fault: an epsilon that is absorbed or that vanished in its format, a constant that left its format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.formats import Format
from tensorproof.ranges.range import Range
from tensorproof.repair.editing import Editor
from tensorproof.repair.matching import users
from tensorproof.repair.operand.block import Block
from tensorproof.repair.proposal import Case, Declined, Proposal


def surviving_constant(block: Block) -> Proposal:
    """An absorbed constant of the size of one unit in the last place of the largest number that it is added to."""
    case = block.case
    constant = block.named(case.finding.operand)
    array = None if constant is None else case.model.constants.get(constant.value)
    if constant is None or array is None:
        raise Declined("the absorbed operand is no constant of the file")
    sizes = [abs(end) for other in block.operands.values() if other is not constant for end in other.ends]
    if not sizes:
        raise Declined("it is added to itself")
    size = constant.format.quantum_at(max(sizes))
    values = array.astype(np.float64)
    grown = np.where(values == 0.0, values, np.copysign(np.maximum(np.abs(values), size), values)).astype(array.dtype)
    if not block.is_silent(dict.fromkeys(constant.indices, Range.constant(grown, constant.format)), block.codes(strict=True)):
        raise Declined(f"a constant of {size:.3g}, which survives, makes the node fail")

    def edit(editor: Editor) -> None:
        made = editor.before(block.node, "guard").constant(grown, grown.dtype)
        for index in constant.indices:
            editor.rewire(block.node, index, made)

    return Proposal(
        kind="operand",
        name="surviving-constant",
        finding=case.finding,
        summary=f"{case.finding.operand} becomes {size:.9g} in {block.node.label}, one unit in the last place of the other operand",
        because=f"a smaller one is rounded away; the sum differs by {size:.3g}",
        safe=False,
        replaces=(block.node.name,),
        edit=edit,
    )


def of_conversion(case: Case) -> Proposal:
    """A constant that a conversion of the model turned into zero or into infinity, replaced by the nearest that does its work."""
    numbers = [number for number in case.model.constants if case.model.name_of(number) == case.finding.operand]
    if len(numbers) != 1:
        raise Declined("several constants have this name" if numbers else "the constant cannot be found again")
    (number,) = numbers
    array, format = case.model.constants[number], case.model.values[number].format
    if format is None or not format.is_float:
        raise Declined("the constant's format is not known")
    repaired = _saturated(array, format) if np.isinf(array.astype(np.float64)).any() else _grown(array, format)
    name, readers = case.finding.operand, users(case, number)
    return Proposal(
        kind="operand",
        name=repaired.name,
        finding=case.finding,
        summary=f"{name} {repaired.summary}",
        because=repaired.because,
        safe=False,
        replaces=tuple(node.name for node in readers),
        edit=lambda editor: editor.set_constant(name, repaired.array),
    )


@dataclass(frozen=True, slots=True)
class _Constant:
    """Another array for a constant, and what is said of it."""

    name: str
    array: npt.NDArray[Any]
    summary: str
    because: str


def _grown(array: npt.NDArray[Any], format: Format) -> _Constant:
    """The smallest normal number, which no target flushes; the sign of the zero is that of the constant."""
    if array.size != 1 or array.astype(np.float64).any():
        raise Declined("elements that vanished cannot be told from those that were zero")
    grown = np.copysign(format.smallest_normal, array.astype(np.float64)).astype(array.dtype)
    return _Constant(
        "surviving-constant",
        grown,
        f"becomes {format.smallest_normal:.9g}, the smallest normal number of {format}",
        f"the constant is zero in {format}; results differ by as much as the larger one does",
    )


def _saturated(array: npt.NDArray[Any], format: Format) -> _Constant:
    """Infinite elements at the ends of the format."""
    return _Constant(
        "saturated-constant",
        np.clip(array.astype(np.float64), format.low, format.high).astype(array.dtype),
        f"is clamped to the ends of {format}",
        "elements that are infinite in the format become its largest number, which is not what they were",
    )
