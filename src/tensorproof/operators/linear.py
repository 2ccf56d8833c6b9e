"""Matrix products: MatMul, Gemm and ONNX Runtime's fused forms of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tensorproof.errors import NotAnalysed, UnknownShape
from tensorproof.formats import FLOAT32, Array, Format
from tensorproof.graph import ABSENT
from tensorproof.operators.table import CORRECT, NEWEST, Call, find_operator, operator
from tensorproof.ranges.channel_products import summarised_dot
from tensorproof.ranges.folds import onto_grid, product_flags, sum_flags
from tensorproof.ranges.grid import Cuts, Grid, Shape, Size, broadcast_size, counts, largest, smallest, union
from tensorproof.ranges.interval_product import product_of_intervals
from tensorproof.ranges.norm_products import is_worth_a_norm, product_norm, within_reach
from tensorproof.ranges.range import CELL_BUDGET, Flags, Range, align
from tensorproof.ranges.sums import Dot, dot_product, keep_sign, report_partial_overflow, summation_error
from tensorproof.ranges.weights import channels, is_large
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall


@operator("MatMul", error=CORRECT, overflow=ACCUMULATION_OVERFLOW)
def matmul(op: Call, a: Range, b: Range) -> Range:
    """Bilinear: the hulls of the products, summed along the shared axis (one per pair of cells, times its size)."""
    return _affine(op, a, b)


@matmul.sums_over
def _(attributes: dict[str, Any], operand: int, rank: int) -> tuple[int, ...] | None:
    return (max(rank - 2, 0),) if operand else (rank - 1,)


@matmul.meaning
def _(run: Run, a: Tensor, b: Tensor) -> Tensor:
    return matrix_product(run, a, b)


@operator("Gemm", error=CORRECT, overflow=ACCUMULATION_OVERFLOW)
def gemm(op: Call, a: Range, b: Range, c: Range | None = None) -> Range:
    """alpha A B + beta C, where A or B may be transposed: bilinear, then monotone by the signs of alpha and beta."""
    if op.attribute("transA", 0):
        a = _transposed(a, (1, 0))
    if op.attribute("transB", 0):
        b = _transposed(b, (1, 0))
    return _affine(op, a, b, c, op.attribute("alpha", 1.0), op.attribute("beta", 1.0))


@gemm.sums_over
def _(attributes: dict[str, Any], operand: int, rank: int) -> tuple[int, ...] | None:
    if operand > 1 or rank != 2:
        return None
    return (int(bool(attributes.get("transB", 0))),) if operand else (int(not attributes.get("transA", 0)),)


@gemm.meaning
def _(run: Run, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    a, b = a.T if run.attribute("transA", 0) else a, b.T if run.attribute("transB", 0) else b
    result = _times_factor(matrix_product(run, a, b), run.attribute("alpha", 1.0))
    beta = run.attribute("beta", 1.0)
    if c is not None and beta != 0.0:
        result = result + _times_factor(c, beta)
    if run.format(0, a) == "int" and result.dtype.is_floating_point:
        return run.passing(run.torch.trunc(result).to(a.dtype), result)
    return result


matmul.aten("mm", "bmm", "matmul", "linalg_matmul", "mv", "dot", "vdot")


@matmul.aten("linalg_multi_dot", "chain_matmul")
def _(call: AtenCall) -> int:
    """A product of several matrices, from left to right; torch chooses the order that costs least."""
    (name,) = call.arguments
    first, *others = call.tensors(name, call.result.format)
    for other in others:
        first = call.emit("MatMul", first, other, formats=(call.result.format,))
    return first


@gemm.aten("linear")
def _(call: AtenCall) -> int:
    """x W^T + b, along the last axis of x."""
    format = call.result.format
    x, weight, bias = (call.tensor(name, format) for name in ("input", "weight", "bias"))
    if call.rank("weight") == 1:
        return plus(call, call.emit("MatMul", x, weight, formats=(format,)), bias)
    if call.rank("input") == 2:
        return call.emit("Gemm", x, weight, bias, transB=1, formats=(format,))
    turned = call.moved("Transpose", weight, perm=[1, 0])
    return plus(call, call.emit("MatMul", x, turned, formats=(format,)), bias)


@gemm.aten("addmm")
def _(call: AtenCall) -> int:
    format = call.result.format
    operands = (call.tensor(name, format) for name in ("mat1", "mat2", "self"))
    return call.emit("Gemm", *operands, alpha=float(call["alpha"]), beta=float(call["beta"]), formats=(format,))


@gemm.aten("addmv")
def _(call: AtenCall) -> int:
    return _scaled_sum(call, "mat", "vec")


@gemm.aten("baddbmm")
def _(call: AtenCall) -> int:
    return _scaled_sum(call, "batch1", "batch2")


@gemm.aten("addbmm")
def _(call: AtenCall) -> int:
    """The products of a batch, summed, as one product: of the batch's columns side by side and its rows below each other."""
    format = call.result.format
    (batch, rows, inner), columns = call.handle("batch1").shape or (None,) * 3, (call.handle("batch2").shape or (None,))[-1]
    if not all(isinstance(size, int) for size in (batch, rows, inner, columns)):
        raise NotAnalysed("the sizes of addbmm are not fixed")
    a = call.reshaped(call.moved("Transpose", call.tensor("batch1", format), perm=[1, 0, 2]), [rows, -1])
    b = call.reshaped(call.tensor("batch2", format), [-1, columns])
    c = call.tensor("self", format)
    return call.emit("Gemm", a, b, c, alpha=float(call["alpha"]), beta=float(call["beta"]), formats=(format,))


