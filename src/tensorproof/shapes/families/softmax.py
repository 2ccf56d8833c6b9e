"""Normalisation along an axis: softmax, log-softmax, unit vectors."""

from __future__ import annotations

from tensorproof.rules.shapes.softmax_over_batch import SOFTMAX_OVER_BATCH
from tensorproof.shapes.families.axis_numbers import resolved_axes, resolved_axis
from tensorproof.shapes.families.names import short_name, spelled
from tensorproof.shapes.families.pointwise import elementwise
from tensorproof.shapes.families.reductions import warn_of_single_class
from tensorproof.shapes.rule_table import Axes, Call, NotKnown, coerced, shape_rule
from tensorproof.shapes.sizes import less, symbols
from tensorproof.shapes.values import Recipe, Tensor, Value

#: Layers whose output has samples in its first axis.
_DENSE_LAYERS = frozenset({"torch.nn.Linear", "torch.nn.LazyLinear", "keras.layers.Dense", "torch.nn.functional.linear"})
_PRODUCTS = frozenset({"matmul", "__matmul__", "dot", "mm", "addmm"})
#: Operations behind which a product is looked for: those that keep the axes of their first operand.
_TRANSPARENT = frozenset(
    {"__add__", "__sub__", "__mul__", "__truediv__", "add", "subtract", "multiply", "divide", "bias_add", "clip", "clamp"}
)


def softmax(call: Call, tensor: Tensor, axis: int) -> Tensor:
    """Normalised over an axis, with the warnings for an axis that is hardly meant."""
    position = resolved_axis(call, tensor, axis, result=tensor.with_shape(tensor.shape))
    warn_of_single_class(call, tensor, axis)
    if position == 0:
        _warn_of_batch(call, tensor, axis)
    return elementwise(call, tensor).with_shape(tensor.shape, new_axes=tensor.new_axes)


def _warn_of_batch(call: Call, tensor: Tensor, axis: int) -> None:
    """The first axis of two counts samples: it is a batch, or rows of what a layer or a product with a matrix computed."""
    shape = tensor.shape
    if (
        shape.rank != 2
        or shape.dims[1] == 1
        or short_name(call.name) not in ("softmax", "log_softmax", "__call__", "Softmax", "LogSoftmax")
    ):
        return
    rows, columns = shape.dims
    is_batch = any(symbol.role == "batch" for symbol in symbols(rows))
    origin = _origin(tensor.recipe)
    if is_batch or origin == "layer" or (origin == "product" and less(columns, rows)):
        message = f"the softmax of {shape} runs over axis {axis}: its {rows} samples; each sample is normalised over axis 1"
        call.warn(SOFTMAX_OVER_BATCH, message, tensors=(tensor,))


def _origin(recipe: Recipe | None) -> str:
    """What computed a tensor: a dense layer, a matrix product, or something else."""
    for _ in range(6):
        if recipe is None:
            return ""
        name = recipe.name.removesuffix(".__call__")
        if name in _DENSE_LAYERS:
            return "layer"
        if name.rpartition(".")[2] in _PRODUCTS:
            return "product"
        short = name.rpartition(".")[2]
        if short not in _TRANSPARENT and short != "squeeze":
            return ""
        first = recipe.arguments[0] if recipe.arguments else None
        rank = 3 if short == "squeeze" else 2
        recipe = first.recipe if isinstance(first, Tensor) and first.shape.rank == rank else None
    return ""


def legacy_axis(tensor: Tensor) -> int | None:
    """The axis that PyTorch takes where none is named."""
    rank = tensor.shape.rank
    return None if rank is None else 0 if rank in (0, 1, 3) else 1


@shape_rule(*spelled("torch torch.Tensor torch.special", "softmax log_softmax"))
def torch_softmax(call: Call, input: Tensor, dim: int, dtype: Value = None) -> Tensor:
    """Softmax over an axis."""
    return softmax(call, input, dim)


