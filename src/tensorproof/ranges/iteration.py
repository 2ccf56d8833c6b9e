"""Iteration of a sub-graph on a state: exactly while that is affordable, then join, widening and narrowing to a fixpoint.

The loop may be left after any iteration at which it may stop: all such states are joined. A fixpoint S satisfies
S >= S0 join body(S), so it holds at the head of every later iteration; applying the body to it once more can only make it
smaller, and stays sound (Cousot and Cousot, Abstract interpretation, POPL 1977, sections 9.1 and 9.2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import FLOAT32, Format
from tensorproof.graph import Graph, Model
from tensorproof.ranges.containers import Abstract, anything_like, includes, join, same, truth, widen
from tensorproof.ranges.grid import Size, Span
from tensorproof.ranges.propagate import NO_ROOTS, Flow, Propagation, Roots
from tensorproof.ranges.range import Range, align
from tensorproof.ranges.slices import joined, spread, stacked

#: Iterations that are evaluated one by one where their number is not known, and where it is.
FEW, MANY = 16, 512
#: Evaluations of nodes that an outermost loop may cost before it (and all loops inside) goes for the fixpoint.
NODE_BUDGET = 8_000
#: Passes with thresholds, with one jump to the ends of the format, with no knowledge, before the search is given up.
GENTLE, DRASTIC, LAST = 20, 30, 40
#: Descending passes after the fixpoint is found.
NARROWING = 2


@dataclass(frozen=True, slots=True)
class Trips:
    """How often a loop runs by its count alone; infinite where nothing but the condition ends it."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one iteration gives: the condition to go on (None: always), the next state, and the elements of scan outputs."""

    condition: Flow | None
    state: list[Flow]
    pieces: list[Flow]


@dataclass(frozen=True, slots=True)
class Piece:
    """The elements of the scan outputs in iterations `first` to `stop` - 1."""

    flows: list[Flow]
    first: int
    stop: float


#: A body on iterations `first` to `last`: exact if both are the same, else what holds for each of them.
Step = Callable[[int, float, Sequence[Flow], "Flow | None"], Outcome]


class _Side:
    """Where a loop may be left, seen with clean or with actual values."""

    __slots__ = ("alive", "high", "low", "states", "trips")

    def __init__(self, trips: Trips) -> None:
        self.trips = trips
        self.alive = True
        self.states: list[list[Abstract]] = []
        self.low, self.high = math.inf, 0.0

    def leave(self, first: int, last: float, state: list[Abstract], may: tuple[bool, bool]) -> None:
        """The state after `first` to `last` iterations, which may be followed by one more, or be the last."""
        if not self.alive:
            return
        may_go, may_stop = may
        last = min(last, self.trips.high)
        earliest = first if may_stop else max(first, self.trips.low)
        if earliest <= last:
            self.states.append(state)
            self.low, self.high = min(self.low, earliest), max(self.high, last)
        self.alive = may_go and last < self.trips.high


