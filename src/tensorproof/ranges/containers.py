"""Abstract values that are not one tensor: sequences and optionals (ONNX's container types).

The functions below are the lattice of all abstract values: `join`, `includes` and `widen`, for tensors and containers alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.ranges.grid import Size, Span, joined_size, largest, smallest
from tensorproof.ranges.range import Range


@dataclass(frozen=True, slots=True)
class SequenceOf:
    """A sequence of tensors: `items` while the elements are known one by one, else `element` holds for each of them.

    `element` is None for a sequence in which nothing is known to have been put: it is empty, or no element was written yet.
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
            return SequenceOf.of(tuple(_join_tensors(a, b) for a, b in zip(self.items, other.items)))
        element = self.element if other.element is None else other.element
        if self.element is not None and other.element is not None:
            element = _join_tensors(self.element, other.element)
        return SequenceOf(element, joined_size(self.length, other.length))


@dataclass(frozen=True, slots=True)
class OptionalOf:
    """A value that may be absent. `value` is None if it is certainly absent."""

    value: Range | SequenceOf | None
    may_be_absent: bool

    def join(self, other: OptionalOf) -> OptionalOf:
        if self.value is None or other.value is None:
            return OptionalOf(self.value or other.value, True)
        inner = join(self.value, other.value)
        assert not isinstance(inner, OptionalOf)
        return OptionalOf(inner, self.may_be_absent or other.may_be_absent)


Abstract: TypeAlias = Range | SequenceOf | OptionalOf


def join(a: Abstract, b: Abstract) -> Abstract:
    """The smallest abstract value that holds both. A value and an optional of its kind give an optional."""
    if a is b:
        return a
    if isinstance(a, OptionalOf) or isinstance(b, OptionalOf):
        return _as_optional(a).join(_as_optional(b))
    if isinstance(a, Range) and isinstance(b, Range):
        return _join_tensors(a, b)
    if isinstance(a, SequenceOf) and isinstance(b, SequenceOf):
        return a.join(b)
    raise NotAnalysed("a value is a tensor on one path and a sequence on another")


def _as_optional(value: Abstract) -> OptionalOf:
    return value if isinstance(value, OptionalOf) else OptionalOf(value, False)


def _join_tensors(a: Range, b: Range) -> Range:
    if a.format is not b.format:
        raise NotAnalysed(f"a tensor is {a.format} on one path and {b.format} on another")
    if a.array is not None and b.array is not None and a.shape == b.shape and bool((a.array == b.array).all()):
        # The joined bounds of 64-bit integers beyond 2**53 would forget their exact value.
        return a
    return a.join(b)


def includes(outer: Abstract, inner: Abstract) -> bool:
    """Whether every value of `inner` is one of `outer`; False where that is not easily seen."""
    if outer is inner:
        return True
    if isinstance(outer, Range) and isinstance(inner, Range):
        return outer.includes(inner)
    if isinstance(outer, SequenceOf) and isinstance(inner, SequenceOf):
        return _includes_sequence(outer, inner)
    if isinstance(outer, OptionalOf) and isinstance(inner, OptionalOf):
        if inner.may_be_absent and not outer.may_be_absent:
            return False
        return inner.value is None or (outer.value is not None and includes(outer.value, inner.value))
    return False


def _includes_sequence(outer: SequenceOf, inner: SequenceOf) -> bool:
    if joined_size(outer.length, inner.length) != outer.length:
        return False
    if outer.items is not None:
        return inner.items is not None and all(a.includes(b) for a, b in zip(outer.items, inner.items, strict=True))
    return inner.element is None or (outer.element is not None and outer.element.includes(inner.element))


def same(a: Abstract, b: Abstract) -> bool:
    """Whether both stand for the same values on the same grid of knowledge."""
    if isinstance(a, Range) and isinstance(b, Range) and (a.array is None) != (b.array is None):
        return False
    if isinstance(a, Range) and isinstance(b, Range) and a.array is not None and b.array is not None:
        return a.shape == b.shape and a.format is b.format and bool((a.array == b.array).all())
    return includes(a, b) and includes(b, a)


