"""Convolution, Gemm and batch normalisation of one interval: the bounds of their blocks without a grid of cells.

See `tensorproof.operators.interval_rules`. The filters of a convolution are an array, everything else is plain numbers.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tensorproof.formats import Array
from tensorproof.operators.activations import least
from tensorproof.operators.convolution import conv
from tensorproof.operators.linear import gemm
from tensorproof.operators.normalisation import EPSILON, batch_normalization
from tensorproof.operators.table import Call, Mask
from tensorproof.ranges.grid import every
from tensorproof.ranges.partial_sums import report_sum
from tensorproof.ranges.range import INFINITIES, NAN, SPECIALS, Range
from tensorproof.ranges.sums import keep_sign, product_error
from tensorproof.ranges.weighted_windows import by_summary
from tensorproof.ranges.weights import channels, is_large, signs
from tensorproof.ranges.windows import Window, sliding_windows, taps_inside

Numbers = npt.NDArray[Any]


class _Terms(NamedTuple):
    """Bounds of the sums of each filter (or of all of them alike), of their absolute terms, and the sign of all terms."""

    low: Array
    high: Array
    magnitude: Array
    nonnegative: Mask
    nonpositive: Mask


@conv.interval
def _(op: Call, x: Range, w: Range, bias: Range | None = None, addend: Range | None = None) -> Range | None:
    """`weighted_windows` for an input of one cell, or of one per channel where few weights meet it or a summary of many."""
    if not x.format.is_float or not x.has_known_shape or not w.has_known_shape or w.has_special or addend is not None:
        return None
    sizes, kernel, group = x.sizes, w.sizes, int(op.attribute("group", 1))
    if len(sizes) < 3 or len(kernel) != len(sizes) or kernel[1] * group != sizes[1] or kernel[0] % group:
        return None
    windows = sliding_windows(op, sizes[2:], kernel[2:])
    shape = (sizes[0], kernel[0], *[window.output for window in windows])
    if 0 in sizes or 0 in kernel or 0 in shape or not (bias is None or _is_addend(bias, kernel[0])):
        return None
    ends = x.single()
    if ends is None and group == 1 and x.array is None and not x.has_special and x.low.size == x.low.shape[1]:
        terms = _terms_of_channels(op, x, w, windows)
    elif ends is not None:
        terms = _terms(op, *(ends[:2] if ends[0] <= ends[1] else (0.0, 0.0)), x, w, windows)
    else:
        return None
    bounds = None if terms is None else _summed(op, terms, bias, math.prod(kernel[1:]), x, shape)
    if bounds is None:
        return None
    special = 0 if ends is None else ends[2]
    special = SPECIALS if special & INFINITIES else special & NAN
    if bounds[0].size == 1 or kernel[0] > op.cells:
        return Range.uniform(shape, x.format, float(bounds[0].min()), float(bounds[1].max()), special)
    return _per_filter(x, shape, *bounds, special)


def _is_addend(bias: Range, filters: int) -> bool:
    """Whether a bias is finite, with one cell or one per filter."""
    return bias.shape == (filters,) and bias.low.size in (1, filters) and not bias.has_special


def _per_filter(x: Range, shape: tuple[int, ...], low: Array, high: Array, special: int = 0) -> Range:
    column = (1, -1, *(1,) * (len(shape) - 2))
    cuts = every(shape[1]) if low.size > 1 else None
    low, high = low.reshape(column), high.reshape(column)
    flags = np.full(low.shape, special, np.uint8) if special else None
    return Range(x.format, shape, (None, cuts, *(None,) * (len(shape) - 2)), low, high, flags)


def _terms(op: Call, low: float, high: float, x: Range, w: Range, windows: list[Window]) -> _Terms | None:
    """The products of one interval with all weights of a filter; padding adds zero."""
    padding = any(window.reaches_padding for window in windows)
    if w.array is None:
        return _of_interval(low, high, w, windows) if w.low.size == 1 else None
    if by_summary(op, x, w):
        ends = (min(low, 0.0), max(high, 0.0)) if padding else (low, high)
        return _of_summary(*ends, w.array, tuple(range(1, w.rank)))
    # Padding gives one of the values that a tap gives anyway.
    if is_large(w.array) or (padding and not low <= 0.0 <= high):
        return None
    return _of_weights(np.array([low]), np.array([high]), w)


def _terms_of_channels(op: Call, x: Range, w: Range, windows: list[Window]) -> _Terms | None:
    """The same for an input that is cut along its channels: a summary of the weights takes their hull."""
    if by_summary(op, x, w):
        return _terms(op, *x.hull(), x, w, windows)
    if w.array is None or is_large(w.array) or x.low.size != x.sizes[1]:
        return None
    low, high = x.low.reshape(-1), x.high.reshape(-1)
    if any(window.reaches_padding for window in windows) and not ((low <= 0.0) & (high >= 0.0)).all():
        return None
    return _of_weights(low, high, w)


def _of_summary(low: float, high: float, weights: Numbers, contracted: tuple[int, ...]) -> _Terms:
    fixed = channels(weights, contracted)
    centre = 0.5 * low + 0.5 * high
    reach = max(high - centre, centre - low) * fixed.absolute
    if centre:
        middle = centre * fixed.total
        reach += abs(centre) * fixed.error
        ends = middle - reach, middle + reach
    else:
        ends = -reach, reach
    up, down = signs(weights) if low >= 0.0 or high <= 0.0 else (False, False)
    nonnegative, nonpositive = (low >= 0.0 and up) or (high <= 0.0 and down), (low >= 0.0 and down) or (high <= 0.0 and up)
    return _Terms(*ends, max(abs(low), abs(high)) * fixed.absolute, nonnegative, nonpositive)


def _of_weights(low: Array, high: Array, w: Range) -> _Terms:
    """Weights times one interval for all of a filter's terms, or one for each of its channels."""
    rows = w.low.reshape(w.sizes[0], low.size, -1)
    positive, negative = np.maximum(rows, 0.0).sum(axis=2), np.maximum(-rows, 0.0).sum(axis=2)
    nonnegative: Mask = False
    nonpositive: Mask = False
    up, down = low >= 0.0, high <= 0.0
    if up.any() or down.any():
        never_below, never_above = negative == 0.0, positive == 0.0
        nonnegative = ((up & never_below) | (down & never_above)).all(axis=1)
        nonpositive = ((up & never_above) | (down & never_below)).all(axis=1)
    return _Terms(
        positive @ low - negative @ high,
        positive @ high - negative @ low,
        (positive + negative) @ np.maximum(np.abs(low), np.abs(high)),
        nonnegative,
        nonpositive,
    )


