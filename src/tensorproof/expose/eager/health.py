"""Which operator of an eager TensorFlow program failed: its operands were finite, and its result was not.

Infinities that the program was given (constants, masks) are there on purpose, as in `tensorproof.observe.eager`: what hands them on
does not fail, what makes NaN of them does. The formula of a derivative is looked at as a whole, when TensorFlow's tape has called
it: it may mask what is not finite in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from tensorproof.expose.eager.places import Where
from tensorproof.expose.eager.recording import is_floating
from tensorproof.findings import Phase


class Why(Enum):
    """Why a value is not finite."""

    PURPOSE = "infinities that the program was given"
    GIVEN = "NaN that the program was given"
    FAILURE = "an operator failed"


@dataclass(frozen=True, slots=True)
class Fault:
    """An operator that failed; in the backward phase it is the one whose derivative did.

    `uses_special` says that it was given infinities on purpose, `was_masked` that its value failed on the way forward, and that
    nothing shows it there.
    """

    op: str
    phase: Phase
    where: Where
    inputs: Sequence[Any]
    outputs: Sequence[Any]
    nans: int
    infinities: int
    uses_special: bool = False
    was_masked: bool = False


class Health:
    """What is not finite in the step that is going on, by the numbers of tensors."""

    def __init__(self) -> None:
        self._bad: dict[int, Why] = {}

    def forget(self) -> None:
        """The step is done."""
        self._bad.clear()

    def ran(self, op: str, inputs: Sequence[Any], outputs: Sequence[Any], where: Where) -> Fault | None:
        """Look at the results of an operator; the fault if it failed."""
        spoilt = [tensor for tensor in outputs if not is_finite(tensor)]
        if not spoilt:
            return None
        nans, infinities = counts(spoilt)
        causes = self._causes(inputs)
        if any(cause is not Why.PURPOSE for cause in causes):
            why = Why.FAILURE if Why.FAILURE in causes else Why.GIVEN
        elif causes and not nans:
            why = Why.PURPOSE
        else:
            why = Why.FAILURE
        self._bad.update((tensor._id, why) for tensor in spoilt)
        if why is Why.FAILURE and Why.FAILURE not in causes:
            return Fault(op, "forward", where, tuple(inputs), tuple(outputs), nans, infinities, bool(causes))
        return None

    def was_given(self, tensors: Iterable[Any]) -> None:
        """Results of an operator with a state: what is not finite in them was given."""
        for tensor in tensors:
            if not is_finite(tensor):
                self._bad[tensor._id] = _given(tensor)

    def differentiated(
        self, op: str, saved: Sequence[Any], arrived: Sequence[Any], results: Sequence[Any], where: Where
    ) -> Fault | None:
        """Look at the formula of a derivative: what it kept of the operator, the gradients that arrived, and its results."""
        spoilt = [tensor for tensor in results if not is_finite(tensor)]
        if not spoilt:
            return None
        self._bad.update((tensor._id, Why.FAILURE) for tensor in spoilt)
        causes = self._causes(saved)
        if not all(map(is_finite, arrived)) or Why.GIVEN in causes:
            return None
        nans, infinities = counts(spoilt)
        masked = Why.FAILURE in causes
        return Fault(op, "backward", where, tuple(saved), tuple(results), nans, infinities, Why.PURPOSE in causes, masked)

    def _causes(self, tensors: Iterable[Any]) -> list[Why]:
        found: list[Why] = []
        for tensor in tensors:
            why = self._bad.get(tensor._id)
            if why is None and not is_finite(tensor):
                why = self._bad[tensor._id] = _given(tensor)
            if why is not None:
                found.append(why)
        return found


def backward(fault: Fault) -> Fault:
    """The same fault, in a gradient."""
    return replace(fault, phase="backward")


def is_finite(tensor: Any) -> bool:
    """Whether all floating numbers of a tensor are finite; tensors of other types are."""
    return not is_floating(tensor) or bool(np.isfinite(tensor._numpy()).all())


def counts(tensors: Iterable[Any]) -> tuple[int, int]:
    """How many numbers are NaN, and how many infinite."""
    arrays = [np.asarray(tensor._numpy()) for tensor in tensors]
    return sum(int(np.isnan(a).sum()) for a in arrays), sum(int(np.isinf(a).sum()) for a in arrays)


def _given(tensor: Any) -> Why:
    return Why.GIVEN if np.isnan(tensor._numpy()).any() else Why.PURPOSE
