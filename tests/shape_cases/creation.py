"""Arrays made from sizes, values, and random numbers; diagonals and triangles."""

from __future__ import annotations

from tensorproof.shapes.families import creation, random_numbers, triangles
from tests.shape_cases import Draw, cases, names_of


def _size(draw: Draw, least: int = 0, most: int = 3) -> str:
    return str(draw.shape(least, most))


@cases(*names_of(creation.torch_filled, random_numbers.torch_random))
def _(draw: Draw) -> str:
    shape = draw.shape(1)
    return draw.call(", ".join(map(str, shape)) if draw.chance(0.5) else draw.pick([str(shape), str(list(shape)), f"size={shape}"]))


@cases(*names_of(creation.torch_new_filled))
def _(draw: Draw) -> str:
    shape = draw.shape(1)
    return draw.call(draw.array((2,)), ", ".join(map(str, shape)) if draw.chance(0.5) else str(shape))


@cases(*names_of(creation.numpy_filled, creation.keras_filled))
def _(draw: Draw) -> str:
    return draw.call(
        draw.pick([_size(draw), f"{draw.integer(0, 4)}"]) if not draw.name.startswith(("tf", "keras")) else _size(draw)
    )


@cases(*names_of(creation.torch_full, creation.numpy_full, creation.tf_fill))
def _(draw: Draw) -> str:
    shape = draw.shape(0, 3)
    value = "1.0" if draw.name.startswith(("torch", "keras")) or draw.chance(0.4) else draw.array(draw.varied(shape, 0.5))
    return draw.call(str(shape), value)


@cases("torch.Tensor.new_full")
def _(draw: Draw) -> str:
    return draw.call(draw.array((2,)), _size(draw), "1.0")


@cases(*names_of(creation.torch_like, creation.numpy_like))
def _(draw: Draw) -> str:
    others = {"full_like": ("1.0",), "randint_like": ("5",)}.get(draw.short, ())
    with_shape = draw.name.startswith(("numpy", "jax")) and draw.chance(0.3)
    return draw.call(draw.array(draw.shape()), *others, *((f"shape={_size(draw)}",) if with_shape else ()))


@cases(*names_of(creation.numpy_full_like))
def _(draw: Draw) -> str:
    shape = draw.shape(0, 3)
    value = "1.0" if draw.name.startswith("keras") or draw.chance(0.4) else draw.array(draw.varied(shape, 0.5))
    return draw.call(draw.array(shape), value)


@cases(*names_of(creation.torch_arange, creation.numpy_arange, creation.keras_arange, creation.tf_range))
def _(draw: Draw) -> str:
    start = draw.pick([str(draw.integer(0, 3)), "0.5"])
    stop = str(draw.integer(4, 9))
    forms = [(str(draw.integer(0, 5)),), (start, stop), (start, stop, draw.pick(["1", "2", "3", "0.5"]))]
    chosen = draw.pick(forms)
    if draw.name.startswith(("tf", "keras")):
        chosen = tuple(part if part != "0.5" else "1" for part in chosen)
    return draw.call(*chosen)


@cases(*names_of(creation.torch_linspace, creation.tf_linspace))
def _(draw: Draw) -> str:
    return draw.call("1.0", "2.0", str(draw.integer(1, 6)))


@cases(*names_of(creation.numpy_linspace))
def _(draw: Draw) -> str:
    if draw.chance(0.5) or draw.name.startswith("keras"):
        return draw.call("1.0", "2.0", *((f"num={draw.integer(1, 6)}",) if draw.chance(0.7) else ()))
    shape = draw.shape(0, 3)
    maker = "jnp.ones" if draw.name.startswith("jax") else "np.ones"
    return draw.call(f"{maker}({shape})", f"{maker}({draw.varied(shape, 0.5)})", f"num={draw.integer(1, 6)}")


@cases(*names_of(creation.eye, triangles.tri, creation.tf_eye))
def _(draw: Draw) -> str:
    others = (str(draw.integer(1, 5)),) if draw.chance(0.5) else ()
    batch = (f"batch_shape={list(draw.shape(0, 2))}",) if draw.name.startswith("tf") and draw.chance(0.5) else ()
    return draw.call(str(draw.integer(1, 5)), *others, *batch)


