"""ONNX Runtime's GroupQueryAttention: groups of heads share keys and values, and the past is a state of its own.

Keys that a query does not attend to (later ones, those before the window, what lies behind the last one) take no part at all.
16-bit tensors are evaluated in float32, as ONNX Runtime does.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.execute.meaning import NotExecutable
from tensorproof.formats import FLOAT32, INT64
from tensorproof.operators.arithmetic import div, mul
from tensorproof.operators.attention import (
    attention_weights,
    biased,
    for_heads,
    heads_apart,
    heads_joined,
    masking,
    merge_heads,
    mix,
    probabilities,
    repeat_heads,
    softcapped,
    split_heads,
    tri_state,
    with_softcap,
)
from tensorproof.operators.casts import format_of
from tensorproof.operators.contrib_attention import (
    COARSE,
    MICROSOFT,
    SCORE_RULES,
    counted_on,
    plus,
    products,
    rotated,
    scaled_scores,
    wide,
    wide_tensor,
)
from tensorproof.operators.linear import gemm
from tensorproof.operators.rotary import rotary_embedding, turned_pairs
from tensorproof.operators.table import CORRECT, Call, operator
from tensorproof.operators.trigonometric import tanh
from tensorproof.ranges.grid import Size, Span, coarse, fine, largest, smallest
from tensorproof.ranges.moving import concatenate, reshape, shape_of, slice_axis, take
from tensorproof.ranges.range import CELL_BUDGET, NAN, NEGATIVE_INFINITY, Range
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor

Integers = npt.NDArray[np.int64]


class State(NamedTuple):
    """What is known about the state before and after.

    `past` are the numbers of earlier keys of each batch and `totals` those of all keys, None where they are not known;
    `length` is that of the present state.
    """

    past: Integers | None
    totals: Integers | None
    length: Size

    def may_be_padded(self, length: int) -> bool:
        """Whether rows of a prompt of that length may end before its last query."""
        if self.past is None:
            return False
        return self.totals is None or bool((self.totals < self.past + length).any())


@operator(
    "GroupQueryAttention",
    domain=MICROSOFT,
    error=CORRECT,
    overflow=ACCUMULATION_OVERFLOW,
    composed_of=(gemm, mul, div, tanh, rotary_embedding),
    hazards=SCORE_RULES,
    coarse=COARSE,
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
    """Groups of heads share keys and values; each query attends to itself and to earlier keys: means of the values."""
    if any(other is not None for other in others) or (past_key is not None and not past_key.format.is_float):
        raise NotAnalysed("a quantised past, or queries and keys that are normalised")
    if op.attribute("sliding_window_cache", 0):
        raise NotAnalysed("a past of the size of the window")
    window = int(op.attribute("local_window_size", -1))
    if window == 0:
        raise NotAnalysed("a window without keys")
    heads, groups, format = int(op.attribute("num_heads")), int(op.attribute("kv_num_heads")), query.format
    queries, keys, values = _split(query, key, value, heads, groups)
    batch, _, length, size = queries.sizes
    state = _state(last, total, past_key, batch, length)
    if op.attribute("do_rotary", 0):
        if cosines is None or sines is None:
            raise NotAnalysed("rotary embeddings without tables")
        places, interleaved = _places(state, positions, length), bool(op.attribute("rotary_interleaved", 0))
        queries = rotated(op, queries, places, cosines, sines, interleaved)
        keys = rotated(op, keys, places, cosines, sines, interleaved)
    present_key, present_value = _extended(past_key, keys, state), _extended(past_value, values, state)
    all_keys, all_values = (repeat_heads(wide(x), heads // groups) for x in (present_key, present_value))
    queries = wide(queries)
    if all_values.cells[2] == 1 and op.outputs < 4:
        # Every mean of equal ranges is that range: only what can go wrong matters.
        queries, all_keys = queries.smash((2,)), all_keys.smash((2,))
    scores = products(op, queries, all_keys)
    cap = float(op.attribute("softcap", 0.0))
    if cap > 0.0:
        scores = softcapped(op, scores, cap)
    if attention_bias is not None:
        scores = plus(op, scores, _on_all_keys(wide(attention_bias), shape_of(all_keys)[2]), size)
    logits = biased(op, scores, _visible(op, scores, state, window))
    if sink is not None or op.attribute("smooth_softmax", -1) == 1:
        logits, all_values = _with_sink(logits, all_values, None if sink is None else wide(sink))
    result = mix(op, logits, all_values, logits.format, may_be_empty=False)
    if state.may_be_padded(length):
        # A query behind the end of its row may find its window empty: its result is 0.
        result = result.join(Range.uniform(result.shape, result.format, 0.0, 0.0))
    shown = _shown(op, scores, logits, total).with_format(format)
    return merge_heads(result).with_format(format), present_key, present_value, shown


def _split(query: Range, key: Range | None, value: Range | None, heads: int, groups: int) -> tuple[Range, Range, Range]:
    """Queries, keys and values with their heads split; packed ones are cut apart first."""
    if key is None and value is None:
        width = query.sizes[2]
        if width % (heads + 2 * groups):
            raise NotAnalysed("packed queries, keys and values whose heads differ in size")
        size = width // (heads + 2 * groups)
        cuts = (0, heads * size, (heads + groups) * size, width)
        query, key, value = (slice_axis(query, 2, start, stop) for start, stop in pairwise(cuts))
    if key is None or value is None:
        raise NotAnalysed("keys or values alone")
    queries, keys, values = split_heads(query, heads), split_heads(key, groups), split_heads(value, groups)
    if keys.sizes[2] != queries.sizes[2]:
        raise NotAnalysed("keys of another length than the queries")
    return queries, keys, values


# -- the state ---------------------------------------------------------------------------------------------------------


def _state(last: Range, total: Range, past: Range | None, batch: int, length: int) -> State:
    """Past and present lengths from the index of each last key and the largest total number of keys."""
    ends, whole = last.integers(), total.integers()
    totals = None if ends is None or ends.size != batch else ends.reshape(-1) + 1
    nothing = np.zeros(batch, np.int64)
    if past is None:
        # Without a past the present state is what is new.
        number = length if whole is None else int(whole.reshape(-1)[0])
        return State(nothing, totals, number)
    earlier = shape_of(past)[2]
    if whole is None:
        high = largest(earlier)
        return State(None, None, Span(smallest(earlier), None if high is None else high + length))
    number = int(whole.reshape(-1)[0])
    present: Size = max(number, earlier) if isinstance(earlier, int) else Span(max(number, earlier.low), None)
    if number == length:
        return State(nothing, totals, present)
    if totals is None:
        return State(None, None, present)
    before = totals - length
    if int(before.min()) < 0 or int(before.max()) > smallest(earlier):
        raise NotAnalysed("more keys than the past and the new ones have")
    return State(before, totals, present)


def _extended(past: Range | None, new: Range, state: State) -> Range:
    """The present state: the past of each batch, what is new, and a rest that is 0, or what a shared buffer held before."""
    batch, heads, length, size = new.sizes
    if past is not None and shape_of(past)[2] == 0:
        past = None
    if past is None and state.length == length:
        return new
    if isinstance(state.length, int) and state.past is not None:
        # Places in the past, in what is new, and behind them in a zero.
        place, before = np.arange(state.length), state.past[:, None]
        old = 0 if past is None else smallest(shape_of(past)[2])
        index = np.where(place < before, place, np.minimum(place - before, length) + old)
        zero = Range.uniform((batch, heads, 1, size), new.format, 0.0, 0.0)
        parts = concatenate([new, zero] if past is None else [past, new, zero], 2)
        if bool((index == index[0]).all()):
            present = take(parts, 2, index[0])
        elif new.size + parts.size <= CELL_BUDGET and batch * heads * state.length * size <= CELL_BUDGET:
            present = parts.select(lambda a: np.take_along_axis(a, index[:, None, :, None], axis=2))
        else:
            present = _stretched(parts.smash((2,)), state.length)
        return present if past is None else _with_stale(present, past, before[:, 0] + length)
    merged = _stretched(new.smash((2,)), state.length)
    merged = merged.join(Range.uniform(merged.shape, new.format, 0.0, 0.0))
    return merged if past is None else merged.join(_stretched(past.smash((2,)), state.length))


def _with_stale(present: Range, past: Range, ends: Integers) -> Range:
    """The present state where past and present share a buffer, too: behind its end stands what stood there before."""
    start, stop = int(ends.min()), min(present.sizes[2], past.sizes[2])
    if start >= stop:
        return present
    stale = slice_axis(present, 2, start, stop).join(slice_axis(past, 2, start, stop))
    parts = [slice_axis(present, 2, 0, start), stale, slice_axis(present, 2, stop, present.sizes[2])]
    return concatenate([part for part in parts if part.sizes[2]], 2)


def _stretched(x: Range, length: Size) -> Range:
    """A range of one cell along the sequence, for another length of it."""
    shape = shape_of(x)
    return Range(x.format, (*shape[:2], length, shape[3]), (*x.grid[:2], None, x.grid[3]), x.low, x.high, x.special)


def _places(state: State, positions: Range | None, length: int) -> Range:
    """The row of the tables for each token, (batch or 1, sequence)."""
    if positions is not None:
        if state.past is None:
            low, high = positions.hull()
            return Range.uniform((1, length), INT64, low, high + length)
        if state.past.any():
            return positions
        # Of a first prompt only the first position counts (GroupQueryAttention's schema).
        return counted_on(slice_axis(slice_axis(positions, 0, 0, 1), 1, 0, 1), length)
    if state.past is None:
        return Range.uniform((1, length), INT64, 0.0, 2.0**31)
    return Range.constant(state.past[:, None] + np.arange(length, dtype=np.int64))


# -- scores ------------------------------------------------------------------------------------------------------------


def _visible(op: Call, scores: Range, state: State, window: int) -> Range:
    """0 for keys that a query attends to, and -inf for the others; both where that is not known."""
    batch, heads, length, _ = (smallest(size) for size in shape_of(scores))
    keys = state.length
    if state.past is None or not isinstance(keys, int) or batch * heads * length * keys > CELL_BUDGET:
        one = (1, 1, 1, 1)
        return tri_state(scores.format, one, coarse(one), np.ones(one, np.bool_), np.zeros(one, np.bool_))
    place = np.arange(keys)[None, None, None, :]
    own = state.past[:, None, None, None] + np.arange(length)[None, None, :, None]
    earlier = np.broadcast_to(place <= own if op.attribute("causal", 1) else place < keys, (batch, 1, length, keys))
    inside = earlier & (place > own - window) if window > 0 else earlier
    # Rows of a prompt may end before some of its queries; those see what the last one sees, before their own window.
    if state.totals is None:
        may, must = earlier, np.zeros(earlier.shape, np.bool_)
    else:
        totals = state.totals[:, None, None, None]
        must = inside & (place < totals) & (own < totals)
        may = np.where(own < totals, must, earlier)
    shape = (batch, 1, length, keys)
    return tri_state(scores.format, shape, fine(shape), may, must)


def _on_all_keys(bias: Range, keys: Size) -> Range:
    """A bias with as many columns as the present state has keys; those that it lacks are not attended to."""
    have = shape_of(bias)[3]
    if have == keys:
        return bias
    if isinstance(have, int) and isinstance(keys, int) and have < keys:
        rest = Range.uniform((*shape_of(bias)[:3], keys - have), bias.format, 0.0, 0.0)
        return concatenate([bias, rest], 3)
    bias = bias.smash((3,))
    return Range(bias.format, (*shape_of(bias)[:3], 1), bias.grid, bias.low, bias.high, bias.special)


def _with_sink(logits: Range, values: Range, sink: Range | None) -> tuple[Range, Range]:
    """One more key of each head, whose score is given (or 0) and whose value is 0: it takes its share of the weights."""
    shape = (*shape_of(logits)[:3], 1)
    extra = Range.uniform(shape, logits.format, 0.0, 0.0)
    if sink is not None:
        column = reshape(sink, (1, sink.sizes[0], 1, 1))
        extra = Range(logits.format, shape, column.grid, column.low, column.high, column.special)
    batch, heads, _, size = shape_of(values)
    nothing = Range.uniform((batch, heads, 1, size), values.format, 0.0, 0.0)
    return concatenate([logits, extra], 3), concatenate([values, nothing], 2)


def _shown(op: Call, scores: Range, logits: Range, total: Range) -> Range:
    """The optional output of scores (qk_output 1) or weights (2), 0 where a key takes no part."""
    whole, shape = total.integers(), shape_of(scores)
    length: Size = Span(0, None) if whole is None else int(whole.reshape(-1)[0])
    weights = int(op.attribute("qk_output", 0)) == 2
    shown = probabilities(op, logits, logits.format) if weights else _or_zero(logits)
    if isinstance(length, int) and isinstance(shape[3], int) and length <= shape[3]:
        return slice_axis(shown, 3, 0, length)
    low, high = shown.hull()
    return Range.uniform((*shape[:3], length), scores.format, min(low, 0.0), max(high, 0.0), shown.any_special)


def _or_zero(logits: Range) -> Range:
    """0 in place of the scores of keys that take no part; the scores themselves where they do."""
    maskable = (logits.special & np.uint8(NEGATIVE_INFINITY)) != 0
    low = np.where(maskable, np.minimum(logits.low, 0.0), logits.low)
    high = np.where(maskable, np.maximum(logits.high, 0.0), logits.high)
    return logits.replace(low, high, logits.special & np.uint8(NAN))


# -- on torch ----------------------------------------------------------------------------------------------------------


@group_query_attention.meaning
def _(
    run: Run,
    query: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    past_key: Tensor | None,
    past_value: Tensor | None,
    last: Tensor,
    total: Tensor,
    cosines: Tensor | None = None,
    sines: Tensor | None = None,
    positions: Tensor | None = None,
    attention_bias: Tensor | None = None,
    sink: Tensor | None = None,
    *others: Tensor | None,
) -> tuple[Tensor, ...]:
    if any(other is not None for other in others) or run.attribute("sliding_window_cache", 0):
        raise NotExecutable("GroupQueryAttention with a quantised past, normalised queries, or a past of the window's size")
    q, k, v = _heads_of(query, key, value, int(run.attribute("num_heads")), int(run.attribute("kv_num_heads")))
    number, totals, length = int(run.whole(total)), run.whole(last).reshape(-1, 1) + 1, q.shape[2]
    is_prompt = past_key is None or number == length
    before = run.torch.zeros_like(totals) if is_prompt else totals - length
    own = before + run.torch.arange(length)
    if run.attribute("do_rotary", 0):
        if cosines is None or sines is None:
            raise NotExecutable("rotary embeddings without tables")
        places = own
        if positions is not None:
            # Of a first prompt only the first position counts (GroupQueryAttention's schema).
            given = run.whole(positions)
            places = given if bool(before.any()) else given[:1, :1] + run.torch.arange(length)
        interleaved = bool(run.attribute("rotary_interleaved", 0))
        q, k = (turned_pairs(run, x, cosines[places], sines[places], interleaved) for x in (q, k))
    present_key, present_value = (_present(run, past, new, before, number) for past, new in ((past_key, k), (past_value, v)))
    all_keys, all_values = (for_heads(wide_tensor(run, x), q.shape[1]) for x in (present_key, present_value))
    scores = scaled_scores(run, wide_tensor(run, q), all_keys)
    logits = with_softcap(run, scores, float(run.attribute("softcap", 0.0)))
    if attention_bias is not None:
        missing = max(all_keys.shape[2] - attention_bias.shape[3], 0)
        logits = logits + run.torch.nn.functional.pad(wide_tensor(run, attention_bias), (0, missing))
    if not _is_tiled(run, query, sink):
        own = own.minimum(totals - 1)
    visible = _is_visible(run, own, totals, all_keys.shape[2])
    weights = _weights(run, logits, visible, sink)
    y = heads_joined(weights @ all_values).to(query.dtype)
    shown = weights if int(run.attribute("qk_output", 0)) == 2 else logits.masked_fill(~visible, 0.0)
    return y, present_key, present_value, shown[..., :number].to(query.dtype)


def _heads_of(query: Tensor, key: Tensor | None, value: Tensor | None, heads: int, groups: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values with their heads split; packed ones are cut apart first (`_split`)."""
    if key is None and value is None:
        size = query.shape[2] // (heads + 2 * groups)
        query, key, value = query.split([heads * size, groups * size, groups * size], 2)
    if key is None or value is None:
        raise NotExecutable("GroupQueryAttention with keys or values alone")
    return heads_apart(query, heads), heads_apart(key, groups), heads_apart(value, groups)


