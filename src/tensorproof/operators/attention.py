"""Attention: scaled products of queries and keys, masked, through a softmax, mixing the values (ONNX Attention-23 to -25).

The assumed evaluation is that of the standard's text: queries and keys are both multiplied by sqrt(scale) before the
product. The result is a weighted average of the values, bounded exactly for boxes of scores and values. That scores share
their query is used as far as a softmax does not change when all keys move by the same vector.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tensorproof.errors import UnknownShape
from tensorproof.formats import BY_ONNX_CODE, FLOAT64, Array, Format
from tensorproof.operators.activations import least
from tensorproof.operators.arithmetic import div, mul
from tensorproof.operators.linear import matmul
from tensorproof.operators.softmax import FUNCTION_ERROR, exponential_sum_error, softmax
from tensorproof.operators.table import CORRECT, RESULT, Attributed, Call, Operator, evaluate, operator
from tensorproof.operators.trigonometric import tanh
from tensorproof.ranges.elementwise import binary, increasing
from tensorproof.ranges.grid import Cuts, Grid, Shape, Size, cell_sizes, largest, smallest, union
from tensorproof.ranges.moving import concatenate, moved, replaced, reshape, shape_of, transpose
from tensorproof.ranges.norms import Norm, along, times
from tensorproof.ranges.range import (
    CELL_BUDGET,
    INFINITIES,
    NAN,
    NEGATIVE_INFINITY,
    POSITIVE_INFINITY,
    SPECIALS,
    Flags,
    Range,
    align,
)
from tensorproof.ranges.weighted_average import mixed, work
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW
from tensorproof.rules.masked_softmax import MASKED_SOFTMAX
from tensorproof.targets import TORCH_CPU

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor

#: Terms of the exact bound; larger problems merge queries, then features, then keys.
_BUDGET = 1 << 21
_SCORES, _KEYS = 2, 3

#: Softmax of rows that may be masked entirely, which is reported where the values are mixed.
_guarded_softmax = Operator("Softmax", "", softmax.block, CORRECT, None, (0.0, 1.0), None, None, (), False, ())


# -- heads -----------------------------------------------------------------------------------------------------------


def split_heads(x: Range, heads: int) -> Range:
    """(batch, sequence, heads * size) as (batch, heads, sequence, size)."""
    batch, length, width = shape_of(x)
    if not isinstance(width, int):
        raise UnknownShape("the size of a head depends on the data")
    return transpose(reshape(x, (batch, length, heads, width // heads)), (0, 2, 1, 3))


def merge_heads(x: Range) -> Range:
    """(batch, heads, sequence, size) as (batch, sequence, heads * size)."""
    batch, heads, length, width = shape_of(x)
    return reshape(transpose(x, (0, 2, 1, 3)), (batch, length, smallest(heads) * smallest(width)))


def repeat_heads(x: Range, times: int) -> Range:
    """Each head of the keys and values for a group of neighbouring query heads."""
    if times == 1:
        return x
    if x.array is not None:
        return Range.constant(np.repeat(x.array, times, axis=1), x.format)
    heads, cuts = shape_of(x)[1], x.grid[1]
    grid = (x.grid[0], None if cuts is None else cuts * times, *x.grid[2:])
    return moved(x, replaced(shape_of(x), 1, smallest(heads) * times), grid, lambda a: a)


# -- masks -----------------------------------------------------------------------------------------------------------


def additive(mask: Range, format: Format) -> Range:
    """A mask as a bias: where a truth value is false, -inf; numbers as they are."""
    if mask.format.kind != "bool":
        return mask.with_format(format) if mask.format is not format else mask
    may_attend, must_attend = mask.high > 0, mask.low > 0
    return tri_state(format, mask.shape or (), mask.grid, may_attend, must_attend)


def tri_state(format: Format, shape: Shape, grid: Grid, may: npt.NDArray[np.bool_], must: npt.NDArray[np.bool_]) -> Range:
    """A bias of 0 where a key may be attended to, or -inf where that is not certain."""
    special = np.where(must, np.uint8(0), np.uint8(NEGATIVE_INFINITY))
    return Range(format, shape, grid, np.where(may, 0.0, np.inf), np.where(may, 0.0, -np.inf), special)


def padded(mask: Range, total: Size) -> Range:
    """A mask with fewer keys than there are: those that are missing are masked (ONNX Attention-23).

    By the same text a mask broadcasts: one column may stand for all keys, too.
    """
    size = shape_of(mask)[-1]
    if not isinstance(size, int) or not isinstance(total, int) or size >= total:
        return mask
    shape = (*shape_of(mask)[:-1], total - size)
    missing = Range.uniform(shape, mask.format, np.inf, -np.inf, NEGATIVE_INFINITY)
    if size == 1:
        special = mask.special | np.uint8(NEGATIVE_INFINITY)
        missing = Range(mask.format, shape, (*mask.grid[:-1], None), mask.low, mask.high, special)
    return concatenate((mask, missing), mask.rank - 1)


@dataclass(frozen=True, slots=True)
class Band:
    """Keys that a query at position i + offset attends to by their distance: from `farthest` before to `next` after it.

    `offset` and `length` (the number of keys that are not padding) lie in intervals, one per sample or one for all.
    """

    offset: tuple[Array, Array]
    before: float = np.inf
    after: float = np.inf
    length: tuple[Array, Array] | None = None

    def bias(self, format: Format, q: Range, k: Range, per_sample: bool) -> Range:
        """The band as a bias of shape (batch or 1, 1, queries, keys)."""
        batch, queries, keys = shape_of(q)[0], shape_of(q)[2], shape_of(k)[2]
        if not (isinstance(queries, int) and isinstance(keys, int)):
            unknown = np.ones((1, 1, 1, 1), np.bool_)
            return tri_state(format, (1, 1, queries, keys), (None,) * 4, unknown, ~unknown)
        cells = len(self.offset[0]) * q.cells[0] * q.cells[1]
        fine = cells * queries * keys <= CELL_BUDGET
        rows, columns = (_positions(n, x.grid[2], fine) for n, x in ((queries, q), (keys, k)))
        low, high = (part.reshape(-1, 1, 1, 1) for part in self.offset)
        nearest = rows[0][:, None] + low - (columns[1][None, :] - 1)
        farthest = rows[1][:, None] - 1 + high - columns[0][None, :]
        may = (farthest >= -self.after) & (nearest <= self.before)
        must = (nearest >= -self.after) & (farthest <= self.before)
        if self.length is not None:
            low, high = (part.reshape(-1, 1, 1, 1) for part in self.length)
            may, must = may & (columns[0] < high), must & (columns[1] <= low)
        samples = smallest(batch) if per_sample else 1
        cuts: Cuts = np.arange(samples + 1) if samples > 1 and len(may) > 1 else None
        grid = (cuts, None, _cuts(rows), _cuts(columns))
        return tri_state(format, (samples, 1, queries, keys), grid, may, must)

    def leaves_a_key(self, queries: Size, keys: Size) -> bool:
        """Whether every query surely attends to at least one key."""
        if self.length is not None:
            return False
        if np.isinf(self.before) and bool((self.offset[0] + self.after >= 0).all()):
            return smallest(keys) > 0
        if not (isinstance(queries, int) and isinstance(keys, int)):
            return False
        positions = np.arange(queries)[:, None] + np.concatenate(self.offset)[None, :]
        first, last = np.maximum(positions - self.before, 0), np.minimum(positions + self.after, keys - 1)
        return bool((first <= last).all())


def _positions(size: int, cuts: Cuts, fine: bool) -> tuple[Array, Array]:
    """First position of each cell, and the one after its last."""
    if fine:
        cuts = np.arange(size + 1, dtype=np.int64)
    elif cuts is None:
        cuts = np.array([0, size], np.int64)
    return cuts[:-1].astype(np.float64), cuts[1:].astype(np.float64)


def _cuts(cells: tuple[Array, Array]) -> Cuts:
    return None if len(cells[0]) == 1 else np.append(cells[0], cells[1][-1]).astype(np.int64)


# -- the computation -------------------------------------------------------------------------------------------------


def widened(op: Call, x: Range, roundings: float) -> Range:
    """The range of results that may have been rounded a few times more, or in another order."""
    relative, absolute = 1.01 * roundings * x.format.unit_roundoff, least(op, x.format)
    pad = relative * x.magnitude() + absolute
    result = x.replace(x.low - pad, x.high + pad, x.special)
    result.norm = None if x.norm is None else x.norm.rounded(x, relative, absolute)
    return result


def scores(op: Call, q: Range, k: Range, scale: float) -> Range:
    """scale * q k^T."""
    root = np.sqrt(abs(scale))
    factors = np.copysign(root, scale), root
    # The root is a float32 number whatever the tensor's format.
    roundings = 3.0 + 2.0**-24 / q.format.unit_roundoff
    q, k = (
        widened(op, op.apply(mul, x, Range.constant(np.asarray(factor), x.format)), roundings) for x, factor in zip((q, k), factors)
    )
    return op.apply(matmul, q, transpose(k, (0, 1, 3, 2)))


def centred(op: Call, q: Range, k: Range, scale: float, logits: Range, bias: Range | None) -> Range:
    """The logits up to a term that all keys of a query share: scale * q (k - c)^T + bias, c the mean key.

    Their rounding errors are those of `logits`, whose special values they keep.
    """
    if q.low is q.high or bool((q.low == q.high).all()) or k.cells[2] <= 1:
        return logits
    empty = k.low > k.high
    low, high = np.where(empty, 0.0, k.low), np.where(empty, 0.0, k.high)
    mean = (low / 2 + high / 2).mean(axis=2, keepdims=True)
    ends = q.low * scale, q.high * scale
    size = np.maximum(np.abs(low), np.abs(high)) + np.abs(mean)

    def product(a_low: Array, a_high: Array, b_low: Array, b_high: Array) -> Range:
        """In float64, where nothing overflows and no error is reported twice."""
        a, b = q.replace(a_low, a_high, None, FLOAT64), k.replace(b_low, b_high, None, FLOAT64)
        return evaluate(Call(matmul, {}), (a, transpose(b, (0, 1, 3, 2))))

    result = product(np.minimum(*ends), np.maximum(*ends), low - mean, high - mean)
    reach = product(np.abs(scale) * q.magnitude(), np.abs(scale) * q.magnitude(), size, size)
    if bias is not None:
        result = binary(result, bias.without_special(), increasing(np.add), np.add, FLOAT64)
    aligned = align(logits, result, reach)
    u, accumulator = q.format.unit_roundoff, op.accumulation(q.format)
    relative = (smallest(shape_of(q)[3]) + 4) * accumulator.unit_roundoff + 10 * u + 2.0**-22
    absent = aligned.lows[0] > aligned.highs[0]
    size = np.where(absent, 0.0, np.maximum(np.abs(aligned.lows[0]), np.abs(aligned.highs[0])))
    error = relative * aligned.highs[2] + 2.1 * max(u, logits.format.unit_roundoff) * size + 64 * least(op, q.format)
    low, high = aligned.lows[1] - error, aligned.highs[1] + error
    if not np.isfinite(np.where(absent, 0.0, high - low)).all():
        return logits
    return aligned.result(logits.format, np.where(absent, np.inf, low), np.where(absent, -np.inf, high), aligned.specials[0])


def softcapped(op: Call, x: Range, softcap: float) -> Range:
    """softcap * tanh(x / softcap)."""
    cap = Range.constant(np.asarray(softcap), x.format)
    return widened(op, op.apply(mul, op.apply(tanh, op.apply(div, x, cap)), cap), 2.0)


def biased(op: Call, x: Range, bias: Range) -> Range:
    """Scores plus a bias. A sum below the smallest number is -inf, which masks; one above the largest is an overflow."""
    return converted(op, binary(x, bias, increasing(np.add), np.add, x.format), x.format)


def converted(op: Call, x: Range, format: Format) -> Range:
    """Scores rounded into a format; below its smallest number they are -inf."""
    low, high = format.round_nearest(x.low), format.round_nearest(x.high)
    nonempty = low <= high
    below, above = (low < format.low) & nonempty, (high > format.high) & nonempty
    special = x.special | np.where(below, np.uint8(NEGATIVE_INFINITY), np.uint8(0))
    result = x.replace(low, high, special, format)
    op.report(ARITHMETIC_OVERFLOW, RESULT, result, above, gives=NAN)
    return result.clamp(format.low, format.high)


def mix(op: Call, logits: Range, v: Range, format: Format, *, may_be_empty: bool) -> Range:
    """softmax(logits) @ v; the softmax is computed in `format`.

    A row without any key is 0 since an erratum to Attention-23, and NaN in runtimes that are older than it. In PyTorch it is 0
    (2.13, all kernels of the CPU).
    """
    if 0 in logits.cells or 0 in v.cells:
        return Range.uniform((*shape_of(logits)[:_KEYS], shape_of(v)[-1]), v.format, 0.0, 0.0)
    whole = v
    logits, v = _on_common_cells(logits, v)
    keys = shape_of(logits)[_KEYS]
    terms = largest(keys)
    if terms is None:
        raise UnknownShape("the number of keys depends on the data")
    # A cell of keys whose number is not known averages like a cell of one key.
    counts = cell_sizes(logits.grid, logits.shape or (), _KEYS).astype(np.float64) if isinstance(keys, int) else np.ones(1)
    infinite = (logits.special & POSITIVE_INFINITY) != 0
    op.report(MASKED_SOFTMAX, RESULT, logits, infinite, gives=NAN)
    masked = logits.low > logits.high
    maskable = masked | ((logits.special & NEGATIVE_INFINITY) != 0)
    u = format.unit_roundoff
    # x - max and its exponential: the same errors in numerator and denominator.
    top = np.where(masked, -np.inf, logits.high).max(axis=-1, keepdims=True)
    drift = [np.where(masked, 0.0, 1.01 * u * (top - end) + FUNCTION_ERROR * u) for end in (logits.low, logits.high)]
    low, high = np.where(masked, 0.0, logits.low) - drift[0], np.where(masked, 0.0, logits.high) + drift[1]
    empty = v.low > v.high
    value_low, value_high = np.where(empty, 0.0, v.low), np.where(empty, 0.0, v.high)
    result_low, result_high = mixed(low, high, maskable, masked, value_low, value_high, counts)
    unattended = masked.all(axis=-1, keepdims=True)
    lonely = maskable.all(axis=-1, keepdims=True) & may_be_empty
    result_low = np.where(lonely, np.where(unattended, 0.0, np.minimum(result_low, 0.0)), result_low)
    result_high = np.where(lonely, np.where(unattended, 0.0, np.maximum(result_high, 0.0)), result_high)
    if op.target is not TORCH_CPU:
        op.report(MASKED_SOFTMAX, RESULT, logits, np.broadcast_to(lonely, logits.cells), gives=NAN)
    # Weights are rounded once or twice, and the products summed; tiny weights vanish.
    size = np.maximum(np.abs(value_low), np.abs(value_high))
    unused = np.logical_and.reduce(masked, axis=-2)[..., None]
    size = np.where(unused, 0.0, size).max(axis=-2, keepdims=True)
    accumulator = op.accumulation(v.format)
    relative = (
        exponential_sum_error(op, format, float(terms)) + (terms + 4) * accumulator.unit_roundoff + 4 * v.format.unit_roundoff
    )
    error = size * (np.expm1(relative) + terms * (least(op, v.format) + least(op, format))) + terms * least(op, v.format)
    error = np.where(unattended, 0.0, error)
    result_low, result_high = result_low - error, result_high + error
    shape = (*shape_of(logits)[:_KEYS], shape_of(v)[-1])
    grid = (*logits.grid[:_KEYS], v.grid[-1])
    result = Range(v.format, shape, grid, result_low, result_high, _flags(logits, v))
    if op.abstraction.norms and whole.norm is not None and not v.has_special:
        # Weights sum to 1; the errors of all of them, and of each product and sum, are relative, or lost by underflow.
        lost = 2.0 * terms * max(least(op, v.format), least(op, format)) * (1.0 + float(size.max()))
        grown = times(along(whole, 3), 1.0 + float(np.expm1(relative)))
        result.norm = Norm(3, grown).plus(lost, smallest(shape[-1])) if isinstance(shape[-1], int) else None
    return result


def _with_any_key(y: Range, v: Range) -> Range:
    """Where scores overflow to -inf, runtimes may attend to keys that are masked, or to none."""
    keys = v.smash((2,))
    low, high = np.minimum(keys.low, 0.0), np.maximum(keys.high, 0.0)
    hull = Range(v.format, replaced(shape_of(v), 2, 1), keys.grid, low, high, keys.special)
    aligned = align(y, hull)
    low, high = np.minimum(*aligned.lows), np.maximum(*aligned.highs)
    return aligned.result(y.format, low, high, aligned.specials[0] | aligned.specials[1])


def _flags(logits: Range, v: Range) -> Flags | None:
    """NaN among the scores of a query, or any special value among the values of a feature, may make the result special."""
    if not logits.has_special and not v.has_special:
        return None
    nan: Flags = np.bitwise_or.reduce(logits.special & np.uint8(NAN), axis=-1, keepdims=True)
    values: Flags = np.bitwise_or.reduce(v.special, axis=-2, keepdims=True)
    values = np.where((values & INFINITIES) != 0, np.uint8(SPECIALS), values)
    return nan | values


def _on_common_cells(logits: Range, v: Range) -> tuple[Range, Range]:
    """Scores and values with the same cells along samples, heads and keys, and not too many of them."""
    while True:
        first, second = logits, v
        for axis, other in ((0, 0), (1, 1), (_KEYS, 2)):
            cuts = union(first.grid[axis], second.grid[other])
            first, second = first.refine(axis, cuts), second.refine(other, cuts)
        if work(first.cells, second.cells) <= _BUDGET:
            return first, second
        if logits.cells[_SCORES] > 1:
            logits = logits.smash((_SCORES,))
        elif v.cells[-1] > 1 and v.cells[-1] >= v.cells[-2]:
            v = v.smash((3,))
        elif max(logits.cells[_KEYS], v.cells[2]) > 1:
            logits, v = logits.smash((_KEYS,)), v.smash((2,))
        else:
            logits, v = logits.smash(), v.smash()


def probabilities(op: Call, logits: Range, format: Format) -> Range:
    """softmax(logits), cast to `format`."""
    finite = logits.replace(logits.low, logits.high, logits.special & np.uint8(NAN | NEGATIVE_INFINITY))
    p = op.apply(_guarded_softmax, finite, axis=-1)
    return p.replace(format.round_nearest(p.low), format.round_nearest(p.high), p.special, format)


# -- the operator ----------------------------------------------------------------------------------------------------


@operator(
    "Attention",
    error=CORRECT,
    overflow=ACCUMULATION_OVERFLOW,
    hazards=(MASKED_SOFTMAX, ARITHMETIC_OVERFLOW),
    composed_of=(matmul, mul),
    coarse="scores are bounded one by one: that they share a query or a key is used in part",
)
def attention(
    op: Call,
    q: Range,
    k: Range,
    v: Range,
    mask: Range | None = None,
    past_key: Range | None = None,
    past_value: Range | None = None,
    lengths: Range | None = None,
) -> tuple[Range, ...]:
    """The values averaged with weights softmax(scale Q K^T + mask): inside the hull of the values."""
    is_flat = q.rank == 3
    if is_flat:
        q = split_heads(q, op.attribute("q_num_heads"))
        k, v = (split_heads(x, op.attribute("kv_num_heads")) for x in (k, v))
    offset: Size = 0
    if past_key is not None and past_value is not None:
        offset = shape_of(past_key)[2]
        k, v = concatenate((past_key, k), 2), concatenate((past_value, v), 2)
    present_key, present_value = k, v
    query_heads, heads = (smallest(shape_of(x)[1]) for x in (q, k))
    k, v = (repeat_heads(x, query_heads // heads) for x in (k, v))
    scale = default_scale(q) if op.attribute("scale") is None else op.attribute("scale")
    raw = scores(op, q, k, scale)
    softcap = op.attribute("softcap", 0.0)
    logits = capped = softcapped(op, raw, softcap) if softcap > 0 else raw
    bias, may_be_empty = _bias(op, q, k, offset, mask, lengths)
    if bias is not None:
        logits = biased(op, logits, bias)
    precision = op.attribute("softmax_precision")
    format = BY_ONNX_CODE[precision] if precision else q.format
    inner = converted(op, logits, format) if format is not q.format else logits
    overflows = any(hazard.gives for hazard in op.hazards)
    y = mix(op, inner if softcap > 0 else centred(op, q, k, scale, inner, bias), v, format, may_be_empty=may_be_empty)
    if overflows and bias is not None:
        y = _with_any_key(y, v)
    mode = op.attribute("qk_matmul_output_mode", 0)
    if op.outputs < 4:
        shown = raw
    elif mode == 3:
        shown = probabilities(op, inner, q.format)
    else:
        shown = (raw, capped, _as_shown(logits))[mode]
    return merge_heads(y) if is_flat else y, present_key, present_value, shown


def default_scale(q: Range) -> float:
    """1 / sqrt(size of a head)."""
    return 1.0 / float(np.sqrt(smallest(shape_of(q)[3])))


def _bias(op: Call, q: Range, k: Range, offset: Size, mask: Range | None, lengths: Range | None) -> tuple[Range | None, bool]:
    """What is added to the scores, and whether it may mask all keys of a query."""
    bias = None if mask is None else padded(additive(mask, q.format), shape_of(k)[2])
    band = _band(op, q, k, offset, lengths)
    if band is None:
        return bias, mask is not None
    shape = band.bias(q.format, q, k, lengths is not None)
    leaves = band.leaves_a_key(shape_of(q)[2], shape_of(k)[2])
    if bias is None:
        return shape, not leaves
    return binary(shape, bias, increasing(np.add), np.add, q.format), True


def _as_shown(logits: Range) -> Range:
    """Scores with their bias as an output: ONNX Runtime masks with the smallest number, not with -inf."""
    maskable = (logits.special & NEGATIVE_INFINITY) != 0
    low = np.where(maskable, logits.format.low, logits.low)
    return logits.replace(low, np.where(maskable, np.maximum(logits.high, logits.format.low), logits.high), logits.special)


def _band(op: Call, q: Range, k: Range, offset: Size, lengths: Range | None) -> Band | None:
    """What is_causal, the window sizes and the lengths leave of the keys."""
    before, after = _reach(op)
    if np.isinf(before) and np.isinf(after) and lengths is None:
        return None
    if lengths is None:
        last = largest(offset)
        ends = np.array([float(smallest(offset))]), np.array([np.inf if last is None else float(last)])
        return Band(ends, before, after)
    low, high, _ = lengths.expanded()
    queries = shape_of(q)[2]
    if not isinstance(queries, int):
        raise UnknownShape("the number of queries depends on the data")
    return Band((low - queries, high - queries), before, after, (low, high))


def _reach(op: Attributed) -> tuple[float, float]:
    """How far before and after its own position a query attends to keys, by is_causal and the window sizes."""
    left, right = op.attribute("left_window_size", -1), op.attribute("right_window_size", -1)
    before, after = (np.inf if size < 0 else float(size) for size in (left, right))
    return before, 0.0 if op.attribute("is_causal", 0) else after


# -- on torch --------------------------------------------------------------------------------------------------------


@attention.meaning
def _(
    run: Run,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    lengths: Tensor | None = None,
) -> tuple[Tensor, ...]:
    is_flat = q.dim() == 3
    if is_flat:
        q = heads_apart(q, run.attribute("q_num_heads"))
        k, v = (heads_apart(x, run.attribute("kv_num_heads")) for x in (k, v))
    offset = 0
    if past_key is not None and past_value is not None:
        offset = past_key.shape[2]
        k, v = run.torch.cat((past_key, k), 2), run.torch.cat((past_value, v), 2)
    present_key, present_value = k, v
    k, v = (for_heads(x, q.shape[1]) for x in (k, v))
    raw = scaled_products(q, k, run.attribute("scale"))
    logits = capped = with_softcap(run, raw, run.attribute("softcap", 0.0))
    bias = _added(run, q, k, offset, mask, lengths)
    if bias is not None:
        logits = capped + bias
    precision = run.attribute("softmax_precision")
    inner = logits.to(run.dtype(BY_ONNX_CODE[precision])) if precision else logits
    weights = attention_weights(run, inner, _is_masked(run, logits, bias)).to(q.dtype)
    y = weights @ v
    shown = (raw, capped, logits, weights)[run.attribute("qk_matmul_output_mode", 0)]
    return heads_joined(y) if is_flat else y, present_key, present_value, shown


def heads_apart(x: Tensor, heads: int) -> Tensor:
    """(batch, sequence, heads * size) as (batch, heads, sequence, size)."""
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).transpose(1, 2)


def heads_joined(x: Tensor) -> Tensor:
    """(batch, heads, sequence, size) as (batch, sequence, heads * size)."""
    return x.transpose(1, 2).flatten(2)


def for_heads(x: Tensor, query_heads: int) -> Tensor:
    """Each head of the keys and values for a group of neighbouring query heads."""
    return x if x.shape[1] == query_heads else x.repeat_interleave(query_heads // x.shape[1], 1)


def scaled_products(q: Tensor, k: Tensor, scale: float | None) -> Tensor:
    """scale * q k^T, both multiplied by sqrt(scale) before the product; 1 / sqrt(size of a head) where none is given."""
    factor = q.shape[3] ** -0.5 if scale is None else scale
    root = math.sqrt(abs(factor))
    return (q * math.copysign(root, factor)) @ (k * root).transpose(2, 3)


def with_softcap(run: Run, scores: Tensor, softcap: float) -> Tensor:
    """softcap * tanh(scores / softcap), if there is one."""
    return run.torch.tanh(scores / softcap) * softcap if softcap > 0 else scores


def _is_masked(run: Run, logits: Tensor, bias: Tensor | None) -> Tensor:
    """Whether all keys of a query are masked, by the scores or by the bias alone."""
    masked = run.torch.isneginf(logits).all(-1, keepdim=True)
    return masked if bias is None else masked | run.torch.isneginf(bias).all(-1, keepdim=True)


def attention_weights(run: Run, logits: Tensor, masked: Tensor) -> Tensor:
    """softmax(logits) along the keys, but 0 in rows that are masked entirely."""
    # Filled before the softmax, too: NaN there would make the derivatives of all rows NaN.
    return run.torch.softmax(logits.masked_fill(masked, 0.0), -1).masked_fill(masked, 0.0)


def masking(run: Run, visible: Tensor, hidden: float, like: Tensor) -> Tensor:
    """A bias in the dtype of another tensor: 0 where a truth value is true, else `hidden`."""
    return run.torch.zeros(visible.shape, dtype=like.dtype).masked_fill(visible == 0, hidden)


def _added(run: Run, q: Tensor, k: Tensor, offset: int, mask: Tensor | None, lengths: Tensor | None) -> Tensor | None:
    """What is added to the scores (`_bias`)."""
    bias: Tensor | None = None
    if mask is not None:
        bias = run.passing(masking(run, mask, -np.inf, q), mask) if run.format(3, mask) == "bool" else mask
        # The reference evaluator pads a single column, too, rather than broadcasting it.
        bias = run.torch.nn.functional.pad(bias, (0, max(k.shape[2] - mask.shape[-1], 0)), value=-np.inf)
    visible = _in_band(run, q.shape[2], k.shape[2], offset, lengths)
    if visible is None:
        return bias
    band = masking(run, visible, -np.inf, q)
    return band if bias is None else bias + band


def _in_band(run: Run, queries: int, keys: int, offset: int, lengths: Tensor | None) -> Tensor | None:
    """Whether a query attends to a key by its position (`Band`): (queries, keys), or for each sample; None if to all."""
    before, after = _reach(run)
    if np.isinf(before) and np.isinf(after) and lengths is None:
        return None
    place = run.torch.arange(keys)
    ends = None if lengths is None else run.whole(lengths).reshape(-1, 1, 1, 1)
    distance = run.torch.arange(queries)[:, None] + (offset if ends is None else ends - queries) - place
    visible = (distance <= before) & (-distance <= after)
    return visible if ends is None else visible & (place < ends)
