"""Convolutions and pools of Keras."""

from __future__ import annotations

from tests.shape_cases import Draw, cases
from tests.shape_cases.keras_layers import called

_AXES = (1, 2, 3)


def _input(draw: Draw, axes: int, channels: int) -> tuple[int, ...]:
    shape = (draw.integer(1, 2), *(draw.integer(1, 5) for _ in range(axes)), channels)
    return shape if draw.chance(0.9) else draw.varied(shape, 1.0)


def _inputs(draw: Draw, axes: int, channels: int) -> tuple[tuple[int, ...], ...]:
    """One input, or two of which the second has other channels."""
    first = _input(draw, axes, channels)
    return (first,) if draw.chance(0.7) else (first, (*first[:-1], draw.integer(1, 4)))


def _numbers(draw: Draw, axes: int, low: int, high: int) -> str:
    if axes > 1 and draw.chance(0.4):
        return repr(tuple(draw.integer(low, high) for _ in range(axes)))
    return str(draw.integer(low, high))


def _window(draw: Draw, axes: int, paddings: list[str]) -> str:
    kernel = _numbers(draw, axes, 1, 3)
    # An old name with two equal numbers is taken for the height and width of a kernel, as Keras 1 had it.
    strides = draw.pick([number for number in "123" if number != kernel or draw.short != "Convolution2D"])
    step = draw.pick(["", f", strides={strides}", f", dilation_rate={draw.integer(1, 2)}"])
    return f"{kernel}{step}, padding={draw.pick(paddings)!r}"


@cases(*(f"keras.layers.{kind}{axes}D" for kind in ("Conv", "Convolution") for axes in _AXES))
def _(draw: Draw) -> str:
    axes = int(draw.short[-2])
    paddings = ["valid", "valid", "same", *(["causal"] if axes == 1 else [])]
    if draw.chance(0.2):
        # Convolutions in groups run on a GPU only where their kernel is dilated: they are drawn without.
        channels, groups = draw.integer(1, 4), draw.integer(1, 2)
        return called(draw, f"{draw.integer(1, 4)}, 2, padding='same', groups={groups}", (1, *(3,) * axes, channels))
    return called(draw, f"{draw.integer(1, 4)}, {_window(draw, axes, paddings)}", *_inputs(draw, axes, draw.integer(1, 3)))


@cases("keras.layers.DepthwiseConv1D", "keras.layers.DepthwiseConv2D")
def _(draw: Draw) -> str:
    axes = int(draw.short[-2])
    options = f"{draw.integer(1, 3)}, {draw.integer(1, 2)}, {draw.pick(['valid', 'same'])!r}, {draw.integer(1, 2)}"
    return called(draw, options, *_inputs(draw, axes, draw.integer(1, 3)))


@cases(*(f"keras.layers.Separable{kind}{axes}D" for kind in ("Conv", "Convolution") for axes in (1, 2)))
def _(draw: Draw) -> str:
    axes = int(draw.short[-2])
    options = f"{draw.integer(1, 4)}, {draw.integer(1, 3)}, {draw.integer(1, 2)}, {draw.pick(['valid', 'same'])!r}"
    return called(draw, options, *_inputs(draw, axes, draw.integer(1, 3)))


@cases(*(f"keras.layers.{kind}{axes}DTranspose" for kind in ("Conv", "Convolution") for axes in _AXES))
def _(draw: Draw) -> str:
    axes = int(draw.short[-11])
    padding = draw.pick(["valid", "same"])
    # TensorFlow refuses what other backends compute: an even kernel with no padding of the output.
    added = f", output_padding={draw.integer(int(padding == 'same'), 2)}" if draw.chance(0.3) else ""
    options = f"{draw.integer(1, 3)}, {draw.integer(1, 3)}, strides={draw.integer(1, 3)}, padding={padding!r}{added}"
    return called(draw, options, *_inputs(draw, axes, draw.integer(1, 3)))


@cases(*(f"keras.layers.{kind}{axes}D" for kind in ("MaxPooling", "MaxPool", "AveragePooling", "AvgPool") for axes in _AXES))
def _(draw: Draw) -> str:
    axes = int(draw.short[-2])
    strides = f", strides={_numbers(draw, axes, 1, 3)}" if draw.chance(0.4) else ""
    options = f"{_numbers(draw, axes, 1, 3)}{strides}, padding={draw.pick(['valid', 'same'])!r}"
    # Symbolic: on data TensorFlow crashes where a window is larger than its axis.
    return f"{draw.name}({options})(keras.Input(batch_shape={_input(draw, axes, 2)}))"


_GLOBAL = ("GlobalAveragePooling", "GlobalAvgPool", "GlobalMaxPooling", "GlobalMaxPool")


@cases(*(f"keras.layers.{kind}{axes}D" for kind in _GLOBAL for axes in _AXES))
def _(draw: Draw) -> str:
    return called(draw, draw.pick(["", "keepdims=True"]), _input(draw, int(draw.short[-2]), 2))


@cases(*(f"keras.layers.Adaptive{kind}Pooling{axes}D" for kind in ("Average", "Max") for axes in _AXES))
def _(draw: Draw) -> str:
    axes = int(draw.short[-2])
    shape = (2, *(draw.integer(3, 5) for _ in range(axes)), 2)
    return f"{draw.name}({_numbers(draw, axes, 1, 3)})(keras.Input(batch_shape={shape}))"
