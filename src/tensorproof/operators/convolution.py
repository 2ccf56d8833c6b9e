"""Convolutions: Conv and its transpose, their fused and causal forms, and the sums of overlapping blocks (Col2Im).

`interval_convolution` is the part that quantised convolutions share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.execute.meaning import NotExecutable
from tensorproof.formats import Array
from tensorproof.operators.joining import concat, split
from tensorproof.operators.table import CORRECT, NEWEST, Attributed, Call, find_operator, operator
from tensorproof.ranges.channel_windows import summarised_windows
from tensorproof.ranges.grid import every
from tensorproof.ranges.moving import moved
from tensorproof.ranges.partial_sums import Sums, report_sum
from tensorproof.ranges.range import INFINITIES, NAN, Range
from tensorproof.ranges.sums import keep_sign, summation_error
from tensorproof.ranges.weighted_windows import COLUMN_BUDGET, by_summary, finite, from_summary, weighted_windows
from tensorproof.ranges.weights import channels
from tensorproof.ranges.windows import (
    Window,
    any_batch,
    sliding_windows,
    taps_on_cells,
    taps_on_one_cell,
)
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall


def interval_convolution(op: Call, x: Range, w: Range, bias: Range | None = None, addend: Range | None = None) -> Range:
    """Bounds of the convolution of x (N, C, ...) with w (M, C / group, ...), attributes from the node (ONNX Conv-22).

    Both operands may be intervals on any grid; the result is in the format of x, with the rounding error of the sum added
    (none for integers). Padding is zero: quantised operators subtract their zero points first. `addend` has the shape of the
    result and joins the sum at any place of its order.
    """
    windows = sliding_windows(op, x.sizes[2:], w.sizes[2:])
    return weighted_windows(op, x, w, bias, windows, int(op.attribute("group", 1)), addend)


@operator("Conv", error=CORRECT, overflow=ACCUMULATION_OVERFLOW)
@any_batch
def conv(op: Call, x: Range, w: Range, bias: Range | None = None, addend: Range | None = None) -> Range:
    """Linear in the input and in the weights; a border tap adds zero."""
    # The addend is FusedConv's: Conv itself has three inputs.
    return interval_convolution(op, x, w, bias, addend)


@conv.sums_over
def _(attributes: dict[str, Any], operand: int, rank: int) -> tuple[int, ...] | None:
    return tuple(range(1, rank)) if operand == 1 else None


@conv.meaning
def _(run: Run, x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    windows = sliding_windows(run, x.shape[2:], w.shape[2:])
    strides, dilations = [window.stride for window in windows], [window.dilation for window in windows]
    convolve = by_rank(run, "conv", len(windows))

    def convolved(x: Tensor, w: Tensor) -> Tensor:
        return convolve(padded(run, x, windows), w, None, strides, 0, dilations, int(run.attribute("group", 1)))

    return _with_bias(_floating(run, convolved, x, w), bias)


@conv.aten("conv1d", "conv2d", "conv3d")
def _(call: AtenCall) -> int:
    return _convolved(call, [(size, size) for size in spatial(call, "padding")])


@conv.aten("conv1d.padding", "conv2d.padding", "conv3d.padding")
def _(call: AtenCall) -> int:
    """No padding (`valid`), or as much as keeps the size, the odd element behind (`same`)."""
    if call["padding"] == "valid":
        return _convolved(call, [(0, 0)] * _space(call))
    kernel = (call.handle("weight").shape or ())[2:]
    totals = [dilation * (int(size or 1) - 1) for dilation, size in zip(spatial(call, "dilation"), kernel, strict=True)]
    return _convolved(call, [(total // 2, total - total // 2) for total in totals])


@conv.aten("convolution")
def _(call: AtenCall) -> int:
    if call["transposed"]:
        return _transposed_convolution(call)
    return _convolved(call, [(size, size) for size in spatial(call, "padding")])


def _space(call: AtenCall) -> int:
    """The number of spatial axes of a convolution."""
    return call.rank("weight") - 2


def spatial(call: AtenCall, name: str, rank: int | None = None) -> list[int]:
    """One number for each spatial axis; torch takes a single one for all of them."""
    given = call[name]
    numbers = list(given) if isinstance(given, list | tuple) else [given]
    rank = _space(call) if rank is None else rank
    return [int(number) for number in (numbers * rank if len(numbers) == 1 else numbers)]


def batched(call: AtenCall, name: str, rank: int, x: int) -> int:
    """A value of so many spatial axes with a batch axis in front, which torch lets one leave out."""
    return x if call.rank(name) == rank + 2 else call.moved("Unsqueeze", x, call.constant(np.array([0], np.int64)))


def unbatched(call: AtenCall, name: str, rank: int, y: int) -> int:
    """A result without the batch axis that its operand did not have."""
    return y if call.rank(name) == rank + 2 else call.moved("Squeeze", y, call.constant(np.array([0], np.int64)))


def _convolved(call: AtenCall, pads: Sequence[tuple[int, int]]) -> int:
    format, space = call.result.format, _space(call)
    x, weight, bias = (call.tensor(name, format) for name in ("input", "weight", "bias"))
    y = call.emit(
        "Conv",
        batched(call, "input", space, x),
        weight,
        bias,
        strides=spatial(call, "stride"),
        pads=[*(begin for begin, _ in pads), *(end for _, end in pads)],
        dilations=spatial(call, "dilation"),
        group=int(call["groups"]),
        formats=(format,),
    )
    return unbatched(call, "input", space, y)


def _transposed_convolution(call: AtenCall) -> int:
    format, space = call.result.format, _space(call)
    x, weight, bias = (call.tensor(name, format) for name in ("input", "weight", "bias"))
    y = call.emit(
        "ConvTranspose",
        batched(call, "input", space, x),
        weight,
        bias,
        strides=spatial(call, "stride"),
        pads=spatial(call, "padding") * 2,
        dilations=spatial(call, "dilation"),
        output_padding=spatial(call, "output_padding"),
        group=int(call["groups"]),
        formats=(format,),
    )
    return unbatched(call, "input", space, y)


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


@fused_conv.meaning
def _(run: Run, x: Tensor, w: Tensor, bias: Tensor | None = None, addend: Tensor | None = None) -> Tensor:
    y = run.apply("Conv", x, w, bias, version=NEWEST, **run.attributes)
    if addend is not None:
        y = y + addend
    name, numbers = run.attribute("activation", ""), run.attribute("activation_params") or []
    if not name:
        return y
    if name == "Clip":
        return run.apply("Clip", y, *(y.new_tensor(v) for v in numbers), version=NEWEST)
    return run.apply(name, y, version=NEWEST, **dict(zip(("alpha", "beta"), (float(v) for v in numbers))))


@operator("ConvTranspose", error=CORRECT, overflow=ACCUMULATION_OVERFLOW)
@any_batch
def conv_transpose(op: Call, x: Range, w: Range, bias: Range | None = None) -> Range:
    """Linear in the input and in the weights; each output sums the taps that land on it."""
    group = int(op.attribute("group", 1))
    windows = _transposed_windows(op, x.sizes[2:], w.sizes[2:], op.attribute("pads"))
    return _adjoint_windows(op, x, w, bias, windows, group)


@conv_transpose.meaning
def _(run: Run, x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    return _conv_transposed(run, x, w, bias, run.attribute("pads"))


@conv_transpose.aten("conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input")
def _(call: AtenCall) -> int:
    return _transposed_convolution(call)


@operator("ConvTransposeWithDynamicPads", domain="com.microsoft", error=CORRECT, overflow=ACCUMULATION_OVERFLOW)
@any_batch
def conv_transpose_with_dynamic_pads(op: Call, x: Range, w: Range, pads: Range | None = None, bias: Range | None = None) -> Range:
    """ConvTranspose with its pads as an input."""
    group = int(op.attribute("group", 1))
    windows = _transposed_windows(op, x.sizes[2:], w.sizes[2:], op.integers("pads", pads))
    return _adjoint_windows(op, x, w, bias, windows, group)


@conv_transpose_with_dynamic_pads.meaning
def _(run: Run, x: Tensor, w: Tensor, pads: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    return _conv_transposed(run, x, w, bias, run.integers("pads", pads))


def _conv_transposed(run: Run, x: Tensor, w: Tensor, bias: Tensor | None, pads: Sequence[int] | None) -> Tensor:
    """All that the taps reach, then the part of it that is asked for, with zeros where nothing lands."""
    windows = _transposed_windows(run, x.shape[2:], w.shape[2:], pads)
    strides, dilations = [window.stride for window in windows], [window.dilation for window in windows]
    convolve = by_rank(run, "conv_transpose", len(windows))

    def convolved(x: Tensor, w: Tensor) -> Tensor:
        return convolve(x, w, None, strides, 0, 0, int(run.attribute("group", 1)), dilations)

    full = _floating(run, convolved, x, w)
    ends = [(-window.pad, window.output + window.pad - size) for window, size in zip(windows, full.shape[2:])]
    return _with_bias(_extended(run, full, ends), bias)


def by_rank(run: Run, name: str, rank: int) -> Callable[..., Tensor]:
    """A function of torch that has one name for each number of spatial axes."""
    found = getattr(run.torch.nn.functional, f"{name}{rank}d", None)
    if found is None:
        raise NotExecutable(f"torch has no {name} of {rank} spatial axes")
    return found


def padded(run: Run, x: Tensor, windows: Sequence[Window], value: float = 0.0) -> Tensor:
    """(N, C, ...) with the padding of its windows: the first one begins, and the last one ends, where the tensor does."""
    ends = [(window.pad, window.reach - window.pad - window.size) for window in windows]
    return _extended(run, x, ends, value)


def _extended(run: Run, x: Tensor, ends: Sequence[tuple[int, int]], value: float = 0.0) -> Tensor:
    """The last axes of a tensor made longer at both ends, or shorter where a number is negative."""
    return run.torch.nn.functional.pad(x, [number for pair in reversed(ends) for number in pair], value=value)


def _floating(run: Run, function: Callable[[Tensor, Tensor], Tensor], x: Tensor, w: Tensor) -> Tensor:
    """A product of tensors as torch knows it for floating numbers only; float64 has room for integers."""
    if x.dtype.is_floating_point and x.dtype == w.dtype:
        return function(x, w)
    wide = run.torch.float64
    result = function(x.to(wide), w.to(wide))
    common = run.torch.promote_types(x.dtype, w.dtype)
    return result if common.is_floating_point else result.round().to(common)


def _with_bias(y: Tensor, bias: Tensor | None) -> Tensor:
    return y if bias is None else y + bias.reshape(-1, *(1,) * (y.ndim - 2))


def _transposed_windows(op: Attributed, sizes: Sequence[int], kernel: Sequence[int], pads: Sequence[int] | None) -> list[Window]:
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
    if by_summary(op, x, w) and channels_in == x.sizes[1] and channels_in % group == 0:
        assert w.array is not None
        taps = channels(w.array.reshape(group, channels_in // group, filters, *kernel), (1,))
        shape = (x.sizes[0], group * filters, *(window.output for window in windows))
        sums, special = summarised_windows(x, w, taps.reshaped((shape[1], *kernel)), windows, group)
        terms = channels_in // group * int(np.prod(kernel, dtype=np.int64))
        return from_summary(op, x, sums, special, shape, bias, None, terms)
    return weighted_windows(op, x, _adjoint_weights(w, group), bias, windows, group)


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
    grid = (every(shape[0]), every(shape[1]), *w.grid[2:])
    return moved(w, shape, grid, lambda a: np.swapaxes(a.reshape(split), 1, 2).reshape(joined))


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


@causal_conv_with_state.meaning
def _(run: Run, x: Tensor, w: Tensor, bias: Tensor | None = None, past: Tensor | None = None) -> tuple[Tensor, Tensor]:
    batch, channels, length = x.shape
    past = x.new_zeros(batch, channels, w.shape[2] - 1) if past is None else past
    positions = run.torch.cat((past, x), dim=2)
    y = run.apply("Conv", positions, w, bias, group=channels)
    activation = run.attribute("activation", "none")
    if activation in ("silu", "swish"):
        y = run.torch.nn.functional.silu(y)
    elif activation != "none":
        raise NotExecutable(f"activation {activation} is not known")
    return y, positions[:, :, length:]


@operator("Col2Im", error=CORRECT, overflow=ACCUMULATION_OVERFLOW, steered_by=(1, 2))
@any_batch
def col2im(op: Call, x: Range, image_shape: Range, block_shape: Range) -> Range:
    """The sum of the blocks that overlap at each position (ONNX Col2Im-18)."""
    if x.format.kind not in ("float", "int"):
        raise NotAnalysed(f"sums of {x.format} are not numbers")
    image, block = op.integers("image_shape", image_shape), op.integers("block_shape", block_shape)
    assert image is not None and block is not None
    windows = _block_windows(op, image, block)
    taps_per_block = int(np.prod(block, dtype=np.int64))
    channels = x.sizes[1] // taps_per_block
    if int(np.prod([w.size for w in windows], dtype=np.int64)) != x.sizes[2]:
        raise NotAnalysed("the number of blocks does not fit the image")
    shape = (x.sizes[0], channels, *image)
    if 0 in shape:
        return Range.uniform(shape, x.format, 0.0, 0.0)
    return _overlapping_blocks(op, x, windows, shape)


@col2im.meaning
def _(run: Run, x: Tensor, image_shape: Tensor, block_shape: Tensor) -> Tensor:
    image, block = run.integers("image_shape", image_shape), run.integers("block_shape", block_shape)
    assert image is not None and block is not None
    # The flat position of every tap (first axes) of every block (last axes), or one beyond all where it is outside.
    rank, total = len(image), int(np.prod(image, dtype=np.int64))
    place = np.zeros((1,) * (2 * rank), np.int64)
    outside = np.zeros((1,) * (2 * rank), np.bool_)
    for axis, window in enumerate(_block_windows(run, image, block)):
        taps, blocks = np.arange(window.kernel)[:, None] * window.dilation, np.arange(window.size) * window.stride
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = window.kernel, window.size
        position = (taps + blocks - window.pad).reshape(shape)
        place = place * window.output + position
        outside = outside | (position < 0) | (position >= window.output)
    index = run.torch.from_numpy(np.where(outside, total, place).reshape(-1))
    channels = x.shape[1] // int(np.prod(block, dtype=np.int64))
    sums = x.new_zeros(x.shape[0], channels, total + 1).index_add(2, index, x.reshape(x.shape[0], channels, -1))
    return sums[..., :total].reshape(x.shape[0], channels, *image)


@col2im.aten("col2im")
def _(call: AtenCall) -> int:
    """Blocks (N, C * taps, positions) added up; the batch axis may be missing."""
    format, rank = call.result.format, 2
    given = call.tensor("self", format)
    x = given if call.rank("self") == 3 else call.moved("Unsqueeze", given, call.constant(np.array([0], np.int64)))
    y = call.emit(
        "Col2Im",
        x,
        call.sizes("output_size"),
        call.sizes("kernel_size"),
        strides=spatial(call, "stride", rank),
        pads=spatial(call, "padding", rank) * 2,
        dilations=spatial(call, "dilation", rank),
        formats=(format,),
    )
    return y if call.rank("self") == 3 else call.moved("Squeeze", y, call.constant(np.array([0], np.int64)))


def _block_windows(op: Attributed, image: Sequence[int], block: Sequence[int]) -> list[Window]:
    """Where blocks lie in an image: along each axis their number, and the image as what they are added to."""
    rank = len(image)
    strides, dilations = op.attribute("strides") or [1] * rank, op.attribute("dilations") or [1] * rank
    pads = op.attribute("pads") or [0] * (2 * rank)
    windows: list[Window] = []
    for axis in range(rank):
        span = (block[axis] - 1) * dilations[axis] + 1
        positions = (image[axis] + pads[axis] + pads[rank + axis] - span) // strides[axis] + 1
        windows.append(Window(positions, block[axis], strides[axis], dilations[axis], pads[axis], image[axis], positions, True))
    return windows


def _overlapping_blocks(op: Call, x: Range, windows: Sequence[Window], shape: tuple[int, ...]) -> Range:
    """Sum over the taps of a block of what each of them puts at each position of the image."""
    if x.cells[1] > 1:
        x = x.refine_fully(1)
    if x.cells[2] > 1:
        fits = x.cells[0] * x.cells[1] * x.sizes[2] <= COLUMN_BUDGET
        x = x.refine_fully(2) if fits else x.smash((2,))
    by_element = x.cells[2] > 1
    low, high = finite(x)
    with_zero = bool(((low <= 0) & (high >= 0)).all())
    taps = [
        taps_on_cells(window, every(window.size))
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
    grid = (x.grid[0], None if x.cells[1] == 1 else every(shape[1]), *(tap.cuts for tap in taps))
    result = Range(x.format, shape, grid, low, high)
    if x.any_special:
        # A tap that reads nothing adds nothing; opposite infinities may meet wherever two taps do.
        made = NAN if overlap > 1 and x.any_special & INFINITIES == INFINITIES else 0
        result = result.with_special(x.any_special | made)
    report_sum(op, result, sums.magnitude + error)
    return result
