"""`Block`: the operator's own block asked once more, with other ranges of its operands or other attributes.

A guard that this oracle calls silent is one that a scan of the guarded model calls silent: both ask the same block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorproof.checking import ConstantRanges
from tensorproof.errors import NotAnalysed, UnknownShape
from tensorproof.formats import Format
from tensorproof.graph import ABSENT, Node
from tensorproof.operators.table import Call, Hazard, Operator, evaluate, find_operator, report_derivatives
from tensorproof.ranges.abstraction import FIRST_PASS
from tensorproof.ranges.containers import Abstract
from tensorproof.ranges.differentiable import Flowing
from tensorproof.ranges.grid import Shape
from tensorproof.ranges.range import NEGATIVE_INFINITY, POSITIVE_INFINITY, Range
from tensorproof.ranges.rounding import flushed
from tensorproof.repair.proposal import Case, Declined


@dataclass(frozen=True, slots=True)
class Interval:
    """The ends that a clamp moves values to; None on a side that stays as it is."""

    low: float | None = None
    high: float | None = None

    def describe(self) -> str:
        if self.high is None:
            return f"at least {self.low:.9g}"
        return f"at most {self.high:.9g}" if self.low is None else f"between {self.low:.9g} and {self.high:.9g}"


@dataclass(frozen=True, slots=True)
class Operand:
    """A value that the failing node reads, at one place or at several, with what the analysis knows of it."""

    value: int
    indices: tuple[int, ...]
    format: Format
    shape: Shape | None
    low: float
    high: float
    special: int
    is_constant: bool

    @property
    def ends(self) -> tuple[float, float]:
        """The hull of the numbers; zero where there are none but special values."""
        return (self.low, self.high) if self.low <= self.high else (0.0, 0.0)

    @property
    def is_uniform(self) -> bool:
        """Whether every element is the same known number."""
        return self.is_constant and self.low == self.high and not self.special

    def clamped(self, interval: Interval, *, flushes: bool) -> Range:
        """The range behind a clamp; NaN passes it."""
        bottom = -np.inf if interval.low is None else interval.low
        top = np.inf if interval.high is None else interval.high
        ends = [self.low, self.high] if self.low <= self.high else []
        special = self.special
        if interval.low is not None and special & NEGATIVE_INFINITY:
            ends.append(-np.inf)
            special &= ~NEGATIVE_INFINITY
        if interval.high is not None and special & POSITIVE_INFINITY:
            ends.append(np.inf)
            special &= ~POSITIVE_INFINITY
        if not ends:
            return self.between(self.low, self.high, special, flushes)
        return self.between(min(max(min(ends), bottom), top), min(max(max(ends), bottom), top), special, flushes)

    def at(self, value: float, *, flushes: bool) -> Range:
        """Every element this number."""
        return self.between(value, value, 0, flushes)

    def between(self, low: float, high: float, special: int, flushes: bool) -> Range:
        """Every element in an interval; subnormal ends may be zero where the target flushes them."""
        if flushes and self.format.is_float:
            low, high = (float(end) for end in flushed(np.asarray(low), np.asarray(high), self.format))
        return Range.uniform(self.shape, self.format, float(low), float(high), special)


class Block:
    """The node of a case and its operands, as its operator's block sees them."""

    def __init__(self, case: Case, node: Node | None = None) -> None:
        self.case = case
        self.node = case.node if node is None else node
        entry = find_operator(self.node.domain, self.node.op)
        if entry is None or entry.is_control or entry.top is not None:
            raise Declined(f"nothing is known about single operands of {self.node.label}")
        self.entry: Operator = entry
        self.flushes = case.target.flushes_results or case.target.flushes_operands
        constants = ConstantRanges(case.model, case.analysis.assumptions)
        self._ranges = [None if number == ABSENT else self._range(constants, number) for number in self.node.inputs]
        self.operands = self._operands()
        try:
            self._raw = self._found(self._ranges, self.node.attributes)
        except (NotAnalysed, UnknownShape) as reason:
            raise Declined(f"{self.node.label} is not analysed: {reason}") from None

    def _range(self, constants: ConstantRanges, number: int) -> Abstract:
        if number in self.case.model.constants:
            return constants(number).clean
        summary = self.case.summary(number)
        if summary is None or self.case.model.values[number].container != "tensor":
            raise Declined(f"the range of {self.case.model.name_of(number)} is not known")
        return Range.uniform(summary.shape, summary.format, summary.low, summary.high, summary.special)

    def _operands(self) -> dict[int, Operand]:
        found: dict[int, Operand] = {}
        for number, x in zip(self.node.inputs, self._ranges):
            if isinstance(x, Range) and number not in found and x.format.kind in ("float", "int"):
                indices = tuple(i for i, other in enumerate(self.node.inputs) if other == number)
                is_constant = number in self.case.model.constants and number not in self.case.analysis.assumptions.weights
                found[number] = Operand(number, indices, x.format, x.shape, *x.hull(), x.any_special, is_constant)
        return found

    def operand(self, index: int) -> Operand:
        """The operand at a place of the node."""
        found = self.operands.get(self.node.inputs[index]) if index < len(self.node.inputs) else None
        if found is None:
            raise Declined("the operand is no tensor of numbers")
        return found

    def named(self, name: str) -> Operand | None:
        """The operand of that name; None if the name is the result's."""
        return next((x for number, x in self.operands.items() if self.case.model.name_of(number) == name), None)

    def others_are_uniform(self, operand: Operand) -> bool:
        """Whether every other operand is one number everywhere."""
        return all(other.is_uniform for number, other in self.operands.items() if number != operand.value)

    def hazards(self, exchanged: Mapping[int, Range], attributes: Mapping[str, Any] | None = None) -> Sequence[Hazard] | None:
        """What can fire with other ranges at some places; None if the block cannot say."""
        ranges = [exchanged.get(index, x) for index, x in enumerate(self._ranges)]
        try:
            return self._found(ranges, {**self.node.attributes, **(attributes or {})})
        except (NotAnalysed, UnknownShape):
            return None

    def _found(self, ranges: Sequence[Abstract | None], attributes: dict[str, Any]) -> Sequence[Hazard]:
        call = self._call(attributes)
        result = evaluate(call, ranges)
        if self.case.finding.phase == "backward" and not isinstance(result, tuple):
            with np.errstate(all="ignore"):
                report_derivatives(call, result, ranges, Flowing(frozenset(range(len(ranges)))))
        return call.hazards

    def _call(self, attributes: dict[str, Any]) -> Call:
        values, outputs = self.case.model.values, self.node.outputs
        return Call(
            self.entry,
            attributes,
            version=self.node.version,
            target=self.case.target,
            outputs=len(outputs),
            output_formats=[None if number == ABSENT else values[number].format for number in outputs],
            abstraction=FIRST_PASS,
        )

    def exact(self, exchanged: Mapping[int, Range]) -> Range | None:
        """The first result in exact arithmetic, neither rounded nor cut off at the ends of its format."""
        ranges = [exchanged.get(index, x) for index, x in enumerate(self._ranges)]
        result = self.entry.block(self._call(self.node.attributes), *ranges)
        result = result[0] if isinstance(result, tuple) else result
        return result if isinstance(result, Range) else None

    def codes(self, *, strict: bool) -> frozenset[str] | None:
        """What a guard has to silence: the finding's rule alone or, None, everything that is an error."""
        return None if strict else frozenset({self.case.finding.rule.code})

    def fails(self, wanted: frozenset[str] | None) -> bool:
        """Whether something fires as the node stands."""
        return not self._is_silent(self._raw, wanted)

    def is_silent(
        self, exchanged: Mapping[int, Range], wanted: frozenset[str] | None, attributes: Mapping[str, Any] | None = None
    ) -> bool:
        """Whether nothing of what is wanted silent can fire."""
        return self._is_silent(self.hazards(exchanged, attributes), wanted)

    def _is_silent(self, hazards: Sequence[Hazard] | None, wanted: frozenset[str] | None) -> bool:
        if hazards is None:
            return False
        own = self.case.finding.rule.code
        if wanted is None:
            return not any(hazard.rule.code == own or hazard.rule.severity == "error" for hazard in hazards)
        return not any(hazard.rule.code in wanted for hazard in hazards)

    def clamped(self, intervals: Mapping[int, Interval]) -> dict[int, Range]:
        """The ranges at all places of the operands (by value number) that are clamped."""
        ranges: dict[int, Range] = {}
        for value, interval in intervals.items():
            operand = self.operands[value]
            behind = operand.clamped(interval, flushes=self.flushes)
            ranges |= dict.fromkeys(operand.indices, behind)
        return ranges
