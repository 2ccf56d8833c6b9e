"""Bounds on Euclidean norms, beside the interval of each element.

Cauchy and Schwarz give |w . y| <= |w|_2 |y|_2 where intervals give |w|_1 max|y|, about sqrt(n) times more. A range carries at
most one norm, along one axis; along any other axis, and for constants, a norm follows from the magnitudes of the cells.
All numbers here are upper bounds: sums and roots made in float64 are padded by far more than their own rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.formats import Array
from tensorproof.ranges.grid import Shape, largest
from tensorproof.ranges.range import Range
from tensorproof.ranges.spectral import sigma
from tensorproof.ranges.weights import channel_norms, is_large

#: Columns of which singular values are made even where a pass does not ask for them.
FEW_COLUMNS = 128
#: More than the relative rounding errors of any sum of squares made here.
PAD = 1.0 + 2.0**-30


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Vectors that are W^T x plus something: parts of them are products with some of the columns of W.

    |x| is at most `length`, what is added at most `extra` long. Heads of attention are such parts.
    """

    matrix: npt.NDArray[Any]
    length: float
    extra: float
    spectral: bool

    def bound(self, size: int, *, spectral: bool = False) -> float:
        """The norm of any `size` elements in a row, counted from a multiple of `size` on."""
        columns = channel_norms(self.matrix, (0,)).reshape(-1, size)
        longest = float(root_of_squares(columns, 1, np.ones(size)).max())
        if self.spectral or spectral:
            starts = range(0, self.matrix.shape[1], size)
            longest = min(longest, max(sigma(self.matrix[:, start : start + size]) for start in starts))
        return (times(longest, self.length) + self.extra) * PAD

    def scaled(self, factor: float) -> Parts:
        """The same after every element grew by at most this factor."""
        return replace(self, length=times(self.length, factor), extra=times(self.extra, factor))

    def plus(self, extra: float) -> Parts:
        """The same after a vector of at most this length was added."""
        return replace(self, extra=(self.extra + extra) * PAD)


@dataclass(frozen=True, slots=True)
class Norm:
    """Along `axis` (counted from 0), every vector of the tensor has a Euclidean norm of at most `bound`.

    The absolute values of its elements sum to at most `total` (rows of a softmax: 1), where that is known. `parts` knows
    more about parts of the vectors.
    """

    axis: int
    bound: float
    total: float = math.inf
    parts: Parts | None = None

    def tighten(self, x: Range) -> Range:
        """The same range where no element is larger than the norm; the range keeps its norm."""
        reach = min(self.bound, self.total)
        if not reach < np.inf:
            return x
        low, high = x.hull()
        if low >= -reach and high <= reach:
            return x
        low, high = x.low, x.high
        if (high > reach).any() or (low < -reach).any():
            empty = low > high
            low, high = np.clip(low, -reach, reach), np.clip(high, -reach, reach)
            if empty.any():
                low, high = np.where(empty, np.inf, low), np.where(empty, -np.inf, high)
            x = x.replace(low, high, x.special if x.has_special else None)
            x.norm = self
        return x

    def rounded(self, x: Range, relative: float, absolute: float) -> Norm | None:
        """The norm of x after each element was rounded: an error of relative * |element| + absolute."""
        assert x.shape is not None
        length = largest(x.shape[self.axis])
        if length is None:
            return None if absolute else self.scaled(1.0 + relative)
        return self.scaled(1.0 + relative).plus(absolute, length)

    def scaled(self, factor: float) -> Norm:
        """The norm of vectors whose elements grew by at most this factor."""
        parts = None if self.parts is None else self.parts.scaled(factor)
        return Norm(self.axis, times(self.bound, factor), times(self.total, factor), parts)

    def plus(self, absolute: float, length: int) -> Norm:
        """The norm of vectors whose elements moved by at most `absolute`."""
        if not absolute:
            return self
        extra = math.sqrt(length) * absolute
        parts = None if self.parts is None else self.parts.plus(extra)
        return Norm(self.axis, (self.bound + extra) * PAD, (self.total + length * absolute) * PAD, parts)

    def on(self, axis: int) -> Norm:
        """The same bounds along an axis with another number."""
        return self if axis == self.axis else replace(self, axis=axis)

    def covers(self, other: Norm | None) -> bool:
        """Whether every vector that the other one allows is allowed here."""
        return other is not None and self.axis == other.axis and other.bound <= self.bound and other.total <= self.total


