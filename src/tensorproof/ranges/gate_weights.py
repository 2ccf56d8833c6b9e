"""Weight matrices of recurrent layers, prepared for the many products that a sequence takes.

A matrix has one column per gate and unit. It is used whole, converted once, with the last product remembered (a state that
repeats costs nothing); or through the sums of its columns, where all factors are taken to lie in one interval.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from tensorproof.formats import Array
from tensorproof.ranges.cells import Box, Term, dot
from tensorproof.ranges.weights import Channels

#: Matrices from this size on are multiplied by centre and radius, their absolute values kept.
_PREPARED = 1 << 16


class Matrix(Protocol):
    """What a gate sum needs of its weights."""

    @property
    def rows(self) -> int:
        """The number of factors that a product has as operands."""
        ...

    def times(self, a: Box) -> Term:
        """a @ matrix as a summand, one row per row of `a`."""
        ...

    def units(self, start: int, stop: int) -> Matrix:
        """Some of the columns."""
        ...


class Whole:
    """All elements. `repeats` counts the equal rows that each row stands for."""

    def __init__(self, box: Box, repeats: int = 1) -> None:
        self.box = box
        self.repeats = repeats
        self.is_point = box.low is box.high
        self._prepared = self.is_point and box.low.size >= _PREPARED
        self._kept: tuple[Array, Array] | None = None
        self._last: tuple[Box, Term] | None = None

    @property
    def rows(self) -> int:
        return self.box.low.shape[0]

    def units(self, start: int, stop: int) -> Whole:
        return Whole(self.box.units(start, stop), self.repeats)

    def times(self, a: Box) -> Term:
        if self._last is not None and _equal(self._last[0], a):
            return self._last[1]
        term = self._times(a) if self._prepared else dot(a, self.box, self.repeats)
        self._last = a, term
        return term

    def _times(self, a: Box) -> Term:
        """Centre and radius; the sums of absolute terms, which only rounding depends on, by the largest factor."""
        if self._kept is None:
            absolute = np.abs(self.box.low)
            self._kept = absolute, absolute.sum(axis=0)[None, :]
        absolute, sums = self._kept
        centre = 0.5 * a.low + 0.5 * a.high
        radius = np.maximum(a.high - centre, centre - a.low)
        # Rounded up: the centre itself is rounded, and the interval must still lie within the radius.
        radius = np.where(radius == 0.0, 0.0, np.nextafter(radius, np.inf))
        middle, reach = centre @ self.box.low, radius @ absolute
        return Term(middle - reach, middle + reach, a.magnitude.max(axis=1, keepdims=True) * sums, self.rows)


class Sums:
    """The sums over each column of `count` elements: factors are taken by the interval that holds all of a row's."""

    def __init__(self, sums: Channels, count: int) -> None:
        self.sums = sums
        self.count = count

    @property
    def rows(self) -> int:
        return 1

    def units(self, start: int, stop: int) -> Sums:
        part = slice(start, stop)
        sums = self.sums
        return Sums(Channels(sums.total[part], sums.error[part], sums.absolute[part]), self.count)

    def times(self, a: Box) -> Term:
        low, high = a.low.min(axis=1, keepdims=True), a.high.max(axis=1, keepdims=True)
        return Term(*self.sums.times(low, high), self.count)


def magnitudes(low: Array, high: Array) -> Channels:
    """The sums over the columns of a matrix of intervals, where only their absolute values are kept."""
    absolute = np.maximum(np.abs(low), np.abs(high)).sum(axis=0) * (1.0 + 2.0**-40)
    return Channels(np.zeros_like(absolute), absolute, absolute)


def _equal(a: Box, b: Box) -> bool:
    return a.low.shape == b.low.shape and bool((a.low == b.low).all()) and bool((a.high == b.high).all())
