"""Attention and transformers of PyTorch."""

from __future__ import annotations

from dataclasses import dataclass

from tensorproof.rules.shapes.layer_features import LAYER_FEATURES
from tensorproof.rules.shapes.matmul_mismatch import MATMUL_MISMATCH
from tensorproof.rules.shapes.not_broadcastable import NOT_BROADCASTABLE
from tensorproof.rules.shapes.split_sizes import SPLIT_SIZES
from tensorproof.rules.shapes.wrong_rank import WRONG_RANK
from tensorproof.shapes.families.broadcasting import broadcast_dims
from tensorproof.shapes.families.modules import Module, correction, origin, parameter, write
from tensorproof.shapes.families.windows import flag
from tensorproof.shapes.problems import Related
from tensorproof.shapes.rule_table import Call, Extent, Mismatch, native_class, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, Shape, same_shape
from tensorproof.shapes.sizes import Size, is_unknown, same, unknown
from tensorproof.shapes.values import Instance, NativeObject, Tensor, Unknown, Value


@dataclass(frozen=True, slots=True)
class Heads:
    """The sizes of an attention layer."""

    width: Size
    heads: Size
    key_width: Size
    value_width: Size
    batch_first: bool | None
    related: tuple[Related, ...]


def need_heads(width: Size, heads: Size) -> None:
    """The features are divided among the heads."""
    if isinstance(width, int) and isinstance(heads, int) and (heads <= 0 or width % heads):
        raise Mismatch(SPLIT_SIZES, f"{width} features cannot be divided among {heads} heads")


def need_width(call: Call, input: Tensor, width: Size, parameter: str, result: Value) -> None:
    """The last axis of an input holds the features."""
    found = input.shape[-1] if input.shape.rank != 0 else 0
    if same(found, width) is False:
        advice = "" if is_unknown(found) else f"; {parameter} should be {found}"
        message = f"the layer takes {width} features, but its input {input.shape} has {found} at the last axis{advice}"
        edits = correction(call, parameter, found)
        raise Mismatch(LAYER_FEATURES, message, result=result, tensors=(input,), related=origin(call), edits=edits)


def need_sequence(call: Call, input: Tensor) -> None:
    """Sequences have two axes, or three with a batch."""
    if input.shape.rank not in (None, 2, 3):
        message = f"a sequence has 2 axes, or 3 with a batch, but the input is {input.shape}"
        raise Mismatch(WRONG_RANK, message, result=input.with_shape(input.shape), tensors=(input,), related=origin(call))


def _layout(shape: Shape, batch_first: bool | None) -> tuple[Size | None, Size]:
    """The size of the batch (None without one) and the number of steps."""
    if shape.rank != 3:
        return None, shape.dims[0] if shape.rank == 2 else unknown()
    if batch_first is None:
        return unknown(), unknown()
    return (shape.dims[0], shape.dims[1]) if batch_first else (shape.dims[1], shape.dims[0])


def attended(
    call: Call, heads: Heads, query: Tensor, key: Tensor, value: Tensor, masks: tuple[Value, Value]
) -> tuple[Tensor, Size | None, Size, Size]:
    """The output of an attention layer, with batch, steps of the query and steps of the key."""
    result = query.with_shape(query.shape.without_last(1).extended(heads.width) if query.shape.rank is not None else query.shape)
    for input in (query, key, value):
        need_sequence(call, input)
    ranks = {tensor.shape.rank for tensor in (query, key, value)} - {None}
    if len(ranks) > 1:
        message = f"query {query.shape}, key {key.shape} and value {value.shape} have to be of one rank"
        raise Mismatch(WRONG_RANK, message, result=result, tensors=(query, key, value), related=heads.related)
    need_width(call, query, heads.width, "embed_dim", result)
    need_width(call, key, heads.key_width, "kdim", result)
    need_width(call, value, heads.value_width, "vdim", result)
    batch, steps = _layout(query.shape, heads.batch_first)
    key_batch, key_steps = _layout(key.shape, heads.batch_first)
    if same_shape(key.shape.without_last(1), value.shape.without_last(1)) is False:
        message = f"key {key.shape} and value {value.shape} have to have the same steps and batch"
        raise Mismatch(MATMUL_MISMATCH, message, result=result, tensors=(key, value), related=heads.related)
    if batch is not None and key_batch is not None and same(batch, key_batch) is False:
        message = f"query {query.shape} and key {key.shape} have batches of {batch} and {key_batch}{_order(heads)}"
        raise Mismatch(MATMUL_MISMATCH, message, result=result, tensors=(query, key), related=heads.related)
    if query.shape.rank is not None and key.shape.rank is not None:
        _check_masks(heads, masks, batch, steps, key_steps, result)
    return result, batch, steps, key_steps


