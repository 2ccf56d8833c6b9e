"""Confirmation of findings in models of TensorFlow, Keras and JAX: the framework itself runs them.

A finding is confirmed when its node fails in a run of the graph as it is written (its operands are finite, its result is not),
and the result is not finite either when the model is run as its users run it, with everything that the framework rewrites. Where
the target rewrites sums of constants, a node may fail in the latter alone: then its operands and its result are looked at there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from tensorproof.checking import Analysis
from tensorproof.confirm import witness
from tensorproof.confirm.framework_witness import save
from tensorproof.confirm.observer import CannotObserve, Observing
from tensorproof.confirm.observing import Scene, Watch, constants_of, is_bad, legal_specials, look
from tensorproof.confirm.program_confirm import ProgramConfirm
from tensorproof.confirm.sampling import Point
from tensorproof.findings import Finding, Reaches, Witness
from tensorproof.frontends.framework_model import Arrays, FrameworkModel, FrameworkRunner, RunFailed
from tensorproof.frontends.tensorflow_reassociation import EITHER_OF, as_in_the_program
from tensorproof.graph import ABSENT, Model, Node

#: What frameworks say where they refuse to divide integers by zero.
_DIVISION_BY_ZERO = "division by zero"


@dataclass(slots=True)
class FrameworkConfirm(ProgramConfirm[FrameworkRunner]):
    """The search of `check` and, with a budget, that of `confirm`, in the framework of the model."""

    framework_model: FrameworkModel

    def _opened(self) -> AbstractContextManager[FrameworkRunner]:
        return self.framework_model.runner(time_limit=self.time_limit)

    def _watched(self, model: Model, analysis: Analysis, runner: FrameworkRunner) -> Iterable[Watch]:
        visible = _Visible(model, runner)
        nodes = {node.name: node for node in model.graph.walk()}
        inside = {node.number for node in nodes.values()} - {node.number for node in model.graph.nodes}
        for index, finding in enumerate(analysis.findings):
            node = nodes.get(finding.node)
            if node is None or not _can_be_seen(finding, node):
                continue
            operands, results = visible.around(node)
            if not results and witness.SEEN_AT.get(finding.rule.code) != "operand":
                continue
            is_hidden = node.number in inside and not visible.shows(node)
            if is_hidden and visible.are_several_inside(node, analysis.findings):
                self.notes.append(f"{finding.node}: not confirmed, other findings of the same loop or branch show the same way")
                continue
            yield Watch(index, finding, node, operands, results, is_hidden)

    def _observer(self, runner: FrameworkRunner, watch: Watch, scene: Scene) -> Observing:
        return FrameworkObserver(runner, watch, scene)

    def _saved(self, folder: Path, watch: Watch, point: Point) -> Witness:
        return save(folder, watch.finding, point, self.framework_model, self.notes, results=watch.results)

    def _sample(self, runner: FrameworkRunner, watches: Sequence[Watch], scene: Scene) -> None:
        observers = [FrameworkObserver(runner, watch, scene) for watch in watches]
        # Where a run may stop, it shows nothing else: such findings are run alone.
        groups = [[o for o in observers if not o.may_stop], *([o] for o in observers if o.may_stop)]
        refused = ""
        for point in self._points(scene):
            for group in groups:
                try:
                    self._run(runner, group, point)
                except RunFailed as failure:
                    refused = str(failure)
        if refused:
            self.notes.append(f"some points were not run: {refused}")

    @staticmethod
    def _run(runner: FrameworkRunner, group: Sequence[FrameworkObserver], point: Point) -> None:
        """What one point shows of some findings."""
        if not group:
            return
        try:
            values = runner.values(point, list(dict.fromkeys(name for observer in group for name in observer.names)))
        except RunFailed as failure:
            if not all(observer.expects(failure) for observer in group):
                raise
            for observer in group:
                observer.keep(point, "output")
            return
        for observer in group:
            reaches = observer.judged(point, values)
            if reaches is not None:
                observer.keep(point, reaches)


class FrameworkObserver(Observing):
    """Runs points in the framework of a model and says whether the node of one finding failed, as a search asks."""

    def __init__(self, runner: FrameworkRunner, watch: Watch, scene: Scene) -> None:
        super().__init__(watch)
        self._runner = runner
        self._legal = {as_in_the_program(name): flags for name, flags in legal_specials(scene.model, scene.analysis).items()}
        self._constants = {as_in_the_program(name): array for name, array in constants_of(scene.model, [watch]).items()}
        self._outputs = [scene.model.name_of(number) for number in scene.model.graph.outputs]
        self._may_be_rewritten = _is_behind(scene.model, watch.node, EITHER_OF)
        #: Whether the finding is that the model refuses to go on.
        self.may_stop = witness.SEEN_AT.get(watch.finding.rule.code) == "stop"
        seen = (*watch.operands, *watch.results) if self.may_stop else watch.values()
        self.names = [name for name in seen if name not in self._constants]

    def keep(self, point: Point, reaches: Reaches) -> None:
        """Keep the first point that fails."""
        if self.watch.point is None:
            self.watch.point, self.watch.reaches = point, reaches

    def expects(self, failure: RunFailed) -> bool:
        """Whether a failure of the whole run is what the finding says."""
        return self.may_stop and _DIVISION_BY_ZERO in str(failure).lower()

    def fails(self, point: Mapping[str, npt.NDArray[Any]]) -> bool:
        """Whether the node fails on this point, as the model is written and as it is used."""
        self.runs += 1
        try:
            values = self._runner.values(point, self.names)
            reaches = self.judged(point, values)
        except RunFailed as failure:
            if not self.expects(failure):
                raise CannotObserve(f"not confirmed: {failure}") from None
            reaches = "output"
        if reaches is not None:
            self.watch.reaches = reaches
        return reaches is not None

    def judged(self, point: Arrays, seen: Arrays) -> Reaches | None:
        """Where a failure is seen, from the values of a run as the model is written; None if the node does not fail."""
        self.values = {**self._constants, **seen}
        measured = self.watch.finding.operand
        if (plain := as_in_the_program(measured)) in self.values:
            self.values[measured] = self.values[plain]
        failed = look(self.watch, self.values, self._legal)
        if self.may_stop:
            # The model went on: whatever the divisor was, this run did not fail.
            return None
        try:
            if self.watch.finding.rule.code in witness.SEEN_AT:
                return self._operand_in_use(point) if failed else None
            if failed:
                return self._in_use(point)
            if self._may_be_rewritten and self.watch.point is None:
                return self._in_use_alone(point)
        except RunFailed:
            return None
        return None

    def _in_use(self, point: Arrays) -> Reaches | None:
        """The node failed as it is written: does it where the model is used?"""
        bad = [name for name in self.watch.results if self._is_bad(name, self.values)]
        shown = self._runner.replayed(point, bad[0])
        if bad[0] in shown:
            return self._reached(shown) if self._is_bad(bad[0], shown) else None
        return "output" if self._reached(shown) == "output" else None

    def _in_use_alone(self, point: Arrays) -> Reaches | None:
        """The node fails only where the model is used: its results are not finite there, and its operands are."""
        for name in self.watch.results:
            shown = self._runner.replayed(point, name)
            if name not in shown or not self._is_bad(name, shown):
                continue
            # Fetched by itself, an operand is still computed as it is for the node; fetched with what it is made of, it is not.
            operands = [operand for operand in self.watch.operands if operand not in self._constants and operand not in point]
            if not any(self._is_bad(operand, self._runner.replayed(point, operand)) for operand in operands):
                return self._reached(shown)
        return None

    def _operand_in_use(self, point: Arrays) -> Reaches | None:
        """An operand that no integer holds is one where the model is used, too."""
        name = self.watch.finding.operand
        shown = self._runner.replayed(point, name)
        return "output" if look(self.watch, {**self.values, **shown}, self._legal) else None

    def _reached(self, shown: Arrays) -> Reaches:
        if not any(self._is_bad(name, shown) for name in self._outputs):
            return "nowhere"
        return "gradient" if self.watch.node.phase == "backward" else "output"

    def _is_bad(self, name: str, values: Arrays) -> bool:
        return is_bad(values.get(name), self._legal.get(name, 0))


def _can_be_seen(finding: Finding, node: Node) -> bool:
    """Whether a run shows the finding: a defect of its own, of the pass that the node belongs to."""
    if finding.consequence_of or finding.rule.severity != "error" or finding.rule.code.startswith("NUM3"):
        return False
    return finding.phase == "forward" or node.phase == "backward"


def _is_behind(model: Model, node: Node, op: str) -> bool:
    """Whether a node of an operator is among those that a node depends on."""
    producers = {number: item for item in model.graph.walk() for number in item.outputs}
    pending, seen = [node], {node.number}
    while pending:
        current = pending.pop()
        if current.op == op:
            return True
        for number in current.inputs:
            before = producers.get(number)
            if before is not None and before.number not in seen:
                seen.add(before.number)
                pending.append(before)
    return False


class _Visible:
    """Which values around a node a run shows: a front end may have said one operator of the framework in several of ours."""

    def __init__(self, model: Model, runner: FrameworkRunner) -> None:
        self._model = model
        self._runner = runner
        self._producers = {number: node for node in model.graph.walk() for number in node.outputs if number != ABSENT}
        self._readers: dict[int, list[Node]] = {}
        for node in model.graph.walk():
            for number in node.inputs:
                self._readers.setdefault(number, []).append(node)
        #: The node of the graph itself that a node of a body stands in.
        self._outer = {inner.number: node for node in model.graph.nodes for body in node.subgraphs() for inner in body.walk()}

    def _is_shown(self, number: int) -> bool:
        return number in self._model.constants or self._runner.shows(as_in_the_program(self._model.name_of(number)))

    def shows(self, node: Node) -> bool:
        """Whether operands and results of a node are seen as they are."""
        return all(self._is_shown(number) for number in (*node.inputs, *node.outputs) if number != ABSENT)

    def around(self, node: Node) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Operands and results of a node, or the values nearest to it that a run shows."""
        if not self.shows(node):
            node = self._outer.get(node.number, node)
        return self._nearest(node.inputs, self._operands_of), self._nearest(node.outputs, self._read_into)

    def _operands_of(self, number: int) -> Sequence[int]:
        """What a value is made of."""
        node = self._producers.get(number)
        return () if node is None else node.inputs

    def _read_into(self, number: int) -> Sequence[int]:
        """What is made of a value."""
        return [output for node in self._readers.get(number, ()) for output in node.outputs]

    def _nearest(self, start: Sequence[int], further: Callable[[int], Sequence[int]]) -> tuple[str, ...]:
        found: dict[str, None] = {}
        pending = [number for number in reversed(start) if number != ABSENT]
        seen = set(pending)
        while pending:
            number = pending.pop()
            if self._is_shown(number):
                found.setdefault(as_in_the_program(self._model.name_of(number)))
                continue
            for other in further(number):
                if other != ABSENT and other not in seen:
                    seen.add(other)
                    pending.append(other)
        return tuple(found)

    def are_several_inside(self, node: Node, findings: Sequence[Finding]) -> bool:
        """Whether other nodes of the same loop or branch have findings: what the loop gives does not tell them apart."""
        outer = self._outer.get(node.number)
        if outer is None:
            return False
        names = {inner.name for body in outer.subgraphs() for inner in body.walk()}
        return any(finding.node in names and finding.node != node.name and not finding.consequence_of for finding in findings)
