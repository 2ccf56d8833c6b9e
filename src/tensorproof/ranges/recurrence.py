"""Layers of recurrent cells: operands in one layout, all directions, and the results.

The steps of one direction are in `tensorproof.ranges.unrolling`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tensorproof.errors import NotAnalysed, UnknownShape
from tensorproof.formats import Array, Format
from tensorproof.operators.table import Call
from tensorproof.ranges.cells import Activation, Arithmetic, Box, plain, read_activations
from tensorproof.ranges.gate_weights import Matrix, Sums, Whole, magnitudes
from tensorproof.ranges.grid import Cuts, Size, largest, union
from tensorproof.ranges.range import CELL_BUDGET, SPECIALS, Range
from tensorproof.ranges.slices import element_at, stacked
from tensorproof.ranges.unrolling import State, Step, Unrolled, Weights
from tensorproof.ranges.weights import LARGE, Channels, channels, is_large


class Layer:
    """Operands brought to one layout: time, batch, features; directions one after the other.

    `bounding` is the position of the activation that bounds the hidden units.
    """

    def __init__(
        self,
        op: Call,
        gates: int,
        defaults: Sequence[str],
        bounding: int,
        x: Range,
        w: Range,
        r: Range,
        b: Range | None,
        lengths: Range | None,
        initial: Sequence[Range | None],
        p: Range | None = None,
    ) -> None:
        self.op = op
        self.summarises = op.abstraction.weights == "channel"
        self.bounding = bounding
        self.format: Format = x.format
        self.batch_first = bool(op.attribute("layout", 0))
        operands = [x, w, r, b, p, *initial]
        self.has_special = any(operand is not None and operand.has_special for operand in operands)
        x, w, r = _finite(x), _finite(w), _finite(r)
        b, p = (None if y is None else _finite(y) for y in (b, p))
        initial = [None if y is None else _finite(y) for y in initial]
        if self.batch_first:
            x = _permuted(x, (1, 0, 2))
            initial = [None if y is None else _permuted(y, (1, 0, 2)) for y in initial]
        if x.shape is None or len(x.shape) != 3:
            raise UnknownShape("the rank of the input sequence is not known")
        self.directions, rows, self.features = w.sizes
        self.hidden = r.sizes[2]
        if rows != gates * self.hidden or x.shape[2] != self.features:
            raise NotAnalysed("weights that do not fit the input sequence")
        clip = op.attribute("clip")
        self.arithmetic = Arithmetic(op, self.format, None if clip is None or clip <= 0 else float(clip))
        self.activations = read_activations(op, defaults, self.directions)
        self.gates = gates
        self.steps: Size = x.shape[0]
        self.batch: Size = x.shape[1]
        self.weights = w, r, b, p
        # One column for all units, or one for each.
        alike = all(y is None or set(y.cells[1:]) <= {1} for y in (w, r, b, p)) and self.hidden > 1
        alike = alike and all(y is None or y.cells[2] == 1 for y in initial) and x.cells[2] == 1
        self.units = 1 if alike else self.hidden
        self.x, self.initial, self.lengths = self._grouped(x, initial, lengths)

    # -- operands ---------------------------------------------------------------------------------------------------

    def _grouped(
        self, x: Range, initial: Sequence[Range | None], lengths: Range | None
    ) -> tuple[Range, list[Range | None], tuple[Array, Array] | None]:
        """Batch entries for which all operands are alike form one group, a row of every array."""
        cuts: Cuts = x.grid[1]
        for y in initial:
            cuts = union(cuts, None if y is None else y.grid[1])
        if lengths is not None and lengths.shape is not None:
            cuts = union(cuts, lengths.grid[0])
        groups = 1 if cuts is None else len(cuts) - 1
        if groups * self.units > CELL_BUDGET:
            cuts, x = None, x.smash((1,))
            initial = [None if y is None else y.smash((1,)) for y in initial]
            lengths = None if lengths is None else lengths.smash()
        self.batch_cuts = cuts
        if cuts is not None:
            x = x.refine(1, cuts)
            initial = [None if y is None else y.refine(1, cuts) for y in initial]
            lengths = None if lengths is None else lengths.refine(0, cuts)
        self.groups = 1 if cuts is None else len(cuts) - 1
        if lengths is None:
            return x, list(initial), None
        most = largest(self.steps)
        low, high = np.broadcast_to(lengths.low, self.groups), np.broadcast_to(lengths.high, self.groups)
        return x, list(initial), (np.clip(low, 0, most), np.clip(high, 0, most))

    def columns(self, x: Range, axis: int, size: int) -> Box:
        """The bounds of a matrix with one column per feature or unit (one for all where all are alike)."""
        low, high = x.low, x.high
        if self.units != self.hidden and x.cells[axis] == 1:
            return Box(low, high)
        cuts = x.grid[axis]
        if cuts is None:
            shape = (*low.shape[:axis], size, *low.shape[axis + 1 :])
            return Box(np.broadcast_to(low, shape), np.broadcast_to(high, shape))
        if len(cuts) - 1 == size:
            return Box(low, high)
        return Box(np.repeat(low, np.diff(cuts), axis), np.repeat(high, np.diff(cuts), axis))

    def _direction(self, direction: int) -> Weights:
        w, r, b, p = self.weights
        gates = self.gates
        bias = self._rows(None if b is None else element_at(b, 0, direction), 2 * gates)
        width = gates * self.units
        return Weights(
            self._matrix(w, direction, self.features),
            self._matrix(r, direction, self.hidden),
            (plain(bias.units(0, width)), plain(bias.units(width, 2 * width))),
            None if p is None else self._rows(element_at(p, 0, direction), 3),
        )

    def _rows(self, x: Range | None, blocks: int) -> Box:
        """A vector of several blocks of units as one row."""
        size = blocks * self.hidden
        if x is None:
            zeros = np.zeros((1, blocks * self.units))
            return Box(zeros, zeros)
        if self.units != self.hidden:
            shape = (1, blocks)
            return Box(np.broadcast_to(x.low, shape), np.broadcast_to(x.high, shape))
        box = self.columns(x, 0, size)
        return Box(box.low.reshape(1, size), box.high.reshape(1, size))

    def _matrix(self, x: Range, direction: int, size: int) -> Matrix:
        """The weight matrix of one direction, transposed: one column per gate and unit."""
        if self.units != self.hidden:
            part = element_at(x, 0, direction)
            shape = (1, self.gates)
            return Whole(Box(np.broadcast_to(part.low, shape), np.broadcast_to(part.high, shape)), size)
        if self.summarises and x.array is not None and is_large(x.array):
            sums = channels(x.array, (2,))
            row = direction
            return Sums(Channels(sums.total[row], sums.error[row], sums.absolute[row]), size)
        part = element_at(x, 0, direction)
        if part.array is not None:
            point = part.low.T
            return Whole(Box(point, point))
        box = self.columns(part, 1, size)
        rows = Range(x.format, part.shape, (part.grid[0], None), box.low, box.high)
        box = self.columns(rows, 0, self.gates * self.hidden)
        low, high = np.ascontiguousarray(box.low.T), np.ascontiguousarray(box.high.T)
        if self.summarises and low.size > LARGE:
            return Sums(magnitudes(low, high), size)
        return Whole(Box(low, high))

    # -- iteration --------------------------------------------------------------------------------------------------

    def run(self, cell: Callable[[Weights, Sequence[Activation]], Step]) -> tuple[Range, ...]:
        """Y with all hidden states, and the last state: Y_h, and Y_c for LSTM."""
        kind = str(self.op.attribute("direction", "forward")).lower()
        if kind not in ("forward", "reverse", "bidirectional") or self.directions != 1 + (kind == "bidirectional"):
            raise NotAnalysed(f"direction {kind} with {self.directions} sets of weights")
        outputs: list[Range] = []
        states: list[State] = []
        for direction in range(self.directions):
            weights = self._direction(direction)
            backwards = kind == "reverse" or direction == 1
            start = tuple(self._start(y, direction) for y in self.initial)
            functions = self.activations[direction]
            sequence = Unrolled(self, weights, cell(weights, functions), functions[self.bounding], backwards)
            states.append(sequence.run(start))
            outputs.append(sequence.output())
        self.arithmetic.report()
        whole = stacked([(y, 1) for y in outputs], 1)
        last = [stacked([(self.range(s[i]), 1) for s in states], 0) for i in range(len(self.initial))]
        if self.batch_first:
            whole = _permuted(whole, (2, 0, 1, 3))
            last = [_permuted(y, (1, 0, 2)) for y in last]
        bits = SPECIALS if self.has_special else 0
        return tuple(y.with_special(bits) for y in (whole, *last))

    def _start(self, initial: Range | None, direction: int) -> Box:
        if initial is None:
            zeros = np.zeros((self.groups, self.units))
            return Box(zeros, zeros)
        box = self.columns(element_at(initial, 0, direction), 1, self.hidden)
        shape = (self.groups, self.units)
        return Box(np.broadcast_to(box.low, shape), np.broadcast_to(box.high, shape))

    def range(self, box: Box) -> Range:
        """One state as a tensor of shape [batch, hidden]."""
        if self.hidden == 0:
            grid = (self.batch_cuts, np.zeros(1, np.int64))
        else:
            grid = (self.batch_cuts, None if self.units == 1 else np.arange(self.hidden + 1, dtype=np.int64))
        return Range(self.format, (self.batch, self.hidden), grid, box.low, box.high)


def _finite(x: Range) -> Range:
    """Special values as "any number": what an infinite operand gives is not followed through the gates."""
    if not x.has_special:
        return x
    here = x.special != 0
    low, high = np.minimum(x.low, x.format.low), np.maximum(x.high, x.format.high)
    return x.replace(np.where(here, low, x.low), np.where(here, high, x.high), None)


def _permuted(x: Range, order: Sequence[int]) -> Range:
    """The axes of a tensor in another order."""
    if x.shape is None or len(x.shape) != len(order):
        raise UnknownShape("the rank is not known")
    if x.array is not None:
        return Range.constant(np.transpose(x.array, order), x.format)
    shape, grid = tuple(x.shape[i] for i in order), tuple(x.grid[i] for i in order)
    special = np.transpose(x.special, order) if x.has_special else None
    return Range(x.format, shape, grid, np.transpose(x.low, order), np.transpose(x.high, order), special)
