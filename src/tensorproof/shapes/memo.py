"""`Memo`: results of functions that changed nothing, for calls with the same arguments in the same state of the program.

A call is remembered only if it wrote to no object but its own, and its result holds no object that could be changed later. It is
found again only as long as nothing outside of local variables was written (`Trail.version`). Functions that see variables of an
enclosing function are never remembered.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

from tensorproof.shapes.sizes import Polynomial
from tensorproof.shapes.values import DType, FunctionValue, Library, Mutable, Results, Tensor, Unknown, Value

if TYPE_CHECKING:
    from tensorproof.shapes.trail import Mark, Trail

#: Graphs of these are computed again from what is fed: which tensor it was matters, not only its shape.
_GRAPHS = ("tf", "keras")


class Memo:
    """Remembered calls of one run."""

    def __init__(self, trail: Trail) -> None:
        self._trail = trail
        self._results: dict[Hashable, tuple[int, Value]] = {}
        self._copies: dict[int, Tensor] = {}
        self.hits = 0

    def key(self, function: FunctionValue, parameters: Mapping[str, Value]) -> Hashable | None:
        """What a call is recognised by; None if it is not to be remembered."""
        if function.is_generator or (function.frame.function is not None and not function.frame.is_class):
            return None
        parts = [_fingerprint(value) for value in parameters.values()]
        return None if None in parts else (function.node, function.frame.serial, tuple(parts))

    def recall(self, key: Hashable) -> tuple[Value] | None:
        """The result of the same call in the same state, in a tuple of one."""
        known = self._results.get(key)
        if known is None or known[0] != self._trail.version:
            return None
        self.hits += 1
        return (self._copy(known[1]),)

    def _copy(self, value: Value) -> Value:
        """The result as that of another call: its tensors are others, and their recipes are those of the call that was run."""
        if isinstance(value, Tensor):
            copy = value.evolved()
            self._copies[id(copy)] = copy
            return copy
        if isinstance(value, Results):
            return value.map(self._copy)
        return tuple(map(self._copy, value)) if isinstance(value, tuple) else value

    def is_copy(self, tensor: Tensor) -> bool:
        """Whether a tensor is a remembered result: its recipe may name other operands of the same shapes."""
        return id(tensor) in self._copies

    def remember(self, key: Hashable, mark: Mark, before: int, result: Value) -> None:
        """Keep a result if the call since the mark left the state as it was `before`, and nobody can change the result."""
        if not _is_constant(result):
            return
        self._trail.settle(mark, before)
        if before == self._trail.version:
            self._results[key] = (before, result)


def _fingerprint(value: Value) -> Hashable | None:
    """What is the same for values that no function can tell apart; None if there is no such thing."""
    if isinstance(value, Tensor):
        if value.framework in _GRAPHS or value.batch_factor is not None:
            return None
        content = None if value.content is None else _fingerprint(value.content)
        if content is None and value.content is not None:
            return None
        memory = (value.contiguous, value.strides, value.batch_factor, value.new_axes)
        return (value.shape, value.dtype, value.framework, memory, content, value.suspect, value.kind)
    if isinstance(value, tuple):
        parts = [_fingerprint(part) for part in value]
        return None if None in parts else tuple(parts)
    if isinstance(value, Mutable):
        return ("object", value.serial)
    if value is None or isinstance(value, bool | int | float | str | bytes | Polynomial | DType | Library):
        return (type(value).__name__, value)
    return "unknown" if isinstance(value, Unknown) else None


def _is_constant(value: Value) -> bool:
    if isinstance(value, tuple):
        return all(_is_constant(part) for part in value)
    return value is None or isinstance(value, bool | int | float | str | bytes | Polynomial | Tensor | Unknown | Library)
