"""Expressions: an abstract value for each kind of syntax."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tensorproof.shapes import attributes, calls, iteration, python_types, refining, subscripts
from tensorproof.shapes.arithmetic import binary, compare, unary
from tensorproof.shapes.joining import alternatives, over_alternatives
from tensorproof.shapes.run import MOST_UNROLLED, Run
from tensorproof.shapes.sizes import Polynomial, bounds
from tensorproof.shapes.values import (
    UNKNOWN,
    ClassValue,
    DictValue,
    Frame,
    FunctionValue,
    Instance,
    Iterator,
    Library,
    ListValue,
    NativeObject,
    SetValue,
    Slice,
    Tensor,
    Value,
)

Handler = Callable[[Run, Frame, Any], Value]
_HANDLERS: dict[type[ast.expr], Handler] = {}


def _handles(*kinds: type[ast.expr]) -> Callable[[Handler], Handler]:
    def declare(function: Handler) -> Handler:
        for kind in kinds:
            _HANDLERS[kind] = function
        return function

    return declare


def evaluate(run: Run, frame: Frame, node: ast.expr) -> Value:
    """The value of an expression in a frame."""
    run.step()
    handler = _HANDLERS.get(type(node))
    return UNKNOWN if handler is None else handler(run, frame, node)


# -- names and constants ----------------------------------------------------------------------------------------------


@_handles(ast.Constant)
def _constant(run: Run, frame: Frame, node: ast.Constant) -> Value:
    return node.value


@_handles(ast.Name)
def _name(run: Run, frame: Frame, node: ast.Name) -> Value:
    return look_up(frame, node.id)


def look_up(frame: Frame, name: str) -> Value:
    """The value of a name: local, enclosing functions, module, Python's own."""
    place: Frame | None = frame
    while place is not None:
        # Names of a class body are not seen from its methods.
        if name in place.slots and (place is frame or not place.is_class):
            return place.slots[name]
        place = place.outer
    return python_types.builtin(name)


def bind_name(run: Run, frame: Frame, name: str, value: Value) -> None:
    """Assign to a name where `global` and `nonlocal` say it lives."""
    owner = frame.slots.get("__outer__", {}).get(name, frame)
    run.trail.write(owner, name, value)


@_handles(ast.JoinedStr)
def _formatted(run: Run, frame: Frame, node: ast.JoinedStr) -> Value:
    text = ""
    for part in node.values:
        if isinstance(part, ast.Constant):
            text += str(part.value)
        elif isinstance(part, ast.FormattedValue):
            value = evaluate(run, frame, part.value)
            if part.format_spec is not None or not isinstance(value, str | int | float | bool) or not text.isprintable():
                return UNKNOWN
            text += str(value)
    return text


@_handles(ast.NamedExpr)
def _walrus(run: Run, frame: Frame, node: ast.NamedExpr) -> Value:
    value = evaluate(run, frame, node.value)
    bind_name(run, frame, node.target.id, value)
    return value


# -- displays ---------------------------------------------------------------------------------------------------------


def _elements(run: Run, frame: Frame, nodes: list[ast.expr]) -> tuple[Value, ...] | None:
    found: list[Value] = []
    known = True
    for node in nodes:
        if isinstance(node, ast.Starred):
            spread = iteration.iterate(run, evaluate(run, frame, node.value)).items
            known = known and spread is not None
            found.extend(spread or ())
        else:
            found.append(evaluate(run, frame, node))
    return tuple(found) if known else None


@_handles(ast.Tuple)
def _tuple(run: Run, frame: Frame, node: ast.Tuple) -> Value:
    items = _elements(run, frame, node.elts)
    return UNKNOWN if items is None else items


@_handles(ast.List)
def _list(run: Run, frame: Frame, node: ast.List) -> Value:
    return ListValue(_elements(run, frame, node.elts))


@_handles(ast.Set)
def _set(run: Run, frame: Frame, node: ast.Set) -> Value:
    return SetValue(_elements(run, frame, node.elts))


@_handles(ast.Dict)
def _dict(run: Run, frame: Frame, node: ast.Dict) -> Value:
    entries: dict[Value, Value] = {}
    known = True
    for key_node, value_node in zip(node.keys, node.values, strict=True):
        value = evaluate(run, frame, value_node)
        if key_node is None:
            if isinstance(value, DictValue) and value.entries is not None:
                entries.update(value.entries)
            else:
                known = False
            continue
        key = evaluate(run, frame, key_node)
        if python_types.is_key(key):
            entries[key] = value
        else:
            known = False
    return DictValue(entries) if known else DictValue(None)


