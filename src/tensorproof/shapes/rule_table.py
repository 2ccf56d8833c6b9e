"""The table of library functions: one typed Python function per family, with the names that it goes by.

The signature of a rule *is* the argument binding of the API, and its annotations say what arrives:

    Tensor          an array; numbers and nested lists become one, an unknown value becomes one of unknown shape
    Size            an integer, maybe with symbols
    Extent          an integer; a value that is not known becomes an unknown size (for layers: their other sizes still count)
    Sizes           integers as one argument: `3`, `(3, 3)`, `[3, 3]`
    Axes            None, one integer or several
    bool, str       a constant
    Value           whatever was passed, unchanged

`X | None` lets None through. A rule whose argument is not known is not run: its result is unknown. A first parameter named
`call` receives the `Call`. A rule raises `Mismatch` where every run fails.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from tensorproof.shapes.problems import Edit, Place, Related
from tensorproof.shapes.shape import ANY_SHAPE, SCALAR, Shape
from tensorproof.shapes.sizes import Polynomial, Size, unknown
from tensorproof.shapes.values import (
    UNKNOWN,
    Framework,
    Instance,
    ListValue,
    NativeObject,
    Tensor,
    Unknown,
    Value,
    as_size,
)

if TYPE_CHECKING:
    from tensorproof.rules.rule import Rule
    from tensorproof.shapes.run import Run

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])
AnyClass = TypeVar("AnyClass", bound=type)

Extent = Size
Sizes = tuple[Size, ...]
Axes = None | int | tuple[int, ...]

FRAMEWORKS: Mapping[str, Framework] = {"torch": "torch", "numpy": "numpy", "tf": "tf", "keras": "keras", "jax": "jax"}


class Mismatch(Exception):
    """The operation fails in every run. `tensors` are those whose origins a reader wants to see."""

    def __init__(
        self,
        rule: Rule,
        message: str,
        *,
        result: Value = UNKNOWN,
        tensors: Sequence[Tensor] = (),
        related: Sequence[Related] = (),
        edits: Sequence[Edit] = (),
    ) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message
        self.result = result
        self.tensors = tuple(tensors)
        self.related = tuple(related)
        self.edits = tuple(edits)


class NotKnown(Exception):
    """An argument that decides the result is not known."""


@dataclass(frozen=True, slots=True)
class Call:
    """One use of a rule: where, under which name, and the run that it belongs to."""

    run: Run
    name: str
    place: Place
    receiver: Value = None
    #: Where the name of a method is written.
    name_place: Place | None = None

    @property
    def framework(self) -> Framework:
        return framework_of(self.name)

    @property
    def is_tf1(self) -> bool:
        """Whether the program builds graphs as in TensorFlow 1, be it with `tensorflow.compat.v1`."""
        return self.run.profile != "tf2"

    @property
    def runs_on_tf1(self) -> bool:
        """Whether it is TensorFlow 1 itself that runs the program, with its stricter operations."""
        return self.run.profile == "tf1"

    def warn(
        self,
        rule: Rule,
        message: str,
        *,
        tensors: Sequence[Tensor] = (),
        related: Sequence[Related] = (),
        edits: Sequence[Edit] = (),
    ) -> None:
        """Report something that runs and is hardly meant. The place of the call is blamed."""
        if any(tensor.suspect for tensor in tensors):
            return
        self.run.report(
            rule, self.place, message, certain=False, tensors=tensors, related=related, edits=edits, operation=self.name
        )


@dataclass(slots=True)
class ShapeRule:
    """A rule under all its names."""

    names: tuple[str, ...]
    function: Callable[..., Value]
    is_method: bool = False
    _binding: Binding | None = field(default=None, repr=False)

    @property
    def binding(self) -> Binding:
        if self._binding is None:
            self._binding = Binding.of(self.function)
        return self._binding


RULES: dict[str, ShapeRule] = {}
PROPERTIES: dict[str, ShapeRule] = {}
CLASSES: dict[str, NativeClass] = {}
CONSTANTS: dict[str, Value] = {}
PASSING_ON: set[Callable[..., Any]] = set()


def shape_rule(*names: str) -> Callable[[AnyFunction], AnyFunction]:
    """Declare the rule of functions or methods: `torch.matmul`, `torch.Tensor.matmul`."""

    def declare(function: AnyFunction) -> AnyFunction:
        rule = ShapeRule(names, function)
        _enter(RULES, names, rule)
        return function

    return declare


def shape_property(*names: str) -> Callable[[AnyFunction], AnyFunction]:
    """Declare an attribute of arrays that is computed: `torch.Tensor.T`. The function takes the array."""

    def declare(function: AnyFunction) -> AnyFunction:
        _enter(PROPERTIES, names, ShapeRule(names, function))
        return function

    return declare


def native_class(*names: str) -> Callable[[AnyClass], AnyClass]:
    """Declare a class of a library: annotated fields are the parameters of its constructor, methods are its methods.

    A field of the type `Arguments` takes all further arguments, one of the type `Options` lets any further keywords through: each
    becomes a field of its own name.

    A method reads fields from `self`; what it changes, it writes with `call.run.trail.write(call.receiver, ...)`. The special
    method `setup(self, call)` runs after construction, `__call__` is the call, `__iter__(self, call)` returns what an iteration
    yields (a list of values or a `Stream`), `__len__` and `__getitem__` are what they are in Python.
    """

    def declare(cls: AnyClass) -> AnyClass:
        _enter(CLASSES, names, NativeClass(names, cls))
        return cls

    return declare


def passes_alternatives_on(function: AnyFunction) -> AnyFunction:
    """Mark a rule that only hands its arguments to others: they try the alternatives of a value themselves."""
    PASSING_ON.add(function)
    return function


def declare_constants(constants: Mapping[str, Value]) -> None:
    """Declare members of libraries that are plain values: `numpy.newaxis` is None."""
    _enter_all(CONSTANTS, constants)


def _enter(table: dict[str, Any], names: Sequence[str], entry: object) -> None:
    _enter_all(table, dict.fromkeys(names, entry))


def _enter_all(table: dict[str, Any], entries: Mapping[str, Any]) -> None:
    for name, entry in entries.items():
        assert name not in table, f"{name} is declared twice"
        table[name] = entry


class NativeClass:
    """A class of a library, as a Python class describes it."""

    def __init__(self, names: tuple[str, ...], python_class: type) -> None:
        self.names = names
        self.python_class = python_class
        self._rules: dict[str, ShapeRule | None] = {}
        self._constructor: Binding | None = None

    @property
    def constructor(self) -> Binding:
        if self._constructor is None:
            self._constructor = Binding.of_fields(self.python_class)
        return self._constructor

    def view(self, receiver: NativeObject | Instance) -> Any:
        """An object whose attributes are the fields of the receiver, for the methods of the describing class."""
        view = object.__new__(self.python_class)
        view.__dict__ = receiver.slots
        return view

    def is_constructed(self, receiver: NativeObject | Instance) -> bool:
        """Whether an object of a subclass has the fields that its methods read: its own constructor may not be understood."""
        required = (parameter.name for parameter in self.constructor.parameters if parameter.default is inspect.Parameter.empty)
        special = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        variadic = {parameter.name for parameter in self.constructor.parameters if parameter.kind in special}
        return all(name in receiver.slots or name in variadic for name in required)

    def method(self, name: str) -> ShapeRule | None:
        """The rule of a method, by its Python name."""
        if name not in self._rules:
            function = getattr(self.python_class, name, None)
            usable = inspect.isfunction(function)
            self._rules[name] = ShapeRule((f"{self.names[0]}.{name}",), function, is_method=True) if usable and function else None
        return self._rules[name]

    def property(self, name: str) -> Callable[[Any], Value] | None:
        found = getattr(self.python_class, name, None)
        return found.fget if isinstance(found, property) else None


# -- binding ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a rule: `kind` and `default` as `inspect` gives them, the annotation as text."""

    name: str
    kind: Any
    default: Any
    annotation: str


