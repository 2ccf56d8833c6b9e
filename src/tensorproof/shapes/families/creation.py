"""Arrays made from sizes: `zeros`, `full`, `arange`, and from values: `tensor`, `array`, `one_hot`."""

from __future__ import annotations

import math

from tensorproof.rules.shapes.not_broadcastable import NOT_BROADCASTABLE
from tensorproof.rules.shapes.reshape_count import RESHAPE_COUNT
from tensorproof.rules.shapes.wrong_rank import WRONG_RANK
from tensorproof.shapes.families.broadcasting import FLOAT_OF, broadcast_dims, framework_of_result
from tensorproof.shapes.families.names import short_name, spelled
from tensorproof.shapes.families.number_types import dtype_name, recast
from tensorproof.shapes.rule_table import Call, Mismatch, NotKnown, Sizes, as_sizes, as_tensor, shape_rule
from tensorproof.shapes.shape import Shape, same_shape
from tensorproof.shapes.sizes import Polynomial, Size, product, same, unknown
from tensorproof.shapes.values import UNKNOWN, ListValue, Tensor, Unknown, Value, as_size

#: Number types that constructors named after them make.
_TENSOR_TYPES = {"FloatTensor": "f32", "DoubleTensor": "f64", "HalfTensor": "f16", "LongTensor": "i64", "IntTensor": "i32",
                 "ByteTensor": "u8", "BoolTensor": "bool", "Tensor": "f32"}  # fmt: skip


def sizes_of(arguments: tuple[Value, ...]) -> Shape:
    """Sizes as PyTorch takes them: one by one, or all in one tuple."""
    if len(arguments) == 1 and as_size(arguments[0]) is None:
        return Shape(as_sizes(arguments[0]))
    return Shape(tuple(size for argument in arguments for size in as_sizes(argument)))


# -- from sizes -------------------------------------------------------------------------------------------------------


@shape_rule(*spelled("torch", "zeros ones empty"))
def torch_filled(*size: Value, dtype: Value = None, **options: Value) -> Tensor:
    """Filled with one number."""
    if not size and "size" in options:
        size = (options["size"],)
    return Tensor(sizes_of(size), dtype_name(dtype, "f32"), "torch")


@shape_rule("torch.full")
def torch_full(size: Sizes, fill_value: Value, *, dtype: Value = None, **options: Value) -> Tensor:
    """Filled with a given number."""
    return Tensor(Shape(size), dtype_name(dtype), "torch")


@shape_rule(*spelled("torch.Tensor", "new_zeros new_ones new_empty"))
def torch_new_filled(input: Tensor, *size: Value, dtype: Value = None, **options: Value) -> Tensor:
    """Like another tensor, but of other sizes."""
    if not size and "size" in options:
        size = (options["size"],)
    return Tensor(sizes_of(size), dtype_name(dtype, input.dtype), "torch")


@shape_rule("torch.Tensor.new_full")
def torch_new_full(input: Tensor, size: Sizes, fill_value: Value, dtype: Value = None, **options: Value) -> Tensor:
    """Like another tensor, but of other sizes, filled with a given number."""
    return Tensor(Shape(size), dtype_name(dtype, input.dtype), "torch")


@shape_rule(*spelled("torch", "zeros_like ones_like empty_like rand_like randn_like full_like randint_like"))
def torch_like(input: Tensor, *options: Value, dtype: Value = None, **keywords: Value) -> Tensor:
    """Of the shape of another tensor."""
    return input.with_shape(input.shape, dtype=dtype_name(dtype, input.dtype))


@shape_rule(*spelled("numpy jax.numpy", "zeros ones empty"))
def numpy_filled(call: Call, shape: Sizes, dtype: Value = None, *options: Value, **keywords: Value) -> Tensor:
    """Filled with one number."""
    return Tensor(Shape(shape), dtype_name(dtype, FLOAT_OF[call.framework]), call.framework)


