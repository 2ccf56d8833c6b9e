"""Integers as vectors: one-hot codes and masks of lengths."""

from __future__ import annotations

from tensorproof.shapes.families.axis_numbers import resolved_axis
from tensorproof.shapes.families.number_types import dtype_name
from tensorproof.shapes.rule_table import Call, coerced, shape_rule
from tensorproof.shapes.shape import Shape
from tensorproof.shapes.sizes import bounds, unknown
from tensorproof.shapes.values import Tensor, Value, as_size


def one_hot(call: Call, indices: Tensor, classes: Value, axis: int = -1) -> Tensor:
    """A vector of classes per index, along a new axis."""
    size = as_size(classes)
    count = unknown() if size is None or bounds(size)[0] < 0 else size
    shape = indices.shape
    if axis != -1:
        grown = indices.with_shape(shape.extended(count))
        position = resolved_axis(call, grown, axis)
        if shape.rank is None:
            return Tensor(dtype="f32", framework=call.framework)
        return Tensor(
            Shape((*shape.dims[:position], count, *shape.dims[position:])), "f32", call.framework, history=indices.history
        )
    return Tensor(shape.extended(count), "i64" if call.framework == "torch" else "f32", call.framework, history=indices.history)


@shape_rule("torch.nn.functional.one_hot")
def torch_one_hot(call: Call, tensor: Tensor, num_classes: Value = -1) -> Tensor:
    """A vector of classes per index; how many classes may depend on values."""
    return one_hot(call, tensor, num_classes)


@shape_rule("tf.one_hot")
def tf_one_hot(
    call: Call,
    indices: Tensor,
    depth: Value,
    on_value: Value = None,
    off_value: Value = None,
    axis: Value = None,
    dtype: Value = None,
    name: Value = None,
) -> Tensor:
    """A vector of classes per index."""
    position = coerced(axis, "int | None", "tf")
    return one_hot(call, indices, depth, position if isinstance(position, int) else -1)


@shape_rule("jax.nn.one_hot", "keras.ops.one_hot")
def jax_one_hot(call: Call, x: Tensor, num_classes: Value, axis: int = -1, dtype: Value = None, sparse: Value = False) -> Tensor:
    """A vector of classes per index."""
    return one_hot(call, x, num_classes, axis)


@shape_rule("keras.utils.to_categorical")
def to_categorical(call: Call, x: Tensor, num_classes: Value = None) -> Tensor:
    """A vector of classes per index; a last axis of size 1 is dropped."""
    shape = x.shape
    if shape.least_rank > 1 and shape[-1] == 1:
        shape = shape.without_last(1)
    framework = x.framework if x.framework in ("tf", "jax", "torch") else "numpy"
    result = one_hot(call, x.with_shape(shape), num_classes)
    return result.with_shape(result.shape, framework=framework)


@shape_rule("tf.sequence_mask")
def tf_sequence_mask(call: Call, lengths: Tensor, maxlen: Value = None, dtype: Value = None, name: Value = None) -> Tensor:
    """A row of bools per length."""
    result = one_hot(call, lengths, maxlen)
    return result.with_shape(result.shape, dtype=dtype_name(dtype, "bool"))
