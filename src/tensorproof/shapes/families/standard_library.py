"""Python's standard library, as far as programs compute sizes with it or keep their data in it."""

# Methods of described classes are rules: they receive the call.
# ruff: noqa: PLE0302

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable

from tensorproof.shapes.families.names import spelled
from tensorproof.shapes.iteration import Stream, any_of, iterate
from tensorproof.shapes.joining import alike
from tensorproof.shapes.rule_table import Call, NotKnown, declare_constants, native_class, shape_rule
from tensorproof.shapes.run import MOST_UNROLLED, Raised
from tensorproof.shapes.sizes import Polynomial, bounds, product, unknown
from tensorproof.shapes.values import (
    UNKNOWN,
    DictValue,
    Instance,
    Iterator,
    ListValue,
    NativeObject,
    Partial,
    Results,
    Slice,
    Unknown,
    Value,
    as_size,
)

Arguments = tuple[Value, ...]
Options = dict[str, Value]

declare_constants({"math.tau": math.tau, "sys.maxsize": unknown(2**31)})


# -- math -------------------------------------------------------------------------------------------------------------

_MATH = (
    "sqrt exp log log2 log10 log1p expm1 sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh pow hypot degrees "
    "radians erf erfc gamma lgamma fabs fmod copysign isqrt gcd lcm comb perm factorial trunc isnan isinf isfinite cbrt exp2"
)


@shape_rule(*spelled("math", _MATH))
def math_function(call: Call, *values: Value) -> Value:
    """Functions of numbers, computed where the numbers are known."""
    if not values or not all(isinstance(value, int | float) for value in values):
        return UNKNOWN
    try:
        return getattr(math, call.name.rpartition(".")[2])(*values)
    except (ValueError, OverflowError, TypeError):
        return UNKNOWN


@shape_rule("math.floor", "math.ceil")
def math_rounding(call: Call, x: Value) -> Value:
    """Numbers to integers; a size is one already."""
    if isinstance(x, Polynomial):
        return x
    if isinstance(x, float | int) and math.isfinite(x):
        return math.floor(x) if call.name.endswith("floor") else math.ceil(x)
    return unknown(float("-inf"))


@shape_rule("math.prod")
def math_prod(call: Call, iterable: Value, *, start: Value = 1) -> Value:
    """The product of sizes."""
    items = iterate(call.run, iterable).items
    first = as_size(start)
    if items is None or first is None:
        return UNKNOWN
    sizes = [as_size(item) for item in items]
    known = [size for size in sizes if size is not None]
    return product([first, *known]) if len(known) == len(sizes) else UNKNOWN


_OPERATORS: dict[str, Callable[..., Value]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv, "mod": operator.mod,
}  # fmt: skip


@shape_rule(*spelled("operator", "add sub mul floordiv mod"))
def size_operator(call: Call, a: Value, b: Value) -> Value:
    """`operator.mul` of sizes; of other values the result is not known."""
    left, right = as_size(a), as_size(b)
    name = call.name.rpartition(".")[2]
    if left is None or right is None or (name in ("floordiv", "mod") and bounds(right)[0] <= 0):
        return UNKNOWN
    return _OPERATORS[name](left, right)


# -- functools and itertools ------------------------------------------------------------------------------------------


@shape_rule("functools.partial", "jax.tree_util.Partial")
def partial(func: Value, *args: Value, **keywords: Value) -> Value:
    """A function with some of its arguments given."""
    return UNKNOWN if isinstance(func, Unknown) else Partial(func, args, tuple(keywords.items()))


@shape_rule("functools.lru_cache", "functools.cache")
def decorating(call: Call, function: Value = None, *arguments: Value, **options: Value) -> Value:
    """Decorators that are called as functions leave the function as it is."""
    return UNKNOWN if function is None or isinstance(function, int) else function


@shape_rule("functools.reduce")
def reduce(call: Call, function: Value, sequence: Value, initial: Value = UNKNOWN) -> Value:
    """A function of two applied to all items in turn."""
    items = iterate(call.run, sequence).items
    if items is None or len(items) > MOST_UNROLLED:
        return UNKNOWN
    values = items if isinstance(initial, Unknown) else (initial, *items)
    if not values:
        return UNKNOWN
    return functools.reduce(lambda a, b: call.run.call_at(call.place, function, (a, b)), values)


#: More combinations than this are not listed.
_MOST_LISTED = 512


