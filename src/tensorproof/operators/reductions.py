"""Reductions that sum: sums, means, norms, and logarithms of sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import BOOL, FLOAT64, INT64, Array
from tensorproof.graph import ABSENT
from tensorproof.operators.table import CORRECT, FAITHFUL, UNDEFINED, Call, Mask, operator
from tensorproof.ranges import relations
from tensorproof.ranges.affine import Form
from tensorproof.ranges.fields import bounds_of
from tensorproof.ranges.folds import Fold, normalised_axis, reduced_axes
from tensorproof.ranges.range import INFINITIES, NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY, Flags, Range
from tensorproof.ranges.sums import keep_sign, report_partial_overflow, summation_error
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW
from tensorproof.rules.empty_reduction import EMPTY_REDUCTION
from tensorproof.rules.exponential_overflow import EXPONENTIAL_OVERFLOW
from tensorproof.rules.log_of_nonpositive import LOG_OF_NONPOSITIVE
from tensorproof.targets import ONNXRUNTIME_CPU

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall

NONNEGATIVE = (0.0, np.inf)


def fold_of(op: Call, x: Range, axes: Range | None) -> Fold:
    """The axes that a reduction runs over."""
    return Fold(x, reduced_axes(op, x, axes), keepdims=bool(op.attribute("keepdims", 1)))


def axes_of(run: Run, x: Tensor, axes: Tensor | None) -> tuple[int, ...]:
    """`reduced_axes` for a tensor: none given means all, unless noop_with_empty_axes is set."""
    given = run.integers("axes", axes)
    if not given:
        return () if run.attribute("noop_with_empty_axes", 0) else tuple(range(x.ndim))
    return tuple({normalised_axis(axis, x.ndim) for axis in given}) if x.ndim else ()


def _summed(run: Run, x: Tensor, axes: Tensor | None) -> Tensor:
    """Sums in the tensor's own dtype along the axes of a reduction."""
    chosen = axes_of(run, x, axes)
    # Torch takes an empty list of axes for all of them.
    return x.sum(chosen, keepdim=bool(run.attribute("keepdims", 1)), dtype=x.dtype) if chosen else x


def reduced(call: AtenCall, op: str, x: int | None = None, *, dim: Sequence[int] | None = None, keepdim: bool | None = None) -> int:
    """A reduction of torch, of `self` or a value made of it, in the format of its result.

    It runs along the axes of the call (or those given), all of them where there are none.
    """
    format = call.result.format
    axes = np.array(call.get("dim", []) if dim is None else dim, np.int64).reshape(-1)
    keepdims = call.get("keepdim", False) if keepdim is None else keepdim
    x = call.tensor("self", format) if x is None else x
    return call.emit(op, x, call.constant(axes) if axes.size else ABSENT, keepdims=int(keepdims), formats=(format,))


@operator("ReduceSum", error=CORRECT, overflow=ACCUMULATION_OVERFLOW, steered_by=(1,))
def reduce_sum(op: Call, x: Range, axes: Range | None = None) -> Range:
    """Increasing in every element; the sum of nothing is 0."""
    fold = fold_of(op, x, axes)
    return _sum(op, fold, *fold.finite(), products=False)


@reduce_sum.meaning
def _(run: Run, x: Tensor, axes: Tensor | None = None) -> Tensor:
    return _summed(run, x, axes)


@reduce_sum.aten("sum", "sum.dim_IntList")
def _(call: AtenCall) -> int:
    """Elements are converted to the format of the result first, truth values and integers to 64 bits."""
    return reduced(call, "ReduceSum")


@reduce_sum.aten("count_nonzero", "count_nonzero.dim_IntList")
def _(call: AtenCall) -> int:
    return reduced(call, "ReduceSum", call.cast(call.tensor("self", BOOL), INT64))


@reduce_sum.aten("nansum")
def _(call: AtenCall) -> int:
    """NaN counts as zero."""
    x = call.tensor("self", call.result.format)
    if call.result.format is None or not call.result.format.is_float:
        return reduced(call, "ReduceSum", x)
    is_nan = call.emit("IsNaN", x, formats=(BOOL,))
    return reduced(call, "ReduceSum", call.emit("Where", is_nan, call.value(0.0), x, formats=(call.result.format,)))


@reduce_sum.affine
def _(op: Call, result: Range, x: Range, axes: Range | None = None) -> Form | None:
    fold = fold_of(op, x, axes)
    error = summation_error(op, fold.weighted(x.magnitude()), fold.terms, x.format, products=False)
    spread = bounds_of(fold.result(-error, error))
    return relations.sums(op, result, x, fold.axes, keepdims=fold.keepdims, divisor=1, error=spread)


