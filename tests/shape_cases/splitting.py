"""Arrays cut into parts."""

from __future__ import annotations

from tests.shape_cases import Draw, cases
from tests.shape_cases.axes import called


def _sized(draw: Draw) -> tuple[tuple[int, ...], int, int]:
    """A shape, one of its axes (or none of them), and the size there."""
    shape = tuple(draw.integer(1, 8) for _ in range(draw.integer(1, 3)))
    axis = draw.axis(len(shape), 0.1)
    return shape, axis, shape[axis] if -len(shape) <= axis < len(shape) else 4


def _cut(draw: Draw, size: int) -> list[int]:
    """Sizes that add up, most of the time."""
    sizes: list[int] = []
    while sum(sizes) < size:
        sizes.append(draw.integer(1, size - sum(sizes)))
    if draw.chance(0.2):
        sizes[draw.integer(0, len(sizes) - 1)] += draw.pick([1, -1])
    return sizes


@cases("torch.split", "torch.Tensor.split", "torch.split_with_sizes", "torch.Tensor.split_with_sizes", "jax.lax.split")
def _(draw: Draw) -> str:
    shape, axis, size = _sized(draw)
    if draw.short == "split" and "lax" not in draw.name and draw.chance(0.5):
        return called(draw, shape, draw.integer(0, 6) if draw.chance(0.9) else -1, axis)
    return called(draw, shape, _cut(draw, size), axis)


@cases("torch.chunk", "torch.Tensor.chunk")
def _(draw: Draw) -> str:
    shape, axis, _size = _sized(draw)
    return called(draw, shape, draw.integer(0, 5), axis)


@cases("torch.unbind", "torch.Tensor.unbind", "tf.unstack", "keras.ops.unstack", "numpy.unstack", "jax.numpy.unstack")
def _(draw: Draw) -> str:
    shape = draw.shape(0, 3)
    axis = draw.axis(len(shape), 0.2)
    if draw.name.startswith(("numpy", "jax")):
        return called(draw, shape, f"axis={axis}")
    if draw.name.startswith("tf"):
        return called(draw, shape, f"axis={axis}", *([f"num={draw.integer(1, 4)}"] if draw.chance(0.2) else []))
    return called(draw, shape, axis) if draw.name.startswith("torch") else called(draw, shape, None, axis)


@cases(
    "torch.tensor_split", "torch.Tensor.tensor_split", "numpy.split", "numpy.array_split", "keras.ops.split", "keras.ops.array_split",
    "jax.numpy.split", "jax.numpy.array_split",
)  # fmt: skip
def _(draw: Draw) -> str:
    shape, axis, size = _sized(draw)
    if draw.chance(0.6) or draw.name == "keras.ops.array_split":
        return called(draw, shape, draw.integer(1, 4), axis)
    positions = sorted(draw.integer(0, size if draw.name.startswith("keras") else size + 2) for _ in range(draw.integer(1, 3)))
    return called(draw, shape, tuple(positions), axis)


@cases(
    *(
        f"{library}{name}"
        for library in ("torch.", "torch.Tensor.", "numpy.", "jax.numpy.")
        for name in ("hsplit", "vsplit", "dsplit")
    )
)
def _(draw: Draw) -> str:
    shape = tuple(draw.integer(1, 6) for _ in range(draw.integer(1, 4)))
    return called(draw, shape, draw.integer(1, 3) if draw.chance(0.6) else [1, 2])


@cases("tf.split")
def _(draw: Draw) -> str:
    shape, axis, size = _sized(draw)
    if draw.chance(0.5):
        return called(draw, shape, draw.integer(1, 4), axis)
    sizes = _cut(draw, size)
    if len(sizes) > 1 and draw.chance(0.3):
        sizes[draw.integer(0, len(sizes) - 1)] = -1
    return called(draw, shape, sizes, axis)
