"""Element-wise arithmetic: sums, products, quotients, remainders, signs, extremes."""

from __future__ import annotations

import numpy as np

from tensorproof.formats import Array
from tensorproof.operators.table import CORRECT, UNDEFINED, Call, Mask, operator
from tensorproof.ranges.elementwise import binary, corners, increasing, monotone, piecewise, product
from tensorproof.ranges.range import NAN, SPECIALS, Range
from tensorproof.rules.absorbed_constant import ABSORBED_CONSTANT
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW
from tensorproof.rules.division_by_zero import DIVISION_BY_ZERO
from tensorproof.rules.integer_division_by_zero import INTEGER_DIVISION_BY_ZERO
from tensorproof.rules.modulo_by_zero import MODULO_BY_ZERO


@operator("Add", error=CORRECT, overflow=ARITHMETIC_OVERFLOW)
def add(op: Call, a: Range, b: Range) -> Range:
    """Increasing in both operands."""
    return binary(a, b, increasing(np.add), np.add)


@operator("Sub", error=CORRECT, overflow=ARITHMETIC_OVERFLOW)
def sub(op: Call, a: Range, b: Range) -> Range:
    """Increasing in the first operand, decreasing in the second."""

    def kernel(la: Array, ha: Array, lb: Array, hb: Array) -> tuple[Array, Array]:
        return la - hb, ha - lb

    return binary(a, b, kernel, np.subtract)


def _absorbed(op: Call, a: Range, b: Range) -> Mask:
    """The second operand is a constant, not zero, and so small that it never changes the first one's value."""
    constant = b.values()
    if constant is None or not a.format.is_float or a.values() is not None or not constant.size:
        return False
    smallest = np.where(a.low > 0, a.low, np.where(a.high < 0, -a.high, 0.0))
    if not smallest.size or not (smallest > 0).all():
        return False
    # Round to nearest gives the larger operand back while the smaller one is below half a unit of its last place, which
    # is half as wide just below a power of two (IEEE 754-2019, section 4.3.1).
    reach = np.abs(constant).max()
    return bool(reach > 0 and (reach < a.format.quantum(smallest) / 4).all())


@add.hazard(ABSORBED_CONSTANT, gives=0, operand=1)
def _(op: Call, a: Range, b: Range) -> Mask:
    return _absorbed(op, a, b)


@add.hazard(ABSORBED_CONSTANT, gives=0, operand=0)
def _(op: Call, a: Range, b: Range) -> Mask:
    return _absorbed(op, b, a)


@sub.hazard(ABSORBED_CONSTANT, gives=0, operand=1)
def _(op: Call, a: Range, b: Range) -> Mask:
    return _absorbed(op, a, b)


@operator("Mul", error=CORRECT, overflow=ARITHMETIC_OVERFLOW)
def mul(op: Call, a: Range, b: Range) -> Range:
    """Bilinear: extremes at the corners of the box."""
    return binary(a, b, corners(product), np.multiply)


@operator("Div", error=CORRECT, overflow=ARITHMETIC_OVERFLOW)
def div(op: Call, a: Range, b: Range) -> Range:
    """Monotone in each operand on either side of a zero divisor; integers round towards zero (ONNX Div-14)."""
    if a.format.is_integer:
        return binary(a, b, _integer_quotient, _truncated)
    tiny = b.format.smallest_subnormal
    return binary(a, b, _quotient_away_from(tiny), np.divide)


@div.hazard(DIVISION_BY_ZERO, gives=SPECIALS, operand=1)
def _(op: Call, a: Range, b: Range) -> Mask:
    return b.contains(0.0) if b.format.is_float else False


@div.hazard(INTEGER_DIVISION_BY_ZERO, gives=UNDEFINED, operand=1)
def _(op: Call, a: Range, b: Range) -> Mask:
    return b.contains(0.0) if b.format.is_integer else False


def _quotient_away_from(tiny: float):  # noqa: ANN202
    """The kernel of a division whose divisor stays at least `tiny` away from zero."""

    def kernel(la: Array, ha: Array, lb: Array, hb: Array) -> tuple[Array, Array]:
        # The divisor's positive and negative part; a part that is empty takes the other's ends.
        positive_low, positive_high = np.maximum(lb, tiny), np.maximum(hb, tiny)
        negative_low, negative_high = np.minimum(lb, -tiny), np.minimum(hb, -tiny)
        has_positive, has_negative = hb > 0, lb < 0
        only_zero = ~has_positive & ~has_negative
        low = np.full(np.broadcast_shapes(la.shape, lb.shape), np.inf)
        high = np.full(low.shape, -np.inf)
        for use, bl, bh in (
            (has_positive | only_zero, positive_low, positive_high),
            (has_negative | only_zero, negative_low, negative_high),
        ):
            part_low, part_high = corners(np.divide)(la, ha, bl, bh)
            low = np.where(use, np.minimum(low, part_low), low)
            high = np.where(use, np.maximum(high, part_high), high)
        return low, high

    return kernel


