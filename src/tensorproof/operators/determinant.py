"""Determinants of boxes of matrices."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import Array, Format
from tensorproof.operators.table import CORRECT, Call, operator
from tensorproof.ranges.range import CELL_BUDGET, SPECIALS, Range
from tensorproof.ranges.sums import product_growth, report_partial_overflow
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall

#: Matrices up to this size are expanded along their rows.
_EXPANDED = 7


@operator(
    "Det",
    error=CORRECT,
    overflow=ACCUMULATION_OVERFLOW,
    coarse="from 4 x 4 on, minors that share elements are bounded one by one; beyond 7 x 7 by Hadamard's inequality",
)
def det(op: Call, x: Range) -> Range:
    """Linear in every element, so that extremes stand at corners: exact up to 3 x 3 and for known matrices."""
    sizes = x.sizes
    if len(sizes) < 2 or sizes[-1] != sizes[-2]:
        raise NotAnalysed("the operand of a determinant is not a square matrix")
    n, rank = sizes[-1], x.rank
    grid, shape = x.grid[:-2], sizes[:-2]
    if n == 0:
        cells = x.cells[:-2]
        return Range(x.format, shape, grid, np.ones(cells), np.ones(cells))
    others = int(np.prod(x.cells[:-2], dtype=np.int64))
    if others * n * n > CELL_BUDGET and x.array is None:
        x = x.smash(tuple(range(rank - 2)))
    if n * n <= CELL_BUDGET:
        x = x.refine_fully(rank - 2).refine_fully(rank - 1)
    else:
        raise NotAnalysed(f"determinants of matrices of {n} rows are not analysed")
    empty = x.low > x.high
    low, high = np.where(empty, 0.0, x.low), np.where(empty, 0.0, x.high)
    magnitude = np.maximum(np.abs(low), np.abs(high))
    result_low, result_high = _exact_bounds(low, high, n)
    error = _elimination_error(op, magnitude, result_low, result_high, n, x.format)
    result_low, result_high = result_low - error, result_high + error
    flags = None
    if x.has_special:
        special = (x.special != 0).any(axis=(-2, -1))
        flags = np.where(special, np.uint8(SPECIALS), np.uint8(0))
        never_finite = empty.any(axis=(-2, -1))
        result_low = np.where(never_finite, np.inf, result_low)
        result_high = np.where(never_finite, -np.inf, result_high)
    result = Range(x.format, shape, x.grid[:-2], result_low, result_high, flags)
    # No product of elements of different rows, and no sum of them, is larger than this.
    reach = np.maximum(magnitude.sum(axis=-1), 1.0).prod(axis=-1) * 2.0 ** (n - 1)
    report_partial_overflow(op, result, -reach, reach, x.format)
    return result


det.aten("det", "linalg_det")


@det.aten(
    "inverse",
    "linalg_inv",
    "linalg_inv_ex",
    "pinverse",
    "linalg_pinv",
    "linalg_pinv.atol_rtol_float",
    "linalg_solve",
    "linalg_solve_ex",
    "linalg_solve_triangular",
    "triangular_solve",
    "linalg_lstsq",
    "cholesky",
    "linalg_cholesky",
    "linalg_cholesky_ex",
    "cholesky_solve",
    "cholesky_inverse",
    "linalg_lu",
    "linalg_qr",
    "linalg_svd",
    "linalg_svdvals",
    "linalg_eigh",
    "linalg_eigvalsh",
    "linalg_eig",
    "linalg_matrix_exp",
    "logdet",
    "slogdet",
    "linalg_slogdet",
)
def _(call: AtenCall) -> int:
    """Inverses and factorisations have no bounds here; taken apart, they would only fail under a less familiar name."""
    raise NotAnalysed(f"{call.name.partition('.')[0]} is not modelled: nothing is known about inverses and factorisations")


@det.meaning
def _(run: Run, x: Tensor) -> Tensor:
    # Torch factorises numbers of 32 bits and more.
    wide = run.torch.promote_types(x.dtype, run.torch.float32)
    return run.torch.linalg.det(x.to(wide)).to(x.dtype)


def _exact_bounds(low: Array, high: Array, n: int) -> tuple[Array, Array]:
    if bool((low == high).all()):
        value = low[..., 0, 0] if n == 1 else np.linalg.det(low)
        return value, value
    if n <= 3:
        return _corner_bounds(low, high, n)
    bounds = [_centred_bounds(low, high), _hadamard_bounds(low, high)]
    if n <= _EXPANDED:
        bounds.append(_expanded_bounds(low, high, n))
    return np.maximum.reduce([b[0] for b in bounds]), np.minimum.reduce([b[1] for b in bounds])


def _corner_bounds(low: Array, high: Array, n: int) -> tuple[Array, Array]:
    """Up to 3 x 3: for each corner of the first rows, the last row enters linearly through its cofactors."""
    lowest, highest = np.full(low.shape[:-2], np.inf), np.full(low.shape[:-2], -np.inf)
    places = [(i, j) for i in range(n - 1) for j in range(n)]
    for choice in itertools.product((False, True), repeat=len(places)):
        corner = low[..., : n - 1, :].copy()
        for (i, j), upper in zip(places, choice):
            if upper:
                corner[..., i, j] = high[..., i, j]
        cofactors = _cofactors(corner, n)
        up, down = np.maximum(cofactors, 0.0), np.minimum(cofactors, 0.0)
        last_low, last_high = low[..., n - 1, :], high[..., n - 1, :]
        lowest = np.minimum(lowest, (up * last_low + down * last_high).sum(axis=-1))
        highest = np.maximum(highest, (up * last_high + down * last_low).sum(axis=-1))
    return lowest, highest


def _cofactors(rows: Array, n: int) -> Array:
    """The cofactors of the last row of matrices whose other rows are given."""
    if n == 1:
        return np.ones((*rows.shape[:-2], 1))
    if n == 2:
        return np.stack((-rows[..., 0, 1], rows[..., 0, 0]), axis=-1)
    return np.cross(rows[..., 0, :], rows[..., 1, :])


def _expanded_bounds(low: Array, high: Array, n: int) -> tuple[Array, Array]:
    """Laplace's expansion, row by row: the minors of the first rows by the set of their columns."""
    minors: dict[tuple[int, ...], tuple[Array, Array]] = {(j,): (low[..., 0, j], high[..., 0, j]) for j in range(n)}
    for row in range(1, n):
        larger: dict[tuple[int, ...], tuple[Array, Array]] = {}
        for columns in itertools.combinations(range(n), row + 1):
            total_low, total_high = np.zeros(low.shape[:-2]), np.zeros(low.shape[:-2])
            for position, j in enumerate(columns):
                minor_low, minor_high = minors[columns[:position] + columns[position + 1 :]]
                a, b = low[..., row, j], high[..., row, j]
                ends = (a * minor_low, a * minor_high, b * minor_low, b * minor_high)
                term_low, term_high = np.minimum.reduce(ends), np.maximum.reduce(ends)
                if (row + position) % 2:
                    term_low, term_high = -term_high, -term_low
                total_low, total_high = total_low + term_low, total_high + term_high
            larger[columns] = total_low, total_high
        minors = larger
    return minors[tuple(range(n))]


