"""Random arrays: of given sizes, or of the shape that the parameters of a distribution have together."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tensorproof.rules.shapes.wrong_rank import WRONG_RANK
from tensorproof.shapes.families.axis_numbers import resolved_axis
from tensorproof.shapes.families.broadcasting import all_broadcast
from tensorproof.shapes.families.creation import check_stretchable, sizes_of
from tensorproof.shapes.families.names import spelled
from tensorproof.shapes.families.number_types import dtype_name
from tensorproof.shapes.rule_table import Call, Mismatch, NotKnown, Sizes, as_sizes, as_tensor, native_class, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, SCALAR, Shape
from tensorproof.shapes.sizes import Size, unknown
from tensorproof.shapes.values import Framework, Tensor, Unknown, Value, as_size

#: Arguments of distributions that are no parameters.
_OPTIONS = frozenset({"dtype", "method", "endpoint", "out", "check_valid", "tol"})


def drawn(call: Call, size: Value, parameters: tuple[Value, ...], framework: Framework) -> Tensor:
    """A sample of the given sizes; without them, of the shape that the parameters have together."""
    tensors = [as_tensor(value, framework) for value in parameters if not isinstance(value, Unknown)]
    if size is None:
        return Tensor(all_broadcast(call, tensors) if tensors else SCALAR, "f64", framework)
    if isinstance(size, Unknown):
        return Tensor(ANY_SHAPE, "f64", framework, contiguous=None)
    shape = Shape(as_sizes(size))
    for tensor in tensors:
        check_stretchable(tensor, shape)
    return Tensor(shape, "f64", framework)


def _parameters_and_size(
    count: int, arguments: tuple[Value, ...], keywords: Mapping[str, Value]
) -> tuple[tuple[Value, ...], Value]:
    """A distribution takes its parameters first, then the size."""
    named = tuple(value for name, value in keywords.items() if name not in _OPTIONS and name != "size")
    size = arguments[count] if len(arguments) > count else keywords.get("size")
    return (*arguments[:count], *named), size


_TWO = "normal uniform laplace logistic gumbel lognormal beta gamma binomial negative_binomial vonmises"
_ONE = "exponential poisson rayleigh standard_gamma standard_t chisquare geometric pareto weibull power"
_NONE = "random standard_normal standard_exponential standard_cauchy"


@shape_rule(*spelled("numpy.random", f"{_TWO} {_ONE} {_NONE} random_sample ranf sample"))
def numpy_distribution(call: Call, *arguments: Value, **keywords: Value) -> Tensor:
    """Functions of `numpy.random`."""
    name = call.name.rpartition(".")[2]
    count = 2 if name in _TWO.split() else 1 if name in _ONE.split() else 0
    parameters, size = _parameters_and_size(count, arguments, keywords)
    return drawn(call, size, parameters, "numpy")


@shape_rule("numpy.random.rand", "numpy.random.randn")
def numpy_by_sizes(*sizes: Value) -> Tensor:
    """Sizes one by one."""
    return Tensor(sizes_of(sizes), "f64", "numpy")


@shape_rule("numpy.random.randint")
def numpy_randint(call: Call, low: Value, high: Value = None, size: Value = None, dtype: Value = None) -> Tensor:
    """Random integers."""
    limits = tuple(limit for limit in (low, high) if limit is not None)
    result = drawn(call, size, limits, "numpy")
    return result.with_shape(result.shape, dtype=dtype_name(dtype, "i64"))


@shape_rule("numpy.random.choice")
def numpy_choice(call: Call, a: Value, size: Value = None, replace: Value = True, p: Value = None) -> Tensor:
    """Elements of a vector, or integers below a number."""
    held = as_tensor(a, "numpy")
    if held.shape.rank not in (None, 0, 1):
        raise Mismatch(WRONG_RANK, f"choice takes a vector or a number, not {held.shape}", tensors=(held,))
    shape = SCALAR if size is None else Shape(as_sizes(size))
    return Tensor(shape, held.dtype or "i64", "numpy")


@shape_rule("numpy.random.permutation")
def numpy_permutation(call: Call, x: Value, axis: Value = 0) -> Tensor:
    """The integers below a number, or the rows of an array, in another order."""
    count = as_size(x)
    if count is not None:
        return Tensor(Shape((count,)), "i64", "numpy")
    held = as_tensor(x, "numpy")
    return held.with_shape(held.shape, framework="numpy")


@shape_rule("numpy.random.shuffle", "numpy.random.seed")
def numpy_nothing(call: Call, *arguments: Value) -> Value:
    """Changes its argument or its state, and returns nothing."""
    return None


def _vectors(call: Call, length: Size, size: Value, dtype: str) -> Tensor:
    if isinstance(size, Unknown):
        raise NotKnown
    sizes = () if size is None else as_sizes(size)
    return Tensor(Shape((*sizes, length)), dtype, "numpy")


@shape_rule("numpy.random.multivariate_normal")
def numpy_multivariate_normal(call: Call, mean: Tensor, cov: Tensor, size: Value = None, **options: Value) -> Tensor:
    """Vectors as long as the mean."""
    return _vectors(call, mean.shape[0] if mean.shape.rank != 0 else unknown(), size, "f64")


@shape_rule("numpy.random.dirichlet")
def numpy_dirichlet(call: Call, alpha: Tensor, size: Value = None) -> Tensor:
    """Vectors as long as the concentrations."""
    return _vectors(call, alpha.shape[0] if alpha.shape.rank != 0 else unknown(), size, "f64")


@shape_rule("numpy.random.multinomial")
def numpy_multinomial(call: Call, n: Value, pvals: Tensor, size: Value = None) -> Tensor:
    """Counts as long as the probabilities."""
    return _vectors(call, pvals.shape[-1] if pvals.shape.rank != 0 else unknown(), size, "i64")


Method = Callable[..., Value]


def _distribution(count: int) -> Method:
    def method(self: object, call: Call, *arguments: Value, **keywords: Value) -> Tensor:
        parameters, size = _parameters_and_size(count, arguments, keywords)
        return drawn(call, size, parameters, "numpy")

    return method


class _Distributions:
    """What the old and the new generator of NumPy share."""

    normal = uniform = laplace = logistic = gumbel = lognormal = beta = gamma = binomial = negative_binomial = _distribution(2)
    exponential = poisson = standard_gamma = rayleigh = chisquare = geometric = pareto = weibull = power = standard_t = (
        _distribution(1)
    )
    random = standard_normal = standard_exponential = standard_cauchy = _distribution(0)

    def shuffle(self, call: Call, x: Value, axis: Value = 0) -> Value:
        return None

    def permutation(self, call: Call, x: Value, axis: Value = 0) -> Tensor:
        return numpy_permutation(call, x, axis)

    def multivariate_normal(self, call: Call, mean: Tensor, cov: Tensor, size: Value = None, **options: Value) -> Tensor:
        return numpy_multivariate_normal(call, mean, cov, size)

    def dirichlet(self, call: Call, alpha: Tensor, size: Value = None) -> Tensor:
        return numpy_dirichlet(call, alpha, size)

    def multinomial(self, call: Call, n: Value, pvals: Tensor, size: Value = None) -> Tensor:
        return numpy_multinomial(call, n, pvals, size)


@native_class("numpy.random.default_rng", "numpy.random.Generator")
class Generator(_Distributions):
    """NumPy's generator."""

    seed: Value = None

    def integers(
        self, call: Call, low: Value, high: Value = None, size: Value = None, dtype: Value = None, endpoint: Value = False
    ) -> Tensor:
        return numpy_randint(call, low, high, size, dtype)

    def choice(
        self, call: Call, a: Value, size: Value = None, replace: Value = True, p: Value = None, axis: int = 0, shuffle: Value = True
    ) -> Tensor:
        held = as_tensor(a, "numpy")
        if held.shape.rank in (0, 1):
            return numpy_choice(call, held, size)
        if held.shape.rank is None or isinstance(size, Unknown):
            raise NotKnown
        position = resolved_axis(call, held, axis)
        sizes = () if size is None else as_sizes(size)
        return held.with_shape(Shape((*held.shape.dims[:position], *sizes, *held.shape.dims[position + 1 :])))

    def permuted(self, call: Call, x: Tensor, axis: Value = None, out: Value = None) -> Tensor:
        return x.with_shape(x.shape, framework="numpy")


