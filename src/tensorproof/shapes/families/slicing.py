"""Stretches of arrays by functions: `tf.slice`, `jax.lax.dynamic_slice` and their kin."""

from __future__ import annotations

from collections.abc import Sequence

from tensorproof.rules.shapes.index_out_of_range import INDEX_OUT_OF_RANGE
from tensorproof.rules.shapes.store_mismatch import STORE_MISMATCH
from tensorproof.shapes.families.axis_numbers import checked_axis
from tensorproof.shapes.families.indexing import slice_length
from tensorproof.shapes.rule_table import Mismatch, NotKnown, Sizes, as_sizes, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, Shape
from tensorproof.shapes.sizes import Size, bounds, less, unknown
from tensorproof.shapes.values import Slice, Tensor, Value, as_size


def _refuse(message: str, *tensors: Tensor, result: Tensor | None = None) -> Mismatch:
    return Mismatch(
        INDEX_OUT_OF_RANGE, message, result=tensors[0].with_shape(ANY_SHAPE) if result is None else result, tensors=tensors
    )


def _check_count(tensor: Tensor, count: int, what: str) -> None:
    if tensor.shape.rank is not None and tensor.shape.rank != count:
        raise _refuse(f"{count} {what} for {tensor.shape}, which has {tensor.shape.rank} axes", tensor)


def _starts(begin: Value, count: int) -> list[Size | None]:
    """Where a slice begins on each axis; None where that is not known."""
    try:
        return list(as_sizes(begin))
    except NotKnown:
        return [None] * count


def stretch(tensor: Tensor, begin: Value, size: Sequence[Size], *, rest: bool, inside: bool = True) -> Tensor:
    """So many elements of each axis from a start; with `rest` a size of -1 takes all that remain."""
    _check_count(tensor, len(size), "sizes")
    starts = _starts(begin, len(size))
    if len(starts) != len(size):
        raise _refuse(f"{len(starts)} starts and {len(size)} sizes for {tensor.shape}", tensor)
    dims: list[Size] = []
    for axis, (start, count) in enumerate(zip(starts, size, strict=True)):
        whole = tensor.shape.dims[axis] if tensor.shape.rank is not None else unknown(0)
        first: Size = 0 if start is None else start
        if count == -1 and rest:
            dims.append(unknown(0) if start is None or bounds(first)[0] < 0 else whole - first)
            continue
        reach = first + count if inside and start is not None and bounds(first)[0] >= 0 else count
        if less(whole, reach) or bounds(count)[1] < 0 or (inside and bounds(first)[1] < 0):
            raise _refuse(f"{count} elements from {first} do not lie inside axis {axis} of {tensor.shape}", tensor)
        dims.append(unknown(0) if bounds(count)[0] < 0 else count)
    return tensor.with_shape(Shape(tuple(dims)))


@shape_rule("tf.slice")
def tf_slice(input_: Tensor, begin: Value, size: Sizes, name: Value = None) -> Tensor:
    """`tf.slice`."""
    return stretch(input_, begin, size, rest=True)


@shape_rule("keras.ops.slice")
def keras_slice(inputs: Tensor, start_indices: Value, shape: Sizes) -> Tensor:
    """`keras.ops.slice`."""
    return stretch(inputs, start_indices, shape, rest=True)


@shape_rule("jax.lax.dynamic_slice")
def lax_dynamic_slice(operand: Tensor, start_indices: Value, slice_sizes: Sizes, *, allow_negative_indices: Value = True) -> Tensor:
    """A start outside is moved inside, so that only the sizes count."""
    return stretch(operand, start_indices, slice_sizes, rest=False, inside=False)


def _replaced(tensor: Tensor, axis: int, size: Size) -> Tensor:
    dims = tensor.shape.dims
    return tensor.with_shape(Shape((*dims[:axis], size, *dims[axis + 1 :])))


