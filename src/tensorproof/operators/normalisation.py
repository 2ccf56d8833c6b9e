"""Normalisation by mean and variance: LayerNormalization, InstanceNormalization, GroupNormalization, BatchNormalization
and MeanVarianceNormalization.

The exact bounds over boxes come from `tensorproof.ranges.standardise`. The assumed evaluation is the two-pass one of the
ONNX function bodies: the mean m first, then the variance as the mean of (x - m)^2. With e the error of the computed mean, the
computed variance is v + e^2 up to relative errors, so that a large mean blurs the result by at most e / sqrt(v + e^2 + eps),
never by more than 1, and |y| <= sqrt(n) holds up to relative errors at any mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.formats import FLOAT32, Array, Format
from tensorproof.operators.activations import least, rounded
from tensorproof.operators.table import CORRECT, RESULT, Call, Mask, operator
from tensorproof.ranges.elementwise import binary, corners, increasing, product
from tensorproof.ranges.folds import normalised_axis
from tensorproof.ranges.moving import reshape
from tensorproof.ranges.range import INFINITIES, NAN, SPECIALS, Flags, Range, align
from tensorproof.ranges.rows import Rows
from tensorproof.ranges.standardise import standardised, variance_bounds
from tensorproof.ranges.sums import summation_error
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW
from tensorproof.rules.degenerate_normalisation import DEGENERATE_NORMALISATION

#: Rules that every normalisation by computed statistics can report from inside.
STATISTICS = (ACCUMULATION_OVERFLOW, DEGENERATE_NORMALISATION)
#: ONNX's default for `epsilon`: the float32 number nearest to 1e-5.
EPSILON = float(np.float32(1e-5))


def stash(format: Format) -> Format:
    """The format of the first stage: float32 for narrower tensors (stash_type=1, the only value in use)."""
    return FLOAT32 if format.bits < 32 else format


@dataclass(frozen=True, slots=True)
class Moments:
    """Mean and variance of each row as computed: bounds of shape (rows, 1).

    `error` bounds the error of the mean, `relative` that of 1 / sqrt(variance + epsilon). `floor` is the least value of
    variance + epsilon.
    """

    low: Array
    high: Array
    least: Array
    most: Array
    error: Array
    relative: Array
    floor: Array
    ceiling: Array


def moments(op: Call, rows: Rows, epsilon: float, format: Format) -> Moments:
    """The statistics of rows computed in `format`, in two passes. Reports what overflows and what vanishes."""
    x, counts, n = rows.x, rows.most, rows.length
    u, eta = format.unit_roundoff, least(op, format)
    accumulator = op.accumulation(format)
    size = np.maximum(np.abs(rows.low), np.abs(rows.high)) @ counts[:, None]
    low, high = rows.low @ counts[:, None] / n, rows.high @ counts[:, None] / n
    error = summation_error(op, size, int(n), format, products=False) / n
    error = error + 2.01 * u * (np.maximum(np.abs(low), np.abs(high)) + error) + eta
    smallest, largest = (bound[:, None] for bound in variance_bounds(rows.low, rows.high, counts))
    held = rounded(epsilon, format)
    floor, ceiling = smallest + max(min(epsilon, held), 0.0), largest + error**2 + max(epsilon, held)
    # Squares of differences, their sum, the division by n, epsilon, root and reciprocal; then underflow, and epsilon as held.
    logarithm = n * -np.log1p(-accumulator.unit_roundoff) / 2 + 8 * u + n * 2.0**-52
    with np.errstate(all="ignore"):
        lost = (2 * eta + abs(held - epsilon)) / floor
    relative = np.expm1(logarithm) + np.where(floor > 0, lost, np.inf)
    _report_statistics(op, rows, size, largest + error**2, smallest, held, relative, accumulator)
    return Moments(low - error, high + error, smallest, largest, error, relative, floor, ceiling)


def _report_statistics(
    op: Call,
    rows: Rows,
    size: Array,
    variance: Array,
    smallest: Array,
    epsilon: float,
    relative: Array,
    accumulator: Format,
) -> None:
    x, n = rows.x, rows.length
    # The mean of a sum that overflows is infinite, and x - mean NaN; squares that overflow make the result 0.
    limit = accumulator.high * (1.0 - 2 * accumulator.unit_roundoff)
    growth = 1.0 + n * accumulator.unit_roundoff
    sums, squares = ~(size * growth <= limit), ~(n * variance * growth * (1 + 4 * accumulator.unit_roundoff) <= limit)
    if sums.any():
        op.report(ACCUMULATION_OVERFLOW, 0, x, _cells(rows, sums), gives=SPECIALS)
    if squares.any():
        op.report(ACCUMULATION_OVERFLOW, 0, x, _cells(rows, squares), gives=0 if not sums.any() else SPECIALS)
    vanishing = smallest <= n * accumulator.smallest_subnormal * 4
    if epsilon <= 0.0 and vanishing.any():
        op.report(DEGENERATE_NORMALISATION, 0, x, _cells(rows, vanishing), gives=SPECIALS)


def _cells(rows: Rows, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    return np.broadcast_to(rows.restore(np.broadcast_to(mask, rows.low.shape)), rows.x.cells)


def overflows(op: Call, rows: Rows, found: Moments, format: Format) -> npt.NDArray[np.bool_]:
    """Rows whose sum of squares can overflow, which makes the result 0."""
    limit = op.accumulation(format).high * (1.0 - 2.0**-6)
    return ~(rows.length * (found.most + found.error**2) <= limit)


def normalise(
    op: Call, x: Range, axes: Sequence[int], epsilon: float, format: Format, *, folded: bool = False
) -> tuple[Range, Rows, Moments]:
    """(x - mean) / sqrt(variance + epsilon) along some axes, computed in `format` (the result is not rounded yet).

    `folded` covers implementations that evaluate x * r - mean * r with r = 1 / sqrt(variance + epsilon) instead.
    """
    rows = Rows(x, axes)
    n = rows.length
    found = moments(op, rows, epsilon, format)
    low, high = standardised(rows.low, rows.high, rows.most, max(epsilon, 0.0))
    # Computed: (d - e) / sqrt(v + e^2 + eps) for the error e of the mean.
    blurred = found.floor + found.error**2
    with np.errstate(all="ignore"):
        shrink = np.where(blurred > 0, np.sqrt(found.floor / blurred), 1.0)
        shift = np.where(found.error > 0, found.error / np.sqrt(blurred), 0.0)
        low = np.maximum(np.minimum(low, low * shrink) - shift, -np.sqrt(n))
        high = np.minimum(np.maximum(high, high * shrink) + shift, np.sqrt(n))
        # Where the variance itself may vanish, what underflow leaves of it is off by a factor of two at most.
        factor = np.minimum(1.0 + found.relative, np.sqrt(2.0) + n * op.accumulation(format).unit_roundoff)
        low = np.where(low < 0, low * factor, low / factor)
        high = np.where(high > 0, high * factor, high / factor)
        if folded:
            reach = np.maximum(np.abs(rows.low), np.abs(rows.high))
            mean = np.maximum(np.abs(found.low), np.abs(found.high))
            extra = 4.0 * format.unit_roundoff * (reach + mean) * factor / np.sqrt(found.floor)
            low, high = low - extra, high + extra
    zero = overflows(op, rows, found, format)
    low, high = np.where(zero, np.minimum(low, 0.0), low), np.where(zero, np.maximum(high, 0.0), high)
    return x.replace(rows.restore(low), rows.restore(high), spread_special(rows)), rows, found


def spread_special(rows: Rows) -> Flags | None:
    """One special element makes a whole row NaN."""
    if not rows.x.has_special:
        return None
    return np.where(rows.any(rows.x.special != 0), np.uint8(NAN), np.uint8(0))


def affine(op: Call, y: Range, scale: Range, bias: Range | None = None) -> Range:
    """scale * y + bias in the tensor's own format; the product may be rounded, or not."""
    u = y.format.unit_roundoff
    result = binary(y, scale, corners(product), np.multiply, y.format)
    if bias is None:
        pad = 1.01 * u * result.magnitude() + least(op, y.format)
        return result.replace(result.low - pad, result.high + pad, result.special)
    pad = 2.02 * u * result.magnitude() + 2 * least(op, y.format)
    result = result.replace(result.low - pad, result.high + pad, result.special)
    high = y.format.high * (1.0 + u / 2)
    outside = (result.magnitude() > high) & (result.low <= result.high)
    if outside.any():
        op.report(ARITHMETIC_OVERFLOW, RESULT, result, outside, gives=INFINITIES)
        result = result.clamp(-high, high)
    return binary(result, bias, increasing(np.add), np.add, y.format)


