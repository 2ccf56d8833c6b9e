"""Keras 3 on the backend that the process was started with."""

from __future__ import annotations

import gc
import hashlib
import importlib
import json
import random
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from tensorproof.compare.backends import keras_running
from tensorproof.compare.backends.backend import Failure, Mode, ModelFacts, NetworkRun, Unavailable, announce
from tensorproof.compare.backends.keras_layers import call_layer, make_layer, set_weights, skip_random_initialisers
from tensorproof.compare.backends.messages import plain_message
from tensorproof.compare.drawing import Array, Arrays, draw_inputs
from tensorproof.compare.spec import NetworkSpec, TestSpec, owner_of
from tensorproof.compare.workers.backend_id import BackendId

#: Networks that are kept, so that the next request about the same one only changes weights and inputs.
_KEPT = 8
#: Keras remembers something of every network that was built; it is made to forget after so many.
_FORGET_AFTER = 64


def open_backend(backend: BackendId) -> KerasBackend:
    """Import Keras, which reads the name of its backend from the environment."""
    name = backend.name.removeprefix("keras:")
    try:
        if name == "openvino":
            _compute_openvino_in_full_precision(int(backend.toggle("threads", "1")))
        import keras

        importlib.import_module(name)
    except ImportError as error:
        raise Unavailable(f"{backend}: {error}") from None
    if keras.config.backend() != name:
        raise Unavailable(f"{backend}: Keras runs on {keras.config.backend()}")
    if name == "torch":
        import torch

        torch.set_num_threads(int(backend.toggle("threads", "1")))
    # Whatever the user's configuration file of Keras says.
    keras.config.set_image_data_format("channels_last")
    keras.config.set_floatx("float32")
    keras.config.set_epsilon(1e-7)
    skip_random_initialisers()
    gc.collect()
    gc.freeze()  # What was imported stays; collecting it again would take longer than most tests.
    return KerasBackend(backend)


class NetworkFailed(Exception):
    """An exception of the framework, with the layer that was being made or called."""

    def __init__(self, layer: str | None, error: Exception) -> None:
        super().__init__(str(error))
        self.layer = layer
        self.error = error


class KerasNetwork:
    """A network that was built: its layers with drawn weights, and the symbolic tensors of all results."""

    def __init__(self, test: TestSpec) -> None:
        import keras

        self.spec: NetworkSpec = test.network
        self.layers: dict[str, Any] = {}
        self.compiled: dict[Any, Any] = {}
        #: Whether the parent is told which layer is being called.
        self.announces = True
        #: Which weights the layers have.
        self.weights = ""
        #: Recurrent layers that carry their state on need to know the number of examples.
        fixed = any(layer.parameters.get("stateful") for layer in test.layers)
        self.is_reusable = not fixed
        self._masks = {entry.name for entry in self.spec.inputs if entry.dtype == "bool"}
        self.inputs: list[Any] = []
        try:
            for entry in self.spec.inputs:
                dtype = test.dtype if entry.dtype.startswith(("float", "bfloat")) else entry.dtype
                shape = entry.shape if fixed else (None, *entry.shape[1:])
                self.inputs.append(keras.Input(batch_shape=shape, dtype=dtype, name=entry.name))
        except Exception as error:
            raise NetworkFailed(None, error) from None
        self._test: TestSpec | None = test
        self.symbolic = self.apply(self.inputs, None, False)

    def apply(self, inputs: Sequence[Any], wanted: Sequence[str] | None, training: bool) -> dict[str, Any]:
        """Results by name, of symbolic or of real tensors. Layers that nothing wanted needs are not computed."""
        values: dict[str, Any] = {entry.name: tensor for entry, tensor in zip(self.spec.inputs, inputs, strict=True)}
        needed = None if wanted is None else {layer.name for layer in self.spec.up_to(wanted).layers}
        for layer in self.spec.layers:
            if needed is not None and layer.name not in needed:
                continue
            if self.announces:
                announce(layer.name)
            try:
                if layer.name not in self.layers:
                    assert self._test is not None
                    self.layers[layer.name] = make_layer(layer, self._test.dtype)
                masks = [] if len(layer.inputs) == 1 else [values[name] for name in layer.inputs if name in self._masks]
                operands = [values[name] for name in layer.inputs if not masks or name not in self._masks]
                results = call_layer(self.layers[layer.name], layer, operands, masks, training)
            except NetworkFailed:
                raise
            except Exception as error:
                raise NetworkFailed(layer.name, error) from None
            for index, result in enumerate(results):
                values[f"{layer.name}:{index}" if index else layer.name] = result
        return values

    def set_weights(self, test: TestSpec, arrays: Arrays) -> None:
        """Weights of a test of this network. They are assigned again only if they are others than before."""
        digest = hashlib.sha256(str(test.seed).encode())
        for name, array in sorted(arrays.items()):
            if "/" in name:
                digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
        if self.weights == digest.hexdigest():
            return
        for name, layer in self.layers.items():
            try:
                set_weights(layer, test, name, arrays)
            except Exception as error:
                raise NetworkFailed(name, error) from None
        self.weights = digest.hexdigest()

    def results_of(self, layers: Sequence[str]) -> list[str]:
        """The names of all results of some layers; a name that has a number stands for itself."""
        return [
            name
            for wanted in layers
            for name in self.symbolic
            if name == wanted or (":" not in wanted and owner_of(name) == wanted)
        ]

    @property
    def variables(self) -> list[Any]:
        return [variable for layer in self.layers.values() for variable in layer.variables]


