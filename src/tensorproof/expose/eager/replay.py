"""The script that replays a failure of an eager TensorFlow program: `witness.py` writes it with other words on top.

It needs tensorflow and numpy alone, and keras where the program does. It is a module of the package so that it is linted and typed;
nothing imports it. External values are named, and steps counted, as in `program.py`: a change there is a change here.
"""

# Variables of the environment have to be there before tensorflow is imported.
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
import threading
import traceback
import weakref
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from inspect import currentframe
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, NoReturn

# Sums are added up, and sets gone through, in the order of the run that failed.
_ORDER = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
if __name__ == "__main__" and not _ORDER.keys() <= os.environ.keys():
    os.execve(sys.executable, sys.orig_argv, {"TF_CPP_MIN_LOG_LEVEL": "3", **_ORDER, **os.environ})

import numpy as np
import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.data.ops import iterator_ops, structured_function
from tensorflow.python.eager import backprop, imperative_grad
from tensorflow.python.framework import constant_op, op_callbacks, op_def_registry, ops
from tensorflow.python.ops import resource_variable_ops

HERE = Path(__file__).resolve().parent
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
#: "forward": operands of the operator are finite, and its result is not. "backward": gradients become so in its derivative, or
#: weights when an optimiser changes them.
PHASE: str = "forward"
FILE = ""
LINE = 0
#: Lines of the program as they were: they are found again where they have moved.
LINES: dict[str, dict[int, str]] = {}
# -- end of what is replayed --

_DRAWS = (
    "RandomUniform", "RandomStandardNormal", "TruncatedNormal", "StatelessRandomUniform", "StatelessRandomUniformV2",
    "StatelessRandomNormal", "StatelessRandomNormalV2", "StatelessTruncatedNormal", "StatelessTruncatedNormalV2",
    "StatefulUniform", "StatefulStandardNormal", "StatefulStandardNormalV2", "StatefulTruncatedNormal",
)  # fmt: skip
_STATELESS_DRAWS = ("StatelessRandom", "StatelessTruncated", "StatelessParameterized")
_WRITES = ("Assign", "ResourceApply", "ResourceSparseApply", "ResourceScatter", "ResourceStridedSliceAssign")
_MOST_CALLS = 20_000
_OPTIMISERS = "keras.src.optimizers.base_optimizer"
_LIBRARIES = tuple(sysconfig.get_path(key) + os.sep for key in ("stdlib", "platstdlib", "purelib", "platlib"))
_TENSORFLOW = str(Path(tf.__file__).parent) + os.sep
#: The parts of TensorFlow that are not documented are asked for through these.
_TAPES: Any = backprop
_FAST: Any = pywrap_tfe
_DATASETS: Any = structured_function
_OPTIONAL: Any = tf.experimental.Optional


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
    tf.random.set_seed(SEED)
    replay.install()
    try:
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


