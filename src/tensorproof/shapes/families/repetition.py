"""Elements repeated: `repeat`, `tile`; overlapping windows of an axis; padding around."""

from __future__ import annotations

from collections.abc import Sequence

from tensorproof.rules.shapes.split_sizes import SPLIT_SIZES
from tensorproof.rules.shapes.window_too_large import WINDOW_TOO_LARGE
from tensorproof.rules.shapes.wrong_rank import WRONG_RANK
from tensorproof.shapes.families.axes import as_tuple
from tensorproof.shapes.families.axis_numbers import checked_axes, checked_axis
from tensorproof.shapes.families.creation import sizes_of
from tensorproof.shapes.rule_table import Axes, Mismatch, NotKnown, Sizes, as_sizes, as_tensor, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, Shape
from tensorproof.shapes.sizes import Size, bounds, less, same, unknown
from tensorproof.shapes.strides import restrided, strides_of
from tensorproof.shapes.values import ListValue, Tensor, Value, as_size


def tiled(tensor: Tensor, times: Sequence[Size]) -> Tensor:
    """The whole array laid next to itself; missing axes are added in front on either side."""
    shape = tensor.shape
    if shape.rank is None:
        return tensor.with_shape(ANY_SHAPE)
    rank = max(shape.rank, len(times))
    dims = (*(1,) * (rank - shape.rank), *shape.dims)
    counts = (*(1,) * (rank - len(times)), *times)
    return tensor.with_shape(Shape(tuple(size * _count(count) for size, count in zip(dims, counts, strict=True))))


def _count(count: Size) -> Size:
    return unknown(0) if not isinstance(count, int) and bounds(count)[0] < 0 else count


@shape_rule("torch.Tensor.repeat")
def torch_repeat(input: Tensor, *repeats: Value, **named: Value) -> Tensor:
    """`x.repeat(2, 1)`: a number for each axis at least."""
    times = sizes_of(repeats or tuple(named.values())).dims
    if input.shape.rank is not None and len(times) < input.shape.rank:
        message = f"repeat has {len(times)} numbers for {input.shape}, which has {input.shape.rank} axes"
        raise Mismatch(WRONG_RANK, message, tensors=(input,))
    return tiled(input, times)


@shape_rule("torch.Tensor.tile")
def torch_tile_method(input: Tensor, *dims: Value, **named: Value) -> Tensor:
    """`x.tile(2, 1)`."""
    return tiled(input, sizes_of(dims or tuple(named.values())).dims)


@shape_rule("torch.tile")
def torch_tile(input: Tensor, dims: Sizes) -> Tensor:
    """`torch.tile`."""
    return tiled(input, dims)


@shape_rule("numpy.tile", "jax.numpy.tile")
def tile(A: Tensor, reps: Sizes) -> Tensor:
    """`np.tile`."""
    return tiled(A, reps)


@shape_rule("keras.ops.tile")
def keras_tile(x: Tensor, repeats: Sizes) -> Tensor:
    """`keras.ops.tile`."""
    return tiled(x, repeats)


@shape_rule("tf.tile")
def tf_tile(input: Tensor, multiples: Sizes, name: Value = None) -> Tensor:
    """A number for each axis, exactly."""
    if input.shape.rank is not None and len(multiples) != input.shape.rank:
        message = f"tile has {len(multiples)} numbers for {input.shape}, which has {input.shape.rank} axes"
        raise Mismatch(WRONG_RANK, message, tensors=(input,))
    return tiled(input, multiples)


# -- element by element -----------------------------------------------------------------------------------------------


def repeated(tensor: Tensor, repeats: Value, axis: int | None, total: Value = None, *, scalar_has_axis: bool = False) -> Tensor:
    """Each slice several times: as often as one number says, or each as often as its own."""
    shape = tensor.shape
    if axis is None:
        elements = shape.elements
        return tensor.with_shape(Shape((_repeated(tensor, unknown(0) if elements is None else elements, repeats, total),)))
    position = checked_axis(tensor, axis, scalar_has_axis=scalar_has_axis)
    if position is None:
        return tensor.with_shape(ANY_SHAPE)
    dims = shape.dims or (1,)
    size = _repeated(tensor, dims[position], repeats, total)
    return tensor.with_shape(Shape((*dims[:position], size, *dims[position + 1 :])))


def _repeated(tensor: Tensor, size: Size, repeats: Value, total: Value) -> Size:
    number = as_size(repeats)
    if number is not None:
        return size * number
    given = as_tensor(repeats, tensor.framework)
    if given.shape.rank is not None and given.shape.rank > 1:
        raise Mismatch(SPLIT_SIZES, f"repeats have to be a number or a vector, not {given.shape}", tensors=(tensor,))
    count = given.shape.dims[0] if given.shape.rank == 1 else 1
    counts = given.content if isinstance(given.content, tuple) else None
    if given.shape.rank == 1 and count != 1 and same(count, size) is False:
        message = f"{count} numbers of repeats for {size} slices of {tensor.shape}"
        raise Mismatch(SPLIT_SIZES, message, tensors=(tensor, given))
    known = as_size(total) if total is not None else None
    if known is not None:
        return known
    if counts is None:
        return unknown(0)
    numbers = [as_size(part) for part in counts]
    result: Size = 0
    for part in numbers:
        if part is None:
            return unknown(0)
        result = result + part
    return result * size if count == 1 else result


