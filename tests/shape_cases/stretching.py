"""Arrays stretched to a larger shape, and turned around."""

from __future__ import annotations

from tests.shape_cases import Draw, cases
from tests.shape_cases.axes import called


def _target(draw: Draw, shape: tuple[int, ...]) -> tuple[int, ...]:
    target = [size if size != 1 or draw.chance(0.3) else draw.integer(1, 5) for size in shape]
    if draw.chance(0.3):
        target = [draw.integer(1, 3), *target]
    return draw.varied(target, 0.3)


def _source(draw: Draw) -> tuple[int, ...]:
    return tuple(1 if draw.chance(0.4) else size for size in draw.shape(0, 3))


@cases(
    "torch.broadcast_to", "torch.Tensor.broadcast_to", "torch.Tensor.expand", "numpy.broadcast_to", "tf.broadcast_to",
    "keras.ops.broadcast_to", "jax.numpy.broadcast_to",
)  # fmt: skip
def _(draw: Draw) -> str:
    shape = _source(draw)
    target = _target(draw, shape)
    if draw.name.startswith("torch"):
        target = tuple(-1 if draw.chance(0.2) else size for size in target)
    if draw.short == "expand" and target and draw.chance(0.5):
        return called(draw, shape, *target)
    return called(draw, shape, target)


@cases("torch.Tensor.expand_as")
def _(draw: Draw) -> str:
    shape = _source(draw)
    return called(draw, shape, draw.array(_target(draw, shape)))


@cases("jax.lax.broadcast")
def _(draw: Draw) -> str:
    return called(draw, draw.shape(0, 3), draw.shape(0, 2))


@cases("jax.lax.broadcast_in_dim")
def _(draw: Draw) -> str:
    target = draw.shape(1, 4)
    axes = tuple(axis for axis in range(len(target)) if draw.chance(0.6))
    source = draw.varied(tuple(target[axis] if draw.chance(0.7) else 1 for axis in axes), 0.2)
    if draw.chance(0.15):
        axes = (*axes, draw.integer(0, len(target)))
    return called(draw, source, target, axes)


@cases("torch.flip", "torch.Tensor.flip", "numpy.flip", "tf.reverse", "keras.ops.flip", "jax.numpy.flip", "jax.lax.rev")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    rank = len(shape)
    axes = tuple(draw.axis(rank) for _ in range(draw.integer(1, 2)))
    if draw.short == "reverse":
        return called(draw, shape, list(axes))
    if draw.name.startswith(("numpy", "jax.numpy", "keras")) and draw.chance(0.5):
        return called(draw, shape) if draw.chance(0.3) else called(draw, shape, axes[0])
    return called(draw, shape, *axes) if draw.is_method and draw.chance(0.5) else called(draw, shape, axes)


@cases(*(f"{library}{name}" for library in ("torch.", "torch.Tensor.", "numpy.", "jax.numpy.") for name in ("fliplr", "flipud")))
def _(draw: Draw) -> str:
    return called(draw, draw.shape(0, 3))


@cases("torch.roll", "torch.Tensor.roll", "numpy.roll", "tf.roll", "keras.ops.roll", "jax.numpy.roll")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    rank = len(shape)
    if draw.name != "tf.roll" and draw.chance(0.2):
        return called(draw, shape, draw.integer(-3, 3))
    if draw.chance(0.5):
        return called(draw, shape, draw.integer(-3, 3), draw.axis(rank))
    count = draw.integer(1, 2)
    axes = [draw.axis(rank) for _ in range(count if draw.chance(0.8) or draw.name[:2] != "to" else 3 - count)]
    return called(draw, shape, [draw.integer(-2, 2) for _ in range(count)], axes)


@cases("torch.rot90", "torch.Tensor.rot90", "numpy.rot90", "keras.ops.rot90", "jax.numpy.rot90")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    rank = len(shape)
    # Whether Keras looks at the axes without a turn depends on its backend.
    turns = draw.integer(1 if draw.name.startswith("keras") else 0, 3)
    return called(draw, shape, turns, (draw.axis(rank, 0.1), draw.axis(rank, 0.1)))
