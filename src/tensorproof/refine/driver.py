"""The steps of a refinement in their order, up to the effort that the user chose."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

from tensorproof.errors import ConfigurationError
from tensorproof.graph import Model
from tensorproof.ranges.abstraction import FIRST_PASS, Abstraction
from tensorproof.ranges.containers import Abstract
from tensorproof.ranges.differentiable import NO_PATHS, Paths
from tensorproof.ranges.flow import Flow
from tensorproof.ranges.propagate import propagate
from tensorproof.ranges.range import Range
from tensorproof.ranges.records import NOTHING_KNOWN, Known, RangedGraph
from tensorproof.ranges.unselected import report_unselected
from tensorproof.refine.alarms import Alarms
from tensorproof.refine.local_steps import BISECTION, RELAXATION, entering, prove_in_windows
from tensorproof.refine.stronger_domains import domains, repeat
from tensorproof.targets import Target

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


def propagate_refined(
    model: Model,
    inputs: Mapping[int, Abstract],
    target: Target,
    *,
    constants: Callable[[int], Flow],
    abstraction: Abstraction = FIRST_PASS,
    effort: int = DEFAULT_EFFORT,
    progress: Callable[[str, int], None] | None = None,
    keep_ranges: bool = False,
    paths: Paths = NO_PATHS,
) -> tuple[RangedGraph, Mapping[int, str]]:
    """Ranges of all values after a first pass and its refinement, and the step that proved each node which alarmed.

    Where all numbers have 32 bits or more, the first pass goes without norms: they rarely prove what intervals do not, and
    come back for what alarms. `paths` are the nodes whose derivatives are looked at, too.
    """
    if not has_narrow_formats(model):
        abstraction = replace(abstraction, norms=False)
    begun = {number: granulated(value, abstraction) for number, value in inputs.items()}

    def whole_pass(
        stage: str, known: Known, earlier: RangedGraph | None = None, keep: bool | Collection[int] = keep_ranges
    ) -> RangedGraph:
        return propagate(
            model,
            begun,
            target,
            constants=constants,
            keep_ranges=keep,
            progress=None if progress is None else partial(progress, stage),
            abstraction=abstraction,
            known=known,
            claims=None if earlier is None else earlier.claims,
            paths=paths,
        )

    first = whole_pass("ranges", NOTHING_KNOWN)
    # Refinements take inputs as they are declared where the first pass was coarser.
    refinement = refine(first, inputs if abstraction.tensors == "smash" else begun, constants, abstraction, effort, progress)
    known = refinement.known if refinement.known.impossible else NOTHING_KNOWN
    ranged = first if known is NOTHING_KNOWN else whole_pass("last pass", known, first)
    if paths:
        report_unselected(ranged, lambda keep: whole_pass("gradients", known, first, keep), constants)
    return ranged, refinement.proven_by


def has_narrow_formats(model: Model) -> bool:
    """Whether some value of a model is stated to have a floating format of less than 32 bits."""
    return any(value.format is not None and value.format.is_float and value.format.bits < 32 for value in model.values)


def granulated(value: Abstract, abstraction: Abstraction) -> Abstract:
    """An input with the cells that an abstraction begins with."""
    if not isinstance(value, Range):
        return value
    if abstraction.tensors == "smash":
        return value.smash()
    if abstraction.tensors == "expand" and value.has_known_shape and value.size <= abstraction.cells:
        return value.expand()
    return value


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
