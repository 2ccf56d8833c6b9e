"""Convolutions and pools of `tf.nn`."""

from __future__ import annotations

from tests.shape_cases import Draw, cases


def _padding(draw: Draw) -> str:
    return draw.pick(["'SAME'", "'VALID'"])


def _image(draw: Draw, axes: int, channels: int, high: int = 7) -> tuple[int, ...]:
    return (draw.integer(1, 2), *(draw.integer(1, high) for _ in range(axes)), channels)


@cases("tf.nn.conv1d", "tf.nn.conv2d", "tf.nn.conv3d")
def _(draw: Draw) -> str:
    axes = int(draw.short[4])
    channels = draw.integer(2, 4)
    # A single channel would be that of a grouped convolution, which depends on the device.
    wanted = channels if draw.chance(0.8) else draw.pick([5, 7])
    image = draw.array(draw.varied(_image(draw, axes, channels), 0.1))
    weights = draw.array((*(draw.integer(1, 3) for _ in range(axes)), wanted, draw.integer(1, 3)))
    stride = draw.integer(1, 3)
    strides = str(stride) if axes == 1 else str([1, *([stride] * axes), 1])
    if axes == 2 and draw.chance(0.3):
        strides = str(stride)
    return f"{draw.name}({image}, {weights}, {strides}, {_padding(draw)})"


@cases("tf.nn.atrous_conv2d")
def _(draw: Draw) -> str:
    channels = draw.integer(2, 4)
    image = draw.array(_image(draw, 2, channels))
    weights = draw.array((draw.integer(1, 2), draw.integer(1, 2), channels if draw.chance(0.8) else 5, 2))
    return f"{draw.name}({image}, {weights}, {draw.integer(1, 2)}, {_padding(draw)})"


@cases("tf.nn.depthwise_conv2d")
def _(draw: Draw) -> str:
    channels = draw.integer(1, 4)
    image = draw.array(draw.varied(_image(draw, 2, channels), 0.1))
    weights = draw.array((draw.integer(1, 3), draw.integer(1, 3), channels if draw.chance(0.75) else 5, draw.integer(1, 2)))
    stride = draw.integer(1, 2)
    return f"{draw.name}({image}, {weights}, [1, {stride}, {stride}, 1], {_padding(draw)})"


@cases("tf.nn.separable_conv2d")
def _(draw: Draw) -> str:
    channels, times = draw.integer(2, 3), draw.integer(1, 2)
    image = draw.array(_image(draw, 2, channels))
    depth = draw.array((draw.integer(1, 3), draw.integer(1, 3), channels if draw.chance(0.85) else 5, times))
    point = draw.array((1, 1, channels * times if draw.chance(0.85) else 7, draw.integer(1, 3)))
    return f"{draw.name}({image}, {depth}, {point}, [1, 1, 1, 1], {_padding(draw)})"


@cases("tf.nn.conv2d_transpose", "tf.nn.conv1d_transpose", "tf.nn.conv3d_transpose")
def _(draw: Draw) -> str:
    axes = int(draw.short[4])
    channels, filters, batch = draw.integer(1, 3), draw.integer(1, 3), draw.integer(1, 2)
    stride, window = draw.integer(1, 2), draw.integer(1, 3)
    sizes = [draw.integer(1, 4) for _ in range(axes)]
    padding = _padding(draw)
    larger = [size * stride if "SAME" in padding else (size - 1) * stride + window for size in sizes]
    image = draw.array((batch, *sizes, channels))
    weights = draw.array((*([window] * axes), filters, channels if draw.chance(0.85) else channels + 1))
    output = [batch, *larger, filters if draw.chance(0.85) else filters + 1]
    if draw.chance(0.2):
        output[1] += draw.integer(1, 3)
    return f"{draw.name}({image}, {weights}, {output}, {stride}, {padding})"


@cases(*(f"tf.nn.{kind}_pool{axes}" for kind in ("max", "avg") for axes in ("", "1d", "2d", "3d")))
def _(draw: Draw) -> str:
    axes = int(draw.short[-2]) if draw.short[-1] == "d" else 2
    image = draw.array(_image(draw, axes, draw.integer(1, 3)) if draw.chance(0.9) else draw.shape(1, 5))
    window, stride = draw.integer(1, 4), draw.integer(1, 3)
    return f"{draw.name}({image}, {window}, {stride}, {_padding(draw)})"


@cases("tf.nn.space_to_depth", "tf.nn.depth_to_space")
def _(draw: Draw) -> str:
    size = 2
    if draw.short == "space_to_depth":
        shape = (1, draw.pick([2, 4, 3]), draw.pick([2, 4]), draw.integer(1, 3))
    else:
        shape = (1, draw.integer(1, 3), draw.integer(1, 3), draw.pick([4, 8, 6]))
    return f"{draw.name}({draw.array(draw.varied(shape, 0.1))}, {size})"
