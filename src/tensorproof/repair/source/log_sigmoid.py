"""log(sigmoid(x)) as logsigmoid(x), and log(1 - sigmoid(x)) as logsigmoid(-x).

log(1 / (1 + exp(-x))) = min(x, 0) - log1p(exp(-|x|)), in which nothing overflows and the argument of the logarithm is at
least 1. 1 - sigmoid(x) = sigmoid(-x) in exact arithmetic; in float32 the left side is 0 from x = 16.7 on.
"""

from __future__ import annotations

import libcst as cst

from tensorproof.repair.source.drafting import Draft
from tensorproof.repair.source.reading import Operation
from tensorproof.repair.source.repair import Repair

FUNCTIONS = {"torch": "torch.nn.functional.logsigmoid", "tensorflow": "tensorflow.math.log_sigmoid", "jax": "jax.nn.log_sigmoid"}


def _rewrite(node: cst.BaseExpression, draft: Draft) -> None:
    found = _sigmoid_below(node, draft)
    if found is None:
        return
    path, negative = found
    sigmoid = path[-1]
    x = draft.operand(*path, name="logits")
    if sigmoid.library in FUNCTIONS:
        draft.replace(node, draft.call(FUNCTIONS[sigmoid.library], sigmoid, draft.minus(x) if negative else x))


def _sigmoid_below(node: cst.BaseExpression, draft: Draft) -> tuple[tuple[Operation, ...], bool] | None:
    """The operations from below the logarithm down to the sigmoid, and whether it is the logarithm of 1 - sigmoid."""
    log = draft.reader.operation(node, "log", "log1p")
    if log is None:
        return None
    if log.name == "log1p":
        inner = draft.reader.negated(log.operand)
        sigmoid = None if inner is None else draft.reader.operation(inner, "sigmoid")
        return None if sigmoid is None else ((sigmoid,), True)
    sigmoid = draft.reader.operation(log.operand, "sigmoid")
    if sigmoid is not None:
        return (sigmoid,), False
    complement = draft.reader.complement(log.operand)
    sigmoid = None if complement is None else draft.reader.operation(complement.operand, "sigmoid")
    return None if complement is None or sigmoid is None else ((complement, sigmoid), True)


LOG_SIGMOID = Repair(
    "log-sigmoid",
    True,
    "logsigmoid computes the logarithm of the sigmoid from its argument, so that no logarithm of zero is taken.",
    frozenset({"NUM101", "NUM109"}),
    _rewrite,
)
