"""Stretches of arrays by functions."""

from __future__ import annotations

from tests.shape_cases import Draw, cases
from tests.shape_cases.axes import called


def _stretch(draw: Draw, shape: tuple[int, ...]) -> tuple[list[int], list[int]]:
    starts = [draw.integer(0, size - 1) for size in shape]
    sizes = [draw.integer(1, size - start) + draw.chance(0.1) for size, start in zip(shape, starts, strict=True)]
    if draw.chance(0.1):
        sizes.append(1)
        starts.append(0)
    return starts, sizes


@cases("tf.slice", "keras.ops.slice", "jax.lax.dynamic_slice")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    starts, sizes = _stretch(draw, shape)
    if draw.name == "tf.slice" and draw.chance(0.3):
        sizes[0] = -1
    if "lax" in draw.name and draw.chance(0.3):
        sizes[0] = draw.integer(1, 5)
    return called(draw, shape, starts, sizes)


@cases("jax.lax.dynamic_slice_in_dim")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    return called(draw, shape, 0, draw.integer(1, 4), draw.axis(len(shape)))


@cases("jax.lax.dynamic_index_in_dim", "jax.lax.index_in_dim")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    return called(draw, shape, 0, draw.axis(len(shape)), *([draw.chance(0.5)] if draw.chance(0.7) else []))


@cases("jax.lax.slice_in_dim")
def _(draw: Draw) -> str:
    shape = tuple(draw.integer(3, 5) for _ in range(draw.integer(1, 3)))
    return called(draw, shape, draw.integer(0, 1), draw.pick([2, 3, None]), draw.integer(1, 2), draw.axis(len(shape)))


@cases("jax.lax.slice")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    starts, sizes = _stretch(draw, shape)
    stops = [start + size for start, size in zip(starts, sizes, strict=True)]
    return called(draw, shape, starts, stops, *([[draw.integer(1, 2) for _ in starts]] if draw.chance(0.4) else []))


@cases("jax.lax.dynamic_update_slice", "keras.ops.slice_update")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    update = tuple(draw.integer(1, size) + draw.chance(0.1) for size in shape)
    arguments = [draw.array(draw.varied(update, 0.1)), [0] * len(shape)]
    return called(draw, shape, *(arguments if "lax" in draw.name else reversed(arguments)))


@cases("jax.lax.dynamic_update_slice_in_dim", "jax.lax.dynamic_update_index_in_dim")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    update = tuple(draw.integer(1, size) for size in shape)
    if draw.short == "dynamic_update_index_in_dim":
        update = tuple(size for size in shape)
    return called(draw, shape, draw.array(update), 0, draw.axis(len(shape)))
