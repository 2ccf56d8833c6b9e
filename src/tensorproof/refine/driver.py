"""The steps of a refinement in their order, up to the effort that the user chose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tensorproof.errors import ConfigurationError
from tensorproof.ranges.abstraction import Abstraction
from tensorproof.ranges.containers import Abstract
from tensorproof.ranges.propagate import NOTHING_KNOWN, Flow, Known, RangedGraph
from tensorproof.refine.alarms import Alarms
from tensorproof.refine.local_steps import BISECTION, RELAXATION, entering, prove_in_windows
from tensorproof.refine.stronger_domains import domains, repeat

EFFORTS = (0, 1, 2, 3)
DEFAULT_EFFORT = 1


def checked_effort(effort: int) -> int:
    """The effort, if there is one of that number."""
    if effort not in EFFORTS:
        raise ConfigurationError(f"effort {effort}: write {', '.join(map(str, EFFORTS))}")
    return effort


@dataclass(frozen=True, slots=True)
class Refinement:
    """What the steps proved: for a last pass over the whole model, and the step that proved each node, by its number."""

    known: Known
    proven_by: Mapping[int, str]


NOTHING_PROVEN = Refinement(NOTHING_KNOWN, {})


def refine(
    first: RangedGraph,
    inputs: Mapping[int, Abstract],
    constants: Callable[[int], Flow],
    abstraction: Abstraction,
    effort: int,
    progress: Callable[[str, int], None] | None = None,
) -> Refinement:
    """Look again at what alarms after the first pass, which had that abstraction."""
    if effort < 1 or not any(record.hazards for record in first.records.values()):
        return NOTHING_PROVEN
    alarms = Alarms.of(first, inputs, constants, progress)
    passes = domains(abstraction)
    for step, stronger in passes:
        if not alarms.open:
            break
        local = effort >= 2 and stronger is passes[-1][1]
        repeat(alarms, step, stronger, entering(alarms, effort) if local else ())
    if effort >= 2 and alarms.open:
        strongest = passes[-1][1]
        prove_in_windows(alarms, strongest, effort)
        if alarms.tightened and alarms.open:
            repeat(alarms, RELAXATION if effort >= 3 else BISECTION, strongest)
    return Refinement(alarms.known, alarms.proven_by)
