"""Linear quantisation: QuantizeLinear and DequantizeLinear in all granularities, and DynamicQuantizeLinear.

A quantised value is saturate(round(x / scale) + zero point), ties to even. The division is one correctly rounded operation
in the format of the scale or in float32, whatever the runtime takes; each is monotone, so the hull of both at the ends of
a cell holds for either. Beyond 2^31 the result is any value of the format: some implementations pass through 32-bit
integers there instead of saturating (the reference evaluator of the onnx package does).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.formats import BY_ONNX_CODE, FLOAT8_E8M0, FLOAT32, FLOAT64, UINT8, Array, Format
from tensorproof.operators.casts import converted, format_of, rounded_tensor
from tensorproof.operators.table import RESULT, UNDEFINED, Call, Mask, operator
from tensorproof.ranges.elementwise import binary, corners, product
from tensorproof.ranges.grid import counts
from tensorproof.ranges.moving import moved
from tensorproof.ranges.range import INFINITIES, NAN, POSITIVE_INFINITY, Flags, Range, align
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW
from tensorproof.rules.cast_overflow import CAST_OVERFLOW
from tensorproof.rules.quantisation_scale import QUANTISATION_SCALE

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor

#: Quotients of this size no longer fit a 32-bit integer after a zero point is added.
_LARGEST_QUOTIENT = 2.0**31 - 2.0**17


# -- QuantizeLinear ----------------------------------------------------------------------------------------------------


@operator("QuantizeLinear", hazards=(CAST_OVERFLOW,))
def quantize_linear(op: Call, x: Range, scale: Range, zero_point: Range | None = None) -> Range:
    """Increasing in x for a positive scale, saturating; rounds ties to even (ONNX QuantizeLinear-28)."""
    axis, block = int(op.attribute("axis", 1)), int(op.attribute("block_size", 0))
    to = _quantised_format(op, None if zero_point is None else zero_point.format)
    precision = BY_ONNX_CODE.get(int(op.attribute("precision", 0)))
    exact = _quantised_constant(x, scale, zero_point, to, precision, axis, block)
    if exact is not None:
        return exact
    divisor = spread(scale, x, axis, block)
    shift = None if zero_point is None else spread(zero_point, x, axis, block)
    formats = _division_formats(x.format, scale.format, precision)
    if to.is_integer:
        return _quantised_integers(x, divisor, shift, to, formats)
    quotient = _quotient_range(x, divisor, formats)
    if shift is not None and not to.has_nan:
        quotient = binary(quotient, shift, lambda la, ha, lb, hb: (la + lb, ha + hb), np.add)
    return converted(op, quotient, to, saturate=bool(op.attribute("saturate", 1)))


def _quantised_format(op: Call | Run, zero_point: Format | None) -> Format:
    return zero_point or BY_ONNX_CODE[int(op.attribute("output_dtype", 0)) or UINT8.onnx_code]


@quantize_linear.meaning
def _(run: Run, x: Tensor, scale: Tensor, zero_point: Tensor | None = None) -> Tensor:
    axis, block = int(run.attribute("axis", 1)), int(run.attribute("block_size", 0))
    to = _quantised_format(run, None if zero_point is None else format_of(run, 2, zero_point))
    shift = None if zero_point is None else spread_tensor(zero_point, x, axis, block)
    divisor = spread_tensor(scale, x, axis, block)
    return quantised_tensor(run, x, divisor, shift, to, saturate=bool(run.attribute("saturate", 1)))


def quantised_tensor(run: Run, x: Tensor, scale: Tensor, zero_point: Tensor | None, to: Format, *, saturate: bool = True) -> Tensor:
    """saturate(round(x / scale) + zero point), for parameters that broadcast; a search gets the straight line."""
    wide = run.dtype(FLOAT32)
    quotient = x.to(wide) / scale.to(wide)
    # Zero points of formats that have NaN, the float8 ones, are zero.
    shift = 0.0 if zero_point is None or to.has_nan else zero_point.to(wide)
    line = quotient + shift
    if not to.is_integer:
        return run.passing(rounded_tensor(run, line, to, saturate=saturate), line)
    whole = (quotient.round() + shift).clamp(to.low, to.high)
    return run.passing(whole.to(run.dtype(to)), line)


@quantize_linear.hazard(QUANTISATION_SCALE, gives=UNDEFINED, operand=1)
def _(op: Call, x: Range, scale: Range, zero_point: Range | None = None) -> Mask:
    return scale_is_degenerate(scale)


def scale_is_degenerate(scale: Range) -> Mask:
    """Per cell, whether a scale that is divided by can be zero or not finite."""
    return scale.contains(0.0) | (scale.special != 0)


def spread(parameter: Range, x: Range, axis: int, block: int) -> Range:
    """A scale or zero point that broadcasts against x: per tensor, per axis or per block (ONNX QuantizeLinear-21)."""
    if parameter.size == 1:
        return reshaped(parameter, ())
    rank = x.rank
    axis %= rank
    if not block:
        return reshaped(parameter, tuple(parameter.size if i == axis else 1 for i in range(rank)))
    size = x.sizes[axis]
    cuts = parameter.grid[axis]
    if cuts is not None:
        cuts = np.minimum(cuts * block, size)
    shape = (*parameter.sizes[:axis], size, *parameter.sizes[axis + 1 :])
    grid = (*parameter.grid[:axis], cuts, *parameter.grid[axis + 1 :])
    return Range(parameter.format, shape, grid, parameter.low, parameter.high, parameter.special)


def reshaped(parameter: Range, shape: tuple[int, ...]) -> Range:
    """The same elements in order with axes of size 1 added or removed."""
    if parameter.array is not None:
        return Range.constant(parameter.array.reshape(shape), parameter.format)
    cuts = [cut for cut, size in zip(parameter.grid, parameter.sizes) if size != 1]
    grid = tuple(None if size == 1 else cuts.pop(0) for size in shape)
    return moved(parameter, shape, grid, lambda a: a.reshape(counts(grid)))


def _spread_array(array: npt.NDArray[Any], shape: Sequence[int], axis: int, block: int) -> npt.NDArray[Any]:
    """The elements of a scale or zero point in a shape that broadcasts against `shape`."""
    if array.size == 1:
        return array.reshape(())
    axis %= len(shape)
    if not block:
        return array.reshape(tuple(array.size if i == axis else 1 for i in range(len(shape))))
    return np.repeat(array, block, axis).take(range(shape[axis]), axis)


def spread_tensor(parameter: Tensor, x: Tensor, axis: int, block: int) -> Tensor:
    """`spread` for tensors."""
    if parameter.numel() == 1:
        return parameter.reshape(())
    axis %= x.dim()
    if not block:
        return parameter.reshape([-1 if i == axis else 1 for i in range(x.dim())])
    return parameter.repeat_interleave(block, axis).narrow(axis, 0, x.shape[axis])


def _division_formats(x: Format, scale: Format, precision: Format | None) -> tuple[Format, ...]:
    """The formats in which runtimes divide x by its scale."""
    formats = {FLOAT32.name: FLOAT32}
    for format in (scale, precision):
        if format is not None and format.is_float and format is not FLOAT8_E8M0:
            formats[format.name] = format
    if not (x.is_float and scale.is_float):
        formats[FLOAT64.name] = FLOAT64
    return tuple(formats.values())


def _in_format(values: Array, format: Format) -> Array:
    """Rounded to nearest, infinite where the format ends."""
    rounded = format.round_nearest(values)
    return np.where(np.abs(rounded) > format.high, np.copysign(np.inf, rounded), rounded)


def _quotients(x: Range, divisor: Range, formats: Sequence[Format]) -> tuple[Any, Array, Array]:
    """Bounds of x / divisor over all formats of the division; infinite where the divisor can be zero."""
    aligned = align(x, divisor)
    (la, lb), (ha, hb) = aligned.lows, aligned.highs
    low, high = np.full((), np.inf), np.full((), -np.inf)
    for format in formats:
        ends = (_in_format(end, format) for end in (la, ha, lb, hb))
        part_low, part_high = corners(np.divide)(*ends)
        low = np.minimum(low, _in_format(part_low, format))
        high = np.maximum(high, _in_format(part_high, format))
    unknown = ((lb <= 0) & (hb >= 0)) | np.isnan(low) | np.isnan(high)
    return aligned, np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high)


def _quantised_integers(x: Range, divisor: Range, shift: Range | None, to: Format, formats: Sequence[Format]) -> Range:
    aligned, low, high = _quotients(x, divisor, formats)
    quotient = aligned.result(FLOAT64, np.rint(low), np.rint(high), None)
    special = (aligned.specials[0] | aligned.specials[1]) != 0
    # NaN, the infinities and what exceeds 32 bits: any value of the format.
    unknown = special | (np.abs(low) > _LARGEST_QUOTIENT) | (np.abs(high) > _LARGEST_QUOTIENT)
    if shift is not None:
        with_shift = align(quotient, shift, aligned.result(FLOAT64, unknown.astype(np.float64), unknown.astype(np.float64)))
        (low, added_low, flags), (high, added_high, _) = with_shift.lows, with_shift.highs
        low, high, unknown = low + added_low, high + added_high, flags != 0
        aligned = with_shift
    else:
        low, high = quotient.low, quotient.high
    low = np.where(unknown, to.low, np.clip(low, to.low, to.high))
    high = np.where(unknown, to.high, np.clip(high, to.low, to.high))
    return aligned.result(to, low, high)


def _quotient_range(x: Range, divisor: Range, formats: Sequence[Format]) -> Range:
    """x / divisor as a float32 range, for formats that have special values of their own."""
    aligned, low, high = _quotients(x, divisor, formats)
    low, high = np.clip(low, FLOAT32.low, FLOAT32.high), np.clip(high, FLOAT32.low, FLOAT32.high)
    special: Flags | None = None
    if x.has_special:
        flags = aligned.specials[0]
        flipped = ((flags & np.uint8(INFINITIES)) != 0) & (aligned.lows[1] < 0)
        special = flags | np.where(flipped, np.uint8(INFINITIES), np.uint8(0))
        empty = aligned.lows[0] > aligned.highs[0]
        low, high = np.where(empty, np.inf, low), np.where(empty, -np.inf, high)
    return aligned.result(FLOAT32, low, high, special)


def _quantised_constant(
    x: Range, scale: Range, zero_point: Range | None, to: Format, precision: Format | None, axis: int, block: int
) -> Range | None:
    """Weights that are quantised in the file: exact element by element without bounds in float64."""
    if x.array is None or scale.array is None or not to.is_integer or (zero_point is not None and zero_point.array is None):
        return None
    if _division_formats(x.format, scale.format, precision) != (FLOAT32,):
        return None
    quotient = np.rint(x.array.astype(np.float32) / _spread_array(scale.array, x.sizes, axis, block).astype(np.float32))
    if not bool((np.abs(quotient) < _LARGEST_QUOTIENT).all()):
        return None
    if zero_point is not None and zero_point.array is not None:
        quotient = quotient + _spread_array(zero_point.array, x.sizes, axis, block).astype(np.float64)
    return Range.constant(np.clip(quotient, to.low, to.high).astype(np.int32).astype(to.dtype), to)


# -- DequantizeLinear --------------------------------------------------------------------------------------------------


@operator("DequantizeLinear", hazards=(ARITHMETIC_OVERFLOW,))
def dequantize_linear(op: Call, x: Range, scale: Range, zero_point: Range | None = None) -> Range:
    """(x - zero point) * scale: increasing in x for a positive scale, one rounding (ONNX DequantizeLinear-28)."""
    axis, block = int(op.attribute("axis", 1)), int(op.attribute("block_size", 0))
    to = _dequantised_format(op, scale.format)
    exact = _dequantised_constant(x, scale, zero_point, to, axis, block)
    if exact is not None:
        return exact
    difference = shifted(x.limit(), None if zero_point is None else spread(zero_point, x, axis, block), FLOAT32)
    return scaled(op, difference, spread(scale, x, axis, block), to)


def _dequantised_format(op: Call | Run, scale: Format) -> Format:
    wanted = BY_ONNX_CODE.get(int(op.attribute("output_dtype", 0)))
    return wanted or (FLOAT32 if scale is FLOAT8_E8M0 else scale)


@dequantize_linear.meaning
def _(run: Run, x: Tensor, scale: Tensor, zero_point: Tensor | None = None) -> Tensor:
    axis, block = int(run.attribute("axis", 1)), int(run.attribute("block_size", 0))
    shift = None if zero_point is None else spread_tensor(zero_point, x, axis, block)
    to = _dequantised_format(run, format_of(run, 1, scale))
    return dequantised_tensor(run, x, spread_tensor(scale, x, axis, block), shift).to(run.dtype(to))


def dequantised_tensor(run: Run, x: Tensor, scale: Tensor, zero_point: Tensor | None) -> Tensor:
    """(x - zero point) * scale in float32 or the precision of the run, for parameters that broadcast."""
    wide = run.dtype(FLOAT32)
    difference = x.to(wide) if zero_point is None else x.to(wide) - zero_point.to(wide)
    return difference * scale.to(wide)


def shifted(x: Range, zero_point: Range | None, format: Format) -> Range:
    """x - zero point, exact or (32-bit integers in float32) rounded once. Zero points of float8 are zero and left out."""
    if zero_point is None or x.format.is_float:
        if x.array is not None:
            return Range.constant(x.array.astype(format.dtype), format)
        special = x.special if x.has_special else None
        return x.replace(_nearest(x.low, format), _nearest(x.high, format), special, format)
    if x.array is not None and zero_point.array is not None:
        difference = x.array.astype(np.int64) - zero_point.array.astype(np.int64)
        return Range.constant(difference.astype(format.dtype), format)
    aligned = align(x, zero_point)
    (lx, lz), (hx, hz) = aligned.lows, aligned.highs
    return aligned.result(format, _nearest(lx - hz, format), _nearest(hx - lz, format))


def _nearest(values: Array, format: Format) -> Array:
    return format.round_nearest(values) if format.is_float else values


def scaled(op: Call, x: Range, scale: Range, to: Format) -> Range:
    """x * scale in a format: multiplied in float32 and rounded, or rounded and multiplied in the format itself."""

    def kernel(lx: Array, hx: Array, ls: Array, hs: Array) -> tuple[Array, Array]:
        low, high = corners(product)(lx, hx, ls, hs)
        if to.bits < 32:
            narrow = (np.clip(to.round_nearest(end), to.low, to.high) for end in (lx, hx, ls, hs))
            narrow_low, narrow_high = corners(product)(*narrow)
            low, high = np.minimum(low, narrow_low), np.maximum(high, narrow_high)
        return low, high

    exact = binary(x, scale, kernel, np.multiply, FLOAT64)
    return converted(op, exact, to, overflow=ARITHMETIC_OVERFLOW)


def _dequantised_constant(x: Range, scale: Range, zero_point: Range | None, to: Format, axis: int, block: int) -> Range | None:
    """Weights of the file: exact element by element, where all ways to compute them agree."""
    if x.array is None or scale.array is None or (zero_point is not None and zero_point.array is None):
        return None
    difference = x.array.astype(np.float32)
    if zero_point is not None and zero_point.array is not None and x.format.is_integer:
        difference = difference - _spread_array(zero_point.array, x.sizes, axis, block).astype(np.float32)
    if to is not FLOAT32 and (scale.format is not to or np.abs(difference).max(initial=0.0) > 2.0**to.digits):
        return None
    factors = _spread_array(scale.array, x.sizes, axis, block).astype(np.float32)
    result = (difference * factors).astype(to.dtype)
    return Range.constant(result, to) if bool(np.isfinite(result).all()) else None


# -- DynamicQuantizeLinear ---------------------------------------------------------------------------------------------


@operator("DynamicQuantizeLinear", hazards=(ARITHMETIC_OVERFLOW,))
def dynamic_quantize_linear(op: Call, x: Range) -> tuple[Range, Range, Range]:
    """255 * (x - min) / (max - min) up to two roundings, and the scale and zero point of it (ONNX DynamicQuantizeLinear-11).

    The extremes are those of x and 0. Where all elements are zero the scale is 1 or 1/255, as the runtime has it.
    """
    largest, smallest = _extremes(x)
    # The scale rounds twice in float32, each time to nearest: exactly what these two lines do at the ends.
    spans = FLOAT32.round_nearest(np.array([largest[0] - smallest[1], largest[1] - smallest[0]]))
    overflows = bool(spans[1] > FLOAT32.high)
    low, high = (float(s) for s in FLOAT32.round_nearest(np.minimum(spans, FLOAT32.high) / 255.0))
    if largest[0] == 0 and smallest[1] == 0:
        ones = 1.0, float(np.float32(1.0) / np.float32(255.0))
        low, high = (ones[1], ones[0]) if spans[1] == 0 else (min(low, ones[1]), max(high, ones[0]))
    special = (NAN if x.any_special & NAN else 0) | (POSITIVE_INFINITY if x.any_special & INFINITIES else 0)
    scale = Range.uniform((), FLOAT32, low, high, special)
    if overflows:
        op.report(ARITHMETIC_OVERFLOW, RESULT, scale, True, gives=POSITIVE_INFINITY)
    if low == 0 or overflows or x.has_special:
        return Range.uniform(x.shape, UINT8, 0.0, 255.0), scale, Range.uniform((), UINT8, 0.0, 255.0)
    offset = _dynamic_zero_point(largest, smallest, low, high)
    zero_point = Range.uniform((), UINT8, *offset)
    quantised = _quantised_integers(x, scale, zero_point, UINT8, (FLOAT32,))
    # y also lies within one of 255 * (x - min) / (max - min), which knows that scale and zero point belong together.
    bottom = np.minimum(smallest[1], x.low)
    least = 255.0 * (x.low - bottom) / (largest[1] - bottom)
    most = 255.0 * (x.high - smallest[0]) / (np.maximum(largest[0], x.high) - smallest[0])
    below, above = np.floor(least * (1 - 2.0**-20) - 1.001), np.ceil(most * (1 + 2.0**-20) + 1.001)
    related = x.replace(np.clip(np.nan_to_num(below), 0, 255), np.clip(np.nan_to_num(above, nan=255.0), 0, 255), None, UINT8)
    return quantised.meet(related), scale, zero_point


@dynamic_quantize_linear.meaning
def _(run: Run, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    # The extremes are those of x and 0.
    elements = run.torch.cat([x.reshape(-1), x.new_zeros(1)])
    smallest, width = elements.min(), elements.max() - elements.min()
    scale = run.torch.where(width > 0, width / UINT8.high, 1.0)
    zero_point = quantised_tensor(run, -smallest, scale, None, UINT8)
    return quantised_tensor(run, x, scale, zero_point, UINT8), scale, zero_point


def _extremes(x: Range) -> tuple[tuple[float, float], tuple[float, float]]:
    """Bounds of max(0, max x) and of min(0, min x)."""
    low, high = x.low, x.high
    if not low.size:
        return (0.0, 0.0), (0.0, 0.0)
    finite = low <= high
    top, bottom = float(np.where(finite, high, 0.0).max()), float(np.where(finite, low, 0.0).min())
    # Cells of an axis whose size is not known may be empty: they force nothing.
    forced = finite & x.has_known_shape
    reached = float(np.where(forced, low, 0.0).max()), float(np.where(forced, high, 0.0).min())
    return (max(0.0, reached[0]), max(0.0, top)), (min(0.0, bottom), min(0.0, reached[1]))


def _dynamic_zero_point(
    largest: tuple[float, float], smallest: tuple[float, float], low: float, high: float
) -> tuple[float, float]:
    """Bounds of round(-min / scale), saturated."""
    if largest[0] == largest[1] and smallest[0] == smallest[1] and low == high:
        point = float(np.rint(FLOAT32.round_nearest(np.array(-smallest[0] / low))))
        point = min(max(point, 0.0), 255.0)
        return point, point
    # 255 * -min / (max - min) grows as either extreme falls; three roundings in float32 lie between.
    spread_low, spread_high = largest[1] - smallest[1], largest[0] - smallest[0]
    least = 255.0 * -smallest[1] / spread_low if spread_low > 0 else 0.0
    most = 255.0 * -smallest[0] / spread_high if spread_high > 0 else 0.0
    bounds = np.clip(np.rint([least * (1 - 2.0**-21), most * (1 + 2.0**-21)]), 0.0, 255.0)
    return float(bounds[0]), float(bounds[1])
