"""Activations that are monotone, or linear in pieces: rectifiers, sigmoids and their hard versions, Clip and Shrink.

Where an operator has several rounded steps, its block covers a direct implementation and the step-by-step evaluation
of the function body in the ONNX standard, each step rounded to the tensor's own format; u is the unit roundoff.
Elementary functions are taken to be within 4 units of the last place, which is a relative error of at most 8u, and to
keep their codomain. Attributes are float32 numbers, which a runtime may round to the format of the tensor first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import BOOL, FLOAT32, Array, Format
from tensorproof.graph import ABSENT
from tensorproof.operators.table import CORRECT, FAITHFUL, Call, Error, Mask, operator
from tensorproof.ranges import relations
from tensorproof.ranges.affine import Form
from tensorproof.ranges.elementwise import binary, corners, increasing, monotone, product
from tensorproof.ranges.pieces import Curve, Piece, exact, or_zero, pieces, within
from tensorproof.ranges.range import NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY, Range, align
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW
from tensorproof.rules.exponential_overflow import EXPONENTIAL_OVERFLOW
from tensorproof.targets import ONNXRUNTIME_CPU

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall
    from tensorproof.frontends.jax_call import JaxCall
    from tensorproof.frontends.tensorflow_call import TensorflowCall

#: The block adds the error of its steps itself; the engine only rounds the ends outward into the format.
PADDED = Error(0.0)

#: The slope that a search gets where a function is flat.
LEAK = 0.01


def rounded(value: float, format: Format) -> float:
    """An attribute as a number of the format; beyond the largest number it stays what it is."""
    return float(format.round_nearest(np.asarray(value, np.float64))) if format.is_float else value


def number_after(value: float, format: Format) -> float:
    """The smallest number of the format above a value."""
    if not format.is_float:
        return float(np.floor(value)) + 1.0
    below = format.dtype.type(format.round_down(np.asarray(value, np.float64)))
    return float(np.nextafter(below, format.dtype.type(np.inf)))


def least(op: Call, format: Format) -> float:
    """What an intermediate result can lose by underflow."""
    return format.smallest_normal if op.target.flushes_results else format.smallest_subnormal


def _identity(x: Array) -> Array:
    return x


def _zero(x: Array) -> Array:
    return np.zeros_like(x)


def alive(run: Run, value: Tensor, x: Tensor) -> Tensor:
    """A function of x that flattens out: a search gets a small slope on top, which shrinks with the square of x."""
    if not run.search or not x.requires_grad:
        return value
    return run.passing(value, value + LEAK * run.torch.nn.functional.softsign(x))


# -- linear in pieces ------------------------------------------------------------------------------------------------


@operator("Relu", elementwise=True)
def relu(op: Call, x: Range) -> Range:
    """Increasing and exact; zero below zero."""
    return or_zero(x, monotone(x, lambda v: np.maximum(v, 0.0)))


relu.aten("relu")
relu.tensorflow("Relu")


@relu.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return run.passing(run.torch.relu(x), run.torch.where(x > 0, x, LEAK * x))


@relu.affine
def _(op: Call, result: Range, x: Range) -> Form | None:
    return relations.rectified(op, result, x)


@operator("LeakyRelu", error=CORRECT, overflow=ARITHMETIC_OVERFLOW, elementwise=True)
def leaky_relu(op: Call, x: Range) -> Range:
    """Identity from zero on, alpha x below."""
    alpha = _slope_below_zero(op)
    slopes = {alpha, rounded(alpha, x.format)}
    return pieces(x, *(exact(-np.inf, 0.0, _scaled(slope)) for slope in slopes), exact(0.0, np.inf, _identity))


def _slope_below_zero(op: Call | Run) -> float:
    return op.attribute("alpha", float(np.float32(0.01)))


@leaky_relu.aten("leaky_relu")
def _(call: AtenCall) -> int:
    format = call.result.format
    return call.emit("LeakyRelu", call.tensor("self", format), alpha=float(call["negative_slope"]), formats=(format,))


@leaky_relu.aten("rrelu")
def _(call: AtenCall) -> int:
    """At inference the slope is the middle of its bounds; in training it is random."""
    if call["training"]:
        raise NotAnalysed("rrelu in training draws a slope for every element")
    format = call.result.format
    slope = (float(call["lower"]) + float(call["upper"])) / 2
    return call.emit("LeakyRelu", call.tensor("self", format), alpha=slope, formats=(format,))


@leaky_relu.tensorflow("LeakyRelu")
def _(call: TensorflowCall) -> int:
    slope = float(call.attribute("alpha", np.float32(0.2)))
    return call.emit("LeakyRelu", call.operand(0), alpha=slope, formats=(call.arithmetic_format(),))


@leaky_relu.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return run.torch.nn.functional.leaky_relu(x, _slope_below_zero(run))


def _scaled(factor: float) -> Curve:
    return lambda x: factor * x


@operator("PRelu", error=CORRECT, overflow=ARITHMETIC_OVERFLOW, elementwise=True)
def prelu(op: Call, x: Range, slope: Range) -> Range:
    """Identity from zero on, slope times x below: extremes at the corners of either half."""

    def kernel(lx: Array, hx: Array, ls: Array, hs: Array) -> tuple[Array, Array]:
        low, high = corners(product)(np.minimum(lx, 0.0), np.minimum(hx, 0.0), ls, hs)
        negative, positive = lx < 0, hx >= 0
        low = np.minimum(np.where(negative, low, np.inf), np.where(positive, np.maximum(lx, 0.0), np.inf))
        high = np.maximum(np.where(negative, high, -np.inf), np.where(positive, hx, -np.inf))
        return low, high

    if not slope.has_special:
        return binary(x, slope, kernel, _rectified)
    # Some implementations ask for x > 0, and multiply zero by the slope; whatever the slope is, positive numbers stay.
    result = binary(x, slope, kernel, _rectified).join(binary(x, slope, kernel, lambda v, s: np.where(v > 0, v, s * v)))
    aligned = align(x, slope)
    (lx, _), (hx, _), (sx, ss) = aligned.lows, aligned.highs, aligned.specials
    here = (ss != 0) & (hx >= 0)
    low, high = np.where(here, np.maximum(lx, 0.0), np.inf), np.where(here, hx, -np.inf)
    return result.join(aligned.result(x.format, low, high, sx & np.uint8(POSITIVE_INFINITY)))


@prelu.aten("prelu")
def _(call: AtenCall) -> int:
    """One slope, or one for each channel, which is axis 1."""
    format, rank = call.result.format, call.rank("self")
    slope = call.tensor("weight", format)
    if call.rank("weight") == 1 and rank > 2:
        slope = call.reshaped(slope, [-1, *(1,) * (rank - 2)])
    return call.emit("PRelu", call.tensor("self", format), slope, formats=(format,))


@prelu.aten("_prelu_kernel")
def _(call: AtenCall) -> int:
    format = call.result.format
    return call.emit("PRelu", call.tensor("self", format), call.tensor("weight", format), formats=(format,))


@prelu.meaning
def _(run: Run, x: Tensor, slope: Tensor) -> Tensor:
    return run.torch.where(x < 0, slope * x, x)


def _rectified(x: Array, slope: Array) -> Array:
    return np.where(x < 0, slope * x, x)


@operator("ThresholdedRelu", elementwise=True)
def thresholded_relu(op: Call, x: Range) -> Range:
    """Identity above alpha, zero elsewhere; exact, with a jump at alpha."""
    alpha = op.attribute("alpha", 1.0)
    first, last = sorted((alpha, rounded(alpha, x.format)))
    above = exact(number_after(first, x.format), np.inf, _identity)
    return or_zero(x, pieces(x, exact(-np.inf, last, _zero), above))


@thresholded_relu.aten("threshold")
def _(call: AtenCall) -> int:
    format = call.result.format
    x = call.tensor("self", format)
    if call["value"] == 0:
        return call.emit("ThresholdedRelu", x, alpha=float(call["threshold"]), formats=(format,))
    above = call.emit("Greater", x, call.value(call["threshold"], format), formats=(BOOL,))
    return call.emit("Where", above, x, call.value(call["value"], format), formats=(format,))


@thresholded_relu.meaning
def _(run: Run, x: Tensor) -> Tensor:
    above = x > run.attribute("alpha", 1.0)
    return run.passing(run.torch.where(above, x, 0), run.torch.where(above, x, LEAK * x))


@operator("Shrink", error=CORRECT, overflow=ARITHMETIC_OVERFLOW, elementwise=True)
def shrink(op: Call, x: Range) -> Range:
    """Moved by bias towards zero outside [-lambd, lambd], zero inside (ONNX Shrink-9)."""
    if "Shrink" in op.target.evaluates_in_float32 and not _fits_float32(x):
        raise NotAnalysed(f"{op.target.name} evaluates Shrink in float32, which does not hold these numbers")
    bias, threshold = _shrinkage(op)
    if x.format.is_float:
        reach = threshold, rounded(threshold, x.format)
        biases, whole = {bias, rounded(bias, x.format)}, False
    else:
        # Integers: attributes are rounded towards zero before use (the function body), or the result after it.
        reach = threshold, float(np.trunc(threshold))
        biases, whole = {bias, float(np.trunc(bias))}, True
    inner, outer = number_after(min(reach), x.format), max(reach)
    parts: list[Piece] = []
    for shift in biases:
        parts.append(exact(-np.inf, -inner, _shifted(shift, whole)))
        # The lower branch is asked first: with a negative threshold the upper one gets what it leaves.
        parts.append(exact(max(inner, -outer), np.inf, _shifted(-shift, whole)))
    if outer >= 0:
        parts.append(exact(-outer, outer, _zero))
    return or_zero(x, pieces(x, *parts))


def _shrinkage(op: Call | Run) -> tuple[float, float]:
    """The bias and the threshold of Shrink."""
    return op.attribute("bias", 0.0), op.attribute("lambd", 0.5)


@shrink.aten("softshrink")
def _(call: AtenCall) -> int:
    format, threshold = call.result.format, float(call["lambd"])
    return call.emit("Shrink", call.tensor("self", format), bias=threshold, lambd=threshold, formats=(format,))


@shrink.aten("hardshrink")
def _(call: AtenCall) -> int:
    format = call.result.format
    return call.emit("Shrink", call.tensor("self", format), bias=0.0, lambd=float(call["lambd"]), formats=(format,))


@shrink.meaning
def _(run: Run, x: Tensor) -> Tensor:
    bias, threshold = _shrinkage(run)
    upper = run.torch.where(x > threshold, x - bias, 0)
    result = run.torch.where(x < -threshold, x + bias, upper)
    return run.passing(result.trunc() if run.format(0, x) == "int" else result, x).to(x.dtype)


def _fits_float32(x: Range) -> bool:
    """Whether the conversion to float32 keeps every number."""
    if x.format.is_float:
        return x.format.bits <= 32
    return bool((x.magnitude() <= 2.0**24).all())


def _shifted(shift: float, whole: bool) -> Curve:
    return lambda x: np.trunc(x + shift) if whole else x + shift


@operator("Clip", steered_by=(1, 2), elementwise=True)
def clip(op: Call, x: Range, low: Range | None = None, high: Range | None = None) -> Range:
    """min(max, max(x, min)), exact: increasing in all three, max wins where min > max (ONNX Clip-13)."""
    low, high = _clip_ends(op, x, low, high)
    result = x
    for bound, function in ((low, np.maximum), (high, np.minimum)):
        if bound is None:
            continue
        limited = binary(result, bound, increasing(function), function)
        # A bound that is NaN is NaN in NumPy and no bound at all in other runtimes.
        result = limited.join(result) if bound.any_special & NAN else limited
    for bound, infinity, end in ((low, NEGATIVE_INFINITY, x.format.low), (high, POSITIVE_INFINITY, x.format.high)):
        if bound is None and result.any_special & infinity:
            # An end that is left out is the end of the format (ONNX Clip-13): ONNX Runtime makes infinity that number.
            here = (result.special & infinity) != 0
            lows = np.where(here, np.minimum(result.low, end), result.low)
            result = result.replace(lows, np.where(here, np.maximum(result.high, end), result.high), result.special)
    return result


@clip.aten("clamp", "clip")
def _(call: AtenCall) -> int:
    return clamped(call, call.arguments["min"], call.arguments["max"])


@clip.aten("clamp_min")
def _(call: AtenCall) -> int:
    return clamped(call, call.arguments["min"], None)


@clip.aten("clamp_max")
def _(call: AtenCall) -> int:
    return clamped(call, None, call.arguments["max"])


@clip.aten("hardtanh")
def _(call: AtenCall) -> int:
    return clamped(call, call.arguments["min_val"], call.arguments["max_val"])


@clip.aten("relu6")
def _(call: AtenCall) -> int:
    return clamped(call, 0.0, 6.0)


def clamped(call: AtenCall, low: Any, high: Any) -> int:
    """The argument `self` between two numbers, of which either may be None."""
    format = call.result.format
    ends = [ABSENT if end is None else call.value(end, format) for end in (low, high)]
    return call.emit("Clip", call.tensor("self", format), *ends, formats=(format,))


@clip.aten("clamp.Tensor", "clip.Tensor", "clamp_min.Tensor", "clamp_max.Tensor")
def _(call: AtenCall) -> int:
    """The bounds are tensors, and `max` wins where they cross."""
    format = call.result.format
    result = call.tensor("self", format)
    for name, op in (("min", "Max"), ("max", "Min")):
        if call.is_given(name):
            result = call.emit(op, result, call.tensor(name, format), formats=(format,))
    return result


@clip.tensorflow("Relu6")
def _(call: TensorflowCall) -> int:
    format = call.arithmetic_format()
    return call.emit("Clip", call.operand(0), call.value(0.0, format), call.value(6.0, format), formats=(format,))


@clip.tensorflow("ClipByValue")
def _(call: TensorflowCall) -> int:
    """The lower bound wins where the bounds cross."""
    format = call.arithmetic_format()
    x, low, high = call.all_operands()
    if all(call.is_known(index) and call.known(index).ndim == 0 for index in (1, 2)) and call.known(1) <= call.known(2):
        return call.emit("Clip", x, low, high, formats=(format,))
    return call.emit("Max", call.emit("Min", x, high, formats=(format,)), low, formats=(format,))


@clip.jax("clamp")
def _(call: JaxCall) -> int:
    """The bounds stand around the operand, are numbers or tensors of its shape, and the upper one wins where they cross."""
    format = call.arithmetic_format(1)
    low, x, high = call.all_operands()
    if call.shape(0) == () and call.shape(2) == ():
        return call.emit("Clip", x, low, high, formats=(format,))
    return call.emit("Min", call.emit("Max", x, low, formats=(format,)), high, formats=(format,))


@clip.meaning
def _(run: Run, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    if run.version < 11:
        low, high = (_clip_attribute(run, name, x) for name in ("min", "max"))
    result = x if low is None else run.torch.maximum(x, low.reshape(()))
    result = result if high is None else run.torch.minimum(result, high.reshape(()))
    # Outside the bounds the derivative is that of the identity, and that of the bound.
    return run.passing(result, run.torch.where(result == x, x, x + result))


def _clip_attribute(run: Run, name: str, x: Tensor) -> Tensor | None:
    """An end that Clip-6 has as an attribute; left out, it is the end of float32, beyond which there are no numbers."""
    end = run.attribute(name)
    return None if end is None else run.torch.tensor(end, dtype=run.torch.float64).to(x.dtype)


@clip.affine
def _(op: Call, result: Range, x: Range, low: Range | None = None, high: Range | None = None) -> Form | None:
    low, high = _clip_ends(op, x, low, high)
    return relations.clipped(op, result, x, low, high)


_FLOAT32_MAX = float(np.finfo(np.float32).max)


def _clip_ends(op: Call, x: Range, low: Range | None, high: Range | None) -> tuple[Range | None, Range | None]:
    if op.version >= 11:
        return low, high
    # Clip-6 has attributes; the defaults are the ends of float32 for every format.
    ends = op.attribute("min", -_FLOAT32_MAX), op.attribute("max", _FLOAT32_MAX)
    lower, upper = (Range.constant(np.asarray(end, np.float64).astype(x.format.dtype)) for end in ends)
    return lower, upper


@operator("HardSigmoid", error=PADDED, codomain=(0.0, 1.0), elementwise=True)
def hard_sigmoid(op: Call, x: Range) -> Range:
    """max(0, min(1, alpha x + beta)): monotone."""
    alpha, beta = _ramp(op)
    u = x.format.unit_roundoff

    # Both attributes, the product and the sum are rounded: u (3 |alpha x| + 2 |beta|), and |sum| <= |alpha x| + |beta|.
    def bounds(v: Array) -> tuple[Array, Array]:
        product = alpha * v
        error = np.where(np.isfinite(v), u * (4 * np.abs(product) + 3 * abs(beta)) + least(op, x.format), 0.0)
        value = product + beta
        return np.clip(value - error, 0.0, 1.0), np.clip(value + error, 0.0, 1.0)

    return pieces(x, Piece(-np.inf, np.inf, bounds))


def _ramp(op: Call | Run) -> tuple[float, float]:
    """The slope of HardSigmoid and its value at zero."""
    return op.attribute("alpha", float(np.float32(0.2))), op.attribute("beta", 0.5)


@hard_sigmoid.aten("hardsigmoid")
def _(call: AtenCall) -> int:
    format = call.result.format
    return call.emit("HardSigmoid", call.tensor("self", format), alpha=1.0 / 6.0, beta=0.5, formats=(format,))


@hard_sigmoid.meaning
def _(run: Run, x: Tensor) -> Tensor:
    alpha, beta = _ramp(run)
    line = alpha * x + beta
    return run.passing(run.torch.clamp(line, 0.0, 1.0), line)


# -- exponential below zero ------------------------------------------------------------------------------------------


@operator("Elu", error=PADDED, overflow=ARITHMETIC_OVERFLOW, elementwise=True)
def elu(op: Call, x: Range) -> Range:
    """Identity above zero; alpha (exp(x) - 1) below, never beyond -alpha."""
    return pieces(x, _exponential_part(op, x.format, op.attribute("alpha", 1.0)), exact(0.0, np.inf, _identity))


@elu.aten("elu")
def _(call: AtenCall) -> int:
    """scale max(x, 0) + scale alpha (exp(input_scale x) - 1) below zero: the last two are 1 in all but Selu and Celu."""
    if call["scale"] != 1 or call["input_scale"] != 1:
        raise NotAnalysed("elu with scales")
    format = call.result.format
    return call.emit("Elu", call.tensor("self", format), alpha=float(call["alpha"]), formats=(format,))


elu.tensorflow("Elu")


@elu.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return alive(run, run.torch.nn.functional.elu(x, run.attribute("alpha", 1.0)), x)


def _exponential_part(op: Call, format: Format, alpha: float, period: float = 1.0) -> Piece:
    """alpha (exp(x / period) - 1) on (-inf, 0]."""
    # 4 units of exp(x) <= 1 are 4u, the rounding of its argument gives |t| e^t u < u / 2, the difference and the
    # product u / 2 each, the attribute u.
    error = abs(alpha) * 7 * format.unit_roundoff + least(op, format) * (2 + abs(alpha))
    ends = 0.0, -alpha, -rounded(alpha, format)
    return within(-np.inf, 0.0, lambda v: alpha * np.expm1(v / period), absolute=error, low=min(ends), high=max(ends))


@operator("Selu", error=PADDED, overflow=ARITHMETIC_OVERFLOW, elementwise=True)
def selu(op: Call, x: Range) -> Range:
    """gamma x above zero; gamma alpha (exp(x) - 1) below."""
    alpha, gamma = _self_normalising(op)
    u = x.format.unit_roundoff
    scale = gamma * alpha
    error = abs(scale) * 10 * u + least(op, x.format) * (2 + abs(gamma) + abs(scale))
    sign = (-np.inf, 0.0) if scale >= 0 else (0.0, np.inf)
    return pieces(
        x,
        within(-np.inf, 0.0, lambda v: scale * np.expm1(v), absolute=error, low=sign[0], high=sign[1]),
        within(0.0, np.inf, lambda v: gamma * v, relative=2.5 * u),
    )


def _self_normalising(op: Call | Run) -> tuple[float, float]:
    """The attributes of Selu, whose defaults keep mean and variance (ONNX Selu-6)."""
    alpha = op.attribute("alpha", float(np.float32(1.6732632423543772848)))
    return alpha, op.attribute("gamma", float(np.float32(1.0507009873554804934)))


@selu.aten("selu")
def _(call: AtenCall) -> int:
    format = call.result.format
    # The numbers of torch's own kernel, which are those of the standard before it rounds them to float32.
    alpha, gamma = 1.6732632423543772848, 1.0507009873554804934
    return call.emit("Selu", call.tensor("self", format), alpha=alpha, gamma=gamma, formats=(format,))


@selu.tensorflow("Selu")
def _(call: TensorflowCall) -> int:
    # The same numbers as torch's (tensorflow/core/kernels/relu_op_functor.h).
    alpha, gamma = 1.6732632423543772848, 1.0507009873554804934
    return call.emit("Selu", call.operand(0), alpha=alpha, gamma=gamma, formats=(call.arithmetic_format(),))


@selu.meaning
def _(run: Run, x: Tensor) -> Tensor:
    alpha, gamma = _self_normalising(run)
    return alive(run, gamma * run.torch.nn.functional.elu(x, alpha), x)


@operator("Celu", error=PADDED, overflow=ARITHMETIC_OVERFLOW, elementwise=True)
def celu(op: Call, x: Range) -> Range:
    """Identity above zero; alpha (exp(x / alpha) - 1) below, never beyond -alpha."""
    alpha = op.attribute("alpha", 1.0)
    if not alpha > 0:
        raise NotAnalysed("Celu with alpha <= 0: the formula and the function body of the standard differ")
    # The function body of Celu-12 computes alpha * (x / alpha) above zero.
    relative = 0.0 if alpha == 1.0 else 3.5 * x.format.unit_roundoff
    return pieces(x, _exponential_part(op, x.format, alpha, alpha), within(0.0, np.inf, _identity, relative=relative))


@celu.aten("celu")
def _(call: AtenCall) -> int:
    format = call.result.format
    return call.emit("Celu", call.tensor("self", format), alpha=float(call["alpha"]), formats=(format,))


@celu.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return alive(run, run.torch.nn.functional.celu(x, run.attribute("alpha", 1.0)), x)


# -- smooth and increasing -------------------------------------------------------------------------------------------


def logistic(x: Array) -> Array:
    """1 / (1 + exp(-x)) without overflow, relatively accurate on both sides."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, small) / (1.0 + small)


