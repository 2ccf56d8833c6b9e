"""Products over labelled axes by the sums of a large constant's elements alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tensorproof.formats import Array
from tensorproof.ranges.folds import onto_grid, product_flags
from tensorproof.ranges.grid import Cuts, Grid, counts, union
from tensorproof.ranges.range import Flags, Range
from tensorproof.ranges.sums import Dot
from tensorproof.ranges.weights import Channels, channels, is_large, signs


class LabelledProduct(NamedTuple):
    """A product in exact arithmetic over the grid of its result; `never_finite` marks what uses no finite operand."""

    shape: tuple[int, ...]
    grid: Grid
    dot: Dot
    special: Flags
    never_finite: Any
    terms: int


def summarised_dot(weights: npt.NDArray[Any], fixed: Channels, low: Array, high: Array) -> Dot:
    """The products of one interval per channel with all weights of the channel, of which only sums and ends are known."""
    up, down = signs(weights)
    least, most, magnitude = fixed.times(low, high)
    nonnegative = ((low >= 0.0) & up) | ((high <= 0.0) & down)
    nonpositive = ((low >= 0.0) & down) | ((high <= 0.0) & up)
    return Dot(least, most, magnitude, nonnegative, nonpositive, *fixed.partial_sums(low, high))


def labelled_product(
    operands: Sequence[Range], labels: Sequence[tuple[str, ...]], output: tuple[str, ...], cells: int
) -> LabelledProduct | None:
    """The product of a range and a large constant, summed over the labels that the result does not have.

    None if it is not of that form: no diagonals, no labels of one operand alone that are summed, no sizes that broadcast.
    Where the result would have more cells than `cells`, the range is one interval.
    """
    if len(operands) != 2 or any(len(set(term)) != len(term) for term in labels) or len(set(output)) != len(output):
        return None
    place = next((i for i in (1, 0) if is_large(operands[i].array) and operands[1 - i].array is None), None)
    if place is None or not operands[1 - place].has_known_shape:
        return None
    w, x = operands[place], operands[1 - place]
    of_w, of_x = labels[place], labels[1 - place]
    sizes = dict(zip(of_w, w.sizes))
    if any(sizes.setdefault(label, size) != size for label, size in zip(of_x, x.sizes)) or set(output) - set(sizes):
        return None
    summed = [label for label in sizes if label not in output]
    if any(label not in of_w or label not in of_x for label in summed):
        return None
    x = x.smash(tuple(i for i, label in enumerate(of_x) if label in summed))
    if math.prod(x.cells) * math.prod(sizes[label] for label in of_w if label in output) > cells:
        x = x.smash()
    cuts: dict[str, Cuts] = dict.fromkeys(sizes)
    for term, grid in ((of_x, x.grid), (of_w, w.grid)):
        cuts |= {label: union(cuts[label], own) for label, own in zip(term, grid) if label not in summed}
    of_x_kept = [label for label in of_x if label not in summed]
    drop = tuple(i for i, label in enumerate(of_x) if label in summed)

    def over_output(array: Any, term: Sequence[str]) -> Any:
        """An array over the kept labels of an operand with one axis for each label of the result."""
        order = [term.index(label) for label in output if label in term]
        sizes_there = iter(array.transpose(order).shape)
        return array.transpose(order).reshape([next(sizes_there) if label in term else 1 for label in output])

    fine = tuple(None if label in summed else cuts[label] for label in of_x)
    low, high, special = (
        over_output(np.squeeze(onto_grid(part, x.grid, fine), drop), of_x_kept) for part in (x.low, x.high, x.special)
    )
    never_finite = low > high
    low, high = np.where(never_finite, 0.0, low), np.where(never_finite, 0.0, high)
    assert w.array is not None
    found = channels(w.array, [i for i, label in enumerate(of_w) if label in summed])
    of_w_kept = [label for label in of_w if label not in summed]
    fixed = found.mapped(lambda array: over_output(array, of_w_kept))
    dot = summarised_dot(w.array, fixed, low, high)
    grid = tuple(cuts[label] for label in output)
    shape = tuple(sizes[label] for label in output)
    assert dot.low.shape == counts(grid)
    terms = math.prod(sizes[label] for label in summed)
    return LabelledProduct(shape, grid, dot, product_flags(special), never_finite & (terms > 0), terms)
