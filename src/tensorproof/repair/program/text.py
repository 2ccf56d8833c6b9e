"""The user's file as text: read and written in its own encoding, its lines followed through a change."""

from __future__ import annotations

import difflib
import io
import tokenize
from dataclasses import dataclass, replace
from pathlib import Path

from tensorproof.errors import ModelError
from tensorproof.repair.source.proposal import unified_diff
from tensorproof.repair.source.text import lines_of


@dataclass(frozen=True, slots=True)
class SourceText:
    """A file of Python, with the encoding that it is written in."""

    path: Path
    text: str
    encoding: str

    @classmethod
    def read(cls, path: Path) -> SourceText:
        """The file as it is, its line ends included."""
        try:
            data = path.read_bytes()
            encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
            return cls(path, data.decode(encoding), encoding)
        except (OSError, SyntaxError, UnicodeDecodeError) as error:
            raise ModelError(f"{path}: cannot be read as Python source ({error})") from None

    def changed(self, text: str) -> SourceText:
        return replace(self, text=text)

    def to_bytes(self) -> bytes:
        return self.text.encode(self.encoding)


@dataclass(frozen=True, slots=True)
class SourceChange:
    """The user's file as it is, and with all repairs that may be applied."""

    before: SourceText
    after: SourceText

    def diff(self, name: str) -> str:
        """The change as a unified diff; empty if there is none."""
        return unified_diff(self.before.text, self.after.text, name)


class LineMap:
    """Lines of two versions of a text as places that both have: a line that stayed, or a block of lines that were changed.

    A place is the number of its first line in the older version.
    """

    def __init__(self, before: str, after: str) -> None:
        matcher = difflib.SequenceMatcher(None, lines_of(before), lines_of(after), autojunk=False)
        self._blocks = matcher.get_opcodes()

    def old(self, line: int) -> int:
        """The place of a line of the older version."""
        for tag, first, last, _, _ in self._blocks:
            if first <= line - 1 < last:
                return line if tag == "equal" else first + 1
        return line

    def new(self, line: int) -> int:
        """The place of a line of the newer version."""
        for tag, first, _, start, end in self._blocks:
            if start <= line - 1 < end:
                return first + line - start if tag == "equal" else first + 1
        return line

    def changes(self) -> list[tuple[int, int, int, int]]:
        """The blocks that were changed: first and last line (the latter not included, both from 0) before and after."""
        return [(first, last, start, end) for tag, first, last, start, end in self._blocks if tag != "equal"]
