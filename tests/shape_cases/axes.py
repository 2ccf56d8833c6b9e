"""Axes exchanged, added, removed."""

from __future__ import annotations

from tests.shape_cases import Draw, cases


def spelled(draw: Draw) -> str:
    """The name as a program writes it."""
    return draw.name.replace("numpy.", "np.", 1) if draw.name.startswith("numpy.") else draw.name


def called(draw: Draw, shape: tuple[int, ...], *arguments: object) -> str:
    """The function on an array of that shape, or the method of it."""
    array, rest = draw.array(shape), ", ".join(map(str, arguments))
    if draw.is_method:
        return f"{array}.{draw.short}({rest})"
    return f"{spelled(draw)}({array}{', ' if rest else ''}{rest})"


def _order(draw: Draw, rank: int) -> list[int]:
    order = sorted(range(rank), key=lambda _: draw.integer(0, 1000))
    if draw.chance(0.2):
        order = [axis - rank for axis in order]
    if draw.chance(0.25):
        change = draw.integer(0, 2)
        if change == 0:
            order.append(draw.integer(0, rank))
        elif order and change == 1:
            order.pop()
        elif order:
            order[draw.integer(0, len(order) - 1)] = draw.axis(rank, 0.5)
    return order


@cases(
    "torch.permute", "torch.Tensor.permute", "numpy.transpose", "numpy.ndarray.transpose", "numpy.permute_dims", "tf.transpose",
    "keras.ops.transpose", "jax.numpy.transpose", "jax.numpy.permute_dims", "jax.Array.transpose", "jax.lax.transpose",
)  # fmt: skip
def _(draw: Draw) -> str:
    shape = draw.shape(1, 4)
    order = _order(draw, len(shape))
    if draw.short == "transpose" and "lax" not in draw.name and draw.chance(0.2):
        return called(draw, shape)
    if draw.is_method and order and draw.chance(0.5):
        return called(draw, shape, *order)
    return called(draw, shape, tuple(order))


@cases(
    *(f"torch.{prefix}{name}" for prefix in ("", "Tensor.") for name in ("transpose", "swapdims", "swapaxes")),
    "numpy.swapaxes", "numpy.ndarray.swapaxes", "keras.ops.swapaxes", "jax.numpy.swapaxes", "jax.Array.swapaxes",
)  # fmt: skip
def _(draw: Draw) -> str:
    shape = draw.shape(0, 4)
    return called(draw, shape, draw.axis(len(shape)), draw.axis(len(shape)))


@cases("torch.t", "torch.Tensor.t")
def _(draw: Draw) -> str:
    return called(draw, draw.shape(0, 3))


@cases(
    "torch.Tensor.T", "numpy.ndarray.T", "jax.Array.T", "torch.Tensor.mT", "torch.Tensor.mH", "torch.Tensor.H", "numpy.ndarray.mT", "jax.Array.mT",
)  # fmt: skip
def _(draw: Draw) -> str:
    return f"{draw.array(draw.shape(0, 4))}.{draw.short}"


@cases("numpy.matrix_transpose", "jax.numpy.matrix_transpose", "tf.linalg.matrix_transpose")
def _(draw: Draw) -> str:
    return called(draw, draw.shape(0, 4))


@cases(
    *(f"torch.{prefix}{name}" for prefix in ("", "Tensor.") for name in ("movedim", "moveaxis")),
    "numpy.moveaxis", "keras.ops.moveaxis", "jax.numpy.moveaxis",
)  # fmt: skip
def _(draw: Draw) -> str:
    shape = draw.shape(0 if draw.name.startswith("torch") else 1, 4)
    rank = len(shape)
    if draw.chance(0.5):
        return called(draw, shape, draw.axis(rank), draw.axis(rank))
    count = draw.integer(1, 2)
    source, destination = (tuple(draw.axis(rank, 0.05) for _ in range(count)) for _ in range(2))
    if draw.name.startswith(("jax", "keras")) and any(
        len({axis % rank for axis in axes}) < count for axes in (source, destination)
    ):
        # What they do with an axis that is given twice is an accident.
        return called(draw, shape, 0, -1)
    return called(draw, shape, source, destination)


@cases("numpy.rollaxis", "jax.numpy.rollaxis")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 4)
    return called(draw, shape, draw.axis(len(shape)), *([draw.integer(-len(shape), len(shape) + 1)] if draw.chance(0.8) else []))


def _with_ones(draw: Draw, most: int = 4) -> tuple[int, ...]:
    return tuple(1 if draw.chance(0.5) else size for size in draw.shape(0, most))


@cases(
    "torch.squeeze", "torch.Tensor.squeeze", "numpy.squeeze", "numpy.ndarray.squeeze", "tf.squeeze", "keras.ops.squeeze",
    "jax.numpy.squeeze", "jax.Array.squeeze", "jax.lax.squeeze",
)  # fmt: skip
def _(draw: Draw) -> str:
    shape = _with_ones(draw)
    rank = len(shape)
    if draw.chance(0.3) and "lax" not in draw.name:
        return called(draw, shape)
    ones = [axis for axis, size in enumerate(shape) if size == 1]
    axis = draw.pick(ones) if ones and draw.chance(0.5) else draw.axis(rank)
    if draw.chance(0.3) or "lax" in draw.name:
        return called(draw, shape, (axis,) if draw.chance(0.5) else (axis, draw.axis(rank)))
    return called(draw, shape, axis)


@cases(
    "torch.unsqueeze", "torch.Tensor.unsqueeze", "numpy.expand_dims", "tf.expand_dims", "keras.ops.expand_dims",
    "jax.numpy.expand_dims", "jax.lax.expand_dims",
)  # fmt: skip
def _(draw: Draw) -> str:
    shape = draw.shape(0, 4)
    rank = len(shape)
    if "lax" in draw.name or (draw.name in ("numpy.expand_dims", "jax.numpy.expand_dims") and draw.chance(0.3)):
        return called(draw, shape, tuple(draw.axis(rank + 2, 0.1) for _ in range(2)))
    return called(draw, shape, draw.axis(rank + 1))