def _centred_bounds(low: Array, high: Array) -> tuple[Array, Array]:
    """|det(C + D) - det(C)| <= prod(|c_i| + |d_i|) - prod |c_i|: linear in each row, Hadamard for each term."""
    centre, radius = 0.5 * low + 0.5 * high, 0.5 * (high - low)
    rows, spread = np.linalg.norm(centre, axis=-1), np.linalg.norm(radius, axis=-1)
    reach = (rows + spread).prod(axis=-1) * (1.0 + 2.0**-40) - rows.prod(axis=-1)
    middle = np.linalg.det(centre)
    return middle - reach, middle + reach


def _hadamard_bounds(low: Array, high: Array) -> tuple[Array, Array]:
    """|det| <= the product of the Euclidean norms of the rows."""
    rows = np.linalg.norm(np.maximum(np.abs(low), np.abs(high)), axis=-1)
    reach = rows.prod(axis=-1) * (1.0 + 2.0**-40)
    return -reach, reach


def _elimination_error(op: Call, magnitude: Array, low: Array, high: Array, n: int, format: Format) -> Array:
    """The error of elimination with partial pivoting, and of the analysis.

    The computed factors belong to a matrix whose rows differ by at most n 2^(n-1) gamma_n max|a| per element (Higham,
    Accuracy and Stability of Numerical Algorithms, theorem 9.3 and section 9.4), which moves the determinant as in
    `_centred_bounds`. NumPy multiplies the pivots as exp(sum(log)), whose relative error grows with the logarithms.
    """
    unit = format.unit_roundoff + 2.0**-52
    largest = magnitude.max(axis=(-2, -1))
    rows = np.linalg.norm(magnitude, axis=-1)
    perturbed = n**1.5 * 2.0 ** (n - 1) * product_growth(n, unit) * largest
    moved = (rows + perturbed[..., None]).prod(axis=-1) - rows.prod(axis=-1)
    logarithms = 4.0 * n * (1.0 + abs(np.log(format.smallest_subnormal)))
    reach = np.maximum(np.abs(low), np.abs(high)) + moved
    lost = n * format.smallest_subnormal * np.maximum(rows, 1.0).prod(axis=-1)
    return moved * (1.0 + 2.0**-20) + logarithms * unit * reach + lost
