"""Attention layers of Keras. With symbolic inputs Keras notices sizes that do not fit only when data arrive."""

from __future__ import annotations

from tensorproof.rules.shapes.matmul_mismatch import MATMUL_MISMATCH
from tensorproof.shapes.families.keras_layers import Layer, built_here, built_size, is_symbolic, layer, layer_name, need_least_rank
from tensorproof.shapes.families.keras_merging import members
from tensorproof.shapes.families.modules import origin
from tensorproof.shapes.rule_table import Call, Extent, Mismatch, as_sizes
from tensorproof.shapes.sizes import same
from tensorproof.shapes.values import Tensor, Value


def _need_pairs(call: Call, query: Tensor, value: Tensor, key: Tensor, result: Value, *, features: bool) -> None:
    """Refuse keys that differ from the values in number, or from the queries in features or batch."""
    q, v, k = query.shape, value.shape, key.shape
    if any(shape.rank is None or shape.rank < 2 for shape in (q, v, k)):
        return
    problem = ""
    if features and same(q[-1], k[-1]) is False:
        problem = f"queries have {q[-1]} features, keys {k[-1]}"
    elif same(v[-2], k[-2]) is False:
        problem = f"there are {k[-2]} keys, but {v[-2]} values"
    elif q.rank == v.rank == 3 and same(q[0], v[0]) is False and 1 not in (q[0], v[0]):
        problem = f"batches of {q[0]} and {v[0]}"
    if problem:
        message = f"{layer_name(call)} of queries {q}, values {v} and keys {k}: {problem}"
        raise Mismatch(MATMUL_MISMATCH, message, result=result, tensors=(query, value, key), related=origin(call))


@layer("Attention", "AdditiveAttention")
class Attention(Layer):
    """Called on a list: queries, values and (if not the values) keys."""

    use_scale: Value = None
    score_mode: Value = "dot"

    def __call__(
        self, call: Call, inputs: Value, mask: Value = None, return_attention_scores: Value = False, **options: Value
    ) -> Value:
        tensors = members(inputs)
        query, value = tensors[0], tensors[1 if len(tensors) > 1 else 0]
        key = tensors[2] if len(tensors) > 2 else value
        scores = query.with_shape(query.shape.without_last(1).extended(key.shape[-2]))
        output = query.with_shape(query.shape.without_last(1).extended(value.shape[-1]))
        result = (output, scores) if return_attention_scores is True else output
        if not is_symbolic(query) and len(tensors) > 1 and self.score_mode == "dot" and layer_name(call) == "Attention":
            _need_pairs(call, query, value, key, result, features=True)
        return result


@layer("MultiHeadAttention")
class MultiHeadAttention(Layer):
    """`MultiHeadAttention`."""

    num_heads: Extent
    key_dim: Extent
    value_dim: Value = None
    dropout: Value = 0.0
    use_bias: Value = True
    output_shape: Value = None
    attention_axes: Value = None

    def __call__(
        self,
        call: Call,
        query: Tensor,
        value: Tensor,
        key: Tensor | None = None,
        query_mask: Value = None,
        value_mask: Value = None,
        key_mask: Value = None,
        attention_mask: Value = None,
        return_attention_scores: Value = False,
        **options: Value,
    ) -> Value:
        keys = value if key is None else key
        last = (query.shape[-1],) if self.output_shape is None else as_sizes(self.output_shape)
        need_least_rank(call, query, 2)
        output = query.with_shape(query.shape.without_last(1).extended(*last), dtype="f32")
        scores = query.with_shape(
            query.shape.without_last(2).extended(self.num_heads, query.shape[-2], keys.shape[-2]), dtype="f32"
        )
        result = (output, scores) if return_attention_scores is True else output
        for name, tensor in (("query", query), ("value", value), ("key", keys)):
            self._need_features(call, name, tensor, result)
        if self.attention_axes is None and (not is_symbolic(query) or same(value.shape[-2], keys.shape[-2]) is False):
            _need_pairs(call, query, value, keys, result, features=False)
        return result

    def _need_features(self, call: Call, name: str, tensor: Tensor, result: Value) -> None:
        if tensor.shape.least_rank == 0:
            return
        features = tensor.shape[-1]
        known = built_size(call, f"_{name}", features)
        if same(features, known) is False and not is_symbolic(tensor):
            since = f"MultiHeadAttention has weights for {known} features of its {name} since its first call"
            message = f"{since}, but {tensor.shape} has {features}"
            raise Mismatch(MATMUL_MISMATCH, message, result=result, tensors=(tensor,), related=built_here(call, f"_{name}"))
