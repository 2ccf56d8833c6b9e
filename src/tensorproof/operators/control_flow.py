"""Control flow: branches, loops, scans and maps over sequences. Their bodies are run by the propagation itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.execute.meaning import NotExecutable
from tensorproof.formats import BOOL, FLOAT32, INT64
from tensorproof.frontends.calls import Handle
from tensorproof.graph import ABSENT, Graph, Model, Node
from tensorproof.operators.table import operator
from tensorproof.ranges.containers import Abstract, OptionalOf, SequenceOf, join, truth
from tensorproof.ranges.flow import NO_ROOTS, Flow, Roots
from tensorproof.ranges.grid import Cuts, Shape, Size, Span, largest, smallest, union
from tensorproof.ranges.iteration import FEW, MANY, Iteration, Outcome, Trips
from tensorproof.ranges.narrowing import assuming, narrowed_states
from tensorproof.ranges.propagate import Propagation
from tensorproof.ranges.range import Range
from tensorproof.ranges.slices import (
    axis_of,
    element_at,
    elements_between,
    spread,
    stacked,
    steady_since,
    steady_until,
)
from tensorproof.ranges.trip_counts import most_trips

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall
    from tensorproof.frontends.calls import OperatorCall
    from tensorproof.frontends.jax_call import JaxCall

#: Counts beyond this are no counts: exporters write the largest integer for "until the condition says stop".
ENDLESS = 2.0**53

#: A loop that runs longer than this on torch is given up.
MOST_ITERATIONS = 1 << 16

Operands = Sequence[Flow | None]


@operator("If", control=True, coarse="the operators of a branch are bounded one by one", steered_by=(0,))
def if_(run: Propagation, node: Node, operands: Operands) -> list[Flow]:
    """The branch that the condition selects; the join of both where it may be either."""
    condition = _given(operands, 0)
    clean, actual = truth(condition.clean), truth(condition.actual)
    results: list[Flow] | None = None
    behind: list[list[Flow]] = []
    for index, name in enumerate(("then_branch", "else_branch")):
        if not clean[index] and not actual[index]:
            continue
        # A branch that clean values never take is reached only after a hazard fired before the condition.
        blame = nullcontext() if clean[index] else run.reached_through(condition.roots)
        branch = _graph(node, name)
        with blame, assuming(run, node.inputs[0], index == 0, branch):
            flows = run.run(branch, ())
        if not clean[index]:
            behind.append(flows)
        elif results is None:
            results = flows
        else:
            results = [a.join(b) for a, b in zip(results, flows, strict=True)]
    assert results is not None
    for flows in behind:
        results = [Flow(a.clean, join(a.actual, b.actual), a.roots | b.roots) for a, b in zip(results, flows, strict=True)]
    return [flow.behind(condition.roots) for flow in results]


@if_.meaning
def _(run: Run, condition: Tensor) -> tuple[Any, ...]:
    return tuple(run.body(run.attribute("then_branch" if _holds(run, condition) else "else_branch"), ()))


def _holds(run: Run, condition: Tensor) -> bool:
    return bool(run.whole(condition).any())


@operator("Loop", control=True, coarse="iterations are bounded one by one, long loops by a fixpoint", steered_by=(0, 1))
def loop(run: Propagation, node: Node, operands: Operands) -> list[Flow]:
    """Iterations one by one while they are few or exact, else a fixpoint; joined over all possible exits."""
    body = _graph(node, "body")
    count, condition = (*operands[:2], None, None)[:2]
    initial = [flow if flow is not None else Flow.of(OptionalOf(None, True)) for flow in operands[2:]]
    states = len(initial)
    numbers = _one_element(run.model, body, 0)
    going = Flow.of(Range.constant(np.ones(_one_element(run.model, body, 1), np.bool_)))

    def step(first: int, last: float, state: Sequence[Flow], current: Flow | None) -> Outcome:
        # The condition holds whenever the body runs, unless there is none and the body's own is ignored.
        holds = going if condition is not None or current is None else current
        flows = run.run(body, [Flow.of(_iteration_number(numbers, first, last)), holds, *state])
        after = flows[1 : 1 + states]
        if condition is None:
            return Outcome(flows[0], after, flows[1 + states :], list(after), list(after))
        ends = [narrowed_states(run, body.outputs[0], on, body.outputs[1 : 1 + states], after) for on in (True, False)]
        return Outcome(flows[0], after, flows[1 + states :], *ends)

    counts_iterations = _reads(body, body.inputs[0])
    trips = [Trips(math.inf, math.inf)] * 2 if count is None else [_trips(count.clean), _trips(count.actual)]
    starts = [initial, initial]
    if condition is not None:
        trips = [Trips(t.low, min(t.high, most)) for t, most in zip(trips, most_trips(run, body, initial))]
        starts = [narrowed_states(run, node.inputs[1], on, node.inputs[2:], initial) for on in (True, False)]
    iteration = Iteration(
        run,
        body,
        step,
        (2, 1),
        Outcome(condition or going, initial, [], *starts),
        *trips,
        steady=lambda k: k + 1 if counts_iterations else math.inf,
        roots=NO_ROOTS if count is None else count.roots,
        ignores_condition=condition is None,
    )
    outputs = body.outputs[1 + states :]
    return [
        *iteration.state,
        *(
            iteration.collected(index, 0, backwards=False, absent=lambda n=number: _nothing(run, n, 0))
            for index, number in enumerate(outputs)
        ),
    ]


@loop.meaning
def _(run: Run, count: Tensor | None = None, condition: Tensor | None = None, *initial: Any) -> tuple[Any, ...]:
    body: Graph = run.attribute("body")
    number, current = (run.torch.zeros(_one_element(run, body, index), dtype=run.torch.int64) for index in (0, 1))
    current = run.torch.ones_like(current, dtype=run.torch.bool) if condition is None else condition.reshape(current.shape)
    limit = math.inf if count is None else int(run.whole(count))
    states, rows = list(initial), list[list[Any]]()
    # Without a condition the one that the body computes is ignored (ONNX Loop-11).
    while len(rows) < limit and (condition is None or _holds(run, current)):
        if len(rows) == MOST_ITERATIONS:
            raise NotExecutable(f"a loop of more than {MOST_ITERATIONS} iterations")
        current, *results = run.body(body, [number + len(rows), current, *states])
        states = results[: len(initial)]
        rows.append(results[len(initial) :])
    columns = body.outputs[1 + len(initial) :]
    return *states, *(_stack(run, [row[i] for row in rows], output, 0) for i, output in enumerate(columns))


def _stack(run: Run, parts: Sequence[Tensor], output: int, axis: int) -> Tensor:
    """The scan output of a body as one tensor; of no iteration: no element, sizes that the body does not declare are 0."""
    if parts:
        return run.torch.stack(list(parts), axis)
    value = run.values[output]
    sizes = [size if isinstance(size, int) else 0 for size in value.shape or ()]
    sizes.insert(axis_of(axis, len(sizes) + 1), 0)
    return run.torch.zeros(sizes, dtype=run.dtype(value.format or FLOAT32))


def _iteration_number(shape: tuple[int, ...], first: int, last: float) -> Range:
    if first == last:
        return Range.constant(np.full(shape, first, np.int64))
    return Range.uniform(shape, INT64, float(first), min(last, INT64.high))


def _one_element(model: Model | Run, body: Graph, index: int) -> tuple[int, ...]:
    """The iteration number and the condition are scalars, or of shape [1] where the body declares that."""
    if index >= len(body.inputs):
        raise NotAnalysed(f"the body {body.name!r} takes no iteration number and condition")
    declared = model.values[body.inputs[index]].shape
    return (1,) if declared is not None and len(declared) == 1 else ()


def _trips(count: Abstract) -> Trips:
    if not isinstance(count, Range):
        raise NotAnalysed("the trip count is not a tensor")
    low, high = count.hull()
    low, high = max(low, 0.0), max(high, 0.0)
    return Trips(math.inf if low >= ENDLESS else low, math.inf if high >= ENDLESS else high)


def _reads(graph: Graph, number: int) -> bool:
    """Whether a graph, or a graph inside it, uses a value."""
    return number in graph.outputs or any(
        number in node.inputs or any(_reads(sub, number) for sub in node.subgraphs()) for node in graph.nodes
    )


def _nothing(run: Propagation, number: int, axis: int) -> Range:
    """A scan output of no iteration: no element, and of its other sizes what the body declares."""
    value = run.model.values[number]
    shape: Shape | None = None
    if value.shape is not None:
        sizes = tuple(size if isinstance(size, int) else Span(0, None) for size in value.shape)
        axis = axis_of(axis, len(sizes) + 1)
        shape = (*sizes[:axis], 0, *sizes[axis:])
    return Range.uniform(shape, value.format or FLOAT32, np.inf, -np.inf)


@operator("Scan", control=True, coarse="iterations are bounded one by one, long scans by a fixpoint")
def scan(run: Propagation, node: Node, operands: Operands) -> list[Flow]:
    """Like Loop, once per slice of the scanned inputs; a run of equal slices ends where the state repeats."""
    body = _graph(node, "body")
    inputs = int(node.attributes["num_scan_inputs"])
    if node.version < 9:
        return _scan_batches(run, node, body, inputs, operands)
    states = [_given(operands, i) for i in range(len(operands) - inputs)]
    scanned = [_given(operands, i) for i in range(len(operands) - inputs, len(operands))]
    outputs = len(body.outputs) - len(states)
    axes, sides = _listed(node, "scan_input_axes", inputs), _listed(node, "scan_input_directions", inputs)
    columns = [_Column(flow, axis, bool(side)) for flow, axis, side in zip(scanned, axes, sides)]
    iteration = _scan(run, body, states, columns, None)
    results = list(iteration.state)
    axes, sides = _listed(node, "scan_output_axes", outputs), _listed(node, "scan_output_directions", outputs)
    for index, (axis, side) in enumerate(zip(axes, sides)):
        number = body.outputs[len(states) + index]
        results.append(iteration.collected(index, axis, backwards=bool(side), absent=lambda n=number, a=axis: _nothing(run, n, a)))
    return results


@scan.meaning
def _(run: Run, *operands: Any) -> tuple[Any, ...]:
    body: Graph = run.attribute("body")
    inputs = int(run.attribute("num_scan_inputs"))
    if run.version < 9:
        return _scan_samples(run, body, inputs, operands)
    states, scanned = operands[: len(operands) - inputs], operands[len(operands) - inputs :]
    axes, sides = _listed(run, "scan_input_axes", inputs), _listed(run, "scan_input_directions", inputs)
    states, rows = _scanned(run, body, states, [_slices(*column) for column in zip(scanned, axes, sides)])
    outputs = body.outputs[len(states) :]
    axes, sides = _listed(run, "scan_output_axes", len(outputs)), _listed(run, "scan_output_directions", len(outputs))
    columns = ([row[i] for row in rows] for i in range(len(outputs)))
    ordered = (column[::-1] if side else column for column, side in zip(columns, sides))
    return *states, *(_stack(run, column, output, axis) for column, output, axis in zip(ordered, outputs, axes))


def _slices(x: Tensor, axis: int, side: int) -> tuple[Tensor, ...]:
    """The slices of a scanned input in the order of the iterations: from the front, or (side 1) from the back."""
    return x.unbind(axis)[::-1] if side else x.unbind(axis)


def _scanned(
    run: Run, body: Graph, states: Sequence[Any], columns: Sequence[Sequence[Tensor]]
) -> tuple[list[Any], list[list[Tensor]]]:
    """The last state, and what each iteration over the columns puts out."""
    current, rows = list(states), list[list[Any]]()
    for parts in zip(*columns, strict=True):
        results = run.body(body, [*current, *parts])
        current = results[: len(states)]
        rows.append(results[len(states) :])
    return current, rows


def _scan_samples(run: Run, body: Graph, inputs: int, operands: Sequence[Any]) -> tuple[Any, ...]:
    """Scan-8 (`_scan_batches`), sample by sample; rows beyond the length of a sequence are zero."""
    lengths, given = operands[0], operands[1:]
    count = len(given) - inputs
    sides = _listed(run, "directions", inputs)
    samples: list[list[Tensor]] = []
    for number in range(given[0].shape[0]):
        length = given[-1].shape[1] if lengths is None else int(run.whole(lengths)[number])
        columns = [_slices(x[number][:length], 0, side) for x, side in zip(given[count:], sides)]
        states, rows = _scanned(run, body, [x[number] for x in given[:count]], columns)
        stacks = [_stack(run, [row[i] for row in rows], output, 0) for i, output in enumerate(body.outputs[count:])]
        samples.append([*states, *(_lengthened(run, x, given[-1].shape[1]) for x in stacks)])
    return tuple(run.torch.stack(parts) for parts in zip(*samples, strict=True))


def _lengthened(run: Run, x: Tensor, length: int) -> Tensor:
    return run.torch.cat([x, x.new_zeros(length - x.shape[0], *x.shape[1:])])


class _Column:
    """One scanned input, seen slice by slice in the order of the iterations."""

    def __init__(self, flow: Flow, axis: int, backwards: bool) -> None:
        self.flow = flow
        self.backwards = backwards
        self.clean, self.actual = _tensor(flow.clean), _tensor(flow.actual)
        self.axis = axis if self.clean.shape is None else axis_of(axis, len(self.clean.shape))

    def length(self, x: Range) -> Size:
        return Span(0, None) if x.shape is None else x.shape[self.axis]

    def slices(self, first: int, last: float, length: int | None) -> Flow:
        """What holds for the slices of iterations `first` to `last`."""
        clean = self._slices(self.clean, first, last, length)
        if self.actual is self.clean:
            return Flow(clean, clean, self.flow.roots)
        return Flow(clean, self._slices(self.actual, first, last, length), self.flow.roots)

    def _slices(self, x: Range, first: int, last: float, length: int | None) -> Range:
        if length is None:
            return elements_between(x, self.axis, 0, None)
        start, stop = first, int(min(last, length - 1)) + 1
        if self.backwards:
            start, stop = length - stop, length - start
        if stop == start + 1:
            return element_at(x, self.axis, start)
        return elements_between(x, self.axis, start, stop)

    def steady(self, k: int, length: int | None) -> float:
        """The first iteration after `k` whose slice may differ."""
        if length is None:
            return math.inf
        if self.backwards:
            since = max(steady_since(x, self.axis, length - 1 - k) for x in (self.clean, self.actual))
            return length - since if since else math.inf
        ends = (steady_until(x, self.axis, k) for x in (self.clean, self.actual))
        return min((end for end in ends if end is not None), default=math.inf)


def _scan(run: Propagation, body: Graph, states: Sequence[Flow], columns: Sequence[_Column], limit: Flow | None) -> Iteration:
    """The iterations over the columns; `limit` is their number where it is not the columns' length."""
    clean = _meet([column.length(column.clean) for column in columns])
    actual = _meet([column.length(column.actual) for column in columns])
    roots = frozenset[int]() if clean == actual else _roots(column.flow for column in columns)
    trips = _size_trips(clean), _size_trips(actual)
    if limit is not None:
        trips = _at_most(_trips(limit.clean), trips[0]), _at_most(_trips(limit.actual), trips[1])
        roots = roots | limit.roots
    counts = {trips[0].low, trips[0].high, trips[1].low, trips[1].high}
    length = int(counts.pop()) if len(counts) == 1 and math.isfinite(min(counts)) else None

    def step(first: int, last: float, state: Sequence[Flow], current: Flow | None) -> Outcome:
        flows = run.run(body, [*state, *(column.slices(first, last, length) for column in columns)])
        after = flows[: len(states)]
        return Outcome(None, after, flows[len(states) :], list(after), list(after))

    def steady(k: int) -> float:
        return min(column.steady(k, length) for column in columns)

    start = Outcome(None, list(states), [], list(states), list(states))
    return Iteration(run, body, step, (0, 0), start, *trips, steady=steady, roots=roots)


