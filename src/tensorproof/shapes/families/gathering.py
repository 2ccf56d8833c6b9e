"""Elements picked by an array of positions: `gather`, `take`, `index_select`, and by masks."""

from __future__ import annotations

from collections.abc import Sequence

from tensorproof.rules.shapes.gather_shape import GATHER_SHAPE
from tensorproof.rules.shapes.index_out_of_range import INDEX_OUT_OF_RANGE
from tensorproof.shapes.families.axis_numbers import checked_axis
from tensorproof.shapes.families.broadcasting import broadcast_dims
from tensorproof.shapes.rule_table import Call, Mismatch, NotKnown, as_tensor, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, Shape
from tensorproof.shapes.sizes import Size, bounds, less, product, same, unknown
from tensorproof.shapes.strides import restrided, strides_of
from tensorproof.shapes.values import Tensor, Value, as_size


def taken(tensor: Tensor, indices: Tensor, axis: int) -> Tensor:
    """The shape of the indices in place of the axis."""
    position = checked_axis(tensor, axis)
    if position is None or indices.shape.rank is None:
        if axis == 0 and tensor.shape.tail is not None and indices.shape.rank is not None:
            return tensor.with_shape(Shape((*indices.shape.dims, *tensor.shape.head[1:]), tensor.shape.tail))
        if position is not None and indices.shape.tail is not None:
            after = tensor.shape.dims[position + 1 :]
            return tensor.with_shape(Shape((*tensor.shape.dims[:position], *indices.shape.head), (*indices.shape.tail, *after)))
        return tensor.with_shape(ANY_SHAPE)
    dims = tensor.shape.dims
    check_positions(tensor, indices, dims[position])
    return tensor.with_shape(Shape((*dims[:position], *indices.shape.dims, *dims[position + 1 :])))


def check_positions(tensor: Tensor, indices: Tensor, size: Size) -> None:
    """Known indices have to lie inside the axis. JAX and TensorFlow on some devices do not check."""
    if tensor.framework not in ("torch", "numpy"):
        return
    content = indices.content if isinstance(indices.content, tuple) else (indices.content,)
    for number in content:
        if isinstance(number, int) and not isinstance(number, bool) and (number >= bounds(size)[1] or -number > bounds(size)[1]):
            message = f"index {number} is out of range for an axis of size {size} of {tensor.shape}"
            raise Mismatch(INDEX_OUT_OF_RANGE, message, tensors=(tensor,))


def _refuse(message: str, *tensors: Tensor, result: Value = None) -> Mismatch:
    return Mismatch(GATHER_SHAPE, message, result=tensors[0].with_shape(ANY_SHAPE) if result is None else result, tensors=tensors)


def _same_rank(tensor: Tensor, indices: Tensor, result: Value = None) -> bool:
    """Whether both ranks are known; they have to be equal."""
    if tensor.shape.rank is None or indices.shape.rank is None:
        return False
    if tensor.shape.rank != indices.shape.rank:
        hint = "; unsqueeze the index" if indices.shape.rank == tensor.shape.rank - 1 else ""
        raise _refuse(f"the index {indices.shape} has to have as many axes as {tensor.shape}{hint}", tensor, indices, result=result)
    return True


# -- PyTorch ----------------------------------------------------------------------------------------------------------


def _is_empty(indices: Tensor) -> bool:
    return indices.shape.rank is not None and 0 in indices.shape.dims


@shape_rule("torch.gather", "torch.Tensor.gather")
def torch_gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: Value = False, out: Value = None) -> Tensor:
    """One element per entry of the index, which may not be larger than the input on the other axes."""
    result = input.with_shape(index.shape, contiguous=True)
    position = checked_axis(input, dim, scalar_has_axis=True)
    if position is None or index.shape.rank is None or _is_empty(index):
        return result
    if {input.shape.rank, index.shape.rank} <= {0, 1}:
        return result
    _same_rank(input, index, result)
    for axis, (size, wanted) in enumerate(zip(input.shape.dims, index.shape.dims, strict=True)):
        if axis != position and less(size, wanted):
            raise _refuse(
                f"the index {index.shape} is larger than {input.shape} at axis {axis}, which is not the gathered one",
                input,
                index,
                result=result,
            )
    return result


