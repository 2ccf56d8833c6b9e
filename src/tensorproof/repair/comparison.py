"""Values of a repaired model beside those of the original and the exact ones, element by element."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.formats import FLOAT32, Array, Format

#: A repair may be farther from the exact value than the original by this many units in the last place ...
SLACK = 2.0
#: ... beyond this many times the original's own error. That is the largest seen among results of the same binade or smaller
#: ones: a single element of the original may be right by chance, where its neighbours are off.
CHANCE = 2.0
#: Exponents of float64, subnormal numbers included.
_LOWEST, _HIGHEST = -1075, 1025


@dataclass(slots=True)
class Comparison:
    """What was compared so far, where the original is finite.

    `ulp` and `relative` are the largest differences between the repaired and the original value. The largest distances of
    both from exact values, where these were given, are kept by the exponent of the exact value.
    """

    elements: int = 0
    ulp: float = 0.0
    relative: float = 0.0
    format: Format = FLOAT32
    measured: int = 0
    _old: Array = field(default_factory=lambda: np.zeros(_HIGHEST - _LOWEST))
    _new: Array = field(default_factory=lambda: np.zeros(_HIGHEST - _LOWEST))

    @property
    def keeps_values(self) -> bool | None:
        """Whether the repaired values are as near to the exact ones as the original's; None if that is not known."""
        if self.ulp <= SLACK:
            return True
        return None if self.excess is None else self.excess <= SLACK

    @property
    def excess(self) -> float | None:
        """By how many units in the last place the repair is farther from the exact values; None if these are not known."""
        if self.measured == 0:
            return None
        unit = self.format.quantum(np.ldexp(1.0, np.arange(_LOWEST, _HIGHEST).clip(-1074, 1023)))
        return max(0.0, float(((self._new - CHANCE * np.maximum.accumulate(self._old)) / unit).max()))

    def add(self, before: npt.NDArray[Any], after: npt.NDArray[Any], exact: npt.NDArray[Any] | None, format: Format) -> None:
        """Compare one tensor."""
        old, new = before.astype(np.float64), after.astype(np.float64)
        finite = np.isfinite(old)
        if old.shape != new.shape or not finite.any():
            return
        self.format = format
        old, new = old[finite], new[finite]
        self.elements += old.size
        with np.errstate(all="ignore"):
            difference = np.abs(new - old)
            size = np.maximum(np.abs(old), np.abs(new))
            self.ulp = max(self.ulp, _largest(difference / format.quantum(size)))
            self.relative = max(self.relative, _largest(np.where(difference > 0, difference / size, 0.0)))
            if exact is not None:
                self._measure(old, new, exact.astype(np.float64)[finite])

    def _measure(self, old: Array, new: Array, exact: Array) -> None:
        known = np.isfinite(exact)
        if not known.any():
            return
        self.measured += int(known.sum())
        size = np.frexp(exact[known])[1] - 1 - _LOWEST
        for errors, found in ((self._old, old), (self._new, new)):
            distance = np.abs(found[known] - exact[known])
            np.maximum.at(errors, size, np.where(np.isnan(distance), np.inf, distance))

    def to_json(self) -> dict[str, Any]:
        return {"elements": self.elements, "ulp": self.ulp, "relative": self.relative, "excess_ulp": self.excess}


def _largest(numbers: Array) -> float:
    """The largest number; what is not a number is infinitely far."""
    return float(np.where(np.isnan(numbers), np.inf, numbers).max(initial=0.0))
