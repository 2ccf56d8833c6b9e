"""Calls: functions of the program are run on their arguments, classes make instances, libraries are asked through rules."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tensorproof.shapes import applying, declarations, expressions, iteration, tensor_methods
from tensorproof.shapes.joining import alternatives, choice, join_coarsely, over_alternatives
from tensorproof.shapes.problems import Place
from tensorproof.shapes.rule_table import CLASSES, RULES, NativeClass, NotKnown, ShapeRule
from tensorproof.shapes.run import DEEPEST_CALL, DEEPEST_RECURSION, Raised, Run
from tensorproof.shapes.trail import Changes
from tensorproof.shapes.values import (
    UNKNOWN,
    BoundMethod,
    Builtin,
    Choice,
    ClassValue,
    DictValue,
    DType,
    Frame,
    FunctionValue,
    Instance,
    Iterator,
    Library,
    ListValue,
    NativeObject,
    Partial,
    Super,
    TensorMethod,
    Value,
)

Arguments = Sequence[Value]
Keywords = Mapping[str, Value]
Node = ast.expr | ast.stmt

#: Decorators that change nothing about shapes. Others make a function unknown.
TRANSPARENT = frozenset(
    {
        "function", "jit", "no_grad", "inference_mode", "lru_cache", "cache", "wraps", "njit", "compile", "script", "checkpoint",
        "partial", "contextmanager", "with_name_scope",
        "override", "abstractmethod", "enable_grad", "set_grad_enabled", "autocast", "compact", "profile",
        "jaxtyped", "typechecked", "beartype", "remat", "named_scope", "register_keras_serializable", "torch_fn", "filter_jit",
        "singledispatch", "final", "cached_property", "fixture", "parametrize", "skip", "ignore", "export",
    }
)  # fmt: skip

#: The name of a keyword that stands for any further arguments: no program can write it.
ANY_FURTHER = "*"
#: Functions of Python that look at values and change nothing: asked for each alternative.
OF_ONE_VALUE = frozenset({"len", "int", "float", "abs", "min", "max", "round", "str", "bool", "isinstance", "divmod", "tuple"})


def call(run: Run, frame: Frame, node: Node, function: Value, arguments: Arguments, keywords: Keywords) -> Value:
    """The result of calling any value."""
    if isinstance(function, FunctionValue):
        return call_function(run, frame, node, function, arguments, keywords)
    if isinstance(function, BoundMethod):
        return _call_bound(run, frame, node, function, arguments, keywords)
    if isinstance(function, Library):
        return _call_library(run, frame, node, function.path, arguments, keywords)
    if isinstance(function, TensorMethod):
        return tensor_methods.call_method(run, run.place(frame, node), function, arguments, keywords)
    if isinstance(function, Builtin):
        return _call_builtin(run, frame, node, function, arguments, keywords)
    if isinstance(function, ClassValue):
        return instantiate(run, frame, node, function, arguments, keywords)
    if isinstance(function, Instance):
        return _call_instance(run, frame, node, function, arguments, keywords)
    if isinstance(function, NativeObject):
        return call_native(run, run.place(frame, node), function, "__call__", arguments, keywords)
    if isinstance(function, Partial):
        combined = {**dict(function.keywords), **keywords}
        return call(run, frame, node, function.function, (*function.arguments, *arguments), combined)
    if isinstance(function, Choice):
        return _call_choice(run, frame, node, function, arguments, keywords)
    if isinstance(function, DType) and len(arguments) == 1:
        # `np.float32(x)`: a number type is called to cast.
        return applying.apply_rule(run, run.place(frame, node), RULES["numpy.asarray"], "numpy.asarray", (*arguments, function), {})
    return UNKNOWN


def _call_choice(run: Run, frame: Frame, node: Node, function: Choice, arguments: Arguments, keywords: Keywords) -> Value:
    """Any of several functions; a problem counts only if all of them have one."""
    results: list[Value] = []
    collected = []
    mark = run.trail.mark()
    ends: list[Changes] = []
    for option in function.of:
        with run.watching() as problems:
            try:
                results.append(call(run, frame, node, option, arguments, keywords))
                ends.append(run.trail.changes(mark))
            except Raised:
                pass
        collected.append([problem for problem in problems if problem.certain])
        run.trail.undo(mark)
    if not ends:
        raise Raised
    run.trail.apply(ends[0])
    run.trail.join(mark, ends[1:], run.join_slots)
    if all(collected):
        run.add(collected[0][0])
    return choice(results)


def call_with_unknown_arguments(run: Run, frame: Frame, node: ast.Call, function: Value) -> Value:
    """A call with `*args` or `**kwargs` that are not known."""
    if isinstance(function, ClassValue):
        return Instance(function)
    return UNKNOWN


# -- functions of the program -----------------------------------------------------------------------------------------


def make_function(run: Run, frame: Frame, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> FunctionValue:
    """The function that a definition makes; its defaults are evaluated here."""
    arguments = node.args
    defaults = tuple(expressions.evaluate(run, frame, default) for default in arguments.defaults)
    named = {
        argument.arg: expressions.evaluate(run, frame, default)
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is not None
    }
    is_lambda = isinstance(node, ast.Lambda)
    function = FunctionValue(
        "lambda" if is_lambda else node.name,
        node,
        frame,
        defaults,
        named,
        is_generator=not is_lambda and _is_generator(run, node),
    )
    run.functions.append(function)
    return function


def _is_generator(run: Run, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Asked once per definition, which may be run often."""
    known = run.generators.get(node)
    if known is None:
        known = run.generators[node] = _yields(node.body)
    return known


