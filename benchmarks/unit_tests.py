"""Unit tests for the zoo: how often a search finds an input and weights that make the known node fail in ONNX Runtime."""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

import tensorproof
from benchmarks.zoo import Bug, Entry, programs
from tensorproof.findings import Report

METHODS = ("full", "gradient", "random", "uniform")
SEEDS = 10
#: Networks of fewer nodes are counted in the mean time that the closing line prints.
SMALL = 100


@dataclass(frozen=True, slots=True)
class Row:
    """The runs of one bug with one method: seeds that confirmed it, and CPU seconds of each run."""

    entry: Entry
    bug: Bug
    nodes: int
    found: int
    seconds: tuple[float, ...]
    reasons: tuple[str, ...]


def cpu_seconds() -> float:
    """CPU time of this process and of those that it started and that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def run(entry: Entry, bug: Bug, method: str, seeds: Sequence[int]) -> Row:
    """Search the node of a bug; the search knows the model and the ranges, and nothing else of the entry."""
    found, seconds, reasons = 0, list[float](), list[str]()
    model = entry.onnx()
    declared = entry.declarations()
    for seed in seeds:
        started = cpu_seconds()
        report = tensorproof.find_witnesses(
            model, ranges=declared.domains, nodes=[bug.node], seed=seed, method=method, shrink=False
        )
        seconds.append(cpu_seconds() - started)
        if any(f.node == bug.node for f in report.confirmed):
            found += 1
        else:
            reasons.append(_reason(report, bug))
    return Row(entry, bug, len(model.graph.node), found, tuple(seconds), tuple(dict.fromkeys(reasons)))


def _reason(report: Report, bug: Bug) -> str:
    for finding in report.findings:
        if finding.node == bug.node:
            return f"possible, reached {finding.reached}, bound [{finding.low:.3g}, {finding.high:.3g}]"
    return "not flagged"


def main(arguments: Sequence[str] = ()) -> None:
    """The table of all forward bugs, or of those of the entries with the given ids."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.unit_tests")
    parser.add_argument("ids", nargs="*", help="entries of the zoo (all by default)")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--methods", type=lambda text: text.split(","), default=METHODS)
    options = parser.parse_args(arguments)
    methods, seeds = options.methods, options.seeds
    console = Console(width=150)
    table = Table(title=f"unit tests confirmed in ONNX Runtime, of {seeds} seeds, and CPU seconds per run")
    for column in ("entry", "bug", "operator", "nodes", *methods, *(f"{method} s" for method in methods)):
        table.add_column(column, justify="left" if column in ("entry", "operator") else "right")
    totals = dict.fromkeys(methods, 0)
    small: list[float] = []
    cases = [(e, b) for e in programs() for b in e.bugs if b.is_forward and (not options.ids or e.id in options.ids)]
    for entry, bug in cases:
        rows = {method: run(entry, bug, method, range(seeds)) for method in methods}
        for method, row in rows.items():
            totals[method] += row.found
        first = rows[methods[0]]
        if first.nodes < SMALL:
            small.extend(first.seconds)
        numbers = [f"{row.found}/{seeds}" for row in rows.values()]
        times = [f"{statistics.mean(row.seconds):.2f}" for row in rows.values()]
        style = None if first.found == seeds else "bold red"
        table.add_row(entry.id, bug.letter, bug.operator, str(first.nodes), *numbers, *times, style=style)
        console.print(f"{entry.id} {bug.letter}: {', '.join(numbers)}, {', '.join(times)} s", style="dim", highlight=False)
        for reason in first.reasons:
            console.print(f"{entry.id} {bug.letter}: {reason}", highlight=False)
    console.print(table)
    sums = ", ".join(f"{method} {totals[method]}/{seeds * len(cases)}" for method in methods)
    mean = f"; {methods[0]}: {statistics.mean(small):.2f} s CPU per run on networks of fewer than {SMALL} nodes" if small else ""
    console.print(f"{len({e.id for e, _ in cases})} programs, {len(cases)} bugs: {sums}{mean}", highlight=False)


if __name__ == "__main__":
    main(sys.argv[1:])
