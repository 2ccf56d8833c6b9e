"""Quick confirmation: samples and corners of the box, run in ONNX Runtime with every value of interest visible.

A node fails when all its operands are finite (or legal special values) and its result is not. A finding becomes confirmed
only when its own node is among the failing ones of a real run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorproof.checking import Analysis
from tensorproof.confirm import witness
from tensorproof.confirm.observer import CannotObserve, Observer
from tensorproof.confirm.observing import (
    Scene,
    Watch,
    can_be_fed,
    constants_of,
    legal_specials,
    look,
    not_finite,
    special_values,
    watches_of,
)
from tensorproof.confirm.sampling import Point, points
from tensorproof.confirm.witness import FLAG
from tensorproof.execute.instrument import instrumented, prefix, rounded
from tensorproof.execute.runtime import Runtime
from tensorproof.execute.worker import WorkerDied, WorkerError
from tensorproof.findings import Finding
from tensorproof.frontends.onnx_tensor import Tensors
from tensorproof.graph import ABSENT, Model
from tensorproof.targets import flushes_subnormals

if TYPE_CHECKING:
    import onnx

#: Values fetched in one session may take this much memory; more are fetched in slices.
SLICE_BYTES = 256 << 20

#: The part of a model that a witness needs is saved if its external data takes no more than this.
LARGEST_WITNESS = 1 << 30


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
    #: Names or patterns of the nodes that are tried; all, if there is none.
    nodes: tuple[str, ...] = ()
    #: Whether samples end with the first one that fails; else all of them are run, for what they reach.
    is_hasty: bool = False
    notes: list[str] = field(default_factory=list[str])
    #: The points on which nodes failed, by rule and node.
    failing: dict[tuple[str, str], Point] = field(default_factory=dict[tuple[str, str], Point])

    def __call__(self, model: Model, analysis: Analysis) -> Iterable[Finding]:
        watches = [w for w in watches_of(model, analysis) if self._is_chosen(w)]
        unfed = [model.name_of(n) for n in model.graph.inputs if not can_be_fed(model, n, analysis)]
        if watches and unfed:
            self.notes.append(f"not confirmed: input {unfed[0]!r} has no declared shape, or is not a tensor")
        elif watches:
            self._round_values(model, analysis)
            scene = Scene.of(model, analysis)
            with self._runtime(watches) as runtime:
                for group in _slices([w for w in watches if not w.in_body], model, analysis):
                    self._observe(runtime, group, scene)
                self._observe_bodies(runtime, watches, scene)
                self._look_further(runtime, watches, scene)
                self._replay(runtime, watches, scene.free)
            self._save(watches, scene)
        self.failing |= {(w.finding.rule.code, w.finding.node): w.point for w in watches if w.point is not None}
        settled = {w.index: w.settled() for w in watches}
        return [settled.get(index, finding) for index, finding in enumerate(analysis.findings)]

    def _runtime(self, watches: Sequence[Watch]) -> Runtime:
        """ONNX Runtime in the arithmetic of the target, as far as it has it: subnormals as zeros, where the target has none."""
        flushes = any(flushes_subnormals(watch.finding.target) for watch in watches)
        if flushes:
            self.notes.append("ONNX Runtime took subnormal numbers for zero, as the target does")
        return Runtime(data_folder=self.data_folder, time_limit=self.time_limit, flushes=flushes)

    def _is_chosen(self, watch: Watch) -> bool:
        return not self.nodes or any(fnmatchcase(watch.finding.node, pattern) for pattern in self.nodes)

    def _look_further(self, runtime: Runtime, watches: Sequence[Watch], scene: Scene) -> None:
        """What a search that is not quick does about findings that no sample confirmed."""

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

    def _observe(self, runtime: Runtime, group: Sequence[Watch], scene: Scene) -> None:
        """Run the points over one slice of values. A run that ends the process ends the slice, with what it has shown."""
        domains, legal = scene.domains, legal_specials(scene.model, scene.analysis)
        known = constants_of(scene.model, group)
        names = list(dict.fromkeys(n for w in group for n in w.values() if n not in domains and n not in known))
        if not names:
            # Everything of interest is an input: no run is needed to see it.
            for point in points(self.seed, domains, self.runs):
                for watch in group:
                    _note(watch, {**known, **point}, legal, point)
            return
        session = runtime.session(prefix(self.proto, names, scene.free))
        try:
            for count, point in enumerate(points(self.seed, domains, self.runs)):
                values = {**known, **point, **dict(zip(names, session.run(point)))}
                for watch in group:
                    _note(watch, values, legal, point)
                if self.progress is not None:
                    self.progress(count + 1)
                if self.is_hasty and all(watch.point is not None for watch in group):
                    break
        except WorkerDied as death:
            self.notes.append(f"confirmation was cut short: {death}")
        except WorkerError as refusal:
            self.notes.append(f"not confirmed, ONNX Runtime refuses the model: {refusal}")

    def _observe_bodies(self, runtime: Runtime, watches: Sequence[Watch], scene: Scene) -> None:
        """Findings inside the bodies of If, Loop and Scan: one flag each, led out of the body."""
        for watch in watches:
            if not watch.in_body:
                continue
            try:
                observer = Observer(runtime, self.proto, scene.model, scene.analysis, watch, scene.free)
                any(observer.note(point) for point in points(self.seed, scene.domains, self.runs))
            except CannotObserve as reason:
                self.notes.append(f"{watch.finding.node}: {reason}")

    def _replay(self, runtime: Runtime, watches: Sequence[Watch], free: Sequence[str]) -> None:
        """Where does the bad value go? The unmodified model is run on each witness."""
        failed = [w for w in watches if w.point is not None and w.reaches is None]
        if not failed:
            return
        session = runtime.session(instrumented(self.proto, [info.name for info in self.proto.graph.output], free))
        for watch in failed:
            assert watch.point is not None
            try:
                watch.reaches = "output" if any(map(not_finite, session.run(watch.point))) else "nowhere"
                if witness.SEEN_AT.get(watch.finding.rule.code) == "stop":
                    # The runtime went on: whatever the divisor was, this run did not fail.
                    watch.point = watch.reaches = None
            except (WorkerDied, WorkerError):
                # The model itself stops on this input: nothing could reach the user more surely.
                watch.reaches = "output"

    def _save(self, watches: Sequence[Watch], scene: Scene) -> None:
        """Save the witnesses that are not saved yet."""
        if self.folder is None:
            return
        model, legal = scene.model, legal_specials(scene.model, scene.analysis)
        model_name = Path(model.path).name if model.path else model.name
        for watch in watches:
            if watch.point is None or watch.finding.witness is not None:
                continue
            if watch.part is not None:
                if not self._embedded(watch.part):
                    continue
                saved = witness.save(self.folder, watch.finding, watch.point, watch.part, (), (FLAG,), {}, model_name=model_name)
                watch.finding = replace(watch.finding, witness=saved)
                continue
            names = list(dict.fromkeys(watch.operands + watch.results))
            produced = {name for node in self.proto.graph.node for name in node.output}
            part = prefix(self.proto, [n for n in names if n in produced], scene.free)
            if not self._embedded(part):
                continue
            allowed = {name: special_values(legal.get(name, 0)) for name in names}
            saved = witness.save(
                self.folder, watch.finding, watch.point, part, watch.operands, watch.results, allowed, model_name=model_name
            )
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


def _slices(watches: Sequence[Watch], model: Model, analysis: Analysis) -> Iterable[list[Watch]]:
    """Groups of findings whose values fit the memory of one session; those that may stop the process are alone."""
    group: list[Watch] = []
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


def _note(watch: Watch, values: Mapping[str, Any], legal: Mapping[str, int], point: Point) -> None:
    if look(watch, values, legal) and watch.point is None:
        watch.point = point
