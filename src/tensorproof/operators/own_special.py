"""Special functions that ONNX does not have: error and gamma functions, the inverse sigmoid, sinc.

Errors were measured on torch 2.13 against float64, and float64 against 60 digits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.formats import Array, Format
from tensorproof.frontends.calls import OWN
from tensorproof.operators.activations import PADDED, alive
from tensorproof.operators.exponential import on_domain
from tensorproof.operators.table import FAITHFUL, Call, Mask, operator
from tensorproof.operators.trigonometric import wave
from tensorproof.ranges.elementwise import corners, monotone, piecewise
from tensorproof.ranges.pieces import pieces as of_pieces
from tensorproof.ranges.pieces import within
from tensorproof.ranges.range import INFINITIES, NAN, POSITIVE_INFINITY, SPECIALS, Range
from tensorproof.ranges.special_functions import GAMMA_MINIMUM, log_gamma
from tensorproof.ranges.special_functions import digamma as digamma_value
from tensorproof.ranges.special_functions import erfc as erfc_value
from tensorproof.ranges.special_functions import erfinv as erfinv_value
from tensorproof.ranges.special_functions import trigamma as trigamma_value
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW
from tensorproof.rules.gamma_function_at_pole import GAMMA_AT_POLE
from tensorproof.rules.inverse_function_outside_domain import INVERSE_OUTSIDE_DOMAIN

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall
    from tensorproof.frontends.jax_call import JaxCall
    from tensorproof.frontends.tensorflow_call import TensorflowCall

# -- error functions -------------------------------------------------------------------------------------------------


@operator("Erfc", domain=OWN, error=FAITHFUL, codomain=(0.0, 2.0), elementwise=True)
def erfc(op: Call, x: Range) -> Range:
    """1 - erf(x) to all digits: decreasing from 2 to 0."""
    return monotone(x, erfc_value)


erfc.aten("erfc", "special_erfc")
erfc.tensorflow("Erfc")
erfc.jax("erfc")


@erfc.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return alive(run, run.torch.erfc(x), x)


@operator("Erfinv", domain=OWN, error=FAITHFUL, elementwise=True)
def erfinv(op: Call, x: Range) -> Range:
    """Increasing inside (-1, 1); infinite at the ends, NaN outside."""
    last = 1.0 - x.format.unit_roundoff
    return monotone(x.clamp(-last, last), erfinv_value)


erfinv.aten("erfinv", "special_erfinv")
erfinv.jax("erf_inv")


@erfinv.tensorflow("Erfinv")
def _(call: TensorflowCall) -> int:
    """Ndtri((x + 1) / 2) / sqrt(2), as TensorFlow computes it: infinite where x / 2 + 1/2 rounds to 1."""
    format = call.arithmetic_format()
    half = call.value(0.5, format)
    shifted = call.emit("Add", call.emit("Mul", call.operand(0), half, formats=(format,)), half, formats=(format,))
    quantile = call.own("NormalQuantile", shifted, formats=(format,))
    return call.emit("Mul", quantile, call.value(math.sqrt(0.5), format), formats=(format,))


@erfinv.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return on_domain(run, run.torch.erfinv, x, x.abs() < 1, point=0.0)


@erfinv.hazard(INVERSE_OUTSIDE_DOMAIN, gives=SPECIALS)
def _(op: Call, x: Range) -> Mask:
    return (x.low <= -1) | (x.high >= 1)


# -- the inverse of the sigmoid --------------------------------------------------------------------------------------


@operator("Logit", domain=OWN, error=PADDED, elementwise=True)
def logit(op: Call, x: Range) -> Range:
    """log(x / (1 - x)): increasing inside (0, 1); with `eps` the operand is clamped to [eps, 1 - eps] first."""
    low, high = _logit_ends(op, x.format)
    u = x.format.unit_roundoff
    # 1 - x and the quotient are rounded, each of them a relative error u of the logarithm's argument.
    curve = within(-np.inf, np.inf, _logit, relative=10.0 * u, absolute=3.0 * u)
    return of_pieces(x.clamp(low, high), curve)


@logit.aten("logit", "special_logit")
def _(call: AtenCall) -> int:
    return call.own("Logit", call.tensor("self", call.result.format), eps=call["eps"], formats=(call.result.format,))


def _logit(x: Array) -> Array:
    return np.log(x) - np.log1p(-x)


def _logit_ends(op: Call, format: Format) -> tuple[float, float]:
    """What the operand is clamped to: by `eps`, as far as the format can tell, else to the numbers inside (0, 1)."""
    least, most = format.smallest_subnormal, 1.0 - format.unit_roundoff
    eps = op.attribute("eps")
    if eps is None:
        return least, most
    low = format.nearest(eps)
    # 1 - eps is computed in the format, or in float64 and then rounded.
    return max(least, low), min(most, max(format.nearest(1.0 - low), format.nearest(1.0 - eps)))


def _is_open(op: Call, format: Format) -> tuple[bool, bool]:
    """Whether zero, or one, can reach the quotient."""
    eps = op.attribute("eps")
    if eps is None:
        return True, True
    return format.nearest(eps) <= 0.0, max(format.nearest(1.0 - format.nearest(eps)), format.nearest(1.0 - eps)) >= 1.0


@logit.meaning
def _(run: Run, x: Tensor) -> Tensor:
    eps = run.attribute("eps")
    inside = (x > 0) & (x < 1) if eps is None else (x > eps) & (x < 1 - eps)
    return on_domain(run, lambda v: run.torch.logit(v, eps), x, inside, point=0.5)


@logit.hazard(INVERSE_OUTSIDE_DOMAIN, gives=SPECIALS)
def _(op: Call, x: Range) -> Mask:
    at_zero, at_one = _is_open(op, x.format)
    return (at_zero & (x.low <= 0)) | (at_one & (x.high >= 1))


# -- gamma functions -------------------------------------------------------------------------------------------------


def _holds_pole(x: Range) -> npt.NDArray[np.bool_]:
    """Cells with an integer that is not positive."""
    return (x.low <= 0) & (np.ceil(x.low) <= np.minimum(x.high, 0.0))


@operator(
    "Lgamma",
    domain=OWN,
    error=PADDED,
    overflow=ARITHMETIC_OVERFLOW,
    coarse="below zero the least value between two poles is bounded, not computed",
    elementwise=True,
)
def lgamma(op: Call, x: Range) -> Range:
    """log |Gamma(x)|: convex between its poles at 0, -1, -2, ..., where it is infinite; least at 1.46 for positive numbers."""
    u = x.format.unit_roundoff
    positive = piecewise(x.clamp(low=x.format.smallest_subnormal), log_gamma, (GAMMA_MINIMUM,))
    low, high = positive.low, positive.high
    # Numbers of the format come no nearer to a pole than its smallest one.
    top = 1.0 - math.log(x.format.smallest_subnormal)
    if op.target.flushes_operands:
        # Subnormal numbers are zero, or less than they are.
        high = np.where((x.low <= 0) & (x.high >= 0), np.maximum(high, top), high)
    below = x.low < 0
    if below.any():
        # log |Gamma(x)| = log(pi / |sin(pi x)|) - log Gamma(1 - x) (DLMF 5.5.3).
        floor = math.log(math.pi) - log_gamma(1.0 - x.low)
        ends = np.maximum(log_gamma(x.low), np.where(x.high < 0, log_gamma(np.minimum(x.high, 0.0)), -np.inf))
        ends = np.where(_holds_pole(x), top, ends)
        only = x.high < 0
        low = np.where(below, np.where(only, floor, np.minimum(low, floor)), low)
        high = np.where(below, np.where(only, ends, np.maximum(high, np.maximum(ends, top))), high)
    # Both terms of the reflection are rounded; for positive numbers a few units, also beside the zeros at 1 and 2.
    # Python's own logarithm of the gamma function is within 4e-15.
    size = np.where(below, log_gamma(1.0 + np.abs(x.low)) + np.abs(low) + 2.0, 0.0)
    error = 8.0 * u * size + 4e-15
    low, high = low - (12.0 * u * np.abs(low) + error), high + (12.0 * u * np.abs(high) + error)
    empty = x.low > x.high
    special = positive.special
    if x.has_special:
        # Both infinities give +inf.
        infinite = (x.special & np.uint8(INFINITIES)) != 0
        special = (x.special & np.uint8(NAN)) | np.where(infinite, np.uint8(POSITIVE_INFINITY), np.uint8(0))
    return x.replace(np.where(empty, np.inf, low), np.where(empty, -np.inf, high), special if x.has_special else None)


lgamma.aten("lgamma", "special_gammaln")
lgamma.tensorflow("Lgamma")
lgamma.jax("lgamma")


@lgamma.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return on_domain(run, run.torch.lgamma, x, x > 0, point=1.0, slope=-1.0)


@lgamma.hazard(GAMMA_AT_POLE, gives=POSITIVE_INFINITY)
def _(op: Call, x: Range) -> Mask:
    return _holds_pole(x)


@operator(
    "Digamma",
    domain=OWN,
    error=PADDED,
    overflow=ARITHMETIC_OVERFLOW,
    coarse="below zero any number is possible",
    elementwise=True,
)
def digamma(op: Call, x: Range) -> Range:
    """The derivative of log Gamma: increasing from -inf for positive numbers, with poles at 0, -1, -2, ..."""
    tiny, u = x.format.smallest_subnormal, x.format.unit_roundoff
    curve = within(tiny, np.inf, digamma_value, relative=12.0 * u, absolute=16.0 * u + 1e-14)
    result = of_pieces(x.clamp(low=tiny), curve)
    return _unknown_below_zero(x, result, -x.format.high)


digamma.aten("digamma", "special_digamma", "special_psi")
digamma.tensorflow("Digamma")
digamma.jax("digamma")


@digamma.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return on_domain(run, run.torch.digamma, x, x > 0, point=1.0)


@digamma.hazard(GAMMA_AT_POLE, gives=SPECIALS)
def _(op: Call, x: Range) -> Mask:
    return _holds_pole(x) | (x.low < 0)


@operator(
    "Trigamma",
    domain=OWN,
    error=PADDED,
    overflow=ARITHMETIC_OVERFLOW,
    coarse="below zero any positive number is possible",
    elementwise=True,
)
def trigamma(op: Call, x: Range) -> Range:
    """The second derivative of log Gamma: decreasing from +inf to 0 for positive numbers, with poles at 0, -1, -2, ..."""
    tiny, u = x.format.smallest_subnormal, x.format.unit_roundoff
    # Torch sums six terms and an asymptotic series, which leaves 1e-9 in float64.
    curve = within(tiny, np.inf, trigamma_value, relative=16.0 * u + 2.0**-29, low=0.0)
    result = of_pieces(x.clamp(low=tiny), curve)
    return _unknown_below_zero(x, result, 0.0)


@trigamma.aten("polygamma", "special_polygamma")
def _(call: AtenCall) -> int:
    x = call.tensor("self", call.result.format)
    if call["n"] == 0:
        return call.own("Digamma", x, formats=(call.result.format,))
    if call["n"] == 1:
        return call.own("Trigamma", x, formats=(call.result.format,))
    raise NotAnalysed(f"polygamma of order {call['n']}")


@trigamma.tensorflow("Polygamma")
def _(call: TensorflowCall) -> int:
    return _polygamma(call, call.arithmetic_format())


@trigamma.jax("polygamma")
def _(call: JaxCall) -> int:
    return _polygamma(call, call.arithmetic_format())


def _polygamma(call: TensorflowCall | JaxCall, format: Format) -> int:
    """The first operand is the order, which has to be known, and the same for all elements."""
    orders = np.unique(call.known(0))
    if orders.size != 1 or float(orders[0]) not in (0.0, 1.0):
        raise NotAnalysed("polygamma of orders other than 0 and 1")
    return call.own("Digamma" if orders[0] == 0 else "Trigamma", call.operand(1), formats=(format,))


@trigamma.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return on_domain(run, lambda v: run.torch.polygamma(1, v), x, x > 0, point=1.0, slope=-1.0)


@trigamma.hazard(GAMMA_AT_POLE, gives=SPECIALS)
def _(op: Call, x: Range) -> Mask:
    return _holds_pole(x) | (x.low < 0)


def _unknown_below_zero(x: Range, result: Range, least: float) -> Range:
    """A result that is known for positive arguments alone, and may be anything from `least` on for others."""
    below = (x.low < 0) & (x.low <= x.high)
    if not below.any():
        return result
    low, high = np.where(below, least, result.low), np.where(below, x.format.high, result.high)
    return result.replace(low, high, result.special if result.has_special else None)


# -- sinc ------------------------------------------------------------------------------------------------------------


@operator("Sinc", domain=OWN, error=PADDED, coarse="beyond 1 the sine and its divisor are bounded one by one", elementwise=True)
def sinc(op: Call, x: Range) -> Range:
    """sin(pi x) / (pi x): 1 at zero, falling to 0 at 1, then a sine that fades."""
    nearest = np.where((x.low <= 0) & (x.high >= 0), 0.0, np.minimum(np.abs(x.low), np.abs(x.high)))
    farthest = np.maximum(np.abs(x.low), np.abs(x.high))
    low, high = np.sinc(np.minimum(farthest, 1.0)), np.sinc(np.minimum(nearest, 1.0))
    beyond = farthest > 1.0
    if beyond.any():
        angles = x.replace(np.pi * np.maximum(nearest, 1.0), np.pi * np.maximum(farthest, 1.0), None)
        sine = wave(angles, np.sin, np.pi / 2)
        ends = corners(np.divide)(sine.low, sine.high, angles.low, angles.high)
        only = nearest >= 1.0
        low = np.where(beyond, np.where(only, ends[0], np.minimum(low, ends[0])), low)
        high = np.where(beyond, np.where(only, ends[1], np.maximum(high, ends[1])), high)
    # Rounding pi x changes the sine by u |pi x|, and so the quotient by u.
    error = 6.0 * x.format.unit_roundoff
    low, high = low - error, np.minimum(high + error, 1.0)
    if not x.has_special:
        return x.replace(low, high, None)
    empty = x.low > x.high
    special = np.where(x.special != 0, np.uint8(NAN), np.uint8(0))
    return x.replace(np.where(empty, np.inf, low), np.where(empty, -np.inf, high), special)


sinc.aten("sinc", "special_sinc")


@sinc.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return run.torch.sinc(x)


@sinc.hazard(ARITHMETIC_OVERFLOW, gives=NAN)
def _(op: Call, x: Range) -> Mask:
    # pi x is infinite, and the sine of infinity is no number.
    limit = x.format.high / np.pi * (1.0 - 4.0 * x.format.unit_roundoff)
    return np.maximum(np.abs(x.low), np.abs(x.high)) > limit
