"""GRIST's table 2: running training scripts, driven into their defects by the search, by plain running, and without replacement.

The scripts are those of `benchmarks/exposed`; what counts as found, and how baselines are cut, is said in `benchmarks/exposure.py`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from benchmarks.exposed.catalogue import PROGRAMS, program_of
from benchmarks.exposure import FEW_SEEDS, SEEDS, baselines, searched, seeds_of
from benchmarks.paper.table import Json, Section, Size
from benchmarks.zoo.reported import reported

_KINDS = ("search", "plain", "kept")
_QUICK = ("torch_38_xor.py",)
_BY_FILE = {program.file: program for program in PROGRAMS}


def cases(size: Size) -> Sequence[str]:
    return tuple(file for file in _BY_FILE if size == "full" or file in _QUICK)


def measured(case: str, size: Size) -> Json:
    program = _BY_FILE[case]
    search = tuple(searched(program, seed) for seed in (seeds_of(program) if size == "full" else range(2)))
    plain, kept = baselines(program, search) if size == "full" else ((), ())
    return {kind: [asdict(run) for run in runs] for kind, runs in zip(_KINDS, (search, plain, kept), strict=True)}


def section(results: Mapping[str, Json], size: Size) -> Section:
    runs = [run for result in results.values() for run in result["search"]]
    always = {case: result for case, result in results.items() if all(run["found"] for run in result["search"])}
    numbers = {program_of(bug) for case in always for bug in _BY_FILE[case].bugs}
    found, mean = sum(run["found"] for run in runs), _mean(runs)
    lines = [
        f"{len(results)} scripts, {found} of {len(runs)} searches found the defect and replayed it, {mean:.2f} s CPU on average",
        f"{len(always)} scripts of {len(numbers)} programs of GRIST are found with every seed",
    ]
    figures: dict[str, float | int | str] = {"scripts": len(results), "runs": len(runs), "found": found, "seconds": mean}
    figures |= {"scripts with every seed": len(always), "programs with every seed": len(numbers)}
    for word, kind in (("plain running", "plain"), ("search without replacement", "kept")):
        pairs = [(_mean(result[kind]), _mean(result["search"])) for result in always.values() if result[kind]]
        if not pairs:
            continue
        ratio = sum(other for other, _ in pairs) / sum(own for _, own in pairs)
        own, other = (_per_find([run for result in results.values() for run in result[name]]) for name in ("search", kind))
        lines.append(
            f"{word}: {other:.1f} s CPU for each defect found, {other / own:.2f} times as much as the search ({own:.1f} s); in the "
            f"{len(pairs)} scripts that it always solves, a run takes {ratio:.2f} times its time, whether it finds it or not"
        )
        figures |= {f"{word} ratio": other / own, f"{word} ratio of runs": ratio}
    lines += [_missed(case, result["search"]) for case, result in results.items() if case not in always]
    return Section(
        "GRIST, table 2: runs that found the defect, CPU seconds, and ratios to the search",
        ("script", "bugs", "found", "CPU s", "steps", "plain", "ratio", "no replacement", "ratio", "GRIST", "plain, by GRIST"),
        tuple(_row(case, result) for case, result in results.items()),
        tuple(lines),
        figures,
        paper=("GRIST: 78 of 79 bugs, 766 of 790 runs, 115 s on average; plain running takes 8.79 times as long.",),
        setup=(
            "The programs are rebuilt as training scripts with generated data; frameworks are those of today.",
            f"Searches have {SEEDS} seeds, {FEW_SEEDS} where one takes 20 seconds or more.",
            "A run counts if the replay fails in a fresh process. Baselines run with three seeds and end with the script, or after "
            "as many steps as come to about ten times the time of the search: ratios with > are lower bounds. What they take for "
            "each defect is the time of all their runs, by the number of those that found it.",
        ),
    )


def _mean(runs: Sequence[Json]) -> float:
    return statistics.mean(run["seconds"] for run in runs)


def _per_find(runs: Sequence[Json]) -> float:
    """CPU seconds of all runs for each that found the defect."""
    found = sum(run["found"] for run in runs)
    return sum(run["seconds"] for run in runs) / found if found else math.inf


def _missed(case: str, search: Sequence[Json]) -> str:
    remarks = [run["remark"] for run in search if not run["found"]]
    return f"{case}, not found with {len(remarks)} of {len(search)} seeds; one of them: {remarks[0][:120]}"


def _row(case: str, result: Json) -> tuple[str, ...]:
    search = result["search"]
    cells = [_share(search), f"{_mean(search):.2f}", f"{statistics.mean(run['steps'] for run in search):.0f}"]
    for kind in _KINDS[1:]:
        runs = result[kind]
        bound = "" if all(run["found"] for run in runs) else ">"
        cells += [_share(runs), f"{bound}{_mean(runs) / max(_mean(search), 1e-3):.1f}"] if runs else ["-", "-"]
    told = [reported()[bug] for bug in _BY_FILE[case].bugs if bug in reported()]
    theirs = [
        ", ".join(dict.fromkeys(str(runs) for runs in column)) or "-"
        for column in ([t.search for t in told], [t.plain for t in told])
    ]
    return case, " ".join(_BY_FILE[case].bugs), *cells, *theirs


def _share(runs: Sequence[Json]) -> str:
    return f"{sum(run['found'] for run in runs)}/{len(runs)}"
