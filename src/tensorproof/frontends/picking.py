"""Several tensors that index another one together: torch's `x[i, :, j]` as tuples of positions, which GatherND takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorproof.formats import BOOL, INT64, UINT8
from tensorproof.frontends.aten import AtenCall
from tensorproof.frontends.calls import Handle


@dataclass(frozen=True, slots=True)
class Picked:
    """Tensors that index some axes of another one together, as torch's `x[i, :, j]` does.

    `axes` are the axes that are indexed, `others` the rest; `tuples` are the positions, as GatherND takes them, and `sizes`
    the shape that the indices broadcast to. `place` is where its axes stand among those of the result: where the indexed
    axes stood if they are neighbours, else in front.
    """

    axes: list[int]
    others: list[int]
    tuples: int
    sizes: list[int | Handle]
    place: int

    @property
    def order(self) -> list[int]:
        """The axes with the indexed ones in front."""
        return [*self.axes, *self.others]

    @property
    def from_front(self) -> list[int]:
        """The order that brings the axes of the indices from the front to their place."""
        count, total = len(self.sizes), len(self.sizes) + len(self.others)
        return [*range(count, count + self.place), *range(count), *range(count + self.place, total)]


def is_mask(index: Handle) -> bool:
    """Whether an index says where to pick, and not what: truth values, which torch also takes as bytes."""
    return index.format in (BOOL, UINT8)


def picked(call: AtenCall, rank: int) -> Picked:
    """The indices of a call on a tensor of so many axes; a mask stands for the positions where it holds."""
    given: list[tuple[int, Handle]] = []
    axis = 0
    for index in call.arguments["indices"]:
        parts = [index] if index is None or not is_mask(index) else _positions_where(call, index)
        for part in parts:
            if part is not None:
                given.append((axis, part))
            axis += 1
    axes = [axis for axis, _ in given]
    others = [axis for axis in range(rank) if axis not in axes]
    together = axes == list(range(axes[0], axes[-1] + 1))
    tuples, sizes = _as_tuples(call, [index for _, index in given])
    return Picked(axes, others, tuples, sizes, axes[0] if together else 0)


def _positions_where(call: AtenCall, mask: Handle) -> list[Handle]:
    """Where a mask holds: one index for each of its axes."""
    positions = call.emit("NonZero", mask.number, formats=(INT64,))
    rows = (call.constant(np.array(axis, np.int64)) for axis in range(len(mask.shape or ())))
    return [Handle(call.moved("Gather", positions, row, axis=0), INT64, (None,)) for row in rows]


def _as_tuples(call: AtenCall, indices: list[Handle]) -> tuple[int, list[int | Handle]]:
    """Indices of one shape, or that broadcast to one, as tuples along a new last axis; and that shape."""
    shapes = [index.shape for index in indices]
    rank = max(len(shape or ()) for shape in shapes)
    numbers = [call.cast(index.number, INT64) for index in indices]
    if len(set(shapes)) > 1 or any(None in (shape or ()) for shape in shapes[1:]):
        sizes = [call.shape_of(number) for number in numbers]
        for own in range(len(numbers)):
            for other, size in enumerate(sizes):
                if other != own:
                    numbers[own] = call.moved("Expand", numbers[own], size)
    last = call.integers([rank])
    parts = [call.moved("Unsqueeze", number, last) for number in numbers]
    tuples = parts[0] if len(parts) == 1 else call.moved("Concat", *parts, axis=rank)
    padded = [(1,) * (rank - len(shape or ())) + tuple(shape or ()) for shape in shapes]
    merged = tuple(_merged([shape[axis] for shape in padded]) for axis in range(rank))
    whole = Handle(tuples, INT64, (*merged, len(parts)))
    return tuples, [call.size(whole, axis) for axis in range(rank)]


def _merged(sizes: Sequence[Any]) -> int | None:
    """The size that some broadcast to: the one that is not 1; None if it is not fixed."""
    other = {size for size in sizes if size != 1}
    return 1 if not other else other.pop() if len(other) == 1 else None