def _of_interval(low: float, high: float, w: Range, windows: list[Window]) -> _Terms | None:
    """Weights that all lie in one interval: only how many taps read something matters."""
    least_weight, most_weight = w.hull()
    ends = low * least_weight, low * most_weight, high * least_weight, high * most_weight
    fewest = most = float(w.sizes[1])
    for window in windows:
        inside = taps_inside(window)
        fewest, most = fewest * inside[0], most * inside[1]
    smallest, largest = min(ends), max(ends)
    if not math.isfinite(smallest * most) or not math.isfinite(largest * most) or not least_weight <= most_weight:
        return None
    return _Terms(
        np.array([min(smallest * fewest, smallest * most)]),
        np.array([max(largest * fewest, largest * most)]),
        np.array([max(abs(low), abs(high)) * max(abs(least_weight), abs(most_weight)) * most]),
        smallest >= 0.0,
        largest <= 0.0,
    )


def _summed(
    op: Call, terms: _Terms, bias: Range | None, count: int, x: Range, shape: tuple[int, ...]
) -> tuple[Array, Array] | None:
    """Bounds of the sums as computed, overflow on the way reported; None where they leave float64."""
    low, high, magnitude, nonnegative, nonpositive = terms
    if bias is not None:
        lows, highs = bias.low, bias.high
        low, high, magnitude, count = low + lows, high + highs, magnitude + np.maximum(np.abs(lows), np.abs(highs)), count + 1
        nonnegative = False if nonnegative is False else nonnegative & (lows >= 0.0)
        nonpositive = False if nonpositive is False else nonpositive & (highs <= 0.0)
    error = product_error(op, magnitude, count, x.format)
    low, high, magnitude = low - error, high + error, magnitude + error
    if nonnegative is not False:
        low = np.where(nonnegative, np.maximum(low, 0.0), low)
    if nonpositive is not False:
        high = np.where(nonpositive, np.minimum(high, 0.0), high)
    largest = float(magnitude.max())
    if not math.isfinite(largest):
        return None
    if largest > op.accumulation(x.format).high / 2:
        report_sum(op, _per_filter(x, shape, low, high), magnitude.reshape(1, -1, *(1,) * (len(shape) - 2)))
    return low, high


