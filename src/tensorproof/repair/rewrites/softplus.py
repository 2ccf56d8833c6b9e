"""log(1 + exp(x)) as softplus."""

from __future__ import annotations

from tensorproof.graph import Node
from tensorproof.repair.editing import Editor
from tensorproof.repair.proposal import Case, Declined, Proposal
from tensorproof.repair.recognised import shifted
from tensorproof.repair.rewrites import proposal, rewrite
from tensorproof.repair.stable import put_in_place, softplus, widest


@rewrite("Log")
def softplus_by_hand(case: Case, node: Node) -> Proposal:
    """log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)), which Softplus computes: the exponential is at most 1."""
    operand = shifted(case, node.inputs[0])
    exponential = case.structure.producer(operand.value, "Exp")
    if exponential is None:
        raise Declined("the operand is no exponential and a constant")
    if operand.sign < 0 or operand.offset != 1.0:
        raise Declined("the exponential is not added to 1")
    argument = exponential.inputs[0]
    format = widest(case, argument, node.inputs[0])

    def edit(editor: Editor) -> None:
        put_in_place(case, editor, node, argument, operand.moves, softplus, format)

    return proposal(
        case,
        node,
        (*operand.nodes, exponential),
        name="softplus-by-hand",
        summary="Log(1 + Exp(x)) becomes Softplus(x)",
        because="log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)), whose exponential does not overflow",
        edit=edit,
    )