@native_class("numpy.random.RandomState")
class RandomState(_Distributions):
    """NumPy's older generator."""

    seed: Value = None

    random_sample = _distribution(0)

    def rand(self, call: Call, *sizes: Value) -> Tensor:
        return numpy_by_sizes(*sizes)

    randn = rand

    def randint(self, call: Call, low: Value, high: Value = None, size: Value = None, dtype: Value = None) -> Tensor:
        return numpy_randint(call, low, high, size, dtype)

    def choice(self, call: Call, a: Value, size: Value = None, replace: Value = True, p: Value = None) -> Tensor:
        return numpy_choice(call, a, size)


# -- PyTorch ----------------------------------------------------------------------------------------------------------


@shape_rule("torch.rand", "torch.randn")
def torch_random(*size: Value, dtype: Value = None, **options: Value) -> Tensor:
    """Of the given sizes."""
    if not size and "size" in options:
        size = (options["size"],)
    return Tensor(sizes_of(size), dtype_name(dtype, "f32"), "torch")


@shape_rule("torch.randint")
def torch_randint(*arguments: Value, high: Value = None, size: Value = None, dtype: Value = None, **options: Value) -> Tensor:
    """Integers; the limits come first, the sizes last."""
    sizes = size if size is not None else arguments[-1] if arguments else None
    if sizes is None or isinstance(sizes, Unknown):
        raise NotKnown
    return Tensor(Shape(as_sizes(sizes)), dtype_name(dtype, "i64"), "torch")


