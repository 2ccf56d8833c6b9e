"""`Finding`: one defect as every part of tensorproof reports it, and `Report`: all of them, with assumptions and coverage."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from tensorproof.rules.rule import Phase, Rule

if TYPE_CHECKING:
    from tensorproof.model_map import AnalysedModel, ModelMap

SCHEMA_VERSION = 1


class Verdict(StrEnum):
    """How sure a finding is.

    `confirmed` means that a real runtime was run and the node failed; `certain` that nothing was run and nothing has to be: every
    run which reaches the place fails, or a committed file promises what no longer holds.
    """

    CONFIRMED = "confirmed"
    CERTAIN = "certain"
    POSSIBLE = "possible"


#: Where the bad value of a confirmed finding is seen; None while it is not confirmed.
Reaches = Literal["output", "loss", "gradient", "nowhere"]


@dataclass(frozen=True, slots=True)
class Location:
    """The user's own line. Of a model, `file` is what the model claims, not a path that was opened.

    Lines and columns count from 1, columns in characters; `end_column` is the first one that no longer belongs to the place.
    """

    file: str | None = None
    line: int | None = None
    module: str | None = None
    #: None where it is not known.
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    #: The cell of a notebook, counted from 1 over cells of all kinds; lines are those of the cell then.
    cell: int | None = None
    #: The line itself, where the source was read.
    text: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "end_line": self.end_line,
            "end_column": self.end_column,
            "cell": self.cell,
            "module": self.module,
            "text": self.text,
        }


@dataclass(frozen=True, slots=True)
class RelatedLocation:
    """Another place that belongs to a finding, and what happens there."""

    location: Location
    message: str

    def to_json(self) -> dict[str, Any]:
        return {"location": self.location.to_json(), "message": self.message}


@dataclass(frozen=True, slots=True)
class SourceEdit:
    """A change of the source that mends a finding: `text` takes the place of what stands at the location."""

    title: str
    location: Location
    text: str

    def to_json(self) -> dict[str, Any]:
        return {"title": self.title, "location": self.location.to_json(), "text": self.text}


@dataclass(frozen=True, slots=True)
class TrailStep:
    """One step of the chain of ranges that explains a finding, from an input to the operand."""

    value: str
    op: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Witness:
    """Concrete inputs that were run and failed: the arrays, and a test file (or program) that replays them."""

    arrays: str
    script: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One node of a model that can produce NaN or infinity, or one place of a source file that is wrong.

    `low` and `high` bound the operand (or the result, for overflow) as the analysis proves it; `reached` is the worst that
    real runs came to; `limit` is the end of the format or of the operator's domain that it is measured against.

    A finding in source has none of these. Its `node` is the text of its line and its `op` the function that is called there;
    `occurrence` tells it apart from findings of the same rule and function on lines of the same text, counted from 1. `edits`
    are alternatives.
    """

    rule: Rule
    node: str
    op: str
    operand: str
    low: float | None
    high: float | None
    message: str
    target: str
    format: str
    phase: Phase = "forward"
    verdict: Verdict = Verdict.POSSIBLE
    limit: float | None = None
    reached: tuple[float, float] | None = None
    reaches: Reaches | None = None
    consequence_of: tuple[str, ...] = ()
    location: Location | None = None
    trail: tuple[TrailStep, ...] = ()
    witness: Witness | None = None
    fix: dict[str, Any] | None = None
    related: tuple[RelatedLocation, ...] = ()
    edits: tuple[SourceEdit, ...] = ()
    occurrence: int = 1

    @property
    def bounds(self) -> tuple[float, float]:
        """The range of the operand. Only for a finding in a model."""
        assert self.low is not None and self.high is not None, "a finding in source has no range"
        return self.low, self.high

    @property
    def is_source(self) -> bool:
        """Whether it was found in source, not in a model."""
        return self.low is None

    @property
    def is_sure(self) -> bool:
        """Whether it is a defect beyond doubt: seen in a real run, or true of every run."""
        return self.verdict is not Verdict.POSSIBLE

    @property
    def is_note(self) -> bool:
        """Whether the finding never changes the exit code: a consequence, or an infinity that no output sees."""
        return bool(self.consequence_of) or self.reaches == "nowhere" or self.rule.severity == "note"

    @property
    def identity(self) -> str:
        """What a baseline recognises the finding by: rule, operator and node, not ranges or lines, which drift."""
        again = "" if self.occurrence == 1 else f":{self.occurrence}"
        return f"{self.rule.code}:{self.op}:{self.node}{again}"

    def closeness(self) -> float:
        """How near real runs came to the limit, from 0 (far) to 1 (there): what findings are ranked by."""
        if self.is_sure:
            return 1.0
        if self.reached is None or self.limit is None:
            return 0.0
        low, high = self.reached
        if self.rule.code.startswith("NUM2"):
            worst = max(abs(low), abs(high))
            return 0.0 if worst == 0 or self.limit == 0 else min(1.0, math.log1p(worst) / math.log1p(abs(self.limit)))
        distance = 0.0 if low <= self.limit <= high else min(abs(low - self.limit), abs(high - self.limit))
        return 1.0 / (1.0 + distance)

    def to_json(self) -> dict[str, Any]:
        """The finding as in the JSON contract; numbers that JSON cannot hold become null or text."""
        return {
            "rule": self.rule.code,
            "name": self.rule.name,
            "severity": self.rule.severity,
            "node": self.node,
            "op": self.op,
            "phase": self.phase,
            "verdict": str(self.verdict),
            "target": self.target,
            "format": self.format,
            "limit": number(self.limit),
            "reaches": self.reaches,
            "consequence_of": list(self.consequence_of),
            "operand": self.operand,
            "range": None if self.low is None else [number(self.low), number(self.high)],
            "reached": None if self.reached is None else [number(v) for v in self.reached],
            "location": None if self.location is None else self.location.to_json(),
            "related": [related.to_json() for related in self.related],
            "trail": [{"value": step.value, "op": step.op, "range": [number(step.low), number(step.high)]} for step in self.trail],
            "witness": None if self.witness is None else self.witness.arrays,
            "replay": None if self.witness is None else self.witness.script,
            "fix": self.fix,
            "edits": [edit.to_json() for edit in self.edits],
            "message": self.message,
        }


