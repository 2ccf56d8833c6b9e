"""Elements picked by their value: TopK, NonZero, Unique, NonMaxSuppression. How many there are may depend on the data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.formats import INT32, INT64, Array
from tensorproof.operators.table import Call, operator
from tensorproof.ranges.grid import Size, Span, cell_sizes, counts, fine, largest
from tensorproof.ranges.moving import affordable, known_axis, moved, one_cell, replaced, reshape, shape_of, whole
from tensorproof.ranges.range import CELL_BUDGET, NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY, Range

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall
    from tensorproof.frontends.jax_call import JaxCall
    from tensorproof.frontends.tensorflow_call import TensorflowCall

#: Ranks of elements are compared pairwise up to this many pairs.
_PAIR_LIMIT = 1 << 22


# -- TopK ------------------------------------------------------------------------------------------------------------


@operator("TopK", coarse="with sorted=0 the order of the results is undefined", steered_by=(1,))
def top_k(op: Call, x: Range, k: Range | None = None) -> tuple[Range, Range]:
    """The k-th largest value lies between the k-th largest lower end and the k-th largest upper end."""
    axis = known_axis(op.attribute("axis", -1), x.rank)
    counted = (op.attribute("k"),) * 2 if k is None else (whole(k.low.min()), whole(k.high.max()))
    size = shape_of(x)[axis]
    longest = largest(size)
    most = max(counted[1] if longest is None else min(counted[1], longest), 0)
    count: Size = most if counted[0] >= counted[1] else Span(max(counted[0], 0), most)
    if not isinstance(size, int) or most == 0 or 0 in shape_of(x):
        return _any_of(one_cell(affordable(x), (axis,)), axis, count)
    x = affordable(x)
    if x.cells[axis] > 1 and math.prod(x.cells) // x.cells[axis] * size <= 4 * CELL_BUDGET:
        x = x.refine_fully(axis)
    elif x.cells[axis] > 1:
        x = one_cell(x, (axis,))
    if x.cells[axis] == 1:
        return _any_of(x, axis, count)
    values, indices = _order_statistics(x, axis, most, largest_first=bool(op.attribute("largest", 1)))
    if isinstance(count, int) and op.attribute("sorted", 1):
        return values, indices
    # The order is not specified, or the number is not known: what holds for one of them holds for each.
    merged = tuple(one_cell(part, (axis,)) for part in (values, indices))
    shape = replaced(shape_of(x), axis, count)
    return moved(merged[0], shape, merged[0].grid, lambda a: a), moved(merged[1], shape, merged[1].grid, lambda a: a)


def _any_of(x: Range, axis: int, count: Size) -> tuple[Range, Range]:
    """Any elements of an axis of one cell, and their positions."""
    shape = replaced(shape_of(x), axis, count)
    last = largest(shape_of(x)[axis])
    indices = Range.uniform(shape, INT64, 0.0, INT64.high if last is None else max(last - 1, 0))
    if 0 in shape:
        return Range.uniform(shape, x.format, 0.0, 0.0), indices
    return moved(x, shape, x.grid, lambda a: a), indices


def _order_statistics(x: Range, axis: int, count: int, *, largest_first: bool) -> tuple[Range, Range]:
    """Values and positions in sorted order, from cells that are single elements along the axis."""
    low, high = (np.moveaxis(a, axis, -1) for a in x.extended())
    special = np.moveaxis(x.special, axis, -1)
    if not largest_first:
        low, high = -high, -low
    top_low, top_high = (-np.sort(-a, axis=-1)[..., :count] for a in (low, high))
    first, last = _positions(low, high, count)
    if not largest_first:
        top_low, top_high = -top_high, -top_low
    flags = np.bitwise_or.reduce(special, axis=-1, keepdims=True)
    finite_low, finite_high = np.moveaxis(x.low, axis, -1), np.moveaxis(x.high, axis, -1)
    bounds = finite_low.min(axis=-1, keepdims=True), finite_high.max(axis=-1, keepdims=True)
    infinite = np.where(top_low == -np.inf, flags & np.uint8(NEGATIVE_INFINITY), np.uint8(0))
    infinite |= np.where(top_high == np.inf, flags & np.uint8(POSITIVE_INFINITY), np.uint8(0))
    top_low = np.where(top_low == -np.inf, bounds[0], top_low)
    top_high = np.where(top_high == np.inf, bounds[1], top_high)
    # NaN compares with nothing: a row that may hold one can come in any order.
    broken = np.broadcast_to((flags & np.uint8(NAN)) != 0, top_low.shape)
    top_low, top_high = np.where(broken, bounds[0], top_low), np.where(broken, bounds[1], top_high)
    crossed = top_low > top_high
    top_low, top_high = np.where(crossed, np.inf, top_low), np.where(crossed, -np.inf, top_high)
    infinite = np.where(broken, flags, infinite)
    first, last = np.where(broken, 0, first), np.where(broken, low.shape[-1] - 1, last)
    grid = (*x.grid[:axis], fine([count])[0], *x.grid[axis + 1 :])
    shape = replaced(shape_of(x), axis, count)
    back = [np.moveaxis(a, -1, axis) for a in (top_low, top_high, infinite, first, last)]
    values = Range(x.format, shape, grid, back[0], back[1], back[2])
    return values, Range(INT64, shape, grid, back[3].astype(np.float64), back[4].astype(np.float64))


def _positions(low: Array, high: Array, count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The first and the last position that can hold the n-th largest value, for the first `count` of them."""
    size = low.shape[-1]
    shape = (*low.shape[:-1], count)
    if low.size * size > _PAIR_LIMIT:
        return np.zeros(shape, np.int64), np.full(shape, size - 1, np.int64)
    before = np.arange(size)[:, None] < np.arange(size)
    mine_low, mine_high = low[..., None, :], high[..., None, :]
    other_low, other_high = low[..., :, None], high[..., :, None]
    # Of equal values the one with the lower position comes first (ONNX TopK-11).
    surely = (other_low > mine_high) | ((other_low == mine_high) & before)
    perhaps = (other_high > mine_low) | ((other_high == mine_low) & before)
    perhaps &= ~np.eye(size, dtype=np.bool_)
    least, most = surely.sum(axis=-2), perhaps.sum(axis=-2)
    rank = np.arange(count)
    possible = (least[..., None] <= rank) & (rank <= most[..., None])
    return np.argmax(possible, axis=-2), size - 1 - np.argmax(possible[..., ::-1, :], axis=-2)


