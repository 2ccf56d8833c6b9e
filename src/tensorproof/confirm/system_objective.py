"""How far a training example and an inference input are from a failure after training, with the gradient through the step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from tensorproof.confirm.objective import NOWHERE, Measured, Objective
from tensorproof.confirm.training import Training, TrainingFailed
from tensorproof.findings import Finding
from tensorproof.graph import Model, Node

if TYPE_CHECKING:
    from torch import Tensor

#: A point of a system test has two parts; their inputs bear these prefixes.
TRAINING, INFERENCE = "training:", "inference:"


def parts(point: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The training example and the inference input of a point, by the names of the model."""
    return _part(point, TRAINING), _part(point, INFERENCE)


def joined(training: Mapping[str, Any], inference: Mapping[str, Any]) -> dict[str, Any]:
    """Both parts as one point, or both parts' domains as one box."""
    return {**{TRAINING + n: value for n, value in training.items()}, **{INFERENCE + n: value for n, value in inference.items()}}


def _part(point: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in point.items() if name.startswith(prefix)}


class SystemObjective(Objective):
    """The objective of one finding at a point of both parts: the rule's, at the node, on the inference input, after training.

    It is differentiated with respect to both parts, for the training example by second derivatives of the loss.
    """

    def __init__(self, model: Model, finding: Finding, node: Node, variables: Sequence[str], training: Training) -> None:
        super().__init__(model, finding, node, variables)
        self._training = training
        self._is_still = False
        #: Whether derivatives through the step may be substitutes where true ones are dead.
        self.substitutes = True
        self._last: tuple[Mapping[str, Tensor], dict[int, Tensor]] | None = None

    def measure(self, point: Mapping[str, npt.NDArray[Any]]) -> Measured:
        try:
            return super().measure(point)
        except TrainingFailed:
            return Measured(NOWHERE, {})

    def measure_input(self, point: Mapping[str, npt.NDArray[Any]]) -> Measured:
        """The same, differentiated with respect to the inference input alone: without second derivatives.

        The gradient is that of all terms together, so that each row of a batch goes its own way.
        """
        self._is_still = True
        try:
            return self.measure(point)
        finally:
            self._is_still = False

    def _decided(self, terms: Tensor) -> Tensor:
        smallest = super()._decided(terms)
        return smallest.detach() + terms.sum() - terms.sum().detach() if self._is_still else smallest

    def _fed(self, point: Mapping[str, npt.NDArray[Any]]) -> tuple[dict[int, Tensor], dict[str, Tensor]]:
        tensors: dict[str, Tensor] = {}
        leaves: dict[str, Tensor] = {}
        for name, array in point.items():
            number = self._numbers[name.removeprefix(TRAINING).removeprefix(INFERENCE)]
            tensors[name] = self._graph.tensor(array, self._model.values[number].format)
            if name in self._variables and not (self._is_still and name.startswith(TRAINING)):
                leaves[name] = tensors[name].requires_grad_()
        example, inference = parts(tensors)
        feeds: dict[int, Tensor] = {self._numbers[name]: tensor for name, tensor in inference.items()}
        if self._is_still:
            return feeds | self._trained(example), leaves
        return feeds | self._training.differentiable(example, substitutes=self.substitutes), leaves

    def _trained(self, example: Mapping[str, Tensor]) -> dict[int, Tensor]:
        """The weights after training without derivatives; those of the last example are kept."""
        import torch

        if self._last is None or not all(torch.equal(tensor, self._last[0][name]) for name, tensor in example.items()):
            self._last = example, self._training.exact(example)
        return self._last[1]
