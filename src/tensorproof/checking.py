"""`check`: the main job. Ranges, rules and quick confirmation of one model, as one report."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tensorproof.assumptions import Assumptions, Declarations, resolve
from tensorproof.collector import patient_collector
from tensorproof.errors import ModelError
from tensorproof.findings import Coverage, Finding, Report, TrailStep, Unanalysed, Verdict
from tensorproof.formats import FLOAT32, Format
from tensorproof.graph import ABSENT, Model, Node
from tensorproof.model_map import kept, location_of
from tensorproof.operators.table import RESULT, Hazard, find_operator
from tensorproof.ranges.abstraction import FIRST_PASS, Abstraction
from tensorproof.ranges.containers import Abstract, OptionalOf, SequenceOf
from tensorproof.ranges.costs import Costs
from tensorproof.ranges.costs import current as current_costs
from tensorproof.ranges.differentiable import NO_PATHS, differentiable_paths
from tensorproof.ranges.flow import Flow, Roots
from tensorproof.ranges.grid import Span
from tensorproof.ranges.preparation import exact_constant, is_known, prepare
from tensorproof.ranges.range import NAN, Range
from tensorproof.ranges.records import RangedGraph, Record, Summary
from tensorproof.ranges.weights import is_large, survey
from tensorproof.refine.alarms import elements
from tensorproof.refine.driver import DEFAULT_EFFORT, EFFORTS, propagate_refined
from tensorproof.rules.constant_not_finite import CONSTANT_NOT_FINITE
from tensorproof.rules.constant_overflow import CONSTANT_OVERFLOW
from tensorproof.rules.rule import Rule
from tensorproof.rules.vanished_constant import VANISHED_CONSTANT
from tensorproof.targets import Target

#: A trail shows at most this many steps, the nearest to the finding: they explain best.
TRAIL_STEPS = 8

#: What a model is checked for: `training` looks at derivatives, too.
ModelPhase = Literal["inference", "training"]


@dataclass(frozen=True, slots=True)
class Analysis:
    """The static part of a check: findings that are possible, proofs and coverage, under one set of assumptions."""

    assumptions: Assumptions
    findings: tuple[Finding, ...]
    proven_safe: tuple[str, ...]
    proven_safe_if: Mapping[str, tuple[str, ...]]
    coverage: Coverage
    summaries: Mapping[int, Summary]
    #: The nodes that the first pass alarmed on and a refinement proved, with the step that did.
    proven_by: Mapping[str, str] = field(default_factory=dict[str, str])
    #: What all passes so far cost, if that is being collected (`tensorproof.ranges.costs`).
    costs: Costs | None = None


def analyse(
    model: Model,
    assumptions: Assumptions,
    target: Target,
    *,
    effort: int = DEFAULT_EFFORT,
    abstraction: Abstraction = FIRST_PASS,
    progress: Callable[[str, int], None] | None = None,
    phase: ModelPhase = "inference",
    trainable: Collection[int] | None = None,
) -> Analysis:
    """Propagate ranges and collect what they prove. Nothing is executed.

    The first pass has the precision of `abstraction`; `effort` says how far what still alarms is refined. In the phase
    `training` derivatives are looked at, too, on the paths from `trainable` values (by number; by default the floating weights,
    or the floating inputs of a model without weights) to the outputs.
    """
    constants = ConstantRanges(model, assumptions)
    inputs = input_values(model, assumptions)
    paths = differentiable_paths(model, trainable) if phase == "training" else NO_PATHS
    with patient_collector():
        prepare(model)
        ranged, proven_by = propagate_refined(
            model, inputs, target, constants=constants, abstraction=abstraction, effort=effort, progress=progress, paths=paths
        )
        analysis = _Collector(ranged, assumptions, constants).collect()
    if not proven_by:
        return analysis
    names = {node.number: node.name for node in model.graph.walk()}
    return replace(analysis, proven_by={names[number]: step for number, step in proven_by.items()})


def check(
    model: Model,
    declared: Declarations,
    target: Target,
    *,
    precision: str | None = None,
    effort: int = DEFAULT_EFFORT,
    abstraction: Abstraction = FIRST_PASS,
    confirm: Callable[[Model, Analysis], Iterable[Finding]] | None = None,
    progress: Callable[[str, int], None] | None = None,
    insist: bool = False,
    phase: ModelPhase = "inference",
    trainable: Collection[int] | None = None,
    model_map: bool | None = None,
) -> Report:
    """Check one model under every declared combination of dimension sizes.

    `confirm` turns possible findings into confirmed ones where it can (`tensorproof.confirm.quick`); without it the report
    is static. With `insist`, what it leaves possible is looked at again with the highest effort. `phase` and `trainable` are
    those of `analyse`. With `model_map`, the report keeps what a map of the model is made from; with None, if the model is small.
    """

    def analysed(assumptions: Assumptions, effort: int) -> Analysis:
        return analyse(
            model,
            assumptions,
            target,
            effort=effort,
            abstraction=abstraction,
            progress=progress,
            phase=phase,
            trainable=trainable,
        )

    started = time.perf_counter()
    combinations, remarks = resolve(model, declared)
    analyses = [analysed(assumptions, effort) for assumptions in combinations]
    scanned = time.perf_counter()
    found: list[tuple[Finding, ...]] = []
    for index, analysis in enumerate(analyses):
        findings = analysis.findings
        if confirm is not None:
            findings = tuple(confirm(model, analysis))
        if insist and effort < EFFORTS[-1] and any(_is_open(finding) for finding in findings):
            analyses[index] = stronger = analysed(analysis.assumptions, EFFORTS[-1])
            left = {(f.rule.code, f.node, f.operand) for f in stronger.findings}
            findings = tuple(f for f in findings if not _is_open(f) or (f.rule.code, f.node, f.operand) in left)
        found.append(findings)
    merged = _merge_findings(found)
    last = analyses[-1]
    unsafe = {f.node for f in merged}
    safe_sets = [set(a.proven_safe) for a in analyses]
    safe = [name for name in last.proven_safe if all(name in s for s in safe_sets)]
    conditional: dict[str, tuple[str, ...]] = {}
    for analysis in analyses:
        for name, roots in analysis.proven_safe_if.items():
            if name not in unsafe:
                conditional[name] = tuple(sorted({*conditional.get(name, ()), *roots}))
    not_analysed = {u.node: u for a in analyses for u in a.coverage.not_analysed}
    coverage = replace(
        last.coverage,
        checked=min(a.coverage.checked for a in analyses),
        not_analysed=tuple(not_analysed.values()),
        remarks=(*last.coverage.remarks, *remarks),
    )
    stated = last.assumptions.to_json(model)
    stated["dimensions"] = {name: sorted({a.assumptions.sizes[name] for a in analyses}) for name in last.assumptions.sizes}
    stated["target"] = f"{target.name}: {target.description}"
    stated["abstraction"] = described(abstraction, effort, last.summaries)
    failing = {f.node for f in merged if not f.consequence_of and f.rule.severity == "error"}
    proven_by = {name: step for a in analyses for name, step in a.proven_by.items() if name not in failing}
    return Report(
        model=model.name,
        target=target.name,
        precision=precision,
        assumptions=stated,
        coverage=coverage,
        findings=merged,
        proven_safe=tuple(name for name in safe if name not in conditional),
        proven_safe_if=conditional,
        proven_by=proven_by,
        times={"ranges": scanned - started, "confirm": time.perf_counter() - scanned},
        analysed=kept(model, [a.summaries for a in analyses], merged, model_map),
    )


def _is_open(finding: Finding) -> bool:
    return finding.verdict is Verdict.POSSIBLE and finding.rule.severity == "error"


def _merge_findings(found: Iterable[tuple[Finding, ...]]) -> tuple[Finding, ...]:
    """One finding per rule and node over all sizes; confirmed ones win, then the ones that came closest."""
    best: dict[tuple[str, str, str], Finding] = {}
    for findings in found:
        for finding in findings:
            key = finding.rule.code, finding.node, finding.operand
            other = best.get(key)
            if other is None or finding.closeness() > other.closeness():
                best[key] = finding
    ranked = sorted(best.values(), key=lambda f: (bool(f.consequence_of), f.is_note, -f.closeness()))
    return tuple(ranked)


class ConstantRanges:
    """Ranges of constants on first use: exact, or the declared range of a weight; NaN is a root of its own."""

    def __init__(self, model: Model, assumptions: Assumptions) -> None:
        self.model = model
        self.assumptions = assumptions
        self.nan_roots: dict[int, int] = {}
        self._products: dict[int, tuple[int, ...]] | None = None

    def __call__(self, number: int) -> Flow:
        value = self.model.values[number]
        array = self.model.constants.get(number)
        if array is None:
            raise ModelError(f"{self.model.name}: value {value.name!r} is read before it is produced")
        domain = self.assumptions.weights.get(number)
        if domain is not None and value.format is not None:
            return Flow.of(domain.range(array.shape, value.format))
        if not is_known(self.model, number) and is_large(array):
            self._survey(number, array)
        flow = exact_constant(self.model, number)
        exact = flow.clean
        assert isinstance(exact, Range)
        if not exact.any_special & NAN:
            return flow
        # Roots are node numbers; a constant's root is a negative number, so that the two never meet.
        root = self.nan_roots.setdefault(number, -1 - number)
        clean = exact.replace(exact.low, exact.high, exact.special & np.uint8(~NAN & 0xFF))
        empty = (clean.low > clean.high) & (clean.special == 0)
        clean = clean.replace(np.where(empty, 0.0, clean.low), np.where(empty, 0.0, clean.high), clean.special)
        return Flow(clean, exact, frozenset({root}))

    def _survey(self, number: int, array: npt.NDArray[Any]) -> None:
        """One pass over the weights of a product, for all that will be asked of them."""
        if self._products is None:
            self._products = dict(_weights_of_products(self.model))
        if number in self._products:
            survey(array, self._products[number])


def _weights_of_products(model: Model) -> Iterable[tuple[int, tuple[int, ...]]]:
    """The constants that products use as they are or transposed, with the axes that they are summed over."""
    turned: dict[int, tuple[int, list[int]]] = {}
    for node in model.graph.walk():
        entry = find_operator(node.domain, node.op)
        if node.op == "Transpose" and len(node.inputs) == len(node.outputs) == 1 and node.inputs[0] in model.constants:
            rank = model.constants[node.inputs[0]].ndim
            order = node.attributes.get("perm", list(reversed(range(rank))))
            if sorted(order) == list(range(rank)):
                turned[node.outputs[0]] = node.inputs[0], order
        if entry is None or entry.weight_axes is None:
            continue
        for operand, number in enumerate(node.inputs):
            constant, order = turned.get(number, (number, None))
            if constant in model.constants:
                axes = entry.weight_axes(node.attributes, operand, model.constants[constant].ndim)
                if axes:
                    yield constant, axes if order is None else tuple(order[axis] for axis in axes)


class _Collector:
    """Findings, proofs and coverage out of the records of a propagation."""

    def __init__(self, ranged: RangedGraph, assumptions: Assumptions, constants: ConstantRanges) -> None:
        self.ranged = ranged
        self.model = ranged.model
        self.assumptions = assumptions
        self.constants = constants
        self.nodes = {node.number: node for node in self.model.graph.walk()}
        self.producers = {n: node for node in self.nodes.values() for n in node.outputs if n != ABSENT}
        # Nodes one after the other mostly have the same roots.
        self._root_names: dict[Roots, tuple[str, ...]] = {}

    def collect(self) -> Analysis:
        findings: list[Finding] = list(self.constant_findings())
        safe: list[str] = []
        safe_if: dict[str, tuple[str, ...]] = {}
        unanalysed: list[Unanalysed] = []
        checkable = checked = 0
        for record in self.ranged.records.values():
            node = record.node
            if record.not_analysed is not None:
                unanalysed.append(Unanalysed(node.name, node.label, record.not_analysed))
            if not record.checkable:
                continue
            checkable += 1
            if record.not_analysed is not None:
                continue
            checked += 1
            own = list(self.findings_of(record))
            findings.extend(own)
            if any(f.rule.severity == "error" for f in own):
                continue
            if record.roots:
                safe_if[node.name] = self.root_names(record.roots)
            else:
                safe.append(node.name)
        coverage = Coverage(len(self.nodes), checkable, checked, tuple(unanalysed))
        return Analysis(
            self.assumptions, tuple(findings), tuple(safe), safe_if, coverage, self.ranged.summaries, costs=current_costs()
        )

    def root_names(self, roots: Roots) -> tuple[str, ...]:
        names = self._root_names.get(roots)
        if names is None:
            names = tuple(sorted(self.model.name_of(-1 - root) if root < 0 else self.nodes[root].name for root in roots))
            self._root_names[roots] = names
        return names

    def findings_of(self, record: Record) -> Iterable[Finding]:
        for hazard in _merged(record.hazards):
            yield self.finding(record.node, hazard, ())
        consequences = _merged(record.consequences)
        if consequences:
            roots = self.root_names(record.roots)
            for hazard in consequences:
                yield self.finding(record.node, hazard, roots)

    def finding(self, node: Node, hazard: Hazard, roots: tuple[str, ...]) -> Finding:
        number = self.operand_number(node, hazard)
        format = self.format_of(number)
        name = self.model.name_of(number) if number is not None else node.name
        result = next((n for n in node.outputs if n != ABSENT), None)
        limit = _limit(hazard.rule, self.format_of(result) if hazard.rule.code.startswith("NUM2") else format)
        return Finding(
            rule=hazard.rule,
            node=node.name,
            op=node.label,
            operand=name,
            low=hazard.low,
            high=hazard.high,
            message=_message(node, hazard, name, format),
            target=self.ranged.target.name,
            format="" if format is None else format.name,
            phase=hazard.rule.phase,
            limit=limit,
            consequence_of=roots,
            location=location_of(node),
            trail=self.trail(node, number),
        )

    def operand_number(self, node: Node, hazard: Hazard) -> int | None:
        if hazard.operand == RESULT:
            return next((n for n in node.outputs if n != ABSENT), None)
        if hazard.operand < len(node.inputs) and node.inputs[hazard.operand] != ABSENT:
            return node.inputs[hazard.operand]
        return next((n for n in node.inputs if n != ABSENT), None)

    def format_of(self, number: int | None) -> Format | None:
        if number is None:
            return None
        summary = self.ranged.summaries.get(number)
        return summary.format if summary is not None else self.model.values[number].format

    def trail(self, node: Node, operand: int | None) -> tuple[TrailStep, ...]:
        """From the operand back along the widest operands to an input or constant."""
        steps: list[TrailStep] = []
        current = operand
        seen: set[int] = set()
        while current is not None and current not in seen and len(steps) < TRAIL_STEPS:
            seen.add(current)
            summary = self.ranged.summaries.get(current)
            producer = self.producers.get(current)
            if summary is not None:
                kind = producer.label if producer is not None else self.kind_of(current)
                steps.append(TrailStep(self.model.name_of(current), kind, summary.low, summary.high))
            current = None if producer is None else self.widest(producer)
        return tuple(reversed(steps))

    def kind_of(self, number: int) -> str:
        if number in self.model.graph.inputs:
            return "input"
        return "weight" if number in self.model.weights else "constant"

    def widest(self, node: Node) -> int | None:
        """The operand that explains a node's result best: not a constant, floating, the widest."""
        best, width = None, -1.0
        for number in node.inputs:
            summary = self.ranged.summaries.get(number)
            if number == ABSENT or summary is None or number in self.model.constants:
                continue
            own = (summary.high - summary.low) if summary.low <= summary.high else 0.0
            own = own if summary.format.is_float else min(own, 0.5)
            if own > width:
                best, width = number, own
        return best

    def constant_findings(self) -> Iterable[Finding]:
        """Weights that are NaN, each a defect of its own, read or not; and numbers of the program that are, where they are used."""
        checked = [record.roots for record in self.ranged.records.values() if record.checkable]
        read = frozenset[int]().union(*checked, *(flow.roots for flow in self.ranged.outputs.values()))
        for number, root in self.constants.nan_roots.items():
            if number not in self.model.weights and root not in read:
                continue
            yield self.about_constant(number, CONSTANT_NOT_FINITE, "holds NaN")
        for number, why in self.model.conversions.items():
            if why == "overflow":
                yield self.about_constant(number, CONSTANT_OVERFLOW, "leaves the format when it is converted")
            else:
                yield self.about_constant(number, VANISHED_CONSTANT, "is not zero and becomes zero when it is converted")

    def about_constant(self, number: int, rule: Rule, what: str) -> Finding:
        value = self.model.values[number]
        exact = Range.constant(self.model.constants[number], value.format)
        low, high = exact.hull()
        user = next((node for node in self.nodes.values() if number in node.inputs), None)
        return Finding(
            rule=rule,
            node=value.name,
            op="constant",
            operand=value.name,
            low=low,
            high=high,
            message=f"{value.name} {what}",
            target=self.ranged.target.name,
            format="" if value.format is None else value.format.name,
            location=None if user is None else location_of(user),
        )


