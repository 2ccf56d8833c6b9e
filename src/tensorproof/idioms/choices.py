"""Choices between a value and a substitute, by a comparison of the value itself."""

from __future__ import annotations

from tensorproof.graph import Node
from tensorproof.idioms.claims import Claim, idiom
from tensorproof.idioms.structure import Structure
from tensorproof.operators.table import Call
from tensorproof.ranges.guards import TURNED, Fact, Guards
from tensorproof.ranges.narrowing import related
from tensorproof.ranges.range import Range

#: How a value is related to another one, whether that is a comparison that failed, and whether it holds for both negated.
Relation = tuple[str, int, bool, bool]


@idiom("Where")
def guarded_choice(graph: Structure, node: Node) -> Claim | None:
    """Where(x > c, x, y): wherever x is taken it lies above c, strictly; likewise for y and for the other comparisons, and for -x:
    Where(x >= 0, -x, x) is never above 0.

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
    reads = tuple(dict.fromkeys((*branches, *(other for found in relations for _, other, *_ in found))))

    def bound(call: Call, *operands: Range) -> tuple[float, float] | None:
        ranges = dict(zip(reads, operands))
        ends: list[tuple[float, float]] = []
        for value, found in zip(branches, relations):
            x = ranges[value]
            for relation, other, is_denied, is_negated in found:
                if not (is_denied and (x.any_special or ranges[other].any_special)):
                    compared = ranges[other]
                    if is_negated:
                        least, most = compared.extended()
                        compared = compared.replace(-most, -least, None)
                    x = related(call.target, x, relation, compared, is_denied)
            ends.append(x.hull())
        return min(low for low, _ in ends), max(high for _, high in ends)

    return Claim("guarded-choice", reads, bound)


def _relations(graph: Structure, value: int, facts: tuple[Fact, ...]) -> list[Relation]:
    """What facts say about a value, or about what it is the negative of."""
    negated = graph.producer(value, "Neg")
    found: list[Relation] = []
    for fact in facts:
        if fact.relation not in TURNED:
            continue
        turned = TURNED[fact.relation]
        if graph.same(fact.left, value):
            found.append((fact.relation, fact.right, fact.is_denied, False))
        elif graph.same(fact.right, value):
            found.append((turned, fact.left, fact.is_denied, False))
        elif negated is not None and graph.same(fact.left, negated.inputs[0]):
            found.append((turned, fact.right, fact.is_denied, True))
        elif negated is not None and graph.same(fact.right, negated.inputs[0]):
            found.append((fact.relation, fact.left, fact.is_denied, True))
    return found
