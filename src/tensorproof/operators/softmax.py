"""Softmax and its logarithm: exact bounds over boxes of logits, and what the usual evaluation adds to them.

The assumed evaluation is that of the ONNX function bodies (Softmax-13, LogSoftmax-13): the row's maximum is subtracted
before the exponential. A component is extreme where it is at one end of its cell and all others are at the opposite end;
the sums over "all others" come from prefix and suffix sums of logarithms, which neither cancel nor underflow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tensorproof.formats import Array, Format
from tensorproof.operators.activations import least
from tensorproof.operators.table import CORRECT, RESULT, Call, Mask, operator
from tensorproof.ranges.norms import Norm
from tensorproof.ranges.range import NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY, Flags, Range
from tensorproof.ranges.rows import Rows
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW
from tensorproof.rules.masked_softmax import MASKED_SOFTMAX

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall
    from tensorproof.frontends.tensorflow_call import TensorflowCall

#: Elementary functions stay within 4 units of the last place (`FAITHFUL`), each of them at most 2u of the value.
FUNCTION_ERROR = 8.0


def _log_bounds(rows: Rows, maskable: npt.NDArray[np.bool_]) -> tuple[Array, Array]:
    """Bounds of the logarithm of each component where its logit is a number; `maskable` ones may be -inf."""
    least = np.where(maskable, -np.inf, rows.low)
    lower = -np.logaddexp(0.0, _excess(rows.high, rows.most, rows.low, 1.0))
    upper = -np.logaddexp(0.0, _excess(least, rows.fewest, rows.high, -1.0))
    return np.where(np.isnan(lower), -np.inf, lower), np.where(np.isnan(upper), 0.0, upper)


def _excess(bound: Array, counts: Array, own: Array, direction: float) -> Array:
    """log of the sum of exp(bound) over all other elements, minus the own logit; rounded in `direction`."""
    # Shifted so that the largest bound is 0: what is near it, and decides, is then exact to its last digits.
    top = bound.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    others, own = _others(bound - top, counts), own - top
    error = 2.0**-50 * (np.abs(others) + np.abs(own))
    return others - own + direction * np.where(np.isfinite(error), error, 0.0)


def _others(bound: Array, counts: Array) -> Array:
    """log of the sum of exp(bound) over all elements of a row except one of the cell itself, for every cell."""
    whole = np.where(bound == -np.inf, -np.inf, bound + np.log(counts))
    own = np.where(bound == -np.inf, -np.inf, bound + np.log(np.maximum(counts - 1.0, 0.0)))
    nothing = np.full((*bound.shape[:-1], 1), -np.inf)
    before = np.logaddexp.accumulate(np.concatenate([nothing, whole[..., :-1]], axis=-1), axis=-1)
    after = np.logaddexp.accumulate(np.concatenate([nothing, whole[..., :0:-1]], axis=-1), axis=-1)[..., ::-1]
    return np.logaddexp(np.logaddexp(before, after), own)


def exponential_sum_error(op: Call, format: Format, terms: float) -> float:
    """A bound on |log(computed) - log(exact)| for the sum of exp(x - max) over a row of `terms` elements.

    Rounding x - max gives a term the relative error u * gap. Weighted by the terms themselves the gaps average at most
    log(n), because the entropy of n outcomes is at most that. The sum is at least 1.
    """
    u, eta = format.unit_roundoff, least(op, format)
    growth = -np.log1p(-op.accumulation(format).unit_roundoff) + 2.0**-52
    return u * (np.log(terms) + FUNCTION_ERROR) * 1.01 + terms * (growth + FUNCTION_ERROR * eta)


def softmax_axes(op: Call | Run, rank: int) -> tuple[int, ...]:
    """The axes of one distribution: until version 12 all axes from `axis` on (ONNX Softmax-11), later `axis` alone."""
    if not rank:
        return ()
    if op.version < 13:
        return tuple(range(int(op.attribute("axis", 1)) % rank, rank))
    return (int(op.attribute("axis", -1)) % rank,)


def along_distributions(run: Run, x: Tensor, function: Callable[[Tensor, int], Tensor]) -> Tensor:
    """A function of a tensor and an axis, applied to each distribution as a whole."""
    axes = softmax_axes(run, x.dim())
    if len(axes) == 1:
        return function(x, axes[0])
    return function(x.flatten(axes[0] if axes else 0), -1).reshape(x.shape)


def _maskable(x: Range) -> npt.NDArray[np.bool_]:
    return ((x.special & NEGATIVE_INFINITY) != 0) | (x.low > x.high)


def _special(x: Range, axes: tuple[int, ...] | None, kept: int) -> Flags | None:
    """NaN anywhere in a row makes the whole row NaN; of the other special values each element keeps `kept`."""
    if not x.has_special:
        return None
    nan = np.bitwise_or.reduce(x.special & np.uint8(NAN), axis=axes or (), keepdims=True)
    return (x.special & np.uint8(kept)) | nan


@operator("Softmax", error=CORRECT, codomain=(0.0, 1.0))
def softmax(op: Call, x: Range) -> Range:
    """Increasing in its own logit, decreasing in all others; 0 for a logit of -inf."""
    if x.shape is None:
        return x.replace(np.zeros_like(x.low), np.ones_like(x.high), _special(x, None, 0))
    axes = softmax_axes(op, x.rank)
    if 0 in x.cells:
        return x.without_special()
    rows, maskable = Rows(x, axes, empty=-np.inf), _maskable(x)
    u, tiny = x.format.unit_roundoff, FUNCTION_ERROR * least(op, x.format)
    lower, upper = _log_bounds(rows, rows.flatten(maskable))
    # log p is x - max (error u * |x - max|, at most u * |log p|), through exp, minus log of the sum.
    error = exponential_sum_error(op, x.format, min(rows.length, 2.0**63)) + FUNCTION_ERROR * u + 2.0**-48
    low = np.exp(lower * (1.0 + 1.01 * u) - error) - tiny
    high = np.exp(upper * (1.0 - 1.01 * u) + error) + tiny
    low, high = rows.restore(np.where(low > 0.0, low, 0.0)), rows.restore(np.minimum(high, 1.0))
    result = x.replace(np.where(maskable, 0.0, low), np.where(x.low > x.high, 0.0, high), _special(x, axes, 0))
    result.norm = unit_sum(op, x.format, rows.length, axes[-1]) if op.abstraction.norms and axes else None
    return result


@softmax.aten("softmax.int", "special_softmax", "_softmax")
def _(call: AtenCall) -> int:
    return _spelled(call, "Softmax")


def _spelled(call: AtenCall, op: str) -> int:
    """Along `dim`, in the format of the result; a tensor without axes is one distribution."""
    format = call.result.format
    x, rank = call.tensor("self", format), call.rank("self")
    if rank == 0:
        made = call.emit(op, call.reshaped(x, [1]), axis=0, formats=(format,))
        return call.reshaped(made, [])
    return call.emit(op, x, axis=call.axis("dim", rank), formats=(format,))


@softmax.tensorflow("Softmax")
def _(call: TensorflowCall) -> int:
    return call.emit("Softmax", call.operand(0), axis=-1, formats=(call.arithmetic_format(),))


@softmax.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return along_distributions(run, x, run.torch.softmax)


def unit_sum(op: Call, format: Format, terms: float, axis: int) -> Norm | None:
    """What the rows of a softmax sum to, as computed: every exponential is divided by the sum of the same numbers.

    The computed sum is at least (1 - n u) times the exact one. The quotients are rounded; where they are computed as
    exp(x - max - log(sum)) instead, errors of the argument count u * gap, which average at most log(n).
    """
    growth = op.accumulation(format).unit_roundoff * terms
    if not growth <= 0.25:
        return None
    u = format.unit_roundoff
    total = 1.0 + 1.4 * growth + (16.0 + 4.0 * float(np.log(terms))) * u + terms * FUNCTION_ERROR * least(op, format)
    return Norm(axis, total, total)


@operator("LogSoftmax", error=CORRECT, overflow=ARITHMETIC_OVERFLOW, codomain=(-np.inf, 0.0))
def log_softmax(op: Call, x: Range) -> Range:
    """Increasing in its own logit, decreasing in all others; finite wherever the logits are."""
    limit = 1.01 * np.log(op.accumulation(x.format).high)
    if x.shape is None:
        return x.replace(x.low - x.high - limit, np.zeros_like(x.high), _special(x, None, NEGATIVE_INFINITY))
    axes = softmax_axes(op, x.rank)
    if 0 in x.cells:
        return x.without_special()
    rows = Rows(x, axes, empty=-np.inf)
    u, terms = x.format.unit_roundoff, min(rows.length, 2.0**63)
    lower, upper = _log_bounds(rows, rows.flatten(_maskable(x)))
    # (x - max) - log(sum): the first has error u * |x - max|, at most u * |result|; log(sum) is at most log(n).
    error = exponential_sum_error(op, x.format, terms) + FUNCTION_ERROR * u * np.log(terms) + 2.0**-48
    low = rows.restore(lower * (1.0 + 1.01 * u) - error)
    high = rows.restore(np.minimum(upper * (1.0 - 1.01 * u) + error, 0.0))
    # If the sum does not overflow, its logarithm is at most that of the largest number.
    if terms > op.accumulation(x.format).high:
        op.report(ARITHMETIC_OVERFLOW, RESULT, x, True, gives=NEGATIVE_INFINITY)
    low = np.maximum(low, (x.low.min() - x.high.max()) * (1.0 + 1.01 * u) - limit)
    empty = x.low > x.high
    low, high = np.where(empty, np.inf, low), np.where(empty, -np.inf, high)
    return x.replace(low, high, _special(x, axes, NEGATIVE_INFINITY))


@log_softmax.aten("log_softmax.int", "special_log_softmax", "_log_softmax")
def _(call: AtenCall) -> int:
    return _spelled(call, "LogSoftmax")


@log_softmax.tensorflow("LogSoftmax")
def _(call: TensorflowCall) -> int:
    return call.emit("LogSoftmax", call.operand(0), axis=-1, formats=(call.arithmetic_format(),))


@log_softmax.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return along_distributions(run, x, run.torch.log_softmax)


@softmax.hazard(MASKED_SOFTMAX, gives=NAN)
@log_softmax.hazard(MASKED_SOFTMAX, gives=NAN)
def undefined_rows(op: Call, x: Range) -> Mask:
    """Cells that may be +inf, and rows without one element that is surely a number."""
    if not x.has_special:
        return False
    infinite = (x.special & POSITIVE_INFINITY) != 0
    if 0 in x.cells:
        return False
    axes = None if x.shape is None else softmax_axes(op, x.rank)
    return infinite | np.logical_and.reduce(_maskable(x), axis=axes, keepdims=True)
