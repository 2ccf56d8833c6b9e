"""Sizes as values, and tensors made from sizes: Shape, Size, Constant, ConstantOfShape, Range, EyeLike."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import BY_ONNX_CODE, FLOAT32, FLOAT64, INT64, Array, Format
from tensorproof.operators.movement import product
from tensorproof.operators.table import CORRECT, RESULT, UNDEFINED, Call, Mask, operator
from tensorproof.ranges.grid import Shape, Size, Span, counts, largest, smallest
from tensorproof.ranges.moving import FOLD_LIMIT, dimensions, moved
from tensorproof.ranges.range import CELL_BUDGET, NAN, Range
from tensorproof.rules.constant_not_finite import CONSTANT_NOT_FINITE
from tensorproof.rules.range_step_of_zero import RANGE_STEP_OF_ZERO


@operator("Shape")
def shape_(op: Call, x: Range) -> Range:
    """The sizes of the axes from `start` to `end`."""
    if x.shape is None:
        return Range.uniform((Span(0, None),), INT64, 0.0, INT64.high)
    sizes = x.shape[op.attribute("start", 0) : op.attribute("end", len(x.shape))]
    if all(isinstance(size, int) for size in sizes):
        return Range.constant(np.array([smallest(size) for size in sizes], np.int64), INT64)
    return Range.elements(INT64, np.array([*map(smallest, sizes)], np.float64), np.array([*map(_high, sizes)]))


@operator("Size")
def size_(op: Call, x: Range) -> Range:
    """The number of elements."""
    count: Size = Span(0, None) if x.shape is None else product(x.shape)
    if isinstance(count, int):
        return Range.constant(np.array(count, np.int64), INT64)
    return Range.uniform((), INT64, float(count.low), _high(count))


def _high(size: Size) -> float:
    end = largest(size)
    return INT64.high if end is None else float(end)


@operator("Constant")
def constant(op: Call) -> Range:
    """The attribute's value."""
    for name, value in op.attributes.items():
        if name in ("value", "sparse_value"):
            return Range.constant(value)
        if name in ("value_float", "value_floats"):
            return Range.constant(np.asarray(value, FLOAT32.dtype), FLOAT32)
        if name in ("value_int", "value_ints"):
            return Range.constant(np.asarray(value, np.int64), INT64)
        if name in ("value_string", "value_strings"):
            return Range.constant(np.asarray(value, object))
    raise NotAnalysed("a Constant without a value")


@operator("ConstantOfShape", hazards=(CONSTANT_NOT_FINITE,))
def constant_of_shape(op: Call, shape: Range) -> Range:
    """One value everywhere; one cell, however large."""
    value = op.attribute("value")
    element = Range.constant(np.zeros((), np.float32) if value is None else value.reshape(()))
    op.report(CONSTANT_NOT_FINITE, RESULT, element, bool(element.any_special & NAN), gives=NAN)
    sizes = _target(shape)
    if sizes is None:
        return moved(element, None, (), lambda a: a)
    if element.array is not None and all(isinstance(size, int) for size in sizes):
        numbers = [smallest(size) for size in sizes]
        if math.prod(numbers) <= CELL_BUDGET:
            return Range.constant(np.broadcast_to(element.array, numbers), element.format)
    grid = tuple(np.zeros(1, np.int64) if size == 0 else None for size in sizes)
    return moved(element, sizes, grid, lambda a: np.broadcast_to(a, counts(grid)))


def _target(shape: Range) -> Shape | None:
    sizes = dimensions(shape)
    if sizes is None:
        return None
    return tuple(max(s, 0) if isinstance(s, int) else Span(max(s.low, 0), s.high) for s in sizes)


@operator("EyeLike")
def eye_like(op: Call, x: Range) -> Range:
    """Ones on a diagonal of a matrix of the operand's shape, zeros elsewhere."""
    code = op.attribute("dtype")
    format = x.format if code is None else BY_ONNX_CODE[code]
    if x.shape is None or not x.has_known_shape or x.size > FOLD_LIMIT:
        return Range.uniform(x.shape, format, 0.0, 1.0)
    rows, columns = x.sizes
    return Range.constant(np.eye(rows, columns, op.attribute("k", 0)).astype(format.dtype), format)


# -- Range -----------------------------------------------------------------------------------------------------------


