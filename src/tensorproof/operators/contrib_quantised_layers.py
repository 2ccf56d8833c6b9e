"""ONNX Runtime's quantised layers (domain com.microsoft): attention and mixtures of experts, as hulls of what they mix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.execute.meaning import NotExecutable
from tensorproof.formats import FLOAT32, Array
from tensorproof.operators.activations import relu
from tensorproof.operators.arithmetic import add, mul
from tensorproof.operators.contrib_attention import attended_projections, wide_tensor
from tensorproof.operators.contrib_quantised import MICROSOFT
from tensorproof.operators.contrib_quantised_products import (
    block_weights,
    constant_array,
    in_eight_bits,
    low_bit_product,
    product_of_scales,
    real_product,
    scaled_total,
    unpacked,
    unpacked_tensor,
    weights_of_blocks,
)
from tensorproof.operators.gated_activations import gelu, swish
from tensorproof.operators.linear import matmul
from tensorproof.operators.quantised_products import integer_product
from tensorproof.operators.softmax import softmax
from tensorproof.operators.table import NEWEST, Attributed, Call, operator
from tensorproof.ranges.elementwise import corners, product
from tensorproof.ranges.grid import counts, every
from tensorproof.ranges.moving import moved
from tensorproof.ranges.range import CELL_BUDGET, NEGATIVE_INFINITY, Range, align
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor


def _columns(x: Range, part: slice) -> Range:
    """Some entries of the last axis, one cell each."""
    x = x.refine_fully(x.rank - 1)
    size = len(range(*part.indices(x.sizes[-1])))
    return moved(x, (*x.sizes[:-1], size), (*x.grid[:-1], every(size)), lambda a: a[..., part])


# -- attention ---------------------------------------------------------------------------------------------------------


@operator(
    "QAttention",
    domain=MICROSOFT,
    composed_of=(mul, matmul, softmax),
    hazards=(ARITHMETIC_OVERFLOW,),
    coarse="under a mask, or for long sequences, the weights of the mixture are not followed: any mixture of the values",
)
def qattention(
    op: Call,
    x: Range,
    weight: Range,
    bias: Range,
    x_scale: Range,
    weight_scale: Range,
    mask_index: Range | None = None,
    x_zero_point: Range | None = None,
    weight_zero_point: Range | None = None,
    past: Range | None = None,
) -> tuple[Range, Range]:
    """A mixture of the projected values with weights that sum to 1: between their extremes along the sequence."""
    total = integer_product(op, x, weight, x_zero_point, weight_zero_point)
    projected = scaled_total(op, total, product_of_scales(op, x_scale, weight_scale), bias)
    batch, length, width = projected.sizes
    hidden, heads = width // 3, int(op.attribute("num_heads"))
    queries, keys, values = (_columns(projected, slice(k * hidden, (k + 1) * hidden)) for k in range(3))
    mixed = values.smash((1,))
    earlier = 0
    if past is not None:
        earlier = past.sizes[3]
        old = _past_values(past, hidden)
        mixed = mixed if old is None else mixed.join(old)
    # The softmax weights sum to 1, and the mixture to itself, within one rounding per term.
    error = (2.0 * (length + earlier) + 16.0) * FLOAT32.unit_roundoff * mixed.magnitude()
    special = mixed.special if mixed.has_special else None
    output = Range(projected.format, (batch, length, hidden), mixed.grid, mixed.low - error, mixed.high + error, special)
    output = output.clamp(output.format.low, output.format.high)
    present = _present(keys, values, past, heads)
    if mask_index is None:
        followed = _attended(op, queries, present, heads)
        output = output if followed is None else output.meet(followed)
    return output, present


@qattention.meaning
def _(
    run: Run,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    x_scale: Tensor,
    weight_scale: Tensor,
    mask_index: Tensor | None = None,
    x_zero_point: Tensor | None = None,
    weight_zero_point: Tensor | None = None,
    past: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    if run.attribute("do_rotary", 0) or run.attribute("past_present_share_buffer", 0):
        raise NotExecutable("QAttention with rotary embeddings, or past and present in one buffer")
    projected = real_product(run, x, weight, x_scale, weight_scale, x_zero_point, weight_zero_point, bias)
    return attended_projections(run, projected, [weight.shape[1] // 3] * 3, mask_index, past)


def _attended(op: Call, queries: Range, present: Range, heads: int) -> Range | None:
    """softmax(Q K^T * scale) V with the weights followed; None where that is too large, or a mask might not mask."""
    batch, length, hidden = queries.sizes
    steps, size = present.sizes[3], hidden // heads
    if present.cells != present.sizes or batch * heads * length * steps > CELL_BUDGET or queries.size > CELL_BUDGET:
        return None
    split = queries.select(lambda a: a.reshape(batch, length, heads, size).transpose(0, 2, 1, 3))
    keys = present.select(lambda a: a[0].transpose(0, 1, 3, 2))
    values = present.select(lambda a: a[1])
    scale = float(op.attribute("scale", 0.0)) or 1.0 / float(np.sqrt(size))
    scores = op.apply(matmul, split, keys)
    scores = op.apply(mul, scores, Range.constant(np.asarray(scale), scores.format))
    if op.attribute("unidirectional", 0):
        # The mask adds -10000 or less: it masks while all scores are far smaller.
        if not float(scores.magnitude().max(initial=0.0)) < 4000.0:
            return None
        low, high, special = scores.expanded()
        masked = np.arange(steps) > np.arange(length)[:, None] + (steps - length)
        low, high = np.where(masked, np.inf, low), np.where(masked, -np.inf, high)
        flags = np.where(masked, np.uint8(NEGATIVE_INFINITY), special)
        scores = Range.elements(scores.format, low, high, flags)
    mixed = op.apply(matmul, op.apply(softmax, scores, axis=-1), values)
    return mixed.select(lambda a: a.transpose(0, 2, 1, 3).reshape(batch, length, hidden))


def _past_values(past: Range, hidden: int) -> Range | None:
    """The hull along the sequence of the values of earlier steps (2, batch, heads, sequence, size) as (batch, 1, hidden)."""
    _, batch, heads, length, size = past.sizes
    if not length:
        return None
    past = past.refine_fully(0).smash((3,)).refine_fully(1).refine_fully(2).refine_fully(4)
    grid = (every(batch), None, every(heads * size))
    return moved(past, (batch, 1, hidden), grid, lambda a: a[1].reshape(batch, 1, hidden))


def _present(keys: Range, values: Range, past: Range | None, heads: int) -> Range:
    """Keys and values of all steps so far, (2, batch, heads, sequence, size)."""
    batch, length, hidden = keys.sizes
    earlier = 0 if past is None else past.sizes[3]
    shape = (2, batch, heads, earlier + length, hidden // heads)
    parts = [keys, values, *([] if past is None else [past])]
    if int(np.prod(shape, dtype=np.int64)) > CELL_BUDGET:
        hulls = [part.hull() for part in parts]
        special = max(part.any_special for part in parts)
        return Range.uniform(shape, keys.format, min(h[0] for h in hulls), max(h[1] for h in hulls), special)

    def by_head(a: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return a.reshape(batch, length, heads, -1).transpose(0, 2, 1, 3)

    new, more = keys.select(by_head), values.select(by_head)
    low, high, special = (np.stack(pair) for pair in zip(new.expanded(), more.expanded()))
    if past is not None:
        low, high, special = (np.concatenate(pair, axis=3) for pair in zip(past.expanded(), (low, high, special)))
    return Range.elements(keys.format, low, high, special)  # type: ignore[arg-type]


# -- mixtures of experts -----------------------------------------------------------------------------------------------


@operator(
    "QMoE",
    domain=MICROSOFT,
    composed_of=(matmul, add, relu, gelu, swish, mul),
    hazards=(ARITHMETIC_OVERFLOW, ACCUMULATION_OVERFLOW),
    coarse="the weights of the chosen experts and their results are bounded one by one",
)
def qmoe(op: Call, x: Range, router: Range, *parameters: Range | None) -> Range:
    """A mixture of experts with low-bit weights, whose factors are not negative and sum to at most 1."""
    if op.attribute("quant_type", "int") != "int":
        raise NotAnalysed("experts that are not quantised to integers")
    given = dict(enumerate(parameters, start=2))
    if any(given.get(number) is not None for number in (8, 9, 10, 13)):
        raise NotAnalysed("experts with a third layer")
    tokens = x if x.rank == 2 else _flattened(x)
    hidden = tokens.sizes[1]
    inner = _layer(op, tokens, given.get(2), given.get(3), given.get(11), given.get(4), "fc1", hidden)
    inner = _activated(op, inner)
    outer = _layer(op, inner, given.get(5), given.get(6), given.get(12), given.get(7), "fc2", inner.sizes[-1])
    result = _mixture(op, outer, router, given.get(14))
    if x.rank != 2:
        result = _unflattened(result, x)
    return result.clamp(x.format.low, x.format.high)


def _mixture(op: Call, experts: Range, router: Range, router_weights: Range | None) -> Range:
    """The sum over the chosen experts (experts, tokens, outputs) times their weights: also a mean of them, or less."""
    chosen = _routing(op, router, router_weights)
    hull = experts.smash((0,))
    low, high = np.minimum(hull.low, 0.0), np.maximum(hull.high, 0.0)
    grid, special = hull.grid[1:], hull.special if hull.has_special else None
    shape = experts.sizes[1:]
    slack = 1.0 + 64.0 * FLOAT32.unit_roundoff * (1.0 + experts.format.unit_roundoff / FLOAT32.unit_roundoff)
    bounded = Range(experts.format, shape, grid, low[0] * slack, high[0] * slack, None if special is None else special[0])
    if chosen is None:
        if router_weights is None:
            return bounded
        raise NotAnalysed("weights of experts for too many tokens")
    aligned = align(experts.refine_fully(0), chosen)
    (low, least), (high, most) = aligned.lows, aligned.highs
    low, high = (np.where(aligned.lows[0] > aligned.highs[0], 0.0, end) for end in (low, high))
    if router_weights is None:
        # Weights are not negative and sum to 1 (to at most 1 if they are not normalised).
        fixed = bool(op.attribute("normalize_routing_weights", 0))
        upper = _largest_mean(high, least, most, fixed)
        lower = -_largest_mean(-low, least, most, fixed)
    else:
        lower, upper = (end.sum(axis=0) for end in corners(product)(low, high, least, most))
    reach = (np.maximum(np.abs(low), np.abs(high)) * np.maximum(np.abs(least), np.abs(most))).sum(axis=0) * (slack - 1.0)
    flags = np.bitwise_or.reduce(aligned.specials[0], axis=0) if experts.has_special else None
    cells = counts(aligned.grid[1:])
    lower, upper = np.broadcast_to(lower - reach, cells), np.broadcast_to(upper + reach, cells)
    total = Range(experts.format, shape, aligned.grid[1:], lower, upper, flags)
    return total if router_weights is not None else total.meet(bounded)


def _largest_mean(values: Array, least: Array, most: Array, fixed: bool) -> Array:
    """The largest sum over the first axis of weights in [least, most] times values, where the weights sum to (at most) 1.

    Every weight takes its least value; what is left of 1 goes to the largest values first.
    """
    values, least, most = np.broadcast_arrays(values, least, most)
    order = np.argsort(-values, axis=0)
    values, least, most = (np.take_along_axis(a, order, axis=0) for a in (values, least, most))
    room = most - least
    left = np.maximum(1.0 - least.sum(axis=0), 0.0)
    before = np.cumsum(room, axis=0) - room
    extra = np.clip(left - before, 0.0, room)
    if not fixed:
        extra = np.where(values > 0, extra, 0.0)
    return ((least + extra) * values).sum(axis=0)


def _routing(op: Call, router: Range, router_weights: Range | None) -> Range | None:
    """The weight of every expert for every token, (experts, tokens, 1); None where there are too many.

    The k largest logits are chosen. Their weights are a softmax among them (ONNX Runtime's CPU kernel, or with
    normalize_routing_weights) or of all logits (its GPU kernels), or come from `router_weights`.
    """
    router = router.refine_fully(1)
    tokens, count = router.cells
    k = min(int(op.attribute("k", 1)), count)
    if tokens * count * count > CELL_BUDGET * 16 or router.has_special:
        return None
    low, high = router.low, router.high
    itself = np.eye(count, dtype=np.bool_)
    above = ((high[:, None, :] >= low[:, :, None]) & ~itself).sum(axis=-1)
    surely_above = ((low[:, None, :] > high[:, :, None]) & ~itself).sum(axis=-1)
    certain, possible = above < k, surely_above < k
    normalised = bool(op.attribute("normalize_routing_weights", 0))
    if router_weights is not None:
        given = router_weights.refine_fully(1).refine(0, router.grid[0])
        if given.cells != router.cells or normalised:
            return None
        least, most = given.low, given.high
    else:
        least, most = _softmax_among(low, high, itself, k)
        if not normalised:
            all_least, all_most = _softmax_among(low, high, itself, count)
            least, most = np.minimum(least, all_least), np.maximum(most, all_most)
    least = np.where(certain, least, np.minimum(least, 0.0))
    most = np.where(certain, most, np.maximum(most, 0.0))
    least, most = np.where(possible, least, 0.0), np.where(possible, most, 0.0)
    grid = (every(count), router.grid[0], None)
    return Range(router.format, (count, router.sizes[0], 1), grid, least.T[..., None], most.T[..., None])


def _softmax_among(low: Array, high: Array, itself: npt.NDArray[np.bool_], k: int) -> tuple[Array, Array]:
    """Bounds of the softmax of each logit among itself and the k - 1 largest others."""

    def others(bound: Array, own: Array) -> Array:
        gaps = np.where(itself, -np.inf, bound[:, None, :] - own[:, :, None])
        return np.exp(np.sort(gaps, axis=-1)[..., gaps.shape[-1] - (k - 1) :]).sum(axis=-1)

    return 1.0 / (1.0 + others(high, low)), 1.0 / (1.0 + others(low, high))


def _unflattened(y: Range, x: Range) -> Range:
    """Tokens as batch and sequence again."""
    batch, length, _ = x.sizes
    if y.cells[0] > 1 and y.size <= CELL_BUDGET:
        return y.select(lambda a: a.reshape(batch, length, -1))
    y = y.smash((0,))
    return moved(y, (batch, length, y.sizes[1]), (None, None, y.grid[1]), lambda a: a[:, None])


def _flattened(x: Range) -> Range:
    """Batch and sequence as one axis of tokens."""
    batch, length, hidden = x.sizes
    if x.cells[:2] == (1, 1):
        return moved(x, (batch * length, hidden), (None, x.grid[2]), lambda a: a[0])
    if x.size <= CELL_BUDGET:
        return x.select(lambda a: a.reshape(batch * length, hidden))
    return _flattened(x.smash((0, 1)))


def _coding(op: Attributed, name: str) -> tuple[int, int, bool]:
    """The bits and the block size (0: a whole row) of a layer's weights, and whether its input may be rounded to 8 bits."""
    bits = int(op.attribute(f"{name}_expert_weight_bits", 0)) or int(op.attribute("expert_weight_bits", 4))
    block = int(op.attribute("block_size", 0))
    return bits, block, int(op.attribute("accuracy_level", 0)) == 4 or (block > 0 and bits == 8)


