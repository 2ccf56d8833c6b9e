"""Exponentials, logarithms, roots, powers and the error function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.formats import FLOAT64, Array, Format
from tensorproof.operators.activations import alive
from tensorproof.operators.arithmetic import nearest_to_zero, quotient_away_from
from tensorproof.operators.table import CORRECT, FAITHFUL, UNDEFINED, Call, Mask, operator
from tensorproof.ranges.elementwise import binary, monotone
from tensorproof.ranges.error_function import erf as erf_value
from tensorproof.ranges.range import NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY, SPECIALS, Range, align
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW
from tensorproof.rules.derivative_overflow import DERIVATIVE_OVERFLOW
from tensorproof.rules.division_by_zero import DIVISION_BY_ZERO
from tensorproof.rules.exponential_overflow import EXPONENTIAL_OVERFLOW
from tensorproof.rules.infinite_derivative_at_edge import INFINITE_AT_EDGE
from tensorproof.rules.infinite_derivative_at_zero import INFINITE_AT_ZERO
from tensorproof.rules.log_of_nonpositive import LOG_OF_NONPOSITIVE
from tensorproof.rules.power_outside_domain import POWER_OUTSIDE_DOMAIN
from tensorproof.rules.sqrt_of_negative import SQRT_OF_NEGATIVE
from tensorproof.targets import TENSORFLOW_CPU

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall
    from tensorproof.frontends.jax_call import JaxCall
    from tensorproof.frontends.tensorflow_call import TensorflowCall


def on_domain(
    run: Run, function: Callable[[Tensor], Tensor], x: Tensor, inside: Tensor, *, point: float, slope: float = 1.0
) -> Tensor:
    """function(x); a search gets `slope` where the true one is infinite or there is none. `point` is any place inside."""
    value = function(x)
    if not run.search or not x.requires_grad:
        return value
    # A derivative that is not finite spoils all others, even where its element is not chosen.
    tame = run.torch.where(inside, x, point)
    return run.passing(value, run.torch.where(inside, function(tame), slope * x))


@operator("Exp", error=FAITHFUL, overflow=EXPONENTIAL_OVERFLOW, codomain=(0.0, np.inf), elementwise=True)
def exp(op: Call, x: Range) -> Range:
    """Increasing."""
    return monotone(x, np.exp)


exp.aten("exp")
exp.tensorflow("Exp")
exp.jax("exp")


@exp.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return run.torch.exp(x)


@operator("Log", error=FAITHFUL, elementwise=True)
def log(op: Call, x: Range) -> Range:
    """Increasing on (0, inf); -inf at zero and NaN below."""
    tiny = x.format.smallest_subnormal
    # Where subnormal operands may be zero, scalar code gives -103.97, the logarithm of half the smallest one (TensorFlow 2.21).
    return monotone(x.clamp(low=tiny / 2 if op.target.flushes_operands and x.format.bits < 64 else tiny), np.log)


log.aten("log")
log.tensorflow("Log")
log.jax("log")


@log.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return on_domain(run, run.torch.log, x, x > 0, point=1.0)


@log.hazard(LOG_OF_NONPOSITIVE, gives=NEGATIVE_INFINITY | NAN)
def _(op: Call, x: Range) -> Mask:
    return x.low <= 0


@log.backward(DERIVATIVE_OVERFLOW)
def _(op: Call, result: Range, x: Range) -> Mask:
    """g / x: infinite for the smallest subnormal numbers."""
    return (x.low > 0) & (1.0 / x.low > x.format.high)


@log.spoils_zero
def _(op: Call, x: Range) -> Mask:
    """0 / x is a number wherever x is not zero, the logarithm of a negative number included."""
    return x.contains(0.0)


@operator("Sqrt", error=CORRECT, codomain=(0.0, np.inf), elementwise=True)
def sqrt(op: Call, x: Range) -> Range:
    """Increasing on [0, inf); NaN below zero."""
    return monotone(x.clamp(low=0.0), np.sqrt)


sqrt.aten("sqrt")
sqrt.tensorflow("Sqrt")
sqrt.jax("sqrt")


@sqrt.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return on_domain(run, run.torch.sqrt, x, x > 0, point=1.0)


@sqrt.hazard(SQRT_OF_NEGATIVE, gives=NAN)
def _(op: Call, x: Range) -> Mask:
    return x.low < 0


@sqrt.backward(INFINITE_AT_ZERO)
def _(op: Call, result: Range, x: Range) -> Mask:
    """g / (2 sqrt(x))."""
    return x.contains(0.0)


@operator("Reciprocal", error=CORRECT, overflow=ARITHMETIC_OVERFLOW, elementwise=True)
def reciprocal(op: Call, x: Range) -> Range:
    """Decreasing on either side of zero."""
    kernel = quotient_away_from(x.format.smallest_subnormal)
    return binary(Range.constant(np.ones(()), x.format), x, kernel, np.divide)


reciprocal.aten("reciprocal")
reciprocal.tensorflow("Reciprocal", "Inv")


@reciprocal.aten("rsqrt")
def _(call: AtenCall) -> int:
    """1 / sqrt(x), in two rounded steps as torch computes it."""
    format = call.result.format
    root = call.emit("Sqrt", call.tensor("self", format), formats=(format,))
    return call.emit("Reciprocal", root, formats=(format,))


@reciprocal.tensorflow("Rsqrt")
def _(call: TensorflowCall) -> int:
    return _of_root(call, call.arithmetic_format())


@reciprocal.jax("rsqrt")
def _(call: JaxCall) -> int:
    return _of_root(call, call.arithmetic_format())


def _of_root(call: TensorflowCall | JaxCall, format: Format) -> int:
    """1 / sqrt(x) in two steps; targets whose own function is less accurate say so for the second one."""
    return call.emit("Reciprocal", call.emit("Sqrt", call.operand(0), formats=(format,)), formats=(format,))


@reciprocal.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return on_domain(run, run.torch.reciprocal, x, x != 0, point=1.0, slope=-1.0)


@reciprocal.hazard(DIVISION_BY_ZERO, gives=SPECIALS)
def _(op: Call, x: Range) -> Mask:
    return x.contains(0.0)


@reciprocal.backward(DERIVATIVE_OVERFLOW)
def _(op: Call, result: Range, x: Range) -> Mask:
    """-g y^2, of the result y."""
    return ~x.contains(0.0) & (nearest_to_zero(x) ** -2.0 > x.format.high)


@reciprocal.spoils_zero
def _(op: Call, x: Range) -> Mask:
    """The square of an infinite result."""
    return True


@operator("Erf", error=FAITHFUL, codomain=(-1.0, 1.0), elementwise=True)
def erf(op: Call, x: Range) -> Range:
    """Increasing from -1 to 1."""
    return monotone(x, erf_value)


erf.aten("erf")
erf.tensorflow("Erf")
erf.jax("erf")


@erf.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return alive(run, run.torch.erf(x), x)


@erf.hazard(ARITHMETIC_OVERFLOW, gives=NAN)
def _(op: Call, x: Range) -> Mask:
    # TensorFlow's float64 kernel squares the operand, and gives NaN once that overflows (measured with 2.21).
    if op.target is not TENSORFLOW_CPU or x.format != FLOAT64:
        return False
    return x.magnitude() > np.sqrt(x.format.high)


# -- powers ----------------------------------------------------------------------------------------------------------


@operator("Pow", error=FAITHFUL, overflow=ARITHMETIC_OVERFLOW, elementwise=True)
def pow_(op: Call, base: Range, exponent: Range) -> Range:
    """exp(y log x) for positive x: extremes at the corners; negative bases by the parity of integer exponents.

    The result has the format of the base (ONNX Pow-12); an integer result is rounded towards zero.
    """
    format, integers = base.format, exponent.format.is_integer
    tiny = 1.0 if format.is_integer else format.smallest_subnormal

    def kernel(lx: Array, hx: Array, ly: Array, hy: Array) -> tuple[Array, Array]:
        low, high = _power(lx, hx, ly, hy, tiny)
        return _whole(low, high, integers & (ly >= 0)) if format.is_integer else (low, high)

    result = binary(base, exponent, kernel, np.power, format)
    return _special_powers(base, exponent, result) if base.has_special or exponent.has_special else result


pow_.aten("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
pow_.tensorflow("Pow")
pow_.jax("pow")


@pow_.jax("integer_pow")
def _(call: JaxCall) -> int:
    """Squares and reciprocals as what they are: the exponent is part of the program."""
    format, exponent, x = call.arithmetic_format(), int(call["y"]), call.operand(0)
    if exponent == 1:
        return call.emit("Identity", x, formats=(format,))
    if exponent == 2:
        return call.emit("Mul", x, x, formats=(format,))
    if exponent == -1 and format.is_float:
        return call.emit("Reciprocal", x, formats=(format,))
    if exponent < 0 and not format.is_float:
        raise NotAnalysed("negative powers of integers")
    power = call.own("IntegerPower", x, exponent=abs(exponent), formats=(format,))
    return power if exponent >= 0 else call.emit("Reciprocal", power, formats=(format,))


@pow_.meaning
def _(run: Run, base: Tensor, exponent: Tensor) -> Tensor:
    floating = base.dtype.is_floating_point or exponent.dtype.is_floating_point
    if run.format(0, base) != "int":
        value = run.torch.pow(base, exponent)
    elif floating or bool((exponent < 0).any()):
        value = run.torch.pow(base.to(run.torch.float64), exponent).trunc()
    else:
        value = run.torch.pow(base, exponent)
    value = value.to(base.dtype)
    if not run.search or not (base.requires_grad or exponent.requires_grad):
        return value
    # As in `on_domain`, for two operands: the derivative with respect to the exponent has the logarithm of the base.
    inside = (base > 0) | ((base < 0) & (exponent == exponent.floor())) | ((base == 0) & (exponent >= 1))
    tame = run.torch.pow(run.torch.where(inside, base, 1.0), run.torch.where(base > 0, exponent, exponent.detach()))
    return run.passing(value, run.torch.where(inside, tame, base))


def _power(lx: Array, hx: Array, ly: Array, hy: Array, tiny: float) -> tuple[Array, Array]:
    """Powers of a box wherever they are defined; other bases are moved to the nearest end of the domain."""
    # Integer exponents of either parity: the only ones that a negative base has.
    first, last = np.ceil(ly), np.floor(hy)
    even = first + np.mod(first, 2.0), last - np.mod(last, 2.0)
    odd = first + np.mod(first + 1.0, 2.0), last - np.mod(last + 1.0, 2.0)
    negative = lx < 0
    positive = (hx >= 0) | (first > last)
    start, end = np.maximum(lx, 0.0), np.maximum(hx, 0.0)
    low, high = _positive_power(start, end, ly, hy, tiny)
    low, high = np.where(positive, low, np.inf), np.where(positive, high, -np.inf)
    start, end = np.maximum(-hx, 0.0), np.maximum(-lx, 0.0)
    for (start_y, end_y), sign in ((even, 1.0), (odd, -1.0)):
        here = negative & (start_y <= end_y)
        if not here.any():
            continue
        ends = _positive_power(start, end, np.where(here, start_y, 0.0), np.where(here, end_y, 0.0), tiny)
        low = np.where(here, np.minimum(low, ends[0] if sign > 0 else -ends[1]), low)
        high = np.where(here, np.maximum(high, ends[1] if sign > 0 else -ends[0]), high)
    return low, high


def _positive_power(lx: Array, hx: Array, ly: Array, hy: Array, tiny: float) -> tuple[Array, Array]:
    """Its logarithm y log x is a product: extremes at the corners; zero bases of negative exponents become tiny."""
    values: list[Array] = []
    for y in (ly, hy):
        for x in (lx, hx):
            values.append(np.power(np.where(y < 0, np.maximum(x, tiny), x), y))
    # The corner (0, 0) is 1; a box that holds it and smaller or larger powers has other corners for them.
    return functools.reduce(np.minimum, values), functools.reduce(np.maximum, values)


def _whole(low: Array, high: Array, integral: npt.NDArray[np.bool_]) -> tuple[Array, Array]:
    """Integer results: exact below 2^52 where the power is an integer, else cut off, float64's error included."""
    exact = integral & (np.maximum(np.abs(low), np.abs(high)) < 2.0**52)
    below, above = np.trunc(low - 2.0**-50 * np.abs(low)), np.trunc(high + 2.0**-50 * np.abs(high))
    below, above = np.where(np.isfinite(low), below, low), np.where(np.isfinite(high), above, high)
    return np.where(exact, np.rint(low), below), np.where(exact, np.rint(high), above)


