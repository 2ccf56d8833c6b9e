"""Contractions over chosen axes: `tensordot` and `jax.lax.dot_general`."""

from __future__ import annotations

from collections.abc import Sequence

from tensorproof.rules.shapes.axis_out_of_range import AXIS_OUT_OF_RANGE
from tensorproof.rules.shapes.matmul_mismatch import MATMUL_MISMATCH
from tensorproof.shapes.families.broadcasting import wider
from tensorproof.shapes.rule_table import Call, Mismatch, NotKnown, as_sizes, shape_rule
from tensorproof.shapes.shape import Shape
from tensorproof.shapes.sizes import Size, product, same
from tensorproof.shapes.values import ListValue, Tensor, Value, as_size


def contracted(call: Call, left: Tensor, right: Tensor, axes: Value, *, stretches: bool = False) -> Tensor:
    """The products over pairs of axes, summed up; the other axes stand side by side.

    TensorFlow flattens the axes of each side before: only their products have to agree.
    """
    pairs = _pairs(left, right, axes)
    if left.shape.rank is None or right.shape.rank is None:
        raise NotKnown
    first, second = (_positions(tensor, chosen) for tensor, chosen in ((left, pairs[0]), (right, pairs[1])))
    if call.framework in ("tf", "keras") and len(first) == len(second):
        _check_products(left, right, first, second)
    else:
        _check(left, right, first, second, stretches=stretches)
    sizes = (*_others(left, first), *_others(right, second))
    return left.with_shape(Shape(sizes), dtype=wider(left.dtype, right.dtype))


def _others(tensor: Tensor, axes: Sequence[int]) -> tuple[Size, ...]:
    return tuple(size for axis, size in enumerate(tensor.shape.dims) if axis not in axes)


def _pairs(left: Tensor, right: Tensor, axes: Value) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes on both sides: the last of the left with the first of the right, or as they are listed."""
    count = as_size(axes)
    if count is not None:
        rank = left.shape.rank
        if not isinstance(count, int) or rank is None:
            raise NotKnown
        if count < 0 or count > rank or (right.shape.rank is not None and count > right.shape.rank):
            message = f"tensordot over {count} axes of {left.shape} and {right.shape}, which have fewer"
            raise Mismatch(AXIS_OUT_OF_RANGE, message, tensors=(left, right))
        return tuple(range(rank - count, rank)), tuple(range(count))
    items = axes.items if isinstance(axes, ListValue) else axes
    if not isinstance(items, tuple) or len(items) != 2:
        raise NotKnown
    return _numbers(items[0]), _numbers(items[1])


def _numbers(value: Value) -> tuple[int, ...]:
    sizes = as_sizes(value)
    numbers = tuple(size for size in sizes if isinstance(size, int))
    if len(numbers) != len(sizes):
        raise NotKnown
    return numbers


def _positions(tensor: Tensor, axes: Sequence[int]) -> tuple[int, ...]:
    rank = len(tensor.shape.dims)
    if any(not -rank <= axis < rank for axis in axes):
        message = f"axes {list(axes)} do not exist in {tensor.shape}"
        raise Mismatch(AXIS_OUT_OF_RANGE, message, tensors=(tensor,))
    return tuple(axis % rank for axis in axes)


def _check(left: Tensor, right: Tensor, first: Sequence[int], second: Sequence[int], *, stretches: bool) -> None:
    if len(first) != len(second):
        message = f"{len(first)} axes of {left.shape} are paired with {len(second)} of {right.shape}"
        raise Mismatch(MATMUL_MISMATCH, message, tensors=(left, right))
    for a, b in zip(first, second, strict=True):
        sizes = (left.shape.dims[a], right.shape.dims[b])
        if same(*sizes) is False and not (stretches and 1 in sizes):
            message = f"a product of {left.shape} and {right.shape} over axis {a} and axis {b}: {sizes[0]} elements meet {sizes[1]}"
            raise Mismatch(MATMUL_MISMATCH, message, tensors=(left, right))


def _check_products(left: Tensor, right: Tensor, first: Sequence[int], second: Sequence[int]) -> None:
    totals = [product(tensor.shape.dims[axis] for axis in axes) for tensor, axes in ((left, first), (right, second))]
    if same(*totals) is False:
        message = (
            f"a product of {left.shape} and {right.shape} over axes {list(first)} and {list(second)}: "
            f"{totals[0]} elements meet {totals[1]}"
        )
        raise Mismatch(MATMUL_MISMATCH, message, tensors=(left, right))


@shape_rule("torch.tensordot")
def torch_tensordot(call: Call, a: Tensor, b: Tensor, dims: Value = 2, out: Value = None) -> Tensor:
    """`torch.tensordot`: axes of size 1 meet any other."""
    return contracted(call, a, b, dims, stretches=True)


@shape_rule("numpy.tensordot", "jax.numpy.tensordot", "numpy.linalg.tensordot", "jax.numpy.linalg.tensordot")
def tensordot(call: Call, a: Tensor, b: Tensor, axes: Value = 2, **options: Value) -> Tensor:
    """`np.tensordot`."""
    return contracted(call, a, b, axes)


@shape_rule("keras.ops.tensordot")
def keras_tensordot(call: Call, x1: Tensor, x2: Tensor, axes: Value = 2) -> Tensor:
    """`keras.ops.tensordot`."""
    return contracted(call, x1, x2, axes)


@shape_rule("tf.tensordot", "tf.linalg.tensordot")
def tf_tensordot(call: Call, a: Tensor, b: Tensor, axes: Value, name: Value = None) -> Tensor:
    """`tf.tensordot`."""
    return contracted(call, a, b, axes)


@shape_rule("jax.lax.dot_general")
def lax_dot_general(
    call: Call,
    lhs: Tensor,
    rhs: Tensor,
    dimension_numbers: Value,
    precision: Value = None,
    preferred_element_type: Value = None,
    **options: Value,
) -> Tensor:
    """`((contracted, contracted), (batch, batch))`: batch axes come first."""
    parts = dimension_numbers.items if isinstance(dimension_numbers, ListValue) else dimension_numbers
    if lhs.shape.rank is None or rhs.shape.rank is None or not isinstance(parts, tuple) or len(parts) != 2:
        raise NotKnown
    rows = [part.items if isinstance(part, ListValue) else part for part in parts]
    pairs = [row for row in rows if isinstance(row, tuple) and len(row) == 2]
    if len(pairs) != 2:
        raise NotKnown
    summed = [_positions(tensor, _numbers(axes)) for tensor, axes in zip((lhs, rhs), pairs[0], strict=True)]
    kept = [_positions(tensor, _numbers(axes)) for tensor, axes in zip((lhs, rhs), pairs[1], strict=True)]
    for chosen in (summed, kept):
        _check(lhs, rhs, chosen[0], chosen[1], stretches=False)
    batch = tuple(lhs.shape.dims[axis] for axis in kept[0])
    rest = [_others(tensor, (*s, *k)) for tensor, s, k in zip((lhs, rhs), summed, kept, strict=True)]
    return lhs.with_shape(Shape((*batch, *rest[0], *rest[1])), dtype=wider(lhs.dtype, rhs.dtype))
