"""Arithmetic that ONNX does not have: angles, truncation, quotients rounded down, interpolation, signs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorproof.formats import FLOAT32, Array, Format
from tensorproof.frontends.calls import OWN
from tensorproof.operators.activations import PADDED, least
from tensorproof.operators.arithmetic import quotient_away_from, quotient_overflows
from tensorproof.operators.table import CORRECT, FAITHFUL, UNDEFINED, Call, Mask, operator
from tensorproof.ranges import relations
from tensorproof.ranges.affine import Form
from tensorproof.ranges.elementwise import binary, corners, monotone, piecewise, product
from tensorproof.ranges.range import SPECIALS, Range, align
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW
from tensorproof.rules.division_by_zero import DIVISION_BY_ZERO
from tensorproof.rules.integer_division_by_zero import INTEGER_DIVISION_BY_ZERO

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall


@operator("Atan2", domain=OWN, error=FAITHFUL, elementwise=True)
def atan2(op: Call, y: Range, x: Range) -> Range:
    """The angle of (x, y): extremes at the corners, unless the box meets the negative axis, where the angle jumps."""
    return binary(y, x, _angles, np.arctan2)


def _angles(ly: Array, hy: Array, lx: Array, hx: Array) -> tuple[Array, Array]:
    low, high = corners(np.arctan2)(ly, hy, lx, hx)
    # Zero has a sign, which decides between pi and -pi on the negative axis, and at the origin.
    jumps = (ly <= 0) & (hy >= 0) & (lx <= 0)
    return np.where(jumps, -np.pi, low), np.where(jumps, np.pi, high)


atan2.aten("atan2")
atan2.tensorflow("Atan2")
atan2.jax("atan2")


@atan2.meaning
def _(run: Run, y: Tensor, x: Tensor) -> Tensor:
    return run.torch.atan2(y, x)


@operator("Trunc", domain=OWN, elementwise=True)
def trunc(op: Call, x: Range) -> Range:
    """Towards zero: increasing and exact."""
    return monotone(x, np.trunc)


trunc.aten("trunc", "fix")


@trunc.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return run.passing(run.torch.trunc(x), x)


@operator("FloorDivide", domain=OWN, error=CORRECT, overflow=ARITHMETIC_OVERFLOW, elementwise=True)
def floor_divide(op: Call, a: Range, b: Range) -> Range:
    """The quotient rounded down: monotone in each operand on either side of a zero divisor."""
    quotients = quotient_away_from(1.0 if b.format.is_integer else b.format.smallest_subnormal)

    def kernel(la: Array, ha: Array, lb: Array, hb: Array) -> tuple[Array, Array]:
        low, high = quotients(la, ha, lb, hb)
        # A quotient that float64 rounds up to an integer may lie below it.
        return np.floor(np.nextafter(low, -np.inf)), np.floor(np.nextafter(high, np.inf))

    return binary(a, b, kernel, _floored)


def _floored(a: Array, b: Array) -> Array:
    return np.floor(a / b)


floor_divide.aten("floor_divide", "floor_divide.Scalar")


@floor_divide.meaning
def _(run: Run, a: Tensor, b: Tensor) -> Tensor:
    value = run.torch.div(a, b, rounding_mode="floor")
    return run.passing(value, a / run.torch.where(b == 0, 1, b)) if run.search else value


@floor_divide.hazard(DIVISION_BY_ZERO, gives=SPECIALS, operand=1)
def _(op: Call, a: Range, b: Range) -> Mask:
    return b.contains(0.0) if b.format.is_float else False


@floor_divide.hazard(ARITHMETIC_OVERFLOW, gives=SPECIALS)
def _(op: Call, a: Range, b: Range) -> Mask:
    """The quotient is computed from a remainder, which is NaN once a / b overflows."""
    return False if b.format.is_integer or _some_zero(b) else quotient_overflows(a, b)


def _some_zero(x: Range) -> bool:
    return bool(np.any(x.contains(0.0)))


@floor_divide.hazard(INTEGER_DIVISION_BY_ZERO, gives=UNDEFINED, operand=1)
def _(op: Call, a: Range, b: Range) -> Mask:
    return b.contains(0.0) if b.format.is_integer else False


@operator("ScaledSum", domain=OWN, error=CORRECT, overflow=ARITHMETIC_OVERFLOW, elementwise=True)
def scaled_sum(op: Call, a: Range, b: Range) -> Range:
    """a + factor b, where the product is rounded or not: linear in both operands."""
    factor = float(op.attribute("factor"))
    relative, absolute = _product_error(op, a.format, factor)

    def kernel(la: Array, ha: Array, lb: Array, hb: Array) -> tuple[Array, Array]:
        products = np.minimum(factor * lb, factor * hb), np.maximum(factor * lb, factor * hb)
        error = relative * np.maximum(np.abs(lb), np.abs(hb)) + absolute
        return _with_product(la, ha, *products, error)

    return binary(a, b, kernel, lambda x, y: x + factor * y)


def _product_error(op: Call, format: Format, factor: float) -> tuple[float, float]:
    """What rounding the factor, and its product with a number, changes: relative to the number, and absolute."""
    return 2.02 * format.unit_roundoff * abs(factor), least(op, format)


def _with_product(low: Array, high: Array, product_low: Array, product_high: Array, error: Array) -> tuple[Array, Array]:
    """Ends of a sum with a product that has an error, and what the roundings of float64 add here."""
    size = np.maximum(np.abs(low), np.abs(high)) + np.maximum(np.abs(product_low), np.abs(product_high))
    error = error + 2.0**-51 * size
    return low + product_low - error, high + product_high + error


@scaled_sum.affine
def _(op: Call, result: Range, a: Range, b: Range) -> Form | None:
    factor = float(op.attribute("factor"))
    error = relations.error_of((b,), *_product_error(op, result.format, factor))
    return relations.total(op, result, (1.0, a), (factor, b), error=error)


@scaled_sum.meaning
def _(run: Run, a: Tensor, b: Tensor) -> Tensor:
    return run.torch.add(a, b, alpha=run.attribute("factor"))


@scaled_sum.hazard(ARITHMETIC_OVERFLOW, gives=SPECIALS, operand=1)
def _(op: Call, a: Range, b: Range) -> Mask:
    """The product overflows, although the sum may not; 16-bit numbers are computed in float32."""
    return abs(float(op.attribute("factor"))) * b.magnitude() > max(b.format.high, FLOAT32.high)


@operator("AddProduct", domain=OWN, error=CORRECT, overflow=ARITHMETIC_OVERFLOW, elementwise=True)
def add_product(op: Call, x: Range, a: Range, b: Range) -> Range:
    """x + factor a b, where products are rounded or not: extremes at the corners of the product."""
    factor = float(op.attribute("factor", 1.0))
    u = x.format.unit_roundoff
    product_range = binary(a, b, corners(product), np.multiply)

    def kernel(lx: Array, hx: Array, lp: Array, hp: Array) -> tuple[Array, Array]:
        products = np.minimum(factor * lp, factor * hp), np.maximum(factor * lp, factor * hp)
        error = 3.03 * u * np.maximum(np.abs(products[0]), np.abs(products[1])) + 3.0 * least(op, x.format) * max(abs(factor), 1.0)
        return _with_product(lx, hx, *products, error)

    return binary(x, product_range, kernel, lambda v, p: v + factor * p)


@add_product.aten("addcmul")
def _(call: AtenCall) -> int:
    operands = call.promoted("self", "tensor1", "tensor2")
    return call.own("AddProduct", *operands, factor=float(call["value"]), formats=(call.result.format,))


@add_product.meaning
def _(run: Run, x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return run.torch.addcmul(x, a, b, value=run.attribute("factor", 1.0))


@add_product.hazard(ARITHMETIC_OVERFLOW, gives=SPECIALS, operand=1)
def _(op: Call, x: Range, a: Range, b: Range) -> Mask:
    """A product overflows, although the sum may not; 16-bit numbers are computed in float32."""
    aligned = align(a, b)
    sizes = [np.maximum(np.abs(low), np.abs(high)) for low, high in zip(aligned.lows, aligned.highs)]
    factor = abs(float(op.attribute("factor", 1.0)))
    # The factor meets the first operand, or the product of both.
    largest = sizes[0] * np.maximum(sizes[1], 1.0) * max(factor, 1.0)
    return largest > max(a.format.high, FLOAT32.high)


def least_operand(op: Call, format: Format) -> float:
    """The smallest positive number that an operator sees: targets may take subnormal operands for zero."""
    return format.smallest_normal if op.target.flushes_operands else format.smallest_subnormal


@operator("DivNoNan", domain=OWN, error=CORRECT, overflow=ARITHMETIC_OVERFLOW, elementwise=True)
def div_no_nan(op: Call, a: Range, b: Range) -> Range:
    """The quotient, and zero where the divisor is zero."""
    quotients = quotient_away_from(least_operand(op, b.format))

    def kernel(la: Array, ha: Array, lb: Array, hb: Array) -> tuple[Array, Array]:
        low, high = quotients(la, ha, lb, hb)
        only, may = (lb == 0) & (hb == 0), (lb <= 0) & (hb >= 0)
        low = np.where(only, 0.0, np.where(may, np.minimum(low, 0.0), low))
        return low, np.where(only, 0.0, np.where(may, np.maximum(high, 0.0), high))

    return binary(a, b, kernel, lambda x, y: np.where(y == 0, 0.0, x / y))


div_no_nan.tensorflow("DivNoNan")


@div_no_nan.meaning
def _(run: Run, a: Tensor, b: Tensor) -> Tensor:
    return run.torch.where(b == 0, run.torch.zeros_like(b), a / run.torch.where(b == 0, run.torch.ones_like(b), b))


@operator("Lerp", domain=OWN, error=PADDED, overflow=ARITHMETIC_OVERFLOW, elementwise=True)
def lerp(op: Call, start: Range, end: Range, weight: Range) -> Range:
    """start + weight (end - start), from the nearer end on: linear in each operand, so extremes at the corners."""
    u = start.format.unit_roundoff
    aligned = align(start, end, weight)
    low = np.full((1,) * len(aligned.lows[0].shape), np.inf)
    high = -low
    for a in (aligned.lows[0], aligned.highs[0]):
        for b in (aligned.lows[1], aligned.highs[1]):
            for w in (aligned.lows[2], aligned.highs[2]):
                # The difference, its product with the weight (or with 1 - weight) and the sum are rounded.
                size = np.abs(w) * (np.abs(a) + np.abs(b)) + np.where(w < 0.5, np.abs(a), np.abs(b))
                value, error = a * (1.0 - w) + b * w, 4.0 * u * size + least(op, start.format)
                low, high = np.minimum(low, value - error), np.maximum(high, value + error)
    specials = aligned.specials
    if not (start.has_special or end.has_special or weight.has_special):
        return aligned.result(start.format, low, high)
    special = np.where((specials[0] | specials[1] | specials[2]) != 0, np.uint8(SPECIALS), np.uint8(0))
    empty = np.logical_or.reduce([a > b for a, b in zip(aligned.lows, aligned.highs)])
    return aligned.result(start.format, np.where(empty, np.inf, low), np.where(empty, -np.inf, high), special)


@lerp.aten("lerp.Tensor", "lerp.Scalar")
def _(call: AtenCall) -> int:
    return call.own("Lerp", *call.promoted("self", "end", "weight"), formats=(call.result.format,))


@lerp.meaning
def _(run: Run, start: Tensor, end: Tensor, weight: Tensor) -> Tensor:
    return run.torch.lerp(start, end, weight)


@lerp.hazard(ARITHMETIC_OVERFLOW, gives=SPECIALS)
def _(op: Call, start: Range, end: Range, weight: Range) -> Mask:
    """The difference of the ends overflows, although what lies between them does not."""
    aligned = align(start, end, weight)
    (la, lb, _), (ha, hb, _) = aligned.lows, aligned.highs
    # 16-bit numbers are computed in float32.
    return np.maximum(hb - la, ha - lb) > max(start.format.high, FLOAT32.high)


@operator("CopySign", domain=OWN, elementwise=True)
def copy_sign(op: Call, magnitude: Range, sign: Range) -> Range:
    """The absolute value of the first operand with the sign of the second, which zeros have, too."""
    size = piecewise(magnitude, np.abs, (0.0,))

    def kernel(la: Array, ha: Array, lb: Array, hb: Array) -> tuple[Array, Array]:
        negative, positive = lb <= 0, hb >= 0
        return np.where(negative, -ha, la), np.where(positive, ha, -la)

    return binary(size, sign, kernel, np.copysign)


copy_sign.aten("copysign.Tensor", "copysign.Scalar")


@copy_sign.meaning
def _(run: Run, magnitude: Tensor, sign: Tensor) -> Tensor:
    return run.torch.copysign(magnitude, sign)
