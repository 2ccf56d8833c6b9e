"""Matrix products and convolutions of quantised operands, and the way from their 32-bit sums to a quantised result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorproof.formats import FLOAT32, INT32, Array, Format
from tensorproof.operators.casts import format_of, wrapped_tensor
from tensorproof.operators.convolution import interval_convolution
from tensorproof.operators.linear import matmul
from tensorproof.operators.quantisation import (
    dequantised_tensor,
    dequantize_linear,
    quantised_tensor,
    quantize_linear,
    reshaped,
    scale_is_degenerate,
    shifted,
    spread,
    spread_tensor,
)
from tensorproof.operators.table import CORRECT, NEWEST, UNDEFINED, Call, Mask, operator
from tensorproof.ranges.elementwise import corners, product
from tensorproof.ranges.range import Range, align
from tensorproof.rules.quantisation_scale import QUANTISATION_SCALE

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor


@operator("MatMulInteger", error=CORRECT)
def matmul_integer(op: Call, a: Range, b: Range, a_zero_point: Range | None = None, b_zero_point: Range | None = None) -> Range:
    """Product of differences from the zero points in 32-bit integers, which wrap around."""
    return integer_product(op, a, b, a_zero_point, b_zero_point)


@matmul_integer.meaning
def _(run: Run, a: Tensor, b: Tensor, a_zero_point: Tensor | None = None, b_zero_point: Tensor | None = None) -> Tensor:
    return integer_sum(run, integer_matmul(run, a, b, a_zero_point, b_zero_point))


def integer_product(op: Call, a: Range, b: Range, a_zero_point: Range | None, b_zero_point: Range | None) -> Range:
    """(a - zero point) @ (b - zero point); vectors of zero points are per row of a and per column of b."""
    left = shifted(a, None if a_zero_point is None else per_row(a_zero_point), INT32)
    right = shifted(b, None if b_zero_point is None else per_column(b_zero_point), INT32)
    return op.apply(matmul, left, right)


def per_row(parameter: Range) -> Range:
    """A parameter that broadcasts against a matrix, one entry per row where it is a vector (ONNX MatMulInteger-10)."""
    if parameter.size == 1:
        return reshaped(parameter, ())
    return reshaped(parameter, (parameter.size, 1)) if parameter.rank == 1 else parameter


def per_column(parameter: Range) -> Range:
    """A parameter that broadcasts against a matrix, one entry per column where it is a vector."""
    return reshaped(parameter, ()) if parameter.size == 1 else parameter


@operator("ConvInteger", error=CORRECT)
def conv_integer(op: Call, x: Range, w: Range, x_zero_point: Range | None = None, w_zero_point: Range | None = None) -> Range:
    """Convolution of differences from the zero points in 32-bit integers, which wrap around."""
    return _integer_convolution(op, x, w, x_zero_point, w_zero_point)


@conv_integer.meaning
def _(run: Run, x: Tensor, w: Tensor, x_zero_point: Tensor | None = None, w_zero_point: Tensor | None = None) -> Tensor:
    return integer_sum(run, _integer_conv(run, x, w, x_zero_point, w_zero_point))


def _integer_convolution(
    op: Call, x: Range, w: Range, x_zero_point: Range | None, w_zero_point: Range | None, bias: Range | None = None
) -> Range:
    x_shift = None if x_zero_point is None else spread(x_zero_point, x, 1, 0)
    w_shift = None if w_zero_point is None else spread(w_zero_point, w, 0, 0)
    return interval_convolution(op, shifted(x, x_shift, INT32), shifted(w, w_shift, INT32), bias)


@operator("QLinearMatMul", composed_of=(quantize_linear, dequantize_linear, matmul))
def qlinear_matmul(
    op: Call,
    a: Range,
    a_scale: Range,
    a_zero_point: Range,
    b: Range,
    b_scale: Range,
    b_zero_point: Range,
    y_scale: Range,
    y_zero_point: Range,
) -> Range:
    """Increasing or decreasing in each operand by the signs of the other: the 32-bit sum, scaled, rounded and saturated."""
    if a.format.is_float:
        left = op.apply(dequantize_linear, a, per_row(a_scale))
        right = op.apply(dequantize_linear, b, per_column(b_scale))
        return op.apply(quantize_linear, op.apply(matmul, left, right), y_scale, y_zero_point)
    total = integer_product(op, a, b, a_zero_point, b_zero_point)
    return requantised(total, per_row(a_scale), per_column(b_scale), per_row(y_scale), per_row(y_zero_point))


@qlinear_matmul.hazard(QUANTISATION_SCALE, gives=UNDEFINED, operand=6)
def _(
    op: Call,
    a: Range,
    a_scale: Range,
    a_zero_point: Range,
    b: Range,
    b_scale: Range,
    b_zero_point: Range,
    y_scale: Range,
    y_zero_point: Range,
) -> Mask:
    return scale_is_degenerate(y_scale)


@qlinear_matmul.meaning
def _(
    run: Run,
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
) -> Tensor:
    a_scale, b_scale, y_scale, shift = by_row(a_scale), by_column(b_scale), by_row(y_scale), by_row(y_zero_point)
    to = format_of(run, 7, y_zero_point)
    if to.is_float:
        total = dequantised_tensor(run, a, a_scale, None) @ dequantised_tensor(run, b, b_scale, None)
        return quantised_tensor(run, total, y_scale, shift, to)
    total = integer_sum(run, integer_matmul(run, a, b, a_zero_point, b_zero_point))
    return requantised_tensor(run, total, a_scale, b_scale, y_scale, shift, to)


@operator("QLinearConv")
def qlinear_conv(
    op: Call,
    x: Range,
    x_scale: Range,
    x_zero_point: Range,
    w: Range,
    w_scale: Range,
    w_zero_point: Range,
    y_scale: Range,
    y_zero_point: Range,
    bias: Range | None = None,
) -> Range:
    """Increasing or decreasing in the input by the signs of the weights: the 32-bit sum, scaled, rounded and saturated."""
    total = wrapped(_integer_convolution(op, x, w, x_zero_point, w_zero_point, bias))
    return requantised(
        total,
        reshaped(x_scale, ()),
        spread(w_scale, total, 1, 0),
        reshaped(y_scale, ()),
        reshaped(y_zero_point, ()),
    )


@qlinear_conv.hazard(QUANTISATION_SCALE, gives=UNDEFINED, operand=6)
def _(
    op: Call,
    x: Range,
    x_scale: Range,
    x_zero_point: Range,
    w: Range,
    w_scale: Range,
    w_zero_point: Range,
    y_scale: Range,
    y_zero_point: Range,
    bias: Range | None = None,
) -> Mask:
    return scale_is_degenerate(y_scale)


@qlinear_conv.meaning
def quantised_conv(
    run: Run,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor,
    w: Tensor,
    w_scale: Tensor,
    w_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
    bias: Tensor | None = None,
) -> Tensor:
    """The meaning of QLinearConv."""
    total = integer_sum(run, _integer_conv(run, x, w, x_zero_point, w_zero_point, bias))
    scales = x_scale.reshape(()), spread_tensor(w_scale, total, 1, 0), y_scale.reshape(())
    return requantised_tensor(run, total, *scales, y_zero_point.reshape(()), format_of(run, 7, y_zero_point))


def wrapped(total: Range) -> Range:
    """32-bit sums as they are kept: any value where they can leave the format."""
    outside = (total.low < INT32.low) | (total.high > INT32.high)
    if not outside.any():
        return total
    return total.replace(np.where(outside, INT32.low, total.low), np.where(outside, INT32.high, total.high), None)


def requantised(total: Range, a_scale: Range, b_scale: Range, y_scale: Range, y_zero_point: Range) -> Range:
    """saturate(round(total * (a_scale * b_scale / y_scale)) + zero point).

    Runtimes add the zero point after rounding or before it, and multiply in float32 or in float64: both are monotone, and
    the hull of their results is kept.
    """
    to = y_zero_point.format
    aligned = align(total, a_scale, b_scale, y_scale, y_zero_point)
    lt, la, lb, ly, lz = aligned.lows
    ht, ha, hb, hy, hz = aligned.highs
    scale_low, scale_high = _multiplier((la, ha), (lb, hb), (ly, hy), FLOAT32)
    if a_scale.format is not FLOAT32:
        own_low, own_high = _multiplier((la, ha), (lb, hb), (ly, hy), a_scale.format)
        scale_low, scale_high = np.minimum(scale_low, own_low), np.maximum(scale_high, own_high)
    low, high = corners(product)(lt, ht, scale_low, scale_high)
    single = FLOAT32.round_nearest
    single_low, single_high = corners(product)(single(lt), single(ht), scale_low, scale_high)
    ends_low, ends_high = (low, single(single_low)), (high, single(single_high))
    low = np.minimum.reduce([r for v in ends_low for r in _both_orders(v, lz)])
    high = np.maximum.reduce([r for v in ends_high for r in _both_orders(v, hz)])
    unknown = np.isnan(scale_low) | np.isnan(scale_high)
    for scale in aligned.specials[1:4]:
        unknown = unknown | (scale != 0)
    low = np.where(unknown, to.low, np.clip(low, to.low, to.high))
    high = np.where(unknown, to.high, np.clip(high, to.low, to.high))
    return aligned.result(to, low, high)


def _multiplier(a: tuple[Array, Array], b: tuple[Array, Array], y: tuple[Array, Array], format: Format) -> tuple[Array, Array]:
    """Bounds of a * b / y with both steps rounded in a format; NaN where y can be zero or the format ends."""
    low, high = (format.round_nearest(end) for end in corners(product)(*a, *b))
    outside = (np.maximum(np.abs(low), np.abs(high)) > format.high) | ((y[0] <= 0) & (y[1] >= 0))
    low, high = corners(np.divide)(low, high, *y)
    return tuple(np.where(outside, np.nan, format.round_nearest(end)) for end in (low, high))  # type: ignore[return-value]


def _both_orders(value: Array, zero_point: Array) -> tuple[Array, ...]:
    """The zero point added after rounding to an integer, and before it."""
    return np.rint(value) + zero_point, np.rint(value + zero_point), np.rint(FLOAT32.round_nearest(value + zero_point))


# -- on torch ----------------------------------------------------------------------------------------------------------


def difference(x: Tensor, zero_point: Tensor | None) -> Tensor:
    """x - zero point in float64, which holds all sums of products of 8-bit numbers exactly."""
    return x.double() if zero_point is None else x.double() - zero_point.double()


def integer_matmul(run: Run, a: Tensor, b: Tensor, a_zero_point: Tensor | None, b_zero_point: Tensor | None) -> Tensor:
    """(a - zero point) @ (b - zero point) in float64 (`integer_product`)."""
    left = difference(a, None if a_zero_point is None else by_row(a_zero_point))
    right = difference(b, None if b_zero_point is None else by_column(b_zero_point))
    return run.torch.matmul(left, right)


def _integer_conv(
    run: Run, x: Tensor, w: Tensor, x_zero_point: Tensor | None, w_zero_point: Tensor | None, bias: Tensor | None = None
) -> Tensor:
    """The convolution of differences from the zero points in float64 (`_integer_convolution`)."""
    left = difference(x, None if x_zero_point is None else spread_tensor(x_zero_point, x, 1, 0))
    right = difference(w, None if w_zero_point is None else spread_tensor(w_zero_point, w, 0, 0))
    added = None if bias is None else bias.double()
    return run.apply("Conv", left, right, added, version=NEWEST, **run.attributes)


def integer_sum(run: Run, total: Tensor) -> Tensor:
    """An exact sum as 32-bit integers hold it: wrapped around, and in a search with the derivative of the sum."""
    return run.passing(wrapped_tensor(run, run.whole(total), INT32), total)


def scaled_sum(run: Run, total: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
    """A 32-bit sum times both scales, in float32 or the precision of the run."""
    wide = run.dtype(FLOAT32)
    return total.to(wide) * (a_scale.to(wide) * b_scale.to(wide))


def requantised_tensor(
    run: Run, total: Tensor, a_scale: Tensor, b_scale: Tensor, y_scale: Tensor, y_zero_point: Tensor | None, to: Format
) -> Tensor:
    """saturate(round(total * (a_scale * b_scale / y_scale)) + zero point), the scales in float32 or the precision of the run."""
    wide = run.dtype(FLOAT32)
    scale = a_scale.to(wide) * b_scale.to(wide) / y_scale.to(wide)
    return saturated(run, total.to(wide) * scale, y_zero_point, to)


def saturated(run: Run, y: Tensor, zero_point: Tensor | None, to: Format) -> Tensor:
    """saturate(round(y) + zero point) in an integer format."""
    return quantised_tensor(run, y, y.new_ones(()), zero_point, to)


def by_row(parameter: Tensor) -> Tensor:
    """A parameter that broadcasts against a matrix, one entry per row where it is a vector (`per_row`)."""
    return parameter[:, None] if parameter.dim() == 1 and len(parameter) > 1 else by_column(parameter)


def by_column(parameter: Tensor) -> Tensor:
    """A parameter that broadcasts against a matrix, one entry per column where it is a vector."""
    return parameter.reshape(()) if parameter.numel() == 1 else parameter
