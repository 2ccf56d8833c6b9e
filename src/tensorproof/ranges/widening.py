"""Widening: candidates for what holds at the head of every iteration of a loop.

A candidate counts only once an iteration stays inside it. Ends that converge are extrapolated to their limit (as Aitken's
delta-squared process does); all others jump to the next threshold: zero, one, the numbers of the body, powers of 16.
"""

from __future__ import annotations

import numpy as np

from tensorproof.formats import Array, Format
from tensorproof.graph import Graph, Model
from tensorproof.ranges.containers import Abstract, widen
from tensorproof.ranges.flow import Flow
from tensorproof.ranges.range import Range, align

#: Ends whose steps shrink by at least this ratio are taken to converge.
_CONVERGING = 0.999


class Widening:
    """The thresholds of one loop."""

    def __init__(self, model: Model, body: Graph) -> None:
        self._constants = sorted(_constants(model, body))[:64]
        self._thresholds: dict[Format, list[float]] = {}

    def widened(self, older: Flow, newer: Flow, *, drastic: bool) -> Flow:
        """An upper bound of both that makes any ascending chain stop."""
        clean = self._wider(older.clean, newer.clean, drastic)
        roots = older.roots | newer.roots
        if older.actual is older.clean and newer.actual is newer.clean:
            return Flow(clean, clean, roots)
        return Flow(clean, self._wider(older.actual, newer.actual, drastic), roots)

    def _wider(self, a: Abstract, b: Abstract, drastic: bool) -> Abstract:
        format = _format(b)
        return widen(a, b, [] if format is None else self._of(format), drastic=drastic)

    def _of(self, format: Format) -> list[float]:
        if format not in self._thresholds:
            powers: list[float] = []
            power = 16.0
            while power < format.high:
                powers.append(power)
                power *= 16.0
            self._thresholds[format] = [0.0, 1.0, *self._constants, *powers]
        return self._thresholds[format]

    def extrapolated(self, first: Flow, second: Flow, third: Flow) -> Flow:
        """Where three successive states of an ascending chain may come to rest."""
        clean = self._limit(first.clean, second.clean, third.clean)
        if all(flow.actual is flow.clean for flow in (first, second, third)):
            return Flow(clean, clean, third.roots)
        return Flow(clean, self._limit(first.actual, second.actual, third.actual), third.roots)

    def _limit(self, first: Abstract, second: Abstract, third: Abstract) -> Abstract:
        wider = self._wider(second, third, False)
        if not (isinstance(first, Range) and isinstance(second, Range) and isinstance(third, Range) and isinstance(wider, Range)):
            return wider
        if not (first.shape == second.shape == third.shape == wider.shape) or not third.format.is_float:
            return wider
        aligned = align(first, second, third, wider)
        (a, b, c, threshold) = aligned.highs
        high = _rest(a, b, c, threshold, third.format)
        (a, b, c, threshold) = (-low for low in aligned.lows)
        low = -_rest(a, b, c, threshold, third.format)
        special = aligned.specials[3] if wider.has_special else None
        return aligned.result(third.format, np.minimum(low, aligned.lows[2]), np.maximum(high, aligned.highs[2]), special)


def _rest(first: Array, second: Array, third: Array, threshold: Array, format: Format) -> Array:
    """The limit of ascending upper ends, with a margin; the next threshold where none is in sight."""
    last, before = third - second, second - first
    ratio = np.where(before > 0.0, last / np.where(before > 0.0, before, 1.0), np.inf)
    converges = (last > 0.0) & (ratio < _CONVERGING)
    beyond = np.where(converges, last * ratio / np.where(converges, 1.0 - ratio, 1.0), 0.0)
    margin = 0.01 * (beyond + last) + 64.0 * format.unit_roundoff * np.abs(third + beyond) / (1.0 - np.minimum(ratio, _CONVERGING))
    limit = np.where(converges, third + beyond + margin, np.where(last > 0.0, threshold, third))
    return np.minimum(np.where(np.isnan(limit), threshold, limit), np.maximum(threshold, third))


def _constants(model: Model, body: Graph) -> set[float]:
    """The numbers that stand in a body: where widening may stop. Integers also with their neighbours, for counters."""
    found: set[float] = set()
    for node in body.walk():
        for number in node.inputs:
            array = model.constants.get(number)
            if array is None or array.size > 16 or array.dtype.kind in "OUSc":
                continue
            for value in array.reshape(-1):
                if np.isfinite(value):
                    found.add(float(value))
                    if array.dtype.kind in "iu":
                        found.update((float(value) - 1.0, float(value) + 1.0))
    return found


def _format(value: Abstract) -> Format | None:
    if isinstance(value, Range):
        return value.format
    inner = getattr(value, "element", None) or getattr(value, "value", None)
    return None if inner is None else _format(inner)
