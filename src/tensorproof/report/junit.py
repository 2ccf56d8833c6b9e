"""The JUnit format: one test suite per model, for build servers that show test results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from tensorproof.findings import Finding, Report
from tensorproof.report.plain_text import count, interval, name, names, one_line
from tensorproof.report.ranking import ranked
from tensorproof.report.source_lines import SourceTree
from tensorproof.report.terminal import bracket, not_analysed, trail


def render(reports: Sequence[Report], *, source_root: Path | None = None) -> str:
    """A finding is a failed test of type `confirmed` or `possible`; a note passes and is told in its output.

    What is proven safe is one passing test, what was not analysed one skipped test: neither can be overlooked, and a
    model of 200,000 nodes stays readable.
    """
    sources = SourceTree(source_root)
    root = ElementTree.Element("testsuites", name="tensorproof")
    suites = [_suite(root, report, sources) for report in reports]
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
    _case(suite, report, f"proven safe ({count(len(report.proven_safe), 'node')})")
    if report.proven_safe_if:
        told = f"proven safe if the defects before them do not occur ({count(len(report.proven_safe_if), 'node')})"
        _case(suite, report, told)
    skipped = 0
    if not coverage.complete:
        skipped = 1
        case = _case(suite, report, f"not analysed ({count(len(coverage.not_analysed), 'node')})")
        reasons = [f"{count(len(n), 'node')}, {one_line(r)}: {names(n)}" for r, n in not_analysed(coverage.not_analysed)]
        reasons += [f"remark: {one_line(remark)}" for remark in coverage.remarks]
        ElementTree.SubElement(case, "skipped", message=reasons[0]).text = "\n".join(reasons)
    seconds = sum(value for value in report.times.values() if math.isfinite(value))
    counts = {"tests": len(suite.findall("testcase")), "failures": failures, "errors": 0, "skipped": skipped}
    for key, amount in counts.items():
        suite.set(key, str(amount))
    suite.set("time", f"{seconds:.3f}")
    return suite


def _finding(suite: ElementTree.Element, finding: Finding, report: Report, sources: SourceTree) -> bool:
    """Add the test case of one finding; whether it is a failure."""
    title = f"{finding.rule.code} {finding.rule.name}: {name(finding.op)} {name(finding.node)} ({name(finding.operand)})"
    case = _case(suite, report, title)
    found = sources.line(finding.location)
    if found is not None:
        case.set("file", one_line(found[0]))
        case.set("line", str(found[1]))
    message = one_line(finding.message)
    details = [
        message,
        f"operand: {name(finding.operand)} in {interval(finding.low, finding.high)}",
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


def _case(suite: ElementTree.Element, report: Report, title: str) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", classname=name(report.model), name=title)
