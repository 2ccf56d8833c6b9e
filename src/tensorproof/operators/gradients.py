"""Gradients that torch computes by operators of their own and does not take apart: adjoints of windows and convolutions.

Most operators of the backward pass are taken apart by torch's decompositions into operators that have blocks
(`tensorproof.frontends.torch_joint`). What is left is linear in the gradient: each element of the result is a sum of elements of
the gradient, or of its products with values. The blocks here bound such sums by the number of their terms alone.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import BOOL, Format
from tensorproof.frontends.calls import OWN
from tensorproof.graph import ABSENT
from tensorproof.operators.activations import sigmoid
from tensorproof.operators.exponential import exp
from tensorproof.operators.reductions import reduce_sum
from tensorproof.operators.table import CORRECT, Call, operator
from tensorproof.operators.vector_norms import vector_norm
from tensorproof.ranges.range import SPECIALS, Range
from tensorproof.ranges.sums import report_partial_overflow, summation_error_of
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW

if TYPE_CHECKING:
    from tensorproof.frontends.aten import AtenCall
    from tensorproof.frontends.calls import Handle

_COARSE = "bounded by the number of terms: which elements meet in one sum is not followed"


@operator("ScatteredSum", domain=OWN, error=CORRECT, overflow=ACCUMULATION_OVERFLOW, coarse=_COARSE)
def scattered_sum(op: Call, x: Range) -> Range:
    """Sums of at most `terms` elements, each times a weight between -`negative` and `positive`."""
    low, high = _hull(x)
    positive, negative = float(op.attribute("positive", 1.0)), float(op.attribute("negative", 0.0))
    ends = [weight * end for weight in (positive, -negative) for end in (low, high)]
    return _bounded(op, x.format, min(ends), max(ends), x.has_special)


@operator("SumOfProducts", domain=OWN, error=CORRECT, overflow=ACCUMULATION_OVERFLOW, coarse=_COARSE)
def sum_of_products(op: Call, x: Range, y: Range) -> Range:
    """Sums of at most `terms` products of an element of each operand."""
    ends = [first * second for first in _hull(x) for second in _hull(y)]
    return _bounded(op, x.format, min(ends), max(ends), x.has_special or y.has_special)


def _hull(x: Range) -> tuple[float, float]:
    low, high = x.hull()
    return (low, high) if low <= high else (0.0, 0.0)


def _bounded(op: Call, format: Format, low: float, high: float, has_special: bool) -> Range:
    """At most `terms` terms between two numbers: fewer of them, or none, are as if the others were zero."""
    terms = int(op.attribute("terms"))
    low, high = terms * min(low, 0.0), terms * max(high, 0.0)
    error = summation_error_of(op, max(-low, high), terms, format)
    low, high = low - (error if low else 0.0), high + (error if high else 0.0)
    shape = tuple(int(size) for size in op.attribute("shape"))
    result = Range.uniform(shape, format, low, high, SPECIALS if has_special else 0)
    report_partial_overflow(op, result, np.full(result.cells, low), np.full(result.cells, high))
    return result


# -- in torch ---------------------------------------------------------------------------------------------------------


def _sizes(x: Handle) -> tuple[int, ...]:
    """The sizes of a tensor, which a training step fixes."""
    sizes = [size for size in x.shape or () if isinstance(size, int)]
    if x.shape is None or len(sizes) != len(x.shape):
        raise NotAnalysed("gradients of tensors whose sizes are open are not modelled")
    return tuple(sizes)


def _scattered(call: AtenCall, x: Handle, terms: int, *, positive: float = 1.0, negative: float = 0.0) -> int:
    return call.own(
        "ScatteredSum",
        x.number,
        terms=max(terms, 1),
        positive=positive,
        negative=negative,
        shape=list(_sizes(call.result)),
        formats=(x.format,),
    )


@scattered_sum.aten(
    *(f"avg_pool{rank}d_backward" for rank in (2, 3)),
    *(f"_adaptive_avg_pool{rank}d_backward" for rank in (2, 3)),
    *(f"adaptive_max_pool{rank}d_backward" for rank in (2, 3)),
    "max_pool3d_with_indices_backward",
    *(f"upsample_nearest{rank}d_backward" for rank in (1, 2, 3)),
    *(f"_upsample_nearest_exact{rank}d_backward" for rank in (1, 2, 3)),
    *(f"upsample_{name}_backward" for name in ("linear1d", "bilinear2d", "trilinear3d")),
    *(f"replication_pad{rank}d_backward" for rank in (1, 2, 3)),
)
def _(call: AtenCall) -> int:
    """An element gets shares of the gradients of one channel's results; weights of pooling and interpolation are at most 1."""
    gradient = call.handle("grad_output")
    # `avg_pool2d_backward`: the last two axes are spatial, whether there is a batch or not.
    spatial = int(call.name[call.name.index("d_") - 1])
    negative = 1.0 if call.is_given("divisor_override") else 0.0
    return _scattered(call, gradient, math.prod(_sizes(gradient)[-spatial:]), negative=negative)


