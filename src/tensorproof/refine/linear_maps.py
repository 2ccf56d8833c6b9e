"""Linear operators as the backward relaxation needs them: the transposed map, and the error of computing it.

Coefficients have one row for each element that is bounded and one column for each element of a value, in row-major order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tensorproof.formats import Array, Format
from tensorproof.graph import ABSENT, Node
from tensorproof.ranges.range import Range
from tensorproof.targets import Target

#: Convolutions are written out as matrices of at most this many entries.
MOST_ENTRIES = 1 << 22


@dataclass(frozen=True, slots=True)
class Part:
    """One operand of a linear operator, and the map of coefficients of the result to coefficients of the operand."""

    value: int
    back: Callable[[Array], Array]


@dataclass(frozen=True, slots=True)
class Linear:
    """The operands, and what computing the result loses beside its final rounding (per element)."""

    parts: tuple[Part, ...]
    error: Array | float = 0.0


Operands = Sequence[Range | None]


def _reach(x: Range) -> Array:
    low, high, _ = x.expanded()
    return np.maximum(np.abs(low), np.abs(high))


def _summed(shape: tuple[int, ...], result: tuple[int, ...]) -> Callable[[Array], Array]:
    """Coefficients of a broadcast operand: those of all elements that it was copied to, added up."""

    def back(coefficients: Array) -> Array:
        rows = coefficients.shape[0]
        full = coefficients.reshape(rows, *result)
        padded = (1,) * (len(result) - len(shape)) + shape
        axes = tuple(i + 1 for i, (size, whole) in enumerate(zip(padded, result)) if size == 1 and whole != 1)
        return full.sum(axis=axes).reshape(rows, -1) if axes else full.reshape(rows, -1)

    return back


def _float64_error(result: Range, *terms: Array) -> Array:
    """What adding up coefficients in float64 loses: relative to the terms, for as many as were copied to."""
    total = sum((np.broadcast_to(term, result.sizes) for term in terms), np.zeros(result.sizes))
    return total.reshape(-1) * ((result.size + 8) * 2.0**-52)


def _two(node: Node, operands: Operands) -> tuple[Range, Range] | None:
    a, b = (*operands, None)[:2]
    return None if a is None or b is None or len(node.inputs) != 2 else (a, b)


def add(node: Node, operands: Operands, result: Range, target: Target) -> Linear | None:
    """a + b and a - b."""
    both = _two(node, operands)
    if both is None:
        return None
    a, b = both
    sign = -1.0 if node.op == "Sub" else 1.0
    first, second = _summed(a.sizes, result.sizes), _summed(b.sizes, result.sizes)
    parts = (Part(node.inputs[0], first), Part(node.inputs[1], lambda coefficients: sign * second(coefficients)))
    return Linear(parts, _float64_error(result, _reach(a), _reach(b)))


def neg(node: Node, operands: Operands, result: Range, target: Target) -> Linear | None:
    """-x."""
    return Linear((Part(node.inputs[0], np.negative),))


def scaled(node: Node, operands: Operands, result: Range, target: Target) -> Linear | None:
    """Products with, and quotients by, a constant."""
    both = _two(node, operands)
    if both is None:
        return None
    for index in (1, 0) if node.op == "Mul" else (1,):
        factor, x = both[index].values(), both[1 - index]
        if factor is None or (node.op == "Div" and bool((factor == 0).any())):
            continue
        factors = np.broadcast_to(1.0 / factor if node.op == "Div" else factor, result.sizes).reshape(-1)
        back = _summed(x.sizes, result.sizes)
        error = _float64_error(result, np.abs(factors.reshape(result.sizes)) * _reach(x))
        return Linear((Part(node.inputs[1 - index], lambda c, f=factors, b=back: b(c * f)),), error)
    return None


def same_order(node: Node, operands: Operands, result: Range, target: Target) -> Linear | None:
    """Operators that leave the elements in their order."""
    x = operands[0]
    if x is None or x.size != result.size:
        return None
    return Linear((Part(node.inputs[0], lambda coefficients: coefficients),))


def transpose(node: Node, operands: Operands, result: Range, target: Target) -> Linear | None:
    """Axes in another order."""
    x = operands[0]
    if x is None:
        return None
    order = [int(axis) for axis in node.attributes.get("perm", range(len(x.sizes))[::-1])]
    inverse = [0, *(1 + int(axis) for axis in np.argsort(order))]

    def back(coefficients: Array) -> Array:
        rows = coefficients.shape[0]
        return coefficients.reshape(rows, *result.sizes).transpose(inverse).reshape(rows, -1)

    return Linear((Part(node.inputs[0], back),))


def product_error(terms: int, magnitude: Array, format: Format, target: Target) -> Array:
    """Dot products of so many terms whose absolute values sum to `magnitude`: their roundings, and those of float64.

    n u sum|terms| + n eta in the format that accumulates (Jeannerod and Rump, SIAM J. Matrix Anal. Appl. 34, 2013), one
    more term for what is added afterwards.
    """
    accumulator = target.accumulation(format)
    flushes = target.flushes_results or target.flushes_operands
    lost = accumulator.smallest_normal if flushes else accumulator.smallest_subnormal
    relative = (terms + 2) * accumulator.unit_roundoff + (terms + 64) * 2.0**-51
    return relative * (1.0 + 2.0**-20) * magnitude + (terms + 2) * lost


def matmul(node: Node, operands: Operands, result: Range, target: Target) -> Linear | None:
    """Products with a constant matrix on the right."""
    both = _two(node, operands)
    if both is None:
        return None
    x, weights = both[0], both[1].values()
    if weights is None or weights.ndim != 2 or len(x.sizes) < 2:
        return None
    return _product(node.inputs[0], x, weights, result, target)


def _product(value: int, x: Range, weights: Array, result: Range, target: Target) -> Linear:
    terms, columns = weights.shape
    magnitude = (_reach(x).reshape(-1, terms) @ np.abs(weights)).reshape(-1)

    def back(coefficients: Array) -> Array:
        rows = coefficients.shape[0]
        return (coefficients.reshape(rows, -1, columns) @ weights.T).reshape(rows, -1)

    return Linear((Part(value, back),), product_error(max(terms, columns), magnitude, result.format, target))


def gemm(node: Node, operands: Operands, result: Range, target: Target) -> Linear | None:
    """x W + c with a constant matrix, without factors."""
    attributes = node.attributes
    if attributes.get("alpha", 1.0) != 1.0 or attributes.get("beta", 1.0) != 1.0 or attributes.get("transA", 0):
        return None
    x, matrix = operands[0], operands[1]
    weights = None if matrix is None else matrix.values()
    if x is None or weights is None or len(x.sizes) != 2:
        return None
    weights = weights.T if attributes.get("transB", 0) else weights
    linear = _product(node.inputs[0], x, weights, result, target)
    if len(node.inputs) < 3 or node.inputs[2] == ABSENT:
        return linear
    addend = operands[2]
    if addend is None:
        return None
    error = linear.error + _addend_error(addend, result, weights.shape[0], target)
    return Linear((*linear.parts, Part(node.inputs[2], _summed(addend.sizes, result.sizes))), error)


def _addend_error(addend: Range, result: Range, terms: int, target: Target) -> Array:
    reach = np.broadcast_to(_reach(addend), result.sizes).reshape(-1)
    return product_error(max(terms, result.size), reach, result.format, target)


def convolution(node: Node, operands: Operands, result: Range, target: Target) -> Linear | None:
    """A convolution with constant weights, written out as a matrix where that is small."""
    x, kernel = operands[0], operands[1] if len(operands) > 1 else None
    weights = None if kernel is None else kernel.values()
    if x is None or weights is None or node.attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return None
    if x.size * result.size > MOST_ENTRIES:
        return None
    matrix = _as_matrix(node, x.sizes, weights, result.sizes)
    terms = int(np.prod(weights.shape[1:]))
    magnitude = np.abs(matrix) @ _reach(x).reshape(-1)
    error = product_error(max(terms, result.size), magnitude, result.format, target)
    parts = [Part(node.inputs[0], lambda coefficients: coefficients @ matrix)]
    if len(node.inputs) > 2 and node.inputs[2] != ABSENT:
        bias = operands[2]
        if bias is None:
            return None
        shape = (bias.size, *(1,) * (len(result.sizes) - 2))
        parts.append(Part(node.inputs[2], _summed(shape, result.sizes)))
        channels = np.broadcast_to(_reach(bias).reshape(shape), result.sizes).reshape(-1)
        error = error + product_error(max(terms, result.size), channels, result.format, target)
    return Linear(tuple(parts), error)


def _as_matrix(node: Node, sizes: tuple[int, ...], weights: Array, result: tuple[int, ...]) -> Array:
    """Rows: elements of the result; columns: elements of the operand (ONNX Conv-11: cross-correlation)."""
    space = len(sizes) - 2
    strides = node.attributes.get("strides") or [1] * space
    dilations = node.attributes.get("dilations") or [1] * space
    pads = (node.attributes.get("pads") or [0] * (2 * space))[:space]
    groups = int(node.attributes.get("group", 1))
    matrix = np.zeros((int(np.prod(result)), int(np.prod(sizes))))
    elements: npt.NDArray[np.int64] = np.arange(matrix.shape[1]).reshape(sizes)
    rows: npt.NDArray[np.int64] = np.arange(matrix.shape[0]).reshape(result)
    inner, outer, every = weights.shape[1], weights.shape[0] // groups, (slice(None),) * 3
    columns = elements.reshape(sizes[0], groups, inner, *sizes[2:])
    rows = rows.reshape(result[0], groups, outer, *result[2:])
    for tap in np.ndindex(*weights.shape[2:]):
        # Where each position of the result meets this tap; positions in the padding meet zero.
        places = [np.arange(n) * s + t * d - p for n, s, t, d, p in zip(result[2:], strides, tap, dilations, pads)]
        inside = [(place >= 0) & (place < size) for place, size in zip(places, sizes[2:])]
        there = columns[every + np.ix_(*(place[mask] for place, mask in zip(places, inside)))]
        here = rows[every + np.ix_(*(np.nonzero(mask)[0] for mask in inside))]
        pairs = here.reshape(*here.shape[:3], 1, -1), there.reshape(*there.shape[:2], 1, inner, -1)
        # A tap joins each element of the result with one element of every channel: no pair stands here twice.
        matrix[pairs] += weights[(..., *tap)].reshape(1, groups, outer, inner, 1)
    return matrix


#: The linear operators, by name.
LINEAR: dict[str, Callable[[Node, Operands, Range, Target], Linear | None]] = {
    "Add": add,
    "Sub": add,
    "Neg": neg,
    "Mul": scaled,
    "Div": scaled,
    "MatMul": matmul,
    "Gemm": gemm,
    "Conv": convolution,
    "Identity": same_order,
    "Reshape": same_order,
    "Flatten": same_order,
    "Squeeze": same_order,
    "Unsqueeze": same_order,
    "Transpose": transpose,
}
