"""Order along an axis: sorted values, their positions, the greatest of them, quantiles, running totals, distinct values."""

from __future__ import annotations

from tensorproof.rules.shapes.index_out_of_range import INDEX_OUT_OF_RANGE
from tensorproof.rules.shapes.wrong_rank import WRONG_RANK
from tensorproof.shapes.families.axis_numbers import replaced_size, resolved_axis
from tensorproof.shapes.families.broadcasting import framework_of_result
from tensorproof.shapes.families.names import short_name, spelled
from tensorproof.shapes.families.pointwise import elementwise
from tensorproof.shapes.families.reductions import reduced
from tensorproof.shapes.rule_table import Axes, Call, Mismatch, shape_rule
from tensorproof.shapes.shape import Shape
from tensorproof.shapes.sizes import Size, less, unknown
from tensorproof.shapes.values import Results, Tensor, Value, as_size


def along(call: Call, tensor: Tensor, axis: int | None) -> Tensor:
    """A function along an axis that keeps the shape; without an axis the array is flattened."""
    result = elementwise(call, tensor)
    if axis is None:
        return result.with_shape(Shape((_count(tensor),)))
    resolved_axis(call, tensor, axis, result=result)
    return result.with_shape(
        tensor.shape, new_axes=tensor.new_axes, dtype="i64" if "arg" in short_name(call.name) else result.dtype
    )


def _count(tensor: Tensor) -> Size:
    elements = tensor.shape.elements
    return unknown(0) if elements is None else elements


def _with_indices(values: Tensor) -> Results:
    return Results.of(values=values, indices=values.with_shape(values.shape, dtype="i64"))


def greatest(call: Call, tensor: Tensor, count: Value, axis: int = -1) -> Tensor:
    """Some of the elements along an axis."""
    size = as_size(count)
    wanted = unknown(0) if size is None else size
    if tensor.shape.rank == 0:
        if call.framework != "torch":
            raise Mismatch(WRONG_RANK, "the greatest elements of a scalar: it has no axis", tensors=(tensor,))
        return tensor.with_shape(tensor.shape)
    position = resolved_axis(call, tensor, axis)
    available = tensor.shape[position]
    result = tensor.with_shape(replaced_size(tensor.shape, position, wanted), framework=framework_of_result(call, tensor))
    if less(available, wanted):
        message = f"{wanted} elements are asked of axis {axis} of {tensor.shape}, which has {available}"
        raise Mismatch(INDEX_OUT_OF_RANGE, message, result=_with_indices(result), tensors=(tensor,))
    return result


# -- sorting ----------------------------------------------------------------------------------------------------------


@shape_rule(*spelled("torch torch.Tensor", "sort"))
def torch_sort(
    call: Call, input: Tensor, dim: int = -1, descending: Value = False, stable: Value = False, *, out: Value = None
) -> Value:
    """Sorted values and their positions."""
    return _with_indices(along(call, input, dim))


@shape_rule(*spelled("torch torch.Tensor", "argsort"))
def torch_argsort(call: Call, input: Tensor, dim: int = -1, descending: Value = False, stable: Value = False) -> Tensor:
    """Positions in sorted order."""
    return along(call, input, dim)


@shape_rule(*spelled("torch torch.Tensor", "msort"))
def torch_msort(call: Call, input: Tensor) -> Tensor:
    """Sorted along the first axis."""
    return elementwise(call, input)


@shape_rule(*spelled("torch torch.Tensor", "topk"))
def torch_topk(
    call: Call, input: Tensor, k: Value, dim: int = -1, largest: Value = True, sorted: Value = True, *, out: Value = None
) -> Value:
    """The greatest elements along an axis, with their positions."""
    return _with_indices(greatest(call, input, k, dim))


@shape_rule(*spelled("torch torch.Tensor", "kthvalue"))
def torch_kthvalue(call: Call, input: Tensor, k: Value, dim: int = -1, keepdim: bool = False, *, out: Value = None) -> Value:
    """The k-th element in sorted order along an axis."""
    if input.shape.rank != 0:
        greatest(call, input, k, dim)
    return _with_indices(reduced(call, input, dim, keepdim))


