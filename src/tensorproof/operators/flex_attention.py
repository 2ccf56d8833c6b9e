"""FlexAttention: attention whose scores and weights pass through graphs of the user's (ai.onnx.preview FlexAttention-1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tensorproof.errors import NotAnalysed
from tensorproof.formats import BY_ONNX_CODE, FLOAT32, Format
from tensorproof.graph import Graph, Node
from tensorproof.operators.attention import (
    centred,
    converted,
    default_scale,
    for_heads,
    mix,
    repeat_heads,
    scaled_products,
    scores,
)
from tensorproof.operators.linear import matmul
from tensorproof.operators.softmax import softmax
from tensorproof.operators.table import CORRECT, Block, Call, Operator, operator
from tensorproof.ranges.flow import Flow
from tensorproof.ranges.grid import smallest
from tensorproof.ranges.moving import shape_of
from tensorproof.ranges.propagate import Propagation
from tensorproof.ranges.range import Range
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor

DOMAIN = "ai.onnx.preview"


def _precision(op: Call, x: Range) -> Format:
    """The format of the softmax and of both graphs: float32 unless said otherwise, float64 for float64."""
    code = op.attribute("softmax_precision")
    if code:
        return BY_ONNX_CODE[code]
    return x.format if x.format.bits > 32 else FLOAT32


def _scores(op: Call, q: Range, k: Range) -> Range:
    """The scaled products of queries and keys, in the format of the softmax."""
    k = repeat_heads(k, smallest(shape_of(q)[1]) // smallest(shape_of(k)[1]))
    return converted(op, scores(op, q, k, _scale(op, q)), _precision(op, q))


def _scale(op: Call, q: Range) -> float:
    scale = op.attribute("scale")
    return default_scale(q) if scale is None else scale


def _mixed(op: Call, logits: Range, v: Range) -> Range:
    """softmax(logits) @ v; a row that is masked entirely is NaN."""
    v = repeat_heads(v, smallest(shape_of(logits)[1]) // smallest(shape_of(v)[1]))
    y = mix(op, logits, v.with_format(logits.format), logits.format, may_be_empty=True)
    return y.with_format(v.format)


def _plain(op: Call, q: Range, k: Range, v: Range) -> Range:
    """The whole operator without graphs."""
    logits = _scores(op, q, k)
    k = repeat_heads(k, smallest(shape_of(q)[1]) // smallest(shape_of(k)[1]))
    return _mixed(op, centred(op, q, k, _scale(op, q), logits, None), v)


def _weighted(op: Call, weights: Range, v: Range) -> Range:
    """weights @ v."""
    v = repeat_heads(v, smallest(shape_of(weights)[1]) // smallest(shape_of(v)[1]))
    return op.apply(matmul, weights, v.with_format(weights.format)).with_format(v.format)


def _weights(op: Call, logits: Range) -> Range:
    """softmax(logits) along the keys."""
    return op.apply(softmax, logits, axis=-1)


def _stage(block: Block) -> Operator:
    """A part of the operator that is evaluated between two graphs."""
    parts = matmul, softmax
    return Operator("FlexAttention", DOMAIN, block, CORRECT, ACCUMULATION_OVERFLOW, None, None, None, parts, False, ())


PLAIN, SCORES, MIXED = _stage(_plain), _stage(_scores), _stage(_mixed)
WEIGHTS, WEIGHTED = _stage(_weights), _stage(_weighted)


def _evaluated(run: Propagation, stage: Operator, node: Node, *operands: Flow) -> Flow:
    return run.apply_part(stage, node, operands)[0]


@operator(
    "FlexAttention",
    domain=DOMAIN,
    control=True,
    overflow=ACCUMULATION_OVERFLOW,
    composed_of=(matmul, softmax),
    coarse="scores are bounded one by one: that they share a query or a key is used in part",
)
def flex_attention(run: Propagation, node: Node, operands: Sequence[Flow | None]) -> list[Flow]:
    """The values averaged with weights softmax(scale Q K^T), scores and weights changed by the graphs that are given."""
    q, k, v = operands[:3]
    if q is None or k is None or v is None:
        raise NotAnalysed("an operand is missing")
    score_mod, prob_mod = node.attributes.get("score_mod"), node.attributes.get("prob_mod")
    if not isinstance(score_mod, Graph) and not isinstance(prob_mod, Graph):
        return [_evaluated(run, PLAIN, node, q, k, v)]
    logits = _evaluated(run, SCORES, node, q, k)
    if isinstance(score_mod, Graph):
        logits = run.run(score_mod, [logits])[0]
    if not isinstance(prob_mod, Graph):
        return [_evaluated(run, MIXED, node, logits, v)]
    weights = run.run(prob_mod, [_evaluated(run, WEIGHTS, node, logits)])[0]
    return [_evaluated(run, WEIGHTED, node, weights, v)]


@flex_attention.meaning
def _(run: Run, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    code = run.attribute("softmax_precision")
    wide = q.dtype if q.dtype.itemsize > 4 else run.torch.float32
    dtype = run.dtype(BY_ONNX_CODE[code]) if code else wide
    k, v = (for_heads(x, q.shape[1]) for x in (k, v))
    logits = scaled_products(q, k, run.attribute("scale")).to(dtype)
    score_mod, prob_mod = run.attribute("score_mod"), run.attribute("prob_mod")
    if isinstance(score_mod, Graph):
        logits = run.body(score_mod, [logits])[0].to(dtype)
    weights = run.torch.softmax(logits, -1)
    if isinstance(prob_mod, Graph):
        weights = run.body(prob_mod, [weights])[0].to(dtype)
    return (weights @ v.to(dtype)).to(v.dtype)
