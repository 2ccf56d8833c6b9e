"""Propagation: ranges of inputs and weights in, a range for every value and the hazards of every node out.

Every value carries two ranges. The *clean* one holds if no hazard fired before; the *actual* one adds the special values
that hazards give, together with the *roots*: the numbers of the nodes where those hazards are. A node's own hazards are
those on clean operands; hazards that appear on actual operands only are consequences of the roots.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from tensorproof.errors import NotAnalysed, UnknownShape
from tensorproof.formats import FLOAT32, Format
from tensorproof.graph import ABSENT, Graph, Model, Node
from tensorproof.idioms.claims import Claim, Fact, claims_of
from tensorproof.operators.table import UNDEFINED, Bound, Call, Hazard, Operator, evaluate, find_operator
from tensorproof.ranges import costs
from tensorproof.ranges.abstraction import PRECISE, Abstraction
from tensorproof.ranges.containers import Abstract, OptionalOf, SequenceOf, join, with_special
from tensorproof.ranges.grid import Shape, Span
from tensorproof.ranges.guards import Guards
from tensorproof.ranges.range import CELL_BUDGET, SPECIALS, Range
from tensorproof.ranges.rounding import flushed
from tensorproof.ranges.silence import is_silent, silence
from tensorproof.targets import Target


@dataclass(frozen=True, slots=True)
class Known:
    """What earlier passes proved: bounds of values (where no hazard fires), and hazards that cannot fire.

    A hazard is named by the number of its node, the code of its rule and its operand. The results of a node that may
    overflow must have no bound here: it would hide the overflow.
    """

    ranges: Mapping[int, Bound] = field(default_factory=dict[int, Bound])
    impossible: frozenset[tuple[int, str, int]] = frozenset()


NOTHING_KNOWN = Known()

Roots = frozenset[int]
NO_ROOTS: Roots = frozenset()

#: First passes over models of more nodes leave out what costs much more than the nodes themselves; refinements do not.
_LARGE_MODEL = 20_000


@dataclass(slots=True, eq=False)
class Flow:
    """What flows along an edge. `actual` is `clean` itself wherever no root lies before. Never changed once it is made."""

    clean: Abstract
    actual: Abstract
    roots: Roots = NO_ROOTS

    @classmethod
    def of(cls, value: Abstract) -> Flow:
        return cls(value, value)

    def join(self, other: Flow) -> Flow:
        """What flows along an edge that either of two paths reaches."""
        clean = join(self.clean, other.clean)
        both_clean = self.actual is self.clean and other.actual is other.clean
        actual = clean if both_clean else join(self.actual, other.actual)
        return Flow(clean, actual, self.roots | other.roots)

    def unrelated(self) -> Flow:
        """The same bounds for a tensor of which nothing else is known to have the same elements."""
        clean = _unrelated(self.clean)
        return Flow(clean, clean if self.actual is self.clean else _unrelated(self.actual), self.roots)

    def behind(self, roots: Roots) -> Flow:
        """The same values, reached through these roots as well."""
        return self if roots <= self.roots else Flow(self.clean, self.actual, self.roots | roots)


def _unrelated(value: Abstract) -> Abstract:
    if not isinstance(value, Range):
        return value
    copy = value.bare()
    copy.norm = value.norm
    return copy


def _no_hazards() -> list[Hazard]:
    return []


@dataclass(slots=True)
class Record:
    """What the analysis found out about one node, over all times that it was evaluated (loop bodies: many)."""

    node: Node
    checkable: bool = False
    hazards: list[Hazard] = field(default_factory=_no_hazards)
    consequences: list[Hazard] = field(default_factory=_no_hazards)
    roots: Roots = NO_ROOTS
    not_analysed: str | None = None

    def add(self, hazards: Sequence[Hazard], consequences: Sequence[Hazard], roots: Roots) -> None:
        """Add what one more evaluation found. Hazards of the same rule and operand are one, whose bounds are joined."""
        self.roots = united(self.roots, roots)
        for hazard in hazards:
            _merge(self.hazards, hazard)
        for hazard in consequences:
            _merge(self.consequences, hazard)
        if self.hazards and self.consequences:
            own = {hazard.rule.code for hazard in self.hazards}
            self.consequences = [hazard for hazard in self.consequences if hazard.rule.code not in own]


def _merge(found: list[Hazard], hazard: Hazard) -> None:
    for index, other in enumerate(found):
        if (other.rule, other.operand, other.operator) == (hazard.rule, hazard.operand, hazard.operator):
            low, high = float(np.fmin(other.low, hazard.low)), float(np.fmax(other.high, hazard.high))
            found[index] = replace(other, low=low, high=high, gives=other.gives | hazard.gives)
            return
    found.append(hazard)


class Summary:
    """The hull of a value over all its cells, kept for reports after the range itself is freed.

    The ends of a constant are looked for when somebody asks for them.
    """

    __slots__ = ("_constant", "_ends", "format", "shape", "special")

    def __init__(self, format: Format, shape: Shape | None, low: float, high: float, special: int) -> None:
        self.format = format
        self.shape = shape
        self.special = special
        self._ends: tuple[float, float] | None = (low, high)
        self._constant: Range | None = None

    @classmethod
    def of(cls, value: Abstract) -> Summary | None:
        if isinstance(value, Range):
            constant = value.array is not None
            summary = cls(value.format, value.shape, *((0.0, 0.0) if constant else value.hull()), value.any_special)
            if constant:
                summary._ends, summary._constant = None, value
            return summary
        inner = value.element if isinstance(value, SequenceOf) else value.value
        return None if inner is None else cls.of(inner)

    @property
    def ends(self) -> tuple[float, float]:
        if self._ends is None:
            assert self._constant is not None
            self._ends = self._constant.hull()
        return self._ends

    @property
    def low(self) -> float:
        return self.ends[0]

    @property
    def high(self) -> float:
        return self.ends[1]

    def join(self, other: Summary) -> Summary:
        low, high = min(self.low, other.low), max(self.high, other.high)
        shape = self.shape if self.shape == other.shape else None
        return Summary(self.format, shape, low, high, self.special | other.special)


@dataclass(slots=True)
class RangedGraph:
    """The result of the propagation: a summary per value, a record per node that was reached, the ranges of the outputs."""

    model: Model
    target: Target
    summaries: dict[int, Summary]
    records: dict[int, Record]
    outputs: dict[int, Flow]
    ranges: dict[int, Flow]
    claims: Mapping[int, Sequence[Claim]]


class Propagation:
    """One run over a model. Control-flow operators get it to run their sub-graphs."""

    def __init__(
        self,
        model: Model,
        target: Target,
        constants: Callable[[int], Flow],
        *,
        keep_ranges: bool | Collection[int] = False,
        strict: bool = False,
        progress: Callable[[int], None] | None = None,
        abstraction: Abstraction = PRECISE,
        known: Known = NOTHING_KNOWN,
        claims: Mapping[int, Sequence[Claim]] | None = None,
    ) -> None:
        self.model = model
        self.abstraction = abstraction
        self._known = known
        if claims is None:
            costly = abstraction.weights == "exact" or len(model.graph.nodes) <= _LARGE_MODEL
            claims = claims_of(model, costly=costly) if abstraction.idioms else {}
        self.claims = claims
        self._fine = fine_values(model.graph, claims) if abstraction.cells < CELL_BUDGET else frozenset[int]()
        self.target = target
        self.values: dict[int, Flow] = {}
        self.summaries: dict[int, Summary] = {}
        self.records: dict[int, Record] = {}
        self._constants = constants
        self._recording = True
        self._blamed: Roots | None = None
        self._last_uses: dict[int, dict[int, list[int]]] = {}
        self._costs = costs.current()
        self._keep = keep_ranges
        self._strict = strict
        self.kept: dict[int, Flow] = {}
        self._progress = progress
        #: Asked after each node of the model's own graph whether to stop there: for passes that only look for proofs.
        self.until: Callable[[Node], bool] | None = None
        #: Evaluations of nodes so far; the budgets of loops are counted in them.
        self.evaluations = 0
        #: The number of evaluations up to which loops may go on one iteration at a time; None outside of loops.
        self.allowance: int | None = None
        self._guards: Guards | None = None

    @property
    def guards(self) -> Guards:
        """The facts behind the conditions of branches and loops, read off the graph on first use."""
        if self._guards is None:
            self._guards = Guards(self.model)
        return self._guards

    @contextmanager
    def unrecorded(self) -> Generator[None]:
        """Evaluate without recording hazards: for passes of a fixpoint iteration whose ranges are not final."""
        before, self._recording = self._recording, False
        try:
            yield
        finally:
            self._recording = before

    @contextmanager
    def reached_through(self, roots: Roots) -> Generator[None]:
        """Evaluate code that runs only if a hazard fired at one of these roots: its hazards are their consequences."""
        before, self._blamed = self._blamed, (self._blamed or NO_ROOTS) | roots
        try:
            yield
        finally:
            self._blamed = before

    def read(self, number: int) -> Flow:
        """The value with that number, constants made on first use."""
        flow = self.values.get(number)
        if flow is None:
            flow = self._alone(self.as_operand(self._constants(number)))
            self.set(number, flow)
        return flow

    def _alone(self, flow: Flow) -> Flow:
        """A value at the border of a graph or of a loop: one range may stand for several tensors there."""
        return flow.unrelated() if self.abstraction.values == "affine" else flow

    def as_operand(self, flow: Flow) -> Flow:
        """An input or constant as operators see it: subnormal numbers may be zero where the target flushes operands."""
        value = flow.clean
        if not self.target.flushes_operands or not isinstance(value, Range) or not value.format.is_float:
            return flow
        low, high = flushed(value.low, value.high, value.format)
        clean = value.replace(low, high, value.special if value.has_special else None)
        if flow.actual is value:
            return Flow(clean, clean, flow.roots)
        return Flow(clean, clean.with_special(SPECIALS), flow.roots)

    def set(self, number: int, flow: Flow) -> None:
        self.values[number] = flow
        if self._recording:
            summary = Summary.of(flow.clean)
            if summary is not None:
                earlier = self.summaries.get(number)
                self.summaries[number] = summary if earlier is None else earlier.join(summary)
            if self._keep is True or (self._keep and number in self._keep):
                earlier_flow = self.kept.get(number)
                self.kept[number] = flow if earlier_flow is None else earlier_flow.join(flow)

    def run(self, graph: Graph, inputs: Sequence[Flow]) -> list[Flow]:
        """Evaluate a (sub-)graph on its inputs."""
        if not is_silent():
            with silence():
                return self.run(graph, inputs)
        if self._costs is not None and graph is self.model.graph:
            with self._costs.counted_pass(self.abstraction) as cost:
                flows = self._run(graph, inputs)
                cost.nodes = self.evaluations
            return flows
        return self._run(graph, inputs)

    def _run(self, graph: Graph, inputs: Sequence[Flow]) -> list[Flow]:
        if len(inputs) != len(graph.inputs):
            raise NotAnalysed(f"sub-graph {graph.name!r} takes {len(graph.inputs)} inputs, not {len(inputs)}")
        for number, flow in zip(graph.inputs, inputs):
            self.set(number, self._alone(flow))
        last_use = self._last_uses.get(id(graph))
        if last_use is None:
            last_use = self._last_uses[id(graph)] = _last_uses(graph, self.claims, self._guards_of(graph))
        evaluate_node = self._evaluate if self._costs is None else partial(self._evaluate_counted, self._costs)
        for position, node in enumerate(graph.nodes):
            evaluate_node(node)
            self.evaluations += 1
            if self._progress is not None:
                self._progress(self.evaluations)
            for number in last_use.get(position, ()):
                self.values.pop(number, None)
            if self.until is not None and graph is self.model.graph and self.until(node):
                return []
        return [self._alone(self.read(number)) for number in graph.outputs]

    def _guards_of(self, graph: Graph) -> Guards | None:
        """The guards, if the graph may have any: none without sub-graphs."""
        is_body = graph is not self.model.graph
        return self.guards if is_body or any(True for node in graph.nodes for _ in node.subgraphs()) else None

    def _evaluate_counted(self, counted: costs.Costs, node: Node) -> None:
        before = counted.inside
        counted.inside = 0.0
        started = time.perf_counter()
        self._evaluate(node)
        taken = time.perf_counter() - started
        flows = [self.values.get(number) for number in node.outputs]
        cells = sum(flow.clean.low.size for flow in flows if flow is not None and isinstance(flow.clean, Range))
        counted.add(node.label, taken - counted.inside, cells)
        counted.inside = before + taken

    def _evaluate(self, node: Node) -> None:
        record = self._record(node)
        entry = find_operator(node.domain, node.op)
        operands = [None if number == ABSENT else self.read(number) for number in node.inputs]
        roots = _roots_of(operands)
        if entry is None:
            record.checkable = True
            where = f"domain {node.domain}" if node.domain else "the ONNX standard at this version"
            self._give_up(node, record, roots, f"operator {node.label} of {where} is not in the table")
            return
        if not record.checkable and entry.is_checkable and not entry.is_control:
            record.checkable = self._is_floating(node, operands)
        try:
            if entry.is_control:
                results = entry.block(self, node, [None if flow is None else self._alone(flow) for flow in operands])
                flows = [self._alone(flow) for flow in results]
            else:
                flows = self._apply(entry, node, operands, roots, record)
        except (NotAnalysed, UnknownShape) as reason:
            self._give_up(node, record, roots, str(reason))
            return
        except Exception as error:
            # A node that is not what its operator's schema says, or a fault of the block: visible, never "safe".
            if self._strict:
                raise
            text = (str(error).strip().splitlines() or [""])[0][:160]
            self._give_up(node, record, roots, f"the block of {node.label} failed ({type(error).__name__}: {text})")
            return
        if entry.top is not None:
            record.not_analysed = entry.top
        for number, flow in zip(node.outputs, flows):
            if number != ABSENT:
                self.set(number, flow)

    def _apply(self, entry: Operator, node: Node, operands: Sequence[Flow | None], roots: Roots, record: Record) -> list[Flow]:
        clean = [None if flow is None else flow.clean for flow in operands]
        call = self._call(entry, node)
        if self.claims or self._known.ranges:
            call.bounds = self._bounds(call, node)
        clean_results = _as_list(evaluate(call, clean))
        if self.claims and self.abstraction.norms:
            self._set_norm(call, node, clean_results)
        tainted = any(flow is not None and flow.actual is not flow.clean for flow in operands)
        if not tainted and not call.hazards and self._blamed is None:
            record.roots = united(record.roots, roots)
            return [Flow(result, result, roots) for result in clean_results]
        own_hazards = call.hazards
        if self._known.impossible:
            own_hazards = [h for h in own_hazards if (node.number, h.rule.code, h.operand) not in self._known.impossible]
        actual_results = clean_results
        consequences: list[Hazard] = []
        gives = 0
        if tainted:
            actual = [None if flow is None else flow.actual for flow in operands]
            other = self._call(entry, node)
            actual_results = _as_list(evaluate(other, actual))
            own = {hazard.rule.code for hazard in own_hazards}
            consequences = [hazard for hazard in other.hazards if hazard.rule.code not in own]
            # A hazard of the same rule is no second finding, but it may give more than the one on clean operands.
            for hazard in other.hazards:
                gives |= hazard.gives
        if self._blamed is not None:
            own_hazards, consequences = [], [*call.hazards, *consequences]
            roots = united(roots, self._blamed)
        record.add(own_hazards, consequences, roots)
        for hazard in (*own_hazards, *consequences):
            gives |= hazard.gives
        if any(hazard.gives for hazard in own_hazards):
            roots = united(roots, frozenset((node.number,)))
            record.checkable = True
        flows: list[Flow] = []
        for clean_result, actual_result in zip(clean_results, actual_results, strict=True):
            if gives & UNDEFINED and isinstance(actual_result, Range):
                actual_result = Range.top(actual_result.shape, actual_result.format)
            elif gives & SPECIALS:
                actual_result = with_special(self._beyond_format(actual_result), gives & SPECIALS)
            flows.append(Flow(clean_result, actual_result, roots))
        return flows

    def repeated(self, node: Node) -> Flow:
        """The first result of a node on the operands of the moment, nothing recorded: where more is known of them."""
        with self.unrecorded():
            self._evaluate(node)
        return self.values[node.outputs[0]]

    def apply_part(self, part: Operator, node: Node, operands: Sequence[Flow | None]) -> list[Flow]:
        """A step of a control-flow operator that is no sub-graph: its hazards are the node's own."""
        roots = _roots_of(operands)
        record = self._record(node)
        record.checkable = True
        return self._apply(part, node, operands, roots, record)

    def _beyond_format(self, value: Abstract) -> Abstract:
        """What a failing node may really give on this target: a chain kept in float32 runs on where 16 bits overflow."""
        if not self.target.keeps_chains_wide or not isinstance(value, Range):
            return value
        if not value.format.is_float or value.format.bits >= 32:
            return value
        return Range.uniform(value.shape, value.format, FLOAT32.low, FLOAT32.high, value.any_special)

    def _record(self, node: Node) -> Record:
        """The record of a node; one that nobody reads in passes that are not final."""
        if not self._recording:
            return Record(node)
        record = self.records.get(node.number)
        if record is None:
            record = self.records[node.number] = Record(node)
        return record

    def _call(self, entry: Operator, node: Node) -> Call:
        values, outputs = self.model.values, node.outputs
        fine = self._fine
        return Call(
            entry,
            node.attributes,
            version=node.version,
            target=self.target,
            outputs=len(outputs),
            output_formats=[None if number == ABSENT else values[number].format for number in outputs],
            abstraction=self.abstraction,
            cells=CELL_BUDGET if fine and not fine.isdisjoint(outputs) else None,
        )

    def _bounds(self, call: Call, node: Node) -> Sequence[Bound | None]:
        """What is known of a node's results before its block is asked: by idioms, and from earlier passes."""
        bounds: list[Bound | None] = []
        for claim in self.claims.get(node.number, ()):
            operands = [self.read(number).clean for number in claim.reads]
            if all(isinstance(x, Range) for x in operands):
                found = claim.bound(call, *operands)
                if isinstance(found, Fact):
                    call.impossible |= found.impossible
                    call.never |= found.never
                    found = found.bound
                if found is not None:
                    bounds = [_narrower(bounds[0], found) if bounds else found]
        known = self._known.ranges
        if known and any(number in known for number in node.outputs):
            bounds += [None] * (len(node.outputs) - len(bounds))
            for index, number in enumerate(node.outputs):
                if number in known:
                    bounds[index] = _narrower(bounds[index], known[number])
        return bounds

    def _set_norm(self, call: Call, node: Node, results: list[Abstract]) -> None:
        """Give a node's first result the bound on its Euclidean norm that an idiom claims."""
        for claim in self.claims.get(node.number, ()):
            result = results[0]
            if claim.norm is None or not isinstance(result, Range) or result.has_special:
                continue
            operands = [self.read(number).clean for number in claim.reads]
            norm = claim.norm(call, result, *operands) if all(isinstance(x, Range) for x in operands) else None
            if norm is not None and (result.norm is None or norm.bound < result.norm.bound):
                results[0] = bounded = result.bare()
                bounded.norm, bounded.form = norm, result.form

    def _is_floating(self, node: Node, operands: Sequence[Flow | None]) -> bool:
        """Whether a node reads or, by what the file declares, makes a floating tensor."""
        for flow in operands:
            if flow is not None and isinstance(flow.clean, Range) and flow.clean.format.is_float:
                return True
        declared = [self.model.values[number].format for number in node.outputs if number != ABSENT]
        return any(format is not None and format.is_float for format in declared)

    def _give_up(self, node: Node, record: Record, roots: Roots, reason: str) -> None:
        """Nothing is known about the outputs; the report shows why, and what follows is proven only if this node is finite."""
        record.not_analysed = reason
        record.roots |= roots
        for sub in node.subgraphs():
            for inner in sub.walk():
                # Not all times that the body runs were seen: nothing inside it is proven.
                inside = self._record(inner)
                entry = find_operator(inner.domain, inner.op)
                inside.checkable = inside.checkable or entry is None or (entry.is_checkable and not entry.is_control)
                inside.not_analysed = inside.not_analysed or f"{node.label} around it: {reason}"
        for number in node.outputs:
            if number == ABSENT:
                continue
            value = self.model.values[number]
            anything = unknown_value(value.format or self._likely_format(node), value.shape, value.container)
            finite = anything.without_special() if isinstance(anything, Range) else anything
            self.set(number, Flow(finite, anything, roots | {node.number}))

    def _likely_format(self, node: Node) -> Format:
        """The format of an output that the file does not declare: its first floating operand's."""
        for number in node.inputs:
            flow = self.values.get(number)
            if flow is not None and isinstance(flow.clean, Range) and flow.clean.format.is_float:
                return flow.clean.format
        return FLOAT32