@operator("ReduceL1", error=CORRECT, overflow=ACCUMULATION_OVERFLOW, codomain=NONNEGATIVE, steered_by=(1,))
def reduce_l1(op: Call, x: Range, axes: Range | None = None) -> Range:
    """The sum of absolute values: least where every element is nearest to 0."""
    fold = fold_of(op, x, axes)
    return _sum(op, fold, *_absolute(*fold.finite()), products=False, special=_unsigned(x))


@reduce_l1.meaning
def _(run: Run, x: Tensor, axes: Tensor | None = None) -> Tensor:
    return _summed(run, x.abs(), axes)


@operator("ReduceSumSquare", error=CORRECT, overflow=ACCUMULATION_OVERFLOW, codomain=NONNEGATIVE, steered_by=(1,))
def reduce_sum_square(op: Call, x: Range, axes: Range | None = None) -> Range:
    """The sum of squares: least where every element is nearest to 0."""
    fold = fold_of(op, x, axes)
    return _sum_of_squares(op, fold)


@reduce_sum_square.meaning
def _(run: Run, x: Tensor, axes: Tensor | None = None) -> Tensor:
    return _summed(run, x * x, axes)


@operator("ReduceL2", error=CORRECT, overflow=ACCUMULATION_OVERFLOW, codomain=NONNEGATIVE, steered_by=(1,))
def reduce_l2(op: Call, x: Range, axes: Range | None = None) -> Range:
    """The root of the sum of squares, which is computed first and overflows long before the norm would."""
    fold = fold_of(op, x, axes)
    squares = _sum_of_squares(op, fold)
    if x.format.is_float:
        _report_narrow_overflow(op, squares)
        return squares.replace(np.sqrt(squares.low), np.sqrt(squares.high), squares.special)
    # Integer squares wrap around; what the root makes of a negative one is undefined.
    wraps = squares.high > x.format.high
    low, high = np.floor(np.sqrt(np.maximum(squares.low, 0.0))), np.floor(np.sqrt(np.maximum(squares.high, 0.0)))
    return squares.replace(np.where(wraps, x.format.low, low), np.where(wraps, x.format.high, high), None)


@reduce_l2.meaning
def _(run: Run, x: Tensor, axes: Tensor | None = None) -> Tensor:
    if run.format(0, x) == "int":
        root = run.torch.sqrt(_summed(run, x * x, axes).to(run.torch.float64))
        return run.passing(run.torch.floor(root).to(x.dtype), root)
    chosen = axes_of(run, x, axes)
    # Unlike the root of a sum of squares, the norm has a derivative that is a number where all elements are zero.
    norm = run.torch.linalg.vector_norm
    return norm(x, dim=chosen, keepdim=bool(run.attribute("keepdims", 1))) if chosen else x.abs()


@operator("ReduceMean", error=CORRECT, overflow=ACCUMULATION_OVERFLOW, steered_by=(1,))
def reduce_mean(op: Call, x: Range, axes: Range | None = None) -> Range:
    """Increasing in every element, between the smallest and the largest up to rounding; the sum may overflow."""
    fold = fold_of(op, x, axes)
    low, high = fold.finite()
    terms, format = fold.terms, x.format
    magnitude = fold.mean(np.maximum(np.abs(low), np.abs(high)))
    report_partial_overflow(op, *_partial_sums(op, fold, low, high))
    mean_low, mean_high = fold.mean(low), fold.mean(high)
    if not format.is_float:
        exact = magnitude * terms < 2.0**53
        slack = np.where(exact, 0.0, 2.0**-50 * magnitude + 1.0)
        mean_low, mean_high = np.trunc(mean_low - slack), np.trunc(mean_high + slack)
        wraps = (fold.low_sum(low) < format.low) | (fold.high_sum(high) > format.high)
        return fold.result(np.where(wraps, format.low, mean_low), np.where(wraps, format.high, mean_high))
    # Two roundings more than the sum: the division, and the number of elements itself where a format cannot hold it.
    error = _mean_error(op, fold, magnitude)
    positive, negative = fold.minimum(low) >= 0.0, fold.maximum(high) <= 0.0
    return fold.sum_result(*keep_sign(mean_low - error, mean_high + error, positive, negative))


def _mean_error(op: Call, fold: Fold, magnitude: Array) -> Array:
    error = summation_error(op, magnitude, fold.terms, fold.x.format, products=False)
    if fold.terms > 1:
        accumulator = op.accumulation(fold.x.format)
        error = error + 2.0 * (accumulator.unit_roundoff + 2.0**-53) * magnitude + accumulator.smallest_subnormal
    return error


