"""Normalisations written out: a tensor divided by the root of the mean (or sum) of its own squares.

LayerNorm, InstanceNorm, GroupNorm and standardisation divide d = x - mean(x), RMSNorm and L2 normalisation x itself. What
makes them bounded is that the numerator's own square is a part of the sum below the root; how far is derived in
`tensorproof.idioms.scale_bounds`. Statistics of another tensor, of another axis, or taken as E[x^2] - E[x]^2, prove nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tensorproof.graph import Node
from tensorproof.idioms.claims import Claim, idiom
from tensorproof.idioms.root_mean_square import Scale, same_magnitude, scale_of
from tensorproof.idioms.scale_bounds import Reach, margin, reach_of
from tensorproof.idioms.structure import Structure
from tensorproof.operators.activations import least
from tensorproof.operators.table import Call
from tensorproof.ranges.norms import Norm
from tensorproof.ranges.range import Range


@idiom("Div", "Mul")
def divided_by_own_norm(graph: Structure, node: Node) -> Claim | None:
    """|d / sqrt(mean(d^2) + eps)| <= sqrt(n) and the Euclidean norm of a row <= sqrt(n), both up to rounding.

    With the sum in place of the mean both are 1. The divisor must stay away from zero: where its range begins at zero, nothing
    is claimed (and the division itself is reported). Where the squares are those of another rounding of d (a cast, or a 16-bit
    tensor that a runtime keeps in float32 for one of its uses), |numerator| <= |d| (1 + r) + a adds a / floor.
    """
    found = _parts(graph, node)
    if found is None:
        return None
    numerator, scale, casts = found
    reads = (numerator, *sorted(scale.reads() | set(casts)))

    def reach(call: Call, ranges: Sequence[Range]) -> tuple[float, float] | None:
        """Bounds of each element and of each row's norm, the last rounding included."""
        by_value = dict(zip(reads, ranges))
        known = reach_of(scale, call, by_value)
        return None if known is None else _rounded(call, node, known, [by_value[v] for v in (numerator, scale.base, *casts)])

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


def _parts(graph: Structure, node: Node) -> tuple[int, Scale, tuple[int, ...]] | None:
    """Numerator, scale, and the casts between the numerator and what was squared."""
    pairs = [node.inputs] if node.op == "Div" else [node.inputs, node.inputs[::-1]]
    for numerator, other in pairs:
        scale = scale_of(graph, other, inverted=node.op == "Mul")
        if scale is not None:
            casts = same_magnitude(graph, numerator, scale.base)
            if casts is not None:
                return numerator, scale, casts
    return None


def _rounded(call: Call, node: Node, known: Reach, tensors: Sequence[Range]) -> tuple[float, float] | None:
    """The bounds with what lies between the numerator and the squared tensor, and with the last rounding."""
    numerator, *_ = tensors
    if any(not x.format.is_float for x in tensors):
        return None
    relative, absolute = margin(call, node.op, numerator.format)
    narrow = max((x.format for x in tensors), key=lambda format: format.unit_roundoff)
    roundings = len(tensors) - 2
    if call.target.keeps_chains_wide and narrow.bits < 32:
        # Either use may have been rounded into 16 bits, the other one not.
        roundings += 2
    blur = math.expm1(2.0 * roundings * narrow.unit_roundoff)
    stray = 2.0 * roundings * max(least(call, x.format) for x in tensors) * (1.0 + blur)
    root = math.sqrt(known.length)
    element = (known.element * (1.0 + blur) + stray * known.factor) * (1.0 + relative) + absolute
    norm = (known.norm * (1.0 + blur) + root * stray * known.factor) * (1.0 + relative) + root * absolute
    return element, norm
