"""The script that replays a failure of a PyTorch program, by itself: `witness.py` writes it with other words and numbers on top.

It needs torch and numpy alone. It is a module of the package so that it is linted and typed; nothing imports it. External values
are named as in `external.py`: a change there is a change here.
"""

# Variables of the environment have to be there before torch is imported.
# ruff: noqa: E402

from __future__ import annotations

import argparse
import json
import linecache
import os
import random
import runpy
import subprocess
import sys
import sysconfig
import traceback
import weakref
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from inspect import currentframe
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

# Sums are added up, and sets gone through, in the order of the run that failed.
_ORDER = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
if __name__ == "__main__" and not _ORDER.keys() <= os.environ.keys():
    os.execve(sys.executable, sys.orig_argv, {**_ORDER, **os.environ})

import numpy as np
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader

HERE = Path(__file__).resolve().parent
#: The parts of torch that are not documented are asked for through it.
_ANY: Any = torch
# -- what is replayed --
PROGRAM = ""
FOLDER = ""
ARGUMENTS: list[str] = []
SEED = 0
ARRAYS = ""
#: Of values that are not replaced as a whole, the rows that are.
ROWS: dict[str, list[int]] = {}
#: The step of training from which on the values are given to the program; they are for a few steps.
FIRST = 0
STEPS = 4
RULE = ""
OPERATOR = ""
#: "forward": operands of the operator are finite, and its result is not. "backward": gradients become so in its derivative.
PHASE: str = "forward"
FILE = ""
LINE = 0
#: Lines of the program as they were: they are found again where they have moved.
LINES: dict[str, dict[int, str]] = {}
# -- end of what is replayed --

_MOVED_DRAWS = frozenset(
    {"rand", "randn", "rand_like", "randn_like", "normal", "normal_", "uniform", "uniform_", "normal_functional", "exponential_"}
)
_OVERWRITES = frozenset({
    "copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "log_normal_", "cauchy_",
    "geometric_",
})  # fmt: skip
_MADE_OF_NUMBERS = frozenset({"lift_fresh", "lift_fresh_copy", "lift"})
_MOST_CALLS = 20_000
#: Frames that are searched for the variable that holds a tensor.
_DEPTH = 28
#: AccumulateGrad has the largest number there is.
_UNNUMBERED = 1 << 63
_TORCH = str(Path(torch.__file__).parent) + os.sep
_LIBRARIES = tuple(sysconfig.get_path(key) + os.sep for key in ("stdlib", "platstdlib", "purelib", "platlib"))


