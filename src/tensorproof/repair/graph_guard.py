"""`Guard`: operands of one operator of a framework, each held in an interval before it; as a proposal, in words, in our own graph.

Its numbers are those of the guards of ONNX files (`tensorproof.repair.operand`). What is no clamp of an operand there (another
constant, a divisor of both signs held away from zero) is said in words alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from tensorproof.findings import Finding
from tensorproof.formats import Format
from tensorproof.frontends.calls import OPSET
from tensorproof.frontends.tensorflow_reassociation import as_in_the_program
from tensorproof.graph import ABSENT, Graph, Model, Node, Value
from tensorproof.repair import operand
from tensorproof.repair.operand.block import Block, Interval
from tensorproof.repair.operand.clamps import held_operands, is_harmless
from tensorproof.repair.operand.numbers import smallest_kept, usual_epsilon
from tensorproof.repair.proposal import Case, Declined, Proposal

#: Guards of ONNX files that a `Guard` says, too.
_CLAMPS = ("clamp", "epsilon")
#: Rules about divisors.
_DIVISIONS = ("NUM103", "NUM106", "NUM107")
#: Rules about constants: no range of an operand is at fault.
_OF_CONSTANTS = ("NUM205", "NUM301", "NUM302")
#: Operators of frameworks that are several of ours, and have no finite result for any operand that is not above zero.
_ABOVE_ZERO = ("rsqrt",)


@dataclass(frozen=True, slots=True)
class FrameworkOperator:
    """An operator of a framework: its name there, that of its place in the program, and the nodes of our graph that it became."""

    name: str
    label: str
    nodes: tuple[Node, ...]

    def operands(self) -> Iterator[int]:
        """The values that enter it."""
        made = {number for node in self.nodes for number in node.outputs}
        read = dict.fromkeys(number for node in self.nodes for number in node.inputs)
        return (number for number in read if number != ABSENT and number not in made)


@dataclass(frozen=True, slots=True)
class Held:
    """A value of our graph with the interval that it is held in."""

    value: int
    format: Format
    interval: Interval


@dataclass(frozen=True, slots=True)
class Guard:
    """Operands that are held before the operator of a finding's node; fields as in `tensorproof.repair.proposal.Proposal`."""

    case: Case = field(repr=False)
    operator: FrameworkOperator
    held: tuple[Held, ...]
    safe: bool
    kind: Literal["operand"] = "operand"
    name: Literal["clamp"] = "clamp"

    @property
    def finding(self) -> Finding:
        return self.case.finding

    def name_of(self, held: Held) -> str:
        """The program's name of a value that is held."""
        return as_in_the_program(self.case.model.name_of(held.value))

    @property
    def summary(self) -> str:
        intervals = " and ".join(f"{self.name_of(held)!r} is held {held.interval.describe()}" for held in self.held)
        return f"{intervals} before {self.operator.name} {self.operator.label!r}"

    @property
    def because(self) -> str:
        moved = "only operands without a finite result are moved" if self.safe else "operands outside of it are moved to its ends"
        return f"{self.operator.name} does not fail for operands {self.intervals}; {moved}"

    @property
    def intervals(self) -> str:
        """The numbers alone."""
        return " and ".join(held.interval.describe() for held in self.held)

    @property
    def by_hand(self) -> str:
        """The operand, the numbers and the line, for a person."""
        ends = [(self.name_of(held), _end(held.interval.low, "-inf"), _end(held.interval.high, "inf")) for held in self.held]
        place = _place(self.case, self.operator)
        if len(ends) == 1:
            ((name, low, high),) = ends
            return f"apply by hand: clamp operand {name!r} of {place} to [{low}, {high}]"
        return f"apply by hand: clamp operands of {place}: " + ", ".join(f"{name!r} to [{low}, {high}]" for name, low, high in ends)


def _end(number: float | None, infinity: str) -> str:
    return infinity if number is None else f"{number:.9g}"


def _place(case: Case, operator: FrameworkOperator) -> str:
    """The operator with its line, or with its name where the line is not known."""
    location = case.finding.location
    if location is None or location.file is None or location.line is None:
        return f"{operator.name} {operator.label!r}"
    return f"{operator.name} at {location.file}:{location.line}"


def advice(case: Case, operator: FrameworkOperator) -> str | None:
    """What to write by hand where no clamp of an operand is the repair; None where one may be. Raises `Declined`."""
    code, place = case.finding.rule.code, _place(case, operator)
    found = next(operand.proposed(case), None)
    if isinstance(found, Proposal) and found.name not in _CLAMPS:
        return f"apply by hand at {place}: {found.summary}"
    if isinstance(found, tuple) and code in _OF_CONSTANTS:
        raise Declined(found[1])
    divisor = Block(case).named(case.finding.operand) if code in _DIVISIONS else None
    if divisor is None or not divisor.low < 0.0 < divisor.high:
        return None
    name, least = as_in_the_program(case.finding.operand), smallest_kept(divisor.format, case.target)
    return f"apply by hand: hold operand {name!r} of {place} at least {least:.9g} away from zero, its sign kept"


