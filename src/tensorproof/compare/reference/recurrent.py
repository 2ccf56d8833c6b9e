"""Recurrent layers: a cell over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tensorproof.compare.drawing import Array
from tensorproof.compare.reference.convolutions import channels_as_given, channels_last, convolve, rank_of
from tensorproof.compare.reference.layer_table import (
    REQUIRED,
    Accuracy,
    Call,
    NoReference,
    Outcome,
    Parameters,
    Shape,
    Weight,
    layer,
)
from tensorproof.compare.reference.recurrent_cells import (
    CELL_PARAMETERS,
    GATED_PARAMETERS,
    GRU_PARAMETERS,
    Cell,
    Step,
    cell_weights,
    lstm_gates,
    make_cell,
    stack,
    stacked_cells,
)

TIME_PARAMETERS: Mapping[str, Any] = {
    "return_sequences": False,
    "return_state": False,
    "go_backwards": False,
    "stateful": False,
    "zero_output_for_mask": False,
}


def run_cell(call: Call, cell: Cell) -> Outcome:
    """Step after step from zero states, or from those that are given.

    A masked step changes no state and repeats the last output, or gives zeros if the layer says so. A sequence that was read
    backwards comes out in the order in which it was read.
    """
    parameters = call.parameters
    parameters.refuse("stateful", (False,))
    x, *states = call.inputs
    if not states:
        states = [np.zeros((x.shape[0], *shape)) for shape in cell.state_shapes]
    if len(states) != len(cell.state_shapes) or x.shape[1] == 0:
        raise NoReference(call.kind, f"{len(states)} states, {x.shape[1]} steps")
    mask = call.mask
    zeros = parameters["zero_output_for_mask"] and parameters["return_sequences"]
    order = range(x.shape[1])
    outputs: list[Array] = []
    for time in reversed(order) if parameters["go_backwards"] else order:
        output, new = cell.step(x[:, time], states)
        if mask is not None:
            counts = mask[:, time].reshape(-1, *(1,) * (output.ndim - 1))
            before = outputs[-1] if outputs and not zeros else np.zeros_like(output)
            output = np.where(counts, output, before)
            new = [np.where(counts, after, old) for after, old in zip(new, states, strict=True)]
        outputs.append(output)
        states = [call.rounded(f"{time}/{index}", state) for index, state in enumerate(new)]
    result = np.stack(outputs, axis=1) if parameters["return_sequences"] else outputs[-1]
    return (result, *states) if parameters["return_state"] else result


def _sequence_mask(call: Call) -> Array | None:
    return call.mask if call.parameters["return_sequences"] else None


@layer(
    "SimpleRNN",
    accuracy=Accuracy.RECURRENT,
    parameters={**CELL_PARAMETERS, **TIME_PARAMETERS},
    weights=cell_weights,
    masking=_sequence_mask,
)
@layer(
    "LSTM",
    accuracy=Accuracy.RECURRENT,
    parameters={**GATED_PARAMETERS, **TIME_PARAMETERS},
    weights=cell_weights,
    masking=_sequence_mask,
)
@layer(
    "GRU",
    accuracy=Accuracy.RECURRENT,
    parameters={**GRU_PARAMETERS, **TIME_PARAMETERS},
    weights=cell_weights,
    masking=_sequence_mask,
)
def recurrent(call: Call) -> Outcome:
    """The layer's own cell over time."""
    return run_cell(call, make_cell(call.parameters, call.weights))


def _stack_weights(shapes: list[Shape], parameters: Parameters) -> list[Weight]:
    weights: list[Weight] = []
    depth = shapes[0][-1]
    for cell in stacked_cells(parameters.kind, parameters["cell"]):
        weights.extend(cell_weights([(depth,)], cell))
        depth = cell["units"]
    return weights


@layer(
    "RNN",
    accuracy=Accuracy.RECURRENT,
    parameters={"cell": REQUIRED, **TIME_PARAMETERS},
    weights=_stack_weights,
    masking=_sequence_mask,
)
def recurrent_of_cells(call: Call) -> Outcome:
    """A cell over time, or several of which each feeds the next."""
    rest = list(call.weights)
    cells: list[Cell] = []
    for parameters in stacked_cells(call.kind, call.parameters["cell"]):
        count = 3 if parameters["use_bias"] else 2
        cells.append(make_cell(parameters, rest[:count]))
        rest = rest[count:]
    return run_cell(call, stack(cells))


def _convolutional_weights(shapes: list[Shape], parameters: Parameters) -> list[Weight]:
    window = parameters.sizes("kernel_size", rank_of(parameters.kind))
    depth = shapes[0][2] if parameters.is_channels_first else shapes[0][-1]
    filters = parameters["filters"]
    bias = [Weight("bias", (4 * filters,))] if parameters["use_bias"] else []
    return [Weight("kernel", (*window, depth, 4 * filters)), Weight("recurrent_kernel", (*window, filters, 4 * filters)), *bias]


@layer(
    "ConvLSTM1D",
    "ConvLSTM2D",
    "ConvLSTM3D",
    accuracy=Accuracy.RECURRENT,
    parameters={
        **{name: value for name, value in GATED_PARAMETERS.items() if name != "units"},
        **{name: value for name, value in TIME_PARAMETERS.items() if name != "zero_output_for_mask"},
        "filters": REQUIRED,
        "kernel_size": REQUIRED,
        "strides": 1,
        "padding": "valid",
        "data_format": None,
        "dilation_rate": 1,
    },
    weights=_convolutional_weights,
    masking=_sequence_mask,
)
def convolutional_recurrent(call: Call) -> Outcome:
    """An LSTM whose products are convolutions; those of the state keep its size (Shi et al. 2015)."""
    parameters = call.parameters
    rank, is_first = rank_of(call.kind), parameters.is_channels_first
    parameters.refuse("padding", ("valid", "same"))
    strides, dilation = parameters.sizes("strides", rank), parameters.sizes("dilation_rate", rank)
    if max(strides) > 1 and max(dilation) > 1:
        raise NoReference(call.kind, f"strides {strides} with dilation {dilation}")
    kernel, recurrent_kernel, *bias = call.weights
    once = (1,) * rank

    def into(x: Array) -> Array:
        return convolve(channels_last(x, is_first), kernel, strides, dilation, parameters["padding"])

    def step(x: Array, states: list[Array]) -> Step:
        hidden, carry = (channels_last(state, is_first) for state in states)
        total = into(x) + convolve(hidden, recurrent_kernel, once, once, "same") + (bias[0] if bias else 0.0)
        result, new = lstm_gates(parameters, np.split(total, 4, axis=-1), carry)
        return channels_as_given(result, is_first), [channels_as_given(state, is_first) for state in new]

    shape = into(call.inputs[0][:, 0]).shape
    state = (parameters["filters"], *shape[1:-1]) if is_first else (*shape[1:-1], parameters["filters"])
    filled = Parameters(call.kind, {**parameters.values, "zero_output_for_mask": False})
    return run_cell(replace(call, parameters=filled), Cell(step, [state, state]))
