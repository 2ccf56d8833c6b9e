"""Normalisation by the mean and variance of rows as runtimes compute it: exact bounds plus the error of the statistics.

Two evaluations are covered. The two-pass one takes the mean m first, then the variance as the mean of (x - m)^2. With e the
error of the computed mean, its variance is v + e^2 up to relative errors, so that a large mean blurs the result by at most
e / sqrt(v + e^2 + eps), never by more than 1, and |y| <= sqrt(n) holds up to relative errors at any mean. The one-pass
evaluation E[x^2] - E[x]^2 has an absolute error of about n u E[x^2]: where that exceeds v + eps the value under the root can be
negative, which is reported.

PyTorch's layer and group normalisation are a third one: mean and variance together by Welford's updates, in blocks that are then
joined. What rounding the running mean leaves, a drift e of a small multiple of u |x|, makes a variance of v anything from
v - 2 e sqrt(v) - e^2 on, but never negative. A row of almost equal elements can lose its variance altogether and is then divided by
sqrt(eps) alone: with PyTorch 2.13 rows of 768 elements around 1e8 with a deviation of 1 reach 2529 where sqrt(n) is 28.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tensorproof.formats import FLOAT32, Array, Format
from tensorproof.operators.activations import least, rounded
from tensorproof.operators.table import RESULT, UNDEFINED, Call
from tensorproof.ranges.elementwise import binary, corners, increasing, product
from tensorproof.ranges.grid import largest
from tensorproof.ranges.norms import PAD, Norm, broadcast_norm, largest_magnitude
from tensorproof.ranges.range import INFINITIES, NAN, SPECIALS, Flags, Range
from tensorproof.ranges.rows import Rows
from tensorproof.ranges.standardise import standardised, variance_bounds
from tensorproof.ranges.sums import summation_error
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW
from tensorproof.rules.degenerate_normalisation import DEGENERATE_NORMALISATION

#: Rules that a normalisation by computed statistics can report from inside.
STATISTICS = (ACCUMULATION_OVERFLOW, DEGENERATE_NORMALISATION)


def stash(format: Format) -> Format:
    """The format of the first stage: float32 for narrower tensors (stash_type=1, the only value in use).

    The text of the standard asks for float32 in place of float64, too; function bodies do that, native kernels do not. With
    the error and the limits of float32 the ranges hold for both.
    """
    return FLOAT32 if format.bits != 32 else format


@dataclass(frozen=True, slots=True)
class Moments:
    """Statistics of each row as computed, all of shape (rows, 1).

    `low` and `high` bound the mean, `error` its error; `least` and `most` bound the exact variance, `floor` and `ceiling` the
    computed variance + epsilon. `relative` bounds the relative error of 1 / sqrt of the latter as far as it is not an error of
    the variance itself; that one scales results by a factor between 1 / `stretch` and `stretch` (infinite: by any). Sums of
    squares of the rows in `overflow` may be infinite. `drift` is what updates may have moved a mean by (0: there are none).
    """

    low: Array
    high: Array
    error: Array
    least: Array
    most: Array
    floor: Array
    ceiling: Array
    relative: Array
    stretch: Array
    overflow: npt.NDArray[np.bool_]
    drift: Array


def moments(op: Call, rows: Rows, epsilon: float, format: Format, *, one_pass: bool = False, updates: bool = False) -> Moments:
    """Mean and variance of rows computed in `format`. Reports what overflows and what can vanish."""
    counts, n = rows.most[:, None], rows.length
    u, eta = format.unit_roundoff, least(op, format)
    accumulator = op.accumulation(format)
    size = np.maximum(np.abs(rows.low), np.abs(rows.high))
    low, high = rows.low @ counts / n, rows.high @ counts / n
    mean = np.maximum(np.abs(low), np.abs(high))
    error = summation_error(op, size @ counts, int(n), format, products=False) / n
    error = error + 2.01 * u * (mean + error) + eta
    smallest, largest = (bound[:, None] for bound in variance_bounds(rows.low, rows.high, rows.most))
    held = rounded(epsilon, format)
    floor, ceiling = smallest + max(min(epsilon, held), 0.0), largest + error**2 + max(epsilon, held)
    stretch, drift = np.ones_like(floor), np.zeros_like(floor)
    if updates:
        drift = _update_steps(n) * (u * size.max(axis=-1, keepdims=True) + eta)
        error = drift
        stretch = _stretch_of_updates(drift, smallest, largest, max(min(epsilon, held), 0.0))
        floor = _updated(smallest, -drift) + max(min(epsilon, held), 0.0)
        ceiling = ceiling + 2.0 * drift * np.sqrt(largest) + drift**2
    if one_pass:
        squares = size**2 @ counts / n
        lost = summation_error(op, n * squares, int(n), format) / n + 4 * u * (squares + mean**2) + error * (2 * mean + error)
        stretch = np.where(lost < floor, 1.0 / np.sqrt(np.maximum(1.0 - lost / floor, 0.0)), np.inf)
        unsafe = lost >= smallest + held
        op.report(DEGENERATE_NORMALISATION, 0, rows.x, rows.mark(unsafe), gives=UNDEFINED)
        ceiling = ceiling + lost
    # Squares of differences, their sum, the division by n, epsilon, root and reciprocal; then underflow, and epsilon as held.
    logarithm = n * -np.log1p(-accumulator.unit_roundoff) / 2 + 8 * u + n * 2.0**-52
    lost = np.where(floor > 0, (2 * eta + abs(held - epsilon)) / floor, np.inf)
    # What underflow leaves of a variance that is almost nothing is off by a factor of two at most.
    relative = np.minimum(np.expm1(logarithm) + lost, 1.0 + n * accumulator.unit_roundoff)
    limit = accumulator.high * (1.0 - 4 * accumulator.unit_roundoff)
    growth = 1.0 + (n + 4) * accumulator.unit_roundoff
    sums = ~(size @ counts * growth <= limit)
    overflow = ~(n * (size**2 @ counts / n if one_pass else largest + error**2) * growth <= limit)
    # The mean of an infinite sum is infinite, and x - mean NaN. Infinite squares make the result 0, or NaN where an infinite
    # product is divided by their root.
    if (sums | overflow).any():
        op.report(ACCUMULATION_OVERFLOW, 0, rows.x, rows.mark(sums | overflow), gives=SPECIALS)
    if held <= 0.0 and not one_pass:
        vanishing = _updated(smallest, -drift) <= 4 * n * accumulator.smallest_subnormal
        op.report(DEGENERATE_NORMALISATION, 0, rows.x, rows.mark(vanishing), gives=SPECIALS)
    return Moments(low - error, high + error, error, smallest, largest, floor, ceiling, relative, stretch, sums | overflow, drift)


def _update_steps(n: float) -> float:
    """How far Welford's updates of n elements may move a mean, in units of u |x|.

    PyTorch's `RowwiseMoments` updates blocks of 16 elements in each of up to 16 lanes, joins the blocks pairwise and the lanes one
    after the other, and then takes what is left over element by element. An update rounds by one unit; where it is the k-th of
    its block, it leaves (k - 1) / k of what came before.
    """
    if n < 16:
        return max(n, 1.0)
    left_over = n % 16 if np.isfinite(n) else 15
    return 16.0 / 2 + float(np.log2(max(n / 128, 1.0))) + 16.0 / 2 + left_over


def _updated(variance: Array, drift: Array) -> Array:
    """The least variance that Welford's updates can make of one, for a drift below zero (the most for one above)."""
    return np.maximum(variance + 2.0 * drift * np.sqrt(variance) + drift * np.abs(drift), 0.0)


