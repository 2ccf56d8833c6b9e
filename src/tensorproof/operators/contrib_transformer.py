"""ONNX Runtime's fused normalisations of transformers: a residual sum, or a sum of embeddings, and its normalisation.

Where the tensors have 16 bits, ONNX Runtime's CPU kernels keep the sum in float32 and its GPU kernels round it after each
addition: the ranges hold for both. The statistics are taken to be computed as `tensorproof.operators.statistics` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import FLOAT32, INT32, Format
from tensorproof.operators.activations import least, rounded
from tensorproof.operators.arithmetic import add
from tensorproof.operators.contrib_attention import MICROSOFT, wide_tensor
from tensorproof.operators.indexing import gather
from tensorproof.operators.normalisation import EPSILON, layer_normalised, standardised
from tensorproof.operators.norms import rms_normalised
from tensorproof.operators.statistics import STATISTICS, affine, spread_special, stash
from tensorproof.operators.table import CORRECT, Call, operator
from tensorproof.ranges.folds import normalised_axis
from tensorproof.ranges.moving import reshape, slice_axis
from tensorproof.ranges.range import Range
from tensorproof.ranges.rows import Rows
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor

#: The default of the fused operators, a float32 number (ONNX Runtime's contrib schemas).
FUSED_EPSILON = float(np.float32(1e-12))


def _sum(op: Call, *terms: Range | None) -> Range:
    """The sum of the terms that are there, from left to right; in 16 bits also as float32 computes it."""
    given = [term for term in terms if term is not None]
    format = given[0].format
    total = given[0]
    for term in given[1:]:
        total = op.apply(add, total, term)
    if format.bits >= 32:
        return total
    wide = given[0].with_format(FLOAT32)
    for term in given[1:]:
        wide = op.apply(add, wide, term.with_format(FLOAT32))
    return total.join(wide.with_format(format))


def _inside(x: Range) -> Range:
    """What of a sum kept in float32 is stored in the tensor's own format: overflow was reported by the sum."""
    return x.clamp(x.format.low, x.format.high)


def _rms_normalised(
    op: Call, x: Range, axes: tuple[int, ...], epsilon: float, scale: Range, inverse_format: Format | None
) -> tuple[Range, Range]:
    """RMSNormalization-23 and the reciprocal of the root that it divides by."""
    format = stash(x.format)
    inverse_format = inverse_format or format
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(x.sizes))
    if 0 in x.cells:
        return x.with_format(scale.format), Range.uniform(kept, inverse_format, 0.0, 0.0)
    y = rms_normalised(op, x, axes, epsilon)
    narrow = min(x.format, scale.format, key=lambda f: f.digits)
    y = affine(op, y.with_format(narrow), scale).with_format(scale.format)
    rows, held = Rows(x, axes), rounded(epsilon, format)
    near = np.where(rows.low > 0, rows.low, np.where(rows.high < 0, -rows.high, 0.0))
    far = np.maximum(np.abs(rows.low), np.abs(rows.high))
    n, eta = rows.length, least(op, format)
    accumulator = op.accumulation(format)
    relative = float(np.expm1(n * -np.log1p(-accumulator.unit_roundoff) + 8 * format.unit_roundoff + n * 2.0**-52))
    least_square = near**2 @ rows.fewest[:, None] / n + max(min(epsilon, held), 0.0) - 2 * eta
    largest_square = far**2 @ rows.most[:, None] / n + max(epsilon, held) + 2 * eta
    # Squares that overflow make the reciprocal 0.
    overflow = ~(largest_square * n * (1.0 + relative) <= accumulator.high)
    slowest = np.where(overflow, 0.0, 1.0 / np.sqrt(largest_square) / (1.0 + relative))
    fastest = (1.0 + relative) / np.sqrt(np.maximum(least_square, format.smallest_subnormal))
    flags = spread_special(rows)
    if flags is not None:
        flags = flags[tuple(slice(0, 1) if axis in axes else slice(None) for axis in range(x.rank))]
    return y, rows.per_row(slowest, fastest, flags, inverse_format)


