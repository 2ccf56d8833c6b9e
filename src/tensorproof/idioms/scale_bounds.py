"""What a chain of `tensorproof.idioms.root_mean_square` proves: how large d / s can be, as computed.

With t the square of one element of d (or the sum of all squares of its row), every value of the chain before the root is, as
computed, at least alpha t - beta: alpha collects the relative errors of the roundings, beta what underflow loses.

- A square is at least t (1 - r) - eta, with r the relative error of its operator and eta the smallest number.
- A computed sum of terms that are not negative is not smaller than any of them, in any order, since rounding is monotone; and
  not smaller than (1 - u)^(n - 1) times the exact sum, u the unit roundoff of the accumulator. Additions do not underflow.
- Multiplication by c > 0 and the division by n cost a factor 1 - r and at most eta; the sum with a number >= 0 is not
  smaller up to a rounding, the maximum with any number is not smaller.

The root s is therefore at least g sqrt(alpha t - beta) where that is defined, with g = 1 - r for the root and for each step after
it, and at least `floor`, the low end of its own range. Then sqrt(t) / s is largest where the two meet, which gives

    sqrt(t) / s <= sqrt((1 / g^2 + beta / floor^2) / alpha).

Where a cast of the root loses up to a by underflow, s >= g sqrt(alpha t - beta) - a is s (1 + a / floor) >= g sqrt(alpha t - beta).
Nothing is assumed about d: an error of the mean in d = x - mean(x) is part of both sides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tensorproof.formats import Format
from tensorproof.graph import ABSENT
from tensorproof.idioms.root_mean_square import Scale, Step
from tensorproof.idioms.terms import stands_over
from tensorproof.operators.activations import least
from tensorproof.operators.table import Call, find_operator
from tensorproof.ranges.range import Range

#: One part in 2^50 for the arithmetic of the analysis itself.
_SLACK = 1.0 + 2.0**-50
#: A chain that keeps no larger part of the squares proves nothing.
VANISHED = 1e-100
#: Kinds of steps whose other operand must be a single number.
_BY_A_NUMBER = frozenset({"multiply", "divide", "add", "maximum", "invert"})


@dataclass(frozen=True, slots=True)
class Reach:
    """Bounds of |d| / s (or |d| r, where the scale is a factor): of each element, and of the Euclidean norm of each row.

    `length` is the number of elements of a row, `factor` the largest |d| / s or |d| r for an element d that is one number
    and not part of the row: what an error of d is multiplied with.
    """

    element: float
    norm: float
    length: int
    factor: float


def margin(call: Call, operator: str, format: Format) -> tuple[float, float]:
    """|computed - exact| of one operator of a chain, as a relative and an absolute part."""
    u, eta = format.unit_roundoff, least(call, format)
    entry = find_operator("", operator)
    ulps, absolute = (0.5, 0.0) if entry is None else (max(entry.error.ulps, 0.5), entry.error.absolute)
    extra = call.target.function_error(operator, format)
    ulps, absolute = ulps + extra.ulps, absolute + extra.absolute
    return 2.0 * ulps * u * _SLACK, absolute + (ulps + 1.0) * eta


def reach_of(scale: Scale, call: Call, ranges: Mapping[int, Range]) -> Reach | None:
    """What the chain proves, with the numbers that are in the ranges; None if it is not what it seemed."""
    base = ranges[scale.base]
    if not base.format.is_float or not stands_over(base, ranges[scale.place], scale.axes):
        return None
    length = row_length(base, scale.axes)
    floors = floors_of(scale, length, call, ranges)
    if floors is None:
        return None
    element, norm, grown, lost = floors
    largest = float(base.magnitude().max(initial=0.0))
    bottom = float(ranges[scale.divisor].low.min(initial=math.inf))
    if not element.is_root:
        bottom = math.sqrt(max(bottom, 0.0))
    if not bottom > 0.0:
        return None
    bounds = [floor.quotient(bottom) * grown + largest * lost for floor in (element, norm)]
    factor = grown / bottom + lost
    return Reach(bounds[0] * _SLACK, (bounds[1] + math.sqrt(length) * largest * lost) * _SLACK, length, factor * _SLACK)


def floors_of(scale: Scale, length: int, call: Call, ranges: Mapping[int, Range]) -> tuple[Floor, Floor, float, float] | None:
    """What the chain is at least, by the square of an element and by the sum of the squares of a row of this length.

    Where it ends in a factor: this is what it divides by, and the factor is at most that reciprocal times the third number plus
    the fourth.
    """
    base = ranges[scale.base]
    if not length or any(not _is(ranges[value], number) for value, number in scale.powers):
        return None
    element, norm = Floor(), Floor()
    inverted, grown, lost = False, 1.0, 0.0
    for step in scale.steps:
        format = ranges[step.result].format
        if not format.is_float:
            return None
        if step.kind in ("sum", "mean", "norm"):
            if format is not base.format or not _reduced(element, norm, step, length, call, format):
                return None
        elif step.kind in ("invert", "scale") or inverted:
            low, high = _other(step, ranges) or (math.nan, math.nan)
            relative, _ = margin(call, step.operator, format)
            # Underflow only ever makes a factor smaller, but for rounding to the smallest number.
            inverted, factor = True, max(abs(low), abs(high))
            grown, lost = grown * factor * (1.0 + relative), lost * factor * (1.0 + relative) + format.smallest_subnormal
            if not grown < math.inf:
                return None
        elif not (follow(element, step, call, ranges) and follow(norm, step, call, ranges)):
            return None
    kept = min(element.alpha, norm.alpha, element.root, norm.root)
    return (element, norm, grown, lost) if kept > VANISHED else None


def _reduced(element: Floor, norm: Floor, step: Step, length: int, call: Call, format: Format) -> bool:
    """The sum or the mean over a row, or the root of the sum of its squares."""
    accumulator = call.accumulation(format)
    relative, absolute = margin(call, step.operator, format)
    if length > accumulator.high:
        return False
    if step.operator in ("ReduceSumSquare", "ReduceL2"):
        element.scaled(1.0, *margin(call, "Mul", accumulator))
        norm.scaled(1.0, *margin(call, "Mul", accumulator))
    norm.summed(length, math.exp(length * math.log1p(-accumulator.unit_roundoff)) / _SLACK**length)
    inner, below = margin(call, "Div", accumulator)
    for floor in (element, norm):
        if step.kind == "mean":
            # The division, and the number of elements itself where the format cannot hold it.
            floor.scaled(1.0 / length, 2.0 * inner, below)
        if step.kind == "norm":
            floor.rooted(inner)
            # The root of the smallest number is no small number: only a narrower format loses it.
            floor.kept(relative, 0.0 if accumulator is format else absolute)
        else:
            floor.scaled(1.0, relative, absolute)
    return True


def follow(floor: Floor, step: Step, call: Call, ranges: Mapping[int, Range]) -> bool:
    """One step more, before or after the root; whether it is one that keeps the floor."""
    ends = _other(step, ranges)
    if ends is None:
        return False
    low, high = ends
    if (step.kind in ("multiply", "divide") and not low > 0.0) or (step.kind == "add" and not low >= 0.0):
        return False
    relative, absolute = margin(call, step.operator, ranges[step.result].format)
    if step.kind == "root":
        floor.rooted(relative)
    elif step.kind in ("add", "maximum"):
        floor.kept(relative)
    elif floor.is_root:
        floor.kept(relative, absolute)
    else:
        floor.scaled(low if step.kind == "multiply" else 1.0 / high, relative, absolute)
    return True


def _other(step: Step, ranges: Mapping[int, Range]) -> tuple[float, float] | None:
    """The ends of a step's other operand, 1 if it has none; None if it should be a number and is not."""
    if step.other == ABSENT:
        return 1.0, 1.0
    other = ranges[step.other]
    if step.kind in _BY_A_NUMBER and (other.has_special or not other.has_known_shape or other.sizes != (1,) * other.rank):
        return None
    return other.hull()


