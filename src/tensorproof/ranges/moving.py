"""Moving cells: slices, joints, permutations and reshapes of ranges, done on the boundaries of the grid.

Nothing here looks at single elements unless the tensor is a constant, which is moved as the array that it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed, UnknownShape
from tensorproof.ranges.grid import Cuts, Grid, Shape, Size, Span, coarse, counts, largest, smallest, union
from tensorproof.ranges.norms import reshaped_norm, sliced_norm
from tensorproof.ranges.range import CELL_BUDGET, Flags, Range
from tensorproof.ranges.regrouping import Integers, blocks, split_block, tidy

#: Constants are moved element by element while the result is not larger than this, or not larger than they are.
FOLD_LIMIT = 1 << 22


def moved(x: Range, shape: Shape | None, grid: Grid, function: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Range:
    """Bounds and special values of all cells, rearranged by one function of an array over the grid."""
    special = function(x.special) if x.has_special else None
    low, high = x.low, x.high
    new_low = function(low)
    return Range(x.format, shape, grid, new_low, new_low if high is low else function(high), special)


def folded(function: Callable[..., npt.NDArray[Any]], size: int, *operands: Range) -> Range | None:
    """The function of the operands' arrays if all are constants and the result of `size` elements is worth it, else None."""
    arrays = [x.array for x in operands]
    if any(array is None for array in arrays):
        return None
    if size > max(FOLD_LIMIT, *(array.size for array in arrays if array is not None)):
        return None
    return Range.constant(np.asarray(function(*arrays)), operands[0].format)


def one_cell(x: Range, axes: Sequence[int] | None = None) -> Range:
    """The hull along these axes (all by default), found in the constant's own dtype; an empty axis becomes an empty cell."""
    every = tuple(range(len(x.grid))) if axes is None else tuple(axes)
    if any(x.cells[axis] == 0 for axis in every):
        cells = tuple(1 if axis in every else n for axis, n in enumerate(x.cells))
        grid = tuple(None if axis in every else cuts for axis, cuts in enumerate(x.grid))
        return Range(x.format, x.shape, grid, np.full(cells, np.inf), np.full(cells, -np.inf))
    array = x.array
    if array is None or array.dtype.kind in "OUSc" or not array.size:
        return x.smash(every)
    axes = tuple(axis for axis in every if x.cells[axis] > 1)
    if not axes:
        return x
    low = Range.constant(np.asarray(array.min(axis=axes, keepdims=True)), x.format)
    high = Range.constant(np.asarray(array.max(axis=axes, keepdims=True)), x.format)
    grid = tuple(None if axis in axes else cuts for axis, cuts in enumerate(x.grid))
    return Range(x.format, x.shape, grid, low.low, high.high)


def affordable(x: Range, budget: int = 4 * CELL_BUDGET) -> Range:
    """The same range, or one with fewer cells if a constant has too many to be copied as bounds."""
    while math.prod(x.cells) > budget:
        x = one_cell(x, (int(np.argmax(x.cells)),))
    return x


def anywhere(x: Range, shape: Shape | None) -> Range:
    """A tensor of another shape whose elements are all elements of `x`: one cell."""
    merged = one_cell(x)
    if shape is None:
        return moved(merged, None, (), lambda a: a.reshape(()))
    if 0 in shape:
        return Range.uniform(shape, x.format, 0.0, 0.0)
    return moved(merged, shape, coarse(shape), lambda a: a.reshape((1,) * len(shape)))


def replaced(sizes: Shape, axis: int, size: Size) -> Shape:
    """A shape with another size of one axis."""
    return (*sizes[:axis], size, *sizes[axis + 1 :])


def known_axis(axis: int, rank: int) -> int:
    """An axis counted from the front."""
    if not -rank <= axis < rank:
        raise NotAnalysed(f"axis {axis} of a tensor of rank {rank}")
    return axis % rank if rank else 0


def shape_of(x: Range) -> Shape:
    """The shape, some sizes perhaps known as a span only; raises UnknownShape if not even the rank is known."""
    if x.shape is None:
        raise UnknownShape("the rank is not known")
    return x.shape


def whole(value: float) -> int:
    """A bound of a 64-bit integer as an integer."""
    return int(np.clip(value, -(2.0**63), 2.0**63 - 1024))


def dimensions(operand: Range) -> tuple[Size, ...] | None:
    """The elements of a tensor that states sizes: numbers where they are known; None if not even their count is known."""
    if not operand.has_known_shape:
        return None
    exact = operand.integers()
    if exact is not None:
        return tuple(int(v) for v in exact.reshape(-1))
    low, high, _ = operand.expanded()
    result: list[Size] = []
    for a, b in zip(low.reshape(-1), high.reshape(-1)):
        result.append(whole(a) if a == b else Span(whole(a), None if b >= 2.0**62 else whole(b)))
    return tuple(result)


# -- one axis --------------------------------------------------------------------------------------------------------


