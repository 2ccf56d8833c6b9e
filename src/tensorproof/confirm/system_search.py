"""The search for a system test: points of two parts, replayed by training first and running the trained model then."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from tensorproof.checking import Analysis
from tensorproof.confirm.exact_zero import exact_zeros
from tensorproof.confirm.objective import NOWHERE, Measured
from tensorproof.confirm.observer import Observer
from tensorproof.confirm.observing import Domains, Watch
from tensorproof.confirm.patchwork import patchworks
from tensorproof.confirm.rows import best_rows, nearest_to_zero, row_count
from tensorproof.confirm.sampling import Point, points
from tensorproof.confirm.search import ADAM_RATE, BEST_STARTS, SCOUTS, Budget, Search
from tensorproof.confirm.system_objective import INFERENCE, TRAINING, SystemObjective, parts
from tensorproof.confirm.training import Training, TrainingFailed
from tensorproof.confirm.vertices import labels_of, with_better_labels
from tensorproof.execute.runtime import Runtime
from tensorproof.formats import Array
from tensorproof.graph import Model

if TYPE_CHECKING:
    import onnx

#: Descents that go on from the best point so far have smaller steps, one after the other, in widths of the box.
LATER_RATES = (0.02, 0.008, 0.003)
#: Steps that make starts of another kind better, and those of each round in which the best of them is made better still.
FIRST_STEPS, LATER_STEPS = 10, 4
#: What a round has to gain, relative to the objective, for another one to follow.
GAIN = 0.01
#: The first steps of the gradient's sign by either part alone, in widths of the box.
INPUT_STEP, EXAMPLE_STEP = 0.3, 0.01
#: Orders of rows that are tried between two points on either side of 0.
ORDERS = 3
#: The part of the samples that are patchworks where there are any.
PIECED = 2 / 3
#: Bytes of the weights of one course of training that are kept, for other inputs.
LARGE_COURSE = 1 << 28


#: What leads a point that was moved back to where points of its kind belong.
Lead = Callable[[Point], Point]


class SystemObserver(Observer):
    """Replays points of two parts: true training in the model's own formats, and ONNX Runtime on the weights after each step.

    An example on which training itself fails before the node does shows nothing of the node: it counts as no failure.
    """

    def __init__(
        self, runtime: Runtime, proto: onnx.ModelProto, model: Model, analysis: Analysis, watch: Watch, training: Training
    ) -> None:
        super().__init__(runtime, proto, model, analysis, watch, training.names)
        self._training = training
        self._last: tuple[bytes, list[Point]] = b"", []
        #: The point that failed first.
        self.found: Point | None = None

    def fails(self, point: Mapping[str, npt.NDArray[Any]]) -> bool:
        return self.failing(point) is not None

    def failing(self, point: Mapping[str, npt.NDArray[Any]]) -> tuple[int, Point] | None:
        """The first step after which the node fails, and what the trained model is run on then: the input and the weights."""
        example, inference = parts(point)
        self.values = {}
        for step, weights in enumerate(self._course(example), 1):
            failed = super().fails(inference | weights)
            self.values = {**self.values, **point}
            if failed:
                return step, inference | weights
        return None

    def note(self, point: Point) -> bool:
        failed = self.fails(point)
        if failed and self.found is None:
            self.found = point
        return failed

    def _course(self, example: Point) -> Iterator[Point]:
        """The weights after each step, for as long as training does not fail. The last course is kept unless it is large."""
        key = b"".join(array.tobytes() for array in example.values())
        if self._last[0] == key:
            yield from self._last[1]
            return
        course: list[Point] = []
        try:
            for weights in self._training.course(example):
                yield weights
                if self._training.steps * sum(array.nbytes for array in weights.values()) <= LARGE_COURSE:
                    course.append(weights)
        except TrainingFailed:
            pass
        if course:
            self._last = key, course


class SystemSearch(Search):
    """A search that moves labels, too: where a domain is no box, its starts go to the ends that the gradient points at.

    `first` are starts that come before all others; `more` are starts of another kind, the best of which comes before the samples.
    Where an operand has to be exactly 0, two points on either side of it are a find: between them lies one.
    """

    def __init__(
        self,
        observer: SystemObserver,
        domains: Domains,
        make_objective: Callable[[list[str]], SystemObjective],
        budget: Budget,
        *,
        first: Sequence[Point] = (),
        more: Iterable[Sequence[tuple[Point, Lead]]] = (),
        has_several_steps: bool = False,
        report: Callable[[int, float], None] | None = None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self._labels = labels_of(domains)
        super().__init__(observer, domains, self._system_objective, budget, report, is_over)
        self._make_system_objective = make_objective
        self._system_observer = observer
        self._slopes: Mapping[str, Array] = {}
        self._first = first
        self._more = more
        self._has_several_steps = has_several_steps
        self._best: tuple[float, Point | None] = NOWHERE, None
        self._system: SystemObjective | None = None
        self._sizes = {INFERENCE: INPUT_STEP, TRAINING: EXAMPLE_STEP}
        #: A point with its operand, and another one with the number of an element of the operand that is on the other side of 0.
        self._side: tuple[Point, Array] | None = None
        self._crossing: tuple[Point, Point, int] | None = None
        #: What found the point.
        self.how: Literal["samples", "direct"] = "samples" if budget.method == "random" else "direct"

    def run(self) -> Point | None:
        """As every search; but without starts of its own, samples are replayed first: that costs less than second derivatives."""
        if self._budget.method == "full" and not self._first:
            for point in points(self._budget.seed, self._domains, SCOUTS):
                if self._is_over():
                    return None
                if self._fails(point):
                    self.how = "samples"
                    return point
        return super().run()

    def run_samples(self) -> Point | None:
        """Where training has several steps, patchworks come first."""
        seed, count = self._budget.seed, self._budget.evaluations
        if self._budget.method != "random" or not self._has_several_steps:
            return super().run_samples()
        pieced = patchworks(seed, self._domains, round(PIECED * count))
        candidates = islice(chain(pieced, points(seed, self._domains, count)), count)
        return next((point for point in candidates if self._fails(point) or self._is_over()), None)

    def _is_spent(self) -> bool:
        return super()._is_spent() or self._system_observer.found is not None

    def _measure(self, point: Point) -> Measured:
        measured = super()._measure(point)
        self._slopes = measured.gradients
        if measured.value < self._best[0]:
            self._best = measured.value, point
        return Measured(measured.value, {n: slope for n, slope in measured.gradients.items() if n in self._boxes})

    # -- starts ---------------------------------------------------------------------------------------------------------

    def _starts(self) -> Iterator[Point]:
        """Samples, best first, with better labels. Then the best point of all again and again, and one new sample in between."""
        yield from self._first
        yield from self._other_starts()
        for number, start in enumerate(super()._starts()):
            yield self._relabelled(start)
            if number >= BEST_STARTS - 1:
                yield from self._best_again()

    def _best_again(self) -> Iterator[Point]:
        for self._rate in LATER_RATES:
            if self._best[1] is not None:
                yield self._relabelled(self._best[1])
        self._rate = ADAM_RATE

    def _other_starts(self) -> Iterator[Point]:
        """The best point of each group, made better for as long as it gets better. They may spend half of the budget."""
        assert self._system is not None
        self._system.substitutes = False
        for group in self._more:
            if self.evaluations > self._budget.evaluations // 2:
                break
            found: list[tuple[float, Point, Lead]] = []
            for start, lead in group:
                self._sizes = {INFERENCE: INPUT_STEP, TRAINING: EXAMPLE_STEP}
                point = self._with_better_rows(self._relabelled(self._with_better_input(start, FIRST_STEPS)))
                point = self._with_better_input(point, FIRST_STEPS)
                found.append((self._measure(point).value, point, lead))
                if self._crossed() is not None or self._is_spent():
                    return
            _, point, lead = min(found, key=lambda entry: entry[0])
            yield self._polished(point, lead)
        self._system.substitutes = True

    def _polished(self, point: Point, lead: Lead) -> Point:
        """A point with a better input, rows, example and labels, in turn, for as long as that leads on."""
        before = self._measure(point).value
        while not self._is_spent():
            for _ in range(2):
                point = self._with_better_example(self._with_better_rows(self._with_better_input(point, LATER_STEPS)), lead)
            point = self._relabelled(point)
            value = self._measure(point).value
            if not value < before - GAIN * abs(before):
                break
            before = value
        return point

    def _with_better_rows(self, start: Point) -> Point:
        """A point with some rows of its training example in the place of others."""
        best, value = start, self._measure(start).value
        self._fails(best)
        for other in list(best_rows(best, self._slopes, self._labels)):
            if self._is_spent():
                break
            found = self._measure(other).value
            self._fails(other)
            if found < value:
                best, value = other, found
        return best

    def _with_better_input(self, start: Point, steps: int) -> Point:
        """A point with another inference input; the training example stays, so that no second derivatives are needed."""
        assert self._system is not None
        return self._stepped(start, INFERENCE, steps, self._system.measure_input)

    def _with_better_example(self, start: Point, lead: Lead) -> Point:
        """A point with another training example, each led back to where examples of its kind belong."""
        return self._stepped(start, TRAINING, LATER_STEPS, self._measure, lead)

    def _stepped(
        self, start: Point, part: str, steps: int, measure: Callable[[Point], Measured], lead: Lead | None = None
    ) -> Point:
        """Steps of the gradient's sign by one part of a point, halved whenever they lead nowhere; sizes last from call to call."""
        point, measured = start, measure(start)
        self._fails(point)
        for _ in range(steps):
            if self._is_spent() or measured.is_flat:
                break
            size = self._sizes[part]
            moved = {
                name: point[name].astype(np.float64) - size * (self._boxes[name][1] - self._boxes[name][0]) * np.sign(slope)
                for name, slope in measured.gradients.items()
                if name in self._boxes and name.startswith(part)
            }
            tried = self._within(moved, point)
            tried = tried if lead is None else lead(tried)
            found = measure(tried)
            if found.value < measured.value:
                point, measured = tried, found
                self._sizes[part] = 1.5 * size
                self._fails(point)
            else:
                self._sizes[part] = 0.5 * size
        return point

    def _system_objective(self, boxes: list[str]) -> SystemObjective:
        self._system = self._make_system_objective([*boxes, *self._labels])
        return self._system

    def _relabelled(self, start: Point) -> Point:
        def measure(point: Point) -> tuple[float, Mapping[str, Array]]:
            return self._measure(point).value, self._slopes

        return with_better_labels(start, self._domains, measure, self._is_spent)

    # -- exact zeros ----------------------------------------------------------------------------------------------------

    def _fails(self, point: Point) -> bool:
        before = len(self._replayed)
        failed = super()._fails(point)
        if self._objective is not None and self._objective.seeks_zero and len(self._replayed) > before:
            self._note_side(point)
        return failed

    def _note_side(self, point: Point) -> None:
        operand = self._observer.operand()
        if operand is None or not operand.size:
            return
        if self._side is None or self._side[1].size != operand.size:
            self._side = point, operand.reshape(-1)
            return
        opposite = np.flatnonzero(self._side[1] * operand.reshape(-1) < 0.0)
        if opposite.size:
            self._crossing = self._side[0], point, int(opposite[0])

    def _descend(self, start: Point) -> Point | None:
        found = self._crossed()
        if found is None and not self._is_spent():
            found = super()._descend(start)
        return found if found is not None else self._crossed()

    def _crossed(self) -> Point | None:
        """A point between two on either side: row after row first, then as near as rounding allows."""
        if self._crossing is None:
            return None
        one, other, place = self._crossing
        self._crossing = None
        for number in range(ORDERS):
            order = np.random.default_rng([self._budget.seed, number]).permutation(row_count(one))
            last = one
            for last in nearest_to_zero(self._observer, one, other, place, order):
                if self._observer.note(last):
                    return last
            gradients = self._measure(last).gradients
            for point in exact_zeros(self._observer, last, gradients, self._boxes, self._within, self._budget.seed):
                if self._observer.note(point):
                    return point
            if self._is_spent():
                return None
        return None
