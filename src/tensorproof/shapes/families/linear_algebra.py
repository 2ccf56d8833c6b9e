"""Linear algebra: inverses, decompositions and systems of equations over the last two axes."""

from __future__ import annotations

from dataclasses import dataclass

from tensorproof.rules.shapes.matmul_mismatch import MATMUL_MISMATCH
from tensorproof.rules.shapes.wrong_rank import WRONG_RANK
from tensorproof.shapes.families.broadcasting import broadcast_dims
from tensorproof.shapes.families.names import short_name, spelled
from tensorproof.shapes.rule_table import Call, Mismatch, NotKnown, shape_rule
from tensorproof.shapes.shape import SCALAR, Shape, same_shape
from tensorproof.shapes.sizes import Size, same, smallest, unknown
from tensorproof.shapes.values import Results, Tensor, Value

_MODULES = "numpy.linalg jax.numpy.linalg torch.linalg tf.linalg keras.ops keras.ops.linalg"


@dataclass(frozen=True, slots=True)
class Matrices:
    """A tensor of matrices: the axes before them, rows and columns."""

    front: Shape
    rows: Size
    columns: Size

    @property
    def rank(self) -> Size:
        """The number of singular values."""
        return smallest([self.rows, self.columns])


def matrices(call: Call, tensor: Tensor) -> Matrices:
    """A tensor as matrices; one of fewer axes is refused."""
    shape = tensor.shape
    if shape.rank is not None and shape.rank < 2:
        message = f"{short_name(call.name)} takes matrices, but {shape} has {shape.rank} {'axis' if shape.rank == 1 else 'axes'}"
        raise Mismatch(WRONG_RANK, message, tensors=(tensor,))
    return Matrices(shape.without_last(2), shape[-2], shape[-1])


def square(call: Call, tensor: Tensor) -> Matrices:
    """Matrices with as many rows as columns."""
    found = matrices(call, tensor)
    if same(found.rows, found.columns) is False:
        message = (
            f"{short_name(call.name)} takes square matrices, but {tensor.shape} has {found.rows} rows and {found.columns} columns"
        )
        raise Mismatch(MATMUL_MISMATCH, message, result=tensor, tensors=(tensor,))
    return found


# -- one square matrix ------------------------------------------------------------------------------------------------


@shape_rule(
    *spelled(_MODULES, "inv cholesky"),
    *spelled("torch torch.Tensor", "inverse cholesky matrix_exp"),
    *spelled("tf.linalg", "expm sqrtm"), "tf.matrix_inverse", "tf.cholesky", "torch.linalg.matrix_exp",
    *spelled("jax.scipy.linalg", "inv cholesky expm"), "jax.lax.linalg.cholesky",
)  # fmt: skip
def same_square(call: Call, a: Tensor, *arguments: Value, **options: Value) -> Tensor:
    """Square matrices to square matrices."""
    square(call, a)
    return a.with_shape(a.shape)


@shape_rule(*spelled("numpy.linalg jax.numpy.linalg torch.linalg torch torch.Tensor", "matrix_power"))
def matrix_power(call: Call, a: Tensor, n: Value, *arguments: Value, **options: Value) -> Tensor:
    """Powers of square matrices."""
    square(call, a)
    return a.with_shape(a.shape)


@shape_rule(
    *spelled(_MODULES, "det"), *spelled("torch torch.Tensor", "det logdet"), "tf.linalg.logdet", "tf.matrix_determinant",
    "jax.scipy.linalg.det",
)  # fmt: skip
def determinant(call: Call, a: Tensor, **options: Value) -> Tensor:
    """One number per matrix."""
    return a.with_shape(square(call, a).front)


@shape_rule(*spelled("numpy.linalg jax.numpy.linalg torch.linalg tf.linalg torch torch.Tensor keras.ops", "slogdet"))
def slogdet(call: Call, a: Tensor, **options: Value) -> Value:
    """Sign and logarithm of the determinant."""
    front = a.with_shape(square(call, a).front)
    names = ("log_abs_determinant",) if call.framework == "tf" else ("logabsdet",)
    return Results.of(sign=front, **{names[0]: front})


@shape_rule(*spelled("numpy.linalg jax.numpy.linalg torch.linalg tf.linalg", "eigvals eigvalsh"))
def eigenvalues(call: Call, a: Tensor, *arguments: Value, **options: Value) -> Tensor:
    """One number per row."""
    found = square(call, a)
    return a.with_shape(found.front.extended(found.rows))


