"""Elements: `x[i]`, `x[:, None, 1:]`, and assignment to them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from tensorproof.rules.shapes.index_out_of_range import INDEX_OUT_OF_RANGE
from tensorproof.rules.shapes.store_mismatch import STORE_MISMATCH
from tensorproof.shapes import calls, iteration, python_types
from tensorproof.shapes.problems import Place
from tensorproof.shapes.rule_table import NotKnown, as_tensor
from tensorproof.shapes.run import Run
from tensorproof.shapes.shape import ANY_SHAPE, Shape
from tensorproof.shapes.sizes import Polynomial, Size, bounds, largest, less, same, smallest, unknown
from tensorproof.shapes.values import (
    UNKNOWN,
    DictValue,
    Frame,
    History,
    Instance,
    ListValue,
    NativeObject,
    Slice,
    Tensor,
    Unknown,
    Value,
    as_size,
)


def get_item(run: Run, frame: Frame, node: ast.Subscript, owner: Value, index: Value) -> Value:
    """`owner[index]`."""
    if isinstance(owner, Tensor):
        return index_tensor(run, run.place(frame, node), owner, index)
    if isinstance(owner, tuple | str):
        return _of_sequence(run, frame, node, owner, index)
    if isinstance(owner, ListValue):
        if owner.items is None:
            return ListValue(None, owner.element) if isinstance(index, Slice) else owner.element
        found = _of_sequence(run, frame, node, owner.items, index)
        return ListValue(found) if isinstance(index, Slice) and isinstance(found, tuple) else found
    if isinstance(owner, DictValue):
        if owner.entries is None:
            return owner.element
        return owner.entries[index] if python_types.is_key(index) and index in owner.entries else UNKNOWN
    if isinstance(owner, Instance):
        method = calls.own_method(owner, "__getitem__")
        if method is not None:
            return calls.call(run, frame, node, method, (index,), {})
    if isinstance(owner, NativeObject | Instance):
        return calls.call_native(run, run.place(frame, node), owner, "__getitem__", (index,), {})
    return UNKNOWN


def _of_sequence(run: Run, frame: Frame, node: ast.Subscript, items: tuple[Value, ...] | str, index: Value) -> Value:
    if isinstance(index, Slice):
        ends = [part if part is None else as_size(part) for part in (index.start, index.stop, index.step)]
        if not all(part is None or isinstance(part, int) for part in ends):
            return UNKNOWN
        return items[slice(*ends)]
    position = as_size(index)
    if not isinstance(position, int):
        return iteration.any_of(run, tuple(items)) if isinstance(position, Polynomial) and items else UNKNOWN
    if -len(items) <= position < len(items):
        return items[position]
    if isinstance(items, tuple) and _is_shape_of(node) and items:
        shown = ", ".join(map(str, items))
        message = f"index {position} is out of range for the shape ({shown}), which has {len(items)} sizes"
        run.report(INDEX_OUT_OF_RANGE, run.place(frame, node), message, certain=True, operation="shape")
    return UNKNOWN


def _is_shape_of(node: ast.Subscript) -> bool:
    value = node.value
    return isinstance(value, ast.Attribute) and value.attr == "shape"


def delete_item(run: Run, owner: Value, index: Value) -> None:
    """`del owner[index]`."""
    if isinstance(owner, DictValue) and owner.entries is not None and python_types.is_key(index):
        run.trail.write(owner, "entries", {key: value for key, value in owner.entries.items() if key != index})
    elif isinstance(owner, ListValue) and owner.items is not None:
        position = as_size(index)
        if isinstance(position, int) and -len(owner.items) <= position < len(owner.items):
            position %= len(owner.items)
            run.trail.write(owner, "items", owner.items[:position] + owner.items[position + 1 :])
        else:
            run.trail.write(owner, "items", None)


def set_item(run: Run, frame: Frame, node: ast.Subscript, owner: Value, index: Value, value: Value) -> None:
    """`owner[index] = value`."""
    if isinstance(owner, Tensor):
        _store(run, run.place(frame, node), owner, index, value)
    elif isinstance(owner, DictValue):
        known = owner.entries is not None and python_types.is_key(index)
        if known:
            run.trail.write(owner, "entries", {**(owner.entries or {}), index: value})
        else:
            run.trail.write(owner, "entries", None)
            run.trail.write(owner, "element", UNKNOWN)
    elif isinstance(owner, ListValue):
        position = as_size(index) if not isinstance(index, Slice) else None
        items = owner.items
        if items is not None and isinstance(position, int) and -len(items) <= position < len(items):
            position %= len(items)
            run.trail.write(owner, "items", (*items[:position], value, *items[position + 1 :]))
        else:
            element = iteration.any_of(run, (*items, value)) if items is not None and position is not None else UNKNOWN
            run.trail.write(owner, "element", element)
            run.trail.write(owner, "length", len(items) if items is not None and position is not None else UNKNOWN)
            run.trail.write(owner, "items", None)
    elif isinstance(owner, NativeObject):
        calls.call_native(run, run.place(frame, node), owner, "__setitem__", (index, value), {})
    elif isinstance(owner, Instance):
        method = calls.own_method(owner, "__setitem__")
        if method is not None:
            calls.call(run, frame, node, method, (index, value), {})


def _store(run: Run, place: Place, owner: Tensor, index: Value, value: Value) -> None:
    """A value that is written into a part of a tensor must broadcast to that part, which cannot grow."""
    part = index_tensor(run, place, owner, index)
    if not isinstance(part, Tensor) or isinstance(value, Unknown):
        return
    try:
        stored = as_tensor(value, owner.framework)
    except NotKnown:
        return
    target, source = part.shape, stored.shape
    if target.tail is not None or source.tail is not None:
        return
    # Leading axes of size 1 are dropped by NumPy and PyTorch when they store.
    dims = list(source.dims)
    while len(dims) > len(target.dims) and dims[0] == 1:
        dims.pop(0)
    fits = len(dims) <= len(target.dims) and all(
        size == 1 or same(size, room) is not False for size, room in zip(reversed(dims), reversed(target.dims), strict=False)
    )
    if not fits:
        message = f"a value of shape {source} cannot be stored in a part of shape {target}"
        run.report(STORE_MISMATCH, place, message, certain=True, tensors=(stored, owner), operation="store")


# -- tensors ----------------------------------------------------------------------------------------------------------


def index_tensor(run: Run, place: Place, tensor: Tensor, index: Value) -> Value:
    """The part of a tensor that an index selects, by the rules of NumPy, which the others follow."""
    parts = list(index) if isinstance(index, tuple) else [index]
    if isinstance(tensor.content, tuple) and len(parts) == 1:
        selected = _content(tensor.content, parts[0])
        if selected is not None:
            return _with_content(tensor, selected)
    if any(isinstance(part, Unknown) for part in parts):
        return tensor.with_shape(ANY_SHAPE, contiguous=None)
    shape = tensor.shape
    used = sum(_axes_used(part) for part in parts)
    if shape.rank is not None and used > shape.rank:
        message = f"{used} indices for a tensor of shape {shape}, which has {_axes(shape.rank)}"
        run.report(INDEX_OUT_OF_RANGE, place, message, certain=True, tensors=(tensor,), operation="index")
        return tensor.with_shape(ANY_SHAPE)
    if shape.rank is None:
        return _of_open_shape(tensor, parts)
    filled = _with_ellipsis(parts, shape.rank - used)
    result = _select(run, place, tensor, filled)
    if result is None:
        return tensor.with_shape(ANY_SHAPE, contiguous=None)
    message = f"indexing gives {tensor.dtype or 'tensor'}{result.shape}"
    return replace(result, history=History(place, message, tensor.history))


def _axes(count: int) -> str:
    return f"{count} {'axis' if count == 1 else 'axes'}"


def _content(content: tuple[Value, ...], index: Value) -> Value:
    if isinstance(index, Slice):
        ends = [part if part is None else as_size(part) for part in (index.start, index.stop, index.step)]
        return content[slice(*ends)] if all(part is None or isinstance(part, int) for part in ends) else None
    position = as_size(index)
    return content[position] if isinstance(position, int) and -len(content) <= position < len(content) else None


def _with_content(tensor: Tensor, content: Value) -> Tensor:
    shape = Shape((len(content),)) if isinstance(content, tuple) else Shape(())
    return tensor.with_shape(shape, content=content)


def _axes_used(part: Value) -> int:
    """How many axes of the tensor one part of an index takes."""
    if part is None or part is Ellipsis or isinstance(part, bool):
        return 0
    if isinstance(part, Tensor) and part.dtype == "bool":
        return part.shape.rank if part.shape.rank is not None else 1
    return 1


def _with_ellipsis(parts: Sequence[Value], missing: int) -> list[Value]:
    """The index with `...` written out as full slices, at the end if there is none."""
    whole: list[Value] = [Slice(None, None, None)] * missing
    for position, part in enumerate(parts):
        if part is Ellipsis:
            return [*parts[:position], *whole, *parts[position + 1 :]]
    return [*parts, *whole]


def _of_open_shape(tensor: Tensor, parts: Sequence[Value]) -> Value:
    """A tensor of unknown rank: simple indices from the front, or behind an ellipsis from the back."""
    shape = tensor.shape
    if all(isinstance(part, int) and not isinstance(part, bool) for part in parts):
        return tensor.with_shape(Shape(shape.head[len(parts) :], shape.tail), contiguous=tensor.contiguous)
    if all(_is_whole(part) for part in parts):
        return tensor
    return tensor.with_shape(ANY_SHAPE, contiguous=None)


def _is_whole(part: Value) -> bool:
    return part is Ellipsis or (isinstance(part, Slice) and part.start is None and part.stop is None and part.step is None)


def _select(run: Run, place: Place, tensor: Tensor, parts: Sequence[Value]) -> Tensor | None:
    """Axis by axis; index arrays are broadcast together and stand where they are next to each other, else in front."""
    result: list[Size] = []
    new_axes: set[int] = set()
    advanced: list[Tensor] = []
    advanced_positions: list[int] = []
    insert_at = 0
    axis = 0
    unknown_rows = False
    for position, part in enumerate(parts):
        if part is None:
            new_axes.add(len(result))
            result.append(1)
            continue
        size = tensor.shape.dims[axis]
        if isinstance(part, Slice):
            result.append(slice_length(part, size))
            axis += 1
        elif isinstance(part, Tensor | ListValue) or (isinstance(part, tuple)):
            array = as_tensor(part, tensor.framework)
            if not advanced_positions:
                insert_at = len(result)
            advanced_positions.append(position)
            if array.dtype == "bool" or _all_bools(part):
                unknown_rows = True
                axis += _axes_used(array) if array.dtype == "bool" else 1
            else:
                advanced.append(array)
                axis += 1
        else:
            number = as_size(part)
            if number is None:
                return None
            _check_position(run, place, tensor, number, size, axis)
            axis += 1
            if advanced_positions:
                advanced_positions.append(position)
    if advanced_positions:
        together = advanced_positions == list(range(advanced_positions[0], advanced_positions[-1] + 1))
        shape = _broadcast_all(advanced, unknown_rows)
        if shape is None:
            return None
        spot = insert_at if together else 0
        result[spot:spot] = shape
        new_axes = set()
    contiguous = (
        tensor.contiguous
        if not advanced_positions and all(isinstance(p, int) for p in parts[:1]) and all(_is_whole(p) for p in parts[1:])
        else None
    )
    return tensor.with_shape(
        Shape(tuple(result)), new_axes=frozenset(new_axes), contiguous=True if advanced_positions else contiguous
    )


def _all_bools(part: Value) -> bool:
    return (
        isinstance(part, ListValue) and part.items is not None and bool(part.items) and all(isinstance(v, bool) for v in part.items)
    )


def _broadcast_all(arrays: Sequence[Tensor], unknown_rows: bool) -> tuple[Size, ...] | None:
    if unknown_rows:
        return (unknown(0),) if not arrays or all(array.shape.rank == 1 for array in arrays) else None
    if any(array.shape.rank is None for array in arrays):
        return None
    rank = max((len(array.shape.dims) for array in arrays), default=0)
    result: list[Size] = [1] * rank
    for array in arrays:
        for offset, size in enumerate(reversed(array.shape.dims), 1):
            if result[-offset] == 1:
                result[-offset] = size
    return tuple(result)


def _check_position(run: Run, place: Place, tensor: Tensor, number: Size, size: Size, axis: int) -> None:
    if not isinstance(number, int):
        return
    low, high = bounds(size)
    too_far = number >= high if number >= 0 else -number > high
    if too_far and low >= 0:
        message = f"index {number} is out of range for axis {axis} of size {size} (shape {tensor.shape})"
        run.report(INDEX_OUT_OF_RANGE, place, message, certain=True, tensors=(tensor,), operation="index")


def slice_length(part: Slice, size: Size) -> Size:
    """How many elements a slice takes of an axis. Ends beyond the axis are cut off, as Python does."""
    start, stop, step = (None if end is None else as_size(end) for end in (part.start, part.stop, part.step))
    if (
        (part.start is not None and start is None)
        or (part.stop is not None and stop is None)
        or (part.step is not None and step is None)
    ):
        return unknown(0)
    if start is None and stop is None and (step is None or step in (1, -1)):
        return size
    if isinstance(size, int) and all(end is None or isinstance(end, int) for end in (start, stop, step)):
        if step == 0:
            return unknown(0)
        return len(range(*slice(start, stop, step).indices(size)))  # pyright: ignore[reportArgumentType]
    if isinstance(step, int) and step > 1:
        inner = slice_length(Slice(part.start, part.stop, None), size)
        return (inner + (step - 1)) // step
    if step not in (None, 1):
        return unknown(0)
    begin = _end(0 if start is None else start, size)
    end = size if stop is None else _end(stop, size)
    if begin is None or end is None:
        return unknown(0)
    length = end - begin
    return length if less(-1, length) else largest([length, 0])


def _end(position: Size, size: Size) -> Size | None:
    """One end of a slice inside an axis; None if its sign is not known."""
    low, high = bounds(position)
    if low >= 0:
        return position if _not_above(position, size) else smallest([position, size])
    if high < 0:
        inside = size + position
        return inside if less(-1, inside) else largest([inside, 0])
    # An unknown number that is meant as a position: assumed to be inside.
    return None


def _not_above(position: Size, size: Size) -> bool:
    return less(size, position) is False
