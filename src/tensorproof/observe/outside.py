"""The part of a training step outside of the watched modules, written down function by function for a replay."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

from tensorproof.observe.internals import can_listen, innermost_function_mode


class Listener(Protocol):
    """Takes note of what is called."""

    def after_function(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """A function of PyTorch returned a result."""
        ...

    def before_backward(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """`backward` is about to run."""
        ...


class Listening:
    """A mode that can be entered and left while a program runs, not only around a block.

    Modes are a stack: it is entered only where no mode of the user is entered, and left only while it is the innermost one. In
    between it may stay longer than asked for, which a listener has to bear.
    """

    def __init__(self, listener: Listener) -> None:
        self._mode = _mode_class()(listener)
        self._is_entered = False

    def start(self) -> None:
        if not self._is_entered and can_listen():
            self._mode.__enter__()
            self._is_entered = True

    def stop(self) -> None:
        if self._is_entered and innermost_function_mode() is self._mode:
            self._mode.__exit__(None, None, None)
            self._is_entered = False


@cache
def _mode_class() -> Callable[[Listener], Any]:
    """The class of a mode that hands every call of a function of PyTorch from Python to a listener."""
    import torch
    from torch.overrides import TorchFunctionMode

    backward = torch.Tensor.backward

    class FunctionMode(TorchFunctionMode):
        """Functions that other functions of PyTorch call are not handed on, nor is anything that the backward pass does."""

        def __init__(self, listener: Listener) -> None:
            super().__init__()
            self._listener = listener

        def __torch_function__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            given = kwargs or {}
            if func is backward:
                self._listener.before_backward(args, given)
                return func(*args, **given)
            result = func(*args, **given)
            self._listener.after_function(func, args, given, result)
            return result

    return FunctionMode
