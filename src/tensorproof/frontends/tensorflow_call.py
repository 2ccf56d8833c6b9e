"""`TensorflowCall`: one node of a TensorFlow graph, as the block that stands for it sees it.

    exp.tensorflow("Exp")

says that TensorFlow's `Exp` is ours on its operands. An adapter reads operands by position and attributes by TensorFlow's names:

    @softmax.tensorflow("Softmax")
    def _(call: TensorflowCall) -> int:
        return call.emit("Softmax", call.operand(0), axis=-1, formats=(call.format(),))

TensorFlow passes axes, sizes and paddings as operands: `call.known(1)` gives their numbers where they do not depend on inputs,
else the node is not analysed. Graphs state few shapes; `call.rank(0)` and `call.shape(0)` work them out where they can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.formats import BOOL, BY_NAME, INT64, Format
from tensorproof.frontends.calls import Emitter, Handle, OperatorCall
from tensorproof.frontends.tensorflow_records import DataType, FunctionName, TensorShape
from tensorproof.graph import Dimension
from tensorproof.operators.table import spelling_of

#: TensorFlow's numbers of types (tensorflow/core/framework/types.proto).
_TYPES = {
    1: "float32",
    2: "float64",
    3: "int32",
    4: "uint8",
    5: "int16",
    6: "int8",
    7: "string",
    8: "complex64",
    9: "int64",
    10: "bool",
    11: "int8",
    12: "uint8",
    13: "int32",
    14: "bfloat16",
    15: "int16",
    16: "uint16",
    17: "uint16",
    18: "complex128",
    19: "float16",
    22: "uint32",
    23: "uint64",
    24: "float8_e5m2",
    25: "float8_e4m3fn",
    29: "int4",
    30: "uint4",
}
_FORMATS: dict[int, Format] = {code: BY_NAME[name] for code, name in _TYPES.items()}


#: Operators whose results are truth values.
_PREDICATES = frozenset(
    {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor", "Not", "IsNaN", "IsInf", "IsFinite"}
)


def format_of(type: DataType) -> Format | None:
    """The format of one of TensorFlow's types; None for resources, variants and types that are not modelled."""
    return _FORMATS.get(type.code)


class TensorflowEmitter(Emitter, Protocol):
    """Where nodes of a TensorFlow graph go (`tensorproof.frontends.tensorflow_graph`)."""

    def handed_on(self, function: FunctionName) -> list[int | None]:
        """For each result of a function, the input that it hands on unchanged."""
        ...

    def counts_up(self, number: int) -> bool:
        """Whether a value is made by a range that counts up from 0 by 1."""
        ...


