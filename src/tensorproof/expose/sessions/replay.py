"""The script that replays a failure in a TensorFlow session: `witness.py` writes it with other words on top.

It needs tensorflow and numpy alone. It is a module of the package so that it is linted and typed; nothing imports it. External
values are named, and steps counted, as in `program.py`: a change there is a change here.
"""

# Variables of the environment have to be there before tensorflow is imported.
# ruff: noqa: E402

from __future__ import annotations

import argparse
import json
import linecache
import os
import random
import re
import runpy
import subprocess
import sys
import sysconfig
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

# Sums are added up, and sets gone through, in the order of the run that failed.
_ORDER = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
if __name__ == "__main__" and not _ORDER.keys() <= os.environ.keys():
    os.execve(sys.executable, sys.orig_argv, {"TF_CPP_MIN_LOG_LEVEL": "3", **_ORDER, **os.environ})

import numpy as np
import tensorflow as tf
from tensorflow.python.client import session as sessions
from tensorflow.python.framework import ops
from tensorflow.python.ops import control_flow_util

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

_VARIABLES = ("VarHandleOp", "VariableV2", "Variable", "AutoReloadVariable")
_STEP = re.compile(r"^(Resource)?(Sparse)?Apply[A-Z]")
_ASSIGNMENT = re.compile(r"^(Assign\w*|Scatter(Update|Add|Sub|Mul|Div|Nd\w+)|ResourceScatter\w+)$")
_DATA = re.compile(r"^(\w*IteratorGetNext\w*|\w*Dequeue\w*)$")
_DRAW = re.compile(
    r"^(Random(Uniform(Int)?|StandardNormal|Gamma|Poisson(V2)?|Shuffle)|(Parameterized)?TruncatedNormal|Multinomial"
    r"|StatefulUniform|StatefulStandardNormalV2)$"
)
_GRADIENTS = re.compile(r"(?:^|/)(?:gradients|gradient_tape)(?:_\d+)?/")
_LIBRARIES = tuple(sysconfig.get_path(key) + os.sep for key in ("stdlib", "platstdlib", "purelib", "platlib"))
_TENSORFLOW = str(Path(tf.__file__).parent) + os.sep
#: The parts of TensorFlow that are not documented are asked for through these.
_SESSION: Any = sessions.BaseSession
_GRAPH: Any = ops.Graph


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


class Plan:
    """What a call executes: the operators, those of the failure, the variables, and whether it trains."""

    def __init__(self, targets: Sequence[Any], fetches: Sequence[Any], fed: frozenset[str]) -> None:
        self.operators = list(ordered(targets, fetches, fed))
        self.sought = [op for op in self.operators if op.type == OPERATOR and not _GRADIENTS.search(op.name) and is_there(op)]
        self.data = [t for op in self.operators if _DATA.match(op.type) for t in op.outputs if is_array(t)]
        self.drawn = [t for op in self.operators if _DRAW.match(op.type) and is_outside(op) for t in op.outputs]
        self.variables = {op.name: op for op in self.operators if op.type in _VARIABLES}
        taken = [operand for op in self.operators for operand in op.inputs if operand.name in fed]
        has_data = bool(self.data) or any(t.dtype.is_floating and t.shape.rank != 0 for t in taken)
        updates = list(_updates(self.operators, fed))
        self.is_training = any(_STEP.match(op.type) for op in updates) or bool(updates and has_data)


