"""log(softmax(x)) as log_softmax(x).

With m = max(x), log(exp(x_i) / sum(exp(x_j))) = (x_i - m) - log(sum(exp(x_j - m))). The sum is at least 1, so that its
logarithm is never taken of zero, whereas a component of the softmax itself rounds to zero at a gap of 104 in float32.
"""

from __future__ import annotations

import libcst as cst

from tensorproof.repair.source.drafting import Draft
from tensorproof.repair.source.exceptions import NotSure
from tensorproof.repair.source.reading import Operation
from tensorproof.repair.source.repair import Repair

_MODULES = {"tensorflow": "tensorflow.nn", "jax": "jax.nn"}


def _rewrite(node: cst.BaseExpression, draft: Draft) -> None:
    log = draft.reader.operation(node, "log")
    if log is None:
        return
    softmax = draft.reader.operation(log.operand, "softmax", extra=frozenset({"axis", "dtype"}))
    if softmax is None or softmax.library is None:
        return
    if softmax.library == "torch" and "axis" not in softmax.arguments:
        raise NotSure("softmax is called without dim, so that the axis depends on the number of dimensions")
    x = draft.operand(softmax, name="logits")
    arguments = draft.arguments(softmax)
    if softmax.is_method:
        draft.replace(node, f"{x}.log_softmax({arguments.removeprefix(', ')})")
    else:
        draft.replace(node, draft.call(f"{_module(softmax, draft)}.log_softmax", softmax, x + arguments))


def _module(softmax: Operation, draft: Draft) -> str:
    if softmax.library != "torch":
        return _MODULES[softmax.library or ""]
    qualified = draft.reader.qualified(softmax.function) if softmax.function is not None else None
    return (qualified or "torch.softmax").rpartition(".")[0]


LOG_SOFTMAX = Repair(
    "log-softmax",
    True,
    "log_softmax subtracts the maximum first, so that no logarithm of zero is taken.",
    frozenset({"NUM101", "NUM109"}),
    _rewrite,
)
