"""The arithmetic of a reshape: which boundaries of cells survive when axes are merged and split.

A reshape falls into blocks of neighbouring axes that become other axes of the same total size; each block is independent of
the others. A result has as many cells as the boundaries that survive; where they would be too many, those of the innermost
axes are given up first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.ranges.grid import Cuts, counts
from tensorproof.ranges.range import CELL_BUDGET

Integers = npt.NDArray[np.int64]


def tidy(cuts: npt.NDArray[Any] | Sequence[int]) -> Cuts:
    """Boundaries in their one canonical form: None for a single cell."""
    cuts = np.asarray(cuts, np.int64)
    return None if len(cuts) == 2 else cuts


@dataclass(frozen=True, slots=True)
class Part:
    """One block of a reshape: the boundaries of its target axes, and for each target cell the source cell it lies in.

    `cells` counts the source cells of the block. Those of the axes `lost` (numbers into `axis_cells`) are merged first.
    """

    cells: int
    cuts: list[Cuts]
    index: Integers
    is_unchanged: bool = False
    is_merged: bool = False
    axis_cells: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()

    def merged(self) -> Part:
        return Part(self.cells, [None] * len(self.cuts), np.zeros(1, np.int64), is_merged=True)

    def apply(self, array: npt.NDArray[Any], axis: int, merge: np.ufunc) -> npt.NDArray[Any]:
        """An array whose one axis runs over the source cells, with that axis over the target cells."""
        if self.is_unchanged:
            return array
        if self.is_merged:
            return merge.reduce(array, axis=axis, keepdims=True)
        if self.lost:
            before, after = array.shape[:axis], array.shape[axis + 1 :]
            array = array.reshape(*before, *self.axis_cells, *after)
            for i in self.lost:
                array = merge.reduce(array, axis=axis + i, keepdims=True)
            array = array.reshape(*before, -1, *after)
        return np.take(array, self.index.reshape(-1), axis=axis)


_Axis = tuple[int, Cuts]


def blocks(source: list[_Axis], target: list[int]) -> list[tuple[list[_Axis], list[int]]]:
    """Pairs of source and target axes of equal total size, as short as possible. An axis of one cell splits freely."""
    blocks: list[tuple[list[_Axis], list[int]]] = []
    rest = list(reversed(source))
    wanted = list(reversed(target))
    while wanted:
        old = [rest.pop()]
        new = [wanted.pop()]
        have, want = old[0][0], new[0]
        while have != want:
            size, cuts = old[-1]
            before = have // size
            if have > want and cuts is None and want % before == 0 and size % (want // before) == 0:
                old[-1] = (want // before, None)
                rest.append((size // (want // before), None))
                have = want
            elif have < want:
                if not rest:
                    raise NotAnalysed("a reshape to another number of elements")
                old.append(rest.pop())
                have *= old[-1][0]
            else:
                if not wanted:
                    raise NotAnalysed("a reshape to another number of elements")
                new.append(wanted.pop())
                want *= new[-1]
        blocks.append((old, new))
    if rest:
        raise NotAnalysed("a reshape to another number of elements")
    return blocks


def split_block(source: list[_Axis], target: list[int]) -> Part:
    """The cells of one block after the reshape, each inside one source cell."""
    cell_counts = [1 if cuts is None else len(cuts) - 1 for _, cuts in source]
    cells = math.prod(cell_counts)
    if cells == 1:
        return Part(1, [None] * len(target), np.zeros(1, np.int64), is_unchanged=True)
    if len(source) == len(target) == 1:
        return Part(cells, [source[0][1]], np.arange(cells), is_unchanged=True)
    # Boundaries that do not survive at a bearable number of cells are given up from the inside out.
    for kept in range(len(source), 0, -1):
        axes = [(size, cuts if i < kept else None) for i, (size, cuts) in enumerate(source)]
        innermost = max((i for i, (_, cuts) in enumerate(axes) if cuts is not None), default=None)
        if innermost is None:
            break
        cuts = axes[innermost][1]
        assert cuts is not None
        outer = math.prod(size for size, _ in axes[:innermost])
        inner = math.prod(size for size, _ in axes[innermost + 1 :])
        if outer * (len(cuts) - 1) > CELL_BUDGET:
            continue
        period = axes[innermost][0] * inner
        flat = (np.arange(outer)[:, None] * period + cuts[:-1] * inner).reshape(-1)
        new_cuts = _unflatten(np.append(flat, outer * period), target)
        if math.prod(counts(tuple(new_cuts))) > CELL_BUDGET:
            continue
        index = _source_cells(axes, target, new_cuts)
        lost = tuple(i for i in range(kept, len(source)) if cell_counts[i] > 1)
        return Part(cells, new_cuts, index, axis_cells=tuple(cell_counts), lost=lost)
    return Part(cells, [None] * len(target), np.zeros(1, np.int64), is_merged=True)


def _unflatten(flat: Integers, target: list[int]) -> list[Cuts]:
    """Boundaries of each target axis such that every cell lies between two neighbouring boundaries of the flat axis."""
    result: list[Cuts] = []
    inner = math.prod(target)
    for size in target:
        inner //= size
        rows, rest = np.divmod(flat, inner)
        broken = rest != 0
        # A row with a boundary inside is a cell of its own; whole rows stay together up to the next boundary.
        result.append(tidy(np.unique(np.concatenate([rows, rows[broken] + 1]))))
        flat = np.unique(np.concatenate([np.array([0, inner], np.int64), rest[broken]]))
    return result


def _source_cells(axes: list[_Axis], target: list[int], cuts: list[Cuts]) -> Integers:
    """For each cell of the target grid the flat number of the source cell that its first element lies in."""
    first = np.zeros((), np.int64)
    for size, boundaries in zip(target, cuts):
        starts = np.zeros(1, np.int64) if boundaries is None else boundaries[:-1]
        first = first[..., None] * size + starts
    number = np.zeros_like(first)
    stride = math.prod(size for size, _ in axes)
    for size, boundaries in axes:
        stride //= size
        position = first // stride % size
        if boundaries is not None:
            cell = np.searchsorted(boundaries, position, side="right") - 1
            number = number * (len(boundaries) - 1) + cell
    return number
