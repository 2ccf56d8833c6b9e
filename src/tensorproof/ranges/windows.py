"""Windows that slide over an axis: which element each tap reads, and the same on cells.

Output o of a window reads, through tap k, one element of the axis or nothing (padding). On a grid many outputs read the
same cells: they form one cell of the result, so a tensor that is uniform along an axis costs one output per pattern of
padding, not one per element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.operators.table import Attributed, Call
from tensorproof.ranges.grid import Cuts
from tensorproof.ranges.range import Range

Integers = npt.NDArray[np.int64]

#: What a tap reads where the window leaves the axis.
NOTHING = -1

#: Axes whose outputs and taps make a larger table than this are taken as one cell.
TABLE_BUDGET = 1 << 20


def any_batch(block: Callable[..., Any]) -> Callable[..., Any]:
    """A block that treats all images of a batch alike, made to work where the size of the batch depends on the data.

    Such an axis has one cell: the block sees a batch of one image, and its first result gets the size back. A second one
    (indices of maxima) counts through the whole batch: it is any number from zero on.
    """

    @wraps(block)
    def widened(op: Call, x: Range, *others: Any) -> Any:
        if x.shape is None or not x.shape or isinstance(x.shape[0], int):
            return block(op, x, *others)
        batch = x.shape[0]
        one = Range(x.format, (1, *x.shape[1:]), x.grid, x.low, x.high, x.special)
        one.norm = x.norm if x.norm is not None and x.norm.axis else None
        result = block(op, one, *others)
        first, *rest = result if isinstance(result, tuple) else (result,)
        assert first.shape is not None
        shape = (batch, *first.shape[1:])
        back = Range(first.format, shape, first.grid, first.low, first.high, first.special)
        back.norm = first.norm if first.norm is not None and first.norm.axis else None
        if not isinstance(result, tuple):
            return back
        return back, *(Range.uniform(shape, part.format, 0.0, part.format.high) for part in rest)

    return widened


@dataclass(frozen=True, slots=True)
class Window:
    """A window along one axis of `size` elements: tap k of output o reads element o * stride + k * dilation - pad.

    `end` is where the padded axis ends (pooling counts taps before it); a transposed window is the adjoint: output o
    reads the elements i with i * stride + k * dilation - pad = o (ONNX Conv-22, ConvTranspose-22).
    """

    size: int
    kernel: int
    stride: int
    dilation: int
    pad: int
    output: int
    end: int
    transposed: bool = False

    @property
    def span(self) -> int:
        """How many elements lie between the first and the last tap, both included."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def reach(self) -> int:
        """The size of a padded axis that ends with the last window (not for transposed windows)."""
        return (self.output - 1) * self.stride + self.span

    @property
    def reaches_padding(self) -> bool:
        """Whether a tap of some output reads nothing (not for transposed windows)."""
        last = (self.output - 1) * self.stride - self.pad + (self.kernel - 1) * self.dilation
        return self.pad > 0 or last >= self.size

    def positions(self, outputs: Integers) -> Integers:
        """Where the taps of these outputs stand, padding included; one row per output (not for transposed windows)."""
        return (outputs * self.stride - self.pad)[:, None] + np.arange(self.kernel) * self.dilation

    def reads(self, outputs: Integers) -> Integers:
        """The element that each tap of these outputs reads, NOTHING where there is none; one row per output."""
        if self.transposed:
            shifted = outputs[:, None] + self.pad - np.arange(self.kernel) * self.dilation
            elements = shifted // self.stride
            inside = (shifted % self.stride == 0) & (elements >= 0) & (elements < self.size)
        else:
            elements = self.positions(outputs)
            inside = (elements >= 0) & (elements < self.size)
        return np.where(inside, elements, NOTHING)

    def representatives(self) -> Integers:
        """Outputs that show every pattern of taps inside and outside the axis: those near both ends, and one period."""
        reach = max(abs(self.pad), self.end - self.size) + self.kernel * self.dilation + 2 * self.stride
        if not self.transposed:
            reach = reach // self.stride + 2
        if self.output <= 2 * reach:
            return np.arange(self.output, dtype=np.int64)
        return np.concatenate((np.arange(reach), np.arange(self.output - reach, self.output))).astype(np.int64)


@lru_cache(maxsize=1024)
def taps_inside(window: Window) -> tuple[int, int]:
    """The fewest and the most taps of an output that read an element (at most its kernel)."""
    if not window.transposed and not window.reaches_padding:
        return window.kernel, window.kernel
    inside = (window.reads(window.representatives()) >= 0).sum(axis=1)
    return int(inside.min(initial=window.kernel)), int(inside.max(initial=0))


