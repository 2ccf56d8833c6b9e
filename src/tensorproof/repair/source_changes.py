"""The change of a user's source files: the repairs of all findings that name a line, file by file, as diffs."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

from tensorproof.repair.fixing import Outcome
from tensorproof.report.source_lines import SourceTree


def source_diffs(outcomes: Iterable[Outcome], sources: SourceTree) -> Iterator[str]:
    """A unified diff per file; where a line is not mended, a comment that says why."""
    by_file: dict[str, dict[int, list[Outcome]]] = {}
    for outcome in outcomes:
        place = sources.line(outcome.finding.location)
        if place is not None:
            by_file.setdefault(place[0], {}).setdefault(place[1], []).append(outcome)
    for path, by_line in sorted(by_file.items()):
        if sources.lines(path):
            yield from _of_file(path, "\n".join(sources.lines(path)), by_line)


def _of_file(path: str, original: str, by_line: dict[int, list[Outcome]]) -> Iterator[str]:
    from tensorproof.repair.source import Declined, propose

    text = original
    for line, outcomes in sorted(by_line.items(), reverse=True):
        reasons: dict[str, str] = {}
        for outcome in outcomes:
            finding = outcome.finding
            change = propose(text, _line_now(line, original, text), finding.rule.code, format=finding.format or "float32")
            if isinstance(change, Declined):
                reasons[finding.rule.code] = change.reason
            else:
                text = change.source
                # One line, one change: further findings of the line are looked at when the program has been exported again.
                reasons.clear()
                break
        for code, reason in reasons.items():
            yield f"# {path}:{line}: {code} is not mended in the source: {reason}\n"
    yield "".join(
        line if line.endswith("\n") else f"{line}\n"
        for line in difflib.unified_diff(
            original.splitlines(keepends=True), text.splitlines(keepends=True), f"a/{path}", f"b/{path}"
        )
    )


def _line_now(line: int, before: str, after: str) -> int:
    """Where a line of a text stands in a changed one: imports may have been added above it."""
    if before == after:
        return line
    matcher = difflib.SequenceMatcher(None, before.split("\n"), after.split("\n"), autojunk=False)
    for old, new, size in matcher.get_matching_blocks():
        if old <= line - 1 < old + size:
            return new + line - old
    return line
