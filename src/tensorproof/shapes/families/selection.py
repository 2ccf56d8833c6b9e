"""Choices by a condition: `where` of two operands, and the positions where a condition holds."""

from __future__ import annotations

from tensorproof.shapes.families.broadcasting import broadcast, framework_of_result, wider
from tensorproof.shapes.families.names import spelled
from tensorproof.shapes.rule_table import Call, as_tensor, shape_rule
from tensorproof.shapes.shape import Shape
from tensorproof.shapes.sizes import unknown
from tensorproof.shapes.values import UNKNOWN, ListValue, Tensor, Value


def chosen(call: Call, condition: Tensor, first: Value, second: Value) -> Tensor:
    """One of two operands, element by element: all three are broadcast."""
    left, right = as_tensor(first, call.framework), as_tensor(second, call.framework)
    result = broadcast(call, broadcast(call, condition, left), right)
    return result.with_shape(result.shape, dtype=wider(left.dtype, right.dtype), new_axes=result.new_axes)


def positions_per_axis(call: Call, condition: Tensor) -> Value:
    """One vector of positions per axis; how long they are depends on values."""
    rank = condition.shape.rank
    if rank is None:
        return UNKNOWN
    if rank == 0 and call.framework == "torch":
        rank = 1
    vector = condition.with_shape(Shape((unknown(0),)), dtype="i64", framework=framework_of_result(call, condition))
    return tuple(vector for _ in range(rank))


def rows_of_positions(call: Call, condition: Tensor) -> Tensor:
    """A row of positions per element; how many rows depends on values."""
    rank = condition.shape.rank
    columns = unknown(0) if rank is None else rank
    return condition.with_shape(Shape((unknown(0), columns)), dtype="i64", framework=framework_of_result(call, condition))


@shape_rule("torch.where")
def torch_where(call: Call, condition: Tensor, input: Value = None, other: Value = None, *, out: Value = None) -> Value:
    """A choice, or (with the condition only) positions."""
    return positions_per_axis(call, condition) if input is None else chosen(call, condition, input, other)


@shape_rule("torch.Tensor.where")
def torch_where_method(call: Call, input: Tensor, condition: Tensor, other: Value) -> Tensor:
    """The receiver where the condition holds."""
    return chosen(call, condition, input, other)


@shape_rule("numpy.where", "jax.numpy.where", "keras.ops.where")
def numpy_where(call: Call, condition: Tensor, x: Value = None, y: Value = None, **options: Value) -> Value:
    """A choice, or (with the condition only) positions."""
    return positions_per_axis(call, condition) if x is None else chosen(call, condition, x, y)


@shape_rule("tf.where")
def tf_where(call: Call, condition: Tensor, x: Value = None, y: Value = None, name: Value = None) -> Value:
    """A choice, or rows of positions. TensorFlow 1 takes a vector of conditions for the rows of two tensors of one shape."""
    if x is None:
        return rows_of_positions(call, condition)
    if call.is_tf1:
        left, right = as_tensor(x, "tf"), as_tensor(y, "tf")
        return (left if left.shape.rank else right).with_shape(broadcast(call, left, right).shape)
    return chosen(call, condition, x, y)


@shape_rule("numpy.select", "jax.numpy.select", "keras.ops.select")
def numpy_select(call: Call, condlist: Value, choicelist: Value, default: Value = 0) -> Value:
    """The first of several choices whose condition holds."""
    operands: list[Value] = []
    for values in (condlist, choicelist):
        items = values.items if isinstance(values, ListValue) else values
        if not isinstance(items, tuple):
            return UNKNOWN
        operands += items
    result = as_tensor(default, call.framework)
    for operand in operands:
        result = broadcast(call, result, as_tensor(operand, call.framework))
    return result.with_shape(result.shape, dtype="")


@shape_rule(*spelled("torch torch.Tensor", "nonzero"))
def torch_nonzero(call: Call, input: Tensor, *, as_tuple: bool = False, out: Value = None) -> Value:
    """Rows of positions, or a vector per axis."""
    return positions_per_axis(call, input) if as_tuple else rows_of_positions(call, input)


@shape_rule(*spelled("torch torch.Tensor", "argwhere"), *spelled("numpy jax.numpy", "argwhere"))
def argwhere(call: Call, input: Tensor, **options: Value) -> Tensor:
    """Rows of positions."""
    return rows_of_positions(call, input)


@shape_rule(*spelled("numpy numpy.ndarray jax.numpy jax.Array", "nonzero"))
def numpy_nonzero(call: Call, a: Tensor, **options: Value) -> Value:
    """A vector of positions per axis."""
    return positions_per_axis(call, a)


@shape_rule("numpy.flatnonzero", "jax.numpy.flatnonzero")
def numpy_flatnonzero(call: Call, a: Tensor, **options: Value) -> Tensor:
    """Positions in the flattened array."""
    return a.with_shape(Shape((unknown(0),)), dtype="i64", framework=framework_of_result(call, a))
