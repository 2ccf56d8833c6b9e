"""Layers that prepare data: scales, bins, categories."""

from __future__ import annotations

import numpy as np

from tensorproof.compare.drawing import Array
from tensorproof.compare.reference.layer_table import REQUIRED, Accuracy, Call, NoReference, Outcome, layer


@layer("Rescaling", accuracy=Accuracy.ROUNDED, parameters={"scale": REQUIRED, "offset": 0.0}, masking="keep")
def rescaling(call: Call) -> Outcome:
    """Times a scale, plus an offset; numbers, or one for each channel."""
    return call.only * np.asarray(call.parameters["scale"], np.float64) + np.asarray(call.parameters["offset"], np.float64)


@layer(
    "Normalization",
    accuracy=Accuracy.NORMALISED,
    parameters={"axis": -1, "mean": None, "variance": None, "invert": False},
    masking="keep",
)
def normalization(call: Call) -> Outcome:
    """By a given mean and variance, or the reverse."""
    parameters = call.parameters
    if parameters["mean"] is None or parameters["variance"] is None:
        raise NoReference(call.kind, "statistics of data that the layer was shown")
    x = call.only
    given = parameters["axis"]
    axes = () if given is None else (given,) if isinstance(given, int) else tuple(given)
    kept = sorted(axis % x.ndim for axis in axes)
    mean, variance = (_along(np.asarray(parameters[name], np.float64), kept, x.ndim) for name in ("mean", "variance"))
    # keras.layers.Normalization: no deviation is taken to be less than keras.backend.epsilon().
    deviation = np.maximum(np.sqrt(variance), 1e-7)
    return mean + x * deviation if parameters["invert"] else (x - mean) / deviation


def _along(values: Array, axes: list[int], rank: int) -> Array:
    shape = [1] * rank
    for axis, size in zip(reversed(axes), reversed(values.shape)):
        shape[axis] = size
    return values.reshape(shape)


def _encoded(call: Call, indices: Array, depth: int) -> Array:
    """Categories as numbers, as rows with a one, or as how often (or whether) each occurs in a sample."""
    mode = call.parameters["output_mode"]
    if call.parameters["sparse"]:
        raise NoReference(call.kind, "sparse results")
    if mode == "int":
        return indices.astype(np.float64)
    if indices.size and (indices.min() < 0 or indices.max() >= depth):
        raise NoReference(call.kind, "a category that is not there")
    if mode == "one_hot":
        if indices.ndim > 1 and indices.shape[-1] == 1:
            indices = indices[..., 0]
        return np.eye(depth)[indices]
    if mode not in ("multi_hot", "count") or indices.ndim != 2:
        raise NoReference(call.kind, f"output_mode={mode!r} for {indices.ndim} axes")
    counts = np.eye(depth)[indices].sum(axis=1)
    return counts if mode == "count" else np.minimum(counts, 1.0)


@layer(
    "CategoryEncoding",
    accuracy=Accuracy.EXACT,
    parameters={"num_tokens": REQUIRED, "output_mode": "multi_hot", "sparse": False},
)
def category_encoding(call: Call) -> Outcome:
    """Categories that are given as numbers."""
    call.parameters.refuse("output_mode", ("multi_hot", "one_hot", "count"))
    return _encoded(call, call.only.astype(np.int64), call.parameters["num_tokens"])


@layer(
    "Discretization",
    accuracy=Accuracy.EXACT,
    parameters={"bin_boundaries": REQUIRED, "num_bins": None, "output_mode": "int", "sparse": False},
)
def discretization(call: Call) -> Outcome:
    """The bin that a number falls in: how many boundaries are not above it. Boundaries are float32 in all backends."""
    call.parameters.refuse("num_bins", (None,))
    boundaries = np.asarray(call.parameters["bin_boundaries"], np.float32).astype(np.float64)
    indices = np.searchsorted(boundaries, call.only, side="right")
    return _encoded(call, indices, len(boundaries) + 1)
