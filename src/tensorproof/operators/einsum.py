"""Einsum: sums of products over labelled axes.

Every label has one grid, the coarsest that refines all operands along it. Operands lose the labels that nobody else
needs by summing, and then meet pairwise, from left to right, as stacks of matrices.
"""

from __future__ import annotations

import functools
import itertools
import math
import string
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.errors import NotAnalysed, UnknownShape
from tensorproof.formats import Array, Format
from tensorproof.operators.linear import plus
from tensorproof.operators.table import CORRECT, Call, operator
from tensorproof.ranges.channel_products import LabelledProduct, labelled_product
from tensorproof.ranges.folds import onto_grid, product_flags, sum_flags
from tensorproof.ranges.grid import Cuts, Size, broadcast_size, largest, smallest, union
from tensorproof.ranges.range import CELL_BUDGET, Flags, Range
from tensorproof.ranges.sums import (
    dot_product,
    interval_product,
    keep_sign,
    product_growth,
    report_partial_overflow,
    summation_error,
)
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall

#: Labels are merged into one cell until no pair of operands has more products of cells than this.
_WORK = 1 << 27


@operator(
    "Einsum",
    error=CORRECT,
    overflow=ACCUMULATION_OVERFLOW,
    coarse="an element of three or more operands takes part in several intermediate sums, which are bounded one by one",
)
def einsum(op: Call, *operands: Range) -> Range:
    """Multilinear: hulls of pairwise products, summed over the labels that the result does not have."""
    terms, output = parse(op.attribute("equation", ""), [x.rank for x in operands])
    if op.abstraction.weights == "channel":
        product = labelled_product(operands, terms, output, op.cells)
        if product is not None:
            return _from_sums(op, operands[0].format, product)
    axes = Labels.of(operands, terms, output)
    parts = [_Part.of(x, term, axes) for x, term in zip(operands, terms)]
    format = operands[0].format
    summed = [label for label in axes.sizes if label not in output]
    fewest, most = axes.count(summed)
    flags, never_finite = _specials(parts, output)
    needed = [set(output).union(*(p.labels for p in parts if p is not part)) for part in parts]
    summed_first = any(set(part.labels) - need for part, need in zip(parts, needed))
    if len(parts) == 2 and not summed_first:
        low_a, high_a, low_b, high_b, shape, labels = _matrices(parts[0], parts[1], axes, output)
        dot = dot_product(op, low_a, high_a, low_b, high_b, format)
        low, high, magnitude, below, above = dot.low, dot.high, dot.magnitude, dot.below, dot.above
        error = summation_error(op, magnitude, most, format)
        low, high = _between(low - error, fewest, most), _between(high + error, fewest, most, upper=True)
        low, high = keep_sign(low, high, dot.nonnegative, dot.nonpositive)
        results = [x.reshape(shape) for x in (low, high, below - error, above + error)]
    else:
        whole, reach = _chain(parts, needed, axes, output)
        error = _chain_error(op, parts, whole.magnitude, most, format)
        low, high = _between(whole.low - error, fewest, most), _between(whole.high + error, fewest, most, upper=True)
        positive, negative = _sign_of_terms(parts)
        low, high = keep_sign(low, high, positive, negative)
        results, labels = [low, high, -reach - error, reach + error], whole.labels
    low, high, below, above = (_ordered(x, labels, axes, output) for x in results)
    flags = sum_flags(flags) if len(parts) == 1 else product_flags(flags)
    if not summed and len(parts) == 1:
        below, above = low, high
    if not format.is_float:
        low, high = np.ceil(low), np.floor(high)
    never_finite = never_finite & (fewest > 0)
    low, high = np.where(never_finite, np.inf, low), np.where(never_finite, -np.inf, high)
    result = axes.result(format, output, low, high, flags)
    report_partial_overflow(op, result, np.broadcast_to(below, result.cells), np.broadcast_to(above, result.cells))
    return result


@einsum.meaning
def _(run: Run, *operands: Tensor) -> Tensor:
    terms, output = parse(run.attribute("equation", ""), [x.ndim for x in operands])
    numbers = {label: number for number, label in enumerate(dict.fromkeys(label for term in terms for label in term))}
    common = functools.reduce(run.torch.promote_types, (x.dtype for x in operands))
    arguments: list[Any] = []
    for x, term in zip(operands, terms):
        arguments += [x.to(common), [numbers[label] for label in term]]
    return run.torch.einsum(*arguments, [numbers[label] for label in output])


