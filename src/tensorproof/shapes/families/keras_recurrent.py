"""Recurrent layers of Keras and the wrappers that apply a layer along time."""

from __future__ import annotations

from tensorproof.rules.shapes.recurrent_state import RECURRENT_STATE
from tensorproof.shapes import calls
from tensorproof.shapes.families.keras_convolution import need_positive, slid
from tensorproof.shapes.families.keras_layers import (
    Layer,
    built_here,
    built_size,
    is_symbolic,
    layer,
    layer_name,
    need_least_rank,
    need_rank,
)
from tensorproof.shapes.families.keras_planes import join_planes, split_planes
from tensorproof.shapes.families.modules import apply_layer, origin
from tensorproof.shapes.families.windows import extent, per_axis
from tensorproof.shapes.rule_table import Call, Extent, Mismatch, NotKnown, as_tensor
from tensorproof.shapes.shape import ANY_SHAPE, Shape
from tensorproof.shapes.sizes import Size, same, unknown
from tensorproof.shapes.values import UNKNOWN, Instance, ListValue, NativeObject, Tensor, Value


def _tensors(value: Value) -> tuple[Tensor, ...]:
    items = value.items if isinstance(value, ListValue) else value if isinstance(value, tuple) else (value,)
    if items is None:
        raise NotKnown
    return tuple(as_tensor(item, "keras") for item in items)


def need_states(call: Call, input: Tensor, initial: Value, units: Size, count: int, result: Value) -> None:
    """Refuse initial states of other units or another batch. With symbolic inputs Keras notices only when data arrive."""
    if initial is None or is_symbolic(input):
        return
    states = _tensors(initial)
    for state in states:
        shape, batch = state.shape, input.shape[0]
        wrong_units = shape.least_rank > 0 and same(shape[-1], units) is False and shape[-1] != 1
        # States of other ranks, and of one sample, are stretched by some of the layers.
        wrong_batch = shape.rank == 2 and 1 not in (shape[0], batch) and same(shape[0], batch) is False
        if wrong_units or wrong_batch:
            message = f"{layer_name(call)} of {units} units takes initial states [{input.shape[0]}, {units}], not {shape}"
            raise Mismatch(RECURRENT_STATE, message, result=result, tensors=(state, input), related=origin(call))


def need_time_features(call: Call, input: Tensor, result: Value) -> None:
    """Refuse other features than those of the first call."""
    features = input.shape[-1]
    known = built_size(call, "_features", features)
    if same(features, known) is False and not is_symbolic(input):
        message = (
            f"{layer_name(call)} has weights for {known} features since its first call, but its input {input.shape} has {features}"
        )
        raise Mismatch(RECURRENT_STATE, message, result=result, tensors=(input,), related=built_here(call, "_features"))


class Recurrent(Layer):
    """What `LSTM`, `GRU` and `SimpleRNN` share."""

    states = 1
    units: Extent
    activation: Value = "tanh"
    recurrent_activation: Value = "sigmoid"
    return_sequences: bool = False
    return_state: bool = False

    def __call__(self, call: Call, sequences: Tensor, initial_state: Value = None, mask: Value = None, **options: Value) -> Value:
        wrong = Shape((unknown(), unknown(), self.units) if self.return_sequences else (unknown(), self.units))
        input = need_rank(call, sequences, 3, wrong)
        batch, steps, _ = input.shape.dims
        output = input.with_shape(Shape((batch, steps, self.units) if self.return_sequences else (batch, self.units)), dtype="f32")
        state = input.with_shape(Shape((batch, self.units)), dtype="f32")
        result = (output, *(state for _ in range(self.states))) if self.return_state else output
        need_time_features(call, input, result)
        need_states(call, input, initial_state, self.units, self.states, result)
        return result


@layer("LSTM")
class LSTM(Recurrent):
    """`LSTM`."""

    states = 2


@layer("GRU")
class GRU(Recurrent):
    """`GRU`."""


class SimpleRecurrent(Layer):
    """The constructor of `SimpleRNN`."""

    units: Extent
    activation: Value = "tanh"
    use_bias: Value = True


@layer("SimpleRNN")
class SimpleRNN(Recurrent, SimpleRecurrent):
    """`SimpleRNN`."""


class Cell(Layer):
    """One step of a recurrent layer."""

    states = 1
    units: Extent

    def __call__(self, call: Call, inputs: Tensor, states: Value = None, **options: Value) -> Value:
        input = need_rank(call, inputs, 2, Shape((unknown(), self.units)))
        state = input.with_shape(Shape((input.shape.dims[0], self.units)), dtype="f32")
        result = (state, ListValue((state,) * self.states))
        need_time_features(call, input, result)
        need_states(call, input, states, self.units, self.states, result)
        return result


@layer("LSTMCell")
class LSTMCell(Cell):
    """`LSTMCell`."""

    states = 2


@layer("GRUCell", "SimpleRNNCell")
class OneStateCell(Cell):
    """`OneStateCell`."""


@layer("StackedRNNCells")
class StackedRNNCells(Layer):
    """`StackedRNNCells`."""

    cells: Value


