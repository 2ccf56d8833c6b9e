"""`fix`: finding after finding, the best repair that passes its verification, until nothing is left that can be repaired."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorproof.checking import Analysis
from tensorproof.confirm.sampling import Point
from tensorproof.findings import Finding, Report
from tensorproof.graph import ABSENT, Node
from tensorproof.idioms.structure import Structure
from tensorproof.preparing import Prepared
from tensorproof.repair import operand, rewrites
from tensorproof.repair.editing import Editor
from tensorproof.repair.preconditions import Precondition, find_precondition
from tensorproof.repair.proposal import Case, Declined, Proposal
from tensorproof.repair.verify import RUNS, Key, Refused, Verification, roots_of, scanned, verified, with_proto
from tensorproof.report.selection import Selection, apply_selection

if TYPE_CHECKING:
    import onnx

    from tensorproof.repair.graph_file import GraphFile
    from tensorproof.repair.graph_guard import Guard
    from tensorproof.repair.program.proposing import SourceProposal
    from tensorproof.repair.program.text import SourceChange

#: Called with the node and what is being done.
Progress = Callable[[str, str], None]

#: What a repair that is left to the user is called among those that were declined.
BY_HAND = "by hand"

#: Proposals for a case of a model, best first; where one does not apply, its name and the reason.
Source = Callable[[Prepared, Case], Iterator[Proposal | tuple[str, str]]]


def rewritten(_: Prepared, case: Case) -> Iterator[Proposal | tuple[str, str]]:
    """Stable rewrites."""
    return rewrites.proposed(case)


def guarded(_: Prepared, case: Case) -> Iterator[Proposal | tuple[str, str]]:
    """Guards of the operand."""
    return operand.proposed(case)


def restricted(at: str | Sequence[str], seed: int = 0) -> Source:
    """Interval preconditions at a place: "inputs", "weights", "both", or the results of nodes."""

    def source(prepared: Prepared, case: Case) -> Iterator[Proposal | tuple[str, str]]:
        found = find_precondition(prepared, [case.finding], at, seed=seed)
        yield found.proposal(case.finding) if isinstance(found, Precondition) else ("precondition", found.describe())

    return source


@dataclass(frozen=True, slots=True)
class Repair:
    """A proposal that passed its verification."""

    proposal: Proposal | SourceProposal | Guard
    verification: Verification

    @property
    def is_safe(self) -> bool:
        """Whether it changes no value and no derivative for the worse, as far as the algebra says and runs show."""
        return self.proposal.safe and self.verification.keeps_everything

    def to_json(self) -> dict[str, Any]:
        proposal = self.proposal
        return {
            "kind": proposal.kind,
            "name": proposal.name,
            "safe": self.is_safe,
            "summary": proposal.summary,
            "because": proposal.because,
            "cost": self.verification.describe(),
            "verification": self.verification.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one finding: the repair, if one passed, whether it was applied, and why others did not."""

    finding: Finding
    repair: Repair | None
    is_applied: bool
    declined: tuple[tuple[str, str], ...] = ()
    #: The node of another finding, whose repair mended this one, too.
    along_with: str | None = None

    @property
    def key(self) -> Key:
        return self.finding.rule.code, self.finding.node

    def to_json(self) -> dict[str, Any]:
        declined = [{"name": name, "reason": reason} for name, reason in self.declined]
        if self.repair is None:
            return {"kind": None, "declined": declined}
        return {**self.repair.to_json(), "applied": self.is_applied, "declined": declined, "along_with": self.along_with}