@cases(*names_of(creation.identity, creation.numpy_window, creation.torch_window, random_numbers.torch_randperm))
def _(draw: Draw) -> str:
    beta = ("1.0",) if draw.short == "kaiser" else ()
    return draw.call(str(draw.integer(1, 6)), *beta)


@cases(*names_of(creation.torch_tensor, creation.torch_constructor, creation.numpy_array, creation.convert_to_tensor))
def _(draw: Draw) -> str:
    rows, columns = draw.integer(1, 3), draw.integer(1, 3)
    nested = str([[1] * columns] * rows) if draw.chance(0.6) else str([1.5 if "Tensor" not in draw.short else 1] * columns)
    if draw.short == "scalar_tensor":
        return draw.call("1.0")
    if draw.short == "new_tensor":
        return draw.call(draw.array((2,)), nested)
    if draw.short.endswith("Tensor") and draw.chance(0.5):
        return f"{draw.name}({', '.join(map(str, draw.shape(1)))})"
    first = nested if draw.chance(0.7) or draw.short.endswith("Tensor") else draw.array(draw.shape())
    options = (f"ndmin={draw.integer(0, 3)}",) if draw.short == "array" and "keras" not in draw.name and draw.chance(0.3) else ()
    return f"{draw.name}({first})" if draw.short.endswith("Tensor") else draw.call(first, *options)


@cases("torch.from_numpy", setup="import numpy as np")
def _(draw: Draw) -> str:
    return draw.call(f"np.zeros({draw.shape()})")


@cases("tf.constant")
def _(draw: Draw) -> str:
    count = draw.integer(1, 6)
    shape = draw.pick([(count,), (2, 3), (6,), (3, 2, 1), (2, 2)])
    return draw.call(str([1] * count), *((f"shape={shape}",) if draw.chance(0.7) else ()))


@cases("numpy.fromiter")
def _(draw: Draw) -> str:
    return draw.call(str(list(range(draw.integer(0, 5)))), "float")


@cases("numpy.fromfunction", "jax.numpy.fromfunction")
def _(draw: Draw) -> str:
    return draw.call("lambda i, j: i + j", _size(draw, 2, 2))


@cases("numpy.indices", "jax.numpy.indices")
def _(draw: Draw) -> str:
    return draw.call(_size(draw, 1))


@cases(*names_of(creation.torch_meshgrid, creation.numpy_meshgrid))
def _(draw: Draw) -> str:
    wrong = 2 if draw.name.startswith(("torch", "jax")) and draw.chance(0.2) else 1
    vectors = [draw.array(draw.shape(1, wrong)) for _ in range(draw.integer(2, 3))]
    return draw.call(*vectors, *((f"indexing={draw.pick(['xy', 'ij'])!r}",) if draw.chance(0.6) else ()))


@cases("torch.nn.functional.one_hot", "tf.one_hot", "jax.nn.one_hot", "keras.ops.one_hot")
def _(draw: Draw) -> str:
    shape = draw.shape(0, 3)
    dtype = "int64" if draw.name.startswith("torch") else "int32"
    return draw.call(draw.array_of(shape, dtype), str(draw.integer(1, 5)))


@cases("keras.utils.to_categorical", setup="import numpy as np")
def _(draw: Draw) -> str:
    return draw.call(f"np.zeros({draw.shape(1)}, dtype='int64')", str(draw.integer(1, 5)))


@cases("tf.sequence_mask")
def _(draw: Draw) -> str:
    return draw.call(draw.array_of(draw.shape(0, 3), "int32"), str(draw.integer(1, 5)))


# -- triangles --------------------------------------------------------------------------------------------------------


@cases(*names_of(triangles.torch_triangle, triangles.numpy_triangle, triangles.keras_triangle, triangles.tf_band_part))
def _(draw: Draw) -> str:
    limits = ("0", "-1") if draw.short.endswith("band_part") else ()
    return draw.call(draw.array(draw.shape(0, 4)), *limits)


