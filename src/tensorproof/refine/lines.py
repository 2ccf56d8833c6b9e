"""Lines below and above functions of one variable, on each interval of an array of intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tensorproof.formats import Array, Format

#: More than what float64 functions and the products of slopes lose, relatively.
_PAD = 2.0**-40


@dataclass(frozen=True, slots=True)
class Lines:
    """lower * x + lower_at <= f(x) <= upper * x + upper_at on each interval."""

    lower: Array
    lower_at: Array
    upper: Array
    upper_at: Array


def relu(low: Array, high: Array) -> Lines:
    """max(x, 0): the chord above; below, whichever of 0 and x leaves the smaller area."""
    positive, negative = low >= 0, high <= 0
    width = np.where(high > low, high - low, 1.0)
    chord = np.clip(high / width, 0.0, 1.0)
    upper = np.where(positive, 1.0, np.where(negative, 0.0, chord))
    lower = np.where(positive, 1.0, np.where(negative, 0.0, (high > -low).astype(np.float64)))
    upper_at = np.where(positive | negative, 0.0, -chord * low + _PAD * (np.abs(low) + np.abs(high)))
    return Lines(lower, np.zeros_like(low), upper, upper_at)


def exp(low: Array, high: Array) -> Lines | None:
    """Convex: the chord above, the tangent in the middle below."""
    if (high > 700.0).any() or not np.isfinite(low).all():
        return None
    at_low, at_high = np.exp(low), np.exp(high)
    width = high - low
    slope = np.where(width > 0, (at_high - at_low) / np.where(width > 0, width, 1.0), 0.0)
    reach = np.maximum(np.abs(low), np.abs(high))
    # Above both ends, so above everything between them, whatever the slope.
    upper_at = np.maximum(at_low - slope * low, at_high - slope * high) + _PAD * (at_high + np.abs(slope) * reach)
    middle = 0.5 * low + 0.5 * high
    tangent = np.exp(middle)
    lower_at = tangent * (1.0 - middle) - _PAD * tangent * (2.0 + 2.0 * reach)
    return Lines(tangent, lower_at, slope, upper_at)


def _parallel(function: Callable[[Array], Array], derivative: Callable[[Array], Array]) -> Callable[[Array, Array], Lines | None]:
    """Increasing functions whose derivative has no minimum inside: f(x) - s x increases for the smaller s of both ends."""

    def lines(low: Array, high: Array) -> Lines | None:
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            return None
        slope = np.minimum(derivative(low), derivative(high)) * (1.0 - 2.0**-20)
        at_low, at_high = function(low), function(high)
        reach = np.maximum(np.abs(low), np.abs(high))
        pad = _PAD * (np.abs(at_low) + np.abs(at_high) + slope * reach)
        return Lines(slope, at_low - slope * low - pad, slope, at_high - slope * high + pad)

    return lines


def _sigmoid(x: Array) -> Array:
    return np.exp(-np.logaddexp(0.0, -x))


def _sigmoid_slope(x: Array) -> Array:
    # s(x) s(-x), so that no digit is lost where s is close to 1.
    return _sigmoid(x) * _sigmoid(-x)


def _tanh_slope(x: Array) -> Array:
    return 4.0 * _sigmoid_slope(2.0 * x)


#: The functions that can be relaxed, by operator.
LINES: dict[str, Callable[[Array, Array], Lines | None]] = {
    "Relu": relu,
    "Exp": exp,
    "Sigmoid": _parallel(_sigmoid, _sigmoid_slope),
    "Tanh": _parallel(np.tanh, _tanh_slope),
}


def _sigmoid_error(format: Format) -> tuple[float, float]:
    # Ten roundings and the last one, relatively; 1 / (1 + exp(-x)) is zero once exp(-x) overflows, where it is 1 / high.
    return 24.0 * format.unit_roundoff, 2.0 / format.high + 2.0 * format.smallest_normal


#: What functions lose whose operators state no error of their own: relative and absolute.
OWN_ERRORS: dict[str, Callable[[Format], tuple[float, float]]] = {"Sigmoid": _sigmoid_error}
