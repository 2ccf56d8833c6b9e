"""Activations that multiply x by a smooth gate between 0 and 1: Gelu, Swish, Mish and relatives.

Each has one minimum below zero, is negative below zero and increases from the minimum on. Below zero the gate is a
small difference of rounded numbers, so the error is absolute; above zero the gate is at least one half, and the error
relative. The same conventions as in `tensorproof.operators.activations` hold: u is the unit roundoff of the tensor's
format, elementary functions are within 8u of their value, and every step may be rounded to that format.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np

from tensorproof.formats import Array, Format
from tensorproof.operators.activations import PADDED, alive, least, logistic, softplus_value
from tensorproof.operators.arithmetic import add, mul
from tensorproof.operators.table import Call, Mask, operator
from tensorproof.ranges.elementwise import monotone
from tensorproof.ranges.error_function import erf
from tensorproof.ranges.pieces import Curve, exact, pieces, within
from tensorproof.ranges.range import POSITIVE_INFINITY, Range
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall

MICROSOFT = "com.microsoft"

#: Where x (1 + erf(x / sqrt 2)) / 2 is smallest, from its derivative's zero computed with 40 digits.
GELU_MINIMUM = -0.7517915246935644574579
#: The same for the approximation by tanh.
TANH_GELU_MINIMUM = -0.7524614220710162584880
#: Where x / (1 + exp(-x)) is smallest: -(1 + W(1 / e)) with Lambert's W.
SWISH_MINIMUM = -1.2784645427610737951094
#: Where x tanh(log(1 + exp(x))) is smallest.
MISH_MINIMUM = -1.1924312145154952121376


def _gated(x: Range, function: Curve, minimum: float, *, absolute: float, relative: float) -> Range:
    """x times a gate, computed within `absolute` below zero (the sign is kept) and within `relative` above."""
    return pieces(
        x,
        within(-np.inf, minimum, function, absolute=absolute, high=0.0),
        within(minimum, 0.0, function, absolute=absolute, high=0.0),
        within(0.0, np.inf, function, relative=relative, low=0.0),
    )


def _normal_gate(x: Array) -> Array:
    return 0.5 * x * (1.0 + erf(x / math.sqrt(2.0)))


def _tanh_gate(square: float, cubic: float) -> Curve:
    return lambda x: 0.5 * x * (1.0 + np.tanh(math.sqrt(square) * (x + cubic * x**3)))


def _constants(*values: float, format: Format) -> list[tuple[float, ...]]:
    """Constants of a function body: as they are, and as the float32 numbers that float64 tensors get, too."""
    return [values] if format.bits < 64 else [values, tuple(float(np.float32(v)) for v in values)]


def _mish(x: Array) -> Array:
    return x * np.tanh(softplus_value(x))


def gelu_errors(op: Call, format: Format, *, approximate: bool) -> tuple[float, float]:
    """The absolute error of x (1 + erf(x / sqrt 2)) / 2, or of its approximation by tanh, below zero; its relative error above."""
    u = format.unit_roundoff
    # 1 + erf: 4u of erf in [1/2, 1], 2u from its argument, u of the sum. Farther out than `reach` 1 - |erf| is below
    # u^2, and erf and tanh are exactly -1 in every implementation: the error does not grow beyond.
    reach = math.sqrt(-4.0 * math.log(u)) + 1.0
    absolute = 4.5 * u * reach + least(op, format) * reach
    return (1.5 * absolute, 16 * u) if approximate else (absolute, 12 * u)


@operator("Gelu", error=PADDED, elementwise=True)
def gelu(op: Call, x: Range) -> Range:
    """x times the normal distribution function, or its approximation by tanh: least at -0.75."""
    approximate = op.attribute("approximate", "none") == "tanh"
    absolute, relative = gelu_errors(op, x.format, approximate=approximate)
    if not approximate:
        return _gated(x, _normal_gate, GELU_MINIMUM, absolute=absolute, relative=relative)
    results = [
        _gated(x, _tanh_gate(*constants), TANH_GELU_MINIMUM, absolute=absolute, relative=relative)
        for constants in _constants(2.0 / math.pi, 0.044715, format=x.format)
    ]
    return functools.reduce(Range.join, results)


@gelu.aten("gelu")
def _(call: AtenCall) -> int:
    format = call.result.format
    return call.emit("Gelu", call.tensor("self", format), approximate=call["approximate"], formats=(format,))


@gelu.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return _gelu_tensor(run, x, run.attribute("approximate", "none"))


def _gelu_tensor(run: Run, x: Tensor, approximate: str = "none") -> Tensor:
    return alive(run, run.torch.nn.functional.gelu(x, approximate=approximate), x)


@gelu.hazard(ARITHMETIC_OVERFLOW, gives=POSITIVE_INFINITY)
def _(op: Call, x: Range) -> Mask:
    return op.attribute("approximate", "none") != "tanh" and overflows_early(op, x)


def overflows_early(op: Call, x: Range) -> Mask:
    """Cells in which a step of the target's own evaluation overflows, although the gate is at most 1."""
    headroom = op.target.function_error(op.operator.name, x.format).headroom
    return False if headroom == 1.0 else x.high > x.format.high / headroom


