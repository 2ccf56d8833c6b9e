"""Elements repeated, windows, padding."""

from __future__ import annotations

from tests.shape_cases import Draw, cases
from tests.shape_cases.axes import called


@cases("torch.Tensor.repeat", "torch.Tensor.tile", "torch.tile", "numpy.tile", "jax.numpy.tile", "keras.ops.tile", "tf.tile")
def _(draw: Draw) -> str:
    shape = draw.shape(0, 3)
    count = len(shape) if draw.chance(0.5) else draw.integer(0 if draw.name.startswith("torch") else 1, 4)
    times = tuple(draw.integer(1, 3) for _ in range(count))
    if draw.name == "tf.tile":
        return called(draw, shape, list(times)) if times else called(draw, (2,), [2])
    return called(draw, shape, *times) if draw.is_method and times and draw.chance(0.5) else called(draw, shape, times)


@cases(
    "torch.repeat_interleave", "torch.Tensor.repeat_interleave", "numpy.repeat", "numpy.ndarray.repeat", "jax.numpy.repeat",
    "jax.Array.repeat", "keras.ops.repeat", "tf.repeat",
)  # fmt: skip
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    axis = draw.axis(len(shape))
    if draw.chance(0.2):
        return called(draw, shape, draw.integer(1, 3))
    if draw.chance(0.4) and -len(shape) <= axis < len(shape):
        numbers = str([draw.integer(1, 3) for _ in range(shape[axis] if draw.chance(0.6) else draw.integer(1, 5))])
        maker = {"torch": "torch.tensor({})", "jax": "jnp.array({})", "keras": "np.array({})"}.get(
            draw.name.partition(".")[0], "{}"
        )
        if draw.name.startswith(("jax", "keras")):
            return called(draw, shape, draw.integer(1, 3), axis)
        return called(draw, shape, maker.format(numbers), axis)
    return called(draw, shape, draw.integer(1, 3), axis)


@cases("torch.Tensor.unfold")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    return called(draw, shape, draw.axis(len(shape)), draw.integer(1, 4), draw.integer(1, 2))


@cases("numpy.lib.stride_tricks.sliding_window_view")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    if draw.chance(0.5):
        return called(draw, shape, tuple(draw.integer(1, 3) for _ in draw.varied(shape, 0.15)))
    axes = tuple(draw.axis(len(shape), 0.08) for _ in range(draw.integer(1, 2)))
    return called(draw, shape, tuple(draw.integer(1, 3) for _ in axes), axes)


@cases("torch.nn.functional.pad")
def _(draw: Draw) -> str:
    shape = tuple(draw.integer(2, 5) for _ in range(draw.integer(1, 5)))
    mode = draw.pick(["constant", "constant", "reflect", "replicate", "circular"])
    count = 2 * draw.integer(1, len(shape)) if mode == "constant" else 2 * max(1, len(shape) - draw.integer(1, 2))
    pads = tuple(draw.integer(-1 if mode == "constant" else 0, 2) for _ in range(count + (draw.chance(0.1) and draw.integer(1, 2))))
    return f"F.pad({draw.array(shape)}, {pads}, mode={mode!r})"


@cases("numpy.pad", "jax.numpy.pad", "keras.ops.pad", "tf.pad")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    pairs = [[draw.integer(0, 2), draw.integer(0, 2)] for _ in draw.varied(shape, 0.25)]
    if draw.name.startswith("keras") and len(pairs) < 2:
        # Whether one pair stands for all axes depends on the backend.
        pairs = [[1, 1] for _ in shape]
    if draw.name.startswith("tf"):
        return called(draw, shape, pairs)
    if draw.chance(0.3) and not draw.name.startswith("keras"):
        return called(draw, shape, draw.pick([1, 2, (1, 2), ((1, 2),)]))
    return called(draw, shape, tuple(tuple(pair) for pair in pairs) or 1)


@cases("jax.lax.pad")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    rows = [(draw.integer(0, 2), draw.integer(-1, 2), draw.integer(0, 1)) for _ in draw.varied(shape, 0.25)]
    return called(draw, shape, "0.0", rows)
