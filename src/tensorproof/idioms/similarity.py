"""Cosine similarity: the scalar product of two vectors over the product of their lengths."""

from __future__ import annotations

import math

from tensorproof.graph import Node
from tensorproof.idioms.claims import Claim, idiom
from tensorproof.idioms.order import Condition, Proof, reads_of, square_of
from tensorproof.idioms.structure import Structure
from tensorproof.idioms.terms import axes_of, factors
from tensorproof.operators.activations import least
from tensorproof.operators.table import Call
from tensorproof.ranges.range import Range

#: Guards around a length, or around the product of two.
_GUARDS = frozenset({"Max", "Clip", "Add", "Identity"})


@idiom("Div", "Mul")
def cosine_similarity(graph: Structure, node: Node) -> Claim | None:
    """|a . b| / max(|a| |b|, eps) <= 1 up to rounding, wherever eps stands, if the divisor stays away from zero.

    Let A and B be the exact lengths, D >= floor > 0 the computed divisor, u' and eta' the roundoff and the smallest number
    of the accumulation, u and eta those of the format. The computed product of a and b is at most A B (1 + n u' + 4 u) + n eta,
    by Cauchy and Schwarz for |a| and |b|. A computed length is at least A (1 - d) - s with d = n u' + 16 u and
    s = sqrt(n eta), which is what underflow of squares can cost; guards only make it larger. So A B (1 - d)^2 is at most
    D (1 + 4 u) + eta + s (A + B) + s^2, and the quotient at most (1 + n u' + 4 u) / (1 - d)^2 times
    (1 + 4 u + (eta + s (A + B) + s^2) / floor), plus n eta / floor.
    """
    parts = factors(graph, node)
    if parts is None:
        return None
    dividend, divisor, _ = parts
    total = graph.producer(dividend, "ReduceSum")
    product = None if total is None else graph.producer(total.inputs[0], "Mul")
    if total is None or product is None or graph.same(*product.inputs):
        return None
    axes, keepdims = axes_of(graph, total), total.attributes.get("keepdims", 1)
    lengths = _lengths(graph, divisor)
    if axes is None or lengths is None:
        return None
    vectors = [length[0] for length in lengths]
    alike = all(length[1:3] == (axes, keepdims) for length in lengths)
    a, b = product.inputs
    matches = any(graph.same(vectors[i], a) and graph.same(vectors[1 - i], b) for i in (0, 1))
    if not alike or not matches:
        return None
    conditions = Proof(tuple(condition for length in lengths for condition in length[3]))
    reads = reads_of([conditions], a, b, dividend, divisor)

    def bound(call: Call, *operands: Range) -> tuple[float, float] | None:
        ranges = dict(zip(reads, operands))
        x, y, above, below = ranges[a], ranges[b], ranges[dividend], ranges[divisor]
        if not (x.has_known_shape and y.has_known_shape) or x.shape != y.shape or above.shape != below.shape:
            return None
        if not x.format.is_float or x.any_special or y.any_special or not conditions.holds(ranges):
            return None
        over = [axis % x.rank for axis in axes] or range(x.rank)
        terms = math.prod(x.sizes[axis] for axis in over)
        floor, _ = below.hull()
        if not floor > 0.0:
            return None
        limit = _limit(call, x, y, terms, floor)
        return (-limit, limit) if math.isfinite(limit) else None

    return Claim("cosine-similarity", reads, bound)


def _limit(call: Call, x: Range, y: Range, terms: int, floor: float) -> float:
    u, accumulated = x.format.unit_roundoff, terms * call.accumulation(x.format).unit_roundoff
    eta = least(call, x.format)
    lost = accumulated + 16.0 * u
    if lost > 0.5:
        return math.inf
    longest = sum(math.sqrt(terms) * float(v.magnitude().max(initial=0.0)) for v in (x, y))
    short = math.sqrt(terms * eta)
    beside = (eta + short * longest + short * short) / floor
    return ((1.0 + accumulated + 4.0 * u) / (1.0 - lost) ** 2 * (1.0 + 4.0 * u + beside) + terms * eta / floor) * (1.0 + 8.0 * u)


_Length = tuple[int, tuple[int, ...], object, tuple[Condition, ...]]


def _lengths(graph: Structure, divisor: int) -> list[_Length] | None:
    """The two vectors whose lengths are multiplied, with axes, keepdims and what must hold."""
    product, conditions = _unguarded(graph, divisor)
    node = graph.producer(product, "Mul")
    if node is None:
        return None
    found: list[_Length] = []
    for value in node.inputs:
        length = _length(graph, value)
        if length is None:
            return None
        found.append((*length[:3], length[3] + conditions))
    return found


def _length(graph: Structure, value: int) -> _Length | None:
    value, conditions = _unguarded(graph, value)
    node = graph.producer(value, "ReduceL2", "Sqrt")
    if node is None:
        return None
    if node.op == "Sqrt":
        inner, more = _unguarded(graph, node.inputs[0])
        conditions += more
        node = graph.producer(inner, "ReduceSum", "ReduceSumSquare")
        if node is None:
            return None
    base = node.inputs[0]
    if node.op == "ReduceSum":
        square = square_of(graph, base)
        if square is None:
            return None
        base, more = square
        conditions += more
    axes = axes_of(graph, node)
    return None if axes is None else (base, axes, node.attributes.get("keepdims", 1), conditions)


def _unguarded(graph: Structure, value: int) -> tuple[int, tuple[Condition, ...]]:
    """The value behind maxima and sums with numbers that are not negative, and the conditions for it."""
    conditions: list[Condition] = []
    while True:
        node = graph.producer(value)
        if node is None or node.domain or node.op not in _GUARDS:
            return value, tuple(conditions)
        if node.op == "Clip" and (len(node.inputs) != 2 or node.attributes):
            return value, tuple(conditions)
        if node.op in ("Max", "Add"):
            numbers = [number for number in node.inputs if graph.constant(number) is not None]
            if len(node.inputs) != 2 or len(numbers) != 1:
                return value, tuple(conditions)
            conditions.append(Condition((numbers[0],), lambda x: x.hull()[0] >= 0.0))
            value = next(number for number in node.inputs if number not in numbers)
            continue
        value = node.inputs[0]
