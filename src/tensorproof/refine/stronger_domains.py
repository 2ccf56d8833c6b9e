"""The whole cone once more, with stronger domains: norms, spectral norms, exact weights, affine forms, each beside those before."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tensorproof.ranges.abstraction import FIRST_PASS, Abstraction
from tensorproof.ranges.range import Range
from tensorproof.refine.alarms import Alarms

#: Cells of a result where weights are exact: one per channel of most networks, not one per position as well.
FINER_CELLS = 1 << 12

#: Passes that cost more evaluations than this end where so many alarms one after the other stay open: ranges grow along
#: a network, and what does not help its first layers does not help those after them.
LARGE = 4000
PATIENCE = 8


def domains(first: Abstraction) -> list[tuple[str, Abstraction]]:
    """The passes of effort 1 by name, from cheap to dear; those that add nothing to the first pass are left out."""
    fine = "expand" if first.tensors == "expand" else "partition"
    norms = replace(first, tensors=fine, norms=True, cells=max(first.cells, FIRST_PASS.cells))
    spectral = replace(norms, spectral=True)
    exact = replace(spectral, weights="exact", cells=max(first.cells, FINER_CELLS))
    affine = replace(exact, values="affine")
    passes = [("norms", norms), ("spectral norms", spectral), ("exact weights", exact), ("affine forms", affine)]
    found: list[tuple[str, Abstraction]] = []
    for name, abstraction in passes:
        if abstraction not in (first, *(other for _, other in found)):
            found.append((name, abstraction))
    return found


def repeat(alarms: Alarms, step: str, abstraction: Abstraction, keep: Collection[int] = ()) -> None:
    """One pass over the cones of all open hazards; what it does not find any more is proven."""
    structure = alarms.structure
    part = structure.behind(structure.at_top(number) for number in alarms.open)
    patience = PATIENCE if alarms.cost(part.nodes) > LARGE else None
    run = alarms.run(part, alarms.inputs, abstraction, keep=keep, patience=patience, step=step)
    alarms.learn(part, run.records, run.summaries)
    alarms.settle(run.records, step)
    alarms.tightened = False
    for number, flow in run.kept.items():
        if isinstance(flow.clean, Range):
            alarms.kept[number] = flow.clean