class Replay:
    """Gives the values to the program, by their names, and looks for the failure."""

    def __init__(self, values: dict[str, Any], details: Path | None) -> None:
        self._values = values
        self._details = details
        self._given: set[str] = set()
        self._steps = 0
        self._plans: dict[Any, Plan] = {}
        self._process = os.getpid()
        self._run = _SESSION._do_run
        self._returned: list[Any] = []

    def install(self) -> None:
        """Be told of the calls of sessions; graphs have the seed of the run that failed."""
        made = _GRAPH.__init__

        def make(graph: Any, *args: Any, **kwargs: Any) -> None:
            made(graph, *args, **kwargs)
            if type(graph) is _GRAPH:
                graph.seed = SEED

        def run(session: Any, handle: Any, targets: Any, fetches: Any, feeds: Any, options: Any, metadata: Any) -> list[Any]:
            if handle is not None or os.getpid() != self._process:
                return self._run(session, handle, targets, fetches, feeds, options, metadata)
            return self._called(session, targets, fetches, {ref.deref().name: array for ref, array in feeds.items()})

        tf.compat.v1.get_default_graph().seed = SEED
        tf.random.set_seed(SEED)
        tf.config.experimental.enable_op_determinism()
        _GRAPH.__init__ = make
        _SESSION._do_run = run

    def _ask(self, session: Any, targets: Sequence[Any], fetches: Sequence[Any], feeds: dict[str, Any]) -> list[Any]:
        if not targets and not fetches:
            return []
        fed = {session.graph.get_tensor_by_name(name).ref(): array for name, array in feeds.items()}
        return self._run(session, None, list(targets), list(fetches), fed, None, None)

    def _called(self, session: Any, targets: Sequence[Any], fetches: Sequence[Any], feeds: dict[str, Any]) -> list[Any]:
        key = session.graph, tuple(op.name for op in targets), tuple(t.name for t in fetches), frozenset(feeds)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = Plan(targets, fetches, frozenset(feeds))
        is_step = plan.is_training or any(array is other for array in feeds.values() for other in self._returned)
        if plan.sought and FIRST <= self._steps < FIRST + STEPS:
            found = self._with_values(session, plan, targets, fetches, feeds)
        else:
            found = self._ask(session, targets, fetches, feeds)
        self._returned = [*found, *self._returned][:64]
        self._steps += is_step
        if self._steps >= FIRST + STEPS:
            self.over()
        return found

    def _with_values(
        self, session: Any, plan: Plan, targets: Sequence[Any], fetches: Sequence[Any], feeds: dict[str, Any]
    ) -> list[Any]:
        """A call that gets the values; the operator is looked at if something is not finite afterwards."""
        if any(f"batch1.{tensor.name}" in self._values for tensor in plan.data):
            # The end of the data is met here, as the program's call would meet it.
            feeds = {**feeds, **dict(zip((t.name for t in plan.data), self._ask(session, (), plan.data, feeds)))}
        feeds = {**feeds, **self._fed(plan, feeds)}
        self._assign(session, plan, self._held(plan))
        before = self._read(session, plan) if plan.is_training else {}
        beside = [tensor for tensor in (*plan.drawn, *plan.data) if tensor.name not in feeds]
        try:
            found = self._ask(session, targets, [*fetches, *beside], feeds)
        except tf.errors.InvalidArgumentError as error:
            if re.search("nan|inf", str(error.message), re.IGNORECASE):
                # The program looks for NaN itself, and stops.
                self._look(session, plan, feeds, before, set())
            raise
        feeds |= dict(zip((t.name for t in beside), found[len(fetches) :]))
        after = self._read(session, plan) if plan.is_training else {}
        spoilt = {name for name, array in after.items() if not is_finite(array) and is_finite(before.get(name, 0.0))}
        if spoilt or not all(map(is_finite, found[: len(fetches)])):
            self._look(session, plan, feeds, before, spoilt)
            self._assign(session, plan, after)
        return found[: len(fetches)]

    def _fed(self, plan: Plan, feeds: dict[str, Any]) -> dict[str, Any]:
        """The values among those that a call takes, by tensor; of some only a few rows are replaced."""
        drawn = {tensor.name for tensor in plan.drawn}
        found: dict[str, Any] = {}
        for name, array in self._values.items():
            kind, _, tensor = name.partition("." if name.startswith("batch") else ":")
            own = feeds.get(tensor)
            if kind == "draw" and tensor in drawn:
                found[tensor] = array
            elif own is not None and name in ROWS:
                mixed = np.array(own)
                if mixed.shape[1:] != array.shape[1:] or max(ROWS[name]) >= len(mixed):
                    continue
                mixed[ROWS[name]] = array
                found[tensor] = mixed
            elif own is not None:
                found[tensor] = array.astype(np.asarray(own).dtype)
            else:
                continue
            self._given.add(name)
        return found

    # -- variables ------------------------------------------------------------------------------------------------------

    def _held(self, plan: Plan) -> dict[str, Any]:
        """The values of variables."""
        held = {name: self._values[f"weight:{name}"] for name in plan.variables if f"weight:{name}" in self._values}
        self._given.update(f"weight:{name}" for name in held)
        return held

    def _assign(self, session: Any, plan: Plan, values: dict[str, Any]) -> None:
        for name, array in values.items():
            operator = assignment(plan.variables[name])
            if operator is not None:
                self._ask(session, [operator], (), {operator.inputs[1].name: array})

    def _read(self, session: Any, plan: Plan) -> dict[str, Any]:
        tensors = {name: tensor for name, op in plan.variables.items() if (tensor := reading(op)) is not None}
        return dict(zip(tensors, self._ask(session, (), list(tensors.values()), {})))

    # -- the failure ----------------------------------------------------------------------------------------------------

    def _look(self, session: Any, plan: Plan, feeds: dict[str, Any], before: dict[str, Any], spoilt: set[str]) -> None:
        """Whether it was the operator that failed, in the state that the call began with."""
        self._assign(session, plan, before)
        for op in plan.sought:
            if _STEP.match(op.type):
                bad = next((operand.op.name for operand in op.inputs if operand.op.name in spoilt), None)
                if bad is not None:
                    self.fail(f"{op.type} left numbers that are not finite in {bad}", ())
            elif PHASE == "forward":
                self._look_forward(session, op, feeds)
            else:
                self._look_backward(session, plan, op, feeds)

    def _look_forward(self, session: Any, op: Any, feeds: dict[str, Any]) -> None:
        operands, results = visible(op.inputs, feeds), visible(op.outputs, feeds)
        found = self._ask(session, (), [*operands, *results], feeds)
        taken, made = found[: len(operands)], found[len(operands) :]
        if all(map(is_finite, made)):
            # What looks on changes what TensorFlow makes of a graph: the operands are not looked at this time.
            taken, made = [], self._ask(session, (), results, feeds)
        bad = next((array for array in made if not is_finite(array)), None)
        if bad is not None and not any(np.isnan(array).any() for array in taken):
            seen = f", {operands[0].name} in {described(taken[0])}" if taken else ""
            self.fail(f"{op.type} returned numbers that are not finite{seen}", bad)

    def _look_backward(self, session: Any, plan: Plan, op: Any, feeds: dict[str, Any]) -> None:
        """The formula of the derivative: what goes into it is finite, and what leaves it is not."""
        formula = {other.name for other in plan.operators if differentiates(other, op)}
        into: dict[str, Any] = {}
        out: dict[str, Any] = {}
        for other in plan.operators:
            for tensor in visible(other.inputs, feeds):
                if (tensor.op.name in formula) != (other.name in formula):
                    (into if other.name in formula else out)[tensor.name] = tensor
        found = self._ask(session, (), [*into.values(), *out.values()], feeds)
        taken, made = found[: len(into)], found[len(into) :]
        bad = next((array for array in made if not is_finite(array)), None)
        if bad is not None and not any(np.isnan(array).any() for array in taken):
            seen = visible(op.inputs, feeds)
            held = f", {seen[0].name} in {described(self._ask(session, (), seen[:1], feeds)[0])}" if seen else ""
            self.fail(f"the derivative of {op.type} is not finite{held}", bad)

    # -- the end --------------------------------------------------------------------------------------------------------

    def fail(self, text: str, bad: Any) -> NoReturn:
        """The failure happened."""
        array = np.asarray(bad, np.float64)
        rows: list[int] = []
        if array.ndim and array.size:
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