@scattered_sum.aten("softshrink_backward", "hardshrink_backward")
def _(call: AtenCall) -> int:
    """The gradient where the operand is beyond the threshold, zero elsewhere."""
    return _scattered(call, call.handle("grad_output" if "grad_output" in call.arguments else "grad_out"), 1)


@scattered_sum.aten("_cdist_backward")
def _(call: AtenCall) -> int:
    """Sums of g (a - b) |a - b|^(p - 2) / d^(p - 1), 0 where the distance d is: a factor of 1 or less for p of 1 or more.

    Distances whose powers are subnormal are rounded coarsely; the factor is then at most 2.
    """
    if call["p"] < 1:
        raise NotAnalysed("gradients of distances of an order below 1 are not modelled")
    return _scattered(call, call.handle("grad"), _sizes(call.handle("x2"))[-2], positive=2.0, negative=2.0)


@vector_norm.aten("_cdist_forward")
def _(call: AtenCall) -> int:
    return call.delegate("cdist.default", **call.arguments)


@sum_of_products.aten("convolution_backward")
def _(call: AtenCall) -> tuple[int, int, int]:
    """Gradients by the operand, the weight and the bias, those that are asked for."""
    gradient, x, weight = call.handle("grad_output"), call.handle("input"), call.handle("weight")
    by_x, by_weight, by_bias = call["output_mask"]
    sizes = _sizes(weight)
    # Weights are (M, C / groups, ...), of transposed convolutions (C, M / groups, ...).
    channels = sizes[1] if call["transposed"] else sizes[0] // call["groups"]
    positions = math.prod(_sizes(x if call["transposed"] else gradient)[2:]) * _sizes(x)[0]
    made = [ABSENT, ABSENT, ABSENT]
    if by_x:
        made[0] = _products(call, gradient, weight, channels * math.prod(sizes[2:]), call.results[0])
    if by_weight:
        made[1] = _products(call, gradient, x, positions, call.results[1])
    if by_bias:
        axes = np.array([0, *range(2, len(_sizes(gradient)))], np.int64)
        made[2] = call.emit(reduce_sum.name, gradient.number, call.constant(axes), keepdims=0, formats=(gradient.format,))
    return made[0], made[1], made[2]


def _products(call: AtenCall, x: Handle, y: Handle, terms: int, result: Handle) -> int:
    return call.own("SumOfProducts", x.number, y.number, terms=max(terms, 1), shape=list(_sizes(result)), formats=(x.format,))


# -- activations whose decompositions compute more than torch does -------------------------------------------------------


@sigmoid.aten("log_sigmoid_backward")
def _(call: AtenCall) -> int:
    """g / (1 + exp(x))."""
    x, format = call.tensor("self"), call.result.format
    slope = call.emit("Sigmoid", call.emit("Neg", x, formats=(format,)), formats=(format,))
    return call.emit("Mul", call.tensor("grad_output"), slope, formats=(format,))


@sigmoid.aten("softplus_backward")
def _(call: AtenCall) -> int:
    """g / (1 + exp(-beta x)), and g beyond the threshold, where the factor is 1 within rounding."""
    format = call.result.format
    scaled = call.emit("Mul", call.tensor("self"), call.value(float(call["beta"]), format), formats=(format,))
    slope = call.emit("Sigmoid", scaled, formats=(format,))
    return call.emit("Mul", call.tensor("grad_output"), slope, formats=(format,))


@exp.aten("elu_backward")
def _(call: AtenCall) -> int:
    """g s for operands above zero; below, g s a b exp(b x), or g b (y + s a) where the result y was saved."""
    format, x, g = call.result.format, call.tensor("self_or_result"), call.tensor("grad_output")
    scale, alpha, inner = (call.value(float(call[name]), format) for name in ("scale", "alpha", "input_scale"))
    zero = call.value(0.0, format)
    product = partial(call.emit, "Mul", formats=(format,))
    if call["is_result"]:
        slope = product(call.emit("Add", x, product(scale, alpha), formats=(format,)), inner)
    else:
        decayed = call.emit("Exp", product(call.emit("Min", x, zero, formats=(format,)), inner), formats=(format,))
        slope = product(product(product(decayed, inner), alpha), scale)
    is_above = call.emit("Greater", x, zero, formats=(BOOL,))
    return product(g, call.emit("Where", is_above, scale, slope, formats=(format,)))