def _scaled_sum(call: AtenCall, first: str, second: str) -> int:
    """beta self + alpha (first @ second); where beta is 0, what self holds does not count."""
    format, alpha, beta = call.result.format, call["alpha"], call["beta"]
    product = call.emit("MatMul", call.tensor(first, format), call.tensor(second, format), formats=(format,))
    product = _scaled_by(call, product, alpha)
    return product if beta == 0 else plus(call, product, _scaled_by(call, call.tensor("self", format), beta))


def _scaled_by(call: AtenCall, x: int, factor: float) -> int:
    return x if factor == 1 else call.emit("Mul", x, call.value(factor, call.result.format), formats=(call.result.format,))


def plus(call: AtenCall, x: int, addend: int) -> int:
    """A value plus another one, if there is one."""
    return x if addend == ABSENT else call.emit("Add", x, addend, formats=(call.result.format,))


@operator("FusedMatMul", domain="com.microsoft", error=CORRECT, overflow=ACCUMULATION_OVERFLOW)
def fused_matmul(op: Call, a: Range, b: Range) -> Range:
    """alpha A B, where either may be transposed in its last two axes or have its first axis moved next to the last."""
    a = _fused_operand(a, op.attribute("transA", 0), op.attribute("transBatchA", 0))
    b = _fused_operand(b, op.attribute("transB", 0), op.attribute("transBatchB", 0))
    return _affine(op, a, b, None, op.attribute("alpha", 1.0))


@fused_matmul.meaning
def _(run: Run, a: Tensor, b: Tensor) -> Tensor:
    a = a.permute(_fused_order(a.ndim, run.attribute("transA", 0), run.attribute("transBatchA", 0)))
    b = b.permute(_fused_order(b.ndim, run.attribute("transB", 0), run.attribute("transBatchB", 0)))
    return _times_factor(matrix_product(run, a, b), run.attribute("alpha", 1.0))


@operator("TransposeMatMul", domain="com.microsoft", error=CORRECT, overflow=ACCUMULATION_OVERFLOW)
def transpose_matmul(op: Call, a: Range, b: Range) -> Range:
    """alpha A B, where either may be transposed: the earlier name of FusedMatMul."""
    return fused_matmul.block(op, a, b)


