"""`einsum`: letters name axes; equal letters have equal sizes, letters that the result does not name are summed up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorproof.rules.shapes.einsum_mismatch import EINSUM_MISMATCH
from tensorproof.shapes.families.broadcasting import broadcast_dims, stretched, wider
from tensorproof.shapes.iteration import iterate
from tensorproof.shapes.rule_table import Call, Mismatch, NotKnown, as_tensor, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, Shape
from tensorproof.shapes.sizes import Size, is_unknown, same, unknown
from tensorproof.shapes.values import ListValue, Tensor, Value

ELLIPSIS = "..."


@dataclass(frozen=True, slots=True)
class Term:
    """The letters of one operand: before the ellipsis, and behind it (None if there is none)."""

    front: str
    back: str | None = None

    @staticmethod
    def of(text: str) -> Term:
        front, found, back = text.partition(ELLIPSIS)
        return Term(front, back if found else None)

    @property
    def letters(self) -> str:
        return self.front + (self.back or "")


class Equation:
    """The sizes of all letters, gathered operand by operand."""

    def __init__(self, text: str, operands: Sequence[Tensor], *, stretches: bool | None) -> None:
        self.text = text
        self.operands = tuple(operands)
        inputs, arrow, output = text.replace(" ", "").partition("->")
        self.inputs = [Term.of(part) for part in inputs.split(",")]
        self.output = Term.of(output) if arrow else None
        self.stretches = stretches
        self.sizes: dict[str, Size] = {}
        #: The axes that ellipses stand for, stretched to each other.
        self.rest = Shape(())

    def implicit_output(self) -> Term:
        """Without an arrow: letters that occur once, in the order of the alphabet, behind the ellipsis."""
        everything = "".join(term.letters for term in self.inputs)
        once = "".join(sorted(letter for letter in set(everything) if everything.count(letter) == 1))
        return Term("", once) if any(term.back is not None for term in self.inputs) else Term(once)

    def take(self, term: Term, operand: Tensor) -> None:
        """Give the letters of a term the sizes of its operand."""
        shape = operand.shape
        count = len(term.letters)
        if shape.rank is not None and (shape.rank < count or (term.back is None and shape.rank != count)):
            shown = term.front if term.back is None else f"{term.front}...{term.back}"
            raise self.mismatch(f"'{shown}' names {count} axes, but its operand {shape} has {shape.rank}")
        for position, letter in enumerate(term.front):
            self._bind(letter, self._size(shape, position, count if term.back is None else None))
        back = term.back or ""
        for position, letter in enumerate(back):
            self._bind(letter, shape[position - len(back)] if shape.least_rank else unknown())
        if term.back is not None:
            middle = Shape(shape.dims[len(term.front) : shape.rank - len(back)]) if shape.rank is not None else ANY_SHAPE
            common = broadcast_dims(self.rest, middle)
            if common is None:
                raise self.mismatch(f"the axes of '...' are {self.rest} and {middle}, which do not fit together")
            self.rest = common

    def _size(self, shape: Shape, position: int, rank: int | None) -> Size:
        """The size of an axis; if the number of axes is known from the letters, the end of an open shape counts, too."""
        if shape.rank is None and rank is not None and shape.tail and rank - position <= len(shape.tail):
            return shape.tail[position - rank]
        return shape[position]

    def _bind(self, letter: str, size: Size) -> None:
        known = self.sizes.get(letter)
        if known is None or is_unknown(known):
            self.sizes[letter] = size
            return
        if same(known, size) is False and 1 in (known, size) and self.stretches is None:
            raise NotKnown
        if same(known, size) is False and not (self.stretches and 1 in (known, size)):
            raise self.mismatch(f"'{letter}' is {known} and {size}")
        self.sizes[letter] = (stretched(known, size) or known) if self.stretches else known if isinstance(known, int) else size

    def mismatch(self, reason: str) -> Mismatch:
        return Mismatch(EINSUM_MISMATCH, f"einsum '{self.text}': {reason}", result=self.best(), tensors=self.operands)

    def best(self) -> Tensor:
        """What the result may be where an operand does not fit: its letters, those without a size unknown."""
        term = self.output if self.output is not None else self.implicit_output()
        return Tensor(
            ANY_SHAPE if term.back is not None else Shape(tuple(self.sizes.get(letter, unknown()) for letter in term.front))
        )

    def result(self) -> Shape:
        term = self.output if self.output is not None else self.implicit_output()
        front = tuple(self.sizes[letter] for letter in term.front)
        if term.back is None:
            return Shape(front)
        back = tuple(self.sizes[letter] for letter in term.back)
        return self.rest.preceded(*front).extended(*back)


def einsum(call: Call, equation: str, operands: Sequence[Value], *, stretches: bool | None) -> Tensor:
    """The result of an equation; `stretches` says whether an axis of size 1 meets any other of its letter (None: it depends)."""
    if len(operands) == 1 and isinstance(operands[0], tuple | ListValue):
        found = iterate(call.run, operands[0]).items
        if found is None:
            raise NotKnown
        operands = found
    tensors = [as_tensor(operand, call.framework) for operand in operands]
    sums = Equation(equation, tensors, stretches=stretches)
    if len(tensors) != len(sums.inputs):
        raise sums.mismatch(f"{len(sums.inputs)} terms for {len(tensors)} operands")
    if sums.output is not None:
        _check_output(sums)
    elif call.framework == "keras" or (call.framework == "tf" and any(term.back is not None for term in sums.inputs)):
        # The order of the axes depends on the backend, and some equations are refused.
        raise NotKnown
    dtype = tensors[0].dtype
    for term, tensor in zip(sums.inputs, tensors, strict=True):
        sums.take(term, tensor)
        dtype = wider(dtype, tensor.dtype)
    _check_rest(call, sums)
    return tensors[0].with_shape(sums.result(), dtype=dtype)


def _check_output(sums: Equation) -> None:
    assert sums.output is not None
    named = sums.output.letters
    everything = {letter for term in sums.inputs for letter in term.letters}
    for letter in named:
        if letter not in everything:
            raise sums.mismatch(f"the result names '{letter}', which no operand has")
        if named.count(letter) > 1:
            raise sums.mismatch(f"the result names '{letter}' twice")


def _check_rest(call: Call, sums: Equation) -> None:
    """NumPy and JAX refuse to sum up the axes of an ellipsis that the result does not name; the others do it, or say nothing."""
    dropped = sums.output is not None and sums.output.back is None and bool(sums.rest.head)
    if dropped and call.framework in ("numpy", "jax"):
        raise sums.mismatch("'...' stands for axes that the result does not name")
    if dropped and call.framework != "torch":
        raise NotKnown


@shape_rule("torch.einsum")
def torch_einsum(call: Call, equation: str, *operands: Value) -> Tensor:
    """`torch.einsum`."""
    return einsum(call, equation, operands, stretches=True)


@shape_rule("numpy.einsum", "jax.numpy.einsum")
def numpy_einsum(call: Call, subscripts: str, *operands: Value, **options: Value) -> Tensor:
    """`np.einsum`."""
    return einsum(call, subscripts, operands, stretches=True)


@shape_rule("tf.einsum", "tf.linalg.einsum")
def tf_einsum(call: Call, equation: str, *inputs: Value, **options: Value) -> Tensor:
    """`tf.einsum`."""
    return einsum(call, equation, inputs, stretches=False)


@shape_rule("keras.ops.einsum")
def keras_einsum(call: Call, subscripts: str, *operands: Value, **options: Value) -> Tensor:
    """`keras.ops.einsum`."""
    return einsum(call, subscripts, operands, stretches=None)
