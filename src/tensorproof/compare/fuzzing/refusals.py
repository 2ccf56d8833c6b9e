"""Oracles on tests that gave no result: dead and hanging processes, refusals that others do not share, internal errors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tensorproof.compare.backends.backend import Failure, NetworkRun
from tensorproof.compare.fuzzing.discrepancy import Discrepancy, template
from tensorproof.compare.fuzzing.referee import Referee
from tensorproof.compare.workers.backend_id import BackendId

#: Exceptions that no framework raises on purpose to refuse an argument.
_INTERNAL_KINDS = {
    "ArithmeticError",
    "AssertionError",
    "AttributeError",
    "IndexError",
    "InternalError",
    "KeyError",
    "NameError",
    "RecursionError",
    "StopIteration",
    "SystemError",
    "UnboundLocalError",
    "ZeroDivisionError",
}
_INTERNAL_WORDS = re.compile(r"\binternal\b|segmentation fault|segfault|core dumped|please report|this is a bug", re.IGNORECASE)
#: What a framework says it does not have is a limit of it, and no defect.
_UNSUPPORTED = re.compile(r"not (yet |currently )?(supported|implemented)|unsupported (?!operand)|NOT_IMPLEMENTED", re.IGNORECASE)

ACCEPTS_ILLEGAL = "accepts an illegal value that others refuse"


def is_unsupported(failure: Failure | None) -> bool:
    """Whether a framework says that it does not have what is asked for."""
    if failure is None or failure.stage == "process":
        return False
    return failure.kind == "NotImplementedError" or _UNSUPPORTED.search(failure.message) is not None


def is_internal(failure: Failure) -> bool:
    """Whether an error is an accident inside the framework rather than a refusal."""
    return failure.kind in _INTERNAL_KINDS or _INTERNAL_WORDS.search(failure.message) is not None


def refused(failure: Failure) -> str:
    """A refusal's symptom: how it is told, without what differs from test to test."""
    return f"{'fails inside' if is_internal(failure) else 'refuses'}: {failure.kind}: {template(failure.message)}"


def deaths(runs: Mapping[BackendId, NetworkRun]) -> Iterator[Discrepancy]:
    """Processes that died or were killed because they gave no answer."""
    for backend, run in runs.items():
        failure = run.failure
        if failure is not None and failure.stage == "process":
            symptom = "hangs" if failure.kind == "timeout" else f"dies: {template(failure.message)}"
            other = next((b for b, r in runs.items() if r.failure is None), None)
            yield Discrepancy("death", backend, other, symptom, failure.layer, failure.message)


def refusals(runs: Mapping[BackendId, NetworkRun], referee: Referee) -> Iterator[Discrepancy]:
    """One refuses what another computes, or fails by accident.

    All refusing in their own words is agreement. Of legal values, those who refuse are held to be wrong; of values that are
    wrong on purpose, those who accept them.
    """
    failed = {b: r.failure for b, r in runs.items() if r.failure is not None and r.failure.stage != "process"}
    computed = [backend for backend, run in runs.items() if run.failure is None]
    accidents = {backend: failure for backend, failure in failed.items() if is_internal(failure)}
    yield from _accidents(accidents, computed)
    clean = {backend: failure for backend, failure in failed.items() if backend not in accidents}
    if not clean or not (computed or referee.reference):
        return
    if referee.illegal:
        refuser, failure = next(iter(clean.items()))
        for backend in computed:
            told = f"{', '.join(referee.illegal)}: {refuser} says {failure.kind}: {_line(failure.message)}"
            yield Discrepancy("exception", backend, refuser, ACCEPTS_ILLEGAL, referee.illegal[0].partition(".")[0], told)
        return
    for backend, failure in clean.items():
        other = computed[0] if computed else None
        yield Discrepancy("exception", backend, other, refused(failure), failure.layer, _line(failure.message))


def _accidents(accidents: Mapping[BackendId, Failure], computed: list[BackendId]) -> Iterator[Discrepancy]:
    """One for each backend; where several share the words, the fault is in code that they share, and told once."""
    told: set[str] = set()
    for backend, failure in accidents.items():
        symptom = refused(failure)
        if symptom not in told:
            told.add(symptom)
            sharing = [str(b) for b, f in accidents.items() if refused(f) == symptom]
            also = f" (the same on {', '.join(sharing[1:])})" if len(sharing) > 1 else ""
            other = computed[0] if computed else None
            yield Discrepancy("exception", backend, other, symptom, failure.layer, _line(failure.message) + also)


def _line(message: str) -> str:
    """A message as one line, without the line that Keras puts before it."""
    lines = [line for line in message.splitlines() if not line.startswith("Exception encountered when calling")]
    return " ".join(" ".join(lines).split())[:300]
