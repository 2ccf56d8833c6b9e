"""Predicate splitting: cases at zero and at the constants that guards compare with, each evaluated on its own.

A node is safe if it is safe in every case. Cuts are made where a value steers a guard (a comparison, Where, Clip, Max, Min,
Relu, Abs) and reaches the alarm on another path as well, as in Where(x > 0, 1 / x, 0) written as 1 / Where(x > 0, x, 1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tensorproof.graph import ABSENT, Node
from tensorproof.ranges.range import Range
from tensorproof.refine.alarms import Budget
from tensorproof.refine.cases import Dimension
from tensorproof.refine.window import Box, Outcome, Window

#: Cuts that are made one inside the other.
DEPTH = 4
#: Cuts that are tried at each level.
MOST_CUTS = 10
#: Constants of guards with more values than this are no guards.
MOST_POINTS = 4

_COMPARISONS = frozenset({"Greater", "GreaterOrEqual", "Less", "LessOrEqual"})
_AT_ZERO = frozenset(
    {"Relu", "LeakyRelu", "PRelu", "Abs", "Sign", "Elu", "Selu", "Celu", "Sqrt", "Log", "Div", "Reciprocal", "Pow"}
)
_AT_CONSTANTS = _COMPARISONS | {"Equal", "Max", "Min", "Clip", "ThresholdedRelu", "Shrink"}


@dataclass(frozen=True, slots=True)
class Cut:
    """One way to tell cases apart: given the ranges of the window, the restrictions of each case."""

    cases: Callable[[Mapping[int, Range]], list[dict[int, Range]]]


def prove_by_splitting(window: Window, budget: Budget) -> bool:
    """Whether the alarm of a window is gone in every case."""
    start = window.evaluate({}, budget)
    if start is None or start.safe:
        return start is not None
    cuts = find_cuts(window, start.ranges)
    return bool(cuts) and _safe(window, cuts, {}, start, budget, DEPTH)


def _safe(window: Window, cuts: list[Cut], box: Box, outcome: Outcome, budget: Budget, depth: int) -> bool:
    """Whether some cut, and cuts inside its cases, make the alarm go: the cut that settles most of its cases is taken."""
    best: list[tuple[Box, Outcome]] | None = None
    fewest = np.inf
    for cut in cuts:
        cases = cut.cases(outcome.ranges)
        if len(cases) < 2:
            continue
        left: list[tuple[Box, Outcome]] = []
        for case in cases:
            smaller = {**box, **case}
            result = window.evaluate(smaller, budget)
            if result is None:
                return False
            if not result.safe:
                left.append((smaller, result))
        if not left:
            return True
        if len(left) / len(cases) < fewest:
            best, fewest = left, len(left) / len(cases)
    if best is None or depth <= 1:
        return False
    return all(_safe(window, cuts, smaller, result, budget, depth - 1) for smaller, result in best)


def find_cuts(window: Window, ranges: Mapping[int, Range]) -> list[Cut]:
    """The cuts that a window offers: values that reach the alarm on several paths first."""
    cuts: list[Cut] = []
    for value in sorted(window.shared(), key=lambda v: (-len(window.users[v]), v)):
        if may_be_cut(window, value, ranges):
            cuts += [_cut_at(window, value, point) for point in guard_points(window, value, ranges)]
    for node in window.part.nodes:
        if node.op in _COMPARISONS and not node.domain:
            cut = _comparison(window, node, ranges)
            if cut is not None:
                cuts.append(cut)
    return cuts[:MOST_CUTS]


def may_be_cut(window: Window, value: int, ranges: Mapping[int, Range]) -> bool:
    """Whether a value may be cut as a whole: it has one element, or each element of the alarm depends on one of its own."""
    x = ranges.get(value)
    if x is None or x.format.kind not in ("float", "int", "bool"):
        return False
    return value in window.single or (x.has_known_shape and x.size == 1)


def _is_free(window: Window, value: int, ranges: Mapping[int, Range]) -> bool:
    return value not in window.alarms.model.constants and may_be_cut(window, value, ranges)


def guard_points(window: Window, value: int, ranges: Mapping[int, Range]) -> list[float]:
    """Zero, and the constants that guards on a value compare it with, as far as they lie inside of its range."""
    x = ranges[value]
    points: dict[float, None] = {}
    for node in window.users[value]:
        if node.op in _AT_CONSTANTS:
            for other in node.inputs:
                if other != ABSENT and other != value:
                    points |= dict.fromkeys(_constants(other, ranges))
        if node.op in _AT_ZERO or node.op == "Where":
            points[0.0] = None
        for name in ("min", "max", "lambd", "alpha"):
            if node.op in ("Clip", "Shrink", "ThresholdedRelu") and isinstance(node.attributes.get(name), float | int):
                points[float(node.attributes[name])] = None
    points[0.0] = None
    whole = Dimension(value)
    return [point for point in points if whole.straddles(x, point)]


def _constants(number: int, ranges: Mapping[int, Range]) -> list[float]:
    """The few different numbers that a value is known to hold."""
    x = ranges.get(number)
    if x is None or x.has_special or x.low.size > 64 or not bool((x.low == x.high).all()):
        return []
    found = sorted(set(x.low.reshape(-1).tolist()))
    return found if len(found) <= MOST_POINTS else []


def _cut_at(window: Window, value: int, point: float) -> Cut:
    whole, target = Dimension(value), window.alarms.target

    def cases(ranges: Mapping[int, Range]) -> list[dict[int, Range]]:
        x = ranges.get(value)
        if x is None or not whole.straddles(x, point):
            return []
        return [{value: part} for part in whole.cut_at(x, point, target)]

    return Cut(cases)


def _comparison(window: Window, node: Node, ranges: Mapping[int, Range]) -> Cut | None:
    """A comparison of two values that are no constants: where it holds, each bounds the other.

    Not so for infinities and NaN, nor where subnormal numbers may be taken for zero.
    """
    condition, (a, b) = node.outputs[0], node.inputs[:2]
    first, second, target = ranges.get(a), ranges.get(b), window.alarms.target
    if first is None or second is None or not may_be_cut(window, condition, ranges):
        return None
    if _constants(a, ranges) or _constants(b, ranges) or target.flushes_operands or target.flushes_results:
        return None
    if node.op in ("Less", "LessOrEqual"):
        a, b = b, a

    def cases(ranges: Mapping[int, Range]) -> list[dict[int, Range]]:
        larger, smaller, decided = ranges.get(a), ranges.get(b), ranges.get(condition)
        if larger is None or smaller is None or decided is None or larger.has_special or smaller.has_special:
            return []
        if not bool((decided.low < decided.high).any()):
            return []
        found: list[dict[int, Range]] = []
        for holds in (1.0, 0.0):
            upper, lower, x, y = (a, b, larger, smaller) if holds else (b, a, smaller, larger)
            # Hulls over all cells: tensors that broadcast need not have the same cells.
            parts = (
                (condition, Dimension(condition).restricted(decided, holds, holds)),
                (upper, Dimension(upper).restricted(x, y.hull()[0], np.inf)),
                (lower, Dimension(lower).restricted(y, -np.inf, x.hull()[1])),
            )
            if any(part is None for _, part in parts):
                continue
            # Subtraction with subnormal numbers keeps the sign: x >= y gives x - y >= 0 and y - x <= 0 as computed.
            for sub in window.part.nodes:
                if sub.op == "Sub" and not sub.domain and set(sub.inputs) == {a, b}:
                    result = sub.outputs[0]
                    ends = (0.0, np.inf) if sub.inputs[0] == upper else (-np.inf, 0.0)
                    difference = ranges.get(result)
                    if difference is not None:
                        parts += ((result, Dimension(result).restricted(difference, *ends)),)
            found.append({value: part for value, part in parts if part is not None and _is_free(window, value, ranges)})
        return found

    return Cut(cases)
