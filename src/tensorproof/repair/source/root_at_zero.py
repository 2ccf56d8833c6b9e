"""Square roots whose derivative at 0 is defined: standard deviations, norms, and roots of what is kept from being negative.

The derivative of sqrt at 0 is infinite, and the derivative of what is below it there is mostly 0: the product is NaN. torch.std and
torch.linalg.vector_norm are the same functions, and their derivative at 0 is 0.
"""

from __future__ import annotations

import libcst as cst

from tensorproof.repair.source.drafting import Draft, bare
from tensorproof.repair.source.reading import Operation
from tensorproof.repair.source.repair import Repair
from tensorproof.repair.source.square_root import unguarded_root

_REDUCED = frozenset({"axis", "keepdims"})
_VARIANCE = _REDUCED | {"correction", "unbiased"}


def _root(node: cst.BaseExpression, draft: Draft) -> Operation | None:
    """A square root, however it is spelled."""
    root = draft.reader.operation(node, "sqrt", "power")
    if root is None or root.through or draft.library(root) != "torch":
        return None
    return None if root.name == "power" and draft.reader.number(root.arguments["y"]) != 0.5 else root


def _deviation(node: cst.BaseExpression, draft: Draft) -> None:
    root = _root(node, draft)
    variance = None if root is None else draft.reader.operation(root.operand, "var", extra=_VARIANCE)
    if variance is None:
        return
    x, arguments = draft.operand(variance, name="samples"), draft.arguments(variance)
    if variance.is_method:
        draft.replace(node, f"{x}.std({arguments.removeprefix(', ')})")
    else:
        draft.replace(node, draft.call("torch.std", variance, bare(x) + arguments))


def _norm(node: cst.BaseExpression, draft: Draft) -> None:
    root = _root(node, draft)
    total = None if root is None else draft.reader.operation(root.operand, "sum", extra=_REDUCED)
    square = None if total is None else _square(total.operand, draft)
    if total is None or square is None:
        return
    x = draft.operand(total, square, name="difference")
    keywords = {"axis": "dim", "keepdims": "keepdim"}
    draft.arguments(total)
    arguments = "".join(f", {keywords[name]}={draft.code(total.arguments[name])}" for name in keywords if name in total.arguments)
    draft.replace(node, draft.call("torch.linalg.vector_norm", total, bare(x) + arguments))


def _square(node: cst.BaseExpression, draft: Draft) -> Operation | None:
    """x^2, also as x * x, as an operation whose operand is x."""
    found = draft.reader.operation(node, "square", "power", "multiply")
    if found is None or found.name == "square":
        return found
    if found.name == "power":
        return found if draft.reader.number(found.arguments["y"]) == 2 else None
    return found if draft.reader.same(found.operand, found.arguments["y"]) else None


def _nonnegative(node: cst.BaseExpression, draft: Draft) -> None:
    root = unguarded_root(node, draft)
    if root is None or root.through or root.name == "rsqrt" or draft.library(root) != "torch":
        return
    if root.name == "power" and draft.reader.number(root.arguments["y"]) != 0.5:
        return
    draft.replace(node, draft.again(root, draft.clamped(root.operand, root, low="0")))


STANDARD_DEVIATION = Repair(
    "standard-deviation",
    True,
    "torch.std is the root of the variance, and its derivative at 0 is 0 instead of infinite.",
    frozenset({"NUM401"}),
    _deviation,
)
VECTOR_NORM = Repair(
    "vector-norm",
    True,
    "torch.linalg.vector_norm is the root of the sum of squares, and its derivative at 0 is 0 instead of infinite.",
    frozenset({"NUM401"}),
    _norm,
)
NONNEGATIVE_ROOT = Repair(
    "root-of-nonnegative",
    True,
    "Only negative operands, whose root is NaN, are moved.",
    frozenset({"NUM102", "NUM104"}),
    _nonnegative,
)
