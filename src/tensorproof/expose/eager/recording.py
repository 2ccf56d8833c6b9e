"""`Recording`: the operators that an eager TensorFlow program runs, so that a value can be computed again, with gradients.

Eager tensors do not change, and each has a number of its own: a record is the list of calls, and which call made which tensor. What
is recorded is run again by the operator's name, its attributes and other operands; derivatives pass where the program stops them
(`stop_gradient`, tapes that do not record). What operators with a state gave (random numbers, values of variables, batches, results
of traced functions) stays what it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tensorproof.expose.eager.places import Where

#: Operators that hand on their operand and stop gradients.
_STOPS = frozenset({"StopGradient", "PreventGradient"})


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an operator.

    `line` is the user's, in words, `count` how many operators that line ran before, in the same step.
    """

    op: str
    inputs: Sequence[Any]
    attributes: tuple[Any, ...]
    outputs: Sequence[Any]
    where: Where
    line: str
    count: int

    @property
    def type(self) -> str:
        """The operator, as `tensorproof.expose.sessions.place` asks for it."""
        return self.op


@dataclass(slots=True)
class Recording:
    """The calls since the record was last cleared. Tensors in it are kept alive, and with them the values that variables had."""

    calls: list[Call] = field(default_factory=list[Call])
    _makers: dict[int, int] = field(default_factory=dict[int, int])
    #: Tensors that calls took and no recorded call made, in the order of their first use.
    given: dict[int, Any] = field(default_factory=dict[int, Any])

    def clear(self) -> None:
        """Forget everything: what is there now counts as given."""
        self.calls.clear()
        self._makers.clear()
        self.given.clear()

    def took(self, tensors: Sequence[Any]) -> list[Any]:
        """Operands of a call; those that are used for the first time."""
        makers, given = self._makers, self.given
        new: list[Any] = []
        for tensor in tensors:
            number = tensor._id
            if number not in makers and number not in given:
                given[number] = tensor
                new.append(tensor)
        return new

    def note(self, call: Call) -> None:
        """Keep a call that ran, after `took`."""
        number = len(self.calls)
        for tensor in call.outputs:
            self._makers[tensor._id] = number
        self.calls.append(call)

    def maker(self, tensor: Any) -> Call | None:
        """The call that made a tensor."""
        number = self._makers.get(tensor._id)
        return None if number is None else self.calls[number]

    def find(self, op: str, tensors: Sequence[Any], shapes: Sequence[Any]) -> Call | None:
        """The last call of an operator that took or made one of these tensors, or, where none is known, results of these shapes."""
        known = {tensor._id for tensor in tensors}
        alike: Call | None = None
        for call in reversed(self.calls):
            if call.op != op:
                continue
            if not known.isdisjoint(tensor._id for tensor in (*call.inputs, *call.outputs)):
                return call
            if alike is None and not known and [tensor.shape for tensor in call.outputs] == list(shapes):
                alike = call
        return alike

    def slice(self, *targets: Any) -> Slice:
        """What some tensors are made of."""
        needed: set[int] = set()
        floating: set[int] = set()
        given: dict[int, Any] = {}
        # Numbers that decide (comparisons, indices) are needed, and nothing is moved through them.
        pending = [(target, is_floating(target)) for target in targets]
        seen: set[tuple[int, bool]] = set()
        while pending:
            tensor, flows = pending.pop()
            if (tensor._id, flows) in seen:
                continue
            seen.add((tensor._id, flows))
            number = self._makers.get(tensor._id)
            if number is None:
                given[tensor._id] = tensor
                if flows:
                    floating.add(tensor._id)
                continue
            needed.add(number)
            pending.extend((operand, flows and is_floating(operand)) for operand in self.calls[number].inputs)
        return Slice([self.calls[number] for number in sorted(needed)], [given[n] for n in given if n in floating], list(targets))


@dataclass(frozen=True, slots=True)
class Slice:
    """The calls that some values are made of, in order, and the floating tensors that were given to them."""

    calls: list[Call]
    given: list[Any]
    targets: list[Any]

    def rerun(self, replaced: Mapping[int, Any]) -> list[Any]:
        """The values, computed from other tensors in place of some that were given (by number); tapes of this thread record it.

        Calls that do not depend on those are not run again.
        """
        from tensorflow.python.eager import context, execute

        running = context.context()
        values: dict[int, Any] = dict(replaced)
        for call in self.calls:
            if not any(tensor._id in values for tensor in call.inputs):
                continue
            operands = [values.get(tensor._id, tensor) for tensor in call.inputs]
            if call.op in _STOPS:
                values[call.outputs[0]._id] = operands[0]
                continue
            results = execute.quick_execute(call.op, len(call.outputs), operands, call.attributes, running)
            execute.record_gradient(call.op, operands, call.attributes, results)
            values.update((before._id, after) for before, after in zip(call.outputs, results))
        return [values.get(target._id, target) for target in self.targets]


@cache
def _floating_types() -> frozenset[Any]:
    import tensorflow as tf

    return frozenset({tf.float16, tf.bfloat16, tf.float32, tf.float64})


def is_floating(tensor: Any) -> bool:
    """Whether a tensor holds floating numbers."""
    return tensor.dtype in _floating_types()


@cache
def has_state(op: str) -> bool:
    """Whether an operator may give another result for the same operands; traced functions count as such, and draws by seed."""
    from tensorflow.python.framework import op_def_registry

    known = op_def_registry.get(op)
    return known is None or known.is_stateful or op.startswith(("StatelessRandom", "StatelessTruncated", "StatelessParameterized"))
