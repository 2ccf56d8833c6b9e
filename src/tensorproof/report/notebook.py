"""A report as a notebook shows it: a summary and a table of findings, in HTML without scripts or styles from elsewhere.

Names and messages come from models: everything goes through `_text`, which escapes it.
"""

from __future__ import annotations

import html
from collections.abc import Iterable

from tensorproof.findings import Finding, Location, Report
from tensorproof.report.plain_text import count, interval, name, one_line
from tensorproof.report.ranking import tally
from tensorproof.report.source_terminal import place, totals

#: Findings after this many are counted, not shown.
SHOWN = 50
_COLUMNS = ("rule", "verdict", "operator", "where", "operand", "what")
_COLOURS = {"confirmed": "#b00020", "certain": "#b00020", "possible": "#8a6d00", "note": "#666666"}


def render(report: Report) -> str:
    """One model: what was found in a line, the findings in a table, and what the analysis does not cover."""
    parts = [
        f"<div><strong>{_text(name(report.model))}</strong>{_text(_target(report))}</div>",
        f"<div>{_text(_totals(report))}; {_text(_coverage(report))}</div>",
    ]
    if report.findings:
        parts.append(_table(report.findings[:SHOWN]))
    if len(report.findings) > SHOWN:
        parts.append(f"<div>and {_text(count(len(report.findings) - SHOWN, 'more finding'))}</div>")
    parts += [f"<div>not analysed: {_text(one_line(error, 400))}</div>" for error in report.errors]
    parts += [f"<div>remark: {_text(one_line(remark, 400))}</div>" for remark in report.coverage.remarks]
    return f"<div>{''.join(parts)}</div>"


def _target(report: Report) -> str:
    return "" if report.is_source else f" target {name(report.target)}"


def _totals(report: Report) -> str:
    if report.is_source:
        return totals(report)
    return str(tally(report.findings)) if report.findings else "no findings"


def _coverage(report: Report) -> str:
    coverage = report.coverage
    if report.is_source:
        return f"the shape is fully known of {coverage.checked} of {count(coverage.nodes, 'tensor')}"
    return f"checked {coverage.checked} of {count(coverage.checkable, 'checkable node')}"


def _table(findings: Iterable[Finding]) -> str:
    head = "".join(f"<th>{column}</th>" for column in _COLUMNS)
    rows = "".join(_row(finding) for finding in findings)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _row(finding: Finding) -> str:
    kind = "note" if finding.is_note else str(finding.verdict)
    verdict = f"{finding.verdict} (note)" if finding.is_note else str(finding.verdict)
    cells = (
        f'<td title="{_text(finding.rule.summary)}">{_text(finding.rule.code)}</td>',
        f'<td style="color:{_COLOURS[kind]}">{_text(verdict)}</td>',
        _cell(f"{name(finding.op)} {name(finding.node)}"),
        _cell(_where(finding.location)),
        _cell("" if finding.is_source else f"{name(finding.operand)} in {interval(*finding.bounds)}"),
        _cell(one_line(finding.message, 400)),
    )
    return f"<tr>{''.join(cells)}</tr>"


def _where(location: Location | None) -> str:
    if location is None:
        return ""
    file = "" if location.file is None else place(location, column=False)
    return " ".join(part for part in (file, location.module and name(location.module)) if part)


def _cell(text: str) -> str:
    return f"<td>{_text(text)}</td>"


def _text(text: str) -> str:
    return html.escape(text, quote=True)