def pick(x: Range, axis: int, boundaries: Integers, order: Integers | slice) -> Range:
    """Old cells along one axis in another order, with new boundaries; cells that got no element are dropped."""
    widths = np.diff(boundaries)
    keep = widths > 0
    size = int(boundaries[-1])
    new = np.concatenate([np.zeros(1, np.int64), np.cumsum(widths[keep])])
    cells = np.arange(x.cells[axis])[order][keep]
    grid = (*x.grid[:axis], tidy(new), *x.grid[axis + 1 :])
    return moved(x, replaced(shape_of(x), axis, size), grid, lambda a: np.take(a, cells, axis=axis))


def slice_axis(x: Range, axis: int, start: int, stop: int, step: int = 1) -> Range:
    """Elements start, start + step, ... before stop along an axis of known size; start and stop as NumPy normalises them."""
    size = shape_of(x)[axis]
    if not isinstance(size, int):
        raise UnknownShape("the size of an axis depends on the data")
    count = len(range(start, stop, step))
    if (start, step, count) == (0, 1, size):
        return x
    if x.array is not None:
        index = (slice(None),) * axis + (slice(start, stop if stop >= 0 else None, step),)
        return Range.constant(x.array[index], x.format)
    cuts = x.grid[axis]
    if cuts is None:
        cuts = np.array([0, size], np.int64)
    if step > 0:
        result = pick(x, axis, np.clip(-((start - cuts) // step), 0, count), slice(None))
    else:
        # Element i of the source stands at (start - i) / -step: boundaries and cells come in reverse.
        result = pick(x, axis, np.clip((start - cuts[::-1]) // -step + 1, 0, count), slice(None, None, -1))
    if x.norm is not None and result is not x:
        result.norm = sliced_norm(x.norm, axis % len(shape_of(x)), start, count, step, size)
    return result


def take(x: Range, axis: int, index: Integers) -> Range:
    """The elements at exact positions (counted from the front) along an axis; neighbours from one cell stay one cell."""
    size = shape_of(x)[axis]
    if isinstance(size, int) and len(index) and not 0 <= int(index.min()) <= int(index.max()) < size:
        raise NotAnalysed("an index lies outside its axis")
    if x.has_known_shape and x.array is not None:
        length = x.array.size // max(x.sizes[axis], 1) * len(index)
        result = folded(lambda array: np.take(array, index, axis=axis), length, x)
        if result is not None:
            return result
        x = affordable(x)
    cuts = x.grid[axis]
    shape = replaced(shape_of(x), axis, len(index))
    if len(index) == 0:
        grid = (*x.grid[:axis], np.zeros(1, np.int64), *x.grid[axis + 1 :])
        return moved(x, shape, grid, lambda a: np.take(a, index, axis=axis))
    if cuts is None:
        return moved(x, shape, x.grid, lambda a: a)
    cells = np.searchsorted(cuts, index, side="right") - 1
    starts = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(np.diff(cells)) + 1])
    grid = (*x.grid[:axis], tidy([*starts, len(index)]), *x.grid[axis + 1 :])
    return moved(x, shape, grid, lambda a: np.take(a, cells[starts], axis=axis))


def added(a: Size, b: Size) -> Size:
    """The sum of two sizes."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    highs = largest(a), largest(b)
    return Span(smallest(a) + smallest(b), None if highs[0] is None or highs[1] is None else highs[0] + highs[1])


def concatenate(parts: Sequence[Range], axis: int) -> Range:
    """Tensors joined along an axis; the boundaries of the other axes are united."""
    if any(part.shape is None for part in parts):
        result = anywhere(parts[0], None)
        for part in parts[1:]:
            result = result.join(anywhere(part, None))
        return result
    if all(part.has_known_shape for part in parts):
        total = sum(part.size for part in parts)
        result = folded(lambda *arrays: np.concatenate(arrays, axis=axis), total, *parts)
        if result is not None:
            return result
    parts = [affordable(part) for part in parts]
    filled = [part for part in parts if shape_of(part)[axis] != 0] or [parts[0]]
    if len(filled) == 1:
        return filled[0]
    sizes = list(shape_of(filled[0]))
    for other in range(len(sizes)):
        if other == axis:
            continue
        # The sizes are equal; the one that is known best counts.
        known = [shape_of(part)[other] for part in filled]
        sizes[other] = next((size for size in known if isinstance(size, int)), known[0])
        cuts: Cuts = None
        for part in filled:
            cuts = union(cuts, part.grid[other])
        filled = [part.refine(other, cuts) for part in filled]
    length: Size = 0
    for part in filled:
        length = added(length, shape_of(part)[axis])
    sizes[axis] = length
    if not isinstance(length, int):
        filled = [one_cell(part, (axis,)) for part in filled]
        new_cuts: Cuts = None
    else:
        offsets = np.cumsum([0, *(smallest(shape_of(part)[axis]) for part in filled)])
        pieces = [np.zeros(1, np.int64)]
        for part, offset in zip(filled, offsets):
            old = part.grid[axis]
            inner = np.array([smallest(shape_of(part)[axis])], np.int64) if old is None else old[1:]
            pieces.append(inner + offset)
        new_cuts = tidy(np.concatenate(pieces))
    grid = (*filled[0].grid[:axis], new_cuts, *filled[0].grid[axis + 1 :])

    def join(arrays: list[npt.NDArray[Any]], merge: np.ufunc) -> npt.NDArray[Any]:
        joined = np.concatenate(arrays, axis=axis)
        return joined if isinstance(length, int) else merge.reduce(joined, axis=axis, keepdims=True)

    low, high = join([p.low for p in filled], np.minimum), join([p.high for p in filled], np.maximum)
    special: Flags | None = None
    if any(part.has_special for part in filled):
        special = join([p.special for p in filled], np.bitwise_or)
    return Range(filled[0].format, tuple(sizes), grid, low, high, special)


# -- all axes --------------------------------------------------------------------------------------------------------


def transpose(x: Range, order: Sequence[int]) -> Range:
    """The axes in another order."""
    if x.array is not None:
        return Range.constant(x.array.transpose(order), x.format)
    shape = shape_of(x)
    result = moved(x, tuple(shape[i] for i in order), tuple(x.grid[i] for i in order), lambda a: a.transpose(order))
    result.norm = None if x.norm is None else x.norm.on([i % len(shape) for i in order].index(x.norm.axis))
    return result


def reshape(x: Range, shape: Shape) -> Range:
    """The elements in row-major order under another shape of the same size.

    Axes that both shapes share keep their cells, and so do axes that are merged or split along the cells' boundaries.
    """
    if x.array is not None and all(isinstance(size, int) for size in shape):
        if math.prod(map(smallest, shape)) != x.array.size:
            raise NotAnalysed("a reshape to another number of elements")
        return Range.constant(x.array.reshape([smallest(size) for size in shape]), x.format)
    if x.shape is None or 0 in shape or 0 in x.shape:
        return anywhere(x, shape)
    result = _reshaped(x, x.shape, shape)
    if x.norm is not None and result.norm is None and result is not x:
        # Scores of 16 bits overflow early, and singular values of the few columns of a head cost little.
        result.norm = reshaped_norm(x.norm, x.shape, shape, spectral=x.format.bits < 32)
    return result


def _reshaped(x: Range, old: Shape, shape: Shape) -> Range:
    if x.low.size == 1 and x.has_known_shape and all(isinstance(size, int) for size in shape):
        if math.prod(x.sizes) != math.prod(map(smallest, shape)):
            raise NotAnalysed("a reshape to another number of elements")
        return moved(x, shape, (None,) * len(shape), lambda a: a.reshape((1,) * len(shape)))
    front = 0
    while front < min(len(old), len(shape)) and old[front] == shape[front] and isinstance(old[front], int):
        front += 1
    back = 0
    shared = min(len(old), len(shape)) - front
    while back < shared and old[-1 - back] == shape[-1 - back] and isinstance(old[-1 - back], int):
        back += 1
    inner = range(front, len(old) - back)
    middle = shape[front : len(shape) - back]
    if not all(isinstance(size, int) for size in (*old[front : len(old) - back], *middle)):
        merged = one_cell(affordable(x), inner)
        new = (*merged.grid[:front], *([None] * len(middle)), *merged.grid[len(old) - back :])
        return moved(merged, shape, new, lambda a: a.reshape(counts(new)))
    return _regrouped(affordable(x), inner, [smallest(size) for size in middle], shape)


def _regrouped(x: Range, inner: range, target: list[int], shape: Shape) -> Range:
    """The reshape of some neighbouring axes to `target`, as independent blocks of axes."""
    old = shape_of(x)
    source = [(smallest(old[axis]), x.grid[axis]) for axis in inner if old[axis] != 1]
    parts = [split_block(*block) for block in blocks(source, [size for size in target if size != 1])]
    around = counts(x.grid[: inner.start]), counts(x.grid[inner.stop :])
    before, after = math.prod(around[0]), math.prod(around[1])
    budget = max(4 * CELL_BUDGET, math.prod(x.cells))
    while before * after * math.prod(part.index.size for part in parts) > budget:
        widest = max(range(len(parts)), key=lambda i: parts[i].index.size)
        parts[widest] = parts[widest].merged()
    cuts = iter([boundaries for part in parts for boundaries in part.cuts])
    middle = tuple(None if size == 1 else next(cuts) for size in target)
    grid = (*x.grid[: inner.start], *middle, *x.grid[inner.stop :])

    def regroup(array: npt.NDArray[Any], merge: np.ufunc) -> npt.NDArray[Any]:
        array = array.reshape(before, *(part.cells for part in parts), after)
        for axis, part in enumerate(parts, start=1):
            array = part.apply(array, axis, merge)
        return array.reshape(counts(grid))

    special = regroup(x.special, np.bitwise_or) if x.has_special else None
    return Range(x.format, shape, grid, regroup(x.low, np.minimum), regroup(x.high, np.maximum), special)
