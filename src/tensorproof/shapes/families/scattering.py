"""Elements written by an array of positions or a mask: `scatter`, `index_add`, `masked_fill`, `x.at[i].set`. The shape stays."""

from __future__ import annotations

from tensorproof.rules.shapes.gather_shape import GATHER_SHAPE
from tensorproof.rules.shapes.not_broadcastable import NOT_BROADCASTABLE
from tensorproof.rules.shapes.store_mismatch import STORE_MISMATCH
from tensorproof.shapes.families.axis_numbers import checked_axis
from tensorproof.shapes.families.broadcasting import broadcast_dims
from tensorproof.shapes.families.indexing import fits, selected
from tensorproof.shapes.rule_table import CLASSES, Call, Mismatch, Sizes, as_tensor, native_class, shape_property, shape_rule
from tensorproof.shapes.shape import Shape
from tensorproof.shapes.sizes import less, same
from tensorproof.shapes.values import NativeObject, Tensor, Value


def _kept(tensor: Tensor) -> Tensor:
    return tensor.with_shape(tensor.shape)


def _refuse(message: str, tensor: Tensor, *others: Tensor) -> Mismatch:
    return Mismatch(GATHER_SHAPE, message, result=_kept(tensor), tensors=(tensor, *others))


# -- PyTorch ----------------------------------------------------------------------------------------------------------


@shape_rule(*(f"torch.{prefix}{name}" for prefix in ("", "Tensor.") for name in ("scatter", "scatter_add", "scatter_reduce")))
def torch_scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Value = None,
    reduce: Value = None,
    *,
    value: Value = None,
    include_self: Value = True,
) -> Tensor:
    """Written at positions along an axis: the index may not be larger than the source, nor than the input on other axes."""
    position = checked_axis(input, dim, scalar_has_axis=True)
    if position is None or index.shape.rank is None or 0 in index.shape.dims:
        return _kept(input)
    source = src if isinstance(src, Tensor) and src.shape.rank is not None else None
    # A scalar counts as a vector with one element.
    sizes, wanted = (shape.dims or (1,) for shape in (input.shape, index.shape))
    if len(sizes) != len(wanted):
        hint = "; unsqueeze the index" if len(wanted) == len(sizes) - 1 else ""
        raise _refuse(f"the index {index.shape} has to have as many axes as {input.shape}{hint}", input, index)
    for axis, (size, count) in enumerate(zip(sizes, wanted, strict=True)):
        if axis != position and less(size, count):
            raise _refuse(f"the index {index.shape} is larger than {input.shape} at axis {axis}", input, index)
    if source is not None:
        given = source.shape.dims or (1,)
        if len(given) != len(wanted):
            raise _refuse(f"the source {source.shape} has to have as many axes as the index {index.shape}", input, index, source)
        if any(less(size, count) for size, count in zip(given, wanted, strict=True)):
            raise _refuse(f"the index {index.shape} is larger than the source {source.shape}", input, index, source)
    return _kept(input)


@shape_rule("torch.masked_fill", "torch.Tensor.masked_fill")
def torch_masked_fill(call: Call, input: Tensor, mask: Tensor, value: Value) -> Tensor:
    """A value where the mask is true; both are broadcast, in place only the mask."""
    shape = broadcast_dims(input.shape, mask.shape)
    in_place = call.name.endswith("_")
    grown = shape is not None and shape.rank is not None and input.shape.rank is not None and _grows(input.shape, shape)
    if shape is None or (in_place and grown):
        message = f"the mask {mask.shape} cannot be broadcast to {input.shape}"
        raise Mismatch(NOT_BROADCASTABLE, message, result=_kept(input), tensors=(input, mask))
    return input.with_shape(input.shape if in_place else shape)


def _grows(before: Shape, after: Shape) -> bool:
    return len(after.dims) > len(before.dims) or any(same(a, b) is False for a, b in zip(before.dims, after.dims, strict=True))


@shape_rule("torch.masked_scatter", "torch.Tensor.masked_scatter")
def torch_masked_scatter(input: Tensor, mask: Tensor, source: Value) -> Tensor:
    """Elements of a source where the mask is true."""
    shape = broadcast_dims(input.shape, mask.shape)
    if shape is None:
        message = f"the mask {mask.shape} cannot be broadcast to {input.shape}"
        raise Mismatch(NOT_BROADCASTABLE, message, result=_kept(input), tensors=(input, mask))
    return input.with_shape(shape)


def _check_slices(input: Tensor, dim: int, index: Tensor, source: Tensor) -> None:
    """One slice of the source for each entry of the index, of the shape of the input's slices."""
    if index.shape.rank is not None and index.shape.rank > 1:
        raise _refuse(f"the index has to be a vector, not {index.shape}", input, index)
    position = checked_axis(input, dim, scalar_has_axis=True)
    if position is None or source.shape.rank is None or index.shape.rank is None or not input.shape.dims or not source.shape.dims:
        return
    if source.shape.rank != input.shape.rank:
        raise _refuse(f"the source {source.shape} has to have as many axes as {input.shape}", input, source)
    count = index.shape.dims[0] if index.shape.rank else 1
    for axis, (size, given) in enumerate(zip(input.shape.dims, source.shape.dims, strict=True)):
        wanted = count if axis == position else size
        if same(wanted, given) is False:
            raise _refuse(f"the source {source.shape} should have size {wanted} at axis {axis}", input, index, source)


