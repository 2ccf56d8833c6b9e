"""What `fix` does with the corpus of PyTorch programs with known defects: safe repairs, unsafe ones, and findings without one."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.torch_corpus import programs

import tensorproof
from tensorproof.repair.fixing import Outcome

#: Points that verify each repair.
RUNS = 60


def main() -> None:
    """Print a line per finding, and the totals."""
    totals: Counter[str] = Counter()
    for program in programs():
        if program.is_safe:
            continue
        options: dict[str, Any] = {} if program.precision is None else {"precision": program.precision}
        found = tensorproof.fix(f"{program.path}:{program.name}", phase=program.phase, unsafe=True, runs=RUNS, **options)
        for outcome in found.outcomes:
            kind = _kind(outcome)
            totals[kind] += 1
            repair = "" if outcome.repair is None else outcome.repair.proposal.name
            print(f"{program.stem:28} {outcome.finding.rule.code}  {kind:8} {repair}")
    print(", ".join(f"{count} {kind}" for kind, count in totals.most_common()), f"of {totals.total()} findings")


def _kind(outcome: Outcome) -> str:
    if outcome.repair is None:
        return "none"
    if outcome.along_with is not None:
        return "along"
    return "safe" if outcome.repair.is_safe else "unsafe"
