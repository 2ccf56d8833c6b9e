"""Axis arguments: numbers from the front or the back, checked against the rank."""

from __future__ import annotations

from collections.abc import Sequence

from tensorproof.rules.shapes.axis_out_of_range import AXIS_OUT_OF_RANGE
from tensorproof.shapes.rule_table import Axes, Call, Mismatch, NotKnown
from tensorproof.shapes.shape import ANY_SHAPE, SCALAR, Shape
from tensorproof.shapes.sizes import Size
from tensorproof.shapes.values import UNKNOWN, Tensor, Value


def checked_axis(tensor: Tensor, axis: int, *, extra: int = 0, scalar_has_axis: bool = False) -> int | None:
    """The axis counted from the front; None if the rank is not known.

    `extra` axes are about to be added; with `scalar_has_axis` a scalar counts as having one, as PyTorch has it.
    """
    shape = tensor.shape
    if shape.rank is None:
        return None
    rank = shape.rank + extra
    rank = 1 if rank == 0 and scalar_has_axis else rank
    if not -rank <= axis < rank:
        raise Mismatch(AXIS_OUT_OF_RANGE, no_such_axis(axis, shape, rank), tensors=(tensor,))
    return axis % rank


def checked_axes(
    tensor: Tensor, axes: Sequence[int], *, extra: int = 0, scalar_has_axis: bool = False, distinct: bool = True
) -> tuple[int, ...] | None:
    """Several axes, counted from the front, `distinct` if need be; None if the rank is not known."""
    found: list[int] = []
    for axis in axes:
        position = checked_axis(tensor, axis, extra=extra, scalar_has_axis=scalar_has_axis)
        if position is None:
            return None
        if distinct and position in found:
            message = f"axis {axis} is given twice for {tensor.shape}"
            raise Mismatch(AXIS_OUT_OF_RANGE, message, tensors=(tensor,))
        found.append(position)
    return tuple(found)


def resolved_axis(call: Call, tensor: Tensor, axis: int, result: Value = UNKNOWN) -> int:
    """The axis counted from the front if the rank is known, else as it was given. PyTorch's scalars have axis 0 and -1.

    `result` is what to go on with if there is no such axis.
    """
    shape = tensor.shape
    if shape.rank is None:
        return axis
    if shape.rank == 0 and axis in (0, -1) and call.framework == "numpy":
        # Some functions of NumPy take a scalar for a row of one, others do not.
        raise NotKnown
    rank = max(shape.rank, 1) if call.framework == "torch" else shape.rank
    if not -rank <= axis < rank:
        message = no_such_axis(axis, shape, shape.rank)
        if _is_blamed(call, tensor, message):
            raise NotKnown
        raise Mismatch(AXIS_OUT_OF_RANGE, message, result=result, tensors=(tensor,))
    return axis % rank


def _is_blamed(call: Call, tensor: Tensor, message: str) -> bool:
    """Whether the same axis of a tensor of the same origin was reported elsewhere: one cause is one problem."""
    if tensor.history is None:
        return False
    origins = {step.place for step in tensor.history.steps()}
    return any(
        problem.rule is AXIS_OUT_OF_RANGE
        and problem.message == message
        and problem.place != call.place
        and any(related.place in origins for related in problem.related)
        for problem in call.run.problems
    )


def no_such_axis(axis: int, shape: Shape, rank: int) -> str:
    """The message; `rank` counts axes that are about to be added, too."""
    possible = (
        "it has no axes"
        if rank == 0
        else "its only axis is 0 (or -1)"
        if rank == 1
        else f"its axes are 0 to {rank - 1} (or {-rank} to -1)"
    )
    if rank > (shape.rank or 0):
        possible = f"the result's axes are 0 to {rank - 1} (or {-rank} to -1)"
    return f"axis {axis} does not exist in {shape}: {possible}"


def resolved_axes(call: Call, tensor: Tensor, axes: Axes, result: Value = UNKNOWN) -> tuple[int, ...] | None:
    """Several axes, each named once; None stays None."""
    if axes is None:
        return None
    given = axes if isinstance(axes, tuple) else (axes,)
    found = tuple(resolved_axis(call, tensor, axis, result) for axis in given)
    if len(set(found)) < len(found):
        message = f"axes {list(given)} name an axis of {tensor.shape} twice"
        raise Mismatch(AXIS_OUT_OF_RANGE, message, result=result, tensors=(tensor,))
    return found


def replaced_size(shape: Shape, axis: int, size: Size) -> Shape:
    """The shape with another size at an axis; of unknown rank where the axis is between the known ends."""
    if shape.tail is None:
        return Shape(tuple(size if position == axis % len(shape.head) else old for position, old in enumerate(shape.head)))
    if 0 <= axis < len(shape.head):
        return Shape((*shape.head[:axis], size, *shape.head[axis + 1 :]), shape.tail)
    if axis < 0 and -axis <= len(shape.tail):
        position = axis + len(shape.tail)
        return Shape(shape.head, (*shape.tail[:position], size, *shape.tail[position + 1 :]))
    return Shape((), shape.tail) if axis < 0 else Shape(shape.head, ())


def without_axes(shape: Shape, axes: tuple[int, ...] | None, *, keep: bool) -> Shape:
    """The shape after a reduction over axes (all of them if None), which are kept with size 1 or removed."""
    if axes is None:
        if not keep:
            return SCALAR
        return Shape((1,) * shape.rank) if shape.rank is not None else ANY_SHAPE
    if shape.tail is not None:
        return _without_open(shape, axes, keep=keep)
    if keep:
        return Shape(tuple(1 if axis in axes else size for axis, size in enumerate(shape.head)))
    return Shape(tuple(size for axis, size in enumerate(shape.head) if axis not in axes))


def _without_open(shape: Shape, axes: tuple[int, ...], *, keep: bool) -> Shape:
    """A reduction of a shape of unknown rank: an end that all its axes lie in, or that none can reach, stays known."""
    assert shape.tail is not None
    count = len(shape.tail)
    head = [1 if axis in axes else size for axis, size in enumerate(shape.head) if keep or axis not in axes]
    tail = [1 if axis - count in axes else size for axis, size in enumerate(shape.tail) if keep or axis - count not in axes]
    reaches_tail = any(axis >= len(shape.head) for axis in axes)
    reaches_head = any(axis < -count for axis in axes)
    return Shape(() if reaches_head else tuple(head), () if reaches_tail else tuple(tail))
