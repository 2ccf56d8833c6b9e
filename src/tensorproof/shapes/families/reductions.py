"""Reductions: sums, means, extremes and norms over some axes, or over all."""

from __future__ import annotations

from tensorproof.rules.shapes.single_class import SINGLE_CLASS
from tensorproof.shapes.families.axis_numbers import resolved_axes, without_axes
from tensorproof.shapes.families.broadcasting import FLOAT_OF, broadcast, framework_of_result
from tensorproof.shapes.families.names import short_name, spelled, words
from tensorproof.shapes.rule_table import Axes, Call, NotKnown, as_tensor, coerced, shape_rule
from tensorproof.shapes.sizes import Polynomial, Size, largest, product, smallest
from tensorproof.shapes.values import ListValue, Results, Tensor, Value

_BOOLEAN = words("any all reduce_any reduce_all")
_INDICES = words("argmax argmin nanargmax nanargmin count_nonzero")
_AVERAGES = words("mean std var median reduce_mean reduce_std reduce_variance nanmean nanstd nanvar")
_SUMS = words("sum prod reduce_sum reduce_prod nansum nanprod")


# -- the kernel -------------------------------------------------------------------------------------------------------


def reduced(call: Call, tensor: Tensor, axes: Axes, keep: bool = False) -> Tensor:
    """The tensor after a reduction over the axes."""
    positions = resolved_axes(call, tensor, axes)
    shape = without_axes(tensor.shape, positions, keep=keep)
    return tensor.with_shape(
        shape,
        dtype=_dtype_of(call, tensor),
        framework=framework_of_result(call, tensor),
        new_axes=_new_axes(tensor, positions, keep),
        content=_content_of(short_name(call.name), tensor.content) if positions in (None, (0,)) and not keep else None,
    )


def _dtype_of(call: Call, tensor: Tensor) -> str:
    name = short_name(call.name)
    if name in _BOOLEAN:
        return "bool"
    if name in _INDICES:
        return "i32" if call.framework in ("jax", "keras") else "i64"
    if name in _AVERAGES and tensor.dtype and tensor.dtype[0] in "iub":
        return FLOAT_OF[tensor.framework] if not tensor.dtype.startswith("bf") else tensor.dtype
    if name in _SUMS and tensor.dtype == "bool":
        return "i64"
    return tensor.dtype


def _new_axes(tensor: Tensor, positions: tuple[int, ...] | None, keep: bool) -> frozenset[int]:
    """Axes that are kept with size 1 are written out as such, like those of the operand that remain."""
    rank = tensor.shape.rank
    if rank is None:
        return frozenset()
    gone = range(rank) if positions is None else positions
    if keep:
        return tensor.new_axes | frozenset(gone)
    remaining = [axis for axis in range(rank) if axis not in gone]
    return frozenset(place for place, axis in enumerate(remaining) if axis in tensor.new_axes)


def _content_of(name: str, content: Value) -> Value:
    """Known integers: `np.prod(x.shape[1:])` is a size."""
    if not isinstance(content, tuple):
        return content if name in _SUMS else None
    sizes: list[Size] = [part for part in content if isinstance(part, int | Polynomial)]
    if len(sizes) != len(content) or (not sizes and name in ("max", "min", "amax", "amin")):
        return None
    if name in ("prod", "reduce_prod"):
        return product(sizes)
    if name in ("sum", "reduce_sum"):
        return sum(sizes, 0)
    if name in ("max", "amax", "reduce_max"):
        return largest(sizes)
    return smallest(sizes) if name in ("min", "amin", "reduce_min") else None


