"""Quotients of exponentials that are a hyperbolic tangent."""

from __future__ import annotations

from dataclasses import dataclass

from tensorproof.formats import Format
from tensorproof.graph import Node
from tensorproof.idioms.terms import factors
from tensorproof.repair.editing import Editor, Spot
from tensorproof.repair.matching import result
from tensorproof.repair.proposal import Case, Declined, Proposal
from tensorproof.repair.recognised import Shifted, shifted
from tensorproof.repair.rewrites import proposal, rewrite
from tensorproof.repair.stable import put_in_place, uniform, widest


@dataclass(frozen=True, slots=True)
class _Tangent:
    """tanh(factor * argument), and the exponentials that it is made of."""

    argument: int
    factor: float
    nodes: tuple[Node, ...]


@rewrite("Div")
def tanh_by_hand(case: Case, node: Node) -> Proposal:
    """(exp(x) - exp(-x)) / (exp(x) + exp(-x)) = tanh(x), and (exp(u) - 1) / (exp(u) + 1) = tanh(u / 2).

    Where the exponentials overflow, the quotient is inf / inf.
    """
    parts = factors(case.structure, node)
    found = None if parts is None else _of_one(case, parts[0], parts[1]) or _of_two(case, parts[0], parts[1])
    if found is None:
        raise Declined("the quotient is no hyperbolic tangent")
    format = widest(case, found.argument, result(node), promoted=False)

    def edit(editor: Editor) -> None:
        def written(spot: Spot, x: str, format: Format) -> str:
            return spot.add("Tanh", x if found.factor == 1.0 else spot.add("Mul", x, uniform(spot, found.factor, format)))

        put_in_place(case, editor, node, found.argument, (), written, format)

    return proposal(
        case,
        node,
        found.nodes,
        name="tanh-by-hand",
        summary="the quotient of exponentials becomes Tanh",
        because="(exp(x) - exp(-x)) / (exp(x) + exp(-x)) = tanh(x) = (exp(2 x) - 1) / (exp(2 x) + 1), which does not overflow",
        edit=edit,
    )


def _of_one(case: Case, above: int, below: int) -> _Tangent | None:
    """(exp(u) - 1) / (exp(u) + 1), or its negative."""
    top, bottom = shifted(case, above), shifted(case, below)
    exponential = case.structure.producer(bottom.value, "Exp")
    if exponential is None or not case.structure.same(top.value, bottom.value) or top.moves or bottom.moves:
        return None
    if bottom.sign < 0 or bottom.offset != 1.0 or top.offset != -top.sign:
        return None
    return _Tangent(exponential.inputs[0], 0.5 * top.sign, (*top.nodes, *bottom.nodes, exponential))


def _of_two(case: Case, above: int, below: int) -> _Tangent | None:
    """(exp(x) - exp(-x)) / (exp(x) + exp(-x))."""
    difference, total = case.structure.producer(above, "Sub"), case.structure.producer(below, "Add")
    if difference is None or total is None:
        return None
    first, second = (case.structure.producer(value, "Exp") for value in difference.inputs)
    if first is None or second is None:
        return None
    straight = all(case.structure.same(a, b) for a, b in zip(difference.inputs, total.inputs))
    crossed = all(case.structure.same(a, b) for a, b in zip(difference.inputs, reversed(total.inputs)))
    x, y = shifted(case, first.inputs[0]), shifted(case, second.inputs[0])
    if not (straight or crossed) or not _are_opposite(case, x, y):
        return None
    exponentials = {node.number: node for value in total.inputs if (node := case.structure.producer(value)) is not None}
    exponentials |= {first.number: first, second.number: second}
    return _Tangent(first.inputs[0], 1.0, (difference, total, *exponentials.values()))


def _are_opposite(case: Case, x: Shifted, y: Shifted) -> bool:
    if x.moves or y.moves or x.offset or y.offset or x.sign == y.sign:
        return False
    return case.structure.same(x.value, y.value)
