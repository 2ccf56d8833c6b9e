"""Guards: what the truth of a condition says about the values that it compares, read off the graph.

`If(x > 0.5)` runs its first branch only on values above 0.5, and a loop that goes on while i < n ends a pass over its body
with i below n or stops. Comparisons are found behind Not, And, Or, casts and reshapes. A fact holds for every element of
the tensors that it names. The ranges that facts make narrower are in `tensorproof.ranges.narrowing`.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from tensorproof.graph import ABSENT, Graph, Model, Node
from tensorproof.ranges.range import INFINITIES, NAN

#: Operators whose result holds the same numbers as their first operand.
SAME = frozenset({"Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten"})
_COMPARISONS = {"Less": "<", "LessOrEqual": "<=", "Greater": ">", "GreaterOrEqual": ">=", "Equal": "=="}
#: What comparisons are combined by, element by element.
_LOGIC = frozenset({"And", "Or", "Not", "Identity", "Cast"})
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!="}
TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
#: Nodes between a condition and a comparison.
_DEPTH = 16


@dataclass(frozen=True, slots=True)
class Fact:
    """A relation of two values, or special values (`bits`) that the left one is not.

    `is_denied` says that the fact is a comparison that failed: it then holds only where neither side is NaN.
    """

    left: int
    relation: str
    right: int
    bits: int = 0
    is_denied: bool = False


class Guards:
    """The facts behind the conditions of one model."""

    def __init__(self, model: Model) -> None:
        self._producers: dict[int, Node] = {n: node for node in model.graph.walk() for n in node.outputs if n != ABSENT}
        self._facts: dict[tuple[int, bool], tuple[Fact, ...]] = {}
        self._outside: dict[int, list[int]] = {}

    def facts(self, condition: int, holds: bool) -> tuple[Fact, ...]:
        """What is known where a condition is true, or where it is false."""
        key = condition, holds
        if key not in self._facts:
            self._facts[key] = tuple(self._find(condition, holds, 0))
        return self._facts[key]

    def _find(self, value: int, holds: bool, depth: int) -> Generator[Fact]:
        node = self._producers.get(value)
        if node is None or node.domain or depth > _DEPTH:
            return
        if node.op in SAME or node.op == "Cast":
            yield from self._find(node.inputs[0], holds, depth + 1)
        elif node.op == "Not":
            yield from self._find(node.inputs[0], not holds, depth + 1)
        elif (node.op == "And" and holds) or (node.op == "Or" and not holds):
            for number in node.inputs:
                yield from self._find(number, holds, depth + 1)
        elif (node.op in ("ReduceMin", "ReduceProd") and holds) or (node.op == "ReduceMax" and not holds):
            # All are true, or none is.
            yield from self._find(node.inputs[0], holds, depth + 1)
        elif node.op in _COMPARISONS:
            relation = _COMPARISONS[node.op]
            yield Fact(node.inputs[0], relation if holds else _OPPOSITE[relation], node.inputs[1], is_denied=not holds)
        elif node.op in ("IsNaN", "IsInf") and not holds and not node.attributes:
            yield Fact(node.inputs[0], "not", ABSENT, NAN if node.op == "IsNaN" else INFINITIES)

    def is_elementwise(self, condition: int) -> bool:
        """Whether each element of a condition is decided by comparisons of elements in its own place: what Where needs.

        The facts behind such a condition hold for the elements that it is true (or false) for, each by itself.
        """
        node = self._producers.get(condition)
        if node is None or node.domain:
            return False
        if node.op in _LOGIC:
            return all(self.is_elementwise(number) for number in node.inputs)
        return node.op in _COMPARISONS or node.op in ("IsNaN", "IsInf")

    def origins(self, value: int) -> list[int]:
        """A value and those that it is made from by reshapes alone."""
        found = [value]
        while (node := self._producers.get(value)) is not None and not node.domain and node.op in SAME:
            value = node.inputs[0]
            found.append(value)
        return found

    def producer(self, value: int) -> Node | None:
        return self._producers.get(value)

    def read_from_outside(self, graph: Graph) -> list[int]:
        """The values of outer scopes that a graph reads, its sub-graphs included."""
        found = self._outside.get(id(graph))
        if found is None:
            nodes = list(graph.walk())
            inside = {n for node in nodes for n in (*node.outputs, *(i for sub in node.subgraphs() for i in sub.inputs))}
            read = [n for node in nodes for n in (*node.inputs, *(o for sub in node.subgraphs() for o in sub.outputs))]
            found = [n for n in dict.fromkeys((*read, *graph.outputs)) if n != ABSENT and n not in inside]
            self._outside[id(graph)] = found
        return found

    def read_by(self, node: Node) -> list[int]:
        """The values behind the condition of a branch or a loop, which must still be known where the node is evaluated."""
        position = {"If": 0, "Loop": 1}.get(node.op)
        if node.domain or position is None or position >= len(node.inputs):
            return []
        return self._behind(node.inputs[position])

    def kept_by(self, graph: Graph) -> list[int]:
        """The values behind the first result of a body, which must still be known where a pass over it ends.

        For a loop that result is the condition to go on.
        """
        return self._behind(graph.outputs[0]) if graph.outputs else []

    def _behind(self, condition: int) -> list[int]:
        found: list[int] = []
        for holds in (True, False):
            for fact in self.facts(condition, holds):
                for number in (fact.left, fact.right):
                    if number != ABSENT:
                        found.extend(self._chain(number))
        return found

    def _chain(self, value: int) -> list[int]:
        found = [value]
        while (node := self._producers.get(value)) is not None and hands_back(node):
            value = node.inputs[0]
            found.append(value)
        return found


def hands_back(node: Node) -> bool:
    """Whether bounds of a node's result are bounds of its operand: what `tensorproof.ranges.narrowing` undoes."""
    return not node.domain and (node.op in SAME or node.op in ("Cast", "Abs", "Neg", "ReduceMin", "ReduceMax"))