@einsum.aten("einsum")
def _(call: AtenCall) -> int:
    format = call.result.format
    return call.emit("Einsum", *call.tensors("tensors", format), equation=call["equation"].replace(" ", ""), formats=(format,))


@einsum.aten("bilinear")
def _(call: AtenCall) -> int:
    """x_1 W x_2 + b for every matrix of a stack."""
    format = call.result.format
    operands = (call.tensor(name, format) for name in ("input1", "weight", "input2"))
    return plus(
        call, call.emit("Einsum", *operands, equation="...i,oij,...j->...o", formats=(format,)), call.tensor("bias", format)
    )


@einsum.aten("tensordot")
def _(call: AtenCall) -> int:
    """Sums over pairs of axes; the axes of the first operand that are left come before those of the second."""
    format = call.result.format
    ranks = call.rank("self"), call.rank("other")
    if sum(ranks) > len(string.ascii_letters):
        raise NotAnalysed("tensors of so many axes are not modelled")
    of_first, of_second = string.ascii_letters[: ranks[0]], list(string.ascii_letters[ranks[0] : sum(ranks)])
    pairs = list(zip(call.axes("dims_self", ranks[0]), call.axes("dims_other", ranks[1]), strict=True))
    for first, second in pairs:
        of_second[second] = of_first[first]
    summed = {of_first[first] for first, _ in pairs}
    kept = "".join(label for label in (*of_first, *of_second) if label not in summed)
    equation = f"{of_first},{''.join(of_second)}->{kept}"
    return call.emit("Einsum", call.tensor("self", format), call.tensor("other", format), equation=equation, formats=(format,))


@einsum.aten("inner")
def _(call: AtenCall) -> int:
    """Sums over the last axes of both; a number multiplies the other operand."""
    format, ranks = call.result.format, (call.rank("self"), call.rank("other"))
    operands = call.tensor("self", format), call.tensor("other", format)
    if 0 in ranks:
        return call.emit("Mul", *operands, formats=(format,))
    kept = string.ascii_letters[: sum(ranks) - 2]
    equation = f"{kept[: ranks[0] - 1]}Z,{kept[ranks[0] - 1 :]}Z->{kept}"
    return call.emit("Einsum", *operands, equation=equation, formats=(format,))


@einsum.aten("outer", "ger")
def _(call: AtenCall) -> int:
    format = call.result.format
    operands = (call.tensor(name, format) for name in ("self", "vec2"))
    return call.emit("Einsum", *operands, equation="i,j->ij", formats=(format,))


def _from_sums(op: Call, format: Format, product: LabelledProduct) -> Range:
    """The product with a large constant, as computed."""
    shape, grid, dot, special, never_finite, terms = product
    error = summation_error(op, dot.magnitude, terms, format)
    low, high = keep_sign(dot.low - error, dot.high + error, dot.nonnegative, dot.nonpositive)
    low, high = np.where(never_finite, np.inf, low), np.where(never_finite, -np.inf, high)
    result = Range(format, shape, grid, low, high, np.broadcast_to(special, low.shape))
    report_partial_overflow(op, result, dot.below - error, dot.above + error)
    return result


