"""External values of an eager TensorFlow program: what it is given from outside, by names that are the same in every run.

    batch0.1             the second tensor of what the first dataset gives
    data:train.py:12:0   the first array that line 12 hands to TensorFlow in a step of training
    draw:train.py:12:0   the first random numbers that line 12 draws in a step
    made:train.py:9:2    what the third operator of line 9 computed before the program began to train, and is trained with
    weight3              the fourth variable that the program makes

Tensors are overwritten in place where they live on (the numbers of an eager tensor on the CPU are a NumPy array), variables are
assigned to, and batches and arrays are given anew in each step.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tensorproof.expose.eager.places import is_state, label_of
from tensorproof.expose.eager.recording import Call, is_floating
from tensorproof.expose.search.moves import Legal, is_label
from tensorproof.formats import Array

Kind = Literal["batch", "data", "made", "draw", "weight"]

_UNIFORM, _NORMAL, _TRUNCATED = Legal(0.0, 1.0), Legal(-4.0, 4.0), Legal(-2.0, 2.0)
#: Draws whose numbers are moved, and where they lie; a normal one leaves this once in 16,000 numbers.
DRAWS: Mapping[str, Legal] = {
    **dict.fromkeys(("RandomUniform", "StatelessRandomUniform", "StatelessRandomUniformV2", "StatefulUniform"), _UNIFORM),
    **dict.fromkeys(("RandomStandardNormal", "StatelessRandomNormal", "StatelessRandomNormalV2"), _NORMAL),
    **dict.fromkeys(("StatefulStandardNormal", "StatefulStandardNormalV2"), _NORMAL),
    **dict.fromkeys(("TruncatedNormal", "StatelessTruncatedNormal", "StatelessTruncatedNormalV2"), _TRUNCATED),
    "StatefulTruncatedNormal": _TRUNCATED,
}


@dataclass(frozen=True, slots=True)
class External:
    """One external value, as the tensor that holds it in this step.

    `label` is what the program calls it. `is_moved` says that it is a number, not the name of a class. `variable` is what holds it
    if it is a weight.
    """

    name: str
    kind: Kind
    tensor: Any
    legal: Legal
    label: str = ""
    is_moved: bool = True
    variable: Any = None

    @property
    def is_given_again(self) -> bool:
        return self.kind in ("batch", "data", "made")

    def array(self) -> npt.NDArray[Any]:
        """A copy of its numbers."""
        return numbers(self.tensor)

    def set(self, array: Array) -> None:
        """Put other numbers in its place."""
        if self.variable is not None:
            assign(self.variable, array)
        else:
            overwrite(self.tensor, array)


def numbers(tensor: Any) -> npt.NDArray[Any]:
    """A copy of the numbers of a tensor; formats below 32 bits are widened."""
    array = np.asarray(tensor.numpy())
    return array.astype(np.float32) if array.dtype.kind == "V" or array.dtype == np.float16 else array.copy()


def overwrite(tensor: Any, array: Array) -> None:
    """Write to the memory of a tensor; TensorFlow does not notice."""
    held: Any = tensor._numpy()
    if isinstance(held, np.ndarray) and held.size == array.size:
        held[...] = np.asarray(array).reshape(held.shape).astype(held.dtype)


def assign(variable: Any, array: Array) -> None:
    """Give a variable other numbers."""
    if array.size == variable.shape.num_elements():
        variable.assign(np.asarray(array).reshape(variable.shape).astype(variable.dtype.as_numpy_dtype))


@dataclass(frozen=True, slots=True)
class _Held:
    """A tensor that the program may hold beyond a step; here it is not held."""

    tensor: weakref.ref[Any]
    name: str
    kind: Kind
    legal: Legal | None = None


class Externals:
    """All external values of one run.

    `ranges` are legal ranges that the user declares, by name or by what the program calls the value. `overrides` are arrays that
    values get when the program first makes them.
    """

    def __init__(self, ranges: Mapping[str, tuple[float, float]], overrides: Mapping[str, Array]) -> None:
        self._ranges = ranges
        self._overrides = overrides
        #: What the step that is going on was given, by the numbers of tensors.
        self._step: dict[int, External] = {}
        #: What the program holds beyond a step.
        self._held: dict[int, _Held] = {}
        #: Variables by the numbers of their handles, and values of variables by the numbers of the tensors that were read.
        self._variables: dict[int, tuple[str, weakref.ref[Any]]] = {}
        self._reads: dict[int, External] = {}
        #: Names of data that are numbers, and of those that layers hold.
        self._numbers: set[str] = set()
        self._states: set[str] = set()
        #: What the program calls values, by their names.
        self.labels: dict[str, str] = {}

    # -- what enters ----------------------------------------------------------------------------------------------------

    def fed(self, name: str, kind: Kind, tensor: Any, legal: Legal) -> External:
        """A tensor of a batch, or an array that TensorFlow was handed."""
        found = self._step[tensor._id] = External(name, kind, tensor, legal)
        return found

    def drawn(self, name: str, op: str, tensor: Any) -> None:
        """Random numbers that the program has just drawn; those that are overridden get their numbers now."""
        found = self._step[tensor._id] = External(name, "draw", tensor, DRAWS[op])
        array = self._overrides.get(name)
        if array is not None:
            found.set(array)

    def override_made(self, call: Call) -> None:
        """Numbers for what the program computes once, before it trains."""
        array = self._overrides.get(made_name(call))
        if array is not None and len(call.outputs) == 1 and is_floating(call.outputs[0]):
            overwrite(call.outputs[0], array)

    def variable(self, variable: Any) -> None:
        """A variable that the program has just made. What an assignment returns is a variable, too, with the handle of another."""
        if variable.handle._id in self._variables:
            return
        name = f"weight{len(self._variables)}"
        self._variables[variable.handle._id] = name, weakref.ref(variable)
        self.labels[name] = variable.name.partition(":")[0]
        array = self._overrides.get(name)
        if array is not None:
            assign(variable, array)

    def read(self, handle: Any, tensor: Any) -> None:
        """The value of a variable, as the program reads it."""
        name, variable = self._variable(handle)
        if variable is not None:
            is_moved = bool(variable.trainable) and is_floating(tensor)
            label = self.labels.get(name, "")
            self._reads[tensor._id] = External(name, "weight", tensor, Legal(), label, is_moved, variable)

    def used(self, tensor: Any, frame: FrameType | None) -> None:
        """A tensor that was not computed, at its first use in a step: what the program calls it is known here."""
        found = self._step.get(tensor._id) or self._held.get(tensor._id)
        if found is not None and found.name not in self.labels:
            self.labels[found.name] = label_of(tensor, frame)
            if found.kind in ("data", "made") and is_state(tensor, frame):
                self._states.add(found.name)

    # -- what is there --------------------------------------------------------------------------------------------------

    def find(self, tensor: Any) -> External | None:
        """The external value that a tensor holds, if it is one."""
        number = tensor._id
        found = self._step.get(number) or self._reads.get(number)
        held = self._held.get(number)
        if found is None and held is not None:
            if held.legal is None:
                # As it was computed; later it is what it was moved to.
                held = self._held[number] = replace(held, legal=Legal.of(np.asarray(tensor._numpy(), np.float64)))
            found = self.fed(held.name, held.kind, tensor, held.legal or Legal())
        if found is None:
            return None
        label = self.labels.get(found.name, "")
        is_moved = found.is_moved and (found.kind in ("draw", "weight") or self._is_number(found))
        return replace(found, label=label, legal=self.legal(found.name, label, found.legal), is_moved=is_moved)

    def _is_number(self, value: External) -> bool:
        """Whether data are numbers that can be moved, and neither names of classes nor what a layer holds."""
        if value.name in self._states or not is_floating(value.tensor):
            return False
        if value.name not in self._numbers:
            array = value.tensor._numpy()
            if not isinstance(array, np.ndarray) or not array.size or is_label(np.asarray(array, np.float64)):
                return False
            self._numbers.add(value.name)
        return True

    def is_weight(self, handle: Any) -> bool:
        """Whether a handle is that of a variable that the program trains."""
        variable = self._variable(handle)[1]
        return variable is not None and bool(variable.trainable)

    def was_read(self, handle: Any) -> bool:
        """Whether the step has read a variable."""
        name = self._variable(handle)[0]
        return any(value.name == name for value in self._reads.values())

    def weights(self) -> Iterator[Any]:
        """The variables that the program trains."""
        for _, held in self._variables.values():
            variable = held()
            if variable is not None and variable.trainable:
                yield variable

    def present(self, given: Iterable[Any]) -> dict[str, External]:
        """What the step has used, by name: batches, tensors that were given, variables as they were when it first read them."""
        found: dict[str, External] = {}
        used = [value for tensor in given if (value := self.find(tensor)) is not None]
        batches = [value for value in self._step.values() if value.kind == "batch"]
        for value in (*self._reads.values(), *used, *batches):
            found.setdefault(value.name, value)
        return found

    def step_done(self, made: Iterable[Call]) -> None:
        """A step is done. What it was given may be held by the program, and so may be what it computed before it began to train."""
        self._held = {number: held for number, held in self._held.items() if held.tensor() is not None}
        for number, value in self._step.items():
            if value.kind in ("data", "draw"):
                kind: Kind = "made" if value.kind == "draw" else value.kind
                self._held.setdefault(number, _Held(weakref.ref(value.tensor), value.name, kind, value.legal))
        for call in made:
            tensor = call.outputs[0]
            if len(call.outputs) == 1 and is_floating(tensor) and tensor.shape.rank:
                self._held[tensor._id] = _Held(weakref.ref(tensor), made_name(call), "made")
        self._step.clear()
        self._reads.clear()

    def legal(self, name: str, label: str, observed: Legal) -> Legal:
        """Where a value may lie: as declared, or as seen."""
        declared = self._ranges.get(name) or self._ranges.get(label) or self._ranges.get("*")
        return observed if declared is None else Legal(*declared)

    def _variable(self, handle: Any) -> tuple[str, Any]:
        known = self._variables.get(handle._id)
        return ("", None) if known is None else (known[0], known[1]())


def made_name(call: Call) -> str:
    """The name of what a call made."""
    return f"made:{call.line}:{call.count}"
