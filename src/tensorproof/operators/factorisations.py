"""Factors of matrices: Cholesky, LU, QR, singular values and eigenvalues of symmetric matrices.

Factors are bounded by what all of them have in common: rows of orthogonal matrices have length 1, rows of a Cholesky factor the
length of the diagonal's root, multipliers of elimination with pivoting are at most 1. Computed factors belong to a matrix that is
off by a small multiple of n u (Higham, Accuracy and Stability of Numerical Algorithms, theorems 9.3, 10.3 and 19.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import INT32, Array
from tensorproof.frontends.calls import OWN
from tensorproof.operators.table import CORRECT, UNDEFINED, Call, Mask, operator
from tensorproof.ranges.range import CELL_BUDGET, SPECIALS, Range
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW
from tensorproof.rules.sqrt_of_negative import SQRT_OF_NEGATIVE

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.jax_call import JaxCall
    from tensorproof.frontends.tensorflow_call import TensorflowCall

_COARSE = "factors of all matrices between the bounds, and of all matrices of a batch alike"


def matrices(x: Range) -> tuple[Array, Array]:
    """Bounds of every element of a matrix, over all matrices of a batch; zero where a cell has no finite value."""
    if x.shape is None or x.rank < 2:
        raise NotAnalysed("an operand is no matrix")
    rows, columns = x.sizes[-2:]
    if rows * columns > CELL_BUDGET:
        raise NotAnalysed(f"matrices of {rows} by {columns} elements are not analysed")
    hull = x.smash(tuple(range(x.rank - 2))).refine_fully(x.rank - 2).refine_fully(x.rank - 1)
    low, high = hull.low.reshape(rows, columns), hull.high.reshape(rows, columns)
    nothing = low > high
    return np.where(nothing, 0.0, low), np.where(nothing, 0.0, high)


def batch_of(x: Range, low: Array, high: Array) -> Range:
    """A result with the batch of an operand, the same bounds for all of it; special values spread over all of a matrix."""
    assert x.shape is not None
    batch = x.shape[: x.rank - 2]
    one = Range.elements(x.format, low, high)
    shape, grid = (*batch, *low.shape), (*(None,) * len(batch), *one.grid)
    cells = (*(1,) * len(batch), *low.shape)
    result = Range(x.format, shape, grid, low.reshape(cells), high.reshape(cells))
    return result.with_special(SPECIALS) if x.has_special else result


def slack(op: Call, x: Range, steps: float) -> float:
    """1 + a bound of the relative error of so many roundings."""
    return 1.0 + steps * (op.accumulation(x.format).unit_roundoff + x.format.unit_roundoff) + 2.0**-40


def _orthogonal(op: Call, x: Range, rows: int, columns: int) -> Range:
    reach = np.full((rows, columns), slack(op, x, 32.0 * max(x.sizes[-2:])))
    return batch_of(x, -reach, reach)


def _magnitude(low: Array, high: Array) -> Array:
    return np.maximum(np.abs(low), np.abs(high))


# -- Cholesky ---------------------------------------------------------------------------------------------------------


@operator("Cholesky", domain=OWN, error=CORRECT, coarse=_COARSE)
def cholesky(op: Call, x: Range) -> Range:
    """L with L L^T = A: the squares of a row sum to the element of the diagonal; above it, what the operand has, or zero."""
    low, high = matrices(x)
    _square(low)
    root = np.sqrt(np.maximum(np.diagonal(high), 0.0))[:, None] * slack(op, x, 8.0 * len(low)) + x.format.smallest_subnormal
    below = np.tril(np.broadcast_to(root, low.shape))
    above_low, above_high = np.triu(np.minimum(low, 0.0), 1), np.triu(np.maximum(high, 0.0), 1)
    return batch_of(x, np.where(np.eye(len(low)) > 0, 0.0, -below) + above_low, below + above_high)


@cholesky.hazard(SQRT_OF_NEGATIVE, gives=UNDEFINED)
def _(op: Call, x: Range) -> Mask:
    # JAX gives NaN, TensorFlow what the elimination had come to.
    low, high = matrices(x)
    return not _is_positive_definite(op, x, low, high)


@cholesky.meaning
def _(run: Run, x: Tensor) -> Tensor:
    wide = x.to(run.torch.promote_types(x.dtype, run.torch.float32))
    factor, failed = run.torch.linalg.cholesky_ex(wide)
    return run.torch.where((failed > 0)[..., None, None], run.torch.nan, factor).to(x.dtype)


def _square(array: Array) -> None:
    if array.shape[0] != array.shape[1]:
        raise NotAnalysed("a matrix is not square")


def _is_positive_definite(op: Call, x: Range, low: Array, high: Array) -> bool:
    """Whether all symmetric matrices between the bounds, of which the lower triangle counts, are so, rounding included."""
    if not len(low):
        return True
    # Computed without rounding of its own where the least eigenvalue exceeds this (Higham, theorem 10.7).
    unit = op.accumulation(x.format).unit_roundoff + x.format.unit_roundoff
    lost = 8.0 * len(low) ** 2 * unit * float(np.diagonal(high).max())
    low, high = (np.tril(a) + np.tril(a, -1).T for a in (low, high))
    centre, radius = 0.5 * low + 0.5 * high, 0.5 * (high - low)
    off = _magnitude(low, high) - np.diag(np.diagonal(_magnitude(low, high)))
    gershgorin = float((np.diagonal(low) - off.sum(axis=1)).min())
    eigenvalue = float(np.linalg.eigvalsh(centre)[0]) - float(np.abs(radius).sum(axis=1).max())
    return max(gershgorin, eigenvalue) > lost


# -- LU ---------------------------------------------------------------------------------------------------------------


@operator("LuDecomposition", domain=OWN, error=CORRECT, overflow=ARITHMETIC_OVERFLOW, coarse=_COARSE)
def lu_decomposition(op: Call, x: Range) -> tuple[Range, ...]:
    """Multipliers below the diagonal, at most 1; above, elements that at most double in each step; pivots; the permutation."""
    low, high = matrices(x)
    rows, columns = low.shape
    index = np.arange(rows)[:, None]
    largest = _magnitude(low, high).max(axis=0, initial=0.0)[None, :]
    upper = largest * 2.0 ** np.minimum(index, columns) * slack(op, x, 4.0 * rows)
    reach = np.where(index > np.arange(columns)[None, :], slack(op, x, 4.0), upper)
    count = min(rows, columns)
    assert x.shape is not None
    batch = x.shape[: x.rank - 2]
    pivots = Range.uniform((*batch, count), INT32, 0.0, float(max(rows - 1, 0)))
    permutation = Range.uniform((*batch, rows), INT32, 0.0, float(max(rows - 1, 0)))
    return batch_of(x, -reach, reach), pivots, permutation


@lu_decomposition.meaning
def _(run: Run, x: Tensor) -> tuple[Tensor, ...]:
    torch = run.torch
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    packed, pivots, _ = torch.linalg.lu_factor_ex(wide)
    chosen, _, _ = torch.lu_unpack(packed, pivots, unpack_data=False)
    return packed.to(x.dtype), pivots - 1, chosen.argmax(dim=-2).to(torch.int32)


@operator("PivotsToPermutation", domain=OWN, coarse=_COARSE)
def pivots_to_permutation(op: Call, pivots: Range) -> Range:
    """The order of rows after all exchanges, each of which is one of the rows."""
    size = int(op.attribute("size"))
    assert pivots.shape is not None
    return Range.uniform((*pivots.shape[:-1], size), INT32, 0.0, float(max(size - 1, 0)))


@pivots_to_permutation.meaning
def _(run: Run, pivots: Tensor) -> Tensor:
    whole, size = run.whole(pivots), int(run.attribute("size"))
    rows = run.torch.arange(size).expand(*pivots.shape[:-1], size).clone()
    for step in range(pivots.shape[-1]):
        place = whole[..., step : step + 1]
        here, there = rows[..., step : step + 1].clone(), rows.gather(-1, place)
        rows.scatter_(-1, place, here)
        rows[..., step : step + 1] = there
    return rows.to(run.torch.int32)


# -- orthogonal factors -----------------------------------------------------------------------------------------------


@operator("QrDecomposition", domain=OWN, error=CORRECT, overflow=ARITHMETIC_OVERFLOW, coarse=_COARSE)
def qr_decomposition(op: Call, x: Range) -> tuple[Range, Range]:
    """Q with orthogonal columns, and R whose columns are as long as those of the operand."""
    low, high = matrices(x)
    rows, columns = low.shape
    inner = rows if op.attribute("full_matrices", 0) else min(rows, columns)
    lengths = np.sqrt((_magnitude(low, high) ** 2).sum(axis=0)) * slack(op, x, 32.0 * max(rows, columns, 1))
    reach = np.triu(np.broadcast_to(lengths, (inner, columns)))
    return _orthogonal(op, x, rows, inner), batch_of(x, -reach, reach)


@qr_decomposition.meaning
def _(run: Run, x: Tensor) -> tuple[Tensor, Tensor]:
    wide = x.to(run.torch.promote_types(x.dtype, run.torch.float32))
    q, r = run.torch.linalg.qr(wide, "complete" if run.attribute("full_matrices", 0) else "reduced")
    return q.to(x.dtype), r.to(x.dtype)


@operator("SingularValues", domain=OWN, error=CORRECT, overflow=ARITHMETIC_OVERFLOW, coarse=_COARSE)
def singular_values(op: Call, x: Range) -> tuple[Range, ...]:
    """Singular values, the largest first: the k-th is at most |A| / sqrt(k), |A| the root of the sum of squares; then U and V."""
    low, high = matrices(x)
    rows, columns = low.shape
    count = min(rows, columns)
    whole = np.sqrt((_magnitude(low, high) ** 2).sum()) * slack(op, x, 32.0 * max(rows, columns, 1))
    most = (whole / np.sqrt(np.arange(1, count + 1)))[:, None]
    values = batch_of(x, np.zeros_like(most), most)
    values = _without_last(values)
    if op.outputs < 2:
        return (values,)
    full = bool(op.attribute("full_matrices", 0))
    left, right = (rows, columns) if full else (count, count)
    return values, _orthogonal(op, x, rows, left), _orthogonal(op, x, right, columns)


@singular_values.meaning
def _(run: Run, x: Tensor) -> tuple[Tensor, ...]:
    wide = x.to(run.torch.promote_types(x.dtype, run.torch.float32))
    u, values, v = run.torch.linalg.svd(wide, full_matrices=bool(run.attribute("full_matrices", 0)))
    return values.to(x.dtype), u.to(x.dtype), v.to(x.dtype)


@operator("SymmetricEigenvalues", domain=OWN, error=CORRECT, overflow=ARITHMETIC_OVERFLOW, coarse=_COARSE)
def symmetric_eigenvalues(op: Call, x: Range) -> tuple[Range, ...]:
    """Eigenvalues, the smallest first, within Gershgorin's discs of the lower triangle; eigenvectors of length 1."""
    low, high = matrices(x)
    _square(low)
    if not op.attribute("lower", 1):
        low, high = low.T, high.T
    low, high = (np.tril(a) + np.tril(a, -1).T for a in (low, high))
    size = _magnitude(low, high)
    off = size.sum(axis=1) - np.diagonal(size)
    n = len(low)
    reach = float(size.sum(axis=1).max(initial=0.0))
    error = reach * (slack(op, x, 32.0 * max(n, 1)) - 1.0)
    least = float((np.diagonal(low) - off).min(initial=0.0 if not n else np.inf)) - error
    most = float((np.diagonal(high) + off).max(initial=0.0 if not n else -np.inf)) + error
    values = _without_last(batch_of(x, np.full((n, 1), least), np.full((n, 1), most)))
    return (values,) if op.outputs < 2 else (values, _orthogonal(op, x, n, n))


