"""Where external values go from a measurement: steps that every framework takes alike.

A framework measures: the objective of a suspect at some values, and its gradient by each of them (`Measured`). What follows from
that is decided here: a step of the sign, or the corner of the legal range if that is nearer; and for values that are drawn once a
whole walk, because the program does not give them again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tensorproof.expose.search.board import Suspect
from tensorproof.expose.search.corners import Corners
from tensorproof.expose.search.moves import BLANKS, Legal, blank, cornered, linear, signed
from tensorproof.expose.settings import Settings
from tensorproof.formats import Array

#: How often values that are drawn once are moved before the program is run with them.
_INNER_STEPS = 60


@dataclass(frozen=True, slots=True)
class Measured:
    """The objective of a suspect at some values, its gradient by each of them, and how near each sample of the batch is."""

    objective: float
    gradients: Mapping[str, Array]
    scores: npt.NDArray[np.float64] | None = None
    has_failed: bool = False

    @property
    def reached(self) -> float:
        """The objective, below all others where the operator fails."""
        return -math.inf if self.has_failed else self.objective


class Movable(Protocol):
    """An external value: its name, the numbers that are legal, and whether the program gets it again in the next step."""

    @property
    def name(self) -> str: ...
    @property
    def legal(self) -> Legal: ...
    @property
    def is_given_again(self) -> bool: ...


class Measure(Protocol):
    """Measures a suspect at some values; without `gradients` only what it has reached is asked for."""

    def __call__(self, values: Values, *, gradients: bool = True) -> Measured: ...


Values = Mapping[str, Array]


class Leading:
    """The steps of one run; random directions come from `generator`."""

    def __init__(self, settings: Settings, generator: np.random.Generator) -> None:
        self._settings = settings
        self._generator = generator
        self._corners = Corners()

    def moved(
        self, suspect: Suspect, chosen: Sequence[Movable], values: Values, measure: Measure
    ) -> tuple[Measured, dict[str, Array]]:
        """The objective now, and where the values go from here."""
        if not any(value.is_given_again for value in chosen):
            return self._walked(chosen, dict(values), measure)
        now = measure(values)
        return now, self.next(suspect, chosen, values, now, measure)

    def next(
        self, suspect: Suspect, chosen: Sequence[Movable], values: Values, now: Measured, measure: Measure
    ) -> dict[str, Array]:
        """Where values go from a measurement: a step of the sign, or the corner of the legal range if that is nearer.

        GRIST takes the step alone. The corner is where a network that is nearly linear fails first; it is tried less often as long
        as it does not pay. Before anything else a sample is tried that is the same everywhere: deviations are zero there, and no
        steps lead to it.
        """
        stepped = self._stepped(chosen, values, now)
        if self._settings.method != "search":
            return stepped
        points: list[dict[str, Array]] = [stepped]
        has_corner = False
        if self._corners.are_due(suspect):
            corner = {v.name: cornered(values[v.name], now.gradients[v.name], v.legal) for v in chosen if v.name in now.gradients}
            has_corner = not all(np.array_equal(corner[name], values[name]) for name in corner)
            points += [{**values, **corner}] if has_corner else []
        if suspect.evaluations == 0:
            points += ({v.name: blank(values[v.name], v.legal, part) for v in chosen} for part in BLANKS)
        if len(points) == 1:
            return stepped
        reached = [measure(point, gradients=False).reached for point in points]
        if has_corner:
            self._corners.note(suspect, pays=reached[1] < reached[0])
        return points[int(np.argmin(reached))]

    def _stepped(self, chosen: Sequence[Movable], values: Values, measured: Measured) -> dict[str, Array]:
        found: dict[str, Array] = {}
        for value in chosen:
            array = values[value.name]
            slope = measured.gradients.get(value.name, np.zeros_like(array))
            found[value.name] = signed(array, slope, value.legal, self._settings.epsilon, self._generator)
        return found

    def _walked(self, chosen: Sequence[Movable], values: dict[str, Array], measure: Measure) -> tuple[Measured, dict[str, Array]]:
        """One linear step, then steps of the sign, until the operator fails when it is run again."""
        first = measured = measure(values)
        best, best_at = measured.objective, values
        for number in range(_INNER_STEPS):
            if measured.has_failed:
                return first, values
            values = self._linear(chosen, values, measured) if number == 0 else self._stepped(chosen, values, measured)
            measured = measure(values)
            if measured.has_failed or measured.objective < best:
                best, best_at = measured.objective, values
            elif not math.isfinite(measured.objective):
                break
        return first, best_at

    @staticmethod
    def _linear(chosen: Sequence[Movable], values: Values, measured: Measured) -> dict[str, Array]:
        found = dict(values)
        for value in chosen:
            slope = measured.gradients.get(value.name)
            if slope is not None:
                found[value.name] = linear(values[value.name], measured.objective, slope, value.legal)
        return found