def _known(call: Call, *sequences: Value) -> list[Arguments]:
    rows = [iterate(call.run, sequence).items for sequence in sequences]
    known = [row for row in rows if row is not None]
    if len(known) != len(rows):
        raise NotKnown
    return known


@shape_rule("itertools.product")
def itertools_product(call: Call, *iterables: Value, repeat: int = 1) -> Value:
    """All combinations."""
    rows = _known(call, *iterables) * repeat
    return Iterator(list(itertools.product(*rows))) if math.prod(map(len, rows)) <= _MOST_LISTED else Iterator(None)


@shape_rule("itertools.combinations", "itertools.permutations", "itertools.combinations_with_replacement")
def itertools_chosen(call: Call, iterable: Value, r: int) -> Value:
    """Choices of some items."""
    (items,) = _known(call, iterable)
    found = getattr(itertools, call.name.rpartition(".")[2])(items, r)
    listed = list(itertools.islice(found, _MOST_LISTED + 1))
    return Iterator(listed) if len(listed) <= _MOST_LISTED else Iterator(None, (any_of(call.run, items),) * r)


@shape_rule("itertools.chain")
def itertools_chain(call: Call, *iterables: Value) -> Value:
    """One sequence behind the other."""
    streams = [iterate(call.run, iterable) for iterable in iterables]
    known = [stream.items for stream in streams if stream.items is not None]
    if len(known) == len(streams):
        return Iterator([item for items in known for item in items])
    return Iterator(None, any_of(call.run, tuple(s.element if s.items is None else any_of(call.run, s.items) for s in streams)))


@shape_rule("itertools.chain.from_iterable")
def itertools_chain_from(call: Call, iterable: Value) -> Value:
    """The items of the items."""
    return itertools_chain(call, *_known(call, iterable)[0])


@shape_rule("itertools.pairwise")
def itertools_pairwise(call: Call, iterable: Value) -> Value:
    """Neighbours."""
    stream = iterate(call.run, iterable)
    return Iterator(None, (stream.element,) * 2) if stream.items is None else Iterator(list(itertools.pairwise(stream.items)))


@shape_rule("itertools.zip_longest")
def itertools_zip_longest(call: Call, *iterables: Value, fillvalue: Value = None) -> Value:
    """Items side by side, with a filling for those that are missing."""
    return Iterator(list(itertools.zip_longest(*_known(call, *iterables), fillvalue=fillvalue)))


@shape_rule("itertools.islice")
def itertools_islice(call: Call, iterable: Value, *ends: Value) -> Value:
    """Some items of a sequence."""
    stream = iterate(call.run, iterable)
    limits = Slice(None, ends[0], None) if len(ends) == 1 else Slice(*ends, *(None,) * (3 - len(ends)))
    if stream.items is None or limits.constant is None:
        return Iterator(None, stream.element if stream.items is None else any_of(call.run, stream.items))
    return Iterator(stream.items[limits.constant])


@shape_rule("itertools.repeat")
def itertools_repeat(object: Value, times: Value = UNKNOWN) -> Value:
    """One value again and again."""
    return Iterator([object] * times) if isinstance(times, int) and times <= _MOST_LISTED else Iterator(None, object)


@shape_rule(
    "itertools.cycle", "itertools.accumulate", "itertools.count", "itertools.takewhile", "itertools.dropwhile", "itertools.starmap"
)
def itertools_endless(call: Call, first: Value = 0, *arguments: Value, **options: Value) -> Value:
    """Sequences without end, or whose items are not followed."""
    name = call.name.rpartition(".")[2]
    if name == "count":
        return Iterator(None, unknown(float("-inf")))
    if name != "cycle":
        return Iterator(None)
    stream = iterate(call.run, first)
    return Iterator(None, stream.element if stream.items is None else any_of(call.run, stream.items))


@shape_rule(
    "tqdm.tqdm",
    "tqdm.auto.tqdm",
    "tqdm.notebook.tqdm",
    "tqdm.std.tqdm",
    "tqdm.rich.tqdm",
)
def progress(iterable: Value = UNKNOWN, *arguments: Value, **options: Value) -> Value:
    """A bar around an iterable, which stays what it is."""
    return UNKNOWN if iterable is None else iterable


