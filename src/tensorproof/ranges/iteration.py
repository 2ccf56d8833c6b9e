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

from tensorproof.errors import NotAnalysed
from tensorproof.graph import Graph
from tensorproof.ranges.containers import Abstract, anything_like, includes, join, same, truth
from tensorproof.ranges.flow import NO_ROOTS, Flow, Roots
from tensorproof.ranges.grid import Size, Span
from tensorproof.ranges.growth import filled_like, find_growth
from tensorproof.ranges.propagate import Propagation
from tensorproof.ranges.range import Range
from tensorproof.ranges.slices import joined, spread, stacked
from tensorproof.ranges.widening import Widening

#: Iterations that are evaluated one by one where their number is not known, and where it is.
FEW, MANY = 16, 512
#: Evaluations of nodes that an outermost loop may cost before it (and all loops inside) goes for the fixpoint; in a first
#: pass, which comes back with more where that is not enough.
NODE_BUDGET, FIRST_BUDGET = 8_000, 2_000
#: Passes with thresholds, with one jump to the ends of the format, with no knowledge, before the search is given up.
GENTLE, DRASTIC, LAST = 20, 30, 40
#: Descending passes after the fixpoint is found, at most, and where nothing more may be spent.
NARROWING, LEAST_NARROWING = 8, 2
#: The iteration of the search for a fixpoint at which the states so far are extrapolated to their limit.
EXTRAPOLATING = 2


@dataclass(frozen=True, slots=True)
class Trips:
    """How often a loop runs by its count; `low` is infinite where nothing but the condition ends it, after at most `high`."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one iteration gives: the condition to go on (None: always), the next state, and the elements of scan outputs.

    `going` and `stopped` are the state where the condition holds and where it does not: narrower, by what it compares.
    """

    condition: Flow | None
    state: list[Flow]
    pieces: list[Flow]
    going: list[Flow]
    stopped: list[Flow]

    def bare(self) -> Outcome:
        """The same bounds for the iterations that follow: nothing that relates values of one iteration."""
        state, going, stopped = ([_bare(flow) for flow in flows] for flows in (self.state, self.going, self.stopped))
        return Outcome(self.condition, state, self.pieces, going, stopped)


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

    def leave(self, first: int, last: float, state: list[Abstract], stopped: list[Abstract], may: tuple[bool, bool]) -> None:
        """The state after `first` to `last` iterations, which may be followed by one more, or be the last.

        `stopped` is the state where the condition says stop.
        """
        if not self.alive:
            return
        may_go, may_stop = may
        last = min(last, self.trips.high)
        earliest = first if may_stop else max(first, self.trips.low)
        if earliest <= last:
            self.states.append(state if math.isfinite(self.trips.low) and last >= self.trips.low else stopped)
            self.low, self.high = min(self.low, earliest), max(self.high, last)
        self.alive = may_go and last < self.trips.high


