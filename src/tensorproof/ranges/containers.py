"""Abstract values that are not one tensor: sequences and optionals (ONNX's container types)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tensorproof.ranges.grid import Size, joined_size
from tensorproof.ranges.range import Range


@dataclass(frozen=True, slots=True)
class SequenceOf:
    """A sequence of tensors: `items` while the elements are known one by one, else `element` holds for each of them.

    `element` is None only for a sequence that is certainly empty.
    """

    element: Range | None
    length: Size
    items: tuple[Range, ...] | None = None

    @classmethod
    def of(cls, items: tuple[Range, ...]) -> SequenceOf:
        element: Range | None = None
        for item in items:
            element = item if element is None else element.join(item)
        return cls(element, len(items), items)

    def forget_items(self) -> SequenceOf:
        return SequenceOf(self.element, self.length)

    def join(self, other: SequenceOf) -> SequenceOf:
        if self.items is not None and other.items is not None and len(self.items) == len(other.items):
            return SequenceOf.of(tuple(a.join(b) for a, b in zip(self.items, other.items)))
        element = self.element if other.element is None else other.element
        if self.element is not None and other.element is not None:
            element = self.element.join(other.element)
        return SequenceOf(element, joined_size(self.length, other.length))


@dataclass(frozen=True, slots=True)
class OptionalOf:
    """A value that may be absent. `value` is None if it is certainly absent."""

    value: Range | SequenceOf | None
    may_be_absent: bool

    def join(self, other: OptionalOf) -> OptionalOf:
        if self.value is None or other.value is None:
            return OptionalOf(self.value or other.value, True)
        return OptionalOf(join(self.value, other.value), self.may_be_absent or other.may_be_absent)  # type: ignore[arg-type]


Abstract: TypeAlias = Range | SequenceOf | OptionalOf


def join(a: Abstract, b: Abstract) -> Abstract:
    """The smallest abstract value that holds both; they must be of the same kind."""
    if isinstance(a, Range) and isinstance(b, Range):
        return a.join(b)
    if isinstance(a, SequenceOf) and isinstance(b, SequenceOf):
        return a.join(b)
    if isinstance(a, OptionalOf) and isinstance(b, OptionalOf):
        return a.join(b)
    raise TypeError(f"cannot join {type(a).__name__} with {type(b).__name__}")


def with_special(value: Abstract, bits: int) -> Abstract:
    """The same value where every tensor inside may also be these special values (floating tensors only)."""
    if isinstance(value, Range):
        return value.with_special(bits) if value.format.is_float else value
    if isinstance(value, SequenceOf):
        items = None if value.items is None else tuple(i.with_special(bits) for i in value.items)
        element = value.element.with_special(bits) if value.element is not None else None
        return SequenceOf(element, value.length, items)
    if value.value is None:
        return value
    inner = with_special(value.value, bits)
    assert not isinstance(inner, OptionalOf)
    return OptionalOf(inner, value.may_be_absent)
