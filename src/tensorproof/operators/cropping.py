"""Parts of a tensor and its surroundings: slices, padding, triangles, reversed sequences, sliding windows."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.formats import FLOAT32, INT64, STRING
from tensorproof.graph import ABSENT
from tensorproof.operators.table import Call, operator
from tensorproof.ranges import relations
from tensorproof.ranges.affine import Form
from tensorproof.ranges.grid import Shape, Size, Span, counts, largest, smallest
from tensorproof.ranges.moving import (
    Integers,
    added,
    affordable,
    concatenate,
    dimensions,
    folded,
    known_axis,
    moved,
    one_cell,
    replaced,
    reshape,
    shape_of,
    slice_axis,
    take,
    tidy,
    transpose,
)
from tensorproof.ranges.range import CELL_BUDGET, Range
from tensorproof.ranges.views import Map, Sliced, sliced_shape

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall
    from tensorproof.frontends.jax_call import JaxCall
    from tensorproof.frontends.tensorflow_call import TensorflowCall

#: Sequences whose length can be more different numbers than this are merged along time.
_MOST_LENGTHS = 64

#: Stands for an axis without end where its largest size is not known.
_FAR = 2**60


# -- slices ----------------------------------------------------------------------------------------------------------


@operator("Slice", steered_by=(1, 2, 3, 4))
def slice_(
    op: Call,
    x: Range,
    starts: Range | None = None,
    ends: Range | None = None,
    axes: Range | None = None,
    steps: Range | None = None,
) -> Range:
    """Every step-th element between two positions along some axes."""
    first = _bounds(op, "starts", starts)
    last = _bounds(op, "ends", ends)
    chosen = op.integers("axes", axes) or range(len(first))
    strides = op.integers("steps", steps) or [1] * len(first)
    for start, end, axis, step in zip(first, last, chosen, strides):
        x = _sliced(x, known_axis(axis, x.rank), start, end, step)
    return x


@slice_.meaning
def _(run: Run, x: Tensor, *limits: Tensor | None) -> Tensor:
    starts, ends, axes, steps = (*limits, None, None, None, None)[:4]
    first, last = run.integers("starts", starts) or [], run.integers("ends", ends) or []
    chosen = run.integers("axes", axes) or range(len(first))
    strides = run.integers("steps", steps) or [1] * len(first)
    for start, end, axis, step in zip(first, last, chosen, strides):
        axis = known_axis(axis, x.ndim)
        x = _every_step(x, axis, range(*slice(start, end, step).indices(x.shape[axis])))
    return x


def _every_step(x: Tensor, axis: int, positions: range) -> Tensor:
    """The elements at regular positions along an axis, in either direction."""
    if not positions:
        return x.narrow(axis, 0, 0)
    if positions.step < 0:
        return _every_step(x, axis, positions[::-1]).flip(axis)
    return x[(slice(None),) * axis + (slice(positions.start, positions.stop, positions.step),)]


@slice_.affine
def _(op: Call, result: Range, x: Range, *limits: Range | None) -> Form | None:
    starts, ends, axes, steps = (*limits, None, None, None, None)[:4]
    first, last = _bounds(op, "starts", starts), _bounds(op, "ends", ends)
    chosen = op.integers("axes", axes) or range(len(first))
    strides = op.integers("steps", steps) or [1] * len(first)
    shape, maps = x.sizes, list[Map]()
    for start, end, axis, step in zip(first, last, chosen, strides):
        if not (isinstance(start, int) and isinstance(end, int)):
            return None
        axis = known_axis(axis, x.rank)
        begin, stop, _ = slice(start, end, step).indices(shape[axis])
        shape = sliced_shape(shape, axis, len(range(begin, stop, step)))
        maps.append(Sliced(shape, axis, begin, step))
    return relations.viewed(op, result, x, *maps)


def _bounds(op: Call, name: str, operand: Range | None) -> tuple[Size, ...]:
    """Positions as numbers or, where they depend on the data, as spans."""
    values = op.attribute(name) if operand is None else dimensions(operand)
    if values is None:
        raise NotAnalysed(f"the number of {name} is not known")
    return tuple(values)


def _sliced(x: Range, axis: int, start: Size, end: Size, step: int) -> Range:
    size = shape_of(x)[axis]
    if isinstance(size, int) and isinstance(start, int) and isinstance(end, int):
        return slice_axis(x, axis, *slice(start, end, step).indices(size))
    if isinstance(size, int):
        return _vaguely_sliced(x, axis, size, _ends(start), _ends(end), step)
    x = one_cell(x, (axis,))
    return moved(x, replaced(shape_of(x), axis, _vague_length(size, start, end, step)), x.grid, lambda a: a)


def _ends(position: Size) -> tuple[int, int]:
    if isinstance(position, int):
        return position, position
    return position.low, _FAR if position.high is None else position.high


def _vague_length(size: Span, start: Size, end: Size, step: int) -> Size:
    """The length of a slice of an axis whose size is not known."""
    longest = largest(size)
    if not (isinstance(start, int) and isinstance(end, int)):
        return Span(0, longest)
    high = _FAR if longest is None else longest
    if (start < 0) != (end < 0):
        # One end counts from the back: the length does not grow with the size.
        backwards = step < 0 and start == -1 and end < -_FAR
        if not backwards and not (start == 0 and step > 0):
            return Span(0, longest)
    lengths = [len(range(*slice(start, end, step).indices(n))) for n in (size.low, high)]
    return Span(lengths[0], lengths[1] if lengths[1] < _FAR // max(abs(step), 1) // 2 else None)


def _vaguely_sliced(x: Range, axis: int, size: int, start: tuple[int, int], end: tuple[int, int], step: int) -> Range:
    """A slice whose ends are known as intervals only: the hull of all elements that it can reach."""

    def normalised(position: int) -> int:
        # As Python does: negative positions count from the back, then the ends are clamped.
        position = position + size if position < 0 else position
        return min(max(position, 0), size) if step > 0 else min(max(position, -1), size - 1)

    def interval(low: int, high: int) -> tuple[int, int]:
        # Positions on both sides of zero reach from the back of the axis to its front.
        if low < 0 <= high:
            return (0, size) if step > 0 else (-1, size - 1)
        return normalised(low), normalised(high)

    first, last = interval(*start), interval(*end)
    if step > 0:
        longest, shortest = len(range(first[0], last[1], step)), len(range(first[1], last[0], step))
        reach = first[0], max(last[1], first[0])
    else:
        longest, shortest = len(range(first[1], last[0], step)), len(range(first[0], last[1], step))
        reach = last[0] + 1, max(first[1] + 1, last[0] + 1)
    part = one_cell(affordable(slice_axis(x, axis, *reach)), (axis,))
    length: Size = longest if shortest == longest else Span(shortest, longest)
    shape = replaced(shape_of(x), axis, length)
    if longest == 0:
        return slice_axis(x, axis, 0, 0)
    return moved(part, shape, part.grid, lambda a: a)


#: What torch writes for an end that is not given.
END = 2**63 - 1


def sliced(call: AtenCall, x: int, axis: int, start: Any, end: Any, step: int = 1) -> int:
    """Part of an axis, between positions that are known or computed; the value itself where that is all of it."""
    if start in (0, None) and end in (END, None) and step == 1:
        return x
    bounds = (0 if start is None else start, END if end is None else end)
    return call.moved("Slice", x, *(call.integers([item]) for item in (*bounds, axis, step)))


@slice_.aten("slice.Tensor", "slice_copy.Tensor")
def _(call: AtenCall) -> int:
    x, axis = call.handle("self"), call.axis("dim", call.rank("self"))
    start, end, step = (call.arguments[name] for name in ("start", "end", "step"))
    size = (x.shape or ())[axis]
    if isinstance(size, int) and isinstance(end, int) and end >= size:
        end = None
    return sliced(call, x.number, axis, start, end, step)


@slice_.aten("narrow", "narrow_copy")
def _(call: AtenCall) -> int:
    start, length = call["start"], call["length"]
    end = start + length
    return sliced(call, call.tensor("self"), call.axis("dim", call.rank("self")), start, None if start < 0 <= end else end)


@slice_.aten("flip")
def _(call: AtenCall) -> int:
    """Axes read from their end."""
    axes = call.axes("dims", call.rank("self"))
    count = len(axes)
    ends = (call.integers(items) for items in ([-1] * count, [-END] * count, axes, [-1] * count))
    return call.moved("Slice", call.tensor("self"), *ends) if axes else call.tensor("self")


@slice_.aten("roll")
def _(call: AtenCall) -> int:
    """The last elements of an axis before the first ones; without axes, of all elements in a row."""
    x, rank = call.handle("self"), call.rank("self")
    shifts = list(call["shifts"])
    if call["dims"]:
        return _rolled(call, x.number, x.shape or (), dict(zip(call.axes("dims", rank), shifts)))
    flat = _rolled(call, call.reshaped(x.number, [-1]), (math.prod(_fixed(x.shape)),), {0: shifts[0]})
    return call.reshaped(flat, [call.size(x, axis) for axis in range(rank)])


def _fixed(shape: Sequence[Any] | None) -> list[int]:
    if shape is None or not all(isinstance(size, int) for size in shape):
        raise NotAnalysed("a size is not fixed")
    return [int(size) for size in shape]


def _rolled(call: AtenCall, x: int, shape: Sequence[Any], shifts: Mapping[int, int]) -> int:
    for axis, given in shifts.items():
        size = shape[axis]
        if size == 0:
            continue
        # Where the size is not fixed, it is taken to be no smaller than the shift.
        shift = given % size if isinstance(size, int) else given
        if shift:
            parts = sliced(call, x, axis, -shift, None), sliced(call, x, axis, 0, -shift)
            x = call.moved("Concat", *parts, axis=axis)
    return x


@operator("UnfoldTensor", domain="com.microsoft")
def unfold_tensor(op: Call, x: Range) -> Range:
    """All windows of one size along an axis, as a new last axis."""
    axis = known_axis(op.attribute("dim", -1), x.rank)
    length, step = op.attribute("size"), op.attribute("step", 1)
    windows = (x.sizes[axis] - length) // step + 1
    index = np.arange(windows)[:, None] * step + np.arange(length)
    if x.cells[axis] == 1:
        unfolded = moved(x, replaced(x.sizes, axis, index.size), x.grid, lambda a: a)
    else:
        unfolded = take(x, axis, index.reshape(-1))
    sizes = x.sizes
    split = reshape(unfolded, (*sizes[:axis], windows, length, *sizes[axis + 1 :]))
    order = [i for i in range(len(sizes) + 1) if i != axis + 1]
    return transpose(split, [*order, axis + 1])


@unfold_tensor.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return x.unfold(run.attribute("dim", -1), run.attribute("size"), run.attribute("step", 1))


@unfold_tensor.aten("unfold")
def _(call: AtenCall) -> int:
    if call.rank("self") == 0:
        raise NotAnalysed("a tensor without axes has no windows")
    axis = call.axis("dimension", call.rank("self"))
    format = call.result.format
    return call.emit(
        "UnfoldTensor",
        call.tensor("self"),
        domain="com.microsoft",
        formats=(format,),
        dim=axis,
        size=call["size"],
        step=call["step"],
    )


# -- padding ---------------------------------------------------------------------------------------------------------


@operator("Pad", steered_by=(1, 3))
def pad(op: Call, x: Range, pads: Range | None = None, value: Range | None = None, axes: Range | None = None) -> Range:
    """The tensor with a border of a constant, or of its own elements (reflect, edge, wrap); negative widths crop."""
    if value is None:
        value = _filler(x, op.attribute("value", 0.0) if x.format.is_float else 0)
    widths = _bounds(op, "pads", pads)
    chosen = op.integers("axes", axes)
    return _padded(x, widths, value, op.attribute("mode", "constant"), chosen)


@operator("Pad", domain="com.microsoft")
def contrib_pad(op: Call, x: Range, pads: Range, value: Range | None = None) -> Range:
    """The tensor with a border of a constant, or of its own elements (reflect, edge); negative widths crop."""
    value = _filler(x, 0) if value is None else value
    return _padded(x, _bounds(op, "pads", pads), value, op.attribute("mode", "constant"), None)


@pad.meaning
@contrib_pad.meaning
def _(run: Run, x: Tensor, pads: Tensor | None = None, value: Tensor | None = None, axes: Tensor | None = None) -> Tensor:
    if value is None:
        value = run.torch.tensor(run.attribute("value", 0.0)).to(x.dtype)
    widths = run.integers("pads", pads) or []
    given = run.integers("axes", axes)
    chosen = range(x.ndim) if given is None else given
    borders = [(known_axis(axis, x.ndim), widths[i], widths[i + len(chosen)]) for i, axis in enumerate(chosen)]
    mode = run.attribute("mode", "constant")
    return _in_frame(run, x, borders, value) if mode == "constant" else _with_own_border(run, x, borders, mode)


#: What ONNX calls torch's ways to continue a tensor beyond its border.
_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@pad.aten(
    "pad", "constant_pad_nd", "_pad_circular", *(f"{kind}_pad{n}d" for kind in ("reflection", "replication") for n in (1, 2, 3))
)
def _(call: AtenCall) -> int:
    """Torch counts the axes from the last one on, and names the widths before and after each."""
    widths = call.arguments["pad" if "pad" in call.arguments else "padding"]
    rank, count = call.rank("self"), len(widths) // 2
    axes = [rank - 1 - index for index in range(count)]
    pads = call.integers([*widths[0::2], *widths[1::2]])
    mode = _mode(call)
    value = call.value(call.get("value", 0), call.result.format) if mode == "constant" else ABSENT
    return call.moved("Pad", call.tensor("self"), pads, value, call.integers(axes), mode=mode)


def _mode(call: AtenCall) -> str:
    family, _, overload = call.name.partition("_pad")
    if family in ("reflection", "replication"):
        return _MODES[{"reflection": "reflect", "replication": "replicate"}[family]]
    return "wrap" if overload.startswith("_circular") else _MODES[call.get("mode", "constant")]


@pad.tensorflow("Pad", "PadV2")
def _(call: TensorflowCall) -> int:
    """Zeros, or another number, before and behind each axis; the widths of an axis stand in one row."""
    value = call.operand(2) if call.name == "PadV2" else ABSENT
    return call.moved("Pad", call.operand(0), _widths(call), value)


def _widths(call: TensorflowCall) -> int:
    """Rows of widths before and behind each axis in ONNX's order: first all before, then all behind."""
    if call.is_known(1):
        return call.integers([int(width) for width in call.known(1).T.reshape(-1)])
    turned = call.moved("Transpose", call.operand(1, INT64), perm=[1, 0])
    return call.reshaped(turned, [-1])


