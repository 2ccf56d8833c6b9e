"""Repairs of the zoo: for every bug the stable rewrite and the guard of the operand that pass their verification."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from benchmarks.timing import cpu_seconds
from benchmarks.zoo import Bug, Entry
from tensorproof.confirm.quick import QuickConfirm
from tensorproof.preparing import Prepared
from tensorproof.repair.fixing import Fixer, Outcome, guarded, rewritten

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
    options = {} if bug.is_forward else {"phase": "training", "target": entry.target}
    prepared = replace(Prepared.of(entry.onnx(), **options), declared=entry.declarations())
    confirming = QuickConfirm(prepared.proto, nodes=(bug.node,))
    report = prepared.checked(confirming)
    fixer = Fixer(prepared, sources=[KINDS[kind]], unsafe=True, is_chosen=lambda f: f.node == bug.node, runs=runs)
    outcomes = fixer.run(report, confirming.failing).outcomes
    return Row(next((o for o in outcomes if o.finding.node == bug.node), None), cpu_seconds() - started)


def size_of(entry: Entry) -> int:
    """How many numbers the weights of a program are."""
    return sum(math.prod(weight.shape) for weight in entry.weights.values())
