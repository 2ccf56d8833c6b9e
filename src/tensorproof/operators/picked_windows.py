"""Windows of a tensor at positions that are data: gather, scatter and dynamic slices of JAX, gathers and scatters of TensorFlow.

JAX's gather picks windows of one size at tuples of start positions, its scatter writes them. Both become the standard's GatherND
and ScatterND: windows that are wider than one element are picked element by element, at the start plus each offset.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.formats import BOOL, INT64, Format
from tensorproof.frontends.calls import Handle, into
from tensorproof.operators.indexing import gather, gather_nd
from tensorproof.operators.scattering import scatter_nd

if TYPE_CHECKING:
    from tensorproof.frontends.jax_call import JaxCall
    from tensorproof.frontends.tensorflow_call import TensorflowCall

#: What our scatters call JAX's.
_REDUCTIONS = {
    "scatter": None,
    "scatter-add": "add",
    "scatter-sub": "add",
    "scatter-mul": "mul",
    "scatter-min": "min",
    "scatter-max": "max",
}


# -- positions of windows ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Windows:
    """Start positions of windows in some axes of a tensor.

    `starts` has the shape (*batch, axes): one position for each of `axes`, of windows of `widths` elements in axes of `sizes`.
    """

    starts: int
    batch: tuple[int, ...]
    axes: tuple[int, ...]
    widths: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def last(self) -> npt.NDArray[np.int64]:
        """The last start of each axis at which a window lies inside."""
        return np.array([size - width for size, width in zip(self.sizes, self.widths)], np.int64)

    @property
    def wide(self) -> list[int]:
        """The numbers of the axes in which windows have more than one element, or none."""
        return [index for index, width in enumerate(self.widths) if width != 1]

    def clamped(self, call: JaxCall) -> int:
        """Starts moved to the nearest one at which the window lies inside."""
        low = call.emit("Max", self.starts, call.constant(np.zeros(1, np.int64)), formats=(INT64,))
        return call.emit("Min", low, call.constant(self.last), formats=(INT64,))

    def inside(self, call: JaxCall) -> int:
        """Whether each window lies inside: truth values of the shape of the batch."""
        above = call.emit("GreaterOrEqual", self.starts, call.constant(np.zeros(1, np.int64)), formats=(BOOL,))
        below = call.emit("LessOrEqual", self.starts, call.constant(self.last), formats=(BOOL,))
        both = call.emit("And", above, below, formats=(BOOL,))
        return call.emit("ReduceMin", both, call.integers([-1]), keepdims=0, formats=(BOOL,))

    def tuples(self, call: JaxCall, starts: int) -> int:
        """The position of every element of every window: (*batch, *widths of the wide axes, axes)."""
        wide = self.wide
        if not wide:
            return starts
        offsets = np.zeros((*(self.widths[index] for index in wide), len(self.axes)), np.int64)
        for place, index in enumerate(wide):
            shape = [-1 if other == place else 1 for other in range(len(wide))]
            offsets[..., index] = np.arange(self.widths[index]).reshape(shape)
        spread = call.reshaped(starts, [*self.batch, *[1] * len(wide), len(self.axes)])
        return call.emit("Add", spread, call.constant(offsets), formats=(INT64,))


def _starts(call: JaxCall, index: int, order: Sequence[int]) -> int:
    """Start positions as 64-bit integers, the axes of their batch in another order."""
    number = call.operand(index, INT64)
    return call.moved("Transpose", number, perm=[*order, len(order)]) if list(order) != sorted(order) else number


def _mode(call: JaxCall) -> str:
    """What happens to windows that do not lie inside: CLIP, FILL_OR_DROP, PROMISE_IN_BOUNDS."""
    mode = call["mode"]
    name = str(getattr(mode, "name", mode))
    if name not in ("CLIP", "FILL_OR_DROP", "PROMISE_IN_BOUNDS"):
        raise NotAnalysed(f"indices of mode {name}")
    return name


def _turned(call: JaxCall | TensorflowCall, x: int, order: Sequence[int]) -> int:
    return call.moved("Transpose", x, perm=list(order)) if list(order) != sorted(order) else x


def _are_inside(call: JaxCall, index: int, windows: _Windows) -> bool:
    """Whether starts are known, and all windows lie inside."""
    try:
        known = call.known(index)
    except NotAnalysed:
        return False
    return bool(((known >= 0) & (known <= windows.last)).all())


# -- gather ------------------------------------------------------------------------------------------------------------


@gather_nd.jax("gather")
def _(call: JaxCall) -> int:
    """Windows at start positions; axes of a batch that both operands share come first."""
    numbers = call["dimension_numbers"]
    sizes, shape = call.shape(0), call.shape(1)
    widths = [int(width) for width in call["slice_sizes"]]
    axes = [int(axis) for axis in numbers.start_index_map]
    shared = [int(axis) for axis in numbers.operand_batching_dims]
    shared_of_starts = [int(axis) for axis in numbers.start_indices_batching_dims]
    offsets = [axis for axis in range(len(sizes)) if axis not in (*numbers.collapsed_slice_dims, *shared)]
    others = [axis for axis in range(len(sizes)) if axis not in (*axes, *shared)]
    if any(widths[axis] != sizes[axis] for axis in others):
        raise NotAnalysed("windows that are narrower than an axis which no index names")
    batch_order = [*shared_of_starts, *(axis for axis in range(len(shape) - 1) if axis not in shared_of_starts)]
    batch = tuple(shape[axis] for axis in batch_order)
    starts = _starts(call, 1, batch_order)
    windows = _Windows(starts, batch, tuple(axes), tuple(widths[axis] for axis in axes), tuple(sizes[axis] for axis in axes))
    mode = "PROMISE_IN_BOUNDS" if _are_inside(call, 1, windows) else _mode(call)
    places = starts if mode == "PROMISE_IN_BOUNDS" else windows.clamped(call)
    x = call.operand(0)
    wide = windows.wide
    if not axes:
        raise NotAnalysed("windows at no position")
    if len(axes) == 1 and not shared and not wide:
        index = call.reshaped(places, list(batch))
        rank = len(batch)
        found = call.moved("Gather", x, index, axis=axes[0])
        before = sum(axis < axes[0] for axis in others)
        # The axes of the index stand where the axis was that they replace.
        found = _turned(call, found, [*range(before, before + rank), *range(before), *range(before + rank, rank + len(others))])
    else:
        ordered = _turned(call, x, [*shared, *axes, *others])
        found = call.moved("GatherND", ordered, windows.tuples(call, places), batch_dims=len(shared) or None)
    if mode == "FILL_OR_DROP":
        found = _filled(call, found, windows, len(wide) + len(others))
    # Now (*batch, *wide axes, *others); the result wants the axes of windows in the order of the tensor.
    inner = [*(axes[index] for index in wide), *others]
    order = sorted(range(len(inner)), key=lambda place: inner[place])
    found = _turned(call, found, [*range(len(batch)), *(len(batch) + place for place in order)])
    found = call.reshaped(found, [*batch, *(widths[axis] for axis in offsets)])
    return _turned(call, found, _placed_axes(call, numbers.offset_dims, batch_order))


def _filled(call: JaxCall, found: int, windows: _Windows, inner: int) -> int:
    """A number instead of windows that do not lie inside: by default NaN, the least number, or the largest unsigned one."""
    format = call.result.format
    if format is None:
        raise NotAnalysed("numbers of this type are not modelled")
    given = call["fill_value"]
    if given is None:
        given = math.nan if format.is_float else format.high if format.low == 0 else format.low
    fill = call.constant(np.asarray(given, np.float64 if format.is_float else np.int64 if format.low < 0 else np.uint64), format)
    is_inside = windows.inside(call)
    if inner:
        is_inside = call.moved("Unsqueeze", is_inside, call.integers(range(len(windows.batch), len(windows.batch) + inner)))
    return call.emit("Where", is_inside, found, fill, formats=(format,))


def _placed_axes(call: JaxCall, offset_dims: Sequence[int], batch_order: Sequence[int]) -> list[int]:
    """The order that brings (*batch, *window) to the result: windows at the axes that are named, the batch elsewhere."""
    rank = len(call.result_shape)
    places = [axis for axis in range(rank) if axis not in offset_dims]
    order = [0] * rank
    for number, axis in enumerate(batch_order):
        order[places[axis]] = number
    for number, axis in enumerate(offset_dims):
        order[int(axis)] = len(batch_order) + number
    return order


# -- scatter -----------------------------------------------------------------------------------------------------------


@scatter_nd.jax(*_REDUCTIONS)
def _(call: JaxCall) -> int:
    """Windows written, or combined with what stands there, at start positions; those that do not lie inside may be left out."""
    if call.name == "scatter" and call["update_jaxpr"] is not None:
        raise NotAnalysed("windows that a function of the program combines with what stands there")
    numbers = call["dimension_numbers"]
    sizes, shape = call.shape(0), call.shape(1)
    axes = [int(axis) for axis in numbers.scatter_dims_to_operand_dims]
    shared = [int(axis) for axis in numbers.operand_batching_dims]
    shared_of_starts = [int(axis) for axis in numbers.scatter_indices_batching_dims]
    window_axes = [axis for axis in range(len(sizes)) if axis not in (*numbers.inserted_window_dims, *shared)]
    updated = call.shape(2)
    widths = [1] * len(sizes)
    for axis, place in zip(window_axes, numbers.update_window_dims):
        widths[axis] = updated[int(place)]
    others = [axis for axis in range(len(sizes)) if axis not in (*axes, *shared)]
    if any(widths[axis] != sizes[axis] for axis in others):
        raise NotAnalysed("windows that are narrower than an axis which no index names")
    batch = shape[:-1]
    starts = call.operand(1, INT64)
    windows = _Windows(starts, tuple(batch), tuple(axes), tuple(widths[axis] for axis in axes), tuple(sizes[axis] for axis in axes))
    mode = "PROMISE_IN_BOUNDS" if _are_inside(call, 1, windows) else _mode(call)
    places = starts if mode == "PROMISE_IN_BOUNDS" else windows.clamped(call)
    drops = mode == "FILL_OR_DROP"
    updates = _updates(call, windows, window_axes, others)
    if call.name == "scatter-sub":
        updates = call.moved("Neg", updates)
    return written(call, windows, places, updates, others, (shared, shared_of_starts), _REDUCTIONS[call.name], drops)


def _updates(call: JaxCall, windows: _Windows, window_axes: Sequence[int], others: Sequence[int]) -> int:
    """Updates as (*batch, *wide axes, *others); axes in which windows have one element are left out."""
    dims = [int(place) for place in call["dimension_numbers"].update_window_dims]
    batch = [axis for axis in range(len(call.shape(2))) if axis not in dims]
    inner = [*(windows.axes[index] for index in windows.wide), *others]
    kept = [dims[window_axes.index(axis)] for axis in inner]
    narrow = [place for place in dims if place not in kept]
    turned = _turned(call, call.operand(2), [*batch, *kept, *narrow])
    sizes = call.shape(2)
    return call.reshaped(turned, [*(sizes[axis] for axis in batch), *(sizes[place] for place in kept)]) if narrow else turned


def written(
    call: JaxCall,
    windows: _Windows,
    places: int,
    updates: int,
    others: Sequence[int],
    shared: tuple[Sequence[int], Sequence[int]],
    reduction: str | None,
    drops: bool,
) -> int:
    """The first operand with windows written; `drops` leaves out those that do not lie inside.

    What is left out is written into a slice more, behind the first of the axes, which is then cut off.
    """
    axes, sizes = windows.axes, call.shape(0)
    if not axes:
        raise NotAnalysed("windows at no position")
    lead = [*axes, *shared[0]]
    order = [*lead, *others]
    x = _turned(call, call.operand(0), order)
    tuples = windows.tuples(call, places)
    if drops:
        inner = range(len(windows.batch), len(windows.batch) + len(windows.wide) + 1)
        is_inside = call.moved("Unsqueeze", windows.inside(call), call.integers(inner))
        outside = call.constant(np.array([windows.sizes[0], *[0] * (len(axes) - 1)], np.int64))
        tuples = call.emit("Where", is_inside, tuples, outside, formats=(INT64,))
        x = call.moved("Pad", x, call.integers([0, 1]), _zero(call), call.integers([0]))
    if shared[0]:
        tuples = _with_batch(call, tuples, windows, shared)
    result = call.moved("ScatterND", x, tuples, updates, reduction=reduction)
    if drops:
        result = call.moved("Slice", result, call.integers([0]), call.integers([sizes[lead[0]]]), call.integers([0]))
    return _turned(call, result, [order.index(axis) for axis in range(len(order))])


def _zero(call: JaxCall) -> int:
    format = call.result.format
    if format is None:
        raise NotAnalysed("numbers of this type are not modelled")
    return call.constant(np.zeros(()), format)


def _with_batch(call: JaxCall, tuples: int, windows: _Windows, shared: tuple[Sequence[int], Sequence[int]]) -> int:
    """Positions with those in the axes of a batch that both operands share, which are the numbers of these."""
    lead = (*windows.batch, *(windows.widths[index] for index in windows.wide))
    parts = [tuples]
    for axis in shared[1]:
        along = np.arange(lead[axis], dtype=np.int64).reshape([-1 if other == axis else 1 for other in range(len(lead))])
        parts.append(call.constant(np.broadcast_to(along, lead)[..., None].copy()))
    return call.moved("Concat", *parts, axis=-1)


# -- dynamic slices ----------------------------------------------------------------------------------------------------


@gather.jax("dynamic_slice")
def _(call: JaxCall) -> int:
    """A window at a start that is moved, if need be, so that the window lies inside."""
    x, sizes = call.operand(0), call.shape(0)
    for axis, width in enumerate(int(width) for width in call["slice_sizes"]):
        if width == sizes[axis]:
            continue
        start = _clamped_start(call, 1 + axis, sizes[axis] - width)
        if isinstance(start, int):
            x = call.moved("Slice", x, call.integers([start]), call.integers([start + width]), call.integers([axis]))
            continue
        places = call.emit("Add", call.constant(np.arange(width, dtype=np.int64)), start.number, formats=(INT64,))
        x = call.moved("Gather", x, places, axis=axis)
    return call.moved("Identity", x) if x == call.operand(0) else x


def _clamped_start(call: JaxCall, index: int, last: int) -> int | Handle:
    """A start position inside, as a number where it is known."""
    try:
        return min(max(int(call.known(index)), 0), last)
    except NotAnalysed:
        low = call.emit("Max", call.operand(index, INT64), call.value(0, INT64), formats=(INT64,))
        return Handle(call.emit("Min", low, call.value(last, INT64), formats=(INT64,)), INT64, ())


@scatter_nd.jax("dynamic_update_slice")
def _(call: JaxCall) -> int:
    """A window written anew at a start that is moved, if need be, so that the window lies inside."""
    sizes, widths = call.shape(0), call.shape(1)
    narrow = [axis for axis in range(len(sizes)) if widths[axis] != sizes[axis]]
    if not narrow:
        return call.moved("Identity", call.operand(1))
    if 0 in widths:
        return call.moved("Identity", call.operand(0))
    starts = {axis: _clamped_start(call, 2 + axis, sizes[axis] - widths[axis]) for axis in narrow}
    start = starts[narrow[0]]
    if len(narrow) == 1 and isinstance(start, int):
        return _with_window(call, narrow[0], start)
    others = [axis for axis in range(len(sizes)) if axis not in narrow]
    first = call.integers([starts[axis] for axis in narrow])
    windows = _Windows(first, (), tuple(narrow), tuple(widths[axis] for axis in narrow), tuple(sizes[axis] for axis in narrow))
    tuples = windows.tuples(call, first)
    inner = [narrow[index] for index in windows.wide]
    updates = _turned(call, call.operand(1), [*narrow, *others])
    updates = call.reshaped(updates, [widths[axis] for axis in (*inner, *others)])
    order = [*narrow, *others]
    result = call.moved("ScatterND", _turned(call, call.operand(0), order), tuples, updates)
    return _turned(call, result, [order.index(axis) for axis in range(len(order))])


def _with_window(call: JaxCall, axis: int, start: int) -> int:
    """Slices in a row written anew: what stands before and behind them is kept."""
    x, size, end = call.operand(0), call.shape(0)[axis], start + call.shape(1)[axis]
    along = call.integers([axis])
    before = [call.moved("Slice", x, call.integers([0]), call.integers([start]), along)] if start else []
    behind = [call.moved("Slice", x, call.integers([end]), call.integers([size]), along)] if end < size else []
    return call.moved("Concat", *before, call.operand(1), *behind, axis=axis)


# -- TensorFlow --------------------------------------------------------------------------------------------------------


def _parameters(call: TensorflowCall) -> int:
    """What is picked from: a tensor, or what a variable holds."""
    found = call.operands[0]
    if not isinstance(found, Handle) and hasattr(found, "value"):
        held: Handle = found.value(call)
        return held.number
    return call.operand(0)


@gather.tensorflow("Gather", "GatherV2", "ResourceGather")
def _(call: TensorflowCall) -> int:
    """Slices at positions along an axis; of axes that both operands share, each with its own positions."""
    x, index = _parameters(call), call.operand(1)
    axis = call.integers_of(2)[0] if call.name == "GatherV2" else 0
    shared = int(call.attribute("batch_dims", 0))
    if not shared:
        return call.moved("Gather", x, index, axis=axis)
    of_index = call.rank(1)
    shared = shared % of_index if of_index else 0
    if call.name == "ResourceGather":
        return call.moved("GatherND", x, call.moved("Unsqueeze", index, call.integers([of_index])), batch_dims=shared)
    rank = call.rank(0)
    axis = axis % rank
    between = list(range(shared, axis))
    turned = _turned(call, x, [*range(shared), axis, *between, *range(axis + 1, rank)])
    tuples = call.moved("Unsqueeze", index, call.integers([of_index]))
    found = call.moved("GatherND", turned, tuples, batch_dims=shared)
    # Now (*shared, *axes of the index, *between, *behind).
    own = of_index - shared
    order = [*range(shared), *(shared + own + place for place in range(len(between))), *range(shared, shared + own)]
    return _turned(call, found, [*order, *range(len(order), rank + own - 1)])


@gather_nd.tensorflow("GatherNd", "ResourceGatherNd")
def _(call: TensorflowCall) -> int:
    _refuse_policy(call)
    return call.moved("GatherND", _parameters(call), call.operand(1))


def _refuse_policy(call: TensorflowCall) -> None:
    if str(call.attribute("bad_indices_policy", "")) not in ("", "DEFAULT", "ERROR"):
        raise NotAnalysed("indices outside of the tensor are left out")


_SCATTERS = {"Update": None, "Add": "add", "Sub": "add", "Max": "max", "Min": "min"}


@scatter_nd.tensorflow(*(f"TensorScatter{kind}" for kind in _SCATTERS), "ScatterNdNonAliasingAdd")
def _(call: TensorflowCall) -> int:
    """Slices written, or combined with what stands there, at tuples of positions."""
    _refuse_policy(call)
    kind = call.name.removeprefix("TensorScatter") if call.name.startswith("Tensor") else "Add"
    updates = call.operand(2)
    if kind == "Sub":
        updates = call.moved("Neg", updates)
    return call.moved("ScatterND", call.operand(0), call.operand(1), updates, reduction=_SCATTERS[kind])


@scatter_nd.tensorflow("ScatterNd")
def _(call: TensorflowCall) -> int:
    """Slices added to zeros at tuples of positions."""
    _refuse_policy(call)
    zeros = filled(call, call.as_integers(2), 0, call.format())
    return call.moved("ScatterND", zeros, call.operand(0), call.operand(1), reduction="add")


def filled(call: TensorflowCall, sizes: int, number: float, format: Format) -> int:
    """A tensor of one number."""
    if format.kind not in ("float", "int", "bool"):
        raise NotAnalysed("tensors of this type are not modelled")
    return call.emit("ConstantOfShape", sizes, value=into(np.array([number]), format), formats=(format,))
