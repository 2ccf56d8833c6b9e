"""Shrinking: a point that makes a node fail, made as plain as it can be while the node still fails.

Plain means, in this order: few numbers that are away from a plain one (0 where that is legal), few different numbers, few
decimal digits. Every step proposes another legal point, of which the current one takes over as much as it can: all of it,
else whole tensors, else chunks of elements by delta debugging (Zeller and Hildebrandt, Simplifying and isolating
failure-inducing input, IEEE TSE 28, 2002). Replays are counted, time is not: the same point gives the same result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tensorproof.assumptions import Domain
from tensorproof.confirm.observing import Domains
from tensorproof.confirm.sampling import Point, into_format
from tensorproof.formats import Array, Format

#: Significant decimal digits that are tried, fewest first.
DIGITS = (1, 2, 3)
#: Ways to round to a number of digits; failures lie beyond a threshold, so that the nearest number may be on its wrong side.
ROUNDINGS: tuple[Callable[[Array], Array], ...] = (np.rint, lambda x: np.copysign(np.ceil(np.abs(x)), x), np.trunc)
#: A power of ten up to this one is a float64 number, and rounding with it is rounded once.
EXACT_POWER = 22
#: A finite set is searched for a common value as far as its first members in order of plainness.
MOST_VALUES = 8

#: What is taken over from another point at once: a tensor; an element, or a row where its elements are legal together
#: only; a part of such a row.
Unit = Literal["tensor", "unit", "part"]

Numbers = npt.NDArray[Any]


def shrunk(point: Point, domains: Domains, fails: Callable[[Point], bool], *, budget: int) -> Point:
    """The plainest failing point found with at most `budget` calls of `fails`; see `Shrinker`."""
    return Shrinker(point, domains, fails, budget=budget).run()


class _BudgetSpent(Exception):
    """No call of `fails` is left."""


class Shrinker:
    """A failing point on its way to a plain one.

    `point` is known to fail and legal; tensors without a domain stay as they are. `best` fails at every moment, whatever
    interrupts `run`. Points are never changed in place, so that `fails` may keep those it was given.
    """

    def __init__(self, point: Point, domains: Domains, fails: Callable[[Point], bool], *, budget: int) -> None:
        self.best: Point = dict(point)
        self.calls = 0
        self._fails = fails
        self._budget = budget
        self._refused: set[bytes] = set()
        self._tensors = {
            name: _Tensor(*domains[name])
            for name, array in point.items()
            if name in domains and array.size and domains[name][2].kind in ("float", "int", "bool")
        }
        self._plain = {name: tensor.plain() for name, tensor in self._tensors.items()}

    def run(self) -> Point:
        """Shrink until nothing becomes plainer or the budget is spent; returns `best`."""
        try:
            self._take_over(self._plain, self._share(2), by="tensor")
            self._take_over(self._plain, self._share(2), by="unit")
            self._drop_parts_of_rows()
            self._make_alike()
            self._take_over(self._plain, self._share(2), by="unit")
            self._repeat_rows()
            self._round()
            self._take_over(self._plain, self._share(1), by="unit")
        except _BudgetSpent:
            pass
        return self.best

    # -- steps --------------------------------------------------------------------------------------------------------

    def _drop_parts_of_rows(self) -> None:
        """Rows of which the elements are legal together only: zeros among them, and the rest scaled to be legal again."""
        other = {
            name: np.where(
                tensor.differing(self.best[name], self._plain[name], "unit"), np.zeros_like(self.best[name]), self.best[name]
            )
            for name, tensor in self._tensors.items()
            if tensor.can_be_scaled
        }
        self._take_over(other, self._share(3), by="part")

    def _make_alike(self) -> None:
        """One number for all elements of a tensor that are not plain: 1, -1, an end of the box, or the largest of them."""
        proposals = {name: tensor.common_values(self.best[name]) for name, tensor in self._tensors.items()}
        settled: set[str] = set()
        for turn in range(max(map(len, proposals.values()), default=0)):
            other = {
                name: np.where(_differ(self.best[name], self._plain[name]), values[turn], self.best[name])
                for name, values in proposals.items()
                if name not in settled and turn < len(values)
            }
            self._take_over(other, self._share(4), by="tensor")
            settled |= {name for name, array in other.items() if not _differ(self.best[name], array).any()}

    def _repeat_rows(self) -> None:
        """Every row (slice of the first axis) equal to one of them, unless more numbers would be away from plain ones."""
        other: Point = {}
        for name, tensor in self._tensors.items():
            array = self.best[name]
            if not tensor.rows_may_repeat or len(array) < 2:
                continue
            away = _differ(array, self._plain[name]).reshape(len(array), -1).sum(axis=1)
            row = int(np.where(away > 0, away, away.max() + 1).argmin())
            if 0 < away[row] * len(array) <= away.sum():
                other[name] = np.broadcast_to(array[row], array.shape).copy()
        self._take_over(other, self._share(4), by="tensor")

    def _round(self) -> None:
        """Few digits: for all elements of a tensor at once, then for as many of them as possible."""
        units: tuple[Unit, ...] = ("tensor", "unit")
        for number, (by, digits, rounding) in enumerate(steps := list(product(units, DIGITS, ROUNDINGS))):
            other: Point = {}
            for name, tensor in self._tensors.items():
                array = self.best[name]
                away = tensor.differing(array, self._plain[name], "unit")
                if away.any():
                    other[name] = np.where(away, tensor.rounded(array, digits, rounding), array)
            self._take_over(other, self._share(len(steps) - number), by=by)

    # -- towards another point ----------------------------------------------------------------------------------------

    def _share(self, parts: int) -> int:
        """One part of the calls that are left, rounded up."""
        return -((self.calls - self._budget) // parts)

    def _try(self, point: Point) -> bool:
        """Whether a point fails, and is the best one from now on. What did not fail once is not replayed again."""
        content = hashlib.blake2b()
        for name in self._tensors:
            content.update(point[name].tobytes())
        if content.digest() in self._refused:
            return False
        if self.calls >= self._budget:
            raise _BudgetSpent
        self.calls += 1
        if self._fails(point):
            self.best = point
            return True
        self._refused.add(content.digest())
        return False

    def _take_over(self, other: Point, calls: int, *, by: Unit) -> None:
        """Take over as much of another point as possible, in `calls` replays."""
        start = self.best
        units = {name: self._tensors[name].differing(start[name], array, by) for name, array in other.items()}
        units = {name: differing for name, differing in units.items() if differing.any()}
        ends = np.cumsum([0, *(int(np.count_nonzero(differing)) for differing in units.values())])

        def holds(kept: npt.NDArray[np.intp]) -> bool:
            stays = np.zeros(ends[-1], np.bool_)
            stays[kept] = True
            point = dict(start)
            for (name, differing), first, last in zip(units.items(), ends, ends[1:]):
                mask = np.zeros(differing.shape, np.bool_)
                mask[differing] = stays[first:last]
                mixed = np.where(mask, start[name], other[name])
                point[name] = self._tensors[name].scaled(mixed, start[name]) if by == "part" else mixed
            return self._try(point)

        last_call = self.calls + calls
        _minimise(int(ends[-1]), holds, lambda: self.calls >= last_call)


def _minimise(count: int, holds: Callable[[npt.NDArray[np.intp]], bool], is_over: Callable[[], bool]) -> None:
    """Look for a small part of the numbers 0 .. count-1 for which `holds` is true, as it is for all of them, until `is_over`.

    This is ddmin without its tests of single chunks: the complement of one half is the other half, and if no half holds,
    no finer chunk does, unless more numbers can make it false again.
    """
    if not count or is_over() or holds(np.arange(0)):
        return
    kept = np.arange(count)
    size, removed = count, False
    while kept.size > 1 and (size > 1 or removed):
        size, removed, position = max(min(size, kept.size) // 2, 1), False, 0
        while position < kept.size and kept.size > 1:
            if is_over():
                return
            rest = np.delete(kept, slice(position, position + size))
            if holds(rest):
                kept, removed = rest, True
            else:
                position += size


@dataclass(frozen=True, slots=True)
class _Tensor:
    """The legal values of one tensor, and which of them are plain."""

    domain: Domain
    shape: tuple[int, ...]
    format: Format

    @property
    def axis(self) -> int:
        return self.domain.axis % len(self.shape) if self.shape else 0

    @property
    def has_rows(self) -> bool:
        """Whether the elements of a row are legal together only."""
        return bool(self.shape) and self.domain.kind in ("one-hot", "simplex", "unit-norm")

    @property
    def can_be_scaled(self) -> bool:
        """Whether a row in which some elements become zero can be made legal by a factor."""
        return self.has_rows and self.domain.kind != "one-hot"

    @property
    def rows_may_repeat(self) -> bool:
        """Whether slices of the first axis are legal in each other's place."""
        return bool(self.shape) and (self.domain.kind in ("box", "values") or self.axis != 0)

    def differing(self, one: Numbers, other: Numbers, by: Unit) -> npt.NDArray[np.bool_]:
        """Which units differ; the shape broadcasts to the tensor's."""
        differing = _differ(one, other)
        if by == "tensor":
            return np.asarray(differing.any())
        return np.asarray(differing.any(axis=self.axis, keepdims=True)) if by == "unit" and self.has_rows else differing

    def plain(self) -> Numbers:
        """The plainest tensor: zeros where they are legal.

        Rows that must add up have their 1 in the first place. A plain mask hides nothing, so that any of its elements is
        legal in any other mask.
        """
        if self.has_rows:
            numbers = np.zeros(self.shape)
            numbers[(slice(None),) * self.axis + (0,)] = 1.0
        elif self.domain.kind == "values":
            numbers = np.full(self.shape, self._values()[0])
        elif self.domain.kind in ("one-hot", "simplex", "unit-norm", "mask"):
            numbers = np.ones(self.shape)
        else:
            low, high = self._ends()
            nearest_end = np.where(np.abs(low) <= np.abs(high), low, high)
            legal = [(low <= number) & (number <= high) for number in (0.0, 1.0, -1.0)]
            numbers = np.broadcast_to(np.select(legal, [0.0, 1.0, -1.0], nearest_end), self.shape)
        return self._legal(numbers)

    def common_values(self, array: Numbers) -> list[Numbers]:
        """Numbers that all elements away from the plain ones may have in common, plainest first."""
        match self.domain.kind:
            case "values":
                return [self._legal(np.array(value)) for value in self._values()[1:MOST_VALUES]]
            case "box" | "channels":
                numbers = array.astype(np.float64)
                largest = numbers.flat[int(np.abs(numbers).argmax())]
                return [self._legal(np.broadcast_to(value, self.shape)) for value in (1.0, -1.0, *self._ends(), largest)]
            case _:
                return []

    def scaled(self, array: Numbers, before: Numbers) -> Numbers:
        """Rows that are not as before, made legal by a factor; those of zeros alone become plain."""
        numbers = array.astype(np.float64)
        order = 1 if self.domain.kind == "simplex" else 2
        size = np.linalg.norm(numbers, order, self.axis, keepdims=True)
        legal = self._legal(np.where(size > 0, numbers / np.where(size > 0, size, 1.0), self.plain()))
        return np.where(self.differing(array, before, "unit"), legal, array)

    def rounded(self, array: Numbers, digits: int, rounding: Callable[[Array], Array]) -> Numbers:
        """Elements with a number of decimal digits; those that have no more stay as they are, like those that cannot have it."""
        numbers = array.astype(np.float64)
        if self.domain.kind == "simplex" and self.has_rows:
            nearest, wanted = (self._rounded_simplex(numbers, digits, way) for way in (np.rint, rounding))
        elif self.domain.kind in ("box", "channels"):
            nearest, wanted = (_significant(numbers, digits, way) for way in (np.rint, rounding))
        else:
            return array
        return np.where(self.differing(array, self._legal(nearest), "unit"), self._legal(wanted), array)

    def _rounded_simplex(self, numbers: Array, digits: int, rounding: Callable[[Array], Array]) -> Array:
        """Rows with this many decimals; the largest element is what the others leave, if they leave anything."""
        scale = 10.0**digits
        largest = numbers.argmax(axis=self.axis, keepdims=True)
        whole = rounding(numbers * scale)
        np.put_along_axis(whole, largest, 0.0, self.axis)
        left = scale - whole.sum(axis=self.axis, keepdims=True)
        np.put_along_axis(whole, largest, left, self.axis)
        return np.where(left >= 0, whole / scale, numbers)

    def _ends(self) -> tuple[Array, Array]:
        """The smallest and the largest legal number, for each channel if they have their own."""
        low, high = self.domain.ends(self.shape, self.format)
        if self.format.is_float:
            return self.format.round_up(low), self.format.round_down(high)
        return np.ceil(low), np.floor(high)

    def _legal(self, numbers: Array) -> Numbers:
        return np.asarray(into_format(numbers, self.domain, self.format))

    def _values(self) -> list[float]:
        """The members of a finite set, plainest first."""
        return sorted(self.domain.values, key=lambda v: (v != 0, v != 1, v != -1, abs(v), v < 0))


def _differ(one: Numbers, other: Numbers) -> npt.NDArray[np.bool_]:
    """Where two arrays of one type differ in any bit: the zeros of both signs are two numbers."""
    bits = f"u{one.dtype.itemsize}"
    return np.asarray(one.view(bits) != other.view(bits))


def _significant(numbers: Array, digits: int, rounding: Callable[[Array], Array]) -> Array:
    """Numbers rounded to significant decimal digits; zeros, infinities and NaN stay."""
    result = numbers.copy()
    rounds = np.isfinite(numbers) & (numbers != 0)
    values = numbers[rounds]
    exponent = np.floor(np.log10(np.abs(values))) - (digits - 1)
    with np.errstate(all="ignore"):
        power = 10.0 ** np.abs(exponent)
        rounded = np.where(exponent < 0, rounding(values * power) / power, rounding(values / power) * power)
    rounded = np.where(np.isfinite(rounded), rounded, values)
    inexact = np.abs(exponent) > EXACT_POWER
    if inexact.any():
        rounded[inexact] = np.char.mod(f"%.{digits - 1}e", rounded[inexact]).astype(np.float64)
    result[rounds] = rounded
    return result
