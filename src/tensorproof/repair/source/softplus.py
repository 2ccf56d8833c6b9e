"""log(1 + exp(x)) and log1p(exp(x)) as softplus(x).

log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)): the exponential is at most 1. NumPy has it as logaddexp(0, x). The function of
torch returns x itself above 20, which is off by exp(-20) = 2e-9.
"""

from __future__ import annotations

import libcst as cst

from tensorproof.repair.source.drafting import Draft
from tensorproof.repair.source.reading import Operation
from tensorproof.repair.source.repair import Repair

_FUNCTIONS = {"torch": "torch.nn.functional.softplus", "tensorflow": "tensorflow.math.softplus", "jax": "jax.nn.softplus"}


def _rewrite(node: cst.BaseExpression, draft: Draft) -> None:
    log = draft.reader.operation(node, "log", "log1p")
    path = None if log is None else _down_to_exponential(log, draft)
    if log is None or path is None:
        return
    x = draft.operand(*path, name="exponent")
    library = draft.library(path[-1])
    if library == "numpy":
        draft.replace(node, draft.call("numpy.logaddexp", log, f"0, {x}"))
    else:
        draft.replace(node, draft.call(_FUNCTIONS[library], log, x))


def _down_to_exponential(log: Operation, draft: Draft) -> tuple[Operation, ...] | None:
    if log.name == "log1p":
        exponential = draft.reader.operation(log.operand, "exp")
        return None if exponential is None else (exponential,)
    plus_one = draft.reader.added_to_one(log.operand)
    exponential = None if plus_one is None else draft.reader.operation(plus_one.operand, "exp")
    return None if plus_one is None or exponential is None else (plus_one, exponential)


SOFTPLUS = Repair(
    "softplus",
    True,
    "softplus takes the exponential of a negative number only, so that it cannot overflow.",
    frozenset({"NUM201", "NUM202", "NUM101"}),
    _rewrite,
)
