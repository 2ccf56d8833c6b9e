"""Tensors of a TensorFlow graph in the words of torch, so that the objectives of rules can be written into a graph.

Objectives are written once, for torch (`Rule.objective`). Here the same functions are called with tensors of a graph, and what they
compute becomes operators of that graph: those of `tensorproof.confirm.place.Place`, and the few methods that rules use beside them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tensorproof.confirm.place import Place
from tensorproof.expose.search.vulnerable import Weakness
from tensorproof.formats import BY_NAME, FLOAT32

#: Numbers nearer to zero than this are measured in a straight line, larger ones by their logarithm: TensorFlow computes in 32 bits
#: what `Place` measures in 64, and turns numbers below 1.2e-38 into zero.
NEAR = 1e-37

#: Operators whose decisive operand stands elsewhere than in the table: Polygamma(a, x) is the Trigamma of x for a = 1.
_POSITIONS = {"Polygamma": 1}


@dataclass(frozen=True, slots=True)
class _Kind:
    """The type of a tensor, as far as it is asked for."""

    is_floating_point: bool


class Symbol:
    """A tensor of a graph with methods of torch. Formats below 32 bits are widened: objectives need small numbers."""

    __slots__ = ("tensor",)
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __init__(self, tensor: Any) -> None:
        import tensorflow as tf

        self.tensor: Any = tf.cast(tensor, tf.float32) if tensor.dtype in (tf.float16, tf.bfloat16) else tensor

    @property
    def dtype(self) -> _Kind:
        return _Kind(self.tensor.dtype.is_floating)

    @property
    def shape(self) -> tuple[int | None, ...]:
        return tuple(self.tensor.shape.as_list())

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def to(self, _: object) -> Symbol:
        """The tensor as numbers of 64 bits: no objective asks for another type."""
        import tensorflow as tf

        return Symbol(tf.cast(self.tensor, tf.float64))

    def clamp(self, *, min: float | None = None, max: float | None = None) -> Symbol:
        import tensorflow as tf

        result = self.tensor
        if min is not None:
            result = tf.maximum(result, self._number(min))
        return Symbol(result if max is None else tf.minimum(result, self._number(max)))

    def log(self) -> Symbol:
        import tensorflow as tf

        return Symbol(tf.math.log(self.tensor))

    def exp(self) -> Symbol:
        import tensorflow as tf

        return Symbol(tf.exp(self.tensor))

    def abs(self) -> Symbol:
        import tensorflow as tf

        return Symbol(tf.abs(self.tensor))

    def round(self) -> Symbol:
        import tensorflow as tf

        return Symbol(tf.round(self.tensor))

    def detach(self) -> Symbol:
        import tensorflow as tf

        return Symbol(tf.stop_gradient(self.tensor))

    def sum(self) -> Symbol:
        import tensorflow as tf

        return Symbol(tf.reduce_sum(self.tensor))

    def _number(self, value: Any) -> Any:
        """A number, or the tensor of another symbol, in the type of this one."""
        import tensorflow as tf

        return tf.cast(value.tensor if isinstance(value, Symbol) else value, self.tensor.dtype)

    def __add__(self, other: Symbol | float) -> Symbol:
        return Symbol(self.tensor + self._number(other))

    def __sub__(self, other: Symbol | float) -> Symbol:
        return Symbol(self.tensor - self._number(other))

    def __rsub__(self, other: float) -> Symbol:
        return Symbol(self._number(other) - self.tensor)

    def __mul__(self, other: Symbol | float) -> Symbol:
        return Symbol(self.tensor * self._number(other))

    def __truediv__(self, other: Symbol | float) -> Symbol:
        return Symbol(self.tensor / self._number(other))

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Symbol:
        return Symbol(-self.tensor)

    def __lt__(self, other: Symbol | float) -> Symbol:
        return Symbol(self.tensor < self._number(other))

    def __gt__(self, other: Symbol | float) -> Symbol:
        return Symbol(self.tensor > self._number(other))

    def __eq__(self, other: Symbol | float) -> Symbol:  # pyright: ignore[reportIncompatibleMethodOverride]
        import tensorflow as tf

        return Symbol(tf.equal(self.tensor, self._number(other)))


class Functions:
    """The functions of the module `torch` that objectives call, on symbols."""

    float64 = "float64"

    @staticmethod
    def where(condition: Symbol, chosen: Symbol, other: Symbol) -> Symbol:
        import tensorflow as tf

        return Symbol(tf.where(condition.tensor, chosen.tensor, other.tensor))

    @staticmethod
    def minimum(one: Symbol, other: Symbol) -> Symbol:
        import tensorflow as tf

        return Symbol(tf.minimum(one.tensor, other.tensor))

    @staticmethod
    def full_like(like: Symbol, value: float) -> Symbol:
        import tensorflow as tf

        return Symbol(tf.fill(tf.shape(like.tensor), tf.constant(value, like.tensor.dtype)))

    @staticmethod
    def broadcast_tensors(one: Symbol, other: Symbol) -> tuple[Symbol, Symbol]:
        import tensorflow as tf

        shape = tf.broadcast_dynamic_shape(tf.shape(one.tensor), tf.shape(other.tensor))
        return Symbol(tf.broadcast_to(one.tensor, shape)), Symbol(tf.broadcast_to(other.tensor, shape))


class TensorflowPlace(Place):
    """An operator of a graph, as the objectives of rules see it."""

    __slots__ = ()

    def below(self, x: Any) -> Any:
        """As `Place.below`, down to the smallest numbers of the format."""
        return self.torch.where(x > NEAR, x.clamp(min=NEAR).log(), x / NEAR - 1.0 + math.log(NEAR))


def position(weakness: Weakness, operator: Any) -> int:
    """The operand that a weakness of an operator is about: of an exponential that overflows, the exponent."""
    return max(0, _POSITIONS.get(operator.type, weakness.operand))


def decisive(weakness: Weakness, operator: Any) -> Any:
    """The tensor that a weakness of an operator is about."""
    return operator.inputs[position(weakness, operator)]


def terms(weakness: Weakness, operator: Any) -> Any:
    """What the rule wants to be small, element by element, as a tensor; None where nothing leads there.

    The operators that compute it are added to the default graph.
    """
    operands = [Symbol(tensor) for tensor in operator.inputs]
    results = [Symbol(tensor) for tensor in operator.outputs]
    functions: Any = Functions()
    index, limit = position(weakness, operator), limit_of(operator.outputs[0])
    place = TensorflowPlace(functions, weakness.operator.name, {}, operands, results, index, limit)
    sought = weakness.rule.sought
    assert sought is not None
    found: Any = sought(place)
    return None if found is None else found.tensor


def limit_of(tensor: Any) -> float:
    """The largest number of a tensor's format."""
    return float(BY_NAME.get(tensor.dtype.base_dtype.name, FLOAT32).high)
