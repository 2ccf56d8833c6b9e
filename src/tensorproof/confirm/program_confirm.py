"""`ProgramConfirm`: what confirmations that run a program in its own framework have in common.

Points of the box are run, each shows what it shows of every finding; with a budget, a search goes on where samples end, on our own
execution of the graph, and what was found is made plain. How the program is run is the business of those that derive from it.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import Generic, TypeVar

from tensorproof.checking import Analysis
from tensorproof.confirm.objective import Objective
from tensorproof.confirm.observer import CannotObserve, Observing
from tensorproof.confirm.observing import Scene, Watch, can_be_fed
from tensorproof.confirm.sampling import Point, alike, points
from tensorproof.confirm.search import Budget, Search
from tensorproof.confirm.shrink import Shrinker
from tensorproof.execute.meaning import NotExecutable
from tensorproof.findings import Finding, Witness
from tensorproof.graph import Model

#: Points with inputs that are equal to one another, after those of the box.
ALIKE_RUNS = 8

#: Replays that go into making a witness plain.
SHRINK_RUNS = 200

Runner = TypeVar("Runner")


@dataclass(slots=True, kw_only=True)
class ProgramConfirm(ABC, Generic[Runner]):
    """The search of `check` and, with a budget, that of `confirm`. An interrupt keeps what was found."""

    seed: int = 0
    runs: int = 33
    time_limit: float | None = None
    folder: Path | None = None
    progress: Callable[[int], None] | None = None
    nodes: tuple[str, ...] = ()
    budget: Budget | None = None
    shrink: bool = True
    search_progress: Callable[[str, int, float], None] | None = None
    notes: list[str] = field(default_factory=list[str])
    #: The points on which nodes failed, by rule and node.
    failing: dict[tuple[str, str], Point] = field(default_factory=dict[tuple[str, str], Point])
    _deadline: float | None = None

    def __call__(self, model: Model, analysis: Analysis) -> Sequence[Finding]:
        self._deadline = None if self.time_limit is None else time.monotonic() + self.time_limit
        with self._opened() as runner:
            watches = [watch for watch in self._watched(model, analysis, runner) if self._is_chosen(watch)]
            unfed = [model.name_of(n) for n in model.graph.inputs if not can_be_fed(model, n, analysis)]
            if watches and unfed:
                self.notes.append(f"not confirmed: the shape of input {unfed[0]!r} is not known")
            elif watches:
                scene = Scene.of(model, analysis)
                try:
                    self._sample(runner, watches, scene)
                    self._look_further(runner, watches, scene)
                except KeyboardInterrupt:
                    self.notes.append("interrupted: findings that were not reached yet stay possible")
                self._save(watches)
        self.failing |= {(w.finding.rule.code, w.finding.node): w.point for w in watches if w.point is not None}
        settled = {watch.index: watch.settled() for watch in watches}
        return [settled.get(index, finding) for index, finding in enumerate(analysis.findings)]

    # -- what a framework says ----------------------------------------------------------------------------------------

    @abstractmethod
    def _opened(self) -> AbstractContextManager[Runner]:
        """What runs the program."""

    @abstractmethod
    def _watched(self, model: Model, analysis: Analysis, runner: Runner) -> Iterable[Watch]:
        """The findings that a run can confirm, each with the values that the program shows of its node."""

    @abstractmethod
    def _sample(self, runner: Runner, watches: Sequence[Watch], scene: Scene) -> None:
        """Run the points of the box; each shows what it shows of every finding."""

    @abstractmethod
    def _observer(self, runner: Runner, watch: Watch, scene: Scene) -> Observing:
        """What a search for one finding asks."""

    @abstractmethod
    def _saved(self, folder: Path, watch: Watch, point: Point) -> Witness:
        """Write the files of a witness."""

    # -- what all have in common --------------------------------------------------------------------------------------

    def _is_chosen(self, watch: Watch) -> bool:
        return not self.nodes or any(fnmatchcase(watch.finding.node, pattern) for pattern in self.nodes)

    @property
    def _is_over(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    def _points(self, scene: Scene) -> Iterator[Point]:
        """The points of the box that are run, as far as the time limit lets them."""
        sampled = chain(
            points(self.seed, scene.domains, self.runs), alike(self.seed, scene.domains, ALIKE_RUNS if self.runs else 0)
        )
        for count, point in enumerate(sampled):
            if self._is_over:
                self.notes.append("confirmation was cut short by the time limit")
                return
            yield point
            if self.progress is not None:
                self.progress(count + 1)

    def _look_further(self, runner: Runner, watches: Sequence[Watch], scene: Scene) -> None:
        if self.budget is None:
            return
        for watch in sorted(watches, key=lambda watch: watch.point is None):
            if self._is_over:
                self.notes.append("the time limit was reached: findings that were not reached yet stay possible")
                return
            try:
                observer = self._observer(runner, watch, scene)
                if watch.point is None and watch.finding.rule.sought is not None:
                    self._seek(observer, scene, self.budget)
                if watch.point is not None and self.shrink:
                    shrinker = Shrinker(watch.point, scene.domains, _as_before(observer), budget=SHRINK_RUNS)
                    try:
                        shrinker.run()
                    finally:
                        watch.point = shrinker.best
            except CannotObserve as reason:
                self.notes.append(f"{watch.finding.node}: {reason}")

    def _seek(self, observer: Observing, scene: Scene, budget: Budget) -> None:
        watch = observer.watch
        formats = {number: summary.format for number, summary in scene.analysis.summaries.items()}
        report = self.search_progress

        def make_objective(variables: list[str]) -> Objective:
            return Objective(scene.model, watch.finding, watch.node, variables, formats)

        def advance(done: int, closest: float) -> None:
            if report is not None:
                report(watch.finding.node, done, closest)

        search = Search(observer, scene.domains, make_objective, budget, advance, lambda: self._is_over)
        try:
            search.run()
        except NotExecutable as reason:
            self.notes.append(f"{watch.finding.node} was searched by samples alone: {reason}")
            search.run_samples()
        except ImportError:
            self.notes.append("PyTorch is not installed: findings were searched by samples alone")
            search.run_samples()

    def _save(self, watches: Sequence[Watch]) -> None:
        if self.folder is None:
            return
        for watch in watches:
            if watch.point is not None and watch.finding.witness is None:
                watch.finding = replace(watch.finding, witness=self._saved(self.folder, watch, watch.point))


def _as_before(observer: Observing) -> Callable[[Point], bool]:
    """Whether a point fails as the one that is kept does: what an output showed, an output still has to show."""
    kept = observer.watch.reaches

    def fails(point: Point) -> bool:
        failed = observer.fails(point)
        if kept == "output" and observer.watch.reaches != kept:
            observer.watch.reaches = kept
            return False
        return failed

    return fails
