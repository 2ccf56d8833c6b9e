"""Pools of Keras: windows, adaptive and global ones."""

from __future__ import annotations

from tensorproof.shapes.families.keras_convolution import need_positive, slid
from tensorproof.shapes.families.keras_layers import Layer, layer, layer_name
from tensorproof.shapes.families.keras_planes import join_planes, split_planes
from tensorproof.shapes.families.windows import per_axis
from tensorproof.shapes.rule_table import Call
from tensorproof.shapes.shape import ANY_SHAPE, Shape
from tensorproof.shapes.values import Tensor, Value


def _names(kinds: str) -> tuple[str, ...]:
    """Every kind in one, two and three dimensions."""
    return tuple(f"{kind}{axes}D" for kind in kinds.split() for axes in (1, 2, 3))


def dimensions(call: Call) -> int:
    """The number before the D of the layer's name."""
    return int(layer_name(call)[-2])


def _pooled(call: Call, inputs: Tensor, pool_size: Value, strides: Value, padding: Value, data_format: Value) -> Tensor:
    axes = dimensions(call)
    batch, spatial, channels = split_planes(call, inputs, axes, data_format)
    windows = per_axis(pool_size, axes)
    steps = windows if strides is None else per_axis(strides, axes)
    sizes = tuple(slid(*row, padding) for row in zip(spatial, windows, steps, strict=True))
    result = inputs.with_shape(join_planes(call, batch, sizes, channels, data_format))
    need_positive(call, inputs, spatial, windows, sizes, result)
    return result


@layer(*_names("MaxPooling MaxPool"))
class MaxPooling(Layer):
    """`MaxPooling`."""

    pool_size: Value = 2
    strides: Value = None
    padding: Value = "valid"
    data_format: Value = None

    def __call__(self, call: Call, inputs: Tensor, **options: Value) -> Tensor:
        return _pooled(call, inputs, self.pool_size, self.strides, self.padding, self.data_format)


@layer(*_names("AveragePooling AvgPool"))
class AveragePooling(Layer):
    """`AveragePooling`."""

    pool_size: Value
    strides: Value = None
    padding: Value = "valid"
    data_format: Value = None

    def __call__(self, call: Call, inputs: Tensor, **options: Value) -> Tensor:
        return _pooled(call, inputs, self.pool_size, self.strides, self.padding, self.data_format)


@layer(*_names("GlobalAveragePooling GlobalAvgPool GlobalMaxPooling GlobalMaxPool"))
class GlobalPooling(Layer):
    """`GlobalPooling`."""

    data_format: Value = None
    keepdims: Value = False

    def __call__(self, call: Call, inputs: Tensor, **options: Value) -> Tensor:
        axes = dimensions(call)
        batch, _, channels = split_planes(call, inputs, axes, self.data_format)
        if self.keepdims is True:
            return inputs.with_shape(join_planes(call, batch, (1,) * axes, channels, self.data_format))
        return inputs.with_shape(Shape((batch, channels)))


@layer(*_names("AdaptiveAveragePooling AdaptiveMaxPooling"))
class AdaptivePooling(Layer):
    """`AdaptivePooling`."""

    output_size: Value
    data_format: Value = None

    def __call__(self, call: Call, inputs: Tensor, **options: Value) -> Tensor:
        axes = dimensions(call)
        if inputs.shape.rank != axes + 2:
            return inputs.with_shape(ANY_SHAPE)
        batch, _, channels = split_planes(call, inputs, axes, self.data_format)
        return inputs.with_shape(join_planes(call, batch, per_axis(self.output_size, axes), channels, self.data_format))
