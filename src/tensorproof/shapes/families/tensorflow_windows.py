"""Convolutions and pools of `tf.nn`: images with their channels last (or first), windows that end inside or are padded."""

from __future__ import annotations

from dataclasses import dataclass

from tensorproof.rules.shapes.convolution_channels import CONVOLUTION_CHANNELS
from tensorproof.rules.shapes.reshape_count import RESHAPE_COUNT
from tensorproof.rules.shapes.window_too_large import WINDOW_TOO_LARGE
from tensorproof.rules.shapes.wrong_rank import WRONG_RANK
from tensorproof.shapes.families.windows import extent
from tensorproof.shapes.rule_table import Call, Mismatch, NotKnown, as_sizes, as_tensor, shape_rule
from tensorproof.shapes.shape import Shape, meet, of_rank, same_shape
from tensorproof.shapes.sizes import Size, bounds, same, unknown
from tensorproof.shapes.values import Tensor, Value, as_size


@dataclass(frozen=True, slots=True)
class Layout:
    """Where an image has its channels."""

    axes: int
    channels_first: bool

    @staticmethod
    def of(data_format: Value, axes: int) -> Layout:
        return Layout(axes, isinstance(data_format, str) and data_format.startswith("NC") and data_format != "NCHW_VECT_C")

    def split(self, dims: tuple[Size, ...]) -> tuple[Size, tuple[Size, ...], Size]:
        """Batch, spatial sizes, channels."""
        return (dims[0], dims[2:], dims[1]) if self.channels_first else (dims[0], dims[1:-1], dims[-1])

    def join(self, batch: Size, spatial: tuple[Size, ...], channels: Size) -> Shape:
        return Shape((batch, channels, *spatial)) if self.channels_first else Shape((batch, *spatial, channels))

    def numbers(self, value: Value) -> tuple[Size, ...]:
        """One number for each spatial axis, from one number or a list with or without batch and channels."""
        single = as_size(value)
        if single is not None:
            return (single,) * self.axes
        sizes = as_sizes(value)
        if len(sizes) == 1:
            return sizes * self.axes
        if len(sizes) == self.axes:
            return sizes
        if len(sizes) != self.axes + 2:
            raise NotKnown
        return self.split(sizes)[1]


