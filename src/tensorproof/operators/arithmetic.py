"""Element-wise arithmetic: sums, products, quotients, remainders, signs, extremes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import BOOL, FLOAT32, STRING, Array, Format
from tensorproof.frontends.calls import Handle, into
from tensorproof.operators.table import CORRECT, RESULT, UNDEFINED, Call, Mask, operator
from tensorproof.ranges import relations
from tensorproof.ranges.affine import Form
from tensorproof.ranges.elementwise import Kernel, binary, corners, increasing, monotone, piecewise, product
from tensorproof.ranges.pieces import or_zero
from tensorproof.ranges.range import INFINITIES, NAN, SPECIALS, Range, align
from tensorproof.rules.absorbed_constant import ABSORBED_CONSTANT
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW
from tensorproof.rules.derivative_overflow import DERIVATIVE_OVERFLOW
from tensorproof.rules.division_by_zero import DIVISION_BY_ZERO
from tensorproof.rules.integer_division_by_zero import INTEGER_DIVISION_BY_ZERO
from tensorproof.rules.modulo_by_zero import MODULO_BY_ZERO
from tensorproof.targets import TORCH_CPU

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall
    from tensorproof.frontends.jax_call import JaxCall
    from tensorproof.frontends.tensorflow_call import TensorflowCall


@operator("Add", error=CORRECT, overflow=ARITHMETIC_OVERFLOW, elementwise=True)
def add(op: Call, a: Range, b: Range) -> Range:
    """Increasing in both operands."""
    a, b = _as_intervals(op, a, b)
    return binary(a, b, increasing(np.add), np.add)


@add.aten("add.Tensor", "add.Scalar")
def _(call: AtenCall) -> int:
    return _spelled_sum(call, "Add", "self", "other")


@add.tensorflow("Add", "AddV2")
def _(call: TensorflowCall) -> int:
    """Texts are joined, numbers added."""
    return call.emit("StringConcat" if call.arithmetic_format() is STRING else "Add", *call.all_operands())


add.jax("add", "add_any")


@add.aten("addcdiv")
def _(call: AtenCall) -> int:
    """self + value tensor1 / tensor2."""

    def build(format: Format | None, x: int, first: int, second: int) -> int:
        quotient = call.emit("Div", _scaled(call, first, call["value"], format), second, formats=(format,))
        return call.emit("Add", x, quotient, formats=(format,))

    return fused(call, build, "self", "tensor1", "tensor2")


def fused(call: AtenCall, build: Callable[..., int], *names: str) -> int:
    """Several steps that torch rounds to the result's format only at the end: 16-bit operands are computed in float32."""
    format = call.result.format
    wide = FLOAT32 if format is not None and format.is_float and format.bits < 32 else format
    made = build(wide, *(call.value(call.arguments[name], wide) for name in names))
    return made if format is None else call.cast(made, format)


def _scaling(call: AtenCall, op: str) -> int:
    """A product or quotient; one of a 16-bit tensor by a number that its format does not hold is computed in float32.

    Torch rounds numbers to the format of a tensor that they are added to, and not those that it is multiplied with or divided by
    (`binary_kernel_reduced_floating_vec_opmath_support` in ATen/native/cpu/BinaryOpsKernel.cpp).
    """
    format = call.result.format
    number = call.arguments["other"]
    is_number = not isinstance(number, Handle) or (number.shape == () and number.format is not format)
    if format is None or not format.is_float or format.bits > 16 or not is_number or _holds(format, number):
        return call.emit(op, *call.promoted("self", "other"), formats=(format,))
    return fused(call, lambda wide, *operands: call.emit(op, *operands, formats=(wide,)), "self", "other")


def _holds(format: Format, number: Any) -> bool:
    return isinstance(number, bool | int | float) and float(into(np.asarray(number), format)) == number


def _scaled(call: AtenCall, x: int, factor: Any, format: Format | None) -> int:
    return x if factor == 1 else call.emit("Mul", x, call.value(factor, format), formats=(format,))


