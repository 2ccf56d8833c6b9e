"""The edit that silences one rule on one line: `# tensorproof: ignore[SHP105]`."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterable, Sequence

from tensorproof.language_server.positions import SourceText
from tensorproof.shapes.problems import Edit, Place, Problem
from tensorproof.sources.ignores import python_tokens, statement_lines

#: An ignore that names codes, up to the bracket that closes it.
_CODES = re.compile(r"#\s*tensorproof:\s*ignore\s*\[[^\]]*(?=\])")


def ignore_edit(source: SourceText, problem: Problem) -> Edit | None:
    """The comment on the problem's line, or else on the first or last of its statement; None where none can have one."""
    try:
        tokens = python_tokens(source.text)
    except (tokenize.TokenError, SyntaxError):
        return None
    comments = {token.start[0]: token.start[1] for token in tokens if token.type == tokenize.COMMENT}
    closed = _lines_without_room(source.lines, tokens, comments)
    line = problem.place.line
    for candidate in (line, *statement_lines(tokens).get(line, ())):
        if candidate not in closed:
            return _edit_of(source.lines[candidate - 1], candidate, comments.get(candidate), problem)
    return None


def _lines_without_room(lines: Sequence[str], tokens: Iterable[tokenize.TokenInfo], comments: Iterable[int]) -> set[int]:
    """Lines that no comment can be added to: they end inside a string, or with a backslash."""
    commented = set(comments)
    backslash = {row for row, line in enumerate(lines, 1) if line.endswith("\\") and row not in commented}
    return backslash.union(*(range(token.start[0], token.end[0]) for token in tokens))


def _edit_of(content: str, line: int, comment: int | None, problem: Problem) -> Edit:
    code = problem.rule.code
    codes = None if comment is None else _CODES.search(content, comment)
    if codes is None:
        index, added = len(content.rstrip()), f"  # tensorproof: ignore[{code}]"
    else:
        index, added = codes.end(), f", {code}"
    column = len(content[:index].encode("utf-8"))
    place = Place(problem.place.file, line, column, line, column)
    return Edit(f"Ignore {code} ({problem.rule.name}) on this line", place, added)