@dataclass(frozen=True, slots=True)
class Fixed:
    """The original with its findings, each with its repair, and the model with all repairs that may be applied.

    Of an ONNX model `original` and `proto` are the model before and after, of a PyTorch program `change` is that of its source, of
    TensorFlow's files that can be written `graph_file` is the file, changed or not.
    """

    before: Report
    original: onnx.ModelProto | None
    outcomes: tuple[Outcome, ...]
    prepared: Prepared
    change: SourceChange | None = None
    graph_file: GraphFile | None = None

    @property
    def proto(self) -> onnx.ModelProto | None:
        """The repaired model; None for a program."""
        return self.prepared.onnx_model

    @property
    def source(self) -> str | None:
        """The repaired source of a program; None for an ONNX model."""
        return None if self.change is None else self.change.after.text

    @property
    def applied(self) -> tuple[Repair, ...]:
        """The repairs in the model, each once."""
        own = (outcome for outcome in self.outcomes if outcome.is_applied and outcome.along_with is None)
        return tuple(outcome.repair for outcome in own if outcome.repair is not None)

    @property
    def by_hand(self) -> tuple[tuple[Finding, str], ...]:
        """What is left to the user, in words, by finding."""
        left = ((outcome.finding, *entry) for outcome in self.outcomes for entry in outcome.declined)
        return tuple((finding, words) for finding, name, words in left if name == BY_HAND)

    def report(self) -> Report:
        """The report of the original; every finding carries its repair."""
        fixes = {outcome.key: outcome.to_json() for outcome in self.outcomes}
        findings = tuple(replace(f, fix=fixes.get((f.rule.code, f.node))) for f in self.before.findings)
        return self.before.with_findings(findings)

    def left(self) -> Report:
        """The report without the findings that the applied repairs remove, and without what followed from them alone."""
        mended = {outcome.key for outcome in self.outcomes if outcome.is_applied}
        nodes = {node for _, node in mended}
        findings = (
            f
            for f in self.before.findings
            if (f.rule.code, f.node) not in mended and not (f.consequence_of and nodes.issuperset(f.consequence_of))
        )
        return self.before.with_findings(tuple(findings))


class Fixer:
    """Repairs the findings of one model, in the order of its nodes, so that what is repaired rests on what was repaired before.

    Proposals come from `sources`, one after the other, until a safe one passes; from `last_resort` only where none passed.
    With `unsafe`, repairs that change values are applied, too, where no safe one passes.
    """

    def __init__(
        self,
        prepared: Prepared,
        *,
        sources: Sequence[Source],
        last_resort: Source | None = None,
        unsafe: bool = False,
        is_chosen: Callable[[Finding], bool] = lambda _: True,
        seed: int = 0,
        runs: int = RUNS,
        progress: Progress | None = None,
    ) -> None:
        self._prepared = prepared
        self._sources = sources
        self._last_resort = last_resort
        self._unsafe = unsafe
        self._is_chosen = is_chosen
        self._seed = seed
        self._runs = runs
        self._progress = progress

    def run(self, report: Report, failing: dict[Key, Point]) -> Fixed:
        """All findings of the report; `failing` are the inputs on which nodes failed."""
        # What reaches no output of this model may reach its derivatives, or the next layer: it is repaired, too.
        roots = (f for f in report.roots() if f.rule.severity != "note")
        wanted = {(f.rule.code, f.node): f for f in roots if self._is_chosen(f)}
        current, outcomes = self._prepared, dict[Key, Outcome]()
        while True:
            analyses = scanned(current)
            roots = roots_of(current, analyses)
            if outcomes:
                last = next(reversed(outcomes.values()))
                for key in wanted.keys() - outcomes.keys() - roots.keys():
                    outcomes[key] = Outcome(wanted[key], last.repair, last.is_applied, along_with=last.finding.node)
            open_ones = [finding for key, finding in roots.items() if key in wanted and key not in outcomes]
            if not open_ones:
                return Fixed(report, self._prepared.proto, tuple(outcomes.values()), current)
            order = {node.name: index for index, node in enumerate(current.graph.graph.walk())}
            # Errors first: a rewrite that mends one often takes warnings about its operands with it.
            finding = min(open_ones, key=lambda f: (f.rule.severity != "error", order.get(f.node, -1)))
            key = finding.rule.code, finding.node
            outcome, current = self._attempt(current, analyses, finding, failing.get(key))
            outcomes[key] = outcome

    def _attempt(
        self, current: Prepared, analyses: Sequence[Analysis], finding: Finding, witness: Point | None
    ) -> tuple[Outcome, Prepared]:
        declined: list[tuple[str, str]] = []
        case = case_of(current, analyses, finding)
        if case is None:
            return Outcome(finding, None, False, (("all", "nothing reads the constant"),)), current
        passing: list[tuple[Repair, Prepared]] = []
        for source in self._sources:
            for repair, patched in self._passing(source(current, case), current, analyses, witness, declined):
                if repair.is_safe:
                    return Outcome(finding, repair, True, tuple(declined)), patched
                passing.append((repair, patched))
        if not passing and self._last_resort is not None:
            passing += self._passing(self._last_resort(current, case), current, analyses, witness, declined)
        if not passing:
            return Outcome(finding, None, False, tuple(declined)), current
        repair, patched = passing[0]
        is_applied = repair.is_safe or self._unsafe
        return Outcome(finding, repair, is_applied, tuple(declined)), patched if is_applied else current

    def _passing(
        self,
        proposals: Iterator[Proposal | tuple[str, str]],
        current: Prepared,
        analyses: Sequence[Analysis],
        witness: Point | None,
        declined: list[tuple[str, str]],
    ) -> Iterator[tuple[Repair, Prepared]]:
        """The proposals that pass, with their models; the names and reasons of the others go to `declined`."""
        for proposal in proposals:
            if not isinstance(proposal, Proposal):
                declined.append(proposal)
                continue
            if self._progress is not None:
                self._progress(proposal.finding.node, proposal.name)
            try:
                patched = with_proto(current, _edited(current, proposal))
                seen = verified(current, patched, proposal, analyses, witness=witness, seed=self._seed, runs=self._runs)
            except (Refused, Declined) as reason:
                declined.append((proposal.name, str(reason)))
                continue
            yield Repair(proposal, seen), patched


