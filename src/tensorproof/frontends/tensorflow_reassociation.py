"""Sums and products of constants as TensorFlow computes them in graphs: constants are gathered, whatever rounding makes of that.

    (1 - x) + 1e-8   is computed as   (1 + 1e-8) - x = 1 - x   in float32

Measured with TensorFlow 2.21, default options, float32 (grappler's constant folding). For constants c, d and any x, y:

    (x + y) + c   as   (c + y) + x        (x - y) + c   as   (c - y) + x        c - (x + y)   as   (c - y) - x
    (x - y) - c   as   x - (c + y)        c - (x - y)   as   (c + y) - x        (x + y) - c   as   (y - c) + x
    (x * y) * c   as   (c * y) * x        x / c         as   x * (1 / c)

where the constant among x and y, if there is one, is what c is gathered with, else the right one. Chains are gathered to the end.
Nothing of this is done through BiasAdd, AddN or c / x, nor where the inner result is an output or has another reader (what asks for
its shape aside). Constants are what the graph holds and what follows from it alone; values of variables are none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tensorproof.frontends.calls import OWN
from tensorproof.graph import ABSENT, Graph, Model, Node, Value

#: The operator that stands for a value that may be computed in several ways.
EITHER_OF = "EitherOf"

#: What follows the name of a value as it is written, where its own name is that of the value however it is computed.
_WRITTEN = " (as written)"

#: TensorFlow's operators that are gathered.
GATHERED = frozenset({"Add", "AddV2", "Sub", "Mul", "RealDiv", "Div"})
_SUMS = frozenset({"Add", "Sub"})
_ARITHMETIC = frozenset({"Add", "Sub", "Mul", "Div"})

#: Ways of computing one value that are followed; a chain has few.
_MOST_WAYS = 4

#: Operators whose results are not constants although they have no other operands.
_NOT_FOLDED = ("Random", "Multinomial", "Bernoulli")


class Way(NamedTuple):
    """A way of computing a value: an operator on two operands, each a value by number or a way itself."""

    op: str
    left: Operand
    right: Operand


Operand = int | Way


def as_in_the_program(name: str) -> str:
    """The name that the program has for a value."""
    return name.removesuffix(_WRITTEN)


def reassociated(model: Model, operators: Mapping[str, str] | None = None) -> Model:
    """The model with an `EitherOf` behind each value that TensorFlow may compute in another way than it is written.

    That takes the name and the number of the value, so that everything reads it; the value as it is written gets new ones. Names
    of nodes stay. `operators` are TensorFlow's operators by the names of our nodes: a sum that is a BiasAdd is left alone; nodes
    that are not among them count by what they are.
    """
    return _Gathering(model, operators).run()


class _Gathering:
    def __init__(self, model: Model, operators: Mapping[str, str] | None) -> None:
        self._model = model
        self._operators = operators or {}
        self._values = list(model.values)
        self._constants = dict(model.constants)
        self._number = max((node.number for node in model.graph.walk()), default=-1) + 1
        self._readers: dict[int, int] = {}
        self._producers: dict[int, Node] = {}
        self._known: set[int] = {number for number in model.constants if number not in model.weights}
        self._ways: dict[int, list[Way]] = {}
        self._ones: dict[np.dtype[Any], int] = {}
        graphs = [model.graph, *(body for node in model.graph.walk() for body in node.subgraphs())]
        for number in (number for graph in graphs for number in graph.outputs):
            # An output is fetched: it counts as read by another.
            self._readers[number] = self._readers.get(number, 0) + 2
        for node in model.graph.walk():
            # The shape of a value, which gradients ask for, is known without it.
            for number in node.inputs if node.op != "Shape" else ():
                self._readers[number] = self._readers.get(number, 0) + 1
            for number in node.outputs:
                self._producers[number] = node
            is_folded = node.inputs and not node.op.startswith(_NOT_FOLDED) and not any(True for _ in node.subgraphs())
            if is_folded and all(number == ABSENT or number in self._known for number in node.inputs):
                self._known.update(node.outputs)

    def run(self) -> Model:
        graph = self._graph(self._model.graph)
        if self._number == max((node.number for node in self._model.graph.walk()), default=-1) + 1:
            return self._model
        return replace(self._model, graph=graph, values=self._values, constants=self._constants)

    def _graph(self, graph: Graph) -> Graph:
        nodes: list[Node] = []
        for node in graph.nodes:
            bodies = {name: self._graph(held) for name, held in node.attributes.items() if isinstance(held, Graph)}
            if bodies:
                node = replace(node, attributes={**node.attributes, **bodies})
            ways = self._ways_of(node)
            if not ways:
                nodes.append(node)
                continue
            number = node.outputs[0]
            value = self._values[number]
            written = self._new_value(f"{value.name}{_WRITTEN}", value)
            nodes += [replace(node, outputs=(written,)), self._either(node, number, written, ways)]
        return replace(graph, nodes=nodes)

    def _new_value(self, name: str, like: Value) -> int:
        self._values.append(replace(like, name=name))
        return len(self._values) - 1

    def _either(self, node: Node, number: int, written: int, ways: Iterable[Way]) -> Node:
        """The node that stands for the value: its operands are the value as it is written, and the leaves of the other ways."""
        leaves: dict[int, int] = {}
        for way in ways:
            _collect(way, leaves)
        steps: list[tuple[str, int, int]] = []

        def placed(operand: Operand) -> int:
            if isinstance(operand, int):
                return leaves[operand]
            steps.append((operand.op, placed(operand.left), placed(operand.right)))
            return len(leaves) + len(steps) - 1

        results = [placed(way) for way in ways]
        self._number += 1
        return Node(
            self._number - 1,
            EITHER_OF,
            OWN,
            1,
            f"{node.name}/{EITHER_OF}",
            (written, *leaves),
            (number,),
            {"steps": steps, "results": results},
            node.source,
            node.module,
            node.phase,
        )

    # -- ways -----------------------------------------------------------------------------------------------------------

    def _ways_of(self, node: Node) -> list[Way]:
        """The other ways of computing what a node gives."""
        if not self._is_gathered(node):
            return []
        left, right = node.inputs
        is_left, is_right = left in self._known, right in self._known
        found: list[Way] = []
        if is_left != is_right and not (node.op == "Div" and is_left):
            constant, other = (left, right) if is_left else (right, left)
            factor: Operand = self._reciprocal(right) if node.op == "Div" else constant
            if node.op == "Div" and not self._is_power_of_two(right):
                found.append(Way("Mul", other, factor))
            child = self._producers.get(other)
            if child is not None and self._readers.get(other) == 1 and self._is_gathered(child):
                written = Way(child.op, *child.inputs)
                for way in (written, *self._ways.get(other, ())):
                    gathered = self._gathered(node.op, factor, is_left, way)
                    if gathered is not None and gathered not in found:
                        found.append(gathered)
        self._ways[node.outputs[0]] = found = found[-_MOST_WAYS:]
        return found

    def _gathered(self, op: str, constant: Operand, is_left: bool, child: Way) -> Way | None:
        """The constant gathered with an operand of the inner operator; None where that is not done."""
        first, second = child.left, child.right
        is_first = self._is_constant(first)
        if is_first and self._is_constant(second):
            return None
        kept, moved = (first, second) if is_first else (second, first)
        if op in ("Mul", "Div"):
            return Way("Mul", Way("Mul", constant, kept), moved) if child.op == "Mul" else None
        if child.op not in _SUMS:
            return None
        sign_of_child = -1 if op == "Sub" and is_left else 1
        sign_of_constant = -1 if op == "Sub" and not is_left else 1
        sign_of_second = -sign_of_child if child.op == "Sub" else sign_of_child
        sign_kept, sign_moved = (sign_of_child, sign_of_second) if is_first else (sign_of_second, sign_of_child)
        if sign_of_constant < 0 and sign_kept < 0:
            return Way("Sub", moved, Way("Add", constant, kept))
        if sign_of_constant < 0:
            inner = Way("Sub", kept, constant)
        else:
            inner = Way("Add" if sign_kept > 0 else "Sub", constant, kept)
        return Way("Add" if sign_moved > 0 else "Sub", inner, moved)

    def _is_gathered(self, node: Node) -> bool:
        if node.op not in _ARITHMETIC or node.domain or len(node.inputs) != 2 or ABSENT in node.inputs:
            return False
        format = self._values[node.outputs[0]].format
        if format is not None and not format.is_float:
            return False
        return self._operators.get(node.name, node.op) in GATHERED

    def _is_constant(self, operand: Operand) -> bool:
        if isinstance(operand, int):
            return operand in self._known
        return self._is_constant(operand.left) and self._is_constant(operand.right)

    def _is_power_of_two(self, number: int) -> bool:
        array = self._constants.get(number)
        if array is None or array.size > 1 << 16:
            return False
        mantissa, exponent = np.frexp(array.astype(np.float64))
        return bool((np.abs(mantissa) == 0.5).all() and (np.abs(exponent) < 100).all())

    def _reciprocal(self, number: int) -> Way:
        array = self._constants.get(number)
        format = self._values[number].format
        dtype = array.dtype if array is not None else np.dtype(np.float32) if format is None else format.dtype
        if dtype not in self._ones:
            one: npt.NDArray[Any] = np.ones((), dtype)
            made = self._new_value("one", Value("one", format, ()))
            self._constants[made] = one
            self._known.add(made)
            self._ones[dtype] = made
        return Way("Div", self._ones[dtype], number)


def _collect(operand: Operand, leaves: dict[int, int]) -> None:
    if isinstance(operand, int):
        leaves.setdefault(operand, len(leaves))
    else:
        _collect(operand.left, leaves)
        _collect(operand.right, leaves)
