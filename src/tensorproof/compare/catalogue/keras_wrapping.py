"""Layers of Keras around another layer, which is a parameter: `{"kind": ..., "parameters": ...}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from tensorproof.compare.catalogue import keras_convolution, keras_dense, keras_normalisation, keras_recurrent
from tensorproof.compare.catalogue.layer_kind import SEQUENCES, Arguments, LayerKind, Misfit, Shape, Shapes, alone, only, require
from tensorproof.compare.catalogue.parameters import choice, count, listed
from tensorproof.compare.spec import Json

_INNER = {
    kind.name: kind for kind in (*keras_convolution.KINDS, *keras_dense.KINDS, *keras_normalisation.KINDS, *keras_recurrent.KINDS)
}


def inner(value: Json) -> tuple[LayerKind, Arguments]:
    """The kind and the parameters of a wrapped layer."""
    require(isinstance(value, Mapping))
    known = cast("Mapping[str, Json]", value)
    kind = _INNER.get(known.get("kind", ""))
    if kind is None:
        raise Misfit
    return kind, known.get("parameters", {})


def results(value: Json, shapes: Shapes) -> Shapes:
    """The shapes of what a wrapped layer gives."""
    kind, parameters = inner(value)
    found = kind.result_shapes(shapes, parameters)
    if found is None:
        raise Misfit
    return found


def both_ways(shapes: Shapes, arguments: Arguments) -> Shapes:
    """Forwards and backwards in time, then merged."""
    kind, _ = inner(arguments["layer"])
    require(kind.name in ("SimpleRNN", "LSTM", "GRU"))
    first, *states = results(arguments["layer"], shapes)
    merged = (*first[:-1], 2 * first[-1]) if arguments["merge_mode"] == "concat" else first
    outputs = (merged, merged) if arguments["merge_mode"] is None else (merged,)
    return (*outputs, *states, *states)


def at_each_step(shape: Shape, arguments: Arguments) -> Shape:
    """The layer on every step of a sequence."""
    require(len(shape) > 2)
    (found,) = results(arguments["layer"], ((shape[0], *shape[2:]),))
    return (*shape[:2], *found[1:])


def normalised(shape: Shape, arguments: Arguments) -> Shape:
    """The layer with its kernel divided by the largest singular value."""
    kind, _ = inner(arguments["layer"])
    require(kind.name in ("Dense", "Embedding") or kind.family == "convolution")
    (found,) = results(arguments["layer"], (shape,))
    return found


def _layer(kind: str, **parameters: Json) -> Json:
    return {"kind": kind, "parameters": parameters}


_WRONG = (None, 3, "Dense")

KINDS = (
    LayerKind(
        "Bidirectional",
        "keras",
        "wrapping",
        both_ways,
        alone(*SEQUENCES),
        {
            "layer": listed(
                _layer("LSTM", units=4),
                _layer("GRU", units=3, return_sequences=True),
                _layer("SimpleRNN", units=4, activation="relu"),
                _layer("LSTM", units=2, return_sequences=True, return_state=True),
                illegal=(*_WRONG, _layer("Dense", units=4)),
                required=True,
            ),
            "merge_mode": choice("concat", "sum", "mul", "ave", None, illegal=("mean",)),
        },
        masked=((((2, 8, 4),), ((2, 8),)),),
    ),
    LayerKind(
        "TimeDistributed",
        "keras",
        "wrapping",
        only(at_each_step),
        alone((2, 8, 4), (3, 5, 6), (2, 3, 6, 4), (2, 3, 6, 5, 4)),
        {
            "layer": listed(
                _layer("Dense", units=4),
                _layer("Conv2D", filters=2, kernel_size=3, padding="same"),
                _layer("Conv1D", filters=3, kernel_size=2, strides=2),
                _layer("LayerNormalization"),
                _layer("BatchNormalization"),
                illegal=_WRONG,
                required=True,
            )
        },
    ),
    LayerKind(
        "SpectralNormalization",
        "keras",
        "wrapping",
        only(normalised),
        alone((2, 8), (2, 8, 4), (2, 8, 8, 4)),
        {
            "layer": listed(
                _layer("Dense", units=4),
                _layer("Conv2D", filters=2, kernel_size=3),
                _layer("Conv1D", filters=3, kernel_size=2),
                illegal=_WRONG,
                required=True,
            ),
            "power_iterations": count(1, 2, 4),
        },
    ),
)
