"""`Phase`: what is done with the batch of a suspect, in turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: The phases, and the evaluations without progress after which the next one comes.
_PHASES = (("approach", 15), ("repeat", 10), ("lesson", 40))
#: What is progress in the objective.
_GAIN = 0.3


@dataclass(slots=True)
class Phase:
    """The phase that a suspect is in; they take turns as long as it does not fail.

    `approach` moves the batch that the program trains on towards the failure, as GRIST does. `repeat` does so with one sample in
    place of all: what a batch of one label teaches is not undone by the others. `lesson` keeps the batch that comes near aside, and
    moves the one that the program trains on for what it teaches: that leads far where there are many weights; where there are few,
    samples of different labels end in the same place.
    """

    number: int = 0
    best: float = np.inf
    idle: int = 0

    @property
    def kind(self) -> str:
        return _PHASES[self.number][0]

    def is_over(self, objective: float) -> bool:
        """Note an objective; whether another phase begins with it."""
        if objective < self.best - _GAIN:
            self.best, self.idle = objective, 0
            return False
        self.idle += 1
        if self.idle < _PHASES[self.number][1]:
            return False
        self.number, self.best, self.idle = (self.number + 1) % len(_PHASES), np.inf, 0
        return True
