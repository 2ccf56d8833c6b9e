"""Clamps of operands to the widest intervals in which nothing fires, and an epsilon that is added instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from tensorproof.ranges.preparation import is_moderate, outline_of
from tensorproof.ranges.range import INFINITIES, Range
from tensorproof.repair.editing import Editor
from tensorproof.repair.operand.block import Block, Interval, Operand
from tensorproof.repair.operand.numbers import beyond, number, ordinal, smallest_kept, usual_epsilon
from tensorproof.repair.operand.search import Wanted, together, widest
from tensorproof.repair.operand.spelling import clamp
from tensorproof.repair.proposal import Declined, Proposal

#: Rules of operands that are undefined at zero, whatever the other operands are.
_AT_ZERO = frozenset({"NUM103", "NUM106", "NUM107", "NUM111", "NUM113"})
#: Numbers beyond a clamp at which the original is asked whether it fails there.
_PROBES = 9
#: Softmax gives exactly zero to entries that lie farther below the largest one, in every format.
_VANISHES = 1e4


def wishes(block: Block) -> Iterator[Wanted]:
    """What a guard has to silence, in the order in which guards are tried.

    Everything that is an error at the node; but where an idiom knows more of the node's result than its block does (the quotient
    of a hand-written softmax is at most 1), the finding's rule alone comes first: a guard that respects an overflow which the
    idiom excludes would be far too strong.
    """
    model = block.case.model
    if block.node.number in outline_of(model, idioms=True, costly=is_moderate(model)).claims:
        yield block.codes(strict=False)
    yield block.codes(strict=True)


def clamps(block: Block) -> Iterator[Proposal]:
    """The clamps of a finding's node, each followed by its epsilon where there is one. Raises Declined if there is none."""
    for intervals, wanted in _found(block):
        yield from map(partial(_clamped, block), _with_dividend(block, intervals, wanted))
        yield _clamped(block, intervals)
        yield from _with_epsilon(block, intervals, wanted)


def held_operands(block: Block) -> Iterator[Mapping[int, Interval]]:
    """Intervals that operands may be held in, in the order in which `clamps` has them, for files that are not of ONNX.

    Next to the widest interval a quotient may overflow farther on: a bound of the size of the usual epsilon follows it.
    """
    for intervals, wanted in _found(block):
        yield from _with_dividend(block, intervals, wanted)
        yield intervals
        for value, interval in intervals.items() if len(intervals) == 1 else ():
            operand = block.operands[value]
            if operand.format.is_float:
                epsilon = usual_epsilon(operand.format, max(map(abs, operand.ends)))
                if interval.high is None and interval.low is not None and 0.0 < interval.low < epsilon:
                    yield {value: Interval(low=epsilon)}
                if interval.low is None and interval.high is not None and -epsilon < interval.high < 0.0:
                    yield {value: Interval(high=-epsilon)}


def _found(block: Block) -> Iterator[tuple[Mapping[int, Interval], Wanted]]:
    """The widest intervals, with what they silence. Raises Declined if there are none."""
    seen: list[Mapping[int, Interval]] = []
    # Where no guard silences everything, one that silences the finding is worth something still.
    for wanted in [*wishes(block), block.codes(strict=False)]:
        if not block.fails(wanted):
            continue
        intervals = _intervals(block, wanted)
        if not intervals or intervals in seen or (seen and wanted is not None):
            continue
        seen.append(intervals)
        yield intervals, wanted
    if not seen:
        raise Declined("no interval of an operand keeps the node from failing")


def single_interval(block: Block) -> tuple[Operand, Interval, bool] | None:
    """The operand whose clamp is enough, the widest interval of it, and whether the clamp is harmless; None if there is none."""
    for wanted in [*wishes(block), block.codes(strict=False)]:
        intervals = _intervals(block, wanted) if block.fails(wanted) else None
        if intervals is not None and len(intervals) == 1:
            ((value, interval),) = intervals.items()
            operand = block.operands[value]
            return operand, interval, is_harmless(block, operand, interval)
    return None


def _intervals(block: Block, wanted: Wanted) -> Mapping[int, Interval] | None:
    """Of the operand that the finding names; else of all operands that vary; else of a single one."""
    named = block.named(block.case.finding.operand)
    if named is not None:
        interval = widest(block, named, wanted)
        if interval is not None:
            return {named.value: interval}
    floating = [x for x in block.operands.values() if x.format.is_float]
    varying = [x for x in floating if not x.is_constant or x.special & INFINITIES]
    found = together(block, varying, wanted)
    if found:
        return found
    for x in (*varying, *floating):
        interval = widest(block, x, wanted)
        if interval is not None:
            return {x.value: interval}
    return None


def _with_dividend(block: Block, intervals: Mapping[int, Interval], wanted: Wanted) -> Iterator[Mapping[int, Interval]]:
    """A divisor that large dividends would hold far from zero is held near it; the dividends are clamped instead."""
    divisor = None if block.node.domain or block.node.op != "Div" else block.operand(1)
    if divisor is None or not divisor.format.is_float or list(intervals) != [divisor.value] or len(divisor.indices) > 1:
        return
    interval, dividend = intervals[divisor.value], block.operand(0)
    epsilon = usual_epsilon(divisor.format, max(abs(end) for end in divisor.ends))
    if dividend.is_constant:
        return
    if interval.high is None and interval.low is not None and interval.low > epsilon and divisor.low >= 0.0:
        held = Interval(low=epsilon)
    elif interval.low is None and interval.high is not None and interval.high < -epsilon and divisor.high <= 0.0:
        held = Interval(high=-epsilon)
    else:
        return
    found = widest(block, dividend, wanted, {divisor.value: held})
    if found is not None:
        yield {divisor.value: held, dividend.value: found}