@shape_rule(*spelled("keras.ops", "zeros ones empty"), *spelled("tf", "zeros ones"))
def keras_filled(call: Call, shape: Sizes, dtype: Value = None, name: Value = None) -> Tensor:
    """Filled with one number."""
    return Tensor(Shape(shape), dtype_name(dtype, "f32"), call.framework)


@shape_rule(*spelled("numpy jax.numpy keras.ops", "full"))
def numpy_full(call: Call, shape: Sizes, fill_value: Tensor, dtype: Value = None, *options: Value, **keywords: Value) -> Tensor:
    """Filled with a number, or with an array that is stretched."""
    result = Tensor(Shape(shape), dtype_name(dtype, fill_value.dtype), call.framework)
    check_stretchable(fill_value, result.shape, drops_ones=call.framework == "numpy")
    return result


def check_stretchable(tensor: Tensor, target: Shape, *, drops_ones: bool = False) -> None:
    """An array can be stretched to a shape, which does not grow itself. Some functions drop leading axes of size 1."""
    shape = tensor.shape
    while drops_ones and shape.rank is not None and shape.rank > len(target.dims) and shape.dims[0] == 1:
        shape = Shape(shape.dims[1:])
    common = broadcast_dims(shape, target)
    if common is None or (shape.rank is not None and shape.rank > len(target.dims)) or same_shape(common, target) is False:
        message = f"{tensor.shape} cannot be stretched to {target}"
        raise Mismatch(NOT_BROADCASTABLE, message, result=Tensor(target, tensor.dtype, tensor.framework), tensors=(tensor,))


@shape_rule("tf.fill")
def tf_fill(dims: Sizes, value: Tensor, name: Value = None) -> Tensor:
    """Filled with a number."""
    # A vector of one element counts as a number.
    is_number = value.shape.rank in (0, None) or (value.shape.rank == 1 and same(value.shape[0], 1) is not False)
    if not is_number:
        raise Mismatch(WRONG_RANK, f"fill takes a number, not {value.shape}", tensors=(value,))
    return Tensor(Shape(dims), value.dtype, "tf")


@shape_rule(*spelled("numpy jax.numpy keras.ops tf", "zeros_like ones_like"), *spelled("numpy jax.numpy", "empty_like"))
def numpy_like(call: Call, a: Tensor, dtype: Value = None, *options: Value, shape: Value = None, **keywords: Value) -> Tensor:
    """Of the shape of another array, unless one is given."""
    sizes = a.shape if shape is None else Shape(as_sizes(shape))
    return a.with_shape(sizes, dtype=dtype_name(dtype, a.dtype), framework=framework_of_result(call, a))


@shape_rule(*spelled("numpy jax.numpy keras.ops", "full_like"))
def numpy_full_like(
    call: Call, a: Tensor, fill_value: Tensor, dtype: Value = None, *options: Value, shape: Value = None, **keywords: Value
) -> Tensor:
    """Of the shape of another array, filled with a number or an array that is stretched."""
    sizes = a.shape if shape is None else Shape(as_sizes(shape))
    if sizes.rank is not None:
        check_stretchable(fill_value, sizes, drops_ones=call.framework == "numpy")
    return a.with_shape(sizes, dtype=dtype_name(dtype, a.dtype), framework=framework_of_result(call, a))


# -- ranges -----------------------------------------------------------------------------------------------------------


def range_length(start: Value, stop: Value, step: Value) -> Size:
    """How many numbers lie between: exactly if all are known."""
    values = [value.content if isinstance(value, Tensor) else value for value in (start, stop, step)]
    numbers = [value for value in values if isinstance(value, int | float)]
    if len(numbers) == 3:
        first, last, by = numbers
        return max(math.ceil((last - first) / by), 0) if by else unknown(0)
    sizes = [value for value in values if isinstance(value, int | Polynomial)]
    if len(sizes) < 3:
        return unknown(0)
    first, last, by = sizes
    if by == 1 or by == -1:
        return last - first if by == 1 else first - last
    return (last - first + by - 1) // by if isinstance(by, int) and by > 1 else unknown(0)


