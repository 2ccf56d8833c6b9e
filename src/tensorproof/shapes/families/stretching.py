"""One array stretched to a larger shape: `expand`, `broadcast_to`; and elements turned around within a shape: `flip`, `roll`."""

from __future__ import annotations

from collections.abc import Sequence

from tensorproof.rules.shapes.axis_out_of_range import AXIS_OUT_OF_RANGE
from tensorproof.rules.shapes.not_broadcastable import NOT_BROADCASTABLE
from tensorproof.shapes.batches import meeting
from tensorproof.shapes.families.axes import as_tuple, axes_given, not_negative
from tensorproof.shapes.families.axis_numbers import checked_axes
from tensorproof.shapes.families.creation import sizes_of
from tensorproof.shapes.rule_table import Axes, Call, Mismatch, NotKnown, Sizes, as_sizes, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, Shape
from tensorproof.shapes.sizes import Size, bounds, same, unknown
from tensorproof.shapes.strides import restrided, strides_of
from tensorproof.shapes.values import Tensor, Value, as_size


def stretched_to(call: Call, tensor: Tensor, target: Sequence[Size], *, keeps: bool = False) -> Tensor:
    """The tensor under a larger shape: axes of size 1 are repeated, new axes come in front. If it `keeps`, -1 leaves an axis."""
    shape = tensor.shape
    if shape.rank is None:
        return tensor.with_shape(Shape(tuple(unknown(0) if bounds(size)[0] < 0 else size for size in target)), contiguous=None)
    added = len(target) - shape.rank
    goal = Shape(tuple(target))
    if added < 0:
        message = f"{shape} has more axes than {goal}, to which it should be stretched"
        raise Mismatch(NOT_BROADCASTABLE, message, tensors=(tensor,))
    known = strides_of(tensor)
    strides: list[Size] = [0] * added
    dims: list[Size] = []
    for axis, size in enumerate(target):
        own = shape.dims[axis - added] if axis >= added else 1
        if keeps and size == -1 and axis >= added:
            dims.append(own)
        elif bounds(size)[1] < 0:
            message = f"axis {axis} of {goal} is negative, but {shape} has no size for it"
            raise Mismatch(NOT_BROADCASTABLE, message, tensors=(tensor,))
        elif own != 1 and same(own, size) is False and not bounds(own)[0] <= 1 <= bounds(own)[1]:
            result = tensor.with_shape(goal, contiguous=None)
            if not (axis == 0 and added == 0 and meeting(call, tensor, result.with_shape(goal, batch_factor=None))):
                message = f"{shape} cannot be stretched to {goal}: size {own} becomes {size} at axis {axis}"
                raise Mismatch(NOT_BROADCASTABLE, message, result=result, tensors=(tensor,))
            dims.append(size)
        else:
            dims.append(size if bounds(size)[0] >= 0 else unknown(0))
        if axis >= added and known is not None:
            strides.append(known[axis - added] if same(own, dims[-1]) else 0)
    return restrided(tensor, dims, None if known is None else tuple(strides))


@shape_rule("torch.Tensor.expand")
def torch_expand(call: Call, input: Tensor, *size: Value, **named: Value) -> Tensor:
    """`x.expand(3, -1, 4)`."""
    return stretched_to(call, input, sizes_of(size or tuple(named.values())).dims, keeps=True)


@shape_rule("torch.Tensor.expand_as")
def torch_expand_as(call: Call, input: Tensor, other: Tensor) -> Tensor:
    """Stretched to the shape of another tensor."""
    if other.shape.rank is None:
        return input.with_shape(ANY_SHAPE, contiguous=None)
    return stretched_to(call, input, other.shape.dims)


@shape_rule("torch.broadcast_to", "torch.Tensor.broadcast_to")
def torch_broadcast_to(call: Call, input: Tensor, size: Sizes) -> Tensor:
    """Stretched; -1 leaves an axis."""
    return stretched_to(call, input, size, keeps=True)


@shape_rule("numpy.broadcast_to")
def broadcast_to(call: Call, array: Tensor, shape: Sizes, subok: Value = False) -> Tensor:
    """Stretched to a shape."""
    return stretched_to(call, array, shape)