@shape_rule(
    *spelled("numpy.linalg jax.numpy.linalg torch.linalg tf.linalg keras.ops keras.ops.linalg", "eig eigh"), "tf.self_adjoint_eig",
)  # fmt: skip
def eigenvectors(call: Call, a: Tensor, *arguments: Value, **options: Value) -> Value:
    """Values, and vectors as columns."""
    found = square(call, a)
    return Results.of(eigenvalues=a.with_shape(found.front.extended(found.rows)), eigenvectors=a.with_shape(a.shape))


# -- one matrix of any form -------------------------------------------------------------------------------------------


def _svd(call: Call, tensor: Tensor, *, full: bool) -> tuple[Tensor, Tensor, Tensor]:
    """U, S and the transpose of V."""
    found = matrices(call, tensor)
    rank = found.rank
    left = tensor.with_shape(found.front.extended(found.rows, found.rows if full else rank))
    right = tensor.with_shape(found.front.extended(found.columns if full else rank, found.columns))
    return left, tensor.with_shape(found.front.extended(rank)), right


@shape_rule("numpy.linalg.svd", "jax.numpy.linalg.svd", "keras.ops.svd", "keras.ops.linalg.svd", "jax.scipy.linalg.svd")
def svd(call: Call, a: Tensor, full_matrices: bool = True, compute_uv: bool = True, **options: Value) -> Value:
    """`u, s, vh`, or only the singular values."""
    left, values, right = _svd(call, a, full=full_matrices)
    return Results.of(U=left, S=values, Vh=right) if compute_uv else values


@shape_rule("torch.linalg.svd")
def torch_svd(call: Call, A: Tensor, full_matrices: bool = True, *, driver: Value = None, out: Value = None) -> Value:
    """`U, S, Vh`."""
    left, values, right = _svd(call, A, full=full_matrices)
    return Results.of(U=left, S=values, Vh=right)


@shape_rule("torch.svd", "torch.Tensor.svd")
def old_torch_svd(call: Call, input: Tensor, some: bool = True, compute_uv: bool = True) -> Value:
    """`U, S, V`: the last one is not transposed."""
    left, values, right = _svd(call, input, full=not some or not compute_uv)
    shape = right.shape
    return Results.of(U=left, S=values, V=right.with_shape(shape.without_last(2).extended(shape[-1], shape[-2])))


@shape_rule("tf.linalg.svd", "tf.svd")
def tf_svd(call: Call, tensor: Tensor, full_matrices: bool = False, compute_uv: bool = True, name: Value = None) -> Value:
    """`s, u, v`: the last one is not transposed."""
    left, values, right = _svd(call, tensor, full=full_matrices)
    shape = right.shape
    return (values, left, right.with_shape(shape.without_last(2).extended(shape[-1], shape[-2]))) if compute_uv else values


@shape_rule("torch.linalg.svdvals", "numpy.linalg.svdvals", "jax.numpy.linalg.svdvals")
def singular_values(call: Call, A: Tensor, **options: Value) -> Tensor:
    """The singular values alone."""
    return _svd(call, A, full=False)[1]


def _qr(call: Call, tensor: Tensor, mode: str) -> Value:
    found = matrices(call, tensor)
    inner = found.rows if mode == "complete" else found.rank
    upper = tensor.with_shape(found.front.extended(inner, found.columns))
    return upper if mode == "r" else Results.of(Q=tensor.with_shape(found.front.extended(found.rows, inner)), R=upper)


@shape_rule("numpy.linalg.qr", "jax.numpy.linalg.qr", "torch.linalg.qr", "keras.ops.qr", "keras.ops.linalg.qr")
def qr(call: Call, a: Tensor, mode: str = "reduced", **options: Value) -> Value:
    """Orthogonal columns and an upper triangle."""
    if mode not in ("reduced", "complete", "r") or (mode == "r" and call.framework == "torch"):
        raise NotKnown
    return _qr(call, a, mode)


@shape_rule("torch.qr", "torch.Tensor.qr")
def old_torch_qr(call: Call, input: Tensor, some: bool = True) -> Value:
    """The same under its old name."""
    return _qr(call, input, "reduced" if some else "complete")


@shape_rule("tf.linalg.qr", "tf.qr")
def tf_qr(call: Call, input: Tensor, full_matrices: bool = False, name: Value = None) -> Value:
    """The same in TensorFlow."""
    return _qr(call, input, "complete" if full_matrices else "reduced")