def warn_of_single_class(call: Call, tensor: Tensor, axis: int | None) -> None:
    """An argmax or softmax over one class: the second axis of two, or the channels of an image. Written-out axes are meant."""
    rank = tensor.shape.rank
    if axis is None or rank not in (2, 4, 5):
        return
    position = axis % rank
    # [B, H, 1, 1] may be the scores of one query for one key.
    is_last = position == rank - 1 and tensor.shape.dims[-2] != 1 and call.framework in ("tf", "keras", "jax", "numpy")
    is_class_axis = position == 1 or is_last
    if is_class_axis and tensor.shape.dims[position] == 1 and position not in tensor.new_axes:
        always = "always 0" if "arg" in short_name(call.name) else "always 1"
        message = (
            f"axis {axis} of {tensor.shape} has one element: the result is {always}; one output for two classes needs a threshold"
        )
        call.warn(SINGLE_CLASS, message, tensors=(tensor,))


def arg_reduced(call: Call, tensor: Tensor, axis: int | None, keep: bool = False) -> Tensor:
    """Positions of extremes."""
    result = reduced(call, tensor, axis, keep)
    warn_of_single_class(call, tensor, axis)
    return result


# -- PyTorch ----------------------------------------------------------------------------------------------------------


@shape_rule(
    *spelled("torch torch.Tensor", "sum mean nansum nanmean amax amin all any"),
    "torch.special.logsumexp",
    *spelled("torch torch.Tensor", "logsumexp"),
)
def torch_reduce(
    call: Call, input: Tensor, dim: Axes = None, keepdim: bool = False, *, dtype: Value = None, out: Value = None
) -> Tensor:
    """Over one axis or several; an empty list of axes means all of them."""
    return reduced(call, input, None if dim == () else dim, keepdim)


@shape_rule(*spelled("torch torch.Tensor", "prod"))
def torch_prod(call: Call, input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: Value = None) -> Tensor:
    """Products over one axis or all."""
    return reduced(call, input, dim, keepdim)


@shape_rule(*spelled("torch torch.Tensor", "argmax argmin"))
def torch_arg(call: Call, input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Value = None) -> Tensor:
    """Positions over one axis, or in the flattened tensor."""
    return arg_reduced(call, input, dim, keepdim)


@shape_rule(*spelled("torch torch.Tensor", "count_nonzero"))
def torch_count_nonzero(call: Call, input: Tensor, dim: Axes = None) -> Tensor:
    """How many elements are not zero."""
    return reduced(call, input, dim)


@shape_rule(*spelled("torch torch.Tensor", "std var"), *spelled("torch", "std_mean var_mean"))
def torch_deviation(
    call: Call,
    input: Tensor,
    dim: Value = None,
    unbiased: Value = True,
    keepdim: bool = False,
    *,
    correction: Value = None,
    out: Value = None,
) -> Value:
    """Deviations; `x.std(False)` is about the bias, not an axis."""
    axes = None if isinstance(dim, bool) else _as_axes(dim)
    result = reduced(call, input, None if axes == () else axes, keepdim)
    return (result, result) if call.name.endswith("_mean") else result


def _as_axes(value: Value) -> Axes:
    return coerced(value, "Axes", "torch")  # pyright: ignore[reportReturnType]


@shape_rule(*spelled("torch torch.Tensor", "max min"))
def torch_extreme(
    call: Call, input: Tensor, dim: Value = None, keepdim: bool = False, *, other: Value = None, out: Value = None
) -> Value:
    """All elements, one axis (values and indices), or two tensors element by element."""
    second = dim if other is None else other
    if second is None:
        return reduced(call, input, None)
    if isinstance(second, Tensor):
        return broadcast(call, input, second)
    return _values_and_indices(call, input, second, keepdim)


@shape_rule(*spelled("torch torch.Tensor", "median nanmedian"))
def torch_median(call: Call, input: Tensor, dim: Value = None, keepdim: bool = False, *, out: Value = None) -> Value:
    """The median of all elements, or with its positions over one axis."""
    return reduced(call, input, None) if dim is None else _values_and_indices(call, input, dim, keepdim)


@shape_rule(*spelled("torch torch.Tensor", "mode"))
def torch_mode(call: Call, input: Tensor, dim: Value = -1, keepdim: bool = False, *, out: Value = None) -> Value:
    """The most frequent value over one axis, with its positions."""
    return _values_and_indices(call, input, dim, keepdim)


