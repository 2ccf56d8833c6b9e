"""What tensorproof says about a pair: whether the defect is found at its place and confirmed, and what is said about the twin."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorproof
from benchmarks.operator_cases.pairs import Pair, Program
from benchmarks.timing import cpu_seconds
from tensorproof.findings import Finding, Report, Verdict


@dataclass(frozen=True, slots=True)
class Judged:
    """One model of a pair: its report, the findings that are the defect, and CPU seconds.

    `is_searched` says that samples did not confirm the defect, and that a search by gradients went on.
    """

    report: Report
    defects: tuple[Finding, ...]
    seconds: float
    is_searched: bool = False

    @property
    def best(self) -> Finding | None:
        """The defect, confirmed if it was."""
        return max(self.defects, key=lambda finding: finding.is_sure, default=None)

    @property
    def alarms(self) -> tuple[str, ...]:
        """Rules and operators of all findings that change the exit code, and operators of which nothing is known."""
        found = [f"{finding.rule.code} {finding.op}" for finding in self.report.findings if not finding.is_note]
        return (*dict.fromkeys(found), *(f"not analysed {left.op}" for left in self.report.coverage.not_analysed))


def judged(pair: Pair, fixed: bool, witnesses: Path | None = None) -> Judged:
    """Check one model of a pair as a user does; a defect that samples leave possible is searched, as `tensorproof confirm` does."""
    model = pair.built(fixed)
    arguments: tuple[Any, ...] = (model.run, dict(model.example)) if isinstance(model, Program) else (model,)
    options: dict[str, Any] = {"ranges": pair.ranges, "phase": pair.phase, "precision": pair.precision, "witnesses": witnesses}
    started = cpu_seconds()
    report = tensorproof.check(*arguments, cache=False, **options)
    defects = () if fixed else defects_of(pair, report)
    is_open = bool(defects) and not any(finding.is_sure for finding in defects)
    if is_open:
        nodes = [finding.node for finding in defects]
        searched = tensorproof.find_witnesses(*arguments, cache=False, nodes=nodes, shrink=False, **options)
        defects = defects_of(pair, searched) or defects
    return Judged(report, defects, cpu_seconds() - started, is_open)


def defects_of(pair: Pair, report: Report) -> tuple[Finding, ...]:
    """The findings that are the defect of a pair: its rule, at its operator and its place; a note only where no output shows it."""
    return tuple(
        finding
        for finding in report.findings
        if (finding.rule.code, finding.op) == (pair.rule, pair.operator)
        and finding.is_note == (bool(pair.silent) and finding.is_sure)
        and _is_there(pair, finding)
    )


def _is_there(pair: Pair, finding: Finding) -> bool:
    if pair.is_file:
        return finding.node == pair.node
    where = finding.location
    return where is not None and where.file is not None and (str(Path(where.file).resolve()), where.line) == pair.place


def is_confirmed(finding: Finding | None) -> bool:
    """Whether a real run showed the failure."""
    return finding is not None and finding.verdict is Verdict.CONFIRMED
