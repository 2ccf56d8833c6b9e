"""Functions of each element, casts, and questions about shapes."""

from __future__ import annotations

from tensorproof.shapes.families import number_types, pointwise, shape_queries
from tests.shape_cases import Draw, cases, names_of

_OPTIONS = {
    "threshold": ("0.0", "1.0"),
    "dropout": ("0.5", "True"),
    "alpha_dropout": ("0.5", "True"),
    "feature_alpha_dropout": ("0.5", "True"),
    "fill_": ("0.0",),
}


def _dtype(draw: Draw) -> str:
    if draw.short in ("logical_not",) and draw.name.startswith(("tf", "keras")):
        return "bool"
    return "int32" if draw.short in ("bitwise_not", "invert") else ""


@cases(
    *names_of(
        pointwise.torch_elementwise,
        pointwise.torch_contiguous,
        pointwise.numpy_elementwise,
        pointwise.jax_elementwise,
        pointwise.scipy_elementwise,
        pointwise.tf_elementwise,
        pointwise.tf_activation,
        pointwise.keras_elementwise,
        number_types.torch_cast,
    )
)
def _(draw: Draw) -> str:
    least = 2 if draw.short in ("feature_alpha_dropout",) else 0
    return draw.call(draw.array_of(draw.shape(least), _dtype(draw)), *_OPTIONS.get(draw.short, ()))


@cases(*(name for name in names_of(pointwise.torch_refilled) if not name.endswith("pin_memory")))
def _(draw: Draw) -> str:
    return draw.call(draw.array(draw.shape()), *_OPTIONS.get(draw.short, ()))


@cases(*names_of(pointwise.torch_channel_dropout))
def _(draw: Draw) -> str:
    rank = {"dropout1d": 3, "dropout2d": 4, "dropout3d": 5, "feature_dropout": 4}[draw.short]
    return draw.call(draw.array(draw.shape(rank, rank, 3)), "0.5", "True")


@cases(*names_of(pointwise.torch_prelu))
def _(draw: Draw) -> str:
    return draw.call(draw.array(draw.shape(1)), draw.array(()))


@cases(*names_of(pointwise.torch_glu, pointwise.jax_glu))
def _(draw: Draw) -> str:
    shape = draw.shape(0, 3, 6)
    return draw.call(draw.array(shape), *((str(draw.axis(len(shape))),) if draw.chance(0.7) else ()))


@cases(*names_of(pointwise.tf_identity))
def _(draw: Draw) -> str:
    return draw.call(draw.array(draw.shape()), *(('"text"',) if draw.short == "check_numerics" else ()))


@cases("tf.nn.dropout", "tf.nn.experimental.stateless_dropout", "keras.random.dropout")
def _(draw: Draw) -> str:
    return draw.call(draw.array(draw.shape()), "0.5", *(("seed=(1, 2)",) if "stateless" in draw.name else ()))


@cases("tf.clip_by_norm")
def _(draw: Draw) -> str:
    return draw.call(draw.array(draw.shape()), "1.0")


@cases("tf.nn.l2_normalize", "tf.math.l2_normalize", "tf.linalg.l2_normalize")
def _(draw: Draw) -> str:
    return draw.call(draw.array(draw.shape(1)), "-1")


@cases(*names_of(pointwise.same_elements))
def _(draw: Draw) -> str:
    if draw.short == "grad":
        return f"[(x, x.sum().backward(), x.grad)[2] for x in [{draw.array(draw.shape())}.requires_grad_()]][0]"
    return f"{draw.array(draw.shape())}.{draw.short}"


# -- number types -----------------------------------------------------------------------------------------------------


@cases(*(name for name in names_of(number_types.torch_moved) if not name.endswith("cuda")))
def _(draw: Draw) -> str:
    return draw.call(draw.array(draw.shape()))


