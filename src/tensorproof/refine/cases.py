"""Case distinctions on one value: where it may be cut, and the boxes that the cuts give.

The cases of a cut together hold every value of the range, special values in each of them. A value of one element may be cut
for all that depends on it. A tensor may be cut "all elements below, or all above" only where every element of what is asked
about depends on one of its elements: then each element is in one of the cases, whichever the others are in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tensorproof.formats import FLOAT32, Array, Format
from tensorproof.ranges.range import Range
from tensorproof.targets import Target

#: Tensors of at most this many elements may be cut element by element.
FEW_ELEMENTS = 8


@dataclass(frozen=True, slots=True)
class Dimension:
    """What a cut acts on: a value as a whole, or one element of it (its number in row-major order)."""

    value: int
    element: int | None = None

    def ends(self, x: Range) -> tuple[Array, Array]:
        """The ends that a cut moves: of all cells, or of the one element."""
        if self.element is None:
            return x.low, x.high
        low, high, _ = x.expanded()
        return low.reshape(-1)[self.element : self.element + 1], high.reshape(-1)[self.element : self.element + 1]

    def restricted(self, x: Range, low: Array | float, high: Array | float) -> Range | None:
        """The range between other ends; None where nothing is left of it."""
        old_low, old_high = self.ends(x)
        new_low, new_high = np.maximum(old_low, low), np.minimum(old_high, high)
        possible = new_low <= new_high
        if not possible.any() and not x.has_special:
            return None
        # A cell that misses the case stays as it was: its elements are in another case, and asked about there.
        new_low, new_high = np.where(possible, new_low, old_low), np.where(possible, new_high, old_high)
        if self.element is None:
            return x.replace(new_low, new_high, x.special if x.has_special else None)
        whole = x.expand()
        lows, highs = whole.low.copy().reshape(-1), whole.high.copy().reshape(-1)
        lows[self.element], highs[self.element] = new_low[0], new_high[0]
        shape = whole.low.shape
        return whole.replace(lows.reshape(shape), highs.reshape(shape), whole.special if whole.has_special else None)

    def width(self, x: Range) -> float:
        """The widest of the intervals that a cut would halve."""
        low, high = self.ends(x)
        inside = low < high
        return float((high - low)[inside].max()) if inside.any() else 0.0

    def halves(self, x: Range) -> list[Range]:
        """The range cut in the middle of each cell; at zero where a cell reaches far to both sides of it."""
        low, high = self.ends(x)
        middle = 0.5 * low + 0.5 * high
        middle = np.where((low < 0) & (high > 0) & (np.abs(middle) < 0.25 * (high - low)), 0.0, middle)
        parts = (self.restricted(x, -np.inf, middle), self.restricted(x, middle, np.inf))
        return [part for part in parts if part is not None]

    def cut_at(self, x: Range, point: float, target: Target) -> list[Range]:
        """The values below a point, at it, and above it; fewer where the range misses some."""
        below, above = neighbours(point, x.format, target)
        parts = (
            self.restricted(x, -np.inf, below),
            self.restricted(x, point, point) if below < point < above else None,
            self.restricted(x, above, np.inf),
        )
        return [part for part in parts if part is not None]

    def straddles(self, x: Range, point: float) -> bool:
        """Whether some cell lies on both sides of a point, or at it and beside it."""
        low, high = self.ends(x)
        return bool(((low <= point) & (point <= high) & (low < high)).any())


def neighbours(point: float, format: Format, target: Target) -> tuple[float, float]:
    """The numbers next to a point that are surely told apart from it.

    Where chains of 16-bit operators stay in float32, these are float32 numbers. Where subnormal numbers may be taken for
    zero, zero has no such neighbours: the point itself belongs to both sides.
    """
    if not np.isfinite(point):
        return point, point
    if not format.is_float:
        return float(np.ceil(point) - 1.0), float(np.floor(point) + 1.0)
    if target.keeps_chains_wide and format.bits < 32:
        format = FLOAT32
    if (target.flushes_operands or target.flushes_results) and abs(point) < format.smallest_normal:
        return point, point
    if point == 0.0:
        return -format.smallest_subnormal, format.smallest_subnormal
    at = np.array(point, np.float64)
    down, up = float(format.round_down(at)), float(format.round_up(at))
    # Between two numbers of the format the point itself is no value.
    if down < point < up:
        return down, up
    if format.name == "float64":
        return float(np.nextafter(point, -np.inf)), float(np.nextafter(point, np.inf))
    quantum = float(format.quantum(at))
    step = quantum / 2 if abs(point) > format.smallest_normal and np.frexp(abs(point))[0] == 0.5 else quantum
    # Just below a power of two, numbers lie half as far apart.
    toward_zero, away = step, quantum
    return (point - (toward_zero if point > 0 else away), point + (away if point >= 0 else toward_zero))


def small_dimensions(value: int, x: Range) -> Iterator[Dimension]:
    """The elements of a small tensor that are not fixed."""
    if not x.has_known_shape or x.size > FEW_ELEMENTS:
        return
    low, high, _ = x.expanded()
    for element, (a, b) in enumerate(zip(low.reshape(-1), high.reshape(-1))):
        if a < b:
            yield Dimension(value, element)
