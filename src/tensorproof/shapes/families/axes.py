"""Axes: exchanged, added, removed, stretched, reversed. The elements stay; `contiguous` says whether memory still follows."""

from __future__ import annotations

from collections.abc import Sequence

from tensorproof.rules.shapes.axis_out_of_range import AXIS_OUT_OF_RANGE
from tensorproof.rules.shapes.bare_squeeze import BARE_SQUEEZE
from tensorproof.shapes.families.axis_numbers import checked_axes, checked_axis
from tensorproof.shapes.families.creation import sizes_of
from tensorproof.shapes.rule_table import Axes, Call, Mismatch, NotKnown, shape_property, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, Shape
from tensorproof.shapes.sizes import Size, bounds, is_unknown, same, symbols, unknown
from tensorproof.shapes.strides import restrided, strides_of
from tensorproof.shapes.values import Tensor, Value


def as_tuple(axes: Axes) -> tuple[int, ...]:
    """One axis as a tuple, and none as an empty one."""
    return () if axes is None else (axes,) if isinstance(axes, int) else axes


def axes_given(values: tuple[Value, ...]) -> tuple[int, ...]:
    """Axes as methods take them: one by one, or all in one tuple."""
    axes = tuple(size for size in sizes_of(values).dims if isinstance(size, int))
    if len(axes) != len(sizes_of(values).dims):
        raise NotKnown
    return axes


# -- exchange ---------------------------------------------------------------------------------------------------------


def permuted(tensor: Tensor, order: Sequence[int]) -> Tensor:
    """The axes in another order, all of which have to be named once."""
    shape = tensor.shape
    if shape.rank is None:
        return tensor.with_shape(Shape(tuple(unknown(0) for _ in order)), contiguous=None)
    if len(order) != shape.rank:
        message = f"{len(order)} axes are given for {shape}, which has {shape.rank}"
        raise Mismatch(AXIS_OUT_OF_RANGE, message, tensors=(tensor,))
    positions = checked_axes(tensor, order)
    assert positions is not None
    return _reordered(tensor, positions)


def _reordered(tensor: Tensor, positions: Sequence[int]) -> Tensor:
    strides = strides_of(tensor)
    moved = None if strides is None else tuple(strides[axis] for axis in positions)
    result = restrided(tensor, [tensor.shape.dims[axis] for axis in positions], moved)
    kept = frozenset(new for new, old in enumerate(positions) if old in tensor.new_axes)
    return result.with_shape(result.shape, contiguous=result.contiguous, strides=result.strides, new_axes=kept)


def reversed_axes(tensor: Tensor) -> Tensor:
    """The transpose of a matrix; of other arrays all axes in reverse order."""
    shape = tensor.shape
    if shape.rank is None:
        head = () if shape.tail is None else tuple(reversed(shape.tail))
        return tensor.with_shape(Shape(head, tuple(reversed(shape.head))), contiguous=None)
    return _reordered(tensor, tuple(reversed(range(shape.rank))))


def exchanged(tensor: Tensor, first: int, second: int, *, scalar_has_axis: bool = False) -> Tensor:
    """Two axes change places."""
    shape = tensor.shape
    if shape.rank is None:
        return tensor.with_shape(_exchanged_open(shape, first, second), contiguous=None)
    if shape.rank == 0 and scalar_has_axis:
        checked_axes(tensor, (first,), scalar_has_axis=True)
        checked_axes(tensor, (second,), scalar_has_axis=True)
        return tensor
    one, other = checked_axis(tensor, first), checked_axis(tensor, second)
    assert one is not None
    assert other is not None
    order = list(range(shape.rank))
    order[one], order[other] = other, one
    return _reordered(tensor, order)


def _exchanged_open(shape: Shape, first: int, second: int) -> Shape:
    """The last two axes of a shape of unknown rank; others are not followed."""
    assert shape.tail is not None
    if {first, second} == {-1, -2} and len(shape.tail) >= 2:
        return Shape(shape.head, (*shape.tail[:-2], shape.tail[-1], shape.tail[-2]))
    return ANY_SHAPE