def times(a: float, b: float) -> float:
    """A product of bounds: what is multiplied by 0 vanishes, even where it is not bounded."""
    return 0.0 if a == 0.0 or b == 0.0 else a * b * PAD


def largest_magnitude(x: Range) -> float:
    """The largest absolute value of any element; infinite where there are special values."""
    if x.has_special:
        return math.inf
    low, high = x.hull()
    return max(abs(low), abs(high)) if low <= high else 0.0


def smallest_magnitude(x: Range) -> float:
    """The smallest absolute value of any element."""
    low, high = x.low, x.high
    if not low.size:
        return 0.0
    return float(np.where(low > 0, low, np.where(high < 0, -high, 0.0)).min())


def cell_norms(x: Range, axis: int, attached: Norm | None = None) -> Array:
    """Norms along an axis, one per cell of the other axes (of size 1 along the axis itself); infinite where unknown."""
    attached = x.norm if attached is None else attached
    assert x.shape is not None
    axis %= x.rank
    length = largest(x.shape[axis])
    if x.has_special or length is None:
        norms = np.full((1,) * x.rank, np.inf)
    elif x.array is not None and is_large(x.array):
        norms = np.expand_dims(channel_norms(x.array, (axis,)), axis)
    else:
        magnitude = np.maximum(np.abs(x.low), np.abs(x.high))
        cuts = x.grid[axis]
        counts = np.array([float(length)]) if cuts is None else np.diff(cuts).astype(np.float64)
        norms = root_of_squares(magnitude, axis, counts)
    if attached is not None and attached.axis == axis:
        norms = np.minimum(norms, min(attached.bound, attached.total))
    return norms


def root_of_squares(magnitude: Array, axis: int, counts: Array) -> Array:
    """sqrt(sum(counts * magnitude^2)) along an axis, rounded up; the axis keeps size 1."""
    if not magnitude.size:
        return np.zeros(tuple(1 if i == axis % magnitude.ndim else n for i, n in enumerate(magnitude.shape)))
    scale = float(magnitude.max())
    if not 0.0 < scale < np.inf:
        return np.max(magnitude, axis=axis, keepdims=True)
    # Scaled so that the largest square is 1; what then underflows is at most 2^-511 of the largest element.
    shares = (magnitude / scale) ** 2
    weights = counts.reshape([-1 if i == axis % magnitude.ndim else 1 for i in range(magnitude.ndim)])
    total = (shares * weights).sum(axis=axis, keepdims=True)
    lost = math.sqrt(float(counts.sum())) * (scale * 2.0**-510 + 2.0**-1070)
    return scale * np.sqrt(total) * PAD + lost


def along(x: Range, axis: int) -> float:
    """The best bound on the norm of every vector along an axis: the attached one, or what the cells imply."""
    if x.shape is None:
        return math.inf
    if x.array is None and x.low.size == 1 and not x.has_special:
        length = largest(x.shape[axis])
        implied = math.inf if length is None else times(largest_magnitude(x), math.sqrt(length))
        attached = x.norm is not None and x.norm.axis == axis % len(x.shape)
        return min(implied, x.norm.bound, x.norm.total) if x.norm is not None and attached else implied
    if not x.has_special and (x.array is None or not is_large(x.array)):
        return _of_few_cells(x, axis)
    norms = cell_norms(x, axis)
    return float(norms.max()) if norms.size else 0.0