def _stretch_of_updates(drift: Array, least: Array, most: Array, epsilon: float) -> Array:
    """By how much sqrt(v + eps) may exceed the computed root, which is sqrt of at least v - 2 e sqrt(v) - e^2 + eps."""
    turning = np.clip(np.sqrt(epsilon), np.sqrt(least), np.sqrt(most))
    with np.errstate(all="ignore"):
        # w / (w^2 + eps) is largest at w = sqrt(eps), or at the end that is nearest to it.
        lost = 2.0 * drift * turning / (turning**2 + epsilon) + drift**2 / (least + epsilon)
        return np.where(lost < 1.0, 1.0 / np.sqrt(np.maximum(1.0 - lost, 0.0)), np.inf)


#: Deviations, as multiples of the one below which updates may lose a variance altogether, between which quotients are bounded.
_STEPS = np.geomspace(1.0, 64.0, 65)


def _largest_after_updates(found: Moments, n: float, epsilon: float, shift: float) -> Array:
    """A bound of (sqrt(n) w + shift e) / sqrt(max(w^2 - 2 e w - e^2, 0) + eps) over the deviations w of a row.

    Between two steps the numerator is largest at the upper one and the denominator, which increases there, smallest at the
    lower one; beyond the last step e < w / 150.
    """
    drift, least, most = found.drift, np.sqrt(found.least), np.sqrt(found.most)
    lost = (1.0 + np.sqrt(2.0)) * drift
    with np.errstate(all="ignore"):
        without = (np.sqrt(n) * np.minimum(lost, most) + shift * drift) / np.sqrt(epsilon)
        without = np.where(least <= lost, without, 0.0)
        lower, upper = lost * _STEPS[:-1], lost * _STEPS[1:]
        root = np.sqrt(np.maximum(lower**2 - 2.0 * drift * lower - drift**2, 0.0) + epsilon)
        between = (np.sqrt(n) * np.minimum(upper, most) + shift * drift) / root
        between = np.where((least <= upper) & (lower <= most), between, 0.0).max(axis=-1, keepdims=True)
        beyond = np.where(most >= lost * _STEPS[-1], 1.01 * (np.sqrt(n) + shift / 150.0), 0.0)
    bound = np.maximum(np.maximum(without, between), beyond) * (1.0 + 2.0**-40)
    return np.where(drift > 0.0, np.where(np.isnan(bound), np.inf, bound), np.sqrt(n))


