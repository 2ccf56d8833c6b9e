"""Logarithms of what a function computes better together with them: NUM501, NUM503, NUM504, NUM505."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorproof.rules.source.log_of_one_plus import LOG_OF_ONE_PLUS
from tensorproof.rules.source.log_of_sigmoid import LOG_OF_SIGMOID
from tensorproof.rules.source.log_of_softmax import LOG_OF_SOFTMAX
from tensorproof.rules.source.log_of_sum_of_exponentials import LOG_OF_SUM_OF_EXPONENTIALS
from tensorproof.shapes.numeric_patterns.operations import (
    Operation,
    beside,
    has_fractions,
    is_number,
    operation_of,
    operation_of_kind,
)
from tensorproof.shapes.numeric_patterns.reporting import warn
from tensorproof.shapes.numeric_patterns.rewriting import Written, one_added
from tensorproof.shapes.problems import Edit
from tensorproof.shapes.values import Tensor, Value

if TYPE_CHECKING:
    from tensorproof.shapes.run import Run

LOGSUMEXP = {
    "torch": "torch.logsumexp(x, dim)",
    "numpy": "scipy.special.logsumexp(x, axis)",
    "jax": "jax.nn.logsumexp(x, axis)",
    "tf": "tf.reduce_logsumexp(x, axis)",
    "keras": "keras.ops.logsumexp(x, axis)",
}
LOG_SOFTMAX = {
    "torch": "torch.log_softmax(x, dim)",
    "numpy": "scipy.special.log_softmax(x, axis)",
    "jax": "jax.nn.log_softmax(x, axis)",
    "tf": "tf.nn.log_softmax(x, axis)",
    "keras": "keras.ops.log_softmax(x, axis)",
}
LOG_SIGMOID = {
    "torch": "torch.nn.functional.logsigmoid(x)",
    "numpy": "-np.logaddexp(0, -x)",
    "jax": "jax.nn.log_sigmoid(x)",
    "tf": "tf.math.log_sigmoid(x)",
    "keras": "keras.ops.log_sigmoid(x)",
}


def check_log(run: Run, log: Operation, result: Value) -> None:
    """Compare what the logarithm is taken of with the patterns."""
    operation = operation_of(run, log.operand)
    if operation is None:
        return
    if operation.kind == "add":
        _check_one_plus(run, log, operation)
    elif operation.kind == "sum":
        _check_sum_of_exponentials(run, log, operation)
    elif operation.kind == "subtract":
        _check_one_minus_sigmoid(run, log, operation)
    elif operation.kind == "divide" and _is_sigmoid(run, log.operand):
        _warn_of_sigmoid(run, log, "log(1 / (1 + exp(-x)))", "")
    elif operation.kind == "sigmoid":
        _warn_of_sigmoid(run, log, "log(sigmoid(x))", "")
    else:
        _check_softmax(run, log)


# -- log(1 + x) -------------------------------------------------------------------------------------------------------


def _check_one_plus(run: Run, log: Operation, addition: Operation) -> None:
    added = beside(addition.pair, 1)
    if added is None or not has_fractions(run, added):
        return
    exponential = operation_of_kind(run, added, "exp")
    if exponential is None:
        message = "log(1 + x) loses the digits of a small x when 1 is added: write log1p(x)"
    else:
        message = "log(1 + exp(x)) overflows for large x and is 0 for very negative x: write softplus(x), or logaddexp(0, x)"
    warn(run, LOG_OF_ONE_PLUS, log, message, _log1p(run, log, exponential))


#: Softplus, by what the logarithm is called: the function and the text before its operand.
_SOFTPLUS = {
    "torch.log": ("nn.functional.softplus", ""),
    "numpy.log": ("logaddexp", "0, "),
    "jax.numpy.log": ("logaddexp", "0, "),
    "tf.log": ("math.softplus", ""),
    "tf.math.log": ("softplus", ""),
    "keras.ops.log": ("softplus", ""),
}


def _log1p(run: Run, log: Operation, exponential: Operation | None) -> tuple[Edit, ...]:
    written = Written.at(run, log.place)
    call = None if written is None else written.call(written.node, log.is_method)
    added = None if call is None else one_added(call.operand)
    if written is None or call is None or added is None:
        return ()
    if exponential is None:
        return written.edit("write log1p", call.renamed("log1p", added))
    inner = written.call(added, exponential.is_method)
    if inner is None or log.name not in _SOFTPLUS:
        return ()
    name, before = _SOFTPLUS[log.name]
    return written.edit(f"write {name.rpartition('.')[2]}", call.called(name, before + written.of(inner.operand)))


# -- log(sum(exp(x))) -------------------------------------------------------------------------------------------------


def _check_sum_of_exponentials(run: Run, log: Operation, total: Operation) -> None:
    exponential = operation_of_kind(run, total.operand, "exp")
    if exponential is None or not isinstance(exponential.operand, Tensor) or _is_shifted(run, exponential.operand):
        return
    message = f"log(sum(exp(x))) overflows where x is large, although its result is not: write {LOGSUMEXP[log.library]}"
    warn(run, LOG_OF_SUM_OF_EXPONENTIALS, log, message, _logsumexp(run, log, total, exponential))


def _is_shifted(run: Run, value: Tensor) -> bool:
    """Whether something was subtracted first: the largest element, in the stable form that is written out."""
    if run.was_changed(value):
        return True
    difference = operation_of_kind(run, value, "subtract")
    return difference is not None and (difference.pair is None or isinstance(difference.pair[1], Tensor))


def _logsumexp(run: Run, log: Operation, total: Operation, exponential: Operation) -> tuple[Edit, ...]:
    name = {"torch": "logsumexp", "tf": "reduce_logsumexp", "keras": "logsumexp"}.get(log.library)
    written = Written.at(run, log.place)
    outer = None if written is None else written.call(written.node, log.is_method)
    middle = None if written is None or outer is None else written.call(outer.operand, total.is_method)
    inner = None if written is None or middle is None else written.call(middle.operand, exponential.is_method)
    if written is None or middle is None or inner is None or name is None or not middle.has_options:
        return ()
    return written.edit(f"write {name}", middle.renamed(name, inner.operand))


# -- log(softmax(x)) --------------------------------------------------------------------------------------------------


def _check_softmax(run: Run, log: Operation) -> None:
    """Also where elements are picked from the softmax before the logarithm is taken."""
    value = log.operand
    operation = operation_of(run, value)
    while operation is not None and operation.kind in ("part", "view"):
        value = operation.operand
        operation = operation_of(run, value)
    if operation is None or operation.kind != "softmax":
        return
    message = f"the logarithm of a softmax is -inf where the softmax underflows to 0: write {LOG_SOFTMAX[log.library]}"
    edits = _log_softmax(run, log, operation) if value is log.operand else ()
    warn(run, LOG_OF_SOFTMAX, log, message, edits)


def _log_softmax(run: Run, log: Operation, softmax: Operation) -> tuple[Edit, ...]:
    written = Written.at(run, log.place)
    outer = None if written is None else written.call(written.node, log.is_method)
    inner = None if written is None or outer is None else written.call(outer.operand, softmax.is_method)
    if written is None or inner is None or not softmax.name.endswith(".softmax"):
        return ()
    return written.edit("write log_softmax", inner.renamed("log_softmax", inner.operand))


# -- log(sigmoid(x)) --------------------------------------------------------------------------------------------------


def _check_one_minus_sigmoid(run: Run, log: Operation, difference: Operation) -> None:
    if difference.pair is not None and is_number(difference.pair[0], 1) and _is_sigmoid(run, difference.pair[1]):
        _warn_of_sigmoid(run, log, "log(1 - sigmoid(x))", "-")


def _is_sigmoid(run: Run, value: Value) -> bool:
    """Whether a tensor is a sigmoid, also one that is written out as 1 / (1 + exp(-x))."""
    operation = operation_of(run, value)
    if operation is None or operation.kind == "sigmoid":
        return operation is not None
    if operation.kind != "divide" or operation.pair is None or not is_number(operation.pair[0], 1):
        return False
    addition = operation_of_kind(run, operation.pair[1], "add")
    return addition is not None and operation_of_kind(run, beside(addition.pair, 1), "exp") is not None


def _warn_of_sigmoid(run: Run, log: Operation, pattern: str, sign: str) -> None:
    instead = LOG_SIGMOID[log.library]
    if sign:
        instead = instead.replace("-x", "x") if "-x" in instead else instead.replace("(x)", "(-x)")
    message = f"{pattern} is -inf where the sigmoid is rounded: write {instead}"
    warn(run, LOG_OF_SIGMOID, log, message, () if sign else _log_sigmoid(run, log))


_LOG_SIGMOIDS = {
    "torch.sigmoid": "nn.functional.logsigmoid",
    "torch.nn.functional.sigmoid": "logsigmoid",
    "tf.sigmoid": "math.log_sigmoid",
    "tf.math.sigmoid": "log_sigmoid",
    "jax.nn.sigmoid": "log_sigmoid",
    "keras.ops.sigmoid": "log_sigmoid",
}


def _log_sigmoid(run: Run, log: Operation) -> tuple[Edit, ...]:
    sigmoid = operation_of_kind(run, log.operand, "sigmoid")
    name = None if sigmoid is None else _LOG_SIGMOIDS.get(sigmoid.name)
    written = Written.at(run, log.place)
    outer = None if written is None else written.call(written.node, log.is_method)
    inner = None if written is None or outer is None else written.call(outer.operand, False)
    if written is None or inner is None or name is None:
        return ()
    return written.edit(f"write {name.rpartition('.')[2]}", inner.renamed(name, inner.operand))
