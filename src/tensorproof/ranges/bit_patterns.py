"""Bits of integers read as floating numbers.

Patterns whose sign bit is 0 are in the order of the numbers that they stand for, then infinity, then NaN (IEEE 754-2019,
section 3.4): an interval of such integers is an interval of numbers. That is how generators make a number in [1, 2) of random
bits, and one in [0, 1) of that.
"""

from __future__ import annotations

import numpy as np

from tensorproof.formats import Array, Format
from tensorproof.ranges.range import NAN, POSITIVE_INFINITY, Range


def as_numbers(x: Range, format: Format) -> Range | None:
    """The numbers of a floating format whose bits are the integers of `x`; None where a pattern may have its sign bit set."""
    is_pattern = x.format.is_integer and format.is_float and x.format.bits == format.bits and format.has_infinity
    if not is_pattern or x.has_special or not bool((x.low <= x.high).all()):
        return None
    sign = 2.0 ** (format.bits - 1)
    if not bool(((x.low >= 0.0) & (x.high < sign)).all()):
        return None
    infinity = float(np.array(np.inf, format.dtype).view(f"u{format.bits // 8}"))
    low, high = np.minimum(x.low, infinity - 1.0), np.minimum(x.high, infinity - 1.0)
    numbers = _viewed(low, format), _viewed(high, format)
    special = np.where(x.high > infinity, np.uint8(NAN), np.uint8(0))
    special |= np.where((x.low <= infinity) & (x.high >= infinity), np.uint8(POSITIVE_INFINITY), np.uint8(0))
    never = x.low >= infinity
    ends = np.where(never, np.inf, numbers[0]), np.where(never, -np.inf, numbers[1])
    return Range(format, x.shape, x.grid, *ends, special if special.any() else None)


def _viewed(patterns: Array, format: Format) -> Array:
    return patterns.astype(f"u{format.bits // 8}").view(format.dtype).astype(np.float64)
