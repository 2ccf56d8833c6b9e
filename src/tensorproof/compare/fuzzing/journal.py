"""`Journal`: everything a campaign found out, one JSON line each, only ever appended to.

A line is complete or it does not count: what a killed process left of its last line is cut off when the journal is opened again.
Lines are handed to the operating system one by one, which a killed process survives, and forced to the disk once in a while and
after each finding, for the case that the machine stops.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from tensorproof.compare.spec import Json
from tensorproof.errors import ConfigurationError

#: Seconds between two times that lines are forced to the disk.
SYNC_SECONDS = 2.0


class Journal:
    """Use as a context manager. `entries` are the lines that were there when it was opened."""

    def __init__(self, path: Path, *, resume: bool) -> None:
        self.path = path
        if not resume and path.exists() and path.stat().st_size:
            raise ConfigurationError(f"{path} holds a campaign: add --resume to go on with it, or choose another folder with --out")
        if resume and not path.exists():
            raise ConfigurationError(f"{path}: there is no campaign to resume")
        path.parent.mkdir(parents=True, exist_ok=True)
        self.entries, length = read_entries(path) if path.exists() else ([], 0)
        self._file = path.open("ab")
        self._file.truncate(length)
        self._synced = time.monotonic()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if not self._file.closed:
            self._sync()
            self._file.close()

    def write(self, entry: Mapping[str, Json], *, important: bool = False) -> None:
        """Append one line; an important one is on the disk when this returns."""
        self._file.write(json.dumps(entry, separators=(",", ":")).encode() + b"\n")
        self._file.flush()
        if important or time.monotonic() - self._synced > SYNC_SECONDS:
            self._sync()

    def _sync(self) -> None:
        os.fsync(self._file.fileno())
        self._synced = time.monotonic()


def read_entries(path: Path) -> tuple[list[dict[str, Json]], int]:
    """The complete lines of a journal, and how many bytes they are."""
    entries: list[dict[str, Json]] = []
    length = 0
    data = path.read_bytes()
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            entry = json.loads(line)
        except ValueError:
            raise ConfigurationError(f"{path}:{number}: this line is not JSON; the journal was changed by hand") from None
        entries.append(cast("dict[str, Json]", entry))
        length += len(line) + 1
    return entries, length