@reduce_mean.meaning
def _(run: Run, x: Tensor, axes: Tensor | None = None) -> Tensor:
    chosen = axes_of(run, x, axes)
    if not chosen:
        return x
    if run.format(0, x) != "int":
        return x.mean(chosen, keepdim=bool(run.attribute("keepdims", 1)))
    total, count = _summed(run, x, axes), math.prod(x.shape[axis] for axis in chosen)
    return run.passing(run.torch.div(total, count, rounding_mode="trunc"), total / count)


@reduce_mean.aten("mean", "mean.dim")
def _(call: AtenCall) -> int:
    return reduced(call, "ReduceMean")


@reduce_mean.affine
def _(op: Call, result: Range, x: Range, axes: Range | None = None) -> Form | None:
    fold = fold_of(op, x, axes)
    error = _mean_error(op, fold, fold.mean(x.magnitude()))
    spread = bounds_of(fold.result(-error, error))
    return relations.sums(op, result, x, fold.axes, keepdims=fold.keepdims, divisor=fold.terms, error=spread)


@reduce_mean.hazard(EMPTY_REDUCTION, gives=NAN)
def _(op: Call, x: Range, axes: Range | None = None) -> Mask:
    return x.format.is_float and fold_of(op, x, axes).may_be_empty


@reduce_mean.hazard(EMPTY_REDUCTION, gives=UNDEFINED)
def _(op: Call, x: Range, axes: Range | None = None) -> Mask:
    return not x.format.is_float and fold_of(op, x, axes).may_be_empty


@operator(
    "ReduceLogSum", error=FAITHFUL, overflow=ACCUMULATION_OVERFLOW, hazards=(LOG_OF_NONPOSITIVE, EMPTY_REDUCTION), steered_by=(1,)
)
def reduce_log_sum(op: Call, x: Range, axes: Range | None = None) -> Range:
    """The logarithm of the sum, which may be zero, negative or too large."""
    _floating_only(x)
    fold = fold_of(op, x, axes)
    _report_empty(op, fold)
    sums = _sum(op, fold, *fold.finite(), products=False)
    _report_narrow_overflow(op, sums)
    fails = (sums.low <= 0.0) & (sums.low <= sums.high)
    gives = NEGATIVE_INFINITY | (NAN if bool((sums.low < 0.0).any()) else 0)
    if not fold.may_be_empty or fold.fixed_terms is None:
        op.report(LOG_OF_NONPOSITIVE, 0, sums, fails, gives=gives)
    # The sum may be rounded into the tensor's format before the logarithm is taken.
    low, high = x.format.round_down(sums.low), x.format.round_up(sums.high)
    least = x.format.smallest_subnormal
    low, high = np.log(np.maximum(low, least)), np.log(np.maximum(high, least))
    if not sums.has_special:
        return sums.replace(low, high, None)
    flags = sums.special & np.uint8(NAN | POSITIVE_INFINITY)
    flags |= np.where((sums.special & NEGATIVE_INFINITY) != 0, np.uint8(NAN), np.uint8(0))
    empty = sums.low > sums.high
    return sums.replace(np.where(empty, np.inf, low), np.where(empty, -np.inf, high), flags)


@reduce_log_sum.meaning
def _(run: Run, x: Tensor, axes: Tensor | None = None) -> Tensor:
    return run.torch.log(_summed(run, x, axes))


