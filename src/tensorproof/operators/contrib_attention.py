"""ONNX Runtime's attention operators: Attention, MultiHeadAttention and GroupQueryAttention, and RotaryEmbedding.

Scores are the products of queries and keys times a scale, plus what masks and biases add; a softmax along the keys turns them
into weights; the result is the mean of the values under these weights. The mean is bounded over all scores and values at once
(`weighted_mean`): with the values in order, it is largest where the weights of the largest ones are at their upper ends and all
others at their lower ends. 16-bit tensors are evaluated in float32, as ONNX Runtime does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.formats import BOOL, FLOAT32, INT64, Array, Format
from tensorproof.operators.activations import least
from tensorproof.operators.arithmetic import add, div, mul
from tensorproof.operators.indexing import gather
from tensorproof.operators.linear import gemm
from tensorproof.operators.softmax import FUNCTION_ERROR, softmax
from tensorproof.operators.table import CORRECT, RESULT, Call, operator
from tensorproof.operators.trigonometric import tanh
from tensorproof.ranges.elementwise import binary, corners, increasing, monotone, product
from tensorproof.ranges.grid import Size, Span, cell_sizes, counts, largest, smallest
from tensorproof.ranges.moving import concatenate, reshape, slice_axis, take, transpose
from tensorproof.ranges.range import CELL_BUDGET, INFINITIES, NAN, NEGATIVE_INFINITY, SPECIALS, Flags, Range, align
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW

MICROSOFT = "com.microsoft"
#: Combinations of cells of queries, keys and values that are still looked at one by one.
COMBINATIONS = 1 << 21
#: What masks add to scores (ONNX Runtime's default of `mask_filter_value`, and what its CPU kernels add to later keys).
FILTER = -10000.0
LATER = FLOAT32.low
#: Denominators below this have lost digits to underflow of float64.
FAINT = 1e-280

Mask = npt.NDArray[np.bool_]


def wide(x: Range) -> Range:
    """The same values in the format of the evaluation: float32 for narrower tensors."""
    return x.with_format(FLOAT32) if x.format.bits < 32 else x


# -- the weighted mean -------------------------------------------------------------------------------------------------


def attended(op: Call, scores: Range, values: Range, excluded: Range | None, sink: Range | None) -> Range:
    """softmax(scores) @ values: (batch, heads, queries, keys) and (batch, heads, keys, size).

    `excluded` (batch or 1, 1, queries or 1, keys) is true where a key takes no part. `sink` (1, heads, 1, 1) is the score of an
    additional key whose value is 0.
    """
    assert scores.shape is not None and values.shape is not None
    shape: tuple[Size, ...] = (values.shape[0], values.shape[1], scores.shape[2], values.shape[3])
    keys = largest(values.shape[2])
    if not keys:
        raise NotAnalysed("the number of keys is zero or has no bound")
    if 0 in shape:
        return Range.uniform(shape, values.format, 0.0, 0.0)
    # Reports rows that are masked altogether.
    weights = op.apply(softmax, scores, axis=-1)
    hull = values.smash((2,))
    empty = hull.low > hull.high
    low, high = np.where(empty, 0.0, hull.low), np.where(empty, 0.0, hull.high)
    if sink is not None:
        low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    outer = Range(values.format, shape, hull.grid, low, high)
    exact = None if values.cells[2] == 1 else weighted_mean(op, scores, values, excluded, sink)
    mean = outer if exact is None else exact.meet(outer)
    aligned = align(mean, outer, *_taints(hull, weights))
    # Weights, their sum and its reciprocal, the products and their sum; tiles are rescaled by the exponential of a difference.
    u, eta = values.format.unit_roundoff, least(op, values.format)
    size = np.maximum(np.abs(aligned.lows[1]), np.abs(aligned.highs[1]))
    error = (4.0 * keys + 32.0) * (u * size + eta)
    low, high = aligned.lows[0] - error, aligned.highs[0] + error
    # A mean of numbers of one sign has that sign.
    low = np.where(aligned.lows[1] >= 0.0, np.maximum(low, 0.0), low)
    high = np.where(aligned.highs[1] <= 0.0, np.minimum(high, 0.0), high)
    return aligned.result(values.format, low, high, aligned.specials[2] | aligned.specials[3])


def _taints(values: Range, weights: Range) -> tuple[Range, Range]:
    """Special values of the mean, from its values (hulls along the keys) and from its weights, as two ranges of zeros.

    An infinite value may have the weight 0: then the mean is NaN.
    """
    assert values.shape is not None and weights.shape is not None
    infinite = (values.special & np.uint8(INFINITIES)) != 0
    flags = np.where(infinite, values.special | np.uint8(NAN), values.special)
    zeros = np.zeros(flags.shape)
    shape = (*values.shape[:2], 1, values.shape[3])
    first = Range(values.format, shape, values.grid, zeros, zeros, flags)
    rows: Flags = np.bitwise_or.reduce(weights.special & np.uint8(NAN), axis=(-2, -1), keepdims=True)
    zeros = np.zeros(rows.shape)
    shape = (*weights.shape[:2], 1, 1)
    return first, Range(weights.format, shape, (*weights.grid[:2], None, None), zeros, zeros, rows)


def weighted_mean(
    op: Call, scores: Range, values: Range, excluded: Range | None, sink: Range | None
) -> Range | None:
    """Bounds of the mean of the values under weights exp(score), over all boxes; None where there are too many cells."""
    if not (scores.has_known_shape and values.has_known_shape):
        return None
    excluded = excluded or Range.uniform((1, 1, 1, 1), BOOL, 0.0, 0.0)
    parts = _spread(scores, values, excluded, sink) or _spread(scores.smash((2,)), values, excluded.smash((2,)), sink)
    if parts is None:
        return None
    aligned = align(*parts)
    assert aligned.shape is not None
    lows, highs = aligned.lows, aligned.highs
    number = cell_sizes(aligned.grid, aligned.shape, 3).astype(np.float64).reshape(1, 1, 1, -1, 1)
    keys = number.shape[3]
    nothing = (lows[0] > highs[0]) | (lows[2] >= 1.0)
    maskable = ((aligned.specials[0] & np.uint8(NEGATIVE_INFINITY)) != 0) | (highs[2] >= 1.0) | nothing
    low, high = np.where(maskable, -np.inf, lows[0]), np.where(nothing, -np.inf, highs[0])
    empty = lows[1] > highs[1]
    low_v, high_v = np.where(empty, 0.0, lows[1]), np.where(empty, 0.0, highs[1])
    low, high, low_v, high_v = (np.broadcast_to(a, (*a.shape[:3], keys, a.shape[4])) for a in (low, high, low_v, high_v))
    if sink is not None:
        zero = np.zeros((1,) * 5)
        low, high = _with_key(low, lows[3]), _with_key(high, highs[3])
        number, low_v, high_v = _with_key(number, zero + 1.0), _with_key(low_v, zero), _with_key(high_v, zero)
    lightest, heaviest = _weights(op, low, high, values.format)
    lightest, heaviest = lightest * number, heaviest * number
    upper, lower = _largest_mean(high_v, lightest, heaviest), -_largest_mean(-low_v, lightest, heaviest)
    grid, shape = ((*part[:3], part[4]) for part in (aligned.grid, aligned.shape))
    cells = counts(grid)
    return Range(values.format, shape, grid, np.broadcast_to(lower, cells), np.broadcast_to(upper, cells))


def _with_key(array: Array, extra: Array) -> Array:
    """One more entry along the axis of the keys."""
    shape = np.broadcast_shapes((*array.shape[:3], 1, array.shape[4]), extra.shape)
    array = np.broadcast_to(array, (*shape[:3], array.shape[3], shape[4]))
    return np.concatenate([array, np.broadcast_to(extra, shape)], axis=3)


def _spread(scores: Range, values: Range, excluded: Range, sink: Range | None) -> list[Range] | None:
    """All with axes (batch, heads, queries, keys, size); None where they would make too many combinations."""
    batch, heads, keys, size = values.sizes
    parts = [
        reshape(scores, (*scores.sizes, 1)),
        reshape(values, (batch, heads, 1, keys, size)),
        reshape(excluded, (*excluded.sizes, 1)),
    ]
    if sink is not None:
        parts.append(reshape(sink, (*sink.sizes, 1)))
    cells = sum(float(part.cells[3]) for part in parts)
    for axis in (0, 1, 2, 4):
        cells *= max(part.cells[axis] for part in parts)
    return None if cells > COMBINATIONS else parts


def _weights(op: Call, low: Array, high: Array, format: Format) -> tuple[Array, Array]:
    """The smallest and the largest computed exp(score - top), where top is the largest score of the row.

    Rounding score - maximum moves a weight by the relative error u * |score - maximum|; the exponential adds its own.
    """
    u, tiny = format.unit_roundoff, FUNCTION_ERROR * least(op, format)
    top = high.max(axis=3, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    below, above = low - top, high - top
    lightest = np.exp(below * (1.0 + 1.01 * u) - (FUNCTION_ERROR * u + 2.0**-48)) - tiny
    heaviest = np.exp(np.minimum(above * (1.0 - 1.01 * u), 0.0) + (FUNCTION_ERROR * u + 2.0**-48)) + tiny
    return np.where(lightest > 0.0, lightest, 0.0), np.where(high == -np.inf, 0.0, heaviest)


def _largest_mean(values: Array, lightest: Array, heaviest: Array) -> Array:
    """The largest mean along axis 3 over all weights; the axis is dropped.

    A mean grows with the weights of the values above it and falls with those of the values below: for some k the k largest values
    have their largest weights and the others their smallest. Distances to the largest value are summed, which are all of one sign.
    """
    order = np.argsort(-values, axis=3, kind="stable")
    values = np.take_along_axis(values, order, axis=3)
    shape = np.broadcast_shapes(values.shape, lightest.shape)
    order = np.broadcast_to(order, shape)
    light = np.take_along_axis(np.broadcast_to(lightest, shape), order, axis=3)
    heavy = np.take_along_axis(np.broadcast_to(heaviest, shape), order, axis=3)
    # Values that certainly take no part are no candidates for the largest.
    top = np.where(heavy > 0.0, values, -np.inf).max(axis=3, keepdims=True)
    top = np.where(np.isfinite(top), top, values[..., :1, :])
    distance = np.maximum(top - values, 0.0)
    weight = np.cumsum(heavy, axis=3) + _later(light)
    moment = np.cumsum(heavy * distance, axis=3) + _later(light * distance)
    ratio = np.where(weight > FAINT, moment / np.where(weight > FAINT, weight, 1.0), 0.0)
    return (top - ratio.min(axis=3, keepdims=True) * (1.0 - 2.0**-40))[..., 0, :]


def _later(terms: Array) -> Array:
    """Sums over all later entries along axis 3."""
    total = np.cumsum(terms[..., ::-1, :], axis=3)[..., ::-1, :]
    return np.concatenate([total[..., 1:, :], np.zeros_like(total[..., :1, :])], axis=3)


# -- scores ------------------------------------------------------------------------------------------------------------


def split_heads(x: Range, heads: int) -> Range:
    """(batch, sequence, heads * size) as (batch, heads, sequence, size)."""
    assert x.shape is not None
    batch, length, width = x.shape
    if not isinstance(width, int) or width % heads:
        raise NotAnalysed(f"{width} columns for {heads} heads")
    return transpose(reshape(x, (batch, length, heads, width // heads)), (0, 2, 1, 3))


def join_heads(x: Range) -> Range:
    """(batch, heads, sequence, size) as (batch, sequence, heads * size)."""
    assert x.shape is not None
    batch, heads, length, size = x.shape
    return reshape(transpose(x, (0, 2, 1, 3)), (batch, length, smallest(heads) * smallest(size)))


def products(op: Call, queries: Range, keys: Range, scale: float) -> Range:
    """scale * Q K^T."""
    return op.apply(gemm, queries, transpose(keys, (0, 1, 3, 2)), alpha=scale)


def plus(op: Call, scores: Range, offset: Range, terms: int) -> Range:
    """Scores of `terms` products plus what masks and biases add, which may be added first, last or in between."""
    total = op.apply(add, scores, offset)
    aligned = align(total, offset)
    size = np.where(aligned.lows[1] <= aligned.highs[1], np.maximum(np.abs(aligned.lows[1]), np.abs(aligned.highs[1])), 0.0)
    # What is added to a mask near the end of the format disappears in it.
    error = (terms + 4.0) * total.format.unit_roundoff * np.where(size < 1e30, size, 0.0)
    low, high = aligned.lows[0] - error, aligned.highs[0] + error
    special = aligned.specials[0] if total.has_special else None
    return aligned.result(total.format, low, high, special).clamp(total.format.low, total.format.high)


class Extent(NamedTuple):
    """The sizes of one attention, and how many combinations of them the analysis may look at."""

    batch: int
    heads: int
    queries: int
    keys: int

    @property
    def is_small(self) -> bool:
        return self.batch * self.heads * self.queries * self.keys <= CELL_BUDGET


def extent_of(queries: Range, keys: Range) -> Extent | None:
    """The sizes, or None if some depend on the data."""
    if not (queries.has_known_shape and keys.has_known_shape):
        return None
    return Extent(queries.sizes[0], queries.sizes[1], queries.sizes[2], keys.sizes[2])


def padding_mask(mask: Range, extent: Extent | None, filter: float) -> Range:
    """What a padding mask adds to the scores, (batch, 1, 1 or queries, keys): lengths, ends and starts, or 0 and 1."""
    if extent is None or not mask.has_known_shape:
        return Range.uniform((1, 1, 1, 1), FLOAT32, min(filter, 0.0), max(filter, 0.0))
    batch, _, queries, keys = extent
    unknown = Range.uniform((1, 1, 1, 1), FLOAT32, min(filter, 0.0), max(filter, 0.0))
    if mask.rank == 1:
        if mask.sizes[0] not in (batch, 2 * batch, 3 * batch + 2):
            raise NotAnalysed("a mask whose length is neither that of the batch nor twice it")
        if batch * keys > CELL_BUDGET:
            return unknown
        low, high, _ = mask.expanded()
        place = np.arange(keys)[None, :]
        visible, possible = place < low[:batch, None], place < high[:batch, None]
        if mask.sizes[0] == 2 * batch:
            visible = visible & (place >= high[batch:, None])
            possible = possible & (place >= low[batch:, None])
        visible, possible = visible[:, None, None, :], possible[:, None, None, :]
        return Range.elements(FLOAT32, *_ends(visible, possible, filter))
    if mask.sizes == (batch, keys):
        mask = reshape(mask, (batch, 1, 1, keys))
    elif mask.sizes == (batch, queries, keys):
        mask = reshape(mask, (batch, 1, queries, keys))
    else:
        raise NotAnalysed(f"a mask of shape {mask.sizes}")
    if int(np.prod(mask.cells, dtype=np.int64)) * extent.heads > CELL_BUDGET:
        mask = mask.smash((2, 3))
    low, high = _ends(mask.low > 0, mask.high > 0, filter)
    return Range(FLOAT32, mask.shape, mask.grid, low, high)


def _ends(visible: Mask, possible: Mask, filter: float) -> tuple[Array, Array]:
    """0 where a key is visible, else the filter; both where that is not known."""
    low = np.where(visible, 0.0, np.where(possible, min(filter, 0.0), filter))
    high = np.where(visible, 0.0, np.where(possible, max(filter, 0.0), filter))
    return low, high


def with_later_keys(offset: Range | None, extent: Extent | None) -> Range:
    """What is added to the scores where later keys are masked, too: for them the mask is the smallest number instead."""
    offset = offset or Range.uniform((1, 1, 1, 1), FLOAT32, 0.0, 0.0)
    if extent is None or not extent.is_small:
        low = np.full_like(offset.low, LATER)
        return offset.replace(low, offset.high, None)
    place, query = np.arange(extent.keys), np.arange(extent.queries) + (extent.keys - extent.queries)
    later = (place > query[:, None])[None, None]
    mask = Range.elements(BOOL, later.astype(np.float64), later.astype(np.float64))
    aligned = align(offset, mask)
    hidden = aligned.lows[1] > 0
    low, high = np.where(hidden, LATER, aligned.lows[0]), np.where(hidden, LATER, aligned.highs[0])
    return aligned.result(FLOAT32, low, high)


def _scale(op: Call, size: int) -> float:
    """The attribute, or 1 / sqrt(size) as float32 computes it."""
    return float(op.attribute("scale", 0.0)) or float(np.float32(1.0) / np.sqrt(np.float32(size)))


def _masked_attention(
    op: Call, queries: Range, keys: Range, values: Range, mask: Range | None, bias: Range | None
) -> tuple[Range, Range]:
    """Attention and MultiHeadAttention from heads on: the result with its heads joined, and the scores."""
    format = values.format
    queries, keys, values = wide(queries), wide(keys), wide(values)
    filter = float(op.attribute("mask_filter_value", FILTER))
    if not abs(filter) <= FLOAT32.high:
        raise NotAnalysed("a mask that is infinite")
    extent = extent_of(queries, keys)
    if values.cells[2] == 1 and op.outputs < 4:
        # Every mean of equal ranges is that range: only what can go wrong matters.
        queries, keys = queries.smash((2,)), keys.smash((2,))
    size = queries.sizes[3]
    scores = products(op, queries, keys, _scale(op, size))
    offset = None if mask is None else padding_mask(mask, extent, filter)
    if op.attribute("unidirectional", 0) and not (extent is not None and extent.queries == 1):
        offset = with_later_keys(offset, extent)
    if offset is not None:
        offset = offset.with_format(scores.format)
    if bias is not None:
        bias = wide(bias)
        offset = bias if offset is None else op.apply(add, bias, offset)
    if offset is not None:
        scores = plus(op, scores, offset, size)
    result = attended(op, scores, values, None, None)
    return join_heads(result).with_format(format), scores.with_format(format)


_PARTS = (gemm, add, softmax)
_COARSE = "queries, keys and values that come from the same input, or meet in many cells, are bounded independently"


@operator(
    "Attention",
    domain=MICROSOFT,
    error=CORRECT,
    overflow=ACCUMULATION_OVERFLOW,
    composed_of=_PARTS,
    coarse=_COARSE,
)
def attention(
    op: Call,
    x: Range,
    weights: Range,
    bias: Range | None = None,
    mask: Range | None = None,
    past: Range | None = None,
    attention_bias: Range | None = None,
    past_length: Range | None = None,
) -> tuple[Range, ...]:
    """Projected queries attend to projected keys: means of the projected values, within their extremes along the sequence."""
    if op.attribute("do_rotary", 0):
        raise NotAnalysed("rotary embeddings inside Attention")
    if op.attribute("past_present_share_buffer", 0) or past_length is not None:
        raise NotAnalysed("past and present in one buffer")
    heads, format = int(op.attribute("num_heads")), x.format
    width = weights.sizes[1]
    sizes = [int(size) for size in op.attribute("qkv_hidden_sizes", None) or (width // 3,) * 3]
    projected = op.apply(gemm, wide(x), wide(weights), None if bias is None else wide(bias))
    if format.bits < 32:
        # Kernels may round the projections to the tensor's own format.
        low, high = format.round_nearest(projected.low), format.round_nearest(projected.high)
        projected = projected.replace(np.minimum(projected.low, low), np.maximum(projected.high, high), projected.special)
    projected = projected.with_format(format)
    starts = np.cumsum([0, *sizes])
    queries, keys, values = (
        split_heads(slice_axis(projected, 2, int(start), int(start) + size), heads) for start, size in zip(starts, sizes)
    )
    if past is not None:
        old = [reshape(slice_axis(past, 0, k, k + 1), past.sizes[1:]) for k in (0, 1)]
        keys, values = concatenate([old[0], keys], 2), concatenate([old[1], values], 2)
    result, _ = _masked_attention(op, queries, keys, values, mask, attention_bias)
    if keys.shape != values.shape:
        return (result,)
    assert keys.shape is not None
    present = concatenate([reshape(part, (1, *keys.shape)) for part in (keys, values)], 0)
    return result, present.clamp(format.low, format.high)


@operator(
    "MultiHeadAttention",
    domain=MICROSOFT,
    error=CORRECT,
    overflow=ACCUMULATION_OVERFLOW,
    composed_of=_PARTS,
    coarse=_COARSE,
)
def multi_head_attention(
    op: Call,
    query: Range,
    key: Range | None = None,
    value: Range | None = None,
    bias: Range | None = None,
    mask: Range | None = None,
    attention_bias: Range | None = None,
    past_key: Range | None = None,
    past_value: Range | None = None,
    past_length: Range | None = None,
    cache_indirection: Range | None = None,
) -> tuple[Range, ...]:
    """Means of the values of each head under softmax weights: within their extremes along the sequence."""
    if cache_indirection is not None:
        raise NotAnalysed("beams that share their past")
    heads = int(op.attribute("num_heads"))
    queries, keys, values = _unpacked(query, key, value, heads)
    if bias is not None:
        width, depth = queries.sizes[1] * queries.sizes[3], values.sizes[1] * values.sizes[3]
        parts: list[Range] = []
        for x, start, columns in ((queries, 0, width), (keys, width, width), (values, 2 * width, depth)):
            part = slice_axis(bias, 0, start, start + columns)
            parts.append(op.apply(add, x, reshape(part, (1, heads, 1, columns // heads))))
        queries, keys, values = parts
    if past_key is not None and past_value is not None:
        # A past in a buffer of its own size is told by its length; without buffers it is a whole one (CPU).
        keys, values = concatenate([past_key, keys], 2), concatenate([past_value, values], 2)
        if past_length is not None:
            raise NotAnalysed("past and present in one buffer")
    result, scores = _masked_attention(op, queries, keys, values, mask, attention_bias)
    return result, keys, values, scores


def _unpacked(query: Range, key: Range | None, value: Range | None, heads: int) -> tuple[Range, Range, Range]:
    """Queries, keys and values, (batch, heads, sequence, size), from all forms that the operator takes."""
    if query.rank == 5:
        parts = [_inner(query, k) for k in range(3)]
        return parts[0], parts[1], parts[2]
    if key is None:
        raise NotAnalysed("packed queries, keys and values of rank 3")
    queries = split_heads(query, heads)
    if key.rank == 5:
        return queries, _inner(key, 0), _inner(key, 1)
    if value is None:
        raise NotAnalysed("keys without values")
    if key.rank == 4:
        return queries, key, value
    return queries, split_heads(key, heads), split_heads(value, heads)


def _inner(packed: Range, number: int) -> Range:
    """One of the tensors of (batch, sequence, heads, tensors, size)."""
    batch, length, heads, _, size = packed.sizes
    part = reshape(slice_axis(packed, 3, number, number + 1), (batch, length, heads, size))
    return transpose(part, (0, 2, 1, 3))


# -- groups of queries -------------------------------------------------------------------------------------------------


class _State(NamedTuple):
    """What is known about the past of a GroupQueryAttention.

    `past` are the numbers of earlier keys of each batch and `totals` those of all keys, None where they are not known; `length` is
    that of the present state.
    """

    past: npt.NDArray[np.int64] | None
    totals: npt.NDArray[np.int64] | None
    length: Size


@operator(
    "GroupQueryAttention",
    domain=MICROSOFT,
    error=CORRECT,
    overflow=ACCUMULATION_OVERFLOW,
    composed_of=(*_PARTS, mul, div, tanh),
    hazards=(ARITHMETIC_OVERFLOW,),
    coarse=_COARSE,
)
def group_query_attention(
    op: Call,
    query: Range,
    key: Range | None,
    value: Range | None,
    past_key: Range | None,
    past_value: Range | None,
    last: Range,
    total: Range,
    cosines: Range | None = None,
    sines: Range | None = None,
    positions: Range | None = None,
    attention_bias: Range | None = None,
    sink: Range | None = None,
    *others: Range | None,
) -> tuple[Range, ...]:
    """Groups of heads share keys and values; each query attends to itself and earlier keys, within a window if there is one."""
    if any(other is not None for other in others) or past_key is not None and not past_key.format.is_float:
        raise NotAnalysed("a quantised past, or queries and keys that are normalised")
    if op.attribute("sliding_window_cache", 0):
        raise NotAnalysed("a past of the size of the window")
    window = int(op.attribute("local_window_size", -1))
    if window == 0:
        raise NotAnalysed("a window without keys")
    heads, groups, format = int(op.attribute("num_heads")), int(op.attribute("kv_num_heads")), query.format
    queries, keys, values = _grouped(query, key, value, heads, groups)
    batch, _, length, size = queries.sizes
    state = _state(last, total, past_key, batch, length)
    if op.attribute("do_rotary", 0):
        if cosines is None or sines is None:
            raise NotAnalysed("rotary embeddings without tables")
        place = _places(state, positions, batch, length)
        interleaved = bool(op.attribute("rotary_interleaved", 0))
        queries = rotated(op, queries, place, cosines, sines, interleaved)
        keys = rotated(op, keys, place, cosines, sines, interleaved)
    present_key, present_value = _extended(past_key, keys, state), _extended(past_value, values, state)
    repeats = np.repeat(np.arange(groups), heads // groups)
    all_keys, all_values = take(wide(present_key), 1, repeats), take(wide(present_value), 1, repeats)
    excluded = _excluded(op, state, batch, heads, length, window)
    queries = wide(queries)
    if all_values.cells[2] == 1 and op.outputs < 4:
        queries, all_keys = queries.smash((2,)), all_keys.smash((2,))
    scores = products(op, queries, all_keys, _scale(op, size))
    cap = float(op.attribute("softcap", 0.0))
    if cap > 0.0:
        limit = Range.constant(np.asarray(cap), scores.format)
        scores = op.apply(mul, op.apply(tanh, op.apply(div, scores, limit)), limit)
    if attention_bias is not None:
        scores = plus(op, scores, _columns(wide(attention_bias), all_keys), size)
    extra = None
    if sink is not None:
        extra = reshape(wide(sink), (1, heads, 1, 1))
    elif op.attribute("smooth_softmax", -1) == 1:
        extra = Range.uniform((1, heads, 1, 1), scores.format, 0.0, 0.0)
    result = join_heads(attended(op, scores, all_values, excluded, extra)).with_format(format)
    return result, present_key, present_value, _shown(op, scores, total).with_format(format)


def _grouped(query: Range, key: Range | None, value: Range | None, heads: int, groups: int) -> tuple[Range, Range, Range]:
    """Queries, keys and values with their heads split; packed ones are cut apart first."""
    if key is None and value is None:
        width = query.sizes[2]
        if width % (heads + 2 * groups):
            raise NotAnalysed("packed queries, keys and values whose heads differ in size")
        size = width // (heads + 2 * groups)
        cuts = (0, heads * size, (heads + groups) * size, width)
        query, key, value = (slice_axis(query, 2, start, stop) for start, stop in zip(cuts, cuts[1:]))
    if key is None or value is None:
        raise NotAnalysed("keys or values alone")
    queries, keys, values = split_heads(query, heads), split_heads(key, groups), split_heads(value, groups)
    if keys.sizes[2] != queries.sizes[2]:
        raise NotAnalysed("keys of another length than the queries")
    return queries, keys, values


def _state(last: Range, total: Range, past: Range | None, batch: int, length: int) -> _State:
    """Past and present lengths from the index of each last key and the largest total number of keys."""
    ends, whole = last.integers(), total.integers()
    earlier: Size = 0
    if past is not None:
        assert past.shape is not None
        earlier = past.shape[2]
    if whole is None or whole.size != 1:
        high = largest(earlier)
        known: Size = Span(smallest(earlier), None if high is None else high + length)
        # Without a past the present state is what is new.
        return _State(np.zeros(batch, np.int64), None, length) if past is None else _State(None, None, known)
    number = int(whole.reshape(-1)[0])
    present: Size = number
    if past is not None:
        present = max(number, earlier) if isinstance(earlier, int) else Span(max(number, earlier.low), None)
    totals = None if ends is None or ends.size != batch else ends.reshape(-1) + 1
    if past is None or number == length:
        return _State(np.zeros(batch, np.int64), totals, present)
    if totals is None:
        return _State(None, None, present)
    before = totals - length
    if before.min() < 0 or before.max() > smallest(earlier):
        raise NotAnalysed("more keys than the past and the new ones have")
    return _State(before, totals, present)


def _extended(past: Range | None, new: Range, state: _State) -> Range:
    """The present state: the past of each batch, what is new, and a rest that is 0, or what a shared buffer held before."""
    batch, heads, length, size = new.sizes
    if past is not None and past.shape is not None and past.shape[2] == 0:
        past = None
    if past is None and state.length == length:
        return new
    same = state.past is not None and bool((state.past == state.past[0]).all())
    rest = None if past is None else past.smash((2,))
    if isinstance(state.length, int) and same and state.past is not None:
        before = int(state.past[0])
        parts = [new] if past is None or not before else [slice_axis(past, 2, 0, before), new]
        left = state.length - before - length
        if left > 0:
            zero = Range.uniform((batch, heads, left, size), new.format, 0.0, 0.0)
            parts.append(zero if rest is None else zero.join(_stretched(rest, left)))
        if left >= 0:
            return concatenate(parts, 2)
    merged = _stretched(new.smash((2,)), state.length)
    merged = merged.join(Range.uniform(merged.shape, new.format, 0.0, 0.0))
    return merged if rest is None else merged.join(_stretched(rest, state.length))


def _stretched(x: Range, length: Size) -> Range:
    """A range of one cell along the sequence, for another length of it."""
    assert x.shape is not None
    return Range(x.format, (*x.shape[:2], length, x.shape[3]), (*x.grid[:2], None, x.grid[3]), x.low, x.high, x.special)


def _excluded(op: Call, state: _State, batch: int, heads: int, length: int, window: int) -> Range:
    """Keys that take no part: later ones, those before the window, and what lies behind the last one."""
    keys = state.length
    unknown = Range.uniform((1, 1, 1, 1), BOOL, 0.0, 1.0)
    if state.past is None or not isinstance(keys, int) or batch * heads * length * keys > CELL_BUDGET:
        return unknown
    place = np.arange(keys)[None, None, None, :]
    own = (state.past[:, None, None, None] + np.arange(length)[None, None, :, None]) + 1
    causal = bool(op.attribute("causal", 1))
    ends = np.minimum(state.past + length, keys) if state.totals is None else state.totals
    certain = place >= (own if causal else np.full_like(own, keys))
    if causal and window > 0:
        certain = certain | (place < own - window)
    if state.totals is None:
        # Rows of a prompt may be shorter than the longest one; a row that has no key left attends to the last ones.
        return Range.elements(BOOL, certain.astype(np.float64), np.ones(certain.shape))
    beyond = place >= ends[:, None, None, None]
    possible = certain | beyond
    idle = possible.all(axis=3, keepdims=True)
    low = np.where(idle, 0.0, possible)
    return Range.elements(BOOL, low.astype(np.float64), possible.astype(np.float64))


def _columns(bias: Range, keys: Range) -> Range:
    """A bias with as many columns as the present state has keys; those beyond it are not used."""
    assert bias.shape is not None and keys.shape is not None
    have, want = bias.shape[3], keys.shape[2]
    if have == want:
        return bias
    if isinstance(have, int) and isinstance(want, int) and have < want:
        rest = Range.uniform((*bias.sizes[:3], want - have), bias.format, 0.0, 0.0)
        return concatenate([bias, rest], 3)
    bias = bias.smash((3,))
    return Range(bias.format, (*bias.shape[:3], 1) if bias.shape else None, bias.grid, bias.low, bias.high, bias.special)


def _shown(op: Call, scores: Range, total: Range) -> Range:
    """The optional output of scores (qk_output 1) or weights (2), 0 where a key takes no part."""
    whole = total.integers()
    assert scores.shape is not None
    length: Size = Span(0, None) if whole is None or whole.size != 1 else int(whole.reshape(-1)[0])
    shape = (*scores.shape[:3], length)
    if int(op.attribute("qk_output", 0)) == 2:
        return Range.uniform(shape, scores.format, 0.0, 1.0 + 2.0**-20)
    low, high = scores.hull()
    return Range.uniform(shape, scores.format, min(low, 0.0), max(high, 0.0), scores.any_special)


# -- rotary embeddings -------------------------------------------------------------------------------------------------


def _places(state: _State, positions: Range | None, batch: int, length: int) -> Range:
    """The row of the tables for each token, (batch or 1, sequence)."""
    steps = np.arange(length, dtype=np.int64)
    if positions is not None:
        if state.past is not None and not state.past.any():
            # Of a first prompt only the first position counts (GroupQueryAttention's schema); of others each does.
            first = slice_axis(slice_axis(reshape(positions, positions.sizes), 0, 0, 1), 1, 0, 1)
            return _from(first, steps).join(_whole(positions, batch, length)) if length > 1 else _from(first, steps)
        return positions
    if state.past is None:
        return Range.uniform((1, length), INT64, 0.0, 2.0**31)
    return Range.constant(state.past[:, None] + steps)


def _whole(positions: Range, batch: int, length: int) -> Range:
    return positions.smash((0,)) if positions.sizes[0] != batch else slice_axis(positions, 0, 0, 1).smash((0,))


def _from(first: Range, steps: npt.NDArray[np.int64]) -> Range:
    """Positions that count on from a first one, (1, sequence)."""
    exact = first.integers()
    if exact is not None:
        return Range.constant((int(exact.reshape(-1)[0]) + steps)[None, :])
    low, high = first.hull()
    return Range.elements(first.format, (low + steps)[None, :], (high + steps)[None, :])


def rotated(op: Call, x: Range, place: Range, cosines: Range, sines: Range, interleaved: bool) -> Range:
    """Pairs of columns of (batch, heads, sequence, size) turned by the angles of their positions; further columns stay."""
    half = cosines.sizes[1]
    size, width = x.sizes[3], 2 * half
    if width > size:
        raise NotAnalysed("more rotated columns than a head has")
    rows = cosines.sizes[0]
    place = place.clamp(0.0, float(rows - 1)) if place.array is None else place
    tables = [op.apply(gather, table, place, axis=0) for table in (cosines, sines)]
    batch, length = tables[0].sizes[:2]
    c, s = (reshape(table, (batch, 1, length, half)) for table in tables)
    if interleaved:
        a, b = slice_axis(x, 3, 0, width, 2), slice_axis(x, 3, 1, width, 2)
    else:
        a, b = slice_axis(x, 3, 0, half), slice_axis(x, 3, half, width)
    first, second = _turned(op, a, c, b, monotone(s, np.negative)), _turned(op, a, s, b, c)
    if interleaved:
        shape = (*first.sizes, 1)
        pairs = concatenate([reshape(first, shape), reshape(second, shape)], 4)
        turned = reshape(pairs, (*first.sizes[:3], width))
    else:
        turned = concatenate([first, second], 3)
    return turned if width == size else concatenate([turned, slice_axis(x, 3, width, size)], 3)


def _turned(op: Call, a: Range, c: Range, b: Range, s: Range) -> Range:
    """a c + b s, the products rounded or not."""
    format = a.format
    left, right = (binary(x, y, corners(product), np.multiply, format) for x, y in ((a, c), (b, s)))
    total = binary(left, right, increasing(np.add), np.add, format)
    aligned = align(total, left, right)
    sizes = [np.where(lo <= hi, np.maximum(np.abs(lo), np.abs(hi)), 0.0) for lo, hi in zip(aligned.lows, aligned.highs)]
    reach = sizes[1] + sizes[2]
    error = np.where(reach > 0.0, 4.0 * format.unit_roundoff * reach + 4.0 * least(op, format), 0.0)
    special = aligned.specials[0] if total.has_special else None
    result = aligned.result(format, aligned.lows[0] - error, aligned.highs[0] + error, special)
    outside = np.broadcast_to(reach * (1.0 + 8.0 * format.unit_roundoff) > format.high, result.cells)
    op.report(ARITHMETIC_OVERFLOW, RESULT, result, outside, gives=SPECIALS)
    return result.clamp(format.low, format.high)


@operator(
    "RotaryEmbedding",
    domain=MICROSOFT,
    error=CORRECT,
    composed_of=(gather,),
    hazards=(ARITHMETIC_OVERFLOW,),
)
def rotary_embedding(op: Call, x: Range, positions: Range, cosines: Range, sines: Range) -> Range:
    """Pairs of columns turned by the angles of their positions: x cos - y sin and x sin + y cos, extreme at corners."""
    if op.attribute("is_packed_batching", 0):
        raise NotAnalysed("sequences of several lengths packed into one")
    heads, width = int(op.attribute("num_heads", 0)), int(op.attribute("rotary_embedding_dim", 0))
    split = x
    if x.rank == 3:
        hidden = x.sizes[2]
        size = hidden // heads if heads and width else 2 * cosines.sizes[1]
        split = split_heads(x, hidden // size)
    elif x.rank != 4:
        raise NotAnalysed(f"an input of rank {x.rank}")
    if 0 in split.sizes:
        return x
    length = split.sizes[2]
    place = positions
    if positions.rank == 1:
        place = _from(reshape(positions, (1, 1)), np.arange(length, dtype=np.int64))
    result = rotated(op, split, place, cosines, sines, bool(op.attribute("interleaved", 0)))
    return join_heads(result) if x.rank == 3 else result