@shape_rule("torch.repeat_interleave", "torch.Tensor.repeat_interleave")
def torch_repeat_interleave(input: Tensor, repeats: Value, dim: int | None = None, *, output_size: Value = None) -> Tensor:
    """`repeat_interleave`."""
    return repeated(input, repeats, dim, output_size, scalar_has_axis=True)


@shape_rule("numpy.repeat", "numpy.ndarray.repeat", "jax.numpy.repeat", "jax.Array.repeat")
def repeat(
    a: Tensor, repeats: Value, axis: int | None = None, *, total_repeat_length: Value = None, out_sharding: Value = None
) -> Tensor:
    """`np.repeat`."""
    return repeated(a, repeats, axis, total_repeat_length)


@shape_rule("keras.ops.repeat")
def keras_repeat(x: Tensor, repeats: Value, axis: int | None = None) -> Tensor:
    """`keras.ops.repeat`."""
    return repeated(x, repeats, axis)


@shape_rule("tf.repeat")
def tf_repeat(input: Tensor, repeats: Value, axis: int | None = None, name: Value = None) -> Tensor:
    """`tf.repeat`."""
    return repeated(input, repeats, axis)


# -- windows ----------------------------------------------------------------------------------------------------------


@shape_rule("torch.Tensor.unfold")
def torch_unfold(input: Tensor, dimension: int, size: Size, step: Size) -> Tensor:
    """Windows of an axis, which come behind all others."""
    position = checked_axis(input, dimension, scalar_has_axis=True)
    if position is None:
        return input.with_shape(ANY_SHAPE, contiguous=None)
    whole = input.shape.dims[position] if input.shape.dims else 1
    if less(whole, size) or bounds(step)[1] <= 0 or bounds(size)[1] < 0:
        message = f"windows of {size} elements every {step} do not fit into axis {position} of {input.shape}, of size {whole}"
        raise Mismatch(WINDOW_TOO_LARGE, message, tensors=(input,))
    if not input.shape.dims:
        return input.with_shape(Shape((size,)))
    dims = list(input.shape.dims)
    dims[position] = (whole - size) // step + 1
    strides = strides_of(input)
    moved = None
    if strides is not None:
        moved = (*strides[:position], strides[position] * step, *strides[position + 1 :], strides[position])
    return restrided(input, (*dims, size), moved)


@shape_rule("numpy.lib.stride_tricks.sliding_window_view")
def sliding_window_view(
    x: Tensor, window_shape: Sizes, axis: Axes = None, *, subok: Value = False, writeable: Value = False
) -> Tensor:
    """All windows; their axes come behind the others."""
    rank = x.shape.rank
    if rank is None:
        return x.with_shape(ANY_SHAPE)
    axes = tuple(range(rank)) if axis is None else checked_axes(x, as_tuple(axis), distinct=False)
    assert axes is not None
    if len(axes) != len(window_shape):
        message = f"a window of {len(window_shape)} sizes for {len(axes)} axes of {x.shape}"
        raise Mismatch(WRONG_RANK, message, tensors=(x,))
    dims = list(x.shape.dims)
    for position, size in zip(axes, window_shape, strict=True):
        if bounds(dims[position] - size + 1)[1] <= 0 or bounds(size)[1] < 0:
            message = f"a window of {size} elements does not fit into axis {position} of {x.shape}"
            raise Mismatch(WINDOW_TOO_LARGE, message, tensors=(x,))
        dims[position] = dims[position] - size + 1
    return x.with_shape(Shape((*dims, *window_shape)), contiguous=None)


# -- padding ----------------------------------------------------------------------------------------------------------


def _widened(tensor: Tensor, widths: Sequence[tuple[Size, Size]]) -> Tensor:
    """Each axis with that many elements before and behind; negative numbers cut off, but not more than there is."""
    dims: list[Size] = []
    for axis, (size, (before, behind)) in enumerate(zip(tensor.shape.dims, widths, strict=True)):
        if any(not isinstance(width, int) and bounds(width)[0] < 0 for width in (before, behind)):
            dims.append(unknown(0))
            continue
        result = size + before + behind
        if bounds(result)[1] < 0:
            message = f"padding by {before} and {behind} leaves nothing of axis {axis} of {tensor.shape}"
            raise Mismatch(WINDOW_TOO_LARGE, message, tensors=(tensor,))
        dims.append(result)
    return tensor.with_shape(Shape(tuple(dims)))


