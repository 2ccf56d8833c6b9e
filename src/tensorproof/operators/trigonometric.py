"""Circular and hyperbolic functions and their inverses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tensorproof.formats import Array, Format
from tensorproof.operators.activations import alive
from tensorproof.operators.exponential import on_domain
from tensorproof.operators.table import FAITHFUL, Call, Mask, operator
from tensorproof.ranges.elementwise import monotone, piecewise
from tensorproof.ranges.range import NAN, SPECIALS, Range
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW
from tensorproof.rules.derivative_overflow import DERIVATIVE_OVERFLOW
from tensorproof.rules.exponential_overflow import EXPONENTIAL_OVERFLOW
from tensorproof.rules.infinite_derivative_at_edge import INFINITE_AT_EDGE
from tensorproof.rules.inverse_function_outside_domain import INVERSE_OUTSIDE_DOMAIN

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor

# -- periodic --------------------------------------------------------------------------------------------------------


def _multiples(low: Array, high: Array, phase: float, period: float) -> tuple[Array, Array]:
    """The first and last k with phase + k * period in [low, high], one more where float64 cannot tell.

    There is none if first > last. A point holds none: its image is computed directly. The quotient is off by less than
    2^-50 of itself: 3 roundings, and one of pi.
    """
    first, last = (low - phase) / period, (high - phase) / period
    slack = 2.0**-50 * (np.abs(first) + np.abs(last) + 1.0)
    point = low == high
    return np.where(point, 0.0, np.ceil(first - slack)), np.where(point, -1.0, np.floor(last + slack))


def wave(x: Range, function: np.ufunc, maximum: float) -> Range:
    """A sine whose maxima stand at `maximum` + 2 pi k, its minima half a period later."""
    result = monotone(x, function)
    low, high = result.low, result.high
    for phase, value in ((maximum, 1.0), (maximum + np.pi, -1.0)):
        first, last = _multiples(x.low, x.high, phase, 2 * np.pi)
        here = first <= last
        low, high = np.where(here, np.minimum(low, value), low), np.where(here, np.maximum(high, value), high)
    return result.replace(low, high, result.special)


@operator("Sin", error=FAITHFUL, codomain=(-1.0, 1.0), elementwise=True)
def sin(op: Call, x: Range) -> Range:
    """Between its values at the ends, and 1 or -1 where a cell holds an odd multiple of pi/2."""
    return wave(x, np.sin, np.pi / 2)


sin.aten("sin")
sin.tensorflow("Sin")
sin.jax("sin")


@sin.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return run.torch.sin(x)


@operator("Cos", error=FAITHFUL, codomain=(-1.0, 1.0), elementwise=True)
def cos(op: Call, x: Range) -> Range:
    """Between its values at the ends, and 1 or -1 where a cell holds a multiple of pi."""
    return wave(x, np.cos, 0.0)


cos.aten("cos")
cos.tensorflow("Cos")
cos.jax("cos")


@cos.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return run.torch.cos(x)


#: The largest |tan| of any number of a format. float64: tan(6381956970095103 * 2^797), the double nearest to an odd
#: multiple of pi/2 (Muller, Elementary Functions, worst cases for range reduction); the others by trying all numbers.
_LARGEST_TANGENT = {"float64": 2.1334853857537041e18, "float32": 6.192834e8, "float16": 66347.42, "bfloat16": 6211.05}


@operator(
    "Tan",
    error=FAITHFUL,
    overflow=ARITHMETIC_OVERFLOW,
    coarse="the tangent beside a pole is as large as the format's numbers come near it",
    elementwise=True,
)
def tan(op: Call, x: Range) -> Range:
    """Increasing between poles; across one, as large as the numbers of the format come near it."""
    result = monotone(x, np.tan)
    first, last = _multiples(x.low, x.high, np.pi / 2, np.pi)
    if not (first <= last).any():
        return result
    largest = _LARGEST_TANGENT[x.format.name]
    low, high = np.where(first <= last, -largest, result.low), np.where(first <= last, largest, result.high)
    if x.format.name != "float64":
        beside_low, beside_high = _beside_pole(x.low, x.high, (first + 0.5) * np.pi, x.format)
        low, high = np.where(first == last, beside_low, low), np.where(first == last, beside_high, high)
    return result.replace(low, high, result.special)


@tan.backward(DERIVATIVE_OVERFLOW)
def _(op: Call, result: Range, x: Range) -> Mask:
    """g (1 + y^2), of the result y: only narrow formats overflow."""
    return 1.0 + result.magnitude() ** 2 > result.format.high


tan.aten("tan")
tan.tensorflow("Tan")
tan.jax("tan")


@tan.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return run.torch.tan(x)


def _beside_pole(low: Array, high: Array, pole: Array, format: Format) -> tuple[Array, Array]:
    """The extremes of a cell with one pole: the tangents of the numbers next to it, and of the ends."""
    window = 2.0**-50 * np.abs(pole)
    before, after = format.round_down(pole - window), format.round_up(pole + window)
    points = low, high, before, format.round_nearest(pole), after
    candidates = np.stack([np.tan(np.clip(point, low, high)) for point in points])
    return candidates.min(axis=0), candidates.max(axis=0)


# -- inverse circular functions --------------------------------------------------------------------------------------


def _outside_unit(op: Call, x: Range) -> npt.NDArray[np.bool_]:
    return (x.low < -1) | (x.high > 1)


@operator("Asin", error=FAITHFUL, elementwise=True)
def asin(op: Call, x: Range) -> Range:
    """Increasing on [-1, 1]; NaN outside."""
    return monotone(x.clamp(-1.0, 1.0), np.arcsin)


asin.aten("asin", "arcsin")
asin.tensorflow("Asin")
asin.jax("asin")


@asin.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return on_domain(run, run.torch.asin, x, x.abs() < 1, point=0.0)


@operator("Acos", error=FAITHFUL, codomain=(0.0, np.inf), elementwise=True)
def acos(op: Call, x: Range) -> Range:
    """Decreasing on [-1, 1]; NaN outside."""
    return monotone(x.clamp(-1.0, 1.0), np.arccos)


acos.aten("acos", "arccos")
acos.tensorflow("Acos")
acos.jax("acos")


@acos.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return on_domain(run, run.torch.acos, x, x.abs() < 1, point=0.0, slope=-1.0)


asin.hazard(INVERSE_OUTSIDE_DOMAIN, gives=NAN)(_outside_unit)
acos.hazard(INVERSE_OUTSIDE_DOMAIN, gives=NAN)(_outside_unit)


@asin.backward(INFINITE_AT_EDGE)
@acos.backward(INFINITE_AT_EDGE)
def _(op: Call, result: Range, x: Range) -> Mask:
    """g / sqrt(1 - x^2)."""
    return x.contains(1.0) | x.contains(-1.0)


@operator("Atan", error=FAITHFUL, elementwise=True)
def atan(op: Call, x: Range) -> Range:
    """Increasing."""
    return monotone(x, np.arctan)


atan.aten("atan", "arctan")
atan.tensorflow("Atan")
atan.jax("atan")


@atan.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return run.torch.atan(x)


# -- hyperbolic ------------------------------------------------------------------------------------------------------


@operator("Tanh", error=FAITHFUL, codomain=(-1.0, 1.0), elementwise=True)
def tanh(op: Call, x: Range) -> Range:
    """Increasing from -1 to 1."""
    return monotone(x, np.tanh)


tanh.aten("tanh")
tanh.tensorflow("Tanh")
tanh.jax("tanh")


@tanh.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return alive(run, run.torch.tanh(x), x)


@operator("Sinh", error=FAITHFUL, overflow=EXPONENTIAL_OVERFLOW, elementwise=True)
def sinh(op: Call, x: Range) -> Range:
    """Increasing."""
    return monotone(x, np.sinh)


sinh.aten("sinh")
sinh.tensorflow("Sinh")
sinh.jax("sinh")


@sinh.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return run.torch.sinh(x)


@operator("Cosh", error=FAITHFUL, overflow=EXPONENTIAL_OVERFLOW, codomain=(1.0, np.inf), elementwise=True)
def cosh(op: Call, x: Range) -> Range:
    """Least at 0, where it is 1."""
    return piecewise(x, np.cosh, (0.0,))


cosh.aten("cosh")
cosh.tensorflow("Cosh")
cosh.jax("cosh")


@cosh.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return run.torch.cosh(x)


@operator("Asinh", error=FAITHFUL, elementwise=True)
def asinh(op: Call, x: Range) -> Range:
    """Increasing."""
    return monotone(x, np.arcsinh)


asinh.aten("asinh", "arcsinh")
asinh.tensorflow("Asinh")
asinh.jax("asinh")


@asinh.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return run.torch.asinh(x)


@operator("Acosh", error=FAITHFUL, codomain=(0.0, np.inf), elementwise=True)
def acosh(op: Call, x: Range) -> Range:
    """Increasing from 1 on; NaN below."""
    return monotone(x.clamp(low=1.0), np.arccosh)


acosh.aten("acosh", "arccosh")
acosh.tensorflow("Acosh")
acosh.jax("acosh")


@acosh.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return on_domain(run, run.torch.acosh, x, x > 1, point=2.0)


@acosh.hazard(INVERSE_OUTSIDE_DOMAIN, gives=NAN)
def _(op: Call, x: Range) -> Mask:
    return x.low < 1


@acosh.backward(INFINITE_AT_EDGE)
def _(op: Call, result: Range, x: Range) -> Mask:
    """g / sqrt(x^2 - 1)."""
    return x.contains(1.0)


@acosh.spoils_zero
def _(op: Call, x: Range) -> Mask:
    """Below -1 the formula is that of a number above 1."""
    return (x.low <= 1) & (x.high >= -1)


@operator("Atanh", error=FAITHFUL, elementwise=True)
def atanh(op: Call, x: Range) -> Range:
    """Increasing inside (-1, 1); infinite at the ends, NaN outside."""
    last = 1.0 - x.format.unit_roundoff
    return monotone(x.clamp(-last, last), np.arctanh)


atanh.aten("atanh", "arctanh")
atanh.tensorflow("Atanh")
atanh.jax("atanh")


@atanh.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return on_domain(run, run.torch.atanh, x, x.abs() < 1, point=0.0)


@atanh.hazard(INVERSE_OUTSIDE_DOMAIN, gives=SPECIALS)
def _(op: Call, x: Range) -> Mask:
    return (x.low <= -1) | (x.high >= 1)


@atanh.spoils_zero
def _(op: Call, x: Range) -> Mask:
    """0 / (1 - x^2) is a number outside [-1, 1]."""
    return x.contains(1.0) | x.contains(-1.0)
