"""The order of elements in memory: what `view` of PyTorch may merge without a copy."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from tensorproof.shapes.shape import Shape
from tensorproof.shapes.sizes import Size, bounds, product, same, symbols
from tensorproof.shapes.values import Tensor

if TYPE_CHECKING:
    from tensorproof.shapes.rule_table import ShapeRule

Strides = tuple[Size, ...]

#: Families whose results lie in the order of their axes if the operands do. Recurrent layers, attention, sums of products and
#: decompositions are not among them: they may return what they computed transposed.
_ORDERLY = frozenset(
    {
        "activation_layers", "axes", "broadcasting", "concatenation", "convolution", "creation", "data_loading", "dense",
        "embedding", "gathering", "indexing", "matrix_products", "modules", "normalisation", "number_types", "pointwise",
        "pooling", "random_numbers", "reductions", "repetition", "reshaping", "scattering", "shape_queries", "softmax",
        "splitting", "stretching",
    }
)  # fmt: skip


def keeps_memory_order(rule: ShapeRule) -> bool:
    """Whether the result of a rule of PyTorch lies in the order of its axes if the operands do, as far as is known."""
    return rule.function.__module__.rpartition(".")[2] in _ORDERLY


def strides_of(tensor: Tensor) -> Strides | None:
    """The distance in memory between neighbours along each axis; None where it is not known."""
    if tensor.shape.rank is None:
        return None
    if tensor.strides is not None:
        return tensor.strides
    return row_major(tensor.shape.dims) if tensor.contiguous else None


def row_major(dims: Sequence[Size]) -> Strides:
    """Strides of a tensor whose memory is in the order of its axes."""
    return tuple(product(dims[axis + 1 :]) for axis in range(len(dims)))


def restrided(tensor: Tensor, dims: Sequence[Size], strides: Strides | None) -> Tensor:
    """A view of the same memory with other axes; `strides` None where they are not known."""
    shape = Shape(tuple(dims))
    if strides is None:
        return tensor.with_shape(shape, contiguous=None)
    in_order = _in_order(dims, strides)
    return tensor.with_shape(shape, contiguous=in_order, strides=None if in_order else strides)


def _in_order(dims: Sequence[Size], strides: Strides) -> bool | None:
    """Whether the memory of a tensor is in the order of its axes; axes of size 1 do not matter."""
    answers = [same(stride, wanted) for size, stride, wanted in zip(dims, strides, row_major(dims), strict=True) if size != 1]
    if all(answers):
        return True
    certain = [certainly_several(size) for size in dims if size != 1]
    return False if any(answer is False and several for answer, several in zip(answers, certain, strict=True)) else None


def certainly_several(size: Size) -> bool:
    """Whether an axis has more than one element: always, or in the first round of a loader whose batches hold several samples."""
    if bounds(size)[0] > 1:
        return True
    found = symbols(size)
    return bool(found) and bounds(size)[0] >= 1 and all(s.role == "batch" and 1 < s.high < float("inf") for s in found)


def refuses_view(tensor: Tensor, target: Sequence[Size]) -> tuple[int, int] | None:
    """Two neighbouring axes that the target merges although no stride reaches from one to the other; None if a view may exist."""
    strides = strides_of(tensor)
    if strides is None:
        return None
    axes = [axis for axis, size in enumerate(tensor.shape.dims) if size != 1]
    dims = tensor.shape.dims
    for left, right in pairwise(axes):
        mergeable = same(strides[left], dims[right] * strides[right])
        if mergeable is not False or not all(certainly_several(dims[axis]) for axis in (left, right)):
            continue
        inner = product(dims[right:])
        if all(same(inner, product(target[axis:])) is False for axis in range(len(target) + 1)):
            return left, right
    return None