@layer("RNN")
class RNN(Layer):
    """A cell along time."""

    cell: Value
    return_sequences: bool = False
    return_state: bool = False

    def __call__(self, call: Call, sequences: Tensor, initial_state: Value = None, mask: Value = None, **options: Value) -> Value:
        need_least_rank(call, sequences, 3)
        cells = _cells(self.cell)
        shape = sequences.shape
        if not cells or (self.return_state and len(cells) > 1) or shape.rank not in (None, 3):
            return UNKNOWN
        sizes = [cell.slots.get("units") for cell in cells]
        units = sizes[-1]
        if not isinstance(cells[-1], NativeObject) or units is None:
            return UNKNOWN
        input = need_rank(call, sequences, 3)
        batch, steps, _ = input.shape.dims
        output = input.with_shape(Shape((batch, steps, units) if self.return_sequences else (batch, units)), dtype="f32")
        state = input.with_shape(Shape((batch, units)), dtype="f32")
        count = 2 if cells[-1].cls.names[0].endswith("LSTMCell") else 1
        return (output, *(state for _ in range(count))) if self.return_state else output


def _cells(value: Value) -> list[NativeObject | Instance]:
    """The cells of a stack, or one; empty where they are not known."""
    if isinstance(value, NativeObject) and "cells" in value.slots:
        value = value.slots["cells"]
    items = value.items if isinstance(value, ListValue) else value if isinstance(value, tuple) else (value,)
    found = [item for item in items or () if isinstance(item, NativeObject | Instance)]
    return found if items is not None and len(found) == len(items) else []


@layer("Bidirectional")
class Bidirectional(Layer):
    """A recurrent layer in both directions."""

    layer: Value
    merge_mode: Value = "concat"
    weights: Value = None
    backward_layer: Value = None

    def __call__(self, call: Call, sequences: Value, initial_state: Value = None, **options: Value) -> Value:
        if not isinstance(self.layer, NativeObject):
            return UNKNOWN
        half = None
        if initial_state is not None:
            states = _tensors(initial_state)
            half = ListValue(states[: len(states) // 2])
        keywords = {} if half is None else {"initial_state": half}
        forward = calls.call_native(call.run, call.place, self.layer, "__call__", (sequences,), keywords)
        output, states = (forward[0], forward[1:]) if isinstance(forward, tuple) and forward else (forward, ())
        if not isinstance(output, Tensor):
            return UNKNOWN
        merged = self._merged(output)
        return (*(merged if isinstance(merged, tuple) else (merged,)), *states, *states) if states else merged

    def _merged(self, output: Tensor) -> Value:
        if self.merge_mode == "concat":
            return output.with_shape(output.shape.without_last(1).extended(output.shape[-1] * 2))
        if self.merge_mode is None:
            return (output.with_shape(output.shape), output.with_shape(output.shape))
        return output.with_shape(output.shape)


@layer("TimeDistributed")
class TimeDistributed(Layer):
    """A layer applied to every step."""

    layer: Value

    def __call__(self, call: Call, inputs: Tensor, **options: Value) -> Tensor:
        need_least_rank(call, inputs, 3)
        shape = inputs.shape
        if shape.rank is None:
            return inputs.with_shape(ANY_SHAPE)
        step = inputs.with_shape(Shape((shape.dims[0], *shape.dims[2:])))
        result = apply_layer(call, self.layer, step)
        if not isinstance(result, Tensor) or not result.shape.head:
            return inputs.with_shape(ANY_SHAPE)
        rest = Shape(result.shape.head[1:], result.shape.tail)
        return inputs.with_shape(rest.preceded(result.shape.head[0], shape.dims[1]), dtype=result.dtype)


class ConvolutionalRecurrent(Layer):
    """What `ConvLSTM1D`, `2D` and `3D` share: images along time."""

    axes = 0
    filters: Extent
    kernel_size: Value
    strides: Value = 1
    padding: Value = "valid"
    data_format: Value = None
    dilation_rate: Value = 1
    return_sequences: bool = False
    return_state: bool = False

    def __call__(self, call: Call, sequences: Tensor, initial_state: Value = None, **options: Value) -> Value:
        input = need_rank(call, sequences, self.axes + 3)
        batch, steps, *rest = input.shape.dims
        image = input.with_shape(Shape((batch, *rest)))
        _, spatial, _ = split_planes(call, image, self.axes, self.data_format)
        windows = tuple(map(extent, per_axis(self.kernel_size, self.axes), per_axis(self.dilation_rate, self.axes)))
        sizes = tuple(slid(*row, self.padding) for row in zip(spatial, windows, per_axis(self.strides, self.axes), strict=True))
        planes = join_planes(call, batch, sizes, self.filters, self.data_format)
        state = input.with_shape(planes, dtype="f32")
        output = state.with_shape(Shape((batch, steps, *planes.head[1:]))) if self.return_sequences else state
        need_positive(call, image, spatial, windows, sizes, state)
        result = (output, state, state) if self.return_state else output
        if self.data_format != "channels_first":
            need_time_features(call, input, result)
        return result


@layer("ConvLSTM1D")
class ConvLSTM1D(ConvolutionalRecurrent):
    """`ConvLSTM1D`."""

    axes = 1


@layer("ConvLSTM2D")
class ConvLSTM2D(ConvolutionalRecurrent):
    """`ConvLSTM2D`."""

    axes = 2


@layer("ConvLSTM3D")
class ConvLSTM3D(ConvolutionalRecurrent):
    """`ConvLSTM3D`."""

    axes = 3
