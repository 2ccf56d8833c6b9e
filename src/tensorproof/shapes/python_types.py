"""Python's own functions, and the methods of its lists, dictionaries, strings and tuples."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tensorproof.shapes import arithmetic, attributes, calls, expressions, iteration
from tensorproof.shapes.run import MOST_UNROLLED, Raised, Run
from tensorproof.shapes.shape import SCALAR
from tensorproof.shapes.sizes import Polynomial, Size, largest, less, smallest, unknown
from tensorproof.shapes.values import (
    UNKNOWN,
    Builtin,
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
    Unknown,
    Value,
    as_size,
)


@dataclass(frozen=True, slots=True)
class Use:
    """One call of a Python function: where, and on what."""

    run: Run
    frame: Frame
    node: ast.expr | ast.stmt
    receiver: Value

    def call(self, function: Value, *arguments: Value) -> Value:
        return calls.call(self.run, self.frame, self.node, function, arguments, {})


_BUILTINS: dict[str, Builtin] = {}
_METHODS: dict[tuple[type, str], Callable[..., Value]] = {}


def _declare(*names: str) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    def enter(function: Callable[..., Value]) -> Callable[..., Value]:
        for name in names:
            _BUILTINS[name] = Builtin(name, function)
        return function

    return enter


def _method(kind: type, *names: str) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    def enter(function: Callable[..., Value]) -> Callable[..., Value]:
        for name in names:
            _METHODS[kind, name] = function
        return function

    return enter


def builtin(name: str) -> Value:
    """A name that Python itself defines."""
    return _BUILTINS.get(name, UNKNOWN)


def method(owner: Value, name: str) -> Value:
    """A method of one of Python's types, bound."""
    for kind in type(owner).__mro__:
        function = _METHODS.get((kind, name))
        if function is not None:
            return Builtin(name, function, owner)
    return UNKNOWN


def is_key(value: Value) -> bool:
    """Whether a value can be looked up in a dictionary that the analysis keeps."""
    if isinstance(value, tuple):
        return all(is_key(part) for part in value)
    return value is None or isinstance(value, str | int | float | bool | bytes | Library | ClassValue | FunctionValue | Tensor)


# -- functions --------------------------------------------------------------------------------------------------------


@_declare("len")
def _len(use: Use, value: Value) -> Value:
    if isinstance(value, str | bytes | tuple):
        return len(value)
    if isinstance(value, ListValue):
        return value.length
    if isinstance(value, DictValue):
        return UNKNOWN if value.entries is None else len(value.entries)
    if isinstance(value, Tensor):
        return value.shape.head[0] if value.shape.head else UNKNOWN
    if isinstance(value, Instance):
        own = calls.own_method(value, "__len__")
        if own is not None:
            return use.call(own)
    if isinstance(value, Instance | NativeObject):
        return calls.call_native(use.run, use.run.place(use.frame, use.node), value, "__len__", (), {})
    return UNKNOWN


@_declare("range")
def _range(use: Use, *bounds: Value) -> Value:
    sizes = [as_size(bound) for bound in bounds]
    if all(isinstance(size, int) for size in sizes):
        numbers = range(*(size for size in sizes if isinstance(size, int)))
        if len(numbers) <= MOST_UNROLLED * 8:
            return ListValue(tuple(numbers))
        return ListValue(None, unknown(min(numbers[0], numbers[-1]), max(numbers[0], numbers[-1])), len(numbers))
    start, stop = (0, sizes[0]) if len(sizes) == 1 else (sizes[0], sizes[1])
    length: Value = stop if len(sizes) == 1 and stop is not None else UNKNOWN
    low = start if isinstance(start, int) and len(sizes) < 3 else float("-inf")
    return ListValue(None, unknown(low), length)


@_declare("enumerate")
def _enumerate(use: Use, values: Value, start: Value = 0) -> Value:
    stream = iteration.iterate(use.run, values)
    if stream.items is not None and isinstance(start, int):
        return ListValue(tuple((start + position, item) for position, item in enumerate(stream.items)))
    return _as_list(stream, (unknown(0), stream.element))


@_declare("zip")
def _zip(use: Use, *sequences: Value, strict: Value = False) -> Value:
    streams = [iteration.iterate(use.run, sequence) for sequence in sequences]
    known = [stream.items for stream in streams if stream.items is not None]
    if known and len(known) == len(streams):
        return ListValue(tuple(zip(*known, strict=False)))
    if known:
        shortest = min(known, key=len)
        if len(shortest) <= MOST_UNROLLED and all(s.items is not None or s.element is not UNKNOWN for s in streams):
            rows = [s.items[: len(shortest)] if s.items is not None else (s.element,) * len(shortest) for s in streams]
            return ListValue(tuple(zip(*rows, strict=False)))
    element = tuple(s.element if s.items is None else iteration.any_of(use.run, s.items) for s in streams)
    return ListValue(None, element)