class Replay:
    """Gives the values to the program, by their names, and looks for the failure."""

    def __init__(self, values: dict[str, Any], details: Path | None) -> None:
        self._values = values
        self._details = details
        self._process = os.getpid()
        self._thread = threading.get_ident()
        self._given: set[str] = set()
        self._steps = 0
        self._calls = 0
        self._counts: dict[str, int] = {}
        self._datasets: dict[tuple[str, str], int] = {}
        #: Names of variables by the numbers of their handles, and those that were read in this step.
        self._variables: dict[int, tuple[str, weakref.ref[Any]]] = {}
        self._read: set[str] = set()
        #: What the program may hold longer than a step.
        self._held: list[tuple[weakref.ref[Any], str]] = []
        #: Numbers of the tensors that the operator took and made where it failed.
        self._origins: set[int] = set()
        self._is_paused = self._is_backward = self._is_recorded = self._is_updating = False
        self._formulas = 0
        self._has_gradients = self._uses_tapes = False
        self._hears_keras = False

    # -- standing between TensorFlow and the program --------------------------------------------------------------------

    def install(self) -> None:
        """Be told of operators, gradients, variables, batches and arrays."""
        # It is our doing that functions run eagerly, and the program may have made errors of all warnings.
        _DATASETS.warnings = SimpleNamespace(warn=lambda *_, **__: None)
        tf.config.run_functions_eagerly(True)
        op_callbacks.add_op_callback(self._operator)
        formula = _TAPES._gradient_function
        _FAST.TFE_Py_RegisterGradientFunction(lambda *given: self._formula(formula, *given))
        self._replace(imperative_grad, "imperative_grad", self._gradients)
        self._replace(resource_variable_ops.BaseResourceVariable, "__init__", self._variable)
        self._replace(iterator_ops.OwnedIterator, "_next_internal", self._batch)
        self._replace(iterator_ops.OwnedIterator, "get_next_as_optional", self._optional_batch)
        self._replace(constant_op, "convert_to_eager_tensor", self._converted)
        self._replace(_FAST, "TFE_Py_FastPathExecute", self._executed)

    def _replace(self, owner: Any, name: str, hear: Callable[..., Any]) -> None:
        original = getattr(owner, name)

        def heard(*args: Any, **kwargs: Any) -> Any:
            is_ours = self._is_paused or threading.get_ident() != self._thread or os.getpid() != self._process
            return original(*args, **kwargs) if is_ours else hear(original, *args, **kwargs)

        setattr(owner, name, heard)

    @contextmanager
    def _paused(self) -> Generator[None]:
        before, self._is_paused = self._is_paused, True
        try:
            yield
        finally:
            self._is_paused = before

    # -- operators ------------------------------------------------------------------------------------------------------

    def _operator(self, op: Any, inputs: Any, attributes: Any, outputs: Any, op_name: Any = None, graph: Any = None) -> None:
        if graph is not None or self._is_paused or os.getpid() != self._process:
            return
        name = op.decode() if isinstance(op, bytes) else str(op)
        if name == "ReadVariableOp":
            self._read_variable(inputs[0], outputs[0])
        elif name.startswith(_WRITES):
            self._wrote(inputs[0])
        elif outputs and not (self._formulas and not self._is_recorded):
            self._computed(name, list(inputs), list(outputs))

    def _computed(self, op: str, inputs: list[Any], outputs: list[Any]) -> None:
        file, line = place()
        is_it = op == OPERATOR and (file, line) == (FILE, LINE)
        is_update = self._is_updating or (self._is_backward and not self._is_recorded)
        if is_it and not self._formulas and (PHASE == "forward" or is_update):
            self._look(op, inputs, outputs)
        if is_update:
            return
        known = op_def_registry.get(op)
        if known is None or known.is_stateful or op.startswith(_STATELESS_DRAWS):
            if op in _DRAWS and outputs[0].dtype.is_floating and outputs[0].shape.rank:
                self._enter(outputs[0], f"draw:{file}:{line}:{self._count(f'draw:{file}:{line}')}")
            return
        if is_it:
            self._origins.update(tensor._id for tensor in (*inputs, *outputs))
        name = f"made:{file}:{line}:{self._count(f'{file}:{line}')}"
        if not self._steps and len(outputs) == 1 and outputs[0].dtype.is_floating:
            self._enter(outputs[0], name)
        self._calls += 1
        if self._calls > _MOST_CALLS:
            self._done()

    def _look(self, op: str, inputs: list[Any], outputs: list[Any]) -> None:
        """It fails if it makes NaN of operands without NaN, or infinities of finite operands: a mask may be infinite."""
        bad = next((tensor for tensor in outputs if not is_finite(tensor)), None)
        if bad is None:
            return
        was_finite, had_nan = all(map(is_finite, inputs)), any(map(has_nan, inputs))
        if was_finite or (not had_nan and any(map(has_nan, outputs))):
            operands = "; ".join(described(tensor) for tensor in inputs)
            self.fail(f"{op} made something that is not finite of {operands}", bad)

    # -- gradients and steps of training --------------------------------------------------------------------------------

    def _gradients(self, compute: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._hear_keras()
        if self._is_backward:
            return compute(*args, **kwargs)
        self._is_recorded = not _FAST.TFE_Py_TapeSetIsEmpty()
        self._is_backward = True
        try:
            found = compute(*args, **kwargs)
        finally:
            self._is_backward = False
        if not self._is_recorded:
            self._has_gradients = self._uses_tapes = True
        self._is_recorded = False
        return found

    def _formula(self, compute: Callable[..., Any], op: Any, *given: Any) -> Any:
        if self._is_paused or threading.get_ident() != self._thread:
            return compute(op, *given)
        self._formulas += 1
        try:
            found = compute(op, *given)
        finally:
            self._formulas -= 1
        _, _, inputs, outputs, arrived, *_rest = given
        if PHASE == "backward" and op == OPERATOR:
            saved = {tensor._id for tensor in tensors_in((inputs, outputs))}
            bad = next((tensor for tensor in tensors_in(found) if not is_finite(tensor)), None)
            is_it = bool(self._origins) and (not saved or not saved.isdisjoint(self._origins))
            if is_it and bad is not None and all(map(is_finite, tensors_in(arrived))):
                self.fail(f"the derivative of {op} made gradients that are not finite of finite ones", bad)
        return found

    def _hear_keras(self) -> None:
        module = sys.modules.get(_OPTIMISERS)
        if module is not None and not self._hears_keras:
            self._hears_keras = True
            self._replace(module.BaseOptimizer, "apply", self._update)

    def _update(self, compute: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self._is_updating:
            return compute(*args, **kwargs)
        self._is_updating = True
        try:
            found = compute(*args, **kwargs)
        finally:
            self._is_updating = False
        self._step_done()
        return found

    def _wrote(self, handle: Any) -> None:
        name, variable = self._known(handle)
        if self._is_updating or self._formulas or variable is None or not variable.trainable:
            return
        if self._has_gradients or (not self._uses_tapes and name in self._read):
            self._step_done()

    def _step_done(self) -> None:
        self._has_gradients = False
        self._done()
        self._steps += 1
        if self._steps >= FIRST + STEPS:
            self.over()
        if self._steps == FIRST:
            for held, name in self._held:
                tensor = held()
                if tensor is not None:
                    self._enter(tensor, name)

    def _done(self) -> None:
        self._counts.clear()
        self._read.clear()
        self._origins.clear()
        self._held = [pair for pair in self._held if pair[0]() is not None]
        self._calls = 0

    # -- values by name -------------------------------------------------------------------------------------------------

    def _variable(self, make: Callable[..., None], variable: Any, *args: Any, **kwargs: Any) -> None:
        make(variable, *args, **kwargs)
        self._hear_keras()
        handle = variable.handle
        if isinstance(handle, ops.EagerTensor) and handle._id not in self._variables:
            self._variables[handle._id] = f"weight{len(self._variables)}", weakref.ref(variable)

    def _known(self, handle: Any) -> tuple[str, Any]:
        name, held = self._variables.get(handle._id, ("", None))
        return name, None if held is None else held()

    def _read_variable(self, handle: Any, tensor: Any) -> None:
        """What is read shares its memory with the variable. Other variables than weights change within a step."""
        name, variable = self._known(handle)
        if variable is not None and ((variable.trainable and not self._is_updating) or name not in self._read):
            self._enter(tensor, name, is_held=False)
        self._read.add(name)

    def _batch(self, ask: Callable[[Any], Any], iterator: Any) -> Any:
        if not tf.executing_eagerly():
            return ask(iterator)
        if self._calls:
            self._done()
        kind = "evaluate" if has_passed("evaluate") else ""
        file, line = place()
        source = f"{file}:{line}{kind}", str(iterator.element_spec)
        number = self._datasets.setdefault(source, len(self._datasets))
        with self._paused():
            fresh = ask(iterator)
            leaves: list[Any] = list(tf.nest.flatten(fresh))
            for index, leaf in enumerate(leaves):
                name = f"batch{number}.{index}"
                if not isinstance(leaf, tf.Tensor) or name not in self._values or not self._gives(name):
                    continue
                array = self._values[name]
                if name in ROWS:
                    leaves[index] = tf.constant(leaf.numpy())
                    self._enter(leaves[index], name, is_held=False)
                else:
                    leaves[index] = tf.constant(array.astype(leaf.dtype.as_numpy_dtype))
                    self._given.add(name)
            return tf.nest.pack_sequence_as(fresh, leaves)

    def _optional_batch(self, ask: Callable[[Any], Any], iterator: Any) -> Any:
        if not tf.executing_eagerly():
            return ask(iterator)
        try:
            return _OPTIONAL.from_value(iterator._next_internal())
        except tf.errors.OutOfRangeError:
            return _OPTIONAL.empty(iterator.element_spec)

    def _converted(self, convert: Callable[..., Any], value: Any, *args: Any, **kwargs: Any) -> Any:
        tensor = convert(value, *args, **kwargs)
        if isinstance(value, (np.ndarray, list, tuple)) and not (self._is_updating or self._is_backward):
            is_whole = isinstance(value, np.ndarray) and (tensor.dtype.is_integer or tensor.dtype.is_bool)
            if tensor.shape.rank and tensor.shape.num_elements() and (tensor.dtype.is_floating or is_whole):
                self._enter(tensor, self._data_name())
        return tensor

    def _executed(self, execute: Callable[..., Any], running: Any, op: Any, name: Any, *args: Any) -> Any:
        if not (self._is_updating or self._is_backward):
            args = tuple(self._handed(item) if _is_array(item) else item for item in args)
        return execute(running, op, name, *args)

    def _handed(self, array: Any) -> Any:
        name = self._data_name()
        if not self._gives(name):
            return array
        with self._paused():
            tensor = tf.constant(array)
        self._enter(tensor, name, is_held=False)
        return np.asarray(tensor.numpy(), array.dtype)

    def _data_name(self) -> str:
        file, line = place()
        return f"data:{file}:{line}:{self._count(f'data:{file}:{line}')}"

    def _count(self, key: str) -> int:
        count = self._counts[key] = self._counts.get(key, -1) + 1
        return count

    def _gives(self, name: str) -> bool:
        return name in self._values and FIRST <= self._steps < FIRST + STEPS

    def _enter(self, tensor: Any, name: str, is_held: bool = True) -> None:
        """A value that the program has just got: its numbers are overwritten."""
        if name not in self._values:
            return
        if is_held:
            self._held.append((weakref.ref(tensor), name))
        held: Any = tensor._numpy()
        array, rows = self._values[name], ROWS.get(name)
        if not self._gives(name) or not isinstance(held, np.ndarray):
            return
        if rows is not None and array.shape[1:] == held.shape[1:] and max(rows) < len(held):
            held[rows] = array.astype(held.dtype)
        elif rows is None and array.size == held.size:
            held[...] = array.reshape(held.shape).astype(held.dtype)
        else:
            return
        self._given.add(name)

    # -- the end --------------------------------------------------------------------------------------------------------

    def fail(self, text: str, bad: Any) -> NoReturn:
        """The failure happened."""
        array = np.asarray(bad._numpy())
        rows: list[int] = []
        if array.ndim:
            rows = np.flatnonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1)).tolist()
        self._tell({"rows": rows, "size": len(array) if array.ndim else 0})
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