def _spelled_sum(call: AtenCall, op: str, first: str, second: str) -> int:
    """first + alpha second, or their difference; truth values are added as "or"."""
    format = call.result.format
    if format is BOOL:
        return call.emit("Or", *(call.tensor(name, BOOL) for name in (first, second)), formats=(BOOL,))
    alpha = call.get("alpha", 1)
    a, b = call.promoted(first, second)
    if format is None or not format.is_float or alpha == 1:
        return call.emit(op, a, _scaled(call, b, alpha, format), formats=(format,))
    return call.own("ScaledSum", a, b, factor=float(alpha) if op == "Add" else -float(alpha), formats=(format,))


@add.meaning
def _(run: Run, a: Tensor, b: Tensor) -> Tensor:
    return a + b


@operator("Sub", error=CORRECT, overflow=ARITHMETIC_OVERFLOW, elementwise=True)
def sub(op: Call, a: Range, b: Range) -> Range:
    """Increasing in the first operand, decreasing in the second."""

    def kernel(la: Array, ha: Array, lb: Array, hb: Array) -> tuple[Array, Array]:
        return la - hb, ha - lb

    a, b = _as_intervals(op, a, b)
    return binary(a, b, kernel, np.subtract)


@sub.aten("sub.Tensor", "sub.Scalar", "subtract.Tensor", "subtract.Scalar")
def _(call: AtenCall) -> int:
    return _spelled_sum(call, "Sub", "self", "other")


@sub.aten("rsub.Tensor", "rsub.Scalar")
def _(call: AtenCall) -> int:
    return _spelled_sum(call, "Sub", "other", "self")


sub.tensorflow("Sub")
sub.jax("sub")


@sub.meaning
def _(run: Run, a: Tensor, b: Tensor) -> Tensor:
    return a - b


@add.affine
def _(op: Call, result: Range, a: Range, b: Range) -> Form | None:
    return relations.total(op, result, (1.0, a), (1.0, b))


@sub.affine
def _(op: Call, result: Range, a: Range, b: Range) -> Form | None:
    return relations.total(op, result, (1.0, a), (-1.0, b))


def _as_intervals(op: Call, a: Range, b: Range) -> tuple[Range, Range]:
    """A known vector that meets one interval as the interval that it spans, if its cells would be merged afterwards.

    The extremes of sums, differences and products stand at the ends of what they are made from: nothing is lost.
    """
    if _is_merged_later(op, b) and a.array is None and a.low.size == 1:
        return a, Range.uniform(b.shape, b.format, *b.hull())
    if _is_merged_later(op, a) and b.array is None and b.low.size == 1:
        return Range.uniform(a.shape, a.format, *a.hull()), b
    return a, b


def _is_merged_later(op: Call, x: Range) -> bool:
    return x.array is not None and x.array.size > op.cells and x.format.is_float and x.array.size == max(x.array.shape)


def _absorbed(op: Call, a: Range, b: Range) -> Mask:
    """The second operand is a constant, not zero, and so small that it never changes the first one's value."""
    if not a.format.is_float or (b.array is None and b.low.size == 1 and b.low.item() != b.high.item()):
        return False
    low, high = a.hull()
    if low <= 0.0 <= high and a.low.size == 1:
        return False
    constant = b.values()
    if constant is None or not constant.size:
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


@operator("Sum", error=CORRECT, overflow=ARITHMETIC_OVERFLOW, elementwise=True)
def sum_(op: Call, *operands: Range) -> Range:
    """Increasing in every operand; the additions happen in any order."""
    total = operands[0]
    if len(operands) == 1:
        return total
    for x in operands[1:]:
        total = binary(total, x, increasing(np.add), np.add)
    if len(operands) == 2:
        return total
    # Floating-point sums are monotone in their terms: all terms at their low ends give the least result, whatever the
    # order. All but the last of the n - 1 additions round on the way: |error| <= ((1 + u)^(n - 2) - 1) sum |terms|
    # (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2), and float64 rounds all of them here.
    later = len(operands) - 2
    accumulator = op.accumulation(total.format)
    growth = _growth(op, total.format, later)
    aligned = align(total, *operands)
    lows, highs = aligned.lows[1:], aligned.highs[1:]
    least, largest = (_total(np.minimum(v, 0.0) for v in lows), _total(np.maximum(v, 0.0) for v in highs))
    partial = aligned.result(total.format, least, largest)
    outside = (least < accumulator.low) | (largest > accumulator.high)
    op.report(ARITHMETIC_OVERFLOW, RESULT, partial, outside, gives=INFINITIES)
    low = aligned.lows[0] - growth * _total(np.abs(v) for v in lows)
    high = aligned.highs[0] + growth * _total(np.abs(v) for v in highs)
    empty = total.low > total.high
    return total.replace(np.where(empty, np.inf, low), np.where(empty, -np.inf, high), total.special)


