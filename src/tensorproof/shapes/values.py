"""Values of the abstract interpreter.

Integers (with symbols), floats, strings, bools, None, Ellipsis and tuples stand for themselves. Everything that Python can
change in place is a `Mutable`: it keeps its state in `slots`, which only the `Trail` writes, so that a branch can be
undone and joined with another.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tensorproof.shapes.problems import Place, Related
from tensorproof.shapes.shape import ANY_SHAPE, Shape
from tensorproof.shapes.sizes import Polynomial, Size

if TYPE_CHECKING:
    from tensorproof.shapes.rule_table import NativeClass, ShapeRule
    from tensorproof.shapes.trail import Mark

Framework = Literal["torch", "numpy", "tf", "keras", "jax"]

_serials = count()


def new_serial() -> int:
    """A number above that of every object that exists, below that of every one to come."""
    return next(_serials)


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value about which nothing is known."""

    reason: str = ""


UNKNOWN = Unknown()


@dataclass(frozen=True, slots=True)
class History:
    """Where a tensor came from: what happened, and the history of the tensor that it happened to."""

    place: Place
    text: str
    before: History | None = None
    #: What the operation made; its shape is added to the text when somebody reads it.
    result: Tensor | None = None

    @staticmethod
    def of(place: Place, operation: str, result: Tensor, before: History | None) -> History:
        """The step of an operation of a library."""
        return History(place, operation, before, result)

    @property
    def message(self) -> str:
        return self.text if self.result is None else f"{self.text.removesuffix('.__call__')} gives {self.result}"

    def steps(self, most: int = 8) -> tuple[Related, ...]:
        """The newest steps, oldest first."""
        found: list[Related] = []
        step: History | None = self
        while step is not None and len(found) < most:
            found.append(Related(step.place, step.message))
            step = step.before
        return tuple(reversed(found))


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a tensor was computed: what patterns of numerics look at, and what a run of a TensorFlow 1 graph repeats."""

    rule: ShapeRule
    name: str
    arguments: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]
    place: Place
    receiver: Value = None
    #: Which of several results the tensor is.
    part: int | None = None


@dataclass(frozen=True, eq=False)
class Tensor:
    """An array of any library. Compared by identity: two tensors of one shape are still two tensors.

    Without slots: copies with other fields are made all the time, and one dictionary is copied faster than thirteen slots.
    """

    shape: Shape = ANY_SHAPE
    #: "f32", "i64", "bool", ...; empty where it is not known.
    dtype: str = ""
    framework: Framework = "torch"
    #: Whether memory order is that of the axes: what `view` needs. None where it is not known.
    contiguous: bool | None = True
    #: Distances in memory between the elements along each axis, where the axes are not in the order of memory and they are known.
    strides: tuple[Size, ...] | None = None
    #: Axes of size 1 that the program wrote as such (None, unsqueeze, keepdim), from the front.
    new_axes: frozenset[int] = frozenset()
    #: Known content of a small integer tensor: the shape vector of another one, a constant.
    content: Value = None
    history: History | None = None
    recipe: Recipe | None = None
    #: "placeholder", "variable", "parameter": what an operation must know of it.
    kind: str = ""
    #: Whether it comes from an operation that was reported: what follows from that is not reported again.
    suspect: bool = False
    #: A factor by which a reshape multiplied the batch size, and the history step that did.
    batch_factor: tuple[Size, History] | None = None

    def with_shape(self, shape: Shape, **changes: Any) -> Tensor:
        """The result of an operation on this tensor: another shape, and nothing that is only true of this one."""
        # What is computed from a tensor in another order of memory may keep that order.
        return self.evolved(**{"shape": shape, "contiguous": True if self.contiguous else None, **_OF_ONE_TENSOR, **changes})

    def evolved(self, **changes: Any) -> Tensor:
        """The tensor with other fields: what `dataclasses.replace` does, at a fraction of its cost."""
        other = object.__new__(Tensor)
        vars(other).update(vars(self))
        vars(other).update(changes)
        return other

    def __str__(self) -> str:
        return f"{self.dtype or 'tensor'}{self.shape}"


class Results(tuple["Value", ...]):
    """Several results that also have names: `torch.max(x, dim=1).values`."""

    names: tuple[str, ...]

    @staticmethod
    def of(**fields: Value) -> Results:
        results = Results(fields.values())
        results.names = tuple(fields)
        return results

    def map(self, function: Callable[[Value], Value]) -> Results:
        """The function of each, under the same names."""
        return Results.of(**{name: function(value) for name, value in zip(self.names, self, strict=True)})


#: Fields that are not true of what is computed from a tensor.
_OF_ONE_TENSOR: dict[str, Any] = {"strides": None, "new_axes": frozenset[int](), "content": None, "recipe": None, "kind": ""}


@dataclass(frozen=True, slots=True)
class DType:
    """A number type of a library: `torch.float16` is `DType("f16")`."""

    name: str


@dataclass(frozen=True, slots=True)
class Slice:
    """`start:stop:step`."""

    start: Value
    stop: Value
    step: Value

    @property
    def constant(self) -> slice[int | None, int | None, int | None] | None:
        """The slice of Python itself, if all its parts are known."""
        ends: list[int | None] = []
        for part in (self.start, self.stop, self.step):
            size = None if part is None else as_size(part)
            if part is not None and not isinstance(size, int):
                return None
            ends.append(size if isinstance(size, int) else None)
        return slice(*ends)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several values: which one depends on what the analysis does not know."""

    of: tuple[Value, ...]