@top_k.meaning
def _(run: Run, x: Tensor, k: Tensor | None = None) -> tuple[Tensor, Tensor]:
    axis = known_axis(run.attribute("axis", -1), x.dim())
    wanted = run.integers("k", k) or [0]
    count = min(wanted[0], x.shape[axis])
    # Of equal values the one with the lower position comes first (ONNX TopK-11).
    order = run.torch.sort(x.detach(), dim=axis, descending=bool(run.attribute("largest", 1)), stable=True).indices
    places = order.narrow(axis, 0, count)
    values = run.torch.gather(x, axis, places)
    if not run.search or not x.requires_grad or x.numel() * count > _PAIR_LIMIT:
        return values, places
    return values, run.passing(places, _soft_places(run, x, values, axis))


@top_k.tensorflow("TopKV2")
def _(call: TensorflowCall) -> tuple[int, int]:
    return _largest_of(call, call.as_integers(1))


@top_k.tensorflow("TopK")
def _(call: TensorflowCall) -> tuple[int, int]:
    return _largest_of(call, call.integers([int(call.attribute("k"))]))


def _largest_of(call: TensorflowCall, count: int) -> tuple[int, int]:
    """Along the last axis; places are 32-bit integers unless the node says otherwise."""
    format, ordered = call.arithmetic_format(), int(bool(call.attribute("sorted", True)))
    values, places = call.emit("TopK", call.operand(0), count, axis=-1, sorted=ordered, outputs=2, formats=(format, INT64))
    return values, call.cast(places, call.format("index_type") if "index_type" in call.attributes else INT32)