def transposed(stream: iteration.Stream) -> Value:
    """`zip(*rows)` of rows that are not told apart: one list per column."""
    length: Value = UNKNOWN if stream.length is None else stream.length
    if not isinstance(stream.element, tuple):
        return UNKNOWN
    return ListValue(tuple(ListValue(None, part, length) for part in stream.element))


def _as_list(stream: iteration.Stream, element: Value) -> Value:
    return ListValue(None, element, UNKNOWN if stream.length is None else stream.length)


@_declare("list", "tuple", "sorted", "reversed", "set", "frozenset", "iter")
def _collect(use: Use, values: Value = (), *, key: Value = None, reverse: Value = False) -> Value:
    name = _called_name(use)
    if name == "iter" and isinstance(values, Iterator | NativeObject):
        return values
    stream = iteration.iterate(use.run, values)
    items = stream.items
    if items is None:
        return Iterator(None, stream.element) if name == "iter" else _as_list(stream, stream.element)
    if name == "iter":
        return Iterator(items)
    if name == "reversed":
        return ListValue(tuple(reversed(items)))
    if name == "sorted":
        comparable = all(isinstance(item, str) for item in items) or all(isinstance(item, int | float) for item in items)
        if key is None and comparable:
            return ListValue(tuple(sorted(items, reverse=bool(reverse))))  # pyright: ignore[reportArgumentType]
        return ListValue(None, iteration.any_of(use.run, items), len(items))
    if name in ("set", "frozenset"):
        return SetValue(tuple(dict.fromkeys(items)) if all(is_key(item) for item in items) else None)
    return items if name == "tuple" else ListValue(items)


def _called_name(use: Use) -> str:
    function = use.node.func if isinstance(use.node, ast.Call) else None
    return function.id if isinstance(function, ast.Name) else ""


@_declare("dict")
def _dict(use: Use, values: Value = None, **entries: Value) -> Value:
    if values is None:
        return DictValue({**entries})
    if isinstance(values, DictValue):
        return DictValue(None if values.entries is None else {**values.entries, **entries}, values.element)
    items = iteration.iterate(use.run, values).items
    if items is None or not all(isinstance(pair, tuple) and len(pair) == 2 and is_key(pair[0]) for pair in items):
        return DictValue(None)
    return DictValue({pair[0]: pair[1] for pair in items if isinstance(pair, tuple)} | entries)


@_declare("next")
def _next(use: Use, iterator: Value, default: Value = UNKNOWN) -> Value:
    if isinstance(iterator, Iterator) and iterator.slots["items"] is not None:
        position = iterator.slots["position"]
        items = iterator.slots["items"]
        if position >= len(items):
            return default
        use.run.trail.write(iterator, "position", position + 1)
        return items[position]
    stream = iteration.iterate(use.run, iterator)
    return stream.items[0] if stream.items else stream.element


@_declare("map")
def _map(use: Use, function: Value, *sequences: Value) -> Value:
    streams = [iteration.iterate(use.run, sequence) for sequence in sequences]
    rows = [stream.items for stream in streams if stream.items is not None]
    if len(rows) == len(streams) and rows and min(map(len, rows)) <= MOST_UNROLLED:
        return Iterator([use.call(function, *row) for row in zip(*rows, strict=False)])
    return Iterator(None, use.call(function, *(stream.element for stream in streams)))


@_declare("filter")
def _filter(use: Use, function: Value, values: Value) -> Value:
    stream = iteration.iterate(use.run, values)
    if stream.items is None:
        return Iterator(None, stream.element)
    answers = [expressions.truth(use.run, item if function is None else use.call(function, item)) for item in stream.items]
    if None in answers:
        return Iterator(None, iteration.any_of(use.run, stream.items))
    return Iterator([item for item, answer in zip(stream.items, answers, strict=True) if answer])


@_declare("sum")
def _sum(use: Use, values: Value, start: Value = 0) -> Value:
    items = iteration.iterate(use.run, values).items
    if items is None or len(items) > MOST_UNROLLED:
        return UNKNOWN
    total = start
    for item in items:
        if isinstance(total, int) and total == 0 and isinstance(item, Tensor):
            total = item
            continue
        node = ast.BinOp(ast.Constant(0), ast.Add(), ast.Constant(0))
        total = arithmetic.binary(use.run, use.frame, ast.copy_location(node, use.node), ast.Add(), total, item)
    return total


