"""DEBAR's first table in kind: what each abstraction says of the operations of architectures that can fail.

Subjects are the architectures of `benchmarks.architectures`, as the graphs of TensorFlow that they are, and the programs of GRIST
in their ONNX form. A warning about an operation that can fail is true, about one that cannot it is false; accuracy is the share of
operations that are classified rightly. An operation that is not analysed counts as warned of.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.architectures import Architecture, architecture, architectures
from benchmarks.paper.table import Json, Section, Size
from benchmarks.zoo import Entry, program, programs
from tensorproof.assumptions import Declarations, Domain, resolve
from tensorproof.checking import Analysis, analyse
from tensorproof.formats import FLOAT32
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.graph import Model
from tensorproof.ranges.abstraction import EXPANDED_CELLS, FIRST_PASS, Abstraction, chosen
from tensorproof.refine.alarms import elements
from tensorproof.refine.driver import DEFAULT_EFFORT
from tensorproof.targets import ONNXRUNTIME_CPU, Target

#: Runs that try to refute what is said to be safe, within the box of the initialisers and within each wider one.
RUNS = {"full": (1000, 300), "quick": (100, 30)}

QUICK = (
    "box_coder",
    "hidden_markov_model",
    "minimax_game",
    "turing_machine",
    "super_resolution",
    "wave_forms",
    "grist 3",
    "grist 35b",
)

#: DEBAR's kinds, by ONNX's names.
_ONNX_KINDS = frozenset({"Log", "Exp", "Div", "Sqrt", "Reciprocal", "Pow"})
_GRIST = "grist "
_ANY = Domain("box", FLOAT32.low, FLOAT32.high)


@dataclass(frozen=True, slots=True)
class Configuration:
    """How operations are looked at: the abstraction, the effort, the box of weights, and what is left without a range."""

    name: str
    abstraction: Abstraction = FIRST_PASS
    effort: int = DEFAULT_EFFORT
    weights: str = "debar"
    free_inputs: bool = False
    free_weights: bool = False


#: DEBAR's own means: neither idioms nor norms, one pass. Then ours, in several boxes, and without ranges.
_OWN = tuple(
    Configuration(f"{tensors}, {values}", replace(chosen(tensors, values), idioms=False, norms=False), effort=0)
    for tensors in ("smash", "partition", "expand")
    for values in ("interval", "affine")
)
_DEFAULT = "default"
CONFIGURATIONS = (
    *_OWN,
    Configuration(_DEFAULT),
    Configuration("default, no ranges of inputs", free_inputs=True),
    Configuration("default, no ranges of weights", free_weights=True),
    Configuration("default, weights of init", weights="init"),
    Configuration("default, weights of ranum", weights="ranum"),
)


def cases(size: Size) -> Sequence[str]:
    if size == "quick":
        return QUICK
    return (*(entry.name for entry in architectures()), *(_GRIST + entry.id for entry in programs()))


def measured(case: str, size: Size) -> Json:
    if case.startswith(_GRIST):
        return _of_program(program(case.removeprefix(_GRIST)))
    return _of_architecture(architecture(case), *RUNS[size])


# -- architectures -------------------------------------------------------------------------------------------------------


def _of_architecture(entry: Architecture, runs: int, runs_in_wider: int) -> Json:
    from benchmarks.architectures.running import BOXES, Running, is_true

    forms: Json = {}
    for form in entry.forms:
        with Running(entry, form) as running:
            prepared = running.prepared()
            truth: Json = {}
            refuted: list[str] = []
            for weights, count in zip(BOXES, (runs, runs_in_wider, runs_in_wider)):
                box = running.box(prepared, weights)
                truth[weights] = {name: is_true(running.fact(name), running, box) for name in running.operations}
                refuted += running.refuted(box, weights, count)
        framework: Any = prepared.framework
        # Nodes of loops have the name of the loop before their own.
        names = {ours: origin.rpartition(".body.")[2] for ours, origin in framework.found.origins.items()}
        graph, declared, target = prepared.graph, prepared.declared, prepared.target
        forms[form] = {
            "truth": truth,
            "refuted": refuted,
            "unlabelled": 0,
            "scans": {scan.name: _scanned(graph, declared, scan, target, names) for scan in CONFIGURATIONS},
        }
    return {"family": entry.family, "title": entry.title, "forms": forms}


# -- programs of GRIST -----------------------------------------------------------------------------------------------------


def _of_program(entry: Entry) -> Json:
    forms: Json = {}
    twin = entry.safe
    for form, described in (("defective", entry), *([] if twin is None else [("fixed", twin)])):
        model = from_proto(described.onnx())
        kinds = {node.name for node in model.graph.walk() if node.op in _ONNX_KINDS and not node.domain}
        truth = {name: fails for name, fails in _labels(entry, form) if name in kinds}
        forms[form] = {
            "truth": {"debar": truth},
            "refuted": [],
            "unlabelled": len(kinds) - len(truth),
            "scans": {
                scan.name: _scanned(model, described.declarations(), scan, ONNXRUNTIME_CPU, {})
                for scan in CONFIGURATIONS
                if scan.weights == "debar"
            },
        }
    return {"family": entry.family, "title": entry.project, "forms": forms}


def _labels(entry: Entry, form: str) -> Iterator[tuple[str, bool]]:
    """What the entry says of nodes: those with a bug of the forward pass fail, and do not in the twin unless it says so."""
    for bug in entry.bugs:
        if form == "fixed" and entry.repair is not None and entry.repair.remains:
            continue
        yield from ((name, form == "defective" and bug.is_forward) for name in (bug.node, *bug.also))


# -- scans -----------------------------------------------------------------------------------------------------------------


def _scanned(model: Model, declared: Declarations, scan: Configuration, target: Target, names: Mapping[str, str]) -> Json:
    """The operations that are warned of, by the names of the framework; `out` says that a tensor is too large to be expanded."""
    started = time.process_time()
    (assumptions, *_), _ = resolve(model, replace(declared, weights=scan.weights))
    if scan.free_inputs:
        assumptions = replace(assumptions, inputs={n: _freed(model, n, domain) for n, domain in assumptions.inputs.items()})
    if scan.free_weights:
        assumptions = replace(assumptions, weights={n: _freed(model, n, domain) for n, domain in assumptions.weights.items()})
    analysis = analyse(model, assumptions, target, effort=scan.effort, abstraction=scan.abstraction)
    seconds = time.process_time() - started
    sizes = [elements(summary.shape) for summary in analysis.summaries.values()]
    is_too_large = any(EXPANDED_CELLS < size < math.inf for size in sizes)
    return {
        "warned": sorted({names.get(name, name) for name in _warned(analysis)}),
        "out": scan.abstraction.tensors == "expand" and is_too_large,
        "seconds": seconds,
    }


def _warned(analysis: Analysis) -> Iterator[str]:
    """What fails by itself, not what merely follows from it; and what is not analysed."""
    for finding in analysis.findings:
        if finding.rule.severity == "error" and finding.phase == "forward" and not finding.consequence_of:
            yield finding.node
    yield from (unknown.node for unknown in analysis.coverage.not_analysed)


def _freed(model: Model, number: int, domain: Domain) -> Domain:
    """Any number of float32, where the value is one; what picks classes and words stays within its range."""
    format = model.values[number].format
    return domain if format is not None and not format.is_float else _ANY


# -- the table ---------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Count:
    """What one configuration says of some operations; `out` are graphs that it cannot be tried on."""

    operations: int = 0
    warnings: int = 0
    true: int = 0
    missed: int = 0
    out: int = 0
    seconds: float = 0.0

    @property
    def false(self) -> int:
        return self.warnings - self.true

    @property
    def accuracy(self) -> float:
        return 100.0 * (self.operations - self.false - self.missed) / self.operations if self.operations else 0.0

    def add(self, truth: Mapping[str, bool], scan: Json) -> None:
        if scan["out"]:
            self.out += 1
            return
        warned = set(scan["warned"]) & set(truth)
        self.operations += len(truth)
        self.warnings += len(warned)
        self.true += sum(truth[name] for name in warned)
        self.missed += sum(fails and name not in warned for name, fails in truth.items())
        self.seconds += scan["seconds"]


def _graphs(results: Mapping[str, Json], of_grist: bool) -> Iterator[tuple[str, str, Json]]:
    for case, result in results.items():
        if case.startswith(_GRIST) == of_grist:
            yield from ((case, form, found) for form, found in result["forms"].items())


def section(results: Mapping[str, Json], size: Size) -> Section:
    rows: list[tuple[str, ...]] = []
    figures: dict[str, float | int | str] = {}
    for subjects, of_grist in (("architectures", False), ("programs of GRIST", True)):
        graphs = list(_graphs(results, of_grist))
        figures[f"{subjects}"] = len({case for case, _, _ in graphs})
        figures[f"graphs of {subjects}"] = len(graphs)
        for scan in CONFIGURATIONS:
            count = Count()
            for _, _, found in graphs:
                if scan.name in found["scans"]:
                    count.add(found["truth"][scan.weights], found["scans"][scan.name])
            if count.operations:
                rows.append(_row(subjects, scan.name, count))
                figures |= _figures(f"{subjects}, {scan.name}", count)
    refuted = [text for _, _, found in _graphs(results, False) for text in found["refuted"]]
    unlabelled = sum(found["unlabelled"] for _, _, found in _graphs(results, True))
    figures |= {"refuted facts": len(refuted), "operations of GRIST's programs without a label": unlabelled}
    return Section(
        "DEBAR's abstractions: warnings on operations that can fail",
        ("subjects", "configuration", "operations", "warnings", "true", "false", "missed", "accuracy", "out", "CPU s"),
        tuple(rows),
        (*_told(figures), *refuted, *_wrong(results)),
        figures,
        paper=(
            "DEBAR (ESEC/FSE 2020), on 9 architectures with known bugs: all found, no false alarm, 1.7 to 2.3 seconds each.",
            "On 48 architectures of research projects: 529 warnings, 299 of them true, 2.6 to 135.4 seconds each.",
            "DEBAR, which is partitioning with affine relations, was more accurate than the other combinations.",
        ),
        setup=(
            "The architectures are of the same kinds, rebuilt small, most of them beside a repaired twin. That an operation fails "
            f"was seen in TensorFlow; that it does not is an argument that {RUNS[size][0]} runs and more did not refute.",
            "An operation fails where its operands are finite, its result is not, and nothing before it failed; what merely "
            "follows from another warning is none.",
            "The first six configurations are DEBAR's means in our propagation: no idioms, no norms, one pass, and without its "
            "splitting of ranges at 0. They have the rounding, the operators and the loops of this tool, which DEBAR has not.",
            "Weights have the range of their initialiser (zeros: -1 to 1), as DEBAR takes them, or the wider ones of init and "
            "ranum, where facts are judged anew. Without ranges, inputs or weights are any number; facts are those with ranges.",
            "Of GRIST's programs, operations without a label are left out; their weights have RANUM's ranges.",
            f"Out: a tensor of more than {EXPANDED_CELLS} elements is not expanded.",
        ),
    )


def _row(subjects: str, name: str, count: Count) -> tuple[str, ...]:
    numbers = count.operations, count.warnings, count.true, count.false, count.missed
    return subjects, name, *map(str, numbers), f"{count.accuracy:.1f} %", str(count.out), f"{count.seconds:.1f}"


def _told(figures: Mapping[str, float | int | str]) -> Iterator[str]:
    """What the tool says of the architectures, and what DEBAR's means do."""
    for name, word in (
        ("default", "as the tool runs"),
        ("partition, affine", "with DEBAR's partitions and affine relations alone"),
    ):
        known = {key.rpartition(": ")[2]: value for key, value in figures.items() if key.startswith(f"architectures, {name}: ")}
        if known:
            yield (
                f"{word}: {known['true']} of {int(known['true']) + int(known['missed'])} operations that fail are warned of, "
                f"{known['false']} warnings are false, {known['accuracy']} % of {known['operations']} operations are told right"
            )


def _figures(name: str, count: Count) -> dict[str, float | int | str]:
    found = {"operations": count.operations, "warnings": count.warnings, "true": count.true, "false": count.false}
    found |= {"missed": count.missed, "out": count.out}
    return {f"{name}: {key}": value for key, value in found.items()} | {f"{name}: accuracy": round(count.accuracy, 1)}


def _wrong(results: Mapping[str, Json]) -> Iterator[str]:
    """What the default configuration says wrongly, graph by graph."""
    for case, result in results.items():
        for form, found in result["forms"].items():
            truth, warned = found["truth"]["debar"], found["scans"][_DEFAULT]["warned"]
            false = [name for name, fails in truth.items() if not fails and name in warned]
            missed = [name for name, fails in truth.items() if fails and name not in warned]
            if false:
                yield f"{case} ({form}): false alarms at {', '.join(sorted(false))}"
            if missed:
                yield f"{case} ({form}): missed {', '.join(sorted(missed))}"
