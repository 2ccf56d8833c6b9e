"""Terms, sums, quotients, maxima and reductions, as idioms read them off a graph."""

from __future__ import annotations

import math
from typing import NamedTuple

from tensorproof.graph import ABSENT, Node
from tensorproof.idioms.structure import Structure
from tensorproof.ranges.range import Range

#: The value number of a term that is zero.
NOTHING = -2


class Term(NamedTuple):
    """A value, or its negative."""

    value: int
    sign: int = 1

    def __neg__(self) -> Term:
        return Term(self.value, -self.sign)


ZERO = Term(NOTHING)


def total(graph: Structure, value: int) -> tuple[Term, Term] | None:
    """The two terms of a sum or of a difference."""
    node = graph.producer(value, "Add", "Sub", "Sum")
    if node is None or len(node.inputs) != 2:
        return None
    return Term(node.inputs[0]), Term(node.inputs[1], -1 if node.op == "Sub" else 1)


def factors(graph: Structure, node: Node) -> tuple[int, int, bool] | None:
    """Dividend and divisor of a quotient, and whether it is a product with a reciprocal."""
    if node.op in ("Div", "DivNoNan"):
        return node.inputs[0], node.inputs[1], False
    for one, other in (node.inputs, node.inputs[::-1]):
        inverse = graph.producer(other, "Reciprocal")
        if inverse is not None:
            return one, inverse.inputs[0], True
    return None


def stripped(graph: Structure, term: Term) -> Term:
    """The term without signs and identities around it, nor repetitions, which are aligned from the right as all broadcasting is."""
    while True:
        node = graph.producer(term.value, "Neg", "Identity", "Expand")
        if node is None:
            return term
        term = Term(node.inputs[0], -term.sign if node.op == "Neg" else term.sign)


def maximum_of(graph: Structure, term: Term) -> list[Term]:
    """The terms whose maximum a term is, exactly; none if it is no maximum."""
    node = graph.producer(term.value, "Max", "Min", "Relu", "Abs", "Clip", "Where")
    if node is None:
        return []
    if node.op == "Where":
        return [Term(x, term.sign) for x in node.inputs[1:]] if _picks_larger(graph, node) is (term.sign > 0) else []
    if node.op == "Abs":
        return [Term(node.inputs[0]), Term(node.inputs[0], -1)] if term.sign > 0 else []
    if node.op == "Relu":
        return [Term(node.inputs[0]), ZERO] if term.sign > 0 else []
    if node.op == "Clip":
        if term.sign > 0 and node.attributes.get("min") == 0.0 and "max" not in node.attributes:
            return [Term(node.inputs[0]), ZERO]
        low, high = _clip_ends(node)
        end, missing = (low, high) if term.sign > 0 else (high, low)
        return [Term(node.inputs[0], term.sign), Term(end, term.sign)] if missing is None and end is not None else []
    return [Term(x, term.sign) for x in node.inputs] if (node.op == "Max") == (term.sign > 0) else []


def _picks_larger(graph: Structure, node: Node) -> bool | None:
    """Whether Where picks the larger of two values that its condition compares, or the smaller; None if it does neither."""
    condition, one, other = node.inputs
    comparison = graph.producer(condition, "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
    if comparison is None:
        return None
    left, right = comparison.inputs
    is_greater = comparison.op.startswith("Greater")
    if graph.same(one, left) and graph.same(other, right):
        return is_greater
    return not is_greater if graph.same(one, right) and graph.same(other, left) else None


def clipped(graph: Structure, term: Term) -> list[Term]:
    """x and the low end of Clip(x, low, high), whose maximum is not smaller than the result."""
    node = graph.producer(term.value, "Clip")
    low = None if node is None or term.sign < 0 else _clip_ends(node)[0]
    return [] if node is None or low is None else [Term(node.inputs[0]), Term(low)]


def _clip_ends(node: Node) -> tuple[int | None, int | None]:
    """The values of both ends. Attributes, as before version 11, are no values."""
    if "min" in node.attributes or "max" in node.attributes:
        return None, None
    ends = [*node.inputs[1:], ABSENT, ABSENT]
    return None if ends[0] == ABSENT else ends[0], None if ends[1] == ABSENT else ends[1]


def signed_total(graph: Structure, term: Term) -> tuple[Term, Term] | None:
    """The two terms of a sum, or of the negative of one."""
    terms = total(graph, term.value)
    if terms is None:
        return None
    return terms if term.sign > 0 else (-terms[0], -terms[1])


def axes_of(graph: Structure, node: Node) -> tuple[int, ...] | None:
    """The axes of a reduction, empty for all of them; None if they are not known, or if nothing is reduced."""
    axes = graph.axes(node)
    if axes is None:
        stated = len(node.inputs) > 1 and node.inputs[1] != ABSENT
        return None if stated or node.attributes.get("noop_with_empty_axes", 0) else ()
    return tuple(axes) if axes or not node.attributes.get("noop_with_empty_axes", 0) else None


def stands_over(x: Range, reduced: Range, axes: tuple[int, ...]) -> bool:
    """Whether a reduction over `axes` (empty: all) meets its own elements when it is broadcast against them.

    Reshapes keep the order of elements: if the reduction has size 1 along the reduced axes and the size of `x` along
    all others, each element meets the reduction of its own row.
    """
    if x.shape is None or reduced.shape is None or not x.has_known_shape or not reduced.has_known_shape:
        return False
    rank = len(x.shape)
    over = {axis % rank for axis in axes} if axes else set(range(rank))
    expected = tuple(1 if axis in over else size for axis, size in enumerate(x.shape))
    return (1,) * (rank - len(reduced.shape)) + reduced.shape == expected


def same_in_broadcasts(a: Range, b: Range) -> bool:
    """Whether two tensors with the same numbers in the same order meet the same elements of a third one: axes of size 1 at the
    front make no difference."""
    if not (a.has_known_shape and b.has_known_shape):
        return False
    rank = max(a.rank, b.rank)
    return (1,) * (rank - a.rank) + a.sizes == (1,) * (rank - b.rank) + b.sizes


def meets_its_row(x: Range, inner: Range, reduced: Range, axes: tuple[int, ...]) -> bool:
    """Whether a reduction of `inner`, which holds the elements of `x` in the same order, meets those that it was made of.

    In another shape only a reduction of the last axes is followed: its rows are then runs of neighbours in both shapes, as long as
    the leading axes, along which the reduction has the sizes of `x`, have as many elements.
    """
    if x.shape == inner.shape:
        return stands_over(inner, reduced, axes)
    if not (x.has_known_shape and inner.has_known_shape and reduced.has_known_shape) or reduced.rank > x.rank:
        return False
    over = sorted(axis % inner.rank for axis in axes) if axes else list(range(inner.rank))
    kept = inner.rank - len(over)
    if over != list(range(kept, inner.rank)) or 0 in x.sizes:
        return False
    aligned = (1,) * (x.rank - reduced.rank) + reduced.sizes
    leading = max((axis + 1 for axis, size in enumerate(aligned) if size != 1), default=0)
    return aligned[:leading] == x.sizes[:leading] and math.prod(x.sizes[:leading]) == math.prod(inner.sizes[:kept])
