"""What a report says about gradients that stand in the graph itself, as in training steps of JAX and TensorFlow.

Rules ask nodes of the backward pass like all others. What they say there is about formulas that the user never wrote, so that it is
settled here, by the policy for PyTorch's backward pass (`tensorproof.training.backward`):

* overflow is reported only where a run showed it: bounds on gradients mean little;
* a fault of the domain (a division by zero in the formula of a derivative) becomes one finding NUM405 at the operator that is
  differentiated, where nothing else is reported at its line: if a run showed it, or, with an effort of 2 and above, without one;
* where another rule speaks of that derivative already (NUM401 to NUM404), a run of the formula that failed confirms it;
* a rule about derivatives that an operator of the gradients itself declares (TensorFlow's SqrtGrad) is reported as it is, at the
  operator that is differentiated;
* notes and consequences of other findings are left out.

What is left out although it is not proven is counted in a note.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tensorproof.findings import Finding, Location, Report, Verdict
from tensorproof.graph import ABSENT, Model, Node
from tensorproof.rules.derivative_overflow import DERIVATIVE_OVERFLOW
from tensorproof.rules.gradient_not_finite import GRADIENT_NOT_FINITE
from tensorproof.training.backward import REPORTED_UNSEEN
from tensorproof.training.masks import Masks
from tensorproof.training.places import Line, lines_of


def settled(report: Report, model: Model, *, partners: Mapping[str, str] | None = None, effort: int = 1) -> Report:
    """The report with the findings at nodes of the backward pass as the policy above has them.

    `partners` names the forward node that a backward node differentiates; without it, lines and operands tell.
    """
    nodes = {node.name: node for node in model.graph.walk()}
    backward = {name: node for name, node in nodes.items() if node.phase == "backward"}
    if not backward:
        return report
    kept = [finding for finding in report.findings if finding.node not in backward]
    forward = _Forward(model, partners or {})
    suspects = _suspects([f for f in report.findings if f.node in backward], backward, Masks(model), forward)
    known, known_nodes = lines_of(kept), {finding.node for finding in kept if not finding.is_note}
    unseen: list[str] = []
    for finding, partner in suspects:
        node = backward[finding.node]
        line = _line(node)
        if (line is not None and line in known) or (partner is not None and partner.name in known_nodes):
            kept = [_shown(other, finding) if _is_about(other, line, partner) else other for other in kept]
            continue
        is_certain = finding.verdict is Verdict.CONFIRMED or finding.rule.phase == "backward"
        if not is_certain and effort < REPORTED_UNSEEN:
            unseen.append(finding.node if line is None else f"line {line[1]}")
            continue
        found = _moved(finding, node, partner)
        kept.append(found)
        known |= lines_of([found])
        known_nodes.add(found.node)
    failing = {finding.node for finding in kept if finding.rule.severity == "error"}
    notes = [_coverage(report, backward, list(dict.fromkeys(unseen)))]
    return replace(
        report,
        findings=tuple(sorted(kept, key=lambda f: (bool(f.consequence_of), f.is_note, -f.closeness()))),
        proven_safe=tuple(name for name in report.proven_safe if name not in failing),
        assumptions={**report.assumptions, "notes": [*report.assumptions.get("notes", ()), *notes]},
    )


def _suspects(
    findings: Sequence[Finding], nodes: Mapping[str, Node], masks: Masks, forward: _Forward
) -> list[tuple[Finding, Node | None]]:
    """Findings that are about gradients themselves, those that a run showed first."""
    found: list[tuple[Finding, Node | None]] = []
    for finding in findings:
        is_seen = finding.verdict is Verdict.CONFIRMED
        if finding.is_note or finding.consequence_of:
            continue
        is_rule = finding.rule.code.startswith("NUM1") or (finding.rule.phase == "backward" and finding.rule != DERIVATIVE_OVERFLOW)
        is_fault = is_rule and not masks.is_harmless(nodes[finding.node])
        if is_seen or is_fault:
            found.append((finding, forward.partner(nodes[finding.node])))
    return sorted(found, key=lambda pair: pair[0].verdict is not Verdict.CONFIRMED)


class _Forward:
    """The nodes that compute values, by place and by what they read and make."""

    def __init__(self, model: Model, partners: Mapping[str, str]) -> None:
        self._partners = partners
        self._by_name = {node.name: node for node in model.graph.walk() if node.phase == "forward"}
        self._makers = {number: node for node in self._by_name.values() for number in node.outputs}
        self._by_source: dict[object, list[Node]] = {}
        for node in self._by_name.values():
            if node.source is not None:
                self._by_source.setdefault(node.source, []).append(node)

    def partner(self, node: Node) -> Node | None:
        """The node that a backward node differentiates: at its place, with a value in common, made rather than read."""
        named = self._by_name.get(self._partners.get(node.name, ""))
        if named is not None:
            return named
        near = self._by_source.get(node.source, []) if node.source is not None else []
        own = {number for number in node.inputs if number != ABSENT}
        if node.domain and node.op.endswith("Gradient"):
            # An operator for the derivative of one function: it reads what that function made.
            saved = next((self._makers[number] for number in node.inputs if number in self._makers), None)
            if saved is not None and saved.op == node.op.removesuffix("Gradient"):
                return saved
        makers = [other for other in near if not own.isdisjoint(other.outputs)]
        readers = [other for other in near if not own.isdisjoint(other.inputs)]
        return next(iter((*reversed(makers), *readers, *reversed(near))), None)


def _moved(finding: Finding, node: Node, partner: Node | None) -> Finding:
    """A finding of a formula as one about the gradient of the operator that it differentiates."""
    low, high = finding.bounds
    rule = finding.rule if finding.rule.phase == "backward" else GRADIENT_NOT_FINITE
    place = partner if partner is not None and partner.source is not None else node
    location = finding.location
    if place.source is not None:
        location = Location(place.source.file, place.source.line, place.module or None, place.source.column)
    return replace(
        finding,
        rule=rule,
        node=node.name if partner is None else partner.name,
        op=node.label if partner is None else partner.label,
        message=(f"{rule.summary}: in its formula {finding.operand} of {finding.op} ({node.name}) lies in [{low:.6g}, {high:.6g}]"),
        phase="backward",
        reaches="gradient" if finding.verdict is Verdict.CONFIRMED else None,
        location=location,
    )


def _is_about(finding: Finding, line: Line | None, partner: Node | None) -> bool:
    """Whether a finding is what another rule says about the derivative of an operator."""
    if finding.phase != "backward" or finding.verdict is Verdict.CONFIRMED:
        return False
    return (partner is not None and finding.node == partner.name) or (line is not None and line in lines_of([finding]))


def _shown(finding: Finding, seen: Finding) -> Finding:
    """A finding about a derivative, confirmed if the formula of the derivative failed in a run."""
    if seen.verdict is not Verdict.CONFIRMED:
        return finding
    return replace(finding, verdict=Verdict.CONFIRMED, reaches="gradient", witness=seen.witness)


def _line(node: Node) -> Line | None:
    return None if node.source is None else (node.source.file, node.source.line)


def _coverage(report: Report, backward: Mapping[str, Node], unseen: Sequence[str]) -> str:
    missing = [unknown for unknown in report.coverage.not_analysed if unknown.node in backward]
    text = f"backward pass: {len(backward) - len(missing)} of {len(backward)} nodes of the gradients analysed"
    if missing:
        text += f" (not {', '.join(sorted({unknown.op for unknown in missing})[:4])})"
    if unseen:
        text += f"; not proven finite, and not reported by another rule: gradients of {', '.join(unseen[:6])}"
    return text
