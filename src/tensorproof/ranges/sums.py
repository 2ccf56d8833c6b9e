"""Sums and dot products: interval products without a loop over cells, and the rounding error of n terms.

|computed - exact| <= (n - 1) u sum|terms| for a sum of n terms, and n u sum|terms| + n eta for a dot product, in any
order and without a limit on n, u the unit roundoff and eta the smallest subnormal of the format that accumulates
(Jeannerod and Rump, Improved error bounds for inner products in floating-point arithmetic, SIAM J. Matrix Anal. Appl.
34, 2013; eta for products that underflow; additions never do). The analysis itself sums in float64, which adds the same
bound with u = 2^-53.

No rounding crosses a sign: a sum of terms that are not negative is not negative, whatever its error bound says, and not
smaller than its largest term.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tensorproof.formats import Array, Format
from tensorproof.operators.table import RESULT, Call
from tensorproof.ranges.range import NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY, Range
from tensorproof.ranges.weights import extent, is_large, signs
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW

Numbers = npt.NDArray[Any]

_FLOAT64_ROUNDOFF = 2.0**-53
_FLOAT32_ROUNDOFF = 2.0**-24
#: Terms below this never leave float32, nor do sums of millions of them.
_LARGE_FLOAT32 = 2.0**100
#: Integers up to here, halves included, are exact in float64.
_EXACT_INTEGERS = 2.0**51
#: Products of this many scalar terms are summed slice by slice, exactly; above, centre and radius take over.
_SLICED_TERMS = 1 << 22
#: Terms that are made at a time where they are summed slice by slice.
_SLICE = 1 << 14
#: Terms that are summed in one go in float32.
_LONGEST = 1 << 12
#: Elements of a constant matrix that are converted to float64 at a time.
_CHUNK = 1 << 18
#: The same where they are multiplied in float32: they and a copy of them stay in the cache.
_SMALL_CHUNK = 1 << 17


def summation_error(
    op: Call, magnitude: Array, terms: int | Array, format: Format, *, products: bool = True, amplified: float = 1.0
) -> Array:
    """A bound on the rounding error of sums of `terms` terms whose absolute values sum to `magnitude`.

    `products` says that each term is itself the result of one rounding (a product, a square), else terms are exact.
    `amplified` is the largest factor that what underflow loses is multiplied with afterwards.
    Integers are exact up to what float64 holds; the result is then the error of the analysis alone.
    """
    count = np.maximum(np.asarray(terms, np.float64), 0.0)
    analysis = (count + 4.0) * _FLOAT64_ROUNDOFF
    if not format.is_float:
        return np.where(magnitude > _EXACT_INTEGERS, np.ceil(analysis * magnitude), 0.0)
    accumulator = op.accumulation(format)
    flushes = op.target.flushes_results or op.target.flushes_operands
    roundings = count if products else np.maximum(count - 1.0, 0.0)
    lost = accumulator.smallest_normal if flushes else accumulator.smallest_subnormal if products else 0.0
    if not products:
        analysis = np.where(count > 1.0, analysis, 0.0)
    growth = (roundings * accumulator.unit_roundoff + analysis) * (1.0 + 2.0**-20)
    error = np.where(growth > 0.0, growth * magnitude, 0.0)
    # A sum of zeros is exact: only terms that are there can underflow.
    return error + np.where(magnitude > 0.0, count * (lost + (2.0**-1074 if products else 0.0)) * amplified, 0.0)


def summation_error_of(op: Call, magnitude: float, terms: int, format: Format, *, products: bool = True) -> float:
    """`summation_error` of one sum of floating numbers."""
    growth, lost = _growth(op, terms, format, products)
    return growth * magnitude + lost if magnitude else 0.0


def product_error(op: Call, magnitude: Array, terms: int, format: Format) -> Array:
    """`summation_error` of sums of equally many products of floating numbers."""
    growth, lost = _growth(op, terms, format, True)
    error = growth * magnitude
    return error + lost if magnitude.all() else error + np.where(magnitude > 0.0, lost, 0.0)


def _growth(op: Call, terms: int, format: Format, products: bool) -> tuple[float, float]:
    """What rounding adds to a sum, as a share of the absolute terms and as a number."""
    accumulator = op.accumulation(format)
    flushes = op.target.flushes_results or op.target.flushes_operands
    lost = accumulator.smallest_normal if flushes else accumulator.smallest_subnormal if products else 0.0
    roundings = terms if products else max(terms - 1, 0)
    analysis = (terms + 4.0) * _FLOAT64_ROUNDOFF if products or terms > 1 else 0.0
    growth = (roundings * accumulator.unit_roundoff + analysis) * (1.0 + 2.0**-20)
    return growth, terms * (lost + (2.0**-1074 if products else 0.0))


def product_growth(factors: int | Array, unit_roundoff: float) -> Array:
    """(1 + u)^n - 1: a bound on the relative error of a product of `factors` factors, or of nested sums of products."""
    return np.expm1(np.asarray(factors, np.float64) * math.log1p(unit_roundoff)) * (1.0 + 2.0**-20)


def report_partial_overflow(op: Call, sums: Range, below: Array, above: Array, format: Format | None = None) -> None:
    """Report sums whose partial sums can leave the accumulator, even where the sums themselves come back.

    `below` and `above` are the smallest and largest partial sum in any order: the sums of the negative and of the
    positive terms. An infinite partial sum stays infinite, or becomes NaN if both infinities occur.
    """
    limit = format or op.accumulation(sums.format)
    if not limit.is_float or not above.size:
        return
    over, under = limit.round_nearest(above) > limit.high, limit.round_nearest(below) < limit.low
    if not (over.any() or under.any()):
        return
    gives = (POSITIVE_INFINITY if over.any() else 0) | (NEGATIVE_INFINITY if under.any() else 0)
    if not limit.has_infinity or (over & under).any():
        gives |= NAN
    value = Range(sums.format, sums.shape, sums.grid, np.minimum(sums.low, below), np.maximum(sums.high, above))
    op.report(ACCUMULATION_OVERFLOW, RESULT, value, over | under, gives=gives)


class Dot(NamedTuple):
    """Bounds of matrix products in exact arithmetic, with what their rounding depends on.

    `magnitude` is the sum of absolute terms; `nonnegative` and `nonpositive` mark results all of whose terms have that
    sign; `below` and `above` bound the partial sums in any order.
    """

    low: Array
    high: Array
    magnitude: Array
    nonnegative: npt.NDArray[np.bool_]
    nonpositive: npt.NDArray[np.bool_]
    below: Array
    above: Array

    def rounded(self, op: Call, terms: int, format: Format) -> tuple[Array, Array]:
        """Bounds of the results as computed from `terms` terms."""
        error = summation_error(op, self.magnitude, terms, format)
        return keep_sign(self.low - error, self.high + error, self.nonnegative, self.nonpositive)


def keep_sign(low: Array, high: Array, nonnegative: Any, nonpositive: Any) -> tuple[Array, Array]:
    """No rounding error crosses zero where all terms have one sign."""
    return np.where(nonnegative, np.maximum(low, 0.0), low), np.where(nonpositive, np.minimum(high, 0.0), high)


def dot_product(
    op: Call, low_a: Numbers, high_a: Numbers, low_b: Numbers, high_b: Numbers, format: Format, *, partial_sums: bool = True
) -> Dot:
    """Bounds of a @ b and what their rounding depends on.

    Both bounds of an operand may be one and the same array, of any dtype: a large matrix is then converted in pieces.
    Without `partial_sums`, their bounds are the sums of absolute terms.
    """
    single = format.is_float and op.accumulation(format).unit_roundoff >= _FLOAT32_ROUNDOFF
    low, high, magnitude = interval_product(low_a, high_a, low_b, high_b, single=single)
    above_a, below_a = _signs(low_a, high_a, -1)
    nonnegative = nonpositive = np.zeros((1,) * low.ndim, np.bool_)
    # Weights are only asked for their signs where the other operand has one.
    if above_a.any() or below_a.any():
        above_b, below_b = _signs(low_b, high_b, -2)
        nonnegative = np.asarray((above_a & above_b) | (below_a & below_b))
        nonpositive = np.asarray((above_a & below_b) | (below_a & above_b))
    below, above = -magnitude, magnitude
    # Only near the limit of the accumulator does it matter that positive and negative terms never add up.
    near = partial_sums and format.is_float and magnitude.size > 0
    if near and not float(magnitude.max()) < op.accumulation(format).high / 4:
        if any(low is high and is_large(low) for low, high in ((low_a, high_a), (low_b, high_b))):
            # With P the positive and N the size of the negative terms, P - N <= high and P + N <= magnitude; N alike.
            below, above = 0.5 * low - 0.5 * magnitude, 0.5 * high + 0.5 * magnitude
            below, above = np.where(np.isnan(below), -np.inf, below), np.where(np.isnan(above), np.inf, above)
        else:
            below, above = _partial_sums(low_a, high_a, low_b, high_b)
    return Dot(low, high, magnitude, nonnegative, nonpositive, below, above)


def _signs(low: Numbers, high: Numbers, axis: int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Whether all elements along an axis are >= 0, and whether all are <= 0; of a large constant, whether all elements are."""
    if low is high and is_large(low):
        up, down = signs(low)
        shape = tuple(1 if i == axis % low.ndim else n for i, n in enumerate(low.shape))
        return np.broadcast_to(np.bool_(up), shape), np.broadcast_to(np.bool_(down), shape)
    return np.all(low >= 0, axis=axis, keepdims=True), np.all(high <= 0, axis=axis, keepdims=True)


