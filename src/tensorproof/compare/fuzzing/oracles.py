"""`examine`: one test on several backends, and everything in which its results differ from what they should be.

Nine oracles: process death and time-out, exception parity, NaN and infinity, types, promised shapes, eager against compiled, saved
and loaded, run twice, values. Cheap backends come first; the slow ones, and the modes that cost a second run, take part in a sample
of tests (drawn from the test's own key, so that a test is always examined in the same way) or when the others disagree.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tensorproof.compare.backends.backend import Mode, NetworkRun, Unavailable
from tensorproof.compare.drawing import Arrays
from tensorproof.compare.fuzzing.discrepancy import Discrepancy, Oracle
from tensorproof.compare.fuzzing.referee import Referee
from tensorproof.compare.fuzzing.refusals import deaths, is_unsupported, refusals
from tensorproof.compare.fuzzing.results import DIFFERENCE, MODES, own_results, results
from tensorproof.compare.spec import TestSpec
from tensorproof.compare.workers.backend_id import BackendId
from tensorproof.compare.workers.fleet import Fleet

#: Backends by what a test costs on them, cheapest first.
COST_ORDER = (
    "keras:torch",
    "onnxruntime",
    "keras:numpy",
    "onnx-reference",
    "torch",
    "openvino",
    "keras:tensorflow",
    "keras:openvino",
    "keras:jax",
)
#: Backends that are asked in one of so many tests: JAX compiles a program per shape, and NumPy leaves windows to JAX.
_LATE = {"keras:jax": 8, "keras:numpy": 4}
#: Of so many tests one is run again, compiled, saved and loaded.
_SHARES: dict[Oracle, int] = {"repeat": 4, "compiled": 8, "saved": 8}


@dataclass(frozen=True)
class Examination:
    """What was found, and what it took: runs and CPU seconds by backend, who could not run the test, processes that ended."""

    discrepancies: tuple[Discrepancy, ...] = ()
    runs: Counter[str] = field(default_factory=Counter[str])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    unavailable: Counter[str] = field(default_factory=Counter[str])
    deaths: int = 0


def examine(fleet: Fleet, test: TestSpec, backends: Sequence[BackendId], arrays: Arrays | None = None) -> list[Discrepancy]:
    """All discrepancies of a test; what it finds depends on the test and the backends alone."""
    return list(examination(fleet, test, backends, arrays).discrepancies)


def examination(
    fleet: Fleet,
    test: TestSpec,
    backends: Sequence[BackendId],
    arrays: Arrays | None = None,
    *,
    effort: Literal["sampled", "full"] = "sampled",
) -> Examination:
    """`examine`, with what it took. With `full` effort every backend is asked in every mode."""
    asked = _Asked(fleet, test, arrays)
    referee = Referee(test, arrays)
    everything = effort == "full"
    ordered = sorted((backend for backend in backends if speaks(backend, test)), key=_cost)
    early = [backend for backend in ordered if backend.name not in _LATE]
    late = [backend for backend in ordered if backend.name in _LATE]
    runs = asked.all(early)
    found = _compared(runs, referee)
    everybody = everything or not runs or any(_undecided(entry) for entry in found)
    more = asked.all([backend for backend in late if everybody or _sampled(test, f"late {backend}", _LATE[backend.name])])
    if more:
        runs |= more
        found = _compared(runs, referee)
    suspects = {entry.culprit for entry in found}
    for backend, run in runs.items():
        for oracle, share in _SHARES.items():
            wanted = everything or _sampled(test, f"{backend} {oracle}", share) or (oracle == "repeat" and backend in suspects)
            if wanted and run.failure is None:
                found.extend(asked.again(oracle, backend, run, referee))
    return Examination(tuple(found), asked.runs, asked.seconds, asked.unavailable, asked.deaths)


def recheck(
    fleet: Fleet, test: TestSpec, discrepancy: Discrepancy, backends: Sequence[BackendId], arrays: Arrays | None = None
) -> Discrepancy | None:
    """The same discrepancy (by signature) in another, usually smaller test; None if it does not show there.

    Only the backends that it takes are asked: the culprit, and whom it was compared with.
    """
    asked = _Asked(fleet, test, arrays)
    referee = Referee(test, arrays)
    if discrepancy.oracle in MODES:
        runs = asked.all([discrepancy.culprit])
        found: list[Discrepancy] = []
        for backend, run in runs.items():
            if run.failure is None:
                found.extend(asked.again(discrepancy.oracle, backend, run, referee))
    else:
        # The one that was trusted comes first: of two that differ, the first is right.
        trusted = (
            [discrepancy.other]
            if discrepancy.other is not None
            else [backend for backend in backends if backend != discrepancy.culprit and speaks(backend, test)]
        )
        found = _compared(asked.all([*sorted(trusted, key=_cost), discrepancy.culprit]), referee)
    return next((entry for entry in found if _same(entry, discrepancy)), None)


def speaks(backend: BackendId, test: TestSpec) -> bool:
    """Whether a backend is for networks of the test's dialect at all."""
    return backend.name.startswith("keras:") == (test.network.dialect == "keras")


