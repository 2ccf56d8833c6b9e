"""`TensorflowEagerRun`: an eager TensorFlow program (Keras `fit`, loops with tapes) under observation, its values moved.

Traced functions run operator by operator while it is observed. Every operator is looked at, recorded, and measured if it is the
suspect that is driven. A step of training ends when an optimiser or the program itself has changed weights, or when a dataset is
asked for the next batch; values are moved between steps, never within one. Whether a failure does harm is decided where a tape is
asked for gradients: by the loss, then by the gradients; without a tape, by what was computed last.

Not seen is what TensorFlow does to graphs alone (constants that are gathered: (1 - p) + 1e-8 becomes 1 - p), and what does not
run operator by operator in the thread of the program: functions of datasets, loaded models, replicas of a strategy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import numpy as np

from tensorproof.confirm.witness import npz_bytes
from tensorproof.expose.eager.driving import Driving
from tensorproof.expose.eager.external import DRAWS
from tensorproof.expose.eager.failure import describe, event, snapshot
from tensorproof.expose.eager.health import Fault, Health, backward, is_finite
from tensorproof.expose.eager.hooks import Hooks, tensors_in
from tensorproof.expose.eager.places import has_passed, is_from_user, where
from tensorproof.expose.eager.recording import Call, Recording, has_state, is_floating
from tensorproof.expose.eager.suspects import vulnerable
from tensorproof.expose.events import Pipe
from tensorproof.expose.search.board import Board
from tensorproof.expose.search.moves import Legal
from tensorproof.expose.settings import Settings
from tensorproof.expose.stopping import Stop
from tensorproof.files import write_bytes
from tensorproof.findings import Reaches
from tensorproof.formats import Array

#: A record of more calls than this is cleared: the program computes without training.
_MOST_CALLS = 20_000
#: Operators that read variables whole, and beginnings of the names of those that write to the variable of their first operand.
_READ = "ReadVariableOp"
_UNPACKED = "OptionalGetValue"
_WRITES = ("Assign", "ResourceApply", "ResourceSparseApply", "ResourceScatter", "ResourceStridedSliceAssign")


class TensorflowEagerRun:
    """One run of an eager program of TensorFlow."""

    framework = "tensorflow"

    def __init__(self, settings: Settings, board: Board, pipe: Pipe, folder: Path, overrides: Mapping[str, Array]) -> None:
        self._settings = settings
        self._pipe = pipe
        self._folder = folder
        self._recording = Recording()
        self._driving = Driving(settings, board, pipe, overrides, self._recording)
        self._externals = self._driving.externals
        self._feeds = self._driving.feeds
        self._health = Health()
        self._hooks = Hooks(self)
        #: How many operators ran, and how many steps of training were done.
        self.operators = 0
        self.steps = 0
        self._counts: dict[str, int] = {}
        self._was_counted = False
        #: The first failure of the step and the operator that it belongs to; failures in gradients and in updates of weights.
        self._failed: tuple[Fault, Call | None] | None = None
        self._faults: list[Fault] = []
        self._loss_is_finite: bool | None = None
        self._last: Sequence[Any] = ()
        #: Whether a tape computes gradients; whether these are part of what is differentiated again; how many formulas are open.
        self._is_backward = False
        self._is_recorded = False
        self._formulas = 0
        self._is_updating = False
        self._is_scaled = False
        #: Whether gradients were computed in this step, and whether the program ever did so.
        self._has_gradients = False
        self._uses_tapes = False
        #: Arrays that the operator which is about to run was handed.
        self._handed: list[tuple[str, tuple[int, ...]]] = []
        self._notes: set[str] = set()
        #: Why the run is over; a program that catches everything is told again.
        self._stopped = ""

    def seed(self) -> None:
        """Fix what random generators give."""
        import tensorflow as tf

        tf.random.set_seed(self._settings.seed)

    def __enter__(self) -> TensorflowEagerRun:
        self._hooks.install()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._hooks.remove()
        self._driving.search.close()

    def finish(self) -> None:
        """The program is done: what its last step showed is looked at."""
        if self._stopped:
            raise Stop(self._stopped)
        with self._hooks.aside():
            self._done()

    def raised(self, error: BaseException) -> None:
        """The program stops: if an operator failed in this step, and a variable of the program shows it, that is why."""
        trace = error.__traceback__
        with self._hooks.aside():
            while self._failed is not None and trace is not None:
                if any(map(_is_bad, trace.tb_frame.f_locals.values())):
                    self._found(*self._failed, "output")
                trace = trace.tb_next

    @property
    def moved(self) -> Mapping[str, Array]:
        """What values have been moved to, by name."""
        return self._driving.moved

    def legal(self) -> Iterator[tuple[str, str, Legal]]:
        """Values that inputs are made of, what the program calls them, and the ranges that they are moved in."""
        for name, observed in self._feeds.observed.items():
            label = self._externals.labels.get(name)
            if label is not None and observed.is_bounded:
                yield name, label, self._externals.legal(name, label, observed)

    @property
    def wants_another_run(self) -> bool:
        """Whether values that the program draws or makes once were moved, and nothing trains on them: it has to be run again."""
        return not self.steps and self._driving.has_moved_on and not self._driving.is_over

    # -- every operator -------------------------------------------------------------------------------------------------

    def ran(
        self, op: str, inputs: Sequence[Any], attributes: tuple[Any, ...], outputs: Sequence[Any], frame: FrameType | None
    ) -> None:
        """TensorFlow ran an operator."""
        if self._stopped:
            raise Stop(self._stopped)
        self.operators += 1
        if op == _READ:
            self._externals.read(inputs[0], outputs[0])
        elif op.startswith(_WRITES):
            self._wrote(inputs[0])
        elif outputs and not (self._formulas and not self._is_recorded):
            self._computed(op, inputs, attributes, outputs, frame)

    def _computed(
        self, op: str, inputs: Sequence[Any], attributes: tuple[Any, ...], outputs: Sequence[Any], frame: FrameType | None
    ) -> None:
        if self._is_updating or (self._is_backward and not self._is_recorded):
            if not all(map(is_finite, outputs)):
                fault = self._health.ran(op, inputs, outputs, where(frame))
                self._faults += [] if fault is None else [backward(fault)]
            return
        place = where(frame)
        line = place.words().line
        self._name_handed(inputs)
        for tensor in self._recording.took(inputs):
            self._externals.used(tensor, frame)
        if op == _UNPACKED:
            self._unpacked(inputs[0], outputs)
            return
        if has_state(op):
            if op in DRAWS and is_floating(outputs[0]) and outputs[0].shape.rank:
                self._externals.drawn(f"draw:{line}:{self._count(f'draw:{line}')}", op, outputs[0])
            self._health.was_given(outputs)
            return
        call = Call(op, tuple(inputs), attributes, tuple(outputs), place, line, self._count(line))
        if not self.steps and self.moved:
            self._externals.override_made(call)
        self._recording.note(call)
        self._last = outputs
        self._look(call)

    def _unpacked(self, optional: Any, outputs: Sequence[Any]) -> None:
        """Keras takes several batches in one call, each as something that may be there or not: inside, they are the same."""
        maker = self._recording.maker(optional)
        for before, after in zip(maker.inputs if maker is not None else (), outputs):
            value = self._externals.find(before)
            if value is not None:
                self._externals.fed(value.name, value.kind, after, value.legal)

    def _count(self, key: str) -> int:
        count = self._counts[key] = self._counts.get(key, -1) + 1
        return count

    def _name_handed(self, inputs: Sequence[Any]) -> None:
        """Arrays that the operator was called with are among its operands, as tensors."""
        for name, shape in self._handed:
            for tensor in inputs:
                if tensor.shape == shape and self._recording.maker(tensor) is None and self._externals.find(tensor) is None:
                    self._feeds.became(name, tensor)
                    break
        self._handed.clear()

    def _look(self, call: Call) -> None:
        """What an operator that ran tells: a failure, a suspect, or the suspect that is driven."""
        if not self._formulas:
            fault = self._health.ran(call.op, call.inputs, call.outputs, call.where)
            if fault is not None and self._failed is None:
                self._failed = fault, call
            if self._failed is None and call.op in vulnerable():
                self._driving.look(call, _is_taped(), bool(self.steps))
        if len(self._recording.calls) > _MOST_CALLS:
            with self._hooks.aside():
                self._done()

    # -- data -----------------------------------------------------------------------------------------------------------

    def made_variable(self, variable: Any) -> None:
        """The program made a variable."""
        with self._hooks.aside():
            self._externals.variable(variable)

    def next_batch(self, ask: Callable[[], Any], form: str, frame: FrameType | None) -> Any:
        """The program asks a dataset for the next batch."""
        with self._hooks.aside():
            if self._recording.calls:
                self._done(is_counted=not self._was_counted)
            self._was_counted = False
            fresh = ask()
            # Keras asks for data of training and of validation in one call of the user's.
            kind = "evaluate" if has_passed(frame, "evaluate") else ""
            return self._feeds.batch(f"{where(frame).words().line}{kind}", form, fresh)

    def converted(self, numbers: Any, tensor: Any, frame: FrameType | None) -> None:
        """Numbers of the program became a tensor."""
        if not (self._is_updating or self._is_backward):
            self._feeds.converted(where(frame).words().line, tensor, is_from_user(numbers, frame))

    def handed(self, array: Any, frame: FrameType | None) -> Any:
        """The program calls an operator with an array."""
        if self._is_updating or self._is_backward:
            return array
        name, given = self._feeds.handed(where(frame).words().line, array, is_from_user(array, frame))
        self._handed += [(name, array.shape)] if name else []
        return given

    # -- gradients ------------------------------------------------------------------------------------------------------

    def differentiate(self, gradients: Callable[[], Any], targets: Any, frame: FrameType | None) -> Any:
        """A tape of the program is asked for gradients."""
        if self._is_backward:
            return gradients()
        self._is_recorded = _is_taped()
        if not self._is_recorded:
            self._loss_is_finite = all(map(is_finite, tensors_in(targets)))
            self._judge_loss()
        self._is_backward = True
        self._faults.clear()
        try:
            found = gradients()
        finally:
            self._is_backward = False
            self._formulas = 0
        if not self._is_recorded:
            self._has_gradients = self._uses_tapes = True
            self._judge_gradients(tensors_in(found))
        self._is_recorded = False
        return found

    def formula(self, op: str, saved: Sequence[Any], arrived: Sequence[Any], formula: Callable[[], Any]) -> Any:
        """A tape calls the formula of a derivative."""
        self._formulas += 1
        try:
            found = formula()
        finally:
            self._formulas -= 1
        results = tensors_in(found)
        if all(map(is_finite, results)):
            return found
        call = self._recording.find(op, saved, [tensor.shape for tensor in arrived])
        # A formula that does not use the result is not given it.
        known = saved if call is None else [*call.inputs, *call.outputs]
        fault = self._health.differentiated(op, known, arrived, results, where(None) if call is None else call.where)
        if fault is not None and self._is_recorded:
            self._failed = self._failed or (fault, call)
        elif fault is not None:
            self._faults.append(fault)
        return found

    def _judge_loss(self) -> None:
        """The loss is known: a failure before it does harm if it shows there."""
        if self._loss_is_finite:
            return
        if self._failed is not None:
            self._found(*self._failed, "loss")
        self._note("the loss is not finite, and no operator failed: the program was given numbers that are not")

    def _judge_gradients(self, found: Sequence[Any]) -> None:
        """Gradients are known. Those of a loss that was not finite say nothing more."""
        if not self._faults or not self._loss_is_finite:
            return
        fault = self._faults[0]
        if self._is_scaled:
            self._note("gradients of a scaled loss are not finite; the optimiser leaves the step out")
        elif not all(map(is_finite, found)):
            self._found(fault, self._recording.find(fault.op, fault.inputs, ()), "gradient")
        self._faults.clear()

    # -- steps of training ----------------------------------------------------------------------------------------------

    def scaled(self) -> None:
        """The loss is scaled, and steps with gradients that are not finite are left out."""
        self._is_scaled = True

    def update(self, step: Callable[[], Any]) -> Any:
        """An optimiser of Keras changes the weights: what it computes for that is observed, and no suspect."""
        if self._is_updating:
            return step()
        self._is_updating = True
        self._faults.clear()
        try:
            found = step()
        finally:
            self._is_updating = False
        with self._hooks.aside():
            self._step_done()
        return found

    def _wrote(self, handle: Any) -> None:
        """The program wrote to a variable: a step of training is done if it is a weight, and gradients or its own value were used.

        A program that has used a tape trains with gradients; what it writes without them (averages of weights) is no step.
        """
        if self._is_updating or self._formulas or not self._externals.is_weight(handle):
            return
        if self._has_gradients or (not self._uses_tapes and self._externals.was_read(handle)):
            with self._hooks.aside():
                self._step_done()

    def _step_done(self) -> None:
        """Weights have changed."""
        self._judge_update()
        self._has_gradients = self._is_scaled = False
        self._was_counted = True
        self._done()
        self.steps += 1
        self._pipe.send("iteration", count=self.steps)
        if self._settings.iterations and self.steps >= self._settings.iterations:
            self._stopped = "the iterations are used up"
            raise Stop(self._stopped)

    def _judge_update(self) -> None:
        """Whether what was computed after the gradients left weights that are not finite."""
        if not self._faults and self._failed is None:
            return
        read = self._driving.search.beside
        is_spoilt = any(not is_finite(read(variable.read_value)) for variable in self._externals.weights())
        if is_spoilt and self._faults:
            self._found(self._faults[0], None, "gradient", in_update=True)
        if is_spoilt and self._failed is not None:
            self._found(*self._failed, "gradient")
        self._faults.clear()

    def _done(self, is_counted: bool = True) -> None:
        """What the step showed is looked at, and values go where they were moved to."""
        self._judge()
        self._driving.step_done(bool(self.steps), is_counted)
        self._recording.clear()
        self._health.forget()
        self._counts.clear()
        self._last = ()
        self._loss_is_finite = None

    # -- failures -------------------------------------------------------------------------------------------------------

    def _judge(self) -> None:
        """Whether a failure without a tape does harm: in what the program computed last."""
        if self._failed is None:
            return
        if self._loss_is_finite is None and not all(map(is_finite, self._last)):
            self._found(*self._failed, "output")
        place = self._failed[0].where.place()
        self._note(f"{place.file}:{place.line}: {self._failed[0].op} failed, and nothing that the program uses shows it")
        self._driving.settle(place.file, place.line)
        self._failed = None

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.add(text)
            self._pipe.send("note", text=text)

    def _found(self, fault: Fault, call: Call | None, reaches: Reaches, in_update: bool = False) -> None:
        """Write the arrays, tell of the failure, and end the program."""
        with self._hooks.aside():
            values = snapshot(self._externals, self._recording)
            file = self._folder / "values.npz"
            write_bytes(file, npz_bytes({name: value.array() for name, value in values.items()}))
            described = describe(fault, call, in_update, self._driving.search.beside)
        failure = event(described, fault, values, self._settings.seed, self.steps, file.name, reaches)
        self._stopped = "an operator failed"
        self._pipe.failure(self._driving.completed(failure))
        raise Stop(self._stopped)


def _is_taped() -> bool:
    """Whether a tape of the program records what it does."""
    from tensorflow.python import pywrap_tfe

    return not pywrap_tfe.TFE_Py_TapeSetIsEmpty()


def _is_bad(value: Any) -> bool:
    """Whether a variable holds a number that is not finite."""
    if isinstance(value, float | np.floating):
        return not math.isfinite(value)
    return not all(map(is_finite, tensors_in(value)))
