"""`Comparison`: what comparing two models gave."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tensorproof.compare.diffing.bisecting import Divergence
from tensorproof.compare.judging import Judgement, Opinion
from tensorproof.findings import Witness, number


@dataclass(frozen=True)
class OutputComparison:
    """One output over all points. `typical` is the median difference in units of the coarser format, `relative` the largest
    distance of both results relative to the left one's norm; `metric` is `top-1 agreement` or `cosine`.
    """

    left: str
    right: str
    judgement: Judgement
    typical: float
    relative: float
    metric: str
    score: float
    #: The formats of both results.
    formats: tuple[str, str] = ("", "")

    def to_json(self) -> dict[str, Any]:
        return {
            "left": self.left,
            "right": self.right,
            "formats": list(self.formats),
            **judgement_json(self.judgement),
            "typical_units": number(self.typical),
            "relative_error": number(self.relative),
            "metric": self.metric,
            "score": number(self.score),
        }


@dataclass(frozen=True)
class FirstOperator:
    """The first operator at which the models part, in words that its source uses."""

    divergence: Divergence
    left_operator: str
    right_operator: str
    node: str
    module: str = ""
    file: str | None = None
    line: int | None = None

    @property
    def name(self) -> str:
        """The value by its name in the left model, where it has one that the user knows."""
        return self.divergence.pair.left

    def to_json(self) -> dict[str, Any]:
        found = self.divergence
        return {
            "left": found.pair.left,
            "right": found.pair.right,
            "left_operator": self.left_operator,
            "right_operator": self.right_operator,
            "node": self.node,
            "module": self.module,
            "file": self.file,
            "line": self.line,
            "operands": [entry.left for entry in found.operands],
            "own_doing": found.is_own_doing,
            "alone": None if found.alone is None else judgement_json(found.alone),
            "left_failure": found.left_failure,
            "right_failure": found.right_failure,
            **({} if found.judgement is None else judgement_json(found.judgement)),
        }


@dataclass(frozen=True)
class Comparison:
    """The verdict on two models, and what it rests on."""

    left: str
    right: str
    left_model: str
    right_model: str
    verdict: Opinion
    outputs: tuple[OutputComparison, ...]
    first: FirstOperator | None
    #: What the failing side says where only one of the models runs.
    failure: tuple[str, str] = ("", "")
    points: int = 0
    evaluations: int = 0
    found_by: str = ""
    witness: Witness | None = None
    remarks: tuple[str, ...] = ()
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    formats: tuple[str, str] = ("float32", "float32")
    #: Values of the right model, and how many of them have a partner in the left one.
    values: int = 0
    aligned: int = 0
    #: The most bytes of values that were held at once while the first operator was sought.
    held: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])

    def to_json(self) -> dict[str, Any]:
        return {
            "left": self.left,
            "right": self.right,
            "verdict": str(self.verdict),
            "formats": list(self.formats),
            "outputs": [entry.to_json() for entry in self.outputs],
            "first": None if self.first is None else self.first.to_json(),
            "failure": {"left": self.failure[0], "right": self.failure[1]},
            "points": self.points,
            "evaluations": self.evaluations,
            "found_by": self.found_by,
            "values": self.values,
            "aligned": self.aligned,
            "bytes_held": self.held,
            "remarks": list(self.remarks),
        }


def judgement_json(judgement: Judgement) -> dict[str, Any]:
    """A judgement as the reports show it."""
    return {
        "verdict": str(judgement.opinion),
        "symptom": judgement.symptom,
        "units": number(judgement.units),
        "largest": number(judgement.largest),
        "position": list(judgement.position),
        "left_value": None if math.isnan(judgement.left) and judgement.symptom != "nan" else number(judgement.left),
        "right_value": None if math.isnan(judgement.right) and judgement.symptom != "nan" else number(judgement.right),
        "reference": None if math.isnan(judgement.reference) else number(judgement.reference),
        "culprit": judgement.culprit,
        "detail": judgement.detail,
    }