def guards_of(case: Case, operator: FrameworkOperator) -> list[Guard]:
    """Guards of a finding's node, best first. Raises `Declined` if there are none.

    An operand that stands inside of an operator is held where it enters that, if it can be: else where our node reads it, which
    no file says.
    """
    block = Block(case)
    own, found, inside = set(operator.operands()), list[Guard](), list[Mapping[int, Interval]]()
    for intervals in held_operands(block):
        if own.issuperset(intervals):
            found.append(_clamped(block, operator, intervals))
        else:
            inside.append(intervals)
    if inside:
        found.extend(_outside(case, operator))
        part = FrameworkOperator(case.node.op, operator.label, (case.node,))
        found.extend(_clamped(block, part, intervals) for intervals in inside if not found)
    return sorted(found, key=lambda guard: not guard.safe)


def _clamped(block: Block, operator: FrameworkOperator, intervals: Mapping[int, Interval]) -> Guard:
    held = tuple(Held(value, block.operands[value].format, interval) for value, interval in intervals.items())
    # Other nodes of the same operator read the operand, too, and know nothing of what is harmless here.
    is_alone = len(operator.nodes) == 1 and len(held) == 1
    safe = is_alone and all(is_harmless(block, block.operands[value], interval) for value, interval in intervals.items())
    return Guard(block.case, operator, held, safe)


def _outside(case: Case, operator: FrameworkOperator) -> Iterator[Guard]:
    """The operator's own operand held above zero, where the one that fails is made of it inside the operator."""
    varying = [value for value in operator.operands() if value not in case.model.constants or value in case.model.weights]
    summary = case.summary(varying[0]) if len(varying) == 1 else None
    if summary is None or not summary.format.is_float:
        return
    tiny = smallest_kept(summary.format, case.target)
    epsilon = usual_epsilon(summary.format, max(abs(summary.low), abs(summary.high)))
    for low in dict.fromkeys((tiny, epsilon)):
        if summary.low < low:
            safe = low == tiny and operator.name.lower() in _ABOVE_ZERO
            yield Guard(case, operator, (Held(varying[0], summary.format, Interval(low=low)),), safe)


def guarded_model(model: Model, guard: Guard) -> Model:
    """Our own graph with the guard in it, for a scan."""
    return _Guarding(model, guard).run()


class _Guarding:
    def __init__(self, model: Model, guard: Guard) -> None:
        self._model = model
        self._guard = guard
        self._names = {node.name for node in guard.operator.nodes}
        self._values = list(model.values)
        self._constants = dict(model.constants)
        self._number = max(node.number for node in model.graph.walk()) + 1

    def run(self) -> Model:
        graph = self._graph(self._model.graph)
        return replace(self._model, graph=graph, values=self._values, constants=self._constants)

    def _graph(self, graph: Graph) -> Graph:
        nodes: list[Node] = []
        for node in graph.nodes:
            bodies = {name: self._graph(held) for name, held in node.attributes.items() if isinstance(held, Graph)}
            if bodies:
                node = replace(node, attributes={**node.attributes, **bodies})
            if node.name in self._names:
                before, node = self._held(node)
                nodes += before
            nodes.append(node)
        return replace(graph, nodes=nodes)

    def _held(self, node: Node) -> tuple[Sequence[Node], Node]:
        made: list[Node] = []
        exchanged: dict[int, int] = {}
        for held in self._guard.held:
            if held.value not in node.inputs:
                continue
            source = held.value
            for op, limit in (("Max", held.interval.low), ("Min", held.interval.high)):
                if limit is not None:
                    source = self._limited(node, op, source, held, limit, made)
            exchanged[held.value] = source
        return made, replace(node, inputs=tuple(exchanged.get(number, number) for number in node.inputs))

    def _limited(self, node: Node, op: str, source: int, held: Held, limit: float, made: list[Node]) -> int:
        name = f"{node.name}/{op.lower()} of {self._model.name_of(held.value)}"
        constant = self._new(f"{name}/limit", held.format, ())
        self._constants[constant] = np.asarray(limit, held.format.dtype)
        result = self._new(name, held.format, None)
        made.append(
            Node(self._number, op, "", OPSET, name, (source, constant), (result,), {}, node.source, node.module, node.phase)
        )
        self._number += 1
        return result

    def _new(self, name: str, format: Format, shape: tuple[int, ...] | None) -> int:
        self._values.append(Value(name, format, shape))
        return len(self._values) - 1
