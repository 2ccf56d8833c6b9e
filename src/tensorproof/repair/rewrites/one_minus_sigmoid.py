"""log(eps + 1 - sigmoid(x)) with an epsilon that the 1 swallows."""

from __future__ import annotations

from tensorproof.formats import Format
from tensorproof.graph import Node
from tensorproof.repair.editing import Editor, Spot
from tensorproof.repair.proposal import Case, Declined, Proposal
from tensorproof.repair.recognised import lost_epsilon, shifted, sigmoid_of
from tensorproof.repair.rewrites import proposal, rewrite
from tensorproof.repair.stable import put_in_place, softplus, uniform, widest


@rewrite("Log")
def one_minus_sigmoid(case: Case, node: Node) -> Proposal:
    """1 - sigmoid(x) = sigmoid(-x) = exp(-softplus(x)), so that log(eps + 1 - sigmoid(x)) = log(eps + exp(-softplus(x))).

    An epsilon of at most half a unit of the last place of 1 is lost in 1 + eps, and 1 - sigmoid(x) is 0 where the sigmoid
    rounds to 1. Next to exp(-softplus(x)), a small number there, the epsilon counts. ONNX Runtime's Sigmoid itself is 0 below
    -18 in float32, where an epsilon of 1e-10 is still smaller than the sigmoid.
    """
    operand = shifted(case, node.inputs[0])
    found = sigmoid_of(case, operand.value)
    if found is None or operand.sign > 0:
        raise Declined("the operand is not 1 less a sigmoid")
    epsilon = lost_epsilon(case, operand, node.inputs[0])
    if epsilon == 0.0:
        raise Declined("there is no epsilon")
    format = widest(case, found.argument, node.inputs[0])

    def edit(editor: Editor) -> None:
        def written(spot: Spot, x: str, format: Format) -> str:
            negative = spot.add("Neg", softplus(spot, x if found.sign > 0 else spot.add("Neg", x), format))
            rest = spot.add("Exp", negative)
            return spot.add("Log", spot.add("Add", rest, uniform(spot, epsilon, format)))

        put_in_place(case, editor, node, found.argument, operand.moves, written, format)

    return proposal(
        case,
        node,
        (*operand.nodes, *found.nodes),
        name="one-minus-sigmoid",
        summary="Log(eps + 1 - Sigmoid(x)) becomes Log(eps + Exp(-Softplus(x)))",
        because=f"1 - sigmoid(x) = exp(-softplus(x)), next to which an epsilon of {epsilon:.3g} is not lost",
        edit=edit,
    )