@shape_rule("torch.index_select", "torch.Tensor.index_select")
def torch_index_select(input: Tensor, dim: int, index: Tensor, *, out: Value = None) -> Tensor:
    """Slices along an axis by a vector of positions."""
    if index.shape.rank is not None and index.shape.rank > 1:
        raise _refuse(f"the index of index_select has to be a vector, not {index.shape}", input, index)
    position = checked_axis(input, dim, scalar_has_axis=True)
    if position is None:
        return input.with_shape(ANY_SHAPE)
    if input.shape.rank == 0:
        if index.shape.rank == 1 and same(index.shape.dims[0], 1) is False:
            raise _refuse(f"a scalar has one element, but the index is {index.shape}", input, index)
        return input.with_shape(input.shape)
    if index.shape.rank is None:
        count: Size = unknown(0)
    else:
        count = index.shape.dims[0] if index.shape.rank else 1
    check_positions(input, index, input.shape.dims[position])
    dims = input.shape.dims
    return input.with_shape(Shape((*dims[:position], count, *dims[position + 1 :])))


@shape_rule("torch.take", "torch.Tensor.take")
def torch_take(input: Tensor, index: Tensor) -> Tensor:
    """Elements by their number in the flattened input."""
    return input.with_shape(index.shape)


@shape_rule("torch.take_along_dim", "torch.Tensor.take_along_dim")
def torch_take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None, *, out: Value = None) -> Tensor:
    """One element per entry of the index; the other axes are broadcast."""
    if dim is None:
        elements = indices.shape.elements
        return input.with_shape(Shape((unknown(0) if elements is None else elements,)))
    return _along(input, indices, dim)


