"""exp(x) / sum(exp(x)) as softmax."""

from __future__ import annotations

from tensorproof.formats import Format
from tensorproof.graph import Node
from tensorproof.idioms.terms import axes_of
from tensorproof.repair.editing import Editor, Spot
from tensorproof.repair.matching import result
from tensorproof.repair.proposal import Case, Declined, Proposal
from tensorproof.repair.recognised import SoftmaxFound, quotient_of_exponentials, softmax_of
from tensorproof.repair.rewrites import proposal, rewrite
from tensorproof.repair.stable import put_in_place, soft_like, widest
from tensorproof.rules.invalid_operation_on_infinity import INVALID_ON_INFINITY


@rewrite("Div", "Mul")
def softmax_by_hand(case: Case, node: Node) -> Proposal:
    """exp(x_i) / sum_j exp(x_j) is the same with max(x) subtracted from all x: no exponential then exceeds 1, and one is 1.

    The rounding of x_i - max(x) moves a result by up to |x_i - max(x)| / 2 units in the last place, some 30 at 1e-26, where the
    quotient itself is off by few: not safe in the strict sense.
    """
    if quotient_of_exponentials(case, result(node)) is None:
        raise Declined("no exponential is divided by a sum of exponentials of its own row")
    found = softmax_of(case, result(node))
    if found is None:
        raise Declined("dividend and divisor are exponentials of different tensors")
    if _is_lowered(case, found):
        raise Declined("the maximum is subtracted already")
    if case.finding.rule is INVALID_ON_INFINITY:
        raise Declined("what fails is an infinity in the rows themselves")
    format = widest(case, found.argument, result(node), promoted=False)

    def edit(editor: Editor) -> None:
        def written(spot: Spot, x: str, format: Format) -> str:
            return soft_like(case, spot, "Softmax", found, x, editor.opset)

        put_in_place(case, editor, node, found.argument, (), written, format)

    return proposal(
        case,
        node,
        found.nodes,
        name="softmax-by-hand",
        summary="Exp(x) / ReduceSum(Exp(x)) becomes Softmax(x)",
        because="exp(x) / sum(exp(x)) does not change when the maximum is subtracted from x, and its exponentials are at most 1",
        edit=edit,
        safe=False,
    )


def _is_lowered(case: Case, found: SoftmaxFound) -> bool:
    """Whether the exponent is x - max(x) along the axes of the sum."""
    difference = case.structure.producer(found.argument, "Sub")
    maximum = None if difference is None else case.structure.producer(difference.inputs[1], "ReduceMax")
    if difference is None or maximum is None or not case.structure.same(maximum.inputs[0], difference.inputs[0]):
        return False
    return axes_of(case.structure, maximum) == found.axes
