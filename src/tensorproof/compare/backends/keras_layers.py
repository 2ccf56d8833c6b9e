"""Layers of Keras from their specs: built by their constructor arguments, called with their operands, given drawn weights."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from tensorproof.compare.drawing import Arrays, draw_weight, dtype_of
from tensorproof.compare.spec import LayerSpec, TestSpec

#: A parameter with this prefix is an argument of the call.
CALL = "call:"


def make_layer(spec: LayerSpec, dtype: str) -> Any:
    """The layer of a spec. `dtype` holds where the parameters do not say another one."""
    return _made(spec.kind, spec.parameters, dtype, spec.name)


def _made(kind: str, parameters: Mapping[str, Any], dtype: str, name: str | None = None) -> Any:
    import keras

    arguments = {key: _argument(value, dtype) for key, value in parameters.items() if not key.startswith(CALL)}
    arguments.setdefault("dtype", dtype)
    if name is not None:
        arguments["name"] = name
    return getattr(keras.layers, kind)(**arguments)


def _argument(value: Any, dtype: str) -> Any:
    """What JSON stands for: objects with a kind are layers, lists are tuples, as in the documentation of Keras."""
    if isinstance(value, Mapping) and "kind" in value:
        inner = cast("Mapping[str, Any]", value)
        return _made(inner["kind"], inner.get("parameters", {}), dtype)
    if isinstance(value, list):
        parts = [_argument(part, dtype) for part in cast("list[Any]", value)]
        return parts if any(hasattr(part, "call") for part in parts) else tuple(parts)
    return value


def call_layer(layer: Any, spec: LayerSpec, operands: Sequence[Any], masks: Sequence[Any], training: bool) -> list[Any]:
    """All results of a layer, in order. How operands and masks are passed is said at `LayerSpec`."""
    import keras

    arguments = {key.removeprefix(CALL): _argument(value, "") for key, value in spec.parameters.items() if key.startswith(CALL)}
    known = inspect.signature(layer.call).parameters
    if masks:
        arguments["attention_mask" if "attention_mask" in known else "mask"] = masks[0] if len(masks) == 1 else list(masks)
    if "attention_mask" in known:
        positional = list(operands)
    elif len(operands) > 1 and ("initial_state" in known or "states" in known):
        positional = [operands[0]]
        arguments["initial_state" if "initial_state" in known else "states"] = list(operands[1:])
    else:
        positional = [operands[0] if len(operands) == 1 else list(operands)]
    results = layer(*positional, training=training, **arguments)
    return [part for part in keras.tree.flatten(results) if part is not None]


def set_weights(layer: Any, test: TestSpec, name: str, arrays: Arrays) -> None:
    """Give a layer its weights: those that are given as `LAYER/INDEX`, and drawn ones. States of random generators stay."""
    for index, weight in enumerate(layer.weights):
        given = arrays.get(f"{name}/{index}")
        dtype = dtype_of(str(weight.dtype))
        if given is None and (dtype.kind in "iub" or "seed_generator" in weight.path):
            continue
        value = given if given is not None else draw_weight(test, name, index, weight.name, tuple(weight.shape))
        weight.assign(value.astype(dtype))


def skip_random_initialisers() -> None:
    """Let Keras start random weights at zero: `set_weights` overwrites them, and drawing them costs most of the time to build."""
    import keras

    made = keras.initializers
    random = (made.RandomNormal, made.RandomUniform, made.TruncatedNormal, made.VarianceScaling, made.Orthogonal)
    original = keras.layers.Layer.add_weight

    def add_weight(self: Any, *positional: Any, **arguments: Any) -> Any:
        initialiser = arguments.get("initializer")
        if isinstance(initialiser, str):
            initialiser = made.get(initialiser)
        if isinstance(initialiser, random):
            arguments["initializer"] = _zeros
        return original(self, *positional, **arguments)

    keras.layers.Layer.add_weight = add_weight


def _zeros(shape: Sequence[int], dtype: Any = None) -> Any:
    return np.zeros(shape, dtype_of(str(dtype)))
