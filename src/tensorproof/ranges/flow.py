"""`Flow`: what a propagation knows about a value, clean and actual, and the roots of the difference.

The *clean* range holds if no hazard fired before; the *actual* one adds the special values that hazards give. The *roots* are
the numbers of the nodes where those hazards are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tensorproof.ranges.containers import Abstract, join
from tensorproof.ranges.range import Range

if TYPE_CHECKING:
    from tensorproof.ranges.records import Summary

Roots = frozenset[int]
NO_ROOTS: Roots = frozenset()


@dataclass(slots=True, eq=False)
class Flow:
    """What flows along an edge. `actual` is `clean` itself wherever no root lies before. Neither changes once it is made."""

    clean: Abstract
    actual: Abstract
    roots: Roots = NO_ROOTS
    #: The hull of the clean range, once it was asked for.
    summary: Summary | None = None

    @classmethod
    def of(cls, value: Abstract) -> Flow:
        return cls(value, value)

    def join(self, other: Flow) -> Flow:
        """What flows along an edge that either of two paths reaches."""
        clean = join(self.clean, other.clean)
        both_clean = self.actual is self.clean and other.actual is other.clean
        actual = clean if both_clean else join(self.actual, other.actual)
        return Flow(clean, actual, self.roots | other.roots)

    def unrelated(self) -> Flow:
        """The same bounds for a tensor of which nothing else is known to have the same elements."""
        clean = _unrelated(self.clean)
        return Flow(clean, clean if self.actual is self.clean else _unrelated(self.actual), self.roots)

    def behind(self, roots: Roots) -> Flow:
        """The same values, reached through these roots as well."""
        return self if roots <= self.roots else Flow(self.clean, self.actual, self.roots | roots)


def _unrelated(value: Abstract) -> Abstract:
    if not isinstance(value, Range):
        return value
    copy = value.bare()
    copy.norm = value.norm
    return copy


def united(a: Roots, b: Roots) -> Roots:
    """The union of two sets, as one of them where it holds the other: long chains then share one set."""
    if a is b or not b:
        return a
    if not a or a < b:
        return b
    return a if b <= a else a | b


def roots_of(operands: Sequence[Flow | None]) -> Roots:
    """The roots of all operands together."""
    roots = NO_ROOTS
    for flow in operands:
        if flow is not None and flow.roots:
            roots = united(roots, flow.roots)
    return roots
