"""How affine forms pass operators of several steps: means, leaky rectifiers, and products with small constant matrices.

The other operators that keep affine relations state their rule beside their block.
"""

from __future__ import annotations

import math

import numpy as np

from tensorproof.formats import FLOAT64, Array
from tensorproof.operators.activations import leaky_relu, prelu, rounded
from tensorproof.operators.arithmetic import mean
from tensorproof.operators.linear import gemm, matmul
from tensorproof.operators.losses import dropout, trains
from tensorproof.operators.table import Call
from tensorproof.ranges import relations
from tensorproof.ranges.affine import Form, combined
from tensorproof.ranges.fields import ONE, Field, added, around_zero, bounds_of, magnitude, multiplied
from tensorproof.ranges.range import Range
from tensorproof.ranges.sums import summation_error
from tensorproof.ranges.views import Reshaped, Sliced, sliced_shape

#: Products are written out for matrices of at most so many rows (one term each) and elements.
_MOST_ROWS, _MOST_ELEMENTS = 8, 4096


@mean.affine
def _(op: Call, result: Range, *operands: Range) -> Form | None:
    n, format = len(operands), result.format
    # n - 1 additions, the reciprocal of n, and the product with it; each may underflow.
    growth = math.expm1((n + 2) * math.log1p(format.unit_roundoff)) / n
    lost = format.smallest_normal if op.target.flushes_results else format.smallest_subnormal
    return relations.mean(op, result, operands, relations.error_of(operands, growth, (n + 2) * lost))


@leaky_relu.affine
def _(op: Call, result: Range, x: Range) -> Form | None:
    alpha = op.attribute("alpha", float(np.float32(0.01)))
    slopes = alpha, rounded(alpha, x.format)
    return relations.leaky(op, result, x, (min(slopes), max(slopes)))


@prelu.affine
def _(op: Call, result: Range, x: Range, slope: Range) -> Form | None:
    constant = relations.form_of(slope)
    return None if constant is None or constant.terms else relations.leaky(op, result, x, constant.centre)


@dropout.affine
def _(
    op: Call, results: tuple[Range, Range], x: Range, ratio: Range | None = None, training: Range | None = None
) -> tuple[Form | None, None]:
    return None if trains(training) else relations.viewed(op, results[0], x), None


@matmul.affine
def _(op: Call, result: Range, a: Range, b: Range) -> Form | None:
    return _product(op, result, a, b, None)


@gemm.affine
def _(op: Call, result: Range, a: Range, b: Range, c: Range | None = None) -> Form | None:
    if op.attribute("transA", 0) or op.attribute("alpha", 1.0) != 1.0 or (c is not None and op.attribute("beta", 1.0) != 1.0):
        return None
    if op.attribute("transB", 0) and b.array is not None:
        b = Range.constant(b.array.transpose(1, 0), b.format)
    return _product(op, result, a, b, c)


def _product(op: Call, result: Range, x: Range, matrix: Range, addend: Range | None) -> Form | None:
    """x @ matrix + addend, row by row of a small constant matrix: each row times one slice of x."""
    weights = matrix.array
    if weights is None or weights.ndim > 2 or weights.shape[0] > _MOST_ROWS or weights.size > _MOST_ELEMENTS:
        return None
    operand = relations.read(op, x)
    constants = relations.form_of(matrix)
    extra = None if addend is None else relations.read(op, addend)
    if operand is None or constants is None or not operand.form.terms or (addend is not None and extra is None):
        return None
    # Where operands are flushed or not rounded, the weights are not what they say.
    if op.target.flushes_operands or (op.target.keeps_chains_wide and x.format.bits < 32):
        return None
    axis = x.rank - 1
    parts: list[tuple[Field, Form]] = []
    sizes: Field = (0.0, 0.0)
    for row in range(weights.shape[0]):
        weight = _field(weights[row].astype(np.float64))
        cut = Sliced(sliced_shape(x.sizes, axis, 1), axis, row, 1)
        slice_ = operand.form.viewed(cut)
        bounds = bounds_of(cut(x))
        if weights.ndim == 1:
            slice_ = slice_.viewed(Reshaped(result.sizes))
            bounds = bounds if isinstance(bounds, tuple) else bounds_of(Reshaped(result.sizes)(bounds))
        parts.append((weight, slice_))
        sizes = added(sizes, multiplied(magnitude(weight), magnitude(bounds)))
    terms = weights.shape[0]
    if extra is not None:
        parts.append((ONE, extra.form))
        sizes, terms = added(sizes, magnitude(extra.bounds)), terms + 1

    def error(total: Array) -> Array:
        # The product itself may be rounded into the tensor's format before something is added to it.
        rounding = 2.0 * x.format.unit_roundoff * total if extra is not None else 0.0
        return summation_error(op, total, terms, x.format) + rounding

    if isinstance(sizes, tuple):
        most = float(error(np.asarray(sizes[1])))
        return combined(result.sizes, parts, (-most, most))
    spread = error(sizes.high)
    return combined(result.sizes, parts, around_zero(sizes.replace(spread, spread, None)))


def _field(row: Array) -> Field:
    """One row of weights as coefficients along the last axis."""
    return bounds_of(Range.constant(row, FLOAT64))
