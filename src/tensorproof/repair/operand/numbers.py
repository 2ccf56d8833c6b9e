"""The numbers of a format in their order, and bisection over them: it ends at the very number where a condition changes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tensorproof.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, Format
from tensorproof.repair.proposal import Declined
from tensorproof.targets import Target

#: The unsigned integers that hold the bits of each floating format which a guard can be written in.
_BITS = {FLOAT64.name: np.uint64, FLOAT32.name: np.uint32, FLOAT16.name: np.uint16, BFLOAT16.name: np.uint16}


def ordinal(format: Format, value: float) -> int:
    """The place of a number among all numbers of its format, zero's being 0: bit patterns of numbers grow with their size."""
    if format.is_integer:
        return int(value)
    bits = _BITS.get(format.name)
    if bits is None:
        raise Declined(f"no guard can be written for values of format {format}")
    size = int(np.abs(np.asarray(value, format.dtype)).view(bits))
    return -size if value < 0 else size


def number(format: Format, place: int) -> float:
    """The number at a place."""
    if format.is_integer:
        return float(place)
    size = float(np.asarray(abs(place), _BITS[format.name]).view(format.dtype))
    return -size if place < 0 else size


def beyond(format: Format, value: float, steps: int) -> float:
    """The number so many steps of its format above a number, or below it."""
    return number(format, ordinal(format, value) + steps)


def least(format: Format, low: float, high: float, holds: Callable[[float], bool]) -> float:
    """The smallest number from `low` to `high` for which a condition holds that holds for `high` and all numbers below it down to
    the one that is sought."""
    good, bad = ordinal(format, high), ordinal(format, low) - 1
    while good - bad > 1:
        middle = (good + bad) // 2
        if holds(number(format, middle)):
            good = middle
        else:
            bad = middle
    return number(format, good)


def greatest(format: Format, low: float, high: float, holds: Callable[[float], bool]) -> float:
    """The largest number from `low` to `high` for which a condition holds that holds for `low`."""
    return -least(format, -high, -low, lambda value: holds(-value))


def smallest_kept(format: Format, target: Target) -> float:
    """The smallest positive number that a target does not take for zero."""
    if format.is_integer:
        return 1.0
    return format.smallest_normal if target.flushes_results or target.flushes_operands else format.smallest_subnormal


def usual_epsilon(format: Format, high: float) -> float:
    """The unit roundoff of a format, relative to the largest value of an operand where that is below 1.

    Operands of the usual size do not change at all if it is added to them.
    """
    return max(format.unit_roundoff * 2.0 ** min(0, math.frexp(high)[1] - 1), format.smallest_normal)
