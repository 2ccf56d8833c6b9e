"""Random numbers: what the common generators can return at all.

A normal variable has no bound, its generators have one. From uniform numbers of 53 random bits the polar method (NumPy's
legacy generator, libstdc++) reaches sqrt(-2 ln 2^-104) = 12.01, the ziggurat method (NumPy's Generator) 3.66 + 8.58 = 12.23
through its tail, Box-Muller (PyTorch, CUDA) 8.58: a sample is assumed to lie within 13 standard deviations of the mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import BY_ONNX_CODE, FLOAT32, FLOAT64, INT32, INT64, Format
from tensorproof.operators.table import RESULT, Call, Error, operator
from tensorproof.ranges.grid import Shape, largest
from tensorproof.ranges.range import SPECIALS, Range
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall
    from tensorproof.frontends.tensorflow_call import TensorflowCall

#: Standard deviations that no common generator of normal numbers leaves.
NORMAL_REACH = 13.0

#: TensorFlow's Box-Muller takes the logarithm of no number below 1e-7 (`BoxMullerFloat` and `BoxMullerDouble`, and narrower formats
#: are rounded from float32): a sample is at most sqrt(-2 ln 1e-7) = 5.6777 and a few roundings; this is the next number that all
#: formats hold.
_BOX_MULLER_REACH = 5.6875

#: TensorFlow draws again what is 2 or larger (`TruncatedNormalDistribution`); in narrow formats 2 itself may come of rounding.
_TRUNCATED_REACH = 2.0

#: Differences up to here are exact in float64, and so is every integer between two ends that differ by no more.
_EXACT_DIFFERENCE = 2.0**52

#: A sample is scaled and moved: two roundings, the second one relative to the result and the first one smaller.
_TWO_ROUNDINGS = Error(2.0)


def _format(op: Call, default: Format) -> Format:
    code = op.attribute("dtype")
    return default if not code else BY_ONNX_CODE[int(code)]


def _stored(run: Run, sample: Tensor, like: Tensor | Format) -> Tensor:
    """A sample in the format that the node asks for, else in that of the operand, or the operator's own."""
    code = run.attribute("dtype")
    like = BY_ONNX_CODE[int(code)] if code else like
    return sample.to(run.dtype(like) if isinstance(like, Format) else like.dtype)


def _normal(op: Call, shape: Shape | None, format: Format) -> Range:
    mean, deviation = float(op.attribute("mean", 0.0)), abs(float(op.attribute("scale", 1.0)))
    return Range.uniform(shape, format, mean - NORMAL_REACH * deviation, mean + NORMAL_REACH * deviation)


@operator("RandomNormal", error=_TWO_ROUNDINGS, overflow=ARITHMETIC_OVERFLOW)
def random_normal(op: Call) -> Range:
    """Mean plus at most 13 standard deviations."""
    return _normal(op, tuple(op.integers("shape") or ()), _format(op, FLOAT32))


@operator("RandomNormalLike", error=_TWO_ROUNDINGS, overflow=ARITHMETIC_OVERFLOW)
def random_normal_like(op: Call, like: Range) -> Range:
    """Mean plus at most 13 standard deviations, in the shape of the operand."""
    return _normal(op, like.shape, _format(op, like.format))


@random_normal.meaning
def _(run: Run) -> Tensor:
    return _stored(run, _normal_sample(run, run.integers("shape") or ()), FLOAT32)


@random_normal_like.meaning
def _(run: Run, like: Tensor) -> Tensor:
    return _stored(run, _normal_sample(run, like.shape), like)


@random_normal_like.aten("randn", "randn_like", "normal.float_float", "normal_functional")
def _(call: AtenCall) -> int:
    return _sampled(call, "RandomNormalLike", mean=float(call.get("mean", 0.0)), scale=float(call.get("std", 1.0)))


@random_normal_like.aten("normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor")
def _(call: AtenCall) -> int:
    """A sample that is scaled, then moved: the mean and the deviation are data."""
    format = call.result.format
    scaled = call.moved("Mul", _sampled(call, "RandomNormalLike"), call.tensor("std", format))
    return call.moved("Add", scaled, call.tensor("mean", format))