def _meet(sizes: Sequence[Size]) -> Size:
    """The size that all axes have, from what is known about each of them."""
    low = max(smallest(size) for size in sizes)
    highs = [high for high in map(largest, sizes) if high is not None]
    high = min(highs) if highs else None
    return low if high is not None and high <= low else Span(low, high)


def _size_trips(size: Size) -> Trips:
    high = largest(size)
    return Trips(smallest(size), math.inf if high is None else high)


def _at_most(trips: Trips, most: Trips) -> Trips:
    return Trips(min(trips.low, most.low), min(trips.high, most.high))


def _roots(flows: Any) -> Roots:
    return frozenset[int]().union(*(flow.roots for flow in flows))


def _scan_batches(run: Propagation, node: Node, body: Graph, inputs: int, operands: Operands) -> list[Flow]:
    """Scan-8: batches along axis 0 of every operand, time along axis 1 of the scanned ones, lengths as first operand."""
    lengths, given = (operands[0] if operands else None), operands[1:]
    states = [_given(given, i) for i in range(len(given) - inputs)]
    scanned = [_given(given, i) for i in range(len(given) - inputs, len(given))]
    sides = _listed(node, "directions", inputs)
    batched = [*states, *scanned, *(() if lengths is None else (lengths,))]
    results: list[list[tuple[Flow, int]]] = []
    batches = _meet([_tensor(flow.actual).shape[0] for flow in batched if _tensor(flow.actual).shape])  # type: ignore[index]
    steps = _meet([_tensor(flow.actual).shape[1] for flow in scanned if _tensor(flow.actual).shape])  # type: ignore[index]
    cells = _batch_cells(batched, batches)
    for start, stop in cells:

        def cell(flow: Flow, start: int = start, stop: int | None = stop) -> Flow:
            clean = elements_between(_tensor(flow.clean), 0, start, stop)
            if flow.actual is flow.clean:
                return Flow(clean, clean, flow.roots)
            return Flow(clean, elements_between(_tensor(flow.actual), 0, start, stop), flow.roots)

        columns = [_Column(cell(flow), 0, bool(side)) for flow, side in zip(scanned, sides)]
        limit = None if lengths is None else cell(lengths)
        iteration = _scan(run, body, [cell(flow) for flow in states], columns, limit)
        flows = list(iteration.state)
        for index, number in enumerate(body.outputs[len(states) :]):
            output = iteration.collected(index, 0, backwards=False, absent=lambda n=number: _nothing(run, n, 0))
            flows.append(output if limit is None else _padded(output, steps))
        results.append([(flow, 1 if stop is None else stop - start) for flow in flows])
    return [_batched([row[index] for row in results], batches) for index in range(len(body.outputs))]


