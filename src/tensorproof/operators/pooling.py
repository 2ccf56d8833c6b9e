"""Pooling: averages, maxima and p-norms over sliding windows and over all of space."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.formats import INT64, Array
from tensorproof.graph import ABSENT
from tensorproof.operators.convolution import batched, by_rank, padded, spatial, unbatched
from tensorproof.operators.table import CORRECT, Attributed, Call, Mask, operator
from tensorproof.ranges.axis_maps import Mixture
from tensorproof.ranges.grid import Size, largest, smallest
from tensorproof.ranges.partial_sums import Sums, report_sum
from tensorproof.ranges.range import (
    CELL_BUDGET,
    INFINITIES,
    NAN,
    NEGATIVE_INFINITY,
    POSITIVE_INFINITY,
    Flags,
    Range,
)
from tensorproof.ranges.sums import keep_sign, summation_error
from tensorproof.ranges.windows import NOTHING, TABLE_BUDGET, Integers, Window, any_batch, merge_rows, sliding_windows
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW
from tensorproof.rules.empty_reduction import EMPTY_REDUCTION

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall

#: Elements of tables of windows over all axes at once (indices of maxima).
JOINT_BUDGET = 1 << 21


def pooling_windows(op: Attributed, space: Sequence[int]) -> list[Window]:
    """The windows of a pool along its spatial axes, from the node's attributes."""
    kernel = op.attribute("kernel_shape")
    if kernel is None:
        raise NotAnalysed("kernel_shape is missing")
    windows = sliding_windows(op, space, kernel, ceil_mode=bool(op.attribute("ceil_mode", 0)))
    if op.attribute("auto_pad") in ("SAME_UPPER", "SAME_LOWER") and any(
        w.output * w.stride - w.stride + w.span < w.size for w in windows
    ):
        # Windows that leave elements out: the padding that makes sizes the same would be negative. Some pools clamp it to
        # nothing, ONNX Runtime's AveragePool and the reference's MaxPool skip elements at the front.
        raise NotAnalysed("auto_pad needs a negative padding, which runtimes take differently")
    return windows


def _filled_windows(op: Call, x: Range) -> list[Window]:
    """The windows of a call, each of which must hold an element."""
    windows = pooling_windows(op, x.sizes[2:])
    for window in windows:
        if window.output and not (window.reads(window.representatives()) >= 0).any(axis=1).all():
            raise NotAnalysed("a window lies in the padding")
    return windows


# -- sums and averages ------------------------------------------------------------------------------------------------


def _special_sum(flags: Flags | None) -> Flags | None:
    """Special values of a sum: opposite infinities make NaN."""
    if flags is None:
        return None
    return np.where(flags & INFINITIES == INFINITIES, flags | np.uint8(NAN), flags)


def _average(op: Call, sums: Sums, count: int, x: Range, flags: Flags | None) -> tuple[Array, Array, Flags | None]:
    """Bounds of averages of at most `count` terms as computed: the sum may overflow before it is divided."""
    # One rounding less than terms for the sum, two for a division by way of the reciprocal.
    error = summation_error(op, sums.magnitude, count + 2, x.format, products=False)
    low, high = keep_sign(sums.low - error, sums.high + error, sums.nonnegative, sums.nonpositive)
    whole = Range.elements(x.format, low * count, high * count)
    report_sum(op, whole, (sums.magnitude + error) * count)
    return low, high, _special_sum(flags)


@operator("AveragePool", error=CORRECT, overflow=ACCUMULATION_OVERFLOW)
@any_batch
def average_pool(op: Call, x: Range) -> Range:
    """Increasing: the mean of each window, of zeros too where padding counts."""
    windows = _filled_windows(op, x)
    mixture = Mixture(x)
    for axis, window in enumerate(windows, start=2):
        outputs = window.representatives() if mixture.is_uniform(axis) else np.arange(window.output, dtype=np.int64)
        elements = window.reads(outputs)
        weights = np.where(elements != NOTHING, 1.0 / _counted(op, window, outputs)[:, None], 0.0)
        mixture.apply(axis, elements, weights, window.output)
    sums = Sums(mixture.low, mixture.high, mixture.magnitude, mixture.least >= 0, mixture.most <= 0)
    count = int(np.prod([window.kernel for window in windows], dtype=np.int64))
    return mixture.range(x, *_average(op, sums, count, x, mixture.flags))


