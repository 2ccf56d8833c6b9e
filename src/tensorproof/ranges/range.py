"""`Range`: what the analysis knows about all values that a tensor can take.

A range has a shape, a format, a grid of cells, and per cell the hull [low, high] of the finite values and the set of
special values (NaN, +inf, -inf) that the elements of the cell may be. A cell that can hold special values only has an empty
hull, written low = +inf, high = -inf. Bounds are float64 numbers and hold in exact arithmetic: a value v of the tensor
either satisfies low <= v <= high or is one of the special values of its cell.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import UnknownShape
from tensorproof.formats import Array, Format, of_dtype
from tensorproof.ranges.grid import (
    Cuts,
    Grid,
    Shape,
    Size,
    Span,
    broadcast_shapes,
    coarse,
    concrete,
    counts,
    every,
    expand_array,
    fine,
    joined_size,
    regrid,
    union,
)
from tensorproof.ranges.weights import LARGE, extent, is_finite

if TYPE_CHECKING:
    from tensorproof.ranges.affine import Form
    from tensorproof.ranges.norms import Norm

Flags = npt.NDArray[np.uint8]

NAN = 1
POSITIVE_INFINITY = 2
NEGATIVE_INFINITY = 4
INFINITIES = POSITIVE_INFINITY | NEGATIVE_INFINITY
SPECIALS = NAN | INFINITIES

#: Ranges with more cells than this are made coarser after each operator (constants are exempt).
CELL_BUDGET = 1 << 16
#: Constants of more elements are not converted only to find their ends.
_MANY = 1 << 10
#: The cuts of an axis without elements.
_NO_CELL = np.zeros(1, np.int64)


class Range:
    """The abstract value of one tensor. Immutable: the arrays are never written to after construction."""

    __slots__ = ("_array", "_high", "_hull", "_low", "_special", "form", "format", "grid", "norm", "shape")

    def __init__(
        self,
        format: Format,
        shape: Shape | None,
        grid: Grid,
        low: Array,
        high: Array,
        special: Flags | None = None,
    ) -> None:
        self.format = format
        self.shape = shape
        self.grid = grid
        self._low: Array | None = low
        self._high: Array | None = high
        self._special = special if special is not None and special.any() else None
        self._array: npt.NDArray[Any] | None = None
        self._hull: tuple[float, float] | None = None
        #: A bound on the Euclidean norm along an axis, where one is known (`tensorproof.ranges.norms`).
        self.norm: Norm | None = None
        #: The elements as affine forms over symbols, where they are known (`tensorproof.ranges.affine`).
        self.form: Form | None = None

    # -- construction ---------------------------------------------------------------------------------------------

    @classmethod
    def constant(cls, array: npt.NDArray[Any] | float | int, format: Format | None = None) -> Range:
        """Exactly these elements. The array is kept as it is; bounds are made when asked for."""
        array = np.asarray(array, None if format is None else format.dtype)
        self = cls.__new__(cls)
        self.format = of_dtype(array.dtype) if format is None else format
        self.shape = array.shape
        self.grid = tuple([_NO_CELL if n == 0 else g for n, g in zip(array.shape, fine(array.shape))])
        self._low = self._high = None
        self._special = None
        self._array = array
        self._hull = None
        self.norm = None
        self.form = None
        if self.format.is_float:
            if array.size > LARGE and is_finite(array):
                return self
            finite = np.isfinite(array)
            if not finite.all():
                values = array.astype(np.float64)
                self._special = flags_of(values)
                self._low = np.where(finite, values, np.inf)
                self._high = np.where(finite, values, -np.inf)
                self._array = None
        return self

    @classmethod
    def filled(cls, element: npt.NDArray[Any], shape: Sequence[int]) -> Range:
        """A constant of one finite element everywhere; the array is a view of the element."""
        array: npt.NDArray[Any] = np.ndarray(tuple(shape), element.dtype, element.copy(), strides=(0,) * len(shape))
        array.flags.writeable = False
        self = cls.__new__(cls)
        self.format = of_dtype(array.dtype)
        self.shape = array.shape
        self.grid = tuple([_NO_CELL if n == 0 else g for n, g in zip(array.shape, fine(array.shape))])
        self._low = self._high = self._special = self._hull = None
        self._array = array
        self.norm = self.form = None
        return self

    @classmethod
    def uniform(cls, shape: Shape | None, format: Format, low: float, high: float, special: int = 0) -> Range:
        """One cell: every element lies in [low, high] or is one of the special values."""
        if not special and (shape is None or 0 not in shape):
            return cls._interval(format, shape, () if shape is None else (None,) * len(shape), float(low), float(high))
        grid = coarse(shape) if shape is not None else ()
        cells = counts(grid)
        flags = np.full(cells, special, np.uint8) if special else None
        return cls(format, shape, grid, np.full(cells, low, np.float64), np.full(cells, high, np.float64), flags)

    @classmethod
    def _interval(cls, format: Format, shape: Shape | None, grid: Grid, low: float, high: float) -> Range:
        """One cell of finite values as two numbers; the arrays are made when asked for."""
        self = cls.__new__(cls)
        self.format, self.shape, self.grid = format, shape, grid
        self._low = self._high = self._special = self._array = None
        self._hull = low, high
        self.norm = self.form = None
        return self

    @classmethod
    def elements(cls, format: Format, low: Array, high: Array, special: Flags | None = None) -> Range:
        """One cell per element: `low` and `high` have the shape of the tensor."""
        shape = low.shape
        grid = tuple(np.zeros(1, np.int64) if n == 0 else g for n, g in zip(shape, fine(shape)))
        return cls(format, shape, grid, low, high, special)

    @classmethod
    def top(cls, shape: Shape | None, format: Format) -> Range:
        """Nothing is known: every finite value of the format, and every special value that it has."""
        special = (NAN if format.has_nan else 0) | (INFINITIES if format.has_infinity else 0)
        return cls.uniform(shape, format, format.low, format.high, special)

    def replace(self, low: Array, high: Array, special: Flags | None, format: Format | None = None) -> Range:
        """Other bounds on the same grid."""
        return Range(format or self.format, self.shape, self.grid, low, high, special)

    def with_ends(self, low: float, high: float) -> Range:
        """The same range with other bounds, where it has one cell."""
        return Range._interval(self.format, self.shape, self.grid, low, high)

    def rounded(self, low: Array, high: Array, hull: tuple[float, float]) -> Range:
        """Other bounds on the same grid, whose hull is known."""
        copy = Range(self.format, self.shape, self.grid, low, high)
        copy._hull = hull
        return copy

    def bare(self) -> Range:
        """The same bounds for another tensor: nothing that relates elements to each other or to other tensors."""
        copy = Range.__new__(Range)
        copy.format, copy.shape, copy.grid = self.format, self.shape, self.grid
        copy._low, copy._high, copy._special, copy._array = self._low, self._high, self._special, self._array
        copy._hull = self._hull
        copy.norm = copy.form = None
        return copy

    def with_format(self, format: Format) -> Range:
        """The same bounds, said of another format (nothing is converted)."""
        result = Range(format, self.shape, self.grid, self.low, self.high, self._special)
        result.norm = self.norm
        return result

    # -- reading --------------------------------------------------------------------------------------------------

    @property
    def low(self) -> Array:
        """Lower ends of the finite values, one per cell; +inf where a cell holds no finite value."""
        if self._low is None:
            if self._array is None:
                self._low, self._high = self._ends_as_arrays()
                return self._low
            low = _as_bound(self._array, -np.inf)
            if low.size > CELL_BUDGET:
                return low
            self._low = low
        return self._low

    @property
    def high(self) -> Array:
        """Upper ends of the finite values, one per cell; -inf where a cell holds no finite value."""
        if self._high is None:
            if self._array is None:
                self._low, self._high = self._ends_as_arrays()
                return self._high
            if self._low is not None and self._array.dtype.kind not in "iu":
                self._high = self._low
                return self._low
            high = _as_bound(self._array, np.inf)
            if high.size > CELL_BUDGET:
                return high
            self._high = high
        return self._high

    def _ends_as_arrays(self) -> tuple[Array, Array]:
        assert self._hull is not None
        return _filled(self.grid, self._hull[0]), _filled(self.grid, self._hull[1])

    @property
    def special(self) -> Flags:
        """The special values of each cell, as a set of the bits NAN, POSITIVE_INFINITY and NEGATIVE_INFINITY."""
        return self._special if self._special is not None else np.zeros(self.cells, np.uint8)

    @property
    def has_special(self) -> bool:
        return self._special is not None

    @property
    def any_special(self) -> int:
        """The union of the special values of all cells."""
        return 0 if self._special is None else int(np.bitwise_or.reduce(self._special, axis=None))

    @property
    def cells(self) -> tuple[int, ...]:
        """Cells per axis."""
        return counts(self.grid)

    @property
    def rank(self) -> int:
        if self.shape is None:
            raise UnknownShape("the rank is not known")
        return len(self.shape)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape as numbers; raises UnknownShape where it depends on the data."""
        return concrete(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.sizes, dtype=np.int64))

    @property
    def has_known_shape(self) -> bool:
        return self.shape is not None and Span not in map(type, self.shape)

    @property
    def array(self) -> npt.NDArray[Any] | None:
        """The elements in their own dtype if the tensor is a constant of the file, else None."""
        return self._array

    def values(self) -> Array | None:
        """The elements if all are known exactly, else None."""
        if not self.has_known_shape or self._special is not None or self.format.kind in ("string", "complex"):
            return None
        low, high = self.low, self.high
        if low is not high and not (low.item() == high.item() if low.size == high.size == 1 else bool((low == high).all())):
            return None
        return expand_array(low, self.grid, self.sizes)

    def interval(self) -> tuple[float, float] | None:
        """The ends of a range that is one cell of finite values, no constant; else None."""
        if self._array is not None or self._special is not None:
            return None
        if self._low is None:
            return self._hull if self._hull is not None and self._hull[0] <= self._hull[1] else None
        if self._low.size != 1 or self._high is None or self._high.size != 1:
            return None
        low, high = self.hull()
        return (low, high) if low <= high else None

    def single(self) -> tuple[float, float, int] | None:
        """The ends and special values of a range of one cell, no constant; else None. Ends cross where no value is finite."""
        if self._array is not None:
            return None
        if self._low is None or self._high is None:
            return None if self._hull is None else (*self._hull, 0)
        if self._low.size != 1 or self._high.size != 1:
            return None
        return self._low.item(), self._high.item(), 0 if self._special is None else int(self._special.item())

    def integers(self) -> npt.NDArray[np.int64] | None:
        """The elements as integers if all are known exactly, else None."""
        if self._array is not None and self._array.dtype.kind in "iub":
            return self._array.astype(np.int64)
        values = self.values()
        if values is None:
            return None
        return np.clip(values, -(2.0**63), np.nextafter(2.0**63, 0)).astype(np.int64)

    def hull(self) -> tuple[float, float]:
        """The smallest interval over the finite values of all cells; (inf, -inf) if there is none."""
        if self._hull is None:
            self._hull = self._found_hull()
        return self._hull

    def _found_hull(self) -> tuple[float, float]:
        if self._array is not None and self._low is None and self._array.size > _MANY and self.format.kind in ("float", "int"):
            # A large constant is never copied into float64.
            found = extent(self._array) if self.format.is_float else None
            if found is not None:
                return found
            ends = np.array([self._array.min(), self._array.max()], self._array.dtype)
            return float(_as_bound(ends, -np.inf)[0]), float(_as_bound(ends, np.inf)[1])
        low, high = self.low, self.high
        if low.size == high.size == 1:
            return low.item(), high.item()
        if low.size == 0:
            return np.inf, -np.inf
        return float(low.min()), float(high.max())

    def magnitude(self) -> Array:
        """The largest absolute finite value of each cell (0 where a cell holds none)."""
        low, high = self.low, self.high
        return np.where(low <= high, np.maximum(np.abs(low), np.abs(high)), 0.0)

    def extended(self) -> tuple[Array, Array]:
        """Bounds with the infinities folded in: a cell that may be +inf has high = +inf. NaN is not seen."""
        if self._special is None:
            return self.low, self.high
        positive = (self._special & POSITIVE_INFINITY) != 0
        negative = (self._special & NEGATIVE_INFINITY) != 0
        low, high = self.low, self.high
        empty = low > high
        extended_low = np.where(negative, -np.inf, np.where(empty & positive, np.inf, low))
        extended_high = np.where(positive, np.inf, np.where(empty & negative, -np.inf, high))
        return extended_low, extended_high

    def contains(self, value: float) -> npt.NDArray[np.bool_]:
        """Per cell, whether a finite value lies inside."""
        return (self.low <= value) & (value <= self.high)

    def __repr__(self) -> str:
        low, high = self.hull()
        shape = "?" if self.shape is None else "x".join(map(str, self.shape)) or "scalar"
        names = [name for bit, name in ((1, "nan"), (2, "+inf"), (4, "-inf")) if self.any_special & bit]
        return f"Range({self.format} {shape} [{low:g}, {high:g}]{' or ' + ', '.join(names) if names else ''})"

    # -- granularity ----------------------------------------------------------------------------------------------

    def expanded(self) -> tuple[Array, Array, Flags]:
        """Bounds and special values with one entry per element (read-only)."""
        sizes = self.sizes
        low = expand_array(self.low, self.grid, sizes)
        high = expand_array(self.high, self.grid, sizes)
        return low, high, expand_array(self.special, self.grid, sizes)

    def expand(self) -> Range:
        """The same range with one cell per element."""
        if self.cells == self.shape:
            return self
        low, high, special = self.expanded()
        return Range.elements(self.format, low, high, special if self.has_special else None)

    def refine(self, axis: int, cuts: Cuts) -> Range:
        """The same range with the cells of one axis cut further (the union of its boundaries and `cuts`)."""
        new = union(self.grid[axis], cuts)
        old = self.grid[axis]
        if old is new or new is None:
            return self
        if old is None:
            index = np.zeros(len(new) - 1, np.int64)
        else:
            index = np.searchsorted(old, new[:-1], side="right") - 1
        low, high = np.take(self.low, index, axis), np.take(self.high, index, axis)
        special = None if self._special is None else np.take(self._special, index, axis)
        grid = (*self.grid[:axis], new, *self.grid[axis + 1 :])
        return Range(self.format, self.shape, grid, low, high, special)

    def refine_fully(self, axis: int) -> Range:
        """The same range with one cell per element along one axis."""
        size = self.sizes[axis]
        return self if size <= 1 else self.refine(axis, every(size))

    def smash(self, axes: Sequence[int] | None = None) -> Range:
        """One cell along these axes (all axes by default): the hull of the cells that are merged."""
        if self._low is None and self._array is None:
            return self
        axes = tuple(range(len(self.grid))) if axes is None else tuple(axes)
        axes = tuple(axis for axis in axes if self.cells[axis] > 1)
        if not axes:
            return self
        low = self.low.min(axis=axes, keepdims=True)
        high = self.high.max(axis=axes, keepdims=True)
        special = None if self._special is None else np.bitwise_or.reduce(self._special, axis=axes, keepdims=True)
        grid = tuple(None if axis in axes else cuts for axis, cuts in enumerate(self.grid))
        return Range(self.format, self.shape, grid, low, high, special)

    def limit(self, budget: int = CELL_BUDGET) -> Range:
        """The same range with at most `budget` cells: the axes with most cells are merged first."""
        if self._array is None if self._low is None else self._low.size <= budget:
            return self
        result = self
        while int(np.prod(result.cells, dtype=np.int64)) > budget:
            result = result.smash((int(np.argmax(result.cells)),))
        return result

    # -- lattice --------------------------------------------------------------------------------------------------

    def join(self, other: Range) -> Range:
        """The smallest range of this form that holds both; shapes that differ become sizes that are known less exactly."""
        return _lattice(self, other, np.minimum, np.maximum, np.bitwise_or)

    def meet(self, other: Range) -> Range:
        """The values that lie in both. Assumes that the two describe the same tensor."""
        return _lattice(self, other, np.maximum, np.minimum, np.bitwise_and)

    def widen(self, newer: Range, thresholds: Sequence[float] = (0.0, 1.0)) -> Range:
        """An upper bound of both that makes any ascending chain stop: an end that moves jumps to the next threshold."""
        joined = self.join(newer)
        steps = np.array(sorted({*thresholds, *(-t for t in thresholds), self.format.low, self.format.high}))
        if self.shape != joined.shape:
            return joined
        aligned = align(self, joined)
        below = steps[np.maximum(np.searchsorted(steps, joined.low, side="right") - 1, 0)]
        above = steps[np.minimum(np.searchsorted(steps, joined.high, side="left"), len(steps) - 1)]
        low = np.where(joined.low < aligned.lows[0], below, joined.low)
        high = np.where(joined.high > aligned.highs[0], above, joined.high)
        return joined.replace(low, high, joined.special)

    def includes(self, other: Range) -> bool:
        """Whether every value of `other` is a value of this range."""
        if (self.norm is not None and not self.norm.covers(other.norm)) or (self.form is not None and self.form is not other.form):
            return False
        if self.shape != other.shape or self.format is not other.format:
            return self.shape is None and self.format is other.format and _within(other.smash(), self)
        return _within(other, self)

    def clamp(self, low: float | Array = -np.inf, high: float | Array = np.inf) -> Range:
        """Finite values moved into [low, high], as a repair at the operand would do; special values stay."""
        empty = self.low > self.high
        new_low = np.where(empty, np.inf, np.minimum(np.maximum(self.low, low), high))
        new_high = np.where(empty, -np.inf, np.minimum(np.maximum(self.high, low), high))
        return self.replace(new_low, new_high, self._special)

    def with_special(self, bits: int) -> Range:
        """The same range where every cell may also be these special values."""
        return self if not bits else self.replace(self.low, self.high, self.special | np.uint8(bits))

    def without_special(self) -> Range:
        """The finite values alone."""
        return self if self._special is None else self.replace(self.low, self.high, None)

    def select(self, function: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Range:
        """Elements moved, repeated or dropped by a NumPy function of one array, with one cell per element."""
        low, high, special = self.expanded()
        flags = function(special) if self.has_special else None
        return Range.elements(self.format, function(low), function(high), flags)


def flags_of(values: npt.NDArray[Any]) -> Flags:
    """The special values that stand in an array, as flags."""
    flags = np.isnan(values).astype(np.uint8) * np.uint8(NAN)
    flags |= (values == np.inf).astype(np.uint8) * np.uint8(POSITIVE_INFINITY)
    flags |= (values == -np.inf).astype(np.uint8) * np.uint8(NEGATIVE_INFINITY)
    return flags


def _filled(grid: Grid, value: float) -> Array:
    """One number as an array over a grid of one cell."""
    array = np.empty((1,) * len(grid))
    array.fill(value)
    return array


def _as_bound(array: npt.NDArray[Any], direction: float) -> Array:
    """Exact elements as float64 bounds; 64-bit integers that float64 cannot hold are rounded in `direction`."""
    if array.dtype == np.float64:
        return array
    if array.dtype.kind in "OUSc":
        return np.zeros(array.shape)
    bound = array.astype(np.float64)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8 and bool((np.abs(bound) > 2.0**53).any()):
        return np.where(np.abs(bound) > 2.0**53, np.nextafter(bound, direction), bound)
    return bound


def _within(inner: Range, outer: Range) -> bool:
    low_i, high_i, special_i, low_o, high_o, special_o = align(inner, outer).interleaved()
    empty = low_i > high_i
    return bool((empty | ((low_o <= low_i) & (high_i <= high_o))).all()) and not bool((special_i & ~special_o).any())


def _lattice(
    a: Range,
    b: Range,
    of_low: Callable[[Array, Array], Array],
    of_high: Callable[[Array, Array], Array],
    of_special: Callable[[Flags, Flags], Flags],
) -> Range:
    if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        shape: Shape | None = None
        a, b = a.smash(), b.smash()
        low, high = of_low(a.low.reshape(()), b.low.reshape(())), of_high(a.high.reshape(()), b.high.reshape(()))
        return Range(a.format, shape, (), low, high, of_special(a.special.reshape(()), b.special.reshape(())))
    if a.shape != b.shape:
        sizes: list[Size] = []
        for axis, (size, other) in enumerate(zip(a.shape, b.shape)):
            if size != other:
                a, b = _one_cell(a, axis), _one_cell(b, axis)
            sizes.append(joined_size(size, other))
        a, b = _reshaped(a, tuple(sizes)), _reshaped(b, tuple(sizes))
    aligned = align(a, b)
    (la, lb), (ha, hb), (sa, sb) = aligned.lows, aligned.highs, aligned.specials
    low, high = of_low(la, lb), of_high(ha, hb)
    crossed = low > high
    low, high = np.where(crossed, np.inf, low), np.where(crossed, -np.inf, high)
    special = of_special(sa, sb) if a.has_special or b.has_special else None
    return Range(a.format, aligned.shape, aligned.grid, low, high, special)


def _one_cell(x: Range, axis: int) -> Range:
    """One cell along an axis, an empty cell if the axis has no element."""
    if x.cells[axis] != 0:
        return x.smash((axis,))
    cells = tuple(1 if i == axis else n for i, n in enumerate(x.cells))
    grid = tuple(None if i == axis else cuts for i, cuts in enumerate(x.grid))
    return Range(x.format, x.shape, grid, np.full(cells, np.inf), np.full(cells, -np.inf))


def _reshaped(x: Range, shape: Shape) -> Range:
    return Range(x.format, shape, x.grid, x.low, x.high, x.special)


class Aligned:
    """Ranges on one common grid: arrays that broadcast against each other."""

    __slots__ = ("_specials", "grid", "highs", "lows", "shape")

    def __init__(
        self,
        shape: Shape | None,
        grid: Grid,
        lows: list[Array],
        highs: list[Array],
        specials: list[Flags] | Callable[[], list[Flags]],
    ) -> None:
        self.shape = shape
        self.grid = grid
        self.lows = lows
        self.highs = highs
        self._specials = specials

    @property
    def specials(self) -> list[Flags]:
        """The special values of each range (made when asked for: most ranges have none)."""
        if not isinstance(self._specials, list):
            self._specials = self._specials()
        return self._specials

    def interleaved(self) -> list[Any]:
        """low, high, special of the first range, then of the second, and so on."""
        return [part for triple in zip(self.lows, self.highs, self.specials) for part in triple]

    def result(self, format: Format, low: Array, high: Array, special: Flags | None = None) -> Range:
        """A range on the common grid."""
        cells = counts(self.grid)
        if low.shape != cells:
            low = np.broadcast_to(low, cells)
        if high.shape != cells:
            high = np.broadcast_to(high, cells)
        if special is not None and special.shape != cells:
            special = np.broadcast_to(special, cells)
        return Range(format, self.shape, self.grid, low, high, special)


def align(*ranges: Range) -> Aligned:
    """Ranges of tensors that broadcast against each other, brought to the union of their boundaries."""
    first = ranges[0]
    if len(ranges) == 2 and _same_grid(first, ranges[1]):
        lows, highs = [r.low for r in ranges], [r.high for r in ranges]
        return Aligned(first.shape, first.grid, lows, highs, lambda: [r.special for r in ranges])
    shapes = [r.shape for r in ranges if r.shape is not None]
    if len(shapes) != len(ranges):
        merged = [r.smash() for r in ranges]
        return Aligned(
            None,
            (),
            [_scalar(r.low, np.inf) for r in merged],
            [_scalar(r.high, -np.inf) for r in merged],
            [_scalar(r.special, 0) for r in merged],
        )
    shape = broadcast_shapes(*shapes)
    rank = len(shape)
    grid: list[Cuts] = [np.zeros(1, np.int64) if size == 0 else None for size in shape]
    for r in ranges:
        assert r.shape is not None
        offset = rank - len(r.shape)
        # An axis whose size is known less exactly than the result's is one cell there.
        for axis, cuts in enumerate(r.grid):
            if r.shape[axis] == shape[offset + axis]:
                grid[offset + axis] = union(grid[offset + axis], cuts)
    common = tuple(grid)
    lows = [_regridded(r.low, r.grid, common) for r in ranges]
    highs = [_regridded(r.high, r.grid, common) for r in ranges]
    return Aligned(shape, common, lows, highs, lambda: [_regridded(r.special, r.grid, common) for r in ranges])


def _same_grid(a: Range, b: Range) -> bool:
    """Whether two ranges certainly have one shape and one grid: no axis is cut, or by the same array."""
    return a.shape is not None and a.shape == b.shape and (a.grid is b.grid or all(map(operator.is_, a.grid, b.grid)))


def _regridded(array: npt.NDArray[Any], grid: Grid, common: Grid) -> npt.NDArray[Any]:
    """An array over a grid on the finer cuts of a grid that it broadcasts against."""
    offset = len(common) - len(grid)
    for axis, cuts in enumerate(grid):
        if cuts is not None:
            array = regrid(array, axis, cuts, common[offset + axis])
    return array


def _scalar(array: npt.NDArray[Any], empty: float) -> npt.NDArray[Any]:
    return array.reshape(()) if array.size else np.array(empty, array.dtype)
