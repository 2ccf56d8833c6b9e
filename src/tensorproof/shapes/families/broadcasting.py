"""Element by element: operators and functions whose operands are stretched to a common shape.

NumPy's rule, which all libraries follow: shapes are aligned at the end, sizes are equal or one of them is 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorproof.rules.shapes.not_broadcastable import NOT_BROADCASTABLE
from tensorproof.rules.shapes.outer_broadcast import OUTER_BROADCAST
from tensorproof.shapes.families.names import is_in_place, short_name, spelled, words
from tensorproof.shapes.families.partial_batches import assumes_full_batch, warn_of_partial_batch
from tensorproof.shapes.rule_table import Call, Mismatch, as_tensor, shape_rule
from tensorproof.shapes.shape import Shape
from tensorproof.shapes.sizes import Polynomial, Size, bounds, is_unknown, same, unknown
from tensorproof.shapes.values import Framework, Tensor, Unknown, Value

#: From the narrowest to the widest; the result of mixed types is the wider one.
_WIDTHS = ("bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "c64", "c128")
#: What becomes of integers where a function or a division yields floats.
FLOAT_OF: dict[Framework, str] = {"torch": "f32", "numpy": "f64", "tf": "f32", "keras": "f32", "jax": "f32"}


# -- shapes -----------------------------------------------------------------------------------------------------------


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
    if assumes_full_batch(left, right):
        # What is warned of is not to be met again: the batch as it is.
        return left if isinstance(left, Polynomial) else right
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
    if right.rank == 0 or left.rank == 0:
        return left if right.rank == 0 else right
    return Shape((), tuple(tail))


def _contradiction(left: Shape, right: Shape) -> str:
    ends = [shape.head if shape.tail is None else shape.tail for shape in (left, right)]
    for axis in range(1, min(map(len, ends)) + 1):
        if stretched(ends[0][-axis], ends[1][-axis]) is None:
            return f"sizes {ends[0][-axis]} and {ends[1][-axis]} at axis {-axis}"
    return "their sizes contradict"


# -- results ----------------------------------------------------------------------------------------------------------


def wider(left: str, right: str) -> str:
    """The number type of a result; empty where it is not known."""
    if not left or not right:
        return left or right if left in _WIDTHS[6:] or right in _WIDTHS[6:] else ""
    return max(left, right, key=_WIDTHS.index) if left in _WIDTHS and right in _WIDTHS else ""


def framework_of_result(call: Call, *operands: Tensor) -> Framework:
    """NumPy's functions leave PyTorch's tensors what they are; its operators yield to those of the other operand."""
    if call.framework != "numpy":
        return call.framework
    yields = call.name.startswith("numpy.__")
    for operand in operands:
        if operand.framework == "torch" or (yields and operand.framework != "numpy"):
            return operand.framework
    return "numpy"


def broadcast(call: Call, left: Tensor, right: Tensor) -> Tensor:
    """The result of an operation element by element, with the warning for a broadcast that is hardly meant."""
    shape = broadcast_dims(left.shape, right.shape)
    if shape is None:
        raise Mismatch(
            NOT_BROADCASTABLE,
            f"shapes {left.shape} and {right.shape} cannot be broadcast together: {_contradiction(left.shape, right.shape)}",
            tensors=(left, right),
        )
    if is_in_place(call.name):
        check_in_place(left, right, shape)
    warn_of_outer(call, left, right)
    if warn_of_partial_batch(call, left, right):
        # What was said once is not said again of the result: it has as many rows as the batch.
        shape = Shape(tuple(b if isinstance(a, int) and not isinstance(b, int) and a != 1 else a if b == 1 else b if a == 1 else a
                            for a, b in zip(left.shape.dims, right.shape.dims, strict=True)))  # fmt: skip
    main = left if left.shape.rank != 0 or right.shape.rank == 0 else right
    return main.with_shape(
        shape,
        dtype=_dtype(left, right),
        framework=framework_of_result(call, left, right),
        # The result follows the memory of either operand.
        contiguous=True if left.contiguous and right.contiguous else None,
        new_axes=_aligned_new_axes(left, shape) | _aligned_new_axes(right, shape),
    )


def check_in_place(left: Tensor, right: Tensor, result: Shape) -> None:
    """An operation in place cannot grow its receiver."""
    if left.shape.rank is None or result.rank is None:
        return
    if result.rank > left.shape.rank or any(same(a, b) is False for a, b in zip(left.shape.dims, result.dims, strict=True)):
        message = f"the result {result} does not fit in place into {left.shape}"
        raise Mismatch(NOT_BROADCASTABLE, message, result=left, tensors=(left, right))


def _dtype(left: Tensor, right: Tensor) -> str:
    """Numbers of the program take the type of the tensor that they meet."""
    for tensor, number in ((left, right), (right, left)):
        if not number.dtype and number.shape.rank == 0 and number.content is not None:
            return tensor.dtype
    return wider(left.dtype, right.dtype)


def _aligned_new_axes(tensor: Tensor, result: Shape) -> frozenset[int]:
    """The written-out axes of an operand that still have size 1 in the result, counted in the result."""
    if not tensor.new_axes or tensor.shape.rank is None or result.rank is None:
        return frozenset()
    shift = result.rank - tensor.shape.rank
    return frozenset(axis + shift for axis in tensor.new_axes if result.dims[axis + shift] == 1)


def warn_of_outer(call: Call, left: Tensor, right: Tensor) -> None:
    """(n, 1) with (n,): ranks differ, both expand, and both gain the same size. Written-out axes are meant."""
    tall, flat = (left, right) if (left.shape.rank or 0) > (right.shape.rank or 0) else (right, left)
    if flat.shape.rank != 1 or tall.shape.rank != 2 or 1 in tall.new_axes:
        return
    rows, column = tall.shape.dims
    (size,) = flat.shape.dims
    if column == 1 and size != 1 and same(rows, size) and not is_unknown(size) and bounds(size)[1] > 1:
        result = broadcast_dims(left.shape, right.shape)
        call.warn(
            OUTER_BROADCAST,
            f"{left.shape} with {right.shape} is stretched to {result}: every row meets every element; "
            f"for {size} pairs write squeeze(1) or reshape one of them",
            tensors=(left, right),
        )


def all_broadcast(call: Call, tensors: Sequence[Tensor]) -> Shape:
    """The common shape of several operands."""
    result = tensors[0]
    for tensor in tensors[1:]:
        result = broadcast(call, result, tensor)
    return result.shape


def as_bools(tensor: Tensor) -> Tensor:
    """The same, as the result of a comparison."""
    return tensor.with_shape(tensor.shape, dtype="bool", new_axes=tensor.new_axes)


# -- operators --------------------------------------------------------------------------------------------------------

LIBRARIES = "torch numpy tf keras jax"
_OPERATORS = "add sub mul truediv floordiv mod pow and or xor"


@shape_rule(
    *(f"{library}.__{name}__" for library in LIBRARIES.split() for name in _OPERATORS.split()),
    *(f"{library}.__{name}__" for library in ("torch", "numpy", "jax") for name in ("lshift", "rshift")),
)
def operator(call: Call, left: Tensor, right: Tensor) -> Tensor:
    """`a + b` and its kind."""
    return _with_content(call, broadcast(call, left, right), left, right)


@shape_rule(*(f"{library}.__i{name}__" for library in ("torch", "numpy") for name in f"{_OPERATORS} lshift rshift".split()))
def operator_in_place(call: Call, left: Value, right: Tensor) -> Tensor:
    """`a += b`: a tensor of PyTorch and an array of NumPy keep their shape.

    NumPy's numbers (what a full reduction returns) are no arrays: they are bound anew, too.
    """
    operand = as_tensor(left, call.framework)
    result = broadcast(call, operand, right)
    if isinstance(left, Tensor) and (left.framework == "torch" or (left.framework == "numpy" and left.shape.rank != 0)):
        check_in_place(left, right, result.shape)
    return _with_content(call, result, operand, right)


def _with_content(call: Call, result: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Integers whose values are known stay known: sizes are computed with `tf.shape(x)[0] * 2`."""
    name = call.name.rpartition(".")[2].strip("_")
    dtype = result.dtype
    if name in ("truediv", "itruediv") and dtype and dtype in _WIDTHS[:6]:
        dtype = FLOAT_OF[result.framework]
    content = _combined(name.removeprefix("i"), left.content, right.content)
    return result if content is None and dtype == result.dtype else result.with_shape(
        result.shape, dtype=dtype, new_axes=result.new_axes, content=content
    )  # fmt: skip