def _present(run: Run, past: Tensor | None, new: Tensor, before: Tensor, number: int) -> Tensor:
    """The present state: the past of each batch, what is new, and a rest that is 0 (`_extended`)."""
    batch, heads, length, size = new.shape
    old = 0 if past is None else past.shape[2]
    place = run.torch.arange(max(number, old))
    index = run.torch.where(place < before, place, (place - before).clamp(max=length) + old)
    parts = run.torch.cat([*([] if past is None else [past]), new, new.new_zeros(batch, heads, 1, size)], 2)
    return parts.gather(2, index[:, None, :, None].expand(-1, heads, -1, size))


def _is_tiled(run: Run, query: Tensor, sink: Tensor | None) -> bool:
    """Which of its two kernels ONNX Runtime's CPU provider takes.

    They differ in queries behind the end of their row: the tiled one places their window at their own position, where it may
    be empty, the other one at the end of the row (seen in ONNX Runtime 1.31).
    """
    is_plain = not run.attribute("softcap", 0.0) and not run.attribute("qk_output", 0)
    is_smooth = sink is not None or run.attribute("smooth_softmax", -1) == 1
    return run.outputs > 2 and is_plain and not is_smooth and format_of(run, 0, query) is FLOAT32


def _is_visible(run: Run, own: Tensor, totals: Tensor, keys: int) -> Tensor:
    """Whether a query attends to a key, (batch, 1, queries, keys): no later one, none before its window or behind the end."""
    place, own, totals = run.torch.arange(keys), own[:, None, :, None], totals[:, None, :, None]
    window = int(run.attribute("local_window_size", -1))
    visible = (place < totals).expand(-1, -1, own.shape[2], -1)
    if run.attribute("causal", 1):
        visible = visible & (place <= own)
    return visible & (place > own - window) if window > 0 else visible


def _weights(run: Run, logits: Tensor, visible: Tensor, sink: Tensor | None) -> Tensor:
    """softmax(logits) among the visible keys, and one more key of each head where a sink takes its share (`_with_sink`)."""
    logits = logits + masking(run, visible, -np.inf, logits)
    if sink is None and run.attribute("smooth_softmax", -1) != 1:
        return attention_weights(run, logits, ~visible.any(-1, keepdim=True))
    extra = logits.new_zeros(1) if sink is None else wide_tensor(run, sink)[:, None, None]
    extra = extra.expand(*logits.shape[:3], 1)
    return run.torch.softmax(run.torch.cat((logits, extra), -1), -1)[..., :-1]
