"""Do two results agree? `judge` tells rounding from defects.

An element may be off by some units of its format's precision, relative to the larger of itself and the size of the whole result
(sums of large terms are off by units of the terms), and by as much as the result moves when the inputs move by one unit in the
last place: fixed tolerances call ill-conditioned networks wrong and hide real faults of well-conditioned ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

import numpy as np

from tensorproof.compare.drawing import Array, dtype_of

#: What two results differ in: nothing, their shape, their type, where they are NaN or infinite, or their values.
Symptom = Literal["", "shape", "dtype", "nan", "value"]

#: Units of precision that operations may be off by, where nothing better is known: sums of some hundred terms in another order.
DEFAULT_UNITS = 256.0
#: A result that moves by x when inputs move by one unit may be off by so many times x.
SENSITIVITY_FACTOR = 16.0


class Opinion(StrEnum):
    """What two results say about those who made them."""

    AGREE = "agree"
    #: They differ by rounding: more than usual, but no more than the problem itself magnifies.
    PRECISION = "precision"
    DEFECT = "defect"


@dataclass(frozen=True)
class Judgement:
    """An opinion, and the element that gave rise to it.

    `units` is the largest difference in units of the format's precision at the size of the result; `culprit` is the side that is
    further from the reference, if there is one.
    """

    opinion: Opinion
    symptom: Symptom = ""
    units: float = 0.0
    largest: float = 0.0
    position: tuple[int, ...] = ()
    left: float = math.nan
    right: float = math.nan
    reference: float = math.nan
    culprit: Literal["left", "right", "both", ""] = ""
    detail: str = ""

    @property
    def is_defect(self) -> bool:
        return self.opinion is Opinion.DEFECT


def precision_of(dtype: str) -> tuple[float, float]:
    """The distance from 1 to the next number of a format, and its smallest normal number."""
    import ml_dtypes

    info = ml_dtypes.finfo(dtype_of(dtype))
    return float(info.eps), float(info.smallest_normal)


def judge(
    left: Array,
    right: Array,
    *,
    units: float = DEFAULT_UNITS,
    dtype: str | None = None,
    reference: Array | None = None,
    sensitivity: Array | float | None = None,
) -> Judgement:
    """Compare two results. `dtype` is the format that was computed in, if not that of the arrays.

    `units` 0 asks for equality (operations that only move or select data). `reference` is the result in float64. `sensitivity`
    is how far each element moves when the inputs move by one unit in the last place.
    """
    if left.shape != right.shape:
        return Judgement(Opinion.DEFECT, "shape", detail=f"{_shown(left.shape)} and {_shown(right.shape)}")
    if left.dtype != right.dtype:
        return Judgement(Opinion.DEFECT, "dtype", detail=f"{left.dtype.name} and {right.dtype.name}")
    if left.size == 0:
        return Judgement(Opinion.AGREE)
    if left.dtype.kind in "biu":
        return _judge_exactly(left, right)
    epsilon, tiny = precision_of(dtype or left.dtype.name)
    a, b = left.astype(np.float64), right.astype(np.float64)
    odd = _judge_special(a, b, reference)
    if odd is not None:
        return odd
    return _judge_values(a, b, units, epsilon, tiny, reference, sensitivity)


def _judge_exactly(left: Array, right: Array) -> Judgement:
    different = np.argwhere(left != right)
    if not len(different):
        return Judgement(Opinion.AGREE)
    place = tuple(int(i) for i in different[0])
    return Judgement(Opinion.DEFECT, "value", math.inf, position=place, left=float(left[place]), right=float(right[place]))


def _judge_special(a: Array, b: Array, reference: Array | None) -> Judgement | None:
    """NaN on one side only, or infinities that are not the same. Overflow of values near the end of the format is rounding."""
    wrong = np.isnan(a) != np.isnan(b)
    infinite = (np.isinf(a) | np.isinf(b)) & ~np.isnan(a) & ~np.isnan(b) & (a != b)
    wrong |= infinite
    if not wrong.any():
        return None
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    culprit = ""
    value = math.nan
    if reference is not None and reference.shape == a.shape:
        value = float(reference[place])
        if math.isfinite(value):
            culprit = (
                "both"
                if not (math.isfinite(a[place]) or math.isfinite(b[place]))
                else "right"
                if math.isfinite(a[place])
                else "left"
            )
    return Judgement(
        Opinion.DEFECT,
        "nan",
        math.inf,
        math.inf,
        place,
        float(a[place]),
        float(b[place]),
        value,
        culprit,
        f"{int(wrong.sum())} elements",
    )


def _judge_values(
    a: Array,
    b: Array,
    units: float,
    epsilon: float,
    tiny: float,
    reference: Array | None,
    sensitivity: Array | float | None,
) -> Judgement:
    finite = np.isfinite(a) & np.isfinite(b)
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.where(finite, np.abs(a - b), 0.0)
    if not difference.any():
        return Judgement(Opinion.AGREE)
    known = reference if reference is not None and reference.shape == a.shape else None
    size = np.where(finite, np.maximum(np.abs(a), np.abs(b)), 0.0)
    scale = np.maximum(size, float(np.sqrt(np.mean(np.square(size)))) if units else 0.0)
    # Below the normal numbers precision is lost in all frameworks, and some flush to zero.
    usual = units * epsilon * scale + 4 * tiny
    moved = (
        np.zeros_like(difference)
        if sensitivity is None
        else SENSITIVITY_FACTOR * np.broadcast_to(np.nan_to_num(np.asarray(sensitivity, np.float64), posinf=np.inf), a.shape)
    )
    excess = difference - np.maximum(usual, moved)
    place = tuple(int(i) for i in np.unravel_index(int(np.argmax(excess)), a.shape))
    with np.errstate(divide="ignore", invalid="ignore"):
        distances = difference / np.maximum(epsilon * np.where(scale > 0, scale, tiny), tiny)
    facts: dict[str, Any] = {
        "units": float(distances[place]),
        "largest": float(difference.max()),
        "position": place,
        "left": float(a[place]),
        "right": float(b[place]),
    }
    culprit = ""
    if known is not None:
        facts["reference"] = float(known[place])
        errors = abs(float(a[place]) - float(known[place])), abs(float(b[place]) - float(known[place]))
        culprit = "both" if min(errors) > usual[place] else "left" if errors[0] > errors[1] else "right"
    if excess[place] > 0:
        return Judgement(Opinion.DEFECT, "value", culprit=culprit, **facts)
    if bool((difference > usual).any()):
        return Judgement(Opinion.PRECISION, "value", culprit=culprit, **facts)
    return Judgement(Opinion.AGREE, **facts)


def _shown(shape: tuple[int, ...]) -> str:
    return "(" + ", ".join(map(str, shape)) + ")"
