"""`Prepared`: a model with everything that a check of it needs, from what the user gave."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from tensorproof import checking
from tensorproof.assumptions import Declarations, domain_from_json
from tensorproof.confirm.quick import QuickConfirm
from tensorproof.findings import Report
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.frontends.onnx_precision import converted, find_precision
from tensorproof.frontends.reading import read_onnx
from tensorproof.graph import Model
from tensorproof.ranges import weight_cache
from tensorproof.ranges.abstraction import Abstraction, chosen
from tensorproof.refine.driver import checked_effort
from tensorproof.targets import Target, find_target

if TYPE_CHECKING:
    import onnx


class ScanOptions(TypedDict, total=False):
    """The options that every scan of a model has; `Prepared.of` gives their defaults.

    `ranges` maps names of inputs (and of weights) to (low, high) or to a domain such as "one-hot"; `*` stands for all. `dims`
    gives symbolic dimensions a size or a range of sizes. `weights` says what weights may be: "fixed" (as in the file), "init",
    "ranum", "debar" or "LOW:HIGH". `samples` is an .npz file that ranges are learned from. `precision` is a format that the
    whole model is converted into first. `effort` (0 to 3) says how far the analysis looks again at what its first pass
    cannot prove; `tensors` (smash, partition, expand) and `values` (interval, affine) choose what that first pass keeps.
    Without `cache`, summaries of weights are neither read from nor written to the user's cache folder.
    """

    ranges: Mapping[str, Any] | None
    dims: Mapping[str, int | tuple[int, int]] | None
    weights: str
    samples: str | None
    target: str
    precision: str | None
    effort: int
    tensors: str | None
    values: str | None
    cache: bool


@dataclass(frozen=True, slots=True)
class Prepared:
    """A model that was read, and converted if a precision was asked for, with declarations, target and effort."""

    proto: onnx.ModelProto
    graph: Model
    declared: Declarations
    target: Target
    abstraction: Abstraction
    precision: str | None
    effort: int
    path: str | None

    @classmethod
    def of(
        cls,
        model: str | Path | onnx.ModelProto,
        *,
        ranges: Mapping[str, Any] | None = None,
        dims: Mapping[str, int | tuple[int, int]] | None = None,
        weights: str = "fixed",
        samples: str | None = None,
        target: str = "onnxruntime-cpu",
        precision: str | None = None,
        effort: int = 1,
        tensors: str | None = None,
        values: str | None = None,
        cache: bool = True,
    ) -> Prepared:
        """Read a model. The options are checked before anything is read."""
        runtime, abstraction = find_target(target), chosen(tensors, values)
        checked_effort(effort)
        weight_cache.use_cache(weight_cache.default_folder() if cache else None)
        path = str(model) if isinstance(model, str | Path) else None
        proto = read_onnx(model) if isinstance(model, str | Path) else model
        changes: dict[str, str] = {}
        if precision is not None:
            proto, changes = converted(proto, find_precision(precision), path=path)
        graph = from_proto(proto, path=path)
        for number, value in enumerate(graph.values):
            if value.name in changes and number in graph.constants:
                graph.conversions[number] = changes[value.name]
        declared = Declarations(
            {name: domain_from_json(value, name) for name, value in (ranges or {}).items()},
            {name: (size, size) if isinstance(size, int) else size for name, size in (dims or {}).items()},
            weights,
            samples,
        )
        return cls(proto, graph, declared, runtime, abstraction, precision, effort, path)

    @property
    def data_folder(self) -> str | None:
        """Where external data of the model lies."""
        return None if self.path is None else str(Path(self.path).resolve().parent)

    def checked(
        self, confirming: QuickConfirm | None, *, progress: Callable[[str, int], None] | None = None, insist: bool = False
    ) -> Report:
        """The report; with `insist`, what stays possible is refined as far as it goes."""
        report = checking.check(
            self.graph,
            self.declared,
            self.target,
            precision=self.precision,
            effort=self.effort,
            abstraction=self.abstraction,
            confirm=confirming,
            progress=progress,
            insist=insist,
        )
        weight_cache.save()
        if confirming is not None and confirming.notes:
            report.assumptions["confirm"] = sorted(set(confirming.notes))
        return report
