"""One array cut into several: into equal parts, at positions, or into its rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tensorproof.rules.shapes.axis_out_of_range import AXIS_OUT_OF_RANGE
from tensorproof.rules.shapes.exchanged_arguments import EXCHANGED_ARGUMENTS
from tensorproof.rules.shapes.split_sizes import SPLIT_SIZES
from tensorproof.shapes.families.axis_numbers import checked_axis
from tensorproof.shapes.rule_table import Call, Mismatch, NotKnown, Sizes, as_sizes, as_tensor, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, Shape
from tensorproof.shapes.sizes import Polynomial, Size, bounds, divide_exactly, less, same, unknown
from tensorproof.shapes.strides import restrided, strides_of
from tensorproof.shapes.values import ListValue, Tensor, Value, as_size

#: More parts than this are not told apart.
MOST_PARTS = 256


def _part(tensor: Tensor, axis: int, size: Size) -> Tensor:
    """A piece of a tensor, which keeps the strides of the whole."""
    dims = [size if place == axis else whole for place, whole in enumerate(tensor.shape.dims)]
    return restrided(tensor, dims, strides_of(tensor))


def _parts(tensor: Tensor, axis: int, sizes: Sequence[Size]) -> tuple[Tensor, ...]:
    return tuple(_part(tensor, axis, size) for size in sizes)


def _open_parts(tensor: Tensor, count: Value, axis: int, sizes: Sequence[Size] | None = None) -> Value:
    """Parts of a tensor of unknown rank: the last axis is still known."""
    number = len(sizes) if sizes is not None else count
    if not isinstance(number, int) or not 0 < number <= MOST_PARTS:
        raise NotKnown
    if axis != -1 or not tensor.shape.tail:
        return (tensor.with_shape(ANY_SHAPE, contiguous=None),) * number
    last = tensor.shape.tail[-1]
    each = list(sizes) if sizes is not None else [_equal(last, number)] * number
    return tuple(tensor.with_shape(tensor.shape.without_last(1).extended(size), contiguous=None) for size in each)


def _equal(size: Size, count: int) -> Size:
    exact = divide_exactly(size, count)
    return exact if isinstance(exact, int) else size // count


def _axis(tensor: Tensor, axis: int) -> int | None:
    return checked_axis(tensor, axis)


def equal_parts(tensor: Tensor, count: Size, axis: int) -> Value:
    """A number of equal parts; the size has to be a multiple."""
    position = _axis(tensor, axis)
    if position is None:
        return _open_parts(tensor, count, axis)
    size = tensor.shape.dims[position]
    if not isinstance(count, int) or count > MOST_PARTS:
        raise NotKnown
    if count <= 0:
        raise Mismatch(SPLIT_SIZES, f"{tensor.shape} cannot be split into {count} parts", tensors=(tensor,))
    each = _equal(size, count)
    result = _parts(tensor, position, [each] * count)
    if same(size % count, 0) is False:
        message = f"axis {position} of {tensor.shape} has size {size}, which cannot be split into {count} equal parts"
        raise Mismatch(SPLIT_SIZES, message, result=result, tensors=(tensor,))
    return result


def parts_of_sizes(tensor: Tensor, sizes: Sequence[Size], axis: int, *, remainder: bool = False) -> Value:
    """Parts of given sizes, which have to add up; with `remainder` one of them may be -1."""
    position = _axis(tensor, axis)
    if position is None:
        return _open_parts(tensor, None, axis, [unknown(0) if size == -1 else size for size in sizes])
    whole = tensor.shape.dims[position]
    total: Size = 0
    for size in sizes:
        total = total + (0 if size == -1 and remainder else size)
    free = list(sizes).count(-1) if remainder else 0
    filled = [whole - total if size == -1 and remainder else size for size in sizes]
    result = _parts(tensor, position, filled)
    wrong = same(total, whole) is False if not free else free > 1 or less(whole, total)
    if wrong or any(bounds(size)[1] < 0 for size in filled):
        shown = " + ".join(map(str, sizes))
        message = f"axis {position} of {tensor.shape} has size {whole}, but the parts are {shown} = {total}"
        raise Mismatch(SPLIT_SIZES, message, result=result, tensors=(tensor,))
    return result


def parts_at(tensor: Tensor, indices: Sequence[Size], axis: int) -> Value:
    """Parts between positions, which are cut off as slices are."""
    position = _axis(tensor, axis)
    if position is None:
        return _open_parts(tensor, len(indices) + 1, 0)
    size = tensor.shape.dims[position]
    if not isinstance(size, int) or not all(isinstance(index, int) for index in indices):
        between = [unknown(0) for _ in range(len(indices) + 1)]
        if all(isinstance(index, int) and index >= 0 for index in indices) and less(_last(indices), size + 1):
            between = [right - left for left, right in pairwise([0, *indices, size])]
        return _parts(tensor, position, between)
    fixed = [index for index in indices if isinstance(index, int)]
    if tensor.framework == "jax" and any(index > size for index in fixed):
        message = f"axis {position} of {tensor.shape} has size {size}, but is cut at {max(fixed)}"
        raise Mismatch(SPLIT_SIZES, message, tensors=(tensor,))
    lengths = [len(range(*slice(left, right).indices(size))) for left, right in pairwise([0, *fixed, None])]
    return _parts(tensor, position, lengths)


def _last(indices: Sequence[Size]) -> Size:
    return indices[-1] if indices else 0


def nearly_equal_parts(tensor: Tensor, count: Size, axis: int) -> Value:
    """A number of parts, the first of which are larger by one if need be."""
    position = _axis(tensor, axis)
    if position is None:
        return _open_parts(tensor, count, 0)
    if not isinstance(count, int) or count > MOST_PARTS:
        raise NotKnown
    if count <= 0:
        raise Mismatch(SPLIT_SIZES, f"{tensor.shape} cannot be split into {count} parts", tensors=(tensor,))
    size = tensor.shape.dims[position]
    if not isinstance(size, int):
        exact = divide_exactly(size, count)
        each = exact if isinstance(exact, Polynomial) and exact.is_whole else unknown(0)
        return _parts(tensor, position, [each] * count)
    small, larger = divmod(size, count)
    return _parts(tensor, position, [small + 1] * larger + [small] * (count - larger))


def rows(tensor: Tensor, axis: int, number: Value = None) -> Value:
    """The slices along an axis, without it."""
    position = _axis(tensor, axis)
    if position is None:
        if not isinstance(number, int):
            raise NotKnown
        inner = tensor.shape.head[1:] if axis == 0 else ()
        return (tensor.with_shape(Shape(inner, tensor.shape.tail if axis == 0 else ()), contiguous=None),) * number
    dims = tensor.shape.dims
    size = dims[position]
    strides = strides_of(tensor)
    rest = [*dims[:position], *dims[position + 1 :]]
    moved = None if strides is None else (*strides[:position], *strides[position + 1 :])
    row = restrided(tensor, rest, moved)
    wanted = as_size(number)
    if wanted is not None and same(wanted, size) is False:
        message = f"axis {position} of {tensor.shape} has size {size}, not {wanted}"
        raise Mismatch(SPLIT_SIZES, message, tensors=(tensor,))
    count = size if isinstance(size, int) else wanted
    if isinstance(count, int) and count <= MOST_PARTS:
        return (row,) * count
    return ListValue(None, row, size)


# -- PyTorch ----------------------------------------------------------------------------------------------------------


def _pieces(tensor: Tensor, size: Size, axis: int) -> Value:
    """Pieces of one size, the last of which may be smaller."""
    position = _axis(tensor, axis)
    if position is None:
        raise NotKnown
    whole = tensor.shape.dims[position]
    if isinstance(size, int) and (size < 0 or (size == 0 and same(whole, 0) is False)):
        raise Mismatch(SPLIT_SIZES, f"{tensor.shape} cannot be split into pieces of size {size}", tensors=(tensor,))
    count = whole // size if size != 0 else 1
    rest = whole - count * size if isinstance(whole, int) and isinstance(size, int) else None
    if isinstance(count, int) and isinstance(size, int) and isinstance(rest, int):
        sizes = [size] * count + ([rest] if rest else [])
        if len(sizes) <= MOST_PARTS:
            return _parts(tensor, position, sizes or [0])
        return ListValue(None, _part(tensor, position, size if not rest else unknown()), len(sizes))
    exact = divide_exactly(whole, size) if size != 0 else None
    if isinstance(exact, int) and 0 < exact <= MOST_PARTS:
        return _parts(tensor, position, [size] * exact)
    return ListValue(None, _part(tensor, position, unknown()))


@shape_rule("torch.split")
def torch_split(tensor: Tensor, split_size_or_sections: Value, dim: int = 0) -> Value:
    """Pieces of one size, or of given sizes."""
    return _split(tensor, split_size_or_sections, dim)


@shape_rule("torch.Tensor.split")
def torch_split_method(tensor: Tensor, split_size: Value, dim: int = 0) -> Value:
    """Pieces of one size, or of given sizes."""
    return _split(tensor, split_size, dim)


def _split(tensor: Tensor, sizes: Value, axis: int) -> Value:
    single = as_size(sizes)
    if single is not None:
        return _pieces(tensor, single, axis)
    return parts_of_sizes(tensor, as_sizes(sizes), axis)


@shape_rule("torch.split_with_sizes", "torch.Tensor.split_with_sizes")
def torch_split_with_sizes(input: Tensor, split_sizes: Sizes, dim: int = 0) -> Value:
    """Pieces of given sizes."""
    return parts_of_sizes(input, split_sizes, dim)


@shape_rule("torch.chunk", "torch.Tensor.chunk")
def torch_chunk(input: Tensor, chunks: Size, dim: int = 0) -> Value:
    """At most that many pieces of one size, the last of which may be smaller."""
    position = _axis(input, dim)
    if position is None:
        return _open_parts(input, chunks, dim)
    if isinstance(chunks, int) and chunks <= 0:
        raise Mismatch(SPLIT_SIZES, f"{input.shape} cannot be cut into {chunks} chunks", tensors=(input,))
    size = input.shape.dims[position]
    exact = divide_exactly(size, chunks) if chunks != 0 else None
    if isinstance(chunks, int) and not isinstance(size, int) and not isinstance(exact, Polynomial):
        return (_part(input, position, unknown()),) * chunks
    return _pieces(input, (size + chunks - 1) // chunks, dim) if isinstance(size, int) else equal_parts(input, chunks, dim)


@shape_rule("torch.unbind", "torch.Tensor.unbind")
def torch_unbind(input: Tensor, dim: int = 0) -> Value:
    """All slices along an axis."""
    return rows(input, dim)


@shape_rule("torch.tensor_split", "torch.Tensor.tensor_split")
def torch_tensor_split(input: Tensor, indices_or_sections: Value, dim: int = 0) -> Value:
    """Nearly equal parts, or parts between positions."""
    return _at_or_nearly(input, indices_or_sections, dim)


def _at_or_nearly(tensor: Tensor, where: Value, axis: int) -> Value:
    single = as_size(where)
    return parts_at(tensor, as_sizes(where), axis) if single is None else nearly_equal_parts(tensor, single, axis)


def _at_or_equal(tensor: Tensor, where: Value, axis: int) -> Value:
    single = as_size(where)
    return parts_at(tensor, as_sizes(where), axis) if single is None else equal_parts(tensor, single, axis)


def _split_by_letter(call: Call, tensor: Tensor, where: Value) -> Value:
    """`hsplit`, `vsplit`, `dsplit`: columns, rows, depth."""
    rank = tensor.shape.rank
    if rank is None:
        raise NotKnown
    letter = call.name.rpartition(".")[2][0]
    least = {"h": 1, "v": 2, "d": 3}[letter]
    if rank < least and not (call.framework == "jax" and letter == "v" and rank == 1):
        raise Mismatch(AXIS_OUT_OF_RANGE, f"{letter}split needs {least} axes, but {tensor.shape} has {rank}", tensors=(tensor,))
    return _at_or_equal(tensor, where, {"h": 0 if rank == 1 else 1, "v": 0, "d": 2}[letter])


@shape_rule(*(f"torch.{prefix}{name}" for prefix in ("", "Tensor.") for name in ("hsplit", "vsplit", "dsplit")))
def torch_hsplit(call: Call, input: Tensor, indices_or_sections: Value) -> Value:
    """Equal parts, or parts between positions."""
    return _split_by_letter(call, input, indices_or_sections)


# -- other libraries --------------------------------------------------------------------------------------------------


@shape_rule("numpy.split", "jax.numpy.split")
def split(ary: Tensor, indices_or_sections: Value, axis: int = 0) -> Value:
    """Equal parts, or parts between positions."""
    return _as_list(_at_or_equal(ary, indices_or_sections, axis))


def _as_list(parts: Value) -> Value:
    return ListValue(parts) if isinstance(parts, tuple) else parts


@shape_rule("numpy.array_split", "jax.numpy.array_split")
def array_split(ary: Tensor, indices_or_sections: Value, axis: int = 0) -> Value:
    """Nearly equal parts, or parts between positions."""
    return _as_list(_at_or_nearly(ary, indices_or_sections, axis))


@shape_rule(*(f"{library}.{name}" for library in ("numpy", "jax.numpy") for name in ("hsplit", "vsplit", "dsplit")))
def hsplit(call: Call, ary: Tensor, indices_or_sections: Value) -> Value:
    """Equal parts, or parts between positions."""
    return _as_list(_split_by_letter(call, ary, indices_or_sections))


@shape_rule("numpy.unstack", "jax.numpy.unstack")
def unstack(x: Tensor, /, *, axis: int = 0) -> Value:
    """All slices along an axis."""
    return rows(x, axis)


@shape_rule("jax.lax.split")
def lax_split(operand: Tensor, sizes: Sizes, axis: int = 0) -> Value:
    """Parts of given sizes."""
    return _as_list(parts_of_sizes(operand, sizes, axis))


@shape_rule("keras.ops.split")
def keras_split(x: Tensor, indices_or_sections: Value, axis: int = 0) -> Value:
    """Equal parts, or parts between positions."""
    return _as_list(_at_or_equal(x, indices_or_sections, axis))


@shape_rule("keras.ops.array_split")
def keras_array_split(x: Tensor, indices_or_sections: Value, axis: int = 0) -> Value:
    """Nearly equal parts, or parts between positions."""
    return _as_list(_at_or_nearly(x, indices_or_sections, axis))


@shape_rule("keras.ops.unstack")
def keras_unstack(x: Tensor, num: Value = None, axis: int = 0) -> Value:
    """All slices along an axis."""
    return _as_list(rows(x, axis, num))


@shape_rule("tf.unstack")
def tf_unstack(value: Tensor, num: Value = None, axis: int = 0, name: Value = "unstack") -> Value:
    """All slices along an axis."""
    return _as_list(rows(value, axis, num))


@shape_rule("tf.split")
def tf_split(value: Value, num_or_size_splits: Value, axis: Value = 0, num: Value = None, name: Value = "split") -> Value:
    """Equal parts, or parts of given sizes; before version 1.0 the axis came first and the array last."""
    if as_size(value) is not None and isinstance(axis, Tensor) and axis.shape.rank != 0:
        number = as_size(num_or_size_splits)
        message = f"the array comes first: write tf.split({axis.shape} array, {number}, {as_size(value)})"
        raise Mismatch(EXCHANGED_ARGUMENTS, message, result=_exchanged(axis, number, as_size(value)), tensors=(axis,))
    tensor = as_tensor(value, "tf")
    position = as_size(axis)
    if not isinstance(position, int):
        raise NotKnown
    number = as_size(num_or_size_splits)
    if number is not None:
        return _as_list(equal_parts(tensor, number, position))
    return _as_list(parts_of_sizes(tensor, as_sizes(num_or_size_splits), position, remainder=True))


def _exchanged(tensor: Tensor, number: Size | None, axis: Size | None) -> Value:
    """What was meant by a call in the old order."""
    if not isinstance(number, int) or not isinstance(axis, int):
        return ListValue(None)
    try:
        return _as_list(equal_parts(tensor, number, axis))
    except Mismatch:
        return ListValue(None)
