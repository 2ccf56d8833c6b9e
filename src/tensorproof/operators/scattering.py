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

from tensorproof.errors import NotAnalysed, UnknownShape
from tensorproof.formats import BOOL, INT64, Array, Format
from tensorproof.frontends.picking import is_mask, picked
from tensorproof.operators.cropping import END, sliced
from tensorproof.operators.indexing import Choice, as_tuples, choices, diagonal_positions, from_front, reach, strided_positions
from tensorproof.operators.table import CORRECT, Call, operator
from tensorproof.ranges.grid import smallest, union
from tensorproof.ranges.hits import Updates, combined, product_error, report_growth, sum_error, within_box
from tensorproof.ranges.moving import Integers, affordable, folded, known_axis, shape_of, slice_axis
from tensorproof.ranges.range import CELL_BUDGET, Flags, Range
from tensorproof.ranges.sums import report_partial_overflow
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall
    from tensorproof.frontends.calls import Handle

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


#: What each reduction of torch is called here, and the value that changes nothing.
_ATEN_REDUCTIONS: dict[str, tuple[str, float]] = {
    **dict.fromkeys(("sum", "add", "mean"), ("add", 0.0)),
    **dict.fromkeys(("prod", "multiply"), ("mul", 1.0)),
    "amax": ("max", -math.inf),
    "amin": ("min", math.inf),
}


@scatter_elements.aten(
    "scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce", "scatter_add", "scatter_reduce.two"
)
def _(call: AtenCall) -> int:
    """Elements written along an axis; with a mean, or without what stood there before, in several steps."""
    format, index = call.result.format, call.handle("index")
    x = call.tensor("self", format)
    written = _written_values(call, index, format)
    if call.rank("self") == 0:
        raise NotAnalysed("elements written into a tensor without axes")
    named = "sum" if call.name.startswith("scatter_add") else call.get("reduce")
    if named is None:
        return call.moved("ScatterElements", x, index.number, written, axis=call["dim"])
    reduction, neutral = _ATEN_REDUCTIONS[named]
    if not call.get("include_self", True):
        if not math.isfinite(neutral) and format is not None:
            neutral = math.copysign(format.high, neutral)
        nothing = call.moved("Expand", call.value(neutral, format), call.shape_of(index.number))
        x = call.moved("ScatterElements", x, index.number, nothing, axis=call["dim"])
    result = call.moved("ScatterElements", x, index.number, written, axis=call["dim"], reduction=reduction)
    if named != "mean":
        return result
    if format is None or not format.is_float:
        raise NotAnalysed("the mean of integers")
    one = call.value(1.0, format)
    start = one if call.get("include_self", True) else call.value(0.0, format)
    counts = call.moved("Expand", start, call.shape_of(x))
    ones = call.moved("Expand", one, call.shape_of(index.number))
    counts = call.moved("ScatterElements", counts, index.number, ones, axis=call["dim"], reduction="add")
    return call.moved("Div", result, call.moved("Max", counts, one))


def _written_values(call: AtenCall, index: Handle, format: Format | None) -> int:
    """What is written at each position of the index: one number everywhere, or the part of a tensor that it covers."""
    if "src" not in call.arguments:
        return call.moved("Expand", call.value(call.arguments["value"], format), call.shape_of(index.number))
    source = call.handle("src")
    written = call.value(source, format)
    for axis, (size, used) in enumerate(zip(source.shape or (), index.shape or ())):
        if size != used or size is None:
            written = sliced(call, written, axis, 0, call.size(index, axis))
    return written


@scatter_elements.aten("index_add", "index_copy", "index_fill.int_Scalar", "index_fill.int_Tensor")
def _(call: AtenCall) -> int:
    """Whole slices written, or added, at positions of one axis."""
    x, format = call.handle("self"), call.result.format
    rank = call.rank("self")
    axis, index = call.axis("dim", rank), call.handle("index")
    if rank == 0:
        raise NotAnalysed("slices of a tensor without axes")
    count = call.size(index, 0) if index.shape else 1
    sizes = call.integers([count if other == axis else call.size(x, other) for other in range(rank)])
    along = call.reshaped(call.cast(index.number, INT64), [-1 if other == axis else 1 for other in range(rank)])
    places = call.moved("Expand", along, sizes)
    if "source" in call.arguments:
        source = call.tensor("source", format)
        if call.get("alpha", 1) != 1:
            source = call.moved("Mul", source, call.value(call["alpha"], format))
    else:
        source = call.moved("Expand", call.value(call.arguments["value"], format), sizes)
    reduction = "add" if call.name.startswith("index_add") else None
    return call.moved("ScatterElements", call.value(x, format), places, source, axis=axis, reduction=reduction)


@scatter_elements.aten("select_scatter")
def _(call: AtenCall) -> int:
    """One slice written anew."""
    axis, index = call.axis("dim", call.rank("self")), call.arguments["index"]
    source = call.moved("Unsqueeze", call.tensor("src", call.result.format), call.integers([axis]))
    if isinstance(index, int):
        return _with_slices(call, source, axis, index, None if index == -1 else index + 1)
    return _at_positions(call, source, axis, call.reshaped(call.value(index, INT64), [1]))


@scatter_elements.aten("slice_scatter")
def _(call: AtenCall) -> int:
    """Several slices written anew."""
    axis, source = call.axis("dim", call.rank("self")), call.tensor("src", call.result.format)
    start, end, step = (call.arguments[name] for name in ("start", "end", "step"))
    if step == 1 and all(bound is None or isinstance(bound, int) for bound in (start, end)):
        return _with_slices(call, source, axis, start, end)
    numbers = (call.value(item, INT64) for item in (0, call.size(call.handle("self"), axis), 1))
    positions = call.emit("Range", *numbers, formats=(INT64,))
    return _at_positions(call, source, axis, sliced(call, positions, 0, start, end, step))