@pad.tensorflow("MirrorPad")
def _(call: TensorflowCall) -> int:
    """The tensor continued by its mirror image, with its last element (SYMMETRIC) or without."""
    if str(call.attribute("mode")) == "REFLECT":
        return call.moved("Pad", call.operand(0), _widths(call), mode="reflect")
    x = call.operand(0)
    for axis, index in enumerate(_mirrored(call, call.sizes(0))):
        if index is not None:
            x = call.moved("Gather", x, call.constant(index), axis=axis)
    return call.moved("Identity", x) if x == call.operand(0) else x


@pad.tensorflow("MirrorPadGrad")
def _(call: TensorflowCall) -> int:
    """Every element gets the sum of the gradients of its images."""
    x, sizes = call.operand(0), call.sizes(0)
    widths = [(int(before), int(behind)) for before, behind in call.known(1)]
    inner = [size - before - behind if isinstance(size, int) else size for size, (before, behind) in zip(sizes, widths)]
    for axis, index in enumerate(_mirrored(call, inner)):
        if index is None:
            continue
        sizes[axis] = inner[axis]
        nothing = call.emit(
            "ConstantOfShape", call.integers(sizes), value=np.zeros(1, call.format().dtype), formats=(call.format(),)
        )
        along = call.constant(index.reshape([-1 if other == axis else 1 for other in range(len(sizes))]))
        places = call.moved("Expand", along, call.shape_of(x))
        x = call.moved("ScatterElements", nothing, places, x, axis=axis, reduction="add")
    return call.moved("Identity", x) if x == call.operand(0) else x


