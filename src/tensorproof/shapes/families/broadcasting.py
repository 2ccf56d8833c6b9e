"""Element by element: operators and functions whose operands are stretched to a common shape.

NumPy's rule, which all libraries follow: shapes are aligned at the end, sizes are equal or one of them is 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorproof.rules.shapes.not_broadcastable import NOT_BROADCASTABLE
from tensorproof.rules.shapes.outer_broadcast import OUTER_BROADCAST
from tensorproof.shapes.rule_table import Call, Mismatch, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, Shape
from tensorproof.shapes.sizes import Size, bounds, is_unknown, same, unknown
from tensorproof.shapes.values import Tensor, Value

#: From the narrowest to the widest; the result of mixed types is the wider one.
_WIDTHS = ("bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "c64", "c128")


def broadcast_dims(left: Shape, right: Shape) -> Shape | None:
    """The common shape; None if some axes can never be stretched to each other."""
    if left.tail is not None or right.tail is not None:
        return _broadcast_open(left, right)
    rank = max(len(left.head), len(right.head))
    sizes: list[Size] = []
    for axis in range(-rank, 0):
        a = left.head[axis] if -axis <= len(left.head) else 1
        b = right.head[axis] if -axis <= len(right.head) else 1
        size = stretched(a, b)
        if size is None:
            return None
        sizes.append(size)
    return Shape(tuple(sizes))


def stretched(left: Size, right: Size) -> Size | None:
    """The size of an axis of two operands; None if it is a contradiction."""
    if left == 1:
        return right
    if right == 1:
        return left
    equal = same(left, right)
    if equal:
        return left
    may_be_one = any(bounds(size)[0] <= 1 <= bounds(size)[1] for size in (left, right))
    if equal is False and not may_be_one:
        return None
    if may_be_one and not (isinstance(left, int) or isinstance(right, int)):
        # Either may be 1, or both the same: a symbol that is at least 1 on both sides.
        return left if is_unknown(right) and not is_unknown(left) else right if is_unknown(left) else unknown()
    # A known size above 1 wins: the other is the same or 1.
    return left if isinstance(left, int) else right if isinstance(right, int) else left


def _broadcast_open(left: Shape, right: Shape) -> Shape | None:
    """With an operand of unknown rank: what the last axes say."""
    ends = [shape.head if shape.tail is None else shape.tail for shape in (left, right)]
    shared = min(map(len, ends))
    tail: list[Size] = []
    for axis in range(-shared, 0):
        size = stretched(ends[0][axis], ends[1][axis])
        if size is None:
            return None
        tail.append(size)
    known, other = (0, 1) if left.tail is None else (1, 0)
    if (left.tail is None) != (right.tail is None) and len(ends[known]) > len(ends[other]):
        # The open operand may have any further axes; sizes above 1 of the known one stay.
        front = [size if isinstance(size, int) and size > 1 else unknown() for size in ends[known][: len(ends[known]) - shared]]
        return Shape((), (*front, *tail))
    return Shape((), tuple(tail))


def wider(left: str, right: str) -> str:
    """The number type of a result; empty where it is not known."""
    if not left or not right:
        return left or right if left in _WIDTHS[6:] or right in _WIDTHS[6:] else ""
    return max(left, right, key=_WIDTHS.index) if left in _WIDTHS and right in _WIDTHS else ""


def broadcast(call: Call, left: Tensor, right: Tensor) -> Tensor:
    """The result of an operation element by element, with the warning for a broadcast that is hardly meant."""
    shape = broadcast_dims(left.shape, right.shape)
    if shape is None:
        raise Mismatch(
            NOT_BROADCASTABLE,
            f"shapes {left.shape} and {right.shape} cannot be broadcast together: {_contradiction(left.shape, right.shape)}",
            tensors=(left, right),
        )
    warn_of_outer(call, left, right)
    main = left if left.shape.rank != 0 or right.shape.rank == 0 else right
    new_axes = left.new_axes | right.new_axes
    return main.with_shape(shape, dtype=wider(left.dtype, right.dtype), new_axes=new_axes, history=main.history)


def _contradiction(left: Shape, right: Shape) -> str:
    ends = [shape.head if shape.tail is None else shape.tail for shape in (left, right)]
    for axis in range(1, min(map(len, ends)) + 1):
        if stretched(ends[0][-axis], ends[1][-axis]) is None:
            return f"sizes {ends[0][-axis]} and {ends[1][-axis]} at axis {-axis}"
    return "their sizes contradict"


def warn_of_outer(call: Call, left: Tensor, right: Tensor) -> None:
    """(n, 1) with (n,): ranks differ, both expand, and both gain the same size. Written-out axes are meant."""
    a, b = left.shape, right.shape
    if a.rank is None or b.rank is None or a.rank == b.rank:
        return
    tall, flat = (left, right) if a.rank > b.rank else (right, left)
    if flat.shape.rank != 1 or tall.shape.rank != 2 or tall.new_axes:
        return
    rows, column = tall.shape.dims
    (size,) = flat.shape.dims
    if column == 1 and size != 1 and same(rows, size) and not is_unknown(size) and bounds(size)[1] > 1:
        result = broadcast_dims(a, b)
        call.warn(
            OUTER_BROADCAST,
            f"{left.shape} with {right.shape} is stretched to {result}: every row meets every element; "
            f"for {size} pairs write squeeze(1) or reshape one of them",
            tensors=(left, right),
        )


_OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift")


@shape_rule(*(f"{library}.__{name}__" for library in ("torch", "numpy", "tf", "keras", "jax") for name in _OPERATORS))
def operator(call: Call, left: Tensor, right: Tensor) -> Tensor:
    """`a + b` and its kind."""
    return broadcast(call, left, right)


@shape_rule(*(f"{library}.__i{name}__" for library in ("torch", "numpy", "tf", "keras", "jax") for name in _OPERATORS))
def operator_in_place(call: Call, left: Tensor, right: Tensor) -> Tensor:
    """`a += b`: the left operand keeps its shape in PyTorch and NumPy; elsewhere a new array is bound."""
    result = broadcast(call, left, right)
    keeps = call.framework in ("torch", "numpy") and left.shape.rank is not None
    if keeps and result.shape.rank is not None:
        grown = len(result.shape.dims) > len(left.shape.dims) or any(
            a == 1 and isinstance(b, int) and b > 1 for a, b in zip(left.shape.dims, result.shape.dims, strict=True)
        )
        if grown:
            message = f"the result {result.shape} does not fit in place into {left.shape}"
            raise Mismatch(NOT_BROADCASTABLE, message, result=left, tensors=(left, right))
    return result


@shape_rule(*(f"{library}.__compare__" for library in ("torch", "numpy", "tf", "keras", "jax")))
def comparison(call: Call, left: Tensor, right: Tensor) -> Tensor:
    """`a < b`, `a == b`: bools."""
    result = broadcast(call, left, right)
    return result.with_shape(result.shape, dtype="bool", new_axes=result.new_axes)


@shape_rule(
    *(f"torch.{prefix}{name}" for prefix in ("", "Tensor.") for name in (
        "add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "floor_divide", "pow", "remainder", "fmod",
        "maximum", "minimum", "fmax", "fmin", "atan2", "hypot", "logaddexp", "xlogy", "logical_and", "logical_or", "logical_xor",
        "bitwise_and", "bitwise_or", "bitwise_xor", "dist", "copysign",
    )),
)  # fmt: skip
def torch_binary(call: Call, input: Tensor, other: Tensor, *, alpha: Value = 1, rounding_mode: Value = None, out: Value = None) -> Tensor:
    """Functions of two tensors."""
    return broadcast(call, input, other)


def all_broadcast(call: Call, tensors: Sequence[Tensor]) -> Shape:
    """The common shape of several operands."""
    result = tensors[0]
    for tensor in tensors[1:]:
        result = broadcast(call, result, tensor)
    return result.shape if tensors else ANY_SHAPE
