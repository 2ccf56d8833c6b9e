"""log(softmax(x)) as one operator."""

from __future__ import annotations

from tensorproof.formats import Format
from tensorproof.graph import Node
from tensorproof.repair.editing import Editor, Spot
from tensorproof.repair.proposal import Case, Declined, Proposal
from tensorproof.repair.recognised import shifted, softmax_of
from tensorproof.repair.rewrites import proposal, rewrite
from tensorproof.repair.stable import put_in_place, soft_like, widest


@rewrite("Log")
def log_softmax(case: Case, node: Node) -> Proposal:
    """log(exp(x_i) / sum_j exp(x_j)) = x_i - log(sum_j exp(x_j)), which LogSoftmax computes after it subtracted the maximum.

    The result is at least x_i - max(x) - log n, a finite number, where softmax itself underflows to zero. The logarithm is a
    function of single elements, so that moves of elements between the two operators are made with the new result instead.
    """
    operand = shifted(case, node.inputs[0])
    found = softmax_of(case, operand.value)
    if found is None:
        raise Declined("the operand is no softmax")
    if operand.offset or operand.sign < 0:
        raise Declined("a constant is added to the softmax, or it is subtracted from one")
    format = widest(case, found.argument, node.inputs[0], promoted=False)

    def edit(editor: Editor) -> None:
        def written(spot: Spot, x: str, format: Format) -> str:
            return soft_like(case, spot, "LogSoftmax", found, x, editor.opset)

        put_in_place(case, editor, node, found.argument, operand.moves, written, format)

    return proposal(
        case,
        node,
        (*operand.nodes, *found.nodes),
        name="log-softmax",
        summary="Log(Softmax(x)) becomes LogSoftmax(x)",
        because="log(softmax(x)) = x - logsumexp(x), computed without the underflow of softmax",
        edit=edit,
    )
