"""where(c, f(x), y) as where(c, f(where(c, x, 1)), y): the branch that is not selected is computed from a harmless number.

The result of the branch is dropped where it is not selected, but its derivative is not: it is multiplied by 0, and 0 * inf is NaN.
With a number at which f and its derivative are finite, the product is 0. Where the branch is selected nothing changes.
"""

from __future__ import annotations

import libcst as cst

from tensorproof.repair.source.drafting import Draft, atom
from tensorproof.repair.source.exceptions import NotSure
from tensorproof.repair.source.reading import Operation
from tensorproof.repair.source.repair import Repair

#: Functions that fail somewhere, with a number at which they and their derivatives are finite.
_HARMLESS = {
    **dict.fromkeys(("log", "log2", "log10", "sqrt", "rsqrt", "reciprocal"), "1.0"),
    **dict.fromkeys(("log1p", "exp", "exp2", "expm1", "acos", "asin", "atanh", "sinh", "cosh", "tan"), "0.0"),
    "acosh": "2.0",
}
#: Functions that a failing one may be inside of: they are looked through, down from the branch.
_AROUND = ("add", "subtract", "multiply", "negative", "clamp", "sum", "mean", "abs", "square", "power", "divide")
_ARGUMENTS = frozenset({"axis", "keepdims", "min", "max"})
#: How deep a branch is looked into.
_DEEPEST = 6


def _rewrite(node: cst.BaseExpression, draft: Draft) -> None:
    choice = draft.reader.operation(node, "where", extra=frozenset({"condition"}))
    if choice is None or choice.through or choice.function is None or choice.library != "torch" or "y" not in choice.arguments:
        return
    condition = choice.arguments["condition"]
    draft.readers.append(node)
    for branch, is_first in ((choice.arguments["x"], True), (choice.arguments["y"], False)):
        for operand, harmless in _failing(branch, draft):
            if not _is_cheap(condition):
                raise NotSure("the condition would be computed twice; give it a name on a line of its own")
            _refuse_guarded(operand, draft)
            chosen = f"{draft.code(operand)}, {harmless}" if is_first else f"{harmless}, {draft.code(operand)}"
            draft.replace(operand, draft.call("torch.where", choice, f"{draft.code(condition)}, {chosen}"))


def _failing(node: cst.BaseExpression, draft: Draft, depth: int = 0) -> list[tuple[cst.BaseExpression, str]]:
    """The operands below a branch at which a function of it fails, each with a harmless number."""
    found = draft.reader.operation(node, *_HARMLESS, *_AROUND, extra=_ARGUMENTS)
    if found is None or depth > _DEEPEST:
        return []
    _follow(found, draft)
    if found.name in _HARMLESS:
        # What is inside fails first: log1p(exp(x)) is finite wherever exp(x) is.
        return _failing(found.operand, draft, depth + 1) or [(found.operand, _HARMLESS[found.name])]
    if found.name == "divide" and draft.reader.number(found.arguments["y"]) is None:
        return [(found.arguments["y"], "1.0")]
    if found.name == "power" and not _is_whole(found, draft):
        return [(found.operand, "1.0")]
    inner = (found.arguments[name] for name in ("x", "y") if name in found.arguments)
    return [place for argument in inner for place in _failing(argument, draft, depth + 1)]


def _follow(found: Operation, draft: Draft) -> None:
    """Note the assignments between the choice and the function; a name that others read must keep its value for them."""
    for definition in found.through:
        if definition not in draft.through:
            draft.through.append(definition)
        if draft.reader.follower.other_users(definition, [draft.node, definition.statement]):
            raise NotSure(f"{definition.name} has other users, for which it must stay as it is")


def _is_whole(power: Operation, draft: Draft) -> bool:
    """Whether the exponent is a whole number that is not negative: such a power is finite, and so is its derivative."""
    exponent = draft.reader.number(power.arguments["y"])
    return exponent is not None and exponent >= 0 and exponent == int(exponent)


def _is_cheap(condition: cst.BaseExpression) -> bool:
    """Whether a condition may be written twice: names and comparisons of them."""
    return isinstance(condition, cst.Name | cst.Attribute | cst.Comparison | cst.Subscript)


def _refuse_guarded(operand: cst.BaseExpression, draft: Draft) -> None:
    if draft.reader.operation(operand, "where", extra=frozenset({"condition"})) is not None:
        raise NotSure(f"{atom(draft.code(operand))} is chosen by a condition already")


CHOICE = Repair(
    "choice-before-function",
    True,
    "The branch is computed from a harmless number where it is not selected, so that its derivative there is 0 instead of NaN.",
    frozenset({"NUM401", "NUM402", "NUM403", "NUM404"}),
    _rewrite,
)