@shape_rule("jax.lax.dynamic_slice_in_dim")
def lax_dynamic_slice_in_dim(
    operand: Tensor, start_index: Value, slice_size: Size, axis: int = 0, *, allow_negative_indices: Value = True
) -> Tensor:
    """A stretch of one axis."""
    position = checked_axis(operand, axis)
    if position is None:
        return operand.with_shape(ANY_SHAPE)
    if less(operand.shape.dims[position], slice_size) or bounds(slice_size)[1] < 0:
        raise _refuse(f"{slice_size} elements are more than axis {position} of {operand.shape} has", operand)
    return _replaced(operand, position, slice_size)


@shape_rule("jax.lax.dynamic_index_in_dim", "jax.lax.index_in_dim")
def lax_index_in_dim(
    operand: Tensor, index: Value, axis: int = 0, keepdims: bool = True, *, allow_negative_indices: Value = True
) -> Tensor:
    """One slice of an axis, which stays with size 1 or goes."""
    position = checked_axis(operand, axis)
    if position is None:
        return operand.with_shape(ANY_SHAPE)
    dims = operand.shape.dims
    return operand.with_shape(Shape((*dims[:position], *((1,) if keepdims else ()), *dims[position + 1 :])))


@shape_rule("jax.lax.slice_in_dim")
def lax_slice_in_dim(operand: Tensor, start_index: Value, limit_index: Value, stride: Value = 1, axis: int = 0) -> Tensor:
    """A slice of one axis."""
    position = checked_axis(operand, axis)
    if position is None:
        return operand.with_shape(ANY_SHAPE)
    return _replaced(operand, position, slice_length(Slice(start_index, limit_index, stride), operand.shape.dims[position]))


@shape_rule("jax.lax.slice")
def lax_slice(operand: Tensor, start_indices: Sizes, limit_indices: Sizes, strides: Sizes | None = None) -> Tensor:
    """A slice of every axis, whose ends have to lie inside."""
    _check_count(operand, len(start_indices), "starts")
    if len(limit_indices) != len(start_indices):
        raise _refuse(f"{len(start_indices)} starts and {len(limit_indices)} ends for {operand.shape}", operand)
    if operand.shape.rank is None:
        return operand.with_shape(ANY_SHAPE)
    steps = strides or (1,) * len(start_indices)
    dims: list[Size] = []
    for size, start, stop, step in zip(operand.shape.dims, start_indices, limit_indices, steps, strict=True):
        if less(size, stop) or less(stop, start):
            raise _refuse(f"a slice from {start} to {stop} does not lie inside an axis of size {size} of {operand.shape}", operand)
        dims.append((stop - start + step - 1) // step)
    return operand.with_shape(Shape(tuple(dims)))


def _stored(operand: Tensor, update: Tensor) -> Tensor:
    """The operand; the update has to have its rank and may not be larger."""
    result = operand.with_shape(operand.shape)
    if operand.shape.rank is None or update.shape.rank is None:
        return result
    larger = len(update.shape.dims) != len(operand.shape.dims) or any(
        less(room, size) for room, size in zip(operand.shape.dims, update.shape.dims, strict=True)
    )
    if larger:
        message = f"an update of shape {update.shape} does not fit into {operand.shape}"
        raise Mismatch(STORE_MISMATCH, message, result=result, tensors=(operand, update))
    return result


@shape_rule("jax.lax.dynamic_update_slice")
def lax_dynamic_update_slice(
    operand: Tensor, update: Tensor, start_indices: Value, *, allow_negative_indices: Value = True
) -> Tensor:
    """A stretch written."""
    return _stored(operand, update)


@shape_rule("keras.ops.slice_update")
def keras_slice_update(inputs: Tensor, start_indices: Value, updates: Tensor) -> Tensor:
    """A stretch written."""
    return _stored(inputs, updates)


@shape_rule("jax.lax.dynamic_update_slice_in_dim", "jax.lax.dynamic_update_index_in_dim")
def lax_dynamic_update_slice_in_dim(
    operand: Tensor, update: Tensor, start_index: Value, axis: int, *, allow_negative_indices: Value = True
) -> Tensor:
    """A stretch of one axis written."""
    position = checked_axis(operand, axis)
    if position is None or as_size(update.shape.rank) != operand.shape.rank:
        return operand.with_shape(operand.shape)
    return _stored(operand, update)
