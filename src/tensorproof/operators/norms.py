"""Division by a norm of the neighbours: RMSNormalization, LpNormalization and LRN.

Others enter through the sum of their powers only, so a component's extremes stand where it is at an end of its cell and the
others are all as near to zero, or as far from it, as they can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.formats import FLOAT32, Array, Format
from tensorproof.graph import ABSENT
from tensorproof.operators.activations import least, rounded
from tensorproof.operators.normalisation import EPSILON
from tensorproof.operators.statistics import STATISTICS, affine, spread_special, stash
from tensorproof.operators.table import CORRECT, UNDEFINED, Call, operator
from tensorproof.ranges.folds import normalised_axis
from tensorproof.ranges.norms import PAD, Norm
from tensorproof.ranges.range import NAN, SPECIALS, Range
from tensorproof.ranges.rows import Rows
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW
from tensorproof.rules.degenerate_normalisation import DEGENERATE_NORMALISATION

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall


def _powers(low: Array, high: Array, p: int) -> tuple[Array, Array]:
    """The least and the largest |x|^p of each cell."""
    near = np.where(low > 0, low, np.where(high < 0, -high, 0.0))
    return near**p, np.maximum(np.abs(low), np.abs(high)) ** p


def _others(powers: Array, counts: Array) -> Array:
    """The sum over all elements of a row except one of the cell itself, without cancellation."""
    whole = powers * counts
    nothing = np.zeros((len(whole), 1))
    before = np.cumsum(np.concatenate([nothing, whole[:, :-1]], axis=-1), axis=-1)
    after = np.cumsum(np.concatenate([nothing, whole[:, :0:-1]], axis=-1), axis=-1)[:, ::-1]
    return before + after + powers * (counts - 1.0)


def normalised_by_norm(
    op: Call, x: Range, axes: Sequence[int], p: int, epsilon: float, format: Format, *, mean: bool
) -> tuple[Range, Rows, Array]:
    """x / (sum|x|^p + epsilon)^(1/p), or with the mean in place of the sum, computed in `format`.

    Also the rows, and the least value of what stands under the root. A norm of zero gives zero (ONNX LpNormalization-22).
    """
    rows = Rows(x, axes)
    n, u = rows.length, format.unit_roundoff
    divisor = n if mean else 1.0
    eta = least(op, format) if p > 1 else 0.0
    near, far = _powers(rows.low, rows.high, p)
    few, many = _others(near, rows.fewest), _others(far, rows.most)
    held = rounded(epsilon, format)

    def quotient(t: Array, others: Array) -> Array:
        norm = ((np.abs(t) ** p + others) / divisor + epsilon) ** (1.0 / p)
        return np.where(t == 0, 0.0, np.where(norm > 0, t / norm, np.sign(t) * largest))

    largest = divisor ** (1.0 / p)
    low = np.where(rows.low < 0, quotient(rows.low, few), quotient(rows.low, many))
    high = np.where(rows.high > 0, quotient(rows.high, few), quotient(rows.high, many))
    # The powers and their sum, the division, epsilon, the root, and the final quotient.
    accumulator = op.accumulation(format)
    floor = near @ rows.fewest[:, None] / divisor + max(min(epsilon, held), 0.0)
    relative = np.expm1(n * -np.log1p(-accumulator.unit_roundoff) + 8 * u + n * 2.0**-52)
    lost = np.where(floor > 0, ((n / divisor + 2) * eta + abs(held - epsilon)) / floor, 0.0)
    factor = 1.0 + relative + lost
    low, high = np.where(low < 0, low * factor, low / factor), np.where(high > 0, high * factor, high / factor)
    # What underflow leaves of a sum of squares is at least 2/3 of the largest of them, or nothing at all; squares that leave
    # float64 itself say nothing but the sign.
    total = far @ rows.most[:, None]
    unclear = ~(floor > 64 * (n / divisor + 1) * eta) | ~np.isfinite(total)
    reach = largest * (1.0 + relative) * (np.sqrt(1.5) if p > 1 else 1.0)
    low = np.where(unclear, np.where(rows.low < 0, -reach, 0.0), low)
    high = np.where(unclear, np.where(rows.high > 0, reach, 0.0), high)
    overflow = ~(total * (1.0 + relative) <= accumulator.high)
    if overflow.any():
        # The quotient by an infinite norm is 0.
        op.report(ACCUMULATION_OVERFLOW, 0, x, rows.mark(overflow), gives=0)
        low, high = np.where(overflow, np.minimum(low, 0.0), low), np.where(overflow, np.maximum(high, 0.0), high)
    special = spread_special(rows)
    if special is not None:
        tainted = rows.flatten(special) != 0
        low, high = np.where(tainted, np.minimum(low, 0.0), low), np.where(tainted, np.maximum(high, 0.0), high)
    result = x.replace(rows.restore(low), rows.restore(high), special)
    if op.abstraction.norms and p <= 2:
        # Squares that underflow are missing from the sum: each element is still bounded, the row as a whole is not.
        bound = float(np.where(unclear, np.sqrt(n) * reach, largest * factor).max()) * PAD
        result.norm = Norm(max(axes), bound, bound if p == 1 and divisor == 1.0 else np.inf)
    return result, rows, floor


@operator(
    "RMSNormalization",
    error=CORRECT,
    overflow=ARITHMETIC_OVERFLOW,
    hazards=STATISTICS,
)
def rms_normalization(op: Call, x: Range, scale: Range) -> Range:
    """x / sqrt(mean(x^2) + epsilon) * scale: increasing in the element itself. |y| <= sqrt(n) |scale|."""
    if 0 in x.cells:
        return x
    axes = tuple(range(normalised_axis(int(op.attribute("axis", -1)), x.rank), x.rank))
    return affine(op, rms_normalised(op, x, axes, op.attribute("epsilon", EPSILON)), scale)


@rms_normalization.meaning
def _(run: Run, x: Tensor, scale: Tensor) -> Tensor:
    axes = range(normalised_axis(int(run.attribute("axis", -1)), x.ndim), x.ndim)
    return divided_by_root_mean_square(run, x, axes, run.attribute("epsilon", EPSILON))[0].to(x.dtype) * scale


@rms_normalization.aten("rms_norm", "_fused_rms_norm")
def _(call: AtenCall) -> int | tuple[int, ...]:
    """Without an epsilon, that of the format is taken."""
    format, shape = call.result.format, call["normalized_shape"]
    if format is None:
        raise NotAnalysed("the format of a normalisation is not known")
    scale = call.tensor("weight", format)
    scale = call.constant(np.ones(shape), format) if scale == ABSENT else scale
    # PyTorch's epsilon of a format is the distance from 1 to the next number: two unit roundoffs.
    epsilon = float(call.get("eps", 2.0 * format.unit_roundoff))
    y = call.emit("RMSNormalization", call.tensor("input", format), scale, axis=-len(shape), epsilon=epsilon, formats=(format,))
    return y if len(call.results) == 1 else (y, ABSENT)


def divided_by_root_mean_square(run: Run, x: Tensor, axes: Sequence[int], epsilon: float) -> tuple[Tensor, Tensor]:
    """x / sqrt(mean(x^2) + epsilon) and the reciprocal of the root, in at least float32."""
    wide = x.to(run.torch.promote_types(x.dtype, run.dtype(FLOAT32)))
    inverse = (wide.square().mean(tuple(axes), keepdim=True) + epsilon).rsqrt()
    return wide * inverse, inverse


def rms_normalised(op: Call, x: Range, axes: Sequence[int], epsilon: float) -> Range:
    """The first stage of RMSNormalization-23, in the stash format."""
    format = stash(x.format)
    y, rows, floor = normalised_by_norm(op, x, axes, 2, epsilon, format, mean=True)
    if rounded(epsilon, format) <= 0.0:
        vanishing = floor <= 4 * op.accumulation(format).smallest_subnormal
        op.report(DEGENERATE_NORMALISATION, 0, x, rows.mark(vanishing), gives=SPECIALS)
    return y


@operator("LpNormalization", error=CORRECT, hazards=(ACCUMULATION_OVERFLOW,))
def lp_normalization(op: Call, x: Range) -> Range:
    """x / norm(x) along an axis: increasing in the element itself; 0 where the norm is 0. |y| <= 1."""
    if 0 in x.cells:
        return x
    axis = normalised_axis(int(op.attribute("axis", -1)), x.rank)
    y, _, _ = normalised_by_norm(op, x, (axis,), int(op.attribute("p", 2)), 0.0, x.format, mean=False)
    return y


@lp_normalization.meaning
def _(run: Run, x: Tensor) -> Tensor:
    norm = run.torch.linalg.vector_norm(x, run.attribute("p", 2), run.attribute("axis", -1), keepdim=True)
    return x / norm.masked_fill(norm == 0, 1)


# Defaults of attributes are float32 numbers.
_LRN_DEFAULTS = (("alpha", float(np.float32(1e-4))), ("beta", 0.75), ("bias", 1.0))


@operator(
    "LRN",
    error=CORRECT,
    overflow=ARITHMETIC_OVERFLOW,
    hazards=STATISTICS,
)
def lrn(op: Call, x: Range) -> Range:
    """x / (bias + alpha / size * sum of squares of the neighbouring channels)^beta: rises, then falls in |x|."""
    if 0 in x.cells:
        return x
    size = int(op.attribute("size"))
    alpha, beta, bias = (op.attribute(name, value) for name, value in _LRN_DEFAULTS)
    cells = x.refine_fully(1)
    empty = cells.low > cells.high
    low, high = np.where(empty, 0.0, cells.low), np.where(empty, 0.0, cells.high)
    near, far = _powers(low, high, 2)
    few, many = _window(near, size), _window(far, size)
    step = alpha / size
    if step < 0:
        few, many = many, few
    format = x.format
    u, eta = format.unit_roundoff, least(op, format)
    terms = min(size, x.sizes[1])
    # The least value of the base of the power: bias + step * (own square + others).
    base = bias + step * np.where(step < 0, far, near) + step * few
    largest = abs(bias) + abs(step) * (far + np.maximum(few, many))
    blur = (terms + 8) * u * largest + (terms * abs(step) + 2) * eta + abs(rounded(bias, format) - bias)
    # Runtimes slide the window: they add the next square and subtract the last one, over all channels.
    everything = far.sum(axis=1, keepdims=True)
    blur = blur + 2 * (x.sizes[1] + size) * u * abs(step) * everything
    # The quotient of two attributes may be a float32 number whatever the tensor's format.
    blur = blur + (abs(rounded(step, format) - step) + 2.0**-24 * abs(step)) * (far + np.maximum(few, many))
    unsafe = base - blur <= 0
    op.report(DEGENERATE_NORMALISATION, 0, cells, unsafe, gives=UNDEFINED)
    overflow = np.broadcast_to(~(everything <= op.accumulation(format).high * (1 - 2.0**-6)), cells.cells)
    op.report(ACCUMULATION_OVERFLOW, 0, cells, overflow, gives=NAN)

    def quotient(t: Array, others: Array) -> Array:
        return t / np.maximum(bias + step * (t**2 + others), format.smallest_subnormal) ** beta

    def extreme(sign: float, toward: Array, away: Array) -> Array:
        """The largest value of sign * y: the far end in that direction, or the turning point before it."""
        t = sign * toward
        others = np.where(t > 0, few, many) if beta >= 0 else np.where(t > 0, many, few)
        # d/dt vanishes where bias + step * others = step * (2 beta - 1) * t^2.
        slope = step * (2.0 * beta - 1.0)
        turn = np.sqrt(np.maximum((bias + step * others) / slope, 0.0)) if slope != 0 else np.full_like(t, np.inf)
        best = np.maximum(sign * quotient(toward, others), sign * quotient(away, np.where(sign * away > 0, few, many)))
        inside = (sign * away < turn) & (turn < t)
        best = np.where(inside, np.maximum(best, quotient(turn, others)), best)
        crossing = (sign * away < 0) & (t < 0) & (sign * away < -turn) & (-turn < t)
        return np.where(crossing, np.maximum(best, -quotient(turn, others)), best)

    upper, lower = extreme(1.0, high, low), -extreme(-1.0, low, high)
    relative = np.where(unsafe, np.inf, abs(beta) * np.log1p(blur / (base - blur)) + 20 * u)
    factor = np.exp(relative * 1.01)
    lower = np.where(lower < 0, lower * factor, lower / factor)
    upper = np.where(upper > 0, upper * factor, upper / factor)
    # Divided by almost nothing; by infinity, where the base overflows.
    faintest = format.smallest_subnormal ** -abs(beta) * np.maximum(np.abs(low), np.abs(high))
    lower, upper = np.where(unsafe, -faintest, lower), np.where(unsafe, faintest, upper)
    lower, upper = np.where(overflow, np.minimum(lower, 0.0), lower), np.where(overflow, np.maximum(upper, 0.0), upper)
    special = _near_special(cells, size) if x.has_special else None
    if special is not None:
        lower, upper = np.where(special != 0, np.minimum(lower, 0), lower), np.where(special != 0, np.maximum(upper, 0), upper)
    return cells.replace(lower, upper, special)


@lrn.meaning
def _(run: Run, x: Tensor) -> Tensor:
    size = int(run.attribute("size"))
    alpha, beta, bias = (run.attribute(name, value) for name, value in _LRN_DEFAULTS)
    beyond = [0, 0] * (x.ndim - 2) + [(size - 1) // 2, size // 2]
    squares = run.torch.nn.functional.pad(x.square(), beyond).unfold(1, size, 1).sum(-1)
    return x / (bias + alpha / size * squares) ** beta


def _window(values: Array, size: int) -> Array:
    """Sums over the neighbouring channels, the channel itself left out (ONNX LRN-13: (size - 1) / 2 before, the rest after)."""
    channels = values.shape[1]
    result = np.zeros_like(values)
    for offset in range(-((size - 1) // 2), size // 2 + 1):
        if offset and abs(offset) < channels:
            here = slice(max(0, -offset), channels - max(0, offset))
            there = slice(max(0, offset), channels - max(0, -offset))
            result[:, here] += values[:, there]
    return result


def _near_special(x: Range, size: int) -> npt.NDArray[np.uint8]:
    found = (x.special != 0).astype(np.float64)
    return np.where(_window(found, size) + found > 0, np.uint8(NAN), np.uint8(0))
