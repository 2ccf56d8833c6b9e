"""The corpus of PyTorch programs with known defects, and what eager PyTorch says about each of them.

A program is `NAME.py` beside `NAME.expected` in `tests/fixtures/torch`. The first line of the latter gives the options of the
check (`options: Net --phase training`), every other line one finding: `LINE RULE PHASE VERDICT`. A program whose name holds
`_safe` is the repaired twin of the one that is named before it, and has no finding.

`observed` runs a program in eager PyTorch on corners and samples of its declared inputs, and tells which of its lines turned
finite numbers into NaN or infinity. It shares no code with the analyser: expectations are checked against PyTorch itself.
"""

from __future__ import annotations

import copy
import importlib.util
import inspect
import math
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

FOLDER = Path(__file__).parent / "fixtures" / "torch"

#: The size of a dimension that a declaration only names.
OPEN_SIZE = 3

#: The ATen operators that a defect of each rule fails at.
OPERATORS = {
    "NUM101": ("log", "log1p", "log10", "xlogy"),
    "NUM102": ("sqrt",),
    "NUM103": ("div", "reciprocal", "rsqrt"),
    "NUM104": ("pow",),
    "NUM105": ("acos", "atanh"),
    "NUM106": ("fmod",),
    "NUM107": ("floor_divide",),
    "NUM108": ("_softmax",),
    "NUM109": ("mul",),
    "NUM110": ("native_layer_norm",),
    "NUM112": ("nll_loss_forward",),
    "NUM114": ("mean",),
    "NUM116": ("_to_copy",),
    "NUM117": ("lgamma",),
    "NUM201": ("exp", "cosh"),
    "NUM202": ("add", "sub", "mul", "div", "pow"),
    "NUM203": ("mm", "sum", "mean", "cumprod"),
    "NUM204": ("_to_copy",),
}
#: Rules about a constant that is not finite: outputs show it, no operator fails.
STATED = ("NUM115", "NUM205")
#: Rules about gradients that are zero, and about steps of Adam, in 16-bit formats.
STEPS = {"NUM407": "vanished_gradients", "NUM408": "bad_steps"}
#: Rules about a constant that does nothing where it is added.
IDLE = ("NUM301", "NUM302")

#: Arguments whose exponentials are just finite in float32 and in float16: sums of them are not.
NEAR_OVERFLOW = (88.0, 11.0)

#: Operators that write a number the program names: an infinity there is meant.
FILLING = ("fill", "full", "where", "scalar_tensor", "lift_fresh")


@dataclass(frozen=True, order=True)
class Expectation:
    """One line of an `.expected` file."""

    line: int
    rule: str
    phase: str
    verdict: str

    def __str__(self) -> str:
        return f"{self.line} {self.rule} {self.phase} {self.verdict}"


@dataclass(frozen=True)
class Program:
    """A program of the corpus, with the options of its check and the findings that it has to have."""

    path: Path
    name: str
    phase: str
    precision: str | None
    expected: tuple[Expectation, ...]

    @property
    def stem(self) -> str:
        return self.path.stem

    @property
    def is_safe(self) -> bool:
        return "_safe" in self.stem

    @property
    def twin(self) -> str:
        """The defective program that a safe one is the repair of."""
        return self.stem.partition("_safe")[0]

    @classmethod
    def read(cls, path: Path) -> Program:
        lines = [line for line in path.with_suffix(".expected").read_text().splitlines() if line and not line.startswith("#")]
        name, *options = shlex.split(lines[0].removeprefix("options:"))
        given = dict(zip(options[::2], options[1::2], strict=True))
        phase, precision = given.pop("--phase", "inference"), given.pop("--precision", None)
        assert lines[0].startswith("options:") and not given, f"{path.stem}.expected: options that no test knows: {given}"
        expected = tuple(Expectation(int(line), *rest) for line, *rest in map(str.split, lines[1:]))
        return cls(path, name, phase, precision, expected)


def programs() -> list[Program]:
    """All programs of the corpus."""
    return [Program.read(path) for path in sorted(FOLDER.glob("*.py"))]


