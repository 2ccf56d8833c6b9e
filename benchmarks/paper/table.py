"""A table of the papers, repeated: cases that are measured one by one, and what they come to.

A table is a module of `benchmarks/paper/tables` with three functions:

    cases(size)             the names of its cases
    measured(case, size)    one case, as JSON: what came out, and CPU seconds under names that begin with "seconds"
    section(results, size)  rows, closing lines and figures, from the results by case

The runner calls `measured` in worker processes, keeps each result in a journal, and goes on from there after an interruption.
Whatever does not begin with "seconds" is the same in every run: seeds are fixed and budgets count evaluations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

#: All cases with all seeds; or some cases with two seeds, within minutes.
Size = Literal["full", "quick"]
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Section:
    """What a table prints, and the figures by name that documents may quote.

    `paper` says what the paper reports, `setup` what is different here.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[str, ...] = ()
    figures: Mapping[str, float | int | str] = field(default_factory=dict[str, float | int | str])
    paper: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()


class Table(Protocol):
    """What the module of a table has."""

    def cases(self, size: Size) -> Sequence[str]: ...

    def measured(self, case: str, size: Size) -> Json: ...

    def section(self, results: Mapping[str, Json], size: Size) -> Section: ...
