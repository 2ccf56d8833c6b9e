"""Rows combined by the number of the segment that each belongs to, elements counted, tensors taken apart and put together.

All of them write rows at positions that are data: the standard's ScatterND with a reduction.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import BOOL, INT64, Format
from tensorproof.operators.indexing import compress
from tensorproof.operators.picked_windows import filled
from tensorproof.operators.scattering import scatter_elements, scatter_nd

if TYPE_CHECKING:
    from tensorproof.frontends.tensorflow_call import TensorflowCall


def _start(kind: str, format: Format) -> float:
    """What a segment holds before anything is combined with it."""
    return {"Sum": 0.0, "Mean": 0.0, "SqrtN": 0.0, "Prod": 1.0, "Max": format.low, "Min": format.high}[kind]


_REDUCTIONS = {"Sum": "add", "Mean": "add", "SqrtN": "add", "Prod": "mul", "Max": "max", "Min": "min"}


def _number(call: TensorflowCall, value: int) -> int:
    """The constant as a 64-bit integer without axes."""
    return call.constant(np.array(value, np.int64))


def _combined(call: TensorflowCall, data: int, ids: int, depth: int, count: int, kind: str, format: Format) -> int:
    """Rows of `data` combined in `count` segments; `ids` has the first `depth` axes, and drops rows by negative numbers.

    What is dropped goes into one segment more, which is cut off.
    """
    is_dropped = call.emit("Less", ids, _number(call, 0), formats=(BOOL,))
    places = call.emit("Where", is_dropped, count, ids, formats=(INT64,))
    rows = call.emit("Slice", call.shape_of(data), call.integers([depth]), call.integers([2**31]), formats=(INT64,))
    more = call.emit("Add", call.reshaped(count, [1]), call.integers([1]), formats=(INT64,))
    start = filled(call, call.moved("Concat", more, rows, axis=0), _start(kind, format), format)
    tuples = call.moved("Unsqueeze", places, call.integers([-1]))
    written = call.moved("ScatterND", start, tuples, data, reduction=_REDUCTIONS[kind])
    return call.moved("Slice", written, call.integers([0]), call.reshaped(count, [1]), call.integers([0]))


@scatter_nd.tensorflow(*(f"UnsortedSegment{kind}" for kind in ("Sum", "Prod", "Max", "Min")))
def _(call: TensorflowCall) -> int:
    """Rows combined by segment; an empty one holds 0, 1, the least or the largest number."""
    kind = call.name.removeprefix("UnsortedSegment")
    count = call.reshaped(call.operand(2, INT64), [])
    return _combined(call, call.operand(0), call.operand(1, INT64), call.rank(1), count, kind, call.format())


def _segments_in_order(call: TensorflowCall, data: int, ids: int, count: int, kind: str, format: Format) -> int:
    """Rows combined by numbers that do not decrease; a segment without rows holds 0 (1 of a product)."""
    result = _combined(call, data, ids, 1, count, kind, format)
    if kind in ("Sum", "Prod"):
        return result
    sizes = call.emit("Slice", call.shape_of(data), call.integers([1]), call.integers([2**31]), formats=(INT64,))
    ones = call.emit("ConstantOfShape", call.shape_of(ids), value=np.ones(1, format.dtype), formats=(format,))
    counts = _combined(call, ones, ids, 1, count, "Sum", format)
    # One count for each row, of a shape that broadcasts with it.
    behind = call.emit("ConstantOfShape", call.shape_of(sizes), value=np.ones(1, np.int64), formats=(INT64,))
    counts = call.moved("Reshape", counts, call.moved("Concat", call.reshaped(count, [1]), behind, axis=0), allowzero=1)
    if kind in ("Max", "Min"):
        is_empty = call.emit("Equal", counts, call.value(0, format), formats=(BOOL,))
        return call.emit("Where", is_empty, call.value(0, format), result, formats=(format,))
    divisor = call.moved("Max", counts, call.value(1, format))
    return call.moved("Div", result, call.moved("Sqrt", divisor) if kind == "SqrtN" else divisor)


def _last_and_one(call: TensorflowCall, ids: int) -> int:
    """The number of segments: one more than the largest number, none without numbers."""
    largest = call.emit("ReduceMax", call.moved("Concat", ids, call.integers([-1]), axis=0), keepdims=0, formats=(INT64,))
    return call.emit("Add", largest, _number(call, 1), formats=(INT64,))


@scatter_nd.tensorflow(*(f"Segment{kind}" for kind in ("Sum", "Mean", "Prod", "Max", "Min")))
def _(call: TensorflowCall) -> int:
    """Rows combined by numbers of segments that do not decrease; there are as many as the last one says."""
    ids = call.operand(1, INT64)
    kind = call.name.removeprefix("Segment")
    return _segments_in_order(call, call.operand(0), ids, _last_and_one(call, ids), kind, call.format())


@scatter_nd.tensorflow(
    *(f"SparseSegment{kind}{rest}" for kind in ("Sum", "Mean", "SqrtN") for rest in ("", "WithNumSegments")),
)
def _(call: TensorflowCall) -> int:
    """Rows picked by their positions, then combined by segment."""
    kind = call.name.removeprefix("SparseSegment").removesuffix("WithNumSegments")
    ids = call.operand(2, INT64)
    rows = call.moved("Gather", call.operand(0), call.operand(1), axis=0)
    count = call.reshaped(call.operand(3, INT64), []) if call.name.endswith("WithNumSegments") else _last_and_one(call, ids)
    return _segments_in_order(call, rows, ids, count, kind, call.format())


@scatter_nd.tensorflow(*(f"SparseSegment{kind}Grad" for kind in ("Sum", "Mean", "SqrtN")))
def _(call: TensorflowCall) -> int:
    """Gradients of segments handed to the rows that they were combined of, divided as the segments were."""
    kind, format = call.name.removeprefix("SparseSegment").removesuffix("Grad"), call.format()
    gradient, ids = call.operand(0), call.operand(2, INT64)
    if kind != "Sum":
        ones = call.emit("ConstantOfShape", call.shape_of(ids), value=np.ones(1, format.dtype), formats=(format,))
        counts = _segments_in_order(call, ones, ids, call.reshaped(_rows(call, gradient), []), "Sum", format)
        divisor = call.moved("Max", counts, call.value(1, format))
        divisor = call.moved("Sqrt", divisor) if kind == "SqrtN" else divisor
        shape = [-1, *[1] * (call.rank(0) - 1)]
        gradient = call.moved("Div", gradient, call.reshaped(divisor, shape))
    rows = call.moved("Gather", gradient, ids, axis=0)
    return _combined(call, rows, call.operand(1, INT64), 1, call.reshaped(call.operand(3, INT64), []), "Sum", format)


def _rows(call: TensorflowCall, x: int) -> int:
    return call.emit("Slice", call.shape_of(x), call.integers([0]), call.integers([1]), formats=(INT64,))


# -- counting ----------------------------------------------------------------------------------------------------------


@scatter_elements.tensorflow("Bincount", "DenseBincount")
def _(call: TensorflowCall) -> int:
    """How often each number occurs, or the sum of its weights; numbers from the given one on are not counted."""
    rank, format = call.rank(0), call.format()
    if rank > 1 and call.name == "DenseBincount":
        raise NotAnalysed("numbers counted row by row")
    numbers = call.reshaped(call.operand(0, INT64), [-1])
    count = call.reshaped(call.operand(1, INT64), [1])
    weights = call.shape(2)
    if weights is None:
        raise NotAnalysed("it is not known whether there are weights")
    is_weighted = math.prod(size if isinstance(size, int) else 1 for size in weights) != 0
    places = call.emit("Min", numbers, count, formats=(INT64,))
    values = call.reshaped(call.operand(2), [-1]) if is_weighted else filled(call, call.shape_of(numbers), 1, format)
    start = filled(call, call.emit("Add", count, call.integers([1]), formats=(INT64,)), 0, format)
    bins = call.moved("ScatterElements", start, places, values, axis=0, reduction="add")
    bins = call.moved("Slice", bins, call.integers([0]), count, call.integers([0]))
    if call.attribute("binary_output", False):
        return call.moved("Min", bins, call.value(1, format))
    return bins


# -- tensors taken apart and put together ------------------------------------------------------------------------------


@compress.tensorflow("DynamicPartition")
def _(call: TensorflowCall) -> tuple[int, ...]:
    """The rows of each part; how many there are depends on the numbers of the parts."""
    depth = call.rank(1)
    parts = call.reshaped(call.operand(1, INT64), [-1])
    sizes = call.sizes(0)
    rows = call.operand(0) if depth == 1 else call.reshaped(call.operand(0), [-1, *sizes[depth:]])
    found: list[int] = []
    for number in range(int(call.attribute("num_partitions"))):
        is_there = call.emit("Equal", parts, _number(call, number), formats=(BOOL,))
        found.append(call.moved("Compress", rows, is_there, axis=0))
    return tuple(found)


@scatter_nd.tensorflow("DynamicStitch", "ParallelDynamicStitch")
def _(call: TensorflowCall) -> int:
    """Rows at the positions that are given for them, the last one where several are; as many as the largest position says.

    A position that is not given is undefined in TensorFlow: here it holds some row, too.
    """
    half = len(call) // 2
    depths = [call.rank(index) for index in range(half)]
    inner = [_behind(call, half + index, depth) for index, depth in enumerate(depths)]
    parts = [call.reshaped(call.operand(index, INT64), [-1]) for index in range(half)]
    minus = call.integers([-1])
    rows = [
        call.moved("Reshape", call.operand(half + index), call.moved("Concat", minus, inner[index], axis=0))
        for index in range(half)
    ]
    places = call.moved("Concat", *parts, axis=0) if half > 1 else parts[0]
    data = call.moved("Concat", *rows, axis=0) if half > 1 else rows[0]
    count = call.reshaped(_last_and_one(call, places), [1])
    first = call.moved("Slice", data, call.integers([0]), call.integers([1]), call.integers([0]))
    start = call.moved("Expand", first, call.moved("Concat", count, inner[0], axis=0))
    return call.moved("ScatterND", start, call.moved("Unsqueeze", places, call.integers([1])), data)


def _behind(call: TensorflowCall, index: int, depth: int) -> int:
    """The sizes of the axes of an operand from one on."""
    return call.emit("Slice", call.shape_of(call.operand(index)), call.integers([depth]), call.integers([2**31]), formats=(INT64,))


@scatter_elements.tensorflow("InvertPermutation")
def _(call: TensorflowCall) -> int:
    """Where each number stands."""
    x, format = call.operand(0), call.format()
    (size,) = call.sizes(0)
    bounds = (call.value(bound, INT64) for bound in (0, size, 1))
    numbers = call.cast(call.emit("Range", *bounds, formats=(INT64,)), format)
    return call.moved("ScatterElements", numbers, x, numbers, axis=0)


@scatter_elements.tensorflow("ListDiff")
def _(call: TensorflowCall) -> tuple[int, int]:
    """The numbers of one list that are not in another, and where they stand: of lists that are known, such as axes."""
    x, y = call.known(0), call.known(1)
    (places,) = np.nonzero(~np.isin(x, y))
    wide = call.format("out_idx").dtype if "out_idx" in call.attributes else np.int32
    return call.constant(np.ascontiguousarray(x[places])), call.constant(places.astype(wide))


# -- sparse tensors ----------------------------------------------------------------------------------------------------


@scatter_nd.tensorflow("SparseToDense")
def _(call: TensorflowCall) -> int:
    """Numbers at tuples of positions, another number elsewhere."""
    sizes, rank = call.as_integers(1), call.rank(0)
    start = call.moved("Expand", call.operand(3), sizes)
    index = call.operand(0, INT64)
    if rank == 0:
        index = call.reshaped(index, [1, 1])
    elif rank == 1:
        index = call.moved("Unsqueeze", index, call.integers([1]))
    count = _rows(call, index)
    return call.moved("ScatterND", start, index, call.moved("Expand", call.operand(2), count))


@scatter_nd.tensorflow("SparseTensorDenseMatMul")
def _(call: TensorflowCall) -> int:
    """Every number of the sparse matrix times a row of the other one, added to the row of the result that it stands in."""
    format, index = call.format(), call.operand(0, INT64)
    if format.kind == "complex":
        raise NotAnalysed("complex numbers are not modelled")
    is_turned = bool(call.attribute("adjoint_a", False))
    row, column = (call.moved("Gather", index, _number(call, place), axis=1) for place in ((1, 0) if is_turned else (0, 1)))
    other = call.moved("Transpose", call.operand(3), perm=[1, 0]) if call.attribute("adjoint_b", False) else call.operand(3)
    picked = call.moved("Gather", other, column, axis=0)
    terms = call.moved("Mul", picked, call.reshaped(call.operand(1), [-1, 1]))
    height = call.moved("Gather", call.as_integers(2), call.integers([int(is_turned)]), axis=0)
    width = call.emit("Slice", call.shape_of(other), call.integers([1]), call.integers([2]), formats=(INT64,))
    start = filled(call, call.moved("Concat", height, width, axis=0), 0, format)
    return call.moved("ScatterND", start, call.moved("Unsqueeze", row, call.integers([1])), terms, reduction="add")
