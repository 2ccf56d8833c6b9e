"""`DoublePrecision`: the left model in float64, which says who of two is further from the exact result."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from tensorproof.compare.backends.backend import Unavailable
from tensorproof.compare.diffing.bisecting import Divergence
from tensorproof.compare.diffing.side import RunFailed, Side
from tensorproof.compare.drawing import Array
from tensorproof.compare.judging import Judgement
from tensorproof.compare.workers.backend_id import BackendId
from tensorproof.compare.workers.process import Worker, WorkerFailed


@dataclass
class DoublePrecision:
    """The left model converted to float64, in its own runtime, or in the ONNX reference where that lacks the kernels.

    There is none of a quantised model: its steps are part of what it computes.
    """

    side: Side
    _keys: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    _worker: Worker | None = None

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()

    def consulted(self, divergence: Divergence, feeds: dict[str, Array]) -> Divergence:
        """The divergence with the exact value at its worst element, and who is further from it, where that can be had."""
        judgement = divergence.judgement
        if judgement is None or not judgement.position or self.side.facts.precision == "int8":
            return divergence
        values = self._value(divergence.pair.left, feeds)
        if values is None or values.dtype != np.float64 or len(judgement.position) != values.ndim:
            return divergence
        exact = float(values[judgement.position])
        return replace(divergence, judgement=replace(judgement, reference=exact, culprit=_culprit(judgement, exact)))

    def _value(self, name: str, feeds: dict[str, Array]) -> Array | None:
        wide = {key: array.astype(np.float64) if array.dtype.kind in "fV" else array for key, array in feeds.items()}
        if "own" not in self._keys:
            self._keys["own"] = self.side.reopened("float64")
        key = self._keys["own"]
        if key is not None:
            try:
                return self.side.run(wide, [name], key=key)[name]
            except RunFailed:
                self._keys["own"] = None
        if self.side.kind != "onnx":
            return None
        try:
            if self._worker is None:
                self._worker = Worker(BackendId("onnx-reference"), time_limit=60.0)
                self._worker.open_model(self.side.model, {"precision": "float64"})
            return self._worker.run_model(self.side.model, wide, [name])[name]
        except (WorkerFailed, Unavailable):
            return None


def _culprit(judgement: Judgement, exact: float) -> Literal["left", "right", "both", ""]:
    errors = [abs(value - exact) for value in (judgement.left, judgement.right)]
    finite = [math.isfinite(error) for error in errors]
    if not all(finite):
        return "both" if not any(finite) else "right" if finite[0] else "left"
    if min(errors) > 0.5 * max(errors):
        return "both"
    return "left" if errors[0] > errors[1] else "right"