@sum_.tensorflow("AddN", "AccumulateNV2")
def _(call: TensorflowCall) -> int:
    """Sums of tensors; those of lists of tensors, which gradients of loops are made of, are not modelled."""
    format = call.arithmetic_format()
    return call.emit("Sum", *(call.operand(index) for index in range(len(call))), formats=(format,))


@sum_.meaning
def _(run: Run, *operands: Tensor) -> Tensor:
    return functools.reduce(run.torch.add, operands)


@sum_.affine
def _(op: Call, result: Range, *operands: Range) -> Form | None:
    later = max(len(operands) - 2, 0)
    lost = result.format.smallest_normal if op.target.flushes_results else 0.0
    error = relations.error_of(operands, _growth(op, result.format, later), later * lost)
    return relations.total(op, result, *((1.0, x) for x in operands), error=error)


def _growth(op: Call, format: Format, later: int) -> float:
    """(1 + u)^n - 1 for n roundings on the way, and those of float64 here."""
    return float(np.expm1(later * np.log1p(op.accumulation(format).unit_roundoff))) + (later + 1) * 2.0**-53 if later else 0.0


def _total(terms: Iterable[Array]) -> Array:
    return functools.reduce(np.add, terms)


@operator("Mul", error=CORRECT, overflow=ARITHMETIC_OVERFLOW, elementwise=True)
def mul(op: Call, a: Range, b: Range) -> Range:
    """Bilinear: extremes at the corners of the box."""
    a, b = _as_intervals(op, a, b)
    return binary(a, b, corners(product), np.multiply)


@mul.aten("mul.Tensor", "mul.Scalar", "multiply.Tensor", "multiply.Scalar")
def _(call: AtenCall) -> int:
    return (
        call.emit("And", *call.promoted("self", "other"), formats=(BOOL,)) if call.result.format is BOOL else _scaling(call, "Mul")
    )


@mul.aten("square")
def _(call: AtenCall) -> int:
    x = call.tensor("self", call.result.format)
    return call.emit("Mul", x, x, formats=(call.result.format,))


mul.tensorflow("Mul")


@mul.tensorflow("Square")
def _(call: TensorflowCall) -> int:
    format = call.arithmetic_format()
    return call.emit("Mul", call.operand(0), call.operand(0), formats=(format,))


@mul.tensorflow("SquaredDifference")
def _(call: TensorflowCall) -> int:
    format = call.arithmetic_format()
    difference = call.emit("Sub", *call.all_operands(), formats=(format,))
    return call.emit("Mul", difference, difference, formats=(format,))


mul.jax("mul")


@mul.jax("square")
def _(call: JaxCall) -> int:
    format = call.arithmetic_format()
    return call.emit("Mul", call.operand(0), call.operand(0), formats=(format,))


@mul.meaning
def _(run: Run, a: Tensor, b: Tensor) -> Tensor:
    return a * b


@mul.affine
def _(op: Call, result: Range, a: Range, b: Range) -> Form | None:
    return relations.product(op, result, a, b)


@operator("Div", error=CORRECT, overflow=ARITHMETIC_OVERFLOW, elementwise=True)
def div(op: Call, a: Range, b: Range) -> Range:
    """Monotone in each operand on either side of a zero divisor; integers round towards zero (ONNX Div-14)."""
    if a.format.is_integer:
        return binary(a, b, integer_quotient, _truncated)
    tiny = b.format.smallest_subnormal
    return binary(a, b, quotient_away_from(tiny), np.divide)


@div.aten("div.Tensor", "div.Scalar", "divide.Tensor", "divide.Scalar", "true_divide.Tensor", "true_divide.Scalar")
def _(call: AtenCall) -> int:
    return _scaling(call, "Div")


