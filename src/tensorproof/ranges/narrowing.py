"""Ranges under a condition: the values behind it are narrower where it is known (`tensorproof.ranges.guards`)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tensorproof.formats import Array
from tensorproof.graph import ABSENT, Graph
from tensorproof.ranges.flow import Flow
from tensorproof.ranges.guards import SAME, TURNED, Fact, hands_back
from tensorproof.ranges.propagate import Propagation
from tensorproof.ranges.range import NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY, Range, align
from tensorproof.ranges.rounding import flushed
from tensorproof.targets import Target

#: Operators that are evaluated again on a narrower operand, where a branch reads their result, and how many in a row.
_REPEATABLE = frozenset(
    {*SAME, "Cast", "CastLike", "Expand", "Neg", "Abs", "Add", "Sub", "Mul", "Div", "Max", "Min", "Clip", "Sqrt", "Exp"}
    | {"Log", "Reciprocal", "Pow", "ReduceMin", "ReduceMax", "ReduceSum", "ReduceMean"}
)
_REPEATED = 4


@contextmanager
def assuming(run: Propagation, condition: int, holds: bool, branch: Graph) -> Generator[None]:
    """Evaluate a branch where a condition is known: the values behind it are narrower meanwhile, and what is made from them."""
    narrower = narrowed(run, condition, holds)
    if narrower:
        for number in run.guards.read_from_outside(branch):
            _repeat(run, narrower, number, _REPEATED)
    before = {number: run.values.get(number) for number in narrower}
    run.values.update(narrower)
    try:
        yield
    finally:
        _restore(run, before)


def _restore(run: Propagation, before: Mapping[int, Flow | None]) -> None:
    for number, flow in before.items():
        if flow is None:
            run.values.pop(number, None)
        else:
            run.values[number] = flow


def _repeat(run: Propagation, changed: dict[int, Flow], number: int, depth: int) -> bool:
    """Evaluate what made a value once more, if it is made from narrower values; whether the value is narrower now."""
    if number in changed:
        return True
    node = run.guards.producer(number)
    if node is None or node.domain or node.op not in _REPEATABLE or depth == 0:
        return False
    inputs = [operand for operand in node.inputs if operand != ABSENT]
    narrower = [operand for operand in inputs if _repeat(run, changed, operand, depth - 1)]
    if not narrower:
        return False
    operands = {operand: _known(run, changed, operand) for operand in inputs}
    if any(flow is None for flow in operands.values()):
        return False
    before = {key: run.values.get(key) for key in (*operands, number)}
    run.values.update({key: flow for key, flow in operands.items() if flow is not None})
    try:
        again = run.repeated(node)
        known = before[number]
        changed[number] = again if known is None else _on_both(known, _both, again)
    finally:
        _restore(run, before)
    return True


def narrowed(run: Propagation, condition: int, holds: bool) -> dict[int, Flow]:
    """The values that are narrower where a condition is true, or where it is false."""
    changed: dict[int, Flow] = {}
    for fact in run.guards.facts(condition, holds):
        sides = [(fact.left, fact.relation, fact.right)]
        if fact.right != ABSENT:
            sides.append((fact.right, TURNED[fact.relation], fact.left))
        for number, relation, other in sides:
            _apply(run, changed, number, relation, other, fact)
    return changed


def narrowed_states(run: Propagation, condition: int, holds: bool, numbers: Sequence[int], states: Sequence[Flow]) -> list[Flow]:
    """States of a loop, given as values with numbers, where a condition is known."""
    changed = narrowed(run, condition, holds) if run.guards.facts(condition, holds) else {}
    if not changed:
        return list(states)
    result: list[Flow] = []
    for number, flow in zip(numbers, states, strict=True):
        for origin in run.guards.origins(number):
            found = changed.get(origin)
            if found is not None:
                flow = found if origin == number else _on_both(flow, _within_hull, found)
                break
        result.append(flow)
    return result


def _known(run: Propagation, changed: Mapping[int, Flow], number: int) -> Flow | None:
    found = changed.get(number) or run.values.get(number)
    if found is None and number in run.model.constants:
        found = run.read(number)
    return found


def _apply(run: Propagation, changed: dict[int, Flow], number: int, relation: str, other: int, fact: Fact) -> None:
    """Make one side of a relation narrower, and what it was made from."""
    flow = _known(run, changed, number)
    against = None if other == ABSENT else _known(run, changed, other)
    if flow is None or number in run.model.constants or (other != ABSENT and against is None):
        return

    def narrow(x: Range, y: Range | None) -> Range:
        if relation == "not":
            return _within(x, -np.inf, np.inf, fact.bits)
        assert y is not None
        if fact.is_denied and (y.any_special & NAN):
            return x
        return related(run.target, x, relation, y, fact.is_denied)

    result = _on_both(flow, narrow, against)
    if result is flow:
        return
    changed[number] = result
    _hand_back(run, changed, number, fact.is_denied)


def _hand_back(run: Propagation, changed: dict[int, Flow], number: int, is_denied: bool) -> None:
    """What a narrower value says about the one that it was made from, by operators that are undone easily."""
    node = run.guards.producer(number)
    if node is None or not hands_back(node):
        return
    source = node.inputs[0]
    flow = _known(run, changed, source)
    if flow is None or source in run.model.constants:
        return

    def narrow(x: Range, y: Range | None) -> Range:
        assert y is not None
        low, high = (float(end) for end in _ends(y))
        if node.op == "Cast":
            return _before_cast(x, y, low, high)
        if node.op == "Neg":
            return _within(x, -high, -low, 0)
        if node.op == "Abs":
            return _within(x, -high, high, 0)
        if node.op in ("ReduceMin", "ReduceMax"):
            if x.any_special & NAN:
                # A NaN may hide the elements before it.
                return x
            return _within(x, low, np.inf, 0) if node.op == "ReduceMin" else _within(x, -np.inf, high, 0)
        return _within_hull(x, y)

    result = _on_both(flow, narrow, changed[number])
    if result is not flow:
        changed[source] = result
        _hand_back(run, changed, source, is_denied)


def _on_both(flow: Flow, change: Callable[[Range, Any], Range], against: Flow | None) -> Flow:
    """A change of the clean and of the actual range, each with the same side of another value."""
    if not isinstance(flow.clean, Range) or not isinstance(flow.actual, Range):
        return flow
    other = (None, None) if against is None else (against.clean, against.actual)
    if against is not None and not (isinstance(other[0], Range) and isinstance(other[1], Range)):
        return flow
    clean = change(flow.clean, other[0])
    same = flow.actual is flow.clean and other[0] is other[1]
    actual = clean if same else change(flow.actual, other[1])
    if clean is flow.clean and actual is flow.actual:
        return flow
    roots = flow.roots if against is None else flow.roots | against.roots
    return Flow(clean, actual, roots)


def _ends(x: Range) -> tuple[Array, Array]:
    """The hull, infinities included."""
    low, high = x.extended()
    if not low.size:
        return np.asarray(-np.inf), np.asarray(np.inf)
    return low.min(), high.max()


def related(target: Target, x: Range, relation: str, y: Range, is_denied: bool) -> Range:
    """The values of x that have a relation to some value of y; `is_denied` as for a fact."""
    if x.format.kind not in ("float", "int") or y.format.kind not in ("float", "int"):
        return x
    least, most = _ends(y)
    if x.shape is not None and x.shape == y.shape and x.has_known_shape:
        aligned = align(x, y)
        low, high, special = aligned.lows[0], aligned.highs[0], aligned.specials[0]
        x = _keeping(x, aligned.result(x.format, low, high, special if x.has_special else None))
        other = align(x, y.replace(*y.extended(), None))
        least, most = other.lows[1], other.highs[1]
    # A comparison that is true has no NaN on either side; one that failed may have.
    bits = 0 if is_denied else NAN
    low: Any = -np.inf
    high: Any = np.inf
    if relation in (">", ">="):
        low = _above(target, x, least) if relation == ">" else least
    elif relation in ("<", "<="):
        high = _below(target, x, most) if relation == "<" else most
    elif relation == "==":
        low, high = least, most
    else:
        # Not equal to a single number: an end that is that number moves inside.
        single = least == most
        low = np.where(single & (x.low == least), _above(target, x, least), -np.inf)
        high = np.where(single & (x.high == most), _below(target, x, most), np.inf)
    if target.flushes_operands or target.flushes_results:
        low, high = flushed(np.asarray(low), np.asarray(high), x.format) if x.format.is_float else (low, high)
    return _within(x, low, high, bits)


def _above(target: Target, x: Range, bound: Any) -> Any:
    """The smallest number of the format beyond a bound."""
    bound = np.asarray(bound, np.float64)
    if x.format.is_integer:
        # From 2^53 on, neighbouring integers are the same float64 number.
        return np.where(np.abs(bound) < 2.0**52, np.floor(bound) + 1.0, bound)
    if target.keeps_chains_wide and x.format.bits < 32:
        # Compared in float32, and rounded to 16 bits afterwards: no longer strictly beyond.
        return bound
    return np.where(np.isfinite(bound), x.format.round_up(np.nextafter(bound, np.inf)), bound)


def _below(target: Target, x: Range, bound: Any) -> Any:
    return -_above(target, x, -np.asarray(bound, np.float64))


def _within_hull(x: Range, y: Range) -> Range:
    """The values of x that lie in the hull of y, which holds the same numbers in another shape."""
    low, high = _ends(y)
    return _within(x, low, high, NAN & ~y.any_special)


def _before_cast(x: Range, y: Range, low: float, high: float) -> Range:
    """The operand of a cast, where all its values are values of the other format."""
    if x.format.kind not in ("float", "int") or y.format.kind not in ("float", "int"):
        return x
    if x.format.is_float:
        exact = y.format.is_float and y.format.digits >= x.format.digits and y.format.high >= x.format.high
        exact = exact and y.format.least_exponent <= x.format.least_exponent
    else:
        least, most = x.hull()
        limit = 2.0**y.format.digits if y.format.is_float else min(y.format.high, 2.0**53)
        exact = least >= max(-limit, y.format.low) and most <= limit
    return _within(x, low, high, NAN & ~y.any_special if x.format.is_float else 0) if exact else x


def _within(x: Range, low: Any, high: Any, bits: int) -> Range:
    """The values of x in [low, high], infinities only as far as they lie there, without the special values `bits`.

    Where nothing is left of a cell, it stays as it is: the condition cannot be met, and any range is right.
    """
    if not x.low.size:
        return x
    least, most = np.maximum(x.low, low), np.minimum(x.high, high)
    empty = x.low > x.high
    crossed = (least > most) & ~empty
    least, most = np.where(empty | crossed, x.low, least), np.where(empty | crossed, x.high, most)
    special = x.special
    if x.has_special:
        lost = np.where(np.asarray(high) < np.inf, POSITIVE_INFINITY, 0) | np.where(np.asarray(low) > -np.inf, NEGATIVE_INFINITY, 0)
        gone = (lost | bits).astype(np.uint8)
        special = special & ~np.broadcast_to(gone, special.shape)
        nothing = (special == 0) & empty
        special = np.where(nothing | crossed, x.special, special)
    if bool((least == x.low).all()) and bool((most == x.high).all()) and bool((special == x.special).all()):
        return x
    return _keeping(x, x.replace(least, most, special))


def _both(x: Range, y: Range) -> Range:
    """Two ranges of the same tensor at once."""
    if x.shape != y.shape:
        return x
    met = x.meet(y)
    return x if bool((met.low > met.high).any()) else _keeping(x, met)


def _keeping(x: Range, narrower: Range) -> Range:
    """The same tensor: what relates its elements still holds."""
    narrower.norm, narrower.form = x.norm, x.form
    return narrower
