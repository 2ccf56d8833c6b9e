"""Which of two tensors is not smaller than the other, element by element and as computed, by the structure of the graph.

A proof is a chain of inequalities a <= t <= ... <= b. Each step holds in floating point because rounding is monotone: what is
not smaller exactly is not smaller after rounding. So fl(c + d) >= c where d >= 0, a computed sum of terms that are not
negative is not smaller than any of them, in any order, fl(c d) <= c where c >= 0 and 0 <= d <= 1, and a maximum is one of its
operands. What a step needs to know of numbers (d >= 0) is a condition on ranges, asked when the node is evaluated.

Broadcasting is no obstacle: aligned from the right, an element meets the same partner however many steps it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.formats import Format
from tensorproof.graph import Node
from tensorproof.idioms.structure import RESHAPING, Structure
from tensorproof.idioms.terms import NOTHING, Term, axes_of, clipped, maximum_of, meets_its_row, signed_total, stripped, total
from tensorproof.operators.table import Call
from tensorproof.ranges.range import Range

#: Chains longer than this are not looked for; nor are more than `_MOST` proofs of one inequality.
_DEEPEST = 7
_MOST = 4
_REDUCTIONS = ("ReduceMax", "ReduceMin", "ReduceSum", "ReduceL1", "ReduceLogSumExp")
_MAXIMA = frozenset({"Max", "Min", "Relu", "Abs", "Clip", "Where"})
_SUMS = frozenset({"Add", "Sub", "Sum"})
_IN_ONE_STEP = frozenset({*_SUMS, "Mul"})
#: Reductions, and what may stand between them and the elements that they meet.
_OVER_ELEMENTS = frozenset({*_REDUCTIONS, *RESHAPING, "Max", "Where", "Add"})


@dataclass(frozen=True, slots=True)
class Condition:
    """What ranges must say for a proof to hold."""

    reads: tuple[int, ...]
    holds: Callable[..., bool]


@dataclass(frozen=True, slots=True)
class Proof:
    """a <= b (1 + u)^ulps under conditions.

    `chained` says that all terms of the proof lie between a and b; `steps` counts them.
    """

    conditions: tuple[Condition, ...] = ()
    ulps: float = 0.0
    steps: int = 1
    chained: bool = True

    def given(self, *conditions: Condition) -> Proof:
        """The proof with one more step, under more conditions."""
        return Proof(self.conditions + conditions, self.ulps, self.steps + 1, self.chained)

    def holds(self, ranges: Mapping[int, Range]) -> bool:
        return all(condition.holds(*(ranges[value] for value in condition.reads)) for condition in self.conditions)

    def slack(self, call: Call, format: Format) -> tuple[float, float] | None:
        """How far a may exceed b as computed: relative to the larger magnitude of both, and absolute. None: by any amount.

        Where a target keeps 16-bit chains in float32, two readers of a value see it rounded or not, so that each step may
        lose one rounding, and terms must lie between the ends for their roundings to be bounded by them.
        """
        relative, absolute = self.ulps * format.unit_roundoff, 0.0
        if call.target.keeps_chains_wide and format.bits < 32:
            if not self.chained:
                return None
            relative += 2.0 * (self.steps + 1) * format.unit_roundoff
            absolute += (self.steps + 1) * format.smallest_subnormal
        return relative * (1.0 + 2.0**-8), absolute


def reads_of(proofs: Sequence[Proof], *values: int) -> tuple[int, ...]:
    """The values that these proofs, and a claim about these values, read."""
    found = dict.fromkeys(values)
    for proof in proofs:
        for condition in proof.conditions:
            found.update(dict.fromkeys(condition.reads))
    return tuple(found)


def proofs_of(graph: Structure, a: Term, b: Term) -> list[Proof]:
    """Ways to show that a <= b, wherever the two meet."""
    return list(_Order(graph).at_most(a, b, _DEEPEST))


def is_above(term: Term, least: float) -> Condition:
    """term >= least, by its range."""
    if term.sign > 0:
        return Condition((term.value,), lambda x: _low(x) >= least)
    return Condition((term.value,), lambda x: _high(x) <= -least)


def _low(x: Range) -> float:
    return float(x.extended()[0].min(initial=np.inf)) if x.has_special else x.hull()[0]


def _high(x: Range) -> float:
    return float(x.extended()[1].max(initial=-np.inf)) if x.has_special else x.hull()[1]


class _Order:
    """The search for proofs."""

    def __init__(self, graph: Structure) -> None:
        self.graph = graph

    def at_most(self, a: Term, b: Term, depth: int) -> Iterator[Proof]:
        return islice(self._search(a, b, depth), _MOST)

    def _search(self, a: Term, b: Term, depth: int) -> Iterator[Proof]:
        a, b = stripped(self.graph, a), stripped(self.graph, b)
        if a.sign < 0 and b.sign < 0:
            a, b = -b, -a
        if (a.sign == b.sign or a.value == NOTHING) and self.graph.same(a.value, b.value):
            yield Proof()
            return
        if depth == 0:
            return
        if a.value == NOTHING:
            yield Proof((is_above(b, 0.0),))
            return
        if b.value == NOTHING or self.graph.constant(a.value) is not None:
            # Ranges say as much about the node itself, unless the constant is only one of the operands of a step.
            if depth < _DEEPEST:
                yield Proof((_interval(a, b),))
            return
        below, above = self._operator_of(a), self._operator_of(b)
        # Steps that need no numbers come first: only a few proofs are kept.
        if below == above and above in ("Relu", "Cast"):
            yield from self._alike(a, b, depth)
        if above in _OVER_ELEMENTS:
            yield from self._under_reduction(a, b, depth)
        if below in _OVER_ELEMENTS:
            # min(x) <= x is -x <= -min(x), the maximum of the negatives.
            yield from self._under_reduction(-b, -a, depth)
        if below in _IN_ONE_STEP or above in _IN_ONE_STEP:
            yield from self._in_one_step(a, b)
        if below in _MAXIMA or above in _MAXIMA:
            yield from self._under_maximum(a, b, depth)
        if above == "Sqrt":
            yield from self._under_root(a, b)
        if below in _SUMS or above in _SUMS:
            yield from self._under_sum(a, b, depth)
        if below == "Mul":
            yield from self._under_product(a, b, depth)

    def _operator_of(self, term: Term) -> str:
        """What made a value: each step is tried only where its operator stands."""
        node = self.graph.producer(term.value)
        return "" if node is None or node.domain else node.op

    def _both(self, first: Iterator[Proof], second: Iterator[Proof], *conditions: Condition) -> Iterator[Proof]:
        """Two exact inequalities at once; terms of the one need not lie between those of the other."""
        later: list[Proof] | None = None
        for one in first:
            later = [proof for proof in second if not proof.ulps] if later is None else later
            if one.ulps:
                continue
            for other in later:
                yield Proof((*one.conditions, *other.conditions, *conditions), 0.0, one.steps + other.steps + 1, False)

    def _in_one_step(self, a: Term, b: Term) -> Iterator[Proof]:
        """b = a + d with d >= 0, a = b + d with d <= 0, and a = c d with 0 <= d <= 1, where b >= 0 is c or a maximum of c.

        `_under_sum` and `_under_product` say the same, but may have found as many proofs as are kept before they come to these.
        """
        for whole, part, sign in ((b, a, 1), (a, b, -1)):
            terms = signed_total(self.graph, whole)
            for one, other in () if terms is None else (terms, terms[::-1]):
                if self._is_same(one, part):
                    yield Proof().given(is_above(other if sign > 0 else -other, 0.0))
        product = self.graph.producer(a.value, "Mul")
        if product is None:
            return
        largest = b, *maximum_of(self.graph, b)
        for one, other in (product.inputs, product.inputs[::-1]):
            if any(self._is_same(Term(one, a.sign), term) for term in largest):
                yield Proof().given(_is_share(other), is_above(b, 0.0))

    def _is_same(self, a: Term, b: Term) -> bool:
        a, b = stripped(self.graph, a), stripped(self.graph, b)
        return a.sign == b.sign and self.graph.same(a.value, b.value)

    def _under_maximum(self, a: Term, b: Term, depth: int) -> Iterator[Proof]:
        """A maximum is not smaller than any operand, and not larger than what none of them exceeds; a minimum likewise."""
        for operand in maximum_of(self.graph, b):
            yield from (proof.given() for proof in self.at_most(a, operand, depth - 1))
        for operand in maximum_of(self.graph, -a):
            yield from (proof.given() for proof in self.at_most(-operand, b, depth - 1))
        operands = maximum_of(self.graph, a) or clipped(self.graph, a)
        if len(operands) == 2:
            yield from self._both(self.at_most(operands[0], b, depth - 1), self.at_most(operands[1], b, depth - 1))
        elif len(operands) == 1:
            yield from (proof.given() for proof in self.at_most(operands[0], b, depth - 1))

    def _under_sum(self, a: Term, b: Term, depth: int) -> Iterator[Proof]:
        """fl(c + d) >= c where d >= 0, fl(c + d) <= c where d <= 0, and fl(p + q) <= fl(c + d) where p <= c and q <= d."""
        above, below = signed_total(self.graph, b), signed_total(self.graph, a)
        if above is not None and below is not None:
            for one, other in (above, above[::-1]):
                yield from self._both(self.at_most(below[0], one, depth - 1), self.at_most(below[1], other, depth - 1))
        if above is not None:
            for one, other in (above, above[::-1]):
                yield from (proof.given(is_above(other, 0.0)) for proof in self.at_most(a, one, depth - 1))
        if below is not None:
            for one, other in (below, below[::-1]):
                yield from (proof.given(is_above(-other, 0.0)) for proof in self.at_most(one, b, depth - 1))

    def _under_product(self, a: Term, b: Term, depth: int) -> Iterator[Proof]:
        """fl(c d) <= max(c, 0) where 0 <= d <= 1, and fl(p q) <= fl(c d) where 0 <= p <= c and 0 <= q <= d."""
        node = self.graph.producer(a.value, "Mul")
        if node is None:
            return
        p, q = node.inputs
        above = self.graph.producer(b.value, "Mul")
        if above is not None and a.sign > 0 and b.sign > 0:
            signs = is_above(Term(p), 0.0), is_above(Term(q), 0.0)
            for c, d in (above.inputs, above.inputs[::-1]):
                yield from self._both(self.at_most(Term(p), Term(c), depth - 1), self.at_most(Term(q), Term(d), depth - 1), *signs)
        for one, other in ((p, q), (q, p)):
            for proof in self.at_most(Term(one, a.sign), b, depth - 1):
                yield proof.given(_is_share(other), is_above(b, 0.0))

    def _under_reduction(self, a: Term, b: Term, depth: int) -> Iterator[Proof]:
        """A maximum or a sum of absolute values over axes, met by its own elements; sums of the same shape term by term.

        That sums of ordered terms are ordered assumes that a runtime adds tensors of one shape in one order.
        """
        origin, unguarded = behind_guards(self.graph, b.value)
        reduced = self.graph.producer(origin, *_REDUCTIONS)
        if reduced is None or b.sign * (-1 if reduced.op == "ReduceMin" else 1) < 0:
            return
        axes = axes_of(self.graph, reduced)
        if axes is None:
            return
        inner = reduced.inputs[0]

        def met(x: Range, within: Range, r: Range) -> bool:
            if reduced.op == "ReduceSum" and not _low(x) >= 0.0:
                return False
            # In 16 bits ONNX Runtime may take log(sum(exp(x))) without the maximum (`reduce_log_sum_exp`).
            exact = reduced.op != "ReduceLogSumExp" or x.format.bits >= 32
            return exact and meets_its_row(x, within, r, axes)

        # The logarithm of a sum is rounded beside a maximum that is exact.
        ulps = 4.0 if reduced.op == "ReduceLogSumExp" else 0.0
        for base in dict.fromkeys((inner, self.graph.origin(inner))):
            condition = Condition((base, inner, b.value), met)
            for term in (Term(base, b.sign), *((Term(base, -1),) if reduced.op == "ReduceL1" else ())):
                for proof in self.at_most(a, term, depth - 1):
                    yield Proof((*proof.conditions, *unguarded, condition), proof.ulps + ulps, proof.steps + 1, proof.chained)
        below = self.graph.producer(a.value, "ReduceSum")
        if below is None or reduced.op != "ReduceSum" or reduced.outputs[0] != b.value or a.sign < 0:
            return
        if axes_of(self.graph, below) == axes and below.attributes.get("keepdims", 1) == reduced.attributes.get("keepdims", 1):
            alike = Condition((below.inputs[0], inner), lambda x, y: x.has_known_shape and x.shape == y.shape)
            for proof in self.at_most(Term(below.inputs[0]), Term(inner), depth - 1):
                if not proof.ulps:
                    yield Proof((*proof.conditions, alike), 0.0, proof.steps + 1, False)

    def _under_root(self, a: Term, b: Term) -> Iterator[Proof]:
        """|a| <= sqrt(a^2 + d) with d above the smallest normal number.

        A square is at least a^2 (1 - 8 u) (4 units of the last place), or so small that sqrt(d) is larger; adding d >= 0
        does not make it smaller, and the root of both halves its error.
        """
        root = self.graph.producer(b.value, "Sqrt")
        if root is None or b.sign < 0:
            return
        terms = total(self.graph, root.inputs[0])
        if terms is None:
            return
        for square, rest in (terms, terms[::-1]):
            base = square_of(self.graph, square.value) if square.sign > 0 else None
            if base is not None and rest.sign > 0 and self.graph.same(base[0], a.value):
                guard = Condition((rest.value,), lambda x: _low(x) >= x.format.smallest_normal)
                yield Proof((*base[1], guard), 8.0)

    def _alike(self, a: Term, b: Term, depth: int) -> Iterator[Proof]:
        """Relu and Cast round monotonically: the order of their operands is theirs."""
        one, other = self.graph.producer(a.value, "Relu", "Cast"), self.graph.producer(b.value, "Relu", "Cast")
        if one is None or other is None or one.op != other.op or a.sign != b.sign:
            return
        if one.op == "Cast" and one.attributes.get("to") != other.attributes.get("to"):
            return
        same = one.op == "Relu"

        def comparable(x: Range, y: Range) -> bool:
            return x.format.is_float and x.format is y.format and (x.format.bits >= 32 or same)

        alike = Condition((one.inputs[0], other.inputs[0]), comparable)
        for proof in self.at_most(Term(one.inputs[0], a.sign), Term(other.inputs[0], b.sign), depth - 1):
            if same or not proof.ulps:
                yield Proof((*proof.conditions, alike), proof.ulps, proof.steps + 1, False)


def _is_share(value: int) -> Condition:
    return Condition((value,), lambda x: _low(x) >= 0.0 and _high(x) <= 1.0)


def _interval(a: Term, b: Term) -> Condition:
    """a <= b by their ranges alone, one of them a constant or zero."""
    if b.value == NOTHING:
        return is_above(-a, 0.0)

    def holds(x: Range, y: Range) -> bool:
        top = _high(x) if a.sign > 0 else -_low(x)
        return top <= (_low(y) if b.sign > 0 else -_high(y))

    return Condition((a.value, b.value), holds)


def square_of(graph: Structure, value: int) -> tuple[int, tuple[Condition, ...]] | None:
    """The base of a square, and what must hold for it to be one."""
    node = graph.producer(value, "Mul", "Pow")
    if node is None:
        return None
    base, other = node.inputs
    if node.op == "Mul":
        return (base, ()) if graph.same(base, other) else None
    two = Condition((other,), lambda x: _low(x) == 2.0 and _high(x) == 2.0)
    return base, (two,)


def behind_guards(graph: Structure, value: int) -> tuple[int, tuple[Condition, ...]]:
    """The value behind reshapes and guards against infinities, and what must hold for them to let it pass unchanged.

    Frameworks write Max(m, -inf) for an empty maximum, and Where(is_finite(m), m, 0) for one that is infinite; tf2onnx writes
    Where(c, m, z) as c m + (1 - c) z.
    """
    conditions: list[Condition] = []
    while True:
        value = graph.origin(value)
        node = graph.producer(value, "Max", "Where", "Add")
        step = None if node is None else _guarded(graph, node)
        if step is None:
            return value, tuple(conditions)
        value = step[0]
        conditions.extend(step[1:])


def _guarded(graph: Structure, node: Node) -> tuple[int, *tuple[Condition, ...]] | None:
    """What a guard lets pass, and when."""
    if node.op == "Where":
        return node.inputs[1], Condition((node.inputs[0],), lambda x: _low(x) >= 1.0)
    if len(node.inputs) != 2:
        return None
    for value, other in (node.inputs, node.inputs[::-1]):
        if node.op == "Max" and _is_minus_infinity(graph.constant(other)):
            return value, Condition((other,), lambda x: _high(x) == -np.inf)
        product = graph.producer(value, "Mul") if node.op == "Add" else None
        if product is None:
            continue
        nothing = Condition((other,), lambda x: _low(x) == _high(x) == 0.0)
        for switch, passed in (product.inputs, product.inputs[::-1]):
            if graph.producer(switch, "Cast") is not None:
                return passed, nothing, Condition((switch,), lambda x: _low(x) == _high(x) == 1.0)
    return None


def _is_minus_infinity(array: npt.NDArray[Any] | None) -> bool:
    return array is not None and array.size == 1 and array.dtype.kind == "f" and bool(np.isneginf(array).all())
