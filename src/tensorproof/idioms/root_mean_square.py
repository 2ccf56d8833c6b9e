"""Roots of sums of squares as exporters write them: which tensor is squared, and what the computed root is at least.

A *scale* is a chain of nodes from the squares of a tensor d, summed or averaged over some axes, to a divisor (its root) or to
a factor (its reciprocal):

    squares    Mul(d, d), Pow(d, 2), ReduceSumSquare(d), ReduceL2(d)
    levelled   Mul or Div by a number > 0, Add of a number >= 0, Max or Clip from below, Cast, reshapes
    rooted     Sqrt, Pow(., 0.5), and again Add, Max, Clip, Cast, reshapes
    inverted   Reciprocal, Div(c, .), Pow(., -0.5), and then Mul by anything

What such a chain proves about its numbers is derived in `tensorproof.idioms.scale_bounds`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Literal

from tensorproof.graph import ABSENT, Node
from tensorproof.idioms.means import Mean, means_of_one_tensor
from tensorproof.idioms.structure import RESHAPING, Structure

Kind = Literal["square", "sum", "mean", "multiply", "divide", "add", "maximum", "cast", "root", "norm", "invert", "scale"]

#: Chains longer than this are no normalisation that anybody writes.
_LONGEST = 16
#: What changes signs and formats of elements only.
_SAME_MAGNITUDE = frozenset({"Identity", "Neg", "Abs", "Cast"})


@dataclass(frozen=True, slots=True)
class Step:
    """One node of the chain: its result, its operator, and its other operand, if it has one."""

    kind: Kind
    operator: str
    result: int
    other: int = ABSENT


@dataclass(frozen=True, slots=True)
class Scale:
    """A chain from the squares of `base`, summed over `axes` (empty: all), outwards.

    `place` is the last value before the chain is broadcast: it must meet the rows that it was made from. `powers` are exponents
    that must have exactly this value. `divisor` is the value whose low end is the floor: the root, or what an exponent
    of -0.5 is applied to.
    """

    base: int
    axes: tuple[int, ...]
    steps: tuple[Step, ...]
    place: int
    broadcast: bool = False
    powers: tuple[tuple[int, float], ...] = ()
    divisor: int = ABSENT

    def reads(self) -> set[int]:
        """The values whose ranges a bound is made from."""
        found = {self.base, self.place, self.divisor} | {value for value, _ in self.powers}
        for step in self.steps:
            found |= {step.result, step.other}
        return found - {ABSENT}

    def then(self, kind: Kind, node: Node, other: int = ABSENT) -> Scale:
        """The chain with one node more, which does not move elements."""
        result = node.outputs[0]
        place = self.place if self.broadcast else result
        return replace(self, steps=(*self.steps, Step(kind, node.op, result, other)), place=place)


#: Follows a chain inwards from a value, through at most so many nodes.
Follow = Callable[[Structure, int, int], Scale | None]


def scale_of(graph: Structure, value: int, *, inverted: bool) -> Scale | None:
    """The chain that ends in a value: in a root, or, if `inverted`, in the reciprocal of one."""
    return _inverted(graph, value, _LONGEST) if inverted else _rooted(graph, value, _LONGEST)


def squares_of(graph: Structure, value: int) -> Scale | None:
    """The chain that ends in a value before any root."""
    return _levelled(graph, value, _LONGEST)


@dataclass(frozen=True, slots=True)
class Kinship:
    """Two tensors that are equal up to signs, casts (whose results these are), and two ways to compute one mean.

    `means` are the two means, where the tensors are the differences of one and the same tensor to them.
    """

    casts: tuple[int, ...]
    means: tuple[Mean, Mean] | None = None

    def reads(self) -> set[int]:
        return set(self.casts).union(*(mean.reads() for mean in self.means or ()))


def guard_of(graph: Structure, node: Node) -> tuple[int, Step] | None:
    """A root, or a step that keeps a value from coming near zero by a constant: the value behind it, and the step."""
    result = node.outputs[0]
    if node.op == "Sqrt":
        return node.inputs[0], Step("root", node.op, result)
    if node.op == "Clip":
        return None if _has_top(node) else (node.inputs[0], Step("maximum", node.op, result))
    if node.op in ("Add", "Max") and len(node.inputs) == 2:
        for value, other in _both_ways(node):
            if graph.constant(other) is not None:
                return value, Step("add" if node.op == "Add" else "maximum", node.op, result, other)
    return None


def same_magnitude(graph: Structure, a: int, b: int) -> Kinship | None:
    """How two tensors have the same absolute values, or almost; None if they need not."""
    casts: list[int] = []
    ends: list[int] = []
    for value in (a, b):
        while True:
            node = graph.producer(value, *_SAME_MAGNITUDE)
            if node is None:
                break
            if node.op == "Cast":
                casts.append(value)
            value = node.inputs[0]
        ends.append(value)
    if graph.same(*ends):
        return Kinship(tuple(casts))
    one, other = (graph.producer(end, "Sub") for end in ends)
    if one is None or other is None:
        return None
    for x, mean in (one.inputs, one.inputs[::-1]):
        for y, second in (other.inputs, other.inputs[::-1]):
            if graph.same(x, y):
                if graph.same(mean, second):
                    # a - b and b - a differ in their sign alone, also when they are rounded.
                    return Kinship(tuple(casts))
                means = means_of_one_tensor(graph, mean, second)
                if means is not None:
                    return Kinship(tuple(casts), means)
    return None


# -- recognition -----------------------------------------------------------------------------------------------------


def _once(follow: Follow) -> Follow:
    """Each value is followed once: sums of sums would make it exponential."""

    @wraps(follow)
    def remembered(graph: Structure, value: int, left: int) -> Scale | None:
        known: dict[tuple[str, int], Scale | None] = graph.memory.setdefault("root mean square", {})
        key = follow.__name__, value
        if key not in known:
            known[key] = follow(graph, value, left)
        return known[key]

    return remembered


def _both_ways(node: Node) -> tuple[tuple[int, int], tuple[int, int]]:
    a, b = node.inputs
    return (a, b), (b, a)


@_once
def _inverted(graph: Structure, value: int, left: int) -> Scale | None:
    node = graph.producer(value)
    if node is None or node.domain or not left:
        return None
    if node.op == "Reciprocal":
        scale = _rooted(graph, node.inputs[0], left - 1)
        return None if scale is None else scale.then("invert", node)
    if node.op == "Div":
        scale = _rooted(graph, node.inputs[1], left - 1)
        return None if scale is None else scale.then("invert", node, node.inputs[0])
    if node.op == "Pow" and _number(graph, node.inputs[1]) == -0.5:
        scale = _levelled(graph, node.inputs[0], left - 1)
        if scale is None:
            return None
        scale = replace(scale, powers=(*scale.powers, (node.inputs[1], -0.5)), divisor=node.inputs[0])
        return scale.then("invert", node)
    if node.op == "Mul":
        for chain, other in _both_ways(node):
            scale = _inverted(graph, chain, left - 1)
            if scale is not None:
                # The factor may have any shape: from here on, rows are met by broadcasting.
                return replace(scale, broadcast=True).then("scale", node, other)
        return None
    return _moved(graph, node, _inverted, left)


@_once
def _rooted(graph: Structure, value: int, left: int) -> Scale | None:
    node = graph.producer(value)
    if node is None or node.domain or not left:
        return None
    scale: Scale | None = None
    if node.op == "Sqrt":
        scale = _levelled(graph, node.inputs[0], left - 1)
        scale = None if scale is None else scale.then("root", node)
    elif node.op == "Pow" and _number(graph, node.inputs[1]) == 0.5:
        scale = _levelled(graph, node.inputs[0], left - 1)
        if scale is not None:
            scale = replace(scale, powers=(*scale.powers, (node.inputs[1], 0.5))).then("root", node)
    elif node.op == "ReduceL2":
        scale = _reduction(graph, node, node.inputs[0], (), "norm")
    else:
        scale = _guarded(graph, node, _rooted, left) or _moved(graph, node, _rooted, left)
    return None if scale is None else replace(scale, divisor=value)


@_once
def _levelled(graph: Structure, value: int, left: int) -> Scale | None:
    node = graph.producer(value)
    if node is None or node.domain or not left:
        return None
    if node.op == "ReduceSumSquare":
        return _reduction(graph, node, node.inputs[0], (), "sum")
    if node.op in ("ReduceSum", "ReduceMean"):
        kind: Kind = "mean" if node.op == "ReduceMean" else "sum"
        square = graph.producer(node.inputs[0], "Mul", "Pow")
        if square is None:
            return None
        step = Step("square", square.op, square.outputs[0])
        if square.op == "Mul":
            if not graph.same(*square.inputs):
                return None
            return _reduction(graph, node, square.inputs[0], (step,), kind)
        if _number(graph, square.inputs[1]) != 2.0:
            return None
        scale = _reduction(graph, node, square.inputs[0], (step,), kind)
        return None if scale is None else replace(scale, powers=((square.inputs[1], 2.0),))
    if node.op == "Div":
        scale = _levelled(graph, node.inputs[0], left - 1)
        return None if scale is None else scale.then("divide", node, node.inputs[1])
    if node.op == "Mul":
        for chain, other in _both_ways(node):
            scale = _levelled(graph, chain, left - 1)
            if scale is not None:
                return scale.then("multiply", node, other)
        return None
    return _guarded(graph, node, _levelled, left) or _moved(graph, node, _levelled, left)


def _guarded(graph: Structure, node: Node, before: Follow, left: int) -> Scale | None:
    """Steps that keep the value from coming near zero."""
    if node.op in ("Add", "Max") and len(node.inputs) == 2:
        kind: Kind = "add" if node.op == "Add" else "maximum"
        for chain, other in _both_ways(node):
            scale = before(graph, chain, left - 1)
            if scale is not None:
                return scale.then(kind, node, other)
    if node.op == "Relu" or (node.op == "Clip" and not _has_top(node)):
        scale = before(graph, node.inputs[0], left - 1)
        return None if scale is None else scale.then("maximum", node)
    return None


def _has_top(node: Node) -> bool:
    """Whether a Clip cuts from above, too."""
    return "max" in node.attributes or any(number != ABSENT for number in node.inputs[2:])


def _moved(graph: Structure, node: Node, before: Follow, left: int) -> Scale | None:
    """Steps that change the shape or the format alone."""
    if node.op not in ("Cast", "Expand") and node.op not in RESHAPING - {"Dropout"}:
        return None
    scale = before(graph, node.inputs[0], left - 1)
    if scale is None:
        return None
    if node.op == "Cast":
        return scale.then("cast", node)
    if node.op == "Expand":
        return replace(scale, broadcast=True)
    return None if scale.broadcast else replace(scale, place=node.outputs[0])


def _reduction(graph: Structure, node: Node, base: int, steps: tuple[Step, ...], kind: Kind) -> Scale | None:
    axes = graph.axes(node)
    if not axes:
        stated = axes is None and len(node.inputs) > 1 and node.inputs[1] != ABSENT
        if stated or node.attributes.get("noop_with_empty_axes", 0):
            return None
    result = node.outputs[0]
    return Scale(base, tuple(axes or ()), (*steps, Step(kind, node.op, result)), result)


def _number(graph: Structure, value: int) -> float | None:
    """A constant of one element, through casts: what an exponent is written as."""
    array = graph.constant(graph.origin(value, ("Cast", "Identity")))
    return float(array.reshape(-1)[0]) if array is not None and array.size == 1 and array.dtype.kind in "fiuV" else None