def _sampled(call: AtenCall, op: str, format: Format | None = None, **attributes: Any) -> int:
    """Random numbers in the shape of the result and in its format, or another one."""
    format = format or call.result.format
    if format is None:
        raise NotAnalysed("tensors of this dtype are not modelled")
    return call.emit(op, call.zeros(), dtype=format.onnx_code, formats=(format,), **attributes)


def _place_of_shape(call: TensorflowCall) -> int:
    """Which operand is the shape: operators on a generator's state have the state and the algorithm before it."""
    return 2 if call.name.startswith("Stateful") else 0


def _drawn(call: TensorflowCall, op: str, format: Format, **attributes: Any) -> int:
    """Random numbers of a shape that an operand says."""
    if not format.is_float:
        raise NotAnalysed("tensors of this type are not modelled")
    sizes = call.as_integers(_place_of_shape(call))
    zeros = call.emit("ConstantOfShape", sizes, value=np.zeros(1, format.dtype), formats=(format,))
    return call.emit(op, zeros, dtype=format.onnx_code, formats=(format,), **attributes)


@random_normal_like.tensorflow(
    *("RandomStandardNormal", "StatelessRandomNormal", "StatelessRandomNormalV2"),
    "StatefulStandardNormalV2",
)
def _(call: TensorflowCall) -> int:
    """As far as TensorFlow's own generator reaches."""
    return _normal_within(call, _BOX_MULLER_REACH)


@random_normal_like.tensorflow(
    "TruncatedNormal", "StatelessTruncatedNormal", "StatelessTruncatedNormalV2", "StatefulTruncatedNormal"
)
def _(call: TensorflowCall) -> int:
    return _normal_within(call, _TRUNCATED_REACH)


def _normal_within(call: TensorflowCall, reach: float) -> int:
    format = call.format("dtype")
    sample = _drawn(call, "RandomNormalLike", format)
    return call.moved("Clip", sample, call.value(-reach, format), call.value(reach, format))


def _normal_sample(run: Run, shape: Sequence[int]) -> Tensor:
    sample = run.torch.randn(tuple(shape), generator=run.generator, dtype=run.torch.float64)
    return run.attribute("mean", 0.0) + run.attribute("scale", 1.0) * sample


def _uniform(op: Call, shape: Shape | None, format: Format) -> Range:
    """low + u * (high - low) with 0 <= u <= 1: increasing in u, and every step rounds to nearest."""
    low, high = sorted((float(op.attribute("low", 0.0)), float(op.attribute("high", 1.0))))
    start, width = format.round_nearest(np.array([low, high - low]))
    end = float(np.maximum(format.round_nearest(start + width), format.round_nearest(np.array(high))))
    result = Range.uniform(shape, format, max(float(start), format.low), min(end, format.high))
    outside = width > format.high or start < format.low or end > format.high
    op.report(ARITHMETIC_OVERFLOW, RESULT, result, bool(outside), gives=SPECIALS)
    return result


@operator("RandomUniform", hazards=(ARITHMETIC_OVERFLOW,))
def random_uniform(op: Call) -> Range:
    """Between low and high, rounded."""
    return _uniform(op, tuple(op.integers("shape") or ()), _format(op, FLOAT32))


@operator("RandomUniformLike", hazards=(ARITHMETIC_OVERFLOW,))
def random_uniform_like(op: Call, like: Range) -> Range:
    """Between low and high, rounded, in the shape of the operand."""
    return _uniform(op, like.shape, _format(op, like.format))


@random_uniform.meaning
def _(run: Run) -> Tensor:
    return _stored(run, _uniform_sample(run, run.integers("shape") or ()), FLOAT32)


@random_uniform_like.meaning
def _(run: Run, like: Tensor) -> Tensor:
    return _stored(run, _uniform_sample(run, like.shape), like)