@cases(*names_of(triangles.torch_triangle_indices), imprecise=True)
def _(draw: Draw) -> str:
    return draw.call(str(draw.integer(1, 4)), str(draw.integer(1, 4)))


@cases(*names_of(triangles.numpy_triangle_indices), imprecise=True)
def _(draw: Draw) -> str:
    return draw.call(str(draw.integer(1, 4)))


@cases(*names_of(triangles.torch_diag, triangles.numpy_diag))
def _(draw: Draw) -> str:
    return draw.call(
        draw.array(draw.shape(0, 3)), *((str(draw.integer(0, 1)),) if draw.chance(0.3) and "keras" not in draw.name else ())
    )


@cases(*names_of(triangles.tf_diag, triangles.tf_diag_part))
def _(draw: Draw) -> str:
    return draw.call(draw.array(draw.shape(0, 3)))


# -- random numbers ---------------------------------------------------------------------------------------------------

_PARAMETERS = {
    "binomial": "3, 0.5", "negative_binomial": "3, 0.5", "beta": "1.0, 1.0", "gamma": "1.0, 1.0", "vonmises": "0.0, 1.0", "standard_gamma": "1.0",
    "standard_t": "3", "chisquare": "3", "geometric": "0.5", "pareto": "1.0", "weibull": "1.0", "power": "1.0",
}  # fmt: skip
_METHODS = (
    "normal",
    "uniform",
    "standard_normal",
    "random",
    "gamma",
    "poisson",
    "beta",
    "exponential",
    "permutation",
    "choice",
    "integers",
)


@cases(*names_of(random_numbers.numpy_distribution))
def _(draw: Draw) -> str:
    parameters = (_PARAMETERS[draw.short],) if draw.short in _PARAMETERS else ()
    if draw.short in ("normal", "laplace", "gumbel") and draw.chance(0.5):
        shape = draw.shape(1, 3)
        return draw.call(
            draw.array(shape),
            f"np.ones({draw.varied(shape, 0.3)})",
            *((f"size={draw.varied(shape, 0.3)}",) if draw.chance(0.5) else ()),
        )
    return draw.call(*parameters, f"size={_size(draw)}")


@cases("numpy.random.default_rng")
def _(draw: Draw) -> str:
    maker = "np.random.default_rng(0)"
    name = draw.pick(_METHODS)
    if name == "permutation":
        return f"{maker}.permutation({draw.pick(['5', draw.array(draw.shape(1))])})"
    if name == "choice":
        return f"{maker}.choice({draw.array(draw.shape(1))}, size={_size(draw, 1, 2)})"
    if name == "integers":
        return f"{maker}.integers(0, 5, size={draw.pick(['3', _size(draw)])})"
    return f"{maker}.{name}({_PARAMETERS[name] + ', ' if name in _PARAMETERS else ''}size={_size(draw)})"


@cases("numpy.random.RandomState")
def _(draw: Draw) -> str:
    maker = "np.random.RandomState(0)"
    return draw.pick([f"{maker}.randn(2, {draw.integer(1, 4)})", f"{maker}.randint(0, 5, size={_size(draw)})", f"{maker}.normal(0.0, 1.0, {_size(draw)})",
                      f"{maker}.permutation(7)", f"{maker}.random_sample({_size(draw)})", f"{maker}.choice(5, {_size(draw, 1)})"])  # fmt: skip


@cases("numpy.random.rand", "numpy.random.randn")
def _(draw: Draw) -> str:
    return draw.call(*map(str, draw.shape(1)))


@cases("numpy.random.randint")
def _(draw: Draw) -> str:
    return draw.call("0", "5", f"size={_size(draw)}")


@cases("numpy.random.choice")
def _(draw: Draw) -> str:
    return draw.call(draw.pick(["5", draw.array(draw.shape(1, 2))]), _size(draw, 1))


@cases("numpy.random.permutation")
def _(draw: Draw) -> str:
    return draw.call(draw.pick(["5", draw.array(draw.shape(1))]))