class Iteration:
    """One loop. `offsets` are the positions of the first state among the body's inputs and among its outputs;
    `ignores_condition` says that a runtime that keeps to the standard runs on where the body says stop.
    """

    def __init__(
        self,
        run: Propagation,
        body: Graph,
        step: Step,
        offsets: tuple[int, int],
        state: Sequence[Flow],
        condition: Flow | None,
        clean: Trips,
        actual: Trips,
        *,
        steady: Callable[[int], float],
        roots: Roots = NO_ROOTS,
        ignores_condition: bool = False,
    ) -> None:
        self.run = run
        self.step = step
        self.steady = steady
        self.body = body
        self.cost = max(1, sum(1 for _ in body.walk()))
        self.clean, self.actual = _Side(clean), _Side(actual)
        self.pieces: list[Piece] = []
        self.roots = roots
        #: The roots of each state over all exits.
        self.exit_roots: list[Roots] = [NO_ROOTS] * len(state)
        self.ignores_condition = ignores_condition
        self.accumulators = find_accumulators(body, offsets, len(state))
        outermost = run.allowance is None
        if outermost:
            run.allowance = run.evaluations + NODE_BUDGET
        try:
            self.state = self._iterate(list(state), condition)
        finally:
            if outermost:
                run.allowance = None

    # -- results ----------------------------------------------------------------------------------------------------

    def collected(self, index: int, axis: int, *, backwards: bool, absent: Callable[[], Range]) -> Flow:
        """One scan output: its elements put together along an axis. `absent` makes it if no iteration runs."""
        clean = self._assembled(self.clean, [piece.flows[index].clean for piece in self.pieces], axis, backwards, absent)
        roots = self.roots.union(*(piece.flows[index].roots for piece in self.pieces))
        exits = (self.clean.low, self.clean.high) == (self.actual.low, self.actual.high)
        if exits and all(piece.flows[index].actual is piece.flows[index].clean for piece in self.pieces):
            return Flow(clean, clean, roots)
        values = [piece.flows[index].actual for piece in self.pieces]
        return Flow(clean, self._assembled(self.actual, values, axis, backwards, absent), roots)

    def _assembled(self, side: _Side, values: Sequence[Abstract], axis: int, backwards: bool, absent: Callable[[], Range]) -> Range:
        parts: list[tuple[Range, float]] = []
        low, high = (side.low, side.high) if side.states else (0.0, math.inf)
        for value, piece in zip(values, self.pieces):
            stop = min(piece.stop, high)
            if stop > piece.first:
                if not isinstance(value, Range):
                    raise NotAnalysed("a scan output is not a tensor")
                parts.append((value, stop - piece.first))
        if not parts:
            return absent()
        if low == high and math.isfinite(high):
            exact = [(x, int(n)) for x, n in parts]
            return stacked(exact[::-1] if backwards else exact, axis)
        return spread(joined([x for x, _ in parts]), axis, _span(low, high))

    # -- iteration --------------------------------------------------------------------------------------------------

    def _iterate(self, state: list[Flow], condition: Flow | None) -> list[Flow]:
        first, last, evaluated = 0, 0.0, 0
        while self._leave(first, last, state, condition):
            k = int(last)
            if not self._affordable(k, evaluated, condition):
                self._fixpoint(k, state, condition)
                break
            outcome = self._run(k, k, state, condition)
            evaluated += 1
            settled = all(_same(a, b) for a, b in zip(state, outcome.state, strict=True))
            settled = settled and (condition is None or outcome.condition is None or _same(condition, outcome.condition))
            until = self.steady(k) if settled else k + 1.0
            self.pieces.append(Piece(outcome.pieces, k, until))
            state, condition = outcome.state, outcome.condition
            first, last = k + 1, until
        return self._exits(state)

    def _run(self, first: int, last: float, state: Sequence[Flow], condition: Flow | None) -> Outcome:
        # Once clean values would have ended the loop, only a root that fired can have kept it going.
        blame = nullcontext() if self.clean.alive else self.run.reached_through(self.roots)
        with blame:
            return self.step(first, last, state, condition)

    def _leave(self, first: int, last: float, state: Sequence[Flow], condition: Flow | None) -> bool:
        if condition is not None:
            self.roots = self.roots | condition.roots
        self.exit_roots = [roots | flow.roots for roots, flow in zip(self.exit_roots, state, strict=True)]
        self.clean.leave(first, last, [flow.clean for flow in state], self._may(condition and condition.clean))
        self.actual.leave(first, last, [flow.actual for flow in state], self._may(condition and condition.actual))
        return self.clean.alive or self.actual.alive

    def _may(self, condition: Abstract | None) -> tuple[bool, bool]:
        if condition is None:
            return True, False
        may_go, may_stop = truth(condition)
        return may_go or self.ignores_condition, may_stop

    def _affordable(self, k: int, evaluated: int, condition: Flow | None) -> bool:
        assert self.run.allowance is not None
        left = self.run.allowance - self.run.evaluations
        if left <= 0:
            return evaluated < 2
        trips = self.actual.trips.high - k
        decided = condition is not None and math.isinf(trips) and not all(self._may(condition.actual))
        if decided or (trips <= MANY and trips * self.cost <= left):
            return evaluated < MANY
        return evaluated < FEW

    def _exits(self, state: Sequence[Flow]) -> list[Flow]:
        """The join of all states in which the loop may be left (the last one, if it never is)."""
        flows: list[Flow] = []
        for index, flow in enumerate(state):
            clean = _joined((s[index] for s in self.clean.states), flow.clean)
            ends = [s[index] for s in self.actual.states]
            paired = len(ends) == len(self.clean.states)
            if paired and all(a is c[index] for a, c in zip(ends, self.clean.states)) and flow.actual is flow.clean:
                actual = clean
            else:
                actual = _joined(ends, flow.actual)
            flows.append(Flow(clean, actual, self.exit_roots[index] | self.roots))
        return flows

    # -- fixpoint ---------------------------------------------------------------------------------------------------

    def _fixpoint(self, k: int, start: Sequence[Flow], condition: Flow | None) -> None:
        last = max(self.clean.trips.high, self.actual.trips.high) - 1
        with self.run.unrecorded():
            state, condition = self._ascend(k, last, start, condition)
            for _ in range(NARROWING):
                outcome = self._later(k, last, start, state, condition)
                state = [a.join(b) for a, b in zip(start, outcome.state)]
            sums = self._later(k, last, start, state, condition).state
        outcome = self._run(k, last, state, condition)
        ends = [sums[i] if i in self.accumulators else flow for i, flow in enumerate(outcome.state)]
        self.pieces.append(Piece(outcome.pieces, k, math.inf))
        self._leave(k + 1, math.inf, ends, outcome.condition)

    def _later(self, k: int, last: float, start: Sequence[Flow], state: Sequence[Flow], condition: Flow | None) -> Outcome:
        """What holds after any number of iterations on a state; sums that only grow by what is added are counted out."""
        outcome = self._run(k, last, state, condition)
        if not math.isfinite(last):
            return outcome
        for index in self.accumulators:
            empty = list(state)
            empty[index] = _zeros_like(state[index])
            added = self._run(k, last, empty, condition).state[index]
            total = accumulated(start[index], added, last - k + 1, wide=self.run.target.keeps_chains_wide)
            after = outcome.state[index]
            if total is not None and after.actual is not after.clean:
                # What a sum that overflows gives is not seen by adding to zero.
                outcome.state[index] = Flow(total.clean, after.actual, after.roots | total.roots)
            elif total is not None:
                outcome.state[index] = total
        return outcome

    def _ascend(self, k: int, last: float, start: Sequence[Flow], condition: Flow | None) -> tuple[list[Flow], Flow | None]:
        state = list(start)
        steps: dict[Format, list[float]] = {}
        constants = body_constants(self.run.model, self.body)
        for count in range(LAST):
            outcome = self._later(k, last, start, state, condition)
            newer = outcome.state
            stable = all(_covers(a, b) for a, b in zip(state, newer, strict=True))
            if condition is not None and outcome.condition is not None:
                stable = stable and _covers(condition, outcome.condition)
                condition = condition.join(outcome.condition)
            if stable:
                return state, condition
            if count < DRASTIC:
                drastic = count >= GENTLE
                state = [_widened(a, b, steps, constants, drastic) for a, b in zip(state, newer)]
            else:
                state = [_forgotten(a.join(b)) for a, b in zip(state, newer)]
        raise NotAnalysed("the ranges of the loop do not come to rest")


