"""Exponentials, logarithms and products with logarithms that ONNX does not have, as PyTorch computes them.

Exporters to ONNX write them out (log1p as Log of a sum, logaddexp as Log of two exponentials), which is less accurate and
overflows; here each is what it is. Errors were measured on torch 2.13 against float64, and float64 against 60 digits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tensorproof.formats import Array
from tensorproof.frontends.calls import OWN
from tensorproof.operators.activations import PADDED, number_after
from tensorproof.operators.exponential import on_domain
from tensorproof.operators.losses import reduced_elements
from tensorproof.operators.table import FAITHFUL, Call, Mask, operator
from tensorproof.ranges.elementwise import Binary, Kernel, binary, corners, increasing, monotone, piecewise, product
from tensorproof.ranges.range import NAN, NEGATIVE_INFINITY, SPECIALS, Range, align
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW
from tensorproof.rules.exponential_overflow import EXPONENTIAL_OVERFLOW
from tensorproof.rules.log_of_nonpositive import LOG_OF_NONPOSITIVE

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall
    from tensorproof.frontends.jax_call import JaxCall

# -- exponentials and logarithms -------------------------------------------------------------------------------------


@operator("Exp2", domain=OWN, error=FAITHFUL, overflow=EXPONENTIAL_OVERFLOW, codomain=(0.0, np.inf), elementwise=True)
def exp2(op: Call, x: Range) -> Range:
    """2^x: increasing."""
    return monotone(x, np.exp2)


exp2.aten("exp2", "special_exp2")


@exp2.aten("ldexp.Tensor")
def _(call: AtenCall) -> int:
    """x 2^n, the power first."""
    format = call.result.format
    power = call.own("Exp2", call.tensor("other", format), formats=(format,))
    return call.emit("Mul", call.tensor("self", format), power, formats=(format,))


@exp2.jax("exp2")
def _(call: JaxCall) -> int:
    """exp(x log 2), as XLA computes it: the product is rounded, which large operands notice."""
    format = call.arithmetic_format()
    scaled = call.emit("Mul", call.operand(0), call.value(float(np.log(2.0)), format), formats=(format,))
    return call.emit("Exp", scaled, formats=(format,))


@exp2.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return run.torch.exp2(x)


@operator("Expm1", domain=OWN, error=FAITHFUL, overflow=EXPONENTIAL_OVERFLOW, codomain=(-1.0, np.inf), elementwise=True)
def expm1(op: Call, x: Range) -> Range:
    """exp(x) - 1 to all digits: increasing."""
    return monotone(x, np.expm1)


expm1.aten("expm1", "special_expm1")
expm1.tensorflow("Expm1")
expm1.jax("expm1")


@expm1.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return run.torch.expm1(x)


@operator("Log1p", domain=OWN, error=FAITHFUL, elementwise=True)
def log1p(op: Call, x: Range) -> Range:
    """log(1 + x) to all digits: increasing on (-1, inf); -inf at -1 and NaN below."""
    return monotone(x.clamp(low=number_after(-1.0, x.format)), np.log1p)


log1p.aten("log1p", "special_log1p")
log1p.tensorflow("Log1p")
log1p.jax("log1p")


@log1p.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return on_domain(run, run.torch.log1p, x, x > -1, point=0.0)


@log1p.hazard(LOG_OF_NONPOSITIVE, gives=NEGATIVE_INFINITY | NAN)
def _(op: Call, x: Range) -> Mask:
    return x.low <= -1


@operator("Log2", domain=OWN, error=FAITHFUL, elementwise=True)
def log2(op: Call, x: Range) -> Range:
    """The logarithm to the base 2: increasing on (0, inf); -inf at zero and NaN below."""
    return monotone(x.clamp(low=x.format.smallest_subnormal), np.log2)


log2.aten("log2")


@log2.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return on_domain(run, run.torch.log2, x, x > 0, point=1.0)


@operator("Log10", domain=OWN, error=FAITHFUL, elementwise=True)
def log10(op: Call, x: Range) -> Range:
    """The logarithm to the base 10: increasing on (0, inf); -inf at zero and NaN below."""
    return monotone(x.clamp(low=x.format.smallest_subnormal), np.log10)


log10.aten("log10")


@log10.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return on_domain(run, run.torch.log10, x, x > 0, point=1.0)


@log2.hazard(LOG_OF_NONPOSITIVE, gives=NEGATIVE_INFINITY | NAN)
@log10.hazard(LOG_OF_NONPOSITIVE, gives=NEGATIVE_INFINITY | NAN)
def _(op: Call, x: Range) -> Mask:
    return x.low <= 0


# -- logarithms of sums ----------------------------------------------------------------------------------------------


@operator("LogAddExp", domain=OWN, error=PADDED, elementwise=True)
def log_add_exp(op: Call, a: Range, b: Range) -> Range:
    """log(exp(a) + exp(b)) from the larger operand on: increasing in both, never infinite for numbers."""
    return _log_sum(a, b, np.logaddexp)


log_add_exp.aten("logaddexp")


@log_add_exp.meaning
def _(run: Run, a: Tensor, b: Tensor) -> Tensor:
    return run.torch.logaddexp(a, b)


@operator("LogAddExp2", domain=OWN, error=PADDED, elementwise=True)
def log_add_exp2(op: Call, a: Range, b: Range) -> Range:
    """log2(2^a + 2^b) from the larger operand on: increasing in both, never infinite for numbers."""
    return _log_sum(a, b, np.logaddexp2)


log_add_exp2.aten("logaddexp2")


@log_add_exp2.meaning
def _(run: Run, a: Tensor, b: Tensor) -> Tensor:
    return run.torch.logaddexp2(a, b)


def _log_sum(a: Range, b: Range, function: Binary) -> Range:
    """max + log1p(exp(-|a - b|)), as torch computes it.

    Rounding |a - b| changes the exponential by d exp(-d) u <= 0.4 u, and it and the logarithm are within 8u of at most 1
    (base 2 included): an absolute error of 10u, and the rounding of the sum, which is at least the larger operand.
    """
    u = a.format.unit_roundoff

    def kernel(la: Array, ha: Array, lb: Array, hb: Array) -> tuple[Array, Array]:
        low, high = function(la, lb), function(ha, hb)
        low = np.maximum(low - u * (10.0 + np.abs(low)), np.maximum(la, lb))
        # One more than the largest number rounds to it.
        return low, np.minimum(high + u * (10.0 + np.abs(high)), a.format.high)

    return binary(a, b, kernel, function)


# -- products with logarithms ----------------------------------------------------------------------------------------


@operator("Xlogy", domain=OWN, error=FAITHFUL, overflow=ARITHMETIC_OVERFLOW, elementwise=True)
def xlogy(op: Call, x: Range, y: Range) -> Range:
    """x log(y), and zero where x is: extremes at the corners."""
    tiny = y.format.smallest_subnormal
    return binary(x, y, _times(lambda v: np.log(np.maximum(v, tiny))), _xlogy)


@xlogy.aten(
    "xlogy.Tensor",
    "xlogy.Scalar_Self",
    "xlogy.Scalar_Other",
    "special_xlogy",
    "special_xlogy.self_scalar",
    "special_xlogy.other_scalar",
)
def _(call: AtenCall) -> int:
    """x log x is minus its own entropy, which is finite at zero."""
    x, y = call.promoted("self", "other")
    formats = (call.result.format,)
    if x == y:
        return call.emit("Neg", call.own("Entr", x, formats=formats), formats=formats)
    return call.own("Xlogy", x, y, formats=formats)


xlogy.tensorflow("Xlogy")


@xlogy.meaning
def _(run: Run, x: Tensor, y: Tensor) -> Tensor:
    return _search_product(run, run.torch.xlogy, x, y, inside=y > 0, point=1.0)


@operator("Xlog1py", domain=OWN, error=FAITHFUL, overflow=ARITHMETIC_OVERFLOW, elementwise=True)
def xlog1py(op: Call, x: Range, y: Range) -> Range:
    """x log(1 + y), and zero where x is: extremes at the corners."""
    least = number_after(-1.0, y.format)
    return binary(x, y, _times(lambda v: np.log1p(np.maximum(v, least))), _xlog1py)


xlog1py.aten("special_xlog1py", "special_xlog1py.self_scalar", "special_xlog1py.other_scalar")
xlog1py.tensorflow("Xlog1py")


@xlog1py.meaning
def _(run: Run, x: Tensor, y: Tensor) -> Tensor:
    return _search_product(run, run.torch.special.xlog1py, x, y, inside=y > -1, point=0.0)


def _times(logarithm: Callable[[Array], Array]) -> Kernel:
    """The kernel of a product of the first operand with an increasing function of the second."""

    def kernel(lx: Array, hx: Array, ly: Array, hy: Array) -> tuple[Array, Array]:
        return corners(product)(lx, hx, logarithm(ly), logarithm(hy))

    return kernel


def _xlogy(x: Array, y: Array) -> Array:
    return np.where(x == 0, np.where(np.isnan(y), np.nan, 0.0), x * np.log(y))


def _xlog1py(x: Array, y: Array) -> Array:
    return np.where(x == 0, np.where(np.isnan(y), np.nan, 0.0), x * np.log1p(y))


def _search_product(
    run: Run, function: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor, *, inside: Tensor, point: float
) -> Tensor:
    """The function; a search gets a slope towards smaller y where the logarithm has none."""
    value = function(x, y)
    if not run.search or not (x.requires_grad or y.requires_grad):
        return value
    return run.passing(value, run.torch.where(inside, function(x, run.torch.where(inside, y, point)), y))


def _undefined_product(x: Range, y: Range, end: float) -> Mask:
    """The logarithm has no finite value somewhere, and its factor is not zero there for certain."""
    aligned = align(x, y)
    (lx, ly), (hx, hy) = aligned.lows, aligned.highs
    return (ly <= end) & (ly <= hy) & ((lx < 0) | (hx > 0))


@xlogy.hazard(LOG_OF_NONPOSITIVE, gives=SPECIALS, operand=1)
def _(op: Call, x: Range, y: Range) -> Mask:
    return _undefined_product(x, y, 0.0)


@xlog1py.hazard(LOG_OF_NONPOSITIVE, gives=SPECIALS, operand=1)
def _(op: Call, x: Range, y: Range) -> Mask:
    return _undefined_product(x, y, -1.0)


@operator("Entr", domain=OWN, error=FAITHFUL, overflow=ARITHMETIC_OVERFLOW, elementwise=True)
def entr(op: Call, x: Range) -> Range:
    """-x log(x): zero at 0, largest at 1/e; not defined below zero."""
    return piecewise(x.clamp(low=0.0), _entropy, (float(np.exp(-1.0)),))


entr.aten("special_entr")


def _entropy(x: Array) -> Array:
    return np.where(x == 0, 0.0, -x * np.log(np.where(x == 0, 1.0, x)))


@entr.aten("kl_div")
def _(call: AtenCall) -> int:
    """t log(t) - t x, or exp(t) (t - x) for targets that are logarithms, of each element; averaged over all of them."""
    format = call.result.format
    x, target = call.tensor("self", format), call.tensor("target", format)
    if call["log_target"]:
        difference = call.emit("Sub", target, x, formats=(format,))
        loss = call.emit("Mul", call.emit("Exp", target, formats=(format,)), difference, formats=(format,))
    else:
        own = call.emit("Neg", call.own("Entr", target, formats=(format,)), formats=(format,))
        loss = call.emit("Sub", own, call.emit("Mul", target, x, formats=(format,)), formats=(format,))
    return reduced_elements(call, loss)


@entr.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return on_domain(run, run.torch.special.entr, x, x > 0, point=1.0, slope=-1.0)


@entr.hazard(LOG_OF_NONPOSITIVE, gives=NEGATIVE_INFINITY | NAN)
def _(op: Call, x: Range) -> Mask:
    return x.low < 0


@operator("Hypot", domain=OWN, error=FAITHFUL, overflow=ARITHMETIC_OVERFLOW, codomain=(0.0, np.inf), elementwise=True)
def hypot(op: Call, a: Range, b: Range) -> Range:
    """The length of (a, b), whose squares do not overflow: increasing in both absolute values."""
    absolute_a, absolute_b = piecewise(a, np.abs, (0.0,)), piecewise(b, np.abs, (0.0,))
    return binary(absolute_a, absolute_b, increasing(np.hypot), np.hypot)


hypot.aten("hypot")


@hypot.meaning
def _(run: Run, a: Tensor, b: Tensor) -> Tensor:
    value = run.torch.hypot(a, b)
    # At the origin torch's derivative is 0 / 0.
    away = run.torch.where(value > 0, a, 1.0)
    return run.passing(value, run.torch.where(value > 0, run.torch.hypot(away, b), a + b)) if run.search else value
