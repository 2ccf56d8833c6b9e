"""`with_training`: a report with what the training step of a PyTorch program adds to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tensorproof.assumptions import Declarations
from tensorproof.findings import Finding, Report
from tensorproof.ranges.abstraction import Abstraction
from tensorproof.targets import Target
from tensorproof.training.backward import Outcome, Sampling, joint_findings
from tensorproof.training.low_precision import low_precision_findings

if TYPE_CHECKING:
    from tensorproof.frontends.torch_program import TorchProgram


def with_training(
    report: Report,
    program: TorchProgram,
    declared: Declarations,
    target: Target,
    *,
    effort: int,
    abstraction: Abstraction,
    sampling: Sampling | None,
) -> Report:
    """The report with findings of the backward pass, and, with `sampling`, of training in 16-bit formats."""
    outcome = joint_findings(
        program, declared, target, known=report.findings, effort=effort, abstraction=abstraction, sampling=sampling
    )
    if sampling is not None:
        known = (*report.findings, *outcome.findings)
        sampled = low_precision_findings(program, declared, target, known=known, sampling=sampling)
        outcome.findings += sampled.findings
        outcome.notes += sampled.notes
        outcome.stated |= sampled.stated
    failing = {finding.node for finding in outcome.findings if finding.rule.severity == "error"}
    return replace(
        report,
        findings=_ranked((*report.findings, *outcome.findings)),
        proven_safe=tuple(name for name in report.proven_safe if name not in failing),
        assumptions=_stated(report, outcome),
    )


def _stated(report: Report, outcome: Outcome) -> dict[str, Any]:
    stated: dict[str, Any] = {**report.assumptions, "notes": [*report.assumptions.get("notes", ()), *outcome.notes]}
    if outcome.stated:
        stated["training"] = outcome.stated
    return stated


def _ranked(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Roots first, then what came closest."""
    return tuple(sorted(findings, key=lambda finding: (bool(finding.consequence_of), finding.is_note, -finding.closeness())))