def _compared(runs: dict[BackendId, NetworkRun], referee: Referee) -> list[Discrepancy]:
    return [*deaths(runs), *refusals(runs, referee), *results(runs, referee)]


def _same(left: Discrepancy, right: Discrepancy) -> bool:
    """The same signature; a smaller test may have a reference that the larger one did not have."""
    plain = [(entry.oracle, entry.culprit, entry.symptom.removesuffix(DIFFERENCE)) for entry in (left, right)]
    return plain[0] == plain[1]


def _undecided(entry: Discrepancy) -> bool:
    """Whether one more opinion would help: it is two against two, or one refuses and it is not clear who is right."""
    return entry.oracle == "exception" or entry.symptom.endswith(DIFFERENCE)


def _cost(backend: BackendId) -> tuple[int, BackendId]:
    return (COST_ORDER.index(backend.name) if backend.name in COST_ORDER else len(COST_ORDER), backend)


def _sampled(test: TestSpec, purpose: str, share: int) -> bool:
    digest = hashlib.sha256(f"{test.key} {purpose}".encode()).digest()
    return int.from_bytes(digest[:4], "little") % share == 0


class _Asked:
    """Runs of one test, counted."""

    def __init__(self, fleet: Fleet, test: TestSpec, arrays: Arrays | None) -> None:
        self._fleet, self._test, self._arrays = fleet, test, arrays
        self.runs: Counter[str] = Counter()
        self.seconds: dict[str, float] = {}
        self.unavailable: Counter[str] = Counter()
        self.deaths = 0

    def all(self, backends: Sequence[BackendId]) -> dict[BackendId, NetworkRun]:
        """Results by backend; those who cannot run the test on principle are left out."""
        found: dict[BackendId, NetworkRun] = {}
        for backend in backends:
            run = self._run(backend, "eager")
            if run is not None:
                found[backend] = run
        return found

    def again(self, oracle: Oracle, backend: BackendId, eager: NetworkRun, referee: Referee) -> Iterator[Discrepancy]:
        """The test once more on one backend, and in what the results differ."""
        run = self._run(backend, MODES[oracle])
        if run is not None:
            yield from own_results(oracle, backend, eager, run, referee)

    def _run(self, backend: BackendId, mode: Mode) -> NetworkRun | None:
        try:
            run = self._fleet.run(backend, self._test, arrays=self._arrays, mode=mode)
        except Unavailable:
            self.unavailable[str(backend)] += 1
            return None
        if is_unsupported(run.failure):
            self.unavailable[str(backend)] += 1
            return None
        self.runs[str(backend)] += 1
        self.seconds[str(backend)] = self.seconds.get(str(backend), 0.0) + run.seconds
        self.deaths += run.failure is not None and run.failure.stage == "process"
        return run
