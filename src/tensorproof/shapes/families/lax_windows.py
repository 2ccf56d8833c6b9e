"""Convolutions and windows of `jax.lax`, and sums over segments."""

from __future__ import annotations

from collections.abc import Sequence

from tensorproof.rules.shapes.convolution_channels import CONVOLUTION_CHANNELS
from tensorproof.rules.shapes.wrong_rank import WRONG_RANK
from tensorproof.shapes.families.broadcasting import wider
from tensorproof.shapes.families.names import spelled
from tensorproof.shapes.rule_table import Call, Mismatch, NotKnown, as_sizes, native_class, shape_rule
from tensorproof.shapes.shape import Shape
from tensorproof.shapes.sizes import Size, bounds, largest, same, unknown
from tensorproof.shapes.values import ListValue, Tensor, Value, as_size

Arguments = tuple[Value, ...]
Options = dict[str, Value]


def _per_axis(value: Value, count: int) -> tuple[Size, ...]:
    """One number for each axis, 1 if nothing is given."""
    if value is None:
        return (1,) * count
    sizes = as_sizes(value)
    if len(sizes) != count:
        raise NotKnown
    return sizes


def _pairs(padding: Value, count: int) -> Sequence[tuple[Size, Size]] | None:
    """Padding before and behind each axis; None for SAME."""
    if isinstance(padding, str):
        if padding.upper() == "VALID":
            return [(0, 0) for _ in range(count)]
        if padding.upper() == "SAME":
            return None
        raise NotKnown
    rows = padding.items if isinstance(padding, ListValue) else padding
    if not isinstance(rows, tuple) or len(rows) != count:
        raise NotKnown
    pairs = [as_sizes(row) for row in rows]
    if any(len(pair) != 2 for pair in pairs):
        raise NotKnown
    return [(pair[0], pair[1]) for pair in pairs]