def _along(tensor: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Picked along an axis; the other axes are broadcast."""
    if not _same_rank(tensor, indices):
        return tensor.with_shape(indices.shape if indices.shape.rank is None else Shape(tuple(unknown(0) for _ in indices.shape)))
    position = checked_axis(tensor, axis)
    assert position is not None
    rest = [Shape(_without(shape.dims, position)) for shape in (tensor.shape, indices.shape)]
    common = broadcast_dims(rest[0], rest[1])
    if common is None:
        message = f"the index {indices.shape} does not fit to {tensor.shape} on the axes other than {position}"
        raise _refuse(message, tensor, indices, result=tensor.with_shape(indices.shape))
    dims = common.dims
    return tensor.with_shape(Shape((*dims[:position], indices.shape.dims[position], *dims[position:])))


def _without(sizes: Sequence[Size], axis: int) -> tuple[Size, ...]:
    return (*sizes[:axis], *sizes[axis + 1 :])


@shape_rule("torch.select", "torch.Tensor.select")
def torch_select(input: Tensor, dim: int, index: Value) -> Tensor:
    """One slice along an axis."""
    position = checked_axis(input, dim)
    if position is None:
        return input.with_shape(ANY_SHAPE)
    size, number = input.shape.dims[position], as_size(index)
    if isinstance(number, int) and (number >= bounds(size)[1] or -number > bounds(size)[1]):
        message = f"index {number} is out of range for axis {position} of {input.shape}"
        raise Mismatch(INDEX_OUT_OF_RANGE, message, tensors=(input,))
    strides = strides_of(input)
    rest = _without(input.shape.dims, position)
    return restrided(input, rest, None if strides is None else _without(strides, position))


@shape_rule("torch.narrow", "torch.Tensor.narrow")
def torch_narrow(input: Tensor, dim: int, start: Value, length: Size) -> Tensor:
    """A stretch of an axis."""
    position = checked_axis(input, dim)
    if position is None:
        return input.with_shape(ANY_SHAPE)
    size, begin = input.shape.dims[position], as_size(start)
    if begin is not None and bounds(begin)[1] < 0:
        begin = begin + size
    if bounds(length)[1] < 0 or (begin is not None and (less(size, begin + length) or bounds(begin)[1] < 0)):
        message = f"{length} elements from {begin} do not lie inside axis {position} of {input.shape}"
        raise Mismatch(INDEX_OUT_OF_RANGE, message, tensors=(input,))
    dims = input.shape.dims
    return restrided(input, (*dims[:position], length, *dims[position + 1 :]), strides_of(input))


@shape_rule("torch.masked_select", "torch.Tensor.masked_select")
def torch_masked_select(input: Tensor, mask: Tensor, *, out: Value = None) -> Tensor:
    """The elements where the mask is true, as a vector."""
    if broadcast_dims(input.shape, mask.shape) is None:
        raise _refuse(f"the mask {mask.shape} cannot be broadcast with {input.shape}", input, mask)
    return input.with_shape(Shape((unknown(0),)))


@shape_rule("torch.searchsorted")
def torch_searchsorted(
    sorted_sequence: Tensor,
    input: Tensor,
    *,
    out_int32: Value = False,
    right: Value = False,
    side: Value = None,
    sorter: Value = None,
) -> Tensor:
    """Positions in a sorted vector, or row by row."""
    shape, other = sorted_sequence.shape, input.shape
    if shape.rank is not None and other.rank is not None and shape.rank != 1:
        rows = [s.without_last(1).dims for s in (shape, other)]
        differ = shape.rank != other.rank or any(same(a, b) is False for a, b in zip(*rows, strict=True))
        if shape.rank == 0 or differ:
            raise _refuse(f"the rows of {other} are not those of {shape}", input, sorted_sequence)
    return input.with_shape(other, dtype="i64")


@shape_rule("torch.bucketize")
def torch_bucketize(input: Tensor, boundaries: Tensor, *, out_int32: Value = False, right: Value = False) -> Tensor:
    """Positions in a sorted vector."""
    if boundaries.shape.rank is not None and boundaries.shape.rank != 1:
        raise _refuse(f"boundaries have to be a vector, not {boundaries.shape}", input, boundaries)
    return input.with_shape(input.shape, dtype="i64")


# -- NumPy, JAX, Keras ------------------------------------------------------------------------------------------------


def _take(a: Tensor, indices: Tensor, axis: int | None) -> Tensor:
    return a.with_shape(indices.shape) if axis is None else taken(a, indices, axis)


@shape_rule("numpy.take", "numpy.ndarray.take", "jax.numpy.take", "jax.Array.take")
def take(a: Tensor, indices: Tensor, axis: int | None = None, out: Value = None, mode: Value = None, **options: Value) -> Tensor:
    """Slices along an axis, or elements by their number."""
    return _take(a, indices, axis)


@shape_rule("keras.ops.take")
def keras_take(x: Tensor, indices: Tensor, axis: int | None = None) -> Tensor:
    """Slices along an axis, or elements by their number."""
    return _take(x, indices, axis)


def _take_along(tensor: Tensor, indices: Tensor, axis: int | None) -> Tensor:
    return tensor.with_shape(indices.shape) if axis is None else _along(tensor, indices, axis)


@shape_rule("numpy.take_along_axis", "jax.numpy.take_along_axis")
def take_along_axis(arr: Tensor, indices: Tensor, axis: int | None = -1, mode: Value = None, fill_value: Value = None) -> Tensor:
    """One element per entry of the index; the other axes are broadcast."""
    if axis is None and indices.shape.rank is not None and indices.shape.rank != 1:
        raise _refuse(f"without an axis the index has to be a vector, not {indices.shape}", arr, indices)
    return _take_along(arr, indices, axis)


@shape_rule("keras.ops.take_along_axis")
def keras_take_along_axis(x: Tensor, indices: Tensor, axis: int | None = None) -> Tensor:
    """One element per entry of the index; the other axes are broadcast."""
    return _take_along(x, indices, axis)


@shape_rule("numpy.searchsorted", "jax.numpy.searchsorted", "numpy.ndarray.searchsorted")
def searchsorted(a: Tensor, v: Tensor, side: Value = "left", sorter: Value = None, *, method: Value = None) -> Tensor:
    """Positions in a sorted vector."""
    if a.shape.rank is not None and a.shape.rank != 1:
        raise _refuse(f"the sorted array has to be a vector, not {a.shape}", a, v)
    return a.with_shape(v.shape, dtype="i64")


@shape_rule("keras.ops.searchsorted")
def keras_searchsorted(sorted_sequence: Tensor, values: Tensor, side: Value = "left") -> Tensor:
    """Positions in a sorted vector."""
    return sorted_sequence.with_shape(values.shape, dtype="i32")


@shape_rule("numpy.digitize", "jax.numpy.digitize")
def digitize(x: Tensor, bins: Tensor, right: Value = False) -> Tensor:
    """Positions in a sorted vector."""
    if bins.shape.rank is not None and bins.shape.rank != 1:
        raise _refuse(f"bins have to be a vector, not {bins.shape}", x, bins)
    return x.with_shape(x.shape, dtype="i64")


@shape_rule("numpy.delete", "jax.numpy.delete")
def delete(arr: Tensor, obj: Value, axis: int | None = None, *, assume_unique_indices: Value = False) -> Tensor:
    """Without some slices; how many is known for one number."""
    position = as_size(obj)
    elements = arr.shape.elements
    if axis is None:
        whole, before, after = elements, (), ()
    else:
        place = checked_axis(arr, axis)
        if place is None:
            return arr.with_shape(ANY_SHAPE)
        whole, before, after = arr.shape.dims[place], arr.shape.dims[:place], arr.shape.dims[place + 1 :]
    if position is None or whole is None:
        return arr.with_shape(Shape((*before, unknown(0), *after)))
    if isinstance(position, int) and (position >= bounds(whole)[1] or -position > bounds(whole)[1]) and arr.framework != "jax":
        raise Mismatch(INDEX_OUT_OF_RANGE, f"index {position} is out of range for {arr.shape}", tensors=(arr,))
    return arr.with_shape(Shape((*before, whole - 1, *after)))


@shape_rule("numpy.insert", "jax.numpy.insert")
def insert(arr: Tensor, obj: Value, values: Tensor, axis: int | None = None) -> Tensor:
    """With further slices; how many follows from the values only for vectors."""
    if axis is None:
        elements, added = arr.shape.elements, values.shape.elements
        if elements is None or added is None or as_size(obj) is None:
            return arr.with_shape(Shape((unknown(0),)))
        return arr.with_shape(Shape((elements + added,)))
    place = checked_axis(arr, axis)
    if place is None:
        return arr.with_shape(ANY_SHAPE)
    dims = arr.shape.dims
    return arr.with_shape(Shape((*dims[:place], unknown(0), *dims[place + 1 :])))


# -- TensorFlow -------------------------------------------------------------------------------------------------------


@shape_rule("tf.gather")
def tf_gather(
    call: Call,
    params: Tensor,
    indices: Tensor,
    *rest: Value,
    validate_indices: Value = None,
    axis: Value = None,
    batch_dims: int = 0,
    name: Value = None,
) -> Tensor:
    """Slices along an axis; with `batch_dims` for each entry of the leading axes."""
    position = axis
    if len(rest) > 1 and axis is None:
        # TensorFlow 1 has the name before the axis.
        position = rest[2] if call.is_tf1 and len(rest) > 2 else rest[1] if not call.is_tf1 else None
    batch = rest[2] if len(rest) > 2 and not call.is_tf1 else batch_dims
    number = as_size(position) if position is not None else batch
    if not isinstance(number, int) or not isinstance(batch, int):
        raise NotKnown
    if batch:
        return _batched_gather(params, indices, number, batch)
    return taken(params, indices, number)


def _batched_gather(params: Tensor, indices: Tensor, axis: int, batch: int) -> Tensor:
    if params.shape.rank is None or indices.shape.rank is None:
        return params.with_shape(ANY_SHAPE)
    position = checked_axis(params, axis)
    assert position is not None
    count = batch % max(indices.shape.rank, 1) if batch < 0 else batch
    if count > min(indices.shape.rank, position):
        raise _refuse(f"{batch} leading axes of {params.shape} and {indices.shape} cannot be gone through", params, indices)
    if any(same(a, b) is False for a, b in zip(params.shape.dims[:count], indices.shape.dims[:count], strict=True)):
        raise _refuse(f"the first {count} axes of {params.shape} and {indices.shape} differ", params, indices)
    dims = params.shape.dims
    return params.with_shape(Shape((*dims[:position], *indices.shape.dims[count:], *dims[position + 1 :])))


@shape_rule("tf.nn.embedding_lookup")
def tf_embedding_lookup(params: Value, ids: Tensor, *options: Value, **named: Value) -> Tensor:
    """Rows of a table; of a table in several parts the rows have the same shape."""
    if not isinstance(params, Tensor):
        raise NotKnown
    table = as_tensor(params, "tf")
    if table.shape.rank is None or ids.shape.rank is None:
        return table.with_shape(Shape((), table.shape.tail[-1:]) if table.shape.tail else ANY_SHAPE)
    return taken(table, ids, 0)


@shape_rule("tf.gather_nd")
def tf_gather_nd(
    params: Tensor, indices: Tensor, batch_dims: int = 0, name: Value = None, bad_indices_policy: Value = ""
) -> Tensor:
    """Elements or slices whose coordinates lie along the last axis of the indices."""
    shape, index = params.shape, indices.shape
    if index.rank == 0:
        raise _refuse("gather_nd needs indices with at least one axis", params, indices)
    depth = None if index.rank is None else index[-1]
    if shape.rank is None or index.rank is None or not isinstance(depth, int):
        return params.with_shape(ANY_SHAPE)
    if batch_dims:
        if batch_dims >= index.rank or batch_dims > shape.rank:
            raise NotKnown
        if any(same(a, b) is False for a, b in zip(shape.dims[:batch_dims], index.dims[:batch_dims], strict=True)):
            raise _refuse(f"the first {batch_dims} axes of {shape} and {index} differ", params, indices)
    if depth + batch_dims > shape.rank:
        raise _refuse(
            f"the indices {index} have {depth} coordinates, but {shape} has {shape.rank - batch_dims} axes for them",
            params,
            indices,
        )
    return params.with_shape(Shape((*index.dims[:-1], *shape.dims[depth + batch_dims :])))


@shape_rule("tf.boolean_mask")
def tf_boolean_mask(tensor: Tensor, mask: Tensor, axis: Value = None, name: Value = "boolean_mask", *options: Value) -> Tensor:
    """The slices where the mask is true."""
    shape, other = tensor.shape, mask.shape
    start = 0 if axis is None else as_size(axis)
    if other.rank == 0:
        raise _refuse("a mask may not be a scalar", tensor, mask)
    if shape.rank is None or other.rank is None or not isinstance(start, int):
        return tensor.with_shape(ANY_SHAPE)
    start = start % shape.rank if start < 0 < shape.rank else start
    covered = shape.dims[start : start + other.rank]
    if len(covered) < other.rank or any(same(a, b) is False for a, b in zip(covered, other.dims, strict=True)):
        raise _refuse(f"the mask {other} does not fit to {shape}", tensor, mask)
    return tensor.with_shape(Shape((*shape.dims[:start], unknown(0), *shape.dims[start + other.rank :])))


@shape_rule("tf.searchsorted")
def tf_searchsorted(
    sorted_sequence: Tensor, values: Tensor, side: Value = "left", out_type: Value = None, name: Value = None
) -> Tensor:
    """Positions in sorted rows."""
    shape, other = sorted_sequence.shape, values.shape
    if shape.rank is not None and other.rank is not None:
        rows = [s.without_last(1).dims for s in (shape, other)]
        if not shape.rank or not other.rank or same(product(rows[0]), product(rows[1])) is False:
            raise _refuse(f"the rows of {other} are not those of {shape}", values, sorted_sequence)
    return values.with_shape(other, dtype="i32")


@shape_rule("numpy.compress")
def compress(condition: Tensor, a: Tensor, axis: int | None = None, out: Value = None) -> Tensor:
    """The slices where a condition holds."""
    if axis is None:
        return a.with_shape(Shape((unknown(0),)))
    place = checked_axis(a, axis)
    if place is None:
        return a.with_shape(ANY_SHAPE)
    dims = a.shape.dims
    return a.with_shape(Shape((*dims[:place], unknown(0), *dims[place + 1 :])))
