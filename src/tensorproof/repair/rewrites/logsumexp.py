"""log(sum(exp(x))) as one operator."""

from __future__ import annotations

import math

from tensorproof.formats import Format
from tensorproof.graph import Node
from tensorproof.idioms.terms import axes_of
from tensorproof.repair.editing import Editor, Spot
from tensorproof.repair.matching import result
from tensorproof.repair.proposal import Case, Declined, Proposal
from tensorproof.repair.recognised import Summed, shifted, size_along, sum_of_exponentials
from tensorproof.repair.rewrites import proposal, rewrite
from tensorproof.repair.stable import log_sum_exp, put_in_place, uniform, widest


@rewrite("Log", "ReduceLogSum")
def logsumexp(case: Case, node: Node) -> Proposal:
    """log(sum_j exp(x_j)) = m + log(sum_j exp(x_j - m)) with m = max(x): the exponentials are at most 1, and one of them is 1.

    ReduceLogSumExp computes this, and of a row of -inf it gives -inf. The mean of n exponentials is their sum over n.
    """
    operand = shifted(case, node.inputs[0])
    found = _whole(case, node) if node.op == "ReduceLogSum" else sum_of_exponentials(case, operand.value, "ReduceSum", "ReduceMean")
    if found is None:
        raise Declined("the operand is no sum of exponentials over known axes")
    if node.op == "Log" and (operand.offset or operand.sign < 0):
        raise Declined("a constant is added to the sum of exponentials, or it is subtracted from one")
    moves = operand.moves if node.op == "Log" else ()
    count = _count(case, found)
    format = widest(case, found.argument, result(node))

    def edit(editor: Editor) -> None:
        def written(spot: Spot, x: str, format: Format) -> str:
            total = log_sum_exp(spot, x, found.axes, keepdims=found.keepdims)
            return total if count == 1 else spot.add("Sub", total, uniform(spot, math.log(count), format))

        put_in_place(case, editor, node, found.argument, moves, written, format)

    return proposal(
        case,
        node,
        (*(operand.nodes if node.op == "Log" else ()), *found.nodes),
        name="logsumexp",
        summary=f"the logarithm of {found.reduction.op}(Exp(x)) becomes ReduceLogSumExp(x)",
        because="log(sum(exp(x))) = max(x) + log(sum(exp(x - max(x)))), whose exponentials do not overflow",
        edit=edit,
    )


def _whole(case: Case, node: Node) -> Summed | None:
    """The exponentials that ReduceLogSum itself sums up."""
    exponential = case.structure.producer(node.inputs[0], "Exp")
    axes = axes_of(case.structure, node)
    if exponential is None or axes is None:
        return None
    return Summed(exponential.inputs[0], axes, bool(node.attributes.get("keepdims", 1)), node, (exponential,))


def _count(case: Case, found: Summed) -> int:
    """What the sum is divided by."""
    if found.reduction.op != "ReduceMean":
        return 1
    count = size_along(case, found.argument, found.axes)
    if count is None:
        raise Declined("how many exponentials the mean is of is not known")
    return count