@div.aten("div.Tensor_mode", "div.Scalar_mode", "divide.Tensor_mode", "divide.Scalar_mode")
def _(call: AtenCall) -> int:
    format, mode = call.result.format, call["rounding_mode"]
    operands = call.promoted("self", "other")
    if mode == "floor":
        return call.own("FloorDivide", *operands, formats=(format,))
    quotient = call.emit("Div", *operands, formats=(format,))
    # Integers are divided towards zero already.
    return quotient if mode is None or format is None or format.is_integer else call.own("Trunc", quotient, formats=(format,))


div.tensorflow("Div", "RealDiv")


@div.tensorflow("TruncateDiv")
def _(call: TensorflowCall) -> int:
    """Towards zero, as integers are divided already."""
    format = call.arithmetic_format()
    quotient = call.emit("Div", *call.all_operands(), formats=(format,))
    return quotient if format.is_integer else call.own("Trunc", quotient, formats=(format,))


@div.jax("div")
def _(call: JaxCall) -> int:
    """Integers have a quotient by zero, too: all bits set (XLA's semantics of Div)."""
    format = call.arithmetic_format()
    if format.is_integer:
        return call.own("TotalDivide", *call.all_operands(), formats=(format,))
    return call.emit("Div", *call.all_operands(), formats=(format,))


@div.meaning
def _(run: Run, a: Tensor, b: Tensor) -> Tensor:
    if run.format(0, a) != "int":
        return a / b
    return run.passing(run.torch.div(a, b, rounding_mode="trunc"), a / b)


@div.affine
def _(op: Call, result: Range, a: Range, b: Range) -> Form | None:
    return relations.quotient(op, result, a, b)


@div.hazard(DIVISION_BY_ZERO, gives=SPECIALS, operand=1)
def _(op: Call, a: Range, b: Range) -> Mask:
    return b.contains(0.0) if b.format.is_float else False


@div.hazard(INTEGER_DIVISION_BY_ZERO, gives=UNDEFINED, operand=1)
def _(op: Call, a: Range, b: Range) -> Mask:
    return b.contains(0.0) if b.format.is_integer else False


def nearest_to_zero(x: Range) -> Array:
    """The smallest |x| of each cell."""
    return np.where(x.contains(0.0), 0.0, np.minimum(np.abs(x.low), np.abs(x.high)))


@div.backward(DERIVATIVE_OVERFLOW, operand=1, by=0)
def _(op: Call, result: Range, a: Range, b: Range) -> Mask:
    """g / b: infinite for the smallest subnormal numbers."""
    return ~b.contains(0.0) & (1.0 / nearest_to_zero(b) > b.format.high)


@div.backward(DERIVATIVE_OVERFLOW, operand=1)
def _(op: Call, result: Range, a: Range, b: Range) -> Mask:
    """-g ((a / b) / b), the quotient as computed: idioms that bound it bound its derivative."""
    aligned = align(result, b)
    (low, lb), (high, hb) = aligned.lows, aligned.highs
    divisor = np.minimum(np.abs(lb), np.abs(hb))
    return ((lb > 0) | (hb < 0)) & (np.maximum(np.abs(low), np.abs(high)) / divisor > b.format.high)


@div.spoils_zero
def _(op: Call, a: Range, b: Range) -> Mask:
    """0 / 0, or 0 times a quotient that is infinite."""
    return True


def quotient_away_from(tiny: float) -> Kernel:
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


def integer_quotient(la: Array, ha: Array, lb: Array, hb: Array) -> tuple[Array, Array]:
    """The kernel of a division of integers towards zero, by divisors that are not zero."""
    low, high = quotient_away_from(1.0)(la, ha, lb, hb)
    # A quotient of large 64-bit integers is exact only to 53 bits; truncation of the outward neighbour covers it.
    large = np.maximum(np.abs(la), np.abs(ha)) > 2.0**53
    low, high = np.where(large, np.nextafter(low, -np.inf), low), np.where(large, np.nextafter(high, np.inf), high)
    return np.trunc(low), np.trunc(high)


