"""Interval preconditions for the zoo: how many of its defects they remove, imposed on inputs, on weights or on both.

Every success is a proof of the edited model by the scan. What it claims is run as well: points of the restricted box, and of the
whole one, go through the edited model in ONNX Runtime, and the node has to stay finite.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.unit_tests import cpu_seconds
from benchmarks.zoo import Bug, Entry, programs
from tensorproof.assumptions import resolve
from tensorproof.checking import Analysis, analyse
from tensorproof.confirm.observing import domains_of, not_finite
from tensorproof.confirm.sampling import Point, points
from tensorproof.execute.instrument import prefix
from tensorproof.execute.runtime import Runtime
from tensorproof.preparing import Prepared
from tensorproof.repair.editing import Editor
from tensorproof.repair.preconditions import Impossible, Method, Open, Place, Precondition, Result, find_precondition

PLACES: tuple[Place, ...] = ("both", "weights", "inputs")
METHODS: tuple[Method, ...] = ("full", "elementwise", "gradient")
#: RANUM (ICSE 2023) on 79 bugs, six of them invalid derivatives: successes that it reports at each place; and those that its
#: artifact gives when it is run (of 79), with those of them that hold when the intervals are sampled.
RANUM = {"both": (79, 75, 50), "weights": (72, 67, 44), "inputs": (37, 32, 20)}
RANUM_SECONDS = 54
#: Points of the restricted box that are run for a success, and numbers that all of them together may have.
POINTS, NUMBERS = 1000, 100_000_000
FEWEST_POINTS = 22
_INTERVALS = Path(__file__).parent / "zoo" / "ranum_intervals.json"


@dataclass(frozen=True, slots=True)
class Row:
    """One search: what it found, CPU seconds, and for a success the points that were run and those that failed."""

    result: Result
    seconds: float
    points: int = 0
    failing: int = 0

    @property
    def word(self) -> str:
        return {Precondition: "fixed", Impossible: "impossible", Open: "open"}[type(self.result)]


def run(entry: Entry, bug: Bug, at: Place, method: Method, seed: int, most: int, runtime: Runtime) -> Row:
    """Search intervals for the node of a bug; the search knows the model and the ranges, and nothing else of the entry.

    `runtime` is where the points are run afterwards; the search has its own, whose start counts.
    """
    prepared = Prepared.of(entry.onnx(), ranges=entry.declarations().domains, cache=False)
    (assumptions, *_), _ = resolve(prepared.graph, prepared.declared)
    analysis = analyse(prepared.graph, assumptions, prepared.target, effort=0)
    findings = [finding for finding in analysis.findings if finding.node == bug.node and finding.rule.severity == "error"]
    started = cpu_seconds()
    result = find_precondition(prepared, findings, at, method=method, seed=seed)
    row = Row(result, cpu_seconds() - started)
    if isinstance(result, Precondition):
        run_points = list(_failures(prepared, analysis, result, bug, seed, most, runtime))
        row = replace(row, points=len(run_points), failing=sum(run_points))
    return row


def _failures(
    prepared: Prepared, analysis: Analysis, found: Precondition, bug: Bug, seed: int, most: int, runtime: Runtime
) -> Iterator[bool]:
    """For point after point, whether the node of the edited model gives NaN or infinity."""
    editor = Editor(prepared.graph, prepared.proto)
    found.edit(editor)
    edited = editor.finish()
    free = [prepared.graph.name_of(number) for number in analysis.assumptions.weights]
    (node,) = [node for node in prepared.graph.graph.nodes if node.name == bug.node]
    results = [prepared.graph.name_of(number) for number in node.outputs if number >= 0]
    restricted = replace(analysis, assumptions=found.assumptions(analysis.assumptions))
    session = runtime.session(prefix(edited, results, free))
    for point in chain(_points(prepared, restricted, seed, most), _points(prepared, analysis, seed, most // 10)):
        yield any(map(not_finite, session.run(point)))
    session.close()


def _points(prepared: Prepared, analysis: Analysis, seed: int, most: int) -> Iterator[Point]:
    domains = domains_of(prepared.graph, analysis)
    size = sum(math.prod(shape) for _, shape, _ in domains.values())
    return points(seed, domains, min(most, max(FEWEST_POINTS, NUMBERS // max(size, 1))))


def widths_against_ranum(bug: Bug, found: Precondition) -> float | None:
    """The geometric mean of ours / RANUM's width over the sites that both have, within the ranges that are declared here.

    None where RANUM's intervals are not comparable: single numbers, or outside of these ranges.
    """
    theirs: dict[str, list[float]] = json.loads(_INTERVALS.read_text("utf-8")).get(bug.letter, {})
    ratios: list[float] = []
    for site, (low, high) in zip(found.sites, found.box, strict=True):
        if site.name not in theirs:
            continue
        first, last = (np.clip(end, *site.whole) for end in theirs[site.name])
        other, own = float(np.mean(last - first)), float(np.mean(high - low))
        if other <= 0 or own <= 0:
            return None
        ratios.append(own / other)
    return statistics.geometric_mean(ratios) if ratios else None


def main(arguments: Sequence[str] = ()) -> None:
    """The table of all forward bugs at all places, or of some."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fixes", description=main.__doc__)
    parser.add_argument("--only", nargs="+", default=[], help="ids of entries; all by default")
    parser.add_argument("--at", nargs="+", choices=PLACES, default=PLACES)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS[:1])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--points", type=int, default=POINTS, help="points that are run for every success")
    options = parser.parse_args(arguments)
    console = Console(width=170)
    cases = [(e, b) for e in programs() for b in e.bugs if b.is_forward and (not options.only or e.id in options.only)]
    for method in options.methods:
        rows: dict[tuple[str, str, Place], list[Row]] = {}
        with Runtime() as runtime:
            for at in options.at:
                for entry, bug in cases:
                    tries = [run(entry, bug, at, method, seed, options.points, runtime) for seed in range(options.seeds)]
                    rows[entry.id, bug.letter, at] = tries
                    _tell(console, bug, at, tries)
        _print_table(console, method, options.at, cases, rows)
        for at in options.at:
            _print_total(console, at, cases, rows, options.seeds)


