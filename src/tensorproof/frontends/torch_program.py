"""Programs of PyTorch as the user names them: `module.py:name`, a `.pt2` file, an `nn.Module` or a function.

Code runs here, and only here, because the user named it: the module file is imported, a class is instantiated, and
`torch.export` traces the forward pass. A `.pt2` file is read without unpickling anything but tensors.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tensorproof.assumptions import Domain
from tensorproof.errors import AssumptionError, ConfigurationError, ModelError
from tensorproof.frontends.aten import array_of
from tensorproof.frontends.conversion import change_of
from tensorproof.frontends.input_declarations import InputDeclaration, about
from tensorproof.frontends.torch_export import TorchModel, exported, input_names
from tensorproof.frontends.torch_initialisation import observed_initialisation
from tensorproof.frontends.user_program import (
    INPUTS_FUNCTION,
    UserProgram,
    called,
    find_program,
    owner_of,
    speaking_aside,
    split_name,
)

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class ProgramOptions:
    """How a program is to be traced.

    `example` is what the module is called with (a tensor, a tuple of arguments, or a dictionary of them by name), `inputs` are
    declarations that win over those in the file, `state` is a file of trained weights, or the weights by name, `precision` a
    dtype that the module and its floating inputs are converted to. `source` stands for the content of the user's file.
    """

    example: Any = None
    inputs: Sequence[InputDeclaration] = ()
    dims: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    state: str | Mapping[str, Tensor] | None = None
    training: bool = False
    precision: str | None = None
    source: bytes | None = None


@dataclass(slots=True)
class TorchProgram:
    """A traced program, with the ranges that its declarations and examples give to its inputs."""

    traced: TorchModel
    domains: dict[str, Domain]
    path: str | None
    name: str
    #: The dtype that the module was converted to, if it was.
    precision: str | None = None
    #: How it was traced: the same options trace it again.
    options: ProgramOptions = field(default_factory=ProgramOptions)


def is_program(model: object) -> bool:
    """Whether what the user named is a program of Python, a live model or an exported program, not another model file."""
    if isinstance(model, str | Path):
        text = str(model)
        return text.endswith(".pt2") or split_name(text) is not None
    return callable(model) or owner_of(type(model)) is not None


def read_program(model: object, options: ProgramOptions) -> TorchProgram:
    """Load, trace and translate a program: a file, an object, or what `find_program` found."""
    _require_torch()
    if isinstance(model, str | Path) and str(model).endswith(".pt2"):
        from tensorproof.frontends.torch_archive import read_archive

        return read_archive(Path(model), options)
    program = model if isinstance(model, UserProgram) else find_program(model, source=options.source, example=options.example)
    if options.example is None:
        options = replace(options, example=program.example)
    return _traced(program.found, program.name, program.path, program.declared, options)


def _require_torch() -> None:
    if importlib.util.find_spec("torch") is None:
        raise ConfigurationError("PyTorch programs need the extra `torch`: pip install tensorproof[torch]")


# -- modules and functions --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def keeping_mode(model: object) -> Generator[None]:
    """Leave a module that the user handed over in the mode that it is in, and each of its parts, too."""
    torch: Any = sys.modules.get("torch")
    is_module = torch is not None and isinstance(model, torch.nn.Module)
    modes = [(part, part.training) for part in cast("torch.nn.Module", model).modules()] if is_module else []
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def _traced(
    found: Any, name: str, path: Path | None, declared: Sequence[InputDeclaration], options: ProgramOptions
) -> TorchProgram:
    with observed_initialisation() as initialisation:
        module = _module_of(found, name, path)
    initial = initialisation.of(module)
    _load_state(module, options.state)
    by_input = about(name, [*declared, *options.inputs])
    module.train(options.training)
    args, kwargs = _arguments(module, name, by_input, options)
    original = module
    if options.precision is not None:
        module, args, kwargs = _converted(module, args, kwargs, options.precision)
    names = input_names(module, args, kwargs)
    # A plain declaration in the file may speak of another function's input.
    unknown = [d.name for d in (*declared, *options.inputs) if (d.owner == name or d in options.inputs) and d.name not in names]
    if unknown:
        raise AssumptionError(f"{name}: no input is named {unknown[0]!r}; inputs are {', '.join(names)}")
    dimensions = {key: by_input[key].symbolic() for key in names if key in by_input}
    label = name if path is None else f"{path}:{name}"
    with speaking_aside():
        traced = exported(module, args, kwargs, name=label, path=None if path is None else str(path), dimensions=dimensions)
    numbers = {traced.model.name_of(number): number for number in traced.model.weights}
    traced.model.initial_ranges.update({numbers[key]: ends for key, ends in initial.items() if key in numbers})
    if options.precision is not None:
        _note_conversions(traced, original)
    domains = _domains(traced, by_input)
    return TorchProgram(traced, domains, None if path is None else str(path), name, options.precision, options)


def _module_of(found: Any, name: str, path: Path | None) -> torch.nn.Module:
    """The module that is meant: itself, an instance of a class, what a function without parameters builds, or a function."""
    import torch

    if isinstance(found, torch.nn.Module):
        return found
    if inspect.isclass(found):
        if not issubclass(found, torch.nn.Module):
            raise ModelError(f"{name}: is a class, but no nn.Module")
        needed = _needed(found.__init__)
        if needed:
            raise ModelError(
                f"{name}: its constructor needs {', '.join(needed)};"
                " name an instance, or a function without parameters that builds one"
            )
        return called(found, name)
    if not callable(found):
        raise ModelError(f"{name}: is {type(found).__name__}, not an nn.Module or a function")
    if not inspect.signature(found).parameters:
        built = called(found, name)
        if not isinstance(built, torch.nn.Module):
            raise ModelError(f"{name}: takes no inputs and builds no nn.Module")
        return built
    return _function_module(found)


def _needed(function: Any) -> list[str]:
    parameters = list(inspect.signature(function).parameters.values())[1:]
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [p.name for p in parameters if p.default is inspect.Parameter.empty and p.kind in positional]


def _function_module(function: Callable[..., Any]) -> torch.nn.Module:
    """A function as a module without weights."""
    import torch

    class Function(torch.nn.Module):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

    # The names of inputs are those of the function.
    Function.forward.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD), *inspect.signature(function).parameters.values()]
    )
    return Function()


def _load_state(module: torch.nn.Module, state: str | Mapping[str, Tensor] | None) -> None:
    if state is None:
        return
    if isinstance(state, str):
        path = Path(state)
        if not path.is_file():
            raise ModelError(f"{path}: no such file")
        tensors, origin = read_state(path), str(path)
    else:
        tensors, origin = state, type(module).__name__
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        text = " ".join(str(error).split())
        raise ModelError(f"{origin}: its weights do not fit the module ({text[:200]})") from None


def read_state(path: Path) -> Mapping[str, Tensor]:
    """Trained weights: safetensors, or what torch.save wrote, tensors alone (nothing in the file is executed)."""
    import torch

    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        found = torch.load(path, map_location="cpu", weights_only=True)
    except ImportError:
        raise ConfigurationError("reading .safetensors needs the package safetensors") from None
    except Exception as error:  # both raise many kinds for a file that is not one of theirs
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise ModelError(f"{path}: its weights cannot be read ({reason[:160]})") from None
    for key in ("state_dict", "model", "model_state_dict"):
        if isinstance(found, Mapping) and isinstance(found.get(key), Mapping):
            found = found[key]
    if not isinstance(found, Mapping) or not all(isinstance(value, torch.Tensor) for value in found.values()):
        raise ModelError(f"{path}: holds no state_dict (tensors by name)")
    return found


# -- inputs -----------------------------------------------------------------------------------------------------------


def _arguments(
    module: torch.nn.Module, name: str, declared: Mapping[str, InputDeclaration], options: ProgramOptions
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What the module is called with: the example, or tensors as declared."""
    import torch

    example = options.example
    if isinstance(example, torch.Tensor):
        return (example,), {}
    if isinstance(example, Mapping):
        return (), dict(example)
    if isinstance(example, tuple | list):
        return tuple(example), {}
    if example is not None:
        raise AssumptionError(f"{name}: example inputs are {type(example).__name__}; give a tensor, a tuple or a dictionary")
    parameters = list(inspect.signature(module.forward).parameters.values())
    kwargs: dict[str, Any] = {}
    missing: list[str] = []
    for parameter in parameters:
        if parameter.name in declared:
            kwargs[parameter.name] = declared[parameter.name].example(options.dims)
        elif parameter.default is inspect.Parameter.empty and parameter.kind not in (
            inspect.Parameter.VAR_POSITIONAL,
            inspect.Parameter.VAR_KEYWORD,
        ):
            missing.append(parameter.name)
    if missing:
        raise AssumptionError(
            f"{name}: nothing is known about its input {missing[0]!r}; declare it in the file"
            f" (# tensorproof: {missing[0]} = float32[N,3,32,32] in [0,1]), or write a function {INPUTS_FUNCTION}()"
        )
    # Leading inputs by position: the usual way to call a module.
    args: list[Any] = []
    for parameter in parameters:
        if parameter.name not in kwargs or parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            break
        args.append(kwargs.pop(parameter.name))
    return tuple(args), kwargs