@shape_rule(*spelled("numpy.linalg jax.numpy.linalg torch.linalg tf.linalg", "pinv"), "torch.pinverse", "torch.Tensor.pinverse")
def pseudo_inverse(call: Call, a: Tensor, *arguments: Value, **options: Value) -> Tensor:
    """Rows and columns exchanged."""
    found = matrices(call, a)
    return a.with_shape(found.front.extended(found.columns, found.rows))


@shape_rule(*spelled("numpy.linalg jax.numpy.linalg", "matrix_rank cond"))
def numpy_matrix_number(call: Call, a: Tensor, *arguments: Value, **options: Value) -> Tensor:
    """One number per matrix; NumPy also takes the rank of a vector."""
    if a.shape.rank is not None and a.shape.rank < 2:
        if short_name(call.name) == "matrix_rank":
            return a.with_shape(SCALAR)
        matrices(call, a)
    return a.with_shape(a.shape.without_last(2))


@shape_rule(*spelled("torch.linalg tf.linalg", "matrix_rank"), "torch.linalg.cond")
def matrix_number(call: Call, A: Tensor, *arguments: Value, **options: Value) -> Tensor:
    """One number per matrix."""
    if short_name(call.name) == "cond" and arguments:
        raise NotKnown
    return A.with_shape(matrices(call, A).front)


# -- systems of equations ---------------------------------------------------------------------------------------------


def _solution(call: Call, left: Tensor, right: Tensor, *, vector: bool) -> Tensor:
    """What a square matrix maps to the right side: one vector or the columns of a matrix, over leading axes that are broadcast."""
    found = square(call, left)
    shape = right.shape
    if shape.rank == 0:
        raise Mismatch(
            MATMUL_MISMATCH, f"{short_name(call.name)} of {left.shape} and {shape}: a scalar has no rows", tensors=(left, right)
        )
    if shape.least_rank == 0:
        raise NotKnown
    if not vector:
        matrices(call, right)
    rows = shape[-1] if vector else shape[-2]
    if same(found.rows, rows) is False:
        message = f"{short_name(call.name)} of {left.shape} and {shape}: {found.rows} equations meet {rows} rows of the right side"
        raise Mismatch(MATMUL_MISMATCH, message, result=right, tensors=(left, right))
    front = broadcast_dims(found.front, shape.without_last(1 if vector else 2))
    if front is None:
        message = f"{short_name(call.name)} of {left.shape} and {shape}: the axes before the matrices cannot be broadcast together"
        raise Mismatch(MATMUL_MISMATCH, message, result=right, tensors=(left, right))
    return right.with_shape(front.extended(found.columns) if vector else front.extended(found.columns, shape[-1]))


