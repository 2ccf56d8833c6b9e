"""Convolutions as TensorFlow and JAX call them, and their gradients, which are convolutions again.

The gradient by the operand is a transposed convolution of the gradient of the result. That by the kernel is a convolution of the
operand with the gradient of the result as its kernel, the batch as its channels, and strides and dilations exchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tensorproof.errors import NotAnalysed
from tensorproof.formats import Format
from tensorproof.operators.arranging import Arranged, inverse_of, sizes_of
from tensorproof.operators.convolution import conv, conv_transpose
from tensorproof.operators.tensorflow_windows import Layout, Windows, flat, layout_of, operand_of, space_of

if TYPE_CHECKING:
    from tensorproof.frontends.calls import OperatorCall
    from tensorproof.frontends.jax_call import JaxCall
    from tensorproof.frontends.tensorflow_call import TensorflowCall

Pads = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Steps:
    """How a convolution walks: one number for each axis of space; `spread` is the distance of the operand's own elements."""

    strides: Sequence[int]
    dilations: Sequence[int]
    spread: Sequence[int]


def convolved(
    call: OperatorCall, x: Arranged, w: Arranged, sizes: Sequence[int], steps: Steps, pads: Pads, group: int, format: Format | None
) -> int:
    """x (N, C, space) with w of the sizes (M, C / group, kernel), without the flip that a convolution in mathematics has.

    An operand whose elements stand apart (`spread`) is convolved by the transposed convolution, whose kernel is flipped.
    """
    kernel = sizes[2:]
    axes = list(range(2, len(sizes)))
    if all(distance == 1 for distance in steps.spread):
        return _walked(call, x, w, steps.strides, steps.dilations, pads, group, format)
    taken_off = [(reach - begin, reach - end) for reach, (begin, end) in zip(_reach(kernel, steps.dilations), pads, strict=True)]
    turned = _of_transposed(w, sizes, group).flipped(axes)
    full = _spread(call, x, turned, steps.spread, steps.dilations, taken_off, group, format)
    return Arranged(call, full).cut([0] * len(axes), [0] * len(axes), axes, steps.strides).number


def _reach(kernel: Sequence[int], dilations: Sequence[int]) -> list[int]:
    """How far the last tap stands from the first, along each axis."""
    return [(size - 1) * dilation for size, dilation in zip(kernel, dilations, strict=True)]


def _walked(
    call: OperatorCall,
    x: Arranged,
    w: Arranged,
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Pads,
    group: int,
    format: Format | None,
) -> int:
    """A convolution; where a padding is negative, elements are left out."""
    x = x.cut([max(0, -begin) for begin, _ in pads], [max(0, -end) for _, end in pads], list(range(2, 2 + len(pads))))
    return call.emit(
        "Conv",
        x.number,
        w.number,
        strides=list(strides),
        dilations=list(dilations),
        pads=[max(0, pad) for pad in flat(pads)],
        group=group,
        formats=(format,),
    )


