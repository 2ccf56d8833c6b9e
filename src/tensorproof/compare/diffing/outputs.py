"""`Tally`: what outputs differ by, over all points: the worst, the typical, and a metric of the task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tensorproof.compare.diffing.aligning import Pair
from tensorproof.compare.diffing.comparison import OutputComparison
from tensorproof.compare.diffing.rounding import Tolerance
from tensorproof.compare.drawing import Array
from tensorproof.compare.judging import Judgement, Opinion


@dataclass
class _Sums:
    worst: Judgement | None = None
    medians: list[float] = field(default_factory=list[float])
    relative: float = 0.0
    equal_rows: int = 0
    rows: int = 0
    cosines: list[float] = field(default_factory=list[float])
    formats: tuple[str, str] = ("", "")


class Tally:
    """Add the results of each point; `outputs` sums up."""

    def __init__(self, outputs: Sequence[Pair], tolerance: Tolerance) -> None:
        self._outputs = outputs
        self._tolerance = tolerance
        self._sums = {pair: _Sums() for pair in outputs}

    def add(self, pair: Pair, left: Array, right: Array, judgement: Judgement) -> None:
        sums = self._sums[pair]
        sums.formats = left.dtype.name, right.dtype.name
        if sums.worst is None or _rank(judgement) > _rank(sums.worst):
            sums.worst = judgement
        if left.shape != right.shape or not left.size:
            return
        a, b = left.astype(np.float64), right.astype(np.float64)
        finite = np.isfinite(a) & np.isfinite(b)
        with np.errstate(all="ignore"):
            difference = np.abs(a - b)[finite]
            size = float(np.sqrt(np.mean(np.square(a[finite])))) if finite.any() else 0.0
            if difference.size:
                sums.medians.append(float(np.median(self._tolerance.units(difference, size))))
                norm = float(np.linalg.norm(a[finite]))
                sums.relative = max(sums.relative, float(np.linalg.norm(difference)) / norm if norm else 0.0)
            if looks_like_scores(left):
                sums.rows += len(a)
                # Of scores that are equal but for rounding either may be the largest.
                chosen = np.take_along_axis(a, b.argmax(-1)[:, None], -1)[:, 0]
                sums.equal_rows += int((chosen >= a.max(-1) - self._tolerance.share * size).sum())
            else:
                norms = float(np.linalg.norm(a[finite]) * np.linalg.norm(b[finite]))
                if norms:
                    sums.cosines.append(float(np.dot(a[finite].ravel(), b[finite].ravel())) / norms)

    def outputs(self) -> tuple[OutputComparison, ...]:
        found: list[OutputComparison] = []
        for pair in self._outputs:
            sums = self._sums[pair]
            is_scores = sums.rows > 0
            score = sums.equal_rows / sums.rows if is_scores else min(sums.cosines, default=1.0)
            found.append(
                OutputComparison(
                    pair.left,
                    pair.right,
                    sums.worst or Judgement(Opinion.AGREE),
                    float(np.median(sums.medians)) if sums.medians else 0.0,
                    sums.relative,
                    "top-1 agreement" if is_scores else "cosine",
                    score,
                    sums.formats,
                )
            )
        return tuple(found)


def looks_like_scores(array: Array) -> bool:
    """Whether an output looks like scores of classes: rows of two or more floating numbers."""
    return array.ndim == 2 and array.shape[-1] >= 2 and array.dtype.kind == "f"


def _rank(judgement: Judgement) -> tuple[int, float]:
    return list(Opinion).index(judgement.opinion), judgement.units
