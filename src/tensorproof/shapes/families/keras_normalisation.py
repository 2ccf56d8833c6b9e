"""Normalisation layers of Keras. The sizes along their axes are those of the first call."""

from __future__ import annotations

from tensorproof.rules.shapes.axis_out_of_range import AXIS_OUT_OF_RANGE
from tensorproof.rules.shapes.normalisation_features import NORMALISATION_FEATURES
from tensorproof.shapes.families.keras_layers import Layer, built_here, built_size, is_symbolic, layer, layer_name
from tensorproof.shapes.families.modules import apply_layer, origin
from tensorproof.shapes.rule_table import Call, Extent, Mismatch
from tensorproof.shapes.shape import ANY_SHAPE
from tensorproof.shapes.sizes import same
from tensorproof.shapes.values import ListValue, Tensor, Value


def _axes(value: Value) -> tuple[int, ...] | None:
    """Axes as numbers; None where they are not known."""
    items = value.items if isinstance(value, ListValue) else value if isinstance(value, tuple) else (value,)
    if items is None:
        return None
    numbers = tuple(item for item in items if isinstance(item, int) and not isinstance(item, bool))
    return numbers if len(numbers) == len(items) else None


def normalised(call: Call, inputs: Tensor, axis: Value) -> Tensor:
    """The input, if its sizes along the axes are those that the layer was built with."""
    shape = inputs.shape
    result = inputs.with_shape(shape, new_axes=inputs.new_axes)
    for number in _axes(axis) or ():
        if shape.rank is not None and not -shape.rank <= number < shape.rank:
            message = f"axis {number} of {layer_name(call)} does not exist in {shape}"
            raise Mismatch(AXIS_OUT_OF_RANGE, message, result=result, tensors=(inputs,), related=origin(call))
        size = shape[number]
        known = built_size(call, f"_size_{number}", size)
        # These two notice it only when data arrive.
        deferred = layer_name(call) in ("LayerNormalization", "RMSNormalization") and is_symbolic(inputs)
        if same(size, known) is False and not deferred:
            since = f"{layer_name(call)} has weights for {known} features since its first call"
            message = f"{since}, but axis {number} of its input {shape} has {size}"
            raise Mismatch(
                NORMALISATION_FEATURES, message, result=result, tensors=(inputs,), related=built_here(call, f"_size_{number}")
            )
    return result


@layer("BatchNormalization", "LayerNormalization")
class Normalisation(Layer):
    """`Normalisation`."""

    axis: Value = -1

    def __call__(self, call: Call, inputs: Tensor, *arguments: Value, **options: Value) -> Tensor:
        return normalised(call, inputs, self.axis)


@layer("RMSNormalization")
class RMSNormalization(Layer):
    """The scale is applied to the last axis, whatever axis is normalised."""

    axis: Value = -1

    def __call__(self, call: Call, inputs: Tensor, *arguments: Value, **options: Value) -> Tensor:
        return normalised(call, inputs, self.axis) if self.axis == -1 else inputs.with_shape(ANY_SHAPE)


@layer("UnitNormalization")
class UnitNormalization(Layer):
    """`UnitNormalization`."""

    axis: Value = -1

    def __call__(self, call: Call, inputs: Tensor, **options: Value) -> Tensor:
        return inputs.with_shape(inputs.shape)


@layer("GroupNormalization")
class GroupNormalization(Layer):
    """Channels in groups; -1 means a group for each."""

    groups: Extent = 32
    axis: Value = -1

    def __call__(self, call: Call, inputs: Tensor, **options: Value) -> Tensor:
        result = normalised(call, inputs, self.axis)
        shape, axis = inputs.shape, self.axis
        if not isinstance(axis, int) or shape.least_rank == 0:
            return result
        size, groups = shape[axis], self.groups
        if isinstance(size, int) and isinstance(groups, int) and groups > 0 and size % groups:
            message = f"the {size} channels of {shape} cannot be divided into {groups} groups"
            raise Mismatch(NORMALISATION_FEATURES, message, result=result, tensors=(inputs,), related=origin(call))
        return result


@layer("Normalization")
class Normalization(Layer):
    """Mean and variance of data that `adapt` sees, or given ones."""

    axis: Value = -1
    mean: Value = None
    variance: Value = None

    def adapt(self, call: Call, data: Value, *arguments: Value, **options: Value) -> Value:
        if isinstance(data, Tensor) and data.shape.rank != 0 and self.axis == -1:
            built_size(call, "_size_-1", data.shape[-1])
        return None

    def __call__(self, call: Call, inputs: Tensor, **options: Value) -> Tensor:
        return inputs.with_shape(inputs.shape)


@layer("SpectralNormalization")
class SpectralNormalization(Layer):
    """A layer whose weights are normalised."""

    layer: Value
    power_iterations: Value = 1

    def __call__(self, call: Call, inputs: Value, *arguments: Value, **options: Value) -> Value:
        return apply_layer(call, self.layer, inputs)
