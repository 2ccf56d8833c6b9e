"""Rotary position embeddings: pairs of features turned by an angle that depends on the position (ONNX RotaryEmbedding-23)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorproof.operators.activations import least
from tensorproof.operators.arithmetic import mul
from tensorproof.operators.attention import heads_apart, heads_joined, merge_heads, split_heads
from tensorproof.operators.indexing import gather
from tensorproof.operators.table import CORRECT, Call, operator
from tensorproof.ranges.elementwise import binary, increasing
from tensorproof.ranges.grid import Size, smallest
from tensorproof.ranges.moving import concatenate, reshape, shape_of, slice_axis
from tensorproof.ranges.range import Range, align
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor


@operator(
    "RotaryEmbedding",
    error=CORRECT,
    overflow=ARITHMETIC_OVERFLOW,
    composed_of=(mul, gather),
)
def rotary_embedding(op: Call, x: Range, cosines: Range, sines: Range, positions: Range | None = None) -> Range:
    """x1 cos - x2 sin and x1 sin + x2 cos for pairs of features: extremes at the corners of the box."""
    is_flat = x.rank == 3
    y = split_heads(x, op.attribute("num_heads")) if is_flat else x
    if 0 in y.cells:
        return x
    if positions is not None:
        cosines, sines = (op.apply(gather, table, positions, axis=0) for table in (cosines, sines))
    cosines, sines = (_per_head(table) for table in (cosines, sines))
    size = smallest(shape_of(y)[3])
    turned = int(op.attribute("rotary_embedding_dim", 0)) or size
    half = turned // 2
    if op.attribute("interleaved", 0):
        first, second = slice_axis(y, 3, 0, turned, 2), slice_axis(y, 3, 1, turned, 2)
    else:
        first, second = slice_axis(y, 3, 0, half), slice_axis(y, 3, half, turned)
    real = _sum_of_products(op, first, cosines, second, sines, -1.0)
    imaginary = _sum_of_products(op, first, sines, second, cosines, 1.0)
    if op.attribute("interleaved", 0):
        pairs = [reshape(part, (*shape_of(part), 1)) for part in (real, imaginary)]
        result = reshape(concatenate(pairs, 4), (*shape_of(y)[:3], turned))
    else:
        result = concatenate((real, imaginary), 3)
    if turned < size:
        result = concatenate((result, slice_axis(y, 3, turned, size)), 3)
    return merge_heads(result) if is_flat else result


@rotary_embedding.meaning
def _(run: Run, x: Tensor, cosines: Tensor, sines: Tensor, positions: Tensor | None = None) -> Tensor:
    if positions is not None:
        places = run.whole(positions)
        cosines, sines = cosines[places], sines[places]
    interleaved = bool(run.attribute("interleaved", 0))
    if x.dim() == 4:
        return turned_pairs(run, x, cosines, sines, interleaved)
    return heads_joined(turned_pairs(run, heads_apart(x, run.attribute("num_heads")), cosines, sines, interleaved))


def turned_pairs(run: Run, x: Tensor, cosines: Tensor, sines: Tensor, interleaved: bool) -> Tensor:
    """As many pairs of columns of (batch, heads, sequence, size) turned as there are angles (batch or 1, sequence, angles)."""
    cosines, sines = cosines.unsqueeze(1), sines.unsqueeze(1)
    width = 2 * cosines.shape[3]
    part, rest = x[..., :width], x[..., width:]
    first, second = (part[..., 0::2], part[..., 1::2]) if interleaved else part.chunk(2, -1)
    pairs = first * cosines - second * sines, first * sines + second * cosines
    turned = run.torch.stack(pairs, -1).flatten(-2) if interleaved else run.torch.cat(pairs, -1)
    return run.torch.cat((turned, rest), -1)


def _per_head(table: Range) -> Range:
    """(batch, sequence, features) as (batch, 1, sequence, features)."""
    sizes: tuple[Size, ...] = shape_of(table)
    return reshape(table, (sizes[0], 1, *sizes[1:]))


def _sum_of_products(op: Call, a: Range, b: Range, c: Range, d: Range, sign: float) -> Range:
    """a b + sign * c d; products may be rounded, or kept exact by a fused operation."""
    left, right = op.apply(mul, a, b), op.apply(mul, c, d)
    if sign < 0:
        right = right.replace(-right.high, -right.low, _mirrored(right))
    result = binary(left, right, increasing(np.add), np.add, a.format)
    aligned = align(result, left, right)
    sizes = [np.where(lo <= hi, np.maximum(np.abs(lo), np.abs(hi)), 0.0) for lo, hi in zip(aligned.lows, aligned.highs)]
    reach = sizes[1] + sizes[2]
    pad = np.where(reach > 0, 1.01 * a.format.unit_roundoff * reach + 2 * least(op, a.format), 0.0)
    special = aligned.specials[0] if result.has_special else None
    return aligned.result(a.format, aligned.lows[0] - pad, aligned.highs[0] + pad, special)


def _mirrored(x: Range) -> np.ndarray | None:
    """The special values of -x: the infinities change places."""
    if not x.has_special:
        return None
    bits = x.special
    return (bits & np.uint8(1)) | ((bits & np.uint8(2)) << 1) | ((bits & np.uint8(4)) >> 1)