def test_the_failure_is_gone() -> None:
    """Fails as long as the program does."""
    ended = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def main() -> NoReturn:
    """Run the program with the values of the failure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--program", type=Path, default=HERE / PROGRAM, help="another copy of the program")
    parser.add_argument("--folder", type=Path, default=HERE / FOLDER, help="another working directory")
    parser.add_argument("--arrays", type=Path, default=HERE / ARRAYS, help="other values")
    parser.add_argument("--details", type=Path, help="where to write what was seen, as JSON")
    given = parser.parse_args()
    replay = Replay(read(given.arrays), given.details)
    program = given.program.resolve()
    os.chdir(given.folder)
    sys.argv = [str(program), *ARGUMENTS]
    sys.path[0] = str(program.parent)
    random.seed(SEED)
    np.random.seed(SEED % 2**32)  # noqa: NPY002
    torch.manual_seed(SEED)
    replay.install()
    try:
        with replay:
            runpy.run_path(str(program), run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            replay.finish(2, f"the program ended with exit code {end.code}")
    except Exception:
        traceback.print_exc()
        replay.finish(2, "the program failed before")
    replay.over()


def read(path: Path) -> dict[str, Any]:
    """Arrays by name."""
    with np.load(path, allow_pickle=False) as archive:
        names = json.loads(bytes(archive["names"]))
        return {name: archive[f"array_{number}"] for number, name in enumerate(names)}


class Replay(TorchDispatchMode):
    """Gives the values to the program, by their names, and looks for the failure."""

    def __init__(self, values: dict[str, Any], details: Path | None) -> None:
        super().__init__()
        self._values = values
        self._details = details
        self._process = os.getpid()
        self._given: set[str] = set()
        self._steps = 0
        self._calls = 0
        self._is_paused = False
        #: Tensors that were computed in this step, by identity.
        self._made: dict[int, torch.Tensor] = {}
        self._weights: dict[int, tuple[torch.Tensor, str]] = {}
        self._memory: dict[int, int] = {}
        self._has_used_weights = False
        #: Values of this step.
        self._present: dict[int, tuple[torch.Tensor, str]] = {}
        #: Data and results of earlier steps that something still holds.
        self._data: dict[int, tuple[weakref.ref[torch.Tensor], str]] = {}
        self._results: dict[int, weakref.ref[torch.Tensor]] = {}
        self._counts: dict[str, int] = {}
        #: Variables whose tensors get values although the program computes them, as far as they were not met in this step.
        self._variables = {name.removeprefix("value:") for name in values if name.startswith("value:")}
        self._sought = set(self._variables)
        self._loaders: list[tuple[weakref.ref[Any], tuple[str, int]]] = []
        #: The operator and the line of nodes of autograd, by their numbers.
        self._origins: dict[int, tuple[str, str, int]] = {}
        self._hooked: list[Any] = []

    # -- operators ------------------------------------------------------------------------------------------------------

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        named = kwargs or {}
        if os.getpid() != self._process:
            return func(*args, **named)
        if _ANY._C._current_graph_task_id() != -1:
            result = func(*args, **named)
            self._look_at_node(_ANY._C._current_autograd_node())
            return result
        name = str(func._schema.name).rpartition("::")[2]
        self._note_origin(name, args)
        if self._is_paused:
            return self._run(name, func, args, named)
        written, updates = _written(func, name, args, named)
        if any(tensor.layout is torch.strided and memory(tensor) in self._memory.values() for tensor in written):
            self.update()
            result = self._run(name, func, args, named)
            self._made.clear()
            return result
        read = list(tensors_in((args, named)))
        for tensor in read:
            if tensor.requires_grad and tensor.is_leaf:
                self._made.pop(id(tensor), None)
                if self._memory.get(id(tensor), 0) and self._memory[id(tensor)] != memory(tensor):
                    self._memory = {number: memory(weight) for number, (weight, _) in self._weights.items()}
                    self.update()
        for tensor in read if self._sought else ():
            if id(tensor) in self._made and not tensor.requires_grad and tensor.is_floating_point() and tensor.dim():
                variable = next((held for held in _held_by(tensor) if held in self._sought), None)
                if variable is not None:
                    self._sought.discard(variable)
                    self._made.pop(id(tensor))
                    self._enter(tensor, f"value:{variable}")
        if name not in _MADE_OF_NUMBERS:
            filled = set[int]() if updates else {id(tensor) for tensor in written}
            for tensor in read:
                if id(tensor) not in self._made and id(tensor) not in filled:
                    self._used(tensor)
        result = self._run(name, func, args, named)
        if name == "native_dropout":
            self._note(result[:1], written)
        elif torch.Tag.nondeterministic_seeded in func.tags:
            self._drawn(name, result)
        elif name in _MADE_OF_NUMBERS:
            self._made.pop(id(result), None)
        else:
            self._note(result, written)
        return result

    def _note(self, result: Any, written: Iterable[torch.Tensor]) -> None:
        self._made.update((id(tensor), tensor) for tensor in (*tensors_in(result), *written))
        self._calls += 1
        if self._calls > _MOST_CALLS:
            self._done()

    def _drawn(self, name: str, result: Any) -> None:
        for tensor in tensors_in(result):
            self._made.pop(id(tensor), None)
            if name in _MOVED_DRAWS and tensor.is_floating_point() and tensor.dim() and not tensor.requires_grad:
                self._enter(tensor, self._at_line("draw"))
            elif not tensor.requires_grad:
                # What was drawn to choose is no value.
                self._results[id(tensor)] = weakref.ref(tensor)

    # -- values by name -------------------------------------------------------------------------------------------------

    def _used(self, tensor: torch.Tensor) -> None:
        number = id(tensor)
        is_weight = tensor.requires_grad and tensor.is_leaf
        self._has_used_weights |= is_weight
        held = self._present.get(number)
        if held is not None and held[0] is tensor and not (is_weight and held[1].startswith("draw")):
            return
        if tensor.is_meta or not tensor.numel() or tensor.is_sparse or tensor.is_quantized:
            return
        if is_weight:
            if number not in self._weights or self._weights[number][0] is not tensor:
                self._weights[number] = tensor, f"weight{len(self._weights)}"
                self._memory[number] = memory(tensor)
            self._enter(tensor, self._weights[number][1])
        elif tensor.dim() and tensor.device.type == "cpu" and not self._is_result(tensor) and not _is_state(tensor):
            known = self._data.get(number)
            self._enter(tensor, known[1] if known is not None and known[0]() is tensor else self._at_line("data"))

    def _enter(self, tensor: torch.Tensor, name: str) -> None:
        """A value at its first use in a step: it gets its numbers."""
        self._present[id(tensor)] = tensor, name
        if not self._gives(name):
            return
        array = torch.from_numpy(self._values[name]).to(tensor.dtype)
        rows = ROWS.get(name)
        if rows is not None and array.shape[1:] == tensor.shape[1:] and max(rows) < len(tensor):
            tensor.data[rows] = array
        elif rows is None and array.numel() == tensor.numel():
            tensor.data.copy_(array.reshape(tensor.shape))
        else:
            return
        self._given.add(name)

    def _gives(self, name: str) -> bool:
        return name in self._values and FIRST <= self._steps < FIRST + STEPS

    def _is_result(self, tensor: torch.Tensor) -> bool:
        held = self._results.get(id(tensor))
        return (held is not None and held() is tensor) or any(weight.grad is tensor for weight, _ in self._weights.values())

    def _at_line(self, kind: str) -> str:
        file, line = place()
        site = f"{kind}:{file}:{line}"
        count = self._counts[site] = self._counts.get(site, -1) + 1
        return f"{site}:{count}"

    # -- steps of training ----------------------------------------------------------------------------------------------

    def install(self) -> None:
        """Stand between the program and its loaders and optimisers."""
        register_optimizer_step_pre_hook(lambda *_: self._optimiser(True))
        register_optimizer_step_post_hook(lambda *_: self._optimiser(False))
        loader_class: Any = DataLoader
        iterator_class: Any = _ANY.utils.data.dataloader._BaseDataLoaderIter
        opened, asked = loader_class.__iter__, iterator_class.__next__

        def begin(loader: Any) -> Any:
            with self._paused():
                iterator = opened(loader)
            iterator.replayed_number = self._number(loader)
            return iterator

        def give(iterator: Any) -> Any:
            if self._calls:
                self._done()
            with self._paused():
                fresh = asked(iterator)
            return self._fed(f"batch{getattr(iterator, 'replayed_number', 0)}", fresh)

        loader_class.__iter__ = begin
        iterator_class.__next__ = give

    def _number(self, loader: Any) -> int:
        where = place()
        known = [number for number, (held, _) in enumerate(self._loaders) if held() is loader]
        gone = [number for number, (held, line) in enumerate(self._loaders) if held() is None and line == where]
        number = next(iter((*known, *gone)), len(self._loaders))
        self._loaders[number : number + 1] = [(weakref.ref(loader), where)]
        return number

    def _fed(self, source: str, fresh: Any) -> Any:
        leaves, form = _pytree.tree_flatten(fresh)
        with self._paused():
            for number, leaf in enumerate(leaves):
                if isinstance(leaf, torch.Tensor) and leaf.dim() and leaf.device.type == "cpu":
                    leaves[number] = self._fed_tensor(f"{source}.{number}", leaf)
        return _pytree.tree_unflatten(leaves, form)

    def _fed_tensor(self, name: str, fresh: torch.Tensor) -> torch.Tensor:
        if self._gives(name) and name not in ROWS:
            fresh = torch.from_numpy(self._values[name]).to(fresh.dtype)
            self._given.add(name)
            self._present[id(fresh)] = fresh, name
        else:
            self._enter(fresh, name)
        return fresh

    def _optimiser(self, begins: bool) -> None:
        if begins:
            self.update()
        self._is_paused = begins

    @contextmanager
    def _paused(self) -> Generator[None]:
        before, self._is_paused = self._is_paused, True
        try:
            yield
        finally:
            self._is_paused = before

    def update(self) -> None:
        """Weights are about to change: a step of training is done."""
        if os.getpid() != self._process:
            return
        if self._has_used_weights:
            self._done()
            self._steps += 1
            if self._steps >= FIRST + STEPS:
                self.over()

    def _done(self) -> None:
        self._data = {number: held for number, held in self._data.items() if held[0]() is not None}
        self._results = {number: held for number, held in self._results.items() if held() is not None}
        if self._steps:
            self._results.update((number, weakref.ref(tensor)) for number, tensor in self._made.items())
        for number, (tensor, name) in self._present.items():
            if name.startswith("data"):
                self._data[number] = weakref.ref(tensor), name
        self._present.clear()
        self._sought = set(self._variables)
        self._counts.clear()
        self._has_used_weights = False
        self._made.clear()
        self._origins.clear()
        self._hooked.clear()
        self._calls = 0

    # -- the failure ----------------------------------------------------------------------------------------------------

    def _run(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator, and say so if it is the one that failed and does so again.

        It fails if it makes NaN of operands without NaN, or infinities of finite operands: a mask may be infinite.
        """
        if PHASE != "forward" or not _is_it(name, *place()):
            return func(*args, **kwargs)
        given = list(tensors_in((args, kwargs)))
        was_finite, had_nan = all(map(is_finite, given)), any(map(has_nan, given))
        result = func(*args, **kwargs)
        made = [*tensors_in(result), *_written(func, name, args, kwargs)[0]]
        bad = next((tensor for tensor in made if not is_finite(tensor)), None)
        if bad is not None and (was_finite or (not had_nan and any(map(has_nan, made)))):
            operands = "; ".join(described(tensor) for tensor in given)
            self.fail(f"aten.{name} made something that is not finite of {operands}", bad)
        return result

    def _note_origin(self, name: str, args: Any) -> None:
        number = _ANY.autograd._get_sequence_nr() - 1
        if PHASE == "backward" and number not in self._origins and any(t.requires_grad for t in tensors_in(args)):
            self._origins[number] = name, *place()

    def _look_at_node(self, node: Any) -> None:
        if PHASE != "backward" or node is None or any(node is other for other in self._hooked):
            return
        number = int(node._sequence_nr())
        if number >= _UNNUMBERED or not self._origins:
            return
        # A node that autograd adds behind an operator belongs to that operator.
        origin = self._origins[max((n for n in self._origins if n <= number), default=min(self._origins))]
        if _is_it(*origin):
            self._hooked.append(node)
            node.register_hook(self._look_at_gradients)

    def _look_at_gradients(self, outgoing: Any, incoming: Any) -> None:
        bad = next((tensor for tensor in tensors_in(outgoing) if not is_finite(tensor)), None)
        if bad is not None and all(map(is_finite, tensors_in(incoming))):
            self.fail(f"the derivative of aten.{OPERATOR} made gradients that are not finite of finite ones", bad)

    def fail(self, text: str, bad: torch.Tensor) -> NoReturn:
        """The failure happened."""
        rows: list[int] = []
        if bad.dim():
            rows = torch.where(~torch.isfinite(bad.detach()).reshape(len(bad), -1).all(1))[0].tolist()
        self._tell({"rows": rows, "size": len(bad) if bad.dim() else 0})
        self.finish(1, f"the failure is there, at {FILE}:{LINE}: {text} (step {self._steps})")

    def over(self) -> NoReturn:
        """The program got through."""
        missing = sorted(self._values.keys() - self._given)
        self._tell({})
        if missing:
            self.finish(2, f"the program is another one now: it did not ask for {', '.join(missing)}")
        self.finish(0, f"{FILE}:{LINE} did not fail")

    def _tell(self, seen: dict[str, Any]) -> None:
        if self._details is not None:
            self._details.write_text(json.dumps({**seen, "given": sorted(self._given), "steps": self._steps}))

    def finish(self, code: int, text: str) -> NoReturn:
        """Say how it went. Nothing of the program holds the end back, nor do its threads and workers."""
        print(f"{RULE}: {text}", flush=True)
        sys.stderr.flush()
        os._exit(code)


