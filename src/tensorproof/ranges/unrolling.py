"""One direction of a recurrent layer over time.

Steps are taken one by one while they are affordable; a run of equal inputs ends where the state repeats; what is left of
a long sequence is a fixpoint. Where large weights count through their sums only, all steps are one fixpoint from above: the
activations bound the state, and a few steps on that bound make it smaller. `sequence_lens` ends a sequence early: later
outputs are zero, and the state stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.formats import Array, Format
from tensorproof.ranges.cells import Activation, Box, Term, power_above
from tensorproof.ranges.gate_weights import Matrix, Sums, Whole
from tensorproof.ranges.grid import largest, smallest
from tensorproof.ranges.range import Range
from tensorproof.ranges.slices import elements_between, spread

if TYPE_CHECKING:
    from tensorproof.ranges.recurrence import Layer

#: Steps that are taken one by one in sequences up to that length, and in longer ones.
STEPS, FIRST_STEPS = 512, 32
#: Steps that are taken one by one in a first pass, where the sequence has no more.
FEW_STEPS = 4
#: Multiplications over all steps that are spent before the rest of a sequence becomes a fixpoint.
WORK = 5e7
#: Numbers of gate sums that are computed ahead for steps to come.
AHEAD = 1 << 20
#: Passes with thresholds before a moving end jumps to the end of the format.
GENTLE = 48


class Inputs(NamedTuple):
    """The inputs of a step, and their products with the weights of all gates."""

    box: Box
    term: Term


#: The hidden units, and the memory for LSTM.
State = tuple[Box, ...]
Step = Callable[[Inputs, State], State]


@dataclass(frozen=True)
class Weights:
    """One direction: matrices with the gates along their columns, the two biases, the peepholes."""

    inputs: Matrix
    recurrent: Matrix
    biases: tuple[Term, Term]
    peepholes: Box | None


class Unrolled:
    """One direction of a layer over time."""

    def __init__(self, layer: Layer, weights: Weights, step: Step, bounding: Activation, backwards: bool) -> None:
        self.layer = layer
        self.weights = weights
        self.step = step
        self.bounding = bounding
        self.backwards = backwards
        most = largest(layer.steps)
        self.most = np.inf if most is None else float(most)
        given = layer.lengths
        exact = isinstance(layer.steps, int)
        sizes = np.full(layer.groups, float(smallest(layer.steps))), np.full(layer.groups, self.most)
        self.low, self.high = sizes if given is None else (np.minimum(given[0], sizes[0]), given[1])
        self.pads = given is not None
        #: Whether the step that reads a time is known for every group.
        self.is_aligned = exact and (not backwards or bool((self.low == self.high).all()))
        self.x = layer.x if self.is_aligned else layer.x.smash((0,))
        #: (first step, state of the hidden units as it is output), in the order of the steps.
        self.runs: list[tuple[int, Box]] = []
        self.seen: Box | None = None
        per_step = layer.groups * layer.units * layer.gates * (weights.inputs.rows + weights.recurrent.rows)
        point = isinstance(weights.recurrent, Whole) and weights.recurrent.is_point
        steps = STEPS if self.most <= STEPS else FIRST_STEPS
        if layer.summarises:
            steps = FEW_STEPS if self.most <= FEW_STEPS else 0
        self.affordable = min(steps, int(WORK / max(1, per_step * (1 if point else 8))))
        self._ahead: dict[int, Inputs] = {}
        self.keeps_runs = self.affordable * layer.groups * layer.units <= 1 << 22

    def run(self, state: State) -> State:
        """All steps: exactly in runs of equal inputs while that is affordable, then a fixpoint."""
        stops = self._stops()
        zero = tuple(Box(np.zeros_like(s.low), np.zeros_like(s.low)) for s in state)
        # A sequence without a step ends in its initial state by the standard, in zeros by ONNX Runtime.
        if self.pads and bool((self.low <= 0).any()):
            empty = (self.low <= 0)[:, None]
            state = tuple(_where(empty, s.join(z), s) for s, z in zip(state, zero))
        done, taken = 0, 0
        for index, stop in enumerate(stops):
            inputs: Inputs | None = None
            while done < stop:
                if taken >= self.affordable:
                    return self._rest(done, state)
                if inputs is None:
                    inputs = self._known_inputs(stops[index : index + self.affordable - taken], done)
                after = self._frozen(done, done + 1, state, self.step(inputs, state))
                settled = all(a.within(b) and b.within(a) for a, b in zip(state, after))
                self._emit(done, done + 1, after[0])
                state, taken = after, taken + 1
                if settled and np.isinf(stop):
                    return state
                done = int(stop) if settled else done + 1
        return state

    def _stops(self) -> list[float]:
        """The steps at which the inputs, or the set of sequences that go on, may change, up to the last one."""
        stops = {0.0, self.most, *self.low.tolist(), *self.high.tolist()}
        cuts = self.x.grid[0]
        if cuts is not None:
            if not self.backwards:
                stops.update(float(c) for c in cuts)
            else:
                stops.update(float(n - c) for n in np.unique(self.high) for c in cuts)
        return sorted(s for s in stops if 0 < s <= self.most)

    def _known_inputs(self, stops: Sequence[float], start: int) -> Inputs:
        """The inputs of the step at `start`, those of the runs of steps up to each of `stops` being computed with them."""
        found = self._ahead.pop(start, None)
        if found is not None:
            return found
        layer, matrix = self.layer, self.weights.inputs
        together = isinstance(matrix, Sums) or (isinstance(matrix, Whole) and matrix.is_point)
        most = AHEAD // max(1, layer.groups * layer.units * layer.gates) if together else 1
        starts = [start, *(int(stop) for stop in stops[:-1])][: max(1, most)]
        boxes = [self._box(first, first + 1) for first in starts]
        term = matrix.times(Box(np.concatenate([x.low for x in boxes]), np.concatenate([x.high for x in boxes])))
        for index, first in enumerate(starts):
            rows = slice(index * layer.groups, (index + 1) * layer.groups)
            part = Term(term.low[rows], term.high[rows], term.magnitude[rows], term.terms)
            self._ahead[first] = Inputs(boxes[index], part)
        return self._ahead.pop(start)

    def _inputs(self, start: int, stop: float) -> Inputs:
        """The inputs of steps `start` to `stop` - 1, times their weights."""
        box = self._box(start, stop)
        return Inputs(box, self.weights.inputs.times(box))

    def _box(self, start: int, stop: float) -> Box:
        """What holds for the inputs of each of the steps `start` to `stop` - 1."""
        layer, x = self.layer, self.x
        if not self.is_aligned or x.grid[0] is None:
            box = layer.columns(elements_between(x, 0, 0, None), 1, layer.features)
        elif not self.backwards:
            box = layer.columns(elements_between(x, 0, start, int(stop)), 1, layer.features)
        else:
            box = self._reversed(start, stop)
        shape = (layer.groups, box.low.shape[1])
        return Box(np.broadcast_to(box.low, shape), np.broadcast_to(box.high, shape))

    def _reversed(self, start: int, stop: float) -> Box:
        layer, box = self.layer, None
        for length in np.unique(self.high):
            # A sequence that has ended reads anything: its state does not change.
            part = elements_between(self.x, 0, max(int(length - stop), 0), max(int(length) - start, 1))
            found = layer.columns(part, 1, layer.features)
            box = found if box is None else _where((self.high == length)[:, None], found, box)
        assert box is not None
        return box

    def _frozen(self, start: int, stop: float, before: State, after: State) -> State:
        """The state after a step: unchanged where the sequence has ended, either where it may have."""
        running, ended = (self.low >= stop)[:, None], (self.high <= start)[:, None]
        if running.all():
            return after
        return tuple(_where(running, a, _where(ended, b, a.join(b))) for a, b in zip(after, before))

    def _emit(self, start: int, stop: float, hidden: Box) -> None:
        """Keep what is output at a step: zero beyond the end of a sequence."""
        if self.pads:
            zero = Box(np.zeros_like(hidden.low), np.zeros_like(hidden.low))
            running, ended = (self.low >= stop)[:, None], (self.high <= start)[:, None]
            hidden = _where(running, hidden, _where(ended, zero, hidden.join(zero)))
        self.seen = hidden if self.seen is None else self.seen.join(hidden)
        if self.keeps_runs:
            self.runs.append((start, hidden))

    def _rest(self, done: int, start: State) -> State:
        """All steps from `done` on at once: a state that no step leaves, then narrowed."""
        arithmetic = self.layer.arithmetic
        arithmetic.records = False
        arithmetic.origin = start[-1], self.most - done
        inputs = self._inputs(done, self.most)
        state = self._bounded(inputs, start) if self.layer.summarises else None
        if state is None:
            state = self._ascended(inputs, start)
        for _ in range(1 if self.layer.summarises else 3):
            state = tuple(s.join(a) for s, a in zip(start, self.step(inputs, state)))
        arithmetic.records = True
        after = self.step(inputs, state)
        reached = tuple(s.join(a) for s, a in zip(start, after))
        ended = bool((self.low < self.most).any())
        self._emit(done, self.most, after[0])
        arithmetic.origin = None
        return reached if ended else after

    def _bounded(self, inputs: Inputs, start: State) -> State | None:
        """A state from above: any memory, hidden units that their activation bounds; None if a step leaves it."""
        format, shape = self.layer.format, start[0].low.shape
        anything = Box(np.full(shape, format.low), np.full(shape, format.high))
        reach = power_above(self.layer.arithmetic.activated(self.bounding, anything).magnitude)
        state = (start[0].join(Box(-reach, reach)), *(anything for _ in start[1:]))
        after = self.step(inputs, state)
        if not all(a.within(s) for a, s in zip(after, state)) or bool((state[0].magnitude >= format.high).any()):
            return None
        return tuple(s.join(a) for s, a in zip(start, after))

    def _ascended(self, inputs: Inputs, start: State) -> State:
        """The state widened until a step stays inside."""
        state = start
        thresholds = _thresholds(self.layer.format)
        for count in range(4 * GENTLE):
            after = self.step(inputs, state)
            if all(a.within(s) for a, s in zip(after, state)):
                return state
            steps = thresholds if count < GENTLE else thresholds[[0, -1]]
            state = tuple(_widened(s, a, steps) for s, a in zip(state, after))
        raise NotAnalysed("the state does not come to rest")

    # -- output -----------------------------------------------------------------------------------------------------

    def output(self) -> Range:
        """Y of this direction: [steps, batch, hidden]."""
        layer = self.layer
        if self.seen is None:
            return Range.uniform((layer.steps, layer.batch, layer.hidden), layer.format, np.inf, -np.inf)
        if not self.is_aligned or not self.keeps_runs:
            seen = self.seen
            if self.pads:
                zero = np.zeros_like(seen.low)
                seen = seen.join(Box(zero, zero))
            return spread(layer.range(seen), 0, layer.steps)
        starts = np.array([start for start, _ in self.runs], np.int64)
        low, high = np.stack([box.low for _, box in self.runs]), np.stack([box.high for _, box in self.runs])
        cuts = np.append(starts, int(self.most))
        if self.backwards:
            cuts, low, high = self._turned(starts, low, high)
        last = layer.range(self.runs[-1][1])
        grid = (None if len(cuts) == 2 else cuts, *last.grid)
        shape = (layer.steps, layer.batch, layer.hidden)
        return Range(layer.format, shape, grid, low, high).limit()

    def _turned(self, starts: npt.NDArray[np.int64], low: Array, high: Array) -> tuple[npt.NDArray[np.int64], Array, Array]:
        """Runs of steps as runs of times: a sequence of length n is read from time n - 1 down to 0."""
        lengths = self.high.astype(np.int64)
        ends = np.append(starts, int(self.most))
        times = np.unique(np.clip(lengths[:, None] - ends[None, :], 0, int(self.most)))
        times = np.union1d(np.union1d(times, lengths), [0, int(self.most)])
        steps = lengths[None, :] - 1 - times[:-1, None]
        index = np.searchsorted(starts, np.maximum(steps, 0), side="right") - 1
        groups = np.arange(len(lengths))[None, :]
        ended = (steps < 0)[:, :, None]
        return times, np.where(ended, 0.0, low[index, groups]), np.where(ended, 0.0, high[index, groups])


def _where(mask: npt.NDArray[np.bool_], a: Box, b: Box) -> Box:
    return Box(np.where(mask, a.low, b.low), np.where(mask, a.high, b.high))


def _thresholds(format: Format) -> Array:
    """The ends of the format, zero, and powers of two between them (of 16 beyond 2^16)."""
    exponents = [*range(-8, 16), *range(16, int(np.log2(format.high)), 4)]
    powers = np.ldexp(1.0, np.array(exponents))
    powers = powers[powers < format.high]
    return np.concatenate(([format.low], -powers[::-1], [0.0], powers, [format.high]))


def _widened(older: Box, newer: Box, thresholds: Array) -> Box:
    joined = older.join(newer)
    below = thresholds[np.maximum(np.searchsorted(thresholds, joined.low, side="right") - 1, 0)]
    above = thresholds[np.minimum(np.searchsorted(thresholds, joined.high, side="left"), len(thresholds) - 1)]
    low = np.where(joined.low < older.low, below, joined.low)
    return Box(low, np.where(joined.high > older.high, above, joined.high))