def parse(equation: str, ranks: Sequence[int]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """The labels of the operands' axes and of the result's; those of an ellipsis are its axes counted from its end."""
    equation = equation.replace(" ", "")
    left, arrow, right = equation.partition("->")
    written = left.split(",")
    if len(written) != len(ranks):
        raise NotAnalysed(f"the equation {equation} has {len(written)} terms for {len(ranks)} operands")
    terms: list[tuple[str, ...]] = []
    widest = 0
    for term, rank in zip(written, ranks):
        before, dots, after = term.partition("...")
        hidden = rank - len(before) - len(after)
        if hidden < 0 or (hidden and not dots):
            raise NotAnalysed(f"term {term} of the equation does not fit an operand of rank {rank}")
        widest = max(widest, hidden)
        terms.append((*before, *_hidden_labels(hidden), *after))
    ellipsis = _hidden_labels(widest)
    if arrow:
        before, dots, after = right.partition("...")
        return terms, (*before, *(ellipsis if dots else ()), *after)
    letters = [label for term in terms for label in term if label not in ellipsis]
    once = sorted(label for label in set(letters) if letters.count(label) == 1)
    return terms, (*ellipsis, *once)


def _hidden_labels(count: int) -> tuple[str, ...]:
    return tuple(f".{i}" for i in range(count, 0, -1))


@dataclass(frozen=True, slots=True)
class Labels:
    """Size and cuts of every label."""

    sizes: dict[str, Size]
    cuts: dict[str, Cuts]

    @classmethod
    def of(cls, operands: Sequence[Range], terms: Sequence[tuple[str, ...]], output: tuple[str, ...]) -> Labels:
        sizes: dict[str, Size] = {}
        for x, term in zip(operands, terms):
            for label, size in zip(term, x.shape or ()):
                sizes[label] = broadcast_size(sizes.get(label, 1), size)
        missing = [label for label in output if label not in sizes]
        if missing:
            raise NotAnalysed(f"label {missing[0]} of the result is in no operand")
        cuts: dict[str, Cuts] = {label: np.zeros(1, np.int64) if size == 0 else None for label, size in sizes.items()}
        for x, term in zip(operands, terms):
            for label, size, own in zip(term, x.shape or (), x.grid):
                if size == sizes[label]:
                    cuts[label] = union(cuts[label], own)
        self = cls(sizes, cuts)
        groups = [set(output), *({*a, *b} for a, b in itertools.pairwise(terms))]
        for group, budget in zip(groups, (CELL_BUDGET, *(_WORK,) * len(terms))):
            while math.prod(map(self.cells, group)) > budget:
                cuts[max(group, key=self.cells)] = None
        return self

    def cells(self, label: str) -> int:
        cuts = self.cuts[label]
        return 1 if cuts is None else len(cuts) - 1

    def count(self, labels: Iterable[str]) -> tuple[int, int]:
        """The fewest and the most elements that these labels together stand for."""
        fewest = most = 1
        for label in labels:
            size = self.sizes[label]
            bound = largest(size)
            if bound is None:
                raise UnknownShape("the number of terms of a sum depends on the data")
            fewest, most = fewest * smallest(size), most * bound
        return fewest, most

    def weights(self, label: str) -> Array:
        """The elements of each cell."""
        cuts = self.cuts[label]
        return np.array([float(self.count((label,))[1])]) if cuts is None else np.diff(cuts).astype(np.float64)

    def result(self, format: Format, output: tuple[str, ...], low: Array, high: Array, flags: Flags) -> Range:
        grid = tuple(self.cuts[label] for label in output)
        cells = tuple(self.cells(label) for label in output)
        low, high = np.broadcast_to(low, cells), np.broadcast_to(high, cells)
        shape = tuple(self.sizes[label] for label in output)
        return Range(format, shape, grid, low, high, np.broadcast_to(flags, cells))


@dataclass(frozen=True, slots=True)
class _Part:
    """An operand: arrays with one axis per label. A floating constant is its own bounds, in its own dtype."""

    labels: tuple[str, ...]
    low: Any
    high: Any
    special: Flags
    empty: Any

    @classmethod
    def of(cls, x: Range, term: tuple[str, ...], axes: Labels) -> _Part:
        """The operand on the labels' cells; of an axis that occurs twice the diagonal."""
        if any(size != axes.sizes[label] and size != 1 for size, label in zip(x.shape or (), term)):
            x = x.smash(tuple(i for i, label in enumerate(term) if x.shape and x.shape[i] != axes.sizes[label]))
        merged = tuple(i for i, label in enumerate(term) if axes.cuts[label] is None)
        x = x.smash(merged)
        grid = tuple(axes.cuts[label] if size != 1 else None for label, size in zip(term, x.shape or ()))
        if x.array is not None and x.format.is_float:
            low: Any = x.array
            high: Any = low
            special, empty = np.zeros((1,) * x.rank, np.uint8), np.zeros((1,) * x.rank, np.bool_)
        else:
            low, high, special = (onto_grid(part, x.grid, grid) for part in (x.low, x.high, x.special))
            empty = low > high
            if x.has_special:
                low, high = np.where(empty, 0.0, low), np.where(empty, 0.0, high)
        labels = tuple(dict.fromkeys(term))
        if len(labels) == len(term):
            return cls(labels, low, high, special, empty)
        same = low is high
        low, special, empty = (_diagonal(array, term, labels) for array in (low, special, empty))
        return cls(labels, low, low if same else _diagonal(high, term, labels), special, empty)


def _diagonal(array: Any, term: tuple[str, ...], labels: tuple[str, ...]) -> Any:
    """One axis per label: of axes that share a label, the elements (or cells) where their places agree."""
    axes = list(term)
    for label in labels:
        while axes.count(label) > 1:
            first = axes.index(label)
            second = axes.index(label, first + 1)
            array = np.diagonal(array, axis1=first, axis2=second)
            del axes[second], axes[first]
            axes.append(label)
    return array.transpose([axes.index(label) for label in labels])


@dataclass(frozen=True, slots=True)
class _Whole:
    """The product of some operands; `magnitude` is the sum of absolute terms."""

    labels: tuple[str, ...]
    low: Array
    high: Array
    magnitude: Array


def _matrices(
    a: _Part | _Whole, b: _Part | _Whole, axes: Labels, keep: Collection[str]
) -> tuple[Any, Any, Any, Any, tuple[int, ...], tuple[str, ...]]:
    """Two operands as stacks of matrices that share the contracted labels; the shape and labels of their product."""
    both = [label for label in a.labels if label in b.labels]
    batch = [label for label in both if label in keep]
    shared = [label for label in both if label not in keep]
    rows = [label for label in a.labels if label not in both]
    columns = [label for label in b.labels if label not in both]
    sizes = [axes.cells(label) for label in (*batch, *rows, *columns)]
    shape = (*sizes[: len(batch)], *sizes[len(batch) :])
    low_a, high_a = (_matrix(x, a.labels, batch, rows, shared, axes) for x in (a.low, a.high))
    if a.low is a.high:
        high_a = low_a
    low_b, high_b = (_matrix(x, b.labels, batch, shared, columns, axes) for x in (b.low, b.high))
    if b.low is b.high:
        high_b = low_b
    weight = _weight(axes, shared)
    if (weight != 1.0).any():
        low_a, high_a = low_a * weight, high_a * weight
    return low_a, high_a, low_b, high_b, shape, (*batch, *rows, *columns)


def _weight(axes: Labels, shared: Sequence[str]) -> Array:
    """The elements that each combination of cells of the contracted labels stands for."""
    weight = np.ones(1)
    for label in shared:
        weight = np.multiply.outer(weight, axes.weights(label)).reshape(-1)
    return weight


def _matrix(
    array: Any, labels: tuple[str, ...], batch: Sequence[str], rows: Sequence[str], columns: Sequence[str], axes: Labels
) -> Any:
    order = (*batch, *rows, *columns)
    array = array.transpose([labels.index(label) for label in order])
    array = np.broadcast_to(array, tuple(axes.cells(label) for label in order))
    counts = [math.prod(axes.cells(label) for label in group) for group in (batch, rows, columns)]
    return array.reshape(counts)


def _summed(x: _Whole, need: Collection[str], axes: Labels) -> _Whole:
    """The operand summed over the labels that nobody else needs."""
    drop = [label for label in x.labels if label not in need]
    if not drop:
        return x
    arrays = [x.low, x.high, x.magnitude]
    for label in drop:
        position = x.labels.index(label)
        weight = axes.weights(label).reshape([-1 if i == position else 1 for i in range(len(x.labels))])
        arrays = [(array * weight).sum(axis=position, keepdims=True) for array in arrays]
    positions = tuple(x.labels.index(label) for label in drop)
    low, high, magnitude = (array.squeeze(positions) for array in arrays)
    return _Whole(tuple(label for label in x.labels if label in need), low, high, magnitude)


def _chain(parts: Sequence[_Part], needed: Sequence[set[str]], axes: Labels, output: tuple[str, ...]) -> tuple[_Whole, Array]:
    """All operands multiplied from left to right; and how large intermediate results can be in any order."""
    wholes: list[_Whole] = []
    reaches: list[_Whole] = []
    for part, need in zip(parts, needed):
        low, high = part.low.astype(np.float64), part.high.astype(np.float64)
        magnitude = np.maximum(np.abs(low), np.abs(high))
        wholes.append(_summed(_Whole(part.labels, low, high, magnitude), need, axes))
        reach = np.maximum(magnitude, 1.0) if len(parts) > 1 else magnitude
        reaches.append(_summed(_Whole(part.labels, reach, reach, reach), need, axes))
    return _multiplied(wholes, axes, output), _multiplied(reaches, axes, output).magnitude


def _multiplied(wholes: Sequence[_Whole], axes: Labels, output: tuple[str, ...]) -> _Whole:
    result = wholes[0]
    for index, other in enumerate(wholes[1:], start=1):
        later = set(output).union(*(x.labels for x in wholes[index + 1 :]))
        result = _summed(result, {*later, *other.labels}, axes)
        other = _summed(other, {*later, *result.labels}, axes)
        low_a, high_a, low_b, high_b, shape, labels = _matrices(result, other, axes, later)
        low, high, _ = interval_product(low_a, high_a, low_b, high_b)
        first = _Whole(result.labels, result.magnitude, result.magnitude, result.magnitude)
        second = _Whole(other.labels, other.magnitude, other.magnitude, other.magnitude)
        size_a, _, size_b, _, _, _ = _matrices(first, second, axes, later)
        result = _Whole(labels, *(x.reshape(shape) for x in (low, high, size_a @ size_b)))
    return result


def _chain_error(op: Call, parts: Sequence[_Part], magnitude: Array, terms: int, format: Format) -> Array:
    """The rounding error of a sum, or of sums of products of sums in any order."""
    if len(parts) == 1:
        return summation_error(op, magnitude, terms, format, products=False)
    count = terms + 2 * len(parts)
    analysis = product_growth(2 * count + 8, 2.0**-53)
    if not format.is_float:
        return np.where(magnitude > 2.0**51, np.ceil(analysis * magnitude), 0.0)
    accumulator = op.accumulation(format)
    # Intermediate results may be rounded into the tensor's format, too.
    growth = product_growth(count, accumulator.unit_roundoff) + product_growth(len(parts), format.unit_roundoff)
    lost = accumulator.smallest_normal if op.target.flushes_results else accumulator.smallest_subnormal
    reach = math.prod(max(1.0, float(np.abs(x).max(initial=0.0))) for p in parts for x in (_farthest(p),))
    return (growth + analysis) * magnitude + lost * reach * count * (1.0 + growth)


def _farthest(part: _Part) -> Array:
    return np.maximum(np.abs(part.low), np.abs(part.high)).astype(np.float64)


def _sign_of_terms(parts: Sequence[_Part]) -> tuple[bool, bool]:
    """Whether all terms are >= 0, and whether all are <= 0."""
    sign = 1
    for part in parts:
        if bool((part.low >= 0).all()):
            continue
        if not bool((part.high <= 0).all()):
            return False, False
        sign = -sign
    return sign > 0, sign < 0


def _between(bound: Array, fewest: int, most: int, *, upper: bool = False) -> Array:
    """A bound for the largest number of terms as one for every possible number."""
    if fewest == most:
        return bound
    return np.maximum(bound, bound * fewest / most) if upper else np.minimum(bound, bound * fewest / most)


def _specials(parts: Sequence[_Part], output: tuple[str, ...]) -> tuple[Flags, Any]:
    """The special values that each result uses, and whether one of its factors is never finite."""
    flags: Any = np.zeros((1,) * len(output), np.uint8)
    empty: Any = np.zeros((1,) * len(output), np.bool_)
    for part in parts:
        drop = tuple(i for i, label in enumerate(part.labels) if label not in output)
        kept = [label for label in part.labels if label in output]
        own = np.bitwise_or.reduce(part.special, axis=drop) if drop else part.special
        never = part.empty.any(axis=drop) if drop else part.empty
        flags = flags | _spread(own, kept, output)
        empty = empty | _spread(never, kept, output)
    return flags, empty


def _spread(array: Any, labels: Sequence[str], output: tuple[str, ...]) -> Any:
    """An array with an axis for each label of the result, 1 where it does not depend on it."""
    order = [labels.index(label) for label in output if label in labels]
    shape = iter(array.transpose(order).shape)
    return array.transpose(order).reshape([next(shape) if label in labels else 1 for label in output])


def _ordered(array: Any, labels: Sequence[str], axes: Labels, output: tuple[str, ...]) -> Any:
    """An array of the result with its axes in the order of the equation."""
    return np.broadcast_to(_spread(array, labels, output), tuple(axes.cells(label) for label in output))
