"""f(x) as f(clamp(x, low, high)), with the numbers that the analysis of the operator gives: the widest interval without failure."""

from __future__ import annotations

import libcst as cst

from tensorproof.repair.source.drafting import Draft
from tensorproof.repair.source.repair import Repair

#: The operators of the graph, and how a program calls them.
_CALLED = {
    **{name.capitalize(): (name,) for name in ("acos", "asin", "acosh", "atanh", "sinh", "cosh", "exp", "log", "sqrt", "tan")},
    **{name.capitalize(): (name,) for name in ("exp2", "expm1", "log1p", "log2", "log10", "rsqrt")},
    "Div": ("divide",),
    "Pow": ("power",),
    "Reciprocal": ("reciprocal", "divide"),
}


def operand_guard(op: str, place: int, low: float | None, high: float | None, *, rule: str, safe: bool, why: str) -> Repair | None:
    """The guard of the operand at a place of an operator; None for operators that programs do not write as one function."""
    names = _CALLED.get(op)
    if names is None or (place > 0 and op != "Div"):
        return None

    def rewrite(node: cst.BaseExpression, draft: Draft) -> None:
        found = draft.reader.operation(node, *names)
        if found is None or found.through or draft.library(found) != "torch":
            return
        operand = found.arguments["y" if place or (op, found.name) == ("Reciprocal", "divide") else "x"]
        if draft.reader.number(operand) is None:
            ends = [None if end is None else _literal(end, draft) for end in (low, high)]
            draft.replace(operand, draft.clamped(operand, found, low=ends[0], high=ends[1]))

    return Repair("operand-clamp", safe, why, frozenset({rule}), rewrite)


def _literal(value: float, draft: Draft) -> str:
    """The shortest decimal number that is this number of the format."""
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return str(draft.format.dtype.type(value)) if draft.format.dtype.kind == "f" else repr(float(value))
