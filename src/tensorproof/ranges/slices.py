"""Slices of a range along one axis, and their reassembly: what loops over an axis need.

Nothing here expands cells: a slice of an axis with one cell costs as much as the rest of the tensor.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorproof.errors import NotAnalysed, UnknownShape
from tensorproof.ranges.grid import Cuts, Size, counts, largest
from tensorproof.ranges.range import CELL_BUDGET, Range, align


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the front; negative ones count from the back (ONNX)."""
    if not -rank <= axis < rank:
        raise NotAnalysed(f"axis {axis} of a tensor with {rank} axes")
    return axis % rank


def element_at(x: Range, axis: int, index: int) -> Range:
    """The slice at one index; the axis is dropped."""
    if x.array is not None:
        return Range.constant(np.take(x.array, index, axis), x.format)
    return elements_between(x, axis, index, index + 1)


def elements_between(x: Range, axis: int, start: int, stop: int | None) -> Range:
    """What holds for each slice at an index from `start` up to `stop` (None: the end); the axis is dropped."""
    if x.shape is None:
        return x
    first, last = _cells_between(x.grid[axis], start, stop)
    if first >= last:
        raise UnknownShape("a slice of an axis without elements")
    part = (slice(None),) * axis + (slice(first, last),)
    low, high, special = x.low[part].min(axis), x.high[part].max(axis), None
    if x.has_special:
        special = np.bitwise_or.reduce(x.special[part], axis=axis)
    shape, grid = x.shape[:axis] + x.shape[axis + 1 :], x.grid[:axis] + x.grid[axis + 1 :]
    return Range(x.format, shape, grid, np.asarray(low), np.asarray(high), special)


def part_between(x: Range, axis: int, start: int, stop: int) -> Range:
    """The part of a tensor from index `start` to `stop` along an axis of known size; the axis stays."""
    if x.shape is None:
        raise UnknownShape("the rank is not known")
    within = (slice(None),) * axis
    if x.array is not None:
        return Range.constant(x.array[(*within, slice(start, stop))], x.format)
    shape = (*x.shape[:axis], stop - start, *x.shape[axis + 1 :])
    cuts = x.grid[axis]
    if start == stop:
        return Range.uniform(shape, x.format, np.inf, -np.inf)
    if cuts is None:
        return Range(x.format, shape, x.grid, x.low, x.high, x.special)
    first, last = _cells_between(cuts, start, stop)
    part = (*within, slice(first, last))
    inner = np.clip(cuts[first : last + 1], start, stop) - start
    grid = (*x.grid[:axis], None if last - first == 1 else inner, *x.grid[axis + 1 :])
    return Range(x.format, shape, grid, x.low[part], x.high[part], x.special[part] if x.has_special else None)


def _cells_between(cuts: Cuts, start: int, stop: int | None) -> tuple[int, int]:
    if cuts is None:
        return 0, 1
    first = int(np.searchsorted(cuts, start, side="right")) - 1
    last = len(cuts) - 1 if stop is None else int(np.searchsorted(cuts, stop, side="left"))
    return max(first, 0), min(last, len(cuts) - 1)


def steady_until(x: Range, axis: int, index: int) -> int | None:
    """The first index after `index` whose slice may differ from the one at `index`; None if no later slice does."""
    if x.shape is None or x.grid[axis] is None:
        return None
    cuts = x.grid[axis]
    assert cuts is not None
    position = int(np.searchsorted(cuts, index, side="right"))
    return int(cuts[position]) if position < len(cuts) - 1 else None


def steady_since(x: Range, axis: int, index: int) -> int:
    """The first index of the run of equal slices that ends at `index`."""
    cuts = None if x.shape is None else x.grid[axis]
    return 0 if cuts is None else int(cuts[int(np.searchsorted(cuts, index, side="right")) - 1])


def stacked(parts: Sequence[tuple[Range, int]], axis: int) -> Range:
    """Tensors put side by side along a new axis, each repeated a number of times (at least one part)."""
    tensors = [x for x, _ in parts]
    repeats = np.array([n for _, n in parts], np.int64)
    total = int(repeats.sum())
    if len(tensors) == 1 or any(x.shape is None or x.shape != tensors[0].shape for x in tensors):
        return spread(joined(tensors), axis, total)
    arrays = [x.array for x in tensors if x.array is not None]
    if len(arrays) == len(tensors) and total * arrays[0].size <= CELL_BUDGET:
        axis = axis_of(axis, arrays[0].ndim + 1)
        return Range.constant(np.repeat(np.stack(arrays, axis), repeats, axis), tensors[0].format)
    assert tensors[0].shape is not None
    axis = axis_of(axis, len(tensors[0].shape) + 1)
    each = max(1, CELL_BUDGET // len(tensors))
    aligned = align(*(x.limit(each) for x in tensors))
    cells = counts(aligned.grid)
    low = np.stack([np.broadcast_to(a, cells) for a in aligned.lows], axis)
    high = np.stack([np.broadcast_to(a, cells) for a in aligned.highs], axis)
    special = None
    if any(x.has_special for x in tensors):
        special = np.stack([np.broadcast_to(a, cells) for a in aligned.specials], axis)
    cuts = np.concatenate(([0], np.cumsum(repeats)))
    kept = np.flatnonzero(repeats)
    if len(kept) < len(tensors):
        low, high = np.take(low, kept, axis), np.take(high, kept, axis)
        special = None if special is None else np.take(special, kept, axis)
        cuts = np.concatenate(([0], np.cumsum(repeats[kept])))
    shape, grid = tensors[0].shape, aligned.grid
    return Range(
        tensors[0].format,
        (*shape[:axis], total, *shape[axis:]),
        (*grid[:axis], None if total == 1 else cuts, *grid[axis:]),
        low,
        high,
        special,
    ).limit()


def spread(x: Range, axis: int, size: Size) -> Range:
    """A tensor repeated along a new axis of that size: every slice is one of the values of `x`."""
    if x.shape is None:
        return x
    axis = axis_of(axis, len(x.shape) + 1)
    shape = (*x.shape[:axis], size, *x.shape[axis:])
    if largest(size) == 0:
        return Range.uniform(shape, x.format, np.inf, -np.inf)
    grid = (*x.grid[:axis], None, *x.grid[axis:])
    special = np.expand_dims(x.special, axis) if x.has_special else None
    return Range(x.format, shape, grid, np.expand_dims(x.low, axis), np.expand_dims(x.high, axis), special)


def joined(tensors: Sequence[Range]) -> Range:
    """What holds for each of the tensors (at least one)."""
    result = tensors[0]
    for x in tensors[1:]:
        if x is not result:
            result = result.join(x)
    return result
