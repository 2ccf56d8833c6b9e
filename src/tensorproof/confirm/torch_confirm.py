"""Confirmation of findings in PyTorch programs: the program itself is run, eagerly.

Points of the box are run through the exported program operator by operator, which shows whether the node of a finding fails. A
finding is confirmed when the user's own module, called on that point, then fails at the line of the finding, too: in the
forward pass, or, for findings of the backward pass, in the gradients of its outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from tensorproof.checking import Analysis
from tensorproof.confirm import witness
from tensorproof.confirm.observer import CannotObserve, Observing
from tensorproof.confirm.observing import Scene, Watch, legal_specials, look
from tensorproof.confirm.program_confirm import ProgramConfirm
from tensorproof.confirm.sampling import Point
from tensorproof.confirm.torch_witness import save
from tensorproof.execute.torch_program import Gradients, ProgramFailed, ProgramRunner
from tensorproof.findings import Reaches, Witness
from tensorproof.graph import ABSENT, Model, Node

if TYPE_CHECKING:
    from tensorproof.frontends.torch_program import TorchProgram


@dataclass(slots=True)
class TorchConfirm(ProgramConfirm[ProgramRunner]):
    """The search of `check` and, with a budget, that of `confirm`, in PyTorch. An interrupt keeps what was found."""

    program: TorchProgram

    def _opened(self) -> AbstractContextManager[ProgramRunner]:
        return nullcontext(ProgramRunner(self.program.traced))

    def _watched(self, model: Model, analysis: Analysis, runner: ProgramRunner) -> Iterable[Watch]:
        return _watches(model, analysis, runner)

    def _observer(self, runner: ProgramRunner, watch: Watch, scene: Scene) -> Observing:
        return TorchObserver(runner, watch, scene)

    def _saved(self, folder: Path, watch: Watch, point: Point) -> Witness:
        return save(folder, watch.finding, point, self.program, self.notes)

    def _sample(self, runner: ProgramRunner, watches: Sequence[Watch], scene: Scene) -> None:
        """Run the points of the box; each shows what it shows of every finding."""
        legal = legal_specials(scene.model, scene.analysis)
        names = list(dict.fromkeys(name for watch in watches for name in watch.values()))
        refused = ""
        for point in self._points(scene):
            try:
                values = runner.values(point, names)
            except ProgramFailed as failure:
                refused = "" if self._stopped(runner, watches, point) else str(failure)
                continue
            for watch in watches:
                failed = self._shows(watch, values, legal)
                if failed and watch.reaches in (None, "nowhere"):
                    _confirm(watch, runner, point)
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
    """Keep the first point that fails. Where no output shows it, a later one that an output shows takes its place.

    That output has to be the doing of this finding: no other line may fail there.
    """
    is_first = watch.point is None
    reaches = _replayed(watch, runner, point, alone=not is_first)
    if reaches is not None and (is_first or reaches == "output"):
        watch.point, watch.reaches = point, reaches


def _replayed(watch: Watch, runner: ProgramRunner, point: Mapping[str, npt.NDArray[Any]], *, alone: bool = False) -> Reaches | None:
    """Where the failure of the user's own module on a point is seen; None if it does not fail at the line of the finding.

    With `alone`, also None if another line fails in the forward pass.
    """
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
        if alone and set(shown.forward_lines) != {line}:
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
