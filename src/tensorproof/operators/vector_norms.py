"""Norms of vectors of any order, and distances: what ONNX has operators for only where the order is 1 or 2."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import BOOL
from tensorproof.frontends.calls import OWN
from tensorproof.graph import ABSENT
from tensorproof.operators.activations import least, rounded
from tensorproof.operators.reductions import NONNEGATIVE, axes_of, fold_of, reduce_l2, reduced
from tensorproof.operators.table import CORRECT, FAITHFUL, Call, operator
from tensorproof.ranges.elementwise import binary, corners, product
from tensorproof.ranges.folds import Fold, normalised_axis
from tensorproof.ranges.range import INFINITIES, NAN, POSITIVE_INFINITY, Range
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW
from tensorproof.rules.degenerate_normalisation import DEGENERATE_NORMALISATION

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall
    from tensorproof.frontends.calls import Handle

#: Relative error of a power as runtimes compute it, in units of the unit roundoff (`FAITHFUL`).
_POWER = 8.0


@operator(
    "VectorNorm",
    domain=OWN,
    error=FAITHFUL,
    overflow=ACCUMULATION_OVERFLOW,
    codomain=NONNEGATIVE,
    hazards=(ACCUMULATION_OVERFLOW,),
    steered_by=(1,),
)
def vector_norm(op: Call, x: Range, axes: Range | None = None) -> Range:
    """(sum |x|^p)^(1/p): increasing in every |x|, whatever the sign of p; the powers overflow before the norm does."""
    fold, p = fold_of(op, x, axes), float(op.attribute("p"))
    low, high = fold.finite()
    near = np.where((low <= 0.0) & (high >= 0.0), 0.0, np.minimum(np.abs(low), np.abs(high)))
    far = np.maximum(np.abs(low), np.abs(high))
    accumulator = op.accumulation(x.format)
    unit = accumulator.unit_roundoff
    held = rounded(p, accumulator)
    # An exponent that is off by a share of itself changes a power by that share of its logarithm.
    longest = math.log(accumulator.high) - math.log(accumulator.smallest_subnormal)
    relative = (fold.terms + _POWER) * (unit + 2.0**-50) + abs(held - p) * longest
    few, many = fold.weighted(near**p), fold.weighted(far**p)
    smaller, larger = (few, many) if p > 0 else (many, few)
    overflow = ~(larger * (1.0 + relative) <= accumulator.high)
    # Powers that underflow are missing from the sum.
    smaller = np.maximum(smaller * (1.0 - relative) - fold.terms * least(op, accumulator), 0.0)
    ends = smaller ** (1.0 / p), (larger * (1.0 + relative)) ** (1.0 / p)
    least_norm, most = ends if p > 0 else (ends[1], ends[0])
    logarithm = np.maximum(*(np.minimum(np.abs(np.log(end)), longest) for end in (smaller, larger)))
    slack = _POWER * x.format.unit_roundoff + logarithm * (unit + abs(held - p)) / abs(p)
    least_norm, most = least_norm * (1.0 - slack), most * (1.0 + slack)
    if p < 0:
        # An infinite sum of negative powers is a norm of zero.
        least_norm = np.where(overflow, 0.0, least_norm)
    elif overflow.any():
        value = fold.result(least_norm, most)
        op.report(ACCUMULATION_OVERFLOW, 0, value, overflow.reshape(value.cells), gives=POSITIVE_INFINITY)
    flags = None
    if x.has_special:
        seen = fold.union(x.special)
        flags = (seen & np.uint8(NAN)) | np.where(seen & INFINITIES, np.uint8(POSITIVE_INFINITY), np.uint8(0))
        if p < 0:
            most = np.where(seen & INFINITIES, x.format.high, most)
    return fold.result(least_norm, most, flags)


@vector_norm.meaning
def _(run: Run, x: Tensor, axes: Tensor | None = None) -> Tensor:
    chosen, keepdims = axes_of(run, x, axes), bool(run.attribute("keepdims", 1))
    return run.torch.linalg.vector_norm(x, run.attribute("p"), dim=chosen, keepdim=keepdims) if chosen else x.abs()


@operator(
    "CosineSimilarity",
    domain=OWN,
    error=CORRECT,
    hazards=(ACCUMULATION_OVERFLOW, DEGENERATE_NORMALISATION),
    coarse="that the vectors have elements in certain ranges decides the sign alone",
)
def cosine_similarity(op: Call, x: Range, y: Range) -> Range:
    """The sum of x / max(|x|, eps) times y / max(|y|, eps): at most 1 in size (Cauchy and Schwarz), and of the products' sign.

    A computed length is at least A (1 - d) - s, A the exact one, with d = (n + 16) u and s = sqrt(n eta) for squares that
    underflow; where it counts, A exceeds eps, so that no direction is longer than 1 + 2 (d + s / eps).
    """
    products = binary(x, y, corners(product), np.multiply, x.format)
    axis = normalised_axis(int(op.attribute("axis", 1)), products.rank)
    fold = Fold(products, (axis,), keepdims=False)
    format, epsilon = x.format, float(op.attribute("epsilon", 1e-8))
    accumulator, held = op.accumulation(format), rounded(epsilon, format)
    lost = (fold.terms + 16) * accumulator.unit_roundoff + 16 * format.unit_roundoff
    vectors = [Fold(v, (axis - products.rank + v.rank,)) for v in (x, y)]
    for operand, vector in enumerate(vectors):
        largest = vector.weighted(np.square(vector.x.magnitude()))
        # What is divided by an infinite length is zero.
        overflow = np.broadcast_to(~(largest * (1.0 + lost) <= accumulator.high), vector.x.cells)
        op.report(ACCUMULATION_OVERFLOW, operand, vector.x, overflow, gives=0)
        if held <= 0.0:
            vanishes = np.broadcast_to(~vector.any(~vector.x.contains(0.0)), vector.x.cells)
            op.report(DEGENERATE_NORMALISATION, operand, vector.x, vanishes, gives=NAN)
    short = math.sqrt(fold.terms * least(op, accumulator)) / held if held > 0.0 else 1.0
    limit = (1.0 + 2.0 * (lost + short)) ** 2 * (1.0 + 2.0 * lost) + fold.terms * least(op, format)
    low, high = fold.finite()
    lowest, highest = np.where(fold.any(low < 0.0), -limit, 0.0), np.where(fold.any(high > 0.0), limit, 0.0)
    special = np.where(fold.union(products.special) != 0, np.uint8(NAN), np.uint8(0)) if products.has_special else None
    return fold.result(lowest, highest, special)


@cosine_similarity.meaning
def _(run: Run, x: Tensor, y: Tensor) -> Tensor:
    axis, epsilon = int(run.attribute("axis", 1)), float(run.attribute("epsilon", 1e-8))
    return run.torch.nn.functional.cosine_similarity(x, y, dim=axis, eps=epsilon)


@cosine_similarity.aten("cosine_similarity")
def _(call: AtenCall) -> int:
    attributes: dict[str, Any] = {"axis": int(call["dim"]), "epsilon": float(call["eps"])}
    return call.own("CosineSimilarity", *call.promoted("x1", "x2"), formats=(call.result.format,), **attributes)


# -- in torch ---------------------------------------------------------------------------------------------------------


@vector_norm.aten("linalg_vector_norm")
def _(call: AtenCall) -> int:
    return norm_of(call, call.tensor("self", call.result.format), float(call["ord"]))


@vector_norm.aten("norm.Scalar", "norm.ScalarOpt_dim", "norm.ScalarOpt_dtype", "norm.ScalarOpt_dim_dtype")
def _(call: AtenCall) -> int:
    return norm_of(call, call.tensor("self", call.result.format), float(call.get("p", 2.0)))


@reduce_l2.aten("frobenius_norm.dim")
def _(call: AtenCall) -> int:
    return reduced(call, "ReduceL2")


def norm_of(call: AtenCall, x: int, order: float, *, dim: Sequence[int] | None = None, keepdim: bool | None = None) -> int:
    """The norm of a value along the axes of a call or those given (`reduced`)."""
    format = call.result.format
    if order in (1.0, 2.0):
        return reduced(call, f"ReduceL{order:.0f}", x, dim=dim, keepdim=keepdim)
    if order == 0.0:
        if format is None:
            raise NotAnalysed("the format of a norm is not known")
        return reduced(call, "ReduceSum", call.cast(call.cast(x, BOOL), format), dim=dim, keepdim=keepdim)
    if math.isinf(order):
        sizes = call.emit("Abs", x, formats=(format,))
        return reduced(call, "ReduceMax" if order > 0 else "ReduceMin", sizes, dim=dim, keepdim=keepdim)
    axes = np.array(call.get("dim", []) if dim is None else dim, np.int64).reshape(-1)
    keepdims = int(call.get("keepdim", False) if keepdim is None else keepdim)
    operand = call.constant(axes) if axes.size else ABSENT
    return call.own("VectorNorm", x, operand, p=order, keepdims=keepdims, formats=(format,))


@vector_norm.aten("dist")
def _(call: AtenCall) -> int:
    difference = call.emit("Sub", *call.promoted("self", "other"), formats=(call.result.format,))
    return norm_of(call, difference, float(call["p"]))


@vector_norm.aten("pairwise_distance")
def _(call: AtenCall) -> int:
    """|x - y + eps| along the last axis."""
    format = call.result.format
    difference = call.emit("Sub", *call.promoted("x1", "x2"), formats=(format,))
    moved = call.emit("Add", difference, call.value(float(call["eps"]), format), formats=(format,))
    return norm_of(call, moved, float(call["p"]), dim=[-1])


@reduce_l2.aten("_weight_norm")
def _(call: AtenCall) -> int:
    """g v / |v|, the norm over all axes but one, or over all of them."""
    format = call.result.format
    v, g, kept = call.tensor("v", format), call.tensor("g", format), int(call["dim"])
    axes = [axis for axis in range(call.rank("v")) if kept == -1 or axis != kept]
    norm = reduced(call, "ReduceL2", v, dim=axes, keepdim=True)
    return call.emit("Mul", v, call.emit("Div", g, norm, formats=(format,)), formats=(format,))


#: Beyond this many rows torch takes distances by way of a matrix product, unless it is told otherwise.
_ROWS = 25


@vector_norm.aten("cdist")
def _(call: AtenCall) -> int:
    """The distances of all rows of one tensor to all rows of another."""
    format, p = call.result.format, float(call["p"])
    first, second = call.handle("x1"), call.handle("x2")
    rows = [(handle.shape or (None, None))[-2] for handle in (first, second)]
    by_product = call.get("compute_mode", 0) == 1 or (
        call.get("compute_mode", 0) == 0 and any(size is None or int(size) > _ROWS for size in rows)
    )
    if p == 2.0 and by_product:
        return _distances_by_product(call, first, second)
    apart = [
        call.moved("Unsqueeze", call.value(handle, format), call.constant(np.array([axis], np.int64)))
        for handle, axis in ((first, -2), (second, -3))
    ]
    return norm_of(call, call.emit("Sub", *apart, formats=(format,)), p, dim=[-1])


def _distances_by_product(call: AtenCall, first: Handle, second: Handle) -> int:
    """sqrt(max(|x|^2 + |y|^2 - 2 x y, 0)), as torch computes distances of many rows."""
    format = call.result.format
    x, y = call.value(first, format), call.value(second, format)
    squares = [reduced(call, "ReduceSumSquare", part, dim=[-1], keepdim=True) for part in (x, y)]
    order = [*range(len(second.shape or ()) - 2), len(second.shape or ()) - 1, len(second.shape or ()) - 2]
    turned = call.moved("Transpose", y, perm=order)
    doubled = call.emit("Mul", x, call.value(-2.0, format), formats=(format,))
    product = call.emit("MatMul", doubled, turned, formats=(format,))
    total = call.emit("Add", squares[0], call.moved("Transpose", squares[1], perm=order), formats=(format,))
    total = call.emit("Add", total, product, formats=(format,))
    positive = call.emit("Clip", total, call.value(0.0, format), formats=(format,))
    return call.emit("Sqrt", positive, formats=(format,))


@vector_norm.aten("pdist")
def _(call: AtenCall) -> int:
    """The distances of all pairs of rows of one tensor."""
    rows = (call.handle("self").shape or (None,))[0]
    if not isinstance(rows, int):
        raise NotAnalysed("the number of rows of pdist is not fixed")
    pairs = np.triu_indices(rows, 1)
    x = call.tensor("self", call.result.format)
    ends = (call.moved("Gather", x, call.constant(index.astype(np.int64)), axis=0) for index in pairs)
    difference = call.emit("Sub", *ends, formats=(call.result.format,))
    return norm_of(call, difference, float(call["p"]), dim=[-1])
