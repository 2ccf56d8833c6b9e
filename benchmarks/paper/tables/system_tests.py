"""RANUM's table II: how often a search finds a training example and an input that together make the known node fail.

One step of gradient descent with learning rate 1 from the initial weights, on one example, then inference in ONNX Runtime. A
program without weights is not trained: its input alone is the test.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

from benchmarks.paper.bugs import few_bugs, is_of_grist, seeds
from benchmarks.paper.table import Json, Section, Size
from benchmarks.paper.tables.unit_tests import searched
from benchmarks.system_tests import NOT_REACHED, SLOW, run

#: The whole search, and samples alone.
METHODS = ("full", "random")
_WORDS = {"full": "ours", "random": "random"}
_UNTRAINED = {"full": "full", "random": "uniform"}
_DERIVATIVE = "the bug is one of training itself; a search for it is not written"


def cases(size: Size) -> Sequence[str]:
    return tuple(few_bugs(size))


def measured(case: str, size: Size) -> Json:
    entry, bug = few_bugs(size)[case]
    reason = NOT_REACHED.get(case) or SLOW.get(entry.id) or ("" if bug.is_forward or not entry.weights else _DERIVATIVE)
    found: Json = {"operator": bug.operator, "trained": bool(entry.weights), "reason": reason}
    for method in METHODS:
        if not entry.weights:
            runs = [searched(entry, bug, _UNTRAINED[method], seed, "quick") for seed in seeds(size)]
            found[method] = [{"how": "input alone" if one["found"] else None, "seconds": one["seconds"]} for one in runs]
        elif entry.id in SLOW or not bug.is_forward:
            found[method] = [{"how": None, "seconds": 0.0} for _ in seeds(size)]
        else:
            row = run(entry, bug, method, seeds(size))
            found[method] = [{"how": how, "seconds": seconds} for how, seconds in zip(row.how, row.seconds)]
    return found


def section(results: Mapping[str, Json], size: Size) -> Section:
    own = {case: result for case, result in results.items() if is_of_grist(case)}
    runs = len(own) * len(seeds(size))
    figures: dict[str, float | int | str] = {"bugs": len(own), "runs": runs}
    lines: list[str] = []
    for method in METHODS:
        tries = [one for result in own.values() for one in result[method]]
        found, mean = _count(tries), statistics.mean(one["seconds"] for one in tries)
        figures |= {f"{_WORDS[method]} found": found, f"{_WORDS[method]} seconds": mean}
        lines.append(f"{_WORDS[method]}: {found} of {runs} runs, {mean:.2f} s CPU on average")
    lines += [f"{case}, {_count(r['full'])} of {len(r['full'])}: {r['reason']}" for case, r in own.items() if r["reason"]]
    return Section(
        "RANUM, table II: system tests replayed in ONNX Runtime, and CPU seconds per run",
        ("bug", "operator", *_WORDS.values(), *(f"{word} s" for word in _WORDS.values()), "how"),
        tuple(_row(case, result) for case, result in results.items()),
        tuple(lines),
        figures,
        paper=("RANUM finds 733 of 790 system tests, by its own count, at 17.3 s on average.",),
        setup=("A run counts if ONNX Runtime fails at the node with the weights that the step leads to.",),
    )


def _count(tries: Sequence[Json]) -> int:
    return sum(one["how"] is not None for one in tries)


def _row(case: str, result: Json) -> tuple[str, ...]:
    shares = [f"{_count(result[method])}/{len(result[method])}" for method in METHODS]
    times = [f"{statistics.mean(one['seconds'] for one in result[method]):.1f}" for method in METHODS]
    ways = Counter(one["how"] for one in result["full"] if one["how"])
    return case, result["operator"], *shares, *times, ", ".join(f"{way} {count}" for way, count in ways.most_common())
