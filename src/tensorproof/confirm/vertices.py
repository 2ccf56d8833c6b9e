"""Ends of domains that are no boxes, such as labels: what is best if a slope is all that is known.

They are to labels what corners are to boxes (M. Frank and P. Wolfe, An algorithm for quadratic programming, 1956).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.assumptions import Domain
from tensorproof.confirm.observing import Domains
from tensorproof.confirm.sampling import Point, into_format
from tensorproof.formats import Array, Format

#: The kinds of domains that have such an end.
KINDS = ("values", "one-hot", "simplex", "mask", "unit-norm")
#: The parts of the rows that are moved at once, those that gain most; and how often all of them are tried.
SHARES, ROUNDS = (1.0, 0.25, 0.06, 0.015), 3


def labels_of(domains: Domains) -> list[str]:
    """The names of floating inputs that are no boxes but have ends."""
    return [name for name, (domain, _, format) in domains.items() if domain.kind in KINDS and format.is_float]


def with_better_labels(
    start: Point, domains: Domains, measure: Callable[[Point], tuple[float, Mapping[str, Array]]], is_over: Callable[[], bool]
) -> Point:
    """A point with other labels: as many of them at once as make it better, by a measure that has slopes."""
    labels = labels_of(domains)
    best = start
    value, slopes = measure(start)
    for share in SHARES * ROUNDS:
        moved = {
            name: vertex(best[name], slopes[name], domains[name][0], domains[name][2], share=share)
            for name in labels
            if name in slopes
        }
        if all((moved[name] == best[name]).all() for name in moved) or is_over():
            break
        found, further = measure(best | moved)
        if found < value:
            best, value, slopes = best | moved, found, further
        elif share == SHARES[-1]:
            break
    return best


def vertex(current: npt.NDArray[Any], slope: Array, domain: Domain, format: Format, *, share: float = 1.0) -> npt.NDArray[Any]:
    """The element of a domain whose product with the slope is smallest; rows whose slope is flat stay as they are.

    With a `share` of less than 1, only that part of the rows moves: those that gain most.
    """
    before = current.astype(np.float64)
    if domain.kind == "values":
        values = np.array(domain.values, np.float64)
        numbers = np.where(slope < 0, values.max(), np.where(slope > 0, values.min(), before))
        gains = slope * (before - numbers)
    elif not current.ndim:
        return current
    else:
        decided = (slope != slope.min(axis=domain.axis, keepdims=True)).any(axis=domain.axis, keepdims=True)
        numbers = np.where(decided, _rows(slope, domain), before)
        gains = (slope * (before - numbers)).sum(axis=domain.axis, keepdims=True)
    if share < 1.0:
        numbers = np.where(gains >= np.quantile(gains, 1.0 - share), numbers, before)
    return np.asarray(into_format(numbers, domain, format))


def _rows(slope: Array, domain: Domain) -> Array:
    if domain.kind == "unit-norm":
        return -slope / np.maximum(np.linalg.norm(slope, axis=domain.axis, keepdims=True), 1e-300)
    best = np.zeros(slope.shape)
    np.put_along_axis(best, slope.argmin(axis=domain.axis, keepdims=True), 1.0, domain.axis)
    return np.maximum(best, slope < 0) if domain.kind == "mask" else best
