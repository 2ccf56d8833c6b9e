"""What the process that runs a program tells: lines of JSON on a pipe, and what a failure was.

Each event is an object with the field `event`:

    value      name, label, low, high, is_declared: an external value, and the range in which it is moved
    suspect    name, operator, file, line, rule, phase, distance: a suspect was seen for the first time, or came closer
    proven     name, is_proven: the static analysis says that a suspect cannot fail, or does not say so any more
    iteration  count: a step of training was done
    note       text: something that the report says
    failure    a `Failure`, its arrays written before
    ended      how: `finished`, `stopped` (an end that was asked for), `failed` (the program raised), text, operators (if counted)
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tensorproof.expose.search.board import Suspect
from tensorproof.findings import Phase, Reaches


@dataclass(frozen=True, slots=True)
class Failure:
    """An operator that failed in a real run of the program: its operands were finite, and its result was not.

    `suspect` is the name of the suspect that it is; empty where none was sought there. `operand` is the operand that decides, with
    the numbers that it held. `iteration` counts steps of training from 0. `arrays` is the file with the values that the program
    got: external values of the failing iteration and the weights at its start, by the names that `values` explains. `moved` are
    those that are not as the program made them. `reaches` says where the harm was seen. `replay` is the package whose script
    replays it; empty where nothing does.
    """

    suspect: str
    framework: str
    operator: str
    rule: str
    phase: Phase
    file: str | None
    line: int | None
    column: int | None
    function: str | None
    operand: str
    low: float
    high: float
    format: str
    iteration: int
    arrays: str
    values: Mapping[str, str]
    seed: int
    message: str = ""
    moved: Sequence[str] = ()
    reaches: Reaches | None = None
    replay: str = ""


class Pipe:
    """Where events are written to. Only the process that opened it writes: workers of a program inherit it."""

    def __init__(self, descriptor: int) -> None:
        self._stream = os.fdopen(descriptor, "w", encoding="utf-8")
        self._owner = os.getpid()

    def taken_over(self) -> Pipe:
        """The same pipe for a fork of the process that opened it."""
        self._owner = os.getpid()
        return self

    def send(self, event: str, **values: Any) -> None:
        """Write one event."""
        if os.getpid() != self._owner:
            return
        self._stream.write(json.dumps({"event": event, **values}) + "\n")
        self._stream.flush()

    def suspect(self, suspect: Suspect) -> None:
        """Tell how near a suspect is; nothing where that is not known."""
        distance = suspect.distance - suspect.floor
        self.send(
            "suspect",
            name=suspect.name,
            operator=suspect.operator,
            file=suspect.file,
            line=suspect.line,
            rule=suspect.weakness.rule.code,
            phase=suspect.weakness.phase,
            distance=distance if math.isfinite(distance) else None,
        )

    def failure(self, failure: Failure) -> None:
        """Tell of an operator that failed."""
        self.send("failure", **asdict(failure))


def failure_of(event: Mapping[str, Any]) -> Failure:
    """The failure that an event tells of."""
    return Failure(**{name: value for name, value in event.items() if name != "event"})
