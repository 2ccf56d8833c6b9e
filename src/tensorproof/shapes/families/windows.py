"""Windows that slide over the last axes of an array: the arithmetic that convolutions, pools and patches share."""

from __future__ import annotations

from collections.abc import Sequence

from tensorproof.rules.shapes.window_too_large import WINDOW_TOO_LARGE
from tensorproof.rules.shapes.wrong_rank import WRONG_RANK
from tensorproof.shapes.problems import Related
from tensorproof.shapes.rule_table import Mismatch
from tensorproof.shapes.shape import Shape
from tensorproof.shapes.sizes import Size, bounds, less, unknown
from tensorproof.shapes.values import UNKNOWN, ListValue, Tensor, Value, as_size


def per_axis(value: Value, axes: int) -> tuple[Size, ...]:
    """One number for each axis: `3` and `(3,)` stand for all of them. What is not known becomes an unknown size."""
    single = as_size(value)
    if single is not None:
        return (single,) * axes
    items = value.items if isinstance(value, ListValue) else value
    if isinstance(items, tuple):
        sizes = tuple(unknown(0) if (size := as_size(item)) is None else size for item in items)
        if len(sizes) in (1, axes):
            return sizes * axes if len(sizes) == 1 else sizes
    return tuple(unknown(0) for _ in range(axes))


def is_given(value: Value) -> bool:
    """Whether a number that may be left out was given: `stride=None` and an empty list mean none."""
    if isinstance(value, ListValue):
        return value.items != ()
    return value is not None and value != ()


def extent(kernel: Size, dilation: Size) -> Size:
    """How many elements a window covers."""
    return dilation * (kernel - 1) + 1


def positions(size: Size, window: Size, stride: Size, padding: Size) -> Size:
    """How many windows fit, at their stride, into an axis with padding at both ends; zero or less if none does."""
    return (size + 2 * padding - window) // stride + 1


def positions_rounded_up(size: Size, window: Size, stride: Size, padding: Size) -> Size:
    """The same where a last window may reach over the end, but not begin there (`ceil_mode`)."""
    reach = size + 2 * padding - window
    count = (reach + stride - 1) // stride + 1
    if less(window, padding + stride) is False:
        return count
    numbers = (size, stride, padding, count)
    if any(not isinstance(number, int) for number in numbers):
        return unknown()
    return count - 1 if less((count - 1) * stride, size + padding) is False else count


def need_rank(input: Tensor, ranks: Sequence[int], what: str, related: tuple[Related, ...] = (), result: Value = UNKNOWN) -> None:
    """Refuse an input that certainly has another rank."""
    shape = input.shape
    wrong = shape.rank not in ranks if shape.rank is not None else shape.least_rank > max(ranks)
    if wrong:
        wanted = " or ".join(str(rank) for rank in ranks)
        message = (
            f"{what} takes an input of {wanted} axes, but {shape} has {'at least ' if shape.rank is None else ''}{shape.least_rank}"
        )
        raise Mismatch(WRONG_RANK, message, result=result, tensors=(input,), related=related)


def need_positive(
    input: Tensor,
    sizes: Sequence[Size],
    what: str,
    windows: Sequence[Size],
    result: Tensor,
    related: tuple[Related, ...] = (),
    least: int = 1,
) -> None:
    """Refuse windows that certainly do not fit: an output size below the least one."""
    for axis, size in enumerate(sizes):
        if bounds(size)[1] < least:
            position = axis - len(sizes)
            message = (
                f"{what} covers {windows[axis]} elements of axis {position}, but the input {input.shape} has only "
                f"{input.shape[position]} there (with padding: the output size would be {size})"
            )
            raise Mismatch(
                WINDOW_TOO_LARGE, message, result=_with_unknown(result, axis, len(sizes)), tensors=(input,), related=related
            )


def _with_unknown(result: Tensor, axis: int, count: int) -> Tensor:
    shape = result.shape
    sizes = [*shape.last(count)]
    sizes[axis] = unknown()
    front = shape.without_last(count)
    return result.with_shape(front.extended(*sizes))


def last_sizes(input: Tensor, axes: int) -> tuple[Size, ...]:
    """The sizes of the last axes; unknown where the input has fewer."""
    missing = 0 if input.shape.rank is None else max(axes - input.shape.rank, 0)
    return (*(unknown() for _ in range(missing)), *input.shape.last(axes - missing))


def with_last(shape: Shape, replaced: int, *sizes: Size) -> Shape:
    """The shape with its last axes replaced. Of an unknown rank the axes before them stay open."""
    return shape.without_last(replaced).extended(*sizes)


def flag(value: Value) -> bool | None:
    """A flag; None if it is not known."""
    return bool(value) if isinstance(value, bool | int) or value is None else None
