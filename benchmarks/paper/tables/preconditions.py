"""RANUM's table III: intervals for inputs, for weights or for both, under which the known node cannot fail.

Every success is a proof of the edited model by the scan. What it claims is run as well: points of the restricted box, and of the
whole one, go through the edited model in ONNX Runtime, and the node has to stay finite.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

from benchmarks.fixes import METHODS, PLACES, POINTS, RANUM, RANUM_SECONDS, run, widths_against_ranum
from benchmarks.paper.bugs import BOXES, box_options, few_bugs, is_of_grist, numbers
from benchmarks.paper.table import Json, Section, Size
from benchmarks.zoo import Bug, Entry
from tensorproof.execute.runtime import Runtime
from tensorproof.repair.preconditions import Precondition

#: The baselines run on programs of at most so many numbers: an interval for each element of a convolutional network takes hours.
SMALL = 100_000
_WORDS = {"full": "ours", "elementwise": "each element (RANUM-E)", "gradient": "plain descent"}


def cases(size: Size) -> Sequence[str]:
    return tuple(few_bugs(size))


def measured(case: str, size: Size) -> Json:
    entry, bug = few_bugs(size)[case]
    points = POINTS if size == "full" else POINTS // 10
    found: Json = {"operator": bug.operator, "weights": bool(entry.weights)}
    with Runtime() as runtime:
        for method in METHODS if numbers(entry) <= SMALL else METHODS[:1]:
            found[method] = {}
            for at in PLACES:
                row = run(entry, bug, at, method, 0, points, runtime, box_options(entry, None))
                assert row is not None, f"{case} is not found"
                result = row.result
                fixed = isinstance(result, Precondition)
                found[method][at] = {
                    "word": row.word,
                    "share": result.share if fixed else None,
                    "against RANUM": widths_against_ranum(bug, result) if fixed and at == "both" else None,
                    "scans": result.scans,
                    "points": row.points,
                    "failing": row.failing,
                    "said": result.describe(),
                    "seconds": row.seconds,
                }
        found["boxes"] = {box: _in_box(entry, bug, box, points, runtime) for box in BOXES if entry.weights}
    return found


def _in_box(entry: Entry, bug: Bug, box: str, points: int, runtime: Runtime) -> str:
    """What comes of intervals for both where weights are those of a formula."""
    row = run(entry, bug, "both", "full", 0, points // 10, runtime, box_options(entry, box))
    return "not reached" if row is None else "refuted" if row.failing else row.word


def section(results: Mapping[str, Json], size: Size) -> Section:
    own = {case: result for case, result in results.items() if is_of_grist(case)}
    lines: list[str] = []
    figures: dict[str, float | int | str] = {"bugs": len(own)}
    for at in PLACES:
        mine = [result["full"][at] for result in own.values()]
        words = Counter(row["word"] for row in mine)
        hold = sum(not row["failing"] for row in mine if row["word"] == "fixed")
        seconds = sum(row["seconds"] for row in mine)
        reported, rerun, sampled = RANUM[at]
        lines.append(
            f"{at}: fixed {words['fixed']}, impossible {words['impossible']}, open {words['open']} of {len(mine)}; "
            f"{hold} hold at all points that were run; {seconds:.0f} s CPU. "
            f"RANUM: {reported} of 79 reported, {rerun} when run again, {sampled} of these hold"
        )
        figures |= {f"{at} {word}": words[word] for word in ("fixed", "impossible", "open")}
        figures |= {f"{at} hold": hold, f"{at} seconds": seconds}
    for method in METHODS[1:]:
        small = [result for result in own.values() if method in result]
        for at in PLACES:
            ours, theirs = ([result[name][at] for result in small] for name in ("full", method))
            fixed = [sum(row["word"] == "fixed" for row in rows) for rows in (ours, theirs)]
            spent = [sum(row["seconds"] for row in rows) for rows in (ours, theirs)]
            told = [f"{name} {count} in {time:.0f} s" for name, count, time in zip(("ours", _WORDS[method]), fixed, spent)]
            lines.append(f"{at}, {len(small)} bugs of small programs: {', '.join(told)}")
            figures |= {f"small {at} ours": fixed[0], f"small {at} {method}": fixed[1]}
    ratios = [ratio for result in own.values() if (ratio := result["full"]["both"]["against RANUM"]) is not None]
    if ratios:
        wider = sum(ratio > 1 for ratio in ratios)
        lines.append(
            f"wider than RANUM's at {wider} of {len(ratios)} bugs that can be compared, median {statistics.median(ratios):.3g}"
        )
        figures |= {"compared with RANUM": len(ratios), "wider than RANUM": wider, "median width": statistics.median(ratios)}
    for box in BOXES:
        words = Counter(result["boxes"][box] for result in own.values() if result["boxes"])
        told = ", ".join(f"{word} {count}" for word, count in words.most_common())
        lines.append(f"both, with the weights of {box!r}: {told} of {words.total()} bugs of programs with weights")
        figures |= {f"both fixed {box}": words["fixed"], f"both reached {box}": words.total() - words["not reached"]}
    return Section(
        "RANUM, table III: interval preconditions; the share of the declared intervals that is kept, and CPU seconds",
        ("bug", "operator", *(f"{at}{what}" for at in PLACES for what in ("", " s")), "widths / RANUM's"),
        tuple(_row(case, result) for case, result in results.items()),
        tuple(lines),
        figures,
        paper=(f"RANUM: weights and inputs 79, weights 72, inputs 37 of 79; {RANUM_SECONDS} s for all.",),
        setup=(
            "A success of RANUM is a proof in float64 by its own analysis, which ends behind the first flagged node.",
            "Impossible: with some weights of the box the node fails at every centre and every random input that was tried.",
        ),
    )


def _row(case: str, result: Json) -> tuple[str, ...]:
    cells: list[str] = []
    for at in PLACES:
        row = result["full"][at]
        cells += [row["word"] if row["share"] is None else f"{row['share']:.2g}", f"{row['seconds']:.2f}"]
    ratio = result["full"]["both"]["against RANUM"]
    return case, result["operator"], *cells, "" if ratio is None else f"{ratio:.3g}"