def ordered(targets: Sequence[Any], fetches: Sequence[Any], fed: frozenset[str]) -> Iterator[Any]:
    """The operators that a call executes, operands first."""
    done: set[str] = set()
    for root in [*targets, *(tensor.op for tensor in fetches if tensor.name not in fed)]:
        pending: list[tuple[Any, bool]] = [(root, False)]
        while pending:
            op, is_ready = pending.pop()
            if is_ready:
                yield op
            elif op.name not in done:
                done.add(op.name)
                pending.append((op, True))
                pending.extend((other, False) for other in op.control_inputs)
                pending.extend((operand.op, False) for operand in op.inputs if operand.name not in fed)


def _updates(operators: Sequence[Any], fed: frozenset[str]) -> Iterator[Any]:
    """The operators that change a variable by what it was, or by other variables."""
    live: set[str] = set()
    given: set[str] = set()
    for op in operators:
        makers = [operand.op.name for operand in op.inputs if operand.name not in fed]
        if op.type in _VARIABLES or any(maker in live for maker in makers):
            live.add(op.name)
        if len(makers) < len(op.inputs) or _DATA.match(op.type) or any(maker in given for maker in makers):
            given.add(op.name)
        if _STEP.match(op.type):
            yield op
        elif _ASSIGNMENT.match(op.type) and op.name != f"{op.inputs[0].op.name}/Assign":
            adds = not op.type.startswith("Assign") or op.type.startswith(("AssignAdd", "AssignSub"))
            if any(maker in live or (adds and maker in given) for maker in makers[1:]):
                yield op


