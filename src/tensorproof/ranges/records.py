"""What a propagation leaves behind: a record per node, a summary per value, and what later passes may take as known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tensorproof.formats import Format
from tensorproof.graph import Model, Node
from tensorproof.idioms.claims import Claim
from tensorproof.operators.table import Bound, Hazard
from tensorproof.ranges.containers import Abstract, SequenceOf
from tensorproof.ranges.differentiable import NO_PATHS, Paths
from tensorproof.ranges.flow import NO_ROOTS, Flow, Roots, united
from tensorproof.ranges.grid import Shape
from tensorproof.ranges.range import Range
from tensorproof.targets import Target


@dataclass(frozen=True, slots=True)
class Known:
    """What earlier passes proved: bounds of values (where no hazard fires), and hazards that cannot fire.

    A hazard is named by the number of its node, the code of its rule and its operand. The results of a node that may
    overflow must have no bound here: it would hide the overflow.
    """

    ranges: Mapping[int, Bound] = field(default_factory=dict[int, Bound])
    impossible: frozenset[tuple[int, str, int]] = frozenset()


NOTHING_KNOWN = Known()


def _no_hazards() -> list[Hazard]:
    return []


@dataclass(slots=True)
class Record:
    """What the analysis found out about one node, over all times that it was evaluated (loop bodies: many)."""

    node: Node
    checkable: bool = False
    hazards: list[Hazard] = field(default_factory=_no_hazards)
    consequences: list[Hazard] = field(default_factory=_no_hazards)
    roots: Roots = NO_ROOTS
    not_analysed: str | None = None

    def add(self, hazards: Sequence[Hazard], consequences: Sequence[Hazard], roots: Roots) -> None:
        """Add what one more evaluation found. Hazards of the same rule and operand are one, whose bounds are joined."""
        self.roots = united(self.roots, roots)
        for hazard in hazards:
            _merge(self.hazards, hazard)
        for hazard in consequences:
            _merge(self.consequences, hazard)
        if self.hazards and self.consequences:
            own = {hazard.rule.code for hazard in self.hazards}
            self.consequences = [hazard for hazard in self.consequences if hazard.rule.code not in own]


def _merge(found: list[Hazard], hazard: Hazard) -> None:
    for index, other in enumerate(found):
        if (other.rule, other.operand, other.operator) == (hazard.rule, hazard.operand, hazard.operator):
            low, high = float(np.fmin(other.low, hazard.low)), float(np.fmax(other.high, hazard.high))
            found[index] = replace(other, low=low, high=high, gives=other.gives | hazard.gives)
            return
    found.append(hazard)


class Summary:
    """The hull of a value over all its cells, kept for reports after the range itself is freed.

    The ends of a constant are looked for when somebody asks for them.
    """

    __slots__ = ("_constant", "_ends", "format", "shape", "special")

    def __init__(self, format: Format, shape: Shape | None, low: float, high: float, special: int) -> None:
        self.format = format
        self.shape = shape
        self.special = special
        self._ends: tuple[float, float] | None = (low, high)
        self._constant: Range | None = None

    @classmethod
    def of(cls, value: Abstract) -> Summary | None:
        if isinstance(value, Range):
            constant = value.array is not None
            summary = cls(value.format, value.shape, *((0.0, 0.0) if constant else value.hull()), value.any_special)
            if constant:
                summary._ends, summary._constant = None, value
            return summary
        inner = value.element if isinstance(value, SequenceOf) else value.value
        return None if inner is None else cls.of(inner)

    @property
    def ends(self) -> tuple[float, float]:
        if self._ends is None:
            assert self._constant is not None
            self._ends = self._constant.hull()
        return self._ends

    @property
    def low(self) -> float:
        return self.ends[0]

    @property
    def high(self) -> float:
        return self.ends[1]

    def without_array(self) -> Summary:
        """The same, without the constant that its ends would be looked for in."""
        return self if self._constant is None else Summary(self.format, self.shape, *self.ends, self.special)

    def join(self, other: Summary) -> Summary:
        low, high = min(self.low, other.low), max(self.high, other.high)
        shape = self.shape if self.shape == other.shape else None
        return Summary(self.format, shape, low, high, self.special | other.special)


@dataclass(slots=True)
class RangedGraph:
    """The result of the propagation: a summary per value, a record per node that was reached, the ranges of the outputs."""

    model: Model
    target: Target
    summaries: dict[int, Summary]
    records: dict[int, Record]
    outputs: dict[int, Flow]
    ranges: dict[int, Flow]
    claims: Mapping[int, Sequence[Claim]]
    #: The nodes whose derivatives were looked at.
    paths: Paths = field(default_factory=lambda: NO_PATHS)
