"""log(softmax(x)) as one operator."""

from __future__ import annotations

from tensorproof.graph import Node
from tensorproof.repair.editing import Editor
from tensorproof.repair.matching import behind_moves
from tensorproof.repair.proposal import Case, Declined, Proposal
from tensorproof.repair.rewrites import rewrite


@rewrite("Log")
def log_softmax(case: Case, node: Node) -> Proposal:
    """log(exp(x_i) / sum_j exp(x_j)) = x_i - log(sum_j exp(x_j)), which LogSoftmax computes after it subtracted the maximum.

    The result is at least x_i - max(x) - log n, a finite number, where softmax itself underflows to zero. The logarithm is a
    function of single elements, so that moves of elements between the two operators are made with the new result instead.
    """
    inner, moves = behind_moves(case, node.inputs[0])
    softmax = case.structure.producer(inner, "Softmax")
    if softmax is None:
        raise Declined("the operand is no softmax")

    def edit(editor: Editor) -> None:
        spot = editor.before(node, "stable")
        logarithm = spot.add("LogSoftmax", spot.name(softmax.inputs[0]), **softmax.attributes)
        editor.replace(node, spot.moved(moves, logarithm))

    return Proposal(
        kind="rewrite",
        name="log-softmax",
        finding=case.finding,
        summary=f"Log({softmax.op}(x)) becomes LogSoftmax(x)",
        because="log(softmax(x)) = x - logsumexp(x), computed without the underflow of softmax",
        safe=True,
        replaces=(node.name,),
        edit=edit,
    )
