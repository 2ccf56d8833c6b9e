"""Convolutions whose channels are scaled afterwards, as batch normalisation at inference does.

|diag(s) W x| <= sigma(diag(s) W) |x|, where the norms of the two steps alone give max|s| sigma(W) |x|. A network that was trained
scales large channels down and small ones up: then the first is many times smaller, and layer by layer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.formats import Array
from tensorproof.graph import ABSENT, Node
from tensorproof.idioms.claims import Claim, idiom
from tensorproof.idioms.scale_bounds import margin
from tensorproof.idioms.structure import Structure
from tensorproof.operators.norm_rules_elementwise import normalised_norm, slopes_of_channels
from tensorproof.operators.table import Call
from tensorproof.ranges.norm_products import filter_norms, kernel_norm
from tensorproof.ranges.norms import PAD, Norm, along, times
from tensorproof.ranges.range import Range
from tensorproof.ranges.sums import summation_error
from tensorproof.ranges.weight_cache import remembered

#: More than two roundings in float32 change a number by.
_ROUNDED = 2.0**-22
#: Twice the smallest number of float32: what two roundings lose by underflow.
_LOST = 2.0**-148


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution whose results may have been transposed, and then added to `addend` (ABSENT: not). Values by number.

    `axis` is the axis of its channels in the end.
    """

    node: Node
    axis: int
    addend: int = ABSENT

    def reads(self) -> tuple[int, ...]:
        return tuple(number for number in (*self.node.inputs[:3], self.addend) if number != ABSENT)


@idiom("Mul")
def convolution_times_numbers_of_channels(graph: Structure, node: Node) -> Claim | None:
    """|s (W x + b)| <= sigma(diag(s) W) |x| + |s b| along the channels, with what rounding adds.

    With S the largest |s| of each channel, diag(s) is diag(S) times numbers of at most 1. The computed sum of channel c errs by
    at most e = g |w_c| |x| + lost (`tensorproof.ranges.sums`), so that all of them together are longer by |S e| at most. Each of
    the roundings that follow, of the sum, of the addition and of the product, makes a vector longer by its relative error, and by
    what underflow loses of each element.
    """
    for product, scale in (node.inputs, node.inputs[::-1]):
        found = _convolution(graph, product)
        if found is not None and not graph.same(product, scale):
            return _of_product(node, found, scale)
    return None


def _of_product(node: Node, found: Convolution, scale: int) -> Claim:
    reads = tuple(dict.fromkeys((scale, *found.reads())))

    def norm(call: Call, result: Range, *ranges: Range) -> Norm | None:
        by_value = dict(zip(reads, ranges))
        if not result.has_known_shape or result.rank != by_value[found.node.inputs[1]].rank or not result.format.is_float:
            return None
        channels = result.sizes[found.axis]
        factors = _of_channels(by_value[scale], found.axis, result.rank, channels)
        length = None if factors is None else scaled_length(call, found, by_value, factors)
        if length is None:
            return None
        relative, absolute = margin(call, node.op, result.format)
        bound = (length * (1.0 + relative) + math.sqrt(channels) * absolute) * PAD
        return Norm(found.axis, min(bound, along(result, found.axis)))

    return Claim("convolution-times-numbers-of-channels", reads, _nothing, norm)


@idiom("BatchNormalization")
def convolution_normalised_by_channels(graph: Structure, node: Node) -> Claim | None:
    """|a (W x + b - mean) + bias| with a = scale / sqrt(variance + epsilon), along the channels, at inference.

    As `convolution_times_numbers_of_channels`, with the largest |a| of each channel for s; what is added and rounded besides is
    that of `normalised_norm`.
    """
    found = _convolution(graph, node.inputs[0])
    if found is None or found.axis != 1 or len(node.inputs) != 5:
        return None
    parameters = node.inputs[1:]
    reads = tuple(dict.fromkeys((node.inputs[0], *parameters, *found.reads())))

    def norm(call: Call, result: Range, *ranges: Range) -> Norm | None:
        by_value = dict(zip(reads, ranges))
        x = by_value[node.inputs[0]]
        parts = [by_value[number] for number in parameters]
        slopes = slopes_of_channels(call, x, *parts)
        length = None if slopes is None else scaled_length(call, found, by_value, slopes)
        if slopes is None or length is None:
            return None
        return normalised_norm(call, x, length, slopes, *parts[1:])

    return Claim("convolution-normalised-by-channels", reads, _nothing, norm)


def _nothing(call: Call, *ranges: Range) -> None:
    """These claims are about norms alone."""


