"""sqrt(exp(s)) as exp(s / 2)."""

from __future__ import annotations

import math

from tensorproof.graph import Node
from tensorproof.repair.editing import Editor
from tensorproof.repair.matching import behind_moves, uniform_number
from tensorproof.repair.proposal import Case, Declined, Proposal
from tensorproof.repair.rewrites import proposal, rewrite
from tensorproof.repair.stable import put_in_place, uniform, widest


@rewrite("Sqrt", "Pow")
def sqrt_of_exp(case: Case, node: Node) -> Proposal:
    """sqrt(exp(s)) = exp(s / 2), which is 0 or infinite at twice the distance only.

    The derivative of the root of an exponential that underflowed is infinite, times 0; that of exp(s / 2) is half of itself.
    """
    inner, moves = behind_moves(case, node.inputs[0])
    exponential = case.structure.producer(inner, "Exp")
    if exponential is None:
        raise Declined("the operand is no exponential")
    if node.op == "Pow" and uniform_number(case, node.inputs[1]) != 0.5:
        raise Declined("the exponent is not 1/2")
    argument = exponential.inputs[0]
    format = widest(case, argument, node.inputs[0], promoted=False)
    summary = case.summary(argument)
    if summary is not None and summary.high / 2.0 > math.log(format.high):
        raise Declined("the exponential of half the exponent overflows, too")

    def edit(editor: Editor) -> None:
        put_in_place(
            case,
            editor,
            node,
            argument,
            moves,
            lambda spot, s, format: spot.add("Exp", spot.add("Mul", s, uniform(spot, 0.5, format))),
            format,
        )

    return proposal(
        case,
        node,
        (*moves, exponential),
        name="sqrt-of-exp",
        summary="Sqrt(Exp(s)) becomes Exp(s / 2)",
        because="sqrt(exp(s)) = exp(s / 2), whose derivative is finite where exp(s) underflows",
        edit=edit,
    )
