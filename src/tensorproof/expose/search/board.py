"""The suspects of a program, how near each is to failing, and which of them is driven at the moment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from tensorproof.expose.search.vulnerable import Weakness

#: Evaluations in which a suspect has to come closer, or the next one is driven.
PATIENCE = 60
#: By how much it has to: the objective is a logarithm, so this is a part of the distance.
PROGRESS = 0.02


@dataclass(slots=True)
class Suspect:
    """One operator at one line of the user's that may fail in one way.

    `name` is the same in every run of the program: file, line, operator, its number among those at the line, the way of failing.
    `floor` is the objective's value at the smallest distance that the operand can have without failing, if that is known: where a
    subtraction makes the operand, results below a rounding unit are zero, and log(1 - p) is nearer to its failure than log(p).
    `reach` is the same as the static analysis has it (`static_rank`).
    """

    name: str
    weakness: Weakness
    operator: str
    file: str | None
    line: int | None
    floor: float = 0.0
    reach: float = -np.inf
    distance: float = np.inf
    best: float = np.inf
    evaluations: int = 0
    #: Evaluations since the last progress.
    idle: int = 0
    given_up: int = 0
    is_settled: bool = False

    def note(self, objective: float) -> None:
        """The objective of one evaluation."""
        self.distance = objective
        self.evaluations += 1
        if objective < self.best - PROGRESS:
            self.best = objective
            self.idle = 0
        else:
            self.idle += 1

    @property
    def rank(self) -> tuple[int, int, float]:
        """Those that were given up less often come first, forward before backward, then the nearest."""
        return self.given_up, int(self.weakness.phase == "backward"), self.distance - max(self.floor, self.reach)


@dataclass(slots=True)
class Board:
    """All suspects that were seen so far. `settled` are names that are not driven."""

    settled: frozenset[str] = frozenset()
    suspects: dict[str, Suspect] = field(default_factory=dict[str, Suspect])
    current: Suspect | None = None

    def seen(self, suspect: Suspect) -> Suspect:
        """A suspect that executes: the one that is known by its name, or a new one."""
        known = self.suspects.get(suspect.name)
        if known is None:
            known = self.suspects[suspect.name] = suspect
            suspect.is_settled = suspect.name in self.settled
        return known

    def choose(self) -> Suspect | None:
        """The suspect that is driven: the same as before until it makes no more progress, then the nearest of the others."""
        if self.current is not None and not self.current.is_settled:
            if self.current.idle < PATIENCE:
                return self.current
            self.current.given_up += 1
            self.current.idle = 0
            self.current.best = np.inf
        self.current = min(self._open(), key=lambda suspect: suspect.rank, default=None)
        return self.current

    def settle(self, name: str) -> None:
        """A suspect that is driven no more."""
        suspect = self.suspects.get(name)
        if suspect is not None:
            suspect.is_settled = True

    def _open(self) -> Iterable[Suspect]:
        return (suspect for suspect in self.suspects.values() if not suspect.is_settled)