@shape_rule("jax.numpy.broadcast_to")
def jax_broadcast_to(call: Call, array: Tensor, shape: Sizes, *, out_sharding: Value = None) -> Tensor:
    """Stretched to a shape."""
    return stretched_to(call, array, shape)


@shape_rule("keras.ops.broadcast_to")
def keras_broadcast_to(call: Call, x: Tensor, shape: Sizes) -> Tensor:
    """Stretched to a shape."""
    return stretched_to(call, x, shape)


@shape_rule("tf.broadcast_to")
def tf_broadcast_to(call: Call, input: Tensor, shape: Sizes, name: Value = None) -> Tensor:
    """Stretched to a shape."""
    return stretched_to(call, input, shape)


@shape_rule("jax.lax.broadcast")
def lax_broadcast(operand: Tensor, sizes: Sizes, *, out_sharding: Value = None) -> Tensor:
    """New axes in front."""
    return operand.with_shape(operand.shape.preceded(*sizes))


@shape_rule("jax.lax.broadcast_in_dim")
def lax_broadcast_in_dim(operand: Tensor, shape: Sizes, broadcast_dimensions: Axes, *, out_sharding: Value = None) -> Tensor:
    """Each axis of the operand becomes a named axis of the result."""
    places = as_tuple(broadcast_dimensions)
    rank = operand.shape.rank
    goal = Shape(shape)
    result = operand.with_shape(goal)
    if rank is None:
        return result
    if rank == len(shape) and not places:
        return operand
    wrong = (
        len(places) != rank
        or any(not 0 <= place < len(shape) for place in places)
        or list(places) != sorted(set(places))
        or any(own != 1 and same(own, shape[place]) is False for own, place in zip(operand.shape.dims, places, strict=False))
    )
    if wrong:
        message = f"{operand.shape} cannot be stretched to {goal} at axes {places}"
        raise Mismatch(NOT_BROADCASTABLE, message, result=result, tensors=(operand,))
    return result


# -- elements turned around -------------------------------------------------------------------------------------------


def turned(tensor: Tensor, axes: Sequence[int], *, scalar_has_axis: bool = False) -> Tensor:
    """Elements reversed or rotated along axes, which have to exist."""
    checked_axes(tensor, axes, scalar_has_axis=scalar_has_axis)
    return tensor.with_shape(tensor.shape)


def rolled(tensor: Tensor, shifts: Value, axes: Axes, *, scalar_has_axis: bool = False) -> Tensor:
    """Elements moved along axes, one shift for each; several shifts of one axis add up."""
    if axes is None:
        return tensor.with_shape(tensor.shape)
    count = 1 if as_size(shifts) is not None else len(as_sizes(shifts))
    named = as_tuple(axes)
    if tensor.framework == "torch" and count != len(named):
        message = f"{count} shifts for {len(named)} axes of {tensor.shape}"
        raise Mismatch(AXIS_OUT_OF_RANGE, message, result=tensor, tensors=(tensor,))
    if count != len(named) and 1 not in (count, len(named)):
        message = f"{count} shifts and {len(named)} axes cannot be paired"
        raise Mismatch(AXIS_OUT_OF_RANGE, message, result=tensor, tensors=(tensor,))
    for axis in named:
        checked_axes(tensor, (axis,), scalar_has_axis=scalar_has_axis)
    return tensor.with_shape(tensor.shape)


def rotated(tensor: Tensor, times: int, axes: Sequence[int]) -> Tensor:
    """Turned by quarters in the plane of two axes."""
    if len(axes) != 2:
        raise Mismatch(AXIS_OUT_OF_RANGE, f"a rotation takes two axes, not {len(axes)}", result=tensor, tensors=(tensor,))
    if tensor.shape.rank is not None and tensor.shape.rank < 2:
        raise Mismatch(AXIS_OUT_OF_RANGE, f"a rotation needs two axes, {tensor.shape} has fewer", result=tensor, tensors=(tensor,))
    positions = checked_axes(tensor, axes)
    if positions is None:
        raise NotKnown
    dims = list(tensor.shape.dims)
    if times % 2:
        one, other = positions
        dims[one], dims[other] = dims[other], dims[one]
    return tensor.with_shape(Shape(tuple(dims)), contiguous=None)