def softplus_value(x: Array) -> Array:
    """log(1 + exp(x)) without overflow."""
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


@operator("Sigmoid", error=PADDED, codomain=(0.0, 1.0), elementwise=True)
def sigmoid(op: Call, x: Range) -> Range:
    """Increasing from 0 to 1."""
    u, tiny = x.format.unit_roundoff, least(op, x.format)
    largest = x.format.high

    # exp(x) / (1 + exp(x)) has a relative error of 10u; 1 / (1 + exp(-x)) is zero once exp(-x) overflows.
    def below_zero(v: Array) -> tuple[Array, Array]:
        value = logistic(v)
        low = np.maximum(value * (1 - 10 * u) - tiny, 0.0)
        return np.where(value * largest <= 1.0 + 16 * u, 0.0, low), value * (1 + 10 * u) + tiny

    # exp(-x) has an error of 8u exp(-x), the sum one of u, the quotient one of u / 2.
    def above_zero(v: Array) -> tuple[Array, Array]:
        value, error = logistic(v), u * (1.5 + 10 * np.exp(-v))
        return value - error, np.minimum(value + error, 1.0)

    return pieces(x, Piece(-np.inf, 0.0, below_zero), Piece(0.0, np.inf, above_zero))


sigmoid.aten("sigmoid", "special_expit")
sigmoid.tensorflow("Sigmoid")
sigmoid.jax("logistic")


