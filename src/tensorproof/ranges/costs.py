"""What an analysis costs: time, calls and cells per operator, and its passes. Nothing is counted unless somebody asks.

with collecting() as costs:
    report = check(...)
print(statistics_text(costs))        # tensorproof.report.statistics
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from tensorproof.ranges.abstraction import Abstraction


@dataclass(slots=True)
class OperatorCost:
    """All evaluations of one operator: how many, seconds, and cells.

    The time of a control-flow operator does not hold that of the nodes inside. `cells` counts the cells of all results,
    `most_cells` those of the largest.
    """

    calls: int = 0
    seconds: float = 0.0
    cells: int = 0
    most_cells: int = 0


@dataclass(slots=True)
class PassCost:
    """One pass over a model or a part of it: its precision, the nodes that it evaluated, and its seconds."""

    abstraction: Abstraction
    nodes: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Costs:
    """The costs of all passes while they were collected."""

    operators: dict[str, OperatorCost] = field(default_factory=dict[str, OperatorCost])
    passes: list[PassCost] = field(default_factory=list[PassCost])
    #: Seconds of the evaluations that ended inside of the one that runs.
    inside: float = 0.0

    def add(self, label: str, seconds: float, cells: int) -> None:
        """Count one evaluation."""
        cost = self.operators.get(label)
        if cost is None:
            cost = self.operators[label] = OperatorCost()
        cost.calls += 1
        cost.seconds += seconds
        cost.cells += cells
        cost.most_cells = max(cost.most_cells, cells)

    @contextmanager
    def counted_pass(self, abstraction: Abstraction) -> Generator[PassCost]:
        """Time one pass; whoever runs it says how many nodes it had."""
        cost = PassCost(abstraction)
        self.passes.append(cost)
        started = time.perf_counter()
        try:
            yield cost
        finally:
            cost.seconds = time.perf_counter() - started


_CURRENT: ContextVar[Costs | None] = ContextVar("costs", default=None)

#: The costs that are being collected; None if nobody asked.
current = _CURRENT.get


@contextmanager
def collecting() -> Generator[Costs]:
    """Collect the costs of every analysis inside."""
    costs = Costs()
    token = _CURRENT.set(costs)
    try:
        yield costs
    finally:
        _CURRENT.reset(token)
