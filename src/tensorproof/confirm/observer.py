"""`Observer`: runs points in ONNX Runtime and says whether the node of one finding failed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.checking import Analysis
from tensorproof.confirm.observing import Watch, constants_of, is_floating, legal_specials, look
from tensorproof.confirm.sampling import Point
from tensorproof.confirm.witness import FLAG, SEEN_AT
from tensorproof.execute.bodies import watch_in_bodies
from tensorproof.execute.instrument import instrumented, prefix
from tensorproof.execute.runtime import Runtime
from tensorproof.execute.worker import WorkerDied, WorkerError
from tensorproof.graph import ABSENT, Model

if TYPE_CHECKING:
    import onnx


class CannotObserve(Exception):
    """No run can show whether the node failed; the message says why."""


class Observing(ABC):
    """What a search asks of a runtime: to run a point, and to say whether the node of one finding failed."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.runs = 0
        #: What the last run showed, by name.
        self.values: dict[str, npt.NDArray[Any]] = {}

    @abstractmethod
    def fails(self, point: Mapping[str, npt.NDArray[Any]]) -> bool:
        """Whether the node fails on this point."""

    def operand(self) -> npt.NDArray[np.float64] | None:
        """The operand that the finding names, in the last run."""
        found = self.values.get(self.watch.finding.operand)
        return None if found is None or found.dtype.kind not in "fiubV" else found.astype(np.float64)

    def note(self, point: Point) -> bool:
        """Run a point, and keep it if it fails and none did before."""
        failed = self.fails(point)
        if failed and self.watch.point is None:
            self.watch.point = point
        return failed


class Observer(Observing):
    """One finding in a runtime. Values that are inputs or constants are seen without a run.

    Raises CannotObserve if the runtime refuses the model, or if its process dies for another reason than the finding's own.
    """

    def __init__(
        self, runtime: Runtime, proto: onnx.ModelProto, model: Model, analysis: Analysis, watch: Watch, free: Sequence[str]
    ) -> None:
        super().__init__(watch)
        self._legal = legal_specials(model, analysis)
        self._known = constants_of(model, [watch])
        self._stops = SEEN_AT.get(watch.finding.rule.code) == "stop"
        part = proto
        if watch.in_body:
            numbers = (*watch.node.inputs, *watch.node.outputs)
            floating = frozenset(model.name_of(n) for n in numbers if n != ABSENT and is_floating(analysis, n))
            flagged = watch_in_bodies(proto, watch.results[0], floating, FLAG) if watch.results else None
            if flagged is None or watch.results[0] not in floating:
                raise CannotObserve("a node in a body whose result cannot be led out")
            self._names: list[str] = [FLAG]
            part = flagged
        elif self._stops:
            self._names = [info.name for info in proto.graph.output]
        else:
            fed = {model.name_of(n) for n in (*model.graph.inputs, *analysis.assumptions.weights)}
            self._names = list(dict.fromkeys(n for n in watch.values() if n not in fed and n not in self._known))
        watch.part = prefix(part, self._names, free) if watch.in_body else None
        seen = watch.part or (instrumented(part, self._names, free) if self._stops else prefix(part, self._names, free))
        self._session = runtime.session(seen) if self._names else None

    def fails(self, point: Mapping[str, npt.NDArray[Any]]) -> bool:
        """Whether the node fails on this point."""
        self.runs += 1
        try:
            results = [] if self._session is None else self._session.run(point)
        except WorkerDied as death:
            if self._stops:
                return True
            raise CannotObserve(f"confirmation was cut short: {death}") from None
        except WorkerError as refusal:
            if self._stops:
                return True
            raise CannotObserve(f"not confirmed, ONNX Runtime refuses the model: {refusal}") from None
        self.values = {**self._known, **point, **dict(zip(self._names, results))}
        if self.watch.in_body:
            return bool(results[0].any())
        if self._stops:
            return False
        return look(self.watch, self.values, self._legal)
