"""Quotients that are infinite at zero, and capped: min(1 / |x|, 1 / epsilon)."""

from __future__ import annotations

import numpy as np

from tensorproof.graph import ABSENT, Node
from tensorproof.idioms.claims import Claim, Fact, idiom
from tensorproof.idioms.structure import Structure
from tensorproof.operators.table import Call
from tensorproof.ranges.range import POSITIVE_INFINITY, Range
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW
from tensorproof.rules.division_by_zero import DIVISION_BY_ZERO

#: Operators that give +0, never -0, if the first operand has no -0.
_FIRST = frozenset({"Sqrt", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Expand", "Cast"})
_SUMS = frozenset({"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"})
#: The same for all operands together.
_ALL = frozenset({"Concat", "Add", "Sum"})
#: Operators that never give -0.
_NEVER = frozenset({"Abs", "Exp", "Sigmoid", "Softmax", "ReduceL2", "ReduceSumSquare"})
#: Nodes that are looked at behind a divisor.
_DEPTH = 12


@idiom("Div", "Reciprocal")
def capped_quotient(graph: Structure, node: Node) -> Claim | None:
    """min(c / n, d) with c > 0 and a norm n: where n is 0 the quotient is infinite, and the minimum is d.

    So TensorFlow's `clip_by_global_norm` and `keras.ops.normalize` are written. A norm is +0, not -0, where all is zero: squares
    and magnitudes are, and sums and roots of them (IEEE 754-2019, section 6.3). The infinity goes nowhere if all that read the
    quotient are such minima; it is no defect then.
    """
    quotient, divisor = node.outputs[0], node.inputs[-1]
    readers = _readers(graph).get(quotient)
    if not readers or not all(reader.op == "Min" and not reader.domain for reader in readers) or not _is_plus(graph, divisor, 0):
        return None
    caps = [[number for number in reader.inputs if number != quotient] for reader in readers]
    if not all(any(_is_finite(graph, number) for number in others) for others in caps):
        return None
    dividend = () if node.op == "Reciprocal" else (node.inputs[0],)

    def bound(call: Call, divided_by: Range, *divided: Range) -> Fact | None:
        if divided_by.any_special or divided_by.hull()[0] < 0.0:
            return None
        if any(x.any_special or not x.hull()[0] > 0.0 for x in divided):
            return None
        return Fact(None, frozenset({DIVISION_BY_ZERO.code, ARITHMETIC_OVERFLOW.code}), legal=POSITIVE_INFINITY)

    return Claim("capped-quotient", (divisor, *dividend), bound)


def _is_finite(graph: Structure, value: int) -> bool:
    """Whether a value is a number of the program, or a quotient of two, which is finite."""
    array = graph.constant(value)
    if array is not None:
        return value not in graph.model.weights and array.dtype.kind == "f" and bool(np.isfinite(array).all())
    node = graph.producer(value, "Div")
    parts = () if node is None else [graph.constant(number) for number in node.inputs if number not in graph.model.weights]
    if len(parts) != 2 or parts[0] is None or parts[1] is None:
        return False
    with np.errstate(all="ignore"):
        return bool(np.isfinite(parts[0] / parts[1]).all())


def _readers(graph: Structure) -> dict[int, list[Node]]:
    """The nodes that read each value; an output has a reader that is no minimum."""
    known: dict[int, list[Node]] | None = graph.memory.get("readers")
    if known is not None:
        return known
    found: dict[int, list[Node]] = {}
    model = graph.model
    nodes = list(model.graph.walk())
    for node in nodes:
        for number in node.inputs:
            if number != ABSENT:
                found.setdefault(number, []).append(node)
        for body in node.subgraphs():
            for number in body.outputs:
                found.setdefault(number, []).append(node)
    for number in model.graph.outputs:
        found.pop(number, None)
    graph.memory["readers"] = found
    return found


def _is_plus(graph: Structure, value: int, depth: int) -> bool:
    """Whether a value that is zero is +0."""
    node = graph.producer(value)
    if node is None or depth > _DEPTH:
        return False
    if node.op == "EitherOf":
        return _is_plus(graph, node.inputs[0], depth + 1)
    if node.domain:
        return False
    if node.op in _NEVER:
        return True
    if node.op in _FIRST or node.op in _SUMS:
        return _is_plus(graph, node.inputs[0], depth + 1)
    if node.op in _ALL:
        return all(_is_plus(graph, number, depth + 1) for number in node.inputs)
    if node.op == "Mul":
        a, b = node.inputs
        return graph.same(a, b) or any(
            _is_positive(graph, one) and _is_plus(graph, other, depth + 1) for one, other in ((a, b), (b, a))
        )
    return False


def _is_positive(graph: Structure, value: int) -> bool:
    array = graph.constant(value)
    return array is not None and value not in graph.model.weights and array.size > 0 and bool((array > 0).all())
