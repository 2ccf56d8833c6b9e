"""A table whose second case cannot be measured, as `benchmarks.paper` would meet it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.paper.table import Json, Section, Size


def cases(size: Size) -> Sequence[str]:
    return "whole", "broken"


def measured(case: str, size: Size) -> Json:
    return {"quotient": 1 // ["broken", "whole"].index(case)}


def section(results: Mapping[str, Json], size: Size) -> Section:
    return Section("", (), ())
