"""The search for a system test: points of two parts, replayed by training first and running the trained model then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from tensorproof.checking import Analysis
from tensorproof.confirm.objective import Measured, Objective
from tensorproof.confirm.observer import Observer
from tensorproof.confirm.observing import Domains, Watch
from tensorproof.confirm.sampling import Point
from tensorproof.confirm.search import Budget, Search
from tensorproof.confirm.system_objective import parts
from tensorproof.confirm.training import Training, TrainingFailed
from tensorproof.confirm.vertices import KINDS, vertex
from tensorproof.execute.runtime import Runtime
from tensorproof.formats import Array
from tensorproof.graph import Model

if TYPE_CHECKING:
    import onnx

#: Changes of all labels at once that one start may take.
VERTEX_STEPS = 3


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
        labels = [name for name, (domain, _, format) in domains.items() if domain.kind in KINDS and format.is_float]
        super().__init__(observer, domains, lambda boxes: make_objective([*boxes, *labels]), budget, report, is_over)
        self._labels = labels
        self._slopes: Mapping[str, Array] = {}
        self._first = first

    def _measure(self, point: Point) -> Measured:
        measured = super()._measure(point)
        self._slopes = measured.gradients
        return Measured(measured.value, {n: slope for n, slope in measured.gradients.items() if n in self._boxes})

    def _starts(self) -> Iterator[Point]:
        yield from self._first
        for start in super()._starts():
            yield self._at_vertices(start)

    def _at_vertices(self, start: Point) -> Point:
        best, value = start, self._measure(start).value
        for _ in range(VERTEX_STEPS):
            moved = {
                name: vertex(best[name], slope, *self._kind(name)) for name, slope in self._slopes.items() if name in self._labels
            }
            if all((moved[name] == best[name]).all() for name in moved) or self._is_spent():
                break
            point = {**best, **moved}
            found = self._measure(point).value
            if not found < value:
                break
            best, value = point, found
        return best

    def _kind(self, name: str) -> tuple[Any, Any]:
        domain, _, format = self._domains[name]
        return domain, format