@cases("torch.Tensor.to", "torch.Tensor.type", "torch.Tensor.type_as")
def _(draw: Draw) -> str:
    options = {
        "to": ["torch.float16", "'cpu'", "torch.zeros(2)", "dtype=torch.int64"],
        "type": ["torch.int64", "torch.FloatTensor"],
        "type_as": ["torch.zeros(1)"],
    }
    return draw.call(draw.array(draw.shape()), draw.pick(options[draw.short]))


@cases(*names_of(number_types.numpy_astype, number_types.numpy_astype_function, number_types.keras_cast))
def _(draw: Draw) -> str:
    return draw.call(draw.array(draw.shape()), draw.pick(["'int32'", "'float16'"]))


@cases(*names_of(number_types.tf_cast, number_types.tf_old_cast))
def _(draw: Draw) -> str:
    return draw.call(draw.array(draw.shape()), *(() if draw.short.startswith("to_") else ("tf.int32",)))


@cases(*names_of(number_types.to_numpy, number_types.jax_moved))
def _(draw: Draw) -> str:
    return draw.call(draw.array(draw.shape()))


# -- questions --------------------------------------------------------------------------------------------------------


@cases(*names_of(shape_queries.shape_attribute, shape_queries.ndim_attribute, shape_queries.size_attribute))
def _(draw: Draw) -> str:
    return _plain(draw, f"{draw.array(draw.shape())}.{draw.short}")


def _plain(draw: Draw, question: str) -> str:
    """A tuple or number as the comparison wants it: JAX's abstract evaluation returns arrays only."""
    if draw.short in ("shape", "get_shape"):
        question = f"tuple({question})" if draw.name != "tf.shape" else question
    return f"jnp.zeros({question})" if draw.name.startswith("jax") else question


@cases("torch.Tensor.size", "numpy.size", "jax.numpy.size")
def _(draw: Draw) -> str:
    shape = draw.shape(0 if draw.is_method else 1)
    with_axis = draw.is_method is False or draw.chance(0.7)
    question = draw.call(draw.array(shape), *((str(draw.axis(len(shape))),) if with_axis else ()))
    return _plain(draw, question if with_axis else f"tuple({question})")


@cases(
    *names_of(
        shape_queries.torch_dim,
        shape_queries.torch_numel,
        shape_queries.numpy_shape,
        shape_queries.numpy_ndim,
        shape_queries.tf_shape,
        shape_queries.tf_rank,
        shape_queries.tf_size,
        shape_queries.tf_get_shape,
    )
)
def _(draw: Draw) -> str:
    return _plain(draw, draw.call(draw.array(draw.shape())))


@cases(*names_of(shape_queries.allclose), imprecise=True)
def _(draw: Draw) -> str:
    shape = draw.shape()
    return draw.call(draw.array(shape), draw.array(draw.varied(shape, 0.5)))


@cases(*names_of(shape_queries.array_equal), imprecise=True)
def _(draw: Draw) -> str:
    return draw.call(draw.array(draw.shape()), draw.array(draw.shape()))


_UNKNOWN_ANSWERS = names_of(
    shape_queries.tolist,
    shape_queries.predicate,
    shape_queries.unknown_attribute,
    shape_queries.dtype_attribute,
)


@cases(*(name for name in _UNKNOWN_ANSWERS if not name.startswith("jax")), imprecise=True)
def _(draw: Draw) -> str:
    array = draw.array((1,) if draw.short == "item" else draw.shape(1))
    is_attribute = draw.name in names_of(shape_queries.unknown_attribute, shape_queries.dtype_attribute)
    return f"{array}.{draw.short}" if is_attribute else draw.call(array)


@cases("torch.Tensor.item", "numpy.ndarray.item")
def _(draw: Draw) -> str:
    # A number is like a scalar array, as which it is compared.
    maker = "torch.tensor" if draw.name.startswith("torch") else "np.asarray"
    return f"{maker}({draw.array((1,) * draw.integer(0, 3))}.item())"
