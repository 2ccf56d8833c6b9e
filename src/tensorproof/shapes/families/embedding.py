"""Lookups of rows in a table by index."""

from __future__ import annotations

from tensorproof.rules.shapes.gather_shape import GATHER_SHAPE
from tensorproof.rules.shapes.wrong_rank import WRONG_RANK
from tensorproof.shapes.families.modules import Module, origin, parameter, write
from tensorproof.shapes.problems import Related
from tensorproof.shapes.rule_table import CLASSES, Call, Extent, Mismatch, native_class, shape_rule
from tensorproof.shapes.shape import Shape, same_shape
from tensorproof.shapes.sizes import Size
from tensorproof.shapes.values import NativeObject, Tensor, Value


def looked_up(input: Tensor, width: Size) -> Tensor:
    """A row for each index."""
    return input.with_shape(input.shape.extended(width), dtype="f32")


@native_class("torch.nn.Embedding")
class Embedding(Module):
    """`nn.Embedding`."""

    num_embeddings: Extent
    embedding_dim: Extent
    padding_idx: Value = None
    max_norm: Value = None
    norm_type: Value = 2.0
    scale_grad_by_freq: Value = False
    sparse: Value = False
    _weight: Value = None
    _freeze: Value = False
    device: Value = None
    dtype: Value = None

    def setup(self, call: Call) -> Value:
        write(call, weight=parameter(self.num_embeddings, self.embedding_dim))
        return None

    def __call__(self, call: Call, input: Tensor) -> Tensor:
        return looked_up(input, self.embedding_dim)


@shape_rule("torch.nn.Embedding.from_pretrained", "torch.nn.EmbeddingBag.from_pretrained")
def from_pretrained(call: Call, embeddings: Tensor, *arguments: Value, **options: Value) -> Value:
    """A layer around a table that exists."""
    table = embeddings.shape
    if table.rank not in (None, 2):
        raise Mismatch(WRONG_RANK, f"a table of embeddings has 2 axes, not {table}", tensors=(embeddings,))
    name = call.name.removesuffix(".from_pretrained")
    rows, width = Shape(table.head[:2], table.tail)[0], table[-1]
    return NativeObject(CLASSES[name], call.place, num_embeddings=rows, embedding_dim=width, weight=embeddings, **options)


@shape_rule("torch.nn.functional.embedding")
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: Value = None,
    max_norm: Value = None,
    norm_type: Value = 2.0,
    scale_grad_by_freq: Value = False,
    sparse: Value = False,
) -> Tensor:
    """`F.embedding`."""
    if weight.shape.rank not in (None, 2):
        raise Mismatch(WRONG_RANK, f"a table of embeddings has 2 axes, not {weight.shape}", tensors=(weight,))
    return looked_up(input, weight.shape[-1])


def bagged(
    input: Tensor, width: Size, offsets: Tensor | None, weights: Tensor | None, last: Value, related: tuple[Related, ...] = ()
) -> Tensor:
    """One row for each bag of indices: rows of a matrix, or stretches of a vector between offsets."""
    shape = input.shape
    if shape.rank not in (None, 1, 2):
        raise Mismatch(WRONG_RANK, f"bags of indices have 1 or 2 axes, not {shape}", tensors=(input,), related=related)
    if shape.rank == 1 and offsets is None:
        message = f"indices {shape} in one axis need offsets that divide them into bags"
        raise Mismatch(WRONG_RANK, message, tensors=(input,), related=related)
    if shape.rank == 2 and offsets is not None:
        message = f"indices {shape} in two axes are bags already: offsets must not be given"
        raise Mismatch(WRONG_RANK, message, tensors=(input,), related=related)
    if offsets is not None and offsets.shape.rank not in (None, 1):
        raise Mismatch(WRONG_RANK, f"offsets have 1 axis, not {offsets.shape}", tensors=(offsets,), related=related)
    if weights is not None and same_shape(weights.shape, shape) is False:
        message = f"per_sample_weights {weights.shape} have to be of the shape {shape} of the indices"
        raise Mismatch(GATHER_SHAPE, message, tensors=(input, weights), related=related)
    if offsets is not None:
        bags = offsets.shape[0] - (1 if last is True else 0)
        return input.with_shape(Shape((bags, width)), dtype="f32")
    return input.with_shape(Shape((shape[0], width)), dtype="f32")


@native_class("torch.nn.EmbeddingBag")
class EmbeddingBag(Module):
    """`nn.EmbeddingBag`."""

    num_embeddings: Extent
    embedding_dim: Extent
    max_norm: Value = None
    norm_type: Value = 2.0
    scale_grad_by_freq: Value = False
    mode: Value = "mean"
    sparse: Value = False
    _weight: Value = None
    include_last_offset: Value = False
    padding_idx: Value = None
    device: Value = None
    dtype: Value = None

    def setup(self, call: Call) -> Value:
        write(call, weight=parameter(self.num_embeddings, self.embedding_dim))
        return None

    def __call__(
        self, call: Call, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        return bagged(input, self.embedding_dim, offsets, per_sample_weights, self.include_last_offset, origin(call))


@shape_rule("torch.nn.functional.embedding_bag")
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: Value = None,
    norm_type: Value = 2,
    scale_grad_by_freq: Value = False,
    mode: Value = "mean",
    sparse: Value = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: Value = False,
    padding_idx: Value = None,
) -> Tensor:
    """`F.embedding_bag`."""
    if weight.shape.rank not in (None, 2):
        raise Mismatch(WRONG_RANK, f"a table of embeddings has 2 axes, not {weight.shape}", tensors=(weight,))
    return bagged(input, weight.shape[-1], offsets, per_sample_weights, include_last_offset)
