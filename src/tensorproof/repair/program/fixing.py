"""`fix` of a PyTorch program: finding after finding, the best change of its source that passes its verification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from tensorproof.confirm.sampling import Point
from tensorproof.errors import ConfigurationError
from tensorproof.findings import Finding, Report
from tensorproof.preparing import Prepared
from tensorproof.repair.fixing import Fixed, Outcome, Progress, Repair, case_of
from tensorproof.repair.program.proposing import SourceProposal, by_hand, proposed
from tensorproof.repair.program.text import LineMap, SourceChange, SourceText
from tensorproof.repair.program.verifying import verified
from tensorproof.repair.program.version import Version, program_of
from tensorproof.repair.verify import Key, Refused
from tensorproof.report.selection import Selection, apply_selection

#: Points of the box that are run, corners among them: fewer than of an ONNX file, because eager programs are slower.
RUNS = 200


def fixed_program(
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
    """A program checked, with failing inputs, and its source repaired; see `tensorproof.fix`."""
    if at != "operand":
        raise ConfigurationError("--at: preconditions are for ONNX files; the source of a program is repaired at its lines")
    program = program_of(prepared)
    source = SourceText.read(Path(program.path or ""))
    confirming = prepared.quick_confirm(
        seed=seed,
        folder=None if witnesses is None else Path(witnesses),
        progress=None if progress is None else lambda done: progress("confirm", f"{done} runs"),
    )
    report = apply_selection(prepared.checked(confirming), selection or Selection())
    roots = (finding for finding in report.roots() if finding.rule.severity != "note")
    wanted = [f for f in roots if not nodes or any(fnmatchcase(f.node, pattern) for pattern in nodes)]
    fixer = _ProgramFixer(
        Version.of(prepared, source), report, confirming.failing, unsafe, seed, RUNS if runs is None else runs, progress
    )
    return fixer.run(wanted)


@dataclass(slots=True)
class _ProgramFixer:
    """Repairs the findings of one program, in the order of its nodes, each in the text that the repairs before it left."""

    original: Version
    report: Report
    failing: Mapping[Key, Point]
    unsafe: bool
    seed: int
    runs: int
    progress: Progress | None
    outcomes: dict[Key, Outcome] = field(default_factory=dict[Key, Outcome])

    def run(self, wanted: Sequence[Finding]) -> Fixed:
        """The program with the repairs of the findings that are wanted."""
        current = self.original
        while True:
            still = self._still_there(current, [f for f in wanted if _key(f) not in self.outcomes])
            if not still:
                break
            # Errors first: a change that mends one often takes warnings about its operands with it.
            finding, now = min(still, key=lambda pair: pair[0].rule.severity != "error")
            outcome, current = self._attempt(current, finding, now)
            self.outcomes[_key(finding)] = outcome
        change = SourceChange(self.original.source, current.source)
        return Fixed(self.report, None, tuple(self.outcomes.values()), current.prepared, change)

    def _still_there(self, current: Version, wanted: Sequence[Finding]) -> list[tuple[Finding, Finding]]:
        """The findings that a scan of the current text still has, each with what it is there.

        They are told apart by rule and line, on one line by their order. Those that are gone went with the last repair.
        """
        lines = LineMap(self.original.source.text, current.source.text)
        left = list(current.roots)
        found: list[tuple[Finding, Finding]] = []
        for finding in wanted:
            place = self.original.place(finding, lines.old)
            same = (f for f in left if f.rule is finding.rule and current.place(f, lines.new) == place)
            now = next(same, None)
            if now is not None:
                left.remove(now)
                found.append((finding, now))
            else:
                self.outcomes[_key(finding)] = self._gone(finding)
        return found

    def _gone(self, finding: Finding) -> Outcome:
        """What became of a finding that the current text does not have any more."""
        last = next((o for o in reversed(self.outcomes.values()) if o.is_applied and o.along_with is None), None)
        if last is None:
            return Outcome(finding, None, False, (("source", "it is seen in runs alone: no change of the source is tried"),))
        return Outcome(finding, last.repair, True, along_with=last.finding.node)

    def _run_training(self, patched: Version) -> None:
        """Refuse a text whose training step fails in runs where that of the original did not; a scan does not see such findings."""
        if patched.prepared.phase != "training":
            return
        lines = LineMap(self.original.source.text, patched.source.text)
        known = {(f.rule.code, self.original.place(f, lines.old)) for f in self.report.findings}
        confirming = patched.prepared.quick_confirm(seed=self.seed)
        for finding in patched.prepared.checked(confirming).findings:
            code = finding.rule.code
            if finding.rule.phase == "backward" and not finding.is_note and (code, patched.place(finding, lines.new)) not in known:
                raise Refused(f"the training step of the patched program has {code}, which was not there before")

    def _attempt(self, current: Version, finding: Finding, now: Finding) -> tuple[Outcome, Version]:
        """The best repair of a finding, which is `now` in the current text."""
        declined: list[tuple[str, str]] = []
        passing: list[tuple[Repair, Version]] = []
        case = case_of(current.prepared, current.analyses, now)
        for proposal in proposed(current, case, now):
            if not isinstance(proposal, SourceProposal):
                declined.append(proposal)
                continue
            if self.progress is not None:
                self.progress(now.node, proposal.name)
            try:
                patched = current.patched(proposal.text)
                witness = self.failing.get(_key(finding))
                seen = verified(current, patched, now, witness=witness, seed=self.seed, runs=self.runs)
                self._run_training(patched)
            except Refused as reason:
                declined.append((proposal.name, str(reason)))
                continue
            repair = Repair(proposal, seen)
            passing.append((repair, patched))
            if _rank(repair) == _BEST:
                break
        if not passing:
            declined += [("by hand", reason) for reason in ([] if case is None else by_hand(case))]
            return Outcome(finding, None, False, tuple(declined)), current
        repair, patched = min(passing, key=lambda pair: _rank(pair[0]))
        is_applied = repair.is_safe or self.unsafe
        return Outcome(finding, repair, is_applied, tuple(declined)), patched if is_applied else current


#: The rank of a repair that is safe and leaves finite derivatives at the failing input.
_BEST = (False, False)


def _rank(repair: Repair) -> tuple[bool, bool]:
    """Repairs in order of preference: safe ones first, then those with finite derivatives at the failing input."""
    return not repair.is_safe, repair.verification.gradients.at_witness == "not finite"


def _key(finding: Finding) -> Key:
    return finding.rule.code, finding.node