def _of_few_cells(x: Range, axis: int) -> float:
    """`along` of bounds over a few cells, in as few steps as possible."""
    assert x.shape is not None
    axis %= len(x.shape)
    length, cuts = largest(x.shape[axis]), x.grid[axis]
    attached = math.inf if x.norm is None or x.norm.axis != axis else min(x.norm.bound, x.norm.total)
    if length is None or not x.low.size:
        return attached if x.low.size else 0.0
    magnitude = np.abs(x.low) if x.low is x.high else np.maximum(np.abs(x.low), np.abs(x.high))
    most = float(magnitude.max())
    if cuts is None:
        return min(times(most, math.sqrt(length)), attached)
    if not 1e-100 < most < 1e100:
        # Squares would leave float64.
        norms = cell_norms(x, axis)
        return float(norms.max())
    # What underflows of smaller squares is far less than the padding of the largest.
    squares = magnitude * magnitude
    if len(cuts) - 1 != length:
        squares = squares * np.diff(cuts).reshape([-1 if i == axis else 1 for i in range(squares.ndim)])
    return min(math.sqrt(float(np.add.reduce(squares, axis).max())) * PAD, attached)


def total_along(x: Range, axis: int) -> float:
    """A bound on the sum of absolute values of every vector along an axis, as far as it is attached."""
    return x.norm.total if x.norm is not None and x.norm.axis == axis % x.rank else math.inf


def broadcast_norm(x: Range, shape: Shape, axis: int) -> tuple[float, float]:
    """Norm and total along an axis of the result when x is broadcast to a shape."""
    assert x.shape is not None
    own = axis - len(shape) + len(x.shape)
    length = largest(shape[axis])
    if own < 0 or (x.shape[own] == 1 and length != 1):
        if length is None:
            return math.inf, math.inf
        reach = largest_magnitude(x)
        return times(reach, math.sqrt(length)), times(reach, length)
    return along(x, own), total_along(x, own)


def _behind(shape: Shape, axis: int) -> int | None:
    """The number of elements behind one step along an axis, where it is known."""
    product = 1
    for size in shape[axis + 1 :]:
        if not isinstance(size, int):
            return None
        product *= size
    return product


def reshaped_norm(norm: Norm, old: Shape, new: Shape, *, spectral: bool = False) -> Norm | None:
    """The norm after the same elements, in row-major order, got another shape.

    Along an axis with the same step, vectors are parts of the old ones, or several of them in a row. An axis that swallows
    all that is behind the old one makes one vector of that many vectors.
    """
    step, length = _behind(old, norm.axis), old[norm.axis]
    if step is None or not isinstance(length, int) or not step or not length:
        return None
    best: Norm | None = None
    for axis, size in enumerate(new):
        inner = _behind(new, axis)
        if inner is None or not isinstance(size, int) or not size or (size == 1 and length != 1):
            continue
        if inner == step and length % size == 0:
            return part_norm(norm, size, length, spectral and size <= FEW_COLUMNS).on(axis)
        swallows = inner < step and step % inner == 0 and (size * inner) % (length * step) == 0
        if swallows or (inner == step and size % length == 0):
            several = size // length
            best = Norm(axis, times(norm.bound, math.sqrt(several)), times(norm.total, several))
    return best


def sliced_norm(norm: Norm, axis: int, start: int, count: int, step: int, size: int) -> Norm:
    """The norm of every step-th of `size` elements along an axis, `count` of them.

    What is known about parts stays known where the elements are one of several parts of the same size.
    """
    if axis != norm.axis:
        return norm
    if norm.parts is None or step != 1 or not count or size % count or start % count:
        return replace(norm, parts=None)
    return replace(part_norm(norm, count, size), parts=norm.parts)


def part_norm(norm: Norm, size: int, length: int, spectral: bool = False) -> Norm:
    """The norm of parts of equal size, in a row."""
    if size == length:
        return norm
    bound = norm.bound if norm.parts is None else min(norm.bound, norm.parts.bound(size, spectral=spectral))
    return Norm(norm.axis, bound, norm.total)
