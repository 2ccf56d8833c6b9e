"""Shapes of a whole network by arithmetic alone."""

from __future__ import annotations

from collections.abc import Mapping

from tensorproof.compare.catalogue.layer_kind import Shape
from tensorproof.compare.catalogue.table import kinds
from tensorproof.compare.spec import NetworkSpec


def shapes_of(network: NetworkSpec) -> Mapping[str, Shape] | None:
    """The shape of every input and result by name; None if some layer must refuse its inputs, or is not in the catalogue."""
    known = kinds(network.dialect)
    masks = {entry.name for entry in network.inputs if entry.dtype == "bool"}
    found: dict[str, Shape] = {entry.name: entry.shape for entry in network.inputs}
    for layer in network.layers:
        kind = known.get(layer.kind)
        if kind is None or any(name not in found for name in layer.inputs):
            return None
        data = [found[name] for name in layer.inputs if name not in masks]
        results = kind.result_shapes(data or [found[name] for name in layer.inputs], layer.parameters)
        if results is None:
            return None
        for index, shape in enumerate(results):
            found[f"{layer.name}:{index}" if index else layer.name] = shape
    return found if all(name in found for name in network.outputs) else None
