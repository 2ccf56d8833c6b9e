"""Sorting and order statistics: sorted elements, the k-th smallest, medians and quantiles.

What is sorted is the standard's TopK; `Quantile` interpolates between neighbours in the order.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import BOOL, INT32, INT64, Array
from tensorproof.frontends.calls import OWN
from tensorproof.operators.activations import least
from tensorproof.operators.indexing import one_hot
from tensorproof.operators.reductions import reduce_sum
from tensorproof.operators.selection import top_k, unique
from tensorproof.operators.table import CORRECT, RESULT, Call, operator
from tensorproof.ranges.folds import Fold, normalised_axis
from tensorproof.ranges.moving import concatenate, reshape
from tensorproof.ranges.range import CELL_BUDGET, SPECIALS, Range
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall
    from tensorproof.frontends.calls import Handle
    from tensorproof.frontends.jax_call import JaxCall
    from tensorproof.frontends.tensorflow_call import TensorflowCall


@operator("Quantile", domain=OWN, error=CORRECT, overflow=ARITHMETIC_OVERFLOW, hazards=(ARITHMETIC_OVERFLOW,), steered_by=(1,))
def quantile(op: Call, x: Range, q: Range) -> Range:
    """Increasing in every element: from the quantile of the lower ends to that of the upper ones."""
    axis, levels = normalised_axis(int(op.attribute("axis")), x.rank), q.values()
    size = x.sizes[axis]
    if levels is None or size == 0:
        raise NotAnalysed("quantiles at levels that are computed, or of no elements, are not modelled")
    if x.cells[axis] > 1:
        others = math.prod(x.cells) // x.cells[axis]
        x = x.refine_fully(axis) if others * size <= CELL_BUDGET else x.smash((axis,))
    fold = Fold(x, (axis,), keepdims=bool(op.attribute("keepdims", 0)))
    results = [_at_level(op, fold, axis, size, float(level)) for level in levels.reshape(-1)]
    if not levels.ndim:
        return results[0]
    return concatenate([reshape(result, (1, *result.sizes)) for result in results], 0)


def _at_level(op: Call, fold: Fold, axis: int, size: int, level: float) -> Range:
    """One quantile: a neighbour in the order plus a share of the distance to the next one, three roundings."""
    x, interpolation = fold.x, op.attribute("interpolation", "linear")
    lower, upper = (np.sort(ends, axis=axis) for ends in fold.finite())
    # The place is a product in the tensor's own format.
    places = [float(kind(level) * kind(size - 1)) for kind in (np.float32, np.float64)]
    low, high = _between(lower, axis, min(places), interpolation, 0.0), _between(upper, axis, max(places), interpolation, 1.0)
    if interpolation in ("linear", "midpoint") and size > 1:
        reach = np.maximum(np.abs(lower), np.abs(upper)).max(axis=axis, keepdims=True)
        error = 8.0 * x.format.unit_roundoff * reach + 4.0 * least(op, x.format)
        low, high = low - error, high + error
        widest = fold.maximum(upper) - fold.minimum(lower)
        found = fold.result(low, high)
        op.report(ARITHMETIC_OVERFLOW, RESULT, found, (widest > x.format.high).reshape(found.cells), gives=SPECIALS)
    if not x.has_special:
        return fold.result(low, high)
    # Between infinities lies NaN, and one NaN makes all quantiles NaN.
    special = fold.union(x.special) != 0
    low, high = np.where(special, fold.minimum(lower), low), np.where(special, fold.maximum(upper), high)
    return fold.result(low, high, np.where(special, np.uint8(SPECIALS), np.uint8(0)))


def _between(ordered: Array, axis: int, place: float, interpolation: str, at_half: float) -> Array:
    """What stands for the element at a place of an order, which may lie between two; `at_half` decides between the nearest."""
    below, above = math.floor(place), math.ceil(place)
    share = {"linear": place - below, "lower": 0.0, "higher": 1.0, "midpoint": 0.5}.get(interpolation)
    if share is None:
        share = at_half if place - below == 0.5 else float(place - below > 0.5)
    # One cell stands for all elements.
    last = ordered.shape[axis] - 1
    first, second = (np.take(ordered, [min(index, last)], axis) for index in (below, above))
    return first + share * (second - first)


@quantile.meaning
def _(run: Run, x: Tensor, q: Tensor) -> Tensor:
    axis, keepdims = int(run.attribute("axis")), bool(run.attribute("keepdims", 0))
    wide = x if x.dtype.is_floating_point else x.to(run.torch.float64)
    interpolation = run.attribute("interpolation", "linear")
    return run.torch.quantile(wide, q.to(wide.dtype), dim=axis, keepdim=keepdims, interpolation=interpolation).to(x.dtype)


@quantile.aten("quantile", "quantile.scalar")
def _(call: AtenCall) -> int:
    """Along an axis, or over all elements; several levels come first in the result."""
    format, rank = call.result.format, call.rank("self")
    x, q = call.tensor("self", format), call.tensor("q", format)
    attributes: dict[str, Any] = {"interpolation": call["interpolation"], "formats": (format,)}
    if call.is_given("dim") and rank:
        return call.own("Quantile", x, q, axis=call["dim"], keepdims=int(bool(call["keepdim"])), **attributes)
    y = call.own("Quantile", call.reshaped(x, [-1]), q, axis=0, keepdims=0, **attributes)
    levels = [] if "scalar" in call.name else list(call.handle("q").shape or ())
    return call.reshaped(y, [*levels, *[1] * rank]) if call["keepdim"] else y


# -- sorted elements --------------------------------------------------------------------------------------------------


@top_k.aten("topk")
def _(call: AtenCall) -> tuple[int, int]:
    count = call.arguments["k"]
    return _sorted(call, count, largest=bool(call["largest"]), is_sorted=bool(call["sorted"]))


@top_k.aten("sort", "sort.stable")
def _(call: AtenCall) -> tuple[int, int]:
    return _all_sorted(call, descending=bool(call["descending"]))


@top_k.aten("argsort", "argsort.stable")
def _(call: AtenCall) -> int:
    return _all_sorted(call, descending=bool(call["descending"]))[1]


@top_k.aten("msort")
def _(call: AtenCall) -> int:
    x = call.handle("self")
    return _sorted(call, call.size(x, 0), axis=0, largest=False)[0] if call.rank("self") else call.moved("Identity", x.number)


def _all_sorted(call: AtenCall, *, descending: bool) -> tuple[int, int]:
    if not call.rank("self"):
        return call.moved("Identity", call.tensor("self")), call.constant(np.array(0, np.int64))
    axis = call.axis("dim", call.rank("self"))
    return _sorted(call, call.size(call.handle("self"), axis), axis=axis, largest=descending)


def _sorted(
    call: AtenCall, count: int | Handle, *, axis: int | None = None, largest: bool, is_sorted: bool = True, x: int | None = None
) -> tuple[int, int]:
    """The first elements of an order along an axis, and where they stood."""
    axis = int(call["dim"]) if axis is None else axis
    x = call.tensor("self") if x is None else x
    formats = (call.handle("self").format, INT64)
    attributes: dict[str, Any] = {"axis": axis, "largest": int(largest), "sorted": int(is_sorted)}
    return call.emit("TopK", x, call.integers([count]), outputs=2, formats=formats, **attributes)


# -- the k-th smallest ------------------------------------------------------------------------------------------------


@top_k.aten("kthvalue")
def _(call: AtenCall) -> tuple[int, int]:
    return _smallest_at(call, int(call["k"]))


@top_k.aten("median.dim", "nanmedian.dim")
def _(call: AtenCall) -> tuple[int, int]:
    """Of an even number of elements the lower one of the two in the middle."""
    return _smallest_at(call, (_fixed_size(call, call.axis("dim", call.rank("self"))) + 1) // 2)


@quantile.aten("median", "nanmedian")
def _(call: AtenCall) -> int:
    flat, half = call.reshaped(call.tensor("self"), [-1]), call.constant(np.array(0.5))
    return call.own("Quantile", flat, half, axis=0, keepdims=0, interpolation="lower", formats=(call.result.format,))


def _fixed_size(call: AtenCall, axis: int) -> int:
    size = (call.handle("self").shape or ())[axis]
    if not isinstance(size, int) or size == 0:
        raise NotAnalysed("the number of elements of a median is not fixed")
    return size


def _smallest_at(call: AtenCall, k: int) -> tuple[int, int]:
    """The k-th smallest element along an axis, and where it stands."""
    last = call.constant(np.array([k - 1] if call["keepdim"] else k - 1, np.int64))
    values, places = (
        call.moved("Gather", part, last, axis=call.axis("dim", call.rank("self"))) for part in _sorted(call, k, largest=False)
    )
    return values, places


# -- TensorFlow --------------------------------------------------------------------------------------------------------


@top_k.tensorflow("NthElement")
def _(call: TensorflowCall) -> int:
    """The n-th smallest element of the last axis, or the n-th largest."""
    (n,), is_reverse = call.integers_of(1), int(bool(call.attribute("reverse", False)))
    values, _ = call.emit(
        "TopK", call.operand(0), call.integers([n + 1]), outputs=2, axis=-1, largest=is_reverse, formats=(call.format(), INT64)
    )
    return call.moved("Gather", values, call.constant(np.array(n, np.int64)), axis=-1)


@reduce_sum.tensorflow("InTopK", "InTopKV2")
def _(call: TensorflowCall) -> int:
    """Whether fewer than k predictions exceed that of the target, and all of them are finite."""
    x, targets = call.operand(0), call.moved("Unsqueeze", call.operand(1, INT64), call.integers([1]))
    own = call.moved("GatherElements", x, targets, axis=1)
    above = call.cast(call.emit("Greater", x, own, formats=(BOOL,)), INT64)
    last = call.integers([1])
    count = call.emit("ReduceSum", above, last, keepdims=0, formats=(INT64,))
    k = call.reshaped(call.operand(2, INT64), []) if call.name == "InTopKV2" else call.value(int(call.attribute("k")), INT64)
    is_nan, is_infinite = (call.emit(op, x, formats=(BOOL,)) for op in ("IsNaN", "IsInf"))
    is_odd = call.emit("ReduceMax", call.emit("Or", is_nan, is_infinite, formats=(BOOL,)), last, keepdims=0, formats=(BOOL,))
    is_finite = call.emit("Not", is_odd, formats=(BOOL,))
    return call.emit("And", call.emit("Less", count, k, formats=(BOOL,)), is_finite, formats=(BOOL,))


@reduce_sum.tensorflow("LowerBound", "UpperBound")
def _(call: TensorflowCall) -> int:
    """How many elements of an ordered row are smaller (or not larger) than a value."""
    rows = call.moved("Unsqueeze", call.operand(0), call.integers([1]))
    values = call.moved("Unsqueeze", call.operand(1), call.integers([2]))
    before = call.emit("Less" if call.name == "LowerBound" else "LessOrEqual", rows, values, formats=(BOOL,))
    count = call.emit("ReduceSum", call.cast(before, INT64), call.integers([2]), keepdims=0, formats=(INT64,))
    return call.cast(count, call.attribute("out_type", INT32))


@unique.tensorflow("UniqueV2", "UniqueWithCountsV2")
def _(call: TensorflowCall) -> tuple[int, ...]:
    """Distinct values in the order in which they occur first, which of them each element is, and how often each occurs."""
    named = call.integers_of(1)
    format, of_places = call.format(), call.attribute("out_idx", INT32)
    found = call.emit(
        "Unique", call.operand(0), outputs=4, sorted=0, axis=named[0] if named else None, formats=(format, INT64, INT64, INT64)
    )
    values, _, inverse, counts = found
    both = values, call.cast(inverse, of_places)
    return both if "WithCounts" not in call.name else (*both, call.cast(counts, of_places))


@one_hot.tensorflow("OneHot")
def _(call: TensorflowCall) -> int:
    """One value at the index and another elsewhere; a negative index is met nowhere, as one beyond the depth."""
    index, depth = call.operand(0, INT64), call.reshaped(call.operand(1, INT64), [])
    is_negative = call.emit("Less", index, call.value(0, INT64), formats=(BOOL,))
    index = call.emit("Where", is_negative, depth, index, formats=(INT64,))
    values = call.moved("Concat", *(call.reshaped(call.operand(place), [1]) for place in (3, 2)), axis=0)
    return call.emit("OneHot", index, depth, values, axis=int(call.attribute("axis", -1)), formats=(call.format(),))


# -- JAX ---------------------------------------------------------------------------------------------------------------


@top_k.jax("sort")
def _(call: JaxCall) -> tuple[int, ...]:
    """Tensors in the order of the first of them, where these are equal of the second, and so on: sorted by the last key first."""
    axis, keys = int(call["dimension"]), int(call["num_keys"])
    operands = call.all_operands()
    if not call.shape(0):
        return tuple(call.moved("Identity", x) for x in operands)
    if len(operands) == 1:
        return (_ascending(call, operands[0], axis)[0],)
    for key in reversed(range(keys)):
        _, places = _ascending(call, operands[key], axis)
        operands = [call.moved("GatherElements", x, places, axis=axis) for x in operands]
    return tuple(operands)


def _ascending(call: JaxCall, x: int, axis: int) -> tuple[int, int]:
    """The elements of an axis in ascending order, equal ones as they came, and where they stood."""
    format = call.format_of(x)
    if format is BOOL:
        x = call.cast(x, INT32)
    count = call.integers([call.shape(0)[axis]])
    values, places = call.emit("TopK", x, count, outputs=2, axis=axis, largest=0, formats=(call.format_of(x), INT64))
    return (values if format is None else call.cast(values, format)), places
