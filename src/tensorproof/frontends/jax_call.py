"""`JaxCall`: one equation of a jaxpr, as the block that stands for its primitive sees it.

    exp.jax("exp")

says that JAX's `exp` is ours on its operands. An adapter reads operands by position and parameters by JAX's names:

    @reduce_sum.jax("reduce_sum")
    def _(call: JaxCall) -> int:
        return call.emit("ReduceSum", call.operand(0), call.integers(call["axes"]), keepdims=0, formats=(call.result.format,))

Operands are what the jaxpr says they are: `call.handle(0)` has their format and shape, and so has `call.result`. JAX neither
broadcasts nor promotes: operands of arithmetic have one shape and one format already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.formats import BY_NAME, Format
from tensorproof.frontends.calls import Emitter, Handle, OperatorCall
from tensorproof.operators.table import spelling_of


def format_of(dtype: object) -> Format | None:
    """The format of a dtype of JAX; None for keys of random generators and what else is not modelled."""
    return BY_NAME.get(str(dtype))


class JaxCall(OperatorCall):
    """The operands and parameters of one equation, and the means to say it in our operators."""

    def __init__(
        self, name: str, operands: Sequence[Any], parameters: Mapping[str, Any], results: Sequence[Handle], emitter: Emitter
    ) -> None:
        super().__init__(name, results, emitter)
        self.operands = operands
        self.parameters = parameters

    def __len__(self) -> int:
        return len(self.operands)

    def __getitem__(self, name: str) -> Any:
        """A parameter of the equation."""
        return self.parameters[name]

    def handle(self, index: int) -> Handle:
        """An operand with its format and shape."""
        return self.operands[index]

    def operand(self, index: int, format: Format | None = None) -> int:
        """An operand as a value of the graph, brought to a format if one is given."""
        number = self.operands[index].number
        return number if format is None else self.cast(number, format)

    def all_operands(self) -> list[int]:
        """All operands in their order."""
        return [self.operand(index) for index in range(len(self.operands))]

    def known(self, index: int) -> npt.NDArray[Any]:
        """The numbers of an operand that depends on no input and no weight."""
        array = self._emitter.array_of(self.operand(index))
        if array is None:
            raise NotAnalysed(f"operand {index} of {self.name} is computed by the program")
        return array

    def shape(self, index: int) -> tuple[int, ...]:
        """The shape of an operand; all sizes are numbers."""
        return _fixed(self.handle(index), self.name)

    @property
    def result_shape(self) -> tuple[int, ...]:
        """The shape of the result; all sizes are numbers."""
        return _fixed(self.result, self.name)

    def arithmetic_format(self, index: int = 0) -> Format:
        """The format of an operand that is computed with: complex numbers are not analysed."""
        found = self.handle(index).format
        if found is None or found.kind == "complex":
            raise NotAnalysed(f"{self.name} on numbers of a type that is not modelled")
        return found

    def plain(self, op: str, domain: str) -> Any:
        """An operator on JAX's operands as they come."""
        self._refuse_complex(self.operands)
        return self.emit(op, *self.all_operands(), domain=domain, formats=(self.result.format,))

    def delegate(self, name: str, operands: Sequence[Any] | None = None, **parameters: Any) -> Any:
        """What another primitive would give; parameters are those of this call unless others are given."""
        spelled = spelling_of(name, "jax")
        if spelled is None:
            raise NotAnalysed(f"{name} has no spelling")
        given = {**self.parameters, **parameters}
        return spelled.translate(JaxCall(name, self.operands if operands is None else operands, given, self.results, self._emitter))


def _fixed(handle: Handle, name: str) -> tuple[int, ...]:
    sizes = handle.shape
    if sizes is None or not all(isinstance(size, int) for size in sizes):
        raise NotAnalysed(f"a shape of {name} is not fixed")
    return tuple(int(size) for size in sizes if isinstance(size, int))
