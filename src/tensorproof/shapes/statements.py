"""Statements: each returns whether the program goes on behind it. `return`, `break` and `continue` leave their state behind."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from tensorproof.shapes import attributes, calls, expressions, imports, iteration, refining, subscripts
from tensorproof.shapes.arithmetic import binary
from tensorproof.shapes.joining import alike, widen
from tensorproof.shapes.run import MOST_UNROLLED, Loop, Raised, Run
from tensorproof.shapes.trail import MISSING, Changes
from tensorproof.shapes.values import (
    NOTHING,
    UNKNOWN,
    ClassValue,
    Frame,
    Library,
    ListValue,
    Tensor,
    Unknown,
    Value,
)

Handler = Callable[[Run, Frame, Any], bool]

#: Loops of no more rounds than this are always run to their end.
FEW_ROUNDS = 4
#: So many rounds that changed nothing are believed, where the body uses the loop's variables.
MANY_ROUNDS = 8

_HANDLERS: dict[type[ast.stmt], Handler] = {}


def _handles(*kinds: type[ast.stmt]) -> Callable[[Handler], Handler]:
    def declare(function: Handler) -> Handler:
        for kind in kinds:
            _HANDLERS[kind] = function
        return function

    return declare


def execute_block(run: Run, frame: Frame, body: Sequence[ast.stmt]) -> bool:
    """Run statements in order; whether the end is reached."""
    for statement in body:  # noqa: SIM110 - a generator would double the depth of the stack
        if not execute(run, frame, statement):
            return False
    return True


def execute(run: Run, frame: Frame, statement: ast.stmt) -> bool:
    """Run one statement; whether the program goes on behind it."""
    run.step()
    handler = _HANDLERS.get(type(statement))
    return True if handler is None else handler(run, frame, statement)


# -- assignments ------------------------------------------------------------------------------------------------------


@_handles(ast.Expr)
def _expression(run: Run, frame: Frame, node: ast.Expr) -> bool:
    expressions.evaluate(run, frame, node.value)
    return True


@_handles(ast.Assign)
def _assign(run: Run, frame: Frame, node: ast.Assign) -> bool:
    value = expressions.evaluate(run, frame, node.value)
    for target in node.targets:
        assign(run, frame, target, value)
        _doubt(run, frame, target, node.value, value)
    return True


def _doubt(run: Run, frame: Frame, target: ast.expr, source: ast.expr, value: Value) -> None:
    """After `a, b = x.shape` with another rank: what follows from the rank of `x` is not told again."""
    if not isinstance(target, ast.Tuple | ast.List) or not isinstance(value, tuple) or len(value) == len(target.elts):
        return
    if isinstance(source, ast.Attribute) and isinstance(source.value, ast.Name):
        tensor = expressions.evaluate(run, frame, source.value)
        starred = any(isinstance(part, ast.Starred) for part in target.elts)
        if isinstance(tensor, Tensor) and not starred:
            expressions.bind_name(run, frame, source.value.id, replace(tensor, suspect=True))


@_handles(ast.AnnAssign)
def _annotated(run: Run, frame: Frame, node: ast.AnnAssign) -> bool:
    if node.value is not None:
        assign(run, frame, node.target, expressions.evaluate(run, frame, node.value))
    return True


@_handles(ast.AugAssign)
def _augmented(run: Run, frame: Frame, node: ast.AugAssign) -> bool:
    left = expressions.evaluate(run, frame, node.target)
    right = expressions.evaluate(run, frame, node.value)
    if isinstance(left, ListValue) and isinstance(node.op, ast.Add):
        extended = iteration.iterate(run, right)
        known = left.items is not None and extended.items is not None
        run.trail.write(left, "items", (*(left.items or ()), *(extended.items or ())) if known else None)
        return True
    assign(run, frame, node.target, binary(run, frame, node, node.op, left, right, in_place=True))
    return True


def assign(run: Run, frame: Frame, target: ast.expr, value: Value) -> None:
    """Bind a value to a name, an attribute, an element, or the parts of a pattern."""
    if isinstance(target, ast.Name):
        expressions.bind_name(run, frame, target.id, value)
        if isinstance(value, Tensor):
            run.note_tensor(run.place(frame, target), target.id, value)
    elif isinstance(target, ast.Attribute):
        owner = expressions.evaluate(run, frame, target.value)
        attributes.set_attribute(run, frame, target, owner, target.attr, value)
    elif isinstance(target, ast.Subscript):
        owner = expressions.evaluate(run, frame, target.value)
        subscripts.set_item(run, frame, target, owner, expressions.evaluate(run, frame, target.slice), value)
    elif isinstance(target, ast.Starred):
        assign(run, frame, target.value, value)
    elif isinstance(target, ast.Tuple | ast.List):
        for part, item in zip(target.elts, iteration.unpack(run, frame, target, value), strict=True):
            assign(run, frame, part, item)


@_handles(ast.Delete)
def _delete(run: Run, frame: Frame, node: ast.Delete) -> bool:
    for target in node.targets:
        if isinstance(target, ast.Name):
            run.trail.write(frame, target.id, MISSING)
        elif isinstance(target, ast.Subscript):
            owner = expressions.evaluate(run, frame, target.value)
            subscripts.delete_item(run, owner, expressions.evaluate(run, frame, target.slice))
    return True


# -- branches ---------------------------------------------------------------------------------------------------------


@_handles(ast.If)
def _if(run: Run, frame: Frame, node: ast.If) -> bool:
    truth = expressions.truth(run, expressions.evaluate(run, frame, node.test))
    if truth is not None:
        return execute_block(run, frame, node.body if truth else node.orelse)

    def branch(body: list[ast.stmt], holds: bool) -> Callable[[], bool]:
        def follow() -> bool:
            refining.refine(run, frame, node.test, holds)
            return execute_block(run, frame, body)

        return follow

    return either(run, [branch(node.body, True), branch(node.orelse, False)])


def either(run: Run, paths: Sequence[Callable[[], bool]]) -> bool:
    """Follow every path from the state of now, and go on with the join of those that reach their end."""
    mark = run.trail.mark()
    ends: list[Changes] = []
    raised = 0
    for path in paths:
        try:
            reached = path()
        except Raised:
            reached = False
            raised += 1
        changes = run.trail.undo(mark)
        if reached:
            ends.append(changes)
    if raised == len(paths):
        raise Raised
    if not ends:
        return False
    run.trail.apply(ends[0])
    run.trail.join(mark, ends[1:], run.join_slots)
    return True


@_handles(ast.Match)
def _match(run: Run, frame: Frame, node: ast.Match) -> bool:
    """Constant patterns are decided; of the others any case may be the one."""
    subject = expressions.evaluate(run, frame, node.subject)
    paths: list[Callable[[], bool]] = []
    exhaustive = False
    for case in node.cases:
        decided = _matches(run, frame, case.pattern, subject) if case.guard is None else None
        if decided is False:
            continue
        paths.append(lambda body=case.body: execute_block(run, frame, body))
        if decided:
            exhaustive = True
            break
    if not exhaustive:
        paths.append(lambda: True)
    return paths[0]() if len(paths) == 1 else either(run, paths)


def _matches(run: Run, frame: Frame, pattern: ast.pattern, subject: Value) -> bool | None:
    if isinstance(pattern, ast.MatchValue):
        wanted = expressions.evaluate(run, frame, pattern.value)
        simple = isinstance(subject, str | int | float) and isinstance(wanted, str | int | float)
        return subject == wanted if simple else None
    if isinstance(pattern, ast.MatchOr):
        answers = [_matches(run, frame, part, subject) for part in pattern.patterns]
        return True if True in answers else None if None in answers else False
    return True if isinstance(pattern, ast.MatchAs) and pattern.pattern is None and pattern.name is None else None


@_handles(ast.Assert)
def _assert(run: Run, frame: Frame, node: ast.Assert) -> bool:
    if expressions.truth(run, expressions.evaluate(run, frame, node.test)) is None:
        refining.refine(run, frame, node.test, True)
    return True


# -- loops ------------------------------------------------------------------------------------------------------------


@_handles(ast.Break)
def _break(run: Run, frame: Frame, node: ast.Break) -> bool:
    if run.loops:
        run.loops[-1].breaks.append(run.trail.changes(run.loops[-1].mark))
    return False


@_handles(ast.Continue)
def _continue(run: Run, frame: Frame, node: ast.Continue) -> bool:
    if run.loops:
        run.loops[-1].continues.append(run.trail.changes(run.loops[-1].round_mark))
    return False


@_handles(ast.For, ast.AsyncFor)
def _for(run: Run, frame: Frame, node: ast.For) -> bool:
    over = iteration.iterate(run, expressions.evaluate(run, frame, node.iter))
    items = over.items

    def bind(value: Value) -> Callable[[], None]:
        return lambda: assign(run, frame, node.target, value)

    body = lambda: execute_block(run, frame, node.body)  # noqa: E731
    if items is not None and len(items) <= MOST_UNROLLED:
        names = {part.id for part in ast.walk(node.target) if isinstance(part, ast.Name)}
        used = any(_mentions(part, names) for part in node.body)
        enough = MANY_ROUNDS if used else 2
        any_item = bind(iteration.any_of(run, items[2:-1])) if used and not _is_generator(frame) else None
        goes_on = _unrolled(run, frame, [bind(item) for item in items], body, names, any_item, enough)
    else:
        element = over.element if items is None else iteration.any_of(run, items)
        goes_on = _repeated(run, bind(element), body, at_least_once=_runs(over))
    return execute_block(run, frame, node.orelse) if goes_on and node.orelse else goes_on


def _runs(over: iteration.Stream) -> bool:
    """Whether a loop over it has at least one round."""
    return over.at_least_once or bool(over.items) or (isinstance(over.length, int) and over.length > 0)


@_handles(ast.While)
def _while(run: Run, frame: Frame, node: ast.While) -> bool:
    body = lambda: execute_block(run, frame, node.body)  # noqa: E731
    test = lambda: expressions.truth(run, expressions.evaluate(run, frame, node.test))  # noqa: E731
    loop = Loop(run.trail.mark(), run.trail.mark())
    certain_rounds = 0
    goes_on = True
    while goes_on and certain_rounds < MOST_UNROLLED:
        truth = test()
        if truth is False:
            return _leave(run, loop, reached=True)
        if truth is None or (certain_rounds >= 2 and isinstance(node.test, ast.Constant)):
            break
        goes_on = _round(run, loop, lambda: None, body)
        certain_rounds += 1
    if not goes_on:
        return _leave(run, loop, reached=False)
    endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
    reached = _repeated(run, lambda: refining.refine(run, frame, node.test, True), body, at_least_once=False, loop=loop)
    return _leave(run, loop, reached=reached and not endless) if loop.breaks or endless else reached


def _mentions(node: ast.AST, names: set[str]) -> bool:
    """Whether code uses the variables of a loop for more than messages: then its rounds differ."""
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.JoinedStr) or _is_message(node):
        return False
    if isinstance(node, ast.If) and not node.orelse and all(_is_message(part) for part in node.body):
        return False
    return any(_mentions(part, names) for part in ast.iter_child_nodes(node))


def _is_message(node: ast.AST) -> bool:
    """Whether a statement prints something."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
        and node.value.func.id == "print"
    )


