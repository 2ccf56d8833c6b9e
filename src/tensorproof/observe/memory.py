"""Memory that is not finite, and why: what distinguishes a failure from its consequences and from a mask."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple

from tensorproof.observe.internals import memory_identity, memory_reference
from tensorproof.observe.values import is_finite, is_observable, tensors_in

if TYPE_CHECKING:
    import torch

#: References to memory that is gone are dropped when there are this many.
_CROWDED = 1024


class Why(Enum):
    """How memory came to hold what is not finite."""

    PURPOSE = auto()
    FAILURE = auto()
    #: A parameter or an argument was not finite from the beginning.
    GIVEN = auto()
    UNINITIALISED = auto()
    GRADIENT = auto()


class Reason(NamedTuple):
    """Why memory is not finite; for a gradient, the autograd node that made it, if it is known."""

    why: Why
    maker: Any


class Memory:
    """Reasons by memory. A weak reference to each keeps its identity from being used again, but not its content."""

    def __init__(self) -> None:
        self._reasons: dict[int, tuple[Any, Reason]] = {}

    def clear(self) -> None:
        self._reasons.clear()

    def note(self, made: Any, why: Why, maker: Any = None) -> None:
        """Remember the reason for the tensors of a result that are not finite, or that nothing is known of."""
        for tensor in tensors_in(made):
            if is_observable(tensor) and (why is Why.UNINITIALISED or not is_finite(tensor)):
                self._reasons[memory_identity(tensor)] = (memory_reference(tensor), Reason(why, maker))
        if len(self._reasons) >= _CROWDED:
            self._reasons = {key: entry for key, entry in self._reasons.items() if not entry[0].expired()}

    def overwritten(self, written: Any) -> None:
        """Forget the reasons for tensors that are finite now."""
        if self._reasons:
            for tensor in tensors_in(written):
                if self._reason(tensor) is not None and is_finite(tensor):
                    del self._reasons[memory_identity(tensor)]

    def reason(self, tensor: torch.Tensor) -> Reason | None:
        """Why a tensor is not finite; None if it is finite or nothing is known."""
        found = self._reason(tensor)
        return None if found is None or is_finite(tensor) else found

    def _reason(self, tensor: torch.Tensor) -> Reason | None:
        if not self._reasons or not is_observable(tensor):
            return None
        entry = self._reasons.get(memory_identity(tensor))
        return None if entry is None else entry[1]
