"""Sequences and optionals: containers of tensors. Elements are kept one by one while their positions are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.execute.meaning import NotExecutable
from tensorproof.formats import BOOL, INT64
from tensorproof.operators.table import Call, find_operator, operator
from tensorproof.ranges.containers import Abstract, OptionalOf, SequenceOf
from tensorproof.ranges.grid import Size, Span, largest, smallest
from tensorproof.ranges.range import Range
from tensorproof.ranges.slices import axis_of, element_at, elements_between, part_between, spread, stacked

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor

#: Elements of a sequence that are kept apart.
ITEMS = 4096


@operator("SequenceConstruct")
def sequence_construct(op: Call, *tensors: Range) -> SequenceOf:
    """The tensors themselves."""
    return SequenceOf.of(tensors)


@sequence_construct.meaning
def _(run: Run, *tensors: Tensor) -> list[Tensor]:
    return list(tensors)


@operator("SequenceEmpty")
def sequence_empty(op: Call) -> SequenceOf:
    """No element."""
    return SequenceOf.of(())


@sequence_empty.meaning
def _(run: Run) -> list[Tensor]:
    return []


@operator("SequenceInsert", steered_by=(2,))
def sequence_insert(op: Call, sequence: Abstract, tensor: Range, position: Range | None = None) -> SequenceOf:
    """One element more, at a position from -n to n (the end by default)."""
    before = _sequence(sequence)
    length = _plus(before.length, 1)
    items = before.items
    at = _position(position, len(items), len(items) + 1) if items is not None and position is not None else None
    if items is not None and len(items) < ITEMS and (position is None or at is not None):
        at = len(items) if at is None else at
        return SequenceOf.of((*items[:at], tensor, *items[at:]))
    return SequenceOf(tensor if before.element is None else before.element.join(tensor), length)


@sequence_insert.meaning
def _(run: Run, sequence: list[Tensor], tensor: Tensor, position: Tensor | None = None) -> list[Tensor]:
    at = len(sequence) if position is None else _from_front(int(run.whole(position)), len(sequence), len(sequence) + 1)
    return [*sequence[:at], tensor, *sequence[at:]]


@operator("SequenceErase", steered_by=(1,))
def sequence_erase(op: Call, sequence: Abstract, position: Range | None = None) -> SequenceOf:
    """One element less, the last one by default."""
    before = _sequence(sequence)
    if largest(before.length) == 0:
        raise NotAnalysed("an element is erased from an empty sequence")
    items = before.items
    if items is not None:
        at = len(items) - 1 if position is None else _position(position, len(items), len(items))
        if at is not None:
            return SequenceOf.of((*items[:at], *items[at + 1 :]))
    return SequenceOf(before.element, _plus(before.length, -1))


@sequence_erase.meaning
def _(run: Run, sequence: list[Tensor], position: Tensor | None = None) -> list[Tensor]:
    at = _from_front(-1 if position is None else int(run.whole(position)), len(sequence), len(sequence))
    return [*sequence[:at], *sequence[at + 1 :]]


@operator("SequenceAt", steered_by=(1,))
def sequence_at(op: Call, sequence: Abstract, position: Range) -> Range:
    """The element at the position; what holds for all elements that the position may mean."""
    before = _sequence(sequence)
    if before.element is None:
        raise NotAnalysed("an element is taken from an empty sequence")
    if before.items is None:
        return before.element
    at = _position(position, len(before.items), len(before.items))
    return before.element if at is None else before.items[at]


@sequence_at.meaning
def _(run: Run, sequence: list[Tensor], position: Tensor) -> Tensor:
    return sequence[_from_front(int(run.whole(position)), len(sequence), len(sequence))]


@operator("SequenceLength")
def sequence_length(op: Call, sequence: Abstract) -> Range:
    """The number of elements."""
    return _number(_sequence(sequence).length)


@sequence_length.meaning
def _(run: Run, sequence: list[Tensor]) -> Tensor:
    return run.torch.tensor(len(sequence))


@operator("ConcatFromSequence")
def concat_from_sequence(op: Call, sequence: Abstract) -> Range:
    """Elements joined along an axis (as Concat does), or along a new one."""
    before = _sequence(sequence)
    if before.element is None:
        raise NotAnalysed("an empty sequence is concatenated")
    axis = int(op.attribute("axis", 0))
    if op.attribute("new_axis", 0):
        if before.items is not None:
            return stacked([(item, 1) for item in before.items], axis)
        return spread(before.element, axis, before.length)
    concat = find_operator("", "Concat")
    if before.items is not None and concat is not None:
        return op.apply(concat, *before.items, axis=axis)
    element = before.element
    if element.shape is None:
        return element
    axis = axis_of(axis, len(element.shape))
    merged = element.smash((axis,))
    size = _times(before.length, element.shape[axis])
    shape = (*element.shape[:axis], size, *element.shape[axis + 1 :])
    return Range(element.format, shape, merged.grid, merged.low, merged.high, merged.special)


@concat_from_sequence.meaning
def _(run: Run, sequence: list[Tensor]) -> Tensor:
    join = run.torch.stack if run.attribute("new_axis", 0) else run.torch.cat
    return join(sequence, run.attribute("axis", 0))


@operator("SplitToSequence", steered_by=(1,))
def split_to_sequence(op: Call, x: Range, split: Range | None = None) -> SequenceOf:
    """Parts of a tensor along an axis, by one size or by a list of sizes; single slices may drop the axis."""
    if x.shape is None:
        return SequenceOf(x, Span(0, None))
    axis = axis_of(int(op.attribute("axis", 0)), len(x.shape))
    drops = split is None and not op.attribute("keepdims", 1)
    size = x.shape[axis]
    lengths = _part_lengths(size, split)
    if lengths is None or len(lengths) > ITEMS:
        return _unknown_parts(x, axis, split, drops)
    stops = np.cumsum(lengths)
    if drops:
        return SequenceOf.of(tuple(element_at(x, axis, int(stop) - 1) for stop in stops))
    return SequenceOf.of(tuple(part_between(x, axis, int(b - n), int(b)) for n, b in zip(lengths, stops)))


@split_to_sequence.meaning
def _(run: Run, x: Tensor, split: Tensor | None = None) -> list[Tensor]:
    axis = axis_of(run.attribute("axis", 0), x.ndim)
    if split is None and not run.attribute("keepdims", 1):
        return list(x.unbind(axis))
    given = None if split is None else run.whole(split).numpy()
    return list(x.split(_lengths_of_parts(x.shape[axis], given), axis))


def _part_lengths(size: Size, split: Range | None) -> list[int] | None:
    """The sizes of the parts, None if they are not known."""
    given = None if split is None else split.integers()
    if not isinstance(size, int) or (split is not None and given is None):
        return None
    return _lengths_of_parts(size, given)


def _lengths_of_parts(size: int, given: npt.NDArray[np.int64] | None) -> list[int]:
    """The sizes of the parts of an axis: a single size gives equal parts and a smaller last one, none at all parts of 1."""
    if given is None or given.ndim == 0:
        each = 1 if given is None else int(given)
        if each <= 0:
            raise NotAnalysed(f"parts of size {each}")
        return [each] * (size // each) + ([size % each] if size % each else [])
    lengths = [int(n) for n in given.reshape(-1)]
    if sum(lengths) != size or min(lengths, default=0) < 0:
        raise NotAnalysed(f"parts of sizes {lengths} of an axis of size {size}")
    return lengths


def _unknown_parts(x: Range, axis: int, split: Range | None, drops: bool) -> SequenceOf:
    """What holds for every part where their sizes are not known."""
    assert x.shape is not None
    size = x.shape[axis]
    count: Size = size if split is None else Span(0, largest(size))
    if split is not None and split.shape is not None and len(split.shape) == 1:
        count = split.shape[0]
    if largest(size) == 0:
        return SequenceOf(None if largest(count) == 0 else x, count)
    if drops:
        return SequenceOf(elements_between(x, axis, 0, None), count)
    merged = x.smash((axis,))
    part: Size = 1 if split is None else Span(0, largest(size))
    shape = (*x.shape[:axis], part, *x.shape[axis + 1 :])
    return SequenceOf(Range(x.format, shape, merged.grid, merged.low, merged.high, merged.special), count)


@operator("Optional")
def optional(op: Call, value: Abstract | None = None) -> OptionalOf:
    """The value, wrapped; empty without one."""
    if isinstance(value, OptionalOf):
        return value
    return OptionalOf(value, value is None)


@optional.meaning
def _(run: Run, value: Any = None) -> Any:
    return value


@operator("OptionalGetElement")
def optional_get_element(op: Call, value: Abstract) -> Range | SequenceOf:
    """The element; a tensor or sequence is its own element (from version 18 on)."""
    if not isinstance(value, OptionalOf):
        return value
    if value.value is None:
        raise NotAnalysed("the element of an optional that is always empty")
    return value.value


@optional_get_element.meaning
def _(run: Run, value: Any) -> Any:
    if value is None:
        raise NotExecutable("the element of an empty optional")
    return value


@operator("OptionalHasElement")
def optional_has_element(op: Call, value: Abstract | None = None) -> Range:
    """Whether there is an element; a tensor or sequence always is one (from version 18 on)."""
    if value is None:
        return Range.constant(np.zeros((), np.bool_))
    if not isinstance(value, OptionalOf):
        return Range.constant(np.ones((), np.bool_))
    if value.value is None:
        return Range.constant(np.zeros((), np.bool_))
    return Range.uniform((), BOOL, 0.0, 1.0) if value.may_be_absent else Range.constant(np.ones((), np.bool_))


@optional_has_element.meaning
def _(run: Run, value: Any = None) -> Tensor:
    return run.torch.tensor(value is not None)


def _sequence(value: Abstract) -> SequenceOf:
    if not isinstance(value, SequenceOf):
        raise NotAnalysed("a tensor where a sequence is expected")
    return value


def _position(position: Range, length: int, end: int) -> int | None:
    """An index counted from the front, where it is known exactly."""
    known = position.integers()
    if known is None or known.size != 1:
        return None
    return _from_front(int(known.reshape(-1)[0]), length, end)


def _from_front(index: int, length: int, end: int) -> int:
    """An index counted from the front, which has to lie before `end`. Negative ones count from the back."""
    at = index + length if index < 0 else index
    if not 0 <= at < end:
        raise NotAnalysed(f"position {index} in a sequence of {length} elements")
    return at


def _number(size: Size) -> Range:
    if isinstance(size, int):
        return Range.constant(np.array(size, np.int64))
    return Range.uniform((), INT64, float(size.low), INT64.high if size.high is None else float(size.high))


def _plus(size: Size, step: int) -> Size:
    if isinstance(size, int):
        return size + step
    return Span(max(size.low + step, 0), None if size.high is None else max(size.high + step, 0))


def _times(size: Size, other: Size) -> Size:
    if isinstance(size, int) and isinstance(other, int):
        return size * other
    high, other_high = largest(size), largest(other)
    return Span(smallest(size) * smallest(other), None if high is None or other_high is None else high * other_high)
