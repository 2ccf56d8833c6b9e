"""The search in an eager TensorFlow program: the objective of a suspect by its external values, and the moves that follow from it.

Everything is computed in a thread of its own: there, no tape of the program records, and no operator is reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from tensorproof.expose.eager.external import External, Externals
from tensorproof.expose.eager.recording import Recording, Slice
from tensorproof.expose.eager.suspects import Execution, scores, softmin
from tensorproof.expose.search.board import Suspect
from tensorproof.expose.search.leading import Leading, Measured
from tensorproof.expose.settings import Settings
from tensorproof.formats import Array

#: Kinds of external values in the order in which they are moved: those of the first kind that a suspect depends on.
_ORDER = (("batch", "data", "made"), ("draw",), ("weight",))
#: How far a value that is computed again may be off, as a part of its size.
_AGREEMENT = 1e-3

_Result = TypeVar("_Result")


class Search:
    """Moves external values so that suspects come closer to failing."""

    def __init__(self, settings: Settings, externals: Externals, generator: np.random.Generator) -> None:
        self._externals = externals
        self._leading = Leading(settings, generator)
        self._thread = ThreadPoolExecutor(1)
        #: Evaluations of objectives so far.
        self.evaluations = 0

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown()

    def beside(self, compute: Callable[[], _Result]) -> _Result:
        """Compute something where the program does not notice."""
        return self._thread.submit(compute).result()

    def movable(self, recording: Recording, execution: Execution) -> tuple[Slice, list[External]]:
        """What a suspect is made of, and the external values that are moved for it."""
        slice = recording.slice(*execution.tensors())
        found = [value for tensor in slice.given if (value := self._externals.find(tensor)) is not None and value.is_moved]
        for kinds in _ORDER:
            chosen = {value.name: value for value in found if value.kind in kinds}
            if chosen:
                return slice, list(chosen.values())
        return slice, []

    def agrees(self, slice: Slice, execution: Execution) -> bool:
        """Whether what the program computed is computed again from the same values."""
        import tensorflow as tf

        def compare() -> bool:
            again = slice.rerun({tensor._id: tensor for tensor in slice.given})
            for before, after in zip(execution.tensors(), again):
                one, other = np.asarray(before.numpy()), np.asarray(after.numpy())
                if one.shape != other.shape:
                    return False
                if one.dtype.kind in "fV" and not np.allclose(
                    one.astype(np.float64), other.astype(np.float64), rtol=_AGREEMENT, atol=1e-6, equal_nan=True
                ):
                    return False
            return True

        try:
            return self.beside(compare)
        except (tf.errors.OpError, TypeError, ValueError, LookupError):
            # An operator that cannot be called by its name.
            return False

    def moved(
        self, suspect: Suspect, slice: Slice, execution: Execution, chosen: Sequence[External]
    ) -> tuple[Measured, dict[str, Array]] | None:
        """The objective now, and where the values go from here; None if operators refuse other values than the program's."""
        import tensorflow as tf

        values = {value.name: np.asarray(value.array(), np.float64) for value in chosen}
        # A variable may have been read more than once.
        known = [(tensor, self._externals.find(tensor)) for tensor in slice.given]
        names = {tensor._id: value.name for tensor, value in known if value is not None and value.name in values}

        def measure(values: Mapping[str, Array], *, gradients: bool = True) -> Measured:
            self.evaluations += 1
            return self.beside(lambda: _measure(slice, execution, names, chosen, values, gradients))

        try:
            return self._leading.moved(suspect, chosen, values, measure)
        except (tf.errors.OpError, TypeError, ValueError, LookupError):
            return None


def _measure(
    slice: Slice,
    execution: Execution,
    names: Mapping[int, str],
    chosen: Sequence[External],
    values: Mapping[str, Array],
    with_gradients: bool,
) -> Measured:
    """The objective at some values, with its gradient by each of them. `names` are those of tensors that were given."""
    import tensorflow as tf

    with tf.GradientTape() as tape:
        leaves: dict[str, Any] = {
            value.name: tf.constant(values[value.name].astype(value.tensor.dtype.as_numpy_dtype)) for value in chosen
        }
        tape.watch(list(leaves.values()) if with_gradients else [])
        results = slice.rerun({number: leaves[name] for number, name in names.items()})
        terms = execution.on(results)
        smallest = None if terms is None else softmin(terms)
    has_failed = not np.isfinite(np.asarray(results[-1].numpy())).all()
    if terms is None or smallest is None:
        return Measured(-math.inf if has_failed else math.inf, {}, None, has_failed)
    if not with_gradients:
        return Measured(float(smallest), {}, None, has_failed)
    try:
        found: list[Any] = tape.gradient(smallest, list(leaves.values()))
    except (LookupError, TypeError, ValueError):
        # No derivative is known for an operator on the way.
        found = [None] * len(leaves)
    gradients = {name: _array(slope) for name, slope in zip(leaves, found) if slope is not None}
    samples = next((len(values[value.name]) for value in chosen if value.kind in ("batch", "data")), 0)
    return Measured(float(smallest), gradients, scores(terms, samples), has_failed)


def _array(slope: Any) -> Array:
    """A gradient as an array; of slices, the whole."""
    import tensorflow as tf

    return np.asarray(tf.convert_to_tensor(slope).numpy(), np.float64)
