"""Elements written by positions and masks."""

from __future__ import annotations

from tests.shape_cases import Draw, cases
from tests.shape_cases.axes import called, spelled
from tests.shape_cases.gathering import mask, positions


@cases(*(f"torch.{prefix}{name}" for prefix in ("", "Tensor.") for name in ("scatter", "scatter_add", "scatter_reduce")))
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    axis = draw.axis(len(shape), 0.1)
    index = tuple(draw.integer(1, size) if draw.chance(0.85) else draw.integer(1, 5) for size in shape)
    index = draw.varied(index, 0.1)
    if draw.short == "scatter" and draw.chance(0.3):
        return called(draw, shape, axis, positions(draw, index), "1.0")
    source = tuple(size + draw.chance(0.2) for size in index)
    reduce = ["'sum'"] if draw.short == "scatter_reduce" else []
    return called(draw, shape, axis, positions(draw, index), draw.array(draw.varied(source, 0.1)), *reduce)


@cases("torch.masked_fill", "torch.Tensor.masked_fill")
def _(draw: Draw) -> str:
    shape = draw.shape(0, 3)
    return called(draw, shape, mask(draw, draw.varied(shape, 0.5)), "0.0")


@cases("torch.masked_scatter", "torch.Tensor.masked_scatter")
def _(draw: Draw) -> str:
    shape = draw.shape(0, 3)
    return called(draw, shape, mask(draw, draw.varied(shape, 0.5)), draw.array((500,)))


@cases(*(f"torch.{prefix}{name}" for prefix in ("", "Tensor.") for name in ("index_add", "index_copy")))
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    axis = draw.axis(len(shape), 0.1)
    count = draw.integer(1, 3)
    source = list(shape)
    if -len(shape) <= axis < len(shape):
        source[axis] = count
    return called(draw, shape, axis, positions(draw, (count,)), draw.array(draw.varied(source, 0.25) or (1,)))


@cases("torch.index_fill", "torch.Tensor.index_fill")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    return called(draw, shape, draw.axis(len(shape)), positions(draw, draw.shape(0, 1 if draw.chance(0.8) else 2)), "0.0")


def _update(draw: Draw) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    shape = draw.shape(1, 3)
    depth = draw.integer(1, len(shape))
    rows = (draw.integer(1, 3),)
    return shape, (*rows, depth + (draw.chance(0.1) and 1)), draw.varied((*rows, *shape[depth:]), 0.3)


@cases("tf.scatter_nd", "keras.ops.scatter")
def _(draw: Draw) -> str:
    shape, index, updates = _update(draw)
    return f"{spelled(draw)}({positions(draw, index)}, {draw.array(updates)}, {list(shape)})"


@cases(*(f"tf.tensor_scatter_nd_{name}" for name in ("update", "add", "sub", "max", "min")))
def _(draw: Draw) -> str:
    shape, index, updates = _update(draw)
    return called(draw, shape, positions(draw, index), draw.array(updates))


@cases("keras.ops.scatter_update")
def _(draw: Draw) -> str:
    shape, index, updates = _update(draw)
    return called(draw, shape, positions(draw, index), draw.array(updates))


@cases("jax.Array.at")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    index = draw.pick(["0", ":", "1:", "...", "None", ":2", "0:1"])
    return (
        f"{draw.array(shape)}.at[{index}].{draw.pick(['set', 'add', 'multiply', 'min'])}({draw.array(draw.varied(shape[1:], 0.4))})"
    )


@cases("jax.Array.at.ref")
def _(draw: Draw) -> str:
    return f"{draw.array(draw.shape(2, 3))}.at[{draw.pick(['0', ':, 0', '0, 0', '0, 0, 0', '0, 0, 0, 0'])}].get()"
