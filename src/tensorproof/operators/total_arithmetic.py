"""Arithmetic with an agreed result where the usual one has none: quotients by zero, products with zero; and its neighbours.

TensorFlow and JAX define these; none of them traps or gives NaN for numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorproof.formats import Array
from tensorproof.frontends.calls import OWN
from tensorproof.operators.arithmetic import integer_quotient, mod, quotient_away_from
from tensorproof.operators.comparison import Truth
from tensorproof.operators.own_arithmetic import least_operand
from tensorproof.operators.table import CORRECT, Call, Mask, operator
from tensorproof.ranges.elementwise import binary, corners, monotone, product
from tensorproof.ranges.range import SPECIALS, Range, align
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW
from tensorproof.rules.division_by_zero import DIVISION_BY_ZERO

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor

# -- integers --------------------------------------------------------------------------------------------------------


def _of_zero(x: Range) -> float:
    """The integer whose bits are all set: what a division by zero gives."""
    return -1.0 if x.format.low < 0 else x.format.high


def _may_be_zero(low: Array, high: Array) -> tuple[Truth, Truth]:
    """Whether divisors are zero, all of them or some."""
    return (low == 0) & (high == 0), (low <= 0) & (high >= 0)


@operator("TotalDivide", domain=OWN, error=CORRECT, elementwise=True)
def total_divide(op: Call, a: Range, b: Range) -> Range:
    """The quotient of integers rounded towards zero; all bits set where the divisor is zero."""
    of_zero = _of_zero(a)

    def kernel(la: Array, ha: Array, lb: Array, hb: Array) -> tuple[Array, Array]:
        low, high = integer_quotient(la, ha, lb, hb)
        only, may = _may_be_zero(lb, hb)
        low = np.where(only, of_zero, np.where(may, np.minimum(low, of_zero), low))
        return low, np.where(only, of_zero, np.where(may, np.maximum(high, of_zero), high))

    return binary(a, b, kernel, np.divide)


@total_divide.meaning
def _(run: Run, a: Tensor, b: Tensor) -> Tensor:
    torch = run.torch
    divisor = torch.where(b == 0, torch.ones_like(b), b)
    value = torch.div(a, divisor, rounding_mode="trunc")
    return run.passing(torch.where(b == 0, torch.full_like(value, -1), value), a / divisor)


@operator("TotalRemainder", domain=OWN, error=CORRECT, elementwise=True)
def total_remainder(op: Call, a: Range, b: Range) -> Range:
    """The remainder of integers, with the sign of the dividend; the dividend itself where the divisor is zero."""
    inner = Call(mod, {"fmod": 1}, target=op.target, abstraction=op.abstraction)
    remainder: Range = mod.block(inner, a, b)
    aligned = align(remainder, a, b)
    (lr, la, lb), (hr, ha, hb) = aligned.lows, aligned.highs
    only, may = _may_be_zero(lb, hb)
    low = np.where(only, la, np.where(may, np.minimum(lr, la), lr))
    return aligned.result(a.format, low, np.where(only, ha, np.where(may, np.maximum(hr, ha), hr)))


@total_remainder.meaning
def _(run: Run, a: Tensor, b: Tensor) -> Tensor:
    torch = run.torch
    divisor = torch.where(b == 0, torch.ones_like(b), b)
    return torch.where(b == 0, a, torch.fmod(a, divisor))


# -- products and quotients with zero ----------------------------------------------------------------------------------


@operator("MulNoNan", domain=OWN, error=CORRECT, overflow=ARITHMETIC_OVERFLOW, elementwise=True)
def mul_no_nan(op: Call, a: Range, b: Range) -> Range:
    """The product, and zero where the second factor is zero, whatever the first one is."""
    result = binary(a, b, corners(product), _product_or_zero)
    if not a.has_special:
        return result
    # NaN times zero is zero, too.
    aligned = align(result, a, b)
    (lr, _, lb), (hr, _, hb), (special, sa, sb) = aligned.lows, aligned.highs, aligned.specials
    only, may = _may_be_zero(lb, hb)
    here = (sa != 0) & may
    low, high = np.where(here, np.minimum(lr, 0.0), lr), np.where(here, np.maximum(hr, 0.0), hr)
    return aligned.result(a.format, low, high, np.where(only & (sb == 0), np.uint8(0), special))


def _product_or_zero(a: Array, b: Array) -> Array:
    return np.where(b == 0, 0.0, a * b)


mul_no_nan.tensorflow("MulNoNan")


@mul_no_nan.meaning
def _(run: Run, a: Tensor, b: Tensor) -> Tensor:
    torch = run.torch
    return torch.where(b == 0, torch.zeros_like(b), torch.where(b == 0, torch.zeros_like(a), a) * b)


@operator("Xdivy", domain=OWN, error=CORRECT, overflow=ARITHMETIC_OVERFLOW, elementwise=True)
def xdivy(op: Call, x: Range, y: Range) -> Range:
    """The quotient, and zero where the dividend is zero, whatever the divisor is."""
    quotients = quotient_away_from(least_operand(op, y.format))

    def kernel(lx: Array, hx: Array, ly: Array, hy: Array) -> tuple[Array, Array]:
        low, high = quotients(lx, hx, ly, hy)
        only, _ = _may_be_zero(lx, hx)
        return np.where(only, 0.0, low), np.where(only, 0.0, high)

    return binary(x, y, kernel, lambda a, b: np.where(a == 0, 0.0, a / b))


xdivy.tensorflow("Xdivy")


@xdivy.meaning
def _(run: Run, x: Tensor, y: Tensor) -> Tensor:
    torch = run.torch
    value = torch.where(x == 0, torch.zeros_like(x), x / torch.where(x == 0, torch.ones_like(y), y))
    tame = torch.where(y == 0, torch.ones_like(y), y)
    return run.passing(value, torch.where(y == 0, x - y, x / tame)) if run.search else value


@xdivy.hazard(DIVISION_BY_ZERO, gives=SPECIALS, operand=1)
def _(op: Call, x: Range, y: Range) -> Mask:
    aligned = align(x, y)
    (lx, ly), (hx, hy) = aligned.lows, aligned.highs
    return (ly <= 0) & (hy >= 0) & ((lx < 0) | (hx > 0))


# -- neighbours --------------------------------------------------------------------------------------------------------


@operator("RoundAway", domain=OWN, elementwise=True)
def round_away(op: Call, x: Range) -> Range:
    """To the nearest whole number, halves away from zero: increasing and exact."""
    return monotone(x, _rounded_away)


def _rounded_away(x: Array) -> Array:
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.sign(x), whole)


@round_away.meaning
def _(run: Run, x: Tensor) -> Tensor:
    whole = run.torch.trunc(x)
    return run.passing(run.torch.where((x - whole).abs() >= 0.5, whole + run.torch.sign(x), whole), x)


@operator("NextAfter", domain=OWN, overflow=ARITHMETIC_OVERFLOW, elementwise=True)
def next_after(op: Call, x: Range, towards: Range) -> Range:
    """The number of the format beside x in the direction of the second operand: one unit away at most."""
    format = x.format
    step = format.smallest_normal if op.target.flushes_results or op.target.flushes_operands else format.smallest_subnormal

    def kernel(lx: Array, hx: Array, ly: Array, hy: Array) -> tuple[Array, Array]:
        # A step may cross into the next larger power of two, never beyond it.
        below = np.maximum(format.quantum(lx), step) * (ly < hx)
        above = np.maximum(format.quantum(hx), step) * (hy > lx)
        return lx - below, hx + above

    return binary(x, towards, kernel, np.nextafter)


next_after.tensorflow("NextAfter")
next_after.jax("nextafter")


@next_after.meaning
def _(run: Run, x: Tensor, towards: Tensor) -> Tensor:
    return run.passing(run.torch.nextafter(x.detach(), towards.detach().to(x.dtype)), x)