class Iteration:
    """One loop. `offsets` are the positions of the first state among the body's inputs and among its outputs; `start` is
    the state before the first iteration; `ignores_condition` says that a runtime that keeps to the standard runs on where
    the body says stop.
    """

    def __init__(
        self,
        run: Propagation,
        body: Graph,
        step: Step,
        offsets: tuple[int, int],
        start: Outcome,
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
        self.exit_roots: list[Roots] = [NO_ROOTS] * len(start.state)
        self.ignores_condition = ignores_condition
        self.growth = find_growth(body, offsets, len(start.state))
        outermost = run.allowance is None
        if outermost:
            budget = FIRST_BUDGET if run.abstraction.weights == "channel" else NODE_BUDGET
            run.allowance = run.evaluations + budget
        try:
            self.state = self._iterate(start)
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

    def _iterate(self, current: Outcome) -> list[Flow]:
        first, last, evaluated = 0, 0.0, 0
        while self._leave(first, last, current):
            k = int(last)
            if not self._affordable(k, evaluated, current.condition):
                current = self._fixpoint(k, current)
                break
            outcome = self._run(k, k, current.going, current.condition)
            evaluated += 1
            settled = self._settled(current, outcome)
            if settled and any(map(_is_related, current.going)):
                # What relates the elements of this state need not hold for the next: once more without it.
                outcome, settled = outcome.bare(), False
            until = self.steady(k) if settled else k + 1.0
            self.pieces.append(Piece(outcome.pieces, k, until))
            current = outcome.bare() if settled else outcome
            first, last = k + 1, until
        return self._exits(current.state)

    def _settled(self, before: Outcome, after: Outcome) -> bool:
        """Whether the next iteration starts from the same ranges as the one that has just run."""
        if not all(_same(a, b) for a, b in zip(before.going, after.going, strict=True)):
            return False
        return before.condition is None or after.condition is None or _same(before.condition, after.condition)

    def _run(self, first: int, last: float, state: Sequence[Flow], condition: Flow | None) -> Outcome:
        # Once clean values would have ended the loop, only a root that fired can have kept it going.
        blame = nullcontext() if self.clean.alive else self.run.reached_through(self.roots)
        with blame:
            return self.step(first, last, state, condition)

    def _leave(self, first: int, last: float, at: Outcome) -> bool:
        if at.condition is not None:
            self.roots = self.roots | at.condition.roots
        self.exit_roots = [roots | flow.roots for roots, flow in zip(self.exit_roots, at.state, strict=True)]
        stopped = at.state if self.ignores_condition else at.stopped
        ends = [flow.clean for flow in at.state], [flow.clean for flow in stopped]
        self.clean.leave(first, last, *ends, self._may(at.condition and at.condition.clean))
        ends = [flow.actual for flow in at.state], [flow.actual for flow in stopped]
        self.actual.leave(first, last, *ends, self._may(at.condition and at.condition.actual))
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
        decided = condition is not None and math.isinf(self.actual.trips.low) and not all(self._may(condition.actual))
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

    def _fixpoint(self, k: int, before: Outcome) -> Outcome:
        """All iterations from `k` on at once: a state that holds at the head of each of them."""
        last = max(self.clean.trips.high, self.actual.trips.high) - 1
        start = before.bare().going
        with self.run.unrecorded():
            state, condition = self._ascend(k, last, start, before.condition)
            state = self._narrowed(k, last, start, state, condition)
            ends = self._later(k, last, start, state, condition, last - k + 1)
        outcome = self._run(k, last, state, condition)
        counted = {growth.state for growth in self.growth}
        sums = [ends.state[i] if i in counted else flow for i, flow in enumerate(outcome.state)]
        stopped = [ends.stopped[i] if i in counted else flow for i, flow in enumerate(outcome.stopped)]
        outcome = Outcome(outcome.condition, sums, outcome.pieces, outcome.going, stopped).bare()
        self.pieces.append(Piece(outcome.pieces, k, math.inf))
        self._leave(k + 1, math.inf, outcome)
        return outcome

    def _narrowed(self, k: int, last: float, start: Sequence[Flow], state: list[Flow], condition: Flow | None) -> list[Flow]:
        """The state of a fixpoint after some more iterations: each holds, since the one before did."""
        assert self.run.allowance is not None
        for count in range(NARROWING):
            if count >= LEAST_NARROWING and self.run.evaluations > self.run.allowance:
                break
            outcome = self._later(k, last, start, state, condition, last - k)
            newer = [a.join(b) for a, b in zip(start, outcome.going)]
            if all(_same(a, b) for a, b in zip(state, newer)):
                break
            state = newer
        return state

    def _later(
        self, k: int, last: float, start: Sequence[Flow], state: Sequence[Flow], condition: Flow | None, times: float
    ) -> Outcome:
        """What holds after 1 to `times` iterations, one of which starts from `state`; growth by itself is counted out."""
        outcome = self._run(k, last, state, condition)
        if not (math.isfinite(times) and times >= 1.0):
            return outcome
        for growth in self.growth:
            index = growth.state
            neutral = list(state)
            neutral[index] = filled_like(state[index], growth.neutral)
            change = self._run(k, last, neutral, condition).state[index]
            total = growth.after(start[index], change, times, wide=self.run.target.keeps_chains_wide)
            if total is None:
                continue
            for flows in (outcome.state, outcome.going, outcome.stopped):
                after = flows[index]
                # What a sum that overflows gives is not seen by adding to zero.
                same_sides = after.actual is after.clean
                flows[index] = _meeting(after, total) if same_sides else Flow(total.clean, after.actual, after.roots | total.roots)
        return outcome

    def _ascend(self, k: int, last: float, start: Sequence[Flow], condition: Flow | None) -> tuple[list[Flow], Flow | None]:
        """A state from which an iteration leads back into it, and the condition that then holds."""
        widening = Widening(self.run.model, self.body)
        state = list(start)
        chain: list[list[Flow]] = [state]
        for count in range(LAST):
            outcome = self._later(k, last, start, state, condition, last - k)
            newer = outcome.going
            stable = all(_covers(a, b) for a, b in zip(state, newer, strict=True))
            if condition is not None and outcome.condition is not None:
                stable = stable and _covers(condition, outcome.condition)
                condition = condition.join(outcome.condition)
            if stable:
                return state, condition
            if count < EXTRAPOLATING:
                state = [a.join(b) for a, b in zip(state, newer)]
                chain.append(state)
                if len(chain) > EXTRAPOLATING:
                    state = [widening.extrapolated(a, b, c) for a, b, c in zip(*chain)]
            elif count < DRASTIC:
                state = [widening.widened(a, b, drastic=count >= GENTLE) for a, b in zip(state, newer)]
            else:
                state = [_forgotten(a.join(b)) for a, b in zip(state, newer)]
        raise NotAnalysed("the ranges of the loop do not come to rest")


def _is_related(flow: Flow) -> bool:
    """Whether more is known of a value than the bounds of its elements."""
    values = flow.clean, flow.actual
    return any(isinstance(x, Range) and (x.norm is not None or x.form is not None) for x in values)


def _bare(flow: Flow) -> Flow:
    def bare(value: Abstract) -> Abstract:
        return value.bare() if isinstance(value, Range) else value

    clean = bare(flow.clean)
    return Flow(clean, clean if flow.actual is flow.clean else bare(flow.actual), flow.roots)


def _meeting(after: Flow, total: Flow) -> Flow:
    """Two bounds of the same state: what was counted out, and where its condition narrowed it."""
    if not isinstance(after.clean, Range) or not isinstance(total.clean, Range) or total.actual is not total.clean:
        return total
    if after.clean.shape != total.clean.shape:
        return total
    clean = after.clean.meet(total.clean)
    return Flow(clean, clean, after.roots | total.roots)


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