def _order(heads: Heads) -> str:
    return "; the batch is axis 1 unless batch_first=True is set" if heads.batch_first is False else ""


def _check_masks(
    heads: Heads, masks: tuple[Value, Value], batch: Size | None, steps: Size, key_steps: Size, result: Tensor
) -> None:
    padding, attention = masks
    front: tuple[Size, ...] = () if batch is None else (batch,)
    if isinstance(padding, Tensor) and same_shape(padding.shape, Shape((*front, key_steps))) is False:
        message = f"key_padding_mask {padding.shape} has to be {Shape((*front, key_steps))}"
        raise Mismatch(NOT_BROADCASTABLE, message, result=result, tensors=(padding,), related=heads.related)
    if isinstance(attention, Tensor):
        rows = heads.heads if batch is None else batch * heads.heads
        forms = (Shape((steps, key_steps)), Shape((rows, steps, key_steps)))
        if all(same_shape(attention.shape, form) is False for form in forms):
            message = f"attn_mask {attention.shape} has to be {forms[0]} or {forms[1]}"
            raise Mismatch(NOT_BROADCASTABLE, message, result=result, tensors=(attention,), related=heads.related)


@native_class("torch.nn.MultiheadAttention")
class MultiheadAttention(Module):
    """`nn.MultiheadAttention`."""

    embed_dim: Extent
    num_heads: Extent
    dropout: Value = 0.0
    bias: Value = True
    add_bias_kv: Value = False
    add_zero_attn: Value = False
    kdim: Value = None
    vdim: Value = None
    batch_first: Value = False
    device: Value = None
    dtype: Value = None

    def setup(self, call: Call) -> Value:
        need_heads(self.embed_dim, self.num_heads)
        write(call, in_proj_weight=parameter(3 * self.embed_dim, self.embed_dim))
        return None

    def __call__(
        self,
        call: Call,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Value = None,
        need_weights: Value = True,
        attn_mask: Value = None,
        average_attn_weights: Value = True,
        is_causal: Value = False,
    ) -> Value:
        widths = [self.embed_dim if given is None else given for given in (self.kdim, self.vdim)]
        sizes = [size if isinstance(size, int) or not isinstance(size, Unknown) else unknown() for size in widths]
        heads = Heads(self.embed_dim, self.num_heads, sizes[0], sizes[1], flag(self.batch_first), origin(call))  # pyright: ignore[reportArgumentType]
        extended = flag(self.add_bias_kv) is not False or flag(self.add_zero_attn) is not False
        masks = (None, None) if extended else (key_padding_mask, attn_mask)
        output, batch, steps, key_steps = attended(call, heads, query, key, value, masks)
        if flag(need_weights) is False:
            return output, None
        if extended or flag(need_weights) is None or query.shape.rank is None or key.shape.rank is None:
            return output, output.with_shape(ANY_SHAPE)
        front: tuple[Size, ...] = () if batch is None else (batch,)
        middle: tuple[Size, ...] = () if flag(average_attn_weights) else (self.num_heads,)
        return output, output.with_shape(Shape((*front, *middle, steps, key_steps)))


