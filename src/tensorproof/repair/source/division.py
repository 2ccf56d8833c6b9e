"""x / d as x / max(d, eps), for a divisor d that cannot be negative: a norm, a deviation, or a sum of such terms.

A divisor that is 0 is 0 because everything in it is: x / |x| is 0 / 0 at x = 0, and 0 / eps = 0 is what is meant. eps is the
distance from 1 to the next number of the format, so that neither the quotient nor its derivative overflows for x of
ordinary size. For a divisor of unknown sign a lower bound would change its results, and nothing is proposed.

Where the divisor is a root, what is under the root is kept from zero instead: the derivative of the root at 0 is infinite.
"""

from __future__ import annotations

import libcst as cst

from tensorproof.repair.source.drafting import Draft, atom
from tensorproof.repair.source.exceptions import NotSure
from tensorproof.repair.source.repair import Repair
from tensorproof.repair.source.square_root import guarded, unguarded_root

_NOT_NEGATIVE = ("exp", "abs", "square", "softmax", "sigmoid", "relu", "softplus", "sqrt", "norm", "std", "var")
#: How deep the terms of a divisor are looked into, through names: each step may double their number.
_DEEPEST = 8
_CASTS = ("float", "to", "type_as", "half", "double")
_ARGUMENTS = frozenset({"axis", "keepdims", "p", "ord", "correction", "unbiased", "dtype"})


def _rewrite(node: cst.BaseExpression, draft: Draft) -> None:
    quotient = draft.reader.operation(node, "divide")
    if quotient is None:
        return
    divisor = quotient.arguments["y"]
    root = unguarded_root(divisor, draft)
    if root is not None:
        draft.replace(root.node, guarded(root, draft))
        return
    reduced = draft.reader.operation(divisor, "norm", "std", "var", "sum", "mean", extra=_ARGUMENTS)
    if reduced is None:
        return
    if reduced.name in ("sum", "mean") and not _cannot_be_negative(reduced.operand, draft):
        raise NotSure("the sign of the divisor is not known, so that a lower bound could change its results")
    library = draft.library(reduced)
    low = draft.limit("eps", divisor, library)
    if library == "torch":
        draft.replace(divisor, f"{atom(draft.code(divisor))}.clamp_min({low})")
    else:
        draft.replace(divisor, draft.at_least(divisor, low, reduced, library))


def _cannot_be_negative(node: cst.BaseExpression, draft: Draft, depth: int = 0) -> bool:
    """Whether an expression is surely zero or more; a name with `mask` in it is taken for a mask."""
    if depth > _DEEPEST:
        return False
    if isinstance(node, cst.Comparison) or (isinstance(node, cst.Name) and "mask" in node.value.lower()):
        return True
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _CASTS:
        return _cannot_be_negative(node.func.value, draft, depth + 1)
    value = draft.reader.number(node)
    if value is not None:
        return value >= 0
    if draft.reader.operation(node, *_NOT_NEGATIVE, extra=_ARGUMENTS) is not None:
        return True
    found = draft.reader.operation(node, "add", "multiply", "divide", "power", "sum", "mean", extra=_ARGUMENTS)
    if found is None:
        return False
    if found.name == "power":
        exponent = draft.reader.number(found.arguments["y"])
        return exponent is not None and exponent % 2 == 0
    return all(_cannot_be_negative(found.arguments[name], draft, depth + 1) for name in ("x", "y") if name in found.arguments)


DIVISION = Repair(
    "divisor-kept-from-zero",
    False,
    "The divisor, which cannot be negative, is kept from zero; where it was zero the quotient is 0 instead of NaN.",
    frozenset({"NUM103", "NUM110", "NUM112"}),
    _rewrite,
)
