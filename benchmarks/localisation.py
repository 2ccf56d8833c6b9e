"""Change rates of layers with and without a planted fault: the thresholds of AUDEE's algorithm 2 from cases of our own.

Keras on PyTorch, with faults planted at its operators, against Keras on TensorFlow. `CASES` in the environment sets how many
networks.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from tests.planted_faults.every_fault import NAMES, fault
from tests.planted_faults.networks import Case, deep, healthy

from tensorproof.compare.fuzzing.change_rate import (
    Run,
    Thresholds,
    before_layer,
    change_rates,
    cradle_ranking,
    layer_distances,
    localise_fix,
    suspects,
)
from tensorproof.compare.workers.backend_id import BackendId
from tensorproof.compare.workers.fleet import Fleet

LEFT = BackendId.parse("keras:torch?with=tests.planted_faults.every_fault")
RIGHT = BackendId.parse("keras:tensorflow")
AUDEE = Thresholds(1000.0, 2.0)
#: By how much a threshold's separation may be worse than the best one's.
SLACK = 0.05
#: Every so many cases with faults are also localised with fixing, which runs networks again.
FIXED = 10


@dataclass(frozen=True)
class Sample:
    """A layer: what differed before it, its rate, and whether a fault was planted in it."""

    before: float
    rate: float
    is_faulty: bool


def main() -> None:
    count = int(os.environ.get("CASES", "1000"))
    samples: list[Sample] = []
    seen: list[tuple[Case, dict[str, float]]] = []
    without = 0
    with Fleet() as fleet:
        left, right = sides(fleet)
        for case in cases(count):
            distances = layer_distances(case.test, left, right)
            if not distances:
                without += 1
                continue
            seen.append((case, distances))
            samples.extend(_samples(case, distances))
        found = derived(samples)
        planted = sum(bool(case.faulty) for case in cases(count))
        print(f"{count} networks, {planted} with planted faults; {without} did not run on one side", flush=True)
        for name, kind in (("t1 (jump)", True), ("t2 (growth)", False)):
            _print_threshold(
                name, [s for s in samples if (s.before <= found.nothing) == kind], found.jump if kind else found.growth
            )
        _print_accuracy("ours, first suspect", seen, lambda case, distances: suspects(case.test.network, distances, found)[:1])
        _print_accuracy("AUDEE's 1000 and 2", seen, lambda case, distances: suspects(case.test.network, distances, AUDEE)[:1])
        _print_accuracy("CRADLE, highest rate", seen, lambda case, distances: cradle_ranking(case.test.network, distances)[:1])
        named = faults = wrong = 0
        for case, _ in [entry for entry in seen if len(entry[0].faulty) == 2][::FIXED]:
            layers = localise_fix(case.test, left, right, found)
            planted = [layer for layer, _ in case.faulty]
            faults += len(planted)
            named += sum(layer in planted for layer in layers)
            wrong += sum(layer not in planted for layer in layers)
        print(f"with fixing, networks with two faults: {named} of {faults} faults named, {wrong} healthy layers named")


def cases(count: int) -> Iterator[Case]:
    """A quarter without a fault, half with one, a quarter with two."""
    for seed in range(count):
        name, other = NAMES[seed % len(NAMES)], NAMES[(7 * seed // 4 + 3) % len(NAMES)]
        first, second = fault(name).triggers[seed // 7 % len(fault(name).triggers)], fault(other).triggers[-1]
        if seed % 4 == 0:
            yield Case(healthy(seed), ())
        elif seed % 4 == 3:
            yield deep([(name, first), (other, second)], seed)
        else:
            yield deep([(name, first)], seed)


def sides(fleet: Fleet) -> tuple[Run, Run]:
    """How the backend with faults and the one without run a test."""

    def run_on(backend: BackendId) -> Run:
        return lambda test, arrays: fleet.run(backend, test, arrays=arrays)

    return run_on(LEFT), run_on(RIGHT)


def _samples(case: Case, distances: dict[str, float]) -> Iterator[Sample]:
    planted = {layer for layer, _ in case.faulty}
    for name, rate in change_rates(case.test.network, distances).items():
        before = before_layer(case.test.network, distances, name)
        if math.isfinite(before):
            yield Sample(before, rate, name in planted)


def derived(samples: Sequence[Sample]) -> Thresholds:
    """Thresholds that separate best, each from the layers that it is for."""
    nothing = Thresholds().nothing
    jump = _best([s for s in samples if s.before <= nothing])
    growth = _best([s for s in samples if s.before > nothing])
    return Thresholds(jump, growth, nothing)


def _best(samples: Sequence[Sample]) -> float:
    """Faulty layers above minus healthy layers above, each as a share, is to be large (Youden's index).

    The middle, in logarithms, of all thresholds that are within `SLACK` of the best: the best one alone lies close to the rounding
    of these very networks, whose values are of size 1.
    """
    rates = np.clip([s.rate for s in samples], 1e-3, 1e30)
    faulty = np.array([s.is_faulty for s in samples])
    if not faulty.any() or faulty.all():
        return math.inf
    order = np.argsort(rates)
    rates, faulty = rates[order], faulty[order]
    index = np.cumsum(~faulty) / (~faulty).sum() - np.cumsum(faulty) / faulty.sum()
    good = np.flatnonzero(index >= index.max() - SLACK)
    return float(np.sqrt(rates[good[0]] * rates[min(good[-1] + 1, len(rates) - 1)]))


def _shares(samples: Sequence[Sample], threshold: float) -> tuple[float, float]:
    faulty = [s.rate for s in samples if s.is_faulty]
    sound = [s.rate for s in samples if not s.is_faulty]
    above = [sum(rate > threshold for rate in rates) / max(1, len(rates)) for rates in (faulty, sound)]
    return above[0], above[1]


def _print_threshold(name: str, samples: Sequence[Sample], threshold: float) -> None:
    recall, alarms = _shares(samples, threshold)
    faulty = sum(s.is_faulty for s in samples)
    above = f"above it {recall:6.1%} of {faulty} faulty layers, {alarms:6.2%} of {len(samples) - faulty} healthy ones"
    print(f"{name:12} {threshold:10.3g}: {above}")


def _print_accuracy(name: str, seen: Sequence[tuple[Case, dict[str, float]]], first) -> None:
    right = total = alarms = sound = 0
    for case, distances in seen:
        named = first(case, distances)
        if case.faulty:
            total += 1
            right += named[:1] == [case.faulty[0][0]]
        else:
            sound += 1
            alarms += bool(named)
    print(f"{name:22} first fault named first in {right} of {total}; networks without a fault blamed: {alarms} of {sound}")
