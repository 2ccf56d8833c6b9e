"""Reshapes."""

from __future__ import annotations

from math import prod

from tests.shape_cases import Draw, cases
from tests.shape_cases.axes import called


def _factors(draw: Draw, total: int, count: int) -> list[int]:
    """Sizes with that product, in random order."""
    sizes = [1] * count
    rest, divisor = total, 2
    while rest > 1:
        if rest % divisor:
            divisor += 1
            continue
        rest //= divisor
        sizes[draw.integer(0, count - 1)] *= divisor
    return sizes


def _target(draw: Draw, shape: tuple[int, ...]) -> list[int]:
    sizes = _factors(draw, prod(shape), draw.integer(1, 4))
    if draw.chance(0.4):
        sizes[draw.integer(0, len(sizes) - 1)] = -1
    if draw.chance(0.3):
        sizes[draw.integer(0, len(sizes) - 1)] = draw.pick([-1, -2, 1, 2, 3, 7])
    return sizes


@cases(
    "torch.reshape", "torch.Tensor.reshape", "torch.Tensor.view", "numpy.reshape", "numpy.ndarray.reshape", "tf.reshape",
    "keras.ops.reshape", "jax.numpy.reshape", "jax.Array.reshape", "jax.lax.reshape",
)  # fmt: skip
def _(draw: Draw) -> str:
    shape = draw.shape(0, 4)
    target = _target(draw, shape)
    if draw.name == "jax.lax.reshape" and -1 not in target:
        # Its abstract evaluation, with which rules are compared, does not count the elements.
        target = _factors(draw, prod(shape), draw.integer(1, 4))
    if draw.name == "torch.Tensor.view" and len(shape) > 1 and draw.chance(0.6):
        return f"{draw.array(shape)}{_moved(draw, len(shape))}.view({', '.join(map(str, target))})"
    if draw.is_method and draw.chance(0.6):
        return called(draw, shape, *target)
    return called(draw, shape, tuple(target))


def _moved(draw: Draw, rank: int) -> str:
    """What brings the axes into another order than that of memory, or cuts pieces out of them."""
    first, second = draw.integer(0, rank - 1), draw.integer(0, rank - 1)
    cut = ", ".join([":"] * first + [draw.pick(["1:", ":2", "::2", "None, :", "0:1"])])
    order = sorted(range(rank), key=lambda _: draw.integer(0, 100))
    return draw.pick(
        [
            f".transpose({first}, {second})",
            f"[{cut}]",
            f".permute({order})",
            ".mT[0:2]",
            f".transpose({first}, {second})[{cut}]",
            ".T",
        ]
    )


@cases("torch.Tensor.view_as", "torch.Tensor.reshape_as")
def _(draw: Draw) -> str:
    shape = draw.shape(0, 4)
    return called(draw, shape, draw.array([max(size, 1) for size in _target(draw, shape)]))


@cases("torch.flatten", "torch.Tensor.flatten")
def _(draw: Draw) -> str:
    shape = draw.shape(0, 4)
    arguments = [draw.axis(len(shape)) for _ in range(draw.integer(0, 2))]
    return called(draw, shape, *arguments)


@cases(
    "torch.ravel", "torch.Tensor.ravel", "numpy.ravel", "numpy.ndarray.ravel", "numpy.ndarray.flatten", "jax.numpy.ravel", "jax.Array.ravel",
    "jax.Array.flatten", "keras.ops.ravel",
)  # fmt: skip
def _(draw: Draw) -> str:
    return called(draw, draw.shape(0, 4))


@cases("torch.unflatten", "torch.Tensor.unflatten")
def _(draw: Draw) -> str:
    shape = tuple(draw.integer(1, 12) for _ in range(draw.integer(1, 3)))
    axis = draw.axis(len(shape))
    size = shape[axis] if -len(shape) <= axis < len(shape) else 4
    return called(draw, shape, axis, tuple(_target(draw, (size,))))


@cases("jax.lax.collapse")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 4)
    first = draw.integer(0, len(shape) - 1)
    return called(draw, shape, first, draw.integer(first + 1, len(shape)))


@cases("numpy.resize", "jax.numpy.resize")
def _(draw: Draw) -> str:
    return called(draw, draw.shape(0, 3), draw.shape(0, 3))
