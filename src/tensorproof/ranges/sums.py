"""Sums and dot products: interval products without a loop over cells, and the rounding error of n terms.

|computed - exact| <= ((1 + u)^n - 1) * sum|terms| + n * eta for a sum of n terms in any order, u the unit roundoff and eta
the smallest subnormal of the format that accumulates (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2;
eta for products that underflow). The analysis itself sums in float64, which adds the same bound with u = 2^-53.
"""

from __future__ import annotations

import numpy as np

from tensorproof.formats import Array, Format
from tensorproof.operators.table import Call


def summation_error(op: Call, magnitude: Array, terms: int, format: Format) -> Array:
    """A bound on the rounding error of sums of `terms` terms (or products) whose absolute values sum to `magnitude`."""
    if not format.is_float or terms <= 0:
        return np.zeros_like(magnitude)
    accumulator = op.accumulation(format)
    growth = np.expm1(terms * np.log1p(accumulator.unit_roundoff)) + np.expm1(terms * np.log1p(2.0**-53))
    # Only sums of more than one term round; one product still rounds once on its way into the accumulator.
    underflow = terms * (accumulator.smallest_subnormal + 2.0**-1074)
    return growth * magnitude + underflow


def interval_product(
    low_a: Array, high_a: Array, low_b: Array, high_b: Array
) -> tuple[Array, Array, Array]:
    """Bounds of the matrix products a @ b over boxes of matrices, and the sum of absolute terms.

    Exact up to float64 rounding where one operand is a point; elsewhere each term's own hull is summed, split by sign so that
    no centre and radius blur a sign.
    """
    if low_b is high_b or bool((low_b == high_b).all()):
        positive, negative = np.maximum(low_b, 0.0), np.minimum(low_b, 0.0)
        low = low_a @ positive + high_a @ negative
        high = high_a @ positive + low_a @ negative
    elif low_a is high_a or bool((low_a == high_a).all()):
        positive, negative = np.maximum(low_a, 0.0), np.minimum(low_a, 0.0)
        low = positive @ low_b + negative @ high_b
        high = positive @ high_b + negative @ low_b
    else:
        low, high = _box_product(low_a, high_a, low_b, high_b)
    magnitude = np.maximum(np.abs(low_a), np.abs(high_a)) @ np.maximum(np.abs(low_b), np.abs(high_b))
    return low, high, magnitude


def _box_product(low_a: Array, high_a: Array, low_b: Array, high_b: Array) -> tuple[Array, Array]:
    """Both operands are intervals: the hull of each term, summed over the shared axis one slice at a time."""
    low: Array | None = None
    high: Array | None = None
    for k in range(low_a.shape[-1]):
        la, ha = low_a[..., :, k : k + 1], high_a[..., :, k : k + 1]
        lb, hb = low_b[..., k : k + 1, :], high_b[..., k : k + 1, :]
        corners = la * lb, la * hb, ha * lb, ha * hb
        term_low = np.minimum(np.minimum(corners[0], corners[1]), np.minimum(corners[2], corners[3]))
        term_high = np.maximum(np.maximum(corners[0], corners[1]), np.maximum(corners[2], corners[3]))
        low = term_low if low is None else low + term_low
        high = term_high if high is None else high + term_high
    shape = np.broadcast_shapes(low_a.shape[:-2], low_b.shape[:-2]) + (low_a.shape[-2], low_b.shape[-1])
    return (np.zeros(shape) if low is None else low), (np.zeros(shape) if high is None else high)
