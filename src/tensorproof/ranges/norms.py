"""Bounds on Euclidean norms, beside the interval of each element.

Cauchy and Schwarz give |w . y| <= |w|_2 |y|_2 where intervals give |w|_1 max|y|, about sqrt(n) times more. A range carries at
most one norm, along one axis; along any other axis, and for constants, a norm follows from the magnitudes of the cells.
All numbers here are upper bounds: sums and roots made in float64 are padded by far more than their own rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tensorproof.formats import Array
from tensorproof.ranges.grid import Shape, largest
from tensorproof.ranges.range import Range
from tensorproof.ranges.spectral import largest_sigma
from tensorproof.ranges.weights import channels, extents_along, is_large

#: More than the relative rounding errors of any sum of squares made here.
PAD = 1.0 + 2.0**-30


@dataclass(frozen=True, slots=True)
class Norm:
    """Along `axis` (counted from 0), every vector of the tensor has a Euclidean norm of at most `bound`.

    The absolute values of its elements sum to at most `total` (rows of a softmax: 1), where that is known.
    """

    axis: int
    bound: float
    total: float = math.inf

    def tighten(self, x: Range) -> Range:
        """The same range where no element is larger than the norm; the range keeps its norm."""
        reach = min(self.bound, self.total)
        if not reach < np.inf:
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
            return None if absolute else replace(self, bound=self.bound * (1.0 + relative), total=self.total * (1.0 + relative))
        return self.scaled(1.0 + relative).plus(absolute, length)

    def scaled(self, factor: float) -> Norm:
        """The norm of vectors whose elements grew by at most this factor."""
        return Norm(self.axis, times(self.bound, factor), times(self.total, factor))

    def plus(self, absolute: float, length: int) -> Norm:
        """The norm of vectors whose elements moved by at most `absolute`."""
        if not absolute:
            return self
        return Norm(self.axis, (self.bound + math.sqrt(length) * absolute) * PAD, (self.total + length * absolute) * PAD)

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
        norms = np.expand_dims(channels(x.array, (axis,)).norm, axis)
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
    norms = cell_norms(x, axis)
    return float(norms.max()) if norms.size else 0.0


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


class Reach(NamedTuple):
    """What norms say about products of matrices: bounds of the results and of the sums of their absolute terms."""

    low: Array
    high: Array
    magnitude: Array


def product_reach(a: Range, b: Range) -> Reach | None:
    """Bounds of a @ b over the cells of rows and columns (stacks of matrices broadcast); None where norms say nothing.

    |a . b| and all partial sums are at most |a|_2 |b|_2, and at most the sum of |a| times the largest |b|. Where rows are
    not negative and sum to at most s, a . b lies between s min(b, 0) and s max(b, 0).
    """
    if a.has_special or b.has_special:
        return None
    magnitude = times_cells(cell_norms(a, -1), cell_norms(b, -2))
    low, high = -magnitude, magnitude
    total = total_along(a, -1)
    if total < np.inf:
        least, most = _extents(b, -2)
        farthest = total * PAD * np.maximum(np.abs(least), np.abs(most))
        magnitude = np.minimum(magnitude, farthest)
        if bool((a.low >= 0).all()):
            low = np.maximum(low, total * PAD * np.minimum(least, 0.0))
            high = np.minimum(high, total * PAD * np.maximum(most, 0.0))
    total = total_along(b, -2)
    if total < np.inf:
        magnitude = np.minimum(magnitude, total * PAD * np.maximum(*map(np.abs, _extents(a, -1))))
    return Reach(np.maximum(low, -magnitude), np.minimum(high, magnitude), magnitude)


def _extents(x: Range, axis: int) -> tuple[Array, Array]:
    """The ends of all cells along an axis together, which keeps size 1."""
    if x.array is not None and is_large(x.array):
        low, high = extents_along(x.array, axis % x.rank)
        return np.expand_dims(low, axis), np.expand_dims(high, axis)
    return x.low.min(axis=axis, keepdims=True), x.high.max(axis=axis, keepdims=True)


def times_cells(a: Array, b: Array) -> Array:
    """Products of bounds over cells, rounded up; 0 * inf is 0."""
    with np.errstate(invalid="ignore"):
        result = a * b * PAD
    return np.where((a == 0.0) | (b == 0.0), 0.0, result)


def matrix_norm(w: Range, spectral: bool) -> float:
    """A bound of the largest singular value of a matrix, or of each of a stack of them: Frobenius, or better if asked for."""
    columns = cell_norms(w, -2)
    cuts = w.grid[-1]
    if w.has_special or not w.has_known_shape:
        return math.inf
    counts = np.array([float(w.sizes[-1])]) if cuts is None else np.diff(cuts).astype(np.float64)
    if columns.shape[-1] != len(counts):
        counts = np.array([float(w.sizes[-1])])
    whole = root_of_squares(columns, -1, counts)
    bound = float(whole.max()) if whole.size else 0.0
    if spectral and w.array is not None and w.format.is_float and bound < math.inf:
        bound = min(bound, largest_sigma(w.array))
    return bound


def mixed_norm(a: Range, b: Range) -> float:
    """A bound on the norms of the rows of a @ b where b's rows have one: |sum_k a_k b_k| <= (sum |a_k|) max |b_k|."""
    total = total_along(a, -1)
    if not total < np.inf:
        return math.inf
    return times(total, along(b, -1))