@operator("Mean", composed_of=(sum_, mul, div), elementwise=True)
def mean(op: Call, *operands: Range) -> Range:
    """The sum divided by the number of operands, or multiplied by its reciprocal."""
    total = op.apply(sum_, *operands)
    number = np.asarray(len(operands)).astype(total.format.dtype)
    reciprocal = (1.0 / np.asarray(len(operands), np.float64)).astype(total.format.dtype)
    quotient = op.apply(div, total, Range.constant(number))
    return quotient.join(op.apply(mul, total, Range.constant(reciprocal)))


@mean.meaning
def _(run: Run, *operands: Tensor) -> Tensor:
    return functools.reduce(run.torch.add, operands) / len(operands)


@operator("Neg", elementwise=True)
def neg(op: Call, x: Range) -> Range:
    """Decreasing and exact."""
    return monotone(x, np.negative)


neg.aten("neg", "negative")
neg.tensorflow("Neg")
neg.jax("neg")


@neg.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return -x


@neg.affine
def _(op: Call, result: Range, x: Range) -> Form | None:
    return relations.total(op, result, (-1.0, x))


@operator("Abs", elementwise=True)
def abs_(op: Call, x: Range) -> Range:
    """Minimum at 0, exact."""
    return piecewise(x, np.abs, (0.0,))


abs_.aten("abs", "absolute")
abs_.tensorflow("Abs")
abs_.jax("abs")


@abs_.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return run.torch.abs(x)


@abs_.affine
def _(op: Call, result: Range, x: Range) -> Form | None:
    return relations.absolute(op, result, x)


@operator(
    "Mod",
    error=CORRECT,
    coarse="where a range of divisors changes the quotient, only the largest bounds the result",
    elementwise=True,
)
def mod(op: Call, a: Range, b: Range) -> Range:
    """Linear while the quotient keeps its integer part; else between zero and the divisor.

    The sign is the divisor's (fmod=0: a - b floor(a / b)) or the dividend's (fmod=1: a - b trunc(a / b)), ONNX Mod-28.
    """
    truncated = bool(op.attribute("fmod", 0))
    function = np.fmod if truncated else np.mod
    integral = a.format.is_integer
    tiny = 1.0 if integral else a.format.smallest_subnormal

    def kernel(la: Array, ha: Array, lb: Array, hb: Array) -> tuple[Array, Array]:
        low = np.full(np.broadcast_shapes(la.shape, lb.shape), np.inf)
        high = np.full(low.shape, -np.inf)
        # Signs of dividend and divisor; fmod ignores the divisor's, and floor-mod needs no cut of the dividend.
        for sign_b in (1.0, -1.0):
            start_b = np.maximum(np.minimum(sign_b * lb, sign_b * hb), tiny)
            end_b = np.maximum(sign_b * lb, sign_b * hb)
            for sign_a in (1.0, -1.0) if truncated else (sign_b,):
                start_a, end_a = np.minimum(sign_a * la, sign_a * ha), np.maximum(sign_a * la, sign_a * ha)
                here = (end_b > 0) | ((lb == 0) & (hb == 0))
                if truncated:
                    here = here & (end_a >= 0)
                    start_a, end_a = np.maximum(start_a, 0.0), np.maximum(end_a, 0.0)
                part_low, part_high = _remainder(start_a, end_a, start_b, np.maximum(end_b, start_b), integral)
                if sign_a < 0:
                    part_low, part_high = -part_high, -part_low
                low = np.where(here, np.minimum(low, part_low), low)
                high = np.where(here, np.maximum(high, part_high), high)
        return low, high

    return binary(a, b, kernel, function)


mod.aten("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")


@mod.aten("fmod.Tensor", "fmod.Scalar")
def _(call: AtenCall) -> int:
    return call.emit("Mod", *call.promoted("self", "other"), fmod=1, formats=(call.result.format,))


@mod.aten("frac")
def _(call: AtenCall) -> int:
    """x - trunc(x)."""
    format = call.result.format
    return call.emit("Mod", call.tensor("self", format), call.value(1, format), fmod=1, formats=(format,))


mod.tensorflow("FloorMod")


@mod.tensorflow("Mod", "TruncateMod")
def _(call: TensorflowCall) -> int:
    """With the sign of the dividend."""
    return call.emit("Mod", *call.all_operands(), fmod=1, formats=(call.arithmetic_format(),))


