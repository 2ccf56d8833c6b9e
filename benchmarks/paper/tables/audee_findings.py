"""AUDEE's table 3: what a small campaign finds, by backend and kind, each shown again by its script in a fresh process.

A case is a stretch of the plan that `tensorproof fuzz --seed 0` runs for networks of one dialect. Findings with one signature
(backend, layer, needed parameters, phase, symptom) in several cases are one finding.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from benchmarks.paper.table import Json, Section, Size
from benchmarks.timing import cpu_seconds
from tensorproof.cli.fuzz import DEFAULT_BACKENDS
from tensorproof.compare.catalogue import Plan, PlanOptions
from tensorproof.compare.fuzzing.campaign import CampaignOptions, CampaignResult, run_campaign
from tensorproof.compare.fuzzing.finding import CampaignFinding
from tensorproof.compare.spec import Dialect, TestSpec
from tensorproof.compare.workers.backend_id import BackendId

SEED = 0
#: Tests in a case; cases by dialect. Keras has more layers to try, but its frameworks take longer to start.
LENGTHS: dict[Dialect, int] = {"keras": 40, "onnx": 100}
COUNTS: dict[Dialect, int] = {"keras": 6, "onnx": 4}
_QUICK = "onnx 0 to 60"
KINDS = ("defect", "difference", "crash", "illegal")
#: Seconds after which a run counts as hung: far more than any takes, however busy the machine is.
_TIME_LIMIT = 900.0


def cases(size: Size) -> Sequence[str]:
    if size == "quick":
        return (_QUICK,)
    return tuple(
        f"{dialect} {number * length} to {(number + 1) * length}"
        for dialect, length in LENGTHS.items()
        for number in range(COUNTS[dialect])
    )


@dataclass(frozen=True)
class Stretch:
    """Some tests of a plan, counted from 0."""

    plan: Plan
    start: int

    def __getitem__(self, number: int) -> TestSpec:
        return self.plan[self.start + number]


def measured(case: str, size: Size) -> Json:
    started = cpu_seconds()
    dialect, first, _, end = case.split()
    keras = dialect == "keras"
    backends = tuple(BackendId.parse(name) for name in DEFAULT_BACKENDS if name.startswith("keras:") == keras)
    plan = Stretch(Plan(SEED, PlanOptions(dialects=(cast("Dialect", dialect),))), int(first))
    with tempfile.TemporaryDirectory() as folder:
        options = CampaignOptions(backends, SEED, tests=int(end) - int(first), folder=Path(folder), jobs=1, time_limit=_TIME_LIMIT)
        result = run_campaign(options, plan)
    return {
        **_counts(result),
        "findings": [_finding(entry, int(first)) for entry in result.findings],
        "seconds": cpu_seconds() - started,
    }


def _counts(result: CampaignResult) -> Json:
    return {
        "tests": result.tests,
        "runs": {name: int(count) for name, count in sorted(result.runs.items())},
        "discrepancies": result.discrepancies,
        "not reproduced": sorted(result.not_reproduced),
        "errors": list(result.errors),
        "missing": dict(result.missing),
    }


def _finding(entry: CampaignFinding, first: int) -> Json:
    discrepancy = entry.discrepancy
    return {
        "signature": entry.signature,
        "backend": discrepancy.culprit.name,
        "kind": "crash" if discrepancy.oracle == "death" else entry.kind,
        "oracle": discrepancy.oracle,
        "layer": entry.explanation.kind,
        "parameters": entry.arguments,
        "symptom": discrepancy.symptom,
        "test": first + entry.number,
    }


def section(results: Mapping[str, Json], size: Size) -> Section:
    results = {case: results[case] for case in cases(size) if case in results}
    distinct = {entry["signature"]: entry for result in reversed(results.values()) for entry in result["findings"]}
    findings = sorted(distinct.values(), key=lambda entry: (entry["backend"], KINDS.index(entry["kind"]), entry["layer"]))
    runs: dict[str, int] = {}
    for result in results.values():
        for name, count in result["runs"].items():
            runs[name] = runs.get(name, 0) + count
    rows = [_row(name, count, findings) for name, count in sorted(runs.items())]
    tests, discrepancies = (sum(result[name] for result in results.values()) for name in ("tests", "discrepancies"))
    lost = {signature for result in results.values() for signature in result["not reproduced"]} - distinct.keys()
    errors = [error for result in results.values() for error in result["errors"]]
    rows.append(("all", str(sum(runs.values())), *(str(_count(findings, kind)) for kind in KINDS), str(len(findings))))
    lines = [
        f"{tests} tests, {discrepancies} discrepancies, {len(findings)} distinct findings shown again by their script, "
        f"{len(lost)} that were not, {len(errors)} mistakes of tensorproof itself",
        *(f"{entry['backend']}, {entry['kind']}: {_told(entry)}" for entry in findings),
    ]
    figures: dict[str, float | int | str] = {"tests": tests, "discrepancies": discrepancies, "findings": len(findings)}
    figures |= {kind: _count(findings, kind) for kind in KINDS}
    figures |= {"not reproduced": len(lost), "errors": len(errors)}
    figures["seconds"] = sum(result["seconds"] for result in results.values())
    return Section(
        "AUDEE, table 3: distinct findings by backend and kind",
        ("backend", "runs", "defect", "difference", "crash", "illegal value accepted", "findings"),
        tuple(rows),
        tuple(lines),
        figures,
        paper=(
            "AUDEE: 26 bugs in Keras, TensorFlow, CNTK, Theano and PyTorch: 13 crashes, 8 NaN, 5 inconsistencies; 7 of them were "
            "confirmed or fixed. A bug of two frameworks counts twice.",
        ),
        setup=(
            "No list of known bugs is given, and nobody looked through the findings; those of another run are classed by hand in "
            "docs/fuzz_findings.md.",
            "Defect: the float64 reference, or the framework's own other word, says who is wrong; difference: nobody can say. "
            "A refusal of what others compute is a defect or a difference; AUDEE calls it a crash. Crash: the process died.",
            "Seeds and tests are fixed; which backend of a pair is named wrong may be a matter of majority.",
        ),
    )


def _row(backend: str, runs: int, findings: Sequence[Json]) -> tuple[str, ...]:
    own = [entry for entry in findings if entry["backend"] == backend]
    return backend, str(runs), *(str(_count(own, kind)) for kind in KINDS), str(len(own))


def _count(findings: Sequence[Json], kind: str) -> int:
    return sum(entry["kind"] == kind for entry in findings)


def _told(entry: Json) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in entry["parameters"].items())
    symptom = entry["symptom"] if len(entry["symptom"]) <= 90 else entry["symptom"][:87] + "..."
    return f"{entry['layer']}({arguments}), test {entry['test']}: {symptom}"
