"""Elements picked by positions and masks."""

from __future__ import annotations

from tests.shape_cases import Draw, cases
from tests.shape_cases.axes import called, spelled


def positions(draw: Draw, shape: tuple[int, ...]) -> str:
    """An array of zeros that can be an index."""
    size = "(" + "".join(f"{part}, " for part in shape) + ")"
    library = draw.name.partition(".")[0]
    return {
        "torch": f"torch.zeros({size}, dtype=torch.int64)",
        "numpy": f"np.zeros({size}, dtype=np.int64)",
        "tf": f"tf.zeros({size}, dtype=tf.int32)",
        "jax": f"jnp.zeros({size}, dtype=jnp.int32)",
        "keras": f"keras.ops.zeros({size}, dtype='int32')",
    }[library]


def mask(draw: Draw, shape: tuple[int, ...]) -> str:
    size = "(" + "".join(f"{part}, " for part in shape) + ")"
    library = draw.name.partition(".")[0]
    return {"torch": f"torch.zeros({size}, dtype=torch.bool)", "tf": f"tf.zeros({size}, dtype=tf.bool)"}[library]


@cases("torch.gather", "torch.Tensor.gather")
def _(draw: Draw) -> str:
    shape = draw.shape(0, 3)
    axis = draw.axis(len(shape), 0.1)
    index = tuple(draw.integer(1, size) if draw.chance(0.8) else draw.integer(1, 5) for size in shape)
    return called(draw, shape, axis, positions(draw, draw.varied(index, 0.15)))


@cases("torch.index_select", "torch.Tensor.index_select")
def _(draw: Draw) -> str:
    shape = draw.shape(0, 3)
    return called(draw, shape, draw.axis(len(shape)), positions(draw, draw.shape(0, 2 if draw.chance(0.2) else 1)))


@cases("torch.take", "torch.Tensor.take")
def _(draw: Draw) -> str:
    return called(draw, draw.shape(0, 3), positions(draw, draw.shape(0, 3)))


@cases(
    "torch.take_along_dim",
    "torch.Tensor.take_along_dim",
    "numpy.take_along_axis",
    "jax.numpy.take_along_axis",
    "keras.ops.take_along_axis",
)
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    axis = draw.axis(len(shape), 0.1)
    index = list(shape)
    if -len(shape) <= axis < len(shape):
        index[axis] = draw.integer(1, 4)
    index = [1 if draw.chance(0.1) else size for size in index]
    return called(draw, shape, positions(draw, draw.varied(index, 0.2)), axis)


@cases("numpy.take", "numpy.ndarray.take", "jax.numpy.take", "jax.Array.take", "keras.ops.take")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    index = positions(draw, draw.shape(0, 2))
    return called(draw, shape, index, *([draw.axis(len(shape))] if draw.chance(0.8) else []))


@cases("torch.select", "torch.Tensor.select")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    return called(draw, shape, draw.axis(len(shape)), draw.integer(-3, 3))


@cases("torch.narrow", "torch.Tensor.narrow")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    return called(draw, shape, draw.axis(len(shape)), draw.integer(-1, 2), draw.integer(0, 3))


@cases("torch.masked_select", "torch.Tensor.masked_select", imprecise=True)
def _(draw: Draw) -> str:
    shape = draw.shape(0, 3)
    return called(draw, shape, mask(draw, draw.varied(shape, 0.4)))


@cases("torch.searchsorted", "tf.searchsorted")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    values = draw.varied((*shape[:-1], draw.integer(1, 4)), 0.2)
    return called(draw, shape, draw.array(values))


@cases("torch.bucketize")
def _(draw: Draw) -> str:
    return called(draw, draw.shape(0, 3), draw.array(draw.shape(1, 1 if draw.chance(0.7) else 2)))


@cases("numpy.searchsorted", "numpy.ndarray.searchsorted", "jax.numpy.searchsorted", "keras.ops.searchsorted")
def _(draw: Draw) -> str:
    sorted_shape = draw.shape(1, 1 if draw.chance(0.7) or draw.name.startswith("keras") else 2)
    return called(draw, sorted_shape, draw.array((3,) if draw.name.startswith("keras") else draw.shape(0, 2)))


@cases("numpy.digitize", "jax.numpy.digitize")
def _(draw: Draw) -> str:
    return called(draw, draw.shape(0, 3), draw.array(draw.shape(1, 1 if draw.chance(0.7) else 2)))


@cases("numpy.delete", "jax.numpy.delete")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    number = draw.integer(-3, 3) if draw.name.startswith("numpy") else 0
    return called(draw, shape, number, *([draw.axis(len(shape))] if draw.chance(0.8) else []))


@cases("numpy.insert", "jax.numpy.insert", imprecise=True)
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    return called(draw, shape, 0, draw.array(()), *([draw.axis(len(shape))] if draw.chance(0.6) else []))


@cases("numpy.compress", imprecise=True)
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    axis = draw.axis(len(shape))
    size = shape[axis] if -len(shape) <= axis < len(shape) else 1
    return f"{spelled(draw)}({[True] * size}, {draw.array(shape)}, {axis})"


@cases("tf.gather")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    if draw.chance(0.3):
        return (
            called(draw, shape, positions(draw, draw.varied((*shape[:1], 2), 0.3)), "batch_dims=1")
            if len(shape) > 1
            else called(draw, shape, positions(draw, (2,)))
        )
    return called(draw, shape, positions(draw, draw.shape(0, 2)), *([f"axis={draw.axis(len(shape))}"] if draw.chance(0.7) else []))


@cases("tf.nn.embedding_lookup")
def _(draw: Draw) -> str:
    return called(draw, draw.shape(1, 3), positions(draw, draw.shape(0, 3)))


@cases("tf.gather_nd")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    return called(draw, shape, positions(draw, (*draw.shape(0, 2), draw.integer(1, len(shape) + draw.chance(0.3)))))


@cases("tf.boolean_mask", imprecise=True)
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    return called(draw, shape, mask(draw, draw.varied(shape[: draw.integer(1, len(shape))], 0.4)))