def per_channel(parameter: Range, rank: int) -> Range:
    """A vector with one element per channel, shaped to broadcast along axis 1."""
    size = parameter.sizes[0]
    return reshape(parameter, (size, *([1] * (rank - 2))))


# -- operators -------------------------------------------------------------------------------------------------------


def layer_normalised(
    op: Call, x: Range, axes: Sequence[int], epsilon: float, scale: Range, bias: Range | None
) -> tuple[Range, Range, Range]:
    """LayerNormalization-17 with its statistics: the first stage in the stash format, the second in the tensor's own."""
    if 0 in x.cells:
        kept = tuple(1 if axis in axes else size for axis, size in enumerate(x.sizes))
        nothing = Range.uniform(kept, stash(x.format), 0.0, 0.0)
        return x, nothing, nothing
    y, rows, found = normalise(op, x, axes, epsilon, stash(x.format))
    flags = spread_special(rows)
    per_row = None if flags is None else _first_of_row(rows, flags)
    formats = [*op.output_formats[1:3], None, None]
    mean = rows.per_row(found.low, found.high, per_row, formats[0] or stash(x.format))
    with np.errstate(all="ignore"):
        # Squares that overflow make the reciprocal 0.
        slow = np.where(overflows(op, rows, found, stash(x.format)), 0.0, 1 / np.sqrt(found.ceiling) / (1 + found.relative))
        fast = (1 + found.relative) / np.sqrt(found.floor)
    inverse = rows.per_row(slow, fast, per_row, formats[1] or stash(x.format))
    return affine(op, y, scale, bias), mean, inverse


