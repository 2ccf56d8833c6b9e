"""Choices between a value and a substitute, by a comparison of the value itself."""

from __future__ import annotations

from tensorproof.graph import Node
from tensorproof.idioms.claims import Claim, idiom
from tensorproof.idioms.structure import Structure
from tensorproof.operators.table import Call
from tensorproof.ranges.guards import TURNED, Fact, Guards
from tensorproof.ranges.narrowing import related
from tensorproof.ranges.range import Range

Relation = tuple[str, int, bool]


@idiom("Where")
def guarded_choice(graph: Structure, node: Node) -> Claim | None:
    """Where(x > c, x, y): wherever x is taken it lies above c, strictly; likewise for y and for the other comparisons.

    Condition and choice are element-wise and broadcast alike, so that each element is chosen by its own comparison. A
    comparison that failed says something only where neither side is NaN.
    """
    condition, *branches = node.inputs
    guards: Guards | None = graph.memory.get("guards")
    if guards is None:
        guards = graph.memory["guards"] = Guards(graph.model)
    if not guards.is_elementwise(condition):
        return None
    relations = [_relations(graph, value, guards.facts(condition, index == 0)) for index, value in enumerate(branches)]
    if not any(relations):
        return None
    reads = tuple(dict.fromkeys((*branches, *(other for found in relations for _, other, _ in found))))

    def bound(call: Call, *operands: Range) -> tuple[float, float] | None:
        ranges = dict(zip(reads, operands))
        ends: list[tuple[float, float]] = []
        for value, found in zip(branches, relations):
            x = ranges[value]
            for relation, other, is_denied in found:
                if not (is_denied and (x.any_special or ranges[other].any_special)):
                    x = related(call.target, x, relation, ranges[other], is_denied)
            ends.append(x.hull())
        return min(low for low, _ in ends), max(high for _, high in ends)

    return Claim("guarded-choice", reads, bound)


def _relations(graph: Structure, value: int, facts: tuple[Fact, ...]) -> list[Relation]:
    """What facts say about a value: relations to other values, and whether they are failed comparisons."""
    found: list[Relation] = []
    for fact in facts:
        if fact.relation not in TURNED:
            continue
        if graph.same(fact.left, value):
            found.append((fact.relation, fact.right, fact.is_denied))
        elif graph.same(fact.right, value):
            found.append((TURNED[fact.relation], fact.left, fact.is_denied))
    return found