def _combined(name: str, left: Value, right: Value) -> Value:
    if isinstance(left, tuple) and isinstance(right, tuple):
        parts = [_combined(name, a, b) for a, b in zip(left, right, strict=False)]
        return tuple(parts) if len(left) == len(right) and None not in parts else None
    if isinstance(left, tuple) or isinstance(right, tuple):
        pairs = (
            [(a, right) for a in left]
            if isinstance(left, tuple)
            else [(left, b) for b in right]
            if isinstance(right, tuple)
            else []
        )
        parts = [_combined(name, a, b) for a, b in pairs]
        return None if None in parts else tuple(parts)
    if not isinstance(left, int | Polynomial) or not isinstance(right, int | Polynomial):
        return None
    if name in ("floordiv", "mod") and bounds(right)[0] <= 0:
        return None
    operations = {"add": lambda: left + right, "sub": lambda: left - right, "mul": lambda: left * right,
                  "floordiv": lambda: left // right, "mod": lambda: left % right}  # fmt: skip
    return operations[name]() if name in operations else None


@shape_rule(*(f"{library}.__compare__" for library in LIBRARIES.split()))
def comparison(call: Call, left: Tensor, right: Tensor) -> Tensor:
    """`a < b`: bools."""
    return as_bools(broadcast(call, left, right))


@shape_rule(*(f"{library}.__equal__" for library in LIBRARIES.split()))
def equality(call: Call, left: Tensor, right: Tensor) -> Value:
    """`a == b`, `a != b`: bools. TensorFlow answers one bool where the shapes do not fit."""
    if call.framework in ("tf", "keras") and broadcast_dims(left.shape, right.shape) is None:
        return Unknown("tensors of other shapes are not equal")
    return as_bools(broadcast(call, left, right))


# -- functions of two operands ----------------------------------------------------------------------------------------

_TORCH_COMPARISONS = "eq ne lt le gt ge not_equal less less_equal greater greater_equal logical_and logical_or logical_xor isclose"
_TORCH_ARITHMETIC = (
    "add sub subtract mul multiply div divide true_divide floor_divide pow remainder fmod maximum minimum fmax fmin atan2 "
    "arctan2 hypot logaddexp logaddexp2 xlogy bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift "
    "copysign nextafter heaviside gcd lcm float_power"
)


@shape_rule(*spelled("torch torch.Tensor", f"{_TORCH_ARITHMETIC} {_TORCH_COMPARISONS}"))
def torch_binary(call: Call, input: Tensor, other: Tensor, *options: Value, **keywords: Value) -> Tensor:
    """Functions of two tensors."""
    result = broadcast(call, input, other)
    return as_bools(result) if short_name(call.name) in _TORCH_COMPARISONS.split() else result


@shape_rule("torch.rsub")
def torch_rsub(call: Call, input: Tensor, other: Tensor, *, alpha: Value = 1) -> Tensor:
    """`other - input`."""
    return broadcast(call, other, input)


_COMPARISONS = words("equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor isclose")
_NUMPY_BINARY = (
    "add subtract multiply divide true_divide floor_divide power float_power mod remainder fmod maximum minimum fmax fmin "
    "arctan2 hypot logaddexp logaddexp2 copysign nextafter heaviside gcd lcm bitwise_and bitwise_or bitwise_xor left_shift "
    "right_shift equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor isclose"
)
_KERAS_BINARY = (
    "add subtract multiply divide true_divide floor_divide power mod maximum minimum arctan2 logaddexp bitwise_and "
    "bitwise_or bitwise_xor equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor "
    "isclose divide_no_nan"
)


@shape_rule(*spelled("numpy jax.numpy", _NUMPY_BINARY), *spelled("keras.ops", _KERAS_BINARY))
def numpy_binary(call: Call, x1: Tensor, x2: Tensor, *options: Value, **keywords: Value) -> Tensor:
    """NumPy's universal functions of two arrays, and what is modelled on them."""
    result = broadcast(call, x1, x2)
    return as_bools(result) if short_name(call.name) in _COMPARISONS else result


_TF_BINARY = (
    "add subtract multiply divide pow maximum minimum equal not_equal less less_equal greater greater_equal logical_and logical_or"
)


@shape_rule(
    *spelled("tf tf.math", _TF_BINARY),
    *spelled(
        "tf.math", "atan2 divide_no_nan floordiv floormod logical_xor mod multiply_no_nan squared_difference truediv xdivy xlogy"
    ),
    *spelled("tf", "atan2 squared_difference truediv"),
    *spelled("tf", "mod floordiv floor_div div div_no_nan logical_xor realdiv"),
)
def tf_binary(call: Call, x: Tensor, y: Tensor, name: Value = None) -> Tensor:
    """TensorFlow's functions of two tensors."""
    result = broadcast(call, x, y)
    return as_bools(result) if short_name(call.name) in _COMPARISONS else result


# -- functions of three operands --------------------------------------------------------------------------------------


@shape_rule(*spelled("torch torch.Tensor", "addcmul addcdiv"))
def torch_addcmul(call: Call, input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Value = 1, out: Value = None) -> Tensor:
    """`input + value * tensor1 * tensor2`."""
    return broadcast(call, input, broadcast(call, tensor1, tensor2))


@shape_rule(*spelled("torch torch.Tensor", "lerp"))
def torch_lerp(call: Call, input: Tensor, end: Tensor, weight: Tensor, *, out: Value = None) -> Tensor:
    """Between `input` and `end`."""
    return broadcast(call, broadcast(call, input, end), weight)


@shape_rule(*spelled("torch torch.Tensor", "clamp clip"))
def torch_clamp(call: Call, input: Tensor, min: Value = None, max: Value = None, *, out: Value = None) -> Tensor:
    """Limits are numbers or tensors."""
    return limited(call, input, min, max)


@shape_rule("numpy.clip", "numpy.ndarray.clip")
def numpy_clip(call: Call, a: Tensor, a_min: Value = None, a_max: Value = None, *options: Value, **keywords: Value) -> Tensor:
    """NumPy's limits, under both their names."""
    return limited(call, a, keywords.get("min", a_min), keywords.get("max", a_max))


@shape_rule("jax.numpy.clip", "jax.Array.clip")
def jax_clip(call: Call, arr: Tensor, min: Value = None, max: Value = None, **keywords: Value) -> Tensor:
    """The limits of JAX, under both their names."""
    return limited(call, arr, keywords.get("a_min", min), keywords.get("a_max", max))


@shape_rule("keras.ops.clip")
def keras_clip(call: Call, x: Tensor, x_min: Value, x_max: Value) -> Tensor:
    """Limits of Keras."""
    return limited(call, x, x_min, x_max)


@shape_rule("tf.clip_by_value")
def tf_clip(call: Call, t: Tensor, clip_value_min: Value, clip_value_max: Value, name: Value = None) -> Tensor:
    """TensorFlow's limits may be stretched, but do not stretch the tensor."""
    result = limited(call, t, clip_value_min, clip_value_max)
    check_in_place(t, result, result.shape)
    return result


def limited(call: Call, tensor: Tensor, low: Value, high: Value) -> Tensor:
    """The tensor within limits. A limit that is not known is taken for a number: it stretches nothing."""
    result = tensor.with_shape(tensor.shape, new_axes=tensor.new_axes, framework=framework_of_result(call, tensor))
    for limit in (low, high):
        if limit is not None and not isinstance(limit, Unknown):
            result = broadcast(call, result, as_tensor(limit, call.framework))
    return result
