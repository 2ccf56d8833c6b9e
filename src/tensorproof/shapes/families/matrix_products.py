"""Matrix products: the last axis of the left operand meets the last but one of the right."""

from __future__ import annotations

from tensorproof.rules.shapes.matmul_mismatch import MATMUL_MISMATCH
from tensorproof.rules.shapes.not_broadcastable import NOT_BROADCASTABLE
from tensorproof.shapes.families.broadcasting import broadcast_dims, wider
from tensorproof.shapes.families.names import short_name, spelled
from tensorproof.shapes.iteration import iterate
from tensorproof.shapes.rule_table import Call, Mismatch, NotKnown, as_tensor, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, Shape
from tensorproof.shapes.sizes import Size, same
from tensorproof.shapes.sizes import product as multiplied
from tensorproof.shapes.values import Tensor, Value


def product(left: Tensor, right: Tensor) -> Tensor:
    """`left @ right` by the rules of NumPy: vectors gain an axis and lose it again, leading axes are broadcast."""
    a, b = left.shape, right.shape
    if a.rank == 0 or b.rank == 0:
        raise Mismatch(MATMUL_MISMATCH, f"a matrix product of {a} and {b}: a scalar has no axes to multiply", tensors=(left, right))
    dtype = wider(left.dtype, right.dtype)
    if (a.rank is None and a.least_rank == 0) or (b.rank is None and b.least_rank < 2):
        return left.with_shape(_with_unknown(a, b), dtype=dtype)
    inner_left, inner_right = a[-1], b[0] if b.rank == 1 else b[-2]
    if same(inner_left, inner_right) is False:
        raise Mismatch(MATMUL_MISMATCH, _message(a, b, inner_left, inner_right), result=_best(left, right), tensors=(left, right))
    rows = a.without_last(1)
    if b.rank == 1:
        return left.with_shape(rows, dtype=dtype)
    if a.rank == 1:
        return left.with_shape(b.without_last(2).extended(b[-1]), dtype=dtype)
    if a.rank is None and a.least_rank < 2:
        # It may be a vector, which has no rows.
        return left.with_shape(Shape((), (b[-1],)), dtype=dtype)
    batch = broadcast_dims(a.without_last(2), b.without_last(2))
    if batch is None:
        message = f"a matrix product of {a} and {b}: the axes before the matrices cannot be broadcast together"
        raise Mismatch(MATMUL_MISMATCH, message, tensors=(left, right))
    # A stack of matrices on the right of a single one may come out transposed in memory.
    in_order = b.rank == 2 or (a.rank is not None and a.rank > 2)
    return left.with_shape(batch.extended(a[-2], b[-1]), dtype=dtype, contiguous=True if in_order else None)


def _best(left: Tensor, right: Tensor) -> Tensor:
    """What a wrong product is meant to give: rows of the left operand, columns of the right one."""
    a, b = left.shape, right.shape
    if a.rank is None or b.rank != 2:
        return left.with_shape(ANY_SHAPE)
    return left.with_shape(a.without_last(1).extended(b[-1]))


def _with_unknown(left: Shape, right: Shape) -> Shape:
    """One operand is wholly unknown: the columns of a right matrix are still known."""
    return Shape((), (right[-1],)) if right.rank is not None and right.rank >= 2 else ANY_SHAPE


def _message(left: Shape, right: Shape, inner_left: Size, inner_right: Size) -> str:
    text = f"a matrix product of {left} and {right}: {inner_left} columns meet {inner_right} rows"
    if right.rank == 2 and same(inner_left, right[-1]):
        text += "; the right one would fit transposed"
    elif left.rank == 2 and right.rank is not None and same(left[0], inner_right):
        text += "; the left one would fit transposed"
    return text


@shape_rule(
    "torch.matmul", "torch.Tensor.matmul", "torch.__matmul__", "torch.linalg.matmul",
    "numpy.__matmul__", "jax.__matmul__", "keras.__matmul__",
)  # fmt: skip
def torch_matmul(input: Tensor, other: Tensor, *, out: Value = None) -> Tensor:
    """`torch.matmul` and the operator `@`."""
    return product(input, other)


@shape_rule("numpy.matmul", "numpy.linalg.matmul", "jax.numpy.matmul", "jax.numpy.linalg.matmul", "keras.ops.matmul")
def matmul(x1: Tensor, x2: Tensor, **options: Value) -> Tensor:
    """`np.matmul`."""
    return product(x1, x2)


