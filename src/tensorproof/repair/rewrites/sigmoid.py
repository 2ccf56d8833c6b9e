"""1 / (1 + exp(-x)) as sigmoid."""

from __future__ import annotations

from tensorproof.formats import Format
from tensorproof.graph import Node
from tensorproof.repair.editing import Editor, Spot
from tensorproof.repair.matching import result
from tensorproof.repair.proposal import Case, Declined, Proposal
from tensorproof.repair.recognised import sigmoid_of
from tensorproof.repair.rewrites import proposal, rewrite
from tensorproof.repair.stable import put_in_place, widest


@rewrite("Div", "Mul", "Reciprocal")
def sigmoid_by_hand(case: Case, node: Node) -> Proposal:
    """1 / (1 + exp(-x)) = exp(x) / (1 + exp(x)) is the sigmoid.

    Where the exponential overflows, the first has no derivative and the second no value. ONNX Runtime's operator is 0 below -18 in
    float32, where the quotient has digits left: not safe in the strict sense.
    """
    found = sigmoid_of(case, result(node))
    if found is None:
        raise Declined("the quotient is no sigmoid of one tensor")
    format = widest(case, found.argument, result(node), promoted=False)

    def edit(editor: Editor) -> None:
        def written(spot: Spot, x: str, format: Format) -> str:
            return spot.add("Sigmoid", x if found.sign > 0 else spot.add("Neg", x))

        put_in_place(case, editor, node, found.argument, (), written, format)

    return proposal(
        case,
        node,
        found.nodes,
        name="sigmoid-by-hand",
        summary="the quotient of exponentials becomes Sigmoid(x)",
        because="1 / (1 + exp(-x)) = exp(x) / (1 + exp(x)) = sigmoid(x), which does not overflow",
        edit=edit,
        safe=False,
    )
