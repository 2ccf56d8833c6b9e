"""Propagation: ranges of inputs and weights in, a range for every value and the hazards of every node out.

Every value carries two ranges. The *clean* one holds if no hazard fired before; the *actual* one adds the special values
that hazards give, together with the *roots*: the numbers of the nodes where those hazards are. A node's own hazards are
those on clean operands; hazards that appear on actual operands only are consequences of the roots.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np

from tensorproof.errors import NotAnalysed, UnknownShape
from tensorproof.formats import FLOAT32, Format
from tensorproof.graph import ABSENT, NOT_ANALYSED, Graph, Model, Node
from tensorproof.idioms.claims import Claim, Fact
from tensorproof.operators.table import UNDEFINED, Bound, Call, Hazard, Operator, evaluate, find_operator, report_derivatives
from tensorproof.ranges import costs
from tensorproof.ranges.abstraction import PRECISE, Abstraction
from tensorproof.ranges.containers import Abstract, OptionalOf, SequenceOf, truth, with_special
from tensorproof.ranges.differentiable import NO_PATHS, Paths
from tensorproof.ranges.flow import NO_ROOTS, Flow, Roots, roots_of, united
from tensorproof.ranges.grid import Shape, Span
from tensorproof.ranges.guards import Guards
from tensorproof.ranges.preparation import Fold, exact_constant, folds_of, is_moderate, outline_of, outline_with, touches_floats
from tensorproof.ranges.range import CELL_BUDGET, SPECIALS, Range
from tensorproof.ranges.records import NOTHING_KNOWN, Known, RangedGraph, Record, Summary
from tensorproof.ranges.rounding import flushed, has_subnormal
from tensorproof.ranges.silence import is_silent, silence
from tensorproof.targets import Target


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
        paths: Paths = NO_PATHS,
    ) -> None:
        self.model = model
        self.paths = paths
        self.abstraction = abstraction
        self._known = known
        if claims is None:
            costly = abstraction.weights == "exact" or is_moderate(model)
            self._outline = outline_of(model, idioms=abstraction.idioms, costly=costly)
        else:
            self._outline = outline_with(model, claims)
        self.claims = self._outline.claims
        self._fine = self._outline.fine if abstraction.cells < CELL_BUDGET else frozenset[int]()
        self._folds = folds_of(model)
        self.target = target
        self.values: dict[int, Flow] = {}
        self.summaries: dict[int, Summary] = {}
        self.records: dict[int, Record] = {}
        self._constants = constants
        self._recording = True
        self._blamed: Roots | None = None
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

    @property
    def guards(self) -> Guards:
        """The facts behind the conditions of branches and loops."""
        return self._outline.guards

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
        if value.array is not None and not has_subnormal(value.array, value.format):
            # As it is, it keeps what is known of it: norms of weights are made from their elements.
            return flow
        low, high = flushed(value.low, value.high, value.format)
        clean = value.replace(low, high, value.special if value.has_special else None)
        if flow.actual is value:
            return Flow(clean, clean, flow.roots)
        return Flow(clean, clean.with_special(SPECIALS), flow.roots)

    def set(self, number: int, flow: Flow) -> None:
        self.values[number] = flow
        if self._recording:
            summary = flow.summary
            if summary is None:
                summary = flow.summary = Summary.of(flow.clean)
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
        last_use = self._outline.last_uses(graph)
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
        operands = [None if number == ABSENT else self.read(number) for number in node.inputs]
        fold = self._folds.get(node.number)
        if fold is not None and self._holds(fold, operands):
            record.checkable = record.checkable or fold.is_checkable
            self._set_all(node, fold.results)
            return
        entry = find_operator(node.domain, node.op)
        operands = _taken(node, operands)
        roots = roots_of(operands)
        if entry is None:
            record.checkable = True
            where = f"domain {node.domain}" if node.domain else "the ONNX standard at this version"
            reason = node.attributes.get(NOT_ANALYSED, f"operator {node.label} of {where} is not in the table")
            self._give_up(node, record, roots, reason)
            return
        if not record.checkable and entry.is_checkable and not entry.is_control:
            record.checkable = touches_floats(self.model, node, operands)
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
        self._set_all(node, flows)

    def _set_all(self, node: Node, flows: Iterable[Flow]) -> None:
        for number, flow in zip(node.outputs, flows):
            if number != ABSENT:
                self.set(number, flow)

    def _holds(self, fold: Fold, operands: Sequence[Flow | None]) -> bool:
        """Whether an evaluation on these operands would give the results of a fold, and nothing more."""
        if self._blamed is not None or self.target.flushes_results or not (fold.is_exact or self.abstraction.is_plain):
            return False
        return all(map(operator.is_, operands, fold.operands))

    def _apply(self, entry: Operator, node: Node, operands: Sequence[Flow | None], roots: Roots, record: Record) -> list[Flow]:
        clean = [None if flow is None else flow.clean for flow in operands]
        call = self._call(entry, node)
        if node.number in self.claims or self._known.ranges:
            call.bounds = self._bounds(call, node)
        clean_results = _as_list(evaluate(call, clean))
        if call.legal:
            clean_results[0] = with_special(clean_results[0], call.legal)
        if self.abstraction.norms and node.number in self.claims:
            self._set_norm(call, node, clean_results)
        if node.number in self.paths:
            self._ask_for_derivatives(call, node, clean_results[0], clean)
        tainted = any(flow is not None and flow.actual is not flow.clean for flow in operands)
        if not tainted and not call.hazards and self._blamed is None:
            if roots:
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
        record.checkable = record.checkable or any(h.gives or h.rule.phase == "backward" for h in own_hazards)
        flows: list[Flow] = []
        for clean_result, actual_result in zip(clean_results, actual_results, strict=True):
            if gives & UNDEFINED and isinstance(actual_result, Range):
                actual_result = Range.top(actual_result.shape, actual_result.format)
            elif gives & SPECIALS:
                actual_result = with_special(self._beyond_format(actual_result), gives & SPECIALS)
            is_same = not gives and _is_same_constant(clean_result, actual_result)
            flows.append(Flow.of(clean_result) if is_same else Flow(clean_result, actual_result, roots))
        return flows

    def _ask_for_derivatives(self, call: Call, node: Node, result: Abstract, operands: Sequence[Abstract | None]) -> None:
        """Report derivatives that are not finite, unless the node can fail forward and is reported for that.

        What the derivative of a failing node does is a question for its repair.
        """
        impossible, flowing = self._known.impossible, self.paths[node.number]
        if not any(found.gives and (node.number, found.rule.code, found.operand) not in impossible for found in call.hazards):
            report_derivatives(call, result, operands, flowing)

    def repeated(self, node: Node) -> Flow:
        """The first result of a node on the operands of the moment, nothing recorded: where more is known of them."""
        with self.unrecorded():
            self._evaluate(node)
        return self.values[node.outputs[0]]

    def apply_part(self, part: Operator, node: Node, operands: Sequence[Flow | None]) -> list[Flow]:
        """A step of a control-flow operator that is no sub-graph: its hazards are the node's own."""
        roots = roots_of(operands)
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
                    call.legal |= found.legal
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