@transpose_matmul.meaning
def _(run: Run, a: Tensor, b: Tensor) -> Tensor:
    return run.apply("FusedMatMul", a, b, domain="com.microsoft", **run.attributes)


@operator("FusedGemm", domain="com.microsoft", error=CORRECT, overflow=ACCUMULATION_OVERFLOW, composed_of=(gemm,))
def fused_gemm(op: Call, a: Range, b: Range, c: Range | None = None) -> Range:
    """Gemm and then an activation; 16-bit formats stay in float32 between the two (ONNX Runtime)."""
    format = a.format
    if format.is_float and format.bits < 32:
        a, b, c = a.with_format(FLOAT32), b.with_format(FLOAT32), None if c is None else c.with_format(FLOAT32)
    y = op.apply(gemm, a, b, c, **_renamed(op.attributes, _OF_GEMM))
    name = op.attribute("activation", "")
    if not name:
        return y.with_format(format)
    activation = find_operator("", name)
    if activation is None:
        raise NotAnalysed(f"activation {name} is not in the table")
    return op.apply(activation, y, **_renamed(op.attributes, _OF_ACTIVATION)).with_format(format)


@fused_gemm.meaning
def _(run: Run, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    wide = run.torch.promote_types(a.dtype, run.dtype(FLOAT32))
    operands = (None if x is None else x.to(wide) for x in (a, b, c))
    y = run.apply("Gemm", *operands, version=NEWEST, **_renamed(run.attributes, _OF_GEMM))
    name = run.attribute("activation", "")
    if name:
        y = run.apply(name, y, version=NEWEST, **_renamed(run.attributes, _OF_ACTIVATION))
    return y.to(a.dtype)


#: Attributes of FusedGemm, and the names that its parts know them by.
_OF_GEMM = {name: name for name in ("alpha", "beta", "transA", "transB")}
_OF_ACTIVATION = {f"activation_{name}": name for name in ("alpha", "beta", "gamma")}


def _renamed(attributes: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {inner: attributes[outer] for outer, inner in names.items() if outer in attributes}


# -- on tensors ------------------------------------------------------------------------------------------------------


def matrix_product(run: Run, a: Tensor, b: Tensor) -> Tensor:
    """A @ B. In a search one operand of integers may be floating and the other not."""
    common = run.torch.promote_types(a.dtype, b.dtype)
    return run.torch.matmul(a.to(common), b.to(common))


def _times_factor(x: Tensor, factor: float) -> Tensor:
    """A tensor times an attribute; integers stay integers if the factor is whole."""
    if factor == 1.0:
        return x
    return x * (int(factor) if factor % 1.0 == 0.0 else factor)


# -- axes ------------------------------------------------------------------------------------------------------------


def _transposed(x: Range, order: Sequence[int]) -> Range:
    """The same cells with the axes in another order; constants stay constants."""
    if x.rank != len(order):
        raise NotAnalysed(f"an operand has rank {x.rank} instead of {len(order)}")
    if x.array is not None:
        return Range.constant(x.array.transpose(order), x.format)
    assert x.shape is not None
    shape = tuple(x.shape[axis] for axis in order)
    grid = tuple(x.grid[axis] for axis in order)
    special = x.special.transpose(order) if x.has_special else None
    result = Range(x.format, shape, grid, x.low.transpose(order), x.high.transpose(order), special)
    result.norm = None if x.norm is None else x.norm.on(list(order).index(x.norm.axis))
    return result


def _fused_operand(x: Range, transpose: int, batch: int) -> Range:
    """An operand of FusedMatMul with its transpositions done."""
    order = _fused_order(x.rank, transpose, batch)
    return x if order == list(range(x.rank)) else _transposed(x, order)


def _fused_order(rank: int, transpose: int, batch: int) -> list[int]:
    """The order of axes that FusedMatMul multiplies in; that of vectors stays (ONNX Runtime's contrib schema)."""
    order = list(range(rank))
    if rank < 2:
        return order
    if batch:
        order = [*order[1:-1], 0, order[-1]]
    if transpose:
        order[-2], order[-1] = order[-1], order[-2]
    return order


def _with_axis(x: Range, position: int) -> Range:
    """A vector as a matrix: an axis of size 1 in front (0) or behind (1)."""
    if x.array is not None:
        return Range.constant(np.expand_dims(x.array, position), x.format)
    assert x.shape is not None
    shape: list[Size] = list(x.shape)
    grid: list[Cuts] = list(x.grid)
    shape.insert(position, 1)
    grid.insert(position, None)
    low, high = np.expand_dims(x.low, position), np.expand_dims(x.high, position)
    return Range(x.format, tuple(shape), tuple(grid), low, high, np.expand_dims(x.special, position))


# -- the product -----------------------------------------------------------------------------------------------------


class _Product(NamedTuple):
    """A @ B in exact arithmetic, over the grid of the result; `never_finite` marks what uses an infinite operand."""

    shape: Shape
    grid: Grid
    dot: Dot
    special: Flags
    never_finite: Any
    terms: int


def _affine(op: Call, a: Range, b: Range, c: Range | None = None, alpha: float = 1.0, beta: float = 1.0) -> Range:
    """alpha (A @ B) + beta C as computed.

    Runtimes differ in where they multiply by alpha and in whether C is added first or last, so that each rounding may
    concern the whole sum. In 16-bit formats the factors themselves may be rounded first.
    """
    if c is None and alpha == 1.0:
        quick = product_of_intervals(op, a, b)
        if quick is not None:
            return quick
    vectors = a.rank == 1, b.rank == 1
    a, b = _with_axis(a, 0) if vectors[0] else a, _with_axis(b, 1) if vectors[1] else b
    product = _product(op, a, b)
    shape, grid, dot, special, never_finite, terms = product
    if op.abstraction.norms and a.format.is_float and (a.norm or b.norm or is_worth_a_norm(op.abstraction, product.terms)):
        dot = within_reach(dot, a, b, grid)
    format, steps = a.format, 0
    if alpha != 1.0:
        dot, steps = _scaled(dot, _factor(alpha, format)), 2
    if c is not None and beta != 0.0:
        aligned = align(Range(format, shape, grid, dot.low, dot.high, special), c)
        if aligned.shape != shape:
            raise NotAnalysed("C does not broadcast to the shape of the product")
        empty = aligned.lows[1] > aligned.highs[1]
        low_c, high_c = np.where(empty, 0.0, aligned.lows[1]), np.where(empty, 0.0, aligned.highs[1])
        dot = _each(dot, lambda part: onto_grid(part, grid, aligned.grid))
        never_finite = onto_grid(never_finite, grid, aligned.grid) | empty
        dot, steps = _plus(dot, *_times(low_c, high_c, _factor(beta, format))), steps + (1 if beta == 1.0 else 3)
        special = sum_flags(aligned.specials[0] | aligned.specials[1])
        grid = aligned.grid
    amplified = max(1.0, abs(alpha), abs(beta))
    error = summation_error(op, dot.magnitude, terms + steps, format, amplified=amplified)
    if steps:
        # The product itself may be rounded into the tensor's format before the steps that follow it.
        error = error + (steps + 1) * format.unit_roundoff * dot.magnitude
    low, high = keep_sign(dot.low - error, dot.high + error, dot.nonnegative, dot.nonpositive)
    if not format.is_float:
        low, high = (np.trunc(low), np.trunc(high)) if alpha % 1.0 or beta % 1.0 else (np.ceil(low), np.floor(high))
    low, high = np.where(never_finite, np.inf, low), np.where(never_finite, -np.inf, high)
    low, high, below, above = (np.broadcast_to(part, counts(grid)) for part in (low, high, dot.below - error, dot.above + error))
    result = Range(format, shape, grid, low, high, np.broadcast_to(special, counts(grid)))
    report_partial_overflow(op, result, below, above)
    worthwhile = shape[-1] if b.array is not None or a.array is None else shape[-2]
    if op.abstraction.norms and format.is_float and not any(vectors) and is_worth_a_norm(op.abstraction, worthwhile):
        addends = [] if c is None or beta == 0.0 else [c if beta == 1.0 else _multiplied(c, beta)]
        largest_factor = max(map(abs, _factor(alpha, format)))
        result.norm = product_norm(op, result, a, b, largest_factor, addends, error)
    return _without_axes(result, [axis for axis, drop in zip((-2, -1), vectors) if drop])


def _product(op: Call, a: Range, b: Range) -> _Product:
    """The product of matrices, or of stacks of them: contraction cells are those that refine both operands'."""
    if a.rank < 2 or b.rank < 2:
        raise NotAnalysed("an operand of a matrix product is a scalar")
    if op.abstraction.weights == "channel":
        if is_large(b.array) and a.array is None:
            return _summarised(op, a, b)
        if is_large(a.array) and b.array is None:
            mirrored = _summarised(op, _matrices_transposed(b), _matrices_transposed(a))
            return _mirrored(mirrored)
    a, b = _affordable(*_merged_rows(a, b))
    assert a.shape is not None and b.shape is not None
    fewest, most = _shared_size(a.shape[-1], b.shape[-2])
    shared = union(a.grid[-1], b.grid[-2])
    rank = max(a.rank, b.rank)
    batch: list[Size] = [1] * (rank - 2)
    cuts: list[Cuts] = [None] * (rank - 2)
    for x in (a, b):
        for axis, size in enumerate((x.shape or ())[:-2], start=rank - x.rank):
            batch[axis] = broadcast_size(batch[axis], size)
    for x in (a, b):
        for axis, size in enumerate((x.shape or ())[:-2], start=rank - x.rank):
            if size == batch[axis]:
                cuts[axis] = union(cuts[axis], x.grid[axis - rank + x.rank])
    grid = (*cuts, a.grid[-2], b.grid[-1])
    low_a, high_a, special_a = _bounds(a, (*cuts[rank - a.rank :], a.grid[-2], shared))
    low_b, high_b, special_b = _bounds(b, (*cuts[rank - b.rank :], shared, b.grid[-1]))
    # Only cells of special values can hold no finite one.
    never_finite: Any = np.zeros((1,) * rank, np.bool_)
    if a.has_special:
        empty = low_a > high_a
        low_a, high_a = np.where(empty, 0.0, low_a), np.where(empty, 0.0, high_a)
        never_finite = never_finite | empty.any(axis=-1, keepdims=True)
    if b.has_special:
        empty = low_b > high_b
        low_b, high_b = np.where(empty, 0.0, low_b), np.where(empty, 0.0, high_b)
        never_finite = never_finite | empty.any(axis=-2, keepdims=True)
    sizes = np.array([most], np.float64) if shared is None else np.diff(shared).astype(np.float64)
    if (sizes != 1.0).any():
        # Cells larger than one element: neither operand is a constant, unless the shared axis has one cell there.
        low_a, high_a = low_a * sizes, high_a * sizes
    dot = dot_product(op, low_a, high_a, low_b, high_b, a.format)
    if fewest != most:
        low, high = np.minimum(dot.low, dot.low * fewest / most), np.maximum(dot.high, dot.high * fewest / most)
        dot = dot._replace(low=low, high=high)
    used_a: Flags = np.bitwise_or.reduce(special_a, axis=-1, keepdims=True)
    used_b: Flags = np.bitwise_or.reduce(special_b, axis=-2, keepdims=True)
    special = product_flags(used_a | used_b)
    return _Product((*batch, a.shape[-2], b.shape[-1]), grid, dot, special, never_finite & (fewest > 0), most)


def _summarised(op: Call, a: Range, b: Range) -> _Product:
    """A @ B by the sums of B's columns: every element of a row of A is taken for any of them."""
    assert a.shape is not None and b.shape is not None and b.array is not None
    _, terms = _shared_size(a.shape[-1], b.shape[-2])
    rank = max(a.rank, b.rank)
    batch: list[Size] = [1] * (rank - 2)
    for x in (a, b):
        for axis, size in enumerate((x.shape or ())[:-2], start=rank - x.rank):
            batch[axis] = broadcast_size(batch[axis], size)
    columns = b.sizes[-1]
    fixed = channels(b.array, (-2,)).reshaped((*b.sizes[:-2], 1, columns))
    if math.prod(a.cells[:-1]) * columns * max(1, b.size // max(1, terms * columns)) > op.cells:
        # Rows differ little once their elements are hulls of each other; columns have weights of their own.
        a = a.smash(tuple(range(a.rank - 1)))
    a = a.smash((a.rank - 1,))
    cuts: list[Cuts] = [None] * (rank - 2)
    for x in (a, b):
        for axis, size in enumerate((x.shape or ())[:-2], start=rank - x.rank):
            if size == batch[axis]:
                cuts[axis] = union(cuts[axis], x.grid[axis - rank + x.rank])
    grid = (*cuts, a.grid[-2], b.grid[-1])
    cells = (*cuts[rank - a.rank :], a.grid[-2], None)
    low, high, special = (onto_grid(part, a.grid, cells) for part in (a.low, a.high, a.special))
    never_finite = low > high
    if a.has_special:
        low, high = np.where(never_finite, 0.0, low), np.where(never_finite, 0.0, high)
    dot = summarised_dot(b.array, fixed, low, high)
    assert a.shape is not None
    return _Product((*batch, a.shape[-2], columns), grid, dot, product_flags(special), never_finite & (terms > 0), terms)


def _matrices_transposed(x: Range) -> Range:
    """A stack of matrices with each of them transposed."""
    return _transposed(x, (*range(x.rank - 2), x.rank - 1, x.rank - 2))


def _each(dot: Dot, function: Callable[[Any], Any]) -> Dot:
    """All parts rearranged by one function of an array."""
    low, high, magnitude, nonnegative, nonpositive, below, above = (function(part) for part in dot)
    return Dot(low, high, magnitude, nonnegative, nonpositive, below, above)


def _mirrored(product: _Product) -> _Product:
    """B^T A^T as A B."""
    shape, grid, dot, special, never_finite, terms = product
    turned = _each(dot, lambda part: np.swapaxes(part, -1, -2))
    return _Product(
        (*shape[:-2], shape[-1], shape[-2]),
        (*grid[:-2], grid[-1], grid[-2]),
        turned,
        np.swapaxes(special, -1, -2),
        np.swapaxes(never_finite, -1, -2),
        terms,
    )


#: Multiplications that a product with a large constant may spend on rows beyond one application of its weights.
_ROW_BUDGET = 1 << 25


def _merged_rows(a: Range, b: Range) -> tuple[Range, Range]:
    """Rows (or columns) that meet a large constant, merged where they are all equal or cost too much; cells along stay."""
    if is_large(b.array) and a.array is None:
        a = _one_row(a, a.rank - 2, b.size)
    elif is_large(a.array) and b.array is None:
        b = _one_row(b, b.rank - 1, a.size)
    return a, b


def _one_row(x: Range, axis: int, weights: int) -> Range:
    rows = x.cells[axis]
    if rows <= 1 or not x.has_known_shape:
        return x
    first = np.take(x.low, [0], axis), np.take(x.high, [0], axis)
    equal = bool((x.low == first[0]).all()) and bool((x.high == first[1]).all())
    return x.smash((axis,)) if equal or math.prod(x.cells[:-2]) * rows * weights > _ROW_BUDGET else x


def _affordable(a: Range, b: Range) -> tuple[Range, Range]:
    """Operands whose product has few enough cells: rows that meet a known matrix are merged first, its columns stay."""
    while True:
        batch = max(int(np.prod(a.cells[:-2], dtype=np.int64)), int(np.prod(b.cells[:-2], dtype=np.int64)))
        rows, columns = a.cells[-2], b.cells[-1]
        if batch * rows * columns <= CELL_BUDGET:
            return a, b
        free_rows, free_columns = rows > 1 and a.array is None, columns > 1 and b.array is None
        if free_rows and (rows >= columns or not free_columns):
            a = a.smash((a.rank - 2,))
        elif free_columns:
            b = b.smash((b.rank - 1,))
        elif a.array is None and batch > 1 and max(a.cells[:-2], default=1) > 1:
            a = a.smash(tuple(range(a.rank - 2)))
        elif b.array is None and batch > 1 and max(b.cells[:-2], default=1) > 1:
            b = b.smash(tuple(range(b.rank - 2)))
        else:
            return a, b


def _shared_size(a: Size, b: Size) -> tuple[int, int]:
    """The smallest and the largest number of terms; both operands have it, so the one that knows it decides."""
    if isinstance(a, int) and isinstance(b, int) and a != b:
        raise NotAnalysed(f"matrices of {a} columns and {b} rows cannot be multiplied")
    fewest = max(smallest(a), smallest(b))
    known = [size for size in (largest(a), largest(b)) if size is not None]
    if not known:
        raise UnknownShape("the number of terms of a product depends on the data")
    return fewest, min(known)


def _bounds(x: Range, grid: Grid) -> tuple[Any, Any, Flags]:
    """Bounds on finer cells. A floating constant is given twice as it is: it is never converted as a whole."""
    if x.array is not None and x.format.is_float:
        return x.array, x.array, np.zeros((1,) * x.rank, np.uint8)
    low, high, special = (onto_grid(part, x.grid, grid) for part in (x.low, x.high, x.special))
    return low, high, special


def _factor(value: float, format: Format) -> tuple[float, float]:
    """A factor given as an attribute, and as the tensor's format may hold it."""
    held = float(format.round_nearest(np.array(value))) if format.is_float else float(int(value))
    return min(value, held), max(value, held)


def _multiplied(x: Range, value: float) -> Range:
    """An addend times a factor given as an attribute."""
    low, high = _times(x.low, x.high, _factor(value, x.format))
    return x.replace(low, high, x.special if x.has_special else None)


def _times(low: Array, high: Array, factors: tuple[float, float]) -> tuple[Array, Array]:
    ends = [factor * end for factor in factors for end in (low, high)]
    return np.minimum.reduce(ends), np.maximum.reduce(ends)


def _scaled(dot: Dot, factors: tuple[float, float]) -> Dot:
    """The products times a factor; partial sums are those before and after it."""
    low, high = _times(dot.low, dot.high, factors)
    below, above = _times(dot.below, dot.above, factors)
    signs = dot.nonnegative, dot.nonpositive
    if factors[0] < 0:
        signs = signs[1], signs[0]
    reach = max(abs(factors[0]), abs(factors[1]))
    return Dot(low, high, dot.magnitude * reach, *signs, np.minimum(dot.below, below), np.maximum(dot.above, above))


def _plus(dot: Dot, low: Array, high: Array) -> Dot:
    """The products plus another term."""
    return Dot(
        dot.low + low,
        dot.high + high,
        dot.magnitude + np.maximum(np.abs(low), np.abs(high)),
        dot.nonnegative & (low >= 0),
        dot.nonpositive & (high <= 0),
        dot.below + np.minimum(low, 0.0),
        dot.above + np.maximum(high, 0.0),
    )


def _without_axes(x: Range, axes: Sequence[int]) -> Range:
    """The same range without some axes of size 1."""
    if not axes:
        return x
    assert x.shape is not None
    keep = [axis for axis in range(x.rank) if axis - x.rank not in axes]
    low, high = np.squeeze(x.low, tuple(axes)), np.squeeze(x.high, tuple(axes))
    shape, grid = tuple(x.shape[i] for i in keep), tuple(x.grid[i] for i in keep)
    return Range(x.format, shape, grid, low, high, np.squeeze(x.special, tuple(axes)))