def _arange(call: Call, start: Value, end: Value, step: Value, dtype: Value) -> Tensor:
    first, last = (0, start) if end is None else (start, end)
    floats = any(isinstance(value, float) for value in (first, last, step))
    default = (FLOAT_OF[call.framework]) if floats else "i32" if call.framework in ("tf", "jax", "keras") else "i64"
    length = range_length(first, last, 1 if step is None else step)
    content = tuple(range(length)) if isinstance(length, int) and length <= 16 and first == 0 and step in (1, None) else None
    return Tensor(Shape((length,)), dtype_name(dtype, default), call.framework, content=content)


@shape_rule("torch.arange")
def torch_arange(call: Call, start: Value, end: Value = None, step: Value = 1, *, dtype: Value = None, **options: Value) -> Tensor:
    """Numbers in steps."""
    return _arange(call, start, end, step, dtype)


@shape_rule(*spelled("numpy jax.numpy", "arange"))
def numpy_arange(
    call: Call, start: Value = 0, stop: Value = None, step: Value = None, dtype: Value = None, **options: Value
) -> Tensor:
    """Numbers in steps."""
    return _arange(call, start, stop, step, dtype)


@shape_rule("keras.ops.arange")
def keras_arange(call: Call, start: Value, stop: Value = None, step: Value = None, dtype: Value = None) -> Tensor:
    """Numbers in steps."""
    return _arange(call, start, stop, step, dtype)


@shape_rule("tf.range")
def tf_range(call: Call, start: Value, limit: Value = None, delta: Value = 1, dtype: Value = None, name: Value = None) -> Tensor:
    """Numbers in steps."""
    return _arange(call, start, limit, delta, dtype)


@shape_rule(*spelled("torch", "linspace logspace"))
def torch_linspace(start: Value, end: Value, steps: Size, base: Value = 10.0, *, dtype: Value = None, **options: Value) -> Tensor:
    """Evenly spaced numbers."""
    return Tensor(Shape((steps,)), dtype_name(dtype, "f32"), "torch")


@shape_rule(*spelled("numpy jax.numpy", "linspace logspace geomspace"), *spelled("keras.ops", "linspace logspace"))
def numpy_linspace(
    call: Call,
    start: Tensor,
    stop: Tensor,
    num: Size = 50,
    *options: Value,
    retstep: bool = False,
    dtype: Value = None,
    axis: int = 0,
    **keywords: Value,
) -> Value:
    """Evenly spaced numbers; between arrays along a new axis."""
    ends = broadcast_dims(start.shape, stop.shape)
    if ends is None:
        raise Mismatch(NOT_BROADCASTABLE, f"{start.shape} and {stop.shape} cannot be broadcast together", tensors=(start, stop))
    kind = dtype_name(dtype, FLOAT_OF[call.framework])
    if ends.rank is None or (axis != 0 and ends.rank > 0):
        return Tensor(dtype=kind, framework=call.framework)
    result = Tensor(ends.preceded(num), kind, call.framework)
    return (result, result.with_shape(ends)) if retstep else result


@shape_rule("tf.linspace", "tf.lin_space")
def tf_linspace(call: Call, start: Tensor, stop: Tensor, num: Size, name: Value = None, axis: int = 0) -> Value:
    """Evenly spaced numbers; between tensors along a new axis."""
    return numpy_linspace(call, start, stop, num, axis=axis)


@shape_rule(*spelled("torch", "eye"), *spelled("numpy jax.numpy keras.ops", "eye"))
def eye(call: Call, n: Size, m: Size | None = None, *options: Value, dtype: Value = None, **keywords: Value) -> Tensor:
    """A matrix with ones on a diagonal."""
    columns = as_size(keywords.get("M", m))
    return Tensor(
        Shape((n, n if columns is None else columns)),
        dtype_name(dtype, FLOAT_OF[call.framework]),
        call.framework,
    )


