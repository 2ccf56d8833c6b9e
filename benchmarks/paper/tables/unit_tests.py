"""RANUM's table I: how often a search finds an input and weights that make the known node fail in the real runtime.

The search knows the model and the ranges, and nothing else of the program. A run counts if the runtime shows the node failing. The
baselines may look at ten times as many points as the search may, as far as `NUMBERS` numbers in all allow it. The search also runs
once with the weights of each formula of the tools, in place of those that a training may lead to.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import tensorproof
from benchmarks.failing_form import failing_form, is_shown_by
from benchmarks.paper.bugs import BOXES, box_options, few_bugs, is_of_grist, numbers, seeds
from benchmarks.paper.table import Json, Section, Size
from benchmarks.timing import cpu_seconds
from benchmarks.zoo import Bug, Entry

#: Ours; one descent from one random start (GRIST's search, RANUM's baseline "Gradient"); samples of a uniform distribution alone.
METHODS = ("full", "gradient", "uniform")
_WORDS = {"full": "ours", "gradient": "gradient", "uniform": "random"}
EVALUATIONS = 600
#: Numbers that all points of one baseline run may have together: 10 to 60 CPU seconds for programs that are never found.
NUMBERS = 500_000_000


def cases(size: Size) -> Sequence[str]:
    return tuple(few_bugs(size))


def measured(case: str, size: Size) -> Json:
    entry, bug = few_bugs(size)[case]
    found = {method: [searched(entry, bug, method, seed, size) for seed in seeds(size)] for method in METHODS}
    boxes = {box: searched(entry, bug, "full", 0, size, box)["found"] for box in BOXES} if bug.is_forward and entry.weights else {}
    return {"operator": bug.operator, "nodes": len(entry.onnx().graph.node), "boxes": boxes, **found}


def searched(entry: Entry, bug: Bug, method: str, seed: int, size: Size, box: str | None = None) -> Json:
    """One run."""
    evaluations = EVALUATIONS
    if method != "full" and size == "full":
        evaluations = max(EVALUATIONS, min(10 * EVALUATIONS, NUMBERS // numbers(entry)))
    with tempfile.TemporaryDirectory() as folder:
        model, options = failing_form(entry, bug, Path(folder))
        started = cpu_seconds()
        report = tensorproof.find_witnesses(
            model,
            seed=seed,
            method=method,
            evaluations=evaluations,
            shrink=False,
            **box_options(entry, box),
            **options,
        )
        seconds = cpu_seconds() - started
    return {"found": any(is_shown_by(bug, finding) for finding in report.confirmed), "seconds": seconds}


def section(results: Mapping[str, Json], size: Size) -> Section:
    rows = tuple(_row(case, result) for case, result in results.items())
    own = {case: result for case, result in results.items() if is_of_grist(case)}
    runs = len(own) * len(seeds(size))
    totals = {method: sum(run["found"] for result in own.values() for run in result[method]) for method in METHODS}
    times = {method: [run["seconds"] for result in own.values() for run in result[method]] for method in METHODS}
    lines = tuple(
        f"{_WORDS[method]}: {totals[method]} of {runs} runs, {statistics.mean(times[method]):.2f} s CPU on average"
        for method in METHODS
    )
    boxed = [result["boxes"] for result in own.values() if result["boxes"]]
    lines += tuple(
        f"ours, with the weights of {box!r}: {sum(one[box] for one in boxed)} of {len(boxed)} bugs of values, one run each"
        for box in BOXES
    )
    figures: dict[str, float | int | str] = {"bugs": len(own), "runs": runs, "boxed": len(boxed)}
    figures |= {f"found {box}": sum(one[box] for one in boxed) for box in BOXES}
    for method in METHODS:
        figures |= {f"{_WORDS[method]} found": totals[method], f"{_WORDS[method]} seconds": statistics.mean(times[method])}
    return Section(
        "RANUM, table I: unit tests confirmed in the runtime, and CPU seconds per run",
        ("bug", "operator", "nodes", *(_WORDS[m] for m in METHODS), *(f"{_WORDS[m]} s" for m in METHODS), "weights that reach it"),
        rows,
        lines,
        figures,
        paper=("RANUM finds 790 of 790 unit tests at 6.66 s on average; GRIST 766 of 790 at 115 s.",),
        setup=(
            "RANUM confirms in its own model of the program, in float64; here a run counts if the real runtime fails at the node.",
            "Weights and inputs are those that a whole training may meet; seconds include the scan and the replay.",
            "Derivatives are run in the program's own framework, whose start counts: TensorFlow's takes seconds.",
        ),
    )


def _row(case: str, result: Json) -> tuple[str, ...]:
    shares = [f"{sum(run['found'] for run in result[method])}/{len(result[method])}" for method in METHODS]
    times = [f"{statistics.mean(run['seconds'] for run in result[method]):.2f}" for method in METHODS]
    reached = " ".join(("own", *(box for box, found in result["boxes"].items() if found)))
    return case, result["operator"], str(result["nodes"]), *shares, *times, reached
