"""Confirmation of findings in PyTorch programs: the program itself is run, eagerly.

Points of the box are run through the exported program operator by operator, which shows whether the node of a finding fails. A
finding is confirmed when the user's own module, called on that point, then fails at the line of the finding, too: in the
forward pass, or, for findings of the backward pass, in the gradients of its outputs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from tensorproof.checking import Analysis
from tensorproof.confirm import witness
from tensorproof.confirm.objective import Objective
from tensorproof.confirm.observer import CannotObserve, Observing
from tensorproof.confirm.observing import Scene, Watch, can_be_fed, legal_specials, look
from tensorproof.confirm.sampling import Point, alike, points
from tensorproof.confirm.search import Budget, Search
from tensorproof.confirm.shrink import Shrinker
from tensorproof.confirm.torch_witness import save
from tensorproof.execute.meaning import NotExecutable
from tensorproof.execute.torch_program import Gradients, ProgramFailed, ProgramRunner
from tensorproof.findings import Finding, Reaches
from tensorproof.graph import ABSENT, Model, Node

if TYPE_CHECKING:
    from tensorproof.frontends.torch_program import TorchProgram

#: Points with inputs that are equal to one another, after those of the box.
ALIKE_RUNS = 8

#: Replays that go into making a witness plain.
SHRINK_RUNS = 200


@dataclass(slots=True)
class TorchConfirm:
    """The search of `check` and, with a budget, that of `confirm`, in PyTorch. An interrupt keeps what was found."""

    program: TorchProgram
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
        runner = ProgramRunner(self.program.traced)
        watches = [watch for watch in _watches(model, analysis, runner) if self._is_chosen(watch)]
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
            self._save(runner, watches)
        self.failing |= {(w.finding.rule.code, w.finding.node): w.point for w in watches if w.point is not None}
        settled = {watch.index: watch.settled() for watch in watches}
        return [settled.get(index, finding) for index, finding in enumerate(analysis.findings)]

    def _is_chosen(self, watch: Watch) -> bool:
        return not self.nodes or any(fnmatchcase(watch.finding.node, pattern) for pattern in self.nodes)

    @property
    def _is_over(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    def _sample(self, runner: ProgramRunner, watches: Sequence[Watch], scene: Scene) -> None:
        """Run the points of the box; each shows what it shows of every finding."""
        legal = legal_specials(scene.model, scene.analysis)
        names = list(dict.fromkeys(name for watch in watches for name in watch.values()))
        refused = ""
        sampled = chain(
            points(self.seed, scene.domains, self.runs), alike(self.seed, scene.domains, ALIKE_RUNS if self.runs else 0)
        )
        for count, point in enumerate(sampled):
            if self._is_over:
                self.notes.append("confirmation was cut short by the time limit")
                return
            try:
                values = runner.values(point, names)
            except ProgramFailed as failure:
                refused = "" if self._stopped(runner, watches, point) else str(failure)
                continue
            for watch in watches:
                failed = self._shows(watch, values, legal)
                if failed and watch.point is None:
                    _confirm(watch, runner, point)
            if self.progress is not None:
                self.progress(count + 1)
        if refused:
            self.notes.append(f"some points were not run: {refused}")

    @staticmethod
    def _stopped(runner: ProgramRunner, watches: Sequence[Watch], point: Point) -> bool:
        """Whether a finding expects the program to stop on this point: torch raises where integers are divided by zero."""
        expecting = [watch for watch in watches if witness.SEEN_AT.get(watch.finding.rule.code) == "stop"]
        for watch in expecting:
            if watch.point is None:
                _confirm(watch, runner, point)
        return bool(expecting)

    @staticmethod
    def _shows(watch: Watch, values: Mapping[str, npt.NDArray[Any]], legal: Mapping[str, int]) -> bool:
        """Whether a run makes the failure likely: the node failed, or, backward, everything was finite."""
        failed = look(watch, values, legal)
        return True if watch.finding.phase == "backward" or watch.in_body else failed

    def _look_further(self, runner: ProgramRunner, watches: Sequence[Watch], scene: Scene) -> None:
        if self.budget is None:
            return
        for watch in sorted(watches, key=lambda watch: watch.point is None):
            if self._is_over:
                self.notes.append("the time limit was reached: findings that were not reached yet stay possible")
                return
            try:
                observer = TorchObserver(runner, watch, scene)
                if watch.point is None and watch.finding.rule.sought is not None:
                    self._seek(observer, scene, self.budget)
                if watch.point is not None and self.shrink:
                    shrinker = Shrinker(watch.point, scene.domains, observer.fails, budget=SHRINK_RUNS)
                    try:
                        shrinker.run()
                    finally:
                        watch.point = shrinker.best
            except CannotObserve as reason:
                self.notes.append(f"{watch.finding.node}: {reason}")

    def _seek(self, observer: TorchObserver, scene: Scene, budget: Budget) -> None:
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

    def _save(self, runner: ProgramRunner, watches: Sequence[Watch]) -> None:
        if self.folder is None:
            return
        for watch in watches:
            if watch.point is None or watch.finding.witness is not None:
                continue
            saved = save(self.folder, watch.finding, watch.point, self.program, self.notes)
            watch.finding = replace(watch.finding, witness=saved)


class TorchObserver(Observing):
    """Runs points in PyTorch and says whether the node of one finding failed, as a search asks."""

    def __init__(self, runner: ProgramRunner, watch: Watch, scene: Scene) -> None:
        super().__init__(watch)
        self._runner = runner
        self._legal = legal_specials(scene.model, scene.analysis)

    def fails(self, point: Mapping[str, npt.NDArray[Any]]) -> bool:
        """Whether the node fails on this point, in the exported program and in the user's own."""
        self.runs += 1
        try:
            self.values = self._runner.values(point, self.watch.values())
        except ProgramFailed as failure:
            if failure.is_division_by_zero and _replayed(self.watch, self._runner, point) is not None:
                self.watch.reaches = "output"
                return True
            raise CannotObserve(f"not confirmed, the program stops: {failure}") from None
        failed = look(self.watch, self.values, self._legal)
        if self.watch.finding.phase == "forward" and not failed and not self.watch.in_body:
            return False
        reaches = _replayed(self.watch, self._runner, point)
        if reaches is None:
            return False
        self.watch.reaches = reaches
        return True


