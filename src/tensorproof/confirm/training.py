"""Training steps: what stochastic gradient descent makes of a model's weights on one example."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from tensorproof.errors import ConfigurationError
from tensorproof.execute.meaning import NotExecutable
from tensorproof.execute.torch_graph import TorchGraph
from tensorproof.formats import FLOAT32, FLOAT64, Format
from tensorproof.frontends.onnx_file import load
from tensorproof.graph import ABSENT, Model, Node

if TYPE_CHECKING:
    from torch import Tensor

Arrays = Mapping[str, npt.NDArray[Any]]


class TrainingFailed(Exception):
    """The loss, or a weight after the step, is not finite: training itself fails on this example."""


class Training:
    """`steps` steps of gradient descent with a learning rate, all on one example, from the weights of the model's file.

    `weights` are the numbers of the values that are trained; everything else stays what it is. `loss` is the name of a
    value with one element.
    """

    def __init__(self, model: Model, loss: str, weights: Sequence[int], *, rate: float = 1.0, steps: int = 1) -> None:
        found = model.find_value(loss)
        if found is None:
            raise ConfigurationError(f"no value of the model is named {loss!r}; name the loss by the output that holds it")
        if steps < 1:
            raise ConfigurationError(f"{steps} training steps: at least one is needed")
        self.model = model
        self.loss = loss
        self.weights = tuple(weights)
        self.rate = rate
        self.steps = steps
        self.loss_value = found
        self._numbers = {model.name_of(n): n for n in model.graph.inputs}
        # A step has true derivatives, in float64 or in the formats of the model; substitutes for dead ones are for what leads
        # a search on through the step.
        self._sought = TorchGraph(model, precision=FLOAT64, search=True)
        self._exact = TorchGraph(model, precision=FLOAT64)
        self._own = TorchGraph(model, precision=None)
        self._exact.everywhere = self._check_range

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the weights that are trained."""
        return tuple(self.model.name_of(n) for n in self.weights)

    def example_tensor(self, name: str, array: npt.NDArray[Any]) -> Tensor:
        """An input of the training example as `differentiable` takes it."""
        return self._exact.tensor(array, self._format(self._numbers[name]))

    def trained(self, example: Arrays) -> dict[str, npt.NDArray[Any]]:
        """The weights after training, by name: true gradients, in the formats of the model."""
        *_, last = self.course(example)
        return last

    def course(self, example: Arrays) -> Iterator[dict[str, npt.NDArray[Any]]]:
        """The same after each step, from the first to the last."""
        feeds = {self._numbers[name]: self._own.tensor(array, self._format(self._numbers[name])) for name, array in example.items()}
        values = self._initial(self._own)
        for _ in range(self.steps):
            values = self._step(self._own, feeds, values)
            yield {
                self.model.name_of(n): value.detach().double().numpy().astype(self._format(n).dtype) for n, value in values.items()
            }

    def differentiable(self, example: Mapping[str, Tensor], *, substitutes: bool = True) -> dict[int, Tensor]:
        """The weights after training on a float64 example, by number, with derivatives with respect to that example.

        Where derivatives are dead, they may be substitutes for true ones.
        """
        feeds = {self._numbers[name]: tensor for name, tensor in example.items()}
        fixed = {number: tensor.detach() for number, tensor in feeds.items()}
        values = self._initial(self._exact)
        for _ in range(self.steps):
            exact = self._step(self._exact, fixed, {n: value.detach() for n, value in values.items()})
            led = self._step(self._sought if substitutes else self._exact, feeds, values, create_graph=True)
            values = {n: exact[n] + (led[n] - led[n].detach()).nan_to_num(0.0) for n in values}
        return values

    def exact(self, example: Mapping[str, Tensor]) -> dict[int, Tensor]:
        """The weights after training on a float64 example, by number, without derivatives."""
        feeds = {self._numbers[name]: tensor.detach() for name, tensor in example.items()}
        values = self._initial(self._exact)
        for _ in range(self.steps):
            values = self._step(self._exact, feeds, values)
        return values

    def _format(self, number: int) -> Format:
        return self.model.values[number].format or FLOAT32

    def _initial(self, graph: TorchGraph) -> dict[int, Tensor]:
        return {n: graph.tensor(self.model.constants[n], self._format(n)) for n in self.weights}

    def _step(
        self, graph: TorchGraph, feeds: Mapping[int, Tensor], values: Mapping[int, Tensor], *, create_graph: bool = False
    ) -> dict[int, Tensor]:
        """The weights after one step; with `create_graph`, they can be differentiated."""
        import torch

        with torch.enable_grad():
            leaves = {n: value if value.requires_grad else value.detach().requires_grad_() for n, value in values.items()}
            try:
                loss = graph.run({**feeds, **leaves}, [self.loss_value])[self.loss_value]
                self._check(loss)
                wanted = list(leaves.values())
                slopes = torch.autograd.grad(loss.reshape(()), wanted, create_graph=create_graph, materialize_grads=True)
            except (RuntimeError, IndexError, ValueError) as error:
                # A meaning that does not hold for this use, or has no derivative: no training on torch.
                raise NotExecutable((str(error).splitlines() or [type(error).__name__])[0][:200]) from None
            stepped = {n: value - self.rate * slope for (n, value), slope in zip(leaves.items(), slopes)}
        if not create_graph and not all(bool(torch.isfinite(value).all()) for value in (loss, *stepped.values())):
            raise TrainingFailed
        return stepped if create_graph else {n: value.detach() for n, value in stepped.items()}

    def _check_range(self, node: Node, results: Sequence[Any]) -> None:
        """What leaves its format is infinite in true training, though not in float64."""
        for number, result in zip(node.outputs, results):
            if number == ABSENT or not getattr(result, "requires_grad", False) or not result.numel():
                continue
            if not float(result.detach().abs().amax()) <= self._format(number).high:
                raise TrainingFailed

    def _check(self, loss: Tensor) -> None:
        if loss.numel() != 1:
            raise ConfigurationError(f"loss {self.loss!r} has shape {tuple(loss.shape)}: it must be a single number")
        if not loss.requires_grad:
            raise ConfigurationError(f"loss {self.loss!r} does not depend on any weight that is trained")


def trained_weights(
    path: str | Path, loss: str, weights: Sequence[str], example: Arrays, *, rate: float, steps: int
) -> dict[str, npt.NDArray[Any]]:
    """The weights of an ONNX file after training on an example, by name."""
    model = load(path)
    numbers = {model.name_of(n): n for n in model.weights}
    trained = Training(model, loss, [numbers[name] for name in weights], rate=rate, steps=steps)
    return trained.trained(example)


def trainable(model: Model, ranged: Mapping[int, Any]) -> tuple[int, ...]:
    """The numbers of the weights that training moves: those that are ranges; if there is none, all that look like weights.

    Exporters lift scalar constants of the program into initialisers, which training must not touch; and the statistics of a
    batch normalisation are no parameters.
    """
    statistics = {n for node in model.graph.walk() if node.op == "BatchNormalization" for n in node.inputs[3:] if n != ABSENT}
    chosen = set(ranged) or {n for n in model.weights if model.constants[n].size > 1}
    return tuple(sorted(n for n in chosen - statistics if (model.values[n].format or FLOAT32).is_float))
