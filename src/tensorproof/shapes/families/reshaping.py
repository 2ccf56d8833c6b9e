"""Reshapes: the same elements under other sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from tensorproof.rules.shapes.axis_out_of_range import AXIS_OUT_OF_RANGE
from tensorproof.rules.shapes.batch_changing_reshape import BATCH_CHANGING_RESHAPE
from tensorproof.rules.shapes.partial_batch import PARTIAL_BATCH
from tensorproof.rules.shapes.reshape_as_transpose import RESHAPE_AS_TRANSPOSE
from tensorproof.rules.shapes.reshape_count import RESHAPE_COUNT
from tensorproof.rules.shapes.split_sizes import SPLIT_SIZES
from tensorproof.rules.shapes.view_not_contiguous import VIEW_NOT_CONTIGUOUS
from tensorproof.shapes.batches import marked
from tensorproof.shapes.families.axis_numbers import checked_axis
from tensorproof.shapes.families.creation import sizes_of
from tensorproof.shapes.families.partial_batches import assumes_full_batch, partial_batch_message
from tensorproof.shapes.problems import Edit
from tensorproof.shapes.rule_table import Axes, Call, Mismatch, NotKnown, Sizes, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, Shape
from tensorproof.shapes.sizes import Polynomial, Size, bounds, divide_exactly, product, same, substitute, symbols, unknown
from tensorproof.shapes.strides import refuses_view
from tensorproof.shapes.values import Tensor, Value


def reshaped(call: Call, tensor: Tensor, target: Sequence[Size]) -> Tensor:
    """The tensor under new sizes, one of which may be -1: what remains. Elements are counted, and two habits are warned of."""
    # To NumPy every negative size is what remains.
    target = tuple(-1 if call.framework == "numpy" and bounds(size)[1] < 0 else size for size in target)
    goal = Shape(target)
    if target.count(-1) > 1 or any(bounds(size)[1] < -1 for size in target):
        message = f"{goal} is no shape: only one size may be -1, and none may be less"
        raise Mismatch(RESHAPE_COUNT, message, result=_open_result(tensor, target), tensors=(tensor,))
    if tensor.shape.rank is None:
        return _open_result(tensor, target)
    free = [axis for axis, size in enumerate(target) if size == -1 or _doubtful(size)]
    if not free:
        return _of_known_sizes(call, tensor, target)
    if len(free) > 1:
        return _open_result(tensor, target)
    return _with_remainder(call, tensor, target, free[0])


def _doubtful(size: Size) -> bool:
    """Whether nothing is known of a size, not even that it is none that stands for the remainder."""
    return not isinstance(size, int) and bounds(size)[0] < 0


def _open_result(tensor: Tensor, target: Sequence[Size]) -> Tensor:
    return tensor.with_shape(Shape(tuple(unknown(0) if size == -1 or _doubtful(size) else size for size in target)))


def _of_known_sizes(call: Call, tensor: Tensor, target: tuple[Size, ...]) -> Tensor:
    """All sizes are written out: they have to hold exactly the elements."""
    source = tensor.shape
    total, held = product(source.dims), product(target)
    result = tensor.with_shape(Shape(target))
    if same(total, held) is False:
        message = f"{source} has {total} elements, but {Shape(target)} holds {held}"
        raise Mismatch(RESHAPE_COUNT, message, result=result, tensors=(tensor,))
    if assumes_full_batch(total, held):
        call.warn(PARTIAL_BATCH, partial_batch_message(source, Shape(target)), tensors=(tensor,))
        rows = (source.dims[0],) if target and assumes_full_batch(source.dims[0], target[0]) else target[:1]
        return tensor.with_shape(Shape((*rows, *target[1:])))
    _warn_of_transpose(call, tensor, target)
    return marked(call, tensor, result) if tensor.batch_factor is not None else result


def _with_remainder(call: Call, tensor: Tensor, target: tuple[Size, ...], free: int) -> Tensor:
    """One size is what remains. One that is unknown is that, too, in every run that does not fail."""
    source = tensor.shape
    total = product(source.dims)
    known = product(size for axis, size in enumerate(target) if axis != free)
    rest = divide_exactly(total, known) if known != 0 else None
    is_remainder = target[free] == -1

    def with_rest(size: Size) -> Tensor:
        return tensor.with_shape(Shape((*target[:free], size, *target[free + 1 :])))

    if isinstance(rest, int) or (isinstance(rest, Polynomial) and rest.is_whole):
        result = with_rest(rest)
        return marked(call, tensor, result) if is_remainder and (free == 0 or tensor.batch_factor is not None) else result
    if is_remainder and _never_whole(total, known, rest):
        wanted = f"; {total} is no multiple of {known}"
        message = f"{source} has {total} elements, which do not fit into {Shape(target)}{wanted}"
        raise Mismatch(
            RESHAPE_COUNT, message, result=with_rest(source.dims[0] if free == 0 and source.dims else unknown()), tensors=(tensor,)
        )
    # A graph of TensorFlow 1 is looked at again with the sizes that are fed.
    if is_remainder and free == 0 and isinstance(rest, Polynomial) and _is_batch(source.dims[0]) and not call.is_tf1:
        call.warn(
            BATCH_CHANGING_RESHAPE,
            f"{source} becomes {rest} rows of {known} elements: rows mix samples of the batch, or the reshape fails; "
            f"each sample has {product(source.dims[1:])} elements",
            tensors=(tensor,),
        )
        return replace(with_rest(source.dims[0]), suspect=True)
    return with_rest(total // known if isinstance(known, int) and known > 0 else unknown(0))


def _never_whole(total: Size, known: Size, rest: Fraction | Polynomial | None) -> bool:
    """Whether the remainder is no integer: never, or not for the full batches of a loader."""
    if isinstance(total, int) and isinstance(known, int):
        return known == 0 or total % known != 0
    if isinstance(rest, Fraction):
        return True
    if not isinstance(rest, Polynomial):
        return False
    found = symbols(rest)
    if not found or any(s.role != "batch" or s.high == float("inf") for s in found):
        return False
    full = substitute(rest, {s: int(s.high) for s in found})
    return isinstance(full, Polynomial)


def _is_batch(size: Size) -> bool:
    return any(s.role == "batch" for s in symbols(size))


def _warn_of_transpose(call: Call, tensor: Tensor, target: tuple[Size, ...]) -> None:
    """A target with the sizes of the source in another order, three of them at least: a transpose was meant."""
    source = tensor.shape.dims
    if len(source) != len(target) or not all(_is_fixed(size) for size in (*source, *target)):
        return
    before, after = ([size for size in sizes if size != 1] for sizes in (source, target))
    if len(before) < 3 or before == after or len(set(before)) < 2 or sorted(before, key=str) != sorted(after, key=str):
        return
    order = _order(source, target)
    call.warn(
        RESHAPE_AS_TRANSPOSE,
        f"{tensor.shape} is reshaped to {Shape(target)}, the same sizes in another order: the elements are not exchanged but "
        f"scrambled; a transpose has the order {order}",
        tensors=(tensor,),
    )


def _is_fixed(size: Size) -> bool:
    return isinstance(size, int) or all(s.role == "batch" for s in symbols(size))


def _order(source: tuple[Size, ...], target: tuple[Size, ...]) -> tuple[int, ...]:
    """The permutation that would give the target; equal sizes keep their order."""
    left = list(range(len(source)))
    order: list[int] = []
    for size in target:
        axis = next(axis for axis in left if source[axis] == size)
        left.remove(axis)
        order.append(axis)
    return tuple(order)


# -- PyTorch ----------------------------------------------------------------------------------------------------------


def viewed(call: Call, tensor: Tensor, target: Sequence[Size]) -> Tensor:
    """A reshape that may not copy: axes that are merged have to lie in order in memory."""
    result = reshaped(call, tensor, target)
    if result.shape.rank is None or tensor.shape.rank is None:
        return result
    axes = refuses_view(tensor, result.shape.dims)
    if axes is not None:
        message = (
            f"view cannot merge axes {axes[0]} and {axes[1]} of {tensor.shape} into {result.shape}: they do not follow each other "
            f"in memory; use reshape, or contiguous() before"
        )
        edits = () if call.name_place is None else (Edit("use reshape, which copies where it has to", call.name_place, "reshape"),)
        raise Mismatch(VIEW_NOT_CONTIGUOUS, message, result=result, tensors=(tensor,), edits=edits)
    return result


def _target(size: tuple[Value, ...]) -> tuple[Size, ...]:
    return sizes_of(size).dims


@shape_rule("torch.Tensor.view")
def torch_view(call: Call, input: Tensor, *size: Value) -> Tensor:
    """`x.view(2, -1)`; a number type instead of sizes keeps the shape, if its width is the same."""
    if len(size) == 1 and not isinstance(size[0], tuple | int | Polynomial) and not _is_list(size[0]):
        raise NotKnown
    return viewed(call, input, _target(size))


def _is_list(value: Value) -> bool:
    return hasattr(value, "items")


@shape_rule("torch.Tensor.reshape")
def torch_reshape_method(call: Call, input: Tensor, *shape: Value, **named: Value) -> Tensor:
    """`x.reshape(2, -1)`."""
    return reshaped(call, input, _target(shape or tuple(named.values())))


@shape_rule("torch.reshape")
def torch_reshape(call: Call, input: Tensor, shape: Sizes) -> Tensor:
    """`torch.reshape`."""
    return reshaped(call, input, shape)


@shape_rule("torch.Tensor.view_as", "torch.Tensor.reshape_as")
def torch_view_as(call: Call, input: Tensor, other: Tensor) -> Tensor:
    """The shape of another tensor."""
    if other.shape.rank is None:
        return input.with_shape(ANY_SHAPE)
    return viewed(call, input, other.shape.dims) if call.name.endswith("view_as") else reshaped(call, input, other.shape.dims)


def flattened(call: Call, tensor: Tensor, start: int = 0, end: int = -1) -> Tensor:
    """Axes from `start` to `end` merged into one."""
    shape = tensor.shape
    if shape.rank is None:
        if end != -1 or start < 0:
            return tensor.with_shape(ANY_SHAPE)
        return tensor.with_shape(Shape((*(shape[axis] for axis in range(start)), unknown(0))))
    first, last = (checked_axis(tensor, axis, scalar_has_axis=True) for axis in (start, end))
    assert first is not None
    assert last is not None
    if first > last:
        message = f"flatten from axis {start} to axis {end} of {shape}: the first comes after the last"
        raise Mismatch(AXIS_OUT_OF_RANGE, message, tensors=(tensor,))
    dims = shape.dims
    result = tensor.with_shape(Shape((*dims[:first], product(dims[first : last + 1]), *dims[last + 1 :])))
    return marked(call, tensor, result) if first == 0 and shape.rank > 1 and last < shape.rank - 1 else result


@shape_rule("torch.flatten", "torch.Tensor.flatten")
def torch_flatten(call: Call, input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """`flatten`."""
    return flattened(call, input, start_dim, end_dim)


@shape_rule("torch.ravel", "torch.Tensor.ravel")
def torch_ravel(call: Call, input: Tensor) -> Tensor:
    """One axis."""
    return flattened(call, input)


def unflattened(tensor: Tensor, axis: int, sizes: Sequence[Size]) -> Tensor:
    """One axis split into several, one of which may be -1."""
    position = checked_axis(tensor, axis, scalar_has_axis=True)
    if position is None:
        return tensor.with_shape(ANY_SHAPE)
    shape = tensor.shape
    if shape.rank == 0:
        raise NotKnown
    whole = shape.dims[position]
    free = [place for place, size in enumerate(sizes) if size == -1 or _doubtful(size)]
    known = product(size for size in sizes if size != -1 and not _doubtful(size))
    rest = divide_exactly(whole, known) if known != 0 else None
    exact = isinstance(rest, int) or (isinstance(rest, Polynomial) and rest.is_whole)
    remainder = rest if isinstance(rest, int | Polynomial) and exact and len(free) == 1 else unknown(0)
    filled = [remainder if place in free else size for place, size in enumerate(sizes)]
    result = tensor.with_shape(Shape((*shape.dims[:position], *filled, *shape.dims[position + 1 :])))
    wrong = not sizes or list(sizes).count(-1) > 1 or any(bounds(size)[1] < -1 for size in sizes)
    if not free:
        wrong = wrong or same(whole, known) is False
    elif isinstance(whole, int) and isinstance(known, int) and len(free) == 1 and sizes[free[0]] == -1:
        wrong = wrong or known == 0 or whole % known != 0
    if wrong:
        message = f"axis {position} of {shape} has size {whole}, which cannot be split into {Shape(tuple(sizes))}"
        raise Mismatch(SPLIT_SIZES, message, result=result, tensors=(tensor,))
    return result


@shape_rule("torch.unflatten", "torch.Tensor.unflatten")
def torch_unflatten(input: Tensor, dim: int, sizes: Sizes) -> Tensor:
    """One axis split into several."""
    return unflattened(input, dim, sizes)


# -- other libraries --------------------------------------------------------------------------------------------------


@shape_rule("numpy.reshape", "jax.numpy.reshape")
def reshape(
    call: Call,
    a: Tensor,
    shape: Sizes | None = None,
    order: Value = "C",
    *,
    newshape: Sizes | None = None,
    copy: Value = None,
    out_sharding: Value = None,
) -> Tensor:
    """`np.reshape`; older versions call the sizes `newshape`."""
    target = newshape if shape is None else shape
    if target is None:
        raise NotKnown
    return reshaped(call, a, target)


@shape_rule("numpy.ndarray.reshape", "jax.Array.reshape")
def reshape_method(call: Call, a: Tensor, *shape: Value, order: Value = "C", copy: Value = None) -> Tensor:
    """`x.reshape(2, -1)`."""
    return reshaped(call, a, _target(shape))


@shape_rule("tf.reshape")
def tf_reshape(call: Call, tensor: Tensor, shape: Sizes, name: Value = None) -> Tensor:
    """`tf.reshape`."""
    return reshaped(call, tensor, shape)


@shape_rule("keras.ops.reshape")
def keras_reshape(call: Call, x: Tensor, newshape: Sizes) -> Tensor:
    """`keras.ops.reshape`."""
    return reshaped(call, x, newshape)


@shape_rule("jax.lax.reshape")
def lax_reshape(call: Call, operand: Tensor, new_sizes: Sizes, dimensions: Axes = None, *, out_sharding: Value = None) -> Tensor:
    """Sizes without -1."""
    if -1 in new_sizes:
        raise Mismatch(RESHAPE_COUNT, f"{Shape(new_sizes)}: jax.lax.reshape knows no -1", tensors=(operand,))
    return reshaped(call, operand, new_sizes)


@shape_rule(
    "numpy.ravel", "numpy.ndarray.ravel", "numpy.ndarray.flatten", "jax.numpy.ravel", "jax.Array.ravel", "jax.Array.flatten"
)
def ravel(a: Tensor, order: Value = "C", *, out_sharding: Value = None) -> Tensor:
    """One axis."""
    return raveled(a)


@shape_rule("keras.ops.ravel")
def keras_ravel(x: Tensor) -> Tensor:
    """One axis."""
    return raveled(x)


def raveled(tensor: Tensor) -> Tensor:
    """All elements along one axis."""
    elements = tensor.shape.elements
    return tensor.with_shape(Shape((unknown(0) if elements is None else elements,)))


@shape_rule("jax.lax.collapse")
def lax_collapse(call: Call, operand: Tensor, start_dimension: int, stop_dimension: int | None = None) -> Tensor:
    """Axes from the first to before the last merged."""
    rank = operand.shape.rank
    if rank is None:
        raise NotKnown
    # As slices do, ends beyond the axes are cut off.
    first, last, _ = slice(start_dimension, stop_dimension).indices(rank)
    if first >= last:
        raise NotKnown
    return flattened(call, operand, first, last - 1)


@shape_rule("numpy.resize", "jax.numpy.resize")
def resize(a: Tensor, new_shape: Sizes) -> Tensor:
    """Elements repeated or cut to fit a shape."""
    return a.with_shape(Shape(new_shape))
