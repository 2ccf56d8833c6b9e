"""Products of matrices that are one interval each, in plain numbers, or known and small: the common cases, at little cost.

The same bounds as those of the general product (`tensorproof.operators.linear`), which takes over wherever something is
special: several cells, special values, sizes that are not known, sums near the limit of their accumulator.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tensorproof.formats import Array
from tensorproof.operators.table import Call
from tensorproof.ranges.grid import Shape, broadcast_shapes
from tensorproof.ranges.norm_products import is_worth_a_norm, matrix_norm
from tensorproof.ranges.norms import PAD, Norm, Parts, along, times, total_along
from tensorproof.ranges.range import Range
from tensorproof.ranges.sums import keep_sign, summation_error, summation_error_of
from tensorproof.ranges.weights import channel_norms, channels, is_large, signs


class _Terms(NamedTuple):
    """Bounds of a product in exact arithmetic, and of the sum of its absolute terms."""

    low: float
    high: float
    magnitude: float
    nonnegative: bool
    nonpositive: bool


def product_of_intervals(op: Call, a: Range, b: Range) -> Range | None:
    """a @ b as computed, where a is one interval and b another, or large weights that only their summary stands for.

    None where the general product has to be asked.
    """
    if not a.format.is_float or a.array is not None or a.has_special or not (a.has_known_shape and b.has_known_shape):
        return None
    if a.rank < 2 or b.rank < 2:
        return None
    if b.array is not None and not is_large(b.array):
        return _of_small_weights(op, a, b)
    if not _is_interval(a):
        return None
    rows, shared = a.sizes[-2:]
    if not shared or b.sizes[-2] != shared or not rows or not b.sizes[-1]:
        return None
    if _is_interval(b):
        terms = _of_intervals(a, b, shared)
    elif (
        b.array is not None and b.rank == 2 and is_large(b.array) and op.abstraction.weights == "channel" and b.sizes[1] > op.cells
    ):
        terms = _of_weights(a, b)
    else:
        return None
    low, high, magnitude = terms.low, terms.high, terms.magnitude
    if op.abstraction.norms:
        low, high, magnitude = _within_reach(a, b, terms)
    error = summation_error_of(op, magnitude, shared, a.format)
    if not magnitude + error < op.accumulation(a.format).high / 4:
        return None
    low, high = low - error, high + error
    low, high = max(low, 0.0) if terms.nonnegative else low, min(high, 0.0) if terms.nonpositive else high
    shape: Shape = (*broadcast_shapes(a.sizes[:-2], b.sizes[:-2]), rows, b.sizes[-1])
    result = Range.uniform(shape, a.format, low, high)
    if op.abstraction.norms:
        result.norm = _norm(op, result, a, b, error)
    return result


def _of_small_weights(op: Call, a: Range, b: Range) -> Range | None:
    """a @ b for a small known matrix and rows that are all alike, where norms would say little."""
    (rows, shared), columns = a.sizes[-2:], b.sizes[-1]
    if a.low.ndim != a.rank or a.low.size != a.low.shape[-1] or a.low.size not in (1, shared) or not b.low.size:
        return None
    if b.rank != 2 or b.has_special or b.sizes[0] != shared or not rows or columns > op.cells:
        return None
    if op.abstraction.norms and (a.norm is not None or is_worth_a_norm(op.abstraction, max(shared, columns))):
        return None
    la, ha, w = a.low, a.high, b.low
    up, down, absolute = np.maximum(w, 0.0), np.minimum(w, 0.0), np.abs(w)
    if a.low.size == 1 < shared:
        up, down, absolute = (part.sum(axis=0, keepdims=True) for part in (up, down, absolute))
    low, high = la @ up + ha @ down, ha @ up + la @ down
    magnitude = np.maximum(np.abs(la), np.abs(ha)) @ absolute
    error = summation_error(op, magnitude, shared, a.format)
    if not float((magnitude + error).max()) < op.accumulation(a.format).high / 4:
        return None
    low, high = low - error, high + error
    least, most = a.hull()
    if least >= 0.0 or most <= 0.0:
        upward, downward = (w >= 0.0).all(axis=0), (w <= 0.0).all(axis=0)
        if most <= 0.0 and not least >= 0.0:
            upward, downward = downward, upward
        low, high = keep_sign(low, high, upward, downward)
    return Range(a.format, (*a.sizes[:-1], columns), (*a.grid[:-1], b.grid[-1]), low, high)


def _is_interval(x: Range) -> bool:
    return x.array is None and x.low.size == 1 and not x.has_special and x.has_known_shape and x.low.item() <= x.high.item()


def _of_intervals(a: Range, b: Range, shared: int) -> _Terms:
    (la, ha), (lb, hb) = a.hull(), b.hull()
    ends = la * lb, la * hb, ha * lb, ha * hb
    magnitude = shared * max(abs(la), abs(ha)) * max(abs(lb), abs(hb))
    nonnegative = (la >= 0.0 and lb >= 0.0) or (ha <= 0.0 and hb <= 0.0)
    nonpositive = (la >= 0.0 and hb <= 0.0) or (ha <= 0.0 and lb >= 0.0)
    return _Terms(shared * min(ends), shared * max(ends), magnitude, nonnegative, nonpositive)


def _of_weights(a: Range, b: Range) -> _Terms:
    assert b.array is not None
    la, ha = a.hull()
    fixed = channels(b.array, (0,))
    centre = 0.5 * la + 0.5 * ha
    radius = max(ha - centre, centre - la)
    largest = float(fixed.absolute.max())
    if centre == 0.0:
        low, high = -radius * largest, radius * largest
    else:
        middle, reach = centre * fixed.total, abs(centre) * fixed.error + radius * fixed.absolute
        low, high = float((middle - reach).min()), float((middle + reach).max())
    up, down = signs(b.array) if la >= 0.0 or ha <= 0.0 else (False, False)
    nonnegative = (la >= 0.0 and up) or (ha <= 0.0 and down)
    nonpositive = (la >= 0.0 and down) or (ha <= 0.0 and up)
    return _Terms(low, high, max(abs(la), abs(ha)) * largest, nonnegative, nonpositive)


def _length(vector: Array) -> float:
    """The Euclidean norm of a vector, rounded up; infinite where its square leaves float64."""
    square = float(vector @ vector)
    return math.sqrt(square) * PAD if 1e-250 < square < math.inf else math.inf


def _within_reach(a: Range, b: Range, terms: _Terms) -> tuple[float, float, float]:
    """Bounds and magnitude, tightened by the norms of rows and columns."""
    low, high = terms.low, terms.high
    magnitude = min(terms.magnitude, times(along(a, a.rank - 1), _longest_column(b)))
    if a.norm is not None and a.norm.total < math.inf:
        total, (lb, hb) = total_along(a, a.rank - 1) * PAD, b.hull()
        up, down = max(hb, 0.0), max(-lb, 0.0)
        magnitude = min(magnitude, times(total, max(up, down)))
        if a.low.item() >= 0.0:
            low, high = max(low, -times(total, down)), min(high, times(total, up))
    if b.norm is not None and b.norm.total < math.inf:
        magnitude = min(magnitude, times(total_along(b, b.rank - 2), max(map(abs, a.hull()))))
    return max(low, -magnitude), min(high, magnitude), magnitude


def _longest_column(b: Range) -> float:
    return along(b, b.rank - 2) if b.array is None else float(channel_norms(b.array, (0,)).max())


def _norm(op: Call, result: Range, a: Range, b: Range, error: float) -> Norm:
    """The norm of the rows of the product, whose elements have an error each."""
    assert b.has_known_shape
    axis, row, columns = result.rank - 1, along(a, a.rank - 1), b.sizes[-1]
    extra = times(error, math.sqrt(columns))
    if b.array is None:
        bound = times(row, times(along(b, b.rank - 2), math.sqrt(columns)))
        total = total_along(a, a.rank - 1)
        if total < math.inf:
            bound = min(bound, times(total, along(b, b.rank - 1)))
        return Norm(axis, min((bound + extra) * PAD, along(result, axis)))
    size = math.inf if op.abstraction.spectral else _length(channel_norms(b.array, (0,)))
    size = matrix_norm(b, op.abstraction.spectral) if size == math.inf else size
    low, high, _ = channels(b.array, (0,)).times(a.low.reshape(()), a.high.reshape(()))
    bound = min(times(row, size), _length(np.maximum(np.abs(low), np.abs(high))))
    parts = Parts(b.array, row, extra, op.abstraction.spectral) if row < math.inf else None
    return Norm(axis, min((bound + extra) * PAD, along(result, axis)), parts=parts)