@symmetric_eigenvalues.meaning
def _(run: Run, x: Tensor) -> tuple[Tensor, Tensor]:
    wide = x.to(run.torch.promote_types(x.dtype, run.torch.float32))
    values, vectors = run.torch.linalg.eigh(wide, UPLO="L" if run.attribute("lower", 1) else "U")
    return values.to(x.dtype), vectors.to(x.dtype)


def _without_last(x: Range) -> Range:
    """The same without a last axis of size 1."""
    assert x.shape is not None
    return Range(x.format, x.shape[:-1], x.grid[:-1], x.low[..., 0], x.high[..., 0], x.special[..., 0] if x.has_special else None)


# -- in TensorFlow ----------------------------------------------------------------------------------------------------


def _real(call: TensorflowCall) -> int:
    if call.format().kind == "complex":
        raise NotAnalysed(f"{call.name} of complex numbers")
    return call.operand(0)


@cholesky.tensorflow("Cholesky")
def _(call: TensorflowCall) -> int:
    """Zero above the diagonal, whatever stands there."""
    factor = call.own("Cholesky", _real(call), formats=(call.format(),))
    return call.moved("Trilu", factor, upper=0)


@lu_decomposition.tensorflow("Lu")
def _(call: TensorflowCall) -> tuple[int, int]:
    format, places = call.format(), call.format("output_idx_type")
    packed, _, permutation = call.own("LuDecomposition", _real(call), outputs=3, formats=(format, INT32, INT32))
    return packed, call.cast(permutation, places)


