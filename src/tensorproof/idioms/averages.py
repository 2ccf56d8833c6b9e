"""Averages: products of a matrix whose rows are distributions with another matrix."""

from __future__ import annotations

import numpy as np

from tensorproof.formats import Format
from tensorproof.graph import Node
from tensorproof.idioms.claims import Claim, Fact, idiom
from tensorproof.idioms.structure import Structure
from tensorproof.idioms.terms import axes_of, stands_over
from tensorproof.operators.table import Call
from tensorproof.ranges.range import Range
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW


@idiom("MatMul")
def average_by_softmax(graph: Structure, node: Node) -> Claim | None:
    """P @ V stays within the hull of V along the shared axis, for rows P of a softmax, or of p / sum(p) with p >= 0.

    Each p_i = e_i / S is rounded by at most 4 u (a division, or a reciprocal and a product) and may lose the smallest
    number eta to underflow; S is the sum of the same e_i with at most n roundings of the accumulator. So the p_i sum to
    1 up to e = n (u' + eta) + 8 u, and sum p_i v_i lies between s min(v) and s max(v) for some s in [1 - e, 1 + e]. The
    sum itself is off by at most n u' (1 + e) max|v| + n eta' (if all v have one sign, by n u' times itself), and no partial
    sum exceeds (1 + e)(1 + n u') max|v|.
    """
    weights = _unrounded(graph, node.inputs[0])
    producer = graph.producer(weights, "Softmax", "Div")
    if producer is None:
        return None
    summed: tuple[int, ...] = ()
    if producer.op == "Softmax":
        axis = int(producer.attributes.get("axis", -1 if producer.version >= 13 else 1))
        reads: tuple[int, ...] = (*node.inputs, weights)
    else:
        total = graph.producer(graph.origin(producer.inputs[1]), "ReduceSum")
        if total is None or not graph.same(total.inputs[0], producer.inputs[0]):
            return None
        axes = axes_of(graph, total)
        if axes is None or len(axes) != 1:
            return None
        axis, summed = axes[0], axes
        reads = (*node.inputs, weights, *producer.inputs)

    def bound(call: Call, p: Range, v: Range, origin: Range, *parts: Range) -> Fact | None:
        if not (p.has_known_shape and v.has_known_shape) or v.any_special or not origin.format.is_float:
            return None
        if min(p.rank, v.rank) < 2 or p.sizes[-1] != v.sizes[-2] or 0 in (*p.sizes, *v.sizes) or axis % p.rank != p.rank - 1:
            return None
        if parts and not (parts[0].hull()[0] >= 0.0 and stands_over(parts[0], parts[1], summed)):
            return None
        return _average(call, p, v, origin.format)

    return Claim("average-by-softmax", reads, bound)


def _unrounded(graph: Structure, value: int) -> int:
    """The distribution behind a cast, a Dropout at inference, and a guard against NaN that never acts."""
    cast = False
    while True:
        value = graph.origin(value, ("Identity", "Dropout"))
        node = graph.producer(value, "Cast", "Where")
        if node is None or (node.op == "Cast" and cast):
            return value
        if node.op == "Where":
            # If no hazard fires before, nothing is NaN, and the guard hands its last operand on.
            nan = graph.producer(node.inputs[0], "IsNaN")
            if nan is None or not graph.same(nan.inputs[0], node.inputs[2]):
                return value
            value = node.inputs[2]
        else:
            cast, value = True, node.inputs[0]


def _average(call: Call, p: Range, v: Range, origin: Format) -> Fact | None:
    terms, accumulator = p.sizes[-1], call.accumulation(p.format)
    unit = p.format.unit_roundoff + origin.unit_roundoff
    lost = _lost(call, p.format) + _lost(call, origin)
    excess = terms * (max(accumulator.unit_roundoff, call.accumulation(origin).unit_roundoff) + 4.0 * lost) + 8.0 * unit
    excess *= 1.0 + 2.0**-8
    low, high = v.low.min(axis=-2, keepdims=True), v.high.max(axis=-2, keepdims=True)
    size = np.maximum(np.abs(low), np.abs(high))
    rounding = 2.0 * terms * accumulator.unit_roundoff + 4.0 * unit
    underflow = terms * _lost(call, accumulator) + lost
    slack = (excess + rounding * (1.0 + excess)) * size + underflow
    # Terms of one sign: the error is relative to the result.
    share = max(1.0 - (excess + rounding), 0.0)
    low = np.where(low > 0.0, low * share - underflow, low - slack)
    high = np.where(high < 0.0, high * share + underflow, high + slack)
    fits = float((size + 2.0 * slack).max()) < min(accumulator.high, p.format.high)
    impossible = frozenset({ACCUMULATION_OVERFLOW.code}) if fits else frozenset[str]()
    if p.rank != v.rank or v.sizes[:-2] != p.sizes[:-2]:
        return Fact((float(low.min()), float(high.max())), impossible)
    shape, grid = (*p.sizes[:-1], v.sizes[-1]), (*v.grid[:-2], None, v.grid[-1])
    return Fact(Range(p.format, shape, grid, low, high), impossible)


def _lost(call: Call, format: Format) -> float:
    return format.smallest_normal if call.target.flushes_results else format.smallest_subnormal