def _converted(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], precision: str
) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
    """The module and its floating inputs in another dtype, as `.half()` does it; the user's own module stays as it is."""
    import copy

    import torch
    from torch.utils import _pytree as pytree  # pyright: ignore[reportPrivateImportUsage]

    dtype = getattr(torch, precision, None)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise ConfigurationError(f"--precision {precision!r}: torch has no such floating format")

    def convert(leaf: Any) -> Any:
        return leaf.to(dtype) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf

    module = copy.deepcopy(module).to(dtype)
    return module, pytree.tree_map(convert, args), pytree.tree_map(convert, kwargs)


def _note_conversions(traced: TorchModel, original: torch.nn.Module) -> None:
    """Remember which weights and buffers of the module became infinite or zero in the format that it was converted to."""
    model = traced.model
    before = {**dict(original.named_parameters()), **dict(original.named_buffers())}
    for number, array in model.constants.items():
        tensor = before.get(model.name_of(number))
        change = None if tensor is None else change_of(array_of(tensor), array)
        if change is not None:
            model.conversions[number] = change


def _domains(traced: TorchModel, declared: Mapping[str, InputDeclaration]) -> dict[str, Domain]:
    """Ranges of inputs: as declared; integers that are only known by an example lie where its numbers lie."""
    found: dict[str, Domain] = {}
    for number in traced.model.graph.inputs:
        value = traced.model.values[number]
        declaration = declared.get(value.name)
        if declaration is not None and declaration.domain is not None:
            found[value.name] = declaration.domain
        elif value.format is not None and value.format.kind == "int" and value.name in traced.example:
            example = traced.example[value.name]
            if example.numel():
                found[value.name] = Domain("box", float(example.min()), float(example.max()), source="example")
    return found
