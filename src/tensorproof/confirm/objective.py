"""How far a point is from making a node fail: the rule's objective at the node, in float64 on torch, with its gradient."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.confirm.place import Place
from tensorproof.execute.torch_graph import TorchGraph
from tensorproof.findings import Finding
from tensorproof.formats import BY_NAME, FLOAT32, FLOAT64, Array, Format
from tensorproof.graph import Model, Node

if TYPE_CHECKING:
    from torch import Tensor

#: How much larger a term may be and still count beside the smallest one.
TEMPERATURE = 0.02
#: What each factor of e costs by which a value before the node leaves its format.
PENALTY = 10.0
#: What an objective is where the node was not reached, or nothing there leads to a failure.
NOWHERE = np.inf


@dataclass(frozen=True, slots=True)
class Measured:
    """The objective at a point (smaller is closer; -inf: something is not finite already), and its gradient by variable."""

    value: float
    gradients: Mapping[str, Array]

    @property
    def is_flat(self) -> bool:
        """Whether no variable matters."""
        return not any(gradient.any() for gradient in self.gradients.values())


class Objective:
    """The objective of one finding. `variables` are the names that gradients are wanted of; all others stay what they are.

    `formats` are those of values that the model does not declare, where they are known.
    """

    def __init__(
        self, model: Model, finding: Finding, node: Node, variables: Sequence[str], formats: Mapping[int, Format] | None = None
    ) -> None:
        self._model = model
        self._formats = formats or {}
        self._node = node
        self._rule = finding.rule
        self._index = _operand_index(model, node, finding.operand)
        self._limit = _limit_of(finding)
        self._graph = TorchGraph(model, precision=FLOAT64, search=True)
        self._graph.observers[node.number] = self._observe
        self._graph.everywhere = self._limit_values
        self._numbers = {model.name_of(n): n for n in (*model.graph.inputs, *model.weights)}
        self._variables = frozenset(variables)
        self._terms: list[Tensor] = []
        self._excess: list[Tensor] = []
        #: Whether the node fails where an operand is exactly zero, and only there.
        self.seeks_zero = False
        outer = next(n for n in model.graph.nodes if n is node or any(inner is node for inner in _inside(n)))
        self._wanted = [number for number in outer.outputs if number >= 0]
        #: Runs on torch so far.
        self.evaluations = 0

    def _observe(self, node: Node, operands: Sequence[Any], results: Sequence[Any]) -> None:
        import torch

        sought = self._rule.sought
        assert sought is not None
        place = Place(torch, node.op, node.attributes, operands, results, self._index, self._limit)
        terms = sought(place)
        self.seeks_zero = place.seeks_zero
        if terms is not None:
            self._terms.append(terms.reshape(-1))

    def _limit_values(self, node: Node, results: Sequence[Any]) -> None:
        """Values before the node have to stay in their formats, or they fail in its place: float64 would let them pass."""
        if node is self._node:
            return
        for number, result in zip(node.outputs, results):
            if number < 0 or not getattr(result, "requires_grad", False) or not result.numel():
                continue
            format = self._model.values[number].format or self._formats.get(number, FLOAT32)
            if not format.is_float:
                continue
            largest = result.abs().nan_to_num(math.inf).amax()
            if float(largest.detach()) > format.high:
                self._excess.append(largest.clamp(max=1e300).log() - math.log(format.high))

    def measure(self, point: Mapping[str, npt.NDArray[Any]]) -> Measured:
        """The objective at a point of the box."""
        import torch

        self.evaluations += 1
        self._terms, self._excess = [], []
        with torch.enable_grad():
            feeds, leaves = self._fed(point)
            self._graph.run(feeds, self._wanted)
            if not self._terms:
                return Measured(NOWHERE, {})
            terms = torch.cat(self._terms)
            if bool(torch.isnan(terms).any()) or bool((terms == -np.inf).any()):
                return Measured(NOWHERE if self._excess else -np.inf, {})
            near = terms[torch.isfinite(terms)]
            if not near.numel():
                return Measured(NOWHERE, {})
            smallest = self._decided(near)
            if self._excess:
                smallest = smallest + PENALTY * torch.stack(self._excess).sum()
            value = float(smallest.detach())
            if not smallest.requires_grad:
                return Measured(value, {})
            found = torch.autograd.grad(smallest, list(leaves.values()), materialize_grads=True)
        gradients = {name: np.nan_to_num(slope.numpy(), nan=0.0, posinf=1e300, neginf=-1e300) for name, slope in zip(leaves, found)}
        return Measured(value, gradients)

    def _decided(self, terms: Tensor) -> Tensor:
        """The smallest term decides; those as small have their say, so that ties do not stand in each other's way."""
        import torch

        return -TEMPERATURE * torch.logsumexp(-terms / TEMPERATURE, 0)

    def _fed(self, point: Mapping[str, npt.NDArray[Any]]) -> tuple[dict[int, Tensor], dict[str, Tensor]]:
        """What the graph is run on, by value numbers; and the variables, by name."""
        feeds: dict[int, Tensor] = {}
        leaves: dict[str, Tensor] = {}
        for name, array in point.items():
            number = self._numbers.get(name)
            if number is None:
                continue
            tensor = self._graph.tensor(array, self._model.values[number].format)
            if name in self._variables:
                leaves[name] = tensor.requires_grad_()
            feeds[number] = tensor
        return feeds, leaves


def _inside(node: Node) -> list[Node]:
    return [inner for graph in node.subgraphs() for inner in graph.walk()]


def _operand_index(model: Model, node: Node, name: str) -> int:
    """The number of the operand that a finding names; -1 if it is the result."""
    for index, number in enumerate(node.inputs):
        if number >= 0 and model.name_of(number) == name:
            return index
    return -1


def _limit_of(finding: Finding) -> float:
    """The largest number of the format that a result is held in."""
    if finding.limit is not None and finding.rule.code.startswith("NUM2"):
        return finding.limit
    return BY_NAME.get(finding.format, FLOAT32).high
