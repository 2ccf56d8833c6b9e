"""Repairs beside those of the developers: both are put into the same program and pass through the same verification.

The developers' repairs are those that the study of RANUM names; most programs have none. Classes are RANUM's: A, ours is better, or
there is none; B, as good; C, none is needed in the project; D, the developers' is better.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from benchmarks.repairs import points_for
from benchmarks.zoo import Bug, Entry, program
from tensorproof.confirm.quick import QuickConfirm
from tensorproof.confirm.sampling import Point
from tensorproof.findings import Finding
from tensorproof.graph import Node
from tensorproof.preparing import Prepared
from tensorproof.repair.editing import Editor
from tensorproof.repair.fixing import Fixer, guarded, rewritten
from tensorproof.repair.proposal import Proposal
from tensorproof.repair.verify import RUNS, Refused, Verification, scanned, verified, with_proto

#: Changes the operand of the failing node: from the editor, the node and the number of the operand.
Change = Callable[[Editor, Node], None]


def clipped(low: float | None, high: float | None, operand: int = 0) -> Change:
    def change(editor: Editor, node: Node) -> None:
        spot = editor.before(node, "developer")
        editor.rewire(node, operand, spot.clip(spot.name(node.inputs[operand]), low, high, np.float32))

    return change


def added(epsilon: float, operand: int = 0) -> Change:
    def change(editor: Editor, node: Node) -> None:
        spot = editor.before(node, "developer")
        total = spot.add("Add", spot.name(node.inputs[operand]), spot.constant(epsilon, np.float32))
        editor.rewire(node, operand, total)

    return change


@dataclass(frozen=True, slots=True)
class Developers:
    """What developers did about one bug; without a change, the model stays as it was."""

    entry: str
    bug: str
    words: str
    change: Change | None


RECORDED = (
    Developers("4-exp", "4-exp", "clip the logarithm of the variance at 10", clipped(None, 10.0)),
    Developers("2", "2a", "clip each log operand at 1e-10", clipped(1e-10, None)),
    Developers("2", "2b", "clip each log operand at 1e-10", clipped(1e-10, None)),
    Developers("3", "3", "1e-8 added inside the log", added(1e-8)),
    Developers("6", "6", "clip p to [1e-10, 1]", clipped(1e-10, 1.0)),
    Developers("7", "7", "1e-9 added inside the log", added(1e-9)),
    Developers("8", "8", "clip p to [1e-10, 1]", clipped(1e-10, 1.0)),
    Developers("9", "9a", "clip both log operands to [1e-10, 1]", clipped(1e-10, 1.0)),
    Developers("9", "9b", "clip both log operands to [1e-10, 1]", clipped(1e-10, 1.0)),
    Developers("10", "10", "lower learning rate", None),
    Developers("28c", "28c", "epsilon (1e-8) added to the denominator", added(1e-8, 1)),
    Developers("28d", "28d", "epsilon (1e-8) added to the denominator", added(1e-8, 1)),
    Developers("61", "61", "lower learning rate, or mean for sum", None),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """A repair with what its verification saw; None where it did not pass."""

    name: str
    seen: Verification | None
    is_safe: bool
    reason: str = ""

    @property
    def values(self) -> str:
        if self.seen is None:
            return self.reason
        compared = self.seen.values
        if compared.ulp == 0:
            return "unchanged"
        farther = "" if compared.excess is None or compared.excess <= 2 else f", {compared.excess:.1e} ulp farther from exact"
        return f"moved by up to {compared.relative:.1e}{farther}"

    @property
    def gradient(self) -> str:
        return "-" if self.seen is None else self.seen.gradients.at_witness or "no failing input"

    @property
    def rank(self) -> tuple[bool, bool, bool]:
        """Better is larger: it passes; values stay; the derivative at the failing input leads somewhere."""
        if self.seen is None:
            return False, False, False
        return True, self.seen.keeps_everything, self.seen.gradients.at_witness == "alive"


def measured_pair(recorded: Developers, *, is_quick: bool = False) -> tuple[Measured, Measured, Literal["A", "B", "D"]]:
    """The developers' repair, ours, and which is better."""
    entry = program(recorded.entry)
    (bug,) = [bug for bug in entry.bugs if bug.letter == recorded.bug]
    theirs, ours = _measured(entry, bug, recorded, RUNS // 10 if is_quick else points_for(entry))
    return theirs, ours, "A" if ours.rank > theirs.rank else "B" if ours.rank == theirs.rank else "D"


def _measured(entry: Entry, bug: Bug, recorded: Developers, runs: int) -> tuple[Measured, Measured]:
    prepared = replace(Prepared.of(entry.onnx()), declared=entry.declarations())
    confirming = QuickConfirm(prepared.proto, nodes=(bug.node,), is_hasty=True)
    report = prepared.checked(confirming)
    finding = next(f for f in report.findings if f.node == bug.node and not f.is_note)
    witness = confirming.failing.get((finding.rule.code, finding.node))
    fixer = Fixer(prepared, sources=[rewritten, guarded], unsafe=True, is_chosen=lambda f: f.node == bug.node, runs=runs)
    (outcome, *_) = fixer.run(report, confirming.failing).outcomes
    ours = Measured("none", None, False, "none passed")
    if outcome.repair is not None:
        ours = Measured(outcome.repair.proposal.name, outcome.repair.verification, outcome.repair.is_safe)
    return _theirs(prepared, finding, witness, recorded, runs), ours


def _theirs(prepared: Prepared, finding: Finding, witness: Point | None, recorded: Developers, runs: int) -> Measured:
    if recorded.change is None:
        return Measured(recorded.words, None, False, "the model is as before: still fails")
    change = recorded.change
    (node,) = [node for node in prepared.graph.graph.walk() if node.name == finding.node]
    editor = Editor(prepared.graph, prepared.proto)
    change(editor, node)
    proposal = Proposal("operand", recorded.words, finding, "", "", False, (node.name,), lambda editor: change(editor, node))
    try:
        patched = with_proto(prepared, editor.finish())
        seen = verified(prepared, patched, proposal, scanned(prepared), witness=witness, runs=runs)
    except Refused as reason:
        return Measured(recorded.words, None, False, f"does not pass: {reason}")
    return Measured(recorded.words, seen, False)
