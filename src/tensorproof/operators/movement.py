"""Data movement: tensors reshaped, permuted, joined, split and repeated. Nothing is computed, cells move whole."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed, UnknownShape
from tensorproof.operators.table import Call, operator
from tensorproof.ranges import relations
from tensorproof.ranges.affine import Form
from tensorproof.ranges.containers import Abstract
from tensorproof.ranges.grid import Cuts, Shape, Size, Span, broadcast_shapes, largest, smallest
from tensorproof.ranges.moving import (
    FOLD_LIMIT,
    affordable,
    anywhere,
    concatenate,
    dimensions,
    folded,
    known_axis,
    moved,
    one_cell,
    pick,
    replaced,
    reshape,
    shape_of,
    slice_axis,
    transpose,
)
from tensorproof.ranges.range import CELL_BUDGET, Range
from tensorproof.ranges.views import Broadcast, Reshaped, Transposed

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor


@operator("Identity", hands_on=True, elementwise=True)
def identity(op: Call, x: Abstract) -> Abstract:
    """The operand itself."""
    return x


@operator("SampleOp", domain="com.microsoft")
def sample_op(op: Call, x: Range) -> Range:
    """The operand itself."""
    return x


@identity.meaning
@sample_op.meaning
def _(run: Run, x: Any) -> Any:
    return x


#: A shape with the blocks as axes of their own, the order that these are brought into, and the shape of the result.
_Blocks = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


# -- shapes of the same elements -------------------------------------------------------------------------------------


@operator("Reshape", steered_by=(1,))
def reshape_(op: Call, x: Range, shape: Range) -> Range:
    """The same elements in row-major order under another shape."""
    wanted = dimensions(shape)
    if wanted is None:
        return anywhere(x, None)
    return reshape(x, _reshaped_sizes(x.shape, wanted, keeps_zero=bool(op.attribute("allowzero", 0))))


@reshape_.meaning
def _(run: Run, x: Tensor, shape: Tensor | None = None) -> Tensor:
    wanted = tuple(run.integers("shape", shape) or ())
    sizes = _reshaped_sizes(tuple(x.shape), wanted, keeps_zero=bool(run.attribute("allowzero", 0)))
    return x.reshape([smallest(size) for size in sizes])


def _same_elements(op: Call, result: Range, x: Range, *_: Range | None) -> Form | None:
    """The form of the same elements, in row-major order, under the result's shape."""
    return relations.viewed(op, result, x, Reshaped(result.sizes))


reshape_.affine(_same_elements)


