"""The widest intervals of operands in which nothing fires, by bisection over the numbers of their formats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tensorproof.formats import Format
from tensorproof.ranges.range import NEGATIVE_INFINITY, POSITIVE_INFINITY, Range
from tensorproof.repair.operand.block import Block, Interval, Operand
from tensorproof.repair.operand.numbers import greatest, least

#: Exponents of the powers of two that are tried as a number in whose neighbourhood nothing fires.
_EXPONENTS = (0, -1, 1, -2, 2, -4, 4, -8, 8, -16, 16, -32, 32, -64, 64, -126, 126, -512, 512, -1000, 1000)

Wanted = frozenset[str] | None


def widest(block: Block, operand: Operand, wanted: Wanted, given: Mapping[int, Interval] | None = None) -> Interval | None:
    """The widest interval of one operand: open on one side if that is enough, else grown from a number where nothing fires.

    `given` are clamps of other operands, by value number.
    """
    held = block.clamped(given or {})

    def silent(interval: Interval) -> bool:
        return block.is_silent({**held, **block.clamped({operand.value: interval})}, wanted)

    format = operand.format
    low, high = operand.ends
    if silent(Interval(low=high)):
        return Interval(low=least(format, format.low, high, lambda end: silent(Interval(low=end))))
    if silent(Interval(high=low)):
        return Interval(high=greatest(format, low, format.high, lambda end: silent(Interval(high=end))))
    joint = together(block, [operand], wanted, held)
    if joint:
        return joint[operand.value]
    for core in _cores(format, low, high):
        if silent(Interval(core, core)):
            below = least(format, format.low, core, lambda end, core=core: silent(Interval(end, core)))
            above = greatest(format, core, format.high, lambda end, below=below: silent(Interval(below, end)))
            return _tidy(operand, Interval(below, above))
    return None


def together(
    block: Block, operands: Sequence[Operand], wanted: Wanted, held: Mapping[int, Range] | None = None
) -> dict[int, Interval] | None:
    """Intervals of several operands, by value number: as wide as each other around zero first, then each as wide as it can be.

    Operands that need no clamp have no interval. `held` are the ranges at other places of the node.
    """

    def silent(intervals: Mapping[int, Interval]) -> bool:
        return block.is_silent({**(held or {}), **block.clamped(intervals)}, wanted)

    def around_zero(reach: float) -> dict[int, Interval]:
        ends = {x.value: min(x.format.below(reach), x.format.high) for x in operands}
        return {x.value: Interval(max(-ends[x.value], x.format.low), ends[x.value]) for x in operands}

    if not operands or not silent(around_zero(0.0)):
        return None
    format = max((x.format for x in operands), key=lambda format: format.high)
    found = around_zero(greatest(format, 0.0, format.high, lambda reach: silent(around_zero(reach))))
    for x in operands:
        interval = found[x.value]
        assert interval.low is not None and interval.high is not None
        low = least(
            x.format, x.format.low, interval.low, lambda end, x=x: silent({**found, x.value: replace(found[x.value], low=end)})
        )
        found[x.value] = Interval(low, interval.high)
        high = greatest(
            x.format, interval.high, x.format.high, lambda end, x=x: silent({**found, x.value: replace(found[x.value], high=end)})
        )
        found[x.value] = Interval(low, high)
    tidied = {x.value: _tidy(x, found[x.value]) for x in operands}
    return {value: interval for value, interval in tidied.items() if interval != Interval()}


def _tidy(operand: Operand, interval: Interval) -> Interval:
    """The interval without ends that move nothing."""
    low, high = interval.low, interval.high
    if low is not None and low <= operand.low and not operand.special & NEGATIVE_INFINITY:
        low = None
    if high is not None and high >= operand.high and not operand.special & POSITIVE_INFINITY:
        high = None
    return Interval(low, high)


def _cores(format: Format, low: float, high: float) -> Iterator[float]:
    """Numbers to start from, those of the operand's own range first."""
    powers = [sign * 2.0**exponent for exponent in _EXPONENTS for sign in (1.0, -1.0)]
    whole = format.is_integer
    numbers = [0.0, *(x for x in powers if format.low <= x <= format.high and (not whole or x == int(x)))]
    numbers = [x for x in numbers if whole or format.nearest(x) == x]
    yield from (x for x in numbers if low <= x <= high)
    yield from (x for x in numbers if not low <= x <= high)
