"""Masks of -inf: rows of scores that keep at least one number, whatever the scores are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed, UnknownShape
from tensorproof.graph import ABSENT, Node
from tensorproof.idioms.claims import Claim, Fact, idiom
from tensorproof.idioms.structure import Structure, is_repeatable
from tensorproof.idioms.terms import axes_of
from tensorproof.operators.softmax import softmax_axes
from tensorproof.operators.table import Call, evaluate, find_operator
from tensorproof.ranges.range import NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY, Range
from tensorproof.rules.masked_softmax import MASKED_SOFTMAX

#: Truth values of elements: whether they may be infinite, or whether a condition may (must) hold.
Truths = npt.NDArray[np.bool_]
Ranges = Mapping[int, Range]

#: Operators that move elements: applied to a mask of elements they give the mask of the result.
_MOVING = frozenset(
    {"Reshape", "Unsqueeze", "Squeeze", "Flatten", "Transpose", "Expand", "Slice", "Tile", "Gather", "Trilu", "Concat"}
)
#: What a reduction of rows that keep a number never is. Softmax itself says what it gives.
_NEVER = {"ReduceMax": NEGATIVE_INFINITY, "ReduceLogSumExp": NEGATIVE_INFINITY | NAN}
#: Masks with more elements than this are not looked at.
_LARGEST = 1 << 24
_DEEPEST = 24


@idiom("Softmax", "LogSoftmax", "ReduceMax", "ReduceLogSumExp")
def rows_keep_a_number(graph: Structure, node: Node) -> Claim | None:
    """A softmax, maximum or log-sum-exp of masked scores is defined if every row keeps an element that no mask makes -inf.

    The elements of a mask are followed from the constants (and sizes) that they are made of, element by element, while ranges
    would merge the cells of a large mask, so that every row seems to be masked. An element is surely a number if
    it is a sum of such, or is chosen from such; a sum that overflows is a hazard of its own. One number per row makes the
    row's maximum a number, and x - max is then never inf - inf.
    """
    start = node.inputs[0]
    walk = _Walk(graph)
    walk.infinite(start, 0)
    if not walk.masks:
        return None
    reads = tuple(walk.reads)

    def bound(call: Call, *operands: Range) -> Fact | None:
        ranges = dict(zip(reads, operands))
        x = ranges[start]
        if not x.any_special & NEGATIVE_INFINITY or x.any_special & POSITIVE_INFINITY or not x.has_known_shape or 0 in x.sizes:
            return None
        axes = _axes(graph, call, node, x)
        if axes is None:
            return None
        try:
            infinite = _Evaluation(graph, call, ranges).infinite(start, 0)
        except (NotAnalysed, UnknownShape, _TooLarge):
            return None
        if infinite.ndim > x.rank:
            return None
        infinite = infinite.reshape((1,) * (x.rank - infinite.ndim) + infinite.shape)
        if bool(infinite.all(axis=axes).any()):
            return None
        return Fact(None, frozenset({MASKED_SOFTMAX.code}), _NEVER.get(node.op, 0))

    return Claim("rows-keep-a-number", reads, bound, fine=tuple(walk.decisive))


def _axes(graph: Structure, call: Call, node: Node, x: Range) -> tuple[int, ...] | None:
    if not node.op.startswith("Reduce"):
        return softmax_axes(call, x.rank)
    axes = axes_of(graph, node)
    return None if axes is None else tuple(axis % x.rank for axis in axes) or tuple(range(x.rank))


class _TooLarge(Exception):
    """A mask that is not looked at element by element."""


class _Walk:
    """The nodes that a mask is made of, as far as they are understood: which values must be read."""

    def __init__(self, graph: Structure) -> None:
        self.graph = graph
        self.reads: dict[int, None] = {}
        self.decisive: dict[int, None] = {}
        self.masks = False

    def infinite(self, value: int, depth: int) -> None:
        """Follow where infinities of a value come from."""
        self.reads[value] = None
        node = _understood(self.graph, value, depth)
        if node is None:
            return
        if node.op == "Add":
            self.masks = True
            self.infinite(node.inputs[0], depth + 1)
            self.infinite(node.inputs[1], depth + 1)
        elif node.op == "Where":
            self.masks = True
            self.holds(node.inputs[0], depth + 1)
            self.infinite(node.inputs[1], depth + 1)
            self.infinite(node.inputs[2], depth + 1)
        else:
            self.operands(node, self.infinite, depth)

    def holds(self, value: int, depth: int) -> None:
        """Follow what decides a truth value."""
        self.reads[value] = None
        node = _understood(self.graph, value, depth, _LOGIC)
        if node is None:
            if value in _fixed(self.graph):
                self.decisive[value] = None
            return
        if node.op in ("And", "Or"):
            self.holds(node.inputs[0], depth + 1)
            self.holds(node.inputs[1], depth + 1)
        else:
            self.operands(node, self.holds, depth)

    def operands(self, node: Node, follow: Callable[[int, int], None], depth: int) -> None:
        moved = len(node.inputs) if node.op == "Concat" else 1
        for index, value in enumerate(node.inputs):
            if index < moved:
                follow(value, depth + 1)
            elif value >= 0:
                self.reads[value] = None


def _fixed(graph: Structure) -> set[int]:
    """The values that are made from constants and from shapes alone: their elements do not depend on data."""
    fixed = graph.memory.get("fixed")
    if fixed is None:
        fixed = graph.memory["fixed"] = set[int]()
        for node in graph.model.graph.walk():
            known = all(value == ABSENT or value in fixed or graph.constant(value) is not None for value in node.inputs)
            if not node.domain and (node.op in ("Shape", "Size") or (known and is_repeatable(node))):
                fixed.update(node.outputs)
    return fixed


_NUMERIC = frozenset({"Add", "Where", "Identity", *_MOVING})
_LOGIC = frozenset({"And", "Or", "Not", "Identity", *_MOVING})


def _understood(graph: Structure, value: int, depth: int, ops: frozenset[str] = _NUMERIC) -> Node | None:
    node = graph.producer(value)
    return node if node is not None and not node.domain and node.op in ops and depth < _DEEPEST else None


class _Evaluation:
    """Masks of elements, computed from the ranges of what they are made of."""

    def __init__(self, graph: Structure, call: Call, ranges: Ranges) -> None:
        self.graph = graph
        self.call = call
        self.ranges = ranges
        self.known: dict[int, Truths] = {}

    def infinite(self, value: int, depth: int) -> Truths:
        """Which elements may not be numbers, of a shape that broadcasts to the tensor's."""
        found = self.known.get(value)
        if found is None:
            found = self.known[value] = self._infinite(value, depth)
        return found

    def _infinite(self, value: int, depth: int) -> Truths:
        x = self.ranges[value]
        if not x.any_special:
            return np.zeros((), np.bool_)
        if x.any_special & ~NEGATIVE_INFINITY:
            raise NotAnalysed("not a mask")
        node = _understood(self.graph, value, depth)
        if node is None:
            return _elements(x, (x.special != 0) | (x.low > x.high))
        if node.op == "Add":
            return self.infinite(node.inputs[0], depth + 1) | self.infinite(node.inputs[1], depth + 1)
        if node.op == "Where":
            must, may = self.holds(node.inputs[0], depth + 1)
            chosen, other = (self.infinite(operand, depth + 1) for operand in node.inputs[1:])
            return (may & chosen) | (~must & other)
        (result,) = self.moved(node, lambda operand: (self.infinite(operand, depth + 1),))
        return result

    def holds(self, value: int, depth: int) -> tuple[Truths, Truths]:
        """Where a condition must hold, and where it may."""
        x = self.ranges[value]
        if x.array is not None:
            truth = np.asarray(x.array).astype(np.bool_)
            return truth, truth
        node = _understood(self.graph, value, depth, _LOGIC)
        if node is None:
            return _elements(x, x.low > 0.0), _elements(x, x.high > 0.0)
        if node.op in ("And", "Or"):
            parts = [self.holds(operand, depth + 1) for operand in node.inputs]
            combine = np.logical_and if node.op == "And" else np.logical_or
            return combine(parts[0][0], parts[1][0]), combine(parts[0][1], parts[1][1])
        if node.op == "Not":
            must, may = self.holds(node.inputs[0], depth + 1)
            return ~may, ~must
        must, may = self.moved(node, lambda operand: self.holds(operand, depth + 1))
        return must, may

    def moved(self, node: Node, of: Callable[[int], tuple[Truths, ...]]) -> tuple[Truths, ...]:
        """What an operator that moves elements makes of masks of its operands; Trilu leaves false outside of the triangle."""
        if node.op == "Identity":
            return of(node.inputs[0])
        entry = find_operator("", node.op)
        assert entry is not None
        count = len(node.inputs) if node.op == "Concat" else 1
        masks = [of(value) for value in node.inputs[:count]]
        results: list[Truths] = []
        for parts in zip(*masks):
            operands: list[Range | None] = []
            for value, part in zip(node.inputs, parts):
                sizes = self.ranges[value].sizes
                _affordable(sizes)
                operands.append(Range.constant(np.broadcast_to(part, sizes)))
            operands += [None if value < 0 else self.ranges[value] for value in node.inputs[count:]]
            call = Call(entry, node.attributes, version=node.version, target=self.call.target)
            result: Any = evaluate(call, operands)
            results.append(_elements(result, result.high > 0.0))
        return tuple(results)


def _elements(x: Range, cells: Truths) -> Truths:
    """One truth value per element, from one per cell."""
    if cells.size == 1:
        return cells.reshape((1,) * cells.ndim)
    _affordable(x.sizes)
    return x.replace(cells.astype(np.float64), cells.astype(np.float64), None).expanded()[0] > 0.0


def _affordable(sizes: tuple[int, ...]) -> None:
    if int(np.prod(sizes, dtype=np.int64)) > _LARGEST:
        raise _TooLarge