def _mirrored(call: TensorflowCall, sizes: Sequence[Any]) -> list[Integers | None]:
    """Where the elements of each continued axis come from; None for an axis that is not continued."""
    mode: Any = "symmetric" if str(call.attribute("mode")) == "SYMMETRIC" else "reflect"
    found: list[Integers | None] = []
    for size, (before, behind) in zip(sizes, call.known(1)):
        if before == behind == 0:
            found.append(None)
        elif isinstance(size, int):
            found.append(np.pad(np.arange(size, dtype=np.int64), (int(before), int(behind)), mode=mode))
        else:
            raise NotAnalysed("an axis whose size is not fixed is continued by its mirror image")
    return found


@pad.jax("pad")
def _(call: JaxCall) -> int:
    """A border, or a gap after each element, of one number; negative widths crop."""
    borders = [(int(before), int(behind), int(gap)) for before, behind, gap in call["padding_config"]]
    x, value, sizes = call.operand(0), call.operand(1), list(call.shape(0))
    for axis, (_, _, gap) in enumerate(borders):
        if gap and sizes[axis] > 1:
            # The number stands behind the elements, at position `size`.
            source = np.full((sizes[axis] - 1) * (gap + 1) + 1, sizes[axis], np.int64)
            source[:: gap + 1] = np.arange(sizes[axis])
            framed = call.moved("Pad", x, call.integers([0, 1]), value, call.integers([axis]))
            x = call.moved("Gather", framed, call.constant(source), axis=axis)
    widths = [*(before for before, _, _ in borders), *(behind for _, behind, _ in borders)]
    if any(widths):
        x = call.moved("Pad", x, call.integers(widths), value)
    return call.moved("Identity", x) if x == call.operand(0) else x