def matrix_transposed(tensor: Tensor) -> Tensor:
    """The last two axes exchanged."""
    if tensor.shape.rank is not None and tensor.shape.rank < 2:
        message = f"a matrix transpose of {tensor.shape}, which has fewer than two axes"
        raise Mismatch(AXIS_OUT_OF_RANGE, message, tensors=(tensor,))
    return exchanged(tensor, -1, -2)


def moved_axes(tensor: Tensor, source: Sequence[int], destination: Sequence[int], *, scalar_has_axis: bool = False) -> Tensor:
    """Axes moved to other places, the rest in their order."""
    if len(source) != len(destination):
        raise Mismatch(AXIS_OUT_OF_RANGE, f"{len(source)} axes are moved to {len(destination)} places", tensors=(tensor,))
    distinct = tensor.framework not in ("jax", "keras", "tf")
    origins = checked_axes(tensor, source, scalar_has_axis=scalar_has_axis, distinct=distinct)
    targets = checked_axes(tensor, destination, scalar_has_axis=scalar_has_axis, distinct=distinct)
    if origins is None or targets is None or len(set(origins)) + len(set(targets)) < 2 * len(source):
        return tensor.with_shape(ANY_SHAPE, contiguous=None)
    if tensor.shape.rank == 0:
        return tensor
    order = [axis for axis in range(len(tensor.shape.dims)) if axis not in origins]
    for target, origin in sorted(zip(targets, origins, strict=True)):
        order.insert(target, origin)
    return _reordered(tensor, order)


@shape_rule("torch.permute")
def torch_permute(input: Tensor, dims: Axes) -> Tensor:
    """`torch.permute`."""
    return permuted(input, as_tuple(dims))


@shape_rule("torch.Tensor.permute")
def torch_permute_method(input: Tensor, *dims: Value, **named: Value) -> Tensor:
    """`x.permute(0, 2, 1)`."""
    return permuted(input, axes_given(dims or tuple(named.values())))


@shape_rule("torch.transpose", "torch.Tensor.transpose", "torch.swapdims", "torch.Tensor.swapdims")
def torch_transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two axes exchanged."""
    return exchanged(input, dim0, dim1, scalar_has_axis=True)


@shape_rule("torch.swapaxes", "torch.Tensor.swapaxes")
def torch_swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """Two axes exchanged."""
    return exchanged(input, axis0, axis1, scalar_has_axis=True)


@shape_rule("torch.t", "torch.Tensor.t")
def torch_t(input: Tensor) -> Tensor:
    """The transpose of a matrix; vectors stay."""
    rank = input.shape.rank
    if rank is not None and rank > 2:
        raise Mismatch(AXIS_OUT_OF_RANGE, f"t() takes at most two axes, but {input.shape} has {rank}", tensors=(input,))
    return reversed_axes(input)


@shape_property("torch.Tensor.T", "numpy.ndarray.T", "jax.Array.T")
def transpose_property(input: Tensor) -> Tensor:
    """`x.T`."""
    return reversed_axes(input)


@shape_property("torch.Tensor.mT", "torch.Tensor.mH")
def torch_matrix_transpose(input: Tensor) -> Tensor:
    """`x.mT`; a scalar stays in PyTorch."""
    return input if input.shape.rank == 0 else matrix_transposed(input)


@shape_property("torch.Tensor.H")
def torch_adjoint(input: Tensor) -> Tensor:
    """`x.H`: only of matrices."""
    rank = input.shape.rank
    if rank is not None and rank not in (0, 2):
        raise Mismatch(AXIS_OUT_OF_RANGE, f"H is only there for matrices, not for {input.shape}", tensors=(input,))
    return reversed_axes(input)


@shape_property("numpy.ndarray.mT", "jax.Array.mT")
def matrix_transpose_property(input: Tensor) -> Tensor:
    """`x.mT`."""
    return matrix_transposed(input)


@shape_rule("numpy.matrix_transpose", "jax.numpy.matrix_transpose")
def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two axes exchanged."""
    return matrix_transposed(x)


