"""One finding for the page: its numbers, its source, its failing input, its repair, and the commands that lead on."""

from __future__ import annotations

import shlex
from typing import Any

from tensorproof.findings import Finding, Location, Report, SourceEdit
from tensorproof.formats import BY_NAME
from tensorproof.report.assumption_lines import as_mapping, as_sequence
from tensorproof.report.html.witness_arrays import witness_arrays
from tensorproof.report.plain_text import interval, name, number, one_line
from tensorproof.report.source_lines import SourceTree
from tensorproof.report.source_terminal import place

#: Lines of source before and after the one that is meant.
CONTEXT = 3
LONGEST_LINE = 200


def finding_data(finding: Finding, report: Report, sources: SourceTree) -> dict[str, Any]:
    """All that the page says about a finding that is a defect of its own."""
    format = BY_NAME.get(finding.format)
    return {
        "rule": finding.rule.code,
        "name": finding.rule.name,
        "summary": finding.rule.summary,
        "severity": finding.rule.severity,
        "verdict": str(finding.verdict),
        "note": finding.is_note,
        "message": one_line(finding.message, 400),
        "node": name(finding.node),
        "op": name(finding.op),
        "phase": finding.phase,
        "operand": name(finding.operand),
        "format": one_line(finding.format),
        "largest": None if format is None or not format.is_float else format.high,
        # What was only seen in runs has no bound of its own.
        "is_bound": bool(finding.trail) or finding.reached is None or list(finding.reached) != list(finding.bounds),
        "range": None if finding.is_source else list(finding.bounds),
        "range_text": None if finding.is_source else interval(*finding.bounds),
        "reached": None if finding.reached is None else list(finding.reached),
        "reached_text": None if finding.reached is None else interval(*finding.reached),
        "limit": finding.limit,
        "limit_text": None if finding.limit is None else number(finding.limit),
        "reaches": finding.reaches,
        "trail": [
            {"value": name(step.value), "op": name(step.op), "range": [step.low, step.high], "text": interval(step.low, step.high)}
            for step in finding.trail
        ],
        "place": _place(finding.location, sources),
        "module": None if finding.location is None or not finding.location.module else name(finding.location.module),
        "excerpt": _excerpt(finding.location, sources),
        "related": [
            {"place": _place(related.location, sources), "message": one_line(related.message, 400)} for related in finding.related
        ],
        "arrays": [] if finding.witness is None else witness_arrays(finding.witness.arrays),
        "witness": None if finding.witness is None else one_line(finding.witness.arrays),
        "fix": _fix(finding),
        "edits": [_edit(edit) for edit in finding.edits],
        "commands": [list(command) for command in _commands(finding, report)],
    }


def _place(location: Location | None, sources: SourceTree) -> str | None:
    if location is None or not location.file:
        return None
    shown = Location(sources.relative(location.file) or location.file, location.line, column=location.column, cell=location.cell)
    return place(shown)


def _excerpt(location: Location | None, sources: SourceTree) -> list[list[Any]]:
    """Number, text and whether it is meant, of the lines around a place; the line alone where only it is known."""
    if location is None or location.line is None:
        return []
    found = sources.line(location)
    lines = [] if found is None else sources.lines(found[0])
    if 1 <= location.line <= len(lines):
        first = max(location.line - CONTEXT, 1)
        near = lines[first - 1 : location.line + CONTEXT]
        return [[first + index, _line(text), first + index == location.line] for index, text in enumerate(near)]
    return [[location.line, _line(location.text), True]] if location.text else []


def _line(text: str) -> str:
    return one_line(text.rstrip().replace("\t", "    "), LONGEST_LINE)


def _fix(finding: Finding) -> dict[str, Any] | None:
    """The repair as pairs of a label and a text, whether it is safe, and why others were declined."""
    fix = finding.fix
    if fix is None:
        return None
    declined = [as_mapping(entry) for entry in as_sequence(fix.get("declined"))]
    reasons = [one_line(f"{entry.get('name')}: {entry.get('reason')}", 400) for entry in declined]
    if fix.get("kind") is None:
        return {"found": False, "declined": reasons, "rows": []}
    if fix.get("along_with"):
        return {
            "found": True,
            "safe": True,
            "declined": [],
            "rows": [["repair", f"goes with that of {name(str(fix['along_with']))}"]],
        }
    rows = [["repair", f"{fix.get('kind')} {fix.get('name')}: {fix.get('summary')}"], ["because", fix.get("because")]]
    rows.append(["proof", fix.get("cost")])
    return {
        "found": True,
        "safe": bool(fix.get("safe")),
        "declined": reasons,
        "rows": [[label, one_line(str(text), 600)] for label, text in rows if text],
    }


def _edit(edit: SourceEdit) -> dict[str, Any]:
    """A change of source: its title, and the line before and after it where it is known."""
    location, text = edit.location, edit.location.text
    known = text is not None and location.column is not None and location.end_column is not None
    if not known or location.end_line not in (None, location.line) or "\n" in edit.text:
        return {"title": one_line(edit.title, 400), "diff": None}
    assert text is not None and location.column is not None and location.end_column is not None
    after = text[: location.column - 1] + edit.text + text[location.end_column - 1 :]
    return {"title": one_line(edit.title, 400), "diff": [f"-{_line(text.lstrip())}", f"+{_line(after.lstrip())}"]}


def _commands(finding: Finding, report: Report) -> list[tuple[str, str]]:
    """What a reader may want to run next, with what it does."""
    found: list[tuple[str, str]] = []
    if finding.witness is not None:
        found.append(("replay the failure", f"python {shlex.quote(one_line(finding.witness.script))}"))
    if finding.fix is not None and finding.fix.get("apply"):
        found.append(("apply the repair", one_line(str(finding.fix["apply"]))))
    scan = _scan(finding, report)
    if scan is not None and not finding.is_sure:
        found.append(("search a failing input", f"tensorproof confirm {scan}"))
    if scan is not None and finding.fix is None:
        found.append(("show a repair", f"tensorproof fix {scan} --diff"))
    found.append(("read about the rule", f"tensorproof explain {finding.rule.code}"))
    return found


def _scan(finding: Finding, report: Report) -> str | None:
    """The model, the options under which it was checked and the node, as a command line has them; None if they are not known."""
    if report.options is None or finding.is_source or finding.op == "constant":
        return None
    words = [report.model, *report.options, "--node", finding.node]
    return shlex.join(words) if all(word.isprintable() for word in words) else None
