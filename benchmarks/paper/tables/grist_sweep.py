"""GRIST's sweep of its two settings: the step that inputs are moved by, and the share of the samples that is replaced."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from benchmarks.exposed.catalogue import PROGRAMS
from benchmarks.exposure import searched
from benchmarks.paper.table import Json, Section, Size

SETTINGS = {"epsilon": (0.1, 0.15, 0.2, 0.25, 0.3), "switch_rate": (0.01, 0.02, 0.05, 0.1, 0.2)}
#: Seeds of each setting: thirty settings with ten would take longer than all searches of the other table.
_SEEDS: Mapping[Size, range] = {"full": range(5), "quick": range(2)}
_SWEPT = ("torch_26_logistic.py", "tf_03_softmax_regression.py", "tf_09_sigmoid_mlp.py")
_BY_FILE = {program.file: program for program in PROGRAMS}


def cases(size: Size) -> Sequence[str]:
    listed = [f"{file} {name} {value:g}" for file in _SWEPT for name, values in SETTINGS.items() for value in values]
    return tuple(listed) if size == "full" else tuple(listed[:2])


def measured(case: str, size: Size) -> Json:
    file, name, value = case.split()
    changed = {name: float(value)}
    return {"runs": [asdict(searched(_BY_FILE[file], seed, **changed)) for seed in _SEEDS[size]]}


def section(results: Mapping[str, Json], size: Size) -> Section:
    rows: list[tuple[str, ...]] = []
    for case, result in results.items():
        runs = result["runs"]
        found = f"{sum(run['found'] for run in runs)}/{len(runs)}"
        seconds, steps = (statistics.mean(run[key] for run in runs) for key in ("seconds", "steps"))
        rows.append((*case.split(), found, f"{seconds:.2f}", f"{steps:.0f}"))
    runs = [run for result in results.values() for run in result["runs"]]
    found = sum(run["found"] for run in runs)
    return Section(
        "GRIST: other steps and other shares of replaced samples",
        ("script", "setting", "value", "found", "CPU s", "steps"),
        tuple(rows),
        (f"{found} of {len(runs)} searches found the defect, over {len(results)} settings",),
        {"runs": len(runs), "found": found},
        paper=("GRIST tries steps of 0.1 to 0.3 and switch rates of 0.01 to 0.2, and keeps 0.15 and 0.05.",),
    )