@shape_rule(*spelled("torch torch.Tensor", "cumsum cumprod logcumsumexp"))
def torch_cumulative(call: Call, input: Tensor, dim: int, *, dtype: Value = None, out: Value = None) -> Tensor:
    """Running totals along an axis."""
    return along(call, input, dim)


@shape_rule(*spelled("torch torch.Tensor", "cummax cummin"))
def torch_running_extreme(call: Call, input: Tensor, dim: int, *, out: Value = None) -> Value:
    """Running extremes along an axis, with their positions."""
    return _with_indices(along(call, input, dim))


@shape_rule(*spelled("numpy jax.numpy", "sort argsort"), *spelled("numpy.ndarray jax.Array", "argsort"))
def numpy_sort(call: Call, a: Tensor, axis: int | None = -1, *options: Value, **keywords: Value) -> Tensor:
    """Sorted along an axis."""
    return along(call, a, axis)


@shape_rule(*spelled("numpy jax.numpy", "partition argpartition"), *spelled("numpy.ndarray jax.Array", "argpartition"))
def numpy_partition(call: Call, a: Tensor, kth: Value, axis: int | None = -1, *options: Value, **keywords: Value) -> Tensor:
    """Sorted as far as one position."""
    return along(call, a, axis)


@shape_rule(
    *spelled("numpy.ndarray", "sort partition fill"), *spelled("numpy", "add.at subtract.at multiply.at maximum.at minimum.at")
)
def numpy_in_place(call: Call, a: Tensor, *options: Value, **keywords: Value) -> Value:
    """What changes the array and returns nothing."""
    return None


@shape_rule(
    *spelled("numpy jax.numpy numpy.ndarray jax.Array", "cumsum cumprod"), *spelled("numpy jax.numpy", "nancumsum nancumprod")
)
def numpy_cumulative(call: Call, a: Tensor, axis: int | None = None, dtype: Value = None, out: Value = None) -> Tensor:
    """Running totals along an axis, or of the flattened array."""
    return along(call, a, axis)


@shape_rule(*spelled("numpy", "maximum.accumulate minimum.accumulate add.accumulate multiply.accumulate"))
def numpy_accumulate(call: Call, array: Tensor, axis: int = 0, dtype: Value = None, out: Value = None) -> Tensor:
    """Running results of a universal function."""
    return along(call, array, axis)


@shape_rule("tf.sort", "tf.argsort")
def tf_sort(
    call: Call, values: Tensor, axis: int = -1, direction: Value = "ASCENDING", *options: Value, **keywords: Value
) -> Tensor:
    """Sorted along an axis."""
    return along(call, values, axis)


@shape_rule(*spelled("tf tf.math", "cumsum cumprod"), "tf.math.cumulative_logsumexp")
def tf_cumulative(
    call: Call, x: Tensor, axis: int = 0, exclusive: Value = False, reverse: Value = False, name: Value = None
) -> Tensor:
    """Running totals along an axis."""
    return along(call, x, axis)


@shape_rule("tf.math.top_k", "tf.nn.top_k")
def tf_top_k(call: Call, input: Tensor, k: Value = 1, sorted: Value = True, index_type: Value = None, name: Value = None) -> Value:
    """The greatest elements of the last axis, with their positions."""
    return _with_indices(greatest(call, input, k))


@shape_rule("tf.math.in_top_k", "tf.nn.in_top_k")
def tf_in_top_k(call: Call, targets: Tensor, predictions: Tensor, k: Value, name: Value = None) -> Tensor:
    """Whether each target is among the greatest predictions; TensorFlow 1 takes the predictions first."""
    vector = targets if targets.shape.rank == 1 else predictions
    return vector.with_shape(vector.shape if vector.shape.rank == 1 else Shape((unknown(),)), dtype="bool")


@shape_rule("keras.ops.sort", "keras.ops.argsort")
def keras_sort(call: Call, x: Tensor, axis: int | None = -1) -> Tensor:
    """Sorted along an axis."""
    return along(call, x, axis)