@mod.jax("rem")
def _(call: JaxCall) -> int:
    """With the sign of the dividend; integers divided by zero leave the dividend (XLA's semantics of Rem)."""
    format = call.arithmetic_format()
    if format.is_integer:
        return call.own("TotalRemainder", *call.all_operands(), formats=(format,))
    return call.emit("Mod", *call.all_operands(), fmod=1, formats=(format,))


@mod.meaning
def _(run: Run, a: Tensor, b: Tensor) -> Tensor:
    # The derivative with respect to the divisor is minus the whole part of the quotient, which torch knows.
    return run.torch.fmod(a, b) if run.attribute("fmod", 0) else run.torch.remainder(a, b)


def _remainder(la: Array, ha: Array, lb: Array, hb: Array, integral: bool) -> tuple[Array, Array]:
    """a - b floor(a / b) for positive divisors."""
    quotients = corners(np.floor_divide)(la, ha, lb, hb)
    quotient = quotients[0]
    # Without a change of the quotient the remainder is a - b q, bilinear; 2^-51 covers the roundings of float64, which
    # cannot tell large quotients apart.
    crossing = (quotients[0] != quotients[1]) | ((np.abs(quotient) >= 2.0**52) & ~((la == ha) & (lb == hb)))
    slack = np.where(integral & (np.maximum(np.abs(la), np.abs(ha)) < 2.0**52), 0.0, 2.0**-51)
    multiple_low, multiple_high = np.minimum(quotient * lb, quotient * hb), np.maximum(quotient * lb, quotient * hb)
    low = np.maximum(la - multiple_high - slack * np.maximum(np.abs(la), np.abs(multiple_high)), 0.0)
    high = np.minimum(ha - multiple_low + slack * np.maximum(np.abs(ha), np.abs(multiple_low)), hb)
    fixed = lb == hb
    low, high = np.where(fixed, np.mod(la, lb), low), np.where(fixed, np.mod(ha, lb), high)
    largest = hb - 1.0 if integral else hb
    largest = np.where(la >= 0, np.minimum(ha, largest), largest)
    return np.where(crossing, 0.0, low), np.where(crossing, largest, high)


@mod.hazard(MODULO_BY_ZERO, gives=NAN, operand=1)
def _(op: Call, a: Range, b: Range) -> Mask:
    if not b.format.is_float:
        return False
    # In vectors torch computes the quotient first, and NaN once it overflows (measured with 2.13).
    return b.contains(0.0) | quotient_overflows(a, b) if op.target is TORCH_CPU else b.contains(0.0)


def quotient_overflows(a: Range, b: Range) -> Mask:
    """Whether a / b may leave the format in which torch computes it: 16-bit numbers in float32."""
    aligned = align(a, b)
    (la, lb), (ha, hb) = aligned.lows, aligned.highs
    nearest = np.maximum(np.where(lb > 0, lb, np.where(hb < 0, -hb, 0.0)), b.format.smallest_subnormal)
    return np.maximum(np.abs(la), np.abs(ha)) / nearest > max(a.format.high, FLOAT32.high)


@mod.hazard(INTEGER_DIVISION_BY_ZERO, gives=UNDEFINED, operand=1)
def _(op: Call, a: Range, b: Range) -> Mask:
    return b.contains(0.0) if b.format.is_integer else False


@operator("Max", elementwise=True)
def max_(op: Call, *operands: Range) -> Range:
    """Increasing in every operand, exact."""
    result = operands[0]
    for x in operands[1:]:
        result = binary(result, x, increasing(np.maximum), np.maximum)
    return result


max_.aten("maximum", "max.other")
max_.tensorflow("Maximum")


@max_.jax("max")
def _(call: JaxCall) -> int:
    """The larger one of truth values is "or"."""
    format = call.arithmetic_format()
    return call.emit("Or" if format is BOOL else "Max", *call.all_operands(), formats=(format,))


@max_.aten("fmax")
def _(call: AtenCall) -> int:
    return _ignoring_nan(call, "Max")


