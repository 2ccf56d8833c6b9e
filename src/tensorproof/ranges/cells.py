"""Arithmetic of recurrent cells on boxes: gate sums, activations, mixing and memory, each rounded as runtimes round it.

Bounds are pairs of float64 arrays with one row per group of batch entries and one column per hidden unit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import FLOAT32, FLOAT64, Array, Format
from tensorproof.operators.table import RESULT, UNDEFINED, Attributed, Call
from tensorproof.ranges.range import NAN, SPECIALS, Range
from tensorproof.ranges.sums import interval_product, summation_error
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW
from tensorproof.rules.exponential_overflow import EXPONENTIAL_OVERFLOW


class Box(NamedTuple):
    """An interval per row and unit."""

    low: Array
    high: Array

    def join(self, other: Box) -> Box:
        return Box(np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    def units(self, start: int, stop: int) -> Box:
        low = self.low[..., start:stop]
        return Box(low, low if self.high is self.low else self.high[..., start:stop])

    def within(self, other: Box) -> bool:
        return bool(((other.low <= self.low) & (self.high <= other.high)).all())

    @property
    def magnitude(self) -> Array:
        return np.maximum(np.abs(self.low), np.abs(self.high))


class Term(NamedTuple):
    """A summand of a gate: exact bounds, the sum of the absolute values of its own terms, and their number."""

    low: Array
    high: Array
    magnitude: Array
    terms: int

    def units(self, start: int, stop: int) -> Term:
        part = slice(start, stop)
        return Term(self.low[..., part], self.high[..., part], self.magnitude[..., part], self.terms)


def plain(box: Box) -> Term:
    """A value as a summand."""
    return Term(box.low, box.high, box.magnitude, 1)


def product(a: Box, b: Box) -> Term:
    """An element-wise product as a summand: extremes at the corners."""
    values = a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high
    low = np.minimum(np.minimum(values[0], values[1]), np.minimum(values[2], values[3]))
    high = np.maximum(np.maximum(values[0], values[1]), np.maximum(values[2], values[3]))
    return Term(low, high, a.magnitude * b.magnitude, 1)


def dot(a: Box, weights: Box, repeats: int) -> Term:
    """a @ weights as a summand. `repeats` counts the equal columns that each column of `a` stands for."""
    low, high, magnitude = interval_product(a.low, a.high, weights.low, weights.high)
    return Term(low * repeats, high * repeats, magnitude * repeats, weights.low.shape[-2] * repeats)


# -- activations -----------------------------------------------------------------------------------------------------


def _sigmoid(x: Array) -> Array:
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def _softplus(x: Array) -> Array:
    return np.logaddexp(0.0, x)


@dataclass(frozen=True)
class _Function:
    """An activation f(x, alpha, beta): a bound on its absolute error, the ends of its values, its critical points and values.

    `error` is in units of the unit roundoff, from the terms that the formula of the standard adds up. `exponential` says
    that the formula holds exp(x), which may overflow.
    """

    function: Callable[[Array, float, float], Array]
    error: Callable[[Array, float, float], Array]
    low: Callable[[float], float] = lambda alpha: -np.inf
    high: Callable[[float], float] = lambda alpha: np.inf
    critical: Callable[[float], tuple[tuple[float, float], ...]] = lambda alpha: ()
    uses: tuple[bool, bool] = (False, False)
    defaults: tuple[tuple[float, float], ...] = ((0.0, 0.0),)
    operator: str = ""
    exponential: bool = False

    @property
    def is_bounded(self) -> bool:
        return np.isfinite(self.low(1.0)) and np.isfinite(self.high(1.0))


def _none(x: Array, alpha: float, beta: float) -> Array:
    return np.zeros_like(x)


def _bounded(x: Array, alpha: float, beta: float) -> Array:
    # Recurrent kernels evaluate gates by rational approximations, whose error is absolute (ONNX Runtime: 2^-22).
    return np.full_like(x, 4.0)


def _affine_error(x: Array, alpha: float, beta: float) -> Array:
    return 4.0 * (np.abs(alpha * x) + abs(beta))


#: The activations of the standard (ONNX RNN-22). Where a runtime's default differs from the standard's, both stand here.
ACTIVATIONS: dict[str, _Function] = {
    "relu": _Function(lambda x, a, b: np.maximum(x, 0.0), _none),
    "tanh": _Function(lambda x, a, b: np.tanh(x), _bounded, lambda a: -1.0, lambda a: 1.0, operator="Tanh"),
    "sigmoid": _Function(lambda x, a, b: _sigmoid(x), _bounded, lambda a: 0.0, lambda a: 1.0, operator="Sigmoid"),
    "affine": _Function(lambda x, a, b: a * x + b, _affine_error, uses=(True, True), defaults=((1.0, 0.0), (0.0, 0.0))),
    "leakyrelu": _Function(
        lambda x, a, b: np.where(x < 0.0, a * x, x),
        lambda x, a, b: 2.0 * np.abs(a * x),
        critical=lambda a: ((0.0, 0.0),),
        uses=(True, False),
        defaults=((0.01, 0.0),),
    ),
    "thresholdedrelu": _Function(
        # At the threshold itself the standard and ONNX Runtime differ.
        lambda x, a, b: np.where(x > a, x, 0.0),
        _none,
        critical=lambda a: ((a, a), (a, 0.0)),
        uses=(True, False),
        defaults=((1.0, 0.0), (0.0, 0.0)),
    ),
    "scaledtanh": _Function(
        lambda x, a, b: a * np.tanh(b * x),
        lambda x, a, b: np.full_like(x, 8.0 * abs(a)),
        lambda a: -abs(a),
        lambda a: abs(a),
        uses=(True, True),
        defaults=((1.0, 1.0), (0.0, 0.0)),
        operator="Tanh",
    ),
    "hardsigmoid": _Function(
        lambda x, a, b: np.clip(a * x + b, 0.0, 1.0),
        lambda x, a, b: np.minimum(_affine_error(x, a, b), 8.0 * (2.0 + abs(b))),
        lambda a: 0.0,
        lambda a: 1.0,
        uses=(True, True),
        defaults=((0.2, 0.5),),
    ),
    "elu": _Function(
        lambda x, a, b: np.where(x < 0.0, a * np.expm1(np.minimum(x, 0.0)), x),
        lambda x, a, b: np.where(x < 0.0, 8.0 * abs(a), 0.0),
        critical=lambda a: ((0.0, 0.0),),
        uses=(True, False),
        defaults=((1.0, 0.0),),
    ),
    "softsign": _Function(lambda x, a, b: x / (1.0 + np.abs(x)), _bounded, lambda a: -1.0, lambda a: 1.0),
    "softplus": _Function(
        lambda x, a, b: _softplus(x),
        lambda x, a, b: 8.0 * np.maximum(_softplus(x), 1.0),
        lambda a: 0.0,
        exponential=True,
    ),
}


class Activation(NamedTuple):
    """An activation with its parameters; more than one pair where runtimes read the attributes differently."""

    name: str
    parameters: tuple[tuple[float, float], ...]


def read_activations(op: Attributed, defaults: Sequence[str], directions: int) -> list[list[Activation]]:
    """The activations of each direction. Their alpha and beta are consumed in order by those that have one."""
    given: Sequence[str] = op.attribute("activations") or list(defaults) * directions
    names = [str(name).lower() for name in given]
    if len(names) != len(defaults) * directions:
        raise NotAnalysed(f"{len(names)} activations for {directions} directions of {len(defaults)}")
    unknown = [name for name in names if name not in ACTIVATIONS]
    if unknown:
        raise NotAnalysed(f"activation {unknown[0]}")
    alphas: list[float] = [float(v) for v in op.attribute("activation_alpha") or ()]
    betas: list[float] = [float(v) for v in op.attribute("activation_beta") or ()]
    choices = [_choices(names, values, which) for which, values in enumerate((alphas, betas))]
    activations: list[Activation] = []
    for index, name in enumerate(names):
        pairs: list[tuple[float, float]] = []
        for default in ACTIVATIONS[name].defaults:
            for alpha in choices[0][index] or [default[0]]:
                for beta in choices[1][index] or [default[1]]:
                    pairs.append((alpha, beta))
        activations.append(Activation(name, tuple(dict.fromkeys(pairs))))
    size = len(defaults)
    return [activations[size * d : size * (d + 1)] for d in range(directions)]


def _choices(names: Sequence[str], values: Sequence[float], which: int) -> list[list[float]]:
    """For each activation what its parameter may be: the next value that is not used yet, or the one at its position."""
    left = list(values)
    result: list[list[float]] = []
    for index, name in enumerate(names):
        found: list[float] = []
        if ACTIVATIONS[name].uses[which]:
            if left:
                found.append(left.pop(0))
            if len(values) == len(names):
                found.append(values[index])
        result.append(found)
    return result


# -- rounding --------------------------------------------------------------------------------------------------------


class Arithmetic:
    """The rounded arithmetic of one call; keeps how far its sums leave the format."""

    def __init__(self, op: Call, format: Format, clip: float | None) -> None:
        self.op = op
        self.format = format
        self.clip = clip
        self.records = True
        #: The part of sums beyond the format, and of the operands of exponentials that overflow.
        self.sums: Box | None = None
        self.exponents: Box | None = None
        self.is_bounded = True
        #: The memory at the start of a number of steps that are taken at once.
        self.origin: tuple[Box, float] | None = None
        self.flushes = op.target.flushes_results or op.target.flushes_operands
        self.tiny = format.smallest_normal if self.flushes else format.smallest_subnormal
        self.roundoff = format.unit_roundoff + 2.0**-53

    def rounded(self, low: Array, high: Array, error: Array | float) -> Box:
        """Bounds widened by an error and rounded outward; overflow is kept for the report and cut off."""
        format = self.format
        low, high = format.round_down(low - error), format.round_up(high + error)
        low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
        over = (high > format.high) | (low < format.low)
        if over.any():
            self.sums = self._noted(self.sums, low[over], high[over])
            low, high = np.clip(low, format.low, format.high), np.clip(high, format.low, format.high)
        return Box(low, high)

    def _noted(self, earlier: Box | None, low: Array, high: Array) -> Box | None:
        if not self.records:
            return earlier
        found = Box(np.asarray(low.min()), np.asarray(high.max()))
        return found if earlier is None else earlier.join(found)

    def total(self, *terms: Term) -> Box:
        """A gate sum in any order, its parts possibly rounded on their own."""
        low, high = sum(t.low for t in terms), sum(t.high for t in terms)
        magnitude: Any = sum(t.magnitude for t in terms)
        error = summation_error(self.op, magnitude, sum(t.terms for t in terms), self.format)
        error = error + len(terms) * (self.roundoff * magnitude + self.tiny)
        partial = magnitude + error > self.op.accumulation(self.format).high
        if partial.any():
            # Partial sums may leave the format although the sum comes back: inf - inf.
            self.sums = self._noted(self.sums, -magnitude[partial], magnitude[partial])
        return self.rounded(np.asarray(low), np.asarray(high), error)

    def activated(self, activation: Activation, x: Box) -> Box:
        """An activation of a gate sum, which is clipped first where the node says so."""
        if self.clip is not None:
            x = Box(np.clip(x.low, -self.clip, self.clip), np.clip(x.high, -self.clip, self.clip))
        return self._activated(activation, x)

    def activated_memory(self, activation: Activation, x: Box) -> Box:
        """The activation of an LSTM's memory: clipped by the standard, not clipped by ONNX Runtime."""
        if self.clip is not None:
            x = x.join(Box(np.clip(x.low, -self.clip, self.clip), np.clip(x.high, -self.clip, self.clip)))
        return self._activated(activation, x)

    def _activated(self, activation: Activation, x: Box) -> Box:
        result: Box | None = None
        entry = ACTIVATIONS[activation.name]
        self.is_bounded = self.is_bounded and entry.is_bounded
        if entry.exponential:
            over = x.high > np.log(self.format.high) - 1.0 / 64.0
            if over.any():
                self.exponents = self._noted(self.exponents, x.low[over], x.high[over])
        for alpha, beta in activation.parameters:
            image = self._image(entry, x, alpha, beta)
            result = image if result is None else result.join(image)
        assert result is not None
        return result

    def _image(self, entry: _Function, x: Box, alpha: float, beta: float) -> Box:
        ends = entry.function(x.low, alpha, beta), entry.function(x.high, alpha, beta)
        low, high = np.minimum(*ends), np.maximum(*ends)
        for point, value in entry.critical(alpha):
            inside = (x.low <= point) & (point <= x.high)
            low = np.where(inside, np.minimum(low, value), low)
            high = np.where(inside, np.maximum(high, value), high)
        error = np.maximum(entry.error(x.low, alpha, beta), entry.error(x.high, alpha, beta)) * self.roundoff
        exact = error == 0.0
        error = error + self.tiny + 4.0 * self.format.quantum(np.maximum(np.abs(low), np.abs(high)))
        extra_absolute = 0.0
        if entry.operator:
            extra = self.op.target.function_error(entry.operator, self.format)
            extra_absolute = extra.absolute + extra.ulps * self.roundoff
            # 1 / (1 + exp(-x)) is 0 where the exponential overflows.
            error = error + 1.0 / self.format.high + extra_absolute
        box = self.rounded(low, high, np.where(exact, 0.0, error))
        least, most = entry.low(alpha), entry.high(alpha)
        if entry.operator == "Tanh" and extra_absolute:
            # A rational approximation exceeds 1 by a unit in the last place (ONNX Runtime's GRU).
            least, most = least - extra_absolute, most + extra_absolute
        least, most = float(self.format.round_down(np.asarray(least))), float(self.format.round_up(np.asarray(most)))
        return Box(np.clip(box.low, least, most), np.clip(box.high, least, most))

    def times(self, a: Box, b: Box) -> Box:
        """A product, rounded to nearest: monotone, so that factors up to 1 never enlarge the other one."""
        term = product(a, b)
        exact = 2 * self.format.digits <= FLOAT64.digits
        error = (0.0 if exact else 2.0**-52 * term.magnitude) + (self.tiny if self.flushes else 0.0)
        nearest = self.format.round_nearest
        return self.rounded(nearest(term.low - error), nearest(term.high + error), 0.0)

    def mixed(self, share: Box, a: Box, b: Box, *, fresh: Box) -> Box:
        """(1 - share) * a + share * b: affine in each argument, so that the corners of the box decide.

        `fresh` is the one of the two that is not the state before the step.
        """
        corners = [(1.0 - s) * x + s * y for s in share for x in a for y in b]
        low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
        weight = np.maximum(np.abs(1.0 - share.low), np.abs(1.0 - share.high))
        magnitude = weight * a.magnitude + share.magnitude * b.magnitude
        result = self.rounded(low, high, 4.0 * self.roundoff * magnitude + 4.0 * self.tiny)
        # A weighted mean of numbers up to a power of two M does not exceed M even after rounding: fl(1 - s) + s rounds to
        # at most 1 (1 - s is exact from s = 1/2 on, and off by at most half an ulp of numbers below 1 before).
        mean = (share.low >= 0.0) & (share.high <= 1.0)
        most = power_above(np.maximum(a.high, b.high))
        least = -power_above(np.maximum(-a.low, -b.low))
        if self.origin is not None:
            # n weighted means, each off by at most 6 u of the largest number that was there at first or came in since.
            start, steps = self.origin
            growth = np.exp(steps * np.log1p(6.0 * self.roundoff)) * (1.0 + 2.0**-40)
            reach = np.maximum(start.magnitude, fresh.magnitude)
            error = reach * (growth - 1.0) + 4.0 * self.tiny * steps * growth
            most = np.minimum(most, np.maximum(start.high, fresh.high) + error)
            least = np.maximum(least, np.minimum(start.low, fresh.low) - error)
        return Box(
            np.where(mean, np.maximum(result.low, least), result.low),
            np.where(mean, np.minimum(result.high, most), result.high),
        )

    def remembered(self, keep: Box, memory: Box, gain: Box, value: Box) -> Box:
        """keep * memory + gain * value, the memory of an LSTM."""
        old, new = product(keep, memory), product(gain, value)
        magnitude = old.magnitude + new.magnitude
        error = 3.0 * self.roundoff * magnitude + 3.0 * self.tiny
        result = self.rounded(old.low + new.low, old.high + new.high, error)
        fades = (keep.low >= 0.0) & (keep.high <= 1.0)
        starts = (None, None) if self.origin is None else (self.origin[0].high, -self.origin[0].low)
        most = self._remembered_most(memory.high, new.high, starts[0])
        least = -self._remembered_most(-memory.low, -new.low, starts[1])
        return Box(
            np.where(fades, np.maximum(result.low, least), result.low),
            np.where(fades, np.minimum(result.high, most), result.high),
        )

    def _remembered_most(self, memory: Array, addend: Array, start: Array | None) -> Array:
        """A bound on a memory of which at most all is kept, whether it is kept in its format or in float32 between steps.

        A number B absorbs an addend A with A <= B / 2^(p + 2): rounding to nearest gives B back, even after a rounding to
        float32. So a memory of p digits cannot creep beyond 2^(p + 2) times the largest addend. From a known start it also
        stays below (start + n A) (1 + 3 u)^n after n steps.
        """
        slack = 1.0 + 2.0 ** (2 - self.format.digits)
        addend = (np.maximum(addend, 0.0) * (1.0 + 2.0 * self.roundoff) + 3.0 * self.tiny) * slack
        # Each step gives at most the larger of what was there and that bound, so the start of all steps decides.
        before = np.maximum(memory if start is None else start, 0.0)
        most = before
        for digits in {self.format.digits, max(self.format.digits, FLOAT32.digits)}:
            bound = np.ldexp(addend, digits + 2)
            if self.origin is not None:
                steps = self.origin[1]
                growth = np.exp(steps * np.log1p(3.0 * (2.0**-digits + 2.0**-53)))
                bound = np.minimum(bound, (before + steps * addend) * growth * slack)
            most = np.maximum(most, bound)
        return most

    def report(self) -> None:
        """Report sums that can leave the format, and exponentials that overflow, if any."""
        special = SPECIALS if self.format.has_infinity else NAN
        # A sum cut off at the end of the format stands for larger ones only where activations are bounded.
        beyond = special if self.is_bounded else special | UNDEFINED
        for rule, found, gives in (
            (ACCUMULATION_OVERFLOW, self.sums, beyond),
            (EXPONENTIAL_OVERFLOW, self.exponents, special),
        ):
            if found is not None:
                value = Range.uniform((), self.format, float(found.low), float(found.high))
                self.op.report(rule, RESULT, value, True, gives=gives)


def power_above(values: Array) -> Array:
    """The smallest power of two that is not smaller; 0 for numbers that are not positive."""
    mantissa, exponent = np.frexp(values)
    return np.where(values <= 0.0, 0.0, np.ldexp(1.0, np.where(mantissa == 0.5, exponent - 1, exponent)))