def unknown_value(format: Format | None, declared: Sequence[int | str | None] | None, container: str = "tensor") -> Abstract:
    """Any value of a format; sizes that the file does not state are unknown."""
    shape: Shape | None = None
    if declared is not None:
        shape = tuple(size if isinstance(size, int) else Span(0, None) for size in declared)
    value = Range.top(shape, format or FLOAT32)
    if container == "sequence":
        return SequenceOf(value, Span(0, None))
    if container == "optional":
        return OptionalOf(value, True)
    return value


def united(a: Roots, b: Roots) -> Roots:
    """The union of two sets, as one of them where it holds the other: long chains then share one set."""
    if a is b or not b:
        return a
    if not a or a < b:
        return b
    return a if b <= a else a | b


def _roots_of(operands: Sequence[Flow | None]) -> Roots:
    roots = NO_ROOTS
    for flow in operands:
        if flow is not None and flow.roots:
            roots = united(roots, flow.roots)
    return roots


def _as_list(result: object) -> list[Abstract]:
    return list(result) if isinstance(result, tuple) else [result]  # type: ignore[list-item]


def _narrower(a: Bound | None, b: Bound) -> Bound:
    """Both bounds at once, where they are numbers; else the one that says more about single elements."""
    if a is None:
        return b
    if isinstance(a, tuple) and isinstance(b, tuple):
        return max(a[0], b[0]), min(a[1], b[1])
    if isinstance(a, Range) and isinstance(b, Range):
        return a.meet(b) if a.shape == b.shape else a
    ends, cells = (a, b) if isinstance(a, tuple) else (b, a)
    assert isinstance(ends, tuple) and isinstance(cells, Range)
    return cells.replace(np.maximum(cells.low, ends[0]), np.minimum(cells.high, ends[1]), None)


