"""`Prepared`: a model with everything that a check of it needs, from what the user gave."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, get_args

from tensorproof import checking
from tensorproof.assumptions import Declarations, domain_from_json
from tensorproof.checking import ModelPhase
from tensorproof.confirm.full import FullConfirm
from tensorproof.confirm.quick import QuickConfirm
from tensorproof.confirm.search import Budget
from tensorproof.errors import ConfigurationError
from tensorproof.findings import Report
from tensorproof.frontends.input_declarations import InputDeclaration, parse_declaration
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.frontends.onnx_precision import converted, find_precision
from tensorproof.frontends.reading import read_onnx
from tensorproof.frontends.torch_program import ProgramOptions, TorchProgram, is_program, read_program
from tensorproof.graph import Model
from tensorproof.ranges import weight_cache
from tensorproof.ranges.abstraction import Abstraction, chosen
from tensorproof.refine.driver import checked_effort
from tensorproof.targets import Target, find_target

if TYPE_CHECKING:
    import onnx

    from tensorproof.confirm.torch_confirm import TorchConfirm


class ScanOptions(TypedDict, total=False):
    """The options that every scan of a model has; `Prepared.of` gives their defaults.

    `ranges` maps names of inputs (and of weights) to (low, high) or to a domain such as "one-hot"; `*` stands for all. `dims`
    gives symbolic dimensions a size or a range of sizes. `weights` says what weights may be: "fixed" (as in the file), "init",
    "ranum", "debar" or "LOW:HIGH". `samples` is an .npz file that ranges are learned from. `precision` is a format that the
    whole model is converted into first. `phase` is "inference" or "training": then the backward pass is analysed, too. `target`
    is the runtime whose arithmetic is assumed; by default that of the model's own kind. `effort` (0 to 3) says how far the
    analysis looks again at what its first pass cannot prove; `tensors` (smash, partition, expand) and `values` (interval,
    affine) choose what that first pass keeps. Without `cache`, summaries of weights are neither read from nor written to the
    user's cache folder.

    For PyTorch programs: `inputs` declares inputs (`{"x": "float32[N,3,32,32] in [0,1]"}`), `state` is a file of trained weights.
    """

    ranges: Mapping[str, Any] | None
    dims: Mapping[str, int | tuple[int, int]] | None
    weights: str
    samples: str | None
    target: str | None
    precision: str | None
    phase: str
    effort: int
    tensors: str | None
    values: str | None
    cache: bool
    inputs: Mapping[str, str] | None
    state: str | None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A model that was read, and converted if a precision was asked for, with declarations, target and effort.

    It comes from an ONNX file (`onnx_model`) or from a program of PyTorch (`program`).
    """

    graph: Model
    declared: Declarations
    target: Target
    abstraction: Abstraction
    precision: str | None
    effort: int
    path: str | None
    phase: ModelPhase = "inference"
    onnx_model: onnx.ModelProto | None = None
    program: TorchProgram | None = None

    @classmethod
    def of(
        cls,
        model: object,
        *,
        example: Any = None,
        ranges: Mapping[str, Any] | None = None,
        dims: Mapping[str, int | tuple[int, int]] | None = None,
        weights: str = "fixed",
        samples: str | None = None,
        target: str | None = None,
        precision: str | None = None,
        phase: str = "inference",
        effort: int = 1,
        tensors: str | None = None,
        values: str | None = None,
        cache: bool = True,
        inputs: Mapping[str, str] | None = None,
        state: str | None = None,
    ) -> Prepared:
        """Read a model: a file, a ModelProto, `module.py:name`, an nn.Module or a function. Options are checked first."""
        runtime = None if target is None else find_target(target)
        abstraction = chosen(tensors, values)
        checked_effort(effort)
        checked_phase = _phase(phase)
        weight_cache.use_cache(weight_cache.default_folder() if cache else None)
        sizes = {name: (size, size) if isinstance(size, int) else size for name, size in (dims or {}).items()}
        domains = {name: domain_from_json(value, name) for name, value in (ranges or {}).items()}
        declared = Declarations(domains, sizes, weights, samples)
        if is_program(model):
            options = ProgramOptions(
                example, _parsed(inputs or {}), sizes, state, phase == "training", None if precision is None else _dtype(precision)
            )
            program = read_program(model, options)
            return cls(
                program.traced.model,
                replace(declared, domains={**program.domains, **domains}),
                runtime or find_target("torch-cpu"),
                abstraction,
                precision,
                effort,
                program.path,
                checked_phase,
                program=program,
            )
        if inputs or state or example is not None:
            raise ConfigurationError("inputs, example inputs and state belong to PyTorch programs; an ONNX file has its own")
        path = str(model) if isinstance(model, str | Path) else None
        proto: Any = read_onnx(model) if isinstance(model, str | Path) else model
        graph, proto = _from_onnx(proto, path, precision)
        return cls(
            graph,
            declared,
            runtime or find_target("onnxruntime-cpu"),
            abstraction,
            precision,
            effort,
            path,
            checked_phase,
            onnx_model=proto,
        )

    @property
    def proto(self) -> onnx.ModelProto:
        """The protobuf of the model, for what works on ONNX files alone."""
        if self.onnx_model is None:
            raise ConfigurationError(f"{self.graph.name}: this works on ONNX files; export the program with torch.onnx.export")
        return self.onnx_model

    @property
    def data_folder(self) -> str | None:
        """Where external data of the model lies."""
        return None if self.path is None else str(Path(self.path).resolve().parent)

    def quick_confirm(
        self,
        *,
        seed: int = 0,
        runs: int = 33,
        time_limit: float | None = None,
        folder: Path | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> QuickConfirm | TorchConfirm:
        """The confirmation by samples, in the model's own runtime."""
        if self.program is not None:
            from tensorproof.confirm.torch_confirm import TorchConfirm

            return TorchConfirm(self.program, seed=seed, runs=runs, time_limit=time_limit, folder=folder, progress=progress)
        return QuickConfirm(
            self.proto,
            seed=seed,
            runs=runs,
            time_limit=time_limit,
            folder=folder,
            data_folder=self.data_folder,
            progress=progress,
        )

    def full_confirm(
        self,
        *,
        budget: Budget,
        runs: int = 33,
        time_limit: float | None = None,
        folder: Path | None = None,
        progress: Callable[[int], None] | None = None,
        nodes: tuple[str, ...] = (),
        shrink: bool = True,
        search_progress: Callable[[str, int, float], None] | None = None,
    ) -> FullConfirm | TorchConfirm:
        """The confirmation by samples and a search, in the model's own runtime."""
        if self.program is not None:
            from tensorproof.confirm.torch_confirm import TorchConfirm

            return TorchConfirm(
                self.program,
                seed=budget.seed,
                runs=runs,
                time_limit=time_limit,
                folder=folder,
                progress=progress,
                nodes=nodes,
                budget=budget,
                shrink=shrink,
                search_progress=search_progress,
            )
        return FullConfirm(
            self.proto,
            seed=budget.seed,
            runs=runs,
            time_limit=time_limit,
            folder=folder,
            data_folder=self.data_folder,
            progress=progress,
            nodes=nodes,
            is_hasty=True,
            budget=budget,
            shrink=shrink,
            search_progress=search_progress,
        )

    def checked(
        self,
        confirming: QuickConfirm | TorchConfirm | None,
        *,
        progress: Callable[[str, int], None] | None = None,
        insist: bool = False,
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
            phase=self.phase,
            trainable=None if self.program is None else self.program.traced.trainable or None,
        )
        weight_cache.save()
        if self.program is not None and self.phase == "training":
            report = self._with_training(report, self.program, confirming)
        if confirming is not None and confirming.notes:
            report.assumptions["confirm"] = sorted(set(confirming.notes))
        return report

    def _with_training(self, report: Report, program: TorchProgram, confirming: QuickConfirm | TorchConfirm | None) -> Report:
        """The report with what the graph of the training step, and steps in low precision, add to it."""
        from tensorproof.training.backward import Sampling
        from tensorproof.training.report import with_training

        sampling = None
        if confirming is not None:
            sampling = Sampling(confirming.seed, confirming.runs, confirming.time_limit, confirming.folder)
        return with_training(
            report, program, self.declared, self.target, effort=self.effort, abstraction=self.abstraction, sampling=sampling
        )


def _from_onnx(proto: onnx.ModelProto, path: str | None, precision: str | None) -> tuple[Model, onnx.ModelProto]:
    """The graph of an ONNX model and the model itself, both in the wanted precision."""
    changes: dict[str, str] = {}
    if precision is not None:
        proto, changes = converted(proto, find_precision(precision), path=path)
    graph = from_proto(proto, path=path)
    for number, value in enumerate(graph.values):
        if value.name in changes and number in graph.constants:
            graph.conversions[number] = changes[value.name]
    return graph, proto


def _parsed(inputs: Mapping[str, str]) -> list[InputDeclaration]:
    return [
        parse_declaration(f"{name} {text}" if text.startswith("in ") else f"{name} = {text}", f"input {name}")
        for name, text in inputs.items()
    ]


def _phase(name: str) -> ModelPhase:
    for phase in get_args(ModelPhase):
        if phase == name:
            return phase
    raise ConfigurationError(f"phase {name!r}: write {' or '.join(get_args(ModelPhase))}")


def _dtype(precision: str) -> str:
    return find_precision(precision).name
