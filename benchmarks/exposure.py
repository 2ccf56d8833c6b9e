"""`tensorproof expose` on the training scripts of `benchmarks/exposed`: how often each is driven into its defect, and at what cost.

    python -m benchmarks.exposure                       all scripts, ten seeds, both baselines; hours
    python -m benchmarks.exposure tf_03 torch_26        scripts whose names begin so
    python -m benchmarks.exposure --twins               the repaired scripts, for the same budget: nothing may be found
    python -m benchmarks.exposure --sweep               steps of 0.1 to 0.3 and switch rates of 0.01 to 0.2 on three scripts

A script counts as found if the search reports its defect, at its line, and the replay failed in a fresh process. The search knows
the script, and legal ranges where the script shows a few of the legal values only. CPU seconds are those of the runs that were
searched, frameworks imported before. The baselines are stopped at `CAP` times the mean CPU time of the search, or of the script's
own length if that is less: what did not fail until then counts with that time, and the ratio is a lower bound (>).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.exposed.catalogue import PROGRAMS, Program, program_of
from tensorproof.expose.running import exposed
from tensorproof.expose.settings import Method
from tensorproof.findings import Finding, Report

SEEDS = 10
#: Runs of a script that one search may take, and steps of training of each.
RUNS = 3
ITERATIONS = 3000
#: Seeds of the baselines, and the time that one may take, in times of the search.
BASELINE_SEEDS = 3
CAP = 20.0
_SWEPT = ("tf_03_softmax_regression.py", "tf_09_sigmoid_mlp.py", "torch_26_logistic.py")
_EPSILONS = (0.1, 0.15, 0.2, 0.25, 0.3)
_SWITCH_RATES = (0.01, 0.02, 0.05, 0.1, 0.2)


@dataclass(frozen=True, slots=True)
class Run:
    """One search: whether the defect was found and replayed, CPU seconds, steps of training, and what else there is to say."""

    found: bool
    seconds: float
    steps: int
    remark: str = ""


def searched(program: Program, seed: int, method: Method = "search", budget: float | None = None, **settings: Any) -> Run:
    """One search of a script, with seeds that no other search has."""
    report = exposed(
        program.path,
        ranges=program.ranges,
        method=method,
        seed=1000 * seed,
        runs=RUNS if method != "plain" else 1,
        iterations=ITERATIONS if method != "plain" else 0,
        stop_after=1,
        budget=budget,
        **settings,
    )
    found = any(is_defect(program, finding) for finding in report.confirmed)
    return Run(found, report.times["search on the CPU"] or report.times["search"], _steps(report), "" if found else _told(report))


def is_defect(program: Program, finding: Finding) -> bool:
    """Whether a finding is the defect of a script."""
    where = finding.location
    if where is None or where.file is None or where.line is None:
        return False
    return program.is_met_by(where.file, where.line, finding.op, finding.phase)


def _steps(report: Report) -> int:
    return int(report.assumptions["iterations"])


def _told(report: Report) -> str:
    """What came instead of the defect."""
    for finding in report.findings:
        where = finding.location
        line = "" if where is None else f" at {Path(where.file or '').name}:{where.line}"
        return f"{finding.verdict.value} {finding.rule.code} {finding.op}{line}: {finding.message[-160:]}"
    near = sorted((s["distance"], s["name"]) for s in report.assumptions["suspects"] if s["distance"] is not None)
    return (report.errors or [f"nearest {near[0][1]}: {near[0][0]:.3g}" if near else "no suspect"])[0]


@dataclass(frozen=True, slots=True)
class Row:
    """All searches of one script."""

    program: Program
    search: tuple[Run, ...]
    plain: tuple[Run, ...] = ()
    kept: tuple[Run, ...] = ()


def measured(program: Program, seeds: int, baselines: int) -> Row:
    """A script with the search and, as far as asked for, with the baselines."""
    row = Row(program, tuple(searched(program, seed) for seed in range(seeds)))
    limit = max(CAP * _mean(row.search), 20.0)
    return replace(
        row,
        plain=tuple(searched(program, seed, "plain", limit) for seed in range(baselines)),
        kept=tuple(searched(program, seed, "no-replacement", limit) for seed in range(baselines)),
    )


def _mean(runs: Sequence[Run]) -> float:
    return statistics.mean(run.seconds for run in runs)


def _ratio(row: Row, others: Sequence[Run]) -> str:
    if not others:
        return "-"
    return f"{'' if all(run.found for run in others) else '>'}{_mean(others) / max(_mean(row.search), 1e-3):.1f}"


def _share(runs: Sequence[Run]) -> str:
    return f"{sum(run.found for run in runs)}/{len(runs)}"


def print_table(rows: Sequence[Row], console: Console) -> None:
    """The table, and what it comes to."""
    columns = ("script", "bugs", "found", "CPU s", "steps", "plain", "ratio", "no replacement", "ratio")
    table = Table(*columns, title="scripts driven into their defects, by search and by the baselines")
    for row in rows:
        cells = (
            row.program.file,
            " ".join(row.program.bugs),
            _share(row.search),
            f"{_mean(row.search):.2f}",
            f"{statistics.mean(run.steps for run in row.search):.0f}",
            _share(row.plain) if row.plain else "-",
            _ratio(row, row.plain),
            _share(row.kept) if row.kept else "-",
            _ratio(row, row.kept),
        )
        table.add_row(*cells, style=None if all(run.found for run in row.search) else "bold red")
    console.print(table)
    always = [row for row in rows if all(run.found for run in row.search)]
    runs = [run for row in rows for run in row.search]
    for framework in ("tensorflow", "pytorch"):
        own = {program_of(bug) for row in always if row.program.framework == framework for bug in row.program.bugs}
        console.print(f"{framework}: {len(own)} programs of GRIST found with every seed", highlight=False)
    console.print(
        f"{len(rows)} scripts, {sum(run.found for run in runs)} of {len(runs)} searches found the defect and replayed it, "
        f"{_mean(runs):.2f} s CPU on average",
        highlight=False,
    )
    for what, name in (("plain runs", "plain"), ("search without replacement", "kept")):
        pairs = [(_mean(getattr(row, name)), _mean(row.search)) for row in always if getattr(row, name)]
        if pairs:
            ratio = sum(other for other, _ in pairs) / sum(own for _, own in pairs)
            console.print(
                f"{what}: at least {ratio:.2f} times the CPU time of the search, over {len(pairs)} scripts", highlight=False
            )


def twins(programs: Sequence[Program], jobs: int, console: Console) -> None:
    """The repaired scripts: none may be found anything in."""

    def silent(program: Program) -> tuple[Program, Report]:
        assert program.twin is not None
        return program, exposed(program.twin, ranges=program.ranges, runs=RUNS, iterations=ITERATIONS, budget=None)

    found = 0
    table = Table("repaired script", "findings", "CPU s", "steps", "evaluations")
    for program, report in _all(silent, [program for program in programs if program.twin is not None], jobs):
        found += len(report.findings)
        evaluations = sum(suspect["evaluations"] for suspect in report.assumptions["suspects"])
        cells = (str(len(report.findings)), f"{report.times['search on the CPU']:.1f}", str(_steps(report)), str(evaluations))
        table.add_row(str(program.fixed), *cells, style="bold red" if report.findings or report.errors else None)
        for finding in report.findings:
            console.print(f"{program.fixed}: {finding.rule.code} {finding.message}", highlight=False)
    console.print(table)
    console.print(f"{table.row_count} repaired scripts, {found} findings", highlight=False)


def sweep(jobs: int, seeds: int, console: Console) -> None:
    """Three scripts with other steps and other rates of replacement."""
    programs = [program for program in PROGRAMS if program.file in _SWEPT]
    for name, values in (("epsilon", _EPSILONS), ("switch_rate", _SWITCH_RATES)):
        table = Table("script", *(f"{name} {value:g}" for value in values), title="found, CPU seconds, steps")
        cases = [(program, value) for program in programs for value in values]

        def swept(case: tuple[Program, float], name: str) -> tuple[Any, tuple[Run, ...]]:
            changed: dict[str, Any] = {name: case[1]}
            return case, tuple(searched(case[0], seed, **changed) for seed in range(seeds))

        found: dict[Any, tuple[Run, ...]] = dict(_all(partial(swept, name=name), cases, jobs))
        for program in programs:
            cells = [found[program, value] for value in values]
            told = [f"{_share(c)}, {_mean(c):.2f} s, {statistics.mean(run.steps for run in c):.0f}" for c in cells]
            table.add_row(program.file, *told)
        console.print(table)


def _all(action: Callable[[Any], Any], cases: Sequence[Any], jobs: int) -> Iterator[Any]:
    """The results, as they come."""
    with ThreadPoolExecutor(jobs) as pool:
        yield from (future.result() for future in as_completed([pool.submit(action, case) for case in cases]))


def _kept(path: Path | None) -> dict[str, Row]:
    """Rows of an earlier call that was cut short."""
    if path is None or not path.exists():
        return {}
    by_name = {program.file: program for program in PROGRAMS}
    rows: dict[str, Row] = {}
    for line in path.read_text().splitlines():
        values = json.loads(line)
        runs = {kind: tuple(Run(**run) for run in values[kind]) for kind in ("search", "plain", "kept")}
        rows[values["script"]] = Row(by_name[values["script"]], **runs)
    return rows


def main(arguments: Sequence[str] = ()) -> None:
    """The tables that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exposure")
    parser.add_argument("scripts", nargs="*", help="beginnings of names (all scripts by default)")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--baselines", type=int, default=BASELINE_SEEDS, help="seeds of the baselines; 0 leaves them out")
    parser.add_argument("--jobs", type=int, default=1, help="searches side by side")
    parser.add_argument("--twins", action="store_true")
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument(
        "--resume", type=Path, metavar="FILE", help="rows are kept here, and those that are there are not made again"
    )
    options = parser.parse_args(arguments)
    console = Console(width=150)
    programs = [p for p in PROGRAMS if not options.scripts or p.file.startswith(tuple(options.scripts))]
    if options.twins:
        twins(programs, options.jobs, console)
        return
    if options.sweep:
        sweep(options.jobs, options.seeds, console)
        return
    rows = _kept(options.resume)
    pending = [program for program in programs if program.file not in rows]
    for row in _all(partial(measured, seeds=options.seeds, baselines=options.baselines), pending, options.jobs):
        rows[row.program.file] = row
        others = f", plain {_ratio(row, row.plain)}, no replacement {_ratio(row, row.kept)}" if row.plain else ""
        console.print(f"{row.program.file}: {_share(row.search)}, {_mean(row.search):.2f} s{others}", style="dim", highlight=False)
        for remark in dict.fromkeys(run.remark for run in row.search if run.remark):
            console.print(f"    {remark}", style="dim", highlight=False)
        if options.resume is not None:
            values = {"script": row.program.file, **{k: [asdict(r) for r in getattr(row, k)] for k in ("search", "plain", "kept")}}
            with options.resume.open("a") as file:
                file.write(json.dumps(values) + "\n")
    print_table([rows[program.file] for program in programs], console)


if __name__ == "__main__":
    main(sys.argv[1:])