# -- PyTorch ----------------------------------------------------------------------------------------------------------

_RANKS = {
    "mm": (2, 2), "bmm": (3, 3), "mv": (2, 1), "dot": (1, 1), "vdot": (1, 1), "addmm": (2, 2), "baddbmm": (3, 3), "addbmm": (3, 3),
    "addmv": (2, 1), "outer": (1, 1), "ger": (1, 1), "addr": (1, 1),
}  # fmt: skip


def _check_ranks(call: Call, left: Tensor, right: Tensor) -> None:
    """Operands of a product that takes a fixed number of axes."""
    name = short_name(call.name)
    wanted = _RANKS[name]
    ranks = (left.shape.rank, right.shape.rank)
    if any(rank is not None and rank != needed for rank, needed in zip(ranks, wanted, strict=True)):
        message = f"{name} takes operands of {wanted[0]} and {wanted[1]} axes, not {left.shape} and {right.shape}"
        raise Mismatch(MATMUL_MISMATCH, message, tensors=(left, right))
    if wanted == (3, 3) and None not in ranks and same(left.shape[0], right.shape[0]) is False:
        message = f"{name} of {left.shape} and {right.shape}: batches of {left.shape[0]} and {right.shape[0]} matrices"
        raise Mismatch(MATMUL_MISMATCH, message, tensors=(left, right))


@shape_rule(*spelled("torch torch.Tensor", "mm bmm mv dot vdot"))
def torch_fixed_rank(call: Call, input: Tensor, mat2: Tensor, *, out: Value = None) -> Tensor:
    """Products whose operands have a fixed rank, and are not broadcast."""
    _check_ranks(call, input, mat2)
    return product(input, mat2)


def _added(call: Call, input: Tensor, result: Tensor) -> Tensor:
    """A tensor that is stretched to a product and added to it."""
    common = broadcast_dims(input.shape, result.shape)
    grows = common is not None and result.shape.rank is not None and common.rank is not None and common.rank > result.shape.rank
    stretched = common is not None and result.shape.rank is not None and common.rank == result.shape.rank and any(
        same(a, b) is False for a, b in zip(common.dims, result.shape.dims, strict=True)
    )  # fmt: skip
    if common is None or grows or stretched:
        message = f"{input.shape} cannot be stretched to the product {result.shape} that it is added to"
        raise Mismatch(NOT_BROADCASTABLE, message, result=result, tensors=(input, result))
    return result


@shape_rule(*spelled("torch torch.Tensor", "addmm baddbmm addmv"))
def torch_add_product(
    call: Call, input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Value = 1, alpha: Value = 1, out: Value = None
) -> Tensor:
    """A product added to a tensor."""
    _check_ranks(call, mat1, mat2)
    return _added(call, input, product(mat1, mat2))


@shape_rule(*spelled("torch torch.Tensor", "addbmm"))
def torch_addbmm(call: Call, input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Value = 1, alpha: Value = 1) -> Tensor:
    """Products of matrices in a batch, summed up and added."""
    _check_ranks(call, batch1, batch2)
    total = product(batch1, batch2)
    rank = total.shape.rank
    return _added(call, input, total.with_shape(ANY_SHAPE if rank is None else Shape(total.shape.dims[1:])))


@shape_rule(*spelled("torch torch.Tensor", "outer ger"))
def torch_outer(call: Call, input: Tensor, vec2: Tensor, *, out: Value = None) -> Tensor:
    """Every element with every element."""
    _check_ranks(call, input, vec2)
    return _outer(input, vec2)


@shape_rule(*spelled("torch torch.Tensor", "addr"))
def torch_addr(call: Call, input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Value = 1, alpha: Value = 1) -> Tensor:
    """An outer product added to a matrix."""
    _check_ranks(call, vec1, vec2)
    return _added(call, input, _outer(vec1, vec2))


def _outer(left: Tensor, right: Tensor) -> Tensor:
    sizes = [shape.elements for shape in (left.shape, right.shape)]
    if sizes[0] is None or sizes[1] is None:
        raise NotKnown
    return left.with_shape(Shape((sizes[0], sizes[1])), dtype=wider(left.dtype, right.dtype))


