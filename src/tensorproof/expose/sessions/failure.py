"""A failure in a TensorFlow session as it is told: the rule, the operand, and whether it is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.expose import events
from tensorproof.expose.search.board import Suspect
from tensorproof.expose.search.vulnerable import Weakness, weaknesses
from tensorproof.expose.sessions.external import Call
from tensorproof.expose.sessions.health import Failed
from tensorproof.expose.sessions.objective import Objectives, is_reached
from tensorproof.expose.sessions.place import decisive
from tensorproof.expose.sessions.plan import Site, is_floating, line_of
from tensorproof.expose.sessions.state import Arrays, Direct
from tensorproof.frontends.tensorflow_parts import is_step
from tensorproof.operators.table import Operator, all_spellings
from tensorproof.report.plain_text import interval, number
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW
from tensorproof.rules.derivative_overflow import DERIVATIVE_OVERFLOW
from tensorproof.rules.exponential_overflow import EXPONENTIAL_OVERFLOW
from tensorproof.rules.invalid_operation_on_infinity import INVALID_ON_INFINITY
from tensorproof.rules.masked_softmax import MASKED_SOFTMAX
from tensorproof.rules.optimiser_step import OPTIMISER_STEP
from tensorproof.rules.rule import Rule
from tensorproof.rules.sqrt_of_negative import SQRT_OF_NEGATIVE
from tensorproof.rules.unselected_branch import UNSELECTED_BRANCH

_SOFTMAX = ("Softmax", "LogSoftmax", "SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits")
_SUMS = ("MatMul", "BatchMatMul", "Sum", "Mean", "Prod", "Cumsum", "Cumprod", "Conv", "Einsum", "L2Loss", "AddN", "SegmentSum")
_HALVES = ("float16", "bfloat16")


@dataclass(frozen=True, slots=True)
class Described:
    """The rule of a failure, the operand that decides, and the numbers that it held."""

    rule: Rule
    weakness: Weakness | None
    operand: str
    low: float
    high: float
    format: str
    message: str


def describe(direct: Direct, objectives: Objectives, failed: Failed, feeds: Arrays) -> Described:
    """What a failure is, by the operator, and by the numbers that it got."""
    weakness = _explaining(direct, objectives, failed, feeds)
    tensor = _telling(failed, weakness)
    array = np.asarray(feeds[tensor.name] if tensor.name in feeds else direct.fetch([tensor], feeds)[0])
    rule = UNSELECTED_BRANCH if failed.was_masked else weakness.rule if weakness is not None else _rule(failed, array)
    finite = array[np.isfinite(array)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    seen = f"{tensor.name} in {interval(low, high)}"
    return Described(rule, weakness, tensor.name, low, high, tensor.dtype.base_dtype.name, f"{_told(failed)}; {seen}")


def _told(failed: Failed) -> str:
    operator = failed.operator
    if is_step(operator.type):
        return f"{operator.type} left numbers that are not finite in {operator.inputs[0].op.name}, or in what it keeps for it"
    if failed.phase == "backward":
        return f"the derivative of {operator.type} turned finite gradients into gradients that are not ({failed.inner.name})"
    counts = ((failed.health.nans, "NaN"), (failed.health.infinities, "infinite"))
    return f"{operator.type} returned {' and '.join(f'{number(count)} {what}' for count, what in counts if count)}"


def _explaining(direct: Direct, objectives: Objectives, failed: Failed, feeds: Arrays) -> Weakness | None:
    """The way of failing that the numbers show; where none does, nothing is known but the operator."""
    operator = failed.operator
    if failed.uses_special or is_step(operator.type):
        return None
    ways = [way for way in weaknesses("tensorflow").get(operator.type, ()) if way.phase == failed.phase or failed.was_masked]
    for way in ways:
        if not is_floating(decisive(way, operator)):
            continue
        if way.rule is EXPONENTIAL_OVERFLOW:
            return way
        site = Site(operator, way, Suspect(f"{operator.name}:{way.key}", way, operator.type, None, None))
        if is_reached(site, objectives.value(direct, site, feeds)):
            return way
    return None


def _telling(failed: Failed, weakness: Weakness | None) -> Any:
    """The tensor whose numbers a reader wants to see."""
    operator = failed.operator
    if weakness is not None:
        return decisive(weakness, operator)
    candidates = [tensor for tensor in operator.inputs if is_floating(tensor) and not tensor.dtype._is_ref_dtype]
    return candidates[-1 if is_step(operator.type) else 0] if candidates else operator.outputs[0]


def _rule(failed: Failed, operand: npt.NDArray[Any]) -> Rule:
    """The rule of a failure that no declared way of failing explains, as `tensorproof.observe.matching` has it."""
    operator = failed.operator
    if is_step(operator.type):
        return OPTIMISER_STEP if operator.inputs[0].dtype.base_dtype.name in _HALVES else ARITHMETIC_OVERFLOW
    if failed.phase == "backward":
        return DERIVATIVE_OVERFLOW
    if operator.type in _SOFTMAX:
        return MASKED_SOFTMAX if failed.uses_special else ARITHMETIC_OVERFLOW
    if failed.uses_special:
        return INVALID_ON_INFINITY
    if operator.type == "Rsqrt" and operand.size and operand.min() < 0:
        return SQRT_OF_NEGATIVE
    if operator.type.startswith(_SUMS):
        return ACCUMULATION_OVERFLOW
    declared = _operators().get(operator.type)
    if declared is not None and declared.overflow is not None and not failed.health.nans:
        return declared.overflow
    return INVALID_ON_INFINITY if failed.health.nans else ARITHMETIC_OVERFLOW


@cache
def _operators() -> Mapping[str, Operator]:
    return dict(all_spellings("tensorflow"))


def is_known(failed: Failed, settled: Iterable[str]) -> bool:
    """Whether an operator is among those that are settled, whatever it was settled for: as a suspect, or as a failure."""
    line = line_of(failed.operator)
    if line is None:
        return False
    place = f"{Path(line.file).name}:{line.line}:"
    begins = (f"{place}{failed.operator.type}:", f"{place}None:{failed.operator.type}:")
    return any(name.startswith(begins) for name in settled)


def event(described: Described, failed: Failed, call: Call, values: Mapping[str, str], told: Told) -> events.Failure:
    """The failure in the form that is sent. `values` are what the program calls the values of the archive."""
    operator = failed.operator
    line = line_of(operator)
    named = next((s for s in call.plan.sites if s.operator is operator and s.weakness is described.weakness), None)
    return events.Failure(
        suspect="" if named is None else named.suspect.name,
        framework="tensorflow",
        operator=operator.type,
        rule=described.rule.code,
        phase=failed.phase,
        file=None if line is None else line.file,
        line=None if line is None else line.line,
        column=None,
        function=None if line is None else line.function or None,
        operand=described.operand,
        low=described.low,
        high=described.high,
        format=described.format,
        iteration=told.iteration,
        arrays=told.arrays,
        values=dict(values),
        seed=told.seed,
        message=described.message,
        moved=told.moved,
        reaches="gradient" if failed.phase == "backward" else "loss" if call.is_training else "output",
        replay="sessions",
    )


@dataclass(frozen=True, slots=True)
class Told:
    """What else is told of a failure: when it was, the file with the values, and which of them were moved."""

    iteration: int
    arrays: str
    seed: int
    moved: tuple[str, ...]
