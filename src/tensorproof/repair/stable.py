"""Functions written into a model in the way that does not fail, in the format that the runtime computes them well in."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorproof.formats import FLOAT32, Format
from tensorproof.graph import Node
from tensorproof.repair.editing import Editor, Spot
from tensorproof.repair.matching import result
from tensorproof.repair.proposal import Case, Declined
from tensorproof.repair.recognised import SoftmaxFound

#: The moves that change the format and nothing else.
_CASTS = ("Cast", "CastLike")

#: A function written at a place: from the name of its argument to that of its result, in a format.
Written = Callable[[Spot, str, Format], str]


def widest(case: Case, *values: int, promoted: bool = True) -> Format:
    """The format that holds all numbers of these values' formats; `promoted`: at least float32.

    ONNX Runtime computes Softplus and ReduceLogSumExp of 16-bit tensors by their naive function bodies in some versions.
    """
    formats = {format for value in values if (format := case.format(value)) is not None and format.is_float}
    if not formats or len(formats) < len({case.format(value) for value in values}):
        raise Declined("the format of a value is not known")
    largest = max(formats, key=lambda format: format.bits)
    if largest.bits < FLOAT32.bits and (promoted or len(formats) > 1):
        return FLOAT32
    return largest


def cast(spot: Spot, name: str, before: Format | None, after: Format) -> str:
    """A value in another format; as it is, if it has that format."""
    return name if before == after else spot.add("Cast", name, to=after.onnx_code)


def uniform(spot: Spot, number: float, format: Format) -> str:
    """A number as a constant of a format."""
    return spot.constant(number, format.dtype)


def put_in_place(
    case: Case, editor: Editor, node: Node, argument: int, moves: Sequence[Node], written: Written, format: Format
) -> None:
    """Let a function of a value, computed in a format and moved as the value was, take the place of a node's result.

    Casts among the moves are left out: the function is computed in a format that holds all of theirs.
    """
    spot = editor.before(node, "stable")
    made = written(spot, cast(spot, spot.name(argument), case.format(argument), format), format)
    made = spot.moved([move for move in moves if move.op not in _CASTS], made)
    after = case.format(result(node)) or format
    editor.replace(node, cast(spot, made, format, after))


def softplus(spot: Spot, x: str, format: Format) -> str:
    """log(1 + exp(x)) = max(x, 0) - log(sigmoid(|x|)), which holds sigmoids in [1/2, 1] only.

    The operator does the same in float32; ONNX Runtime's function body for float64 does not.
    """
    if format == FLOAT32:
        return spot.add("Softplus", x)
    logarithm = spot.add("Log", spot.add("Sigmoid", spot.add("Abs", x)))
    return spot.add("Sub", spot.add("Relu", x), logarithm)


def log_sum_exp(spot: Spot, x: str, axes: Sequence[int], *, keepdims: bool) -> str:
    """log(sum(exp(x))) over axes (all, if there are none), in float32 or float64, where the operator subtracts the maximum."""
    return spot.reduce("ReduceLogSumExp", x, axes or None, keepdims=keepdims)


def soft_like(case: Case, spot: Spot, operator: str, found: SoftmaxFound, x: str, opset: int) -> str:
    """Softmax or LogSoftmax of x, along the axes of a softmax that was found."""
    if found.node is not None:
        return spot.add(operator, x, **found.node.attributes)
    shape = case.shape(found.argument)
    return _soft(spot, operator, x, found.axes, None if shape is None else len(shape), opset)


def _soft(spot: Spot, operator: str, x: str, axes: Sequence[int], rank: int | None, opset: int) -> str:
    """Softmax or LogSoftmax of x along axes (all, if there are none), each less its maximum where one operator does not do it.

    Before version 13 the operators take all axes from one on together: alike for the last axis alone.
    """
    axis = _single_axis(axes, rank, opset)
    if axis is not None:
        return spot.add(operator, x, axis=axis)
    maximum = spot.reduce("ReduceMax", x, axes or None, keepdims=True)
    lowered = spot.add("Sub", x, maximum)
    exponential = spot.add("Exp", lowered)
    total = spot.reduce("ReduceSum", exponential, axes or None, keepdims=True)
    if operator == "Softmax":
        return spot.add("Div", exponential, total)
    return spot.add("Sub", lowered, spot.add("Log", total))


def _single_axis(axes: Sequence[int], rank: int | None, opset: int) -> int | None:
    if len(axes) != 1:
        return None
    if opset >= 13:
        return axes[0]
    return rank - 1 if rank is not None and axes[0] % rank == rank - 1 else None
