"""AUDEE's table 4: which layer and which parameters are named for faults that were planted, and who blames healthy networks.

Keras on PyTorch, with faults planted at its operators, against Keras on TensorFlow. Of four networks of `benchmarks.localisation`
one has no fault, two have one and one has two. All methods see the same networks, inputs and weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from tests.planted_faults.every_fault import fault
from tests.planted_faults.networks import Case

from benchmarks.localisation import AUDEE, LEFT, RIGHT, sides
from benchmarks.localisation import cases as networks
from benchmarks.paper.table import Json, Section, Size
from benchmarks.timing import cpu_seconds
from tensorproof.compare.fuzzing.change_rate import (
    Thresholds,
    cradle_ranking,
    guilty_parameters,
    layer_distances,
    localise_fix,
)
from tensorproof.compare.fuzzing.discrepancy import Discrepancy
from tensorproof.compare.fuzzing.localising import localise_all
from tensorproof.compare.workers.fleet import Fleet

#: Networks in a case, and all of them.
LENGTH = 50
NETWORKS = 300
_QUICK = "networks 0 to 8"
#: Ours: bisection, the layer alone, delta debugging. AUDEE's algorithm 2, with our thresholds and with its own. CRADLE's ranking.
METHODS = ("tensorproof", "change rate, our thresholds", "AUDEE", "CRADLE")
_THRESHOLDS = {"change rate, our thresholds": Thresholds(), "AUDEE": AUDEE}


def cases(size: Size) -> Sequence[str]:
    if size == "quick":
        return (_QUICK,)
    return tuple(f"networks {start} to {start + LENGTH}" for start in range(0, NETWORKS, LENGTH))


def measured(case: str, size: Size) -> Json:
    started = cpu_seconds()
    _, first, _, end = case.split()
    with Fleet() as fleet:
        found = [{**_facts(entry), **named(fleet, entry)} for entry in islice(networks(int(end)), int(first), None)]
    return {"networks": found, "seconds": cpu_seconds() - started}


def _facts(case: Case) -> Json:
    return {"layers": len(case.test.layers), "faulty": [layer for layer, _ in case.faulty]}


def named(fleet: Fleet, case: Case) -> Json:
    """By method, the layers named, in order, and whether the parameters of the first fault are exactly those that it needs."""
    left, right = sides(fleet)
    first = case.faulty[0][0] if case.faulty else None
    needed = set(fault(case.faulty[0][1]).needed) if case.faulty else set[str]()
    found = localise_all(fleet, case.test, Discrepancy("value", LEFT, RIGHT, "other values"), (LEFT, RIGHT))
    parameters = {entry.layer: set(entry.parameters) for entry in found}
    result: Json = {"tensorproof": _named([str(entry.layer) for entry in found], parameters.get(first) == needed)}
    for method, thresholds in _THRESHOLDS.items():
        layers = localise_fix(case.test, left, right, thresholds)
        guilty = guilty_parameters(case.test, first, left, right, thresholds) if first is not None and first in layers else None
        result[method] = _named(layers, guilty is not None and set(guilty) == needed)
    distances = layer_distances(case.test, left, right)
    # It ranks all layers; as many are taken as faults were planted.
    result["CRADLE"] = _named(cradle_ranking(case.test.network, distances)[: len(case.faulty)], exact=False)
    return {**result, "runs": bool(distances)}


def _named(layers: Sequence[str], exact: bool) -> Json:
    return {"layers": list(layers), "exact": exact}


def section(results: Mapping[str, Json], size: Size) -> Section:
    results = {case: results[case] for case in cases(size) if case in results}
    every = [entry for result in results.values() for entry in result["networks"]]
    one, two = ([entry for entry in every if len(entry["faulty"]) == count] for count in (1, 2))
    healthy = [entry for entry in every if not entry["faulty"]]
    rows: list[tuple[str, ...]] = []
    figures: dict[str, float | int | str] = {"networks": len(every), "one fault": len(one), "two faults": len(two)}
    figures["healthy"] = len(healthy)
    for method in METHODS:
        firsts = [sum(entry[method]["layers"][:1] == entry["faulty"][:1] for entry in group) for group in (one, two)]
        exact = sum(entry[method]["exact"] for entry in (*one, *two))
        both = sum(set(entry["faulty"]) <= set(entry[method]["layers"]) for entry in two)
        wrong = sum(len(set(entry[method]["layers"]) - set(entry["faulty"])) for entry in (*one, *two))
        blamed = sum(bool(entry[method]["layers"]) for entry in healthy)
        ranks = method == "CRADLE"
        rows.append(
            (
                method,
                *(f"{right}/{len(group)}" for right, group in zip(firsts, (one, two), strict=True)),
                f"{both}/{len(two)}",
                "-" if ranks else f"{exact}/{len(one) + len(two)}",
                str(wrong),
                "-" if ranks else f"{blamed}/{len(healthy)}",
            )
        )
        figures |= {f"{method}: first": sum(firsts), f"{method}: both": both, f"{method}: wrong": wrong}
        if not ranks:
            figures |= {f"{method}: exact": exact, f"{method}: blamed": blamed}
    chances = [1 / entry["layers"] for entry in (*one, *two)]
    figures |= {"faulty": len(chances), "random: first": sum(chances)}
    stopped = sum(not entry["runs"] for entry in (*one, *two))
    return Section(
        "AUDEE, table 4: planted faults localised",
        (
            *("method", "one fault: named first", "two: first named first", "two: both named"),
            *("exact parameters", "healthy layers named", "healthy networks blamed"),
        ),
        tuple(rows),
        (
            ", ".join(
                f"{method} names the first fault first in {figures[f'{method}: first']} of {len(chances)}" for method in METHODS
            ),
            f"{len(every)} networks of {_span([entry['layers'] for entry in every])} layers; "
            f"a layer drawn at random is the first fault in {sum(chances):.1f} of {len(chances)} on average",
            f"in {stopped} of {len(chances)} the fault changes a shape, and the network fails on one side: "
            "change rates do not exist there, and count as not named",
        ),
        figures,
        paper=(
            "AUDEE names layers whose change rate exceeds 1000, or 2 if something differs before, and parameters whose default, "
            "one at a time, takes the difference away. CRADLE ranks layers by change rate, and names no parameters.",
        ),
        setup=(
            "Faults are planted, so that it is known what is right. AUDEE's and CRADLE's ways are written anew from their papers.",
            "Our thresholds of change rates are a fit to networks of this kind, these among them; tensorproof's own way has none.",
            "CRADLE has no threshold for layers: as many are taken as faults were planted, and healthy networks do not count.",
            "Parameters are those of the first fault.",
        ),
    )


def _span(numbers: Sequence[int]) -> str:
    return f"{min(numbers)} to {max(numbers)}" if numbers else "no"
