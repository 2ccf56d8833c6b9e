"""Bounds of element-wise functions, from their values at the ends of cells and at their critical points.

All functions here compute in exact arithmetic as far as float64 can; rounding into the tensor's format is the engine's
work (`tensorproof.operators.table`). `function` arguments are NumPy functions that are correct for infinities, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tensorproof.formats import Array, Format
from tensorproof.ranges.range import (
    INFINITIES,
    NAN,
    NEGATIVE_INFINITY,
    POSITIVE_INFINITY,
    Aligned,
    Flags,
    Range,
    align,
    flags_of,
)
from tensorproof.ranges.silence import is_silent, silence

Unary = Callable[[Array], Array]
Binary = Callable[[Array, Array], Array]
Kernel = Callable[[Array, Array, Array, Array], tuple[Array, Array]]


def monotone(x: Range, function: Unary, format: Format | None = None) -> Range:
    """The image under a function that is increasing, or decreasing, over the whole line (or over the clamped cells)."""
    return piecewise(x, function, (), format)


def piecewise(x: Range, function: Unary, critical: Sequence[float], format: Format | None = None) -> Range:
    """The image under a function that is monotone between its critical points.

    Critical points are minima, maxima, and both sides of a jump.
    """
    if not is_silent():
        with silence():
            return piecewise(x, function, critical, format)
    low, high = x.low, x.high
    at_low, at_high = function(low), function(high)
    result_low, result_high = np.minimum(at_low, at_high), np.maximum(at_low, at_high)
    for point in critical:
        inside = (low < point) & (point < high)
        if inside.item() if inside.size == 1 else inside.any():
            value = function(np.asarray(point, np.float64))
            result_low = np.where(inside, np.minimum(result_low, value), result_low)
            result_high = np.where(inside, np.maximum(result_high, value), result_high)
    special: Flags | None = None
    if x.has_special:
        empty = low > high
        result_low, result_high = np.where(empty, np.inf, result_low), np.where(empty, -np.inf, result_high)
        special = x.special & np.uint8(NAN)
        for bit, argument in ((POSITIVE_INFINITY, np.inf), (NEGATIVE_INFINITY, -np.inf)):
            here = (x.special & bit) != 0
            image = function(np.asarray(argument, np.float64))
            result_low, result_high, special = _add_point(here, image, result_low, result_high, special)
    return x.replace(result_low, result_high, special, format)


def _add_point(here: np.ndarray, image: Array, low: Array, high: Array, special: Flags) -> tuple[Array, Array, Flags]:
    """Join one more possible value into the cells `here`."""
    finite = np.isfinite(image)
    low = np.where(here & finite, np.minimum(low, image), low)
    high = np.where(here & finite, np.maximum(high, image), high)
    return low, high, special | np.where(here, flags_of(np.asarray(image)), np.uint8(0))


def binary(a: Range, b: Range, kernel: Kernel, function: Binary, format: Format | None = None) -> Range:
    """The image under a function of two arguments with broadcasting.

    `kernel` bounds it on boxes of finite values; `function` is the function itself, used where an operand may be special.
    For a special operand the result may depend on the sign of the other one, on zero and on one, and on nothing else.
    """
    if not is_silent():
        with silence():
            return binary(a, b, kernel, function, format)
    aligned = align(a, b)
    (la, lb), (ha, hb) = aligned.lows, aligned.highs
    low, high = kernel(la, ha, lb, hb)
    if not (a.has_special or b.has_special):
        return aligned.result(format or a.format, low, high)
    low, high, special = _binary_specials(aligned, function, low, high)
    return aligned.result(format or a.format, low, high, special)


def _binary_specials(aligned: Aligned, function: Binary, low: Array, high: Array) -> tuple[Array, Array, Flags]:
    (la, lb), (ha, hb), (sa, sb) = aligned.lows, aligned.highs, aligned.specials
    empty = (la > ha) | (lb > hb)
    low, high = np.where(empty, np.inf, low), np.where(empty, -np.inf, high)
    special = (sa | sb) & np.uint8(NAN)
    special = np.broadcast_to(special, np.broadcast_shapes(special.shape, low.shape)).copy()
    for points_a, infinite_a in _representatives(la, ha, sa):
        for points_b, infinite_b in _representatives(lb, hb, sb):
            if not (infinite_a or infinite_b):
                continue
            value_a, here_a = points_a
            value_b, here_b = points_b
            image = function(value_a, value_b)
            low, high, special = _add_point(here_a & here_b, image, low, high, special)
    return low, high, special


def _representatives(low: Array, high: Array, special: Flags) -> list[tuple[tuple[Array, np.ndarray], bool]]:
    """Values of a cell that decide what an infinite partner gives: both ends, 0, +-1, and the infinities themselves."""
    points: list[tuple[tuple[Array, np.ndarray], bool]] = []
    nonempty = low <= high
    points.append(((low, nonempty), False))
    points.append(((high, nonempty), False))
    for value in (0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0):
        points.append(((np.asarray(value), (low <= value) & (value <= high)), False))
    for bit, value in ((POSITIVE_INFINITY, np.inf), (NEGATIVE_INFINITY, -np.inf)):
        points.append(((np.asarray(value), (special & bit) != 0), True))
    return points


def corners(function: Binary) -> Kernel:
    """A kernel for functions that are monotone in each argument: the extremes over a box stand at its corners."""

    def kernel(la: Array, ha: Array, lb: Array, hb: Array) -> tuple[Array, Array]:
        if function is product and la.size == ha.size == lb.size == hb.size == 1:
            ends = [a * b if a and b else 0.0 for a in (la.item(), ha.item()) for b in (lb.item(), hb.item())]
            # A sum that is a number has no NaN among its terms.
            if sum(ends) - sum(ends) == 0.0:
                shape = (1,) * max(la.ndim, lb.ndim)
                return np.full(shape, min(ends)), np.full(shape, max(ends))
        values = function(la, lb), function(la, hb), function(ha, lb), function(ha, hb)
        return (
            np.minimum(np.minimum(values[0], values[1]), np.minimum(values[2], values[3])),
            np.maximum(np.maximum(values[0], values[1]), np.maximum(values[2], values[3])),
        )

    return kernel


def increasing(function: Binary) -> Kernel:
    """A kernel for functions that increase in both arguments."""

    def kernel(la: Array, ha: Array, lb: Array, hb: Array) -> tuple[Array, Array]:
        return function(la, lb), function(ha, hb)

    return kernel


def product(a: Array, b: Array) -> Array:
    """a * b with 0 * inf = 0: as a bound, an infinite factor stands for "arbitrarily large", never for infinity itself."""
    result = a * b
    # Only 0 * inf is NaN. An infinite bound is rare, and NaN itself is none.
    unclear = result != result
    if unclear.item() if unclear.size == 1 else unclear.any():
        return np.where((a == 0) | (b == 0), 0.0, result)
    return result


__all__ = ["INFINITIES", "binary", "corners", "increasing", "monotone", "piecewise", "product"]
