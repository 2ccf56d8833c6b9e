"""Interval preconditions for the zoo: how many of its defects they remove, imposed on inputs, on weights or on both.

Every success is a proof of the edited model by the scan. What it claims is run as well: points of the restricted box, and of the
whole one, go through the edited model in ONNX Runtime, and the node has to stay finite. Derivatives are run in the program's own
framework, on points of the restricted box.
"""

from __future__ import annotations

import json
import math
import statistics
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.failing_form import failing_point
from benchmarks.gradients import gradients_fail
from benchmarks.timing import cpu_seconds
from benchmarks.zoo import Bug, Entry
from benchmarks.zoo.entry import initial_weights
from tensorproof.assumptions import resolve
from tensorproof.checking import Analysis, analyse
from tensorproof.confirm.observing import domains_of, not_finite
from tensorproof.confirm.sampling import Point, points
from tensorproof.execute.instrument import prefix
from tensorproof.execute.runtime import Runtime
from tensorproof.preparing import Prepared
from tensorproof.repair.editing import Editor
from tensorproof.repair.preconditions import Impossible, Method, Open, Place, Precondition, Result, find_precondition

PLACES: tuple[Place, ...] = ("both", "weights", "inputs")
METHODS: tuple[Method, ...] = ("full", "elementwise", "gradient")
#: RANUM (ICSE 2023) on 79 bugs, six of them invalid derivatives: successes that it reports at each place; and those that its
#: artifact gives when it is run (of 79), with those of them that hold when the intervals are sampled.
RANUM = {"both": (79, 75, 50), "weights": (72, 67, 44), "inputs": (37, 32, 20)}
RANUM_SECONDS = 54
#: Points of the restricted box that are run for a success, and numbers that all of them together may have.
POINTS, NUMBERS = 1000, 100_000_000
FEWEST_POINTS = 22
#: Inputs that a derivative which fails is run with, and numbers that are tried for a matrix.
ELSEWHERE, NUMBERS_TRIED = 100, 401
_INTERVALS = Path(__file__).parent / "zoo" / "ranum_intervals.json"


@dataclass(frozen=True, slots=True)
class Row:
    """One search: what it found, CPU seconds, and for a success the points that were run and those that failed."""

    result: Result
    seconds: float
    points: int = 0
    failing: int = 0
    #: Whether runs of the framework showed that no interval helps, where the search itself cannot run the derivative.
    refuted: bool = False

    @property
    def word(self) -> str:
        if self.refuted:
            return "impossible"
        return {Precondition: "fixed", Impossible: "impossible", Open: "open"}[type(self.result)]


def run(
    entry: Entry, bug: Bug, at: Place, method: Method, seed: int, most: int, runtime: Runtime, declared: Mapping[str, Any]
) -> Row | None:
    """Search intervals for the node of a bug; the search knows the model and what is declared, and nothing else of the entry.

    `runtime` is where the points are run afterwards; the search has its own, whose start counts. None if nothing is found at the
    node under what is declared.
    """
    options = {} if bug.is_forward else {"phase": "training", "target": entry.target}
    prepared = Prepared.of(entry.onnx(), cache=False, **declared, **options)
    (assumptions, *_), _ = resolve(prepared.graph, prepared.declared)
    analysis = analyse(prepared.graph, assumptions, prepared.target, effort=0, phase=prepared.phase)
    findings = [finding for finding in analysis.findings if finding.node == bug.node and finding.rule.severity == "error"]
    if not findings:
        return None
    started = cpu_seconds()
    result = find_precondition(prepared, findings, at, method=method, seed=seed)
    row = Row(result, cpu_seconds() - started)
    if isinstance(result, Precondition):
        if bug.is_forward:
            ran = list(_failures(prepared, analysis, result, bug, seed, most, runtime))
        else:
            restricted = replace(analysis, assumptions=result.assumptions(analysis.assumptions))
            ran = list(map(gradients_fail(entry), _points(prepared, restricted, seed, most)))
        return replace(row, points=len(ran), failing=sum(ran))
    if not bug.is_forward and method == "full":
        return replace(row, refuted=_is_refuted(entry, bug, prepared, analysis, at, seed))
    return row


