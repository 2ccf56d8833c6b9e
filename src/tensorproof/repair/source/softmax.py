"""exp(x) / sum(exp(x)) as softmax(x).

With m = max(x), exp(x_i) / sum(exp(x_j)) = exp(x_i - m) / sum(exp(x_j - m)): no exponential exceeds 1, and the sum is at
least 1. In NumPy, which has no softmax, exp(x - logsumexp(x)) says the same.
"""

from __future__ import annotations

import libcst as cst

from tensorproof.repair.source.drafting import Draft, parsed_expression
from tensorproof.repair.source.exceptions import NotSure
from tensorproof.repair.source.log_sum_exp import refuse_shifted
from tensorproof.repair.source.reading import Operation, keeps_axis
from tensorproof.repair.source.repair import Repair

_FUNCTIONS = {"torch": "torch.softmax", "tensorflow": "tensorflow.nn.softmax", "jax": "jax.nn.softmax"}
_KEYWORDS = {"torch": "dim", "tensorflow": "axis", "jax": "axis", "numpy": "axis"}


def _rewrite(node: cst.BaseExpression, draft: Draft) -> None:
    quotient = draft.reader.operation(node, "divide")
    if quotient is None:
        return
    exponential = draft.reader.operation(quotient.operand, "exp")
    total = draft.reader.operation(quotient.arguments["y"], "sum", extra=frozenset({"axis", "keepdims"}))
    summand = None if total is None else draft.reader.operation(total.operand, "exp")
    if exponential is None or total is None or summand is None or total.library is None:
        return
    if not draft.reader.same(exponential.operand, summand.operand):
        raise NotSure("the exponential and the sum below it are of different values")
    refuse_shifted(exponential, draft)
    x = draft.operand(total, summand, name="exponent")
    above = draft.operand(exponential, name="exponent")
    if x != above:
        raise NotSure("the exponential and the sum below it are of different values")
    draft.replace(node, _softmax(draft, exponential, total, x))


def _softmax(draft: Draft, exponential: Operation, total: Operation, x: str) -> str:
    library = draft.library(exponential)
    axis = total.arguments.get("axis")
    if axis is None:
        return _over_all(draft, library, exponential, x)
    if draft.reader.number(axis) is None:
        raise NotSure("the dimension of the sum is not written as a number")
    if not keeps_axis(total) and draft.reader.number(axis) != 0:
        raise NotSure("the sum does not keep its dimension, so that what it divides depends on the shape")
    code = draft.code(axis)
    if library == "numpy":
        total_code = f"{draft.speller.spell('numpy.logaddexp', exponential)}.reduce({x}, axis={code}, keepdims=True)"
        return draft.call("numpy.exp", exponential, f"{x} - {total_code}")
    return draft.call(_FUNCTIONS[library], exponential, f"{x}, {_KEYWORDS[library]}={code}")


def _over_all(draft: Draft, library: str, exponential: Operation, x: str) -> str:
    """Softmax over all elements, which only jax.nn says in one call."""
    if library == "jax":
        return draft.call(_FUNCTIONS[library], exponential, f"{x}, axis=None")
    if library == "torch" and isinstance(parsed_expression(x), cst.Name):
        return draft.call(_FUNCTIONS[library], exponential, f"{x}.flatten(), dim=0") + f".view_as({x})"
    raise NotSure("the sum is over all elements, and softmax is over one dimension")


SOFTMAX = Repair(
    "softmax",
    True,
    "softmax subtracts the maximum before the exponential, so that neither the exponential overflows nor the sum vanishes.",
    frozenset({"NUM201", "NUM203", "NUM103", "NUM109"}),
    _rewrite,
)
