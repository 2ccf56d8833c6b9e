"""Pythia's evaluation: defects of small programs found by static analysis, by how precisely calls and values are told apart.

The programs are those of `tests/fixtures/shapes`, each with a label that a run in its framework has confirmed. A defect counts as
found if its rule is reported at its line; every other report is a false alarm.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.shape_labels import FIXTURES, read_findings

from benchmarks.paper.table import Json, Section, Size
from tensorproof.shapes.analysis import analyse_source
from tensorproof.shapes.families import load_rules
from tensorproof.shapes.problems import Context, ShapeOptions, Values

PROGRAMS = FIXTURES / "shapes"
#: How calls are told apart, and what is kept where paths meet (`tensorproof shapes --context --values`).
CONFIGURATIONS: dict[str, tuple[Context, Values]] = {
    "insensitive": ("insensitive", "full"),
    "1-call": ("1-call", "full"),
    "1-call-heap": ("1-call-heap", "full"),
    "full": ("full", "full"),
    "full, values joined": ("full", "joined"),
    "insensitive, values joined": ("insensitive", "joined"),
}
_QUICK = ("insensitive", "1-call", "full")
_QUICK_FRAMEWORKS = ("keras", "tf1")
#: Of programs with a defect, of their repaired twins, of correct programs that have no twin.
KINDS = ("bug", "fixed", "clean")


def frameworks(size: Size) -> Sequence[str]:
    """The folders of the corpus."""
    found = sorted(place.name for place in PROGRAMS.iterdir() if place.is_dir())
    return tuple(name for name in found if size == "full" or name in _QUICK_FRAMEWORKS)


def cases(size: Size) -> Sequence[str]:
    chosen = tuple(CONFIGURATIONS) if size == "full" else _QUICK
    return tuple(f"{framework}: {name}" for name in chosen for framework in frameworks(size))


def measured(case: str, size: Size) -> Json:
    framework, _, name = case.partition(": ")
    context, values = CONFIGURATIONS[name]
    options = ShapeOptions(context=context, values=values)
    frozen = _frozen()
    result: Json = {"programs": dict.fromkeys(KINDS, 0), "found": [], "missed": [], "false": {kind: [] for kind in KINDS}}
    seconds: list[float] = []
    load_rules()
    for program in sorted((PROGRAMS / framework).glob("*.py")):
        text, kind = program.read_text("utf-8"), _kind(program)
        started = time.process_time()
        analysis = analyse_source(text, str(program), options)
        seconds.append(time.process_time() - started)
        reported = {(problem.place.line, problem.rule.code) for problem in analysis.problems}
        labelled = {(finding.line, finding.code) for finding in read_findings(program)}
        result["programs"][kind] += 1
        result["found"] += _named(program, reported & labelled)
        result["missed"] += _named(program, labelled - reported)
        result["false"][kind] += _named(program, reported - labelled)
    result["frozen"] = [defect for defect in (*result["found"], *result["missed"]) if defect.partition(":")[0] in frozen]
    return {**result, "seconds": sum(seconds), "seconds of the slowest": max(seconds)}


def _kind(program: Path) -> str:
    return "clean" if program.stem.startswith("clean_") else program.stem.rpartition("_")[2]


def _named(program: Path, reports: Iterable[tuple[int, str]]) -> list[str]:
    name = program.relative_to(PROGRAMS).as_posix()
    return [f"{name}:{line} {code}" for line, code in sorted(reports)]


def _frozen() -> set[str]:
    """Programs that were written before the rules that they exercise."""
    return {line.split("  ", 1)[1] for line in (PROGRAMS / "FROZEN").read_text("utf-8").splitlines()}


class Total:
    """Some cases together."""

    def __init__(self, results: Sequence[Json]) -> None:
        self.programs = {kind: sum(result["programs"][kind] for result in results) for kind in KINDS}
        self.found = [defect for result in results for defect in result["found"]]
        self.missed = [defect for result in results for defect in result["missed"]]
        self.false = {kind: [report for result in results for report in result["false"][kind]] for kind in KINDS}
        self.frozen = {defect for result in results for defect in result["frozen"]}
        self.seconds = sum(result["seconds"] for result in results) / max(1, sum(self.programs.values()))
        self.slowest = max((result["seconds of the slowest"] for result in results), default=0.0)

    @property
    def defects(self) -> int:
        return len(self.found) + len(self.missed)

    @property
    def alarms(self) -> int:
        return sum(map(len, self.false.values()))

    @property
    def precision(self) -> float:
        """Of what is reported, the share that is a defect."""
        return len(self.found) / max(1, len(self.found) + self.alarms)

    @property
    def recall(self) -> float:
        return len(self.found) / max(1, self.defects)

    def cells(self) -> tuple[str, ...]:
        counts = sum(self.programs.values()), self.defects, len(self.found), len(self.missed)
        alarms = [len(self.false[kind]) for kind in KINDS]
        shares = f"{self.precision:.1%}", f"{self.recall:.1%}"
        return *map(str, (*counts, *alarms)), *shares, f"{self.seconds:.3f}", f"{self.slowest:.3f}"


def totals(results: Mapping[str, Json]) -> dict[str, Total]:
    """All folders together, by configuration."""
    names = [name for name in CONFIGURATIONS if any(case.endswith(f": {name}") for case in results)]
    return {name: Total([result for case, result in results.items() if case.endswith(f": {name}")]) for name in names}


def section(results: Mapping[str, Json], size: Size) -> Section:
    results = {case: results[case] for case in cases(size) if case in results}
    whole = totals(results)
    rows = [(name, "all", *total.cells()) for name, total in whole.items()]
    rows += [
        ("full", case.removesuffix(": full"), *Total([result]).cells())
        for case, result in results.items()
        if case.endswith(": full")
    ]
    lines: list[str] = []
    figures: dict[str, float | int | str] = {}
    for name, total in whole.items():
        figures |= {f"{name} found": len(total.found), f"{name} alarms": total.alarms}
        figures |= {f"{name} precision": total.precision, f"{name} recall": total.recall, f"{name} seconds": total.seconds}
    if "full" in whole:
        full = whole["full"]
        buggy, fixed, clean = (full.programs[kind] for kind in KINDS)
        figures |= {"defects": full.defects, "programs with a defect": buggy, "programs without": fixed + clean}
        early = sum(defect in full.frozen for defect in full.found)
        lines.append(f"{len(full.found)} of {full.defects} defects found at their line, {full.alarms} false alarms")
        lines.append(
            f"{buggy} programs with {full.defects} defects, {fixed} repaired twins, {clean} correct programs without a twin"
        )
        lines.append(
            f"full: {early} of the {len(full.frozen)} defects in programs that were there before their rules, and unchanged"
        )
        lines += [f"full misses {defect}" for defect in full.missed]
    lines += [f"{name}: false alarm {report}" for name, total in whole.items() for kind in KINDS for report in total.false[kind]]
    return Section(
        "Pythia: shape defects found at their line, by sensitivity of the analysis",
        (
            *("configuration", "programs of", "programs", "defects", "found", "missed"),
            *("false: buggy", "false: repaired", "false: clean", "precision", "recall", "CPU s", "slowest"),
        ),
        tuple(rows),
        tuple(lines),
        figures,
        paper=("Pythia finds 11 of the 14 shape defects of StackOverflow programs for TensorFlow, precision 84.6 %, in 0.26 s.",),
        setup=(
            "The programs are our own, and the rules were tuned on them: these are no figures for programs that were never seen.",
            "Seconds are those of the analysis of one program, without the start of Python and the loading of the rules.",
            "Joined values are one value where paths meet; otherwise up to eight stay side by side.",
        ),
    )
