"""Gradients of element-wise functions that TensorFlow has operators for: each from the incoming gradient and one saved value.

    SqrtGrad(y, dy) = dy / (2 y)

Kernels multiply in any order (one element alone and a vector of them differ): a block bounds the whole product, adds a rounding
for each step, and what is lost if a part of the product underflows; it reports parts that overflow. That these are infinite where
the function itself is finite is the hazard of the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tensorproof.formats import BOOL, Array
from tensorproof.frontends.calls import OWN
from tensorproof.operators.activations import PADDED, leaky_relu, least, relu, selu, sigmoid
from tensorproof.operators.activations import elu as elu_
from tensorproof.operators.arithmetic import quotient_away_from
from tensorproof.operators.own_arithmetic import least_operand
from tensorproof.operators.table import Call, Mask, operator
from tensorproof.ranges.elementwise import binary, corners, product
from tensorproof.ranges.range import SPECIALS, Range, align
from tensorproof.rules.derivative_overflow import DERIVATIVE_OVERFLOW
from tensorproof.rules.infinite_derivative_at_zero import INFINITE_AT_ZERO

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.tensorflow_call import TensorflowCall

#: Bounds of what the gradient is multiplied with, from the ends of the saved value.
Slope = Callable[[Array, Array], tuple[Array, Array]]

#: Roundings of a product of at most five parts, one of them a difference.
_ROUNDINGS = 6.0


def _size(low: Array, high: Array) -> Array:
    return np.maximum(np.abs(low), np.abs(high))


def _times_slope(
    op: Call, y: Range, gradient: Range, slope: Slope, power: int, function: Callable[[Array, Array], Array], absolute: float = 0.0
) -> Range:
    """The gradient times a function of y that has at most `power` factors as large as y, and is computed within `absolute`."""
    u, tiny = gradient.format.unit_roundoff, least(op, gradient.format)

    def kernel(ly: Array, hy: Array, lg: Array, hg: Array) -> tuple[Array, Array]:
        low_slope, high_slope = slope(ly, hy)
        low, high = corners(product)(low_slope - absolute, high_slope + absolute, lg, hg)
        # A part that underflows is multiplied by all others, which are as large as this.
        lost = 4.0 * tiny * np.maximum(_size(lg, hg), 1.0) * (_size(ly, hy) + 1.0) ** power
        return low - (_ROUNDINGS * u * np.abs(low) + lost), high + (_ROUNDINGS * u * np.abs(high) + lost)

    return binary(y, gradient, kernel, function)


def _overflows(y: Range, gradient: Range, power: int) -> Mask:
    """Whether a part of the product of a gradient and a power of y leaves the format, whatever is multiplied first."""
    aligned = align(y, gradient)
    sizes = [np.maximum(_size(low, high), 1.0) for low, high in zip(aligned.lows, aligned.highs)]
    return sizes[0] ** power * sizes[1] > y.format.high


# -- roots and reciprocals -----------------------------------------------------------------------------------------------


@operator("SqrtGradient", domain=OWN, error=PADDED, overflow=DERIVATIVE_OVERFLOW, elementwise=True)
def sqrt_gradient(op: Call, y: Range, gradient: Range) -> Range:
    """dy / (2 y), of the result y of a square root: infinite, or NaN, where that is zero."""
    smallest = least_operand(op, y.format)
    quotients = quotient_away_from(smallest)
    u, tiny = y.format.unit_roundoff, least(op, y.format)

    def kernel(ly: Array, hy: Array, lg: Array, hg: Array) -> tuple[Array, Array]:
        low, high = quotients(0.5 * lg, 0.5 * hg, ly, hy)
        nearest = np.where((ly <= 0) & (hy >= 0), smallest, np.minimum(np.abs(ly), np.abs(hy)))
        lost = tiny / np.maximum(nearest, smallest) + tiny
        return low - (3.0 * u * np.abs(low) + lost), high + (3.0 * u * np.abs(high) + lost)

    return binary(y, gradient, kernel, lambda v, g: 0.5 * g / v)


sqrt_gradient.tensorflow("SqrtGrad")


@sqrt_gradient.hazard(INFINITE_AT_ZERO, gives=SPECIALS)
def _(op: Call, y: Range, gradient: Range) -> Mask:
    return y.contains(0.0)


@sqrt_gradient.meaning
def _(run: Run, y: Tensor, gradient: Tensor) -> Tensor:
    value = 0.5 * gradient / y
    return run.passing(value, run.torch.where(y == 0, gradient - y, gradient / run.torch.where(y == 0, 1.0, y)))


@operator("ReciprocalSqrtGradient", domain=OWN, error=PADDED, overflow=DERIVATIVE_OVERFLOW, elementwise=True)
def reciprocal_sqrt_gradient(op: Call, y: Range, gradient: Range) -> Range:
    """-dy y^3 / 2, of the result y of a reciprocal square root."""
    return _times_slope(op, y, gradient, lambda low, high: (-0.5 * high**3, -0.5 * low**3), 3, lambda v, g: -0.5 * g * v**3)


reciprocal_sqrt_gradient.tensorflow("RsqrtGrad")


@reciprocal_sqrt_gradient.hazard(DERIVATIVE_OVERFLOW, gives=SPECIALS)
def _(op: Call, y: Range, gradient: Range) -> Mask:
    return _overflows(y, gradient, 3)


@reciprocal_sqrt_gradient.meaning
def _(run: Run, y: Tensor, gradient: Tensor) -> Tensor:
    return -0.5 * gradient * y * y * y


@operator("ReciprocalGradient", domain=OWN, error=PADDED, overflow=DERIVATIVE_OVERFLOW, elementwise=True)
def reciprocal_gradient(op: Call, y: Range, gradient: Range) -> Range:
    """-dy y^2, of the result y of a reciprocal."""

    def slope(low: Array, high: Array) -> tuple[Array, Array]:
        nearest = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(np.abs(low), np.abs(high)))
        return -(_size(low, high) ** 2), -(nearest**2)

    return _times_slope(op, y, gradient, slope, 2, lambda v, g: -g * v * v)


reciprocal_gradient.tensorflow("ReciprocalGrad", "InvGrad")


@reciprocal_gradient.hazard(DERIVATIVE_OVERFLOW, gives=SPECIALS)
def _(op: Call, y: Range, gradient: Range) -> Mask:
    return _overflows(y, gradient, 2)


@reciprocal_gradient.meaning
def _(run: Run, y: Tensor, gradient: Tensor) -> Tensor:
    return -gradient * y * y


# -- sigmoids ------------------------------------------------------------------------------------------------------------


@operator("SigmoidGradient", domain=OWN, error=PADDED, overflow=DERIVATIVE_OVERFLOW, elementwise=True)
def sigmoid_gradient(op: Call, y: Range, gradient: Range) -> Range:
    """dy y (1 - y), of the result y of a sigmoid: largest at y = 1/2."""

    def slope(low: Array, high: Array) -> tuple[Array, Array]:
        ends = low * (1.0 - low), high * (1.0 - high)
        middle = (low < 0.5) & (high > 0.5)
        return np.minimum(*ends), np.where(middle, 0.25, np.maximum(*ends))

    return _times_slope(op, y, gradient, slope, 2, lambda v, g: g * v * (1.0 - v))


sigmoid_gradient.tensorflow("SigmoidGrad")


@sigmoid_gradient.hazard(DERIVATIVE_OVERFLOW, gives=SPECIALS)
def _(op: Call, y: Range, gradient: Range) -> Mask:
    return (y.magnitude() > 2.0) & _overflows(y, gradient, 2)


@sigmoid_gradient.meaning
def _(run: Run, y: Tensor, gradient: Tensor) -> Tensor:
    return gradient * y * (1.0 - y)


@operator("TanhGradient", domain=OWN, error=PADDED, overflow=DERIVATIVE_OVERFLOW, elementwise=True)
def tanh_gradient(op: Call, y: Range, gradient: Range) -> Range:
    """dy (1 - y^2), of the result y of a hyperbolic tangent: largest at zero."""
    # The square and the difference are rounded: u (2 y^2 + 1) at most.
    size = float(y.magnitude().max(initial=0.0))
    error = y.format.unit_roundoff * (2.0 * size * size + 1.0)

    def slope(low: Array, high: Array) -> tuple[Array, Array]:
        nearest = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(np.abs(low), np.abs(high)))
        return 1.0 - _size(low, high) ** 2, 1.0 - nearest**2

    return _times_slope(op, y, gradient, slope, 2, lambda v, g: g * (1.0 - v * v), error if np.isfinite(error) else 0.0)


tanh_gradient.tensorflow("TanhGrad")


@tanh_gradient.hazard(DERIVATIVE_OVERFLOW, gives=SPECIALS)
def _(op: Call, y: Range, gradient: Range) -> Mask:
    return (y.magnitude() > 2.0) & _overflows(y, gradient, 2)


@tanh_gradient.meaning
def _(run: Run, y: Tensor, gradient: Tensor) -> Tensor:
    return gradient * (1.0 - y * y)


@operator("SoftsignGradient", domain=OWN, error=PADDED, overflow=DERIVATIVE_OVERFLOW, elementwise=True)
def softsign_gradient(op: Call, gradient: Range, x: Range) -> Range:
    """dy / (1 + |x|)^2, of the operand x: zero once the square overflows."""
    u, tiny, largest = x.format.unit_roundoff, least(op, x.format), x.format.high

    def kernel(lg: Array, hg: Array, lx: Array, hx: Array) -> tuple[Array, Array]:
        nearest = 1.0 + np.where((lx <= 0) & (hx >= 0), 0.0, np.minimum(np.abs(lx), np.abs(hx)))
        farthest = 1.0 + _size(lx, hx)
        slopes = np.where(farthest**2 * (1.0 + 4.0 * u) > largest, 0.0, farthest**-2.0), nearest**-2.0
        low, high = corners(product)(*slopes, lg, hg)
        return low - (6.0 * u * np.abs(low) + tiny), high + (6.0 * u * np.abs(high) + tiny)

    return binary(gradient, x, kernel, lambda g, v: g / np.square(1.0 + np.abs(v)))


softsign_gradient.tensorflow("SoftsignGrad")


@softsign_gradient.meaning
def _(run: Run, gradient: Tensor, x: Tensor) -> Tensor:
    return gradient / run.torch.square(1.0 + run.torch.abs(x))


# -- rectifiers ----------------------------------------------------------------------------------------------------------


def _masked(call: TensorflowCall, masks: list[int]) -> int:
    """The gradient times 1 or 0, as TensorFlow masks it: an infinite gradient becomes NaN where the mask is 0."""
    format = call.arithmetic_format()
    result = call.operand(0)
    for mask in masks:
        result = call.emit("Mul", result, call.cast(mask, format), formats=(format,))
    return result


@relu.tensorflow("ReluGrad")
def _(call: TensorflowCall) -> int:
    """The gradient where the operand is positive."""
    zero = call.value(0.0, call.arithmetic_format())
    return _masked(call, [call.emit("Greater", call.operand(1), zero, formats=(BOOL,))])


@relu.tensorflow("Relu6Grad")
def _(call: TensorflowCall) -> int:
    """The gradient where the operand is between 0 and 6."""
    format = call.arithmetic_format()
    above = call.emit("Greater", call.operand(1), call.value(0.0, format), formats=(BOOL,))
    below = call.emit("Less", call.operand(1), call.value(6.0, format), formats=(BOOL,))
    return _masked(call, [call.emit("And", above, below, formats=(BOOL,))])


@leaky_relu.tensorflow("LeakyReluGrad")
def _(call: TensorflowCall) -> int:
    format = call.arithmetic_format()
    above = call.emit("Greater", call.operand(1), call.value(0.0, format), formats=(BOOL,))
    slope = call.value(float(call.attribute("alpha", np.float32(0.2))), format)
    below = call.emit("Mul", call.operand(0), slope, formats=(format,))
    return call.emit("Where", above, call.operand(0), below, formats=(format,))


@elu_.tensorflow("EluGrad")
def _(call: TensorflowCall) -> int:
    """dy above zero and dy (y + 1) below, of the result y."""
    return _exponential_below_zero(call, 1.0, 1.0)


@selu.tensorflow("SeluGrad")
def _(call: TensorflowCall) -> int:
    """dy scale above zero and dy (y + scale alpha) below, of the result y."""
    return _exponential_below_zero(call, 1.0507009873554804934, 1.7580993408473768599)


def _exponential_below_zero(call: TensorflowCall, above: float, shift: float) -> int:
    format = call.arithmetic_format()
    gradient, y = call.operand(0), call.operand(1)
    pair = partial(call.emit, formats=(format,))
    negative = call.emit("Less", y, call.value(0.0, format), formats=(BOOL,))
    below = pair("Mul", gradient, pair("Add", y, call.value(shift, format)))
    scaled = gradient if above == 1.0 else pair("Mul", gradient, call.value(above, format))
    return pair("Where", negative, below, scaled)


@sigmoid.tensorflow("SoftplusGrad")
def _(call: TensorflowCall) -> int:
    """dy / (1 + exp(-x)), of the operand x."""
    format = call.arithmetic_format()
    return call.emit("Mul", call.operand(0), call.emit("Sigmoid", call.operand(1), formats=(format,)), formats=(format,))