def find_accumulators(body: Graph, offsets: tuple[int, int], states: int) -> tuple[int, ...]:
    """The states s with s = s + g, or s - g, where g does not depend on s."""
    producers = {number: node for node in body.nodes for number in node.outputs}

    def origin(number: int) -> int:
        node = producers.get(number)
        return origin(node.inputs[0]) if node is not None and node.label == "Identity" else number

    found: list[int] = []
    for index in range(states):
        number = body.inputs[offsets[0] + index]
        node = producers.get(origin(body.outputs[offsets[1] + index]))
        if node is None or node.label not in ("Add", "Sub"):
            continue
        first, second = node.inputs
        if node.label == "Add" and origin(first) != number:
            first, second = second, first
        if origin(first) == number and second not in _dependent(body, number):
            found.append(index)
    return tuple(found[:4])


def _dependent(graph: Graph, number: int) -> set[int]:
    """All values of a graph that depend on one of them."""
    reached = {number}
    for node in graph.nodes:
        reads = set(node.inputs)
        for sub in node.subgraphs():
            reads.update(sub.outputs)
            for inner in sub.walk():
                reads.update(inner.inputs)
                reads.update(*(s.outputs for s in inner.subgraphs()))
        if reads & reached:
            reached.update(node.outputs)
    return reached


def _zeros_like(flow: Flow) -> Flow:
    def zeros(value: Abstract) -> Abstract:
        return Range.uniform(value.shape, value.format, 0.0, 0.0) if isinstance(value, Range) else value

    clean = zeros(flow.clean)
    return Flow(clean, clean if flow.actual is flow.clean else zeros(flow.actual), flow.roots)


def accumulated(start: Flow, added: Flow, times: float, *, wide: bool) -> Flow | None:
    """start + a sum of 1 to `times` numbers, each rounded; None where the shapes do not stay the same.

    `wide` says that sums of 16-bit numbers may be kept in float32.
    """
    clean = _accumulated(start.clean, added.clean, times, wide)
    if clean is None:
        return None
    roots = start.roots | added.roots
    if start.actual is start.clean and added.actual is added.clean:
        return Flow(clean, clean, roots)
    actual = _accumulated(start.actual, added.actual, times, wide)
    return None if actual is None else Flow(clean, actual, roots)


