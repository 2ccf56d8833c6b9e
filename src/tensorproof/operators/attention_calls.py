"""Attention as PyTorch calls it: queries with or without heads, masks of any rank, and dropout of the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.errors import NotAnalysed, UnknownShape
from tensorproof.formats import BOOL
from tensorproof.frontends.calls import OWN
from tensorproof.graph import ABSENT
from tensorproof.operators.attention import attention, for_heads, repeat_heads
from tensorproof.operators.table import CORRECT, Call, operator
from tensorproof.ranges.grid import largest, smallest
from tensorproof.ranges.moving import replaced, shape_of
from tensorproof.ranges.range import SPECIALS, Range
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall


@operator(
    "AttentionWithDropout",
    domain=OWN,
    error=CORRECT,
    overflow=ACCUMULATION_OVERFLOW,
    composed_of=(attention,),
    coarse="which weights are dropped is random",
)
def attention_with_dropout(op: Call, q: Range, k: Range, v: Range, mask: Range | None = None) -> Range:
    """Some of the weights are 0, the others divided by 1 - p: between zero and the hull of the values, divided by 1 - p."""
    attributes = {name: value for name, value in op.attributes.items() if name != "dropout"}
    op.apply(attention, q, k, v, mask, **attributes)
    groups = smallest(shape_of(q)[1]) // max(smallest(shape_of(v)[1]), 1)
    v = repeat_heads(v, groups)
    keys = v.smash((2,))
    terms = largest(shape_of(v)[2])
    if terms is None:
        raise UnknownShape("the number of keys depends on the data")
    kept = (1.0 + (terms + 16) * q.format.unit_roundoff) / (1.0 - op.attribute("dropout"))
    low, high = np.minimum(keys.low, 0.0) * kept, np.maximum(keys.high, 0.0) * kept
    special = np.where(keys.special != 0, np.uint8(SPECIALS), np.uint8(0)) if keys.has_special else None
    return Range(v.format, replaced(shape_of(v), 2, shape_of(q)[2]), keys.grid, low, high, special)


@attention_with_dropout.meaning
def _(run: Run, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    attributes = {name: value for name, value in run.attributes.items() if name != "dropout"}
    weights = run.apply("Attention", q, k, v, mask, qk_matmul_output_mode=3, **attributes)[3]
    ratio = run.attribute("dropout")
    sample = run.torch.rand(weights.shape, generator=run.generator, dtype=run.torch.float64)
    return (weights * (sample >= ratio) / (1.0 - ratio)) @ for_heads(v, q.shape[1])


@attention.aten("scaled_dot_product_attention")
def _(call: AtenCall) -> int:
    return _attended(call)[0]


@attention.aten("_scaled_dot_product_attention_math")
def _(call: AtenCall) -> tuple[int, int]:
    """With the weights."""
    if call["dropout_p"]:
        raise NotAnalysed("weights of an attention with dropout are not modelled")
    return _attended(call, with_weights=True)


@attention.aten("_scaled_dot_product_flash_attention_for_cpu")
def _(call: AtenCall) -> tuple[int, int]:
    """With logarithms of sums, which only the backward pass reads."""
    return _attended(call)


def _attended(call: AtenCall, *, with_weights: bool = False) -> tuple[int, int]:
    """The values that are attended to, and the weights if asked for."""
    format, rank = call.result.format, call.rank("query")
    if rank > 4:
        raise NotAnalysed("attention of more than two batch axes is not modelled")
    operands = [_with_heads(call, call.tensor(name, format), rank) for name in ("query", "key", "value")]
    mask = ABSENT
    if call.is_given("attn_mask"):
        is_bool = call.handle("attn_mask").format is BOOL
        mask = call.tensor("attn_mask", None if is_bool else format)
        if call.rank("attn_mask") == 3:
            # Heads, or samples where queries have no heads.
            mask = call.moved("Unsqueeze", mask, call.constant(np.array([0 if rank == 4 else 1], np.int64)))
    attributes: dict[str, Any] = {"scale": call.get("scale"), "is_causal": int(bool(call["is_causal"])) or None}
    if call["dropout_p"]:
        ratio = float(call["dropout_p"])
        y = call.own("AttentionWithDropout", *operands, mask, dropout=ratio, formats=(format,), **attributes)
        return _without_heads(call, y, rank), ABSENT
    if with_weights:
        formats = (format,) * 4
        made = call.emit("Attention", *operands, mask, outputs=4, qk_matmul_output_mode=3, formats=formats, **attributes)
        return _without_heads(call, made[0], rank), _without_heads(call, made[3], rank)
    return _without_heads(call, call.emit("Attention", *operands, mask, formats=(format,), **attributes), rank), ABSENT


#: Axes of heads and of a batch that queries of fewer axes do not have.
_MISSING: Mapping[int, Sequence[int]] = {4: (), 3: (1,), 2: (0, 1)}


def _with_heads(call: AtenCall, x: int, rank: int) -> int:
    """(batch, heads, sequence, size): one head where there are none, one sample where there is no batch."""
    return call.moved("Unsqueeze", x, call.constant(np.array(_MISSING[rank], np.int64))) if _MISSING[rank] else x


def _without_heads(call: AtenCall, x: int, rank: int) -> int:
    return call.moved("Squeeze", x, call.constant(np.array(_MISSING[rank], np.int64))) if _MISSING[rank] else x
