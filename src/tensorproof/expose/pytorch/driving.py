"""`Driving`: which suspect of a PyTorch program is driven, and where its external values are moved to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import currentframe
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tensorproof.expose.events import Pipe
from tensorproof.expose.pytorch.external import External, Externals
from tensorproof.expose.pytorch.recording import Recording, Slice
from tensorproof.expose.pytorch.search import Search
from tensorproof.expose.pytorch.static import TorchStatics
from tensorproof.expose.pytorch.suspects import Execution, suspect_of
from tensorproof.expose.search.board import Board, Suspect
from tensorproof.expose.search.feeding import Feeding
from tensorproof.expose.search.leading import Measured
from tensorproof.expose.search.phases import Phase
from tensorproof.expose.settings import Settings
from tensorproof.expose.stopping import Stop
from tensorproof.formats import Array
from tensorproof.observe.places import mark

if TYPE_CHECKING:
    import torch

#: The step of samples that are moved for what they teach, as a part of the legal width.
_LESSON = 0.03


class Driving:
    """Suspects are seen while a step runs, and one of them is measured; values are moved when the step is done."""

    def __init__(
        self, settings: Settings, board: Board, pipe: Pipe, recording: Recording, externals: Externals, feeding: Feeding
    ) -> None:
        self._settings = settings
        self._board = board
        self._pipe = pipe
        self._recording = recording
        self._externals = externals
        self._feeding = feeding
        self._generator = np.random.default_rng(settings.seed)
        self._search = Search(settings, externals, self._generator)
        self._statics = TorchStatics(board, pipe, recording, externals)
        self._phases: dict[str, Phase] = {}
        #: Values that come nearer while others teach; the values that teach in this step, and how the objective goes with weights.
        self._aside: dict[str, Array] = {}
        self._teaching: Sequence[External] = ()
        self._slopes: Mapping[str, Array] = {}
        self._waiting: dict[str, Array] = {}
        self._has_moved = False
        self._has_new = False
        #: Names of values that were moved.
        self.touched = set[str]()

    def close(self) -> None:
        """Nothing is measured any more."""
        self._search.close()
        self._statics.close()

    def look(self, execution: Execution, operator: str) -> None:
        """An operator that can fail ran, and did not."""
        place = mark({}, currentframe()).place()
        made = suspect_of(execution, operator, place, self._recording)
        suspect = self._board.seen(made)
        if suspect is made:
            suspect.distance = execution.distance()
            self._pipe.suspect(suspect)
            self._has_new = True
        if not self._settings.moves_inputs:
            return
        self._statics.saw(suspect.name, execution)
        if suspect.is_settled or self._has_moved:
            return
        if self._board.current is None:
            self._board.choose()
        if self._board.current is suspect:
            self._drive(suspect, execution)

    def rank(self) -> None:
        """A step is done: what the static analysis says of its suspects decides which of them are driven, and which first."""
        self._statics.step_done()

    def _drive(self, suspect: Suspect, execution: Execution) -> None:
        """One evaluation of the suspect that is driven, and the moves that follow from it."""
        slice, chosen = self._search.movable(self._recording, execution)
        if not chosen or (suspect.evaluations == 0 and not self._search.agrees(slice, execution)):
            # Nothing that could be moved leads there, or it cannot be followed back.
            suspect.is_settled = True
            self._board.choose()
            return
        self._has_moved = True
        phase = self._phases.setdefault(suspect.name, Phase())
        values = {value.name: value.array() for value in chosen}
        if phase.kind == "lesson":
            measured, values = self._taught(suspect, slice, execution, chosen, values)
        else:
            measured, values = self._search.moved(suspect, slice, execution, chosen, values)
        suspect.note(measured.objective)
        self._pipe.suspect(suspect)
        values = self._placed(values, measured.scores)
        if self._settings.method == "search" and phase.is_over(measured.objective) and chosen[0].kind in ("batch", "data"):
            self._teaching = ()
            values = self._turned(phase, chosen, values)
        self._wait(values)
        if self._search.evaluations >= self._settings.evaluations:
            raise Stop("the evaluations are used up")

    def _placed(self, values: Mapping[str, Array], scores: npt.NDArray[np.float64] | None) -> dict[str, Array]:
        """Values as they are fed from the next step on: batches in the data that they were taken from."""
        rows = self._search.rows
        batches = {name: array for name, array in values.items() if name in rows.taken}
        whole = {name: array for name, array in values.items() if name not in batches}
        self._feeding.move(whole, scores)
        for name, array in batches.items():
            first = rows.first(name)
            if first is not None:
                whole |= self._feeding.placed(name, None, first)
            else:
                whole |= self._feeding.placed(name, array, rows.taken[name], scores, everywhere=rows.are_changing(name))
        return whole

    def _taught(
        self, suspect: Suspect, slice: Slice, execution: Execution, chosen: Sequence[External], values: Mapping[str, Array]
    ) -> tuple[Measured, Mapping[str, Array]]:
        """The values that come nearer are kept aside; those that the program trains on are moved when its loss is known."""
        if {name: array.shape for name, array in self._aside.items()} != {name: array.shape for name, array in values.items()}:
            self._aside = dict(values)
        weights = self._search.weights(slice)
        arrays = {weight.name: weight.array() for weight in weights}
        measured = self._search.measure(slice, execution, {**self._aside, **arrays}, [*chosen, *weights])
        if measured.has_failed:
            # The next step gets what fails, and shows it.
            shown, self._aside = self._aside, {}
            return measured, shown
        self._aside = self._search.next(suspect, slice, execution, chosen, self._aside, measured)
        self._teaching = chosen
        self._slopes = {name: slope for name, slope in measured.gradients.items() if name in arrays}
        return measured, values

    def _turned(self, phase: Phase, chosen: Sequence[External], values: Mapping[str, Array]) -> Mapping[str, Array]:
        """Another phase begins: with one sample in place of all, or with the program's own data."""
        self._aside = {}
        if phase.kind == "repeat":
            return {**values, **self._feeding.repeat(chosen[0].name, self._generator)}
        if phase.kind == "approach":
            return {**values, **self._feeding.restart(chosen[0].name)}
        return values

    def teach(self, loss: torch.Tensor | None) -> None:
        """The step of training is done but for its update: move what the program trains on for what it teaches."""
        teaching, slopes = self._teaching, self._slopes
        self._teaching, self._slopes = (), {}
        if loss is None or not teaching:
            return
        slice = self._recording.slice(loss)
        values = {value.name: value.array() for value in teaching}
        for name, slope in self._search.lesson(slice, slopes, teaching, values).items():
            legal = next(value.legal for value in teaching if value.name == name)
            width = legal.high - legal.low if legal.is_bounded else max(1.0, float(np.abs(values[name]).max(initial=0.0)))
            values[name] = legal.clipped(values[name] + _LESSON * width * np.sign(np.nan_to_num(slope)))
        self._wait(self._placed(values, None))

    def _wait(self, values: Mapping[str, Array]) -> None:
        """Values that are not fed again get their numbers when the step is done."""
        self.touched.update(values)
        self._waiting.update({name: array for name, array in values.items() if not name.startswith("batch")})

    def step_done(self) -> dict[str, Array]:
        """Put lasting values where they were moved to; what all were moved to that are not fed again, by name."""
        for value in self._externals.lasting():
            if value.name in self._waiting:
                value.set(self._waiting[value.name])
        moved, self._waiting = self._waiting, {}
        if self._has_new:
            # Only now are all suspects of a step known: the nearest is driven from here on.
            self._board.current = None
        if self._has_moved or self._has_new:
            self._has_moved = self._has_new = False
            self._board.choose()
        return moved