def _is_it(name: str, file: str, line: int) -> bool:
    return name.strip("_") == OPERATOR.strip("_") and file == FILE and line == LINE


def _written(func: Any, name: str, args: Any, kwargs: Any) -> tuple[list[torch.Tensor], bool]:
    """The tensors that an operator writes to, and whether what they held before counts."""
    written: list[torch.Tensor] = []
    updates = False
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            written.extend(tensors_in(args[position] if position < len(args) else kwargs.get(argument.name)))
            updates = updates or (name not in _OVERWRITES and not argument.is_out)
    return written, updates


def _is_state(tensor: torch.Tensor) -> bool:
    """Whether a tensor is a buffer of a module that is being called."""
    frame: FrameType | None = currentframe()
    for _ in range(12):
        if frame is None:
            return False
        holder = frame.f_locals.get("self")
        if isinstance(holder, torch.nn.Module) and any(buffer is tensor for buffer in holder.buffers(recurse=False)):
            return True
        frame = frame.f_back
    return False


def place() -> tuple[str, int]:
    """The line of the program that is being run: the innermost outside of libraries, or else outside of torch."""
    frame: FrameType | None = currentframe()
    outside: tuple[str, int] | None = None
    while frame is not None:
        file = frame.f_code.co_filename
        if file != __file__ and not file.startswith(_TORCH):
            is_library = file.startswith((*_LIBRARIES, "<frozen ")) or "site-packages" in Path(file).parts
            if not is_library:
                return Path(file).name, original_line(file, frame.f_lineno)
            outside = outside or (Path(file).name, frame.f_lineno)
        frame = frame.f_back
    return outside or ("", 0)