def _batch_cells(flows: Sequence[Flow], batches: Size) -> list[tuple[int, int | None]]:
    """Runs of batch entries for which nothing differs; all of them in one where they are many or not counted."""
    if not isinstance(batches, int) or batches == 0:
        return [(0, None)]
    cuts: Cuts = None
    for flow in flows:
        for x in (_tensor(flow.clean), _tensor(flow.actual)):
            cuts = union(cuts, x.grid[0] if x.grid else None)
    if cuts is None or len(cuts) > FEW:
        return [(0, None)]
    return [(int(a), int(b)) for a, b in pairwise(cuts)]


def _padded(flow: Flow, steps: Size) -> Flow:
    """Rows beyond the length of a sequence are undefined by the standard; runtimes fill them with zeros."""

    def pad(value: Abstract) -> Range:
        x = _tensor(value)
        if x.shape is None:
            return x.join(Range.uniform(None, x.format, 0.0, 0.0))
        row = Range.uniform(x.shape[1:], x.format, 0.0, 0.0)
        filled = row if largest(x.shape[0]) == 0 else elements_between(x, 0, 0, None).join(row)
        return spread(filled, 0, steps)

    clean = pad(flow.clean)
    return Flow(clean, clean if flow.actual is flow.clean else pad(flow.actual), flow.roots)


