"""ONNX Runtime's products with quantised operands (domain com.microsoft): integer products with floating results, and
weights of a few bits that are unpacked and scaled block by block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.execute.meaning import NotExecutable
from tensorproof.formats import FLOAT32, FLOAT64, INT32, UINT8, Array
from tensorproof.operators.arithmetic import add, mul
from tensorproof.operators.casts import converted, format_of
from tensorproof.operators.contrib_attention import wide_tensor
from tensorproof.operators.contrib_quantised import MICROSOFT
from tensorproof.operators.indexing import gather
from tensorproof.operators.linear import matmul
from tensorproof.operators.movement import transpose_
from tensorproof.operators.quantisation import (
    dequantize_linear,
    dynamic_quantize_linear,
    reshaped,
    scale_is_degenerate,
    spread_tensor,
)
from tensorproof.operators.quantised_products import (
    by_column,
    integer_matmul,
    integer_product,
    integer_sum,
    per_column,
    requantised,
    requantised_tensor,
    scaled_sum,
    wrapped,
)
from tensorproof.operators.table import NEWEST, UNDEFINED, Call, Mask, operator
from tensorproof.ranges.elementwise import corners, product
from tensorproof.ranges.range import Range, align
from tensorproof.ranges.sums import report_partial_overflow
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW
from tensorproof.rules.quantisation_scale import QUANTISATION_SCALE

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor

# -- integer products with floating results ----------------------------------------------------------------------------


def scaled_total(op: Call, total: Range, factor: Range, bias: Range | None = None) -> Range:
    """float(total) * factor + bias, in two or three roundings or with a fused multiply-add."""
    to = factor.format
    aligned = align(total, factor, *([] if bias is None else [bias]))
    (lt, lf), (ht, hf) = aligned.lows[:2], aligned.highs[:2]
    single = FLOAT32.round_nearest
    low, high = corners(product)(single(lt), single(ht), lf, hf)
    low, high = np.minimum(low, single(low)), np.maximum(high, single(high))
    if bias is not None:
        low, high = low + aligned.lows[2], high + aligned.highs[2]
    low, high = low - to.quantum(low), high + to.quantum(high)
    # A zero total is exact, and so is a bias on top of it.
    exact = (lt == 0) & (ht == 0)
    if bias is None:
        low, high = np.where(exact, 0.0, low), np.where(exact, 0.0, high)
    return converted(op, aligned.result(FLOAT64, low, high), to, overflow=ARITHMETIC_OVERFLOW)


def product_of_scales(op: Call, a: Range, b: Range) -> Range:
    """The product of two scales, rounded in their format or, where kernels compute in float32, there."""
    a, b = per_column(a), per_column(b)
    own = op.apply(mul, a, b)
    if own.format is FLOAT32:
        return own
    single = op.apply(mul, a.with_format(FLOAT32), b.with_format(FLOAT32))
    return own.join(single.with_format(own.format))


@operator("MatMulIntegerToFloat", domain=MICROSOFT, composed_of=(mul,), hazards=(ARITHMETIC_OVERFLOW,))
def matmul_integer_to_float(
    op: Call,
    a: Range,
    b: Range,
    a_scale: Range,
    b_scale: Range,
    a_zero_point: Range | None = None,
    b_zero_point: Range | None = None,
    bias: Range | None = None,
) -> Range:
    """The 32-bit integer product times both scales, plus a bias."""
    total = integer_product(op, a, b, a_zero_point, b_zero_point)
    return scaled_total(op, total, product_of_scales(op, a_scale, b_scale), bias)


@matmul_integer_to_float.meaning
def _(
    run: Run,
    a: Tensor,
    b: Tensor,
    a_scale: Tensor,
    b_scale: Tensor,
    a_zero_point: Tensor | None = None,
    b_zero_point: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    return real_product(run, a, b, a_scale, b_scale, a_zero_point, b_zero_point, bias)


def real_product(
    run: Run,
    a: Tensor,
    b: Tensor,
    a_scale: Tensor,
    b_scale: Tensor,
    a_zero_point: Tensor | None,
    b_zero_point: Tensor | None,
    bias: Tensor | None = None,
) -> Tensor:
    """The 32-bit integer product times both scales, plus a bias."""
    total = integer_sum(run, integer_matmul(run, a, b, a_zero_point, b_zero_point))
    y = scaled_sum(run, total, by_column(a_scale), by_column(b_scale))
    return (y if bias is None else y + bias).to(a_scale.dtype)


@operator("QGemm", domain=MICROSOFT, composed_of=(mul, transpose_), hazards=(ARITHMETIC_OVERFLOW,))
def qgemm(
    op: Call,
    a: Range,
    a_scale: Range,
    a_zero_point: Range,
    b: Range,
    b_scale: Range,
    b_zero_point: Range,
    c: Range | None = None,
    y_scale: Range | None = None,
    y_zero_point: Range | None = None,
) -> Range:
    """alpha times the integer product plus C, scaled to real values or quantised again."""
    a = op.apply(transpose_, a, perm=[1, 0]) if op.attribute("transA", 0) else a
    b = op.apply(transpose_, b, perm=[1, 0]) if op.attribute("transB", 0) else b
    total = integer_product(op, a, b, a_zero_point, b_zero_point)
    if c is not None:
        aligned = align(total, c)
        total = wrapped(aligned.result(INT32, aligned.lows[0] + aligned.lows[1], aligned.highs[0] + aligned.highs[1]))
    alpha = float(op.attribute("alpha", 1.0))
    left = reshaped(a_scale, ())
    if alpha != 1.0:
        left = op.apply(mul, left, Range.constant(alpha, FLOAT32))
        # Runtimes multiply the factors in another order.
        step = 2.0 * FLOAT32.quantum(left.low)
        left = left.replace(left.low - step, left.high + step, None)
    right = per_column(b_scale)
    if y_scale is None:
        return scaled_total(op, total, op.apply(mul, left, right))
    zero_point = y_zero_point if y_zero_point is not None else Range.constant(np.zeros((), np.uint8), UINT8)
    return requantised(total, left, right, reshaped(y_scale, ()), reshaped(zero_point, ()))


@qgemm.meaning
def _(
    run: Run,
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor,
    c: Tensor | None = None,
    y_scale: Tensor | None = None,
    y_zero_point: Tensor | None = None,
) -> Tensor:
    a = a.T if run.attribute("transA", 0) else a
    b = b.T if run.attribute("transB", 0) else b
    total = integer_matmul(run, a, b, a_zero_point, b_zero_point)
    total = integer_sum(run, total if c is None else total + c)
    left, right = by_column(a_scale) * float(run.attribute("alpha", 1.0)), by_column(b_scale)
    if y_scale is None:
        return scaled_sum(run, total, left, right)
    to = UINT8 if y_zero_point is None else format_of(run, 8, y_zero_point)
    return requantised_tensor(run, total, left, right, by_column(y_scale), y_zero_point, to)


@qgemm.hazard(QUANTISATION_SCALE, gives=UNDEFINED, operand=7)
def _(op: Call, *operands: Range | None) -> Mask:
    scale = operands[7] if len(operands) > 7 else None
    return False if scale is None else scale_is_degenerate(scale)


@operator(
    "DynamicQuantizeMatMul",
    domain=MICROSOFT,
    composed_of=(dequantize_linear, dynamic_quantize_linear, matmul, mul, add),
    coarse="the rounding of A depends on the extremes of all of A: each element may be off by one step",
)
def dynamic_quantize_matmul(
    op: Call, a: Range, b: Range, b_scale: Range, b_zero_point: Range | None = None, bias: Range | None = None
) -> Range:
    """The product of A, rounded to 256 steps between its extremes, with quantised weights."""
    codes, scale, zero_point = dynamic_quantize_linear.block(op, a)
    known = all(bool((x.low == x.high).all()) for x in (codes, scale, zero_point))
    if known and not a.has_special:
        total = integer_product(op, codes, b, zero_point, b_zero_point)
        return scaled_total(op, total, op.apply(mul, scale, per_column(b_scale)), bias)
    # Rounding is off by half a step, saturation by another half; 1/1000 covers float32.
    step = 1.001 * float(scale.high)
    widened = a.replace(a.low - step, a.high + step, a.special if a.has_special else None)
    result = op.apply(matmul, widened, op.apply(dequantize_linear, b, b_scale, b_zero_point, axis=-1))
    return result if bias is None else op.apply(add, result, bias)


@dynamic_quantize_matmul.meaning
def _(run: Run, a: Tensor, b: Tensor, b_scale: Tensor, b_zero_point: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    codes, scale, zero_point = run.apply("DynamicQuantizeLinear", a, version=NEWEST)
    return real_product(run, codes, b, scale, b_scale, zero_point, b_zero_point, bias)


# -- weights of a few bits ---------------------------------------------------------------------------------------------


def unpacked(codes: npt.NDArray[np.uint8], bits: int, count: int) -> npt.NDArray[np.uint8]:
    """Codes of a few bits out of the bytes along the last axis, the first in the low bits."""
    if bits == 8:
        return codes[..., :count]
    shifts = np.arange(8 // bits, dtype=np.uint8) * np.uint8(bits)
    parts = (codes[..., None] >> shifts) & np.uint8(2**bits - 1)
    return parts.reshape(*codes.shape[:-1], -1)[..., :count]


def constant_array(x: Range, what: str) -> npt.NDArray[Any]:
    """The elements of an operand that has to be known."""
    if x.array is None:
        raise NotAnalysed(f"{what} are not a constant")
    return x.array


def block_weights(
    codes: Range, scales: Range, zero_points: Range | None, bits: int, block: int, shape: tuple[int, ...], columns: int
) -> npt.NDArray[np.float32]:
    """Weights (*shape, columns) that are packed along the columns, a scale and a zero point per block of columns."""
    blocks = -(-columns // block)
    packed = constant_array(codes, "the weights").reshape(*shape, -1)
    values = unpacked(packed, bits, blocks * block).astype(np.float32).reshape(*shape, blocks, block)
    factors = constant_array(scales, "the scales").astype(np.float32).reshape(*shape, blocks, 1)
    shift: Any = np.float32(2 ** (bits - 1))
    if zero_points is not None:
        shifts = constant_array(zero_points, "the zero points")
        if shifts.dtype == np.uint8:
            shifts = unpacked(shifts.reshape(*shape, -1), bits, blocks)
        shift = shifts.astype(np.float32).reshape(*shape, blocks, 1)
    return ((values - shift) * factors).reshape(*shape, blocks * block)[..., :columns]


def _row_reach(x: Range) -> Range:
    """The largest absolute value of each row, on the grid without the last axis."""
    reach = x.magnitude().max(axis=-1, keepdims=True)
    return x.replace(np.broadcast_to(-reach, x.cells), np.broadcast_to(reach, x.cells), None)


def low_bit_product(op: Call, a: Range, weights: npt.NDArray[np.float32], unit: Array, *, rounds_rows: bool) -> Range:
    """a @ weights.T, a possibly rounded to 8 bits per block on the way.

    Kernels also split (code - zero point) * scale into two sums: `unit` is, per output, the sum of absolute terms for
    |a| = 1 in that form, to which their rounding is relative.
    """
    reach = _row_reach(a)
    working = a
    if rounds_rows:
        # Symmetric 8-bit codes: half of a step of max|a| / 127.
        step = reach.high * (1.01 / 254.0)
        working = a.replace(a.low - step, a.high + step, a.special if a.has_special else None)
    matrix = np.swapaxes(weights, -1, -2)
    if a.format is not FLOAT32:
        working = working.with_format(FLOAT32)
    y = op.apply(matmul, working, Range.constant(matrix, FLOAT32))
    roundoff = 16.0 * FLOAT32.unit_roundoff
    if a.format.bits < 32:
        # Kernels in 16 bits round weights, products and sums there.
        roundoff += (matrix.shape[-2] + 2) * op.accumulation(a.format).unit_roundoff + a.format.unit_roundoff
    error = op.apply(matmul, _first_column(reach), Range.constant(unit[..., None, :].astype(np.float64), FLOAT64))
    aligned = align(y, error)
    low, high = aligned.lows[0] - roundoff * aligned.highs[1], aligned.highs[0] + roundoff * aligned.highs[1]
    special = aligned.specials[0] if y.has_special else None
    result = aligned.result(FLOAT64, low, high, special)
    report_partial_overflow(op, result, -aligned.highs[1], aligned.highs[1], FLOAT32)
    return converted(op, result, a.format, overflow=ARITHMETIC_OVERFLOW)


def _first_column(x: Range) -> Range:
    """One column of a tensor whose rows are uniform."""
    assert x.shape is not None
    part = (..., slice(0, 1))
    return Range(FLOAT64, (*x.shape[:-1], 1), (*x.grid[:-1], None), x.high[part], x.high[part])


@operator(
    "MatMulNBits",
    domain=MICROSOFT,
    composed_of=(matmul, add),
    hazards=(ARITHMETIC_OVERFLOW, ACCUMULATION_OVERFLOW),
    coarse="where A may be rounded to 8 bits, each element may be off by half a step of its row",
)
def matmul_nbits(
    op: Call,
    a: Range,
    b: Range,
    scales: Range,
    zero_points: Range | None = None,
    g_idx: Range | None = None,
    bias: Range | None = None,
) -> Range:
    """The product with weights of 2, 4 or 8 bits, unpacked exactly; with accuracy_level 4 A may be rounded to 8 bits."""
    if g_idx is not None and g_idx.size:
        raise NotAnalysed("weights ordered by g_idx")
    bits, block = int(op.attribute("bits", 4)), int(op.attribute("block_size"))
    rows, columns = int(op.attribute("N")), int(op.attribute("K"))
    weights = block_weights(b, scales, zero_points, bits, block, (rows,), columns)
    factors = np.abs(constant_array(scales, "the scales").astype(np.float64)).reshape(rows, -1)
    unit = factors.sum(axis=-1) * block * 2.0**bits
    y = low_bit_product(op, a, weights, unit, rounds_rows=int(op.attribute("accuracy_level", 0)) == 4)
    return y if bias is None else op.apply(add, y, bias)


@matmul_nbits.meaning
def _(
    run: Run,
    a: Tensor,
    b: Tensor,
    scales: Tensor,
    zero_points: Tensor | None = None,
    g_idx: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    if g_idx is not None and g_idx.numel():
        raise NotExecutable("MatMulNBits with weights ordered by g_idx")
    bits, block, shape = int(run.attribute("bits", 4)), int(run.attribute("block_size")), (int(run.attribute("N")),)
    is_packed = zero_points is not None and run.format(3, zero_points) == "int"
    weights = weights_of_blocks(run, b, scales, zero_points, bits, block, shape, is_packed=is_packed)
    x = wide_tensor(run, a)
    if int(run.attribute("accuracy_level", 0)) == 4:
        x = in_eight_bits(run, x, block)
    y = x @ weights[:, : a.shape[-1]].T
    return (y if bias is None else y + wide_tensor(run, bias)).to(a.dtype)


def unpacked_tensor(run: Run, codes: Tensor, bits: int, count: int) -> Tensor:
    """Codes of a few bits out of the bytes along the last axis, the first in the low bits (`unpacked`)."""
    parts = run.whole(codes)[..., None] >> run.torch.arange(0, 8, bits)
    return (parts & (2**bits - 1)).flatten(-2)[..., :count]


def weights_of_blocks(
    run: Run,
    codes: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    bits: int,
    block: int,
    shape: tuple[int, ...],
    *,
    is_packed: bool,
) -> Tensor:
    """Weights (*shape, columns) that are packed along the columns, a scale and a zero point per block of columns.

    The columns are those of whole blocks. Zero points are codes of as many bits, packed per row, or numbers.
    """
    scales = wide_tensor(run, scales).reshape(*shape, -1, 1)
    blocks = scales.shape[-2]
    values = unpacked_tensor(run, codes.reshape(*shape, -1), bits, blocks * block).reshape(*shape, blocks, block)
    if zero_points is None:
        return ((values - 2 ** (bits - 1)) * scales).flatten(-2)
    if is_packed:
        zero_points = unpacked_tensor(run, zero_points.reshape(*shape, -1), bits, blocks)
    return ((values - wide_tensor(run, zero_points).reshape(*shape, blocks, 1)) * scales).flatten(-2)


def in_eight_bits(run: Run, x: Tensor, block: int) -> Tensor:
    """Numbers rounded to 8 bits, with one scale per block of the last axis: 127 steps to the largest of its magnitudes."""
    size = x.shape[-1]
    blocks = run.torch.nn.functional.pad(x, (0, -size % block)).unflatten(-1, (-1, block))
    step = blocks.abs().amax(-1, keepdim=True) / 127.0
    codes = run.torch.round(blocks / run.torch.where(step > 0, step, 1.0))
    return run.passing((codes * step).flatten(-2)[..., :size], x)


@operator("GatherBlockQuantized", domain=MICROSOFT, composed_of=(dequantize_linear, gather))
def gather_block_quantized(op: Call, data: Range, indices: Range, scales: Range, zero_points: Range | None = None) -> Range:
    """Rows of a table of quantised weights, scaled block by block; zeros where the index is out of range."""
    axis, block = int(op.attribute("quantize_axis", 1)), int(op.attribute("block_size", 128))
    bits = int(op.attribute("bits", 4))
    if data.format is UINT8:
        data, zero_points = _unpacked_table(data, scales, zero_points, bits, block, axis)
    size = data.sizes[axis]
    table = op.apply(dequantize_linear, data, scales, zero_points, axis=axis, block_size=block or size)
    gather_axis = int(op.attribute("gather_axis", 0))
    rows = data.sizes[gather_axis]
    low, high = indices.hull()
    result = op.apply(gather, table, _within(indices, rows), axis=gather_axis)
    if low >= -rows and high < rows:
        return result
    return result.replace(np.minimum(result.low, 0.0), np.maximum(result.high, 0.0), result.special)


def _within(indices: Range, rows: int) -> Range:
    low, high = indices.hull()
    return indices if low >= -rows and high < rows else indices.clamp(-rows, rows - 1)


def _unpacked_table(data: Range, scales: Range, zero_points: Range | None, bits: int, block: int, axis: int) -> tuple[Range, Range]:
    codes = constant_array(data, "the weights")
    values = unpacked(codes, bits, codes.shape[-1] * 8 // bits)
    shape = scales.sizes
    if zero_points is None:
        shifts = np.full(shape, 2 ** (bits - 1), np.uint8)
    else:
        shifts = unpacked(constant_array(zero_points, "the zero points"), bits, shape[-1])
    return Range.constant(values, UINT8), Range.constant(shifts.reshape(shape), UINT8)


@gather_block_quantized.meaning
def _(run: Run, data: Tensor, indices: Tensor, scales: Tensor, zero_points: Tensor | None = None) -> Tensor:
    axis, bits = int(run.attribute("quantize_axis", 1)), int(run.attribute("bits", 4))
    shift: Tensor | float = 0.0
    if format_of(run, 0, data) is UINT8:
        data = unpacked_tensor(run, data, bits, data.shape[-1] * 8 // bits)
        shift = 2.0 ** (bits - 1)
        zero_points = None if zero_points is None else unpacked_tensor(run, zero_points, bits, scales.shape[-1])
    block = int(run.attribute("block_size", 128)) or data.shape[axis]
    factors = spread_tensor(wide_tensor(run, scales), data, axis, block)
    if zero_points is not None:
        shift = spread_tensor(zero_points.to(factors.dtype), data, axis, block)
    table = ((data.to(factors.dtype) - shift) * factors).to(scales.dtype)
    along, places = int(run.attribute("gather_axis", 0)) % table.dim(), run.whole(indices)
    size = table.shape[along]
    is_inside = (places >= -size) & (places < size)
    rows = table.index_select(along, run.torch.where(is_inside, places % size, 0).reshape(-1))
    rows = rows.reshape(*table.shape[:along], *places.shape, *table.shape[along + 1 :])
    return rows.masked_fill(~is_inside.reshape(*places.shape, *[1] * (table.dim() - 1 - along)), 0.0)