def padded_from_back(tensor: Tensor, pad: Sequence[Size], mode: str = "constant") -> Tensor:
    """PyTorch's order: two numbers for the last axis, two for the one before it, and so on."""
    shape = tensor.shape
    if len(pad) % 2:
        raise Mismatch(WRONG_RANK, f"padding takes two numbers for each axis, not {len(pad)} in all", tensors=(tensor,))
    pairs = [(pad[place], pad[place + 1]) for place in range(0, len(pad), 2)]
    if shape.rank is None:
        if mode != "constant":
            return tensor.with_shape(ANY_SHAPE)
        tail = [size + sum(pairs[-1 - place]) for place, size in enumerate(shape.last(len(pairs)))]
        return tensor.with_shape(Shape((), tuple(tail)))
    if len(pairs) > shape.rank or (mode != "constant" and (len(pairs) > 3 or len(pairs) not in (shape.rank - 1, shape.rank - 2))):
        message = f"padding for {len(pairs)} axes does not fit to {shape}, which has {shape.rank}"
        raise Mismatch(WRONG_RANK, message, tensors=(tensor,))
    widths: list[tuple[Size, Size]] = [(0, 0)] * (shape.rank - len(pairs)) + list(reversed(pairs))
    if mode in ("reflect", "circular"):
        for size, both in zip(shape.dims, widths, strict=True):
            if any(less(size - (1 if mode == "reflect" else 0), width) for width in both):
                message = f"{mode} padding by {both[0]} and {both[1]} is more than an axis of size {size} of {shape} has"
                raise Mismatch(WINDOW_TOO_LARGE, message, tensors=(tensor,))
    return _widened(tensor, widths)


@shape_rule("torch.nn.functional.pad")
def torch_pad(input: Tensor, pad: Sizes, mode: str = "constant", value: Value = None) -> Tensor:
    """`F.pad`."""
    return padded_from_back(input, pad, mode)


def _pairs(value: Value) -> list[Sizes]:
    """Nested numbers as rows."""
    items = value.items if isinstance(value, ListValue) else value
    if isinstance(value, Tensor) or not isinstance(items, tuple):
        raise NotKnown
    return [as_sizes(item) for item in items]


def padded(tensor: Tensor, widths: Value, *, exact: bool = False) -> Tensor:
    """A pair of numbers for each axis, or one pair or number for all; an `exact` library wants all of them."""
    rank = tensor.shape.rank
    if rank is None:
        return tensor.with_shape(ANY_SHAPE)
    single = as_size(widths)
    rows = [(single,)] if single is not None else _pairs(widths)
    if not exact and len(rows) == 2 and all(len(row) == 1 for row in rows) and single is None:
        nested = widths.items if isinstance(widths, ListValue) else widths
        if isinstance(nested, tuple) and all(as_size(row) is not None for row in nested):
            rows = [(rows[0][0], rows[1][0])]
    if exact and (len(rows) != rank or any(len(row) != 2 for row in rows)):
        raise Mismatch(WRONG_RANK, f"padding takes a pair for each axis of {tensor.shape}", tensors=(tensor,))
    if len(rows) not in (1, rank) or any(len(row) not in (1, 2) for row in rows):
        message = f"padding for {len(rows)} axes does not fit to {tensor.shape}, which has {rank}"
        raise Mismatch(WRONG_RANK, message, tensors=(tensor,))
    pairs = [(row[0], row[-1]) for row in rows]
    pairs = pairs * rank if len(pairs) == 1 else pairs
    if any(bounds(width)[1] < 0 for pair in pairs for width in pair):
        raise Mismatch(WRONG_RANK, f"padding of {tensor.shape} cannot be negative", tensors=(tensor,))
    return _widened(tensor, pairs)


@shape_rule("numpy.pad", "jax.numpy.pad")
def pad(array: Tensor, pad_width: Value, mode: Value = "constant", **options: Value) -> Tensor:
    """`np.pad`."""
    return padded(array, pad_width)


@shape_rule("keras.ops.pad")
def keras_pad(x: Tensor, pad_width: Value, mode: Value = "constant", constant_values: Value = None) -> Tensor:
    """`keras.ops.pad`."""
    return padded(x, pad_width)


@shape_rule("tf.pad")
def tf_pad(tensor: Tensor, paddings: Value, mode: Value = "CONSTANT", constant_values: Value = 0, name: Value = None) -> Tensor:
    """`tf.pad`."""
    if isinstance(paddings, Tensor):
        raise NotKnown
    return padded(tensor, paddings, exact=True)


@shape_rule("jax.lax.pad")
def lax_pad(operand: Tensor, padding_value: Value, padding_config: Value) -> Tensor:
    """Before, behind, and between the elements of each axis."""
    rank = operand.shape.rank
    if rank is None:
        return operand.with_shape(ANY_SHAPE)
    rows = _pairs(padding_config)
    if len(rows) != rank or any(len(row) != 3 for row in rows):
        raise Mismatch(WRONG_RANK, f"padding takes three numbers for each axis of {operand.shape}", tensors=(operand,))
    spread = [size + (size - 1) * row[2] if size != 0 else 0 for size, row in zip(operand.shape.dims, rows, strict=True)]
    return _widened(operand.with_shape(Shape(tuple(spread))), [(row[0], row[1]) for row in rows])
