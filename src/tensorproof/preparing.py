"""`Prepared`: a model with everything that a check of it needs, from what the user gave."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, get_args

from tensorproof import checking
from tensorproof.assumptions import Declarations, domain_from_json
from tensorproof.checking import ModelPhase
from tensorproof.confirm.full import FullConfirm
from tensorproof.confirm.quick import QuickConfirm
from tensorproof.confirm.search import Budget
from tensorproof.errors import ConfigurationError
from tensorproof.findings import Report
from tensorproof.frontends.framework_model import FrameworkModel, ReadingOptions
from tensorproof.frontends.input_declarations import InputDeclaration, parse_declaration
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.frontends.onnx_precision import converted, find_precision
from tensorproof.frontends.reading import read_framework_file, read_framework_program, read_onnx
from tensorproof.frontends.torch_program import ProgramOptions, TorchProgram, is_program, read_program
from tensorproof.frontends.user_program import find_program
from tensorproof.graph import Model
from tensorproof.ranges import weight_cache
from tensorproof.ranges.abstraction import Abstraction, chosen
from tensorproof.refine.driver import checked_effort
from tensorproof.targets import Target, find_target

if TYPE_CHECKING:
    import onnx

    from tensorproof.confirm.framework_confirm import FrameworkConfirm
    from tensorproof.confirm.torch_confirm import TorchConfirm

#: What confirms findings, by the kind of the model.
Confirm: TypeAlias = "QuickConfirm | FullConfirm | TorchConfirm | FrameworkConfirm"


class ScanOptions(TypedDict, total=False):
    """The options that every scan of a model has; `Prepared.of` gives their defaults.

    `ranges` maps names of inputs (and of weights) to (low, high) or to a domain such as "one-hot"; `*` stands for all. `dims`
    gives symbolic dimensions a size or a range of sizes. `weights` says what weights may be: "fixed" (as in the file), "init",
    "ranum", "debar" or "LOW:HIGH". `samples` is an .npz file that ranges are learned from. `precision` is a format that the
    whole model is converted into first. `phase` is "inference" or "training": then the backward pass is analysed, too. `target`
    is the runtime whose arithmetic is assumed; by default that of the model's own kind. `effort` (0 to 3) says how far the
    analysis looks again at what its first pass cannot prove; `tensors` (smash, partition, expand) and `values` (interval,
    affine) choose what that first pass keeps. Without `cache`, summaries of weights are neither read from nor written to the
    user's cache folder. With `model_map` the report keeps the model, for `Report.model_map()`; without a word it keeps one of up to
    5,000 nodes, and False keeps none.

    For programs: `inputs` declares inputs (`{"x": "float32[N,3,32,32] in [0,1]"}`), `state` is a file of trained weights (PyTorch).
    `signature` picks one of a SavedModel. `trust` lets files of models run code of their own (Lambda layers of Keras, operators
    that call Python or read files).
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
    trust: bool
    signature: str | None
    model_map: bool | None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A model that was read, and converted if a precision was asked for, with declarations, target and effort.

    It comes from an ONNX file (`onnx_model`), from a program of PyTorch (`program`) or from another framework (`framework`).
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
    framework: FrameworkModel | None = None
    #: Whether reports keep the model, so that they can give a map of it; None: if it is small.
    model_map: bool | None = None

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
        trust: bool = False,
        signature: str | None = None,
        model_map: bool | None = None,
    ) -> Prepared:
        """Read a model: a file, a ModelProto, `module.py:name`, a live model or a function. Options are checked first."""
        runtime = None if target is None else find_target(target)
        abstraction = chosen(tensors, values)
        checked_effort(effort)
        checked_phase = _phase(phase)
        weight_cache.use_cache(weight_cache.default_folder() if cache else None)
        sizes = {name: (size, size) if isinstance(size, int) else size for name, size in (dims or {}).items()}
        domains = {name: domain_from_json(value, name) for name, value in (ranges or {}).items()}
        declared = Declarations(domains, sizes, weights, samples)
        reading = ReadingOptions(example, _parsed(inputs or {}), sizes, state, phase == "training", precision, trust, signature)
        framework = read_framework_file(Path(model), reading) if isinstance(model, str | Path) else None
        if framework is not None:
            return cls._of_framework(framework, declared, runtime, abstraction, effort, checked_phase, reading, model_map)
        found: Any = model
        if is_program(model) and not str(model).endswith(".pt2"):
            found = find_program(model, example=example)
            framework = read_framework_program(found, reading)
            if framework is not None:
                return cls._of_framework(framework, declared, runtime, abstraction, effort, checked_phase, reading, model_map)
        if is_program(model):
            options = ProgramOptions(
                example, _parsed(inputs or {}), sizes, state, phase == "training", None if precision is None else _dtype(precision)
            )
            program = read_program(found, options)
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
                model_map=model_map,
            )
        if inputs or state or example is not None:
            raise ConfigurationError("inputs, example inputs and state belong to PyTorch programs; an ONNX file has its own")
        path = str(model) if isinstance(model, str | Path) else None
        proto: Any = read_onnx(model) if isinstance(model, str | Path) else model
        if not hasattr(proto, "opset_import"):
            raise ConfigurationError(f"{type(model).__name__}: is no model; give a file, an ONNX model, a live model or a function")
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
            model_map=model_map,
        )

    @classmethod
    def _of_framework(
        cls,
        framework: FrameworkModel,
        declared: Declarations,
        runtime: Target | None,
        abstraction: Abstraction,
        effort: int,
        phase: ModelPhase,
        options: ReadingOptions,
        model_map: bool | None,
    ) -> Prepared:
        """A model of TensorFlow, Keras or JAX, as the target computes it."""
        if options.precision is not None and not framework.converts:
            raise ConfigurationError(f"precision: a {framework.framework} model is checked in its own formats; convert it first")
        target = runtime or find_target(framework.target)
        graph = framework.model
        if target.reassociates and framework.reassociates:
            from tensorproof.frontends.tensorflow_reassociation import reassociated

            graph = reassociated(graph, framework.operators())
        return cls(
            graph,
            replace(declared, domains={**framework.domains, **declared.domains}),
            target,
            abstraction,
            options.precision,
            effort,
            framework.path,
            phase,
            framework=framework,
            model_map=model_map,
        )

    @property
    def proto(self) -> onnx.ModelProto:
        """The protobuf of the model, for what works on ONNX files alone."""
        if self.onnx_model is None:
            raise ConfigurationError(f"{self.graph.name}: this works on ONNX files; export the model to ONNX first")
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
    ) -> Confirm:
        """The confirmation by samples, in the model's own runtime."""
        if self.framework is not None:
            confirmation = self.framework.confirmation()
            return confirmation(self.framework, seed=seed, runs=runs, time_limit=time_limit, folder=folder, progress=progress)
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
    ) -> Confirm:
        """The confirmation by samples and a search, in the model's own runtime."""
        if self.framework is not None:
            confirmation = self.framework.confirmation()
            return confirmation(
                self.framework,
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
        confirming: Confirm | None,
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
            trainable=self.trainable,
            model_map=self.model_map,
        )
        weight_cache.save()
        if self.framework is not None:
            report = self._of_its_framework(report, self.framework)
        if self.program is not None and self.phase == "training":
            report = self._with_training(report, self.program, confirming)
        if confirming is not None and confirming.notes:
            report.assumptions["confirm"] = sorted(set(confirming.notes))
        return report

    @property
    def trainable(self) -> frozenset[int] | None:
        """The values that training changes, where the front end says it."""
        if self.program is not None:
            return self.program.traced.trainable or None
        return None if self.framework is None else self.framework.trainable or None

    def _of_its_framework(self, report: Report, framework: FrameworkModel) -> Report:
        """The report with what the front end has to say, and findings of gradients where they belong."""
        from tensorproof.training.explicit_backward import settled

        # A program may differentiate itself, whatever it is checked for.
        report = settled(report, self.graph, partners=framework.partners, effort=self.effort)
        if framework.notes:
            report.assumptions["notes"] = [*report.assumptions.get("notes", ()), *framework.notes]
        return report

    def _with_training(self, report: Report, program: TorchProgram, confirming: Confirm | None) -> Report:
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
