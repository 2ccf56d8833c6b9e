"""Changes of a network that keep it valid: other parameters, layers put in, taken out or doubled (AUDEE's network level)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tensorproof.compare.catalogue.covering import covering_rows, values_of
from tensorproof.compare.catalogue.layer_kind import Shape, same
from tensorproof.compare.catalogue.networks import usable
from tensorproof.compare.catalogue.table import kinds
from tensorproof.compare.catalogue.tracing import shapes_of
from tensorproof.compare.spec import LayerSpec, NetworkSpec

#: Attempts before a network is left as it is; most shapes are fixed by what follows.
_TRIES = 60
#: Elements that a result may have.
_LARGEST = 16384


def changed_network(network: NetworkSpec, random: np.random.Generator, changes: int = 2) -> NetworkSpec:
    """The network after some changes; its inputs stay."""
    verbs = (_change, _change, _insert, _remove, _double)
    for _ in range(changes):
        for _ in range(_TRIES):
            candidate = verbs[int(random.integers(len(verbs)))](network, random)
            if candidate is None:
                continue
            shapes = shapes_of(candidate)
            if shapes is not None and all(0 < math.prod(shape) <= _LARGEST for shape in shapes.values()):
                network = candidate
                break
    return network


def _change(network: NetworkSpec, random: np.random.Generator) -> NetworkSpec | None:
    """One parameter of one layer."""
    layer = _any_layer(network, random)
    kind = kinds(network.dialect)[layer.kind]
    names = [name for name in kind.parameters if not name.startswith(("return_", "@"))]
    if not names:
        return None
    name = names[int(random.integers(len(names)))]
    legal = kind.parameters[name].legal
    value = legal[int(random.integers(len(legal)))]
    if same(value, kind.arguments(layer.parameters)[name]):
        return None
    return network.with_layer(layer.with_parameters(kind.given({**layer.parameters, name: value})))


def _insert(network: NetworkSpec, random: np.random.Generator) -> NetworkSpec | None:
    """A layer that keeps the shape, after another one."""
    shapes: Mapping[str, Shape] | None = shapes_of(network)
    layer = _any_layer(network, random)
    if shapes is None or layer.name in network.outputs:
        return None
    candidates = usable(network.dialect)
    kind = candidates[int(random.integers(len(candidates)))]
    rows = covering_rows(kind, 0)
    parameters = values_of(kind, rows[int(random.integers(len(rows)))])
    if kind.result_shapes([shapes[layer.name]], parameters) != (shapes[layer.name],):
        return None
    return _followed(network, layer, LayerSpec(_fresh(network), kind.name, kind.given(parameters), (layer.name,)))


def _double(network: NetworkSpec, random: np.random.Generator) -> NetworkSpec | None:
    """A layer once more on its own result."""
    layer = _any_layer(network, random)
    if layer.name in network.outputs or len(layer.inputs) != 1:
        return None
    return _followed(network, layer, replace(layer, name=_fresh(network), inputs=(layer.name,)))


def _remove(network: NetworkSpec, random: np.random.Generator) -> NetworkSpec | None:
    """A layer left out; what used its result uses its input."""
    layer = _any_layer(network, random)
    if layer.name in network.outputs or len(layer.inputs) != 1 or len(network.layers) < 2:
        return None
    kept = tuple(_renamed(entry, layer.name, layer.inputs[0]) for entry in network.layers if entry.name != layer.name)
    return replace(network, layers=kept)


def _followed(network: NetworkSpec, layer: LayerSpec, new: LayerSpec) -> NetworkSpec:
    place = network.layers.index(layer) + 1
    rest = tuple(_renamed(entry, layer.name, new.name) for entry in network.layers[place:])
    return replace(network, layers=(*network.layers[:place], new, *rest))


def _renamed(layer: LayerSpec, old: str, new: str) -> LayerSpec:
    return replace(layer, inputs=tuple(new if name == old else name for name in layer.inputs))


def _any_layer(network: NetworkSpec, random: np.random.Generator) -> LayerSpec:
    return network.layers[int(random.integers(len(network.layers)))]


def _fresh(network: NetworkSpec) -> str:
    taken = {layer.name for layer in network.layers}
    return next(name for name in (f"added{index}" for index in range(len(taken) + 1)) if name not in taken)
