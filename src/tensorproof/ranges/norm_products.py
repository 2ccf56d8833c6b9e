"""What norms say about products of matrices and about convolutions.

|w . x| <= |w|_2 |x|_2 bounds a result and every partial sum of it, because it bounds the sum of the absolute terms; and
|W x|_2 <= sigma(W) |x|_2 is the norm of the results together. A window of a convolution reads as many vectors as it has taps:
it is at most sqrt(taps) times as long as one of them. Padding with zeros only drops terms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.formats import Array
from tensorproof.operators.table import Call
from tensorproof.ranges.abstraction import Abstraction
from tensorproof.ranges.grid import Grid, Size, cell_sizes, largest, regrid
from tensorproof.ranges.norms import PAD, Norm, Parts, along, broadcast_norm, cell_norms, root_of_squares, times, total_along
from tensorproof.ranges.partial_sums import Sums
from tensorproof.ranges.range import Range
from tensorproof.ranges.spectral import largest_sigma, sigma
from tensorproof.ranges.sums import Dot
from tensorproof.ranges.weights import channel_norms, extents_along, is_large, norm_of

#: Vectors of fewer elements are short.
_SHORT = 16


def is_worth_a_norm(abstraction: Abstraction, length: Size) -> bool:
    """Whether a vector is so long that its norm says much more than the intervals of its elements: sqrt(n) times at most.

    Where precision comes before speed, every vector is.
    """
    most = largest(length)
    return abstraction.weights == "exact" or most is None or most >= _SHORT


def _extents(x: Range, axis: int) -> tuple[Array, Array]:
    """The ends of all cells along an axis together, which keeps size 1."""
    if x.array is not None and is_large(x.array):
        low, high = extents_along(x.array, axis % x.rank)
        return np.expand_dims(low, axis), np.expand_dims(high, axis)
    return x.low.min(axis=axis, keepdims=True), x.high.max(axis=axis, keepdims=True)


def _times_cells(a: Array, b: Array) -> Array:
    """Products of bounds over cells, rounded up; 0 * inf is 0."""
    with np.errstate(invalid="ignore"):
        result = a * b * PAD
    return np.where((a == 0.0) | (b == 0.0), 0.0, result)


def matrix_norm(w: Range, spectral: bool) -> float:
    """A bound of the largest singular value of a matrix, or of each of a stack of them: Frobenius, or better if asked for."""
    if w.has_special or not w.has_known_shape:
        return math.inf
    if w.array is not None and w.rank == 2 and is_large(w.array):
        return sigma(w.array) if spectral else norm_of(w.array)
    columns = cell_norms(w, -2)
    cuts = w.grid[-1]
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


def _over(array: Array, old: Grid, new: Grid) -> Array:
    """Bounds over the cells of a grid as bounds over those of another one, which is finer or merges axes whole."""
    offset = len(new) - len(old)
    for axis, before in enumerate(old):
        after = new[offset + axis]
        if array.shape[axis] <= 1 or before is None or before is after:
            continue
        if after is not None and bool(np.isin(before, after).all()):
            array = regrid(array, axis, before, after)
        else:
            array = array.max(axis=axis, keepdims=True)
    return array


def within_reach(dot: Dot, a: Range, b: Range, grid: Grid) -> Dot:
    """The bounds of a @ b over a grid of the result, tightened by the norms of rows and columns."""
    if a.has_special or b.has_special or not dot.low.size:
        return dot
    rows = _over(cell_norms(a, -1), (*a.grid[:-1], None), grid)
    columns = _over(cell_norms(b, -2), (*b.grid[:-2], None, b.grid[-1]), grid)
    magnitude = _times_cells(rows, columns)
    low, high = -magnitude, magnitude
    total = total_along(a, -1)
    if total < np.inf:
        columns_grid = (*b.grid[:-2], None, b.grid[-1])
        least, most = _extents(b, -2)
        up, down = _over(np.maximum(most, 0.0), columns_grid, grid), _over(np.maximum(-least, 0.0), columns_grid, grid)
        magnitude = np.minimum(magnitude, total * PAD * np.maximum(up, down))
        if bool((a.low >= 0).all()):
            low, high = np.maximum(low, -total * PAD * down), np.minimum(high, total * PAD * up)
    total = total_along(b, -2)
    if total < np.inf:
        farthest = np.maximum(*map(np.abs, _extents(a, -1)))
        magnitude = np.minimum(magnitude, total * PAD * _over(farthest, (*a.grid[:-1], None), grid))
    magnitude = np.minimum(dot.magnitude, magnitude)
    return Dot(
        np.maximum(dot.low, np.maximum(low, -magnitude)),
        np.minimum(dot.high, np.minimum(high, magnitude)),
        magnitude,
        dot.nonnegative,
        dot.nonpositive,
        np.maximum(dot.below, -magnitude),
        np.minimum(dot.above, magnitude),
    )


def product_norm(op: Call, result: Range, a: Range, b: Range, factor: float, addends: Sequence[Range], error: Array) -> Norm | None:
    """The norm of factor * (a @ b) plus addends, along the columns of a known matrix; each element errs by `error` at most.

    Without a known matrix along the last axis. The cells of the result imply a norm, too: the better one counts.
    """
    if a.has_special or b.has_special or any(x.has_special or x.shape is None for x in addends) or result.shape is None:
        return None
    axis = result.rank - (2 if a.array is not None and b.array is None else 1)
    known, operand = (b, along(a, a.rank - 1)) if axis == result.rank - 1 else (a, along(b, b.rank - 2))
    bound = times(operand, matrix_norm(known, op.abstraction.spectral))
    bound = min(bound, mixed_norm(a, b)) if known is b else bound
    extra = sum(broadcast_norm(x, result.shape, axis)[0] for x in addends) + _length(result, axis, error)
    parts = None
    if known.array is not None and known.rank == 2 and is_large(known.array) and operand < math.inf:
        matrix = known.array if known is b else known.array.T
        parts = Parts(matrix, times(operand, factor), extra, op.abstraction.spectral)
    return Norm(axis, min((times(bound, factor) + extra) * PAD, along(result, axis)), parts=parts)


def _length(result: Range, axis: int, error: Array) -> float:
    """The norm of the errors of a vector, given over the cells of the result."""
    if not error.size:
        return 0.0
    if not result.has_known_shape:
        return math.inf
    error = error.reshape((*(1,) * (result.rank - error.ndim), *error.shape))
    sizes = cell_sizes(result.grid, result.sizes, axis).astype(np.float64)
    counts = sizes if error.shape[axis] == len(sizes) else np.array([float(sizes.sum())])
    return float(root_of_squares(error, axis, counts).max())


# -- convolutions -----------------------------------------------------------------------------------------------------


def filter_norms(w: Range) -> Array:
    """The norm of each filter's weights, one per cell of the output channels (filters, channels, taps)."""
    if w.has_special:
        return np.full(w.cells[0], np.inf)
    if w.array is not None and is_large(w.array):
        return channel_norms(w.array, tuple(range(1, w.rank)))
    norms = np.maximum(np.abs(w.low), np.abs(w.high))
    for axis in range(1, w.rank):
        norms = root_of_squares(norms, axis, cell_sizes(w.grid, w.sizes, axis).astype(np.float64))
    return norms.reshape(-1)


