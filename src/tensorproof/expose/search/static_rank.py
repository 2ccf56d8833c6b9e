"""What the static analysis says about suspects: which cannot fail at all, and how easily the others do.

The operators that lead to suspects are a graph like that of `tensorproof check`. Weights are any finite number, and so is all
that comes from outside, unless it has a legal range. A suspect is *proven safe* where no rule speaks of its operator: neither on
operands that arise if nothing failed before, nor on those that arise if something did, and of its derivative neither. Overflow of
sums, products and quotients does not count there: with free weights it is possible everywhere.

For the others, what products (the logits of a network) may be is widened step by step. The last step at which an operator is
still safe says how near its operand comes to the failure before saturation and rounding take over: 1 - sigmoid(z) is 0 from
z = 17 on, when it was 6e-8 before, and sigmoid(z) from z = -104 on, when it was 1e-45.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tensorproof.assumptions import Assumptions, Domain
from tensorproof.checking import ConstantRanges, input_values
from tensorproof.expose.events import Pipe
from tensorproof.expose.search.board import Board
from tensorproof.expose.search.moves import Legal
from tensorproof.expose.search.vulnerable import Weakness
from tensorproof.formats import FLOAT32, FLOAT64, Format
from tensorproof.graph import ABSENT, NOT_ANALYSED, Model, Node
from tensorproof.operators.table import Call, Hazard, evaluate, find_operator, report_derivatives
from tensorproof.ranges.abstraction import FIRST_PASS
from tensorproof.ranges.containers import Abstract
from tensorproof.ranges.differentiable import Flowing, differentiable_paths
from tensorproof.ranges.preparation import prepare
from tensorproof.ranges.propagate import propagate
from tensorproof.ranges.range import Range
from tensorproof.ranges.records import RangedGraph, Record
from tensorproof.ranges.silence import silence
from tensorproof.refine.driver import propagate_refined
from tensorproof.rules.derivative_overflow import DERIVATIVE_OVERFLOW
from tensorproof.rules.invalid_operation_on_infinity import INVALID_ON_INFINITY
from tensorproof.targets import Target

#: A graph of more nodes than this is not looked at.
MOST_NODES = 20_000
#: Of a graph of more nodes than this suspects are proven, and not ranked: that takes several passes.
_MOST_RANKED = 4_000
#: What products may be, step by step: exponentials of float32 and float64 end at 88 and 709.
_LADDER = (1.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 512.0, 1024.0)
#: Operators whose results are logits, or what else saturates.
_PRODUCTS = frozenset({"MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum"})
#: Rules whose objectives are the logarithm of an operand's distance from zero; the first ones are met on one side alone.
_ONE_SIDED = frozenset({"NUM101", "NUM102"})
_AT_ZERO = _ONE_SIDED | {"NUM103", "NUM106", "NUM401", "NUM403"}
#: Logarithms of another number than the operand.
_SHIFTED = frozenset({"Log1p", "Xlog1py"})


@dataclass(frozen=True, slots=True)
class Subject:
    """The graph of what a program computes, as far as suspects depend on it.

    `nodes` are those of each operator of the program, by a name for it. `ranges` are legal ranges of inputs, by the number of the
    value, `shapes` their shapes. Weights of the model and other inputs are any finite number; `likely` says where inputs without a
    legal range lie at the moment, which proves nothing, and tells what fails easily.
    """

    model: Model
    target: Target
    nodes: Mapping[str, Sequence[int]]
    ranges: Mapping[int, Legal]
    shapes: Mapping[int, tuple[int, ...] | None]
    likely: Mapping[int, Legal] = field(default_factory=dict[int, Legal])


@dataclass(frozen=True, slots=True)
class Asked:
    """A suspect: the operator that it is, and how it fails."""

    operator: str
    weakness: Weakness


@dataclass(frozen=True, slots=True)
class Standing:
    """What was found out about a suspect.

    `reach` is what its objective is at the smallest distance from the failure that its operand is known to have without failing;
    minus infinity if that is not known. `span` is where the operand that decides lies, if that is known.
    """

    is_safe: bool
    reach: float = -math.inf
    span: tuple[float, float] | None = None


def outward(legal: Legal) -> Legal:
    """A range that holds a legal one: its ends are powers of two, or zero, so that it stays the same while data come in."""
    return Legal(-_power_above(-legal.low), _power_above(legal.high))


def _power_above(x: float) -> float:
    """The smallest power of two, zero, or negative power of two that is no less than a number."""
    if x == 0.0 or not math.isfinite(x):
        return x
    mantissa, exponent = math.frexp(x)
    if x > 0:
        return math.ldexp(0.5 if mantissa == 0.5 else 1.0, exponent)
    return math.ldexp(-0.5, exponent)


def standings(subject: Subject, asked: Mapping[str, Asked]) -> dict[str, Standing]:
    """What is known of suspects, by name. Of a graph that is too large nothing is."""
    size = len(subject.model.graph.nodes)
    if size > MOST_NODES or not asked:
        return {}
    scan = _Scan(subject)
    safe = {name for name, suspect in asked.items() if scan.is_safe(subject.nodes.get(suspect.operator, ()), suspect.weakness)}
    others = {name: suspect for name, suspect in asked.items() if name not in safe}
    reaches = _reaches(subject, scan.ranged, others) if others and size <= _MOST_RANKED else {}
    spans = {name: _span(subject, scan.ranged, asked[name]) for name in safe}
    return {name: Standing(name in safe, reaches.get(name, -math.inf), spans.get(name)) for name in asked}


def _span(subject: Subject, scanned: RangedGraph, asked: Asked) -> tuple[float, float] | None:
    place = _operand(subject, asked) if asked.weakness.operand >= 0 else None
    summary = None if place is None else scanned.summaries.get(place[1])
    return None if summary is None else summary.ends


def _anything(format: Format | None) -> Domain:
    """All finite numbers of a format."""
    if format is not None and format.kind == "bool":
        return Domain("box", 0.0, 1.0)
    ends = format if format is not None and format.kind in ("float", "int") else FLOAT64
    return Domain("box", ends.low, ends.high)


def _within(legal: Legal | None, format: Format | None, reach: float = math.inf) -> Domain:
    """The numbers of an input: those of its legal range, or any that are no larger than `reach`."""
    if legal is not None and legal.is_bounded:
        return Domain("box", legal.low, legal.high)
    anything = _anything(format)
    if format is None or not format.is_float:
        return anything
    return Domain("box", max(anything.low, -reach), min(anything.high, reach))


def _assumptions(subject: Subject, reach: float = math.inf) -> Assumptions:
    model = subject.model
    inputs = {n: _within(subject.ranges.get(n), model.values[n].format, reach) for n in model.graph.inputs}
    weights = {n: _within(None, model.values[n].format, reach) for n in model.weights}
    return Assumptions(inputs, {n: subject.shapes.get(n) for n in inputs}, weights, "any finite number", {})


class _Scan:
    """One analysis, all derivatives included."""

    def __init__(self, subject: Subject) -> None:
        model = subject.model
        assumptions = _assumptions(subject)
        sources = [n for n in (*model.graph.inputs, *model.weights) if _may_be_floating(model.values[n].format)]
        paths = differentiable_paths(model, sources)
        # A gradient that is infinite is a failure even where a Relu before the operator ends it.
        self._paths = {number: Flowing(flowing.operands) for number, flowing in paths.items()}
        prepare(model)
        self.ranged, _ = propagate_refined(
            model,
            input_values(model, assumptions),
            subject.target,
            constants=ConstantRanges(model, assumptions),
            effort=0,
            keep_ranges=True,
            paths=self._paths,
        )

    def is_safe(self, numbers: Sequence[int], weakness: Weakness) -> bool:
        """Whether no node of an operator can fail, and no derivative of it, other than in ways that are suspects of their own."""
        records = [self.ranged.records.get(number) for number in numbers]
        others = _of_their_own(weakness) if weakness.phase == "forward" else frozenset[str]()
        return bool(records) and all(record is not None and self._is_sound(record, others) for record in records)

    def _is_sound(self, record: Record, others: Collection[str]) -> bool:
        if record.not_analysed is not None or any(True for _ in record.node.subgraphs()):
            return False
        flowing = self._paths.get(record.node.number)
        hazards = [*record.hazards, *record.consequences]
        if flowing is not None:
            beyond = self._derivatives(record.node, flowing)
            if beyond is None:
                return False
            hazards += beyond
        return not any(self._counts(record.node, hazard) for hazard in hazards if hazard.rule.code not in others)

    def _counts(self, node: Node, hazard: Hazard) -> bool:
        if hazard.rule is DERIVATIVE_OVERFLOW and node.op == "Div" and hazard.operand == 1 and not hazard.low <= 0.0 <= hazard.high:
            # The derivative is the dividend over the square of the divisor: if that is there, it is plain overflow.
            format = self.ranged.model.values[node.outputs[0]].format or FLOAT32
            return max(hazard.low, -hazard.high) ** 2 < format.smallest_normal
        return _counts(hazard)

    def _derivatives(self, node: Node, flowing: Flowing) -> list[Hazard] | None:
        """What derivatives do on operands that arise where something failed before: rules ask about others alone.

        None if that is not known.
        """
        entry = find_operator(node.domain, node.op)
        flows = [None if number == ABSENT else self.ranged.ranges.get(number) for number in node.inputs]
        if entry is None or any(flow is None and number != ABSENT for flow, number in zip(flows, node.inputs)):
            return None
        operands = [None if flow is None else flow.actual for flow in flows]
        call = Call(
            entry,
            node.attributes,
            version=node.version,
            target=self.ranged.target,
            outputs=len(node.outputs),
            output_formats=[None if n == ABSENT else self.ranged.model.values[n].format for n in node.outputs],
            abstraction=FIRST_PASS,
        )
        with silence():
            try:
                found: Any = evaluate(call, operands)
            except Exception:  # such operands are beyond what the block was written for
                return None
            call.hazards.clear()
            report_derivatives(call, found[0] if isinstance(found, tuple) else found, operands, flowing)
        return call.hazards


def _of_their_own(weakness: Weakness) -> frozenset[str]:
    """Rules about derivatives of an operator that are suspects beside it, whatever operand they are about."""
    hazards = [hazard for hazard in weakness.operator.backward_hazards if hazard.rule is not DERIVATIVE_OVERFLOW]
    return frozenset(h.rule.code for h in hazards) - {h.rule.code for h in hazards if h.by != h.operand or h.rule.sought is None}


def _counts(hazard: Hazard) -> bool:
    """Whether a hazard is a failure of the operator itself: not of operands that are infinite, nor plain overflow."""
    return hazard.rule.severity == "error" and not hazard.rule.linear and hazard.rule is not INVALID_ON_INFINITY


def _may_be_floating(format: Format | None) -> bool:
    return format is None or format.is_float


# -- how easily suspects fail -----------------------------------------------------------------------------------------


def _reaches(subject: Subject, scanned: RangedGraph, asked: Mapping[str, Asked]) -> dict[str, float]:
    """The `reach` of each suspect that fails somewhere on the ladder."""
    operands = {
        name: place for name, suspect in asked.items() if _is_at_zero(suspect) and (place := _operand(subject, suspect)) is not None
    }
    cut = _cut_at_products(subject, scanned)
    nearest: dict[str, float] = {}
    found: dict[str, float] = {}
    for reach in _LADDER:
        if not operands:
            break
        ranged = _widened(cut, reach)
        for name, (node, operand) in list(operands.items()):
            record, summary = ranged.records.get(node.number), ranged.summaries.get(operand)
            if record is None or summary is None:
                del operands[name]
            elif not any(map(_counts, record.hazards)):
                nearest[name] = max(summary.low, -summary.high)
            else:
                del operands[name]
                is_crossed = asked[name].weakness.rule.code in _ONE_SIDED and summary.low < 0.0 < summary.high
                # Where nothing saturates, the operand is moved through zero like any other number.
                distance = nearest.get(name, _unit(summary.format) if is_crossed else 0.0)
                if distance > 0.0:
                    found[name] = math.log(distance)
    return found


def _is_at_zero(asked: Asked) -> bool:
    weakness = asked.weakness
    return weakness.operand >= 0 and weakness.rule.code in _AT_ZERO and weakness.operator.name not in _SHIFTED


def _unit(format: Format) -> float:
    return format.unit_roundoff or FLOAT32.unit_roundoff


def _operand(subject: Subject, asked: Asked) -> tuple[Node, int] | None:
    """The node that a suspect is about, and the operand that decides."""
    weakness = asked.weakness
    numbers = set(subject.nodes.get(asked.operator, ()))
    for node in subject.model.graph.nodes:
        if node.number in numbers and node.op == weakness.operator.name and weakness.operand < len(node.inputs):
            return node, node.inputs[weakness.operand]
    return None


def _cut_at_products(subject: Subject, scanned: RangedGraph) -> Subject:
    """The graph with the results of products as inputs."""
    model = subject.model
    cut: dict[int, tuple[int, ...] | None] = {}
    nodes: list[Node] = []
    values = list(model.values)
    for node in model.graph.nodes:
        if node.op not in _PRODUCTS and NOT_ANALYSED not in node.attributes:
            nodes.append(node)
            continue
        for number in node.outputs:
            summary = scanned.summaries.get(number)
            if number != ABSENT and summary is not None:
                values[number] = replace(values[number], format=summary.format)
                cut[number] = _fixed(summary.shape)
    graph = replace(model.graph, nodes=nodes, inputs=(*model.graph.inputs, *cut))
    ranges = {**subject.likely, **subject.ranges}
    return replace(subject, model=replace(model, graph=graph, values=values), ranges=ranges, shapes={**subject.shapes, **cut})


def _fixed(shape: Sequence[object] | None) -> tuple[int, ...] | None:
    sizes = [size for size in shape or () if isinstance(size, int)]
    return None if shape is None or len(sizes) < len(shape) else tuple(sizes)


def _widened(subject: Subject, reach: float) -> RangedGraph:
    model, assumptions = subject.model, _assumptions(subject, reach)
    return propagate(
        model,
        {n: _smashed(value) for n, value in input_values(model, assumptions).items()},
        subject.target,
        constants=ConstantRanges(model, assumptions),
        abstraction=replace(FIRST_PASS, norms=False),
    )


def _smashed(value: Abstract) -> Abstract:
    return value.smash() if isinstance(value, Range) else value


# -- what follows for a search ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Ledger:
    """Which suspects are proven safe, in every form in which the program has run them so far.

    A program runs a suspect in another form when its numbers, its sizes or its branches change. What is not proven in one form is
    not proven, whatever was found before or is found later.
    """

    board: Board
    pipe: Pipe
    proven: set[str] = field(default_factory=set[str])
    doubted: set[str] = field(default_factory=set[str])
    #: Scans so far.
    scans: int = 0
    #: Where the operands of proven suspects lie, as far as that is known.
    _spans: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    #: Suspects that nothing else than a proof settled.
    _settled: set[str] = field(default_factory=set[str])

    def note(self, found: Mapping[str, Standing], asked: Iterable[str]) -> None:
        """What a scan says about the suspects that it was asked about; of others than `found` it says nothing."""
        self.scans += 1
        for name in asked:
            standing = found.get(name, Standing(False))
            suspect = self.board.suspects.get(name)
            if suspect is not None and name not in self.proven | self.doubted:
                suspect.reach = standing.reach
            if standing.is_safe and name not in self.doubted:
                self._prove(name, standing.span)
            else:
                self.doubt(name)

    def saw(self, name: str, low: float, high: float) -> None:
        """A suspect that is proven safe ran on an operand within these ends: if the proof is wrong about that, it is none."""
        least, most = self._spans.get(name, (-math.inf, math.inf))
        if low < least or high > most:
            self.doubt(name)
            self.pipe.send("note", text=f"{name}: its operand left the range that the static analysis has for it")

    def _prove(self, name: str, span: tuple[float, float] | None) -> None:
        if span is not None:
            least, most = self._spans.get(name, span)
            self._spans[name] = min(least, span[0]), max(most, span[1])
        suspect = self.board.suspects.get(name)
        if suspect is None or name in self.proven:
            return
        self.proven.add(name)
        if not suspect.is_settled:
            suspect.is_settled = True
            self._settled.add(name)
        self.pipe.send("proven", name=name, is_proven=True)

    def doubt(self, name: str) -> None:
        """A suspect is not proven safe, or not any more: it is driven like the others."""
        self.doubted.add(name)
        if name not in self.proven:
            return
        self.proven.discard(name)
        if name in self._settled:
            self._settled.discard(name)
            self.board.suspects[name].is_settled = False
        self.pipe.send("proven", name=name, is_proven=False)
