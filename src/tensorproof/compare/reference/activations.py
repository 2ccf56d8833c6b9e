"""Activation layers."""

from __future__ import annotations

import numpy as np

from tensorproof.compare.reference.activation_functions import activate, elu, is_exact, relu, softmax
from tensorproof.compare.reference.layer_table import (
    REQUIRED,
    Accuracy,
    Call,
    NoReference,
    Outcome,
    Parameters,
    Shape,
    Weight,
    layer,
)


def _named(parameters: Parameters) -> Accuracy:
    return Accuracy.EXACT if is_exact(parameters["activation"]) else Accuracy.FUNCTION


@layer("Activation", accuracy=_named, parameters={"activation": REQUIRED}, masking="keep")
def activation(call: Call) -> Outcome:
    """A function of `keras.activations` by name."""
    return activate(call.kind, call.parameters["activation"], call.only)


def _relu_accuracy(parameters: Parameters) -> Accuracy:
    """Slopes are multiplied with; a maximum has to be rounded to the format first."""
    plain = not parameters["negative_slope"] and parameters["max_value"] is None
    return Accuracy.EXACT if plain else Accuracy.ROUNDED


@layer(
    "ReLU",
    accuracy=_relu_accuracy,
    parameters={"max_value": None, "negative_slope": 0.0, "threshold": 0.0},
    masking="keep",
)
def relu_layer(call: Call) -> Outcome:
    """Zero below the threshold, or a slope; not above `max_value`, which has to be above the threshold."""
    parameters = call.parameters
    if parameters["max_value"] is not None and parameters["max_value"] < parameters["threshold"]:
        raise NoReference(call.kind, f"max_value {parameters['max_value']} below the threshold {parameters['threshold']}")
    return relu(call.only, parameters["negative_slope"], parameters["max_value"], parameters["threshold"])


@layer("LeakyReLU", accuracy=Accuracy.ROUNDED, parameters={"negative_slope": 0.3}, masking="keep")
def leaky_relu_layer(call: Call) -> Outcome:
    """A slope below zero."""
    return relu(call.only, call.parameters["negative_slope"])


def _prelu_weights(shapes: list[Shape], parameters: Parameters) -> list[Weight]:
    shape = list(shapes[0][1:])
    shared = parameters["shared_axes"] or ()
    for axis in (shared,) if isinstance(shared, int) else shared:
        shape[axis - 1] = 1
    return [Weight("alpha", tuple(shape))]


@layer("PReLU", accuracy=Accuracy.ROUNDED, parameters={"shared_axes": None}, weights=_prelu_weights, masking="keep")
def prelu_layer(call: Call) -> Outcome:
    """A slope below zero that is a weight."""
    return np.where(call.only > 0, call.only, call.weights[0] * call.only)


@layer("ELU", accuracy=Accuracy.FUNCTION, parameters={"alpha": 1.0}, masking="keep")
def elu_layer(call: Call) -> Outcome:
    """An exponential below zero."""
    return elu(call.only, call.parameters["alpha"])


@layer("Softmax", accuracy=Accuracy.FUNCTION, parameters={"axis": -1}, masking="keep")
def softmax_layer(call: Call) -> Outcome:
    """Exponentials divided by their sum, over one or several axes."""
    if call.mask is not None:
        raise NoReference(call.kind, "a mask")
    axis = call.parameters["axis"]
    return softmax(call.only, axis if isinstance(axis, int) else tuple(axis))