def _ignoring_nan(call: AtenCall, op: str) -> int:
    """The larger or the smaller operand; the other one where one is NaN."""
    format = call.result.format
    a, b = call.promoted("self", "other")
    chosen = call.emit(op, a, b, formats=(format,))
    if format is None or not format.is_float:
        return chosen
    chosen = call.emit("Where", call.emit("IsNaN", b, formats=(BOOL,)), a, chosen, formats=(format,))
    return call.emit("Where", call.emit("IsNaN", a, formats=(BOOL,)), b, chosen, formats=(format,))


@max_.meaning
def _(run: Run, *operands: Tensor) -> Tensor:
    return functools.reduce(run.torch.maximum, operands)


@max_.affine
def _(op: Call, result: Range, *operands: Range) -> Form | None:
    return relations.maximum(op, result, *operands)


@operator("Min", elementwise=True)
def min_(op: Call, *operands: Range) -> Range:
    """Increasing in every operand, exact."""
    result = operands[0]
    for x in operands[1:]:
        result = binary(result, x, increasing(np.minimum), np.minimum)
    return result


min_.aten("minimum", "min.other")
min_.tensorflow("Minimum")


@min_.jax("min")
def _(call: JaxCall) -> int:
    """The smaller one of truth values is "and"."""
    format = call.arithmetic_format()
    return call.emit("And" if format is BOOL else "Min", *call.all_operands(), formats=(format,))


@min_.aten("fmin")
def _(call: AtenCall) -> int:
    return _ignoring_nan(call, "Min")


@min_.meaning
def _(run: Run, *operands: Tensor) -> Tensor:
    return functools.reduce(run.torch.minimum, operands)


@min_.affine
def _(op: Call, result: Range, *operands: Range) -> Form | None:
    return relations.minimum(op, result, *operands)


@operator("Sign", elementwise=True)
def sign(op: Call, x: Range) -> Range:
    """Increasing and exact."""
    return or_zero(x, monotone(x, np.sign))


sign.aten("sign", "sgn")
sign.tensorflow("Sign")
sign.jax("sign")


@sign.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return run.passing(run.torch.sign(x), run.torch.tanh(x) if x.dtype.is_floating_point else x)


@operator("Floor", elementwise=True)
def floor(op: Call, x: Range) -> Range:
    """Increasing and exact."""
    return monotone(x, np.floor)


floor.aten("floor")
floor.tensorflow("Floor")
floor.jax("floor")


@floor.tensorflow("FloorDiv")
def _(call: TensorflowCall) -> int:
    """The quotient rounded down; if it is no integer it is rounded to its format first (`google_floor_div_real`)."""
    format = call.arithmetic_format()
    if format.is_integer:
        return call.own("FloorDivide", *call.all_operands(), formats=(format,))
    return call.emit("Floor", call.emit("Div", *call.all_operands(), formats=(format,)), formats=(format,))


@floor.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return run.passing(run.torch.floor(x), x)


@operator("Ceil", elementwise=True)
def ceil(op: Call, x: Range) -> Range:
    """Increasing and exact."""
    return monotone(x, np.ceil)


ceil.aten("ceil")
ceil.tensorflow("Ceil")
ceil.jax("ceil")


@ceil.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return run.passing(run.torch.ceil(x), x)


@operator("Round", elementwise=True)
def round_(op: Call, x: Range) -> Range:
    """Increasing and exact; ties to even (ONNX Round-11)."""
    return monotone(x, np.rint)


round_.aten("round")
round_.tensorflow("Rint")


@round_.tensorflow("Round")
def _(call: TensorflowCall) -> int:
    format = call.arithmetic_format()
    if not format.is_float:
        # TensorFlow's own functions leave integers as they are; the operator gives zeros (measured with 2.21).
        raise NotAnalysed("Round of integers, which TensorFlow's kernel does not keep")
    return call.emit("Round", call.operand(0), formats=(format,))


@round_.jax("round")
def _(call: JaxCall) -> int:
    """Half to even, or away from zero (`lax.RoundingMethod`)."""
    format = call.arithmetic_format()
    if getattr(call["rounding_method"], "name", "") == "TO_NEAREST_EVEN":
        return call.emit("Round", call.operand(0), formats=(format,))
    return call.own("RoundAway", call.operand(0), formats=(format,))


@round_.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return run.passing(run.torch.round(x), x)
