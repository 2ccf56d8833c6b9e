"""Views: linear maps of whole tensors (movements of elements, and sums along axes), by which affine forms tell terms apart.

Two views that compare equal are the same map. Views that do the same in different ways may compare unequal: their terms
are then taken to be independent, which is always sound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from tensorproof.formats import FLOAT64
from tensorproof.ranges.folds import Fold
from tensorproof.ranges.grid import Cuts
from tensorproof.ranges.moving import reshape, slice_axis, take, transpose
from tensorproof.ranges.range import Range

Sizes: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reshaped:
    """The elements in row-major order under another shape."""

    shape: Sizes

    def __call__(self, x: Range) -> Range:
        return reshape(x, self.shape)


@dataclass(frozen=True, slots=True)
class Transposed:
    """The axes in another order."""

    shape: Sizes
    order: tuple[int, ...]

    def __call__(self, x: Range) -> Range:
        return transpose(x, self.order)


@dataclass(frozen=True, slots=True)
class Sliced:
    """Elements start, start + step, ... along one axis (`step` may be negative)."""

    shape: Sizes
    axis: int
    start: int
    step: int

    def __call__(self, x: Range) -> Range:
        stop = self.start + self.step * self.shape[self.axis]
        return slice_axis(x, self.axis, self.start, max(stop, -1), self.step)


@dataclass(frozen=True, slots=True)
class Taken:
    """Elements at given positions along one axis."""

    shape: Sizes
    axis: int
    index: tuple[int, ...]

    def __call__(self, x: Range) -> Range:
        return take(x, self.axis, np.array(self.index, np.int64))


@dataclass(frozen=True, slots=True)
class Broadcast:
    """The tensor repeated to a shape (NumPy's rules)."""

    shape: Sizes

    def __call__(self, x: Range) -> Range:
        offset = len(self.shape) - x.rank
        grid: list[Cuts] = [None] * offset + list(x.grid)
        for axis, size in enumerate(x.sizes, start=offset):
            if size != self.shape[axis]:
                grid[axis] = None
        ones = (1,) * offset
        low, high = x.low.reshape(ones + x.cells), x.high.reshape(ones + x.cells)
        return Range(x.format, self.shape, tuple(grid), low, high)


@dataclass(frozen=True, slots=True)
class Summed:
    """Sums along axes, exact up to outward rounding of the bounds."""

    shape: Sizes
    axes: tuple[int, ...]
    keepdims: bool

    def __call__(self, x: Range) -> Range:
        fold = Fold(x, self.axes, keepdims=self.keepdims)
        # float64 sums of n products of a cell's size and its bound: (n + 1) 2^-53 sum |terms|, and once more for the
        # sum of the absolute values itself (see `tensorproof.ranges.sums`).
        slack = (fold.terms + 8.0) * 2.0**-52
        low, high = fold.weighted(x.low), fold.weighted(x.high)
        low, high = low - slack * fold.weighted(np.abs(x.low)), high + slack * fold.weighted(np.abs(x.high))
        return fold.result(low, high, format=FLOAT64)


Map: TypeAlias = Reshaped | Transposed | Sliced | Taken | Broadcast | Summed
#: Maps in the order of their application.
View: TypeAlias = tuple[Map, ...]


def shape_after(shape: Sizes, view: View) -> Sizes:
    """The shape of a view of a tensor of some shape."""
    return view[-1].shape if view else shape


def followed(origin: Sizes, view: View, step: Map) -> View:
    """The view of a tensor of shape `origin`, followed by one more map; steps that cancel or merge do."""
    before = shape_after(origin, view)
    if isinstance(step, Sliced) and step.step != 1 and step.shape[step.axis] == 1:
        step = Sliced(step.shape, step.axis, step.start, 1)
    if _is_identity(step, before):
        return view
    if not view:
        return (step,)
    last, rest = view[-1], view[:-1]
    earlier = shape_after(origin, rest)
    if isinstance(step, Reshaped) and isinstance(last, Reshaped):
        return followed(origin, rest, step)
    if isinstance(step, Transposed) and isinstance(last, Transposed):
        order = tuple(last.order[axis] for axis in step.order)
        return followed(origin, rest, Transposed(step.shape, order))
    if isinstance(step, Sliced) and isinstance(last, Transposed):
        # Slices come first, where they can be told what they cut.
        axis = last.order[step.axis]
        cut = sliced_shape(earlier, axis, step.shape[step.axis])
        inner = followed(origin, rest, Sliced(cut, axis, step.start, step.step))
        return followed(origin, inner, Transposed(step.shape, last.order))
    if isinstance(step, Sliced) and isinstance(last, Sliced):
        if step.axis == last.axis:
            start, stride = last.start + step.start * last.step, last.step * step.step
            return followed(origin, rest, Sliced(step.shape, step.axis, start, stride))
        if step.axis < last.axis:
            cut = sliced_shape(earlier, step.axis, step.shape[step.axis])
            inner = followed(origin, rest, Sliced(cut, step.axis, step.start, step.step))
            return (*inner, Sliced(step.shape, last.axis, last.start, last.step))
    return (*view, step)


def _is_identity(step: Map, shape: Sizes) -> bool:
    if isinstance(step, Transposed):
        return step.order == tuple(range(len(shape)))
    if isinstance(step, Sliced):
        return step.shape == shape and step.start == 0 and step.step == 1
    if isinstance(step, Summed):
        return step.shape == shape and math.prod(shape[axis] for axis in step.axes) == 1
    return isinstance(step, Reshaped | Broadcast) and step.shape == shape


def sliced_shape(shape: Sizes, axis: int, count: int) -> Sizes:
    """A shape with another size of one axis."""
    return (*shape[:axis], count, *shape[axis + 1 :])


def positions(shape: Sizes, axis: int, index: Sequence[int]) -> Map:
    """The elements at some positions of an axis, as a slice if they are evenly spaced."""
    new = sliced_shape(shape, axis, len(index))
    steps = {after - before for before, after in pairwise(index)}
    if len(index) and len(steps) <= 1 and 0 not in steps:
        return Sliced(new, axis, index[0], steps.pop() if steps else 1)
    return Taken(new, axis, tuple(index))