def _yields(body: Sequence[ast.AST]) -> bool:
    """Whether statements hold a `yield` of their own, not one of a nested function."""
    for node in body:
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        is_scope = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef)
        if not is_scope and _yields(list(ast.iter_child_nodes(node))):
            return True
    return False


def decorated(run: Run, frame: Frame, node: ast.FunctionDef, function: FunctionValue) -> Value:
    """The function behind its decorators: those that are known to change nothing are looked through."""
    value: Value = function
    for decorator in reversed(node.decorator_list):
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else ""
        if isinstance(value, FunctionValue) and name in ("staticmethod", "classmethod", "property", "cached_property", "setter"):
            kind = {"staticmethod": "static", "classmethod": "class"}.get(name, "property")
            value = replace(value, binding=kind)
        elif name not in TRANSPARENT:
            maker = expressions.evaluate(run, frame, decorator)
            value = call(run, frame, decorator, maker, (value,), {})
    return value


def owned(value: Value, cls: ClassValue) -> Value:
    """A function that a class body defined, with its class."""
    return replace(value, owner=cls) if isinstance(value, FunctionValue) and value.owner is None else value


def call_function(run: Run, frame: Frame, node: Node, function: FunctionValue, arguments: Arguments, keywords: Keywords) -> Value:
    """Run a function of the program on abstract arguments."""
    recursion = sum(entry.node is function.node for entry in run.stack)
    if len(run.stack) >= DEEPEST_CALL or recursion >= DEEPEST_RECURSION:
        return UNKNOWN
    run.step()
    inner = Frame(function.frame.module, function.frame, function)
    if not _bind(inner, function, arguments, keywords):
        return UNKNOWN
    run.call_places.append(run.place(frame, node))
    declarations.declare_parameters(run, inner, function)
    _merge_context(run, run.place(frame, node), function, inner)
    key = run.memo.key(function, inner.slots) if run.options.context == "full" and not run.trials else None
    known = None if key is None else run.memo.recall(key)
    if known is not None:
        run.call_places.pop()
        return known[0]
    before = run.trail.version
    inner.mark = run.trail.mark()
    run.reached.add(id(function.node))
    run.stack.append(function)
    try:
        result = _run_body(run, inner, function)
    finally:
        run.stack.pop()
        run.call_places.pop()
    if key is not None:
        run.memo.remember(key, inner.mark, before, result)
    return result


def _run_body(run: Run, frame: Frame, function: FunctionValue) -> Value:
    from tensorproof.shapes.statements import execute_block

    node = function.node
    if isinstance(node, ast.Lambda):
        return expressions.evaluate(run, frame, node.body)
    loops, run.loops = run.loops, []
    try:
        reached = execute_block(run, frame, node.body)
    finally:
        run.loops = loops
    if function.is_generator:
        return _generated(run, frame)
    mark = frame.mark
    assert mark is not None, "a function that runs has begun"
    ends: list[tuple[Changes, Value]] = list(frame.returns)
    if reached:
        ends.append((run.trail.changes(mark), None))
    if not ends:
        raise Raised
    if len(ends) > 1:
        run.trail.undo(mark)
        run.trail.apply(ends[0][0])
        run.trail.join(mark, [changes for changes, _ in ends[1:]], run.join_slots)
    result = ends[0][1]
    for _, value in ends[1:]:
        result = run.join(result, value)
    return result


def _generated(run: Run, frame: Frame) -> Value:
    """What a generator yields: in order if no loop of unknown length was involved, which is not tracked: any of them."""
    yields: list[Value] = frame.slots.get("__yields__", [])
    return Iterator(None, iteration.any_yield(run, tuple(yields)) if yields else UNKNOWN)