def _tell(console: Console, bug: Bug, at: Place, tries: Sequence[Row]) -> None:
    for row in tries:
        ran = f", {row.failing} of {row.points} points fail" if row.points else ""
        what = f"{row.result.scans} scans, {row.seconds:.2f} s{ran}: {row.result.describe()[:100]}"
        console.print(f"{bug.letter} {at}: {row.word}, {what}", style="bold red" if row.failing else "dim", highlight=False)


def _print_table(
    console: Console,
    method: Method,
    places: Sequence[Place],
    cases: Sequence[tuple[Entry, Bug]],
    rows: dict[tuple[str, str, Place], list[Row]],
) -> None:
    table = Table(
        title=f"interval preconditions, method {method}: share of the declared intervals that is kept, scans, CPU seconds"
    )
    for column in (
        "entry",
        "bug",
        "operator",
        *(f"{at}{what}" for at in places for what in ("", " scans", " s")),
        "widths / RANUM's",
    ):
        table.add_column(column, justify="left" if column in ("entry", "operator") else "right")
    ratios: list[float] = []
    for entry, bug in cases:
        cells: list[str] = []
        for at in places:
            tries = rows[entry.id, bug.letter, at]
            seconds = statistics.mean(row.seconds for row in tries)
            cells += [_text(tries[0]), str(tries[0].result.scans), f"{seconds:.2f}"]
        both = rows.get((entry.id, bug.letter, "both"), [])
        ratio = widths_against_ranum(bug, both[0].result) if both and isinstance(both[0].result, Precondition) else None
        ratios += [] if ratio is None else [ratio]
        table.add_row(entry.id, bug.letter, bug.operator, *cells, "" if ratio is None else f"{ratio:.3g}")
    console.print(table)
    if ratios:
        wider = sum(ratio > 1 for ratio in ratios)
        median = statistics.median(ratios)
        console.print(
            f"wider than RANUM's at {wider} of {len(ratios)} bugs that can be compared, median {median:.3g}", highlight=False
        )


def _text(row: Row) -> str:
    return f"{row.result.share:.2g}" if isinstance(row.result, Precondition) else row.word


def _print_total(
    console: Console,
    at: Place,
    cases: Sequence[tuple[Entry, Bug]],
    rows: dict[tuple[str, str, Place], list[Row]],
    seeds: int,
) -> None:
    mine = [row for entry, bug in cases for row in rows[entry.id, bug.letter, at]]
    words = Counter(row.word for row in mine)
    shares = [row.result.share for row in mine if isinstance(row.result, Precondition)]
    held = sum(not row.failing for row in mine if row.points)
    seconds = sum(row.seconds for row in mine) / seeds
    with_weights = sum(bool(entry.weights) for entry, _ in cases) * seeds
    denominator = f"{len(mine)} bugs" + (f" ({with_weights} of programs with weights)" if at == "weights" else "")
    reported, rerun, sampled = RANUM[at]
    console.print(
        f"{at}: fixed {words['fixed']}, impossible {words['impossible']}, open {words['open']} of {denominator}; "
        f"{held} of {words['fixed']} hold at all points that were run; "
        f"median share {statistics.median(shares) if shares else math.nan:.3g}; {seconds:.0f} s CPU for one seed. "
        f"RANUM: {reported} of 79 reported, {rerun} when run again, {sampled} of these hold when sampled; {RANUM_SECONDS} s",
        highlight=False,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
