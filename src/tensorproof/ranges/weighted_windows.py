"""Sums over sliding windows and channels: what all convolutions share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.formats import Array
from tensorproof.operators.table import Call
from tensorproof.ranges.channel_windows import summarised_windows, uniform_windows
from tensorproof.ranges.grid import Cuts, cell_sizes, every, union
from tensorproof.ranges.moving import moved
from tensorproof.ranges.norm_products import convolution_norm, within_kernel_reach
from tensorproof.ranges.partial_sums import Sums, report_sum
from tensorproof.ranges.range import INFINITIES, NAN, SPECIALS, Flags, Range, align
from tensorproof.ranges.sums import dot_product, keep_sign, summation_error
from tensorproof.ranges.weights import channels, is_large
from tensorproof.ranges.windows import TABLE_BUDGET, Taps, Window, taps_as_hull, taps_on_cells, taps_on_one_cell

#: Multiplications that one convolution may spend on cells of space beyond one application of its weights.
PRODUCT_BUDGET = 1 << 23
#: Entries of the table of windows (im2col) that one convolution may build.
COLUMN_BUDGET = 1 << 20
#: Weights that are multiplied at a time.
PRODUCT_BLOCK = 1 << 18


def weighted_windows(
    op: Call, x: Range, w: Range, bias: Range | None, windows: Sequence[Window], group: int, addend: Range | None = None
) -> Range:
    """Sum over channels and taps of w (M, C / group, taps) times what the windows read of x (N, C, space), plus addends."""
    of_x, of_w = x.sizes, w.sizes
    if of_w[1] * group != of_x[1] or of_w[0] % group:
        raise NotAnalysed("weights do not fit the channels of the input")
    shape = (of_x[0], of_w[0], *(window.output for window in windows))
    terms = math.prod(of_w[1:])
    factors = x, w, group
    if by_summary(op, x, w):
        assert w.array is not None
        sums, flags = summarised_windows(x, w, channels(w.array, tuple(range(1, w.rank))), windows, group)
        return from_summary(op, x, sums, flags, shape, bias, addend, terms, factors)
    sums = uniform_windows(x, w, windows, group) if 0 not in shape else None
    if sums is not None:
        return from_summary(op, x, sums, None, shape, bias, addend, terms, factors)
    x, w, filters, groups, repeats = _shared_channels(x, w, group)
    for axis in range(2, w.rank):
        w = w.refine_fully(axis)
    x, taps = _affordable(x, w, windows)

    sums = _products(op, x, w, taps, groups, repeats)
    special: Flags | None = None
    if x.has_special or w.has_special:
        special = np.broadcast_to(_specials(x, w, taps, groups), sums.low.shape)
    # (filters, batch, space) to (batch, filters, space); alternatives of one cell are joined.
    sums = sums.mapped(lambda a: np.moveaxis(a, 0, 1))
    special = None if special is None else np.moveaxis(special, 0, 1)
    for axis, tap in enumerate(taps, start=2):
        if tap.joined and sums.low.shape[axis] > 1:
            sums = sums.joined(axis)
            special = None if special is None else np.bitwise_or.reduce(special, axis=axis, keepdims=True)
    grid = tuple(
        np.zeros(1, np.int64) if size == 0 else cuts for size, cuts in zip(shape, (x.grid[0], filters, *(tap.cuts for tap in taps)))
    )
    if 0 in shape:
        nothing = np.zeros(tuple(0 if size == 0 else a for size, a in zip(shape, sums.low.shape)))
        return Range(x.format, shape, grid, nothing, nothing)
    result = Range(x.format, shape, grid, sums.low, sums.high, special)
    addends = [] if bias is None else [_per_channel(bias, x.rank, shape[1])]
    return _with_addends(op, result, sums, [*addends, *([] if addend is None else [addend])], terms, factors)


def by_summary(op: Call, x: Range, w: Range) -> bool:
    """Whether the weights are used by their sums per output channel alone."""
    return op.abstraction.weights == "channel" and is_large(w.array) and x.array is None and 0 not in x.sizes


def from_summary(
    op: Call,
    x: Range,
    sums: Sums,
    special: Flags | None,
    shape: tuple[int, ...],
    bias: Range | None,
    addend: Range | None,
    terms: int,
    factors: tuple[Range, Range, int] | None = None,
) -> Range:
    """The convolution from its sums (batch, filters, 1, ...), whose filters are one cell or one each."""
    space = (None,) * (len(shape) - 2)
    grid: tuple[Cuts, ...] = (x.grid[0], every(shape[1]) if sums.low.shape[1] > 1 else None, *space)
    if 0 in shape:
        return Range.uniform(shape, x.format, 0.0, 0.0)
    if special is None and addend is None and (bias is None or _is_plain(bias, shape[1])):
        count = terms
        factors = factors if op.abstraction.norms and x.format.is_float else None
        if factors is not None:
            sums = within_kernel_reach(sums, *factors[:2])
        if bias is not None:
            column = (1, -1, *(1,) * (len(shape) - 2))
            sums, count = sums.plus(bias.low.reshape(column), bias.high.reshape(column)), terms + 1
            grid = (x.grid[0], every(shape[1]) if sums.low.shape[1] > 1 else None, *space)
        error = summation_error(op, sums.magnitude, count, x.format)
        low, high = keep_sign(sums.low - error, sums.high + error, sums.nonnegative, sums.nonpositive)
        result = Range(x.format, shape, grid, low, high)
        report_sum(op, result, sums.magnitude + error)
        if factors is not None:
            addends = [] if bias is None else [_per_channel(bias, x.rank, shape[1])]
            result.norm = convolution_norm(op, result, *factors, addends, error)
        return result
    result = Range(x.format, shape, grid, sums.low, sums.high, special)
    addends = [] if bias is None else [_per_channel(bias, x.rank, shape[1])]
    return _with_addends(op, result, sums, [*addends, *([] if addend is None else [addend])], terms, factors)


def _is_plain(bias: Range, filters: int) -> bool:
    """Whether a bias is finite, with one cell or one per filter."""
    return bias.sizes == (filters,) and bias.low.size in (1, filters) and not bias.has_special


def _with_addends(
    op: Call, y: Range, sums: Sums, addends: Sequence[Range], terms: int, factors: tuple[Range, Range, int] | None
) -> Range:
    """The bias and other addends joined to the sum, and the rounding error of the whole.

    `factors` are the operands of the convolution and the number of groups: their norms bound the sums as well.
    """
    factors = factors if op.abstraction.norms and y.format.is_float else None
    if factors is not None:
        sums = within_kernel_reach(sums, *factors[:2])
        y = y.replace(sums.low, sums.high, y.special if y.has_special else None)
    # Signs travel as bounds of a range: 1 where all terms have the sign, so that they meet the addends on one grid.
    signs = y.replace(sums.nonnegative.astype(np.float64), sums.nonpositive.astype(np.float64), None)
    aligned = align(y, y.replace(sums.magnitude, sums.magnitude, None), signs, *addends)
    low, high, total, special = aligned.lows[0], aligned.highs[0], aligned.lows[1], aligned.specials[0]
    nonnegative, nonpositive = aligned.lows[2] > 0, aligned.highs[2] > 0
    for lb, hb, sb in zip(aligned.lows[3:], aligned.highs[3:], aligned.specials[3:]):
        empty = lb > hb
        lb, hb = np.where(empty, 0.0, lb), np.where(empty, 0.0, hb)
        low, high, total = low + lb, high + hb, total + np.maximum(np.abs(lb), np.abs(hb))
        nonnegative, nonpositive = nonnegative & (lb >= 0), nonpositive & (hb <= 0)
        opposite = ((special & INFINITIES) != 0) & ((sb & INFINITIES) != 0) & ((special | sb) & INFINITIES == INFINITIES)
        special = special | sb | np.where(opposite, np.uint8(NAN), np.uint8(0))
    error = summation_error(op, total, terms + len(addends), y.format)
    low, high = keep_sign(low - error, high + error, nonnegative, nonpositive)
    result = aligned.result(y.format, low, high, special)
    report_sum(op, result, np.broadcast_to(total + error, result.cells))
    if factors is not None:
        result.norm = convolution_norm(op, result, *factors, addends, error)
    return result


def _per_channel(bias: Range, rank: int, channels: int) -> Range:
    """One number per channel as a tensor (1, channels, 1, ...); a single number is one for all of them."""
    ones = (1,) * (rank - 2)
    size = bias.sizes[0] if bias.rank else 1
    grid = (None, bias.grid[0] if size == channels and bias.rank else None, *(None,) * (rank - 2))
    return moved(bias, (1, size, *ones), grid, lambda a: a.reshape(1, -1, *ones))


def _shared_channels(x: Range, w: Range, group: int) -> tuple[Range, Range, Cuts, int, Array | None]:
    """Both operands on common cells of the input channels.

    Returns them with the cuts of the output channels, the number of groups that differ, and how many channels each cell
    stands for (None: one each).
    """
    filters = w.sizes[0]
    if group == 1:
        cuts = union(x.grid[1], w.grid[1])
        x, w = x.refine(1, cuts), w.refine(1, cuts)
        groups, result = 1, w.grid[0]
    elif x.cells[1] == 1 and w.cells[0] == 1:
        # All groups look the same: one of them stands for all.
        groups, result = 1, None
        if w.cells[1] != 1:
            copies = w.cells[1]
            x = moved(x, x.sizes, x.grid, lambda a: np.repeat(a, copies, 1))
    else:
        x, w = x.refine_fully(1), w.refine_fully(0).refine_fully(1)
        return x, w, every(filters), group, None
    repeats = cell_sizes(w.grid, w.sizes, 1)
    return x, w, result, groups, None if (repeats == 1).all() else repeats.astype(np.float64)


def _affordable(x: Range, w: Range, windows: Sequence[Window]) -> tuple[Range, list[Taps]]:
    """What the windows read, on cells of space and batch as fine as the budgets allow."""
    kernel = int(np.prod([window.kernel for window in windows], dtype=np.int64))
    columns = kernel * max(1, x.cells[1])
    filters = max(1, w.cells[0] * w.cells[1] // max(1, x.cells[1]))
    for axis, window in enumerate(windows, start=2):
        if window.output * window.kernel > TABLE_BUDGET:
            x = x.smash((axis,))

    def fits(taps: Sequence[Taps]) -> bool:
        outputs = int(np.prod([len(tap.cells) for tap in taps], dtype=np.int64)) * max(1, x.cells[0])
        return outputs == 1 or (columns * outputs <= COLUMN_BUDGET and columns * outputs * filters <= PRODUCT_BUDGET)

    while True:
        with_zero = bool(((x.low <= 0) & (x.high >= 0)).all())
        taps = [
            taps_on_one_cell(window, with_zero=with_zero)
            if x.cells[axis] == 1 and window.size > 1 and window.output > 0
            else taps_on_cells(window, x.grid[axis])
            for axis, window in enumerate(windows, start=2)
        ]
        if fits(taps):
            return x, taps
        uneven = [axis for axis in range(2, x.rank) if x.cells[axis] > 1]
        if not uneven:
            break
        x = x.smash((max(uneven, key=lambda axis: x.cells[axis]),))
    hulls = [taps_as_hull(window) if tap.joined else tap for window, tap in zip(windows, taps)]
    # Transposed windows read few of their taps at once: one row for all is worse than the alternatives by their stride.
    taps = hulls if fits(hulls) or not any(window.transposed for window in windows) else taps
    return (x if fits(taps) else x.smash((0,))), taps


def _columns(array: npt.NDArray[Any], taps: Sequence[Taps], hull: np.ufunc) -> npt.NDArray[Any]:
    """What every tap reads: (batch, channels, space) to (channels, taps, batch, outputs)."""
    kernels: list[int] = []
    outputs: list[int] = []
    for axis, tap in enumerate(taps, start=2):
        zero = np.zeros_like(array, shape=(*array.shape[:axis], 1, *array.shape[axis + 1 :]))
        parts = [array, zero]
        if tap.joined and tap.cells.size and int(tap.cells.max()) == 1:
            parts = [array, hull(array, array.dtype.type(0)), zero]
        array = np.take(np.concatenate(parts, axis), tap.cells.reshape(-1), axis)
        outputs.append(tap.cells.shape[0])
        kernels.append(tap.cells.shape[1])
    split = [size for pair in zip(outputs, kernels) for size in pair]
    array = array.reshape(*array.shape[:2], *split)
    rank = len(taps)
    order = (1, *(3 + 2 * i for i in range(rank)), 0, *(2 + 2 * i for i in range(rank)))
    return np.transpose(array, order)


def finite(x: Range) -> tuple[Array, Array]:
    """Bounds of the finite values, zero where there are none; one array where the range is exact."""
    low = x.low
    if x.array is not None and x.format.is_float:
        return low, low
    high = x.high
    if not x.has_special:
        return low, high
    empty = low > high
    return np.where(empty, 0.0, low), np.where(empty, 0.0, high)


def _products(op: Call, x: Range, w: Range, taps: Sequence[Taps], groups: int, repeats: Array | None) -> Sums:
    """Sums of weights times what the taps read, (filters, batch, outputs)."""
    low, high = finite(x)
    exact = low is high
    low_x = _columns(low, taps, np.minimum)
    high_x = low_x if exact else _columns(high, taps, np.maximum)
    channels, rank = low_x.shape[0], len(taps)
    outputs = low_x.shape[1 + rank :]
    count = int(np.prod(outputs, dtype=np.int64))
    if repeats is not None:
        scale = repeats.reshape(-1, *(1,) * (low_x.ndim - 1))
        low_x = low_x * scale
        high_x = low_x if exact else high_x * scale
    inner = channels // groups * int(np.prod(low_x.shape[1 : 1 + rank], dtype=np.int64))
    batch = () if groups == 1 else (groups,)
    low_x = low_x.reshape(*batch, inner, count)
    high_x = low_x if exact else high_x.reshape(*batch, inner, count)
    # Weights of the file stay in their own dtype: the product converts them in pieces.
    low_w, high_w = (w.array, w.array) if w.array is not None and w.format.is_float else finite(w)
    filters = low_w.shape[0]
    fixed = low_w is high_w
    low_w = low_w.reshape(*batch, filters // groups, inner)
    high_w = low_w if fixed else high_w.reshape(*batch, filters // groups, inner)
    # A block of filters at a time stays in the cache, in the order in which the file holds it.
    step = max(1, filters // groups if groups > 1 or (fixed and is_large(low_w)) else PRODUCT_BLOCK // max(1, inner))
    parts: list[Sums] = []
    for start in range(0, max(1, filters // groups), step):
        block_low = low_w[..., start : start + step, :]
        block_high = block_low if fixed else high_w[..., start : start + step, :]
        dot = dot_product(op, block_low, block_high, low_x, high_x, x.format, partial_sums=False)
        nonnegative, nonpositive = (np.broadcast_to(a, dot.low.shape) for a in (dot.nonnegative, dot.nonpositive))
        parts.append(Sums(dot.low, dot.high, dot.magnitude, nonnegative, nonpositive))
    whole = parts[0] if len(parts) == 1 else Sums.stacked(parts, -2)
    return whole.mapped(lambda a: a.reshape(filters, *outputs))


def _specials(x: Range, w: Range, taps: Sequence[Taps], groups: int) -> Flags:
    """NaN where a window holds one; any special value where it holds an infinity (of weights: everywhere)."""
    flags = _columns(x.special, taps, np.maximum)
    rank = len(taps)
    flags = flags.reshape(groups, -1, *flags.shape[1 + rank :])
    seen = np.bitwise_or.reduce(flags, axis=1)
    seen = seen | np.uint8(w.any_special)
    result = np.where(seen & INFINITIES, np.uint8(SPECIALS), seen & np.uint8(NAN))
    return np.repeat(result, w.cells[0] // groups, axis=0)