def _special_powers(base: Range, exponent: Range, result: Range) -> Range:
    """What ends of cells do not show: parity for a base of -inf; x^0 = 1^y = 1 even for NaN (IEEE 754-2019, 9.2.1)."""
    aligned = align(base, exponent)
    (lx, ly), (hx, hy), (sx, sy) = aligned.lows, aligned.highs, aligned.specials
    one = ((sx != 0) & (ly <= 0) & (hy >= 0)) | ((sy != 0) & (lx <= 1) & (hx >= 1))
    low = np.where(one, np.minimum(result.low, 1.0), result.low)
    high = np.where(one, np.maximum(result.high, 1.0), result.high)
    infinite = ((sx & np.uint8(NEGATIVE_INFINITY)) != 0) & (ly <= hy)
    vanishing, growing = infinite & (ly < 0), infinite & (hy > 0)
    low, high = np.where(vanishing, np.minimum(low, 0.0), low), np.where(vanishing, np.maximum(high, 0.0), high)
    first_odd = np.ceil(ly) + np.mod(np.ceil(ly) + 1.0, 2.0)
    special = result.special | np.where(growing, np.uint8(POSITIVE_INFINITY), np.uint8(0))
    special = special | np.where(growing & (np.maximum(first_odd, 1.0) <= hy), np.uint8(NEGATIVE_INFINITY), np.uint8(0))
    return result.replace(low, high, special)


