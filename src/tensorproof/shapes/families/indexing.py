"""Indices of arrays: `x[i]`, `x[:, None, 1:]`, `x[mask]`, and what is stored into them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tensorproof.rules.shapes.gather_shape import GATHER_SHAPE
from tensorproof.rules.shapes.index_out_of_range import INDEX_OUT_OF_RANGE
from tensorproof.rules.shapes.store_mismatch import STORE_MISMATCH
from tensorproof.shapes.families.broadcasting import broadcast_dims
from tensorproof.shapes.rule_table import Call, Mismatch, NotKnown, as_tensor, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, Shape
from tensorproof.shapes.sizes import Size, bounds, is_unknown, largest, less, same, smallest, unknown
from tensorproof.shapes.strides import restrided, strides_of
from tensorproof.shapes.values import History, ListValue, Slice, Tensor, Unknown, Value, as_size

_LIBRARIES = ("torch", "numpy", "tf", "keras", "jax")


@shape_rule(*(f"{library}.__getitem__" for library in _LIBRARIES))
def get_item(call: Call, tensor: Tensor, index: Value) -> Value:
    """`x[index]`."""
    return selected(call, tensor, index)


@shape_rule(*(f"{library}.__setitem__" for library in _LIBRARIES))
def set_item(call: Call, tensor: Tensor, index: Value, value: Value) -> Value:
    """`x[index] = value`: the value has to broadcast to the part, which cannot grow. The result is the array."""
    part = selected(call, tensor, index)
    if isinstance(value, Unknown):
        return tensor
    stored = as_tensor(value, tensor.framework)
    if not fits(stored.shape, part.shape):
        message = f"a value of shape {stored.shape} cannot be stored in a part of shape {part.shape}"
        raise Mismatch(STORE_MISMATCH, message, result=tensor, tensors=(stored, tensor))
    return tensor


def fits(stored: Shape, part: Shape) -> bool:
    """Whether a value can be stored in a part. Leading axes of size 1 are dropped."""
    if stored.rank is None or part.rank is None:
        return True
    dims = list(stored.dims)
    while len(dims) > part.rank and dims[0] == 1:
        dims.pop(0)
    pairs = zip(reversed(dims), reversed(part.dims), strict=False)
    return len(dims) <= part.rank and all(bounds(size)[0] <= 1 or same(size, room) is not False for size, room in pairs)


def selected(call: Call, tensor: Tensor, index: Value) -> Tensor:
    """The part of a tensor that an index selects, by the rules of NumPy, from which the others differ a little."""
    parts = list(index) if isinstance(index, tuple) else [index]
    if isinstance(tensor.content, tuple) and len(parts) == 1:
        content = _content(tensor.content, parts[0])
        if content is not None:
            shape = Shape((len(content),)) if isinstance(content, tuple) else Shape(())
            return tensor.with_shape(shape, content=content)
    parts = [_normal(part, tensor) for part in parts]
    if any(isinstance(part, Unknown) for part in parts):
        return tensor.with_shape(ANY_SHAPE, contiguous=None)
    shape = tensor.shape
    used = sum(_axes_used(part) for part in parts)
    if shape.rank is None:
        return tensor.with_shape(_of_open_shape(shape, parts), contiguous=None)
    if used > shape.rank:
        message = f"{used} indices for {shape}, which has {_axes(shape.rank)}"
        raise Mismatch(INDEX_OUT_OF_RANGE, message, result=tensor.with_shape(ANY_SHAPE), tensors=(tensor,))
    result = _Selection(tensor).of(_with_ellipsis(parts, shape.rank - used))
    return replace(result, history=History(call.place, f"indexing gives {tensor.dtype or 'tensor'}{result.shape}", tensor.history))


def _axes(count: int) -> str:
    return f"{count} {'axis' if count == 1 else 'axes'}"


def _content(content: tuple[Value, ...], index: Value) -> Value:
    if isinstance(index, Slice):
        stretch = index.constant
        return None if stretch is None or stretch.step == 0 else content[stretch]
    position = None if isinstance(index, bool) or index is None else as_size(index)
    return content[position] if isinstance(position, int) and -len(content) <= position < len(content) else None


def _normal(part: Value, tensor: Tensor) -> Value:
    """A part of an index as None, Ellipsis, a slice, a number, or an array; what is none of them is unknown."""
    if part is None or part is Ellipsis or isinstance(part, Slice | Unknown):
        return part
    if isinstance(part, Tensor) and part.shape.rank == 0 and part.dtype != "bool":
        return unknown(float("-inf")) if as_size(part) is None else as_size(part)
    if isinstance(part, Tensor):
        return part
    if isinstance(part, tuple | ListValue):
        try:
            array = as_tensor(part, tensor.framework)
        except NotKnown:
            return Unknown()
        return replace(array, dtype="bool") if _all_bools(part) else array
    number = as_size(part)
    return Unknown() if isinstance(part, bool) or number is None else number


def _all_bools(part: tuple[Value, ...] | ListValue) -> bool:
    items = part if isinstance(part, tuple) else part.items
    return bool(items) and all(isinstance(item, bool) for item in items)


def _is_mask(part: Value) -> bool:
    return isinstance(part, Tensor) and part.dtype == "bool"


def _axes_used(part: Value) -> int:
    """How many axes of the tensor one part of an index takes."""
    if part is None or part is Ellipsis:
        return 0
    if isinstance(part, Tensor) and part.dtype == "bool":
        return part.shape.rank if part.shape.rank is not None else 1
    return 1


def _with_ellipsis(parts: Sequence[Value], missing: int) -> list[Value]:
    """The index with `...` written out as full slices, at the end if there is none."""
    whole: list[Value] = [Slice(None, None, None)] * missing
    for position, part in enumerate(parts):
        if part is Ellipsis:
            return [*parts[:position], *whole, *(rest for rest in parts[position + 1 :] if rest is not Ellipsis)]
    return [*parts, *whole]


def _is_whole(part: Value) -> bool:
    return isinstance(part, Slice) and part.start is None and part.stop is None and part.step is None


def _of_open_shape(shape: Shape, parts: Sequence[Value]) -> Shape:
    """A tensor of unknown rank: numbers, slices and new axes from the front, and behind an ellipsis from the back."""
    if any(isinstance(part, Tensor) for part in parts):
        return ANY_SHAPE
    split = next((place for place, part in enumerate(parts) if part is Ellipsis), len(parts))
    front, back = parts[:split], list(reversed(parts[split + 1 :]))
    # An axis that the front takes may be one of those known from the back, and the other way round.
    front_alone = all(_is_whole(part) or part is None for part in front)
    back_alone = all(_is_whole(part) or part is None for part in back)
    head, tail = shape.head, tuple(reversed(shape.tail or ()))
    if not front_alone and not back_alone:
        return ANY_SHAPE
    if not back_alone:
        return Shape((), tuple(reversed(_from_end(back, tail))))
    if front_alone:
        head, tail = _with_new_axes(front, head, tail)
    else:
        head, tail = _from_end(front, head), tail if len(front) == 1 and head else ()
    tail, head = _with_new_axes(back, tail, head)
    return Shape(head, tuple(reversed(tail)))


def _with_new_axes(
    parts: Sequence[Value], near: tuple[Size, ...], far: tuple[Size, ...]
) -> tuple[tuple[Size, ...], tuple[Size, ...]]:
    """What is known at this end and at the other, after whole slices and new axes at this end.

    A new axis that stands behind more axes than are known here may stand among those known from the other end, unless further
    slices say that these all come after it.
    """
    last = max((place for place, part in enumerate(parts) if part is None), default=None)
    if last is None:
        return near, far
    before = sum(part is not None for part in parts[:last])
    behind = sum(part is not None for part in parts[last:])
    return _from_end(parts[: last + 1], near), far if before <= len(near) or behind >= len(far) else ()


def _from_end(parts: Sequence[Value], sizes: tuple[Size, ...]) -> tuple[Size, ...]:
    """What is known at one end after an index."""
    result: list[Size] = []
    left = list(sizes)
    for part in parts:
        if part is None:
            result.append(1)
        elif isinstance(part, Slice):
            result.append(slice_length(part, left.pop(0)) if left else unknown(0))
        elif left:
            left.pop(0)
    return (*result, *left)


@dataclass(slots=True)
class _Selection:
    """One selection, axis by axis; index arrays are broadcast together and stand where they are side by side, else in front."""

    tensor: Tensor
    dims: list[Size] = field(default_factory=list[Size])
    strides: list[Size] = field(default_factory=list[Size])
    new_axes: set[int] = field(default_factory=set[int])
    arrays: list[Tensor] = field(default_factory=list[Tensor])
    #: Positions in the index that count as arrays, and how many axes the result had at the first of them.
    places: list[int] = field(default_factory=list[int])
    insert_at: int | None = None

    def of(self, parts: Sequence[Value]) -> Tensor:
        tensor = self.tensor
        known = strides_of(tensor)
        # In NumPy and JAX numbers next to arrays are broadcast with them.
        numbers_count = tensor.framework in ("numpy", "jax") and any(isinstance(part, Tensor) for part in parts)
        axis = 0
        for place, part in enumerate(parts):
            if part is None:
                self.new_axes.add(len(self.dims))
                self._append(1, 1)
                continue
            size = tensor.shape.dims[axis]
            stride = 1 if known is None else known[axis]
            if isinstance(part, Slice):
                if axis in tensor.new_axes:
                    self.new_axes.add(len(self.dims))
                step = 1 if part.step is None else as_size(part.step)
                self._check_step(step)
                self._append(slice_length(part, size), stride * step if step is not None else stride)
            elif isinstance(part, Tensor):
                self._note(place)
                self._add_array(part, axis)
            else:
                number = as_size(part)
                if number is not None:
                    self._check_position(number, size, axis)
                if numbers_count:
                    self._note(place)
            axis += _axes_used(part)
        if not self.arrays:
            result = restrided(tensor, self.dims, None if known is None else tuple(self.strides))
            return replace(result, new_axes=frozenset(self.new_axes))
        return self._with_arrays()

    def _append(self, size: Size, stride: Size) -> None:
        self.dims.append(size)
        self.strides.append(stride)

    def _note(self, place: int) -> None:
        self.places.append(place)
        if self.insert_at is None:
            self.insert_at = len(self.dims)

    def _add_array(self, array: Tensor, axis: int) -> None:
        if not _is_mask(array):
            self._check_content(array, axis)
            self.arrays.append(array)
            return
        covered = self.tensor.shape.dims[axis : axis + _axes_used(array)]
        if array.shape.rank is not None and any(same(a, b) is False for a, b in zip(array.shape.dims, covered, strict=True)):
            message = f"the mask {array.shape} does not fit to {self.tensor.shape} from axis {axis} on"
            raise Mismatch(GATHER_SHAPE, message, result=self.tensor.with_shape(ANY_SHAPE), tensors=(self.tensor, array))
        self.arrays.append(array.with_shape(Shape((unknown(0),))))

    def _with_arrays(self) -> Tensor:
        shape = self.arrays[0].shape
        for array in self.arrays[1:]:
            common = broadcast_dims(shape, array.shape)
            if common is None:
                message = f"index arrays of shapes {shape} and {array.shape} cannot be broadcast together"
                raise Mismatch(GATHER_SHAPE, message, result=self.tensor.with_shape(ANY_SHAPE), tensors=(self.tensor, array))
            shape = common
        together = self.places == list(range(self.places[0], self.places[-1] + 1))
        spot = self.insert_at if together and self.insert_at is not None else 0
        in_order = True if self.tensor.contiguous else None
        if shape.rank is None:
            assert shape.tail is not None
            result = Shape((*self.dims[:spot], *shape.head), (*shape.tail, *self.dims[spot:]))
        else:
            result = Shape((*self.dims[:spot], *shape.dims, *self.dims[spot:]))
        return self.tensor.with_shape(result, contiguous=in_order)

    def _check_step(self, step: Size | None) -> None:
        if self.tensor.framework == "torch" and step is not None and bounds(step)[1] <= 0:
            message = f"a slice of a tensor with step {step}: PyTorch takes positive steps only; use flip"
            raise Mismatch(INDEX_OUT_OF_RANGE, message, result=self.tensor.with_shape(ANY_SHAPE), tensors=(self.tensor,))

    def _check_position(self, number: Size, size: Size, axis: int) -> None:
        """JAX does not refuse a position outside, but takes the last one."""
        if not isinstance(number, int) or self.tensor.framework == "jax":
            return
        most = bounds(size)[1]
        if number >= most or -number > most:
            message = f"index {number} is out of range for axis {axis} of size {size} (shape {self.tensor.shape})"
            raise Mismatch(INDEX_OUT_OF_RANGE, message, result=self.tensor.with_shape(ANY_SHAPE), tensors=(self.tensor,))

    def _check_content(self, array: Tensor, axis: int) -> None:
        for number in array.content if isinstance(array.content, tuple) else ():
            if not isinstance(number, bool) and isinstance(number, int):
                self._check_position(number, self.tensor.shape.dims[axis], axis)


# -- slices -----------------------------------------------------------------------------------------------------------


def slice_length(part: Slice, size: Size) -> Size:
    """How many elements a slice takes of an axis. Ends beyond the axis are cut off, as Python does."""
    start, stop, step = (None if end is None else as_size(end) for end in (part.start, part.stop, part.step))
    given = ((part.start, start), (part.stop, stop), (part.step, step))
    if any(end is not None and known is None for end, known in given):
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
    return _stretch(0 if start is None else start, stop, size)


def _stretch(start: Size, stop: Size | None, size: Size) -> Size:
    """The length from a start to a stop (or to the end)."""
    if stop is not None and (bounds(start)[0] >= 0 or is_unknown(start)):
        wanted = stop - start
        if isinstance(wanted, int) and wanted > 0:
            # `x[i : i + n]`: n elements, fewer at the end; the start is taken to lie inside.
            return wanted if less(size, stop) is False or is_unknown(start) else smallest([wanted, size - start])
    begin = _end(start, size)
    end = size if stop is None else _end(stop, size)
    if begin is None or end is None:
        return unknown(0)
    length = end - begin
    return length if less(-1, length) else largest([length, 0])


def _end(position: Size, size: Size) -> Size | None:
    """One end of a slice inside an axis; None if its sign is not known."""
    low, high = bounds(position)
    if low >= 0:
        return position if less(size, position) is False else smallest([position, size])
    if high < 0:
        inside = size + position
        return inside if less(-1, inside) else largest([inside, 0])
    return None