def _is_generator(frame: Frame) -> bool:
    return frame.function is not None and frame.function.is_generator


def _unrolled(
    run: Run,
    frame: Frame,
    bindings: Sequence[Callable[[], None]],
    body: Callable[[], bool],
    names: set[str],
    bind_any: Callable[[], None] | None,
    enough: int,
) -> bool:
    """Item by item. Once `enough` rounds in a row changed nothing but the loop's own variables (`names`), only the last follows.

    Two are enough if then a round on any of the items (`bind_any`) changes nothing either.
    """
    loop = Loop(run.trail.mark(), run.trail.mark())
    reached = True
    before: Changes | None = None
    unchanged = 0
    for number, bind in enumerate(bindings):
        reached = _round(run, loop, bind, body)
        if not reached:
            break
        if number + 1 == len(bindings) or len(bindings) <= FEW_ROUNDS:
            continue
        after = _seen_changes(run, loop)
        unchanged = unchanged + 1 if before is not None and _nothing_new(before, after, names) else 0
        before = after
        if unchanged == 2 and bind_any is not None and _is_any_round_alike(run, frame, loop, bind_any, body, after, names):
            enough = 2
        if unchanged < enough:
            continue
        reached = _round(run, loop, bindings[-1], body)
        _forget_lengths(run, after)
        break
    return _leave(run, loop, reached)


