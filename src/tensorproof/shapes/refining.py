"""Conditions that tell something: `if x.dim() == 3`, `if mask is not None`, `isinstance(x, tuple)`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

from tensorproof.shapes import expressions
from tensorproof.shapes.joining import alternatives, choice
from tensorproof.shapes.run import Run
from tensorproof.shapes.shape import Shape, meet, of_rank
from tensorproof.shapes.sizes import unknown
from tensorproof.shapes.values import Frame, Instance, ListValue, Tensor, Unknown, Value


def refine(run: Run, frame: Frame, test: ast.expr, holds: bool) -> None:
    """Narrow the names that a condition speaks of, given its outcome."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        refine(run, frame, test.operand, not holds)
    elif isinstance(test, ast.BoolOp):
        # All parts hold of `and`; none of `or` that is false.
        if isinstance(test.op, ast.And) == holds:
            for part in test.values:
                refine(run, frame, part, holds)
    elif isinstance(test, ast.Compare) and len(test.ops) == 1:
        _compared(run, frame, test, holds)
    elif isinstance(test, ast.Name | ast.Attribute):
        _keep(run, frame, test, lambda value: expressions.truth(run, value) is not (not holds))
    elif isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id == "isinstance" and len(test.args) == 2:
        names = {
            part.id if isinstance(part, ast.Name) else part.attr
            for part in ast.walk(test.args[1])
            if isinstance(part, ast.Name | ast.Attribute)
        }
        _keep(run, frame, test.args[0], lambda value: _is_kind(value, names) is not (not holds))


def _is_kind(value: Value, names: set[str]) -> bool | None:
    """Whether a value is of a type with one of the names; None where that is not known."""
    kinds = {
        "tuple": tuple,
        "list": ListValue,
        "str": str,
        "int": int,
        "float": float,
        "Tensor": Tensor,
        "ndarray": Tensor,
    }
    if isinstance(value, Unknown | Instance):
        return None
    if any(name in kinds and isinstance(value, kinds[name]) for name in names):
        return True
    return False if names <= kinds.keys() else None


def _keep(run: Run, frame: Frame, node: ast.expr, wanted: Callable[[Value], bool]) -> None:
    """Drop alternatives that the condition rules out."""
    value = _current(run, frame, node)
    parts = alternatives(value)
    if len(parts) < 2:
        return
    kept = [part for part in parts if wanted(part)]
    if kept and len(kept) < len(parts):
        _set(run, frame, node, choice(kept))


def _compared(run: Run, frame: Frame, test: ast.Compare, holds: bool) -> None:
    operator, left, right = test.ops[0], test.left, test.comparators[0]
    if isinstance(operator, ast.Is | ast.IsNot) and isinstance(right, ast.Constant) and right.value is None:
        is_none = isinstance(operator, ast.Is) == holds
        _keep(run, frame, left, lambda value: isinstance(value, Unknown) or (value is None) == is_none)
        return
    equal = (isinstance(operator, ast.Eq) and holds) or (isinstance(operator, ast.NotEq) and not holds)
    if not equal:
        _keep_by_rank(run, frame, left, right, operator, holds)
        return
    wanted = expressions.evaluate(run, frame, right)
    owner, axis = _asked(left)
    if owner is None:
        if isinstance(wanted, str | int | float | bool):
            _keep(run, frame, left, lambda value: isinstance(value, Unknown) or value == wanted)
        return
    if not isinstance(wanted, int):
        return
    for_rank = axis is None
    value = _current(run, frame, owner)
    narrowed: list[Value] = []
    for part in alternatives(value):
        if isinstance(part, Tensor):
            known = of_rank(wanted) if for_rank else _with_axis(axis or 0, wanted)
            met = meet(part.shape, known)
            if met is not None:
                narrowed.append(replace(part, shape=met))
        else:
            narrowed.append(part)
    if narrowed:
        _set(run, frame, owner, choice(narrowed))


def _keep_by_rank(run: Run, frame: Frame, left: ast.expr, right: ast.expr, operator: ast.cmpop, holds: bool) -> None:
    owner, axis = _asked(left)
    if owner is None or axis is not None:
        return
    wanted = expressions.evaluate(run, frame, right)
    excluded = (isinstance(operator, ast.Eq) and not holds) or (isinstance(operator, ast.NotEq) and holds)
    if isinstance(wanted, int) and excluded:
        _keep(run, frame, owner, lambda value: not isinstance(value, Tensor) or value.shape.rank != wanted)


def _with_axis(axis: int, size: int) -> Shape:
    if axis >= 0:
        return Shape((*(unknown() for _ in range(axis)), size), ())
    return Shape((), (size, *(unknown() for _ in range(-axis - 1))))


def _asked(node: ast.expr) -> tuple[ast.expr | None, int | None]:
    """The tensor that an expression asks for its rank (axis None) or for the size of an axis."""
    if isinstance(node, ast.Attribute) and node.attr == "ndim":
        return node.value, None
    if isinstance(node, ast.Call):
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr in ("dim", "ndimension") and not node.args:
            return function.value, None
        if isinstance(function, ast.Attribute) and function.attr == "size" and len(node.args) == 1:
            axis = _integer(node.args[0])
            return (function.value, axis) if axis is not None else (None, None)
        if isinstance(function, ast.Name) and function.id == "len" and len(node.args) == 1:
            shape = node.args[0]
            if isinstance(shape, ast.Attribute) and shape.attr == "shape":
                return shape.value, None
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        axis = _integer(node.slice)
        if axis is not None:
            return node.value.value, axis
    return None, None


def _integer(node: ast.expr) -> int | None:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError):
        return None
    return value if isinstance(value, int) else None


def _current(run: Run, frame: Frame, node: ast.expr) -> Value:
    return expressions.evaluate(run, frame, node) if isinstance(node, ast.Name | ast.Attribute) else None


def _set(run: Run, frame: Frame, node: ast.expr, value: Value) -> None:
    if isinstance(node, ast.Name):
        if node.id in frame.slots:
            run.trail.write(frame, node.id, value)
    elif isinstance(node, ast.Attribute):
        owner = expressions.evaluate(run, frame, node.value)
        if isinstance(owner, Instance) and node.attr in owner.slots:
            run.trail.write(owner, node.attr, value)
