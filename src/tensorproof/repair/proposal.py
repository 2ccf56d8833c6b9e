"""`Case`: a finding with all that a repair of it may look at. `Proposal`: a change of the model that has not been verified yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from tensorproof.checking import Analysis
from tensorproof.errors import TensorproofError
from tensorproof.findings import Finding
from tensorproof.formats import Format
from tensorproof.graph import Model, Node
from tensorproof.idioms.structure import Structure
from tensorproof.ranges.records import Summary
from tensorproof.targets import Target

if TYPE_CHECKING:
    from tensorproof.repair.editing import Editor

Kind = Literal["rewrite", "operand", "precondition"]


class Declined(TensorproofError):
    """A repair does not apply; the message is the reason, in a few words."""


@dataclass(frozen=True, slots=True)
class Case:
    """One finding of a model, the node that it is about, and what the analysis knows of every value."""

    model: Model
    structure: Structure
    analysis: Analysis
    target: Target
    finding: Finding
    node: Node

    def summary(self, value: int) -> Summary | None:
        """The range, the format and the shape of a value."""
        return self.analysis.summaries.get(value)

    def format(self, value: int) -> Format | None:
        summary = self.summary(value)
        return self.model.values[value].format if summary is None else summary.format

    def shape(self, value: int) -> tuple[int, ...] | None:
        """The sizes of a value, where all of them are known."""
        summary = self.summary(value)
        if summary is None or summary.shape is None or not all(isinstance(size, int) for size in summary.shape):
            return None
        return tuple(size for size in summary.shape if isinstance(size, int))

    def number(self, value: int) -> npt.NDArray[np.float64] | None:
        """A constant of the program (or a weight that is not a range) as float64."""
        array = self.model.constants.get(value)
        if array is None or value in self.analysis.assumptions.weights or array.dtype.kind not in "fiuV":
            return None
        return array.astype(np.float64)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A repair of one finding.

    `summary` says what is changed, `because` why the result is the same or what differs, each in one line. `safe` claims that
    wherever the original is finite, values and derivatives are no farther from the exact ones than the original's; the
    verification tries to refute that. `replaces` are the nodes whose results are computed in another way.
    """

    kind: Kind
    name: str
    finding: Finding
    summary: str
    because: str
    safe: bool
    replaces: tuple[str, ...]
    edit: Callable[[Editor], None]
