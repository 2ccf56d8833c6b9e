"""Running extremes and running logarithms of sums of exponentials, which ONNX does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorproof.formats import INT64, Array
from tensorproof.frontends.calls import OWN
from tensorproof.operators.cumulative import Scan, shifted
from tensorproof.operators.table import CORRECT, Call, operator
from tensorproof.ranges.folds import normalised_axis
from tensorproof.ranges.grid import largest
from tensorproof.ranges.range import NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY, Range
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall


@operator("CumMax", domain=OWN)
def cum_max(op: Call, x: Range) -> tuple[Range, Range]:
    """Increasing in every element up to the own one, exact; and where the maximum stands."""
    return _running_extreme(op, x, np.maximum), _places(op, x)


@operator("CumMin", domain=OWN)
def cum_min(op: Call, x: Range) -> tuple[Range, Range]:
    """Increasing in every element up to the own one, exact; and where the minimum stands."""
    return _running_extreme(op, x, np.minimum), _places(op, x)


def _running_extreme(op: Call, x: Range, function: np.ufunc) -> Range:
    scan = Scan.of(op, x, None)
    low, high = (function.accumulate(ends, axis=scan.axis) for ends in scan.x.extended())
    return _finite_part(scan, low, high)


def _finite_part(scan: Scan, low: Array, high: Array) -> Range:
    """Running results whose ends may be infinite: those that are finite, and flags for the others."""
    x = scan.x
    if not x.has_special:
        return x.replace(low, high, None)
    flags = scan.flags() & np.uint8(NAN)
    flags |= np.where(np.isneginf(low), np.uint8(NEGATIVE_INFINITY), np.uint8(0))
    flags |= np.where(np.isposinf(high), np.uint8(POSITIVE_INFINITY), np.uint8(0))
    least = np.minimum.accumulate(x.low, axis=scan.axis)
    most = np.maximum.accumulate(x.high, axis=scan.axis)
    low, high = np.where(np.isinf(low), least, low), np.where(np.isinf(high), most, high)
    empty = low > high
    return x.replace(np.where(empty, np.inf, low), np.where(empty, -np.inf, high), flags)


def _places(op: Call, x: Range) -> Range:
    """Any place up to the own one; the last one of an axis stands for all of them."""
    axis = normalised_axis(int(op.attribute("axis")), x.rank)
    assert x.shape is not None
    size = largest(x.shape[axis])
    return Range.uniform(x.shape, INT64, 0.0, INT64.high if size is None else float(max(size - 1, 0)))


@cum_max.meaning
def _(run: Run, x: Tensor) -> tuple[Tensor, Tensor]:
    values, places = run.torch.cummax(x, int(run.attribute("axis")))
    return values, places


@cum_min.meaning
def _(run: Run, x: Tensor) -> tuple[Tensor, Tensor]:
    values, places = run.torch.cummin(x, int(run.attribute("axis")))
    return values, places


@cum_max.aten("cummax")
def _(call: AtenCall) -> tuple[int, int]:
    return _along(call, "CumMax")


@cum_min.aten("cummin")
def _(call: AtenCall) -> tuple[int, int]:
    return _along(call, "CumMin")


def _along(call: AtenCall, op: str) -> tuple[int, int]:
    if not call.rank("self"):
        return call.moved("Identity", call.tensor("self")), call.constant(np.array(0, np.int64))
    return call.own(op, call.tensor("self"), axis=int(call["dim"]), outputs=2, formats=(call.result.format, INT64))


@operator("LogCumSumExp", domain=OWN, error=CORRECT, overflow=ACCUMULATION_OVERFLOW)
def log_cum_sum_exp(op: Call, x: Range) -> Range:
    """Increasing in every element up to the own one; the exponentials do not overflow.

    Each step is max + log1p(exp(min - max)): two functions of numbers up to 1, and one rounding of the result, which the
    steps behind it hand on at most as it is.
    """
    scan = Scan.of(op, x, None)
    unit = x.format.unit_roundoff

    def total(values: Array, times: Array | float) -> Array:
        """All cells before, and `times` elements of the own cell."""
        before = np.logaddexp.accumulate(values + np.log(scan.sizes), axis=scan.axis)
        return np.logaddexp(shifted(before, scan.axis, -np.inf), values + np.log(times))

    low, high = scan.x.extended()
    low, high = total(low, 1.0), total(high, scan.most)
    steps = shifted(np.cumsum(np.ones_like(scan.low) * scan.sizes, axis=scan.axis), scan.axis, 0.0) + scan.most - 1.0
    finite = np.where(np.isfinite(low), np.abs(low), 0.0), np.where(np.isfinite(high), np.abs(high), 0.0)
    largest_so_far = np.maximum.accumulate(np.maximum(*finite), axis=scan.axis)
    error = steps * (16.0 * unit + 2.0 * unit * largest_so_far)
    # No sum of exponentials is smaller than one of them.
    return _finite_part(scan, np.maximum(low - error, np.maximum.accumulate(scan.x.extended()[0], axis=scan.axis)), high + error)


@log_cum_sum_exp.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return run.torch.logcumsumexp(x, int(run.attribute("axis")))


@log_cum_sum_exp.aten("logcumsumexp")
def _(call: AtenCall) -> int:
    x = call.tensor("self", call.result.format)
    if not call.rank("self"):
        return call.moved("Identity", x)
    return call.own("LogCumSumExp", x, axis=int(call["dim"]), formats=(call.result.format,))
