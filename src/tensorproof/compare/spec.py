"""`TestSpec`: one differential test as plain data. A seed stands for every array, so that a test is a few hundred bytes of JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias, cast

#: What JSON can say: numbers, strings, lists, objects.
Json: TypeAlias = Any

#: `keras`: layers of Keras 3, channels last. `onnx`: operators of the ONNX standard.
Dialect = Literal["keras", "onnx"]
#: `training` runs layers as in training; `gradient` also returns the gradient of the sum of the outputs at the inputs.
Phase = Literal["inference", "training", "gradient"]


@dataclass(frozen=True)
class InputSpec:
    """An input of a network. `shape` has its batch axis.

    `values` says how it is drawn: `normal`, `uniform` (0 to 1), `signs` (-1, 0, 1), `integers` (0 to `high` - 1), `edges` (zeros,
    the smallest and largest numbers and ordinary ones), `mask` (booleans that hide some steps).
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    values: str = "normal"
    high: int = 8

    def to_json(self) -> Json:
        return {"name": self.name, "shape": list(self.shape), "dtype": self.dtype, "values": self.values, "high": self.high}

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> InputSpec:
        return cls(data["name"], tuple(data["shape"]), data["dtype"], data["values"], data["high"])


@dataclass(frozen=True)
class LayerSpec:
    """A layer of Keras (class name and constructor arguments) or a node of ONNX (operator and attributes).

    `inputs` are names of inputs and of earlier layers; `NAME:1` is the second result of a layer. Arguments that are not given have
    their default. In the Keras dialect

    - a parameter that is an object with `kind` (and `parameters`) is a layer or a cell; a list of them is a list of cells;
    - a parameter `call:NAME` is an argument of the call, not of the constructor;
    - several inputs are one list, but `MultiHeadAttention` and `GroupedQueryAttention` take query, value and key one by one, and
      recurrent layers take the sequence and then their initial states;
    - inputs of the network whose type is bool are masks: the call's `mask` (several: a list), `attention_mask` where it has one,
      unless the layer has no other input.

    In the ONNX dialect a parameter `@1` is a constant second operand and the `inputs` fill the places that are left: whole numbers
    are int64, fractions have the type of the test, null leaves the operand out, `{"shape": [4, 3], "name": "gamma"}` draws a weight
    (`LAYER/1`; the name may be left out), `{"dtype": "int32", "value": [1]}` is of that type. `@results` is how many results the
    node has, if not one. A subgraph cannot be said.
    """

    name: str
    kind: str
    parameters: Mapping[str, Json] = field(default_factory=dict[str, Json])
    inputs: tuple[str, ...] = ()

    def to_json(self) -> Json:
        return {"name": self.name, "kind": self.kind, "parameters": dict(self.parameters), "inputs": list(self.inputs)}

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> LayerSpec:
        return cls(data["name"], data["kind"], dict(data["parameters"]), tuple(data["inputs"]))

    def with_parameters(self, parameters: Mapping[str, Json]) -> LayerSpec:
        return replace(self, parameters=dict(parameters))


@dataclass(frozen=True)
class NetworkSpec:
    """Layers in an order in which they can be computed."""

    dialect: Dialect
    inputs: tuple[InputSpec, ...]
    layers: tuple[LayerSpec, ...]
    #: Names of layers, or of their further results (`NAME:1`).
    outputs: tuple[str, ...]

    def to_json(self) -> Json:
        return {
            "dialect": self.dialect,
            "inputs": [entry.to_json() for entry in self.inputs],
            "layers": [entry.to_json() for entry in self.layers],
            "outputs": list(self.outputs),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> NetworkSpec:
        return cls(
            data["dialect"],
            tuple(InputSpec.from_json(entry) for entry in data["inputs"]),
            tuple(LayerSpec.from_json(entry) for entry in data["layers"]),
            tuple(data["outputs"]),
        )

    def layer(self, name: str) -> LayerSpec:
        return next(entry for entry in self.layers if entry.name == name)

    def with_layer(self, layer: LayerSpec) -> NetworkSpec:
        """The network with another layer of the same name."""
        return replace(self, layers=tuple(layer if entry.name == layer.name else entry for entry in self.layers))

    def up_to(self, names: Sequence[str]) -> NetworkSpec:
        """The part of the network that computes some layers, which become its outputs."""
        wanted = {owner_of(name) for name in names}
        kept: list[LayerSpec] = []
        for layer in reversed(self.layers):
            if layer.name in wanted:
                kept.append(layer)
                wanted.update(map(owner_of, layer.inputs))
        inputs = tuple(entry for entry in self.inputs if entry.name in wanted)
        return NetworkSpec(self.dialect, inputs, tuple(reversed(kept)), tuple(names))


@dataclass(frozen=True)
class TestSpec:
    """A network, and everything that its results depend on.

    Floating inputs and weights are of type `dtype`; `seed` draws both (`drawing`), unless arrays are given with the request.
    `scale` multiplies floating inputs.
    """

    __test__ = False

    network: NetworkSpec
    seed: int = 0
    dtype: str = "float32"
    phase: Phase = "inference"
    scale: float = 1.0

    def to_json(self) -> Json:
        return {
            "network": self.network.to_json(),
            "seed": self.seed,
            "dtype": self.dtype,
            "phase": self.phase,
            "scale": self.scale,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> TestSpec:
        return cls(NetworkSpec.from_json(data["network"]), data["seed"], data["dtype"], data["phase"], data["scale"])

    @cached_property
    def key(self) -> str:
        """A name of the test that depends on its content alone."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def layers(self) -> tuple[LayerSpec, ...]:
        return self.network.layers


def owner_of(name: str) -> str:
    """The layer that makes a result: `lstm` for `lstm:1`."""
    return name.partition(":")[0]


def read_test(text: str) -> TestSpec:
    """A test from its JSON text."""
    return TestSpec.from_json(cast("dict[str, Json]", json.loads(text)))
