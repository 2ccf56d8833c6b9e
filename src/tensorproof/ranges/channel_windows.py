"""Convolutions by the sums of their weights alone: one application of the weights, whatever the size of the image."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorproof.formats import Array
from tensorproof.ranges.grid import cell_sizes
from tensorproof.ranges.partial_sums import Sums
from tensorproof.ranges.range import INFINITIES, NAN, SPECIALS, Flags, Range
from tensorproof.ranges.weights import Channels, signs
from tensorproof.ranges.windows import Window, taps_inside, taps_on_one_cell


def summarised_windows(x: Range, w: Range, fixed: Channels, windows: Sequence[Window], group: int) -> tuple[Sums, Flags | None]:
    """Sums (batch, filters, 1, ...) where every tap may read any element of its group's channels, padding included.

    Of a transposed convolution `fixed` has one sum per filter and tap, and outputs differ in the taps that reach them.
    """
    assert w.array is not None
    x = x.smash(tuple(range(2, x.rank)))
    filters = fixed.total.shape[0]
    low, high = x.low, x.high
    if x.has_special:
        empty = low > high
        low, high = np.where(empty, 0.0, low), np.where(empty, 0.0, high)
    low, high = _of_groups(low, group, np.minimum), _of_groups(high, group, np.maximum)
    if low.shape[1] > 1:
        low, high = (np.repeat(a, filters // group, axis=1) for a in (low, high))
    ones = (1,) * len(windows)
    if fixed.total.ndim > 1:
        with_zero = bool(((low <= 0) & (high >= 0)).all())
        rows = [(taps_on_one_cell(window, with_zero=with_zero).cells >= 0).astype(np.float64) for window in windows]
        # One entry per pattern of taps that read something, behind the batch and the filters.
        fixed = fixed.mapped(lambda taps: _over_patterns(taps, rows))
    else:
        if any(window.reaches_padding for window in windows):
            low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
        fixed = fixed.reshaped((filters, *ones))
    up, down = signs(w.array)
    least, most, magnitude = fixed.times(low, high)
    sums = Sums(
        least,
        most,
        magnitude,
        np.broadcast_to(((low >= 0.0) & up) | ((high <= 0.0) & down), least.shape),
        np.broadcast_to(((low >= 0.0) & down) | ((high <= 0.0) & up), least.shape),
    )
    for axis in range(2, least.ndim):
        sums = sums.joined(axis) if least.shape[axis] > 1 else sums
    if not x.has_special:
        return sums, None
    seen = np.bitwise_or.reduce(x.special, axis=1, keepdims=True)
    special = np.where(seen & INFINITIES, np.uint8(SPECIALS), seen & np.uint8(NAN))
    return sums, np.broadcast_to(special, sums.low.shape)


def uniform_windows(x: Range, w: Range, windows: Sequence[Window], group: int) -> Sums | None:
    """Sums (batch, 1, 1, ...) of weights that all lie in one interval times a tensor without cells of space.

    None if the operands are not of that form, or hold special values.
    """
    low, high = x.low, x.high
    if w.low.size != 1 or x.has_special or w.has_special or low.size != low.shape[0] * low.shape[1] or not low.size:
        return None
    if group > 1 and low.shape[1] > 1:
        return None
    least, most = w.low.item(), w.high.item()
    ends = low * least, low * most, high * least, high * most
    lows, highs = np.minimum.reduce(ends), np.maximum.reduce(ends)
    magnitude = np.maximum(np.abs(low), np.abs(high)) * max(abs(least), abs(most))
    nonnegative, nonpositive = lows.min(axis=1, keepdims=True) >= 0.0, highs.max(axis=1, keepdims=True) <= 0.0
    if low.shape[1] == 1:
        lows, highs, magnitude = (part * float(w.sizes[1]) for part in (lows, highs, magnitude))
    else:
        sizes = cell_sizes(x.grid, x.sizes, 1).astype(np.float64).reshape(1, -1, *(1,) * (low.ndim - 2))
        lows, highs, magnitude = ((part * sizes).sum(axis=1, keepdims=True) for part in (lows, highs, magnitude))
    # All taps add the same: only how many of them read something matters.
    fewest = most_taps = 1.0
    for window in windows:
        inside = taps_inside(window)
        fewest, most_taps = fewest * inside[0], most_taps * inside[1]
    return Sums(
        np.minimum(lows * fewest, lows * most_taps),
        np.maximum(highs * fewest, highs * most_taps),
        magnitude * most_taps,
        nonnegative,
        nonpositive,
    )


def _of_groups(bounds: Array, group: int, hull: np.ufunc) -> Array:
    """Bounds over (batch, channels, space) merged over the channels of each group."""
    if bounds.shape[1] == 1 or group == 1 or bounds.shape[1] % group:
        return hull.reduce(bounds, axis=1, keepdims=True)
    return hull.reduce(bounds.reshape(bounds.shape[0], group, -1, *bounds.shape[2:]), axis=2)


def _over_patterns(taps: Array, rows: Sequence[Array]) -> Array:
    """Numbers per filter and tap, added up over the taps of each pattern, axis by axis."""
    for axis, row in enumerate(rows, start=1):
        taps = np.moveaxis(np.tensordot(taps, row, (axis, 1)), -1, axis)
    return taps
