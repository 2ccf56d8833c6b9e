"""One source file as text, with the way from the positions of `ast` to those that people count."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tensorproof.errors import SourceError
from tensorproof.findings import Location
from tensorproof.sources.discovery import STANDARD_INPUT
from tensorproof.sources.ignores import Ignores

#: Larger texts are generated data, not programs. Notebooks hold pictures, too.
LARGEST_SOURCE = 5_000_000
LARGEST_NOTEBOOK = 50_000_000


@dataclass(frozen=True)
class Source:
    """The text of a file as `ast` reads it: line ends are `\\n`, and a notebook's cells are joined."""

    path: str
    text: str
    #: Cell and line in it of each line of a notebook's text.
    cells: tuple[tuple[int, int], ...] | None = None

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @cached_property
    def ignores(self) -> Ignores:
        return Ignores.of(self.text)

    def location(self, line: int, column: int, end_line: int, end_column: int) -> Location:
        """Where a stretch of the text lies for people; columns are bytes of UTF-8 from 0, as `ast` counts them."""
        cell, first = self._cell(line)
        _, last = self._cell(end_line)
        return Location(
            file=self.path,
            line=first,
            column=self._character(line, column),
            end_line=last,
            end_column=self._character(end_line, end_column),
            cell=cell,
            text=self.lines[line - 1] if line <= len(self.lines) else None,
        )

    def error(self, what: str, line: int | None) -> SourceError:
        """What is wrong with the text, at the place that the user knows."""
        if line is None or self.cells is None:
            return SourceError(self.path, what, line)
        cell, row = self._cell(line)
        return SourceError(self.path if cell is None else f"{self.path}:cell {cell}, line {row}", what)

    def _cell(self, line: int) -> tuple[int | None, int]:
        if not self.cells:
            return None, line
        return self.cells[min(line, len(self.cells)) - 1]

    def _character(self, line: int, column: int) -> int:
        if line > len(self.lines):
            return 1
        text = self.lines[line - 1]
        return column + 1 if text.isascii() else len(text.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "ignore")) + 1


def read_source(path: str) -> Source:
    """Read a file, a notebook, or standard input by its name `-`. Raises `SourceError`."""
    if path == STANDARD_INPUT:
        return source_of("<stdin>", sys.stdin.buffer.read(LARGEST_SOURCE + 1))
    try:
        with Path(path).open("rb") as file:
            content = file.read((LARGEST_NOTEBOOK if _is_notebook(path) else LARGEST_SOURCE) + 1)
    except OSError as error:
        raise SourceError(path, f"cannot be read ({error.strerror})") from None
    return source_of(path, content)


def source_of(path: str, content: bytes) -> Source:
    """The source in the content of a file; what it is, its name says."""
    if _is_notebook(path):
        from tensorproof.sources.notebooks import read_notebook

        _check_size(path, len(content), LARGEST_NOTEBOOK)
        source = Source(path, *read_notebook(path, content))
        _check_size(path, len(source.text), LARGEST_SOURCE)
        # JSON can say what no file in UTF-8 can: NUL and lone surrogates.
        strange = next((i for i, c in enumerate(source.text) if c == "\0" or "\ud800" <= c <= "\udfff"), None)
        if strange is not None:
            raise source.error("holds characters that Python source cannot", source.text.count("\n", 0, strange) + 1)
        return source
    _check_size(path, len(content), LARGEST_SOURCE)
    if (position := content.find(b"\0")) >= 0:
        raise SourceError(path, "holds NUL bytes: not Python source", content.count(b"\n", 0, position) + 1)
    return Source(path, _decoded(path, content).replace("\r\n", "\n").replace("\r", "\n"))


def _is_notebook(path: str) -> bool:
    return path.endswith(".ipynb")


def _check_size(path: str, size: int, largest: int) -> None:
    if size > largest:
        raise SourceError(path, f"larger than {largest // 1_000_000} MB: not analysed")


def _decoded(path: str, content: bytes) -> str:
    """UTF-8, or what the first lines declare (PEP 263)."""
    if content.isascii() and b"coding" not in content[:1000]:
        return content.decode("ascii")
    import io
    import tokenize

    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
    except SyntaxError as error:
        declared = "coding" in str(error) and "utf-8" not in str(error)
        what = f"declares an encoding that is not known ({error})" if declared else _NOT_UTF8
        raise SourceError(path, what, 1) from None
    try:
        return content.decode(encoding)
    except (UnicodeError, LookupError) as error:
        what = _NOT_UTF8 if encoding.startswith("utf-8") else f"not text in {encoding}, which it declares"
        start = error.start if isinstance(error, UnicodeDecodeError) else 0
        raise SourceError(path, what, content.count(b"\n", 0, start) + 1) from None


_NOT_UTF8 = "not text in UTF-8, and no other encoding is declared (PEP 263)"