@dataclass(frozen=True)
class Declared:
    """One declared input, as the program's comment says it."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    low: float
    high: float
    is_set: bool

    def filled(self, value: float) -> torch.Tensor:
        return torch.full(self.shape, min(max(value, self.low), self.high), dtype=torch.float64).to(self.dtype)

    def drawn(self, generator: torch.Generator) -> torch.Tensor:
        """Uniform numbers of the range, or its ends alone where only those are declared."""
        part = torch.rand(self.shape, generator=generator, dtype=torch.float64)
        return self.at(part.round() if self.is_set else part)

    def at(self, part: torch.Tensor) -> torch.Tensor:
        """The numbers that lie at these parts of the way from the low end to the high one."""
        value = (self.low + part * (self.high - self.low)).clamp(self.low, self.high)
        return (value if self.dtype.is_floating_point else value.round()).to(self.dtype)


_DECLARATION = re.compile(r"# tensorproof: (\w+)(?: = (\w+)\[([^\]]*)\])?(?: in ([\[{])([^,]+),([^\]}]+)[\]}])?$", re.MULTILINE)


def declared_inputs(program: Program, module: ModuleType) -> dict[str, Declared]:
    """The inputs in the order of the function's parameters, from comments and from `tensorproof_inputs`."""
    function = getattr(module, program.name)
    order = list(inspect.signature(function.forward if isinstance(function, type) else function).parameters)
    names = [name for name in order if name != "self"]
    examples: Mapping[str, torch.Tensor] = {}
    if hasattr(module, "tensorproof_inputs"):
        given = module.tensorproof_inputs()
        examples = given if isinstance(given, dict) else dict(zip(names, given, strict=True))
    found: dict[str, Declared] = {}
    for name, kind, sizes, bracket, low, high in _DECLARATION.findall(program.path.read_text()):
        if name in examples:
            shape, dtype = tuple(examples[name].shape), examples[name].dtype
        else:
            shape = tuple(int(size) if size.isdigit() else OPEN_SIZE for size in sizes.split(",") if size)
            dtype = getattr(torch, kind)
        found[name] = Declared(shape, dtype, float(low or 0), float(high or 1), bracket == "{" or dtype == torch.bool)
    assert set(found) == set(names), f"{program.stem}: declared are {sorted(found)}, the parameters are {names}"
    return {name: found[name] for name in names}


def points(inputs: Mapping[str, Declared], count: int) -> Iterator[dict[str, torch.Tensor]]:
    """Corners, constants, inputs that are equal to one another, and random numbers: the same ones in every run."""
    generator = torch.Generator().manual_seed(0)
    for value in (-math.inf, math.inf, 0.0, 1.0, *NEAR_OVERFLOW):
        yield {name: declared.filled(value) for name, declared in inputs.items()}
    for index in range(count):
        if index % 5 == 0:
            yield {name: declared.drawn(generator) for name, declared in inputs.items()}
        elif index % 5 == 1:
            corners = {n: torch.rand(d.shape, generator=generator, dtype=torch.float64).round() for n, d in inputs.items()}
            yield {name: declared.at(corners[name]) for name, declared in inputs.items()}
        elif index % 5 == 2:
            state = generator.get_state()
            drawn: dict[str, torch.Tensor] = {}
            for name, declared in inputs.items():
                drawn[name] = declared.drawn(generator.set_state(state))
            yield drawn
        elif index % 5 == 3:
            ends = list(inputs)[index % len(inputs)]
            drawn = {name: declared.drawn(generator) for name, declared in inputs.items()}
            yield drawn | {ends: inputs[ends].filled(inputs[ends].low)}
        else:
            parts = {name: torch.rand(1, generator=generator, dtype=torch.float64) for name in inputs}
            yield {name: declared.at(parts[name].expand(declared.shape).round(decimals=2)) for name, declared in inputs.items()}


def is_finite(values: Any) -> bool:
    """Whether all floating tensors in a value, or in containers of values, are finite."""
    return all(bool(v.isfinite().all()) for v in _floating(values))


def _floating(values: Any) -> list[torch.Tensor]:
    return [v for v in tree_leaves(values) if isinstance(v, torch.Tensor) and v.is_floating_point()]


