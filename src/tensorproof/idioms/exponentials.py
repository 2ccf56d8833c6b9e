"""Exponentials of one sign, and sums of those that were shifted by their maximum: log-sum-exp and softmax written out."""

from __future__ import annotations

import math

import numpy as np

from tensorproof.graph import Node
from tensorproof.idioms.claims import Claim, Fact, idiom
from tensorproof.idioms.order import Condition, Proof, behind_guards, reads_of
from tensorproof.idioms.structure import Structure
from tensorproof.idioms.terms import Term, axes_of, maximum_of, meets_its_row, stripped, total
from tensorproof.operators.table import Bound, Call
from tensorproof.ranges.range import Range
from tensorproof.rules.log_of_nonpositive import LOG_OF_NONPOSITIVE

#: The numbers by which ONNX names floating formats (float, float16, double, bfloat16).
_FLOATING = frozenset({1, 10, 11, 16})


@idiom("Exp")
def exponential_of_one_sign(graph: Structure, node: Node) -> Claim | None:
    """exp(x) <= 1 where x <= 0, and >= 1 where x >= 0: no rounding error carries it across 1, the value at 0.

    An exponential is within 4 units of the last place, so that only |x| < 2^-20 is in question in float32. There every number was
    tried: ONNX Runtime 1.31, torch 2.13, TensorFlow 2.21, JAX 0.10 and NumPy 2.4 stay on their side (1 + x p(x), with p > 0).
    """

    def bound(call: Call, x: Range) -> tuple[float, float] | None:
        low, high = (float(end) for end in (x.extended()[0].min(initial=np.inf), x.extended()[1].max(initial=-np.inf)))
        return (0.0, 1.0) if high <= 0.0 else (1.0, np.inf) if low >= 0.0 else None

    return Claim("exponential-of-one-sign", (node.inputs[0],), bound)


@idiom("ReduceSum", "ReduceLogSum")
def sum_of_shifted_exponentials(graph: Structure, node: Node) -> Claim | None:
    """sum(exp(x - max(x))) >= 1, where each sum runs over at least the elements of one maximum; its logarithm is >= 0.

    The maximum is one of the elements, exactly, so that one difference is 0, and exp(0) = 1 (C17, F.10.3.1; so in ONNX
    Runtime, torch, TensorFlow and NumPy). Terms are not negative, and a computed sum of such terms is not smaller than
    any of them, in any order, because rounding is monotone.

    Where a target keeps 16-bit chains in float32, x may be rounded for one reader and not for the other: the difference is
    then 0 up to two roundings of x, and the sum at least the exponential of that.
    """
    found = shifted_by_maximum(graph, node.inputs[0])
    axes = axes_of(graph, node)
    if found is None or axes is None:
        return None
    x, maximum, within, over, unguarded = found
    conditions = Proof(unguarded)
    reads = reads_of([conditions], x, maximum, within)

    def bound(call: Call, *operands: Range) -> Bound | Fact | None:
        ranges = dict(zip(reads, operands))
        element, largest, inner = ranges[x], ranges[maximum], ranges[within]
        if not conditions.holds(ranges) or not element.format.is_float or not element.has_known_shape or 0 in element.sizes:
            return None
        if not meets_its_row(element, inner, largest, over):
            return None
        # Each maximum stands for the elements along the axes where it has one element and x has many.
        rank = element.rank
        sizes = (1,) * (rank - largest.rank) + largest.sizes
        covered = {axis for axis in range(rank) if sizes[axis] != element.sizes[axis]}
        if axes and not covered <= {axis % rank for axis in axes}:
            return None
        least = exponential_of_zero(call, element)
        if node.op == "ReduceSum" or not least > 0.0:
            return least, np.inf
        return Fact((math.log(least) if least < 1.0 else 0.0, np.inf), frozenset({LOG_OF_NONPOSITIVE.code}))

    return Claim("sum-of-shifted-exponentials", reads, bound)


