"""The gradient of a batch's normalisation by its own statistics, which TensorFlow computes in one operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorproof.errors import UnknownShape
from tensorproof.frontends.calls import OWN
from tensorproof.operators.activations import least
from tensorproof.operators.normalisation import EPSILON, along_channels, per_channel, standardised
from tensorproof.operators.statistics import STATISTICS, normalise, stash
from tensorproof.operators.table import CORRECT, Call, operator
from tensorproof.ranges.moving import reshape
from tensorproof.ranges.range import SPECIALS, Range, align
from tensorproof.ranges.rows import Rows
from tensorproof.ranges.sums import report_partial_overflow
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor


@operator(
    "BatchNormalizationGradient",
    domain=OWN,
    error=CORRECT,
    overflow=ACCUMULATION_OVERFLOW,
    hazards=STATISTICS,
    coarse="the normalised batch and its gradient are bounded apart from each other",
)
def batch_normalization_gradient(op: Call, gradient: Range, x: Range, scale: Range) -> tuple[Range, Range]:
    """s r (g - mean(g) - y mean(g y)) and sum(g y), y the normalised batch and r the reciprocal of its deviation.

    g - mean(g) - y mean(g y) is what is left of g beside two directions, so that it is not longer than g; |mean(g y)| <= max |g|
    since the mean square of y is at most 1.
    """
    axes = tuple(axis for axis in range(x.rank) if axis != 1)
    format = stash(x.format) if x.format.bits < 32 else x.format
    y, rows, found = normalise(op, x, axes, op.attribute("epsilon", EPSILON), format, folded=True)
    n = rows.length
    if not np.isfinite(n) or not x.has_known_shape:
        raise UnknownShape("the size of a batch that is summed over depends on the data")
    of_gradient = Rows(gradient, axes)
    counts = of_gradient.most[:, None]
    size = np.maximum(np.abs(of_gradient.low), np.abs(of_gradient.high)).max(axis=-1, keepdims=True)
    mean_low, mean_high = of_gradient.low @ counts / n, of_gradient.high @ counts / n
    stretch = (1.0 + found.relative) * np.minimum(found.stretch, 1e30)
    longest = np.maximum(np.abs(rows.flatten(y.low)), np.abs(rows.flatten(y.high))).max(axis=-1, keepdims=True)
    steep = np.minimum(longest, stretch)
    u = op.accumulation(format).unit_roundoff + 2.0**-52
    # Sums of n terms, the products in them, and about eight roundings of what follows.
    slack = (2.0 * n + 16.0) * u
    lost = n * least(op, format)

    def one(low: np.ndarray, high: np.ndarray, of: Rows) -> Range:
        return of.per_row(low, high)

    # One range per channel and array: rows of the two tensors may lie on other cells.
    means, sizes = one(mean_low, mean_high, of_gradient), one(size, size, of_gradient)
    lengths, steeps = one(longest, longest, rows), one(steep, steep, rows)
    fastest = (1.0 + found.relative) / np.sqrt(np.maximum(found.floor, op.accumulation(format).smallest_subnormal))
    slowest = np.where(found.overflow, 0.0, 1.0 / np.sqrt(found.ceiling) / (1.0 + found.relative))
    rates = one(slowest, fastest, rows)
    factors = per_channel(scale, x.rank)
    aligned = align(gradient, means, sizes, lengths, steeps, rates, factors)
    low, high = aligned.lows, aligned.highs
    low_g, high_g = np.where(low[0] > high[0], 0.0, low[0]), np.where(low[0] > high[0], 0.0, high[0])
    most = high[2]
    along = most * high[3] * high[4]
    error = slack * (2.0 * most + along) + lost
    farthest = np.sqrt(n) * most * (1.0 + slack) + error
    left_low = np.maximum(low_g - high[1] - along - error, -farthest)
    left_high = np.minimum(high_g - low[1] + along + error, farthest)
    ends = [r * s for r in (low[5], high[5]) for s in (low[6], high[6])]
    weak, strong = np.minimum.reduce(ends), np.maximum.reduce(ends)
    products = [a * b for a in (left_low, left_high) for b in (weak, strong)]
    special = SPECIALS if gradient.has_special or x.has_special or scale.has_special else 0
    by_x = aligned.result(x.format, np.minimum.reduce(products), np.maximum.reduce(products))
    by_x = by_x.with_special(special) if special else by_x
    per = align(sizes, steeps)
    reach = n * per.highs[0] * per.highs[1] * (1.0 + slack) + lost
    by_scale = per.result(scale.format, -reach, reach)
    by_scale = by_scale.with_special(special) if special else by_scale
    report_partial_overflow(op, by_scale, -reach, reach)
    return by_x, reshape(by_scale, (x.sizes[1],))


@batch_normalization_gradient.meaning
def _(run: Run, gradient: Tensor, x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    axes = tuple(axis for axis in range(x.ndim) if axis != 1)
    y, _, inverse = standardised(run, x, axes, run.attribute("epsilon", EPSILON))
    g = gradient.to(y.dtype)
    left = g - g.mean(axes, keepdim=True) - y * (g * y).mean(axes, keepdim=True)
    return (left * inverse * along_channels(scale, x.ndim)).to(x.dtype), (g * y).sum(axes).to(scale.dtype)
