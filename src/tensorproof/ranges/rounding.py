"""Exact bounds rounded into a format: what an operator's error and a target's arithmetic make of its result.

One interval is rounded with plain numbers, and many cells as one array of upper ends: the lower ends are negated and stand
beside the upper ones, since every step here is symmetric in sign.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.formats import FLOAT32, Array, Format
from tensorproof.targets import Target


class Rounding:
    """How the results of one operator are rounded into one format on one target.

    `ulps` and `absolute` bound |computed - exact|; half a unit and nothing else means correct rounding, which is monotone:
    bounds are then rounded to nearest like the result itself. `codomain` are ends that no error crosses.
    """

    __slots__ = (
        "_absolute",
        "_ends",
        "_flushes",
        "_keeps_sign",
        "_largest",
        "_nearest",
        "_ulps",
        "absolute",
        "format",
        "relative",
        "target",
    )

    def __init__(
        self, name: str, ulps: float, absolute: float, codomain: tuple[float, float] | None, format: Format, target: Target
    ) -> None:
        extra = target.function_error(name, format)
        ulps, absolute = ulps + extra.ulps, absolute + extra.absolute
        lost = format.smallest_normal if target.flushes_results else format.smallest_subnormal
        self.format = format
        self.target = target
        #: |computed - exact| of each element is at most relative * |element| + absolute.
        self.relative = 2.0 * ulps * format.unit_roundoff * (1.0 + 2.0**-20)
        self.absolute = absolute + (ulps + 1.0) * lost
        correct = ulps == 0.5 and absolute == 0.0
        # A chain of 16-bit operators that stays in float32, or a product that is fused into a sum, is not rounded here: its
        # bounds still are, outward.
        unrounded = (target.keeps_chains_wide and format.bits < 32) or (target.fuses_products and name == "Mul")
        self._nearest = correct and not unrounded
        self._ulps = 0.0 if correct else ulps
        self._absolute = absolute
        # An error in units of the last place is relative, and underflow gives zero: no result is carried across it.
        self._keeps_sign = absolute <= FLOAT32.smallest_normal
        self._ends = None if codomain is None else (codomain[0] - extra.overshoot, codomain[1] + extra.overshoot)
        self._flushes = target.flushes_results
        #: Results beyond this number may be infinite, whatever the format holds; most targets have none.
        self._largest = np.inf if extra.headroom == 1.0 else format.high / extra.headroom

    def interval(self, low: float, high: float) -> tuple[float, float]:
        """One interval, rounded outward. NaN says that nothing is known."""
        fmt = self.format
        # NaN can only come from inf - inf or 0 * inf of bounds that left float64.
        low, high = -np.inf if low != low else low, np.inf if high != high else high
        if self._nearest:
            low, high = fmt.nearest(low), fmt.nearest(high)
        else:
            low, high = -self._outward(-low), self._outward(high)
        if self._ends is not None:
            least, most = self._ends
            low, high = min(max(low, least), most), min(max(high, least), most)
        if self._flushes:
            low = 0.0 if 0.0 < low < fmt.smallest_normal else low
            high = 0.0 if 0.0 > high > -fmt.smallest_normal else high
        if self._largest < np.inf:
            low, high = -np.inf if low < -self._largest else low, np.inf if high > self._largest else high
        return low, high

    def _outward(self, end: float) -> float:
        if self._ulps or self._absolute:
            padded = end + (self._ulps * self.format.quantum_at(end) + self._absolute)
            end = min(padded, 0.0) if end <= 0.0 and self._keeps_sign else padded
        return self.format.above(end)

    def cells(self, low: Array, high: Array, hull: tuple[float, float]) -> tuple[Array, Array]:
        """The intervals of all cells, rounded outward. `hull` spans those that are not empty; it is NaN where a bound is."""
        fmt = self.format
        moderate = -0.25 * fmt.high < hull[0] <= hull[1] < 0.25 * fmt.high
        if moderate and self._nearest and self._ends is None and not self._flushes:
            return fmt.round_nearest(low, moderate=True), fmt.round_nearest(high, moderate=True)
        ends = np.empty((2, *np.broadcast_shapes(low.shape, high.shape)))
        ends[0] = np.negative(low)
        ends[1] = high
        if not moderate:
            ends[np.isnan(ends)] = np.inf
        if self._nearest:
            ends = fmt.round_nearest(ends, moderate=moderate)
        else:
            if self._ulps or self._absolute:
                padded = ends + (self._ulps * fmt.quantum(ends) + self._absolute)
                ends = np.where(ends <= 0, np.minimum(padded, 0.0), padded) if self._keeps_sign else padded
            ends = fmt.round_up(ends, moderate=moderate)
        low, high = -ends[0], ends[1]
        if self._ends is not None:
            low, high = np.clip(low, *self._ends), np.clip(high, *self._ends)
        if self._flushes:
            low, high = flushed(low, high, fmt)
        if self._largest < np.inf:
            low, high = np.where(low < -self._largest, -np.inf, low), np.where(high > self._largest, np.inf, high)
        return low, high


def has_subnormal(array: npt.NDArray[Any], fmt: Format) -> bool:
    """Whether an element lies between zero and the smallest normal number."""
    if not fmt.is_float:
        return False
    magnitudes = np.abs(array)
    return bool(((magnitudes > 0) & (magnitudes < fmt.smallest_normal)).any())


def flushed(low: Array, high: Array, fmt: Format) -> tuple[Array, Array]:
    """Bounds of values that become zero, or may, where they lie below the smallest normal number."""
    low = np.where((low > 0) & (low < fmt.smallest_normal), 0.0, low)
    high = np.where((high < 0) & (high > -fmt.smallest_normal), 0.0, high)
    return low, high