#: No value at all: what joins with another value to that value.
NOTHING = Choice(())


@dataclass(frozen=True, slots=True)
class Library:
    """Something in a library, by its canonical dotted name."""

    path: str


@dataclass(frozen=True, slots=True)
class BoundMethod:
    """A function of the program, or a rule, with its receiver."""

    receiver: Value
    function: Value


@dataclass(frozen=True, slots=True)
class TensorMethod:
    """A method of an array that was looked up and is about to be called."""

    receiver: Tensor
    name: str
    #: Where the name is written.
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Builtin:
    """A function of Python itself, or a method of one of its types, implemented by the interpreter."""

    name: str
    function: Callable[..., Value]
    receiver: Value = None


@dataclass(frozen=True, slots=True)
class Partial:
    """`functools.partial`."""

    function: Value
    arguments: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class Super:
    """`super()` in a method of `owner`, on `instance`."""

    owner: ClassValue
    instance: Value


class Mutable:
    """An object with identity. `slots` is written through the trail only."""

    __slots__ = ("serial", "slots")

    def __init__(self, **slots: Any) -> None:
        self.serial = next(_serials)
        self.slots: dict[str, Any] = slots


class ListValue(Mutable):
    """A list, deque or the like: its items, or only what every item is and how many there are."""

    __slots__ = ()

    def __init__(self, items: Sequence[Value] | None, element: Value = UNKNOWN, length: Value = UNKNOWN) -> None:
        known = items is not None
        super().__init__(items=tuple(items) if known else None, element=NOTHING if known else element, length=length)

    @property
    def items(self) -> tuple[Value, ...] | None:
        return self.slots["items"]

    @property
    def element(self) -> Value:
        """What any item is, once items are no longer told apart."""
        element: Value = self.slots["element"]
        return UNKNOWN if element is NOTHING else element

    @property
    def length(self) -> Value:
        return len(self.items) if self.items is not None else self.slots["length"]


class SetValue(ListValue):
    """A set, as the list of its elements."""

    __slots__ = ()


class DictValue(Mutable):
    """A dictionary with known keys, or (`entries` None) only what every value is."""

    __slots__ = ()

    def __init__(self, entries: dict[Value, Value] | None, element: Value = UNKNOWN) -> None:
        super().__init__(entries=entries, element=element)

    @property
    def entries(self) -> dict[Value, Value] | None:
        return self.slots["entries"]

    @property
    def element(self) -> Value:
        return self.slots["element"]


