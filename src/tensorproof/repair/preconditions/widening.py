"""A proven box made as wide as possible. Set inclusion makes this a search on monotone predicates: bisection finds the edges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tensorproof.formats import Array, Format
from tensorproof.repair.preconditions.scanning import Scanner, Spent
from tensorproof.repair.preconditions.sites import Box, Interval, Site, scaled

#: The smallest scale that is tried is two to the minus this: intervals of whole formats have to come down to small numbers.
SMALLEST_SCALE = 160
#: Bisections between a scale and its double.
SCALE_STEPS = 5
#: Bisections of an end in equal parts, and then by the numbers of its format, until two neighbours are left.
EVEN_STEPS, NUMBER_STEPS = 8, 34
#: Every end gets at least so many bisections while the budget lasts.
FEWEST_STEPS = 3
#: Sites of no more channels than this have their ends moved one by one, too.
SINGLE_CHANNELS = 16


def widest_scale(scanner: Scanner, sites: Sequence[Site], inner: Box) -> float:
    """The largest scale between a proven inner box and the whole one that the scan proves, to about three per cent."""

    def proves(scale: float) -> bool:
        return scanner.proves(scaled(sites, inner, scale))

    proven, not_proven = 0.0, 1.0
    try:
        small, large = SMALLEST_SCALE + 1, 0
        while small - large > 1:
            middle = (small + large) // 2
            if proves(2.0**-middle):
                small, proven = middle, 2.0**-middle
            else:
                large, not_proven = middle, 2.0**-middle
        for _ in range(SCALE_STEPS if proven else 0):
            middle_scale = (proven + not_proven) / 2
            if proves(middle_scale):
                proven = middle_scale
            else:
                not_proven = middle_scale
    except Spent:
        pass
    return proven


def polished(scanner: Scanner, sites: Sequence[Site], box: Box, report: Callable[[int], None] | None = None) -> Box:
    """Every end of every site moved outward as far as the scan proves it, one after the other, in the order of the sites.

    One round is enough: an end that cannot move with narrow other intervals cannot move with wider ones. How exactly each edge
    is found depends on the scans that are left, shared evenly among the ends that are left.
    """
    ends = [(index, side, part) for index, site in enumerate(sites) for side in (0, 1) for part in _parts(site)]
    try:
        for done, (index, side, part) in enumerate(ends):
            steps = max(FEWEST_STEPS, scanner.left // (len(ends) - done) - 1)
            for moved in _outward(scanner, sites, box, index, side, part, steps):
                box = moved
            if report is not None:
                report(scanner.scans)
    except Spent:
        pass
    return box


def _parts(site: Site) -> Iterator[int | None]:
    """What is moved at a time: all channels together, and then each by itself."""
    yield None
    size = site.whole[0].size
    if 1 < size <= SINGLE_CHANNELS:
        yield from range(size)


def _outward(
    scanner: Scanner, sites: Sequence[Site], box: Box, index: int, side: int, part: int | None, steps: int
) -> Iterator[Box]:
    """Wider and wider proven boxes that differ in one end."""
    site = sites[index]
    start, goal = box[index][side], _goal(site, box[index], side, part)
    if np.array_equal(start, goal):
        return

    def with_end(end: Array) -> Box:
        low, high = box[index]
        interval: Interval = site.inside(end, high) if side == 0 else site.inside(low, end)
        return (*box[:index], interval, *box[index + 1 :])

    widest = with_end(goal)
    if scanner.proves(widest):
        yield widest
        return
    good, bad = start, goal
    between = np.clip(0.0, np.minimum(good, bad), np.maximum(good, bad))
    if not np.array_equal(between, good) and not np.array_equal(between, bad):
        # Zero is the natural edge of many domains, and far away for a bisection by numbers.
        tried = with_end(between)
        if scanner.proves(tried):
            good = between
            yield tried
        else:
            bad = between
    for step in range(min(steps, EVEN_STEPS + NUMBER_STEPS)):
        if step < EVEN_STEPS:
            end = good / 2 + bad / 2
        elif good.size == 1:
            end = _middle_number(good, bad, site.format)
        else:
            return
        tried = with_end(end)
        end = tried[index][side]
        if np.array_equal(end, good) or np.array_equal(end, bad):
            if step >= EVEN_STEPS:
                return
            continue
        if scanner.proves(tried):
            good = end
            yield tried
        else:
            bad = end


def _goal(site: Site, interval: Interval, side: int, part: int | None) -> Array:
    if part is None:
        return site.whole[side]
    goal = interval[side].copy()
    goal.flat[part] = site.whole[side].flat[part]
    return goal


def _middle_number(a: Array, b: Array, format: Format) -> Array:
    """The number with as many numbers of the format between it and either end: their bit patterns, in order, are integers."""
    dtype = np.dtype(format.dtype) if format.dtype.kind == "f" else np.dtype(np.float32)
    bits = np.dtype(f"i{dtype.itemsize}")
    sign = int(np.iinfo(bits).min)

    def ordinal(x: Array) -> int:
        pattern = int(x.astype(dtype).reshape(()).view(bits))
        return pattern if pattern >= 0 else sign - pattern

    middle = (ordinal(a) + ordinal(b)) // 2
    pattern = np.array(middle if middle >= 0 else sign - middle, bits)
    return pattern.view(dtype).astype(np.float64).reshape(a.shape)