@_declare("min", "max")
def _extreme(use: Use, *values: Value, key: Value = None, default: Value = UNKNOWN) -> Value:
    items = iteration.iterate(use.run, values[0]).items if len(values) == 1 else values
    if items is None or key is not None or not items:
        return UNKNOWN
    least = _called_name(use) == "min"
    sizes = [item for item in items if isinstance(item, int | Polynomial) and not isinstance(item, bool)]
    if len(sizes) == len(items):
        return smallest(sizes) if least else largest(sizes)
    numbers = [item for item in items if isinstance(item, int | float)]
    return UNKNOWN if len(numbers) != len(items) else min(numbers) if least else max(numbers)


@_declare("abs")
def _abs(use: Use, value: Value) -> Value:
    if isinstance(value, Tensor):
        return value.with_shape(value.shape)
    if isinstance(value, Polynomial):
        return value if less(-1, value) else UNKNOWN
    return abs(value) if isinstance(value, int | float) else UNKNOWN


@_declare("int", "round")
def _int(use: Use, value: Value = 0, digits: Value = None) -> Value:
    if isinstance(value, Tensor):
        value = value.content if as_size(value.content) is not None else UNKNOWN
    if isinstance(value, Polynomial):
        return value
    if isinstance(value, float | int):
        if digits is not None:
            return round(value, digits) if isinstance(digits, int) else UNKNOWN
        return int(value) if _called_name(use) != "round" else round(value)
    return int(value) if isinstance(value, str) else unknown(float("-inf"))


@_declare("float")
def _float(use: Use, value: Value = 0.0) -> Value:
    if isinstance(value, int | float | str):
        return float(value)
    # A number that is not known is like a scalar array.
    return Tensor(SCALAR, "f64", "numpy")


@_declare("str", "repr", "format")
def _str(use: Use, value: Value = "", *rest: Value) -> Value:
    return str(value) if isinstance(value, str | int | float | bool) and not rest else UNKNOWN


@_declare("bool")
def _bool(use: Use, value: Value = False) -> Value:
    holds = expressions.truth(use.run, value)
    return UNKNOWN if holds is None else holds


