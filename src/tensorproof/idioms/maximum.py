"""Differences and quotients of tensors that are ordered: x - max(x), h - relu(h), p / sum(p), x / (1 + |x|)."""

from __future__ import annotations

import numpy as np

from tensorproof.graph import Node
from tensorproof.idioms.claims import Claim, idiom
from tensorproof.idioms.order import Proof, proofs_of, reads_of
from tensorproof.idioms.structure import Structure
from tensorproof.idioms.terms import Term, factors, stripped, total
from tensorproof.operators.table import Call
from tensorproof.ranges.range import Range


@idiom("Sub", "Add", costly=True)
def ordered_difference(graph: Structure, node: Node) -> Claim | None:
    """a - b <= 0 where a <= b, and >= 0 where a >= b: x - max(x), h - relu(h), (a + b) - inter with inter <= a.

    The order of a and b as computed is shown by `tensorproof.idioms.order`. A difference of ordered numbers has a sign, and
    rounding keeps it (rounding is monotone, and 0 is a number of every format).
    """
    terms = total(graph, node.outputs[0])
    assert terms is not None
    a, b = stripped(graph, terms[0]), stripped(graph, -terms[1])
    if node.op == "Add" and a.sign > 0 and b.sign < 0:
        return None
    under, over = proofs_of(graph, a, b), proofs_of(graph, b, a)
    if not under and not over:
        return None
    reads = reads_of((*under, *over), *node.inputs)

    def bound(call: Call, *operands: Range) -> tuple[float, float] | None:
        ranges = dict(zip(reads, operands))
        if not ranges[node.inputs[0]].format.is_float:
            # Differences of integers wrap around.
            return None
        size = max(_size(ranges[node.inputs[0]]), _size(ranges[node.inputs[1]]))
        high, low = _excess(call, under, ranges, size), _excess(call, over, ranges, size)
        return None if high == np.inf and low == np.inf else (-low, high)

    return Claim("ordered-difference", reads, bound)


def _excess(call: Call, proofs: list[Proof], ranges: dict[int, Range], size: float) -> float:
    """The least amount by which the smaller of two tensors may exceed the larger, over all proofs that hold."""
    best = np.inf
    for proof in proofs:
        if proof.holds(ranges):
            slack = proof.slack(call, next(iter(ranges.values())).format)
            if slack is not None:
                best = min(best, slack[0] * size + slack[1])
    return best


def _size(x: Range) -> float:
    low, high = x.hull()
    return max(abs(low), abs(high)) if low <= high else 0.0


@idiom("Div", "tensorproof::DivNoNan", "Mul", costly=True)
def ordered_quotient(graph: Structure, node: Node) -> Claim | None:
    """|a / b| <= 1 where |a| <= b: p / sum(p), a / (a + b), x / (1 + |x|), x / max(|x|), x / sqrt(1 + x^2).

    The order of |a| and b as computed is shown by `tensorproof.idioms.order`; a <= b is enough where b >= 0. A quotient of at
    most 1 is not rounded above 1, which is a number of every format. A product with the reciprocal rounds twice more, and a
    reciprocal that is subnormal is off by up to half the smallest number, times b at most. A quotient that is 0 where b is 0 stays
    within: 0 is between any two such ends.
    """
    parts = factors(graph, node)
    one: int | None = None
    if parts is None:
        divided = _times_inverse(graph, node)
        if divided is None:
            return None
        parts, one = divided
    a, b, inverted = parts
    up, down = proofs_of(graph, Term(a), Term(b)), proofs_of(graph, Term(a, -1), Term(b))
    if not up and not down:
        return None
    reads = reads_of((*up, *down), a, b, *(() if one is None else (one,)))

    def bound(call: Call, *operands: Range) -> tuple[float, float] | None:
        ranges = dict(zip(reads, operands))
        dividend, divisor = ranges[a], ranges[b]
        if not divisor.format.is_float or (one is not None and ranges[one].hull() != (1.0, 1.0)):
            return None
        ends = [_beyond_one(call, proofs, ranges, divisor, inverted) for proofs in (up, down)]
        low, high = -1.0 - ends[1], 1.0 + ends[0]
        least = float(divisor.extended()[0].min(initial=np.inf))
        if not least >= 0.0 and max(ends) == np.inf:
            # a <= b alone says nothing where b is negative.
            return None
        if least >= 0.0:
            span = dividend.hull()
            low, high = (max(low, 0.0) if span[0] >= 0.0 else low), (min(high, 0.0) if span[1] <= 0.0 else high)
        return (low, high) if low > -np.inf or high < np.inf else None

    return Claim("ordered-quotient", reads, bound)


def _times_inverse(graph: Structure, node: Node) -> tuple[tuple[int, int, bool], int] | None:
    """The parts of a (1 / b), and the value that must be 1."""
    for one, other in (node.inputs, node.inputs[::-1]):
        inverse = graph.producer(other, "Div")
        if inverse is not None and graph.constant(inverse.inputs[0]) is not None:
            return (one, inverse.inputs[1], True), inverse.inputs[0]
    return None


def _beyond_one(call: Call, proofs: list[Proof], ranges: dict[int, Range], divisor: Range, inverted: bool) -> float:
    least, largest = divisor.hull()
    best = np.inf
    for proof in proofs:
        slack = proof.slack(call, divisor.format) if proof.holds(ranges) else None
        if slack is None or slack[0] >= 0.5 or (slack[1] and not least > 0.0):
            continue
        # a <= b + s max(a, b) + t, so that a / b <= (1 + t / b) / (1 - s).
        beyond = (slack[0] + (slack[1] / least if slack[1] else 0.0)) / (1.0 - slack[0])
        if inverted:
            lost = divisor.format.smallest_normal if call.target.flushes_results else divisor.format.smallest_subnormal
            beyond += (1.0 + beyond) * (3.0 * divisor.format.unit_roundoff + lost * max(largest, 0.0))
        best = min(best, beyond)
    return best