def _line_in(path: Path) -> int | None:
    """The innermost line of that file that is being executed."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == str(path):
            return frame.f_lineno
        frame = frame.f_back
    return None


@dataclass
class Observed:
    """The lines of a program that fail, by phase, over all runs; forward (with the operator) only where an output shows it."""

    forward: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])
    backward: set[int] = field(default_factory=set[int])
    #: Lines that add a number to a tensor, by whether that ever changed the tensor.
    added: dict[int, bool] = field(default_factory=dict[int, bool])
    #: Runs whose outputs were not finite; runs whose outputs were finite, and whose gradients were not.
    bad_outputs: int = 0
    bad_gradients: int = 0
    #: Runs with finite gradients of which some are zero in the format of the weights alone; with an infinite step of Adam.
    vanished_gradients: int = 0
    bad_steps: int = 0


class _Forward(TorchDispatchMode):
    """Collects the lines whose operators get finite numbers (or infinities that the program itself wrote) and fail."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.failing: set[tuple[int, str]] = set()
        self.added: dict[int, bool] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = _floating((args, kwargs or {}))
        result = func(*args, **(kwargs or {}))
        line, name = _line_in(self.path), func.__name__.partition(".")[0]
        if line is not None and not any(word in name for word in FILLING) and self._fails(given, result):
            self.failing.add((line, name))
        if line is not None and name == "add" and len(given) == 1 and given[0].shape == result.shape:
            self.added[line] = self.added.get(line, False) or not torch.equal(given[0], result)
        return result

    def _fails(self, given: list[torch.Tensor], result: Any) -> bool:
        if is_finite(given):
            out_of_range = any(bool((v.abs() >= 2.0**63).any()) for v in given)
            integers = isinstance(result, torch.Tensor) and result.dtype == torch.int64
            return not is_finite(result) or (integers and out_of_range)
        has_nan = any(bool(v.isnan().any()) for v in given)
        return not self.failing and not has_nan and any(bool(v.isnan().any()) for v in _floating(result))


class _Backward(TorchFunctionMode):
    """Gives every node of the autograd graph a hook that collects its line, when it turns finite gradients into others."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.lines: set[int] = set()
        self.known: set[Any] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        line = _line_in(self.path)
        for tensor in _floating(result):
            if line is not None and tensor.grad_fn is not None:
                self._watch(tensor.grad_fn, line)
        return result

    def _watch(self, start: Any, line: int) -> None:
        waiting = [start]
        while waiting:
            node = waiting.pop()
            if node is not None and node not in self.known:
                self.known.add(node)
                node.register_hook(self._hook(line))
                waiting.extend(following for following, _ in node.next_functions)

    def _hook(self, line: int) -> Callable[[Any, Any], None]:
        def look(made: Any, given: Any) -> None:
            if is_finite(given) and not is_finite(made):
                self.lines.add(line)

        return look


def loaded(path: Path) -> ModuleType:
    """The program as a module of its own."""
    spec = importlib.util.spec_from_file_location(f"corpus_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _cond(condition: Any, then: Callable[..., Any], otherwise: Callable[..., Any], operands: Any) -> Any:
    """What `torch.cond` means. PyTorch's own compiles its branches, where no mode can look."""
    return (then if condition else otherwise)(*operands)


def observed(program: Program, count: int = 60) -> Observed:
    """Run a program in eager PyTorch on `count` points and those that every program gets.

    What is differentiated are the parameters of a module, or the floating inputs where there is none; the outputs' sum stands
    for a loss. A program with a precision is converted as `Module.to` does it.
    """
    module = loaded(program.path)
    chosen = getattr(module, program.name)
    run: Callable[..., Any] = chosen() if isinstance(chosen, type) else chosen
    if isinstance(run, torch.nn.Module):
        run.train(program.phase == "training")
    inputs = declared_inputs(program, module)
    narrow = None if program.precision is None else getattr(torch, program.precision)
    if narrow is not None and isinstance(run, torch.nn.Module):
        run.to(narrow)
    found = Observed()
    torch.manual_seed(0)
    for point in points(inputs, count):
        given = {n: v.to(narrow) if narrow is not None and v.is_floating_point() else v for n, v in point.items()}
        _observe(program, run, given, found)
    return found


