"""Functions of each element of one operand: the shape stays."""

from __future__ import annotations

import math
from collections.abc import Callable

from tensorproof.rules.shapes.split_sizes import SPLIT_SIZES
from tensorproof.rules.shapes.wrong_rank import WRONG_RANK
from tensorproof.shapes.families.axis_numbers import replaced_size, resolved_axis
from tensorproof.shapes.families.broadcasting import FLOAT_OF, framework_of_result
from tensorproof.shapes.families.names import short_name, spelled, words
from tensorproof.shapes.rule_table import Call, Mismatch, as_tensor, shape_property, shape_rule
from tensorproof.shapes.sizes import Polynomial
from tensorproof.shapes.values import Tensor, Value

#: Functions whose result is a float for every input.
_FLOATING = words(
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan arcsin arccos arctan sinh cosh tanh asinh "
    "acosh atanh arcsinh arccosh arctanh sigmoid erf erfc erfinv lgamma digamma reciprocal logit softplus silu gelu elu "
    "selu celu log_sigmoid logsigmoid softsign deg2rad rad2deg sinc cbrt mish hard_sigmoid hardsigmoid"
)
_BOOLEAN = words(
    "isnan isinf isfinite isposinf isneginf isreal iscomplex signbit logical_not is_nan is_inf is_finite is_non_decreasing"
)


def elementwise(call: Call, operand: Tensor) -> Tensor:
    """The operand after a function of each element."""
    name = short_name(call.name)
    framework = framework_of_result(call, operand)
    dtype = operand.dtype
    if name in _BOOLEAN:
        dtype = "bool"
    elif name in _FLOATING and dtype and not dtype.startswith(("f", "bf", "c")):
        dtype = FLOAT_OF[framework]
    return operand.with_shape(
        operand.shape, dtype=dtype, framework=framework, contiguous=operand.contiguous, new_axes=operand.new_axes
    )


# -- PyTorch ----------------------------------------------------------------------------------------------------------

_TORCH_BOTH = (
    "abs absolute acos arccos acosh arccosh asin arcsin asinh arcsinh atan arctan atanh arctanh ceil conj cos cosh deg2rad "
    "rad2deg digamma erf erfc erfinv exp exp2 expm1 floor frac isfinite isinf isnan isneginf isposinf isreal lgamma log "
    "log10 log1p log2 logical_not bitwise_not logit nan_to_num neg negative positive reciprocal relu round rsqrt sigmoid "
    "sign sgn signbit sin sinc sinh sqrt square tan tanh trunc fix angle"
)
_TORCH_FUNCTIONS = "celu selu rrelu dropout alpha_dropout feature_alpha_dropout threshold"
_TORCH_ACTIVATIONS = (
    "relu relu6 leaky_relu elu celu selu gelu silu mish softplus softsign softshrink hardshrink tanhshrink hardtanh "
    "hardswish hardsigmoid logsigmoid sigmoid tanh threshold rrelu dropout alpha_dropout feature_alpha_dropout"
)
_TORCH_SPECIAL = "expit erf erfc erfinv exp2 expm1 log1p gammaln digamma entr i0 logit ndtr sinc"


@shape_rule(
    *spelled("torch torch.Tensor", _TORCH_BOTH),
    *spelled("torch", _TORCH_FUNCTIONS),
    *spelled("torch.nn.functional", _TORCH_ACTIVATIONS),
    *spelled("torch.special", _TORCH_SPECIAL),
)
def torch_elementwise(call: Call, input: Tensor, *options: Value, **keywords: Value) -> Tensor:
    """Functions of one tensor; further arguments do not change the shape."""
    return elementwise(call, input)


@shape_rule(
    *spelled("torch.Tensor", "requires_grad_ pin_memory share_memory_ fill_ zero_ uniform_ normal_ random_ bernoulli_ exponential_")
)
def torch_refilled(call: Call, input: Tensor, *options: Value, **keywords: Value) -> Tensor:
    """Methods that change the receiver or its bookkeeping, and return it."""
    return input.with_shape(input.shape, contiguous=input.contiguous, new_axes=input.new_axes, kind=input.kind)


