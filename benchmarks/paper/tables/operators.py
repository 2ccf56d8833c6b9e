"""Own cases: operators, formats and phases that GRIST's benchmark lacks, each defect beside a twin that is its repair."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache

from benchmarks.operator_cases.catalogue import FAMILIES, PAIRS
from benchmarks.operator_cases.judging import judged
from benchmarks.operator_cases.running import failures
from benchmarks.paper.table import Json, Section, Size

#: Points of the box at which a twin is run by itself: none may fail.
POINTS: Mapping[Size, int] = {"full": 1000, "quick": 100}


def cases(size: Size) -> Sequence[str]:
    """All pairs, or the first of each family."""
    return tuple(PAIRS) if size == "full" else tuple(family.pairs[0].name for family in FAMILIES)


def measured(case: str, size: Size) -> Json:
    pair = PAIRS[case]
    _warm_up(pair.is_file)
    defective, twin = judged(pair, False), judged(pair, True)
    best = defective.best
    return {
        "found": best is not None,
        "verdict": "missed" if best is None else str(best.verdict),
        "searched": defective.is_searched,
        "instead": list(defective.alarms) if best is None else [],
        "alarms": list(twin.alarms),
        "twin fails": len(failures(pair, True, POINTS[size])),
        "seconds": defective.seconds,
        "seconds of the twin": twin.seconds,
    }


@cache
def _warm_up(is_file: bool) -> None:
    """Import what checks need, and make the first check, which is slower than any other."""
    first = next(pair for pair in PAIRS.values() if pair.is_file == is_file)
    judged(first, False)


def section(results: Mapping[str, Json], size: Size) -> Section:
    rows = tuple(_row(case, result) for case, result in results.items())
    found = sum(result["found"] for result in results.values())
    confirmed = sum(result["verdict"] == "confirmed" for result in results.values())
    alarmed = sum(bool(result["alarms"]) for result in results.values())
    failing = sum(bool(result["twin fails"]) for result in results.values())
    seconds = [result[key] for result in results.values() for key in ("seconds", "seconds of the twin")]
    figures: dict[str, float | int | str] = {
        "cases": 2 * len(results),
        "pairs": len(results),
        "found": found,
        "confirmed": confirmed,
        "false alarms": alarmed,
        "twins that fail": failing,
        "seconds": statistics.mean(seconds),
    }
    families = Counter(PAIRS[case].family for case in results)
    lines = [
        f"{len(results)} defects: {found} found at their operator and place, {confirmed} confirmed in the real runtime",
        f"{len(results)} repaired twins: {alarmed} with an alarm; run by themselves, {failing} fail",
        f"{statistics.mean(seconds):.2f} s CPU a model on average",
        "pairs by family: " + ", ".join(f"{name} {count}" for name, count in families.items()),
    ]
    lines += [f"{case} is not confirmed: {PAIRS[case].not_replayed}" for case in results if PAIRS[case].not_replayed]
    lines += [f"{case} is a note: {PAIRS[case].silent}" for case in results if PAIRS[case].silent]
    return Section(
        "Own cases: operators that GRIST's benchmark lacks",
        ("case", "family", "operator", "expected", "found", "verdict", "alarms on the twin", "CPU s"),
        rows,
        tuple(lines),
        figures,
        setup=(
            "CPU seconds are those of checks, of both models of a pair; frameworks are imported before.",
            "PyTorch programs and ONNX files; the defect counts as found if its rule is reported at its operator and line or node.",
            f"A twin is run by itself on {POINTS[size]} points of the box.",
        ),
    )


def _row(case: str, result: Json) -> tuple[str, ...]:
    pair = PAIRS[case]
    found = pair.rule if result["found"] else "; ".join(result["instead"]) or "-"
    verdict = f"{result['verdict']} by search" if result["searched"] and result["verdict"] == "confirmed" else result["verdict"]
    seconds = result["seconds"] + result["seconds of the twin"]
    operator = pair.operator.removeprefix("tensorproof::")
    return (case, pair.family, operator, pair.rule, found, verdict, "; ".join(result["alarms"]) or "-", f"{seconds:.2f}")