def _bind(frame: Frame, function: FunctionValue, arguments: Arguments, keywords: Keywords) -> bool:
    """Bind parameters; whether the arguments fit."""
    spec = function.node.args
    names = [argument.arg for argument in (*spec.posonlyargs, *spec.args)]
    slots = frame.slots
    waiting, named = list(arguments), dict(keywords)
    is_open = named.pop(ANY_FURTHER, None) is not None
    required = len(names) - len(function.defaults)
    for position, name in enumerate(names):
        if waiting:
            slots[name] = waiting.pop(0)
        elif name in named:
            slots[name] = named.pop(name)
        elif position >= required:
            default = function.defaults[position - required]
            # Who calls a function that nobody calls here will give what it leaves out.
            slots[name] = UNKNOWN if is_open and default is None else default
        else:
            return False
    if spec.vararg is not None:
        slots[spec.vararg.arg] = ListValue(None) if is_open else tuple(waiting)
    elif waiting:
        return False
    for argument in spec.kwonlyargs:
        if argument.arg in named:
            slots[argument.arg] = named.pop(argument.arg)
        elif argument.arg in function.keyword_defaults:
            default = function.keyword_defaults[argument.arg]
            slots[argument.arg] = UNKNOWN if is_open and default is None else default
        elif is_open:
            slots[argument.arg] = UNKNOWN
        else:
            return False
    if spec.kwarg is not None:
        slots[spec.kwarg.arg] = DictValue(None if is_open else {**named})
    return spec.kwarg is not None or not named


def _merge_context(run: Run, place: Place, function: FunctionValue, frame: Frame) -> None:
    """Where contexts are merged, run the function on what all its calls so far have in common."""
    context = run.options.context
    if context == "full":
        return
    receiver = next(iter(frame.slots.values()), None) if context == "1-call-heap" else None
    serial = receiver.serial if isinstance(receiver, Instance) else None
    key = (id(function.node), None if context == "insensitive" else place, serial)
    known = run.merged_arguments.get(key)
    values = tuple(frame.slots.values())
    if known is not None and len(known) == len(values):
        values = tuple(join_coarsely(a, b) for a, b in zip(known, values, strict=True))
        for name, value in zip(list(frame.slots), values, strict=True):
            frame.slots[name] = value
    run.merged_arguments[key] = values


# -- classes and instances --------------------------------------------------------------------------------------------


def super_of(frame: Frame, arguments: Arguments) -> Value:
    """`super()` or `super(Class, self)`."""
    if len(arguments) == 2 and isinstance(arguments[0], ClassValue):
        return Super(arguments[0], arguments[1])
    place: Frame | None = frame
    while place is not None and (place.function is None or place.function.owner is None):
        place = place.outer
    if place is None or place.function is None or place.function.owner is None:
        return UNKNOWN
    spec = place.function.node.args
    first = next((argument.arg for argument in (*spec.posonlyargs, *spec.args)), None)
    return Super(place.function.owner, place.slots.get(first or "", UNKNOWN))


def instantiate(run: Run, frame: Frame, node: Node, cls: ClassValue, arguments: Arguments, keywords: Keywords) -> Value:
    """A new object of a class of the program."""
    instance = Instance(cls)
    for entry in cls.ancestors():
        if isinstance(entry, ClassValue):
            initialiser = entry.slots.get("__init__")
            if isinstance(initialiser, FunctionValue):
                call_function(run, frame, node, initialiser, (instance, *arguments), keywords)
                return instance
            if entry.is_dataclass:
                _fill_fields(run, frame, node, instance, entry, arguments, keywords)
                return instance
        elif entry.path in CLASSES:
            construct_native(run, run.place(frame, node), CLASSES[entry.path], instance, arguments, keywords)
            return instance
    return instance


def _fill_fields(
    run: Run, frame: Frame, node: Node, instance: Instance, cls: ClassValue, arguments: Arguments, keywords: Keywords
) -> None:
    """The constructor that `dataclass` writes."""
    fields: list[str] = []
    for entry in reversed(cls.ancestors()):
        if isinstance(entry, ClassValue):
            fields += [
                part.target.id
                for part in entry.node.body
                if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name) and part.target.id not in fields
            ]
    for position, name in enumerate(fields):
        if position < len(arguments):
            value = arguments[position]
        elif name in keywords:
            value = keywords[name]
        else:
            value = next((e.slots[name] for e in cls.ancestors() if isinstance(e, ClassValue) and name in e.slots), UNKNOWN)
        run.trail.write(instance, name, value)
    after = next(
        (e.slots["__post_init__"] for e in cls.ancestors() if isinstance(e, ClassValue) and "__post_init__" in e.slots), None
    )
    if isinstance(after, FunctionValue):
        call_function(run, frame, node, after, (instance,), {})


