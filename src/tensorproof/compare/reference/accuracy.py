"""`units_of`: what one layer of a correct implementation may be off by, in units of the format's precision at the result's size."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from tensorproof.compare.judging import DEFAULT_UNITS, precision_of
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

#: Units of a class, and how many more for every square root of the number of terms of a sum: rounding errors of a sum in any order
#: grow like a random walk. Measured on keras:torch and keras:tensorflow over the cases of the tests and sums of up to 2,048 terms,
#: the largest is given behind each; the margin is for other orders and for convolutions by transforms (Winograd, FFT).
_FIGURES: Mapping[Accuracy, tuple[float, float]] = {
    Accuracy.EXACT: (0.0, 0.0),  # 0
    Accuracy.ROUNDED: (4.0, 0.0),  # 0.9
    Accuracy.FUNCTION: (16.0, 0.0),  # 2.4
    Accuracy.SUM: (8.0, 2.0),  # 4.0 of 9 terms, 8.4 of 576 terms; 12.4 where weights of an interpolation are computed too
    Accuracy.NORMALISED: (32.0, 4.0),  # 5.4
    Accuracy.RECURRENT: (32.0, 4.0),  # 18.4: tanh as a gate lets errors grow from step to step
}
#: float16 and bfloat16, which are summed up in float32 inside and rounded once for every operation.
_HALF_FIGURES: Mapping[Accuracy, tuple[float, float]] = {
    Accuracy.EXACT: (0.0, 0.0),  # 0
    Accuracy.ROUNDED: (3.0, 0.0),  # 1.0
    Accuracy.FUNCTION: (6.0, 0.0),  # 2.0
    Accuracy.SUM: (4.0, 0.25),  # 2.3
    Accuracy.NORMALISED: (8.0, 0.25),  # 3.3
    Accuracy.RECURRENT: (24.0, 0.5),  # 16.4: the same gate
}
#: Formats whose distance from 1 to the next number is larger are half precision, or less.
_HALF_PRECISION = 1e-4


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
    figures = _HALF_FIGURES if precision_of(test.dtype)[0] > _HALF_PRECISION else _FIGURES
    if test.network.dialect == "onnx":
        from tensorproof.compare.reference.onnx_operators import operator_accuracy, operator_terms

        base, growth = figures[operator_accuracy(layer)]
        return base + growth * math.sqrt(operator_terms(test, layer, _USUAL_TERMS))
    try:
        accuracy = accuracy_of(layer.kind, layer.parameters)
        base, growth = figures[accuracy]
        if accuracy is Accuracy.ROUNDED:
            # Merging layers round once for each operand after the first.
            base *= max(1, len(layer.inputs) - 1)
        if growth:
            base += growth * math.sqrt(_terms(layer.kind, layer.parameters, _shapes(test).get(layer_name)))
        if accuracy is not Accuracy.FUNCTION and not is_exact(layer.parameters.get("activation")):
            base += figures[Accuracy.FUNCTION][0]
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
