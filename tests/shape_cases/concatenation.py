"""Arrays joined into one."""

from __future__ import annotations

from tests.shape_cases import Draw, cases
from tests.shape_cases.axes import spelled


def _list(draw: Draw, shapes: list[tuple[int, ...]]) -> str:
    arrays = ", ".join(draw.array(shape) for shape in shapes)
    return f"({arrays},)" if draw.chance(0.3) else f"[{arrays}]"


def _along(draw: Draw, shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """Another size at the axis."""
    if not -len(shape) <= axis < len(shape):
        return shape
    return tuple(draw.integer(1, 4) if place == axis % len(shape) else size for place, size in enumerate(shape))


@cases(
    "torch.cat", "torch.concat", "torch.concatenate", "numpy.concatenate", "numpy.concat", "tf.concat", "keras.ops.concatenate",
    "jax.numpy.concatenate", "jax.numpy.concat", "jax.lax.concatenate",
)  # fmt: skip
def _(draw: Draw) -> str:
    shape = draw.shape(1 if draw.chance(0.9) else 0, 3)
    axis = draw.axis(len(shape))
    shapes = [draw.varied(_along(draw, shape, axis), 0.12) for _ in range(draw.integer(2, 3))]
    if draw.name.startswith(("numpy", "jax.numpy")) and draw.chance(0.15):
        return f"{spelled(draw)}({_list(draw, shapes)}, axis=None)"
    return f"{spelled(draw)}({_list(draw, shapes)}, {'axis=' if draw.name == 'jax.numpy.concat' else ''}{axis})"


@cases("torch.stack", "numpy.stack", "tf.stack", "keras.ops.stack", "jax.numpy.stack")
def _(draw: Draw) -> str:
    shape = draw.shape(0, 3)
    shapes = [draw.varied(shape, 0.12) for _ in range(draw.integer(1, 3))]
    arguments = f", {draw.axis(len(shape) + 1)}" if draw.chance(0.8) else ""
    return f"{spelled(draw)}({_list(draw, shapes)}{arguments})"


@cases(
    *(f"{library}.{name}" for library in ("torch", "numpy", "jax.numpy") for name in ("hstack", "vstack", "dstack", "column_stack")),
    "torch.row_stack", "keras.ops.hstack", "keras.ops.vstack",
)  # fmt: skip
def _(draw: Draw) -> str:
    # What Keras does with vectors depends on its backend.
    keras = draw.name.startswith("keras")
    shape = draw.shape(2 if keras else 0, 3)
    shapes = [draw.varied(_along(draw, shape, draw.integer(0, 2)), 0.1) for _ in range(2)]
    if keras and any(len(part) < 2 for part in shapes):
        shapes = [shape, shape]
    return f"{spelled(draw)}({_list(draw, shapes)})"


@cases("numpy.append", "jax.numpy.append", "keras.ops.append")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    axis = draw.axis(len(shape))
    other = draw.varied(_along(draw, shape, axis), 0.2)
    return f"{spelled(draw)}({draw.array(shape)}, {draw.array(other)}{f', {axis}' if draw.chance(0.7) else ''})"


@cases("numpy.block", "jax.numpy.block")
def _(draw: Draw) -> str:
    a, b, c, d = (draw.integer(1, 3) for _ in range(4))
    first = f"[{draw.array(draw.varied((a, b), 0.1))}, {draw.array(draw.varied((a, c), 0.1))}]"
    if draw.chance(0.3):
        return f"{spelled(draw)}({first})"
    return f"{spelled(draw)}([{first}, [{draw.array((d, b))}, {draw.array(draw.varied((d, c), 0.1))}]])"


@cases("torch.block_diag")
def _(draw: Draw) -> str:
    return f"torch.block_diag({', '.join(draw.array(draw.shape(0, 2 if draw.chance(0.85) else 3)) for _ in range(2))})"
