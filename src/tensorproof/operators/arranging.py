"""`Arranged`: an operand in the order of axes that our operators expect, of frameworks whose layouts are others.

TensorFlow and JAX put channels last and kernels as (height, width, in, out); ONNX has (batch, channels, space) and
(out, in, space). A constant of the program is rearranged while the program is read, everything else by nodes of the graph:
variables of a training step stay what they are, and weights keep their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.frontends.calls import OperatorCall

#: More than any axis has: the end of a slice that goes on to the end.
_BEYOND = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Arranged:
    """A value of the graph, or (`array`) a constant that has not been entered yet."""

    call: OperatorCall
    value: int
    array: npt.NDArray[Any] | None = None

    @property
    def number(self) -> int:
        """The value in the graph."""
        return self.value if self.array is None else self.call.constant(np.ascontiguousarray(self.array))

    def transposed(self, order: Sequence[int]) -> Arranged:
        """The axes in another order."""
        if list(order) == list(range(len(order))):
            return self
        if self.array is not None:
            return replace(self, array=self.array.transpose(order))
        return replace(self, value=self.call.moved("Transpose", self.value, perm=list(order)))

    def reshaped(self, sizes: Sequence[int]) -> Arranged:
        """The elements under another shape; -1 for what is left over."""
        if self.array is not None:
            return replace(self, array=self.array.reshape(sizes))
        return replace(self, value=self.call.reshaped(self.value, list(sizes)))

    def flipped(self, axes: Sequence[int]) -> Arranged:
        """Some axes backwards."""
        if not axes:
            return self
        if self.array is not None:
            return replace(self, array=np.flip(self.array, tuple(axes)))
        starts, ends, steps = ([number] * len(axes) for number in (-1, -_BEYOND, -1))
        operands = (self.call.integers(part) for part in (starts, ends, list(axes), steps))
        return replace(self, value=self.call.moved("Slice", self.value, *operands))

    def cut(self, starts: Sequence[int], stops: Sequence[int], axes: Sequence[int], steps: Sequence[int] | None = None) -> Arranged:
        """Parts of some axes: `starts` elements left out in front, `stops` behind, every `steps`-th of the rest."""
        steps = [1] * len(axes) if steps is None else steps
        if not any(starts) and not any(stops) and all(step == 1 for step in steps):
            return self
        ends = [-stop if stop else _BEYOND for stop in stops]
        if self.array is not None:
            pieces: list[slice] = [slice(None)] * self.array.ndim
            for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
                pieces[axis] = slice(start, end, step)
            return replace(self, array=self.array[tuple(pieces)])
        operands = (self.call.integers(list(part)) for part in (starts, ends, axes, steps))
        return replace(self, value=self.call.moved("Slice", self.value, *operands))


def inverse_of(order: Sequence[int]) -> list[int]:
    """The order that undoes another one."""
    return [list(order).index(axis) for axis in range(len(order))]


def channels_first(rank: int) -> list[int]:
    """The order of axes that brings channels from the end to their place behind the batch."""
    return [0, rank - 1, *range(1, rank - 1)]


def channels_last(rank: int) -> list[int]:
    """The order of axes that brings channels from behind the batch to the end."""
    return [0, *range(2, rank), 1]


def sizes_of(shape: Sequence[Any] | None, what: str) -> tuple[int, ...]:
    """A shape all of whose sizes are fixed."""
    if shape is None or not all(isinstance(size, int) for size in shape):
        raise NotAnalysed(f"the sizes of {what} are not fixed")
    return tuple(int(size) for size in shape)
