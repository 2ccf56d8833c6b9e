"""RANUM's table II: how often a search finds a training example and an input that together make the known node fail.

One step of gradient descent with learning rate 1 from the initial weights, on one example, then inference in ONNX Runtime; where
that does not lead there, up to forty steps. A program without weights is not trained: its input alone is the test. A derivative
fails in the step that follows.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from benchmarks.paper.bugs import few_bugs, is_of_grist, seeds
from benchmarks.paper.table import Json, Section, Size
from benchmarks.paper.tables.unit_tests import searched
from benchmarks.system_tests import FEW_STEPS, NOT_REACHED, OUT_OF_REACH, RANDOM_SAMPLES, SLOW, STEPS, run

#: The whole search, and samples alone.
METHODS = ("full", "random")
#: Seeds of samples alone, and of searches for what no training reaches.
FEW_SEEDS = 3
_WORDS = {"full": "ours", "random": "random"}
_UNTRAINED = {"full": "full", "random": "uniform"}


def cases(size: Size) -> Sequence[str]:
    return tuple(few_bugs(size))


def measured(case: str, size: Size) -> Json:
    entry, bug = few_bugs(size)[case]
    found: Json = {"operator": bug.operator, "trained": bool(entry.weights), "reason": NOT_REACHED.get(case, "")}
    for method in METHODS:
        if entry.weights:
            found[method] = [asdict(one) for one in run(entry, bug, method, _seeds(case, method, size))]
        else:
            runs = [searched(entry, bug, _UNTRAINED[method], seed, "quick") for seed in _seeds(case, method, size)]
            found[method] = [_alone(one) for one in runs]
    return found


def _seeds(case: str, method: str, size: Size) -> Sequence[int]:
    return seeds(size) if method == "full" and case not in OUT_OF_REACH else seeds(size)[:FEW_SEEDS]


def _alone(one: Json) -> Json:
    return {"how": "input alone" if one["found"] else None, "steps": 1, "seconds": one["seconds"]}


def section(results: Mapping[str, Json], size: Size) -> Section:
    own = {case: result for case, result in results.items() if is_of_grist(case)}
    figures: dict[str, float | int | str] = {"bugs": len(own), "runs": len(own) * len(seeds(size))}
    lines: list[str] = []
    for method in METHODS:
        tries, word = [one for result in own.values() for one in result[method]], _WORDS[method]
        once, found, mean = _count(tries, _in_one_step), _count(tries), statistics.mean(one["seconds"] for one in tries)
        figures |= {f"{word} found": found, f"{word} found in one step": once, f"{word} seconds": mean}
        runs = figures["runs"] if method == "full" else len(tries)
        lines.append(f"{word}: {found} of {runs} runs, {once} of them after one training step, {mean:.2f} s CPU on average")
    lines += [f"{case}, {_count(r['full'])} of {len(r['full'])}: {r['reason']}" for case, r in own.items() if r["reason"]]
    missed = [case for case, r in own.items() if _count(r["full"]) < len(r["full"]) and not r["reason"]]
    if missed:
        lines.append(f"not with every seed, for want of luck: {', '.join(missed)}")
    return Section(
        "RANUM, table II: system tests replayed in the runtime, and CPU seconds per run",
        ("bug", "operator", *_WORDS.values(), "one step", *(f"{word} s" for word in _WORDS.values()), "how"),
        tuple(_row(case, result) for case, result in results.items()),
        tuple(lines),
        figures,
        paper=("RANUM finds 733 of 790 system tests, by its own count, at 17.3 s on average.",),
        setup=(
            "RANUM trains one step with learning rate 1 and confirms in its own model of the program. Here a run counts if the node"
            " fails in ONNX Runtime with the weights that training leads to; of a derivative, in TensorFlow in the next step.",
            f"Where one step is not enough, up to {STEPS} steps on the same example are tried, by samples"
            f" ({', '.join(SLOW)}: up to {FEW_STEPS}).",
            f"Samples alone are tried with {FEW_SEEDS} seeds, after one step, at up to {RANDOM_SAMPLES} points: ten times what the"
            f" search through one step may look at. What no training reaches ({', '.join(OUT_OF_REACH)}) is searched with"
            f" {FEW_SEEDS} seeds, and counts as missed with all.",
            "Subnormal numbers are zero where the program's framework, TensorFlow, takes them for zero.",
        ),
    )


def _in_one_step(one: Json) -> bool:
    return one["how"] is not None and one["steps"] == 1


def _count(tries: Sequence[Json], is_counted: Callable[[Json], bool] = lambda one: one["how"] is not None) -> int:
    return sum(map(is_counted, tries))


def _row(case: str, result: Json) -> tuple[str, ...]:
    shares = [f"{_count(result[method])}/{len(result[method])}" for method in METHODS]
    times = [f"{statistics.mean(one['seconds'] for one in result[method]):.1f}" for method in METHODS]
    ways = Counter(_way(one) for one in result["full"] if one["how"])
    told = ", ".join(f"{way} {count}" for way, count in ways.most_common())
    return case, result["operator"], *shares, str(_count(result["full"], _in_one_step)), *times, told


def _way(one: Json) -> str:
    return one["how"] if one["steps"] == 1 else f"{one['how']} after {one['steps']} steps"
