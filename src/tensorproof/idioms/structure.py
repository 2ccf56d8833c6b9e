"""The structure of a model as idioms read it: who produced a value, and which values are the same tensor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.graph import ABSENT, Graph, Model, Node

#: Operators that move elements without changing their order: the result holds the same numbers in row-major order.
RESHAPING = frozenset({"Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Dropout"})
#: Operators whose result differs from call to call, or that have no result to compare.
_NOT_REPEATABLE = frozenset(
    {
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
        "Multinomial",
        "Bernoulli",
        "Dropout",
        "If",
        "Loop",
        "Scan",
        "SequenceMap",
    }
)
#: Constants with more elements are not compared.
_SMALL = 16


def is_repeatable(node: Node) -> bool:
    """Whether equal operands give equal results, each time."""
    return node.op not in _NOT_REPEATABLE and not any(True for _ in node.subgraphs())


class Structure:
    """Producers of values, and a canonical number for values that are the same tensor.

    Two values are the same tensor if the same operator with the same attributes made them from the same tensors. This
    assumes that a runtime computes a node the same way each time.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._producers: dict[int, Node] = {}
        self._canonical: dict[int, int] = {}
        self._numbers: dict[Any, int] = {}
        #: What idioms found out about the whole graph, by their own names.
        self.memory: dict[str, Any] = {}
        for number, array in model.constants.items():
            # Equal numbers of the program are the same tensor; equal weights are not, they may be trained apart.
            if array.size <= _SMALL and (array.dtype.kind in "iub" or number not in model.weights):
                self._canonical[number] = self._numbers.setdefault(_hashable(array), number)
        self._enter(model.graph)

    def _enter(self, graph: Graph) -> None:
        for node in graph.nodes:
            for sub in node.subgraphs():
                self._enter(sub)
            if node.op == "StopGradient":
                # The value that it is given, under another number.
                (given,), (number,) = node.inputs, node.outputs
                self._canonical[number] = self.canonical(given)
                if given in self._producers:
                    self._producers[number] = self._producers[given]
                continue
            key = self._key(node)
            for index, number in enumerate(node.outputs):
                if number == ABSENT:
                    continue
                self._producers[number] = node
                if key is not None:
                    self._canonical[number] = self._numbers.setdefault((key, index), number)

    def _key(self, node: Node) -> Any:
        if not is_repeatable(node):
            return None
        inputs, attributes = tuple(map(self.canonical, node.inputs)), node.attributes
        if node.op.startswith("Reduce") and not node.domain:
            axes = self.axes(node)
            shape = self.model.values[node.inputs[0]].shape
            if axes and shape:
                # The last axis is axis -1, or one less than the rank: the same sums.
                inputs = inputs[0], tuple(sorted(axis % len(shape) for axis in axes))
                attributes = {"keepdims": attributes.get("keepdims", 1)}
        return node.domain, node.op, inputs, tuple(sorted((name, _hashable(value)) for name, value in attributes.items()))

    def canonical(self, value: int) -> int:
        """The number of the first value that is the same tensor."""
        return self._canonical.get(value, value)

    def same(self, a: int, b: int) -> bool:
        """Whether two values are the same tensor, elements in the same places."""
        return a == b or self.canonical(a) == self.canonical(b)

    def producer(self, value: int, *ops: str) -> Node | None:
        """The node that made a value, if it is one of these operators of the standard (any operator if none is given)."""
        node = self._producers.get(value)
        if node is None or (ops and (node.op not in ops or node.domain)):
            return None
        return node

    def constant(self, value: int) -> npt.NDArray[Any] | None:
        """A constant of the file. Numbers of claims come from ranges instead: weights may be ranges, too."""
        return self.model.constants.get(value)

    def integers(self, value: int) -> list[int] | None:
        """A constant list of integers: axes, shapes."""
        array = self.model.constants.get(value)
        if array is None or array.dtype.kind not in "iu":
            return None
        return [int(v) for v in array.reshape(-1)]

    def axes(self, node: Node) -> list[int] | None:
        """The axes of a reduction, attribute or input, as written; None if they are left out (all axes) or not constant."""
        if "axes" in node.attributes:
            return [int(v) for v in node.attributes["axes"]]
        if len(node.inputs) > 1 and node.inputs[1] != ABSENT:
            return self.integers(node.inputs[1])
        return None

    def origin(self, value: int, ops: Iterable[str] = RESHAPING) -> int:
        """The value behind nodes that only hand on their first operand: reshapes by default.

        A Dropout that can be switched to training hands on nothing.
        """
        while True:
            node = self.producer(value)
            if node is None or node.domain or node.op not in ops or (node.op == "Dropout" and node.inputs[2:]):
                return value
            value = node.inputs[0]


def _hashable(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    return value
