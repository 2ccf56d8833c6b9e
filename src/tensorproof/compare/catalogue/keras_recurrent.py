"""Recurrent layers of Keras, with cells that are layers of their own and with convolutions inside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from tensorproof.compare.catalogue.keras_convolution import convolved, joined, split
from tensorproof.compare.catalogue.layer_kind import (
    SEQUENCES,
    Arguments,
    LayerKind,
    Misfit,
    Shape,
    ShapeRule,
    Shapes,
    alone,
    require,
)
from tensorproof.compare.catalogue.parameters import (
    Parameter,
    channels_order,
    choice,
    count,
    flag,
    is_count,
    is_list,
    listed,
    number,
    sizes,
)
from tensorproof.compare.spec import Json

#: How many states a layer or cell hands on.
STATES = {"SimpleRNN": 1, "GRU": 1, "LSTM": 2, "SimpleRNNCell": 1, "GRUCell": 1, "LSTMCell": 2}

_MASKED = ((((2, 8, 4),), ((2, 8),)), (((3, 5, 6),), ((3, 5),)))
_TIME_FLAGS = {"return_sequences": flag(False), "return_state": flag(False), "go_backwards": flag(False), "unroll": flag(False)}
#: What is drawn at random cannot be compared: other rates than 0 are tried where they are illegal.
_DROPPED = number(0.0, low=0.0, high=1.0, illegal=(-0.5, 1.5, "much"))


def results(sequence: Shape, last: Shape, states: Shapes, arguments: Arguments) -> Shapes:
    """The last step or all of them, then the states if they are asked for."""
    first = (sequence,) if arguments["return_sequences"] else (last,)
    return first + (states if arguments["return_state"] else ())


def recurrent(states: int) -> ShapeRule:
    """The rule of a layer that has `units` numbers in each state."""

    def rule(shapes: Shapes, arguments: Arguments) -> Shapes:
        require(len(shapes) == 1 and len(shapes[0]) == 3)
        batch, steps, _ = shapes[0]
        require(steps > 0)
        units = int(arguments["units"])
        return results((batch, steps, units), (batch, units), ((batch, units),) * states, arguments)

    return rule


def over_cells(shapes: Shapes, arguments: Arguments) -> Shapes:
    """A layer around a cell, or around several that feed each other."""
    require(len(shapes) == 1 and len(shapes[0]) == 3)
    batch, steps, _ = shapes[0]
    require(steps > 0)
    cells = [arguments["cell"]] if not is_list(arguments["cell"]) else list(arguments["cell"])
    require(bool(cells))
    states: list[Shape] = []
    units = 0
    for cell in cells:
        kind, units = _cell(cell)
        states += [(batch, units)] * STATES[kind]
    return results((batch, steps, units), (batch, units), tuple(states), arguments)


def _cell(cell: Json) -> tuple[str, int]:
    require(isinstance(cell, Mapping))
    known = cast("Mapping[str, Json]", cell)
    kind, units = known.get("kind"), known.get("parameters", {}).get("units")
    if kind not in STATES or not str(kind).endswith("Cell") or not is_count(units):
        raise Misfit
    return str(kind), units


def convolutional(shapes: Shapes, arguments: Arguments) -> Shapes:
    """Each step is an image, and so is the state."""
    require(len(shapes) == 1)
    shape = shapes[0]
    batch, steps = shape[:2]
    require(steps > 0)
    image = (batch, *shape[2:])
    spatial, _ = split(image, arguments)
    state = joined(image, convolved(spatial, arguments), arguments["filters"], arguments)
    return results((batch, steps, *state[1:]), state, (state, state), arguments)


def _plain(name: str, more: dict[str, Parameter]) -> LayerKind:
    return LayerKind(
        name,
        "keras",
        "recurrent",
        recurrent(STATES[name]),
        alone(*SEQUENCES),
        {
            "units": count(4, 1, 6, required=True),
            "activation": choice("tanh", "relu", "sigmoid", None),
            **more,
            "use_bias": flag(True),
            "dropout": _DROPPED,
            "recurrent_dropout": _DROPPED,
            **_TIME_FLAGS,
        },
        masked=_MASKED,
        is_audee=True,
    )


def _convolutional(rank: int) -> LayerKind:
    palettes: dict[int, tuple[Shape, ...]] = {
        1: ((2, 3, 8, 4), (1, 2, 5, 1)),
        2: ((2, 3, 6, 5, 2), (1, 2, 4, 4, 4)),
        3: ((1, 2, 4, 5, 3, 2), (2, 2, 3, 3, 3, 3)),
    }
    return LayerKind(
        f"ConvLSTM{rank}D",
        "keras",
        "recurrent",
        convolutional,
        alone(*palettes[rank]),
        {
            "filters": count(2, 3, required=True),
            "kernel_size": sizes(rank, 3, 1, 2, required=True, illegal=(100,)),
            "strides": sizes(rank, 1, 2),
            "padding": choice("valid", "same", illegal=("causal",)),
            "data_format": channels_order,
            "dilation_rate": sizes(rank, 1, 2),
            "activation": choice("tanh", "relu"),
            "recurrent_activation": choice("sigmoid", "hard_sigmoid"),
            "use_bias": flag(True),
            "return_sequences": flag(False),
            "return_state": flag(False),
            "go_backwards": flag(False),
        },
    )


def _cells(kind: str, units: int, **more: Json) -> Json:
    return {"kind": kind, "parameters": {"units": units, **more}}


_GATES = {"recurrent_activation": choice("sigmoid", "hard_sigmoid", "tanh")}

KINDS = (
    _plain("SimpleRNN", {}),
    _plain("LSTM", {**_GATES, "unit_forget_bias": flag(True)}),
    _plain("GRU", {**_GATES, "reset_after": flag(True)}),
    LayerKind(
        "RNN",
        "keras",
        "recurrent",
        over_cells,
        alone(*SEQUENCES),
        {
            "cell": listed(
                _cells("SimpleRNNCell", 4),
                _cells("LSTMCell", 3, activation="relu"),
                _cells("GRUCell", 4, reset_after=False),
                [_cells("LSTMCell", 4), _cells("GRUCell", 3)],
                illegal=(None, 3, "LSTM", []),
                required=True,
            ),
            **_TIME_FLAGS,
            "zero_output_for_mask": flag(False),
        },
        masked=_MASKED,
    ),
    *(_convolutional(rank) for rank in (1, 2, 3)),
)