def _batched(rows: Sequence[tuple[Flow, int]], batches: Size) -> Flow:
    def put(values: Sequence[tuple[Abstract, int]]) -> Range:
        parts = [(_tensor(value), n) for value, n in values]
        return spread(parts[0][0], 0, batches) if len(parts) == 1 else stacked(parts, 0)

    clean = put([(flow.clean, n) for flow, n in rows])
    roots = _roots(flow for flow, _ in rows)
    if all(flow.actual is flow.clean for flow, _ in rows):
        return Flow(clean, clean, roots)
    return Flow(clean, put([(flow.actual, n) for flow, n in rows]), roots)


@operator("SequenceMap", control=True)
def sequence_map(run: Propagation, node: Node, operands: Operands) -> list[Flow]:
    """The body on each element, one by one while the elements are known, else once on what holds for all."""
    body = _graph(node, "body")
    flows = [_given(operands, i) for i in range(len(operands))]
    first = flows[0]
    clean, actual = _sequence(first.clean), _sequence(first.actual)
    length = clean.length if clean.length == actual.length else None
    sequences = [flow for flow in flows if isinstance(flow.clean, SequenceOf)]
    roots = _roots(sequences)
    known = all(_sequence(v).items is not None for flow in sequences for v in (flow.clean, flow.actual))
    if largest(clean.length) == 0 and largest(actual.length) == 0:
        return [Flow(SequenceOf(None, 0), SequenceOf(None, 0), roots) for _ in body.outputs]
    if known and isinstance(length, int) and length <= MANY:
        rows = [run.run(body, [_item(flow, index) for flow in flows]) for index in range(length)]
        return [_sequence_of(column) for column in zip(*rows, strict=True)]
    results = run.run(body, [_item(flow, None) for flow in flows])
    mapped: list[Flow] = []
    for flow in results:
        part = SequenceOf(_tensor(flow.clean), clean.length)
        if flow.actual is flow.clean and length is not None:
            mapped.append(Flow(part, part, flow.roots | roots))
        else:
            mapped.append(Flow(part, SequenceOf(_tensor(flow.actual), actual.length), flow.roots | roots))
    return mapped


