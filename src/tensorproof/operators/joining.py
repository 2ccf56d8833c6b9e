"""Tensors joined, split and repeated. Nothing is computed, cells move whole."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.formats import INT64
from tensorproof.graph import ABSENT
from tensorproof.operators.movement import product
from tensorproof.operators.table import Call, operator
from tensorproof.ranges import relations
from tensorproof.ranges.affine import Form
from tensorproof.ranges.grid import Cuts, Shape, Size, Span, broadcast_shapes, smallest
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
    shape_of,
    slice_axis,
)
from tensorproof.ranges.range import CELL_BUDGET, Range
from tensorproof.ranges.views import Broadcast

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall
    from tensorproof.frontends.calls import Handle
    from tensorproof.frontends.jax_call import JaxCall
    from tensorproof.frontends.tensorflow_call import TensorflowCall


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


@concat.aten("cat", "concat", "concatenate")
def _(call: AtenCall) -> int:
    """Tensors joined; one of a single axis and no element may stand among others of any rank."""
    handles: list[Handle] = call.arguments["tensors"]
    format, rank = call.result.format, len(call.result.shape or ())
    parts = [call.value(x, format) for x in handles if x.shape != (0,)] or [call.value(handles[0], format)]
    return call.moved("Concat", *parts, axis=call.axis("dim", rank)) if len(parts) > 1 else parts[0]


@concat.aten("stack")
def _(call: AtenCall) -> int:
    axis = call.axis("dim", len(call.result.shape or ()))
    new = call.integers([axis])
    parts = [call.moved("Unsqueeze", part, new) for part in call.tensors("tensors", call.result.format)]
    return call.moved("Concat", *parts, axis=axis)


@concat.tensorflow("Concat", "ConcatV2")
def _(call: TensorflowCall) -> int:
    """Tensors joined; version 1 names the axis before them, version 2 behind them."""
    numbers = call.all_operands()
    place = 0 if call.name == "Concat" else len(numbers) - 1
    (axis,) = call.integers_of(place)
    parts = [number for index, number in enumerate(numbers) if index != place]
    return call.moved("Concat", *parts, axis=axis) if len(parts) > 1 else call.moved("Identity", parts[0])


@concat.tensorflow("Pack")
def _(call: TensorflowCall) -> int:
    return _stacked(call, int(call.attribute("axis", 0)))


@concat.jax("stack")
def _(call: JaxCall) -> int:
    return _stacked(call, int(call["axis"]))


def _stacked(call: TensorflowCall | JaxCall, axis: int) -> int:
    """Tensors of one shape along a new axis."""
    new = call.integers([axis])
    parts = [call.moved("Unsqueeze", number, new) for number in call.all_operands()]
    return call.moved("Concat", *parts, axis=axis) if len(parts) > 1 else parts[0]


@concat.jax("concatenate")
def _(call: JaxCall) -> int:
    parts = call.all_operands()
    axis = int(call["dimension"])
    return call.moved("Concat", *parts, axis=axis) if len(parts) > 1 else call.moved("Identity", parts[0])


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


@split.aten(
    *("split.Tensor", "split.sizes", "split", "split_with_sizes", "split_copy.Tensor", "split_with_sizes_copy", "chunk"),
    *("unsafe_split.Tensor", "unsafe_split_with_sizes", "unsafe_chunk", "tensor_split.sections", "tensor_split.indices"),
)
def _(call: AtenCall) -> tuple[int, ...]:
    """As many parts as the trace made, and of the sizes that it found."""
    x, axis = call.handle("self"), call.axis("dim", call.rank("self"))
    lengths = [None if part.shape is None else part.shape[axis] for part in call.results]
    if any(not isinstance(length, int) for length in lengths) or not isinstance((x.shape or ())[axis], int):
        return _parts_of_open_axis(call, x, axis)
    if len(lengths) == 1:
        return (x.number,)
    formats = (x.format,) * len(lengths)
    return call.emit("Split", x.number, call.integers(lengths), axis=axis, outputs=len(lengths), formats=formats)


@split.tensorflow("Split")
def _(call: TensorflowCall) -> tuple[int, ...]:
    """Equal parts."""
    (axis,) = call.integers_of(0)
    return _parts(call, call.operand(1), axis, int(call.attribute("num_split")), ABSENT)


@split.tensorflow("SplitV")
def _(call: TensorflowCall) -> tuple[int, ...]:
    """Parts of the given sizes; one of them may be -1, for what is left over."""
    (axis,) = call.integers_of(2)
    count = int(call.attribute("num_split"))
    if not call.is_known(1):
        return _parts(call, call.operand(0), axis, count, call.as_integers(1))
    sizes: list[int | Handle] = [*call.integers_of(1)]
    if -1 in sizes:
        whole = call.sizes(0)[axis]
        given = sum(size for size in sizes if isinstance(size, int)) + 1
        if not isinstance(whole, int):
            left = call.emit("Sub", whole.number, call.constant(np.array(given, np.int64)), formats=(INT64,))
            sizes[sizes.index(-1)] = replace(whole, number=left)
        else:
            sizes[sizes.index(-1)] = whole - given
    return _parts(call, call.operand(0), axis, count, call.integers(sizes))


@split.jax("split")
def _(call: JaxCall) -> tuple[int, ...]:
    sizes = [int(size) for size in call["sizes"]]
    return _parts(call, call.operand(0), int(call["axis"]), len(sizes), call.integers(sizes))


def _parts(call: TensorflowCall | JaxCall, x: int, axis: int, count: int, sizes: int) -> tuple[int, ...]:
    """Consecutive slices; a single one is the tensor itself."""
    if count == 1:
        return (call.moved("Identity", x),)
    format = call.format_of(x)
    made = call.emit(
        "Split", x, sizes, axis=axis, outputs=count, formats=(format,) * count, num_outputs=count if sizes == ABSENT else None
    )
    return tuple(made)


@split.tensorflow("Unpack")
def _(call: TensorflowCall) -> tuple[int, ...]:
    return _unstacked(call, int(call.attribute("axis", 0)), int(call.attribute("num")))


@split.jax("unstack")
def _(call: JaxCall) -> tuple[int, ...]:
    axis = int(call["axis"])
    return _unstacked(call, axis, call.shape(0)[axis])


def _unstacked(call: TensorflowCall | JaxCall, axis: int, count: int) -> tuple[int, ...]:
    """The slices along an axis, without the axis."""
    places = (call.constant(np.array(index, np.int64)) for index in range(count))
    return tuple(call.moved("Gather", call.operand(0), place, axis=axis) for place in places)


def _parts_of_open_axis(call: AtenCall, x: Handle, axis: int) -> tuple[int, ...]:
    """Parts of an axis whose size is not fixed: all have one length but the last, or each has its own."""
    given = next((call.arguments[name] for name in ("split_size", "split_sizes") if name in call.arguments), None)
    if isinstance(given, int):
        ends = [given * (index + 1) for index in range(len(call.results))]
        bounds = [*zip([0, *ends], ends)]
        return tuple(
            call.moved("Slice", x.number, call.integers([low]), call.integers([high]), call.integers([axis]))
            for low, high in bounds
        )
    if not isinstance(given, list) or len(given) < 2:
        raise NotAnalysed(f"{call.name} splits an axis whose size is not fixed")
    return call.emit("Split", x.number, call.integers(given), axis=axis, outputs=len(given), formats=(x.format,) * len(given))


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


@tile.aten("repeat", "tile")
def _(call: AtenCall) -> int:
    x, rank = call.tensor("self"), call.rank("self")
    times: list[Any] = list(call.arguments["repeats" if "repeats" in call.arguments else "dims"])
    times = [1] * (rank - len(times)) + times
    if len(times) > rank:
        x = call.moved("Unsqueeze", x, call.integers(range(len(times) - rank)))
    return call.moved("Tile", x, call.integers(times))


@tile.tensorflow("Tile")
def _(call: TensorflowCall) -> int:
    return call.moved("Tile", call.operand(0), call.as_integers(1))


@tile.jax("tile")
def _(call: JaxCall) -> int:
    return call.moved("Tile", call.operand(0), call.integers([int(count) for count in call["reps"]]))


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


@expand.aten("expand", "expand_copy", "broadcast_to")
def _(call: AtenCall) -> int:
    """The tensor broadcast; a size of -1 stays as it is, which ONNX writes as 1."""
    sizes = [1 if asked == -1 else known for asked, known in zip(call.arguments["size"], call.traced(call.arguments["size"]))]
    return call.moved("Expand", call.tensor("self"), call.integers(sizes))


@expand.aten("expand_as")
def _(call: AtenCall) -> int:
    return call.moved("Expand", call.tensor("self"), call.shape_of(call.tensor("other")))


@expand.aten("repeat_interleave.self_int")
def _(call: AtenCall) -> int:
    """Every slice several times in a row: a new axis after the one that is repeated, merged into it."""
    x, times = call.handle("self"), call.arguments["repeats"]
    rank = call.rank("self")
    sizes: list[Any] = [call.size(x, axis) for axis in range(rank)]
    if not call.is_given("dim"):
        number, axis, outer, inner = call.reshaped(x.number, [-1]), 0, list[Any](), list[Any]()
    else:
        axis = call.axis("dim", rank)
        number, outer, inner = x.number, sizes[:axis], sizes[axis + 1 :]
    number = call.moved("Unsqueeze", number, call.integers([axis + 1]))
    repeated = call.moved("Expand", number, call.integers([*[1] * (axis + 1), times, *[1] * len(inner)]))
    return call.reshaped(repeated, call.traced([*outer, -1, *inner]))


@expand.aten("meshgrid", "meshgrid.indexing")
def _(call: AtenCall) -> tuple[int, ...]:
    """Each vector along an axis of its own, repeated along the others."""
    vectors: list[Handle] = call.arguments["tensors"]
    count = len(vectors)
    places = list(range(count))
    if call.get("indexing", "ij") == "xy" and count > 1:
        places[0], places[1] = 1, 0
    lengths: list[Any] = [1] * count
    for vector, place in zip(vectors, places):
        lengths[place] = call.size(vector, 0) if vector.shape else 1
    shape = call.integers(lengths)
    return tuple(
        call.moved("Expand", call.reshaped(vector.number, [-1 if axis == place else 1 for axis in range(count)]), shape)
        for vector, place in zip(vectors, places)
    )


@expand.tensorflow("BroadcastTo")
def _(call: TensorflowCall) -> int:
    return call.moved("Expand", call.operand(0), call.as_integers(1))


@expand.jax("broadcast_in_dim")
def _(call: JaxCall) -> int:
    """The axes of the operand at their places among those of the result, size 1 elsewhere; then repeated."""
    if len(call) > 1:
        raise NotAnalysed("a shape that is computed")
    places = [int(axis) for axis in call["broadcast_dimensions"]]
    sizes, shape = call.shape(0), call.result_shape
    spread = [1] * len(shape)
    for place, size in zip(places, sizes):
        spread[place] = size
    x = call.operand(0) if tuple(spread) == sizes else call.reshaped(call.operand(0), spread)
    if tuple(spread) == shape:
        return x if x != call.operand(0) else call.moved("Identity", x)
    return call.moved("Expand", x, call.integers(shape))


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