@average_pool.meaning
def _(run: Run, x: Tensor) -> Tensor:
    windows = pooling_windows(run, x.shape[2:])

    def mean(taps: Tensor, window: Window) -> Tensor:
        counts = _counted(run, window, np.arange(window.output, dtype=np.int64))
        return taps.sum(dim=-1) / run.torch.from_numpy(counts).to(x.dtype)

    return _over_each_axis(padded(run, x, windows), windows, mean)


@average_pool.aten("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _(call: AtenCall) -> int:
    """The mean of each window; with `divisor_override` its sum divided by a number of one's own."""
    format, rank = call.result.format, _pooled_axes(call)
    attributes, divisor = _window_attributes(call, rank), call.get("divisor_override")
    includes_padding = bool(call["count_include_pad"])
    if divisor is not None:
        if attributes["ceil_mode"]:
            raise NotAnalysed("a divisor of one's own together with ceil_mode is not modelled")
        includes_padding = True
    x = batched(call, "self", rank, call.tensor("self", format))
    y = call.emit("AveragePool", x, count_include_pad=int(includes_padding), formats=(format,), **attributes)
    if divisor is not None:
        factor = call.value(math.prod(attributes["kernel_shape"]) / divisor, format)
        y = call.emit("Mul", y, factor, formats=(format,))
    return unbatched(call, "self", rank, y)


def _pooled_axes(call: AtenCall) -> int:
    """The number of spatial axes: the digit in the operator's name."""
    return int(next(letter for letter in call.name if letter.isdigit()))


def _window_attributes(call: AtenCall, rank: int) -> dict[str, Any]:
    kernel = spatial(call, "kernel_size", rank)
    return {
        "kernel_shape": kernel,
        "strides": spatial(call, "stride", rank) if call["stride"] else kernel,
        "pads": spatial(call, "padding", rank) * 2,
        "ceil_mode": int(bool(call["ceil_mode"])),
    }


def _counted(op: Attributed, window: Window, outputs: Integers) -> Integers:
    """By how many elements of a window its sum is divided."""
    if not op.attribute("count_include_pad", 0):
        return (window.reads(outputs) != NOTHING).sum(axis=1)
    # What ceil_mode adds behind the padded tensor never counts (ONNX AveragePool-22).
    return (window.positions(outputs) < window.end).sum(axis=1)


def _over_each_axis(x: Tensor, windows: Sequence[Window], reduced: Callable[[Tensor, Window], Tensor]) -> Tensor:
    """A padded tensor reduced over the windows of one spatial axis after the other.

    `reduced` gets a tensor with the outputs of an axis as its last but one axis, and their taps as the last.
    """
    for axis, window in enumerate(windows, start=2):
        taps = x.unfold(axis, window.span, window.stride)[..., :: window.dilation]
        x = reduced(taps.movedim(axis, -2), window).movedim(-1, axis)
    return x


@operator("GlobalAveragePool", error=CORRECT, overflow=ACCUMULATION_OVERFLOW)
def global_average_pool(op: Call, x: Range) -> Range:
    """Increasing: the mean over all of space."""
    shape, count = _over_space(x)
    low, high = _space_bounds(x)
    magnitude = np.maximum(np.abs(low), np.abs(high))
    axes = tuple(range(2, x.rank))
    nonnegative, nonpositive = np.all(low >= 0, axis=axes, keepdims=True), np.all(high <= 0, axis=axes, keepdims=True)
    for axis in axes:
        cuts = x.grid[axis]
        sizes = np.ones(1) if cuts is None else np.diff(cuts)
        weights = (sizes / max(1, sizes.sum())).reshape(-1, *(1,) * (x.rank - 1 - axis))
        low, high, magnitude = ((a * weights).sum(axis, keepdims=True) for a in (low, high, magnitude))
    flags = np.bitwise_or.reduce(x.special, axis=axes, keepdims=True) if x.has_special else None
    ends = _average(op, Sums(low, high, magnitude, nonnegative, nonpositive), count, x, flags)
    return Range(x.format, shape, (*x.grid[:2], *(None,) * len(axes)), *ends)


@global_average_pool.hazard(EMPTY_REDUCTION, gives=NAN)
def _(op: Call, x: Range) -> Mask:
    return x.shape is not None and any(smallest(size) == 0 for size in x.shape[2:])


@global_average_pool.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return x.mean(dim=tuple(range(2, x.ndim)), keepdim=True) if x.ndim > 2 else x


def _over_space(x: Range) -> tuple[tuple[Size, ...], int]:
    """The shape (N, C, 1, ...) and the number of elements that are reduced (the largest where data decide)."""
    if x.shape is None:
        raise NotAnalysed("the rank is not known")
    sizes = [largest(size) for size in x.shape[2:]]
    if None in sizes:
        raise NotAnalysed("the size of space has no bound")
    count = int(np.prod([size for size in sizes if size is not None], dtype=np.int64))
    return (*x.shape[:2], *(1,) * len(sizes)), count


def _space_bounds(x: Range) -> tuple[Array, Array]:
    """Finite bounds, zero where a cell has none."""
    if not x.has_special:
        return x.low, x.high
    empty = x.low > x.high
    return np.where(empty, 0.0, x.low), np.where(empty, 0.0, x.high)


# -- p-norms ----------------------------------------------------------------------------------------------------------


def _powers(x: Range, p: int) -> Range:
    """|x|^p in exact arithmetic."""
    low = np.where((x.low <= 0) & (x.high >= 0), 0.0, np.minimum(np.abs(x.low), np.abs(x.high)))
    high = np.maximum(np.abs(x.low), np.abs(x.high))
    empty = x.low > x.high
    low, high = np.where(empty, np.inf, low**p), np.where(empty, -np.inf, high**p)
    special: Flags | None = None
    if x.has_special:
        infinite = np.where(x.special & INFINITIES, np.uint8(POSITIVE_INFINITY), np.uint8(0))
        special = (x.special & np.uint8(NAN)) | infinite
    return x.replace(low, high, special)


def _norm(op: Call, sums: Range, terms: int, p: int) -> Range:
    """The p-th root of a sum of p-th powers; every step rounds, and powers may underflow.

    Powers and roots of runtimes stay within 4 units of the last place, 8u of the value (`FAITHFUL`).
    """
    error = summation_error(op, sums.high, terms + 8, sums.format)
    low, high = np.maximum(sums.low - error, 0.0), sums.high + error
    report_sum(op, sums.replace(low, high, sums.special), high)
    slack = 8 * sums.format.unit_roundoff if p > 1 else 0.0
    # The float64 root is exact to a few units of 2^-53.
    root_low, root_high = low ** (1.0 / p) * (1 - slack - 2.0**-50), high ** (1.0 / p) * (1 + slack + 2.0**-50)
    return sums.replace(root_low, root_high, sums.special)


@operator("LpPool", error=CORRECT, overflow=ACCUMULATION_OVERFLOW, codomain=(0.0, np.inf))
@any_batch
def lp_pool(op: Call, x: Range) -> Range:
    """Increasing in every |x|: the p-norm of each window."""
    windows = _filled_windows(op, x)
    p = int(op.attribute("p", 2))
    mixture = Mixture(_powers(x, p))
    for axis, window in enumerate(windows, start=2):
        outputs = window.representatives() if mixture.is_uniform(axis) else np.arange(window.output, dtype=np.int64)
        elements = window.reads(outputs)
        mixture.apply(axis, elements, np.where(elements != NOTHING, 1.0, 0.0), window.output)
    sums = mixture.range(x, mixture.low, mixture.high, mixture.flags)
    return _norm(op, sums, int(np.prod([window.kernel for window in windows])), p)


@lp_pool.meaning
def _(run: Run, x: Tensor) -> Tensor:
    windows = pooling_windows(run, x.shape[2:])
    p = float(run.attribute("p", 2))

    def norm(taps: Tensor, window: Window) -> Tensor:
        # The norm over several axes is the norm of norms over one axis each.
        return run.torch.linalg.vector_norm(taps, p, dim=-1)

    return _over_each_axis(padded(run, x, windows), windows, norm)


@operator("GlobalLpPool", error=CORRECT, overflow=ACCUMULATION_OVERFLOW, codomain=(0.0, np.inf))
def global_lp_pool(op: Call, x: Range) -> Range:
    """Increasing in every |x|: the p-norm over all of space."""
    p = int(op.attribute("p", 2))
    shape, count = _over_space(x)
    powers = _powers(x, p)
    low, high = _space_bounds(powers)
    assert x.shape is not None
    for axis in range(2, x.rank):
        cuts, size = x.grid[axis], x.shape[axis]
        most = np.array([float(largest(size) or 0)]) if cuts is None else np.diff(cuts).astype(np.float64)
        fewest = np.array([float(smallest(size))]) if cuts is None else most
        tail = (1,) * (x.rank - 1 - axis)
        low = (low * fewest.reshape(-1, *tail)).sum(axis, keepdims=True)
        high = (high * most.reshape(-1, *tail)).sum(axis, keepdims=True)
    flags = None
    if powers.has_special:
        flags = np.bitwise_or.reduce(powers.special, axis=tuple(range(2, x.rank)), keepdims=True)
    sums = Range(x.format, shape, (*x.grid[:2], *(None,) * (x.rank - 2)), low, high, flags)
    return _norm(op, sums, count, p)


@global_lp_pool.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return run.torch.linalg.vector_norm(x, float(run.attribute("p", 2)), dim=tuple(range(2, x.ndim)), keepdim=True)


# -- maxima -----------------------------------------------------------------------------------------------------------


class _Maximum:
    """What decides a maximum, reduced axis by axis.

    `sure` is a lower bound of the largest element that is certainly compared (-inf where it may be NaN or -inf itself), `most`
    the largest finite value.
    """

    def __init__(self, x: Range) -> None:
        self.x = x
        special = x.special
        low, _ = x.extended()
        self.sure = np.where(special & NAN, -np.inf, low)
        self.most = x.high
        self.some = special & np.uint8(NAN | POSITIVE_INFINITY)
        self.every = special & np.uint8(NEGATIVE_INFINITY)

    def reduce(self, step: Any) -> None:
        """`step(array, ufunc)` reduces one array by a function."""
        self.sure, self.most = step(self.sure, np.maximum), step(self.most, np.maximum)
        if self.x.has_special:
            self.some = step(self.some, np.bitwise_or)
            self.every = step(self.every, np.bitwise_and)

    def result(self, shape: Any, grid: Any) -> Range:
        fmt = self.x.format
        if not self.x.has_special:
            return Range(fmt, shape, grid, self.sure, self.most)
        # Searches begin at the lowest number: -inf does not exceed it, and NaN, compared as false, may hide what came before.
        unsure = ((self.some & NAN) != 0) | (self.sure == -np.inf)
        low = np.where(unsure, fmt.low, self.sure)
        high = np.where(unsure, np.maximum(self.most, fmt.low), self.most)
        empty = low > high
        return Range(fmt, shape, grid, np.where(empty, np.inf, low), np.where(empty, -np.inf, high), self.some | self.every)


def _window_maximum(x: Range, windows: Sequence[Window], first: int) -> Range:
    """The maximum over windows along the axes from `first` on; padding never wins."""
    maximum = _Maximum(x)
    grid, shape = list(x.grid), list(x.sizes)
    for axis, window in enumerate(windows, start=first):
        shape[axis] = window.output
        cuts = grid[axis]
        if window.output == 0:
            grid[axis] = np.zeros(1, np.int64)
            maximum.reduce(lambda a, f, axis=axis: np.take(a, np.zeros(0, np.int64), axis))
            continue
        if cuts is None:
            continue
        if window.output * window.kernel > TABLE_BUDGET * 16:
            grid[axis] = None
            maximum.reduce(lambda a, f, axis=axis: f.reduce(a, axis=axis, keepdims=True))
            continue
        elements = window.reads(np.arange(window.output, dtype=np.int64))
        taps = merge_rows(_as_sets(np.where(elements >= 0, np.searchsorted(cuts, elements, side="right") - 1, NOTHING)))
        grid[axis] = taps.cuts
        maximum.reduce(lambda a, f, axis=axis, cells=taps.cells: _over_taps(a, f, axis, cells))
    return maximum.result(tuple(shape), tuple(grid))


def _as_sets(cells: Integers) -> Integers:
    """Rows as sets: NOTHING and repeated cells replaced by the largest cell of the row, sorted."""
    top = cells.max(axis=1, keepdims=True)
    cells = np.sort(np.where(cells == NOTHING, top, cells), axis=1)
    repeated = np.zeros(cells.shape, bool)
    repeated[:, 1:] = cells[:, 1:] == cells[:, :-1]
    return np.sort(np.where(repeated, top, cells), axis=1)


def _over_taps(array: npt.NDArray[Any], function: Any, axis: int, cells: Integers) -> npt.NDArray[Any]:
    result = np.take(array, cells[:, 0], axis)
    for tap in range(1, cells.shape[1]):
        result = function(result, np.take(array, cells[:, tap], axis))
    return result


@operator("MaxPool")
@any_batch
def max_pool(op: Call, x: Range) -> tuple[Range, ...]:
    """Increasing and exact: the maximum of each window; padding never wins."""
    windows = _filled_windows(op, x)
    result = _window_maximum(x, windows, 2)
    if op.outputs < 2:
        return (result,)
    return result, _indices_of_maxima(op, x, windows)


@max_pool.meaning
def _(run: Run, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
    windows = pooling_windows(run, x.shape[2:])
    largest, places = largest_of_windows(run, x, windows)
    return largest if run.outputs < 2 else (largest, _without_padding(run, x, places, windows))


@max_pool.aten("max_pool1d", "max_pool2d", "max_pool3d")
def _(call: AtenCall) -> int:
    rank = _pooled_axes(call)
    x = batched(call, "self", rank, call.tensor("self"))
    attributes = _window_attributes(call, rank)
    y = call.moved("MaxPool", x, dilations=spatial(call, "dilation", rank), **attributes)
    return unbatched(call, "self", rank, y)


@max_pool.aten("max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices")
def _(call: AtenCall) -> tuple[int, int]:
    rank = _pooled_axes(call)
    return _maxima_with_places(call, rank, dilations=spatial(call, "dilation", rank), **_window_attributes(call, rank))


def _maxima_with_places(call: AtenCall, rank: int, **attributes: Any) -> tuple[int, int]:
    """Maxima and where they stand; torch counts places from the beginning of each plane."""
    space = (call.handle("self").shape or ())[-rank:]
    if not all(isinstance(size, int) for size in space):
        raise NotAnalysed("the size of a plane is not fixed")
    x = batched(call, "self", rank, call.tensor("self"))
    formats = (call.result.format, INT64)
    y, places = call.emit("MaxPool", x, outputs=2, formats=formats, **attributes)
    plane = call.constant(np.array(math.prod(int(size or 0) for size in space), np.int64))
    places = call.emit("Mod", places, plane, formats=(INT64,))
    return unbatched(call, "self", rank, y), unbatched(call, "self", rank, places)


def _without_padding(run: Run, x: Tensor, places: Tensor, windows: Sequence[Window]) -> Tensor:
    """Places in padded planes as indices into the whole tensor, in the order that the node counts in."""
    axes = range(len(windows))
    stride, strides = 1, [0] * len(windows)
    # ONNX MaxPool-12: storage_order 1 counts the first spatial axis fastest.
    for axis in axes if run.attribute("storage_order", 0) else reversed(axes):
        strides[axis], stride = stride, stride * windows[axis].size
    planes = run.torch.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *(1,) * len(windows))
    index = planes * stride
    for axis in reversed(axes):
        index = index + (places % windows[axis].reach - windows[axis].pad) * strides[axis]
        places = places // windows[axis].reach
    return index


def largest_of_windows(run: Run, x: Tensor, windows: Sequence[Window]) -> tuple[Tensor, Tensor]:
    """The maxima of all windows, and their places in the padded planes; torch knows floating numbers only."""
    values = x if x.dtype.is_floating_point else x.to(run.torch.float64)
    largest, places = by_rank(run, "max_pool", len(windows))(
        padded(run, values, windows, -math.inf),
        [window.kernel for window in windows],
        [window.stride for window in windows],
        dilation=[window.dilation for window in windows],
        return_indices=True,
    )
    return largest.to(x.dtype), places


def _indices_of_maxima(op: Call, x: Range, windows: Sequence[Window]) -> Range:
    """Where the maxima stand: the first largest element in row-major order, as an index into the whole tensor."""
    shape = (*x.sizes[:2], *(window.output for window in windows))
    space = x.sizes[2:]
    taps = int(np.prod([window.kernel for window in windows], dtype=np.int64))
    if 0 in shape or x.has_special or x.size > CELL_BUDGET or int(np.prod(shape, dtype=np.int64)) * taps > JOINT_BUDGET:
        return Range.uniform(shape, INT64, 0.0, float(max(x.size - 1, 0)))
    order = np.arange(int(np.prod(space, dtype=np.int64)))
    # ONNX MaxPool-12: storage_order 1 counts the first spatial axis fastest.
    numbers = order.reshape(space, order="F" if op.attribute("storage_order", 0) else "C")
    low, high, _ = x.expanded()
    rows = [window.reads(np.arange(window.output, dtype=np.int64)) for window in windows]
    outside = np.zeros((1,) * (2 * len(rows)), bool)
    for axis, row in enumerate(rows):
        outside = outside | (row == NOTHING).reshape([s for i in range(len(rows)) for s in (row.shape if i == axis else (1, 1))])

    def gathered(array: npt.NDArray[Any], first: int) -> npt.NDArray[Any]:
        for axis, row in enumerate(rows):
            at = first + 2 * axis
            array = np.take(array, row.reshape(-1), at)
            array = array.reshape(*array.shape[:at], *row.shape, *array.shape[at + 1 :])
        return array

    def taps_last(array: npt.NDArray[Any], first: int) -> npt.NDArray[Any]:
        count = len(rows)
        keep = [first + 2 * i for i in range(count)]
        order = (*range(first), *keep, *(k + 1 for k in keep))
        array = np.transpose(array, order)
        return array.reshape(*array.shape[: first + count], -1)

    low_taps = taps_last(np.where(outside, -np.inf, gathered(low, 2)), 2)
    high_taps = taps_last(np.where(outside, -np.inf, gathered(high, 2)), 2)
    index = taps_last(np.broadcast_to(gathered(numbers, 0), [s for row in rows for s in row.shape]), 0)
    none = np.full((*low_taps.shape[:-1], 1), -np.inf)
    before = np.concatenate((none, np.maximum.accumulate(low_taps, axis=-1)[..., :-1]), axis=-1)
    after = np.concatenate((np.maximum.accumulate(low_taps[..., ::-1], axis=-1)[..., ::-1][..., 1:], none), axis=-1)
    # An element wins if it exceeds all earlier ones and no later one exceeds it.
    wins = (high_taps > before) & (high_taps >= after)
    planes = np.arange(shape[0] * shape[1]).reshape(*shape[:2], *(1,) * len(rows)) * len(order)
    smallest = np.where(wins, index, np.iinfo(np.int64).max).min(axis=-1) + planes
    largest_ = np.where(wins, index, -1).max(axis=-1) + planes
    return Range.elements(INT64, smallest.astype(np.float64), largest_.astype(np.float64))


@operator("NhwcMaxPool", domain="com.microsoft")
@any_batch
def nhwc_max_pool(op: Call, x: Range) -> Range:
    """MaxPool of 8-bit integers with the channels last."""
    kernel = op.attribute("kernel_shape")
    windows = sliding_windows(op, x.sizes[1:-1], kernel, ceil_mode=bool(op.attribute("ceil_mode", 0)))
    return _window_maximum(x, windows, 1)


@nhwc_max_pool.meaning
def _(run: Run, x: Tensor) -> Tensor:
    channels_first = x.movedim(-1, 1)
    largest, _ = largest_of_windows(run, channels_first, pooling_windows(run, channels_first.shape[2:]))
    return largest.movedim(1, -1)


@operator("GlobalMaxPool")
def global_max_pool(op: Call, x: Range) -> Range:
    """Increasing and exact: the maximum over all of space."""
    if x.shape is None:
        raise NotAnalysed("the rank is not known")
    if 0 in x.shape[2:]:
        raise NotAnalysed("the maximum of no elements")
    maximum = _Maximum(x)
    axes = tuple(range(2, x.rank))
    maximum.reduce(lambda a, f: f.reduce(a, axis=axes, keepdims=True))
    return maximum.result((*x.shape[:2], *(1,) * len(axes)), (*x.grid[:2], *(None,) * len(axes)))


@global_max_pool.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return x.amax(dim=tuple(range(2, x.ndim)), keepdim=True) if x.ndim > 2 else x


# -- a given number of windows ----------------------------------------------------------------------------------------


@average_pool.aten(
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d"
)
def _(call: AtenCall) -> int:
    """The mean of each of so many windows, which share elements where their number does not divide the size."""
    format, rank = call.result.format, _pooled_axes(call)
    x = call.tensor("self", format)
    wanted = spatial(call, "output_size", rank)
    if all(count == 1 for count in wanted):
        # Any size, a symbolic one included.
        axes = call.constant(np.arange(-rank, 0, dtype=np.int64))
        return call.emit("ReduceMean", x, axes, keepdims=1, formats=(format,))
    sizes = _fixed_space(call, rank)
    if all(size % count == 0 for size, count in zip(sizes, wanted, strict=True)):
        kernel = [size // count for size, count in zip(sizes, wanted, strict=True)]
        y = call.emit("AveragePool", batched(call, "self", rank, x), kernel_shape=kernel, strides=kernel, formats=(format,))
        return unbatched(call, "self", rank, y)
    for axis, (size, count) in enumerate(zip(sizes, wanted, strict=True), start=call.rank("self") - rank):
        weights = np.zeros((size, count))
        for position, (begin, end) in enumerate(_shares(size, count)):
            weights[begin:end, position] = 1.0 / (end - begin)
        order = [*(a for a in range(call.rank("self")) if a != axis), axis]
        turned = call.moved("Transpose", x, perm=order)
        means = call.emit("MatMul", turned, call.constant(weights, format), formats=(format,))
        x = call.moved("Transpose", means, perm=[order.index(a) for a in range(call.rank("self"))])
    return x


@max_pool.aten("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def _(call: AtenCall) -> tuple[int, int]:
    """The maximum of each of so many windows; where they stand is only known where the windows are alike."""
    rank = _pooled_axes(call)
    sizes, wanted = _fixed_space(call, rank), spatial(call, "output_size", rank)
    if all(size % count == 0 for size, count in zip(sizes, wanted, strict=True)):
        kernel = [size // count for size, count in zip(sizes, wanted, strict=True)]
        return _maxima_with_places(call, rank, kernel_shape=kernel, strides=kernel)
    x = call.tensor("self")
    for axis, (size, count) in enumerate(zip(sizes, wanted, strict=True), start=call.rank("self") - rank):
        shares = _shares(size, count)
        longest = max(end - begin for begin, end in shares)
        # A window's last element is read again until all windows are equally long.
        taps = np.array([[min(begin + tap, end - 1) for tap in range(longest)] for begin, end in shares], np.int64)
        gathered = call.moved("Gather", x, call.constant(taps), axis=axis)
        x = call.moved("ReduceMax", gathered, call.constant(np.array([axis + 1], np.int64)), keepdims=0)
    return x, ABSENT


def _fixed_space(call: AtenCall, rank: int) -> list[int]:
    space = (call.handle("self").shape or ())[-rank:]
    if not all(isinstance(size, int) for size in space):
        raise NotAnalysed("the size that is shared out is not fixed")
    return [int(size or 0) for size in space]


def _shares(size: int, count: int) -> list[tuple[int, int]]:
    """The windows of an adaptive pool: from floor(i size / count) to ceil((i + 1) size / count)."""
    return [(index * size // count, -((index + 1) * size // -count)) for index in range(count)]


# -- the way back -----------------------------------------------------------------------------------------------------


@operator(
    "MaxUnpool",
    coarse="with output_shape, the standard's test counts indices in the inferred shape, runtimes in the given one: both are kept",
    steered_by=(1, 2),
)
def max_unpool(op: Call, x: Range, indices: Range, output_shape: Range | None = None) -> Range:
    """Elements moved to their indices, zero elsewhere."""
    inferred = _unpooled_shape(op, x.sizes)
    given = op.integers("output_shape", output_shape)
    shape = inferred if given is None else tuple(given)
    where = indices.integers() if indices.size <= CELL_BUDGET or indices.array is not None else None
    total = int(np.prod(shape, dtype=np.int64))
    if where is None or max(x.size, total) > JOINT_BUDGET or (where < 0).any():
        low, high = x.hull()
        return Range.uniform(shape, x.format, min(low, 0.0), max(high, 0.0), x.any_special)
    direct = _scattered(x, where, shape)
    if given is None or shape == inferred:
        return direct
    # Indices count in the inferred shape (the standard's node test) or in the given one (ONNX Runtime): both are possible.
    inner = _scattered(x, where, inferred)
    pads_after = [(0, max(0, size - own)) for size, own in zip(shape, inferred)]
    window = tuple(slice(0, size) for size in shape)
    padded = inner.select(lambda a: np.pad(a, pads_after)[window])
    return direct.join(padded)


@max_unpool.meaning
def _(run: Run, x: Tensor, indices: Tensor, output_shape: Tensor | None = None) -> Tensor:
    # Indices count in the given shape, as in ONNX Runtime; the standard's node test lets them count in the inferred one.
    shape = run.integers("output_shape", output_shape) or _unpooled_shape(run, x.shape)
    flat = x.new_zeros(math.prod(shape)).scatter(0, run.whole(indices).reshape(-1), x.reshape(-1))
    return flat.reshape(shape)


def _unpooled_shape(op: Attributed, sizes: Sequence[int]) -> tuple[int, ...]:
    """The shape that a tensor had before it was pooled, as far as the pooled one tells (ONNX MaxUnpool-22)."""
    kernel = op.attribute("kernel_shape")
    rank = len(kernel)
    strides, pads = op.attribute("strides") or [1] * rank, op.attribute("pads") or [0] * (2 * rank)
    space = ((sizes[2 + i] - 1) * strides[i] - pads[i] - pads[rank + i] + kernel[i] for i in range(rank))
    return *sizes[:2], *space


def _scattered(x: Range, where: Integers, shape: tuple[int, ...]) -> Range:
    """Zeros with the elements of x at these places of the flattened tensor; several at one place join."""
    low, high, special = x.expanded()
    total = int(np.prod(shape, dtype=np.int64))
    at = np.minimum(where.reshape(-1), total)
    new_low, new_high = np.full(total + 1, np.inf), np.full(total + 1, -np.inf)
    flags = np.zeros(total + 1, np.uint8)
    np.minimum.at(new_low, at, low.reshape(-1))
    np.maximum.at(new_high, at, high.reshape(-1))
    np.bitwise_or.at(flags, at, special.reshape(-1))
    untouched = np.ones(total + 1, bool)
    untouched[at] = False
    new_low[untouched] = new_high[untouched] = 0.0
    return Range.elements(x.format, new_low[:-1].reshape(shape), new_high[:-1].reshape(shape), flags[:-1].reshape(shape))
