"""System tests for the zoo: how often a search finds a training example and an input that make the known node fail.

One step of gradient descent with learning rate 1 from the initial weights, then inference, as RANUM (ICSE 2023) has it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from benchmarks.unit_tests import cpu_seconds
from benchmarks.zoo import Bug, Entry, programs
from tensorproof.confirm.search import Budget
from tensorproof.confirm.system_test import SystemConfirm
from tensorproof.preparing import Prepared

#: The whole search; gradient matching to the weights of a unit test alone (RANUM); samples alone.
METHODS = ("full", "matching", "random")
SEEDS = 10
LOSS = "loss"
#: Entries that are left out of the table unless they are named: a single training step takes minutes.
SLOW = {"17": "a training step on images of 572 by 572 pixels through 26 layers, with second derivatives, takes minutes"}
#: Bugs that one step with learning rate 1 does not reach, or is not known to reach, and the argument.
NOT_REACHED = {
    "2a": "the mean over 10 by 10 terms bounds one step: logits part by at most 784 * 1.11 / 10 + 0.11 = 87.2, and 104 are needed",
    "11c": "open: every logit of a row would have to fall below -104 at once, and no search has come near",
    "15": "weights start near zero and gradients are products of several of them: a step hardly moves any",
    "16c": "open, as 11c: the same network",
    "28a": "the clips around the gain have no slope, so that a step hardly moves it; it would have to meet one number exactly",
    "28b": "all 784 weights of a column would have to be exactly 0 at once",
    "28c": "the clips around the gain have no slope, so that a step hardly moves it; it would have to vanish",
    "28d": "all 784 weights of a column would have to be exactly 0 at once",
}


@dataclass(frozen=True, slots=True)
class Row:
    """The runs of one bug with one method: how each seed succeeded (or did not), and CPU seconds of each run."""

    how: tuple[str | None, ...]
    seconds: tuple[float, ...]
    notes: tuple[str, ...]

    @property
    def found(self) -> int:
        return sum(way is not None for way in self.how)


def run(entry: Entry, bug: Bug, method: str, seeds: Sequence[int]) -> Row:
    """Search the node of a bug; the search knows the model, the ranges and the name of the loss, nothing else of the entry."""
    how: list[str | None] = []
    seconds: list[float] = []
    notes: list[str] = []
    for seed in seeds:
        started = cpu_seconds()
        prepared = Prepared.of(entry.onnx(seed), ranges=entry.declarations().domains, cache=False)
        confirming = SystemConfirm(
            prepared.proto,
            nodes=(bug.node,),
            declared=prepared.declared,
            loss=LOSS,
            budget=Budget(seed, method="random" if method == "random" else "full"),
            direct=method != "matching",
            shrink=False,
        )
        report = prepared.checked(confirming)
        seconds.append(cpu_seconds() - started)
        how.append(next((confirming.tests[f.identity].how for f in report.confirmed if f.node == bug.node), None))
        notes += confirming.notes
    return Row(tuple(how), tuple(seconds), tuple(dict.fromkeys(notes)))


def main(arguments: Sequence[str] = ()) -> None:
    """The table of all forward bugs of programs that train."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.system_tests", description=main.__doc__)
    parser.add_argument("entries", nargs="*", help="ids of entries; all, if there is none")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    options = parser.parse_args(arguments)
    seeds: int = options.seeds
    methods: Sequence[str] = options.methods
    ids: Sequence[str] = options.entries
    console = Console(width=150)
    table = Table(title=f"system tests replayed in ONNX Runtime, of {seeds} seeds, and CPU seconds per run")
    for column in ("entry", "bug", "operator", *methods, *(f"{method} s" for method in methods), "how"):
        table.add_column(column, justify="left" if column in ("entry", "operator", "how") else "right")
    cases = [(e, b) for e in programs() for b in e.bugs if b.is_forward and _is_chosen(e, ids)]
    totals = Counter[str]()
    for entry, bug in cases:
        rows = {method: run(entry, bug, method, range(seeds)) for method in methods}
        totals.update({method: row.found for method, row in rows.items()})
        numbers = [f"{row.found}/{seeds}" for row in rows.values()]
        times = [f"{statistics.mean(row.seconds):.1f}" for row in rows.values()]
        ways = ", ".join(f"{way} {count}" for way, count in Counter(w for w in rows[methods[0]].how if w).most_common())
        style = None if rows[methods[0]].found == seeds else "bold red"
        table.add_row(entry.id, bug.letter, bug.operator, *numbers, *times, ways, style=style)
        console.print(f"{entry.id} {bug.letter}: {' '.join(numbers)}", style="dim", highlight=False)
        for note in rows[methods[0]].notes:
            console.print(f"  {note}", style="dim", highlight=False)
    console.print(table)
    runs = seeds * len(cases)
    console.print(", ".join(f"{method} {totals[method]}/{runs}" for method in methods), highlight=False)
    for letter, reason in NOT_REACHED.items():
        console.print(f"{letter} was not reached: {reason}", highlight=False)
    untrained = [e.id for e in programs() if e.optimiser is None]
    console.print(f"without weights, and so without system tests: {', '.join(untrained)}", highlight=False)
    for id, reason in SLOW.items():
        if id not in ids:
            console.print(f"left out: {id}, {reason}", highlight=False)


def _is_chosen(entry: Entry, ids: Sequence[str]) -> bool:
    return entry.id in ids if ids else entry.optimiser is not None and entry.id not in SLOW


if __name__ == "__main__":
    main(sys.argv[1:])
