"""sqrt(x) as sqrt(max(x, tiny)), and sqrt(exp(s)) as exp(s / 2).

The root of a negative number is NaN, and the derivative 1 / (2 sqrt(x)) is infinite at 0. Below the smallest normal number of
the format the root is held constant, and its derivative there is 0; above it nothing changes.

sqrt(exp(s)) = exp(s / 2) in exact arithmetic. The right side overflows at twice the s, and its derivative is finite
wherever it is.
"""

from __future__ import annotations

import libcst as cst

from tensorproof.repair.source.drafting import Draft, atom
from tensorproof.repair.source.exceptions import NotSure
from tensorproof.repair.source.reading import Operation
from tensorproof.repair.source.repair import Repair

_RULES = frozenset({"NUM102", "NUM103", "NUM104"})


def unguarded_root(node: cst.BaseExpression, draft: Draft) -> Operation | None:
    """A square root, or its reciprocal, of what nothing keeps away from zero; raises `NotSure` if something does."""
    root = draft.reader.operation(node, "sqrt", "rsqrt", "power")
    if root is None or draft.reader.number(root.operand) is not None:
        return None
    if root.name == "power" and draft.reader.number(root.arguments["y"]) not in (0.5, -0.5):
        return None
    if root.library is None and not draft.is_tried and not draft.is_tensor(root.operand):
        raise NotSure(f"{draft.code(root.operand)} is not surely a tensor")
    if draft.reader.operation(root.operand, "clamp", "maximum", extra=frozenset({"min", "max"})) is not None:
        raise NotSure("the operand of the root is bounded below already")
    total = draft.reader.operation(root.operand, "add")
    if total is not None and any(_is_epsilon(term, draft) for term in total.arguments.values()):
        raise NotSure("a constant is added under the root already")
    return root


def _is_epsilon(node: cst.BaseExpression, draft: Draft) -> bool:
    """Whether a term is a constant, or is named like one."""
    return draft.reader.number(node) is not None or "eps" in draft.code(node).rpartition(".")[2].lower()


def guarded(root: Operation, draft: Draft) -> str:
    """The root with its operand kept at or above the smallest normal number of its format."""
    library = draft.library(root)
    # NumPy has no derivatives, and its arrays may be of integers: of a root only negative operands are in question.
    low = "0" if library == "numpy" and root.name == "sqrt" else draft.limit("tiny", root.operand, library)
    operand = draft.at_least(root.operand, low, root, library)
    if root.library is None:
        return f"({operand} ** {draft.code(root.arguments['y'])})"
    arguments = draft.arguments(root)
    if root.function is None:
        return f"{operand}.{'pow' if root.name == 'power' else root.name}({arguments.removeprefix(', ')})"
    return f"{draft.code(root.function)}({operand}{arguments})"


def _clamp(node: cst.BaseExpression, draft: Draft) -> None:
    root = unguarded_root(node, draft)
    if root is not None:
        draft.replace(node, guarded(root, draft))


def _halve(node: cst.BaseExpression, draft: Draft) -> None:
    root = draft.reader.operation(node, "sqrt")
    exponential = None if root is None else draft.reader.operation(root.operand, "exp")
    if root is None or exponential is None or exponential.library is None:
        return
    half = f"{atom(draft.operand(exponential, name='exponent'))} / 2"
    if exponential.is_method:
        draft.replace(node, f"({half}).exp()")
    else:
        module = {"torch": "torch", "tensorflow": "tensorflow.math", "jax": "jax.numpy", "numpy": "numpy"}[exponential.library]
        draft.replace(node, draft.call(f"{module}.exp", exponential, half))


ROOT_OF_EXPONENTIAL = Repair(
    "root-of-exponential",
    True,
    "Half of the exponent is the root of the exponential; it overflows later, and its derivative is finite.",
    _RULES | {"NUM201"},
    _halve,
)
SQUARE_ROOT = Repair(
    "square-root",
    False,
    "The operand is kept at or above the smallest normal number of its format, where the root and its derivative are finite.",
    _RULES,
    _clamp,
)
