"""Ends of domains that are no boxes: the legal value that is best if a slope is all that is known (Frank and Wolfe, 1956)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.assumptions import Domain
from tensorproof.confirm.sampling import into_format
from tensorproof.formats import Array, Format

#: The kinds of domains that have such an end.
KINDS = ("values", "one-hot", "simplex", "mask", "unit-norm")


def vertex(current: npt.NDArray[Any], slope: Array, domain: Domain, format: Format) -> npt.NDArray[Any]:
    """The element of a domain whose product with the slope is smallest; rows whose slope is zero stay as they are."""
    if domain.kind == "values":
        values = np.array(domain.values, np.float64)
        numbers = np.where(slope < 0, values.max(), np.where(slope > 0, values.min(), current.astype(np.float64)))
    elif not current.ndim:
        return current
    else:
        decided = (slope != slope.min(axis=domain.axis, keepdims=True)).any(axis=domain.axis, keepdims=True)
        numbers = np.where(decided, _rows(slope, domain), current.astype(np.float64))
    return np.asarray(into_format(numbers, domain, format))


def _rows(slope: Array, domain: Domain) -> Array:
    if domain.kind == "unit-norm":
        return -slope / np.maximum(np.linalg.norm(slope, axis=domain.axis, keepdims=True), 1e-300)
    best = np.zeros(slope.shape)
    np.put_along_axis(best, slope.argmin(axis=domain.axis, keepdims=True), 1.0, domain.axis)
    return np.maximum(best, slope < 0) if domain.kind == "mask" else best
