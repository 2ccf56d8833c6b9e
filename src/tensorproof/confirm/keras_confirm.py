"""Confirmation of findings about gradients of Keras models on PyTorch, whose graph has no nodes of gradients.

A finding of the backward pass is confirmed when, on a point where the outputs are finite, torch's own derivative of its node makes
something that is not finite of gradients that are, and gradients of weights are not finite when Keras' layers themselves are run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy.typing as npt

from tensorproof.checking import Analysis
from tensorproof.confirm.framework_confirm import FrameworkConfirm
from tensorproof.confirm.observer import CannotObserve, Observing
from tensorproof.confirm.observing import Scene, Watch, legal_specials, look
from tensorproof.frontends.framework_model import FrameworkRunner, RunFailed
from tensorproof.graph import ABSENT, Model

if TYPE_CHECKING:
    from tensorproof.frontends.keras_torch import KerasTorchRunner


@dataclass(slots=True)
class KerasTorchConfirm(FrameworkConfirm):
    """`FrameworkConfirm` that sees derivatives of nodes, too."""

    def _watched(self, model: Model, analysis: Analysis, runner: FrameworkRunner) -> Iterable[Watch]:
        yield from FrameworkConfirm._watched(self, model, analysis, runner)
        nodes = {node.name: node for node in model.graph.nodes}
        for index, finding in enumerate(analysis.findings):
            node = nodes.get(finding.node)
            if node is None or not _is_about_a_derivative(index, analysis):
                continue
            operands = tuple(dict.fromkeys(model.name_of(n) for n in node.inputs if n != ABSENT))
            yield Watch(index, finding, node, tuple(filter(runner.shows, operands)), ())

    def _observer(self, runner: FrameworkRunner, watch: Watch, scene: Scene) -> Observing:
        if watch.finding.phase == "backward":
            return DerivativeObserver(cast("KerasTorchRunner", runner), watch, scene)
        return FrameworkConfirm._observer(self, runner, watch, scene)

    def _sample(self, runner: FrameworkRunner, watches: Sequence[Watch], scene: Scene) -> None:
        derivatives = [watch for watch in watches if watch.finding.phase == "backward"]
        FrameworkConfirm._sample(self, runner, [watch for watch in watches if watch not in derivatives], scene)
        observers = [self._observer(runner, watch, scene) for watch in derivatives]
        for point in self._points(scene) if observers else ():
            for observer in observers:
                try:
                    observer.note(point)
                except CannotObserve as reason:
                    self.notes.append(str(reason))


def _is_about_a_derivative(index: int, analysis: Analysis) -> bool:
    finding = analysis.findings[index]
    return finding.phase == "backward" and finding.rule.severity == "error" and not finding.consequence_of


class DerivativeObserver(Observing):
    """Runs points forward and backward and says whether the derivative of one node failed."""

    def __init__(self, runner: KerasTorchRunner, watch: Watch, scene: Scene) -> None:
        super().__init__(watch)
        self._runner = runner
        self._legal = legal_specials(scene.model, scene.analysis)

    def fails(self, point: Mapping[str, npt.NDArray[Any]]) -> bool:
        """Whether the derivative of the node fails on this point, and gradients of the model do."""
        self.runs += 1
        try:
            self.values = dict(self._runner.values(point, self.watch.operands))
            look(self.watch, self.values, self._legal)
            failed = self._runner.derivative_fails(point, self.watch.node.name)
        except RunFailed as failure:
            raise CannotObserve(f"{self.watch.finding.node}: not confirmed: {failure}") from None
        if failed:
            self.watch.reaches = "gradient"
        return failed
