"""Shapes that broadcast with each other, computed at run time: what they become, and which axes a gradient is summed over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import BOOL, INT64
from tensorproof.frontends.calls import OWN
from tensorproof.operators.comparison import where
from tensorproof.operators.shapes import shape_
from tensorproof.operators.table import Call, operator
from tensorproof.ranges.grid import Size, Span, smallest
from tensorproof.ranges.moving import dimensions
from tensorproof.ranges.range import Range

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.tensorflow_call import TensorflowCall


@operator("BroadcastAxes", domain=OWN, steered_by=(0, 1))
def broadcast_axes(op: Call, first: Range, second: Range) -> tuple[Range, Range]:
    """The axes that either of two shapes has size 1 or nothing in where the other has more; any axes where that is not known.

    An axis of size 1 in both is summed over by neither: gradients are brought to the shape of their operand afterwards.
    """
    found = dimensions(first), dimensions(second)
    if found[0] is None or found[1] is None:
        return _any_axes(None), _any_axes(None)
    rank = max(len(found[0]), len(found[1]))
    sizes = [(*[1] * (rank - len(shape)), *shape) for shape in (found[0], found[1])]
    pairs = list(zip(*sizes))
    results = [_axes(pairs), _axes([(b, a) for a, b in pairs])]
    return tuple(  # pyright: ignore[reportReturnType]
        _any_axes(rank) if axes is None else Range.constant(np.array(axes, np.int64), INT64) for axes in results
    )


def _axes(pairs: list[tuple[Size, Size]]) -> list[int] | None:
    """The axes that a shape is repeated along; None where a size that is not known decides it."""
    found: list[int] = []
    for axis, (own, other) in enumerate(pairs):
        if own == 1:
            if other != 1:
                found.append(axis)
        elif isinstance(own, Span) and smallest(own) <= 1 and other != 1:
            return None
    return found


def _any_axes(rank: int | None) -> Range:
    return Range.uniform((Span(0, rank),), INT64, 0.0, INT64.high if rank is None else float(max(rank - 1, 0)))


@broadcast_axes.meaning
def _(run: Run, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    shapes = [run.whole(shape).reshape(-1).tolist() for shape in (first, second)]
    rank = max(map(len, shapes))
    sizes = [[*[1] * (rank - len(shape)), *shape] for shape in shapes]
    axes = [
        [axis for axis in range(rank) if own[axis] == 1 and other[axis] != 1]
        for own, other in ((sizes[0], sizes[1]), (sizes[1], sizes[0]))
    ]
    return run.torch.tensor(axes[0], dtype=run.torch.int64), run.torch.tensor(axes[1], dtype=run.torch.int64)


@broadcast_axes.tensorflow("BroadcastGradientArgs")
def _(call: TensorflowCall) -> tuple[int, ...]:
    format = call.format()
    axes = call.own("BroadcastAxes", call.as_integers(0), call.as_integers(1), outputs=2, formats=(INT64, INT64))
    return tuple(call.cast(part, format) for part in axes)


@where.tensorflow("BroadcastArgs")
def _(call: TensorflowCall) -> int:
    """The shape that two shapes broadcast to: the other one's size where a size is 1."""
    lengths = [call.shape(index) for index in (0, 1)]
    counts = [shape[0] if shape else None for shape in lengths]
    if not all(isinstance(count, int) for count in counts):
        raise NotAnalysed("the number of axes of a shape is not known")
    known = [count for count in counts if isinstance(count, int)]
    format = call.format()
    one = call.constant(np.ones(1), format)
    shapes: list[int] = []
    for index, count in enumerate(known):
        missing = [one] * (max(known) - count)
        number = call.operand(index)
        shapes.append(call.moved("Concat", *missing, number, axis=0) if missing else number)
    is_one = call.emit("Equal", shapes[0], one, formats=(BOOL,))
    return call.emit("Where", is_one, shapes[1], shapes[0], formats=(format,))


@shape_.tensorflow("ConcatOffset")
def _(call: TensorflowCall) -> tuple[int, ...]:
    """Where each of several tensors begins in what they are joined to: the sizes of those before it along one axis, 0 elsewhere."""
    (axis,), format = call.integers_of(0), call.attribute("shape_type", call.format_of(call.operand(1)))
    (rank,) = call.shape(1) or (None,)
    if not isinstance(rank, int):
        raise NotAnalysed("the number of axes of a shape is not known")
    along = call.constant(np.arange(rank) == axis % rank)
    zero = call.constant(np.zeros(1, np.int64), format)
    total = call.moved("Expand", zero, call.integers([rank]))
    found: list[int] = []
    for index in range(1, len(call)):
        found.append(call.emit("Where", along, total, zero, formats=(format,)))
        total = call.moved("Add", total, call.operand(index))
    return tuple(found)
