"""`Hooks`: how an eager TensorFlow program is put under observation, and what is told to whom.

Functions that the program has traced run operator by operator (`tf.config.run_functions_eagerly`). TensorFlow calls us after each
operator (`op_callbacks`); everything else has no official place to listen at: batches of datasets, arrays that become tensors,
variables that are made, gradients of tapes, steps of Keras' optimisers. Functions of TensorFlow and Keras are replaced there, by
name, as they are in TensorFlow 2.21 and Keras 3.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from inspect import currentframe
from types import FrameType, SimpleNamespace
from typing import Any, Protocol

import numpy as np

_OPTIMISERS = "keras.src.optimizers.base_optimizer"
_SCALED = "keras.src.optimizers.loss_scale_optimizer"


class Listener(Protocol):
    """Who is told. `frame` is where TensorFlow was called from."""

    def ran(
        self, op: str, inputs: Sequence[Any], attributes: tuple[Any, ...], outputs: Sequence[Any], frame: FrameType | None
    ) -> None:
        """An operator ran."""
        ...

    def differentiate(self, gradients: Callable[[], Any], targets: Any, frame: FrameType | None) -> Any:
        """A tape is asked for gradients: `gradients` computes them."""
        ...

    def formula(self, op: str, saved: Sequence[Any], arrived: Sequence[Any], formula: Callable[[], Any]) -> Any:
        """A tape calls the formula of a derivative."""
        ...

    def made_variable(self, variable: Any) -> None:
        """A variable was made."""
        ...

    def next_batch(self, ask: Callable[[], Any], form: str, frame: FrameType | None) -> Any:
        """A dataset is asked for the next batch."""
        ...

    def converted(self, numbers: Any, tensor: Any, frame: FrameType | None) -> None:
        """An array or a list became a tensor."""
        ...

    def handed(self, array: Any, frame: FrameType | None) -> Any:
        """An operator is called with an array."""
        ...

    def update(self, step: Callable[[], Any]) -> Any:
        """An optimiser changes weights: `step` does it."""
        ...

    def scaled(self) -> None:
        """The loss is scaled by an optimiser that leaves out steps whose gradients are not finite."""
        ...


class Hooks:
    """Installed once for a run, in the thread that the program runs in; other threads and processes are left alone."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._replaced: list[tuple[Any, str, Any]] = []
        self._thread = threading.get_ident()
        self._process = os.getpid()
        self._aside = 0
        self._was_eager = False
        self._hears_keras: set[str] = set()

    # -- listening ------------------------------------------------------------------------------------------------------

    @property
    def is_listening(self) -> bool:
        """Whether what happens now is the program's doing."""
        return not self._aside and threading.get_ident() == self._thread and os.getpid() == self._process

    def aside(self) -> AbstractContextManager[None]:
        """A context in which we use TensorFlow ourselves."""
        return _Aside(self)

    def step_aside(self, by: int) -> None:
        """Enter or leave `aside`."""
        self._aside += by

    def install(self) -> None:
        """Put ourselves between TensorFlow and the program."""
        import tensorflow as tf
        from tensorflow.python import pywrap_tfe
        from tensorflow.python.eager import backprop as tapes
        from tensorflow.python.framework import op_callbacks

        backprop: Any = tapes
        self._thread, self._process = threading.get_ident(), os.getpid()
        self._was_eager = tf.config.functions_run_eagerly()
        self._hush_datasets()
        tf.config.run_functions_eagerly(True)
        op_callbacks.add_op_callback(self._operator)
        pywrap_tfe.TFE_Py_RegisterGradientFunction(self._formula_of(backprop._gradient_function))
        self._hear_tapes()
        self._hear_variables()
        self._hear_datasets()
        self._hear_arrays()

    def remove(self) -> None:
        """Leave TensorFlow as it was."""
        import tensorflow as tf
        from tensorflow.python import pywrap_tfe
        from tensorflow.python.eager import backprop as tapes
        from tensorflow.python.framework import op_callbacks

        backprop: Any = tapes
        for owner, name, original in reversed(self._replaced):
            setattr(owner, name, original)
        self._replaced.clear()
        pywrap_tfe.TFE_Py_RegisterGradientFunction(backprop._gradient_function)
        op_callbacks.remove_op_callback(self._operator)
        tf.config.run_functions_eagerly(self._was_eager)

    def _replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        original = getattr(owner, name)
        self._replaced.append((owner, name, original))
        setattr(owner, name, make(original))

    def _hush_datasets(self) -> None:
        """Datasets warn that their functions are traced all the same, and that graphs have seeds: that is our doing.

        The program does not know, and may have made errors of all warnings.
        """
        from tensorflow.python.data.ops import structured_function

        self._replace(structured_function, "warnings", lambda _: SimpleNamespace(warn=lambda *_, **__: None))

    # -- operators and gradients ----------------------------------------------------------------------------------------

    def _operator(self, op: Any, inputs: Any, attributes: Any, outputs: Any, op_name: Any = None, graph: Any = None) -> None:
        if graph is None and self.is_listening:
            self._listener.ran(op.decode() if isinstance(op, bytes) else op, inputs, attributes, outputs, currentframe())

    def _formula_of(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def formula(op: Any, attributes: Any, count: Any, inputs: Any, outputs: Any, arrived: Any, *rest: Any) -> Any:
            def compute() -> Any:
                return original(op, attributes, count, inputs, outputs, arrived, *rest)

            if not self.is_listening:
                return compute()
            return self._listener.formula(op, tensors_in((inputs, outputs)), tensors_in(arrived), compute)

        return formula

    def _hear_tapes(self) -> None:
        from tensorflow.python.eager import imperative_grad

        def made(original: Callable[..., Any]) -> Callable[..., Any]:
            def gradients(tape: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
                if not self.is_listening:
                    return original(tape, target, *args, **kwargs)
                self.hear_keras()
                return self._listener.differentiate(lambda: original(tape, target, *args, **kwargs), target, currentframe())

            return gradients

        self._replace(imperative_grad, "imperative_grad", made)

    # -- variables and optimisers ---------------------------------------------------------------------------------------

    def _hear_variables(self) -> None:
        from tensorflow.python.framework import ops
        from tensorflow.python.ops import resource_variable_ops

        def made(original: Callable[..., None]) -> Callable[..., None]:
            def make(variable: Any, *args: Any, **kwargs: Any) -> None:
                original(variable, *args, **kwargs)
                if self.is_listening and isinstance(variable.handle, ops.EagerTensor):
                    self.hear_keras()
                    self._listener.made_variable(variable)

            return make

        self._replace(resource_variable_ops.BaseResourceVariable, "__init__", made)

    def hear_keras(self) -> None:
        """Listen to Keras' optimisers, if the program has imported Keras by now."""
        for name in (_OPTIMISERS, _SCALED):
            module = sys.modules.get(name)
            if module is None or name in self._hears_keras:
                continue
            if name == _OPTIMISERS and hasattr(module, "BaseOptimizer"):
                self._hears_keras.add(name)
                self._replace(module.BaseOptimizer, "apply", self._update_of)
            elif name == _SCALED and hasattr(module, "LossScaleOptimizer"):
                self._hears_keras.add(name)
                self._replace(module.LossScaleOptimizer, "scale_loss", self._scaling_of)

    def _update_of(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def apply(*args: Any, **kwargs: Any) -> Any:
            if not self.is_listening:
                return original(*args, **kwargs)
            return self._listener.update(lambda: original(*args, **kwargs))

        return apply

    def _scaling_of(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def scale(*args: Any, **kwargs: Any) -> Any:
            if self.is_listening:
                self._listener.scaled()
            return original(*args, **kwargs)

        return scale

    # -- data -----------------------------------------------------------------------------------------------------------

    def _hear_datasets(self) -> None:
        import tensorflow as tf
        from tensorflow.python.data.ops import iterator_ops

        optionals: Any = tf.experimental.Optional

        def asked(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
            def ask(iterator: Any) -> Any:
                if not self.is_listening or not tf.executing_eagerly():
                    return original(iterator)
                return self._listener.next_batch(lambda: original(iterator), str(iterator.element_spec), currentframe())

            return ask

        def optional(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
            def ask(iterator: Any) -> Any:
                if not self.is_listening or not tf.executing_eagerly():
                    return original(iterator)
                try:
                    return optionals.from_value(iterator._next_internal())
                except tf.errors.OutOfRangeError:
                    return optionals.empty(iterator.element_spec)

            return ask

        self._replace(iterator_ops.OwnedIterator, "_next_internal", asked)
        self._replace(iterator_ops.OwnedIterator, "get_next_as_optional", optional)

    def _hear_arrays(self) -> None:
        from tensorflow.python import pywrap_tfe
        from tensorflow.python.framework import constant_op

        def converting(original: Callable[..., Any]) -> Callable[..., Any]:
            def convert(value: Any, *args: Any, **kwargs: Any) -> Any:
                tensor = original(value, *args, **kwargs)
                if isinstance(value, np.ndarray | list | tuple) and self.is_listening and _is_data(value, tensor):
                    self._listener.converted(value, tensor, currentframe())
                return tensor

            return convert

        def executing(original: Callable[..., Any]) -> Callable[..., Any]:
            def execute(running: Any, op: Any, name: Any, *args: Any) -> Any:
                for argument in args:
                    if isinstance(argument, np.ndarray) and argument.ndim and self.is_listening:
                        args = tuple(self._handed(item) for item in args)
                        break
                return original(running, op, name, *args)

            return execute

        self._replace(constant_op, "convert_to_eager_tensor", converting)
        self._replace(pywrap_tfe, "TFE_Py_FastPathExecute", executing)

    def _handed(self, item: Any) -> Any:
        if isinstance(item, np.ndarray) and item.ndim and item.dtype.kind in "fiub":
            return self._listener.handed(item, currentframe())
        return item


class _Aside(AbstractContextManager[None]):
    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    def __enter__(self) -> None:
        self._hooks.step_aside(1)

    def __exit__(self, *_: object) -> None:
        self._hooks.step_aside(-1)


def tensors_in(items: Any) -> list[Any]:
    """The eager tensors among some values, gradients and the like; of slices of a tensor, their numbers."""
    import tensorflow as tf
    from tensorflow.python.framework import ops

    found: list[Any] = []
    for item in items if isinstance(items, list | tuple) else (items,):
        value: Any = item.values if isinstance(item, tf.IndexedSlices) else item
        if isinstance(value, ops.EagerTensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found.extend(tensors_in(value))
    return found


def _is_data(value: Any, tensor: Any) -> bool:
    """Whether numbers that became a tensor may be data: floating ones with axes, and the arrays of integers that come with them."""
    if not tensor.shape.rank or not tensor.shape.num_elements():
        return False
    return tensor.dtype.is_floating or (isinstance(value, np.ndarray) and (tensor.dtype.is_integer or tensor.dtype.is_bool))
