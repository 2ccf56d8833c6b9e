"""Normalisation: over the batch, over axes of a sample, over groups of channels, to unit length, by the root mean square."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorproof.compare.drawing import Array
from tensorproof.compare.reference.layer_table import (
    REQUIRED,
    Accuracy,
    Call,
    NoReference,
    Outcome,
    Parameters,
    Shape,
    Weight,
    compute,
    layer,
    nested_layer,
    weights_of,
)


def _axes(kind: str, given: object, rank: int) -> tuple[int, ...]:
    """One or several axes as non-negative numbers, in order."""
    numbers = (given,) if isinstance(given, int) else given
    if not isinstance(numbers, Sequence) or not all(isinstance(axis, int) and -rank <= axis < rank for axis in numbers):
        raise NoReference(kind, f"axis {given!r} of {rank}")
    return tuple(sorted(int(axis) % rank for axis in numbers))


def _spread(weight: Array, axes: tuple[int, ...], shape: Shape) -> Array:
    """A weight over some axes, so that it can be multiplied with an array of a shape."""
    return weight.reshape([shape[axis] if axis in axes else 1 for axis in range(len(shape))])


def _batch_weights(shapes: list[Shape], parameters: Parameters) -> list[Weight]:
    shape = (shapes[0][parameters["axis"]],)
    names = ["gamma"] * bool(parameters["scale"]) + ["beta"] * bool(parameters["center"]) + ["moving_mean", "moving_variance"]
    return [Weight(name, shape) for name in names]


def _affine_weights(shapes: list[Shape], parameters: Parameters) -> list[Weight]:
    axes = _axes(parameters.kind, parameters["axis"], len(shapes[0]))
    shape = tuple(shapes[0][axis] for axis in axes)
    names = ["gamma"] * bool(parameters["scale"]) + ["beta"] * bool(parameters["center"])
    return [Weight(name, shape) for name in names]


def _moments(call: Call, x: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """Mean and variance over all elements: no correction of the variance."""
    mean, variance = x.mean(axis=axes, keepdims=True), x.var(axis=axes, keepdims=True)
    return call.rounded("mean", mean), call.rounded("variance", variance)


def _scaled(call: Call, normal: Array, axes: tuple[int, ...]) -> Array:
    """Times gamma, plus beta, as far as the layer has them."""
    weights = list(call.weights)
    if call.parameters["scale"]:
        normal = normal * _spread(weights.pop(0), axes, normal.shape)
    if call.parameters["center"]:
        normal = normal + _spread(weights.pop(0), axes, normal.shape)
    return normal


_AFFINE = {"axis": -1, "epsilon": 1e-3, "center": True, "scale": True}


@layer(
    "BatchNormalization",
    accuracy=Accuracy.NORMALISED,
    parameters={**_AFFINE, "momentum": 0.99, "renorm": False, "synchronized": False, "trainable": True},
    weights=_batch_weights,
    masking="keep",
)
def batch_normalization(call: Call) -> Outcome:
    """By the moving mean and variance; in training by those of the batch."""
    call.parameters.refuse("renorm", (False,))
    call.parameters.refuse("synchronized", (False,))
    x = call.only
    axes = _axes(call.kind, call.parameters["axis"], x.ndim)
    if call.is_training and call.parameters["trainable"]:
        if call.mask is not None:
            raise NoReference(call.kind, "training with a mask")
        others = tuple(axis for axis in range(x.ndim) if axis not in axes)
        mean, variance = _moments(call, x, others)
    else:
        mean, variance = (_spread(weight, axes, x.shape) for weight in call.weights[-2:])
    return _scaled(call, (x - mean) / np.sqrt(variance + call.parameters["epsilon"]), axes)


@layer("LayerNormalization", accuracy=Accuracy.NORMALISED, parameters=_AFFINE, weights=_affine_weights, masking="keep")
def layer_normalization(call: Call) -> Outcome:
    """Mean and variance over the axes; gamma and beta span the same axes."""
    x = call.only
    axes = _axes(call.kind, call.parameters["axis"], x.ndim)
    mean, variance = _moments(call, x, axes)
    return _scaled(call, (x - mean) / np.sqrt(variance + call.parameters["epsilon"]), axes)


@layer(
    "GroupNormalization",
    accuracy=Accuracy.NORMALISED,
    parameters={**_AFFINE, "groups": 32},
    weights=_affine_weights,
    masking="keep",
)
def group_normalization(call: Call) -> Outcome:
    """Mean and variance of every sample over groups of neighbouring channels and everything else."""
    x = call.only
    axes = _axes(call.kind, call.parameters["axis"], x.ndim)
    if len(axes) != 1 or axes == (0,):
        raise NoReference(call.kind, f"axis {call.parameters['axis']!r}")
    last = np.moveaxis(x, axes[0], -1)
    groups = last.shape[-1] if call.parameters["groups"] == -1 else call.parameters["groups"]
    if groups < 1 or last.shape[-1] % groups:
        raise NoReference(call.kind, f"{groups} groups of {last.shape[-1]} channels")
    apart = last.reshape(*last.shape[:-1], groups, last.shape[-1] // groups)
    over = tuple(axis for axis in range(1, apart.ndim) if axis != apart.ndim - 2)
    mean, variance = _moments(call, apart, over)
    normal = (apart - mean) / np.sqrt(variance + call.parameters["epsilon"])
    return _scaled(call, np.moveaxis(normal.reshape(last.shape), -1, axes[0]), axes)


@layer("UnitNormalization", accuracy=Accuracy.FUNCTION, parameters={"axis": -1}, masking="keep")
def unit_normalization(call: Call) -> Outcome:
    """Divided by the Euclidean length; zeros stay zeros."""
    axes = _axes(call.kind, call.parameters["axis"], call.only.ndim)
    length = np.sqrt(np.sum(np.square(call.only), axis=axes, keepdims=True))
    # keras.ops.normalize: no length is taken to be less than 1e-12.
    return call.only / np.maximum(length, 1e-12)


def _scale_weight(shapes: list[Shape], parameters: Parameters) -> list[Weight]:
    axes = _axes(parameters.kind, parameters["axis"], len(shapes[0]))
    return [Weight("scale", tuple(shapes[0][axis] for axis in axes))]


@layer("RMSNormalization", accuracy=Accuracy.FUNCTION, parameters={"axis": -1, "epsilon": 1e-6}, weights=_scale_weight)
def rms_normalization(call: Call) -> Outcome:
    """Divided by the root of the mean square over the axes, times a scale that spans the same axes."""
    x = call.only
    axes = _axes(call.kind, call.parameters["axis"], x.ndim)
    size = np.sqrt(np.mean(np.square(x), axis=axes, keepdims=True) + call.parameters["epsilon"])
    return x / size * _spread(call.weights[0], axes, x.shape)


def _spectral_weights(shapes: list[Shape], parameters: Parameters) -> list[Weight]:
    kind, given = nested_layer(parameters.kind, parameters["layer"])
    inner = weights_of(kind, shapes, given)
    if not inner or inner[0].name not in ("kernel", "embeddings"):
        raise NoReference(parameters.kind, f"{kind} has no kernel")
    # The kernel is the wrapper's own weight too, and comes before what the wrapper adds.
    return [inner[0], Weight("vector_u", (1, inner[0].shape[-1])), *inner[1:]]


@layer(
    "SpectralNormalization",
    accuracy=Accuracy.SUM,
    parameters={"layer": REQUIRED, "power_iterations": 1},
    weights=_spectral_weights,
)
def spectral_normalization(call: Call) -> Outcome:
    """The inner layer; in training its kernel is divided by its largest singular value, found by power iteration."""
    kind, given = nested_layer(call.kind, call.parameters["layer"])
    kernel, left, *others = call.weights
    if call.is_training and kernel.any():
        matrix = kernel.reshape(-1, kernel.shape[-1])
        right = left
        for _ in range(call.parameters["power_iterations"]):
            right = _unit(left @ matrix.T)
            left = _unit(right @ matrix)
        kernel = kernel / (right @ matrix @ left.T)
    results, _ = compute(
        kind, call.inputs, given, [kernel, *others], call.masks, is_training=call.is_training, disturb=call.disturb
    )
    return results


def _unit(x: Array) -> Array:
    return x / max(float(np.sqrt(np.sum(np.square(x)))), 1e-7)
