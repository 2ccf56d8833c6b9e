"""Normalisations written out: a tensor divided by the root of the mean (or sum) of its own squares.

LayerNorm, InstanceNorm, GroupNorm and standardisation divide d = x - mean(x), RMSNorm and L2 normalisation x itself. What
makes them bounded is that the numerator's own square is a part of the sum below the root; how far is derived in
`tensorproof.idioms.scale_bounds`. Statistics of another tensor, of another axis, or taken as E[x^2] - E[x]^2, prove nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from tensorproof.graph import Node
from tensorproof.idioms.claims import Claim, idiom
from tensorproof.idioms.means import apart
from tensorproof.idioms.root_mean_square import Kinship, Scale, same_magnitude, scale_of
from tensorproof.idioms.scale_bounds import Reach, margin, reach_of
from tensorproof.idioms.structure import Structure
from tensorproof.idioms.terms import Term, same_in_broadcasts, stripped, total
from tensorproof.operators.activations import least
from tensorproof.operators.table import Call
from tensorproof.ranges.norms import Norm
from tensorproof.ranges.range import Range


@idiom("Div", "Mul")
def divided_by_own_norm(graph: Structure, node: Node) -> Claim | None:
    """|d / sqrt(mean(d^2) + eps)| <= sqrt(n) and the Euclidean norm of a row <= sqrt(n), both up to rounding.

    With the sum in place of the mean both are 1. The divisor must stay away from zero: where its range begins at zero, nothing
    is claimed (and the division itself is reported). Where the squares are those of another rounding of d (a cast, or a 16-bit
    tensor that a runtime keeps in float32 for one of its uses), or of a difference to the same mean computed in another way,
    |numerator| <= |d| (1 + r) + a adds a / floor.
    """
    found = _parts(graph, node)
    if found is None:
        return None
    numerator, scale, kinship = found
    reads = (numerator, *sorted(scale.reads() | kinship.reads()))

    def reach(call: Call, ranges: Sequence[Range]) -> tuple[float, float] | None:
        """Bounds of each element and of each row's norm, the last rounding included."""
        by_value = dict(zip(reads, ranges))
        known = reach_of(scale, call, by_value)
        distance = 0.0 if kinship.means is None else apart(call, kinship.means, by_value)
        if known is None or distance is None:
            return None
        return _rounded(call, node, known, [by_value[v] for v in (numerator, scale.base, *kinship.casts)], distance)

    def bound(call: Call, *ranges: Range) -> tuple[float, float] | None:
        found = reach(call, ranges)
        return None if found is None else (-found[0], found[0])

    def norm(call: Call, result: Range, *ranges: Range) -> Norm | None:
        found = reach(call, ranges)
        if found is None or not ranges[0].rank or result.shape != ranges[0].shape:
            return None
        axis = max(axis % result.rank for axis in scale.axes) if scale.axes else result.rank - 1
        return Norm(axis, found[1])

    return Claim("divided-by-own-norm", reads, bound, norm)


def _parts(graph: Structure, node: Node) -> tuple[int, Scale, Kinship] | None:
    """Numerator, scale, and what lies between the numerator and what was squared."""
    pairs = [node.inputs] if node.op == "Div" else [node.inputs, node.inputs[::-1]]
    for numerator, other in pairs:
        scale = scale_of(graph, other, inverted=node.op == "Mul")
        if scale is not None:
            kinship = same_magnitude(graph, numerator, scale.base)
            if kinship is not None:
                return numerator, scale, kinship
    return None


def _rounded(call: Call, node: Node, known: Reach, tensors: Sequence[Range], distance: float) -> tuple[float, float] | None:
    """The bounds with what lies between the numerator and the squared tensor, and with the last rounding.

    `distance` is that of two means: |fl(x - m')| <= (|fl(x - m)| / (1 - u) + |m - m'|) (1 + u).

    Where a chain may be kept wide, either use of a number a may have been rounded into 16 bits, the other one not. Both lose at
    most eta by that beside relative errors; or, which is less where eta is the smallest normal number T itself, only an |a| below
    T loses anything, and then the numerator is T at most.
    """
    numerator, *_ = tensors
    if any(not x.format.is_float for x in tensors):
        return None
    relative, absolute = margin(call, node.op, numerator.format)
    narrow = max((x.format for x in tensors), key=lambda format: format.unit_roundoff)
    eta = max(least(call, x.format) for x in tensors)
    is_wide = call.target.keeps_chains_wide and narrow.bits < 32
    roundings = len(tensors) - 2 + (2 if distance else 0)
    blur = math.expm1(2.0 * (roundings + 2 * is_wide) * narrow.unit_roundoff)
    stray = (2.0 * roundings * eta + distance) * (1.0 + blur)
    added = stray + 4.0 * is_wide * eta * (1.0 + blur)
    root = math.sqrt(known.length)
    element = known.element * (1.0 + blur)
    least_normal = max(x.format.smallest_normal for x in tensors) * (1.0 + blur)
    element = min(element + added * known.factor, max(element, is_wide * least_normal * known.factor) + stray * known.factor)
    norm = (known.norm * (1.0 + blur) + root * added * known.factor) * (1.0 + relative) + root * absolute
    return element * (1.0 + relative) + absolute, norm


