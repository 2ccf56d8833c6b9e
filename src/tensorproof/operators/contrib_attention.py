"""ONNX Runtime's Attention, MultiHeadAttention and RotaryEmbedding.

Scores are the products of queries and keys times a scale, plus what masks and biases add; masks add a finite number (-10000 by
default), so that a row whose keys are all masked is a mean, too. 16-bit tensors are evaluated in float32, as ONNX Runtime does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.execute.meaning import NotExecutable
from tensorproof.formats import FLOAT32, Array
from tensorproof.operators.arithmetic import add
from tensorproof.operators.attention import biased, heads_apart, heads_joined, masking, merge_heads, mix, split_heads
from tensorproof.operators.linear import gemm
from tensorproof.operators.rotary import rotary_embedding, turned_pairs
from tensorproof.operators.table import CORRECT, Call, operator
from tensorproof.ranges.moving import concatenate, reshape, slice_axis, transpose
from tensorproof.ranges.range import CELL_BUDGET, Range, align
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW
from tensorproof.rules.masked_softmax import MASKED_SOFTMAX

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor

MICROSOFT = "com.microsoft"
#: What masks add to scores (ONNX Runtime's default of `mask_filter_value`), and what its CPU kernels add to later keys.
FILTER = -10000.0
LATER = FLOAT32.low
#: Numbers beyond this absorb every score that is added to them.
ABSORBING = 1e30
#: Rules that attention reports itself, and why its ranges are wider than what is reached.
SCORE_RULES = (ARITHMETIC_OVERFLOW, MASKED_SOFTMAX)
COARSE = "scores are bounded one by one: that they share queries and keys, and projections their input, is not used"

Mask = npt.NDArray[np.bool_]


def wide(x: Range) -> Range:
    """The same values in the format of the evaluation: float32 for narrower tensors."""
    return x.with_format(FLOAT32) if x.format.bits < 32 else x


# -- scores ------------------------------------------------------------------------------------------------------------


def products(op: Call, queries: Range, keys: Range) -> Range:
    """scale * Q K^T; the default scale is 1 / sqrt(size) as float32 computes it."""
    size = np.float32(queries.sizes[3])
    scale = float(op.attribute("scale", 0.0)) or float(np.float32(1.0) / np.sqrt(size))
    return op.apply(gemm, queries, transpose(keys, (0, 1, 3, 2)), alpha=scale)


def plus(op: Call, scores: Range, offset: Range, terms: int) -> Range:
    """Scores of `terms` products plus what masks and biases add, which may be added first, last or in between."""
    total = biased(op, scores, offset)
    aligned = align(total, offset)
    share = (terms + 4.0) * total.format.unit_roundoff
    below, above = (share * np.where(np.abs(end) < ABSORBING, np.abs(end), 0.0) for end in (aligned.lows[1], aligned.highs[1]))
    special = aligned.specials[0] if total.has_special else None
    result = aligned.result(total.format, aligned.lows[0] - below, aligned.highs[0] + above, special)
    return result.clamp(total.format.low, total.format.high)


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
    mask = Range.constant(later)
    aligned = align(offset, mask)
    hidden = aligned.lows[1] > 0
    low, high = np.where(hidden, LATER, aligned.lows[0]), np.where(hidden, LATER, aligned.highs[0])
    return aligned.result(FLOAT32, low, high)


def _masked_attention(
    op: Call, queries: Range, keys: Range, values: Range, mask: Range | None, bias: Range | None
) -> tuple[Range, Range]:
    """Attention and MultiHeadAttention from heads on: the result with its heads joined, and the scores."""
    format = values.format
    queries, keys, values = wide(queries), wide(keys), wide(values)
    filter = float(op.attribute("mask_filter_value", FILTER))
    if not abs(filter) <= FLOAT32.high:
        raise NotAnalysed("a mask that is infinite")
    if 0 in (*(values.shape or ()), *(keys.shape or ())):
        raise NotAnalysed("there are no keys")
    extent = extent_of(queries, keys)
    if values.cells[2] == 1 and op.outputs < 4:
        # Every mean of equal ranges is that range: only what can go wrong matters.
        queries, keys = queries.smash((2,)), keys.smash((2,))
    size = queries.sizes[3]
    scores = products(op, queries, keys)
    offset = None if mask is None else padding_mask(mask, extent, filter)
    if op.attribute("unidirectional", 0) and not (extent is not None and extent.queries == 1):
        offset = with_later_keys(offset, extent)
    if offset is not None:
        offset = offset.with_format(scores.format)
    if bias is not None:
        bias = wide(bias)
        offset = bias if offset is None else biased(op, bias, offset)
    if offset is not None:
        scores = plus(op, scores, offset, size)
    result = mix(op, scores, values, values.format, may_be_empty=True)
    return merge_heads(result).with_format(format), scores.with_format(format)


def wide_tensor(run: Run, x: Tensor) -> Tensor:
    """The same values in the format of the evaluation: float32 for narrower tensors."""
    return x.to(run.torch.float32) if x.dtype.itemsize < 4 else x


def scaled_scores(run: Run, q: Tensor, k: Tensor) -> Tensor:
    """scale * Q K^T; 1 / sqrt(size of a head) is the default scale."""
    return (q @ k.transpose(2, 3)) * (float(run.attribute("scale", 0.0)) or q.shape[3] ** -0.5)


def attended(
    run: Run, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, attention_bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Attention and MultiHeadAttention on torch from heads on: the result with its heads joined, and the scores."""
    dtype = v.dtype
    q, k, v = (wide_tensor(run, x) for x in (q, k, v))
    scores = scaled_scores(run, q, k)
    batch, _, queries, keys = scores.shape
    offset: Tensor | None = None
    if mask is not None:
        visible, filter = _visible(run, mask, batch, queries, keys), float(run.attribute("mask_filter_value", FILTER))
        offset = masking(run, visible, filter, scores)
        offset = offset if mask.dim() == 1 else run.passing(offset, mask.reshape(visible.shape))
    if run.attribute("unidirectional", 0) and queries > 1:
        later = run.torch.arange(keys) > run.torch.arange(queries)[:, None] + (keys - queries)
        offset = run.torch.where(later, LATER, scores.new_zeros(()) if offset is None else offset)
    if attention_bias is not None:
        scores = scores + wide_tensor(run, attention_bias)
    if offset is not None:
        scores = scores + offset
    result = run.torch.softmax(scores, -1) @ v
    return heads_joined(result).to(dtype), scores.to(dtype)