@_handles(ast.Slice)
def _slice(run: Run, frame: Frame, node: ast.Slice) -> Value:
    parts = [None if part is None else evaluate(run, frame, part) for part in (node.lower, node.upper, node.step)]
    return Slice(*parts)


@_handles(ast.Lambda)
def _lambda(run: Run, frame: Frame, node: ast.Lambda) -> Value:
    return calls.make_function(run, frame, node)


@_handles(ast.Yield)
def _yield(run: Run, frame: Frame, node: ast.Yield) -> Value:
    value = None if node.value is None else evaluate(run, frame, node.value)
    frame.slots.setdefault("__yields__", []).append(value)
    return UNKNOWN


@_handles(ast.YieldFrom)
def _yield_from(run: Run, frame: Frame, node: ast.YieldFrom) -> Value:
    over = iteration.iterate(run, evaluate(run, frame, node.value))
    frame.slots.setdefault("__yields__", []).extend(over.items if over.items is not None else [over.element])
    return UNKNOWN


@_handles(ast.Await)
def _await(run: Run, frame: Frame, node: ast.Await) -> Value:
    evaluate(run, frame, node.value)
    return UNKNOWN


# -- operators --------------------------------------------------------------------------------------------------------


@_handles(ast.BinOp)
def _binary(run: Run, frame: Frame, node: ast.BinOp) -> Value:
    return binary(run, frame, node, node.op, evaluate(run, frame, node.left), evaluate(run, frame, node.right))


@_handles(ast.UnaryOp)
def _unary(run: Run, frame: Frame, node: ast.UnaryOp) -> Value:
    operand = evaluate(run, frame, node.operand)
    if isinstance(node.op, ast.Not):
        holds = truth(run, operand)
        return UNKNOWN if holds is None else not holds
    place = run.place(frame, node)
    return over_alternatives(lambda value: unary(node.op, value, place), operand)


@_handles(ast.BoolOp)
def _bool(run: Run, frame: Frame, node: ast.BoolOp) -> Value:
    """Operands in order until one decides; behind an undecided one any of the rest may be the result."""
    decides = isinstance(node.op, ast.Or)
    possible: list[Value] = []
    for operand in node.values:
        value = evaluate(run, frame, operand)
        holds = truth(run, value)
        last = operand is node.values[-1]
        if holds is decides or last:
            possible.append(value)
            break
        if holds is None:
            possible.append(value)
    result = possible[0]
    for value in possible[1:]:
        result = run.join(result, value)
    return result


@_handles(ast.Compare)
def _compare(run: Run, frame: Frame, node: ast.Compare) -> Value:
    left = evaluate(run, frame, node.left)
    answer: Value = True
    for operator, right_node in zip(node.ops, node.comparators, strict=True):
        right = evaluate(run, frame, right_node)
        part = over_alternatives(lambda a, b, operator=operator: compare(run, frame, node, operator, a, b), left, right)
        if part is False:
            return False
        answer = part if answer is True else UNKNOWN
        left = right
    return answer


@_handles(ast.IfExp)
def _conditional(run: Run, frame: Frame, node: ast.IfExp) -> Value:
    holds = truth(run, evaluate(run, frame, node.test))
    if holds is not None:
        return evaluate(run, frame, node.body if holds else node.orelse)
    mark = run.trail.mark()
    refining.refine(run, frame, node.test, True)
    body = evaluate(run, frame, node.body)
    run.trail.undo(mark)
    refining.refine(run, frame, node.test, False)
    orelse = evaluate(run, frame, node.orelse)
    run.trail.undo(mark)
    return run.join(body, orelse)


def truth(run: Run, value: Value) -> bool | None:
    """Whether a value is true in the sense of Python; None where that is not known."""
    answers = {_truth(part) for part in alternatives(value)}
    return answers.pop() if len(answers) == 1 else None


def _truth(value: Value) -> bool | None:
    if value is None or isinstance(value, bool | int | float | str | bytes | tuple):
        return bool(value)
    if isinstance(value, Polynomial):
        low, high = bounds(value)
        return True if low > 0 or high < 0 else None
    if isinstance(value, ListValue):
        return None if value.items is None else bool(value.items)
    if isinstance(value, DictValue):
        return None if value.entries is None else bool(value.entries)
    if isinstance(value, FunctionValue | ClassValue | Library | NativeObject):
        return None if isinstance(value, Library) else True
    if isinstance(value, Instance):
        return True if not any("__bool__" in c.slots or "__len__" in c.slots for c in [value.cls]) else None
    return value.content if isinstance(value, Tensor) and isinstance(value.content, bool) else None


# -- attributes, elements, calls --------------------------------------------------------------------------------------


