"""mean(x^2) - mean(x)^2 as mean((x - mean(x))^2)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tensorproof.formats import Format
from tensorproof.graph import Node
from tensorproof.idioms.terms import axes_of
from tensorproof.repair.editing import Editor, Spot
from tensorproof.repair.matching import result, uniform_number
from tensorproof.repair.proposal import Case, Declined, Proposal
from tensorproof.repair.recognised import keeps_shape, shifted, size_along, vanishing
from tensorproof.repair.rewrites import rewrite
from tensorproof.repair.stable import put_in_place, widest


@dataclass(frozen=True, slots=True)
class _Mean:
    """The mean of a value over axes (all, if there are none)."""

    argument: int
    axes: tuple[int, ...]
    keepdims: bool
    nodes: tuple[Node, ...]


@rewrite("Sqrt", "Div", "Reciprocal", "Log", "Pow")
def variance_of_squares(case: Case, node: Node) -> Proposal:
    """mean(x^2) - mean(x)^2 = mean((x - mean(x))^2): a mean of squares is never negative, where the difference cancels.

    The difference is replaced where it is computed; roots, logarithms and divisors made of it follow. Where the variance itself is
    0, only a positive constant next to it saves a divisor or a logarithm.
    """
    difference, shift = _difference(case, node)
    squares = _mean(case, difference.inputs[0])
    mean = _squared(case, difference.inputs[1])
    mean = None if mean is None else _mean(case, mean)
    if squares is None or mean is None:
        raise Declined("the operand is no mean of squares less the square of a mean")
    x = _squared(case, squares.argument)
    if x is None or not case.structure.same(x, mean.argument):
        raise Declined("the two means are not of the same tensor")
    if not _same_axes(case, squares, mean):
        raise Declined("the two means are over different axes")
    if node.op != "Sqrt" and shift <= 0.0:
        raise Declined("a variance of 0 stays, and no positive constant is added to it")

    format = widest(case, x, result(difference))

    def edit(editor: Editor) -> None:
        def written(spot: Spot, x: str, format: Format) -> str:
            centre = spot.reduce("ReduceMean", x, mean.axes or None, keepdims=True)
            distance = spot.add("Sub", x, centre)
            square = spot.add("Mul", distance, distance)
            return spot.reduce("ReduceMean", square, mean.axes or None, keepdims=squares.keepdims)

        put_in_place(case, editor, difference, x, (), written, format)

    replaced = vanishing(case, difference, (*squares.nodes, *mean.nodes))
    return Proposal(
        "rewrite",
        "variance-of-squares",
        case.finding,
        "mean(x^2) - mean(x)^2 becomes mean((x - mean(x))^2)",
        "both are the variance; the second does not cancel and is never negative",
        True,
        tuple(dict.fromkeys((node.name, *replaced))),
        edit,
    )


def _difference(case: Case, node: Node) -> tuple[Node, float]:
    """The difference that an operand is made of by roots, moves and constants, and the constant under the first root."""
    value = node.inputs[1] if node.op == "Div" else node.inputs[0]
    while True:
        operand = shifted(case, value)
        root = case.structure.producer(operand.value, "Sqrt")
        if root is None:
            break
        value = root.inputs[0]
    # `shifted` reads the difference of two tensors as what it is: no constant, hence where it stops.
    difference = case.structure.producer(operand.value, "Sub")
    if difference is None or operand.sign < 0:
        raise Declined("the operand is no difference")
    return difference, operand.offset


def _mean(case: Case, value: int) -> _Mean | None:
    """ReduceMean(x), or a sum divided by how many there are."""
    node = case.structure.producer(value, "ReduceMean", "Div", "Mul")
    if node is None:
        return None
    reduction = node if node.op == "ReduceMean" else case.structure.producer(node.inputs[0], "ReduceSum")
    axes = None if reduction is None else axes_of(case.structure, reduction)
    if reduction is None or axes is None:
        return None
    found = _Mean(reduction.inputs[0], axes, bool(reduction.attributes.get("keepdims", 1)), (node, reduction))
    return found if node is reduction or _divides_by_count(case, node, found) else None


def _divides_by_count(case: Case, node: Node, found: _Mean) -> bool:
    number, count = uniform_number(case, node.inputs[1]), size_along(case, found.argument, found.axes)
    if number is None or count is None or not keeps_shape(case, node, node.inputs[1], node.inputs[0]):
        return False
    # A reciprocal is rounded in float32, at worst in float16.
    return number == count if node.op == "Div" else math.isclose(number * count, 1.0, rel_tol=1e-6)


def _squared(case: Case, value: int) -> int | None:
    """What a value is the square of."""
    node = case.structure.producer(value, "Mul", "Pow")
    if node is None:
        return None
    if node.op == "Pow":
        return node.inputs[0] if uniform_number(case, node.inputs[1]) == 2.0 else None
    return node.inputs[0] if case.structure.same(*node.inputs) else None


def _same_axes(case: Case, one: _Mean, other: _Mean) -> bool:
    shape = case.shape(one.argument)
    if one.keepdims != other.keepdims:
        return False
    if shape is None:
        return one.axes == other.axes
    return {axis % len(shape) for axis in one.axes} == {axis % len(shape) for axis in other.axes}
