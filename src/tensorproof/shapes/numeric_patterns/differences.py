"""Differences of nearly equal numbers: NUM502 and NUM506."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tensorproof.rules.source.exponential_minus_one import EXPONENTIAL_MINUS_ONE
from tensorproof.rules.source.variance_by_difference import VARIANCE_BY_DIFFERENCE
from tensorproof.shapes.numeric_patterns.operations import Operation, is_number, operation_of_kind, squared
from tensorproof.shapes.numeric_patterns.reporting import warn
from tensorproof.shapes.numeric_patterns.rewriting import Written, is_one
from tensorproof.shapes.problems import Edit
from tensorproof.shapes.values import Tensor, Value

if TYPE_CHECKING:
    from tensorproof.shapes.run import Run

VARIANCE = {
    "torch": "x.var(dim, unbiased=False)",
    "numpy": "x.var(axis)",
    "jax": "x.var(axis)",
    "tf": "tf.math.reduce_variance(x, axis)",
    "keras": "keras.ops.var(x, axis)",
}


def check_difference(run: Run, difference: Operation, result: Value) -> None:
    """Compare a subtraction with the patterns."""
    if difference.pair is None:
        return
    left, right = difference.pair
    if is_number(right, 1):
        _check_exponential(run, difference, left)
    elif isinstance(right, Tensor):
        _check_variance(run, difference, left, right)


# -- exp(x) - 1 -------------------------------------------------------------------------------------------------------


def _check_exponential(run: Run, difference: Operation, left: Value) -> None:
    """Of a constant it is harmless: the result is far from 0."""
    exponential = operation_of_kind(run, left, "exp")
    if exponential is None or not isinstance(exponential.operand, Tensor):
        return
    message = "exp(x) - 1 cancels where x is small: write expm1(x)"
    warn(run, EXPONENTIAL_MINUS_ONE, difference, message, _expm1(run, difference, exponential))


def _expm1(run: Run, difference: Operation, exponential: Operation) -> tuple[Edit, ...]:
    written = Written.at(run, difference.place)
    if written is None or not isinstance(written.node, ast.BinOp) or not is_one(written.node.right):
        return ()
    call = written.call(written.node.left, exponential.is_method)
    # TensorFlow 2 has the function in `tf.math` only.
    name = "math.expm1" if exponential.name == "tf.exp" else "expm1"
    return () if call is None else written.edit("write expm1", call.renamed(name, call.operand))


# -- E[x^2] - E[x]^2 --------------------------------------------------------------------------------------------------


def _check_variance(run: Run, difference: Operation, left: Value, right: Tensor) -> None:
    """The mean of the squares and the square of the mean of one and the same tensor."""
    root = squared(run, right)
    mean_of_squares, mean = operation_of_kind(run, left, "mean"), operation_of_kind(run, root, "mean")
    if mean_of_squares is None or mean is None:
        return
    squares = mean_of_squares.operand
    base = squared(run, squares)
    # The recipes of remembered results do not tell tensors of one shape apart.
    is_certain = not any(isinstance(step, Tensor) and run.memo.is_copy(step) for step in (left, squares, right, root))
    if base is not None and base is mean.operand and is_certain:
        message = (
            "mean(x**2) - mean(x)**2 cancels where the mean is large, and may be negative: "
            f"write ((x - mean)**2).mean(), or {VARIANCE[difference.library]}"
        )
        warn(run, VARIANCE_BY_DIFFERENCE, difference, message)