def _in_frame(run: Run, x: Tensor, borders: Sequence[tuple[int, int, int]], value: Tensor) -> Tensor:
    """The tensor inside a value; a border is an axis with its widths before and after, negative ones crop."""
    flat = [0] * (2 * x.ndim)
    for axis, before, after in borders:
        # Torch counts the axes from the last one on.
        place = 2 * (x.ndim - 1 - axis)
        flat[place : place + 2] = before, after
    frame = run.torch.nn.functional.pad
    inside = frame(run.torch.ones(x.shape, dtype=run.torch.bool), flat)
    return run.torch.where(inside, frame(x, flat), value.reshape(()))


def _with_own_border(run: Run, x: Tensor, borders: Sequence[tuple[int, int, int]], mode: Any) -> Tensor:
    """The tensor continued by its own elements (those that are left, where a negative width crops)."""
    for axis, before, after in borders:
        kept = np.arange(x.shape[axis])[max(-before, 0) : x.shape[axis] - max(-after, 0)]
        index = np.pad(kept, (max(before, 0), max(after, 0)), mode=mode)
        x = x.index_select(axis, run.torch.from_numpy(index))
    return x


def _filler(x: Range, number: float) -> Range:
    if x.format is STRING:
        return Range.constant(np.array("", object), STRING)
    return Range.constant(np.array(number, FLOAT32.dtype).astype(x.format.dtype), x.format)


