"""Which operator of a TensorFlow graph failed: its operands were finite, and its result was not.

Looked at when a call of the program gave values that are not finite, or left such values in variables. The operators of the call
are run once more, each floating result counted for NaN and infinities, on the same feeds, variables and random numbers. Readers
change what TensorFlow makes of a graph (see `objective.py`): where nothing fails that way, operators that can fail are
counted alone.

Infinities that are constants of the graph are there on purpose (masks), as in `tensorproof.observe.eager`: what hands them on does
not fail, what makes NaN of them does. What is fed, and what variables held, is given. The formula of a derivative is looked at as
a whole: it may mask what is not finite in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from tensorproof.expose.search.vulnerable import weaknesses
from tensorproof.expose.sessions.extending import OWN, extended
from tensorproof.expose.sessions.plan import Plan, is_floating, is_outside
from tensorproof.expose.sessions.state import Arrays, Direct, is_finite
from tensorproof.findings import Phase
from tensorproof.frontends.tensorflow_parts import is_backward, is_step
from tensorproof.frontends.tensorflow_variables import VARIABLES

#: What TensorFlow can count NaN and infinities of.
_COUNTED = frozenset({"float16", "bfloat16", "float32", "float64"})
#: The mode of DebugNumericSummaryV2 that counts: number of the tensor, elements, -inf, +inf, NaN.
_COUNTS = 3
_CHECKS = frozenset({"CheckNumerics", "CheckNumericsV2", "Assert"})
_READS = frozenset({"ReadVariableOp", "ResourceGather", *VARIABLES})


class Why(Enum):
    """Why a value is not finite."""

    PURPOSE = "a constant of the program"
    GIVEN = "it was fed, or held by a variable"
    FAILURE = "an operator failed"


@dataclass(frozen=True, slots=True)
class Health:
    """How many numbers of a tensor are not finite."""

    infinities: int = 0
    nans: int = 0

    @property
    def is_finite(self) -> bool:
        return not self.infinities and not self.nans


@dataclass(frozen=True, slots=True, eq=False)
class Failed:
    """An operator that failed. In the backward phase it is the one whose derivative did; `inner` is the operator of the formula."""

    operator: Any
    inner: Any
    phase: Phase
    health: Health
    uses_special: bool = False
    #: In the backward phase: whether the value failed on the way forward, and nothing showed it.
    was_masked: bool = False


@dataclass(slots=True)
class _Cause:
    """Why a tensor is not finite: the failures behind it, or the formula of a derivative (by its operator) that it was born in."""

    why: Why
    failures: frozenset[str] = frozenset()
    born_in: str | None = None


class Counters:
    """The operators that count, in one graph."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._made: dict[str, Any] = {}

    def counted(self, direct: Direct, tensors: Sequence[Any], feeds: Arrays) -> dict[str, Health]:
        """What is not finite, by the names of tensors; those of formats that are not counted are left out."""
        import tensorflow as tf

        chosen = [tensor for tensor in tensors if tensor.dtype.name in _COUNTED and tensor.name not in feeds]
        missing = [tensor for tensor in chosen if tensor.name not in self._made]
        if missing:
            with extended(self._graph):
                for tensor in missing:
                    self._made[tensor.name] = tf.raw_ops.DebugNumericSummaryV2(
                        input=tensor, output_dtype=tf.float64, tensor_debug_mode=_COUNTS, tensor_id=0
                    )
        results = _fetched(direct, [self._made[tensor.name] for tensor in chosen], feeds) if chosen else []
        rows = {t.name: np.asarray(row, np.float64) for t, row in zip(chosen, results) if row is not None}
        return {name: Health(int(row[2] + row[3]), int(row[4])) for name, row in rows.items()}


