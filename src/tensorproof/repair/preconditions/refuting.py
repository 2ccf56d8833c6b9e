"""Centres that cannot be the middle of any precondition: what is not restricted makes a node fail there, in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tensorproof.assumptions import Assumptions, Domain
from tensorproof.checking import analyse
from tensorproof.confirm.objective import Objective
from tensorproof.confirm.observer import CannotObserve, Observer
from tensorproof.confirm.observing import Scene, Watch, can_be_fed, watches_of
from tensorproof.confirm.sampling import TACTICS, Point, points
from tensorproof.confirm.search import Budget, Search
from tensorproof.execute.meaning import NotExecutable
from tensorproof.execute.runtime import Runtime
from tensorproof.preparing import Prepared
from tensorproof.repair.preconditions.centres import as_point
from tensorproof.repair.preconditions.sites import Box, Site
from tensorproof.targets import flushes_subnormals

#: Samples at a centre before its search, evaluations of the objective in that, and centres that are searched at most.
SAMPLES, EVALUATIONS, SEARCHES = 3 * len(TACTICS), 200, 4
#: Random values of the sites at which witnesses are run as well, and those of them at which another one is searched.
ELSEWHERE, SEARCHES_ELSEWHERE = 100, 8


@dataclass(frozen=True, slots=True)
class Refutation:
    """A point that makes a node fail at the first centre; how many centres fail, all of them, and how many random values do.

    It says nothing about values that were not run: where some random value does not fail, intervals may lie there.
    """

    node: str
    witness: Point
    centres: int
    random_points: int
    failing_points: int


def pinned(assumptions: Assumptions, sites: Sequence[Site], box: Box) -> Assumptions:
    """The assumptions with every input and weight among the sites held in its interval."""
    inputs, weights = dict(assumptions.inputs), dict(assumptions.weights)
    for site, interval in zip(sites, box, strict=True):
        given = inputs if site.kind == "input" else weights
        if site.kind != "node":
            given[site.number] = site.domain(interval, given[site.number])
    return replace(assumptions, inputs=inputs, weights=weights)


def refute(
    prepared: Prepared, assumptions: Assumptions, nodes: Sequence[str], sites: Sequence[Site], centres: Sequence[Box], seed: int
) -> Refutation | None:
    """A refutation of all centres, or None if one of them stands (or none can be run)."""
    if any(site.kind == "node" or site.shape is None for site in sites):
        return None
    try:
        with Runtime(data_folder=prepared.data_folder, flushes=flushes_subnormals(prepared.target.name)) as runtime:
            return _Refuting(prepared, assumptions, frozenset(nodes), sites, seed, runtime).run(centres)
    except CannotObserve:
        return None


class _Refuting:
    def __init__(
        self,
        prepared: Prepared,
        assumptions: Assumptions,
        nodes: frozenset[str],
        sites: Sequence[Site],
        seed: int,
        runtime: Runtime,
    ) -> None:
        self._prepared = prepared
        self._assumptions = assumptions
        self._nodes = nodes
        self._sites = sites
        self._seed = seed
        self._runtime = runtime
        self._found: list[tuple[Observer, Point]] = []

    def run(self, centres: Sequence[Box]) -> Refutation | None:
        searches = 0
        for centre in centres:
            if self._fails_again(as_point(self._sites, centre)):
                continue
            searches += 1
            if searches > SEARCHES or not self._search(centre):
                return None
        (observer, witness), *_ = self._found
        whole = {site.name: (site.domain(site.whole, self._domain(site)), site.shape or (), site.format) for site in self._sites}
        count = ELSEWHERE if whole else 0
        elsewhere = list(points(self._seed, whole, count))
        others = [point for point in elsewhere if not self._fails_again(point)]
        failing = count - len(others)
        if len(others) <= SEARCHES_ELSEWHERE:
            failing += sum(self._fails_again(point) or self._search(self._held(point)) for point in others)
        return Refutation(observer.watch.finding.node, witness, len(centres), count, failing)

    def _domain(self, site: Site) -> Domain:
        return (self._assumptions.inputs if site.kind == "input" else self._assumptions.weights)[site.number]

    def _fails_again(self, restricted: Point) -> bool:
        """Whether a point that failed elsewhere fails with these values of the sites, too."""
        return any(observer.fails({**witness, **restricted}) for observer, witness in self._found)

    def _held(self, point: Point) -> Box:
        """The box that is this point alone."""
        values = [point[site.name].astype(np.float64) for site in self._sites]
        return tuple((value, value) for value in values)

    def _search(self, centre: Box) -> bool:
        model, proto = self._prepared.graph, self._prepared.proto
        analysis = analyse(model, pinned(self._assumptions, self._sites, centre), self._prepared.target, effort=0)
        if not all(can_be_fed(model, number, analysis) for number in model.graph.inputs):
            return False
        scene = Scene.of(model, analysis)
        for watch in watches_of(model, analysis):
            if watch.finding.node not in self._nodes:
                continue
            observer = Observer(self._runtime, proto, model, analysis, watch, scene.free)
            self._look(observer, scene)
            if watch.point is not None:
                self._found.append((observer, watch.point))
                return True
        return False

    def _look(self, observer: Observer, scene: Scene) -> None:
        if any(observer.note(point) for point in points(self._seed, scene.domains, SAMPLES)):
            return
        watch = observer.watch
        if watch.finding.rule.sought is None:
            return
        search = Search(observer, scene.domains, lambda names: _objective(scene, watch, names), Budget(self._seed, EVALUATIONS))
        try:
            search.run()
        except (ImportError, NotExecutable):
            search.run_samples()


def _objective(scene: Scene, watch: Watch, variables: list[str]) -> Objective:
    formats = {number: summary.format for number, summary in scene.analysis.summaries.items()}
    return Objective(scene.model, watch.finding, watch.node, variables, formats)
