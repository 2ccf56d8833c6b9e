"""Functions of one tensor, element by element, that are written as several nodes: SiLU, GELU, softplus and relatives.

Intervals forget that both factors of x sigmoid(x) are made from the same x. Here a node whose operands are element-wise
functions of one tensor and of numbers is a function of one variable, which is bounded piece by piece.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tensorproof.errors import NotAnalysed, UnknownShape
from tensorproof.formats import Array, Format
from tensorproof.graph import ABSENT, Node
from tensorproof.idioms.claims import Claim, idiom
from tensorproof.idioms.structure import Structure
from tensorproof.operators.table import Call, evaluate, find_operator
from tensorproof.ranges.range import Range
from tensorproof.targets import Target

#: How many pieces the variable's range is cut into (fewer in passes of few cells), and how many nodes a function may have.
_PIECES, _PIECES_PER_CELL = 2048, 4
_LONGEST = 32
#: How many of the pieces that decide each end are cut once more, and into how many.
_DECISIVE = 16
_CUTS = 16
#: Not a tensor that varies: a number.
_NUMBER = -1


@dataclass(frozen=True, slots=True)
class _Place:
    """A value in the tree of what it is a function of: the nearest such value, and how many are above it."""

    above: int
    depth: int


@dataclass(frozen=True, slots=True)
class _Latest:
    """The function that was looked at last: its variable, for which target, and the results of its nodes on all pieces."""

    variable: Range
    target: Target
    known: dict[int, Range | None]


#: The bounds of a function, from what is known of its nodes on some pieces.
_Bounds = Callable[[dict[int, Range | None]], Range | None]


class _Tree:
    """For every value the nearest one that it is an element-wise function of, alone."""

    def __init__(self, graph: Structure) -> None:
        self.graph = graph
        self.places: dict[int, _Place] = {}
        for node in graph.model.graph.walk():
            if not _is_elementwise(node):
                continue
            above = self.common(node.inputs)
            if above is not None:
                depth = 0 if above == _NUMBER else self.depth(above) + 1
                self.places[node.outputs[0]] = _Place(above, depth)

    def is_number(self, value: int) -> bool:
        """Whether a value is a tensor of one element, or made from such alone."""
        constant = self.graph.constant(value)
        if constant is not None:
            return constant.size == 1
        place = self.places.get(value)
        return place is not None and place.above == _NUMBER

    def depth(self, value: int) -> int:
        place = self.places.get(value)
        return 0 if place is None else place.depth

    def common(self, inputs: Sequence[int]) -> int | None:
        """The nearest value that all operands are functions of; _NUMBER if they are numbers, None if there is none."""
        found = _NUMBER
        for value in inputs:
            if value == ABSENT or self.is_number(value):
                continue
            found = value if found == _NUMBER else self._meeting(found, value)
            if found == ABSENT:
                return None
        return found

    def _meeting(self, a: int, b: int) -> int:
        while a != b:
            deeper = a if self.depth(a) >= self.depth(b) else b
            place = self.places.get(deeper)
            if place is None or place.depth == 0:
                return ABSENT
            a, b = (place.above, b) if deeper == a else (a, place.above)
        return a


def _is_elementwise(node: Node) -> bool:
    entry = None if node.domain or len(node.outputs) != 1 else find_operator("", node.op)
    return entry is not None and entry.elementwise


def _tree(graph: Structure) -> _Tree:
    tree = graph.memory.get("compositions")
    if not isinstance(tree, _Tree):
        tree = graph.memory["compositions"] = _Tree(graph)
    return tree


@idiom("Mul", "Div", "Add", "Sub", "Max", "Min", "Where", costly=True)
def function_of_one_tensor(graph: Structure, node: Node) -> Claim | None:
    """f(x), element by element, lies between the least and the largest bound of f over pieces that cover the range of x.

    On each piece the nodes of f are bounded by their own blocks, rounding included, as everywhere; an element of x lies in one
    of the pieces, and both operands of the node read that same element. So the result as computed lies in the bounds of
    that piece. Where a target keeps 16-bit chains in float32 the two may read x rounded and not rounded: pieces overlap by one
    rounding. If the node itself can fail on a piece, nothing is claimed, so that no overflow is hidden.
    """
    tree = _tree(graph)
    variable = [value for value in node.inputs if not tree.is_number(value)]
    if len(variable) < 2 or (variable[0] == variable[1] and node.op in ("Mul", "Add")):
        # Squares have an idiom of their own, and intervals are exact for sums of a tensor with itself.
        return None
    x = tree.common(node.inputs)
    if x is None or x == _NUMBER:
        return None
    chain = _chain(graph, tree, node, x)
    if chain is None:
        return None
    nodes, numbers = chain
    reads = (x, *numbers)

    def bound(call: Call, variable: Range, *constants: Range) -> tuple[float, float] | None:
        if variable.any_special or not variable.format.is_float:
            return None
        low, high = variable.hull()
        if not low < high:
            return None
        numerals: dict[int, Range] = {}
        for value, constant in zip(numbers, constants):
            if constant.any_special:
                return None
            numerals[value] = Range.uniform((), constant.format, *constant.hull())

        def bounds(known: dict[int, Range | None]) -> Range | None:
            known.update(numerals)
            for inner in nodes:
                value = inner.outputs[0]
                if value not in known:
                    known[value] = _applied(call, inner, known)
                if known[value] is None:
                    return None
            result = known[node.outputs[0]]
            return None if result is None or result.any_special else result

        # Nodes of one function stand next to each other: what one of them computed is there for the next.
        latest: _Latest | None = graph.memory.get("latest composition")
        is_same = latest is not None and latest.variable is variable and latest.target is call.target
        # The state of a loop may be one range under two numbers.
        if latest is None or not is_same or x not in latest.known:
            latest = _Latest(variable, call.target, {x: _pieces(call, variable.format, low, high)})
            graph.memory["latest composition"] = latest
        try:
            return _refined(call, bounds, x, latest.known)
        except (NotAnalysed, UnknownShape):
            return None

    return Claim("function-of-one-tensor", reads, bound)


def _chain(graph: Structure, tree: _Tree, node: Node, x: int) -> tuple[list[Node], tuple[int, ...]] | None:
    """The nodes between x and a node, in order, and the numbers that they read; None if there are too many."""
    nodes: dict[int, Node] = {}
    numbers: dict[int, None] = {}

    def visit(current: Node, depth: int) -> bool:
        for value in current.inputs:
            if value in (ABSENT, x) or value in nodes or value in numbers:
                continue
            if tree.is_number(value):
                numbers[value] = None
                continue
            producer = graph.producer(value)
            if producer is None or not _is_elementwise(producer):
                return False
            if max(len(nodes), depth) >= _LONGEST or not visit(producer, depth + 1):
                return False
        nodes[current.outputs[0]] = current
        return True

    return (list(nodes.values()), tuple(numbers)) if visit(node, 0) else None


def _applied(call: Call, node: Node, known: dict[int, Range | None]) -> Range | None:
    """The result of a node on every piece; None if it may fail there."""
    entry = find_operator("", node.op)
    assert entry is not None
    inner = Call(entry, node.attributes, version=node.version, target=call.target)
    result = evaluate(inner, [None if value == ABSENT else known[value] for value in node.inputs])
    failed = any(hazard.gives for hazard in inner.hazards)
    return result if isinstance(result, Range) and not failed else None


def _refined(call: Call, bounds: _Bounds, x: int, known: dict[int, Range | None]) -> tuple[float, float] | None:
    """The hull of a function over the pieces of x, of which those that decide it are cut once more."""
    pieces, coarse = known[x], bounds(known)
    if pieces is None or coarse is None or coarse.low.size != pieces.low.size:
        return None
    count = min(_DECISIVE, pieces.low.size)
    lowest, highest = np.argsort(coarse.low)[:count], np.argsort(-coarse.high)[:count]
    chosen = np.union1d(lowest, highest)
    steps = np.linspace(0.0, 1.0, _CUTS + 1)
    ends = pieces.low[chosen, None] + steps * (pieces.high - pieces.low)[chosen, None]
    ends[:, -1] = pieces.high[chosen]
    fine = bounds({x: _covering(call, pieces.format, ends[:, :-1].reshape(-1), ends[:, 1:].reshape(-1))})
    if fine is None or fine.low.size != chosen.size * _CUTS:
        return coarse.hull()
    rest = np.setdiff1d(np.arange(pieces.low.size), chosen)
    low = min(float(fine.low.min()), float(coarse.low[rest].min(initial=np.inf)))
    high = max(float(fine.high.max()), float(coarse.high[rest].max(initial=-np.inf)))
    return low, high


def _pieces(call: Call, format: Format, low: float, high: float) -> Range:
    """The range in pieces that are finest around zero, where these functions bend."""
    pieces = min(_PIECES, _PIECES_PER_CELL * call.abstraction.cells)
    ends: Array = np.sinh(np.linspace(np.arcsinh(low), np.arcsinh(high), pieces + 1))
    ends[0], ends[-1] = low, high
    # No piece has zero inside: it decides signs.
    nearest = int(np.argmin(np.abs(ends)))
    if low < 0.0 < high and 0 < nearest < pieces:
        ends[nearest] = 0.0
    return _covering(call, format, ends[:-1], ends[1:])


def _covering(call: Call, format: Format, lows: Array, highs: Array) -> Range:
    """Pieces whose ends are numbers of the format; they overlap by a rounding where readers of a value may differ by one."""
    lows, highs = format.round_down(lows), format.round_up(highs)
    if call.target.keeps_chains_wide and format.bits < 32:
        lows, highs = lows - format.quantum(lows), highs + format.quantum(highs)
    return Range.elements(format, np.maximum(lows, format.low), np.minimum(highs, format.high))
