"""The GitHub format: workflow commands that annotate the lines of a pull request.

Escapes as in GitHub's own toolkit (actions/toolkit, packages/core/src/command.ts): `%`, CR and LF everywhere, `:` and
`,` in properties, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tensorproof.findings import Finding, Location, Report
from tensorproof.report.plain_text import count, interval, name, names, one_line
from tensorproof.report.ranking import ranked, tally
from tensorproof.report.source_lines import SourceTree
from tensorproof.report.source_terminal import level, place, totals


def render(reports: Sequence[Report], *, source_root: Path | None = None) -> str:
    """One command per finding, at its source line or else at the model file; one notice per model with its coverage.

    Of source, the notice has the totals, and each file that could not be analysed is an error.
    """
    sources = SourceTree(source_root)
    lines: list[str] = []
    for report in reports:
        if report.is_source:
            lines.extend(_source_finding(finding, sources) for finding in report.findings)
            lines.extend(command("error", {"title": "tensorproof"}, error) for error in report.errors)
            lines.append(command("notice", {"title": "tensorproof"}, totals(report)))
            continue
        lines.extend(_finding(finding, report, sources) for finding in ranked(report.findings))
        lines.append(_summary(report, sources))
    return "".join(f"{line}\n" for line in lines)


def command(kind: str, properties: dict[str, str], message: str) -> str:
    """One workflow command; properties and message are escaped here and nowhere else."""
    listed = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{kind} {listed}::{_data(message)}"


def _finding(finding: Finding, report: Report, sources: SourceTree) -> str:
    if finding.is_note:
        kind = "notice"
    else:
        kind = "error" if finding.is_sure else "warning"
    properties: dict[str, str] = {}
    found = sources.line(finding.location)
    if found is not None:
        properties = {"file": found[0], "line": str(found[1])}
        if finding.location is not None and finding.location.column is not None:
            properties["col"] = str(finding.location.column)
    else:
        properties = {"file": sources.model_file(report.model)}
    properties["title"] = f"{finding.rule.code} {finding.rule.name} ({finding.verdict})"
    parts = [finding.message, f"node {name(finding.node)} of {name(report.model)}"]
    if finding.reached is not None:
        parts.append(f"real runs reached {interval(*finding.reached)}")
    if finding.consequence_of:
        parts.append(f"a consequence of {names(finding.consequence_of)}")
    if finding.witness is not None:
        parts.append(f"replay with python {finding.witness.script}")
    return command(kind, properties, "; ".join(parts))


def _source_finding(finding: Finding, sources: SourceTree) -> str:
    """At its line; in a notebook, whose lines GitHub does not know, at the file, with the cell in the message."""
    location = finding.location or Location()
    properties = {"file": sources.model_file(location.file or "")}
    message = finding.message
    if location.line is None:
        pass
    elif location.cell is None:
        ends = {"endLine": location.end_line, "col": location.column, "endColumn": location.end_column}
        if location.end_line != location.line:
            # Columns hold for one line alone.
            ends = {"endLine": location.end_line}
        properties |= {"line": str(location.line)} | {key: str(value) for key, value in ends.items() if value is not None}
    else:
        message = f"{place(location)}: {message}"
    properties["title"] = f"{finding.rule.code} {finding.rule.name}"
    parts = [message]
    parts += [f"{place(related.location)}: {related.message}" for related in finding.related]
    parts += [f"help: {edit.title}" for edit in finding.edits]
    if finding.witness is not None:
        parts.append(f"replay with python {finding.witness.script}")
    kind = level(finding)
    return command("notice" if kind == "note" else kind, properties, "; ".join(parts))


def _summary(report: Report, sources: SourceTree) -> str:
    coverage = report.coverage
    parts = [
        str(tally(report.findings)),
        f"checked {coverage.checked} of {count(coverage.checkable, 'checkable node')}",
        f"{len(report.proven_safe)} proven safe",
    ]
    if coverage.not_analysed:
        parts.append(f"{len(coverage.not_analysed)} not analysed")
    if report.suppressed:
        parts.append(f"{report.suppressed} suppressed")
    properties = {"file": sources.model_file(report.model), "title": "tensorproof"}
    return command("notice", properties, f"{name(report.model)}: {', '.join(parts)}")


def _data(text: str) -> str:
    return one_line(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