@shape_rule(*spelled("torch.nn.functional", "dropout1d dropout2d dropout3d"), "torch.feature_dropout")
def torch_channel_dropout(call: Call, input: Tensor, p: Value = 0.5, training: Value = True, inplace: Value = False) -> Tensor:
    """Dropout of whole channels."""
    return elementwise(call, input)


@shape_rule("torch.Tensor.contiguous")
def torch_contiguous(call: Call, input: Tensor, *, memory_format: Value = None) -> Tensor:
    """A copy in the order of the axes."""
    return input.with_shape(input.shape, contiguous=True if memory_format is None else None, new_axes=input.new_axes)


@shape_rule(*spelled("torch torch.nn.functional", "prelu"), "torch.Tensor.prelu")
def torch_prelu(call: Call, input: Tensor, weight: Tensor) -> Tensor:
    """One slope, or one per channel."""
    return elementwise(call, input)


@shape_rule("torch.nn.functional.glu")
def torch_glu(call: Call, input: Tensor, dim: int = -1) -> Tensor:
    """One half of an axis gates the other."""
    return gated(call, input, dim)


@shape_property(*spelled("torch.Tensor", "data grad real"), *spelled("numpy.ndarray jax.Array", "real imag"))
def same_elements(call: Call, input: Tensor) -> Tensor:
    """The elements without their graph, their gradient, or a part of them."""
    return elementwise(call, input)


# -- NumPy, JAX -------------------------------------------------------------------------------------------------------

_NUMPY_UNARY = (
    "abs absolute fabs exp exp2 expm1 log log2 log10 log1p sqrt square cbrt reciprocal sin cos tan arcsin arccos arctan "
    "sinh cosh tanh arcsinh arccosh arctanh deg2rad rad2deg degrees radians floor ceil trunc rint round sign negative "
    "positive isnan isinf isfinite isposinf isneginf isreal iscomplex signbit logical_not invert bitwise_not conj conjugate "
    "nan_to_num sinc i0 angle real imag copy"
)
_NUMPY_METHODS = "round conj conjugate copy"
_JAX_NN = (
    "relu relu6 sigmoid softplus silu swish gelu elu selu celu leaky_relu hard_tanh hard_sigmoid hard_swish hard_silu "
    "log_sigmoid soft_sign mish squareplus sparse_plus"
)
_JAX_LAX = "abs exp log tanh sqrt rsqrt sin cos neg sign floor ceil round logistic erf square stop_gradient log1p expm1 is_finite"
#: Functions whose value matters: sizes are computed with them.
_VALUES: dict[str, Callable[[float], float]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "abs": abs,
    "sqrt": math.sqrt,
}


@shape_rule("numpy.fix", *spelled("numpy jax.numpy", _NUMPY_UNARY), *spelled("numpy.ndarray jax.Array", _NUMPY_METHODS))
def numpy_elementwise(call: Call, x: Value, *options: Value, **keywords: Value) -> Tensor:
    """Universal functions of one array. Of plain numbers the value is kept: `int(np.ceil(n / 2))` is a size."""
    result = elementwise(call, as_tensor(x, call.framework))
    content = _known_value(short_name(call.name), x)
    return result if content is None else result.with_shape(result.shape, content=content)


def _known_value(name: str, x: Value) -> Value:
    value = x.content if isinstance(x, Tensor) else x
    if isinstance(value, Polynomial):
        return value if name in ("floor", "ceil", "round") else None
    if name not in _VALUES or not isinstance(value, int | float) or not math.isfinite(value) or (name == "sqrt" and value < 0):
        return None
    result = _VALUES[name](value)
    return int(result) if float(result).is_integer() else None


@shape_rule(*spelled("jax.nn", _JAX_NN), *spelled("jax.lax", _JAX_LAX), "jax.scipy.special.expit", "jax.scipy.special.erf")
def jax_elementwise(call: Call, x: Tensor, *options: Value, **keywords: Value) -> Tensor:
    """Activations of JAX."""
    return elementwise(call, x)


@shape_rule("jax.nn.glu")
def jax_glu(call: Call, x: Tensor, axis: int = -1) -> Tensor:
    """One half of an axis gates the other."""
    return gated(call, x, axis)


@shape_rule("jax.Array.block_until_ready")
def jax_block(call: Call, x: Tensor) -> Tensor:
    """The same array, computed."""
    return x