@operator("Swish", error=PADDED, elementwise=True)
def swish(op: Call, x: Range) -> Range:
    """x / (1 + exp(-alpha x)): least at -1.278 / alpha."""
    return _swish(op, x, op.attribute("alpha", 1.0))


swish.aten("silu")


@swish.aten("glu")
def _(call: AtenCall) -> int:
    """The first half of an axis times the sigmoid of the second."""
    format = call.result.format
    axis = call.axis("dim", call.rank("self"))
    first, second = call.emit("Split", call.tensor("self", format), axis=axis, num_outputs=2, outputs=2, formats=(format, format))
    return call.emit("Mul", first, call.emit("Sigmoid", second, formats=(format,)), formats=(format,))


@swish.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return _swish_tensor(run, x, run.attribute("alpha", 1.0))


def _swish_tensor(run: Run, x: Tensor, alpha: float) -> Tensor:
    return alive(run, x * run.torch.sigmoid(alpha * x), x)


def _swish(op: Call, x: Range, alpha: float) -> Range:
    if alpha < 0:
        return monotone(_swish(op, monotone(x, np.negative), -alpha), np.negative)
    u = x.format.unit_roundoff
    if alpha == 0:
        return monotone(x, lambda v: 0.5 * v)
    # With y = alpha x: |y| s(y) (10u + 2u |y|) <= 4u, and s may be 0 once exp(-y) overflows (11.1 in float16: 0.4u).
    # For small alpha the gate is near one half, and 12u |x| is the better bound.
    absolute = min(6 * u / alpha, 12 * u * float(x.magnitude().max(initial=0.0))) + 20 * least(op, x.format) / alpha
    # A target's absolute error of the sigmoid counts while it is not exactly zero, which it is below -18 at the latest.
    gate = op.target.function_error("Sigmoid", x.format).absolute
    return _gated(
        x,
        lambda v: v * logistic(alpha * v),
        SWISH_MINIMUM / alpha,
        absolute=absolute + 18 * gate / alpha,
        relative=13 * u + 2 * gate,
    )


@operator("SwiGLU", composed_of=(swish, mul))
def swiglu(op: Call, a: Range, b: Range) -> Range:
    """Swish of the first operand times the second (ONNX SwiGLU-28)."""
    return op.apply(mul, op.apply(swish, a, alpha=op.attribute("alpha", 1.0)), b)


@swiglu.meaning
def _(run: Run, a: Tensor, b: Tensor) -> Tensor:
    return _swish_tensor(run, a, run.attribute("alpha", 1.0)) * b