@dataclass(frozen=True, slots=True)
class Binding:
    """The parameters of a rule."""

    parameters: tuple[Parameter, ...]
    wants_call: bool
    wants_self: bool
    returns_tensor: bool

    @staticmethod
    def of(function: Callable[..., Any]) -> Binding:
        signature = inspect.signature(function)
        parameters = [
            Parameter(p.name, p.kind, p.default, p.annotation if isinstance(p.annotation, str) else "Value")
            for p in signature.parameters.values()
        ]
        wants_self = bool(parameters) and parameters[0].name == "self"
        if wants_self:
            parameters = parameters[1:]
        wants_call = bool(parameters) and parameters[0].name == "call"
        return Binding(
            tuple(parameters[1:] if wants_call else parameters),
            wants_call,
            wants_self,
            str(signature.return_annotation) == "Tensor",
        )

    @staticmethod
    def of_fields(described: type) -> Binding:
        """The constructor: one parameter per annotated field, those of bases first."""
        fields: dict[str, str] = {}
        for base in reversed(described.__mro__):
            fields.update(inspect.get_annotations(base))
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        kinds = {"Arguments": inspect.Parameter.VAR_POSITIONAL, "Options": inspect.Parameter.VAR_KEYWORD}
        parameters: list[Parameter] = []
        for name, annotation in fields.items():
            if annotation.startswith("ClassVar"):
                continue
            default = getattr(described, name, inspect.Parameter.empty)
            special = kinds.get(annotation)
            parameters.append(Parameter(name, special or kind, default, annotation if special is None else "Value"))
        parameters.sort(key=lambda parameter: parameter.kind is inspect.Parameter.VAR_KEYWORD)
        return Binding(tuple(parameters), wants_call=False, wants_self=False, returns_tensor=False)

    def _in_torch_words(self, keywords: Mapping[str, Value]) -> dict[str, Value]:
        """Keywords with those of NumPy exchanged for those that the rule takes."""
        known = {parameter.name for parameter in self.parameters}
        exchange = {name: own for name, own in _TORCH_ALIASES.items() if name not in known and own in known}
        return {exchange.get(name, name): value for name, value in keywords.items()}

    def bind(
        self, arguments: Sequence[Value], keywords: Mapping[str, Value], framework: Framework
    ) -> tuple[list[Value], dict[str, Value]]:
        """Arguments as the rule takes them; raises `TypeError` if they do not fit, `NotKnown` if one is not known."""
        waiting, named = list(arguments), dict(keywords)
        if framework == "torch":
            named = self._in_torch_words(named)
        given: list[Value] = []
        by_name: dict[str, Value] = {}
        for parameter in self.parameters:
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                given.extend(coerced(value, parameter.annotation, framework) for value in waiting)
                waiting = []
            elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
                by_name.update(named)
                named = {}
            else:
                keyword_only = parameter.kind is inspect.Parameter.KEYWORD_ONLY
                if waiting and not keyword_only:
                    value = coerced(waiting.pop(0), parameter.annotation, framework)
                elif parameter.name in named:
                    value = coerced(named.pop(parameter.name), parameter.annotation, framework)
                elif parameter.default is not inspect.Parameter.empty:
                    value = parameter.default
                else:
                    raise TypeError(f"{parameter.name} is missing")
                if keyword_only:
                    by_name[parameter.name] = value
                else:
                    given.append(value)
        if waiting or named:
            raise TypeError("too many arguments")
        return given, by_name


