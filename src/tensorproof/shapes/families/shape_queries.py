"""Questions about shapes and values: `.shape`, `.size()`, `tf.shape`, `.numel()`, `.item()`, `.tolist()`, `allclose`."""

from __future__ import annotations

from tensorproof.rules.shapes.axis_out_of_range import AXIS_OUT_OF_RANGE
from tensorproof.shapes.families.axis_numbers import resolved_axis
from tensorproof.shapes.families.broadcasting import broadcast
from tensorproof.shapes.families.names import spelled
from tensorproof.shapes.rule_table import Call, Mismatch, shape_property, shape_rule
from tensorproof.shapes.shape import SCALAR, Shape
from tensorproof.shapes.sizes import Size, unknown
from tensorproof.shapes.values import UNKNOWN, DType, ListValue, Tensor, Value, as_size

_CLASSES = "torch.Tensor numpy.ndarray tf.Tensor keras.KerasTensor jax.Array"


def sizes_of(tensor: Tensor) -> Value:
    """The sizes as a tuple; unknown if the rank is."""
    return UNKNOWN if tensor.shape.rank is None else tensor.shape.dims


def count_of(tensor: Tensor) -> Value:
    """How many elements."""
    elements = tensor.shape.elements
    return unknown(0) if elements is None else elements


def rank_of(tensor: Tensor) -> Value:
    """How many axes."""
    return unknown(tensor.shape.least_rank) if tensor.shape.rank is None else tensor.shape.rank


@shape_property(*spelled(_CLASSES, "shape"))
def shape_attribute(input: Tensor) -> Value:
    """`x.shape`."""
    return sizes_of(input)


@shape_property(*spelled(_CLASSES, "ndim"))
def ndim_attribute(input: Tensor) -> Value:
    """`x.ndim`."""
    return rank_of(input)


@shape_property(*spelled(_CLASSES, "dtype"))
def dtype_attribute(input: Tensor) -> Value:
    """`x.dtype`."""
    return DType(input.dtype)


@shape_property("numpy.ndarray.size", "jax.Array.size")
def size_attribute(input: Tensor) -> Value:
    """`x.size`: how many elements."""
    return count_of(input)


@shape_rule("torch.Tensor.size")
def torch_size(call: Call, input: Tensor, dim: Value = None) -> Value:
    """All sizes, or one."""
    if dim is None:
        return sizes_of(input)
    axis = as_size(dim)
    if not isinstance(axis, int):
        return UNKNOWN
    if input.shape.rank == 0:
        raise Mismatch(AXIS_OUT_OF_RANGE, f"size {axis} is asked of a scalar, which has no axes", tensors=(input,))
    return input.shape[resolved_axis(call, input, axis)]


@shape_rule("torch.Tensor.dim", "torch.Tensor.ndimension")
def torch_dim(input: Tensor) -> Value:
    """How many axes."""
    return rank_of(input)


@shape_rule("torch.numel", "torch.Tensor.numel", "torch.Tensor.nelement")
def torch_numel(input: Tensor) -> Value:
    """How many elements."""
    return count_of(input)


@shape_rule("numpy.shape", "jax.numpy.shape", "keras.ops.shape")
def numpy_shape(a: Tensor) -> Value:
    """The sizes as a tuple."""
    return sizes_of(a)


@shape_rule("numpy.ndim", "jax.numpy.ndim", "keras.ops.ndim")
def numpy_ndim(a: Tensor) -> Value:
    """How many axes."""
    return rank_of(a)


@shape_rule("numpy.size", "jax.numpy.size")
def numpy_size(call: Call, a: Tensor, axis: int | None = None) -> Value:
    """How many elements, or how many along an axis."""
    return count_of(a) if axis is None else a.shape[resolved_axis(call, a, axis)]


@shape_rule("tf.shape")
def tf_shape(input: Tensor, out_type: Value = None, name: Value = None) -> Tensor:
    """The sizes as a vector whose content is known."""
    rank = input.shape.rank
    if rank is None:
        return Tensor(Shape((unknown(0),)), "i32", "tf")
    return Tensor(Shape((rank,)), "i32", "tf", content=input.shape.dims)


@shape_rule("tf.rank")
def tf_rank(input: Tensor, name: Value = None) -> Tensor:
    """The number of axes as a scalar."""
    return Tensor(SCALAR, "i32", "tf", content=rank_of(input))


@shape_rule("tf.size")
def tf_size(input: Tensor, out_type: Value = None, name: Value = None) -> Tensor:
    """The number of elements as a scalar."""
    return Tensor(SCALAR, "i32", "tf", content=count_of(input))


@shape_rule("tf.Tensor.get_shape", "keras.KerasTensor.get_shape")
def tf_get_shape(input: Tensor) -> Value:
    """The static sizes."""
    return sizes_of(input)


@shape_rule(*spelled("torch.Tensor numpy.ndarray jax.Array", "item"))
def item(input: Tensor, *index: Value) -> Value:
    """The one element: its value if the content is known, else a number, which is like a scalar array."""
    content = input.content
    return content if isinstance(content, int) else Tensor(SCALAR, input.dtype, "numpy")


@shape_rule(*spelled("torch.Tensor numpy.ndarray jax.Array", "tolist"))
def tolist(input: Tensor) -> Value:
    """Nested lists."""
    if isinstance(input.content, tuple):
        return ListValue(input.content)
    return UNKNOWN if input.shape.rank is None else nested_list(input.shape.dims)


def nested_list(sizes: tuple[Size, ...]) -> Value:
    """Lists in lists, of which only the lengths are known."""
    return UNKNOWN if not sizes else ListValue(None, nested_list(sizes[1:]), sizes[0])


@shape_rule(*spelled("torch torch.Tensor", "allclose"), *spelled("numpy jax.numpy", "allclose"))
def allclose(call: Call, input: Tensor, other: Tensor, *options: Value, **keywords: Value) -> Value:
    """Whether two arrays, broadcast together, are nearly equal."""
    broadcast(call, input, other)
    return UNKNOWN


@shape_rule(*spelled("torch torch.Tensor", "equal"), *spelled("numpy jax.numpy", "array_equal array_equiv"))
def array_equal(input: Tensor, other: Tensor, **keywords: Value) -> Value:
    """Whether two arrays are equal; those of other shapes are not."""
    return UNKNOWN


@shape_rule(
    *spelled("torch", "is_tensor is_floating_point is_complex"),
    *spelled("torch.Tensor", "is_floating_point is_contiguous is_complex"),
)
def predicate(input: Value, *options: Value, **keywords: Value) -> Value:
    """Questions whose answers are not needed."""
    return UNKNOWN


@shape_property(
    *spelled("torch.Tensor", "device requires_grad is_cuda is_leaf grad_fn layout"),
    "numpy.ndarray.nbytes",
    "numpy.ndarray.itemsize",
)
def unknown_attribute(input: Tensor) -> Value:
    """Attributes that say nothing of shapes."""
    return UNKNOWN