def _padded(x: Range, widths: tuple[Size, ...], value: Range, mode: str, chosen: list[int] | None) -> Range:
    axes = list(range(x.rank)) if chosen is None else [known_axis(axis, x.rank) for axis in chosen]
    for i, axis in enumerate(axes):
        before, after = widths[i], widths[i + len(axes)]
        size = shape_of(x)[axis]
        if before == after == 0:
            continue
        if not (isinstance(before, int) and isinstance(after, int) and isinstance(size, int)):
            x = _vaguely_padded(x, axis, before, after, value if mode == "constant" else None)
            continue
        x = slice_axis(x, axis, max(-before, 0), max(size - max(-after, 0), max(-before, 0)))
        if mode == "constant":
            x = _framed(x, axis, max(before, 0), max(after, 0), value)
        elif min(before, after) < 0:
            # Runtimes differ in whether the border mirrors the cropped elements or the original ones.
            x = _vaguely_padded(x, axis, max(before, 0), max(after, 0), None)
        else:
            x = _continued(x, axis, before, after, mode)
    return x


def _framed(x: Range, axis: int, before: int, after: int, value: Range) -> Range:
    """Cells of one constant before and after those of an axis."""
    sizes = shape_of(x)
    parts = [x]
    for width, position in ((before, 0), (after, 2)):
        if width:
            shape = replaced(sizes, axis, width)
            parts.insert(position, _constant_block(shape, value))
    return concatenate(parts, axis)