def normalise(
    op: Call,
    x: Range,
    axes: Sequence[int],
    epsilon: float,
    format: Format,
    *,
    folded: bool = False,
    one_pass: bool = False,
    updates: bool = False,
) -> tuple[Range, Rows, Moments]:
    """(x - mean) / sqrt(variance + epsilon) along some axes, computed in `format` (the result is not rounded yet).

    `folded` covers implementations that evaluate x * r - mean * r with r = 1 / sqrt(variance + epsilon) instead. `one_pass` and
    `updates` say how the statistics are computed, if not in two passes.
    """
    rows = Rows(x, axes)
    n = rows.length
    found = moments(op, rows, epsilon, format, one_pass=one_pass, updates=updates)
    low, high = standardised(rows.low, rows.high, rows.most, max(epsilon, 0.0))
    # Without an epsilon, a computed variance of zero is reported; any other is a number of the format that it is summed in.
    least_divisor = max(min(epsilon, rounded(epsilon, format)), op.accumulation(format).smallest_subnormal)
    floor = np.maximum(found.floor, least_divisor)
    if updates:
        low, high, longest = _after_updates(low, high, found, n, least_divisor)
        factor = 1.0 + found.relative
    else:
        # Computed: (d - e) / sqrt(v + e^2 + eps) for the error e of the mean.
        blurred = found.floor + found.error**2
        shrink = np.where(blurred > 0, np.sqrt(found.floor / blurred), 1.0)
        shift = np.where(found.error > 0, found.error / np.sqrt(blurred), 0.0)
        low = np.maximum(np.minimum(low, low * shrink) - shift, -np.sqrt(n))
        high = np.minimum(np.maximum(high, high * shrink) + shift, np.sqrt(n))
        # sum((d - e)^2) = n (v + e^2): the common error of the mean does not make a row longer than sqrt(n).
        longest = np.sqrt(n)
        factor = (1.0 + found.relative) * found.stretch
    low, high = np.where(low < 0, low * factor, low / factor), np.where(high > 0, high * factor, high / factor)
    reach = np.maximum(np.abs(rows.low), np.abs(rows.high)) + np.maximum(np.abs(found.low), np.abs(found.high))
    if folded:
        extra = 4.0 * format.unit_roundoff * reach * (1.0 + found.relative) / np.sqrt(floor)
        low, high = low - extra, high + extra
    if one_pass:
        # Where the variance may come out as nothing, epsilon alone is left as divisor.
        bound = 1.01 * reach / np.sqrt(max(min(epsilon, rounded(epsilon, format)), format.smallest_subnormal))
        low, high = np.where(np.isinf(found.stretch), -bound, low), np.where(np.isinf(found.stretch), bound, high)
    low, high = np.where(found.overflow, np.minimum(low, 0.0), low), np.where(found.overflow, np.maximum(high, 0.0), high)
    result = x.replace(rows.restore(low), rows.restore(high), spread_special(rows))
    if op.abstraction.norms:
        bound = float((longest * factor).max()) * PAD
        if folded:
            bound += np.sqrt(n) * float((4.0 * format.unit_roundoff * reach * (1.0 + found.relative) / np.sqrt(floor)).max())
        # Of blocks of several axes the channels come first, and it is along them that products sum.
        result.norm = Norm(min(axes) if len(axes) > 2 else max(axes), float(bound))
    return result, rows, found


