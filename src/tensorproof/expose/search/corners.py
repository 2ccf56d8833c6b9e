"""When the corner of the legal range is tried: less and less often as long as that does not pay."""

from __future__ import annotations

from dataclasses import dataclass, field

from tensorproof.expose.search.board import Suspect


@dataclass(slots=True)
class Corners:
    """For each suspect, the evaluation from which the corner is tried again, and how long it will not be if that fails."""

    _next: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])

    def are_due(self, suspect: Suspect) -> bool:
        """Whether the corner is worth a measurement."""
        due, _ = self._next.get(suspect.name, (0, 1))
        return suspect.evaluations >= due

    def note(self, suspect: Suspect, *, pays: bool) -> None:
        """What came of a trial: a corner that was nearer is tried at every step, another one after twice as many as before."""
        _, wait = self._next.get(suspect.name, (0, 1))
        self._next[suspect.name] = (0, 1) if pays else (suspect.evaluations + wait, 2 * wait)
