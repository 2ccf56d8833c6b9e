"""AUDEE's table 2: what tests find at each level, with the same number of tests for each way to choose them.

Input, weight, both: points around a trained network, chosen by AUDEE's genetic algorithm, by coverage (TensorFuzz) or at random; a
search ends at the first class that two backends do not share, or at NaN or infinity, or when its evaluations are spent.

Network: tests of a plan that covers pairs of parameter values, mostly of single layers; single layers with parameters drawn at
random; random networks; seed networks changed at random; each run once.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import cast

import numpy as np

from benchmarks.paper.table import Json, Section, Size
from benchmarks.timing import cpu_seconds
from tensorproof.compare.catalogue import Plan, PlanOptions, kinds, seed_networks
from tensorproof.compare.catalogue.mutating import changed_network
from tensorproof.compare.catalogue.networks import random_network
from tensorproof.compare.catalogue.singles import single_network
from tensorproof.compare.drawing import generator
from tensorproof.compare.fuzzing.campaign import EXPLAINED, EXPLAINED_DEATHS, rough_key
from tensorproof.compare.fuzzing.oracles import examine
from tensorproof.compare.fuzzing.searching.coverage_guided import search_by_coverage
from tensorproof.compare.fuzzing.searching.genetic import search_genetic
from tensorproof.compare.fuzzing.searching.goals import Goal, Labels, NotFinite
from tensorproof.compare.fuzzing.searching.searching import Ended, Search
from tensorproof.compare.fuzzing.searching.space import Level, Space, random_point
from tensorproof.compare.fuzzing.searching.trained import PIXELS
from tensorproof.compare.fuzzing.tasks import explain
from tensorproof.compare.spec import Dialect, TestSpec
from tensorproof.compare.workers.backend_id import BackendId
from tensorproof.compare.workers.fleet import Fleet

SEED = 0
LEVELS: tuple[Level, ...] = ("input", "weight", "both")
FORMATS = ("float32", "float16")
PAIRS = ("keras:torch keras:tensorflow", "keras:torch keras:openvino")
#: The network that points are searched around, and the evaluations and seeds of the searches.
NETWORK = "LeNet-5"
EVALUATIONS = 120
SEEDS = 4
GOALS = ("class", "nan")
#: Ways to choose networks, and how many of each.
SOURCES = ("plan", "random layers", "random networks", "changed seed networks")
TESTS: dict[Dialect, int] = {"keras": 60, "onnx": 150}
RUNTIMES = "onnxruntime openvino onnx-reference"
#: What the quick form has of all that.
_QUICK = f"input: {PAIRS[0]}: float16"
_QUICK_SEEDS = 2
_QUICK_METHODS = ("genetic", "random")
_QUICK_GOALS = ("class",)
_QUICK_TESTS = 60
#: Draws of parameters until some shape of input fits.
_TRIES = 50
#: A run hangs if it takes longer, however busy the machine is.
_TIME_LIMIT = 900.0


def cases(size: Size) -> Sequence[str]:
    # Seed networks are networks of Keras.
    on_runtimes = tuple(f"network: {RUNTIMES}: {source}" for source in SOURCES[:3])
    if size == "quick":
        return _QUICK, *on_runtimes[:2]
    searched = tuple(f"{level}: {pair}: {name}" for level, pair, name in product(LEVELS, PAIRS, FORMATS))
    return *searched, *(f"network: {PAIRS[0]}: {source}" for source in SOURCES), *on_runtimes


def measured(case: str, size: Size) -> Json:
    started = cpu_seconds()
    level, names, last = case.split(": ")
    backends = [BackendId.parse(name) for name in names.split()]
    with Fleet(time_limit=_TIME_LIMIT) as fleet:
        if level == "network":
            result = tested(fleet, backends, last, size)
        else:
            result = {"searches": list(searches(fleet, cast("Level", level), backends, last, size))}
    return {**result, "seconds": cpu_seconds() - started}


# Points around a trained network


def searches(fleet: Fleet, level: Level, backends: Sequence[BackendId], dtype: str, size: Size) -> Iterator[Json]:
    """All searches of a case, one after the other."""
    entry = seed_networks()[NETWORK]
    goals: dict[str, Goal] = {"class": Labels(backends[0], backends[1]), "nan": NotFinite(backends)}
    space = Space.of(level, entry.examples(), entry.weights(), PIXELS)
    full = GOALS, tuple(METHODS), range(SEEDS)
    for goal, method, seed in product(*(full if size == "full" else (_QUICK_GOALS, _QUICK_METHODS, range(_QUICK_SEEDS)))):
        deaths = fleet.deaths
        search = Search(fleet, TestSpec(entry.network, dtype=dtype), space, goals[goal], EVALUATIONS, seed)
        METHODS[method](search)
        facts = {"found": search.found, "evaluations": search.spent, "crashes": fleet.deaths - deaths}
        yield {"goal": goal, "method": method, "seed": seed, **facts, "closest": closest(search) if goal == "class" else None}


def closest(search: Search) -> float:
    """How near a search came to another class: the difference of the backends, as a share of the lead of the first class.

    From 1 on they may part: there the lead is rounding. Where it is nothing at all, neither class is the first, and none is found.
    """
    return 1.0 if search.found else float(f"{min(1.0, max(0.0, search.best.fitness)):.2g}")


def search_at_random(search: Search) -> None:
    """The start, then points anywhere in the box, until one fails or the budget is spent."""
    try:
        search.score(search.space.start)
        for number in range(search.evaluations):
            search.score(random_point(search.space, search.seed, number))
    except Ended:
        return


METHODS: dict[str, Callable[[Search], None]] = {
    "genetic": search_genetic,
    "coverage": search_by_coverage,
    "random": search_at_random,
}


# Networks


def tests(dialect: Dialect, source: str, count: int) -> Iterator[TestSpec]:
    """Networks, chosen in one of the ways."""
    plan = Plan(SEED, PlanOptions(dialects=(dialect,)))
    seeds = [entry.network for entry in seed_networks().values()]
    for number in range(count):
        random = generator("paper", source, number)
        if source == "plan":
            yield plan[number]
        elif source == "random layers":
            yield random_layer(plan[number], random)
        elif source == "random networks":
            yield TestSpec(random_network(dialect, random), number)
        else:
            yield TestSpec(changed_network(seeds[number % len(seeds)], random, int(random.integers(1, 4))), number)


def random_layer(like: TestSpec, random: np.random.Generator) -> TestSpec:
    """A layer of any kind with any legal parameters; number type, phase and scale are those of another test, where they fit."""
    listed = list(kinds(like.network.dialect).values())
    kind = listed[int(random.integers(len(listed)))]
    for _ in range(_TRIES):
        drawn = {name: entry.legal[int(random.integers(len(entry.legal)))] for name, entry in kind.parameters.items()}
        if kind.fitting(drawn):
            break
    else:
        drawn = kind.required
    network = single_network(kind, drawn, random)
    has_gradient = any(entry.dtype.startswith("float") for entry in network.inputs)
    phase = "inference" if like.phase == "gradient" and not has_gradient else like.phase
    return TestSpec(network, like.seed, like.dtype if like.dtype in kind.dtypes else "float32", phase, like.scale)


def tested(fleet: Fleet, backends: Sequence[BackendId], source: str, size: Size) -> Json:
    """Discrepancies by oracle, and the distinct findings that they come down to, explained as a campaign does it."""
    dialect: Dialect = "keras" if backends[0].name.startswith("keras:") else "onnx"
    chosen = list(tests(dialect, source, _QUICK_TESTS if size == "quick" else TESTS[dialect]))
    oracles: Counter[str] = Counter()
    seen: Counter[tuple[str, ...]] = Counter()
    findings: set[str] = set()
    for test in chosen:
        for entry in examine(fleet, test, backends):
            oracles[entry.oracle] += 1
            key = rough_key(test, entry)
            seen[key] += 1
            if seen[key] <= (EXPLAINED_DEATHS if entry.oracle == "death" else EXPLAINED):
                findings.add(explain(fleet, test, entry, list(backends)).signature)
    layers = sum(len(test.layers) for test in chosen)
    return {"tests": len(chosen), "layers": layers, "oracles": dict(sorted(oracles.items())), "findings": sorted(findings)}


# The table


def section(results: Mapping[str, Json], size: Size) -> Section:
    results = {case: results[case] for case in cases(size) if case in results}
    rows: list[tuple[str, ...]] = []
    figures: dict[str, float | int | str] = {}
    for case, result in results.items():
        level, names, last = case.split(": ")
        told = names.replace("keras:", "")
        if level != "network":
            rows += [_search_row(level, told, last, method, result) for method in METHODS if _of(result, method)]
            continue
        found = {"discrepancies": sum(result["oracles"].values()), "findings": len(result["findings"])}
        broken = [result["oracles"].get(oracle, 0) for oracle in ("nan", "death")]
        numbers = "all" if last in ("plan", "random layers") else "float32"
        counts = result["tests"], result["layers"], *found.values(), *broken
        rows.append((level, told, numbers, last, *map(str, counts), "-"))
        dialect = "keras" if names in PAIRS else "onnx"
        figures |= {f"{dialect}, {last}: {what}": count for what, count in found.items()}
    lines: list[str] = []
    for method in METHODS:
        runs = [run for case, result in results.items() if not case.startswith("network") for run in _of(result, method)]
        if runs:
            found = {goal: _found(runs, goal) for goal in GOALS}
            mean = statistics.mean(run["evaluations"] for run in runs if run["goal"] == "class")
            for goal, (count, searched) in found.items():
                figures |= {f"{method}: {goal}": count, f"{method}: searches for {goal}": searched}
            near = _closest(runs)
            figures |= {f"{method}: evaluations for a class": mean, f"{method}: closest": near}
            (changed, pairs), (broken, others) = found.values()
            told = f"{changed} of {pairs} searches change a class, {broken} of {others} others reach NaN or infinity"
            lines.append(f"{method}: {told}; {mean:.0f} evaluations on average for a class, closest {near:.2g} in the middle")
    figures["seconds"] = sum(result["seconds"] for result in results.values())
    return Section(
        "AUDEE, table 2: discrepancies by level",
        ("level", "backends", "numbers", "method", "tests", "layers", "discrepancies", "findings", "NaN", "crashes", "closest"),
        tuple(rows),
        tuple(lines),
        figures,
        paper=("AUDEE searches at the levels of inputs, weights and networks for inconsistencies, NaN and crashes.",),
        setup=(
            f"Points are searched around {NETWORK}, with at most {EVALUATIONS} evaluations a search, each of four digits.",
            "At input, weight and both, discrepancies are searches that end with a class that the two backends do not share: "
            "rounding near a tie, which is no defect of either. Closest is the difference of the backends over the lead of the "
            "first class, at most 1, the median of the searches. NaN are searches that end with NaN or infinity on any backend.",
            "At the network level, a finding is a layer with the parameters that it needs, and a symptom; scripts are not "
            "run here. Plan and random layers have all number types and phases, the plan also illegal values and networks; the "
            "others are inference in float32, and test several layers at once.",
        ),
    )


def _of(result: Json, method: str) -> list[Json]:
    return [run for run in result["searches"] if run["method"] == method]


def _found(runs: Sequence[Json], goal: str) -> tuple[int, int]:
    """Searches that found what they looked for, and all of them."""
    own = [run for run in runs if run["goal"] == goal]
    return sum(bool(run["found"]) for run in own), len(own)


def _closest(runs: Sequence[Json]) -> float:
    return statistics.median(run["closest"] for run in runs if run["goal"] == "class")


def _search_row(level: str, names: str, numbers: str, method: str, result: Json) -> tuple[str, ...]:
    runs = _of(result, method)
    changed, broken = (f"{count}/{searched}" if searched else "-" for count, searched in (_found(runs, goal) for goal in GOALS))
    spent, crashes = (sum(run[name] for run in runs) for name in ("evaluations", "crashes"))
    return level, names, numbers, method, str(spent), "-", changed, "-", broken, str(crashes), f"{_closest(runs):.2g}"
