"""The steps that look at one alarm at a time, in a window behind it: splitting, bisection, relaxation."""

from __future__ import annotations

from dataclasses import replace

from tensorproof.ranges.abstraction import Abstraction
from tensorproof.refine.alarms import Alarms, Budget
from tensorproof.refine.bisection import prove_by_bisection, tighten
from tensorproof.refine.cone import Part
from tensorproof.refine.relaxation import MOST_NODES, prove_by_relaxation
from tensorproof.refine.splitting import prove_by_splitting
from tensorproof.refine.window import Window, window_part

SPLITTING = "predicate splitting"
BISECTION = "bisection"
RELAXATION = "linear relaxation"

#: Alarms that are looked at one by one: the first ones, which the others often follow from.
MOST_ALARMS = 64
#: Evaluations of nodes that each step may spend on a small model; on one whose cost is above LARGE, so many and a small part
#: of that cost, which is about the time of a few runs.
SMALL_BUDGET = 3000
LARGE = 1000
LARGE_BUDGET = 600
PART_OF_THE_MODEL = 64


def entering(alarms: Alarms, effort: int) -> set[int]:
    """The values whose ranges the windows of the open alarms begin at."""
    found: set[int] = set()
    for number in list(alarms.open)[:MOST_ALARMS]:
        found.update(window_part(alarms, number).entering)
        if effort >= 3:
            found.update(_relaxed_part(alarms, number).entering)
    return found


def _relaxed_part(alarms: Alarms, number: int) -> Part:
    return alarms.structure.behind([alarms.structure.at_top(number)], MOST_NODES)


def prove_in_windows(alarms: Alarms, abstraction: Abstraction, effort: int) -> None:
    """Try to prove each open alarm in its own window."""
    _by_cases(alarms, abstraction, Budget(_budget(alarms)), Budget(_budget(alarms)))
    if effort >= 3:
        _by_relaxation(alarms, abstraction, Budget(_budget(alarms)))


def _budget(alarms: Alarms) -> int:
    cost = alarms.cost(alarms.model.graph.nodes)
    return SMALL_BUDGET if cost <= LARGE else LARGE_BUDGET + cost // PART_OF_THE_MODEL


def _by_relaxation(alarms: Alarms, abstraction: Abstraction, budget: Budget) -> None:
    for number in list(alarms.open)[:MOST_ALARMS]:
        window = Window.of(alarms, number, _relaxed_part(alarms, number), abstraction, RELAXATION)
        if window is not None and prove_by_relaxation(window, budget):
            alarms.prove(number, RELAXATION)


def _by_cases(alarms: Alarms, abstraction: Abstraction, splitting: Budget, bisection: Budget) -> None:
    for number in list(alarms.open)[:MOST_ALARMS]:
        part = window_part(alarms, number)
        window = Window.of(alarms, number, part, abstraction, SPLITTING)
        if window is None:
            continue
        if window.promising() and prove_by_splitting(window, splitting):
            alarms.prove(number, SPLITTING)
            continue
        # Small pieces need no relations, which cost most of the time.
        window.step, window.abstraction = BISECTION, replace(abstraction, values="interval")
        if window.promising() and prove_by_bisection(window, bisection):
            alarms.prove(number, BISECTION)
            continue
        if tighten(alarms, window, bisection):
            again = window.evaluate({}, bisection)
            if again is not None and again.safe:
                alarms.prove(number, BISECTION)
