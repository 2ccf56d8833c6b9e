"""`DoublePrecision`: the left model in float64, which says who of two is further from the exact result."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from tensorproof.compare.backends.backend import Unavailable
from tensorproof.compare.diffing.bisecting import Divergence
from tensorproof.compare.diffing.side import RunFailed, Side
from tensorproof.compare.drawing import Array
from tensorproof.compare.judging import Judgement
from tensorproof.compare.workers.backend_id import BackendId
from tensorproof.compare.workers.process import Worker, WorkerFailed

#: Models of more bytes are not evaluated once more: float64 takes twice their size.
LARGEST = 256 << 20


@dataclass
class DoublePrecision:
    """The left model converted to float64: of ONNX in the reference evaluator, otherwise in its own runtime.

    There is none of a quantised model: its steps are part of what it computes.
    """

    side: Side
    _keys: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    _worker: Worker | None = None
    _is_lost: bool = False

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
        if self.side.kind == "onnx":
            found = self._by_reference(name, wide)
            if found is not None:
                return found
        if "own" not in self._keys:
            self._keys["own"] = self.side.reopened("float64")
        key = self._keys["own"]
        if key is None:
            return None
        try:
            return self.side.run(wide, [name], key=key)[name]
        except RunFailed:
            self._keys["own"] = None
            return None

    def _by_reference(self, name: str, wide: dict[str, Array]) -> Array | None:
        """The ONNX reference evaluator: it shares no kernel with a runtime, and computes by the definition of each operator."""
        if self._is_lost or Path(self.side.model).stat().st_size > LARGEST:
            return None
        try:
            if self._worker is None:
                self._worker = Worker(BackendId("onnx-reference"), time_limit=60.0)
                self._worker.open_model(self.side.model, {"precision": "float64"})
            return self._worker.run_model(self.side.model, wide, [name])[name]
        except (WorkerFailed, Unavailable):
            self._is_lost = True
            return None


def _culprit(judgement: Judgement, exact: float) -> Literal["left", "right", "both", ""]:
    errors = [abs(value - exact) for value in (judgement.left, judgement.right)]
    finite = [math.isfinite(error) for error in errors]
    if not all(finite):
        return "both" if not any(finite) else "right" if finite[0] else "left"
    if min(errors) > 0.5 * max(errors):
        return "both"
    return "left" if errors[0] > errors[1] else "right"