def _fetched(direct: Direct, tensors: Sequence[Any], feeds: Arrays) -> list[Any]:
    """The values of tensors; None for those that have none, because they belong to a branch that is not taken."""
    import tensorflow as tf

    try:
        return list(direct.fetch(tensors, feeds))
    except tf.errors.InvalidArgumentError:
        half = len(tensors) // 2
        return [*_fetched(direct, tensors[:half], feeds), *_fetched(direct, tensors[half:], feeds)] if half else [None]


@dataclass(slots=True)
class Diagnosis:
    """What a call shows when it is looked at: failures in the order of execution."""

    forward: list[Failed] = field(default_factory=list[Failed])
    backward: list[Failed] = field(default_factory=list[Failed])
    #: Operators that failed and whose failure a result or the end of the forward pass shows.
    shown: set[str] = field(default_factory=set[str])
    #: Fetched tensors that are not finite, for whatever reason.
    explained: set[str] = field(default_factory=set[str])

    def chosen(self, preferred: str | None) -> Failed | None:
        """The failure that is told: one that shows, the preferred operator first; then those of derivatives."""
        seen = [failed for failed in self.forward if failed.operator.name in self.shown]
        for found in (seen, self.backward):
            if found:
                return next((failed for failed in found if failed.operator.name == preferred), found[0])
        if self.forward:
            # Nothing shows on the way forward, and yet something came of it: a gradient was spoilt.
            first = self.forward[0]
            return Failed(first.operator, first.inner, "backward", first.health, first.uses_special, True)
        return None


def diagnose(
    direct: Direct, plan: Plan, counters: Counters, feeds: Arrays, variables: Arrays, bad: Sequence[str] | None
) -> Diagnosis:
    """Look at a call once more. `feeds` holds the random numbers and data that it had, `variables` what it began with.

    `bad` are the fetched tensors that were not finite in the program's call; none if it left such numbers in variables alone, and
    None if the call did not come to its end, because the program checks its numbers itself.
    """
    behind = _behind(plan, are_checks_met=bad is None)
    tensors = [
        tensor
        for op in plan.operators
        if is_outside(op) and op.type not in VARIABLES and not op.name.startswith(OWN) and op.name not in behind
        for tensor in op.outputs
        if is_floating(tensor)
    ]
    given = {name for name, array in {**feeds, **variables}.items() if not is_finite(array)}
    found = _traced(plan, counters.counted(direct, tensors, feeds), given)
    if found.forward or found.backward or (bad and found.explained.issuperset(bad)):
        return found
    vulnerable = weaknesses("tensorflow")
    alone = [tensor for tensor in tensors if tensor.op.type in vulnerable and not is_backward(tensor.op.name)]
    fetched = [] if bad is None else [tensor for tensor in plan.fetches if is_floating(tensor)]
    return _traced(plan, counters.counted(direct, [*alone, *fetched], feeds), given)


def _behind(plan: Plan, *, are_checks_met: bool) -> set[str]:
    """The operators that wait for a step of an optimiser, and these steps: looking at them would make the step once more.

    And those that wait for checks, where these end a call.
    """
    found: set[str] = set()
    for op in plan.operators:
        waits = any(operand.op.name in found for operand in op.inputs) or any(other.name in found for other in op.control_inputs)
        if waits or is_step(op.type) or (are_checks_met and op.type in _CHECKS):
            found.add(op.name)
    return found


def _traced(plan: Plan, health: Mapping[str, Health], given: set[str]) -> Diagnosis:
    """Where what is not finite began."""
    found = Diagnosis()
    causes: dict[str, _Cause] = {name: _Cause(Why.GIVEN) for name in given}
    reported: set[str] = set()
    for op in plan.operators:
        if op.type in VARIABLES and op.name in given:
            causes[op.outputs[0].name] = _Cause(Why.GIVEN)
            continue
        partner = plan.partners.get(op.name)
        formula = None if partner is None else partner.name
        operands = _arrived(plan, op, causes, formula, found, reported)
        for tensor in op.outputs:
            known = health.get(tensor.name)
            if known is not None and not known.is_finite:
                causes[tensor.name] = _cause(op, operands, known, found, formula)
            elif known is None and operands and is_floating(tensor):
                # It was not counted: what came in may go on.
                causes[tensor.name] = _merged(operands)
    for tensor in plan.fetches:
        cause = causes.get(tensor.name)
        if cause is not None:
            found.shown |= cause.failures
            found.explained.add(tensor.name)
            _note_birth(plan, cause, tensor.op, found, reported)
    _show_ends(plan, causes, found)
    return found


