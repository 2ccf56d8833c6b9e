"""Gradients of pools, as operators of their own in TensorFlow and JAX."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from tensorproof.errors import UnknownShape
from tensorproof.frontends.calls import OWN
from tensorproof.operators.arranging import Arranged, sizes_of
from tensorproof.operators.convolution import conv_transpose
from tensorproof.operators.pooling import largest_of_windows, pooling_windows
from tensorproof.operators.pooling_calls import Planes, pooling_of
from tensorproof.operators.table import CORRECT, Call, operator
from tensorproof.operators.tensorflow_windows import flat, operand_of, space_of
from tensorproof.ranges.range import Range
from tensorproof.ranges.weighted_windows import weighted_windows
from tensorproof.ranges.windows import Window, any_batch
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.jax_call import JaxCall
    from tensorproof.frontends.tensorflow_call import TensorflowCall


@operator(
    "MaxPoolGradient",
    domain=OWN,
    error=CORRECT,
    overflow=ACCUMULATION_OVERFLOW,
    coarse="which element of a window is its maximum is not followed",
)
@any_batch
def max_pool_gradient(op: Call, gradient: Range, x: Range) -> Range:
    """Each window's gradient goes to its largest element: a sum of some of the gradients of the windows that hold an element."""
    space = [size for size in (x.shape or ())[2:] if isinstance(size, int)]
    if x.shape is None or len(space) != len(x.shape) - 2:
        raise UnknownShape("the size of what was pooled depends on the data")
    windows = [
        Window(
            window.output, window.kernel, window.stride, window.dilation, window.pad, window.size, window.output, transposed=True
        )
        for window in pooling_windows(op, space)
    ]
    channels = gradient.sizes[1]
    shares = Range.uniform((channels, 1, *(window.kernel for window in windows)), gradient.format, 0.0, 1.0)
    return weighted_windows(op, gradient, shares, None, windows, channels)


@max_pool_gradient.meaning
def _(run: Run, gradient: Tensor, x: Tensor) -> Tensor:
    windows = pooling_windows(run, x.shape[2:])
    _, places = largest_of_windows(run, x, windows)
    reached = [window.reach for window in windows]
    planes = gradient.new_zeros(*x.shape[:2], math.prod(reached))
    sums = planes.scatter_add(2, places.flatten(2), gradient.flatten(2)).unflatten(2, reached)
    ends = [(-window.pad, window.size + window.pad - window.reach) for window in windows]
    return run.torch.nn.functional.pad(sums, [number for pair in reversed(ends) for number in pair])


# -- in TensorFlow ----------------------------------------------------------------------------------------------------


@max_pool_gradient.tensorflow("MaxPoolGrad", "MaxPoolGradV2", "MaxPool3DGrad")
def _(call: TensorflowCall) -> int:
    """The gradient by what was pooled; its maxima are an operand, too, which says nothing new."""
    layout, windows = pooling_of(call, sizes_at=3)
    y = call.own(
        "MaxPoolGradient",
        layout.enter(operand_of(call, 2)).number,
        layout.enter(operand_of(call, 0)).number,
        kernel_shape=list(windows.kernel),
        **windows.attributes(space_of(call, layout, 0)),
        formats=(call.format(),),
    )
    return layout.leave(call, y)


@max_pool_gradient.tensorflow("MaxPoolGradWithArgmax")
def _(call: TensorflowCall) -> int:
    """The same with the places of the maxima, which are those that the operand has."""
    layout, windows = pooling_of(call)
    y = call.own(
        "MaxPoolGradient",
        layout.enter(operand_of(call, 1)).number,
        layout.enter(operand_of(call, 0)).number,
        kernel_shape=list(windows.kernel),
        **windows.attributes(space_of(call, layout, 0)),
        formats=(call.format(),),
    )
    return layout.leave(call, y)


@conv_transpose.tensorflow("AvgPoolGrad", "AvgPool3DGrad")
def _(call: TensorflowCall) -> int:
    """Each element gets an equal share of the gradients of the windows that hold it; padding counts for nothing."""
    layout, windows = pooling_of(call, operand=1)
    format = call.format()
    wanted = call.sizes_of(0)
    space = sizes_of(layout.spatial(wanted), "what was pooled")
    (channels,) = sizes_of([wanted[layout.channel]], "channels")
    pads, outputs = windows.known_pads(space, call.name), windows.outputs(space, call.name)
    counts = np.ones((1, 1))
    parts = zip(space, pads, windows.kernel, windows.strides, outputs, strict=True)
    for size, (begin, _), kernel, stride, count in parts:
        first = np.arange(count) * stride - begin
        counts = np.multiply.outer(counts, np.minimum(first + kernel, size) - np.maximum(first, 0))
    shares = call.emit("Mul", layout.enter(operand_of(call, 1)).number, call.constant(1.0 / counts, format), formats=(format,))
    # The ends of what the windows reach, which padding or a remainder takes off.
    reach = zip(space, pads, windows.kernel, windows.strides, outputs, strict=True)
    ends = [(begin, stride * (count - 1) + kernel - begin - size) for size, (begin, _), kernel, stride, count in reach]
    y = call.emit(
        "ConvTranspose",
        shares,
        call.constant(np.ones((channels, 1, *windows.kernel)), format),
        strides=list(windows.strides),
        pads=[max(0, number) for number in flat(ends)],
        group=channels,
        formats=(format,),
    )
    if any(number < 0 for number in flat(ends)):
        added = [0, 0, *(max(0, -begin) for begin, _ in ends), 0, 0, *(max(0, -end) for _, end in ends)]
        y = call.moved("Pad", y, call.integers(added))
    return layout.leave(call, y)


# -- in JAX -----------------------------------------------------------------------------------------------------------


@max_pool_gradient.jax("select_and_scatter_add")
def _(call: JaxCall) -> int:
    """The gradient of a pool of maxima (`ge`) or of minima (`le`); operands are the gradient and what was pooled."""
    choice = str(call["select_prim"])
    planes = Planes.of(call, 1)
    gradient = planes.enter(Arranged(call, call.operand(0)), call.shape(0)).number
    x = planes.enter(Arranged(call, call.operand(1)), call.shape(1)).number
    if "ge" not in choice:
        x = call.emit("Neg", x, formats=(call.handle(1).format,))
    y = call.own("MaxPoolGradient", gradient, x, formats=(call.result.format,), **planes.attributes(call.name))
    return planes.leave(Arranged(call, y), call.result_shape).number
