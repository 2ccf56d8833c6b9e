"""Operators of Python on abstract values: numbers, sequences, text, and tensors (which the table of rules knows)."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from tensorproof.shapes import applying, calls
from tensorproof.shapes.joining import over_alternatives
from tensorproof.shapes.problems import Place
from tensorproof.shapes.rule_table import RULES, ShapeRule
from tensorproof.shapes.run import Run
from tensorproof.shapes.sizes import Polynomial, divide_exactly, less, same
from tensorproof.shapes.values import (
    UNKNOWN,
    DictValue,
    DType,
    Frame,
    Instance,
    ListValue,
    NativeObject,
    Recipe,
    Tensor,
    Unknown,
    Value,
)

#: Longer results of `"a" * n` and `[0] * n` are not built.
LONGEST = 10_000

_NAMES: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
}
_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "lshift": operator.lshift,
    "rshift": operator.rshift,
}


def binary(
    run: Run,
    frame: Frame,
    node: ast.BinOp | ast.AugAssign,
    kind: ast.operator,
    left: Value,
    right: Value,
    *,
    in_place: bool = False,
) -> Value:
    """`left kind right`; in place means that the left operand cannot change its shape."""
    name = _NAMES[type(kind)]
    if isinstance(left, Tensor) or isinstance(right, Tensor) or _holds_tensor(left) or _holds_tensor(right):
        return _tensors(run, frame, node, name, left, right, in_place)
    return over_alternatives(lambda a, b: _plain(run, frame, node, name, a, b), left, right)


def _holds_tensor(value: Value) -> bool:
    from tensorproof.shapes.joining import alternatives

    return any(isinstance(part, Tensor) for part in alternatives(value))


def _tensors(
    run: Run, frame: Frame, node: ast.BinOp | ast.AugAssign, name: str, left: Value, right: Value, in_place: bool
) -> Value:
    """An operator between arrays: the rule of its library (`torch.Tensor.__add__`) checks and gives the shape."""
    for operand, other in ((left, right), (right, left)):
        method = calls.own_method(operand, f"__{name}__" if operand is left else f"__r{name}__")
        if method is not None:
            return calls.call(run, frame, node, method, (other,), {})
    framework = next(part.framework for value in (left, right) for part in _parts(value) if isinstance(part, Tensor))
    rule_name = f"{framework}.__{'i' if in_place else ''}{name}__"
    if rule_name not in RULES:
        # Arrays that cannot be changed are bound anew.
        rule_name = f"{framework}.__{name}__"
    rule = RULES.get(rule_name)
    if rule is None:
        return UNKNOWN
    return applying.apply_rule(run, run.place(frame, node), rule, rule_name, (left, right), {})


def _parts(value: Value) -> tuple[Value, ...]:
    from tensorproof.shapes.joining import alternatives

    return alternatives(value)


def _plain(run: Run, frame: Frame, node: ast.BinOp | ast.AugAssign, name: str, left: Value, right: Value) -> Value:
    if isinstance(left, Instance | NativeObject) or isinstance(right, Instance | NativeObject):
        return _overloaded(run, frame, node, name, left, right)
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return UNKNOWN
    if isinstance(left, ListValue) and isinstance(right, ListValue) and name == "add":
        known = left.items is not None and right.items is not None
        return ListValue((*(left.items or ()), *(right.items or ())) if known else None)
    if isinstance(left, ListValue) and name == "mul":
        count = right if isinstance(right, int) else None
        if left.items is not None and count is not None and len(left.items) * count <= LONGEST:
            return ListValue(left.items * count)
        element = left.items[0] if left.items is not None and len(left.items) == 1 else UNKNOWN
        return ListValue(None, element, right if isinstance(right, int | Polynomial) and element is not UNKNOWN else UNKNOWN)
    if isinstance(left, DictValue) and isinstance(right, DictValue) and name == "or":
        known_both = left.entries is not None and right.entries is not None
        return DictValue({**(left.entries or {}), **(right.entries or {})} if known_both else None)
    return _constants(name, left, right)


def _constants(name: str, left: Value, right: Value) -> Value:
    numbers = (int, float, Polynomial, complex)
    if isinstance(left, Polynomial) or isinstance(right, Polynomial):
        if not isinstance(left, int | Polynomial) or not isinstance(right, int | Polynomial):
            return UNKNOWN
        if name == "truediv":
            exact = divide_exactly(left, right)
            return exact if isinstance(exact, int) or (isinstance(exact, Polynomial) and exact.is_whole) else UNKNOWN
        if name == "pow":
            return left * left if right == 2 else left if right == 1 else UNKNOWN
        return _FUNCTIONS[name](left, right) if name in ("add", "sub", "mul", "floordiv", "mod") else UNKNOWN
    if isinstance(left, numbers) and isinstance(right, numbers):
        if name == "pow" and (abs(left) > 1e6 or abs(right) > 64):
            return UNKNOWN
        if name == "lshift" and not (isinstance(right, int) and 0 <= right < 64):
            return UNKNOWN
    elif (name == "mul" and not _short(left, right)) or not isinstance(left, str | bytes | tuple | int | float | complex):
        return UNKNOWN
    if name not in _FUNCTIONS or (isinstance(left, str) and name == "mod" and not _printable(right)):
        return UNKNOWN
    try:
        return _FUNCTIONS[name](left, right)
    except (TypeError, ValueError, ArithmeticError):
        return UNKNOWN


def _short(left: Value, right: Value) -> bool:
    for sequence, count in ((left, right), (right, left)):
        if isinstance(sequence, str | bytes | tuple) and isinstance(count, int):
            return len(sequence) * count <= LONGEST
    return False


def _printable(value: Value) -> bool:
    parts = value if isinstance(value, tuple) else (value,)
    return all(isinstance(part, str | int | float) for part in parts)


def _overloaded(run: Run, frame: Frame, node: ast.BinOp | ast.AugAssign, name: str, left: Value, right: Value) -> Value:
    for operand, other, method_name in ((left, right, f"__{name}__"), (right, left, f"__r{name}__")):
        method = calls.own_method(operand, method_name)
        if method is not None:
            return calls.call(run, frame, node, method, (other,), {})
    return UNKNOWN


def _signed(input: Tensor) -> Tensor:
    return input.with_shape(input.shape, contiguous=input.contiguous, new_axes=input.new_axes)


#: What the recipes of `-x` and `~x` name.
NEGATION = ShapeRule(("__neg__",), _signed)
INVERSION = ShapeRule(("__invert__",), _signed)


def unary(kind: ast.unaryop, value: Value, place: Place) -> Value:
    """`-x`, `+x`, `~x`."""
    if isinstance(value, Tensor):
        if isinstance(kind, ast.UAdd):
            return value
        rule = INVERSION if isinstance(kind, ast.Invert) else NEGATION
        return _signed(value).evolved(recipe=Recipe(rule, f"{value.framework}.{rule.names[0]}", (value,), (), place))
    if isinstance(value, Polynomial | int | float | complex):
        if isinstance(kind, ast.USub):
            return -value
        if isinstance(kind, ast.Invert):
            return -int(value) - 1 if isinstance(value, int) else UNKNOWN
        return value
    return UNKNOWN


# -- comparison -------------------------------------------------------------------------------------------------------


def compare(run: Run, frame: Frame, node: ast.Compare, kind: ast.cmpop, left: Value, right: Value) -> Value:
    """A comparison: True, False, a tensor of bools, or unknown."""
    if isinstance(kind, ast.Is | ast.IsNot):
        same_object = _identical(left, right)
        return UNKNOWN if same_object is None else same_object == isinstance(kind, ast.Is)
    if isinstance(kind, ast.In | ast.NotIn):
        inside = _contains(right, left)
        return UNKNOWN if inside is None else inside == isinstance(kind, ast.In)
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        return _compared_tensors(run, frame, node, kind, left, right)
    if isinstance(kind, ast.Eq | ast.NotEq):
        equal = equals(left, right)
        return UNKNOWN if equal is None else equal == isinstance(kind, ast.Eq)
    return _ordered(kind, left, right)


def _compared_tensors(run: Run, frame: Frame, node: ast.Compare, kind: ast.cmpop, left: Value, right: Value) -> Value:
    known_left, known_right = _content(left), _content(right)
    if known_left is not None and known_right is not None:
        return UNKNOWN
    framework = left.framework if isinstance(left, Tensor) else right.framework if isinstance(right, Tensor) else "numpy"
    rule_name = f"{framework}.__{'equal' if isinstance(kind, ast.Eq | ast.NotEq) else 'compare'}__"
    rule = RULES.get(rule_name)
    return UNKNOWN if rule is None else applying.apply_rule(run, run.place(frame, node), rule, rule_name, (left, right), {})


def _content(value: Value) -> Value:
    return value.content if isinstance(value, Tensor) else value


def equals(left: Value, right: Value) -> bool | None:
    """Whether two values are equal; None where that is not known."""
    if isinstance(left, int | Polynomial) and isinstance(right, int | Polynomial):
        return same(left, right)
    if isinstance(left, tuple | ListValue) and isinstance(right, tuple | ListValue):
        return _equal_sequences(left, right)
    if isinstance(left, DType) and isinstance(right, DType):
        return left.name == right.name if left.name and right.name else None
    plain = (str, int, float, bool, bytes, type(None))
    if isinstance(left, plain) and isinstance(right, plain):
        return left == right
    if left is None or right is None:
        return None if isinstance(left, Unknown) or isinstance(right, Unknown) else False
    return None


def _equal_sequences(left: tuple[Value, ...] | ListValue, right: tuple[Value, ...] | ListValue) -> bool | None:
    first = left if isinstance(left, tuple) else left.items
    second = right if isinstance(right, tuple) else right.items
    if first is None or second is None:
        return None
    if len(first) != len(second):
        return False
    answers = [equals(a, b) for a, b in zip(first, second, strict=True)]
    return False if False in answers else None if None in answers else True


def _identical(left: Value, right: Value) -> bool | None:
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return None
    if left is None or right is None:
        return left is right
    if isinstance(left, bool) and isinstance(right, bool):
        return left is right
    return True if left is right else None


def _contains(container: Value, item: Value) -> bool | None:
    if isinstance(container, str) and isinstance(item, str):
        return item in container
    items: tuple[Value, ...] | None = None
    if isinstance(container, tuple):
        items = container
    elif isinstance(container, ListValue):
        items = container.items
    elif isinstance(container, DictValue) and container.entries is not None:
        items = tuple(container.entries)
    if items is None:
        return None
    answers = [equals(item, other) for other in items]
    return True if True in answers else None if None in answers else False


def _ordered(kind: ast.cmpop, left: Value, right: Value) -> Value:
    if isinstance(left, int | Polynomial) and isinstance(right, int | Polynomial):
        answer: bool | None
        if isinstance(kind, ast.Lt | ast.GtE):
            answer = less(left, right)
            positive = isinstance(kind, ast.Lt)
        else:
            answer = less(right, left)
            positive = isinstance(kind, ast.Gt)
        return UNKNOWN if answer is None else answer == positive
    if (
        isinstance(left, int | float | str)
        and isinstance(right, int | float | str)
        and isinstance(left, str) == isinstance(right, str)
    ):
        functions = {ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge}
        return bool(functions[type(kind)](left, right))  # pyright: ignore[reportArgumentType]
    return UNKNOWN