@shape_rule("tf.linalg.matrix_transpose")
def tf_matrix_transpose(a: Tensor, name: Value = None, conjugate: Value = False) -> Tensor:
    """The last two axes exchanged."""
    return matrix_transposed(a)


@shape_rule("torch.movedim", "torch.Tensor.movedim", "torch.moveaxis", "torch.Tensor.moveaxis")
def torch_movedim(input: Tensor, source: Axes, destination: Axes) -> Tensor:
    """Axes moved."""
    return moved_axes(input, as_tuple(source), as_tuple(destination), scalar_has_axis=True)


@shape_rule("numpy.moveaxis", "jax.numpy.moveaxis")
def moveaxis(a: Tensor, source: Axes, destination: Axes) -> Tensor:
    """Axes moved."""
    return moved_axes(a, as_tuple(source), as_tuple(destination))


@shape_rule("keras.ops.moveaxis")
def keras_moveaxis(x: Tensor, source: Axes, destination: Axes) -> Tensor:
    """Axes moved."""
    return moved_axes(x, as_tuple(source), as_tuple(destination))


@shape_rule("numpy.rollaxis", "jax.numpy.rollaxis")
def rollaxis(a: Tensor, axis: int, start: int = 0) -> Tensor:
    """One axis moved in front of another."""
    origin = checked_axis(a, axis)
    target = checked_axis(a, start, extra=1)
    if a.shape.rank is None or origin is None or target is None:
        raise NotKnown
    if start < 0:
        target = start + a.shape.rank
    if target < 0:
        raise Mismatch(AXIS_OUT_OF_RANGE, f"start {start} is out of range for {a.shape}", tensors=(a,))
    return moved_axes(a, (origin,), (target - 1 if target > origin else target,))


def transposed(tensor: Tensor, axes: Axes) -> Tensor:
    """All axes reversed, or in the order that is given."""
    return reversed_axes(tensor) if axes is None else permuted(tensor, as_tuple(axes))


@shape_rule("numpy.transpose", "jax.numpy.transpose", "numpy.permute_dims")
def transpose(a: Tensor, axes: Axes = None) -> Tensor:
    """Axes reversed or permuted."""
    return transposed(a, axes)


@shape_rule("keras.ops.transpose")
def keras_transpose(x: Tensor, axes: Axes = None) -> Tensor:
    """Axes reversed or permuted."""
    return transposed(x, axes)


@shape_rule("tf.transpose")
def tf_transpose(a: Tensor, perm: Axes = None, conjugate: Value = False, name: Value = "transpose") -> Tensor:
    """Axes reversed or permuted."""
    return transposed(a, perm)


def not_negative(tensor: Tensor, axes: Axes) -> tuple[int, ...]:
    """Axes of functions that count from the front only."""
    found = as_tuple(axes)
    if any(axis < 0 for axis in found):
        raise Mismatch(AXIS_OUT_OF_RANGE, f"axes {found} of {tensor.shape}: none may be negative here", tensors=(tensor,))
    return found


@shape_rule("jax.lax.transpose")
def lax_transpose(operand: Tensor, permutation: Axes) -> Tensor:
    """Axes permuted."""
    return permuted(operand, not_negative(operand, permutation))


@shape_rule("jax.numpy.permute_dims")
def permute_dims(a: Tensor, /, axes: Axes) -> Tensor:
    """Axes permuted."""
    return permuted(a, not_negative(a, axes))


@shape_rule("numpy.ndarray.transpose", "jax.Array.transpose")
def transpose_method(input: Tensor, *axes: Value) -> Tensor:
    """`x.transpose(0, 2, 1)`."""
    return reversed_axes(input) if axes in ((), (None,)) else permuted(input, axes_given(axes))


