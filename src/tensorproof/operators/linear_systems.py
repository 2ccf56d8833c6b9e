"""Linear systems and inverses of all matrices between bounds, and logarithms of determinants.

A matrix between bounds is C + D, |D| <= R. With X close to the inverse of C, (C + D)^-1 = (I - F)^-1 X with F = I - X (C + D), and
where the row sums of |F| are below 1, the inverse is off from X by at most (I - |F|)^-1 |F| |X| (Neumaier, Interval Methods for
Systems of Equations, 1990, section 4.1). Otherwise a matrix between the bounds may be singular, which is reported. What elimination
with partial pivoting computes solves a system that is off by at most 3 n u |L| |U| (Higham, Accuracy and Stability of Numerical
Algorithms, theorem 9.4): R is enlarged by that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import Array, Format
from tensorproof.frontends.calls import OWN
from tensorproof.operators.determinant import det
from tensorproof.operators.factorisations import batch_of, matrices
from tensorproof.operators.table import CORRECT, Call, Mask, operator
from tensorproof.ranges.range import SPECIALS, Range
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW
from tensorproof.rules.division_by_zero import DIVISION_BY_ZERO
from tensorproof.rules.log_of_nonpositive import LOG_OF_NONPOSITIVE

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.jax_call import JaxCall
    from tensorproof.frontends.tensorflow_call import TensorflowCall

_COARSE = "all matrices of a batch alike; matrices that may be singular have any solution"
#: Growth of elements is followed up to matrices of this size; 2^(n - 1) is more than any number beyond it.
_LARGEST = 512


@operator("Solve", domain=OWN, error=CORRECT, overflow=ARITHMETIC_OVERFLOW, coarse=_COARSE)
def solve(op: Call, a: Range, b: Range) -> Range:
    """X with A X = B: within the product of B with the bounds of the inverse."""
    low, high = matrices(a)
    low_b, high_b = matrices(b)
    _fits(low, low_b)
    inverse = _inverse(op, a, low, high)
    if inverse is None:
        return _anything(b, low_b.shape)
    return _solved(b, _product(*inverse, low_b, high_b), a)


@solve.hazard(DIVISION_BY_ZERO, gives=SPECIALS)
def _(op: Call, a: Range, b: Range) -> Mask:
    return _inverse(op, a, *matrices(a)) is None


@solve.meaning
def _(run: Run, a: Tensor, b: Tensor) -> Tensor:
    wide = run.torch.promote_types(a.dtype, run.torch.float32)
    return run.torch.linalg.solve_ex(a.to(wide), b.to(wide))[0].to(b.dtype)


@operator("Inverse", domain=OWN, error=CORRECT, overflow=ARITHMETIC_OVERFLOW, coarse=_COARSE)
def inverse(op: Call, a: Range) -> Range:
    """The inverse of all matrices between the bounds."""
    low, high = matrices(a)
    _fits(low, low)
    found = _inverse(op, a, low, high)
    return _anything(a, low.shape) if found is None else _solved(a, found, a)


@inverse.hazard(DIVISION_BY_ZERO, gives=SPECIALS)
def _(op: Call, a: Range) -> Mask:
    return _inverse(op, a, *matrices(a)) is None


@inverse.meaning
def _(run: Run, a: Tensor) -> Tensor:
    wide = run.torch.promote_types(a.dtype, run.torch.float32)
    return run.torch.linalg.inv_ex(a.to(wide))[0].to(a.dtype)


@operator("TriangularSolve", domain=OWN, error=CORRECT, overflow=ARITHMETIC_OVERFLOW, coarse=_COARSE)
def triangular_solve(op: Call, a: Range, b: Range) -> Range:
    """X with T X = B, T one triangle of A (transposed, or with ones on its diagonal, where the node says so), by substitution."""
    low, high = _triangle(op, a)
    low_b, high_b = matrices(b)
    _fits(low, low_b)
    diagonal = np.diagonal(low), np.diagonal(high)
    if bool(((diagonal[0] <= 0) & (diagonal[1] >= 0)).any()):
        return _anything(b, low_b.shape)
    n = len(low)
    # (T + E) X = B with |E| <= (n + 1) u |T| (Higham, theorem 8.5).
    unit = (n + 3.0) * (op.accumulation(a.format).unit_roundoff + a.format.unit_roundoff) + 2.0**-45
    low, high = _widened(low, high, unit)
    x_low, x_high = np.zeros_like(low_b), np.zeros_like(high_b)
    is_upper = bool(np.triu(np.maximum(np.abs(low), np.abs(high)), 1).any())
    for row in reversed(range(n)) if is_upper else range(n):
        others = slice(row + 1, n) if is_upper else slice(0, row)
        part = _product(low[row : row + 1, others], high[row : row + 1, others], x_low[others], x_high[others])
        rest = _widened(low_b[row] - part[1][0], high_b[row] - part[0][0], unit)
        ends = [end / pivot for end in rest for pivot in (low[row, row], high[row, row])]
        x_low[row], x_high[row] = np.minimum.reduce(ends), np.maximum.reduce(ends)
    return _solved(b, (x_low, x_high), a)


@triangular_solve.hazard(DIVISION_BY_ZERO, gives=SPECIALS)
def _(op: Call, a: Range, b: Range) -> Mask:
    low, high = _triangle(op, a)
    return bool(((np.diagonal(low) <= 0) & (np.diagonal(high) >= 0)).any())


@triangular_solve.meaning
def _(run: Run, a: Tensor, b: Tensor) -> Tensor:
    torch = run.torch
    wide = torch.promote_types(a.dtype, torch.float32)
    lower, unit = bool(run.attribute("lower", 1)), bool(run.attribute("unit_diagonal", 0))
    a = a.to(wide).tril() if lower else a.to(wide).triu()
    if run.attribute("transposed", 0):
        a, lower = a.mT, not lower
    return torch.linalg.solve_triangular(a, b.to(wide), upper=not lower, unitriangular=unit).to(b.dtype)


@operator("LogDeterminant", domain=OWN, error=CORRECT, composed_of=(det,), hazards=(LOG_OF_NONPOSITIVE,))
def log_determinant(op: Call, x: Range) -> tuple[Range, Range]:
    """The sign of the determinant and the logarithm of its size, which is summed over the pivots."""
    value: Range = op.apply(det, x)
    empty = value.low > value.high
    low, high = np.where(empty, 1.0, value.low), np.where(empty, 1.0, value.high)
    op.report(LOG_OF_NONPOSITIVE, 0, x, bool(((low <= 0) & (high >= 0)).any()), gives=SPECIALS)
    sign = value.replace(np.sign(low), np.sign(high), value.special if value.has_special else None)
    near = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(np.abs(low), np.abs(high)))
    far = np.maximum(np.abs(low), np.abs(high))
    smallest, n = x.format.smallest_subnormal, x.sizes[-1]
    # Logarithms of pivots are at most as large as that of the smallest number; each, and each sum, is rounded.
    error = 8.0 * n * (n + 1) * x.format.unit_roundoff * abs(np.log(smallest)) + 2.0**-40
    least = n * np.log(smallest)
    logarithm_low = np.where(near > 0, np.log(np.maximum(near, smallest)), least) - error
    logarithm_high = np.log(np.maximum(far, smallest)) + error
    return sign, value.replace(logarithm_low, logarithm_high, value.special if value.has_special else None)


@log_determinant.meaning
def _(run: Run, x: Tensor) -> tuple[Tensor, Tensor]:
    wide = run.torch.promote_types(x.dtype, run.torch.float32)
    sign, value = run.torch.linalg.slogdet(x.to(wide))
    return sign.to(x.dtype), value.to(x.dtype)


# -- bounds -----------------------------------------------------------------------------------------------------------


def _fits(a: Array, b: Array) -> None:
    if a.shape[0] != a.shape[1] or a.shape[1] != b.shape[0]:
        raise NotAnalysed("the matrices of a system do not fit each other")
    if len(a) > _LARGEST:
        raise NotAnalysed(f"systems of {len(a)} equations are not analysed")


def _inverse(op: Call, a: Range, low: Array, high: Array) -> tuple[Array, Array] | None:
    """Bounds of the inverses of all matrices between two, as computed; None where one of them may be singular."""
    n = len(low)
    centre, radius = 0.5 * low + 0.5 * high, 0.5 * (high - low)
    largest = np.maximum(np.abs(low), np.abs(high)).max(initial=0.0)
    unit = op.accumulation(a.format).unit_roundoff + a.format.unit_roundoff
    # |L| <= 1 and |U| <= 2^(n - 1) max |a|.
    radius = radius + 3.0 * n * unit * n * 2.0 ** min(n - 1, 1000) * largest + 2.0**-50 * np.abs(centre)
    try:
        close = np.linalg.inv(centre)
    except np.linalg.LinAlgError:
        return None
    size = np.abs(close)
    with np.errstate(all="ignore"):
        off = size @ radius + np.abs(np.eye(n) - close @ centre) + n * 2.0**-50 * size @ np.abs(centre)
        share = float(off.sum(axis=1).max(initial=0.0))
        if not share < 1.0 or not np.isfinite(size).all():
            return None
        # (I - F)^-1 F X <= |F| |X| / (1 - |F|), by rows: the largest row sum bounds what the series adds.
        farther = off @ size
        error = farther + share / (1.0 - share) * farther.max(axis=0, keepdims=True)
    error = error * (1.0 + 2.0**-40) + size * 2.0**-45
    return close - error, close + error


def _product(low_a: Array, high_a: Array, low_b: Array, high_b: Array) -> tuple[Array, Array]:
    """A product of matrices between bounds."""
    ends = [a[:, :, None] * b[None, :, :] for a in (low_a, high_a) for b in (low_b, high_b)]
    return np.minimum.reduce(ends).sum(axis=1), np.maximum.reduce(ends).sum(axis=1)


def _widened(low: Array, high: Array, unit: float) -> tuple[Array, Array]:
    return low - unit * np.abs(low), high + unit * np.abs(high)


def _triangle(op: Call, a: Range) -> tuple[Array, Array]:
    """Bounds of the triangle of a matrix that counts."""
    low, high = matrices(a)
    part = np.tril if op.attribute("lower", 1) else np.triu
    low, high = part(low), part(high)
    if op.attribute("unit_diagonal", 0):
        ones = np.eye(len(low)) > 0
        low, high = np.where(ones, 1.0, low), np.where(ones, 1.0, high)
    return (low.T, high.T) if op.attribute("transposed", 0) else (low, high)


def _anything(b: Range, shape: tuple[int, ...]) -> Range:
    format: Format = b.format
    return batch_of(b, np.full(shape, format.low), np.full(shape, format.high))


def _solved(b: Range, bounds: tuple[Array, Array], a: Range) -> Range:
    low, high = bounds
    slack = 4.0 * b.format.unit_roundoff
    result = batch_of(b, *_widened(low, high, slack))
    return result.with_special(SPECIALS) if a.has_special and not result.has_special else result


# -- in TensorFlow ----------------------------------------------------------------------------------------------------


def _transposed(call: TensorflowCall, index: int) -> int:
    rank = call.rank(index)
    return call.moved("Transpose", call.operand(index), perm=[*range(rank - 2), rank - 1, rank - 2])


def _real(call: TensorflowCall) -> Format:
    format = call.format()
    if format.kind == "complex":
        raise NotAnalysed(f"{call.name} of complex numbers")
    return format


@inverse.tensorflow("MatrixInverse")
def _(call: TensorflowCall) -> int:
    format = _real(call)
    x = _transposed(call, 0) if call.attribute("adjoint", False) else call.operand(0)
    return call.own("Inverse", x, formats=(format,))


@solve.tensorflow("MatrixSolve")
def _(call: TensorflowCall) -> int:
    format = _real(call)
    a = _transposed(call, 0) if call.attribute("adjoint", False) else call.operand(0)
    return call.own("Solve", a, call.operand(1), formats=(format,))


@triangular_solve.tensorflow("MatrixTriangularSolve")
def _(call: TensorflowCall) -> int:
    format = _real(call)
    _same_batch(call)
    lower, transposed = int(bool(call.attribute("lower", True))), int(bool(call.attribute("adjoint", False)))
    return call.own("TriangularSolve", call.operand(0), call.operand(1), lower=lower, transposed=transposed, formats=(format,))


def _same_batch(call: TensorflowCall) -> None:
    if call.rank(0) != call.rank(1):
        raise NotAnalysed(f"{call.name} of a matrix and a batch is not modelled")


@det.tensorflow("MatrixDeterminant")
def _(call: TensorflowCall) -> int:
    return call.emit("Det", call.operand(0), formats=(_real(call),))


@log_determinant.tensorflow("LogMatrixDeterminant")
def _(call: TensorflowCall) -> tuple[int, ...]:
    return call.own("LogDeterminant", call.operand(0), outputs=2, formats=[_real(call)] * 2)


@solve.tensorflow("MatrixSolveLs", "BandedTriangularSolve", "TridiagonalSolve", "TridiagonalMatMul")
def _(call: TensorflowCall) -> int:
    raise NotAnalysed(f"{call.name} is not modelled: nothing is known about its results")


# -- in JAX -----------------------------------------------------------------------------------------------------------


@triangular_solve.jax("triangular_solve")
def _(call: JaxCall) -> int:
    """T X = B, or (from the right) X T = B, which is T^T X^T = B^T."""
    format, rank = call.result.format, len(call.shape(1))
    turn = [*range(rank - 2), rank - 1, rank - 2]
    lower, transposed, unit = (int(bool(call[name])) for name in ("lower", "transpose_a", "unit_diagonal"))
    b, is_left = call.operand(1), bool(call["left_side"])
    b = b if is_left else call.moved("Transpose", b, perm=turn)
    transposed = transposed if is_left else 1 - transposed
    attributes = {"lower": lower, "transposed": transposed, "unit_diagonal": unit}
    x = call.own("TriangularSolve", call.operand(0), b, formats=(format,), **attributes)
    return x if is_left else call.moved("Transpose", x, perm=turn)


@solve.jax("tridiagonal_solve")
def _(call: JaxCall) -> int:
    raise NotAnalysed(f"{call.name} is not modelled: nothing is known about its results")