def _after_updates(low: Array, high: Array, found: Moments, n: float, epsilon: float) -> tuple[Array, Array, Array]:
    """Bounds of normalised elements whose statistics were updated element by element, and of the length of their rows."""
    with np.errstate(all="ignore"):
        shift = found.error / np.sqrt(found.floor)
        low = np.where(low < 0, low * found.stretch, low / found.stretch) - shift
        high = np.where(high > 0, high * found.stretch, high / found.stretch) + shift
    low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    reach = _largest_after_updates(found, n, epsilon, 1.0)
    return np.maximum(low, -reach), np.minimum(high, reach), _largest_after_updates(found, n, epsilon, float(np.sqrt(n)))


def spread_special(rows: Rows) -> Flags | None:
    """One special element makes a whole row NaN."""
    if not rows.x.has_special:
        return None
    return np.where(rows.any(rows.x.special != 0), np.uint8(NAN), np.uint8(0))


def affine(op: Call, y: Range, scale: Range, bias: Range | None = None, *, amplified: float = 1.0) -> Range:
    """scale * y + bias in the tensor's own format; the product may be rounded, or not.

    `amplified` is the largest factor that what underflow loses of the product is multiplied with afterwards.
    """
    u, eta = y.format.unit_roundoff, least(op, y.format) * (1.0 + amplified)
    result = binary(y, scale, corners(product), np.multiply, y.format)
    pad = 2.02 * u * result.magnitude() + eta
    result = result.replace(result.low - pad, result.high + pad, result.special)
    norm = affine_norm(y, scale, bias, u, eta)
    if bias is None:
        result.norm = norm
        return result
    high = y.format.high * (1.0 + u / 2)
    outside = (result.magnitude() > high) & (result.low <= result.high)
    if outside.any():
        op.report(ARITHMETIC_OVERFLOW, RESULT, result, outside, gives=INFINITIES)
        result = result.clamp(-high, high)
    result = binary(result, bias, increasing(np.add), np.add, y.format)
    result.norm = norm
    return result


def affine_norm(y: Range, scale: Range, bias: Range | None, u: float, eta: float) -> Norm | None:
    """The norm of scale * y + bias where y has one, the product rounded with an error of 2.02 u |product| + eta."""
    if y.norm is None or y.shape is None or y.has_special or scale.has_special:
        return None
    length = largest(y.shape[y.norm.axis])
    if length is None:
        return None
    norm = y.norm.scaled(largest_magnitude(scale) * (1.0 + 2.02 * u)).plus(eta, length)
    if bias is None:
        return norm
    addend, total = broadcast_norm(bias, y.shape, norm.axis)
    return Norm(norm.axis, (norm.bound + addend) * PAD, (norm.total + total) * PAD)
