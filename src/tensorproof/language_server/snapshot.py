"""A document at one moment: its text, what the analysis says of exactly this text, and how an editor names the places."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lsprotocol.types import Location
from pygls.uris import from_fs_path

from tensorproof.errors import SourceError
from tensorproof.language_server.positions import SourceText
from tensorproof.shapes.problems import Hint, Place, Problem, SourceAnalysis
from tensorproof.sources.reading import read_source


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Text and analysis that belong together. Places in other files are read from the disk, as the analysis read them."""

    uri: str
    source: SourceText
    analysis: SourceAnalysis
    _others: dict[str, SourceText | None] = field(default_factory=dict[str, "SourceText | None"])

    @property
    def problems(self) -> list[Problem]:
        """The problems inside this document; those of an imported module are shown when that one is open."""
        return [problem for problem in self.analysis.problems if problem.place.file == self.analysis.path]

    @property
    def hints(self) -> list[Hint]:
        """The hints inside this document."""
        return [hint for hint in self.analysis.hints if hint.place.file == self.analysis.path]

    def location(self, place: Place) -> Location | None:
        """Where an editor finds the place; None if its file can no longer be read."""
        if place.file == self.analysis.path:
            return Location(self.uri, self.source.range(place))
        if place.file not in self._others:
            self._others[place.file] = _read(place.file, self.source.encoding)
        other, uri = self._others[place.file], from_fs_path(str(Path(place.file).absolute()))
        return None if other is None or uri is None else Location(uri, other.range(place))

    def line_text(self, place: Place) -> str:
        """The source line that a place begins on, without its indentation; empty if it cannot be read."""
        self.location(place)
        source = self.source if place.file == self.analysis.path else self._others[place.file]
        return "" if source is None or place.line > len(source.lines) else source.lines[place.line - 1].strip()


def _read(file: str, encoding: str) -> SourceText | None:
    try:
        return SourceText(read_source(file).text, encoding)
    except SourceError:
        return None
