"""ONNX Runtime's quantised forms of element-wise operators, pooling, Concat and Softmax (domain com.microsoft).

Each is the floating operator between DequantizeLinear and QuantizeLinear. Kernels fold scales and zero points into factors
of their own, or into tables, so that a value near a tie may round either way: the real value is widened by the error of
that arithmetic before it is quantised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import FLOAT32, INT32, Array
from tensorproof.operators.activations import leaky_relu, sigmoid
from tensorproof.operators.arithmetic import add
from tensorproof.operators.casts import format_of
from tensorproof.operators.comparison import where
from tensorproof.operators.joining import concat
from tensorproof.operators.movement import transpose_
from tensorproof.operators.pooling import average_pool, global_average_pool
from tensorproof.operators.quantisation import (
    dequantised_tensor,
    dequantize_linear,
    quantised_tensor,
    quantize_linear,
    reshaped,
    scale_is_degenerate,
    shifted,
)
from tensorproof.operators.quantised_products import (
    difference,
    integer_sum,
    qlinear_conv,
    quantised_conv,
    requantised,
    requantised_tensor,
    saturated,
)
from tensorproof.operators.softmax import softmax
from tensorproof.operators.table import NEWEST, UNDEFINED, Call, Mask, evaluate, operator
from tensorproof.ranges.elementwise import binary, corners
from tensorproof.ranges.range import Range
from tensorproof.rules.cast_overflow import CAST_OVERFLOW
from tensorproof.rules.quantisation_scale import QUANTISATION_SCALE

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor

MICROSOFT = "com.microsoft"

#: Units of roundoff that the arithmetic of a kernel may lose, relative to the largest value of its operands and result.
_ROUNDINGS = 8.0


@operator("QuantizeLinear", domain=MICROSOFT, hazards=(CAST_OVERFLOW,))
def microsoft_quantize_linear(op: Call, x: Range, scale: Range, zero_point: Range | None = None) -> Range:
    """QuantizeLinear, 16-bit types included."""
    return quantize_linear.block(op, x, scale, zero_point)


@microsoft_quantize_linear.hazard(QUANTISATION_SCALE, gives=UNDEFINED, operand=1)
def _(op: Call, x: Range, scale: Range, zero_point: Range | None = None) -> Mask:
    return scale_is_degenerate(scale)


microsoft_quantize_linear.concrete = quantize_linear.concrete


@operator("DequantizeLinear", domain=MICROSOFT, composed_of=(dequantize_linear,))
def microsoft_dequantize_linear(op: Call, x: Range, scale: Range, zero_point: Range | None = None) -> Range:
    """DequantizeLinear, 16-bit types included."""
    return dequantize_linear.block(op, x, scale, zero_point)


microsoft_dequantize_linear.concrete = dequantize_linear.concrete


# -- real values and back ----------------------------------------------------------------------------------------------


def zero_of(like: Range) -> Range:
    """The zero point that is left out."""
    return Range.constant(np.zeros((), like.format.dtype), like.format)


def real(op: Call, x: Range, scale: Range, zero_point: Range | None) -> Range:
    """The real values that a quantised tensor stands for, with one scale for all of it."""
    return op.apply(dequantize_linear, x, scale, zero_point)


def quantised(op: Call, y: Range, error: float | Array, scale: Range, zero_point: Range) -> Range:
    """Real values quantised, each of which may be off by an error."""
    widened = y.replace(y.low - error, y.high + error, y.special if y.has_special else None)
    return quantize_linear.block(op, widened, scale, zero_point)


def _kernel_error(*scales: Range) -> float:
    """The error of arithmetic on 8-bit values in float32: relative to 256 times the scales that take part."""
    reach = sum(max(abs(end) for end in scale.hull()) for scale in scales)
    return _ROUNDINGS * FLOAT32.unit_roundoff * 256.0 * reach


def real_tensor(run: Run, x: Tensor, scale: Tensor, zero_point: Tensor | None) -> Tensor:
    """The real values that a quantised tensor stands for, with one scale for all of it."""
    return dequantised_tensor(run, x, scale.reshape(()), None if zero_point is None else zero_point.reshape(()))


# -- element-wise ------------------------------------------------------------------------------------------------------


@operator("QLinearAdd", domain=MICROSOFT, composed_of=(dequantize_linear, add))
def qlinear_add(
    op: Call,
    a: Range,
    a_scale: Range,
    a_zero_point: Range | None,
    b: Range,
    b_scale: Range,
    b_zero_point: Range | None,
    c_scale: Range,
    c_zero_point: Range | None = None,
) -> Range:
    """Sum of real values, rounded and saturated: increasing in both operands."""
    total = op.apply(add, real(op, a, a_scale, a_zero_point), real(op, b, b_scale, b_zero_point))
    return quantised(op, total, _kernel_error(a_scale, b_scale, c_scale), c_scale, c_zero_point or zero_of(a))


@qlinear_add.meaning
def _(
    run: Run,
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor | None,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor | None,
    c_scale: Tensor,
    c_zero_point: Tensor | None = None,
) -> Tensor:
    total = real_tensor(run, a, a_scale, a_zero_point) + real_tensor(run, b, b_scale, b_zero_point)
    return quantised_tensor(run, total, c_scale, c_zero_point, format_of(run, 0, a))


@operator("QLinearMul", domain=MICROSOFT)
def qlinear_mul(
    op: Call,
    a: Range,
    a_scale: Range,
    a_zero_point: Range | None,
    b: Range,
    b_scale: Range,
    b_zero_point: Range | None,
    c_scale: Range,
    c_zero_point: Range | None = None,
) -> Range:
    """Product of differences from the zero points, scaled, rounded and saturated."""
    left, right = (
        shifted(x, None if zero_point is None else reshaped(zero_point, ()), INT32)
        for x, zero_point in ((a, a_zero_point), (b, b_zero_point))
    )
    total = binary(left, right, corners(np.multiply), np.multiply)
    zero_point = reshaped(c_zero_point or zero_of(a), ())
    return requantised(total, reshaped(a_scale, ()), reshaped(b_scale, ()), reshaped(c_scale, ()), zero_point)


@qlinear_mul.meaning
def _(
    run: Run,
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor | None,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor | None,
    c_scale: Tensor,
    c_zero_point: Tensor | None = None,
) -> Tensor:
    total = integer_sum(run, difference(a, a_zero_point) * difference(b, b_zero_point))
    return requantised_tensor(run, total, a_scale, b_scale, c_scale, c_zero_point, format_of(run, 0, a))


def _binary_scale(
    op: Call,
    a: Range,
    a_scale: Range,
    a_zero_point: Range | None,
    b: Range,
    b_scale: Range,
    b_zero_point: Range | None,
    c_scale: Range,
    c_zero_point: Range | None = None,
) -> Mask:
    return scale_is_degenerate(c_scale)


qlinear_add.hazard(QUANTISATION_SCALE, gives=UNDEFINED, operand=6)(_binary_scale)
qlinear_mul.hazard(QUANTISATION_SCALE, gives=UNDEFINED, operand=6)(_binary_scale)


@operator("QLinearSigmoid", domain=MICROSOFT, composed_of=(dequantize_linear, sigmoid))
def qlinear_sigmoid(
    op: Call, x: Range, x_scale: Range, x_zero_point: Range | None, y_scale: Range, y_zero_point: Range | None = None
) -> Range:
    """Increasing: a table of the sigmoid, rounded and saturated."""
    y = op.apply(sigmoid, real(op, x, x_scale, x_zero_point))
    # The table is made with ONNX Runtime's rational approximation, whose error is absolute.
    return quantised(op, y, 2.0**-21, y_scale, y_zero_point or zero_of(x))


@qlinear_sigmoid.meaning
def _(
    run: Run, x: Tensor, x_scale: Tensor, x_zero_point: Tensor | None, y_scale: Tensor, y_zero_point: Tensor | None = None
) -> Tensor:
    y = run.torch.sigmoid(real_tensor(run, x, x_scale, x_zero_point))
    return quantised_tensor(run, y, y_scale, y_zero_point, format_of(run, 0, x))


@operator("QLinearLeakyRelu", domain=MICROSOFT, composed_of=(dequantize_linear, leaky_relu))
def qlinear_leaky_relu(
    op: Call, x: Range, x_scale: Range, x_zero_point: Range | None, y_scale: Range, y_zero_point: Range | None = None
) -> Range:
    """A table of LeakyRelu, rounded and saturated."""
    y = op.apply(leaky_relu, real(op, x, x_scale, x_zero_point), alpha=float(op.attribute("alpha", np.float32(0.01))))
    return quantised(op, y, 0.0, y_scale, y_zero_point or zero_of(x))


@qlinear_leaky_relu.meaning
def _(
    run: Run, x: Tensor, x_scale: Tensor, x_zero_point: Tensor | None, y_scale: Tensor, y_zero_point: Tensor | None = None
) -> Tensor:
    y = run.torch.nn.functional.leaky_relu(real_tensor(run, x, x_scale, x_zero_point), float(run.attribute("alpha", 0.01)))
    return quantised_tensor(run, y, y_scale, y_zero_point, format_of(run, 0, x))


@operator(
    "QLinearAveragePool",
    domain=MICROSOFT,
    composed_of=(dequantize_linear, average_pool),
)
def qlinear_average_pool(
    op: Call, x: Range, x_scale: Range, x_zero_point: Range | None, y_scale: Range, y_zero_point: Range | None = None
) -> Range:
    """Increasing: the mean of real values of each window, rounded and saturated."""
    names = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")
    attributes = {name: op.attributes[name] for name in names if name in op.attributes}
    y = _channels_first(op, real(op, x, x_scale, x_zero_point), average_pool, attributes)
    return quantised(op, y, _kernel_error(x_scale, y_scale), y_scale, y_zero_point or zero_of(x))


@qlinear_average_pool.meaning
def _(
    run: Run, x: Tensor, x_scale: Tensor, x_zero_point: Tensor | None, y_scale: Tensor, y_zero_point: Tensor | None = None
) -> Tensor:
    channels = -1 if run.attribute("channels_last", 0) else 1
    values = difference(x, x_zero_point).movedim(channels, 1)
    mean = run.apply("AveragePool", values, version=NEWEST, **run.attributes).movedim(1, channels)
    # The kernel adds the zero point before it rounds.
    shift = 0.0 if y_zero_point is None else y_zero_point.to(y_scale.dtype)
    return saturated(run, mean.to(x_scale.dtype) * x_scale / y_scale + shift, None, format_of(run, 0, x))


@operator("QLinearGlobalAveragePool", domain=MICROSOFT, composed_of=(dequantize_linear, global_average_pool))
def qlinear_global_average_pool(
    op: Call, x: Range, x_scale: Range, x_zero_point: Range | None, y_scale: Range, y_zero_point: Range | None = None
) -> Range:
    """Increasing: the mean of real values over all of space, rounded and saturated."""
    y = _channels_first(op, real(op, x, x_scale, x_zero_point), global_average_pool, {})
    return quantised(op, y, _kernel_error(x_scale, y_scale), y_scale, y_zero_point or zero_of(x))


@qlinear_global_average_pool.meaning
def _(
    run: Run, x: Tensor, x_scale: Tensor, x_zero_point: Tensor | None, y_scale: Tensor, y_zero_point: Tensor | None = None
) -> Tensor:
    space = tuple(range(1, x.dim() - 1) if run.attribute("channels_last", 0) else range(2, x.dim()))
    total = difference(x, x_zero_point).sum(space, keepdim=True)
    scale = x_scale / (y_scale * (x.numel() // total.numel()))
    return saturated(run, total.to(scale.dtype) * scale, y_zero_point, format_of(run, 0, x))


def _channels_first(op: Call, x: Range, pool: Any, attributes: dict[str, Any]) -> Range:
    """A pooling operator on (N, C, ...), the channels moved there and back if they come last."""
    if not op.attribute("channels_last", 0):
        return op.apply(pool, x, **attributes)
    rank = x.rank
    moved = op.apply(transpose_, x, perm=[0, rank - 1, *range(1, rank - 1)])
    return op.apply(transpose_, op.apply(pool, moved, **attributes), perm=[0, *range(2, rank), 1])


@operator(
    "QLinearSoftmax",
    domain=MICROSOFT,
    composed_of=(dequantize_linear, softmax),
    coarse="the kernel rounds the inverse of the output scale to an integer; both scales are covered",
)
def qlinear_softmax(
    op: Call, x: Range, x_scale: Range, x_zero_point: Range | None, y_scale: Range, y_zero_point: Range | None = None
) -> Range:
    """Softmax of real values, rounded and saturated; from a table of exponentials of 23 bits."""
    logits = real(op, x, x_scale, x_zero_point)
    attributes = {"axis": int(op.attribute("axis", -1))}
    version = int(op.attribute("opset", 13))
    inner = Call(softmax, attributes, version=version, target=op.target, hazards=op.hazards, abstraction=op.abstraction)
    probabilities = evaluate(inner, (logits,))
    axis = attributes["axis"] % x.rank
    length = int(np.prod(x.sizes[axis:] if version < 13 else x.sizes[axis : axis + 1], dtype=np.int64))
    # Every exponential loses less than one part of its table's unit, the sum as many as it has terms.
    unit = max(2.0**-22, length * 2.0**-31)
    low, high = y_scale.low, y_scale.high
    # The kernel multiplies by floor(1 / scale).
    coarser = [1.0 / np.maximum(np.floor(1.0 / np.maximum(end, 1e-30)), 1.0) for end in (low, high)]
    low, high = np.minimum(low, np.minimum(*coarser)), np.maximum(high, np.maximum(*coarser))
    scales = y_scale.replace(low, high, y_scale.special)
    return quantised(op, probabilities, (length + 1) * unit, scales, y_zero_point or zero_of(x))


@qlinear_softmax.meaning
def _(
    run: Run, x: Tensor, x_scale: Tensor, x_zero_point: Tensor | None, y_scale: Tensor, y_zero_point: Tensor | None = None
) -> Tensor:
    logits, axis = real_tensor(run, x, x_scale, x_zero_point), int(run.attribute("axis", -1))
    y = run.apply("Softmax", logits, version=int(run.attribute("opset", 13)), axis=axis)
    # The kernel multiplies by floor(1 / scale).
    steps = run.passing(run.torch.floor(1.0 / y_scale), 1.0 / y_scale)
    return saturated(run, y * steps.reshape(()), y_zero_point, format_of(run, 0, x))


def _unary_scale(
    op: Call, x: Range, x_scale: Range, x_zero_point: Range | None, y_scale: Range, y_zero_point: Range | None = None
) -> Mask:
    return scale_is_degenerate(y_scale)


for _entry in (
    qlinear_sigmoid,
    qlinear_leaky_relu,
    qlinear_average_pool,
    qlinear_global_average_pool,
    qlinear_softmax,
):
    _entry.hazard(QUANTISATION_SCALE, gives=UNDEFINED, operand=3)(_unary_scale)


# -- movement ----------------------------------------------------------------------------------------------------------


@operator("QLinearConcat", domain=MICROSOFT, composed_of=(dequantize_linear, concat))
def qlinear_concat(op: Call, y_scale: Range, y_zero_point: Range, *parts: Range) -> Range:
    """Tensors joined along an axis, each brought to the common scale and zero point."""
    if len(parts) % 3:
        raise NotAnalysed("a tensor without a scale or zero point")
    triples = zip(parts[::3], parts[1::3], parts[2::3])
    results = [_rescaled(op, x, scale, zero_point, y_scale, y_zero_point) for x, scale, zero_point in triples]
    return op.apply(concat, *results, axis=op.attribute("axis"))


@qlinear_concat.meaning
def _(run: Run, y_scale: Tensor, y_zero_point: Tensor, *parts: Tensor) -> Tensor:
    to, triples = format_of(run, 1, y_zero_point), zip(parts[::3], parts[1::3], parts[2::3])
    results = [quantised_tensor(run, real_tensor(run, *triple), y_scale, y_zero_point, to) for triple in triples]
    return run.torch.cat(results, int(run.attribute("axis")))


@qlinear_concat.hazard(QUANTISATION_SCALE, gives=UNDEFINED, operand=0)
def _(op: Call, y_scale: Range, y_zero_point: Range, *parts: Range) -> Mask:
    return scale_is_degenerate(y_scale)


def _rescaled(op: Call, x: Range, x_scale: Range, x_zero_point: Range, y_scale: Range, y_zero_point: Range) -> Range:
    """A tensor under another scale and zero point; as it is where they are the same."""
    same = all(
        old.array is not None and new.array is not None and bool((old.array.reshape(-1) == new.array.reshape(-1)).all())
        for old, new in ((x_scale, y_scale), (x_zero_point, y_zero_point))
    )
    return x if same else quantised(op, real(op, x, x_scale, x_zero_point), 0.0, y_scale, y_zero_point)


@operator("QLinearWhere", domain=MICROSOFT, composed_of=(dequantize_linear, where))
def qlinear_where(
    op: Call,
    condition: Range,
    x: Range,
    x_scale: Range,
    x_zero_point: Range,
    y: Range,
    y_scale: Range,
    y_zero_point: Range,
    z_scale: Range,
    z_zero_point: Range,
) -> Range:
    """One operand where the condition is decided, the hull of both elsewhere, under a common scale and zero point."""
    chosen = _rescaled(op, x, x_scale, x_zero_point, z_scale, z_zero_point)
    other = _rescaled(op, y, y_scale, y_zero_point, z_scale, z_zero_point)
    return op.apply(where, condition, chosen, other)


@qlinear_where.meaning
def _(
    run: Run,
    condition: Tensor,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor,
    y: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
    z_scale: Tensor,
    z_zero_point: Tensor,
) -> Tensor:
    chosen, other = real_tensor(run, x, x_scale, x_zero_point), real_tensor(run, y, y_scale, y_zero_point)
    z = run.apply("Where", condition, chosen, other, version=NEWEST)
    return quantised_tensor(run, z, z_scale, z_zero_point, format_of(run, 8, z_zero_point))


@qlinear_where.hazard(QUANTISATION_SCALE, gives=UNDEFINED, operand=7)
def _(op: Call, *operands: Range) -> Mask:
    return scale_is_degenerate(operands[7])


@operator("QLinearConv", domain=MICROSOFT, composed_of=(qlinear_conv,))
def microsoft_qlinear_conv(op: Call, x: Range, *parameters: Range | None) -> Range:
    """QLinearConv with the channels first or last."""
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    attributes = {name: op.attributes[name] for name in names if name in op.attributes}
    if not op.attribute("channels_last", 0):
        return op.apply(qlinear_conv, x, *parameters, **attributes)
    rank = x.rank
    moved = op.apply(transpose_, x, perm=[0, rank - 1, *range(1, rank - 1)])
    y = op.apply(qlinear_conv, moved, *parameters, **attributes)
    return op.apply(transpose_, y, perm=[0, *range(2, rank), 1])


@microsoft_qlinear_conv.meaning
def _(run: Run, x: Tensor, *parameters: Tensor | None) -> Tensor:
    if not run.attribute("channels_last", 0):
        return quantised_conv(run, x, *parameters)
    return quantised_conv(run, x.movedim(-1, 1), *parameters).movedim(1, -1)
