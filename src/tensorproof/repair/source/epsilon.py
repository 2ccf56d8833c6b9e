"""An epsilon that is lost in its format, replaced by one that is not: the distance from 1 to the next number.

A constant below half of the smallest number of a format (3e-8 in float16) rounds to zero. One below half of the distance from 1
to the next number (6e-8 in float32, 5e-4 in float16) is lost in 1 + c, and so in 1 + c - p, which is 0 at p = 1.
"""

from __future__ import annotations

import libcst as cst

from tensorproof.repair.source.drafting import Draft
from tensorproof.repair.source.exceptions import NotSure
from tensorproof.repair.source.repair import Repair

_LARGEST = 1e-4
#: Constants whose reciprocal squared is far from the end of the format.
_ENOUGH = {"float64": "1e-100", "float32": "1e-12", "bfloat16": "1e-12", "float16": "1e-2"}
#: Rules that say of a constant that it is lost.
_SAY_SO = frozenset({"NUM301", "NUM302"})


def _rewrite(node: cst.BaseExpression, draft: Draft) -> None:
    bounded = draft.reader.operation(node, "clamp", "maximum", extra=frozenset({"min", "max"}))
    if bounded is not None and not bounded.through:
        low = bounded.arguments.get("min", bounded.arguments.get("y"))
        value = None if low is None else draft.reader.number(low)
        if low is not None and value is not None and 0 < value <= draft.format.smallest_subnormal / 2:
            draft.replace(low, draft.limit("eps", bounded.operand, draft.library(bounded)))
        return
    total = draft.reader.operation(node, "add")
    if total is None or total.through:
        return
    for name, other in (("y", "x"), ("x", "y")):
        constant, rest = total.arguments[name], total.arguments[other]
        value = draft.reader.number(constant)
        if value is not None and 0 < value <= _LARGEST:
            if not _is_lost(value, rest, draft):
                raise NotSure(f"{draft.code(constant)} is not lost in {draft.format.name} there")
            draft.replace(constant, draft.limit("eps", _tensor_near(rest, draft), draft.library(total)))
            return


def _raise(node: cst.BaseExpression, draft: Draft) -> None:
    total = draft.reader.operation(node, "add")
    if total is None or total.through:
        return
    enough = _ENOUGH[draft.format.name]
    for constant in (total.arguments["y"], total.operand):
        value = draft.reader.number(constant)
        if value is not None and 0 < value < float(enough):
            draft.replace(constant, enough)
            return


def _is_lost(value: float, rest: cst.BaseExpression, draft: Draft) -> bool:
    """Whether a constant is lost when it is added to an expression, by its size or by the word of the rule."""
    if value <= draft.format.smallest_subnormal / 2:
        return True
    if value >= 2 * draft.format.unit_roundoff:
        return False
    return draft.rule in _SAY_SO or draft.reader.number(rest) == 1 or draft.reader.complement(rest) is not None


def _tensor_near(rest: cst.BaseExpression, draft: Draft) -> cst.BaseExpression:
    """What the epsilon is for: the rest of the sum, or, in 1 + c - p, the p."""
    if draft.reader.number(rest) is None:
        return rest
    for around in draft.reader.parsed.ancestors(draft.node):
        if isinstance(around, cst.BinaryOperation) and isinstance(around.operator, cst.Add | cst.Subtract):
            return around.right
    return rest


LARGER_EPSILON = Repair(
    "larger-epsilon",
    False,
    "With a larger constant the derivative is finite, too; results near the place of failure differ.",
    frozenset({"NUM403"}),
    _raise,
)
EPSILON = Repair(
    "epsilon-that-survives",
    False,
    "The constant is lost in its format; the distance from 1 to the next number of the format is not.",
    frozenset({"NUM101", "NUM102", "NUM103", "NUM104", "NUM301", "NUM302"}),
    _rewrite,
)
