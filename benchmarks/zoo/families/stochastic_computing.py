"""A perceptron on digits as stochastic computing has it: numbers stay within [-1, 1], and every layer carries its scale."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from benchmarks.zoo.builder import Builder, Tensor
from benchmarks.zoo.entry import Bug, Entry, Optimiser, Repair
from benchmarks.zoo.families.parts import DIGITS, PIXEL_COUNT, PIXELS, fused_log_softmax
from benchmarks.zoo.initial import Initial, normal, uniform, zeros

FAMILY = "stochastic-computing perceptron"

_BATCH = 500
_HIDDEN = 128
_GUARD = 1e-7

_GAIN = "a gain of 0 makes the new scale infinite; a bias over it is 0, and inf / inf is NaN"
_COLUMN = "the weights of a column may all be 0, and so is the sum of their magnitudes"
_REPAIR = (
    "gains are at least 1/16, and 1e-7 is added to sums of magnitudes; upstream adds such an epsilon to gains as well, but one that"
    " training carries below 0 passes its negative"
)


@dataclass(frozen=True, slots=True)
class _Variant:
    """Gains per unit and a penalty on what exceeds 1, or one gain per layer and a quadratic penalty; guards of divisors."""

    first: Initial
    gain_per_unit: bool
    guard_gain: float = 0.0
    guard_sum: float = 0.0
    guard_largest: float = 0.0
    least_gain: float | None = None


def entries() -> Iterator[Entry]:
    def entry(letter: str, variant: _Variant, bug: Bug) -> Entry:
        describe = partial(_describe, variant=variant)
        repaired = partial(_describe, variant=replace(variant, guard_sum=_GUARD, least_gain=1 / 16))
        optimiser = Optimiser("Adam", 0.1)
        return Entry(letter, 28, "SC_DNN", "tensorflow", FAMILY, describe, optimiser, (bug,), Repair(_REPAIR, repaired))

    gain, column = "first/new_scale", "first/quotient"
    guards = {"guard_gain": _GUARD, "guard_sum": _GUARD, "guard_largest": _GUARD}
    yield entry("28a", _Variant(zeros(), True, **guards), Bug("28a", "Div", gain, _GAIN))
    yield entry("28b", _Variant(normal(1.0), True), Bug("28b", "Div", column, _COLUMN))
    yield entry("28c", _Variant(normal(1.0), False), Bug("28c", "Div", gain, _GAIN))
    yield entry("28d", _Variant(normal(1.0), False), Bug("28d", "Div", column, _COLUMN))


def _describe(b: Builder, variant: _Variant) -> None:
    h = b.input("features", [_BATCH, PIXEL_COUNT], PIXELS)
    labels = b.input("labels", [_BATCH, DIGITS], "one-hot", "label")
    scale = b.constant([[1.0] * PIXEL_COUNT])
    trained: list[Tensor] = []
    for name, size, initial in (("first", _HIDDEN, variant.first), ("last", DIGITS, normal(1.0))):
        weight = b.weight(f"w_{name}", [h.shape[1], size], initial)
        bias = b.weight(f"b_{name}", [size], normal(1.0))
        gain = b.weight(f"G_{name}", [size if variant.gain_per_unit else 1], uniform(0.0, 16.0))
        if variant.least_gain is not None:
            gain = b.clip(gain, variant.least_gain, None)
        with b.scope(name):
            h, scale = _multiply(b, h, weight, scale, gain, variant)
            h = _add(b, h, bias, scale)
        trained += [weight, bias]
    with b.scope("loss"):
        terms = labels * fused_log_softmax(b, h * b.tile(scale, [_BATCH, 1]))
        entropy = b.mean(-b.sum(terms, [1]))
        penalties = [_excess(b, value) if variant.gain_per_unit else _square(b, value) for value in trained]
        b.output("loss", entropy + penalties[0] + penalties[1] + penalties[2] + penalties[3])


def _multiply(b: Builder, x: Tensor, weight: Tensor, scale: Tensor, gain: Tensor, variant: _Variant) -> tuple[Tensor, Tensor]:
    """x W over the sums of magnitudes of W's columns, times a gain, within [-1, 1]; and the scale of the result as a row."""

    def guarded(divisor: Tensor, epsilon: float) -> Tensor:
        return divisor + epsilon if epsilon else divisor

    largest = b.maximum(scale)
    adjusted = x * b.divide(scale, guarded(largest, variant.guard_largest), name="relative_scale")
    sums = b.tile(b.sum(b.absolute(weight), [0], keep=True), [_BATCH, 1])
    divisor = guarded(sums, variant.guard_sum)
    result = b.clip(b.divide(adjusted @ weight, divisor, name="quotient") * gain, -1.0, 1.0)
    new_scale = b.divide(largest * divisor, guarded(gain, variant.guard_gain), name="new_scale")
    return result, b.slice(new_scale, 0, 0, 1)


def _add(b: Builder, x: Tensor, bias: Tensor, scale: Tensor) -> Tensor:
    half = (x + b.divide(bias, scale, name="scaled_bias")) / 2.0
    return b.clip(2.0 * half, -1.0, 1.0)


def _excess(b: Builder, value: Tensor) -> Tensor:
    """A penalty on magnitudes above 1."""
    magnitude = b.absolute(value)
    return 0.25 * b.sum(2.0 * (magnitude - b.clip(magnitude, -1.0, 1.0)))


def _square(b: Builder, value: Tensor) -> Tensor:
    return 0.0012 * (b.sum(value * value) / 2.0)