def _seen_changes(run: Run, loop: Loop) -> Changes:
    """What the rounds of a loop changed; objects that they made for themselves are of no interest."""
    return {location: change for location, change in run.trail.changes(loop.mark).items() if change[0].serial < loop.mark.serial}


def _is_any_round_alike(
    run: Run,
    frame: Frame,
    loop: Loop,
    bind: Callable[[], None],
    body: Callable[[], bool],
    before: Changes,
    names: set[str],
) -> bool:
    """Whether a round on any item finds no problem, leaves the loop nowhere, and everything as it was `before`; it is undone."""
    mark = run.trail.mark()
    exits = len(loop.breaks), len(frame.returns)
    with run.watching() as problems:
        reached = _round(run, loop, bind, body)
    stays = reached and (len(loop.breaks), len(frame.returns)) == exits
    is_alike = stays and not problems and _nothing_new(before, _seen_changes(run, loop), names)
    del loop.breaks[exits[0] :], frame.returns[exits[1] :]
    run.trail.undo(mark)
    return is_alike


def _nothing_new(before: Changes, after: Changes, names: set[str]) -> bool:
    """Whether a round left everything as the round before did, but for the loop's variables and records of numbers."""
    if before.keys() != after.keys():
        return False
    for location, (owner, key, value) in after.items():
        earlier = before[location][2]
        if value is earlier or (isinstance(owner, Frame) and key in names):
            continue
        if key == "items" and isinstance(owner, ListValue):
            if not _records_numbers(earlier, value):
                return False
        elif value is MISSING or earlier is MISSING or not _says_the_same(earlier, value):
            return False
    return True