def _constant_block(shape: Shape, value: Range) -> Range:
    """A block where every element is the one element of `value`."""
    if all(isinstance(size, int) for size in shape) and value.array is not None:
        sizes = [smallest(size) for size in shape]
        if math.prod(sizes) <= CELL_BUDGET:
            return Range.constant(np.broadcast_to(value.array.reshape(()), sizes), value.format)
    grid = tuple(np.zeros(1, np.int64) if size == 0 else None for size in shape)
    return moved(value, shape, grid, lambda a: np.broadcast_to(a.reshape(()), counts(grid)))


def _continued(x: Range, axis: int, before: int, after: int, mode: str) -> Range:
    """An axis continued by its own elements."""
    size = smallest(shape_of(x)[axis])
    if x.cells[axis] <= 1:
        shape = replaced(shape_of(x), axis, size + before + after)
        return moved(x, shape, x.grid, lambda a: a)
    numpy_mode: Any = mode
    return take(x, axis, np.pad(np.arange(size), (before, after), mode=numpy_mode))


def _vaguely_padded(x: Range, axis: int, before: Size, after: Size, value: Range | None) -> Range:
    """An axis of which only the hull is kept, because its borders are not known; `value` is what they hold."""
    size = added(added(shape_of(x)[axis], before), after)
    if not isinstance(size, int):
        size = Span(max(size.low, 0), size.high)
    x = one_cell(affordable(x), (axis,))
    x = moved(x, replaced(shape_of(x), axis, size), x.grid, lambda a: a)
    return x if value is None else x.join(_constant_block(shape_of(x), value))


@operator("CenterCropPad", steered_by=(1,))
def center_crop_pad(op: Call, x: Range, shape: Range) -> Range:
    """The middle of the tensor, or the tensor in the middle of zeros, along some axes."""
    wanted = op.integers("shape", shape) or []
    axes = [known_axis(axis, x.rank) for axis in op.attribute("axes") or range(x.rank)]
    zero = _filler(x, 0)
    for axis, size in zip(axes, wanted):
        old = x.sizes[axis]
        # Odd differences: the window moves to the left, the additional padding stands at the right.
        if size < old:
            start = (old - size) // 2
            x = slice_axis(x, axis, start, start + size)
        else:
            before = (size - old) // 2
            x = _framed(x, axis, before, size - old - before, zero)
    return x