@shape_rule("keras.ops.cumsum", "keras.ops.cumprod")
def keras_cumulative(call: Call, x: Tensor, axis: int | None = None, dtype: Value = None) -> Tensor:
    """Running totals along an axis, or of the flattened tensor."""
    return along(call, x, axis)


@shape_rule("keras.ops.top_k")
def keras_top_k(call: Call, x: Tensor, k: Value, sorted: Value = True) -> Value:
    """The greatest elements of the last axis, with their positions."""
    return _with_indices(greatest(call, x, k))


@shape_rule("jax.lax.top_k")
def jax_top_k(call: Call, operand: Tensor, k: Value, *, axis: int = -1) -> Value:
    """The greatest elements of an axis, with their positions."""
    return _with_indices(greatest(call, operand, k, axis))


# -- quantiles --------------------------------------------------------------------------------------------------------


def quantiles(call: Call, tensor: Tensor, levels: Tensor, axes: Axes, keep: bool) -> Tensor:
    """One value per level, in front of the axes that remain."""
    result = reduced(call, tensor, axes, keep)
    if levels.shape.rank is None:
        return result.with_shape(Shape((), result.shape.tail if result.shape.tail is not None else result.shape.head))
    return result.with_shape(result.shape.preceded(*levels.shape.dims))


@shape_rule(*spelled("torch torch.Tensor", "quantile nanquantile"))
def torch_quantile(
    call: Call, input: Tensor, q: Tensor, dim: int | None = None, keepdim: bool = False, *, interpolation: Value = "linear"
) -> Tensor:
    """Quantiles over one axis or all."""
    if q.shape.rank is not None and q.shape.rank > 1:
        raise Mismatch(WRONG_RANK, f"levels of quantiles are a number or a vector, not {q.shape}", tensors=(q,))
    return quantiles(call, input, q, dim, keepdim)


@shape_rule(*spelled("numpy jax.numpy", "quantile percentile nanquantile nanpercentile"))
def numpy_quantile(
    call: Call,
    a: Tensor,
    q: Tensor,
    axis: Axes = None,
    out: Value = None,
    overwrite_input: Value = False,
    method: Value = "linear",
    keepdims: bool = False,
    **options: Value,
) -> Tensor:
    """Quantiles and percentiles."""
    return quantiles(call, a, q, axis, keepdims)


@shape_rule(*spelled("numpy jax.numpy", "median nanmedian"))
def numpy_median(
    call: Call, a: Tensor, axis: Axes = None, out: Value = None, overwrite_input: Value = False, keepdims: bool = False
) -> Tensor:
    """Medians."""
    return reduced(call, a, axis, keepdims)


@shape_rule("keras.ops.quantile")
def keras_quantile(call: Call, x: Tensor, q: Tensor, axis: Axes = None, method: Value = "linear", keepdims: bool = False) -> Tensor:
    """Quantiles of Keras."""
    return quantiles(call, x, q, axis, keepdims)


# -- counts and distinct values ---------------------------------------------------------------------------------------


@shape_rule(*spelled("torch torch.Tensor", "bincount"), *spelled("numpy jax.numpy keras.ops", "bincount"))
def bincount(call: Call, x: Tensor, weights: Value = None, minlength: Value = 0, *options: Value, **keywords: Value) -> Tensor:
    """How often each number occurs: at least `minlength` counts."""
    if x.shape.rank not in (None, 1) and call.framework != "keras":
        raise Mismatch(WRONG_RANK, f"bincount counts the numbers of a vector, not of {x.shape}", tensors=(x,))
    length = as_size(keywords.get("length"))
    if length is not None:
        return x.with_shape(Shape((length,)), dtype="i32")
    least = as_size(minlength)
    return x.with_shape(
        Shape((unknown(least if isinstance(least, int) else 0),)), dtype="i64", framework=framework_of_result(call, x)
    )