@idiom("Add")
def exponentials_below_their_maximum(graph: Structure, node: Node) -> Claim | None:
    """exp(x - max(x, y)) + exp(y - max(x, y)) >= 1, element by element: the sum of the logarithm of a sum of two.

    The maximum is one of the two, exactly, so that one difference is 0, and exp(0) = 1; the other term is not negative, and
    rounding is monotone. As for `sum_of_shifted_exponentials`, 16-bit chains in float32 may read a number in two ways.
    """
    first, second = _below(graph, node.inputs[0]), _below(graph, node.inputs[1])
    if first is None or second is None:
        return None
    (one, maximum), (other, same) = first, second
    largest = maximum_of(graph, maximum)
    if not largest or not graph.same(maximum.value, same.value):
        return None
    if not all(any(_is_term(graph, term, x) for x in (one, other)) for term in largest):
        return None
    reads = one.value, other.value

    def bound(call: Call, *operands: Range) -> Bound | None:
        if not all(x.format.is_float for x in operands):
            return None
        return min(exponential_of_zero(call, x) for x in operands), np.inf

    return Claim("exponentials-below-their-maximum", reads, bound)


def _below(graph: Structure, value: int) -> tuple[Term, Term] | None:
    """x and the maximum in exp(x - maximum)."""
    exponential = graph.producer(_uncast(graph, value), "Exp")
    terms = None if exponential is None else total(graph, exponential.inputs[0])
    for one, other in () if terms is None else (terms, terms[::-1]):
        maximum = stripped(graph, -other)
        if maximum.sign > 0 and graph.producer(maximum.value, "Max") is not None:
            return stripped(graph, one), maximum
    return None


def _is_term(graph: Structure, term: Term, x: Term) -> bool:
    found = stripped(graph, term)
    return found.sign == x.sign and graph.same(found.value, x.value)


def shifted_by_maximum(graph: Structure, value: int) -> tuple[int, int, int, tuple[int, ...], tuple[Condition, ...]] | None:
    """What is in exp(x - max(x)): x, its maximum as it meets x, what was reduced, the axes (empty: all), what must hold.

    Of exp(-y - max(-y)) it is y that is given: it has the shape and the magnitude of what is reduced.
    """
    exponential = graph.producer(_uncast(graph, value), "Exp")
    terms = None if exponential is None else total(graph, _uncast(graph, exponential.inputs[0]))
    if terms is None:
        return None
    for one, other in (terms, terms[::-1]):
        x, maximum = stripped(graph, one), stripped(graph, other)
        if maximum.sign > 0:
            continue
        origin, unguarded = behind_guards(graph, maximum.value)
        node = graph.producer(origin, "ReduceMax")
        if node is None:
            continue
        inner, axes = node.inputs[0], axes_of(graph, node)
        candidates = stripped(graph, Term(inner)), Term(graph.origin(inner))
        if axes is not None and any(c.sign == x.sign and graph.same(c.value, x.value) for c in candidates):
            return x.value, maximum.value, inner, axes, unguarded
    return None


def _uncast(graph: Structure, value: int) -> int:
    """The value behind casts between floating formats, all of which hold 0 and 1."""
    while True:
        value = graph.origin(value, ("Identity",))
        node = graph.producer(value, "Cast")
        if node is None or node.attributes.get("to") not in _FLOATING:
            return value
        value = node.inputs[0]


def exponential_of_zero(call: Call, x: Range) -> float:
    """The least exponential of x - x, read twice."""
    if not (call.target.keeps_chains_wide and x.format.bits < 32):
        return 1.0
    size = float(x.magnitude().max(initial=0.0))
    apart = 4.0 * (x.format.unit_roundoff * size + x.format.smallest_subnormal)
    return math.exp(-apart) * (1.0 - 16.0 * x.format.unit_roundoff) if apart < 80.0 else 0.0
