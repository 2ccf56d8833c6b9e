"""RANUM's table of detection: whether a scan flags the known node of every bug, and stays silent on the repaired program.

Every program is scanned as an ONNX model, for the target that computes as its framework does, and the TensorFlow programs as the
training graphs that TensorFlow builds, too. Bugs of derivatives are looked for in the phase of training, and on a target that keeps
subnormal numbers as well: where they need subnormals to be flushed, they must be proven absent there.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import tensorproof
from benchmarks.paper.bugs import BOXES, all_bugs, box_options, is_of_grist
from benchmarks.paper.table import Json, Section, Size
from benchmarks.timing import cpu_seconds
from benchmarks.zoo import Bug, Entry, program
from benchmarks.zoo.reported import reported
from tensorproof.findings import Report


def cases(size: Size) -> Sequence[str]:
    return tuple(all_bugs(size))


def measured(case: str, size: Size) -> Json:
    entry, bug = all_bugs(size)[case]
    _import_everything()
    # A search for garbage among all that frameworks and earlier cases left takes as long as many scans, and is none of their work.
    gc.collect()
    gc.freeze()
    try:
        return _said_of(entry, bug)
    finally:
        gc.unfreeze()


def _said_of(entry: Entry, bug: Bug) -> Json:
    found: Json = {"operator": bug.operator, "phase": "forward" if bug.is_forward else "backward", "framework": entry.framework}
    found["onnx"], seconds = _scan(entry, bug)
    found["boxes"] = [box for box in BOXES if _scan(entry, bug, box)[0]["at the node"]]
    found["seconds"] = seconds
    if entry.framework == "tensorflow":
        found["graph"], found["seconds graph"] = _scan_graph(entry, bug)
    if not bug.is_forward:
        found["keeps subnormals"] = _scan(entry, bug, target="ieee")[0]
    twin = entry.safe
    found["twin"] = None if twin is None else _scan(twin, bug)[0]
    return found


@cache
def _import_everything() -> None:
    """A first scan imports what later ones find imported."""
    entry = program("3")
    _scan(entry, entry.bugs[0])


def _scan(entry: Entry, bug: Bug, box: str | None = None, **options: Any) -> tuple[Json, float]:
    """The scan of the ONNX form, with the entry's own ranges of weights or with a formula for them."""
    options = {"target": entry.target, "phase": _phase(bug), **box_options(entry, box), **options}
    proto = entry.onnx()
    started = cpu_seconds()
    report = tensorproof.check(proto, confirm=False, **options)
    return _said(report, bug), cpu_seconds() - started


def _scan_graph(entry: Entry, bug: Bug) -> tuple[Json, float]:
    """The scan of the graph that TensorFlow builds, with its gradients and its optimiser.

    An infinite quotient that a minimum caps is no defect of the values (11c), and one of the gradients.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = entry.tensorflow_file(Path(folder), training=True)
        started = cpu_seconds()
        report = tensorproof.check(path, ranges=entry.declarations().domains, confirm=False, phase="training")
        return _said(report, bug), cpu_seconds() - started


def _phase(bug: Bug) -> str:
    return "inference" if bug.is_forward else "training"


def _said(report: Report, bug: Bug) -> Json:
    """What a report says of the bug's node, and how many others it flags."""
    expected = "forward" if bug.is_forward else "backward"
    roots = [finding for finding in report.roots() if finding.rule.severity == "error"]
    here = [finding for finding in roots if finding.node == bug.node and finding.phase == expected]
    return {
        "at the node": sorted({finding.rule.code for finding in here}),
        "elsewhere": sorted({finding.node for finding in roots if finding.node != bug.node}),
        "proven": bug.node in report.proven_safe,
        "not analysed": len(report.coverage.not_analysed),
    }


def section(results: Mapping[str, Json], size: Size) -> Section:
    own = {case: result for case, result in results.items() if is_of_grist(case)}
    found = [case for case, result in own.items() if result["onnx"]["at the node"]]
    graphs = {case: result["graph"] for case, result in own.items() if "graph" in result}
    in_graphs = [case for case, said in graphs.items() if said["at the node"]]
    twins = {case: result["twin"] for case, result in own.items() if result["twin"] is not None}
    flagged = [case for case, said in twins.items() if said["at the node"]]
    kept = {case: result["keeps subnormals"] for case, result in own.items() if "keeps subnormals" in result}
    absent = [case for case, said in kept.items() if said["proven"]]
    seconds = [result["seconds"] for result in own.values()]
    lines = [
        f"{len(found)} of {len(own)} bugs flagged at their node, {statistics.mean(seconds):.2f} s CPU on average, "
        f"{max(seconds):.2f} s at most",
        f"as training graphs of TensorFlow: {len(in_graphs)} of {len(graphs)}",
        f"{len(twins)} repaired programs: {len(flagged)} flagged at the node",
        *(f"with the weights of {box!r}: {sum(box in result['boxes'] for result in own.values())} of {len(own)}" for box in BOXES),
        f"derivatives: {len(absent)} of {len(kept)} are proven absent where subnormals are kept ({', '.join(absent) or 'none'})",
        *(f"missed: {case}" for case in own if case not in found),
    ]
    figures: dict[str, float | int | str] = {"bugs": len(own), "found": len(found), "found in graphs": len(in_graphs)}
    figures |= {"graphs": len(graphs), "twins": len(twins), "twins flagged": len(flagged), "absent with subnormals": len(absent)}
    figures |= {f"found {box}": sum(box in result["boxes"] for result in own.values()) for box in BOXES}
    figures |= {"seconds mean": statistics.mean(seconds), "seconds most": max(seconds)}
    return Section(
        "RANUM, detection: the known node of every bug",
        (
            "bug",
            "operator",
            "phase",
            "rules",
            "graph",
            "weights that reach it",
            "others flagged",
            "twin",
            "CPU s",
            "DEBAR, by GRIST",
        ),
        tuple(_row(case, result) for case, result in results.items()),
        tuple(lines),
        figures,
        paper=(
            "RANUM reports 79 of 79 by its own count; as released, on the real graphs, it finds 47 of 78 forward defects. "
            "DEBAR finds 48 of the 79, by GRIST's count.",
        ),
        setup=(
            "Own weights: what a whole training may lead to, by program. A bug counts if its own node is flagged as a root, in the "
            "phase in which it fails.",
        ),
    )


def _row(case: str, result: Json) -> tuple[str, ...]:
    graph = " ".join(result["graph"]["at the node"]) or "missed" if "graph" in result else "-"
    twin = result["twin"]
    silent = "-" if twin is None else "flagged" if twin["at the node"] else "silent"
    return (
        case,
        result["operator"],
        result["phase"],
        " ".join(result["onnx"]["at the node"]) or "missed",
        graph,
        " ".join(("own", *result["boxes"])),
        str(len(result["onnx"]["elsewhere"])),
        silent,
        f"{result['seconds']:.2f}",
        "-" if case not in reported() else "found" if reported()[case].is_flagged_by_debar else "missed",
    )
