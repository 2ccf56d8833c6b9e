"""Quick confirmation: samples and corners of the box, run in ONNX Runtime with every value of interest visible.

A node fails when all its operands are finite (or legal special values) and its result is not. A finding becomes confirmed
only when its own node is among the failing ones of a real run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.assumptions import Domain
from tensorproof.checking import Analysis
from tensorproof.confirm import witness
from tensorproof.confirm.sampling import Point, points
from tensorproof.execute.bodies import watch_in_bodies
from tensorproof.execute.instrument import instrumented, prefix, rounded
from tensorproof.execute.worker import Worker, WorkerDied, WorkerError
from tensorproof.findings import Finding, Reaches, Verdict
from tensorproof.formats import FLOAT32, Format
from tensorproof.frontends.onnx_tensor import Tensors
from tensorproof.graph import ABSENT, Model, Node
from tensorproof.ranges.range import NEGATIVE_INFINITY, POSITIVE_INFINITY

if TYPE_CHECKING:
    import onnx

#: Values fetched in one session may take this much memory; more are fetched in slices.
SLICE_BYTES = 256 << 20

#: The part of a model that a witness needs is saved if its external data takes no more than this.
LARGEST_WITNESS = 1 << 30

#: The value that says, in a run, whether a node inside a body failed.
FLAG = "tensorproof.failed"


@dataclass(slots=True)
class _Watch:
    """A finding whose node is observed, and what the runs have shown of it."""

    index: int
    finding: Finding
    node: Node
    operands: tuple[str, ...]
    results: tuple[str, ...]
    in_body: bool = False
    part: onnx.ModelProto | None = None
    low: float = np.inf
    high: float = -np.inf
    point: Point | None = None
    reaches: Reaches | None = None

    def values(self) -> tuple[str, ...]:
        at_operand = self.finding.rule.code in witness.SEEN_AT
        return self.operands if at_operand else self.operands + self.results


@dataclass(slots=True)
class QuickConfirm:
    """The search of `check`: a fixed number of points, the same ones for the same seed."""

    proto: onnx.ModelProto
    seed: int = 0
    runs: int = 33
    time_limit: float | None = None
    folder: Path | None = None
    data_folder: str | None = None
    progress: Callable[[int], None] | None = None
    notes: list[str] = field(default_factory=list[str])

    def __call__(self, model: Model, analysis: Analysis) -> Iterable[Finding]:
        watches = list(self._watches(model, analysis))
        unfed = [model.name_of(n) for n in model.graph.inputs if not _can_be_fed(model, n, analysis)]
        if watches and unfed:
            self.notes.append(f"not confirmed: input {unfed[0]!r} has no declared shape, or is not a tensor")
        elif watches:
            self._round_values(model, analysis)
            domains = _domains(model, analysis)
            free = tuple(model.name_of(n) for n in analysis.assumptions.weights)
            legal = _legal_specials(model, analysis)
            known = _constants(model, watches)
            for group in _slices([w for w in watches if not w.in_body], model, analysis):
                self._observe(group, domains, free, legal, known)
            self._observe_bodies(watches, model, analysis, domains, free)
            self._replay(watches, free)
            self._save(watches, free, legal)
        settled = {w.index: _settle(w) for w in watches}
        return [settled.get(index, finding) for index, finding in enumerate(analysis.findings)]

    def _round_values(self, model: Model, analysis: Analysis) -> None:
        """Make the runtime round every 16-bit value, as the model says, before anything is observed."""
        produced = {n for node in model.graph.nodes for n in node.outputs if n != ABSENT}
        narrow = {
            model.name_of(n)
            for n in produced
            if (s := analysis.summaries.get(n)) is not None and s.format.is_float and s.format.bits == 16
        }
        if narrow:
            self.proto = rounded(self.proto, narrow)
            self.notes.append(
                "16-bit values were rounded after every operator, as the model says; "
                "ONNX Runtime's CPU provider alone would keep chains of them in float32"
            )

    def _watches(self, model: Model, analysis: Analysis) -> Iterable[_Watch]:
        nodes = {node.name: node for node in model.graph.walk()}
        inside = {node.number for node in nodes.values()} - {node.number for node in model.graph.nodes}
        for index, finding in enumerate(analysis.findings):
            node = nodes.get(finding.node)
            if node is None or finding.consequence_of or not finding.rule.code.startswith(("NUM1", "NUM2")):
                continue
            operands = tuple(dict.fromkeys(model.name_of(n) for n in node.inputs if n != ABSENT))
            results = tuple(model.name_of(n) for n in node.outputs if n != ABSENT)
            yield _Watch(index, finding, node, operands, results, node.number in inside)

    def _observe(
        self,
        group: Sequence[_Watch],
        domains: Mapping[str, tuple[Domain, tuple[int, ...], Format]],
        free: Sequence[str],
        legal: Mapping[str, int],
        known: Mapping[str, npt.NDArray[Any]],
    ) -> None:
        """Run the points over one slice of values. A run that ends the process ends the slice, with what it has shown."""
        names = list(dict.fromkeys(n for w in group for n in w.values() if n not in domains and n not in known))
        if not names:
            # Everything of interest is an input: no run is needed to see it.
            for point in points(self.seed, domains, self.runs):
                for watch in group:
                    _look(watch, {**known, **point}, legal, point)
            return
        model = prefix(self.proto, names, free)
        try:
            with Worker(time_limit=self.time_limit) as worker:
                handle = worker.load(model.SerializeToString(), self.data_folder)
                for count, point in enumerate(points(self.seed, domains, self.runs)):
                    values = {**known, **point, **dict(zip(names, worker.run(handle, point)))}
                    for watch in group:
                        _look(watch, values, legal, point)
                    if self.progress is not None:
                        self.progress(count + 1)
        except WorkerDied as death:
            self.notes.append(f"confirmation was cut short: {death}")
        except WorkerError as refusal:
            self.notes.append(f"not confirmed, ONNX Runtime refuses the model: {refusal}")

    def _observe_bodies(
        self,
        watches: Sequence[_Watch],
        model: Model,
        analysis: Analysis,
        domains: Mapping[str, tuple[Domain, tuple[int, ...], Format]],
        free: Sequence[str],
    ) -> None:
        """Findings inside the bodies of If, Loop and Scan: one flag each, led out of the body."""
        for watch in watches:
            if not watch.in_body or not watch.results:
                continue
            numbers = (*watch.node.inputs, *watch.node.outputs)
            floating = frozenset(model.name_of(n) for n in numbers if n != ABSENT and _is_floating(analysis, n))
            flagged = watch_in_bodies(self.proto, watch.results[0], floating, FLAG)
            if flagged is None or watch.results[0] not in floating:
                continue
            part = prefix(flagged, [FLAG], free)
            try:
                with Worker(time_limit=self.time_limit) as worker:
                    handle = worker.load(part.SerializeToString(), self.data_folder)
                    for point in points(self.seed, domains, self.runs):
                        if worker.run(handle, point)[0].any():
                            watch.point, watch.part = point, part
                            break
            except WorkerDied as death:
                self.notes.append(f"confirmation was cut short: {death}")
            except WorkerError as refusal:
                self.notes.append(f"not confirmed, ONNX Runtime refuses the model: {refusal}")

    def _replay(self, watches: Sequence[_Watch], free: Sequence[str]) -> None:
        """Where does the bad value go? The unmodified model is run on each witness."""
        failed = [w for w in watches if w.point is not None]
        if not failed:
            return
        outputs = [info.name for info in self.proto.graph.output]
        model = instrumented(self.proto, outputs, free)
        data = model.SerializeToString()
        worker: Worker | None = None
        handle = 0
        for watch in failed:
            assert watch.point is not None
            try:
                if worker is None:
                    worker = Worker(time_limit=self.time_limit)
                    handle = worker.load(data, self.data_folder)
                watch.reaches = "output" if any(map(_not_finite, worker.run(handle, watch.point))) else "nowhere"
                if witness.SEEN_AT.get(watch.finding.rule.code) == "stop":
                    # The runtime went on: whatever the divisor was, this run did not fail.
                    watch.point = watch.reaches = None
            except (WorkerDied, WorkerError):
                # The model itself stops on this input: nothing could reach the user more surely.
                watch.reaches = "output"
                if worker is not None:
                    worker.close()
                worker = None
        if worker is not None:
            worker.close()

    def _save(self, watches: Sequence[_Watch], free: Sequence[str], legal: Mapping[str, int]) -> None:
        if self.folder is None:
            return
        for watch in watches:
            if watch.point is None:
                continue
            if watch.part is not None:
                if not self._embedded(watch.part):
                    continue
                saved = witness.save(self.folder, watch.finding, watch.point, watch.part, (), (FLAG,), {})
                watch.finding = replace(watch.finding, witness=saved)
                continue
            names = list(dict.fromkeys(watch.operands + watch.results))
            produced = {name for node in self.proto.graph.node for name in node.output}
            part = prefix(self.proto, [n for n in names if n in produced], free)
            if not self._embedded(part):
                continue
            allowed = {name: _values(legal.get(name, 0)) for name in names}
            saved = witness.save(self.folder, watch.finding, watch.point, part, watch.operands, watch.results, allowed)
            watch.finding = replace(watch.finding, witness=saved)

    def _embedded(self, part: onnx.ModelProto) -> bool:
        """Make the external data of a part of the model part of it; whether a file can hold that."""
        external = [t for t in part.graph.initializer if t.data_location == type(t).EXTERNAL]
        if not external:
            return True
        size = sum(math.prod(t.dims) * 8 for t in external)
        if self.data_folder is None or size > LARGEST_WITNESS:
            return False
        # The data lies beside the model, whatever the name of its file.
        tensors = Tensors(part.graph.name, str(Path(self.data_folder) / "model.onnx"))
        for tensor in external:
            tensors.embed(tensor)
        return True


def _domains(model: Model, analysis: Analysis) -> dict[str, tuple[Domain, tuple[int, ...], Format]]:
    """Everything that is sampled: the inputs, and the weights that are ranges."""
    assumed = analysis.assumptions
    found: dict[str, tuple[Domain, tuple[int, ...], Format]] = {}
    for n, domain in assumed.inputs.items():
        shape = assumed.shapes[n]
        if shape is not None:
            found[model.name_of(n)] = (domain, shape, model.values[n].format or FLOAT32)
    for n, domain in assumed.weights.items():
        found[model.name_of(n)] = (domain, model.constants[n].shape, model.values[n].format or FLOAT32)
    return found


def _is_floating(analysis: Analysis, number: int) -> bool:
    summary = analysis.summaries.get(number)
    return summary is not None and summary.format.is_float


def _can_be_fed(model: Model, number: int, analysis: Analysis) -> bool:
    value = model.values[number]
    return value.container == "tensor" and analysis.assumptions.shapes[number] is not None


def _legal_specials(model: Model, analysis: Analysis) -> dict[str, int]:
    return {model.name_of(n): s.special for n, s in analysis.summaries.items() if s.special}


def _constants(model: Model, watches: Iterable[_Watch]) -> dict[str, npt.NDArray[Any]]:
    """Operands of watched nodes that are constants: known without a run."""
    numbers = {n for w in watches for n in w.node.inputs if n in model.constants}
    return {model.name_of(n): model.constants[n] for n in numbers}


def _slices(watches: Sequence[_Watch], model: Model, analysis: Analysis) -> Iterable[list[_Watch]]:
    """Groups of findings whose values fit the memory of one session; those that may stop the process are alone."""
    group: list[_Watch] = []
    taken = 0
    for watch in watches:
        need = sum(_bytes(n, analysis) for n in (*watch.node.inputs, *watch.node.outputs) if n != ABSENT)
        if watch.finding.rule.code in witness.SEEN_AT:
            yield [watch]
            continue
        if group and taken + need > SLICE_BYTES:
            yield group
            group, taken = [], 0
        group.append(watch)
        taken += need
    if group:
        yield group


def _bytes(number: int, analysis: Analysis) -> int:
    summary = analysis.summaries.get(number)
    if summary is None or summary.shape is None:
        return 0
    count = 1
    for size in summary.shape:
        count *= size if isinstance(size, int) else max(size.high or 1, 1)
    return count * max(summary.format.bits // 8, 1)


def _look(watch: _Watch, values: Mapping[str, Any], legal: Mapping[str, int], point: Point) -> None:
    """What one run shows of a finding: the worst finite value, and whether the node failed."""
    measured = watch.finding.operand
    numbers = _numbers(values.get(measured))
    if numbers is not None:
        finite = numbers[np.isfinite(numbers)]
        if finite.size:
            watch.low, watch.high = min(watch.low, float(finite.min())), max(watch.high, float(finite.max()))
    if watch.point is not None or any(_bad(values.get(name), legal.get(name, 0)) for name in watch.operands):
        return
    if watch.finding.rule.code in witness.SEEN_AT:
        failed = numbers is not None and _outside(watch, numbers)
    else:
        failed = any(_bad(values.get(name), legal.get(name, 0)) for name in watch.results)
    if failed:
        watch.point = point


def _outside(watch: _Watch, numbers: npt.NDArray[np.float64]) -> bool:
    if watch.finding.rule.code == "NUM107":
        return bool((numbers == 0).any())
    return bool((np.abs(numbers) >= 2.0**63).any())


def _numbers(array: Any) -> npt.NDArray[np.float64] | None:
    if array is None or not isinstance(array, np.ndarray) or array.dtype.kind not in "fiubV":
        return None
    return array.astype(np.float64)


def _bad(array: Any, legal: int) -> bool:
    """Whether an array holds a special value that is not a legal one."""
    if array is None or not isinstance(array, np.ndarray) or array.dtype.kind not in "fV":
        return False
    numbers = array.astype(np.float64)
    bad = np.isnan(numbers)
    if not legal & POSITIVE_INFINITY:
        bad |= numbers == np.inf
    if not legal & NEGATIVE_INFINITY:
        bad |= numbers == -np.inf
    return bool(bad.any())


def _not_finite(value: Any) -> bool:
    if isinstance(value, list):
        return any(_not_finite(v) for v in value)
    return _bad(value, 0)


def _values(flags: int) -> tuple[float, ...]:
    return tuple(value for bit, value in ((POSITIVE_INFINITY, np.inf), (NEGATIVE_INFINITY, -np.inf)) if flags & bit)


def _settle(watch: _Watch) -> Finding:
    """The finding with what the runs have shown."""
    reached = None if watch.low > watch.high else (watch.low, watch.high)
    if watch.point is None:
        return replace(watch.finding, reached=reached)
    return replace(watch.finding, reached=reached, verdict=Verdict.CONFIRMED, reaches=watch.reaches)
