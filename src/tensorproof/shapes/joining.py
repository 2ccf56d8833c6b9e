"""Joins: one value for what several paths computed. Up to eight alternatives stay side by side; more become one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tensorproof.shapes.shape import ANY_SHAPE, Shape
from tensorproof.shapes.sizes import Polynomial, Size, bounds, is_unknown, unknown
from tensorproof.shapes.values import UNKNOWN, Choice, Tensor, Unknown, Value

MOST_ALTERNATIVES = 8


def join(left: Value, right: Value) -> Value:
    """Either of two values."""
    if left is right or alike(left, right):
        return right if isinstance(right, Tensor) and right.suspect else left
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return UNKNOWN
    found: list[Value] = []
    for value in (*alternatives(left), *alternatives(right)):
        if not any(alike(value, other) for other in found):
            found.append(value)
    if len(found) <= MOST_ALTERNATIVES:
        return found[0] if len(found) == 1 else Choice(tuple(found))
    return _merged(found)


def join_coarsely(left: Value, right: Value) -> Value:
    """Either of two values, as one value: what `--values joined` keeps."""
    if left is right or alike(left, right):
        return left
    return _merged([*alternatives(left), *alternatives(right)])


def widen(old: Value, new: Value) -> Value:
    """A value that holds for every further round of a loop which turned `old` into `new`."""
    return old if alike(old, new) else _merged([*alternatives(old), *alternatives(new)])


def alternatives(value: Value) -> tuple[Value, ...]:
    """The values that one may be."""
    return value.of if isinstance(value, Choice) else (value,)


def choice(values: list[Value]) -> Value:
    """One of several values."""
    result = values[0]
    for value in values[1:]:
        result = join(result, value)
    return result


def alike(left: Value, right: Value) -> bool:
    """Whether two values say the same: equal constants, tensors of one shape, the same object."""
    if left is right:
        return True
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        return (
            alike_shapes(left.shape, right.shape)
            and left.dtype == right.dtype
            and left.framework == right.framework
            and left.contiguous == right.contiguous
            and left.strides == right.strides
            and alike(left.content, right.content)
        )
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(alike(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, Polynomial) and isinstance(right, Polynomial):
        return left == right or (is_unknown(left) and is_unknown(right))
    if isinstance(left, Choice) and isinstance(right, Choice):
        return len(left.of) == len(right.of) and all(any(alike(a, b) for b in right.of) for a in left.of)
    return type(left) is type(right) and not isinstance(left, Tensor) and left == right


def alike_shapes(left: Shape, right: Shape) -> bool:
    """Whether two shapes say the same; unknown sizes are alike."""
    if (left.tail is None) != (right.tail is None) or len(left.head) != len(right.head):
        return False
    tails = (left.tail or (), right.tail or ())
    pairs = [*zip(left.head, right.head, strict=True), *zip(*tails, strict=False)]
    return len(tails[0]) == len(tails[1]) and all(alike(a, b) for a, b in pairs)


def _merged(values: list[Value]) -> Value:
    """One value that stands for all: per size for tensors and integers, unknown for the rest."""
    first = values[0]
    if all(isinstance(value, int | Polynomial) and not isinstance(value, bool) for value in values):
        ends = [bounds(value) for value in values if isinstance(value, int | Polynomial)]
        return unknown(min(low for low, _ in ends), max(high for _, high in ends))
    if isinstance(first, Tensor) and all(isinstance(value, Tensor) for value in values):
        result = first
        for value in values[1:]:
            assert isinstance(value, Tensor)
            result = _merged_tensors(result, value)
        return result
    if isinstance(first, tuple) and all(isinstance(value, tuple) and len(value) == len(first) for value in values):
        rows: list[tuple[Value, ...]] = [value for value in values if isinstance(value, tuple)]
        return tuple(_merged(list(column)) if not _all_alike(column) else column[0] for column in zip(*rows, strict=True))
    return first if _all_alike(tuple(values)) else UNKNOWN


def _all_alike(values: tuple[Value, ...]) -> bool:
    return all(alike(values[0], value) for value in values[1:])


def _merged_tensors(left: Tensor, right: Tensor) -> Tensor:
    return replace(
        left,
        shape=merged_shapes(left.shape, right.shape),
        dtype=left.dtype if left.dtype == right.dtype else "",
        contiguous=left.contiguous if left.contiguous == right.contiguous else None,
        strides=None,
        content=left.content if alike(left.content, right.content) else None,
        new_axes=left.new_axes & right.new_axes,
        recipe=None,
        batch_factor=None,
    )


def merged_shapes(left: Shape, right: Shape) -> Shape:
    """What two shapes have in common: sizes at both ends that agree."""
    if left.tail is None and right.tail is None and len(left.head) == len(right.head):
        return Shape(tuple(_common(a, b) for a, b in zip(left.head, right.head, strict=True)))
    if left.tail is None and right.tail is None:
        return ANY_SHAPE
    ends: list[tuple[Size, ...]] = []
    for select in (_front, _back):
        a, b = select(left), select(right)
        ends.append(tuple(x for x, y in zip(a, b, strict=False) if alike(x, y)) if _prefix_agrees(a, b) else ())
    return Shape(ends[0], tuple(reversed(ends[1])))


def _prefix_agrees(left: tuple[Size, ...], right: tuple[Size, ...]) -> bool:
    return all(alike(x, y) for x, y in zip(left, right, strict=False))


def _front(shape: Shape) -> tuple[Size, ...]:
    return shape.head


def _back(shape: Shape) -> tuple[Size, ...]:
    return tuple(reversed(shape.head if shape.tail is None else shape.tail))


def _common(left: Size, right: Size) -> Size:
    return left if alike(left, right) and not is_unknown(left) else unknown()


def over_alternatives(function: Callable[..., Value], *values: Value, most: int = 16) -> Value:
    """The function on every combination of alternatives, joined; unknown if there are too many."""
    combinations: list[tuple[Value, ...]] = [()]
    for value in values:
        combinations = [(*row, part) for row in combinations for part in alternatives(value)]
        if len(combinations) > most:
            return UNKNOWN
    return choice([function(*row) for row in combinations])
