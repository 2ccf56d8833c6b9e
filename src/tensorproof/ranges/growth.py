"""States of loops that only grow by what is added to them, or only by what they are multiplied with.

Their bounds after n iterations follow from those of the addend or factor, which do not depend on the state: no widening.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tensorproof.formats import FLOAT32, Array, Format
from tensorproof.graph import Graph
from tensorproof.ranges.containers import Abstract
from tensorproof.ranges.flow import Flow
from tensorproof.ranges.range import Aligned, Range, align

#: At most this many states are counted out: each costs one more evaluation of the body.
_MOST = 4


class Growth(NamedTuple):
    """The position of a state s with s = s + g or s - g (a sum), or s = s * g, where g does not depend on s."""

    state: int
    is_sum: bool

    @property
    def neutral(self) -> float:
        """The state for which the body gives what is added, or multiplied with."""
        return 0.0 if self.is_sum else 1.0

    def after(self, start: Flow, change: Flow, times: float, *, wide: bool) -> Flow | None:
        """The state after 1 to `times` changes, each rounded; None where nothing is known.

        `wide` says that 16-bit numbers may be kept in float32 between operators.
        """
        bound = _accumulated if self.is_sum else _scaled
        clean = _bounded(bound, start.clean, change.clean, times, wide)
        if clean is None:
            return None
        roots = start.roots | change.roots
        if start.actual is start.clean and change.actual is change.clean:
            return Flow(clean, clean, roots)
        actual = _bounded(bound, start.actual, change.actual, times, wide)
        return None if actual is None else Flow(clean, actual, roots)


def find_growth(body: Graph, offsets: tuple[int, int], states: int) -> tuple[Growth, ...]:
    """The states of a body that grow by one operation. `offsets`: of the states among its inputs and outputs."""
    producers = {number: node for node in body.nodes for number in node.outputs}

    def origin(number: int) -> int:
        node = producers.get(number)
        return origin(node.inputs[0]) if node is not None and node.label == "Identity" else number

    found: list[Growth] = []
    for index in range(states):
        number = body.inputs[offsets[0] + index]
        node = producers.get(origin(body.outputs[offsets[1] + index]))
        if node is None or node.label not in ("Add", "Sub", "Mul"):
            continue
        first, second = node.inputs
        if node.label in ("Add", "Mul") and origin(first) != number:
            first, second = second, first
        if origin(first) == number and second not in _dependent(body, number):
            found.append(Growth(index, node.label in ("Add", "Sub")))
    return tuple(found[:_MOST])


def _dependent(graph: Graph, number: int) -> set[int]:
    """All values of a graph that depend on one of them."""
    reached = {number}
    for node in graph.nodes:
        reads = set(node.inputs)
        for sub in node.subgraphs():
            reads.update(sub.outputs)
            for inner in sub.walk():
                reads.update(inner.inputs)
                reads.update(*(s.outputs for s in inner.subgraphs()))
        if reads & reached:
            reached.update(node.outputs)
    return reached


def filled_like(flow: Flow, value: float) -> Flow:
    """A state of the same shape all of whose elements are one number."""

    def filled(x: Abstract) -> Abstract:
        return Range.uniform(x.shape, x.format, value, value) if isinstance(x, Range) else x

    clean = filled(flow.clean)
    return Flow(clean, clean if flow.actual is flow.clean else filled(flow.actual), flow.roots)


_Bound = Callable[[Format, Aligned, float, bool], tuple[Array, Array]]


def _bounded(bound: _Bound, start: Abstract, change: Abstract, times: float, wide: bool) -> Range | None:
    if not isinstance(start, Range) or not isinstance(change, Range) or start.shape != change.shape:
        return None
    format = start.format
    if start.has_special or change.has_special or format.kind not in ("float", "int"):
        return None
    if (start.magnitude() > max(format.high, -format.low)).any():
        return None
    aligned = align(start, change)
    low, high = bound(format, aligned, times, wide)
    low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    if format.is_float:
        low, high = format.round_down(low), format.round_up(high)
    outside = (low < format.low) | (high > format.high)
    if format.is_integer:
        low, high = np.where(outside, format.low, low), np.where(outside, format.high, high)
    return aligned.result(format, np.clip(low, format.low, format.high), np.clip(high, format.low, format.high))


def _accumulated(format: Format, aligned: Aligned, times: float, wide: bool) -> tuple[Array, Array]:
    """start + a sum of 1 to `times` numbers."""
    (low, low_added), (high, high_added) = aligned.lows, aligned.highs
    magnitude = np.maximum(np.abs(low), np.abs(high))
    up, down = np.maximum(high_added, 0.0), np.maximum(-low_added, 0.0)
    # At least one number is added.
    least = low + np.where(low_added > 0.0, low_added, 0.0) - times * down
    most = high + np.where(high_added < 0.0, high_added, 0.0) + times * up
    if not format.is_float:
        return least, most
    # n roundings: (1 + u)^n - 1 of all that is added. A number that is 2^(p + 1) times an addend absorbs it.
    reach = np.maximum(up, down)
    roundoff = format.unit_roundoff + 2.0**-53
    error = (magnitude + times * reach) * np.expm1(times * np.log1p(roundoff)) * (1.0 + 2.0**-40)
    digits = FLOAT32.digits if wide and format.bits < FLOAT32.bits else format.digits
    absorbing = np.maximum(magnitude, np.ldexp(reach, digits + 1)) * (1.0 + 2.0 ** (2 - format.digits))
    least, most = np.maximum(least - error, -absorbing), np.minimum(most + error, absorbing)
    # Adding what is not negative never makes a sum smaller, however it is rounded.
    return np.where(low_added >= 0.0, low, least), np.where(high_added <= 0.0, high, most)


def _scaled(format: Format, aligned: Aligned, times: float, wide: bool) -> tuple[Array, Array]:
    """start times 1 to `times` factors: the powers of the ends of the factor, where it is not negative."""
    (low, least), (high, most) = aligned.lows, aligned.highs
    if not format.is_float:
        return np.full(low.shape, -np.inf), np.full(low.shape, np.inf)
    roundoff = np.expm1(2.0 * times * np.log1p(format.unit_roundoff + 2.0**-53)) * (1.0 + 2.0**-40)
    largest, smallest = np.maximum(most, most**times), np.minimum(least, np.maximum(least, 0.0) ** times)
    reach = np.maximum(np.abs(least), np.abs(most))
    # A factor that shrinks the state never makes it larger, however it is rounded; what underflows grows with later factors.
    growth = np.where(reach <= 1.0, 1.0, np.maximum(reach, reach**times))
    lost = times * format.smallest_normal * growth

    def upper(end: Array) -> Array:
        far = np.where(most <= 1.0, end, end * largest * (1.0 + roundoff) + lost)
        near = np.minimum(end * smallest * np.maximum(1.0 - roundoff, 0.0) + lost, 0.0)
        return np.where(end > 0.0, far, near)

    magnitude = np.maximum(np.abs(low), np.abs(high))
    either = np.where(reach <= 1.0, magnitude, magnitude * growth * (1.0 + roundoff) + lost)
    steady = least >= 0.0
    return np.where(steady, -upper(-low), -either), np.where(steady, upper(high), either)
