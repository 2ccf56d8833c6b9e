"""RANUM's study of repairs: ours beside those of the developers, in the same programs, through the same verification.

Classes are RANUM's: A, ours is better, or there is none; B, as good; D, the developers' is better. (C, none is needed in the
project, has no row.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from benchmarks.developers import RECORDED, measured_pair
from benchmarks.paper.table import Json, Section, Size
from benchmarks.timing import cpu_seconds

_QUICK = ("2b", "3")


def cases(size: Size) -> Sequence[str]:
    return tuple(recorded.bug for recorded in RECORDED if size == "full" or recorded.bug in _QUICK)


def measured(case: str, size: Size) -> Json:
    started = cpu_seconds()
    (recorded,) = [recorded for recorded in RECORDED if recorded.bug == case]
    theirs, ours, verdict = measured_pair(recorded, is_quick=size == "quick")
    named = {"theirs": theirs, "ours": ours}
    told = {who: {"name": one.name, "values": one.values, "gradient": one.gradient} for who, one in named.items()}
    return {"class": verdict, "safe": ours.is_safe, **told, "seconds": cpu_seconds() - started}


def section(results: Mapping[str, Json], size: Size) -> Section:
    classes = Counter(result["class"] for result in results.values())
    rows = tuple((case, *result["theirs"].values(), *result["ours"].values(), result["class"]) for case, result in results.items())
    return Section(
        "RANUM's study of repairs: the developers' and ours",
        ("bug", "developers", "values", "gradient", "ours", "values", "gradient", "class"),
        rows,
        (", ".join(f"class {key}: {count}" for key, count in sorted(classes.items())),),
        {f"class {key}": classes[key] for key in "ABD"},
        paper=("RANUM: of 40 bugs that developers repaired or that have to be, its repairs are as good or better in 37.",),
        setup=("Only repairs that the study tells in words are rebuilt: 13 bugs.",),
    )