@operator(
    "ReduceLogSumExp",
    error=CORRECT,
    overflow=ACCUMULATION_OVERFLOW,
    hazards=(EMPTY_REDUCTION, EXPONENTIAL_OVERFLOW, LOG_OF_NONPOSITIVE),
    steered_by=(1,),
)
def reduce_log_sum_exp(op: Call, x: Range, axes: Range | None = None) -> Range:
    """Increasing in every element, between the largest and the largest plus log n; exponentials do not overflow.

    The reference, ONNX Runtime and torch.logsumexp subtract the largest element first, so the exponentials lie in
    [0, 1] and one of them is 1. With d = largest - x the rounding of x - largest changes exp(-d) by d exp(-d) u <= 0.4 u, and
    exp itself by 4 units of the last place; the sum of n terms follows `summation_error`.

    The exception is ONNX Runtime with 16-bit tensors in models of version 18, where it takes the operator's function
    body, log(sum(exp(x))) in float64: +inf above 709.78 and -inf below -745.13 (measured with 1.31, float16, versions
    13 to 26).
    """
    _floating_only(x)
    fold = fold_of(op, x, axes)
    _report_empty(op, fold)
    low, high = x.extended()
    terms, format = fold.terms, x.format
    lows, highs = _log_sum_exp(fold, low, max(fold.fewest, 1)), _log_sum_exp(fold, high, fold.repeats)
    largest_low, largest_high = fold.maximum(low), fold.maximum(high)
    if terms > 1:
        unit = format.unit_roundoff + 2.0**-52
        relative = (9.0 + 0.45 * (terms - 1)) * unit + terms * format.smallest_subnormal
        one = np.ones_like(lows)
        relative = (relative + summation_error(op, one, terms, format, products=False)) * (1.0 + 2.0 * relative)
        logarithm = 8.0 * unit * np.log(terms * (1.0 + relative))
        lows = lows + np.log1p(-np.minimum(relative, 1.0)) - logarithm
        highs = highs + np.log1p(relative) + logarithm
        # The exponential of the largest element is 1, and no sum of terms >= 0 is smaller than one of them.
        lows = np.maximum(lows, largest_low)
        sums = fold.high_sum(np.exp(np.minimum(np.where(low <= high, high, -np.inf) - largest_low, 0.0)))
        sums = np.where(np.isfinite(sums), sums * (1.0 + relative), float(terms))
        report_partial_overflow(op, fold.result(np.ones_like(sums), sums), np.zeros_like(sums), sums)
    if op.target is ONNXRUNTIME_CPU and op.version == 18 and format.bits < 32:
        lows = lows - _report_written_out(op, fold, largest_low, largest_high)
    if fold.may_be_empty:
        none = np.isneginf(largest_high)
        lows, highs = np.where(none, 0.0, lows), np.where(none, 0.0, highs)
    if not x.has_special:
        return fold.result(lows, highs)
    return _log_sum_exp_specials(fold, lows, highs)


@reduce_log_sum_exp.meaning
def _(run: Run, x: Tensor, axes: Tensor | None = None) -> Tensor:
    chosen = axes_of(run, x, axes)
    return x.logsumexp(chosen, keepdim=bool(run.attribute("keepdims", 1))) if chosen else x


@reduce_log_sum_exp.aten("logsumexp", "special_logsumexp")
def _(call: AtenCall) -> int:
    return reduced(call, "ReduceLogSumExp")


def _report_written_out(op: Call, fold: Fold, largest_low: Array, largest_high: Array) -> Array:
    """Hazards of log(sum(exp(x))) in float64; and its error where the sum is subnormal."""
    largest = fold.result(largest_low, largest_high)
    finite = largest.low <= largest.high
    top = np.log(FLOAT64.high) - np.log(max(fold.terms, 1))
    op.report(EXPONENTIAL_OVERFLOW, 0, largest, (largest.high > top) & finite, gives=POSITIVE_INFINITY)
    bottom = np.log(FLOAT64.smallest_subnormal)
    op.report(LOG_OF_NONPOSITIVE, 0, largest, (largest.low < bottom) & finite, gives=NEGATIVE_INFINITY)
    return np.where(largest_low < np.log(FLOAT64.smallest_normal), 0.75, 0.0)


def _log_sum_exp(fold: Fold, values: Array, times: int) -> Array:
    """log(sum(exp(values))), each cell counted with its elements and all of them `times` times."""
    largest = fold.maximum(values)
    shift = np.where(np.isfinite(largest), largest, 0.0)
    return np.log(fold.weighted(np.exp(values - shift)) * times) + shift


def _log_sum_exp_specials(fold: Fold, low: Array, high: Array) -> Range:
    """-inf adds nothing; -inf alone gives -inf in ONNX Runtime and NaN in the reference; +inf gives +inf (or NaN)."""
    x = fold.x
    flags = fold.union(x.special)
    result = flags & np.uint8(NAN | POSITIVE_INFINITY)
    empty = x.low > x.high
    all_negative = ~fold.any((x.special & NEGATIVE_INFINITY) == 0)
    only_infinite = ~fold.any((x.special & INFINITIES) == 0)
    result |= np.where(all_negative, np.uint8(NAN | NEGATIVE_INFINITY), np.uint8(0))
    result |= np.where(only_infinite & ((flags & POSITIVE_INFINITY) != 0), np.uint8(NAN), np.uint8(0))
    # The finite results: with -inf gone, at least one finite element is left; with +inf there is none.
    least = fold.minimum(np.where(empty, np.inf, x.low))
    low = np.where(np.isfinite(low), low, least)
    finite_high = _log_sum_exp(fold, np.where(empty, -np.inf, x.high), fold.repeats)
    high = np.where(np.isfinite(high), high, finite_high + 0.01 * np.abs(finite_high) + 1.0)
    never_finite = fold.any(empty & ((x.special & NEGATIVE_INFINITY) == 0)) | ~fold.any(~empty)
    return fold.result(np.where(never_finite, np.inf, low), np.where(never_finite, -np.inf, high), result)


