"""`fix` of models of TensorFlow, Keras and JAX: operands held in their valid range, in the file where its format allows that.

Graph files and SavedModels of TensorFlow are rewritten, and each repair is verified: the changed message is read as the file was, a
scan of the whole no longer has the finding and has no new one, the failing input gives finite values in TensorFlow as users run it,
and so do points of the box. Other models are repaired by hand: the operand, the numbers and the line are said, of a guard with
which a scan of the whole passes, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

from tensorproof.checking import Analysis
from tensorproof.confirm.sampling import Point
from tensorproof.errors import ConfigurationError
from tensorproof.findings import Finding, Report
from tensorproof.frontends.framework_model import FrameworkModel
from tensorproof.frontends.keras_model import KerasModel
from tensorproof.frontends.tensorflow_program import TensorflowModel
from tensorproof.frontends.tensorflow_reassociation import reassociated
from tensorproof.preparing import Prepared
from tensorproof.repair import operand
from tensorproof.repair.fixing import BY_HAND, Fixed, Outcome, Progress, Repair, case_of
from tensorproof.repair.graph_file import GraphFile
from tensorproof.repair.graph_guard import FrameworkOperator, Guard, advice, guarded_model, guards_of
from tensorproof.repair.proposal import Case, Declined
from tensorproof.repair.tensorflow_graph import operator_of, place_in_file
from tensorproof.repair.tensorflow_verifying import TensorflowVerifier
from tensorproof.repair.verify import Key, Refused, roots_of, scan_again, scanned
from tensorproof.report.selection import Selection, apply_selection

#: What tells several operators of one name apart.
_NUMBER = re.compile(r"_\d+$")

#: Points of the box that are run before and after, corners among them.
RUNS = 20


def fixed_framework(
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
    """A model checked, with failing inputs, and its operands guarded; see `tensorproof.fix`."""
    if at != "operand":
        raise ConfigurationError("--at: preconditions are for ONNX files; of other models operands are guarded")
    confirming = prepared.quick_confirm(
        seed=seed,
        folder=None if witnesses is None else Path(witnesses),
        progress=None if progress is None else lambda done: progress("confirm", f"{done} runs"),
    )
    report = apply_selection(prepared.checked(confirming), selection or Selection())
    roots = (finding for finding in report.roots() if finding.rule.severity != "note")
    wanted = [f for f in roots if not nodes or any(fnmatchcase(f.node, pattern) for pattern in nodes)]
    with TensorflowVerifier(seed=seed, runs=RUNS if runs is None else runs) as verifier:
        return _FrameworkFixer(prepared, report, confirming.failing, unsafe, verifier, progress).run(wanted)


@dataclass(frozen=True, slots=True)
class _State:
    """A model with the repairs so far, and its file; the reason, if that is not written."""

    prepared: Prepared
    file: GraphFile | str


@dataclass(slots=True)
class _FrameworkFixer:
    prepared: Prepared
    report: Report
    failing: dict[Key, Point]
    unsafe: bool
    verifier: TensorflowVerifier
    progress: Progress | None
    outcomes: dict[Key, Outcome] = field(default_factory=dict[Key, Outcome])

    def run(self, wanted: Sequence[Finding]) -> Fixed:
        """The model with the repairs of the findings that are wanted, errors first and in the order of its nodes."""
        state = _State(self.prepared, _file_of(self.prepared.framework))
        order = {node.name: index for index, node in enumerate(self.prepared.graph.graph.walk())}
        for finding in sorted(wanted, key=lambda f: (f.rule.severity != "error", order.get(f.node, -1))):
            self.outcomes[finding.rule.code, finding.node], state = self._attempt(state, finding)
        file = state.file if isinstance(state.file, GraphFile) else None
        return Fixed(self.report, None, tuple(self.outcomes.values()), state.prepared, graph_file=file)

    def _attempt(self, state: _State, finding: Finding) -> tuple[Outcome, _State]:
        """What becomes of a finding, and the model behind it."""
        code = finding.rule.code
        if code in operand.DECLINED:
            return _declined(finding, operand.DECLINED[code]), state
        analyses = scanned(state.prepared)
        now = roots_of(state.prepared, analyses).get((code, finding.node))
        if now is None:
            return self._gone(finding), state
        case = case_of(state.prepared, analyses, now)
        if case is None:
            return _declined(finding, "nothing reads the constant"), state
        try:
            operator = _operator(state.prepared.framework, case)
            words = advice(case, operator)
            if words is not None:
                return Outcome(finding, None, False, ((BY_HAND, words),)), state
            guards = guards_of(case, operator)
        except Declined as reason:
            return _declined(finding, str(reason)), state
        return self._guarded(state, finding, guards, analyses)

    def _gone(self, finding: Finding) -> Outcome:
        last = next((o for o in reversed(self.outcomes.values()) if o.is_applied and o.along_with is None), None)
        if last is None:
            return _declined(finding, "it is seen in runs alone: no guard is tried")
        return Outcome(finding, last.repair, True, along_with=last.finding.node)

    def _guarded(
        self, state: _State, finding: Finding, guards: Sequence[Guard], analyses: Sequence[Analysis]
    ) -> tuple[Outcome, _State]:
        """The first guard that passes; where it cannot be written, in words."""
        declined: list[tuple[str, str]] = []
        for guard in guards:
            if self.progress is not None:
                self.progress(finding.node, guard.name)
            try:
                file = _written(state, guard)
                patched = _read_again(state.prepared, file)
                scan_again(state.prepared, patched, guard.finding, analyses)
                witness = self.failing.get((finding.rule.code, finding.node))
                seen = self.verifier.run_both(state.prepared, patched, guard, analyses, witness)
            except Declined as reason:
                refused = _refused(state.prepared, guard, analyses)
                if refused is None:
                    return Outcome(finding, None, False, (("file", str(reason)), (BY_HAND, guard.by_hand), *declined)), state
                declined.append((guard.name, f"{guard.intervals}: {refused}"))
                continue
            except Refused as reason:
                declined.append((guard.name, f"{guard.intervals}: {reason}"))
                continue
            # A guard that is called safe moves nothing that had a finite result: then runs show the same results.
            repair = Repair(replace(guard, safe=guard.safe and seen.values.keeps_values is True), seen)
            is_applied = repair.is_safe or self.unsafe
            outcome = Outcome(finding, repair, is_applied, tuple(declined))
            return outcome, _State(patched, file) if is_applied else state
        return Outcome(finding, None, False, tuple(declined)), state


def _declined(finding: Finding, reason: str) -> Outcome:
    return Outcome(finding, None, False, (("operand", reason),))


def _file_of(framework: FrameworkModel | None) -> GraphFile | str:
    """The file that can be rewritten, or the reason why there is none."""
    if framework is None:
        return "the model has no file"
    is_program = framework.path is None or framework.path.endswith(".py")
    if not isinstance(framework, TensorflowModel) or framework.path is None or is_program:
        return f"a {framework.framework} model is repaired in its program" if is_program else "files of Keras are not rewritten"
    try:
        return GraphFile.read(Path(framework.path), framework.options.signature)
    except Declined as reason:
        return str(reason)


def _tensorflow(framework: FrameworkModel | None) -> TensorflowModel | None:
    """The graph of TensorFlow that a model is, or that Keras made of it."""
    inner = framework.inner if isinstance(framework, KerasModel) else framework
    return inner if isinstance(inner, TensorflowModel) else None


def _operator(framework: FrameworkModel | None, case: Case) -> FrameworkOperator:
    """The operator that the user knows the node of a case by."""
    model = _tensorflow(framework)
    if model is not None:
        return operator_of(model, case.model.graph, case.node)
    # Nodes that are parts of one operator have its name in front of theirs.
    nodes = {node.name: node for node in case.model.graph.walk()}
    label = case.node.name.rpartition("/")[0]
    label = label if label in nodes else case.node.name
    parts = tuple(node for name, node in nodes.items() if name == label or name.startswith(f"{label}/"))
    return FrameworkOperator(case.node.op if len(parts) == 1 else _NUMBER.sub("", label.rpartition(".")[2]), label, parts)


def _written(state: _State, guard: Guard) -> GraphFile:
    """The file with a guard in it. Raises `Declined`."""
    file, model = state.file, _tensorflow(state.prepared.framework)
    if isinstance(file, str) or model is None:
        raise Declined(str(file))
    for held in guard.held:
        place = place_in_file(model, guard.operator, guard.name_of(held))
        file = file.held(place, held.interval, held.format)
    return file


def _refused(prepared: Prepared, guard: Guard, analyses: Sequence[Analysis]) -> str | None:
    """Why a scan of our own graph with a guard in it does not pass; None if it does."""
    try:
        scan_again(prepared, replace(prepared, graph=guarded_model(prepared.graph, guard)), guard.finding, analyses)
    except Refused as reason:
        return str(reason)
    return None


def _read_again(prepared: Prepared, file: GraphFile) -> Prepared:
    """What a changed file holds, as the target computes it."""
    old = prepared.framework
    assert isinstance(old, TensorflowModel)
    framework = file.model(old)
    graph = framework.model
    if prepared.target.reassociates and framework.reassociates:
        graph = reassociated(graph, framework.operators())
    return replace(prepared, graph=graph, framework=framework)