def _slid(
    sizes: Sequence[Size],
    windows: Sequence[Size],
    strides: Sequence[Size],
    padding: Value,
    inner: Sequence[Size],
    outer: Sequence[Size],
) -> tuple[Size, ...]:
    """How many positions a window has on each axis; none are left where it does not fit."""
    pairs = _pairs(padding, len(sizes))
    found: list[Size] = []
    for axis, size in enumerate(sizes):
        spread = outer[axis] * (size - 1) + 1
        if pairs is None:
            found.append((spread + strides[axis] - 1) // strides[axis])
            continue
        window = inner[axis] * (windows[axis] - 1) + 1
        count = (spread + pairs[axis][0] + pairs[axis][1] - window) // strides[axis] + 1
        found.append(count if bounds(count)[0] >= 0 else largest([count, 0]))
    return tuple(found)


def _layout(numbers: Value, rank: int) -> tuple[str, str, str]:
    """The letters of input, kernel and output; by default batch and channels come first."""
    if numbers is None:
        spatial = "0123456789"[: rank - 2]
        return f"NC{spatial}", f"OI{spatial}", f"NC{spatial}"
    parts = numbers.items if isinstance(numbers, ListValue) else numbers
    letters = [part for part in parts if isinstance(part, str)] if isinstance(parts, tuple) else []
    if len(letters) != 3 or any(len(part) != rank for part in letters):
        raise NotKnown
    return letters[0], letters[1], letters[2]


def _convolved(
    lhs: Tensor,
    rhs: Tensor,
    strides: Value,
    padding: Value,
    outer: Value,
    inner: Value,
    numbers: Value,
    groups: Value,
    batches: Value,
) -> Tensor:
    rank = lhs.shape.rank
    if rank is None or rhs.shape.rank is None:
        raise NotKnown
    if rank != rhs.shape.rank or rank < 2:
        message = f"a convolution of {lhs.shape} with a kernel {rhs.shape}: both need the same number of axes"
        raise Mismatch(WRONG_RANK, message, tensors=(lhs, rhs))
    image, kernel, output = _layout(numbers, rank)
    spatial = [letter for letter in image if letter not in "NC"]
    if sorted(spatial) != sorted(letter for letter in kernel if letter not in "OI"):
        raise NotKnown
    given = dict(zip(image, lhs.shape.dims, strict=True))
    weights = dict(zip(kernel, rhs.shape.dims, strict=True))
    count = as_size(groups)
    if count is None or batches != 1:
        raise NotKnown
    axes = [axis for axis in output if axis not in "NC"]
    order = [spatial.index(axis) for axis in axes]
    steps, holes, gaps = ([row[place] for place in order] for row in (_per_axis(v, rank - 2) for v in (strides, outer, inner)))
    pads = padding
    if not isinstance(padding, str) and order != sorted(order):
        raise NotKnown
    sizes = _slid([given[axis] for axis in axes], [weights[axis] for axis in axes], steps, pads, gaps, holes)
    made = dict(zip(axes, sizes, strict=True)) | {"N": given["N"], "C": weights["O"]}
    result = lhs.with_shape(Shape(tuple(made[axis] for axis in output)), dtype=wider(lhs.dtype, rhs.dtype))
    if same(given["C"], weights["I"] * count) is False:
        message = (
            f"the kernel {rhs.shape} ({kernel}) takes {weights['I'] * count} channels, "
            f"but the input {lhs.shape} ({image}) has {given['C']}"
        )
        raise Mismatch(CONVOLUTION_CHANNELS, message, result=result, tensors=(lhs, rhs))
    if isinstance(weights["O"], int) and isinstance(count, int) and weights["O"] % count:
        message = f"{weights['O']} filters of the kernel {rhs.shape} cannot be divided into {count} groups"
        raise Mismatch(CONVOLUTION_CHANNELS, message, result=result, tensors=(rhs,))
    return result


@shape_rule("jax.lax.conv_general_dilated")
def conv_general_dilated(
    lhs: Tensor,
    rhs: Tensor,
    window_strides: Value,
    padding: Value,
    lhs_dilation: Value = None,
    rhs_dilation: Value = None,
    dimension_numbers: Value = None,
    feature_group_count: Value = 1,
    batch_group_count: Value = 1,
    precision: Value = None,
    preferred_element_type: Value = None,
    out_sharding: Value = None,
) -> Tensor:
    """A convolution with all its options."""
    return _convolved(
        lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, feature_group_count, batch_group_count
    )


@shape_rule("jax.lax.conv")
def lax_conv(
    lhs: Tensor, rhs: Tensor, window_strides: Value, padding: Value, precision: Value = None, preferred_element_type: Value = None
) -> Tensor:
    """The same with channels first."""
    return _convolved(lhs, rhs, window_strides, padding, None, None, None, 1, 1)


@shape_rule("jax.lax.conv_dimension_numbers")
def conv_dimension_numbers(lhs_shape: Value, rhs_shape: Value, dimension_numbers: Value) -> Value:
    """The letters themselves."""
    return dimension_numbers


@shape_rule("jax.lax.reduce_window")
def reduce_window(
    operand: Tensor,
    init_value: Value,
    computation: Value,
    window_dimensions: Value,
    window_strides: Value,
    padding: Value,
    base_dilation: Value = None,
    window_dilation: Value = None,
    out_sharding: Value = None,
) -> Tensor:
    """One number per window, over all axes."""
    rank = operand.shape.rank
    if rank is None:
        raise NotKnown
    if len(as_sizes(window_dimensions)) != rank or len(as_sizes(window_strides)) != rank:
        message = f"a window of {len(as_sizes(window_dimensions))} axes over {operand.shape}, which has {rank}"
        raise Mismatch(WRONG_RANK, message, tensors=(operand,))
    rows = [_per_axis(value, rank) for value in (window_dimensions, window_strides, window_dilation, base_dilation)]
    return operand.with_shape(Shape(_slid(operand.shape.dims, rows[0], rows[1], padding, rows[2], rows[3])))


@shape_rule(*spelled("jax.ops", "segment_sum segment_max segment_min segment_prod"))
def segment_sum(data: Tensor, segment_ids: Tensor, num_segments: Value = None, *arguments: Value, **options: Value) -> Tensor:
    """Rows summed up by the number of their segment."""
    count = as_size(num_segments)
    rank = segment_ids.shape.rank
    if rank is None or data.shape.rank is None or data.shape.rank < rank:
        raise NotKnown
    return data.with_shape(Shape((unknown(0) if count is None else count, *data.shape.dims[rank:])))


@native_class(
    *spelled("jax.nn.initializers", "glorot_normal glorot_uniform he_normal he_uniform lecun_normal lecun_uniform normal uniform "
             "orthogonal truncated_normal variance_scaling xavier_normal xavier_uniform kaiming_normal kaiming_uniform constant")
)  # fmt: skip
class Initializer:
    """What fills weights: a function of a key and sizes."""

    arguments: Arguments
    options: Options

    def __call__(self, call: Call, key: Value, shape: Value, dtype: Value = None) -> Value:
        return Tensor(Shape(as_sizes(shape)), "f32", "jax")


@shape_rule("jax.nn.initializers.zeros", "jax.nn.initializers.ones")
def constant_initializer(key: Value, shape: Value, dtype: Value = None) -> Tensor:
    """Weights that are all the same."""
    return Tensor(Shape(as_sizes(shape)), "f32", "jax")
