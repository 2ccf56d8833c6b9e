"""log(1 - softmax(x)) by the probabilities of the other classes."""

from __future__ import annotations

import math

from tensorproof.formats import Format
from tensorproof.graph import Node
from tensorproof.repair.editing import Editor, Spot
from tensorproof.repair.proposal import Case, Declined, Proposal
from tensorproof.repair.recognised import SoftmaxFound, lost_epsilon, shifted, softmax_axes, softmax_of
from tensorproof.repair.rewrites import proposal, rewrite
from tensorproof.repair.stable import log_sum_exp, put_in_place, soft_like, uniform, widest

#: Two probabilities of a row cannot both be larger. Up to here 1 - p loses at most two bits.
_LARGE = 0.75

#: A logarithm this much below another: exp(-64) = 1.6e-28 of it does not change a sum, not even in float64.
_NEGLIGIBLE = 64.0


@rewrite("Log")
def log_one_minus_softmax(case: Case, node: Node) -> Proposal:
    """1 - p_i is the sum of the other p_j, and its logarithm is the logsumexp of their logarithms.

    Only the largest p of a row can exceed 3/4, so that one sum for the row is enough: that of all p but the large one. Where p is
    smaller, 1 - p is exact enough and stays as it was. An epsilon that the 1 swallowed is added to that sum, where it counts.
    """
    operand = shifted(case, node.inputs[0])
    found = softmax_of(case, operand.value)
    if found is None or operand.sign > 0:
        raise Declined("the operand is not 1 less a softmax")
    epsilon = lost_epsilon(case, operand, node.inputs[0])
    axes = softmax_axes(case, found)
    shape = case.shape(found.argument)
    if shape is not None and math.prod(shape[axis] for axis in axes or range(len(shape))) == 1:
        raise Declined("a softmax of one number is 1")
    if case.model.opsets[""] < 9:
        raise Declined("the model's version has no Where")
    format = widest(case, found.argument, node.inputs[0])

    def edit(editor: Editor) -> None:
        def written(spot: Spot, x: str, format: Format) -> str:
            return _logarithm(case, spot, found, x, axes, epsilon, format, editor.opset)

        put_in_place(case, editor, node, found.argument, operand.moves, written, format)

    return proposal(
        case,
        node,
        (*operand.nodes, *found.nodes),
        name="log-one-minus-softmax",
        summary="Log(1 - Softmax(x)) becomes the logarithm of the other classes' sum, where that is small",
        because="1 - p_i is the sum of the other probabilities, which does not cancel",
        edit=edit,
    )


def _logarithm(
    case: Case, spot: Spot, found: SoftmaxFound, x: str, axes: tuple[int, ...], epsilon: float, format: Format, opset: int
) -> str:
    p = soft_like(case, spot, "Softmax", found, x, opset)
    is_large = spot.add("Greater", p, uniform(spot, _LARGE, format))
    rest = spot.add("Sub", uniform(spot, 1.0, format), spot.clip(p, None, _LARGE, format.dtype))
    if epsilon:
        others = spot.reduce("ReduceSum", spot.add("Where", is_large, uniform(spot, 0.0, format), p), axes or None, keepdims=True)
        return spot.add("Log", spot.add("Add", spot.add("Where", is_large, others, rest), uniform(spot, epsilon, format)))
    logarithms = soft_like(case, spot, "LogSoftmax", found, x, opset)
    least = spot.reduce("ReduceMin", logarithms, axes or None, keepdims=True)
    nothing = spot.add("Sub", least, uniform(spot, _NEGLIGIBLE, format))
    without = spot.add("Where", is_large, nothing, logarithms)
    return spot.add("Where", is_large, log_sum_exp(spot, without, axes, keepdims=True), spot.add("Log", rest))
