"""Convolutions: Conv and its transpose, their fused and causal forms, and the sums of overlapping blocks (Col2Im).

`interval_convolution` is the part that quantised convolutions share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.formats import Array
from tensorproof.operators.movement import concat, split
from tensorproof.operators.table import CORRECT, Call, find_operator, operator
from tensorproof.ranges.channel_windows import summarised_windows
from tensorproof.ranges.grid import Cuts, cell_sizes, union
from tensorproof.ranges.moving import moved
from tensorproof.ranges.norm_products import convolution_norm, within_kernel_reach
from tensorproof.ranges.partial_sums import Sums, report_sum
from tensorproof.ranges.range import INFINITIES, NAN, SPECIALS, Flags, Range, align
from tensorproof.ranges.sums import dot_product, keep_sign, summation_error
from tensorproof.ranges.weights import channels, is_large
from tensorproof.ranges.windows import (
    TABLE_BUDGET,
    Taps,
    Window,
    any_batch,
    sliding_windows,
    taps_as_hull,
    taps_on_cells,
    taps_on_one_cell,
)
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW

#: Multiplications that one convolution may spend on cells of space beyond one application of its weights.
PRODUCT_BUDGET = 1 << 23
#: Entries of the table of windows (im2col) that one convolution may build.
COLUMN_BUDGET = 1 << 20
#: Weights that are multiplied at a time.
PRODUCT_BLOCK = 1 << 18


def interval_convolution(op: Call, x: Range, w: Range, bias: Range | None = None, addend: Range | None = None) -> Range:
    """Bounds of the convolution of x (N, C, ...) with w (M, C / group, ...), attributes from the node (ONNX Conv-22).

    Both operands may be intervals on any grid; the result is in the format of x, with the rounding error of the sum added
    (none for integers). Padding is zero: quantised operators subtract their zero points first. `addend` has the shape of the
    result and joins the sum at any place of its order.
    """
    windows = sliding_windows(op, x.sizes[2:], w.sizes[2:])
    return _weighted_windows(op, x, w, bias, windows, int(op.attribute("group", 1)), addend)


@operator("Conv", error=CORRECT, overflow=ACCUMULATION_OVERFLOW)
@any_batch
def conv(op: Call, x: Range, w: Range, bias: Range | None = None, addend: Range | None = None) -> Range:
    """Linear in the input and in the weights; a border tap adds zero."""
    # The addend is FusedConv's: Conv itself has three inputs.
    return interval_convolution(op, x, w, bias, addend)


@conv.sums_over
def _(attributes: dict[str, Any], operand: int, rank: int) -> tuple[int, ...] | None:
    return tuple(range(1, rank)) if operand == 1 else None


@operator("FusedConv", domain="com.microsoft", composed_of=(conv,))
def fused_conv(op: Call, x: Range, w: Range, bias: Range | None = None, addend: Range | None = None) -> Range:
    """Conv, plus a tensor, then a monotone activation: Relu, LeakyRelu, Clip, Sigmoid, HardSigmoid or Tanh."""
    sums = op.apply(conv, x, w, bias, addend, **op.attributes)
    name, numbers = op.attribute("activation", ""), op.attribute("activation_params") or []
    if not name:
        return sums
    activation = find_operator("", name)
    if activation is None:
        raise NotAnalysed(f"activation {name} is not in the table")
    if name == "Clip":
        ends = (Range.constant(np.asarray(v, x.format.dtype)) for v in numbers)
        return op.apply(activation, sums, *ends)
    parameters = dict(zip(("alpha", "beta"), (float(v) for v in numbers)))
    return op.apply(activation, sums, **parameters)


@operator("ConvTranspose", error=CORRECT, overflow=ACCUMULATION_OVERFLOW)
@any_batch
def conv_transpose(op: Call, x: Range, w: Range, bias: Range | None = None) -> Range:
    """Linear in the input and in the weights; each output sums the taps that land on it."""
    group = int(op.attribute("group", 1))
    windows = _transposed_windows(op, x.sizes[2:], w.sizes[2:], op.attribute("pads"))
    return _adjoint_windows(op, x, w, bias, windows, group)


@operator("ConvTransposeWithDynamicPads", domain="com.microsoft", error=CORRECT, overflow=ACCUMULATION_OVERFLOW)
@any_batch
def conv_transpose_with_dynamic_pads(op: Call, x: Range, w: Range, pads: Range | None = None, bias: Range | None = None) -> Range:
    """ConvTranspose with its pads as an input."""
    group = int(op.attribute("group", 1))
    windows = _transposed_windows(op, x.sizes[2:], w.sizes[2:], op.integers("pads", pads))
    return _adjoint_windows(op, x, w, bias, windows, group)


def _transposed_windows(op: Call, sizes: Sequence[int], kernel: Sequence[int], pads: Sequence[int] | None) -> list[Window]:
    """Output sizes and pads by the equations of ONNX ConvTranspose-22."""
    rank = len(sizes)
    strides = op.attribute("strides") or [1] * rank
    dilations = op.attribute("dilations") or [1] * rank
    pads = pads or [0] * (2 * rank)
    extra = op.attribute("output_padding") or [0] * rank
    given = op.attribute("output_shape")
    auto_pad = op.attribute("auto_pad", "NOTSET") or "NOTSET"
    windows: list[Window] = []
    for axis in range(rank):
        size, stride, dilation = int(sizes[axis]), int(strides[axis]), int(dilations[axis])
        full = stride * (size - 1) + int(extra[axis]) + (int(kernel[axis]) - 1) * dilation + 1
        begin, end = int(pads[axis]), int(pads[rank + axis])
        output: int | None = None
        if given:
            output = int(given[-rank:][axis])
        elif auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            output = size * stride
        elif auto_pad == "VALID":
            begin = end = 0
        if output is None:
            output = full - begin - end
        else:
            total = full - output
            begin = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
            # A target larger than what the taps reach: runtimes never pad by a negative number.
            begin = max(begin, 0)
        if output < 0:
            raise NotAnalysed("the padding removes more than the output")
        windows.append(Window(size, int(kernel[axis]), stride, dilation, begin, output, size, transposed=True))
    return windows


def _adjoint_windows(op: Call, x: Range, w: Range, bias: Range | None, windows: Sequence[Window], group: int) -> Range:
    """Sums over what lands on each output, of weights (C, M / group, ...)."""
    channels_in, filters, *kernel = w.sizes
    if _by_summary(op, x, w) and channels_in == x.sizes[1] and channels_in % group == 0:
        assert w.array is not None
        taps = channels(w.array.reshape(group, channels_in // group, filters, *kernel), (1,))
        shape = (x.sizes[0], group * filters, *(window.output for window in windows))
        sums, special = summarised_windows(x, w, taps.reshaped((shape[1], *kernel)), windows, group)
        terms = channels_in // group * int(np.prod(kernel, dtype=np.int64))
        return _from_summary(op, x, sums, special, shape, bias, None, terms)
    return _weighted_windows(op, x, _adjoint_weights(w, group), bias, windows, group)


def _adjoint_weights(w: Range, group: int) -> Range:
    """Weights (C, M / group, ...) of a transposed convolution as (M, C / group, ...)."""
    channels, filters, *kernel = w.sizes
    shape = (group * filters, channels // group, *kernel)
    if group == 1:
        return moved(w, shape, (w.grid[1], w.grid[0], *w.grid[2:]), lambda a: np.swapaxes(a, 0, 1))
    if w.cells[:2] == (1, 1):
        return moved(w, shape, (None, None, *w.grid[2:]), lambda a: a)
    w = w.refine_fully(0).refine_fully(1)
    split, joined = (group, channels // group, filters, *w.cells[2:]), (*shape[:2], *w.cells[2:])
    grid = (_every(shape[0]), _every(shape[1]), *w.grid[2:])
    return moved(w, shape, grid, lambda a: np.swapaxes(a.reshape(split), 1, 2).reshape(joined))


def _every(size: int) -> Cuts:
    """One cell per element."""
    return None if size == 1 else np.arange(size + 1, dtype=np.int64)


@operator("CausalConvWithState", composed_of=(conv,))
def causal_conv_with_state(
    op: Call, x: Range, w: Range, bias: Range | None = None, past: Range | None = None
) -> tuple[Range, Range]:
    """Depthwise convolution over the past and present positions, then SiLU if asked for; the second output moves data."""
    batch, channels, length = x.sizes
    state = w.sizes[2] - 1
    if past is None:
        past = Range.uniform((batch, channels, state), x.format, 0.0, 0.0)
    padded = op.apply(concat, past, x, axis=2)
    y = op.apply(conv, padded, w, bias, group=channels)
    activation = op.attribute("activation", "none")
    if activation in ("silu", "swish"):
        swish = find_operator("", "Swish")
        if swish is None:
            raise NotAnalysed("activation Swish is not in the table")
        y = op.apply(swish, y)
    elif activation != "none":
        raise NotAnalysed(f"activation {activation} is not known")
    parts = op.apply(split, padded, Range.constant(np.array([length, state], np.int64)), axis=2)
    return y, parts[1]


@operator("Col2Im", error=CORRECT, overflow=ACCUMULATION_OVERFLOW, steered_by=(1, 2))
@any_batch
def col2im(op: Call, x: Range, image_shape: Range, block_shape: Range) -> Range:
    """The sum of the blocks that overlap at each position (ONNX Col2Im-18)."""
    if x.format.kind not in ("float", "int"):
        raise NotAnalysed(f"sums of {x.format} are not numbers")
    image, block = op.integers("image_shape", image_shape), op.integers("block_shape", block_shape)
    assert image is not None and block is not None
    rank = len(image)
    strides, dilations = op.attribute("strides") or [1] * rank, op.attribute("dilations") or [1] * rank
    pads = op.attribute("pads") or [0] * (2 * rank)
    windows: list[Window] = []
    for axis in range(rank):
        span = (block[axis] - 1) * dilations[axis] + 1
        positions = (image[axis] + pads[axis] + pads[rank + axis] - span) // strides[axis] + 1
        windows.append(Window(positions, block[axis], strides[axis], dilations[axis], pads[axis], image[axis], positions, True))
    taps_per_block = int(np.prod(block, dtype=np.int64))
    channels = x.sizes[1] // taps_per_block
    if int(np.prod([w.size for w in windows], dtype=np.int64)) != x.sizes[2]:
        raise NotAnalysed("the number of blocks does not fit the image")
    shape = (x.sizes[0], channels, *image)
    if 0 in shape:
        return Range.uniform(shape, x.format, 0.0, 0.0)
    return _overlapping_blocks(op, x, windows, shape)


def _overlapping_blocks(op: Call, x: Range, windows: Sequence[Window], shape: tuple[int, ...]) -> Range:
    """Sum over the taps of a block of what each of them puts at each position of the image."""
    if x.cells[1] > 1:
        x = x.refine_fully(1)
    if x.cells[2] > 1:
        fits = x.cells[0] * x.cells[1] * x.sizes[2] <= COLUMN_BUDGET
        x = x.refine_fully(2) if fits else x.smash((2,))
    by_element = x.cells[2] > 1
    low, high = _finite(x)
    with_zero = bool(((low <= 0) & (high >= 0)).all())
    taps = [
        taps_on_cells(window, _every(window.size))
        if by_element or window.size == 1
        else taps_on_one_cell(window, with_zero=with_zero)
        for window in windows
    ]
    kernel = tuple(window.kernel for window in windows)
    space = tuple(window.size if by_element else 1 for window in windows)
    split_channels = (shape[1], *kernel) if x.cells[1] > 1 else (1,) * (1 + len(kernel))

    def summed(array: Array) -> Array:
        array = array.reshape(x.cells[0], *split_channels, *space)
        total = np.zeros((*array.shape[:2], *(len(tap.cells) for tap in taps)))
        for index in np.ndindex(*kernel):
            part = array[(slice(None), slice(None), *(index if x.cells[1] > 1 else (0,) * len(kernel)))]
            for axis, (tap, k) in enumerate(zip(taps, index), start=2):
                zero = np.zeros((*part.shape[:axis], 1, *part.shape[axis + 1 :]))
                part = np.take(np.concatenate((part, zero), axis), tap.cells[:, k], axis)
            total += part
        return total

    low, high, magnitude = summed(low), summed(high), summed(np.maximum(np.abs(low), np.abs(high)))
    overlap = int(np.prod([int((tap.cells >= 0).sum(axis=1).max()) for tap in taps], dtype=np.int64))
    nonnegative, nonpositive = (summed(outside) == 0 for outside in ((x.low < 0).astype(float), (x.high > 0).astype(float)))
    sums = Sums(low, high, magnitude, nonnegative, nonpositive)
    for axis, tap in enumerate(taps, start=2):
        sums = sums.joined(axis) if tap.joined and low.shape[axis] > 1 else sums
    error = summation_error(op, sums.magnitude, overlap, x.format, products=False)
    low, high = keep_sign(sums.low - error, sums.high + error, sums.nonnegative, sums.nonpositive)
    grid = (x.grid[0], None if x.cells[1] == 1 else _every(shape[1]), *(tap.cuts for tap in taps))
    result = Range(x.format, shape, grid, low, high)
    if x.any_special:
        # A tap that reads nothing adds nothing; opposite infinities may meet wherever two taps do.
        made = NAN if overlap > 1 and x.any_special & INFINITIES == INFINITIES else 0
        result = result.with_special(x.any_special | made)
    report_sum(op, result, sums.magnitude + error)
    return result


# -- the sum over windows and channels --------------------------------------------------------------------------------


def _weighted_windows(
    op: Call, x: Range, w: Range, bias: Range | None, windows: Sequence[Window], group: int, addend: Range | None = None
) -> Range:
    """Sum over channels and taps of w (M, C / group, taps) times what the windows read of x (N, C, space), plus addends."""
    of_x, of_w = x.sizes, w.sizes
    if of_w[1] * group != of_x[1] or of_w[0] % group:
        raise NotAnalysed("weights do not fit the channels of the input")
    shape = (of_x[0], of_w[0], *(window.output for window in windows))
    terms = math.prod(of_w[1:])
    factors = x, w, group
    if _by_summary(op, x, w):
        assert w.array is not None
        sums, flags = summarised_windows(x, w, channels(w.array, tuple(range(1, w.rank))), windows, group)
        return _from_summary(op, x, sums, flags, shape, bias, addend, terms, factors)
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


def _by_summary(op: Call, x: Range, w: Range) -> bool:
    """Whether the weights are used by their sums per output channel alone."""
    return op.abstraction.weights == "channel" and is_large(w.array) and x.array is None and 0 not in x.sizes


def _from_summary(
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
    """The convolution from its sums, with one cell for each image of the batch and filter."""
    grid: tuple[Cuts, ...] = (x.grid[0], _every(shape[1]), *(None,) * (len(shape) - 2))
    if 0 in shape:
        return Range.uniform(shape, x.format, 0.0, 0.0)
    if special is None and addend is None and (bias is None or (bias.sizes == shape[1:2] and not bias.has_special)):
        count = terms
        factors = factors if op.abstraction.norms and x.format.is_float else None
        if factors is not None:
            sums = within_kernel_reach(sums, *factors[:2])
        if bias is not None:
            column = (1, -1, *(1,) * (len(shape) - 2))
            sums, count = sums.plus(bias.low.reshape(column), bias.high.reshape(column)), terms + 1
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
        return x, w, _every(filters), group, None
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


def _finite(x: Range) -> tuple[Array, Array]:
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
    low, high = _finite(x)
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
    low_w, high_w = (w.array, w.array) if w.array is not None and w.format.is_float else _finite(w)
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
