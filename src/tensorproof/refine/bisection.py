"""Bisection: few numbers that much depends on are cut in halves until the alarm is gone in every piece.

Branch and bound on one dimension to four: elements of small inputs, and tensors of which each element of the alarm depends on
one element. Depth first, so that a real defect is met soon: where a piece of the smallest size still alarms, nothing is proven.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorproof.graph import Node
from tensorproof.ranges.range import Range
from tensorproof.refine.alarms import Alarms, Budget
from tensorproof.refine.cases import Dimension, small_dimensions
from tensorproof.refine.splitting import may_be_cut
from tensorproof.refine.window import Box, Window, elementwise_region, is_elementwise

#: Dimensions that are cut together at most, and values that are tried one by one before.
MOST_DIMENSIONS = 4
#: Each dimension is halved at most this often: a piece is then a millionth of the range.
MOST_HALVINGS = 20
#: A value that tightens what depends on it element by element is cut into so many pieces (a power of two).
PIECES = 32


def prove_by_bisection(window: Window, budget: Budget) -> bool:
    """Whether the alarm of a window is gone in every piece of some subdivision."""
    start = window.evaluate({}, budget)
    if start is None or start.safe:
        return start is not None
    groups = find_dimensions(window, start.ranges)
    for index, group in enumerate(groups):
        share = Budget(budget.left // (len(groups) + 1 - index))
        before = share.left
        proven = _gone(window, group, start.ranges, share)
        budget.left -= before - share.left
        if proven:
            return True
    together = [dimension for group in groups for dimension in group]
    return len(groups) > 1 and len(together) <= MOST_DIMENSIONS and _gone(window, together, start.ranges, budget)


def find_dimensions(window: Window, ranges: Mapping[int, Range]) -> list[list[Dimension]]:
    """For each value that several operands are made from, what may be cut of it: the most used first."""
    groups: list[list[Dimension]] = []
    for value in sorted(window.shared(), key=lambda v: (-len(window.users[v]), v)):
        x = ranges.get(value)
        if x is None or x.format.kind not in ("float", "int") or x.has_special:
            continue
        group = [Dimension(value)] if may_be_cut(window, value, ranges) else list(small_dimensions(value, x))
        group = [dimension for dimension in group if dimension.width(x) > 0]
        if group and len(group) <= MOST_DIMENSIONS:
            groups.append(group)
    return groups[:MOST_DIMENSIONS]


def _gone(window: Window, dimensions: Sequence[Dimension], ranges: Mapping[int, Range], budget: Budget) -> bool:
    whole = {dimension.value: ranges[dimension.value] for dimension in dimensions}
    widths = [dimension.width(whole[dimension.value]) for dimension in dimensions]
    smallest = 2.0**-MOST_HALVINGS
    waiting: list[tuple[Box, bool]] = [(whole, True)]
    while waiting:
        box, known_unsafe = waiting.pop()
        if not known_unsafe:
            outcome = window.evaluate(box, budget)
            if outcome is None:
                return False
            if outcome.safe:
                continue
        relative = [d.width(box[d.value]) / width for d, width in zip(dimensions, widths)]
        widest = max(range(len(dimensions)), key=lambda i: (relative[i], -i))
        if relative[widest] <= smallest:
            return False
        dimension = dimensions[widest]
        halves = dimension.halves(box[dimension.value])
        if len(halves) < 2:
            return False
        waiting += [({**box, dimension.value: half}, False) for half in reversed(halves)]
    return True


def tighten(alarms: Alarms, window: Window, budget: Budget) -> bool:
    """Bound what enters operators that are not element-wise by cutting the values it is made from element by element.

    The ranges of the pieces are joined: log(sum(x * x - x + 1)) needs the range of the summands, which one value decides.
    """
    chosen: list[tuple[int, Node]] = []
    for node in window.part.nodes:
        if not is_elementwise(node):
            makers = ((value, alarms.structure.producer(value)) for value in dict.fromkeys(node.inputs) if value in window.users)
            chosen += [(value, maker) for value, maker in makers if maker is not None and is_elementwise(maker)]
    chosen = [(value, maker) for value, maker in chosen if maker in window.part.nodes]
    if not chosen:
        return False
    # What enters a window of element-wise nodes has been kept; inside of a small cone it is found first.
    small = any(not is_elementwise(node) for node in window.part.nodes[:-1])
    outcome = window.evaluate({}, budget) if small else None
    if small and outcome is None:
        return False
    ranges = {} if outcome is None else outcome.ranges
    gained = [value for value, maker in chosen if _tighten_one(alarms, window, value, maker, ranges, budget)]
    return bool(gained)


def _tighten_one(alarms: Alarms, around: Window, value: int, maker: Node, ranges: Mapping[int, Range], budget: Budget) -> bool:
    region = Window.of(alarms, maker.number, elementwise_region(alarms, maker), around.abstraction, around.step, ranges)
    if region is None or not region.promising():
        return False
    outcome = region.evaluate({}, budget)
    if outcome is None or maker.number in outcome.reporting:
        return False
    base = outcome.ranges[value]
    for shared in region.shared():
        x = outcome.ranges.get(shared)
        if x is None or x.has_special or not may_be_cut(region, shared, outcome.ranges) or x.format.kind != "float":
            continue
        pieces = [x]
        dimension = Dimension(shared)
        while len(pieces) < PIECES:
            pieces = [half for piece in pieces for half in dimension.halves(piece)]
        joined: Range | None = None
        for piece in pieces:
            result = region.evaluate({shared: piece}, budget)
            if result is None or maker.number in result.reporting:
                return False
            joined = result.ranges[value] if joined is None else joined.join(result.ranges[value])
        assert joined is not None
        if _narrower(joined, base):
            alarms.ranges[value] = joined.bare()
            alarms.tightened = True
            return True
    return False


def _narrower(new: Range, old: Range) -> bool:
    """Whether a range is narrower by at least one part in a hundred, on one side of its hull."""
    (low, high), (old_low, old_high) = new.hull(), old.hull()
    return (low - old_low) + (old_high - high) > 0.01 * (old_high - old_low)