@center_crop_pad.meaning
def _(run: Run, x: Tensor, shape: Tensor) -> Tensor:
    borders: list[tuple[int, int, int]] = []
    for axis, size in zip(run.attribute("axes") or range(x.ndim), run.integers("shape", shape) or []):
        axis = known_axis(axis, x.ndim)
        more = size - x.shape[axis]
        before = more // 2 if more > 0 else -(-more // 2)
        borders.append((axis, before, more - before))
    return _in_frame(run, x, borders, run.torch.zeros((), dtype=x.dtype))


# -- triangles and sequences -----------------------------------------------------------------------------------------


@operator("Trilu", steered_by=(1,))
def trilu(op: Call, x: Range, k: Range | None = None) -> Range:
    """The upper or lower triangle of matrices, zero elsewhere."""
    upper = bool(op.attribute("upper", 1))
    diagonal = (0, 0) if k is None else (int(k.low.min()), int(k.high.max()))
    rows, columns = x.sizes[-2:]
    if x.array is not None and diagonal[0] == diagonal[1]:
        triangle = np.triu if upper else np.tril
        return Range.constant(triangle(x.array, diagonal[0]).astype(x.array.dtype), x.format)
    if 0 in x.sizes:
        return x
    x = affordable(x)
    outer = math.prod(x.cells[:-2])
    for axis, size in ((x.rank - 2, rows), (x.rank - 1, columns)):
        x = x.refine(axis, _blocks(size, x.sizes, outer))
    low_row, high_row = _first_and_last(x, -2)
    low_column, high_column = _first_and_last(x, -1)
    # An element is kept if column - row >= k (upper) or <= k (lower), numpy.triu and numpy.tril.
    nearest, farthest = low_column - high_row[:, None], high_column - low_row[:, None]
    if upper:
        kept, dropped = nearest >= diagonal[1], farthest < diagonal[0]
    else:
        kept, dropped = farthest <= diagonal[0], nearest > diagonal[1]
    low = np.where(dropped, 0.0, np.where(kept, x.low, np.minimum(x.low, 0.0)))
    high = np.where(dropped, 0.0, np.where(kept, x.high, np.maximum(x.high, 0.0)))
    special = np.where(dropped, np.uint8(0), x.special) if x.has_special else None
    return x.replace(low, high, special)


@trilu.aten("tril", "triu")
def _(call: AtenCall) -> int:
    diagonal = call.value(call.arguments["diagonal"], INT64)
    return call.moved("Trilu", call.tensor("self"), diagonal, upper=int(call.name.startswith("triu")))


@trilu.tensorflow("MatrixBandPart")
def _(call: TensorflowCall) -> int:
    """Zeros outside of a band of diagonals; a negative number of them is all."""
    (below,), (above,) = call.integers_of(1), call.integers_of(2)
    x = call.operand(0)
    if below >= 0:
        x = call.moved("Trilu", x, call.constant(np.array(-below, np.int64)), upper=1)
    if above >= 0:
        x = call.moved("Trilu", x, call.constant(np.array(above, np.int64)), upper=0)
    return call.moved("Identity", x) if x == call.operand(0) else x


@operator("Trilu", domain="com.microsoft")
def contrib_trilu(op: Call, x: Range, k: Range | None = None) -> Range:
    """The upper or lower triangle of matrices, zero elsewhere."""
    return trilu.block(op, x, k)


@trilu.meaning
@contrib_trilu.meaning
def _(run: Run, x: Tensor, k: Tensor | None = None) -> Tensor:
    diagonal = 0 if k is None else int(run.whole(k))
    return x.triu(diagonal) if run.attribute("upper", 1) else x.tril(diagonal)


def _blocks(size: int, sizes: tuple[int, ...], outer: int) -> Integers | None:
    """Boundaries for a triangle: every element if the matrix is small, else blocks that leave the ends of the axis alone."""
    if outer * sizes[-2] * sizes[-1] <= CELL_BUDGET:
        return tidy(np.arange(size + 1))
    blocks = max(int(math.sqrt(CELL_BUDGET / outer)) - 3, 1)
    if size <= blocks:
        return tidy(np.arange(size + 1))
    # The first and the last row and column are cells of their own: in a causal mask they are what no row masks.
    return np.unique(np.concatenate([np.linspace(0, size, blocks + 1).astype(np.int64), [1, size - 1]]))


