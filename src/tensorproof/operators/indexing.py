"""Elements picked by position: Gather and its relatives, Compress, OneHot.

An index that is known picks cells; one that is known as an interval gives the hull of the cells that it can reach, negative
positions included.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.execute.choices import MOST_PRODUCTS, wanted_entry
from tensorproof.formats import BOOL, INT64
from tensorproof.frontends.picking import is_mask, picked
from tensorproof.graph import ABSENT
from tensorproof.operators.table import Call, operator
from tensorproof.ranges import relations
from tensorproof.ranges.affine import Form
from tensorproof.ranges.grid import Cuts, Size, Span, counts, fine, largest, smallest
from tensorproof.ranges.moving import (
    Integers,
    affordable,
    folded,
    known_axis,
    moved,
    one_cell,
    replaced,
    reshape,
    shape_of,
    slice_axis,
    take,
    whole,
)
from tensorproof.ranges.range import CELL_BUDGET, Flags, Range
from tensorproof.ranges.views import Reshaped
from tensorproof.ranges.views import positions as positions_along
from tensorproof.ranges.weights import extent, extents_along, is_large

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall
    from tensorproof.frontends.calls import Handle

#: Up to this many different intervals of an index are reduced one by one.
_FEW_WINDOWS = 8

#: Tables of hulls over all windows of a power of two are built up to this many cells.
_TABLE_LIMIT = 1 << 20

#: Indices that can be more tuples of positions than this are not followed one by one.
_MOST_CHOICES = 64

_Window = tuple[Integers, Integers]
Choice = tuple[Integers, npt.NDArray[np.bool_]]


# -- reach of an index -----------------------------------------------------------------------------------------------


def windows(index: Range, size: int) -> tuple[_Window, _Window]:
    """Two intervals of positions per cell of an index into an axis of `size`: where it counts from the front, and back.

    The two are equal where the sign is known. Positions outside of the axis are errors of the model and left out.
    """
    low = np.clip(index.low, -size, size - 1).astype(np.int64)
    high = np.clip(index.high, -size, size - 1).astype(np.int64)
    positive, negative = high >= 0, low < 0
    first = np.where(positive, np.maximum(low, 0), low + size), np.where(positive, high, high + size)
    last_start = np.where(negative, low + size, first[0])
    last_end = np.where(negative, np.where(positive, size - 1, high + size), first[1])
    return first, (last_start, last_end)


def reach(index: Range, size: int) -> tuple[int, int]:
    """The first and the last position that any element of an index can be."""
    if not index.low.size:
        return 0, 0
    (front_first, front_last), (back_first, back_last) = windows(index, size)
    return int(min(front_first.min(), back_first.min())), int(max(front_last.max(), back_last.max()))


def known_positions(index: Range, size: int) -> Integers | None:
    """The positions counted from the front, element by element, if the index is known and not too large."""
    if index.array is None and index.size > CELL_BUDGET:
        return None
    exact = index.integers()
    if exact is None:
        return None
    exact = np.where(exact < 0, exact + size, exact)
    if exact.size and not 0 <= int(exact.min()) <= int(exact.max()) < size:
        raise NotAnalysed("an index lies outside its axis")
    return exact


def choices(index: Range, sizes: Sequence[int]) -> list[Choice] | None:
    """Every tuple of positions that an index can be, its last axis running over the coordinates; None if they are many.

    Each choice is an array of tuples of one candidate per element of the index, with a mask of those that are possible.
    An index that is known has one choice.
    """
    if not index.has_known_shape or (index.array is None and index.size > CELL_BUDGET):
        return None
    bounds = np.array(sizes, np.int64)
    exact = index.integers()
    if exact is not None:
        if exact.size and bool(((exact < -bounds) | (exact >= bounds)).any()):
            raise NotAnalysed("an index lies outside its axis")
        return [(np.where(exact < 0, exact + bounds, exact), np.ones(exact.shape[:-1], np.bool_))]
    low, high = (np.clip(a, -bounds, bounds - 1).astype(np.int64) for a in index.expanded()[:2])
    widths = (high - low).max(axis=tuple(range(low.ndim - 1)))
    if math.prod(int(width) + 1 for width in widths) > _MOST_CHOICES:
        return None
    result: list[Choice] = []
    for offset in itertools.product(*(range(int(width) + 1) for width in widths)):
        candidate = low + np.array(offset, np.int64)
        possible = np.asarray((candidate <= high).all(axis=-1))
        candidate = np.minimum(candidate, high)
        result.append((np.where(candidate < 0, candidate + bounds, candidate), possible))
    return result


def as_tuples(index: Range) -> Range:
    """An index of single positions as tuples of one coordinate."""
    if index.array is not None:
        return Range.constant(index.array[..., None], index.format)
    return moved(index, (*shape_of(index), 1), (*index.grid, None), lambda a: a[..., None])


# -- Gather ----------------------------------------------------------------------------------------------------------


@operator("Gather", steered_by=(1,))
def gather(op: Call, x: Range, index: Range) -> Range:
    """The slices at the given positions along an axis; the hull of those within reach where the index is an interval."""
    axis = known_axis(op.attribute("axis", 0), x.rank)
    if op.abstraction.weights == "channel" and x.array is not None and is_large(x.array) and _reaches_most(x, index, axis):
        ends = extent(x.array)
        if ends is not None:
            return Range.uniform((*x.sizes[:axis], *index.sizes, *x.sizes[axis + 1 :]), x.format, *ends)
    return gathered(x, index, axis)


def _reaches_most(x: Range, index: Range, axis: int) -> bool:
    """Whether each position that an index can be lies in one interval that is at least half of an axis."""
    if index.array is not None or not index.has_known_shape or 0 in index.sizes or index.low.size > 1:
        return False
    first, last = reach(index, x.sizes[axis])
    return 2 * (last + 1 - first) >= x.sizes[axis]


@gather.affine
def _(op: Call, result: Range, x: Range, index: Range) -> Form | None:
    axis = known_axis(op.attribute("axis", 0), x.rank)
    exact = known_positions(index, x.sizes[axis]) if relations.is_small(index) else None
    if exact is None:
        return None
    picked = positions_along(x.sizes, axis, [int(i) for i in exact.reshape(-1)])
    return relations.viewed(op, result, x, picked, Reshaped(result.sizes))


@gather.meaning
def _(run: Run, x: Tensor, index: Tensor) -> Tensor:
    axis = known_axis(run.attribute("axis", 0), x.ndim)
    shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])

    def pick(positions: Tensor) -> Tensor:
        return x.index_select(axis, positions.reshape(-1)).reshape(shape)

    is_sought = run.search and index.requires_grad and x.dtype.is_floating_point
    if not is_sought or not 0 < x.numel() * index.numel() <= MOST_PRODUCTS:
        return _at_positions(run, pick, index, x.shape[axis], x.ndim - axis - 1)
    table = x.reshape(math.prod(x.shape[:axis]), x.shape[axis], -1)
    return pick(from_front(run, index, x.shape[axis])) + wanted_entry(index, table).reshape(shape)


def _at_positions(run: Run, pick: Callable[[Tensor], Tensor], index: Tensor, size: int, inner: int) -> Tensor:
    """What is picked at an index into an axis of `size`, its axes followed by `inner` others in the result.

    In a search the derivative along the index is the slope between the neighbours of what was picked.
    """
    position = from_front(run, index, size)
    result = pick(position)
    if not run.search or not index.requires_grad or not result.dtype.is_floating_point:
        return result
    before, after = pick((position - 1).clamp(min=0)), pick((position + 1).clamp(max=size - 1))
    slope = ((after - before) / 2).detach().nan_to_num(0.0, 0.0, 0.0)
    return result + slope * (index - index.detach()).reshape((*index.shape, *[1] * inner))


def from_front(run: Run, index: Tensor, size: int) -> Tensor:
    """Positions along an axis of `size`, the negative ones counted from its end."""
    index = run.whole(index)
    return run.torch.where(index < 0, index + size, index)


def gathered(x: Range, index: Range, axis: int) -> Range:
    """`x` with one axis replaced by the axes of the index."""
    sizes = shape_of(x)
    size = sizes[axis]
    shape = (*sizes[:axis], *shape_of(index), *sizes[axis + 1 :])
    if not isinstance(size, int) or not index.has_known_shape:
        return _inserted(one_cell(affordable_along(x, axis), (axis,)), axis, index, None)
    if index.size == 0:
        empty = take(x, axis, np.zeros(0, np.int64))
        return reshape(empty, shape)
    if size == 0:
        raise NotAnalysed("an index into an axis without elements")
    positions = known_positions(index, size)
    if positions is not None:
        if x.has_known_shape and x.array is not None:
            count = x.array.size // size * positions.size
            result = folded(lambda array: np.take(array, positions, axis=axis), count, x)
            if result is not None:
                return result
        if index.rank == 1 or x.cells[axis] == 1:
            return reshape(take(affordable_along(x, axis), axis, positions.reshape(-1)), shape)
    return _inserted(affordable_along(x, axis) if index.low.size > 1 else x, axis, index, windows(index, size))


def affordable_along(x: Range, axis: int) -> Range:
    """Few enough cells to be copied as bounds; the cells along `axis` are the first to go."""
    budget = 4 * CELL_BUDGET
    return affordable(one_cell(x, (axis,))) if math.prod(x.cells) > budget else x


def _inserted(x: Range, axis: int, index: Range, ranges: tuple[_Window, _Window] | None) -> Range:
    """`x` with an axis replaced by those of the index: per cell of the index the hull over its windows."""
    other = math.prod(n for i, n in enumerate(x.cells) if i != axis)
    if other * index.low.size > 4 * CELL_BUDGET and index.low.size > 1:
        index = one_cell(index)
        size = shape_of(x)[axis]
        ranges = None if ranges is None else windows(index, smallest(size))
    shape = (*shape_of(x)[:axis], *shape_of(index), *shape_of(x)[axis + 1 :])
    grid = (*x.grid[:axis], *index.grid, *x.grid[axis + 1 :])

    def inserted(merge: np.ufunc, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        array = np.moveaxis(array, axis, 0)
        if ranges is None:
            flat = np.broadcast_to(array, (index.low.size, *array.shape[1:]))
        else:
            parts = [_over_windows(array, merge, *(_cells(x, axis, p) for p in window)) for window in ranges]
            flat = merge(parts[0], parts[1])
        flat = flat.reshape((*index.low.shape, *array.shape[1:]))
        source = list(range(index.low.ndim))
        return np.moveaxis(flat, source, [axis + i for i in source])

    if x.array is not None and x.array.dtype.kind not in "OUSc":
        # In the constant's own dtype: a table of embeddings is never copied as a whole.
        low = Range.constant(inserted(np.minimum, x.array), x.format).low
        high = Range.constant(inserted(np.maximum, x.array), x.format).high
        return Range(x.format, shape, grid, low.reshape(counts(grid)), high.reshape(counts(grid)))
    special = inserted(np.bitwise_or, x.special) if x.has_special else None
    return Range(x.format, shape, grid, inserted(np.minimum, x.low), inserted(np.maximum, x.high), special)


def _cells(x: Range, axis: int, positions: Integers) -> Integers:
    """The cells that positions along an axis lie in."""
    cuts = x.grid[axis]
    if cuts is None:
        return np.zeros_like(positions).reshape(-1)
    return (np.searchsorted(cuts, positions, side="right") - 1).reshape(-1)


def _over_windows(array: npt.NDArray[Any], merge: np.ufunc, first: Integers, last: Integers) -> npt.NDArray[Any]:
    """For each pair of cell numbers the merged rows first..last of an array."""
    if bool((first == last).all()):
        return np.take(array, first, axis=0)
    pairs, place = np.unique(np.stack([first, last]), axis=1, return_inverse=True)
    if pairs.shape[1] > _FEW_WINDOWS and array.size <= _TABLE_LIMIT:
        return np.take(_from_table(array, merge, pairs[0], pairs[1]), place.reshape(-1), axis=0)
    if pairs.shape[1] > _FEW_WINDOWS:
        pairs, place = np.array([[first.min()], [last.max()]]), np.zeros(len(first), np.int64)
    hulls = np.stack([_hull(array[a : b + 1], merge) for a, b in pairs.T])
    return np.take(hulls, place.reshape(-1), axis=0)


def _hull(rows: npt.NDArray[Any], merge: np.ufunc) -> npt.NDArray[Any]:
    """All rows merged; of a large table of floating numbers both ends are found at once, and remembered."""
    if not is_large(rows) or merge is np.bitwise_or:
        return merge.reduce(rows, axis=0)
    low, high = extents_along(rows, 0)
    return (low if merge is np.minimum else high).astype(rows.dtype)


def _from_table(array: npt.NDArray[Any], merge: np.ufunc, first: Integers, last: Integers) -> npt.NDArray[Any]:
    """The same through a table of all windows whose length is a power of two: any window is the union of two of them."""
    levels = [array]
    while 2 ** len(levels) <= len(array):
        half = 2 ** (len(levels) - 1)
        shorter = levels[-1]
        levels.append(merge(shorter[: len(shorter) - half], shorter[half:]))
    level = np.frexp((last - first + 1).astype(np.float64))[1] - 1
    result = np.empty((len(first), *array.shape[1:]), array.dtype)
    for number, table in enumerate(levels):
        here = level == number
        result[here] = merge(table[first[here]], table[last[here] - 2**number + 1])
    return result


@gather.aten("embedding")
def _(call: AtenCall) -> int:
    return call.moved("Gather", call.tensor("weight"), call.tensor("indices"), axis=0)


@gather.aten("select.int", "select_copy.int")
def _(call: AtenCall) -> int:
    return call.moved("Gather", call.tensor("self"), call.value(call.arguments["index"], INT64), axis=call["dim"])


@gather.aten("unbind.int", "unbind_copy.int")
def _(call: AtenCall) -> tuple[int, ...]:
    positions = (call.constant(np.array(index, np.int64)) for index in range(len(call.results)))
    return tuple(call.moved("Gather", call.tensor("self"), position, axis=call["dim"]) for position in positions)


@gather.aten("index_select")
def _(call: AtenCall) -> int:
    index = call.tensor("index")
    return call.moved(
        "Gather", call.tensor("self"), call.reshaped(index, [-1]) if call.rank("index") != 1 else index, axis=call["dim"]
    )


@gather.aten("take")
def _(call: AtenCall) -> int:
    return call.moved("Gather", call.reshaped(call.tensor("self"), [-1]), call.tensor("index"), axis=0)


@gather.aten("diagonal", "diagonal_copy")
def _(call: AtenCall) -> int:
    """Elements at equal distance along two axes, which are merged into one to pick them."""
    merged, positions, _ = diagonal_positions(call)
    return call.moved("Gather", merged, call.constant(positions), axis=call.rank("self") - 2)


def diagonal_positions(call: AtenCall) -> tuple[int, Integers, list[int]]:
    """Matrices that two axes of a tensor make, each as one row; where a diagonal is in a row; the order that the axes have."""
    x, rank = call.handle("self"), call.rank("self")
    first, second = call.axis("dim1", rank), call.axis("dim2", rank)
    rows, columns = (call.size(x, axis) for axis in (first, second))
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise NotAnalysed("the diagonal of matrices whose size is not fixed")
    others = [axis for axis in range(rank) if axis not in (first, second)]
    order = [*others, first, second]
    turned = call.moved("Transpose", x.number, perm=order)
    merged = call.reshaped(turned, [*(call.size(x, axis) for axis in others), rows * columns])
    return merged, np.flatnonzero(np.eye(rows, columns, call["offset"])).astype(np.int64), order


@gather.aten("as_strided")
def _(call: AtenCall) -> int:
    """Elements at steps through the memory of a tensor that lies there in one piece."""
    positions = strided_positions(call)
    return call.moved("Gather", call.reshaped(call.tensor("self"), [-1]), call.constant(positions), axis=0)


def strided_positions(call: AtenCall) -> Integers:
    """Where the elements of `as_strided` stand among those of the tensor, in row-major order."""
    x, sizes, strides = call.handle("self"), call["size"], call["stride"]
    if not x.is_row_major:
        raise NotAnalysed("strides of a tensor that does not lie in its memory in one piece")
    positions = np.full(tuple(sizes), call["storage_offset"] or 0, np.int64)
    for axis, (size, stride) in enumerate(zip(sizes, strides)):
        positions += (np.arange(size) * stride).reshape([-1 if other == axis else 1 for other in range(len(sizes))])
    if positions.size and positions.max() >= math.prod(int(size or 0) for size in x.shape or ()):
        raise NotAnalysed("strides that leave the tensor")
    return positions


@gather.aten("im2col")
def _(call: AtenCall) -> int:
    """The windows of images as columns: positions picked along height, then along width."""
    x, rank = call.handle("self"), call.rank("self")
    padding = list(call["padding"])
    pads = call.integers([*padding, *padding])
    number = call.moved("Pad", x.number, pads, ABSENT, call.integers([rank - 2, rank - 1])) if any(padding) else x.number
    for place, axis in ((0, rank - 2), (1, rank)):
        size = call.size(x, rank - 2 + place)
        if not isinstance(size, int):
            raise NotAnalysed("the windows of images whose size is not fixed")
        length, dilation, stride = (call[name][place] for name in ("kernel_size", "dilation", "stride"))
        windows = (size + 2 * padding[place] - dilation * (length - 1) - 1) // stride + 1
        index = np.arange(length)[:, None] * dilation + np.arange(windows) * stride
        number = call.moved("Gather", number, call.constant(index.astype(np.int64)), axis=axis)
    lead = list(range(rank - 2))
    number = call.moved("Transpose", number, perm=[*lead, rank - 2, rank, rank - 1, rank + 1])
    return call.reshaped(number, call.traced([call.size(x, 0), -1, -1][3 - len(call.result.shape or ()) :]))


# -- GatherElements and GatherND -------------------------------------------------------------------------------------


def elements_at(x: Range, coordinates: list[Integers]) -> Range:
    """The elements at coordinates of the leading axes (arrays that broadcast); the other axes keep their cells."""
    if x.array is not None:
        return Range.constant(x.array[tuple(coordinates)], x.format)
    lead = len(coordinates)
    cells = tuple(_cells(x, axis, p).reshape(p.shape) for axis, p in enumerate(coordinates))
    sizes = np.broadcast_shapes(*(p.shape for p in coordinates))
    grid = (*(np.zeros(1, np.int64) if n == 0 else g for n, g in zip(sizes, fine(sizes))), *x.grid[lead:])
    return moved(x, (*sizes, *shape_of(x)[lead:]), grid, lambda a: a[cells])


@operator("GatherElements", steered_by=(1,))
def gather_elements(op: Call, x: Range, index: Range) -> Range:
    """For each index the element at that position along an axis; the hull within reach where it is an interval."""
    axis = known_axis(op.attribute("axis", 0), x.rank)
    size = shape_of(x)[axis]
    if isinstance(size, int) and index.has_known_shape and x.has_known_shape and 0 not in x.sizes:
        candidates = choices(as_tuples(index), [size])
        if candidates is not None and index.size <= max(CELL_BUDGET, 0 if x.array is None else x.array.size):
            parts: list[Range] = []
            for tuples, _ in candidates:
                coordinates: list[Integers] = list(np.ogrid[tuple(slice(n) for n in index.sizes)])
                coordinates[axis] = tuples[..., 0]
                parts.append(elements_at(x, coordinates))
            return functools.reduce(Range.join, parts)
    for other, (old, new) in enumerate(zip(shape_of(x), shape_of(index))):
        if other != axis and isinstance(old, int) and isinstance(new, int) and new < old:
            x = slice_axis(x, other, 0, new)
    x = _within_reach(x, axis, index)
    return moved(x, shape_of(index), x.grid, lambda a: a)


@gather_elements.meaning
def _(run: Run, x: Tensor, index: Tensor) -> Tensor:
    axis = known_axis(run.attribute("axis", 0), x.ndim)
    return _at_positions(run, lambda positions: x.gather(axis, positions), index, x.shape[axis], 0)


@gather_elements.aten("gather")
def _(call: AtenCall) -> int:
    x, index = call.tensor("self"), call.tensor("index")
    if call.rank("index") == 0:
        return call.reshaped(call.moved("Gather", call.reshaped(x, [-1]), call.reshaped(index, [-1]), axis=0), [])
    if call.rank("self") == 0:
        x = call.reshaped(x, [1])
    return call.moved("GatherElements", x, index, axis=call["dim"])


def _within_reach(x: Range, axis: int, index: Range) -> Range:
    """One cell along an axis: the hull of the positions that an index can be."""
    size = shape_of(x)[axis]
    if isinstance(size, int) and size > 0:
        first, last = reach(index, size)
        x = slice_axis(x, axis, first, last + 1)
    return one_cell(x, (axis,))


@operator("GatherND", steered_by=(1,))
def gather_nd(op: Call, x: Range, index: Range) -> Range:
    """The slices at the given tuples of positions; the hull of those within reach where one is an interval."""
    return _gathered_nd(x, index, op.attribute("batch_dims", 0))


@operator("GatherND", domain="com.microsoft")
def contrib_gather_nd(op: Call, x: Range, index: Range) -> Range:
    """The slices at the given tuples of positions; the hull of those within reach where one is an interval."""
    return _gathered_nd(x, index, 0)


@gather_nd.meaning
@contrib_gather_nd.meaning
def _(run: Run, x: Tensor, index: Tensor) -> Tensor:
    batch = run.attribute("batch_dims", 0)
    coordinates = [run.torch.from_numpy(c) for c in _batch_coordinates(tuple(index.shape[:-1]), batch)]
    return x[(*coordinates, *run.whole(index).unbind(-1))]


def _gathered_nd(x: Range, index: Range, batch: int) -> Range:
    depth = shape_of(index)[-1]
    if not isinstance(depth, int):
        raise NotAnalysed("the number of coordinates is not known")
    lead = shape_of(index)[:-1]
    tail = shape_of(x)[batch + depth :]
    rest = math.prod(x.cells[batch + depth :])
    candidates = choices(index, x.sizes[batch : batch + depth]) if x.has_known_shape and 0 not in x.sizes else None
    if candidates is not None and (x.array is not None or index.size * rest <= 4 * CELL_BUDGET):
        return functools.reduce(Range.join, [elements_at(x, _coordinates(tuples, batch)) for tuples, _ in candidates])
    for i in range(depth):
        coordinate = slice_axis(index, index.rank - 1, i, i + 1)
        x = _within_reach(x, batch + i, coordinate)
    grid = (*x.grid[:batch], *([None] * (len(lead) - batch)), *x.grid[batch + depth :])
    grid = tuple(np.zeros(1, np.int64) if n == 0 else g for n, g in zip((*lead, *tail), grid))
    if 0 in (*lead, *tail):
        return Range.uniform((*lead, *tail), x.format, 0.0, 0.0)
    return moved(x, (*lead, *tail), grid, lambda a: a.reshape(counts(grid)))


def _coordinates(tuples: Integers, batch: int) -> list[Integers]:
    """Coordinates of the leading axes: the numbers of the batch, then those of the tuples."""
    lead = tuples.shape[:-1]
    coordinates = (np.broadcast_to(numbers, lead) for numbers in _batch_coordinates(lead, batch))
    return [*coordinates, *(tuples[..., i] for i in range(tuples.shape[-1]))]


def _batch_coordinates(lead: tuple[int, ...], batch: int) -> list[Integers]:
    """The numbers of the first axes, each along its own."""
    return [np.arange(lead[axis]).reshape([-1 if i == axis else 1 for i in range(len(lead))]) for axis in range(batch)]


@gather_nd.aten("index.Tensor", "_unsafe_index.Tensor")
def _(call: AtenCall) -> int:
    """Elements at positions, or where a mask holds."""
    x, indices = call.handle("self"), call.arguments["indices"]
    given = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    if len(given) == 1:
        axis, index = given[0]
        if is_mask(index):
            return _where_mask_holds(call, x, axis, index)
        return call.moved("Gather", x.number, index.number, axis=axis)
    where = picked(call, call.rank("self"))
    turned = call.moved("Transpose", x.number, perm=where.order) if where.order != sorted(where.order) else x.number
    found = call.moved("GatherND", turned, where.tuples)
    return call.moved("Transpose", found, perm=where.from_front) if where.place else found


def _where_mask_holds(call: AtenCall, x: Handle, axis: int, mask: Handle) -> int:
    rank, depth = len(x.shape or ()), len(mask.shape or ())
    if depth == 0:
        raise NotAnalysed("a mask without axes")
    number, condition = x.number, call.cast(mask.number, BOOL)
    if depth > 1:
        sizes = [call.size(x, i) for i in range(rank)]
        number = call.reshaped(number, [*sizes[:axis], -1, *sizes[axis + depth :]])
        condition = call.reshaped(condition, [-1])
    return call.moved("Compress", number, condition, axis=axis)


# -- Compress and OneHot ---------------------------------------------------------------------------------------------


@operator("Compress", steered_by=(1,))
def compress(op: Call, x: Range, condition: Range) -> Range:
    """The slices where the condition holds; those where it may hold are one cell of a size that is not known."""
    axis = op.attribute("axis")
    if axis is None:
        axis, x = 0, reshape(x, (x.size,))
    axis = known_axis(axis, x.rank)
    exact = condition.integers() if condition.has_known_shape else None
    if exact is not None:
        return take(x, axis, np.flatnonzero(exact))
    if not condition.has_known_shape:
        x = one_cell(x, (axis,))
        return moved(x, replaced(shape_of(x), axis, Span(0, largest(shape_of(x)[axis]))), x.grid, lambda a: a)
    low, high, _ = condition.expanded()
    candidates = np.flatnonzero(high != 0)
    part = one_cell(take(x, axis, candidates), (axis,))
    size = Span(int(np.count_nonzero(low != 0)), len(candidates))
    return moved(part, replaced(shape_of(x), axis, size), part.grid, lambda a: a)


@compress.meaning
def _(run: Run, x: Tensor, condition: Tensor) -> Tensor:
    axis = run.attribute("axis")
    kept = run.whole(condition).nonzero().reshape(-1)
    return x.reshape(-1).index_select(0, kept) if axis is None else x.index_select(axis, kept)


@compress.aten("masked_select")
def _(call: AtenCall) -> int:
    x, mask = call.tensor("self"), call.tensor("mask")
    if call.handle("self").shape != call.handle("mask").shape:
        x, mask = call.moved("Expand", x, call.shape_of(mask)), call.moved("Expand", mask, call.shape_of(x))
    return call.moved("Compress", call.reshaped(x, [-1]), call.reshaped(mask, [-1]), axis=0)


@operator("OneHot", steered_by=(0, 1))
def one_hot(op: Call, index: Range, depth: Range, values: Range) -> Range:
    """`on` at the index, `off` elsewhere; both where it is not known whether the index is met."""
    # Runtimes disagree whether a depth with a fraction is rounded up or truncated.
    least, most = max(whole(depth.low.min()), 0), max(whole(np.ceil(depth.high.max())), 0)
    size: Size = least if least == most else Span(least, most)
    shape = shape_of(index)
    axis = known_axis(op.attribute("axis", -1), len(shape) + 1)
    new_shape = (*shape[:axis], size, *shape[axis:])
    if not isinstance(size, int) or size * index.low.size > 4 * CELL_BUDGET:
        if size == 0:
            return Range.uniform(new_shape, values.format, 0.0, 0.0)
        met = np.ones((1,) * (len(shape) + 1), np.bool_)
        grid: tuple[Cuts, ...] = tuple(np.zeros(1, np.int64) if n == 0 else None for n in new_shape)
        met = np.broadcast_to(met, counts(grid))
        return _on_or_off(values, new_shape, grid, met, ~met)
    cuts = np.zeros(1, np.int64) if size == 0 else fine([size])[0]
    grid = (*index.grid[:axis], cuts, *index.grid[axis:])
    low, high = np.expand_dims(index.low, axis), np.expand_dims(index.high, axis)
    fractional = (low != np.trunc(low)) | (high != np.trunc(high))
    # Runtimes disagree whether an index with a fraction is truncated or never met.
    place = np.arange(size).reshape([-1 if i == axis else 1 for i in range(len(new_shape))])
    can = np.zeros(counts(grid), np.bool_)
    for position in (place, place - size):
        can |= (np.trunc(low) <= position) & (position <= np.trunc(high))
    must = can & (low == high) & ~fractional
    if index.has_special:
        odd = np.expand_dims(index.special, axis) != 0
        can, must = can | odd, must & ~odd
    return _on_or_off(values, new_shape, grid, can, must)


@one_hot.meaning
def _(run: Run, index: Tensor, depth: Tensor, values: Tensor) -> Tensor:
    size = max(int(depth.detach().item()), 0)
    axis = known_axis(run.attribute("axis", -1), index.ndim + 1)
    place = run.torch.arange(size).reshape([-1 if i == axis else 1 for i in range(index.ndim + 1)])
    distance = index.unsqueeze(axis) - place
    off, on = values.unbind()
    # A negative index counts from the end.
    met = run.whole(distance) == 0
    result = run.torch.where(met | (run.whole(distance) == -size), on, off)
    if not run.search or not index.requires_grad or not result.dtype.is_floating_point:
        return result
    # A bell around the index: its neighbours rise as the index moves towards them.
    bell = run.torch.exp(-distance * distance)
    return result + (on - off).detach().nan_to_num(0.0, 0.0, 0.0) * (bell - bell.detach())


@one_hot.aten("one_hot")
def _(call: AtenCall) -> int:
    if call["num_classes"] < 0:
        raise NotAnalysed("the number of classes is that of the largest index")
    depth = call.constant(np.array(call["num_classes"], np.int64))
    return call.emit("OneHot", call.tensor("self"), depth, call.integers([0, 1]), axis=-1, formats=(INT64,))


def _on_or_off(
    values: Range, shape: tuple[Size, ...], grid: tuple[Cuts, ...], can: npt.NDArray[np.bool_], must: npt.NDArray[np.bool_]
) -> Range:
    """Cells that hold the first of two values (off), the second (on), or either."""
    low, high, special = values.expanded()
    flags: Flags | None = None
    if values.has_special:
        off, on = (np.uint8(flag) for flag in special.reshape(-1))
        flags = np.bitwise_or(np.where(must, np.uint8(0), off), np.where(can, on, np.uint8(0)))
    (off_low, on_low), (off_high, on_high) = low.reshape(-1), high.reshape(-1)
    new_low = np.minimum(np.where(must, np.inf, off_low), np.where(can, on_low, np.inf))
    new_high = np.maximum(np.where(must, -np.inf, off_high), np.where(can, on_high, -np.inf))
    return Range(values.format, shape, grid, new_low, new_high, flags)