def within_kernel_reach(sums: Sums, x: Range, w: Range) -> Sums:
    """Sums of products (batch, filters, space) within what the norms of filters and of the vectors of the channels allow."""
    if x.has_special or w.has_special or not sums.low.size:
        return sums
    filters = filter_norms(w)
    if sums.low.shape[1] not in (1, len(filters)):
        return sums
    reach = _times_cells(filters, np.asarray(times(along(x, 1), math.sqrt(math.prod(w.sizes[2:])))))
    reach = reach if sums.low.shape[1] == len(filters) else reach.max(keepdims=True)
    reach = reach.reshape(1, -1, *(1,) * (sums.low.ndim - 2))
    low, high, magnitude = np.maximum(sums.low, -reach), np.minimum(sums.high, reach), np.minimum(sums.magnitude, reach)
    return sums._replace(low=low, high=high, magnitude=magnitude)


def kernel_norm(w: Range, groups: int, spectral: bool) -> float:
    """How much longer than one vector of the input channels the vector of the output channels of a convolution can be.

    sqrt(taps) times the largest singular value of the weights as a matrix (filters, channels * taps), or the sum over the
    taps of those of (filters, channels); groups are blocks of one matrix, of which the largest counts.
    """
    taps = math.prod(w.sizes[2:])
    norms, filters = filter_norms(w), w.sizes[0]
    counts = cell_sizes(w.grid, w.sizes, 0).astype(np.float64) if len(norms) != filters else np.ones(filters)
    bound = math.inf
    if len(norms) == filters and filters % groups == 0:
        bound = float(root_of_squares(norms.reshape(groups, -1), 1, np.ones(filters // groups)).max(initial=0.0))
    elif groups == 1:
        bound = float(root_of_squares(norms, 0, counts).max(initial=0.0))
    bound = times(bound, math.sqrt(taps))
    if not spectral or w.array is None or not w.format.is_float or not bound < math.inf or filters % groups:
        return bound
    matrix = w.array.reshape(groups, filters // groups, -1)
    bound = min(bound, times(max(sigma(part) for part in matrix) if filters > groups else math.inf, math.sqrt(taps)))
    by_tap = w.array.reshape(groups, filters // groups, -1, taps)
    if 1 < taps <= 9 and filters > groups and _is_concentrated(by_tap):
        bound = min(bound, max(sum(sigma(part[..., tap]) for tap in range(taps)) for part in by_tap) * PAD)
    return bound


def _is_concentrated(by_tap: npt.NDArray[Any]) -> bool:
    """Whether few taps have most of the weight. Only then can the sum over the taps be the smaller bound: it is worth its cost."""
    squares = np.square(by_tap.astype(np.float32, copy=False)).reshape(-1, by_tap.shape[-1]).sum(axis=0)
    return bool(np.sqrt(squares).sum() < 0.7 * math.sqrt(len(squares) * float(squares.sum())))


def convolution_norm(op: Call, result: Range, x: Range, w: Range, groups: int, addends: Sequence[Any], error: Array) -> Norm | None:
    """The norm of a convolution with addends along the output channels; each element errs by `error` at most."""
    if x.has_special or w.has_special or any(y.has_special or y.shape is None for y in addends) or result.shape is None:
        return None
    bound = times(along(x, 1), kernel_norm(w, groups, op.abstraction.spectral))
    bound += sum(broadcast_norm(y, result.shape, 1)[0] for y in addends)
    return Norm(1, min((bound + _length(result, 1, error)) * PAD, along(result, 1)))