def _layer(
    op: Call,
    x: Range,
    codes: Range | None,
    scales: Range | None,
    zero_points: Range | None,
    bias: Range | None,
    name: str,
    columns: int,
) -> Range:
    """x @ W.T + bias for all experts, (experts, tokens, outputs)."""
    if codes is None or scales is None or scales.array is None:
        raise NotAnalysed("the weights of the experts are not constants")
    bits, block, rounds_rows = _coding(op, name)
    experts, rows = codes.sizes[:2]
    if zero_points is not None and not block:
        # One per row, packed along the rows.
        shifts = unpacked(constant_array(zero_points, "the zero points"), bits, rows)
        zero_points = Range.constant(shifts.astype(np.float32))
    weights = block_weights(codes, scales, zero_points, bits, block or columns, (experts, rows), columns)
    factors = np.abs(scales.array.astype(np.float64)).reshape(experts, rows, -1)
    unit: Array = factors.sum(axis=-1) * (block or columns) * 2.0**bits
    batched = x
    if x.rank == 2:
        batched = moved(x, (1, *x.sizes), (None, *x.grid), lambda a: a[None])
    y = low_bit_product(op, batched, weights, unit, rounds_rows=rounds_rows)
    if bias is None:
        return y
    added = moved(bias, (experts, 1, rows), (bias.grid[0], None, bias.grid[1]), lambda a: a[:, None])
    return op.apply(add, y, added)