def _with_slices(call: AtenCall, source: int, axis: int, start: int | None, end: int | None) -> int:
    """A tensor with slices in a row written anew: what stands before and behind them is kept."""
    x = call.handle("self")
    size = (x.shape or ())[axis]
    first, last = start or 0, END if end is None else end
    if isinstance(size, int):
        first, last, _ = slice(start, end).indices(size)
    before = [] if first == 0 else [sliced(call, x.number, axis, 0, first)]
    behind = [] if last >= (size if isinstance(size, int) else END) else [sliced(call, x.number, axis, last, None)]
    parts = [*before, source, *behind]
    return call.moved("Concat", *parts, axis=axis) if len(parts) > 1 else source


@scatter_elements.aten("diagonal_scatter")
def _(call: AtenCall) -> int:
    """A diagonal of matrices written anew."""
    merged, positions, order = diagonal_positions(call)
    source = call.tensor("src", call.result.format)
    places = call.moved("Expand", call.constant(positions), call.shape_of(source))
    written = call.moved("ScatterElements", merged, places, source, axis=-1)
    sizes = [call.size(call.handle("self"), axis) for axis in order]
    return call.moved("Transpose", call.reshaped(written, sizes), perm=[order.index(axis) for axis in range(len(order))])


@scatter_elements.aten("as_strided_scatter")
def _(call: AtenCall) -> int:
    """Elements written at steps through the memory of a tensor that lies there in one piece."""
    places = call.constant(strided_positions(call).reshape(-1))
    source = call.reshaped(call.tensor("src", call.result.format), [-1])
    written = call.moved("ScatterElements", call.reshaped(call.tensor("self"), [-1]), places, source, axis=0)
    return call.reshaped(written, list(call.handle("self").shape or ()))


def _at_positions(call: AtenCall, source: int, axis: int, index: int) -> int:
    """Slices written at positions that are computed, or not in a row."""
    along = call.reshaped(index, [-1 if other == axis else 1 for other in range(call.rank("self"))])
    places = call.moved("Expand", along, call.shape_of(source))
    return call.moved("ScatterElements", call.tensor("self"), places, source, axis=axis)


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


@scatter_nd.aten("index_put", "_unsafe_index_put", "_index_put_impl")
def _(call: AtenCall) -> int:
    """Values written, or added, at positions; where a mask holds, by choice."""
    x, format = call.handle("self"), call.result.format
    given = [(axis, index) for axis, index in enumerate(call.arguments["indices"]) if index is not None]
    accumulates = bool(call["accumulate"])
    if len(given) == 1 and is_mask(given[0][1]) and _is_one_for_all(call, *given[0]):
        return _chosen(call, *given[0], accumulates)
    where = picked(call, call.rank("self"))
    number = call.value(x, format)
    is_turned = where.order != sorted(where.order)
    if is_turned:
        number = call.moved("Transpose", number, perm=where.order)
    others = [call.size(x, axis) for axis in where.others]
    sizes = call.integers([*others[: where.place], *where.sizes, *others[where.place :]])
    values = call.moved("Expand", call.tensor("values", format), sizes)
    if where.place:
        back = [where.from_front.index(axis) for axis in range(len(where.from_front))]
        values = call.moved("Transpose", values, perm=back)
    result = call.moved("ScatterND", number, where.tuples, values, reduction="add" if accumulates else None)
    if not is_turned:
        return result
    return call.moved("Transpose", result, perm=[where.order.index(axis) for axis in range(len(where.order))])


def _is_one_for_all(call: AtenCall, axis: int, mask: Handle) -> bool:
    """Whether every place of a mask gets the same values."""
    shape = call.handle("values").shape or ()
    behind = call.rank("self") - axis - len(mask.shape or ())
    return len(shape) <= behind or all(size == 1 for size in shape[: len(shape) - behind])


def _chosen(call: AtenCall, axis: int, mask: Handle, accumulates: bool) -> int:
    """The values where a mask of some axes holds, the tensor elsewhere."""
    format, x, values = call.result.format, call.tensor("self"), call.tensor("values", call.result.format)
    behind = call.rank("self") - axis - len(mask.shape or ())
    shape = call.handle("values").shape or ()
    if len(shape) > behind:
        values = call.reshaped(values, [call.size(call.handle("values"), i) for i in range(len(shape) - behind, len(shape))])
    depth = len(mask.shape or ())
    condition = call.cast(mask.number, BOOL)
    if behind:
        condition = call.moved("Unsqueeze", condition, call.integers(range(depth, depth + behind)))
    if accumulates:
        values = call.moved("Add", x, values)
    return call.emit("Where", condition, values, x, formats=(format,))


@scatter_nd.aten("masked_scatter")
def _(call: AtenCall) -> int:
    """Elements of the source, in order, written where the mask holds."""
    x, mask = call.handle("self"), call.tensor("mask")
    if call.handle("mask").shape != x.shape:
        mask = call.moved("Expand", mask, call.shape_of(x.number))
    places = call.moved("Transpose", call.emit("NonZero", mask, formats=(INT64,)), perm=[1, 0])
    count = call.moved("Gather", call.shape_of(places), call.integers([0]), axis=0)
    values = call.moved("Slice", call.reshaped(call.tensor("source"), [-1]), call.integers([0]), count)
    return call.moved("ScatterND", x.number, places, values)


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
