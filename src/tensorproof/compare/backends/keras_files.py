"""`.keras` files on the Keras backend of this process: the result of any layer, from the inputs or from results of other layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from tensorproof.compare.backends.backend import ModelFacts, given_or_computed
from tensorproof.compare.drawing import Array, Arrays, dtype_of
from tensorproof.compare.workers.backend_id import BackendId
from tensorproof.errors import ModelError

_open: dict[str, _KerasFile] = {}


def open_model(backend_id: BackendId, path: str, options: Mapping[str, Any]) -> ModelFacts:
    """Load a file. `options` may ask for another `precision`, and under which `key` the model stays open (its path, if none)."""
    import keras

    if not Path(path).is_file():
        raise ModelError(f"{path}: no such file")
    try:
        model: Any = keras.saving.load_model(path, compile=False)
        if options.get("precision"):
            model = _converted(model, str(options["precision"]))
    except Exception as error:  # Keras raises many kinds for a file that is not one of its own
        raise ModelError(f"{path}: Keras cannot load it ({_first_line(error)})") from None
    file = _KerasFile(model, _tensors(model))
    _open[str(options.get("key", path))] = file
    return file.facts()


def run_model(backend_id: BackendId, path: str, feeds: Arrays, keep: Sequence[str]) -> dict[str, Array]:
    """Results of layers of an open model, from its inputs or from results of other layers."""
    file = _open[path]
    return given_or_computed(feeds, keep, lambda wanted: file.run(backend_id, feeds, wanted))


@dataclass
class _KerasFile:
    """A loaded model, and its symbolic tensors by the names of layers; `NAME#1` is of a second call, `NAME:1` a second result."""

    model: Any
    tensors: dict[str, Any]
    #: The last part of the model that was run, with what it computes from what.
    part: tuple[object, Any] | None = field(default=None, repr=False)

    def facts(self) -> ModelFacts:
        names = {id(tensor): name for name, tensor in self.tensors.items()}
        inputs = [names[id(tensor)] for tensor in self.model.inputs]
        values: list[str] = []
        operators: dict[str, str] = {}
        reads: dict[str, tuple[str, ...]] = {}
        places: dict[str, dict[str, Any]] = {}
        for name, tensor in self.tensors.items():
            if name in inputs:
                continue
            operation, index, _ = tensor._keras_history
            node = operation._inbound_nodes[index]
            values.append(name)
            operators[name] = type(operation).__name__
            reads[name] = tuple(dict.fromkeys(names[id(entry)] for entry in node.input_tensors if id(entry) in names))
            places[name] = {"node": operation.name, "module": operation.name}
        listed = tuple((name, str(self.tensors[name].dtype), tuple(self.tensors[name].shape)) for name in inputs)
        outputs = tuple(names[id(tensor)] for tensor in self.model.outputs)
        return ModelFacts(listed, outputs, tuple(values), operators, reads, places, self._precision())

    def _precision(self) -> str:
        computed = {str(getattr(layer, "compute_dtype", "float32")) for layer in self.model.layers}
        return next((name for name in ("bfloat16", "float16", "float32", "float64") if name in computed), "float32")

    def run(self, backend: BackendId, feeds: Arrays, wanted: tuple[str, ...]) -> dict[str, Array]:
        import keras

        given = self._needed(feeds, wanted)
        key = (tuple(given), wanted)
        if self.part is None or self.part[0] != key:
            self.part = None
            results = [self.tensors[name] for name in wanted]
            self.part = (key, keras.Model([self.tensors[name] for name in given], results))
        model: Any = self.part[1]
        arrays = [np.asarray(feeds[name]).astype(dtype_of(str(self.tensors[name].dtype))) for name in given]
        if backend.name == "keras:openvino":
            found = model.predict(arrays if len(arrays) > 1 else arrays[0], verbose=0, batch_size=max(len(arrays[0]), 1))
        else:
            found = model([keras.ops.convert_to_tensor(array) for array in arrays], training=False)
        several = list(cast("Sequence[Any]", found)) if isinstance(found, list | tuple) else [found]
        return {name: np.asarray(keras.ops.convert_to_numpy(part)) for name, part in zip(wanted, several, strict=True)}

    def _needed(self, feeds: Arrays, wanted: Sequence[str]) -> list[str]:
        """What of the given values the wanted ones are computed from."""
        names = {id(tensor): name for name, tensor in self.tensors.items()}
        found: dict[str, None] = {}
        seen: set[str] = set()
        stack = list(reversed(wanted))
        while stack:
            name = stack.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in feeds:
                found[name] = None
                continue
            operation, index, _ = self.tensors[name]._keras_history
            read = operation._inbound_nodes[index].input_tensors
            if not read:
                raise ModelError(f"no value is given for the input {name!r}")
            stack.extend(names[id(entry)] for entry in reversed(read) if id(entry) in names)
        return list(found)


def _tensors(model: Any) -> dict[str, Any]:
    """All symbolic tensors between inputs and outputs, each after what it is computed from."""
    if not getattr(model, "inputs", None) or not getattr(model, "outputs", None):
        raise ModelError("only models of Keras's functional interface, and sequential ones with a known input, can be compared")
    found: dict[str, Any] = {}
    done: set[int] = set()
    stack: list[tuple[Any, bool]] = [(tensor, False) for tensor in reversed([*model.inputs, *model.outputs])]
    while stack:
        tensor, is_ready = stack.pop()
        if id(tensor) in done:
            continue
        operation, index, position = tensor._keras_history
        if is_ready:
            done.add(id(tensor))
            first = min(i for i, node in enumerate(operation._inbound_nodes) if node.output_tensors)
            found[operation.name + (f"#{index}" if index > first else "") + (f":{position}" if position else "")] = tensor
            continue
        stack.append((tensor, True))
        if any(tensor is entry for entry in model.inputs):
            continue
        stack.extend((entry, False) for entry in reversed(operation._inbound_nodes[index].input_tensors))
    return found


def _converted(model: Any, precision: str) -> Any:
    """The same model with all its layers, weights and inputs in another format."""
    import keras

    config: Any = _renamed(keras.saving.serialize_keras_object(model), precision)
    copy: Any = keras.saving.deserialize_keras_object(config)
    copy.set_weights([np.asarray(weight) for weight in model.get_weights()])
    return copy


def _renamed(config: Any, precision: str) -> Any:
    """A serialised model with `float32` as another format wherever it stands for a type."""
    if isinstance(config, dict):
        entries = cast("dict[str, Any]", config)
        is_policy = entries.get("class_name") == "DTypePolicy"
        return {
            key: {"name": precision}
            if is_policy and key == "config"
            else precision
            if key == "dtype" and value == "float32"
            else _renamed(value, precision)
            for key, value in entries.items()
        }
    if isinstance(config, list | tuple):
        parts = [_renamed(part, precision) for part in cast("Sequence[Any]", config)]
        return tuple(parts) if isinstance(config, tuple) else parts
    return config


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:200]
