"""Norms, distances and traces: reductions of vectors and matrices."""

from __future__ import annotations

from tensorproof.rules.shapes.wrong_rank import WRONG_RANK
from tensorproof.shapes.families.broadcasting import broadcast
from tensorproof.shapes.families.names import spelled
from tensorproof.shapes.families.reductions import reduced
from tensorproof.shapes.rule_table import Axes, Call, Mismatch, shape_rule
from tensorproof.shapes.values import Tensor, Value


@shape_rule(*spelled("torch torch.Tensor", "norm"))
def torch_norm(
    call: Call, input: Tensor, p: Value = "fro", dim: Axes = None, keepdim: bool = False, out: Value = None, dtype: Value = None
) -> Tensor:
    """Norms over axes, or over all elements."""
    return reduced(call, input, None if dim == () else dim, keepdim)


@shape_rule("torch.linalg.norm", "torch.linalg.vector_norm")
def torch_linalg_norm(
    call: Call, A: Tensor, ord: Value = None, dim: Axes = None, keepdim: bool = False, *, out: Value = None, dtype: Value = None
) -> Tensor:
    """Vector norms, and norms of matrices over two axes."""
    if call.name.endswith(".norm") and isinstance(dim, tuple) and len(dim) > 2:
        raise Mismatch(WRONG_RANK, f"a norm runs over one axis or two, not over {list(dim)}", tensors=(A,))
    return reduced(call, A, dim, keepdim)


@shape_rule(*spelled("torch torch.Tensor", "dist"))
def torch_distance(call: Call, input: Tensor, other: Tensor, p: Value = 2) -> Tensor:
    """The norm of a difference."""
    return reduced(call, broadcast(call, input, other), None)


@shape_rule("torch.cosine_similarity", "torch.nn.functional.cosine_similarity")
def torch_cosine(call: Call, x1: Tensor, x2: Tensor, dim: int = 1, eps: Value = 1e-8) -> Tensor:
    """Cosines over one axis of tensors that are broadcast."""
    return reduced(call, broadcast(call, x1, x2), dim)


@shape_rule("torch.pairwise_distance", "torch.nn.functional.pairwise_distance")
def torch_pairwise(call: Call, x1: Tensor, x2: Tensor, p: Value = 2.0, eps: Value = 1e-6, keepdim: bool = False) -> Tensor:
    """Distances over the last axis of tensors that are broadcast."""
    return reduced(call, broadcast(call, x1, x2), -1, keepdim)


@shape_rule("numpy.linalg.norm", "jax.numpy.linalg.norm")
def numpy_norm(call: Call, x: Tensor, ord: Value = None, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Norms of vectors over one axis, of matrices over two."""
    count = len(axis) if isinstance(axis, tuple) else 1 if axis is not None else 0
    if count > 2 or axis == () or (axis is None and ord is not None and x.shape.rank not in (None, 1, 2)):
        raise Mismatch(WRONG_RANK, f"a norm runs over one axis or two, not over those of {x.shape}", tensors=(x,))
    return reduced(call, x, axis, keepdims)


@shape_rule("tf.norm", "tf.linalg.norm")
def tf_norm(
    call: Call, tensor: Tensor, ord: Value = "euclidean", axis: Axes = None, keepdims: bool = False, name: Value = None
) -> Tensor:
    """Norms of vectors over one axis, of matrices over two."""
    return reduced(call, tensor, axis, keepdims)


@shape_rule("keras.ops.norm")
def keras_norm(call: Call, x: Tensor, ord: Value = None, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Norms of vectors over one axis, of matrices over two."""
    if axis is None and x.shape.rank is not None and x.shape.rank > 2:
        raise Mismatch(WRONG_RANK, f"a norm without axes is that of a vector or a matrix, not of {x.shape}", tensors=(x,))
    return reduced(call, x, axis, keepdims)


@shape_rule(*spelled("torch torch.Tensor", "trace"))
def torch_trace(call: Call, input: Tensor) -> Tensor:
    """The sum of a matrix's diagonal."""
    if input.shape.rank not in (None, 2):
        raise Mismatch(WRONG_RANK, f"a trace is that of a matrix, not of {input.shape}", tensors=(input,))
    return reduced(call, input, None)


@shape_rule(*spelled("numpy numpy.ndarray jax.numpy jax.Array", "trace"))
def numpy_trace(
    call: Call, a: Tensor, offset: Value = 0, axis1: int = 0, axis2: int = 1, dtype: Value = None, out: Value = None
) -> Tensor:
    """The sums of the diagonals of matrices in two axes."""
    if a.shape.rank in (0, 1):
        raise Mismatch(WRONG_RANK, f"a trace needs two axes, but the array is {a.shape}", tensors=(a,))
    return reduced(call, a, (axis1, axis2))


@shape_rule("keras.ops.trace")
def keras_trace(call: Call, x: Tensor, offset: Value = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The sums of the diagonals of matrices in two axes."""
    return numpy_trace(call, x, offset, axis1, axis2)


@shape_rule("tf.linalg.trace")
def tf_trace(call: Call, x: Tensor, name: Value = None) -> Tensor:
    """The sums of the diagonals of matrices in the last two axes."""
    if x.shape.rank in (0, 1):
        raise Mismatch(WRONG_RANK, f"a trace needs two axes, but the tensor is {x.shape}", tensors=(x,))
    return x.with_shape(x.shape.without_last(2))