def _activated(op: Call, x: Range) -> Range:
    kind = str(op.attribute("activation_type", "relu"))
    if kind == "identity":
        return x
    if kind == "gelu":
        # Kernels take the exact function or its approximation by tanh.
        return op.apply(gelu, x).join(op.apply(gelu, x, approximate="tanh"))
    if kind in ("relu", "silu"):
        return op.apply(relu if kind == "relu" else swish, x)
    if kind != "swiglu":
        raise NotAnalysed(f"activation {kind}")
    half = x.sizes[-1] // 2
    interleaved = int(op.attribute("swiglu_fusion", 0)) == 1
    gate = _columns(x, slice(0, None, 2) if interleaved else slice(0, half))
    linear = _columns(x, slice(1, None, 2) if interleaved else slice(half, None))
    alpha, beta = float(op.attribute("activation_alpha", 1.0)), float(op.attribute("activation_beta", 0.0))
    limit = op.attribute("swiglu_limit")
    if limit is not None:
        gate, linear = gate.clamp(high=float(limit)), linear.clamp(-float(limit), float(limit))
    shifted = linear if beta == 0.0 else op.apply(add, linear, Range.constant(np.asarray(beta), linear.format))
    return op.apply(mul, op.apply(swish, gate, alpha=alpha), shifted)