@shape_rule("torch.linalg.multi_dot", "torch.chain_matmul", "numpy.linalg.multi_dot", "jax.numpy.linalg.multi_dot")
def multi_dot(call: Call, *matrices: Value, out: Value = None, precision: Value = None) -> Tensor:
    """A chain of matrices; its ends may be vectors."""
    given = iterate(call.run, matrices[0]).items if len(matrices) == 1 else matrices
    if given is None or not given:
        raise NotKnown
    tensors = [as_tensor(matrix, call.framework) for matrix in given]
    if len(tensors) == 2 and call.framework == "numpy":
        return dot(call, tensors[0], tensors[1])
    least = 1 if call.name.endswith("chain_matmul") else 2
    inner = tensors if least == 1 else tensors[1:-1]
    ends = [] if least == 1 else [tensors[0], tensors[-1]]
    wrong = [t for t in inner if t.shape.rank not in (None, 2)] + [t for t in ends if t.shape.rank not in (None, 1, 2)]
    if wrong or len(tensors) < least:
        shown = " and ".join(str(tensor.shape) for tensor in tensors)
        raise Mismatch(MATMUL_MISMATCH, f"a chain of matrices takes two or more of 2 axes each, not {shown}", tensors=tuple(wrong))
    result = tensors[0]
    for tensor in tensors[1:]:
        result = product(result, tensor)
    return result


# -- TensorFlow -------------------------------------------------------------------------------------------------------


def _transposed(tensor: Tensor) -> Tensor:
    """The last two axes exchanged."""
    shape = tensor.shape
    if shape.rank is not None and shape.rank < 2:
        return tensor
    return tensor.with_shape(shape.without_last(2).extended(shape[-1], shape[-2]), contiguous=None)


@shape_rule("tf.matmul", "tf.linalg.matmul", "tf.__matmul__")
def tf_matmul(
    call: Call,
    a: Tensor,
    b: Tensor,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: Value = False,
    b_is_sparse: Value = False,
    output_type: Value = None,
    grad_a: Value = False,
    grad_b: Value = False,
    name: Value = None,
) -> Tensor:
    """`tf.matmul` takes matrices only; TensorFlow 1 also wants as many axes on both sides."""
    ranks = [tensor.shape.rank for tensor in (a, b)]
    if any(rank is not None and rank < 2 for rank in ranks):
        message = f"tf.matmul of {a.shape} and {b.shape}: both operands need at least 2 axes"
        raise Mismatch(MATMUL_MISMATCH, message, tensors=(a, b))
    left = _transposed(a) if transpose_a or adjoint_a else a
    right = _transposed(b) if transpose_b or adjoint_b else b
    if call.runs_on_tf1 and None not in ranks and ranks[0] != ranks[1]:
        message = (
            f"tf.matmul of {a.shape} and {b.shape}: TensorFlow 1 needs the same number of axes on both sides; use tf.tensordot"
        )
        raise Mismatch(MATMUL_MISMATCH, message, result=_best(left, right), tensors=(a, b))
    return product(left, right)


@shape_rule("tf.linalg.matvec")
def tf_matvec(
    a: Tensor,
    b: Tensor,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: Value = False,
    b_is_sparse: Value = False,
    name: Value = None,
) -> Tensor:
    """Matrices times vectors; the axes before them are broadcast."""
    if (a.shape.rank is not None and a.shape.rank < 2) or b.shape.rank == 0:
        message = f"matvec of {a.shape} and {b.shape}: it takes a matrix and a vector"
        raise Mismatch(MATMUL_MISMATCH, message, tensors=(a, b))
    column = b.with_shape(b.shape.extended(1))
    result = product(_transposed(a) if transpose_a or adjoint_a else a, column)
    return result.with_shape(result.shape.without_last(1))


# -- NumPy and its kin ------------------------------------------------------------------------------------------------


def dot(call: Call, left: Tensor, right: Tensor) -> Tensor:
    """`np.dot`: scalars multiply, and the axes of both operands stand side by side."""
    a, b = left.shape, right.shape
    dtype = wider(left.dtype, right.dtype)
    if a.rank == 0 or b.rank == 0:
        return (right if a.rank == 0 else left).with_shape(b if a.rank == 0 else a, dtype=dtype)
    if a.rank is None or b.rank is None:
        open_operands = (a.rank is None and a.least_rank < 2) or (b.rank is None and b.least_rank < 2)
        return left.with_shape(ANY_SHAPE) if open_operands else product(left, right).with_shape(ANY_SHAPE)
    if b.rank <= 2:
        return product(left, right)
    if same(a[-1], b[-2]) is False:
        raise Mismatch(MATMUL_MISMATCH, _message(a, b, a[-1], b[-2]), tensors=(left, right))
    return left.with_shape(Shape((*a.dims[:-1], *b.dims[:-2], b.dims[-1])), dtype=dtype)