def _first_and_last(x: Range, axis: int) -> tuple[Integers, Integers]:
    """The first and the last element of each cell."""
    cuts = x.grid[axis]
    if cuts is None:
        return np.zeros(1, np.int64), np.array([x.sizes[axis] - 1])
    return cuts[:-1], cuts[1:] - 1


@operator("ReverseSequence", steered_by=(1,))
def reverse_sequence(op: Call, x: Range, lengths: Range) -> Range:
    """The first elements of each sequence in reverse order; the hull over all lengths that it may have."""
    axes = op.attribute("batch_axis", 1), op.attribute("time_axis", 0)
    time = axes[1]
    if 0 in x.sizes:
        return x
    low, high, _ = lengths.expanded()
    shortest, longest = (np.clip(a, 0, x.sizes[time]).astype(np.int64) for a in (low, high))
    spread = int((longest - shortest).max())
    if spread == 0 and x.array is not None and bool((low == shortest).all()):
        result = folded(lambda array: _reversed(array, shortest, *axes), x.size, x)
        if result is not None:
            return result
    if x.cells[time] == 1:
        return x
    # What a length outside of the axis means is not defined.
    is_valid = bool((low >= 0).all() and (high <= x.sizes[time]).all())
    cells = math.prod(x.cells[2:]) * x.sizes[0] * x.sizes[1]
    if not is_valid or cells > 4 * CELL_BUDGET or spread > _MOST_LENGTHS:
        return one_cell(affordable(x), (time,))
    x = x.refine_fully(0).refine_fully(1)
    parts: list[Range] = []
    for more in range(spread + 1):
        length = np.minimum(shortest + more, longest)
        parts.append(moved(x, x.shape, x.grid, lambda a, length=length: _reversed(a, length, *axes)))
    return functools.reduce(Range.join, parts)


@reverse_sequence.meaning
def _(run: Run, x: Tensor, lengths: Tensor) -> Tensor:
    batch_axis, time_axis = run.attribute("batch_axis", 1), run.attribute("time_axis", 0)
    steps, length = run.torch.arange(x.shape[time_axis]), run.whole(lengths)[:, None]
    index = run.torch.where(steps < length, length - 1 - steps, steps)
    index = index.T if batch_axis > time_axis else index
    return x.take_along_dim(index.reshape(*index.shape, *([1] * (x.ndim - 2))), time_axis)


def _reversed(array: npt.NDArray[Any], lengths: Integers, batch_axis: int, time_axis: int) -> npt.NDArray[Any]:
    steps = np.arange(array.shape[time_axis])
    index = np.where(steps < lengths[:, None], lengths[:, None] - 1 - steps, steps)
    index = index.T if batch_axis > time_axis else index
    return np.take_along_axis(array, index.reshape(*index.shape, *([1] * (array.ndim - 2))), axis=time_axis)


@reverse_sequence.tensorflow("ReverseSequence")
def _(call: TensorflowCall) -> int:
    """The first elements of each sample backwards; other axes than the first two are brought there and back."""
    batch, time, rank = int(call.attribute("batch_dim", 0)), int(call.attribute("seq_dim")), call.rank(0)
    x, lengths = call.operand(0), call.operand(1, INT64)
    if {batch, time} == {0, 1}:
        return call.moved("ReverseSequence", x, lengths, batch_axis=batch, time_axis=time)
    order = [batch, time, *(axis for axis in range(rank) if axis not in (batch, time))]
    turned = call.moved("ReverseSequence", call.moved("Transpose", x, perm=order), lengths, batch_axis=0, time_axis=1)
    return call.moved("Transpose", turned, perm=[order.index(axis) for axis in range(rank)])