class Floor:
    """What the computed value of a chain is at least: alpha t - beta, after the root root * sqrt(alpha t - beta) - loss."""

    def __init__(self) -> None:
        self.alpha = 1.0
        self.beta = 0.0
        self.root = 1.0
        self.loss = 0.0
        self.is_root = False

    def scaled(self, factor: float, relative: float, absolute: float) -> None:
        """Multiplied by a factor > 0, with rounding."""
        self.alpha *= factor * max(1.0 - relative, 0.0) / _SLACK
        self.beta = (self.beta * factor + absolute) * _SLACK

    def kept(self, relative: float, absolute: float = 0.0) -> None:
        """Made no smaller, up to rounding; `absolute` is what underflow loses of a root."""
        if self.is_root:
            self.loss += absolute
            self.root *= max(1.0 - relative, 0.0) / _SLACK
        else:
            self.alpha *= max(1.0 - relative, 0.0) / _SLACK

    def summed(self, terms: int, accuracy: float) -> None:
        """The sum over a row, of which rounding leaves at least this part."""
        self.alpha *= accuracy
        self.beta *= terms * _SLACK

    def rooted(self, relative: float) -> None:
        self.root = max(1.0 - relative, 0.0) / _SLACK
        self.is_root = True

    def quotient(self, bottom: float) -> float:
        """The largest sqrt(t) / s."""
        root = self.root / (1.0 + self.loss / bottom)
        return math.sqrt((1.0 / root**2 + self.beta / bottom / bottom) / self.alpha) * _SLACK


def row_length(x: Range, axes: tuple[int, ...]) -> int:
    """The number of elements that are reduced to one."""
    return math.prod(x.sizes[axis] for axis in axes) if axes else math.prod(x.sizes)


def _is(x: Range, number: float) -> bool:
    return not x.has_special and x.hull() == (number, number)
