"""Random numbers: what the common generators can return at all.

A normal variable has no bound, its generators have one. From uniform numbers of 53 random bits the polar method (NumPy's
legacy generator, libstdc++) reaches sqrt(-2 ln 2^-104) = 12.01, the ziggurat method (NumPy's Generator) 3.66 + 8.58 = 12.23
through its tail, Box-Muller (PyTorch, CUDA) 8.58: a sample is assumed to lie within 13 standard deviations of the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import BY_ONNX_CODE, FLOAT32, INT32, Format
from tensorproof.operators.table import RESULT, Call, Error, operator
from tensorproof.ranges.grid import Shape, largest
from tensorproof.ranges.range import SPECIALS, Range
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor

#: Standard deviations that no common generator of normal numbers leaves.
NORMAL_REACH = 13.0

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
