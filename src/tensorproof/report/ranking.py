"""The order in which people read findings: what is sure before what is possible, defects before their consequences."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tensorproof.findings import Finding, Report, Verdict


@dataclass(frozen=True, slots=True)
class Family:
    """A defect with the findings that follow from it; `root` is None for consequences whose roots are not reported."""

    root: Finding | None
    consequences: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Tally:
    """How many findings there are of each kind; a note is counted as a note only."""

    confirmed: int = 0
    possible: int = 0
    notes: int = 0
    #: What needs no run to be sure. Few reports on models have any: they are told where there are some.
    certain: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.confirmed + other.confirmed,
            self.possible + other.possible,
            self.notes + other.notes,
            self.certain + other.certain,
        )

    def __str__(self) -> str:
        notes = "1 note" if self.notes == 1 else f"{self.notes} notes"
        certain = f"{self.certain} certain, " if self.certain else ""
        return f"{self.confirmed} confirmed, {certain}{self.possible} possible, {notes}"


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """Notes last; within each, confirmed first, then those that real runs brought closest to the limit."""
    return sorted(findings, key=_rank)


def in_order(report: Report) -> list[Finding]:
    """The findings of a model by rank; those of source as they stand in it, one file after the other."""
    return list(report.findings) if report.is_source else ranked(report.findings)


def families(report: Report) -> list[Family]:
    """Roots in rank order, each with its consequences; one that follows from several roots stands below the first."""
    roots = ranked(report.roots())
    first: dict[str, int] = {}
    for index, root in enumerate(roots):
        first.setdefault(root.node, index)
    below: dict[int, list[Finding]] = {}
    for finding in ranked(f for f in report.findings if f.consequence_of):
        index = min((first[node] for node in finding.consequence_of if node in first), default=-1)
        below.setdefault(index, []).append(finding)
    found = [Family(root, tuple(below.get(index, ()))) for index, root in enumerate(roots)]
    return [*found, Family(None, tuple(below[-1]))] if -1 in below else found


def tally(findings: Iterable[Finding]) -> Tally:
    """Counts by kind."""
    confirmed = possible = notes = certain = 0
    for finding in findings:
        if finding.is_note:
            notes += 1
        elif finding.verdict is Verdict.CONFIRMED:
            confirmed += 1
        elif finding.is_sure:
            certain += 1
        else:
            possible += 1
    return Tally(confirmed, possible, notes, certain)


def closeness(finding: Finding) -> float:
    """`Finding.closeness` as a number that can be sorted."""
    value = finding.closeness()
    return 0.0 if math.isnan(value) else value


def _rank(finding: Finding) -> tuple[bool, bool, float, str, str, str]:
    return finding.is_note, not finding.is_sure, -closeness(finding), finding.rule.code, finding.node, finding.operand