def _clamped(block: Block, intervals: Mapping[int, Interval]) -> Proposal:
    names = [f"{block.case.model.name_of(value)} to {interval.describe()}" for value, interval in intervals.items()]
    safe = len(intervals) == 1 and all(is_harmless(block, block.operands[v], interval) for v, interval in intervals.items())

    def edit(editor: Editor) -> None:
        spot = editor.before(block.node, "guard")
        for value, interval in intervals.items():
            operand = block.operands[value]
            guarded = clamp(editor, spot, spot.name(value), interval, operand.format)
            for index in operand.indices:
                editor.rewire(block.node, index, guarded)

    return Proposal(
        kind="operand",
        name="clamp",
        finding=block.case.finding,
        summary=f"clamps {' and '.join(names)} in front of {block.node.label}",
        because=f"only operands for which {block.node.label} has no finite result are moved"
        if safe
        else "operands outside of it are moved to its ends, also where the result was finite",
        safe=safe,
        replaces=(block.node.name,),
        edit=edit,
    )


def _with_epsilon(block: Block, intervals: Mapping[int, Interval], wanted: Wanted) -> Iterator[Proposal]:
    """x + epsilon in place of max(x, epsilon), where x is never negative: gradients stay alive at zero."""
    ((value, interval),) = intervals.items() if len(intervals) == 1 else ((-1, Interval()),)
    if interval.low is None or interval.low <= 0.0 or interval.high is not None:
        return
    operand = block.operands[value]
    format, (low, high) = operand.format, operand.ends
    if not format.is_float or low < 0.0 or high <= 0.0:
        return
    epsilon = usual_epsilon(format, high)
    if interval.low > epsilon:
        return
    behind = operand.between(
        format.below(low + epsilon), min(format.above(high + epsilon), format.high), operand.special, block.flushes
    )
    if not block.is_silent(dict.fromkeys(operand.indices, behind), wanted):
        return
    name = block.case.model.name_of(value)

    def edit(editor: Editor) -> None:
        spot = editor.before(block.node, "guard")
        moved = spot.add("Add", spot.name(value), spot.constant(epsilon, format.dtype))
        for index in operand.indices:
            editor.rewire(block.node, index, moved)

    yield Proposal(
        kind="operand",
        name="epsilon",
        finding=block.case.finding,
        summary=f"adds {epsilon:.9g} to {name} in front of {block.node.label}",
        because=f"gradients stay alive at zero; the operand differs by {epsilon:.3g}, relative to x by {epsilon:.3g} / x",
        safe=False,
        replaces=(block.node.name,),
        edit=edit,
    )


def is_harmless(block: Block, operand: Operand, interval: Interval) -> bool:
    """Whether a clamp moves only operands for which the original has no finite result.

    That is asked of the block at numbers from the first one that is moved to the last one. It is meant for functions of single
    elements with one operand that varies, whose domain is an interval: the numbers outside of it then fail, or none of them.
    """
    if operand.special & INFINITIES:
        return _keeps_softmax(block, operand, interval)
    if _moves_zero_alone(block, operand, interval):
        return True
    if not block.entry.elementwise or len(operand.indices) > 1 or not block.others_are_uniform(operand):
        return False
    probes: list[float] = []
    if interval.low is not None and operand.low < interval.low:
        probes += _between(operand, operand.low, beyond(operand.format, interval.low, -1))
    if interval.high is not None and operand.high > interval.high:
        probes += _between(operand, beyond(operand.format, interval.high, 1), operand.high)
    return all(_surely_fails(block, operand, probe) for probe in probes)


def _between(operand: Operand, low: float, high: float) -> list[float]:
    first, last = ordinal(operand.format, low), ordinal(operand.format, high)
    return [number(operand.format, first + (last - first) * step // (_PROBES - 1)) for step in range(_PROBES)]


def _moves_zero_alone(block: Block, operand: Operand, interval: Interval) -> bool:
    """Whether a divisor (a scale, a step) on one side of zero is moved where it is zero and nowhere else."""
    if block.case.finding.rule.code not in _AT_ZERO:
        return False
    tiny = smallest_kept(operand.format, block.case.target)
    above = interval.low is not None and operand.low >= 0.0 and interval.low <= tiny and interval.high is None
    below = interval.high is not None and operand.high <= 0.0 and interval.high >= -tiny and interval.low is None
    return above or below


def _keeps_softmax(block: Block, operand: Operand, interval: Interval) -> bool:
    """Whether -inf in rows of softmax is replaced by a number that has no weight either."""
    if block.node.domain or block.node.op not in ("Softmax", "LogSoftmax") or (interval.high or np.inf) < operand.high:
        return False
    return interval.low is None or interval.low <= operand.low - _VANISHES


def _surely_fails(block: Block, operand: Operand, value: float) -> bool:
    """Whether the original has no finite result at a number."""
    exchanged = {operand.indices[0]: operand.at(value, flushes=block.flushes)}
    hazards = block.hazards(exchanged)
    if not hazards:
        return False
    if any(hazard.gives and not hazard.rule.code.startswith("NUM2") for hazard in hazards):
        return True
    if any(hazard.rule.code == "NUM204" for hazard in hazards):
        return True
    return _overflows(block.exact(exchanged))


def _overflows(result: Range | None) -> bool:
    if result is None:
        return False
    low, high = result.hull()
    return low > result.format.high or high < result.format.low
