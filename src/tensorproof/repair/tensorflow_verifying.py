"""A repaired graph run beside the original, in TensorFlow as users run it: with everything that it rewrites."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.checking import Analysis
from tensorproof.confirm.observing import Scene, is_bad, legal_specials, not_finite
from tensorproof.confirm.sampling import Point
from tensorproof.confirm.witness import SEEN_AT
from tensorproof.execute.tensorflow_graph import TensorflowRunner
from tensorproof.formats import of_dtype
from tensorproof.frontends.framework_model import Arrays, RunFailed
from tensorproof.frontends.tensorflow_program import TensorflowModel
from tensorproof.frontends.tensorflow_reassociation import as_in_the_program
from tensorproof.preparing import Prepared
from tensorproof.repair.comparison import Comparison
from tensorproof.repair.gradients import compare_gradients
from tensorproof.repair.graph_guard import Guard
from tensorproof.repair.proposal import Declined
from tensorproof.repair.verify import GRADIENT_POINTS, Refused, Reservoir, Verification, spread

#: Models with more bytes than this get a process of their own for each repair: TensorFlow keeps every graph that it was given.
LARGE = 1 << 27


class TensorflowVerifier:
    """Runs models before and after repairs in one process of TensorFlow; a context manager."""

    def __init__(self, *, seed: int, runs: int) -> None:
        self._seed = seed
        self._runs = runs
        self._process: TensorflowRunner | None = None

    def __enter__(self) -> TensorflowVerifier:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        if self._process is not None:
            self._process.__exit__(None, None, None)
            self._process = None

    def run_both(
        self, before: Prepared, after: Prepared, guard: Guard, analyses: Sequence[Analysis], witness: Point | None
    ) -> Verification:
        """What runs of a model before and after a repair show; raises `Refused` if it fails anywhere, `Declined` if nothing runs.

        The result of the operator is compared (`Verification.values`), and what users get (`Verification.outputs`). `witness` is an
        input on which the node failed.
        """
        old, new = before.framework, after.framework
        assert isinstance(old, TensorflowModel) and isinstance(new, TensorflowModel)
        if self._process is None:
            self._process = TensorflowRunner(old)
        scenes = [Scene.of(before.graph, analysis) for analysis in analyses]
        seen = Verification()
        try:
            pair = _Pair(self._process.beside(old), self._process.beside(new), guard, scenes[0])
            if witness is not None and SEEN_AT.get(guard.finding.rule.code) != "operand":
                pair.replay(witness)
                seen.witness_replayed = True
            sound = Reservoir(GRADIENT_POINTS, self._seed)
            for point in spread(scenes, self._seed, self._runs):
                if pair.compare(point, seen):
                    sound.add(point)
            given = [pair.operands_at(point) for point in sound.kept]
            failing = None if witness is None else pair.operands_at(witness)
        except RunFailed as failure:
            self._end()
            raise Declined(f"it is not verified: {failure}") from None
        if _size(old) > LARGE:
            self._end()
        # Derivatives of the one operator, by its operands: those of everything else are what they were.
        seen.gradients = compare_gradients(old.model, new.model, [pair.result], given, failing)
        return seen


def _size(model: TensorflowModel) -> int:
    """Bytes of constants and variables."""
    return sum(array.nbytes for array in model.model.constants.values())


class _Pair:
    """The original and the repaired graph in one process of TensorFlow."""

    def __init__(self, old: TensorflowRunner, new: TensorflowRunner, guard: Guard, scene: Scene) -> None:
        self._old = old
        self._new = new
        model = guard.case.model
        self._outputs = [as_in_the_program(model.name_of(number)) for number in model.graph.outputs]
        self.result = guard.operator.label
        entering = (number for number in guard.operator.operands() if number not in model.constants or number in model.weights)
        self._operands = [as_in_the_program(model.name_of(number)) for number in entering]
        self._legal = {as_in_the_program(name): flags for name, flags in legal_specials(scene.model, scene.analysis).items()}

    def replay(self, point: Point) -> None:
        """The failing input in the repaired model."""
        if not_finite(self._run(self._new, point)[self.result]):
            raise Refused("the failing input still fails")

    def compare(self, point: Point, seen: Verification) -> bool:
        """One point in both; whether the original has a finite result there."""
        after = self._run(self._new, point)
        seen.runs += 1
        try:
            before = self._run(self._old, point)
        except RunFailed:
            # The original stops on this point; the repaired model did not.
            return False
        old, new = before[self.result], after[self.result]
        if not_finite(new) and not np.array_equal(old, new, equal_nan=True) and not self._was_bad_before(point):
            raise Refused(f"{self.result} is NaN or infinite at a point of the box")
        _add(seen.values, old, new)
        for name in self._outputs:
            if name in before and name in after:
                _add(seen.outputs, before[name], after[name])
        return not not_finite(old)

    def operands_at(self, point: Point) -> Point:
        """What the operator reads at a point, as the graph is written."""
        return dict(self._old.values(point, self._operands))

    def _was_bad_before(self, point: Point) -> bool:
        """Whether operands of the node are not finite, because of another defect."""
        return any(is_bad(value, self._legal.get(name, 0)) for name, value in self.operands_at(point).items())

    def _run(self, runner: TensorflowRunner, point: Point) -> Arrays:
        """What users get, and the result of the operator; that alone where another defect stops the model. Raises `RunFailed`."""
        try:
            return runner.replayed(point, self.result)
        except RunFailed:
            return runner.values(point, [self.result])


def _add(comparison: Comparison, before: npt.NDArray[Any], after: npt.NDArray[Any]) -> None:
    """Compare two tensors in units of their own format."""
    if before.dtype.kind in "fV":
        comparison.add(before, after, None, of_dtype(before.dtype))