@operator("Range", error=CORRECT)
def range_(op: Call, start: Range, limit: Range, delta: Range) -> Range:
    """start + i * delta, i from 0 to before ceil((limit - start) / delta); the step keeps away from zero."""
    format = start.format
    # ONNX Range-27: 16-bit numbers are computed in float32.
    inner = FLOAT32 if format.is_float and format.bits < 32 and op.attribute("stash_type", 1) == FLOAT32.onnx_code else format
    if format.is_float and format.bits < 32 and op.attribute("stash_type", 1) == FLOAT64.onnx_code:
        inner = FLOAT64
    return _sequence(start, limit, delta, inner)


@range_.hazard(RANGE_STEP_OF_ZERO, gives=UNDEFINED, operand=2)
def _(op: Call, start: Range, limit: Range, delta: Range) -> Mask:
    return delta.contains(0.0)


@operator("Range", domain="com.microsoft", error=CORRECT)
def contrib_range(op: Call, start: Range, limit: Range, delta: Range | None = None) -> Range:
    """start + i * delta, i from 0 to before ceil((limit - start) / delta); the step keeps away from zero."""
    step = Range.constant(np.ones((), start.format.dtype), start.format) if delta is None else delta
    return _sequence(start, limit, step, start.format)


@contrib_range.hazard(RANGE_STEP_OF_ZERO, gives=UNDEFINED, operand=2)
def _(op: Call, start: Range, limit: Range, delta: Range | None = None) -> Mask:
    return False if delta is None else delta.contains(0.0)


def _sequence(start: Range, limit: Range, delta: Range, inner: Format) -> Range:
    """The elements, computed in the format `inner`: by products, by repeated addition, or from the first difference."""
    format = start.format
    exact = [x.integers() for x in (start, limit, delta)] if format.is_integer else [None]
    if all(value is not None for value in exact):
        first, last, step = (int(value.reshape(())) for value in exact if value is not None)
        if step and len(range(first, last, step)) <= FOLD_LIMIT:
            return Range.constant(np.arange(first, last, step, np.int64).astype(format.dtype), format)
    ends = [_interval(x) for x in (start, limit, delta)]
    steps = _steps(*ends[2], 1.0 if format.is_integer else inner.smallest_subnormal)
    lengths = [_length(a, b, d, inner) for d in steps for a in ends[0] for b in ends[1]]
    longest = None if None in lengths else max(n for n in lengths if n is not None)
    shortest = min((n for n in lengths if n is not None), default=0)
    if ends[2][0] < 0 < ends[2][1] or ends[2] == (0.0, 0.0):
        shortest = 0
    if longest is not None and longest == shortest <= CELL_BUDGET:
        return _elements(ends[0], steps, longest, format, inner)
    size: Size = shortest if shortest == longest else Span(shortest, longest)
    return _hull(ends[0], ends[1], steps, size, longest, format, inner)


def _interval(x: Range) -> tuple[float, float]:
    return float(x.low.min()), float(x.high.max())


def _steps(low: float, high: float, tiny: float) -> tuple[float, ...]:
    """The ends of the interval of steps, without zero: those of its negative and of its positive part."""
    parts: list[float] = []
    if low < 0:
        parts += [low, min(high, -tiny)]
    if high > 0 or not parts:
        parts += [max(low, tiny), max(high, tiny)]
    return tuple(parts)


def _length(start: float, limit: float, step: float, format: Format) -> int | None:
    """The number of elements; None if the quotient rounds to more than can be counted.

    Assumes that implementations evaluate (limit - start) / delta exactly, in float64, or with a difference in the format;
    where these disagree the largest is taken for the longest and the smallest cannot be told apart: see `_lengths`.
    """
    lengths = _lengths(start, limit, step, format)
    return None if max(lengths) > 2**53 else max(lengths)


def _lengths(start: float, limit: float, step: float, format: Format) -> tuple[int, ...]:
    quotients = [(Fraction(limit) - Fraction(start)) / Fraction(step)]
    return tuple(max(math.ceil(q), 0) for q in quotients)


def _elements(
    start: tuple[float, float], steps: tuple[float, ...], count: int, format: Format, inner: Format
) -> Range:
    raise NotImplementedError


def _hull(
    start: tuple[float, float],
    limit: tuple[float, float],
    steps: tuple[float, ...],
    size: Size,
    longest: int | None,
    format: Format,
    inner: Format,
) -> Range:
    raise NotImplementedError


__all__ = ["Array"]
