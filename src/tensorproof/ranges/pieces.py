"""Images under functions that are computed in several rounded steps, piece by piece.

`tensorproof.ranges.elementwise` bounds exact functions and leaves rounding to the engine. Here every monotone stretch of a
function states itself between which two curves a step-by-step evaluation in the tensor's format stays, so that the error is
absolute where steps cancel, relative where they do not, and nothing where the function is the identity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tensorproof.formats import Array, Format
from tensorproof.ranges.range import NEGATIVE_INFINITY, POSITIVE_INFINITY, Flags, Range, flags_of

Curve = Callable[[Array], Array]


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch [start, end] on which computed results lie between two curves that are monotone in the same direction."""

    start: float
    end: float
    below: Curve
    above: Curve


def exact(start: float, end: float, function: Curve) -> Piece:
    """A stretch on which nothing but the engine's own rounding happens."""
    return Piece(start, end, function, function)


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

    def error(value: Array) -> Array:
        return np.where(np.isfinite(value), relative * np.abs(value) + absolute, 0.0)

    def below(x: Array) -> Array:
        value = function(x)
        return np.clip(value - error(value), low, high)

    def above(x: Array) -> Array:
        value = function(x)
        return np.clip(value + error(value), low, high)

    return Piece(start, end, below, above)


def pieces(x: Range, *parts: Piece, format: Format | None = None) -> Range:
    """The hull of what the pieces give; together they must cover the line. NaN stays NaN."""
    nonempty = x.low <= x.high
    low, high = np.full(x.cells, np.inf), np.full(x.cells, -np.inf)
    for part in parts:
        here = nonempty & (x.low <= part.end) & (x.high >= part.start)
        if not here.any():
            continue
        first, last = np.clip(x.low, part.start, part.end), np.clip(x.high, part.start, part.end)
        below = np.minimum(part.below(first), part.below(last))
        above = np.maximum(part.above(first), part.above(last))
        low = np.where(here, np.minimum(low, below), low)
        high = np.where(here, np.maximum(high, above), high)
    if not x.has_special:
        return x.replace(low, high, None, format)
    special = x.special & ~np.uint8(POSITIVE_INFINITY | NEGATIVE_INFINITY)
    for bit, argument in ((POSITIVE_INFINITY, np.inf), (NEGATIVE_INFINITY, -np.inf)):
        here = (x.special & bit) != 0
        for part in parts:
            if part.start <= argument <= part.end and here.any():
                low, high, special = _at_infinity(part, argument, here, low, high, special)
    return x.replace(low, high, special, format)


def _at_infinity(
    part: Piece, argument: float, here: np.ndarray, low: Array, high: Array, special: Flags
) -> tuple[Array, Array, Flags]:
    """The image of an infinite argument joined into the cells `here`."""
    for curve in (part.below, part.above):
        image = curve(np.asarray(argument))
        if np.isfinite(image):
            low, high = np.where(here, np.minimum(low, image), low), np.where(here, np.maximum(high, image), high)
        special = special | np.where(here, flags_of(image), np.uint8(0))
    return low, high, special
