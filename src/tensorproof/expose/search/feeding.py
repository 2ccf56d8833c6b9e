"""`Feeding`: the samples that a program gets in place of fresh ones, kept and moved from step to step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.expose.search.moves import Batch, Legal
from tensorproof.expose.settings import Settings

#: Arrays of more elements than this are not kept anew in every step.
_LARGE = 1 << 18


@dataclass(slots=True)
class _Source:
    """What comes together: rows of its arrays belong to the same samples."""

    batch: Batch = field(default_factory=lambda: Batch({}))
    #: What the program gave last, or first if that is large.
    fresh: dict[str, npt.NDArray[Any]] = field(default_factory=dict[str, npt.NDArray[Any]])
    #: Rows that are replaced in this step, and the rows of fresh samples that replace them.
    worst: npt.NDArray[np.intp] | None = None
    chosen: npt.NDArray[np.intp] | None = None


class Feeding:
    """Arrays by name and by source: the loader that they come from, or `data` for tensors that the program makes anew."""

    def __init__(self, settings: Settings, generator: np.random.Generator) -> None:
        self._settings = settings
        self._generator = generator
        self._sources: dict[str, _Source] = {}
        #: The ranges that fresh arrays lay in so far, by name.
        self.observed: dict[str, Legal] = {}
        self._steps = 0

    def given(self, source: str, name: str, fresh: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
        """What the program gets in place of a fresh array; None: the fresh one."""
        if fresh.dtype.kind == "f":
            self.observed[name] = self.observed[name].widened(fresh) if name in self.observed else Legal.of(fresh)
        if not self._settings.moves_inputs or not fresh.ndim:
            return None
        held = self._sources.setdefault(source, _Source())
        if name not in held.fresh or fresh.size <= _LARGE:
            held.fresh[name] = fresh.copy()
        arrays = held.batch.arrays
        kept = arrays.get(name)
        if kept is None:
            arrays[name] = fresh.copy()
            held.batch.scores = np.full(held.batch.size, np.inf)
            return None
        if kept.shape != fresh.shape or kept.dtype != fresh.dtype:
            return None
        if held.worst is not None and held.chosen is not None and len(kept) == held.batch.size:
            kept[held.worst] = fresh[held.chosen]
        return kept

    def legal(self, name: str) -> Legal:
        """The range that fresh arrays of this name lay in so far."""
        return self.observed.get(name, Legal())

    def move(self, moved: Mapping[str, npt.NDArray[Any]], scores: npt.NDArray[np.float64] | None) -> None:
        """From the next step on arrays have these numbers."""
        for held in self._sources.values():
            for name in held.batch.arrays.keys() & moved.keys():
                held.batch.arrays[name] = moved[name].astype(held.batch.arrays[name].dtype)
                if scores is not None and len(scores) == held.batch.size:
                    held.batch.scores[:] = scores

    def repeat(self, name: str, generator: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        """One sample of the program's own, with its label, in place of all that come with this array: the arrays by name."""
        arrays = self._beside(name)
        row = int(generator.integers(len(arrays[name]))) if name in arrays and len(arrays[name]) else 0
        found = {other: np.repeat(array[row : row + 1], len(array), axis=0) for other, array in arrays.items()}
        self.move(found, None)
        return found

    def placed(
        self,
        name: str,
        batch: npt.NDArray[Any] | None,
        rows: npt.NDArray[np.intp],
        scores: npt.NDArray[np.float64] | None = None,
        *,
        everywhere: bool = True,
    ) -> dict[str, npt.NDArray[Any]]:
        """A batch that a program took from a whole data set in the place of its rows, or `everywhere`: the arrays by name.

        Without numbers, the batch is what is in these rows.
        Everywhere, it comes with its labels, and the program gets it again whatever rows it takes next. Every so many steps the
        samples of the batch that are farthest from the failure are some of the program's own again.
        """
        held = next((held for held in self._sources.values() if name in held.fresh), None)
        if held is None:
            return {}
        if batch is None:
            batch = held.batch.arrays[name][rows]
        if not everywhere:
            whole = held.batch.arrays[name].copy()
            whole[rows] = batch
            found = {name: whole}
        else:
            own = self._beside(name)
            samples = {other: batch if other == name else held.batch.arrays[other][rows] for other in own}
            if self._settings.replaces_samples and self._steps % self._settings.switch_every == 0:
                least = np.arange(len(rows)) if scores is None else np.argsort(-scores, kind="stable")
                worst = least[: int(np.ceil(self._settings.switch_rate * len(rows)))]
                again = self._generator.choice(len(own[name]), len(worst), replace=False)
                for other, array in samples.items():
                    array[worst] = own[other][again]
            order = np.arange(len(own[name])) % len(rows)
            found = {other: array[order] for other, array in samples.items()}
        self.move(found, None)
        return found

    def restart(self, name: str) -> dict[str, npt.NDArray[Any]]:
        """The program's own samples again, of the source of this array."""
        found = {other: array.copy() for other, array in self._beside(name).items()}
        self.move(found, None)
        return found

    def _beside(self, name: str) -> dict[str, npt.NDArray[Any]]:
        """What the program gave last of arrays with as many rows that come together with this one."""
        for held in self._sources.values():
            if name in held.fresh:
                rows = held.fresh[name].shape[:1]
                return {other: array for other, array in held.fresh.items() if array.shape[:1] == rows}
        return {}

    def step_done(self) -> None:
        """The next step begins; every so many steps, samples that are far from the failure are replaced in it."""
        self._steps += 1
        is_due = self._settings.replaces_samples and self._steps % self._settings.switch_every == 0
        for held in self._sources.values():
            held.worst = held.chosen = None
            if is_due:
                held.worst, held.chosen = held.batch.rows_to_replace(self._settings.switch_rate, self._generator)
