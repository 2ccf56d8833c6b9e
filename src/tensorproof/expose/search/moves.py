"""How values are moved towards a failure, and which samples of a batch are given up: GRIST's steps, on arrays.

`objective` is what a suspect's rule measures (`Rule.objective`): smaller is closer to the failure. Gradients are those of the
objective by the value. Nothing here depends on a framework.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.formats import Array

#: Steps of values without a legal range, as a part of their size.
_FREE = 1.0


@dataclass(frozen=True, slots=True)
class Legal:
    """The range that values of an input lie in; infinite ends where nothing bounds them."""

    low: float = -np.inf
    high: float = np.inf

    @property
    def is_bounded(self) -> bool:
        return bool(np.isfinite(self.low) and np.isfinite(self.high))

    def clipped(self, value: Array) -> Array:
        return np.clip(value, self.low, self.high)

    def widened(self, value: Array) -> Legal:
        """The range that holds these numbers, too."""
        if not value.size:
            return self
        low, high = float(value.min()), float(value.max())
        return Legal(min(self.low, low), max(self.high, high)) if np.isfinite(self.low) else Legal(low, high)

    @classmethod
    def of(cls, value: Array) -> Legal:
        """What is observed of one array."""
        return cls(float(value.min()), float(value.max())) if value.size else cls()


def is_label(value: npt.NDArray[np.generic]) -> bool:
    """Whether an array says which class samples belong to: zeros and ones, one per row, or one number per row.

    Such arrays are left alone: a legal one is no point of a box.
    """
    if value.dtype.kind != "f":
        return True
    if not value.size or not np.isin(value, (0.0, 1.0)).all():
        return False
    rows = value.reshape(value.shape[0], -1) if value.ndim else value.reshape(1, 1)
    return rows.shape[1] == 1 or bool((rows.sum(axis=1) == 1.0).all())


def signed(value: Array, gradient: Array, legal: Legal, epsilon: float, generator: np.random.Generator) -> Array:
    """One step against the sign of the gradient, clipped to the legal range (GRIST, section 4.2).

    The step is a part of the legal width. Where no element has a gradient, each goes a step in a random direction.
    """
    rows = _touched(gradient)
    part = gradient[rows]
    direction = np.where(np.isnan(part), 0.0, np.sign(part))
    if not direction.any():
        rows, direction = ..., generator.choice(np.array([-1.0, 1.0]), value.shape)
    width = legal.high - legal.low if legal.is_bounded else _FREE * max(1.0, float(np.abs(value).max(initial=0.0)))
    found = np.asarray(legal.clipped(value))
    found[rows] = legal.clipped(value[rows] - epsilon * width * direction)
    return found


def _touched(gradient: Array) -> Any:
    """An index of the rows whose gradient is not zero: of a whole data set, few matter to one step of training."""
    if gradient.ndim < 2:
        return ...
    return np.flatnonzero(gradient.reshape(len(gradient), -1).any(axis=1))


def linear(value: Array, objective: float, gradient: Array, legal: Legal) -> Array:
    """The point where the objective would be zero if it was linear: v - f / f' (GRIST, for values that are drawn once)."""
    slope = float(np.square(gradient, dtype=np.float64).sum())
    if not np.isfinite(objective) or not np.isfinite(slope) or slope == 0.0:
        return value
    return legal.clipped(value - (objective / slope) * gradient)


def cornered(value: Array, gradient: Array, legal: Legal) -> Array:
    """The end of the legal range that the gradient points away from, in each element; elements without a gradient stay."""
    if not legal.is_bounded:
        return value
    rows = _touched(gradient)
    found, part = np.array(value), gradient[rows]
    found[rows] = np.where(part > 0, legal.low, np.where(part < 0, legal.high, value[rows]))
    return found


#: What a sample is filled with that is the same everywhere: the ends of the legal range, and a number whose sums are exact.
BLANKS = (-np.inf, 0.0, np.inf)


def blank(value: Array, legal: Legal, number: float) -> Array:
    """An array whose first row, or the whole if it has one axis, is the same legal number everywhere: the nearest to this one.

    In place of zero, where that is not legal, stands a power of two: the mean of such numbers is that number without rounding.
    """
    found = np.array(value)
    ends = legal if legal.is_bounded else Legal.of(found)
    filled = float(np.clip(number, ends.low, ends.high))
    if number == 0.0 != filled:
        farther = ends.high if filled > 0 else ends.low
        power = float(np.copysign(2.0 ** np.floor(np.log2(abs(farther))), farther))
        filled = power if ends.low <= power <= ends.high else filled
    found[(0 if found.ndim > 1 else ...)] = filled
    return found


@dataclass(slots=True)
class Batch:
    """The samples that are fed to a program again and again, by the name of the input; rows of all inputs belong together."""

    arrays: dict[str, Array]
    #: How far each sample is from the failure; samples that were not measured count as far.
    scores: npt.NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        self.scores = np.full(self.size, np.inf)

    @property
    def size(self) -> int:
        return min((len(array) for array in self.arrays.values() if array.ndim), default=0)

    def fits(self, fresh: Mapping[str, npt.NDArray[np.generic]]) -> bool:
        """Whether a batch of the program is of the same form."""
        return {n: a.shape for n, a in fresh.items()} == {n: a.shape for n, a in self.arrays.items()}

    def replace(self, fresh: Mapping[str, Array], rate: float, generator: np.random.Generator) -> int:
        """Replace the samples that are farthest from the failure by samples of a fresh batch; how many were.

        Importance of a sample is how close it is; the part `rate` with the least of it goes (GRIST, section 4.3).
        """
        if not self.fits(fresh):
            return 0
        worst, chosen = self.rows_to_replace(rate, generator)
        for name, array in self.arrays.items():
            if array.ndim and len(array) == self.size:
                array[worst] = fresh[name][chosen]
        return len(worst)

    def repeat(self, fresh: Mapping[str, Array], generator: np.random.Generator) -> None:
        """Put one sample of a fresh batch, with its label, in place of all."""
        if not self.size or not self.fits(fresh):
            return
        row = int(generator.integers(self.size))
        for name, array in self.arrays.items():
            if array.ndim and len(array) == self.size:
                array[:] = fresh[name][row]
        self.scores[:] = np.inf

    def rows_to_replace(self, rate: float, generator: np.random.Generator) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """The samples that go, and as many rows of a fresh batch at random; the scores of those that go are forgotten."""
        count = int(np.ceil(rate * self.size))
        worst = np.argsort(-self.scores, kind="stable")[:count]
        self.scores[worst] = np.inf
        return worst, generator.choice(max(self.size, 1), count, replace=False)