def own_method(value: Value, name: str) -> Value:
    """A method that the program itself defines for an object, bound; None if there is none."""
    for part in alternatives(value):
        if isinstance(part, Instance):
            for entry in part.cls.ancestors():
                if isinstance(entry, ClassValue) and isinstance(entry.slots.get(name), FunctionValue):
                    return BoundMethod(part, entry.slots[name])
    return None


def native_class_of(receiver: NativeObject | Instance) -> NativeClass | None:
    """The class of a library that an object is of, or inherits from."""
    if isinstance(receiver, NativeObject):
        return receiver.cls
    return next((CLASSES[path] for path in receiver.cls.library_bases if path in CLASSES), None)


def _call_bound(run: Run, frame: Frame, node: Node, method: BoundMethod, arguments: Arguments, keywords: Keywords) -> Value:
    function = method.function
    if isinstance(function, ShapeRule):
        receiver = method.receiver
        assert isinstance(receiver, NativeObject | Instance)
        return applying.apply_rule(run, run.place(frame, node), function, function.names[0], arguments, keywords, receiver)
    if isinstance(function, Library):
        # The constructor of a library's class on an instance of a class of the program: `super().__init__(...)`.
        if isinstance(method.receiver, Instance) and function.path in CLASSES:
            construct_native(run, run.place(frame, node), CLASSES[function.path], method.receiver, arguments, keywords)
        return None
    return call(run, frame, node, function, (method.receiver, *arguments), keywords)


def _call_instance(run: Run, frame: Frame, node: Node, instance: Instance, arguments: Arguments, keywords: Keywords) -> Value:
    """An object that is called: its own `__call__`, or what the library's base class calls for it (`forward`)."""
    own = own_method(instance, "__call__")
    if own is not None:
        return call(run, frame, node, own, arguments, keywords)
    cls = native_class_of(instance)
    if cls is None:
        return UNKNOWN
    delegate = getattr(cls.python_class, "calls", None)
    if delegate is not None:
        method = own_method(instance, delegate)
        if method is not None:
            if cls.method("prepare") is not None:
                call_native(run, run.place(frame, node), instance, "prepare", arguments, keywords)
            accepted = _accepted(method, keywords)
            return call(run, frame, node, method, arguments, accepted)
    return call_native(run, run.place(frame, node), instance, "__call__", arguments, keywords)


def _accepted(method: Value, keywords: Keywords) -> Keywords:
    """Keras passes `training` only to layers that take it."""
    assert isinstance(method, BoundMethod)
    if "training" not in keywords or not isinstance(method.function, FunctionValue):
        return keywords
    spec = method.function.node.args
    takes = spec.kwarg is not None or any(a.arg == "training" for a in (*spec.args, *spec.kwonlyargs))
    return keywords if takes else {key: value for key, value in keywords.items() if key != "training"}


# -- libraries --------------------------------------------------------------------------------------------------------


def _call_library(run: Run, frame: Frame, node: Node, path: str, arguments: Arguments, keywords: Keywords) -> Value:
    place = run.place(frame, node)
    if path in RULES:
        return applying.apply_rule(run, place, RULES[path], path, arguments, keywords)
    if path in CLASSES:
        rows = applying.alternative_arguments(arguments, keywords)
        if rows is None:
            return UNKNOWN
        return choice([_construct(run, frame, node, CLASSES[path], given, named) for given, named in rows])
    run.statistics.unmodelled[path] += 1
    return UNKNOWN


def _literals(run: Run, frame: Frame, node: Node, cls: NativeClass, arguments: Arguments, keywords: Keywords) -> dict[str, Place]:
    """Places of arguments that are written as plain numbers, by parameter.

    The text and the values of a call may differ (a partial function adds some): a place is taken only if its number is the value.
    """
    if not isinstance(node, ast.Call) or any(isinstance(text, ast.Starred) for text in node.args):
        return {}
    names = [parameter.name for parameter in cls.constructor.parameters]
    written: list[tuple[str | None, ast.expr, Value]] = [
        *((name, text, value) for name, text, value in zip(names, node.args, arguments, strict=False)),
        *((part.arg, part.value, keywords.get(part.arg or "")) for part in node.keywords),
    ]
    return {
        name: run.place(frame, text)
        for name, text, value in written
        if name is not None and isinstance(text, ast.Constant) and type(text.value) is int and text.value == value
    }


