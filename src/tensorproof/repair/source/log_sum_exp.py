"""log(sum(exp(x))) as logsumexp(x).

With m = max(x), log(sum(exp(x_i))) = m + log(sum(exp(x_i - m))). No exponential exceeds 1, and the sum is at least 1.
NumPy has it as the reduction of logaddexp.
"""

from __future__ import annotations

import libcst as cst

from tensorproof.repair.source.drafting import Draft, atom
from tensorproof.repair.source.exceptions import NotSure
from tensorproof.repair.source.reading import Operation
from tensorproof.repair.source.repair import Repair

_FUNCTIONS = {
    "torch": "torch.logsumexp",
    "tensorflow": "tensorflow.reduce_logsumexp",
    "jax": "jax.nn.logsumexp",
}


def _rewrite(node: cst.BaseExpression, draft: Draft) -> None:
    log = draft.reader.operation(node, "log")
    total = None if log is None else draft.reader.operation(log.operand, "sum", extra=frozenset({"axis", "keepdims"}))
    exponential = None if total is None else draft.reader.operation(total.operand, "exp")
    if log is None or total is None or exponential is None or total.library is None:
        return
    refuse_shifted(exponential, draft)
    x = draft.operand(total, exponential, name="exponent")
    arguments = draft.arguments(total)
    if total.library == "torch" and "axis" not in total.arguments:
        x, arguments = f"{atom(x)}.flatten()", ", 0"
    if total.library == "numpy" and "axis" not in total.arguments:
        arguments = f"{arguments}, axis=None"
    if total.library == "torch" and log.is_method:
        draft.replace(node, f"{atom(x)}.logsumexp({arguments.removeprefix(', ')})")
    elif total.library == "numpy":
        draft.replace(node, f"{draft.speller.spell('numpy.logaddexp', log)}.reduce({x}{arguments})")
    else:
        draft.replace(node, draft.call(_FUNCTIONS[total.library], log, x + arguments))


def refuse_shifted(exponential: Operation, draft: Draft) -> None:
    """Raise `NotSure` for exp(x - max(x)), which is stable as it is."""
    difference = draft.reader.operation(exponential.operand, "subtract")
    if difference is not None and "max" in draft.code(draft.reader.follower.value(difference.arguments["y"])[0]).lower():
        raise NotSure("the exponential is shifted by a maximum already")


LOG_SUM_EXP = Repair(
    "log-sum-exp",
    True,
    "logsumexp subtracts the maximum before the exponential, so that neither the exponential overflows nor the sum vanishes.",
    frozenset({"NUM101", "NUM201", "NUM203", "NUM109"}),
    _rewrite,
)
