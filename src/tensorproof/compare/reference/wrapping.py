"""Layers around a layer: both directions of time, and every step by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tensorproof.compare.drawing import Array
from tensorproof.compare.reference.layer_table import (
    REQUIRED,
    Accuracy,
    Call,
    Disturb,
    NoReference,
    Outcome,
    Parameters,
    Shape,
    Weight,
    compute,
    layer,
    nested_layer,
    weights_of,
)

_RECURRENT = frozenset({"SimpleRNN", "LSTM", "GRU", "RNN"})
_READS_MASKS = _RECURRENT | {"Softmax", "BatchNormalization", "TimeDistributed", "Bidirectional", "GlobalAveragePooling1D"}


def _inside(call: Call, place: str) -> Disturb | None:
    """Values inside the layers that are wrapped have names of their own."""
    disturb = call.disturb
    return None if disturb is None else lambda name, array: disturb(f"{place}/{name}", array)


def _directions(parameters: Parameters) -> list[tuple[str, Mapping[str, Any]]]:
    """The forward and the backward layer; the second is a copy of the first unless it is given."""
    kind, given = nested_layer(parameters.kind, parameters["layer"])
    if kind not in _RECURRENT or given.get("go_backwards"):
        raise NoReference(parameters.kind, f"inner layer {parameters['layer']!r}")
    if parameters["backward_layer"] is None:
        return [(kind, given), (kind, {**given, "go_backwards": True})]
    other, others = nested_layer(parameters.kind, parameters["backward_layer"])
    alike = all(bool(given.get(name)) == bool(others.get(name)) for name in ("return_sequences", "return_state"))
    if other not in _RECURRENT or not others.get("go_backwards") or not alike:
        raise NoReference(parameters.kind, f"inner layer {parameters['backward_layer']!r}")
    return [(kind, given), (other, others)]


def _both_weights(shapes: list[Shape], parameters: Parameters) -> list[Weight]:
    return [weight for kind, given in _directions(parameters) for weight in weights_of(kind, shapes[:1], given)]


def _both_mask(call: Call) -> Array | None:
    _, given = _directions(call.parameters)[0]
    return call.mask if given.get("return_sequences") else None


@layer(
    "Bidirectional",
    accuracy=Accuracy.RECURRENT,
    parameters={"layer": REQUIRED, "merge_mode": "concat", "backward_layer": None},
    weights=_both_weights,
    masking=_both_mask,
)
def bidirectional(call: Call) -> Outcome:
    """The layer forwards and a copy backwards; sequences of the copy are turned round before the two are merged.

    Masked steps give zeros in sequences, as the last output of one direction is not one of the other.
    """
    mode = call.parameters["merge_mode"]
    call.parameters.refuse("merge_mode", ("concat", "sum", "ave", "mul", None))
    sequence, *states = call.inputs
    half = len(states) // 2
    weights = list(call.weights)
    found: list[tuple[Array, ...]] = []
    for index, (kind, given) in enumerate(_directions(call.parameters)):
        count = len(weights_of(kind, [sequence.shape], given))
        own, weights = weights[:count], weights[count:]
        start = states[half:] if index else states[:half]
        results, _ = compute(
            kind,
            [sequence, *start],
            {**given, "zero_output_for_mask": True},
            own,
            [call.mask, *(None for _ in start)],
            is_training=call.is_training,
            disturb=_inside(call, str(index)),
        )
        found.append(results)
    forward, backward = found[0][0], found[1][0]
    if nested_layer(call.kind, call.parameters["layer"])[1].get("return_sequences"):
        backward = np.flip(backward, axis=1)
    merged: tuple[Array, ...]
    if mode is None:
        merged = forward, backward
    elif mode == "concat":
        merged = (np.concatenate([forward, backward], axis=-1),)
    else:
        merged = ({"sum": forward + backward, "ave": (forward + backward) / 2, "mul": forward * backward}[mode],)
    return (*merged, *found[0][1:], *found[1][1:])


def _step_weights(shapes: list[Shape], parameters: Parameters) -> list[Weight]:
    kind, given = nested_layer(parameters.kind, parameters["layer"])
    return weights_of(kind, [(shapes[0][0], *shapes[0][2:])], given)


@layer("TimeDistributed", accuracy=Accuracy.SUM, parameters={"layer": REQUIRED}, weights=_step_weights, masking="keep")
def time_distributed(call: Call) -> Outcome:
    """The layer on every step of axis 1."""
    kind, given = nested_layer(call.kind, call.parameters["layer"])
    if call.only.shape[1] == 0 or (call.mask is not None and kind in _READS_MASKS):
        raise NoReference(call.kind, "no steps, or a mask that the inner layer reads")
    steps: list[Array] = []
    for time in range(call.only.shape[1]):
        results, _ = compute(
            kind, [call.only[:, time]], given, call.weights, is_training=call.is_training, disturb=_inside(call, str(time))
        )
        if len(results) != 1:
            raise NoReference(call.kind, f"{kind} with several results")
        steps.append(results[0])
    return np.stack(steps, axis=1)
