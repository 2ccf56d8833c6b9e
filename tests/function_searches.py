"""Searches of functions in the process of the test: what failed, with which arguments, and what was seen on the way."""

from __future__ import annotations

import json
import os
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorproof.expose.events import Failure, Pipe, failure_of
from tensorproof.expose.functions.declaration import FunctionSettings, parse_arguments
from tensorproof.expose.functions.server import search_function
from tensorproof.expose.replays.recipe import Arrays, read_arrays


@dataclass(frozen=True)
class Searched:
    failures: list[Failure]
    folder: Path
    events: list[dict[str, Any]]

    @property
    def arranged(self) -> dict[str, Any]:
        return next(event for event in self.events if event["event"] == "arranged")

    @property
    def evaluations(self) -> int:
        return self.events[-1]["evaluations"]

    def notes(self) -> list[str]:
        return [event["text"] for event in self.events if event["event"] == "note"]

    def arrays(self, failure: Failure) -> Arrays:
        return read_arrays(self.folder / failure.arrays)


def searched(folder: Path, function: str, arguments: dict[str, Any] | None = None, **options: Any) -> Searched:
    """One search, without a process of its own."""
    tensors, literals = parse_arguments(arguments or {})
    settings = FunctionSettings(function, str(folder), tensors, literals, **{"evaluations": 400, "runs": 2, **options})
    told = folder / "events.jsonl"
    pipe, known = Pipe(os.open(told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)), list(sys.path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search_function(settings, pipe, folder)
    finally:
        sys.path[:] = known
        pipe._stream.close()
    events = [json.loads(line) for line in told.read_text().splitlines()]
    return Searched([failure_of(event) for event in events if event["event"] == "failure"], folder, events)
