"""Products along axes, and running sums and products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.errors import NotAnalysed, UnknownShape
from tensorproof.formats import Array, Format
from tensorproof.operators.reductions import axes_of, fold_of, reduced
from tensorproof.operators.table import CORRECT, RESULT, Call, operator
from tensorproof.ranges.elementwise import corners, product
from tensorproof.ranges.folds import normalised_axis, sum_flags
from tensorproof.ranges.grid import cell_sizes, largest
from tensorproof.ranges.range import (
    CELL_BUDGET,
    INFINITIES,
    NAN,
    POSITIVE_INFINITY,
    SPECIALS,
    Flags,
    Range,
)
from tensorproof.ranges.sums import keep_sign, product_growth, report_partial_overflow, summation_error
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall

Times = Array | float


@operator("ReduceProd", error=CORRECT, overflow=ACCUMULATION_OVERFLOW, steered_by=(1,))
def reduce_prod(op: Call, x: Range, axes: Range | None = None) -> Range:
    """Multilinear: extremes from the ends of all cells, by the parity of the negative factors; 1 of nothing."""
    fold = fold_of(op, x, axes)
    low, high = fold.finite()
    counts, times = fold.counts(), fold.repeats
    exact = _powers(low, high, counts)
    for axis in fold.axes:
        exact = _multiplied_along(*exact, axis)
    if fold.fixed_terms is None:
        exact = _some_powers(*exact, fold.fewest, times)
    reach = _reach(low, high, counts).prod(axis=fold.axes, keepdims=True) ** times
    result_low, result_high = _computed_product(op, *exact, reach, fold.terms, x.format)
    if not x.format.is_float:
        return fold.result(result_low, result_high)
    positive = ~fold.any(low < 0.0)
    depth = _depth(low, high, counts).prod(axis=fold.axes, keepdims=True) ** times
    vanishes = depth < x.format.smallest_subnormal
    flags = None
    if x.has_special:
        flags = _product_flags(fold.union(x.special), positive & ~fold.any(x.extended()[0] < 0.0), vanishes)
        never_finite = fold.any(x.low > x.high) & (fold.fewest > 0)
        result_low = np.where(never_finite, np.inf, result_low)
        result_high = np.where(never_finite, -np.inf, result_high)
    result = fold.result(result_low, result_high, flags)
    _report_product_overflow(op, result, reach.reshape(result.cells), bool(positive.all()), bool(vanishes.any()))
    return result


@reduce_prod.meaning
def _(run: Run, x: Tensor, axes: Tensor | None = None) -> Tensor:
    for axis in sorted(axes_of(run, x, axes), reverse=True):
        x = x.prod(axis, keepdim=bool(run.attribute("keepdims", 1)), dtype=x.dtype)
    return x


@reduce_prod.aten("prod", "prod.dim_int")
def _(call: AtenCall) -> int:
    return reduced(call, "ReduceProd")


@operator("CumSum", error=CORRECT, overflow=ACCUMULATION_OVERFLOW, steered_by=(1,))
def cumsum(op: Call, x: Range, axis: Range) -> Range:
    """Increasing in every element up to the own one (excluded if exclusive; from the end on if reverse)."""
    scan = Scan.of(op, x, axis)
    if not scan.low.size:
        return scan.x

    def total(values: Array, times: Times) -> Array:
        """All cells before, and `times` elements of the own cell."""
        return shifted(np.cumsum(values * scan.sizes, axis=scan.axis), scan.axis, 0.0) + values * times

    format = x.format
    magnitude = total(np.maximum(np.abs(scan.low), np.abs(scan.high)), scan.most)
    terms = total(np.ones_like(scan.low), scan.most)
    error = summation_error(op, magnitude, terms, format, products=False)
    low = np.minimum(total(scan.low, scan.fewest), total(scan.low, scan.most)) - error
    high = np.maximum(total(scan.high, scan.fewest), total(scan.high, scan.most)) + error
    below, above = total(np.minimum(scan.low, 0.0), scan.most), total(np.maximum(scan.high, 0.0), scan.most)
    low, high = keep_sign(low, high, below >= 0.0, above <= 0.0)
    flags = sum_flags(scan.flags())
    result = scan.result(low, high, flags)
    report_partial_overflow(op, result, scan.unflipped(below - error), scan.unflipped(above + error))
    return result


@cumsum.meaning
def _(run: Run, x: Tensor, axis: Tensor) -> Tensor:
    return _running(run, x, axis, run.torch.cumsum, 0)


@operator("CumProd", error=CORRECT, overflow=ACCUMULATION_OVERFLOW)
def cumprod(op: Call, x: Range, axis: Range) -> Range:
    """Multilinear in the elements up to the own one (excluded if exclusive; from the end on if reverse)."""
    scan = Scan.of(op, x, axis)
    if not scan.low.size:
        return scan.x
    before = _running_product(*_powers(scan.low, scan.high, scan.sizes), scan.axis)
    before = shifted(before[0], scan.axis, 1.0), shifted(before[1], scan.axis, 1.0)
    own = _some_powers(scan.low, scan.high, scan.fewest, scan.most)
    exact = corners(product)(*before, *own)
    reach = shifted(np.cumprod(_reach(scan.low, scan.high, scan.sizes), axis=scan.axis), scan.axis, 1.0)
    reach = reach * _reach(scan.low, scan.high, scan.most)
    ones = np.ones_like(scan.low)
    terms = shifted(np.cumsum(ones * scan.sizes, axis=scan.axis), scan.axis, 0.0) + scan.most
    low, high = _computed_product(op, *exact, reach, terms, x.format)
    flags = _product_flags(scan.flags(), np.False_, np.True_)
    result = scan.result(low, high, flags)
    depth = _depth(scan.low, scan.high, scan.sizes).prod(axis=scan.axis)
    vanishes = bool((depth < x.format.smallest_subnormal).any())
    _report_product_overflow(op, result, scan.unflipped(reach), not (scan.low < 0.0).any(), vanishes)
    return result


@cumprod.meaning
def _(run: Run, x: Tensor, axis: Tensor) -> Tensor:
    return _running(run, x, axis, run.torch.cumprod, 1)


@cumsum.aten("cumsum")
def _(call: AtenCall) -> int:
    return _along(call, "CumSum")


@cumprod.aten("cumprod")
def _(call: AtenCall) -> int:
    return _along(call, "CumProd")


def _along(call: AtenCall, op: str) -> int:
    """A running sum or product of torch; a single number is its own."""
    x = call.tensor("self", call.result.format)
    if not call.rank("self"):
        return call.moved("Identity", x)
    return call.emit(op, x, call.constant(np.array(call["dim"], np.int64)), formats=(call.result.format,))


def _running(run: Run, x: Tensor, operand: Tensor, function: Callable[..., Tensor], first: int) -> Tensor:
    """A running sum or product; exclusive ones start with the result of nothing."""
    axis = normalised_axis(int(run.whole(operand)), x.dim())
    size, reverse = x.shape[axis], bool(run.attribute("reverse", 0))
    terms = x.flip(axis) if reverse else x
    if size and run.attribute("exclusive", 0):
        start = run.torch.full_like(terms.narrow(axis, 0, 1), first)
        terms = run.torch.cat([start, terms.narrow(axis, 0, size - 1)], axis)
    results = function(terms, axis, dtype=x.dtype)
    return results.flip(axis) if reverse else results


# -- running along an axis -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scan:
    """The cells of a range in the order in which a running operator meets them along an axis.

    A cell of n elements takes part between `fewest` and `most` times in the results of its own elements, and `sizes`
    times in those of all cells behind it. An axis that is too long for one cell per element keeps its cells.
    """

    x: Range
    axis: int
    reverse: bool
    exclusive: bool
    low: Array
    high: Array
    sizes: Array
    fewest: float
    most: Array

    @classmethod
    def of(cls, op: Call, x: Range, operand: Range | None) -> Scan:
        axes = op.integers("axis", operand)
        if not axes:
            raise NotAnalysed("axis is not given")
        axis = normalised_axis(axes[0], x.rank)
        reverse, exclusive = bool(op.attribute("reverse", 0)), bool(op.attribute("exclusive", 0))
        assert x.shape is not None
        size = x.shape[axis]
        if isinstance(size, int):
            others = int(np.prod(x.cells, dtype=np.int64)) // max(x.cells[axis], 1)
            if x.array is None and size * others <= CELL_BUDGET:
                x = x.refine_fully(axis)
            sizes = cell_sizes(x.grid, x.shape or (), axis).astype(np.float64)
        elif (bound := largest(size)) is not None:
            sizes = np.array([float(bound)])
        else:
            raise UnknownShape("the number of elements along the axis depends on the data")
        sizes = sizes.reshape([-1 if i == axis else 1 for i in range(x.rank)])
        empty = x.low > x.high
        low, high = np.where(empty, 0.0, x.low), np.where(empty, 0.0, x.high)
        if reverse:
            low, high, sizes = np.flip(low, axis), np.flip(high, axis), np.flip(sizes, axis)
        fewest, most = (0.0, np.maximum(sizes - 1.0, 0.0)) if exclusive else (1.0, sizes)
        return cls(x, axis, reverse, exclusive, low, high, sizes, fewest, most)

    def unflipped(self, array: Any) -> Any:
        """An array of results in the order of the tensor."""
        return np.flip(array, self.axis) if self.reverse else array

    def flags(self) -> Flags:
        """The special values that take part in each result."""
        flags = self.unflipped(self.x.special)
        running = np.bitwise_or.accumulate(flags, axis=self.axis)
        before = shifted(running, self.axis, 0)
        return before | np.where(self.most > 0.0, flags, np.uint8(0))

    def result(self, low: Array, high: Array, flags: Flags) -> Range:
        """The results as a range."""
        if self.x.has_special:
            empty = self.unflipped(self.x.low > self.x.high)
            running = np.logical_or.accumulate(empty, axis=self.axis)
            never_finite = shifted(running, self.axis, False) if self.exclusive else running
            low, high = np.where(never_finite, np.inf, low), np.where(never_finite, -np.inf, high)
        return self.x.replace(self.unflipped(low), self.unflipped(high), self.unflipped(flags))


def shifted(values: Any, axis: int, first: Any) -> Any:
    """Running results of the cells before each one; `first` before the first."""
    shifted = np.full_like(values, first)
    target: list[slice] = [slice(None)] * values.ndim
    source: list[slice] = [slice(None)] * values.ndim
    target[axis], source[axis] = slice(1, None), slice(None, -1)
    shifted[tuple(target)] = values[tuple(source)]
    return shifted


# -- products of intervals -------------------------------------------------------------------------------------------


def _powers(low: Array, high: Array, count: Times) -> tuple[Array, Array]:
    """The hull of all products of `count` factors in [low, high], each chosen on its own."""
    count = np.asarray(count, np.float64)
    far, near = np.abs(low), np.abs(high)
    odd = count % 2 == 1
    far_power, near_power = far**count, near**count
    # Both ends negative: the sign is decided by the parity, and the product of the ends nearest to 0 is the smallest.
    result_low = np.where(low >= 0.0, far_power, np.where(odd, -far_power, near_power))
    result_high = np.where(low >= 0.0, near_power, np.where(odd, -near_power, far_power))
    straddles = (low < 0.0) & (high > 0.0) & (count > 0)
    if straddles.any():
        # k factors at the lower end: |low|^k high^(n-k) is largest at the smallest or the largest k of its parity.
        even, uneven = count - odd, count - ~odd
        above = np.maximum(near_power, product(far**even, near ** (count - even)))
        below = np.maximum(product(far, near ** (count - 1.0)), product(far**uneven, near ** (count - uneven)))
        result_low, result_high = np.where(straddles, -below, result_low), np.where(straddles, above, result_high)
    return result_low, result_high


def _some_powers(low: Array, high: Array, fewest: Times, most: Times) -> tuple[Array, Array]:
    """The hull over all numbers of factors from `fewest` to `most`.

    Powers grow or shrink with the number of factors within one parity, so the first and last of each parity decide.
    """
    first, last = np.asarray(fewest, np.float64), np.asarray(most, np.float64)
    hulls = [_powers(low, high, n) for n in (first, np.minimum(first + 1.0, last), np.maximum(last - 1.0, first), last)]
    return np.minimum.reduce([h[0] for h in hulls]), np.maximum.reduce([h[1] for h in hulls])


def _multiplied_along(low: Array, high: Array, axis: int) -> tuple[Array, Array]:
    """The product of all cells along an axis, by halves."""
    if low.shape[axis] == 0:
        shape = tuple(1 if i == axis else n for i, n in enumerate(low.shape))
        return np.ones(shape), np.ones(shape)
    while (count := low.shape[axis]) > 1:
        half = count // 2
        parts = [np.split(part, [half, 2 * half], axis=axis) for part in (low, high)]
        (low_1, low_2, low_rest), (high_1, high_2, high_rest) = parts
        low, high = corners(product)(low_1, high_1, low_2, high_2)
        if count % 2:
            low, high = np.concatenate((low, low_rest), axis), np.concatenate((high, high_rest), axis)
    return low, high


def _running_product(low: Array, high: Array, axis: int) -> tuple[Array, Array]:
    """Products of all cells up to each one, in steps that double (Hillis and Steele's scan)."""
    step, count = 1, low.shape[axis]
    while step < count:
        (low_head, low_a), (low_b, _) = np.split(low, [step], axis), np.split(low, [count - step], axis)
        (high_head, high_a), (high_b, _) = np.split(high, [step], axis), np.split(high, [count - step], axis)
        low_next, high_next = corners(product)(low_a, high_a, low_b, high_b)
        low, high = np.concatenate((low_head, low_next), axis), np.concatenate((high_head, high_next), axis)
        step *= 2
    return low, high


def _reach(low: Array, high: Array, count: Times) -> Array:
    """How large a product of some of the factors can be: those beyond 1 alone."""
    return np.maximum(np.maximum(np.abs(low), np.abs(high)), 1.0) ** count


def _depth(low: Array, high: Array, count: Times) -> Array:
    """How small a product of some of the factors can be: those below 1 alone."""
    nearest = np.where((low <= 0.0) & (high >= 0.0), 0.0, np.minimum(np.abs(low), np.abs(high)))
    return np.minimum(nearest, 1.0) ** count


def _computed_product(op: Call, low: Array, high: Array, reach: Array, factors: int | Array, format: Format) -> tuple[Array, Array]:
    """Products as computed in any order: each factor but one rounds; what underflows is multiplied by what is left.

    Rounding is a share of the product itself. With g < 1 for that share, v - g |v| and v + g |v| increase with v, so that each end
    of the exact products needs its own error alone: products of positive factors stay away from 0.
    """
    count = np.asarray(factors, np.float64)
    magnitude = np.maximum(np.abs(low), np.abs(high))
    analysis = product_growth(count + 8.0, 2.0**-52)
    if not format.is_float:
        error = np.where(magnitude > 2.0**51, np.ceil(analysis * magnitude), 0.0)
        return low - error, high + error
    accumulator = op.accumulation(format)
    flushes = op.target.flushes_results or op.target.flushes_operands
    lost = (accumulator.smallest_normal if flushes else accumulator.smallest_subnormal) * count * reach
    growth = product_growth(np.maximum(count - 1.0, 0.0), accumulator.unit_roundoff) + analysis
    rounds = (count > 1.0) & (magnitude > 0.0)
    below, above = (
        np.where(rounds, growth * np.where(growth < 1.0, np.abs(end), magnitude) + lost * (1.0 + growth), 0.0)
        for end in (low, high)
    )
    # Rounding is monotone: factors that do not exceed 1 have no product that does, however many they are.
    limit = np.where(reach <= 1.0, 1.0, np.inf)
    low, high = keep_sign(low - below, high + above, low >= 0.0, high <= 0.0)
    return np.maximum(low, -limit), np.minimum(high, limit)


def _product_flags(flags: Flags, positive: Any, vanishes: Any) -> Flags:
    """An infinite factor makes an infinite product, or NaN if the others may be (or underflow to) zero."""
    infinite = (flags & INFINITIES) != 0
    signs = np.where(positive, np.uint8(POSITIVE_INFINITY), np.uint8(INFINITIES))
    result = (flags & np.uint8(NAN)) | np.where(infinite, signs, np.uint8(0))
    return result | np.where(infinite & vanishes, np.uint8(NAN), np.uint8(0))


def _report_product_overflow(op: Call, result: Range, reach: Array, positive: bool, vanishes: bool) -> None:
    """Partial products that leave the accumulator, even where the product itself comes back."""
    limit = op.accumulation(result.format)
    if not limit.is_float:
        return
    over = limit.round_nearest(reach) > limit.high
    gives = (POSITIVE_INFINITY if positive else INFINITIES) | (NAN if vanishes else 0)
    value = Range(result.format, result.shape, result.grid, result.low, np.maximum(result.high, reach))
    op.report(ACCUMULATION_OVERFLOW, RESULT, value, over, gives=gives if limit.has_infinity else SPECIALS)
