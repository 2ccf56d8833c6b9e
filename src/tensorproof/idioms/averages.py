"""Distributions: their sums, and averages, which are products of a matrix whose rows are distributions with another matrix."""

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
    found = _distribution(graph, node.inputs[0])
    if found is None:
        return None
    weights, axis, summed, parts = found
    reads = (*node.inputs, weights, *parts)

    def bound(call: Call, p: Range, v: Range, origin: Range, *parts: Range) -> Fact | None:
        if not (p.has_known_shape and v.has_known_shape) or v.any_special or not origin.format.is_float:
            return None
        if min(p.rank, v.rank) < 2 or p.sizes[-1] != v.sizes[-2] or 0 in (*p.sizes, *v.sizes) or axis % p.rank != p.rank - 1:
            return None
        if parts and not (parts[0].hull()[0] >= 0.0 and stands_over(parts[0], parts[1], summed)):
            return None
        return _average(call, p, v, origin.format)

    return Claim("average-by-softmax", reads, bound)


@idiom("ReduceSum")
def sum_of_softmax(graph: Structure, node: Node) -> Claim | None:
    """sum(p) is 1 up to rounding, for rows p of a softmax, or of q / sum(q) with q >= 0: losses divide by it once more.

    The p_i sum to s in [1 - e, 1 + e], with the e of `average_by_softmax`. Terms have one sign, so that the computed sum is off by
    at most n u' s, and 4 u s where the terms are rounded to another format first; it loses at most n eta' to underflow.
    """
    found, axes = _distribution(graph, node.inputs[0]), axes_of(graph, node)
    if found is None or axes is None or len(axes) != 1:
        return None
    weights, axis, summed, parts = found
    old = graph.producer(weights, "Softmax")
    takes_all_behind = old is not None and old.version < 13

    def bound(call: Call, p: Range, origin: Range, *shares: Range) -> tuple[float, float] | None:
        if p.shape is None or not p.rank or axis % p.rank != axes[0] % p.rank or not origin.format.is_float:
            return None
        if takes_all_behind and axis % p.rank != p.rank - 1:
            return None
        terms = p.shape[axis % p.rank]
        if shares and not (shares[0].hull()[0] >= 0.0 and stands_over(shares[0], shares[1], summed)):
            return None
        if not isinstance(terms, int) or terms == 0:
            return None
        excess, rounding, underflow = _errors(call, p, origin.format, terms)
        slack = excess + rounding * (1.0 + excess) + underflow
        return (1.0 - slack, 1.0 + slack) if slack < 1.0 else None

    return Claim("sum-of-softmax", (node.inputs[0], weights, *parts), bound)


def _distribution(graph: Structure, value: int) -> tuple[int, int, tuple[int, ...], tuple[int, ...]] | None:
    """A distribution as it is made: the value, its axis, and for p / sum(p) the axes of the sum, p, and the sum as it meets p.

    Before version 13, a softmax runs over its axis and all behind it: that is one axis where it is the last.
    """
    weights = _unrounded(graph, value)
    producer = graph.producer(weights, "Softmax", "Div")
    if producer is None:
        return None
    if producer.op == "Softmax":
        return weights, int(producer.attributes.get("axis", -1 if producer.version >= 13 else 1)), (), ()
    total = graph.producer(graph.origin(producer.inputs[1]), "ReduceSum")
    if total is None or not graph.same(total.inputs[0], producer.inputs[0]):
        return None
    axes = axes_of(graph, total)
    return None if axes is None or len(axes) != 1 else (weights, axes[0], axes, tuple(producer.inputs))


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
    accumulator = call.accumulation(p.format)
    excess, rounding, underflow = _errors(call, p, origin, p.sizes[-1])
    low, high = v.low.min(axis=-2, keepdims=True), v.high.max(axis=-2, keepdims=True)
    size = np.maximum(np.abs(low), np.abs(high))
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


def _errors(call: Call, p: Range, origin: Format, terms: int) -> tuple[float, float, float]:
    """How far a distribution is from the sum 1, how far a sum over it is off relatively, and by underflow."""
    accumulator = call.accumulation(p.format)
    unit = p.format.unit_roundoff + origin.unit_roundoff
    lost = _lost(call, p.format) + _lost(call, origin)
    excess = terms * (max(accumulator.unit_roundoff, call.accumulation(origin).unit_roundoff) + 4.0 * lost) + 8.0 * unit
    rounding = 2.0 * terms * accumulator.unit_roundoff + 4.0 * unit
    return excess * (1.0 + 2.0**-8), rounding, terms * _lost(call, accumulator) + lost


def _lost(call: Call, format: Format) -> float:
    return format.smallest_normal if call.target.flushes_results else format.smallest_subnormal
