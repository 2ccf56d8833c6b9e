"""Iteration: what a `for` loop or an unpacking gets from a value."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from tensorproof.rules.shapes.shape_unpacking import SHAPE_UNPACKING
from tensorproof.shapes import calls
from tensorproof.shapes.joining import MOST_ALTERNATIVES, alike
from tensorproof.shapes.run import Run
from tensorproof.shapes.shape import Shape
from tensorproof.shapes.sizes import Size, symbol, unknown
from tensorproof.shapes.values import (
    UNKNOWN,
    Choice,
    DictValue,
    Frame,
    Instance,
    Iterator,
    ListValue,
    NativeObject,
    Tensor,
    Value,
)

#: A tensor with more rows than this is iterated as a stream of equal rows.
MOST_ROWS = 64
#: A longer text is iterated as unknown characters.
MOST_CHARACTERS = 4_000


@dataclass(frozen=True, slots=True)
class Stream:
    """What a loop runs over: known items, or any number of equal elements."""

    items: tuple[Value, ...] | None = None
    element: Value = UNKNOWN
    length: Size | None = None
    at_least_once: bool = False


def iterate(run: Run, value: Value) -> Stream:
    """The elements of a value, as far as they are known."""
    if isinstance(value, tuple):
        return Stream(value)
    if isinstance(value, str):
        return Stream(tuple(value)) if len(value) <= MOST_CHARACTERS else Stream(None, UNKNOWN)
    if isinstance(value, ListValue):
        length = value.length
        return Stream(value.items, value.element, length if isinstance(length, int) else None)
    if isinstance(value, DictValue):
        return Stream(None) if value.entries is None else Stream(tuple(value.entries))
    if isinstance(value, Iterator):
        items = value.slots["items"]
        return Stream(None if items is None else items[value.slots["position"] :], value.slots["element"])
    if isinstance(value, Tensor):
        return _rows(value)
    if isinstance(value, NativeObject):
        return calls.iterate_native(run, value)
    if isinstance(value, Instance):
        return calls.iterate_instance(run, value)
    return Stream()


def _rows(tensor: Tensor) -> Stream:
    shape = tensor.shape
    if not shape.head:
        return Stream(None, tensor.with_shape(Shape((), ())) if shape.tail is not None else UNKNOWN)
    content = tensor.content
    row = tensor.with_shape(Shape(shape.head[1:], shape.tail), contiguous=tensor.contiguous)
    length = shape.head[0]
    if isinstance(content, tuple) and shape.rank == 1:
        return Stream(content)
    if isinstance(length, int) and length <= MOST_ROWS:
        return Stream((row,) * length)
    return Stream(None, row, length, at_least_once=True)


def any_of(run: Run, values: tuple[Value, ...]) -> Value:
    """One value for any of several; of many integers their bounds are kept."""
    if not values:
        return UNKNOWN
    numbers = [value for value in values if type(value) is int]
    if len(numbers) == len(values) > MOST_ALTERNATIVES:
        return unknown(min(numbers), max(numbers))
    result = values[0]
    for value in values[1:]:
        result = run.join(result, value)
    return result


def any_yield(run: Run, values: tuple[Value, ...]) -> Value:
    """One value for all that a generator yields. Of equal batches and a smaller last one the rows are a symbol."""
    sizes = [_leading_size(value) for value in values]
    full, last = sizes[0], sizes[-1]
    if full is not None and last is not None and last < full and all(size == full for size in sizes[:-1]):
        rows = symbol("N", "batch", last, full)
        first, other = (_with_rows(value, rows) for value in (values[0], values[-1]))
        if alike(first, other):
            return first
    return any_of(run, values)


def _leading_size(value: Value) -> int | None:
    """The rows of a tensor, or of all tensors of a tuple, where it is a number."""
    if isinstance(value, Tensor):
        rows = value.shape.head[0] if value.shape.head else None
        return rows if isinstance(rows, int) else None
    found = {_leading_size(part) for part in value} if isinstance(value, tuple) else {None}
    return found.pop() if len(found) == 1 else None


def _with_rows(value: Value, rows: Size) -> Value:
    if isinstance(value, tuple):
        return tuple(_with_rows(part, rows) for part in value)
    assert isinstance(value, Tensor)
    return value.with_shape(Shape((rows, *value.shape.head[1:]), value.shape.tail), contiguous=value.contiguous)


def unpack(run: Run, frame: Frame, target: ast.Tuple | ast.List, value: Value) -> list[Value]:
    """The values for the parts of a pattern. A tensor or shape with another number of parts is reported."""
    wanted = len(target.elts)
    starred = [position for position, part in enumerate(target.elts) if isinstance(part, ast.Starred)]
    if isinstance(value, Choice) and not starred and all(isinstance(part, tuple) and len(part) == wanted for part in value.of):
        rows = [part for part in value.of if isinstance(part, tuple)]
        return [any_of(run, column) for column in zip(*rows, strict=True)]
    stream = iterate(run, value)
    items = stream.items
    if items is None:
        return [ListValue(None, stream.element) if position in starred else stream.element for position in range(wanted)]
    if starred:
        before, after = starred[0], wanted - starred[0] - 1
        if len(items) < before + after:
            return [UNKNOWN] * wanted
        middle = items[before : len(items) - after]
        return [*items[:before], ListValue(middle), *items[len(items) - after :]]
    if len(items) != wanted:
        _report_count(run, frame, target, value, len(items))
        return [UNKNOWN] * wanted
    return list(items)


def _report_count(run: Run, frame: Frame, target: ast.Tuple | ast.List, value: Value, found: int) -> None:
    wanted = len(target.elts)
    names = ast.unparse(target)
    if isinstance(value, Tensor):
        message = f"{names} takes {wanted} rows, but the tensor of shape {value.shape} has {found}"
        tensors = (value,)
    elif isinstance(value, tuple):
        sizes = ", ".join(str(part) for part in value) if all(not isinstance(p, Tensor) for p in value) else "..."
        message = f"{names} takes {wanted} values, but there are {found}: ({sizes})"
        tensors = tuple(part for part in value if isinstance(part, Tensor))
    else:
        message = f"{names} takes {wanted} values, but there are {found}"
        tensors = ()
    run.report(SHAPE_UNPACKING, run.place(frame, target), message, certain=True, tensors=tensors, operation="unpack")
