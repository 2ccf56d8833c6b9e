"""1 / (1 + exp(-x)) as sigmoid(x).

The exponential overflows below x = -88 in float32. The quotient is 0 there, as it should be, but its derivative is 0 * inf = NaN.
"""

from __future__ import annotations

import libcst as cst

from tensorproof.repair.source.drafting import Draft, atom
from tensorproof.repair.source.reading import Operation
from tensorproof.repair.source.repair import Repair


def _rewrite(node: cst.BaseExpression, draft: Draft) -> None:
    below = _below_one(node, draft)
    plus_one = None if below is None else draft.reader.added_to_one(below)
    exponential = None if plus_one is None else draft.reader.operation(plus_one.operand, "exp")
    if plus_one is None or exponential is None or exponential.library != "torch":
        return
    inside = draft.reader.negated(exponential.operand)
    if inside is None:
        x = draft.minus(draft.operand(plus_one, exponential, name="exponent"))
    else:
        x = draft.operand(plus_one, exponential, Operation("negative", exponential.operand, {"x": inside}), name="exponent")
    draft.replace(node, f"{atom(x)}.sigmoid()" if exponential.is_method else draft.call("torch.sigmoid", exponential, x))


def _below_one(node: cst.BaseExpression, draft: Draft) -> cst.BaseExpression | None:
    """The d of 1 / d."""
    found = draft.reader.operation(node, "divide", "reciprocal")
    if found is None or found.through:
        return None
    if found.name == "reciprocal":
        return found.operand
    return found.arguments["y"] if draft.reader.number(found.operand) == 1 else None


SIGMOID = Repair(
    "sigmoid",
    True,
    "sigmoid is the same function, and takes no exponential that overflows.",
    frozenset({"NUM201", "NUM202", "NUM403", "NUM404"}),
    _rewrite,
)
