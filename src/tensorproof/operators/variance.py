"""Variance and standard deviation with a correction of the divisor, as torch defines them: the sum of squared differences to
the mean, divided by n - correction.

PyTorch takes them in one pass by Welford's updates, on the CPU in float64 except for float16. With u of the format that
accumulates, r the root of the mean square and v the variance, such a variance is off by at most a small multiple of
n u r sqrt(v) and of (n u r)^2 (Chan, Golub and LeVeque, Algorithms for computing the sample variance, The American
Statistician 37, 1983).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorproof.errors import UnknownShape
from tensorproof.formats import FLOAT16, FLOAT64, Format
from tensorproof.frontends.calls import OWN
from tensorproof.operators.activations import least
from tensorproof.operators.reductions import reduced
from tensorproof.operators.statistics import spread_special
from tensorproof.operators.table import FAITHFUL, Call, Mask, operator
from tensorproof.ranges.folds import Fold, reduced_axes
from tensorproof.ranges.range import SPECIALS, Range
from tensorproof.ranges.rows import Rows
from tensorproof.ranges.standardise import variance_bounds
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW
from tensorproof.rules.degenerate_normalisation import DEGENERATE_NORMALISATION
from tensorproof.targets import TORCH_CPU

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall

_NONNEGATIVE = (0.0, np.inf)
#: Multiples of n u that cover the updates, the joining of partial results and the division.
_UPDATES = 4.0


@operator("Variance", domain=OWN, error=FAITHFUL, overflow=ACCUMULATION_OVERFLOW, codomain=_NONNEGATIVE)
def variance(op: Call, x: Range) -> Range:
    """Between 0 and what half of the elements at either end give: never negative."""
    return _variance(op, x)


@operator("StandardDeviation", domain=OWN, error=FAITHFUL, overflow=ACCUMULATION_OVERFLOW, codomain=_NONNEGATIVE)
def standard_deviation(op: Call, x: Range) -> Range:
    """The root of the variance, which is taken before the result is rounded into its format."""
    found = _variance(op, x)
    return found.replace(np.sqrt(found.low), np.sqrt(found.high), found.special if found.has_special else None)


@variance.hazard(DEGENERATE_NORMALISATION, gives=SPECIALS)
def _(op: Call, x: Range) -> Mask:
    return _divisor_vanishes(op, x)


@standard_deviation.hazard(DEGENERATE_NORMALISATION, gives=SPECIALS)
def _(op: Call, x: Range) -> Mask:
    return _divisor_vanishes(op, x)


def _fold(op: Call, x: Range) -> Fold:
    return Fold(x, reduced_axes(op, x, None), keepdims=bool(op.attribute("keepdims", 0)))


def _divisor_vanishes(op: Call, x: Range) -> bool:
    """No more elements than the correction takes away: 0 / 0."""
    return _terms(_fold(op, x)) <= op.attribute("correction", 1.0)


def _terms(fold: Fold) -> int:
    if fold.fixed_terms is None:
        raise UnknownShape("the number of elements of a variance depends on the data")
    return fold.fixed_terms


def _accumulator(op: Call, format: Format) -> Format:
    return FLOAT64 if op.target is TORCH_CPU and format is not FLOAT16 else op.accumulation(format)


def _variance(op: Call, x: Range) -> Range:
    fold = _fold(op, x)
    n = _terms(fold)
    cells = tuple(1 if axis in fold.axes else count for axis, count in enumerate(x.cells))
    if n == 0 or 0 in x.cells:
        return fold.result(np.zeros(cells), np.zeros(cells))
    rows = Rows(x, fold.axes)
    least_square, most = (bound[:, None] for bound in variance_bounds(rows.low, rows.high, rows.most))
    size = np.maximum(np.abs(rows.low), np.abs(rows.high))
    accumulator = _accumulator(op, x.format)
    # The second term is for the sums made here.
    unit = _UPDATES * (n * accumulator.unit_roundoff + 2.0**-45)
    spread = unit * np.sqrt(size**2 @ rows.most[:, None] / n)
    error = spread * np.sqrt(most) + spread**2 + least(op, accumulator)
    divisor = n - op.attribute("correction", 1.0)
    factor = n / divisor if divisor > 0 else 1.0
    low, high = np.maximum(least_square - error, 0.0) * factor, (most + error) * factor
    overflow = ~((most + error) * n <= accumulator.high)
    if overflow.any():
        op.report(ACCUMULATION_OVERFLOW, 0, x, rows.mark(overflow), gives=SPECIALS)
        low = np.where(overflow, 0.0, low)
    flags = spread_special(rows)
    if flags is not None:
        flags = flags[tuple(slice(0, 1) if axis in fold.axes else slice(None) for axis in range(x.rank))]
    return fold.result(rows.restore(low).reshape(cells), rows.restore(high).reshape(cells), flags)


@variance.meaning
def _(run: Run, x: Tensor) -> Tensor:
    axes = tuple(run.attribute("axes") or range(x.ndim))
    keepdims = bool(run.attribute("keepdims", 0))
    # Unlike torch.var, no warning where nothing is left to divide by.
    count = x.numel() // max(1, x.mean(axes).numel()) if x.numel() else 0
    squares = (x - x.mean(axes, keepdim=True)).square().sum(axes, keepdim=keepdims)
    return squares / max(count - run.attribute("correction", 1.0), 0.0)


@standard_deviation.meaning
def _(run: Run, x: Tensor) -> Tensor:
    found = run.apply("Variance", x, domain=OWN, **run.attributes)
    # The derivative of the root at zero, times that of the variance, would be no number.
    return run.passing(found.sqrt(), found.clamp(min=1e-300).sqrt())


_OVERLOADS = ("{}", "{}.dim", "{}.correction")


@variance.aten(*(name.format("var") for name in _OVERLOADS))
def _(call: AtenCall) -> int:
    return _spread(call, "Variance")


@standard_deviation.aten(*(name.format("std") for name in _OVERLOADS))
def _(call: AtenCall) -> int:
    return _spread(call, "StandardDeviation")


@variance.aten(*(name.format("var_mean") for name in _OVERLOADS))
def _(call: AtenCall) -> tuple[int, int]:
    return _spread(call, "Variance"), reduced(call, "ReduceMean")


@standard_deviation.aten(*(name.format("std_mean") for name in _OVERLOADS))
def _(call: AtenCall) -> tuple[int, int]:
    return _spread(call, "StandardDeviation"), reduced(call, "ReduceMean")


def _spread(call: AtenCall, op: str) -> int:
    """Older overloads say whether the divisor is n - 1 (the default) or n."""
    correction = call.get("correction", 1.0) if "correction" in call.arguments else float(bool(call["unbiased"]))
    axes, keepdims = call.get("dim", []), int(bool(call.get("keepdim", False)))
    x, format = call.tensor("self"), call.result.format
    return call.own(op, x, axes=list(axes) or None, correction=float(correction), keepdims=keepdims, formats=(format,))