def _is_array(item: Any) -> bool:
    return isinstance(item, np.ndarray) and bool(item.ndim) and item.dtype.kind in "fiub"


def place() -> tuple[str, int]:
    """The line of the program that is being run: the innermost outside of libraries, or else outside of TensorFlow."""
    frame: FrameType | None = currentframe()
    outside: tuple[str, int] | None = None
    while frame is not None:
        file = frame.f_code.co_filename
        if file != __file__ and not file.startswith(_TENSORFLOW):
            if not _is_library(file):
                return Path(file).name, original_line(file, frame.f_lineno)
            outside = outside or (Path(file).name, frame.f_lineno)
        frame = frame.f_back
    return outside or ("", 0)


def _is_library(file: str) -> bool:
    return file.startswith((*_LIBRARIES, "<frozen ")) or "site-packages" in Path(file).parts


def has_passed(function: str) -> bool:
    """Whether a function of a library stands between the line of the program and this one."""
    frame: FrameType | None = currentframe()
    while frame is not None and (frame.f_code.co_filename == __file__ or _is_library(frame.f_code.co_filename)):
        if frame.f_code.co_name == function and not frame.f_code.co_filename.startswith(_TENSORFLOW):
            return True
        frame = frame.f_back
    return False


def original_line(file: str, line: int) -> int:
    """The number that a line had when the failure was found: the program may have been changed above it."""
    texts = LINES.get(Path(file).name, {})
    text = linecache.getline(file, line).strip()
    if not texts or texts.get(line) == text:
        return line
    return next((number for number, known in texts.items() if known == text), line)


def tensors_in(value: Any) -> Iterator[Any]:
    """The eager tensors of nested lists; of slices of a tensor, their numbers."""
    value = value.values if isinstance(value, tf.IndexedSlices) else value
    if isinstance(value, ops.EagerTensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)


def is_finite(tensor: Any) -> bool:
    """Whether all of its numbers are finite."""
    return not tensor.dtype.is_floating or bool(np.isfinite(tensor._numpy()).all())


def has_nan(tensor: Any) -> bool:
    """Whether one of its numbers is none."""
    return tensor.dtype.is_floating and bool(np.isnan(tensor._numpy()).any())


def described(tensor: Any) -> str:
    """The range of a tensor, in words."""
    shape = tuple(tensor.shape)
    if not tensor.dtype.is_floating or 0 in shape:
        return f"shape {shape}"
    array = np.asarray(tensor._numpy(), np.float64)
    return f"[{array.min():g}, {array.max():g}], shape {shape}"


if __name__ == "__main__":
    main()