def _total(run: Run, *terms: Tensor | None) -> Tensor:
    """The sum of the terms that are there, from left to right, in at least float32."""
    return reduce(run.torch.add, (wide_tensor(run, term) for term in terms if term is not None))


def _by_root_mean_square(run: Run, x: Tensor, axes: Sequence[int], epsilon: float) -> tuple[Tensor, Tensor]:
    """x / sqrt(mean(x^2) + epsilon) and the reciprocal of the root."""
    inverse = run.torch.rsqrt(x.square().mean(tuple(axes), keepdim=True) + epsilon)
    return x * inverse, inverse


@operator("SimplifiedLayerNormalization", error=CORRECT, overflow=ARITHMETIC_OVERFLOW, hazards=STATISTICS)
def simplified_layer_normalization(op: Call, x: Range, scale: Range) -> tuple[Range, Range]:
    """x / sqrt(mean(x^2) + epsilon) * scale (ONNX Runtime's name of RMSNormalization): increasing in the element itself."""
    axes = tuple(range(normalised_axis(int(op.attribute("axis", -1)), x.rank), x.rank))
    declared = ([*op.output_formats, None, None])[1]
    return _rms_normalised(op, x, axes, op.attribute("epsilon", EPSILON), scale, declared)


@simplified_layer_normalization.meaning
def _(run: Run, x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    axes = range(normalised_axis(int(run.attribute("axis", -1)), x.dim()), x.dim())
    y, inverse = _by_root_mean_square(run, wide_tensor(run, x), axes, run.attribute("epsilon", EPSILON))
    return (y * wide_tensor(run, scale)).to(scale.dtype), inverse


@operator(
    "SkipLayerNormalization",
    domain=MICROSOFT,
    error=CORRECT,
    overflow=ARITHMETIC_OVERFLOW,
    composed_of=(add,),
    hazards=STATISTICS,
)
def skip_layer_normalization(
    op: Call, x: Range, skip: Range, gamma: Range, beta: Range | None = None, bias: Range | None = None
) -> tuple[Range, ...]:
    """LayerNormalization of x + skip + bias along the last axis, with its statistics and the sum itself."""
    total = _sum(op, x, skip, bias)
    y, mean, inverse = layer_normalised(op, total, (total.rank - 1,), op.attribute("epsilon", FUSED_EPSILON), gamma, beta)
    return y, mean, inverse, _inside(total)


@skip_layer_normalization.meaning
def _(
    run: Run, x: Tensor, skip: Tensor, gamma: Tensor, beta: Tensor | None = None, bias: Tensor | None = None
) -> tuple[Tensor, ...]:
    total = _total(run, x, skip, bias)
    y, mean, inverse = standardised(run, total, (-1,), run.attribute("epsilon", FUSED_EPSILON))
    y = _total(run, y * wide_tensor(run, gamma), beta)
    return y.to(x.dtype), mean, inverse, total.to(x.dtype)


@operator(
    "SkipSimplifiedLayerNormalization",
    domain=MICROSOFT,
    error=CORRECT,
    overflow=ARITHMETIC_OVERFLOW,
    composed_of=(add,),
    hazards=STATISTICS,
)
def skip_simplified_layer_normalization(
    op: Call, x: Range, skip: Range, gamma: Range, bias: Range | None = None
) -> tuple[Range, ...]:
    """x + skip + bias divided by its root mean square along the last axis; without a mean, whose output is 0."""
    total = _sum(op, x, skip, bias)
    axes = (total.rank - 1,)
    mean_format, inverse_format = ([*op.output_formats, None, None, None])[1:3]
    epsilon = op.attribute("epsilon", FUSED_EPSILON)
    y, inverse = _rms_normalised(op, total, axes, epsilon, gamma, inverse_format)
    no_mean = Range.uniform(inverse.shape, mean_format or inverse.format, 0.0, 0.0)
    return y, no_mean, inverse, _inside(total)


@skip_simplified_layer_normalization.meaning
def _(run: Run, x: Tensor, skip: Tensor, gamma: Tensor, bias: Tensor | None = None) -> tuple[Tensor, ...]:
    total = _total(run, x, skip, bias)
    y, inverse = _by_root_mean_square(run, total, (-1,), run.attribute("epsilon", FUSED_EPSILON))
    return (y * wide_tensor(run, gamma)).to(x.dtype), run.torch.zeros_like(inverse), inverse, total.to(x.dtype)


@operator(
    "EmbedLayerNormalization",
    domain=MICROSOFT,
    error=CORRECT,
    overflow=ARITHMETIC_OVERFLOW,
    composed_of=(gather, add),
    hazards=STATISTICS,
)
def embed_layer_normalization(
    op: Call,
    words: Range,
    segments: Range | None,
    word_table: Range,
    position_table: Range,
    segment_table: Range | None,
    gamma: Range,
    beta: Range,
    mask: Range | None = None,
    positions: Range | None = None,
) -> tuple[Range, ...]:
    """LayerNormalization of the sum of the embeddings of words, positions and segments; the length of the mask; the sum."""
    if words.rank != 2:
        raise NotAnalysed("words that are not given as (batch, sequence)")
    batch, length = words.sizes
    word = op.apply(gather, word_table, words, axis=0)
    if positions is None:
        if length > position_table.sizes[0]:
            raise NotAnalysed("a sequence longer than the table of positions")
        position = slice_axis(position_table, 0, 0, length)
    else:
        position = op.apply(gather, position_table, positions, axis=0)
    segment = None
    if segments is not None and segment_table is not None:
        segment = op.apply(gather, segment_table, segments, axis=0)
    total = _sum(op, word, position, segment)
    # The order of the three additions differs between kernels.
    if segment is not None:
        other = _sum(op, word, segment, position)
        last = _sum(op, position, segment, word)
        total = total.join(other).join(last)
    y, _, _ = layer_normalised(op, total, (2,), op.attribute("epsilon", FUSED_EPSILON), gamma, beta)
    return y, _mask_index(op, mask, batch, length), _inside(total)


@embed_layer_normalization.meaning
def _(
    run: Run,
    words: Tensor,
    segments: Tensor | None,
    word_table: Tensor,
    position_table: Tensor,
    segment_table: Tensor | None,
    gamma: Tensor,
    beta: Tensor,
    mask: Tensor | None = None,
    positions: Tensor | None = None,
) -> tuple[Tensor, ...]:
    batch, length = words.shape
    position = position_table[:length] if positions is None else position_table[run.whole(positions)]
    segment = None if segments is None or segment_table is None else segment_table[run.whole(segments)]
    total = _total(run, word_table[run.whole(words)], position, segment)
    y, _, _ = standardised(run, total, (-1,), run.attribute("epsilon", FUSED_EPSILON))
    y = _total(run, y * wide_tensor(run, gamma), beta).to(gamma.dtype)
    if mask is None:
        counted = run.torch.zeros(batch, dtype=run.torch.int32)
    else:
        counted = run.passing((mask == 1).sum(1, dtype=run.torch.int32), mask.sum(1))
    return y, counted, total.to(gamma.dtype)


def _mask_index(op: Call, mask: Range | None, batch: int, length: int) -> Range:
    """The number of ones in each row of the mask; zeros without one (ONNX Runtime's CPU kernel)."""
    declared = ([*op.output_formats, None, None])[1]
    format = declared or INT32
    if mask is None:
        return Range.uniform((batch,), format, 0.0, 0.0)
    if mask.sizes != (batch, length) or 0 in mask.cells:
        return Range.uniform((batch,), format, 0.0, float(length))
    rows = Rows(mask, (1,))
    certain = ((rows.low == 1) & (rows.high == 1)) @ rows.fewest[:, None]
    possible = ((rows.low <= 1) & (rows.high >= 1)) @ rows.most[:, None]
    counted = rows.per_row(certain, possible, None, format)
    return reshape(counted, (batch,))
