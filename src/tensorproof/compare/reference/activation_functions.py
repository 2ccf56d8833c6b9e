"""Activation functions of `keras.activations`, by name, in float64. Formulas are those of the Keras documentation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tensorproof.compare.drawing import Array
from tensorproof.compare.reference.layer_table import NoReference

_erfc: Any = np.frompyfunc(math.erfc, 1, 1)

#: Klambauer et al. 2017, "Self-Normalizing Neural Networks".
_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


def relu(x: Array, negative_slope: float = 0.0, max_value: float | None = None, threshold: float = 0.0) -> Array:
    """`max_value` from there on, x from `threshold` on, `negative_slope * (x - threshold)` below."""
    # Where x is infinite and the slope 0, the product must be 0.
    below = negative_slope * (x - threshold) if negative_slope else np.zeros_like(x)
    result = np.where(x >= threshold, x, below)
    if max_value is not None:
        result = np.where(x >= max_value, max_value, result)
    return np.where(np.isnan(x), np.nan, result)


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), with the exponential of the negative magnitude only."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0 / (1.0 + small), small / (1.0 + small))


def softplus(x: Array) -> Array:
    """log(1 + exp(x))."""
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def elu(x: Array, alpha: float = 1.0) -> Array:
    """X, or alpha * (exp(x) - 1) below zero."""
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0.0)))


def softmax(x: Array, axis: int | tuple[int, ...] = -1) -> Array:
    """Exponentials divided by their sum."""
    raised = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return raised / np.sum(raised, axis=axis, keepdims=True)


def log_softmax(x: Array, axis: int = -1) -> Array:
    """The logarithm of `softmax`."""
    moved = x - np.max(x, axis=axis, keepdims=True)
    return moved - np.log(np.sum(np.exp(moved), axis=axis, keepdims=True))


def sparsemax(x: Array) -> Array:
    """The nearest point of the probability simplex (Martins and Astudillo 2016, algorithm 1)."""
    ordered = -np.sort(-x, axis=-1)
    totals = np.cumsum(ordered, axis=-1)
    ranks = np.arange(1, x.shape[-1] + 1)
    count = np.sum(1 + ranks * ordered > totals, axis=-1, keepdims=True)
    threshold = (np.take_along_axis(totals, count - 1, axis=-1) - 1) / count
    return np.maximum(x - threshold, 0.0)


def gelu(x: Array) -> Array:
    """X times the normal distribution function; `keras.activations.gelu` is the exact one unless told otherwise."""
    return 0.5 * x * np.asarray(_erfc(-x / math.sqrt(2.0)), np.float64)


def glu(x: Array) -> Array:
    """The first half of the last axis, gated by the second."""
    first, second = np.split(x, 2, axis=-1)
    return first * sigmoid(second)


def squareplus(x: Array, b: float = 4.0) -> Array:
    """(x + sqrt(x² + b)) / 2, without the cancellation at negative x."""
    root = np.sqrt(x * x + b)
    return np.where(x >= 0, (x + root) / 2, b / (2 * (root - np.minimum(x, 0.0))))


def hard_sigmoid(x: Array) -> Array:
    """0 up to -3, 1 from 3 on, straight between."""
    return np.clip(x + 3.0, 0.0, 6.0) / 6.0


_FUNCTIONS: Mapping[str, Callable[[Array], Array]] = {
    "linear": lambda x: x,
    "relu": relu,
    "relu6": lambda x: np.clip(x, 0.0, 6.0),
    "leaky_relu": lambda x: relu(x, 0.2),
    "elu": elu,
    "celu": elu,
    "selu": lambda x: _SELU_SCALE * elu(x, _SELU_ALPHA),
    "gelu": gelu,
    "glu": glu,
    "silu": lambda x: x * sigmoid(x),
    "swish": lambda x: x * sigmoid(x),
    "mish": lambda x: x * np.tanh(softplus(x)),
    "softplus": softplus,
    "softsign": lambda x: x / (1.0 + np.abs(x)),
    "softmax": softmax,
    "log_softmax": log_softmax,
    "sparsemax": sparsemax,
    "sigmoid": sigmoid,
    "log_sigmoid": lambda x: -softplus(-x),
    "hard_sigmoid": hard_sigmoid,
    "hard_silu": lambda x: x * hard_sigmoid(x),
    "hard_swish": lambda x: x * hard_sigmoid(x),
    "hard_tanh": lambda x: np.clip(x, -1.0, 1.0),
    "hard_shrink": lambda x: np.where(np.abs(x) > 0.5, x, 0.0),
    "soft_shrink": lambda x: np.where(x > 0.5, x - 0.5, np.where(x < -0.5, x + 0.5, 0.0)),
    "sparse_plus": lambda x: np.where(x <= -1, 0.0, np.where(x < 1, 0.25 * (x + 1) ** 2, x)),
    "sparse_sigmoid": lambda x: np.clip(0.5 * (x + 1), 0.0, 1.0),
    "squareplus": squareplus,
    "tanh": np.tanh,
    "tanh_shrink": lambda x: x - np.tanh(x),
    "exponential": np.exp,
}

#: Functions that pick their result from what is there already.
_EXACT = frozenset({"linear", "relu", "relu6", "hard_tanh", "hard_shrink"})


def activation_names() -> tuple[str, ...]:
    """All activations that have a reference."""
    return tuple(_FUNCTIONS)


def is_exact(name: object) -> bool:
    """Whether an activation rounds nothing."""
    return name is None or name in _EXACT


def activate(kind: str, name: object, x: Array) -> Array:
    """Apply an activation by name; None is none."""
    if name is None:
        return x
    if not isinstance(name, str) or name not in _FUNCTIONS:
        raise NoReference(kind, f"activation {name!r}")
    return _FUNCTIONS[name](x)
