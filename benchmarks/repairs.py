"""Repairs of the zoo: for every bug the stable rewrite and the guard of the operand that pass their verification."""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks.paper.bugs import numbers
from benchmarks.timing import cpu_seconds
from benchmarks.zoo import Bug, Entry
from tensorproof.confirm.quick import QuickConfirm
from tensorproof.preparing import Prepared
from tensorproof.repair.fixing import Fixer, Outcome, guarded, rewritten
from tensorproof.repair.verify import RUNS

#: Numbers that all points of a verification may have together, weights drawn anew for each point among them; and fewest points.
NUMBERS, FEWEST = 150_000_000, 22

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
    options = {} if bug.is_forward else {"phase": "training", "target": entry.target}
    prepared = replace(Prepared.of(entry.onnx(), **options), declared=entry.declarations())
    confirming = QuickConfirm(prepared.proto, nodes=(bug.node,))
    report = prepared.checked(confirming)
    fixer = Fixer(prepared, sources=[KINDS[kind]], unsafe=True, is_chosen=lambda f: f.node == bug.node, runs=runs)
    outcomes = fixer.run(report, confirming.failing).outcomes
    return Row(next((o for o in outcomes if o.finding.node == bug.node), None), cpu_seconds() - started)


def points_for(entry: Entry) -> int:
    """How many points verify a repair of a program."""
    return max(FEWEST, min(RUNS, NUMBERS // numbers(entry)))
