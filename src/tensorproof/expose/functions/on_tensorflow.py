"""`TensorflowFunction`: a function of TensorFlow that is called again and again, every operator in it observed and recorded."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import numpy as np

from tensorproof.expose.eager.failure import describe
from tensorproof.expose.eager.health import Fault, Health, is_finite
from tensorproof.expose.eager.hooks import Hooks, tensors_in
from tensorproof.expose.eager.places import Where
from tensorproof.expose.eager.recording import Call, Recording, has_state, is_floating
from tensorproof.expose.eager.suspects import Execution, executions, softmin, suspect_name, suspect_of, vulnerable
from tensorproof.expose.events import Failure
from tensorproof.expose.functions.argument import Argument
from tensorproof.expose.functions.arrangement import Arrangement
from tensorproof.expose.functions.search import NOTHING_FLOATING, ON_PURPOSE, UNEXPLAINED, Ran, Values, refusal
from tensorproof.expose.functions.target import Target
from tensorproof.expose.search.board import Suspect
from tensorproof.expose.search.leading import Measured
from tensorproof.findings import Reaches
from tensorproof.formats import Array


class TensorflowFunction:
    """A function, its tensors by name, and all else that it is given. It listens to `Hooks` while the function is called."""

    def __init__(self, target: Target, arrangement: Arrangement, seed: int) -> None:
        self._target = target
        self._arguments = {argument.name: argument for argument in arrangement.arguments}
        self._literals = dict(arrangement.literals)
        self._seed = seed
        self._hooks = Hooks(self)
        self._health = Health()
        self._recording = Recording()
        self._tensors: dict[str, Any] = {}
        self._executions: dict[str, Execution] = {}
        self._suspects: list[Suspect] = []
        self._known: dict[str, Suspect] = {}
        self._forward: tuple[Fault, Call] | None = None
        self._backward: tuple[Fault, Call | None] | None = None
        self._is_backward = False

    # -- calling it -----------------------------------------------------------------------------------------------------

    def run(self, values: Values) -> Ran:
        """Call it, and differentiate what it gives."""
        import tensorflow as tf

        self._begin(values)
        watched = {name: tensor for name, tensor in self._tensors.items() if self._arguments[name].has_gradient}
        self._hooks.install()
        try:
            with tf.GradientTape() as tape:
                tape.watch(list(watched.values()))
                outputs = self._target.call({**self._literals, **self._tensors})
            results = [tensor for tensor in tensors_in(_parts(outputs)) if is_floating(tensor)]
            slopes: list[Any] = tape.gradient(results, list(watched.values())) if results and watched else []
        except (Exception, SystemExit) as error:
            return Ran(refused=refusal(error))
        finally:
            self._is_backward = False
            self._hooks.remove()
        gradients = {name: tf.convert_to_tensor(slope) for name, slope in zip(watched, slopes) if slope is not None}
        return self._judged(results, [name for name, slope in gradients.items() if not is_finite(slope)])

    def _begin(self, values: Values) -> None:
        import tensorflow as tf

        self._health.forget()
        self._recording.clear()
        self._executions.clear()
        self._suspects = []
        self._forward = self._backward = None
        self._tensors = {name: _tensor(self._arguments[name], array) for name, array in values.items()}
        tf.random.set_seed(self._seed)
        random.seed(self._seed)
        np.random.seed(self._seed % 2**32)  # noqa: NPY002

    # -- what a call showed ---------------------------------------------------------------------------------------------

    def _judged(self, results: Sequence[Any], spoilt: list[str]) -> Ran:
        if not results:
            return Ran(refused=NOTHING_FLOATING)
        if not all(map(is_finite, results)):
            if self._forward is None:
                return Ran(suspects=self._suspects, remark=ON_PURPOSE)
            return Ran(failure=self._failure(*self._forward, "output"), suspects=self._suspects)
        if not spoilt:
            return Ran(suspects=self._suspects)
        if self._backward is None:
            return Ran(suspects=self._suspects, remark=UNEXPLAINED)
        return Ran(failure=self._failure(*self._backward, "gradient", spoilt), suspects=self._suspects)

    def _failure(self, fault: Fault, call: Call | None, reaches: Reaches, spoilt: Sequence[str] = ()) -> Failure:
        described = describe(fault, call, False, lambda compute: compute())
        place = fault.where.place()
        by = f"; the gradient by {' and '.join(spoilt)} is not finite" if spoilt else ""
        return Failure(
            suspect="",
            framework="tensorflow",
            operator=fault.op,
            rule=described.rule.code,
            phase=fault.phase,
            file=place.file,
            line=place.line,
            column=place.column,
            function=place.function,
            operand=described.operand,
            low=described.low,
            high=described.high,
            format=described.format,
            iteration=0,
            arrays="",
            values={},
            seed=self._seed,
            message=f"{described.message}{by}",
            reaches=reaches,
        )

    # -- measuring ------------------------------------------------------------------------------------------------------

    def measure(self, suspect: str, values: Values) -> Measured | None:
        """How near a suspect of the last call is with these values in place of those."""
        import tensorflow as tf

        execution = self._executions.get(suspect)
        if execution is None:
            return None
        leaves = {n: _tensor(self._arguments[n], array) for n, array in values.items() if self._arguments[n].is_moved}
        try:
            with tf.GradientTape() as tape:
                tape.watch(list(leaves.values()))
                slice = self._recording.slice(*execution.tensors())
                again = slice.rerun({self._tensors[name]._id: leaf for name, leaf in leaves.items()})
                terms = execution.on(again)
                smallest = None if terms is None else softmin(terms)
            has_failed = not is_finite(again[-1])
            if smallest is None:
                return Measured(-math.inf if has_failed else math.inf, {}, None, has_failed)
            found: list[Any] = tape.gradient(smallest, list(leaves.values()))
        except (tf.errors.OpError, TypeError, ValueError, LookupError):
            # An operator that cannot be called by its name, or has no derivative.
            return None
        slopes = {name: _array(slope, leaves[name]) for name, slope in zip(leaves, found)}
        is_led = any(slope is not None for slope in found)
        return Measured(float(smallest), slopes if is_led else {}, None, has_failed)

    # -- what the hooks tell --------------------------------------------------------------------------------------------

    def ran(
        self, op: str, inputs: Sequence[Any], attributes: tuple[Any, ...], outputs: Sequence[Any], frame: FrameType | None
    ) -> None:
        """An operator ran; those of formulas of derivatives are looked at as a whole."""
        if self._is_backward or not outputs:
            return
        self._recording.took(inputs)
        if has_state(op):
            self._health.was_given(outputs)
            return
        place = self._where(frame)
        call = Call(op, tuple(inputs), attributes, tuple(outputs), place, place.words().line, 0)
        self._recording.note(call)
        fault = self._health.ran(op, inputs, outputs, place)
        if fault is not None and self._forward is None:
            self._forward = fault, call
        if op in vulnerable():
            with self._hooks.aside():
                for execution in executions(call, True):
                    self._suspect(execution)

    def _suspect(self, execution: Execution) -> None:
        """An operator that may fail. How near it is, is asked where it is first seen: `measure` says it later."""
        name = suspect_name(execution.call.op, execution.call.where, execution.weakness)
        if name in self._executions:
            return
        if name not in self._known:
            self._known[name] = suspect_of(execution, self._recording)
            self._known[name].distance = execution.nearest()
        self._suspects.append(self._known[name])
        self._executions[name] = execution

    def _where(self, frame: FrameType | None) -> Where:
        """The innermost line of the function's own files."""
        while frame is not None:
            if self._target.is_own(frame.f_code.co_filename):
                return Where(frame.f_code, frame.f_lasti, None, 0)
            frame = frame.f_back
        return Where(None, 0, None, 0)

    def differentiate(self, gradients: Callable[[], Any], targets: Any, frame: FrameType | None) -> Any:
        """Our tape is asked for gradients, or one of the function's."""
        self._is_backward = True
        try:
            return gradients()
        finally:
            self._is_backward = False

    def formula(self, op: str, saved: Sequence[Any], arrived: Sequence[Any], formula: Callable[[], Any]) -> Any:
        """A tape calls the formula of a derivative."""
        found = formula()
        results = tensors_in(found)
        if all(map(is_finite, results)):
            return found
        call = self._recording.find(op, saved, [tensor.shape for tensor in arrived])
        known = saved if call is None else [*call.inputs, *call.outputs]
        place = Where(None, 0, None, 0) if call is None else call.where
        fault = self._health.differentiated(op, known, arrived, results, place)
        if fault is not None and self._backward is None:
            self._backward = fault, call
        return found

    def made_variable(self, variable: Any) -> None:
        """Variables of a layer stay what they are."""

    def next_batch(self, ask: Callable[[], Any], form: str, frame: FrameType | None) -> Any:
        """Nothing of datasets is moved."""
        return ask()

    def converted(self, numbers: Any, tensor: Any, frame: FrameType | None) -> None:
        """Numbers of the function stay what they are."""

    def handed(self, array: Any, frame: FrameType | None) -> Any:
        """Arrays of the function stay what they are."""
        return array

    def update(self, step: Callable[[], Any]) -> Any:
        """A function may train something of its own."""
        return step()

    def scaled(self) -> None:
        """Nothing is left out."""


def _tensor(argument: Argument, array: Array) -> Any:
    import tensorflow as tf

    return tf.cast(tf.constant(np.array(array)), argument.format.name)


def _array(slope: Any, leaf: Any) -> Array:
    import tensorflow as tf

    if slope is None:
        return np.zeros(tuple(leaf.shape))
    return np.asarray(tf.convert_to_tensor(slope).numpy(), np.float64)


def _parts(outputs: Any) -> Any:
    """What a function returned, as nested lists."""
    if isinstance(outputs, dict):
        values: list[Any] = list(outputs.values())
        return [_parts(value) for value in values]
    return outputs