def _merged(hazards: Iterable[Hazard]) -> list[Hazard]:
    """One hazard per rule and operand, with the hull of its ranges (a node in a loop is evaluated many times)."""
    merged: dict[tuple[str, int], Hazard] = {}
    for hazard in hazards:
        key = hazard.rule.code, hazard.operand
        other = merged.get(key)
        if other is not None:
            hazard = replace(
                hazard,
                low=min(hazard.low, other.low),
                high=max(hazard.high, other.high),
                gives=hazard.gives | other.gives,
            )
        merged[key] = hazard
    return list(merged.values())


def _limit(rule: Rule, format: Format | None) -> float | None:
    """What the operand is measured against: the largest number of the format for overflow, else the edge of the domain."""
    if rule.code.startswith("NUM2"):
        return None if format is None else format.high
    if rule.name in ("inverse-function-outside-domain", "infinite-derivative-at-edge"):
        return 1.0
    return 0.0 if rule.code.startswith("NUM1") or rule.name == "infinite-derivative-at-zero" else None


def _message(node: Node, hazard: Hazard, operand: str, format: Format | None) -> str:
    part = "" if hazard.operator == node.op else f" (its {hazard.operator})"
    bounds = f"[{hazard.low:.6g}, {hazard.high:.6g}]"
    if hazard.operand == RESULT:
        return f"{hazard.rule.summary}: the result of {node.label}{part} can reach {bounds} in {format}"
    return f"{hazard.rule.summary}: {operand} of {node.label}{part} lies in {bounds}"


def described(abstraction: Abstraction, effort: int, summaries: Mapping[int, Summary]) -> dict[str, Any]:
    """How precise an analysis was, for the report; `coarser` counts tensors too large for a cell per element."""
    stated: dict[str, Any] = {"effort": effort, "tensors": abstraction.tensors, "values": abstraction.values}
    if abstraction.tensors == "expand":
        sizes = [summary.shape for summary in summaries.values()]
        stated["coarser"] = sum(1 for shape in sizes if elements(shape) > abstraction.cells)
        stated["cells"] = abstraction.cells
    return stated


def input_values(model: Model, assumptions: Assumptions) -> dict[int, Abstract]:
    """The abstract value of every input of the graph."""
    return {number: _input(model, number, assumptions) for number in assumptions.inputs}


def _input(model: Model, number: int, assumptions: Assumptions) -> Abstract:
    """The abstract value of an input; sequences and optionals hold tensors of its domain."""
    value = model.values[number]
    tensor = assumptions.inputs[number].range(assumptions.shapes[number], value.format or FLOAT32)
    if value.container == "sequence":
        return SequenceOf(tensor, Span(0, None))
    if value.container == "optional":
        return OptionalOf(tensor, True)
    return tensor
