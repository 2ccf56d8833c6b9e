"""Results as they come, one line of JSON each: what was measured is not measured again, and nothing is lost by an interruption."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from benchmarks.paper.table import Json

_ROOT = Path(__file__).parent.parent.parent
#: What a result depends on.
_SOURCES = ("src", "benchmarks", "constraints.txt")


@dataclass(frozen=True, slots=True)
class Entry:
    """The result of one case. `sources` tells the sources that it was made with, `clock` how many seconds a worker took for it."""

    table: str
    case: str
    result: Json
    sources: str
    clock: float | None = None


class Journal:
    """The results of one size of the run. A line that an interruption cut short counts as not there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries = {(entry.table, entry.case): entry for entry in _read(path)}

    def __contains__(self, key: tuple[str, str]) -> bool:
        return key in self._entries

    def results(self, table: str) -> dict[str, Json]:
        """The results of a table by case."""
        return {entry.case: entry.result for entry in self._entries.values() if entry.table == table}

    def sources(self) -> set[str]:
        """The sources that the results were made with."""
        return {entry.sources for entry in self._entries.values()}

    def minutes(self, table: str) -> float | None:
        """How long one worker took by the clock for the cases of a table; None where not all of them tell."""
        times = [entry.clock for entry in self._entries.values() if entry.table == table]
        known = [time for time in times if time is not None]
        return round(sum(known) / 60, 1) if known and len(known) == len(times) else None

    def clocks(self) -> dict[tuple[str, str], float]:
        """How long a worker took for each case by the clock, where that is known."""
        return {key: entry.clock for key, entry in self._entries.items() if entry.clock is not None}

    def take(self, other: Journal) -> None:
        """Keep what another journal has and this one has not."""
        for key, entry in other._entries.items():
            if key not in self:
                self.add(entry)

    def add(self, entry: Entry) -> None:
        """Keep a result, on the disk before anything else happens."""
        self._entries[entry.table, entry.case] = entry
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = {"table": entry.table, "case": entry.case, "sources": entry.sources, "clock": entry.clock, "result": entry.result}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _read(path: Path) -> Iterator[Entry]:
    if not path.exists():
        return
    for line in path.read_text("utf-8").splitlines():
        try:
            values = json.loads(line)
        except json.JSONDecodeError:
            continue
        yield Entry(values["table"], values["case"], values["result"], values["sources"], values.get("clock"))


def fingerprint() -> str:
    """A name for the sources as they are."""
    digest = sha256()
    for name in _SOURCES:
        place = _ROOT / name
        files = [place] if place.is_file() else sorted(place.rglob("*.py"))
        for file in files:
            digest.update(file.relative_to(_ROOT).as_posix().encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def without_seconds(value: object) -> object:
    """A result without times: what must be the same in every run."""
    if isinstance(value, dict):
        return {key: without_seconds(part) for key, part in value.items() if not str(key).startswith("seconds")}
    if isinstance(value, list):
        return [without_seconds(part) for part in value]
    return value


def differences(one: Journal, other: Journal) -> list[tuple[str, str]]:
    """The cases of both journals that came out differently."""
    return sorted(
        key
        for key, entry in one._entries.items()
        if key in other and without_seconds(entry.result) != without_seconds(other._entries[key].result)
    )
