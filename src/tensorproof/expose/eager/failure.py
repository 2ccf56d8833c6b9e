"""A failure in an eager TensorFlow program as it is told: the rule, the operand that decides, and the numbers that it held."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tensorproof.expose import events
from tensorproof.expose.eager.external import External, Externals
from tensorproof.expose.eager.health import Fault, is_finite
from tensorproof.expose.eager.recording import Call, Recording, is_floating
from tensorproof.expose.eager.suspects import Execution, suspect_name, vulnerable
from tensorproof.expose.search.vulnerable import Weakness
from tensorproof.findings import Reaches
from tensorproof.operators.table import Operator, all_spellings
from tensorproof.report.plain_text import interval, number
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW
from tensorproof.rules.derivative_overflow import DERIVATIVE_OVERFLOW
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
    """The rule of a failure, the way of failing that explains it, the operand that decides, and the numbers that it held."""

    rule: Rule
    weakness: Weakness | None
    operand: str
    low: float
    high: float
    format: str
    message: str


def describe(fault: Fault, call: Call | None, in_update: bool, beside: Callable[[Callable[[], Any]], Any]) -> Described:
    """What a fault is, by the operator and by the numbers that it got; `call` is the operator on the way forward, if it is known.

    `in_update` says that an optimiser ran it. `beside` computes where the program does not notice.
    """
    weakness = None if call is None or in_update else beside(lambda: _explaining(fault, call))
    operands = list(call.inputs if call is not None else fault.inputs)
    index, tensor = _telling(fault, operands, weakness)
    array = np.asarray(tensor.numpy()).astype(np.float64)
    finite = array[np.isfinite(array)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    name = operand_name(fault.op, index)
    if in_update:
        rule = OPTIMISER_STEP if tensor.dtype.name in _HALVES else ARITHMETIC_OVERFLOW
    else:
        rule = UNSELECTED_BRANCH if fault.was_masked else weakness.rule if weakness is not None else _rule(fault, low)
    return Described(
        rule, weakness, name, low, high, tensor.dtype.name, f"{_told(fault, in_update)}; {name} in {interval(low, high)}"
    )


def _told(fault: Fault, in_update: bool) -> str:
    if fault.phase == "backward" and not in_update:
        return f"the derivative of {fault.op} turned finite gradients into gradients that are not"
    counts = ((fault.nans, "NaN"), (fault.infinities, "infinite"))
    told = f"{fault.op} returned {' and '.join(f'{number(count)} {what}' for count, what in counts if count)}"
    return f"{told} in the step of an optimiser" if in_update else told


def _explaining(fault: Fault, call: Call) -> Weakness | None:
    """The way of failing that the numbers show; where none does, nothing is known but the operator."""
    if fault.uses_special:
        return None
    for weakness in vulnerable().get(call.op, ()):
        if weakness.phase != fault.phase and not fault.was_masked:
            continue
        execution = Execution(weakness, call)
        if is_floating(execution.decisive) and execution.is_reached():
            return weakness
    return None


def _telling(fault: Fault, operands: list[Any], weakness: Weakness | None) -> tuple[int, Any]:
    """The tensor whose numbers a reader wants to see, and which operand it is; -1 for the result."""
    if weakness is not None and 0 <= weakness.operand < len(operands) and is_floating(operands[weakness.operand]):
        return weakness.operand, operands[weakness.operand]
    floating = [index for index, tensor in enumerate(operands) if is_floating(tensor)]
    finite = [index for index in floating if is_finite(operands[index])]
    chosen = next(iter(finite or floating), -1)
    return chosen, operands[chosen] if chosen >= 0 else fault.outputs[0]


def _rule(fault: Fault, low: float) -> Rule:
    """The rule of a failure that no declared way of failing explains, as `tensorproof.observe.matching` has it."""
    if fault.phase == "backward":
        return DERIVATIVE_OVERFLOW
    if fault.op in _SOFTMAX:
        return MASKED_SOFTMAX if fault.uses_special else ARITHMETIC_OVERFLOW
    if fault.uses_special:
        return INVALID_ON_INFINITY
    if fault.op == "Rsqrt" and low < 0:
        return SQRT_OF_NEGATIVE
    if fault.op.startswith(_SUMS):
        return ACCUMULATION_OVERFLOW
    declared = _operators().get(fault.op)
    if declared is not None and declared.overflow is not None and not fault.nans:
        return declared.overflow
    return INVALID_ON_INFINITY if fault.nans else ARITHMETIC_OVERFLOW


@cache
def _operators() -> Mapping[str, Operator]:
    return dict(all_spellings("tensorflow"))


def snapshot(externals: Externals, recording: Recording) -> dict[str, External]:
    """The external values that the step has used, as a replay needs them, by name.

    Integers of arrays count if they belong to samples: axes and the like are the program's own.
    """
    known = externals.present(recording.given.values())
    lengths = {value.tensor.shape[0] for value in known.values() if value.kind in ("batch", "data") and is_floating(value.tensor)}
    found: dict[str, External] = {}
    for name, value in known.items():
        tensor = value.tensor
        is_sample = value.kind != "data" or tensor.shape[0] in lengths
        if is_floating(tensor) or ((tensor.dtype.is_integer or tensor.dtype.is_bool) and is_sample):
            found[name] = value
    return found


def event(
    described: Described, fault: Fault, values: Mapping[str, External], seed: int, iteration: int, file: str, reaches: Reaches
) -> events.Failure:
    """The failure in the form that is sent."""
    place = fault.where.place()
    return events.Failure(
        suspect="" if described.weakness is None else suspect_name(fault.op, fault.where, described.weakness),
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
        iteration=iteration,
        arrays=file,
        values={name: value.label or value.kind for name, value in values.items()},
        seed=seed,
        message=described.message,
        reaches=reaches,
        replay="eager",
    )


def operand_name(op: str, index: int) -> str:
    """What TensorFlow calls an operand; operands of lists and of traced functions have numbers alone."""
    from tensorflow.python.framework import op_def_registry

    if index < 0:
        return "result"
    known = op_def_registry.get(op)
    names = [] if known is None else [argument.name for argument in known.input_arg]
    return names[index] if index < len(names) else f"operand {index}"
