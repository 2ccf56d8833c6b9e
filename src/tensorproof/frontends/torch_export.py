"""PyTorch programs into the graph: `torch.export`'s ATen operators, each by the block that spells it.

The program is exported as it is written (torch's training form, before operators are taken apart), so that `logsigmoid` or a
layer normalisation is analysed as what it is. Operators that no block spells are taken apart by torch's own decompositions;
what is left then stands in the graph under its ATen name, and the report says that it is not analysed.
"""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from tensorproof.errors import ModelError
from tensorproof.frontends.calls import OPSET
from tensorproof.frontends.torch_regions import prepare_regions, restore_lines, traces_of
from tensorproof.frontends.torch_translate import CHECKS, REGIONS, AtenGraph, Translator
from tensorproof.frontends.user_frames import described_failure, keeping_user_frames
from tensorproof.graph import Model
from tensorproof.operators.table import spelling_of

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.export import ExportedProgram

Calling: TypeAlias = "Callable[[Mapping[str, Tensor]], tuple[tuple[Any, ...], dict[str, Any]]]"


@dataclass(slots=True)
class TorchModel:
    """A program of torch as it was exported, with our graph of it.

    `model` is the graph. `program` is what torch exported, `module` what it exported it from: the user's own. `origins` maps
    the nodes of our graph to those of torch's, by name; `trainable` are the values that training changes.
    """

    model: Model
    program: ExportedProgram
    module: torch.nn.Module
    origins: dict[str, str]
    trainable: frozenset[int]
    #: The example that the program was exported with, by the names of its inputs.
    example: dict[str, Tensor]
    #: Turns tensors by name into what the module is called with.
    call: Calling
    #: Whether the module runs the user's own lines, as opposed to code that torch generated.
    has_lines: bool = True


def exported(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    name: str = "model",
    path: str | None = None,
    dimensions: Mapping[str, Mapping[int, str]] | None = None,
) -> TorchModel:
    """Export a module with example inputs and translate it.

    `dimensions` names the axes of inputs that stay symbolic; an axis that the program fixes is fixed in the graph, too.
    """
    import torch
    from torch.export import Dim

    kwargs = kwargs or {}
    names = input_names(module, args, kwargs)
    named = dimensions or {}
    axes = {key: dict.fromkeys(named.get(key, {}), Dim.AUTO) or None for key in names}
    tensors = dict(zip(names, (*args, *kwargs.values())))
    shapes = {key: axes[key] if isinstance(tensors[key], torch.Tensor) else None for key in names}
    dynamic: Any = shapes if any(shapes.values()) else None
    with exporting():
        try:
            program = torch.export.export(module, args, kwargs, dynamic_shapes=_by_parameter(module, names, dynamic), strict=False)
        except Exception as error:
            raise ModelError(described_failure(name, "torch.export cannot export it", error)) from None
        prepare_regions(program)
        program = decomposed(program, name)
    return translated(program, module, name=name, path=path, dimensions=named)


