"""Reductions that select: maximum, minimum, and where they stand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.execute.choices import wanted_place
from tensorproof.formats import BOOL, INT64, Array, Format
from tensorproof.operators.reductions import axes_of, fold_of, reduced
from tensorproof.operators.softmax import along_distributions
from tensorproof.operators.table import Call, Mask, operator
from tensorproof.ranges.folds import Fold, normalised_axis
from tensorproof.ranges.grid import largest
from tensorproof.ranges.range import CELL_BUDGET, NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY, SPECIALS, Range
from tensorproof.rules.empty_reduction import EMPTY_REDUCTION

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall
    from tensorproof.frontends.jax_call import JaxCall
    from tensorproof.frontends.tensorflow_call import TensorflowCall


@operator("ReduceMax", steered_by=(1,))
def reduce_max(op: Call, x: Range, axes: Range | None = None) -> Range:
    """Increasing in every element, exact; the maximum of nothing is -inf (ONNX ReduceMax-20)."""
    return x if x.shape is None else _largest(fold_of(op, x, axes), x.format.low)


@operator("ReduceMin", steered_by=(1,))
def reduce_min(op: Call, x: Range, axes: Range | None = None) -> Range:
    """Increasing in every element, exact; the minimum of nothing is +inf (ONNX ReduceMin-20)."""
    return x if x.shape is None else _negated(_largest(fold_of(op, _negated(x), axes), -x.format.high))


@reduce_max.meaning
def _(run: Run, x: Tensor, axes: Tensor | None = None) -> Tensor:
    return _extreme(run, x, axes, run.torch.amax, -1)


@reduce_min.meaning
def _(run: Run, x: Tensor, axes: Tensor | None = None) -> Tensor:
    return _extreme(run, x, axes, run.torch.amin, 1)


def _extreme(run: Run, x: Tensor, axes: Tensor | None, function: Callable[..., Tensor], side: int) -> Tensor:
    """An extreme along the axes of a reduction; among nothing it is the end of the format on one side of zero."""
    chosen, keepdims = axes_of(run, x, axes), bool(run.attribute("keepdims", 1))
    if not chosen:
        return x
    if all(x.shape[axis] for axis in chosen):
        return function(x, chosen, keepdim=keepdims)
    if x.dtype.is_floating_point:
        end = side * math.inf
    elif x.dtype == run.torch.bool:
        end = side > 0
    else:
        limits = run.torch.iinfo(x.dtype)
        end = limits.max if side > 0 else limits.min
    return run.torch.full_like(x.sum(chosen, keepdim=keepdims), end, dtype=x.dtype)


@reduce_max.hazard(EMPTY_REDUCTION, gives=NEGATIVE_INFINITY)
def _(op: Call, x: Range, axes: Range | None = None) -> Mask:
    return x.format.is_float and (x.shape is None or fold_of(op, x, axes).may_be_empty)


@reduce_min.hazard(EMPTY_REDUCTION, gives=POSITIVE_INFINITY)
def _(op: Call, x: Range, axes: Range | None = None) -> Mask:
    return x.format.is_float and (x.shape is None or fold_of(op, x, axes).may_be_empty)


@reduce_max.aten("amax", "max")
def _(call: AtenCall) -> int:
    return reduced(call, "ReduceMax")


@reduce_min.aten("amin", "min")
def _(call: AtenCall) -> int:
    return reduced(call, "ReduceMin")


@reduce_max.aten("max.dim")
def _(call: AtenCall) -> tuple[int, int]:
    return reduced(call, "ReduceMax"), _place_along(call, "ArgMax")


@reduce_min.aten("min.dim")
def _(call: AtenCall) -> tuple[int, int]:
    return reduced(call, "ReduceMin"), _place_along(call, "ArgMin")


@reduce_max.aten("aminmax")
def _(call: AtenCall) -> tuple[int, int]:
    return reduced(call, "ReduceMin"), reduced(call, "ReduceMax")


@reduce_max.aten("any", "any.dim", "any.dims")
def _(call: AtenCall) -> int:
    return _decided(call, "ReduceMax")


@reduce_min.aten("all", "all.dim", "all.dims")
def _(call: AtenCall) -> int:
    return _decided(call, "ReduceMin")


def _decided(call: AtenCall, op: str) -> int:
    """Whether some or all elements are not zero."""
    if call.result.format is not BOOL:
        raise NotAnalysed("the truth of unsigned 8-bit integers is not modelled")
    return reduced(call, op, call.tensor("self", BOOL))


@reduce_max.tensorflow("Max")
def _(call: TensorflowCall) -> int:
    return _along_axes(call, "ReduceMax", call.arithmetic_format())


@reduce_min.tensorflow("Min")
def _(call: TensorflowCall) -> int:
    return _along_axes(call, "ReduceMin", call.arithmetic_format())


@reduce_max.tensorflow("Any")
def _(call: TensorflowCall) -> int:
    return _along_axes(call, "ReduceMax", BOOL)


@reduce_min.tensorflow("All")
def _(call: TensorflowCall) -> int:
    return _along_axes(call, "ReduceMin", BOOL)


def _along_axes(call: TensorflowCall, op: str, format: Format) -> int:
    """Along the axes of the second operand; along none, if there are none."""
    keepdims = int(bool(call.attribute("keep_dims", False)))
    axes = call.as_integers(1)
    return call.emit(op, call.operand(0), axes, keepdims=keepdims, noop_with_empty_axes=1, formats=(format,))


@reduce_max.jax("reduce_max", "reduce_or")
def _(call: JaxCall) -> int:
    return _of_jax(call, "ReduceMax")


@reduce_min.jax("reduce_min", "reduce_and")
def _(call: JaxCall) -> int:
    return _of_jax(call, "ReduceMin")


def _of_jax(call: JaxCall, op: str) -> int:
    """Truth values have a larger and a smaller one; bits of integers do not."""
    format = call.arithmetic_format()
    if call.name in ("reduce_or", "reduce_and") and format is not BOOL:
        raise NotAnalysed("bits of integers along an axis")
    return call.emit(op, call.operand(0), call.integers(call["axes"]), keepdims=0, noop_with_empty_axes=1, formats=(format,))


def _negated(x: Range) -> Range:
    """-x, infinities included."""
    if not x.has_special:
        return x.replace(-x.high, -x.low, None)
    flags = x.special & np.uint8(NAN)
    flags |= np.where((x.special & POSITIVE_INFINITY) != 0, np.uint8(NEGATIVE_INFINITY), np.uint8(0))
    flags |= np.where((x.special & NEGATIVE_INFINITY) != 0, np.uint8(POSITIVE_INFINITY), np.uint8(0))
    return x.replace(-x.high, -x.low, flags)


def _largest(fold: Fold, of_nothing: float) -> Range:
    """The largest element of each fold.

    A NaN may be the result, or may make the runtime forget what it met before (ONNX Runtime gives 4.9 as the minimum of
    4.9, NaN, NaN, -0.01), so where one is possible the result is any element. Integers have no infinity: `of_nothing`
    is the end of their format; in floating formats the hazard says it.
    """
    x = fold.x
    low, high = fold.maximum(x.low), fold.maximum(x.high)
    flags = None
    if x.has_special:
        flags = fold.union(x.special)
        reliable = np.where((flags & NAN) != 0, -np.inf, fold.maximum(x.extended()[0]))
        low = np.where(np.isneginf(reliable), fold.minimum(x.low), reliable)
        flags &= np.where(np.isneginf(reliable), np.uint8(SPECIALS), np.uint8(NAN | POSITIVE_INFINITY))
        low, high = np.where(low > high, np.inf, low), np.where(low > high, -np.inf, high)
    elif fold.may_be_empty:
        none = np.isneginf(high)
        if x.format.is_float:
            low, high = np.where(none, 0.0, low), np.where(none, 0.0, high)
        else:
            low, high = np.full_like(low, of_nothing), np.where(none, of_nothing, high)
    return fold.result(low, high, flags)


@operator("ArgMax")
def arg_max(op: Call, x: Range) -> Range:
    """The hull of the places where the maximum can stand: one place where it is decided."""
    return _place(op, x)


@operator("ArgMin")
def arg_min(op: Call, x: Range) -> Range:
    """The hull of the places where the minimum can stand: one place where it is decided."""
    return _place(op, _negated(x))


@arg_max.aten("argmax")
def _(call: AtenCall) -> int:
    return _place_along(call, "ArgMax")


@arg_min.aten("argmin")
def _(call: AtenCall) -> int:
    return _place_along(call, "ArgMin")


def _place_along(call: AtenCall, op: str) -> int:
    """Where an extreme stands along an axis, or among all elements in their order in memory."""
    x, keepdim = call.tensor("self"), int(bool(call.get("keepdim", False)))
    if call.is_given("dim") and call.rank("self"):
        return call.emit(op, x, axis=call["dim"], keepdims=keepdim, formats=(INT64,))
    place = call.emit(op, call.reshaped(x, [-1]), axis=0, keepdims=0, formats=(INT64,))
    return call.reshaped(place, [1] * call.rank("self")) if keepdim else place


@arg_max.tensorflow("ArgMax")
def _(call: TensorflowCall) -> int:
    return _place_of(call, "ArgMax")


@arg_min.tensorflow("ArgMin")
def _(call: TensorflowCall) -> int:
    return _place_of(call, "ArgMin")


def _place_of(call: TensorflowCall, op: str) -> int:
    call.arithmetic_format()
    (axis,) = call.integers_of(1)
    place = call.emit(op, call.operand(0), axis=axis, keepdims=0, formats=(INT64,))
    return call.cast(place, call.format("output_type") if "output_type" in call.attributes else INT64)


@arg_max.jax("argmax")
def _(call: JaxCall) -> int:
    return _place_in_jax(call, "ArgMax")


@arg_min.jax("argmin")
def _(call: JaxCall) -> int:
    return _place_in_jax(call, "ArgMin")


def _place_in_jax(call: JaxCall, op: str) -> int:
    call.arithmetic_format()
    (axis,) = call["axes"]
    place = call.emit(op, call.operand(0), axis=int(axis), keepdims=0, formats=(INT64,))
    return place if call.result.format is None else call.cast(place, call.result.format)


@arg_max.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return _place_tensor(run, x, run.torch.argmax, 1.0)


@arg_min.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return _place_tensor(run, x, run.torch.argmin, -1.0)


def _place_tensor(run: Run, x: Tensor, function: Callable[..., Tensor], direction: float) -> Tensor:
    axis = normalised_axis(int(run.attribute("axis", 0)), x.dim())
    keepdims, size = bool(run.attribute("keepdims", 1)), x.shape[axis]
    if run.attribute("select_last_index", 0):
        place = size - 1 - function(x.flip(axis), axis, keepdim=keepdims)
    else:
        place = function(x, axis, keepdim=keepdims)
    if not run.search or not x.requires_grad:
        return place
    kept = place if keepdims else place.unsqueeze(axis)
    wanted = wanted_place(x, kept, axis, direction)
    return place + (wanted if keepdims else wanted.squeeze(axis))


def _place(op: Call, x: Range) -> Range:
    axis = normalised_axis(int(op.attribute("axis", 0)), x.rank)
    fold = Fold(x, (axis,), keepdims=bool(op.attribute("keepdims", 1)))
    assert x.shape is not None
    size = x.shape[axis]
    if size == 0:
        if fold.may_be_empty:
            raise NotAnalysed("the place of a maximum among no elements is undefined")
        cells = tuple(1 if i == axis else n for i, n in enumerate(x.cells))
        return fold.result(np.zeros(cells), np.zeros(cells), None, INT64)
    last = bool(op.attribute("select_last_index", 0))
    if not isinstance(size, int):
        cells = fold.maximum(x.low).shape
        bound = largest(size)
        high = np.full(cells, INT64.high if bound is None else max(bound - 1, 0))
        return fold.result(np.zeros(cells), high, None, INT64)
    cuts = x.grid[axis]
    cuts = np.array([0, size], np.int64) if cuts is None else cuts
    along = [-1 if i == axis else 1 for i in range(x.rank)]
    first, final = cuts[:-1].reshape(along).astype(np.float64), (cuts[1:] - 1).reshape(along).astype(np.float64)
    low, high = x.extended()
    possible, spread = _can_win(low, high, axis, last)
    # In a cell of equal elements only its first element (or its last) can win.
    nearest, farthest = (np.where(spread, first, final), final) if last else (first, np.where(spread, final, first))
    lowest = fold.minimum(np.where(possible, nearest, np.inf))
    highest = fold.maximum(np.where(possible, farthest, -np.inf))
    if x.any_special & NAN:
        undecided = (fold.union(x.special) & NAN) != 0
        lowest, highest = np.where(undecided, 0.0, lowest), np.where(undecided, size - 1.0, highest)
    return fold.result(lowest, highest, None, INT64)


def _can_win(low: Array, high: Array, axis: int, last: bool) -> tuple[np.ndarray, np.ndarray]:
    """Cells that may hold the maximum, and whether any element of the cell may be it.

    An element wins if it reaches what every element after it has at least, and exceeds what every element before it has
    at least (the other way round if the last maximum counts).
    """
    before, after = _running_maximum(low, axis), np.flip(_running_maximum(np.flip(low, axis), axis), axis)
    reached, exceeded = (before, after) if last else (after, before)
    exceeds = high > exceeded
    # Nothing stands before the first cell (behind the last one): there is nothing to exceed, not even -inf.
    end: list[slice] = [slice(None)] * low.ndim
    end[axis] = slice(-1, None) if last else slice(0, 1)
    exceeds[tuple(end)] = True
    return exceeds & (high >= reached), high > low


def _running_maximum(values: Array, axis: int) -> Array:
    """The maximum of all cells before each one; -inf before the first."""
    running = np.maximum.accumulate(values, axis=axis)
    shifted = np.full_like(running, -np.inf)
    index: list[slice] = [slice(None)] * values.ndim
    source = list(index)
    index[axis], source[axis] = slice(1, None), slice(None, -1)
    shifted[tuple(index)] = running[tuple(source)]
    return shifted


@operator("Hardmax")
def hardmax(op: Call, x: Range) -> Range:
    """1 at the first maximum and 0 elsewhere; below version 13 all axes from `axis` on are one."""
    rank = x.rank
    if op.version >= 13:
        return _hardmax_along(x, normalised_axis(int(op.attribute("axis", -1)), rank))
    axis = normalised_axis(int(op.attribute("axis", 1)), rank) if rank > 1 else 0
    if axis == rank - 1 or all(size == 1 for size in (x.shape or ())[axis + 1 :]):
        return _hardmax_along(x, axis)
    if not x.has_known_shape or x.size > CELL_BUDGET:
        ones = np.ones(x.cells)
        return x.replace(np.zeros(x.cells), ones, None)
    sizes = x.sizes
    rows = int(np.prod(sizes[:axis], dtype=np.int64))
    flat = x.select(lambda values: values.reshape(rows, -1) if values.size else values.reshape(rows, 0))
    return _hardmax_along(flat, 1).select(_reshaped_to(sizes))


@hardmax.meaning
def _(run: Run, x: Tensor) -> Tensor:
    def one_hot(rows: Tensor, axis: int) -> Tensor:
        if not rows.numel():
            return rows
        place = rows.argmax(axis, keepdim=True)
        return run.passing(run.torch.zeros_like(rows).scatter(axis, place, 1.0), run.torch.softmax(rows.nan_to_num(), axis))

    return along_distributions(run, x, one_hot)


def _reshaped_to(sizes: tuple[int, ...]) -> Callable[[np.ndarray], np.ndarray]:
    def reshape(values: np.ndarray) -> np.ndarray:
        return values.reshape(sizes)

    return reshape


def _hardmax_along(x: Range, axis: int) -> Range:
    """Per element whether it can, and whether it must, be the first maximum along an axis."""
    assert x.shape is not None
    if x.shape[axis] == 0 or x.low.size == 0:
        return x.replace(x.low, x.high, None)
    low, high = x.extended()
    possible, _ = _can_win(low, high, axis, False)
    size = x.shape[axis]
    cuts = x.grid[axis]
    sizes = np.array([size if isinstance(size, int) else 2]) if cuts is None else np.diff(cuts)
    single = (sizes == 1).reshape([-1 if i == axis else 1 for i in range(x.rank)])
    alone = possible.sum(axis=axis, keepdims=True) == 1
    certain = possible & alone & single
    if x.any_special & NAN:
        undecided = ((x.special & NAN) != 0).any(axis=axis, keepdims=True)
        possible, certain = possible | undecided, certain & ~undecided
    return x.replace(certain.astype(np.float64), possible.astype(np.float64), None)
