"""Suspects of an eager TensorFlow program: operators that can fail, as they run, and how near they are to it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.confirm.objective import TEMPERATURE
from tensorproof.expose.eager.places import Where
from tensorproof.expose.eager.recording import Call, Recording, is_floating
from tensorproof.expose.search.board import Suspect
from tensorproof.expose.search.vulnerable import Weakness, weaknesses
from tensorproof.expose.sessions.place import NEAR, decisive, limit_of, terms
from tensorproof.formats import BY_NAME, FLOAT32
from tensorproof.rules.exponential_overflow import EXPONENTIAL_OVERFLOW

#: What the objective of a logarithm, a root or a divisor is at zero, and what rounding adds to that in single precision.
_AT_ZERO = math.log(NEAR) - 1.0
_SLACK = 1e-3
#: Operators whose results are rounded to a part of their operands: small results are zero.
_SUMS = frozenset({"Sub", "Add", "AddV2", "BiasAdd"})
#: Names that the table gives weaknesses to and that TensorFlow computes without failing where those are.
_SOUND = frozenset({"Softplus"})
#: Exponentials whose objective is the exponent: it says more than the result, which overflows.
_EXPONENTIALS = ("Exp", "Expm1", "Sinh", "Cosh")


@cache
def vulnerable() -> Mapping[str, tuple[Weakness, ...]]:
    """The ways in which TensorFlow's operators fail. Those of gradients are sought at the operators that they belong to."""
    known = weaknesses("tensorflow")
    return {name: ways for name, ways in known.items() if name not in _SOUND and not name.endswith("Grad")}


@dataclass(frozen=True, slots=True)
class Execution:
    """An operator that can fail in one way, as it ran."""

    weakness: Weakness
    call: Call

    @property
    def decisive(self) -> Any:
        """The operand that decides, or the result."""
        return decisive(self.weakness, self.call)

    def tensors(self) -> list[Any]:
        """The operands and the results."""
        return [*self.call.inputs, *self.call.outputs]

    def on(self, values: Sequence[Any]) -> Any:
        """What the rule wants to be small, element by element, for other values of `tensors`; None where nothing leads there."""
        count = len(self.call.inputs)
        return terms(self.weakness, replace(self.call, inputs=values[:count], outputs=values[count:]))

    def nearest(self) -> float:
        """The smallest term as it ran; infinite where nothing leads to the failure, -infinite where it is beyond measure."""
        import tensorflow as tf

        try:
            found = self.on(self.tensors())
        except (TypeError, ValueError, tf.errors.OpError):
            # A type that objectives are not made for.
            return math.inf
        if found is None:
            return math.inf
        array = np.asarray(found.numpy(), np.float64)
        if np.isnan(array).any() or np.isneginf(array).any():
            return -math.inf
        return float(array.min(initial=math.inf))

    def is_reached(self) -> bool:
        """Whether the terms say that it failed in this way."""
        if self.weakness.rule is EXPONENTIAL_OVERFLOW or self.weakness.operand < 0:
            return True
        return self.nearest() <= _AT_ZERO + _SLACK


def executions(call: Call, is_recorded: bool) -> list[Execution]:
    """The ways in which an operator that ran could have failed; `is_recorded` says that the program differentiates what it does."""
    found: list[Execution] = []
    for weakness in vulnerable().get(call.op, ()):
        execution = Execution(weakness, call)
        if (weakness.phase == "forward" or is_recorded) and is_floating(execution.decisive):
            found.append(execution)
    return found


def suspect_of(execution: Execution, recording: Recording) -> Suspect:
    """The suspect that an execution belongs to, as it is first seen."""
    call, place = execution.call, execution.call.where.place()
    name = suspect_name(call.op, call.where, execution.weakness)
    return Suspect(name, execution.weakness, call.op, place.file, place.line, floor=_floor(execution, recording))


def suspect_name(op: str, where: Where, weakness: Weakness) -> str:
    """The same in every run: where it stands in the user's source, or in a library that the user's line calls."""
    words = where.words()
    return f"{words.line}:{words.column}:{op}{words.within}:{weakness.key}"


def _floor(execution: Execution, recording: Recording) -> float:
    """What the objective is at the smallest number that the operand can be: differences are multiples of a rounding unit."""
    weakness, tensor = execution.weakness, execution.decisive
    if weakness.rule is EXPONENTIAL_OVERFLOW:
        return -math.log(limit_of(tensor)) if execution.call.op in _EXPONENTIALS else 0.0
    if weakness.operand < 0:
        return 0.0
    maker = recording.maker(tensor)
    if maker is None or maker.op not in _SUMS:
        return _AT_ZERO
    arrays = [np.asarray(operand.numpy(), np.float64) for operand in maker.inputs if is_floating(operand)]
    largest = max((float(np.abs(array).max(initial=0.0)) for array in arrays), default=1.0)
    unit = 2.0 ** -BY_NAME.get(tensor.dtype.name, FLOAT32).digits
    return max(_AT_ZERO, math.log(max(unit * largest, NEAR)))


def softmin(found: Any) -> Any:
    """The smallest term; those as small have their say (as in `tensorproof.confirm.objective`). None if none is finite."""
    import tensorflow as tf

    near = tf.reshape(found, [-1])
    near = tf.boolean_mask(near, tf.math.is_finite(near))
    return -TEMPERATURE * tf.reduce_logsumexp(-near / TEMPERATURE) if near.shape[0] else None


def scores(found: Any, samples: int) -> npt.NDArray[np.float64] | None:
    """How near each sample of a batch is, where the first axis of the terms is that of the samples."""
    array = np.asarray(found.numpy(), np.float64)
    if not array.ndim or len(array) != samples:
        return None
    return np.nan_to_num(array.reshape(samples, -1).min(axis=1, initial=math.inf), nan=math.inf, posinf=math.inf)
