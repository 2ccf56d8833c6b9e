"""Full confirmation: samples first, then a search by gradients for every finding that they did not confirm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tensorproof.confirm.objective import Objective
from tensorproof.confirm.observer import CannotObserve, Observer
from tensorproof.confirm.observing import Domains, Scene, Watch
from tensorproof.confirm.quick import QuickConfirm
from tensorproof.confirm.sampling import Point
from tensorproof.confirm.search import Budget, Search
from tensorproof.confirm.shrink import Shrinker
from tensorproof.execute.meaning import NotExecutable
from tensorproof.execute.runtime import Runtime

#: Replays that go into making a witness plain.
SHRINK_RUNS = 200

#: Called with the node, the evaluations so far and the smallest objective.
SearchProgress = Callable[[str, int, float], None]


@dataclass(slots=True)
class FullConfirm(QuickConfirm):
    """The search of `confirm`. An interrupt ends it; what was found until then is kept."""

    budget: Budget = field(default_factory=Budget)
    shrink: bool = True
    search_progress: SearchProgress | None = None
    #: Evaluations of objectives and replays that searches took, by node.
    efforts: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])

    def _look_further(self, runtime: Runtime, watches: Sequence[Watch], scene: Scene) -> None:
        try:
            # What samples found is saved before a long search begins.
            for watch in sorted(watches, key=lambda watch: watch.point is None):
                if runtime.is_over:
                    self.notes.append("the time limit was reached: findings that were not reached yet stay possible")
                    break
                self._confirm(watch, runtime, scene)
        except KeyboardInterrupt:
            self.notes.append("interrupted: findings that were not reached yet stay possible")

    def _confirm(self, watch: Watch, runtime: Runtime, scene: Scene) -> None:
        try:
            observer = Observer(runtime, self.proto, scene.model, scene.analysis, watch, scene.free)
            if watch.point is None and watch.finding.rule.sought is not None:
                self._seek(observer, scene, runtime)
            if watch.point is not None and self.shrink:
                self._make_plain(observer, watch.point, scene.domains)
            self._replay(runtime, [watch], scene.free)
            self._save([watch], scene)
        except CannotObserve as reason:
            if runtime.is_over:
                return
            self.notes.append(f"{watch.finding.node}: {reason}")

    def _seek(self, observer: Observer, scene: Scene, runtime: Runtime) -> None:
        watch = observer.watch
        formats = {number: summary.format for number, summary in scene.analysis.summaries.items()}
        node, report = watch.finding.node, self.search_progress

        def make_objective(variables: list[str]) -> Objective:
            return Objective(scene.model, watch.finding, watch.node, variables, formats)

        def advance(done: int, closest: float) -> None:
            if report is not None:
                report(node, done, closest)

        search = Search(observer, scene.domains, make_objective, self.budget, advance, lambda: runtime.is_over)
        try:
            search.run()
        except ImportError:
            self.notes.append("searched by samples alone: the search by gradients needs the extra `torch`")
            search.run_samples()
        except NotExecutable as reason:
            self.notes.append(f"{node} was searched by samples alone: {reason}")
            search.run_samples()
        self.efforts[node] = search.evaluations, observer.runs

    def _make_plain(self, observer: Observer, point: Point, domains: Domains) -> None:
        shrinker = Shrinker(point, domains, observer.fails, budget=SHRINK_RUNS)
        try:
            shrinker.run()
        finally:
            # Whatever ended it, the best point so far fails.
            observer.watch.point = shrinker.best
