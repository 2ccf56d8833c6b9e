"""Divisions in torch's formulas for derivatives that cannot fail, or whose failure a mask drops.

Torch writes the gradient of a norm as `(g / norm).masked_fill(norm == 0, 0)`, and that of a maximum as a share of the number of
elements that reach it, which is 1 at least. Ranges see neither; the graph says both.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tensorproof.graph import Model, Node

#: Operators that hand elements on as they are.
_MOVING = frozenset({"Identity", "StopGradient", "Reshape", "Squeeze", "Unsqueeze", "Expand"})


class Masks:
    """The divisions of one graph that need no proof by ranges."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._makers: dict[int, Node] = {}
        self._users: dict[int, list[Node]] = {}
        for node in model.graph.walk():
            for number in node.outputs:
                self._makers[number] = node
            for number in node.inputs:
                self._users.setdefault(number, []).append(node)

    def is_harmless(self, node: Node) -> bool:
        """Whether a division by zero at this node cannot happen, or is seen by nobody."""
        if node.op != "Div" or len(node.inputs) != 2:
            return False
        divisor = node.inputs[1]
        return self._counts_extremes(divisor) or self._is_dropped(node.outputs[0], frozenset(self._sources(divisor)))

    def _sources(self, number: int) -> Iterable[int]:
        """The value and those that it is zero with: it moves their elements, or multiplies them with a constant of 1 or more."""
        yield number
        node = self._makers.get(number)
        if node is None:
            return
        if node.op in _MOVING:
            yield from self._sources(node.inputs[0])
        elif node.op == "Mul":
            for factor, other in (node.inputs, reversed(node.inputs)):
                if self._is_constant(other, least=1.0):
                    yield from self._sources(factor)

    def _is_constant(self, number: int, *, least: float) -> bool:
        array = self.model.constants.get(number)
        return array is not None and bool((np.abs(array.astype(np.float64)) >= least).all())

    def _is_dropped(self, number: int, divisors: frozenset[int]) -> bool:
        """Whether all that reads a value is a choice of something else wherever a divisor is zero."""
        users = self._users.get(number, [])
        return bool(users) and number not in self.model.graph.outputs and all(self._drops(u, number, divisors) for u in users)

    def _drops(self, user: Node, number: int, divisors: frozenset[int]) -> bool:
        if user.op in _MOVING:
            return self._is_dropped(user.outputs[0], divisors)
        if user.op != "Where" or number == user.inputs[1]:
            return False
        test = self._makers.get(user.inputs[0])
        while test is not None and test.op in _MOVING:
            test = self._makers.get(test.inputs[0])
        if test is None or test.op != "Equal":
            return False
        return any(
            self._is_zero(other) and not divisors.isdisjoint(self._sources(tested))
            for tested, other in (test.inputs, tuple(reversed(test.inputs)))
        )

    def _is_zero(self, number: int) -> bool:
        array = self.model.constants.get(number)
        return array is not None and not np.any(array)

    def _counts_extremes(self, number: int) -> bool:
        """Whether a value is the number of elements that equal the largest or the smallest of them."""
        count = self._through(number, "ReduceSum")
        test = None if count is None else self._through(count.inputs[0], "Equal")
        if test is None:
            return False
        for elements, extreme in (test.inputs, tuple(reversed(test.inputs))):
            found = self._through(extreme, "ReduceMax") or self._through(extreme, "ReduceMin")
            if found is not None and found.inputs[0] == elements:
                return True
        return False

    def _through(self, number: int, op: str) -> Node | None:
        """The node of an operator that makes a value, conversions and moves between them."""
        node = self._makers.get(number)
        while node is not None and (node.op in _MOVING or node.op == "Cast"):
            node = self._makers.get(node.inputs[0])
        return node if node is not None and node.op == op else None