@shape_rule("numpy.dot", "numpy.ndarray.dot", "jax.numpy.dot", "jax.Array.dot", "keras.ops.dot", "keras.backend.dot")
def numpy_dot(call: Call, a: Tensor, b: Tensor, out: Value = None, **options: Value) -> Tensor:
    """`np.dot`."""
    return dot(call, a, b)


@shape_rule("jax.lax.dot")
def lax_dot(call: Call, lhs: Tensor, rhs: Tensor, **options: Value) -> Tensor:
    """Vectors and matrices only."""
    if options.get("dimension_numbers") is not None:
        raise NotKnown
    ranks = [tensor.shape.rank for tensor in (lhs, rhs)]
    if any(rank is not None and rank not in (1, 2) for rank in ranks):
        message = f"jax.lax.dot of {lhs.shape} and {rhs.shape}: it takes vectors and matrices"
        raise Mismatch(MATMUL_MISMATCH, message, tensors=(lhs, rhs))
    return dot(call, lhs, rhs)


@shape_rule("jax.lax.batch_matmul")
def lax_batch_matmul(lhs: Tensor, rhs: Tensor, precision: Value = None) -> Tensor:
    """Matrices behind equal leading axes, which are not broadcast."""
    ranks = [tensor.shape.rank for tensor in (lhs, rhs)]
    if None not in ranks:
        small = any(rank is not None and rank < 2 for rank in ranks)
        pairs = zip(lhs.shape.dims[:-2], rhs.shape.dims[:-2], strict=False)
        if small or ranks[0] != ranks[1] or any(same(a, b) is False for a, b in pairs):
            message = f"batch_matmul of {lhs.shape} and {rhs.shape}: all axes before the matrices have to be the same"
            raise Mismatch(MATMUL_MISMATCH, message, tensors=(lhs, rhs))
    return product(lhs, rhs)


@shape_rule("numpy.inner", "jax.numpy.inner", "torch.inner", "torch.Tensor.inner", "keras.ops.inner")
def inner(call: Call, a: Tensor, b: Tensor, **options: Value) -> Tensor:
    """The last axes of both operands meet."""
    left, right = a.shape, b.shape
    dtype = wider(a.dtype, b.dtype)
    if left.rank == 0 or right.rank == 0:
        return (b if left.rank == 0 else a).with_shape(right if left.rank == 0 else left, dtype=dtype)
    if left.least_rank and right.least_rank and same(left[-1], right[-1]) is False:
        message = f"an inner product of {left} and {right}: sizes {left[-1]} and {right[-1]} at the last axis"
        raise Mismatch(MATMUL_MISMATCH, message, tensors=(a, b))
    if left.rank is None or right.rank is None:
        raise NotKnown
    return a.with_shape(Shape((*left.dims[:-1], *right.dims[:-1])), dtype=dtype)


@shape_rule("numpy.outer", "jax.numpy.outer", "keras.ops.outer")
def outer(a: Tensor, b: Tensor, out: Value = None) -> Tensor:
    """Every element with every element; operands are flattened."""
    return _outer(a, b)


@shape_rule("numpy.vdot", "jax.numpy.vdot", "keras.ops.vdot")
def vdot(a: Tensor, b: Tensor, **options: Value) -> Tensor:
    """The inner product of all elements."""
    sizes = [tensor.shape.elements for tensor in (a, b)]
    if sizes[0] is not None and sizes[1] is not None and same(sizes[0], sizes[1]) is False:
        message = f"vdot of {a.shape} and {b.shape}: {sizes[0]} elements meet {sizes[1]}"
        raise Mismatch(MATMUL_MISMATCH, message, tensors=(a, b))
    return a.with_shape(Shape(()), dtype=wider(a.dtype, b.dtype))


@shape_rule("numpy.kron", "jax.numpy.kron", "torch.kron", "torch.Tensor.kron", "keras.ops.kron")
def kron(a: Tensor, b: Tensor, **options: Value) -> Tensor:
    """The Kronecker product: sizes are multiplied."""
    if a.shape.rank is None or b.shape.rank is None:
        raise NotKnown
    rank = max(a.shape.rank, b.shape.rank)
    rows = [(1,) * (rank - len(shape.dims)) + shape.dims for shape in (a.shape, b.shape)]
    sizes = tuple(multiplied(pair) for pair in zip(*rows, strict=True))
    return a.with_shape(Shape(sizes), dtype=wider(a.dtype, b.dtype))