def _says_the_same(earlier: Any, value: Any) -> bool:
    """Whether two values of a field have the same shapes; what small tensors contain counts through the sizes made of it."""
    if isinstance(value, dict):
        entries = cast("dict[Value, Value]", value)
        before = cast("dict[Value, Value] | None", earlier)
        return before is not None and entries.keys() == before.keys() and all(alike(before[key], entries[key]) for key in entries)
    if isinstance(earlier, Tensor) and isinstance(value, Tensor):
        return alike(earlier.evolved(content=None), value.evolved(content=None))
    return alike(earlier, value)


def _records_numbers(earlier: tuple[Value, ...] | None, items: tuple[Value, ...] | None) -> bool:
    """Whether a list grew by nothing but numbers: the losses of a training."""
    if earlier is None or items is None or items[: len(earlier)] != earlier:
        return False
    return all(isinstance(item, Unknown | float) for item in items[len(earlier) :])


def _forget_lengths(run: Run, changes: Changes) -> None:
    """Lists that grew in rounds which were left out are longer than what is known."""
    for owner, key, items in changes.values():
        if key == "items" and isinstance(owner, ListValue) and items and isinstance(items[-1], Unknown | float):
            run.trail.write(owner, "element", UNKNOWN)
            run.trail.write(owner, "length", UNKNOWN)
            run.trail.write(owner, "items", None)


def _round(run: Run, loop: Loop, bind: Callable[[], None], body: Callable[[], bool]) -> bool:
    """One round; whether another may follow."""
    run.step()
    loop.round_mark = run.trail.mark()
    loop.continues.clear()
    bind()
    run.loops.append(loop)
    try:
        reached = body()
    finally:
        run.loops.pop()
    if loop.continues:
        if not reached:
            run.trail.undo(loop.round_mark)
            run.trail.apply(loop.continues.pop())
        run.trail.join(loop.round_mark, loop.continues, run.join_slots)
        reached = True
    return reached