@shape_rule("torch.randperm")
def torch_randperm(n: Size, *, dtype: Value = None, **options: Value) -> Tensor:
    """The integers below a number, in random order."""
    return Tensor(Shape((n,)), dtype_name(dtype, "i64"), "torch")


@shape_rule("torch.normal")
def torch_normal(call: Call, mean: Tensor, std: Value = 1.0, size: Value = None, **options: Value) -> Tensor:
    """Of the given sizes, or of the shape of the parameters."""
    if size is not None:
        return Tensor(Shape(as_sizes(size)), "f32", "torch")
    return Tensor(all_broadcast(call, [mean, as_tensor(std, "torch")]), "f32", "torch")


@shape_rule("torch.bernoulli", "torch.Tensor.bernoulli", "torch.poisson")
def torch_bernoulli(call: Call, input: Tensor, *options: Value, **keywords: Value) -> Tensor:
    """One draw per probability."""
    return input.with_shape(input.shape)


@shape_rule("torch.multinomial", "torch.Tensor.multinomial")
def torch_multinomial(call: Call, input: Tensor, num_samples: Size, replacement: Value = False, **options: Value) -> Tensor:
    """Draws from each row of probabilities."""
    if input.shape.rank is not None and input.shape.rank not in (1, 2):
        raise Mismatch(WRONG_RANK, f"multinomial takes a vector or a matrix, not {input.shape}", tensors=(input,))
    return input.with_shape(input.shape.without_last(1).extended(num_samples), dtype="i64")


# -- TensorFlow, Keras ------------------------------------------------------------------------------------------------


@shape_rule(
    *spelled("tf.random", "normal uniform truncated_normal stateless_normal stateless_uniform stateless_truncated_normal"),
    *spelled("tf", "random_normal random_uniform truncated_normal"),
    *spelled("keras.random", "normal uniform truncated_normal randint"),
)
def tf_random(call: Call, shape: Sizes, *options: Value, dtype: Value = None, **keywords: Value) -> Tensor:
    """Of the given sizes."""
    kind = (
        "i32"
        if call.name.endswith("randint")
        else next((o for o in (dtype, *options) if not isinstance(o, int | float | Tensor)), None)
    )
    return Tensor(Shape(shape), kind if isinstance(kind, str) and kind == "i32" else dtype_name(kind, "f32"), call.framework)


@shape_rule("tf.random.categorical", "tf.multinomial", "keras.random.categorical")
def tf_categorical(call: Call, logits: Tensor, num_samples: Size, *options: Value, **keywords: Value) -> Tensor:
    """Draws from each row of scores."""
    if logits.shape.rank is not None and logits.shape.rank != 2:
        raise Mismatch(WRONG_RANK, f"categorical takes a matrix of scores, not {logits.shape}", tensors=(logits,))
    return logits.with_shape(Shape((logits.shape[0], num_samples)), dtype="i64", framework=call.framework)


@shape_rule("tf.random.shuffle", "tf.random_shuffle", "keras.random.shuffle")
def tf_shuffle(call: Call, value: Tensor, *options: Value, **keywords: Value) -> Tensor:
    """The rows in another order."""
    return value.with_shape(value.shape, framework=call.framework)


@shape_rule("tf.random.gamma", "tf.random.poisson", "tf.random_gamma")
def tf_gamma(call: Call, shape: Sizes, alpha: Tensor, beta: Value = None, *options: Value, **keywords: Value) -> Tensor:
    """Of the given sizes for each parameter."""
    return alpha.with_shape(alpha.shape.preceded(*shape), dtype="f32", framework="tf")