def _is_refuted(entry: Entry, bug: Bug, prepared: Prepared, analysis: Analysis, at: Place, seed: int) -> bool:
    """Whether a derivative fails, for some value of what is not restricted, with every value of the others that was tried.

    What the program draws is not restricted: without noise the derivative is a product with zero, and nobody trains so.
    """
    domains = domains_of(prepared.graph, analysis)
    fails = gradients_fail(entry)
    if at == "weights" and not entry.weights:
        with tempfile.TemporaryDirectory() as folder:
            return failing_point(entry, bug, Path(folder), seed) is not None
    if at != "inputs":
        return False
    given = {name: domains[name] for name, known in entry.inputs.items() if known.role != "random"}
    drawn = {name: array for name, array in entry.plain_inputs(seed).items() if name not in given}
    elsewhere = [{**drawn, **point} for point in points(seed, given, ELSEWHERE)]
    forgetful = (weights for weights in _forgetful_networks(entry) if fails({**weights, **elsewhere[0]}))
    return any(all(fails({**weights, **point}) for point in elsewhere) for weights in forgetful)


def _forgetful_networks(entry: Entry) -> Iterator[Point]:
    """Weights under which a network forgets its inputs: its first matrix is zero, and a later one the same number everywhere."""
    initial = initial_weights(entry.recording(), 0)
    first, *others = [name for name, array in initial.items() if array.ndim == 2]
    for name in others:
        for number in np.linspace(*entry.weights[name].range, NUMBERS_TRIED, dtype=np.float32):
            yield {**initial, first: np.zeros_like(initial[first]), name: np.full_like(initial[name], number)}


def _failures(
    prepared: Prepared, analysis: Analysis, found: Precondition, bug: Bug, seed: int, most: int, runtime: Runtime
) -> Iterator[bool]:
    """For point after point, whether the node of the edited model gives NaN or infinity."""
    editor = Editor(prepared.graph, prepared.proto)
    found.edit(editor)
    edited = editor.finish()
    free = [prepared.graph.name_of(number) for number in analysis.assumptions.weights]
    (node,) = [node for node in prepared.graph.graph.nodes if node.name == bug.node]
    results = [prepared.graph.name_of(number) for number in node.outputs if number >= 0]
    restricted = replace(analysis, assumptions=found.assumptions(analysis.assumptions))
    session = runtime.session(prefix(edited, results, free))
    for point in chain(_points(prepared, restricted, seed, most), _points(prepared, analysis, seed, most // 10)):
        yield any(map(not_finite, session.run(point)))
    session.close()


def _points(prepared: Prepared, analysis: Analysis, seed: int, most: int) -> Iterator[Point]:
    domains = domains_of(prepared.graph, analysis)
    size = sum(math.prod(shape) for _, shape, _ in domains.values())
    return points(seed, domains, min(most, max(FEWEST_POINTS, NUMBERS // max(size, 1))))


def widths_against_ranum(bug: Bug, found: Precondition) -> float | None:
    """The geometric mean of ours / RANUM's width over the sites that both have, within the ranges that are declared here.

    None where RANUM's intervals are not comparable: single numbers, or outside of these ranges.
    """
    theirs: dict[str, list[float]] = json.loads(_INTERVALS.read_text("utf-8")).get(bug.letter, {})
    ratios: list[float] = []
    for site, (low, high) in zip(found.sites, found.box, strict=True):
        if site.name not in theirs:
            continue
        first, last = (np.clip(end, *site.whole) for end in theirs[site.name])
        other, own = float(np.mean(last - first)), float(np.mean(high - low))
        if other <= 0 or own <= 0:
            return None
        ratios.append(own / other)
    return statistics.geometric_mean(ratios) if ratios else None
