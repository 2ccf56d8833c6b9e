"""acos(x), asin(x) and acosh(x) with their operand inside of their domain, or inside of its edges, too.

Outside of [-1, 1] the first two are NaN. At -1 and 1 they are finite and their derivative, 1 / sqrt(1 - x^2), is infinite. A
cosine that is 1 up to rounding reaches both. That of acosh, 1 / sqrt(x^2 - 1), is infinite at 1, the lower end of its domain.
"""

from __future__ import annotations

import libcst as cst

from tensorproof.repair.source.drafting import Draft
from tensorproof.repair.source.exceptions import NotSure
from tensorproof.repair.source.reading import Operation
from tensorproof.repair.source.repair import Repair

#: How far the operand stays away from the edges: a few roundings of 1.
_MARGINS = {"float64": "1e-12", "float32": "1e-6", "float16": "1e-3", "bfloat16": "1e-2"}
_CLAMPS = frozenset({"min", "max"})


def _inverse(node: cst.BaseExpression, draft: Draft) -> Operation | None:
    found = draft.reader.operation(node, "acos", "asin")
    return None if found is None or found.through or draft.library(found) != "torch" else found


def _inside_domain(node: cst.BaseExpression, draft: Draft) -> None:
    found = _inverse(node, draft)
    if found is None:
        return
    if draft.reader.operation(found.operand, "clamp", extra=_CLAMPS) is not None:
        raise NotSure("the operand is bounded already")
    draft.replace(node, draft.again(found, draft.clamped(found.operand, found, low="-1", high="1")))


def _inside_edges(node: cst.BaseExpression, draft: Draft) -> None:
    found = draft.reader.operation(node, "acos", "asin", "acosh")
    if found is None or found.through or draft.library(found) != "torch":
        return
    margin = _MARGINS[draft.format.name]
    bounded = draft.reader.operation(found.operand, "clamp", extra=_CLAMPS)
    if bounded is not None and bounded.through:
        raise NotSure("the operand is bounded already, on another line")
    inner = found.operand if bounded is None else bounded.operand
    low, high = (f"1 + {margin}", None) if found.name == "acosh" else (f"-1 + {margin}", f"1 - {margin}")
    draft.replace(node, draft.again(found, draft.clamped(inner, bounded or found, low=low, high=high)))


INSIDE_DOMAIN = Repair(
    "inside-domain",
    True,
    "Only operands outside of [-1, 1], where the function has no value, are moved.",
    frozenset({"NUM105"}),
    _inside_domain,
)
INSIDE_EDGES = Repair(
    "inside-edges",
    False,
    "The operand stays away from the edges of the domain, where the derivative is infinite; there the result differs, and its "
    "derivative is 0.",
    frozenset({"NUM105", "NUM402"}),
    _inside_edges,
)
