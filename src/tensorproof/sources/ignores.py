"""Comments that silence rules: `# tensorproof: ignore[SHP101]`, `# tensorproof: ignore`, `# tensorproof: ignore-file`."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass, field

_MARK = "tensorproof:"
_COMMENT = re.compile(r"#\s*tensorproof:\s*ignore(?P<file>-file)?(?![\w-])\s*(?:\[(?P<codes>[^\]]*)\])?")
_LAYOUT = frozenset({tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER})

#: The beginnings of codes that a comment silences; the empty one silences all.
_Codes = tuple[str, ...]


@dataclass(slots=True)
class Ignores:
    """What the comments of one text silence: in the whole file, and on its lines."""

    file: _Codes = ()
    lines: dict[int, _Codes] = field(default_factory=dict[int, _Codes])
    #: First and last line of the statement that a line belongs to, for lines of statements that have several.
    statements: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])

    @staticmethod
    def of(text: str) -> Ignores:
        """The comments of a text. Only what Python takes for a comment is one; a text that is not Python has none."""
        ignores = Ignores()
        if _MARK not in text:
            return ignores
        try:
            ignores._read(text)
        except (tokenize.TokenError, SyntaxError):
            return Ignores()
        return ignores

    def covers(self, code: str, line: int) -> bool:
        """Whether a finding of a rule at a line is silenced: by the file, on the line, or where its statement begins or ends."""
        if any(code.startswith(silenced) for silenced in self.file):
            return True
        lines = {line, *self.statements.get(line, ())}
        return any(code.startswith(silenced) for row in lines for silenced in self.lines.get(row, ()))

    def _read(self, text: str) -> None:
        tokens = python_tokens(text)
        self.statements = statement_lines(tokens)
        for token in tokens:
            if token.type == tokenize.COMMENT:
                self._add(token.start[0], token.string)

    def _add(self, row: int, comment: str) -> None:
        for match in _COMMENT.finditer(comment):
            named = match["codes"]
            codes = ("",) if named is None else tuple(code.strip().upper() for code in named.split(",") if code.strip())
            if match["file"]:
                self.file += codes
            else:
                self.lines[row] = self.lines.get(row, ()) + codes


def python_tokens(text: str) -> list[tokenize.TokenInfo]:
    """The tokens of a text. Raises `tokenize.TokenError` or `SyntaxError` where it is not Python."""
    return list(tokenize.generate_tokens(io.StringIO(text, newline=None).readline))


def statement_lines(tokens: Iterable[tokenize.TokenInfo]) -> dict[int, tuple[int, int]]:
    """First and last line of the statement that a line belongs to, for lines of statements that have several."""
    lines: dict[int, tuple[int, int]] = {}
    start: int | None = None
    for token in tokens:
        row = token.start[0]
        if token.type == tokenize.NEWLINE:
            if start is not None and start < row:
                lines.update((line, (start, row)) for line in range(start, row + 1))
            start = None
        elif token.type not in _LAYOUT and start is None:
            start = row
    return lines
