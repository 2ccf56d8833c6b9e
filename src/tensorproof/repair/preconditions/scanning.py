"""`Scanner`: whether the scan proves that the chosen nodes do not fail, for one box after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tensorproof.assumptions import Assumptions, resolve
from tensorproof.checking import ConstantRanges, input_values
from tensorproof.collector import patient_collector
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.graph import Model, Node
from tensorproof.preparing import Prepared
from tensorproof.ranges.containers import Abstract
from tensorproof.ranges.differentiable import NO_PATHS, Paths, differentiable_paths
from tensorproof.ranges.preparation import prepare
from tensorproof.ranges.range import Range
from tensorproof.ranges.records import RangedGraph
from tensorproof.refine.cone import Structure
from tensorproof.refine.driver import propagate_refined
from tensorproof.repair.editing import Editor, Spot
from tensorproof.repair.preconditions.sites import Box, Site, constant_ends, impose

if TYPE_CHECKING:
    import onnx


class Spent(Exception):
    """The budget of scans is used up."""


@dataclass(frozen=True, slots=True)
class _View:
    """The part of a model before the chosen nodes, under the assumptions of one combination of sizes."""

    model: Model
    inputs: dict[int, Abstract]
    constants: ConstantRanges
    #: What has derivatives that are looked at, too.
    paths: Paths


class Scanner:
    """The model with nodes that hold every site within an interval, whose ends are inputs: nothing is built anew for a scan.

    Ends that are inputs are constants for no idiom, so that what is found out about the graph once holds for every box.
    """

    def __init__(self, prepared: Prepared, sites: Sequence[Site], nodes: Sequence[Node], evaluations: int) -> None:
        self._prepared = prepared
        self._sites = tuple(sites)
        self._results = [prepared.graph.name_of(node.outputs[0]) for node in nodes]
        self.evaluations = evaluations
        #: How far a scan that alarms is refined.
        self.effort = prepared.effort
        #: Scans so far; one per combination of dimension sizes.
        self.scans = 0
        self._ends: list[tuple[str, str]] = []
        editor = Editor(prepared.graph, prepared.proto)
        impose(editor, sites, self._input_ends)
        proto = editor.finish()
        for site, names in zip(self._sites, self._ends, strict=True):
            proto.graph.input.extend(_described(name, site) for name in names)
        self._views = _views(prepared, proto, self._results)

    def _input_ends(self, spot: Spot, site: Site) -> tuple[str, str]:
        low, high = (spot.fresh(f"{site.name}.{word}") for word in ("least", "most"))
        self._ends.append((low, high))
        return low, high

    @property
    def left(self) -> int:
        """Scans that may still be made, apart from those of the model as it is saved."""
        return max(0, self.evaluations - self.scans - len(self._views))

    def proves(self, box: Box) -> bool:
        """Whether no chosen node can fail if every site lies in its interval. Raises Spent where the budget ends."""
        return all(self._proves(view, box) for view in self._views)

    def _proves(self, view: _View, box: Box) -> bool:
        if not self.left:
            raise Spent
        self.scans += 1
        numbers = {view.model.name_of(number): number for number in view.model.graph.inputs}
        inputs = dict(view.inputs)
        for site, names, interval in zip(self._sites, self._ends, box, strict=True):
            for name, end in zip(names, interval, strict=True):
                inputs[numbers[name]] = Range.constant(end.astype(site.format.dtype), site.format)
        return self._is_proven(view, inputs)

    def proves_edited(self, box: Box) -> bool:
        """The same for the model as it is saved, whose ends are constants."""
        editor = Editor(self._prepared.graph, self._prepared.proto)
        impose(editor, self._sites, constant_ends(box, self._sites))
        views = _views(self._prepared, editor.finish(), self._results)
        self.scans += len(views)
        return all(self._is_proven(view, view.inputs) for view in views)

    def _is_proven(self, view: _View, inputs: dict[int, Abstract]) -> bool:
        with patient_collector():
            ranged, _ = propagate_refined(
                view.model,
                inputs,
                self._prepared.target,
                constants=view.constants,
                abstraction=self._prepared.abstraction,
                effort=self.effort,
                paths=view.paths,
            )
        return all(_cannot_fail(ranged, node) for node in _makers(view.model, self._results))


def _described(name: str, site: Site) -> onnx.ValueInfoProto:
    import onnx

    return onnx.helper.make_tensor_value_info(name, site.format.onnx_code, site.whole[0].shape)


def _views(prepared: Prepared, proto: onnx.ModelProto, results: Sequence[str]) -> list[_View]:
    model = from_proto(proto, path=prepared.path)
    structure = Structure(model)
    nodes = _makers(model, results)
    part = structure.behind(structure.at_top(node.number) for node in nodes).model
    prepare(part)
    paths = differentiable_paths(model) if prepared.phase == "training" else NO_PATHS
    return [_view(part, assumptions, paths) for assumptions in resolve(model, prepared.declared)[0]]


def _view(part: Model, assumptions: Assumptions, paths: Paths) -> _View:
    inputs = {number: domain for number, domain in assumptions.inputs.items() if number in part.graph.inputs}
    seen = replace(assumptions, inputs=inputs)
    return _View(part, input_values(part, seen), ConstantRanges(part, seen), paths)


def _makers(model: Model, results: Sequence[str]) -> list[Node]:
    return [node for node in model.graph.walk() if node.outputs and model.name_of(node.outputs[0]) in results]


def _cannot_fail(ranged: RangedGraph, node: Node) -> bool:
    """Whether a node can give neither NaN nor infinity, nor any node before it.

    Nodes that are not analysed stay what they are: what is proven behind them holds if they are finite, as in a report.
    """
    record = ranged.records.get(node.number)
    if record is None or record.not_analysed is not None:
        return False
    if any(hazard.rule.severity == "error" for hazard in (*record.hazards, *record.consequences)):
        return False
    return all(_is_not_analysed(ranged, root) for root in record.roots)


def _is_not_analysed(ranged: RangedGraph, root: int) -> bool:
    record = ranged.records.get(root)
    return record is not None and record.not_analysed is not None