def input_names(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[str]:
    """The names of what a module is called with: those of its parameters; `args_0` and so on for a variable number."""
    import inspect

    parameters = list(inspect.signature(module.forward).parameters.values())
    names: list[str] = []
    for index in range(len(args)):
        if index < len(parameters) and parameters[index].kind is not inspect.Parameter.VAR_POSITIONAL:
            names.append(parameters[index].name)
        else:
            first = next((i for i, p in enumerate(parameters) if p.kind is inspect.Parameter.VAR_POSITIONAL), index)
            names.append(f"{parameters[first].name if first < len(parameters) else 'args'}_{index - first}")
    return [*names, *kwargs]


def _by_parameter(module: torch.nn.Module, names: Sequence[str], shapes: dict[str, Any] | None) -> Any:
    """Dynamic shapes as torch.export takes them: by parameter, a variable number of arguments as one tuple."""
    import inspect

    if shapes is None:
        return None
    parameters = inspect.signature(module.forward).parameters
    variable = next((p.name for p in parameters.values() if p.kind is inspect.Parameter.VAR_POSITIONAL), None)
    if variable is None:
        return shapes
    known = {name: shape for name, shape in shapes.items() if name in parameters}
    rest = tuple(shape for name, shape in shapes.items() if name not in parameters)
    return {**known, variable: rest} if rest else known


@contextlib.contextmanager
def exporting() -> Generator[None]:
    """Export in silence, and without checks of values that only stop it.

    Distributions and a loss of torch check their arguments with Python's `if`, which no export can follow; the analysis looks
    at the same values itself.
    """
    import torch
    from torch.distributions import Distribution

    logger = logging.getLogger("torch")
    level, validates = logger.level, Distribution._validate_args  # pyright: ignore[reportPrivateUsage]
    loss = torch.nn.functional.gaussian_nll_loss
    logger.setLevel(logging.CRITICAL)
    Distribution.set_default_validate_args(False)
    torch.nn.functional.gaussian_nll_loss = _gaussian_nll_loss
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(None), contextlib.redirect_stdout(None), keeping_user_frames():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
        Distribution.set_default_validate_args(validates)
        torch.nn.functional.gaussian_nll_loss = loss


def _gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """`torch.nn.functional.gaussian_nll_loss` without its check that no variance is negative."""
    import math

    import torch

    variance = var if isinstance(var, torch.Tensor) else var * torch.ones_like(input)
    if variance.dim() == input.dim() - 1 and variance.size() != input.size():
        variance = variance.unsqueeze(-1)
    clamped = variance.clone()
    with torch.no_grad():
        clamped.clamp_(min=eps)
    loss = 0.5 * (torch.log(clamped) + (input - target) ** 2 / clamped)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def decomposed(program: ExportedProgram, name: str) -> ExportedProgram:
    """The program without operators that no block spells, as far as torch can take them apart; nothing is changed in place."""
    import torch

    if not _needs_decomposition(program):
        return program
    table = torch.export.default_decompositions()
    for overload in list(table):
        spelled = str(overload).partition(".")[2]
        if spelling_of(spelled) is not None:
            table.pop(overload)
    traces = traces_of(program)
    try:
        program = program.run_decompositions(table)
    except Exception as error:
        raise ModelError(described_failure(name, "torch cannot decompose it", error)) from None
    restore_lines(program, traces)
    return program


def _needs_decomposition(program: ExportedProgram) -> bool:
    for module in program.graph_module.modules():
        for node in getattr(getattr(module, "graph", None), "nodes", ()):
            if node.op != "call_function":
                continue
            schema = getattr(node.target, "_schema", None)
            if schema is None:
                if getattr(node.target, "__name__", "") in REGIONS:
                    return True
                continue
            if schema.is_mutable and "batch_norm" not in schema.name and "num_batches_tracked" not in str(node.args):
                return True
            name = str(node.target)
            if name.startswith("aten.") and spelling_of(name.partition(".")[2]) is None and not CHECKS.search(name):
                return True
    return False


def translated(
    program: ExportedProgram,
    module: torch.nn.Module,
    *,
    name: str,
    path: str | None = None,
    dimensions: Mapping[str, Mapping[int, str]] | None = None,
    has_lines: bool = True,
) -> TorchModel:
    """The graph of an exported program. `has_lines` says whether `module` runs the user's own lines."""
    translator = Translator(AtenGraph.of(program), name, dimensions or {}, is_live=has_lines)
    graph = translator.main_graph()
    example, call = _calling(program)
    model = Model(
        name=name,
        graph=graph,
        values=translator.values,
        constants=translator.constants,
        weights=frozenset(translator.weights),
        opsets={"": OPSET, "tensorproof": 1},
        producer=_producer(),
        path=path,
    )
    model.default_sizes.update(translator.sizes)
    model.conversions.update(translator.conversions)
    return TorchModel(
        model,
        program,
        module,
        translator.origins,
        frozenset(translator.trainable),
        example,
        call,
        has_lines,
    )


def _calling(program: ExportedProgram) -> tuple[dict[str, Tensor], Calling]:
    """The example inputs by name, and what turns tensors by name into arguments of the module."""
    import torch
    from torch.utils import _pytree as pytree  # pyright: ignore[reportPrivateImportUsage]

    given: Any = program.example_inputs or ((), {})
    leaves, structure = pytree.tree_flatten(given)
    names = [name if isinstance(name, str) else "" for name in program.graph_signature.user_inputs]

    def call(tensors: Mapping[str, Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        replaced = [tensors.get(name, leaf) for name, leaf in zip(names, leaves)]
        return pytree.tree_unflatten(replaced, structure)

    example = {name: leaf for name, leaf in zip(names, leaves) if name and isinstance(leaf, torch.Tensor)}
    return example, call


def _producer() -> str:
    import torch

    return f"torch {torch.__version__}"
