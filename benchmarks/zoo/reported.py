"""What GRIST's paper (FSE 2021, table 2) reports of each bug: runs of ten that failed and their mean seconds, and DEBAR's word."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

RUNS = 10


@dataclass(frozen=True, slots=True)
class Runs:
    """How many of ten runs failed, and their mean seconds on GRIST's machine; None where none did."""

    found: int
    seconds: float | None

    def __str__(self) -> str:
        return f"{self.found}/{RUNS}" if self.seconds is None else f"{self.found}/{RUNS} in {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Reported:
    """One bug: the program as it is, driven by GRIST, and whether DEBAR flags it."""

    plain: Runs
    search: Runs
    is_flagged_by_debar: bool


@cache
def reported() -> dict[str, Reported]:
    """All 79 bugs by letter."""
    known = json.loads(Path(__file__).with_name("grist_table.json").read_text("utf-8"))
    return {
        letter: Reported(Runs(*numbers["plain"]), Runs(*numbers["search"]), numbers["debar"]) for letter, numbers in known.items()
    }
