"""`LayerKind`: one kind of layer or operator, with everything that tests of it are made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from tensorproof.compare.catalogue.parameters import Parameter
from tensorproof.compare.spec import Dialect, Json

Shape: TypeAlias = tuple[int, ...]
Shapes: TypeAlias = tuple[Shape, ...]
Arguments: TypeAlias = Mapping[str, Json]
#: Shapes of the results from shapes of the inputs and all parameters; raises `Misfit`.
ShapeRule: TypeAlias = Callable[[Shapes, Arguments], Shapes]
#: The same for one input and one result.
OneRule: TypeAlias = Callable[[Shape, Arguments], Shape]


class Misfit(Exception):
    """Parameters and input shapes that do not go together."""


def require(condition: bool) -> None:
    """Part of a shape rule: what has to hold."""
    if not condition:
        raise Misfit


@dataclass(frozen=True)
class InputRule:
    """What an input holds: floating numbers of any kind, or integers below `high` (a number, or the parameter that says it)."""

    dtype: str = "float32"
    values: tuple[str, ...] = ("normal", "uniform", "signs", "edges")
    high: int | str = 8


FLOATING = InputRule()
FLOATING_TYPES = ("float32", "float16", "bfloat16", "float64")


@dataclass(frozen=True, eq=False)
class LayerKind:
    """One kind of layer of Keras or operator of ONNX.

    `palette` lists the input shapes that single-layer tests draw from, batch axis first: few, since compilers work per shape, and
    with sizes 1, odd sizes and equal sizes among them. `inputs` holds a rule for each input (the last one goes for the rest).
    """

    name: str
    dialect: Dialect
    family: str
    rule: ShapeRule
    palette: tuple[Shapes, ...]
    parameters: Mapping[str, Parameter] = field(default_factory=dict[str, Parameter])
    inputs: tuple[InputRule, ...] = (FLOATING,)
    #: Number types that floating inputs and weights may have.
    dtypes: tuple[str, ...] = FLOATING_TYPES
    #: Input shapes that are used with masks, and the masks' shapes.
    masked: tuple[tuple[Shapes, Shapes], ...] = ()
    #: One of the 25 layers that AUDEE mutates.
    is_audee: bool = False
    #: Draws random numbers in training.
    is_random: bool = False
    #: The type of the result, where it is not that of the first input.
    result_dtype: str = ""

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """Ranks of the first input, with the batch axis."""
        return tuple(sorted({len(shapes[0]) for shapes in self.palette}))

    @property
    def arities(self) -> tuple[int, ...]:
        """How many inputs it may have."""
        return tuple(sorted({len(shapes) for shapes in self.palette}))

    @property
    def required(self) -> dict[str, Json]:
        """Parameters that cannot be left out."""
        return {name: parameter.default for name, parameter in self.parameters.items() if parameter.required}

    def input_rule(self, index: int) -> InputRule:
        """What the input at that place holds."""
        return self.inputs[min(index, len(self.inputs) - 1)]

    def given(self, parameters: Arguments) -> dict[str, Json]:
        """The parameters that have to be written down: those that are required, and those that are not at their default."""
        return {
            name: value
            for name, value in parameters.items()
            if self.parameters[name].required or not same(value, self.parameters[name].default)
        }

    def arguments(self, parameters: Arguments) -> dict[str, Json]:
        """All parameters; those that are not given have their default."""
        return {**{name: parameter.default for name, parameter in self.parameters.items()}, **parameters}

    def result_shapes(self, input_shapes: Sequence[Shape], parameters: Arguments) -> Shapes | None:
        """Shapes of all results; None if the layer must refuse the inputs or the parameters."""
        arguments = self.arguments(parameters)
        if any(name not in self.parameters or not self.parameters[name].accepts(value) for name, value in arguments.items()):
            return None
        if not input_shapes or len(input_shapes[0]) not in self.ranks:
            return None
        try:
            return self.rule(tuple(tuple(shape) for shape in input_shapes), arguments)
        except Misfit:
            return None

    def result_shape(self, input_shapes: Sequence[Shape], parameters: Arguments) -> Shape | None:
        """The shape of the (first) result; None if the layer must refuse the inputs or the parameters."""
        shapes = self.result_shapes(input_shapes, parameters)
        return None if shapes is None else shapes[0]

    def fitting(self, parameters: Arguments) -> list[Shapes]:
        """The input shapes of the palette that go with these parameters."""
        return [shapes for shapes in self.palette if self.result_shapes(shapes, parameters) is not None]


def same(left: Json, right: Json) -> bool:
    """Equal as JSON: True is not 1, and 1 is not 1.0."""
    return repr(left) == repr(right)


def only(rule: OneRule) -> ShapeRule:
    """A shape rule for one input and one result."""

    def apply(shapes: Shapes, arguments: Arguments) -> Shapes:
        require(len(shapes) == 1)
        return (rule(shapes[0], arguments),)

    return apply


def unchanged(shape: Shape, arguments: Arguments) -> Shape:
    """The result has the shape of the input."""
    return shape


def axis_of(axis: Json, rank: int) -> int:
    """An axis counted from the front."""
    require(isinstance(axis, int) and not isinstance(axis, bool) and -rank <= axis < rank)
    return axis % rank


def alone(*shapes: Shape) -> tuple[Shapes, ...]:
    """A palette for one input."""
    return tuple((shape,) for shape in shapes)


#: Input shapes by rank, with the batch axis.
FLAT = ((2, 8), (3, 5), (1, 1), (4, 4), (2, 12))
SEQUENCES = ((2, 8, 4), (3, 5, 6), (1, 1, 4), (2, 9, 1), (4, 4, 4), (1, 12, 2))
IMAGES = ((2, 8, 8, 4), (1, 7, 5, 6), (3, 3, 3, 3), (2, 6, 1, 2), (2, 5, 8, 1))
VOLUMES = ((2, 5, 6, 4, 2), (1, 4, 4, 4, 4), (2, 3, 5, 7, 1))
BY_SPATIAL = {0: FLAT, 1: SEQUENCES, 2: IMAGES, 3: VOLUMES}
ANY_RANK = FLAT[:3] + SEQUENCES[:3] + IMAGES[:3] + VOLUMES[:1]