def is_there(op: Any) -> bool:
    """Whether an operator was made at the line of the failure: by the innermost frame outside of libraries, or of TensorFlow."""
    outside = [frame for frame in op.traceback or () if not frame.filename.startswith((_TENSORFLOW, __file__, "<frozen "))]
    own = [frame for frame in outside if not frame.filename.startswith(_LIBRARIES) and "site-packages" not in frame.filename]
    if not outside:
        return False
    frame = (own or outside)[-1]
    return Path(frame.filename).name == FILE and original_line(frame.filename, frame.lineno) == LINE


def original_line(file: str, line: int) -> int:
    """The number that a line had when the failure was found: the program may have been changed above it."""
    texts = LINES.get(Path(file).name, {})
    text = linecache.getline(file, line).strip()
    if not texts or texts.get(line) == text:
        return line
    return next((number for number, known in texts.items() if known == text), line)


def differentiates(op: Any, other: Any) -> bool:
    """Whether an operator belongs to the derivative of another one."""
    if not _GRADIENTS.search(op.name):
        return False
    if op._original_op is not None:
        return op._original_op is other
    return f"/{other.name}_grad" in f"/{op.name}"


def assignment(variable: Any) -> Any:
    """The operator that gives a variable its first value."""
    consumers = [op for op in variable.outputs[0].consumers() if not op.control_inputs]
    found = [op for op in consumers if op.type in ("Assign", "AssignVariableOp")]
    return next((op for op in found if op.name == f"{variable.name}/Assign"), found[0] if found else None)


def reading(variable: Any) -> Any:
    """What reads a variable."""
    if variable.type != "VarHandleOp":
        return variable.outputs[0]
    found = [op for op in variable.outputs[0].consumers() if op.type == "ReadVariableOp" and not op.control_inputs]
    return found[0].outputs[0] if found else None


def is_array(tensor: Any) -> bool:
    """Whether a tensor can be fetched, and fed again."""
    return tensor.dtype.base_dtype.name not in ("resource", "variant") and tensor.graph.is_feedable(tensor)


def is_outside(op: Any) -> bool:
    """Whether an operator is not part of a loop or a branch."""
    return control_flow_util.GetOutputContext(op) is None


def visible(tensors: Sequence[Any], feeds: dict[str, Any]) -> list[Any]:
    """The floating tensors that can be fetched."""
    found = [tensor for tensor in tensors if tensor.dtype.is_floating and tensor.name not in feeds]
    return [tensor for tensor in found if tensor.op.type not in _VARIABLES and is_outside(tensor.op)]


def is_finite(array: Any) -> bool:
    """Whether all numbers are finite."""
    found = np.asarray(array)
    return found.dtype.kind != "f" or bool(np.isfinite(found).all())


def described(array: Any) -> str:
    """The range of an array, in words."""
    numbers = np.asarray(array, np.float64)
    return f"[{numbers.min():g}, {numbers.max():g}], shape {numbers.shape}" if numbers.size else f"shape {numbers.shape}"


if __name__ == "__main__":
    main()