def _partial_sums(low_a: Numbers, high_a: Numbers, low_b: Numbers, high_b: Numbers) -> tuple[Array, Array]:
    """The sums of the negative and of the positive parts of all terms."""
    up_a, down_a = np.maximum(_float64(high_a), 0.0), np.maximum(-_float64(low_a), 0.0)
    up_b, down_b = np.maximum(_float64(high_b), 0.0), np.maximum(-_float64(low_b), 0.0)
    return -(up_a @ down_b + down_a @ up_b), up_a @ up_b + down_a @ down_b


def interval_product(
    low_a: Numbers, high_a: Numbers, low_b: Numbers, high_b: Numbers, *, single: bool = False
) -> tuple[Array, Array, Array]:
    """Bounds of the matrix products a @ b over boxes of matrices, and the sum of absolute terms.

    Each term's own hull is summed, up to float64 rounding, which `summation_error` covers. Small products are split by
    sign, so that integers stay exact. Large ones use centre and radius where one operand is a point, and the signs of
    both operands elsewhere; there, terms of two factors that both straddle zero are bounded by their magnitudes (at
    most twice as wide). `single` allows large products with a point to be computed in float32, whose rounding error is
    then part of the bounds.
    """
    if low_b is high_b or bool((low_b == high_b).all()):
        if low_a is high_a or bool((low_a == high_a).all()):
            low = _float64(low_a) @ _float64(low_b)
            return low, low, np.abs(_float64(low_a)) @ np.abs(_float64(low_b))
        return _times_point(_float64(low_a), _float64(high_a), low_b, single)
    if low_a is high_a or bool((low_a == high_a).all()):
        low_t, high_t, point = (np.swapaxes(x, -1, -2) for x in (_float64(low_b), _float64(high_b), low_a))
        low, high, magnitude = (np.swapaxes(x, -1, -2) for x in _times_point(low_t, high_t, point, single))
        return low, high, magnitude
    low_a, high_a, low_b, high_b = _float64(low_a), _float64(high_a), _float64(low_b), _float64(high_b)
    work = math.prod(np.broadcast_shapes(low_a.shape[:-1], (*low_b.shape[:-2], 1))) * math.prod(low_b.shape[-2:])
    box = _box_product if work <= _SLICED_TERMS else _signed_product
    low, high = box(low_a, high_a, low_b, high_b)
    magnitude = np.maximum(np.abs(low_a), np.abs(high_a)) @ np.maximum(np.abs(low_b), np.abs(high_b))
    return low, high, magnitude