def slid(size: Size, window: Size, stride: Size, padding: Value) -> Size:
    """How many windows an axis has; windows that end inside may be none at all."""
    if padding == "SAME":
        return (size + stride - 1) // stride
    if padding != "VALID":
        return unknown(0)
    reach = size - window + stride
    if isinstance(reach, int) and isinstance(stride, int) and reach < 0:
        # TensorFlow's division cuts towards zero, and refuses what is below it.
        return -(-reach // stride)
    return reach // stride


def _any_images(axes: int) -> Shape:
    """A batch of images of any sizes; a window may have left none of them."""
    return Shape(tuple(unknown(0) for _ in range(axes + 2)))


def need_images(call: Call, input: Tensor, axes: int) -> Tensor:
    """The input as a batch of images; refuses one that certainly has another rank."""
    shape = meet(input.shape, _any_images(axes))
    if shape is None:
        message = f"{call.name} takes an input of {axes + 2} axes, but {input.shape} has {input.shape.rank or 'more'}"
        advice = "; expand_dims adds the axis of the channels" if input.shape.rank == axes + 1 else ""
        raise Mismatch(WRONG_RANK, message + advice, result=input.with_shape(of_rank(axes + 2)), tensors=(input,))
    return input.with_shape(shape)


def need_weights(call: Call, weights: Tensor, axes: int) -> tuple[Size, ...]:
    """The sizes of a filter: windows, channels in and out."""
    shape = meet(weights.shape, of_rank(axes + 2))
    if shape is None:
        message = f"{call.name} takes a filter of {axes + 2} axes (windows, channels in, channels out), not {weights.shape}"
        raise Mismatch(WRONG_RANK, message, tensors=(weights,))
    return shape.dims


def need_windows(call: Call, input: Tensor, sizes: tuple[Size, ...], windows: tuple[Size, ...], result: Tensor) -> None:
    """Refuse windows that reach beyond the input."""
    for size, window in zip(sizes, windows, strict=True):
        if bounds(size)[1] < 0:
            message = f"a window of {call.name} covers {window} elements, more than the input {input.shape} has"
            shape = result.shape.map(lambda found: unknown(0) if bounds(found)[1] < 0 else found)
            raise Mismatch(WINDOW_TOO_LARGE, message, result=result.with_shape(shape), tensors=(input,))


def _argument(name: str, value: Value, keywords: dict[str, Value]) -> Value:
    """An argument that the two versions of TensorFlow call by different names."""
    found = keywords.get(name, value)
    if found is None:
        raise NotKnown
    return found


def _layout(call: Call, options: tuple[Value, ...], keywords: dict[str, Value]) -> Layout:
    named = [option for option in options if isinstance(option, str)]
    return Layout.of(keywords.get("data_format", named[0] if named else None), _axes(call))


def _axes(call: Call) -> int:
    """The number before the `d` of a name; two where there is none."""
    digits = [letter for letter in call.name.rpartition(".")[2] if letter.isdigit()]
    return int(digits[0]) if digits else 2


def need_channels(input: Tensor, channels: Size, weights: Tensor, wanted: Size, filters: Size, result: Tensor) -> None:
    """The channels are those of the filter, or a multiple of them: as many groups."""
    groups = channels // wanted if isinstance(channels, int) and isinstance(wanted, int) and wanted else None
    whole = groups is None or (groups > 0 and channels % wanted == 0 and same(filters % groups, 0) is not False)
    if same(channels, wanted) is False and (bounds(wanted)[0] > bounds(channels)[1] or not whole):
        message = f"the filter {weights.shape} takes {wanted} channels, but the input {input.shape} has {channels}"
        raise Mismatch(CONVOLUTION_CHANNELS, message, result=result, tensors=(input, weights))


@shape_rule("tf.nn.conv1d", "tf.nn.conv2d", "tf.nn.conv3d")
def convolution(
    call: Call,
    input: Value = None,
    filters: Value = None,
    strides: Value = None,
    padding: Value = None,
    *options: Value,
    **keywords: Value,
) -> Tensor:
    """The filter has its windows first, then channels in and out."""
    data = as_tensor(_argument("value", input, keywords), "tf")
    weights = as_tensor(_argument("filter", filters, keywords), "tf")
    layout = _layout(call, options, keywords)
    steps = layout.numbers(_argument("stride", strides, keywords))
    if not isinstance(padding, str):
        raise NotKnown
    dims = need_weights(call, weights, layout.axes)
    before: tuple[Size, ...] = ()
    if not call.runs_on_tf1 and data.shape.rank is not None and data.shape.rank > layout.axes + 2:
        # Version 2 takes any number of axes for the batch.
        spare = data.shape.rank - layout.axes - 2
        before, data = data.shape.dims[:spare], data.with_shape(Shape(data.shape.dims[spare:]))
    images = need_images(call, data, layout.axes)
    batch, spatial, channels = layout.split(images.shape.dims)
    dilations = layout.numbers(keywords.get("dilations") or 1)
    windows = tuple(map(extent, dims[: layout.axes], dilations))
    sizes = tuple(slid(*row, padding) for row in zip(spatial, windows, steps, strict=True))
    result = data.with_shape(layout.join(batch, sizes, dims[-1]).preceded(*before))
    need_channels(data, channels, weights, dims[-2], dims[-1], result)
    need_windows(call, data, sizes, windows, result)
    return result


@shape_rule("tf.nn.atrous_conv2d")
def dilated_convolution(call: Call, value: Tensor, filters: Tensor, rate: Value, padding: str, name: Value = None) -> Tensor:
    """A convolution with gaps in its windows."""
    return convolution(call, value, filters, 1, padding, dilations=rate)


@shape_rule("tf.nn.depthwise_conv2d", "tf.nn.depthwise_conv2d_native")
def depthwise_convolution(
    call: Call, input: Tensor, filter: Tensor, strides: Value, padding: str, *options: Value, **keywords: Value
) -> Tensor:
    """Several results for each channel."""
    layout = _layout(call, options, keywords)
    images = need_images(call, input, 2)
    height, width, wanted, multiplier = need_weights(call, filter, 2)
    batch, spatial, channels = layout.split(images.shape.dims)
    windows = tuple(map(extent, (height, width), layout.numbers(keywords.get("dilations") or keywords.get("rate") or 1)))
    sizes = tuple(slid(*row, padding) for row in zip(spatial, windows, layout.numbers(strides), strict=True))
    result = input.with_shape(layout.join(batch, sizes, wanted * multiplier))
    if same(channels, wanted) is False:
        message = f"the filter {filter.shape} takes {wanted} channels, but the input {input.shape} has {channels}"
        raise Mismatch(CONVOLUTION_CHANNELS, message, result=result, tensors=(input, filter))
    need_windows(call, input, sizes, windows, result)
    return result


@shape_rule("tf.nn.separable_conv2d")
def separable_convolution(
    call: Call, input: Tensor, depthwise_filter: Tensor, pointwise_filter: Tensor, strides: Value, padding: str, *options: Value,
    **keywords: Value,
) -> Tensor:  # fmt: skip
    """A convolution of each channel, then one over all of them."""
    middle = depthwise_convolution(call, input, depthwise_filter, strides, padding, *options, **keywords)
    return convolution(
        call, middle, pointwise_filter, 1, "VALID", **{key: keywords[key] for key in ("data_format",) if key in keywords}
    )


@shape_rule("tf.nn.conv1d_transpose", "tf.nn.conv2d_transpose", "tf.nn.conv3d_transpose")
def transposed_convolution(
    call: Call,
    input: Value = None,
    filters: Value = None,
    output_shape: Value = None,
    strides: Value = None,
    padding: Value = "SAME",
    *options: Value,
    **keywords: Value,
) -> Tensor:
    """The result has the shape asked for, if a convolution of it gives that of the input. Filters have their channels out first."""
    data = as_tensor(_argument("value", input, keywords), "tf")
    weights = as_tensor(_argument("filter", filters, keywords), "tf")
    layout = _layout(call, options, keywords)
    images = need_images(call, data, layout.axes)
    dims = need_weights(call, weights, layout.axes)
    batch, spatial, channels = layout.split(images.shape.dims)
    steps = layout.numbers(_argument("strides", strides, keywords))
    wanted = as_sizes(_argument("output_shape", output_shape, keywords))
    if len(wanted) == layout.axes:
        wanted = layout.join(batch, wanted, dims[-2]).dims
    if len(wanted) != layout.axes + 2:
        raise Mismatch(WRONG_RANK, f"output_shape {Shape(wanted)} has to have {layout.axes + 2} sizes", tensors=(data,))
    result = data.with_shape(Shape(wanted))
    if same(channels, dims[-1]) is False or same(layout.split(wanted)[2], dims[-2]) is False:
        message = (
            f"the filter {weights.shape} makes {dims[-2]} channels of {dims[-1]}, but the input {data.shape} has {channels} "
            f"and the output {Shape(wanted)} {layout.split(wanted)[2]}"
        )
        raise Mismatch(CONVOLUTION_CHANNELS, message, result=result, tensors=(data, weights))
    whole_batch, whole, _ = layout.split(wanted)
    back = tuple(slid(*row, padding) for row in zip(whole, dims[: layout.axes], steps, strict=True))
    if same_shape(Shape((whole_batch, *back)), Shape((batch, *spatial))) is False:
        message = (
            f"a convolution of the output {Shape(wanted)} has the sizes {Shape((whole_batch, *back))}, not those of {data.shape}"
        )
        raise Mismatch(RESHAPE_COUNT, message, result=result, tensors=(data,))
    return result


# -- pools ------------------------------------------------------------------------------------------------------------

_POOLS = tuple(f"{kind}_pool{axes}" for kind in ("max", "avg") for axes in ("", "1d", "2d", "3d"))


@shape_rule(*(f"tf.nn.{name}" for name in _POOLS))
def pool(
    call: Call,
    input: Value = None,
    ksize: Value = None,
    strides: Value = None,
    padding: Value = None,
    *options: Value,
    **keywords: Value,
) -> Tensor:
    """One value for each window."""
    data = as_tensor(_argument("value", input, keywords), "tf")
    window, step = _argument("ksize", ksize, keywords), _argument("strides", strides, keywords)
    if not isinstance(padding, str):
        raise NotKnown
    layout = _layout(call, options, keywords)
    if call.name.endswith("pool") and not call.is_tf1 and data.shape.rank in (3, 5):
        layout = Layout(data.shape.rank - 2, layout.channels_first)
    images = need_images(call, data, layout.axes)
    batch, spatial, channels = layout.split(images.shape.dims)
    windows = layout.numbers(window)
    sizes = tuple(slid(*row, padding) for row in zip(spatial, windows, layout.numbers(step), strict=True))
    result = data.with_shape(layout.join(batch, sizes, channels))
    need_windows(call, data, sizes, windows, result)
    return result


# -- blocks of pixels -------------------------------------------------------------------------------------------------


@shape_rule("tf.nn.space_to_depth", "tf.space_to_depth", "tf.nn.depth_to_space", "tf.depth_to_space")
def blocks(call: Call, input: Tensor, block_size: int, data_format: Value = "NHWC", name: Value = None) -> Tensor:
    """Blocks of pixels as channels, or channels as blocks of pixels."""
    layout = Layout.of(data_format, 2)
    batch, spatial, channels = layout.split(need_images(call, input, 2).shape.dims)
    gathers = "space_to_depth" in call.name
    split = spatial if gathers else (channels,)
    divisor = block_size if gathers else block_size * block_size
    result = layout.join(
        batch,
        tuple(size // block_size if gathers else size * block_size for size in spatial),
        channels * block_size * block_size if gathers else channels // (block_size * block_size),
    )
    if any(same(size % divisor, 0) is False for size in split):
        message = f"{'pixels' if gathers else 'channels'} of {input.shape} cannot be divided by {divisor}"
        raise Mismatch(RESHAPE_COUNT, message, result=input.with_shape(result), tensors=(input,))
    return input.with_shape(result)
