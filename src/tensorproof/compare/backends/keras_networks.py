"""Keras 3 on the backend that the process was started with."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tensorproof.compare.backends.backend import Failure, Mode, ModelFacts, NetworkRun, Unavailable
from tensorproof.compare.drawing import Array, Arrays, draw_inputs, draw_weight, dtype_of
from tensorproof.compare.spec import TestSpec
from tensorproof.compare.workers.backend_id import BackendId


def open_backend(backend: BackendId) -> KerasBackend:
    """Import Keras, which reads the name of its backend from the environment."""
    try:
        import keras
    except ImportError as error:
        raise Unavailable(f"{backend}: {error}") from None
    wanted = backend.name.removeprefix("keras:")
    if keras.config.backend() != wanted:
        raise Unavailable(f"{backend}: Keras runs on {keras.config.backend()}")
    if wanted == "torch":
        import torch

        torch.set_num_threads(int(backend.toggle("threads", "1")))
    return KerasBackend(wanted)


class KerasBackend:
    """Networks of Keras layers, by constructor arguments as in the spec."""

    def __init__(self, name: str) -> None:
        self.name = name

    def versions(self) -> dict[str, str]:
        import keras

        package = {"tensorflow": "tensorflow", "torch": "torch", "jax": "jax", "openvino": "openvino", "numpy": "numpy"}[self.name]
        module = __import__(package)
        return {"keras": keras.__version__, package: str(module.__version__)}

    def run_network(self, test: TestSpec, arrays: Arrays, keep: Sequence[str] | None, mode: Mode) -> NetworkRun:
        import keras

        keras.backend.clear_session()
        layer = None
        try:
            symbolic: dict[str, Any] = {}
            for entry in test.network.inputs:
                dtype = test.dtype if entry.dtype.startswith(("float", "bfloat")) else entry.dtype
                symbolic[entry.name] = keras.Input(shape=entry.shape[1:], dtype=dtype, name=entry.name)
            made: dict[str, Any] = {}
            for spec in test.layers:
                layer = spec.name
                made[spec.name] = _layer(spec.kind, spec.parameters, spec.name, test.dtype)
                operands = [symbolic[name] for name in spec.inputs]
                symbolic[spec.name] = made[spec.name](operands[0] if len(operands) == 1 else operands)
                _set_weights(made[spec.name], test, spec.name, arrays)
            layer = None
            wanted = list(test.network.outputs if keep is None else keep)
            model = keras.Model([symbolic[entry.name] for entry in test.network.inputs], [symbolic[name] for name in wanted])
        except Exception as error:
            return NetworkRun(failure=_failure("build", error, layer))
        feeds = {**draw_inputs(test), **{name: array for name, array in arrays.items() if "/" not in name}}
        inputs = [feeds[entry.name] for entry in test.network.inputs]
        static = {name: tuple(symbolic[name].shape) for name in wanted}
        try:
            results = self._call(model, inputs, test.phase == "training", mode)
        except Exception as error:
            return NetworkRun(static_shapes=static, failure=_failure("call", error, None))
        return NetworkRun(dict(zip(wanted, results, strict=True)), static)

    def _call(self, model: Any, inputs: list[Array], training: bool, mode: Mode) -> list[Array]:
        import keras

        if mode == "saved":
            raise Unavailable("saving is not implemented yet")
        if self.name == "openvino" or mode == "compiled":
            results = model.predict(inputs if len(inputs) > 1 else inputs[0], verbose=0, batch_size=len(inputs[0]))
            return [np.asarray(part) for part in (results if isinstance(results, list | tuple) else [results])]
        results = model([keras.ops.convert_to_tensor(array) for array in inputs], training=training)
        return [_to_numpy(part) for part in (results if isinstance(results, list | tuple) else [results])]

    def open_model(self, path: str, options: Mapping[str, Any]) -> ModelFacts:
        raise Unavailable("model files are not implemented yet")

    def run_model(self, path: str, feeds: Arrays, keep: Sequence[str]) -> dict[str, Array]:
        raise Unavailable("model files are not implemented yet")


def _layer(kind: str, parameters: Mapping[str, Any], name: str, dtype: str) -> Any:
    import keras

    return getattr(keras.layers, kind)(**parameters, name=name, dtype=dtype)


def _set_weights(layer: Any, test: TestSpec, name: str, arrays: Arrays) -> None:
    for index, weight in enumerate(layer.weights):
        if "seed" in weight.path:
            continue
        given = arrays.get(f"{name}/{index}")
        value = given if given is not None else draw_weight(test, name, index, weight.path, tuple(weight.shape))
        weight.assign(value.astype(dtype_of(str(weight.dtype))))


def _to_numpy(value: Any) -> Array:
    import keras

    return np.asarray(keras.ops.convert_to_numpy(value))


def _failure(stage: Any, error: Exception, layer: str | None) -> Failure:
    message = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip()
    return Failure(stage, type(error).__name__, message[:4000], layer)
