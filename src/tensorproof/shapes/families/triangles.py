"""Diagonals and triangles of matrices."""

from __future__ import annotations

from tensorproof.rules.shapes.wrong_rank import WRONG_RANK
from tensorproof.shapes.families.broadcasting import framework_of_result
from tensorproof.shapes.families.names import spelled
from tensorproof.shapes.families.number_types import dtype_name
from tensorproof.shapes.families.pointwise import elementwise
from tensorproof.shapes.rule_table import Call, Mismatch, shape_rule
from tensorproof.shapes.shape import Shape
from tensorproof.shapes.sizes import Size, smallest, unknown
from tensorproof.shapes.values import Tensor, Value


def triangle(call: Call, tensor: Tensor) -> Tensor:
    """The same matrices with zeros on one side of a diagonal."""
    if tensor.shape.rank in (0, 1):
        raise Mismatch(WRONG_RANK, f"a triangle is that of a matrix, not of {tensor.shape}", tensors=(tensor,))
    return elementwise(call, tensor).with_shape(tensor.shape, new_axes=tensor.new_axes)


@shape_rule(*spelled("torch torch.Tensor", "tril triu"))
def torch_triangle(call: Call, input: Tensor, diagonal: Value = 0, *, out: Value = None) -> Tensor:
    """A triangle of each matrix."""
    return triangle(call, input)


@shape_rule(*spelled("numpy jax.numpy", "tril triu"))
def numpy_triangle(call: Call, m: Tensor, k: Value = 0) -> Tensor:
    """A triangle of each matrix; NumPy stacks a vector to a square first."""
    if call.framework == "numpy" and m.shape.rank == 1:
        return m.with_shape(Shape((m.shape[0], m.shape[0])), framework=framework_of_result(call, m))
    return triangle(call, m)


@shape_rule(*spelled("keras.ops", "tril triu"))
def keras_triangle(call: Call, x: Tensor, k: Value = 0) -> Tensor:
    """A triangle of each matrix."""
    return triangle(call, x)


@shape_rule("tf.linalg.band_part", "tf.matrix_band_part")
def tf_band_part(call: Call, input: Tensor, num_lower: Value, num_upper: Value, name: Value = None) -> Tensor:
    """The diagonals around the main one."""
    return triangle(call, input)


@shape_rule(*spelled("numpy jax.numpy keras.ops", "tri"))
def tri(call: Call, N: Size, M: Size | None = None, k: Value = 0, dtype: Value = None) -> Tensor:
    """A matrix with ones below a diagonal."""
    return Tensor(
        Shape((N, N if M is None else M)), dtype_name(dtype, "f64" if call.framework == "numpy" else "f32"), call.framework
    )


@shape_rule(*spelled("torch", "tril_indices triu_indices"))
def torch_triangle_indices(row: Value, col: Value, offset: Value = 0, **options: Value) -> Tensor:
    """Rows and columns of the elements of a triangle."""
    return Tensor(Shape((2, unknown(0))), "i64", "torch")


@shape_rule(*spelled("numpy jax.numpy", "tril_indices triu_indices"))
def numpy_triangle_indices(call: Call, n: Value, k: Value = 0, m: Value = None) -> Value:
    """Rows and columns of the elements of a triangle."""
    vector = Tensor(Shape((unknown(0),)), "i64", call.framework)
    return (vector, vector)


def diagonal_of(call: Call, tensor: Tensor, offset: Value) -> Tensor:
    """A vector becomes a matrix with it as diagonal; of a matrix the diagonal is taken."""
    shape = tensor.shape
    framework = framework_of_result(call, tensor)
    if shape.rank is None:
        return tensor.with_shape(Shape((), ()), framework=framework)
    if shape.rank not in (1, 2):
        raise Mismatch(WRONG_RANK, f"diag takes a vector or a matrix, not {shape}", tensors=(tensor,))
    if shape.rank == 1:
        side = shape.dims[0] + abs(offset) if isinstance(offset, int) else unknown()
        return tensor.with_shape(Shape((side, side)), framework=framework)
    return tensor.with_shape(Shape((_diagonal_length(shape.dims[0], shape.dims[1], offset),)), framework=framework)


def _diagonal_length(rows: Size, columns: Size, offset: Value) -> Size:
    if offset == 0:
        return smallest([rows, columns])
    if isinstance(rows, int) and isinstance(columns, int) and isinstance(offset, int):
        return max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    return unknown(0)


@shape_rule(*spelled("torch torch.Tensor", "diag"))
def torch_diag(call: Call, input: Tensor, diagonal: Value = 0, *, out: Value = None) -> Tensor:
    """A diagonal of a matrix, or a matrix of a diagonal."""
    return diagonal_of(call, input, diagonal)


@shape_rule(*spelled("numpy jax.numpy keras.ops", "diag"))
def numpy_diag(call: Call, v: Tensor, k: Value = 0) -> Tensor:
    """A diagonal of a matrix, or a matrix of a diagonal."""
    return diagonal_of(call, v, k)


@shape_rule("tf.linalg.diag", "tf.matrix_diag")
def tf_diag(call: Call, diagonal: Tensor, name: Value = None) -> Tensor:
    """A matrix for each vector in the last axis."""
    if diagonal.shape.rank == 0:
        raise Mismatch(WRONG_RANK, "a diagonal is a vector, not a scalar", tensors=(diagonal,))
    size = diagonal.shape[-1]
    return diagonal.with_shape(diagonal.shape.without_last(1).extended(size, size))


@shape_rule("tf.linalg.diag_part", "tf.matrix_diag_part")
def tf_diag_part(call: Call, input: Tensor, name: Value = None) -> Tensor:
    """The diagonal of each matrix in the last two axes."""
    if input.shape.rank in (0, 1):
        raise Mismatch(WRONG_RANK, f"a diagonal is that of a matrix, not of {input.shape}", tensors=(input,))
    return input.with_shape(input.shape.without_last(2).extended(smallest(input.shape.last(2))))