def widen(older: Abstract, newer: Abstract, thresholds: Sequence[float], *, drastic: bool = False) -> Abstract:
    """An upper bound of both that makes any ascending chain stop.

    Ends that move jump to the next threshold; sizes that move become unbounded. `drastic` jumps to the ends of the format at
    once and keeps one cell per tensor.
    """
    if isinstance(older, SequenceOf) and isinstance(newer, SequenceOf):
        if older.items is not None and newer.items is not None and len(older.items) == len(newer.items):
            items = zip(older.items, newer.items)
            return SequenceOf.of(tuple(_widen_tensor(a, b, thresholds, drastic) for a, b in items))
        element = newer.element if older.element is None else older.element
        if older.element is not None and newer.element is not None:
            element = _widen_tensor(older.element, newer.element, thresholds, drastic)
        return SequenceOf(element, _widened_size(older.length, newer.length))
    if isinstance(older, OptionalOf) or isinstance(newer, OptionalOf):
        a, b = _as_optional(older), _as_optional(newer)
        if a.value is None or b.value is None:
            return a.join(b)
        inner = widen(a.value, b.value, thresholds, drastic=drastic)
        assert not isinstance(inner, OptionalOf)
        return OptionalOf(inner, a.may_be_absent or b.may_be_absent)
    if isinstance(older, Range) and isinstance(newer, Range):
        return _widen_tensor(older, newer, thresholds, drastic)
    raise NotAnalysed("a value is a tensor on one path and a sequence on another")


def _widen_tensor(older: Range, newer: Range, thresholds: Sequence[float], drastic: bool) -> Range:
    joined = _join_tensors(older, newer)
    if joined.shape is None:
        older = older if older.shape is None else older.join(joined)
    elif older.shape is not None and joined.shape != older.shape:
        shape = tuple(_widened_size(a, b) for a, b in zip(older.shape, joined.shape))
        # A cell per element cannot be kept along an axis of unknown size: the joins have merged it already.
        joined = Range(joined.format, shape, joined.grid, joined.low, joined.high, joined.special)
        older = joined if not drastic else joined.smash()
    if drastic:
        older, joined = older.smash(), joined.smash()
    widened = older.widen(joined, () if drastic else thresholds)
    # Values behind an overflow may lie beyond the format, where a chain is kept wider than it: no threshold covers them.
    return widened if widened.includes(joined) else widened.join(joined)


def _widened_size(older: Size, newer: Size) -> Size:
    joined = joined_size(older, newer)
    if joined == older:
        return older
    high = largest(joined)
    return Span(
        0 if smallest(joined) < smallest(older) else smallest(joined),
        None if high is None or high != largest(older) else high,
    )


def anything_like(value: Abstract) -> Abstract:
    """Any value of the same kind and format; special values only as far as `value` has them."""
    if isinstance(value, SequenceOf):
        element = None if value.element is None else _any_tensor(value.element)
        return SequenceOf(element, Span(0, None))
    if isinstance(value, OptionalOf):
        if value.value is None:
            return OptionalOf(None, True)
        inner = anything_like(value.value)
        assert not isinstance(inner, OptionalOf)
        return OptionalOf(inner, True)
    return _any_tensor(value)


def _any_tensor(value: Range) -> Range:
    low, high = value.hull()
    low, high = min(low, value.format.low), max(high, value.format.high)
    return Range.uniform(None, value.format, low, high, value.any_special)


def with_special(value: Abstract, bits: int) -> Abstract:
    """The same value where every tensor inside may also be these special values (floating tensors only)."""
    if isinstance(value, Range):
        return _with_special(value, bits)
    if isinstance(value, SequenceOf):
        items = None if value.items is None else tuple(_with_special(i, bits) for i in value.items)
        element = None if value.element is None else _with_special(value.element, bits)
        return SequenceOf(element, value.length, items)
    if value.value is None:
        return value
    inner = with_special(value.value, bits)
    assert not isinstance(inner, OptionalOf)
    return OptionalOf(inner, value.may_be_absent)


def _with_special(value: Range, bits: int) -> Range:
    return value.with_special(bits) if value.format.is_float else value


def truth(value: Abstract) -> tuple[bool, bool]:
    """Whether a condition may be true, and whether it may be false."""
    if not isinstance(value, Range) or value.format.kind != "bool":
        return True, True
    low, high = value.hull()
    if not (np.isfinite(low) and np.isfinite(high)):
        return True, True
    return high >= 1.0, low <= 0.0