@idiom("Add", "Sub")
def normalised_and_shifted_at_once(graph: Structure, node: Node) -> Claim | None:
    """x r + (b - m r) = (x - m) r + b up to rounding, with r the reciprocal root of the mean of (x - m)^2.

    So `tf.nn.batch_normalization` writes it. With d = fl(x - m), |x - m| <= |d| / (1 - u), and |d| r is bounded as in
    `divided_by_own_norm`. The products x r and m r lose u |x| r and u |m| r, the difference b - m r loses u (|b| + |m| r), and the
    sum one rounding more; where a 16-bit tensor is read rounded or not, twice u (|x| + |m|) r is added.

    The m of the product may be the other one without axes of size 1 (`tf.nn.moments` takes them away): where both have the same
    shape but for such axes at the front, each element of x meets the same number of both.
    """
    found = _folded(graph, node)
    if found is None:
        return None
    x, mean, taken, offset, scale = found
    reads = tuple(dict.fromkeys((x, mean, taken, *(() if offset is None else (offset[0],)), *sorted(scale.reads()))))

    def bound(call: Call, *ranges: Range) -> tuple[float, float] | None:
        by_value = dict(zip(reads, ranges))
        if not same_in_broadcasts(by_value[mean], by_value[taken]):
            return None
        known = reach_of(scale, call, by_value)
        format = by_value[x].format
        if known is None or any(by_value[value].format is not format for value in (x, mean, taken, scale.base)):
            return None
        u, eta = format.unit_roundoff, least(call, format)
        moved = sum(float(by_value[value].magnitude().max(initial=0.0)) for value in (x, mean)) * known.factor
        roundings = 5.0 if call.target.keeps_chains_wide and format.bits < 32 else 2.0
        low, high = (0.0, 0.0) if offset is None else by_value[offset[0]].hull()
        low, high = (low, high) if offset is None or offset[1] > 0 else (-high, -low)
        shift = max(abs(low), abs(high))
        reach = known.element * (1.0 + 2.0 * u) + 1.01 * u * (roundings * moved + 2.0 * shift) + 4.0 * eta
        reach += 1.01 * u * (reach + shift)
        return low - reach, high + reach

    return Claim("normalised-and-shifted-at-once", reads, bound)


class _Folded(NamedTuple):
    """A sum x r + (b - m r): m as it is multiplied, as it was taken from x, and b with its sign (None: no b)."""

    x: int
    mean: int
    taken: int
    offset: tuple[int, int] | None
    scale: Scale


def _folded(graph: Structure, node: Node) -> _Folded | None:
    """The parts of such a sum, in any order of its terms."""
    terms = [term for each in total(graph, node.outputs[0]) or () for term in _flat(graph, each)]
    products = [(graph.producer(term.value, "Mul"), term.sign) for term in terms]
    rest = [term for term, (product, _) in zip(terms, products) if product is None]
    factors = [(_signed(graph, product), sign) for product, sign in products if product is not None]
    if len(factors) != 2 or len(rest) > 1:
        return None
    ((first, first_sign), (second, second_sign)) = factors
    for x, r in (first, first[::-1]):
        for m, other in (second, second[::-1]):
            if not graph.same(r.value, other.value) or x.sign * r.sign * first_sign == m.sign * other.sign * second_sign:
                continue
            scale = scale_of(graph, r.value, inverted=True)
            base = None if scale is None else graph.producer(stripped(graph, Term(scale.base)).value, "Sub")
            if scale is None or base is None:
                continue
            for whole, taken in (base.inputs, base.inputs[::-1]):
                if graph.same(whole, x.value) and _same_in_order(graph, taken, m.value):
                    return _Folded(x.value, m.value, taken, (rest[0].value, rest[0].sign) if rest else None, scale)
    return None


def _same_in_order(graph: Structure, a: int, b: int) -> bool:
    """Whether two values hold the same numbers in the same order, in whatever shape."""
    return graph.same(a, b) or graph.same(graph.origin(a), graph.origin(b))


def _flat(graph: Structure, term: Term) -> list[Term]:
    """The terms of a sum inside a sum."""
    term = stripped(graph, term)
    inner = total(graph, term.value)
    if inner is None:
        return [term]
    return [stripped(graph, each if term.sign > 0 else -each) for each in inner]


def _signed(graph: Structure, product: Node) -> tuple[Term, Term]:
    a, b = product.inputs
    return stripped(graph, Term(a)), stripped(graph, Term(b))
