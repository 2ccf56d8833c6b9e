"""Sums of products of vectors whose Euclidean norms are known: cosine similarities."""

from __future__ import annotations

import math

from tensorproof.graph import ABSENT, Node
from tensorproof.idioms.claims import Claim, idiom
from tensorproof.idioms.root_mean_square import Scale, Step, guard_of, squares_of
from tensorproof.idioms.scale_bounds import VANISHED, Floor, floors_of, follow, margin, row_length
from tensorproof.idioms.structure import Structure
from tensorproof.idioms.terms import axes_of
from tensorproof.operators.activations import least
from tensorproof.operators.table import Call
from tensorproof.ranges.range import Range

#: Steps around a product of norms.
_MOST_GUARDS = 6


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


@idiom("Div")
def cosine_under_one_root(graph: Structure, node: Node) -> Claim | None:
    """|sum(a b) / max(sqrt(sum(a^2) sum(b^2)), eps)| <= 1 up to rounding.

    With A and B the exact norms, |sum(a b)| <= A B, computed as in `sum_of_products`. By
    `tensorproof.idioms.scale_bounds` the computed sums of squares are at least alpha A^2 - beta and alpha' B^2 - beta', so their
    product is at least alpha alpha' (A B)^2 - (beta alpha' B^2 + beta' alpha A^2 + eta), with the largest A and B that the ranges
    allow; from there on it is a chain like any other, in t = (A B)^2.
    """
    dot = graph.producer(node.inputs[0], "ReduceSum")
    product = None if dot is None else graph.producer(dot.inputs[0], "Mul")
    axes = None if dot is None else axes_of(graph, dot)
    norms = _product_of_squares(graph, node.inputs[1])
    if product is None or norms is None or axes is None:
        return None
    one, other, guards = norms
    a, b = product.inputs
    if not any(graph.same(one.base, x) and graph.same(other.base, y) for x, y in ((a, b), (b, a))):
        return None
    inner = {step.other for step in guards} | {step.result for step in guards}
    reads = tuple(sorted((one.reads() | other.reads() | inner | set(node.inputs)) - {ABSENT}))

    def bound(call: Call, *operands: Range) -> tuple[float, float] | None:
        ranges = dict(zip(reads, operands))
        tensors, divisor = [ranges[one.base], ranges[other.base]], ranges[node.inputs[1]]
        format, bottom = divisor.format, float(divisor.low.min(initial=math.inf))
        if any(not x.has_known_shape or x.shape != tensors[0].shape or x.format is not format for x in tensors):
            return None
        over = {_axes(tensors[0], each) for each in (axes, one.axes, other.axes)}
        shapes = {ranges[value].shape for value in (one.place, other.place, *node.inputs)}
        if len(over) != 1 or len(shapes) != 1 or not divisor.has_known_shape or not bottom > 0.0:
            return None
        length = row_length(tensors[0], axes)
        floors = [floors_of(scale, length, call, ranges) for scale in (one, other)]
        if floors[0] is None or floors[1] is None:
            return None
        floor = _product(call, floors[0][1], floors[1][1], tensors, length)
        if not all(follow(floor, step, call, ranges) for step in guards) or not min(floor.alpha, floor.root) > VANISHED:
            return None
        roundings = 8.0 if call.target.keeps_chains_wide and format.bits < 32 else 4.0
        accumulated = (length + 1) * (call.accumulation(format).unit_roundoff + 2.0**-52)
        growth = math.exp(roundings * format.unit_roundoff + accumulated)
        eta = least(call, format)
        reach = growth * (floor.quotient(bottom) + 2.0 * (length + 1) * eta / bottom) + eta
        return (-reach, reach) if reach < math.inf else None

    return Claim("cosine-under-one-root", reads, bound)


def _product(call: Call, one: Floor, other: Floor, tensors: list[Range], length: int) -> Floor:
    """What the product of two sums of squares is at least, with t the product of the exact ones."""
    most = [length * float(x.magnitude().max(initial=0.0)) ** 2 for x in tensors]
    result = Floor()
    result.alpha = one.alpha * other.alpha
    result.beta = (one.beta * other.alpha * most[1] + other.beta * one.alpha * most[0]) * (1.0 + 2.0**-40)
    result.scaled(1.0, *margin(call, "Mul", tensors[0].format))
    return result


def _product_of_squares(graph: Structure, value: int) -> tuple[Scale, Scale, list[Step]] | None:
    """The chains of both factors of a product of sums of squares, and the steps from the product to a root and beyond."""
    guards: list[Step] = []
    while len(guards) < _MOST_GUARDS:
        node = graph.producer(value, "Max", "Add", "Clip", "Sqrt", "Mul")
        if node is None:
            return None
        if node.op == "Mul":
            one, other = (squares_of(graph, x) for x in node.inputs)
            roots = [step for step in guards if step.kind == "root"]
            return None if one is None or other is None or len(roots) != 1 else (one, other, guards)
        step = guard_of(graph, node)
        if step is None:
            return None
        value = step[0]
        guards.insert(0, step[1])
    return None


def _axes(x: Range, axes: tuple[int, ...]) -> frozenset[int]:
    return frozenset(axis % x.rank for axis in axes) if axes else frozenset(range(x.rank))
