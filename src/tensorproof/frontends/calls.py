"""`OperatorCall`: one call of a framework's operator, as the block that stands for it sees it.

How a framework spells an operator stands in the operator's own block:

    exp.aten("exp")
    exp.tensorflow("Exp")
    exp.jax("exp")

say that these are `Exp` on their operands. Where arguments differ, an adapter says what they mean:

    @softmax.tensorflow("Softmax")
    def _(call: TensorflowCall) -> int:
        return call.emit("Softmax", call.operand(0), axis=-1)

An adapter gives the number of the value that is the result, or a tuple of them, and may emit as many nodes as it needs: the one
that makes the result carries the program's name for it, and all of them its source line. What an adapter does not model it
refuses with `NotAnalysed`: the node is then in the graph under the framework's name, and the report shows it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.formats import BY_NAME, INT64, Format
from tensorproof.frontends.conversion import Change, change_of
from tensorproof.graph import ABSENT, Dimension, Graph

#: The version of the ONNX operators that programs are translated into.
OPSET = 23

#: The most elements of a tensor that is computed while a program is read.
MOST_COMPUTED = 1 << 16

#: The domain of operators that ONNX does not have.
OWN = "tensorproof"


@dataclass(frozen=True, slots=True)
class Handle:
    """An argument that the graph computes: a tensor, or (`is_number`) a number of the program such as a size of an input.

    `format` and `shape` are those of the program's own trace, None where it says nothing; a dimension that is not fixed is None.
    `is_row_major` says that its elements fill its memory in row-major order.
    """

    number: int
    format: Format | None
    shape: tuple[Dimension, ...] | None
    is_number: bool = False
    is_row_major: bool = False


#: What makes the nodes of a sub-graph, from its inputs to its outputs.
Build = Callable[[Sequence[Handle]], Sequence[Any]]


class Emitter(Protocol):
    """Where nodes go (`tensorproof.frontends.graph_builder`)."""

    def node(
        self,
        op: str,
        domain: str,
        inputs: Sequence[int],
        outputs: int,
        attributes: dict[str, Any],
        formats: Sequence[Format | None],
    ) -> tuple[int, ...]:
        """Append a node; gives the numbers of its outputs."""
        ...

    def constant(self, array: npt.NDArray[Any], change: Change | None = None) -> int:
        """A constant of the program; `change` says what its conversion to the format of the array did to it."""
        ...

    def format_of(self, number: int) -> Format | None:
        """The format of a value, where it is known."""
        ...

    def body(self, name: str, inputs: Sequence[Handle], build: Build) -> Graph:
        """A sub-graph with inputs of its own, which are as the given ones are; `build` makes its nodes and gives its outputs."""
        ...

    def inlined(self, module: Any, inputs: Sequence[Any]) -> list[Any]:
        """The nodes of a function of the program in place, on the given values; gives what it returns."""
        ...

    def array_of(self, number: int) -> npt.NDArray[Any] | None:
        """The numbers of a value that does not depend on inputs or weights, where they are known and few."""
        ...

    def elements_of(self, number: int) -> list[int | None] | None:
        """The elements of a list of whole numbers, None for those that are not known; None if not even their number is."""
        ...

    def shape_of(self, number: int) -> tuple[Dimension, ...] | None:
        """The shape of a value, worked out from the nodes that make it where the program does not say it."""
        ...


class OperatorCall:
    """The means to say a call in our operators; arguments are those of the framework (see its subclass)."""

    def __init__(self, name: str, results: Sequence[Handle], emitter: Emitter) -> None:
        #: The framework's name of the operator.
        self.name = name
        #: What the program says about the results; their numbers are ABSENT.
        self.results = results
        self._emitter = emitter

    def plain(self, op: str, domain: str) -> Any:
        """The operator on the framework's operands as they come: what a spelling without an adapter means."""
        raise NotImplementedError

    def _refuse_complex(self, operands: Sequence[Any]) -> None:
        """Refuse arithmetic on complex numbers, which no block of an element-wise operator has."""
        formats = [operand.format for operand in operands if isinstance(operand, Handle)]
        if any(format is not None and format.kind == "complex" for format in formats):
            raise NotAnalysed(f"{self.name} of complex numbers")

    # -- operands ---------------------------------------------------------------------------------------------------

    def value(self, argument: Any, format: Format | None = None) -> int:
        """A tensor or number as a value of the graph, in a format if one is given."""
        if isinstance(argument, Handle):
            return self.cast(argument.number, format) if format is not None and argument.format is not format else argument.number
        if isinstance(argument, bool | int | float):
            chosen = format or self.result.format or BY_NAME["float32"]
            number = np.asarray(argument)
            rounded = into(number, chosen)
            return self._emitter.constant(rounded, change_of(number, rounded) if chosen.is_float else None)
        raise NotAnalysed(f"an argument of {self.name} is {type(argument).__name__}")

    def integers(self, items: Sequence[Any]) -> int:
        """A list of whole numbers, known or computed, as a one-dimensional tensor."""
        if not any(isinstance(item, Handle) for item in items):
            return self.constant(np.array([_whole(item) for item in items], np.int64))
        parts: list[int] = []
        for item in items:
            if isinstance(item, Handle):
                one = self.constant(np.array([1], np.int64))
                parts.append(self.emit("Reshape", self.value(item, INT64), one, formats=(INT64,)))
            else:
                parts.append(self.constant(np.array([_whole(item)], np.int64)))
        return parts[0] if len(parts) == 1 else self.emit("Concat", *parts, axis=0, formats=(INT64,))

    # -- results ----------------------------------------------------------------------------------------------------

    @property
    def result(self) -> Handle:
        """What the program says about the (first) result."""
        return self.results[0]

    def constant(self, array: npt.NDArray[Any], format: Format | None = None) -> int:
        """A constant of the program."""
        return self._emitter.constant(array if format is None else into(array, format))

    def emit(
        self,
        op: str,
        *operands: int,
        domain: str = "",
        outputs: int = 1,
        formats: Sequence[Format | None] = (),
        **attributes: Any,
    ) -> Any:
        """A node; gives the number of its output, or a tuple of numbers where it has several.

        Attributes that are None are left out, and so are operands at the end that are ABSENT.
        """
        inputs = list(operands)
        while inputs and inputs[-1] == ABSENT:
            inputs.pop()
        given = {name: value for name, value in attributes.items() if value is not None}
        made = self._emitter.node(op, domain, inputs, outputs, given, formats)
        return made[0] if outputs == 1 else made

    def own(self, op: str, *operands: int, outputs: int = 1, formats: Sequence[Format | None] = (), **attributes: Any) -> Any:
        """A node of an operator that ONNX does not have."""
        return self.emit(op, *operands, domain=OWN, outputs=outputs, formats=formats, **attributes)

    def cast(self, number: int, format: Format) -> int:
        """A value in another format."""
        if number == ABSENT or self._emitter.format_of(number) is format:
            return number
        return self.emit("Cast", number, to=format.onnx_code, formats=(format,))

    def moved(self, op: str, x: int, *operands: int, **attributes: Any) -> int:
        """A node that arranges or picks elements of its first operand, whose format it keeps."""
        return self.emit(op, x, *operands, formats=(self._emitter.format_of(x),), **attributes)

    def format_of(self, x: int) -> Format | None:
        """The format of a value, where it is known."""
        return self._emitter.format_of(x)

    def shape_of(self, x: int) -> int:
        """The sizes of a value as a one-dimensional tensor."""
        return self.emit("Shape", x, formats=(INT64,))

    def size(self, x: Handle, axis: int) -> int | Handle:
        """The size of an axis: a number, or what computes it where it is not fixed."""
        known = None if x.shape is None else x.shape[axis]
        if isinstance(known, int):
            return known
        position = self.constant(np.array(axis, np.int64))
        return Handle(self.emit("Gather", self.shape_of(x.number), position, axis=0, formats=(INT64,)), INT64, (), True)

    def reshaped(self, x: int, sizes: Sequence[Any]) -> int:
        """The elements of a value under another shape; a size is a number, -1 for what is left over, or computed."""
        wanted = list(sizes)
        computed = [axis for axis, size in enumerate(wanted) if isinstance(size, Handle)]
        if len(computed) == 1 and -1 not in wanted and 0 not in wanted:
            wanted[computed[0]] = -1
        return self.moved("Reshape", x, self.integers(wanted), allowzero=1 if 0 in wanted else None)

    def body(self, name: str, inputs: Sequence[Handle], build: Build) -> Graph:
        """A sub-graph; values around it can be read inside it."""
        return self._emitter.body(name, inputs, build)

    def called(self, function: Any, inputs: Sequence[Any]) -> list[Any]:
        """The nodes of a function of the program, in place; gives what it returns."""
        return self._emitter.inlined(function, inputs)


#: What turns a call into nodes.
Adapter = Callable[[Any], Any]


def _whole(item: Any) -> int:
    if not isinstance(item, int | np.integer):
        raise NotAnalysed(f"a size is {type(item).__name__}")
    return int(item)


def into(array: npt.NDArray[Any], format: Format) -> npt.NDArray[Any]:
    """A constant of the program as the framework holds it: converted as a number, infinite where it is beyond the format."""
    if format.is_integer and array.dtype.kind == "f":
        array = np.trunc(array) if math.isfinite(float(np.max(np.abs(array), initial=0.0))) else np.zeros_like(array)
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(format.dtype)
