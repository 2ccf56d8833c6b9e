"""What the graph of the whole training step adds to the findings of a PyTorch program.

The rules NUM401 to NUM404 say where the derivative of an operator fails, at the operator itself. Here torch's own backward pass is
propagated, too. What its nodes can do (divide by zero, multiply zero and infinity) at lines where nothing else is reported are
*suspects*, those aside that a mask of torch's own guards (`tensorproof.training.masks`). A suspect becomes a finding (NUM405) when
the gradient fails in a real run, or, with an effort of 2 and above, without one: not all masks are recognised. Overflow of
gradients in float32 is no suspect: bounds on gradients of deep networks mean little.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorproof.assumptions import Assumptions, Declarations, resolve
from tensorproof.checking import Analysis, analyse
from tensorproof.confirm.sampling import Point, points
from tensorproof.confirm.torch_witness import save
from tensorproof.errors import TensorproofError
from tensorproof.execute.torch_program import ProgramFailed, ProgramRunner
from tensorproof.findings import Finding, Verdict
from tensorproof.frontends.torch_joint import JointModel, NoJointGraph, joint_model
from tensorproof.graph import Model, Node
from tensorproof.low_precision.samples import domains_of
from tensorproof.ranges.abstraction import FIRST_PASS, Abstraction
from tensorproof.rules.gradient_not_finite import GRADIENT_NOT_FINITE
from tensorproof.targets import Target
from tensorproof.training.masks import Masks
from tensorproof.training.places import Line, Places, finding_at, lines_of

if TYPE_CHECKING:
    from tensorproof.frontends.torch_program import TorchProgram

#: From this effort on, gradients that are not proven finite are reported without a run that shows it.
REPORTED_UNSEEN = 2


@dataclass(frozen=True, slots=True)
class Sampling:
    """Real runs that may be made: their seed and number, the time that they may take, and where witnesses go."""

    seed: int = 0
    runs: int = 33
    time_limit: float | None = None
    folder: Path | None = None


@dataclass(slots=True)
class Outcome:
    """What a look at training found, and what the report has to say about it: in words, and for machines."""

    findings: list[Finding] = field(default_factory=list[Finding])
    notes: list[str] = field(default_factory=list[str])
    stated: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class _Suspect:
    """A line whose gradient is not proven finite: the first hazard of its backward pass, and the forward operator."""

    hazard: Finding
    partner: str


def joint_findings(
    program: TorchProgram,
    declared: Declarations,
    target: Target,
    *,
    known: Sequence[Finding] = (),
    effort: int = 1,
    abstraction: Abstraction = FIRST_PASS,
    sampling: Sampling | None = None,
) -> Outcome:
    """Findings of the backward pass at lines where `known` has none, and how much of it was analysed.

    Without `sampling` nothing is run. All sizes are those of the example.
    """
    outcome = Outcome()
    suspects: dict[Line, _Suspect] = {}
    must_run = True
    try:
        joint = joint_model(program)
        assumptions = step_assumptions(joint.model, declared)
        analysis = analyse(joint.model, assumptions, target, effort=0, abstraction=abstraction)
        if effort > 0 and _suspects(joint, analysis, lines_of(known)):
            analysis = analyse(joint.model, assumptions, target, effort=1, abstraction=abstraction)
    except NoJointGraph as reason:
        outcome.notes.append(f"the backward pass itself was not analysed: {reason}; its rules were asked at the operators alone")
    except TensorproofError as reason:
        outcome.notes.append(f"the backward pass itself was not analysed: {reason}")
    else:
        suspects = _suspects(joint, analysis, lines_of(known))
        must_run = bool(suspects) or _is_partial(joint, analysis)
        outcome.notes.append(_coverage(joint, analysis, suspects, program.traced.model.default_sizes))
    seen: dict[Line, Point] = {}
    if sampling is not None and must_run:
        seen = _failing_lines(program, declared, sampling, outcome)
    places = Places(program.traced.model)
    for line in sorted({*suspects, *seen} - lines_of(known)):
        if line not in seen and effort < REPORTED_UNSEEN:
            continue
        found = _finding(line, suspects.get(line), places, target, line in seen)
        if line in seen and sampling is not None and sampling.folder is not None:
            found = replace(found, witness=save(sampling.folder, found, seen[line], program, outcome.notes))
        outcome.findings.append(found)
    return outcome


def step_assumptions(model: Model, declared: Declarations) -> Assumptions:
    """The declarations for the graph of a training step, which has the sizes of the example."""
    combinations, _ = resolve(model, replace(declared, dimensions={}))
    return combinations[0]


def _backward(joint: JointModel) -> dict[str, Node]:
    return {node.name: node for node in joint.model.graph.walk() if node.phase == "backward"}


def _is_partial(joint: JointModel, analysis: Analysis) -> bool:
    nodes = _backward(joint)
    return any(unknown.node in nodes for unknown in analysis.coverage.not_analysed)


def _suspects(joint: JointModel, analysis: Analysis, known: set[Line]) -> dict[Line, _Suspect]:
    """The first hazard at each line that is a fault of the domain, not an overflow, and no consequence of another."""
    nodes, masks = _backward(joint), Masks(joint.model)
    found: dict[Line, _Suspect] = {}
    for hazard in analysis.findings:
        if hazard.node not in nodes or hazard.consequence_of or not hazard.rule.code.startswith("NUM1"):
            continue
        source = nodes[hazard.node].source
        if masks.is_harmless(nodes[hazard.node]):
            continue
        if source is not None and (source.file, source.line) not in known:
            found.setdefault((source.file, source.line), _Suspect(hazard, joint.partners.get(hazard.node, "")))
    return found


def _coverage(joint: JointModel, analysis: Analysis, suspects: Mapping[Line, _Suspect], sizes: Mapping[str, int]) -> str:
    nodes = _backward(joint)
    missing = [unknown for unknown in analysis.coverage.not_analysed if unknown.node in nodes]
    text = f"backward pass: {len(nodes) - len(missing)} of {len(nodes)} nodes of the gradients analysed"
    if sizes:
        text += f", with {', '.join(f'{name} = {size}' for name, size in sizes.items())}"
    if missing:
        text += f" (not {', '.join(sorted({unknown.op for unknown in missing})[:4])})"
    if suspects:
        lines = ", ".join(str(line) for _, line in sorted(suspects)[:6])
        text += f"; not proven finite, and not reported by another rule: gradients of line {lines}"
    return text


def _failing_lines(program: TorchProgram, declared: Declarations, sampling: Sampling, outcome: Outcome) -> dict[Line, Point]:
    """The lines whose gradients fail in runs of the user's own module while all its outputs are finite, each with its point."""
    model = program.traced.model
    end = None if sampling.time_limit is None else time.monotonic() + sampling.time_limit
    try:
        domains = domains_of(model, resolve(model, declared)[0][0])
    except TensorproofError as reason:
        outcome.notes.append(f"gradients were not run: {reason}")
        return {}
    runner = ProgramRunner(program.traced)
    found: dict[Line, Point] = {}
    for point in points(sampling.seed, domains, sampling.runs):
        if end is not None and time.monotonic() >= end:
            outcome.notes.append("the runs of the backward pass were cut short by the time limit")
            break
        try:
            shown = runner.replayed(point, gradients=True)
        except ProgramFailed:
            continue
        if shown.bad_gradients and not shown.is_output_bad:
            for line in shown.backward_lines:
                found.setdefault(line, point)
    return found


def _finding(line: Line, suspect: _Suspect | None, places: Places, target: Target, is_seen: bool) -> Finding:
    node = places.at_line(line, "" if suspect is None else suspect.partner)
    name = f"line {line[1]}" if suspect is None else suspect.partner or suspect.hazard.node
    verdict = Verdict.CONFIRMED if is_seen else Verdict.POSSIBLE
    if suspect is None:
        message = f"{GRADIENT_NOT_FINITE.summary}: seen in a run"
        low = high = 0.0
        operand, format = "", ""
    else:
        hazard = suspect.hazard
        low, high = hazard.bounds
        operand, format = hazard.operand, hazard.format
        message = f"{GRADIENT_NOT_FINITE.summary}: in its formula {operand} of {hazard.op} lies in [{low:.6g}, {high:.6g}]"
    return finding_at(
        GRADIENT_NOT_FINITE,
        node,
        name,
        message=message,
        target=target.name,
        format=format,
        low=low,
        high=high,
        operand=operand,
        verdict=verdict,
        line=line,
    )
