"""Activations and the elements of losses that ONNX does not have, or has in a less accurate form, as PyTorch computes them.

Errors were measured on torch 2.13 against float64, and float64 against 60 digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import FLOAT32, Array
from tensorproof.frontends.calls import OWN
from tensorproof.operators.activations import PADDED, alive, least, softplus_value
from tensorproof.operators.losses import reduced_elements
from tensorproof.operators.table import FAITHFUL, Call, Mask, operator
from tensorproof.ranges.elementwise import binary, monotone
from tensorproof.ranges.pieces import Piece, exact, pieces
from tensorproof.ranges.range import NAN, POSITIVE_INFINITY, Range
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW
from tensorproof.rules.exponential_overflow import EXPONENTIAL_OVERFLOW
from tensorproof.rules.log_of_nonpositive import LOG_OF_NONPOSITIVE

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall
    from tensorproof.frontends.tensorflow_call import TensorflowCall


@operator("LogSigmoid", domain=OWN, error=FAITHFUL, codomain=(-np.inf, 0.0), elementwise=True)
def log_sigmoid(op: Call, x: Range) -> Range:
    """min(x, 0) - log1p(exp(-|x|)): increasing, never infinite for numbers."""
    return monotone(x, lambda v: -softplus_value(-v))


@log_sigmoid.aten("log_sigmoid", "log_sigmoid_forward")
def _(call: AtenCall) -> int | tuple[int, ...]:
    made = call.own("LogSigmoid", call.tensor("self", call.result.format), formats=(call.result.format,))
    # The second result is a buffer that only the backward pass reads.
    return made if len(call.results) == 1 else (made, call.constant(np.zeros(0, np.float32)))


@log_sigmoid.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return alive(run, run.torch.nn.functional.logsigmoid(x), x)


def _sharpness(op: Call | Run) -> tuple[float, float]:
    """The factor of Softplus, and from which multiple of it on the function is the identity."""
    return float(op.attribute("beta", 1.0)), float(op.attribute("threshold", 20.0))


@operator("Softplus", domain=OWN, error=PADDED, codomain=(0.0, np.inf), elementwise=True)
def softplus(op: Call, x: Range) -> Range:
    """log1p(exp(beta x)) / beta, and x itself where beta x is beyond the threshold: increasing, to all digits below zero."""
    beta, threshold = _sharpness(op)
    if not beta > 0.0:
        raise NotAnalysed("Softplus with a factor that is not positive")
    u, tiny = x.format.unit_roundoff, least(op, x.format)
    end = threshold / beta

    # The exponential and the logarithm have a relative error of 8u each. Rounding beta x changes the exponential by u |beta x|.
    def bounds(v: Array) -> tuple[Array, Array]:
        value = softplus_value(beta * v) / beta
        growth = 20.0 * u if beta == 1.0 else u * (24.0 + np.abs(np.maximum(beta * v, -1e3)))
        error = np.where(np.isfinite(v), growth * value + 2.0 * tiny / min(beta, 1.0), 0.0)
        return np.maximum(value - error, 0.0), value + error

    # Where the rounded product decides, either branch may be taken.
    first = end * (1.0 - 4.0 * u)
    return pieces(x, Piece(-np.inf, end * (1.0 + 4.0 * u), bounds), exact(first, np.inf, lambda v: v))


@softplus.aten("softplus")
def _(call: AtenCall) -> int:
    format = call.result.format
    beta, threshold = float(call["beta"]), float(call["threshold"])
    return call.own("Softplus", call.tensor("self", format), formats=(format,), beta=beta, threshold=threshold)


@softplus.tensorflow("Softplus")
def _(call: TensorflowCall) -> int:
    """x from log(1 / epsilon) - 2 on, and as far below zero exp(x) (`softplus_op.h`); in narrow formats the block allows both."""
    format = call.arithmetic_format()
    threshold = max(-math.log(2.0 * format.unit_roundoff) - 2.0, 20.0)
    return call.own("Softplus", call.operand(0), formats=(format,), beta=1.0, threshold=threshold)


@softplus.meaning
def _(run: Run, x: Tensor) -> Tensor:
    beta, threshold = _sharpness(run)
    return alive(run, run.torch.nn.functional.softplus(x, beta, threshold), x)


@softplus.hazard(EXPONENTIAL_OVERFLOW, gives=POSITIVE_INFINITY)
def _(op: Call, x: Range) -> Mask:
    beta, threshold = _sharpness(op)
    # 16-bit numbers are computed in float32.
    limit = float(np.log(max(x.format.high, FLOAT32.high)))
    return False if threshold <= limit else x.high * beta > limit * (1.0 - 2.0**-20)


# -- binary cross entropy --------------------------------------------------------------------------------------------


@operator("BinaryCrossEntropyWithLogits", domain=OWN, error=PADDED, overflow=ARITHMETIC_OVERFLOW, elementwise=True)
def binary_cross_entropy_with_logits(op: Call, x: Range, target: Range) -> Range:
    """(1 - t) x - logsigmoid(x), of each element: convex in the logit and linear in the target, finite for numbers."""
    u = x.format.unit_roundoff

    def loss(logit: Array, t: Array) -> tuple[Array, Array]:
        linear, stable = (1.0 - t) * logit, softplus_value(-logit)
        error = u * (4.0 * np.abs(linear) + 10.0 * stable) + least(op, x.format)
        value = linear + stable
        return value - error, value + error

    def kernel(lx: Array, hx: Array, lt: Array, ht: Array) -> tuple[Array, Array]:
        # Least where the sigmoid is the target.
        return _extremes(loss, (lx, hx), (lt, ht), lambda t: np.clip(_logit(t), lx, hx))

    return binary(x, target, kernel, lambda logit, t: (1.0 - t) * logit + softplus_value(-logit))


def _logit(t: Array) -> Array:
    inside = np.clip(t, 0.0, 1.0)
    return np.log(inside) - np.log1p(-inside)


@binary_cross_entropy_with_logits.aten("binary_cross_entropy_with_logits")
def _(call: AtenCall) -> int:
    format = call.result.format
    x, target = call.tensor("self", format), call.tensor("target", format)
    if not call.is_given("pos_weight"):
        return reduced_elements(call, call.own("BinaryCrossEntropyWithLogits", x, target, formats=(format,)))
    # (1 - t) x - (1 + (w - 1) t) logsigmoid(x)
    one = call.value(1.0, format)
    excess = call.emit("Sub", call.tensor("pos_weight", format), one, formats=(format,))
    factor = call.emit("Add", call.emit("Mul", excess, target, formats=(format,)), one, formats=(format,))
    stable = call.emit("Mul", factor, call.own("LogSigmoid", x, formats=(format,)), formats=(format,))
    linear = call.emit("Mul", call.emit("Sub", one, target, formats=(format,)), x, formats=(format,))
    return reduced_elements(call, call.emit("Sub", linear, stable, formats=(format,)))


@binary_cross_entropy_with_logits.meaning
def _(run: Run, x: Tensor, target: Tensor) -> Tensor:
    return run.torch.nn.functional.binary_cross_entropy_with_logits(x, target.to(x.dtype), reduction="none")


#: Torch replaces smaller logarithms by this number (`torch.nn.BCELoss`).
LEAST_LOGARITHM = -100.0


@operator("BinaryCrossEntropy", domain=OWN, error=PADDED, overflow=ARITHMETIC_OVERFLOW, elementwise=True)
def binary_cross_entropy(op: Call, x: Range, target: Range) -> Range:
    """-t log(x) - (1 - t) log(1 - x), of each element, logarithms never below -100: finite for probabilities."""
    u = x.format.unit_roundoff
    x = x.clamp(0.0, 1.0)

    def loss(p: Array, t: Array) -> tuple[Array, Array]:
        first = t * np.maximum(np.log(p), LEAST_LOGARITHM)
        second = (1.0 - t) * np.maximum(np.log1p(-p), LEAST_LOGARITHM)
        error = u * (11.0 * np.abs(first) + 12.0 * np.abs(second)) + least(op, x.format)
        value = -first - second
        return value - error, value + error

    def kernel(lx: Array, hx: Array, lt: Array, ht: Array) -> tuple[Array, Array]:
        # Linear in the target; in the probability least at the target, and monotone where the target is outside [0, 1].
        return _extremes(loss, (lx, hx), (lt, ht), lambda t: np.clip(t, lx, hx))

    return binary(x, target, kernel, lambda p, t: loss(p, t)[1])


def _extremes(
    loss: Callable[[Array, Array], tuple[Array, Array]],
    ends: tuple[Array, Array],
    targets: tuple[Array, Array],
    valley: Callable[[Array], Array],
) -> tuple[Array, Array]:
    """Bounds of a loss that is linear in the target and convex in its first argument, least at the `valley` of a target.

    `loss` gives the least and the largest value that may be computed.
    """
    corners = [loss(end, t) for end in ends for t in targets]
    valleys = [loss(valley(t), t) for t in targets]
    low = np.minimum.reduce(np.broadcast_arrays(*(lower for lower, _ in (*corners, *valleys))))
    return low, np.maximum.reduce(np.broadcast_arrays(*(upper for _, upper in corners)))


@binary_cross_entropy.aten("binary_cross_entropy")
def _(call: AtenCall) -> int:
    format = call.result.format
    loss = call.own("BinaryCrossEntropy", call.tensor("self", format), call.tensor("target", format), formats=(format,))
    return reduced_elements(call, loss)


@binary_cross_entropy.meaning
def _(run: Run, x: Tensor, target: Tensor) -> Tensor:
    torch = run.torch
    # Torch itself refuses what is no probability.
    first = torch.log(x).clamp(min=LEAST_LOGARITHM)
    second = torch.log1p(-x).clamp(min=LEAST_LOGARITHM)
    value = (target - 1) * second - target * first
    inside = (x > 0) & (x < 1)
    tame = torch.where(inside, x, 0.5)
    return run.passing(value, torch.where(inside, (target - 1) * torch.log1p(-tame) - target * torch.log(tame), x))


@binary_cross_entropy.hazard(LOG_OF_NONPOSITIVE, gives=NAN)
def _(op: Call, x: Range, target: Range) -> Mask:
    return (x.low < 0) | (x.high > 1)
