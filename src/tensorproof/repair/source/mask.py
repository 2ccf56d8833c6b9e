"""The number that masks an entry before a softmax: the lowest of the format instead of -inf, -1e9 or -10000.

A row that is masked entirely with -inf gives inf - inf = NaN in softmax, and -1e9 is -inf in float16. With the lowest number of
the format such a row gives equal weights; in every other row a masked entry gives exp(lowest - maximum) = 0, as with -inf.
-10000 is not low enough to give 0 next to scores of that size.

Where the number is added to the scores, (1 - mask) * c, half of the lowest is taken: the lowest plus a negative score would
be -inf again.
"""

from __future__ import annotations

import libcst as cst

from tensorproof.repair.source.drafting import Draft
from tensorproof.repair.source.functions import Library
from tensorproof.repair.source.repair import Repair

_HIGHEST = -1e4


def _rewrite(node: cst.BaseExpression, draft: Draft) -> None:
    found = draft.reader.operation(node, "masked_fill", "where", "multiply", extra=frozenset({"mask", "value", "condition"}))
    if found is None or found.through:
        return
    library = draft.library(found)
    if found.name == "multiply":
        _rewrite_product(found.arguments["x"], found.arguments["y"], library, draft)
        _rewrite_product(found.arguments["y"], found.arguments["x"], library, draft)
    elif found.name == "masked_fill" and "value" in found.arguments:
        _rewrite_choice(found.operand, found.arguments["value"], library, draft)
    elif found.name == "where" and "y" in found.arguments:
        _rewrite_choice(found.operand, found.arguments["y"], library, draft)
        _rewrite_choice(found.arguments["y"], found.operand, library, draft)


def _rewrite_choice(scores: cst.BaseExpression, value: cst.BaseExpression, library: Library, draft: Draft) -> None:
    number = draft.reader.number(value)
    if number is not None and number <= _HIGHEST:
        draft.replace(value, draft.limit("min", scores, library))


def _rewrite_product(mask: cst.BaseExpression, value: cst.BaseExpression, library: Library, draft: Draft) -> None:
    number = draft.reader.number(value)
    if number is None or number > _HIGHEST or draft.reader.complement(mask) is None:
        return
    scores = _added_to(draft)
    # A mask may be of integers: without the scores only the format of the finding is known.
    lowest = draft.limit("min", value if scores is None else scores, library)
    draft.replace(value, f"({lowest} / 2)")


def _halve(node: cst.BaseExpression, draft: Draft) -> None:
    found = draft.reader.operation(node, "multiply")
    if found is None or found.through or draft.library(found) != "torch":
        return
    for mask, value in ((found.operand, found.arguments["y"]), (found.arguments["y"], found.operand)):
        if draft.reader.complement(mask) is not None and _is_lowest(value, draft):
            draft.replace(value, f"({draft.code(value)} / 2)")


def _is_lowest(node: cst.BaseExpression, draft: Draft) -> bool:
    """Whether an expression is `torch.finfo(...).min`."""
    if not isinstance(node, cst.Attribute) or node.attr.value != "min" or not isinstance(node.value, cst.Call):
        return False
    return draft.reader.qualified(node.value.func) == "torch.finfo"


def _added_to(draft: Draft) -> cst.BaseExpression | None:
    """What the masked product is added to, if that is written around it."""
    around = draft.reader.parsed.parents.get(draft.node)
    if not isinstance(around, cst.BinaryOperation) or not isinstance(around.operator, cst.Add):
        return None
    return around.left if around.right is draft.node else around.right


HALVED_MASK = Repair(
    "halved-mask-constant",
    False,
    "Half of the lowest number of the format masks as well, and a negative score can be added to it.",
    frozenset({"NUM108", "NUM109", "NUM202"}),
    _halve,
    anywhere=True,
)
MASK = Repair(
    "mask-constant",
    False,
    "The lowest number of the format masks as -inf does, and a row that is masked entirely stays finite.",
    frozenset({"NUM108", "NUM109", "NUM202", "NUM204", "NUM205"}),
    _rewrite,
    anywhere=True,
)
