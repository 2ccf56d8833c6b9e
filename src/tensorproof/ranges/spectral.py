"""Bounds of the largest singular value of known matrices, rounded up.

A power iteration errs on the low side and proves nothing. Here sigma(W)^2 = sigma(G) <= |G^k|_F^(1/k) for the Gram matrix
G = W W^T (or W^T W, whichever is smaller): the trace of G^2k is the sum of the 2k-th powers of its eigenvalues, the largest of
them included. k = 2^j takes j products of the small matrix with itself.

Products made in floating point err. With u the unit roundoff, each entry of a computed A B differs from the exact one by at
most n u |A| |B| (Jeannerod and Rump, SIAM J. Matrix Anal. Appl. 34, 2013; any order of summation), so that the matrix of the
errors has a Frobenius norm of at most n u |A|_F |B|_F, plus what underflow loses: n smallest normal numbers per entry. Errors
carry over: if |G~ - G|_F <= d then sigma(G) <= sigma(G~) + d, and sigma(G~) is bounded in the same way.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.ranges.weight_cache import cached
from tensorproof.ranges.weights import norm_of

Numbers = npt.NDArray[Any]

#: k is 2 to this: the bound of a random matrix is then about 5 % too large, and at most 23 % for 768 equal singular values.
SQUARINGS = 3
#: Gram matrices that take more multiplications than this are not made: the Frobenius norm has to do.
MOST_WORK = 1 << 34
_ROUNDOFF = 2.0**-24
_SMALLEST = 2.0**-126
#: Beyond the rounding errors of the float64 arithmetic on bounds made here.
_PAD = 1.0 + 2.0**-30


def sigma(matrix: Numbers) -> float:
    """An upper bound of the largest singular value of a matrix of finite floating numbers, remembered with the matrix."""
    if not matrix.size:
        return 0.0
    # A matrix and its transpose have one value; the order of the memory is the one to remember.
    matrix = matrix.T if matrix.strides[0] < matrix.strides[1] else matrix
    return float(cached(matrix, f"sigma {SQUARINGS}", lambda: (np.array([_sigma(matrix)]),))[0][0])


def largest_sigma(stack: Numbers) -> float:
    """The same for each of a stack of matrices: the largest of all."""
    if stack.ndim == 2:
        return sigma(stack)
    # Often all of them are one matrix, repeated for each example of a batch.
    different = [part for part, before in zip(stack, (None, *stack)) if before is None or not np.array_equal(part, before)]
    return max(map(largest_sigma, different), default=0.0)


def _sigma(matrix: Numbers) -> float:
    whole = norm_of(matrix)
    if min(matrix.shape) == 1 or min(matrix.shape) * matrix.size > MOST_WORK or not 1e-300 < whole < 1e300:
        return whole
    # Scaled by a power of two to a Frobenius norm of about 1.
    exponent = -math.frexp(whole)[1]
    lost = math.sqrt(matrix.size) * 2.0**-149
    if matrix.dtype == np.float64 or not -100 < exponent < 100:
        scaled = np.ldexp(matrix.astype(np.float64), exponent).astype(np.float32)
        lost += 1.01 * _ROUNDOFF
    else:
        scaled = matrix.astype(np.float32) * np.float32(2.0**exponent)
    side = scaled if scaled.shape[0] <= scaled.shape[1] else scaled.T
    gram = side @ side.T
    square = _of_square(gram, SQUARINGS) + _product_error(side, _square_norm(side))
    return min(whole, math.ldexp(math.sqrt(square) * _PAD + lost, -exponent))


def _of_square(matrix: npt.NDArray[np.float32], squarings: int) -> float:
    """sigma of a square matrix: at most |A|_F, and the root of sigma(A A^T), which is A's square as far as A is symmetric."""
    square_norm = _square_norm(matrix)
    whole = math.sqrt(square_norm) * _PAD
    if not squarings or not 1e-18 < whole < 1e18:
        return whole
    exponent = -math.frexp(whole)[1]
    scaled = np.ldexp(matrix, exponent)
    size = math.ldexp(square_norm, 2 * exponent) * _PAD
    inner = _of_square(scaled @ scaled.T, squarings - 1) + _product_error(scaled, size)
    return min(whole, math.ldexp(math.sqrt(inner) * _PAD + len(matrix) * 2.0**-149, -exponent))


def _product_error(matrix: npt.NDArray[np.float32], square_norm: float) -> float:
    """The Frobenius norm of the errors of matrix @ matrix.T."""
    rows, length = matrix.shape
    return length * _ROUNDOFF * square_norm * 1.01 + rows * length * _SMALLEST


def _square_norm(matrix: npt.NDArray[np.float32]) -> float:
    """The sum of all squares, rounded up."""
    rows = np.einsum("ij,ij->i", matrix, matrix)
    total = float(rows.sum(dtype=np.float64)) * (1.0 + (matrix.shape[1] + 2) * _ROUNDOFF * 1.01)
    return (total + matrix.size * _SMALLEST) * _PAD
