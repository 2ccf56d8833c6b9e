"""The user's source files as reports refer to them.

A path in a model is a claim of whoever made the model. It leads to a line of source only if it lies below the source
root, and is opened only if it is, symbolic links resolved, an ordinary file there.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path

from tensorproof.findings import Location
from tensorproof.report.plain_text import one_line

#: Larger files are no source code.
LARGEST_SOURCE = 4 << 20
LONGEST_EXCERPT = 100

_DRIVE = re.compile(r"[A-Za-z]:")
_PYTHON_OBJECT = re.compile(r"(?P<file>.+\.py):[\w.]+")


class SourceTree:
    """The files below one folder; without a folder, only names and never content."""

    def __init__(self, root: Path | None) -> None:
        self.root = None if root is None else root.resolve()
        self._lines: dict[str, list[str]] = {}

    def relative(self, file: str | None) -> str | None:
        """The path below the root with forward slashes, or None for one that is, or may lead, elsewhere."""
        if not file:
            return None
        file = file.replace("\\", "/")
        if _DRIVE.match(file) and (self.root is None or os.name != "nt"):
            return None
        if self.root is None:
            path = posixpath.normpath(file)
            return None if path.startswith(("/", "../")) or path in (".", "..") else path
        try:
            path = (self.root / file).resolve().relative_to(self.root).as_posix()
        except (OSError, ValueError, RuntimeError):  # outside; a null byte; a loop of links
            return None
        return None if path == "." else path

    def line(self, location: Location | None) -> tuple[str, int] | None:
        """The relative path and line of a location, if it has both. Lines of a notebook's cell are no lines of its file."""
        if location is None or location.line is None or location.line < 1 or location.cell is not None:
            return None
        path = self.relative(location.file)
        return None if path is None else (path, location.line)

    def excerpt(self, location: Location | None) -> str | None:
        """The line of source itself, without its indentation."""
        found = self.line(location)
        if found is None:
            return None
        path, line = found
        lines = self.lines(path)
        return one_line(lines[line - 1].strip(), LONGEST_EXCERPT) or None if line <= len(lines) else None

    def lines(self, path: str) -> list[str]:
        """The lines of a file by its path below the root; none if it cannot be read."""
        if self.root is None:
            return []
        if path not in self._lines:
            self._lines[path] = _read(self.root / path)
        return self._lines[path]

    def model_file(self, model: str) -> str:
        """The path of a model as a report names it: below the root if it is there, else as the user gave it."""
        python_object = _PYTHON_OBJECT.fullmatch(model)
        file = python_object["file"] if python_object else model
        return self.relative(file) or file


def _read(path: Path) -> list[str]:
    try:
        if not path.is_file() or path.stat().st_size > LARGEST_SOURCE:
            return []
        return path.read_text("utf-8", errors="replace").split("\n")
    except (OSError, ValueError):
        return []
