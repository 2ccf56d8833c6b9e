"""The edit that silences one rule on one line: `# tensorproof: ignore[SHP105]`."""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass, field

from tensorproof.shapes.problems import Edit, Place, Problem

_CODES = re.compile(r"#\s*tensorproof:\s*ignore\[[^\]]*(?=\])")
_LAYOUT = frozenset({tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER})


@dataclass(slots=True)
class _Lines:
    """What the lines of a text end with: a comment, the middle of a string, a backslash; and the statements they belong to."""

    content: dict[int, str] = field(default_factory=dict[int, str])
    comments: dict[int, int] = field(default_factory=dict[int, int])
    #: Lines that no comment can be added to.
    closed: set[int] = field(default_factory=set[int])
    #: First and last line of the statement that a line belongs to.
    statements: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])

    @staticmethod
    def of(text: str) -> _Lines:
        """Raises what `tokenize` raises where the text is not Python."""
        lines = _Lines()
        start: int | None = None
        for token in tokenize.generate_tokens(io.StringIO(text, newline=None).readline):
            first, last = token.start[0], token.end[0]
            if token.type == tokenize.COMMENT:
                lines.comments[first] = token.start[1]
            if token.type == tokenize.NEWLINE:
                lines.statements.update((row, (start or first, first)) for row in range(start or first, first + 1))
                start = None
            elif token.type not in _LAYOUT:
                start = start or first
                lines.closed.update(range(first, last))
        for row, content in enumerate(io.StringIO(text, newline=None), 1):
            lines.content[row] = content.rstrip("\n")
            if lines.content[row].endswith("\\") and row not in lines.comments:
                lines.closed.add(row)
        return lines


def ignore_edit(text: str, problem: Problem) -> Edit | None:
    """The comment on the problem's line, or else on the first or last of its statement; None where none can have one."""
    try:
        lines = _Lines.of(text)
    except (tokenize.TokenError, SyntaxError):
        return None
    line = problem.place.line
    for candidate in (line, *lines.statements.get(line, ())):
        if candidate not in lines.closed and candidate in lines.content:
            return _edit_of(lines, candidate, problem)
    return None


def _edit_of(lines: _Lines, line: int, problem: Problem) -> Edit:
    content, code = lines.content[line], problem.rule.code
    comment = lines.comments.get(line)
    codes = None if comment is None else _CODES.search(content, comment)
    if codes is None:
        index, added = len(content.rstrip()), f"  # tensorproof: ignore[{code}]"
    else:
        index, added = codes.end(), f", {code}"
    column = len(content[:index].encode("utf-8"))
    place = Place(problem.place.file, line, column, line, column)
    return Edit(f"Ignore {code} ({problem.rule.name}) on this line", place, added)
