"""`Argument`: a tensor that a function is called with, the numbers that are legal in it, and how such numbers are drawn.

Numbers are kept in float64, and are numbers of the argument's format: what is searched is what the function gets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tensorproof.errors import AssumptionError
from tensorproof.expose.functions.declaration import Declared
from tensorproof.expose.search.moves import Legal
from tensorproof.formats import FLOAT32, Array, Format

#: Where nothing is declared: numbers that every function meets.
REACH = 10.0
#: Points of the simplex that a test of their sum takes; symmetric matrices, triangles with a positive diagonal.
Kind = Literal["box", "values", "simplex", "one-hot", "unit-norm", "cholesky", "definite"]
Source = Literal["declared", "assumed", "constraint of the function"]

_LEAST_EIGENVALUE = 1e-3
#: A tensor of more elements is a mistake, or too large to be searched.
_MOST_ELEMENTS = 1 << 24


@dataclass(frozen=True, slots=True)
class Argument:
    """One tensor. `low` and `high` are ends that belong to the range, in the format."""

    name: str
    format: Format
    shape: tuple[int, ...]
    low: float
    high: float
    kind: Kind = "box"
    values: tuple[float, ...] = ()
    source: Source = "assumed"
    is_differentiated: bool = True

    @property
    def is_moved(self) -> bool:
        """Whether steps lead anywhere: numbers of a continuum."""
        return self.format.is_float and self.kind not in ("values", "one-hot")

    @property
    def has_gradient(self) -> bool:
        return self.format.is_float and self.is_differentiated

    @property
    def bounds(self) -> Legal:
        return Legal(self.low, self.high)

    def words(self) -> str:
        """The argument as it would be declared."""
        sizes = ",".join(map(str, self.shape))
        ground = f"{self.low:g}:{self.high:g}" if self.kind == "box" else self.kind
        if self.kind == "values":
            ground = "{" + ",".join(f"{value:g}" for value in self.values) + "}"
        end = " nograd" if self.format.is_float and not self.is_differentiated else ""
        return f"{self.format.name}[{sizes}] in {ground}{end}"

    # -- legal numbers --------------------------------------------------------------------------------------------------

    def legal(self, array: Array) -> Array:
        """The nearest numbers that are legal, or nearly so."""
        array = np.nan_to_num(np.asarray(array, np.float64).reshape(self.shape), nan=self.low, posinf=self.high, neginf=self.low)
        if self.kind == "values":
            return self._chosen(array)
        if self.kind == "one-hot":
            return _one_hot(array)
        if not self.format.is_float:
            return np.clip(np.rint(array), math.ceil(self.low), math.floor(self.high)) + 0.0
        if self.kind == "simplex":
            return self._rounded(_on_simplex(np.clip(array, 0.0, None)))
        if self.kind == "unit-norm":
            return self._rounded(_of_length_one(array))
        if self.kind == "cholesky":
            diagonal = np.eye(array.shape[-1], dtype=bool)
            array = np.where(diagonal, np.maximum(array, self.format.smallest_normal), np.tril(array))
            return np.clip(self._rounded(array), self.low, self.high)
        if self.kind == "definite":
            return self._rounded(_definite(array, self.high))
        return np.clip(self._rounded(array), self.low, self.high)

    def _rounded(self, array: Array) -> Array:
        return np.asarray(self.format.round_nearest(np.clip(array, self.format.low, self.format.high)), np.float64) + 0.0

    def _chosen(self, array: Array) -> Array:
        known = np.array(self.values)
        return known[np.abs(array[..., None] - known).argmin(axis=-1)]

    # -- drawing --------------------------------------------------------------------------------------------------------

    def drawn(self, generator: np.random.Generator) -> Array:
        """Numbers at random, in one of the ways that functions are sensitive to: evenly, by their size, or at special places."""
        special = np.array(self.specials())
        even = generator.uniform(self.low, self.high, self.shape)
        way = generator.integers(4) if self.format.is_float else 0
        if way == 1:
            largest = max(abs(self.low), abs(self.high), self.format.smallest_normal)
            sizes = np.exp(generator.uniform(math.log(self.format.smallest_normal), math.log(largest), self.shape))
            even = np.where(generator.random(self.shape) < 0.5, sizes, -sizes) if self.low < 0.0 else sizes
        elif way == 2:
            even = generator.choice(special, self.shape)
        elif way == 3:
            even = np.where(generator.random(self.shape) < 0.5, generator.choice(special, self.shape), even)
        return self.legal(even)

    def even(self, generator: np.random.Generator) -> Array:
        """Numbers of the range, evenly."""
        return self.legal(generator.uniform(self.low, self.high, self.shape))

    def whole(self, value: float) -> Array:
        """The same number everywhere, or what is nearest to that."""
        return self.legal(np.full(self.shape, value))

    def specials(self) -> list[float]:
        """Numbers of the range at which functions fail, the plainest first."""
        format = self.format
        if self.kind == "values":
            return list(self.values)
        if not format.is_float:
            wanted = [0.0, 1.0, self.low, self.high, -1.0]
        else:
            tiny, unit = format.smallest_normal, 2.0 * format.unit_roundoff
            wanted = [0.0, 1.0, self.low, self.high, -1.0, (self.low + self.high) / 2.0, 0.5, 1.0 - unit, 1.0 + unit]
            wanted += [math.sqrt(tiny), tiny, -tiny, format.smallest_subnormal, math.sqrt(format.high), format.high, -format.high]
        inside = [value for value in wanted if self.low <= value <= self.high]
        return list(dict.fromkeys(float(np.asarray(format.round_nearest(np.array(value)))) for value in inside)) or [self.low]


def argument_of(name: str, declared: Declared, default: Argument | None = None) -> Argument:
    """An argument as it was declared; what was not is as in `default`, or what every function meets."""
    format = declared.element or (default.format if default is not None else FLOAT32)
    shape = declared.shape if declared.shape is not None else default.shape if default is not None else (2, 3)
    if math.prod(shape) > _MOST_ELEMENTS:
        raise AssumptionError(f"argument {name}: {math.prod(shape)} elements are too many to be searched")
    if declared.low is None or declared.high is None:
        like = default if default is not None and default.format.is_float == format.is_float else None
        low, high = _default_ends(format) if like is None else (like.low, like.high)
        kind: Kind = "box" if like is None else like.kind
        source: Source = "assumed" if like is None else like.source
        low, high = inside(name, format, low, high)
        return Argument(name, format, shape, low, high, kind, (), source, declared.is_differentiated)
    low, high = inside(name, format, declared.low, declared.high)
    kind = declared.kind  # type: ignore[assignment]
    return Argument(name, format, shape, low, high, kind, declared.values, "declared", declared.is_differentiated)


def _default_ends(format: Format) -> tuple[float, float]:
    return (-REACH, REACH) if format.is_float else (0.0, 1.0)


def inside(name: str, format: Format, low: float, high: float) -> tuple[float, float]:
    """The ends of a range, as numbers of the format."""
    if math.isnan(low) or math.isnan(high) or math.isinf(low) or math.isinf(high):
        raise AssumptionError(f"argument {name}: {low:g}:{high:g} is none that values can be moved in")
    low, high = max(low, format.low), min(high, format.high)
    if format.is_float:
        low, high = float(format.round_up(np.array(low))), float(format.round_down(np.array(high)))
    else:
        low, high = float(math.ceil(low)), float(math.floor(high))
    if low > high:
        raise AssumptionError(f"argument {name}: no number of {format.name} lies in its range")
    return low + 0.0, high + 0.0


def _one_hot(array: Array) -> Array:
    return np.eye(array.shape[-1])[array.argmax(axis=-1)] if array.ndim and array.shape[-1] else array


def _on_simplex(array: Array) -> Array:
    total = array.sum(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        found = array / total
    return np.where(np.isfinite(found).all(axis=-1, keepdims=True), found, 1.0 / max(array.shape[-1], 1))


def _of_length_one(array: Array) -> Array:
    largest = np.abs(array).max(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        scaled = array / largest
        found = scaled / np.sqrt(np.square(scaled).sum(axis=-1, keepdims=True))
    first = np.zeros(array.shape)
    first[..., :1] = 1.0
    return np.where(np.isfinite(found).all(axis=-1, keepdims=True), found, first)


def _definite(array: Array, high: float) -> Array:
    symmetric = (array + np.swapaxes(array, -1, -2)) / 2.0
    sizes, vectors = np.linalg.eigh(symmetric)
    sizes = np.clip(sizes, _LEAST_EIGENVALUE, max(high, 1.0))
    found = (vectors * sizes[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return (found + np.swapaxes(found, -1, -2)) / 2.0
