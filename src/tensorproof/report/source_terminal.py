"""The terminal format of findings in source: compact, as linters have it, and written without `rich`, which is slow to import."""

from __future__ import annotations

from collections.abc import Iterator

from tensorproof.findings import Finding, Location, Report
from tensorproof.report.plain_text import count, name, one_line, without_commands

#: Spaces that a tab is shown as.
_TAB = "    "
#: Of a line that is too long, this many characters before the place are kept.
_KEPT_BEFORE = 40
_CUT = "... "

_RESET = "\x1b[0m"
_STYLES = {"bold": "\x1b[1m", "error": "\x1b[1;31m", "warning": "\x1b[33m", "note": "\x1b[2m", "dim": "\x1b[2m", "help": "\x1b[32m"}


def render(report: Report, *, width: int, colour: bool = False) -> str:
    """Each finding with its line, the places that belong to it and what mends it; then one line of totals."""
    paint = _Paint(colour)
    blocks = ["\n".join(_finding(finding, paint, width)) for finding in report.findings]
    blocks.append(paint(totals(report), "bold"))
    return without_commands("\n\n".join(blocks) + "\n")


def totals(report: Report) -> str:
    """`2 errors, 1 warning in 3 files`, and what was left out."""
    errors = sum(level(finding) == "error" for finding in report.findings)
    notes = sum(level(finding) == "note" for finding in report.findings)
    warnings = len(report.findings) - errors - notes
    files = count(len(report.files or ()), "file")
    told = f", {count(notes, 'note')}" if notes else ""
    text = f"{count(errors, 'error')}, {count(warnings, 'warning')}{told} in {files}"
    if report.errors:
        text += f"; {count(len(report.errors), 'file')} not analysed"
    if report.suppressed:
        text += f"; {report.suppressed} suppressed"
    return text


def level(finding: Finding) -> str:
    """`note` for what changes no exit code, `error` for what is sure to fail, `warning` for the rest."""
    if finding.rule.severity == "note":
        return "note"
    return "error" if finding.is_sure else "warning"


def place(location: Location, *, column: bool = True) -> str:
    """`file:line:column`; in a notebook `file:cell 3, line 4`."""
    file = name(location.file or "")
    if location.line is None:
        return file
    if location.cell is not None:
        return f"{file}:cell {location.cell}, line {location.line}"
    return f"{file}:{location.line}:{location.column}" if column and location.column is not None else f"{file}:{location.line}"


class _Paint:
    """Colours a text, or leaves it alone."""

    def __init__(self, colour: bool) -> None:
        self._colour = colour

    def __call__(self, text: str, style: str) -> str:
        return f"{_STYLES[style]}{text}{_RESET}" if self._colour else text


def _finding(finding: Finding, paint: _Paint, width: int) -> Iterator[str]:
    location = finding.location or Location()
    shown = level(finding)
    yield f"{paint(place(location), 'bold')}  {finding.rule.code} {paint(shown, shown)}  {one_line(finding.message)}"
    gutter = " " * (len(str(location.line)) + 2)
    if location.text is not None and location.text.strip():
        line, marks = _excerpt(location, width - len(gutter) - 2)
        yield f"{paint(f' {location.line} |', 'dim')} {line}"
        yield f"{paint(f'{gutter}|', 'dim')} {paint(marks, shown)}"
    for related in finding.related:
        yield f"{gutter}{paint('=', 'dim')} {place(related.location)}  {one_line(related.message)}"
    for edit in finding.edits:
        yield f"{gutter}{paint('=', 'dim')} {paint('help:', 'help')} {one_line(edit.title)}"


def _excerpt(location: Location, width: int) -> tuple[str, str]:
    """The line without its indentation, cut to the width, and the marks below the place in it."""
    text = (location.text or "").rstrip()
    indentation = len(text) - len(text.lstrip())
    start = max((location.column or 1) - 1, indentation)
    is_one_line = location.end_line is None or location.end_line == location.line
    end = max(location.end_column - 1, start) if is_one_line and location.end_column is not None else len(text)
    before, marked, after = _shown(text[indentation:start]), _shown(text[start:end]), _shown(text[end:])
    if len(before) + len(marked) + len(after) > width:
        if len(before) > _KEPT_BEFORE:
            before = _CUT + before[len(before) - _KEPT_BEFORE :]
        room = max(width - len(before), 10)
        marked, after = marked[:room], after[: max(room - len(marked), 0)]
    return before + marked + after, " " * _columns(before) + "^" * max(_columns(marked), 1)


def _shown(text: str) -> str:
    return one_line(text.replace("\t", _TAB))


def _columns(text: str) -> int:
    """How many columns of a terminal the text takes: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)