def _confirm(watch: Watch, runner: ProgramRunner, point: Point) -> None:
    reaches = _replayed(watch, runner, point)
    if reaches is not None:
        watch.point, watch.reaches = point, reaches


def _replayed(watch: Watch, runner: ProgramRunner, point: Mapping[str, npt.NDArray[Any]]) -> Reaches | None:
    """Where the failure of the user's own module on a point is seen; None if it does not fail at the line of the finding."""
    is_backward = watch.finding.phase == "backward"
    location = watch.finding.location
    line = None if location is None or location.line is None or not runner.has_lines else (location.file, location.line)
    try:
        shown: Gradients = runner.replayed(point, gradients=is_backward)
    except ProgramFailed as failure:
        expected = witness.SEEN_AT.get(watch.finding.rule.code) == "stop" and failure.is_division_by_zero
        return "output" if expected and line in (None, failure.line) else None
    if not is_backward:
        if line not in shown.forward_lines if line is not None else not shown.has_forward_failure:
            return None
        return "output" if shown.is_output_bad else "nowhere"
    if shown.is_output_bad or not shown.bad_gradients:
        return None
    return "gradient" if line is None or line in shown.backward_lines else None


def _watches(model: Model, analysis: Analysis, runner: ProgramRunner) -> Iterable[Watch]:
    """The findings that a run can confirm, each with the values that the program shows of its node."""
    nodes = {node.name: node for node in model.graph.walk()}
    inside = {node.number for node in nodes.values()} - {node.number for node in model.graph.nodes}
    for index, finding in enumerate(analysis.findings):
        node = nodes.get(finding.node)
        if node is None or finding.consequence_of or finding.rule.severity != "error" or finding.rule.code.startswith("NUM3"):
            continue
        operands, results = _visible(model, node, runner)
        yield Watch(index, finding, node, operands, results, node.number in inside)


def _visible(model: Model, node: Node, runner: ProgramRunner) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Operands and results of a node, or, if the program does not have them, those of the operator that it belongs to."""
    operands = tuple(dict.fromkeys(model.name_of(n) for n in node.inputs if n != ABSENT))
    results = tuple(model.name_of(n) for n in node.outputs if n != ABSENT)
    if all(map(runner.shows, (*operands, *results))):
        return operands, results
    return runner.around(node.name)
