"""The repaired scripts, searched for the same budget: nothing may be found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.exposed.catalogue import PROGRAMS
from benchmarks.exposure import ITERATIONS, RUNS, warm_host
from benchmarks.paper.table import Json, Section, Size
from tensorproof.expose.running import exposed

_QUICK = ("torch_26_logistic_fixed.py",)
_BY_TWIN = {program.fixed: program for program in PROGRAMS if program.fixed is not None}


def cases(size: Size) -> Sequence[str]:
    return tuple(file for file in _BY_TWIN if size == "full" or file in _QUICK)


def measured(case: str, size: Size) -> Json:
    program = _BY_TWIN[case]
    assert program.twin is not None
    budget = {"runs": RUNS, "iterations": ITERATIONS} if size == "full" else {"runs": 1, "iterations": 60}
    report = exposed(program.twin, ranges=program.ranges, budget=None, host=warm_host(program.framework), **budget)
    suspects = report.assumptions["suspects"]
    return {
        "findings": [f"{finding.rule.code} {finding.message}" for finding in report.findings],
        "errors": list(report.errors),
        "steps": report.assumptions["iterations"],
        "suspects": len(suspects),
        "evaluations": sum(suspect["evaluations"] for suspect in suspects),
        "seconds": report.times["search on the CPU"] or report.times["search"],
    }


def section(results: Mapping[str, Json], size: Size) -> Section:
    found = sum(len(result["findings"]) for result in results.values())
    lines = [f"{len(results)} repaired scripts, {found} findings"]
    lines += [f"{case}: {text}" for case, result in results.items() for text in (*result["findings"], *result["errors"])]
    keys = ("suspects", "steps", "evaluations")
    rows = tuple(
        (case, str(len(result["findings"])), *(str(result[key]) for key in keys), f"{result['seconds']:.1f}")
        for case, result in results.items()
    )
    return Section(
        "GRIST: repaired scripts, searched for the same budget",
        ("script", "findings", *keys, "CPU s"),
        rows,
        tuple(lines),
        {"scripts": len(results), "findings": found},
    )