@shape_rule("numpy.swapaxes", "numpy.ndarray.swapaxes", "jax.numpy.swapaxes", "jax.Array.swapaxes")
def swapaxes(a: Tensor, axis1: int, axis2: int) -> Tensor:
    """Two axes exchanged."""
    return exchanged(a, axis1, axis2)


@shape_rule("keras.ops.swapaxes")
def keras_swapaxes(x: Tensor, axis1: int, axis2: int) -> Tensor:
    """Two axes exchanged."""
    return exchanged(x, axis1, axis2)


# -- axes of size 1 ---------------------------------------------------------------------------------------------------


def squeezed(call: Call, tensor: Tensor, axes: Axes, *, lenient: bool = False) -> Tensor:
    """Without axes of size 1: all of them, or those named. A `lenient` library leaves named axes of other sizes alone."""
    shape = tensor.shape
    if shape.rank is None:
        return tensor.with_shape(_squeezed_open(shape, axes), contiguous=tensor.contiguous)
    if axes is None:
        _warn_of_bare_squeeze(call, tensor)
        if any(is_unknown(size) for size in shape.dims[1:]):
            # Axes about which nothing is known may go, too. The first one is taken for a batch.
            return tensor.with_shape(ANY_SHAPE, contiguous=None)
        positions = tuple(axis for axis, size in enumerate(shape.dims) if size == 1)
    else:
        distinct = call.framework not in ("tf", "keras")
        scalar_has_axis = call.framework == "torch" or (call.framework == "numpy" and isinstance(axes, int))
        found = checked_axes(tensor, as_tuple(axes), scalar_has_axis=scalar_has_axis, distinct=distinct)
        assert found is not None
        positions = tuple(axis for axis in found if axis < shape.rank)
        if lenient:
            positions = tuple(axis for axis in positions if same(shape.dims[axis], 1) is not False)
            if any(shape.dims[axis] != 1 for axis in positions):
                return tensor.with_shape(ANY_SHAPE, contiguous=None)
        for axis in positions:
            if same(shape.dims[axis], 1) is False:
                message = f"axis {axis} of {shape} has size {shape.dims[axis]}, only an axis of size 1 can be squeezed"
                raise Mismatch(AXIS_OUT_OF_RANGE, message, result=tensor, tensors=(tensor,))
    kept = [axis for axis in range(shape.rank) if axis not in positions]
    return _reordered(tensor, kept) if positions else tensor


def _squeezed_open(shape: Shape, axes: Axes) -> Shape:
    """The last axis of a shape of unknown rank; others are not followed."""
    return shape.without_last(1) if axes == -1 and shape.tail and shape.tail[-1] == 1 else ANY_SHAPE


def _warn_of_bare_squeeze(call: Call, tensor: Tensor) -> None:
    """A batch that may hold one sample loses its axis, too, where another axis of size 1 is meant.

    Either the size says so (a loader whose last batch can be that small), or another visit of this place had several rows.
    """
    dims = tensor.shape.dims
    if len(dims) < 2 or 1 not in dims[1:]:
        return
    rows = dims[0]
    may_be_one = bounds(rows)[0] <= 1 and bounds(rows)[1] > 1
    from_loader = all(s.role == "batch" and s.high < float("inf") for s in symbols(rows))
    before = call.run.squeezed_rows.setdefault((call.place, dims[1:]), rows)
    varies = before != rows and 1 in (before, rows) and isinstance(before, int) and isinstance(rows, int)
    if varies or (may_be_one and symbols(rows) and from_loader):
        others = "axis 1" if len(dims) == 2 else "the other axes of size 1"
        call.warn(
            BARE_SQUEEZE,
            f"squeeze() of {tensor.shape} removes the batch axis, too, when a batch holds one sample; name {others}",
            tensors=(tensor,),
        )