def _held_by(tensor: torch.Tensor) -> Iterator[str]:
    """The variables of the program that hold a tensor, the innermost first."""
    frame: FrameType | None = currentframe()
    for _ in range(_DEPTH):
        if frame is None:
            return
        if "site-packages" not in frame.f_code.co_filename and frame.f_code.co_filename != __file__:
            yield from (name for name, value in frame.f_locals.items() if value is tensor)
        frame = frame.f_back


def original_line(file: str, line: int) -> int:
    """The number that a line had when the failure was found: the program may have been changed above it."""
    texts = LINES.get(Path(file).name, {})
    text = linecache.getline(file, line).strip()
    if not texts or texts.get(line) == text:
        return line
    return next((number for number, known in texts.items() if known == text), line)


def memory(tensor: torch.Tensor) -> int:
    """What tensors that are views of the same memory share."""
    storage: Any = tensor.untyped_storage()
    return int(storage._cdata)


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors of nested containers."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def is_finite(tensor: torch.Tensor) -> bool:
    """Whether all of its numbers are finite."""
    return not tensor.is_floating_point() or bool(torch.isfinite(tensor.detach()).all())


def has_nan(tensor: torch.Tensor) -> bool:
    """Whether one of its numbers is none."""
    return tensor.is_floating_point() and bool(torch.isnan(tensor.detach()).any())


def described(tensor: torch.Tensor) -> str:
    """The range of a tensor, in words."""
    if not tensor.numel() or not tensor.is_floating_point():
        return f"shape {tuple(tensor.shape)}"
    low, high = torch.aminmax(tensor.detach().float())
    return f"[{float(low):g}, {float(high):g}], shape {tuple(tensor.shape)}"


if __name__ == "__main__":
    main()