@qr_decomposition.tensorflow("Qr")
def _(call: TensorflowCall) -> tuple[int, ...]:
    full = int(bool(call.attribute("full_matrices", False)))
    return call.own("QrDecomposition", _real(call), full_matrices=full, outputs=2, formats=[call.format()] * 2)


@singular_values.tensorflow("Svd")
def _(call: TensorflowCall) -> tuple[int, ...]:
    """Singular values, U and V; ONNX's V is transposed. Without vectors, the last two are empty."""
    format, full = call.format(), int(bool(call.attribute("full_matrices", False)))
    if not call.attribute("compute_uv", True):
        nothing = call.constant(np.zeros(0), format)
        return call.own("SingularValues", _real(call), outputs=1, formats=(format,)), nothing, nothing
    values, u, v = call.own("SingularValues", _real(call), full_matrices=full, outputs=3, formats=[format] * 3)
    rank = call.rank(0)
    return values, u, call.moved("Transpose", v, perm=[*range(rank - 2), rank - 1, rank - 2])


@symmetric_eigenvalues.tensorflow("SelfAdjointEigV2")
def _(call: TensorflowCall) -> tuple[int, ...]:
    format = call.format()
    if not call.attribute("compute_v", True):
        values = call.own("SymmetricEigenvalues", _real(call), outputs=1, formats=(format,))
        return values, call.constant(np.zeros(0), format)
    return call.own("SymmetricEigenvalues", _real(call), outputs=2, formats=[format] * 2)


