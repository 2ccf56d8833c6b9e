"""Shapes that a program declares in its annotations, as jaxtyping writes them: `x: Float[Tensor, "batch 3 height width"]`.

A declaration is an assumption where the caller is not known, and is checked where it is. Names stand for one size within one
call of the function; `_`, `...`, `*name`, `#name`, `name=4` and sums are understood as far as they fix a size.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from tensorproof.rules.shapes.declared_shape import DECLARED_SHAPE
from tensorproof.shapes.problems import Related
from tensorproof.shapes.run import Run
from tensorproof.shapes.shape import Shape, meet, same_shape
from tensorproof.shapes.sizes import Size, is_unknown, symbol, unknown
from tensorproof.shapes.values import Frame, FunctionValue, Tensor, Unknown, Value

#: The types of jaxtyping that carry a shape.
_TYPES = frozenset(
    {
        "Shaped", "Bool", "Key", "UInt", "UInt8", "UInt16", "UInt32", "UInt64", "Int", "Int8", "Int16", "Int32", "Int64", "Integer",
        "Float", "Float16", "Float32", "Float64", "BFloat16", "Complex", "Inexact", "Real", "Num",
    }
)  # fmt: skip


def declare_parameters(run: Run, frame: Frame, function: FunctionValue) -> None:
    """Check the arguments of a call against the annotations of the parameters, and let them tell what is unknown."""
    spec = function.node.args
    sizes: dict[str, Size] = {}
    for argument in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs):
        declared = None if argument.annotation is None else _shape_text(argument.annotation)
        value = frame.slots.get(argument.arg)
        if declared is None or not isinstance(value, Tensor | Unknown):
            continue
        frame.slots[argument.arg] = _met(run, frame, argument, declared, value, sizes)


def _shape_text(annotation: ast.expr) -> str | None:
    """The dimensions in an annotation of jaxtyping."""
    if not isinstance(annotation, ast.Subscript) or not isinstance(annotation.slice, ast.Tuple) or len(annotation.slice.elts) != 2:
        return None
    kind = annotation.value
    name = kind.attr if isinstance(kind, ast.Attribute) else kind.id if isinstance(kind, ast.Name) else ""
    text = annotation.slice.elts[1]
    known = name in _TYPES and isinstance(text, ast.Constant) and isinstance(text.value, str)
    return text.value if known and isinstance(text, ast.Constant) and isinstance(text.value, str) else None


def _met(run: Run, frame: Frame, argument: ast.arg, declared: str, value: Tensor | Unknown, sizes: dict[str, Size]) -> Value:
    known = value.shape if isinstance(value, Tensor) else None
    shape = _declared_shape(declared, known, sizes, argument.arg)
    if isinstance(value, Unknown) or known is None:
        return Tensor(shape, contiguous=None)
    if same_shape(known, shape) is False:
        place = run.place(frame, argument)
        message = f"{argument.arg} is declared as {declared!r}, but gets {known}"
        related = [Related(call, "called here") for call in run.call_places[-1:]]
        run.report(DECLARED_SHAPE, place, message, certain=False, tensors=(value,), related=related, operation="annotation")
        return value.evolved(suspect=True)
    met = meet(known, shape)
    return value if met is None else replace(value, shape=met)


def _declared_shape(text: str, known: Shape | None, sizes: dict[str, Size], argument: str) -> Shape:
    """The shape that a text declares. A name that is met for the first time takes the size of the argument."""
    head: list[Size] = []
    tail: list[Size] | None = None
    words = text.split()
    for position, word in enumerate(words):
        if word == "..." or word.startswith("*"):
            tail = []
            continue
        axis = position if tail is None else position - len(words)
        (head if tail is None else tail).append(_size(word, _known_size(known, axis), sizes, argument))
    return Shape(tuple(head), None if tail is None else tuple(tail))


def _known_size(known: Shape | None, axis: int) -> Size | None:
    if known is None or (known.rank is not None and not -known.rank <= axis < known.rank):
        return None
    size = known[axis]
    return None if is_unknown(size) else size


def _size(word: str, known: Size | None, sizes: dict[str, Size], argument: str) -> Size:
    name = word.partition("=")[2] or word
    if name.isdigit():
        return int(name)
    if not name.isidentifier() or name == "_":
        # `#name` may be broadcast, and sums need a solver: nothing is claimed.
        return unknown()
    if name not in sizes:
        sizes[name] = symbol(name) if known is None else known
    return sizes[name]