@shape_rule(*spelled("numpy jax.numpy keras.ops", "identity"))
def identity(call: Call, n: Size, dtype: Value = None) -> Tensor:
    """A square matrix with ones on its diagonal."""
    return Tensor(Shape((n, n)), dtype_name(dtype, FLOAT_OF[call.framework]), call.framework)


@shape_rule("tf.eye", "tf.linalg.eye")
def tf_eye(
    num_rows: Size, num_columns: Size | None = None, batch_shape: Sizes | None = None, dtype: Value = None, name: Value = None
) -> Tensor:
    """Matrices with ones on their diagonals."""
    shape = Shape((*(batch_shape or ()), num_rows, num_rows if num_columns is None else num_columns))
    return Tensor(shape, dtype_name(dtype, "f32"), "tf")


@shape_rule(*spelled("numpy jax.numpy", "hanning hamming blackman bartlett kaiser"))
def numpy_window(call: Call, M: Size, beta: Value = None) -> Tensor:
    """Windows of signal processing."""
    return Tensor(Shape((M,)), FLOAT_OF[call.framework], call.framework)


@shape_rule(*spelled("torch", "hann_window hamming_window blackman_window bartlett_window kaiser_window"))
def torch_window(window_length: Size, *options: Value, dtype: Value = None, **keywords: Value) -> Tensor:
    """Windows of signal processing."""
    return Tensor(Shape((window_length,)), dtype_name(dtype, "f32"), "torch")


# -- from values ------------------------------------------------------------------------------------------------------


@shape_rule(*spelled("torch", "tensor as_tensor asarray scalar_tensor"), "torch.Tensor.new_tensor")
def torch_tensor(call: Call, data: Value, *values: Value, dtype: Value = None, **options: Value) -> Tensor:
    """From nested lists or another array. The method takes the values second."""
    held = as_tensor(values[0] if call.name.endswith("new_tensor") else data, "torch")
    kind = next((value for value in values if not call.name.endswith("new_tensor")), dtype)
    return recast(held, dtype_name(kind, held.dtype), "torch")


@shape_rule("torch.from_numpy")
def torch_from_numpy(ndarray: Tensor) -> Tensor:
    """The same array, as a tensor."""
    return recast(ndarray, ndarray.dtype, "torch")


@shape_rule("torch.Tensor", *spelled("torch", "FloatTensor DoubleTensor LongTensor IntTensor ByteTensor BoolTensor HalfTensor"))
def torch_constructor(call: Call, *data: Value) -> Tensor:
    """From sizes (integers) or from values (anything else)."""
    kind = _TENSOR_TYPES[short_name(call.name)]
    if all(isinstance(value, int | Polynomial) for value in data):
        return Tensor(sizes_of(data) if data else Shape((0,)), kind, "torch")
    first, *others = data
    if others:
        # Only sizes come one by one.
        sizes = [as_size(value) for value in data]
        return Tensor(Shape(tuple(unknown(0) if size is None else size for size in sizes)), kind, "torch")
    if isinstance(first, Unknown):
        raise NotKnown
    return recast(as_tensor(first, "torch"), kind, "torch")


@shape_rule(*spelled("numpy jax.numpy", "array asarray"), *spelled("numpy", "ascontiguousarray asanyarray asfortranarray"))
def numpy_array(call: Call, a: Tensor, dtype: Value = None, *options: Value, ndmin: Value = 0, **keywords: Value) -> Tensor:
    """From nested lists or another array."""
    shape = a.shape
    least = 1 if call.name.endswith(("ascontiguousarray", "asfortranarray")) else as_size(ndmin)
    if isinstance(least, int) and shape.rank is not None and shape.rank < least:
        return a.with_shape(shape.preceded(*(1 for _ in range(least - shape.rank))), framework=call.framework)
    return recast(a, dtype_name(dtype, a.dtype), call.framework)


@shape_rule("keras.ops.convert_to_tensor", "keras.ops.array", "tf.convert_to_tensor")
def convert_to_tensor(call: Call, value: Tensor, dtype: Value = None, *options: Value, **keywords: Value) -> Tensor:
    """From nested lists or another array."""
    return recast(value, dtype_name(dtype, value.dtype), call.framework)


