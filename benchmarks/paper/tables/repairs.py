"""Repairs of the zoo: for every bug the stable rewrite and the guard of the operand that pass their verification.

The more numbers a program has, inputs and weights, the fewer are the points that verify a repair, 1000 at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from benchmarks.paper.bugs import few_bugs, is_of_grist
from benchmarks.paper.table import Json, Section, Size
from benchmarks.repairs import FEWEST, KINDS, points_for, repaired
from tensorproof.repair.verify import RUNS


def cases(size: Size) -> Sequence[str]:
    return tuple(few_bugs(size))


def measured(case: str, size: Size) -> Json:
    entry, bug = few_bugs(size)[case]
    runs = points_for(entry) if size == "full" else RUNS // 10
    found: Json = {"operator": bug.operator, "points": runs}
    for kind in KINDS:
        row = repaired(entry, bug, kind, runs)
        repair = None if row.outcome is None else row.outcome.repair
        found[kind] = {
            "name": None if repair is None else repair.proposal.name,
            "safe": repair is not None and repair.is_safe,
            "said": row.describe() if repair is not None else row.reasons,
            "seconds": row.seconds,
        }
    return found


def section(results: Mapping[str, Json], size: Size) -> Section:
    own = {case: result for case, result in results.items() if is_of_grist(case)}
    either = sum(any(result[kind]["name"] for kind in KINDS) for result in own.values())
    lines = [f"{either} of {len(own)} bugs have a verified repair"]
    figures: dict[str, float | int | str] = {"bugs": len(own), "repaired": either}
    for kind in KINDS:
        names = Counter(result[kind]["name"] for result in own.values() if result[kind]["name"] is not None)
        safe = sum(result[kind]["safe"] for result in own.values())
        figures |= {kind: names.total(), f"{kind} safe": safe}
        told = ", ".join(f"{name} {count}" for name, count in names.most_common())
        lines.append(f"{kind}: {names.total()} of {len(own)} verified, {safe} of them safe ({told})")
    lines += [
        f"{case} has no {kind}: {result[kind]['said']}"
        for case, result in results.items()
        for kind in KINDS
        if not result[kind]["name"]
    ]
    rows = tuple(
        (
            case,
            result["operator"],
            *(result[kind]["said"] if result[kind]["name"] else "-" for kind in KINDS),
            f"{sum(result[kind]['seconds'] for kind in KINDS):.1f}",
        )
        for case, result in results.items()
    )
    return Section(
        "Repairs that pass their verification, and how far values moved",
        ("bug", "operator", *KINDS, "CPU s"),
        rows,
        tuple(lines),
        figures,
        setup=(
            "Neither RANUM nor GRIST rewrites programs: there is no figure to set beside these.",
            f"A repair is verified on {FEWEST} to {RUNS} points, fewer in programs of more numbers.",
        ),
    )
