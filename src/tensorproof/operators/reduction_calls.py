"""Reductions and running results of TensorFlow and JAX, as those of the standard.

TensorFlow names axes in an operand, known or computed, and none of them reduces nothing; JAX names them in a parameter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import BOOL, INT64
from tensorproof.operators.cumulative import cumprod, cumsum, reduce_prod
from tensorproof.operators.reductions import reduce_l2, reduce_mean, reduce_sum
from tensorproof.operators.running_extremes import cum_max, cum_min, log_cum_sum_exp
from tensorproof.operators.strided_slices import reversed_along
from tensorproof.ranges.moving import known_axis

if TYPE_CHECKING:
    from tensorproof.frontends.jax_call import JaxCall
    from tensorproof.frontends.tensorflow_call import TensorflowCall

# -- TensorFlow --------------------------------------------------------------------------------------------------------


def _reduced(call: TensorflowCall, op: str) -> int:
    """A reduction along the axes of the second operand."""
    keeps = int(bool(call.attribute("keep_dims", False)))
    return call.moved(op, call.operand(0), call.as_integers(1), keepdims=keeps, noop_with_empty_axes=1)


@reduce_sum.tensorflow("Sum")
def _(call: TensorflowCall) -> int:
    call.arithmetic_format()
    return _reduced(call, "ReduceSum")


@reduce_mean.tensorflow("Mean")
def _(call: TensorflowCall) -> int:
    call.arithmetic_format()
    return _reduced(call, "ReduceMean")


@reduce_prod.tensorflow("Prod")
def _(call: TensorflowCall) -> int:
    call.arithmetic_format()
    return _reduced(call, "ReduceProd")


@reduce_l2.tensorflow("EuclideanNorm")
def _(call: TensorflowCall) -> int:
    call.arithmetic_format()
    return _reduced(call, "ReduceL2")


@cumsum.tensorflow("Cumsum")
def _(call: TensorflowCall) -> int:
    return _running(call, "CumSum")


@cumprod.tensorflow("Cumprod")
def _(call: TensorflowCall) -> int:
    return _running(call, "CumProd")


def _running(call: TensorflowCall, op: str) -> int:
    call.arithmetic_format()
    flags = {name: int(bool(call.attribute(name, False))) for name in ("exclusive", "reverse")}
    axis = call.constant(np.array(call.integers_of(1)[0], np.int64))
    return call.moved(op, call.operand(0), axis, **flags)


@log_cum_sum_exp.tensorflow("CumulativeLogsumexp")
def _(call: TensorflowCall) -> int:
    """Exclusive ones begin with the logarithm of nothing, -inf."""
    format, rank = call.arithmetic_format(), call.rank(0)
    axis = known_axis(call.integers_of(1)[0], rank)
    x = call.operand(0)
    is_reverse = bool(call.attribute("reverse", False))
    x = reversed_along(call, x, [axis]) if is_reverse else x
    if call.attribute("exclusive", False):
        along = call.integers([axis])
        nothing = call.constant(np.array(-np.inf), format)
        behind = call.moved("Pad", x, call.integers([1, 0]), nothing, along)
        x = call.moved("Slice", behind, call.integers([0]), call.integers([-1]), along)
    y = call.own("LogCumSumExp", x, axis=axis, formats=(format,))
    return reversed_along(call, y, [axis]) if is_reverse else y


# -- JAX ---------------------------------------------------------------------------------------------------------------


def _along(call: JaxCall, op: str, x: int | None = None) -> int:
    """A reduction along the axes of a parameter."""
    axes = [int(axis) for axis in call["axes"]]
    x = call.operand(0) if x is None else x
    return call.moved(op, x, call.integers(axes), keepdims=0, noop_with_empty_axes=1)


@reduce_sum.jax("reduce_sum")
def _(call: JaxCall) -> int:
    call.arithmetic_format()
    return _along(call, "ReduceSum")


@reduce_prod.jax("reduce_prod")
def _(call: JaxCall) -> int:
    call.arithmetic_format()
    return _along(call, "ReduceProd")


@reduce_sum.jax("reduce_xor")
def _(call: JaxCall) -> int:
    """Whether an odd number of elements is true."""
    if call.handle(0).format is not BOOL:
        raise NotAnalysed("bits of integers along an axis")
    count = _along(call, "ReduceSum", call.operand(0, INT64))
    return call.cast(call.emit("Mod", count, call.value(2, INT64), formats=(INT64,)), BOOL)


@cumsum.jax("cumsum")
def _(call: JaxCall) -> int:
    return _running_along(call, "CumSum")


@cumprod.jax("cumprod")
def _(call: JaxCall) -> int:
    return _running_along(call, "CumProd")


def _running_along(call: JaxCall, op: str) -> int:
    call.arithmetic_format()
    axis = call.constant(np.array(int(call["axis"]), np.int64))
    return call.moved(op, call.operand(0), axis, reverse=int(bool(call["reverse"])))


@cum_max.jax("cummax")
def _(call: JaxCall) -> int:
    return _extreme_along(call, "CumMax")


@cum_min.jax("cummin")
def _(call: JaxCall) -> int:
    return _extreme_along(call, "CumMin")


def _extreme_along(call: JaxCall, op: str) -> int:
    """A running extreme, from the end on if reverse."""
    format, axis, is_reverse = call.arithmetic_format(), int(call["axis"]), bool(call["reverse"])
    x = reversed_along(call, call.operand(0), [axis]) if is_reverse else call.operand(0)
    y, _ = call.own(op, x, axis=axis, outputs=2, formats=(format, INT64))
    return reversed_along(call, y, [axis]) if is_reverse else y


@log_cum_sum_exp.jax("cumlogsumexp")
def _(call: JaxCall) -> int:
    format, axis, is_reverse = call.arithmetic_format(), int(call["axis"]), bool(call["reverse"])
    x = reversed_along(call, call.operand(0), [axis]) if is_reverse else call.operand(0)
    y = call.own("LogCumSumExp", x, axis=axis, formats=(format,))
    return reversed_along(call, y, [axis]) if is_reverse else y