def number(value: float | None) -> float | str | None:
    """A number for JSON, which has no infinities and no NaN: those become text."""
    if value is None:
        return None
    if math.isnan(value):
        return "nan"
    return ("inf" if value > 0 else "-inf") if math.isinf(value) else float(value)


@dataclass(frozen=True, slots=True)
class Unanalysed:
    """A node about which nothing is known, with the reason."""

    node: str
    op: str
    reason: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the model the verdicts cover. `checkable` nodes are those that can fail at all.

    Of source, nodes are the tensors that it creates, and `checked` are those of them whose shape is fully known; what is not
    analysed are functions that no rule knows.
    """

    nodes: int
    checkable: int
    checked: int
    not_analysed: tuple[Unanalysed, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        return not self.not_analysed and not self.remarks


@dataclass(frozen=True, slots=True)
class Report:
    """The result of one check: findings, proofs, coverage, and the assumptions under which they hold.

    `model` is what was checked, as the user named it. A report on source has `files`, in the order in which they were analysed,
    and `errors`, one line for each file that could not be.
    """

    model: str
    target: str
    precision: str | None
    assumptions: dict[str, Any]
    coverage: Coverage
    findings: tuple[Finding, ...]
    proven_safe: tuple[str, ...]
    proven_safe_if: dict[str, tuple[str, ...]]
    times: dict[str, float] = field(default_factory=dict[str, float])
    #: The nodes that the first pass alarmed on and a refinement proved, with the step that did.
    proven_by: dict[str, str] = field(default_factory=dict[str, str])
    suppressed: int = 0
    files: tuple[str, ...] | None = None
    errors: tuple[str, ...] = ()
    #: The change of the model or of its source that all applied repairs make together, as a unified diff; of `fix` alone.
    change: str | None = field(default=None, repr=False, compare=False)
    #: The options under which a command checked the model, as typed, so that other commands can be offered that check the same.
    options: tuple[str, ...] | None = field(default=None, repr=False, compare=False)
    #: What a map of the model is made from, if the check kept it (`model_map`).
    analysed: AnalysedModel | None = field(default=None, repr=False, compare=False)

    @property
    def is_source(self) -> bool:
        return self.files is not None

    @property
    def confirmed(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.verdict is Verdict.CONFIRMED)

    def __str__(self) -> str:
        """What the terminal shows."""
        from tensorproof.report import terminal

        return terminal.render((self,))

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from tensorproof.report import notebook

        return notebook.render(self)

    def model_map(self) -> ModelMap | None:
        """The model node by node, with ranges, headroom and verdicts; None if the check did not keep the model."""
        if self.analysed is None:
            return None
        from tensorproof.model_map import map_model

        return map_model(self.analysed, self)

    def roots(self) -> tuple[Finding, ...]:
        """The findings that are defects of their own."""
        return tuple(f for f in self.findings if not f.consequence_of)

    def with_findings(self, findings: tuple[Finding, ...], suppressed: int = 0) -> Report:
        return replace(self, findings=findings, suppressed=self.suppressed + suppressed)

    def fails(self, fail_on: str) -> bool:
        """Whether the exit code is 1 under a policy: `confirmed`, `possible`, `incomplete` or `never`."""
        if fail_on == "never":
            return False
        serious = [f for f in self.findings if not f.is_note]
        if any(f.is_sure for f in serious):
            return True
        if fail_on == "confirmed":
            return False
        return bool(serious) or (fail_on == "incomplete" and not (self.coverage.complete and not self.errors))

    def to_json(self, *, model_map: bool = False) -> dict[str, Any]:
        """The contract for machines: keys may be added, never renamed, within one schema version.

        With `model_map` it has the map of the model, too (null where the report has none).
        """
        mapped = self.model_map() if model_map else None
        return {
            "schema_version": SCHEMA_VERSION,
            "model": self.model,
            "target": self.target,
            "precision": self.precision,
            "assumptions": self.assumptions,
            "coverage": {
                "nodes": self.coverage.nodes,
                "checkable": self.coverage.checkable,
                "checked": self.coverage.checked,
                "not_analysed": [{"node": u.node, "op": u.op, "reason": u.reason} for u in self.coverage.not_analysed],
                "remarks": list(self.coverage.remarks),
                "complete": self.coverage.complete,
            },
            "proven_safe": list(self.proven_safe),
            "proven_safe_if": {node: list(roots) for node, roots in self.proven_safe_if.items()},
            "proven_by": dict(self.proven_by),
            "findings": [finding.to_json() for finding in self.findings],
            "suppressed": self.suppressed,
            "files": None if self.files is None else list(self.files),
            "errors": list(self.errors),
            "time": self.times,
            **({"model_map": None if mapped is None else mapped.to_json()} if model_map else {}),
        }