@sequence_map.meaning
def _(run: Run, first: list[Tensor], *others: Any) -> tuple[list[Tensor], ...]:
    body: Graph = run.attribute("body")
    rows: list[list[Tensor]] = []
    for index, item in enumerate(first):
        rows.append(run.body(body, [item, *(other[index] if isinstance(other, list) else other for other in others)]))
    return tuple([row[i] for row in rows] for i in range(len(body.outputs)))


def _item(flow: Flow, index: int | None) -> Flow:
    """One element of a sequence (None: any of them); tensors are passed to every call as they are."""
    if not isinstance(flow.clean, SequenceOf):
        return flow

    def pick(value: Abstract) -> Range:
        sequence = _sequence(value)
        if index is not None and sequence.items is not None and index < len(sequence.items):
            return sequence.items[index]
        if sequence.element is None:
            raise NotAnalysed("sequences of different lengths")
        return sequence.element

    clean = pick(flow.clean)
    return Flow(clean, clean if flow.actual is flow.clean else pick(flow.actual), flow.roots)


def _sequence_of(items: Sequence[Flow]) -> Flow:
    clean = SequenceOf.of(tuple(_tensor(flow.clean) for flow in items))
    roots = _roots(items)
    if all(flow.actual is flow.clean for flow in items):
        return Flow(clean, clean, roots)
    return Flow(clean, SequenceOf.of(tuple(_tensor(flow.actual) for flow in items)), roots)