@_handles(ast.Attribute)
def _attribute(run: Run, frame: Frame, node: ast.Attribute) -> Value:
    owner = evaluate(run, frame, node.value)
    return over_alternatives(lambda value: attributes.get_attribute(run, frame, node, value, node.attr), owner)


@_handles(ast.Subscript)
def _subscript(run: Run, frame: Frame, node: ast.Subscript) -> Value:
    owner = evaluate(run, frame, node.value)
    index = evaluate(run, frame, node.slice)
    if subscripts.are_tensors(owner):
        return subscripts.get_item(run, frame, node, owner, index)
    return over_alternatives(lambda a, b: subscripts.get_item(run, frame, node, a, b), owner, index)


@_handles(ast.Call)
def _call(run: Run, frame: Frame, node: ast.Call) -> Value:
    if isinstance(node.func, ast.Name) and node.func.id == "super" and "super" not in frame.slots:
        return calls.super_of(frame, [evaluate(run, frame, argument) for argument in node.args])
    function = evaluate(run, frame, node.func)
    arguments = _elements(run, frame, node.args)
    keywords: dict[str, Value] = {}
    known = arguments is not None
    for keyword in node.keywords:
        value = evaluate(run, frame, keyword.value)
        if keyword.arg is not None:
            keywords[keyword.arg] = value
        elif isinstance(value, DictValue) and value.entries is not None:
            keywords.update({str(key): entry for key, entry in value.entries.items()})
        else:
            known = False
    if arguments is None and len(node.args) == 1 and function is python_types.builtin("zip"):
        return python_types.transposed(iteration.iterate(run, evaluate(run, frame, node.args[0].value)))  # pyright: ignore[reportAttributeAccessIssue]
    if not known or arguments is None:
        return calls.call_with_unknown_arguments(run, frame, node, function)
    return calls.call(run, frame, node, function, arguments, keywords)


# -- comprehensions ---------------------------------------------------------------------------------------------------


@_handles(ast.ListComp, ast.GeneratorExp, ast.SetComp)
def _comprehension(run: Run, frame: Frame, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> Value:
    found, known, length = _comprehended(run, frame, node.generators, lambda inner: evaluate(run, inner, node.elt))
    if isinstance(node, ast.SetComp):
        return SetValue(found if known else None)
    element = iteration.any_of(run, tuple(found)) if found and not known else UNKNOWN
    if isinstance(node, ast.GeneratorExp):
        return Iterator(found if known else None, element)
    return ListValue(found if known else None, element, length)


@_handles(ast.DictComp)
def _dict_comprehension(run: Run, frame: Frame, node: ast.DictComp) -> Value:
    def pair(inner: Frame) -> Value:
        return (evaluate(run, inner, node.key), evaluate(run, inner, node.value))

    found, known, _ = _comprehended(run, frame, node.generators, pair)
    pairs = [entry for entry in found if isinstance(entry, tuple)]
    if known and all(python_types.is_key(key) for key, _ in pairs):
        return DictValue({pair[0]: pair[1] for pair in pairs})
    return DictValue(None, iteration.any_of(run, tuple(value for _, value in pairs)) if pairs else UNKNOWN)


def _comprehended(
    run: Run, frame: Frame, generators: list[ast.comprehension], element: Callable[[Frame], Value]
) -> tuple[list[Value], bool, Value]:
    """The elements, and whether they are all of them, in order; else each stands for any number, or for the length given."""
    from tensorproof.shapes.statements import assign

    inner = Frame(frame.module, frame, frame.function)
    found: list[Value] = []
    known = True
    length: Value = UNKNOWN

    def nest(level: int) -> None:
        nonlocal known, length
        if level == len(generators):
            found.append(element(inner))
            return
        generator = generators[level]
        over = iteration.iterate(run, evaluate(run, inner, generator.iter))
        if over.items is None or len(over.items) > MOST_UNROLLED * 8:
            known = False
            if len(generators) == 1 and not generator.ifs:
                length = len(over.items) if over.items is not None else UNKNOWN if over.length is None else over.length
            items: tuple[Value, ...] = (over.element if over.items is None else iteration.any_of(run, over.items),)
        else:
            items = over.items
        for item in items:
            run.step()
            assign(run, inner, generator.target, item)
            answers = [truth(run, evaluate(run, inner, test)) for test in generator.ifs]
            if False in answers:
                continue
            known = known and None not in answers
            nest(level + 1)

    nest(0)
    return found, known, length


def catches_errors(manager: Value) -> bool:
    """Whether a context manager swallows what is raised inside: `pytest.raises`, `suppress`."""
    if isinstance(manager, NativeObject):
        return False
    return isinstance(manager, Library) and manager.path.rpartition(".")[2] in ("raises", "assertRaises", "suppress")
