"""Quotients by counts, which are zero or at least one."""

from __future__ import annotations

import numpy as np

from tensorproof.graph import Node
from tensorproof.idioms.claims import Claim, idiom
from tensorproof.idioms.structure import Structure
from tensorproof.operators.table import Call
from tensorproof.ranges.range import Range

#: Operators that give whole numbers if all their operands are whole.
_KEEP = frozenset(
    {"Add", "Sub", "Mul", "Sum", "Concat", "ReduceSum", "ReduceMax", "ReduceMin", "Max", "Min", "Neg", "Abs", "Where"}
    | {"Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Expand", "Slice", "Gather"}
)
#: Of these only the first operand counts: others say sizes, axes and positions.
_FIRST = _KEEP - {"Add", "Sub", "Mul", "Sum", "Concat", "Max", "Min", "Where"}
#: Operators whose results are whole, or truth values.
_WHOLE = frozenset(
    {"Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal", "Not", "And", "Or", "Xor", "IsNaN", "IsInf"}
    | {"ArgMax", "ArgMin", "Shape", "Size", "NonZero", "Round", "Floor", "Ceil", "Sign"}
)
#: Nodes that are looked at behind a divisor.
_DEPTH = 12


@idiom("Div", "tensorproof::DivNoNan")
def quotient_by_a_count(graph: Structure, node: Node) -> Claim | None:
    """|a / n| <= |a| for a whole number n that is not 0: sum(x mask) / count. A division that is 0 where n is 0 stays within, too.

    A number that is made of truth values or integers by sums and products is whole as computed, too: below the rounding unit's
    inverse such sums and products are exact, and all numbers of a format above that are whole. Rounding keeps |a / n| <= |a|,
    because |a| is a number of the format.
    """
    dividend, divisor = node.inputs
    info = graph.model.values[node.outputs[0]]
    if info.format is not None and not info.format.is_float:
        return None
    if not _is_whole(graph, divisor, 0):
        return None

    def bound(call: Call, x: Range) -> tuple[float, float] | None:
        low, high = x.hull()
        if x.any_special or low > high:
            return None
        # A negative count turns the sign.
        return -max(abs(low), abs(high)), max(abs(low), abs(high))

    return Claim("quotient-by-a-count", (dividend,), bound)


def _is_whole(graph: Structure, value: int, depth: int) -> bool:
    info = graph.model.values[value]
    if info.format is not None and not info.format.is_float:
        return True
    array = graph.constant(value)
    if array is not None:
        return value not in graph.model.weights and array.dtype.kind == "f" and bool((array == np.round(array)).all())
    node = graph.producer(value)
    if node is None or node.domain or depth > _DEPTH:
        return False
    if node.op in _WHOLE:
        return True
    if node.op == "Cast":
        return _is_whole(graph, node.inputs[0], depth + 1)
    if node.op not in _KEEP:
        return False
    operands = node.inputs[:1] if node.op in _FIRST else node.inputs[1:] if node.op == "Where" else node.inputs
    return all(_is_whole(graph, number, depth + 1) for number in operands)