def _leave(run: Run, loop: Loop, reached: bool) -> bool:
    """Join the states that left by `break` with the end of the last round, if that was reached."""
    if loop.breaks:
        breaks = list(loop.breaks)
        if not reached:
            run.trail.undo(loop.mark)
            run.trail.apply(breaks.pop())
        run.trail.join(loop.mark, breaks, run.join_slots)
        reached = True
    return reached


def _repeated(
    run: Run, bind: Callable[[], None], body: Callable[[], bool], *, at_least_once: bool, loop: Loop | None = None
) -> bool:
    """A loop of unknown length: two rounds as they are, then one on what all further rounds have in common."""
    owned = loop is None
    loop = loop or Loop(run.trail.mark(), run.trail.mark())
    start = run.trail.mark()
    ends: list[Changes] = []
    reached = True
    for number in range(3):
        before = run.trail.changes(start)
        if number == 2:
            _widen(run, ends[0], before)
        reached = _round(run, loop, bind, body)
        if not reached:
            break
        ends.append(run.trail.changes(start))
    if len(ends) == 3:
        _widen(run, ends[1], ends[2])
        ends[2] = run.trail.changes(start)
    if ends:
        run.trail.undo(start)
        run.trail.apply(ends[-1])
        run.trail.join(start, ends[:-1] if at_least_once else [*ends[:-1], {}], run.join_slots)
        reached = True
    elif not at_least_once:
        run.trail.undo(start)
        reached = True
    return _leave(run, loop, reached) if owned else reached


def _widen(run: Run, old: Changes, new: Changes) -> None:
    """Make a value that differs between two rounds one that holds in all further ones."""
    for location, (owner, key, value) in new.items():
        earlier = old[location][2] if location in old else value
        if earlier is MISSING or value is MISSING or value is earlier:
            continue
        if key in ("items", "entries", "element", "length", "position") and not isinstance(owner, Frame):
            _widen_container(run, owner, key, earlier, value)
        elif not alike(earlier, value):
            run.trail.write(owner, key, widen(earlier, value))


def _widen_container(run: Run, owner: Any, key: str, earlier: Any, value: Any) -> None:
    """A list or dictionary that grows: only what its elements have in common is kept."""
    if key == "items" and value is not None and value != earlier:
        run.trail.write(owner, "element", iteration.any_of(run, value) if value else UNKNOWN)
        run.trail.write(owner, "length", UNKNOWN)
        run.trail.write(owner, "items", None)
    elif key == "entries" and value is not None and (earlier is None or value.keys() != earlier.keys()):
        run.trail.write(owner, "element", iteration.any_of(run, tuple(value.values())))
        run.trail.write(owner, "entries", None)
    elif key == "length":
        run.trail.write(owner, key, UNKNOWN)
    elif key == "element" and not alike(earlier, value):
        run.trail.write(owner, key, value if earlier is NOTHING else widen(earlier, value))


# -- functions, classes, modules --------------------------------------------------------------------------------------


@_handles(ast.Return)
def _return(run: Run, frame: Frame, node: ast.Return) -> bool:
    value = None if node.value is None else expressions.evaluate(run, frame, node.value)
    if frame.mark is None:
        return False
    frame.returns.append((run.trail.changes(frame.mark), value))
    return False


@_handles(ast.FunctionDef, ast.AsyncFunctionDef)
def _function(run: Run, frame: Frame, node: ast.FunctionDef) -> bool:
    function: Value = calls.make_function(run, frame, node)
    expressions.bind_name(run, frame, node.name, calls.decorated(run, frame, node, function))
    return True


@_handles(ast.ClassDef)
def _class(run: Run, frame: Frame, node: ast.ClassDef) -> bool:
    bases = tuple(expressions.evaluate(run, frame, base) for base in node.bases)
    cls = ClassValue(node.name, bases, node)
    body = Frame(frame.module, frame, frame.function)
    body.is_class = True
    body.slots["__class__"] = cls
    execute_block(run, body, node.body)
    for name, value in body.slots.items():
        if name != "__class__":
            cls.slots[name] = calls.owned(value, cls)
    run.classes.append(cls)
    cls.is_dataclass = any(_names_dataclass(decorator) for decorator in node.decorator_list) or any(
        isinstance(base, Library) and base.path.endswith("NamedTuple") for base in bases
    )
    expressions.bind_name(run, frame, node.name, cls)
    return True