@cases("numpy.random.multivariate_normal", "numpy.random.dirichlet", "numpy.random.multinomial")
def _(draw: Draw) -> str:
    count = draw.integer(1, 3)
    first = {
        "multivariate_normal": f"np.zeros({count}), np.eye({count})",
        "dirichlet": f"np.ones({count})",
        "multinomial": f"4, np.ones({count}) / {count}",
    }
    return draw.call(first[draw.short], *((f"size={_size(draw)}",) if draw.chance(0.7) else ()))


@cases("torch.randint")
def _(draw: Draw) -> str:
    return draw.call(*draw.pick([("0", "5"), ("5",)]), draw.pick([_size(draw), f"size={_size(draw)}"]))


@cases("torch.normal")
def _(draw: Draw) -> str:
    shape = draw.shape()
    if draw.chance(0.4):
        return draw.call("0.0", "1.0", f"size={shape}")
    return draw.call(draw.array(shape), draw.pick(["1.0", f"torch.ones({draw.varied(shape, 0.4)})"]))


@cases("torch.bernoulli", "torch.Tensor.bernoulli", "torch.poisson")
def _(draw: Draw) -> str:
    return draw.call(draw.array(draw.shape()))


@cases("torch.multinomial", "torch.Tensor.multinomial")
def _(draw: Draw) -> str:
    return draw.call(f"torch.ones({draw.shape(0, 3)})", str(draw.integer(1, 5)), "True")


@cases(*names_of(random_numbers.tf_random))
def _(draw: Draw) -> str:
    others = ("0", "5") if draw.short == "randint" else ()
    return draw.call(_size(draw), *others, *(("seed=(1, 2)",) if "stateless" in draw.short else ()))


@cases(*names_of(random_numbers.tf_categorical))
def _(draw: Draw) -> str:
    return draw.call(draw.array(draw.shape(1, 3)), str(draw.integer(1, 5)))


@cases(*names_of(random_numbers.tf_shuffle))
def _(draw: Draw) -> str:
    return draw.call(draw.array(draw.shape(1)))


@cases(*names_of(random_numbers.tf_gamma))
def _(draw: Draw) -> str:
    return draw.call(_size(draw, 1), f"tf.ones({draw.shape(0, 2)})")


@cases("jax.random.PRNGKey", "jax.random.key")
def _(draw: Draw) -> str:
    return draw.call(str(draw.integer(0, 9)))


@cases("jax.random.split")
def _(draw: Draw) -> str:
    return draw.call(
        draw.pick(["jax.random.PRNGKey(0)", "jax.random.key(0)"]), *((str(draw.integer(1, 5)),) if draw.chance(0.7) else ())
    )


@cases("jax.random.fold_in")
def _(draw: Draw) -> str:
    return draw.call("jax.random.PRNGKey(0)", str(draw.integer(1, 5)))


@cases(*names_of(random_numbers.jax_random))
def _(draw: Draw) -> str:
    return draw.call("jax.random.key(0)", _size(draw), *(("0", "5") if draw.short == "randint" else ()))


@cases(*names_of(random_numbers.jax_bernoulli, random_numbers.jax_gamma, random_numbers.jax_beta))
def _(draw: Draw) -> str:
    shape = draw.shape(0, 3)
    parameters = [f"jnp.ones({shape})"] * (2 if draw.short in ("beta", "truncated_normal") else 1)
    return draw.call("jax.random.key(0)", *parameters, *((f"shape={draw.varied(shape, 0.4)}",) if draw.chance(0.5) else ()))


@cases("jax.random.categorical")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    return draw.call("jax.random.key(0)", draw.array(shape), *((f"axis={draw.axis(len(shape))}",) if draw.chance(0.6) else ()))


@cases("jax.random.choice")
def _(draw: Draw) -> str:
    return draw.call("jax.random.key(0)", draw.pick(["5", draw.array(draw.shape(1, 3))]), _size(draw, 0, 2))


@cases("jax.random.permutation")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    return draw.call("jax.random.key(0)", draw.pick(["5", f"{draw.array(shape)}, axis={draw.axis(len(shape))}"]))
