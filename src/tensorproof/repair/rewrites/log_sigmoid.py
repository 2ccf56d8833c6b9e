"""log(sigmoid(x)) and log(1 - sigmoid(x)) by softplus."""

from __future__ import annotations

from tensorproof.formats import Format
from tensorproof.graph import Node
from tensorproof.repair.editing import Editor, Spot
from tensorproof.repair.proposal import Case, Declined, Proposal
from tensorproof.repair.recognised import shifted, sigmoid_of, stays_positive
from tensorproof.repair.rewrites import proposal, rewrite
from tensorproof.repair.stable import put_in_place, softplus, widest


@rewrite("Log")
def log_sigmoid(case: Case, node: Node) -> Proposal:
    """log(sigmoid(x)) = -log(1 + exp(-x)) = -softplus(-x), and log(1 - sigmoid(x)) = log(sigmoid(-x)) = -softplus(x).

    A sigmoid underflows to 0, or rounds to 1; softplus grows like |x|. A binary cross-entropy by hand needs both.
    """
    operand = shifted(case, node.inputs[0])
    found = sigmoid_of(case, operand.value)
    if found is None:
        raise Declined("the operand is no sigmoid")
    if operand.offset != (0.0 if operand.sign > 0 else 1.0):
        raise Declined("the operand is neither sigmoid(x) nor 1 - sigmoid(x): another constant is added")
    if found.nodes[0].op == "Sigmoid" and stays_positive(case, node.inputs[0]):
        raise Declined("the operand does not come near 0")
    is_rest, sign = operand.sign < 0, operand.sign * found.sign
    format = widest(case, found.argument, node.inputs[0])

    def edit(editor: Editor) -> None:
        def written(spot: Spot, x: str, format: Format) -> str:
            return spot.add("Neg", softplus(spot, spot.add("Neg", x) if sign > 0 else x, format))

        put_in_place(case, editor, node, found.argument, operand.moves, written, format)

    return proposal(
        case,
        node,
        (*operand.nodes, *found.nodes),
        name="log-sigmoid",
        summary="Log(1 - Sigmoid(x)) becomes -Softplus(x)" if is_rest else "Log(Sigmoid(x)) becomes -Softplus(-x)",
        because="sigmoid(x) = 1 / (1 + exp(-x)) and 1 - sigmoid(x) = sigmoid(-x), so that both logarithms are a softplus",
        edit=edit,
    )
