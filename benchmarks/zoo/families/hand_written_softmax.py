"""Perceptrons with two hidden layers on digits, whose softmax is written out as exponentials over their sum, unstabilised."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.zoo.builder import Builder, Tensor
from benchmarks.zoo.entry import Bug, Entry, Optimiser, Repair
from benchmarks.zoo.families.parts import DIGITS, Change, clipped, dense, less_the_largest, unchanged
from benchmarks.zoo.initial import uniform, zeros

FAMILY = "perceptron with a hand-written softmax"

_OVERFLOW = "exp(a) is inf above 88.7: the clip of the quotient hides it forward, the derivative 0 * inf does not"
_UNDERFLOW = "the exponential of a logit far below 0 is 0 while the sum of its row is not, and so is the quotient; or inf / inf"
_EMPTY_ROW = "all logits of a row far below -87 make the sum of their exponentials 0"

#: The exponential of this is finite in float32; the sum of ten such is not.
_LARGEST = 87.0


def entries() -> Iterator[Entry]:
    def entry(name: str, program: int, project: str, bugs: tuple[Bug, ...], guard: Change | None = None, **how: Any) -> Entry:
        """`guard` is what the operand of the logarithm becomes in the repaired program."""
        repair = Repair(
            "the largest logit of a row is subtracted first" + (", and the operand of the logarithm is guarded" if guard else ""),
            partial(_describe, **how | ({"operand": guard} if guard else {}), stable=True),
        )
        optimiser = Optimiser("SGD", 0.01)
        return Entry(name, program, project, "tensorflow", FAMILY, partial(_describe, **how), optimiser, bugs, repair)

    exponential = Bug("11a", "Exp", "softmax/exp_of_all", _OVERFLOW)
    quotient = Bug("11c", "Div", "softmax/quotient", _EMPTY_ROW)
    yield entry("11ac", 11, "TensorFuzz", (exponential, quotient), clip="numerator", operand=_CLIPPED)
    logarithm = Bug("11b", "Log", "loss/log", _UNDERFLOW)
    yield entry("11b", 11, "TensorFuzz", (logarithm,), guard=_CLIPPED, clip=None, operand=unchanged)
    again = "FuzzForTensorflow"
    exponential = Bug("16a", "Exp", "softmax/exp_of_all", _OVERFLOW)
    yield entry("16a", 16, again, (exponential,), clip="numerator", operand=_magnitude_of_clipped)
    logarithm = Bug("16b", "Log", "loss/log", _UNDERFLOW)
    yield entry("16b", 16, again, (logarithm,), guard=_shifted_magnitude, clip="logits", operand=_magnitude)
    quotient = Bug("16c", "Div", "softmax/quotient", _EMPTY_ROW)
    yield entry("16c", 16, again, (quotient,), clip="logits", operand=_shifted_magnitude)


_CLIPPED = clipped(1e-6, 1.0)


def _magnitude(b: Builder, p: Tensor) -> Tensor:
    return b.absolute(p)


def _magnitude_of_clipped(b: Builder, p: Tensor) -> Tensor:
    return b.absolute(_CLIPPED(b, p))


def _shifted_magnitude(b: Builder, p: Tensor) -> Tensor:
    return b.absolute(p) + 1e-6


def _describe(b: Builder, *, clip: str | None, operand: Change, stable: bool = False) -> None:
    """`clip` says what is clipped before the exponential: the numerator alone, the logits (from above only: their lower bound
    is the smallest of the batch), or nothing; `operand` makes the operand of the logarithm from the quotient.

    The `stable` form exponentiates what is left when the largest logit of a row is subtracted.
    """
    start = uniform(-0.25, 0.25)
    x = b.flatten(b.input("x", [100, 28, 28, 1], "-1:1"))
    y = b.input("y", [100, DIGITS], "one-hot", "label")
    h = b.relu(dense(b, x, "dense", 200, start, zeros()))
    h = b.relu(dense(b, h, "dense_1", 100, start, zeros()))
    logits = dense(b, h, "dense_2", DIGITS, start, zeros())
    with b.scope("softmax"):
        if clip == "logits":
            logits = b.clip(logits, b.minimum(logits), _LARGEST)
        if stable:
            logits = less_the_largest(b, logits, 1)
        exponentials = b.exp(logits, name="exp_of_all")
        above = b.exp(b.clip(logits, -_LARGEST, _LARGEST)) if clip == "numerator" else exponentials
        p = b.divide(above, b.sum(exponentials, [1], keep=True), name="quotient")
    with b.scope("loss"):
        b.output("loss", b.mean(-b.sum(y * b.log(operand(b, p), name="log"), [1])))