@sigmoid.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return alive(run, run.torch.sigmoid(x), x)


@operator("Softplus", error=PADDED, codomain=(0.0, np.inf), elementwise=True)
def softplus(op: Call, x: Range) -> Range:
    """log(1 + exp(x)): increasing; zero once 1 + exp(x) rounds to 1."""
    # 8u of exp(x), u of the sum, 8u of the logarithm; exp(x) <= 1.5 softplus(x) below zero.
    u = x.format.unit_roundoff
    absolute = 1.5 * u + least(op, x.format)
    return pieces(x, within(-np.inf, np.inf, softplus_value, relative=21 * u, absolute=absolute, low=0.0))


@softplus.meaning
def _(run: Run, x: Tensor) -> Tensor:
    # From 40 on log(1 + exp(x)) is x, to all digits of float64.
    return alive(run, run.torch.nn.functional.softplus(x, threshold=40.0), x)


@softplus.hazard(EXPONENTIAL_OVERFLOW, gives=POSITIVE_INFINITY)
def _(op: Call, x: Range) -> Mask:
    # ONNX Runtime takes the function body, log(exp(x) + 1), in models of version 18: in float32 for 16-bit tensors, infinite above
    # 88.72, and in float64 for those of float64, infinite above 709.78 (measured with 1.31, versions 7 to 25).
    if op.target is not ONNXRUNTIME_CPU or op.version != 18 or x.format == FLOAT32:
        return False
    return x.high > np.log(max(FLOAT32.high, x.format.high))


@operator("Softsign", error=FAITHFUL, codomain=(-1.0, 1.0), elementwise=True)
def softsign(op: Call, x: Range) -> Range:
    """x / (1 + |x|): increasing; the sum and the quotient are rounded."""
    return monotone(x, lambda v: v / (1.0 + np.abs(v)))


softsign.tensorflow("Softsign")


@softsign.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return run.torch.nn.functional.softsign(x)
