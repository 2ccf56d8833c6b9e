"""Points of the declared box: corners, plain values and random ones, always inside the domain of each input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.assumptions import Domain
from tensorproof.formats import Array, Format

#: The tactics of a sample, in the order in which a search goes through them.
TACTICS = ("low", "high", "zero", "corners", "uniform", "constant", "rows", "near", "spike", "one", "logarithmic")

Point = dict[str, npt.NDArray[Any]]


def sample(rng: np.random.Generator, domain: Domain, shape: tuple[int, ...], format: Format, tactic: str) -> npt.NDArray[Any]:
    """One tensor of the domain."""
    if format.kind == "string":
        return np.full(shape, "", object)
    if format.kind == "complex":
        return np.zeros(shape, format.dtype)
    match domain.kind:
        case "values":
            numbers = _listed(rng, np.array(domain.values, np.float64), shape, tactic)
        case "one-hot":
            numbers = _one_hot(rng, shape, domain.axis)
        case "simplex":
            numbers = _simplex(rng, shape, domain.axis, tactic)
        case "mask":
            numbers = _mask(rng, shape, domain.axis, tactic)
        case "unit-norm":
            raw = rng.standard_normal(shape)
            numbers = raw / np.maximum(np.linalg.norm(raw, axis=domain.axis if shape else None, keepdims=True), 1e-30)
        case _:
            numbers = _box(rng, domain, shape, format, tactic)
    return np.asarray(into_format(numbers, domain, format))


def into_format(numbers: Array, domain: Domain, format: Format) -> npt.NDArray[Any]:
    """Numbers of the format inside the box of the domain, each channel inside its own."""
    low, high = domain.ends(np.shape(numbers), format)
    with np.errstate(all="ignore"):
        if format.kind in ("int", "bool"):
            whole = np.clip(np.rint(numbers), np.ceil(low), np.floor(high))
            if format.bits == 64:
                whole = np.clip(whole, -(2.0**63), np.nextafter(2.0**63, 0))
            return whole.astype(format.dtype)
        ends = format.round_up(low), format.round_down(high)
        clipped = np.clip(numbers, low, high)
        if format.dtype.kind == "f":
            # NumPy rounds to its own formats in one step; ml_dtypes takes two from float64 to bfloat16.
            return np.clip(clipped.astype(format.dtype), *(end.astype(format.dtype) for end in ends))
        return np.clip(format.round_nearest(clipped), *ends).astype(format.dtype)


def _box(rng: np.random.Generator, domain: Domain, shape: tuple[int, ...], format: Format, tactic: str) -> Array:
    low, high = domain.ends(shape, format)
    plain = np.clip(0.0, low, high)
    match tactic:
        case "low":
            return np.broadcast_to(low, shape).astype(np.float64)
        case "high":
            return np.broadcast_to(high, shape).astype(np.float64)
        case "zero":
            return np.broadcast_to(plain, shape).astype(np.float64)
        case "one":
            return np.broadcast_to(np.clip(1.0, low, high), shape).astype(np.float64)
        case "corners":
            return np.where(rng.random(shape) < 0.5, low, high)
        case "constant":
            return np.broadcast_to(_between(low, high, rng.random()), shape).astype(np.float64)
        case "rows":
            rows = (*shape[:-1], 1) if shape else ()
            return np.broadcast_to(_between(low, high, rng.random(rows)), shape).astype(np.float64)
        case "near":
            base = _between(low, high, rng.random((1,) * len(shape)))
            return base + rng.standard_normal(shape) * 1e-6 * np.maximum(np.abs(base), 1.0)
        case "spike":
            numbers = np.broadcast_to(plain, shape).astype(np.float64).copy()
            if numbers.size:
                end = np.broadcast_to(low if rng.random() < 0.5 else high, shape)
                where = np.unravel_index(int(rng.integers(numbers.size)), shape) if shape else ()
                numbers[where] = end[where]
            return numbers
        case "logarithmic":
            exponent = rng.uniform(-8.0, 1.0, shape)
            sign = np.where(rng.random(shape) < 0.5, low, high)
            return np.asarray(plain + (sign - plain) * 10.0**exponent)
        case _:
            return _between(low, high, rng.random(shape))


def _listed(rng: np.random.Generator, values: Array, shape: tuple[int, ...], tactic: str) -> Array:
    """Elements out of a list: all alike, or each by itself."""
    match tactic:
        case "low":
            return np.full(shape, values.min())
        case "high":
            return np.full(shape, values.max())
        case "zero":
            return np.full(shape, values[np.abs(values).argmin()])
        case "constant":
            return np.full(shape, rng.choice(values))
        case _:
            return rng.choice(values, shape)


def _between(low: Any, high: Any, share: Any) -> Array:
    """low + share * (high - low) without overflow."""
    return low * (1.0 - share) + high * share


def _one_hot(rng: np.random.Generator, shape: tuple[int, ...], axis: int) -> Array:
    if not shape or 0 in shape:
        return np.ones(shape)
    index = rng.integers(shape[axis], size=[1 if i == axis % len(shape) else n for i, n in enumerate(shape)])
    numbers = np.zeros(shape)
    np.put_along_axis(numbers, index, 1.0, axis)
    return numbers


def _simplex(rng: np.random.Generator, shape: tuple[int, ...], axis: int, tactic: str) -> Array:
    if tactic in ("low", "corners", "spike"):
        return _one_hot(rng, shape, axis)
    if tactic in ("high", "zero", "constant"):
        return np.full(shape, 1.0 / shape[axis] if shape and shape[axis] else 1.0)
    raw = rng.exponential(size=shape)
    return raw / np.maximum(raw.sum(axis=axis if shape else None, keepdims=bool(shape)), 1e-300)


def _mask(rng: np.random.Generator, shape: tuple[int, ...], axis: int, tactic: str) -> Array:
    """Zeros and ones with at least one 1 per row."""
    if tactic == "high":
        return np.ones(shape)
    numbers = np.zeros(shape) if tactic == "low" else (rng.random(shape) < 0.5).astype(np.float64)
    return np.maximum(numbers, _one_hot(rng, shape, axis))


def alike(seed: int, domains: Mapping[str, tuple[Domain, tuple[int, ...], Format]], count: int) -> Iterator[Point]:
    """Points in which inputs of one shape and format are equal: a prediction that is its target, two copies of a vector.

    There is none where no two inputs are of one shape and format. Values are moved into the domain of each input.
    """
    kinds = [(shape, format) for domain, shape, format in domains.values() if domain.kind == "box" and format.kind != "string"]
    if len(set(kinds)) == len(kinds):
        return
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        drawn: dict[tuple[tuple[int, ...], Format], npt.NDArray[Any]] = {}
        point: Point = {}
        for name, (domain, shape, format) in domains.items():
            array = sample(rng, domain, shape, format, "uniform")
            if domain.kind == "box" and format.kind != "string":
                array = np.asarray(into_format(drawn.setdefault((shape, format), array).astype(np.float64), domain, format))
            point[name] = array
        yield point


def points(
    seed: int,
    domains: Mapping[str, tuple[Domain, tuple[int, ...], Format]],
    count: int,
    *,
    first: int = 0,
    tactics: Sequence[str] = TACTICS,
) -> Iterator[Point]:
    """Points of the box, from number `first` to before `count`. Each depends on the seed and its number alone."""
    for number in range(first, count):
        rng = np.random.default_rng([seed, number])
        together = tactics[number % len(tactics)]
        # The first rounds use one tactic for all inputs; later ones mix them.
        mixed = number >= len(tactics)
        yield {
            name: sample(rng, *where, tactics[int(rng.integers(len(tactics)))] if mixed and rng.random() < 0.5 else together)
            for name, where in domains.items()
        }