@shape_rule("tf.constant")
def tf_constant(
    call: Call, value: Tensor, dtype: Value = None, shape: Sizes | None = None, name: Value = None, **options: Value
) -> Tensor:
    """From nested lists, under a shape if one is given: one number fills it. TensorFlow 1 repeats the last number."""
    kind = dtype_name(dtype, value.dtype)
    if shape is None:
        return recast(value, kind, "tf")
    held, wanted = value.shape.elements, product(shape)
    if not call.is_tf1 and held is not None and held != 1 and same(held, wanted) is False:
        message = f"{held} values of {value.shape} do not fill {Shape(shape)}, which holds {wanted}"
        raise Mismatch(RESHAPE_COUNT, message, result=Tensor(Shape(shape), kind, "tf"), tensors=(value,))
    return Tensor(Shape(shape), kind, "tf")


@shape_rule("numpy.fromiter")
def numpy_fromiter(call: Call, iterable: Value, dtype: Value, count: Value = -1) -> Tensor:
    """A vector of what an iteration yields."""
    length = len(iterable) if isinstance(iterable, tuple) else as_size(iterable.length) if isinstance(iterable, ListValue) else None
    return Tensor(Shape((unknown(0) if length is None else length,)), dtype_name(dtype), "numpy")


@shape_rule("numpy.fromfunction", "jax.numpy.fromfunction")
def numpy_fromfunction(call: Call, function: Value, shape: Sizes, **options: Value) -> Value:
    """The function of the positions, each an array of that shape."""
    positions = Tensor(Shape(shape), "f64" if call.framework == "numpy" else "i32", call.framework)
    return call.run.call_at(call.place, function, [positions] * len(shape))


@shape_rule("numpy.indices", "jax.numpy.indices")
def numpy_indices(call: Call, dimensions: Sizes, dtype: Value = None, sparse: bool = False) -> Tensor:
    """The positions along each axis."""
    if sparse:
        raise NotKnown
    return Tensor(Shape((len(dimensions), *dimensions)), dtype_name(dtype, "i64"), call.framework)


def grid(call: Call, vectors: tuple[Value, ...], indexing: Value) -> list[Tensor]:
    """One array per vector, over all combinations; `xy` exchanges the first two axes."""
    operands = [as_tensor(vector, call.framework) for vector in vectors]
    sizes = [_length(call, operand) for operand in operands]
    if indexing == "xy" and len(sizes) > 1:
        sizes[:2] = sizes[1::-1]
    return [operand.with_shape(Shape(tuple(sizes)), framework=framework_of_result(call, operand)) for operand in operands]


def _length(call: Call, vector: Tensor) -> Size:
    if call.framework in ("torch", "jax") and vector.shape.rank not in (None, 0, 1):
        raise Mismatch(WRONG_RANK, f"meshgrid takes vectors, not {vector.shape}", tensors=(vector,))
    elements = vector.shape.elements
    return unknown(0) if elements is None else elements


@shape_rule("torch.meshgrid")
def torch_meshgrid(call: Call, *tensors: Value, indexing: Value = "ij") -> Value:
    """All combinations of vectors, given one by one or in a list."""
    first = tensors[0] if tensors else ()
    vectors = first.items if isinstance(first, ListValue) else first if isinstance(first, tuple) else tensors
    return UNKNOWN if vectors is None else tuple(grid(call, vectors, indexing))


@shape_rule(*spelled("numpy jax.numpy tf keras.ops", "meshgrid"))
def numpy_meshgrid(
    call: Call, *xi: Value, indexing: Value = "xy", copy: Value = True, sparse: bool = False, name: Value = None
) -> Value:
    """All combinations of vectors."""
    if sparse:
        return UNKNOWN
    arrays = grid(call, xi, indexing)
    return tuple(arrays) if call.framework == "numpy" else ListValue(arrays)
