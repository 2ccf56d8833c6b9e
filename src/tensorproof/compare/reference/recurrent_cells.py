"""One step in time of each recurrent cell: input and states in, output and states out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorproof.compare.drawing import Array
from tensorproof.compare.reference.activation_functions import activate
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
    nested_layer,
    parameters_of,
)

#: Output and new states.
Step = tuple[Array, list[Array]]


@dataclass(frozen=True)
class Cell:
    """A cell with its weights; `state_shapes` are without the batch axis."""

    step: Callable[[Array, list[Array]], Step]
    state_shapes: list[Shape]


CELL_PARAMETERS: Mapping[str, Any] = {
    "units": REQUIRED,
    "activation": "tanh",
    "use_bias": True,
    "dropout": 0.0,
    "recurrent_dropout": 0.0,
}
GATED_PARAMETERS: Mapping[str, Any] = {**CELL_PARAMETERS, "recurrent_activation": "sigmoid"}
GRU_PARAMETERS: Mapping[str, Any] = {**GATED_PARAMETERS, "reset_after": True}


def _family(kind: str) -> str:
    return kind.removesuffix("Cell")


_GATES = {"SimpleRNN": 1, "GRU": 3, "LSTM": 4}


def cell_weights(shapes: list[Shape], parameters: Parameters) -> list[Weight]:
    """Kernel, recurrent kernel and bias, with the gates side by side; `shapes` of one step or of a sequence."""
    family, units = _family(parameters.kind), parameters["units"]
    width = _GATES[family] * units
    weights = [Weight("kernel", (shapes[0][-1], width)), Weight("recurrent_kernel", (units, width))]
    if parameters["use_bias"]:
        two = family == "GRU" and parameters["reset_after"]
        weights.append(Weight("bias", (2, width) if two else (width,)))
    return weights


def make_cell(parameters: Parameters, weights: list[Array]) -> Cell:
    """The cell of a recurrent layer or cell layer."""
    family = _family(parameters.kind)
    if family not in _GATES:
        raise NoReference(parameters.kind, "no recurrent cell")
    states = 2 if family == "LSTM" else 1
    steps = {"SimpleRNN": _simple_step, "GRU": _gru_step, "LSTM": _lstm_step}
    return Cell(steps[family](parameters, weights), [(parameters["units"],)] * states)


def _simple_step(parameters: Parameters, weights: list[Array]) -> Callable[[Array, list[Array]], Step]:
    kernel, recurrent, *bias = weights

    def step(x: Array, states: list[Array]) -> Step:
        total = x @ kernel + states[0] @ recurrent + (bias[0] if bias else 0.0)
        result = activate(parameters.kind, parameters["activation"], total)
        return result, [result]

    return step


def _lstm_step(parameters: Parameters, weights: list[Array]) -> Callable[[Array, list[Array]], Step]:
    """Gates in the order input, forget, cell, output (Hochreiter and Schmidhuber 1997, as Keras documents it)."""
    kernel, recurrent, *bias = weights

    def step(x: Array, states: list[Array]) -> Step:
        hidden, carry = states
        total = x @ kernel + hidden @ recurrent + (bias[0] if bias else 0.0)
        return lstm_gates(parameters, np.split(total, 4, axis=-1), carry)

    return step


def lstm_gates(parameters: Parameters, totals: list[Array], carry: Array) -> Step:
    """What an LSTM does with the sums of its four gates."""
    kind, gate, function = parameters.kind, parameters["recurrent_activation"], parameters["activation"]
    into, forget, cell, out = totals
    carry = activate(kind, gate, forget) * carry + activate(kind, gate, into) * activate(kind, function, cell)
    hidden = activate(kind, gate, out) * activate(kind, function, carry)
    return hidden, [hidden, carry]


def _gru_step(parameters: Parameters, weights: list[Array]) -> Callable[[Array, list[Array]], Step]:
    """Gates in the order update, reset, candidate; `reset_after` resets the product with the kernel, not the state itself."""
    kind, units = parameters.kind, parameters["units"]
    kernel, recurrent, *given = weights
    after = parameters["reset_after"]
    bias = given[0] if given else np.zeros((2, 3 * units))
    outer, inner = (bias[0], bias[1]) if bias.ndim == 2 else (bias, np.zeros(3 * units))

    def step(x: Array, states: list[Array]) -> Step:
        hidden = states[0]
        update, reset, candidate = np.split(x @ kernel + outer, 3, axis=-1)
        own = hidden @ recurrent + inner
        gates = activate(kind, parameters["recurrent_activation"], np.concatenate([update, reset], axis=-1) + own[:, : 2 * units])
        update, reset = np.split(gates, 2, axis=-1)
        recalled = reset * own[:, 2 * units :] if after else (reset * hidden) @ recurrent[:, 2 * units :]
        proposed = activate(kind, parameters["activation"], candidate + recalled)
        result = update * hidden + (1.0 - update) * proposed
        return result, [result]

    return step


@layer("SimpleRNNCell", accuracy=Accuracy.SUM, parameters=CELL_PARAMETERS, weights=cell_weights)
@layer("LSTMCell", accuracy=Accuracy.SUM, parameters=GATED_PARAMETERS, weights=cell_weights)
@layer("GRUCell", accuracy=Accuracy.SUM, parameters=GRU_PARAMETERS, weights=cell_weights)
def cell_layer(call: Call) -> Outcome:
    """One step: the first input is what comes in, the others are the states."""
    cell = make_cell(call.parameters, call.weights)
    if len(call.inputs) != len(cell.state_shapes) + 1:
        raise NoReference(call.kind, f"{len(call.inputs)} inputs")
    result, states = cell.step(call.inputs[0], call.inputs[1:])
    return (result, *states)


def stacked_cells(owner: str, description: object) -> list[Parameters]:
    """The cells that a parameter names: one, or a list in which each feeds the next."""
    entries = description if isinstance(description, list | tuple) else [description]
    if len(entries) == 1 and isinstance(entries[0], Mapping) and entries[0].get("kind") == "StackedRNNCells":
        entries = entries[0].get("parameters", {}).get("cells", [])
    found = [nested_layer(owner, entry) for entry in entries]
    cells = [parameters_of(kind, given) for kind, given in found]
    if not cells or any(_family(cell.kind) not in _GATES or not cell.kind.endswith("Cell") for cell in cells):
        raise NoReference(owner, f"cell {description!r}")
    return cells


def stack(cells: list[Cell]) -> Cell:
    """Cells of which each feeds the next, as one."""

    def step(x: Array, states: list[Array]) -> Step:
        rest = list(states)
        kept: list[Array] = []
        for cell in cells:
            own, rest = rest[: len(cell.state_shapes)], rest[len(cell.state_shapes) :]
            x, new = cell.step(x, own)
            kept.extend(new)
        return x, kept

    return Cell(step, [shape for cell in cells for shape in cell.state_shapes])
