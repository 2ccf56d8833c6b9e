"""`Observer`: what a test shows of one discrepancy, layer by layer. Only the oracle that noticed it is asked again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensorproof.compare.backends.backend import Mode, NetworkRun, Unavailable
from tensorproof.compare.drawing import Arrays
from tensorproof.compare.fuzzing.discrepancy import Discrepancy
from tensorproof.compare.fuzzing.referee import Referee
from tensorproof.compare.fuzzing.refusals import deaths, is_unsupported, refusals
from tensorproof.compare.fuzzing.results import DIFFERENCE, MODES, own_results, results
from tensorproof.compare.spec import TestSpec
from tensorproof.compare.workers.backend_id import BackendId
from tensorproof.compare.workers.fleet import Fleet

#: The place of a symptom that belongs to no layer: the network was refused, or its process died.
WHOLE = ""
#: The place of wrong gradients.
GRADIENT = "gradient"


class Observer:
    """Compares the backend held to be wrong with whom it was compared with, and counts how often (`evaluations`).

    `backends` stand in where it was compared with the reference, so that faults that all share stay told from others.
    """

    def __init__(self, fleet: Fleet, discrepancy: Discrepancy, backends: Sequence[BackendId] = ()) -> None:
        self.fleet = fleet
        self.discrepancy = discrepancy
        self.backends = tuple(backend for backend in backends if backend != discrepancy.culprit)
        self.evaluations = 0
        #: The layer that the framework itself named in the last failure.
        self.named: str | None = None

    def symptoms(self, test: TestSpec, arrays: Arrays | None = None) -> dict[str, str]:
        """What is wrong with the culprit, by output layer, `WHOLE` or `GRADIENT`. Empty: nothing that this oracle sees.

        A symptom is told in the words of the oracle; two are the same if the words are, whether or not a reference could be asked.
        """
        self.evaluations += 1
        self.named = None
        found: dict[str, str] = {}
        for entry in self._discrepancies(test, arrays):
            if entry.culprit != self.discrepancy.culprit:
                continue
            place = WHOLE if entry.oracle in ("death", "exception") else entry.layer or GRADIENT
            if place == WHOLE:
                self.named = entry.layer
            found.setdefault(place, words_of(entry))
        return found

    def find(self, test: TestSpec, arrays: Arrays | None, symptom: str) -> Discrepancy | None:
        """The discrepancy with some symptom in a test."""
        self.evaluations += 1
        found = (entry for entry in self._discrepancies(test, arrays) if entry.culprit == self.discrepancy.culprit)
        return next((entry for entry in found if words_of(entry) == symptom), None)

    def shows(self, test: TestSpec, arrays: Arrays | None, symptom: str) -> bool:
        """Whether a symptom is among those of a test."""
        return symptom in self.symptoms(test, arrays).values()

    def run(self, backend: BackendId, test: TestSpec, arrays: Arrays | None = None, mode: Mode = "eager") -> NetworkRun | None:
        """What a backend gives; None if it cannot run the test on principle."""
        try:
            run = self.fleet.run(backend, test, arrays=arrays, mode=mode)
        except Unavailable:
            return None
        return None if is_unsupported(run.failure) else run

    def _discrepancies(self, test: TestSpec, arrays: Arrays | None) -> Iterator[Discrepancy]:
        oracle, culprit, other = self.discrepancy.oracle, self.discrepancy.culprit, self.discrepancy.other
        referee = Referee(test, arrays)
        mine = self.run(culprit, test, arrays)
        if mine is None:
            return
        if oracle in MODES and mine.failure is None:
            again = self.run(culprit, test, arrays, MODES[oracle])
            if again is not None:
                yield from own_results(oracle, culprit, mine, again, referee)
            return
        # The one that was trusted comes first: of two that differ, and without a reference, the first is right.
        runs: dict[BackendId, NetworkRun] = {}
        for backend in self.backends if other is None else (other,):
            theirs = self.run(backend, test, arrays)
            if theirs is not None:
                runs[backend] = theirs
        runs[culprit] = mine
        yield from deaths(runs)
        yield from refusals(runs, referee)
        yield from results(runs, referee)


def words_of(entry: Discrepancy) -> str:
    """What stays the same when a test is reduced, or when it gets or loses its reference on the way."""
    return f"{entry.oracle}: {entry.symptom.removesuffix(DIFFERENCE)}"
