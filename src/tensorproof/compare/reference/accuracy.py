"""`units_of`: what one layer of a correct implementation may be off by, in units of the format's precision at the result's size."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from tensorproof.compare.judging import DEFAULT_UNITS
from tensorproof.compare.reference.activation_functions import is_exact
from tensorproof.compare.reference.layer_table import (
    Accuracy,
    NoReference,
    Shape,
    nested_layer,
    parameters_of,
    reference_of,
    weights_of,
)
from tensorproof.compare.reference.running import walk
from tensorproof.compare.spec import TestSpec

#: Units of a class, and how many more for every square root of the number of terms of a sum.
_FIGURES: Mapping[Accuracy, tuple[float, float]] = {
    Accuracy.EXACT: (0.0, 0.0),
    Accuracy.ROUNDED: (4.0, 0.0),
    Accuracy.FUNCTION: (16.0, 0.0),
    Accuracy.SUM: (8.0, 2.0),
    Accuracy.NORMALISED: (32.0, 4.0),
    Accuracy.RECURRENT: (32.0, 4.0),
}


def accuracy_of(kind: str, parameters: Mapping[str, Any]) -> Accuracy:
    """The class of a layer; of a wrapper that of the layer inside, where that is less exact."""
    accuracy = reference_of(kind).accuracy
    if not isinstance(accuracy, Accuracy):
        accuracy = accuracy(parameters_of(kind, parameters))
    if "layer" in parameters:
        inner = accuracy_of(*nested_layer(kind, parameters["layer"]))
        order = list(Accuracy)
        accuracy = order[max(order.index(accuracy), order.index(inner))]
    return accuracy


#: Terms of a sum where shapes are not known.
_USUAL_TERMS = 64
#: Shapes of the tests that were asked about last, by the test's key: every result of a test asks about the same layers.
_KNOWN: OrderedDict[str, dict[str, list[Shape]]] = OrderedDict()
_KNOWN_LIMIT = 32


def units_of(test: TestSpec, layer_name: str) -> float:
    """What a layer may be off by when its inputs are exact; 0 if it only moves or selects data."""
    layer = test.network.layer(layer_name)
    if test.network.dialect == "onnx":
        from tensorproof.compare.reference.onnx_operators import operator_units

        return operator_units(test, layer)
    try:
        accuracy = accuracy_of(layer.kind, layer.parameters)
        base, growth = _FIGURES[accuracy]
        if growth:
            base += growth * math.sqrt(_terms(layer.kind, layer.parameters, _shapes(test).get(layer_name)))
        if accuracy is not Accuracy.FUNCTION and not is_exact(layer.parameters.get("activation")):
            base += _FIGURES[Accuracy.FUNCTION][0]
        return base
    except NoReference:
        return DEFAULT_UNITS


def _shapes(test: TestSpec) -> dict[str, list[Shape]]:
    """The shapes that go into each layer, as far as the reference gets."""
    if test.key not in _KNOWN:
        try:
            _KNOWN[test.key] = walk(test).shapes
        except NoReference:
            _KNOWN[test.key] = {}
        while len(_KNOWN) > _KNOWN_LIMIT:
            _KNOWN.popitem(last=False)
    return _KNOWN[test.key]


def _terms(kind: str, parameters: Mapping[str, Any], shapes: list[Shape] | None) -> int:
    """The number of terms of the longest sum: what a kernel adds up, or all of a sample where there is none."""
    if not shapes:
        return _USUAL_TERMS
    kernels = [math.prod(weight.shape[:-1]) for weight in weights_of(kind, shapes, parameters) if len(weight.shape) > 1]
    return max(1, *kernels) if kernels else max(1, math.prod(shapes[0][1:]))