def unsqueezed(tensor: Tensor, axes: Sequence[int]) -> Tensor:
    """With new axes of size 1 at those places of the result."""
    shape = tensor.shape
    if shape.rank is None:
        return tensor.with_shape(_unsqueezed_open(shape, axes), contiguous=tensor.contiguous)
    positions = checked_axes(tensor, axes, extra=len(axes))
    assert positions is not None
    dims: list[Size] = list(shape.dims)
    strides = strides_of(tensor)
    steps = None if strides is None else list(strides)
    for position in sorted(positions):
        dims.insert(position, 1)
        if steps is not None:
            steps.insert(position, 1)
    result = restrided(tensor, dims, None if steps is None else tuple(steps))
    shifted = frozenset(axis + sum(new <= axis for new in positions) for axis in tensor.new_axes)
    return result.with_shape(
        result.shape, contiguous=result.contiguous, strides=result.strides, new_axes=shifted | frozenset(positions)
    )


def _unsqueezed_open(shape: Shape, axes: Sequence[int]) -> Shape:
    if tuple(axes) == (-1,):
        return shape.extended(1)
    return shape.preceded(1) if tuple(axes) == (0,) else ANY_SHAPE


@shape_rule("torch.squeeze", "torch.Tensor.squeeze")
def torch_squeeze(call: Call, input: Tensor, dim: Axes = None) -> Tensor:
    """Axes of size 1 removed."""
    return squeezed(call, input, dim, lenient=True)


@shape_rule("numpy.squeeze", "numpy.ndarray.squeeze", "jax.numpy.squeeze", "jax.Array.squeeze")
def squeeze(call: Call, a: Tensor, axis: Axes = None) -> Tensor:
    """Axes of size 1 removed."""
    return squeezed(call, a, axis)


@shape_rule("keras.ops.squeeze")
def keras_squeeze(call: Call, x: Tensor, axis: Axes = None) -> Tensor:
    """Axes of size 1 removed."""
    return squeezed(call, x, axis)


@shape_rule("tf.squeeze")
def tf_squeeze(call: Call, input: Tensor, axis: Axes = None, name: Value = None, squeeze_dims: Axes = None) -> Tensor:
    """Axes of size 1 removed; TensorFlow 1 also names the axes `squeeze_dims`."""
    named = squeeze_dims if axis is None else axis
    return squeezed(call, input, None if named == () else named)


@shape_rule("jax.lax.squeeze")
def lax_squeeze(call: Call, array: Tensor, dimensions: Axes) -> Tensor:
    """Named axes of size 1 removed."""
    return squeezed(call, array, dimensions)


@shape_rule("torch.unsqueeze", "torch.Tensor.unsqueeze")
def torch_unsqueeze(input: Tensor, dim: int) -> Tensor:
    """An axis of size 1 added."""
    return unsqueezed(input, (dim,))


@shape_rule("numpy.expand_dims", "jax.numpy.expand_dims")
def expand_dims(a: Tensor, axis: Axes) -> Tensor:
    """Axes of size 1 added."""
    return unsqueezed(a, as_tuple(axis))


@shape_rule("keras.ops.expand_dims")
def keras_expand_dims(x: Tensor, axis: Axes) -> Tensor:
    """Axes of size 1 added."""
    return unsqueezed(x, as_tuple(axis))


@shape_rule("tf.expand_dims")
def tf_expand_dims(input: Tensor, axis: Axes = None, name: Value = None, dim: Axes = None) -> Tensor:
    """An axis of size 1 added; TensorFlow 1 also calls it `dim`."""
    return unsqueezed(input, as_tuple(dim if axis is None else axis))


@shape_rule("jax.lax.expand_dims")
def lax_expand_dims(array: Tensor, dimensions: Axes) -> Tensor:
    """Axes of size 1 added."""
    return unsqueezed(array, as_tuple(dimensions))
