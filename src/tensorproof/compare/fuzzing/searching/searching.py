"""`Search`: counts evaluations, remembers the best point, and stops at the first one that fails. Methods are loops around it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tensorproof.compare.drawing import Array, Arrays
from tensorproof.compare.fuzzing.searching.goals import Goal, Score
from tensorproof.compare.fuzzing.searching.space import Space
from tensorproof.compare.spec import TestSpec
from tensorproof.compare.workers.fleet import Fleet


class Ended(Exception):
    """The point was found, or the budget is spent."""


@dataclass
class Search:
    """One search. The same seed tries the same points; a smaller budget only ends earlier."""

    fleet: Fleet
    test: TestSpec
    space: Space
    goal: Goal
    evaluations: int
    seed: int = 0
    spent: int = 0
    best: Score = field(default_factory=lambda: Score(-math.inf))
    best_point: Arrays = field(default_factory=dict[str, Array])

    def score(self, arrays: Arrays) -> Score:
        """Try a point."""
        if self.spent >= self.evaluations:
            raise Ended
        self.spent += 1
        score = self.goal.score(self.fleet, self.test, self.space.point(arrays))
        if score.found or score.fitness > self.best.fitness or not self.best_point:
            self.best, self.best_point = score, dict(arrays)
        if score.found:
            raise Ended
        return score

    @property
    def found(self) -> str:
        """What was found; empty if nothing was."""
        return self.best.found
