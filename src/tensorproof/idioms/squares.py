"""Products of a tensor with itself."""

from __future__ import annotations

import numpy as np

from tensorproof.graph import Node
from tensorproof.idioms.claims import Claim, idiom
from tensorproof.idioms.structure import Structure
from tensorproof.idioms.terms import Term, stripped
from tensorproof.operators.table import Call
from tensorproof.ranges.range import Range


@idiom("Mul")
def square(graph: Structure, node: Node) -> Claim | None:
    """x * x lies between the least and the largest square, and is not negative; x * -x is its negative.

    The exact square is at least 0, which is a number of every format, and rounding is monotone: the computed square lies
    between the squares of the ends rounded outwards. If a target keeps 16-bit chains in float32, both factors
    may be rounded differently, which keeps their sign and changes each by one rounding.
    """
    a, b = (stripped(graph, Term(value)) for value in node.inputs)
    if not graph.same(a.value, b.value):
        return None
    positive = a.sign == b.sign

    def bound(call: Call, x: Range) -> Range | None:
        format = x.format
        if not format.is_float or x.shape is None:
            return None
        least, most = x.low**2, x.high**2
        straddles = (x.low <= 0.0) & (x.high >= 0.0)
        low, high = np.where(straddles, 0.0, np.minimum(least, most)), np.maximum(least, most)
        if call.target.keeps_chains_wide and format.bits < 32:
            slack = 4.0 * format.unit_roundoff
            low = np.maximum(low * (1.0 - slack) - format.smallest_subnormal, 0.0)
            high = high * (1.0 + slack) + format.smallest_subnormal
        low, high = format.round_down(low), format.round_up(high)
        if call.target.flushes_results:
            low = np.where(low < format.smallest_normal, 0.0, low)
        return x.replace(low, high, None) if positive else x.replace(-high, -low, None)

    return Claim("square", (a.value,), bound)