@top_k.jax("top_k")
def _(call: JaxCall) -> tuple[int, int]:
    format = call.arithmetic_format()
    count, axis = call.integers([int(call["k"])]), int(call.parameters.get("axis", -1))
    values, places = call.emit("TopK", call.operand(0), count, axis=axis, outputs=2, formats=(format, INT64))
    wanted = call.results[1].format
    return values, places if wanted is None else call.cast(places, wanted)


def _soft_places(run: Run, x: Tensor, values: Tensor, axis: int) -> Tensor:
    """Where values stand along an axis, as means over all places, nearer elements first (Prillo and Eisenschlos, SoftSort)."""
    found, elements = (part.nan_to_num().movedim(axis, -1) for part in (values, x))
    distances = (found.unsqueeze(-1) - elements.unsqueeze(-2)).abs()
    places = run.torch.arange(x.shape[axis], dtype=x.dtype)
    return (run.torch.softmax(-distances, -1) * places).sum(-1).movedim(-1, axis)


# -- NonZero ---------------------------------------------------------------------------------------------------------


@operator("NonZero")
def non_zero(op: Call, x: Range) -> Range:
    """Positions of the elements that are not zero; their number lies between those that cannot and that may be."""
    exact = x.values() if x.array is not None or (x.has_known_shape and x.size <= CELL_BUDGET) else None
    flushes = op.target.flushes_operands and x.format.is_float
    if exact is not None and not (flushes and bool(((exact != 0) & (np.abs(exact) < x.format.smallest_normal)).any())):
        return Range.constant(np.argwhere(exact).T.astype(np.int64), INT64)
    x = affordable(x)
    smallest = x.format.smallest_normal if flushes else 0.0
    surely = (x.low > 0) & (x.low >= smallest) | (x.high < 0) & (x.high <= -smallest)
    perhaps = (x.low < 0) | (x.high > 0) | (x.special != 0)
    # A cell without finite values has no zero.
    surely = np.where(x.low > x.high, x.special != 0, surely)
    perhaps = np.where(x.low > x.high, x.special != 0, perhaps)
    if not x.has_known_shape:
        high = [largest(size) for size in shape_of(x)]
        most = None if None in high else math.prod(n for n in high if n is not None)
        ends = [INT64.high if n is None else max(n - 1, 0) for n in high]
        return _position_rows([0.0] * len(ends), [float(end) for end in ends], Span(0, most))
    elements = np.ones((), np.int64)
    for axis in range(x.rank):
        widths = cell_sizes(x.grid, x.sizes, axis)
        elements = elements * widths.reshape([-1 if i == axis else 1 for i in range(x.rank)])
    lows: list[float] = []
    highs: list[float] = []
    for axis in range(x.rank):
        others = tuple(i for i in range(x.rank) if i != axis)
        cells = np.flatnonzero(perhaps.any(axis=others))
        cuts = x.grid[axis]
        boundaries = np.array([0, x.sizes[axis]]) if cuts is None else cuts
        lows.append(float(boundaries[cells[0]]) if len(cells) else 0.0)
        highs.append(float(boundaries[cells[-1] + 1] - 1) if len(cells) else 0.0)
    return _position_rows(lows, highs, Span(int((surely * elements).sum()), int((perhaps * elements).sum())))


@non_zero.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return run.torch.nonzero(x).T


def _position_rows(low: list[float], high: list[float], count: Span) -> Range:
    """One row per axis of positions in that axis."""
    size: Size = count.low if count.low == count.high else count
    rank = len(low)
    if size == 0 or rank == 0:
        return Range.uniform((rank, size), INT64, 0.0, 0.0)
    grid = (fine([rank])[0], None)
    return Range(INT64, (rank, size), grid, np.array(low).reshape(rank, 1), np.array(high).reshape(rank, 1))


# -- Unique ----------------------------------------------------------------------------------------------------------


@non_zero.aten("nonzero", "argwhere")
def _(call: AtenCall) -> int:
    positions = call.emit("NonZero", call.tensor("self"), formats=(INT64,))
    return call.moved("Transpose", positions, perm=[1, 0])