class Taps(NamedTuple):
    """What the taps of a window read on cells, one row per kind of output.

    `cells` holds numbers of cells, or NOTHING. Rows are the cells of the result along `cuts`, or, where `joined`, the
    alternatives of its one cell.
    """

    cells: Integers
    cuts: Cuts
    joined: bool


def taps_on_cells(window: Window, cuts: Cuts) -> Taps:
    """Every output of a window on an axis with these cells; outputs that read the same cells become one cell."""
    outputs = np.arange(window.output, dtype=np.int64)
    elements = window.reads(outputs)
    if cuts is None:
        cells = np.where(elements >= 0, 0, NOTHING)
    else:
        cells = np.where(elements >= 0, np.searchsorted(cuts, elements, side="right") - 1, NOTHING)
    return merge_rows(cells)


def merge_rows(cells: Integers) -> Taps:
    """Rows that equal their predecessor merged; an axis without outputs has no cell."""
    if not len(cells):
        return Taps(cells, np.zeros(1, np.int64), False)
    starts = np.flatnonzero(np.concatenate(([True], (cells[1:] != cells[:-1]).any(axis=1))))
    merged = None if len(starts) == 1 else np.append(starts, len(cells)).astype(np.int64)
    return Taps(cells[starts], merged, False)


def taps_on_one_cell(window: Window, *, with_zero: bool) -> Taps:
    """The patterns in which outputs of a window read an axis of one cell.

    If the cell holds zero (`with_zero`), a tap that reads nothing gives one of the values of a tap that reads the cell,
    and patterns that another one contains are left out.
    """
    patterns = np.unique(window.reads(window.representatives()) >= 0, axis=0)
    if with_zero and len(patterns) <= 256:
        contained = np.all(patterns[:, None, :] <= patterns[None, :, :], axis=2) & ~np.eye(len(patterns), dtype=bool)
        patterns = patterns[~np.any(contained, axis=1)]
    return Taps(np.where(patterns, 0, NOTHING), None, True)


def taps_as_hull(window: Window) -> Taps:
    """One row for an axis of one cell: 0 where a tap always reads it, 1 where it may also read nothing."""
    inside = window.reads(window.representatives()) >= 0
    always, ever = inside.all(axis=0), inside.any(axis=0)
    return Taps(np.where(always, 0, np.where(ever, 1, NOTHING))[None, :], None, True)


def sliding_windows(op: Attributed, sizes: Sequence[int], kernel: Sequence[int], *, ceil_mode: bool = False) -> list[Window]:
    """The windows of a convolution or pooling along its spatial axes, from the node's attributes."""
    rank = len(sizes)
    strides = op.attribute("strides") or [1] * rank
    dilations = op.attribute("dilations") or [1] * rank
    pads = op.attribute("pads") or [0] * (2 * rank)
    auto_pad = op.attribute("auto_pad", "NOTSET") or "NOTSET"
    if not len(strides) == len(dilations) == len(kernel) == rank or len(pads) != 2 * rank:
        raise NotAnalysed("strides, dilations, pads or kernel_shape do not fit the rank")
    windows: list[Window] = []
    for axis in range(rank):
        size, taps, stride, dilation = int(sizes[axis]), int(kernel[axis]), int(strides[axis]), int(dilations[axis])
        span = (taps - 1) * dilation + 1
        begin, end = int(pads[axis]), int(pads[rank + axis])
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            output = -(-size // stride)
            needed = max(0, (output - 1) * stride + span - size)
            begin = needed // 2 if auto_pad == "SAME_UPPER" else (needed + 1) // 2
            end = needed - begin
        else:
            if auto_pad == "VALID":
                begin = end = 0
            # ceil((n - span + 1) / stride) of VALID is the floor of explicit padding, whatever ceil_mode says.
            rounds_up = ceil_mode and auto_pad != "VALID"
            free = size + begin + end - span
            output = (-(-free // stride) if rounds_up else free // stride) + 1
            # "Sliding windows that would start in the right padded region are ignored" (ONNX AveragePool-22).
            if rounds_up and (output - 1) * stride >= size + begin:
                output -= 1
        if output < 0 or stride < 1 or taps < 1:
            raise NotAnalysed("the kernel does not fit the tensor")
        windows.append(Window(size, taps, stride, dilation, begin, output, size + end))
    return windows