def _truncated(a: Array, b: Array) -> Array:
    return np.trunc(a / b)


def _integer_quotient(la: Array, ha: Array, lb: Array, hb: Array) -> tuple[Array, Array]:
    low, high = _quotient_away_from(1.0)(la, ha, lb, hb)
    # A quotient of large 64-bit integers is exact only to 53 bits; truncation of the outward neighbour covers it.
    large = np.maximum(np.abs(la), np.abs(ha)) > 2.0**53
    low, high = np.where(large, np.nextafter(low, -np.inf), low), np.where(large, np.nextafter(high, np.inf), high)
    return np.trunc(low), np.trunc(high)


@operator("Neg")
def neg(op: Call, x: Range) -> Range:
    """Decreasing and exact."""
    return monotone(x, np.negative)


@operator("Abs")
def abs_(op: Call, x: Range) -> Range:
    """Minimum at 0, exact."""
    return piecewise(x, np.abs, (0.0,))


@operator("Mod", error=CORRECT, coarse="periodic: only the bounds by divisor and dividend are kept")
def mod(op: Call, a: Range, b: Range) -> Range:
    """|result| < |divisor|; the sign is the divisor's (fmod=0, ONNX Mod-13) or the dividend's (fmod=1)."""
    aligned_kernel = _fmod_kernel if op.attribute("fmod", 0) else _floor_mod_kernel
    function = np.fmod if op.attribute("fmod", 0) else np.mod
    step = 1.0 if a.format.is_integer else 0.0

    def kernel(la: Array, ha: Array, lb: Array, hb: Array) -> tuple[Array, Array]:
        low, high = aligned_kernel(la, ha, lb, hb, step)
        same_a, same_b = la == ha, lb == hb
        exact = function(la, lb)
        point = same_a & same_b & np.isfinite(exact)
        return np.where(point, exact, low), np.where(point, exact, high)

    return binary(a, b, kernel, function)


def _fmod_kernel(la: Array, ha: Array, lb: Array, hb: Array, step: float) -> tuple[Array, Array]:
    reach = np.maximum(np.maximum(np.abs(lb), np.abs(hb)) - step, 0.0)
    low = np.where(la < 0, np.maximum(la, -reach), 0.0)
    high = np.where(ha > 0, np.minimum(ha, reach), 0.0)
    inside = (np.maximum(np.abs(la), np.abs(ha)) < np.minimum(np.abs(lb), np.abs(hb))) & ((lb > 0) | (hb < 0))
    return np.where(inside, la, low), np.where(inside, ha, high)


def _floor_mod_kernel(la: Array, ha: Array, lb: Array, hb: Array, step: float) -> tuple[Array, Array]:
    low = np.where(lb < 0, np.minimum(lb + step, 0.0), 0.0)
    high = np.where(hb > 0, np.maximum(hb - step, 0.0), 0.0)
    inside = (la >= 0) & (ha < lb)
    return np.where(inside, la, low), np.where(inside, ha, high)


@mod.hazard(MODULO_BY_ZERO, gives=NAN, operand=1)
def _(op: Call, a: Range, b: Range) -> Mask:
    return b.contains(0.0) if b.format.is_float else False


@mod.hazard(INTEGER_DIVISION_BY_ZERO, gives=UNDEFINED, operand=1)
def _(op: Call, a: Range, b: Range) -> Mask:
    return b.contains(0.0) if b.format.is_integer else False


@operator("Max")
def max_(op: Call, *operands: Range) -> Range:
    """Increasing in every operand, exact."""
    result = operands[0]
    for x in operands[1:]:
        result = binary(result, x, increasing(np.maximum), np.maximum)
    return result


@operator("Min")
def min_(op: Call, *operands: Range) -> Range:
    """Increasing in every operand, exact."""
    result = operands[0]
    for x in operands[1:]:
        result = binary(result, x, increasing(np.minimum), np.minimum)
    return result


@operator("Sign")
def sign(op: Call, x: Range) -> Range:
    """Increasing and exact."""
    return monotone(x, np.sign)


@operator("Floor")
def floor(op: Call, x: Range) -> Range:
    """Increasing and exact."""
    return monotone(x, np.floor)


@operator("Ceil")
def ceil(op: Call, x: Range) -> Range:
    """Increasing and exact."""
    return monotone(x, np.ceil)


@operator("Round")
def round_(op: Call, x: Range) -> Range:
    """Increasing and exact; ties to even (ONNX Round-11)."""
    return monotone(x, np.rint)
