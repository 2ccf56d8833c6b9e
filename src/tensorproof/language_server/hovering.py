"""Hover: the shape of the tensor behind a name, and how it came about."""

from __future__ import annotations

import ast
import re

from lsprotocol.types import Hover, MarkupContent, MarkupKind, Position

from tensorproof.language_server.snapshot import Snapshot
from tensorproof.shapes.problems import Hint, Related

_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_MARKUP = re.compile(r"([\\`*_{}\[\]<>()#+!|~-])")


def hover(snapshot: Snapshot, position: Position) -> Hover | None:
    """What is known of the name at a position: at its assignment, or at a use of what was last assigned above."""
    line, column = snapshot.source.line_and_column(position)
    found = next((hint for hint in snapshot.hints if _covers(hint, line, column)), None) or _of_use(snapshot, line, column)
    return None if found is None else Hover(MarkupContent(MarkupKind.Markdown, _markdown(found, snapshot, line)))


def _covers(hint: Hint, line: int, column: int) -> bool:
    place = hint.place
    return (place.line, place.column) <= (line, column) <= (place.end_line, place.end_column)


def _of_use(snapshot: Snapshot, line: int, column: int) -> Hint | None:
    """The hint of the last assignment above a use of the name, in the same function."""
    name = _name_at(snapshot.source.lines[line - 1], column)
    named = [hint for hint in snapshot.hints if hint.name == name and hint.place.end_line < line]
    if not named:
        return None
    scopes = _Scopes(snapshot.source.text)
    above = [hint for hint in named if scopes.of(hint.place.line) == scopes.of(line)]
    return max(above, key=lambda hint: (hint.place.line, hint.place.column), default=None)


def _name_at(content: str, column: int) -> str | None:
    """The name around a column of bytes: of `self.x.y`, what stands before the end of the word that the column is in."""
    index = len(content.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "ignore"))
    for match in _NAME.finditer(content):
        if match.start() <= index <= match.end():
            word_end = content.find(".", index, match.end())
            return content[match.start() : match.end() if word_end < 0 else word_end]
    return None


class _Scopes:
    """The function, or class body, that each line belongs to: the innermost one."""

    def __init__(self, text: str) -> None:
        self._spans: list[tuple[int, int]] = []
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self._spans.append((node.lineno, node.end_lineno or node.lineno))

    def of(self, line: int) -> tuple[int, int] | None:
        around = [span for span in self._spans if span[0] <= line <= span[1]]
        return max(around, default=None)


def _markdown(hint: Hint, snapshot: Snapshot, line: int) -> str:
    where = "" if hint.place.line == line else f", assigned on line {hint.place.line}"
    parts = [f"`{hint.name}: {hint.shape}`{where}"]
    if hint.history:
        parts.append("\n".join(_step(one, snapshot) for one in hint.history))
    return "\n\n".join(parts)


def _step(one: Related, snapshot: Snapshot) -> str:
    content = snapshot.line_text(one.place)
    shown = "" if not content else f" {_code(content)}:"
    elsewhere = "" if one.place.file == snapshot.analysis.path else f" of {_escaped(one.place.file)}"
    return f"- line {one.place.line}{elsewhere}:{shown} {_escaped(one.message)}"


def _code(text: str) -> str:
    """A code span; a longer fence where the text itself has backticks."""
    fence = "``" if "`" in text else "`"
    space = " " if "`" in text else ""
    return f"{fence}{space}{text}{space}{fence}"


def _escaped(text: str) -> str:
    return _MARKUP.sub(r"\\\1", text)