def _visible(run: Run, mask: Tensor, batch: int, queries: int, keys: int) -> Tensor:
    """The keys that a padding mask leaves, (batch, 1, 1 or queries, keys): lengths, ends and starts, or 0 and 1."""
    if mask.dim() == 1:
        ends = run.whole(mask)[:, None]
        place = run.torch.arange(keys)
        visible = place < ends[:batch]
        if len(mask) == 2 * batch:
            visible = visible & (place >= ends[batch:])
        return visible[:, None, None]
    if mask.dim() > 3:
        raise NotExecutable(f"a mask of shape {tuple(mask.shape)}")
    return (mask > 0).reshape(batch, 1, -1, keys)


@operator(
    "Attention",
    domain=MICROSOFT,
    error=CORRECT,
    overflow=ACCUMULATION_OVERFLOW,
    composed_of=(gemm, add),
    hazards=SCORE_RULES,
    coarse=COARSE,
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
        norm = projected.norm
        projected = projected.replace(np.minimum(projected.low, low), np.maximum(projected.high, high), projected.special)
        if norm is not None:
            projected.norm = norm.rounded(projected, format.unit_roundoff, format.smallest_subnormal)
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


@attention.meaning
def _(
    run: Run,
    x: Tensor,
    weights: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    past: Tensor | None = None,
    attention_bias: Tensor | None = None,
    past_length: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    if run.attribute("do_rotary", 0) or run.attribute("past_present_share_buffer", 0) or past_length is not None:
        raise NotExecutable("com.microsoft::Attention with rotary embeddings, or past and present in one buffer")
    projected = wide_tensor(run, x) @ wide_tensor(run, weights)
    if bias is not None:
        projected = projected + wide_tensor(run, bias)
    sizes = run.attribute("qkv_hidden_sizes") or [weights.shape[1] // 3] * 3
    return attended_projections(run, projected.to(x.dtype), sizes, mask, past, attention_bias)


def attended_projections(
    run: Run,
    projected: Tensor,
    sizes: Sequence[int],
    mask: Tensor | None,
    past: Tensor | None,
    attention_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Attention from projected queries, keys and values of these sizes on, and the keys and values as a present state."""
    q, k, v = (heads_apart(part, int(run.attribute("num_heads"))) for part in projected.split(list(sizes), 2))
    if past is not None:
        k, v = run.torch.cat((past[0], k), 2), run.torch.cat((past[1], v), 2)
    result, _ = attended(run, q, k, v, mask, attention_bias)
    return result, run.torch.stack((k, v)) if k.shape == v.shape else None


@operator(
    "MultiHeadAttention",
    domain=MICROSOFT,
    error=CORRECT,
    overflow=ACCUMULATION_OVERFLOW,
    composed_of=(gemm, add),
    hazards=SCORE_RULES,
    coarse=COARSE,
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


@multi_head_attention.meaning
def _(
    run: Run,
    query: Tensor,
    key: Tensor | None = None,
    value: Tensor | None = None,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    attention_bias: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    past_length: Tensor | None = None,
    cache_indirection: Tensor | None = None,
) -> tuple[Tensor, ...]:
    if past_length is not None or cache_indirection is not None:
        raise NotExecutable("com.microsoft::MultiHeadAttention with past and present in one buffer")
    q, k, v = _apart(query, key, value, int(run.attribute("num_heads")))
    if bias is not None:
        parts = bias.split([x.shape[1] * x.shape[3] for x in (q, k, v)])
        q, k, v = (x + part.reshape(1, x.shape[1], 1, x.shape[3]) for x, part in zip((q, k, v), parts))
    if past_key is not None and past_value is not None:
        k, v = run.torch.cat((past_key, k), 2), run.torch.cat((past_value, v), 2)
    result, scores = attended(run, q, k, v, mask, attention_bias)
    return result, k, v, scores


def _apart(query: Tensor, key: Tensor | None, value: Tensor | None, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values, (batch, heads, sequence, size), from all forms that the operator takes (`_unpacked`)."""
    if query.dim() == 5:
        q, k, v = query.transpose(1, 2).unbind(3)
        return q, k, v
    q = heads_apart(query, heads)
    if key is not None and key.dim() == 5:
        k, v = key.transpose(1, 2).unbind(3)
        return q, k, v
    if key is None or value is None:
        raise NotExecutable("com.microsoft::MultiHeadAttention without keys or values")
    if key.dim() == 4:
        return q, key, value
    return q, heads_apart(key, heads), heads_apart(value, heads)


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


# -- rotary embeddings -------------------------------------------------------------------------------------------------


def counted_on(first: Range, length: int) -> Range:
    """Positions that count on from a first one, (1, sequence)."""
    steps = np.arange(length, dtype=np.int64)
    exact = first.integers()
    if exact is not None:
        return Range.constant((int(exact.reshape(-1)[0]) + steps)[None, :])
    low, high = first.hull()
    lows: Array = np.array(low + steps[None, :], np.float64)
    highs: Array = np.array(high + steps[None, :], np.float64)
    return Range.elements(first.format, lows, highs)


def rotated(op: Call, x: Range, places: Range, cosines: Range, sines: Range, interleaved: bool) -> Range:
    """Pairs of columns of (batch, heads, sequence, size) turned by the angles in the tables' rows at these places."""
    rows, half = cosines.sizes
    if 2 * half > x.sizes[3]:
        raise NotAnalysed("more rotated columns than a head has")
    if places.array is None:
        places = places.clamp(0.0, float(rows - 1))
    attributes = {"interleaved": int(interleaved), "rotary_embedding_dim": 2 * half}
    return op.apply(rotary_embedding, x, cosines, sines, places, **attributes)


@operator(
    "RotaryEmbedding",
    domain=MICROSOFT,
    error=CORRECT,
    composed_of=(rotary_embedding,),
)
def contrib_rotary_embedding(op: Call, x: Range, positions: Range, cosines: Range, sines: Range) -> Range:
    """Pairs of columns turned by the angles of their positions: x cos - y sin and x sin + y cos, extreme at corners."""
    if op.attribute("is_packed_batching", 0):
        raise NotAnalysed("sequences of several lengths packed into one")
    if x.rank not in (3, 4):
        raise NotAnalysed(f"an input of rank {x.rank}")
    split = x
    if x.rank == 3:
        heads = int(op.attribute("num_heads", 0))
        if not (heads and op.attribute("rotary_embedding_dim", 0)):
            # Without the size of the rotated part the tables tell that of a head.
            heads = x.sizes[2] // (2 * cosines.sizes[1])
        split = split_heads(x, heads)
    if 0 in split.sizes:
        return x
    places = counted_on(positions, split.sizes[2]) if positions.rank == 1 else positions
    result = rotated(op, split, places, cosines, sines, bool(op.attribute("interleaved", 0)))
    return merge_heads(result) if x.rank == 3 else result


@contrib_rotary_embedding.meaning
def _(run: Run, x: Tensor, positions: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    if run.attribute("is_packed_batching", 0):
        raise NotExecutable("com.microsoft::RotaryEmbedding of sequences of several lengths packed into one")
    split = x
    if x.dim() == 3:
        heads = int(run.attribute("num_heads", 0))
        if not (heads and run.attribute("rotary_embedding_dim", 0)):
            heads = x.shape[2] // (2 * cosines.shape[1])
        split = heads_apart(x, heads)
    places = run.whole(positions)
    if places.dim() == 1:
        places = (places + run.torch.arange(split.shape[2]))[None]
    result = turned_pairs(run, split, cosines[places], sines[places], bool(run.attribute("interleaved", 0)))
    return heads_joined(result) if x.dim() == 3 else result
