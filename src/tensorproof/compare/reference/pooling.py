"""Pooling: largest and mean of windows, of everything, and of a given number of parts, in one to three dimensions."""

from __future__ import annotations

import numpy as np

from tensorproof.compare.drawing import Array
from tensorproof.compare.reference.convolutions import channels_as_given, channels_last, rank_of, windows_of
from tensorproof.compare.reference.layer_table import REQUIRED, Accuracy, Call, NoReference, Outcome, layer

_WINDOW = {"strides": None, "padding": "valid", "data_format": None}


def _windows(call: Call, fill: float, x: Array | None = None) -> Array:
    parameters = call.parameters
    rank = rank_of(call.kind)
    parameters.refuse("padding", ("valid", "same"))
    window = parameters.sizes("pool_size", rank)
    strides = window if parameters["strides"] is None else parameters.sizes("strides", rank)
    given = channels_last(call.only, parameters.is_channels_first) if x is None else x
    return windows_of(given, window, strides, (1,) * rank, parameters["padding"], fill)


def _inner(call: Call) -> tuple[int, ...]:
    return tuple(range(-rank_of(call.kind), 0))


@layer(
    *(f"{name}{rank}D" for name in ("MaxPooling", "MaxPool") for rank in (1, 2, 3)),
    accuracy=Accuracy.EXACT,
    parameters={**_WINDOW, "pool_size": 2},
)
def max_pooling(call: Call) -> Outcome:
    """The largest of every window; padding is never the largest."""
    result = np.max(_windows(call, -np.inf), axis=_inner(call))
    return channels_as_given(result, call.parameters.is_channels_first)


@layer(
    *(f"{name}{rank}D" for name in ("AveragePooling", "AvgPool") for rank in (1, 2, 3)),
    accuracy=Accuracy.SUM,
    parameters={**_WINDOW, "pool_size": REQUIRED},
)
def average_pooling(call: Call) -> Outcome:
    """The mean of every window; padding does not count."""
    is_first = call.parameters.is_channels_first
    ones = np.ones_like(channels_last(call.only, is_first))
    totals = np.sum(_windows(call, 0.0), axis=_inner(call))
    counts = np.sum(_windows(call, 0.0, ones), axis=_inner(call))
    return channels_as_given(totals / counts, is_first)


_GLOBAL = {"data_format": None, "keepdims": False}


def _space(call: Call) -> tuple[int, ...]:
    rank = rank_of(call.kind)
    start = 2 if call.parameters.is_channels_first else 1
    if call.only.ndim != rank + 2:
        raise NoReference(call.kind, f"an input of {call.only.ndim} axes")
    return tuple(range(start, start + rank))


@layer(
    *(f"{name}{rank}D" for name in ("GlobalMaxPooling", "GlobalMaxPool") for rank in (1, 2, 3)),
    accuracy=Accuracy.EXACT,
    parameters=_GLOBAL,
)
def global_max_pooling(call: Call) -> Outcome:
    """The largest of every channel."""
    return np.max(call.only, axis=_space(call), keepdims=bool(call.parameters["keepdims"]))


@layer(
    *(f"{name}{rank}D" for name in ("GlobalAveragePooling", "GlobalAvgPool") for rank in (1, 2, 3)),
    accuracy=Accuracy.SUM,
    parameters=_GLOBAL,
)
def global_average_pooling(call: Call) -> Outcome:
    """The mean of every channel; in one dimension over the steps that the mask leaves."""
    space, keepdims = _space(call), bool(call.parameters["keepdims"])
    if call.mask is not None and rank_of(call.kind) == 1:
        kept = np.expand_dims(call.mask, 1 if call.parameters.is_channels_first else 2)
        if not kept.any(axis=space).all():
            raise NoReference(call.kind, "a sample of which all steps are masked")
        total = np.sum(np.where(kept, call.only, 0.0), axis=space, keepdims=keepdims)
        return total / np.sum(kept, axis=space, keepdims=keepdims)
    return np.mean(call.only, axis=space, keepdims=keepdims)


def _parts(call: Call) -> Array:
    """Reduce axis by axis to `output_size` parts; part i of n runs from floor(i size / n) to ceil((i + 1) size / n)."""
    rank = rank_of(call.kind)
    sizes = call.parameters.sizes("output_size", rank)
    if min(sizes) < 1:
        raise NoReference(call.kind, f"output_size {sizes}")
    reduce = np.max if "Max" in call.kind else np.mean
    result = channels_last(call.only, call.parameters.is_channels_first)
    for axis, count in enumerate(sizes, start=1):
        size = result.shape[axis]
        bounds = [(index * size // count, -(-(index + 1) * size // count)) for index in range(count)]
        result = np.stack([reduce(np.take(result, range(a, b), axis=axis), axis=axis) for a, b in bounds], axis=axis)
    return channels_as_given(result, call.parameters.is_channels_first)


_ADAPTIVE = {"output_size": REQUIRED, "data_format": None}


@layer(*(f"AdaptiveMaxPooling{rank}D" for rank in (1, 2, 3)), accuracy=Accuracy.EXACT, parameters=_ADAPTIVE)
def adaptive_max_pooling(call: Call) -> Outcome:
    """The largest of every part."""
    return _parts(call)


@layer(*(f"AdaptiveAveragePooling{rank}D" for rank in (1, 2, 3)), accuracy=Accuracy.SUM, parameters=_ADAPTIVE)
def adaptive_average_pooling(call: Call) -> Outcome:
    """The mean of every part."""
    return _parts(call)
