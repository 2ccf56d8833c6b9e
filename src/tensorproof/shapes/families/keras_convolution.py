"""Convolutions of Keras: plain, depthwise, separable, transposed. The channels are those of the first call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorproof.rules.shapes.convolution_channels import CONVOLUTION_CHANNELS
from tensorproof.rules.shapes.window_too_large import WINDOW_TOO_LARGE
from tensorproof.shapes.families.keras_layers import Layer, activated, built_here, built_size, layer, layer_name
from tensorproof.shapes.families.keras_planes import join_planes, split_planes
from tensorproof.shapes.families.modules import origin
from tensorproof.shapes.families.windows import extent, per_axis
from tensorproof.shapes.rule_table import Call, Extent, Mismatch
from tensorproof.shapes.shape import Shape, of_rank
from tensorproof.shapes.sizes import Size, bounds, largest, same, unknown
from tensorproof.shapes.values import Tensor, Value


def slid(size: Size, window: Size, stride: Size, padding: Value) -> Size:
    """How many windows fit into an axis."""
    if padding == "valid":
        return (size - window) // stride + 1
    return (size + stride - 1) // stride if padding in ("same", "causal") else unknown(0)


def need_positive(
    call: Call, input: Tensor, spatial: tuple[Size, ...], windows: tuple[Size, ...], sizes: tuple[Size, ...], result: Tensor
) -> None:
    """Refuse a window that is certainly larger than its axis."""
    for size, window, count in zip(spatial, windows, sizes, strict=True):
        if bounds(count)[1] < 1:
            message = (
                f"the window of {layer_name(call)} covers {window} elements, but an axis of its input {input.shape} has only {size}"
            )
            shape = Shape(tuple(unknown() if bounds(dim)[1] < 1 else dim for dim in result.shape.dims))
            advice = "; are the channels first? Keras expects them last" if _channels_first(input) else ""
            raise Mismatch(
                WINDOW_TOO_LARGE, message + advice, result=result.with_shape(shape), tensors=(input,), related=origin(call)
            )


def _channels_first(input: Tensor) -> bool:
    dims = input.shape.head
    return len(dims) == 4 and dims[1] in (1, 3) and all(isinstance(size, int) and size > 3 for size in dims[2:])


def need_channels(call: Call, input: Tensor, channels: Size, result: Tensor) -> None:
    """Refuse another number of channels than that of the first call."""
    known = built_size(call, "_features", channels)
    if same(channels, known) is False:
        message = (
            f"{layer_name(call)} has weights for {known} channels since its first call, but its input {input.shape} has {channels}"
        )
        raise Mismatch(CONVOLUTION_CHANNELS, message, result=result, tensors=(input,), related=built_here(call, "_features"))


@dataclass(frozen=True, slots=True)
class Window:
    """What slides over the spatial axes."""

    axes: int
    kernel: tuple[Size, ...]
    strides: tuple[Size, ...]
    dilation: tuple[Size, ...]
    padding: Value
    data_format: Value

    @staticmethod
    def of(axes: int, kernel: Value, strides: Value, dilation: Value, padding: Value, data_format: Value) -> Window:
        return Window(axes, per_axis(kernel, axes), per_axis(strides, axes), per_axis(dilation, axes), padding, data_format)

    def check(self, call: Call) -> None:
        """A stride and a dilation exclude each other."""
        if all(any(bounds(number)[0] > 1 for number in numbers) for numbers in (self.strides, self.dilation)):
            raise Mismatch(WINDOW_TOO_LARGE, f"{layer_name(call)} cannot have both a stride and a dilation above 1")


def convolved(call: Call, inputs: Tensor, window: Window, filters: Size | None, multiplier: Size = 1) -> Tensor:
    """The result with `filters` channels, or with a multiple of those of the input."""
    batch, spatial, channels = split_planes(call, inputs, window.axes, window.data_format)
    windows = tuple(map(extent, window.kernel, window.dilation))
    sizes = tuple(slid(*row, window.padding) for row in zip(spatial, windows, window.strides, strict=True))
    outputs = channels * multiplier if filters is None else filters
    result = inputs.with_shape(join_planes(call, batch, sizes, outputs, window.data_format), dtype="f32")
    need_positive(call, inputs, spatial, windows, sizes, result)
    need_channels(call, inputs, channels, result)
    return result


def _is_legacy(fields: Mapping[str, Value]) -> bool:
    """Whether a layer is written for Keras 1, whose parameters meant other things."""
    return not fields.keys().isdisjoint(("border_mode", "subsample", "dim_ordering", "nb_filter", "nb_row"))


class Plain(Layer):
    """What `Conv1D`, `Conv2D` and `Conv3D` share."""

    axes = 0
    filters: Extent
    kernel_size: Value
    strides: Value = 1
    padding: Value = "valid"
    data_format: Value = None
    dilation_rate: Value = 1
    groups: Extent = 1
    activation: Value = None
    use_bias: Value = True

    def _window(self) -> Window:
        return Window.of(self.axes, self.kernel_size, self.strides, self.dilation_rate, self.padding, self.data_format)

    def setup(self, call: Call) -> Value:
        self._window().check(call)
        if isinstance(self.filters, int) and isinstance(self.groups, int) and (self.groups <= 0 or self.filters % self.groups):
            raise Mismatch(CONVOLUTION_CHANNELS, f"{self.filters} filters cannot be divided into {self.groups} groups")
        return None

    def __call__(self, call: Call, inputs: Tensor, **options: Value) -> Tensor:
        if _is_legacy(self.__dict__) or (layer_name(call) == "Convolution2D" and self.strides == self.kernel_size != 1):
            # Keras 1 took the height and the width of the kernel as two arguments.
            return inputs.with_shape(of_rank(self.axes + 2))
        result = convolved(call, inputs, self._window(), self.filters)
        _, _, channels = split_planes(call, inputs, self.axes, self.data_format)
        if isinstance(channels, int) and isinstance(self.groups, int) and self.groups > 0 and channels % self.groups:
            message = f"the {channels} channels of {inputs.shape} cannot be divided into {self.groups} groups"
            raise Mismatch(CONVOLUTION_CHANNELS, message, result=result, tensors=(inputs,), related=origin(call))
        return activated(call, self.activation, result)


@layer("Conv1D", "Convolution1D")
class Conv1D(Plain):
    """`Conv1D`."""

    axes = 1


@layer("Conv2D", "Convolution2D")
class Conv2D(Plain):
    """`Conv2D`."""

    axes = 2


@layer("Conv3D", "Convolution3D")
class Conv3D(Plain):
    """`Conv3D`."""

    axes = 3


class Depthwise(Layer):
    """What `DepthwiseConv1D` and `DepthwiseConv2D` share."""

    axes = 0
    kernel_size: Value
    strides: Value = 1
    padding: Value = "valid"
    depth_multiplier: Extent = 1
    data_format: Value = None
    dilation_rate: Value = 1
    activation: Value = None
    use_bias: Value = True

    def _window(self) -> Window:
        return Window.of(self.axes, self.kernel_size, self.strides, self.dilation_rate, self.padding, self.data_format)

    def setup(self, call: Call) -> Value:
        self._window().check(call)
        return None

    def __call__(self, call: Call, inputs: Tensor, **options: Value) -> Tensor:
        return activated(call, self.activation, convolved(call, inputs, self._window(), None, self.depth_multiplier))


@layer("DepthwiseConv1D")
class DepthwiseConv1D(Depthwise):
    """`DepthwiseConv1D`."""

    axes = 1


@layer("DepthwiseConv2D")
class DepthwiseConv2D(Depthwise):
    """`DepthwiseConv2D`."""

    axes = 2


class Separable(Layer):
    """What `SeparableConv1D` and `SeparableConv2D` share."""

    axes = 0
    filters: Extent
    kernel_size: Value
    strides: Value = 1
    padding: Value = "valid"
    data_format: Value = None
    dilation_rate: Value = 1
    depth_multiplier: Extent = 1
    activation: Value = None
    use_bias: Value = True

    def _window(self) -> Window:
        return Window.of(self.axes, self.kernel_size, self.strides, self.dilation_rate, self.padding, self.data_format)

    def setup(self, call: Call) -> Value:
        self._window().check(call)
        return None

    def __call__(self, call: Call, inputs: Tensor, **options: Value) -> Tensor:
        return activated(call, self.activation, convolved(call, inputs, self._window(), self.filters))


@layer("SeparableConv1D", "SeparableConvolution1D")
class SeparableConv1D(Separable):
    """`SeparableConv1D`."""

    axes = 1


@layer("SeparableConv2D", "SeparableConvolution2D")
class SeparableConv2D(Separable):
    """`SeparableConv2D`."""

    axes = 2


class TransposedConvolution(Layer):
    """What `Conv1DTranspose` and `Conv2DTranspose` share."""

    axes = 0
    filters: Extent
    kernel_size: Value
    strides: Value = 1
    padding: Value = "valid"
    output_padding: Value = None
    data_format: Value = None
    dilation_rate: Value = 1
    activation: Value = None
    use_bias: Value = True

    def setup(self, call: Call) -> Value:
        strides = per_axis(self.strides, self.axes)
        if any(bounds(n)[0] > 1 for n in strides) and any(bounds(n)[0] > 1 for n in per_axis(self.dilation_rate, self.axes)):
            raise Mismatch(WINDOW_TOO_LARGE, f"{layer_name(call)} cannot have both a stride and a dilation above 1")
        if self.output_padding is not None:
            for added, stride in zip(per_axis(self.output_padding, self.axes), strides, strict=True):
                if isinstance(added, int) and isinstance(stride, int) and added >= stride:
                    raise Mismatch(WINDOW_TOO_LARGE, f"output_padding {added} has to be smaller than the stride {stride}")
        return None

    def __call__(self, call: Call, inputs: Tensor, **options: Value) -> Tensor:
        batch, spatial, channels = split_planes(call, inputs, self.axes, self.data_format)
        windows = tuple(map(extent, per_axis(self.kernel_size, self.axes), per_axis(self.dilation_rate, self.axes)))
        added = (None,) * self.axes if self.output_padding is None else per_axis(self.output_padding, self.axes)
        rows = zip(spatial, windows, per_axis(self.strides, self.axes), added, strict=True)
        sizes = tuple(_enlarged(*row, self.padding) for row in rows)
        result = inputs.with_shape(join_planes(call, batch, sizes, self.filters, self.data_format), dtype="f32")
        need_channels(call, inputs, channels, result)
        return activated(call, self.activation, result)


def _enlarged(size: Size, window: Size, stride: Size, added: Size | None, padding: Value) -> Size:
    """The size from which a convolution comes to `size`, as Keras chooses among several."""
    if padding == "same":
        return size * stride if added is None else (size - 1) * stride + window % 2 + added
    if padding != "valid":
        return unknown()
    return (size - 1) * stride + (largest([window, stride]) if added is None else window + added)


@layer("Conv1DTranspose", "Convolution1DTranspose")
class Conv1DTranspose(TransposedConvolution):
    """`Conv1DTranspose`."""

    axes = 1


@layer("Conv2DTranspose", "Convolution2DTranspose")
class Conv2DTranspose(TransposedConvolution):
    """`Conv2DTranspose`."""

    axes = 2


class TransposedVolume(Layer):
    """The constructor of `Conv3DTranspose`: the data format comes before the output padding."""

    filters: Extent
    kernel_size: Value
    strides: Value = 1
    padding: Value = "valid"
    data_format: Value = None
    output_padding: Value = None


@layer("Conv3DTranspose", "Convolution3DTranspose")
class Conv3DTranspose(TransposedConvolution, TransposedVolume):
    """`Conv3DTranspose`."""

    axes = 3