def _given(operands: Operands, index: int) -> Flow:
    flow = operands[index] if index < len(operands) else None
    if flow is None:
        raise NotAnalysed(f"operand {index} is missing")
    return flow


def _graph(node: Node, name: str) -> Graph:
    graph = node.attributes.get(name)
    if not isinstance(graph, Graph):
        raise NotAnalysed(f"{node.label} without {name}")
    return graph


def _listed(node: Node | Run, name: str, count: int) -> list[int]:
    """An attribute with one number per input or output, 0 where the list ends early."""
    given = [int(v) for v in node.attributes.get(name) or ()]
    return [*given, *[0] * count][:count]


def _tensor(value: Abstract) -> Range:
    if not isinstance(value, Range):
        raise NotAnalysed("a sequence where a tensor is expected")
    return value


def _sequence(value: Abstract) -> SequenceOf:
    if not isinstance(value, SequenceOf):
        raise NotAnalysed("a tensor where a sequence is expected")
    return value


# -- torch's operators on functions ----------------------------------------------------------------------------------


@if_.aten("higher_order.cond")
def _(call: AtenCall) -> tuple[int, ...]:
    """Either function; both read the operands where they stand."""
    operands = call.arguments["operands"]
    branches = {
        name: call.body(name, (), lambda _, function=function: call.inlined(function, operands))
        for name, function in (("then_branch", "true_fn"), ("else_branch", "false_fn"))
    }
    return _several(call, "If", call.value(call.arguments["pred"], BOOL), **branches)