@_declare("divmod")
def _divmod(use: Use, left: Value, right: Value) -> Value:
    a, b = as_size(left), as_size(right)
    return UNKNOWN if a is None or b is None else (a // b, a % b)


@_declare("pow")
def _pow(use: Use, base: Value, exponent: Value) -> Value:
    node = ast.copy_location(ast.BinOp(ast.Constant(0), ast.Pow(), ast.Constant(0)), use.node)
    return arithmetic.binary(use.run, use.frame, node, ast.Pow(), base, exponent)


@_declare("slice")
def _slice(use: Use, *parts: Value) -> Value:
    if len(parts) == 1:
        return Slice(None, parts[0], None)
    return Slice(parts[0], parts[1], parts[2] if len(parts) > 2 else None)


@_declare("isinstance")
def _isinstance(use: Use, value: Value, kinds: Value) -> Value:
    if isinstance(value, Instance):
        wanted = kinds if isinstance(kinds, tuple) else (kinds,)
        chain = value.cls.ancestors()
        if any(kind in chain for kind in wanted if isinstance(kind, ClassValue | Library)):
            return True
        return False if all(isinstance(kind, ClassValue | Library) for kind in wanted) else UNKNOWN
    answers = [_is_a(value, kind) for kind in (kinds if isinstance(kinds, tuple) else (kinds,))]
    return True if True in answers else UNKNOWN if None in answers else False


def _is_a(value: Value, kind: Value) -> bool | None:
    if isinstance(value, Unknown):
        return None
    if isinstance(kind, Builtin):
        types: dict[str, type | tuple[type, ...]] = {
            "int": (int, Polynomial), "float": float, "str": str, "tuple": tuple, "list": ListValue, "dict": DictValue,
            "bool": bool, "set": SetValue,
        }  # fmt: skip
        if isinstance(value, Tensor) and value.shape.rank == 0 and value.framework == "numpy":
            return None if kind.name in ("int", "float", "bool") else False
        return isinstance(value, types[kind.name]) if kind.name in types else None
    if isinstance(kind, Library):
        if isinstance(value, Tensor):
            return True if kind.path == attributes.ARRAY_CLASSES[value.framework] else None if "ensor" in kind.path else False
        if isinstance(value, NativeObject):
            return True if kind.path in value.cls.names else None
        plain = isinstance(value, int | float | str | tuple | ListValue | DictValue) or value is None
        return False if plain and kind.path in attributes.ARRAY_CLASSES.values() else None
    return None


@_declare("callable")
def _callable(use: Use, value: Value) -> Value:
    return True if isinstance(value, FunctionValue | ClassValue | Builtin) else UNKNOWN


@_declare("hasattr")
def _hasattr(use: Use, value: Value, name: Value) -> Value:
    if isinstance(value, Instance) and isinstance(name, str):
        found = attributes.get_attribute(use.run, use.frame, _expression(use), value, name)
        return UNKNOWN if isinstance(found, Unknown) else True
    return UNKNOWN


@_declare("getattr")
def _getattr(use: Use, value: Value, name: Value, default: Value = UNKNOWN) -> Value:
    if not isinstance(name, str):
        return UNKNOWN
    found = attributes.get_attribute(use.run, use.frame, _expression(use), value, name)
    return default if isinstance(found, Unknown) and isinstance(value, Instance) and default is not UNKNOWN else found


@_declare("setattr")
def _setattr(use: Use, owner: Value, name: Value, value: Value) -> Value:
    if isinstance(owner, Instance | NativeObject) and isinstance(name, str):
        use.run.trail.write(owner, name, value)
    return None


def _expression(use: Use) -> ast.expr:
    assert isinstance(use.node, ast.expr)
    return use.node


@_declare("type")
def _type(use: Use, value: Value) -> Value:
    return value.cls if isinstance(value, Instance) else UNKNOWN


@_declare("any", "all")
def _any_all(use: Use, values: Value) -> Value:
    items = iteration.iterate(use.run, values).items
    if items is None:
        return UNKNOWN
    answers = [expressions.truth(use.run, item) for item in items]
    decisive = _called_name(use) == "any"
    return decisive if decisive in answers else UNKNOWN if None in answers else not decisive


@_declare(
    "print",
    "super",
    "input",
    "open",
    "id",
    "hash",
    "vars",
    "dir",
    "exec",
    "eval",
    "display",
    "chr",
    "ord",
    "bytes",
    "object",
    "complex",
)
def _nothing_known(use: Use, *arguments: Value, **keywords: Value) -> Value:
    return None if _called_name(use) == "print" else UNKNOWN


@_declare("exit", "quit")
def _exit(use: Use, *arguments: Value) -> Value:
    raise Raised


# -- lists ------------------------------------------------------------------------------------------------------------


@_method(ListValue, "append", "add", "appendleft")
def _append(use: Use, item: Value) -> Value:
    assert isinstance(use.receiver, ListValue)
    # A deque of limited length drops its oldest items.
    most = use.receiver.slots.get("maxlen")
    _replace_items(use, lambda items: (*items, item) if most is None else (*items, item)[-most:], item)
    return None


@_method(ListValue, "extend", "update")
def _extend(use: Use, values: Value) -> Value:
    stream = iteration.iterate(use.run, values)
    if stream.items is None:
        _replace_items(use, None, stream.element)
    else:
        added = stream.items
        _replace_items(use, lambda items: (*items, *added), iteration.any_of(use.run, added))
    return None


@_method(ListValue, "insert")
def _insert(use: Use, position: Value, item: Value) -> Value:
    if not isinstance(position, int):
        _replace_items(use, None, item)
        return None
    _replace_items(use, lambda items: (*items[:position], item, *items[position:]), item)
    return None


@_method(ListValue, "pop", "popleft")
def _pop(use: Use, position: Value = -1) -> Value:
    values = use.receiver
    assert isinstance(values, ListValue)
    if values.items is None or not isinstance(position, int) or not -len(values.items) <= position < len(values.items):
        return values.element
    index = position % len(values.items)
    item = values.items[index]
    use.run.trail.write(values, "items", values.items[:index] + values.items[index + 1 :])
    return item


@_method(ListValue, "reverse")
def _reverse(use: Use) -> Value:
    _replace_items(use, lambda items: tuple(reversed(items)), None)
    return None


@_method(ListValue, "clear")
def _clear(use: Use) -> Value:
    assert isinstance(use.receiver, ListValue)
    use.run.trail.write(use.receiver, "items", ())
    return None


@_method(ListValue, "sort", "remove", "discard")
def _shuffle(use: Use, *arguments: Value, **keywords: Value) -> Value:
    assert isinstance(use.receiver, ListValue)
    element = iteration.any_of(use.run, use.receiver.items) if use.receiver.items else use.receiver.element
    _replace_items(use, None, element)
    return None


@_method(ListValue, "copy")
def _copy_list(use: Use) -> Value:
    assert isinstance(use.receiver, ListValue)
    return ListValue(use.receiver.items, use.receiver.element, use.receiver.length)


@_method(ListValue, "index", "count")
def _index(use: Use, item: Value) -> Value:
    return unknown(0)


def _replace_items(use: Use, change: Callable[[tuple[Value, ...]], tuple[Value, ...]] | None, element: Value) -> None:
    values = use.receiver
    assert isinstance(values, ListValue)
    trail = use.run.trail
    if values.items is not None and change is not None:
        trail.write(values, "items", change(values.items))
        return
    known = values.element if values.items is None else iteration.any_of(use.run, values.items) if values.items else element
    trail.write(values, "element", use.run.join(known, element))
    trail.write(values, "length", UNKNOWN)
    trail.write(values, "items", None)


# -- dictionaries -----------------------------------------------------------------------------------------------------


@_method(DictValue, "get", "pop", "setdefault")
def _get(use: Use, key: Value, default: Value = None) -> Value:
    values = use.receiver
    assert isinstance(values, DictValue)
    if values.entries is None or not is_key(key):
        return UNKNOWN
    if key in values.entries:
        return values.entries[key]
    if _method_name(use) == "setdefault":
        use.run.trail.write(values, "entries", {**values.entries, key: default})
    return default


def _method_name(use: Use) -> str:
    function = use.node.func if isinstance(use.node, ast.Call) else None
    return function.attr if isinstance(function, ast.Attribute) else ""


@_method(DictValue, "items")
def _items(use: Use) -> Value:
    values = use.receiver
    assert isinstance(values, DictValue)
    if values.entries is None:
        return ListValue(None, (UNKNOWN, values.element))
    return ListValue(tuple(values.entries.items()))


@_method(DictValue, "keys")
def _keys(use: Use) -> Value:
    assert isinstance(use.receiver, DictValue)
    return ListValue(None if use.receiver.entries is None else tuple(use.receiver.entries))


@_method(DictValue, "values")
def _values(use: Use) -> Value:
    assert isinstance(use.receiver, DictValue)
    entries = use.receiver.entries
    return ListValue(None, use.receiver.element) if entries is None else ListValue(tuple(entries.values()))


@_method(DictValue, "update")
def _update(use: Use, values: Value = None, **entries: Value) -> Value:
    target = use.receiver
    assert isinstance(target, DictValue)
    added = values.entries if isinstance(values, DictValue) else {} if values is None else None
    known = target.entries is not None and added is not None
    use.run.trail.write(target, "entries", {**(target.entries or {}), **(added or {}), **entries} if known else None)
    return None


@_method(DictValue, "copy")
def _copy_dict(use: Use) -> Value:
    assert isinstance(use.receiver, DictValue)
    return DictValue(None if use.receiver.entries is None else dict(use.receiver.entries), use.receiver.element)


# -- strings and tuples -----------------------------------------------------------------------------------------------

_TEXT_METHODS = (
    "lower", "upper", "strip", "split", "replace", "startswith", "endswith", "join", "format", "lstrip", "rstrip", "title",
    "isdigit", "isalpha", "ljust", "rjust", "center", "count", "find", "index", "zfill", "removeprefix", "removesuffix", "rsplit",
    "partition", "rpartition", "splitlines",
)  # fmt: skip


def _text_method(name: str) -> Callable[..., Value]:
    def apply(use: Use, *arguments: Value) -> Value:
        known: list[Any] = []
        for argument in arguments:
            value = iteration.iterate(use.run, argument).items if isinstance(argument, ListValue | Iterator) else argument
            if value is None and argument is not None:
                return UNKNOWN
            plain = (
                value is None
                or isinstance(value, str | int | float)
                or (isinstance(value, tuple) and all(isinstance(v, str) for v in value))
            )
            if not plain:
                return UNKNOWN
            known.append(value)
        result = getattr(use.receiver, name)(*known)
        return ListValue(tuple(result)) if isinstance(result, list) else result

    return apply


for _name in _TEXT_METHODS:
    _method(str, _name)(_text_method(_name))


@_method(tuple, "numel")
def _numel(use: Use) -> Value:
    total: Size = 1
    assert isinstance(use.receiver, tuple)
    for part in use.receiver:
        size = as_size(part)
        if size is None:
            return UNKNOWN
        total = total * size
    return total


@_method(tuple, "as_list")
def _as_python_list(use: Use) -> Value:
    assert isinstance(use.receiver, tuple)
    return ListValue(use.receiver)


@_method(tuple, "index", "count")
def _tuple_index(use: Use, item: Value) -> Value:
    return unknown(0)