@operator("Mish", error=PADDED, elementwise=True)
def mish(op: Call, x: Range) -> Range:
    """x tanh(log(1 + exp(x))): least at -1.192."""
    u = x.format.unit_roundoff
    # Softplus is within 2u + 21u softplus; it is exactly 0 once exp(x) < u / 2: |x| counts up to -log(u / 2) only.
    reach = 1.0 - math.log(u / 2)
    return _gated(x, _mish, MISH_MINIMUM, absolute=(2 * u + least(op, x.format)) * reach + 12 * u, relative=32 * u)


mish.aten("mish")


@mish.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return alive(run, run.torch.nn.functional.mish(x), x)


@operator("HardSwish", error=PADDED, elementwise=True)
def hard_swish(op: Call, x: Range) -> Range:
    """x max(0, min(1, x / 6 + 1/2)): least at -1.5, zero below -3, identity above 3."""
    u = x.format.unit_roundoff

    # The gate has an error of 3u between -4 and 4 and is exactly 0 and 1 outside; |x| <= 4 there.
    def result(slope: float) -> Range:
        def function(v: Array) -> Array:
            return v * np.clip(v * slope + 0.5, 0.0, 1.0)

        minimum = -0.25 / slope
        return pieces(
            x,
            exact(-np.inf, -4.0, function),
            within(-4.0, minimum, function, absolute=14 * u, high=0.0),
            within(minimum, 0.0, function, absolute=14 * u, high=0.0),
            within(0.0, 4.0, function, relative=8 * u, low=0.0),
            exact(4.0, np.inf, function),
        )

    return functools.reduce(Range.join, [result(slope) for (slope,) in _constants(1.0 / 6.0, format=x.format)])


hard_swish.aten("hardswish")


@hard_swish.hazard(ARITHMETIC_OVERFLOW, gives=POSITIVE_INFINITY)
def _(op: Call, x: Range) -> Mask:
    return overflows_early(op, x)


@hard_swish.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return alive(run, run.torch.nn.functional.hardswish(x), x)


# -- fused forms that ONNX Runtime's transformer optimiser writes -----------------------------------------------------


@operator("Gelu", domain=MICROSOFT, composed_of=(gelu,))
def microsoft_gelu(op: Call, x: Range) -> Range:
    """Gelu without approximation."""
    return op.apply(gelu, x)


@microsoft_gelu.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return _gelu_tensor(run, x)


@operator("BiasGelu", domain=MICROSOFT, composed_of=(add, gelu))
def bias_gelu(op: Call, a: Range, b: Range) -> Range:
    """Gelu of a sum."""
    return op.apply(gelu, op.apply(add, a, b))


@bias_gelu.meaning
def _(run: Run, a: Tensor, b: Tensor) -> Tensor:
    return _gelu_tensor(run, a + b)


@operator("FastGelu", domain=MICROSOFT, composed_of=(add, gelu), hazards=(ARITHMETIC_OVERFLOW,))
def fast_gelu(op: Call, x: Range, bias: Range | None = None) -> Range:
    """Gelu approximated by tanh, of a sum if there is a bias."""
    total = x if bias is None else op.apply(add, x, bias)
    if total.format.name == "float64":
        # ONNX Runtime has no kernel for float64: its function body multiplies by 1 + tanh before it halves.
        doubled = total.high > total.format.high / 2
        op.report(ARITHMETIC_OVERFLOW, 0, total, doubled, gives=POSITIVE_INFINITY)
    return op.apply(gelu, total, approximate="tanh")


@fast_gelu.meaning
def _(run: Run, x: Tensor, bias: Tensor | None = None) -> Tensor:
    return _gelu_tensor(run, x if bias is None else x + bias, "tanh")


@operator("QuickGelu", domain=MICROSOFT, composed_of=(swish,))
def quick_gelu(op: Call, x: Range) -> Range:
    """Swish with alpha 1.702 by default."""
    return op.apply(swish, x, alpha=_quick_factor(op))


def _quick_factor(op: Call | Run) -> float:
    return op.attribute("alpha", float(np.float32(1.702)))


@quick_gelu.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return _swish_tensor(run, x, _quick_factor(run))