@symmetric_eigenvalues.tensorflow("Eig", "CholeskyGrad", "MatrixSquareRoot", "MatrixLogarithm", "MatrixExponential")
def _(call: TensorflowCall) -> int:
    raise NotAnalysed(f"{call.name} is not modelled: nothing is known about its results")


# -- in JAX -----------------------------------------------------------------------------------------------------------


@cholesky.jax("cholesky")
def _(call: JaxCall) -> int:
    return call.own("Cholesky", call.operand(0), formats=(call.result.format,))


@lu_decomposition.jax("lu")
def _(call: JaxCall) -> tuple[int, ...]:
    return call.own("LuDecomposition", call.operand(0), outputs=3, formats=[handle.format for handle in call.results])


@pivots_to_permutation.jax("lu_pivots_to_permutation")
def _(call: JaxCall) -> int:
    return call.own("PivotsToPermutation", call.operand(0), size=int(call["permutation_size"]), formats=(call.result.format,))


@qr_decomposition.jax("qr")
def _(call: JaxCall) -> tuple[int, ...]:
    if call["pivoting"]:
        raise NotAnalysed("factors with exchanged columns are not modelled")
    full = int(bool(call["full_matrices"]))
    return call.own(
        "QrDecomposition", call.operand(0), full_matrices=full, outputs=2, formats=[handle.format for handle in call.results]
    )


@singular_values.jax("svd")
def _(call: JaxCall) -> int | tuple[int, ...]:
    if call["subset_by_index"] is not None:
        raise NotAnalysed("some of the singular values alone are not modelled")
    outputs, full = len(call.results), int(bool(call["full_matrices"]))
    formats = [handle.format for handle in call.results]
    return call.own("SingularValues", call.operand(0), full_matrices=full, outputs=outputs, formats=formats)


@symmetric_eigenvalues.jax("eigh")
def _(call: JaxCall) -> tuple[int, int]:
    """Eigenvectors first."""
    if call["subset_by_index"] is not None:
        raise NotAnalysed("some of the eigenvalues alone are not modelled")
    vectors, values = call.results
    lower = int(bool(call["lower"]))
    found = call.own("SymmetricEigenvalues", call.operand(0), lower=lower, outputs=2, formats=(values.format, vectors.format))
    return found[1], found[0]


_REFUSED: Sequence[str] = (
    "eig",
    "schur",
    "hessenberg",
    "tridiagonal",
    "householder_product",
    "geqrf",
    "geqp3",
    "ormqr",
    "cholesky_update",
    "symmetric_product",
)


@symmetric_eigenvalues.jax(*_REFUSED)
def _(call: JaxCall) -> int:
    raise NotAnalysed(f"{call.name} is not modelled: nothing is known about its results")