def _undefined_power(base: Range, exponent: Range) -> npt.NDArray[np.bool_]:
    """A negative base with an exponent that is no integer, or zero with a negative one."""
    aligned = align(base, exponent)
    (lx, ly), (hx, hy) = aligned.lows, aligned.highs
    nonempty = (lx <= hx) & (ly <= hy)
    fraction = (ly < hy) | (ly != np.rint(ly)) if exponent.format.is_float else np.zeros_like(ly, np.bool_)
    return nonempty & (((lx < 0) & fraction) | ((lx <= 0) & (hx >= 0) & (ly < 0)))


@pow_.hazard(POWER_OUTSIDE_DOMAIN, gives=SPECIALS)
def _(op: Call, base: Range, exponent: Range) -> Mask:
    return _undefined_power(base, exponent) if base.format.is_float else False


@pow_.hazard(POWER_OUTSIDE_DOMAIN, gives=UNDEFINED)
def _(op: Call, base: Range, exponent: Range) -> Mask:
    return _undefined_power(base, exponent) if base.format.is_integer else False


def _largest_slope(base: Range, exponent: Range) -> Array:
    """The largest |y x^(y - 1)| of each cell; infinite where a base may be zero and has a negative power."""
    aligned = align(base, exponent)
    (lx, ly), (hx, hy) = aligned.lows, aligned.highs
    near, far = _distances(lx, hx)
    powers = [np.power(x, y - 1.0) for x in (near, far) for y in (ly, hy)]
    return np.maximum(np.abs(ly), np.abs(hy)) * functools.reduce(np.maximum, powers)


