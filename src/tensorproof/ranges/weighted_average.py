"""Averages weighted by a softmax: exact bounds over boxes of logits and of values.

sum(w v) / sum(w) with every weight in an interval of its own is a linear fractional program. Its maximum has the largest weights
on the values above some threshold and the smallest on the others, so that sorting the values and two running sums find it.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tensorproof.formats import Array

#: Weights are kept below exp(this); what is lost is far below the last digit of any result.
_LARGEST_EXPONENT = 600.0
_SMALLEST_WEIGHT = 1e-300


def mixed(
    low: Array,
    high: Array,
    maskable: npt.NDArray[np.bool_],
    masked: npt.NDArray[np.bool_],
    value_low: Array,
    value_high: Array,
    counts: Array,
) -> tuple[Array, Array]:
    """Bounds of the average of values, weighted by the softmax of logits.

    Logits lie in [low, high], of shape (..., queries, keys), or are -inf where `maskable` (surely where `masked`); at least
    one is a number. Values lie in [value_low, value_high], of shape (..., keys, features). A key stands for `counts` keys,
    each with a logit and a value of its own.
    """
    certain = np.where(maskable, -np.inf, low).max(axis=-1, keepdims=True)
    anchor = np.where(np.isfinite(certain), certain, np.where(masked, -np.inf, high).max(axis=-1, keepdims=True))
    anchor = np.where(np.isfinite(anchor), anchor, 0.0)
    lightest = np.where(maskable, 0.0, np.exp(np.minimum(low - anchor, _LARGEST_EXPONENT)))
    heaviest = np.maximum(np.exp(np.minimum(high - anchor, _LARGEST_EXPONENT)), np.maximum(lightest, _SMALLEST_WEIGHT))
    heaviest = np.where(masked, 0.0, heaviest)
    lightest, heaviest = lightest * counts, heaviest * counts
    size = np.maximum(np.abs(value_low), np.abs(value_high)).max(axis=-2, keepdims=True)
    slack = 2.0**-44 * size
    return (
        -_largest_average(lightest, heaviest, -value_low) - slack,
        _largest_average(lightest, heaviest, value_high) + slack,
    )


def _largest_average(lightest: Array, heaviest: Array, values: Array) -> Array:
    """max sum(w v) / sum(w) over weights between both bounds, for each query and feature."""
    order = np.argsort(-values, axis=-2, kind="stable")
    values = np.take_along_axis(values, order, axis=-2)[..., None, :, :]
    features = values.shape[-1]

    def sorted_weights(weights: Array) -> Array:
        wide = np.broadcast_to(weights[..., None], (*weights.shape, features))
        index = np.broadcast_to(order[..., None, :, :], wide.shape)
        return np.take_along_axis(wide, index, axis=-2)

    heavy, light = sorted_weights(heaviest), sorted_weights(lightest)
    above, above_weight = np.cumsum(heavy * values, axis=-2), np.cumsum(heavy, axis=-2)
    below, below_weight = _after(light * values), _after(light)
    weight = above_weight + below_weight
    average = np.where(weight > 0, (above + below) / weight, -np.inf)
    return average.max(axis=-2)


def _after(terms: Array) -> Array:
    """The sum of all later terms along the keys."""
    reverse = np.cumsum(terms[..., ::-1, :], axis=-2)[..., ::-1, :]
    return np.concatenate([reverse[..., 1:, :], np.zeros_like(reverse[..., :1, :])], axis=-2)


def work(*shapes: tuple[int, ...]) -> int:
    """The number of terms that `mixed` handles for logits and values of these shapes."""
    logits, values = shapes
    return math.prod(np.broadcast_shapes(logits[:-2], values[:-2])) * logits[-2] * logits[-1] * values[-1]