def _float64(array: Numbers) -> Array:
    return array.astype(np.float64, copy=False)


def _times_point(low: Array, high: Array, point: Numbers, single: bool = False) -> tuple[Array, Array, Array]:
    """An interval matrix times a known one."""
    if single and point.ndim == 2 and point.dtype != np.float64 and is_large(point):
        found = _times_point_in_float32(low, high, point)
        if found is not None:
            return found
    if low.size * point.shape[-1] <= _SLICED_TERMS or point.ndim > 2:
        point = _float64(point)
        positive, negative = np.maximum(point, 0.0), np.minimum(point, 0.0)
        magnitude = np.maximum(np.abs(low), np.abs(high)) @ np.abs(point)
        return low @ positive + high @ negative, high @ positive + low @ negative, magnitude
    centre = 0.5 * low + 0.5 * high
    radius = np.maximum(high - centre, centre - low)
    # Rounded up: the centre itself is rounded, and the interval must still lie within the radius. Integers are exact.
    exact = (np.rint(low) == low) & (np.rint(high) == high) & (np.maximum(-low, high) < _EXACT_INTEGERS)
    radius = np.where(exact | (radius == 0.0), radius, np.nextafter(radius, np.inf))
    stacked = np.concatenate((radius, np.abs(centre) + radius), axis=-2)
    middle = np.zeros((*low.shape[:-1], point.shape[-1]))
    spread = np.zeros((*stacked.shape[:-1], point.shape[-1]))
    step = max(1, _CHUNK // max(1, point.shape[-1]))
    for start in range(0, point.shape[0], step):
        part = _float64(point[start : start + step])
        middle += centre[..., start : start + step] @ part
        spread += stacked[..., start : start + step] @ np.abs(part)
    reach, magnitude = spread[..., : low.shape[-2], :], spread[..., low.shape[-2] :, :]
    return middle - reach, middle + reach, magnitude


def _times_point_in_float32(low: Array, high: Array, point: Numbers) -> tuple[Array, Array, Array] | None:
    """The same in float32, a block of terms at a time, blocks added up in float64; None where float32 is too small.

    The centre is a float32 number and the radius is measured from it, so that only the products and sums round: those of a
    block of n terms by n u sum|terms|, u = 2^-24, and by the smallest normal number for each product that underflows.
    """
    ends = extent(point)
    reach = float(np.maximum(np.abs(low), np.abs(high)).max(initial=0.0))
    if ends is None or not max(-ends[0], ends[1]) < _LARGE_FLOAT32 or not reach < np.inf:
        return None
    # Factors of at most one: a power of two changes no digit.
    exponent = int(np.frexp(reach)[1])
    low, high = np.ldexp(low, -exponent), np.ldexp(high, -exponent)
    centre = (0.5 * low + 0.5 * high).astype(np.float32)
    middle = centre.astype(np.float64)
    up = 1.0 + 2.0**-22
    radius = np.maximum(high - middle, middle - low)
    stacked = (np.concatenate((radius, np.abs(middle) + radius), axis=-2) * up).astype(np.float32)
    rows, columns = centre.shape[-2], point.shape[-1]
    total = np.zeros((*centre.shape[:-1], columns))
    spread = np.zeros((*stacked.shape[:-1], columns))
    # Blocks in the order in which the memory holds them: of whole rows, or of whole columns.
    by_rows = abs(point.strides[0]) >= abs(point.strides[1])
    step = max(1, min(len(point), _SMALL_CHUNK // max(1, columns) if by_rows else _LONGEST, _LONGEST))
    width = max(1, columns if by_rows else _SMALL_CHUNK // step)
    scratch = np.empty_like(point[:step, :width], np.float32)
    for left in range(0, columns, width):
        for start in range(0, len(point), step):
            part = point[start : start + step, left : left + width]
            if part.dtype != np.float32 or not part.flags.aligned:
                part = part.astype(np.float32)
            magnitudes = np.abs(part, out=scratch[: part.shape[0], : part.shape[1]])
            total[..., left : left + width] += centre[..., start : start + step] @ part
            spread[..., left : left + width] += stacked[..., start : start + step] @ magnitudes
    if not np.isfinite(spread).all():
        return None
    slack = (step + 2) * _FLOAT32_ROUNDOFF
    # What is lost to underflow: of the products, and of factors that are smaller than any normal number.
    lost = 2.0 * len(point) * (2.0 + max(-ends[0], ends[1])) * 2.0**-126
    lost = np.where((low != 0.0).any(axis=-1, keepdims=True) | (high != 0.0).any(axis=-1, keepdims=True), lost, 0.0)
    spread *= (1.0 + 2.0**-30) / (1.0 - slack)
    magnitude = spread[..., rows:, :]
    magnitude += lost
    reached = spread[..., :rows, :] + (slack * magnitude + lost)
    bounds = total - reached, total + reached, magnitude
    least, most, magnitude = bounds if exponent == 0 else (np.ldexp(bound, exponent) for bound in bounds)
    return least, most, magnitude


def _box_product(low_a: Array, high_a: Array, low_b: Array, high_b: Array) -> tuple[Array, Array]:
    """Both operands are intervals: the hull of each term, summed over the shared axis a few slices at a time."""
    shape = np.broadcast_shapes(low_a.shape[:-2], low_b.shape[:-2]) + (low_a.shape[-2], low_b.shape[-1])
    low, high = np.zeros(shape), np.zeros(shape)
    # So many slices that there are enough terms for NumPy to be busy with: a product of two vectors has one in each.
    step = max(1, _SLICE // max(1, low.size))
    for start in range(0, low_a.shape[-1], step):
        la, ha = (end[..., :, start : start + step, None] for end in (low_a, high_a))
        lb, hb = (end[..., None, start : start + step, :] for end in (low_b, high_b))
        corners = la * lb, la * hb, ha * lb, ha * hb
        low += np.minimum(np.minimum(corners[0], corners[1]), np.minimum(corners[2], corners[3])).sum(axis=-2)
        high += np.maximum(np.maximum(corners[0], corners[1]), np.maximum(corners[2], corners[3])).sum(axis=-2)
    return low, high


def _signed_product(low_a: Array, high_a: Array, low_b: Array, high_b: Array) -> tuple[Array, Array]:
    """Both operands are intervals and large: one set of products per sign of the first operand's elements."""
    low_b_up, low_b_down = np.maximum(low_b, 0.0), np.minimum(low_b, 0.0)
    high_b_up, high_b_down = np.maximum(high_b, 0.0), np.minimum(high_b, 0.0)
    shape = np.broadcast_shapes(low_a.shape[:-2], low_b.shape[:-2]) + (low_a.shape[-2], low_b.shape[-1])
    low, high = np.zeros(shape), np.zeros(shape)
    above = low_a >= 0.0
    if above.any():
        la, ha = np.where(above, low_a, 0.0), np.where(above, high_a, 0.0)
        low += la @ low_b_up + ha @ low_b_down
        high += ha @ high_b_up + la @ high_b_down
    below = (high_a <= 0.0) & ~above
    if below.any():
        la, ha = np.where(below, low_a, 0.0), np.where(below, high_a, 0.0)
        low += la @ high_b_up + ha @ high_b_down
        high += ha @ low_b_up + la @ low_b_down
    both = ~above & ~below
    if both.any():
        la, ha = np.where(both, low_a, 0.0), np.where(both, high_a, 0.0)
        straddles = (low_b < 0.0) & (high_b > 0.0)
        # A straddling factor times one of a single sign: the end that is farther from zero decides.
        far_up, far_down = np.where(straddles, 0.0, high_b_up), np.where(straddles, 0.0, low_b_down)
        low += la @ far_up + ha @ far_down
        high += ha @ far_up + la @ far_down
        if straddles.any():
            reach = np.maximum(-la, ha) @ np.where(straddles, np.maximum(-low_b, high_b), 0.0)
            low -= reach
            high += reach
    return low, high