def _distances(low: Array, high: Array) -> tuple[Array, Array]:
    """The smallest and the largest size of the numbers between two ends."""
    near = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(np.abs(low), np.abs(high)))
    return near, np.maximum(np.abs(low), np.abs(high))


@pow_.backward(INFINITE_AT_ZERO)
def _(op: Call, result: Range, base: Range, exponent: Range) -> Mask:
    """g y x^(y - 1), and 0 where y is 0: infinite at a base of zero for exponents between 0 and 1."""
    if exponent.format.is_integer:
        return False
    aligned = align(base, exponent)
    (lx, ly), (hx, hy) = aligned.lows, aligned.highs
    return (lx <= 0) & (hx >= 0) & (ly < 1) & (hy > 0)


@pow_.backward(DERIVATIVE_OVERFLOW)
def _(op: Call, result: Range, base: Range, exponent: Range) -> Mask:
    aligned = align(base, exponent)
    away = (aligned.lows[0] > 0) | (aligned.highs[0] < 0)
    return away & (_largest_slope(base, exponent) > base.format.high)


@pow_.backward(INFINITE_AT_EDGE, by=1)
def _(op: Call, result: Range, base: Range, exponent: Range) -> Mask:
    """g x^y log(x): no number for a negative base, whatever the exponent."""
    return base.low < 0


@pow_.backward(DERIVATIVE_OVERFLOW, by=1)
def _(op: Call, result: Range, base: Range, exponent: Range) -> Mask:
    aligned = align(result, base)
    near, far = _distances(aligned.lows[1], aligned.highs[1])
    logarithm = np.maximum(np.abs(np.log(near)), np.abs(np.log(far)))
    size = np.maximum(np.abs(aligned.lows[0]), np.abs(aligned.highs[0]))
    return (aligned.lows[1] > 0) & (size * logarithm > result.format.high)


@pow_.spoils_zero
def _(op: Call, base: Range, exponent: Range) -> Mask:
    return _undefined_power(base, exponent) | (_largest_slope(base, exponent) > base.format.high)
