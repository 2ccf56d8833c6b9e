"""sqrt(softmax(x)) by exponentials of halves."""

from __future__ import annotations

from tensorproof.formats import Format
from tensorproof.graph import Node
from tensorproof.repair.editing import Editor, Spot
from tensorproof.repair.matching import uniform_number
from tensorproof.repair.proposal import Case, Declined, Proposal
from tensorproof.repair.recognised import shifted, softmax_axes, softmax_of
from tensorproof.repair.rewrites import proposal, rewrite
from tensorproof.repair.stable import put_in_place, uniform, widest


@rewrite("Sqrt", "Pow")
def sqrt_of_softmax(case: Case, node: Node) -> Proposal:
    """sqrt(exp(x_i - m) / s) = exp((x_i - m) / 2) / sqrt(s) with m = max(x) and s = sum_j exp(x_j - m) >= 1.

    A softmax that underflows to 0 has a root with an infinite derivative, which meets a factor 0; here no root is near 0.
    """
    operand = shifted(case, node.inputs[0])
    found = softmax_of(case, operand.value)
    if found is None or operand.offset or operand.sign < 0:
        raise Declined("the operand is no softmax")
    if node.op == "Pow" and uniform_number(case, node.inputs[1]) != 0.5:
        raise Declined("the exponent is not 1/2")
    axes = softmax_axes(case, found)
    format = widest(case, found.argument, node.inputs[0])

    def edit(editor: Editor) -> None:
        def written(spot: Spot, x: str, format: Format) -> str:
            maximum = spot.reduce("ReduceMax", x, axes or None, keepdims=True)
            lowered = spot.add("Sub", x, maximum)
            total = spot.reduce("ReduceSum", spot.add("Exp", lowered), axes or None, keepdims=True)
            root = spot.add("Exp", spot.add("Mul", lowered, uniform(spot, 0.5, format)))
            return spot.add("Div", root, spot.add("Sqrt", total))

        put_in_place(case, editor, node, found.argument, operand.moves, written, format)

    return proposal(
        case,
        node,
        (*operand.nodes, *found.nodes),
        name="sqrt-of-softmax",
        summary="Sqrt(Softmax(x)) becomes Exp((x - m) / 2) / Sqrt(s), with m = max(x) and s = sum(Exp(x - m))",
        because="the root of a quotient is the quotient of the roots, and sqrt(exp(x)) = exp(x / 2): no root is of 0",
        edit=edit,
    )