@loop.aten("higher_order.while_loop")
def _(call: AtenCall) -> tuple[int, ...]:
    """The condition is asked before the first iteration, and at the end of each."""
    carried, additional = call.arguments["carried_inputs"], call.arguments["additional_inputs"]
    states = [_as_tensor(call, item, result) for item, result in zip(carried, call.results)]

    def iteration(inputs: Sequence[Handle]) -> list[Any]:
        new = call.inlined("body_fn", [*inputs[2:], *additional])
        return [*call.inlined("cond_fn", [*new, *additional]), *new]

    (first,) = call.inlined("cond_fn", [*states, *additional])
    count, goes_on = Handle(ABSENT, INT64, ()), Handle(ABSENT, BOOL, ())
    body = call.body("body", [count, goes_on, *states], iteration)
    return _several(call, "Loop", ABSENT, call.value(first, BOOL), *(state.number for state in states), body=body)


@scan.aten("higher_order.scan")
def _(call: AtenCall) -> tuple[int, ...]:
    """Once per slice of the scanned tensors' first axis, with a state."""
    return _scanned_by(call, "combine_fn", call.arguments["init"], call.arguments["xs"], call.arguments["additional_inputs"])


@scan.aten("higher_order.map_impl")
def _(call: AtenCall) -> tuple[int, ...]:
    """Once per slice, without a state."""
    return _scanned_by(call, "f", [], call.arguments["xs"], call.arguments["pos_args"])


def _scanned_by(
    call: AtenCall, function: str, states: list[Handle], scanned: list[Handle], additional: list[Any]
) -> tuple[int, ...]:
    slices = [Handle(ABSENT, x.format, None if x.shape is None else x.shape[1:]) for x in scanned]
    body = call.body("body", [*states, *slices], lambda inputs: call.inlined(function, [*inputs, *additional]))
    operands = [x.number for x in (*states, *scanned)]
    return _several(call, "Scan", *operands, body=body, num_scan_inputs=len(scanned))


def _as_tensor(call: AtenCall, item: Any, result: Handle) -> Handle:
    """A carried value as a tensor: a number that the program starts from becomes one."""
    return (
        item if isinstance(item, Handle) else Handle(call.value(item, result.format), result.format, result.shape, result.is_number)
    )


