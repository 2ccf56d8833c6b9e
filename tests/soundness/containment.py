"""Does a computed value lie in its range? The question that every soundness test asks."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorproof.ranges.containers import Abstract, OptionalOf, SequenceOf
from tensorproof.ranges.grid import Size, largest, smallest
from tensorproof.ranges.range import Range, flags_of


def violation(value: Abstract, computed: Any) -> str | None:
    """Why `computed` is not one of the values that `value` stands for; None if it is."""
    if isinstance(value, OptionalOf):
        if isinstance(computed, list) and len(computed) == 1:
            # onnx.reference wraps the value of an Optional node into a list of one.
            is_wrapped = isinstance(value.value, Range) or not isinstance(computed[0], np.ndarray)
            computed = computed[0] if is_wrapped else computed
        if computed is None:
            return None if value.may_be_absent else "absent"
        return "present" if value.value is None else violation(value.value, computed)
    if isinstance(value, SequenceOf):
        items = list(computed)
        if not _fits(value.length, len(items)):
            return f"length {len(items)} not in {value.length}"
        for index, item in enumerate(items):
            expected = value.items[index] if value.items is not None else value.element
            if expected is None:
                return "an element of an empty sequence"
            found = violation(expected, item)
            if found:
                return f"[{index}] {found}"
        return None
    return _tensor_violation(value, np.asarray(computed))


def _fits(size: Size, number: int) -> bool:
    high = largest(size)
    return smallest(size) <= number and (high is None or number <= high)


def _tensor_violation(value: Range, array: np.ndarray[Any, Any]) -> str | None:
    if value.shape is not None and (len(value.shape) != array.ndim or not all(map(_fits, value.shape, array.shape))):
        return f"shape {array.shape} not in {value.shape}"
    if value.format.kind in ("string", "complex"):
        return None
    if array.dtype.kind not in "OUS" and array.dtype != value.format.dtype:
        return f"dtype {array.dtype} is not {value.format}"
    if array.size == 0:
        return None
    if value.has_known_shape:
        low, high, special = value.expanded()
    else:
        merged = value.smash()
        low, high, special = merged.low, merged.high, merged.special
    numbers = array.astype(np.float64)
    flags = flags_of(numbers)
    finite = flags == 0
    bad = (finite & ~((low <= numbers) & (numbers <= high))) | ((flags & ~special) != 0)
    if not bad.any():
        return norm_violation(value, numbers)
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    low, high = np.broadcast_to(low, array.shape), np.broadcast_to(high, array.shape)
    return f"{numbers[where]!r} at {where} not in [{low[where]!r}, {high[where]!r}] (special {special.max()})"


def norm_violation(value: Range, numbers: np.ndarray[Any, Any]) -> str | None:
    """Why vectors along the axis of the range's norm are longer than it says, or sum up to more; None if they are not."""
    norm = value.norm
    if norm is None or not numbers.size:
        return None
    # Sums in float64 are exact to 2^-40 here.
    scale = np.maximum(np.abs(numbers).max(), 1e-300)
    longest = float(np.sqrt(np.square(numbers / scale).sum(axis=norm.axis)).max() * scale)
    largest_total = float(np.abs(numbers).sum(axis=norm.axis).max())
    if longest * (1.0 - 2.0**-40) > norm.bound:
        return f"a vector along axis {norm.axis} has norm {longest!r}, more than {norm.bound!r}"
    if largest_total * (1.0 - 2.0**-40) > norm.total:
        return f"the absolute values of a vector along axis {norm.axis} sum to {largest_total!r}, more than {norm.total!r}"
    return None