@random_uniform_like.aten("rand", "rand_like", "uniform")
def _(call: AtenCall) -> int:
    """Between two numbers; from 0 to 1 the end itself is never drawn (ATen draws a whole number of units of the last place)."""
    low, high = float(call.get("from", 0.0)), float(call.get("to", 1.0))
    format = call.result.format
    if (low, high) == (0.0, 1.0) and format is not None:
        high = 1.0 - format.unit_roundoff
    return _sampled(call, "RandomUniformLike", low=low, high=high)


@random_uniform_like.aten("randint", "randint.low", "randint_like", "randint_like.low_dtype", "multinomial", "randperm")
def _(call: AtenCall) -> int:
    """Whole numbers from one end to before the other; how often each is drawn is of no interest."""
    low, high = call.get("low", 0), call.arguments.get("high", call.arguments.get("n"))
    if "num_samples" in call.arguments:
        high = call.size(call.handle("self"), call.rank("self") - 1)
    if not isinstance(high, int):
        raise NotAnalysed("the end of what random integers are drawn from is computed")
    sample = _sampled(call, "RandomUniformLike", FLOAT64, low=float(low), high=float(high))
    below = call.moved("Floor", sample)
    drawn = call.moved("Min", below, call.value(float(max(high - 1, low)), FLOAT64))
    return drawn if call.result.format is None else call.cast(drawn, call.result.format)


@random_uniform_like.tensorflow("RandomUniform", "StatelessRandomUniform", "StatelessRandomUniformV2", "StatefulUniform")
def _(call: TensorflowCall) -> int:
    """From 0 to before 1: one of [1, 2) that random bits make, minus 1, whose last place is that of numbers in [1, 2)."""
    format = call.format("dtype")
    return _drawn(call, "RandomUniformLike", format, low=0.0, high=1.0 - 2.0 * format.unit_roundoff)


@random_uniform_like.tensorflow(
    "RandomUniformInt", "StatelessRandomUniformInt", "StatelessRandomUniformIntV2", "StatefulUniformInt"
)
def _(call: TensorflowCall) -> int:
    """Whole numbers from one end to before the other, which are the last two operands."""
    format = call.format("Tout" if call.name == "RandomUniformInt" else "dtype")
    count = len(call)
    (low,), (high,) = call.integers_of(count - 2), call.integers_of(count - 1)
    if high - low > _EXACT_DIFFERENCE:
        raise NotAnalysed("random integers between ends that are too far apart")
    sample = _drawn(call, "RandomUniformLike", FLOAT64, low=float(low), high=float(high))
    drawn = call.moved("Min", call.moved("Floor", sample), call.value(float(high - 1), FLOAT64))
    return call.cast(drawn, format)


@random_uniform_like.tensorflow("LogUniformCandidateSampler", "UniformCandidateSampler")
def _(call: TensorflowCall) -> tuple[int, int, int]:
    """Classes that are drawn, and how often each is expected to be: n p, or 1 - (1 - p)^t if each is drawn once, in t >= 1 tries.

    The least probability is 1 / R of R classes, or log(1 + 1 / R) / log(R + 1) (TensorFlow's documentation of both samplers).
    """
    classes, count = int(call.attributes["range_max"]), int(call.attributes["num_sampled"])
    least = 1.0 / classes if call.name.startswith("Uniform") else math.log1p(1.0 / classes) / math.log(classes + 1.0)
    # Probabilities and counts are computed in float32, in a handful of steps.
    low, high = 0.999 * least, 1.001 * max(count, 1)
    zeros = call.constant(np.zeros(count))
    drawn = call.emit("RandomUniformLike", zeros, low=0.0, high=float(classes), dtype=FLOAT64.onnx_code, formats=(FLOAT64,))
    sampled = call.moved("Min", call.moved("Floor", drawn), call.value(float(classes - 1), FLOAT64))

    def expected(like: int) -> int:
        return call.emit("RandomUniformLike", like, low=low, high=high, dtype=FLOAT32.onnx_code, formats=(FLOAT32,))

    return call.cast(sampled, INT64), expected(call.cast(call.operand(0), FLOAT32)), expected(zeros)


