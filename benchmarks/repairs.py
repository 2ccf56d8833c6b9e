"""Repairs of the zoo: for every forward bug the stable rewrite and the guard of the operand that pass their verification."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.console import Console
from rich.table import Table

from benchmarks.unit_tests import cpu_seconds
from benchmarks.zoo import Bug, Entry, programs
from tensorproof.confirm.quick import QuickConfirm
from tensorproof.preparing import Prepared
from tensorproof.repair.fixing import Fixer, Outcome, guarded, rewritten
from tensorproof.repair.verify import RUNS

#: Programs with more weights than this, all of them drawn anew for each point, are verified on a tenth of the points.
LARGE = 200_000

KINDS = {"rewrite": rewritten, "operand": guarded}


@dataclass(frozen=True, slots=True)
class Row:
    """One bug with one kind of repair."""

    outcome: Outcome | None
    seconds: float

    def describe(self) -> str:
        if self.outcome is None or self.outcome.repair is None:
            return "-"
        repair = self.outcome.repair
        compared = repair.verification.values
        difference = "same" if compared.ulp == 0 else f"{compared.relative:.1e}"
        return f"{repair.proposal.name}{'' if repair.is_safe else ' (unsafe)'} {difference}"

    @property
    def reasons(self) -> str:
        if self.outcome is None:
            return "not flagged"
        return "; ".join(f"{name}: {reason}" for name, reason in self.outcome.declined)


def repaired(entry: Entry, bug: Bug, kind: str, runs: int) -> Row:
    started = cpu_seconds()
    prepared = replace(Prepared.of(entry.onnx()), declared=entry.declarations())
    confirming = QuickConfirm(prepared.proto, nodes=(bug.node,))
    report = prepared.checked(confirming)
    fixer = Fixer(prepared, sources=[KINDS[kind]], unsafe=True, is_chosen=lambda f: f.node == bug.node, runs=runs)
    outcomes = fixer.run(report, confirming.failing).outcomes
    return Row(next((o for o in outcomes if o.finding.node == bug.node), None), cpu_seconds() - started)


def size_of(entry: Entry) -> int:
    """How many numbers the weights of a program are."""
    return sum(math.prod(weight.shape) for weight in entry.weights.values())


def main(arguments: Sequence[str] = ()) -> None:
    """The table of all forward bugs, or of those of the entries with the given ids."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.repairs")
    parser.add_argument("ids", nargs="*", help="entries of the zoo (all by default)")
    parser.add_argument("--runs", type=int, default=RUNS, help="points of the box that verify each repair")
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=tuple(KINDS))
    options = parser.parse_args(arguments)
    console = Console(width=170)
    table = Table(title=f"verified repairs ({options.runs} points, a tenth for large programs) and how far values moved")
    for column in ("entry", "bug", "operator", *options.kinds, "CPU s"):
        table.add_column(column)
    found, seconds = dict.fromkeys(options.kinds, 0), 0.0
    cases = [(e, b) for e in programs() for b in e.bugs if b.is_forward and (not options.ids or e.id in options.ids)]
    for entry, bug in cases:
        runs = options.runs // (10 if size_of(entry) > LARGE else 1)
        rows = {kind: repaired(entry, bug, kind, runs) for kind in options.kinds}
        spent = sum(row.seconds for row in rows.values())
        seconds += spent
        for kind, row in rows.items():
            fixed = row.outcome is not None and row.outcome.repair is not None
            found[kind] += fixed
            if not fixed:
                console.print(f"{entry.id} {bug.letter} {kind}: {row.reasons}", highlight=False)
        cells = [row.describe() for row in rows.values()]
        console.print(f"{entry.id} {bug.letter}: {' | '.join(cells)}, {spent:.1f} s", style="dim", highlight=False)
        table.add_row(entry.id, bug.letter, bug.operator, *cells, f"{spent:.1f}")
    console.print(table)
    sums = ", ".join(f"{kind} {number}/{len(cases)}" for kind, number in found.items())
    console.print(f"{len({e.id for e, _ in cases})} programs, {len(cases)} bugs: {sums}; {seconds:.0f} s CPU", highlight=False)


if __name__ == "__main__":
    main(sys.argv[1:])