@qmoe.meaning
def _(run: Run, x: Tensor, router: Tensor, *parameters: Tensor | None) -> Tensor:
    given = dict(enumerate(parameters, start=2))
    if run.attribute("quant_type", "int") != "int" or any(given.get(number) is not None for number in (8, 9, 10, 13)):
        raise NotExecutable("QMoE with weights that are not integers, or with a third layer")
    tokens = wide_tensor(run, x).reshape(-1, x.shape[-1])
    inner = _activation(run, _expert_layer(run, tokens, given.get(2), given.get(3), given.get(11), given.get(4), "fc1"))
    outer = _expert_layer(run, inner, given.get(5), given.get(6), given.get(12), given.get(7), "fc2")
    result = (_shares(run, router, given.get(14)).T[..., None] * outer).sum(0)
    return result.reshape(x.shape).to(x.dtype)


def _expert_layer(
    run: Run,
    x: Tensor,
    codes: Tensor | None,
    scales: Tensor | None,
    zero_points: Tensor | None,
    bias: Tensor | None,
    name: str,
) -> Tensor:
    """x @ W.T + bias for all experts, (experts, tokens, outputs)."""
    if codes is None or scales is None:
        raise NotExecutable("QMoE without weights or scales")
    bits, block, rounds_rows = _coding(run, name)
    experts, rows = codes.shape[:2]
    if zero_points is not None and not block:
        zero_points = unpacked_tensor(run, zero_points, bits, rows)
    width = block or x.shape[-1]
    weights = weights_of_blocks(run, codes, scales, zero_points, bits, width, (experts, rows), is_packed=block > 0)
    y = (in_eight_bits(run, x, width) if rounds_rows else x) @ weights.transpose(1, 2)
    return y if bias is None else y + wide_tensor(run, bias)[:, None]