@shape_rule("numpy.linalg.solve", "jax.numpy.linalg.solve")
def solve(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """`a x = b`; only a `b` of one axis is a vector."""
    if b.shape.rank is None:
        raise NotKnown
    return _solution(call, a, b, vector=b.shape.rank == 1)


@shape_rule("torch.linalg.solve")
def torch_solve(call: Call, A: Tensor, B: Tensor, *, left: bool = True, out: Value = None) -> Tensor:
    """`B` is a vector if it has one axis, or the shape of `A` without the last."""
    if B.shape.rank is None or A.shape.rank is None or not left:
        raise NotKnown
    is_batch = A.shape.rank >= 2 and same_shape(A.shape.without_last(1), B.shape)
    if is_batch is None:
        raise NotKnown
    return _solution(call, A, B, vector=B.shape.rank == 1 or is_batch)


@shape_rule("keras.ops.solve", "keras.ops.linalg.solve")
def keras_solve(call: Call, a: Tensor, b: Tensor) -> Tensor:
    """`b` is a vector if it has one axis less than `a`."""
    if a.shape.rank is None or b.shape.rank is None:
        raise NotKnown
    if b.shape.rank not in (a.shape.rank, a.shape.rank - 1):
        message = f"solve of {a.shape} and {b.shape}: the right side needs as many axes as the matrices, or one less"
        raise Mismatch(WRONG_RANK, message, tensors=(a, b))
    return _solution(call, a, b, vector=b.shape.rank == a.shape.rank - 1)


@shape_rule("tf.linalg.solve", "tf.matrix_solve", "tf.linalg.triangular_solve", "tf.matrix_triangular_solve")
def tf_solve(call: Call, matrix: Tensor, rhs: Tensor, *arguments: Value, **options: Value) -> Tensor:
    """Matrices only."""
    matrices(call, rhs)
    result = _solution(call, matrix, rhs, vector=False)
    strict = not call.name.endswith("triangular_solve")
    if strict and same_shape(matrix.shape.without_last(2), rhs.shape.without_last(2)) is False:
        message = f"{short_name(call.name)} of {matrix.shape} and {rhs.shape}: the axes before the matrices differ"
        raise Mismatch(MATMUL_MISMATCH, message, result=result, tensors=(matrix, rhs))
    return result


@shape_rule("torch.linalg.solve_triangular")
def solve_triangular(call: Call, A: Tensor, B: Tensor, *, upper: Value, left: bool = True, unitriangular: Value = False) -> Tensor:
    """Matrices only."""
    matrices(call, B)
    if not left:
        raise NotKnown
    return _solution(call, A, B, vector=False)


@shape_rule("torch.cholesky_solve", "torch.Tensor.cholesky_solve")
def cholesky_solve(call: Call, B: Tensor, L: Tensor, upper: Value = False) -> Tensor:
    """The right side comes first."""
    matrices(call, B)
    return _solution(call, L, B, vector=False)


@shape_rule("jax.scipy.linalg.solve", "jax.scipy.linalg.solve_triangular", "scipy.linalg.solve", "scipy.linalg.solve_triangular")
def scipy_solve(call: Call, a: Tensor, b: Tensor, *arguments: Value, **options: Value) -> Tensor:
    """One matrix; a vector or a matrix."""
    if a.shape.rank != 2 or b.shape.rank not in (1, 2) or arguments or options.get("trans"):
        raise NotKnown
    return _solution(call, a, b, vector=b.shape.rank == 1)


@shape_rule("jax.scipy.linalg.cho_factor", "scipy.linalg.cho_factor")
def cho_factor(call: Call, a: Tensor, *arguments: Value, **options: Value) -> Value:
    """The factor, and which triangle it is."""
    square(call, a)
    return (a.with_shape(a.shape), False)


@shape_rule("jax.scipy.linalg.cho_solve", "scipy.linalg.cho_solve")
def cho_solve(call: Call, c_and_lower: Value, b: Tensor, *arguments: Value, **options: Value) -> Tensor:
    """With the factor of a matrix."""
    factor = c_and_lower[0] if isinstance(c_and_lower, tuple) and c_and_lower else None
    if not isinstance(factor, Tensor) or factor.shape.rank != 2 or b.shape.rank not in (1, 2):
        raise NotKnown
    return _solution(call, factor, b, vector=b.shape.rank == 1)


@shape_rule("numpy.linalg.lstsq", "jax.numpy.linalg.lstsq")
def least_squares(call: Call, a: Tensor, b: Tensor, rcond: Value = None, **options: Value) -> Value:
    """`x, residuals, rank, s`."""
    if a.shape.rank is None or b.shape.rank is None:
        raise NotKnown
    if a.shape.rank != 2 or b.shape.rank not in (1, 2):
        message = f"lstsq takes a matrix and a vector or matrix, not {a.shape} and {b.shape}"
        raise Mismatch(WRONG_RANK, message, tensors=(a, b))
    rows, columns = a.shape.dims
    if same(rows, b.shape.dims[0]) is False:
        message = f"lstsq of {a.shape} and {b.shape}: {rows} equations meet {b.shape.dims[0]} rows of the right side"
        raise Mismatch(MATMUL_MISMATCH, message, tensors=(a, b))
    values = a.with_shape(Shape((smallest([rows, columns]),)))
    residuals = a.with_shape(Shape((unknown(0),)))
    return (b.with_shape(Shape((columns, *b.shape.dims[1:]))), residuals, a.with_shape(SCALAR), values)


@shape_rule("torch.linalg.lstsq")
def torch_least_squares(call: Call, A: Tensor, B: Tensor, rcond: Value = None, *, driver: Value = None) -> Value:
    """`solution, residuals, rank, singular_values`."""
    if A.shape.rank != 2 or B.shape.rank != 2:
        raise NotKnown
    rows, columns = A.shape.dims
    if same(rows, B.shape.dims[0]) is False:
        message = f"lstsq of {A.shape} and {B.shape}: {rows} equations meet {B.shape.dims[0]} rows of the right side"
        raise Mismatch(MATMUL_MISMATCH, message, tensors=(A, B))
    open_tensor = A.with_shape(Shape((), ()))
    solution = B.with_shape(Shape((columns, B.shape.dims[1])))
    return Results.of(solution=solution, residuals=open_tensor, rank=open_tensor, singular_values=open_tensor)