@shape_rule(*spelled("scipy.special", "expit erf erfc gammaln log1p expm1 logit"))
def scipy_elementwise(call: Call, x: Tensor, *options: Value, **keywords: Value) -> Tensor:
    """Special functions of SciPy."""
    return elementwise(call, x)


# -- TensorFlow, Keras ------------------------------------------------------------------------------------------------

_TF_BOTH = (
    "abs acos acosh asin asinh atan atanh ceil conj cos cosh digamma erf exp floor is_nan is_inf is_finite lgamma log log1p "
    "log_sigmoid logical_not negative reciprocal rint round rsqrt sigmoid sign sin sinh sqrt square tan tanh expm1 erfc"
)


@shape_rule(*spelled("tf tf.math", _TF_BOTH), *spelled("tf.nn", "sigmoid tanh"))
def tf_elementwise(call: Call, x: Tensor, *options: Value, **keywords: Value) -> Tensor:
    """Functions of one tensor in TensorFlow."""
    return elementwise(call, x)


@shape_rule(*spelled("tf.nn", "relu relu6 leaky_relu elu selu gelu silu swish softplus softsign"), "tf.math.softplus")
def tf_activation(call: Call, features: Tensor, *options: Value, **keywords: Value) -> Tensor:
    """Activations of TensorFlow."""
    return elementwise(call, features)


@shape_rule("tf.stop_gradient", "tf.identity", "tf.debugging.check_numerics")
def tf_identity(call: Call, input: Tensor, *options: Value, **keywords: Value) -> Tensor:
    """The tensor as it is."""
    return elementwise(call, input).with_shape(input.shape, new_axes=input.new_axes, content=input.content)


@shape_rule("tf.nn.dropout", "tf.nn.experimental.stateless_dropout")
def tf_dropout(call: Call, x: Tensor, *options: Value, **keywords: Value) -> Tensor:
    """Dropout; the arguments after the tensor differ between TensorFlow 1 and 2."""
    return elementwise(call, x)


@shape_rule(*spelled("tf", "clip_by_norm"), "tf.nn.l2_normalize", "tf.math.l2_normalize", "tf.linalg.l2_normalize")
def tf_rescaled(call: Call, t: Tensor, *options: Value, **keywords: Value) -> Tensor:
    """Scaled by a norm."""
    return elementwise(call, t)


_KERAS_UNARY = (
    "abs absolute arccos arccosh arcsin arcsinh arctan arctanh ceil conj conjugate copy cos cosh exp expm1 exp2 floor "
    "isfinite isinf isnan log log10 log1p log2 logical_not bitwise_not nan_to_num negative reciprocal round sign sin sinh "
    "sqrt rsqrt square tan tanh erf erfinv relu relu6 sigmoid softplus softsign silu swish gelu elu selu celu leaky_relu "
    "hard_sigmoid hard_silu hard_tanh log_sigmoid stop_gradient real imag trunc"
)
_KERAS_ACTIVATIONS = (
    "relu relu6 sigmoid softplus softsign silu swish gelu elu selu leaky_relu hard_sigmoid tanh exponential linear mish"
)


@shape_rule(*spelled("keras.ops", _KERAS_UNARY), *spelled("keras.activations", _KERAS_ACTIVATIONS))
def keras_elementwise(call: Call, x: Tensor, *options: Value, **keywords: Value) -> Tensor:
    """Functions of one tensor in Keras."""
    return elementwise(call, x)


@shape_rule("keras.random.dropout")
def keras_dropout(call: Call, inputs: Tensor, rate: Value, noise_shape: Value = None, seed: Value = None) -> Tensor:
    """Dropout as a function."""
    return elementwise(call, inputs)


def gated(call: Call, operand: Tensor, axis: int) -> Tensor:
    """A gated linear unit: an axis is halved."""
    shape = operand.shape
    if shape.rank == 0:
        raise Mismatch(WRONG_RANK, "a gated linear unit halves an axis, but a scalar has none", tensors=(operand,))
    position = resolved_axis(call, operand, axis)
    size = shape[position]
    if size % 2 == 1:
        message = f"a gated linear unit halves axis {axis} of {shape}, whose size {size} is odd"
        raise Mismatch(SPLIT_SIZES, message, tensors=(operand,))
    return elementwise(call, operand).with_shape(replaced_size(shape, position, size // 2))