def _accumulated(start: Abstract, added: Abstract, times: float, wide: bool) -> Range | None:
    if not isinstance(start, Range) or not isinstance(added, Range) or start.shape != added.shape:
        return None
    format = start.format
    if start.has_special or added.has_special or format.kind not in ("float", "int"):
        return None
    aligned = align(start, added)
    (low, low_added), (high, high_added) = aligned.lows, aligned.highs
    magnitude = np.maximum(np.abs(low), np.abs(high))
    if (magnitude > max(format.high, -format.low)).any():
        return None
    up, down = np.maximum(high_added, 0.0), np.maximum(-low_added, 0.0)
    # At least one number is added.
    low = low + np.where(low_added > 0.0, low_added, 0.0) - times * down
    high = high + np.where(high_added < 0.0, high_added, 0.0) + times * up
    if format.is_float:
        # n roundings: (1 + u)^n - 1 of all that is added. A number that is 2^(p + 1) times an addend absorbs it.
        reach = np.maximum(up, down)
        roundoff = format.unit_roundoff + 2.0**-53
        error = (magnitude + times * reach) * np.expm1(times * np.log1p(roundoff)) * (1.0 + 2.0**-40)
        digits = FLOAT32.digits if wide and format.bits < FLOAT32.bits else format.digits
        most = np.maximum(magnitude, np.ldexp(reach, digits + 1)) * (1.0 + 2.0 ** (2 - format.digits))
        least, most = np.maximum(low - error, -most), np.minimum(high + error, most)
        # Adding what is not negative never makes a sum smaller, however it is rounded.
        low, high = np.where(low_added >= 0.0, aligned.lows[0], least), np.where(high_added <= 0.0, aligned.highs[0], most)
        low, high = format.round_down(low), format.round_up(high)
    outside = (low < format.low) | (high > format.high)
    if format.is_integer:
        low, high = np.where(outside, format.low, low), np.where(outside, format.high, high)
    return aligned.result(format, np.clip(low, format.low, format.high), np.clip(high, format.low, format.high))


def body_constants(model: Model, body: Graph) -> list[float]:
    """The numbers that stand in a body: where widening may stop."""
    found: set[float] = set()
    for node in body.walk():
        for number in node.inputs:
            array = model.constants.get(number)
            if array is not None and array.size <= 16 and array.dtype.kind not in "OUSc":
                found.update(float(v) for v in array.reshape(-1) if np.isfinite(v))
    return sorted(found)[:64]


def _thresholds(format: Format, constants: Sequence[float]) -> list[float]:
    """Zero, one, the body's constants, and powers of 16 up to the end of the format."""
    powers: list[float] = []
    power = 16.0
    while power < format.high:
        powers.append(power)
        power *= 16.0
    return [0.0, 1.0, *constants, *powers]


def _widened(older: Flow, newer: Flow, steps: dict[Format, list[float]], constants: Sequence[float], drastic: bool) -> Flow:
    def wider(a: Abstract, b: Abstract) -> Abstract:
        format = _format(b)
        if format is not None and format not in steps:
            steps[format] = _thresholds(format, constants)
        return widen(a, b, [] if format is None else steps[format], drastic=drastic)

    clean = wider(older.clean, newer.clean)
    if older.actual is older.clean and newer.actual is newer.clean:
        return Flow(clean, clean, older.roots | newer.roots)
    return Flow(clean, wider(older.actual, newer.actual), older.roots | newer.roots)


def _format(value: Abstract) -> Format | None:
    if isinstance(value, Range):
        return value.format
    inner = getattr(value, "element", None) or getattr(value, "value", None)
    return None if inner is None else _format(inner)


def _forgotten(flow: Flow) -> Flow:
    clean = anything_like(flow.clean)
    return Flow(clean, clean if flow.actual is flow.clean else anything_like(flow.actual), flow.roots)


def _covers(older: Flow, newer: Flow) -> bool:
    if not newer.roots <= older.roots or not includes(older.clean, join(older.clean, newer.clean)):
        return False
    if older.actual is older.clean and newer.actual is newer.clean:
        return True
    return includes(older.actual, join(older.actual, newer.actual))


def _same(a: Flow, b: Flow) -> bool:
    if a.roots != b.roots or not same(a.clean, b.clean):
        return False
    identical = a.actual is a.clean and b.actual is b.clean
    return identical or same(a.actual, b.actual)


def _joined(values: Iterable[Abstract], default: Abstract) -> Abstract:
    result: Abstract | None = None
    for value in values:
        result = value if result is None else join(result, value)
    return default if result is None else result


def _span(low: float, high: float) -> Size:
    return Span(int(low), int(high) if math.isfinite(high) else None)