def _taken(node: Node, operands: Sequence[Flow | None]) -> Sequence[Flow | None]:
    """The operands of a choice: one that is never taken brings no root along."""
    if node.op != "Where" or node.domain or len(operands) != 3 or operands[0] is None:
        return operands
    can_be = truth(operands[0].actual)
    return [
        flow if index == 0 or flow is None or not flow.roots or can_be[index - 1] else Flow.of(flow.clean)
        for index, flow in enumerate(operands)
    ]


def _is_same_constant(clean: Abstract, actual: Abstract) -> bool:
    """Whether a value is known exactly, and no hazard before it changes it: what one could give was dropped by a choice."""
    if not isinstance(clean, Range) or not isinstance(actual, Range) or actual is clean:
        return False
    if not clean.has_known_shape or clean.size > CELL_BUDGET or clean.format is not actual.format:
        return False
    ours, theirs = clean.values(), actual.values()
    if ours is None or theirs is None or not np.array_equal(ours, theirs):
        return False
    # Bounds of larger integers are rounded.
    return clean.format.is_float or bool((np.abs(ours) < 2.0**53).all())


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
    paths: Paths = NO_PATHS,
) -> RangedGraph:
    """Ranges of all values of a model, from the ranges of its inputs.

    `constants` makes the range of a constant by its value number; by default constants are exactly what the file holds.
    `keep_ranges` keeps the ranges of all values in the result, or of those numbered. `claims` are those that an earlier pass
    over the model found. `paths` are the nodes whose derivatives are looked at, too.
    With `strict`, an exception of a block goes up instead of turning into "not analysed": for tests of the blocks.
    """

    run = Propagation(
        model,
        target,
        constants or partial(exact_constant, model),
        keep_ranges=keep_ranges,
        strict=strict,
        progress=progress,
        abstraction=abstraction,
        known=known,
        claims=claims,
        paths=paths,
    )
    outputs = run.run(model.graph, [run.as_operand(Flow.of(inputs[number])) for number in model.graph.inputs])
    last = dict(zip(model.graph.outputs, outputs))
    return RangedGraph(model, target, run.summaries, run.records, last, run.kept, run.claims, paths)