@non_zero.tensorflow("Where")
def _(call: TensorflowCall) -> int:
    """One row for each element that is not zero."""
    call.arithmetic_format()
    return call.moved("Transpose", call.emit("NonZero", call.operand(0), formats=(INT64,)), perm=[1, 0])


@operator("Unique")
def unique(op: Call, x: Range) -> tuple[Range, Range, Range, Range]:
    """Distinct values or slices, with positions, inverse and counts; exact if the operand is known."""
    return _distinct(x, op.attribute("axis"), in_order=bool(op.attribute("sorted", 1)))


@unique.meaning
def _(run: Run, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return _distinct_tensors(run, x, run.attribute("axis"), in_order=bool(run.attribute("sorted", 1)))


@operator("Unique", domain="com.microsoft")
def contrib_unique(op: Call, x: Range) -> tuple[Range, Range, Range]:
    """Distinct values in the order of their first occurrence, with inverse and counts."""
    values, _, inverse, count = _distinct(x, None, in_order=False)
    return values, inverse, count


@contrib_unique.meaning
def _(run: Run, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    values, _, inverse, count = _distinct_tensors(run, x, None, in_order=False)
    return values, inverse, count


@unique.tensorflow("Unique", "UniqueWithCounts")
def _(call: TensorflowCall) -> tuple[int, ...]:
    """Distinct elements in the order of their first occurrence, where each of them stands, and how many there are."""
    format = call.arithmetic_format()
    formats = (format, INT64, INT64, INT64)
    values, _, inverse, count = call.emit("Unique", call.operand(0), sorted=0, outputs=4, formats=formats)
    wanted = call.format("out_idx") if "out_idx" in call.attributes else INT32
    made = values, call.cast(inverse, wanted)
    return made if call.name == "Unique" else (*made, call.cast(count, wanted))


def _distinct_tensors(run: Run, x: Tensor, axis: int | None, *, in_order: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    torch = run.torch
    flat, axis = (x.reshape(-1), 0) if axis is None else (x, known_axis(axis, x.dim()))
    _, inverse, number = torch.unique(flat.detach(), return_inverse=True, return_counts=True, dim=axis)
    size = flat.shape[axis]
    first = torch.full_like(number, size).scatter_reduce(0, inverse, torch.arange(size), "amin")
    if not in_order:
        order = torch.argsort(first)
        first, inverse, number = first[order], torch.argsort(order)[inverse], number[order]
    return flat.index_select(axis, first), first, inverse, number


def _distinct(x: Range, axis: int | None, *, in_order: bool) -> tuple[Range, Range, Range, Range]:
    if axis is None:
        flat, axis = reshape(x, (x.size,)), 0
    else:
        flat, axis = x, known_axis(axis, x.rank)
    size = flat.sizes[axis]
    exact = flat.array if flat.array is not None else flat.values() if flat.size <= CELL_BUDGET else None
    if exact is not None and exact.size and exact.dtype.kind not in "c":
        return _exactly_distinct(flat, exact, axis, in_order=in_order)
    count: Size = Span(min(size, 1), size) if size > 1 else size
    merged = one_cell(affordable(flat), (axis,))
    values = moved(merged, replaced(flat.sizes, axis, count), merged.grid, lambda a: a)
    if size == 0:
        values = Range.uniform(flat.sizes, x.format, 0.0, 0.0)
    last = float(max(size - 1, 0))
    numbers = Range.uniform((count,), INT64, 1.0, float(max(size, 1)))
    return values, Range.uniform((count,), INT64, 0.0, last), Range.uniform((size,), INT64, 0.0, last), numbers


def _exactly_distinct(x: Range, exact: npt.NDArray[np.generic], axis: int, *, in_order: bool) -> tuple[Range, Range, Range, Range]:
    # Tensors of one axis need no axis, and text has none in NumPy.
    along = None if exact.ndim == 1 else axis
    # -0.0 and 0.0 are equal: which of the two stands for both is the first one.
    _, first, inverse, number = np.unique(exact, return_index=True, return_inverse=True, return_counts=True, axis=along)
    inverse = inverse.reshape(-1)
    if not in_order:
        order = np.argsort(first)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        first, inverse, number = first[order], place[inverse], number[order]
    values = Range.constant(np.take(exact, first, axis=axis).astype(x.format.dtype), x.format)
    indices = [Range.constant(part.astype(np.int64), INT64) for part in (first, inverse, number)]
    return values, indices[0], indices[1], indices[2]


# -- NonMaxSuppression -----------------------------------------------------------------------------------------------


@operator("NonMaxSuppression", steered_by=(2,))
def non_max_suppression(
    op: Call,
    boxes: Range,
    scores: Range,
    most: Range | None = None,
    overlap: Range | None = None,
    threshold: Range | None = None,
) -> Range:
    """Rows of (batch, class, box); at most `max_output_boxes_per_class` for each batch and class."""
    batch, classes, count = shape_of(scores)
    if not all(isinstance(size, int) for size in (batch, classes)):
        raise NotAnalysed("the number of batches or classes is not known")
    limit = 0 if most is None or not most.low.size else max(whole(most.high.max()), 0)
    candidates = largest(count)
    per_class = limit if candidates is None else min(limit, candidates)
    rows = math.prod(largest(size) or 0 for size in (batch, classes)) * per_class
    size: Size = Span(0, rows) if rows else 0
    ends = [float(max((INT64.high if n is None else n) - 1, 0)) for n in map(largest, (batch, classes, count))]
    grid = (None if rows else np.zeros(1, np.int64), fine([3])[0])
    low = np.zeros(counts(grid))
    return Range(INT64, (size, 3), grid, low, np.broadcast_to(np.array(ends), low.shape))


@non_max_suppression.meaning
def _(
    run: Run,
    boxes: Tensor,
    scores: Tensor,
    most: Tensor | None = None,
    overlap: Tensor | None = None,
    threshold: Tensor | None = None,
) -> Tensor:
    torch = run.torch
    limit = (run.integers("max_output_boxes_per_class", most) or [0])[0]
    allowed = 0.0 if overlap is None else float(overlap.detach())
    ends = _box_ends(run, boxes.detach())
    left = scores.detach()
    if threshold is not None:
        left = left.masked_fill(left <= threshold.detach(), -math.inf)
    rounds: list[Tensor] = []
    while len(rounds) < limit and bool((left > -math.inf).any()):
        best, place = left.max(dim=-1)
        rounds.append(torch.where(best > -math.inf, place, -1))
        gone = _overlaps(run, ends, place) > allowed
        left = left.masked_fill(gone, -math.inf).scatter(-1, place.unsqueeze(-1), -math.inf)
    if not rounds:
        return torch.zeros((0, 3), dtype=torch.int64)
    picked = torch.stack(rounds, -1)
    rows = torch.nonzero(picked >= 0)
    return torch.cat([rows[:, :2], picked[picked >= 0].unsqueeze(-1)], 1)


def _box_ends(run: Run, boxes: Tensor) -> tuple[Tensor, Tensor]:
    """The lower and the upper corner of each box: two corners in any order, or centres and sizes, are given."""
    first, second = boxes.split(2, -1)
    if run.attribute("center_point_box", 0):
        return first - second / 2, first + second / 2
    return run.torch.minimum(first, second), run.torch.maximum(first, second)


def _overlaps(run: Run, ends: tuple[Tensor, Tensor], place: Tensor) -> Tensor:
    """The intersection over the union of one box for each batch and class with all boxes of its batch."""
    low, high = ends
    batches = run.torch.arange(len(low)).unsqueeze(-1)
    own_low, own_high = low[batches, place].unsqueeze(2), high[batches, place].unsqueeze(2)
    low, high = low.unsqueeze(1), high.unsqueeze(1)
    common = (run.torch.minimum(high, own_high) - run.torch.maximum(low, own_low)).clamp(min=0.0).prod(-1)
    union = (high - low).prod(-1) + (own_high - own_low).prod(-1) - common
    return run.torch.where(common > 0, common / union, 0.0)