class Iterator(Mutable):
    """An iterator over known items (a position moves), or over equal elements."""

    __slots__ = ()

    def __init__(self, items: Sequence[Value] | None, element: Value = UNKNOWN) -> None:
        super().__init__(items=None if items is None else tuple(items), element=element, position=0)


class Frame(Mutable):
    """The names of one run of a function, of a class body, or of a module."""

    __slots__ = ("catches", "function", "is_class", "mark", "module", "outer", "returns")

    def __init__(self, module: LocalModule, outer: Frame | None, function: FunctionValue | None = None) -> None:
        super().__init__()
        self.module = module
        #: Where names are looked up next.
        self.outer = outer
        self.function = function
        self.is_class = False
        #: The point of the trail at which the function began; None for modules and classes.
        self.mark: Mark | None = None
        self.returns: list[Any] = []
        self.catches = 0


class LocalModule(Mutable):
    """A module of the user's program; its names are in `frame`."""

    __slots__ = ("file", "frame", "name")

    def __init__(self, name: str, file: str) -> None:
        super().__init__()
        self.name = name
        self.file = file
        self.frame = Frame(self, None)


@dataclass(frozen=True, slots=True, eq=False)
class FunctionValue:
    """A function or lambda of the program, with the frame that it was defined in."""

    name: str
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    frame: Frame
    defaults: tuple[Value, ...]
    keyword_defaults: dict[str, Value]
    owner: ClassValue | None = None
    #: "", "static", "class" or "property".
    binding: str = ""
    is_generator: bool = False


class ClassValue(Mutable):
    """A class of the program; `slots` are its own names."""

    __slots__ = ("bases", "is_dataclass", "name", "node")

    def __init__(self, name: str, bases: tuple[Value, ...], node: ast.ClassDef) -> None:
        super().__init__()
        self.name = name
        self.bases = bases
        self.node = node
        self.is_dataclass = False

    def ancestors(self) -> list[ClassValue | Library]:
        """The class and its bases in the order of lookup (depth first, which is enough for what models do)."""
        found: list[ClassValue | Library] = [self]
        for base in self.bases:
            for entry in base.ancestors() if isinstance(base, ClassValue) else [base] if isinstance(base, Library) else []:
                if entry not in found:
                    found.append(entry)
        return found

    @property
    def library_bases(self) -> list[str]:
        return [entry.path for entry in self.ancestors() if isinstance(entry, Library)]


class Instance(Mutable):
    """An object of a class of the program; `slots` are its attributes. `native` is set by a library base's constructor."""

    __slots__ = ("cls",)

    def __init__(self, cls: ClassValue) -> None:
        super().__init__()
        self.cls = cls


class NativeObject(Mutable):
    """An object of a library's class that a rule describes (a layer, a data loader); `slots` are its attributes.

    `literals` are the places of arguments of its constructor that are written as plain numbers, by parameter: what an editor
    can correct.
    """

    __slots__ = ("cls", "literals", "place")

    def __init__(self, cls: NativeClass, place: Place, **slots: Any) -> None:
        super().__init__(**slots)
        self.cls = cls
        self.place = place
        self.literals: dict[str, Place] = {}


Value: TypeAlias = (
    bool
    | int
    | Polynomial
    | float
    | complex
    | str
    | bytes
    | EllipsisType
    | tuple["Value", ...]
    | Unknown
    | Tensor
    | DType
    | Slice
    | Choice
    | Library
    | BoundMethod
    | TensorMethod
    | Builtin
    | Partial
    | Super
    | ListValue
    | DictValue
    | Iterator
    | LocalModule
    | FunctionValue
    | ClassValue
    | Instance
    | NativeObject
    | None
)


def is_size(value: object) -> bool:
    """Whether a value is an integer, with symbols or without."""
    return isinstance(value, int | Polynomial) and not isinstance(value, bool)


def as_size(value: Value) -> Size | None:
    """The value as a size: an integer, or the content of a scalar integer tensor."""
    if isinstance(value, Tensor):
        value = value.content
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int | Polynomial) else None
