"""Distances, covariances and sliding products of whole vectors."""

from __future__ import annotations

from tensorproof.rules.shapes.matmul_mismatch import MATMUL_MISMATCH
from tensorproof.rules.shapes.wrong_rank import WRONG_RANK
from tensorproof.shapes.families.broadcasting import broadcast_dims, wider
from tensorproof.shapes.families.names import short_name, spelled
from tensorproof.shapes.rule_table import Call, Mismatch, NotKnown, shape_rule
from tensorproof.shapes.shape import SCALAR, Shape
from tensorproof.shapes.sizes import Size, bounds, largest, same, smallest
from tensorproof.shapes.values import Tensor, Value, as_size


@shape_rule("torch.cdist")
def cdist(x1: Tensor, x2: Tensor, p: Value = 2.0, compute_mode: Value = None) -> Tensor:
    """Distances of every row to every row."""
    a, b = x1.shape, x2.shape
    if any(shape.rank is not None and shape.rank < 2 for shape in (a, b)):
        raise Mismatch(WRONG_RANK, f"cdist takes rows of vectors, not {a} and {b}", tensors=(x1, x2))
    if same(a[-1], b[-1]) is False:
        message = f"cdist of {a} and {b}: vectors of {a[-1]} elements meet vectors of {b[-1]}"
        raise Mismatch(MATMUL_MISMATCH, message, tensors=(x1, x2))
    front = broadcast_dims(a.without_last(2), b.without_last(2))
    if front is None:
        message = f"cdist of {a} and {b}: the axes before the rows cannot be broadcast together"
        raise Mismatch(MATMUL_MISMATCH, message, tensors=(x1, x2))
    return x1.with_shape(front.extended(a[-2], b[-2]))


@shape_rule("scipy.spatial.distance.cdist")
def scipy_cdist(XA: Tensor, XB: Tensor, metric: Value = "euclidean", **options: Value) -> Tensor:
    """The same for two matrices."""
    a, b = XA.shape, XB.shape
    if any(shape.rank not in (None, 2) for shape in (a, b)):
        raise Mismatch(WRONG_RANK, f"cdist takes two matrices, not {a} and {b}", tensors=(XA, XB))
    if same(a[-1], b[-1]) is False:
        message = f"cdist of {a} and {b}: vectors of {a[-1]} elements meet vectors of {b[-1]}"
        raise Mismatch(MATMUL_MISMATCH, message, tensors=(XA, XB))
    return XA.with_shape(Shape((a[0], b[0])) if a.rank == b.rank == 2 else Shape((), ()))


@shape_rule("torch.cov", "torch.corrcoef", "torch.Tensor.cov", "torch.Tensor.corrcoef")
def torch_cov(call: Call, input: Tensor, **options: Value) -> Tensor:
    """One row per variable."""
    if input.shape.rank is not None and input.shape.rank > 2:
        raise Mismatch(WRONG_RANK, f"{short_name(call.name)} takes at most 2 axes, not {input.shape}", tensors=(input,))
    if input.shape.rank != 2:
        return input.with_shape(SCALAR if input.shape.rank is not None else Shape((), ()))
    return input.with_shape(Shape((input.shape[0], input.shape[0])))


@shape_rule(*spelled("numpy jax.numpy", "cov corrcoef"))
def cov(call: Call, m: Tensor, y: Value = None, rowvar: bool = True, **options: Value) -> Tensor:
    """One row per variable: a row of the input, or a column."""
    if y is not None or m.shape.rank is None:
        raise NotKnown
    if m.shape.rank > 2:
        raise Mismatch(WRONG_RANK, f"{short_name(call.name)} takes at most 2 axes, not {m.shape}", tensors=(m,))
    if m.shape.rank < 2:
        return m.with_shape(SCALAR)
    rows, columns = m.shape.dims
    if not rowvar and rows == 1:
        raise NotKnown
    variables: Size = rows if rowvar else columns
    return m.with_shape(SCALAR if variables == 1 else Shape((variables, variables)))


@shape_rule(*spelled("numpy jax.numpy", "convolve correlate"))
def convolve(call: Call, a: Tensor, v: Tensor, mode: Value = None, **options: Value) -> Tensor:
    """A vector slides over another."""
    name = short_name(call.name)
    a, v = (t.with_shape(Shape((1,))) if t.shape.rank == 0 and call.framework == "numpy" else t for t in (a, v))
    if any(tensor.shape.rank not in (None, 1) for tensor in (a, v)):
        raise Mismatch(WRONG_RANK, f"{name} takes two vectors, not {a.shape} and {v.shape}", tensors=(a, v))
    if a.shape.rank is None or v.shape.rank is None:
        return a.with_shape(Shape((), ()))
    kind = mode if isinstance(mode, str) else ("full" if name == "convolve" else "valid") if mode is None else ""
    first, second = a.shape[0], v.shape[0]
    dtype = wider(a.dtype, v.dtype)
    if kind == "full":
        return a.with_shape(Shape((first + second - 1,)), dtype=dtype)
    if kind == "same":
        return a.with_shape(Shape((largest([first, second]),)), dtype=dtype)
    if kind == "valid":
        return a.with_shape(Shape((largest([first, second]) - smallest([first, second]) + 1,)), dtype=dtype)
    raise NotKnown


@shape_rule("numpy.polyfit", "jax.numpy.polyfit")
def polyfit(
    x: Tensor, y: Tensor, deg: Value, *arguments: Value, full: Value = False, cov: Value = False, **options: Value
) -> Value:
    """One coefficient per power."""
    degree = as_size(deg)
    if degree is None or full is not False or cov is not False or arguments:
        raise NotKnown
    if x.shape.rank not in (None, 1):
        raise Mismatch(WRONG_RANK, f"polyfit takes a vector of x, not {x.shape}", tensors=(x,))
    if y.shape.rank is None:
        raise NotKnown
    if x.shape.rank == 1 and y.shape.rank in (1, 2) and same(x.shape[0], y.shape[0]) is False:
        message = f"polyfit of {x.shape} and {y.shape}: {x.shape[0]} points meet {y.shape[0]}"
        raise Mismatch(MATMUL_MISMATCH, message, tensors=(x, y))
    if bounds(degree)[0] < 0 or y.shape.rank not in (1, 2):
        raise NotKnown
    return y.with_shape(Shape((degree + 1, *y.shape.dims[1:])))


@shape_rule("numpy.polyval", "jax.numpy.polyval")
def polyval(p: Tensor, x: Tensor, **options: Value) -> Tensor:
    """One number per point."""
    return x.with_shape(x.shape)
