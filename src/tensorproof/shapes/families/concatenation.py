"""Several arrays joined into one: along an axis that they have, or along a new one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorproof.rules.shapes.axis_out_of_range import AXIS_OUT_OF_RANGE
from tensorproof.rules.shapes.exchanged_arguments import EXCHANGED_ARGUMENTS
from tensorproof.rules.shapes.join_mismatch import JOIN_MISMATCH
from tensorproof.shapes.batches import meeting
from tensorproof.shapes.families.axes import unsqueezed
from tensorproof.shapes.families.axis_numbers import checked_axis
from tensorproof.shapes.families.reshaping import raveled
from tensorproof.shapes.joining import merged_shapes
from tensorproof.shapes.rule_table import Call, Mismatch, NotKnown, as_tensor, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, Shape
from tensorproof.shapes.sizes import Size, same, unknown
from tensorproof.shapes.values import ListValue, Tensor, Unknown, Value, as_size


def parts_of(call: Call, values: Value) -> list[Tensor] | None:
    """The arrays of a list, or the rows of an array; None where they cannot be counted."""
    if isinstance(values, Tensor):
        rank, head = values.shape.rank, values.shape.head
        if rank == 0:
            raise Mismatch(JOIN_MISMATCH, "a scalar has no parts to be joined", tensors=(values,))
        count = head[0] if head else None
        return [values.with_shape(Shape(head[1:], values.shape.tail))] * count if isinstance(count, int) and count <= 64 else None
    items = values.items if isinstance(values, ListValue) else values
    if not isinstance(items, tuple):
        if isinstance(values, ListValue | Unknown) or items is None:
            return None
        raise NotKnown
    return [as_tensor(item, call.framework) for item in items]


def _uncounted_parts(call: Call, values: Value, axis: int, *, new_axis: bool) -> Tensor:
    """A list that was not counted: the sizes of its element, which all parts share, but for the one along the axis."""
    element = values.element if isinstance(values, ListValue) else None
    if not isinstance(element, Tensor):
        return Tensor(ANY_SHAPE, framework=call.framework, contiguous=None)
    shape = element.shape
    if shape.rank is None:
        return element.with_shape(ANY_SHAPE)
    position = checked_axis(element, axis, extra=1 if new_axis else 0)
    assert position is not None
    count = as_size(values.length) if new_axis and isinstance(values, ListValue) else None
    along = unknown(0) if count is None else count
    rest = shape.dims[position if new_axis else position + 1 :]
    return element.with_shape(Shape((*shape.dims[:position], along, *rest)), contiguous=None)


def concatenated(call: Call, tensors: Sequence[Tensor], axis: int) -> Tensor:
    """Joined along an axis that all of them have; the other sizes have to agree."""
    if not tensors:
        raise Mismatch(JOIN_MISMATCH, "there is nothing to join: the list of arrays is empty")
    if call.framework == "torch":
        # A vector without elements is skipped, whatever the others are.
        kept = (
            [tensor for tensor in tensors if tensor.shape.dims != (0,)]
            if all(t.shape.rank is not None for t in tensors)
            else tensors
        )
        tensors = kept or tensors
    first = tensors[0]
    ranks = {tensor.shape.rank for tensor in tensors}
    if None in ranks:
        return first.with_shape(_concatenated_open(tensors, axis))
    if 0 in ranks:
        raise Mismatch(JOIN_MISMATCH, f"scalars cannot be joined: {_shapes(tensors)}", tensors=tensors)
    if len(ranks) > 1:
        raise Mismatch(JOIN_MISMATCH, f"arrays of different rank cannot be joined: {_shapes(tensors)}", tensors=tensors)
    position = checked_axis(first, axis)
    assert position is not None
    return _joined(call, tensors, position)


def _joined(call: Call, tensors: Sequence[Tensor], axis: int) -> Tensor:
    first = tensors[0]
    dims = list(first.shape.dims)
    dims[axis] = _total([tensor.shape.dims[axis] for tensor in tensors])
    for tensor in tensors[1:]:
        for other, size in enumerate(tensor.shape.dims):
            if other == axis:
                continue
            if same(dims[other], size) is False:
                if other == 0 and meeting(call, first, tensor):
                    continue
                message = (
                    f"arrays joined along axis {axis} have to agree on the others, but sizes {dims[other]} and {size} differ "
                    f"at axis {other}: {_shapes(tensors)}"
                )
                raise Mismatch(JOIN_MISMATCH, message, result=first.with_shape(Shape(tuple(dims))), tensors=(first, tensor))
            dims[other] = size if isinstance(size, int) else dims[other]
    dtype = first.dtype if all(tensor.dtype == first.dtype for tensor in tensors) else ""
    in_order = all(tensor.contiguous for tensor in tensors)
    return first.with_shape(Shape(tuple(dims)), dtype=dtype, contiguous=True if in_order else None)


def _total(sizes: Sequence[Size]) -> Size:
    total: Size = 0
    for size in sizes:
        total = total + size
    return total


def _concatenated_open(tensors: Sequence[Tensor], axis: int) -> Shape:
    """With an operand of unknown rank: the sum along the last axis, or what all have in common."""
    if axis == -1:
        return Shape((), (_total([tensor.shape[-1] for tensor in tensors if tensor.shape.rank != 0]),))
    known = next((tensor.shape.rank for tensor in tensors if tensor.shape.rank is not None), None)
    if known is not None and -known <= axis < known:
        exact = next(tensor.shape for tensor in tensors if tensor.shape.rank is not None)
        return Shape(tuple(unknown(0) if place == axis % known else size for place, size in enumerate(exact.dims)))
    return ANY_SHAPE


def _shapes(tensors: Sequence[Tensor]) -> str:
    shown = [str(tensor.shape) for tensor in tensors[:6]]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown) + (" ..." if len(tensors) > 6 else "")


def stacked(call: Call, tensors: Sequence[Tensor], axis: int) -> Tensor:
    """Joined along a new axis; all sizes have to agree."""
    if not tensors:
        raise Mismatch(JOIN_MISMATCH, "there is nothing to stack: the list of arrays is empty")
    first = tensors[0]
    common = first.shape
    for tensor in tensors[1:]:
        if _differ(first.shape, tensor.shape):
            if meeting(call, first, tensor):
                continue
            message = f"stacked arrays have to have one shape, but {first.shape} and {tensor.shape} differ"
            raise Mismatch(JOIN_MISMATCH, message, tensors=(first, tensor))
        common = merged_shapes(common, tensor.shape) if common != tensor.shape else common
    base = first.with_shape(common)
    if common.rank is None:
        count = len(tensors)
        return base.with_shape(common.preceded(count) if axis == 0 else common.extended(count) if axis == -1 else ANY_SHAPE)
    position = checked_axis(base, axis, extra=1)
    assert position is not None
    dims = common.dims
    in_order = all(tensor.contiguous for tensor in tensors)
    shape = Shape((*dims[:position], len(tensors), *dims[position:]))
    return base.with_shape(shape, contiguous=True if in_order else None)


def _differ(left: Shape, right: Shape) -> bool:
    if left.rank is None or right.rank is None:
        return False
    return left.rank != right.rank or any(same(a, b) is False for a, b in zip(left.dims, right.dims, strict=True))


# -- functions --------------------------------------------------------------------------------------------------------


def _cat(call: Call, values: Value, axis: int) -> Tensor:
    parts = parts_of(call, values)
    return _uncounted_parts(call, values, axis, new_axis=False) if parts is None else concatenated(call, parts, axis)


def _stack(call: Call, values: Value, axis: int) -> Tensor:
    parts = parts_of(call, values)
    return _uncounted_parts(call, values, axis, new_axis=True) if parts is None else stacked(call, parts, axis)


@shape_rule("torch.cat", "torch.concat", "torch.concatenate")
def torch_cat(call: Call, tensors: Value, dim: int = 0, *, axis: int | None = None, out: Value = None) -> Tensor:
    """`torch.cat`."""
    return _cat(call, tensors, dim if axis is None else axis)


@shape_rule("torch.stack")
def torch_stack(call: Call, tensors: Value, dim: int = 0, *, out: Value = None) -> Tensor:
    """`torch.stack`."""
    return _stack(call, tensors, dim)


@shape_rule("numpy.concatenate", "numpy.concat", "jax.numpy.concatenate", "jax.numpy.concat")
def concatenate(
    call: Call, arrays: Value, axis: int | None = 0, out: Value = None, *, dtype: Value = None, casting: Value = None
) -> Tensor:
    """`np.concatenate`; without an axis everything is flattened."""
    if axis is not None:
        return _cat(call, arrays, axis)
    parts = parts_of(call, arrays)
    if parts is None or any(part.shape.rank is None for part in parts):
        return Tensor(Shape((unknown(0),)), framework=call.framework)
    return concatenated(call, [raveled(part) for part in parts], 0)


@shape_rule("numpy.stack", "jax.numpy.stack")
def stack(call: Call, arrays: Value, axis: int = 0, out: Value = None, *, dtype: Value = None, casting: Value = None) -> Tensor:
    """`np.stack`."""
    return _stack(call, arrays, axis)


@shape_rule("keras.ops.concatenate")
def keras_concatenate(call: Call, xs: Value, axis: int = 0) -> Tensor:
    """`keras.ops.concatenate`."""
    return _cat(call, xs, axis)


@shape_rule("keras.ops.stack")
def keras_stack(call: Call, x: Value, axis: int = 0) -> Tensor:
    """`keras.ops.stack`."""
    return _stack(call, x, axis)


@shape_rule("tf.concat")
def tf_concat(call: Call, values: Value, axis: Value = None, name: Value = "concat", concat_dim: Value = None) -> Tensor:
    """`tf.concat`; before version 1.0 the axis came first."""
    if as_size(values) is not None and isinstance(axis, tuple | ListValue):
        message = f"the axis {as_size(values)} comes behind the arrays: write tf.concat(values, {as_size(values)})"
        result = Tensor(ANY_SHAPE, framework="tf", contiguous=None)
        try:
            result = _cat(call, axis, _fixed(values))
        except (Mismatch, NotKnown):
            pass
        raise Mismatch(EXCHANGED_ARGUMENTS, message, result=result)
    position = _fixed(axis if concat_dim is None else concat_dim)
    parts = parts_of(call, values)
    if parts is not None and len(parts) == 1 and not call.is_tf1:
        return parts[0]
    return _uncounted_parts(call, values, position, new_axis=False) if parts is None else concatenated(call, parts, position)


def _fixed(axis: Value) -> int:
    size = as_size(axis)
    if not isinstance(size, int):
        raise NotKnown
    return size


@shape_rule("tf.stack")
def tf_stack(call: Call, values: Value, axis: int = 0, name: Value = "stack") -> Tensor:
    """`tf.stack`; of numbers it is the vector of them."""
    result = _stack(call, values, axis)
    items = values.items if isinstance(values, ListValue) else values
    if result.shape.rank == 1 and isinstance(items, tuple):
        sizes = tuple(as_size(item) for item in items)
        return result.with_shape(result.shape, content=sizes if None not in sizes else None)
    return result


@shape_rule("jax.lax.concatenate")
def lax_concatenate(call: Call, operands: Value, dimension: int) -> Tensor:
    """`jax.lax.concatenate`: the axis is counted from the front."""
    if dimension < 0:
        raise Mismatch(AXIS_OUT_OF_RANGE, f"axis {dimension} is negative, which jax.lax.concatenate does not take")
    return _cat(call, operands, dimension)


# -- rows, columns, depth ---------------------------------------------------------------------------------------------


def _stacked_as(call: Call, values: Value, prepared: Callable[[Tensor], Tensor], axis: int) -> Tensor:
    """Arrays brought to a least rank and joined."""
    parts = parts_of(call, values)
    if parts is None or any(part.shape.rank is None for part in parts):
        return Tensor(ANY_SHAPE, framework=call.framework, contiguous=None)
    return concatenated(call, [prepared(part) for part in parts], axis)


def at_least_1d(tensor: Tensor) -> Tensor:
    """A scalar becomes a vector."""
    return unsqueezed(tensor, (0,)) if tensor.shape.rank == 0 else tensor


def at_least_2d(tensor: Tensor) -> Tensor:
    """A vector becomes a row."""
    tensor = at_least_1d(tensor)
    return unsqueezed(tensor, (0,)) if tensor.shape.rank == 1 else tensor


def at_least_3d(tensor: Tensor) -> Tensor:
    """A vector gets an axis on both sides, a matrix one behind."""
    tensor = at_least_2d(tensor)
    return unsqueezed(tensor, (-1,)) if tensor.shape.rank == 2 else tensor


def _as_column(tensor: Tensor) -> Tensor:
    rank = tensor.shape.rank
    if rank is None or rank >= 2:
        return tensor
    return unsqueezed(at_least_1d(tensor), (-1,))


def _hstack(call: Call, values: Value) -> Tensor:
    parts = parts_of(call, values)
    vectors = bool(parts) and at_least_1d(parts[0]).shape.rank == 1
    return _stacked_as(call, values, at_least_1d, 0 if vectors else 1)


@shape_rule("torch.hstack")
def torch_hstack(call: Call, tensors: Value, *, out: Value = None) -> Tensor:
    """Joined side by side."""
    return _hstack(call, tensors)


@shape_rule("numpy.hstack", "jax.numpy.hstack")
def hstack(call: Call, tup: Value, *, dtype: Value = None, casting: Value = None) -> Tensor:
    """Joined side by side."""
    return _hstack(call, tup)


@shape_rule("keras.ops.hstack")
def keras_hstack(call: Call, xs: Value) -> Tensor:
    """Joined side by side."""
    return _hstack(call, xs)


@shape_rule("torch.vstack", "torch.row_stack")
def torch_vstack(call: Call, tensors: Value, *, out: Value = None) -> Tensor:
    """Rows on top of each other."""
    return _stacked_as(call, tensors, at_least_2d, 0)


@shape_rule("numpy.vstack", "jax.numpy.vstack")
def vstack(call: Call, tup: Value, *, dtype: Value = None, casting: Value = None) -> Tensor:
    """Rows on top of each other."""
    return _stacked_as(call, tup, at_least_2d, 0)


@shape_rule("keras.ops.vstack")
def keras_vstack(call: Call, xs: Value) -> Tensor:
    """Rows on top of each other; what becomes of vectors depends on the backend."""
    parts = parts_of(call, xs)
    if parts is None or any(part.shape.rank is None or part.shape.rank < 2 for part in parts):
        return Tensor(ANY_SHAPE, framework=call.framework, contiguous=None)
    return concatenated(call, parts, 0)


@shape_rule("torch.dstack")
def torch_dstack(call: Call, tensors: Value, *, out: Value = None) -> Tensor:
    """Joined in depth."""
    return _stacked_as(call, tensors, at_least_3d, 2)


@shape_rule("numpy.dstack", "jax.numpy.dstack")
def dstack(call: Call, tup: Value, dtype: Value = None) -> Tensor:
    """Joined in depth."""
    return _stacked_as(call, tup, at_least_3d, 2)


@shape_rule("torch.column_stack")
def torch_column_stack(call: Call, tensors: Value, *, out: Value = None) -> Tensor:
    """Vectors as columns."""
    return _stacked_as(call, tensors, _as_column, 1)


@shape_rule("numpy.column_stack", "jax.numpy.column_stack")
def column_stack(call: Call, tup: Value) -> Tensor:
    """Vectors as columns."""
    return _stacked_as(call, tup, _as_column, 1)


# -- append and block -------------------------------------------------------------------------------------------------


def _appended(call: Call, first: Tensor, second: Tensor, axis: int | None) -> Tensor:
    if axis is not None:
        return concatenated(call, (first, second), axis)
    elements = [tensor.shape.elements for tensor in (first, second)]
    total = unknown(0) if None in elements else _total([size for size in elements if size is not None])
    return first.with_shape(Shape((total,)))


@shape_rule("numpy.append", "jax.numpy.append")
def append(call: Call, arr: Tensor, values: Tensor, axis: int | None = None) -> Tensor:
    """`np.append`."""
    return _appended(call, arr, values, axis)


@shape_rule("keras.ops.append")
def keras_append(call: Call, x1: Tensor, x2: Tensor, axis: int | None = None) -> Tensor:
    """`keras.ops.append`."""
    return _appended(call, x1, x2, axis)


@shape_rule("numpy.block", "jax.numpy.block")
def block(call: Call, arrays: Value) -> Tensor:
    """Blocks in nested lists, joined from the inside out along the last axes."""
    depth = _depth(arrays)
    leaves = _leaves(call, arrays)
    if any(leaf.shape.rank is None for leaf in leaves):
        return Tensor(ANY_SHAPE, framework=call.framework, contiguous=None)
    rank = max([depth, *(leaf.shape.rank or 0 for leaf in leaves)])
    return _block(call, arrays, rank, rank - depth)


def _depth(arrays: Value) -> int:
    if not isinstance(arrays, ListValue):
        return 0
    if not arrays.items:
        raise NotKnown
    return 1 + max(_depth(item) for item in arrays.items)


def _leaves(call: Call, arrays: Value) -> list[Tensor]:
    if isinstance(arrays, ListValue):
        return [leaf for item in arrays.items or () for leaf in _leaves(call, item)]
    return [as_tensor(arrays, call.framework)]


def _block(call: Call, arrays: Value, rank: int, axis: int) -> Tensor:
    if not isinstance(arrays, ListValue):
        tensor = as_tensor(arrays, call.framework)
        missing = rank - (tensor.shape.rank or 0)
        return tensor.with_shape(tensor.shape.preceded(*(1,) * missing))
    return concatenated(call, [_block(call, item, rank, axis + 1) for item in arrays.items or ()], axis)


@shape_rule("torch.block_diag")
def torch_block_diag(*tensors: Tensor) -> Tensor:
    """Matrices on the diagonal of a larger one."""
    rows: list[Size] = []
    columns: list[Size] = []
    for tensor in tensors:
        rank = tensor.shape.rank
        if rank is None:
            raise NotKnown
        if rank > 2:
            raise Mismatch(JOIN_MISMATCH, f"block_diag takes matrices, not {tensor.shape}", tensors=(tensor,))
        height, width = at_least_2d(tensor).shape.dims
        rows.append(height)
        columns.append(width)
    return tensors[0].with_shape(Shape((_total(rows), _total(columns)))) if tensors else Tensor(Shape((1, 0)), framework="torch")
