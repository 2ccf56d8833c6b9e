"""Images under functions that are computed in several rounded steps, piece by piece.

`tensorproof.ranges.elementwise` bounds exact functions and leaves rounding to the engine. Here every monotone stretch
of a function states itself between which two curves a step-by-step evaluation in the tensor's format stays, so that the
error is absolute where steps cancel, relative where they do not, and nothing where the function is the identity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tensorproof.formats import Array, Format
from tensorproof.ranges.range import NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY, Range, flags_of

Curve = Callable[[Array], Array]
Bounds = Callable[[Array], tuple[Array, Array]]


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch on which computed results lie between two curves that are monotone in the same direction.

    `bounds` gives the lower and the upper curve at every argument.
    """

    start: float
    end: float
    bounds: Bounds


def exact(start: float, end: float, function: Curve) -> Piece:
    """A stretch on which nothing but the engine's own rounding happens."""

    def bounds(x: Array) -> tuple[Array, Array]:
        value = function(x)
        return value, value

    return Piece(start, end, bounds)


def within(
    start: float,
    end: float,
    function: Curve,
    *,
    relative: float = 0.0,
    absolute: float = 0.0,
    low: float = -np.inf,
    high: float = np.inf,
) -> Piece:
    """A monotone function computed within relative * |value| + absolute, and never outside [low, high]."""

    def bounds(x: Array) -> tuple[Array, Array]:
        value = function(x)
        error = np.where(np.isfinite(value), relative * np.abs(value) + absolute, 0.0)
        return np.clip(value - error, low, high), np.clip(value + error, low, high)

    return Piece(start, end, bounds)


def pieces(x: Range, *parts: Piece, format: Format | None = None) -> Range:
    """The hull of what the pieces give; together they must cover the line. NaN stays NaN."""
    nonempty = x.low <= x.high
    low, high = np.full(x.cells, np.inf), np.full(x.cells, -np.inf)
    for part in parts:
        here = nonempty & (x.low <= part.end) & (x.high >= part.start)
        if not here.any():
            continue
        ends = [part.bounds(np.clip(np.asarray(end)[here], part.start, part.end)) for end in (x.low, x.high)]
        low[here] = np.minimum(low[here], np.minimum(ends[0][0], ends[1][0]))
        high[here] = np.maximum(high[here], np.maximum(ends[0][1], ends[1][1]))
    if not x.has_special:
        return x.replace(low, high, None, format)
    special = x.special & ~np.uint8(POSITIVE_INFINITY | NEGATIVE_INFINITY)
    for bit, argument in ((POSITIVE_INFINITY, np.inf), (NEGATIVE_INFINITY, -np.inf)):
        here = (x.special & bit) != 0
        for part in parts:
            if not (part.start <= argument <= part.end and here.any()):
                continue
            for image in part.bounds(np.asarray(argument)):
                if np.isfinite(image):
                    low, high = np.where(here, np.minimum(low, image), low), np.where(here, np.maximum(high, image), high)
                special = special | np.where(here, flags_of(image), np.uint8(0))
    return x.replace(low, high, special, format)


def or_zero(x: Range, result: Range) -> Range:
    """The result of a function that compares x: comparisons with NaN are false, and "otherwise" gives zero."""
    if not x.any_special & NAN:
        return result
    here = (x.special & np.uint8(NAN)) != 0
    low = np.where(here, np.minimum(result.low, 0.0), result.low)
    high = np.where(here, np.maximum(result.high, 0.0), result.high)
    return result.replace(low, high, result.special)