#: Names of NumPy that PyTorch takes for its own.
_TORCH_ALIASES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other"}


def coerced(value: Value, annotation: str, framework: Framework) -> Value:
    """A value as an annotation of a rule wants it."""
    kind, _, rest = annotation.partition(" | ")
    if value is None and rest == "None":
        return None
    convert = _COERCIONS.get(kind)
    return value if convert is None else convert(value, framework)


def as_tensor(value: Value, framework: Framework) -> Tensor:
    """An array: itself, a number, or nested lists."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Unknown):
        return Tensor(ANY_SHAPE, framework=framework, contiguous=None)
    if isinstance(value, bool):
        return Tensor(SCALAR, "bool", framework, content=value)
    if isinstance(value, int | Polynomial):
        return Tensor(SCALAR, "", framework, content=value)
    if isinstance(value, float | complex):
        return Tensor(SCALAR, "", framework)
    if isinstance(value, tuple | ListValue):
        shape = nested_shape(value, framework)
        items = value if isinstance(value, tuple) else value.items
        sizes = None if items is None or shape.rank != 1 else tuple(as_size(item) for item in items)
        content = sizes if sizes is not None and None not in sizes else None
        return Tensor(shape, "", framework, content=content)
    if isinstance(value, NativeObject):
        held = value.slots.get("tensor")
        if isinstance(held, Tensor):
            return held
    raise NotKnown


def nested_shape(value: Value, framework: Framework) -> Shape:
    """The shape of nested lists; unknown where rows differ or cannot be counted."""
    if not isinstance(value, tuple | ListValue):
        return as_tensor(value, framework).shape
    items = value if isinstance(value, tuple) else value.items
    if items is None:
        assert isinstance(value, ListValue)
        length = as_size(value.length)
        inner = nested_shape(value.element, framework) if not isinstance(value.element, Unknown) else ANY_SHAPE
        return inner.preceded(length if length is not None else unknown(0))
    if not items:
        return Shape((0,))
    inner = [nested_shape(item, framework) for item in items]
    from tensorproof.shapes.joining import merged_shapes

    common = inner[0]
    for shape in inner[1:]:
        common = merged_shapes(common, shape)
    return common.preceded(len(items))


def as_sizes(value: Value) -> Sizes:
    """Several integers: one stands for itself; an unknown one becomes an unknown size, which may be negative."""
    single = as_size(value)
    if single is not None:
        return (single,)
    if isinstance(value, Tensor) and value.content is not None:
        value = value.content
    items = value.items if isinstance(value, ListValue) else value
    if not isinstance(items, tuple):
        raise NotKnown
    found: list[Size] = []
    for item in items:
        size = as_size(item)
        if size is None and not isinstance(item, Unknown | Tensor):
            raise NotKnown
        found.append(unknown(float("-inf")) if size is None else size)
    return tuple(found)


def _as_known_size(value: Value, framework: Framework) -> Size:
    size = as_size(value)
    if size is None:
        raise NotKnown
    return size


def _as_extent(value: Value, framework: Framework) -> Size:
    size = as_size(value)
    return unknown() if size is None else size


def _as_sizes(value: Value, framework: Framework) -> Sizes:
    return as_sizes(value)


def _as_axes(value: Value, framework: Framework) -> Axes:
    if value is None:
        return None
    sizes = as_sizes(value)
    axes = tuple(size for size in sizes if isinstance(size, int))
    if len(axes) != len(sizes):
        raise NotKnown
    return axes[0] if as_size(value) is not None else axes


def _as_bool(value: Value, framework: Framework) -> bool:
    if isinstance(value, bool | int | float | str) or value is None:
        return bool(value)
    raise NotKnown


def _as_str(value: Value, framework: Framework) -> str:
    if isinstance(value, str):
        return value
    raise NotKnown


def _as_int(value: Value, framework: Framework) -> int:
    size = as_size(value)
    if isinstance(size, int):
        return size
    raise NotKnown


_COERCIONS: Mapping[str, Callable[[Value, Framework], Value]] = {
    "Tensor": as_tensor,
    "Size": _as_known_size,
    "Extent": _as_extent,
    "Sizes": _as_sizes,
    "Axes": _as_axes,
    "bool": _as_bool,
    "str": _as_str,
    "int": _as_int,
}


#: What gives back arrays of NumPy.
_NUMPY_RESULTS = ("keras.utils.", "keras.datasets.", "keras.preprocessing.", "tf.Session.", "tf.Tensor.eval")


@cache
def framework_of(name: str) -> Framework:
    """The library that a canonical name belongs to."""
    if name.startswith(_NUMPY_RESULTS) or name.endswith((".predict", ".predict_on_batch")):
        return "numpy"
    return FRAMEWORKS.get(name.partition(".")[0], "numpy")
