"""No repair without its proof: the whole patched model scanned again, the failing input replayed, points of the box compared."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.assumptions import resolve
from tensorproof.checking import Analysis, analyse
from tensorproof.confirm.observing import Scene, is_bad, legal_specials, not_finite
from tensorproof.confirm.sampling import Point, points
from tensorproof.execute.instrument import between, instrumented, reads, rounded
from tensorproof.execute.runtime import Runtime, Session
from tensorproof.execute.worker import WorkerDied, WorkerError
from tensorproof.findings import Finding
from tensorproof.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, Format
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.frontends.onnx_precision import converted
from tensorproof.graph import ABSENT, Model
from tensorproof.preparing import Prepared
from tensorproof.repair.comparison import Comparison
from tensorproof.repair.gradients import Gradients, compare_gradients
from tensorproof.repair.proposal import Proposal
from tensorproof.report.selection import Selection
from tensorproof.targets import flushes_subnormals

if TYPE_CHECKING:
    import onnx

#: Points of the box that are run, corners among them.
RUNS = 1000
#: Points at which derivatives are compared.
GRADIENT_POINTS = 12

#: Nodes with more weights than this are not computed in float64 for comparison.
LARGEST_REFERENCE = 1 << 25
#: The types that are computed in float64 for comparison.
_FLOATING = tuple(format.onnx_code for format in (FLOAT16, BFLOAT16, FLOAT32, FLOAT64))

Key = tuple[str, str]


class Refused(Exception):
    """A repair did not pass its verification; the message says where."""


@dataclass(slots=True)
class Verification:
    """What the verification of a repair saw. It exists only for repairs that passed.

    `witness_replayed` is None where there was no failing input to replay. `values` compares the results of the replaced
    nodes, `outputs` those of the whole model.
    """

    runs: int = 0
    witness_replayed: bool | None = None
    values: Comparison = field(default_factory=Comparison)
    outputs: Comparison = field(default_factory=Comparison)
    gradients: Gradients = field(default_factory=Gradients)

    @property
    def keeps_everything(self) -> bool:
        """Whether nothing that was run speaks against calling the repair safe."""
        return self.values.keeps_values is not False and self.gradients.kept is not False

    def describe(self) -> str:
        """One line for a person."""
        replayed = {None: "", True: "the failing input gives finite values; "}[self.witness_replayed or None]
        compared = self.values if self.values.elements else self.outputs
        if compared.elements == 0:
            values = "nothing to compare, the original is finite nowhere"
        elif compared.ulp == 0:
            values = "values unchanged where the original is finite"
        else:
            values = f"values within {compared.ulp:.3g} ulp ({compared.relative:.2g} relative) of the original where it is finite"
            if compared.excess is not None:
                values += f", {'no' if compared.excess <= 0 else f'at most {compared.excess:.3g} ulp'} farther from the exact ones"
        run = f"{self.runs} points run, none fails"
        return f"proven by a scan of the whole model; {replayed}{run}; {values}; {self.gradients.describe()}"

    def to_json(self) -> dict[str, Any]:
        return {
            "proven": True,
            "witness_replayed": self.witness_replayed,
            "runs": self.runs,
            "values": self.values.to_json(),
            "outputs": self.outputs.to_json(),
            "gradients": self.gradients.to_json(),
        }


def with_proto(prepared: Prepared, proto: onnx.ModelProto) -> Prepared:
    """The same declarations for another model. What a conversion did to constants is known of those that are still there."""
    graph, old = from_proto(proto, path=prepared.path), prepared.graph
    converted_before = {old.name_of(number): number for number in old.conversions}
    for number, array in graph.constants.items() if converted_before else ():
        before = converted_before.get(graph.name_of(number))
        if before is not None and array.tobytes() == old.constants[before].tobytes():
            graph.conversions[number] = old.conversions[before]
    return replace(prepared, onnx_model=proto, graph=graph)


def scanned(prepared: Prepared) -> list[Analysis]:
    """The static analysis under every declared combination of dimension sizes, in the phase that is asked for."""
    combinations, _ = resolve(prepared.graph, prepared.declared)
    return [
        analyse(
            prepared.graph,
            assumptions,
            prepared.target,
            effort=prepared.effort,
            abstraction=prepared.abstraction,
            phase=prepared.phase,
            trainable=prepared.trainable,
        )
        for assumptions in combinations
    ]


def roots_of(prepared: Prepared, analyses: Sequence[Analysis]) -> dict[Key, Finding]:
    """The findings that are defects of their own and that a report shows by default, notes apart, by rule and node."""
    shown, fixed = Selection(), prepared.declared.weights == "fixed"
    return {
        (f.rule.code, f.node): f
        for analysis in analyses
        for f in analysis.findings
        if not f.is_note and shown.shows(f, weights_fixed=fixed)
    }


def verified(
    before: Prepared,
    after: Prepared,
    proposal: Proposal,
    analyses: Sequence[Analysis],
    *,
    witness: Point | None = None,
    seed: int = 0,
    runs: int = RUNS,
) -> Verification:
    """What the verification of a proposal saw; raises Refused if it failed anywhere.

    `analyses` are those of the original, `witness` is an input on which it fails. Nodes whose operands are not finite in a run
    of the original, because of another defect, say nothing about the repair in that run.
    """
    scan_again(before, after, proposal.finding, analyses)
    result = Verification()
    scenes = [Scene.of(before.graph, analysis) for analysis in analyses]
    with Runtime(data_folder=before.data_folder, flushes=flushes_subnormals(before.target.name)) as runtime:
        pair = _Pair(runtime, before, after, proposal, scenes[0])
        failing = None
        if witness is not None:
            failing = pair.replay(witness)
            result.witness_replayed = pair.must_be_finite or None
        sound = Reservoir(GRADIENT_POINTS, seed)
        for point in spread(scenes, seed, runs):
            given = pair.compare(point, result)
            if given is not None:
                sound.add(given)
    if proposal.kind != "precondition":
        result.gradients = compare_gradients(before.graph, after.graph, pair.watched or pair.outputs, sound.kept, failing)
    return result


def scan_again(before: Prepared, after: Prepared, finding: Finding, analyses: Sequence[Analysis]) -> None:
    """Refuse a model in which a scan still has the finding, or has one that was not there before, or does not know a node."""
    old, again = roots_of(before, analyses), scanned(after)
    new = roots_of(after, again)
    key = finding.rule.code, finding.node
    if key in new:
        raise Refused(f"the scan still finds {key[0]} at {key[1]}")
    for code, node in new.keys() - old.keys():
        raise Refused(f"the scan finds {code} at {node}, which was not there before")
    unknown = {u.node for a in analyses for u in a.coverage.not_analysed}
    for analysis in again:
        for unanalysed in analysis.coverage.not_analysed:
            if unanalysed.node not in unknown:
                raise Refused(f"{unanalysed.node} of the patched model is not analysed: {unanalysed.reason}")


def spread(scenes: Sequence[Scene], seed: int, runs: int) -> Iterator[Point]:
    """Points over all combinations of sizes."""
    share = -(-runs // len(scenes))
    for scene in scenes:
        yield from points(seed, scene.domains, share)


class Reservoir:
    """Some of the points that come by, each with the same chance (Vitter's algorithm R), the same ones for the same seed."""

    def __init__(self, size: int, seed: int) -> None:
        self.kept: list[Point] = []
        self._size = size
        self._seen = 0
        self._random = np.random.default_rng(seed)

    def add(self, point: Point) -> None:
        self._seen += 1
        if len(self.kept) < self._size:
            self.kept.append(point)
        elif (place := int(self._random.integers(self._seen))) < self._size:
            self.kept[place] = point


class _Pair:
    """The original and the patched model, run on the same points; and what was replaced, from the same operands in float64."""

    def __init__(self, runtime: Runtime, before: Prepared, after: Prepared, proposal: Proposal, scene: Scene) -> None:
        failing = next((node for node in before.graph.graph.nodes if node.name == proposal.finding.node), None)
        changed = _changed(before.proto, after.proto)
        made, kept = ({name for node in nodes for name in node.output} for nodes in (changed, after.proto.graph.node))
        own = set(() if failing is None else _floating(scene, failing.outputs[:1]))
        known = [number for node in before.graph.graph.nodes for number in node.outputs]
        self.outputs = _floating(scene, before.graph.graph.outputs)
        # A precondition is read by nodes that are not its concern.
        concerned = own if proposal.kind == "precondition" else own | made
        self.watched = [name for name in _floating(scene, known) if name in kept and name in concerned]
        # What leaves a body may come from other nodes in it, which have defects of their own.
        self.must_be_finite = failing is not None
        # Outputs of other formats are not compared, but the runtime has to come as far as them.
        every = [info.name for info in before.proto.graph.output if info.type.HasField("tensor_type")]
        self.observed = list(dict.fromkeys([*self.outputs, *self.watched, *every]))
        constant = {t.name for t in before.proto.graph.initializer}.difference(scene.free)
        self._leaves = sorted(_leaves(before.proto, changed) - constant) if self.watched else []
        operands = _floating(scene, () if failing is None else failing.inputs)
        self._operands = [name for name in dict.fromkeys([*operands, *self._leaves]) if name not in {*constant, *scene.domains}]
        self._legal = legal_specials(scene.model, scene.analysis)
        self._formats = {name: _format(before.graph, scene, name) for name in (*self.observed, *self._leaves)}
        self._shown = list(dict.fromkeys([*self.observed, *self._operands]))
        self._before = runtime.session(instrumented(_rounding(before, scene), self._shown, scene.free))
        self._after = runtime.session(instrumented(_rounding(after, scene), self.observed, scene.free))
        # There is nothing wider to measure results of float64 by.
        narrow = all(self._formats[name] != FLOAT64 for name in self.watched)
        self._exact = self._reference(runtime, before) if self._leaves and narrow else None

    def _reference(self, runtime: Runtime, before: Prepared) -> Session | None:
        """What was replaced, in float64; None if it holds too many weights for that."""
        part = between(before.proto, {name: self._formats[name].onnx_code for name in self._leaves}, self.watched)
        if sum(math.prod(tensor.dims) for tensor in part.graph.initializer) > LARGEST_REFERENCE:
            return None
        wide, _ = converted(part, FLOAT64, path=before.path, sources=_FLOATING)
        return runtime.session(wide)

    def replay(self, point: Point) -> Point | None:
        """The failing input, in the patched model; what the replaced nodes read there (all inputs, if that is not seen)."""
        for name, value in zip(self.observed, self._run(self._after, point)):
            if self.must_be_finite and (name in self.watched or not self.watched) and not_finite(value):
                raise Refused(f"the failing input still makes {name} NaN or infinite")
        try:
            return self._given({**point, **dict(zip(self._shown, self._before.run(point)))}, point)
        except (WorkerDied, WorkerError):
            return None

    def _given(self, values: Mapping[str, npt.NDArray[Any]], point: Point) -> Point:
        return {name: values[name] for name in self._leaves} if self._leaves else point

    def compare(self, point: Point, result: Verification) -> Point | None:
        """One point in all models; what the replaced nodes read there, if the original is finite."""
        after = dict(zip(self.observed, self._run(self._after, point)))
        result.runs += 1
        try:
            before = {**point, **dict(zip(self._shown, self._before.run(point)))}
        except (WorkerDied, WorkerError):
            # The original stops on this point; the patched model did not.
            return None
        if any(is_bad(before[name], self._legal.get(name, 0)) for name in self._operands):
            return None
        for name in self.watched if self.must_be_finite else ():
            # An infinity that the original has in the same place is there by intention, as in a mask.
            if not_finite(after[name]) and not np.array_equal(before[name], after[name]):
                raise Refused(f"{name} is NaN or infinite at a point of the box")
        exact = self._exactly(before)
        for name in self.watched:
            result.values.add(before[name], after[name], exact.get(name), self._formats[name])
        for name in self.outputs:
            result.outputs.add(before[name], after[name], None, self._formats[name])
        is_finite = not any(not_finite(before[name]) for name in self.watched or self.outputs)
        return self._given(before, point) if is_finite else None

    def _exactly(self, values: Mapping[str, npt.NDArray[Any]]) -> Mapping[str, npt.NDArray[Any]]:
        if self._exact is None:
            return {}
        given = {name: values[name] for name in self._leaves}
        wide = {name: array.astype(np.float64) if self._formats[name].is_float else array for name, array in given.items()}
        try:
            return dict(zip(self.watched, self._exact.run(wide)))
        except (WorkerDied, WorkerError):
            # Not every operator has a float64 kernel.
            self._exact = None
            return {}

    def _run(self, session: Session, point: Point) -> list[npt.NDArray[Any]]:
        try:
            return session.run(point)
        except (WorkerDied, WorkerError) as reason:
            raise Refused(f"ONNX Runtime does not run the patched model: {reason}") from None


def _changed(before: onnx.ModelProto, after: onnx.ModelProto) -> list[onnx.NodeProto]:
    """The nodes of the patched model that the original does not have as they are."""
    old = {node.SerializeToString(deterministic=True) for node in before.graph.node}
    return [node for node in after.graph.node if node.SerializeToString(deterministic=True) not in old]


def _leaves(before: onnx.ModelProto, changed: Sequence[onnx.NodeProto]) -> set[str]:
    """The values of the original that changed nodes read, but for those that other changed nodes make."""
    known = {name for node in before.graph.node for name in node.output} | {info.name for info in before.graph.input}
    inner = {name for node in changed for name in node.output}
    return {name for node in changed for name in reads(node) if name in known and name not in inner}


def _rounding(prepared: Prepared, scene: Scene) -> onnx.ModelProto:
    """The model with real rounding of 16-bit values, as confirmations run it."""
    narrow = {
        scene.model.name_of(n)
        for n, summary in scene.analysis.summaries.items()
        if summary.format.is_float and summary.format.bits == 16
    }
    return rounded(prepared.proto, narrow) if narrow else prepared.proto


def _floating(scene: Scene, numbers: Sequence[int]) -> list[str]:
    """The names of the floating values among these, each once."""
    return list(dict.fromkeys(scene.model.name_of(n) for n in numbers if n != ABSENT and _is_float(scene, n)))


def _is_float(scene: Scene, number: int) -> bool:
    summary = scene.analysis.summaries.get(number)
    return summary is not None and summary.format.is_float


def _format(model: Model, scene: Scene, name: str) -> Format:
    number = model.find_value(name)
    summary = None if number is None else scene.analysis.summaries.get(number)
    return FLOAT32 if summary is None else summary.format
