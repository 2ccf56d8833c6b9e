"""Means of a tensor that are computed in different ways: how far they may lie apart."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tensorproof.graph import ABSENT
from tensorproof.idioms.structure import Structure
from tensorproof.idioms.terms import axes_of, stands_over
from tensorproof.operators.activations import least
from tensorproof.operators.table import Call
from tensorproof.ranges.range import Range
from tensorproof.ranges.sums import summation_error


@dataclass(frozen=True, slots=True)
class Mean:
    """`value` is the mean of `x` over `axes`: as one operator, or as a sum that is divided by the number `count`."""

    value: int
    x: int
    axes: tuple[int, ...]
    count: int = ABSENT

    def reads(self) -> set[int]:
        return {self.value, self.x, self.count} - {ABSENT}

    def error(self, call: Call, ranges: Mapping[int, Range]) -> float | None:
        """A bound on |computed - exact|, if it is the mean of the row that it meets; else None."""
        x, format = ranges[self.x], ranges[self.value].format
        if not format.is_float or format is not x.format or not stands_over(x, ranges[self.value], self.axes):
            return None
        length = math.prod(x.sizes[axis] for axis in self.axes) if self.axes else math.prod(x.sizes)
        if not length or length > call.accumulation(format).high:
            return None
        if self.count != ABSENT and (ranges[self.count].has_special or ranges[self.count].hull() != (length, length)):
            return None
        size = float(x.magnitude().max(initial=0.0))
        # The sum, the division, the number of elements where the format cannot hold it, and the roundings into the format.
        summed = float(summation_error(call, np.asarray(length * size), length, format, products=False)) / length
        return (summed + 6.0 * format.unit_roundoff * (size + summed) + 4.0 * least(call, format)) * (1.0 + 2.0**-20)


def mean_of(graph: Structure, value: int) -> Mean | None:
    """A value as the mean of a tensor, behind reshapes."""
    origin = graph.origin(value)
    node = graph.producer(origin, "ReduceMean", "Div")
    count = ABSENT
    if node is not None and node.op == "Div":
        count = node.inputs[1]
        node = graph.producer(graph.origin(node.inputs[0]), "ReduceSum")
    axes = None if node is None else axes_of(graph, node)
    if node is None or axes is None:
        return None
    return Mean(value, node.inputs[0], axes, count)


def means_of_one_tensor(graph: Structure, a: int, b: int) -> tuple[Mean, Mean] | None:
    """Two values as means of the same tensor, whose axes are compared by what they meet."""
    one, other = mean_of(graph, a), mean_of(graph, b)
    return (one, other) if one is not None and other is not None and graph.same(one.x, other.x) else None


def apart(call: Call, means: tuple[Mean, Mean], ranges: Mapping[int, Range]) -> float | None:
    """A bound on the difference of two means; None if they are not means of the same rows."""
    errors = [mean.error(call, ranges) for mean in means]
    rank = ranges[means[0].x].rank
    rows = [{axis % rank for axis in mean.axes} or set(range(rank)) for mean in means]
    return None if errors[0] is None or errors[1] is None or rows[0] != rows[1] else errors[0] + errors[1]