@shape_rule("torch.nn.functional.scaled_dot_product_attention")
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: Value = 0.0,
    is_causal: Value = False,
    scale: Value = None,
    enable_gqa: Value = False,
) -> Tensor:
    """`F.scaled_dot_product_attention`: (..., L, E), (..., S, E) and (..., S, V) give (..., L, V)."""
    q, k, v = query.shape, key.shape, value.shape
    tensors = (query, key, value)
    if any(shape.rank is not None and shape.rank < 2 for shape in (q, k, v)):
        raise Mismatch(WRONG_RANK, f"attention needs at least 2 axes, not {q}, {k} and {v}", tensors=tensors)
    if same(q[-1], k[-1]) is False:
        message = f"query {q} and key {k} have {q[-1]} and {k[-1]} features at their last axis"
        raise Mismatch(MATMUL_MISMATCH, message, tensors=(query, key))
    if same(k[-2], v[-2]) is False:
        message = f"key {k} and value {v} have {k[-2]} and {v[-2]} steps at axis -2"
        raise Mismatch(MATMUL_MISMATCH, message, tensors=(key, value))
    grouped = flag(enable_gqa) is not False
    front = q.without_last(2)
    if not grouped:
        for other in (k, v):
            wide = broadcast_dims(front, other.without_last(2))
            if wide is None:
                raise Mismatch(MATMUL_MISMATCH, f"the axes before the last two of {q}, {k} and {v} differ", tensors=tensors)
            front = wide
    result = query.with_shape(front.extended(q[-2], v[-1]))
    scores = front.extended(q[-2], k[-2])
    if attn_mask is not None and not grouped:
        wide = broadcast_dims(attn_mask.shape, scores)
        if wide is None or same_shape(wide, scores) is False:
            message = f"the mask {attn_mask.shape} cannot be stretched to the scores {scores}"
            raise Mismatch(NOT_BROADCASTABLE, message, result=result, tensors=(attn_mask,))
    return result


# -- transformers -----------------------------------------------------------------------------------------------------


class TransformerLayer(Module):
    """The options that encoder and decoder layers share."""

    d_model: Extent
    nhead: Extent
    dim_feedforward: Value = 2048
    dropout: Value = 0.1
    activation: Value = None
    layer_norm_eps: Value = 1e-05
    batch_first: Value = False
    norm_first: Value = False
    bias: Value = True
    device: Value = None
    dtype: Value = None

    def setup(self, call: Call) -> Value:
        need_heads(self.d_model, self.nhead)
        return None


def encoded(call: Call, width: Size, heads: Size, batch_first: bool | None, source: Tensor, mask: Value, padding: Value) -> Tensor:
    """A sequence that attends to itself."""
    result = source.with_shape(source.shape)
    need_sequence(call, source)
    need_width(call, source, width, "d_model", result)
    sizes = Heads(width, heads, width, width, batch_first, origin(call))
    return attended(call, sizes, source, source, source, (padding, mask))[0]


def decoded(
    call: Call,
    width: Size,
    heads: Size,
    batch_first: bool | None,
    target: Tensor,
    memory: Tensor,
    masks: tuple[Value, Value, Value, Value],
) -> Tensor:
    """A sequence that attends to itself, then to another one."""
    mask, memory_mask, padding, memory_padding = masks
    result = encoded(call, width, heads, batch_first, target, mask, padding)
    need_sequence(call, memory)
    need_width(call, memory, width, "d_model", result)
    sizes = Heads(width, heads, width, width, batch_first, origin(call))
    return attended(call, sizes, target, memory, memory, (memory_padding, memory_mask))[0]


@native_class("torch.nn.TransformerEncoderLayer")
class TransformerEncoderLayer(TransformerLayer):
    """`nn.TransformerEncoderLayer`."""

    def __call__(
        self, call: Call, src: Tensor, src_mask: Value = None, src_key_padding_mask: Value = None, is_causal: Value = False
    ) -> Tensor:
        return encoded(call, self.d_model, self.nhead, flag(self.batch_first), src, src_mask, src_key_padding_mask)


@native_class("torch.nn.TransformerDecoderLayer")
class TransformerDecoderLayer(TransformerLayer):
    """`nn.TransformerDecoderLayer`."""

    def __call__(
        self,
        call: Call,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Value = None,
        memory_mask: Value = None,
        tgt_key_padding_mask: Value = None,
        memory_key_padding_mask: Value = None,
        tgt_is_causal: Value = False,
        memory_is_causal: Value = False,
    ) -> Tensor:
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        return decoded(call, self.d_model, self.nhead, flag(self.batch_first), tgt, memory, masks)


