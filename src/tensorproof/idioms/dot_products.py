"""Sums of products of vectors whose Euclidean norms are known: cosine similarities."""

from __future__ import annotations

import math

from tensorproof.graph import Node
from tensorproof.idioms.claims import Claim, idiom
from tensorproof.idioms.structure import Structure
from tensorproof.idioms.terms import axes_of
from tensorproof.operators.activations import least
from tensorproof.operators.table import Call
from tensorproof.ranges.range import Range


@idiom("ReduceSum")
def sum_of_products(graph: Structure, node: Node) -> Claim | None:
    """|sum(a b)| <= |a| |b| along one axis (Cauchy and Schwarz), up to rounding.

    The norms hold of the tensors as computed. Each product is rounded once, or loses eta by underflow, and each of the n - 1
    additions once: |computed| <= (1 + u)(1 + u')^n |a| |b| + 2 n eta, u' the unit roundoff of the accumulator. A 16-bit tensor
    that is read rounded or not may be longer by two roundings.
    """
    product = graph.producer(node.inputs[0], "Mul")
    axes = axes_of(graph, node)
    if product is None or axes is None or len(axes) != 1:
        return None
    a, b = product.inputs

    def bound(call: Call, one: Range, other: Range) -> tuple[float, float] | None:
        if one.norm is None or other.norm is None or not one.has_known_shape or one.shape != other.shape:
            return None
        axis = axes[0] % one.rank
        if one.norm.axis != axis or other.norm.axis != axis or not one.format.is_float:
            return None
        length, format, accumulator = one.sizes[axis], one.format, call.accumulation(one.format)
        roundings = 8.0 if call.target.keeps_chains_wide and format.bits < 32 else 3.0
        growth = math.exp(roundings * format.unit_roundoff + (length + 1) * (accumulator.unit_roundoff + 2.0**-52))
        reach = growth * (one.norm.bound * other.norm.bound + 2.0 * length * least(call, format))
        return -reach, reach

    return Claim("sum-of-products", (a, b), bound)
