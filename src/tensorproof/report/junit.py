"""The JUnit format: one test suite per model, for build servers that show test results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from tensorproof.findings import Finding, Location, Report
from tensorproof.report.plain_text import count, interval, name, names, one_line, without_commands
from tensorproof.report.ranking import ranked
from tensorproof.report.source_lines import SourceTree
from tensorproof.report.source_terminal import place
from tensorproof.report.terminal import bracket, not_analysed, trail


def render(reports: Sequence[Report], *, source_root: Path | None = None) -> str:
    """A finding is a failed test of type `confirmed`, `certain` or `possible`; a note passes and is told in its output.

    What is proven safe is one passing test, what was not analysed one skipped test: neither can be overlooked, and a
    model of 200,000 nodes stays readable. Each source file is a suite of its own: one test that passes where nothing was found
    in it. A file that could not be analysed is an error.
    """
    sources = SourceTree(source_root)
    root = ElementTree.Element("testsuites", name="tensorproof")
    suites: list[ElementTree.Element] = []
    for report in reports:
        suites += _source_suites(root, report, sources) if report.is_source else [_suite(root, report, sources)]
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in suites)))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _suite(parent: ElementTree.Element, report: Report, sources: SourceTree) -> ElementTree.Element:
    suite = ElementTree.SubElement(parent, "testsuite", name=name(report.model))
    properties = ElementTree.SubElement(suite, "properties")
    coverage = report.coverage
    for key, value in (
        ("target", report.target),
        ("precision", report.precision or "as in the model"),
        ("coverage", f"checked {coverage.checked} of {count(coverage.checkable, 'checkable node')}"),
        ("suppressed", str(report.suppressed)),
    ):
        ElementTree.SubElement(properties, "property", name=key, value=one_line(value))
    failures = 0
    for finding in ranked(report.findings):
        failures += _finding(suite, finding, report, sources)
    _case(suite, report.model, f"proven safe ({count(len(report.proven_safe), 'node')})")
    if report.proven_safe_if:
        told = f"proven safe if the defects before them do not occur ({count(len(report.proven_safe_if), 'node')})"
        _case(suite, report.model, told)
    skipped = 0
    if not coverage.complete:
        skipped = 1
        case = _case(suite, report.model, f"not analysed ({count(len(coverage.not_analysed), 'node')})")
        reasons = [f"{count(len(n), 'node')}, {one_line(r)}: {names(n)}" for r, n in not_analysed(coverage.not_analysed)]
        reasons += [f"remark: {one_line(remark)}" for remark in coverage.remarks]
        ElementTree.SubElement(case, "skipped", message=reasons[0]).text = "\n".join(reasons)
    seconds = sum(value for value in report.times.values() if math.isfinite(value))
    _count(suite, failures=failures, skipped=skipped)
    suite.set("time", f"{seconds:.3f}")
    return suite


def _count(suite: ElementTree.Element, *, failures: int = 0, errors: int = 0, skipped: int = 0) -> None:
    counts = {"tests": len(suite.findall("testcase")), "failures": failures, "errors": errors, "skipped": skipped}
    for key, amount in counts.items():
        suite.set(key, str(amount))


def _source_suites(parent: ElementTree.Element, report: Report, sources: SourceTree) -> list[ElementTree.Element]:
    """A suite for each file that was analysed, then for those that the analysis of another file led to."""
    found: dict[str, list[Finding]] = {file: [] for file in report.files or ()}
    for finding in report.findings:
        found.setdefault((finding.location.file if finding.location else None) or report.model, []).append(finding)
    suites: list[ElementTree.Element] = []
    for file, findings in found.items():
        suite = ElementTree.SubElement(parent, "testsuite", name=name(file))
        failures = sum(_source_finding(suite, finding, file, sources) for finding in findings)
        if not findings:
            _case(suite, file, "no defect found")
        _count(suite, failures=failures)
        suites.append(suite)
    if report.errors:
        suite = ElementTree.SubElement(parent, "testsuite", name="not analysed")
        for error in report.errors:
            told = one_line(error)
            ElementTree.SubElement(_case(suite, "not analysed", told), "error", message=told, type="error").text = without_commands(
                told
            )
        _count(suite, errors=len(report.errors))
        suites.append(suite)
    return suites


def _source_finding(suite: ElementTree.Element, finding: Finding, file: str, sources: SourceTree) -> bool:
    """Add the test case of one finding; whether it is a failure."""
    location = finding.location or Location()
    case = _case(suite, file, f"{finding.rule.code} {finding.rule.name}: {place(location)}")
    case.set("file", one_line(sources.model_file(file)))
    if location.cell is None and location.line is not None:
        case.set("line", str(location.line))
    message = one_line(finding.message)
    details = [f"{place(location)}: {message}"]
    details += [one_line(location.text.strip())] if location.text else []
    details += [f"{place(related.location)}: {one_line(related.message)}" for related in finding.related]
    details += [f"help: {one_line(edit.title)}" for edit in finding.edits]
    details += [f"replay: python {one_line(finding.witness.script)}"] if finding.witness is not None else []
    text = without_commands("\n".join(details))
    if finding.rule.severity == "note":
        ElementTree.SubElement(case, "system-out").text = text
        return False
    ElementTree.SubElement(case, "failure", message=message, type=str(finding.verdict)).text = text
    return True


def _finding(suite: ElementTree.Element, finding: Finding, report: Report, sources: SourceTree) -> bool:
    """Add the test case of one finding; whether it is a failure."""
    title = f"{finding.rule.code} {finding.rule.name}: {name(finding.op)} {name(finding.node)} ({name(finding.operand)})"
    case = _case(suite, report.model, title)
    found = sources.line(finding.location)
    if found is not None:
        case.set("file", one_line(found[0]))
        case.set("line", str(found[1]))
    message = one_line(finding.message)
    details = [
        message,
        f"operand: {name(finding.operand)} in {interval(*finding.bounds)}",
        f"bracket: {bracket(finding)}",
    ]
    if finding.trail:
        details.append(f"trail: {trail(finding)}")
    if finding.consequence_of:
        details.append(f"consequence of: {names(finding.consequence_of)}")
    if finding.witness is not None:
        details.append(f"replay: python {one_line(finding.witness.script)}")
    if finding.is_note:
        ElementTree.SubElement(case, "system-out").text = "\n".join(details)
    else:
        failure = ElementTree.SubElement(case, "failure", message=message, type=str(finding.verdict))
        failure.text = "\n".join(details)
    return not finding.is_note


def _case(suite: ElementTree.Element, subject: str, title: str) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", classname=name(subject), name=title)