def _names_dataclass(decorator: ast.expr) -> bool:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else ""
    return name in ("dataclass", "define", "frozen", "attrs")


@_handles(ast.Global)
def _global(run: Run, frame: Frame, node: ast.Global) -> bool:
    for name in node.names:
        frame.slots.setdefault("__outer__", {})[name] = frame.module.frame
    return True


@_handles(ast.Nonlocal)
def _nonlocal(run: Run, frame: Frame, node: ast.Nonlocal) -> bool:
    for name in node.names:
        outer = frame.outer
        while outer is not None and name not in outer.slots:
            outer = outer.outer
        if outer is not None:
            frame.slots.setdefault("__outer__", {})[name] = outer
    return True


@_handles(ast.Import)
def _import(run: Run, frame: Frame, node: ast.Import) -> bool:
    for alias in node.names:
        bound = imports.import_module(run, frame, alias.name if alias.asname else alias.name.partition(".")[0])
        if not alias.asname and "." in alias.name:
            imports.import_module(run, frame, alias.name)
        expressions.bind_name(run, frame, alias.asname or alias.name.partition(".")[0], bound)
    return True


@_handles(ast.ImportFrom)
def _import_from(run: Run, frame: Frame, node: ast.ImportFrom) -> bool:
    imports.import_from(run, frame, node)
    return True


# -- exceptions and contexts ------------------------------------------------------------------------------------------


@_handles(ast.Raise)
def _raise(run: Run, frame: Frame, node: ast.Raise) -> bool:
    raise Raised


@_handles(ast.With, ast.AsyncWith)
def _with(run: Run, frame: Frame, node: ast.With) -> bool:
    scopes = len(run.graph.scopes)
    try:
        for item in node.items:
            manager = expressions.evaluate(run, frame, item.context_expr)
            entered = calls.entered(run, frame, item.context_expr, manager)
            if item.optional_vars is not None:
                assign(run, frame, item.optional_vars, entered)
            if expressions.catches_errors(manager):
                with run.quietly():
                    return execute_block(run, frame, node.body)
        return execute_block(run, frame, node.body)
    finally:
        del run.graph.scopes[scopes:]


@_handles(ast.Try, ast.TryStar)
def _try(run: Run, frame: Frame, node: ast.Try) -> bool:
    """The body as if nothing were raised. What it does wrong is not reported if a handler is there to catch it."""
    caught = any(_is_broad(handler.type) for handler in node.handlers)
    mark = run.trail.mark()
    failed = False
    try:
        if caught:
            with run.watching() as problems:
                reached = execute_block(run, frame, node.body)
            failed = any(problem.certain for problem in problems)
            for problem in problems:
                if not problem.certain:
                    run.add(problem)
        else:
            reached = execute_block(run, frame, node.body)
    except Raised:
        reached, failed = False, True
        if not node.handlers:
            execute_block(run, frame, node.finalbody)
            raise
    if failed:
        run.trail.join(mark, [{}], run.join_slots)
        reached = either(run, [_handler(run, frame, handler) for handler in node.handlers])
    elif reached:
        reached = execute_block(run, frame, node.orelse)
    finished = execute_block(run, frame, node.finalbody)
    return reached and finished


def _handler(run: Run, frame: Frame, handler: ast.ExceptHandler) -> Callable[[], bool]:
    def follow() -> bool:
        if handler.name:
            expressions.bind_name(run, frame, handler.name, UNKNOWN)
        return execute_block(run, frame, handler.body)

    return follow


def _is_broad(caught: ast.expr | None) -> bool:
    """Whether a handler would catch what a shape error raises."""
    if caught is None:
        return True
    names = [part for part in ast.walk(caught) if isinstance(part, ast.Name | ast.Attribute)]
    told = {part.id if isinstance(part, ast.Name) else part.attr for part in names}
    errors = {"Exception", "BaseException", "RuntimeError", "ValueError", "TypeError", "AssertionError", "IndexError", "error"}
    return bool(told & (errors | {"InvalidArgumentError", "OpError", "XlaRuntimeError"}))
