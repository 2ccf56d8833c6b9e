"""`Driving`: which suspect of an eager TensorFlow program is driven, and where its external values are moved to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tensorproof.expose.eager.external import Externals
from tensorproof.expose.eager.feeding import Feeds
from tensorproof.expose.eager.recording import Call, Recording
from tensorproof.expose.eager.search import Search
from tensorproof.expose.eager.suspects import Execution, executions, suspect_name, suspect_of
from tensorproof.expose.events import Failure, Pipe
from tensorproof.expose.search.board import Board, Suspect
from tensorproof.expose.settings import Settings
from tensorproof.expose.stopping import Stop
from tensorproof.formats import Array


class Driving:
    """Suspects are seen while a step runs, and one of them is measured; values are moved when the step is done."""

    def __init__(self, settings: Settings, board: Board, pipe: Pipe, overrides: Mapping[str, Array], recording: Recording) -> None:
        self._settings = settings
        self._board = board
        self._pipe = pipe
        self._recording = recording
        generator = np.random.default_rng(settings.seed)
        #: What values have been moved to, by name: the program gets it the next time that it makes them.
        self.moved: dict[str, Array] = dict(overrides)
        self._overrides = overrides
        #: Names of values that were moved.
        self.touched = set(overrides)
        self.externals = Externals(settings.ranges, self.moved)
        self.feeds = Feeds(settings, self.externals, self.moved, generator)
        self.search = Search(settings, self.externals, generator)
        self._waiting: dict[str, Array] = {}
        self._has_moved = False
        self._has_new = False

    def look(self, call: Call, is_recorded: bool, has_trained: bool) -> None:
        """An operator that can fail ran, and did not.

        `is_recorded` says that the program differentiates what it does, `has_trained` that it has done so for a step before.
        """
        for execution in executions(call, is_recorded):
            # What the program computed before it trains is not told apart from what it trains with until the first step is done.
            self._suspect(execution, may_move_weights=has_trained or not is_recorded)

    def _suspect(self, execution: Execution, may_move_weights: bool) -> None:
        name = suspect_name(execution.call.op, execution.call.where, execution.weakness)
        suspect = self._board.suspects.get(name)
        if suspect is None:
            suspect = self._board.seen(suspect_of(execution, self._recording))
            suspect.distance = self.search.beside(execution.nearest)
            self._pipe.suspect(suspect)
            self._has_new = True
        if not self._settings.moves_inputs or suspect.is_settled or self._has_moved:
            return
        if self._board.current is None:
            self._board.choose()
        if self._board.current is suspect:
            self._drive(suspect, execution, may_move_weights)

    def _drive(self, suspect: Suspect, execution: Execution, may_move_weights: bool) -> None:
        """One evaluation of the suspect that is driven, and the moves that follow from it."""
        slice, chosen = self.search.movable(self._recording, execution)
        if not chosen or (suspect.evaluations == 0 and not self.search.agrees(slice, execution)):
            # Nothing that could be moved leads there, or it cannot be followed back.
            suspect.is_settled = True
            self._board.choose()
            return
        if chosen[0].kind == "weight" and not may_move_weights:
            return
        found = self.search.moved(suspect, slice, execution, chosen)
        if found is None:
            suspect.is_settled = True
            self._board.choose()
            return
        measured, values = found
        self._has_moved = True
        suspect.note(measured.objective)
        self._pipe.suspect(suspect)
        self.touched.update(values)
        self.feeds.move({v.name: values[v.name] for v in chosen if v.kind in ("batch", "data")}, measured.scores)
        for value in chosen:
            if value.kind == "draw":
                self.moved[value.name] = values[value.name]
            elif value.kind != "batch":
                self._waiting[value.name] = values[value.name]
        if self.search.evaluations >= self._settings.evaluations:
            raise Stop("the evaluations are used up")

    def step_done(self, has_trained: bool, is_counted: bool) -> None:
        """Values go where they were moved to. `has_trained` says that the program had begun to train before this step."""
        for tensor in self._recording.given.values() if self._waiting else ():
            value = self.externals.find(tensor)
            array = None if value is None else self._waiting.get(value.name)
            if value is not None and array is not None:
                self.moved[value.name] = array
                self.search.beside(lambda value=value, array=array: value.set(array))
        self._waiting.clear()
        self.externals.step_done(() if has_trained else self._recording.calls)
        self.feeds.step_done(is_counted)
        if self._has_new:
            # Only now are all suspects of a step known: the nearest is driven from here on.
            self._board.current = None
        if self._has_moved or self._has_new:
            self._has_moved = self._has_new = False
            self._board.choose()

    def settle(self, file: str | None, line: int | None) -> None:
        """Suspects of a line are driven no more."""
        for suspect in self._board.suspects.values():
            if (suspect.file, suspect.line) == (file, line):
                suspect.is_settled = True

    def completed(self, failure: Failure) -> Failure:
        """A failure with what is known here: whether its suspect was seen, and which values were moved."""
        suspect = failure.suspect if failure.suspect in self._board.suspects else ""
        return replace(failure, suspect=suspect, moved=sorted(self.touched & failure.values.keys()))

    @property
    def has_moved_on(self) -> bool:
        """Whether values are elsewhere than they were when the program began."""
        return any(
            name not in self._overrides or not np.array_equal(array, self._overrides[name]) for name, array in self.moved.items()
        )

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to be driven."""
        return all(suspect.is_settled for suspect in self._board.suspects.values())
