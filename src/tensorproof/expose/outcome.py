"""What runs of a program showed, as the process that asked for them keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tensorproof.expose.events import Failure, failure_of
from tensorproof.findings import Phase


@dataclass(frozen=True, slots=True)
class Seen:
    """An operator that may fail, as it was last told of. `distance` is None where nothing measures it."""

    name: str
    operator: str
    file: str | None
    line: int | None
    rule: str
    phase: Phase
    distance: float | None
    #: Over all runs.
    evaluations: int = 0


@dataclass(frozen=True, slots=True)
class Value:
    """An external value, what the program calls it, and the range that counts as legal."""

    name: str
    label: str
    low: float
    high: float
    is_declared: bool


@dataclass(slots=True)
class Outcome:
    """One run. `how` is that of the event `ended`; empty if the run was cut short."""

    seed: int
    folder: Path
    iterations: int = 0
    evaluations: int = 0
    failure: Failure | None = None
    how: str = ""
    text: str = ""
    #: Operators that were observed; None if that was not counted.
    operators: int | None = None
    #: Suspects that executed.
    seen: set[str] = field(default_factory=set[str])


@dataclass(slots=True)
class Journal:
    """All runs so far, and what they showed of suspects and values."""

    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    suspects: dict[str, Seen] = field(default_factory=dict[str, Seen])
    values: dict[str, Value] = field(default_factory=dict[str, Value])
    notes: dict[str, None] = field(default_factory=dict[str, None])
    #: Suspects that are proven safe in every run in which anything was said about them, and those that are not.
    proven: set[str] = field(default_factory=set[str])
    _doubted: set[str] = field(default_factory=set[str])

    @property
    def iterations(self) -> int:
        return sum(outcome.iterations for outcome in self.outcomes)

    def note(self, event: Mapping[str, Any], outcome: Outcome) -> None:
        """Keep what an event tells."""
        kind = event["event"]
        if kind == "suspect":
            self._suspect(event, outcome)
        elif kind == "proven":
            (self.proven if event["is_proven"] else self._doubted).add(event["name"])
            self.proven -= self._doubted
        elif kind == "iteration":
            outcome.iterations = event["count"]
        elif kind == "note":
            self.notes[event["text"]] = None
        elif kind == "value":
            value = Value(event["name"], event["label"], event["low"], event["high"], event["is_declared"])
            self.values[value.name] = value
        elif kind == "failure":
            outcome.failure = failure_of(event)
        elif kind == "ended":
            outcome.how, outcome.text, outcome.operators = event["how"], event["text"], event.get("operators")

    def _suspect(self, event: Mapping[str, Any], outcome: Outcome) -> None:
        fields = {name: event[name] for name in ("name", "operator", "file", "line", "rule", "phase", "distance")}
        known = self.suspects.get(event["name"])
        # The first event of a run says that the suspect is there, each further one is an evaluation.
        is_first = event["name"] not in outcome.seen
        outcome.seen.add(event["name"])
        outcome.evaluations += not is_first
        self.suspects[event["name"]] = Seen(**fields, evaluations=(known.evaluations if known else 0) + (not is_first))