@shape_rule("tqdm.trange", "tqdm.auto.trange", "tqdm.notebook.trange")
def progress_range(call: Call, *ends: Value, **options: Value) -> Value:
    """A bar around a range."""
    from tensorproof.shapes.python_types import builtin

    return call.run.call_at(call.place, builtin("range"), ends)


# -- containers -------------------------------------------------------------------------------------------------------


@shape_rule("collections.OrderedDict")
def ordered_dict(call: Call, values: Value = None, **entries: Value) -> Value:
    """A dictionary."""
    from tensorproof.shapes.python_types import is_key

    if values is None:
        return DictValue({**entries})
    if isinstance(values, DictValue):
        return DictValue(None if values.entries is None else {**values.entries, **entries}, values.element)
    items = iterate(call.run, values).items
    pairs = [pair for pair in items or () if isinstance(pair, tuple) and len(pair) == 2 and is_key(pair[0])]
    return (
        DictValue({pair[0]: pair[1] for pair in pairs} | entries)
        if items is not None and len(pairs) == len(items)
        else DictValue(None)
    )


@shape_rule("collections.defaultdict", "collections.Counter")
def growing_dict(*arguments: Value, **entries: Value) -> Value:
    """Dictionaries whose keys appear when they are read, or are counted: they are not kept."""
    return DictValue(None)


@shape_rule("collections.deque")
def deque(call: Call, iterable: Value = (), maxlen: Value = None) -> Value:
    """A list, maybe of limited length."""
    stream = iterate(call.run, iterable)
    most = as_size(maxlen)
    if stream.items is None or (maxlen is not None and (not isinstance(most, int) or most < 1)):
        return ListValue(None, stream.element if stream.items is None else any_of(call.run, stream.items))
    found = ListValue(stream.items if not isinstance(most, int) else stream.items[-most:])
    found.slots["maxlen"] = most
    return found


@native_class("tensorproof.named_tuple_class")
class NamedTupleClass:
    """What `collections.namedtuple` makes: called, it gives a tuple with names."""

    fields: Value
    defaults: Value = ()

    def __call__(self, call: Call, *args: Value, **kwargs: Value) -> Value:
        names = [field for field in self.fields if isinstance(field, str)] if isinstance(self.fields, tuple) else []
        defaults = self.defaults if isinstance(self.defaults, tuple) else ()
        if len(defaults) > len(names):
            raise NotKnown
        given: Options = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
        given |= dict(zip(names, args, strict=False)) | kwargs
        if set(given) != set(names):
            raise NotKnown
        return Results.of(**{name: given[name] for name in names})

    def _make(self, call: Call, iterable: Value) -> Value:
        return self.__call__(call, *_known(call, iterable)[0])


@shape_rule("collections.namedtuple")
def named_tuple(call: Call, typename: Value, field_names: Value, *, defaults: Value = None, **options: Value) -> Value:
    """A class of tuples with names."""
    from tensorproof.shapes.rule_table import CLASSES

    names: Arguments | None = (
        tuple(field_names.replace(",", " ").split()) if isinstance(field_names, str) else iterate(call.run, field_names).items
    )
    if names is None or not all(isinstance(name, str) for name in names):
        return UNKNOWN
    given = () if defaults is None else _known(call, defaults)[0]
    return NativeObject(CLASSES["tensorproof.named_tuple_class"], call.place, fields=names, defaults=given)


@native_class("types.SimpleNamespace", "argparse.Namespace", "easydict.EasyDict")
class SimpleNamespace:
    """Values by name."""

    options: Options


# -- copies and dataclasses -------------------------------------------------------------------------------------------


@shape_rule("copy.deepcopy")
def deepcopy(x: Value, memo: Value = None) -> Value:
    """A copy that shares nothing with the original."""
    return _copied(x, {})


def _copied(value: Value, done: dict[int, Value]) -> Value:
    if isinstance(value, tuple) and not isinstance(value, Results):
        return tuple(_copied(part, done) for part in value)
    if not isinstance(value, ListValue | DictValue | Instance | NativeObject):
        return value
    if value.serial in done:
        return done[value.serial]
    return _copied_object(value, done)


def _copied_object(value: ListValue | DictValue | Instance | NativeObject, done: dict[int, Value]) -> Value:
    if isinstance(value, ListValue):
        copy: ListValue | DictValue | Instance | NativeObject = type(value)(())
    elif isinstance(value, DictValue):
        copy = DictValue({})
    elif isinstance(value, Instance):
        copy = Instance(value.cls)
    else:
        copy = NativeObject(value.cls, value.place)
        copy.literals = dict(value.literals)
    done[value.serial] = copy
    for name, part in value.slots.items():
        is_table = isinstance(part, dict)
        copy.slots[name] = {key: _copied(entry, done) for key, entry in part.items()} if is_table else _copied(part, done)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType, reportUnknownMemberType]
    return copy


