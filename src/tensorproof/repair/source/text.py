"""Source as lines and as ranges of characters: what is replaced is replaced in the text, and all else stays as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tensorproof.repair.source.exceptions import NotSure

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A point of a file: the line from 1, and the characters before it on that line."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Change:
    """The text from `start` up to `end`, and what stands there afterwards."""

    start: Place
    end: Place
    text: str


def lines_of(source: str) -> list[str]:
    """The lines with their ends, split where Python splits them (`str.splitlines` also splits at form feeds)."""
    return _LINE.findall(source)


def changed(source: str, changes: Iterable[Change]) -> str:
    """The source with all changes made; changes that overlap are refused."""
    offsets = [0]
    for line in lines_of(source):
        offsets.append(offsets[-1] + len(line))
    done = len(source)
    for change in sorted(set(changes), key=lambda change: (change.start, change.end), reverse=True):
        start, end = (offsets[place.line - 1] + place.column for place in (change.start, change.end))
        if end > done:
            raise NotSure("two repairs of the line overlap")
        source, done = source[:start] + change.text + source[end:], start
    return source