@shape_rule(*spelled("torch torch.Tensor", "histc"))
def torch_histogram(call: Call, input: Tensor, bins: Value = 100, min: Value = 0, max: Value = 0, *, out: Value = None) -> Tensor:
    """Counts per bin."""
    size = as_size(bins)
    return input.with_shape(Shape((unknown() if size is None else size,)))


@shape_rule(*spelled("torch torch.Tensor", "unique"))
def torch_unique(
    call: Call,
    input: Tensor,
    sorted: Value = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Value:
    """Distinct values: nobody knows how many."""
    values = _distinct(call, input, dim)
    inverse = input.with_shape(input.shape if dim is None else Shape((input.shape[dim],)), dtype="i64")
    counts = values.with_shape(Shape((values.shape[0 if dim is None else dim],)), dtype="i64")
    chosen = [values, *([inverse] if return_inverse else []), *([counts] if return_counts else [])]
    return values if len(chosen) == 1 else tuple(chosen)


def _distinct(call: Call, tensor: Tensor, axis: int | None) -> Tensor:
    if axis is None:
        return tensor.with_shape(Shape((unknown(0),)), framework=framework_of_result(call, tensor))
    position = resolved_axis(call, tensor, axis)
    return tensor.with_shape(replaced_size(tensor.shape, position, unknown(0)), framework=framework_of_result(call, tensor))


@shape_rule("numpy.unique", "jax.numpy.unique")
def numpy_unique(
    call: Call,
    ar: Tensor,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    **options: Value,
) -> Value:
    """Distinct values, with positions and counts."""
    values = _distinct(call, ar, axis)
    size = as_size(options.get("size"))
    if size is not None and axis is None:
        values = values.with_shape(Shape((size,)))
    count = values.shape[0 if axis is None else axis]
    vector = values.with_shape(Shape((count,)), dtype="i64")
    inverse = values.with_shape(ar.shape if axis is None else Shape((ar.shape[axis],)), dtype="i64")
    chosen = [
        values,
        *([vector] if return_index else []),
        *([inverse] if return_inverse else []),
        *([vector] if return_counts else []),
    ]
    return values if len(chosen) == 1 else tuple(chosen)


@shape_rule("tf.unique")
def tf_unique(call: Call, x: Tensor, out_idx: Value = None, name: Value = None) -> Value:
    """Distinct values of a vector, and the position of each element among them."""
    if x.shape.rank not in (None, 1):
        raise Mismatch(WRONG_RANK, f"unique takes a vector, not {x.shape}", tensors=(x,))
    return Results.of(y=_distinct(call, x, None), idx=x.with_shape(x.shape, dtype="i32"))


@shape_rule(*spelled("numpy jax.numpy", "diff"))
def numpy_diff(call: Call, a: Tensor, n: int = 1, axis: int = -1, prepend: Value = None, append: Value = None) -> Tensor:
    """Differences of neighbours."""
    return differences(call, a, n, axis, padded=prepend is not None or append is not None)


@shape_rule(*spelled("torch torch.Tensor", "diff"))
def torch_diff(call: Call, input: Tensor, n: int = 1, dim: int = -1, prepend: Value = None, append: Value = None) -> Tensor:
    """Differences of neighbours."""
    return differences(call, input, n, dim, padded=prepend is not None or append is not None)


@shape_rule("keras.ops.diff")
def keras_diff(call: Call, a: Tensor, n: int = 1, axis: int = -1) -> Tensor:
    """Differences of neighbours."""
    return differences(call, a, n, axis, padded=False)


def differences(call: Call, tensor: Tensor, times: int, axis: int, *, padded: bool) -> Tensor:
    """One element fewer along the axis for each time."""
    if tensor.shape.rank == 0:
        raise Mismatch(WRONG_RANK, "differences run along an axis, but a scalar has none", tensors=(tensor,))
    position = resolved_axis(call, tensor, axis)
    size = tensor.shape[position]
    left = max(size - times, 0) if isinstance(size, int) else size - times
    return elementwise(call, tensor).with_shape(replaced_size(tensor.shape, position, unknown(0) if padded else left))