@native_class("keras.random.SeedGenerator")
class SeedGenerator:
    """The state of Keras's random functions."""

    seed: Value = None

    def next(self, call: Call, ordered: Value = True) -> Tensor:
        return Tensor(Shape((2,)), "u32", "keras")


# -- JAX --------------------------------------------------------------------------------------------------------------


@shape_rule("jax.random.PRNGKey", "jax.random.key")
def jax_key(call: Call, seed: Value, *, impl: Value = None) -> Tensor:
    """A key: the older kind is a vector of two numbers."""
    return Tensor(Shape((2,)) if call.name.endswith("PRNGKey") else SCALAR, "u32", "jax")


@shape_rule("jax.random.split")
def jax_split(call: Call, key: Tensor, num: Sizes = (2,)) -> Tensor:
    """Several keys of one."""
    return key.with_shape(key.shape.preceded(*num))


@shape_rule("jax.random.fold_in")
def jax_fold_in(call: Call, key: Tensor, data: Value) -> Tensor:
    """Another key."""
    return key.with_shape(key.shape)


@shape_rule(*spelled("jax.random", "normal uniform gumbel exponential laplace logistic cauchy randint bits"))
def jax_random(call: Call, key: Value, shape: Sizes = (), *options: Value, **keywords: Value) -> Tensor:
    """Of the given sizes. Limits of the distribution stand before the type, or behind it."""
    given = next(filter(None, map(dtype_name, (*options, keywords.get("dtype")))), "")
    return Tensor(Shape(shape), given or ("i32" if call.name.endswith("randint") else "f32"), "jax")


def _jax_drawn(call: Call, shape: Sizes | None, *parameters: Value) -> Tensor:
    return drawn(call, shape, parameters, "jax")


@shape_rule("jax.random.bernoulli")
def jax_bernoulli(call: Call, key: Value, p: Value = 0.5, shape: Sizes | None = None, **options: Value) -> Tensor:
    """Of the given sizes, or of the shape of the probabilities."""
    return _jax_drawn(call, shape, p)


@shape_rule("jax.random.gamma", "jax.random.poisson", "jax.random.t")
def jax_gamma(call: Call, key: Value, a: Value, shape: Sizes | None = None, *options: Value, **keywords: Value) -> Tensor:
    """Of the given sizes, or of the shape of the parameter."""
    return _jax_drawn(call, shape, a)


@shape_rule("jax.random.beta", "jax.random.truncated_normal")
def jax_beta(call: Call, key: Value, a: Value, b: Value, shape: Sizes | None = None, *options: Value) -> Tensor:
    """Of the given sizes, or of the shape of the parameters."""
    return _jax_drawn(call, shape, a, b)


@shape_rule("jax.random.categorical")
def jax_categorical(call: Call, key: Value, logits: Tensor, axis: int = -1, shape: Sizes | None = None, **options: Value) -> Tensor:
    """One draw per vector of scores along an axis."""
    position = resolved_axis(call, logits, axis)
    if shape is not None:
        return Tensor(Shape(shape), "i32", "jax")
    if logits.shape.rank is None:
        return Tensor(logits.shape.without_last(1) if axis == -1 else ANY_SHAPE, "i32", "jax")
    dims = logits.shape.dims
    return Tensor(Shape((*dims[:position], *dims[position + 1 :])), "i32", "jax", history=logits.history)


@shape_rule("jax.random.choice")
def jax_choice(
    call: Call, key: Value, a: Tensor, shape: Sizes = (), replace: Value = True, p: Value = None, axis: int = 0, **options: Value
) -> Tensor:
    """Elements along an axis, or integers below a number."""
    if a.shape.rank == 0:
        return Tensor(Shape(shape), "i32", "jax")
    if a.shape.rank is None:
        raise NotKnown
    position = resolved_axis(call, a, axis)
    dims = a.shape.dims
    return a.with_shape(Shape((*dims[:position], *shape, *dims[position + 1 :])), framework="jax")


@shape_rule("jax.random.permutation")
def jax_permutation(call: Call, key: Value, x: Value, axis: int = 0, independent: Value = False) -> Tensor:
    """The integers below a number, or the elements along an axis, in another order."""
    count = as_size(x)
    if count is not None:
        return Tensor(Shape((count,)), "i32", "jax")
    held = as_tensor(x, "jax")
    resolved_axis(call, held, axis)
    return held.with_shape(held.shape, framework="jax")
