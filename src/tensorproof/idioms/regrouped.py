"""Guards that an optimiser moved: (a + b - c) + eps as (a + b) + (eps - c)."""

from __future__ import annotations

import numpy as np

from tensorproof.graph import Node
from tensorproof.idioms.claims import Claim, idiom
from tensorproof.idioms.order import Proof, proofs_of, reads_of
from tensorproof.idioms.structure import Structure
from tensorproof.idioms.terms import Term
from tensorproof.operators.table import Call
from tensorproof.ranges.range import Range


@idiom("Add")
def union_with_its_guard_inside(graph: Structure, node: Node) -> Claim | None:
    """(a + b) + (eps - c) >= eps / 2, where 0 <= c <= a, c <= b and eps > 0: the union of two areas, c what they share.

    TensorFlow's optimiser writes a + b - c + eps so. In floats a + b >= 2 c, since 2 c is a number and rounding is monotone.
    If c <= eps / 2, then eps - c >= eps / 2, and adding a + b >= 0 keeps it so. Else eps - c >= -c, and the sum is at
    least 2 c - c = c > eps / 2. Halves are exact, unless they are subnormal.
    """
    found = _parts(graph, node)
    if found is None:
        return None
    epsilon, shared, proofs = found
    reads = reads_of([*proofs[0], *proofs[1]], epsilon, shared)

    def bound(call: Call, *operands: Range) -> tuple[float, float] | None:
        ranges = dict(zip(reads, operands))
        guard = ranges[epsilon]
        least, format = guard.hull()[0], guard.format
        if not format.is_float or guard.has_special or not least >= 4.0 * format.smallest_normal:
            return None
        if not ranges[shared].hull()[0] >= 0.0:
            return None
        exactly = [any(p.holds(ranges) and p.slack(call, format) == (0.0, 0.0) for p in each) for each in proofs]
        return (least / 2.0, np.inf) if all(exactly) else None

    return Claim("union-with-its-guard-inside", reads, bound)


def _parts(graph: Structure, node: Node) -> tuple[int, int, list[list[Proof]]] | None:
    """eps, c, and proofs of c <= a and of c <= b."""
    for union, rest in (node.inputs, node.inputs[::-1]):
        areas, guarded = graph.producer(union, "Add"), graph.producer(rest, "Sub")
        if areas is None or guarded is None:
            continue
        epsilon, shared = guarded.inputs
        proofs = [proofs_of(graph, Term(shared), Term(area)) for area in areas.inputs]
        if all(proofs):
            return epsilon, shared, proofs
    return None
