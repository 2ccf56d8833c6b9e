"""A campaign's result as text, as JSON, and as the report that all other formats are made from."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from tensorproof.compare.fuzzing.campaign import CampaignResult
from tensorproof.compare.fuzzing.discrepancy import Discrepancy
from tensorproof.compare.fuzzing.finding import CampaignFinding
from tensorproof.compare.fuzzing.refusals import ACCEPTS_ILLEGAL
from tensorproof.findings import SCHEMA_VERSION, Coverage, Finding, Location, Report, Verdict, Witness
from tensorproof.report.json_report import dumps
from tensorproof.report.plain_text import count, one_line
from tensorproof.report.terminal import WIDTH, Page
from tensorproof.rules import all_rules
from tensorproof.rules.rule import Rule

_CODES = {
    "death": "CMP201",
    "exception": "CMP202",
    "nan": "CMP205",
    "dtype": "CMP206",
    "shape": "CMP207",
    "compiled": "CMP208",
    "saved": "CMP209",
    "repeat": "CMP210",
    "value": "CMP211",
}


def rule_of(entry: Discrepancy) -> Rule:
    """The rule that a discrepancy falls under."""
    code = _CODES[entry.oracle]
    if entry.oracle == "exception" and entry.symptom == ACCEPTS_ILLEGAL:
        code = "CMP204"
    elif entry.oracle == "exception" and entry.symptom.startswith("fails inside"):
        code = "CMP203"
    return all_rules()[code]


def to_report(result: CampaignResult, coverage: Sequence[str] = ()) -> Report:
    """Each finding that is shown, at the script that reproduces it."""
    findings = tuple(_finding(finding) for finding in result.shown)
    remarks = tuple(coverage)
    return Report(
        model="tensorproof fuzz",
        target=", ".join(result.runs),
        precision=None,
        assumptions={"versions": dict(result.versions)},
        coverage=Coverage(result.tests, result.tests, result.tests, (), remarks),
        findings=findings,
        proven_safe=(),
        proven_safe_if={},
        times={"campaign": result.seconds},
        suppressed=len(result.findings) - len(result.shown),
        files=tuple(finding.script for finding in result.shown),
        errors=result.errors,
    )


def _finding(finding: CampaignFinding) -> Finding:
    entry = finding.discrepancy
    return Finding(
        rule_of(entry),
        node=finding.signature,
        op=finding.explanation.kind,
        operand=", ".join(finding.explanation.parameters),
        low=None,
        high=None,
        message=f"{finding}: {entry.detail}",
        target=str(entry.culprit),
        format=finding.explanation.test.dtype,
        verdict=Verdict.CONFIRMED if finding.kind == "defect" else Verdict.POSSIBLE,
        location=Location(finding.script, 1),
        witness=Witness("", finding.script),
    )


def to_json(result: CampaignResult, coverage: dict[str, Any] | None = None) -> str:
    """The contract for machines; findings that a known issue hides are listed apart."""
    return dumps(
        {
            "schema_version": SCHEMA_VERSION,
            "command": "fuzz",
            "tests": result.tests,
            "discrepancies": result.discrepancies,
            "findings": [{"rule": rule_of(found.discrepancy).code, **found.to_json()} for found in result.shown],
            "known": [found.to_json() for found in result.findings if found.known is not None],
            "not_reproduced": list(result.not_reproduced),
            "deaths": result.deaths,
            "runs": dict(result.runs),
            "cpu_seconds": dict(result.cpu_seconds),
            "unavailable": dict(result.unavailable),
            "missing": dict(result.missing),
            "versions": dict(result.versions),
            "coverage": coverage,
            "errors": list(result.errors),
            "interrupted": result.interrupted,
            "seconds": result.seconds,
        }
    )


def to_text(result: CampaignResult, coverage: Sequence[str] = (), *, width: int = WIDTH, colour: bool = False) -> str:
    """What a person needs: each finding with its smallest parameters and its script, then what was tried."""
    page = Page(width, colour)
    for finding in result.shown:
        _block(page, finding)
    page.line("result", style="bold")
    page.field("findings", totals(result))
    speed = result.tests / result.seconds if result.seconds else 0.0
    page.field(
        "tests", f"{result.tests} in {result.seconds:.0f} s ({speed:.2f} per second), {count(result.deaths, 'process death')}"
    )
    versions = ", ".join(f"{package} {version}" for package, version in sorted(result.versions.items()))
    page.field("versions", versions)
    for name, runs in result.runs.items():
        page.field("", f"{name}: {count(int(runs), 'run')}, {result.cpu_seconds.get(name, 0.0):.1f} CPU s{_refused(result, name)}")
    for name, reason in result.missing.items():
        page.field("missing", one_line(f"{name}: {reason}", 200))
    for line in coverage:
        page.field("coverage", one_line(line, 300))
    for error in result.errors[:5]:
        page.field("mistakes", one_line(f"of tensorproof itself: {error}", 300))
    if len(result.errors) > 5:
        page.field("", f"and {len(result.errors) - 5} more")
    if result.interrupted:
        page.field("", "interrupted; --resume goes on with it")
    return page.text()


def _block(page: Page, finding: CampaignFinding) -> None:
    entry = finding.discrepancy
    style = "bold red" if finding.kind == "defect" else "yellow"
    page.line((rule_of(entry).code, "bold"), " ", (finding.kind, style), f"  {rule_of(entry).name}")
    page.line(one_line(str(finding), 400), indent=2, hang=0)
    page.field("seen", one_line(entry.detail, 400))
    page.field("test", f"number {finding.number}, {finding.explanation.test.dtype}; {count(finding.similar, 'similar test')}")
    if finding.returned is not None:
        page.field("known", one_line(f"{finding.returned}, and still there", 300))
    page.field("replay", f"python {shlex.quote(finding.script)}")
    page.blank()


def totals(result: CampaignResult) -> str:
    """How many findings there are of each class, in a line."""
    kinds = [finding.kind for finding in result.shown]
    parts = [count(kinds.count(kind), kind) for kind in ("defect", "difference") if kind in kinds]
    if "illegal" in kinds:
        parts.append(f"{kinds.count('illegal')} illegal accepted")
    told = ", ".join(parts) or "none"
    hidden = len(result.findings) - len(result.shown)
    if hidden:
        told += f"; {hidden} known"
    if result.not_reproduced:
        told += f"; {len(result.not_reproduced)} not reproduced"
    return f"{told} (from {result.discrepancies} {'discrepancy' if result.discrepancies == 1 else 'discrepancies'})"


def _refused(result: CampaignResult, name: str) -> str:
    times = int(result.unavailable.get(name, 0))
    return f", {count(times, 'test')} not supported" if times else ""