def case_of(prepared: Prepared, analyses: Sequence[Analysis], finding: Finding) -> Case | None:
    """All that a repair of a finding may look at; None if it is about a constant that nothing reads."""
    node = _node_of(prepared, finding)
    if node is None:
        return None
    seen = next(a for a in analyses if any(f.node == finding.node and f.rule is finding.rule for f in a.findings))
    return Case(prepared.graph, Structure(prepared.graph), seen, prepared.target, finding, node)


def _node_of(prepared: Prepared, finding: Finding) -> Node | None:
    """The node of a finding, or the first reader of the constant that it is about."""
    graph = prepared.graph
    by_name = {node.name: node for node in graph.graph.walk()}
    if finding.node in by_name:
        return by_name[finding.node]
    return next((n for n in by_name.values() if any(i != ABSENT and graph.name_of(i) == finding.operand for i in n.inputs)), None)


def _edited(prepared: Prepared, proposal: Proposal) -> onnx.ModelProto:
    editor = Editor(prepared.graph, prepared.proto)
    proposal.edit(editor)
    return editor.finish()


def fixed(
    prepared: Prepared,
    *,
    nodes: Sequence[str] = (),
    at: str | Sequence[str] = "operand",
    unsafe: bool = False,
    selection: Selection | None = None,
    seed: int = 0,
    runs: int | None = None,
    witnesses: str | Path | None = None,
    progress: Progress | None = None,
) -> Fixed:
    """A model checked, with failing inputs, and repaired; see `tensorproof.fix`."""
    confirming = prepared.quick_confirm(
        seed=seed,
        folder=None if witnesses is None else Path(witnesses),
        progress=None if progress is None else lambda done: progress("confirm", f"{done} runs"),
    )
    report = apply_selection(prepared.checked(confirming), selection or Selection())

    def is_chosen(finding: Finding) -> bool:
        return not nodes or any(fnmatchcase(finding.node, pattern) for pattern in nodes)

    sources, last_resort = ([rewritten, guarded], restricted("inputs", seed)) if at == "operand" else ([restricted(at, seed)], None)
    fixer = Fixer(
        prepared,
        sources=sources,
        last_resort=last_resort,
        unsafe=unsafe,
        is_chosen=is_chosen,
        seed=seed,
        runs=RUNS if runs is None else runs,
        progress=progress,
    )
    return fixer.run(report, confirming.failing)
