"""The search for a system test: points of two parts, replayed by training first and running the trained model then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy.typing as npt

from tensorproof.checking import Analysis
from tensorproof.confirm.objective import NOWHERE, Measured, Objective
from tensorproof.confirm.observer import Observer
from tensorproof.confirm.observing import Domains, Watch
from tensorproof.confirm.sampling import Point, points
from tensorproof.confirm.search import ADAM_RATE, BEST_STARTS, SCOUTS, Budget, Search
from tensorproof.confirm.system_objective import parts
from tensorproof.confirm.training import Training, TrainingFailed
from tensorproof.confirm.vertices import labels_of, with_better_labels
from tensorproof.execute.runtime import Runtime
from tensorproof.formats import Array
from tensorproof.graph import Model

if TYPE_CHECKING:
    import onnx

#: Descents that go on from the best point so far have smaller steps, one after the other, in widths of the box.
LATER_RATES = (0.02, 0.008, 0.003)


class SystemObserver(Observer):
    """Replays points of two parts: true training in the model's own formats, then ONNX Runtime on the trained weights.

    An example on which training itself fails shows nothing of the node: it counts as no failure.
    """

    def __init__(
        self, runtime: Runtime, proto: onnx.ModelProto, model: Model, analysis: Analysis, watch: Watch, training: Training
    ) -> None:
        super().__init__(runtime, proto, model, analysis, watch, training.names)
        self._training = training
        self._last: tuple[bytes, dict[str, npt.NDArray[Any]] | None] | None = None
        #: The point that failed first.
        self.found: Point | None = None

    def fails(self, point: Mapping[str, npt.NDArray[Any]]) -> bool:
        feeds = self.fed(point)
        if feeds is None:
            self.values = {}
            return False
        failed = super().fails(feeds)
        self.values = {**self.values, **point}
        return failed

    def note(self, point: Point) -> bool:
        failed = self.fails(point)
        if failed and self.found is None:
            self.found = point
        return failed

    def fed(self, point: Mapping[str, npt.NDArray[Any]]) -> Point | None:
        """What the trained model is run on: the inference input and the weights. None if training fails."""
        example, inference = parts(point)
        key = b"".join(array.tobytes() for array in example.values())
        if self._last is None or self._last[0] != key:
            try:
                self._last = key, self._training.trained(example)
            except TrainingFailed:
                self._last = key, None
        weights = self._last[1]
        return None if weights is None else {**inference, **weights}


class SystemSearch(Search):
    """A search that moves labels, too: where a domain is no box, its starts go to the ends that the gradient points at.

    `first` are starts that come before all others.
    """

    def __init__(
        self,
        observer: SystemObserver,
        domains: Domains,
        make_objective: Callable[[list[str]], Objective],
        budget: Budget,
        *,
        first: Sequence[Point] = (),
        report: Callable[[int, float], None] | None = None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        labels = labels_of(domains)
        super().__init__(observer, domains, lambda boxes: make_objective([*boxes, *labels]), budget, report, is_over)
        self._slopes: Mapping[str, Array] = {}
        self._first = first
        self._best: tuple[float, Point | None] = NOWHERE, None
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

    def _measure(self, point: Point) -> Measured:
        measured = super()._measure(point)
        self._slopes = measured.gradients
        if measured.value < self._best[0]:
            self._best = measured.value, point
        return Measured(measured.value, {n: slope for n, slope in measured.gradients.items() if n in self._boxes})

    def _starts(self) -> Iterator[Point]:
        """Samples, best first, with better labels. Then the best point of all again and again, and one new sample in between."""
        yield from self._first
        for number, start in enumerate(super()._starts()):
            yield self._relabelled(start)
            if number < BEST_STARTS - 1:
                continue
            for self._rate in LATER_RATES:
                if self._best[1] is not None:
                    yield self._relabelled(self._best[1])
            self._rate = ADAM_RATE

    def _relabelled(self, start: Point) -> Point:
        def measure(point: Point) -> tuple[float, Mapping[str, Array]]:
            return self._measure(point).value, self._slopes

        return with_better_labels(start, self._domains, measure, self._is_spent)