def _convolution(graph: Structure, value: int) -> Convolution | None:
    """The convolution behind a value: behind transposes, and behind one addition in front of them."""
    whole, addend = _sum(graph, value)
    orders: list[list[int]] = []
    while (moved := graph.producer(whole, "Transpose", "Identity")) is not None:
        if moved.op == "Transpose":
            orders.append([int(axis) for axis in moved.attributes["perm"]])
        whole = moved.inputs[0]
    node = graph.producer(whole, "Conv")
    if node is None:
        return None
    axis = 1
    for order in reversed(orders):
        axis = order.index(axis)
    return Convolution(node, axis, addend)


def _sum(graph: Structure, value: int) -> tuple[int, int]:
    """What was transposed or convolved, and what was added to it, if anything."""
    node = graph.producer(value, "Add")
    if node is None:
        return value, ABSENT
    for whole, addend in (node.inputs, node.inputs[::-1]):
        if graph.producer(whole, "Transpose", "Conv") is not None:
            return whole, addend
    return value, ABSENT


def scaled_length(call: Call, found: Convolution, ranges: Mapping[int, Range], factors: Array) -> float | None:
    """The Euclidean norm, along the channels, of a computed convolution whose channels grow by at most these factors."""
    x, w = ranges[found.node.inputs[0]], ranges[found.node.inputs[1]]
    groups = int(found.node.attributes.get("group", 1))
    length = along(x, 1)
    norms = filter_norms(w) if w.has_known_shape else np.zeros(0)
    if w.array is None or not w.format.is_float or x.has_special or w.has_special or not length < math.inf:
        return None
    if len(norms) != len(factors) or len(factors) % groups or not factors.size:
        return None
    bias = _addend(found.node.inputs[2:3], ranges, 0, 1, len(factors))
    addend = _addend((found.addend,), ranges, found.axis, w.rank, len(factors))
    if bias is None or addend is None:
        return None
    reach = norms * times(length, math.sqrt(math.prod(w.sizes[2:]))) + bias
    errors = summation_error(call, reach, math.prod(w.sizes[1:]) + 1, x.format)
    total = times(length, _gain(w.array, factors, groups, call.abstraction.spectral)) + _length(factors * bias)
    total = _grown(call, "Conv", x, total + _length(factors * errors), factors)
    return total if found.addend == ABSENT else _grown(call, "Add", x, total + _length(factors * addend), factors)


def _addend(numbers: Sequence[int], ranges: Mapping[int, Range], axis: int, rank: int, channels: int) -> Array | None:
    """The largest absolute value of each channel of an operand that may be left out."""
    if not numbers or numbers[0] == ABSENT:
        return np.zeros(channels)
    return _of_channels(ranges[numbers[0]], axis, rank, channels)


def _grown(call: Call, operator: str, x: Range, total: float, factors: Array) -> float:
    """A norm after one rounding more, each element of which is scaled afterwards."""
    relative, absolute = margin(call, operator, x.format)
    return (total * (1.0 + relative) + absolute * _length(factors)) * PAD


def _length(numbers: Array) -> float:
    """The Euclidean norm of a few numbers, rounded up."""
    largest = float(np.abs(numbers).max(initial=0.0))
    if not 0.0 < largest < math.inf:
        return largest
    return largest * math.sqrt(float(np.square(numbers / largest).sum())) * PAD


def _gain(weights: npt.NDArray[Any], factors: Array, groups: int, spectral: bool) -> float:
    """How much longer the scaled vector of the output channels can be than one vector of the input channels.

    The scaled weights are rounded: by E in the Frobenius norm, which is added.
    """

    def computed() -> float:
        wide = np.float64 if weights.dtype == np.float64 else np.float32
        scaled = weights.astype(wide) * factors.astype(wide).reshape(-1, *(1,) * (weights.ndim - 1))
        if not np.isfinite(scaled).all():
            return math.inf
        made = Range.constant(scaled)
        rounded = _ROUNDED * _length(filter_norms(made)) + math.sqrt(scaled.size) * _LOST * (1.0 + float(factors.max()))
        return (kernel_norm(made, groups, spectral) + rounded * math.sqrt(math.prod(scaled.shape[2:]))) * PAD

    return remembered(weights, ("scaled", factors.tobytes(), groups, spectral), computed)


def _of_channels(x: Range, axis: int, rank: int, channels: int) -> Array | None:
    """The largest absolute value that meets each channel when x is broadcast to so many axes; None if it is not finite."""
    if x.has_special or not x.has_known_shape or x.rank > rank or not x.size:
        return None
    sizes = x.magnitude()
    own = axis - rank + x.rank
    if own < 0 or x.sizes[own] == 1:
        return np.full(channels, sizes.max())
    if x.sizes[own] != channels:
        return None
    cuts = x.grid[own]
    over = sizes.max(axis=tuple(other for other in range(x.rank) if other != own))
    return np.full(channels, over.max()) if cuts is None else np.repeat(over, np.diff(cuts))