def fine_values(graph: Graph, claims: Mapping[int, Sequence[Claim]]) -> frozenset[int]:
    """The values that decide shapes, indices, iterations and masks, and all that they are made from."""
    fine = {value for found in claims.values() for claim in found for value in claim.fine}
    _label_fine(graph, fine)
    return frozenset(fine)


def _label_fine(graph: Graph, fine: set[int]) -> None:
    for node in reversed(graph.nodes):
        entry = find_operator(node.domain, node.op)
        if entry is not None:
            fine.update(node.inputs[i] for i in entry.steered_by if i < len(node.inputs))
        for sub in node.subgraphs():
            _label_fine(sub, fine)
        if not fine.isdisjoint(node.outputs):
            fine.update(node.inputs)
    fine.discard(ABSENT)


def _last_uses(graph: Graph, claims: Mapping[int, Sequence[Claim]], guards: Guards | None) -> dict[int, list[int]]:
    """For each position, the values that no later node of the graph reads (sub-graphs of later nodes included)."""
    last: dict[int, int] = {}

    def reads(node: Node, position: int) -> None:
        for number in node.inputs:
            last[number] = position
        for claim in claims.get(node.number, ()):
            for number in claim.reads:
                last[number] = position
        if guards is not None:
            last.update(dict.fromkeys(guards.read_by(node), position))

    for position, node in enumerate(graph.nodes):
        reads(node, position)
        for sub in _subgraphs(node):
            for inner in sub.nodes:
                reads(inner, position)
            for number in sub.outputs:
                last[number] = position
        for number in node.outputs:
            last.setdefault(number, position)
    keep = {*graph.outputs, *graph.inputs, *(() if guards is None else guards.kept_by(graph))}
    produced = {number for node in graph.nodes for number in node.outputs}
    result: dict[int, list[int]] = {}
    for number, position in last.items():
        # Only values made here are freed: those of an outer scope may be read again by the next iteration of a loop.
        if number not in keep and number in produced:
            result.setdefault(position, []).append(number)
    return result