def _construct(run: Run, frame: Frame, node: Node, cls: NativeClass, arguments: Arguments, keywords: Keywords) -> Value:
    place = run.place(frame, node)
    created = NativeObject(cls, place)
    created.literals = _literals(run, frame, node, cls, arguments, keywords)
    return created if construct_native(run, place, cls, created, arguments, keywords) else UNKNOWN


def construct_native(
    run: Run, place: Place, cls: NativeClass, target: NativeObject | Instance, arguments: Arguments, keywords: Keywords
) -> bool:
    """Fill the fields of an object of a library's class; whether the arguments were understood."""
    from tensorproof.shapes.rule_table import framework_of

    try:
        given, options = cls.constructor.bind(arguments, keywords, framework_of(cls.names[0]))
    except (TypeError, NotKnown):
        return isinstance(target, Instance)
    parameters = [parameter for parameter in cls.constructor.parameters if parameter.kind.name != "VAR_KEYWORD"]
    if parameters and parameters[-1].kind.name == "VAR_POSITIONAL":
        given = [*given[: len(parameters) - 1], tuple(given[len(parameters) - 1 :])]
    for parameter, value in zip(parameters, given, strict=True):
        run.trail.write(target, parameter.name, value)
    for name, value in options.items():
        run.trail.write(target, name, value)
    setup = cls.method("setup")
    if setup is not None:
        applying.apply_rule(run, place, setup, cls.names[0], (), {}, target)
    return True


def call_native(
    run: Run, place: Place, target: NativeObject | Instance, method: str, arguments: Arguments, keywords: Keywords
) -> Value:
    """Call a method of an object of a library's class."""
    cls = native_class_of(target)
    rule = None if cls is None else cls.method(method)
    if cls is None or rule is None:
        return UNKNOWN
    return applying.apply_rule(run, place, rule, cls.names[0], arguments, keywords, target)


def iterate_native(run: Run, target: NativeObject | Instance) -> iteration.Stream:
    """What a loop over an object of a library gets: its `__iter__` returns a `Stream`."""
    cls = native_class_of(target)
    rule = None if cls is None else cls.method("__iter__")
    if cls is None or rule is None:
        return iteration.Stream()
    place = target.place if isinstance(target, NativeObject) else Place("", 1, 0, 1, 0)
    try:
        result: object = applying.apply_rule(run, place, rule, cls.names[0], (), {}, target)
    except NotKnown:
        return iteration.Stream()
    if isinstance(result, iteration.Stream):
        return result
    return iteration.Stream(result) if isinstance(result, tuple) else iteration.Stream()


def iterate_instance(run: Run, instance: Instance) -> iteration.Stream:
    """What a loop over an object of the program gets: `__iter__`, or `__getitem__` on an unknown index."""
    node = ast.Name("", ast.Load(), lineno=1, col_offset=0, end_lineno=1, end_col_offset=0)
    frame = (
        Frame(instance.cls.slots["__init__"].frame.module, None)
        if isinstance(instance.cls.slots.get("__init__"), FunctionValue)
        else None
    )
    method = own_method(instance, "__iter__")
    if method is not None and frame is not None:
        return iteration.iterate(run, call(run, frame, node, method, (), {}))
    item = own_method(instance, "__getitem__")
    if item is not None and frame is not None:
        from tensorproof.shapes.sizes import unknown

        return iteration.Stream(None, call(run, frame, node, item, (unknown(0),), {}))
    return iterate_native(run, instance)


def entered(run: Run, frame: Frame, node: ast.expr, manager: Value) -> Value:
    """What `with manager as name` binds."""
    if isinstance(manager, Instance):
        enter = own_method(manager, "__enter__")
        return call(run, frame, node, enter, (), {}) if enter is not None else UNKNOWN
    if isinstance(manager, NativeObject):
        return (
            call_native(run, run.place(frame, node), manager, "__enter__", (), {}) if manager.cls.method("__enter__") else manager
        )
    return UNKNOWN


def _call_builtin(run: Run, frame: Frame, node: Node, function: Builtin, arguments: Arguments, keywords: Keywords) -> Value:
    from tensorproof.shapes.python_types import Use

    use = Use(run, frame, node, function.receiver)

    def apply(*values: Value) -> Value:
        try:
            return function.function(use, *values, **keywords)
        except (TypeError, NotKnown, ValueError, ArithmeticError):
            return UNKNOWN

    return over_alternatives(apply, *arguments) if function.name in OF_ONE_VALUE else apply(*arguments)