class TensorflowCall(OperatorCall):
    """The operands and attributes of one node, and the means to say it in our operators.

    Operands that are no tensors (variables, lists of tensors) are objects of other classes than `Handle`.
    """

    def __init__(
        self,
        name: str,
        operands: Sequence[Any],
        attributes: Mapping[str, Any],
        results: Sequence[Handle],
        emitter: TensorflowEmitter,
    ) -> None:
        super().__init__(name, results, emitter)
        self._emitter: TensorflowEmitter = emitter
        self.operands = operands
        self.attributes = attributes

    def __len__(self) -> int:
        return len(self.operands)

    # -- operands ---------------------------------------------------------------------------------------------------

    def handle(self, index: int) -> Handle:
        """An operand that is a tensor."""
        found = self.operands[index]
        if not isinstance(found, Handle):
            raise NotAnalysed(f"operand {index} of {self.name} is no tensor but {type(found).__name__}")
        return found

    def operand(self, index: int, format: Format | None = None) -> int:
        """An operand as a value of the graph, brought to a format if one is given."""
        number = self.handle(index).number
        return number if format is None else self.cast(number, format)

    def all_operands(self) -> list[int]:
        """All operands, which are tensors, in their order."""
        return [self.operand(index) for index in range(len(self.operands))]

    def known(self, index: int) -> npt.NDArray[Any]:
        """The numbers of an operand that depends on no input and no weight."""
        array = self._emitter.array_of(self.operand(index))
        if array is None:
            raise NotAnalysed(f"operand {index} of {self.name} is computed by the program")
        return array

    def is_known(self, index: int) -> bool:
        """Whether the numbers of an operand are known while the graph is read."""
        return self._emitter.array_of(self.operand(index)) is not None

    def integers_of(self, index: int) -> list[int]:
        """A list of whole numbers among the operands."""
        return [int(item) for item in self.known(index).reshape(-1)]

    def sizes_of(self, index: int) -> list[int | None]:
        """The elements of a list of sizes among the operands; None for those that depend on the sizes of inputs."""
        found = self._emitter.elements_of(self.operand(index))
        if found is None:
            raise NotAnalysed(f"operand {index} of {self.name} is computed by the program")
        return found

    def as_integers(self, index: int) -> int:
        """An operand of whole numbers, known or not, as ONNX takes sizes and axes: a list of 64-bit integers."""
        found = self._emitter.array_of(self.operand(index))
        if found is not None:
            return self.constant(found.reshape(-1).astype(np.int64))
        number = self.operand(index, INT64)
        if self.rank(index) == 0:
            return self.emit("Reshape", number, self.constant(np.array([1], np.int64)), formats=(INT64,))
        return number

    def shape(self, index: int) -> tuple[Dimension, ...] | None:
        """The shape of an operand, None where even its rank is not known; sizes that are not fixed are None."""
        handle = self.handle(index)
        return handle.shape if handle.shape is not None else self._emitter.shape_of(handle.number)

    def rank(self, index: int) -> int:
        """The number of axes of an operand."""
        shape = self.shape(index)
        if shape is None:
            raise NotAnalysed(f"the rank of operand {index} of {self.name} is not known")
        return len(shape)

    def sizes(self, index: int) -> list[int | Handle]:
        """The size of every axis of an operand whose rank is known: a number, or what computes it where it is not fixed."""
        shape = self.shape(index)
        x = replace(self.handle(index), shape=shape)
        return [self.size(x, axis) for axis in range(self.rank(index))]

    def format_at(self, handle: Handle) -> Format | None:
        """The format of a value; lists of tensors have none."""
        return handle.format or self._emitter.format_of(handle.number)

    def counts_up(self, index: int) -> bool:
        """Whether an operand is 0, 1, 2 and so on, up to a number that the program computes."""
        return self._emitter.counts_up(self.operand(index))

    def handed_on(self, function: FunctionName) -> list[int | None]:
        """For each result of a function, the input that it hands on unchanged; None where it is another value."""
        return self._emitter.handed_on(function)

    # -- attributes -------------------------------------------------------------------------------------------------

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute as a Python value: text as str, types as Format, shapes as tuples (-1: unknown) or None."""
        return _plain(self.attributes[name]) if name in self.attributes else default

    def format(self, name: str = "T") -> Format:
        """The format that an attribute names."""
        found = self.attribute(name)
        if not isinstance(found, Format):
            raise NotAnalysed(f"{self.name} works on tensors of a type that is not modelled")
        return found

    def arithmetic_format(self, name: str = "T") -> Format:
        """The format that an attribute names, of numbers that are computed with: complex ones are not analysed."""
        found = self.format(name)
        if found.kind == "complex":
            raise NotAnalysed(f"{self.name} of complex numbers")
        return found

    @property
    def is_channels_last(self) -> bool:
        """Whether channels stand in the last axis (`data_format`)."""
        return not str(self.attribute("data_format", "NHWC")).startswith("NC")

    # -- results ----------------------------------------------------------------------------------------------------

    def plain(self, op: str, domain: str) -> Any:
        """An operator on TensorFlow's operands as they come, with a result of their type, or a truth value."""
        self._refuse_complex(self.operands)
        format = BOOL if op in _PREDICATES else self.attribute("T")
        return self.emit(op, *self.all_operands(), domain=domain, formats=(format,))

    def delegate(self, name: str, operands: Sequence[Any] | None = None, **attributes: Any) -> Any:
        """What another operator of TensorFlow would give; attributes are those of this call unless others are given."""
        spelled = spelling_of(name, "tensorflow")
        if spelled is None:
            raise NotAnalysed(f"{name} has no spelling")
        given = {**self.attributes, **attributes}
        return spelled.translate(
            TensorflowCall(name, self.operands if operands is None else operands, given, self.results, self._emitter)
        )


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, DataType):
        return format_of(value)
    if isinstance(value, TensorShape):
        return value.sizes
    if isinstance(value, FunctionName):
        return value.name
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
