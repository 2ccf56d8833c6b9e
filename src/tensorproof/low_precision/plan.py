"""`plan_precision`: which nodes of a model have to stay in float32 when it is converted to float16 or bfloat16."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tensorproof.assumptions import Assumptions, resolve
from tensorproof.confirm.sampling import Point
from tensorproof.errors import ConfigurationError, ModelError
from tensorproof.execute.runtime import Runtime
from tensorproof.formats import FLOAT16, FLOAT32, Format
from tensorproof.frontends.onnx_precision import find_precision
from tensorproof.low_precision.mixed import Blueprint
from tensorproof.low_precision.parts import Part
from tensorproof.low_precision.proven import Proven
from tensorproof.low_precision.sampled import Check, Sampled
from tensorproof.low_precision.samples import drawn, given
from tensorproof.low_precision.search import All, Budget, Judge, Reasons, grown, minimised
from tensorproof.preparing import Prepared

if TYPE_CHECKING:
    import onnx

Guarantee = Literal["sampled", "proven"]
GUARANTEES: tuple[Guarantee, ...] = ("sampled", "proven")

#: Evaluations that a search may take by default: runs of one sample, and static scans.
DEFAULT_RUNS = 30_000
DEFAULT_SCANS = 100
#: How often samples on which a check fails are added, and the plan is made again.
_ROUNDS = 4
#: The largest message that the protobuf format can hold.
_LARGEST_MODEL = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Stays:
    """A node that stays in float32, and why.

    `is_named` says whether the name stands in the file. `floating_results` counts its results, if all of them are floating.
    """

    name: str
    op: str
    why: str
    is_named: bool
    floating_results: int

    @classmethod
    def of(cls, part: Part, why: str) -> Stays:
        label = f"{part.node.domain}::{part.node.op_type}" if part.node.domain else part.node.op_type
        results = [index for index, value in enumerate(part.node.output) if value]
        floating = len(results) if part.low_outputs.issuperset(results) else 0
        return cls(part.name, label, why, part.node.name == part.name, floating)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "op": self.op, "why": self.why}


@dataclass(frozen=True, slots=True)
class Plan:
    """Which nodes stay in float32, what that rests on, and the mixed model.

    `kept` were chosen, `fixed` have no form in the precision. `plain_failures` counts the samples on which the model fails with
    nothing kept, `check` says how the plan did on fresh samples; both are None if ONNX Runtime does not run the model, and
    `remarks` says so then.
    """

    model: str
    precision: str
    guarantee: Guarantee
    kept: tuple[Stays, ...]
    fixed: tuple[Stays, ...]
    floating_nodes: int
    samples: int
    tolerance: float
    plain_failures: int | None
    check: Check | None
    is_minimal: bool
    evaluations: int
    assumptions: Mapping[str, Any]
    remarks: tuple[str, ...]
    mixed: onnx.ModelProto = field(repr=False, compare=False)

    @property
    def share(self) -> float:
        """The part of the floating nodes that stays in float32, those without a form in the precision included."""
        return (len(self.kept) + len(self.fixed)) / self.floating_nodes

    @property
    def passed(self) -> bool:
        """Whether nothing failed on fresh samples."""
        return self.check is None or self.check.passed

    def to_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "precision": self.precision,
            "guarantee": self.guarantee,
            "kept": [node.to_json() for node in self.kept],
            "fixed": [node.to_json() for node in self.fixed],
            "floating_nodes": self.floating_nodes,
            "share": self.share,
            "samples": self.samples,
            "tolerance": self.tolerance,
            "plain_failures": self.plain_failures,
            "check": None if self.check is None else self.check.to_json(),
            "minimal": self.is_minimal,
            "evaluations": self.evaluations,
            "assumptions": dict(self.assumptions),
            "remarks": list(self.remarks),
        }

    def serialised(self) -> bytes:
        """The mixed model as the bytes of an ONNX file."""
        if self.mixed.ByteSize() > _LARGEST_MODEL:
            raise ModelError(f"{self.model}: its mixed form is larger than 2 GiB, which one ONNX file cannot hold")
        return self.mixed.SerializeToString()


def plan_precision(
    model: str | Path | onnx.ModelProto,
    *,
    precision: str,
    guarantee: str = "sampled",
    ranges: Mapping[str, Any] | None = None,
    dims: Mapping[str, int | tuple[int, int]] | None = None,
    samples: str | None = None,
    target: str = "onnxruntime-cpu",
    effort: int = 1,
    runs: int = 200,
    seed: int = 0,
    tolerance: float = 32.0,
    evaluations: int | None = None,
    progress: Callable[[str, int], None] | None = None,
) -> Plan:
    """A small set of nodes that have to stay in float32 when the rest of the model runs in `precision`.

    With the guarantee `sampled`, `runs` points of the declared box (and the arrays of `samples`) stay finite wherever float32 is,
    and floating outputs stay within `tolerance` epsilons of the precision, relative to their largest element, of what float32
    gives; nothing is claimed beyond these samples. With `proven` the static scan of the mixed model, besides, raises no alarm that
    the float32 model does not raise: it holds for all inputs of the box, but says nothing about accuracy.

    The set is minimal in that no single node can be left out, unless `evaluations` (runs of one sample; static scans with
    `proven`) were spent before that was known. The plan is checked on fresh samples; those that fail are added, and it is made
    again a few times.
    """
    format = _low_format(precision)
    chosen = _guarantee(guarantee)
    if runs < 1:
        raise ConfigurationError(f"runs {runs}: write a number above 0")
    if evaluations is not None and evaluations < 1:
        raise ConfigurationError(f"evaluations {evaluations}: write a number above 0")
    if not tolerance > 0.0:
        raise ConfigurationError(f"tolerance {tolerance}: write a number above 0")
    prepared = Prepared.of(model, ranges=ranges, dims=dims, samples=samples, target=target, effort=effort)
    blueprint = Blueprint(prepared.proto, prepared.graph, format, path=prepared.path)
    _check_that_there_is_something_to_plan(blueprint)
    with Runtime(data_folder=prepared.data_folder) as runtime:
        making = _Making(prepared, blueprint, runtime, chosen, runs, seed, tolerance, evaluations, samples, progress)
        return making.plan()


def _low_format(precision: str) -> Format:
    format = find_precision(precision)
    if format.bits >= FLOAT32.bits:
        raise ConfigurationError(f"a plan needs a lower precision than float32, such as float16 or bfloat16, not {format}")
    return format


def _guarantee(name: str) -> Guarantee:
    for known in GUARANTEES:
        if name == known:
            return known
    raise ConfigurationError(f"unknown guarantee {name!r}; write {' or '.join(GUARANTEES)}")


def _check_that_there_is_something_to_plan(blueprint: Blueprint) -> None:
    if blueprint.free:
        return
    name = blueprint.tensors.name
    if blueprint.fixed:
        raise ModelError(f"{name}: no floating node can be converted to {blueprint.format} ({blueprint.fixed[0].why_fixed})")
    graph = blueprint.proto.graph
    codes = {info.type.tensor_type.elem_type for info in (*graph.input, *graph.output, *graph.value_info)}
    codes |= {tensor.data_type for tensor in graph.initializer}
    if blueprint.format.onnx_code in codes:
        raise ModelError(f"{name}: the model is in {blueprint.format} already; plan with its float32 form")
    raise ModelError(f"{name}: no node of the model works on float32 or float64 numbers, there is nothing to convert")


@dataclass(slots=True)
class _Making:
    """A plan on its way."""

    prepared: Prepared
    blueprint: Blueprint
    runtime: Runtime
    guarantee: Guarantee
    runs: int
    seed: int
    tolerance: float
    evaluations: int | None
    sample_file: str | None
    progress: Callable[[str, int], None] | None
    remarks: list[str] = field(default_factory=list[str])
    budgets: list[Budget] = field(default_factory=list[Budget])
    is_minimal: bool = True

    def plan(self) -> Plan:
        combinations, remarks = resolve(self.prepared.graph, self.prepared.declared)
        self.remarks.extend(remarks)
        self.tell_what_is_low_already()
        sampled = self.sampled(combinations)
        proven = self.proven() if self.guarantee == "proven" else None
        judge = All([judge for judge in (sampled, proven) if judge is not None])
        failures = None if sampled is None else sampled.count_failures(())
        kept: dict[str, str] = {}
        check = None
        for number in range(_ROUNDS):
            kept = self.searched(judge, kept if sampled is None else {**sampled.out_of_range(), **kept})
            if sampled is None:
                break
            fresh = self.fresh(sampled, combinations, number)
            check, failed = fresh.check(kept)
            fresh.close()
            if check.passed:
                break
            sampled.add(failed)
        self.tell_what_was_run(proven)
        return self.made(kept, failures, check, combinations[0], 0 if sampled is None else len(sampled.points))

    def sampled(self, combinations: Sequence[Assumptions]) -> Sampled | None:
        """The judge that runs; None if a proof does without it, as ONNX Runtime does not run the model."""
        own, remark = given(self.sample_file, self.prepared.graph, combinations[0])
        if remark:
            self.remarks.append(remark)
        points = [*own, *drawn(self.prepared.graph, combinations, self.seed, self.runs)]
        allowed = self.evaluations if self.guarantee == "sampled" else None
        budget = self.budget("runs", allowed or DEFAULT_RUNS)
        try:
            judge = Sampled(self.blueprint, points, self.runtime, budget, self.tolerance)
        except ModelError as error:
            if self.guarantee == "sampled":
                raise ModelError(f"{error}; --guarantee proven needs no runs") from None
            self.remarks.append(f"no samples were run: {error}")
            return None
        judge.exclude_what_cannot_run()
        return judge

    def fresh(self, judge: Sampled, combinations: Sequence[Assumptions], number: int) -> Sampled:
        """A judge with samples that no search has seen."""
        count = max(1, self.runs // 4)
        first = self.runs + number * count
        points: list[Point] = drawn(self.prepared.graph, combinations, self.seed, count, first=first)
        return Sampled(self.blueprint, points, self.runtime, judge.budget, self.tolerance)

    def searched(self, judge: Judge, start: Reasons) -> dict[str, str]:
        """The smallest set that a judge accepts, in the order of the nodes, with reasons."""
        reasons = grown(judge, start)
        order = [part.name for part in self.blueprint.free if part.name in reasons]
        left, self.is_minimal = minimised(judge, order)
        return {name: reasons[name] for name in left}

    def proven(self) -> Proven:
        """The judge that proves."""
        prepared = self.prepared
        budget = self.budget("scans", self.evaluations or DEFAULT_SCANS)
        return Proven(self.blueprint, prepared.declared, prepared.target, prepared.effort, prepared.abstraction, budget)

    def budget(self, what: str, evaluations: int) -> Budget:
        """A budget that is counted in the plan, and shown to the user as it is spent."""
        progress = self.progress
        budget = Budget(evaluations, None if progress is None else lambda spent: progress(what, spent))
        self.budgets.append(budget)
        return budget

    def tell_what_is_low_already(self) -> None:
        """A model may be mixed as it comes: nodes that work in the format are none of the plan's."""
        format = self.blueprint.format
        if any(value.format is format for value in self.prepared.graph.values):
            self.remarks.append(f"the model is partly in {format} already; that part is left as it is, and is not counted")

    def tell_what_was_run(self, proven: Proven | None) -> None:
        if proven is not None and proven.known:
            self.remarks.append(f"{len(proven.known)} alarms of the float32 model itself are not covered: see `tensorproof check`")
        if proven is not None and proven.not_analysed:
            self.remarks.append(f"not analysed, and not covered by the proof: {', '.join(sorted(proven.not_analysed))}")
        if self.blueprint.format is not FLOAT16:
            self.remarks.append(
                f"ONNX Runtime's CPU provider has no {self.blueprint.format} kernels: the float32 model was run with every "
                f"{self.blueprint.format} value rounded; the mixed model itself was not run"
            )

    def check_validity(self, mixed: onnx.ModelProto) -> None:
        """What is handed out is a valid model, if the original is one."""
        objection = _objection(mixed)
        if objection and not _objection(self.blueprint.proto):
            raise ModelError(f"{self.blueprint.tensors.name}: its mixed form is not valid ({objection})")
        if objection:
            self.remarks.append(f"the file does not pass the checker of ONNX, nor does its mixed form ({objection})")

    def made(self, kept: Reasons, failures: int | None, check: Check | None, assumptions: Assumptions, samples: int) -> Plan:
        blueprint = self.blueprint
        parts = {part.name: part for part in blueprint.free}
        mixed = blueprint.mixed(kept).proto
        self.check_validity(mixed)
        return Plan(
            model=blueprint.tensors.name,
            precision=blueprint.format.name,
            guarantee=self.guarantee,
            kept=tuple(Stays.of(parts[name], why) for name, why in kept.items()),
            fixed=tuple(Stays.of(part, part.why_fixed) for part in blueprint.fixed),
            floating_nodes=len(blueprint.free) + len(blueprint.fixed),
            samples=samples,
            tolerance=self.tolerance,
            plain_failures=failures,
            check=check,
            is_minimal=self.is_minimal,
            evaluations=sum(budget.spent for budget in self.budgets),
            assumptions=assumptions.to_json(self.prepared.graph),
            remarks=tuple(self.remarks),
            mixed=mixed,
        )


def _objection(proto: onnx.ModelProto) -> str:
    """What the checker of ONNX says against a model; operators of other domains have no schema to be checked against."""
    import onnx

    if proto.ByteSize() > _LARGEST_MODEL:
        return ""  # the checker works on the serialised form
    try:
        onnx.checker.check_model(proto)
    except onnx.checker.ValidationError as error:
        return str(error).strip().splitlines()[0]
    return ""
