"""Gamma and error functions in float64, for whole arrays (NumPy has none).

Accuracies were measured against 60 digits; `tests/test_own_operators.py` repeats it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np

from tensorproof.formats import Array

#: Where the gamma function has its least value for positive arguments, and digamma its zero there (DLMF 5.4.19).
GAMMA_MINIMUM = 1.4616321449683623412626

#: B_2k / 2k of the asymptotic series of digamma, k = 1 to 8 (DLMF 5.11.2).
_DIGAMMA_TERMS = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)
#: B_2k of the asymptotic series of trigamma, k = 1 to 8 (DLMF 5.15.8, 24.2).
_TRIGAMMA_TERMS = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
#: Arguments are moved up to here, where eight terms leave less than 1e-17.
_FAR = 12.0


def _each(function: Callable[[float], float], x: Array) -> Array:
    """A function of one number, for every element."""
    return np.array([function(value) for value in x.reshape(-1).tolist()], np.float64).reshape(x.shape)


def erfc(x: Array) -> Array:
    """1 - erf(x), relatively accurate in its tail."""
    return _each(math.erfc, x)


def erfinv(x: Array) -> Array:
    """The inverse of the error function, within 4 units of float64's last place; infinite at -1 and 1, NaN outside."""
    return _each(_erfinv, x)


def _erfinv(x: float) -> float:
    size = abs(x)
    if not size < 1.0:
        return math.copysign(math.inf, x) if size == 1.0 else math.nan
    if size < 1e-8:
        # The next term is smaller by pi / 12 x^2 (DLMF 7.17.2).
        return 0.5 * math.sqrt(math.pi) * x
    guess = -NormalDist().inv_cdf((1.0 - size) / 2.0) / math.sqrt(2.0)
    for _ in range(2):
        # Newton's step, by erfc near 1, where erf has no digits left.
        excess = math.erf(guess) - size if size < 0.5 else (1.0 - size) - math.erfc(guess)
        guess -= excess * 0.5 * math.sqrt(math.pi) * math.exp(guess * guess)
    return math.copysign(guess, x)


def log_gamma(x: Array) -> Array:
    """log |Gamma(x)|; +inf at its poles and at both infinities."""
    return _each(_log_gamma, x)


def _log_gamma(x: float) -> float:
    if math.isnan(x):
        return x
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):
        return math.inf


def digamma(x: Array) -> Array:
    """The derivative of log Gamma for positive arguments, within 1e-14 (1 + |value|); NaN elsewhere."""
    total, far = np.zeros_like(x), x
    for _ in range(int(_FAR)):
        # psi(x) = psi(x + 1) - 1 / x (DLMF 5.5.2).
        near = far < _FAR
        total = np.where(near, total - 1.0 / np.where(near, far, 1.0), total)
        far = np.where(near, far + 1.0, far)
    square = 1.0 / (far * far)
    series = np.zeros_like(far)
    for term in reversed(_DIGAMMA_TERMS):
        series = (series + term) * square
    return np.where(x > 0, total + np.log(far) - 0.5 / far - series, np.nan)


def trigamma(x: Array) -> Array:
    """The second derivative of log Gamma for positive arguments, within 1e-14 of itself; NaN elsewhere."""
    total, far = np.zeros_like(x), x
    for _ in range(int(_FAR)):
        # psi'(x) = psi'(x + 1) + 1 / x^2 (DLMF 5.15.5).
        near = far < _FAR
        inverse = 1.0 / np.where(near, far, 1.0)
        total = np.where(near, total + inverse * inverse, total)
        far = np.where(near, far + 1.0, far)
    inverse = 1.0 / far
    square = inverse * inverse
    series = np.zeros_like(far)
    for term in reversed(_TRIGAMMA_TERMS):
        series = (series + term) * square
    return np.where(x > 0, total + inverse + 0.5 * square + series * inverse, np.nan)