class KerasBackend:
    """Networks of Keras layers, by constructor arguments as in the spec."""

    def __init__(self, backend: BackendId) -> None:
        self.backend = backend
        self.name = backend.name.removeprefix("keras:")
        self._networks: OrderedDict[str, KerasNetwork] = OrderedDict()
        self._built = 0

    def versions(self) -> dict[str, str]:
        import keras

        module = importlib.import_module(self.name)
        return {"keras": keras.__version__, self.name: str(module.__version__)}

    def run_network(self, test: TestSpec, arrays: Arrays, keep: Sequence[str] | None, mode: Mode) -> NetworkRun:
        import keras

        if test.network.dialect != "keras":
            raise Unavailable(f"{self.backend} runs networks of Keras layers, not of {test.network.dialect} operators")
        if test.dtype == "float64" and keras.backend.result_type("float64", "float64") != "float64":
            raise Unavailable(f"Keras on {self.name} turns float64 into float32, as it is meant to")
        compute = keras_running.runner(self.name, test.phase, mode, self.backend.toggle("compile"), self.backend.toggle("xla"))
        try:
            network = self._network(test)
            network.set_weights(test, arrays)
        except NetworkFailed as failed:
            return NetworkRun(failure=_failure("build", failed))
        wanted = network.results_of(test.network.outputs if keep is None else keep)
        static = {name: tuple(network.symbolic[name].shape) for name in wanted}
        feeds: dict[str, Array] = {**draw_inputs(test), **{name: array for name, array in arrays.items() if "/" not in name}}
        announce("")
        try:
            results = compute(network, [feeds[entry.name] for entry in test.network.inputs], wanted)
        except NetworkFailed as failed:
            return NetworkRun(static_shapes=static, failure=_failure("call", failed))
        except Unavailable:
            raise
        except Exception as error:
            return NetworkRun(static_shapes=static, failure=_failure("call", NetworkFailed(None, error)))
        return NetworkRun(results, static)

    def _network(self, test: TestSpec) -> KerasNetwork:
        """The network, built or from memory. In training the seed of every random layer counts from when it was built."""
        import keras

        key = json.dumps([test.network.to_json(), test.dtype], sort_keys=True)
        if test.phase != "training" and key in self._networks:
            self._networks.move_to_end(key)
            return self._networks[key]
        self._built += 1
        if self._built % _FORGET_AFTER == 0:
            self._networks.clear()
            keras.backend.clear_session()
        if test.phase == "training":
            self._seed(test.seed % 2**32)
        network = KerasNetwork(test)
        if network.is_reusable and test.phase != "training":
            self._networks[key] = network
            if len(self._networks) > _KEPT:
                self._networks.popitem(last=False)
        return network

    def _seed(self, seed: int) -> None:
        """What `keras.utils.set_random_seed` does, which would import TensorFlow on every backend."""
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        if self.name == "torch":
            import torch

            torch.manual_seed(seed)
        if self.name == "tensorflow":
            import tensorflow as tf

            tf.random.set_seed(seed)

    def open_model(self, path: str, options: Mapping[str, Any]) -> ModelFacts:
        from tensorproof.compare.backends import keras_files

        return keras_files.open_model(self.backend, path, options)

    def run_model(self, path: str, feeds: Arrays, keep: Sequence[str]) -> dict[str, Array]:
        from tensorproof.compare.backends import keras_files

        return keras_files.run_model(self.backend, path, feeds, keep)


def _failure(stage: Literal["build", "call"], failed: NetworkFailed) -> Failure:
    return Failure(stage, type(failed.error).__name__, plain_message(failed.error), failed.layer)


def _compute_openvino_in_full_precision(threads: int) -> None:
    """Make Keras compile for OpenVINO with float32 arithmetic. The default is bfloat16 where the processor has it."""
    import openvino

    original = openvino.compile_model

    def compile_model(model: Any, device_name: str = "AUTO", config: Mapping[str, Any] | None = None, **rest: Any) -> Any:
        settings = {**(config or {}), "INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads}
        return original(model, device_name, settings, **rest)

    openvino.compile_model = compile_model