@shape_rule(*(f"torch.{prefix}{name}" for prefix in ("", "Tensor.") for name in ("index_add", "index_copy")))
def torch_index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Value = 1) -> Tensor:
    """Slices added or copied at positions."""
    _check_slices(input, dim, index, source)
    return _kept(input)


@shape_rule("torch.index_fill", "torch.Tensor.index_fill")
def torch_index_fill(input: Tensor, dim: int, index: Tensor, value: Value) -> Tensor:
    """Slices filled with a value."""
    if index.shape.rank is not None and index.shape.rank > 1:
        raise _refuse(f"the index has to be a vector, not {index.shape}", input, index)
    checked_axis(input, dim, scalar_has_axis=True)
    return _kept(input)


# -- TensorFlow and Keras ---------------------------------------------------------------------------------------------


def _check_updates(shape: Shape, indices: Tensor, updates: Tensor, result: Tensor) -> None:
    """Coordinates lie along the last axis of the indices; each has one update of the shape of what it points to."""
    index = indices.shape
    depth = index[-1] if index.rank else None
    if shape.rank is None or index.rank is None or not isinstance(depth, int):
        return
    if depth > shape.rank:
        message = f"the indices {index} have {depth} coordinates, but {shape} has {shape.rank} axes"
        raise Mismatch(GATHER_SHAPE, message, result=result, tensors=(indices, updates))
    wanted = Shape((*index.dims[:-1], *shape.dims[depth:]))
    given = updates.shape
    if given.rank is None:
        return
    if given.rank != wanted.rank or any(same(a, b) is False for a, b in zip(given.dims, wanted.dims, strict=True)):
        message = f"updates for the indices {index} into {shape} should have shape {wanted}, not {given}"
        raise Mismatch(GATHER_SHAPE, message, result=result, tensors=(indices, updates))


@shape_rule("tf.scatter_nd")
def tf_scatter_nd(indices: Tensor, updates: Tensor, shape: Sizes, bad_indices_policy: Value = "", name: Value = None) -> Tensor:
    """Updates at coordinates of an array of zeros."""
    result = updates.with_shape(Shape(shape))
    _check_updates(Shape(shape), indices, updates, result)
    return result


@shape_rule("keras.ops.scatter")
def keras_scatter(indices: Tensor, values: Tensor, shape: Sizes) -> Tensor:
    """Updates at coordinates of an array of zeros."""
    result = values.with_shape(Shape(shape))
    _check_updates(Shape(shape), indices, values, result)
    return result


@shape_rule(
    "tf.tensor_scatter_nd_update",
    "tf.tensor_scatter_nd_add",
    "tf.tensor_scatter_nd_sub",
    "tf.tensor_scatter_nd_max",
    "tf.tensor_scatter_nd_min",
)
def tf_tensor_scatter(tensor: Tensor, indices: Tensor, updates: Tensor, name: Value = None) -> Tensor:
    """Updates at coordinates of an array."""
    _check_updates(tensor.shape, indices, updates, _kept(tensor))
    return _kept(tensor)


@shape_rule("keras.ops.scatter_update")
def keras_scatter_update(inputs: Tensor, indices: Tensor, updates: Tensor, reduction: Value = None) -> Tensor:
    """Updates at coordinates of an array."""
    _check_updates(inputs.shape, indices, updates, _kept(inputs))
    return _kept(inputs)


# -- JAX --------------------------------------------------------------------------------------------------------------


@native_class("jax.Array.at")
class Indexer:
    """`x.at`: what an index makes an updater of."""

    array: Value

    def __getitem__(self, call: Call, index: Value) -> Value:  # noqa: PLE0302
        return NativeObject(CLASSES["jax.Array.at.ref"], call.place, array=self.array, index=index)


@native_class("jax.Array.at.ref")
class Updater:
    """`x.at[index]`: its methods return the whole array with a part changed."""

    array: Value
    index: Value

    def set(self, call: Call, values: Value, **options: Value) -> Value:
        array = as_tensor(self.array, "jax")
        part = selected(call, array, self.index)
        stored = as_tensor(values, "jax")
        if 0 not in part.shape.head and not fits(stored.shape, part.shape):
            message = f"a value of shape {stored.shape} cannot be stored in a part of shape {part.shape}"
            raise Mismatch(STORE_MISMATCH, message, result=_kept(array), tensors=(array, stored))
        return _kept(array)

    add = subtract = multiply = mul = divide = power = min = max = set

    def apply(self, call: Call, function: Value, **options: Value) -> Value:
        return _kept(as_tensor(self.array, "jax"))

    def get(self, call: Call, **options: Value) -> Value:
        return selected(call, as_tensor(self.array, "jax"), self.index)


@shape_property("jax.Array.at")
def at(call: Call, input: Value) -> Value:
    """`x.at`."""
    return NativeObject(CLASSES["jax.Array.at"], call.place, array=input)


@shape_rule("numpy.put_along_axis")
def put_along_axis(arr: Tensor, indices: Tensor, values: Value, axis: Value) -> Value:
    """Writes into the array."""
    if arr.shape.rank is not None and indices.shape.rank is not None and axis is not None and arr.shape.rank != indices.shape.rank:
        raise _refuse(f"the index {indices.shape} has to have as many axes as {arr.shape}", arr, indices)
    return None