def _subgraphs(node: Node) -> Generator[Graph]:
    """The sub-graphs of a node and, in turn, of their nodes."""
    for graph in node.subgraphs():
        yield graph
        for inner in graph.nodes:
            yield from _subgraphs(inner)


def propagate(
    model: Model,
    inputs: Mapping[int, Abstract],
    target: Target,
    *,
    constants: Callable[[int], Flow] | None = None,
    keep_ranges: bool | Collection[int] = False,
    strict: bool = False,
    progress: Callable[[int], None] | None = None,
    abstraction: Abstraction = PRECISE,
    known: Known = NOTHING_KNOWN,
    claims: Mapping[int, Sequence[Claim]] | None = None,
) -> RangedGraph:
    """Ranges of all values of a model, from the ranges of its inputs.

    `constants` makes the range of a constant by its value number; by default constants are exactly what the file holds.
    `keep_ranges` keeps the ranges of all values in the result, or of those numbered. `claims` are those that an earlier pass
    over the model found.
    With `strict`, an exception of a block goes up instead of turning into "not analysed": for tests of the blocks.
    """

    def fixed(number: int) -> Flow:
        return Flow.of(Range.constant(model.constants[number], model.values[number].format))

    run = Propagation(
        model,
        target,
        constants or fixed,
        keep_ranges=keep_ranges,
        strict=strict,
        progress=progress,
        abstraction=abstraction,
        known=known,
        claims=claims,
    )
    outputs = run.run(model.graph, [run.as_operand(Flow.of(inputs[number])) for number in model.graph.inputs])
    last = dict(zip(model.graph.outputs, outputs))
    return RangedGraph(model, target, run.summaries, run.records, last, run.kept, run.claims)
