"""`Finding`: one defect as every part of tensorproof reports it, and `Report`: all of them, with assumptions and coverage."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal

from tensorproof.rules.rule import Phase, Rule

SCHEMA_VERSION = 1


class Verdict(StrEnum):
    """How sure a finding is. `confirmed` means that a real runtime was run and the node failed."""

    CONFIRMED = "confirmed"
    POSSIBLE = "possible"


#: Where the bad value of a confirmed finding is seen; None while it is not confirmed.
Reaches = Literal["output", "loss", "gradient", "nowhere"]


@dataclass(frozen=True, slots=True)
class Location:
    """The user's own line. `file` is what the model claims, not a path that was opened."""

    file: str | None = None
    line: int | None = None
    module: str | None = None
    #: Counted from 1; None where it is not known.
    column: int | None = None


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
    """One node that can produce NaN or infinity.

    `low` and `high` bound the operand (or the result, for overflow) as the analysis proves it; `reached` is the worst that
    real runs came to; `limit` is the end of the format or of the operator's domain that it is measured against.
    """

    rule: Rule
    node: str
    op: str
    operand: str
    low: float
    high: float
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

    @property
    def is_note(self) -> bool:
        """Whether the finding never changes the exit code: a consequence, or an infinity that no output sees."""
        return bool(self.consequence_of) or self.reaches == "nowhere" or self.rule.severity == "note"

    @property
    def identity(self) -> str:
        """What a baseline recognises the finding by: rule, operator and node, not ranges or lines, which drift."""
        return f"{self.rule.code}:{self.op}:{self.node}"

    def closeness(self) -> float:
        """How near real runs came to the limit, from 0 (far) to 1 (there): what findings are ranked by."""
        if self.verdict is Verdict.CONFIRMED:
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
        location = None
        if self.location is not None:
            location = {
                "file": self.location.file,
                "line": self.location.line,
                "column": self.location.column,
                "module": self.location.module,
            }
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
            "range": [number(self.low), number(self.high)],
            "reached": None if self.reached is None else [number(v) for v in self.reached],
            "location": location,
            "trail": [{"value": step.value, "op": step.op, "range": [number(step.low), number(step.high)]} for step in self.trail],
            "witness": None if self.witness is None else self.witness.arrays,
            "replay": None if self.witness is None else self.witness.script,
            "fix": self.fix,
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
    """How much of the model the verdicts cover. `checkable` nodes are those that can fail at all."""

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
    """The result of one check: findings, proofs, coverage, and the assumptions under which they hold."""

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
        if any(f.verdict is Verdict.CONFIRMED for f in serious):
            return True
        if fail_on == "confirmed":
            return False
        return bool(serious) or (fail_on == "incomplete" and not self.coverage.complete)

    def to_json(self) -> dict[str, Any]:
        """The contract for machines: keys may be added, never renamed, within one schema version."""
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
            "time": self.times,
        }