def _arrived(
    plan: Plan, op: Any, causes: Mapping[str, _Cause], formula: str | None, found: Diagnosis, reported: set[str]
) -> list[_Cause]:
    """The causes of operands that are not finite. What was born in a formula and leaves it is the failure of a derivative."""
    arrived: list[_Cause] = []
    for operand in op.inputs:
        cause = causes.get(operand.name)
        if cause is None:
            continue
        if cause.born_in is not None and cause.born_in != formula:
            _note_birth(plan, cause, operand.op, found, reported)
            cause = _Cause(Why.FAILURE, frozenset({cause.born_in}))
        arrived.append(cause)
    return arrived


def _note_birth(plan: Plan, cause: _Cause, inner: Any, found: Diagnosis, reported: set[str]) -> None:
    if cause.born_in is None or cause.born_in in reported:
        return
    reported.add(cause.born_in)
    partner = plan.partners.get(inner.name)
    was_masked = any(failed.operator.name == cause.born_in for failed in found.forward)
    found.backward.append(Failed(inner if partner is None else partner, inner, "backward", Health(nans=1), was_masked=was_masked))


def _cause(op: Any, operands: Sequence[_Cause], health: Health, found: Diagnosis, formula: str | None) -> _Cause:
    """Why a result is not finite; a failure on the way forward is noted."""
    if op.type in _READS:
        return _Cause(Why.GIVEN)
    if op.type == "Const":
        return _Cause(Why.GIVEN if health.nans else Why.PURPOSE)
    if any(cause.why is not Why.PURPOSE for cause in operands):
        return _merged(operands)
    if operands and not health.nans:
        return _Cause(Why.PURPOSE)
    if is_backward(op.name):
        # Gradients that are added up belong to no operator of the forward pass: they are a formula of their own.
        return _Cause(Why.FAILURE, born_in=formula or op.name)
    found.forward.append(Failed(op, op, "forward", health, bool(operands)))
    return _Cause(Why.FAILURE, frozenset({op.name}))


def _merged(operands: Sequence[_Cause]) -> _Cause:
    """The cause of what follows from operands that are not finite."""
    reasons = {cause.why for cause in operands}
    why = Why.FAILURE if Why.FAILURE in reasons else Why.GIVEN if Why.GIVEN in reasons else Why.PURPOSE
    failures = frozenset[str]().union(*(cause.failures for cause in operands))
    return _Cause(why, failures, next((cause.born_in for cause in operands if cause.born_in is not None), None))


def _show_ends(plan: Plan, causes: Mapping[str, _Cause], found: Diagnosis) -> None:
    """What is not finite at the end of the forward pass is shown, fetched or not: losses are rarely fetched in all calls."""
    read = {operand.name for op in plan.operators if _is_forward(op) for operand in op.inputs}
    for op in plan.operators:
        if not _is_forward(op):
            continue
        for tensor in op.outputs:
            if tensor.name in causes and tensor.name not in read:
                found.shown |= causes[tensor.name].failures


def _is_forward(op: Any) -> bool:
    return not is_backward(op.name) and not is_step(op.type) and not op.type.startswith("Assign")


def spoilt_by(plan: Plan, names: Iterable[str]) -> Failed | None:
    """The step of an optimiser that left one of these variables, or its own, with numbers that are not finite."""
    wanted = set(names)
    for op in plan.operators:
        if is_step(op.type) and any(operand.op.name in wanted for operand in op.inputs):
            return Failed(op, op, "backward", Health(infinities=1))
    return None