def _observe(program: Program, run: Callable[..., Any], given: dict[str, torch.Tensor], found: Observed) -> None:
    """One run: forward, and backward if the program is checked in training."""
    trained = [p for p in run.parameters() if p.requires_grad] if isinstance(run, torch.nn.Module) else []
    if program.phase == "training" and not trained:
        trained = [v.requires_grad_() for v in given.values() if v.is_floating_point()]
    forward, backward = _Forward(program.path), _Backward(program.path)
    try:
        with patch.object(torch, "cond", _cond), forward, backward:
            outputs = run(*given.values())
    except RuntimeError as error:
        found.bad_outputs += 1
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(program.path)]
        found.forward.add((lines[-1] or 0, "floor_divide"))
        return
    for line, has_changed in forward.added.items():
        found.added[line] = found.added.get(line, False) or has_changed
    has_integers = any(isinstance(v, torch.Tensor) and not v.is_floating_point() for v in tree_leaves(outputs))
    if not is_finite(outputs) or has_integers:
        found.bad_outputs += not is_finite(outputs) or bool(forward.failing)
        found.forward |= forward.failing
    elif program.phase == "training":
        gradients = torch.autograd.grad(sum(v.float().sum() for v in _floating(outputs)), trained, allow_unused=True)
        found.bad_gradients += not is_finite(gradients)
        found.backward |= backward.lines
        if isinstance(run, torch.nn.Module) and list(run.parameters()) and is_finite(gradients):
            _observe_step(run, given, gradients, found)


def _observe_step(module: torch.nn.Module, given: dict[str, torch.Tensor], gradients: Any, found: Observed) -> None:
    """Compare gradients with those of the same module in float64, and make one step of Adam in the module's own format."""
    trained = [(p.detach().clone(), g) for p, g in zip(module.parameters(), gradients, strict=True) if g is not None]
    if any(p.dtype.itemsize == 2 for p, _ in trained):
        wide = copy.deepcopy(module).double()
        outputs = wide(*(v.double() if v.is_floating_point() else v for v in given.values()))
        exact = torch.autograd.grad(sum(v.sum() for v in _floating(outputs)), list(wide.parameters()))
        found.vanished_gradients += any(bool(((g == 0) & (e != 0)).any()) for g, e in zip(gradients, exact, strict=True))
    for weight, gradient in trained:
        weight.grad = gradient
    torch.optim.Adam([weight for weight, _ in trained]).step()
    found.bad_steps += not is_finite([weight for weight, _ in trained])


def disagreements(program: Program, found: Observed) -> list[str]:
    """What eager PyTorch says otherwise than the program's expectations: an empty list if they are true."""
    wrong: list[str] = []
    forward = [e for e in program.expected if e.phase == "forward" and e.rule in OPERATORS]
    for expectation in forward:
        if not any((expectation.line, operator) in found.forward for operator in OPERATORS[expectation.rule]):
            wrong.append(f"{expectation}: no such operator failed")
    for line, operator in sorted(found.forward):
        if not any(e.line == line and operator in OPERATORS[e.rule] for e in forward):
            wrong.append(f"line {line}: {operator} failed")
    for rule, counted in STEPS.items():
        if any(e.rule == rule for e in program.expected) != bool(getattr(found, counted)):
            wrong.append(f"{counted}: {getattr(found, counted)}")
    expected = {e.line for e in program.expected if e.phase == "backward" and e.rule not in STEPS}
    wrong += [f"line {line}: its gradient is finite" for line in sorted(expected - found.backward)]
    wrong += [f"line {line}: its gradient is not finite" for line in sorted(found.backward - expected)]
    idle = {line for line, has_changed in found.added.items() if not has_changed}
    if idle != {e.line for e in program.expected if e.rule in IDLE}:
        wrong.append(f"lines that add nothing: {sorted(idle)}")
    if found.bad_outputs == 0 and any(e.phase == "forward" and e.rule not in IDLE for e in program.expected):
        wrong.append("all outputs are finite")
    if program.is_safe and (found.bad_outputs or found.bad_gradients):
        wrong.append(f"not finite: {found.bad_outputs} outputs, {found.bad_gradients} gradients")
    return wrong