def _first_of_row(rows: Rows, flags: Flags) -> Flags:
    index = tuple(slice(0, 1) if axis in rows.axes else slice(None) for axis in range(rows.x.rank))
    return flags[index]


@operator(
    "LayerNormalization", error=CORRECT, overflow=ARITHMETIC_OVERFLOW, hazards=STATISTICS
)
def layer_normalization(op: Call, x: Range, scale: Range, bias: Range | None = None) -> tuple[Range, ...]:
    """Increasing in the element itself; others are extreme at one common value. |y| <= sqrt(n) |scale| + |bias|."""
    axes = range(normalised_axis(int(op.attribute("axis", -1)), x.rank), x.rank)
    return layer_normalised(op, x, tuple(axes), op.attribute("epsilon", EPSILON), scale, bias)


@operator("InstanceNormalization", error=CORRECT, overflow=ARITHMETIC_OVERFLOW, hazards=STATISTICS)
def instance_normalization(op: Call, x: Range, scale: Range, bias: Range) -> Range:
    """Each channel of each sample by its own mean and variance; increasing in the element itself."""
    if 0 in x.cells:
        return x
    rank = x.rank
    y, _, _ = normalise(op, x, range(2, rank), op.attribute("epsilon", EPSILON), x.format, folded=True)
    return affine(op, y, per_channel(scale, rank), per_channel(bias, rank))


@operator("GroupNormalization", error=CORRECT, overflow=ARITHMETIC_OVERFLOW, hazards=STATISTICS)
def group_normalization(op: Call, x: Range, scale: Range, bias: Range) -> Range:
    """Groups of channels by their mean and variance; scale and bias per group until version 20, per channel since 21."""
    if 0 in x.cells:
        return x
    sizes, groups = x.sizes, int(op.attribute("num_groups"))
    grouped = reshape(x, (sizes[0], groups, sizes[1] // groups, *sizes[2:]))
    # Version 18 has no stash type, but its function body computes in float32, too.
    y, _, _ = normalise(op, grouped, range(2, grouped.rank), op.attribute("epsilon", EPSILON), stash(x.format), folded=True)
    if op.version >= 21:
        return affine(op, reshape(y, x.sizes), per_channel(scale, x.rank), per_channel(bias, x.rank))
    y = affine(op, y, per_channel(scale, y.rank), per_channel(bias, y.rank))
    return reshape(y, x.sizes)


@operator(
    "MeanVarianceNormalization",
    error=CORRECT,
    overflow=ARITHMETIC_OVERFLOW,
    hazards=STATISTICS,
)
def mean_variance_normalization(op: Call, x: Range) -> Range:
    """(x - mean) / (sqrt(variance) + 1e-9), the variance computed as E[x^2] - E[x]^2: unsafe unless it is surely positive."""
    if 0 in x.cells:
        return x
    axes = sorted(normalised_axis(int(axis), x.rank) for axis in op.attribute("axes", (0, 2, 3)))
    format = x.format
    y, rows, found = normalise(op, x, axes, 0.0, format)
    n, u = rows.length, format.unit_roundoff
    square = np.maximum(rows.low**2, rows.high**2) @ rows.most[:, None] / n
    mean = np.maximum(np.abs(found.low), np.abs(found.high))
    # The one-pass variance of the function body (ONNX MeanVarianceNormalization-13).
    lost = summation_error(op, n * square, int(n), format) / n + 4 * u * (square + mean**2) + 2.01 * mean * found.error
    unsafe = found.least <= lost * 2
    if unsafe.any():
        op.report(DEGENERATE_NORMALISATION, 0, x, _cells(rows, unsafe), gives=SPECIALS)
    with np.errstate(all="ignore"):
        factor = 1.0 / np.sqrt(1.0 - lost / found.least) * (1 + 4 * u)
        shrink = np.sqrt(found.least) / (np.sqrt(found.least) + 1e-9) * (1 - 4 * u)
        low, high = rows.flatten(y.low), rows.flatten(y.high)
        low = np.where(low < 0, low * factor, low / factor * shrink)
        high = np.where(high > 0, high * factor, high / factor * shrink)
        # Without a positive variance only the guard is left as divisor.
        reach = (np.maximum(np.abs(rows.low), np.abs(rows.high)) + mean + found.error) * 1.01 / 1e-9
    low, high = np.where(unsafe, -reach, low), np.where(unsafe, reach, high)
    return y.replace(rows.restore(low), rows.restore(high), y.special)
