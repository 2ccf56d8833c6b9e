"""Positions between three ways of counting: `ast`, editors and Python strings.

`ast` counts lines from 1 and columns in bytes of UTF-8. Editors count lines from 0 and columns in units of UTF-16, or of the
encoding that was agreed on. Both end a line at `\\n`, `\\r\\n` or `\\r`, and nowhere else: `str.splitlines` knows more ends.
"""

from __future__ import annotations

import re
from functools import cached_property

from lsprotocol.types import Position, PositionEncodingKind, Range

from tensorproof.shapes.problems import Place

_LINE_END = re.compile(r"\r\n|\r|\n")
_CODECS: dict[str, tuple[str, int]] = {
    PositionEncodingKind.Utf8.value: ("utf-8", 1),
    PositionEncodingKind.Utf16.value: ("utf-16-le", 2),
    PositionEncodingKind.Utf32.value: ("utf-32-le", 4),
}


class SourceText:
    """A text with the positions of one editor."""

    def __init__(self, text: str, encoding: str = PositionEncodingKind.Utf16.value) -> None:
        self.text = text
        self.encoding = encoding
        self._codec, self._unit = _CODECS[encoding]

    @cached_property
    def lines(self) -> list[str]:
        """The lines without their ends; there is always one."""
        return _LINE_END.split(self.text)

    def position(self, line: int, column: int) -> Position:
        """The editor's position of a line and column of `ast`. What lies beyond the text is moved to its end."""
        if line > len(self.lines):
            return self._end()
        content = self.lines[line - 1]
        if content.isascii():
            return Position(line - 1, min(column, len(content)))
        before = content.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "ignore")
        return Position(line - 1, self._units(before))

    def range(self, place: Place) -> Range:
        """The editor's range of a place in this text."""
        return Range(self.position(place.line, place.column), self.position(place.end_line, place.end_column))

    def line_and_column(self, position: Position) -> tuple[int, int]:
        """Line and column of `ast` of an editor's position; inside a character means before it."""
        if position.line >= len(self.lines):
            return self.line_and_column(self._end())
        content = self.lines[position.line]
        if content.isascii():
            return position.line + 1, min(position.character, len(content))
        before = content.encode(self._codec, "surrogatepass")[: position.character * self._unit].decode(self._codec, "ignore")
        return position.line + 1, len(before.encode("utf-8", "surrogatepass"))

    def _end(self) -> Position:
        return Position(len(self.lines) - 1, self._units(self.lines[-1]))

    def _units(self, text: str) -> int:
        return len(text.encode(self._codec, "surrogatepass")) // self._unit