@shape_rule(*spelled("torch.nn.functional", "softmax softmin log_softmax"))
def torch_functional_softmax(
    call: Call, input: Tensor, dim: int | None = None, _stacklevel: Value = 3, dtype: Value = None
) -> Tensor:
    """Softmax over an axis, or over the one that PyTorch guesses."""
    axis = legacy_axis(input) if dim is None else dim
    return elementwise(call, input) if axis is None else softmax(call, input, axis)


@shape_rule("torch.nn.functional.gumbel_softmax")
def torch_gumbel_softmax(
    call: Call, logits: Tensor, tau: Value = 1, hard: Value = False, eps: Value = 1e-10, dim: int = -1
) -> Tensor:
    """A sample of a softmax."""
    return softmax(call, logits, dim)


@shape_rule("torch.nn.functional.normalize")
def torch_normalize(call: Call, input: Tensor, p: Value = 2.0, dim: Axes = 1, eps: Value = 1e-12, out: Value = None) -> Tensor:
    """Unit vectors along an axis."""
    resolved_axes(call, input, dim, result=elementwise(call, input))
    return elementwise(call, input)


@shape_rule(*spelled("jax.nn", "softmax log_softmax"))
def jax_softmax(call: Call, x: Tensor, axis: Axes = -1, where: Value = None, initial: Value = None) -> Tensor:
    """Softmax over one axis or several."""
    return softmax_of_axes(call, x, axis)


@shape_rule("jax.nn.standardize")
def jax_standardize(call: Call, x: Tensor, axis: Axes = -1, **options: Value) -> Tensor:
    """Mean 0 and variance 1 over axes."""
    resolved_axes(call, x, axis, result=elementwise(call, x))
    return elementwise(call, x)


@shape_rule("scipy.special.softmax", "scipy.special.log_softmax")
def scipy_softmax(call: Call, x: Tensor, axis: Axes = None) -> Tensor:
    """Softmax over axes, or over all elements."""
    return elementwise(call, x) if axis is None else softmax_of_axes(call, x, axis)


def softmax_of_axes(call: Call, tensor: Tensor, axes: Axes) -> Tensor:
    """Softmax over one axis or several together."""
    if isinstance(axes, int):
        return softmax(call, tensor, axes)
    resolved_axes(call, tensor, axes, result=elementwise(call, tensor))
    return elementwise(call, tensor)


@shape_rule(*spelled("tf.nn", "softmax log_softmax"), *spelled("tf.math", "softmax log_softmax"))
def tf_softmax(call: Call, logits: Tensor, axis: Value = None, name: Value = None, dim: Value = None) -> Tensor:
    """Softmax over an axis, the last if none is named."""
    chosen = coerced(dim if axis is None else axis, "int | None", "tf")
    return softmax(call, logits, chosen if isinstance(chosen, int) else -1)


@shape_rule(*spelled("keras.ops", "softmax log_softmax"), *spelled("keras.activations", "softmax log_softmax"))
def keras_softmax(call: Call, x: Tensor, axis: Axes = -1) -> Tensor:
    """Softmax over one axis or several."""
    return softmax_of_axes(call, x, axis)


@shape_rule("keras.ops.normalize")
def keras_normalize(call: Call, x: Tensor, axis: Axes = -1, order: Value = 2, epsilon: Value = None) -> Tensor:
    """Unit vectors along an axis."""
    resolved_axes(call, x, axis, result=elementwise(call, x))
    return elementwise(call, x)


@shape_rule("keras.utils.normalize")
def keras_utils_normalize(call: Call, x: Tensor, axis: int = -1, order: Value = 2) -> Tensor:
    """Unit vectors along an axis, of NumPy arrays. Keras takes axis 0 for none given, with a result of its own: not described."""
    if axis == 0:
        raise NotKnown
    resolved_axis(call, x, axis, result=elementwise(call, x))
    return x.with_shape(x.shape)
