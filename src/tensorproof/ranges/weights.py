"""Summaries of large constants: what a product needs to know of its weights, in one pass over them.

The sum and the sum of absolute values of the terms of each output channel bound every product of that channel with an
operand that lies in one interval; their Euclidean norm, where it is asked for, bounds the product with a vector of known
length. They are computed in blocks that stay in the cache of the processor, in the arithmetic of the weights' own format or
float32, and hold rigorously: a sum of n float32 numbers is off by at most
n u sum|terms|, in any order (Jeannerod and Rump, SIAM J. Matrix Anal. Appl. 34, 2013), u = 2^-24. Blocks are added up in
float64. Weights are never copied as a whole, and what was found out about them is remembered
(`tensorproof.ranges.weight_cache`).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tensorproof.formats import Array, of_dtype
from tensorproof.ranges.weight_cache import cached, remembered
from tensorproof.ranges.weight_cache import use_cache as use_cache

Numbers = npt.NDArray[Any]
SumUp = Callable[[Numbers, Numbers], None]

#: Constants of more elements than this are used through their summaries where an analysis says so.
LARGE = 1 << 14
#: Elements that are summed at a time: they and a copy of them fit the second-level cache.
_BLOCK = 1 << 17
#: Partial sums that are kept before they are added up in float64.
_TILES = 32
#: Channels side by side in memory that are summed together.
_WIDTH = 1 << 12
#: Terms that are summed in one go in float32: their error stays below 2^-8 of their size.
_LONGEST = 1 << 16
#: Subnormal numbers may be flushed to zero by the arithmetic that sums them.
_FLUSHED = 2.0**-126
#: Norms below this may owe something to the squares that were flushed.
_TINY_NORM = 2.0**-40


@dataclass(frozen=True, slots=True)
class Channels:
    """Sums over the terms of each output channel.

    The exact sum of the terms lies within `error` of `total`; their absolute values sum to at most `absolute`.
    """

    total: Array
    error: Array
    absolute: Array

    def times(self, low: Array, high: Array) -> tuple[Array, Array, Array]:
        """Bounds of the sums of terms times factors that all lie in [low, high], and of the sums of absolute products.

        Up to float64 rounding of a few units of the last place of the absolute products.
        """
        centre = 0.5 * low + 0.5 * high
        radius = np.maximum(high - centre, centre - low)
        middle, reach = centre * self.total, np.abs(centre) * self.error + radius * self.absolute
        return middle - reach, middle + reach, np.maximum(np.abs(low), np.abs(high)) * self.absolute

    def partial_sums(self, low: Array, high: Array) -> tuple[Array, Array]:
        """The smallest and largest sum of some of the products: those of the negative and of the positive ones."""
        positive = np.maximum(0.5 * (self.absolute + self.total + self.error), 0.0)
        negative = np.maximum(0.5 * (self.absolute - self.total + self.error), 0.0)
        up, down = np.maximum(high, 0.0), np.maximum(-low, 0.0)
        return -(up * negative + down * positive), up * positive + down * negative

    def mapped(self, function: Callable[[Array], Array]) -> Channels:
        """The same sums, rearranged by a function of an array."""
        return Channels(function(self.total), function(self.error), function(self.absolute))

    def reshaped(self, shape: Sequence[int]) -> Channels:
        """The same sums in another shape."""
        return self.mapped(lambda array: array.reshape(shape))


def is_large(array: Numbers | None) -> bool:
    """Whether a constant is large enough that its summary should stand for it: floating, of many elements."""
    return array is not None and array.size > LARGE and of_dtype(array.dtype).is_float


def extent(array: Numbers) -> tuple[float, float] | None:
    """The smallest and the largest element of an array of floating numbers; None if one is not finite."""
    low, high = remembered(array, "extent", lambda: _ends_of(array))
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def _ends_of(array: Numbers) -> tuple[float, float]:
    if array.size and not any(array.strides):
        return float(array.flat[0]), float(array.flat[0])
    flat = _flat(_canonical(array)[0])
    ends = cached(flat, "extent", lambda: _extent(flat))[0]
    return float(ends[0]), float(ends[1])


def is_finite(array: Numbers) -> bool:
    """Whether all elements of an array of floating numbers are finite."""
    return remembered(array, "finite", lambda: extent(array) is not None)


def signs(array: Numbers) -> tuple[bool, bool]:
    """Whether no element of an array of finite floating numbers is negative, and whether none is positive."""
    return remembered(array, "signs", lambda: _signs(array))


def _signs(array: Numbers) -> tuple[bool, bool]:
    # Most weights show both signs at once.
    corner = array[(slice(0, 8),) * array.ndim]
    if corner.size and corner.min() < 0 < corner.max():
        return False, False
    ends = extent(array)
    return (False, False) if ends is None else (ends[0] >= 0.0, ends[1] <= 0.0)


def channels(array: Numbers, contracted: Sequence[int]) -> Channels:
    """Sums of an array of finite floating numbers over some axes; the other axes stay, in their order."""
    return remembered(array, ("channels", *contracted), lambda: Channels(*_over_channels(array, contracted, "channels")))


def channel_norms(array: Numbers, contracted: Sequence[int]) -> Array:
    """Bounds on the Euclidean norms of the terms that `channels` sums."""
    return remembered(array, ("norms", *contracted), lambda: _over_channels(array, contracted, "norms")[0])


def _over_channels(array: Numbers, contracted: Sequence[int], what: str) -> list[Array]:
    """Numbers for each channel of an array, its other axes in their order."""
    ordered, places = _canonical(array)
    axes = {axis % array.ndim for axis in contracted}
    found = _found(ordered, tuple(sorted(places[axis] for axis in axes)), what)
    kept = [places[axis] for axis in range(array.ndim) if axis not in axes]
    in_memory = sorted(kept)
    shape = [ordered.shape[place] for place in in_memory]
    back = [in_memory.index(place) for place in kept]
    return [part.reshape(shape) if kept == in_memory else part.reshape(shape).transpose(back) for part in found]


def survey(array: Numbers, contracted: Sequence[int]) -> None:
    """Find out in one pass what `channels` and `is_finite` will be asked for."""
    if bool(np.isfinite(channels(array, contracted).absolute).all()):
        remembered(array, "finite", lambda: True)


def norm_of(array: Numbers) -> float:
    """A bound on the Euclidean norm of all elements together (for a matrix: its Frobenius norm)."""
    flat = _flat(_canonical(array)[0])
    return float(cached(flat, "norm", lambda: _computed(flat, tuple(range(flat.ndim)), "norms"))[0].item())


def extents_along(array: Numbers, axis: int) -> tuple[Array, Array]:
    """The smallest and the largest element along one axis, for each place of the others (finite floating numbers)."""
    low, high = cached(array, f"extents {axis}", lambda: _extents_along(array, axis))
    return low, high


# -- one pass over the elements ---------------------------------------------------------------------------------------


def _canonical(array: Numbers) -> tuple[Numbers, tuple[int, ...]]:
    """The array with its axes in the order of the memory, and where each of its axes went."""
    array = np.asarray(array)
    if array.flags.c_contiguous:
        return array, tuple(range(array.ndim))
    order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    place = {axis: position for position, axis in enumerate(order)}
    return array.transpose(order), tuple(place[axis] for axis in range(array.ndim))


def _flat(ordered: Numbers) -> Numbers:
    """An array in the order of the memory as a row of numbers, if it lies in one piece."""
    return ordered.reshape(-1) if ordered.flags.c_contiguous else ordered


def _found(ordered: Numbers, axes: tuple[int, ...], what: str) -> tuple[Array, ...]:
    """What is asked of some axes of an array in the order of the memory; the same for all shapes that mean the same."""
    runs = _runs(ordered.shape, axes)
    flat = _flat(ordered)
    where = runs or (ordered.shape, axes)
    if ordered.dtype.itemsize == 2:
        # 16-bit numbers are converted before they are summed, and their norms are asked for as well: both at once.
        both = cached(flat, f"both {where}", lambda: _computed(ordered, axes, "both"))
        return both[3:] if what == "norms" else both[:3]
    return cached(flat, f"{what} {where}", lambda: _computed(ordered, axes, what))


def _blocks(array: Numbers) -> Iterator[Numbers]:
    """An array in pieces of a few hundred kilobytes (of which some may be empty)."""
    if array.ndim == 0 or array.size <= _BLOCK:
        yield array
        return
    row = max(1, array.size // len(array))
    if row > _BLOCK:
        for part in array:
            yield from _blocks(part)
        return
    step = max(1, _BLOCK // row)
    for start in range(0, len(array), step):
        yield array[start : start + step]


def _extent(array: Numbers) -> tuple[Array]:
    low, high = np.inf, -np.inf
    for block in _blocks(array):
        if not block.size:
            continue
        least, most = _ends(block, None)
        if not (math.isfinite(least) and math.isfinite(most)):
            return (np.array([np.nan, np.nan]),)
        low, high = min(low, float(least)), max(high, float(most))
    if low > high:
        low = high = 0.0
    return (np.array([low, high]),)


def _extents_along(array: Numbers, axis: int) -> tuple[Array, Array]:
    array = np.moveaxis(array, axis, 0)
    low, high = np.full(array.shape[1:], np.inf), np.full(array.shape[1:], -np.inf)
    step = max(1, 4 * _BLOCK // max(1, math.prod(array.shape[1:])))
    for start in range(0, len(array), step):
        least, most = _ends(array[start : start + step], 0)
        np.minimum(low, least, out=low)
        np.maximum(high, most, out=high)
    return low, high


def _ends(block: Numbers, axis: int | None) -> tuple[Any, Any]:
    """Minimum and maximum along an axis (or of all elements), exact; not finite where an element is not."""
    if not block.flags.aligned:
        block = block.copy()
    if block.dtype.itemsize == 2 and block.dtype.name in ("float16", "bfloat16"):
        return _narrow_ends(block, axis)
    if block.dtype != np.float32 and block.dtype != np.float64:
        block = block.astype(np.float32)
    return block.min(axis=axis), block.max(axis=axis)


def _narrow_ends(block: Numbers, axis: int | None) -> tuple[Any, Any]:
    """The same for 16-bit numbers, by their bits.

    As integers, numbers without sign are ordered as themselves, and numbers with sign (which are larger, read without
    sign) the other way round. Infinities and NaN are beyond all numbers of their sign.
    """
    signed, unsigned = block.view(np.int16), block.view(np.uint16)
    largest_bits, smallest_bits = unsigned.max(axis=axis), unsigned.min(axis=axis)
    most = np.where(smallest_bits < 0x8000, signed.max(axis=axis).astype(np.uint16), smallest_bits)
    least = np.where(largest_bits >= 0x8000, largest_bits, signed.min(axis=axis).astype(np.uint16))
    ends = np.stack((least, most)).astype(np.uint16).view(block.dtype).astype(np.float64)
    return ends[0], ends[1]


def _computed(array: Numbers, axes: tuple[int, ...], what: str) -> tuple[Array, ...]:
    """total, error and absolute ("channels"), the norm ("norms"), or all ("both") of an array with axes in the order of memory."""
    kept = tuple(axis for axis in range(array.ndim) if axis not in axes)
    shape = tuple(array.shape[axis] for axis in kept)
    runs = _runs(array.shape, axes)
    if runs is None:
        # An order of axes that no product of the table uses: the terms of each channel side by side, in one copy.
        array = np.moveaxis(array, kept, range(len(kept))).reshape(*shape, -1)
        axes, runs = (len(shape),), (1, 1, math.prod(shape), array.shape[-1])
    if array.size and not any(array.strides):
        return _of_one_number(float(array.flat[0]), shape, array.size // max(1, math.prod(shape)), what)
    quantity = _QUANTITIES[what]
    with np.errstate(all="ignore"):
        found = _Sums(quantity, array.dtype if array.dtype == np.float64 else np.dtype(np.float32)).of(array.reshape(runs))
        if not np.isfinite(found[-1]).all():
            # Sums beyond float32: once more in float64.
            found = _Sums(quantity, np.dtype(np.float64)).of(array.reshape(runs))
    if what != "channels" and not bool(((found[-1] > _TINY_NORM) & (found[-1] < np.inf)).all()):
        # Squares that under- or overflow say little; no vector is longer than the sum of its absolute elements.
        absolute = found[2] if what == "both" else _computed(array, axes, "channels")[2]
        found = *found[:-1], np.minimum(np.where(np.isnan(found[-1]), np.inf, found[-1]), absolute)
    return found


def _of_one_number(number: float, shape: tuple[int, ...], terms: int, what: str) -> tuple[Array, ...]:
    """`_computed` of an array that has the same element everywhere."""
    up = 1.0 + 2.0**-50
    absolute, norm = abs(number) * terms * up, np.full(shape, abs(number) * math.sqrt(terms) * up)
    sums = np.full(shape, number * terms), np.full(shape, 2.0**-40 * absolute), np.full(shape, absolute)
    return {"norms": (norm,), "channels": sums, "both": (*sums, norm)}[what]


def _runs(shape: tuple[int, ...], contracted: Sequence[int]) -> tuple[int, int, int, int] | None:
    """A shape as (kept, contracted, kept, contracted), adjacent axes of one kind together; None if there are more runs."""
    runs: list[tuple[bool, int]] = []
    for axis, size in enumerate(shape):
        kind = axis in contracted
        if size == 1:
            continue
        if runs and runs[-1][0] == kind:
            runs[-1] = kind, runs[-1][1] * size
        else:
            runs.append((kind, size))
    if not runs or runs[0][0]:
        runs.insert(0, (False, 1))
    if len(runs) > 4:
        return None
    # (kept, contracted): the contracted axes are the last, in rows of memory.
    sizes = [size for _, size in runs]
    if len(sizes) == 1:
        return 1, 1, sizes[0], 1
    if len(sizes) == 2:
        return 1, 1, sizes[0], sizes[1]
    return (*sizes, 1)[:4]  # type: ignore[return-value]


class _Sums:
    """Sums over the second and the last of four axes.

    Blocks are summed in a format of their own, in a table of partial sums that are added up in float64.
    """

    def __init__(self, quantity: _Quantity, dtype: np.dtype[Any]) -> None:
        self.quantity = quantity
        self.dtype = dtype
        self.ones = _ones(_LONGEST, dtype)
        self.longest = 0
        self.additions = 0

    def of(self, view: Numbers) -> tuple[Array, ...]:
        """What is proven of the elements of a view of four axes."""
        outer, first, inner, last = view.shape
        sums = np.zeros((self.quantity.rows, outer, inner))
        for index in range(outer):
            if last > 1:
                self._add_rows(sums[:, index], view[index].reshape(-1, last))
            else:
                self._add_columns(sums[:, index], view[index, :, :, 0])
        slack = self.longest * float(np.finfo(self.dtype).eps) / 2 + (self.additions + 16) * 2.0**-53
        return self.quantity.proven(sums, slack, first * last * _FLUSHED)

    def _block(self, block: Numbers) -> Numbers:
        if block.dtype == self.dtype and block.flags.aligned:
            return block
        converted = _scratch(block.shape, self.dtype, "converted")
        converted[...] = block
        return converted

    def _down(self, block: Numbers, out: Numbers) -> None:
        np.matmul(self.ones[: len(block)], block, out=out)

    def _across(self, block: Numbers, out: Numbers) -> None:
        np.matmul(block, self.ones[: block.shape[1]], out=out)

    def _add_columns(self, sums: Array, matrix: Numbers) -> None:
        """Channels are columns: bands of rows, cut into blocks that are as wide as rows of the memory allow."""
        terms, inner = matrix.shape
        width = max(1, min(inner, _WIDTH))
        height = max(1, min(terms, _BLOCK // width))
        table = np.empty((self.quantity.rows, min(_TILES, -(-terms // height)), width), self.dtype)
        for band in range(0, terms, height * _TILES):
            for left in range(0, inner, width):
                used = min(width, inner - left)
                tops = range(band, min(terms, band + height * _TILES), height)
                for place, top in enumerate(tops):
                    block = self._block(matrix[top : top + height, left : left + used])
                    self.quantity.summed(block, self._down, table[:, place, :used])
                sums[:, left : left + used] += np.matmul(self.ones[: len(tops)], table[:, : len(tops), :used])
                self.additions += 1
        # Sums of sums: (1 + h u)(1 + t u) <= 1 + (h + t + 1) u.
        self.longest = max(self.longest, height + _TILES + 1)

    def _add_rows(self, sums: Array, matrix: Numbers) -> None:
        """Channels are rows, of which each may stand for several: blocks of whole rows, or pieces of long ones."""
        count, last = matrix.shape
        length = min(last, _LONGEST)
        height = max(1, min(count, _BLOCK // length))
        table = np.empty((self.quantity.rows, count), self.dtype)
        for begin in range(0, last, length):
            for top in range(0, count, height):
                block = self._block(matrix[top : top + height, begin : begin + length])
                self.quantity.summed(block, self._across, table[:, top : top + len(block)])
            terms = count // sums.shape[1]
            sums += table.reshape(self.quantity.rows, terms, -1).sum(axis=1, dtype=np.float64)
            self.additions += terms + 1
        self.longest = max(self.longest, length)


def _sum_elements(block: Numbers, sum_up: SumUp, out: Numbers) -> None:
    """The elements themselves, and their absolute values."""
    sum_up(block, out[0])
    sum_up(np.abs(block, out=_scratch(block.shape, block.dtype, "computed")), out[1])


def _sum_squares(block: Numbers, sum_up: SumUp, out: Numbers) -> None:
    sum_up(np.multiply(block, block, out=_scratch(block.shape, block.dtype, "computed")), out[0])


def _sum_both(block: Numbers, sum_up: SumUp, out: Numbers) -> None:
    _sum_elements(block, sum_up, out[:2])
    _sum_squares(block, sum_up, out[2:])


def _channels_from(sums: Array, slack: float, lost: float) -> tuple[Array, ...]:
    total, absolute = sums
    # A channel without a term that is not zero is exactly zero.
    missed = np.where(absolute > 0.0, lost, 0.0)
    absolute = absolute * ((1.0 + 2.0**-40) / (1.0 - slack)) + missed
    # 2^-40 covers what is done with the sums in float64.
    return total, absolute * (slack * (1.0 + 2.0**-20) + 2.0**-40) + missed, absolute


def _norms_from(sums: Array, slack: float, lost: float) -> tuple[Array, ...]:
    return (np.sqrt(sums[0] * ((1.0 + 2.0**-40) / (1.0 - slack)) + lost) * (1.0 + 2.0**-22),)


def _both_from(sums: Array, slack: float, lost: float) -> tuple[Array, ...]:
    return (*_channels_from(sums[:2], slack, lost), *_norms_from(sums[2:], slack, lost))


class _Quantity(NamedTuple):
    """What is summed over a block, in how many rows, and what the sums prove.

    The sums are off by a share of the sum of absolute terms, and by a number where a term may underflow.
    """

    rows: int
    summed: Callable[[Numbers, SumUp, Numbers], None]
    proven: Callable[[Array, float, float], tuple[Array, ...]]


_QUANTITIES = {
    "channels": _Quantity(2, _sum_elements, _channels_from),
    "norms": _Quantity(1, _sum_squares, _norms_from),
    "both": _Quantity(3, _sum_both, _both_from),
}

_buffers = threading.local()


def _scratch(shape: tuple[int, ...], dtype: np.dtype[Any], use: str) -> Numbers:
    """A block to write into: one per thread, format and use, because a new one costs more than the sums."""
    buffers: dict[Any, Numbers] = _buffers.__dict__
    name, size = f"{use} {dtype.name}", math.prod(shape)
    buffer = buffers.get(name)
    if buffer is None or buffer.size < size:
        buffer = buffers[name] = np.empty(max(size, _BLOCK), dtype)
    return buffer[:size].reshape(shape)


@cache
def _ones(count: int, dtype: np.dtype[Any]) -> Numbers:
    return np.ones(count, dtype)
