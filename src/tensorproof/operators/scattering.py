"""Elements written by position: ScatterElements, ScatterND and their relatives, with and without a reduction.

Where all positions are known and the tensor is not too large, each place is updated as often as it is hit. Elsewhere every
place within reach keeps its value or takes any of the updates, as often as there are any.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import UnknownShape
from tensorproof.formats import Array, Format
from tensorproof.operators.indexing import Choice, as_tuples, choices, from_front, reach
from tensorproof.operators.table import CORRECT, Call, operator
from tensorproof.ranges.grid import smallest, union
from tensorproof.ranges.hits import Updates, combined, product_error, report_growth, sum_error, within_box
from tensorproof.ranges.moving import Integers, affordable, folded, known_axis, shape_of, slice_axis
from tensorproof.ranges.range import CELL_BUDGET, Flags, Range
from tensorproof.ranges.sums import report_partial_overflow
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor

#: A place that is hit more often than this is treated as hit by any number of updates.
_MOST_HITS = 256

#: What torch calls the reductions.
_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@operator("ScatterElements", error=CORRECT, overflow=ACCUMULATION_OVERFLOW, steered_by=(1,))
def scatter_elements(op: Call, x: Range, index: Range, updates: Range) -> Range:
    """Elements replaced, or combined with updates (add, mul, max, min), at positions along an axis."""
    axis = known_axis(op.attribute("axis", 0), x.rank)
    reduction = op.attribute("reduction", "none")
    if index.has_known_shape and index.size == 0:
        return x
    if x.has_known_shape and index.has_known_shape:
        candidates = choices(as_tuples(index), [x.sizes[axis]])
        if candidates is not None:
            coordinates: list[Integers] = list(np.ogrid[tuple(slice(n) for n in index.sizes)])
            writes: list[Choice] = []
            for tuples, possible in candidates:
                coordinates[axis] = tuples[..., 0]
                place = np.ravel_multi_index(tuple(np.broadcast_arrays(*coordinates)), x.sizes)
                writes.append((place.reshape(-1), possible.reshape(-1)))
            result = _placed(op, x, x.rank, writes, updates, updates.rank, reduction)
            if result is not None:
                return result
    box = [_whole_axis(x, other, smallest(n)) for other, n in enumerate(shape_of(index))]
    box[axis] = _reached(x, axis, index)
    return within_box(op, affordable(x), box, Updates.of(updates, (axis,)), reduction)


@operator("Scatter", steered_by=(1,))
def scatter(op: Call, x: Range, index: Range, updates: Range) -> Range:
    """Elements replaced at positions along an axis (ONNX Scatter-9, the old name of ScatterElements)."""
    return scatter_elements.block(op, x, index, updates)


@scatter_elements.meaning
@scatter.meaning
def _(run: Run, x: Tensor, index: Tensor, updates: Tensor) -> Tensor:
    axis = known_axis(run.attribute("axis", 0), x.ndim)
    return _written(run, x, axis, from_front(run, index, x.shape[axis]), updates)


def _written(run: Run, x: Tensor, axis: int, index: Tensor, updates: Tensor) -> Tensor:
    """Updates written, or combined as the reduction says, at positions along an axis; the index has their shape."""
    dtype = run.torch.promote_types(x.dtype, updates.dtype)
    x, updates = x.to(dtype), updates.to(dtype)
    reduction = run.attribute("reduction", "none")
    if reduction == "none":
        return x.scatter(axis, index, updates)
    return x.scatter_reduce(axis, index, updates, _REDUCTIONS[reduction])


@operator("ScatterND", error=CORRECT, overflow=ACCUMULATION_OVERFLOW, steered_by=(1,))
def scatter_nd(op: Call, x: Range, index: Range, updates: Range) -> Range:
    """Slices replaced, or combined with updates (add, mul, max, min), at tuples of positions."""
    reduction = op.attribute("reduction", "none")
    depth = shape_of(index)[-1]
    if not isinstance(depth, int):
        raise UnknownShape("the number of coordinates is not known")
    if 0 in shape_of(index):
        return x
    lead = len(shape_of(index)) - 1
    candidates = choices(index, x.sizes[:depth]) if x.has_known_shape else None
    if candidates is not None:
        writes: list[Choice] = []
        for tuples, possible in candidates:
            place = np.ravel_multi_index(tuple(tuples.reshape(-1, depth).T), x.sizes[:depth])
            writes.append((place.reshape(-1), possible.reshape(-1)))
        result = _placed(op, x, depth, writes, updates, lead, reduction)
        if result is not None:
            return result
    box: list[tuple[int, int] | None] = [None] * x.rank
    for i in range(depth):
        box[i] = _reached(x, i, slice_axis(index, lead, i, i + 1))
    spread = Updates.of(updates, range(lead)).with_leading_axes(lead, depth)
    return within_box(op, affordable(x), box, spread, reduction)


@scatter_nd.meaning
def _(run: Run, x: Tensor, index: Tensor, updates: Tensor) -> Tensor:
    depth = index.shape[-1]
    lead, slice_size = x.shape[:depth], math.prod(x.shape[depth:])
    place = run.torch.zeros(index.shape[:-1], dtype=run.torch.int64)
    for size, coordinate in zip(lead, index.unbind(-1)):
        place = place * size + from_front(run, coordinate, size)
    rows = place.reshape(-1, 1).expand(-1, slice_size)
    return _written(run, x.reshape(math.prod(lead), slice_size), 0, rows, updates.reshape(rows.shape)).reshape(x.shape)


@operator("TensorScatter", steered_by=(2,))
def tensor_scatter(op: Call, x: Range, updates: Range, starts: Range | None = None) -> Range:
    """A cache into which each sample of the batch writes consecutive elements from its own position on."""
    axis = known_axis(op.attribute("axis", -2), x.rank)
    circular = op.attribute("mode", "linear") == "circular"
    size, length = x.sizes[axis], updates.sizes[axis]
    if 0 in updates.sizes:
        return x
    zeros = Range.constant(np.zeros(x.sizes[0], np.int64))
    positions = None if starts is not None and bool((starts.low < 0).any()) else starts or zeros
    candidates = None if positions is None else choices(as_tuples(positions), [2**62])
    if candidates is not None:
        prefix = x.sizes[:axis]
        rows = np.arange(math.prod(prefix)).reshape(*prefix, 1)
        writes: list[Choice] = []
        for first, possible in candidates:
            step = first + np.arange(length)
            step = step % size if circular else np.minimum(step, size - 1)
            shape = prefix[0], *([1] * (axis - 1))
            place = rows * size + step.reshape(*shape, length)
            writes.append((place.reshape(-1), np.broadcast_to(possible.reshape(*shape, 1), place.shape).reshape(-1)))
        result = _placed(op, x, axis + 1, writes, updates, axis + 1, "none")
        if result is not None:
            return result
    low, high = (0, 0) if starts is None else (int(starts.low.min()), int(starts.high.max()))
    box: list[tuple[int, int] | None] = [None] * x.rank
    # A position before the axis is not defined; one that runs over its end starts again at the front.
    if low >= 0 and (not circular or high + length <= size):
        box[axis] = min(low, size), min(high + length, size)
    return within_box(op, affordable(x), box, Updates.of(updates, (axis,)), "none")


@tensor_scatter.meaning
def _(run: Run, x: Tensor, updates: Tensor, starts: Tensor | None = None) -> Tensor:
    axis = known_axis(run.attribute("axis", -2), x.ndim)
    size, length = x.shape[axis], updates.shape[axis]
    first = run.torch.zeros(x.shape[0], dtype=run.torch.int64) if starts is None else run.whole(starts)
    step = first[:, None] + run.torch.arange(length)
    step = step % size if run.attribute("mode", "linear") == "circular" else step
    index = step.reshape(-1, *[1] * (axis - 1), length, *[1] * (x.ndim - 1 - axis)).expand(updates.shape)
    return _written(run, x, axis, index, updates)


# -- positions that are known ----------------------------------------------------------------------------------------


def _placed(op: Call, x: Range, lead: int, writes: list[Choice], updates: Range, update_lead: int, reduction: str) -> Range | None:
    """`x` with its leading axes element by element and updated at flat places of them; None if that is too much work.

    `writes` are the places that the updates may go to: where there is one only, they certainly do.
    """
    if reduction == "none" and len(writes) == 1:
        result = folded(lambda a, u: _assigned(a, lead, writes[0][0], u), x.size, x, updates)
        if result is not None:
            return result
    slots, count = math.prod(x.sizes[:lead]), len(writes[0][0])
    rest = math.prod(x.cells[lead:]) * math.prod(updates.cells[update_lead:])
    if (slots + count * len(writes)) * rest > 4 * CELL_BUDGET:
        return None
    is_certain = np.sum([possible for _, possible in writes], axis=0) == 1
    place = np.concatenate([place[possible] for place, possible in writes])
    source = np.concatenate([np.flatnonzero(possible) for _, possible in writes])
    hits = np.bincount(place, minlength=slots)
    if reduction != "none" and int(hits.max()) > _MOST_HITS:
        return None
    for axis in range(lead):
        x = x.refine_fully(axis)
    for axis in range(update_lead):
        updates = updates.refine_fully(axis)
    for i in range(x.rank - lead):
        cuts = union(x.grid[lead + i], updates.grid[update_lead + i])
        x, updates = x.refine(lead + i, cuts), updates.refine(update_lead + i, cuts)
    flat = _Flat.of(x, slots)
    events = _Events(place, source, is_certain[source], hits)
    if reduction == "none":
        flat.replace(events, _Flat.of(updates, count))
    else:
        flat.combine(op, events, _Flat.of(updates, count), reduction)
    low, high = flat.low.reshape(x.cells), flat.high.reshape(x.cells)
    return x.replace(low, high, flat.special.reshape(x.cells))


@dataclass(frozen=True, slots=True)
class _Events:
    """Hits: the place, the row of the updates, and whether it certainly happens; and how often each place is hit."""

    place: Integers
    source: Integers
    is_certain: npt.NDArray[np.bool_]
    hits: Integers


def _assigned(array: npt.NDArray[Any], lead: int, place: Integers, updates: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Constants: the array with rows replaced (the last one counts where a place is hit twice)."""
    result = array.reshape(math.prod(array.shape[:lead]), -1).copy()
    result[place] = updates.reshape(len(place), -1)
    return result.reshape(array.shape)