def _reshaped_sizes(shape: Shape | None, wanted: tuple[Size, ...], *, keeps_zero: bool) -> Shape:
    """The shape that Reshape's second input asks for: 0 copies a size, -1 and what is not known take what is left."""
    remaining = None if shape is None else list(shape)
    sizes: list[Size | None] = []
    for axis, size in enumerate(wanted):
        if size == 0 and not keeps_zero:
            if remaining is None or axis >= len(remaining):
                raise UnknownShape("a size that Reshape copies is not known")
            sizes.append(remaining[axis])
            # A copied size stands on both sides and cancels, even where it is not known.
            remaining[axis] = 1
        else:
            sizes.append(size if isinstance(size, int) and size >= 0 else None)
    total: Size = Span(0, None) if remaining is None else product(remaining)
    known = math.prod(size for i, size in enumerate(sizes) if isinstance(size, int) and wanted[i] != 0)
    if 0 in sizes:
        return tuple(0 if size is None else size for size in sizes)
    high = largest(total)
    left: Size = Span(smallest(total) // known, None if high is None else high // known)
    if isinstance(total, int):
        left = total // known
    open_axes = [i for i, size in enumerate(sizes) if size is None]
    if len(open_axes) > 1:
        for i in open_axes:
            sizes[i] = _bounded(wanted[i], largest(left))
    return tuple(left if size is None else size for size in sizes)


def _bounded(size: Size, high: int | None) -> Span:
    """One of several sizes that are not known, none larger than `high`."""
    # A size that may be 0 or negative may stand for another one.
    if isinstance(size, int) or size.low <= 0:
        return Span(0, high)
    highs = [h for h in (size.high, high) if h is not None]
    return Span(size.low, min(highs) if highs else None)


def product(sizes: list[Size] | Shape) -> Size:
    """The number of elements of a shape."""
    low = math.prod(map(smallest, sizes))
    if all(isinstance(size, int) for size in sizes):
        return low
    highs = [largest(size) for size in sizes]
    if 0 in highs:
        return 0
    return Span(low, None if None in highs else math.prod(h for h in highs if h is not None))


@operator("Flatten")
def flatten(op: Call, x: Range) -> Range:
    """The same elements as a matrix: the axes before and from `axis` on are merged."""
    sizes = shape_of(x)
    axis = op.attribute("axis", 1)
    axis = axis + len(sizes) if axis < 0 else axis
    return reshape(x, (product(sizes[:axis]), product(sizes[axis:])))


@flatten.meaning
def _(run: Run, x: Tensor) -> Tensor:
    axis = run.attribute("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


flatten.affine(_same_elements)


@operator("Squeeze", steered_by=(1,))
def squeeze(op: Call, x: Range, axes: Range | None = None) -> Range:
    """The same elements without axes of size 1."""
    sizes = shape_of(x)
    given = op.integers("axes", axes)
    if given is None:
        if any(isinstance(size, Span) and size.low <= 1 for size in sizes):
            return anywhere(x, None)
        dropped = tuple(axis for axis, size in enumerate(sizes) if size == 1)
    else:
        dropped = tuple(known_axis(axis, len(sizes)) for axis in given)
    kept = [axis for axis in range(len(sizes)) if axis not in dropped]
    if x.array is not None:
        return Range.constant(x.array.squeeze(dropped), x.format)
    shape, grid = tuple(sizes[axis] for axis in kept), tuple(x.grid[axis] for axis in kept)
    return moved(x, shape, grid, lambda a: a.squeeze(dropped))


@squeeze.meaning
def _(run: Run, x: Tensor, axes: Tensor | None = None) -> Tensor:
    given = run.integers("axes", axes)
    return x.squeeze() if given is None else x.squeeze(tuple(given))


squeeze.affine(_same_elements)


@operator("Unsqueeze", steered_by=(1,))
def unsqueeze(op: Call, x: Range, axes: Range | None = None) -> Range:
    """The same elements with new axes of size 1."""
    return _with_new_axes(x, op.integers("axes", axes) or [])


unsqueeze.affine(_same_elements)


@operator("ExpandDims", domain="com.microsoft")
def expand_dims(op: Call, x: Range, axis: Range) -> Range:
    """The same elements with one new axis of size 1."""
    return _with_new_axes(x, op.integers("axis", axis) or [])


@unsqueeze.meaning
def _(run: Run, x: Tensor, axes: Tensor | None = None) -> Tensor:
    return _unsqueezed(x, run.integers("axes", axes) or [])


@expand_dims.meaning
def _(run: Run, x: Tensor, axis: Tensor) -> Tensor:
    return _unsqueezed(x, run.integers("axis", axis) or [])


def _unsqueezed(x: Tensor, axes: list[int]) -> Tensor:
    rank = x.ndim + len(axes)
    for axis in sorted(known_axis(axis, rank) for axis in axes):
        x = x.unsqueeze(axis)
    return x


def _with_new_axes(x: Range, axes: list[int]) -> Range:
    sizes = shape_of(x)
    rank = len(sizes) + len(axes)
    new = tuple(sorted(known_axis(axis, rank) for axis in axes))
    if x.array is not None:
        return Range.constant(np.expand_dims(x.array, new), x.format)
    shape: list[Size] = list(sizes)
    grid: list[Cuts] = list(x.grid)
    for axis in new:
        shape.insert(axis, 1)
        grid.insert(axis, None)
    return moved(x, tuple(shape), tuple(grid), lambda a: np.expand_dims(a, new))


@operator("Transpose")
def transpose_(op: Call, x: Range) -> Range:
    """The axes in another order."""
    return transpose(x, op.attribute("perm") or range(x.rank)[::-1])


@transpose_.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return x.permute(tuple(run.attribute("perm") or range(x.ndim)[::-1]))


@transpose_.affine
def _(op: Call, result: Range, x: Range) -> Form | None:
    order = tuple(op.attribute("perm") or range(x.rank)[::-1])
    return relations.viewed(op, result, x, Transposed(result.sizes, order))


@operator("DepthToSpace")
def depth_to_space(op: Call, x: Range) -> Range:
    """Blocks of channels moved into space."""
    split, order, result = _blocks_to_space(op, x.sizes)
    return reshape(transpose(reshape(x, split), order), result)


@depth_to_space.meaning
def _(run: Run, x: Tensor) -> Tensor:
    split, order, result = _blocks_to_space(run, tuple(x.shape))
    return x.reshape(split).permute(order).reshape(result)


def _blocks_to_space(op: Call | Run, sizes: tuple[int, ...]) -> _Blocks:
    n, c, h, w = sizes
    b = op.attribute("blocksize")
    deep = c // (b * b)
    if op.attribute("mode", "DCR") == "DCR":
        return (n, b, b, deep, h, w), (0, 3, 4, 1, 5, 2), (n, deep, h * b, w * b)
    return (n, deep, b, b, h, w), (0, 1, 4, 2, 5, 3), (n, deep, h * b, w * b)


@operator("SpaceToDepth")
def space_to_depth(op: Call, x: Range) -> Range:
    """Blocks of space moved into channels."""
    split, order, result = _space_to_blocks(op, x.sizes)
    return reshape(transpose(reshape(x, split), order), result)


@space_to_depth.meaning
def _(run: Run, x: Tensor) -> Tensor:
    split, order, result = _space_to_blocks(run, tuple(x.shape))
    return x.reshape(split).permute(order).reshape(result)


def _space_to_blocks(op: Call | Run, sizes: tuple[int, ...]) -> _Blocks:
    n, c, h, w = sizes
    b = op.attribute("blocksize")
    # ONNX SpaceToDepth-28: the place in the block is the outer part of the channel (DCR) or the inner one (CRD).
    is_outer = op.attribute("mode", "DCR") == "DCR"
    order = (0, 3, 5, 1, 2, 4) if is_outer else (0, 1, 3, 5, 2, 4)
    return (n, c, h // b, b, w // b, b), order, (n, c * b * b, h // b, w // b)


# -- joining and splitting -------------------------------------------------------------------------------------------


@operator("Concat")
def concat(op: Call, *parts: Range) -> Range:
    """Tensors joined along an axis."""
    ranks = [len(part.shape) for part in parts if part.shape is not None]
    return concatenate(parts, known_axis(op.attribute("axis", 1), ranks[0]) if ranks else 0)


@concat.meaning
def _(run: Run, *parts: Tensor) -> Tensor:
    return run.torch.cat(parts, run.attribute("axis", 1))


@concat.affine
def _(op: Call, result: Range, *parts: Range) -> Form | None:
    return relations.joined(op, result, parts, known_axis(op.attribute("axis", 1), result.rank))


@operator("Split", steered_by=(1,))
def split(op: Call, x: Range, sizes: Range | None = None) -> tuple[Range, ...]:
    """Consecutive slices along an axis."""
    axis = known_axis(op.attribute("axis", 0), x.rank)
    size = shape_of(x)[axis]
    lengths: list[Size]
    if sizes is not None:
        wanted = dimensions(sizes)
        if wanted is None:
            raise NotAnalysed("the number of parts is not known")
        lengths = list(wanted)
    elif op.attribute("split") is not None:
        lengths = list(op.attribute("split"))
    else:
        lengths = _equal_lengths(size, op.attribute("num_outputs") or op.outputs)
    if not isinstance(size, int) or not all(isinstance(length, int) for length in lengths):
        whole = one_cell(affordable(x), (axis,))
        return tuple(moved(whole, replaced(shape_of(x), axis, length), whole.grid, lambda a: a) for length in lengths)
    ends = np.cumsum([smallest(length) for length in lengths])
    return tuple(slice_axis(x, axis, int(end) - smallest(length), int(end)) for end, length in zip(ends, lengths))


@split.affine
def _(op: Call, results: tuple[Range, ...], x: Range, sizes: Range | None = None) -> tuple[Form | None, ...]:
    return relations.parts(op, results, x, known_axis(op.attribute("axis", 0), x.rank))


@split.meaning
def _(run: Run, x: Tensor, sizes: Tensor | None = None) -> tuple[Tensor, ...]:
    axis = known_axis(run.attribute("axis", 0), x.ndim)
    lengths = run.integers("split", sizes)
    if lengths is None:
        equal = _equal_lengths(x.shape[axis], run.attribute("num_outputs") or run.outputs)
        lengths = [smallest(length) for length in equal]
    return x.split(lengths, axis)


def _equal_lengths(size: Size, parts: int) -> list[Size]:
    """Equal parts of an axis, the last one smaller if they do not divide it (ONNX Split-18)."""
    if isinstance(size, int):
        length = -(-size // parts)
        return [*[length] * (parts - 1), size - length * (parts - 1)]
    longest = None if size.high is None else -(-size.high // parts)
    return [*[Span(size.low // parts, longest)] * (parts - 1), Span(0, longest)]


# -- repetition ------------------------------------------------------------------------------------------------------


@operator("Tile", steered_by=(1,))
def tile(op: Call, x: Range, repeats: Range) -> Range:
    """The tensor repeated along its axes."""
    times = dimensions(repeats)
    if times is None:
        raise NotAnalysed("the number of repetitions is not known")
    sizes = tuple(product([size, count]) for size, count in zip(shape_of(x), times))
    if all(isinstance(size, int) for size in (*sizes, *times)):
        counts = [smallest(count) for count in times]
        result = folded(lambda array: np.tile(array, counts), math.prod(map(smallest, sizes)), x)
        if result is not None:
            return result
    x = affordable(x)
    for axis, count in enumerate(times):
        x = _repeated(x, axis, count, sizes[axis])
    return x


@tile.meaning
def _(run: Run, x: Tensor, repeats: Tensor) -> Tensor:
    return x.repeat(run.integers("repeats", repeats) or [])


def _repeated(x: Range, axis: int, count: Size, size: Size) -> Range:
    old = shape_of(x)[axis]
    if count == 1 or old == 0:
        return x
    cells = math.prod(x.cells)
    if not isinstance(count, int) or not isinstance(size, int) or cells * count > 4 * CELL_BUDGET:
        x = one_cell(x, (axis,))
    shape = replaced(shape_of(x), axis, size)
    cuts = x.grid[axis]
    if size == 0:
        return pick(x, axis, np.zeros(x.cells[axis] + 1, np.int64), slice(None))
    if cuts is None:
        return moved(x, shape, x.grid, lambda a: a)
    starts = np.arange(smallest(count), dtype=np.int64)[:, None] * cuts[-1] + cuts[:-1]
    order = np.tile(np.arange(len(cuts) - 1), smallest(count))
    return pick(x, axis, np.append(starts.reshape(-1), smallest(size)), order)


@operator("Expand", steered_by=(1,))
def expand(op: Call, x: Range, shape: Range) -> Range:
    """The tensor broadcast to a shape."""
    wanted = dimensions(shape)
    if wanted is None or x.shape is None:
        return anywhere(x, None)
    return broadcast(x, tuple(size if isinstance(size, int) else Span(max(size.low, 0), size.high) for size in wanted))


@expand.meaning
def _(run: Run, x: Tensor, shape: Tensor) -> Tensor:
    wanted = run.integers("shape", shape) or []
    return x.expand(run.torch.broadcast_shapes(x.shape, tuple(wanted)))


@expand.affine
def _(op: Call, result: Range, x: Range, shape: Range) -> Form | None:
    return relations.viewed(op, result, x, Broadcast(result.sizes))


def broadcast(x: Range, shape: Shape) -> Range:
    """The tensor repeated to the shape that it and `shape` broadcast to; no cell is added."""
    old = shape_of(x)
    new = broadcast_shapes(old, shape)
    if all(isinstance(size, int) for size in new):
        numbers = [smallest(size) for size in new]
        if math.prod(numbers) <= FOLD_LIMIT:
            result = folded(lambda array: np.broadcast_to(array, numbers), math.prod(numbers), x)
            if result is not None:
                return result
    x = affordable(x)
    offset = len(new) - len(old)
    padded: Shape = (*([1] * offset), *old)
    # An axis that gets no element loses its cell; one whose size is not known keeps a single cell.
    emptied = tuple(slice(0, 0) if size == 0 else slice(None) for size in new)
    grid: list[Cuts] = [None] * offset
    grid.extend(x.grid)
    for axis, size in enumerate(new):
        if size == 0:
            grid[axis] = np.zeros(1, np.int64)
        elif padded[axis] != size:
            grid[axis] = None

    def move(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return array.reshape((1,) * offset + array.shape)[emptied]

    return moved(x, new, tuple(grid), move)
