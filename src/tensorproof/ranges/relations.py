"""How operators pass affine forms on: what the rules in the operators' blocks are written with.

A rule states the form of a result in exact arithmetic, with what the block's own steps may err. `None` stands for a tensor
that is related to nothing but itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tensorproof.formats import FLOAT64
from tensorproof.ranges.affine import Form, Symbol, combined
from tensorproof.ranges.fields import (
    MINUS_ONE,
    ONE,
    ZERO,
    Field,
    added,
    around_zero,
    bounds_of,
    condensed,
    digest,
    field,
    is_zero,
    larger,
    magnitude,
    multiplied,
    negated,
    reciprocal,
    smaller,
)
from tensorproof.ranges.range import Range
from tensorproof.ranges.views import Broadcast, Map, Sliced, Summed

if TYPE_CHECKING:
    from tensorproof.operators.table import Call

#: Constants with more elements than this are symbols like any other tensor, and beyond the second number not even that.
_MOST_CONSTANTS, _MOST_ELEMENTS = 4096, 1 << 18


def can_have_form(x: Range) -> bool:
    """Forms are kept for floating tensors of known shape without special values. Integers wrap around."""
    if x.array is not None and x.array.size > _MOST_ELEMENTS:
        return False
    return x.format.is_float and not x.has_special and x.has_known_shape and 0 not in x.sizes


def form_of(x: Range) -> Form | None:
    """The form of a tensor: what its operator found, the elements of a constant, or a symbol of its own."""
    if x.form is None and can_have_form(x):
        few = x.low.size <= _MOST_CONSTANTS if x.array is None else x.array.size <= _MOST_CONSTANTS
        if few and (x.low is x.high or bool((x.low == x.high).all())):
            x.form = Form(x.sizes, bounds_of(x), {})
        else:
            x.form = Form.symbol(Symbol(x.sizes, x if few else functools.partial(condensed, x)))
    return x.form


def is_small(x: Range) -> bool:
    """Whether single elements of a constant are worth looking at."""
    return x.has_known_shape and x.size <= _MOST_CONSTANTS


class Operand:
    """A tensor as an operator reads it: its form and its bounds, which are made when they are asked for."""

    __slots__ = ("_bounds", "form")

    def __init__(self, form: Form, bounds: Field | Callable[[], Field]) -> None:
        self.form = form
        self._bounds = bounds

    @property
    def bounds(self) -> Field:
        if callable(self._bounds):
            self._bounds = self._bounds()
        return self._bounds


def read(op: Call, x: Range) -> Operand | None:
    """A tensor as an operator reads it.

    Where subnormal operands are flushed, each operator reads zero or the number. Where chains of 16-bit operators may
    stay in float32, each reads the rounded number or the one before its rounding. The difference is not a symbol: no two
    readers need to see the same.
    """
    form = form_of(x)
    if form is None:
        return None
    format, target = x.format, op.target
    relative = format.unit_roundoff if target.keeps_chains_wide and format.bits < 32 else 0.0
    absolute = format.smallest_normal if target.flushes_operands else format.smallest_subnormal if relative else 0.0
    if relative or absolute:
        slack = _slack(x, relative, absolute)
        return Operand(combined(form.shape, [(ONE, form)], slack), lambda: added(bounds_of(x), slack))
    return Operand(form, lambda: bounds_of(x))


def _slack(x: Range, relative: float, absolute: float) -> Field:
    """An error of relative * |element| + absolute on either side; one interval for all cells where it is the same for all."""
    if relative == 0.0:
        radius = absolute * (1.0 + 2.0**-10)
        return -radius, radius
    radii = (relative * x.magnitude() + absolute) * (1.0 + 2.0**-10)
    return around_zero(field(x.sizes, x.grid, radii, radii))


def _all_read(op: Call, operands: Sequence[Range]) -> list[Operand] | None:
    """All operands; None if one has no form, or all are constants."""
    found = [read(op, x) for x in operands]
    known = [operand for operand in found if operand is not None]
    if len(known) < len(found) or not any(operand.form.terms for operand in known):
        return None
    return known


# -- sums and multiples ----------------------------------------------------------------------------------------------


def total(op: Call, result: Range, *parts: tuple[float, Range], error: Field = ZERO) -> Form | None:
    """The sum of multiples of tensors, with an error of the block itself."""
    operands = _all_read(op, [x for _, x in parts])
    if operands is None:
        return None
    return combined(result.sizes, [((factor, factor), x.form) for (factor, _), x in zip(parts, operands)], error)


def mean(op: Call, result: Range, operands: Sequence[Range], error: Field) -> Form | None:
    """The mean of tensors, with the error of all its steps."""
    known = _all_read(op, operands)
    count = float(len(operands))
    share = reciprocal((count, count))
    if known is None or share is None:
        return None
    return combined(result.sizes, [(share, x.form) for x in known], error)


def error_of(operands: Sequence[Range], relative: float, absolute: float) -> Field:
    """An error of relative * (sum of absolute values) + absolute on either side."""
    if relative == 0.0 == absolute:
        return ZERO
    most = functools.reduce(added, (magnitude(bounds_of(x)) for x in operands))
    return around_zero(added(multiplied((relative, relative), most), (absolute, absolute)))


def product(op: Call, result: Range, a: Range, b: Range) -> Form | None:
    """The product of two tensors of which one is constant."""
    operands = _all_read(op, (a, b))
    if operands is None:
        return None
    for factor, x in (operands, operands[::-1]):
        if not factor.form.terms:
            return combined(result.sizes, [(factor.form.centre, x.form)])
    return None


def quotient(op: Call, result: Range, a: Range, b: Range) -> Form | None:
    """A tensor divided by constants other than zero."""
    operands = _all_read(op, (a, b))
    if operands is None or operands[1].form.terms:
        return None
    factor = reciprocal(operands[1].form.centre)
    return None if factor is None else combined(result.sizes, [(factor, operands[0].form)])


def sums(op: Call, result: Range, x: Range, axes: Sequence[int], *, keepdims: bool, divisor: int, error: Field) -> Form | None:
    """Sums along axes, divided by a number, with the error of both."""
    operand = read(op, x)
    scale = reciprocal((float(divisor), float(divisor)))
    if operand is None or scale is None or not operand.form.terms or not operand.form.is_uniform:
        return None
    return combined(result.sizes, [(scale, operand.form.viewed(Summed(result.sizes, tuple(axes), keepdims)))], error)


def chosen(op: Call, result: Range, condition: Range, x: Range, y: Range) -> Form | None:
    """One tensor where a known condition holds, another where it does not."""
    operands = _all_read(op, (x, y))
    decided = condition.low.size <= _MOST_CONSTANTS and bool((condition.low == condition.high).all())
    if operands is None or not decided:
        return None
    here = np.where(condition.low > 0, 1.0, 0.0)
    mask = field(condition.sizes, condition.grid, here, here)
    other = field(condition.sizes, condition.grid, 1.0 - here, 1.0 - here)
    return combined(result.sizes, [(mask, operands[0].form), (other, operands[1].form)])


# -- maxima ----------------------------------------------------------------------------------------------------------


def _excess(result: Range, a: Operand, b: Operand) -> Form:
    """max(a - b, 0), the same symbol each time that it is asked for."""
    shape = result.sizes

    def make() -> tuple[Form, Range]:
        difference = combined(shape, [(ONE, a.form), (MINUS_ONE, b.form)])
        bounds = added(a.bounds, negated(b.bounds))
        if isinstance(bounds, tuple):
            return difference, difference.tighten(Range.uniform(shape, FLOAT64, *bounds))
        return difference, difference.tighten(bounds if bounds.shape == shape else Broadcast(shape)(bounds))

    is_nothing = not b.form.terms and is_zero(b.form.centre)
    other = None if is_nothing else (b.form, digest(b.bounds))
    return a.form.excess((shape, digest(a.bounds), other), make)


def _ordered(a: Operand, b: Operand) -> tuple[Operand, Operand]:
    """Two operands in an order that does not depend on which comes first: constants last."""
    return (b, a) if (not a.form.terms, a.form.number) > (not b.form.terms, b.form.number) else (a, b)


def _larger(result: Range, a: Operand, b: Operand) -> Operand:
    """max(a, b) = b + max(a - b, 0)."""
    a, b = _ordered(a, b)
    form = combined(result.sizes, [(ONE, b.form), (ONE, _excess(result, a, b))])
    return Operand(Form(form.shape, form.centre, form.terms), larger(a.bounds, b.bounds))


def _smaller(result: Range, a: Operand, b: Operand) -> Operand:
    """min(a, b) = a - max(a - b, 0)."""
    a, b = _ordered(a, b)
    form = combined(result.sizes, [(ONE, a.form), (MINUS_ONE, _excess(result, a, b))])
    return Operand(Form(form.shape, form.centre, form.terms), smaller(a.bounds, b.bounds))


def maximum(op: Call, result: Range, *operands: Range) -> Form | None:
    """The largest of all operands, exactly."""
    known = _all_read(op, operands)
    return None if known is None else functools.reduce(functools.partial(_larger, result), known).form


def minimum(op: Call, result: Range, *operands: Range) -> Form | None:
    """The smallest of all operands, exactly."""
    known = _all_read(op, operands)
    return None if known is None else functools.reduce(functools.partial(_smaller, result), known).form


def clipped(op: Call, result: Range, x: Range, low: Range | None, high: Range | None) -> Form | None:
    """min(max(x, low), high), exactly."""
    operands = [read(op, bound) for bound in (x, low, high) if bound is not None]
    known = [operand for operand in operands if operand is not None]
    if len(known) < len(operands) or not known[0].form.terms:
        return None
    limited, bounds = known[0], iter(known[1:])
    if low is not None:
        limited = _larger(result, limited, next(bounds))
    if high is not None:
        limited = _smaller(result, limited, next(bounds))
    return limited.form


NOTHING = Operand(Form((), ZERO, {}), ZERO)


def rectified(op: Call, result: Range, x: Range) -> Form | None:
    """max(x, 0), exactly."""
    operand = read(op, x)
    return None if operand is None or not operand.form.terms else _larger(result, operand, NOTHING).form


def absolute(op: Call, result: Range, x: Range) -> Form | None:
    """|x| = 2 max(x, 0) - x, exactly."""
    operand = read(op, x)
    if operand is None or not operand.form.terms:
        return None
    form = combined(result.sizes, [((2.0, 2.0), _excess(result, operand, NOTHING)), (MINUS_ONE, operand.form)])
    return Form(form.shape, form.centre, form.terms)


def leaky(op: Call, result: Range, x: Range, slope: Field) -> Form | None:
    """x above zero, a x below: a x + (1 - a) max(x, 0)."""
    operand = read(op, x)
    if operand is None or not operand.form.terms:
        return None
    rest = added(ONE, negated(slope))
    form = combined(result.sizes, [(slope, operand.form), (rest, _excess(result, operand, NOTHING))])
    return Form(form.shape, form.centre, form.terms)


# -- movement --------------------------------------------------------------------------------------------------------


def viewed(op: Call, result: Range, x: Range, *steps: Map) -> Form | None:
    """The elements of one tensor, moved."""
    operand = read(op, x)
    if operand is None or not operand.form.terms or (steps[-1].shape if steps else x.sizes) != result.sizes:
        return None
    return operand.form.viewed_as(steps)


def parts(op: Call, results: Sequence[Range], x: Range, axis: int) -> tuple[Form | None, ...]:
    """Consecutive slices along an axis."""
    forms: list[Form | None] = []
    start = 0
    for result in results:
        forms.append(viewed(op, result, x, Sliced(result.sizes, axis, start, 1)))
        start += result.sizes[axis]
    return tuple(forms)


def joined(op: Call, result: Range, tensors: Sequence[Range], axis: int) -> Form | None:
    """Tensors joined along an axis: a symbol of its own that knows its parts."""
    operands = _all_read(op, tensors)
    if operands is None:
        return None
    symbol = Symbol(result.sizes, result)
    pieces: list[tuple[int, int, Form]] = []
    start = 0
    for operand in operands:
        stop = start + operand.form.shape[axis]
        pieces.append((start, stop, operand.form))
        start = stop
    if start != result.sizes[axis]:
        return None
    symbol.parts = axis, tuple(pieces)
    return Form.symbol(symbol)


__all__ = [
    "absolute",
    "can_have_form",
    "chosen",
    "clipped",
    "error_of",
    "form_of",
    "is_small",
    "joined",
    "leaky",
    "maximum",
    "mean",
    "minimum",
    "parts",
    "product",
    "quotient",
    "read",
    "rectified",
    "sums",
    "total",
    "viewed",
]