def _layer_sizes(layer: Value) -> tuple[Size, Size, bool | None] | None:
    """Width, heads and layout of the layer that a stack repeats; None if it is not one of PyTorch's own."""
    if not isinstance(layer, NativeObject | Instance) or "d_model" not in layer.slots or "nhead" not in layer.slots:
        return None
    slots = layer.slots
    return slots["d_model"], slots["nhead"], flag(slots.get("batch_first", False))


@native_class("torch.nn.TransformerEncoder")
class TransformerEncoder(Module):
    """`nn.TransformerEncoder`."""

    encoder_layer: Value
    num_layers: Value
    norm: Value = None
    enable_nested_tensor: Value = True
    mask_check: Value = True

    def __call__(
        self, call: Call, src: Tensor, mask: Value = None, src_key_padding_mask: Value = None, is_causal: Value = None
    ) -> Tensor:
        sizes = _layer_sizes(self.encoder_layer)
        if sizes is None:
            return src.with_shape(ANY_SHAPE)
        return encoded(call, *sizes, src, mask, src_key_padding_mask)


@native_class("torch.nn.TransformerDecoder")
class TransformerDecoder(Module):
    """`nn.TransformerDecoder`."""

    decoder_layer: Value
    num_layers: Value
    norm: Value = None

    def __call__(
        self,
        call: Call,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Value = None,
        memory_mask: Value = None,
        tgt_key_padding_mask: Value = None,
        memory_key_padding_mask: Value = None,
        tgt_is_causal: Value = None,
        memory_is_causal: Value = False,
    ) -> Tensor:
        sizes = _layer_sizes(self.decoder_layer)
        if sizes is None:
            return tgt.with_shape(ANY_SHAPE)
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        return decoded(call, *sizes, tgt, memory, masks)


@native_class("torch.nn.Transformer")
class Transformer(Module):
    """`nn.Transformer`."""

    d_model: Extent = 512
    nhead: Extent = 8
    num_encoder_layers: Value = 6
    num_decoder_layers: Value = 6
    dim_feedforward: Value = 2048
    dropout: Value = 0.1
    activation: Value = None
    custom_encoder: Value = None
    custom_decoder: Value = None
    layer_norm_eps: Value = 1e-05
    batch_first: Value = False
    norm_first: Value = False
    bias: Value = True
    device: Value = None
    dtype: Value = None

    def setup(self, call: Call) -> Value:
        if self.custom_encoder is None:
            need_heads(self.d_model, self.nhead)
        return None

    def __call__(
        self,
        call: Call,
        src: Tensor,
        tgt: Tensor,
        src_mask: Value = None,
        tgt_mask: Value = None,
        memory_mask: Value = None,
        src_key_padding_mask: Value = None,
        tgt_key_padding_mask: Value = None,
        memory_key_padding_mask: Value = None,
        src_is_causal: Value = None,
        tgt_is_causal: Value = None,
        memory_is_causal: Value = False,
    ) -> Tensor:
        if self.custom_encoder is not None or self.custom_decoder is not None:
            return tgt.with_shape(ANY_SHAPE)
        first = flag(self.batch_first)
        memory = encoded(call, self.d_model, self.nhead, first, src, src_mask, src_key_padding_mask)
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        return decoded(call, self.d_model, self.nhead, first, tgt, memory, masks)

    def generate_square_subsequent_mask(self, call: Call, sz: Extent, device: Value = None, dtype: Value = None) -> Tensor:
        return Tensor(Shape((sz, sz)), "f32", "torch")


@shape_rule("torch.nn.Transformer.generate_square_subsequent_mask")
def square_subsequent_mask(sz: Extent, device: Value = None, dtype: Value = None) -> Tensor:
    """A mask that hides what comes later."""
    return Tensor(Shape((sz, sz)), "f32", "torch")
