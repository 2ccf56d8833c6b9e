"""Gradient matching: the training example whose step leads to given weights (Li et al., RANUM, ICSE 2023).

The weights are those of a unit test. L-BFGS brings the weights after training near to them; inputs that are boxes are
written as sigmoids, so that they stay inside; labels move to the ends of their domains that the gradient points at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.confirm.observing import Domains
from tensorproof.confirm.sampling import Point, into_format, points
from tensorproof.confirm.search import box_of
from tensorproof.confirm.training import Training, TrainingFailed
from tensorproof.confirm.vertices import labels_of, with_better_labels
from tensorproof.formats import Array

if TYPE_CHECKING:
    from torch import Tensor

#: Evaluations and iterations of L-BFGS from one start.
EVALUATIONS, ITERATIONS = 25, 20
#: How near to the ends of a box a start may be, in widths of the box: at the very end a sigmoid has no derivative.
MARGIN = 0.01


class Matching:
    """Examples of a box for a training that is to end at `target`, the wanted weights by name."""

    def __init__(self, training: Training, domains: Domains, target: Mapping[str, npt.NDArray[Any]], seed: int) -> None:
        import torch

        self._training = training
        self._domains = domains
        self._target = {
            n: torch.from_numpy(target[name].astype(np.float64))
            for n, name in zip(training.weights, training.names)
            if name in target
        }
        self._boxes = {name: box for name, where in domains.items() if (box := box_of(*where)) is not None}
        self._labels = labels_of(domains)
        self._seed = seed
        self.evaluations = 0

    def examples(self, evaluations: int) -> Iterator[Point]:
        """One example after the other, each the best one from its start, until the evaluations are spent."""
        for number in count():
            if self.evaluations >= evaluations:
                return
            yield self._matched(next(points(self._seed, self._domains, number + 1, first=number)))

    def _matched(self, start: Point) -> Point:
        try:
            if self._labels:
                start = with_better_labels(start, self._domains, self._slopes, lambda: False)
            variables = {name: self._free(name, start[name]) for name in self._boxes}
            if variables:
                self._minimise(start, variables)
        except TrainingFailed:
            return start
        found = {name: tensor.detach().numpy() for name, tensor in self._inside(variables).items()}
        return {
            name: into_format(found[name], self._domains[name][0], self._domains[name][2]) if name in found else array
            for name, array in start.items()
        }

    def _minimise(self, start: Point, variables: Mapping[str, Tensor]) -> None:
        import torch

        moved = list(variables.values())
        optimiser = torch.optim.LBFGS(moved, max_iter=ITERATIONS, max_eval=EVALUATIONS, line_search_fn="strong_wolfe")

        def closure() -> float:
            distance = self._distance({**self._tensors(start), **self._inside(variables)})
            for variable, slope in zip(moved, torch.autograd.grad(distance, moved, materialize_grads=True)):
                variable.grad = slope.contiguous()
            return float(distance.detach())

        optimiser.step(closure)  # pyright: ignore[reportUnknownMemberType]

    def _slopes(self, point: Point) -> tuple[float, dict[str, Array]]:
        """The distance that a point leads to, and how the labels matter to it."""
        import torch

        tensors = self._tensors(point)
        labels = [tensors[name].requires_grad_() for name in self._labels]
        distance = self._distance(tensors)
        slopes = torch.autograd.grad(distance, labels, materialize_grads=True)
        return float(distance.detach()), {name: np.nan_to_num(slope.numpy()) for name, slope in zip(self._labels, slopes)}

    def _tensors(self, point: Point) -> dict[str, Tensor]:
        return {name: self._training.example_tensor(name, array) for name, array in point.items()}

    def _distance(self, example: Mapping[str, Tensor]) -> Tensor:
        import torch

        self.evaluations += 1
        reached = self._training.differentiable(example)
        return torch.stack([((reached[n] - wanted) ** 2).sum() for n, wanted in self._target.items()]).sum()

    def _free(self, name: str, array: npt.NDArray[Any]) -> Tensor:
        """The unbounded variable of a number inside a box."""
        import torch

        low, high = self._boxes[name]
        share = np.clip((array.astype(np.float64) - low) / np.maximum(high - low, 1e-300), MARGIN, 1.0 - MARGIN)
        return torch.from_numpy(np.array(np.log(share / (1.0 - share)))).requires_grad_()

    def _inside(self, variables: Mapping[str, Tensor]) -> dict[str, Tensor]:
        import torch

        ends = {
            name: (torch.from_numpy(np.array(low)), torch.from_numpy(np.array(high))) for name, (low, high) in self._boxes.items()
        }
        return {name: ends[name][0] + (ends[name][1] - ends[name][0]) * torch.sigmoid(u) for name, u in variables.items()}
