"""Layers that make one result of several inputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from tensorproof.compare.drawing import Array
from tensorproof.compare.reference.layer_table import REQUIRED, Accuracy, Call, NoReference, Outcome, layer


def _aligned(call: Call) -> list[Array]:
    """Inputs of fewer axes get new ones after the batch axis."""
    if len(call.inputs) < 1 or len({x.shape[:1] for x in call.inputs}) > 1:
        raise NoReference(call.kind, f"inputs of shapes {[x.shape for x in call.inputs]}")
    most = max(x.ndim for x in call.inputs)
    return [x.reshape(x.shape[:1] + (1,) * (most - x.ndim) + x.shape[1:]) for x in call.inputs]


def _any_mask(call: Call) -> Array | None:
    """A step counts if one of the inputs counts it; inputs without a mask make it void."""
    if any(mask is None for mask in call.masks) or not call.masks:
        return None
    return reduce(np.logical_or, [mask for mask in call.masks if mask is not None])


def _folded(call: Call, operation: Callable[[Array, Array], Array]) -> Array:
    return reduce(operation, _aligned(call))


@layer("Add", accuracy=Accuracy.ROUNDED, masking=_any_mask)
def add(call: Call) -> Outcome:
    """The sum."""
    return _folded(call, np.add)


@layer("Subtract", accuracy=Accuracy.ROUNDED, masking=_any_mask)
def subtract(call: Call) -> Outcome:
    """The first less the second."""
    if len(call.inputs) != 2:
        raise NoReference(call.kind, f"{len(call.inputs)} inputs")
    return _folded(call, np.subtract)


@layer("Multiply", accuracy=Accuracy.ROUNDED, masking=_any_mask)
def multiply(call: Call) -> Outcome:
    """The product."""
    if any(mask is not None for mask in call.masks):
        raise NoReference(call.kind, "a mask")
    return _folded(call, np.multiply)


@layer("Average", accuracy=Accuracy.ROUNDED, masking=_any_mask)
def average(call: Call) -> Outcome:
    """The mean."""
    return _folded(call, np.add) / len(call.inputs)


@layer("Maximum", accuracy=Accuracy.EXACT, masking=_any_mask)
def maximum(call: Call) -> Outcome:
    """The larger of each pair of elements."""
    if any(mask is not None for mask in call.masks):
        raise NoReference(call.kind, "a mask")
    return _folded(call, np.maximum)


@layer("Minimum", accuracy=Accuracy.EXACT, masking=_any_mask)
def minimum(call: Call) -> Outcome:
    """The smaller of each pair of elements."""
    if any(mask is not None for mask in call.masks):
        raise NoReference(call.kind, "a mask")
    return _folded(call, np.minimum)


def _concatenated_mask(call: Call) -> Array | None:
    if all(mask is None for mask in call.masks):
        return None
    full = [
        np.ones(x.shape, bool) if mask is None else np.broadcast_to(mask[..., None] if mask.ndim < x.ndim else mask, x.shape)
        for x, mask in zip(call.inputs, call.masks, strict=True)
    ]
    return np.asarray(np.concatenate(full, axis=call.parameters["axis"]).any(axis=-1))


@layer("Concatenate", accuracy=Accuracy.EXACT, parameters={"axis": -1}, masking=_concatenated_mask)
def concatenate(call: Call) -> Outcome:
    """One after another along an axis."""
    return np.concatenate(call.inputs, axis=call.parameters["axis"])


@layer("Dot", accuracy=Accuracy.SUM, parameters={"axes": REQUIRED, "normalize": False})
def dot(call: Call) -> Outcome:
    """Sample by sample, the sum of products over one axis of each; the other axes of the first come first."""
    first, second = call.inputs
    given = call.parameters["axes"]
    chosen = (given, given) if isinstance(given, int) else tuple(given)
    axes = [axis % x.ndim for axis, x in zip(chosen, call.inputs, strict=True)]
    if 0 in axes:
        raise NoReference(call.kind, "products over the batch axis")
    if call.parameters["normalize"]:
        first, second = (_normal(x, axis) for x, axis in zip(call.inputs, axes, strict=True))
    moved = np.moveaxis(first, axes[0], -1), np.moveaxis(second, axes[1], -1)
    samples = [np.tensordot(a, b, axes=(-1, -1)) for a, b in zip(*moved, strict=True)]
    result = np.stack(samples) if samples else np.zeros((0, *moved[0].shape[1:-1], *moved[1].shape[1:-1]))
    # Of two vectors per sample one number is left, which keeps an axis.
    return result[:, None] if result.ndim == 1 else result


def _normal(x: Array, axis: int) -> Array:
    return x / np.maximum(np.sqrt(np.sum(np.square(x), axis=axis, keepdims=True)), 1e-7)