def _of_transposed(w: Arranged, sizes: Sequence[int], group: int) -> Arranged:
    """Weights (M, C / group, kernel) as those of a transposed convolution: (C, M / group, kernel)."""
    filters, channels, *kernel = sizes
    space = list(range(2, len(sizes)))
    if group == 1:
        return w.transposed([1, 0, *space])
    apart = w.reshaped([group, filters // group, channels, *kernel])
    return apart.transposed([0, 2, 1, *(axis + 1 for axis in space)]).reshaped([group * channels, filters // group, *kernel])


def _spread(
    call: OperatorCall,
    x: Arranged,
    w: Arranged,
    strides: Sequence[int],
    dilations: Sequence[int],
    taken_off: Pads,
    group: int,
    format: Format | None,
) -> int:
    """A transposed convolution with elements taken off at its ends, or zeros added where the number is negative."""
    y = call.emit(
        "ConvTranspose",
        x.number,
        w.number,
        strides=list(strides),
        dilations=list(dilations),
        pads=[max(0, number) for number in flat(taken_off)],
        group=group,
        formats=(format,),
    )
    if all(number >= 0 for number in flat(taken_off)):
        return y
    added = [0, 0, *(max(0, -begin) for begin, _ in taken_off), 0, 0, *(max(0, -end) for _, end in taken_off)]
    return call.moved("Pad", y, call.integers(added))


# -- in TensorFlow ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Kernel:
    """A kernel of TensorFlow's: its sizes along space, and its channels per group."""

    space: tuple[int, ...]
    channels: int | None
    #: How many groups a depthwise convolution has: one for each channel of its operand.
    depth: int | None = None

    @classmethod
    def of(cls, sizes: Sequence[Any], name: str) -> _Kernel:
        """From (space, channels per group, filters), or of depthwise convolutions (space, channels, filters per channel)."""
        *space, channels, _ = sizes
        if not name.startswith("Depthwise"):
            return cls(sizes_of(space, "the kernel"), channels if isinstance(channels, int) else None)
        (depth,) = sizes_of([channels], "the channels of a depthwise convolution")
        return cls(sizes_of(space, "the kernel"), 1, depth)

    def arranged(self, w: Arranged) -> Arranged:
        """The kernel as (filters, channels per group, space)."""
        rank = len(self.space) + 2
        if self.depth is not None:
            return w.transposed([rank - 2, rank - 1, *range(rank - 2)]).reshaped([-1, 1, *self.space])
        return w.transposed([rank - 1, rank - 2, *range(rank - 2)])

    def restored(self, w: Arranged, channels: int) -> Arranged:
        """(filters, channels per group, space) as TensorFlow has it."""
        rank = len(self.space) + 2
        if self.depth is not None:
            return w.reshaped([channels, -1, *self.space]).transposed([*range(2, rank), 0, 1])
        return w.transposed([*range(2, rank), 1, 0])

    def groups(self, channels: Any) -> int:
        """In how many groups an operand of so many channels falls."""
        if self.depth is not None:
            return self.depth
        if not isinstance(channels, int) or not self.channels:
            return 1
        return channels // self.channels


def _windows(call: TensorflowCall, layout: Layout, kernel: _Kernel) -> Windows:
    strides = [int(number) for number in call.attribute("strides")]
    dilations = [int(number) for number in call.attribute("dilations") or ()]
    # The generic convolution has numbers for space alone.
    strides = strides if len(strides) == len(kernel.space) else layout.spatial(strides)
    dilations = dilations if len(dilations) in (0, len(kernel.space)) else layout.spatial(dilations)
    return Windows.of(call, layout, kernel.space, strides, dilations)


def _shape(call: TensorflowCall, index: int) -> Sequence[Any]:
    shape = call.shape(index)
    if shape is None:
        raise NotAnalysed(f"the shape of operand {index} of {call.name} is not known")
    return shape


@conv.tensorflow("Conv2D", "Conv3D", "Conv", "DepthwiseConv2dNative")
def _(call: TensorflowCall) -> int:
    if call.attribute("batch_dims", 1) != 1:
        raise NotAnalysed("a convolution over several axes of a batch is not modelled")
    kernel = _Kernel.of(_shape(call, 1), call.name)
    layout = layout_of(call, len(kernel.space) + 2)
    windows = _windows(call, layout, kernel)
    shape = call.shape(0) or (None,) * layout.rank
    y = call.emit(
        "Conv",
        layout.enter(operand_of(call, 0)).number,
        kernel.arranged(operand_of(call, 1)).number,
        **windows.attributes(space_of(call, layout, 0)),
        dilations=list(windows.dilations),
        group=kernel.groups(shape[layout.channel]),
        formats=(call.format(),),
    )
    return layout.leave(call, y)


@conv_transpose.tensorflow("Conv2DBackpropInput", "Conv3DBackpropInputV2", "DepthwiseConv2dNativeBackpropInput")
def _(call: TensorflowCall) -> int:
    """The gradient by the operand, which is also how networks enlarge images: its size is an operand of its own."""
    kernel = _Kernel.of(_shape(call, 1), call.name)
    layout = layout_of(call, len(kernel.space) + 2)
    windows = _windows(call, layout, kernel)
    wanted = call.sizes_of(0)
    if len(wanted) == len(kernel.space):
        space, channels = wanted, None
    elif len(wanted) == layout.rank:
        space, channels = layout.spatial(wanted), wanted[layout.channel]
    else:
        raise NotAnalysed(f"{call.name} has a size of {len(wanted)} axes")
    space = sizes_of(space, "the result of a transposed convolution")
    taken_off = _taken_off(windows, space, space_of(call, layout, 2), call.name)
    group = kernel.groups(channels)
    y = _spread(
        call,
        layout.enter(operand_of(call, 2)),
        kernel.arranged(operand_of(call, 1)),
        windows.strides,
        windows.dilations,
        taken_off,
        group,
        call.format(),
    )
    return layout.leave(call, y)


def _taken_off(windows: Windows, sizes: Sequence[int], outputs: Sequence[Any], name: str) -> list[tuple[int, int]]:
    """What is taken off at both ends of all that the taps reach, so that the size is the wanted one."""
    pads = windows.known_pads(sizes, name)
    found: list[tuple[int, int]] = []
    expected = windows.outputs(sizes, name)
    reaches = _reach(windows.kernel, windows.dilations)
    for size, (begin, _), stride, reach, given, count in zip(sizes, pads, windows.strides, reaches, outputs, expected, strict=True):
        positions = given if isinstance(given, int) else count
        found.append((begin, stride * (positions - 1) + reach + 1 - begin - size))
    return found


@conv.tensorflow("Conv2DBackpropFilter", "Conv3DBackpropFilterV2", "DepthwiseConv2dNativeBackpropFilter")
def _(call: TensorflowCall) -> int:
    """The gradient by the kernel. Sizes have to be known, all but that of the batch, which is summed over."""
    kernel = _Kernel.of(call.sizes_of(1), call.name)
    layout = layout_of(call, len(kernel.space) + 2)
    windows = _windows(call, layout, kernel)
    shape, what = _shape(call, 0), "the operand of a convolution in training"
    channels, *space = sizes_of([shape[layout.channel], *layout.spatial(shape)], what)
    group = kernel.groups(channels)
    pads = windows.known_pads(space, call.name)
    outputs = windows.outputs(space, call.name)
    x = layout.enter(operand_of(call, 0))
    gradient = layout.enter(operand_of(call, 2)).transposed([1, 0, *range(2, layout.rank)])
    made = _by_kernel(call, x, gradient, (channels, *space), outputs, windows, pads, group, call.format())
    return kernel.restored(Arranged(call, made), channels).number


def _by_kernel(
    call: OperatorCall,
    x: Arranged,
    gradient: Arranged,
    sizes: Sequence[int],
    outputs: Sequence[int],
    windows: Windows,
    pads: Pads,
    group: int,
    format: Format | None,
) -> int:
    """The gradient (M, C / group, kernel) by a kernel, from x (N, C, space) and the result's gradient as (M, N, space).

    `sizes` are those of x without its batch.
    """
    channels, *space = sizes
    rank = len(space) + 2
    if group > 1:
        # Each group of channels meets the gradients of its own filters.
        apart = x.reshaped([-1, group, channels // group, *space]).transposed([2, 1, 0, *range(3, rank + 1)])
        x = apart.reshaped([channels // group, -1, *space])
    else:
        x = x.transposed([1, 0, *range(2, rank)])
    parts = zip(space, pads, windows.kernel, outputs, windows.strides, windows.dilations, strict=True)
    # As many elements behind as the taps of the last output reach.
    exact = [
        (pad[0], (size - 1) * dilation + (count - 1) * stride + 1 - length - pad[0])
        for length, pad, size, count, stride, dilation in parts
    ]
    y = _walked(call, x, gradient, windows.dilations, windows.strides, exact, group, format)
    return Arranged(call, y).transposed([1, 0, *range(2, rank)]).number


# -- in JAX -----------------------------------------------------------------------------------------------------------


@conv.jax("conv_general_dilated")
def _(call: JaxCall) -> int:
    """Any layout; operands spread apart (transposed convolutions); groups of channels or, in gradients, of the batch."""
    of_x, of_w, of_y = call["dimension_numbers"]
    format = call.result.format
    shape_x, shape_w = call.shape(0), call.shape(1)
    x = Arranged(call, call.operand(0, format)).transposed(of_x)
    w = arranged_operand(call, 1, format).transposed(of_w)
    sizes = [shape_x[axis] for axis in of_x]
    sizes_of_kernel = [shape_w[axis] for axis in of_w]
    if len(sizes_of_kernel) == 2:
        raise NotAnalysed("a convolution without axes of space is not modelled")
    group, batches = int(call["feature_group_count"]), int(call["batch_group_count"])
    if batches > 1:
        # The groups of the batch side by side as groups of channels.
        batch, channels, *space = sizes
        apart = x.reshaped([batches, batch // batches, channels, *space]).transposed([1, 0, *range(2, len(sizes) + 1)])
        x, group = apart.reshaped([batch // batches, batches * channels, *space]), batches
    steps = Steps(call["window_strides"], call["rhs_dilation"], call["lhs_dilation"])
    y = convolved(call, x, w, sizes_of_kernel, steps, call["padding"], group, format)
    return Arranged(call, y).transposed(inverse_of(of_y)).number


def arranged_operand(call: JaxCall, index: int, format: Format | None) -> Arranged:
    """An operand that is rearranged: as an array where the program itself holds its numbers."""
    if call.handle(index).format is not format:
        return Arranged(call, call.operand(index, format))
    try:
        return Arranged(call, call.operand(index), call.known(index))
    except NotAnalysed:
        return Arranged(call, call.operand(index))
