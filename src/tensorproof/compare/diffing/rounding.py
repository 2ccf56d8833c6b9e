"""How far two models may be apart: by the rounding of the finer format they agree, by that of the coarser one it is precision.

Agreement is measured in the finer of both formats, as between two runtimes. A copy in a coarser format (float16, bfloat16, int8) is
judged once more in units of that one. The usual amounts are relative to the size of the whole value; in addition a value may be off
by some times what it moves when the inputs move by one unit in the last place: see `judging`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from tensorproof.compare.drawing import Array, dtype_of
from tensorproof.compare.judging import DEFAULT_UNITS, Judgement, Opinion, judge, precision_of

#: How far a value moves when the inputs move by one unit of a format. It costs runs, so it is asked for when it is needed.
Sensitivity: TypeAlias = Callable[[str], "Array | None"]

#: From coarse to fine. A quantised model has the digits of bfloat16: 8 bits.
_ORDER = ("float8_e5m2", "float8_e4m3fn", "int8", "bfloat16", "float16", "float32", "float64")
#: Units that a chain of operators is usually off by. Coarse formats have fewer: 256 units of bfloat16 are twice the value itself.
_USUAL = {"float8_e5m2": 1.0, "float8_e4m3fn": 2.0, "int8": 2.0, "bfloat16": 8.0, "float16": 32.0}
#: What a quantised value may be off by as a whole, relative to its norm. Single elements say little there: a calibration leaves out
#: the tails of a distribution, and cuts off whatever lies in them.
_QUANTISED = 0.25
#: Runs with moved inputs; the largest move counts.
DRAWS = 3

#: Operators that only move or select data: their results are equal, not close. Names of ONNX, ATen and Keras.
_MOVING = re.compile(
    "Identity|Reshape|Flatten|Squeeze|Unsqueeze|Transpose|Concat|Split|Slice|Gather|GatherElements|GatherND|Expand|Tile|Pad|MaxPool"
    "|GlobalMaxPool|Max|Min|ReduceMax|ReduceMin|Relu|Neg|Abs|Where|Equal|Greater|Less|Shape|Size|DepthToSpace|SpaceToDepth"
    "|ScatterElements|ScatterND|Trilu|Clip"
    "|view|reshape|flatten|squeeze|unsqueeze|permute|transpose|t|cat|split|slice|select|gather|index|expand|repeat|max_pool2d|amax"
    "|amin|maximum|minimum|relu|neg|abs|where|eq|gt|lt|clone|contiguous|clamp|detach|getitem"
    "|Permute|RepeatVector|Cropping[123]D|ZeroPadding[123]D|MaxPooling[123]D|GlobalMaxPooling[123]D|Concatenate|Maximum|Minimum|ReLU"
    "|Dropout"
)


@dataclass(frozen=True)
class Tolerance:
    """The formats that two models compute in."""

    fine: str
    coarse: str

    @classmethod
    def between(cls, left: str, right: str) -> Tolerance:
        coarse, fine = sorted((left, right), key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER))
        return cls(fine, coarse)

    def judge(
        self,
        left: Array,
        right: Array,
        *,
        sensitivity: Sensitivity | None = None,
        reference: Array | None = None,
        is_exact: bool = False,
    ) -> Judgement:
        """Agree, precision or defect. `is_exact` asks for equality, after rounding into the coarser format."""
        if left.shape != right.shape:
            return judge(left, right)
        if left.dtype.kind in "biu" or right.dtype.kind in "biu":
            return judge(left, right)
        exact = is_exact and self.coarse != "int8"
        if exact and self.fine != self.coarse:
            left, right = (_rounded(side, self.coarse) for side in (left, right))
        a, b = left.astype(np.float64), right.astype(np.float64)

        def judged(name: str) -> Judgement:
            units = 0.0 if exact else _USUAL.get(name, DEFAULT_UNITS)
            found = judge(a, b, units=units, dtype=_digits(name), reference=reference)
            if found.symptom == "value" and sensitivity is not None:
                found = judge(a, b, units=units, dtype=_digits(name), reference=reference, sensitivity=sensitivity(name))
            return found

        first = judged(self.fine)
        if first.opinion is not Opinion.DEFECT or self.fine == self.coarse:
            return first
        second = judged(self.coarse)
        is_tolerable = second.symptom == "value" and self.coarse == "int8" and _distance(a, b) <= _QUANTISED
        return replace(second, opinion=Opinion.PRECISION) if second.opinion is Opinion.AGREE or is_tolerable else second

    @property
    def share(self) -> float:
        """What a difference may be, relative to the size of the value: the usual units of the coarser format."""
        return _USUAL.get(self.coarse, DEFAULT_UNITS) * precision_of(_digits(self.coarse))[0]

    def units(self, difference: Array, size: float) -> Array:
        """Absolute differences in units of the coarser format, at a size."""
        epsilon, tiny = precision_of(_digits(self.coarse))
        return difference / max(epsilon * size, tiny)


def is_moving(operator: str) -> bool:
    """Whether an operator only moves or selects data."""
    name = operator.removeprefix("aten.").partition(".")[0] if operator.startswith("aten.") else operator.rpartition(".")[2]
    return _MOVING.fullmatch(name) is not None


def moved(array: Array, format: str, random: np.random.Generator) -> Array:
    """The array with each number moved up or down by one unit of a format; of a quantised one, by a step of its scale."""
    if array.dtype.kind in "biu" or array.dtype.kind not in "fV" or not array.size:
        return array
    numbers = array.astype(np.float64)
    signs = random.choice([-1.0, 1.0], numbers.shape)
    with np.errstate(all="ignore"):
        if format == "int8":
            finite = np.abs(numbers[np.isfinite(numbers)])
            return (numbers + signs * (finite.max() / 127.0 if finite.size else 0.0)).astype(array.dtype)
        epsilon, tiny = precision_of(_digits(format))
        step = np.maximum(epsilon * np.abs(numbers), tiny)
        result = (numbers + signs * step).astype(array.dtype)
    # One unit of the array's own format at least.
    still = (result == array) & np.isfinite(numbers)
    if still.any() and array.dtype.kind == "f":
        result = np.where(still, np.nextafter(array, np.sign(signs).astype(array.dtype) * np.inf, dtype=array.dtype), result)
    return result


def spread(base: Array, others: list[Array]) -> Array | None:
    """How far each element moves over some runs; an element that happened to stay has what is typical of the whole."""
    if base.dtype.kind in "biu" or any(other.shape != base.shape for other in others):
        return None
    largest = np.zeros(base.shape)
    with np.errstate(all="ignore"):
        for other in others:
            move = np.abs(other.astype(np.float64) - base.astype(np.float64))
            largest = np.maximum(largest, np.nan_to_num(move, nan=0.0, posinf=0.0))
        typical = float(np.sqrt(np.mean(np.square(largest)))) if largest.size else 0.0
    return np.maximum(largest, typical)


def _distance(a: Array, b: Array) -> float:
    """The distance of two values, relative to the norm of the first."""
    norm = float(np.linalg.norm(a))
    return float(np.linalg.norm(a - b)) / norm if norm else np.inf


def _rounded(array: Array, format: str) -> Array:
    with np.errstate(over="ignore"):
        return array.astype(dtype_of(_digits(format)))


def _digits(format: str) -> str:
    """A floating format with as many digits."""
    return "bfloat16" if format == "int8" else format