def _shares(run: Run, router: Tensor, router_weights: Tensor | None) -> Tensor:
    """The weight of every expert for every token, (tokens, experts): 0 but for the k largest logits (`_routing`)."""
    logits, k = wide_tensor(run, router), min(int(run.attribute("k", 1)), router.shape[1])
    largest, places = logits.topk(k)
    if router_weights is None:
        shares = run.torch.softmax(largest, -1)
    else:
        shares = wide_tensor(run, router_weights).gather(1, places)
        if run.attribute("normalize_routing_weights", 0):
            shares = shares / shares.sum(-1, keepdim=True)
    result = run.torch.zeros_like(logits).scatter(1, places, shares)
    # The weight of one expert alone is always 1.
    return run.passing(result, run.torch.softmax(logits, -1)) if k == 1 and router_weights is None else result


def _activation(run: Run, x: Tensor) -> Tensor:
    """The function between the two layers (`_activated`)."""
    kind = str(run.attribute("activation_type", "relu"))
    if kind == "identity":
        return x
    if kind == "gelu":
        return run.torch.nn.functional.gelu(x, approximate="tanh")
    if kind == "silu":
        return run.torch.nn.functional.silu(x)
    if kind == "relu":
        return run.apply("Relu", x, version=NEWEST)
    if kind != "swiglu":
        raise NotExecutable(f"QMoE with activation {kind}")
    interleaved = int(run.attribute("swiglu_fusion", 0)) == 1
    gate, linear = (x[..., 0::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    alpha, beta = float(run.attribute("activation_alpha", 1.0)), float(run.attribute("activation_beta", 0.0))
    limit = run.attribute("swiglu_limit")
    if limit is not None:
        gate = run.passing(gate.clamp(max=float(limit)), gate)
        linear = run.passing(linear.clamp(-float(limit), float(limit)), linear)
    return gate * run.torch.sigmoid(alpha * gate) * (linear + beta)