def _values_and_indices(call: Call, input: Tensor, dim: Value, keepdim: bool) -> Results:
    axis = _as_axes(dim)
    if not isinstance(axis, int):
        raise NotKnown
    values = reduced(call, input, axis, keepdim)
    return Results.of(values=values, indices=values.with_shape(values.shape, dtype="i64", new_axes=values.new_axes))


@shape_rule(*spelled("torch torch.Tensor", "aminmax"))
def torch_aminmax(call: Call, input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Value:
    """Both extremes."""
    result = reduced(call, input, dim, keepdim)
    return Results.of(min=result, max=result)


# -- NumPy, JAX -------------------------------------------------------------------------------------------------------

_ARRAYS = "numpy jax.numpy numpy.ndarray jax.Array"


@shape_rule(*spelled(_ARRAYS, "sum prod mean"), *spelled("numpy jax.numpy", "nansum nanprod nanmean"))
def numpy_sum(
    call: Call,
    a: Tensor,
    axis: Axes = None,
    dtype: Value = None,
    out: Value = None,
    keepdims: bool = False,
    initial: Value = None,
    where: Value = None,
) -> Tensor:
    """Sums, products and means."""
    return reduced(call, a, axis, keepdims)


@shape_rule(*spelled(_ARRAYS, "std var"), *spelled("numpy jax.numpy", "nanstd nanvar"))
def numpy_deviation(
    call: Call,
    a: Tensor,
    axis: Axes = None,
    dtype: Value = None,
    out: Value = None,
    ddof: Value = 0,
    keepdims: bool = False,
    *,
    where: Value = None,
    mean: Value = None,
    correction: Value = None,
) -> Tensor:
    """Standard deviations and variances."""
    return reduced(call, a, axis, keepdims)


@shape_rule(
    *spelled(_ARRAYS, "max min any all"),
    *spelled("numpy jax.numpy", "amax amin nanmax nanmin ptp"),
    "jax.Array.ptp",
)
def numpy_extreme(
    call: Call, a: Tensor, axis: Axes = None, out: Value = None, keepdims: bool = False, initial: Value = None, where: Value = None
) -> Tensor:
    """Extremes and conjunctions."""
    return reduced(call, a, axis, keepdims)


@shape_rule(*spelled(_ARRAYS, "argmax argmin"), *spelled("numpy jax.numpy", "nanargmax nanargmin"))
def numpy_arg(call: Call, a: Tensor, axis: int | None = None, out: Value = None, keepdims: bool = False) -> Tensor:
    """Positions of extremes."""
    return arg_reduced(call, a, axis, keepdims)


@shape_rule(*spelled("numpy jax.numpy", "count_nonzero"))
def numpy_count_nonzero(call: Call, a: Tensor, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """How many elements are not zero."""
    return reduced(call, a, axis, keepdims)


@shape_rule(*spelled("numpy jax.numpy", "average"))
def numpy_average(
    call: Call, a: Tensor, axis: Axes = None, weights: Value = None, returned: bool = False, *, keepdims: bool = False
) -> Value:
    """A weighted mean; weights have the shape of the array, or that of the axes."""
    result = reduced(call, a, axis, keepdims)
    return (result, result) if returned else result


@shape_rule("scipy.special.logsumexp", "jax.scipy.special.logsumexp", "jax.nn.logsumexp")
def numpy_logsumexp(
    call: Call, a: Tensor, axis: Axes = None, b: Value = None, keepdims: bool = False, return_sign: bool = False, **options: Value
) -> Value:
    """Logarithms of sums of exponentials."""
    result = reduced(call, a, axis, keepdims)
    return (result, result) if return_sign else result


@shape_rule(*spelled("numpy", "add.reduce multiply.reduce maximum.reduce minimum.reduce logical_and.reduce logical_or.reduce"))
def numpy_ufunc_reduce(
    call: Call, a: Tensor, axis: Axes = 0, dtype: Value = None, out: Value = None, keepdims: bool = False
) -> Tensor:
    """Universal functions over an axis; the first one if none is named."""
    return reduced(call, a, axis, keepdims)


# -- TensorFlow, Keras ------------------------------------------------------------------------------------------------

_TF_REDUCTIONS = "reduce_sum reduce_mean reduce_max reduce_min reduce_prod reduce_any reduce_all reduce_logsumexp"


@shape_rule(*spelled("tf tf.math", _TF_REDUCTIONS), *spelled("tf.math", "reduce_std reduce_variance reduce_euclidean_norm"))
def tf_reduce(
    call: Call,
    input_tensor: Tensor,
    axis: Value = None,
    keepdims: Value = None,
    name: Value = None,
    reduction_indices: Value = None,
    keep_dims: Value = None,
) -> Tensor:
    """Reductions of TensorFlow, with the older names of the arguments."""
    axes = coerced(reduction_indices if axis is None else axis, "Axes", "tf")
    keep = coerced(keep_dims if keepdims is None else keepdims, "bool", "tf")
    return reduced(call, input_tensor, axes, bool(keep))  # pyright: ignore[reportArgumentType]


@shape_rule(*spelled("tf tf.math", "argmax argmin"))
def tf_arg(
    call: Call, input: Tensor, axis: Value = None, output_type: Value = None, name: Value = None, dimension: Value = None
) -> Tensor:
    """Positions of extremes over one axis; the first if none is named."""
    axis = coerced(dimension if axis is None else axis, "int | None", "tf")
    return arg_reduced(call, input, axis if isinstance(axis, int) else 0)


@shape_rule("tf.math.count_nonzero")
def tf_count_nonzero(
    call: Call, input: Tensor, axis: Axes = None, keepdims: bool = False, dtype: Value = None, name: Value = None
) -> Tensor:
    """How many elements are not zero."""
    return reduced(call, input, axis, keepdims)


@shape_rule("tf.nn.moments")
def tf_moments(call: Call, x: Tensor, axes: Axes, shift: Value = None, keepdims: bool = False, name: Value = None) -> Value:
    """Mean and variance."""
    result = reduced(call, x, axes, keepdims)
    return (result, result)


@shape_rule("tf.add_n")
def tf_add_n(call: Call, inputs: Value, name: Value = None) -> Tensor:
    """The sum of a list of tensors of one shape."""
    items = inputs.items if isinstance(inputs, ListValue) else inputs
    if not isinstance(items, tuple) or not items:
        raise NotKnown
    first = as_tensor(items[0], "tf")
    return first.with_shape(first.shape, framework="tf")


@shape_rule(*spelled("keras.ops", "sum mean max min prod std var any all median logsumexp amax amin"))
def keras_reduce(call: Call, x: Tensor, axis: Axes = None, keepdims: bool = False, initial: Value = None) -> Tensor:
    """Reductions of Keras."""
    return reduced(call, x, axis, keepdims)


@shape_rule(*spelled("keras.ops", "argmax argmin"))
def keras_arg(call: Call, x: Tensor, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Positions of extremes."""
    return arg_reduced(call, x, axis, keepdims)


@shape_rule("keras.ops.count_nonzero")
def keras_count_nonzero(call: Call, x: Tensor, axis: Axes = None) -> Tensor:
    """How many elements are not zero."""
    return reduced(call, x, axis)


@shape_rule("keras.ops.average")
def keras_average(call: Call, x: Tensor, axis: Axes = None, weights: Value = None) -> Tensor:
    """A weighted mean."""
    return reduced(call, x, axis)


@shape_rule("keras.ops.moments")
def keras_moments(call: Call, x: Tensor, axes: Axes, keepdims: bool = False, synchronized: Value = False) -> Value:
    """Mean and variance."""
    result = reduced(call, x, axes, keepdims)
    return (result, result)
