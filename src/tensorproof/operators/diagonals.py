"""Diagonals of matrices as TensorFlow reads and writes them: one of them or a band, aligned to the left or to the right.

Sizes of matrices and the numbers of diagonals are known, so all of them pick elements at known positions: those of the matrix or
of the diagonals as one row, behind which stands what fills the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.frontends.calls import Handle
from tensorproof.operators.indexing import gather

if TYPE_CHECKING:
    from tensorproof.frontends.tensorflow_call import TensorflowCall

_Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Band:
    """Diagonals `first` to `last` (0 is the main one, positive ones stand above it) of matrices of `rows` and `columns`.

    They are stored from the upper one on, in rows as long as the longest of them (TensorFlow's MatrixDiagPartV3).
    """

    rows: int
    columns: int
    first: int
    last: int
    align: str

    @property
    def length(self) -> int:
        return min(self.rows + min(self.last, 0), self.columns - max(self.first, 0))

    @property
    def count(self) -> int:
        return self.last - self.first + 1

    def elements(self) -> Iterator[tuple[int, int]]:
        """Positions of each element of the diagonals: among the stored ones, and in the matrix as a row."""
        for diagonal in range(self.first, self.last + 1):
            own = min(self.rows + min(diagonal, 0), self.columns - max(diagonal, 0))
            above, below = self.align.split("_")
            is_right = (above == "RIGHT" and diagonal >= 0) or (below == "RIGHT" and diagonal <= 0)
            start = self.length - own if is_right else 0
            for place in range(own):
                stored = (self.last - diagonal) * self.length + start + place
                yield stored, (place + max(-diagonal, 0)) * self.columns + place + max(diagonal, 0)


def _diagonals(call: TensorflowCall, index: int) -> tuple[int, int]:
    """The first and the last diagonal, the main one where version 1 names none."""
    if len(call) <= index:
        return 0, 0
    named = call.integers_of(index)
    return named[0], named[-1]


def _align(call: TensorflowCall) -> str:
    return str(call.attribute("align", "RIGHT_LEFT")) if call.name.endswith("V3") else "LEFT_LEFT"


def _matrix(call: TensorflowCall, index: int) -> tuple[list[int | Handle], int, int]:
    """Sizes of a batch of matrices, their rows and columns."""
    *batch, rows, columns = call.sizes(index)
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise NotAnalysed("diagonals of matrices whose size is not fixed")
    return batch, rows, columns


def _picked(call: TensorflowCall, batch: list[int | Handle], parts: list[int], positions: _Positions, sizes: list[int]) -> int:
    """Elements of tensors with one axis behind the batch, joined, at positions; under another shape behind the batch."""
    joined = call.moved("Concat", *parts, axis=-1) if len(parts) > 1 else parts[0]
    found = call.moved("Gather", joined, call.constant(positions.reshape(-1)), axis=len(batch))
    return call.reshaped(found, [*batch, *sizes])


def _filler(call: TensorflowCall, index: int, batch: list[int | Handle]) -> int:
    """One number for each matrix: zero, or the operand."""
    number = call.operand(index) if len(call) > index else call.constant(np.zeros(()), call.format())
    return call.moved("Expand", number, call.integers([*batch, 1]))


def _flat(call: TensorflowCall, x: int, batch: list[int | Handle], count: int) -> int:
    return call.reshaped(x, [*batch, count])


@gather.tensorflow("MatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3")
def _(call: TensorflowCall) -> int:
    """The diagonals of each matrix."""
    batch, rows, columns = _matrix(call, 0)
    band = _Band(rows, columns, *_diagonals(call, 1), _align(call))
    positions = np.full(band.count * band.length, rows * columns, np.int64)
    for stored, place in band.elements():
        positions[stored] = place
    sizes = [band.length] if band.count == 1 else [band.count, band.length]
    flat = _flat(call, call.operand(0), batch, rows * columns)
    return _picked(call, batch, [flat, _filler(call, 2, batch)], positions, sizes)


@gather.tensorflow("MatrixDiag", "MatrixDiagV2", "MatrixDiagV3")
def _(call: TensorflowCall) -> int:
    """Matrices of given diagonals; as small as these allow where no size is given, and then square."""
    first, last = _diagonals(call, 1)
    sizes = call.sizes(0)
    batch, length = sizes[: -1 if first == last else -2], sizes[-1]
    if not isinstance(length, int):
        raise NotAnalysed("diagonals whose length is not fixed")
    rows, columns = (call.integers_of(index)[0] if len(call) > index else -1 for index in (2, 3))
    least = length - min(last, 0), length + max(first, 0)
    if rows == columns == -1:
        rows = columns = max(least)
    rows, columns = (least[0] if rows == -1 else rows), (least[1] if columns == -1 else columns)
    band = _Band(rows, columns, first, last, _align(call))
    count = band.count * length
    positions = np.full(rows * columns, count, np.int64)
    for stored, place in band.elements():
        positions[place] = stored
    return _picked(call, batch, [_flat(call, call.operand(0), batch, count), _filler(call, 4, batch)], positions, [rows, columns])


@gather.tensorflow("MatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3")
def _(call: TensorflowCall) -> int:
    """Matrices with diagonals written anew."""
    batch, rows, columns = _matrix(call, 0)
    band = _Band(rows, columns, *_diagonals(call, 2), _align(call))
    positions = np.arange(rows * columns, dtype=np.int64)
    for stored, place in band.elements():
        positions[place] = rows * columns + stored
    parts = [_flat(call, call.operand(0), batch, rows * columns), _flat(call, call.operand(1), batch, band.count * band.length)]
    return _picked(call, batch, parts, positions, [rows, columns])


@gather.tensorflow("Diag", "DiagPart")
def _(call: TensorflowCall) -> int:
    """A tensor as the diagonal of one with twice as many axes, or that diagonal."""
    sizes = [size for size in call.sizes(0) if isinstance(size, int)]
    if len(sizes) < call.rank(0):
        raise NotAnalysed("the diagonal of a tensor whose size is not fixed")
    sizes = sizes if call.name == "Diag" else sizes[: len(sizes) // 2]
    count = int(np.prod(sizes))
    if call.name == "DiagPart":
        flat = call.reshaped(call.operand(0), [count * count])
        return _picked(call, [], [flat], np.arange(count, dtype=np.int64) * (count + 1), sizes)
    positions = np.full(count * count, count, np.int64)
    positions[:: count + 1] = np.arange(count)
    parts = [call.reshaped(call.operand(0), [count]), _filler(call, 1, [])]
    return _picked(call, [], parts, positions, [*sizes, *sizes])
