"""The Markdown format, for the summary of a job and for comments: GitHub's dialect, in which tables hold the findings.

Names and messages come from models. They go through `_text`, which writes whatever could be markup as a character reference: those
are shown as they are and never read as structure (CommonMark 0.31, 2.5 "Entity and numeric character references").
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from tensorproof.findings import Finding, Report
from tensorproof.report.assumption_lines import assumption_lines
from tensorproof.report.plain_text import count, interval, name, names, one_line
from tensorproof.report.ranking import in_order, tally
from tensorproof.report.source_lines import SourceTree
from tensorproof.report.source_terminal import level, place, totals
from tensorproof.report.terminal import not_analysed

#: Rows of one table; further findings are counted. A summary of GitHub holds 1 MiB.
SHOWN = 50

_MODEL_COLUMNS = ("rule", "verdict", "node", "range", "what")
_SOURCE_COLUMNS = ("rule", "level", "place", "what")
#: What begins markup inside a line, in GitHub's dialect, too: mentions, references, formulas, links without brackets.
_MARKUP = re.compile(r"[&<>\"'`*_\[\](){}#!|~:@$\\^]|(?<=www)\.")


def render(reports: Sequence[Report], *, source_root: Path | None = None) -> str:
    """A heading and a table for each model, with what the verdicts hold under; source in one table."""
    sources = SourceTree(source_root)
    lines = ["## tensorproof", ""]
    if not reports:
        lines += ["Nothing was checked.", ""]
    for report in reports:
        lines += _source(report) if report.is_source else _model(report, sources)
    return "\n".join(lines)


def _model(report: Report, sources: SourceTree) -> Iterator[str]:
    yield f"### {_code(name(report.model))}"
    yield ""
    coverage = report.coverage
    told = [
        f"**{tally(report.findings) if report.findings else 'no findings'}**",
        f"checked {coverage.checked} of {count(coverage.checkable, 'checkable node')}",
        f"{len(report.proven_safe)} proven safe",
    ]
    if report.proven_safe_if:
        told.append(f"{len(report.proven_safe_if)} safe if the defects before them do not occur")
    if report.suppressed:
        told.append(f"{report.suppressed} suppressed")
    yield "; ".join(told)
    yield ""
    findings = in_order(report)
    yield from _table(_MODEL_COLUMNS, [_model_row(finding, sources) for finding in findings[:SHOWN]], len(findings))
    precision = "as in the model" if report.precision is None else name(report.precision)
    yield from _folded(
        "assumptions",
        [
            f"target {_code(name(report.target))}, precision {_text(precision)}",
            *(f"{label or 'also'} {_text(text)}" for label, text in assumption_lines(report.assumptions)),
        ],
    )
    gaps = [
        f"{count(len(nodes), 'node')}, {_text(one_line(reason, 200))}: {_text(names(nodes))}"
        for reason, nodes in not_analysed(coverage.not_analysed)
    ]
    if gaps or coverage.remarks or report.errors:
        gaps += [f"remark: {_text(one_line(text, 400))}" for text in (*coverage.remarks, *report.errors)]
        yield from _folded("not analysed", gaps)


def _model_row(finding: Finding, sources: SourceTree) -> tuple[str, ...]:
    low, high = finding.bounds
    node = f"{_code(name(finding.op))} {_code(name(finding.node))}"
    if finding.location is not None and finding.location.file:
        location = finding.location
        file = name(sources.relative(location.file) or location.file or "")
        node += f"<br>{_code(file if location.line is None else f'{file}:{location.line}')}"
    verdict = f"{finding.verdict} (note)" if finding.is_note else str(finding.verdict)
    seen = "" if finding.reached is None else f", reached {interval(*finding.reached)}"
    message = one_line(finding.message, 400)
    if finding.consequence_of:
        message += f" (a consequence of {names(finding.consequence_of)})"
    return finding.rule.code, verdict, node, _text(f"{interval(low, high)}{seen}"), _text(message) + _replay(finding)


def _replay(finding: Finding) -> str:
    if finding.witness is None:
        return ""
    return f"<br>replay: {_code(f'python {shlex.quote(one_line(finding.witness.script, 400))}')}"


def _source(report: Report) -> Iterator[str]:
    yield f"### {_code(name(report.model))}"
    yield ""
    yield f"**{totals(report)}**"
    yield ""
    rows = [_source_row(finding) for finding in report.findings[:SHOWN]]
    yield from _table(_SOURCE_COLUMNS, rows, len(report.findings))
    gaps = [f"file {_text(one_line(error, 400))}" for error in report.errors]
    gaps += [f"remark: {_text(one_line(remark, 400))}" for remark in report.coverage.remarks]
    if gaps:
        yield from _folded("not analysed", gaps)


def _source_row(finding: Finding) -> tuple[str, ...]:
    where = "" if finding.location is None else _code(place(finding.location))
    told = [_text(one_line(finding.message, 400))]
    told += [f"{_code(place(r.location))} {_text(one_line(r.message, 400))}" for r in finding.related]
    told += [f"help: {_text(one_line(edit.title, 400))}" for edit in finding.edits]
    return finding.rule.code, level(finding), where, "<br>".join(told) + _replay(finding)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], amount: int) -> Iterator[str]:
    if not rows:
        return
    yield f"| {' | '.join(columns)} |"
    yield f"| {' | '.join('---' for _ in columns)} |"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""
    if amount > len(rows):
        yield f"and {count(amount - len(rows), 'more finding')}"
        yield ""


def _folded(title: str, lines: Sequence[str]) -> Iterator[str]:
    """A list below a title, unfolded by a click. Blank lines around it: what is inside is Markdown again.

    Lines begin with a word of ours: at the beginning of a line even a dash is markup.
    """
    yield f"<details><summary>{title}</summary>"
    yield ""
    for line in lines:
        yield f"- {line}"
    yield ""
    yield "</details>"
    yield ""


def _code(text: str) -> str:
    return f"<code>{_text(text)}</code>"


def _text(text: str) -> str:
    return _MARKUP.sub(lambda found: f"&#{ord(found[0])};", text)
