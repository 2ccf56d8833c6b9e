"""Slices as TensorFlow and JAX write them: strides with masks, axes read backwards, axes that are rolled, and their gradients.

All of them are the standard's Slice, Gather and Pad.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import BOOL, INT64
from tensorproof.frontends.calls import Handle
from tensorproof.graph import ABSENT
from tensorproof.operators.cropping import END, pad, slice_
from tensorproof.operators.scattering import scatter_elements
from tensorproof.ranges.moving import known_axis

if TYPE_CHECKING:
    from tensorproof.frontends.jax_call import JaxCall
    from tensorproof.frontends.tensorflow_call import TensorflowCall

#: A position or a size: a number, or what computes it.
_Item = int | Handle


def every_step(call: TensorflowCall | JaxCall, x: int, parts: Sequence[tuple[int, _Item, _Item, int]]) -> int:
    """The elements of some axes (axis, start, end, step), the value itself where that is all of them."""
    kept = [part for part in parts if part[1:] != (0, END, 1)]
    if not kept:
        return x
    axes, starts, ends, steps = zip(*kept)
    return call.moved("Slice", x, *(call.integers(items) for items in (starts, ends, axes, steps)))


# -- strided slices of TensorFlow -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Strided:
    """What a strided slice asks for: slices of axes, positions of axes that vanish, and where new axes stand in the result."""

    slices: tuple[tuple[int, _Item, _Item, int], ...]
    picked: tuple[tuple[int, _Item], ...]
    new: tuple[int, ...]


def strided(call: TensorflowCall, first: int, rank: int | None) -> Strided:
    """The slice that the operands from `first` on (begin, end, strides) and the five masks ask for.

    The rules are those of TensorFlow's `ValidateStridedSliceOp`: an ellipsis takes all axes that nothing else names, a new axis
    takes none, and the position of an axis that vanishes is what counts, whatever the masks for its ends say.
    """
    begin, end = (_items(call, index) for index in (first, first + 1))
    steps = call.integers_of(first + 2)
    masks = {name: int(call.attribute(f"{name}_mask", 0)) for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}

    def is_set(name: str, index: int) -> bool:
        return bool(masks[name] >> index & 1)

    named = sum(not is_set("ellipsis", index) and not is_set("new_axis", index) for index in range(len(steps)))
    slices: list[tuple[int, _Item, _Item, int]] = []
    picked: list[tuple[int, _Item]] = []
    new: list[int] = []
    axis = place = 0
    for index, step in enumerate(steps):
        if is_set("ellipsis", index):
            if index < len(steps) - 1:
                if rank is None:
                    raise NotAnalysed("an ellipsis before other axes of a tensor of unknown rank")
                axis, place = axis + rank - named, place + rank - named
        elif is_set("new_axis", index):
            new.append(place)
            place += 1
        elif is_set("shrink_axis", index):
            picked.append((axis, begin[index]))
            axis += 1
        else:
            far = END if step > 0 else -END
            start = (0 if step > 0 else END) if is_set("begin", index) else begin[index]
            slices.append((axis, start, far if is_set("end", index) else end[index], step))
            axis, place = axis + 1, place + 1
    return Strided(tuple(slices), tuple(picked), tuple(new))


def _items(call: TensorflowCall, index: int) -> list[_Item]:
    """The elements of a list of whole numbers, each known or computed."""
    number = call.operand(index, INT64)

    def computed(place: int) -> Handle:
        position = call.constant(np.array(place, np.int64))
        return Handle(call.emit("Gather", number, position, axis=0, formats=(INT64,)), INT64, ())

    return [computed(place) if item is None else item for place, item in enumerate(_elements(call, index))]


def _elements(call: TensorflowCall, index: int) -> list[int | None]:
    """The elements of a list of whole numbers, None for those that are not known."""
    shape = call.shape(index)
    try:
        return call.sizes_of(index)
    except NotAnalysed:
        if shape is None or len(shape) != 1 or not isinstance(shape[0], int):
            raise NotAnalysed("the number of axes of a slice is not known") from None
        return [None] * shape[0]


def _rank(call: TensorflowCall, index: int) -> int | None:
    shape = call.shape(index)
    return None if shape is None else len(shape)


@slice_.tensorflow("StridedSlice")
def _(call: TensorflowCall) -> int:
    wanted = strided(call, 1, _rank(call, 0))
    x = every_step(call, call.operand(0), wanted.slices)
    for axis, position in reversed(wanted.picked):
        x = call.moved("Gather", x, call.value(position, INT64), axis=axis)
    if wanted.new:
        x = call.moved("Unsqueeze", x, call.integers(wanted.new))
    return call.moved("Identity", x) if x == call.operand(0) else x


@slice_.tensorflow("Slice")
def _(call: TensorflowCall) -> int:
    """From a position on, as many elements as a size says, -1 for all that are left."""
    begin, sizes = _items(call, 1), _items(call, 2)
    parts: list[tuple[int, _Item, _Item, int]] = []
    for axis, (start, size) in enumerate(zip(begin, sizes)):
        if isinstance(size, Handle):
            # A size that is computed may be -1: then the end is that of the axis.
            is_rest = call.emit("Less", size.number, call.value(0, INT64), formats=(BOOL,))
            stop = call.emit("Add", call.value(start, INT64), size.number, formats=(INT64,))
            number = call.emit("Where", is_rest, call.value(END, INT64), stop, formats=(INT64,))
            parts.append((axis, start, Handle(number, INT64, ()), 1))
        elif isinstance(start, int):
            parts.append((axis, start, END if size == -1 else start + size, 1))
        elif size == -1:
            parts.append((axis, start, END, 1))
        else:
            return _moved_window(call, begin, sizes)
    x = every_step(call, call.operand(0), parts)
    return call.moved("Identity", x) if x == call.operand(0) else x


def _moved_window(call: TensorflowCall, begin: Sequence[_Item], sizes: Sequence[_Item]) -> int:
    """A slice of known size from computed positions on: its elements are picked, so that its shape is known."""
    x = call.operand(0)
    for axis, (start, size) in enumerate(zip(begin, sizes)):
        if isinstance(start, Handle) and isinstance(size, int) and size != -1:
            offsets = call.constant(np.arange(size, dtype=np.int64))
            places = call.emit("Add", offsets, start.number, formats=(INT64,))
            x = call.moved("Gather", x, places, axis=axis)
        elif isinstance(start, int) and isinstance(size, int):
            x = every_step(call, x, [(axis, start, END if size == -1 else start + size, 1)])
        elif size == -1:
            x = every_step(call, x, [(axis, start, END, 1)])
        else:
            raise NotAnalysed("a slice of which some sizes and other positions are computed")
    return x


@pad.tensorflow("StridedSliceGrad")
def _(call: TensorflowCall) -> int:
    """Zeros, with the gradient at the elements that the slice took."""
    shape = _items(call, 0)
    wanted = strided(call, 1, len(shape))
    x = call.operand(4)
    if wanted.new:
        x = call.moved("Squeeze", x, call.integers(wanted.new))
    if wanted.picked:
        x = call.moved("Unsqueeze", x, call.integers([axis for axis, _ in wanted.picked]))
    for axis, start, end, step in wanted.slices:
        if (start, end, step) != (0, END, 1):
            x = _spread(call, x, axis, shape[axis], start, end, step)
    for axis, position in wanted.picked:
        x = _spread(call, x, axis, shape[axis], position, None, 1)
    return call.moved("Identity", x) if x == call.operand(4) else x


def _spread(call: TensorflowCall, x: int, axis: int, size: _Item, start: _Item, end: _Item | None, step: int) -> int:
    """Zeros along an axis of `size`, with the elements of `x` where a slice stands (at `start` alone without an end)."""
    if isinstance(size, int) and isinstance(start, int) and not isinstance(end, Handle):
        bounds = (start, (start + 1) or None, 1) if end is None else (start, end, step)
        places = range(*slice(*bounds).indices(size))
        if step == 1:
            return _framed(call, x, axis, places.start, size - places.start - len(places))
        # Position `len(places)` is that of one zero behind the elements.
        source = np.full(size, len(places), np.int64)
        source[list(places)] = np.arange(len(places))
        return call.moved("Gather", _framed(call, x, axis, 0, 1), call.constant(source), axis=axis)
    if step != 1:
        raise NotAnalysed("the gradient of a strided slice of an axis whose size is not fixed")
    first = call.value(start, INT64)
    if not isinstance(start, int) or start < 0:
        is_from_end = call.emit("Less", first, call.value(0, INT64), formats=(BOOL,))
        moved = call.emit("Add", first, call.value(size, INT64), formats=(INT64,))
        first = call.emit("Where", is_from_end, moved, first, formats=(INT64,))
    length = call.emit("Gather", call.shape_of(x), call.constant(np.array(axis, np.int64)), axis=0, formats=(INT64,))
    rest = call.emit("Sub", call.value(size, INT64), call.emit("Add", first, length, formats=(INT64,)), formats=(INT64,))
    return _framed(call, x, axis, Handle(first, INT64, ()), Handle(rest, INT64, ()))


def _framed(call: TensorflowCall, x: int, axis: int, before: _Item, behind: _Item) -> int:
    """Zeros before and behind the elements of one axis."""
    if before == behind == 0:
        return x
    return call.moved("Pad", x, call.integers([before, behind]), ABSENT, call.integers([axis]))


@scatter_elements.tensorflow("TensorStridedSliceUpdate")
def _(call: TensorflowCall) -> int:
    """A tensor with the elements of a slice written anew: those of its flat form at positions that are known."""
    sizes = call.sizes(0)
    wanted = strided(call, 1, len(sizes))
    fixed = [size for size in sizes if isinstance(size, int)]
    known = [item for part in wanted.slices for item in part] + [item for part in wanted.picked for item in part]
    if len(fixed) < len(sizes) or any(isinstance(item, Handle) for item in known):
        raise NotAnalysed("a slice of a tensor whose size is not fixed, or at computed positions, is written")
    index: list[Any] = [slice(None)] * len(fixed)
    for axis, start, end, step in wanted.slices:
        ends: tuple[Any, Any] = (start, None if end in (END, -END) else end)
        index[axis] = slice(*ends, step)
    for axis, position in wanted.picked:
        index[axis] = position
    places = np.arange(int(np.prod(fixed))).reshape(fixed)[tuple(index)]
    value = call.operand(4)
    shape = [1 if place in wanted.new else size for place, size in enumerate(_with_new(places.shape, wanted.new))]
    flat = call.reshaped(call.moved("Expand", value, call.integers(shape)), [places.size])
    written = call.moved("ScatterElements", call.reshaped(call.operand(0), [-1]), call.constant(places.reshape(-1)), flat, axis=0)
    return call.reshaped(written, fixed)


def _with_new(shape: Sequence[int], new: Sequence[int]) -> list[int]:
    sizes = list(shape)
    for place in sorted(new):
        sizes.insert(place, 1)
    return sizes


# -- slices of JAX, and axes read in another order ---------------------------------------------------------------------


@slice_.jax("slice")
def _(call: JaxCall) -> int:
    starts, ends = call["start_indices"], call["limit_indices"]
    steps = call["strides"] or (1,) * len(starts)
    sizes = call.shape(0)
    parts = [
        (axis, int(start), END if int(end) >= sizes[axis] else int(end), int(step))
        for axis, (start, end, step) in enumerate(zip(starts, ends, steps))
    ]
    x = every_step(call, call.operand(0), parts)
    return call.moved("Identity", x) if x == call.operand(0) else x


def reversed_along(call: TensorflowCall | JaxCall, x: int, axes: Sequence[int]) -> int:
    """Axes read from their end."""
    return every_step(call, x, [(axis, -1, -END, -1) for axis in axes])


@slice_.jax("rev")
def _(call: JaxCall) -> int:
    x = reversed_along(call, call.operand(0), [int(axis) for axis in call["dimensions"]])
    return call.moved("Identity", x) if x == call.operand(0) else x


@slice_.tensorflow("ReverseV2", "Reverse")
def _(call: TensorflowCall) -> int:
    """Axes read from their end; version 1 says of every axis whether it is."""
    named = call.integers_of(1)
    axes = named if call.name == "ReverseV2" else [axis for axis, is_read in enumerate(named) if is_read]
    x = reversed_along(call, call.operand(0), axes)
    return call.moved("Identity", x) if x == call.operand(0) else x


@slice_.tensorflow("Roll")
def _(call: TensorflowCall) -> int:
    """The last elements of an axis before the first ones; shifts of one axis add up."""
    sizes, x = call.sizes(0), call.operand(0)
    total: dict[int, int] = {}
    for axis, shift in zip(call.integers_of(2), call.integers_of(1)):
        place = known_axis(axis, len(sizes))
        total[place] = total.get(place, 0) + shift
    for axis, shift in total.items():
        size = sizes[axis]
        if isinstance(size, int):
            shift = shift % size if size else 0
        elif shift:
            raise NotAnalysed("an axis whose size is not fixed is rolled")
        if shift:
            parts = every_step(call, x, [(axis, -shift, END, 1)]), every_step(call, x, [(axis, 0, -shift, 1)])
            x = call.moved("Concat", *parts, axis=axis)
    return call.moved("Identity", x) if x == call.operand(0) else x