class _Flat:
    """Bounds of a tensor as rows that can be written to."""

    def __init__(self, format: Format, low: Array, high: Array, special: Flags) -> None:
        self.format = format
        self.low, self.high, self.special = low, high, special

    @classmethod
    def of(cls, x: Range, rows: int) -> _Flat:
        low, high = (a.reshape(rows, -1).copy() for a in (x.low, x.high))
        return cls(x.format, low, high, x.special.reshape(rows, -1).copy())

    def rows(self, index: Integers) -> Range:
        return Range.elements(self.format, self.low[index], self.high[index], self.special[index])

    def replace(self, events: _Events, updates: _Flat) -> None:
        """Rows take the values of their updates; the hull of all that they may take, in whatever order they are written."""
        lost = events.place[events.is_certain]
        self.low[lost], self.high[lost], self.special[lost] = np.inf, -np.inf, 0
        np.minimum.at(self.low, events.place, updates.low[events.source])
        np.maximum.at(self.high, events.place, updates.high[events.source])
        np.bitwise_or.at(self.special, events.place, updates.special[events.source])

    def combine(self, op: Call, events: _Events, updates: _Flat, reduction: str) -> None:
        """Rows combined with their updates, one hit of every row after the other, in exact arithmetic; then the error."""
        place, hits = events.place, events.hits
        start = np.where(self.low <= self.high, np.maximum(np.abs(self.low), np.abs(self.high)), 0.0)
        order = np.argsort(place, kind="stable")
        turn = np.empty(len(place), np.int64)
        turn[order] = np.arange(len(place)) - np.concatenate([[0], np.cumsum(hits)])[place[order]]
        below, above = np.minimum(self.low, 0.0), np.maximum(self.high, 0.0)
        size, growth = start.copy(), np.ones_like(start)
        for number in range(int(hits.max())):
            now = turn == number
            target, source = place[now], updates.rows(events.source[now])
            before = self.rows(target)
            result = combined(before, source, reduction)
            joined, is_certain = before.join(result), events.is_certain[now][:, None]
            self.low[target] = np.where(is_certain, result.low, joined.low)
            self.high[target] = np.where(is_certain, result.high, joined.high)
            self.special[target] = np.where(is_certain, result.special, joined.special)
            below[target] += np.minimum(source.low, 0.0)
            above[target] += np.maximum(source.high, 0.0)
            size[target] += source.magnitude()
            growth[target] *= np.maximum(source.magnitude(), 1.0)
        if reduction not in ("add", "mul"):
            return
        # A single hit is one correctly rounded operation, which the engine rounds itself.
        several = np.broadcast_to(hits[:, None] > 1, self.low.shape)
        count = np.broadcast_to(hits[:, None].astype(np.float64), self.low.shape)
        exact = Range.elements(self.format, self.low, self.high)
        if reduction == "add":
            error = sum_error(op, self.format, count, size)
            report_partial_overflow(op, exact, np.where(several, below, 0.0), np.where(several, above, 0.0), self.format)
        else:
            error = product_error(op, self.format, count, exact.magnitude(), growth)
            report_growth(op, exact, np.where(several, start * growth, 0.0))
        if not self.format.is_float:
            several = np.ones_like(several)
        empty = self.low > self.high
        self.low = np.where(empty | ~several, self.low, self.low - error)
        self.high = np.where(empty | ~several, self.high, self.high + error)


# -- positions that are not known ------------------------------------------------------------------------------------


def _whole_axis(x: Range, axis: int, stop: int) -> tuple[int, int] | None:
    """The first elements of an axis, None if they are all of it or its size is not known."""
    size = shape_of(x)[axis]
    return (0, stop) if isinstance(size, int) and stop < size else None


def _reached(x: Range, axis: int, index: Range) -> tuple[int, int] | None:
    size = shape_of(x)[axis]
    if not isinstance(size, int):
        return None
    first, last = reach(index, size)
    return first, last + 1