# -- parts -----------------------------------------------------------------------------------------------------------


def _floating_only(x: Range) -> None:
    if not x.format.is_float:
        raise NotAnalysed("logarithms of integers are not defined (ONNX ReduceLogSum-28)")


def _report_empty(op: Call, fold: Fold) -> None:
    """The logarithm of an empty sum is -inf."""
    if fold.may_be_empty:
        nothing = Range.uniform((), fold.x.format, np.inf, -np.inf)
        op.report(EMPTY_REDUCTION, 0, nothing, True, gives=NEGATIVE_INFINITY)


def _absolute(low: Array, high: Array) -> tuple[Array, Array]:
    """Bounds of |x|."""
    nearest = np.where((low <= 0.0) & (high >= 0.0), 0.0, np.minimum(np.abs(low), np.abs(high)))
    return nearest, np.maximum(np.abs(low), np.abs(high))


def _unsigned(x: Range) -> Flags | None:
    """Special values of |x| or x^2: infinities are positive."""
    if not x.has_special:
        return None
    infinite = np.where((x.special & INFINITIES) != 0, np.uint8(POSITIVE_INFINITY), np.uint8(0))
    return (x.special & np.uint8(NAN)) | infinite


def _sum_of_squares(op: Call, fold: Fold) -> Range:
    low, high = _absolute(*fold.finite())
    return _sum(op, fold, low * low, high * high, products=True, special=_unsigned(fold.x))


def _partial_sums(op: Call, fold: Fold, low: Array, high: Array) -> tuple[Range, Array, Array]:
    """The sums as a range, and the smallest and largest partial sums in any order."""
    most = fold.repeats
    below, above = fold.weighted(np.minimum(low, 0.0)) * most, fold.weighted(np.maximum(high, 0.0)) * most
    error = summation_error(op, above - below, fold.terms, fold.x.format, products=False)
    sums = Fold(fold.x, fold.axes).result(fold.low_sum(low), fold.high_sum(high))
    return sums, below - error, above + error


def _sum(op: Call, fold: Fold, low: Array, high: Array, *, products: bool, special: Flags | None = None) -> Range:
    """Sums as computed, from the bounds of the terms; partial sums that overflow are reported."""
    format = fold.x.format
    error = summation_error(
        op, fold.weighted(np.maximum(np.abs(low), np.abs(high))) * fold.repeats, fold.terms, format, products=products
    )
    sum_low, sum_high = fold.low_sum(low) - error, fold.high_sum(high) + error
    if format.is_float and fold.fixed_terms:
        sum_low, sum_high = _beyond_one_term(op, fold, low, high, sum_low, sum_high, products)
    report_partial_overflow(op, *_partial_sums(op, fold, low, high))
    return fold.sum_result(sum_low, sum_high, special)


def _beyond_one_term(
    op: Call, fold: Fold, low: Array, high: Array, sum_low: Array, sum_high: Array, products: bool
) -> tuple[Array, Array]:
    """Rounding is monotone: a sum of terms >= 0 is not smaller than any of them (and likewise below 0)."""
    accumulator = op.accumulation(fold.x.format)
    floor, ceiling = fold.maximum(low), fold.minimum(high)
    if products:
        floor, ceiling = accumulator.round_down(floor), accumulator.round_up(ceiling)
    if op.target.flushes_results:
        floor = np.where(floor < accumulator.smallest_normal, 0.0, floor)
        ceiling = np.where(ceiling > -accumulator.smallest_normal, 0.0, ceiling)
    sum_low = np.where(fold.minimum(low) >= 0.0, np.maximum(sum_low, floor), sum_low)
    sum_high = np.where(fold.maximum(high) <= 0.0, np.minimum(sum_high, ceiling), sum_high)
    return sum_low, sum_high


def _report_narrow_overflow(op: Call, sums: Range) -> None:
    """Sums that leave the tensor's own format, where a target writes them back into it before the next step."""
    if not op.target.keeps_chains_wide and op.accumulation(sums.format) is not sums.format:
        report_partial_overflow(op, sums, sums.low, sums.high, sums.format)
