"""Differences to a maximum: x - max(x), and sums of their exponentials."""

from __future__ import annotations

import numpy as np

from tensorproof.graph import ABSENT, Node
from tensorproof.idioms.claims import Claim, idiom
from tensorproof.idioms.structure import Structure
from tensorproof.operators.table import Call
from tensorproof.ranges.range import Range


@idiom("Sub")
def shifted_by_maximum(graph: Structure, node: Node) -> Claim | None:
    """x - max(x) <= 0, the maximum over any axes.

    The maximum is one of the elements, exactly, and not smaller than any that it was taken over; a difference a - b with
    a <= b is not positive, and rounding keeps it so (rounding is monotone, and 0 is a number of every format).
    """
    x, maximum = node.inputs
    axes = maximum_over(graph, x, maximum)
    if axes is None:
        return None

    def bound(call: Call, element: Range, largest: Range) -> tuple[float, float] | None:
        return (-np.inf, 0.0) if stands_over(element, largest, axes) else None

    return Claim("shifted-by-maximum", (x, maximum), bound)


def maximum_over(graph: Structure, x: int, maximum: int) -> tuple[int, ...] | None:
    """The axes if `maximum` is the maximum of `x` over some (none given: all), possibly reshaped; else None."""
    node = graph.producer(graph.origin(maximum), "ReduceMax")
    if node is None or not graph.same(node.inputs[0], x):
        return None
    axes = graph.axes(node)
    if axes is None:
        stated = len(node.inputs) > 1 and node.inputs[1] != ABSENT
        return None if stated or node.attributes.get("noop_with_empty_axes", 0) else ()
    return tuple(axes)


def stands_over(x: Range, reduced: Range, axes: tuple[int, ...]) -> bool:
    """Whether a reduction over `axes` (empty: all) meets its own elements when it is broadcast against them.

    Reshapes keep the order of elements: if the reduction has size 1 along the reduced axes and the size of `x` along
    all others, each element meets the reduction of its own row.
    """
    if x.shape is None or reduced.shape is None or not x.has_known_shape or not reduced.has_known_shape:
        return False
    rank = len(x.shape)
    over = {axis % rank for axis in axes} if axes else set(range(rank))
    expected = tuple(1 if axis in over else size for axis, size in enumerate(x.shape))
    return (1,) * (rank - len(reduced.shape)) + reduced.shape == expected
