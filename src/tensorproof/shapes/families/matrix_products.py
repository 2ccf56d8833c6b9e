"""Matrix products: the last axis of the left operand meets the last but one of the right."""

from __future__ import annotations

from tensorproof.rules.shapes.matmul_mismatch import MATMUL_MISMATCH
from tensorproof.shapes.families.broadcasting import broadcast_dims, wider
from tensorproof.shapes.rule_table import Call, Mismatch, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, Shape
from tensorproof.shapes.sizes import Size, same
from tensorproof.shapes.values import Tensor, Value


def product(left: Tensor, right: Tensor) -> Tensor:
    """`left @ right` by the rules of NumPy: vectors gain an axis and lose it again, leading axes are broadcast."""
    a, b = left.shape, right.shape
    if a.rank == 0 or b.rank == 0:
        raise Mismatch(MATMUL_MISMATCH, f"a matrix product of {a} and {b}: a scalar has no axes to multiply", tensors=(left, right))
    dtype = wider(left.dtype, right.dtype)
    if (a.rank is None and a.least_rank == 0) or (b.rank is None and b.least_rank == 0):
        return left.with_shape(_with_unknown(a, b), dtype=dtype)
    inner_left, inner_right = a[-1], b[0] if b.rank == 1 else b[-2]
    if same(inner_left, inner_right) is False:
        raise Mismatch(MATMUL_MISMATCH, _message(a, b, inner_left, inner_right), tensors=(left, right))
    rows = a.without_last(1)
    if b.rank == 1:
        return left.with_shape(rows, dtype=dtype)
    if a.rank == 1:
        return left.with_shape(b.without_last(2).extended(b[-1]), dtype=dtype)
    batch = broadcast_dims(a.without_last(2), b.without_last(2))
    if batch is None:
        message = f"a matrix product of {a} and {b}: the axes before the matrices cannot be broadcast together"
        raise Mismatch(MATMUL_MISMATCH, message, tensors=(left, right))
    return left.with_shape(batch.extended(a[-2], b[-1]), dtype=dtype)


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


@shape_rule(
    "torch.mm", "torch.Tensor.mm", "torch.bmm", "torch.Tensor.bmm", "torch.mv", "torch.Tensor.mv", "torch.dot", "torch.Tensor.dot"
)
def torch_fixed_rank(call: Call, input: Tensor, mat2: Tensor, *, out: Value = None) -> Tensor:
    """Products whose operands have a fixed rank, and are not broadcast."""
    wanted = {"mm": (2, 2), "bmm": (3, 3), "mv": (2, 1), "dot": (1, 1)}[call.name.rpartition(".")[2]]
    ranks = (input.shape.rank, mat2.shape.rank)
    if any(rank is not None and rank != needed for rank, needed in zip(ranks, wanted, strict=True)):
        name = call.name.rpartition(".")[2]
        message = f"{name} takes operands of {wanted[0]} and {wanted[1]} axes, not {input.shape} and {mat2.shape}"
        raise Mismatch(MATMUL_MISMATCH, message, tensors=(input, mat2))
    if wanted == (3, 3) and None not in ranks and same(input.shape[0], mat2.shape[0]) is False:
        message = f"bmm of {input.shape} and {mat2.shape}: batches of {input.shape[0]} and {mat2.shape[0]} matrices"
        raise Mismatch(MATMUL_MISMATCH, message, tensors=(input, mat2))
    return product(input, mat2)
