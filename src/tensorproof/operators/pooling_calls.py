"""Pools as TensorFlow and JAX call them: any layout, windows as attributes or operands, sums and minima beside maxima."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import INT64
from tensorproof.operators.arranging import Arranged, inverse_of, sizes_of
from tensorproof.operators.convolution import conv
from tensorproof.operators.convolution_calls import Steps, convolved
from tensorproof.operators.pooling import average_pool, max_pool
from tensorproof.operators.tensorflow_windows import Layout, Windows, flat, layout_of, operand_of, space_of

if TYPE_CHECKING:
    from tensorproof.frontends.jax_call import JaxCall
    from tensorproof.frontends.tensorflow_call import TensorflowCall


# -- in TensorFlow ----------------------------------------------------------------------------------------------------


def pooling_of(call: TensorflowCall, *, operand: int = 0, sizes_at: int = 1) -> tuple[Layout, Windows]:
    """The layout and the windows of a pool; newer ones take the windows as operands from `sizes_at` on."""
    layout = layout_of(call, 5 if "3D" in call.name else 4)
    if call.attribute("ksize") is None:
        kernel, strides = call.integers_of(sizes_at), call.integers_of(sizes_at + 1)
    else:
        kernel, strides = ([int(number) for number in call.attribute(name)] for name in ("ksize", "strides"))
    others = [axis for axis in range(layout.rank) if axis not in layout.space]
    if any(numbers[axis] != 1 for numbers in (kernel, strides) for axis in others):
        raise NotAnalysed(f"{call.name} over channels or the batch is not modelled")
    return layout, Windows.of(call, layout, layout.spatial(kernel), layout.spatial(strides))


@max_pool.tensorflow("MaxPool", "MaxPoolV2", "MaxPool3D")
def _(call: TensorflowCall) -> int:
    layout, windows = pooling_of(call)
    x = layout.enter(operand_of(call, 0)).number
    attributes = windows.attributes(space_of(call, layout, 0))
    return layout.leave(call, call.moved("MaxPool", x, kernel_shape=list(windows.kernel), **attributes))


@average_pool.tensorflow("AvgPool", "AvgPool3D")
def _(call: TensorflowCall) -> int:
    """The mean of what each window holds of the tensor: padding counts for nothing."""
    layout, windows = pooling_of(call)
    x = layout.enter(operand_of(call, 0)).number
    attributes = windows.attributes(space_of(call, layout, 0))
    return layout.leave(call, call.moved("AveragePool", x, kernel_shape=list(windows.kernel), count_include_pad=0, **attributes))


@max_pool.tensorflow("MaxPoolWithArgmax")
def _(call: TensorflowCall) -> tuple[int, int]:
    """Maxima and their places: TensorFlow counts (height, width, channel) of an image, or of the whole batch."""
    layout, windows = pooling_of(call)
    shape = call.shape(0)
    height, width, channels = sizes_of(None if shape is None else shape[1:], "images whose maxima are numbered")
    x = layout.enter(operand_of(call, 0)).number
    attributes = windows.attributes((height, width))
    formats = (call.format(), INT64)
    y, places = call.emit("MaxPool", x, kernel_shape=list(windows.kernel), outputs=2, formats=formats, **attributes)

    def part(op: str, number: int, divisor: int) -> int:
        return call.emit(op, number, call.constant(np.array(divisor, np.int64)), formats=(INT64,))

    def plus(first: int, second: int) -> int:
        return call.emit("Add", first, second, formats=(INT64,))

    # ONNX counts (batch, channel, height, width).
    in_plane = part("Mod", places, height * width)
    channel = part("Mod", part("Div", places, height * width), channels)
    place = plus(part("Mul", in_plane, channels), channel)
    if call.attribute("include_batch_in_index", False):
        image = part("Div", places, height * width * channels)
        place = plus(place, part("Mul", image, height * width * channels))
    return layout.leave(call, y), layout.leave(call, call.cast(place, call.format("Targmax")))


@max_pool.tensorflow("FractionalMaxPool", "FractionalAvgPool", "Dilation2D", "MaxPoolGradGrad", "MaxPoolGradGradV2")
def _(call: TensorflowCall) -> int:
    raise NotAnalysed(f"{call.name} is not modelled")


# -- in JAX -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Planes:
    """Windows over any axes of a tensor, which is seen as (others, others, space): `order` brings it there.

    Kernel, strides, dilations, paddings and `spread` (the distance of the tensor's own elements) are those of space.
    """

    order: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    spread: tuple[int, ...]

    @classmethod
    def of(cls, call: JaxCall, index: int) -> Planes:
        """From the parameters of a reduction over windows of an operand."""
        rank = len(call.shape(index))
        if not rank:
            raise NotAnalysed(f"{call.name} of a number is not modelled")
        lists: list[Sequence[Any]] = [call["window_dimensions"], call["window_strides"], [1] * rank, call["padding"], [1] * rank]
        # Gradients have no dilations.
        for position, name in ((2, "window_dilation"), (4, "base_dilation")):
            lists[position] = call.parameters.get(name) or lists[position]
        plain = (1, 1, 1, (0, 0), 1)
        space = [axis for axis in range(rank) if any(tuple_of(part[axis]) != tuple_of(p) for part, p in zip(lists, plain))]
        space = space or [rank - 1]
        others = [axis for axis in range(rank) if axis not in space]
        chosen = [tuple(part[axis] for axis in space) for part in lists]
        return cls((*others, *space), *chosen)

    @property
    def _others(self) -> int:
        return len(self.order) - len(self.kernel)

    def _merged(self, shape: Sequence[int]) -> list[int]:
        """The sizes of a tensor, in the new order, with two axes that are not space."""
        sizes = [shape[axis] for axis in self.order]
        others, space = sizes[: self._others], sizes[self._others :]
        return [math.prod(others[:-1]), others[-1] if others else 1, *space]

    def channels(self, shape: Sequence[int]) -> int:
        """The size of the second axis."""
        return self._merged(shape)[1]

    def enter(self, x: Arranged, shape: Sequence[int]) -> Arranged:
        """A tensor of this shape as (others, others, space)."""
        turned = x.transposed(self.order)
        return turned if self._others == 2 else turned.reshaped(self._merged(shape))

    def leave(self, y: Arranged, shape: Sequence[int]) -> Arranged:
        """(others, others, space) as a tensor of this shape."""
        apart = y if self._others == 2 else y.reshaped([shape[axis] for axis in self.order])
        return apart.transposed(inverse_of(self.order))

    def attributes(self, name: str) -> dict[str, Any]:
        """ONNX's attributes of a pool."""
        if any(distance != 1 for distance in self.spread) or any(number < 0 for number in flat(self.pads)):
            raise NotAnalysed(f"{name} of a tensor that is spread apart or cut off is not modelled")
        return {
            "kernel_shape": list(self.kernel),
            "strides": list(self.strides),
            "dilations": list(self.dilations),
            "pads": flat(self.pads),
        }


def tuple_of(item: Any) -> tuple[int, ...]:
    """A number or a pair as a tuple."""
    return tuple(int(number) for number in item) if isinstance(item, tuple | list) else (int(item),)


@max_pool.jax("reduce_window_max", "reduce_window_min")
def _(call: JaxCall) -> int:
    """The largest or the smallest element of each window; padding never wins."""
    planes = Planes.of(call, 0)
    format = call.result.format
    x = planes.enter(Arranged(call, call.operand(0)), call.shape(0)).number
    is_minimum = call.name == "reduce_window_min"
    if is_minimum and (format is None or not format.is_float):
        raise NotAnalysed("minima of windows of integers are not modelled")
    x = call.emit("Neg", x, formats=(format,)) if is_minimum else x
    y = call.moved("MaxPool", x, **planes.attributes(call.name))
    y = call.emit("Neg", y, formats=(format,)) if is_minimum else y
    return planes.leave(Arranged(call, y), call.result_shape).number


@conv.jax("reduce_window_sum")
def _(call: JaxCall) -> int:
    """The sum of each window: a convolution of every channel with ones."""
    planes = Planes.of(call, 0)
    format = call.result.format
    channels = planes.channels(call.shape(0))
    sizes = (channels, 1, *planes.kernel)
    if format is None:
        raise NotAnalysed("sums of tensors of a type that is not modelled")
    ones = Arranged(call, 0, np.ones(sizes, format.dtype))
    x = planes.enter(Arranged(call, call.operand(0)), call.shape(0))
    steps = Steps(planes.strides, planes.dilations, planes.spread)
    y = convolved(call, x, ones, sizes, steps, planes.pads, channels, format)
    return planes.leave(Arranged(call, y), call.result_shape).number


@max_pool.jax("reduce_window", "select_and_scatter", "select_and_gather_add")
def _(call: JaxCall) -> int:
    raise NotAnalysed(f"{call.name}: windows that are reduced by a function of the program are not modelled")