def _several(call: OperatorCall, op: str, *operands: int, **attributes: Any) -> tuple[int, ...]:
    """A node with as many results as the program takes from it."""
    formats = [result.format for result in call.results]
    made = call.emit(op, *operands, outputs=len(call.results), formats=formats, **attributes)
    return made if isinstance(made, tuple) else (made,)


# -- JAX's control flow ----------------------------------------------------------------------------------------------


@if_.jax("cond")
def _(call: JaxCall) -> tuple[int, ...]:
    """One of several functions by an index, which JAX brings into their number; all read the operands where they stand."""
    branches, operands = call["branches"], call.operands[1:]
    if len(branches) == 2:
        # A truth value as JAX hands it over: the bodies know what holds inside of them.
        bodies = [call.body(f"branch_{i}", (), lambda _, i=i: call.called(branches[i], operands)) for i in (1, 0)]
        return _several(call, "If", call.cast(call.operand(0), BOOL), then_branch=bodies[0], else_branch=bodies[1])

    def chosen(first: int) -> tuple[int, ...]:
        if first == len(branches) - 1:
            return tuple(handle.number for handle in call.called(branches[first], operands))
        limit = call.constant(np.asarray(first), call.handle(0).format)
        is_first = call.emit("LessOrEqual", call.operand(0), limit, formats=(BOOL,))
        here = call.body(f"branch_{first}", (), lambda _: call.called(branches[first], operands))
        later = call.body(f"after_{first}", (), lambda _: _handed(chosen(first + 1), call.results))
        return _several(call, "If", is_first, then_branch=here, else_branch=later)

    return chosen(0)


@loop.jax("while")
def _(call: JaxCall) -> tuple[int, ...]:
    """The condition is asked before the first iteration, and at the end of each."""
    asked, repeated = call["cond_nconsts"], call["body_nconsts"]
    of_condition, of_body = call.operands[:asked], call.operands[asked : asked + repeated]
    states: Sequence[Handle] = call.operands[asked + repeated :]

    def iteration(inputs: Sequence[Handle]) -> list[Any]:
        new = call.called(call["body_jaxpr"], [*of_body, *inputs[2:]])
        return [*call.called(call["cond_jaxpr"], [*of_condition, *new]), *new]

    (first,) = call.called(call["cond_jaxpr"], [*of_condition, *states])
    count, goes_on = Handle(ABSENT, INT64, ()), Handle(ABSENT, BOOL, ())
    body = call.body("body", [count, goes_on, *states], iteration)
    return _several(call, "Loop", ABSENT, first.number, *(state.number for state in states), body=body)


@scan.jax("scan")
def _(call: JaxCall) -> tuple[int, ...]:
    """Once per slice of the scanned arrays' first axis, forwards or backwards, with a state; without any, so often as is said."""
    constants, carried = call["num_consts"], call["num_carry"]
    states: Sequence[Handle] = call.operands[constants : constants + carried]
    scanned: list[Handle] = list(call.operands[constants + carried :])
    slices = [Handle(ABSENT, x.format, None if x.shape is None else x.shape[1:]) for x in scanned]
    if not scanned:
        scanned = [Handle(call.constant(np.zeros(call["length"], np.int64)), INT64, (call["length"],))]

    def iteration(inputs: Sequence[Handle]) -> list[Any]:
        return call.called(call["jaxpr"], [*call.operands[:constants], *inputs[: carried + len(slices)]])

    body = call.body("body", [*states, *(slices or [Handle(ABSENT, INT64, ())])], iteration)
    side = 1 if call["reverse"] else 0
    return _several(
        call,
        "Scan",
        *(x.number for x in (*states, *scanned)),
        body=body,
        num_scan_inputs=len(scanned),
        scan_input_directions=[side] * len(scanned),
        scan_output_directions=[side] * (len(call.results) - carried),
    )


def _handed(numbers: Sequence[int], results: Sequence[Handle]) -> list[Handle]:
    return [Handle(number, result.format, result.shape) for number, result in zip(numbers, results, strict=True)]
