"""Backward linear relaxation (CROWN style) in the window behind an alarm.

The elements of a value are bounded from below and above by linear functions of earlier values, substituted node by node from
the back to the front, and made numbers on the ranges of the values where the substitution ends (Zhang et al., Efficient
neural network robustness certification with general activation functions, NeurIPS 2018; for S-shaped functions the parallel
lines of Singh et al., An abstract domain for certifying neural networks, POPL 2019).

All bounds hold for values as computed: every operation adds its rounding error, scaled by the coefficient of its result, and
so does the float64 arithmetic of the analysis itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tensorproof.formats import Array
from tensorproof.graph import ABSENT, Node
from tensorproof.operators.table import EXACT, Operator, find_operator, within
from tensorproof.ranges.range import Range
from tensorproof.refine.alarms import Alarms, Budget
from tensorproof.refine.linear_maps import LINEAR, Linear
from tensorproof.refine.lines import LINES, OWN_ERRORS
from tensorproof.refine.window import Window

#: Nodes that are substituted at most, behind one value.
MOST_NODES = 24
#: Tensors with more elements than this end the substitution.
MOST_ELEMENTS = 4096
#: Coefficients of one value at most: elements that are bounded times elements that they depend on.
MOST_COEFFICIENTS = 1 << 22
#: Coefficients that cost as much as one evaluation of a node does.
COEFFICIENTS_PER_EVALUATION = 1 << 14
#: Sums of coefficients over several uses of a value, and the products after them, err by less than this, relatively.
_SLACK = 2.0**-46


def prove_by_relaxation(window: Window, budget: Budget) -> bool:
    """Whether the alarm of a window is gone once its operands, and those of functions before it, are relaxed."""
    alarms = window.alarms
    outcome = window.evaluate({}, budget)
    if outcome is None or outcome.safe:
        return outcome is not None
    top = alarms.structure.at_top(window.number)
    curved = [node.inputs[0] for node in window.part.nodes if node.op in LINES and not node.domain]
    for value in dict.fromkeys((*curved, *(number for number in top.inputs if number != ABSENT))):
        producer, x = alarms.structure.producer(value), outcome.ranges.get(value)
        if producer is None or x is None or producer.number in outcome.reporting:
            continue
        found = Relaxation(alarms, window.part.nodes, outcome.ranges, budget).bound(value)
        if found is None or not (found[0] <= found[1]).all():
            continue
        tighter = within(x.expand(), Range.elements(x.format, *found))
        if bool((tighter.low > x.low).any() or (tighter.high < x.high).any()):
            alarms.ranges[value] = tighter.bare()
            alarms.tightened = True
            outcome = window.evaluate({}, budget)
            if outcome is None or outcome.safe:
                return outcome is not None
    return False


@dataclass(slots=True)
class _Bounds:
    """Linear bounds of the elements in question: coefficients by value (rows: elements in question), and constants."""

    low: dict[int, Array]
    high: dict[int, Array]
    least: Array
    most: Array

    def add(self, value: int, low: Array, high: Array) -> None:
        self.low[value] = low if value not in self.low else self.low[value] + low
        self.high[value] = high if value not in self.high else self.high[value] + high

    def err(self, low: Array, high: Array, error: Array) -> None:
        """Values that these coefficients multiply are off by up to `error`."""
        self.least -= np.abs(low) @ error * (1.0 + _SLACK)
        self.most += np.abs(high) @ error * (1.0 + _SLACK)


class Relaxation:
    """Substitution within the nodes of a window, whose values have these ranges."""

    def __init__(self, alarms: Alarms, nodes: Sequence[Node], ranges: Mapping[int, Range], budget: Budget) -> None:
        self._alarms = alarms
        self._ranges = ranges
        self._budget = budget
        self._order = {node.number: index for index, node in enumerate(nodes)}
        self._producers = {value: node for node in nodes for value in node.outputs if value != ABSENT}

    def bound(self, value: int) -> tuple[Array, Array] | None:
        """Bounds of each element of a value as computed; None where nothing can be said."""
        x = self._range(value)
        if x is None or value not in self._producers:
            return None
        bounds = _Bounds({value: np.eye(x.size)}, {value: np.eye(x.size)}, np.zeros(x.size), np.zeros(x.size))
        for _ in range(MOST_NODES):
            latest = self._latest(bounds)
            if latest is None:
                break
            if not self._substitute(latest, bounds):
                self._settle(latest, bounds)
        for rest in list(bounds.low):
            if not self._settle(rest, bounds):
                return None
        if np.isnan(bounds.least).any() or np.isnan(bounds.most).any():
            return None
        return bounds.least.reshape(x.sizes), bounds.most.reshape(x.sizes)

    def _latest(self, bounds: _Bounds) -> int | None:
        """The value with coefficients that the last node makes: all its users have been substituted."""
        found = [value for value in bounds.low if value in self._producers]
        return max(found, key=lambda value: self._order[self._producers[value].number], default=None)

    def _range(self, value: int) -> Range | None:
        """The range of a small floating tensor without special values."""
        x = self._ranges.get(value)
        if x is None and value in self._alarms.model.constants:
            constant = self._alarms.constants(value)
            x = constant.clean if isinstance(constant.clean, Range) and not constant.roots else None
        if x is None or not x.format.is_float or x.has_special or not x.has_known_shape or x.size > MOST_ELEMENTS:
            return None
        return x

    def _settle(self, value: int, bounds: _Bounds) -> bool:
        """Replace a value by the ends of its range. False if it has none: the bounds are then worth nothing."""
        low, high = bounds.low.pop(value), bounds.high.pop(value)
        x = self._range(value)
        if x is None:
            bounds.least[:], bounds.most[:] = -np.inf, np.inf
            return False
        ends = [np.asarray(end, np.float64).reshape(-1) for end in x.expanded()[:2]]
        bounds.least += np.maximum(low, 0.0) @ ends[0] + np.minimum(low, 0.0) @ ends[1]
        bounds.most += np.maximum(high, 0.0) @ ends[1] + np.minimum(high, 0.0) @ ends[0]
        # The products just made sum x.size terms in float64.
        reach = np.maximum(np.abs(ends[0]), np.abs(ends[1]))
        bounds.err(low, high, reach * (_SLACK + x.size * 2.0**-51))
        return True

    def _substitute(self, value: int, bounds: _Bounds) -> bool:
        """Replace a value by what it is made from, if its operator is one that can be substituted."""
        node = self._producers[value]
        entry = find_operator(node.domain, node.op)
        result, operands = self._range(value), [self._range(v) if v != ABSENT else None for v in node.inputs]
        if entry is None or node.domain or result is None or not operands or operands[0] is None:
            return False
        rows = bounds.least.size
        if rows * max(result.size, operands[0].size) > MOST_COEFFICIENTS:
            return False
        work = rows * (result.size + operands[0].size)
        if node.op == "Conv":
            # Written out as a matrix.
            work += (rows + 1) * result.size * operands[0].size // 16
        if not self._budget.take(1 + work // COEFFICIENTS_PER_EVALUATION):
            return False
        rounding = self._rounding(entry, result)
        if rounding is None:
            return False
        if node.op in LINES:
            lines = LINES[node.op](*(np.asarray(end, np.float64).reshape(-1) for end in operands[0].expanded()[:2]))
            if lines is None:
                return False
            low, high = bounds.low.pop(value), bounds.high.pop(value)
            bounds.err(low, high, rounding)
            up, down, raised, lowered = np.maximum(high, 0.0), np.minimum(high, 0.0), np.maximum(low, 0.0), np.minimum(low, 0.0)
            bounds.most += up @ lines.upper_at + down @ lines.lower_at
            bounds.least += raised @ lines.lower_at + lowered @ lines.upper_at
            bounds.err(low, high, (np.abs(lines.upper_at) + np.abs(lines.lower_at)) * (_SLACK + result.size * 2.0**-51))
            bounds.add(node.inputs[0], raised * lines.lower + lowered * lines.upper, up * lines.upper + down * lines.lower)
            return True
        recognise: Callable[..., Linear | None] | None = LINEAR.get(node.op)
        if recognise is None:
            return False
        linear = recognise(node, operands, result, self._alarms.target)
        if linear is None or any(self._range(part.value) is None for part in linear.parts):
            return False
        low, high = bounds.low.pop(value), bounds.high.pop(value)
        bounds.err(low, high, rounding + linear.error)
        for part in linear.parts:
            bounds.add(part.value, part.back(low), part.back(high))
        return True

    def _rounding(self, entry: Operator, result: Range) -> Array | None:
        """A bound on |computed - exact| of each element of a result, from its range as computed."""
        low, high, _ = result.expanded()
        reach = np.maximum(np.abs(low), np.abs(high)).reshape(-1)
        target = self._alarms.target
        if entry.error is EXACT and not target.flushes_results:
            return _SLACK * reach
        rounding = entry.rounding(result.format, target)
        relative, absolute = rounding.relative, rounding.absolute
        if entry.error.ulps == 0.0 and entry.error is not EXACT:
            # The block bounds the error of its steps itself, in ways that are no such sum.
            if entry.name not in OWN_ERRORS:
                return None
            more = OWN_ERRORS[entry.name](result.format)
            relative, absolute = relative + more[0], absolute + more[1]
        if not relative < 0.25:
            return None
        # The error is relative to the exact result, which is at most (|computed| + absolute) / (1 - relative).
        return (relative * reach + absolute) / (1.0 - relative) * (1.0 + 2.0**-20) + _SLACK * reach
