"""Powers and roots with an exponent that is part of the program, as JAX has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorproof.formats import Array
from tensorproof.frontends.calls import OWN
from tensorproof.operators.activations import PADDED, least
from tensorproof.operators.exponential import on_domain
from tensorproof.operators.table import FAITHFUL, Call, Mask, operator
from tensorproof.ranges.elementwise import monotone, piecewise
from tensorproof.ranges.range import Range
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW
from tensorproof.rules.infinite_derivative_at_zero import INFINITE_AT_ZERO

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor


@operator("IntegerPower", domain=OWN, error=PADDED, overflow=ARITHMETIC_OVERFLOW, elementwise=True)
def integer_power(op: Call, x: Range) -> Range:
    """x^n by multiplications, for a whole `exponent` that is not negative: even powers are least at zero, odd ones increase."""
    exponent = int(op.attribute("exponent"))

    def power(v: Array) -> Array:
        return np.power(v, float(exponent))

    result = piecewise(x, power, (0.0,) if exponent % 2 == 0 else ())
    if not x.format.is_float:
        # float64 holds no integers beyond 2^53 exactly.
        inexact = result.magnitude() > 2.0**53
        low, high = np.where(inexact, np.nextafter(result.low, -np.inf), result.low), result.high
        return result.replace(low, np.where(inexact, np.nextafter(high, np.inf), high), None)
    # Whatever the order of the n - 1 products is, each adds one rounding (Higham, section 3.1), and underflow adds little: a power
    # that underflows on the way belongs to a number below 1, which the products after it only make smaller.
    relative, absolute = (exponent + 2) * 1.01 * x.format.unit_roundoff, 4.0 * least(op, x.format)
    low = result.low - relative * np.abs(result.low) - absolute
    high = result.high + relative * np.abs(result.high) + absolute
    if exponent % 2 == 0:
        low = np.maximum(low, 0.0)
    empty = result.low > result.high
    special = result.special if result.has_special else None
    return result.replace(np.where(empty, np.inf, low), np.where(empty, -np.inf, high), special)


@integer_power.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return run.torch.pow(x, int(run.attribute("exponent")))


@operator("Cbrt", domain=OWN, error=FAITHFUL, elementwise=True)
def cbrt(op: Call, x: Range) -> Range:
    """The real cube root: increasing."""
    return monotone(x, np.cbrt)


cbrt.jax("cbrt")


@cbrt.backward(INFINITE_AT_ZERO)
def _(op: Call, result: Range, x: Range) -> Mask:
    """g cbrt(x) / (3 x), as JAX computes it: 0 / 0 at zero."""
    return x.contains(0.0)


@cbrt.meaning
def _(run: Run, x: Tensor) -> Tensor:
    def root(v: Tensor) -> Tensor:
        return run.torch.sign(v) * run.torch.pow(run.torch.abs(v), 1.0 / 3.0)

    return on_domain(run, root, x, x != 0, point=1.0)