@shape_rule("torch.flip")
def torch_flip(input: Tensor, dims: Axes) -> Tensor:
    """Reversed along axes."""
    return turned(input, as_tuple(dims), scalar_has_axis=True)


@shape_rule("torch.Tensor.flip")
def torch_flip_method(input: Tensor, *dims: Value, **named: Value) -> Tensor:
    """`x.flip(0, 1)`."""
    return turned(input, axes_given(dims or tuple(named.values())), scalar_has_axis=True)


def _flipped_at(tensor: Tensor, axis: int) -> Tensor:
    if tensor.shape.rank is not None and tensor.shape.rank <= axis:
        message = f"{tensor.shape} has no axis {axis} to be reversed along"
        raise Mismatch(AXIS_OUT_OF_RANGE, message, result=tensor, tensors=(tensor,))
    return tensor.with_shape(tensor.shape)


@shape_rule("torch.fliplr", "torch.Tensor.fliplr")
def torch_fliplr(input: Tensor) -> Tensor:
    """Columns reversed."""
    return _flipped_at(input, 1)


@shape_rule("torch.flipud", "torch.Tensor.flipud")
def torch_flipud(input: Tensor) -> Tensor:
    """Rows reversed."""
    return _flipped_at(input, 0)


@shape_rule("numpy.fliplr", "jax.numpy.fliplr")
def fliplr(m: Tensor) -> Tensor:
    """Columns reversed."""
    return _flipped_at(m, 1)


@shape_rule("numpy.flipud", "jax.numpy.flipud")
def flipud(m: Tensor) -> Tensor:
    """Rows reversed."""
    return _flipped_at(m, 0)


@shape_rule("numpy.flip", "jax.numpy.flip")
def flip(m: Tensor, axis: Axes = None) -> Tensor:
    """Reversed along axes."""
    return turned(m, as_tuple(axis))


@shape_rule("keras.ops.flip")
def keras_flip(x: Tensor, axis: Axes = None) -> Tensor:
    """Reversed along axes."""
    return turned(x, as_tuple(axis))


@shape_rule("tf.reverse")
def tf_reverse(tensor: Tensor, axis: Axes, name: Value = None) -> Tensor:
    """Reversed along axes."""
    return turned(tensor, as_tuple(axis))


@shape_rule("jax.lax.rev")
def lax_rev(operand: Tensor, dimensions: Axes) -> Tensor:
    """Reversed along axes."""
    return turned(operand, not_negative(operand, dimensions))


@shape_rule("torch.roll", "torch.Tensor.roll")
def torch_roll(input: Tensor, shifts: Value, dims: Axes = None) -> Tensor:
    """Moved around along axes."""
    return rolled(input, shifts, None if dims == () else dims, scalar_has_axis=True)


@shape_rule("numpy.roll", "jax.numpy.roll")
def roll(a: Tensor, shift: Value, axis: Axes = None) -> Tensor:
    """Moved around along axes."""
    return rolled(a, shift, axis)


@shape_rule("keras.ops.roll")
def keras_roll(x: Tensor, shift: Value, axis: Axes = None) -> Tensor:
    """Moved around along axes."""
    return rolled(x, shift, axis)


@shape_rule("tf.roll")
def tf_roll(input: Tensor, shift: Value, axis: Axes, name: Value = None) -> Tensor:
    """Moved around along axes."""
    return rolled(input, shift, axis)


@shape_rule("torch.rot90", "torch.Tensor.rot90")
def torch_rot90(input: Tensor, k: int = 1, dims: Axes = (0, 1)) -> Tensor:
    """Turned by quarters."""
    return rotated(input, k, as_tuple(dims))


@shape_rule("numpy.rot90", "jax.numpy.rot90")
def rot90(m: Tensor, k: int = 1, axes: Axes = (0, 1)) -> Tensor:
    """Turned by quarters."""
    return rotated(m, k, as_tuple(axes))


@shape_rule("keras.ops.rot90")
def keras_rot90(array: Tensor, k: int = 1, axes: Axes = (0, 1)) -> Tensor:
    """Turned by quarters; without a turn the axes are not looked at."""
    return array if k % 4 == 0 else rotated(array, k, as_tuple(axes))