@random_uniform_like.tensorflow("RandomShuffle", "StatelessShuffle")
def _(call: TensorflowCall) -> int:
    """The slices along the first axis in some order: each is one of them."""
    sizes = call.sizes(0)
    if not sizes:
        return call.moved("Identity", call.operand(0))
    count = sizes[0]
    if not isinstance(count, int):
        raise NotAnalysed("a number of slices that is not fixed is shuffled")
    if count < 2:
        return call.moved("Identity", call.operand(0))
    zeros = call.constant(np.zeros(count))
    sample = call.emit("RandomUniformLike", zeros, low=0.0, high=float(count), dtype=FLOAT64.onnx_code, formats=(FLOAT64,))
    places = call.moved("Min", call.moved("Floor", sample), call.value(float(count - 1), FLOAT64))
    return call.moved("Gather", call.operand(0), call.cast(places, INT64), axis=0)


@random_uniform_like.aten("exponential")
def _(call: AtenCall) -> int:
    """-ln(u) / rate. Torch draws no zero: the least that is assumed is the smallest normal number."""
    format = call.result.format
    if format is None:
        raise NotAnalysed("tensors of this dtype are not modelled")
    uniform = _sampled(call, "RandomUniformLike", FLOAT64, low=2.0**-53, high=1.0)
    drawn = call.moved("Neg", call.moved("Log", uniform))
    scaled = call.cast(call.moved("Div", drawn, call.value(float(call["lambd"]), FLOAT64)), format)
    return call.moved("Max", scaled, call.value(format.smallest_normal, format))


def _uniform_sample(run: Run, shape: Sequence[int]) -> Tensor:
    low, high = run.attribute("low", 0.0), run.attribute("high", 1.0)
    sample = run.torch.rand(tuple(shape), generator=run.generator, dtype=run.torch.float64)
    return low + (high - low) * sample


@operator("Bernoulli")
def bernoulli(op: Call, probability: Range) -> Range:
    """Zero or one, whatever the probability: implementations compare with a sample that may be 0 or 1 itself."""
    return Range.uniform(probability.shape, _format(op, probability.format), 0.0, 1.0)


@bernoulli.meaning
def _(run: Run, probability: Tensor) -> Tensor:
    sample = run.torch.rand(probability.shape, generator=run.generator, dtype=run.torch.float64)
    return run.passing(_stored(run, sample < probability, probability), probability)


@bernoulli.aten("bernoulli", "bernoulli.p", "bernoulli.Tensor")
def _(call: AtenCall) -> int:
    """Zero or one, in the format of the tensor that is drawn or filled."""
    format = call.result.format
    probability = call.arguments.get("p", call.arguments["self"])
    chance = call.moved("Expand", call.value(probability, format), call.shape_of(call.tensor("self")))
    return call.moved("Bernoulli", chance)


@operator("Multinomial")
def multinomial(op: Call, logits: Range) -> Range:
    """The number of a class."""
    if logits.shape is None or len(logits.shape) != 2:
        raise NotAnalysed("the number of classes is not known")
    batch, classes = logits.shape
    format = _format(op, INT32)
    last = largest(classes)
    high = format.high if last is None else float(max(last - 1, 0))
    return Range.uniform((batch, int(op.attribute("sample_size", 1))), format, 0.0, high)


@multinomial.meaning
def _(run: Run, logits: Tensor) -> Tensor:
    probability = run.torch.softmax(logits.to(run.torch.float64), 1)
    size = run.attribute("sample_size", 1)
    sample = probability.detach().multinomial(size, replacement=True, generator=run.generator)
    expected = (probability * run.torch.arange(logits.shape[1])).sum(1, keepdim=True)
    return run.passing(_stored(run, sample, INT32), expected.expand(-1, size))


@multinomial.tensorflow("Multinomial", "StatelessMultinomial")
def _(call: TensorflowCall) -> int:
    """The number of a class, as often as is asked for."""
    (count,), format = call.integers_of(1), call.attribute("output_dtype", INT64)
    drawn = call.emit("Multinomial", call.operand(0), sample_size=count, dtype=INT32.onnx_code, formats=(INT32,))
    return call.cast(drawn, format)