@shape_rule("copy.copy")
def shallow_copy(x: Value) -> Value:
    """A copy that shares its parts with the original."""
    if isinstance(x, ListValue):
        return ListValue(x.items, x.element, x.length)
    if isinstance(x, DictValue):
        return DictValue(None if x.entries is None else dict(x.entries), x.element)
    return deepcopy(x) if isinstance(x, Instance | NativeObject) else x


@shape_rule("dataclasses.field")
def dataclass_field(call: Call, *, default: Value = UNKNOWN, default_factory: Value = None, **options: Value) -> Value:
    """What a field holds if nothing is given."""
    return default if default_factory is None else call.run.call_at(call.place, default_factory, ())


@shape_rule("dataclasses.replace")
def dataclass_replace(obj: Value, **changes: Value) -> Value:
    """A copy with other values."""
    if not isinstance(obj, Instance):
        return UNKNOWN
    copy = Instance(obj.cls)
    copy.slots.update(obj.slots | changes)
    return copy


@shape_rule("dataclasses.asdict")
def dataclass_as_dict(obj: Value, **options: Value) -> Value:
    """The fields of an object as a dictionary."""
    return DictValue({**obj.slots}) if isinstance(obj, Instance) else UNKNOWN


@shape_rule("typing.cast")
def typing_cast(typ: Value, val: Value) -> Value:
    """The value itself."""
    return val


# -- random choices ---------------------------------------------------------------------------------------------------


@shape_rule(*spelled("random", "random uniform gauss normalvariate betavariate expovariate triangular seed getrandbits"))
def random_number(*arguments: Value) -> Value:
    """A number that nobody knows."""
    return UNKNOWN


@shape_rule("random.randint", "random.randrange")
def random_integer(call: Call, *ends: Value) -> Value:
    """An integer between two others."""
    sizes = [as_size(end) for end in ends]
    if len(sizes) > 2 or not sizes or None in sizes:
        return unknown(float("-inf"))
    low, high = (0, sizes[0]) if len(sizes) == 1 else (sizes[0], sizes[1])
    least, most = bounds(low or 0)[0], bounds(high or 0)[1] - call.name.endswith("randrange")
    return unknown(least, most) if least <= most else UNKNOWN


@shape_rule("random.choice")
def random_choice(call: Call, seq: Value) -> Value:
    """Any of the items."""
    stream = iterate(call.run, seq)
    return stream.element if stream.items is None else any_of(call.run, stream.items)


@shape_rule("random.sample", "random.choices")
def random_sample(call: Call, population: Value, *arguments: Value, k: Value = UNKNOWN, **options: Value) -> Value:
    """Some of the items."""
    stream = iterate(call.run, population)
    element = stream.element if stream.items is None else any_of(call.run, stream.items)
    count = as_size(arguments[0] if arguments and call.name.endswith("sample") else k if not isinstance(k, Unknown) else 1)
    if isinstance(count, int) and 0 <= count <= _MOST_LISTED:
        return ListValue((element,) * count)
    return ListValue(None, element, UNKNOWN if count is None else count)


@shape_rule("random.shuffle")
def random_shuffle(call: Call, x: Value) -> Value:
    """The items in another order: where they differ, each may be any of them."""
    if isinstance(x, ListValue) and x.items and not all(alike(item, x.items[0]) for item in x.items):
        call.run.trail.write(x, "items", (any_of(call.run, x.items),) * len(x.items))
    return None


@shape_rule("sys.exit", "os._exit", "os.abort")
def leave_program(status: Value = None) -> Value:
    """Nothing is run behind it."""
    raise Raised


@native_class("itertools.groupby")
class GroupBy:
    """Groups whose keys are not known."""

    iterable: Value
    key: Value = None

    def __iter__(self, call: Call) -> Value:
        stream = iterate(call.run, self.iterable)
        element = stream.element if stream.items is None else any_of(call.run, stream.items)
        return Stream(None, (UNKNOWN, ListValue(None, element)))  # pyright: ignore[reportReturnType]
