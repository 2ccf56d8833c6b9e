"""Divisors that can have either sign, kept away from zero.

An interval around zero cannot be cut out of a range, so that a scan would not believe max(|d|, epsilon) with the sign of d. The
sign goes to the other side instead: a / d = (a s) / |d| with s = -1 where d < 0, else 1. Products with -1 and 1 are exact and
rounding is symmetric in sign (IEEE 754-2019, section 4.3.1), so that the quotient is the same to the last bit; what is divided by
is max(|d|, epsilon), a range of positive numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tensorproof.formats import Format
from tensorproof.ranges.range import INFINITIES, POSITIVE_INFINITY
from tensorproof.repair.editing import Editor, Spot
from tensorproof.repair.operand.block import Block, Interval, Operand
from tensorproof.repair.operand.clamps import wishes
from tensorproof.repair.operand.numbers import beyond, greatest, least, smallest_kept, usual_epsilon
from tensorproof.repair.operand.search import Wanted
from tensorproof.repair.operand.spelling import clamp, sign
from tensorproof.repair.proposal import Proposal

#: The place of the divisor among the operands.
_DIVISORS = {"Div": 1, "Mod": 1, "Reciprocal": 0}


def guarded_divisors(block: Block) -> Iterator[Proposal]:
    """Guards of the divisor of a node, where it has both signs."""
    index = None if block.node.domain else _DIVISORS.get(block.node.op)
    if index is None or index >= len(block.node.inputs) or block.node.inputs[index] not in block.operands:
        return
    divisor = block.operand(index)
    if not divisor.low < 0.0 < divisor.high:
        return
    seen: list[_Held] = []
    for wanted in [*wishes(block), block.codes(strict=False)]:
        for held in _held(block, divisor, index, wanted):
            if held not in seen and not (seen and wanted is not None):
                seen.append(held)
                yield _guarded(block, divisor, index, held)


@dataclass(frozen=True, slots=True)
class _Held:
    """How far a divisor stays away from zero, and the largest size of dividends where these are clamped, too."""

    epsilon: float
    dividend: float | None = None


def _held(block: Block, divisor: Operand, index: int, wanted: Wanted) -> Iterator[_Held]:
    """The smallest positive number that divisors can be held at.

    Where large dividends ask for a large one, a usual epsilon and a clamp of the dividend come before it.
    """
    format, reach = divisor.format, max(-divisor.low, divisor.high)
    special = POSITIVE_INFINITY if divisor.special & INFINITIES else 0
    dividend = block.operand(0) if index == 1 else None
    size = 0.0 if dividend is None else max(abs(end) for end in dividend.ends)

    def silent(epsilon: float, limit: float | None = None) -> bool:
        ranges = {index: divisor.between(epsilon, max(reach, epsilon), special, block.flushes)}
        if dividend is not None:
            infinite = INFINITIES if dividend.special & INFINITIES and limit is None else 0
            ranges[0] = dividend.between(-(limit or size), limit or size, infinite, block.flushes)
        return block.is_silent(ranges, wanted)

    top = min(reach, format.high)
    epsilon = least(format, smallest_kept(format, block.case.target), top, silent) if silent(top) else None
    usual = usual_epsilon(format, reach) if format.is_float else np.inf
    if dividend is not None and not dividend.is_constant and (top if epsilon is None else epsilon) > usual:
        smallest = dividend.format.smallest_normal
        if silent(usual, smallest):
            yield _Held(usual, greatest(dividend.format, smallest, size, lambda limit: silent(usual, limit)))
    if epsilon is not None:
        yield _Held(epsilon)


def _guarded(block: Block, divisor: Operand, index: int, guard: _Held) -> Proposal:
    tiny, epsilon, limit = smallest_kept(divisor.format, block.case.target), guard.epsilon, guard.dividend
    safe = epsilon <= tiny or _was_infinite(block, divisor, index, beyond(divisor.format, epsilon, -1))
    name = block.case.model.name_of(divisor.value)

    def edit(editor: Editor) -> None:
        spot = editor.before(block.node, "guard")
        raw = spot.name(divisor.value)
        held = clamp(editor, spot, spot.add("Abs", raw), Interval(low=epsilon), divisor.format)
        dividend = spot.name(block.node.inputs[0])
        if limit is not None:
            dividend = clamp(editor, spot, dividend, Interval(-limit, limit), divisor.format)
        _exchange(editor, spot, block, dividend, raw, held, divisor.format)

    return Proposal(
        kind="operand",
        name="divisor-away-from-zero",
        finding=block.case.finding,
        summary=f"holds {name} at least {epsilon:.9g} away from zero in {block.node.label}, its sign kept"
        + ("" if limit is None else f", and the dividend between {-limit:.9g} and {limit:.9g}"),
        because="a / d = (a sign(d)) / |d| to the last bit; only divisors without a finite result are moved"
        if safe
        else f"a / d = (a sign(d)) / |d| to the last bit; divisors nearer to zero than {epsilon:.3g} are moved",
        safe=safe,
        replaces=(block.node.name,),
        edit=edit,
    )


def _was_infinite(block: Block, divisor: Operand, index: int, value: float) -> bool:
    """Whether the result is infinite for the largest divisor that is moved, and so for all of them."""
    if not block.others_are_uniform(divisor) or len(divisor.indices) > 1 or not divisor.format.is_float:
        return False
    result = block.exact({index: divisor.at(value, flushes=block.flushes)})
    return result is not None and min(abs(end) for end in result.hull()) > result.format.high


def _exchange(editor: Editor, spot: Spot, block: Block, dividend: str, raw: str, held: str, format: Format) -> None:
    """The divisor exchanged for its held size; the sign goes to the dividend, or to the result."""
    node = block.node
    if node.op == "Mod" and node.attributes.get("fmod", 0):
        # The remainder has the sign of the dividend (C's fmod).
        editor.rewire(node, 1, held)
        return
    negative = sign(editor, spot, raw, format)
    if node.op == "Div":
        editor.rewire(node, 0, spot.add("Mul", dividend, negative))
        editor.rewire(node, 1, held)
        return
    # 1 / d = s / |d|; and a mod d, which has the sign of d, is s ((a s) mod |d|).
    operands = [held] if node.op == "Reciprocal" else [spot.add("Mul", dividend, negative), held]
    editor.replace(node, spot.add("Mul", spot.add(node.op, *operands, **node.attributes), negative))