# -- Gemm -------------------------------------------------------------------------------------------------------------


@gemm.interval
def _(op: Call, a: Range, b: Range, c: Range | None = None) -> Range | None:
    """A B + C for one interval A, many weights B of which only their summary counts, and one C for each column."""
    ends = a.interval()
    if ends is None or c is None or not a.has_known_shape or a.rank != 2 or b.rank != 2 or op.attribute("transA", 0):
        return None
    if op.attribute("alpha", 1.0) != 1.0 or op.attribute("beta", 1.0) != 1.0 or not a.format.is_float or not by_summary(op, a, b):
        return None
    across = int(bool(op.attribute("transB", 0)))
    columns, shared = b.sizes[1 - across], b.sizes[across]
    if b.array is None or columns <= op.cells or a.sizes[1] != shared or not _is_addend(c, columns):
        return None
    low, high, magnitude, nonnegative, nonpositive = _of_summary(*ends, b.array, (across,))
    low, high, magnitude = low + c.low, high + c.high, magnitude + np.maximum(np.abs(c.low), np.abs(c.high))
    # The product itself may be rounded before C is added.
    error = product_error(op, magnitude, shared + 1, a.format) + 2 * a.format.unit_roundoff * magnitude
    if not float((magnitude + error).max()) < op.accumulation(a.format).high / 4:
        return None
    low, high = keep_sign(low - error, high + error, nonnegative & (c.low >= 0.0), nonpositive & (c.high <= 0.0))
    return Range.uniform((a.sizes[0], columns), a.format, float(low.min()), float(high.max()))


# -- batch normalisation ----------------------------------------------------------------------------------------------


@batch_normalization.interval
def _(op: Call, x: Range, scale: Range, bias: Range, mean: Range, variance: Range) -> Range | None:
    """The block with constant statistics, for an input that is cut into cells along its channels alone."""
    parameters = scale, bias, mean, variance
    if op.attribute("training_mode", 0) or op.outputs > 1 or not op.attribute("spatial", 1) or not x.has_known_shape:
        return None
    sizes = x.sizes
    if x.array is not None or x.has_special or len(sizes) < 2 or 0 in sizes or not x.format.is_float:
        return None
    if x.low.size != x.low.shape[1] or not all(part.array is not None and part.shape == sizes[1:2] for part in parameters):
        return None
    format, epsilon = x.format, op.attribute("epsilon", EPSILON)
    u, eta, held = format.unit_roundoff, least(op, format), format.nearest(epsilon)
    s, b, m, v = (part.low for part in parameters)
    if min(epsilon, held) < format.smallest_subnormal or float(v.min()) < 0.0:
        return None
    if x.low.size > 1:
        x = x.refine_fully(1)
    # Both ends of x are the rows of one array.
    ends = np.concatenate((x.low.reshape(1, -1), x.high.reshape(1, -1)))
    root = 1.0 / np.sqrt(v + epsilon)
    pad = root * ((abs(held - epsilon) + eta) * (root * root) + 4 * u)
    fast = root + pad
    # The factor has the sign of the scale: its end nearer to zero, and its end farther from it.
    near, far = s * np.maximum(root - pad, 0.0), s * fast
    factor, spread = np.abs(far), np.abs(ends).max(axis=0) + np.abs(m)
    widest, steepest = float(spread.max()), float(factor.max())
    largest = max(widest * max(steepest, float(np.abs(s).max()), 1.0), steepest)
    if not largest <= op.accumulation(format).high:
        return None
    error = spread * factor * (6 * u) + np.abs(b) * (2 * u) + 2 * eta * (widest + float(fast.max()) + 2.0)
    differences = ends - m
    slow_products, fast_products = differences * near, differences * far
    lows, highs = np.minimum(slow_products, fast_products) + (b - error), np.maximum(slow_products, fast_products) + (b + error)
    if sizes[1] > op.cells:
        return Range.uniform(sizes, format, float(lows.min()), float(highs.max()))
    return _per_filter(x, sizes, lows.min(axis=0), highs.max(axis=0))
